"""Best-first search over partial assignments of the maximised variables, ancestors first."""

from __future__ import annotations

import numpy as np

from .and_or_nodes import bounds, leaving, sum_children
from .and_or_search import DONE, FULL, MORE
from .jit import jit

__all__ = ["best_first"]


@jit
def _push(heap, size, value, node):
    """Add to a heap kept in `heap` = (order, values), largest value first."""
    nodes, values = heap
    at = size[0]
    size[0] += 1
    while at > 0 and values[nodes[(at - 1) // 2]] < value:
        nodes[at] = nodes[(at - 1) // 2]
        at = (at - 1) // 2
    nodes[at] = node
    values[node] = value


@jit
def _pop(heap, size):
    nodes, values = heap
    top = nodes[0]
    size[0] -= 1
    last, at = nodes[size[0]], 0
    while True:
        below = 2 * at + 1
        if below >= size[0]:
            break
        if below + 1 < size[0] and values[nodes[below + 1]] > values[nodes[below]]:
            below += 1
        if values[nodes[below]] <= values[last]:
            break
        nodes[at] = nodes[below]
        at = below
    nodes[at] = last
    return top


@jit
def _sums_next(plan, i):
    """Whether a summed part hangs on variable i: such children come first."""
    first = plan.child_start[i]
    return first < plan.child_start[i + 1] and plan.is_sum[plan.child[first]]


@jit
def best_first(plan, memory, turns, above, state, depth, value, heap, size, threshold, nodes, work):
    """Always extend the most promising partial assignment, in the order `turns` of maximised variables.

    Parameters
    ----------
    turns
        Maximised variables, ancestors first.
    above, state, depth, value
        (capacity,) per node: the node it extends, its last state, how many variables it sets (negative
        until its summed parts are summed), and its bound.
    heap, size
        Nodes by falling bound; how many are in the heap, and how many were made.
    threshold
        Value that a solution must exceed.
    nodes, work
        When to come back.

    Returns
    -------
    code, node
        `DONE` with the best node, -1 if none exceeds the threshold; `MORE`; or `FULL`.
    """
    x, count = memory.x, memory.tally
    limit, until = count[1] + nodes, count[2] + work
    queue = (heap, value)
    while size[0] > 0:
        if count[1] >= limit or count[2] >= until:
            return MORE, -1
        node = _pop(queue, size)
        if value[node] <= threshold:
            size[0] = 0
            break
        at, d = node, abs(depth[node])
        for t in range(d - 1, -1, -1):
            x[turns[t]] = state[at]
            at = above[at]
        count[2] += d
        if depth[node] < 0:
            i = turns[d - 1]
            bound = value[node]
            for e in range(plan.child_start[i], plan.child_start[i + 1]):
                if plan.is_sum[plan.child[e]] and bound > -np.inf:
                    bound += sum_children(plan, memory, plan.child[e]) - leaving(plan, plan.child[e], x)
            depth[node] = d
            if bound > threshold:
                _push(queue, size, min(bound, value[node]), node)
            continue
        if d == len(turns):
            return DONE, node
        i = turns[d]
        if size[1] + plan.sizes[i] > len(value):
            _push(queue, size, value[node], node)
            return FULL, -1
        out = memory.bound[plan.state_start[i] : plan.state_start[i + 1]]
        bounds(plan, i, x, out)
        count[1] += 1
        count[2] += 4 * (plan.pass_start[i + 1] - plan.pass_start[i]) + plan.sizes[i]
        hope = leaving(plan, i, x)
        for k in range(plan.sizes[i]):
            bound = value[node] + out[k] - hope
            if bound > threshold:
                made = size[1]
                size[1] += 1
                above[made], state[made] = node, k
                depth[made] = -(d + 1) if _sums_next(plan, i) else d + 1
                _push(queue, size, min(bound, value[node]), made)
    return DONE, -1
