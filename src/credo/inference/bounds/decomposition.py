r"""A maximisation split into terms over variables and factors, with shifts between them.

    max_x theta(x)  <=  L(delta) = sum_i max [ theta_i + sum_a delta_{a,i} ]
                                 + sum_a max [ theta_a - sum_{i in a} delta_{a,i} ]        for every delta

What `dual-decomposition`, `lp`, `graph-cut` and `alpha-expansion` share. States that zeros exclude are
dropped first (generalised arc consistency), so every state left has a finite entry in each factor and
all shifts stay finite; zeros inside tables stay. Factors over one free variable become theta_i.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...core.evidence import Restriction
from ...core.factor_graph import FactorGraph
from ...core.result import Assignment, Estimate, Result, Status
from ...core.wiring import starts_of
from ...kernels import decoding
from ...kernels import dual_decomposition as kernel
from ...kernels.message_beliefs import factor_depths
from ...kernels.support import supported_states
from ...kernels.tables import best_states
from ...structures.recognise import is_forest
from ..problem import feasible
from ..problem.base import Problem
from ..problem.value import meets, value_of

__all__ = ["Decomposition", "DecompositionPlan", "answer", "fold", "terms_of"]

_CLIMBS = 20  # sweeps of single changes after decoding
_FAILURES = 2000  # dead ends after which the search for a possible state gives up


@dataclass(frozen=True)
class DecompositionPlan:
    """An order of the variables, and what a sequential sweep needs to know about it."""

    order: np.ndarray  # variables
    is_first: np.ndarray  # per edge: whether its variable is its factor's first in the order
    is_last: np.ndarray  # and last
    forward: np.ndarray  # per variable: the share of its total handed to each later factor
    backward: np.ndarray  # the same for the way back


@dataclass(frozen=True)
class Decomposition:
    """The terms of a problem whose variables are all maximised."""

    problem: Problem  # as it was asked
    restriction: Restriction  # the states that zeros leave possible
    graph: FactorGraph  # factors over two or more free variables, on those states
    node: np.ndarray  # theta_i, flat over states
    constant: float  # the factors over no free variable

    @classmethod
    def of(cls, problem: Problem) -> Decomposition:
        """Drop impossible states and fold the small factors; raises if no state is possible."""
        if not np.isneginf(problem.graph.log_tables).any():
            node, constant, kept = fold(problem.graph)
            everything = Restriction(problem.graph.variables, np.ones(len(node), dtype=np.bool_))
            return cls(problem, everything, kept, node, constant)
        graph = _gathered(*fold(problem.graph))
        start = graph.variables.state_start
        keep = supported_states(graph.log_tables, graph.table_start, graph.scope_start, graph.scope, start)
        if len(start) > 1 and not np.logical_or.reduceat(keep, start[:-1]).all():
            raise problem.contradiction()
        restriction = Restriction(graph.variables, keep)
        node, constant, kept = _fold(restriction.apply(graph))
        if constant == -np.inf:
            raise problem.contradiction()
        return cls(problem, restriction, kept, node, constant)

    @cached_property
    def terms(self) -> kernel.Terms:
        """The arrays that kernels read."""
        return terms_of(self.graph)

    @cached_property
    def plan(self) -> DecompositionPlan:
        """Breadth first from the first variable of each part; on forests one sweep is then exact."""
        w, n = self.graph.wiring, len(self.graph.variables)
        forest = is_forest(self.graph)
        order = np.arange(n, dtype=np.int64)
        if len(w.scope):
            depth = factor_depths(w.scope_start, w.scope, w.neighbour_start, w.neighbour_edge, w.edge_factor)
            level = np.zeros(n, dtype=np.int64)
            first = np.full(n, np.iinfo(np.int64).max)
            np.minimum.at(first, w.scope, depth[w.edge_factor])
            level[w.scope] = first[w.scope] + 1
            order = np.argsort(level, kind="stable")  # of equal level the root comes first: it is lowest
        rank = np.empty(n, dtype=np.int64)
        rank[order] = np.arange(n)
        low, high = (
            f.reduceat(rank[w.scope], w.scope_start[:-1])[w.edge_factor] if len(w.scope) else w.scope
            for f in (np.minimum, np.maximum)
        )
        is_first, is_last = rank[w.scope] == low, rank[w.scope] == high
        later = np.bincount(w.scope[~is_last], minlength=n)
        earlier = np.bincount(w.scope[~is_first], minlength=n)
        # On a forest everything goes on; elsewhere the larger of both counts spreads the total evenly.
        both = np.maximum(later, earlier)
        ahead, back = (later, earlier) if forest else (both, both)
        return DecompositionPlan(order, is_first, is_last, 1 / np.maximum(ahead, 1), 1 / np.maximum(back, 1))

    def no_shifts(self) -> np.ndarray:
        """All shifts zero."""
        return np.zeros(int(self.graph.wiring.edge_state_start[-1]))

    def bound(self, shifts: np.ndarray) -> float:
        """L at the given shifts."""
        return self.constant + float(kernel.bound(self.terms, self.node, shifts))

    def sweep(self, shifts: np.ndarray, *, trust: bool) -> None:
        """One sequential sweep, in place; `trust` if the shifts come from one."""
        p = self.plan
        kernel.sequential_sweep(
            self.terms, self.node, shifts, p.order, p.is_first, p.is_last, p.forward, p.backward, trust
        )

    def score(self, states: np.ndarray) -> float:
        """Value of states among the possible ones."""
        return self.constant + float(decoding.score(self.terms, self.node, states))

    def decode(self, shifts: np.ndarray, *, backwards: bool = False) -> tuple[np.ndarray, float]:
        """States that the shifts suggest, improved one by one, and their score."""
        states = decoding.decode(self.terms, self.node, shifts, self.plan.order, backwards)
        return self.improve(states)

    def improve(self, states: np.ndarray) -> tuple[np.ndarray, float]:
        """Single changes while the score rises."""
        states = states.copy()
        decoding.climb(self.terms, self.node, states, _CLIMBS)
        return states, self.score(states)

    def possible(self, shifts: np.ndarray) -> tuple[np.ndarray, float] | None:
        """States of positive weight near those the shifts favour; None if the search gives up."""
        t, belief = self.terms, self.node.copy()
        edge_size = t.sizes[t.scope]
        flat = np.arange(len(shifts)) - np.repeat(t.edge_state_start[:-1], edge_size)
        np.add.at(belief, np.repeat(t.state_start[t.scope], edge_size) + flat, shifts)
        code, keep = feasible.feasible_box(self.graph, self.plan.order, belief, _FAILURES)
        if code == feasible.IMPOSSIBLE:
            raise self.problem.contradiction()
        if code == feasible.GAVE_UP:
            return None
        allowed = np.where(keep, belief, -np.inf)
        return self.improve(best_states(t.state_start, allowed))

    def original(self, states: np.ndarray) -> np.ndarray:
        """States as indices of the problem's own graph."""
        return self.restriction.expand_indices(states)


def _fold(graph: FactorGraph) -> tuple[np.ndarray, float, FactorGraph]:
    """Terms per state, the constant, and the graph of the other factors without one-state variables."""
    sizes, start = graph.variables.sizes, graph.variables.state_start
    factor = np.repeat(np.arange(graph.n_factors), np.diff(graph.scope_start))
    stays = sizes[graph.scope] > 1
    arity = np.bincount(factor[stays], minlength=graph.n_factors)
    node = np.zeros(int(start[-1]))
    one = np.flatnonzero(arity == 1)
    variable = graph.scope[stays & (arity == 1)[factor]]
    entry = np.arange(int(sizes[variable].sum())) - np.repeat(
        starts_of(sizes[variable])[:-1], sizes[variable]
    )
    at = np.repeat(graph.table_start[one], sizes[variable]) + entry
    np.add.at(node, np.repeat(start[variable], sizes[variable]) + entry, graph.log_tables[at])
    constant = float(graph.log_tables[graph.table_start[arity == 0]].sum())
    wide = arity > 1
    kept = FactorGraph.from_flat(
        graph.variables,
        starts_of(arity[wide]),
        graph.scope[stays & wide[factor]],
        graph.log_tables,
        table_start=graph.table_start[wide],
    )
    return node, constant, kept


def terms_of(graph: FactorGraph) -> kernel.Terms:
    """The arrays of a graph that kernels of this kind read."""
    w = graph.wiring
    return kernel.Terms(
        w.scope_start,
        w.scope,
        w.sizes,
        w.state_start,
        w.edge_factor,
        w.edge_stride,
        w.edge_state_start,
        w.neighbour_start,
        w.neighbour_edge,
        graph.log_tables,
        w.table_start,
        w.table_size,
    )


def fold(graph: FactorGraph) -> tuple[np.ndarray, float, FactorGraph]:
    """Terms per state, the constant, and one factor for each other set of variables."""
    node, constant, kept = _fold(graph)
    return node, constant, _merge(kept)


def _gathered(node: np.ndarray, constant: float, graph: FactorGraph) -> FactorGraph:
    """All terms as one graph.

    Factors are added up before looking for impossible states, since their sums exclude more.
    """
    n, m = len(graph.variables), len(graph.log_tables)
    last = int(graph.scope_start[-1])
    return FactorGraph.from_flat(
        graph.variables,
        np.concatenate([graph.scope_start, last + 1 + np.arange(n), [last + n]]),
        np.concatenate([graph.scope, np.arange(n)]),
        np.concatenate([graph.log_tables, node, [constant]]),
        table_start=np.concatenate([graph.table_start, m + graph.variables.state_start]),
    )


def _merge(graph: FactorGraph) -> FactorGraph:
    """Add up factors over the same variables: fewer terms, tighter bounds."""
    arity = np.diff(graph.scope_start)
    home = np.arange(graph.n_factors)  # the first factor over the same variables
    for k in np.unique(arity).tolist():
        rows = np.flatnonzero(arity == k)
        scopes = np.sort(graph.scope[graph.scope_start[rows][:, None] + np.arange(k)], axis=1)
        order = np.lexsort(scopes.T)  # stable, so the first of equal ones is the first of the factors
        is_new = np.append(True, (scopes[order[1:]] != scopes[order[:-1]]).any(axis=1))
        home[rows[order]] = rows[order[np.flatnonzero(is_new)[np.cumsum(is_new) - 1]]]
    extra = np.flatnonzero(home != np.arange(len(home)))
    if not len(extra):
        return graph
    sums: dict[int, np.ndarray] = {}
    for a in extra.tolist():
        b = int(home[a])
        place = {int(i): k for k, i in enumerate(graph.scope_of(a))}
        moved = graph.log_table(a).transpose([place[int(i)] for i in graph.scope_of(b)])
        sums[b] = sums.get(b, graph.log_table(b)) + moved
    table_start = graph.table_start.copy()
    table_start[list(sums)] = len(graph.log_tables) + starts_of([t.size for t in sums.values()])[:-1]
    stays = np.flatnonzero(home == np.arange(len(home)))
    start = starts_of(arity[stays])
    edges = np.arange(start[-1]) + np.repeat(graph.scope_start[stays] - start[:-1], arity[stays])
    return FactorGraph.from_flat(
        graph.variables,
        start,
        graph.scope[edges],
        np.concatenate([graph.log_tables, *(t.ravel() for t in sums.values())]),
        table_start=table_start[stays],
    )


def answer(
    name: str,
    problem: Problem,
    status: Status,
    upper: float,
    states: np.ndarray,
    trace: dict[str, np.ndarray] | None = None,
    notes: tuple[str, ...] = (),
) -> Result:
    """A bound and an assignment; proven optimal, and then exact, where they meet."""
    score = value_of(problem, states)
    log_z = Estimate(upper, "upper")
    if meets(score.value, upper):
        status, log_z = Status.OPTIMAL, Estimate(score.value, "exact")
    return Result(
        name,
        status,
        log_z=log_z,
        assignment=Assignment(problem.graph.variables, states),
        score=score,
        trace=trace or {},
        notes=notes,
    )
