"""The junction tree: maximal cliques of a triangulation, joined so that shared variables connect.

An elimination order triangulates the primal graph; step k yields the clique of its variable and
the neighbours that remain, and hangs below the clique of the first of these to go. A clique
contained in the one below it is merged into it, which leaves the maximal cliques. The separator
of an edge is the intersection of its ends. Disconnected parts give a forest.

Running intersection: the cliques that hold a variable form a connected subtree, i.e. for every
variable there is exactly one clique that holds it and whose parent does not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.errors import ModelError
from ..core.factor_graph import FactorGraph
from .elimination import EliminationOrder, elimination_order

__all__ = ["JunctionTree", "junction_tree"]


@dataclass(frozen=True)
class JunctionTree:
    """Maximal cliques and the tree (or forest) that joins them."""

    graph: FactorGraph  # the graph it was made for
    cliques: tuple[np.ndarray, ...]  # variable positions, sorted
    parent: np.ndarray  # (cliques,) the next clique towards the root, -1 for a root
    separators: tuple[np.ndarray, ...]  # variables shared with the parent, empty for a root
    factor_clique: np.ndarray  # (factors,) the one clique each factor is assigned to

    @property
    def width(self) -> int:
        """Members of the largest clique, less one."""
        return max((len(c) for c in self.cliques), default=1) - 1

    def names(self, clique: int) -> tuple[str, ...]:
        """Names of the variables of a clique."""
        return tuple(self.graph.variables.names[int(i)] for i in self.cliques[clique])

    def check_running_intersection(self) -> None:
        """Raise `ModelError` unless every variable's cliques are connected."""
        tops = np.zeros(len(self.graph.variables), dtype=np.int64)
        for clique, separator in zip(self.cliques, self.separators, strict=True):
            tops[np.setdiff1d(clique, separator)] += 1
        for clique, parent, separator in zip(self.cliques, self.parent, self.separators, strict=True):
            shared = np.intersect1d(clique, self.cliques[parent] if parent >= 0 else [])
            if not np.array_equal(shared, separator):
                raise ModelError("junction tree: a separator differs from the intersection of its cliques")
        if not (tops == 1).all():
            i = int(np.flatnonzero(tops != 1)[0])
            raise ModelError(
                f"junction tree: the cliques of variable '{self.graph.variables.names[i]}' are not connected"
            )

    def __repr__(self) -> str:
        return f"JunctionTree({len(self.cliques)} cliques, width {self.width})"


def junction_tree(graph: FactorGraph, order: EliminationOrder | None = None) -> JunctionTree:
    """The junction tree of a factor graph, along a given or a searched order.

    Examples
    --------
    >>> import credo
    >>> from credo.structures import junction_tree
    >>> junction_tree(credo.datasets.asia().to_factor_graph())
    JunctionTree(6 cliques, width 2)
    """
    order = elimination_order(graph) if order is None else order
    home = _merge(order)
    kept = np.flatnonzero(home == np.arange(len(home)))
    number = np.full(len(home), -1, dtype=np.int64)
    number[kept] = np.arange(len(kept))
    cliques = tuple(np.sort(_members(order, int(k))) for k in kept)
    parent = _parents(order, home, kept, number)
    separators = tuple(
        np.intersect1d(c, cliques[p]) if p >= 0 else np.empty(0, dtype=np.int64)
        for c, p in zip(cliques, parent, strict=True)
    )
    return JunctionTree(graph, cliques, parent, separators, _assign(graph, order, home, number))


def _members(order: EliminationOrder, k: int) -> np.ndarray:
    return order.clique[order.clique_start[k] : order.clique_start[k + 1]]


def _next(order: EliminationOrder, k: int) -> int:
    """The step that eliminates the first of the remaining members of step k's clique, or -1."""
    rest = _members(order, k)[1:]
    return int(order.rank[rest].min()) if len(rest) else -1


def _merge(order: EliminationOrder) -> np.ndarray:
    """For every step the step whose clique contains its own (itself if maximal)."""
    home = np.arange(len(order.order), dtype=np.int64)
    size = np.diff(order.clique_start)
    for k in range(len(home)):
        above = _next(order, k)
        # The remaining members of step k are then exactly the clique of step `above`.
        if above >= 0 and size[above] == size[k] - 1 and home[above] == above:
            home[above] = home[k]
    return home


def _parents(order: EliminationOrder, home: np.ndarray, kept: np.ndarray, number: np.ndarray) -> np.ndarray:
    parent = np.full(len(kept), -1, dtype=np.int64)
    for k in range(len(home)):
        above = _next(order, k)
        if above >= 0 and home[above] != home[k]:
            parent[number[home[k]]] = number[home[above]]
    return parent


def _assign(graph: FactorGraph, order: EliminationOrder, home: np.ndarray, number: np.ndarray) -> np.ndarray:
    """The clique of the first eliminated variable of each scope holds the whole scope."""
    assigned = np.zeros(graph.n_factors, dtype=np.int64)
    sizes = graph.variables.sizes
    for a in range(graph.n_factors):
        scope = [i for i in graph.scope_of(a) if sizes[i] > 1]
        first = min((int(order.rank[i]) for i in scope), default=0)
        assigned[a] = number[home[first]] if len(home) else -1
    return assigned
