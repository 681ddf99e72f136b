"""Slopes and moves of the shifts among the mini-buckets of each bucket.

The mini-buckets of a split bucket share some variables s (`Layout.common`). `start[c]` to `start[c + 1]` is
the room of mini-bucket c for one number per state of x_s; nothing for buckets that are not split. The slope
of a bound in a shift of c is c's belief about x_s.
"""

from __future__ import annotations

import numpy as np

from .arrays import copy
from .jit import jit
from .mini_bucket_tables import entries_of, fold, largest_table, log_belief, normalise_logs

__all__ = ["common_beliefs", "first_entries", "shift_tables"]


@jit
def common_beliefs(layout, psi, message, context, weight, start, belief):
    """What every mini-bucket of a split bucket believes about the common variables; each sums to one.

    `psi`, `message` and `context` are those of a forward and a backward pass.
    """
    most = largest_table(layout)
    where, log, total = np.empty(most, np.int64), np.empty(most), np.empty(most)
    for c in range(len(layout.parent)):
        if start[c] == start[c + 1]:
            continue
        a, b = layout.table_start[c], layout.table_start[c + 1]
        p, q = layout.message_start[c], layout.message_start[c + 1]
        axes = slice(layout.scope_start[c], layout.scope_start[c + 1])
        out = belief[start[c] : start[c + 1]]
        entries_of(where, layout.axis_size[axes], layout.common[axes])
        log_belief(psi[a:b], message[p:q], context[p:q], weight[c], True, log)
        if fold(log[: b - a], where, False, 1.0, out, total) == -np.inf:
            out[:] = 0.0
            continue
        normalise_logs(out)
        for s in range(len(out)):
            out[s] = np.exp(out[s])


@jit
def shift_tables(layout, start, change, length, theta, target):
    """Write theta + length * change to `target`; the change is over the common variables."""
    where = np.empty(largest_table(layout), np.int64)
    copy(theta, target)
    for c in range(len(layout.parent)):
        if start[c] == start[c + 1]:
            continue
        axes = slice(layout.scope_start[c], layout.scope_start[c + 1])
        count = entries_of(where, layout.axis_size[axes], layout.common[axes])
        a = layout.table_start[c]
        for t in range(count):
            target[a + t] += length * change[start[c] + where[t]]


@jit
def first_entries(layout, start, theta, entry):
    """For each state of the common variables an entry of the table that belongs to it, finite if one is."""
    where = np.empty(largest_table(layout), np.int64)
    entry[:] = -1
    for c in range(len(layout.parent)):
        if start[c] == start[c + 1]:
            continue
        axes = slice(layout.scope_start[c], layout.scope_start[c + 1])
        count = entries_of(where, layout.axis_size[axes], layout.common[axes])
        a = layout.table_start[c]
        for t in range(count):
            at = start[c] + where[t]
            if entry[at] < 0 or theta[entry[at]] == -np.inf:
                entry[at] = a + t
