r"""Region graphs: overlapping groups of variables and factors, and how often each is counted.

A region R holds variables V_R and factors A_R whose scopes lie in V_R. A region graph is a directed
graph over regions in which an edge P -> R means that R is a proper part of P, variables and factors
taken together. Going down from the roots, every region gets the counting number

    c_R = 1 - sum of c_{R'} over all ancestors R' of R

and the graph is valid if every variable and every factor is counted once: the c_R of the regions
that hold it sum to one. Then the region free energy

    F(b) = sum_R c_R sum_{x_R} b_R(x_R) ( log b_R(x_R) - theta_R(x_R) ),   theta_R = sum_{a in A_R} theta_a

has the exact average energy at the exact marginals; its entropy is exact only if the region graph
has no loops, as that of a junction tree. F is neither an upper nor a lower bound.

Variables with one state are constants: regions need not hold them and they are not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..core.errors import ModelError
from ..core.factor_graph import FactorGraph
from ..optimise.run import watched

__all__ = ["Region", "RegionGraph"]

Edge = tuple[int, int]


class Region(NamedTuple):
    """Variables and factors, by position, both sorted."""

    variables: tuple[int, ...]
    factors: tuple[int, ...]

    @property
    def nodes(self) -> frozenset[int]:
        """The joint set: variable i as i, factor a as -1 - a."""
        return frozenset(self.variables).union(-1 - a for a in self.factors)

    @classmethod
    def of(cls, nodes: Iterable[int]) -> Region:
        """The region of a joint set."""
        members = sorted(nodes)
        return cls(tuple(i for i in members if i >= 0), tuple(sorted(-1 - a for a in members if a < 0)))


class RegionGraph:
    """Regions, edges from larger to smaller ones, and counting numbers.

    Parameters
    ----------
    graph
        The factor graph the regions are about.
    regions
        The regions; they are renumbered by level, roots first.
    edges
        Pairs (parent, child) of positions in `regions`; the child is a proper part of the parent.

    Examples
    --------
    >>> import credo
    >>> from credo.structures import region_graph
    >>> grid = credo.datasets.ising_grid(5).to_factor_graph()
    >>> region_graph(grid, "faces")
    RegionGraph(49 regions, 84 edges, levels 16/24/9, counting numbers 1/-1/1)
    """

    graph: FactorGraph
    regions: tuple[Region, ...]
    edges: tuple[Edge, ...]
    levels: np.ndarray
    counting: np.ndarray

    def __init__(self, graph: FactorGraph, regions: Sequence[Region], edges: Iterable[Edge]) -> None:
        self.graph = graph
        pairs = sorted(set(edges))
        _check(graph, regions, pairs)
        levels = _levels(len(regions), pairs)
        order = np.argsort(levels, kind="stable")
        number = np.empty(len(order), dtype=np.int64)
        number[order] = np.arange(len(order))
        self.regions = tuple(regions[int(r)] for r in order)
        self.edges = tuple(sorted((int(number[p]), int(number[r])) for p, r in pairs))
        self.levels = levels[order]
        self.counting = self._counting()

    def __len__(self) -> int:
        return len(self.regions)

    @cached_property
    def parents(self) -> tuple[tuple[int, ...], ...]:
        """The regions with an edge to each region."""
        found: list[list[int]] = [[] for _ in self.regions]
        for p, r in self.edges:
            found[r].append(p)
        return tuple(map(tuple, found))

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """The regions each region has an edge to."""
        found: list[list[int]] = [[] for _ in self.regions]
        for p, r in self.edges:
            found[p].append(r)
        return tuple(map(tuple, found))

    @cached_property
    def ancestors(self) -> tuple[frozenset[int], ...]:
        """All regions above each region, without itself."""
        found: list[frozenset[int]] = []
        for r in watched(range(len(self))):  # levels rise, so parents come first
            found.append(frozenset(self.parents[r]).union(*(found[p] for p in self.parents[r])))
        return tuple(found)

    @cached_property
    def descendants(self) -> tuple[frozenset[int], ...]:
        """All regions below each region, without itself."""
        found: list[frozenset[int]] = [frozenset()] * len(self)
        for r in watched(reversed(range(len(self)))):
            found[r] = frozenset(self.children[r]).union(*(found[c] for c in self.children[r]))
        return tuple(found)

    @cached_property
    def roots(self) -> tuple[int, ...]:
        """Regions without parents; their counting number is one."""
        return tuple(r for r in range(len(self)) if not self.parents[r])

    def entering(self, r: int) -> list[Edge]:
        """Edges that enter region r or a region below it from outside: the messages of its belief."""
        inside = self.descendants[r] | {r}
        return [(i, j) for j in sorted(inside) for i in self.parents[j] if i not in inside]

    def numerator(self, p: int, r: int) -> list[Edge]:
        """The edges N(P, R) whose messages multiply inside the sum of the message P -> R."""
        below = self.descendants[r] | {r}
        return [(i, j) for i, j in self.entering(p) if j not in below]

    def denominator(self, p: int, r: int) -> list[Edge]:
        """The edges H(P, R) whose messages divide the message P -> R."""
        below = self.descendants[r] | {r}
        between = (self.descendants[p] | {p}) - below
        return [(i, j) for i, j in self.entering(r) if i in between and (i, j) != (p, r)]

    @cached_property
    def is_forest(self) -> bool:
        """Whether the region graph has no loop when arrows are dropped; message passing is then exact."""
        from .graph import component_labels

        ends = np.array(self.edges, dtype=np.int64).reshape(-1, 2)
        labels = component_labels(len(self), ends[:, 0], ends[:, 1])
        return len(ends) == len(self) - (int(labels.max(initial=-1)) + 1)

    def names(self, r: int) -> tuple[str, ...]:
        """Names of the variables of a region."""
        return tuple(self.graph.variables.names[i] for i in self.regions[r].variables)

    def find(self, names: Iterable[str]) -> list[int]:
        """Positions of the regions with exactly these variables."""
        wanted = tuple(sorted(int(i) for i in self.graph.variables.positions(names)))
        return [r for r, region in enumerate(self.regions) if region.variables == wanted]

    @cached_property
    def variable_counts(self) -> np.ndarray:
        """(n,) how often each variable is counted; one for a valid graph."""
        return self._count([r.variables for r in self.regions], len(self.graph.variables))

    @cached_property
    def factor_counts(self) -> np.ndarray:
        """(m,) how often each factor is counted; one for a valid graph."""
        return self._count([r.factors for r in self.regions], self.graph.n_factors)

    def _count(self, members: Sequence[tuple[int, ...]], size: int) -> np.ndarray:
        counts = np.zeros(size, dtype=np.int64)
        for c, inside in watched(zip(self.counting, members, strict=True)):
            counts[list(inside)] += c
        return counts

    def miscounted(self) -> str | None:
        """A sentence about the first variable or factor that is not counted once; None if all are."""
        free = self.graph.variables.sizes > 1
        wrong = np.flatnonzero(free & (self.variable_counts != 1))
        if len(wrong):
            i = int(wrong[0])
            return f"variable '{self.graph.variables.names[i]}' is counted {self.variable_counts[i]} times"
        factor = np.repeat(np.arange(self.graph.n_factors), np.diff(self.graph.scope_start))
        has_scope = np.bincount(factor[free[self.graph.scope]], minlength=self.graph.n_factors) > 0
        wrong = np.flatnonzero(has_scope & (self.factor_counts != 1))
        if len(wrong):
            a = int(wrong[0])
            names = [self.graph.variables.names[int(i)] for i in self.graph.scope_of(a)]
            return f"factor {a} over {names} is counted {self.factor_counts[a]} times"
        return None

    @property
    def is_valid(self) -> bool:
        """Whether every variable and every factor is counted once."""
        return self.miscounted() is None

    def check(self) -> RegionGraph:
        """Return the graph itself; raise `ModelError` if something is not counted once."""
        complaint = self.miscounted()
        if complaint is not None:
            raise ModelError(
                f"region graph: expected everything to be counted once, but {complaint}; "
                "add root regions, or take all intersections (intersections='all')"
            )
        return self

    def without_idle(self) -> RegionGraph:
        """The graph without the regions that count zero times and bind nothing.

        A region with counting number zero only makes the regions above it agree; it is idle if these
        are connected among themselves without it. Fewer loops remain, sometimes none.
        """
        parents, children = [set(p) for p in self.parents], [set(c) for c in self.children]
        dropped: set[int] = set()
        for r in watched(np.flatnonzero(self.counting == 0)[::-1].tolist()):
            if not _is_connected(_reach([r], parents) - {r}, parents, children):
                continue
            dropped.add(r)
            for p in parents[r]:
                children[p].discard(r)
            for c in children[r]:
                parents[c].discard(r)
                for p in parents[r]:
                    if c not in _reach([p], children):
                        children[p].add(c)
                        parents[c].add(p)
        if not dropped:
            return self
        kept = [r for r in range(len(self)) if r not in dropped]
        number = {r: k for k, r in enumerate(kept)}
        edges = [(number[p], number[r]) for r in kept for p in parents[r]]
        return RegionGraph(self.graph, [self.regions[r] for r in kept], edges)

    def _counting(self) -> np.ndarray:
        counting = np.ones(len(self), dtype=np.int64)
        for r in watched(range(len(self))):
            above = list(self.ancestors[r])
            counting[r] = 1 - counting[above].sum()
        return counting

    def __repr__(self) -> str:
        sizes = np.bincount(self.levels).tolist() if len(self) else [0]
        shown = []
        for level in range(len(sizes)):
            values = sorted(set(self.counting[self.levels == level].tolist()))
            shown.append(",".join(map(str, values)) if len(values) < 4 else f"{values[0]}..{values[-1]}")
        return (
            f"RegionGraph({len(self)} regions, {len(self.edges)} edges, "
            f"levels {'/'.join(map(str, sizes))}, counting numbers {'/'.join(shown)})"
        )


def _reach(first: Iterable[int], step: Sequence[Iterable[int]]) -> set[int]:
    """Everything that steps lead to, the first ones included."""
    found, todo = set(first), list(first)
    while todo:
        for s in step[todo.pop()]:
            if s not in found:
                found.add(s)
                todo.append(s)
    return found


def _is_connected(members: set[int], parents: Sequence[set[int]], children: Sequence[set[int]]) -> bool:
    """Whether these regions hang together by edges among themselves."""
    inside = {r: (parents[r] | children[r]) & members for r in members}
    todo = [next(iter(members))] if members else []
    seen = set(todo)
    while todo:
        for s in inside[todo.pop()] - seen:
            seen.add(s)
            todo.append(s)
    return seen == members


def _levels(count: int, edges: Sequence[Edge]) -> np.ndarray:
    """Longest path from a root; proper parts have no cycles."""
    children: list[list[int]] = [[] for _ in range(count)]
    waiting = np.zeros(count, dtype=np.int64)
    for p, r in edges:
        children[p].append(r)
        waiting[r] += 1
    level = np.zeros(count, dtype=np.int64)
    ready = [r for r in range(count) if not waiting[r]]
    while ready:
        p = ready.pop()
        for r in children[p]:
            level[r] = max(level[r], level[p] + 1)
            waiting[r] -= 1
            if not waiting[r]:
                ready.append(r)
    return level


def _check(graph: FactorGraph, regions: Sequence[Region], edges: Sequence[Edge]) -> None:
    free = graph.variables.sizes > 1
    for r, region in enumerate(watched(regions)):
        inside = set(region.variables)
        for a in region.factors:
            missing = [int(i) for i in graph.scope_of(a) if free[i] and int(i) not in inside]
            if missing:
                raise ModelError(
                    f"region {r}: it holds factor {a} but not its variable "
                    f"'{graph.variables.names[missing[0]]}'; add the variable or drop the factor"
                )
    nodes = [region.nodes for region in regions]
    for p, r in watched(edges):
        if not nodes[r] < nodes[p]:
            raise ModelError(
                f"region graph: expected region {r} to be a proper part of its parent {p}, "
                f"got variables {list(regions[r].variables)} and {list(regions[p].variables)}"
            )
