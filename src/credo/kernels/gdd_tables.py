"""Tables of clusters and separators, put together from those of the factors."""

from __future__ import annotations

import numpy as np

from .jit import jit

__all__ = ["add_factors", "largest_scopes"]


@jit
def largest_scopes(start, scope, n):
    """For every set of variables the largest set that contains it; the first of equals."""
    count = len(start) - 1
    degree = np.zeros(n + 1, np.int64)
    for i in scope:
        degree[i + 1] += 1
    around_start = np.cumsum(degree)
    around = np.empty(len(scope), np.int64)
    filled = around_start.copy()
    for a in range(count):
        for e in range(start[a], start[a + 1]):
            around[filled[scope[e]]] = a
            filled[scope[e]] += 1
    mark = np.full(n, -1, np.int64)
    inside = np.arange(count)
    for a in range(count):
        rarest = scope[start[a]]
        for e in range(start[a], start[a + 1]):
            mark[scope[e]] = a
            if degree[scope[e] + 1] < degree[rarest + 1]:
                rarest = scope[e]
        arity, best = start[a + 1] - start[a], start[a + 1] - start[a]
        found = a
        for p in range(around_start[rarest], around_start[rarest + 1]):
            b = around[p]
            other = start[b + 1] - start[b]
            if other < best or (other == best and b >= found):
                continue
            shared = 0
            for e in range(start[b], start[b + 1]):
                shared += mark[scope[e]] == a
            if shared == arity:
                best, found = other, b
        inside[a] = found
    return inside


@jit
def add_factors(
    region, scope_start, scope, log_tables, table_start, sizes, axis_start, axis_variable, region_start, base
):
    """Add every factor's table to that of its region; the sum of those without one is returned.

    `region[a]` is -1 for factors over one-state variables only. Regions' axes hold free variables.
    """
    constant = 0.0
    widest = 1
    for r in range(len(axis_start) - 1):
        widest = max(widest, axis_start[r + 1] - axis_start[r])
    stride, digit = np.zeros(widest, np.int64), np.zeros(widest, np.int64)
    for a in range(len(region)):
        r = region[a]
        if r < 0:
            constant += log_tables[table_start[a]]
            continue
        first, arity = axis_start[r], axis_start[r + 1] - axis_start[r]
        for k in range(arity):
            stride[k], digit[k] = 0, 0
        step = 1
        for e in range(scope_start[a + 1] - 1, scope_start[a] - 1, -1):
            for k in range(arity):
                if axis_variable[first + k] == scope[e]:
                    stride[k] = step
            step *= sizes[scope[e]]
        where = table_start[a]
        for n in range(region_start[r], region_start[r + 1]):
            base[n] += log_tables[where]
            for k in range(arity - 1, -1, -1):
                digit[k] += 1
                where += stride[k]
                if digit[k] < sizes[axis_variable[first + k]]:
                    break
                where -= digit[k] * stride[k]
                digit[k] = 0
    return constant
