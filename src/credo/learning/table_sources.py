r"""Sources of statistics for models of tables: scores are all log tables, statistics their slopes.

    likelihood         (1/N) sum_rows [ log Z(x_O) - log Z ]
                       slope (1/N) sum_rows E[indicators | x_O] - E[indicators]
    pseudolikelihood   (1/N) sum_rows sum_i log p(x_i | x_-i)
    contrastive        (1/N) sum_rows theta(x) - (1/M) sum_samples theta(x'),  samples held fixed

x_O are the observed values of a row. For a complete row log Z(x_O) is its score and needs no inference;
otherwise it is one clamped run per distinct row. Exact when inference is. With an approximate algorithm
the value is that of its own log Z, whose gradient, at a stationary point of its free energy, is given
by its factor marginals (only the explicit dependence on theta counts there). For runs that stop short
`gradient="autodiff"` differentiates the Bethe value after some sweeps of belief propagation, back through all
of them; for an algorithm without factor marginals `gradient="log_z"` takes central differences of log Z, at
two runs per weight. If both terms are approximate, their difference bounds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..core.errors import DataError, ImpossibleRowError
from ..core.factor_graph import FactorGraph
from ..core.records import record
from ..core.variable import Variables
from ..core.wiring import Memo
from ..data.table import MISSING, StateTable
from ..kernels.conditionals import gibbs_sweeps, pseudolikelihood
from .expectations import Oracle
from .log_linear import StatisticsSource

if TYPE_CHECKING:
    from ..inference.messages.unrolled import UnrolledBP

__all__ = ["Contrastive", "Likelihood", "Pseudolikelihood", "UnrolledLikelihood", "impossible_row"]

_PLANS = 4096  # plans of exact inference kept for patterns of missing values


def _with_tables(graph: FactorGraph, tables: np.ndarray) -> FactorGraph:
    """The graph with other tables; plans compiled for its structure are shared."""
    return graph.with_states(graph.variables, tables, graph.table_start)


@dataclass
class _Summary:
    """What the likelihood needs of a table of observations, made once."""

    data: StateTable
    counts: np.ndarray  # (entries,) of the complete rows
    complete: float  # their total weight


@dataclass
class _Summaries:
    """What is known of the last few tables of rows."""

    graph: FactorGraph  # the structure
    found: dict[int, _Summary] = field(default_factory=dict)

    def of(self, data: StateTable) -> _Summary:
        """Counts of the complete rows."""
        found = self.found.get(id(data))
        if found is None or found.data is not data:
            rows = data.complete_rows
            kept = data.counts[rows]
            part = StateTable(data.variables, data.states[rows], kept, np.arange(len(rows)), kept)
            counts = part.table_counts(self.graph)
            found = _Summary(data, counts, float(data.counts[rows].sum()))
            while len(self.found) >= 4:  # training, validation and a batch or two
                self.found.pop(next(iter(self.found)))
            self.found[id(data)] = found
        return found

    def score(self, tables: np.ndarray, data: StateTable) -> float:
        """The sum over complete rows; an impossible one is refused."""
        counts = self.of(data).counts
        seen = counts > 0
        score = float(counts[seen] @ tables[seen])
        if score == -np.inf:
            raise impossible_row(self.graph, data, tables)
        return score


class Likelihood(StatisticsSource):
    """The log-likelihood per row, with an algorithm that supplies log Z and factor marginals."""

    def __init__(self, graph: FactorGraph, oracle: Oracle) -> None:
        self.graph, self.oracle = graph, oracle
        self.memory = (oracle,)
        self._summaries = _Summaries(graph)

    def evaluate(self, scores: np.ndarray, batch: StateTable) -> tuple[float, np.ndarray]:
        """One free run, and one clamped run per distinct incomplete row."""
        value, entries = self._terms(scores, batch, want_entries=True)
        assert entries is not None
        return value, entries

    def value(self, scores: np.ndarray, batch: StateTable) -> float:
        """The same runs, log Z only."""
        return self._terms(scores, batch, want_entries=False)[0]

    def _terms(
        self, tables: np.ndarray, data: StateTable, *, want_entries: bool
    ) -> tuple[float, np.ndarray | None]:
        oracle, counts = self.oracle, self._summaries.of(data).counts
        if len(data.incomplete_rows):
            self._make_room(len(data.patterns()))
        graph = _with_tables(self.graph, tables)
        score = self._summaries.score(graph.log_tables, data)
        free = oracle.free(graph)
        entries = counts.copy() if want_entries else None
        for row in data.incomplete_rows:
            found = oracle.clamped(graph, data.states[row], data.number(int(row)))
            score += data.counts[row] * oracle.log_z(found)
            if entries is not None:
                entries += data.counts[row] * oracle.entries(found)
        value = score / data.total - oracle.log_z(free)
        if entries is None:
            return value, None
        return value, entries / data.total - oracle.entries(free)

    def _make_room(self, patterns: int) -> None:
        """Keep the plans of all patterns of missing values from step to step, apart from the model's own."""
        wanted = min(2 * patterns + 2, _PLANS)
        if wanted > self.graph.memo.CAPACITY:
            self.graph = _with_tables(self.graph, self.graph.log_tables)
            self.graph.memo = Memo()
            self.graph.memo.CAPACITY = wanted


class UnrolledLikelihood(StatisticsSource):
    """The same by some sweeps of belief propagation, differentiated through all of them."""

    def __init__(self, unrolled: UnrolledBP, graph: FactorGraph, oracle: Oracle) -> None:
        self.unrolled, self.graph, self.oracle = unrolled, graph, oracle
        self.memory = (oracle,)
        self._summaries = _Summaries(graph)

    def evaluate(self, scores: np.ndarray, batch: StateTable) -> tuple[float, np.ndarray]:
        """Log Z of the rows, less that of the model, and its slopes by all table entries."""
        score = self._summaries.score(scores, batch)
        rows = batch.incomplete_rows
        states = np.vstack([np.full((1, batch.states.shape[1]), MISSING), batch.states[rows]])
        weights = np.append(-1.0, batch.counts[rows] / batch.total)
        values, slopes = self.unrolled.differentiate(scores, states, weights)
        self.oracle.kinds.add("estimate")
        impossible = np.flatnonzero(values[1:] == -np.inf)
        if len(impossible):
            raise ImpossibleRowError(batch.number(int(rows[impossible[0]])))
        value = score / batch.total + float(weights @ values)
        return value, self._summaries.of(batch).counts / batch.total + slopes


@dataclass
class Pseudolikelihood(StatisticsSource):
    """Each value given all others of its row; needs no inference, but complete rows."""

    graph: FactorGraph  # the structure

    def evaluate(self, scores: np.ndarray, batch: StateTable) -> tuple[float, np.ndarray]:
        """One walk over rows and edges."""
        entries = np.zeros(len(scores))
        w = self.graph.wiring
        value = pseudolikelihood(
            scores, w.table_start, w.scope_start, w.scope, w.edge_factor, w.edge_stride, w.state_start,
            w.neighbour_start, w.neighbour_edge, batch.states, batch.counts, entries,
        )  # fmt: skip
        if value == -np.inf:
            raise impossible_row(self.graph, batch, scores)
        return value / batch.total, entries / batch.total


@record("contrastive", kept=("rng", "_chains"))
@dataclass
class Contrastive(StatisticsSource):
    """Contrastive divergence: samples a few Gibbs sweeps away from the data, or persistent ones.

    The value is the score of the data less that of the samples; it is zero on average at the optimum and
    says little on the way, so learners watch the pseudolikelihood instead.
    """

    graph: FactorGraph  # the structure
    rng: np.random.Generator  # of the samples
    sweeps: int = 1  # Gibbs sweeps per evaluation
    persistent: bool = False  # whether samples are carried on
    particles: int = 100  # of the persistent kind
    _chains: np.ndarray | None = None  # the persistent samples

    @property
    def memory(self) -> tuple[Contrastive]:  # type: ignore[override]
        """What evaluations change."""
        return (self,)

    def evaluate(self, scores: np.ndarray, batch: StateTable) -> tuple[float, np.ndarray]:
        """Draw samples, then compare."""
        positive, negative = self.draw(scores, batch)
        return self.compare(scores, positive, negative)

    def compare(
        self, tables: np.ndarray, positive: StateTable, negative: StateTable
    ) -> tuple[float, np.ndarray]:
        """Value and slopes for samples that are given."""
        graph = self.graph
        entries = positive.table_counts(graph) / positive.total
        if (tables[entries > 0] == -np.inf).any():
            raise impossible_row(graph, positive, tables)
        entries -= negative.table_counts(graph) / negative.total
        used = entries != 0
        return float(entries[used] @ tables[used]), entries

    def draw(self, tables: np.ndarray, data: StateTable) -> tuple[StateTable, StateTable]:
        """The rows with missing values filled in, and the model's samples."""
        rows = data.states[data.row_of]
        missing = rows == MISSING
        if missing.any():
            rows = np.where(missing, self._uniform(len(rows)), rows)
            self._sweep(tables, rows, missing, max(self.sweeps, 5))
            self._refuse_zeros(tables, rows, data)
        if not self.persistent:
            samples, weight = rows.copy(), data.row_weights
        else:
            if self._chains is None:
                begin = self.rng.choice(
                    len(rows), self.particles, p=data.row_weights / data.row_weights.sum()
                )
                self._chains = rows[begin].copy()
            samples, weight = self._chains, np.ones(self.particles)
        self._sweep(tables, samples, np.ones(samples.shape, dtype=bool), self.sweeps)
        positive = _as_they_are(data.variables, rows, data.row_weights, data.numbers)
        return positive, _as_they_are(data.variables, samples.copy(), weight)

    def _refuse_zeros(self, tables: np.ndarray, rows: np.ndarray, data: StateTable) -> None:
        scores = _with_tables(self.graph, tables).log_scores(rows)
        is_filled = ~np.asarray(data.observed.all(axis=1))[data.row_of]
        bad = np.flatnonzero((scores == -np.inf) & is_filled)
        if len(bad):
            row = data.number(int(data.row_of[bad[0]]))
            raise DataError(
                f"data: row {row}: Gibbs sampling found no possible values for what is missing; "
                "use likelihood, or fill them in"
            )

    def _uniform(self, rows: int) -> np.ndarray:
        sizes = self.graph.variables.sizes
        return (self.rng.random((rows, len(sizes))) * sizes).astype(np.int64)

    def _sweep(self, tables: np.ndarray, rows: np.ndarray, free: np.ndarray, sweeps: int) -> None:
        w = self.graph.wiring
        uniforms = self.rng.random((sweeps, *rows.shape))
        gibbs_sweeps(
            tables, w.table_start, w.scope_start, w.scope, w.edge_factor, w.edge_stride, w.state_start,
            w.neighbour_start, w.neighbour_edge, rows, free, uniforms,
        )  # fmt: skip


def _as_they_are(
    variables: Variables, rows: np.ndarray, weights: np.ndarray, numbers: np.ndarray | None = None
) -> StateTable:
    """Rows without looking for equal ones, which costs more than counting them twice."""
    return StateTable(variables, rows, weights, np.arange(len(rows)), weights, numbers)


def impossible_row(graph: FactorGraph, data: StateTable, tables: np.ndarray) -> ImpossibleRowError:
    """The error that names a complete row with score -inf."""
    rows = data.complete_rows
    scores = _with_tables(graph, tables).log_scores(data.states[rows])
    return ImpossibleRowError(data.number(int(rows[np.flatnonzero(scores == -np.inf)[0]])))
