"""Elimination orders, and what they will cost before anything is allocated.

Eliminating a variable joins its neighbours to a clique; the largest such clique gives the width,
the sum of the clique tables the work. Finding the best order is NP-hard. Greedy heuristics are steered
by a factor and a tie-breaking key per variable, and a seeded hill climbing over these looks for a
cheaper order. How long depends only on counted work: searching is worth as long as the computation
it speeds up, and the same seed gives the same order on every machine, unless the time given ends: then the
best order so far is taken, and if even the first is not finished the rest follows as it comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from ..core import check
from ..core.errors import QueryError
from ..core.factor_graph import FactorGraph
from ..optimise.run import is_ending, planning
from .graph import UndirectedGraph, join_cliques

__all__ = ["EliminationOrder", "Heuristic", "elimination_order", "free_scopes", "induced_width", "is_narrow"]

Heuristic = Literal[
    "search", "min-fill", "weighted-min-fill", "min-degree", "min-size", "maximum-cardinality"
]

_DISTURBED = (0.02, 0.1, 0.3)  # shares of the variables a search step disturbs
_RUN_NANOSECONDS = 2.0  # a contraction and its two adjoints, per table entry
_SEARCH_NANOSECONDS = 3.0  # a greedy run, per list entry looked at
_STEP_WORK, _STEP_WORK_PER_VARIABLE = 30_000, 20  # what a search step costs besides, in list entries
_LONGEST_SEARCH = 2.5e9  # nanoseconds
_LOOKS = 100.0  # steps of a greedy order per end of an edge, about
_PORTION = 10_000_000  # list entries between two looks at the clock
_HOPELESS = 2.0**70  # summed table sizes from which no search leads to a feasible order


@dataclass(frozen=True)
class EliminationOrder:
    """An order of all variables; its cliques and its cost once they are asked for."""

    names: Sequence[str]  # of all variables
    order: np.ndarray  # positions, first eliminated first
    primal: UndirectedGraph  # who is joined with whom before anything is eliminated
    weight: np.ndarray  # states of each variable, as floats

    @cached_property
    def _cost(self) -> tuple[np.ndarray, np.ndarray, float, float]:
        from ..kernels.ordering import order_cost

        start, clique, total, largest = order_cost(
            self.primal.start, self.primal.neighbour, self.weight, self.order
        )
        return start, clique, float(np.log2(max(total, 1.0))), float(largest)

    @property
    def clique_start(self) -> np.ndarray:
        """(n + 1,) slices of `clique`."""
        return self._cost[0]

    @property
    def clique(self) -> np.ndarray:
        """Each step's variable followed by its remaining neighbours."""
        return self._cost[1]

    @property
    def log2_total(self) -> float:
        """Of the summed sizes of all clique tables."""
        return self._cost[2]

    @property
    def log2_largest(self) -> float:
        """Of the largest clique table."""
        return self._cost[3]

    @property
    def width(self) -> int:
        """Induced width: members of the largest clique, less one."""
        return int(np.diff(self.clique_start).max(initial=1)) - 1

    @cached_property
    def rank(self) -> np.ndarray:
        """Position in the order of each variable."""
        rank = np.empty(len(self.order), dtype=np.int64)
        rank[self.order] = np.arange(len(self.order))
        return rank

    def __iter__(self) -> object:
        return iter([self.names[int(i)] for i in self.order])

    def __repr__(self) -> str:
        return (
            f"EliminationOrder({len(self.order)} variables, width {self.width}, "
            f"largest table 2^{self.log2_largest:.1f}, all tables 2^{self.log2_total:.1f})"
        )


def elimination_order(
    graph: FactorGraph,
    heuristic: Heuristic = "search",
    *,
    levels: np.ndarray | None = None,
    effort: float = 1.0,
    seed: int = 0,
) -> EliminationOrder:
    """A good elimination order.

    Parameters
    ----------
    graph
        The factor graph; one-state variables cost nothing and join nothing.
    heuristic
        `"search"` improves min-fill and weighted min-fill by hill climbing; the other names run once.
    levels
        One number per variable: lower levels are eliminated first (sums before maxima).
    effort
        How much work to search, as a multiple of the computation's own.
    seed
        Breaks ties and drives the search.

    Examples
    --------
    >>> import credo
    >>> from credo.structures import elimination_order
    >>> elimination_order(credo.datasets.asia().to_factor_graph()).width
    2
    """
    from ..kernels.ordering import HEURISTICS, maximum_cardinality_order

    check.one_of("heuristic", heuristic, ["search", "maximum-cardinality", *HEURISTICS])
    check.at_least("effort", effort, 0)
    n = len(graph.variables)
    weight = graph.variables.sizes.astype(np.float64)
    adjacency = free_primal_graph(graph)
    start, neighbour = adjacency.start, adjacency.neighbour
    level = np.zeros(n, dtype=np.int64) if levels is None else np.asarray(levels, dtype=np.int64)
    rng = check.generator(seed)
    if heuristic == "maximum-cardinality":
        if len(np.unique(level)) > 1:
            raise QueryError("maximum-cardinality: expected one level, got several; use min-fill")
        return _finish(graph, adjacency, maximum_cardinality_order(start, neighbour, rng.random(n)))

    names = ["min-fill", "weighted-min-fill"] if heuristic == "search" else [heuristic]
    with planning(1.0):
        climbers = [_Climber(adjacency, weight, level, HEURISTICS[names[0]], rng)]
        if heuristic == "search" and not _is_spent(climbers, effort) and not is_ending():
            climbers.append(_Climber(adjacency, weight, level, HEURISTICS[names[1]], rng))
            while not _is_spent(climbers, effort) and not is_ending():
                for climber in climbers:
                    climber.step()
    return _finish(graph, adjacency, min(climbers, key=lambda c: c.total).order)


def is_narrow(graph: FactorGraph, log2_entries: float, *, levels: np.ndarray | None = None) -> bool:
    """Whether min-fill finds an order whose tables have at most so many entries together.

    Quick where it does not: the search ends with the first table too many, and wide ones are what takes long.
    """
    from ..kernels.ordering import HEURISTICS

    adjacency = free_primal_graph(graph)
    weight = graph.variables.sizes.astype(np.float64)
    level = np.zeros(len(weight), dtype=np.int64) if levels is None else np.asarray(levels, dtype=np.int64)
    limit = 2.0 ** min(log2_entries, 1000.0)
    with planning(1.0):
        climber = _Climber(adjacency, weight, level, HEURISTICS["min-fill"], np.random.default_rng(0), limit)
    return climber.total <= limit


class _Climber:
    """Hill climbing over the factors and tie-breaking keys that steer one greedy heuristic."""

    def __init__(
        self,
        adjacency: UndirectedGraph,
        weight: np.ndarray,
        level: np.ndarray,
        heuristic: int,
        rng: np.random.Generator,
        limit: float = np.inf,
    ) -> None:
        self._start, self._neighbour = adjacency.start, adjacency.neighbour
        self._weight, self._level, self._heuristic, self._rng = weight, level, heuristic, rng
        self._tie, self._bias = rng.random(len(weight)), np.ones(len(weight))
        self.order, self.total, self.work = self._greedy(self._tie, self._bias, limit)

    def _greedy(self, tie: np.ndarray, bias: np.ndarray, limit: float) -> tuple[np.ndarray, float, int]:
        """The order, its cost and the work; beyond the limit no order, at the end of time a hurried one."""
        from ..kernels import ordering as kernel

        size = len(self._start) + len(self._neighbour)
        state, pool = kernel.greedy_start(self._start, self._neighbour, self._weight, self._level)
        steps = kernel.greedy_steps
        while kernel.is_eliminating(state, limit):
            if is_ending():
                return kernel.hurried_order(state, self._level), np.inf, kernel.work_of(state)
            most = steps.portion(1.0, _PORTION)
            pool = steps.over(min(most, _LOOKS * size))(
                state, pool, self._weight, self._level, self._heuristic, tie, bias, limit, most
            )
        total = float(state.total[0])
        return state.order if total <= limit else state.order[:0], total, kernel.work_of(state)

    def step(self) -> None:
        """Disturb a random part of the variables; keep the disturbance if the order is no worse."""
        n, rng = len(self._weight), self._rng
        hit = rng.random(n) < rng.choice(_DISTURBED)
        tie = np.where(hit, rng.random(n), self._tie)
        bias = self._bias * np.where(hit, np.exp(0.5 * rng.standard_normal(n)), 1.0)
        order, total, work = self._greedy(tie, bias, self.total)
        self.work += work + _STEP_WORK + _STEP_WORK_PER_VARIABLE * n
        if len(order) and total <= self.total:
            self._tie, self._bias, self.order, self.total = tie, bias, order, total


def _is_spent(climbers: list[_Climber], effort: float) -> bool:
    """Whether searching has cost as much as the best order found will, or leads nowhere."""
    best = min(c.total for c in climbers)
    spent = _SEARCH_NANOSECONDS * sum(c.work for c in climbers)
    return spent >= effort * min(best * _RUN_NANOSECONDS, _LONGEST_SEARCH) or best > _HOPELESS


def induced_width(graph: FactorGraph, order: Sequence[str]) -> EliminationOrder:
    """Cliques and cost of a given order of all variables."""
    positions = graph.variables.positions(order)
    if len(np.unique(positions)) != len(graph.variables) or len(positions) != len(graph.variables):
        raise QueryError(
            f"order: expected each of the {len(graph.variables)} variables once, got {len(positions)} names"
        )
    return _finish(graph, free_primal_graph(graph), positions)


def free_scopes(graph: FactorGraph) -> tuple[np.ndarray, np.ndarray]:
    """Factor scopes (CSR) without one-state variables; table entries keep their places."""
    free = graph.variables.sizes[graph.scope] > 1
    if free.all():
        return graph.scope_start, graph.scope
    kept = np.concatenate([[0], np.cumsum(free)])
    return kept[graph.scope_start].astype(np.int64), graph.scope[free]


def free_primal_graph(graph: FactorGraph) -> UndirectedGraph:
    """The primal graph in which one-state variables are isolated."""
    return join_cliques(graph.variables.names, *free_scopes(graph))


def _finish(graph: FactorGraph, adjacency: UndirectedGraph, order: np.ndarray) -> EliminationOrder:
    weight = graph.variables.sizes.astype(np.float64)
    return EliminationOrder(graph.variables.names, order, adjacency, weight)
