"""Plain BP in positive numbers: several times faster than with logarithms.

For positive tables of moderate range: every message then lies within its table's range, and no
product of messages around a variable leaves the doubles (`survey` tells). Tables of two and three
variables have loops of their own whose innermost runs along contiguous rows.
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
def _divide(belief, s, messages, g, size, cavity, c):
    """Cavity of one edge, belief over message, from position c on."""
    for k in range(size):
        cavity[c + k] = belief[s + k] / messages[g + k]


@jit
def _pair(psi, t, d0, d1, cavity, out, width):
    """Both messages of a pairwise table that begins at t; the second axis lies `width` further."""
    for y in range(d1):
        out[width + y] = 0.0
    for x in range(d0):
        here, weight, row = 0.0, cavity[x], t + x * d1
        for y in range(d1):
            value = psi[row + y]
            here += value * cavity[width + y]
            out[width + y] += value * weight
        out[x] = here


@jit
def _triple(psi, t, d0, d1, d2, cavity, out, width):
    """All three messages of a three-way table that begins at t."""
    third = width + width
    for y in range(d1):
        out[width + y] = 0.0
    for z in range(d2):
        out[third + z] = 0.0
    for x in range(d0):
        total, weight = 0.0, cavity[x]
        for y in range(d1):
            row = t + (x * d1 + y) * d2
            middle = cavity[width + y]
            here, both = 0.0, weight * middle
            for z in range(d2):
                value = psi[row + z]
                here += value * cavity[third + z]
                out[third + z] += value * both
            total += here * middle
            out[width + y] += here * weight
        out[x] = total


@jit
def _many(psi, t, n, dims, cavity, out, width, digit):
    """All messages of a table of any arity; positive cavities are divided out of the joint sums."""
    size = 1
    for j in range(n):
        size *= dims[j]
        digit[j] = 0
        for k in range(dims[j]):
            out[j * width + k] = 0.0
    for entry in range(size):
        value = psi[t + entry]
        for j in range(n):
            value *= cavity[j * width + digit[j]]
        for j in range(n):
            out[j * width + digit[j]] += value
        j = n - 1
        while j >= 0:
            digit[j] += 1
            if digit[j] < dims[j]:
                break
            digit[j] = 0
            j -= 1
    for j in range(n):
        for k in range(dims[j]):
            out[j * width + k] /= cavity[j * width + k]


@jit
def _store(out, cavity, c, size, messages, g, fresh, belief, s, asynchronous):
    """Normalise a message to mean one and put it in place; returns its change in probability."""
    total = 0.0
    for k in range(size):
        total += out[c + k]
    total = float(size) / total
    change = 0.0
    for k in range(size):
        old, new = messages[g + k], out[c + k] * total
        change = max(change, abs(new - old))
        fresh[g + k] = new
    if asynchronous:
        for k in range(size):
            belief[s + k] = cavity[c + k] * out[c + k] * total
    return change / float(size)


@jit
def linear_sweeps(
    order, asynchronous, scope_start, scope, sizes, state_start, edge_state_start, psi, table_start, constant,
    messages, sweeps, tol,
):  # fmt: skip
    """Plain BP in positive numbers over the listed factors (rows of `order`, in turn); in place.

    `constant` holds the product of the constant messages per state; messages have mean one, so that
    products stay near one. Returns the largest change of each sweep done.
    """
    widest, arity = 1, 3
    for q in range(len(order[0])):
        a = order[0, q]
        arity = max(arity, scope_start[a + 1] - scope_start[a])
        for e in range(scope_start[a], scope_start[a + 1]):
            widest = max(widest, sizes[scope[e]])
    belief = np.empty(state_start[-1])
    cavity = np.empty(arity * widest)
    out = np.empty(arity * widest)
    digit = np.zeros(arity, np.int64)
    dims = np.zeros(arity, np.int64)
    width = _U(widest)
    fresh = messages if asynchronous else messages.copy()
    changes = np.zeros(sweeps)
    for turn in range(sweeps):
        row = turn % len(order)
        belief[:] = constant
        for q in range(order.shape[1]):
            a = order[row, q]
            for e in range(scope_start[a], scope_start[a + 1]):
                s, g = _U(state_start[scope[e]]), _U(edge_state_start[e])
                for k in range(_U(sizes[scope[e]])):
                    belief[s + k] *= messages[g + k]
        change = 0.0
        for q in range(order.shape[1]):
            a = order[row, q]
            first = scope_start[a]
            n = scope_start[a + 1] - first
            t = _U(table_start[a])
            for j in range(n):
                i = scope[first + j]
                dims[j] = sizes[i]
                _divide(
                    belief, _U(state_start[i]), messages, _U(edge_state_start[first + j]), _U(dims[j]),
                    cavity, _U(j) * width,
                )  # fmt: skip
            if n == 2:
                _pair(psi, t, _U(dims[0]), _U(dims[1]), cavity, out, width)
            elif n == 3:
                _triple(psi, t, _U(dims[0]), _U(dims[1]), _U(dims[2]), cavity, out, width)
            else:
                _many(psi, table_start[a], n, dims, cavity, out, widest, digit)
            for j in range(n):
                moved = _store(
                    out, cavity, _U(j) * width, _U(dims[j]), messages, _U(edge_state_start[first + j]), fresh,
                    belief, _U(state_start[scope[first + j]]), asynchronous,
                )  # fmt: skip
                change = max(change, moved)
        if not asynchronous:
            messages[:] = fresh
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
        for e in range(scope_start[a], scope_start[a + 1]):
            around[scope[e]] += spread
    largest = 0.0
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
