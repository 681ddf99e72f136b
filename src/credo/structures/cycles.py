r"""Loops of undirected graphs, as roots of region graphs.

A loop is a tuple of positions in cyclic order. A *cycle basis* has |E| - |V| + (components) loops
and every cycle is a unique sum of them modulo 2. It is *tree exact* for a spanning tree T if the
loops have an order in which each one after the first holds an edge outside T and outside all
earlier ones; it is *tree robust* if that is so for every spanning tree (then region-based inference
is exact however the couplings outside a tree vanish).

    star_triangles   complete graphs: all triangles through one variable; tree robust
    loop_basis       any graph, block by block: a shortest loop, then one loop per further edge
                     or path that leaves what is already used; closed by a shortest used path
    planar_faces     (in `planar.py`) bounded faces of planar graphs; tree robust

Bridges, trees and isolated variables lie on no loop; region builders give them regions of their own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from ..core.errors import TooLargeError, UnsupportedError
from ..optimise.run import check, watched
from .graph import UndirectedGraph

__all__ = ["blocks", "is_tree_exact", "is_tree_robust", "loop_basis", "loop_edges", "star_triangles"]

Loop = tuple[int, ...]
Pair = tuple[int, int]


def loop_edges(loop: Sequence[int]) -> frozenset[Pair]:
    """Edges of a loop, lower end first."""
    around = zip(loop, (*loop[1:], loop[0]), strict=True)
    return frozenset((i, j) if i < j else (j, i) for i, j in around if i != j)


def star_triangles(graph: UndirectedGraph, hub: str | None = None) -> list[Loop]:
    """All triangles of a complete graph through one variable, by default the first.

    Examples
    --------
    >>> from credo.structures import UndirectedGraph, star_triangles
    >>> star_triangles(UndirectedGraph.from_edges(map(tuple, ["ab", "ac", "ad", "bc", "bd", "cd"])))
    [(0, 1, 2), (0, 1, 3), (0, 2, 3)]
    """
    n = len(graph)
    if graph.n_edges != n * (n - 1) // 2:
        raise UnsupportedError(
            f"star triangles: expected a complete graph with {n * (n - 1) // 2} edges, got {graph.n_edges}; "
            "use regions='faces' or 'loops'"
        )
    centre = 0 if hub is None else graph.position(hub)
    others = [i for i in range(n) if i != centre]
    return [(centre, i, j) for k, i in enumerate(watched(others)) for j in others[k + 1 :]]


def blocks(graph: UndirectedGraph) -> list[list[Pair]]:
    """The edges of each biconnected part; a bridge is a part of one edge."""
    found: list[list[Pair]] = []
    depth = [-1] * len(graph)
    low = [0] * len(graph)
    for root in range(len(graph)):
        if depth[root] >= 0:
            continue
        depth[root] = 0
        open_edges: list[Pair] = []
        path = [(root, -1, iter(_neighbours(graph, root)))]
        while path:
            check()
            i, parent, rest = path[-1]
            j = next(rest, None)
            if j is None:
                path.pop()
                if path:
                    above = path[-1][0]
                    low[above] = min(low[above], low[i])
                    if low[i] >= depth[above]:
                        found.append(_close(open_edges, (above, i)))
            elif depth[j] < 0:
                depth[j] = low[j] = depth[i] + 1
                open_edges.append((i, j))
                path.append((j, i, iter(_neighbours(graph, j))))
            elif j != parent and depth[j] < depth[i]:
                open_edges.append((i, j))
                low[i] = min(low[i], depth[j])
    return found


def _close(open_edges: list[Pair], last: Pair) -> list[Pair]:
    """Take the edges opened since `last` off the stack; lower ends first."""
    part = []
    while True:
        i, j = edge = open_edges.pop()
        part.append((min(i, j), max(i, j)))
        if edge == last:
            return sorted(part)


def _neighbours(graph: UndirectedGraph, i: int) -> list[int]:
    found: list[int] = graph.neighbour[graph.start[i] : graph.start[i + 1]].tolist()
    return found


def loop_basis(graph: UndirectedGraph) -> list[Loop]:
    """A cycle basis of short loops, grown block by block; empty for a forest.

    Examples
    --------
    >>> from credo.structures import UndirectedGraph, loop_basis
    >>> loop_basis(UndirectedGraph.from_edges(map(tuple, ["ab", "bc", "cd", "da", "ac", "ce"])))
    [(0, 2, 1), (0, 3, 2)]
    """
    return [loop for part in blocks(graph) if len(part) > 1 for loop in _grow(part)]


def single_loop(edges: Sequence[Pair]) -> Loop:
    """The vertices of a graph that is one loop, in cyclic order."""
    return _loop_through(_adjacency(edges), *edges[0])


def _grow(edges: Sequence[Pair]) -> Iterator[Loop]:
    """Loops of one biconnected part."""
    around = _adjacency(edges)
    first = min(around, key=lambda i: (-len(around[i]), i))
    loop = min((_loop_through(around, first, j) for j in watched(around[first])), key=len)
    used = _adjacency(loop_edges(loop))
    yield loop
    todo = deque(loop)
    while todo:
        check()
        s = todo[0]
        t = next((j for j in around[s] if j not in used[s]), None)
        if t is None:
            todo.popleft()
            continue
        out = [s, t] if t in used else [s, *_path(around, t, {u for u in used if u != s}, without=s)]
        back = _path(used, out[-1], {s})
        todo.extend(i for i in out if i not in used)
        for i, j in pairwise(out):
            used.setdefault(i, []).append(j)
            used.setdefault(j, []).append(i)
        yield tuple(out + back[1:-1])


def _adjacency(edges: Iterable[Pair]) -> dict[int, list[int]]:
    around: dict[int, list[int]] = {}
    for i, j in sorted(edges):
        around.setdefault(i, []).append(j)
        around.setdefault(j, []).append(i)
    return around


def _loop_through(around: dict[int, list[int]], i: int, j: int) -> Loop:
    """A shortest loop through the edge i - j."""
    return tuple(_path(around, i, {j}, skip=(i, j)))


def _path(
    around: dict[int, list[int]],
    start: int,
    targets: Collection[int],
    *,
    without: int = -1,
    skip: Pair | None = None,
) -> list[int]:
    """A shortest path from `start` to the nearest target, avoiding one vertex or one edge."""
    before = {start: -1}
    queue = deque([start])
    while queue:
        i = queue.popleft()
        if i in targets:
            path = [i]
            while before[path[-1]] >= 0:
                path.append(before[path[-1]])
            return path[::-1]
        for j in around[i]:
            if j not in before and j != without and (i, j) != skip:
                before[j] = i
                queue.append(j)
    raise AssertionError("a biconnected part has a path around every vertex and edge")


def is_tree_exact(loops: Sequence[Sequence[int]], tree: Iterable[Pair]) -> bool:
    """Whether the loops can be ordered so that each after the first has a new edge outside the tree.

    Examples
    --------
    >>> from credo.structures import is_tree_exact
    >>> is_tree_exact([(0, 1, 2), (0, 2, 3)], [(0, 1), (0, 2), (0, 3)])
    True
    """
    spanning = {(min(e), max(e)) for e in tree}
    rest = [loop_edges(loop) - spanning for loop in loops]
    # Taking one loop away never takes an own edge from another, so peeling greedily is enough.
    while len(rest) > 1:
        for k, mine in enumerate(rest):
            others: frozenset[Pair] = frozenset().union(*(rest[:k] + rest[k + 1 :]))
            if mine - others:
                rest.pop(k)
                break
        else:
            return False
    return True


def is_tree_robust(graph: UndirectedGraph, loops: Sequence[Sequence[int]], *, max_trees: int = 20000) -> bool:
    """Whether the loops are tree exact for every spanning tree (forest) of a small graph.

    Examples
    --------
    >>> from credo.structures import UndirectedGraph, is_tree_robust, star_triangles
    >>> four = UndirectedGraph.from_edges(map(tuple, ["ab", "ac", "ad", "bc", "bd", "cd"]))
    >>> is_tree_robust(four, star_triangles(four))
    True
    """
    trees = _count_forests(graph)
    if trees > max_trees:
        raise TooLargeError(
            f"tree robustness: about {trees:.3g} spanning trees, more than max_trees={max_trees}; "
            "ask about a smaller graph"
        )
    edges = [(int(i), int(j)) for i, j in graph.edge_positions]
    return all(is_tree_exact(loops, tree) for tree in _forests(len(graph), edges))


def _count_forests(graph: UndirectedGraph) -> float:
    """Number of maximal spanning forests: one determinant per component."""
    from .graph import connected_components

    laplacian = np.diag(graph.degrees.astype(np.float64))
    laplacian[graph.owner, graph.neighbour] = -1.0
    labels = connected_components(graph)
    kept = np.flatnonzero(
        np.isin(np.arange(len(graph)), np.unique(labels, return_index=True)[1], invert=True)
    )
    return float(round(np.linalg.det(laplacian[np.ix_(kept, kept)])))


def _forests(n: int, edges: Sequence[Pair]) -> Iterator[list[Pair]]:
    """All maximal spanning forests, by taking or leaving each edge."""

    def parts(chosen: Sequence[Pair]) -> list[int]:
        label = list(range(n))
        for i, j in chosen:
            old, new = label[j], label[i]
            label = [new if k == old else k for k in label]
        return label

    most = n - len(set(parts(edges)))

    def extend(chosen: list[Pair], at: int) -> Iterator[list[Pair]]:
        if len(chosen) == most:
            yield chosen
            return
        label = parts(chosen)
        if len(set(parts([*chosen, *edges[at:]]))) > n - most:
            return  # what is left no longer connects the graph
        for k in range(at, len(edges)):
            i, j = edges[k]
            if label[i] != label[j]:
                yield from extend([*chosen, edges[k]], k + 1)

    yield from extend([], 0)
