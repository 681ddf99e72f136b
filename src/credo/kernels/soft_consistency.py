"""Soft local consistency: moving costs between factors and variables until a lower bound appears.

Costs are to be minimised: entries of `tables`, +inf where forbidden. The working form is

    cost(x) = c0 + sum_i unary_i(x_i) + sum_a [ table_a(x_a) - sum_{i in a} shift_{a,i}(x_i) ],

equal to the original cost for every assignment of the states that are left, with all brackets and all
unary costs non-negative, so c0 is a lower bound. Three moves keep it so:

    project  min over the rest of a factor goes to one of its variables   (infinite: the state goes)
    extend   unary costs go into a factor
    settle   the least unary cost of a variable goes to c0; states that would reach the upper bound go

Every change is written on a trail and taken back by `undo`. Shifts stay finite.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .jit import inner, jit

__all__ = [
    "C0",
    "CHECKS",
    "CHECK_HEAD",
    "CULPRIT",
    "GAIN",
    "GONE",
    "HEAD",
    "OPERATIONS",
    "SLACK",
    "STAMP",
    "TRAIL",
    "UPPER",
    "WAITING",
    "Network",
    "NetworkWork",
    "cost_at",
    "empty_rings",
    "extend",
    "fresh_work",
    "project",
    "push",
    "push_check",
    "queue_all",
    "remove",
    "set_shift",
    "set_unary",
    "settle",
    "undo",
]

# Positions in Work.number
C0, UPPER, SLACK, GAIN = 0, 1, 2, 3
# Positions in Work.tally
TRAIL, GONE, STAMP, HEAD, WAITING, CHECK_HEAD, CHECKS, OPERATIONS, CULPRIT = 0, 1, 2, 3, 4, 5, 6, 7, 8


class Network(NamedTuple):
    """Variables with two states or more, and factors over two of them or more; an edge joins one of each."""

    state_start: np.ndarray  # (n + 1,) first flat state of each variable
    scope_start: np.ndarray  # (m + 1,) first edge of each factor
    scope: np.ndarray  # (edges,) variable of each edge
    stride: np.ndarray  # (edges,) step of that variable's axis in the factor's table
    factor: np.ndarray  # (edges,) factor of each edge
    edge_start: np.ndarray  # (edges + 1,) first entry of each edge among the shifts
    around_start: np.ndarray  # (n + 1,) slices of `around` per variable
    around: np.ndarray  # (edges,) edges around each variable
    table_start: np.ndarray  # (m,) first entry of each table
    tables: np.ndarray  # all costs


class NetworkWork(NamedTuple):
    """What a search changes."""

    unary: np.ndarray  # (states,) cost of each state
    shift: np.ndarray  # (edge states,) cost moved out of the factor to the variable
    domain: np.ndarray  # (states,) states of each variable, those left first
    place: np.ndarray  # (states,) where each state stands in `domain`
    size: np.ndarray  # (n,) states left
    support: np.ndarray  # (n,) a state that costs nothing together with its neighbours, as last found
    best: np.ndarray  # (n,) the best assignment known, -1 if none
    weight: np.ndarray  # (m,) how often a factor led to a dead end, plus one
    degree: np.ndarray  # (n,) sum of the weights around a variable
    trail_place: np.ndarray  # what was overwritten: a unary cost, or (after those) a shift
    trail_value: np.ndarray  # and its value
    stamp: np.ndarray  # (states + edge states,) when an entry was last written on the trail
    gone: np.ndarray  # (states,) variables in the order in which they lost states
    queue: np.ndarray  # (n,) ring of variables that changed
    queued: np.ndarray  # (n,) which are in it
    checks: np.ndarray  # (n,) ring of variables whose neighbours changed
    checked: np.ndarray  # (n,) which are in it
    digit: np.ndarray  # (largest arity,) odometer
    number: np.ndarray  # c0, upper bound, slack of comparisons with it, least gain worth a move
    tally: np.ndarray  # lengths of trail, removals and rings, the stamp, operations, last factor


def fresh_work(net: Network, *, trail: int) -> NetworkWork:
    """All states left, nothing moved."""
    n, m, states = len(net.state_start) - 1, len(net.table_start), int(net.state_start[-1])
    size = np.diff(net.state_start)
    domain = np.arange(states) - np.repeat(net.state_start[:-1], size)
    moved = states + int(net.edge_start[-1])
    degree = np.diff(net.around_start).astype(np.float64)
    whole = np.int64
    return NetworkWork(
        np.zeros(states),
        np.zeros(moved - states),
        domain,
        domain.copy(),
        size.copy(),
        np.zeros(n, whole),
        np.full(n, -1, whole),
        np.ones(m),
        degree,
        np.zeros(trail, whole),
        np.zeros(trail),
        np.full(moved, -1, whole),
        np.zeros(states, whole),
        np.zeros(n, whole),
        np.zeros(n, np.bool_),
        np.zeros(n, whole),
        np.zeros(n, np.bool_),
        np.zeros(int(np.diff(net.scope_start).max(initial=1)), whole),
        np.array([0.0, np.inf, 0.0, 0.0]),
        np.zeros(9, whole),
    )


@inner
def _save(work, place, value):
    """Write an old value on the trail, once per level; below the first level nothing is taken back."""
    stamp = work.tally[STAMP]
    if stamp > 0 and work.stamp[place] != stamp:
        work.stamp[place] = stamp
        top = work.tally[TRAIL]
        work.trail_place[top] = place
        work.trail_value[top] = value
        work.tally[TRAIL] = top + 1


@inner
def set_unary(work, place, value):
    """Change a unary cost; the trail remembers."""
    _save(work, place, work.unary[place])
    work.unary[place] = value


@inner
def set_shift(work, place, value):
    """Change a shift; the trail remembers."""
    _save(work, work.unary.shape[0] + place, work.shift[place])
    work.shift[place] = value


@inner
def undo(net, work, trail, gone, c0):
    """Back to where the trail had this length, this many states were gone and c0 had this value."""
    states = work.unary.shape[0]
    for t in range(work.tally[TRAIL] - 1, trail - 1, -1):
        place = work.trail_place[t]
        if place < states:
            work.unary[place] = work.trail_value[t]
        else:
            work.shift[place - states] = work.trail_value[t]
    for t in range(work.tally[GONE] - 1, gone - 1, -1):
        work.size[work.gone[t]] += 1
    work.tally[TRAIL] = trail
    work.tally[GONE] = gone
    work.number[C0] = c0
    empty_rings(work)


@inner
def empty_rings(work):
    """Forget what waits for a propagation."""
    for ring, flag, head, length in (
        (work.queue, work.queued, HEAD, WAITING),
        (work.checks, work.checked, CHECK_HEAD, CHECKS),
    ):
        n = ring.shape[0]
        for t in range(work.tally[length]):
            flag[ring[(work.tally[head] + t) % n]] = False
        work.tally[length] = 0


@inner
def push(work, i):
    """Variable i changed: its neighbours may gain."""
    if not work.queued[i]:
        n = work.queue.shape[0]
        work.queued[i] = True
        work.queue[(work.tally[HEAD] + work.tally[WAITING]) % n] = i
        work.tally[WAITING] += 1


@inner
def push_check(work, i):
    """The support of variable i may be lost."""
    if not work.checked[i]:
        n = work.checks.shape[0]
        work.checked[i] = True
        work.checks[(work.tally[CHECK_HEAD] + work.tally[CHECKS]) % n] = i
        work.tally[CHECKS] += 1


@inner
def queue_all(net, work):
    """Mark every variable as changed."""
    for i in range(work.size.shape[0]):
        push(work, i)
        push_check(work, i)


@jit
def remove(net, work, i, k):
    """Take state k from variable i; it must be there."""
    start = net.state_start[i]
    last = work.size[i] - 1
    p = work.place[start + k]
    other = work.domain[start + last]
    work.domain[start + p] = other
    work.place[start + other] = p
    work.domain[start + last] = k
    work.place[start + k] = last
    work.size[i] = last
    work.gone[work.tally[GONE]] = i
    work.tally[GONE] += 1
    push(work, i)


@inner
def cost_at(net, work, e, k, with_unary):
    """Least cost of the factor of edge e with its variable in state k; optionally plus the others' unary."""
    a = net.factor[e]
    first, end = net.scope_start[a], net.scope_start[a + 1]
    base = net.table_start[a] + k * net.stride[e]
    best = np.inf
    if end - first == 2:
        f = first + end - 1 - e
        j = net.scope[f]
        start, step, moved = net.state_start[j], net.stride[f], net.edge_start[f]
        for p in range(start, start + work.size[j]):
            s = work.domain[p]
            c = net.tables[base + s * step] - work.shift[moved + s]
            if with_unary:
                c += work.unary[start + s]
            best = min(best, c)
        work.tally[OPERATIONS] += work.size[j]
    elif end - first == 3:
        f = first + (1 if e == first else 0)
        g = end - 1 - (1 if e == end - 1 else 0)
        j, h = net.scope[f], net.scope[g]
        start, begin = net.state_start[j], net.state_start[h]
        for p in range(start, start + work.size[j]):
            s = work.domain[p]
            off = -work.shift[net.edge_start[f] + s]
            if with_unary:
                off += work.unary[start + s]
            row = base + s * net.stride[f]
            for q in range(begin, begin + work.size[h]):
                t = work.domain[q]
                c = net.tables[row + t * net.stride[g]] - work.shift[net.edge_start[g] + t] + off
                if with_unary:
                    c += work.unary[begin + t]
                best = min(best, c)
        work.tally[OPERATIONS] += work.size[j] * work.size[h]
    else:
        best = _cost_at_any(net, work, e, base, with_unary)
    return best - work.shift[net.edge_start[e] + k]


@jit
def _cost_at_any(net, work, e, base, with_unary):
    """The same for any arity, by an odometer over the states left of the other variables."""
    a = net.factor[e]
    first, end = net.scope_start[a], net.scope_start[a + 1]
    for f in range(first, end):
        work.digit[f - first] = 0
    best = np.inf
    while True:
        at, c = base, 0.0
        for f in range(first, end):
            if f != e:
                start = net.state_start[net.scope[f]]
                s = work.domain[start + work.digit[f - first]]
                at += s * net.stride[f]
                c -= work.shift[net.edge_start[f] + s]
                if with_unary:
                    c += work.unary[start + s]
        c += net.tables[at]
        best = min(best, c)
        work.tally[OPERATIONS] += end - first
        f = end - 1
        while f >= first:
            if f != e:
                work.digit[f - first] += 1
                if work.digit[f - first] < work.size[net.scope[f]]:
                    break
                work.digit[f - first] = 0
            f -= 1
        if f < first:
            return best


@inner
def _least_pair(net, work, e, f, k):
    """`cost_at` without unary costs for a factor over two variables, the other one at edge f."""
    j = net.scope[f]
    start, step, moved = net.state_start[j], net.stride[f], net.edge_start[f]
    base = net.table_start[net.factor[e]] + k * net.stride[e]
    best = np.inf
    for q in range(start, start + work.size[j]):
        s = work.domain[q]
        c = net.tables[base + s * step] - work.shift[moved + s]
        best = min(best, c)
    return best


@inner
def project(net, work, e, least):
    """Move the least costs of a factor to the variable of edge e; returns the largest rise above `least`."""
    i, a = net.scope[e], net.factor[e]
    start, moved = net.state_start[i], net.edge_start[e]
    first, end = net.scope_start[a], net.scope_start[a + 1]
    other = first + end - 1 - e
    rise = 0.0
    for p in range(work.size[i] - 1, -1, -1):
        k = work.domain[start + p]
        if end - first == 2:
            c = _least_pair(net, work, e, other, k) - work.shift[moved + k]
        else:
            c = cost_at(net, work, e, k, False)
        if c == np.inf:
            remove(net, work, i, k)
            rise = np.inf
        elif c > least or c < -least:
            set_shift(work, moved + k, work.shift[moved + k] + c)
            set_unary(work, start + k, work.unary[start + k] + c)
            rise = max(rise, c)
    if end - first == 2:
        work.tally[OPERATIONS] += work.size[i] * work.size[net.scope[other]] + 8
    return rise


@inner
def settle(net, work, i):
    """Least unary cost to c0, hopeless states out; True if the upper bound is reached or no state is left."""
    start = net.state_start[i]
    least = np.inf
    for p in range(start, start + work.size[i]):
        u = work.unary[start + work.domain[p]]
        least = min(least, u)
    if least == np.inf:
        return True
    if least != 0.0:
        for p in range(start, start + work.size[i]):
            k = start + work.domain[p]
            set_unary(work, k, work.unary[k] - least)
        work.number[C0] += least
    room = work.number[UPPER] - work.number[SLACK] - work.number[C0]
    if room <= 0:
        return True
    for p in range(work.size[i] - 1, -1, -1):
        k = work.domain[start + p]
        if work.unary[start + k] >= room:
            remove(net, work, i, k)
    return work.size[i] == 0


@inner
def extend(net, work, e):
    """Move all unary costs of the variable of edge e into the factor; says whether there were any."""
    start, moved = net.state_start[net.scope[e]], net.edge_start[e]
    some = False
    for p in range(start, start + work.size[net.scope[e]]):
        k = work.domain[p]
        u = work.unary[start + k]
        if u != 0.0:
            set_shift(work, moved + k, work.shift[moved + k] - u)
            set_unary(work, start + k, 0.0)
            some = True
    return some
