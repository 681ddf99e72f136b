"""Plain BP in positive numbers: several times faster than with logarithms.

For positive tables of moderate range: every message then lies within its table's range, and no
product of messages around a variable leaves the doubles (`survey` tells).

A table of n variables is treated as a matrix whose columns are the states of the last one: the
products of the other cavities, times the matrix, are the message to the last; the matrix times the
cavity of the last is a table of n - 1 variables. So all n messages cost little more than two passes
over the table, whatever n.
"""

from __future__ import annotations

import numpy as np

from .jit import jit

__all__ = [
    "constant_messages",
    "linear_sweeps",
    "survey",
]


_U = np.uint64  # unsigned positions spare the test for negative indices at each access


@jit
def _divide(belief, b, messages, g, size, work, c):
    """Cavity of one edge, belief over message, from position c of `work` on."""
    for k in range(size):
        work[c + k] = belief[b + k] / messages[g + k]


@jit
def _matrix(table, t, rows, cols, work, left, right, to_left, to_right):
    """Both products of the matrix that begins at t of `table`, with the vectors at `left` and `right`.

    Four columns at a time, whose sums stay in registers; sums in arrays, which the compiler cannot tell
    apart, would be written and read again for each row.
    """
    y = _U(0)
    while y + _U(4) <= cols:
        r = right + y
        r0, r1, r2, r3 = work[r], work[r + _U(1)], work[r + _U(2)], work[r + _U(3)]
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        at = t + y
        for x in range(rows):
            weight = work[left + x]
            v0, v1, v2, v3 = table[at], table[at + _U(1)], table[at + _U(2)], table[at + _U(3)]
            s0 += v0 * weight
            s1 += v1 * weight
            s2 += v2 * weight
            s3 += v3 * weight
            here = v0 * r0 + v1 * r1 + v2 * r2 + v3 * r3
            work[to_left + x] = here if y == 0 else work[to_left + x] + here
            at += cols
        r = to_right + y
        work[r], work[r + _U(1)], work[r + _U(2)], work[r + _U(3)] = s0, s1, s2, s3
        y += _U(4)
    if y + _U(2) <= cols:
        r0, r1 = work[right + y], work[right + y + _U(1)]
        s0, s1 = 0.0, 0.0
        at = t + y
        for x in range(rows):
            weight, v0, v1 = work[left + x], table[at], table[at + _U(1)]
            s0 += v0 * weight
            s1 += v1 * weight
            here = v0 * r0 + v1 * r1
            work[to_left + x] = here if y == 0 else work[to_left + x] + here
            at += cols
        work[to_right + y], work[to_right + y + _U(1)] = s0, s1
        y += _U(2)
    if y < cols:
        r0, s0 = work[right + y], 0.0
        at = t + y
        for x in range(rows):
            value = table[at]
            s0 += value * work[left + x]
            work[to_left + x] = value * r0 if y == 0 else work[to_left + x] + value * r0
            at += cols
        work[to_right + y] = s0


@jit
def _all_messages(psi, t, n, dims, work, width, out, spare):
    """All messages of a table of n >= 2 variables that begins at t of `psi`.

    In `work` the cavity of axis j begins at j * width, its message at out + j * width, and from
    `spare` on lie the products of the cavities of the first 2, 3, ... axes, then the smaller tables.
    """
    one, last = _U(1), _U(n - 1)
    left, rows, here = _U(0), _U(dims[0]), spare
    for j in range(one, last):
        cols = _U(dims[j])
        for x in range(rows):
            weight = work[left + x]
            for y in range(cols):
                work[here + x * cols + y] = weight * work[j * width + y]
        left = here
        rows *= cols
        here += rows
    to_left = here if last > one else out
    _matrix(psi, t, rows, _U(dims[last]), work, left, last * width, to_left, out + last * width)
    for j in range(last - one, _U(0), -1):
        cols = _U(dims[j])
        here = to_left
        to_left = here + rows if j > one else out
        rows //= cols
        left = left - rows if j > one else _U(0)
        _matrix(work, here, rows, cols, work, left, j * width, to_left, out + j * width)


@jit
def _store(work, new, c, size, messages, g, belief, b, asynchronous):
    """Normalise the message at `new` to mean one and put it in place; returns its change in probability.

    The belief takes it at once (with the cavity at c), or is one that gathers all new messages.
    """
    total = 0.0
    for k in range(size):
        total += work[new + k]
    total = float(size) / total
    change = 0.0
    for k in range(size):
        value = work[new + k] * total
        change = max(change, abs(value - messages[g + k]))
        messages[g + k] = value
        belief[b + k] = value * (work[c + k] if asynchronous else belief[b + k])
    return change / float(size)


@jit
def _fresh_beliefs(factors, scope_start, scope, state_start, edge_state_start, constant, messages, belief, b):
    """Products of all messages at each variable, from position b of `belief` on."""
    belief[b : b + len(constant)] = constant
    for q in range(len(factors)):
        a = factors[q]
        for e in range(scope_start[a], scope_start[a + 1]):
            s, g = _U(b + state_start[scope[e]]), _U(edge_state_start[e])
            for k in range(_U(edge_state_start[e + 1]) - g):
                belief[s + k] *= messages[g + k]


@jit
def linear_sweeps(
    order, asynchronous, scope_start, scope, sizes, state_start, edge_state_start, psi, table_start, constant,
    messages, sweeps, tol,
):  # fmt: skip
    """Plain BP in positive numbers over the listed factors (rows of `order`, in turn); in place.

    `constant` holds the product of the constant messages per state; messages have mean one, so that
    products stay near one. Returns the largest change of each sweep done.
    """
    widest, arity, largest = 1, 2, 1
    for q in range(len(order[0])):
        a = order[0, q]
        arity = max(arity, scope_start[a + 1] - scope_start[a])
        size = 1
        for e in range(scope_start[a], scope_start[a + 1]):
            widest = max(widest, sizes[scope[e]])
            size *= sizes[scope[e]]
        largest = max(largest, size)
    # Flooding reads one half while the beliefs of the next sweep gather in the other. Positions in one
    # array and not two arrays that change places: that would count references at each factor.
    states = len(constant)
    belief = np.empty(states if asynchronous else 2 * states)
    now, ahead = 0, 0 if asynchronous else states
    work = np.empty(2 * arity * (widest + largest))
    dims = np.zeros(arity, np.int64)
    width, out, spare = _U(widest), _U(arity * widest), _U(2 * arity * widest)
    changes = np.zeros(sweeps)
    for turn in range(sweeps):
        row = turn % len(order)
        if turn % 8 == 0:  # running products pile up rounding
            _fresh_beliefs(
                order[row], scope_start, scope, state_start, edge_state_start, constant, messages, belief, now
            )
        if not asynchronous:
            belief[ahead : ahead + states] = constant
        change = 0.0
        for q in range(order.shape[1]):
            a = order[row, q]
            first = scope_start[a]
            n = scope_start[a + 1] - first
            for j in range(n):
                i = scope[first + j]
                dims[j] = sizes[i]
                _divide(
                    belief, _U(now + state_start[i]), messages, _U(edge_state_start[first + j]), _U(dims[j]),
                    work, _U(j) * width,
                )  # fmt: skip
            _all_messages(psi, _U(table_start[a]), n, dims, work, width, out, spare)
            for j in range(n):
                moved = _store(
                    work, out + _U(j) * width, _U(j) * width, _U(dims[j]), messages,
                    _U(edge_state_start[first + j]), belief, _U(ahead + state_start[scope[first + j]]),
                    asynchronous,
                )  # fmt: skip
                change = max(change, moved)
        if not asynchronous:
            now, ahead = ahead, now
        changes[turn] = change
        if change < tol:
            return changes[: turn + 1]
    return changes


@jit
def survey(scope_start, scope, sizes, tables, table_start):
    """What decides the form of a problem.

    Returns the number of variables with several states in each factor, and the largest sum, over the
    factors around a variable, of their log ranges (inf if a table has a zero).
    """
    m = len(scope_start) - 1
    free = np.zeros(m, np.int64)
    around = np.zeros(len(sizes))
    largest = 0.0
    for a in range(m):
        size = 1
        for e in range(scope_start[a], scope_start[a + 1]):
            size *= sizes[scope[e]]
            if sizes[scope[e]] > 1:
                free[a] += 1
        low, high = np.inf, -np.inf
        for k in range(table_start[a], table_start[a] + size):
            low, high = min(low, tables[k]), max(high, tables[k])
        spread = np.inf if low == -np.inf else high - low
        if scope_start[a] == scope_start[a + 1]:
            largest = max(largest, spread)  # a constant of zero, which no variable would show
        for e in range(scope_start[a], scope_start[a + 1]):
            around[scope[e]] += spread
    for i in range(len(sizes)):
        largest = max(largest, around[i])
    return free, largest


@jit
def constant_messages(free, scope_start, scope, sizes, state_start, tables, table_start):
    """Sum, per flat state, of the log tables of the factors with a single variable of several states."""
    constant = np.zeros(state_start[-1])
    for a in range(len(scope_start) - 1):
        if free[a] != 1:
            continue
        for e in range(scope_start[a], scope_start[a + 1]):
            i = scope[e]
            if sizes[i] > 1:
                for k in range(sizes[i]):
                    constant[state_start[i] + k] += tables[table_start[a] + k]
    return constant
