"""Iterated local search and annealing over joint states.

A search keeps, for every state of every variable, what the factors around the variable would give if
it moved there: the sum of their finite log entries, and how many of them would be zero. A move
changes these numbers only around the factors it touches. States are compared by the zeros they hit
first and by their score second, so the search also repairs infeasible starts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .jit import jit
from .random_numbers import below, shuffle, uniform

__all__ = ["Landscape", "anneal", "local_scores", "search_rounds"]

_LONGEST = 4096  # moves after a disturbance that can be taken back


class Landscape(NamedTuple):
    """What a search moves over: log tables and index arrays of all factors, named as in `Wiring`."""

    tables: np.ndarray
    table_start: np.ndarray
    scope_start: np.ndarray
    scope: np.ndarray
    edge_stride: np.ndarray
    state_start: np.ndarray
    neighbour_start: np.ndarray
    neighbour_edge: np.ndarray
    edge_factor: np.ndarray


@jit
def local_scores(t, x):
    """Per flat state: finite log entries and zeros of the factors around it, the others as in `x`."""
    value, broken = np.zeros(t.state_start[-1]), np.zeros(t.state_start[-1], np.int64)
    for a in range(len(t.table_start)):
        at = t.table_start[a]
        for e in range(t.scope_start[a], t.scope_start[a + 1]):
            at += t.edge_stride[e] * x[t.scope[e]]
        for e in range(t.scope_start[a], t.scope_start[a + 1]):
            i = t.scope[e]
            first = at - t.edge_stride[e] * x[i]
            for s in range(t.state_start[i], t.state_start[i + 1]):
                entry = t.tables[first + (s - t.state_start[i]) * t.edge_stride[e]]
                if entry == -np.inf:
                    broken[s] += 1
                else:
                    value[s] += entry
    return value, broken


@jit
def _move(t, value, broken, x, i, s):
    """Set variable i to state s and update the numbers around it; returns how many were looked at."""
    looked = 0
    for n in range(t.neighbour_start[i], t.neighbour_start[i + 1]):
        edge = t.neighbour_edge[n]
        a = t.edge_factor[edge]
        at = t.table_start[a]
        for e in range(t.scope_start[a], t.scope_start[a + 1]):
            at += t.edge_stride[e] * x[t.scope[e]]
        step = (s - x[i]) * t.edge_stride[edge]
        for e in range(t.scope_start[a], t.scope_start[a + 1]):
            j = t.scope[e]
            if j == i:
                continue
            entry = at - t.edge_stride[e] * x[j]
            looked += t.state_start[j + 1] - t.state_start[j]
            for there in range(t.state_start[j], t.state_start[j + 1]):
                old, new = t.tables[entry], t.tables[entry + step]
                entry += t.edge_stride[e]
                if old == -np.inf:
                    broken[there] -= 1
                else:
                    value[there] -= old
                if new == -np.inf:
                    broken[there] += 1
                else:
                    value[there] += new
    x[i] = s
    return looked


@jit
def _wake_around(t, i, queue, queued, ends):
    """Queue the variables that share a factor with i."""
    for n in range(t.neighbour_start[i], t.neighbour_start[i + 1]):
        a = t.edge_factor[t.neighbour_edge[n]]
        for e in range(t.scope_start[a], t.scope_start[a + 1]):
            _wake(t.scope[e], queue, queued, ends)


@jit
def _wake(i, queue, queued, ends):
    if not queued[i]:
        queued[i] = True
        queue[ends[1] % len(queue)] = i
        ends[1] += 1


@jit
def _change(t, value, broken, x, i, s, trail, total):
    """Move and remember; `total` holds the change of zeros hit and of the score, the work, and the moves."""
    here, there = t.state_start[i] + x[i], t.state_start[i] + s
    total[0] += broken[there] - broken[here]
    total[1] += value[there] - value[here]
    at = int(total[3])
    trail[at % len(trail), 0], trail[at % len(trail), 1] = i, x[i]
    total[3] += 1
    total[2] += _move(t, value, broken, x, i, s)


@jit
def _descend(t, value, broken, x, queue, queued, ends, trail, total, tol, most):
    """Move queued variables to their best states until none is left that gains, or after `most` moves."""
    while ends[0] < ends[1]:
        i = queue[ends[0] % len(queue)]
        ends[0] += 1
        queued[i] = False
        if total[3] >= most:
            continue
        here = t.state_start[i] + x[i]
        best = here
        for s in range(t.state_start[i], t.state_start[i + 1]):
            fewer = broken[s] < broken[best]
            if fewer or (broken[s] == broken[best] and value[s] > value[best] + tol):
                best = s
        if best != here:
            _change(t, value, broken, x, i, best - t.state_start[i], trail, total)
            _wake_around(t, i, queue, queued, ends)


@jit
def _disturb(t, value, broken, x, movable, count, queue, queued, ends, trail, total, state):
    """Random states for `count` variables on a random walk; their neighbours are queued before they are."""
    i = movable[below(state, len(movable))]
    for _ in range(count):
        size = t.state_start[i + 1] - t.state_start[i]
        if size > 1:
            _change(t, value, broken, x, i, (x[i] + 1 + below(state, size - 1)) % size, trail, total)
        first, degree = t.neighbour_start[i], t.neighbour_start[i + 1] - t.neighbour_start[i]
        if degree == 0:
            break
        a = t.edge_factor[t.neighbour_edge[first + below(state, degree)]]
        i = t.scope[t.scope_start[a] + below(state, t.scope_start[a + 1] - t.scope_start[a])]
    last = int(total[3])
    for at in range(last):
        queued[trail[at, 0]] = True
    for at in range(last):
        _wake_around(t, trail[at, 0], queue, queued, ends)
    for at in range(last):
        queued[trail[at, 0]] = False
    for at in range(last):
        _wake(trail[at, 0], queue, queued, ends)


@jit
def search_rounds(t, x, movable, rounds, effort, largest, tol, state):
    """Descend from `x`, then disturb and descend `rounds` times, undoing what made things worse.

    Parameters
    ----------
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
    state
        Of the random numbers, see `random_numbers`.

    Returns
    -------
    zeros, gain
        Change of the number of zero entries hit, and of the score.
    """
    value, broken = local_scores(t, x)
    n = len(x)
    queue, queued, ends = np.empty(n + 1, np.int64), np.zeros(n, np.bool_), np.zeros(2, np.int64)
    trail = np.empty((_LONGEST, 2), np.int64)
    total, gained = np.zeros(4), np.zeros(4)
    for i in shuffle(state, n):
        _wake(i, queue, queued, ends)
    _descend(t, value, broken, x, queue, queued, ends, trail, total, tol, np.inf)
    for k in range(4):
        gained[k] += total[k]
    spent = total[2]
    for _ in range(rounds if len(movable) else 0):
        if spent > effort:
            break
        total[:] = 0.0
        count = 1 + below(state, largest)
        _disturb(t, value, broken, x, movable, count, queue, queued, ends, trail, total, state)
        _descend(t, value, broken, x, queue, queued, ends, trail, total, tol, float(_LONGEST))
        spent += 2 * total[2] + total[3]
        if total[0] > 0 or (total[0] == 0 and total[1] < 0.0):
            for at in range(int(total[3]) - 1, -1, -1):
                _move(t, value, broken, x, trail[at, 0], trail[at, 1])
        else:
            for k in range(4):
                gained[k] += total[k]
    return int(gained[0]), gained[1]


@jit
def anneal(t, x, movable, heats, penalty, state):
    """Redraw one variable after another given the others, once per temperature.

    Parameters
    ----------
    x
        (n,) states; changed in place.
    movable
        Variables with more than one state.
    heats
        Temperatures, positive; usually falling.
    penalty
        What a zero entry counts, in place of -inf.
    state
        Of the random numbers, see `random_numbers`.
    """
    value, broken = local_scores(t, x)
    for heat in heats:
        for _ in range(len(movable)):
            i = movable[below(state, len(movable))]
            first, size = t.state_start[i], t.state_start[i + 1] - t.state_start[i]
            # The largest of the values with Gumbel noise is a draw from their softmax.
            best, chosen = -np.inf, x[i]
            for s in range(size):
                noise = -np.log(-np.log(uniform(state) + 1e-300) + 1e-300)
                drawn = value[first + s] - penalty * broken[first + s] + heat * noise
                if drawn > best:
                    best, chosen = drawn, s
            if chosen != x[i]:
                _move(t, value, broken, x, i, chosen)
