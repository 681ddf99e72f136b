"""Hybrid best-first branch and bound over a network kept soft-consistent.

Open nodes lie in a tree of decisions (take a state, or rule it out) and in a heap by their bounds. A dive
takes the open node with the lowest bound, repeats its decisions, and searches depth first until so many
dead ends are met; what is left open goes back to the heap. The lowest bound on the heap is therefore a
bound on everything not yet seen, and it rises while the search goes on.

A node is closed when the states supporting its bound form an assignment that costs no more than the
bound. Otherwise a variable of a factor that contradicts these states is branched on: the one of the last
dead end, or the one with many dead ends around it, much contradicted cost and few states.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .jit import inner, jit
from .soft_consistency import (
    C0,
    CULPRIT,
    GAIN,
    GONE,
    OPERATIONS,
    SLACK,
    STAMP,
    TRAIL,
    UPPER,
    Network,
    queue_all,
    remove,
    undo,
)
from .soft_consistency_moves import propagate
from .soft_consistency_nodes import (
    DEAD_ENDS,
    LAST,
    LIMIT,
    NODES,
    OPEN,
    REPEATED,
    SEEN,
    SOLUTIONS,
    STAMPS,
    add_node,
    pop_open,
    push_open,
)
from .soft_consistency_root import assignment_cost

__all__ = ["Stack", "fresh_stack", "search"]


class Stack(NamedTuple):
    """One dive: entry d belongs to the decision at depth d."""

    variable: np.ndarray  # decided on
    state: np.ndarray  # taken, or -1 - state if ruled out
    trail: np.ndarray  # length of the trail before
    gone: np.ndarray  # removed states before
    c0: np.ndarray  # bound before
    other: np.ndarray  # bound of the alternative
    path: np.ndarray  # decisions being repeated
    blame: np.ndarray  # (n,) contradicted cost per variable


def fresh_stack(net: Network) -> Stack:
    """Room for the deepest dive: every decision removes a state. Two entries more describe the root."""
    depth, whole = int(net.state_start[-1]) + 2, np.int64
    return Stack(
        np.zeros(depth, whole),
        np.zeros(depth, whole),
        np.zeros(depth, whole),
        np.zeros(depth, whole),
        np.zeros(depth),
        np.zeros(depth),
        np.zeros(depth, whole),
        np.zeros(len(net.state_start) - 1),
    )


@inner
def _decide(net, work, i, state):
    """Take a state (or rule out -1 - state); True if that leaves none."""
    start = net.state_start[i]
    k = state if state >= 0 else -1 - state
    there = work.place[start + k] < work.size[i]
    if state < 0:
        if there:
            remove(net, work, i, k)
        return work.size[i] == 0
    if not there:
        return True
    for p in range(work.size[i] - 1, -1, -1):
        s = work.domain[start + p]
        if s != k:
            remove(net, work, i, s)
    return False


@inner
def _repeat(net, work, tree, node, path):
    """Make all decisions that lead to a node; True if one is impossible."""
    length = 0
    while tree.parent[node] >= 0:
        path[length] = node
        length += 1
        node = tree.parent[node]
    for t in range(length - 1, -1, -1):
        if _decide(net, work, tree.variable[path[t]], tree.state[path[t]]):
            return True
    return False


@inner
def _reduce(net, work, a):
    """What factor a still costs at the supporting states."""
    at, c = net.table_start[a], 0.0
    for f in range(net.scope_start[a], net.scope_start[a + 1]):
        s = work.support[net.scope[f]]
        at += s * net.stride[f]
        c -= work.shift[net.edge_start[f] + s]
    return c + net.tables[at]


@inner
def _refresh_supports(net, work):
    """Give every variable a cheapest state as support: the present one, the best known one, or any."""
    for i in range(work.size.shape[0]):
        start, now, known = net.state_start[i], work.support[i], work.best[i]
        least = np.inf
        for p in range(start, start + work.size[i]):
            least = min(least, work.unary[start + work.domain[p]])
        limit = least + work.number[GAIN]
        if work.place[start + now] < work.size[i] and work.unary[start + now] <= limit:
            continue
        if known >= 0 and work.place[start + known] < work.size[i] and work.unary[start + known] <= limit:
            work.support[i] = known
            continue
        for p in range(start, start + work.size[i]):
            if work.unary[start + work.domain[p]] <= least:
                work.support[i] = work.domain[p]
                break


@inner
def _choose(net, work, tree, blame, tiny):
    """The variable to branch on, -1 if the supporting states contradict nothing; and their cost."""
    n = work.size.shape[0]
    for i in range(n):
        blame[i] = 0.0
    top, total = 0.0, work.number[C0]
    for a in range(net.table_start.shape[0]):
        c = _reduce(net, work, a)
        total += c
        if c > tiny:
            c = min(c, work.number[UPPER] - work.number[C0])
            for f in range(net.scope_start[a], net.scope_start[a + 1]):
                blame[net.scope[f]] += min(c, 1e100)
            top = max(top, c)
    for i in range(n):
        u = work.unary[net.state_start[i] + work.support[i]]
        total += u
        if u > tiny:
            blame[i] += u
    work.tally[OPERATIONS] += 4 * net.table_start.shape[0]
    last = tree.tally[LAST]
    if last >= 0 and work.size[last] > 1 and top > 0:
        return last, total
    chosen, highest = -1, 0.0
    for i in range(n):
        if work.size[i] > 1 and blame[i] > 0:
            value = work.degree[i] / work.size[i] + 1e-6 * blame[i]
            if value > highest:
                highest = value
                chosen = i
    return chosen, total


@inner
def _blame_culprit(net, work):
    """A dead end: its factor, and the variables of it, weigh more from now on."""
    a = work.tally[CULPRIT]
    if a >= 0 and a < work.weight.shape[0]:
        work.weight[a] += 1
        for f in range(net.scope_start[a], net.scope_start[a + 1]):
            work.degree[net.scope[f]] += 1


@inner
def _record(net, work, tree, constant):
    """Keep the supporting states if they are the best assignment so far."""
    cost = assignment_cost(net, constant, work.support)
    if cost < work.number[UPPER]:
        work.number[UPPER] = cost
        for i in range(work.best.shape[0]):
            work.best[i] = work.support[i]
        tree.tally[SOLUTIONS] += 1


@inner
def _leave_open(tree, stack, depth, node, bound, c0):
    """Turn the rest of a dive into open nodes: the alternatives on the way, and where it stands."""
    for d in range(depth):
        if stack.state[d] >= 0:
            other = add_node(tree, node, stack.variable[d], -1 - stack.state[d], max(bound, stack.other[d]))
            push_open(tree, other)
        node = add_node(tree, node, stack.variable[d], stack.state[d], bound)
    tree.bound[node] = max(bound, c0)
    push_open(tree, node)


@inner
def _turn(net, work, tree, stack, depth):
    """From a dead end to the next alternative, decided but not propagated; its depth, -1 if there is none."""
    while True:
        _blame_culprit(net, work)
        tree.tally[DEAD_ENDS] += 1
        while depth > 0 and stack.state[depth - 1] < 0:
            depth -= 1
        if depth == 0:
            return -1
        d = depth - 1
        undo(net, work, stack.trail[d], stack.gone[d], stack.c0[d])
        _next_level(work, tree)
        tree.tally[LAST] = stack.variable[d]
        stack.state[d] = -1 - stack.state[d]
        if not _decide(net, work, stack.variable[d], stack.state[d]):
            return depth


@inner
def _next_level(work, tree):
    tree.tally[STAMPS] += 1
    tree.tally[SEEN] += 1
    work.tally[STAMP] = tree.tally[STAMPS]
    work.tally[CULPRIT] = -1


@inner
def _branch(net, work, tree, stack, depth, i):
    """Take the supporting state of variable i; what the alternative would cost at least is remembered."""
    start, k = net.state_start[i], work.support[i]
    second = np.inf
    for p in range(start, start + work.size[i]):
        s = work.domain[p]
        if s != k:
            second = min(second, work.unary[start + s])
    stack.variable[depth], stack.state[depth] = i, k
    stack.trail[depth], stack.gone[depth] = work.tally[TRAIL], work.tally[GONE]
    stack.c0[depth], stack.other[depth] = work.number[C0], work.number[C0] + second
    _next_level(work, tree)
    return _decide(net, work, i, k)


_LONGEST = 1 << 14  # dead ends per dive at most


@inner
def _end_dive(net, work, tree, stack):
    """Back to the root; longer dives if too much is spent on repeating decisions, shorter ones otherwise."""
    undo(net, work, 0, stack.gone[-1], stack.c0[-1])
    work.tally[STAMP] = 0
    if 10 * tree.tally[REPEATED] > work.tally[OPERATIONS] and tree.tally[LIMIT] < _LONGEST:
        tree.tally[LIMIT] *= 2
    elif 20 * tree.tally[REPEATED] < work.tally[OPERATIONS] and tree.tally[LIMIT] > 1:
        tree.tally[LIMIT] //= 2


@inner
def _fetch(work, tree, stack):
    """Take the open node with the lowest bound and begin a level for it; -1 if none can be better."""
    if tree.tally[OPEN] == 0:
        return -1
    node = pop_open(tree)
    if tree.bound[node] >= work.number[UPPER] - work.number[SLACK]:
        tree.tally[OPEN] = 0
        return -1
    stack.gone[-1], stack.c0[-1] = work.tally[GONE], work.number[C0]
    _next_level(work, tree)
    return node


_ROOT, _REPEAT, _DIVE = 0, 1, 2  # what the next propagation belongs to


@jit
def search(net, work, tree, stack, constant, operations, nodes, tiny):
    """Dive until all is seen, so many operations or nodes are used, or memory for nodes runs short.

    Returns True if nothing is open any more: the best assignment is then optimal within the slack.
    """
    last_operation = work.tally[OPERATIONS] + operations
    last_node = tree.tally[SEEN] + nodes
    room = tree.parent.shape[0] - 2 * stack.variable.shape[0] - 2
    spare = work.trail_place.shape[0] - 2 * work.stamp.shape[0]
    depth, node, bound, ends, before, expanded = 0, 0, 0.0, 0, 0, 0
    task, dead = _ROOT, False
    work.tally[STAMP] = 0
    queue_all(net, work)
    while True:
        # The one call of the propagation: compiled code stays small.
        dead = dead or propagate(net, work)
        if task == _ROOT and dead:
            tree.tally[OPEN] = 0
            return True
        if task == _REPEAT:
            tree.tally[REPEATED] += work.tally[OPERATIONS] - before
            task = _DIVE
        if task == _DIVE:
            i = -1
            if not dead:
                _refresh_supports(net, work)
                i, total = _choose(net, work, tree, stack.blame, tiny)
                if total < work.number[UPPER] + work.number[SLACK]:
                    _record(net, work, tree, constant)
                dead = i < 0 or work.number[C0] >= work.number[UPPER] - work.number[SLACK]
            if dead:
                depth = _turn(net, work, tree, stack, depth)
            elif expanded > 0 and (
                tree.tally[DEAD_ENDS] >= ends
                or work.tally[OPERATIONS] > last_operation
                or tree.tally[SEEN] >= last_node
                or work.tally[TRAIL] > spare
            ):
                _leave_open(tree, stack, depth, node, bound, work.number[C0])
                depth = -1
            else:
                expanded += 1
                dead = _branch(net, work, tree, stack, depth, i)
                depth += 1
                continue
            dead = False
            if depth >= 0:
                continue
            _end_dive(net, work, tree, stack)
            if tree.tally[SOLUTIONS] != stack.gone[-2]:
                task = _ROOT
                queue_all(net, work)
                stack.gone[-2] = tree.tally[SOLUTIONS]
                continue
        if tree.tally[OPEN] > 0 and (
            work.tally[OPERATIONS] > last_operation
            or tree.tally[SEEN] >= last_node
            or tree.tally[NODES] > room
        ):
            return False
        node = _fetch(work, tree, stack)
        if node < 0:
            return True
        before, depth, expanded = work.tally[OPERATIONS], 0, 0
        bound, ends = tree.bound[node], tree.tally[DEAD_ENDS] + tree.tally[LIMIT]
        dead = _repeat(net, work, tree, node, stack.path)
        task = _REPEAT
