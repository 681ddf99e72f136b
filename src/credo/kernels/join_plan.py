"""From an elimination order to a binary join tree.

Tensors are numbered: first one per factor, then one per step. Step s multiplies tensors
`left[s]` and `right[s]` and eliminates at most one variable from the product:

    T_out(x_out) = op_{x_v} T_left(x_left) T_right(x_right)

(`right` is -1 when a variable is eliminated from a single tensor; `eliminated` is -1 for a mere
product.) Following an order, all tensors that mention the next variable are multiplied, small
ones first, and the last product eliminates it. Every tensor is used by at most one later step,
so the steps form a forest whose roots have an empty scope (or only variables to keep).

The axis order (layout) of a tensor is chosen for the step that consumes it: first the variable
eliminated there, then what the other operand mentions, then the rest in the order it was
produced. The innermost loops then run over long contiguous stretches of the larger operand
while the smaller one stands still.
"""

from __future__ import annotations

import numpy as np

from .jit import jit
from .ordering import _double

__all__ = ["layouts", "steps_of_order"]


@jit
def steps_of_order(rank, sizes, scope_start, scope, n_eliminated):
    """Steps that eliminate the variables of rank 0, 1, ..., n_eliminated - 1 in this order.

    Parameters
    ----------
    rank
        Elimination rank of each variable; variables to keep rank last.
    sizes
        States of each variable.
    scope_start, scope
        Factor scopes in CSR form, without one-state variables.
    n_eliminated
        How many variables to eliminate.

    Returns
    -------
    left, right, eliminated, start, axes, lonely
        The steps, the scopes of all tensors in CSR form (not yet in layout order), and a flag per
        variable that no factor mentions.
    """
    n, m = len(rank), len(scope_start) - 1
    by_rank = np.empty(n, np.int64)
    for i in range(n):
        by_rank[rank[i]] = i
    room = 2 * m + n + 1
    left = np.empty(room, np.int64)
    right = np.empty(room, np.int64)
    eliminated = np.empty(room, np.int64)
    start = np.zeros(m + room + 1, np.int64)
    start[: m + 1] = scope_start
    axes = np.empty(max(4 * len(scope), 16), np.int64)
    axes[: len(scope)] = scope
    end = len(scope)
    entries = np.ones(m + room)
    head = np.full(n + 1, -1, np.int64)  # tensors by the lowest rank in their scope; last: none left
    following = np.full(m + room, -1, np.int64)
    lonely = np.zeros(n, np.int8)
    for a in range(m):
        lowest = n
        for e in range(scope_start[a], scope_start[a + 1]):
            entries[a] *= sizes[scope[e]]
            lowest = min(lowest, rank[scope[e]])
        following[a] = head[lowest]
        head[lowest] = a
    mark = np.full(n, -1, np.int64)
    bucket = np.empty(m + room, np.int64)
    steps = 0
    for r in range(n_eliminated + 1):
        last = r == n_eliminated  # what remains over the kept variables
        v = -1 if last else by_rank[r]
        size = 0
        for q in range(r, n if last else r + 1):
            t = head[q]
            while t >= 0:
                bucket[size] = t
                size += 1
                t = following[t]
        if size == 0:
            if not last:
                lonely[v] = 1
            continue
        if last and size == 1:
            continue
        mine = bucket[:size][np.argsort(entries[bucket[:size]], kind="mergesort")]
        here = mine[0]
        k = 1
        while True:
            other = mine[k] if k < size else -1
            final = k >= size - 1
            k += 1
            drop = v if final else -1
            out = m + steps
            left[steps], right[steps], eliminated[steps] = here, other, drop
            if end + n > len(axes):
                axes = _double(axes, end + n)
            entries[out] = 1.0
            lowest = n
            for which in range(2):
                t = here if which == 0 else other
                if t < 0:
                    continue
                for e in range(start[t], start[t + 1]):
                    i = axes[e]
                    if mark[i] != steps and i != drop:
                        mark[i] = steps
                        axes[end] = i
                        end += 1
                        entries[out] *= sizes[i]
                        lowest = min(lowest, rank[i])
            start[out + 1] = end
            steps += 1
            here = out
            if final:
                break
        if not last:
            following[here] = head[lowest]
            head[lowest] = here
    return (
        left[:steps].copy(),
        right[:steps].copy(),
        eliminated[:steps].copy(),
        start[: m + steps + 1].copy(),
        axes[:end].copy(),
        lonely,
    )


@jit
def layouts(left, right, eliminated, start, axes, sizes, n_leaves):
    """Axes of all tensors in layout order (see the module), and the number of entries of each."""
    tensors = len(start) - 1
    n = len(sizes)
    consumer = np.full(tensors, -1, np.int64)
    sibling = np.full(tensors, -1, np.int64)
    for s in range(len(left)):
        consumer[left[s]] = s
        sibling[left[s]] = right[s]
        if right[s] >= 0:
            consumer[right[s]] = s
            sibling[right[s]] = left[s]
    entries = np.ones(tensors, np.int64)
    for t in range(tensors):
        for e in range(start[t], start[t + 1]):
            entries[t] *= sizes[axes[e]]
    ordered = np.empty_like(axes)
    base = np.empty(n + 1, np.int64)
    mark = np.full(n, -1, np.int64)  # axes of the sibling
    used = np.full(n, -1, np.int64)
    for t in range(tensors):
        count = 0
        if t < n_leaves:
            for e in range(start[t], start[t + 1]):
                base[count] = axes[e]
                count += 1
        else:
            # What only the smaller operand brings goes outside, the larger keeps its order.
            s = t - n_leaves
            big, small = left[s], right[s]
            if small >= 0 and entries[small] > entries[big]:
                big, small = small, big
            for e in range(start[big], start[big + 1]):
                used[axes[e]] = t
            if small >= 0:
                for e in range(start[small], start[small + 1]):
                    i = ordered[e]
                    if used[i] != t and i != eliminated[s]:
                        base[count] = i
                        count += 1
            for e in range(start[big], start[big + 1]):
                i = ordered[e]
                if i != eliminated[s]:
                    base[count] = i
                    count += 1
        first = -1 if consumer[t] < 0 else eliminated[consumer[t]]
        other = sibling[t]
        if other >= 0:
            for e in range(start[other], start[other + 1]):
                mark[axes[e]] = t
        end = start[t]
        for group in range(3):
            for k in range(count):
                i = base[k]
                mine = 0 if i == first else (1 if mark[i] == t else 2)
                if mine == group:
                    ordered[end] = i
                    end += 1
    return ordered, entries
