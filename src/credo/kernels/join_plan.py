"""From an elimination order to a binary join tree.

Tensors are numbered: first one per factor, then one per step. Step s multiplies tensors
`left[s]` and `right[s]` and eliminates a set of variables from the product:

    T_out(x_out) = op_{x_E} T_left(x_left) T_right(x_right)

(`right` is -1 when variables are eliminated from a single tensor; the set E is empty for a mere
product.) First, unless told otherwise, every factor whose scope lies in another one's is multiplied into it:
the fewer tensors, the fewer steps. Then, along the
order, all tensors that mention the next variable are multiplied, small ones first. Each product at
once eliminates every variable of the current level that no other tensor mentions, so two large
tensors that share several variables meet in one matrix product instead of a wide table. Every
tensor is used by at most one later step: the steps form a forest whose roots have an empty scope
(or only variables to keep).

The axis order (layout) of a tensor is chosen for the step that consumes it: first the variables
eliminated there, then what the other operand mentions, then the rest in the order it was
produced. The innermost loops then run over long contiguous stretches of the larger operand
while the smaller one stands still. Where most axes are shared, they go innermost instead, in the
order both operands use, and the loops are element-wise products.
"""

from __future__ import annotations

import numpy as np

from .arrays import copy, double
from .jit import jit
from .sorting import sort_by

__all__ = ["layouts", "steps_of_order"]

_CANDIDATES = 64  # how many tensors are tried when looking for one that contains a scope


@jit
def steps_of_order(rank, level, sizes, scope_start, scope, n_eliminated, absorb):
    """Steps that eliminate the variables of rank below `n_eliminated` in this order.

    Parameters
    ----------
    rank
        Elimination rank of each variable; variables to keep rank last.
    level
        Variables are eliminated out of their turn only together with others of their level.
    sizes
        States of each variable.
    scope_start, scope
        Factor scopes in CSR form, without one-state variables.
    n_eliminated
        How many variables to eliminate.
    absorb
        Whether factors are multiplied into those that contain them first.

    Returns
    -------
    left, right, drop_start, drop, start, axes, lonely
        The steps with their eliminated variables (CSR), the scopes of all tensors (CSR, not yet in
        layout order), and a flag per variable that no factor mentions.
    """
    n, m = len(rank), len(scope_start) - 1
    by_rank = np.empty(n, np.int64)
    for i in range(n):
        by_rank[rank[i]] = i
    room = m + n + 1
    left = np.empty(room, np.int64)
    right = np.empty(room, np.int64)
    drop_start = np.zeros(room + 1, np.int64)
    drop = np.empty(n, np.int64)
    start = np.zeros(m + room + 1, np.int64)
    copy(scope_start, start[: m + 1])
    axes = np.empty(max(4 * len(scope), 16), np.int64)
    copy(scope, axes[: len(scope)])
    entries = np.ones(m + room)
    active = np.zeros(m + room, np.int8)
    # Tensors around each variable as linked lists; consumed tensors are skipped, not unlinked.
    head = np.full(n, -1, np.int64)
    node_next = np.empty(len(axes), np.int64)
    node_tensor = np.empty(len(axes), np.int64)
    uses = np.zeros(n, np.int64)  # active tensors that mention each variable
    for a in range(m):
        active[a] = 1
        for e in range(scope_start[a], scope_start[a + 1]):
            i = scope[e]
            entries[a] *= sizes[i]
            node_tensor[e], node_next[e], head[i] = a, head[i], e
            uses[i] += 1
    mark = np.full(n, -1, np.int64)
    lonely = np.zeros(n, np.int8)
    done = np.zeros(n, np.int8)
    bucket = np.empty(m + room, np.int64)
    steps = 0
    clock = 0
    absorbing = np.empty(m, np.int64)
    for a in range(m):
        absorbing[a] = a
    sort_by(entries, absorbing)
    # Phase one absorbs factors into larger ones, phase two follows the order, the last turn
    # multiplies what is left over the kept variables.
    for turn in range(0 if absorb else m, m + n_eliminated + 1):
        v = -1
        size = 0
        if turn < m:
            a = absorbing[turn]
            if not active[a] or start[a] == start[a + 1]:
                continue
            other = _container(
                a, start, axes, entries, active, head, node_next, node_tensor, uses, mark, clock
            )
            clock += 1
            if other < 0:
                continue
            bucket[0], bucket[1] = a, other
            size = 2
        elif turn < m + n_eliminated:
            v = by_rank[turn - m]
            if done[v]:
                continue
            e = head[v]
            while e >= 0:
                if active[node_tensor[e]]:
                    bucket[size] = node_tensor[e]
                    size += 1
                e = node_next[e]
            if size == 0:
                lonely[v] = 1
                continue
        else:
            for t in range(m + steps):
                if active[t] and start[t] < start[t + 1]:
                    bucket[size] = t
                    size += 1
            if size < 2:
                continue
        sort_by(entries, bucket[:size])
        here = bucket[0]
        k = 1
        while k < max(size, 2):
            other = bucket[k] if k < size else -1
            k += 1
            out = m + steps
            left[steps], right[steps] = here, other
            end = start[out]
            need = (
                end + start[here + 1] - start[here] + (start[other + 1] - start[other] if other >= 0 else 0)
            )
            if need > len(axes):
                axes = double(axes, need)
                node_next, node_tensor = double(node_next, need), double(node_tensor, need)
            dropped = drop_start[steps]
            for which in range(2):
                t = here if which == 0 else other
                if t < 0:
                    continue
                active[t] = 0
                for e in range(start[t], start[t + 1]):
                    uses[axes[e]] -= 1
            active[out] = 1
            for which in range(2):
                t = here if which == 0 else other
                if t < 0:
                    continue
                for e in range(start[t], start[t + 1]):
                    i = axes[e]
                    if mark[i] == clock:
                        continue
                    mark[i] = clock
                    if v >= 0 and uses[i] == 0 and level[i] == level[v] and rank[i] < n_eliminated:
                        drop[dropped] = i
                        dropped += 1
                        done[i] = 1
                    else:
                        axes[end] = i
                        node_tensor[end], node_next[end], head[i] = out, head[i], end
                        end += 1
                        entries[out] *= sizes[i]
            for e in range(start[out], end):
                uses[axes[e]] += 1
            clock += 1
            drop_start[steps + 1] = dropped
            start[out + 1] = end
            steps += 1
            here = out
    return (
        left[:steps].copy(),
        right[:steps].copy(),
        drop_start[: steps + 1].copy(),
        drop[: drop_start[steps]].copy(),
        start[: m + steps + 1].copy(),
        axes[: start[m + steps]].copy(),
        lonely,
    )


@jit
def _container(a, start, axes, entries, active, head, node_next, node_tensor, uses, mark, clock):
    """The smallest of the first few active tensors whose scope contains that of tensor a, or -1."""
    rarest = axes[start[a]]
    for e in range(start[a], start[a + 1]):
        if uses[axes[e]] < uses[rarest]:
            rarest = axes[e]
    best = -1
    tried = 0
    node = head[rarest]
    while node >= 0 and tried < _CANDIDATES:
        b = node_tensor[node]
        node = node_next[node]
        if b == a or not active[b]:
            continue
        tried += 1
        if start[b + 1] - start[b] < start[a + 1] - start[a] or (best >= 0 and entries[b] >= entries[best]):
            continue
        found = 0
        for e in range(start[a], start[a + 1]):
            for g in range(start[b], start[b + 1]):
                if axes[g] == axes[e]:
                    found += 1
                    break
        if found == start[a + 1] - start[a]:
            best = b
    return best


@jit
def layouts(left, right, drop_start, drop, start, axes, sizes, n_leaves, rank):
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
    going = np.full(n, -1, np.int64)  # the step that eliminates each variable
    for s in range(len(left)):
        for e in range(drop_start[s], drop_start[s + 1]):
            going[drop[e]] = s
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
                    if used[i] != t and going[i] != s:
                        base[count] = i
                        count += 1
            for e in range(start[big], start[big + 1]):
                i = ordered[e]
                if going[i] != s:
                    base[count] = i
                    count += 1
        # Groups: eliminated next, shared with the other operand, the rest; the larger of the last
        # two goes innermost. Shared axes that go innermost are put in the same order in both operands.
        other = sibling[t]
        if other >= 0:
            for e in range(start[other], start[other + 1]):
                mark[axes[e]] = t
        shared, rest = 1.0, 1.0
        for k in range(count):
            i = base[k]
            if consumer[t] < 0 or going[i] != consumer[t]:
                if mark[i] == t:
                    shared *= sizes[i]
                else:
                    rest *= sizes[i]
        end = start[t]
        for k in range(count):
            if consumer[t] >= 0 and going[base[k]] == consumer[t]:
                ordered[end] = base[k]
                end += 1
        for group in range(2):
            want_shared = (group == 0) == (rest >= shared)
            begin = end
            for k in range(count):
                i = base[k]
                if (consumer[t] < 0 or going[i] != consumer[t]) and (mark[i] == t) == want_shared:
                    ordered[end] = i
                    end += 1
            if want_shared and group == 1:
                sort_by(rank, ordered[begin:end])
    return ordered, entries
