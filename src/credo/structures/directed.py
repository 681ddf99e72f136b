"""Directed acyclic graphs over named variables, as flat arrays, and their moral graphs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from ..core.errors import ModelError
from ..core.wiring import starts_of
from .graph import Named, UndirectedGraph, join_cliques, networkx

__all__ = ["DirectedGraph", "Parents", "moralise"]


class DirectedGraph(Named):
    """An acyclic directed graph: the parents and the children of every variable.

    Made by `DirectedGraph.of` from a mapping child -> parents; every variable is a key.

    Examples
    --------
    >>> from credo.structures import DirectedGraph
    >>> DirectedGraph.of({"rain": [], "sprinkler": [], "wet": ["rain", "sprinkler"]})
    DirectedGraph(3 variables, 2 edges)
    """

    def __init__(self, names: Sequence[str], parent_start: np.ndarray, parent: np.ndarray) -> None:
        self.names = names
        self.parent_start = np.ascontiguousarray(parent_start, dtype=np.int64)
        self.parent = np.ascontiguousarray(parent, dtype=np.int64)
        self.owner = np.repeat(np.arange(len(names), dtype=np.int64), np.diff(self.parent_start))
        by_parent = np.argsort(self.parent, kind="stable")
        self.child = self.owner[by_parent]
        self.child_start = starts_of(np.bincount(self.parent, minlength=len(names)))
        self.order = self._topological_order()

    @classmethod
    def of(cls, parents: Parents) -> DirectedGraph:
        """Check a mapping child -> parents; a graph is returned as it is."""
        if isinstance(parents, DirectedGraph):
            return parents
        if not isinstance(parents, Mapping):
            raise ModelError(f"parents: expected a mapping child -> parents, got {parents!r:.80}")
        names = tuple(parents)
        position = {name: i for i, name in enumerate(names)}
        lists: list[int] = []
        flat: list[int] = []
        for child, group in parents.items():
            if not isinstance(group, Iterable):
                raise ModelError(f"parents of '{child}': expected a list of names, got {group!r:.80}")
            mine = (group,) if isinstance(group, str) else tuple(group)
            for name in mine:
                if not isinstance(name, Hashable) or name not in position:
                    raise ModelError(
                        f"parents of '{child}': no variable named {name!r}; "
                        "every variable must be a key, roots with an empty list"
                    )
            if len(set(mine)) < len(mine):
                raise ModelError(f"parents of '{child}': expected different names, got {list(mine)}")
            lists.append(len(mine))
            flat.extend(position[name] for name in mine)
        return cls(names, starts_of(np.array(lists, dtype=np.int64)), np.array(flat, dtype=np.int64))

    @classmethod
    def from_networkx(cls, graph: Any) -> DirectedGraph:
        """Make a graph from a directed NetworkX graph; nodes are named by `str`."""
        if not graph.is_directed():
            raise ModelError("expected a directed NetworkX graph, got an undirected one; see UndirectedGraph")
        return cls.of({str(v): [str(u) for u in graph.predecessors(v)] for v in graph.nodes()})

    def to_networkx(self) -> Any:
        """The same graph as `networkx.DiGraph`."""
        made = networkx().DiGraph()
        made.add_nodes_from(self.names)
        ends = zip(self.parent.tolist(), self.owner.tolist(), strict=True)
        made.add_edges_from((self.names[i], self.names[j]) for i, j in ends)
        return made

    @property
    def parents(self) -> dict[str, list[str]]:
        """The mapping child -> parents."""
        cuts = self.parent_start.tolist()
        flat = [self.names[i] for i in self.parent.tolist()]
        return {name: flat[cuts[i] : cuts[i + 1]] for i, name in enumerate(self.names)}

    def skeleton(self) -> UndirectedGraph:
        """The graph without its arrows."""
        return UndirectedGraph.from_positions(self.names, self.parent, self.owner)

    @cached_property
    def families(self) -> tuple[np.ndarray, np.ndarray]:
        """CSR arrays (start, member) of (parents..., child) for each variable."""
        n = len(self)
        start = self.parent_start + np.arange(n + 1)
        member = np.empty(len(self.parent) + n, dtype=np.int64)
        last = np.zeros(len(member), dtype=bool)
        last[start[1:] - 1] = True
        member[last], member[~last] = np.arange(n), self.parent
        return start, member

    @cached_property
    def lists(self) -> tuple[list[int], list[int], list[int], list[int]]:
        """`parent_start`, `parent`, `child_start`, `child` as lists, which plain loops read faster."""
        return (
            self.parent_start.tolist(),
            self.parent.tolist(),
            self.child_start.tolist(),
            self.child.tolist(),
        )

    def _topological_order(self) -> np.ndarray:
        """Positions with parents before children."""
        missing = np.diff(self.parent_start).tolist()
        _, _, cuts, child = self.lists
        order = [i for i, count in enumerate(missing) if count == 0]
        for i in order:  # the list grows while it is read
            for j in child[cuts[i] : cuts[i + 1]]:
                missing[j] -= 1
                if missing[j] == 0:
                    order.append(j)
        if len(order) < len(missing):
            raise ModelError(f"parents: expected no directed cycle, got {self._cycle(missing)}")
        return np.array(order, dtype=np.int64)

    def _cycle(self, missing: list[int]) -> str:
        """A cycle among the variables that no order reaches, as text."""
        i = next(j for j, count in enumerate(missing) if count)
        seen: dict[int, int] = {}
        while i not in seen:
            seen[i] = len(seen)
            mine = self.parent[self.parent_start[i] : self.parent_start[i + 1]].tolist()
            i = next(j for j in mine if missing[j])
        loop = [self.names[j] for j in seen if seen[j] >= seen[i]][::-1]
        shown = [*loop, loop[0]] if len(loop) <= 8 else [*loop[:8], "..."]
        return " -> ".join(shown)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, DirectedGraph)
            and list(self.names) == list(other.names)
            and np.array_equal(self.parent_start, other.parent_start)
            and np.array_equal(self.parent, other.parent)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"DirectedGraph({len(self)} variables, {len(self.parent)} edges)"


Parents: TypeAlias = Mapping[str, Iterable[str]] | DirectedGraph  # child -> parents


def moralise(parents: Parents) -> UndirectedGraph:
    """The moral graph: arrows dropped, parents of a common child joined.

    Examples
    --------
    >>> from credo.structures import moralise
    >>> moralise({"rain": [], "sprinkler": [], "wet": ["rain", "sprinkler"]}).n_edges
    3
    """
    directed = DirectedGraph.of(parents)
    return join_cliques(directed.names, *directed.families)
