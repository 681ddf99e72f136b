"""From shifts to states: choose one variable after another, then improve one at a time.

A variable takes the state with the largest sum of its own term and what each of its factors can still
reach, given the states chosen before and the shifts of the variables still open.
"""

from __future__ import annotations

import numpy as np

from .jit import inlined, jit

__all__ = ["climb", "decode", "score"]

_RISE = 1e-12  # smallest relative gain that counts: equal scores must not be swapped for ever


@inlined
def _entry(t, a, edge, states):
    """The entry of factor a at the given states, with the axis of `edge` at zero."""
    at = t.table_start[a]
    for e in range(t.scope_start[a], t.scope_start[a + 1]):
        if e != edge:
            at += t.edge_stride[e] * states[t.scope[e]]
    return at


@inlined
def _add_reach(t, edge, shifts, states, total, found):
    """Add to `total` what one factor can reach for every state of the edge's variable."""
    a, size = t.edge_factor[edge], t.sizes[t.scope[edge]]
    first, last = t.scope_start[a], t.scope_start[a + 1]
    is_open = 0
    for e in range(first, last):
        is_open += e != edge and states[t.scope[e]] < 0
    if is_open == 0:
        at = _entry(t, a, edge, states)
        for x in range(size):
            total[x] += t.tables[at + x * t.edge_stride[edge]]
        return
    for x in range(size):
        found[x] = -np.inf
    for entry in range(t.table_size[a]):
        value, fits = t.tables[t.table_start[a] + entry], True
        for e in range(first, last):
            if e != edge:
                y = (entry // t.edge_stride[e]) % t.sizes[t.scope[e]]
                chosen = states[t.scope[e]]
                if chosen < 0:
                    value -= shifts[t.edge_state_start[e] + y]
                elif chosen != y:
                    fits = False
                    break
        if fits:
            x = (entry // t.edge_stride[edge]) % size
            found[x] = max(found[x], value)
    for x in range(size):
        total[x] += found[x]


@jit
def decode(t, node, shifts, order, backwards):
    """States chosen along the order, or against it; the lowest index among equals."""
    n = len(order)
    states = np.full(n, -1, np.int64)
    widest = 1
    for i in range(n):
        widest = max(widest, t.sizes[i])
    total, found = np.empty(widest), np.empty(widest)
    for p in range(n):
        i = order[n - 1 - p] if backwards else order[p]
        for x in range(t.sizes[i]):
            total[x] = node[t.state_start[i] + x]
        for g in range(t.neighbour_start[i], t.neighbour_start[i + 1]):
            _add_reach(t, t.neighbour_edge[g], shifts, states, total, found)
        states[i] = total[: t.sizes[i]].argmax()
    return states


@jit
def climb(t, node, states, sweeps):
    """Change one variable at a time as long as the score rises; `states` is changed in place."""
    widest = 1
    for i in range(len(t.sizes)):
        widest = max(widest, t.sizes[i])
    total = np.empty(widest)
    for _ in range(sweeps):
        moved = False
        for i in range(len(t.sizes)):
            size = t.sizes[i]
            if size == 1:
                continue
            for x in range(size):
                total[x] = node[t.state_start[i] + x]
            for g in range(t.neighbour_start[i], t.neighbour_start[i + 1]):
                e = t.neighbour_edge[g]
                at = _entry(t, t.edge_factor[e], e, states)
                for x in range(size):
                    total[x] += t.tables[at + x * t.edge_stride[e]]
            best = total[:size].argmax()
            now = total[states[i]]
            if total[best] > now + _RISE * max(1.0, abs(now)) or (now == -np.inf and total[best] > now):
                states[i] = best
                moved = True
        if not moved:
            break


@jit
def score(t, node, states):
    """Sum of all terms at the given states."""
    value = 0.0
    for i in range(len(t.sizes)):
        value += node[t.state_start[i] + states[i]]
    for a in range(len(t.table_start)):
        value += t.tables[_entry(t, a, -1, states)]
    return value
