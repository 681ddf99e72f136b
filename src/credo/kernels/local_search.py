"""Iterated local search and annealing over joint states.

A search keeps, for every state of every variable, what the factors around the variable would give if
it moved there: the sum of their finite log entries, and how many of them would be zero. A move
changes these numbers only around the factors it touches. States are compared by the zeros they hit
first and by their score second, so the search also repairs infeasible starts.
"""

from __future__ import annotations

import numpy as np

from .jit import jit

__all__ = ["anneal", "local_scores", "search_rounds"]

_LONGEST = 4096  # moves after a disturbance that can be taken back


@jit
def local_scores(log_tables, table_start, scope_start, scope, edge_stride, state_start, x):
    """Per flat state: finite log entries and zeros of the factors around it, the others as in `x`."""
    value, broken = np.zeros(state_start[-1]), np.zeros(state_start[-1], np.int64)
    for a in range(len(table_start)):
        at = table_start[a]
        for e in range(scope_start[a], scope_start[a + 1]):
            at += edge_stride[e] * x[scope[e]]
        for e in range(scope_start[a], scope_start[a + 1]):
            i = scope[e]
            first = at - edge_stride[e] * x[i]
            for s in range(state_start[i], state_start[i + 1]):
                entry = log_tables[first + (s - state_start[i]) * edge_stride[e]]
                if entry == -np.inf:
                    broken[s] += 1
                else:
                    value[s] += entry
    return value, broken


@jit
def _move(work, value, broken, x, i, s):
    """Set variable i to state s and update the numbers around it; returns how many were looked at."""
    looked = 0
    log_tables, table_start, scope_start, scope, edge_stride, state_start, near_start, near, edge_factor = (
        work
    )
    for n in range(near_start[i], near_start[i + 1]):
        edge = near[n]
        a = edge_factor[edge]
        at = table_start[a]
        for e in range(scope_start[a], scope_start[a + 1]):
            at += edge_stride[e] * x[scope[e]]
        step = (s - x[i]) * edge_stride[edge]
        for e in range(scope_start[a], scope_start[a + 1]):
            j = scope[e]
            if j == i:
                continue
            entry = at - edge_stride[e] * x[j]
            looked += state_start[j + 1] - state_start[j]
            for t in range(state_start[j], state_start[j + 1]):
                old, new = log_tables[entry], log_tables[entry + step]
                entry += edge_stride[e]
                if old == -np.inf:
                    broken[t] -= 1
                else:
                    value[t] -= old
                if new == -np.inf:
                    broken[t] += 1
                else:
                    value[t] += new
    x[i] = s
    return looked


@jit
def _wake_around(work, i, queue, queued, ends):
    """Queue the variables that share a factor with i."""
    scope_start, scope, near_start, near, edge_factor = work[2], work[3], work[6], work[7], work[8]
    for n in range(near_start[i], near_start[i + 1]):
        a = edge_factor[near[n]]
        for e in range(scope_start[a], scope_start[a + 1]):
            _wake(scope[e], queue, queued, ends)


@jit
def _wake(i, queue, queued, ends):
    if not queued[i]:
        queued[i] = True
        queue[ends[1] % len(queue)] = i
        ends[1] += 1


@jit
def _change(work, value, broken, x, i, s, trail, total):
    """Move and remember; `total` holds the change of zeros hit and of the score, the work, and the moves."""
    here, there = work[5][i] + x[i], work[5][i] + s
    total[0] += broken[there] - broken[here]
    total[1] += value[there] - value[here]
    at = int(total[3])
    trail[at % len(trail), 0], trail[at % len(trail), 1] = i, x[i]
    total[3] += 1
    total[2] += _move(work, value, broken, x, i, s)


@jit
def _descend(work, value, broken, x, queue, queued, ends, trail, total, tol, most):
    """Move queued variables to their best states until none is left that gains, or after `most` moves."""
    state_start = work[5]
    while ends[0] < ends[1]:
        i = queue[ends[0] % len(queue)]
        ends[0] += 1
        queued[i] = False
        if total[3] >= most:
            continue
        here = state_start[i] + x[i]
        best = here
        for s in range(state_start[i], state_start[i + 1]):
            fewer = broken[s] < broken[best]
            if fewer or (broken[s] == broken[best] and value[s] > value[best] + tol):
                best = s
        if best != here:
            _change(work, value, broken, x, i, best - state_start[i], trail, total)
            _wake_around(work, i, queue, queued, ends)


@jit
def _disturb(work, value, broken, x, movable, count, queue, queued, ends, trail, total):
    """Random states for `count` variables on a random walk; their neighbours are queued before they are."""
    scope_start, scope, state_start, near_start, near, edge_factor = (
        work[2],
        work[3],
        work[5],
        work[6],
        work[7],
        work[8],
    )
    i = movable[np.random.randint(len(movable))]
    for _ in range(count):
        size = state_start[i + 1] - state_start[i]
        if size > 1:
            _change(work, value, broken, x, i, (x[i] + 1 + np.random.randint(size - 1)) % size, trail, total)
        if near_start[i + 1] == near_start[i]:
            break
        a = edge_factor[near[near_start[i] + np.random.randint(near_start[i + 1] - near_start[i])]]
        i = scope[scope_start[a] + np.random.randint(scope_start[a + 1] - scope_start[a])]
    last = int(total[3])
    for t in range(last):
        queued[trail[t, 0]] = True
    for t in range(last):
        _wake_around(work, trail[t, 0], queue, queued, ends)
    for t in range(last):
        queued[trail[t, 0]] = False
    for t in range(last):
        _wake(trail[t, 0], queue, queued, ends)


@jit
def search_rounds(
    log_tables,
    table_start,
    scope_start,
    scope,
    edge_stride,
    state_start,
    near_start,
    near,
    edge_factor,
    x,
    movable,
    rounds,
    effort,
    largest,
    tol,
    seed,
):
    """Descend from `x`, then disturb and descend `rounds` times, undoing what made things worse.

    Parameters
    ----------
    near_start, near, edge_factor
        Edges around each variable, and the factor of each edge.
    x
        (n,) states; changed in place, never for the worse.
    movable
        Variables with more than one state.
    effort
        Table entries looked at after which it ends.
    largest
        Variables that are disturbed at once, at most.
    tol
        Gains up to this are rounding.
    seed
        Of the random numbers of this call.

    Returns
    -------
    zeros, gain
        Change of the number of zero entries hit, and of the score.
    """
    np.random.seed(seed)
    work = (
        log_tables,
        table_start,
        scope_start,
        scope,
        edge_stride,
        state_start,
        near_start,
        near,
        edge_factor,
    )
    value, broken = local_scores(log_tables, table_start, scope_start, scope, edge_stride, state_start, x)
    n = len(x)
    queue, queued, ends = np.empty(n + 1, np.int64), np.zeros(n, np.bool_), np.zeros(2, np.int64)
    trail = np.empty((_LONGEST, 2), np.int64)
    total, gained = np.zeros(4), np.zeros(4)
    for i in np.random.permutation(n):
        _wake(i, queue, queued, ends)
    _descend(work, value, broken, x, queue, queued, ends, trail, total, tol, np.inf)
    gained += total
    spent = total[2]
    for _ in range(rounds if len(movable) else 0):
        if spent > effort:
            break
        total[:] = 0.0
        count = 1 + np.random.randint(largest)
        _disturb(work, value, broken, x, movable, count, queue, queued, ends, trail, total)
        _descend(work, value, broken, x, queue, queued, ends, trail, total, tol, _LONGEST)
        spent += 2 * total[2] + total[3]
        if total[0] > 0 or (total[0] == 0 and total[1] < 0.0):
            for t in range(int(total[3]) - 1, -1, -1):
                _move(work, value, broken, x, trail[t, 0], trail[t, 1])
        else:
            gained += total
    return int(gained[0]), gained[1]


@jit
def anneal(
    log_tables,
    table_start,
    scope_start,
    scope,
    edge_stride,
    state_start,
    near_start,
    near,
    edge_factor,
    x,
    movable,
    heats,
    penalty,
    seed,
):
    """Redraw one variable after another given the others, once per temperature.

    Parameters
    ----------
    near_start, near, edge_factor
        Edges around each variable, and the factor of each edge.
    x
        (n,) states; changed in place.
    movable
        Variables with more than one state.
    heats
        Temperatures, positive; usually falling.
    penalty
        What a zero entry counts, in place of -inf.
    seed
        Of the random numbers of this call.
    """
    np.random.seed(seed)
    work = (
        log_tables,
        table_start,
        scope_start,
        scope,
        edge_stride,
        state_start,
        near_start,
        near,
        edge_factor,
    )
    value, broken = local_scores(log_tables, table_start, scope_start, scope, edge_stride, state_start, x)
    for heat in heats:
        for _ in range(len(movable)):
            i = movable[np.random.randint(len(movable))]
            first, size = state_start[i], state_start[i + 1] - state_start[i]
            # The largest of the values with Gumbel noise is a draw from their softmax.
            best, chosen = -np.inf, x[i]
            for s in range(size):
                noise = -np.log(-np.log(np.random.random() + 1e-300) + 1e-300)
                drawn = value[first + s] - penalty * broken[first + s] + heat * noise
                if drawn > best:
                    best, chosen = drawn, s
            if chosen != x[i]:
                _move(work, value, broken, x, i, chosen)
