r"""What the model of a Boltzmann machine expects: the negative phases of learning.

    cd            k sweeps of Gibbs sampling from the data          random-cd   from random states
    pcd           sweeps of chains that are carried on              perc-loss   the state of least free energy
                                                                    on a way that begins without hidden units
    mean-field, tap, bp     probabilities by these methods
    margin        the best v, hidden units summed, of weights with the loss of v added (MSSVM)
    joint-margin  the best v and h by max-product (LSSVM);   icm-margin   by coordinate steps

With the loss, the number of wrong units, every field of a visible unit becomes b_i + 1 - 2 v_i. The margins
of joint states compare with the best h of the data, all others with p(h | v).

A phase is given scores and rows and returns rows of both layers, or their sums of pairs; the source subtracts
these from what the data say (`unit_sources`). Source: Hinton (2002); Tieleman (2008); Mnih, Larochelle and
Hinton (2011); Ping and Ihler (2017).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..core.records import record
from ..inference.messages.layer_batch import layer_joint_states, layer_states, layer_sums
from ..inference.variational.layer_mean_field import layer_means
from ..kernels.boltzmann import binary_entropy, draw_units, sigmoid, softplus_sums
from ..models.unit_rows import UnitRows, UnitScores

__all__ = ["GIBBS", "MARGINS", "PHASES", "Negative", "NegativePhase"]

_SETTLED = 1e-3  # change of a belief below which its sweeps end
_TOLD = 10  # rows of a batch that the value is computed on where chains only estimate it
_GROWTH = 1  # sweeps more that beliefs get in every epoch

GIBBS = ("cd", "random-cd", "pcd", "perc-loss")
MARGINS = ("margin", "joint-margin", "icm-margin")
_BELIEFS = ("mean-field", "tap", "bp")
PHASES = (*GIBBS, *_BELIEFS, *MARGINS)


class Negative(NamedTuple):
    """What the model expects."""

    left: np.ndarray  # (rows, visible)
    right: np.ndarray  # (rows, hidden)
    value: Callable[[], float]  # the mean over rows of what is subtracted from the score of the data
    pairs: np.ndarray | None = None  # (visible, hidden) sums over rows; None: left'right


@record("negative phase", kept=("rng", "chains", "calls", "settled"))
@dataclass
class NegativePhase:
    """A way to see what the model expects; chains and generators are its own."""

    kind: str  # one of PHASES
    rng: np.random.Generator  # of the run
    sweeps: int  # of Gibbs sampling, or of beliefs in the first epoch
    particles: int  # chains that are carried on
    per_epoch: int  # calls of an epoch
    scale: np.ndarray | None = None  # 1 / s^2 of real visible units
    chains: np.ndarray | None = None  # hidden states of those that are carried on
    calls: int = 0  # so far
    settled: tuple[float, int] = (0.0, 0)  # rows whose beliefs settled in this epoch, and all rows

    @property
    def has_joint_data(self) -> bool:
        """Whether data are compared by their best hidden state."""
        return self.kind in ("joint-margin", "icm-margin")

    def inputs(self, scores: UnitScores, v: np.ndarray) -> np.ndarray:
        """Log-odds of hidden units."""
        seen = v if self.scale is None else v * self.scale
        found: np.ndarray = seen @ scores.weights
        found += scores.right
        return found

    def score(self, scores: UnitScores, v: np.ndarray, inputs: np.ndarray | None = None) -> float:
        """The mean of -F(v); the inputs of hidden units may be known already."""
        own = (v * scores.left).sum(axis=-1) if self.scale is None else (
            -0.5 * (v - scores.left) ** 2 @ self.scale
        )  # fmt: skip
        return float((own + softplus_sums(self.inputs(scores, v) if inputs is None else inputs)).mean())

    def told(self, scores: UnitScores, v: np.ndarray, inputs: np.ndarray) -> float:
        """The same for a few rows: where chains only estimate it, these show whether it is finite."""
        few = scores if scores.left.ndim == 1 else scores._replace(left=scores.left[:_TOLD])
        return self.score(few, v[:_TOLD], inputs[:_TOLD])

    def __call__(self, scores: UnitScores, batch: UnitRows, hidden: np.ndarray) -> Negative:
        """What the model expects, for these rows and probabilities of their hidden units."""
        if self.calls % self.per_epoch == 0:
            self.settled = (0.0, 0)
        epoch = self.calls // self.per_epoch
        self.calls += 1
        if self.kind in GIBBS:
            return self._drawn(scores, batch, hidden)
        sweeps = self.sweeps + _GROWTH * epoch
        return self._margin(scores, batch, sweeps) if self.kind in MARGINS else self._believed(scores, sweeps)

    # Chains.

    def on(self, p: np.ndarray) -> np.ndarray:
        """States drawn with these probabilities."""
        return draw_units(p, self.rng)

    def _visible(self, scores: UnitScores, h: np.ndarray) -> np.ndarray:
        means: np.ndarray = h @ scores.weights.T
        means += scores.left
        if self.scale is None:
            return self.on(sigmoid(means))
        return means + self.rng.standard_normal(means.shape, dtype=means.dtype) / np.sqrt(self.scale)  # type: ignore[arg-type]

    def _drawn(self, scores: UnitScores, batch: UnitRows, hidden: np.ndarray) -> Negative:
        if self.kind == "perc-loss":
            fields = np.broadcast_to(scores.left, batch.v.shape)
            return self._least(scores, self.on(sigmoid(fields)))
        h = self._begun(scores, batch, hidden)
        for turn in range(self.sweeps):
            v = self._visible(scores, h)
            inputs = self.inputs(scores, v)
            p = sigmoid(inputs)
            if turn < self.sweeps - 1 or self.kind == "pcd":
                h = self.on(p)
        if self.kind == "pcd":
            self.chains = h
        return Negative(v, p, lambda: self.told(scores, v, inputs))

    def _begun(self, scores: UnitScores, batch: UnitRows, hidden: np.ndarray) -> np.ndarray:
        """Hidden states that chains begin at."""
        if self.kind == "random-cd":
            flat = np.full(batch.v.shape, 0.5, scores.weights.dtype)
            return self.on(sigmoid(self.inputs(scores, self.on(flat))))
        if self.kind == "cd" or self.chains is None:
            h = self.on(hidden)
        if self.kind == "cd":
            return h
        if self.chains is None:
            self.chains = h[self.rng.integers(len(h), size=self.particles)]
        return self.chains

    def _least(self, scores: UnitScores, v: np.ndarray) -> Negative:
        """The state of least free energy on the way of every row."""
        best, least = v, np.full(len(v), -np.inf)
        for turn in range(self.sweeps + 1):
            inputs = self.inputs(scores, v)
            value = (v * scores.left).sum(axis=1) + softplus_sums(inputs)
            better = value > least
            best, least = np.where(better[:, None], v, best), np.where(better, value, least)
            if turn < self.sweeps:
                v = self._visible(scores, self.on(sigmoid(inputs)))
        return Negative(best, sigmoid(self.inputs(scores, best)), lambda: float(least.mean()))

    # Beliefs.

    def _believed(self, scores: UnitScores, sweeps: int) -> Negative:
        left, right = np.atleast_2d(scores.left), np.atleast_2d(scores.right)
        if self.kind == "bp":
            kind = scores.weights.dtype.type
            found = layer_sums(scores.weights, left, right, sweeps, _SETTLED, kind=kind)
            self._count(found.change)
            return Negative(found.left, found.right, lambda: float(found.values.mean()), found.pairs)
        means = layer_means(scores.weights, left, right, sweeps, _SETTLED, tap=self.kind == "tap")
        self._count(means.change)
        p, r = means.left, means.right

        def value() -> float:
            energy = (left * p).sum(axis=1) + (right * r).sum(axis=1) + ((p @ scores.weights) * r).sum(axis=1)
            return float((energy + binary_entropy(p).sum(axis=1) + binary_entropy(r).sum(axis=1)).mean())

        return Negative(p, r, value)

    def _count(self, change: np.ndarray) -> None:
        done, rows = self.settled
        self.settled = (done + float((change < _SETTLED).sum()), rows + len(change))

    # Margins.

    def _margin(self, scores: UnitScores, batch: UnitRows, sweeps: int) -> Negative:
        left = scores.left + 1 - 2 * batch.v
        right = np.broadcast_to(scores.right, (len(batch), scores.weights.shape[1]))
        kind = scores.weights.dtype.type
        if self.kind == "margin":
            found: Any = layer_states(scores.weights, left, right, sweeps, kind)
        elif self.kind == "joint-margin":
            found = layer_joint_states(scores.weights, left, right, sweeps, _SETTLED, kind)
        else:
            found = _coordinate_steps(scores.weights, left, right, sweeps)
        loss = batch.v.sum(axis=1)
        return Negative(found.left, found.right, lambda: float((found.values + loss).mean()))


class _Stepped(NamedTuple):
    left: np.ndarray
    right: np.ndarray
    values: np.ndarray


def _coordinate_steps(weights: np.ndarray, left: np.ndarray, right: np.ndarray, sweeps: int) -> _Stepped:
    """Both layers in turn to their best states given the other, from v without hidden units."""
    v = (left > 0).astype(weights.dtype)
    h = np.zeros_like(right)
    for _ in range(sweeps):
        h = (v @ weights + right > 0).astype(weights.dtype)
        new = (h @ weights.T + left > 0).astype(weights.dtype)
        if np.array_equal(new, v):
            break
        v = new
    h = (v @ weights + right > 0).astype(weights.dtype)
    return _Stepped(v, h, (left * v).sum(axis=1) + ((v @ weights + right) * h).sum(axis=1))
