"""From shifted tables to states of the maximised variables."""

from __future__ import annotations

import numpy as np

from .gdd import AXIS, AXIS_END, EDGE, EDGE_END, SIZE, TABLE
from .jit import jit

__all__ = ["decode_states"]


@jit
def decode_states(single, separators, edges, axis_size, axis_variable, tables, order, states, alone):
    """Choose a state for each variable of `order`, one after another.

    The choice is the largest sum of the variable's own table and of the best entry of every cluster around
    it that agrees with the states chosen before; with `alone` the clusters are not asked. `states` holds -1
    for what is open and is filled in place.
    """
    most = 1
    for i in order:
        if single[i] >= 0:
            most = max(most, separators[single[i], SIZE])
    total, best = np.empty(most), np.empty(most)
    for i in order:
        s = single[i]
        if s < 0:
            states[i] = 0
            continue
        count = separators[s, SIZE]
        for x in range(count):
            total[x] = tables[separators[s, TABLE] + x]
        if not alone:
            for e in range(separators[s, EDGE], separators[s, EDGE_END]):
                _best_entries(edges[e], i, axis_size, axis_variable, tables, states, best[:count])
                for x in range(count):
                    total[x] += best[x]
        found = 0
        for x in range(1, count):
            if total[x] > total[found]:
                found = x
        states[i] = found


@jit
def _best_entries(row, i, axis_size, axis_variable, tables, states, best):
    """For each state of variable i the largest entry of a cluster that agrees with the chosen states."""
    best[:] = -np.inf
    for n in range(row[SIZE]):
        left, x, agrees = n, 0, True
        for q in range(row[AXIS_END] - 1, row[AXIS] - 1, -1):
            digit = left % axis_size[q]
            left //= axis_size[q]
            j = axis_variable[q]
            if j == i:
                x = digit
            elif states[j] >= 0 and states[j] != digit:
                agrees = False
                break
        if agrees:
            best[x] = max(best[x], tables[row[TABLE] + n])
