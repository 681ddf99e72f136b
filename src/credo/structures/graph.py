"""Undirected graphs over named variables, as flat arrays.

`UndirectedGraph` keeps for every variable the sorted positions of its neighbours in one array,

    neighbour[start[i] : start[i+1]]

so graphs are built without a Python object per edge: the primal graph of a million pairwise
factors is a sort of two million integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..core.errors import MissingExtraError, ModelError
from ..core.factor_graph import FactorGraph
from ..core.variable import Variables
from ..core.wiring import starts_of

__all__ = ["UndirectedGraph", "component_labels", "connected_components", "primal_graph"]


class Named:
    """Names with positions."""

    names: Sequence[str]

    @cached_property
    def _index(self) -> Variables:
        return Variables(self.names, ())  # only its lookup by name is used

    def position(self, name: str) -> int:
        """Position of a variable given by name."""
        return self._index.position(name)

    def positions(self, names: str | Iterable[str]) -> np.ndarray:
        """Positions of one or several variables."""
        return self._index.positions((names,) if isinstance(names, str) else names)

    def __len__(self) -> int:
        return len(self.names)


class UndirectedGraph(Named):
    """Neighbour lists over named variables: sorted, without repeats and without self loops.

    Parameters
    ----------
    names
        One name per variable.
    start
        (n + 1,) slices of `neighbour` per variable.
    neighbour
        (2 * edges,) positions of neighbours; every edge appears from both of its ends.

    Examples
    --------
    >>> from credo.structures import UndirectedGraph
    >>> graph = UndirectedGraph.from_edges([("a", "b"), ("b", "c")])
    >>> graph.neighbours("b")
    ('a', 'c')
    """

    start: np.ndarray
    neighbour: np.ndarray

    def __init__(self, names: Sequence[str], start: np.ndarray, neighbour: np.ndarray) -> None:
        self.names = names
        self.start = np.ascontiguousarray(start, dtype=np.int64)
        self.neighbour = np.ascontiguousarray(neighbour, dtype=np.int64)
        self._check()
        self._freeze()

    @classmethod
    def from_positions(cls, names: Sequence[str], i: Any, j: Any) -> UndirectedGraph:
        """Make a graph from two arrays with the positions of the ends of each edge; repeats are merged."""
        i, j = np.asarray(i, dtype=np.int64).ravel(), np.asarray(j, dtype=np.int64).ravel()
        n = len(names)
        if len(i) != len(j):
            raise ModelError(f"edges: expected as many first as second ends, got {len(i)} and {len(j)}")
        if len(i) and not (0 <= min(i.min(), j.min()) and max(i.max(), j.max()) < n):
            raise ModelError(f"edges: expected positions in [0, {n}), got {max(i.max(), j.max())}")
        loops = np.flatnonzero(i == j)
        if len(loops):
            raise ModelError(f"edges: expected two different ends, got '{names[i[loops[0]]]}' twice")
        edge = _unique(np.minimum(i, j) * n + np.maximum(i, j))
        first, second = np.divmod(edge, max(n, 1))
        # Keys (owner, neighbour) in both directions; sorting them yields the CSR order.
        key = np.concatenate([edge, second * n + first])
        key.sort()
        owner, neighbour = np.divmod(key, max(n, 1))
        made = cls.__new__(cls)
        made.names, made.neighbour = names, neighbour
        made.start = starts_of(np.bincount(owner, minlength=n))
        made._freeze()
        return made

    @classmethod
    def from_edges(
        cls, edges: Iterable[tuple[str, str]], names: Iterable[str] | None = None
    ) -> UndirectedGraph:
        """Make a graph from pairs of names.

        Parameters
        ----------
        edges
            Pairs of names; repeats and both directions mean one edge.
        names
            All variables, isolated ones included; without it, the ends of the edges in the
            order of their first appearance.
        """
        pairs = [_pair(edge) for edge in edges]
        if names is None:
            names = dict.fromkeys(name for pair in pairs for name in pair)
        index = _distinct(names)
        ends = index.positions(name for pair in pairs for name in pair).reshape(-1, 2)
        return cls.from_positions(index.names, ends[:, 0], ends[:, 1])

    @classmethod
    def from_networkx(cls, graph: Any) -> UndirectedGraph:
        """Make a graph from an undirected NetworkX graph; nodes are named by `str`."""
        if graph.is_directed():
            raise ModelError("expected an undirected NetworkX graph, got a directed one; see DirectedGraph")
        return cls.from_edges(((str(a), str(b)) for a, b in graph.edges()), map(str, graph.nodes()))

    def to_networkx(self) -> Any:
        """The same graph as `networkx.Graph`."""
        made = networkx().Graph()
        made.add_nodes_from(self.names)
        made.add_edges_from(self.edges())
        return made

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return len(self.neighbour) // 2

    @cached_property
    def owner(self) -> np.ndarray:
        """(2 * edges,) the variable whose neighbour list each entry of `neighbour` belongs to."""
        return np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.start))

    @cached_property
    def edge_positions(self) -> np.ndarray:
        """(edges, 2) positions of the ends of each edge, lower one first, sorted."""
        once = self.owner < self.neighbour
        return np.stack([self.owner[once], self.neighbour[once]], axis=1)

    def edges(self) -> list[tuple[str, str]]:
        """Edges as pairs of names, in the order of positions."""
        return [(self.names[i], self.names[j]) for i, j in self.edge_positions.tolist()]

    def neighbours(self, name: str) -> tuple[str, ...]:
        """Names of the neighbours of a variable."""
        i = self.position(name)
        return tuple(self.names[j] for j in self.neighbour[self.start[i] : self.start[i + 1]].tolist())

    @cached_property
    def degrees(self) -> np.ndarray:
        """Number of neighbours of each variable."""
        return np.diff(self.start)

    def contains(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Whether the edge between positions `i[e]` and `j[e]` exists, for each e."""
        asked = np.asarray(i, dtype=np.int64) * len(self) + np.asarray(j, dtype=np.int64)
        if not len(self.neighbour):
            return np.zeros(asked.shape, dtype=bool)
        at = np.minimum(np.searchsorted(self._keys, asked), len(self._keys) - 1)
        found: np.ndarray = self._keys[at] == asked
        return found

    @cached_property
    def _keys(self) -> np.ndarray:
        keys: np.ndarray = self.owner * len(self) + self.neighbour
        return keys

    def _check(self) -> None:
        n, start, neighbour = len(self), self.start, self.neighbour
        if (
            start.shape != (n + 1,)
            or start[0] != 0
            or start[-1] != len(neighbour)
            or (np.diff(start) < 0).any()
        ):
            raise ModelError(
                f"neighbour lists: expected {n + 1} rising starts from 0 to {len(neighbour)}, "
                f"got {start.shape[0]} from {start[:1]} to {start[-1:]}"
            )
        if len(neighbour) and not (0 <= neighbour.min() and neighbour.max() < n):
            raise ModelError(f"neighbour lists: expected positions in [0, {n}), got {neighbour.max()}")
        if (self.owner == neighbour).any():
            raise ModelError("neighbour lists: expected no self loops; make the graph with from_edges")
        if (np.diff(self._keys) <= 0).any():
            raise ModelError("neighbour lists: expected sorted lists without repeats; use from_edges")
        if not np.array_equal(np.sort(neighbour * n + self.owner), self._keys):
            raise ModelError("neighbour lists: expected every edge from both ends; use from_edges")

    def _freeze(self) -> None:
        self.start.flags.writeable = False
        self.neighbour.flags.writeable = False

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, UndirectedGraph)
            and list(self.names) == list(other.names)
            and np.array_equal(self.start, other.start)
            and np.array_equal(self.neighbour, other.neighbour)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"UndirectedGraph({len(self)} variables, {self.n_edges} edges)"


def primal_graph(graph: FactorGraph) -> UndirectedGraph:
    """The undirected graph of a factor graph: two variables are adjacent iff they share a factor.

    Examples
    --------
    >>> from credo import FactorGraph
    >>> from credo.structures import primal_graph
    >>> primal_graph(FactorGraph({"a": 2, "b": 2, "c": 2}, {("a", "b"): [1, 2, 3, 4]})).edges()
    [('a', 'b')]
    """
    return join_cliques(graph.variables.names, graph.scope_start, graph.scope)


def connected_components(graph: UndirectedGraph) -> np.ndarray:
    """Label of the component of each variable; labels count up in the order of positions."""
    return component_labels(len(graph), graph.owner, graph.neighbour)


def component_labels(n: int, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """Component labels of `n` vertices joined by the edges (i[e], j[e]), numbered by their lowest members.

    Every edge hooks the root of its one end below that of the other; then all vertices look up their roots.
    As fast as SciPy's search, whose import takes longer than most graphs.
    """
    root = np.arange(n, dtype=np.int64)
    while True:
        one, other = root[i], root[j]
        apart = one != other
        if not apart.any():
            return np.unique(root, return_inverse=True)[1].astype(np.int64)
        np.minimum.at(root, np.maximum(one, other)[apart], np.minimum(one, other)[apart])
        above = root[root]
        while (above != root).any():
            root, above = above, above[above]


def join_cliques(names: Sequence[str], start: np.ndarray, member: np.ndarray) -> UndirectedGraph:
    """The graph in which every group member[start[a]:start[a+1]] is a clique."""
    arity, n = np.diff(start), len(names)
    keys = [np.empty(0, dtype=np.int64)]
    for k in np.unique(arity[arity > 1]).tolist():
        scopes = np.sort(member[start[:-1][arity == k][:, None] + np.arange(k)], axis=1)
        first, second = np.triu_indices(k, 1)
        keys.append(_unique((scopes[:, first] * n + scopes[:, second]).ravel()))
    i, j = np.divmod(np.concatenate(keys), max(n, 1))
    return UndirectedGraph.from_positions(names, i, j)


def _unique(keys: np.ndarray) -> np.ndarray:
    """Sorted distinct values; one in-place sort is several times faster than hashing."""
    keys = np.sort(keys)
    return keys[np.concatenate([[True], keys[1:] != keys[:-1]])] if len(keys) else keys


def _pair(edge: Any) -> tuple[str, str]:
    if isinstance(edge, str) or not isinstance(edge, Sequence) or len(edge) != 2:
        raise ModelError(f"edges: expected pairs of names, got {edge!r:.80}")
    return edge[0], edge[1]


def _distinct(names: Iterable[str]) -> Variables:
    names = tuple(names)
    if len(set(names)) < len(names):
        seen: set[str] = set()
        twice = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ModelError(f"variable '{twice}' is named twice; names must differ")
    return Variables(names, ())


def networkx() -> Any:
    """The package, or the extra to install."""
    try:
        import networkx as package
    except ImportError:
        raise MissingExtraError("to_networkx: needs networkx; install credo[plot]") from None
    return package
