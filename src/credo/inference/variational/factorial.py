r"""Mean field for several hidden chains that speak through one row of data.

* structured: q = prod_m q^m(s^m), each a chain of its own, updated by forward-backward with the expected
  score of the rows given the other chains;
* factored: q = prod_m prod_t q^m_t(s^m_t); even and odd steps of a chain are updated in turn, since steps of
  equal parity do not meet in any factor given the others, so that together they are one block.

Both climb a lower bound of log Z, by one block of coordinates at a time, so that it never falls; the
structured one is the tighter of the two at their best. What `mean-field` and `structured-mean-field` do for
any graph is done here on the two arrays of an instance, O(rows states of one chain^2).
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.instance import Instance
from ...core.records import record
from ...core.result import Result
from ...kernels.scaled_chains import smooth_chains
from ...optimise.driver import Outcome, Step
from ...optimise.run import Run
from .descent import Descents

__all__ = ["FactorialDescents", "FactorialState", "why_not"]

_RANDOM = "the chains began at random: a probability is zero, which independent steps would meet"
_CONCENTRATION = 5.0  # of random beliefs: they break the symmetry of equal chains


@record("factorial mean field")
class FactorialState(NamedTuple):
    """Beliefs about every chain."""

    beliefs: tuple[np.ndarray, ...]  # per chain, (rows, states of the chain)
    free_energy: float  # of these beliefs
    sweeps: int | None = None  # over independent steps done so far, on the way to where chains begin


def why_not(instance: Instance, *, is_structured: bool) -> str | None:
    """A mean field has no finite bound where a zero meets a positive belief."""
    if not np.isfinite(instance.scores).all():
        return "an emission has probability zero, so its expected logarithm is -inf; name no method"
    if not is_structured and _has_zeros(instance):
        return "a start or transition has probability zero; use structured-mean-field, or name no method"
    return None


def _has_zeros(instance: Instance) -> bool:
    return any(bool((table == 0).any()) for table in instance.tables.values())


class FactorialDescents(Descents[FactorialState]):
    """Descents over the chains of an instance.

    Parameters
    ----------
    name, restarts, rng
        Of the algorithm; see `Descents`.
    order
        Of the chains within a sweep, `"sequential"` or `"random"`.
    chains
        Where joint beliefs of chains begin, `"mean-field"` or `"random"`; None is independent steps.
    warm
        Beliefs per chain at which the first descent begins instead.
    """

    def __init__(
        self,
        name: str,
        restarts: int,
        rng: np.random.Generator,
        order: str,
        chains: str | None = None,
        warm: Sequence[np.ndarray] | None = None,
    ) -> None:
        super().__init__(name, restarts, rng)
        self._order, self._chains, self._warm = order, chains, warm

    def begin(self, problem: Instance, number: int, rng: np.random.Generator) -> FactorialState:
        """Random beliefs; where a zero forbids independent steps, chains with random others."""
        if self._warm is not None and number == 0:
            return self.sweep(problem, FactorialState(tuple(self._warm), np.inf), rng)[0]
        rows = len(problem.scores)
        beliefs = [rng.dirichlet(np.full(size, _CONCENTRATION), size=rows) for size in problem.shape]
        first = FactorialState(tuple(beliefs), np.inf)
        if _has_zeros(problem):  # which independent steps would meet
            return self.sweep(problem, first, rng)[0]
        goes_there = self._chains == "mean-field"
        return FactorialState(first.beliefs, -_Factored(problem).bound(beliefs), 0 if goes_there else None)

    def advance(self, problem: Instance, state: FactorialState, run: Run) -> Step:
        """A sweep over chains, or over steps on the way to where they begin."""
        if state.sweeps is None:
            return super().advance(problem, state, run)
        new, change = self._swept(_Factored(problem), state, self.rng)
        sweeps = state.sweeps + 1
        is_there = change < run.budget.tol or sweeps == run.budget.max_iter
        return Step(new._replace(sweeps=None if is_there else sweeps))  # only sweeps over chains are counted

    def sweep(
        self, problem: Instance, state: FactorialState, rng: np.random.Generator
    ) -> tuple[FactorialState, float]:
        """Every chain updated once."""
        return self._swept((_Structured if self._chains else _Factored)(problem), state, rng)

    def _swept(
        self, work: _Structured | _Factored, state: FactorialState, rng: np.random.Generator
    ) -> tuple[FactorialState, float]:
        """All beliefs updated once, and their largest change."""
        chains = np.arange(len(state.beliefs))
        chains = rng.permutation(chains) if self._order == "random" else chains
        beliefs = list(state.beliefs)
        for m in chains.tolist():
            beliefs[m] = work.updated(m, beliefs)
        moves = zip(beliefs, state.beliefs, strict=True)
        change = max(float(np.abs(new - old).max(initial=0.0)) for new, old in moves)
        return FactorialState(tuple(beliefs), -work.bound(beliefs)), change

    def read(self, problem: Instance, outcome: Outcome) -> Result:
        """Beliefs by chain, and the bound."""
        beliefs = list(outcome.state.beliefs)
        known: Any = problem.named_parts(beliefs)
        counts: Any = (_Structured if self._chains else _Factored)(problem).counts(beliefs)
        found = self.bound(outcome).but(marginals=known, factor_marginals=counts)
        if self._chains == "mean-field" and _has_zeros(problem):
            found = found.but(notes=(*found.notes, _RANDOM))
        return found


class _FactorialChains(abc.ABC):
    """What both mean fields ask of an instance."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.scores = instance.scores.reshape(-1, *instance.shape)
        counts = np.ones(instance.units) if instance.weights is None else instance.weights
        self.weights = counts  # (units,)
        self.row_weights = np.repeat(counts, instance.lengths)

    def tables(self, m: int) -> tuple[np.ndarray, np.ndarray]:
        """Start and transition of a chain."""
        return self.instance.tables[f"start{m}"], self.instance.tables[f"transition{m}"]

    def fields(self, beliefs: list[np.ndarray], but: int | None) -> np.ndarray:
        """Scores (rows, states...) averaged over the beliefs of all chains but one."""
        out = self.scores
        for m in range(len(beliefs) - 1, -1, -1):
            if m != but:
                shape = (len(out), *[1] * m, -1, *[1] * (out.ndim - m - 2))
                out = (out * beliefs[m].reshape(shape)).sum(axis=m + 1)
        return out

    def energy(self, beliefs: list[np.ndarray]) -> float:
        """Expected scores of all rows."""
        return float(self.row_weights @ self.fields(beliefs, None))

    def counts(self, beliefs: list[np.ndarray]) -> dict[str, np.ndarray]:
        """Expected counts by the names of the tables."""
        found: dict[str, np.ndarray] = {}
        for m, q in enumerate(beliefs):
            pairs, first = self.moves(m, beliefs), self.instance.first_rows
            found |= {f"start{m}": self.row_weights[first] @ q[first], f"transition{m}": pairs}
        return found

    @abc.abstractmethod
    def moves(self, m: int, beliefs: list[np.ndarray]) -> np.ndarray:
        """Expected moves of a chain, (states, states)."""


class _Structured(_FactorialChains):
    """One joint belief per chain."""

    def moves(self, m: int, beliefs: list[np.ndarray]) -> np.ndarray:
        """Of its joint belief, which fits the others."""
        fields = np.ascontiguousarray(self.fields(beliefs, m))
        found = smooth_chains(*self.tables(m), fields, self.instance.begin, weight=self.weights)
        return np.asarray(found.pairs)

    def __init__(self, instance: Instance) -> None:
        super().__init__(instance)
        self._terms = [0.0] * len(instance.shape)  # E[log p(s^m)] + H[q^m]

    def updated(self, m: int, beliefs: list[np.ndarray]) -> np.ndarray:
        """Marginals of a chain given the others."""
        fields = np.ascontiguousarray(self.fields(beliefs, m))
        found = smooth_chains(*self.tables(m), fields, self.instance.begin)
        spent = (found.marginals * fields).sum(axis=1)
        self._terms[m] = float(self.weights @ found.log_z - self.row_weights @ spent)
        return found.marginals

    def bound(self, beliefs: list[np.ndarray]) -> float:
        """After every chain was updated once."""
        return self.energy(beliefs) + sum(self._terms)


class _Factored(_FactorialChains):
    """One belief per chain and step."""

    def __init__(self, instance: Instance) -> None:
        super().__init__(instance)
        begin, lengths = instance.begin, instance.lengths
        self._first = np.zeros(len(self.scores), bool)
        self._first[instance.first_rows] = True
        self._last = np.zeros(len(self.scores), bool)
        self._last[begin[1:][lengths > 0] - 1] = True
        self._odd = (np.arange(len(self.scores)) - np.repeat(begin[:-1], lengths)) % 2 == 1

    def moves(self, m: int, beliefs: list[np.ndarray]) -> np.ndarray:
        """Of independent neighbours."""
        inside, q = np.flatnonzero(~self._first), beliefs[m]
        return np.asarray((self.row_weights[inside, None] * q[inside - 1]).T @ q[inside])

    def updated(self, m: int, beliefs: list[np.ndarray]) -> np.ndarray:
        """Beliefs of a chain given the others, even steps first."""
        first, step = (np.log(table) for table in self.tables(m))
        fields, q = self.fields(beliefs, m), beliefs[m].copy()
        for odd in (False, True):
            own = np.flatnonzero(self._odd == odd)
            before = np.where(self._first[own, None], first, q[own - 1] @ step)
            after = q[(own + 1) % len(q)] @ step.T
            logs = fields[own] + before + np.where(self._last[own, None], 0.0, after)
            new = np.exp(logs - logs.max(axis=1, keepdims=True))
            q[own] = new / new.sum(axis=1, keepdims=True)
        return q

    def bound(self, beliefs: list[np.ndarray]) -> float:
        """Energy and entropy of independent steps."""
        total, inside = self.energy(beliefs), np.flatnonzero(~self._first)
        for m, q in enumerate(beliefs):
            first, step = (np.log(table) for table in self.tables(m))
            total += float(self.row_weights[self._first] @ (q[self._first] @ first))
            total += float(self.row_weights[inside] @ ((q[inside - 1] @ step) * q[inside]).sum(axis=1))
            total -= float(self.row_weights @ (q * np.log(np.where(q > 0, q, 1.0))).sum(axis=1))
        return total
