r"""Sources of statistics for Boltzmann machines: the data less what the model expects, and what is watched.

    slope W = mean v p(h | v)' - mean (v h')_model,     slope b = mean v - mean v_model,  and so on

where a negative phase says what the model expects (`unit_phases`). The value is the mean score of the data,
-F(v), less that of the phase: for beliefs the (Bethe or mean-field) log-likelihood, for margins minus the
loss that is bounded, for chains a difference that is zero on average at the optimum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..inference.messages.layer_batch import layer_joint_states, layer_states, layer_sums
from ..inference.variational.layer_mean_field import layer_means
from ..kernels.boltzmann import sigmoid, softplus_sums
from ..models.unit_rows import UnitRows, UnitScores, UnitStatistics
from .log_linear import StatisticsSource
from .unit_phases import NegativePhase

__all__ = ["FreeEnergyGap", "UnitContrast", "UnitErrors", "UnitPseudolikelihood"]

_WATCHED = 1000  # rows that curves are computed on


@dataclass
class UnitContrast(StatisticsSource):
    """The data less a negative phase."""

    phase: NegativePhase  # what the model expects
    most: int  # rows of one evaluation: the mean over more is that over the first
    is_centred: bool = False  # whether slopes are those of centred units
    is_drawn: bool = False  # whether rows are probabilities, of which states are drawn

    @property
    def memory(self) -> tuple[Any, ...]:  # type: ignore[override]
        """What evaluations change."""
        return (self.phase,)

    def evaluate(self, scores: UnitScores, batch: UnitRows) -> tuple[float, UnitStatistics]:
        """Both phases, and their difference."""
        rows = len(batch)
        if rows > self.most:
            few = batch.take(slice(0, self.most))
            cut = UnitScores(scores.weights, *(f if f.ndim == 1 else f[: self.most] for f in scores[1:]))
            value, found = self.evaluate(cut, few)
            return value, _spread(found, rows)
        phase = self.phase
        if self.is_drawn:
            batch = UnitRows(phase.on(batch.v), batch.x)
        v = batch.v
        inputs = phase.inputs(scores, v)
        hidden = sigmoid(inputs)
        seen = v if phase.scale is None else v * phase.scale
        negative = phase(scores, batch, hidden)
        if phase.has_joint_data:
            hidden = (inputs > 0).astype(inputs.dtype)
        left, right = negative.left, negative.right
        expected = left if phase.scale is None else left * phase.scale
        pairs = seen.T @ (hidden / rows)  # a layer is divided faster than all pairs are
        if negative.pairs is None:
            pairs -= expected.T @ (right / len(left))
        else:
            pairs -= negative.pairs / len(left)
        offsets = (_mean(v), _mean(hidden)) if self.is_centred else None
        if scores.left.ndim == 2:
            found = UnitStatistics(pairs, (v - left) / rows, (hidden - right) / rows, None)
        else:
            means = (_mean(v) - _mean(left), _mean(hidden) - _mean(right))
            found = UnitStatistics(pairs, *means, offsets)
        return self._value(scores, batch, inputs, hidden, negative), found

    def _value(
        self, scores: UnitScores, batch: UnitRows, inputs: np.ndarray, hidden: np.ndarray, negative: Any
    ) -> float:
        phase = self.phase
        if phase.has_joint_data:
            own = float(((batch.v * scores.left).sum(axis=1) + (inputs * hidden).sum(axis=1)).mean())
            return own - negative.value()
        score = phase.told if phase.kind in ("cd", "random-cd", "pcd") else phase.score
        return score(scores, batch.v, inputs) - negative.value()


def _spread(found: UnitStatistics, rows: int) -> UnitStatistics:
    """Slopes of the first rows as those of all."""
    if found.left.ndim == 1:
        return found
    more = rows - len(found.left)
    left, right = (np.pad(part, ((0, more), (0, 0))) for part in (found.left, found.right))
    return found._replace(left=left, right=right)


def _mean(rows: np.ndarray) -> np.ndarray:
    """The mean row, as a product of matrices."""
    return np.full(len(rows), 1 / len(rows), rows.dtype) @ rows  # type: ignore[no-any-return]


class _Watched(StatisticsSource):
    """A number that is shown, and never climbed."""

    def evaluate(self, scores: UnitScores, batch: UnitRows) -> tuple[float, Any]:
        """The value; it has no slopes that anybody asks for."""
        weights, left, right = (np.zeros_like(part) for part in scores)
        return self.value(scores, batch), UnitStatistics(weights, left, right)

    @staticmethod
    def few(scores: UnitScores, batch: UnitRows) -> tuple[UnitScores, UnitRows]:
        """The first rows."""
        cut = [f if f.ndim == 1 else f[:_WATCHED] for f in scores[1:]]
        return UnitScores(scores.weights, *cut), batch.take(slice(0, _WATCHED))


@dataclass
class UnitPseudolikelihood(_Watched):
    """log p(v_i | the others) of one unit i of every row, times the number of units; the same i each time."""

    phase: NegativePhase  # which knows how inputs are made

    def value(self, scores: UnitScores, batch: UnitRows) -> float:
        """The mean over some rows."""
        scores, batch = self.few(scores, batch)
        v = batch.v
        unit = np.random.default_rng(0).integers(v.shape[1], size=len(v))
        at = np.arange(len(v))
        if self.phase.scale is not None:
            return self.phase.score(scores, v)  # numbers of the line have no other state
        inputs, weights = self.phase.inputs(scores, v), scores.weights[unit]
        without = inputs - weights * v[at, unit][:, None]
        odds = np.broadcast_to(scores.left, v.shape)[at, unit]
        odds = odds + softplus_sums(without + weights) - softplus_sums(without)
        odds = odds.astype(np.float64)
        own = v[at, unit] * odds - np.logaddexp(0.0, odds)
        return float(own.mean() * v.shape[1])


@dataclass
class FreeEnergyGap(_Watched):
    """The mean score of rows less that of rows to learn from: log Z cancels, and overfitting lowers it."""

    phase: NegativePhase  # which knows how scores are made
    data: UnitRows  # to learn from

    def value(self, scores: UnitScores, batch: UnitRows) -> float:
        """A difference of two means."""
        return self.phase.score(*_pair(scores, batch)) - self.phase.score(*_pair(scores, self.data))


def _pair(scores: UnitScores, batch: UnitRows) -> tuple[UnitScores, np.ndarray]:
    return scores, batch.v[: 10 * _WATCHED]


@dataclass
class UnitErrors(_Watched):
    """Minus the share of visible units that are wrong when they are predicted from the features."""

    phase: NegativePhase  # whose kind says how: what was learned by one method is predicted by it

    def value(self, scores: UnitScores, batch: UnitRows) -> float:
        """The mean over some rows."""
        scores, batch = self.few(scores, batch)
        left, right = np.atleast_2d(scores.left), np.atleast_2d(scores.right)
        sweeps = self.phase.sweeps + self.phase.calls // self.phase.per_epoch
        kind = self.phase.kind
        if kind == "bp":
            states = layer_sums(scores.weights, left, right, sweeps, 1e-3).left > 0.5
        elif kind == "margin":
            states = layer_states(scores.weights, left, right, sweeps).left > 0.5
        elif kind in ("joint-margin", "icm-margin"):
            states = layer_joint_states(scores.weights, left, right, sweeps, 1e-3).left > 0.5
        else:
            states = layer_means(scores.weights, left, right, max(sweeps, 10), 1e-3).left > 0.5
        return -float((states != (batch.v > 0.5)).mean())
