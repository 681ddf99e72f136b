r"""Parent-to-child messages between regions, the region free energy, and what is read from beliefs.

Every region r has a log table theta[table_start[r] : table_start[r+1]]. The index map of a pair
(larger, smaller region) holds, for each entry of the larger table, the entry of the smaller one it
projects to; all maps lie in one array and equal ones are shared.

Messages. The belief of a region is its table plus all messages that enter it or a region below it
from outside; agreement of parent and child gives

    m_{P->R}  <-  ( sum_{x_P \ x_R} b_P ) / ( b_R / m_{P->R} )

which is the quotient of the two products of the literature with common terms cancelled or not.
b_P does not depend on the messages P sends, so one belief serves all of its children.

Logs throughout; -inf is legal, 0 / 0 := 0: an entry
that some belief excludes is impossible and stays excluded.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .arrays import copy
from .jit import jit

__all__ = [
    "IMPOSSIBLE",
    "Edges",
    "beliefs",
    "free_energy",
    "largest_table",
    "log_marginal",
    "normalise",
    "place",
    "read",
    "sweeps",
    "top_of",
]

IMPOSSIBLE = -1.0  # reported instead of a change when a belief has no positive entry
_RUNAWAY = 1e9  # log messages beyond this have lost the digits that beliefs need
_TINY = 1e-280  # sums below this may have lost terms: they are repeated with their own maximum


class Edges(NamedTuple):
    """The tables of all regions, and which messages leave and enter them; an edge leads to one child."""

    table_start: np.ndarray  # (regions + 1,)
    theta: np.ndarray  # all log tables
    child_start: np.ndarray  # (regions + 1,) first edge that leaves each region
    child: np.ndarray  # (edges,) region each edge leads to
    child_map: np.ndarray  # (edges,) where the map from the parent's table to the child's begins
    in_start: np.ndarray  # (regions + 1,) slices of `in_edge` per region
    in_edge: np.ndarray  # edges that enter the region or one below it from outside
    in_map: np.ndarray  # where the map from the region's table to the message begins
    maps: np.ndarray  # all index maps
    message_start: np.ndarray  # (edges + 1,)


@jit
def _gather(r, skip, g, messages, out):
    """Log belief of region r into `out`, leaving out the message of edge `skip`; returns its size."""
    first = g.table_start[r]
    size = g.table_start[r + 1] - first
    for x in range(size):
        out[x] = g.theta[first + x]
    for k in range(g.in_start[r], g.in_start[r + 1]):
        e = g.in_edge[k]
        if e == skip:
            continue
        at, to = g.message_start[e], g.in_map[k]
        for x in range(size):
            out[x] += messages[at + g.maps[to + x]]
    return size


@jit
def largest_table(start):
    """Length of the longest slice, at least 1."""
    most = 1
    for r in range(len(start) - 1):
        most = max(most, start[r + 1] - start[r])
    return most


@jit
def top_of(values, size):
    """The largest of the first `size` values."""
    top = -np.inf
    for x in range(size):
        top = max(top, values[x])
    return top


@jit
def log_marginal(logs, weights, top, size, to, maps, small, out):
    """Log of the sums of exp(logs) over the entries that project to each small entry.

    `weights` holds exp(logs - top).
    """
    for y in range(small):
        out[y] = 0.0
    for x in range(size):
        out[maps[to + x]] += weights[x]
    lost = False
    for y in range(small):
        if out[y] < _TINY:
            lost = True
        else:
            out[y] = top + np.log(out[y])
    if lost:
        _log_marginal_carefully(logs, size, to, maps, small, out)


@jit
def _log_marginal_carefully(logs, size, to, maps, small, out):
    tops = np.full(small, -np.inf)
    sums = np.zeros(small)
    for x in range(size):
        y = maps[to + x]
        tops[y] = max(tops[y], logs[x])
    for x in range(size):
        y = maps[to + x]
        if logs[x] > -np.inf:
            sums[y] += np.exp(logs[x] - tops[y])
    for y in range(small):
        out[y] = tops[y] + np.log(sums[y]) if tops[y] > -np.inf else -np.inf


@jit
def normalise(values, size):
    """Subtract the log of the sum; returns that log."""
    top = top_of(values, size)
    if top == -np.inf:
        return top
    total = 0.0
    for x in range(size):
        total += np.exp(values[x] - top)
    shift = top + np.log(total)
    for x in range(size):
        values[x] -= shift
    return shift


@jit
def _mix(old, new, damping, linear):
    """Weight `damping` on the old log message; what one of them excludes stays excluded."""
    if old == -np.inf or new == -np.inf:
        return -np.inf
    if damping == 0.0:
        return new
    if not linear:
        return damping * old + (1.0 - damping) * new
    top = max(old, new)
    return top + np.log(damping * np.exp(old - top) + (1.0 - damping) * np.exp(new - top))


@jit
def _distance(messages, at, new, size):
    """Spread of the differences of two log messages over the entries both allow.

    It is the largest log ratio of a parent's marginal to the child's belief. Ratios, not differences of
    probabilities: messages that run away make beliefs agree on one state while ratios keep changing.
    """
    low, high = np.inf, -np.inf
    lost = 0.0
    for y in range(size):
        old = messages[at + y]
        if old > -np.inf and new[y] > -np.inf:
            low = min(low, new[y] - old)
            high = max(high, new[y] - old)
        elif old > -np.inf:
            lost = 1.0
    return max(high - low, lost) if high >= low else lost


@jit
def _send(p, damping, linear, g, messages, work):
    """All messages of region p; the largest change before damping, or IMPOSSIBLE."""
    logs, weights, up, rest = work
    size = _gather(p, -1, g, messages, logs)
    top = top_of(logs, size)
    if top == -np.inf:
        return IMPOSSIBLE
    for x in range(size):
        weights[x] = np.exp(logs[x] - top)
    worst = 0.0
    for e in range(g.child_start[p], g.child_start[p + 1]):
        r, at = g.child[e], g.message_start[e]
        small = g.table_start[r + 1] - g.table_start[r]
        log_marginal(logs, weights, top, size, g.child_map[e], g.maps, small, up)
        _gather(r, e, g, messages, rest)
        for y in range(small):
            up[y] = up[y] - rest[y] if up[y] > -np.inf and rest[y] > -np.inf else -np.inf
        change = _distance(messages, at, up, small)
        worst = max(worst, change)
        level = normalise(up, small) if linear else top_of(up, small)
        if level == -np.inf:
            return IMPOSSIBLE
        if not linear:
            for y in range(small):
                up[y] -= level
        for y in range(small):
            up[y] = _mix(messages[at + y], up[y], damping, linear)
        level = top_of(up, small)
        if level == -np.inf:
            return IMPOSSIBLE
        for y in range(small):
            messages[at + y] = up[y] if linear else up[y] - level
    return worst


@jit
def sweeps(orders, damping, linear, g, messages, count, tol):
    """Up to `count` sweeps over the rows of `orders` in turn; the largest change in each, before damping.

    Stops below `tol`, when a belief has no positive entry (IMPOSSIBLE), or when a message runs away
    (inf; `messages` then holds the values before that sweep).
    """
    largest = largest_table(g.table_start)
    work = (np.empty(largest), np.empty(largest), np.empty(largest), np.empty(largest))
    before = np.empty_like(messages)
    changes = np.zeros(count)
    for t in range(count):
        copy(messages, before)
        for p in orders[t % len(orders)]:
            change = _send(p, damping, linear, g, messages, work)
            if change == IMPOSSIBLE:
                changes[t] = IMPOSSIBLE
                return changes[: t + 1]
            if np.isnan(change):
                changes[t] = np.inf
                break
            changes[t] = max(changes[t], change)
        for k in range(len(messages)):
            if not messages[k] < _RUNAWAY or (messages[k] < -_RUNAWAY and messages[k] != -np.inf):
                changes[t] = np.inf
        if changes[t] == np.inf:
            copy(before, messages)
            return changes[: t + 1]
        if changes[t] < tol:
            return changes[: t + 1]
    return changes


@jit
def beliefs(g, messages):
    """Log beliefs of all regions, normalised; a region without a positive entry is all -inf."""
    found = np.empty(g.table_start[-1])
    for r in range(len(g.table_start) - 1):
        out = found[g.table_start[r] : g.table_start[r + 1]]
        size = _gather(r, -1, g, messages, out)
        normalise(out, size)
    return found


@jit
def free_energy(counting, table_start, theta, logs):
    """sum_R c_R sum b_R (log b_R - theta_R), 0 log 0 := 0, for normalised log beliefs."""
    total = 0.0
    for r in range(len(counting)):
        mine = 0.0
        for x in range(table_start[r], table_start[r + 1]):
            if logs[x] > -np.inf:
                mine += np.exp(logs[x]) * (logs[x] - theta[x])
        total += counting[r] * mine
    return total


@jit
def place(region, factor, to_map, weight, maps, table_start, log_tables, factor_start, theta):
    """Add weight[k] times the log table of factor[k] to the table of region[k]."""
    for k in range(len(region)):
        first, at = table_start[region[k]], factor_start[factor[k]]
        for x in range(table_start[region[k] + 1] - first):
            value = log_tables[at + maps[to_map[k] + x]]
            theta[first + x] += weight[k] * value if value > -np.inf else -np.inf


@jit
def read(region, to_map, maps, table_start, logs, start, out):
    """Marginals out[start[k]:start[k+1]] from the log beliefs of region[k]; ones where it is -1."""
    for k in range(len(region)):
        if region[k] < 0:
            out[start[k] : start[k + 1]] = 1.0
            continue
        first = table_start[region[k]]
        for y in range(start[k], start[k + 1]):
            out[y] = 0.0
        for x in range(table_start[region[k] + 1] - first):
            out[start[k] + maps[to_map[k] + x]] += np.exp(logs[first + x])
        total = 0.0
        for y in range(start[k], start[k + 1]):
            total += out[y]
        for y in range(start[k], start[k + 1]):
            out[y] /= total
