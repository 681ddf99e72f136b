"""Sets of variables that can be maximised at once: the others, held, cut the model into narrow pieces."""

from __future__ import annotations

import numpy as np

from .jit import jit

__all__ = ["choose_block", "nearest", "reach"]


@jit
def choose_block(start, neighbour, log_size, level, may_hold, members, noise, hold_first, limit):
    """Which variables to hold so that the others can be eliminated with small tables.

    Eliminates by level and, within it, the cheapest variable first; where its clique is too large, the
    member that `hold_first` ranks highest is held instead. Nothing outside `members` is looked at.

    Parameters
    ----------
    start, neighbour
        Primal graph.
    log_size
        (n,) log2 of the number of states.
    level, may_hold
        (n,) elimination goes by rising level; only variables that may be held are.
    members
        The variables to decide about.
    noise, hold_first
        (members,) factors on the cost of eliminating each, and its rank for being held.
    limit
        log2 of the largest table.

    Returns
    -------
    held
        (members,) flags.
    """
    m = len(members)
    place = np.full(len(log_size), -1, np.int64)
    for p in range(m):
        place[members[p]] = p
    joined = np.zeros((m, m), np.bool_)
    cost = np.empty(m)
    for p in range(m):
        i = members[p]
        cost[p] = log_size[i]
        for e in range(start[i], start[i + 1]):
            if place[neighbour[e]] >= 0:
                joined[p, place[neighbour[e]]] = True
                cost[p] += log_size[neighbour[e]]
    held, left = np.zeros(m, np.bool_), np.ones(m, np.bool_)
    around = np.empty(m, np.int64)
    remaining = m
    while remaining > 0:
        best = -1
        for p in range(m):
            if left[p] and (
                best < 0
                or level[members[p]] < level[members[best]]
                or (
                    level[members[p]] == level[members[best]]
                    and cost[p] * noise[p] < cost[best] * noise[best]
                )
            ):
                best = p
        count = 0
        for q in range(m):
            if joined[best, q]:
                around[count] = q
                count += 1
        gone = best
        if cost[best] > limit:
            worst = best if may_hold[members[best]] else -1
            for c in range(count):
                q = around[c]
                if may_hold[members[q]] and (worst < 0 or hold_first[q] > hold_first[worst]):
                    worst = q
            if worst >= 0:
                gone = worst
                held[gone] = True
        if gone != best:
            count = 0
            for q in range(m):
                if joined[gone, q]:
                    around[count] = q
                    count += 1
        elif not held[gone]:
            for c in range(count):
                for d in range(c):
                    q, r = around[c], around[d]
                    if not joined[q, r]:
                        joined[q, r] = joined[r, q] = True
                        cost[q] += log_size[members[r]]
                        cost[r] += log_size[members[q]]
        for c in range(count):
            joined[around[c], gone] = joined[gone, around[c]] = False
            cost[around[c]] -= log_size[members[gone]]
        left[gone] = False
        remaining -= 1
    return held


@jit
def nearest(start, neighbour, centre, may_hold, most):
    """Variables around a centre, nearest first.

    Of those that may be held `most` are taken; the others come with all that they lead to, because a
    computation that frees one of their neighbours has to eliminate them.
    """
    n = len(may_hold)
    seen, found = np.zeros(n, np.bool_), np.empty(n, np.int64)
    found[0], seen[centre] = centre, True
    size, taken, at, other = 1, 1, 0, 0
    while True:
        if at == size:  # another part of a disconnected model
            while other < n and (seen[other] or not may_hold[other]):
                other += 1
            if other == n or taken >= most:
                break
            found[size], seen[other] = other, True
            size += 1
            taken += 1
        i = found[at]
        at += 1
        for e in range(start[i], start[i + 1]):
            j = neighbour[e]
            if seen[j] or (may_hold[j] and taken >= most):
                continue
            seen[j] = True
            found[size] = j
            size += 1
            taken += may_hold[j]
    return found[:size]


@jit
def reach(start, neighbour, free, source):
    """Flags of the free variables that a source reaches through free variables."""
    seen = np.zeros(len(free), np.bool_)
    stack = np.empty(len(free), np.int64)
    top = 0
    for i in range(len(free)):
        if source[i] and free[i]:
            seen[i] = True
            stack[top] = i
            top += 1
    while top > 0:
        top -= 1
        i = stack[top]
        for e in range(start[i], start[i + 1]):
            j = neighbour[e]
            if free[j] and not seen[j]:
                seen[j] = True
                stack[top] = j
                top += 1
    return seen
