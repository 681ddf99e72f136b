"""The open nodes of a branch and bound: a tree of decisions, and a heap of its open leaves."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .jit import inner, jit

__all__ = [
    "DEAD_ENDS",
    "LAST",
    "LIMIT",
    "NODES",
    "OPEN",
    "REPEATED",
    "SEEN",
    "SOLUTIONS",
    "STAMPS",
    "OpenNodes",
    "add_node",
    "compact",
    "fresh_tree",
    "pop_open",
    "push_open",
]

# Positions in OpenNodes.tally
NODES, OPEN, LIMIT, SEEN, DEAD_ENDS, REPEATED, STAMPS, LAST, SOLUTIONS = 0, 1, 2, 3, 4, 5, 6, 7, 8


class OpenNodes(NamedTuple):
    """The tree of decisions and the heap of its open leaves."""

    parent: np.ndarray  # node above, -1 for the root
    variable: np.ndarray  # of the decision that leads here, -1 for none
    state: np.ndarray  # taken, or -1 - state if ruled out
    bound: np.ndarray  # lower bound on the cost of what is below
    heap: np.ndarray  # open nodes, the lowest bound first
    tally: np.ndarray  # nodes, open ones, dead ends per dive, nodes seen, ...


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
    tree.tally[NODES], tree.tally[OPEN], tree.tally[LIMIT], tree.tally[LAST] = 1, 1, 1, -1
    return tree


@inner
def push_open(tree, node):
    """Put a node on the heap."""
    at = tree.tally[OPEN]
    tree.tally[OPEN] += 1
    bound = tree.bound[node]
    while at > 0:
        above = (at - 1) // 2
        if tree.bound[tree.heap[above]] <= bound:
            break
        tree.heap[at] = tree.heap[above]
        at = above
    tree.heap[at] = node


@inner
def pop_open(tree):
    """Take the node with the lowest bound off the heap."""
    top = tree.heap[0]
    tree.tally[OPEN] -= 1
    left = tree.tally[OPEN]
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
def add_node(tree, parent, variable, state, bound):
    """A new node below `parent`; returns it."""
    node = tree.tally[NODES]
    tree.tally[NODES] += 1
    tree.parent[node], tree.variable[node], tree.state[node] = parent, variable, state
    tree.bound[node] = bound
    return node


@jit
def compact(tree):
    """Forget nodes with no open node below; keeps the order, parents first."""
    nodes = tree.tally[NODES]
    place = np.full(nodes, -1, np.int64)
    for t in range(tree.tally[OPEN]):
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
    for t in range(tree.tally[OPEN]):
        tree.heap[t] = place[tree.heap[t]]
    tree.tally[NODES] = kept
