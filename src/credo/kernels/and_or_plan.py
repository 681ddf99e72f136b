"""From an elimination order to what a search along it needs: a tree, contexts, and who passes over whom."""

from __future__ import annotations

import numpy as np

from .jit import jit

__all__ = ["elimination_tree", "passing", "preorder", "sum_layout"]


@jit
def elimination_tree(start, neighbour, order, rank, alive):
    """The next variable to be eliminated among those a variable is joined to when its turn comes.

    Variables that are not alive get -2; roots get n, as if a last variable were joined to everything.
    """
    n = len(order)
    parent, top = np.full(n + 1, n, np.int64), np.full(n, -1, np.int64)
    parent[n] = -1
    for turn in range(n):
        v = order[turn]
        if not alive[v]:
            parent[v] = -2
            continue
        for e in range(start[v], start[v + 1]):
            u = neighbour[e]
            if not alive[u] or rank[u] >= turn:
                continue
            # Climb to the root above u; the shortcuts left on the way keep this nearly linear.
            while top[u] >= 0 and top[u] != v:
                above = top[u]
                top[u] = v
                u = above
            if top[u] < 0:
                top[u] = v
                parent[u] = v
    return parent


@jit
def preorder(child_start, child, root):
    """Variables below `root` and itself, parents first, each subtree in one piece; and subtree sizes."""
    n = len(child_start) - 1
    found, size = np.empty(n, np.int64), np.zeros(n, np.int64)
    stack = np.empty(n, np.int64)
    stack[0], top, count = root, 1, 0
    while top > 0:
        top -= 1
        v = stack[top]
        found[count] = v
        count += 1
        for e in range(child_start[v + 1] - 1, child_start[v] - 1, -1):
            stack[top] = child[e]
            top += 1
    for p in range(count - 1, -1, -1):
        v = found[p]
        size[v] = 1
        for e in range(child_start[v], child_start[v + 1]):
            size[v] += size[child[e]]
    return found[:count].copy(), size


@jit
def passing(source, target, parent):
    """For every variable, the messages that leave its subtree: CSR arrays of message numbers.

    `source` and `target` are the variables a message comes from and goes to; without a target
    (-1) it is left out.
    """
    n = len(parent)
    start = np.zeros(n + 1, np.int64)
    for c in range(len(source)):
        v = source[c]
        while target[c] >= 0 and v != target[c]:
            start[v + 1] += 1
            v = parent[v]
    start = np.cumsum(start)
    filled, member = start[:-1].copy(), np.empty(start[-1], np.int64)
    for c in range(len(source)):
        v = source[c]
        while target[c] >= 0 and v != target[c]:
            member[filled[v]] = c
            filled[v] += 1
            v = parent[v]
    return start, member


@jit
def sum_layout(home, scope_start, scope, edge_stride, axis_start, axis, is_sum, n):
    """Steps of every factor along the summed axes of its bucket, and its steps along maximised variables.

    Returns CSR arrays (start, stride) and (start, variable, stride), empty for factors of other buckets.
    """
    m = len(home)
    start, held_start = np.zeros(m + 1, np.int64), np.zeros(m + 1, np.int64)
    for a in range(m):
        h = home[a]
        summed = h >= 0 and is_sum[h]
        start[a + 1] = start[a] + (axis_start[h + 1] - axis_start[h] if summed else 0)
        held_start[a + 1] = held_start[a]
        if summed:
            for e in range(scope_start[a], scope_start[a + 1]):
                held_start[a + 1] += not is_sum[scope[e]]
    stride = np.zeros(start[m], np.int64)
    held, held_stride = np.empty(held_start[m], np.int64), np.empty(held_start[m], np.int64)
    for a in range(m):
        h, at = home[a], held_start[a]
        if h < 0 or not is_sum[h]:
            continue
        for e in range(scope_start[a], scope_start[a + 1]):
            if not is_sum[scope[e]]:
                held[at], held_stride[at] = scope[e], edge_stride[e]
                at += 1
                continue
            for k in range(axis_start[h], axis_start[h + 1]):
                if axis[k] == scope[e]:
                    stride[start[a] + k - axis_start[h]] = edge_stride[e]
    return start, stride, held_start, held, held_stride
