"""The bound of generalised dual decomposition as flat arrays: places, tables and first weights.

Regions are the clusters of a join graph followed by its separators. Factors over one free variable are
added to that variable's separator, constants are kept apart. Every variable's temperature is shared
among its regions,

    "matched":  evenly among the clusters that eliminate it, nothing elsewhere; to the variable itself if
                there is none (the weights of weighted mini-buckets),
    "uniform":  evenly among all regions that contain it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from ...core.factor_graph import FactorGraph
from ...core.result import FactorMarginals
from ...core.wiring import products_of, starts_of
from ...kernels.bound_slopes import region_slopes
from ...kernels.gdd import AXIS, AXIS_END, EDGE, EDGE_END, INSIDE, MAXIMA, ROOM, ROOT, SIZE, TABLE
from ...kernels.gdd_tables import add_factors
from ...kernels.mini_bucket_tables import link_strides
from ...optimise.run import recall
from ...structures.colouring import independent_sets
from ...structures.elimination import EliminationOrder, free_primal_graph
from ...structures.join_graph import JoinGraph, join_graph
from ...structures.mini_buckets import mini_bucket_order
from ..problem.base import Problem

__all__ = ["GDDPlan", "make_plan"]


@dataclass(frozen=True)
class GDDPlan:
    """Everything about a problem that stays the same while its bound is lowered, tables aside."""

    joins: JoinGraph  # clusters, separators and the order of elimination
    regions: np.ndarray  # (regions, 4) rows of `kernels/gdd.py`, clusters first
    separators: np.ndarray  # (separators, 6)
    edges: np.ndarray  # (edges, 12)
    axis_variable: np.ndarray  # variable of every axis of every region
    axis_size: np.ndarray  # its states
    maps: np.ndarray  # entry of a separator for each entry of a tail
    members: np.ndarray  # axis of each member of a separator in a cluster, per edge
    entry_start: np.ndarray  # (n + 1,) slices of the next two, per variable
    entry_region: np.ndarray  # a region that holds the variable
    entry_axis: np.ndarray  # its axis there
    single: np.ndarray  # (n,) the separator of each variable alone, -1 for one-state variables
    region: np.ndarray  # (factors,) where each factor's table goes, -1 for constants
    room_sizes: np.ndarray  # where the pieces of the room that kernels compute in end
    is_joined: bool  # whether clusters are mini-buckets, not just factors

    @cached_property
    def shift_sets(self) -> list[np.ndarray]:
        """Separators by colour: those of one colour are in no common cluster."""
        joins = self.joins
        return independent_sets(joins.edge_separator, joins.edge_cluster, joins.n_separators)

    @cached_property
    def weight_sets(self) -> list[np.ndarray]:
        """Variables by colour: those of one colour are in no common region."""
        n = len(self.single)
        owner = np.repeat(np.arange(n), np.diff(self.entry_start))
        return independent_sets(owner, self.entry_region, n)

    @cached_property
    def shift_work(self) -> np.ndarray:
        """Per separator the entries of the clusters around it."""
        count = self.separators[:, EDGE_END] - self.separators[:, EDGE]
        return np.bincount(
            np.repeat(np.arange(len(count)), count), self.edges[:, SIZE], minlength=len(count)
        ).astype(np.int64)

    @cached_property
    def weight_work(self) -> np.ndarray:
        """Per variable the entries of the regions that hold it."""
        owner = np.repeat(np.arange(len(self.single)), np.diff(self.entry_start))
        entries = self.regions[self.entry_region, SIZE]
        return np.bincount(owner, entries, minlength=len(self.single)).astype(np.int64)

    @property
    def n_shifts(self) -> int:
        """Entries of all shifts."""
        return int(self.separators[:, SIZE] @ (self.separators[:, EDGE_END] - self.separators[:, EDGE]))

    @property
    def n_entries(self) -> int:
        """Entries of all tables."""
        return int(self.regions[:, SIZE].sum())

    def tables(self, problem: Problem) -> tuple[np.ndarray, float]:
        """Tables of all regions without shifts, and the constant part of the model."""
        graph = problem.graph
        base = np.zeros(self.n_entries)
        constant = add_factors(
            self.region,
            graph.scope_start,
            graph.scope,
            graph.log_tables,
            graph.table_start,
            graph.variables.sizes,
            np.append(self.regions[:, AXIS], len(self.axis_variable)),
            self.axis_variable,
            np.append(self.regions[:, TABLE], self.n_entries),
            base,
        )
        return base, float(constant)

    def factor_marginals(self, graph: FactorGraph, weight: np.ndarray, tables: np.ndarray) -> FactorMarginals:
        """The derivative of the bound by the factors' log tables, shifts and weights held fixed."""
        first = starts_of(graph.table_size)
        slopes = np.empty(int(first[-1]))
        steps_start, steps = link_strides(
            self.region,
            graph.scope_start,
            graph.scope,
            graph.wiring.edge_stride,
            0,
            np.append(self.regions[:, AXIS], len(self.axis_variable)),
            self.axis_variable,
            len(graph.variables),
        )
        region_slopes(
            self.regions, self.axis_size, weight, tables, self.region, steps_start, steps, first, slopes
        )
        return FactorMarginals(graph, slopes)

    def first_weights(self, heat: np.ndarray, rule: Literal["matched", "uniform"]) -> np.ndarray:
        """One weight per axis; those of a variable sum to its temperature."""
        return self._spread(heat, self._host() if rule == "matched" else np.ones(len(self.axis_size)))

    def _host(self) -> np.ndarray:
        """How often each axis is where its variable is eliminated."""
        parts = np.zeros(len(self.axis_size))
        np.add.at(parts, _axis(self.joins, self.joins.host_cluster, self.joins.host_variable), 1.0)
        alone = np.setdiff1d(np.flatnonzero(self.single >= 0), self.joins.host_variable)
        parts[self.separators[self.single[alone], AXIS]] = 1.0
        return parts

    def _spread(self, heat: np.ndarray, parts: np.ndarray) -> np.ndarray:
        total = np.bincount(self.axis_variable, parts, minlength=len(heat))
        return heat[self.axis_variable] * parts / total[self.axis_variable]


def _axis(joins: JoinGraph, cluster: np.ndarray, variable: np.ndarray) -> np.ndarray:
    """Axis, counted over all clusters, of a variable in a cluster."""
    rank, n = joins.order.rank, len(joins.order.rank) + 1
    owner = np.repeat(np.arange(joins.n_clusters), np.diff(joins.cluster_start))
    return np.searchsorted(owner * n + rank[joins.cluster], cluster * n + rank[variable])


def make_plan(problem: Problem, ibound: int, max_entries: int = 1 << 20, *, smooth: bool = False) -> GDDPlan:
    """The plan for a problem, filed with its graph; with `smooth`, maxima will have positive weights."""
    if smooth:
        problem = replace(problem, temperatures=np.ones_like(problem.temperatures))
    graph = problem.graph
    cold = (problem.temperatures == 0).tobytes()
    key = ("gdd", graph.structure_key, problem.levels.tobytes(), cold, ibound, max_entries)
    return recall(graph.memo, key, lambda: _plan(problem, ibound, max_entries))  # type: ignore[no-any-return]


def _plan(problem: Problem, ibound: int, max_entries: int) -> GDDPlan:
    graph = problem.graph
    order = _order(problem)
    joins = join_graph(graph, order, ibound, max_entries=max_entries)
    sizes, clusters = graph.variables.sizes, joins.n_clusters
    axis_variable = np.concatenate([joins.cluster, joins.separator])
    axis_start = np.concatenate([joins.cluster_start, joins.cluster_start[-1] + joins.separator_start[1:]])
    axis_size = sizes[axis_variable]
    table_start = starts_of(products_of(axis_start, axis_size))
    regions = np.stack([table_start[:-1], np.diff(table_start), axis_start[:-1], axis_start[1:]], axis=1)
    around = starts_of(np.bincount(joins.edge_separator, minlength=joins.n_separators))
    separators = np.column_stack([regions[clusters:], around[:-1], around[1:]])
    edges, maps, members = _edges(problem, joins, regions, axis_size)
    single = np.full(len(sizes), -1, dtype=np.int64)
    alone = np.flatnonzero(np.diff(joins.separator_start) == 1)
    single[joins.separator[joins.separator_start[alone]]] = alone
    by_variable = np.argsort(axis_variable, kind="stable")
    entry_start = starts_of(np.bincount(axis_variable, minlength=len(sizes)))
    return GDDPlan(
        joins,
        regions,
        separators,
        edges,
        axis_variable,
        axis_size,
        maps,
        members,
        entry_start,
        np.repeat(np.arange(len(regions)), np.diff(axis_start))[by_variable],
        by_variable,
        single,
        _regions_of_factors(problem, joins, single),
        _room(regions, separators, edges, int(np.diff(entry_start).max(initial=1))),
        ibound > 0,
    )


def _order(problem: Problem) -> EliminationOrder:
    """A good order within the levels."""
    graph = problem.graph
    order, weight = mini_bucket_order(graph, problem.levels), graph.variables.sizes.astype(np.float64)
    return EliminationOrder(graph.variables.names, order, free_primal_graph(graph), weight)


def _room(regions: np.ndarray, separators: np.ndarray, edges: np.ndarray, entries: int) -> np.ndarray:
    """Ends of the pieces: tails, partial sums, belief, trial, directions, moves, own table, S, weights."""
    largest = int(regions[:, SIZE].max(initial=1))
    widest = int((regions[:, AXIS_END] - regions[:, AXIS]).max(initial=1))
    states = int(separators[:, SIZE].max(initial=1))
    degree = separators[:, EDGE_END] - separators[:, EDGE]
    tails = np.append(0, np.cumsum(edges[:, ROOM]))
    tail = int((tails[separators[:, EDGE_END]] - tails[separators[:, EDGE]]).max(initial=1))
    views = int((degree * separators[:, SIZE]).max(initial=1))
    pieces = [tail, 2 * largest + widest, largest, largest, views, views, states, 2 * states + widest]
    return np.cumsum([*pieces, entries, entries])


def _regions_of_factors(problem: Problem, joins: JoinGraph, single: np.ndarray) -> np.ndarray:
    graph = problem.graph
    region = joins.home.copy()
    free = graph.variables.sizes[graph.scope] > 1
    factor = np.repeat(np.arange(graph.n_factors), np.diff(graph.scope_start))[free]
    lone = np.bincount(factor, minlength=graph.n_factors)[factor] == 1
    region[factor[lone]] = joins.n_clusters + single[graph.scope[free][lone]]
    return region


def _edges(
    problem: Problem, joins: JoinGraph, regions: np.ndarray, axis_size: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Per edge: where the separator sits in the cluster, and how their entries correspond."""
    s, c = joins.edge_separator, joins.edge_cluster
    arity = np.diff(joins.separator_start)[s]
    member_start = starts_of(arity)
    pick = np.arange(member_start[-1]) + np.repeat(joins.separator_start[s] - member_start[:-1], arity)
    members = _axis(joins, np.repeat(c, arity), joins.separator[pick])
    first, end = members[member_start[:-1]], regions[c, AXIS_END]
    tail = _tails(np.append(regions[:, AXIS], len(axis_size)), axis_size)[first]
    hot = np.append(np.cumsum(problem.temperatures[joins.cluster][::-1] > 0)[::-1], 0)
    kind = np.where(first == end - arity, ROOT, np.where(hot[first] > hot[end], INSIDE, MAXIMA))
    states = regions[joins.n_clusters + s, SIZE]
    map_start, maps = _maps(first, end, axis_size, member_start, members)
    room = np.where(kind == MAXIMA, states, tail)
    columns = [first, kind, tail, room, map_start, member_start[:-1], starts_of(states)[:-1], c]
    return np.column_stack([regions[c], *columns]), maps, members


def _tails(start: np.ndarray, size: np.ndarray) -> np.ndarray:
    """For every axis the entries of its region's table from that axis on."""
    tail = size.copy()
    width = np.diff(start)
    for k in range(1, int(width.max(initial=0))):
        at = start[1:][width > k] - 1 - k
        tail[at] *= tail[at + 1]
    return tail


def _maps(
    begin: np.ndarray, end: np.ndarray, axis_size: np.ndarray, member_start: np.ndarray, members: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Entry of the separator for each entry of a tail; edges of one shape share one map."""
    edges, widest = len(begin), int((end - begin).max(initial=0))
    key = np.zeros((edges, 2 * widest), dtype=np.int64)  # sizes of the tail's axes, and which are members
    for k in range(widest):
        has = begin + k < end
        key[has, k] = axis_size[begin[has] + k]
    edge = np.repeat(np.arange(edges), np.diff(member_start))
    key[edge, widest + members - begin[edge]] = 1
    shapes, which = np.unique(key, axis=0, return_inverse=True) if edges else (key, np.empty(0, np.int64))
    made = [_map(row[:widest], row[widest:]) for row in shapes]
    start = starts_of([len(m) for m in made])
    return start[which.ravel()], np.concatenate([*made, np.empty(0, dtype=np.int32)])


def _map(sizes: np.ndarray, is_member: np.ndarray) -> np.ndarray:
    sizes, is_member = sizes[sizes > 0], is_member[sizes > 0] > 0
    shape = np.where(is_member, sizes, 1)
    entry = np.arange(int(shape.prod()), dtype=np.int32).reshape(shape)
    return np.broadcast_to(entry, sizes).ravel()
