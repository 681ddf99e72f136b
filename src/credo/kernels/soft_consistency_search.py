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
    propagate,
    queue_all,
    remove,
    undo,
)
from .soft_consistency_root import assignment_cost

__all__ = ["OpenNodes", "Stack", "compact", "fresh_stack", "fresh_tree", "search"]

# Positions in OpenNodes.count
NODES, OPEN, LIMIT, SEEN, DEAD_ENDS, REPEATED, STAMPS, LAST, SOLUTIONS = 0, 1, 2, 3, 4, 5, 6, 7, 8


class OpenNodes(NamedTuple):
    """The tree of decisions and the heap of its open leaves."""

    parent: np.ndarray  # node above, -1 for the root
    variable: np.ndarray  # of the decision that leads here, -1 for none
    state: np.ndarray  # taken, or -1 - state if ruled out
    bound: np.ndarray  # lower bound on the cost of what is below
    heap: np.ndarray  # open nodes, the lowest bound first
    count: np.ndarray  # nodes, open ones, dead ends per dive, nodes seen, ...


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


def fresh_tree(capacity: int) -> OpenNodes:
    """Only the root, open."""
    whole = np.int64
    tree = OpenNodes(
        np.full(capacity, -1, whole),
        np.full(capacity, -1, whole),
        np.zeros(capacity, whole),
        np.zeros(capacity),
        np.zeros(capacity, whole),
        np.zeros(9, whole),
    )
    tree.count[NODES], tree.count[OPEN], tree.count[LIMIT], tree.count[LAST] = 1, 1, 1, -1
    return tree


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
def _push_open(tree, node):
    """Put a node on the heap."""
    at = tree.count[OPEN]
    tree.count[OPEN] += 1
    bound = tree.bound[node]
    while at > 0:
        above = (at - 1) // 2
        if tree.bound[tree.heap[above]] <= bound:
            break
        tree.heap[at] = tree.heap[above]
        at = above
    tree.heap[at] = node


@inner
def _pop_open(tree):
    """Take the node with the lowest bound off the heap."""
    top = tree.heap[0]
    tree.count[OPEN] -= 1
    left = tree.count[OPEN]
    node = tree.heap[left]
    at = 0
    while 2 * at + 1 < left:
        below = 2 * at + 1
        if below + 1 < left and tree.bound[tree.heap[below + 1]] < tree.bound[tree.heap[below]]:
            below += 1
        if tree.bound[tree.heap[below]] >= tree.bound[node]:
            break
        tree.heap[at] = tree.heap[below]
        at = below
    tree.heap[at] = node
    return top


@inner
def _add(tree, parent, variable, state, bound):
    node = tree.count[NODES]
    tree.count[NODES] += 1
    tree.parent[node], tree.variable[node], tree.state[node] = parent, variable, state
    tree.bound[node] = bound
    return node


@jit
def compact(tree):
    """Forget nodes with no open node below; keeps the order, parents first."""
    nodes = tree.count[NODES]
    place = np.full(nodes, -1, np.int64)
    for t in range(tree.count[OPEN]):
        place[tree.heap[t]] = 1
    for node in range(nodes - 1, 0, -1):
        if place[node] > 0 and tree.parent[node] >= 0:
            place[tree.parent[node]] = 1
    kept = 0
    for node in range(nodes):
        if place[node] > 0:
            place[node] = kept
            above = tree.parent[node]
            tree.parent[kept] = place[above] if above >= 0 else -1
            tree.variable[kept], tree.state[kept] = tree.variable[node], tree.state[node]
            tree.bound[kept] = tree.bound[node]
            kept += 1
    for t in range(tree.count[OPEN]):
        tree.heap[t] = place[tree.heap[t]]
    tree.count[NODES] = kept


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
def _reduced(net, work, a):
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
        c = _reduced(net, work, a)
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
    work.count[OPERATIONS] += 4 * net.table_start.shape[0]
    last = tree.count[LAST]
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
    a = work.count[CULPRIT]
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
        tree.count[SOLUTIONS] += 1


@inner
def _leave_open(tree, stack, depth, node, bound, c0):
    """Turn the rest of a dive into open nodes: the alternatives on the way, and where it stands."""
    for d in range(depth):
        if stack.state[d] >= 0:
            other = _add(tree, node, stack.variable[d], -1 - stack.state[d], max(bound, stack.other[d]))
            _push_open(tree, other)
        node = _add(tree, node, stack.variable[d], stack.state[d], bound)
    tree.bound[node] = max(bound, c0)
    _push_open(tree, node)


@inner
def _turn(net, work, tree, stack, depth):
    """From a dead end to the next alternative, decided but not propagated; its depth, -1 if there is none."""
    while True:
        _blame_culprit(net, work)
        tree.count[DEAD_ENDS] += 1
        while depth > 0 and stack.state[depth - 1] < 0:
            depth -= 1
        if depth == 0:
            return -1
        d = depth - 1
        undo(net, work, stack.trail[d], stack.gone[d], stack.c0[d])
        _next_level(work, tree)
        tree.count[LAST] = stack.variable[d]
        stack.state[d] = -1 - stack.state[d]
        if not _decide(net, work, stack.variable[d], stack.state[d]):
            return depth


@inner
def _next_level(work, tree):
    tree.count[STAMPS] += 1
    tree.count[SEEN] += 1
    work.count[STAMP] = tree.count[STAMPS]
    work.count[CULPRIT] = -1


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
    stack.trail[depth], stack.gone[depth] = work.count[TRAIL], work.count[GONE]
    stack.c0[depth], stack.other[depth] = work.number[C0], work.number[C0] + second
    _next_level(work, tree)
    return _decide(net, work, i, k)


_LONGEST = 1 << 14  # dead ends per dive at most


@inner
def _end_dive(net, work, tree, stack):
    """Back to the root; longer dives if too much is spent on repeating decisions, shorter ones otherwise."""
    undo(net, work, 0, stack.gone[-1], stack.c0[-1])
    work.count[STAMP] = 0
    if 10 * tree.count[REPEATED] > work.count[OPERATIONS] and tree.count[LIMIT] < _LONGEST:
        tree.count[LIMIT] *= 2
    elif 20 * tree.count[REPEATED] < work.count[OPERATIONS] and tree.count[LIMIT] > 1:
        tree.count[LIMIT] //= 2


_ROOT, _REPEAT, _DIVE = 0, 1, 2  # what the next propagation belongs to


@jit
def search(net, work, tree, stack, constant, operations, nodes, tiny):
    """Dive until all is seen, so many operations or nodes are used, or memory for nodes runs short.

    Returns True if nothing is open any more: the best assignment is then optimal within the slack.
    """
    last_operation = work.count[OPERATIONS] + operations
    last_node = tree.count[SEEN] + nodes
    room = tree.parent.shape[0] - 2 * stack.variable.shape[0] - 2
    spare = work.trail_place.shape[0] - 2 * work.stamp.shape[0]
    depth, node, bound, ends, before, expanded = 0, 0, 0.0, 0, 0, 0
    task, dead = _ROOT, False
    work.count[STAMP] = 0
    queue_all(net, work)
    while True:
        # The one call of the propagation: compiled code stays small.
        dead = dead or propagate(net, work)
        if task == _ROOT and dead:
            tree.count[OPEN] = 0
            return True
        if task == _REPEAT:
            tree.count[REPEATED] += work.count[OPERATIONS] - before
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
                tree.count[DEAD_ENDS] >= ends
                or work.count[OPERATIONS] > last_operation
                or tree.count[SEEN] >= last_node
                or work.count[TRAIL] > spare
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
            if tree.count[SOLUTIONS] != stack.gone[-2]:
                task = _ROOT
                queue_all(net, work)
                stack.gone[-2] = tree.count[SOLUTIONS]
                continue
        if tree.count[OPEN] == 0:
            return True
        if (
            work.count[OPERATIONS] > last_operation
            or tree.count[SEEN] >= last_node
            or tree.count[NODES] > room
        ):
            return False
        node = _pop_open(tree)
        bound = tree.bound[node]
        if bound >= work.number[UPPER] - work.number[SLACK]:
            tree.count[OPEN] = 0
            return True
        stack.gone[-1], stack.c0[-1] = work.count[GONE], work.number[C0]
        _next_level(work, tree)
        before, depth, expanded = work.count[OPERATIONS], 0, 0
        ends = tree.count[DEAD_ENDS] + tree.count[LIMIT]
        dead = _repeat(net, work, tree, node, stack.path)
        task = _REPEAT
