"""Maximal cliques and chordality.

Maximum cardinality search visits next the variable with the most visited neighbours. A graph is
chordal iff, for every variable, the neighbours visited before it form a clique; the reversed
visiting order is then a perfect elimination order (no fill-in), and the maximal cliques are read
off the search in linear time. Other graphs are listed by branching with pivots (Bron-Kerbosch),
exponential in the worst case because the list itself can be.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..core.factor_graph import FactorGraph
from .graph import UndirectedGraph, primal_graph

__all__ = ["is_chordal", "maximal_cliques", "maximum_cardinality_search", "perfect_elimination_order"]


def maximum_cardinality_search(graph: UndirectedGraph) -> np.ndarray:
    """Positions in the order visited, ties broken by the search itself; linear time.

    To eliminate along it, reverse it; on a graph that is not chordal that order has fill-in.
    """
    n = len(graph)
    start, neighbour = graph.start.tolist(), graph.neighbour.tolist()
    weight, visited, order = [0] * n, bytearray(n), []
    # buckets[w] holds variables with w visited neighbours; outdated entries are skipped when met.
    buckets: list[list[int]] = [list(range(n - 1, -1, -1))]
    top = 0
    while top >= 0:
        if not buckets[top]:
            top -= 1
            continue
        i = buckets[top].pop()
        if visited[i] or weight[i] != top:
            continue
        visited[i] = 1
        order.append(i)
        for j in neighbour[start[i] : start[i + 1]]:
            if not visited[j]:
                weight[j] += 1
                if weight[j] == len(buckets):
                    buckets.append([])
                buckets[weight[j]].append(j)
        top = min(top + 1, len(buckets) - 1)
    return np.array(order, dtype=np.int64)


def is_chordal(graph: UndirectedGraph | FactorGraph) -> bool:
    """Whether every cycle of four or more variables has a chord; of a factor graph, in its primal graph.

    Examples
    --------
    >>> from credo.structures import UndirectedGraph, is_chordal
    >>> square = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")]
    >>> is_chordal(UndirectedGraph.from_edges(square))
    False
    >>> is_chordal(UndirectedGraph.from_edges([*square, ("a", "c")]))
    True
    """
    graph = _undirected(graph)
    return _is_perfect(graph, maximum_cardinality_search(graph))


def perfect_elimination_order(graph: UndirectedGraph | FactorGraph) -> np.ndarray | None:
    """Positions in an order of elimination without fill-in, or None if the graph is not chordal."""
    graph = _undirected(graph)
    order = maximum_cardinality_search(graph)
    return order[::-1].copy() if _is_perfect(graph, order) else None


def maximal_cliques(graph: UndirectedGraph | FactorGraph) -> list[tuple[str, ...]]:
    """All cliques that no other variable can join, sorted; of a factor graph, in its primal graph.

    They are the scopes of the most general factor graph with this undirected graph.

    Examples
    --------
    >>> from credo.structures import UndirectedGraph, maximal_cliques
    >>> maximal_cliques(UndirectedGraph.from_edges([("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")]))
    [('a', 'b', 'c'), ('c', 'd')]
    """
    graph = _undirected(graph)
    return [tuple(graph.names[i] for i in clique) for clique in clique_positions(graph)]


def clique_positions(graph: UndirectedGraph) -> list[list[int]]:
    """The maximal cliques as sorted lists of positions."""
    order = maximum_cardinality_search(graph)
    found = _chordal_cliques(graph, order) if _is_perfect(graph, order) else _all_cliques(graph)
    return sorted(sorted(clique) for clique in found)


def _undirected(graph: UndirectedGraph | FactorGraph) -> UndirectedGraph:
    return primal_graph(graph) if isinstance(graph, FactorGraph) else graph


def _is_perfect(graph: UndirectedGraph, order: np.ndarray) -> bool:
    """Whether the earlier neighbours of every variable form a clique.

    It suffices that all of them are neighbours of the latest one among them, by induction.
    """
    n = len(graph)
    rank = np.empty(n, dtype=np.int64)
    rank[order] = np.arange(n)
    earlier = rank[graph.neighbour] < rank[graph.owner]
    owner, other = graph.owner[earlier], graph.neighbour[earlier]
    latest = np.full(n, -1, dtype=np.int64)
    np.maximum.at(latest, owner, rank[other])
    last = order[latest[owner]]
    check = last != other
    return bool(graph.contains(last[check], other[check]).all())


def _chordal_cliques(graph: UndirectedGraph, order: np.ndarray) -> Iterator[list[int]]:
    """A variable with its earlier neighbours is maximal unless the next one visited sees one more."""
    rank = np.empty(len(graph), dtype=np.int64)
    rank[order] = np.arange(len(graph))
    earlier = rank[graph.neighbour] < rank[graph.owner]
    count = np.bincount(graph.owner[earlier], minlength=len(graph))[order]
    grows = np.append(count[1:] > count[:-1], False) if len(order) else np.empty(0, dtype=bool)
    for i in order[~grows].tolist():
        around = slice(graph.start[i], graph.start[i + 1])
        yield [i, *graph.neighbour[around][earlier[around]].tolist()]


def _all_cliques(graph: UndirectedGraph) -> Iterator[list[int]]:
    """Branch on candidates that are no neighbours of a pivot; the stack replaces recursion."""
    start, neighbour = graph.start.tolist(), graph.neighbour.tolist()
    adjacent = [set(neighbour[start[i] : start[i + 1]]) for i in range(len(graph))]
    stack: list[tuple[list[int], set[int], set[int]]] = [([], set(range(len(graph))), set())]
    while stack:
        clique, candidates, excluded = stack.pop()
        if not candidates:
            if not excluded:
                yield clique
            continue
        pivot = max(candidates | excluded, key=lambda i: len(candidates & adjacent[i]))
        for i in sorted(candidates - adjacent[pivot]):
            stack.append(([*clique, i], candidates & adjacent[i], excluded & adjacent[i]))
            candidates.remove(i)
            excluded.add(i)
