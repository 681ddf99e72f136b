"""What zeros and constant sums allow to drop before any elimination.

Generalised arc consistency: a state without any positive table entry left in some factor has
probability zero, and dropping it may leave other states without support in turn.

Barren variables: a summed variable that only one factor mentions, and over which that factor's
sums do not depend on the rest (an unobserved leaf of a Bayesian network), contributes a constant.
"""

from __future__ import annotations

import numpy as np

from .jit import jit

__all__ = ["barren_factors", "supported_states"]

_CONSTANT = 1e-12  # relative spread of sums that counts as rounding


@jit
def supported_states(log_tables, table_start, scope_start, scope, state_start):
    """One flag per flat state: whether every factor at its variable still has an entry for it."""
    factors, n = len(table_start), len(state_start) - 1
    keep = np.ones(state_start[-1], np.bool_)
    widest = 1
    dirty = np.zeros(factors, np.bool_)
    size = np.ones(factors, np.int64)
    for a in range(factors):
        widest = max(widest, scope_start[a + 1] - scope_start[a])
        for e in range(scope_start[a], scope_start[a + 1]):
            size[a] *= state_start[scope[e] + 1] - state_start[scope[e]]
        for k in range(table_start[a], table_start[a] + size[a]):
            if log_tables[k] == -np.inf:
                dirty[a] = True
                break
    has_zero = dirty.copy()
    count = np.zeros(n + 1, np.int64)  # factors with zeros around each variable
    for a in range(factors):
        if has_zero[a]:
            for e in range(scope_start[a], scope_start[a + 1]):
                count[scope[e] + 1] += 1
    around_start = np.cumsum(count)
    around = np.empty(around_start[-1], np.int64)
    filled = around_start.copy()
    for a in range(factors):
        if has_zero[a]:
            for e in range(scope_start[a], scope_start[a + 1]):
                around[filled[scope[e]]] = a
                filled[scope[e]] += 1
    seen = np.zeros(state_start[-1], np.bool_)
    digit = np.zeros(widest, np.int64)
    busy = True
    while busy:
        busy = False
        for a in range(factors):
            if not dirty[a]:
                continue
            dirty[a] = False
            first, last = scope_start[a], scope_start[a + 1]
            for e in range(first, last):
                seen[state_start[scope[e]] : state_start[scope[e] + 1]] = False
                digit[e - first] = 0
            for k in range(table_start[a], table_start[a] + size[a]):
                if log_tables[k] > -np.inf:
                    alive = True
                    for e in range(first, last):
                        alive = alive and keep[state_start[scope[e]] + digit[e - first]]
                    if alive:
                        for e in range(first, last):
                            seen[state_start[scope[e]] + digit[e - first]] = True
                e = last - 1
                while e >= first:
                    digit[e - first] += 1
                    if digit[e - first] < state_start[scope[e] + 1] - state_start[scope[e]]:
                        break
                    digit[e - first] = 0
                    e -= 1
            for e in range(first, last):
                i = scope[e]
                for s in range(state_start[i], state_start[i + 1]):
                    if keep[s] and not seen[s]:
                        keep[s] = False
                        busy = True
                        for f in range(around_start[i], around_start[i + 1]):
                            dirty[around[f]] = True
                dirty[a] = False
    return keep


@jit
def barren_factors(log_tables, table_start, scope_start, scope, sizes, wanted):
    """Factors that sum to a constant over a variable nobody else mentions and nobody wants.

    Returns a flag per factor that stays, a flag per variable that went, and the log of the
    product of the constants.
    """
    factors, n = len(table_start), len(sizes)
    stays = np.ones(factors, np.bool_)
    gone = np.zeros(n, np.bool_)
    constant = 0.0
    degree = np.zeros(n, np.int64)
    owner = np.zeros(n, np.int64)  # sum of the factors around each variable: the last one when degree is 1
    for a in range(factors):
        for e in range(scope_start[a], scope_start[a + 1]):
            degree[scope[e]] += 1
            owner[scope[e]] += a
    stack = np.empty(n + len(scope), np.int64)
    top = 0
    for i in range(n):
        if degree[i] == 1 and not wanted[i] and sizes[i] > 1:
            stack[top] = i
            top += 1
    while top > 0:
        top -= 1
        i = stack[top]
        if degree[i] != 1 or gone[i]:
            continue
        a = owner[i]
        total, size, stride = 1, 1, 1
        for e in range(scope_start[a + 1] - 1, scope_start[a] - 1, -1):
            if scope[e] == i:
                stride = total
            total *= sizes[scope[e]]
        size = sizes[i]
        low, high = np.inf, -np.inf
        for base in range(0, total, stride * size):
            for j in range(stride):
                value = 0.0
                for k in range(size):
                    value += np.exp(log_tables[table_start[a] + base + j + k * stride])
                low, high = min(low, value), max(high, value)
        if not (low > 0.0 and high < np.inf and high - low <= _CONSTANT * high):
            continue
        stays[a] = False
        gone[i] = True
        constant += np.log(high)
        for e in range(scope_start[a], scope_start[a + 1]):
            j = scope[e]
            degree[j] -= 1
            owner[j] -= a
            if degree[j] == 1 and not wanted[j] and sizes[j] > 1:
                stack[top] = j
                top += 1
    return stays, gone, constant
