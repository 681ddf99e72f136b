"""The factors of a graph as objects, by number, made when somebody looks at one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .domain import Discrete
from .factor import Factor, TableFactor

if TYPE_CHECKING:
    from .factor_graph import FactorGraph

__all__ = ["FactorList", "probe"]

_PROBED = 64  # factors of a group whose function is tried when the graph is made
_PROBES = np.array([-1.3, -0.4, 0.2, 0.9, 1.7])  # where real arguments are tried


class FactorList(Sequence[Any]):
    """All factors in the order of their numbers: tables as views, members of groups as objects.

    `places` says where the tables, and the members of each group, stand in that order.
    """

    def __init__(self, graph: FactorGraph) -> None:
        self._graph = graph
        self._kept: dict[int, Factor] = {}
        stored = graph.all_numbers
        self._order = np.argsort(np.concatenate(stored), kind="stable")
        rank = np.empty(len(self._order), dtype=np.int64)
        rank[self._order] = np.arange(len(self._order))
        self._ends = np.cumsum([len(part) for part in stored])
        self.places: list[np.ndarray] = np.split(rank, self._ends[:-1])

    def __len__(self) -> int:
        return self._graph.n_factors

    def __getitem__(self, a: Any) -> Any:
        if isinstance(a, slice):
            return tuple(self[i] for i in range(len(self))[a])
        a = range(len(self))[a]
        if a not in self._kept:
            factor = self._make(int(self._order[a]))
            if isinstance(factor, TableFactor):  # a view; a million of them are not kept
                return factor
            self._kept[a] = factor
        return self._kept[a]

    def _make(self, at: int) -> Factor:
        graph, kind = self._graph, int(np.searchsorted(self._ends, at, side="right"))
        if kind == 0:
            scope = [graph.variables[int(i)] for i in graph.scope_of(at)]
            return TableFactor.from_log(scope, graph.log_table(at))
        return graph.others[kind - 1].factor(at - int(self._ends[kind - 1]), graph.variables)

    def has_equal_groups(self, other: FactorList) -> bool:
        """Whether the factors that are no tables are the same, one by one."""
        if len(self) != len(other):
            return False
        pairs = ((one, two) for one, two in zip(self, other, strict=True) if not isinstance(one, TableFactor))
        return all(_are_equal(one, two) for one, two in pairs)


def _are_equal(one: Factor, two: Factor) -> bool:
    return (
        type(one) is type(two)
        and one.scope == two.scope
        and one.function == two.function
        and len(one.parameters) == len(two.parameters)
        and all(np.array_equal(p, q) for p, q in zip(one.parameters, two.parameters, strict=True))
    )


def probe(graph: FactorGraph) -> None:
    """Try the functions of users at a few points, so that a wrong one is refused at once and by name."""
    for group in graph.others:
        if group.kind == "density":
            for row in range(0, len(group), max(1, len(group) // _PROBED)):
                factor = group.factor(row, graph.variables)
                factor.log_values(*(_probes(v.domain) for v in factor.scope))


def _probes(domain: Any) -> np.ndarray:
    count = len(_PROBES)
    if isinstance(domain, Discrete):
        return np.arange(count) % domain.size
    from .bijections import bijection_of  # tables are not probed

    own = bijection_of(domain)
    free = _PROBES[(np.arange(count)[:, None] + np.arange(own.free)) % count]
    return np.asarray(own.inverse(free))
