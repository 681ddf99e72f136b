r"""What weighted joint states say: log Z with its standard error, marginals, and how much they are worth.

With weights w_r of N states drawn with probabilities q(x_r), E w = Z, so

    log Z ~ log mean w,     error^2 ~ var(w) / (N mean(w)^2) = sum w^2 / (sum w)^2 - 1 / N
    p(x_i = s) ~ sum_r w_r [x_ri = s] / sum w,     ESS = (sum w)^2 / sum w^2

The mean is without bias, its logarithm is low by half the square of its error; marginals are consistent.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...core.factor_graph import FactorGraph
from ...core.records import record
from ...core.result import Estimate, FactorMarginals, Marginals, Samples
from ...core.wiring import starts_of
from ...kernels.weighted_rows import add_weighted_rows

__all__ = ["Weighed", "row_scores_of"]

_AT_ONCE = 2**20  # places in tables looked up together


@record("weighed states")
class Weighed(NamedTuple):
    """Sums over all states that were drawn; weights are relative to exp(top)."""

    drawn: int  # states
    top: float  # the largest log weight so far
    total: float  # sum of weights
    squares: float  # sum of their squares
    states: np.ndarray  # weight per flat state
    state_squares: np.ndarray  # the same of squared weights
    entries: np.ndarray  # weight per table entry
    kept: np.ndarray  # (wanted, n) states taken in proportion to their weights

    @classmethod
    def none(cls, graph: FactorGraph, wanted: int) -> Weighed:
        """Before anything was drawn."""
        flat = np.zeros(int(graph.variables.state_start[-1]))
        kept = np.zeros((wanted, len(graph.variables)), dtype=np.int64)
        return cls(0, -np.inf, 0.0, 0.0, flat, flat, np.zeros(int(graph.table_size.sum())), kept)

    def add(
        self, graph: FactorGraph, rows: np.ndarray, logs: np.ndarray, rng: np.random.Generator
    ) -> Weighed:
        """With more states (rows, n) of these log weights."""
        top = max(self.top, float(logs.max(initial=-np.inf)))
        if top == -np.inf:
            return self._replace(drawn=self.drawn + len(rows))
        weights, shrink = np.exp(logs - top), np.exp(self.top - top)
        states, squares = self.states * shrink, self.state_squares * shrink**2
        entries, w = self.entries * shrink, graph.wiring
        add_weighted_rows(
            w.scope_start, w.scope, w.edge_stride, starts_of(w.table_size), w.state_start, rows, weights,
            states, squares, entries,
        )  # fmt: skip
        new, kept = float(weights.sum()), self.kept.copy()
        total = self.total * shrink + new
        if len(kept):
            fresh = np.flatnonzero(rng.random(len(kept)) * total < new)
            kept[fresh] = rows[rng.choice(len(rows), len(fresh), p=weights / new)]
        more = float((weights**2).sum())
        count = self.drawn + len(rows)
        return Weighed(count, top, total, self.squares * shrink**2 + more, states, squares, entries, kept)

    @property
    def is_possible(self) -> bool:
        """Whether some state has positive weight."""
        return self.total > 0

    @property
    def ess(self) -> float:
        """How many independent draws from the distribution the states are worth."""
        return self.total**2 / self.squares if self.squares > 0 else 0.0

    @property
    def error(self) -> float:
        """Standard error of log Z; infinite where nothing is known of it."""
        if self.drawn < 2 or not self.is_possible:
            return np.inf
        spread = self.squares / self.total**2 - 1 / self.drawn
        return float(np.sqrt(max(spread, 0.0) * self.drawn / (self.drawn - 1)))

    @property
    def log_z(self) -> Estimate:
        """The log of the mean weight."""
        return Estimate(self.top + np.log(self.total / self.drawn), "estimate", self.error)

    def marginals(self, graph: FactorGraph) -> Marginals:
        """Weighted frequencies of states."""
        return Marginals(graph.variables, self.states / self.total)

    def factor_marginals(self, graph: FactorGraph) -> FactorMarginals:
        """Weighted frequencies of the joint states of each factor."""
        return FactorMarginals(graph, self.entries / self.total)

    def samples(self, graph: FactorGraph) -> Samples:
        """States taken in proportion to their weights, some of them more than once."""
        return Samples(graph.variables, self.kept)

    def diagnostics(self, graph: FactorGraph, observed: np.ndarray | None) -> dict[str, Any]:
        """Effective sample size and standard error per variable, as those of samplers."""
        free = np.ones(len(graph.variables), bool) if observed is None else ~observed
        return {"ess": np.full(int(free.sum()), self.ess), "mcse": self.errors(graph)[free]}

    def errors(self, graph: FactorGraph) -> np.ndarray:
        """Standard error of the marginal of every variable, that of its worst state."""
        p, start = self.states / self.total, graph.variables.state_start
        each = self.state_squares * (1 - 2 * p) + self.squares * p**2
        worst = np.maximum.reduceat(each, start[:-1]) if len(each) else each
        return np.asarray(np.sqrt(np.maximum(worst, 0.0)) / self.total)


def row_scores_of(graph: FactorGraph, rows: np.ndarray, log_tables: np.ndarray | None = None) -> np.ndarray:
    """The sum of all log tables at every row."""
    w, total = graph.wiring, np.zeros(len(rows))
    tables = graph.log_tables if log_tables is None else log_tables
    has_scope = np.flatnonzero(np.diff(w.scope_start))
    alone = np.flatnonzero(np.diff(w.scope_start) == 0)
    constant = tables[w.table_start[alone]].sum()
    step = max(1, _AT_ONCE // max(1, len(w.scope)))
    for first in range(0, len(rows), step):
        part = slice(first, first + step)
        moves = rows[part][:, w.scope] * w.edge_stride
        inside = np.add.reduceat(moves, w.scope_start[has_scope], axis=1) if len(has_scope) else moves
        total[part] = tables[inside + w.table_start[has_scope]].sum(axis=1) + constant
    return total
