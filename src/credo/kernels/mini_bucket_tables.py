"""Tables of mini-buckets: how they are laid out, filled, eliminated and folded onto fewer variables."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .jit import inlined, jit

__all__ = [
    "COLD",
    "TableLayout",
    "common_strides",
    "eliminate",
    "entries_of",
    "fold",
    "gather",
    "largest_table",
    "link_strides",
    "log_belief",
    "normalise_logs",
]

COLD = 1e-3  # weights below this are treated as maxima when beliefs are formed: 1 / w overflows


class TableLayout(NamedTuple):
    """The arrays kernels need of a set of mini-buckets."""

    temperature: np.ndarray  # (n,) by RANK
    bucket_start: np.ndarray  # (n + 1,) mini-buckets by rank
    scope_start: np.ndarray  # (count + 1,) slices of the three next arrays
    axis_size: np.ndarray  # states per axis
    stride: np.ndarray  # step per axis
    common: np.ndarray  # step per axis in the table over the bucket's common variables
    common_size: np.ndarray  # (n,) entries of that table, by rank
    table_start: np.ndarray  # (count + 1,)
    message_start: np.ndarray  # (count + 1,)
    parent: np.ndarray  # (count,)
    child_start: np.ndarray  # (count + 1,)
    child: np.ndarray  # senders to each mini-bucket
    link_start: np.ndarray  # (count + 1,) slices of `link`, by sender
    link: np.ndarray  # step in the sender's message per axis of the receiver


@jit
def link_strides(target, source_start, source, source_stride, skip, scope_start, scope, n):
    """Steps in each source table per axis of its target: CSR arrays, empty for target -1.

    The first `skip` axes of every source are left out.
    """
    count = len(target)
    start = np.zeros(count + 1, np.int64)
    for s in range(count):
        t = target[s]
        start[s + 1] = start[s] + (scope_start[t + 1] - scope_start[t] if t >= 0 else 0)
    link = np.zeros(start[count], np.int64)
    step = np.zeros(n, np.int64)
    for s in range(count):
        t = target[s]
        if t < 0:
            continue
        for e in range(source_start[s] + skip, source_start[s + 1]):
            step[source[e]] = source_stride[e]
        for k in range(scope_start[t + 1] - scope_start[t]):
            link[start[s] + k] = step[scope[scope_start[t] + k]]
        for e in range(source_start[s] + skip, source_start[s + 1]):
            step[source[e]] = 0
    return start, link


@jit
def common_strides(bucket_start, scope_start, scope, sizes, kind):
    """Steps per axis in the table over the variables all mini-buckets of a bucket share, and its size.

    Only variables of the same `kind` as the bucket's own take part.
    """
    n = len(bucket_start) - 1
    common = np.zeros(len(scope), np.int64)
    size = np.ones(n, np.int64)
    seen = np.zeros(len(sizes), np.int64)
    step = np.zeros(len(sizes), np.int64)
    for rank in range(n):
        first, last = bucket_start[rank], bucket_start[rank + 1]
        if last - first < 2:
            continue
        begin, end = scope_start[first], scope_start[last]
        own = scope[begin]
        for e in range(begin, end):
            seen[scope[e]] += 1
        for e in range(scope_start[first + 1] - 1, begin - 1, -1):
            i = scope[e]
            if seen[i] == last - first and kind[i] == kind[own]:
                step[i] = size[rank]
                size[rank] *= sizes[i]
        for e in range(begin, end):
            common[e] = step[scope[e]]
        for e in range(begin, end):
            seen[scope[e]] = 0
            step[scope[e]] = 0
    return common, size


@inlined
def entries_of(where, sizes, strides):
    """Entry of another table for every entry of one with these axes; returns how many."""
    where[0] = 0
    length = 1
    for k in range(len(sizes) - 1, -1, -1):
        for x in range(1, sizes[k]):
            move = x * strides[k]
            for t in range(length):
                where[x * length + t] = where[t] + move
        length *= sizes[k]
    return length


@jit
def largest_table(layout):
    """Entries of the largest table."""
    most = 1
    for c in range(len(layout.parent)):
        most = max(most, layout.table_start[c + 1] - layout.table_start[c])
    return most


@jit
def gather(home, link_start, link, table_start, log_tables, layout, theta):
    """Add every factor's table to its mini-bucket's; the sum of the factors without one is returned."""
    where = np.empty(largest_table(layout), np.int64)
    constant = 0.0
    for a in range(len(home)):
        c = home[a]
        if c < 0:
            constant += log_tables[table_start[a]]
            continue
        axes = layout.axis_size[layout.scope_start[c] : layout.scope_start[c + 1]]
        count = entries_of(where, axes, link[link_start[a] : link_start[a + 1]])
        at, source = layout.table_start[c], table_start[a]
        for t in range(count):
            theta[at + t] += log_tables[source + where[t]]
    return constant


@inlined
def eliminate(table, weight, out, total):
    """Powered sum over axis 0; a negative weight takes the smallest entries for the largest."""
    m = len(out)
    d = len(table) // m
    sign = -1.0 if weight < 0.0 else 1.0
    for y in range(m):
        out[y] = table[y]
    for x in range(1, d):
        row = table[x * m : (x + 1) * m]
        for y in range(m):
            if sign * row[y] > sign * out[y]:
                out[y] = row[y]
    if weight == 0.0 or d == 1:
        return
    total[:m] = 0.0
    inverse = 1.0 / weight
    for x in range(d):
        row = table[x * m : (x + 1) * m]
        for y in range(m):
            if row[y] == out[y]:
                total[y] += 1.0
            elif row[y] > -np.inf and out[y] > -np.inf:
                total[y] += np.exp((row[y] - out[y]) * inverse)
    for y in range(m):
        if out[y] > -np.inf:
            out[y] += weight * np.log(total[y])


@inlined
def log_belief(psi, message, context, weight, known, out):
    """The log belief of a mini-bucket, or its value L where the weight is nearly zero; not normalised."""
    m = len(message)
    d = len(psi) // m
    inverse = 1.0 if abs(weight) < COLD else 1.0 / weight
    for x in range(d):
        for y in range(m):
            value = psi[x * m + y]
            if value == -np.inf:
                out[x * m + y] = -np.inf
            elif not known:
                out[x * m + y] = value * inverse
            elif message[y] == -np.inf or context[y] == -np.inf:
                out[x * m + y] = -np.inf
            else:
                out[x * m + y] = (value - message[y]) * inverse + context[y]


@inlined
def fold(values, where, hard, inverse, out, total):
    """Maxima, or logs of sums of exp(inverse * values), over entries that share an index; largest one 0."""
    size = len(out)
    out[:] = -np.inf
    for t in range(len(values)):
        out[where[t]] = max(out[where[t]], values[t] * inverse if values[t] > -np.inf else -np.inf)
    top = -np.inf
    if not hard:
        total[:size] = 0.0
        for t in range(len(values)):
            if values[t] > -np.inf:
                total[where[t]] += np.exp(values[t] * inverse - out[where[t]])
        for s in range(size):
            if out[s] > -np.inf:
                out[s] += np.log(total[s])
    for s in range(size):
        top = max(top, out[s])
    if top > -np.inf:
        for s in range(size):
            out[s] -= top
    return top


@inlined
def normalise_logs(values):
    """Make the exponentials of values whose largest is zero sum to one, in place."""
    total = 0.0
    for s in range(len(values)):
        total += np.exp(values[s])
    shift = np.log(total)
    for s in range(len(values)):
        values[s] -= shift
