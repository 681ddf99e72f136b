"""Join graphs: overlapping clusters that hold every factor, and the separators they share.

With `ibound` 0 the clusters are the scopes of the factors, one inside another merged, and the
separators are the single variables. With a larger one they are the mini-buckets of an elimination
order: the scopes that meet in a variable's bucket are packed into clusters of at most `ibound` + 1
variables, and each cluster passes on what is left of it without that variable. The scopes passed on
become separators besides the single variables. When `ibound` reaches the width of the order, every
bucket is one cluster and the join graph is a junction tree.

`host` says where a variable is eliminated: in the clusters of its own bucket. There all of its
temperature belongs if the bound is to be that of weighted mini-buckets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ..core import check
from ..core.factor_graph import FactorGraph
from ..core.wiring import starts_of
from .elimination import EliminationOrder, free_scopes
from .mini_buckets import MiniBuckets, mini_buckets

__all__ = ["JoinGraph", "join_graph"]

Scope = tuple[int, ...]


@dataclass(frozen=True)
class JoinGraph:
    """Clusters, separators and who holds what; members are variables by rank in the order."""

    order: EliminationOrder
    cluster_start: np.ndarray  # (clusters + 1,) slices of `cluster`
    cluster: np.ndarray  # variables of each cluster, first eliminated first; two or more
    separator_start: np.ndarray  # (separators + 1,) slices of `separator`
    separator: np.ndarray  # variables of each separator, by first variable; every free single is there
    edge_separator: np.ndarray  # (edges,) rising
    edge_cluster: np.ndarray  # (edges,) a cluster that contains the separator
    home: np.ndarray  # (factors,) cluster of each factor; -1 for those over one free variable or none
    host_variable: np.ndarray  # one entry per variable and place where it is eliminated
    host_cluster: np.ndarray  # that cluster; repeats count

    @property
    def is_tree(self) -> bool:
        """Whether every variable is eliminated in one place: the clusters then form a junction tree."""
        return bool((np.bincount(self.host_variable) <= 1).all())

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return len(self.cluster_start) - 1

    @property
    def n_separators(self) -> int:
        """Number of separators."""
        return len(self.separator_start) - 1

    def __repr__(self) -> str:
        largest = int(np.diff(self.cluster_start).max(initial=0))
        return (
            f"JoinGraph({self.n_clusters} clusters of up to {largest} variables, "
            f"{self.n_separators} separators)"
        )


def join_graph(
    graph: FactorGraph, order: EliminationOrder, ibound: int = 0, *, max_entries: int = 1 << 20
) -> JoinGraph:
    """The join graph of the factors, or of the mini-buckets of an order.

    Parameters
    ----------
    graph
        The factor graph; one-state variables are left out.
    order
        An elimination order of all variables.
    ibound
        Variables a mini-bucket may pass on; 0 for the factors as they are.
    max_entries
        Entries a mini-bucket's table may have; larger factors stay what they are.

    Examples
    --------
    >>> import credo
    >>> from credo.structures import elimination_order
    >>> from credo.structures.join_graph import join_graph
    >>> asia = credo.datasets.asia().to_factor_graph()
    >>> join_graph(asia, elimination_order(asia))
    JoinGraph(6 clusters of up to 3 variables, 8 separators)
    >>> join_graph(asia, elimination_order(asia), ibound=2)
    JoinGraph(6 clusters of up to 3 variables, 11 separators)
    """
    check.whole("ibound", ibound, 0)
    if ibound == 0:
        return _of_factors(graph, order)
    made = _Joins(
        graph, order, mini_buckets(graph, order.order, ibound=ibound, max_entries=max_entries)
    ).finish()
    # Factors over one variable belong to it alone.
    few = np.diff(free_scopes(graph)[0]) < 2
    made.home[few] = -1
    return made


def _linking_scopes(graph: FactorGraph, order: EliminationOrder) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scopes of two free variables or more, by rank, and which factors they belong to."""
    start, scope = free_scopes(graph)
    arity = np.diff(start)
    owner = np.repeat(np.arange(len(arity)), arity)
    scope = scope[np.lexsort((order.rank[scope], owner))]
    kept = np.flatnonzero(arity >= 2)
    return starts_of(arity[kept]), scope[np.repeat(arity >= 2, arity)], kept


def _of_factors(graph: FactorGraph, order: EliminationOrder) -> JoinGraph:
    from ..kernels.gdd_tables import largest_scopes

    n = len(graph.variables)
    start, scope, factor = _linking_scopes(graph, order)
    inside = largest_scopes(start, scope, n)
    kept = np.flatnonzero(inside == np.arange(len(inside)))
    number = np.full(len(inside), -1, dtype=np.int64)
    number[kept] = np.arange(len(kept))
    arity = np.diff(start)
    cluster_start = starts_of(arity[kept])
    cluster = scope[np.repeat(inside == np.arange(len(inside)), arity)]
    home = np.full(graph.n_factors, -1, dtype=np.int64)
    home[factor] = number[inside]
    single = order.order[graph.variables.sizes[order.order] > 1]
    place = np.full(n, -1, dtype=np.int64)
    place[single] = np.arange(len(single))
    owner = np.repeat(np.arange(len(kept), dtype=np.int64), np.diff(cluster_start))
    by_separator = np.lexsort((owner, place[cluster]))
    is_last = np.zeros(len(cluster), dtype=bool)
    is_last[cluster_start[1:] - 1] = True
    return JoinGraph(
        order,
        cluster_start,
        cluster,
        np.arange(len(single) + 1, dtype=np.int64),
        single,
        place[cluster][by_separator],
        owner[by_separator],
        home,
        cluster[~is_last],
        owner[~is_last],
    )


class _Joins:
    """Mini-buckets merged into clusters, with the separators they share."""

    def __init__(self, graph: FactorGraph, order: EliminationOrder, buckets: MiniBuckets) -> None:
        self.order, self.rank = order, order.rank.tolist()
        self.sizes: list[int] = graph.variables.sizes.tolist()
        self.buckets = buckets
        flat, bounds = buckets.scope.tolist(), buckets.scope_start.tolist()
        self.scopes: list[Scope] = [tuple(flat[a:b]) for a, b in pairwise(bounds)]

    def finish(self) -> JoinGraph:
        """Merge clusters into larger ones and attach the separators."""
        sets = [frozenset(scope) for scope in self.scopes]
        at = _by_variable(sets, len(self.sizes))
        inside = [_host(k, sets, at) for k in range(len(sets))]
        kept = [k for k, host in enumerate(inside) if host == k and len(sets[k]) > 1]
        number = np.full(len(sets) + 1, -1, dtype=np.int64)  # the last entry serves factors without a place
        number[kept] = np.arange(len(kept))
        cluster = np.append(number[inside], -1).astype(np.int64)
        separators, edges = self._attach([sets[k] for k in kept])
        hosted = np.flatnonzero(cluster[:-1] >= 0)
        return JoinGraph(
            self.order,
            *_flat([self.scopes[k] for k in kept]),
            *_flat(separators),
            edges[:, 0],
            edges[:, 1],
            cluster[self.buckets.factor_home],
            self.buckets.variable[hosted],
            cluster[hosted],
        )

    def _wanted(self) -> set[Scope]:
        """What mini-buckets pass on, what neighbours in one bucket share, and every free variable alone."""
        found = {scope[1:] for scope in self.scopes if len(scope) > 2}
        for a, b in pairwise(self.scopes):
            shared = set(a).intersection(b) if a[0] == b[0] else set()
            if len(shared) > 1:
                found.add(tuple(i for i in a if i in shared))
        return found | {(i,) for i, size in enumerate(self.sizes) if size > 1}

    def _attach(self, sets: Sequence[frozenset[int]]) -> tuple[list[Scope], np.ndarray]:
        """Separators by first variable, and every cluster that contains each; lone ones only if single."""
        at = _by_variable(sets, len(self.sizes))
        separators: list[Scope] = []
        edges: list[tuple[int, int]] = []
        for s in sorted(self._wanted(), key=lambda s: (self.rank[s[0]], -len(s), s)):
            members = frozenset(s)
            holders = [c for c in min((at[i] for i in s), key=len) if members <= sets[c]]
            if len(s) > 1 and len(holders) < 2:
                continue
            edges += [(len(separators), c) for c in holders]
            separators.append(s)
        return separators, np.array(edges, dtype=np.int64).reshape(-1, 2)


def _by_variable(sets: Sequence[frozenset[int]], n: int) -> list[list[int]]:
    at: list[list[int]] = [[] for _ in range(n)]
    for k, members in enumerate(sets):
        for i in members:
            at[i].append(k)
    return at


def _host(k: int, sets: Sequence[frozenset[int]], at: list[list[int]]) -> int:
    """The largest set that contains set k, the first of equals."""
    rarest = min((at[i] for i in sets[k]), key=len)
    return min((j for j in rarest if sets[k] <= sets[j]), key=lambda j: (-len(sets[j]), j))


def _flat(scopes: Sequence[Scope]) -> tuple[np.ndarray, np.ndarray]:
    return (
        starts_of([len(s) for s in scopes]),
        np.array([i for s in scopes for i in s], dtype=np.int64),
    )
