r"""The generalised dual decomposition bound as a sum over regions.

Regions r are clusters (first) and separators (behind them), each with a table T_r over its variables in
the order of elimination and a weight per axis; the weights of a variable sum to its temperature. The bound
is the sum of the regions' powered sums. An edge e = (s, c) carries a shift delta_e(x_s), added to the table
of the separator s and subtracted from that of the cluster c:

    L(delta, w) = sum_s powered sum of ( theta_s + sum_{c around s} delta_{s,c} )
                + sum_c powered sum of ( theta_c - sum_{s in c} delta_{s,c} )

Any finite shifts keep the bound valid; -inf stays in the tables.

Layout. All tables are flat and lie one after another, and so do all shifts. `regions[r]`, `separators[s]` and
`edges[e]` are rows of integers; the columns are named below. Axes are counted over all regions, and so are
the places of table entries. `maps[MAP + n]` is the entry of x_s that belongs to entry n of the tail, the
part of a cluster's table from the first axis of s on.
"""

from __future__ import annotations

import numpy as np

from .arrays import copy
from .jit import jit
from .powered import eliminate_first, powered_beliefs, powered_levels, powered_value

__all__ = [
    "add_shifts",
    "bound_of",
    "gradient",
    "project_zeros",
    "region_term",
    "shift_tables",
    "subtract_shift",
]

TABLE, SIZE, AXIS, AXIS_END = 0, 1, 2, 3  # columns of regions and, for its own region, of separators
EDGE, EDGE_END = 4, 5  # further columns of separators
# Columns of edges: those of the cluster, then of the separator in it; ROOM is what a block keeps of the tail.
FIRST, KIND, TAIL, ROOM, MAP, MEMBER, SHIFT, CLUSTER = 4, 5, 6, 7, 8, 9, 10, 11
ROOT, MAXIMA, INSIDE = 0, 1, 2  # kinds: what follows s in the cluster is nothing, maxima only, or sums too


@jit
def region_term(row, axis_size, weight, tables, work):
    """The powered sum of one region, given its row; `work` has room for its table."""
    at, first = row[TABLE], row[AXIS]
    # The first elimination reads the table itself: no copy is made.
    rest = row[SIZE] // axis_size[first]
    eliminate_first(tables, at, axis_size[first], rest, weight[first], work, 0)
    powered_value(work, 0, rest, axis_size, weight, first + 1, row[AXIS_END])
    return work[0]


@jit
def bound_of(regions, axis_size, weight, tables, terms):
    """The sum of all regions' powered sums, which are written to `terms`."""
    most = 1
    for r in range(len(regions)):
        most = max(most, regions[r, SIZE])
    work = np.empty(most)
    total = 0.0
    for r in range(len(regions)):
        terms[r] = region_term(regions[r], axis_size, weight, tables, work)
        total += terms[r]
    return total


@jit
def gradient(regions, separators, edges, maps, axis_size, weight, tables, by_shift, by_weight):
    """The bound, and its derivatives with respect to every shift and every weight."""
    most, widest = 1, 1
    for r in range(len(regions)):
        most = max(most, regions[r, SIZE])
        widest = max(widest, regions[r, AXIS_END] - regions[r, AXIS])
    levels = np.empty(2 * most + widest)
    belief = np.zeros(len(tables) + most)  # of all regions, at the places of their tables
    local = np.empty(most)
    total = 0.0
    for r in range(len(regions)):
        at, size, first, last = regions[r, TABLE], regions[r, SIZE], regions[r, AXIS], regions[r, AXIS_END]
        for n in range(size):
            levels[n] = tables[at + n]
        top = powered_levels(levels, 0, size, axis_size, weight, first, last)
        total += levels[top]
        powered_beliefs(levels, 0, size, axis_size, weight, first, last, local, by_weight)
        for n in range(size):
            belief[at + n] = local[n]
    for s in range(len(separators)):
        for e in range(separators[s, EDGE], separators[s, EDGE_END]):
            to, tail, where = edges[e, SHIFT], edges[e, TAIL], edges[e, MAP]
            for x in range(separators[s, SIZE]):
                by_shift[to + x] = belief[separators[s, TABLE] + x]
            for block in range(edges[e, TABLE], edges[e, TABLE] + edges[e, SIZE], tail):
                for n in range(tail):
                    by_shift[to + maps[where + n]] -= belief[block + n]
    return total


@jit
def shift_tables(separators, edges, maps, base, shifts, tables):
    """The tables of all regions after their shifts, from the original ones."""
    copy(base, tables)
    add_shifts(np.arange(len(separators)), separators, edges, maps, shifts, tables)


@jit
def add_shifts(some, separators, edges, maps, shifts, tables):
    """Move the shifts of some separators into the tables of their regions."""
    for s in some:
        node, count = separators[s, TABLE], separators[s, SIZE]
        for e in range(separators[s, EDGE], separators[s, EDGE_END]):
            at = edges[e, SHIFT]
            for x in range(count):
                tables[node + x] += shifts[at + x]
            subtract_shift(edges[e], maps, shifts, at, tables)


@jit
def subtract_shift(row, maps, change, at, tables):
    """Subtract change[at + x_s] from the table of an edge's cluster, given the edge's row."""
    tail, where = row[TAIL], row[MAP]
    for block in range(row[TABLE], row[TABLE] + row[SIZE], tail):
        for n in range(tail):
            tables[block + n] -= change[at + maps[where + n]]


@jit
def project_zeros(regions, separators, edges, maps, tables):
    """Make every state of a separator impossible everywhere if one region around it rules it out.

    Afterwards all regions around a separator agree on its possible states. Nothing changes for the model,
    whose weight is zero there already. False if a region has no possible state left: a contradiction.
    """
    most = 1
    for s in range(len(separators)):
        most = max(most, separators[s, SIZE])
    seen = np.zeros(most, np.bool_)
    busy = (tables == -np.inf).any()
    while busy:
        busy = False
        for s in range(len(separators)):
            for e in range(separators[s, EDGE], separators[s, EDGE_END]):
                busy |= _project(edges[e], maps, tables, separators[s, TABLE], separators[s, SIZE], seen)
    for r in range(len(regions)):
        alive = False
        for n in range(regions[r, TABLE], regions[r, TABLE] + regions[r, SIZE]):
            alive |= tables[n] > -np.inf
        if not alive:
            return False
    return True


@jit
def _project(row, maps, tables, node, count, seen):
    """The zeros of one cluster and one separator, each way; whether anything changed."""
    tail, where = row[TAIL], row[MAP]
    seen[:count] = False
    changed = False
    for block in range(row[TABLE], row[TABLE] + row[SIZE], tail):
        for n in range(tail):
            x = maps[where + n]
            if tables[block + n] == -np.inf:
                continue
            if tables[node + x] == -np.inf:
                tables[block + n] = -np.inf
                changed = True
            else:
                seen[x] = True
    for x in range(count):
        if not seen[x] and tables[node + x] > -np.inf:
            tables[node + x] = -np.inf
            changed = True
    return changed
