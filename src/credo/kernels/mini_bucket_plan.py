"""From an elimination order to mini-buckets: greedy partitions of the buckets, largest tables first.

An item is a factor or a message. Items are numbered: the factors, then the message of each mini-bucket. The
bucket of a variable holds the items of which it is the first to be eliminated. Largest item first, each goes
into a mini-bucket that contains its scope; else into the one that shares most variables with it
among those that stay within the limits; else it opens a new one. No mini-bucket is then contained in another
of its bucket: its items would have fitted there.
"""

from __future__ import annotations

import numpy as np

from .arrays import copy, double
from .jit import jit
from .sorting import sort_by

__all__ = ["partition"]

_TRIED = 512  # mini-buckets of a bucket that are compared with an item: the newest ones


@jit
def _place(item, count, room, length, entries, sizes, mark, most_variables, most_entries):
    """The mini-bucket for an item, -1 for a new one; `mark` is 1 on the item's variables."""
    best, shared = -1, 0
    for b in range(max(0, count - _TRIED), count):
        common, size = 0, entries[b]
        for k in range(length[b]):
            common += mark[room[b, k]]
        if common == len(item):
            return b
        if length[b] + len(item) - common > most_variables or common <= shared:
            continue
        for k in range(len(item)):
            size *= sizes[item[k]]
        for k in range(length[b]):
            if mark[room[b, k]]:
                size /= sizes[room[b, k]]
        if size <= most_entries * (1 + 1e-9):
            best, shared = b, common
    return best


@jit
def _scope_of(item, m, scope_start, scope, start, axes):
    """Variables of a factor, or of a mini-bucket's message: all but its first variable."""
    if item < m:
        return scope[scope_start[item] : scope_start[item + 1]]
    return axes[start[item - m] + 1 : start[item - m + 1]]


@jit
def _by_size(first, following, sizes, m, scope_start, scope, start, axes):
    """The items of a bucket by falling table size, and the largest number of variables of one."""
    count, item = 0, first
    while item >= 0:
        count += 1
        item = following[item]
    items, places, sorted_items = (
        np.empty(count, np.int64),
        np.empty(count, np.int64),
        np.empty(count, np.int64),
    )
    weight = np.empty(count)  # negative table sizes
    widest, item = 1, first
    for k in range(count):
        there = _scope_of(item, m, scope_start, scope, start, axes)
        weight[k], places[k] = -1.0, k
        for e in range(len(there)):
            weight[k] *= sizes[there[e]]
        widest = max(widest, len(there))
        items[k], item = item, following[item]
    sort_by(weight, places)
    for k in range(count):
        sorted_items[k] = items[places[k]]
    return sorted_items, widest


@jit
def partition(order, sizes, scope_start, scope, most_variables, most_entries):
    """Partition every bucket.

    Parameters
    ----------
    order
        Variables, first eliminated first.
    sizes
        States of each variable; those with one state get no mini-bucket.
    scope_start, scope
        Factor scopes in CSR form without one-state variables, each sorted by elimination rank.
    most_variables, most_entries
        Limits of a mini-bucket; a factor beyond them stands alone.

    Returns
    -------
    bucket_start, start, axes, owner
        Slices of mini-buckets per rank, their scopes (CSR, sorted by rank), and for every item
        its mini-bucket, -1 if its scope is empty.
    """
    n, m = len(order), len(scope_start) - 1
    rank = np.empty(n, np.int64)
    for k in range(n):
        rank[order[k]] = k
    most = len(scope) + n  # an item of k variables passes through at most k mini-buckets
    bucket_start = np.zeros(n + 1, np.int64)
    start = np.zeros(most + 1, np.int64)
    axes = np.empty(2 * len(scope) + n + 16, np.int64)
    owner = np.full(m + most, -1, np.int64)
    following = np.full(m + most, -1, np.int64)  # next item of the same bucket
    head = np.full(n, -1, np.int64)
    mark = np.zeros(n, np.int64)
    fits, entries_of_fits = 1, 4.0
    while fits < most_variables and entries_of_fits <= most_entries:
        fits, entries_of_fits = fits + 1, 2.0 * entries_of_fits
    for a in range(m - 1, -1, -1):
        if scope_start[a + 1] > scope_start[a]:
            v = scope[scope_start[a]]
            following[a], head[v] = head[v], a
    made = 0
    for turn in range(n):
        v = order[turn]
        bucket_start[turn] = made
        if sizes[v] == 1:
            continue
        items, widest = _by_size(head[v], following, sizes, m, scope_start, scope, start, axes)
        room = np.empty((max(len(items), 1), max(widest, fits)), np.int64)
        length = np.zeros(len(room), np.int64)
        entries = np.ones(len(room))
        groups = 0
        for item in items:
            there = _scope_of(item, m, scope_start, scope, start, axes)
            for u in there:
                mark[u] = 1
            b = _place(there, groups, room, length, entries, sizes, mark, most_variables, most_entries)
            if b < 0:
                b, groups = groups, groups + 1
            owner[item] = made + b
            for k in range(length[b]):
                mark[room[b, k]] = 0
            for u in there:
                if mark[u]:
                    room[b, length[b]], mark[u] = u, 0
                    length[b] += 1
                    entries[b] *= sizes[u]
        if len(items) == 0:
            room[0, 0], length[0], groups = v, 1, 1
        for b in range(groups):
            begin, end = start[made], start[made] + length[b]
            if end > len(axes):
                axes = double(axes, end)
            copy(room[b], axes[begin:end])
            sort_by(rank, axes[begin:end])
            start[made + 1] = end
            if length[b] > 1:
                u = axes[begin + 1]
                following[m + made], head[u] = head[u], m + made
            made += 1
    bucket_start[n] = made
    return bucket_start, start[: made + 1].copy(), axes[: start[made]].copy(), owner[: m + made].copy()
