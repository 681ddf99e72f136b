r"""Factorial hidden Markov models: several hidden chains that speak through one observation.

    p(s, x) = prod_m start^m(s^m_1) prod_t transition^m(s^m_{t-1}, s^m_t)   prod_t p(x_t | s^1_t, ..., s^M_t)

Given the data the chains depend on each other. Three answers are offered:

* exact: one hidden Markov model over the product of all states;
* structured mean field: q = prod_m q^m(s^m), each a chain of its own, updated by forward-backward with the
  expected log density of the data given the other chains as its scores;
* fully factored mean field: q = prod_m prod_t q^m_t(s^m_t).

Both mean fields climb a lower bound of the log-likelihood, by one block of coordinates at a time, so that it
never falls; the structured one is the tighter of the two at their best.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Literal

import numpy as np

from ..core import check
from ..core.display import Listing, Shown
from ..core.errors import ModelError, UnsupportedError
from ..core.instance import Instance
from ..core.records import register
from ..core.result import Estimate, Status
from ..data.dataset import Dataset
from ..data.sequences import read_sequences
from ..families.base import Family
from ..families.gaussian import TiedGaussian
from ..kernels.scaled_chains import smooth_chains
from ..optimise.driver import Outcome, Step, drive
from ..optimise.run import Budget, Run, noted
from .hidden_chain import moves
from .hmm import HMM
from .hmm_parameters import probability_rows

__all__ = ["FactorialHMM", "FactorialPosterior"]

Method = Literal["exact", "structured", "factored"]


@dataclass(frozen=True)
class FactorialPosterior:
    """Marginals of every chain and what is known about the log-likelihood."""

    log_likelihood: Estimate  # of all sequences together: exact, or a lower bound
    marginals: tuple[np.ndarray, ...]  # per chain, (positions, states of the chain)
    status: Status = Status.EXACT  # why the iteration stopped
    trace: np.ndarray = field(default_factory=lambda: np.zeros(0))  # the bound after each sweep


@register("FactorialHMM", fields=["starts", "transitions", "emission"])
class FactorialHMM(Shown):
    """Several hidden chains with one emission; immutable.

    Parameters
    ----------
    starts, transitions
        One array per chain, as of an `HMM`.
    emission
        A family with one member per joint state, in C order: the state of the last chain changes fastest.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.models.factorial_hmm import FactorialHMM
    >>> half, sticky = [0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]]
    >>> effects = [[[0.0], [1.0]], [[0.0], [3.0]]]
    >>> model = FactorialHMM.additive([half, half], [sticky, sticky], effects, [[0.1]])
    >>> found = model.posterior([[0.0], [1.0], [4.0], [3.0]])
    >>> found.marginals[0].argmax(axis=1), found.marginals[1].argmax(axis=1)
    (array([0, 1, 1, 0]), array([0, 0, 1, 1]))
    """

    def __init__(self, starts: Sequence[Any], transitions: Sequence[Any], emission: Family) -> None:
        if not len(starts) or len(starts) != len(transitions):
            raise ModelError(
                f"chains: expected as many starts as transitions and at least one, "
                f"got {len(starts)} and {len(transitions)}"
            )
        self._starts = tuple(probability_rows("start", start, 1) for start in starts)
        self._transitions = tuple(probability_rows("transition", step, 2) for step in transitions)
        for m, (start, step) in enumerate(zip(self._starts, self._transitions, strict=True)):
            if step.shape != (len(start), len(start)):
                raise ModelError(
                    f"transition of chain {m}: expected shape {(len(start), len(start))}, got {step.shape}"
                )
        if not isinstance(emission, Family) or len(emission) != prod(self.shape):
            size = len(emission) if isinstance(emission, Family) else type(emission).__name__
            raise ModelError(
                f"emission: expected {prod(self.shape)} members, one per joint state, got {size}"
            )
        self._emission = emission

    @classmethod
    def additive(
        cls, starts: Sequence[Any], transitions: Sequence[Any], effects: Sequence[Any], covariance: Any
    ) -> FactorialHMM:
        """Gaussian rows whose mean is the sum of one effect (states of the chain, d) per chain."""
        parts = [check.finite_numbers(f"effect of chain {m}", effect) for m, effect in enumerate(effects)]
        wrong = [m for m, part in enumerate(parts) if part.ndim != 2 or part.shape[1:] != parts[0].shape[1:]]
        if wrong or not parts:
            got = f"shape {parts[wrong[0]].shape} for chain {wrong[0]}" if wrong else "none"
            raise ModelError(f"effects: expected arrays (states of the chain, d) with one d, got {got}")
        mean = np.zeros((1, parts[0].shape[1]))
        for part in parts:
            mean = (mean[:, None, :] + part[None]).reshape(-1, mean.shape[1])
        return cls(starts, transitions, TiedGaussian(mean, covariance))

    @property
    def starts(self) -> tuple[np.ndarray, ...]:
        """Per chain, (states,)."""
        return self._starts

    @property
    def transitions(self) -> tuple[np.ndarray, ...]:
        """Per chain, (states, states)."""
        return self._transitions

    @property
    def emission(self) -> Any:
        """The family of emissions, one member per joint state."""
        return self._emission

    @property
    def shape(self) -> tuple[int, ...]:
        """States of each chain."""
        return tuple(len(start) for start in self._starts)

    def to_hmm(self) -> HMM:
        """The hidden Markov model over the product of all states."""
        start, step = np.ones(1), np.ones((1, 1))
        for first, move in zip(self._starts, self._transitions, strict=True):
            start, step = np.kron(start, first), np.kron(step, move)
        return HMM(start, step, self._emission)

    def sequences(self, x: Any, lengths: Any = None, mask: Any = None, **reading: Any) -> Dataset:
        """Data as the emission works on them; see `data.read_sequences`."""
        return read_sequences(x, self._emission, lengths=lengths, mask=mask, **reading)

    def instantiate(self, x: Any, lengths: Any = None, mask: Any = None, **reading: Any) -> Instance:
        """The hidden states of these sequences: chains over the product of all states, with its shape."""
        data = self.sequences(x, lengths, mask, **reading)
        return self.hidden(self._emission.log_density(data.rows()), data.begin).weighed(data.weights)

    def hidden(self, scores: np.ndarray, begin: np.ndarray, first: int = 0) -> Instance:
        """Chains with these log scores (rows, joint states)."""
        return replace(self.to_hmm().hidden(scores, begin, first), shape=self.shape)

    def log_likelihood(self, x: Any, lengths: Any = None, *, mask: Any = None) -> float:
        """Exact total log-likelihood of all sequences."""
        return self.to_hmm().log_likelihood(self.sequences(x, lengths, mask))

    @noted
    def sample(self, lengths: int | Any, *, seed: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Rows and hidden states (positions, chains) of new sequences."""
        x, joint = self.to_hmm().sample(lengths, seed=seed)
        return x, np.stack(np.unravel_index(joint, self.shape), axis=1)

    def posterior(
        self,
        x: Any,
        lengths: Any = None,
        method: Method = "exact",
        *,
        mask: Any = None,
        max_iter: int = 200,
        tol: float = 1e-8,
        seed: Any = None,
    ) -> FactorialPosterior:
        """Marginals of every chain, exact or by mean field.

        Parameters
        ----------
        x, lengths, mask
            The sequences; see `HMM.posterior`.
        method
            `"exact"`, `"structured"` or `"factored"`.
        max_iter, tol
            Of mean field: sweeps, and the largest change of a belief that counts as none.
        seed
            Of the random start of mean field, which breaks the symmetry of equal chains.
        """
        check.one_of("method", method, ["exact", "structured", "factored"])
        check.whole("max_iter", max_iter, 0)
        check.at_least("tol", tol, 0)
        data = self.sequences(x, lengths, mask)
        if method == "exact":
            found = self.to_hmm().posterior(data)
            joint = found.marginals.reshape(-1, *self.shape)
            axes = range(1, joint.ndim)
            parts = tuple(
                joint.sum(axis=tuple(a for a in axes if a != m + 1)) for m in range(len(self.shape))
            )
            return FactorialPosterior(Estimate(float(found.log_likelihoods.sum()), "exact"), parts)
        scores = self._emission.log_density(data.rows()).reshape(-1, *self.shape)
        self._check_positive(scores, method)
        field_of = _Structured if method == "structured" else _Factored
        mean_field = field_of(self, scores, data.begin, seed)
        found = drive(_Sweeps(), mean_field, Budget(max_iter, tol), whole=False)
        return found  # type: ignore[no-any-return]

    def _check_positive(self, scores: np.ndarray, method: Method) -> None:
        """A mean field has no finite bound where a zero meets a positive belief."""
        if not np.isfinite(scores).all():
            raise UnsupportedError(
                f"{method} mean field cannot treat this model: an emission has probability zero, so its "
                "expected logarithm is -inf; use the exact method"
            )
        zero = any((a == 0).any() for a in (*self._starts, *self._transitions))
        if method == "factored" and zero:
            raise UnsupportedError(
                "factored mean field cannot treat this model: a start or transition has probability zero; "
                "use the structured or the exact method"
            )

    def _shown(self) -> Iterable[str | Listing]:
        yield repr(self)
        for m, (start, step) in enumerate(zip(self._starts, self._transitions, strict=True)):
            yield replace(moves(start, step), title=f"chain {m}")

    def __repr__(self) -> str:
        return f"FactorialHMM(chains of {self.shape} states, {self._emission!r})"


def _expected(scores: np.ndarray, beliefs: list[np.ndarray], but: int | None) -> np.ndarray:
    """Scores (positions, states...) averaged over the beliefs of all chains but one."""
    out = scores
    for m in range(len(beliefs) - 1, -1, -1):
        if m != but:
            shape = (len(scores), *[1] * m, -1, *[1] * (out.ndim - m - 2))
            out = (out * beliefs[m].reshape(shape)).sum(axis=m + 1)
    return out


class _Structured:
    """One chain of its own per hidden chain."""

    def __init__(self, model: FactorialHMM, scores: np.ndarray, start: np.ndarray, seed: Any) -> None:
        self.model, self.scores, self.start = model, scores, start
        self.beliefs = _random_beliefs(model.shape, len(scores), seed)
        self._chain_terms = [0.0] * len(model.shape)  # E[log p(s^m)] + H[q^m]

    def sweep(self) -> float:
        """Update every chain once; the bound."""
        for m, (first, step) in enumerate(zip(self.model.starts, self.model.transitions, strict=True)):
            fields = np.ascontiguousarray(_expected(self.scores, self.beliefs, m))
            found = smooth_chains(first, step, fields, self.start)
            self.beliefs[m] = found.marginals
            self._chain_terms[m] = float(found.log_z.sum() - (found.marginals * fields).sum())
        return float(_expected(self.scores, self.beliefs, None).sum()) + sum(self._chain_terms)


class _Factored:
    """One belief per chain and step; even and odd steps of a chain are updated in turn.

    Steps of equal parity do not meet in any factor given the others, so together they are one block.
    """

    def __init__(self, model: FactorialHMM, scores: np.ndarray, start: np.ndarray, seed: Any) -> None:
        self.model, self.scores = model, scores
        self.beliefs = _random_beliefs(model.shape, len(scores), seed)
        filled = np.diff(start) > 0
        self._first = np.zeros(len(scores), bool)
        self._first[start[:-1][filled]] = True
        self._last = np.zeros(len(scores), bool)
        self._last[start[1:][filled] - 1] = True
        step = np.arange(len(scores)) - np.repeat(start[:-1], np.diff(start))
        self._odd = step % 2 == 1

    def sweep(self) -> float:
        """Update every belief once; the bound."""
        for m, (first, step) in enumerate(zip(self.model.starts, self.model.transitions, strict=True)):
            fields = _expected(self.scores, self.beliefs, m)
            for odd in (False, True):
                own = np.flatnonzero(self._odd == odd)
                logs = fields[own] + self._neighbours(self.beliefs[m], np.log(first), np.log(step), own)
                new = np.exp(logs - logs.max(axis=1, keepdims=True))
                self.beliefs[m][own] = new / new.sum(axis=1, keepdims=True)
        return self._bound()

    def _neighbours(
        self, q: np.ndarray, log_first: np.ndarray, log_step: np.ndarray, own: np.ndarray
    ) -> np.ndarray:
        before = np.where(self._first[own, None], log_first, q[own - 1] @ log_step)
        after = q[(own + 1) % len(q)] @ log_step.T
        return before + np.where(self._last[own, None], 0.0, after)

    def _bound(self) -> float:
        total = float(_expected(self.scores, self.beliefs, None).sum())
        inside = np.flatnonzero(~self._first)
        for q, first, step in zip(self.beliefs, self.model.starts, self.model.transitions, strict=True):
            total += float((q[self._first] @ np.log(first)).sum())
            total += float(((q[inside - 1] @ np.log(step)) * q[inside]).sum())
            total -= float((q * np.log(np.where(q > 0, q, 1.0))).sum())
        return total


def _random_beliefs(shape: tuple[int, ...], rows: int, seed: Any) -> list[np.ndarray]:
    rng = check.generator(seed)
    return [rng.dirichlet(np.full(size, 5.0), size=rows) for size in shape]


class _Sweeps:
    """Mean field as the driver sees it: sweeps that change the beliefs in their place.

    The residual is the largest change of a belief.
    """

    name = "factorial mean field"

    def start(self, mean_field: _Structured | _Factored, run: Run) -> Step:
        return Step(-np.inf)  # the bound

    def advance(self, mean_field: _Structured | _Factored, state: float, run: Run) -> Step:
        before = [q.copy() for q in mean_field.beliefs]
        bound = mean_field.sweep()
        change = max(np.abs(q - p).max(initial=0.0) for p, q in zip(before, mean_field.beliefs, strict=True))
        return Step(bound, [change], {"bound": [bound]})

    def read(self, mean_field: _Structured | _Factored, outcome: Outcome) -> FactorialPosterior:
        bounds = np.array(outcome.trace.get("bound", []))
        value = Estimate(outcome.state, "lower")
        return FactorialPosterior(value, tuple(mean_field.beliefs), outcome.ended, bounds)
