"""Elimination orders, and what they will cost before anything is allocated.

Eliminating a variable joins its neighbours to a clique; the largest such clique gives the width,
the sum of the clique tables the work. Finding the best order is NP-hard, so greedy heuristics are
run several times with ties and small perturbations drawn from a seed, and the cheapest order wins.
How many times depends only on the forecast itself: searching is worth about as long as the
computation it speeds up, and the same seed gives the same order on every machine.
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
from .graph import UndirectedGraph, join_cliques

__all__ = ["EliminationOrder", "Heuristic", "elimination_order", "free_scopes", "induced_width"]

Heuristic = Literal["search", "min-fill", "weighted-min-fill", "min-degree", "min-size", "maximum-cardinality"]

_NOISE = 0.2  # relative perturbation of costs in restarts; found best on grids
_RUN_NANOSECONDS = 3.0  # a contraction and its two adjoints, per entry
_SEARCH_NANOSECONDS = 20_000.0  # one greedy run, per variable
_MAX_TRIALS = 100


@dataclass(frozen=True)
class EliminationOrder:
    """An order of all variables and its cost."""

    names: Sequence[str]  # of all variables
    order: np.ndarray  # positions, first eliminated first
    clique_start: np.ndarray  # (n + 1,) slices of `clique`
    clique: np.ndarray  # each step's variable followed by its remaining neighbours
    log2_total: float  # of the summed sizes of all clique tables
    log2_largest: float  # of the largest clique table

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
        `"search"` tries min-fill and weighted min-fill with restarts; the other names run once.
    levels
        One number per variable: lower levels are eliminated first (sums before maxima).
    effort
        How long to search, as a multiple of the expected time of the computation.
    seed
        Breaks ties and drives restarts.

    Examples
    --------
    >>> import credo
    >>> from credo.structures import elimination_order
    >>> elimination_order(credo.datasets.asia().to_factor_graph()).width
    2
    """
    from ..kernels.ordering import HEURISTICS, greedy_order, maximum_cardinality_order

    check.one_of("heuristic", heuristic, ["search", "maximum-cardinality", *HEURISTICS])
    check.at_least("effort", effort, 0)
    n = len(graph.variables)
    weight = graph.variables.sizes.astype(np.float64)
    adjacency = free_primal_graph(graph)
    start, neighbour = adjacency.start, adjacency.neighbour
    level = np.zeros(n, dtype=np.int64) if levels is None else np.asarray(levels, dtype=np.int64)
    rng = np.random.default_rng(seed)
    if heuristic == "maximum-cardinality":
        if len(np.unique(level)) > 1:
            raise QueryError("maximum-cardinality: expected one level, got several; use min-fill")
        return _finish(graph, adjacency, maximum_cardinality_order(start, neighbour, rng.random(n)))

    ones = np.ones(n)
    names = ["min-fill", "weighted-min-fill"] if heuristic == "search" else [heuristic]
    best, best_total = None, np.inf
    scores = []
    for name in names:
        order, total, _ = greedy_order(
            start, neighbour, weight, level, HEURISTICS[name], rng.random(n), ones, np.inf
        )
        scores.append(total)
        if total < best_total:
            best, best_total = order, total
    if heuristic == "search" and n:
        spare = effort * best_total * _RUN_NANOSECONDS / (n * _SEARCH_NANOSECONDS)
        for trial in range(int(min(spare, _MAX_TRIALS * max(effort, 1.0)))):
            noise = 1 + _NOISE * rng.uniform(-1, 1, n)
            code = HEURISTICS[names[trial % 2]]
            order, total, _ = greedy_order(
                start, neighbour, weight, level, code, rng.random(n), noise, best_total
            )
            if len(order) and total < best_total:
                best, best_total = order, total
    return _finish(graph, adjacency, best)


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


def _finish(graph: FactorGraph, adjacency: UndirectedGraph, order: np.ndarray | None) -> EliminationOrder:
    from ..kernels.ordering import order_cost

    assert order is not None
    weight = graph.variables.sizes.astype(np.float64)
    start, clique, total, largest = order_cost(adjacency.start, adjacency.neighbour, weight, order)
    return EliminationOrder(
        graph.variables.names, order, start, clique, float(np.log2(max(total, 1.0))), float(largest)
    )
