"""Joint sets of variables and factors, the raw material of region graphs.

A joint set is a frozenset of integers: variable i as i, factor a as -1 - a. Only sets that share a
variable can meet or contain each other, so all searches go through the sets of one variable.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from ..core.factor_graph import FactorGraph
from ..core.wiring import starts_of
from ..optimise.run import watched

__all__ = ["FactorIndex", "Nodes", "above", "by_variable", "closure", "free_scopes", "maximal", "meets"]

Nodes = frozenset[int]


class FactorIndex:
    """Factors by variable, to find those of a region."""

    def __init__(self, graph: FactorGraph) -> None:
        self.scopes = free_scopes(graph)
        self.at: list[list[int]] = [[] for _ in range(len(graph.variables))]
        for a, scope in enumerate(self.scopes):
            for i in scope:
                self.at[i].append(a)

    def inside(self, variables: Sequence[int]) -> Nodes:
        """The variables and every factor whose scope they hold."""
        return self.along(variables, None)

    def along(self, variables: Sequence[int], pairs: Iterable[tuple[int, int]] | None) -> Nodes:
        """The variables, the pair factors on the given pairs, and all other factors inside."""
        members = set(variables)
        allowed = None if pairs is None else set(pairs)
        found = set(members)
        for i in members:
            for a in self.at[i]:
                scope = self.scopes[a]
                if scope[0] != i or not members.issuperset(scope):
                    continue
                if allowed is None or len(scope) != 2 or (min(scope), max(scope)) in allowed:
                    found.add(-1 - a)
        return frozenset(found)


def free_scopes(graph: FactorGraph) -> list[tuple[int, ...]]:
    """Scopes without one-state variables, sorted."""
    free = graph.variables.sizes > 1
    factor = np.repeat(np.arange(graph.n_factors), np.diff(graph.scope_start))[free[graph.scope]]
    scope = graph.scope[free[graph.scope]]
    order = np.lexsort((scope, factor))
    bounds = starts_of(np.bincount(factor, minlength=graph.n_factors)).tolist()
    flat = scope[order].tolist()
    return [tuple(flat[i:j]) for i, j in pairwise(bounds)]


def by_variable(sets: Sequence[Nodes]) -> dict[int, list[int]]:
    """Positions of the sets that hold each variable."""
    found: dict[int, list[int]] = {}
    for k, nodes in enumerate(sets):
        for i in nodes:
            if i >= 0:
                found.setdefault(i, []).append(k)
    return found


def above(nodes: Nodes, sets: Sequence[Nodes], index: dict[int, list[int]]) -> list[int]:
    """The sets that are proper supersets of one of them."""
    rarest = min((index.get(i, []) for i in nodes if i >= 0), key=len)
    return [k for k in rarest if nodes < sets[k]]


def maximal(sets: Sequence[Nodes]) -> list[Nodes]:
    """The sets that are part of no other."""
    index = by_variable(sets)
    return [nodes for nodes in watched(sets) if not above(nodes, sets, index)]


def meets(sets: Sequence[Nodes]) -> list[Nodes]:
    """Distinct intersections of two sets that share a variable."""
    seen: dict[Nodes, None] = {}
    for at in by_variable(sets).values():
        for place, k in enumerate(watched(at)):
            for j in at[place + 1 :]:
                seen[sets[k] & sets[j]] = None
    return list(seen)


def closure(roots: Sequence[Nodes]) -> list[Nodes]:
    """All intersections of any number of roots that hold a variable."""
    found = dict.fromkeys(roots)
    index = by_variable(roots)
    fresh = list(roots)
    while fresh:
        grown: dict[Nodes, None] = {}
        for nodes in watched(fresh):
            near = {k for i in nodes if i >= 0 for k in index[i]}
            for k in near:
                meet = nodes & roots[k]
                if meet not in found:
                    grown[meet] = None
        found.update(grown)
        fresh = list(grown)
    return list(found)
