r"""The region free energy as a function of the beliefs of the root regions alone.

With the beliefs b of the roots in one vector, everything else is linear in b:

    beliefs of the other regions     u = A b        each is the mean of what its parents say, level by level
    disagreement of parent and child r = D b        sum_{x_P \ x_R} b_P - b_R, one row per edge and entry of R
    F(b) = <b, log b> + sum_k c_k u_k log u_k - <e, b>,      e = A'(c theta) over all regions, roots included

so a problem is two vectors over the entries of the roots: the energies e and which entries are possible.
A, D and the grouping of the roots depend on the structure only.

Roots are grouped in buckets of equal shape; their entries lie bucket by bucket.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...core.factor_graph import FactorGraph
from ...core.wiring import Memo
from ..messages.region_plan import RegionPlan, RegionTables, plan_of

__all__ = ["Bucket", "RegionSystem", "system_of"]

_SYSTEMS = Memo()


class Bucket(NamedTuple):
    """Roots with the same numbers of variables and of joint states."""

    roots: int  # how many
    arity: int
    entries: int


def system_of(graph: FactorGraph, regions: Any, max_entries: int) -> RegionSystem:
    """The system of this structure, made once for all models that share it."""
    named = None if isinstance(regions, str) else tuple(tuple(r) for r in regions)
    key = (
        graph.structure_key,
        regions if named is None else (named, tuple(graph.variables.names)),
        max_entries,
    )
    made: RegionSystem = _SYSTEMS.recall(key, lambda: RegionSystem(plan_of(graph, regions, max_entries)))
    return made


class RegionSystem:
    """Sparse matrices of a region graph, see the module; rows and columns are entries of tables."""

    def __init__(self, plan: RegionPlan) -> None:
        self.plan = plan
        self.size = int(plan.table_start[-1])
        sizes = np.diff(plan.table_start)
        roots = np.flatnonzero(plan.is_root)
        arity = np.array([len(plan.regions.regions[r].variables) for r in roots.tolist()], dtype=np.int64)
        shape = np.stack([arity, sizes[roots]], axis=1).reshape(-1, 2)
        kinds, which = np.unique(shape, axis=0, return_inverse=True)
        members = [roots[which.ravel() == k] for k in range(len(kinds))]
        self.buckets = tuple(
            Bucket(len(m), int(k[0]), int(k[1])) for m, k in zip(members, kinds, strict=True)
        )
        self.scopes = tuple(
            np.array([plan.regions.regions[r].variables for r in m.tolist()], dtype=np.int32) for m in members
        )
        order = np.concatenate([*members, np.empty(0, np.int64)]).astype(np.int64)
        self.root_entry = _ranges(plan.table_start[order], sizes[order])  # in the tables of all regions
        self.root_of = np.repeat(np.arange(len(order)), sizes[order])  # root of each entry, by bucket
        self.inner_entry = np.flatnonzero(np.repeat(~plan.is_root, sizes))
        self.counting = np.repeat(plan.counting, sizes).astype(np.float64)  # of each entry

    @property
    def n_entries(self) -> int:
        """Entries of all roots."""
        return len(self.root_entry)

    @cached_property
    def _edges(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For every edge and entry of its parent: row of the edge's entry, child's entry, parent's entry."""
        plan = self.plan
        row, child, parent = [], [], []
        for e, (p, r) in enumerate(plan.regions.edges):
            first, last = int(plan.table_start[p]), int(plan.table_start[p + 1])
            to = plan.maps[plan.child_map[e] : plan.child_map[e] + last - first]
            row.append(plan.message_start[e] + to)
            child.append(plan.table_start[r] + to)
            parent.append(np.arange(first, last))
        none = [np.empty(0, np.int64)]
        return np.concatenate(row + none), np.concatenate(child + none), np.concatenate(parent + none)

    @cached_property
    def beliefs(self) -> Any:
        """(all entries, root entries) beliefs of all regions from those of the roots."""
        from scipy import sparse

        plan, (_, child, parent) = self.plan, self._edges
        sizes = np.diff(plan.table_start)
        parents = np.bincount(plan.child, minlength=len(plan.regions))
        weight = 1.0 / np.repeat(parents, sizes)[child]
        level = np.repeat(plan.regions.levels, sizes)
        shape = (self.size, self.n_entries)
        found = sparse.csr_matrix(
            (np.ones(self.n_entries), (self.root_entry, np.arange(self.n_entries))), shape=shape
        )
        for k in range(1, int(plan.regions.levels.max(initial=0)) + 1):
            at = level[child] == k
            down = sparse.csr_matrix((weight[at], (child[at], parent[at])), shape=(self.size, self.size))
            found = found + down @ found
        return found.tocsr()

    @cached_property
    def inner(self) -> Any:
        """A: the rows of `beliefs` of regions that are no roots."""
        return self.beliefs[self.inner_entry]

    @cached_property
    def disagreement(self) -> Any:
        """D, without the rows that are zero because a child has a single parent."""
        from scipy import sparse

        row, child, parent = self._edges
        count = int(self.plan.message_start[-1])
        said = sparse.csr_matrix((np.ones(len(row)), (row, parent)), shape=(count, self.size))
        entry = np.zeros(count, dtype=np.int64)
        entry[row] = child
        made = said @ self.beliefs - self.beliefs[entry]
        made.data[np.abs(made.data) < 1e-12] = 0.0  # what cancels up to rounding
        made.eliminate_zeros()
        return made[np.diff(made.indptr) > 0]

    @cached_property
    def shown(self) -> Any:
        """Marginals of variables and of larger factors, scaled so that the sum of squares of a change is the
        mean square over variables plus that over factors.
        """  # noqa: D205
        from scipy import sparse

        graph = self.plan.regions.graph
        arity = np.diff(graph.scope_start)
        variable, variable_map, factor, factor_map = self.plan.homes
        parts = []
        for regions, maps, sizes in (
            (variable, variable_map, graph.variables.sizes),
            (factor[arity > 1], factor_map[arity > 1], graph.table_size[arity > 1]),
        ):
            made = self._projection(regions, maps, sizes)
            parts.append(made / np.sqrt(max(made.shape[0], 1)))
        return (sparse.vstack(parts) @ self.beliefs).tocsr()

    def _projection(self, regions: np.ndarray, maps: np.ndarray, sizes: np.ndarray) -> Any:
        from scipy import sparse

        plan, kept = self.plan, np.flatnonzero(regions >= 0)
        start = np.concatenate([[0], np.cumsum(sizes[kept])])
        rows, columns = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for k, (r, to) in enumerate(zip(regions[kept].tolist(), maps[kept].tolist(), strict=True)):
            first, last = int(plan.table_start[r]), int(plan.table_start[r + 1])
            rows.append(start[k] + plan.maps[to : to + last - first])
            columns.append(np.arange(first, last))
        row, column = np.concatenate(rows), np.concatenate(columns)
        return sparse.csr_matrix((np.ones(len(row)), (row, column)), shape=(int(start[-1]), self.size))

    def problem(self, tables: RegionTables) -> tuple[np.ndarray, np.ndarray]:
        """Energies e and possible entries of the roots."""
        possible = self._possible(tables)
        finite = np.where(np.isneginf(tables.theta), 0.0, tables.theta)
        return self.beliefs.T @ (self.counting * finite), possible[self.root_entry]

    def _possible(self, tables: RegionTables) -> np.ndarray:
        """Entries that no region excludes, parents and children told of each other's zeros."""
        possible = tables.theta > -np.inf
        if possible.all():
            return possible
        row, child, parent = self._edges
        entry = np.zeros(int(self.plan.message_start[-1]), dtype=np.int64)
        entry[row] = child
        while True:
            before = int(possible.sum())
            told = np.bincount(row, possible[parent], minlength=len(entry)) > 0
            refuted = np.zeros(self.size, dtype=bool)
            refuted[entry[~told]] = True
            possible &= ~refuted
            lost = np.zeros(self.size, dtype=bool)
            lost[parent[~possible[child]]] = True
            possible &= ~lost
            if int(possible.sum()) == before:
                break
        start = self.plan.table_start[:-1]
        if len(start) and not np.logical_or.reduceat(possible, start).all():
            raise tables.problem.contradiction()
        return possible


def _ranges(first: np.ndarray, length: np.ndarray) -> np.ndarray:
    """first[k], first[k] + 1, ... of length[k] each, one after another."""
    ends = np.cumsum(length)
    return np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(first - (ends - length), length)
