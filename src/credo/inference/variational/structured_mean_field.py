r"""Structured mean field: independent clusters of variables, exact inside each.

    q(x) = prod_C q_C(x_C),
    q_C(x_C)  proportional to  exp( sum_{a inside C} theta_a(x_a)
                                    + sum_{a across} <theta_a>_{q of the other clusters} )

Each update is exact inference on the cluster's own factors and, for every factor that reaches out
of it, the factor's log table expected under the other clusters: a table over the factor's variables
inside the cluster. Updates are sequential, so -F, with

    F = -sum_a <theta_a>_q - sum_C H(q_C),      H(q_C) = log Z_C - <log tables of C>_{q_C},

is a lower bound on log Z that never falls. Clusters of one variable are naive mean field; one cluster
with everything is exact, as are the default clusters on a graph without loops. Zeros and restarts are
those of `mean_field`; by default the clusters begin where naive mean field ends, so the bound is never
below that of `mean-field` with the same seed, restarts, order and budget.

Cost of a sweep: one pass over a join tree per cluster, and each crossing table once per cluster
that it touches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ...core import check as checks
from ...core.errors import OptionError
from ...core.factor_graph import FactorGraph
from ...core.instance import Instance
from ...core.records import record
from ...core.result import FactorMarginals, Marginals, Result
from ...core.variable import Variables
from ...core.wiring import starts_of
from ...optimise.driver import Outcome, Step
from ...optimise.run import Run, Stopped, check
from ..exact.junction_tree import solve
from ..problem.base import Budget, Problem, register
from ..problem.free_energy import average_energy, entropy
from ..problem.rows import RowsAlgorithm
from ..problem.tree import Limits
from .descent import Descents, starting_beliefs, uniform_beliefs
from .mean_field import MeanFieldState, product_tables, state_of, sweep

__all__ = ["StructuredMeanField", "StructuredState"]

_MOST_OPERATIONS = 40.0  # log2; refuse clusters that need more per update


@record("structured-mean-field")
class StructuredState(NamedTuple):
    """Where coordinate ascent stands."""

    marginals: np.ndarray  # flat beliefs of the variables
    pieces: np.ndarray  # beliefs of every factor's variables within one cluster, cluster by cluster
    entropies: np.ndarray  # of each cluster
    free_energy: float  # of these beliefs


@register
@dataclass(frozen=True, kw_only=True)
class StructuredMeanField(RowsAlgorithm):
    """Independent clusters, each with its exact joint; a lower bound no sweep lowers.

    `clusters` is a list of lists of names, variables in none of them standing alone; or "trees",
    blocks without loops found by a greedy search (of hidden chains with data, every chain); or
    "singletons", naive mean field.
    """

    name: ClassVar[str] = "structured-mean-field"
    slopes: ClassVar[bool] = True
    checkpoints: ClassVar[bool] = True
    promises: ClassVar[frozenset[str]] = frozenset({"lower", "monotone", "consistent"})
    warm_starts: ClassVar[bool] = True
    structures: ClassVar[tuple[str, ...]] = ("factorial",)
    clusters: str | Sequence[Sequence[str]] = "trees"  # which variables are treated jointly
    restarts: int = 1  # starts; the one with the lowest free energy is kept
    order: Literal["sequential", "random"] = "sequential"  # of the clusters within a sweep
    start: Literal["mean-field", "random"] = "mean-field"  # where the clusters begin
    memory_gb: float | None = None  # refuse wider clusters; None is half of the machine's memory

    def __post_init__(self) -> None:
        """Check the options."""
        if isinstance(self.clusters, str):
            checks.one_of("clusters", self.clusters, ["trees", "singletons"])
        else:
            _check_clusters(self.clusters)
        checks.whole("restarts", self.restarts, 1)
        checks.one_of("start", self.start, ["mean-field", "random"])
        checks.one_of("order", self.order, ["random", "sequential"])
        if self.memory_gb is not None:
            checks.at_least("memory_gb", self.memory_gb, 0)

    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """Sweep over the clusters from each start until beliefs stand still; keep the best."""
        parts = _Parts.of(problem.graph, _labels(problem.graph, self.clusters))
        return _ClusterDescents(self, parts, rng).run(problem, budget)

    def why_not_rows(self, instance: Instance) -> str | None:
        """Several chains whose scores are finite."""
        from .factorial import why_not

        if not isinstance(self.clusters, str):
            return 'clusters of names are about a graph; give clusters="trees", one cluster per chain'
        return why_not(instance, is_structured=self.clusters == "trees")

    def run_rows(
        self, instance: Instance, budget: Budget, rng: np.random.Generator, warm: Any = None
    ) -> Result:
        """A joint belief per chain."""
        from .factorial import FactorialDescents

        clusters = self.start if self.clusters == "trees" else None
        descents = FactorialDescents(self.name, self.restarts, rng, self.order, clusters, warm)
        return descents.run(instance, budget)


@record("structured-mean-field start")
class _Naive(NamedTuple):
    """On the way to where the clusters begin."""

    beliefs: MeanFieldState
    sweeps: int  # done so far

    @property
    def free_energy(self) -> float:
        """Of the beliefs."""
        return self.beliefs.free_energy


class _ClusterDescents(Descents[Any]):
    """Descents over clusters, each after one over independent variables if asked for."""

    def __init__(self, options: StructuredMeanField, parts: _Parts, rng: np.random.Generator) -> None:
        super().__init__(options.name, options.restarts, rng)
        self._options, self._parts = options, parts
        self._limits = Limits(options.memory_gb, _MOST_OPERATIONS)

    def begin(self, problem: Problem, number: int, rng: np.random.Generator) -> _Naive | StructuredState:
        try:
            beliefs = starting_beliefs(problem, number, rng, self.name)
        except Stopped:
            return _Naive(state_of(problem.graph, uniform_beliefs(problem)), 0)
        if self._options.start == "mean-field":
            return _Naive(state_of(problem.graph, beliefs), 0)
        return self._parts.start(beliefs)

    def advance(self, problem: Problem, state: Any, run: Run) -> Step:
        if not isinstance(state, _Naive):
            return super().advance(problem, state, run)
        new, change = sweep(problem.graph, state.beliefs, self._options.order, self.rng)
        state = _Naive(new, state.sweeps + 1)
        is_there = change < run.budget.tol or state.sweeps == run.budget.max_iter
        return Step(self._cluster(state) if is_there else state)  # only sweeps over clusters are counted

    def sweep(
        self, problem: Problem, state: StructuredState, rng: np.random.Generator
    ) -> tuple[StructuredState, float]:
        count = len(self._parts.clusters)
        order = rng.permutation(count) if self._options.order == "random" else np.arange(count)
        return self._parts.sweep(state, order, self._limits, rng)

    def read(self, problem: Problem, outcome: Outcome) -> Result:
        graph = problem.graph
        outcome = replace(outcome, state=self._cluster(outcome.state))
        return replace(
            self.bound(outcome),
            marginals=Marginals(graph.variables, outcome.state.marginals),
            factor_marginals=FactorMarginals(graph, self._parts.factor_tables(outcome.state.pieces)),
        )

    def _cluster(self, state: _Naive | StructuredState) -> StructuredState:
        return self._parts.start(state.beliefs.marginals) if isinstance(state, _Naive) else state


def _check_clusters(clusters: Any) -> None:
    if not isinstance(clusters, (list, tuple)):
        raise OptionError(f"clusters: expected 'trees', 'singletons' or lists of names, got {clusters!r}")
    seen: set[str] = set()
    for cluster in clusters:
        if not isinstance(cluster, (list, tuple)) or not all(isinstance(name, str) for name in cluster):
            raise OptionError(f"clusters: expected lists of names, got {cluster!r}")
        for name in cluster:
            if name in seen:
                raise OptionError(f"clusters: '{name}' is named twice; a variable belongs to one cluster")
            seen.add(name)


def _labels(graph: FactorGraph, clusters: str | Sequence[Sequence[str]]) -> np.ndarray:
    """The cluster of each variable; numbers rise with the lowest member of a cluster."""
    n = len(graph.variables)
    if clusters == "singletons":
        return np.arange(n)
    if clusters == "trees":
        return _forest_labels(graph)
    label = np.arange(n)
    for cluster in clusters:
        members = graph.variables.positions(cluster)
        if len(members):
            label[members] = members.min()
    return np.unique(label, return_inverse=True)[1].ravel()


def _forest_labels(graph: FactorGraph) -> np.ndarray:
    from ...kernels.mean_field import forest_blocks

    w = graph.wiring
    # A one-state variable closes no loop, nor does a second factor over the same variables.
    counts = (w.sizes[w.scope] > 1) & _first_of_scope(graph)[w.edge_factor]
    around = w.neighbour_edge[counts[w.neighbour_edge]]
    start = starts_of(np.bincount(w.scope[around], minlength=len(w.sizes)))
    return forest_blocks(np.arange(len(w.sizes)), w.scope_start, start, w.edge_factor[around])


def _first_of_scope(graph: FactorGraph) -> np.ndarray:
    """Whether no factor before has the same variables."""
    arity = np.diff(graph.scope_start)
    first = np.zeros(graph.n_factors, dtype=bool)
    for k in np.unique(arity):
        factors = np.flatnonzero(arity == k)
        scopes = np.sort(graph.scope[graph.scope_start[factors][:, None] + np.arange(k)], axis=1)
        first[factors[np.unique(scopes, axis=0, return_index=True)[1]]] = True
    return first


@dataclass(frozen=True)
class _Cluster:
    """Some variables and their pieces of factors, as a graph of its own."""

    graph: FactorGraph  # one factor per piece
    states: np.ndarray  # flat states of its variables in the whole graph
    low: int  # its tables are low:high in the arrays over all pieces
    high: int
    crossing: np.ndarray  # pieces whose factor reaches out of the cluster

    def solve(self, tables: np.ndarray, limits: Limits, rng: np.random.Generator) -> tuple[Result, float]:
        """Exact inference with these log tables, and the entropy of the joint it stands for."""
        graph = self.graph.with_states(self.graph.variables, tables, self.graph.table_start)
        n = len(graph.variables)
        found = solve(Problem(graph, np.ones(n), np.zeros(n, dtype=np.int64)), limits, 1.0, rng)
        assert found.log_z is not None and found.factor_marginals is not None
        return found, found.log_z.value + average_energy(graph, found.factor_marginals.flat)


@dataclass(frozen=True)
class _Parts:
    """A graph cut into clusters; pieces are numbered cluster by cluster, within one by factor."""

    graph: FactorGraph
    pieces: FactorGraph  # one factor per piece, with the log table of its factor if that is not cut
    clusters: tuple[_Cluster, ...]
    piece_factor: np.ndarray  # factor of each piece
    piece_start: np.ndarray  # where the table of each piece begins, and their length last
    edge_piece: np.ndarray  # piece of each edge of the graph
    piece_stride: np.ndarray  # step of each edge in the table of its piece
    leads: np.ndarray  # whether an edge is the first of its piece

    @classmethod
    def of(cls, graph: FactorGraph, label: np.ndarray) -> _Parts:
        """Cut a graph, given the cluster of each variable."""
        w = graph.wiring
        by_piece = np.lexsort((w.edge_factor, label[w.scope]))  # stable: axes stay in order
        factor, cluster = w.edge_factor[by_piece], label[w.scope][by_piece]
        first = np.ones(len(by_piece), dtype=bool)
        first[1:] = (factor[1:] != factor[:-1]) | (cluster[1:] != cluster[:-1])
        scope_start = np.append(np.flatnonzero(first), len(by_piece))
        edge_piece, leads = np.empty(len(by_piece), dtype=np.int64), np.empty(len(by_piece), dtype=bool)
        edge_piece[by_piece], leads[by_piece] = np.cumsum(first) - 1, first
        factor, cluster = factor[first], cluster[first]
        cut = np.diff(scope_start) < np.diff(graph.scope_start)[factor]
        pieces = _piece_graph(graph, scope_start, w.scope[by_piece], factor, cut)
        piece_stride = np.empty(len(by_piece), dtype=np.int64)
        piece_stride[by_piece] = pieces.wiring.edge_stride
        clusters = _clusters(pieces, label, cluster, cut)
        start = starts_of(pieces.table_size)
        return cls(graph, pieces, clusters, factor, start, edge_piece, piece_stride, leads)

    def start(self, beliefs: np.ndarray) -> StructuredState:
        """The product of independent variables, as a state."""
        entropies = np.array([entropy(beliefs[c.states]) for c in self.clusters])
        return self._state(beliefs, product_tables(self.pieces, beliefs), entropies)

    def sweep(
        self, state: StructuredState, order: np.ndarray, limits: Limits, rng: np.random.Generator
    ) -> tuple[StructuredState, float]:
        """Update the clusters in this order."""
        marginals, beliefs = state.marginals.copy(), state.pieces.copy()
        entropies, change = state.entropies.copy(), 0.0
        tables = self.pieces.log_tables.copy()
        scratch = np.zeros(self.pieces.n_factors, dtype=np.int64)
        for number in order:
            check()
            c = self.clusters[number]
            self._expect(c.crossing, beliefs, scratch, tables)
            mine = tables[c.low : c.high].copy()
            found, entropies[number] = c.solve(mine, limits, rng)
            assert found.marginals is not None and found.factor_marginals is not None
            new, states = found.factor_marginals.flat, found.marginals.flat
            change = max(
                change,
                float(np.abs(states - marginals[c.states]).max(initial=0.0)),
                float(np.abs(new - beliefs[c.low : c.high]).max(initial=0.0)),
            )
            marginals[c.states], beliefs[c.low : c.high] = states, new
        return self._state(marginals, beliefs, entropies), change

    def factor_tables(self, beliefs: np.ndarray) -> np.ndarray:
        """Belief of each factor of the graph: the product of its pieces."""
        from ...kernels.mean_field import factor_products

        w = self.graph.wiring
        return factor_products(
            self.piece_start,
            self.edge_piece,
            self.piece_stride,
            self.leads,
            starts_of(w.table_size),
            w.scope_start,
            w.scope,
            w.edge_stride,
            w.sizes,
            beliefs,
        )

    def _state(self, marginals: np.ndarray, beliefs: np.ndarray, entropies: np.ndarray) -> StructuredState:
        energy = average_energy(self.graph, self.factor_tables(beliefs))
        return StructuredState(marginals, beliefs, entropies, energy - float(entropies.sum()))

    def _expect(
        self, which: np.ndarray, beliefs: np.ndarray, scratch: np.ndarray, tables: np.ndarray
    ) -> None:
        from ...kernels.mean_field import expect_pieces

        w = self.graph.wiring
        expect_pieces(
            which,
            self.piece_factor,
            self.piece_start,
            self.edge_piece,
            self.piece_stride,
            self.leads,
            self.graph.log_tables,
            w.table_start,
            w.scope_start,
            w.scope,
            w.edge_stride,
            w.sizes,
            beliefs,
            scratch,
            tables,
        )


def _piece_graph(
    graph: FactorGraph, scope_start: np.ndarray, scope: np.ndarray, factor: np.ndarray, cut: np.ndarray
) -> FactorGraph:
    """The pieces as a graph of their own; uncut factors keep their tables, the others get zeros."""
    logs = np.concatenate([[0.0], np.cumsum(np.log2(graph.variables.sizes[scope]))])
    size = np.rint(np.exp2(np.diff(logs[scope_start]))).astype(np.int64)
    start = starts_of(size)
    tables = np.zeros(start[-1])
    for p in np.flatnonzero(~cut):
        tables[start[p] : start[p + 1]] = graph.log_table(int(factor[p])).ravel()
    return FactorGraph.from_flat(graph.variables, scope_start, scope, tables)


def _clusters(
    pieces: FactorGraph, label: np.ndarray, owner: np.ndarray, cut: np.ndarray
) -> tuple[_Cluster, ...]:
    """One graph per cluster, over its own variables."""
    variables, edge_of = pieces.variables, pieces.scope_start
    members = np.argsort(label, kind="stable")
    count = int(label.max(initial=-1)) + 1
    member_start, piece_start = (np.searchsorted(x, np.arange(count + 1)) for x in (label[members], owner))
    table_start = starts_of(pieces.table_size)
    local = np.empty(len(label), dtype=np.int64)
    found = []
    for c in range(count):
        mine = members[member_start[c] : member_start[c + 1]]
        local[mine] = np.arange(len(mine))
        low, high = piece_start[c], piece_start[c + 1]
        graph = FactorGraph.from_flat(
            Variables.numbered(variables.sizes[mine]),
            edge_of[low : high + 1] - edge_of[low],
            local[pieces.scope[edge_of[low] : edge_of[high]]],
            pieces.log_tables[table_start[low] : table_start[high]],
        )
        states = np.concatenate([np.arange(*variables.state_start[i : i + 2]) for i in mine])
        crossing = low + np.flatnonzero(cut[low:high])
        found.append(_Cluster(graph, states, int(table_start[low]), int(table_start[high]), crossing))
    return tuple(found)
