"""Recognise special structure, so that fast paths are chosen from the graph and not from a model's class.

Conventions for factor graphs:

* a variable with one state is a constant: its axis is ignored, so evidence can turn a loopy graph
  into a tree (`without_constants` removes such variables for kernels that want them gone);
* a factor over one variable is a leaf and closes no loop; a factor over none is ignored;
* a factor graph is a tree or a forest by its bipartite graph of variables and factors: two
  factors over the same two variables form a loop, a single factor over many variables does not;
* the graph without variables counts as a tree, as a chain and as bipartite.

All run in linear time (up to a sort).
"""

from __future__ import annotations

import numpy as np

from ..core.factor_graph import FactorGraph
from ..core.wiring import starts_of
from .cliques import is_chordal
from .directed import DirectedGraph, Parents, moralise
from .graph import UndirectedGraph, component_labels, join_cliques

__all__ = [
    "bipartition",
    "chain_order",
    "immoralities",
    "is_binary",
    "is_bipartite",
    "is_chain",
    "is_dag_representable",
    "is_directed_tree",
    "is_forest",
    "is_pairwise",
    "is_polytree",
    "is_tree",
    "is_undirected_representable",
]


def is_forest(graph: FactorGraph | UndirectedGraph) -> bool:
    """Whether the graph has no loop; sum-product message passing is then exact.

    Examples
    --------
    >>> from credo import FactorGraph
    >>> from credo.structures import is_forest
    >>> is_forest(FactorGraph({"a": 2, "b": 2, "c": 2}, {("a", "b", "c"): [1] * 8, "c": [1, 2]}))
    True
    """
    return _shape(graph)[0]


def is_tree(graph: FactorGraph | UndirectedGraph) -> bool:
    """Whether the graph has no loop and hangs together."""
    forest, parts = _shape(graph)
    return forest and parts <= 1


def is_chain(graph: FactorGraph | UndirectedGraph) -> bool:
    """Whether the graph is a path; see `chain_order`."""
    return chain_order(graph) is not None


def chain_order(graph: FactorGraph | UndirectedGraph) -> np.ndarray | None:
    """Positions of the variables along a path, from the end with the lower position, or None.

    A chain is a tree whose factors hold at most two variables, each variable having at most two
    neighbours. One-state variables of a factor graph are left out.

    Examples
    --------
    >>> from credo.structures import UndirectedGraph, chain_order
    >>> chain_order(UndirectedGraph.from_edges([("a", "b"), ("c", "a")])).tolist()
    [1, 0, 2]
    """
    if not is_tree(graph) or (isinstance(graph, FactorGraph) and not is_pairwise(graph)):
        return None
    path = _free_primal(graph) if isinstance(graph, FactorGraph) else graph
    inside = np.flatnonzero(_is_free(graph))
    if path.degrees.max(initial=0) > 2:
        return None
    if len(inside) < 2:
        return inside
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    n, end = len(path), int(np.flatnonzero(path.degrees == 1)[0])
    matrix = csr_array(
        (np.ones(len(path.neighbour), dtype=np.int8), path.neighbour, path.start), shape=(n, n)
    )
    order: np.ndarray = breadth_first_order(matrix, end, return_predecessors=False).astype(np.int64)
    return order


def is_bipartite(graph: FactorGraph | UndirectedGraph) -> bool:
    """Whether the variables fall into two classes with no edge inside a class; see `bipartition`."""
    return bipartition(graph) is not None


def bipartition(graph: FactorGraph | UndirectedGraph) -> np.ndarray | None:
    """Class (0 or 1) of each variable such that neighbours differ, or None if there is an odd loop.

    Neighbours in a factor graph share a factor (restricted Boltzmann machines and grids are
    bipartite). The lowest position of each component, and every constant, has class 0.
    """
    if isinstance(graph, FactorGraph) and not is_pairwise(graph):
        return None
    flat = _free_primal(graph) if isinstance(graph, FactorGraph) else graph
    # In the double cover an edge changes the copy: the copies of a variable meet iff a loop is odd.
    n = len(flat)
    labels = component_labels(2 * n, flat.owner, flat.neighbour + n)
    if (labels[:n] == labels[n:]).any():
        return None
    parts = component_labels(n, flat.owner, flat.neighbour)
    _, lowest = np.unique(parts, return_index=True)
    colours: np.ndarray = (labels[:n] != labels[lowest[parts]]).astype(np.int64)
    return colours


def is_pairwise(graph: FactorGraph) -> bool:
    """Whether no factor holds more than two variables, one-state variables aside."""
    return int(np.diff(_free_scopes(graph)[0]).max(initial=0)) <= 2


def is_binary(graph: FactorGraph) -> bool:
    """Whether every variable has two states, one-state variables aside."""
    return bool((graph.variables.sizes <= 2).all())


def is_polytree(parents: Parents) -> bool:
    """Whether a directed graph is singly connected: no loop even when arrows are dropped.

    Several disconnected parts are allowed.

    Examples
    --------
    >>> from credo.structures import is_polytree
    >>> is_polytree({"rain": [], "sprinkler": [], "wet": ["rain", "sprinkler"]})
    True
    """
    return is_forest(DirectedGraph.of(parents).skeleton())


def is_directed_tree(parents: Parents) -> bool:
    """Whether every variable has at most one parent; several roots are allowed."""
    return int(np.diff(DirectedGraph.of(parents).parent_start).max(initial=0)) <= 1


def immoralities(parents: Parents) -> list[tuple[str, str, str]]:
    """All (a, child, b) with a -> child <- b and no arrow between a and b.

    Examples
    --------
    >>> from credo.structures import immoralities
    >>> immoralities({"rain": [], "sprinkler": [], "wet": ["rain", "sprinkler"]})
    [('rain', 'wet', 'sprinkler')]
    """
    directed = DirectedGraph.of(parents)
    skeleton, names = directed.skeleton(), directed.names
    found: list[tuple[str, str, str]] = []
    for child in np.flatnonzero(np.diff(directed.parent_start) > 1).tolist():
        mine = np.sort(directed.parent[directed.parent_start[child] : directed.parent_start[child + 1]])
        first, second = np.triu_indices(len(mine), 1)
        apart = ~skeleton.contains(mine[first], mine[second])
        pairs = zip(mine[first[apart]].tolist(), mine[second[apart]].tolist(), strict=True)
        found.extend((names[i], names[child], names[j]) for i, j in pairs)
    return found


def is_undirected_representable(parents: Parents) -> bool:
    """Whether an undirected graph states the same independencies: the directed one has no immorality."""
    directed = DirectedGraph.of(parents)
    return moralise(directed).n_edges == len(directed.parent)


def is_dag_representable(graph: UndirectedGraph | FactorGraph) -> bool:
    """Whether a directed graph states the same independencies: the undirected one is chordal."""
    return is_chordal(graph)


def _is_free(graph: FactorGraph | UndirectedGraph) -> np.ndarray:
    """Mask of the variables that are no constants."""
    if isinstance(graph, UndirectedGraph):
        return np.ones(len(graph), dtype=bool)
    free: np.ndarray = graph.variables.sizes != 1  # 0: a continuous variable
    return free


def _free_scopes(graph: FactorGraph) -> tuple[np.ndarray, np.ndarray]:
    """CSR arrays of the factors' scopes without constants."""
    factor, scope = graph.edges
    if graph.others:
        order = np.argsort(factor, kind="stable")
        factor, scope = factor[order], scope[order]
    free = _is_free(graph)[scope]
    return starts_of(np.bincount(factor[free], minlength=graph.n_factors)), scope[free]


def _free_primal(graph: FactorGraph) -> UndirectedGraph:
    return join_cliques(graph.variables.names, *_free_scopes(graph))


def _shape(graph: FactorGraph | UndirectedGraph) -> tuple[bool, int]:
    """Whether there is no loop, and how many components hold a variable that is no constant."""
    if isinstance(graph, UndirectedGraph):
        i, j, n = graph.edge_positions[:, 0], graph.edge_positions[:, 1], len(graph)
        labels = component_labels(n, i, j)
    else:
        start, i = _free_scopes(graph)
        n = len(graph.variables) + graph.n_factors
        j = np.repeat(np.arange(len(graph.variables), n), np.diff(start))
        labels = component_labels(n, i, j)
    # A graph is a forest iff each edge reduces the number of components by one.
    forest = len(i) == n - (int(labels.max(initial=-1)) + 1)
    return forest, len(np.unique(labels[: len(_is_free(graph))][_is_free(graph)]))
