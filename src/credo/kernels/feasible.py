"""Search for joint states that no zero entry forbids.

Depth-first search that keeps generalised arc consistency: after each choice, states without a
positive entry left in some factor are dropped, and dropping may go on. Only factors with zeros
take part. Complete unless it gives up after a number of dead ends. It goes in portions, between which it can
be left.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .jit import jit

__all__ = ["FOUND", "GAVE_UP", "IMPOSSIBLE", "UNDECIDED", "Box", "best_entries", "box_start", "box_steps"]

FOUND, IMPOSSIBLE, GAVE_UP, UNDECIDED = 0, 1, 2, 3


@jit
def best_entries(log_tables, table_start, scope_start, scope, edge_stride, state_start):
    """For every state, the sum over its factors of the largest log entry that contains it."""
    out = np.zeros(state_start[-1])
    for a in range(len(table_start)):
        first, last = scope_start[a], scope_start[a + 1]
        size = 1
        for e in range(first, last):
            size *= state_start[scope[e] + 1] - state_start[scope[e]]
        for e in range(first, last):
            low, count = state_start[scope[e]], state_start[scope[e] + 1] - state_start[scope[e]]
            best = np.full(count, -np.inf)
            for entry in range(size):
                s = (entry // edge_stride[e]) % count
                best[s] = max(best[s], log_tables[table_start[a] + entry])
            for s in range(count):
                out[low + s] += best[s]
    return out


class Box(NamedTuple):
    """A search under way."""

    keep: np.ndarray  # one flag per flat state: not dropped by the choices so far
    left: np.ndarray  # (n,) how many states of each variable are kept
    owner: np.ndarray  # variable of each flat state
    size: np.ndarray  # (factors,) entries
    hard: np.ndarray  # (factors,) whether there is a zero among them
    around_start: np.ndarray  # (n + 1,) slices of `around`
    around: np.ndarray  # factors with zeros around each variable
    tied: np.ndarray  # (n,) whether zeros tie a variable to others, once that is known
    trail: np.ndarray  # states in the order in which they were dropped
    queue: np.ndarray  # factors to be made consistent
    queued: np.ndarray  # (factors,) whether they are in the queue
    mark: np.ndarray  # per choice the length of the trail before it
    chosen: np.ndarray  # per choice its state
    place: np.ndarray  # per choice the place of its variable in the order
    top: np.ndarray  # lengths of trail and queue
    at: np.ndarray  # counters, by the names below


_LEVEL, _FAILURES, _IS_TIED, _ROOM = range(4)  # of `Box.at`: choices, dead ends, is `tied` known, work left


@jit
def box_start(log_tables, table_start, scope_start, scope, edge_stride, state_start):
    """A search in which nothing is decided yet, and every factor with zeros waits to be looked at."""
    n, factors, total = len(state_start) - 1, len(table_start), state_start[-1]
    keep = np.ones(total, np.bool_)
    left = np.zeros(n, np.int64)
    owner = np.zeros(total, np.int64)
    for i in range(n):
        left[i] = state_start[i + 1] - state_start[i]
        owner[state_start[i] : state_start[i + 1]] = i
    size = np.ones(factors, np.int64)
    hard = np.zeros(factors, np.bool_)
    queue = np.zeros(factors, np.int64)
    top = np.zeros(2, np.int64)
    for a in range(factors):
        for e in range(scope_start[a], scope_start[a + 1]):
            size[a] *= left[scope[e]]
        hard[a] = _has_zero(
            a, log_tables, table_start, size, scope_start, scope, edge_stride, state_start, keep
        )
        if hard[a]:
            queue[top[1]] = a
            top[1] += 1
    around_start, around = _around(hard, scope_start, scope, n)
    return Box(
        keep, left, owner, size, hard, around_start, around, np.zeros(n, np.bool_), np.zeros(total, np.int64),
        queue, hard.copy(), np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64), top,
        np.zeros(4, np.int64),
    )  # fmt: skip


@jit
def box_steps(
    box,
    log_tables,
    table_start,
    scope_start,
    scope,
    edge_stride,
    state_start,
    order,
    preference,
    max_failures,
    most,
):
    """Search until there is a set of states per variable all of whose combinations have positive weight.

    Parameters
    ----------
    box
        From `box_start`; it changes in place. Once `FOUND`, `box.keep` has the states: variables that zeros
        do not tie to others keep all states that are possible, the tied ones keep one.
    order
        Variables in the order in which they are decided.
    preference
        Per flat state; among the states left, the one with the largest value is tried first.
    max_failures
        Dead ends after which the search gives up.
    most
        Table entries to look at, about; then it is `UNDECIDED`, and the next call goes on.

    Returns
    -------
    code
        `FOUND`, `IMPOSSIBLE` (proved), `GAVE_UP` or `UNDECIDED`.
    """
    keep, left, owner, size, hard = box.keep, box.left, box.owner, box.size, box.hard
    around_start, around, trail, queue, queued = (
        box.around_start,
        box.around,
        box.trail,
        box.queue,
        box.queued,
    )
    mark, chosen, place, top, at = box.mark, box.chosen, box.place, box.top, box.at
    n, factors = len(left), len(size)
    work = (log_tables, table_start, size, scope_start, scope, edge_stride, state_start, around_start, around)
    room = at[_ROOM : _ROOM + 1]
    room[0] = most
    while True:
        is_consistent = _propagate(work, keep, left, trail, top, queue, queued, room)
        if top[1] > 0:
            return UNDECIDED
        if not is_consistent:
            if at[_LEVEL] == 0:
                return IMPOSSIBLE
            at[_FAILURES] += 1
            if at[_FAILURES] > max_failures:
                return GAVE_UP
            at[_LEVEL] -= 1
            level = at[_LEVEL]
            while top[0] > mark[level]:
                top[0] -= 1
                s = trail[top[0]]
                keep[s] = True
                left[owner[s]] += 1
            # The refuted state goes for as long as the choices above it stand.
            i = owner[chosen[level]]
            _drop(chosen[level], i, keep, left, trail, top)
            _wake(i, -1, around_start, around, top, queue, queued)
            continue
        if not at[_IS_TIED]:
            at[_IS_TIED] = 1
            for a in range(factors):
                if hard[a] and _has_zero(
                    a, log_tables, table_start, size, scope_start, scope, edge_stride, state_start, keep
                ):
                    for e in range(scope_start[a], scope_start[a + 1]):
                        box.tied[scope[e]] = True
        level = at[_LEVEL]
        p = place[level - 1] if level > 0 else 0
        while p < n and (not box.tied[order[p]] or left[order[p]] == 1):
            p += 1
        if p == n:
            return FOUND
        i = order[p]
        best = -1
        for s in range(state_start[i], state_start[i + 1]):
            if keep[s] and (best < 0 or preference[s] > preference[best]):
                best = s
        mark[level], chosen[level], place[level] = top[0], best, p
        at[_LEVEL] += 1
        for s in range(state_start[i], state_start[i + 1]):
            if keep[s] and s != best:
                _drop(s, i, keep, left, trail, top)
        _wake(i, -1, around_start, around, top, queue, queued)


@jit
def _has_zero(a, log_tables, table_start, size, scope_start, scope, edge_stride, state_start, keep):
    """Whether factor a has a zero entry among the kept states."""
    for entry in range(size[a]):
        if log_tables[table_start[a] + entry] == -np.inf and _alive(
            entry, a, scope_start, scope, edge_stride, state_start, keep
        ):
            return True
    return False


@jit
def _alive(entry, a, scope_start, scope, edge_stride, state_start, keep):
    for e in range(scope_start[a], scope_start[a + 1]):
        low, high = state_start[scope[e]], state_start[scope[e] + 1]
        if not keep[low + (entry // edge_stride[e]) % (high - low)]:
            return False
    return True


@jit
def _around(hard, scope_start, scope, n):
    """The factors with zeros around each variable, as slices."""
    start = np.zeros(n + 1, np.int64)
    for a in range(len(hard)):
        if hard[a]:
            for e in range(scope_start[a], scope_start[a + 1]):
                start[scope[e] + 1] += 1
    start = np.cumsum(start)
    filled, member = start.copy(), np.empty(start[-1], np.int64)
    for a in range(len(hard)):
        if hard[a]:
            for e in range(scope_start[a], scope_start[a + 1]):
                member[filled[scope[e]]] = a
                filled[scope[e]] += 1
    return start, member


@jit
def _drop(s, i, keep, left, trail, top):
    keep[s] = False
    left[i] -= 1
    trail[top[0]] = s
    top[0] += 1


@jit
def _wake(i, but, around_start, around, top, queue, queued):
    """Queue the factors around a variable that lost states, except the one that caused it."""
    for f in range(around_start[i], around_start[i + 1]):
        a = around[f]
        if a != but and not queued[a]:
            queued[a] = True
            queue[top[1]] = a
            top[1] += 1


@jit
def _propagate(work, keep, left, trail, top, queue, queued, room):
    """Empty the queue while there is room for work; false if some factor has no possible entry left."""
    log_tables, table_start, size, scope_start, scope, edge_stride, state_start, around_start, around = work
    consistent = True
    while top[1] > 0 and (room[0] > 0 or not consistent):
        top[1] -= 1
        a = queue[top[1]]
        queued[a] = False
        if not consistent:
            continue
        room[0] -= size[a]
        first, last = scope_start[a], scope_start[a + 1]
        width = 0
        for e in range(first, last):
            width += state_start[scope[e] + 1] - state_start[scope[e]]
        seen = np.zeros(width, np.bool_)
        consistent = False
        for entry in range(size[a]):
            if log_tables[table_start[a] + entry] > -np.inf and _alive(
                entry, a, scope_start, scope, edge_stride, state_start, keep
            ):
                consistent = True
                shift = 0
                for e in range(first, last):
                    count = state_start[scope[e] + 1] - state_start[scope[e]]
                    seen[shift + (entry // edge_stride[e]) % count] = True
                    shift += count
        if not consistent:
            continue
        shift = 0
        for e in range(first, last):
            i = scope[e]
            before = left[i]
            for s in range(state_start[i], state_start[i + 1]):
                if keep[s] and not seen[shift + s - state_start[i]]:
                    _drop(s, i, keep, left, trail, top)
            if left[i] < before:
                _wake(i, a, around_start, around, top, queue, queued)
            shift += state_start[i + 1] - state_start[i]
    return consistent
