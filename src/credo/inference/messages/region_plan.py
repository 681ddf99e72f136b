"""A region graph compiled to flat arrays for `kernels/regions.py`.

`RegionPlan` depends on the structure only and is filed in the graph's memo; `RegionTables` fills in the
numbers of one problem. Index maps are made once per pair of shapes: a grid with a hundred thousand
faces needs about a dozen.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from ...core.errors import TooLargeError
from ...core.factor_graph import FactorGraph
from ...core.result import Estimate, FactorMarginals, Marginals, Result, Status
from ...core.wiring import starts_of
from ...kernels import regions as kernel
from ...kernels.region_descent import RegionPairs
from ...optimise.run import watched
from ...structures.region_builders import region_graph
from ...structures.regions import RegionGraph
from ..problem.base import Problem

__all__ = ["RegionPlan", "RegionTables", "plan_of"]

_MOST_ENTRIES = 2**27  # of all region tables together; a gigabyte of numbers
_PIECE = 1 << 21  # entries filled between two looks at the clock


def plan_of(graph: FactorGraph, regions: Any, max_entries: int) -> RegionPlan:
    """The compiled region graph of this structure, made once."""
    name = regions if isinstance(regions, str) else tuple(tuple(r) for r in regions)
    key = ("region plan", graph.structure_key, name, max_entries)
    made: RegionPlan = graph.memo.recall(
        key, lambda: RegionPlan(region_graph(graph, regions, max_entries=max_entries))
    )
    return made


class RegionPlan:
    """Index arrays of a region graph; the names are those of `kernels/regions.py`."""

    def __init__(self, regions: RegionGraph) -> None:
        self.regions = regions
        sizes = regions.graph.variables.sizes
        self._shapes = [tuple(sizes[list(r.variables)].tolist()) for r in watched(regions.regions)]
        entries = np.array([np.prod(shape, dtype=np.float64) for shape in self._shapes])
        if entries.sum() > _MOST_ENTRIES:
            raise TooLargeError(
                f"gbp: the region tables need {entries.sum():.3g} entries, more than {_MOST_ENTRIES}; "
                "use smaller regions"
            )
        self.table_start = starts_of(entries.astype(np.int64))
        self.counting = regions.counting
        self._known: dict[Any, int] = {}
        self._maps: list[np.ndarray] = []
        self._length = 0
        self._compile_messages()

    @property
    def maps(self) -> np.ndarray:
        """All index maps, one after another."""
        if len(self._maps) > 1:
            joined, first = np.empty(self._length, dtype=np.int64), 0
            for part in watched(self._maps):
                joined[first : first + len(part)] = part
                first += len(part)
            self._maps = [joined]
        return self._maps[0] if self._maps else np.empty(0, dtype=np.int64)

    def _project(self, r: int, strides: Sequence[int]) -> int:
        """Where the map begins that sends each entry of region r to sum of state x stride."""
        key = (self._shapes[r], tuple(strides))
        if key not in self._known:
            made = np.zeros((), dtype=np.int64)
            for size, stride in zip(*key, strict=True):
                made = np.add.outer(made, np.arange(size, dtype=np.int64) * stride)
            self._known[key] = self._length
            self._maps.append(made.ravel())
            self._length += made.size
        return self._known[key]

    def _onto(self, large: int, small: int) -> int:
        """Map from the table of a region to that of a region inside it."""
        variables = self.regions.regions[small].variables
        return self._project(large, self._strides(large, variables, self._shapes[small]))

    def _strides(self, large: int, variables: Sequence[int], shape: Sequence[int]) -> list[int]:
        step, stride = 1, {}
        for i, size in zip(reversed(variables), reversed(shape), strict=True):
            stride[i] = step
            step *= size
        return [stride.get(i, 0) for i in self.regions.regions[large].variables]

    def _compile_messages(self) -> None:
        regions = self.regions
        number = {edge: e for e, edge in enumerate(regions.edges)}  # sorted by parent
        parents = np.array([p for p, _ in regions.edges], dtype=np.int64)
        self.child_start = starts_of(np.bincount(parents, minlength=len(regions)))
        self.child = np.array([r for _, r in regions.edges], dtype=np.int64)
        self.child_map = np.array([self._onto(p, r) for p, r in watched(regions.edges)], dtype=np.int64)
        self.message_start = starts_of(np.diff(self.table_start)[self.child])
        entering = [regions.entering(r) for r in watched(range(len(regions)))]
        self.in_start = starts_of([len(edges) for edges in entering])
        self.in_edge = np.array([number[e] for edges in entering for e in edges], dtype=np.int64)
        self.in_map = np.array(
            [self._onto(r, j) for r, edges in enumerate(watched(entering)) for _, j in edges], dtype=np.int64
        )

    @cached_property
    def senders(self) -> np.ndarray:
        """Regions with children: by level, and on a forest from the leaves inwards."""
        found = np.flatnonzero(np.diff(self.child_start))
        return found[np.argsort(self._depth[found], kind="stable")[::-1]] if self.regions.is_forest else found

    @cached_property
    def _depth(self) -> np.ndarray:
        """Steps from the first region of each connected part."""
        depth = np.full(len(self.regions), -1, dtype=np.int64)
        for root in range(len(self.regions)):
            if depth[root] >= 0:
                continue
            depth[root] = 0
            queue = [root]
            for r in watched(queue):
                for s in (*self.regions.children[r], *self.regions.parents[r]):
                    if depth[s] < 0:
                        depth[s] = depth[r] + 1
                        queue.append(s)
        return depth

    @cached_property
    def is_root(self) -> np.ndarray:
        """(regions,) whether a region has no parents."""
        found = np.zeros(len(self.regions), dtype=bool)
        found[list(self.regions.roots)] = True
        return found

    @cached_property
    def pairs(self) -> RegionPairs:
        """Inner regions and, for each, its roots."""
        regions = self.regions
        inner = np.flatnonzero(~self.is_root)
        above = [
            [a for a in sorted(regions.ancestors[r]) if self.is_root[a]] for r in watched(inner.tolist())
        ]
        counts = np.array([len(roots) for roots in above], dtype=np.int64)
        maps = [self._onto(a, int(r)) for r, roots in watched(zip(inner, above, strict=True)) for a in roots]
        sizes = np.repeat(np.diff(self.table_start)[inner], counts)
        return RegionPairs(
            self.table_start,
            self.is_root,
            inner,
            starts_of(counts),
            np.array([a for roots in above for a in roots], dtype=np.int64),
            np.array(maps, dtype=np.int64),
            starts_of(sizes),
            self.maps,
        )

    @cached_property
    def placements(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Every factor in every region that holds it: region, factor, map to the factor's table."""
        graph = self.regions.graph
        sizes = graph.variables.sizes
        region, factor, maps = [], [], []
        for r, members in enumerate(watched(self.regions.regions)):
            for a in members.factors:
                scope = graph.scope_of(a).tolist()
                region.append(r)
                factor.append(a)
                maps.append(self._project(r, self._strides(r, scope, sizes[scope].tolist())))
        return np.array(region, np.int64), np.array(factor, np.int64), np.array(maps, np.int64)

    @cached_property
    def homes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The smallest region of each variable and factor, and the map to its table.

        Variables first, then factors; region -1 for constants.
        """
        graph = self.regions.graph
        n, m = len(graph.variables), graph.n_factors
        region = np.full(n + m, -1, dtype=np.int64)
        maps = np.zeros(n + m, dtype=np.int64)
        by_size = sorted(
            range(len(self.regions)), key=lambda r: (-self.table_start[r + 1] + self.table_start[r], -r)
        )
        for r in watched(by_size):  # the smallest is written last
            region[list(self.regions.regions[r].variables)] = r
            region[[n + a for a in self.regions.regions[r].factors]] = r
        for i in watched(range(n)):
            if region[i] >= 0:
                maps[i] = self._project(int(region[i]), self._strides(int(region[i]), [i], [1]))
        for a in watched(range(m)):
            if region[n + a] >= 0:
                scope = graph.scope_of(a).tolist()
                shape = graph.variables.sizes[scope].tolist()
                maps[n + a] = self._project(
                    int(region[n + a]), self._strides(int(region[n + a]), scope, shape)
                )
        return region[:n], maps[:n], region[n:], maps[n:]


class RegionTables:
    """The numbers of one problem on a plan, and how beliefs of regions become a result."""

    def __init__(self, problem: Problem, plan: RegionPlan) -> None:
        self.problem, self.plan = problem, plan
        region, factor, maps = plan.placements
        self.theta = self._place(region, factor, maps, np.ones(len(region)))
        constant = plan.homes[2] < 0
        self.constant = float(problem.graph.log_tables[problem.graph.table_start[constant]].sum())
        if self.constant == -np.inf or not self._possible():
            raise problem.contradiction()

    @cached_property
    def edges(self) -> kernel.Edges:
        """What the messages between regions are made of."""
        plan = self.plan
        return kernel.Edges(
            plan.table_start,
            self.theta,
            plan.child_start,
            plan.child,
            plan.child_map,
            plan.in_start,
            plan.in_edge,
            plan.in_map,
            plan.maps,
            plan.message_start,
        )

    def _place(self, region: Any, factor: Any, maps: Any, weight: np.ndarray) -> np.ndarray:
        graph, start = self.problem.graph, self.plan.table_start
        theta = np.zeros(start[-1])
        entries = np.cumsum(np.diff(start)[region])
        cuts = np.searchsorted(entries, np.arange(_PIECE, entries[-1] if len(entries) else 0, _PIECE))
        for first, last in watched(pairwise(np.unique([0, *cuts, len(region)]).tolist())):
            some = slice(first, last)
            kernel.place(
                region[some], factor[some], maps[some], weight[some], self.plan.maps, start,
                graph.log_tables, graph.table_start, theta,
            )  # fmt: skip
        return theta

    def _possible(self) -> bool:
        """Whether every region has an entry of positive weight."""
        start = self.plan.table_start[:-1]
        return not len(start) or bool((np.maximum.reduceat(self.theta, start) > -np.inf).all())

    @cached_property
    def root_theta(self) -> np.ndarray:
        """Tables of the roots alone, every factor shared equally among the roots that hold it."""
        region, factor, maps = self.plan.placements
        kept = self.plan.is_root[region]
        shares = np.bincount(factor[kept], minlength=self.problem.graph.n_factors)
        return self._place(region[kept], factor[kept], maps[kept], 1.0 / shares[factor[kept]])

    def log_z(self, logs: np.ndarray) -> float:
        """Minus the region free energy of normalised log beliefs."""
        plan = self.plan
        value = kernel.free_energy(plan.counting, plan.table_start, self.theta, logs)
        return self.constant - float(value)

    def slopes(self, logs: np.ndarray) -> np.ndarray:
        """The derivative of `log_z` by all factors' log tables, the beliefs held: sum of c_R b_R.

        Where regions agree these are the factor marginals; the counting numbers around a factor sum to one.
        """
        graph, plan = self.problem.graph, self.plan
        region, factor, maps = plan.placements
        sizes, first = graph.table_size[factor], starts_of(graph.table_size)
        start = starts_of(sizes)
        read = np.empty(int(start[-1]))
        kernel.read(region, maps, plan.maps, plan.table_start, logs, start, read)
        where = np.arange(len(read)) + np.repeat(first[factor] - start[:-1], sizes)
        counted = np.repeat(plan.counting[region].astype(np.float64), sizes) * read
        found = np.bincount(where, counted, minlength=int(first[-1]))
        alone = first[:-1][plan.homes[2] < 0]
        found[alone] = 1.0
        return found

    def result(self, name: str, logs: np.ndarray, status: Status) -> Result:
        """Marginals from the smallest region that holds each variable and factor."""
        graph, plan = self.problem.graph, self.plan
        if np.isnan(logs).any() or not self._can_normalise(logs):
            raise self.problem.contradiction()
        variable, variable_map, factor, factor_map = plan.homes
        marginals = np.empty(graph.variables.state_start[-1])
        tables = np.empty(int(graph.table_size.sum()))
        kernel.read(
            variable, variable_map, plan.maps, plan.table_start, logs, graph.variables.state_start, marginals
        )
        kernel.read(
            factor, factor_map, plan.maps, plan.table_start, logs, starts_of(graph.table_size), tables
        )
        return Result(
            name,
            status,
            log_z=Estimate(self.log_z(logs), "estimate"),
            marginals=Marginals(graph.variables, marginals),
            factor_marginals=FactorMarginals(graph, tables),
        )

    def _can_normalise(self, logs: np.ndarray) -> bool:
        start = self.plan.table_start[:-1]
        return not len(start) or bool((np.maximum.reduceat(logs, start) > -np.inf).all())
