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

from .arrays import copy
from .jit import inlined, jit

__all__ = [
    "all_messages",
    "constant_messages",
    "divide",
    "extent",
    "gather",
    "linear_beliefs",
    "linear_sweeps",
    "matrix",
    "reset",
    "store",
    "survey",
]


_U = np.uint64  # unsigned positions spare the test for negative indices at each access


@inlined
def divide(belief, b, messages, g, size, work, c):
    """Cavity of one edge, belief over message, from position c of `work` on."""
    if size == 2:
        work[c], work[c + _U(1)] = belief[b] / messages[g], belief[b + _U(1)] / messages[g + _U(1)]
        return
    for k in range(size):
        work[c + k] = belief[b + k] / messages[g + k]


@inlined
def matrix(table, t, rows, cols, work, left, right, to_left, to_right):
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


@inlined
def _binary_triple(psi, t, work, width, out):
    """The three messages of a table of three binary variables, without a loop."""
    x0, x1 = work[0], work[1]
    y0, y1 = work[width], work[width + _U(1)]
    z0, z1 = work[width + width], work[width + width + _U(1)]
    p000, p001, p010, p011 = psi[t], psi[t + _U(1)], psi[t + _U(2)], psi[t + _U(3)]
    p100, p101, p110, p111 = psi[t + _U(4)], psi[t + _U(5)], psi[t + _U(6)], psi[t + _U(7)]
    h00, h01 = p000 * z0 + p001 * z1, p010 * z0 + p011 * z1
    h10, h11 = p100 * z0 + p101 * z1, p110 * z0 + p111 * z1
    w00, w01, w10, w11 = x0 * y0, x0 * y1, x1 * y0, x1 * y1
    work[out], work[out + _U(1)] = h00 * y0 + h01 * y1, h10 * y0 + h11 * y1
    out += width
    work[out], work[out + _U(1)] = h00 * x0 + h10 * x1, h01 * x0 + h11 * x1
    out += width
    work[out] = p000 * w00 + p010 * w01 + p100 * w10 + p110 * w11
    work[out + _U(1)] = p001 * w00 + p011 * w01 + p101 * w10 + p111 * w11


@inlined
def all_messages(psi, t, n, dims, work, width, out, spare):
    """All messages of a table of n >= 2 variables that begins at t of `psi`.

    In `work` the cavity of axis j begins at j * width, its message at out + j * width, and from
    `spare` on lie the products of the cavities of the first 2, 3, ... axes, then the smaller tables.
    """
    if n == 3 and dims[0] == 2 and dims[1] == 2 and dims[2] == 2:
        _binary_triple(psi, t, work, width, out)
        return
    # Forwards: products of the cavities of the first axes, each kept for the way back.
    one, last = _U(1), n - _U(1)
    left, rows, here = _U(0), dims[0], spare
    for j in range(one, last):
        cols = dims[j]
        for x in range(rows):
            weight = work[left + x]
            for y in range(cols):
                work[here + x * cols + y] = weight * work[j * width + y]
        left = here
        rows *= cols
        here += rows
    to_left = here if last > one else out
    matrix(psi, t, rows, dims[last], work, left, last * width, to_left, out + last * width)
    # Backwards: what is left of the table after an axis was summed out is the table of the axes before it.
    j = last
    while j > one:
        j -= one
        cols = dims[j]
        here = to_left
        to_left = here + rows if j > one else out
        rows //= cols
        left = left - rows if j > one else _U(0)
        matrix(work, here, rows, cols, work, left, j * width, to_left, out + j * width)


@inlined
def store(work, new, c, size, messages, g, belief, b, asynchronous):
    """Normalise the message at `new` to mean one and put it in place; returns its change in probability.

    The belief takes it at once (with the cavity at c), or is one that gathers all new messages.
    """
    if size == 2:
        up, down = work[new], work[new + _U(1)]
        total = 2.0 / (up + down)
        up, down = up * total, down * total
        change = abs(up - messages[g])  # that of the other state is the same
        messages[g], messages[g + _U(1)] = up, down
        if asynchronous:
            belief[b], belief[b + _U(1)] = up * work[c], down * work[c + _U(1)]
        else:
            belief[b], belief[b + _U(1)] = up * belief[b], down * belief[b + _U(1)]
        return change / 2.0
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


@inlined
def reset(belief, half, state_start, constant):
    """Set one half of the beliefs to the constant messages; the halves of a variable lie side by side."""
    for i in range(len(state_start) - 1):
        s, size = state_start[i], state_start[i + 1] - state_start[i]
        for k in range(size):
            belief[2 * s + half * size + k] = constant[s + k]


@inlined
def gather(belief, half, place, edge_state_start, messages):
    """Multiply all messages into one half of the beliefs; `place` is past their end for idle edges."""
    for e in range(len(place)):
        if place[e] < _U(len(belief)):
            g = _U(edge_state_start[e])
            size = _U(edge_state_start[e + 1]) - g
            b = place[e] + _U(half) * size
            for k in range(size):
                belief[b + k] *= messages[g + k]


@jit
def extent(factors, scope_start, scope, sizes):
    """The largest state count, arity and table among these factors."""
    widest, arity, largest = 1, 2, 1
    for q in range(len(factors)):
        a = factors[q]
        arity = max(arity, scope_start[a + 1] - scope_start[a])
        size = 1
        for e in range(scope_start[a], scope_start[a + 1]):
            widest = max(widest, sizes[scope[e]])
            size *= sizes[scope[e]]
        largest = max(largest, size)
    return widest, arity, largest


@jit
def linear_sweeps(
    order, asynchronous, scope_start, scope, sizes, state_start, edge_state_start, psi, table_start, constant,
    messages, sweeps, tol,
):  # fmt: skip
    """Plain BP in positive numbers over the listed factors (rows of `order`, in turn); in place.

    `constant` holds the product of the constant messages per state; messages have mean one, so that
    products stay near one. Returns the largest change of each sweep done.
    """
    widest, arity, largest = extent(order[0], scope_start, scope, sizes)
    place = np.full(len(scope), _U(2 * len(constant)))
    for q in range(order.shape[1]):
        for e in range(scope_start[order[0, q]], scope_start[order[0, q] + 1]):
            place[e] = _U(2 * state_start[scope[e]])
    # Flooding reads one half while the beliefs of the next sweep gather in the other; the two halves of a
    # variable are neighbours, and `place` spares a look at each variable for its position.
    belief = np.empty(2 * len(constant))
    work = np.empty(2 * arity * (widest + largest))
    dims = np.zeros(arity, np.uint64)
    width, out, spare = _U(widest), _U(arity * widest), _U(2 * arity * widest)
    changes = np.zeros(sweeps)
    for turn in range(sweeps):
        row = turn % len(order)
        now = 0 if asynchronous else turn % 2
        ahead = 0 if asynchronous else 1 - now
        if turn % 8 == 0:  # running products pile up rounding
            reset(belief, now, state_start, constant)
            gather(belief, now, place, edge_state_start, messages)
        if not asynchronous:
            reset(belief, ahead, state_start, constant)
        change = 0.0
        for q in range(order.shape[1]):
            a = order[row, q]
            first = _U(scope_start[a])
            n = _U(scope_start[a + 1]) - first
            for j in range(n):
                g = _U(edge_state_start[first + j])
                size = _U(edge_state_start[first + j + _U(1)]) - g
                dims[j] = size
                divide(belief, place[first + j] + _U(now) * size, messages, g, size, work, j * width)
            all_messages(psi, _U(table_start[a]), n, dims, work, width, out, spare)
            for j in range(n):
                moved = store(
                    work, out + j * width, j * width, dims[j], messages, _U(edge_state_start[first + j]),
                    belief, place[first + j] + _U(ahead) * dims[j], asynchronous,
                )  # fmt: skip
                change = max(change, moved)
        changes[turn] = change
        if change < tol:
            return changes[: turn + 1]
    return changes


@jit
def linear_beliefs(active, scope_start, scope, state_start, edge_state_start, constant, messages, belief):
    """Products of all messages at each variable."""
    copy(constant, belief)
    for q in range(len(active)):
        for e in range(scope_start[active[q]], scope_start[active[q] + 1]):
            s, g = state_start[scope[e]], edge_state_start[e]
            for k in range(edge_state_start[e + 1] - g):
                belief[s + k] *= messages[g + k]


@jit
def _has_full_support(a, scope_start, scope, sizes, tables, table_start):
    """Whether every state of every variable of factor a has a positive entry in its table."""
    if scope_start[a] == scope_start[a + 1]:
        return False
    size = 1
    for e in range(scope_start[a], scope_start[a + 1]):
        size *= sizes[scope[e]]
    stride = size
    for e in range(scope_start[a], scope_start[a + 1]):
        d = sizes[scope[e]]
        stride //= d
        seen = np.zeros(d, np.bool_)
        for k in range(size):
            if tables[table_start[a] + k] > -np.inf:
                seen[(k // stride) % d] = True
        for x in range(d):
            if not seen[x]:
                return False
    return True


@jit
def survey(scope_start, scope, sizes, tables, table_start):
    """What decides the form of a problem.

    Returns the number of variables with several states in each factor, and the largest log range that a
    product of messages can have: the ranges of the factors around a variable add up, and so do those of
    the variables of a factor wider than two. A zero entry counts as infinite if it leaves some state
    without any positive entry; otherwise positive messages stay positive, the range is that of the positive
    entries, a guess, and the last flag says so.
    """
    m = len(scope_start) - 1
    free = np.zeros(m, np.int64)
    around = np.zeros(len(sizes))
    largest = 0.0
    guessed = False
    for a in range(m):
        size = 1
        for e in range(scope_start[a], scope_start[a + 1]):
            size *= sizes[scope[e]]
            if sizes[scope[e]] > 1:
                free[a] += 1
        low, high = np.inf, -np.inf
        for k in range(table_start[a], table_start[a] + size):
            low, high = min(low, tables[k]), max(high, tables[k])
        spread = high - low
        if low == -np.inf:
            spread = np.inf
            if _has_full_support(a, scope_start, scope, sizes, tables, table_start):
                guessed = True
                least = high
                for k in range(table_start[a], table_start[a] + size):
                    if tables[k] > -np.inf:
                        least = min(least, tables[k])
                spread = high - least
        if scope_start[a] == scope_start[a + 1]:
            largest = max(largest, spread)  # a constant of zero, which no variable would show
        for e in range(scope_start[a], scope_start[a + 1]):
            around[scope[e]] += spread
    for i in range(len(sizes)):
        largest = max(largest, around[i])
    # Wider tables multiply several cavities, whose ranges then add up.
    for a in range(m):
        if free[a] > 2:
            joint = 0.0
            for e in range(scope_start[a], scope_start[a + 1]):
                joint += around[scope[e]]
            largest = max(largest, joint)
    return free, largest, guessed


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
