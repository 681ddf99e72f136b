"""Sums over rows of joint states with weights: how often every state, and every table entry, was met."""

from __future__ import annotations

from .jit import jit

__all__ = ["add_weighted_rows"]


@jit
def add_weighted_rows(
    scope_start, scope, edge_stride, table_begin, state_start, rows, weights, states, squares, entries
):  # fmt: skip
    """Add the weight of every row to its states and table entries, and its square to `squares`, in place.

    `table_begin` says where the entries of each factor begin.
    """
    for r in range(len(rows)):
        w = weights[r]
        if w == 0.0:
            continue
        for i in range(len(state_start) - 1):
            states[state_start[i] + rows[r, i]] += w
            squares[state_start[i] + rows[r, i]] += w * w
        for a in range(len(scope_start) - 1):
            entry = table_begin[a]
            for e in range(scope_start[a], scope_start[a + 1]):
                entry += edge_stride[e] * rows[r, scope[e]]
            entries[entry] += w
