r"""Ways to make a region graph.

    bethe_regions          one region per factor, one per variable: the regions of belief propagation
    cluster_variation      roots, then intersections: level by level, or all of them
    loop_edge_node         loops above their edges above their variables
    junction_regions       cliques of a junction tree above its separators: exact
    region_graph           by name, from sets of variable names, or chosen from the graph

Level-wise cluster variation takes the pairwise intersections of one level that lie in no other, as
the next level. It can miscount: roots {1,2,3}, {2,3,4}, {3,5,6} have the only intersection {2,3} and
count 3 twice. With all intersections, and all larger regions as ancestors (Moebius counting numbers),
everything is counted once: the regions that hold a variable or a factor have a smallest one.

Where factors go: a factor of one variable belongs to every region that holds the variable. A larger
one belongs to every root that holds its scope (variable-set view); in the loop view a root made from
a loop holds a pair factor only if the pair is an edge of that loop, which keeps chords out and lets
the outer face of a planar graph be a region beside the inner ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal

import numpy as np

from ..core import check
from ..core.errors import MissingExtraError, ModelError, UnsupportedError
from ..core.factor_graph import FactorGraph
from ..core.wiring import starts_of
from ..optimise.run import watched
from .cycles import Loop, loop_basis, loop_edges, star_triangles
from .graph import UndirectedGraph, connected_components, join_cliques
from .junction_tree import junction_tree
from .planar import lattice_columns, planar_faces
from .recognise import is_forest
from .region_sets import FactorIndex, Nodes, above, by_variable, closure, free_scopes, maximal, meets
from .regions import Edge, Region, RegionGraph

__all__ = [
    "REGIONS",
    "bethe_regions",
    "cluster_variation",
    "junction_regions",
    "loop_edge_node",
    "region_graph",
]

REGIONS = (
    "auto",
    "all-faces",
    "bethe",
    "cvm",
    "faces",
    "junction-tree",
    "loop-edge-node",
    "loops",
    "star",
)
MAX_ENTRIES = 2**12  # table of the largest loop that is kept whole


def region_graph(
    graph: FactorGraph,
    regions: str | Iterable[Iterable[str]] = "auto",
    *,
    max_entries: int = MAX_ENTRIES,
) -> RegionGraph:
    """The region graph of a factor graph.

    Parameters
    ----------
    graph
        The factor graph; variables with one state are left out.
    regions
        Root regions as sets of variable names, completed by all intersections; or a name:
        "bethe"; "cvm" (roots are the largest factor scopes); "faces" (of a planar graph) and
        "all-faces" (with the outer one); "star" (triangles of a complete graph); "loops" (a basis
        of short loops of any graph); "loop-edge-node" (the loops of "auto", their edges, their
        variables); "junction-tree" (exact); "auto": "bethe" for a forest, otherwise each connected
        part gets star triangles if it is complete, faces if planar, a loop basis if neither (or if
        NetworkX is missing and the graph is no grid).
    max_entries
        Loops with more joint states are split into triangles that fan out from one variable.

    Examples
    --------
    >>> import credo
    >>> from credo.structures import region_graph
    >>> region_graph(credo.datasets.complete_ising(9).to_factor_graph())
    RegionGraph(37 regions, 64 edges, levels 28/8/1, counting numbers 1/-6/21)
    """
    check.whole("max_entries", max_entries, 1)
    if not isinstance(regions, str):
        return _from_names(graph, regions)
    check.one_of("regions", regions, REGIONS)
    if regions == "bethe" or (regions == "auto" and is_forest(graph)):
        return bethe_regions(graph)
    if regions == "junction-tree":
        return junction_regions(graph)
    if regions == "cvm":
        return cluster_variation(graph, _scopes(graph), repair=True).without_idle()
    primal = _free_primal(graph)
    loops = _loops(primal, "auto" if regions == "loop-edge-node" else regions)
    loops = [part for loop in watched(loops) for part in _split(graph, loop, max_entries)]
    if regions == "loop-edge-node":
        return loop_edge_node(graph, loops)
    return cluster_variation(graph, loops, view="loops", repair=True).without_idle()


def bethe_regions(graph: FactorGraph) -> RegionGraph:
    """One region per factor of two or more variables, one per variable below them.

    Factors of one variable are part of every region that holds it. The region free energy is the
    Bethe free energy, the fixed points of message passing are those of belief propagation.
    """
    index = FactorIndex(graph)
    scopes = index.scopes
    unary = [[a for a in at if len(scopes[a]) == 1] for at in index.at]
    free = np.flatnonzero(graph.variables.sizes > 1).tolist()
    factors = [a for a, scope in enumerate(scopes) if len(scope) > 1]
    number = {i: len(factors) + k for k, i in enumerate(free)}
    regions = [
        Region(scopes[a], tuple(sorted([a, *(b for i in scopes[a] for b in unary[i])]))) for a in factors
    ]
    regions += [Region((i,), tuple(unary[i])) for i in free]
    edges = [(k, number[i]) for k, a in enumerate(factors) for i in scopes[a]]
    return RegionGraph(graph, regions, edges).check()


def junction_regions(graph: FactorGraph) -> RegionGraph:
    """Cliques of a junction tree above its separators; the region free energy is exact.

    Every edge of the junction tree gets a separator region of its own, so the region graph is a
    forest as well.
    """
    tree = junction_tree(graph)
    index = FactorIndex(graph)
    cliques = [Region.of(index.inside(c.tolist())) for c in tree.cliques]
    joined = [c for c, p in enumerate(tree.parent) if p >= 0 and len(tree.separators[c])]
    separators = [Region.of(index.inside(tree.separators[c].tolist())) for c in joined]
    edges: list[Edge] = []
    for k, c in enumerate(joined):
        edges += [(c, len(cliques) + k), (int(tree.parent[c]), len(cliques) + k)]
    return RegionGraph(graph, cliques + separators, edges).check()


def cluster_variation(
    graph: FactorGraph,
    roots: Iterable[Sequence[int]],
    *,
    view: Literal["variables", "loops"] = "variables",
    intersections: Literal["levels", "all"] = "levels",
    repair: bool = False,
) -> RegionGraph:
    """Root regions and their intersections (the cluster variation method, Kikuchi regions).

    Parameters
    ----------
    graph
        The factor graph.
    roots
        Variable positions of each root, for the view "loops" in cyclic order. Factors and variables
        that no root holds get a root of their own; roots that are part of others are dropped.
    view
        Which pair factors a root holds: all inside, or those along the loop.
    intersections
        "levels": intersections of one level give the next, keeping the largest ones; this can
        count something more or less than once. "all": every intersection of any number of roots.
    repair
        Whether to take all intersections where the levels miscount, instead of raising.

    Examples
    --------
    >>> from credo import FactorGraph
    >>> from credo.structures import cluster_variation
    >>> six = FactorGraph({name: 2 for name in "abcdef"})
    >>> cluster_variation(six, [(0, 1, 2), (1, 2, 3), (2, 4, 5)], intersections="all")
    RegionGraph(5 regions, 4 edges, levels 3/1/1, counting numbers 1/-1/-1)
    """
    check.one_of("view", view, ("variables", "loops"))
    check.one_of("intersections", intersections, ("levels", "all"))
    largest = maximal(_complete(graph, [tuple(map(int, root)) for root in roots], view))
    if intersections == "levels":
        found = _by_levels(graph, largest)
        if not repair or found.is_valid:
            return found.check()
    return _by_inclusion(graph, closure(largest)).check()


def loop_edge_node(graph: FactorGraph, loops: Iterable[Sequence[int]]) -> RegionGraph:
    """Three levels: loops (and factors of three or more variables), their edges, their variables.

    Unlike cluster variation it keeps every edge and every variable as a region; valid by construction.
    """
    given = [tuple(map(int, loop)) for loop in loops]
    roots = _complete(graph, given, "loops")
    index = FactorIndex(graph)
    pairs = {pair for loop in given for pair in loop_edges(loop)}
    pairs |= {(min(s), max(s)) for s in index.scopes if len(s) == 2}
    smaller = [index.along(pair, {pair}) for pair in sorted(pairs)]
    smaller += [index.inside([i]) for i in np.flatnonzero(graph.variables.sizes > 1).tolist()]
    return _by_inclusion(graph, list(dict.fromkeys(roots + smaller))).check()


def _free_primal(graph: FactorGraph) -> UndirectedGraph:
    scopes = free_scopes(graph)
    flat = np.array([i for scope in scopes for i in scope], dtype=np.int64)
    return join_cliques(graph.variables.names, starts_of([len(s) for s in scopes]), flat)


def _scopes(graph: FactorGraph) -> list[tuple[int, ...]]:
    return list(dict.fromkeys(scope for scope in free_scopes(graph) if scope))


def _from_names(graph: FactorGraph, regions: Iterable[Iterable[str]]) -> RegionGraph:
    roots = []
    for region in regions:
        if isinstance(region, str):
            raise ModelError(f"regions: expected sets of variable names, got the text {region!r}")
        roots.append(tuple(sorted({int(i) for i in graph.variables.positions(region)})))
    covered = {i for root in roots for i in root}
    free = graph.variables.sizes > 1
    for i in np.flatnonzero(free).tolist():
        if i not in covered:
            raise ModelError(
                f"regions: expected every variable in a region, but '{graph.variables.names[i]}' is in none"
            )
    sets = [set(root) for root in roots]
    for a, scope in enumerate(free_scopes(graph)):
        if scope and not any(inside.issuperset(scope) for inside in sets):
            names = [graph.variables.names[i] for i in scope]
            raise ModelError(
                f"regions: expected every factor inside a region, but factor {a} over {names} is in none"
            )
    roots = [tuple(i for i in root if free[i]) for root in roots]
    return cluster_variation(graph, [root for root in roots if root], intersections="all").without_idle()


def _loops(primal: UndirectedGraph, name: str) -> list[Loop]:
    if name == "star":
        return [loop for part in _parts(primal) for loop in _move(star_triangles(part[0]), part[1])]
    if name == "loops":
        return loop_basis(primal)
    if name in ("faces", "all-faces"):
        faces = planar_faces(primal, infinite=name == "all-faces")
        if faces is None:
            raise UnsupportedError("faces: the graph is not planar; use regions='loops'")
        return faces
    chosen: list[Loop] = []
    for part, members in [(primal, np.arange(len(primal)))] if lattice_columns(primal) else _parts(primal):
        chosen += _move(_best_loops(part), members)
    return chosen


def _best_loops(part: UndirectedGraph) -> list[Loop]:
    """Star triangles, faces or a loop basis of a connected graph, the first that is possible."""
    n = len(part)
    if part.n_edges == n * (n - 1) // 2:
        return star_triangles(part)
    try:
        faces = planar_faces(part)
    except MissingExtraError:
        faces = None  # without NetworkX only grids are drawn, as the documentation says
    return loop_basis(part) if faces is None else faces


def _parts(graph: UndirectedGraph) -> list[tuple[UndirectedGraph, np.ndarray]]:
    """The connected parts with an edge, and the positions of their variables in the whole."""
    labels = connected_components(graph)
    found = []
    for label in watched(np.unique(labels[graph.owner]).tolist()):
        members = np.flatnonzero(labels == label)
        inside = graph.edge_positions[labels[graph.edge_positions[:, 0]] == label]
        ends = np.searchsorted(members, inside)
        names = [graph.names[int(i)] for i in members]
        found.append((UndirectedGraph.from_positions(names, ends[:, 0], ends[:, 1]), members))
    return found


def _move(loops: Iterable[Loop], members: np.ndarray) -> list[Loop]:
    return [tuple(int(members[i]) for i in loop) for loop in loops]


def _split(graph: FactorGraph, loop: Loop, max_entries: int) -> list[Loop]:
    """The loop, or triangles that share one of its variables if its table would be too large."""
    sizes = graph.variables.sizes
    if len(loop) <= 3 or float(np.log2(sizes[list(loop)]).sum()) <= np.log2(max_entries) + 1e-9:
        return [loop]
    at = min(range(len(loop)), key=lambda k: (sizes[loop[k]], loop[k]))
    turned = loop[at:] + loop[:at]
    return [(turned[0], i, j) for i, j in pairwise(turned[1:])]


def _complete(graph: FactorGraph, roots: Sequence[Loop], view: str) -> list[Nodes]:
    """Roots as joint sets, with roots for the factors and variables that none holds."""
    index = FactorIndex(graph)
    made = [index.along(root, loop_edges(root) if view == "loops" else None) for root in watched(roots)]
    held: set[int] = set().union(*made)
    for a, scope in enumerate(watched(index.scopes)):
        if scope and -1 - a not in held:
            made.append(index.inside(scope))
            held |= made[-1]
    lonely = [i for i in np.flatnonzero(graph.variables.sizes > 1).tolist() if i not in held]
    return list(dict.fromkeys(made + [frozenset([i]) for i in lonely]))


def _by_levels(graph: FactorGraph, roots: Sequence[Nodes]) -> RegionGraph:
    regions, edges = list(roots), list[Edge]()
    level, offset = list(roots), 0
    while True:
        below = maximal(meets(level))
        if not below:
            break
        index = by_variable(level)
        for k, nodes in enumerate(watched(below)):
            edges += [(offset + p, len(regions) + k) for p in above(nodes, level, index)]
        offset = len(regions)
        regions += below
        level = below
    return RegionGraph(graph, [Region.of(nodes) for nodes in regions], edges)


def _by_inclusion(graph: FactorGraph, sets: Sequence[Nodes]) -> RegionGraph:
    """Edges from each set to the sets it covers: proper subsets with nothing between."""
    index = by_variable(sets)
    edges: list[Edge] = []
    for r, nodes in enumerate(watched(sets)):
        covers: list[int] = []
        for p in sorted(above(nodes, sets, index), key=lambda k: len(sets[k])):
            if not any(sets[c] < sets[p] for c in covers):
                covers.append(p)
        edges += [(p, r) for p in covers]
    return RegionGraph(graph, [Region.of(nodes) for nodes in sets], edges)
