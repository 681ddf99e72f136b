r"""What learning maximises: a mean over rows and its gradient by the weights.

    likelihood         (1/N) sum_rows [ log Z(x_O) - log Z ]
                       gradient (1/N) sum_rows E[phi | x_O] - E[phi]
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

import abc
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from ..core.errors import DataError, ImpossibleRowError
from ..core.records import record
from ..core.variable import Variables
from ..core.wiring import Memo
from ..data.table import MISSING, StateTable
from ..kernels.conditionals import gibbs_sweeps, pseudolikelihood
from .expectations import Oracle
from .parameters import Parameters

if TYPE_CHECKING:
    from ..inference.messages.unrolled import UnrolledBP

__all__ = ["Contrastive", "Likelihood", "Objective", "Pseudolikelihood", "impossible_row"]

_PLANS = 4096  # plans of exact inference kept for patterns of missing values
_STEP = 1e-5  # of central differences: errors of order 1e-10 in exact log Z


class Objective(abc.ABC):
    """A mean over rows to be maximised."""

    parameters: Parameters

    @abc.abstractmethod
    def evaluate(self, weights: np.ndarray, data: StateTable) -> tuple[float, np.ndarray]:
        """Value and gradient on these rows."""

    def value(self, weights: np.ndarray, data: StateTable) -> float:
        """The value on these rows, without its gradient."""
        return self.evaluate(weights, data)[0]


@dataclass
class _Summary:
    """What the likelihood needs of a table of observations, made once."""

    data: StateTable
    counts: np.ndarray  # (entries,) of the complete rows
    complete: float  # their total weight


@dataclass
class Likelihood(Objective):
    """The log-likelihood per row, with an algorithm that supplies log Z and factor marginals."""

    parameters: Parameters  # how weights make tables
    oracle: Oracle  # what answers questions about the model
    by_differences: bool = False  # whether the gradient is that of log Z by central differences
    unrolled: UnrolledBP | None = None  # what answers instead, and is differentiated
    _summary: dict[int, _Summary] = field(default_factory=dict)  # of the last few tables of rows

    @property
    def memory(self) -> tuple[Oracle]:
        """What evaluations change."""
        return (self.oracle,)

    def evaluate(self, weights: np.ndarray, data: StateTable) -> tuple[float, np.ndarray]:
        """One free run, and one clamped run per distinct incomplete row."""
        if self.by_differences:
            return self.value(weights, data), self._differences(weights, data)
        value, entries = self._terms(weights, data, want_entries=True)
        assert entries is not None
        return value, self.parameters.features(entries)

    def value(self, weights: np.ndarray, data: StateTable) -> float:
        """The same runs, log Z only."""
        return self._terms(weights, data, want_entries=False)[0]

    def _terms(
        self, weights: np.ndarray, data: StateTable, *, want_entries: bool
    ) -> tuple[float, np.ndarray | None]:
        oracle, summary = self.oracle, self._summarised(data)  # which may make room for plans
        graph = self.parameters.graph_at(weights)
        seen = summary.counts > 0
        score = float(summary.counts[seen] @ graph.log_tables[seen])
        if score == -np.inf:
            raise impossible_row(self.parameters, data, graph.log_tables)
        if self.unrolled is not None:
            value, slopes = self._differentiated(graph.log_tables, data)
            return score / data.total + value, summary.counts / data.total + slopes
        free = oracle.free(graph)
        entries = summary.counts.copy() if want_entries else None
        for row in data.incomplete_rows:
            found = oracle.clamped(graph, data.states[row], data.number(int(row)))
            score += data.counts[row] * oracle.log_z(found)
            if entries is not None:
                entries += data.counts[row] * oracle.entries(found)
        value = score / data.total - oracle.log_z(free)
        if entries is None:
            return value, None
        return value, entries / data.total - oracle.entries(free)

    def _differentiated(self, log_tables: np.ndarray, data: StateTable) -> tuple[float, np.ndarray]:
        """Log Z of the incomplete rows, less that of the model, and its slopes by all table entries."""
        assert self.unrolled is not None
        rows = data.incomplete_rows
        states = np.vstack([np.full((1, data.states.shape[1]), MISSING), data.states[rows]])
        weights = np.append(-1.0, data.counts[rows] / data.total)
        values, slopes = self.unrolled.differentiate(log_tables, states, weights)
        self.oracle.kinds.add("estimate")
        impossible = np.flatnonzero(values[1:] == -np.inf)
        if len(impossible):
            raise ImpossibleRowError(data.number(int(rows[impossible[0]])))
        return float(weights @ values), slopes

    def _differences(self, weights: np.ndarray, data: StateTable) -> np.ndarray:
        gradient = np.empty(len(weights))
        for k in range(len(weights)):
            ahead, behind = weights.copy(), weights.copy()
            ahead[k] += _STEP
            behind[k] -= _STEP
            gradient[k] = (self.value(ahead, data) - self.value(behind, data)) / (2 * _STEP)
        return gradient

    def _summarised(self, data: StateTable) -> _Summary:
        found = self._summary.get(id(data))
        if found is None or found.data is not data:
            rows = data.complete_rows
            kept = data.counts[rows]
            part = StateTable(data.variables, data.states[rows], kept, np.arange(len(rows)), kept)
            counts = part.table_counts(self.parameters.graph)
            found = _Summary(data, counts, float(data.counts[rows].sum()))
            if len(data.incomplete_rows):
                self._make_room(len(data.patterns()))
            while len(self._summary) >= 4:  # training, validation and a batch or two
                self._summary.pop(next(iter(self._summary)))
            self._summary[id(data)] = found
        return found

    def _make_room(self, patterns: int) -> None:
        """Keep the plans of all patterns of missing values from step to step, apart from the model's own."""
        graph = self.parameters.graph
        wanted = min(2 * patterns + 2, _PLANS)
        if wanted <= graph.memo.CAPACITY:
            return
        own = graph.with_states(graph.variables, graph.log_tables, graph.table_start)
        own.memo = Memo()
        own.memo.CAPACITY = wanted
        self.parameters = replace(self.parameters, graph=own)


@dataclass
class Pseudolikelihood(Objective):
    """Each value given all others of its row; needs no inference, but complete rows."""

    parameters: Parameters  # how weights make tables

    def evaluate(self, weights: np.ndarray, data: StateTable) -> tuple[float, np.ndarray]:
        """One walk over rows and edges."""
        graph = self.parameters.graph
        tables = self.parameters.tables(weights)
        entries = np.zeros(len(tables))
        w = graph.wiring
        value = pseudolikelihood(
            tables, w.table_start, w.scope_start, w.scope, w.edge_factor, w.edge_stride, w.state_start,
            w.neighbour_start, w.neighbour_edge, data.states, data.counts, entries,
        )  # fmt: skip
        if value == -np.inf:
            raise impossible_row(self.parameters, data, tables)
        return value / data.total, self.parameters.features(entries) / data.total


@record("contrastive", kept=("rng", "_chains"))
@dataclass
class Contrastive(Objective):
    """Contrastive divergence: samples a few Gibbs sweeps away from the data, or persistent ones.

    The value is the score of the data less that of the samples; it is zero on average at the optimum and
    says little on the way, so learners watch the pseudolikelihood instead.
    """

    parameters: Parameters  # how weights make tables
    rng: np.random.Generator  # of the samples
    sweeps: int = 1  # Gibbs sweeps per evaluation
    persistent: bool = False  # whether samples are carried on
    particles: int = 100  # of the persistent kind
    _chains: np.ndarray | None = None  # the persistent samples

    @property
    def memory(self) -> tuple[Contrastive]:
        """What evaluations change."""
        return (self,)

    def evaluate(self, weights: np.ndarray, data: StateTable) -> tuple[float, np.ndarray]:
        """Draw samples, then compare."""
        positive, negative = self.draw(weights, data)
        return self.compare(weights, positive, negative)

    def compare(
        self, weights: np.ndarray, positive: StateTable, negative: StateTable
    ) -> tuple[float, np.ndarray]:
        """Value and gradient for samples that are given."""
        graph, tables = self.parameters.graph, self.parameters.tables(weights)
        entries = positive.table_counts(graph) / positive.total
        if (tables[entries > 0] == -np.inf).any():
            raise impossible_row(self.parameters, positive, tables)
        entries -= negative.table_counts(graph) / negative.total
        used = entries != 0
        return float(entries[used] @ tables[used]), self.parameters.features(entries)

    def draw(self, weights: np.ndarray, data: StateTable) -> tuple[StateTable, StateTable]:
        """The rows with missing values filled in, and the model's samples."""
        tables = self.parameters.tables(weights)
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
        graph = self.parameters.graph
        scores = graph.with_states(graph.variables, tables, graph.table_start).log_scores(rows)
        is_filled = ~np.asarray(data.observed.all(axis=1))[data.row_of]
        bad = np.flatnonzero((scores == -np.inf) & is_filled)
        if len(bad):
            row = data.number(int(data.row_of[bad[0]]))
            raise DataError(
                f"data: row {row}: Gibbs sampling found no possible values for what is missing; "
                "use likelihood, or fill them in"
            )

    def _uniform(self, rows: int) -> np.ndarray:
        sizes = self.parameters.graph.variables.sizes
        return (self.rng.random((rows, len(sizes))) * sizes).astype(np.int64)

    def _sweep(self, tables: np.ndarray, rows: np.ndarray, free: np.ndarray, sweeps: int) -> None:
        w = self.parameters.graph.wiring
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


def impossible_row(parameters: Parameters, data: StateTable, tables: np.ndarray) -> ImpossibleRowError:
    """The error that names a complete row with score -inf."""
    graph = parameters.graph.with_states(parameters.graph.variables, tables, parameters.graph.table_start)
    rows = data.complete_rows
    scores = graph.log_scores(data.states[rows])
    return ImpossibleRowError(data.number(int(rows[np.flatnonzero(scores == -np.inf)[0]])))
