"""Forests of a factor graph: which factors to keep, in which order to visit them, and how often they appear.

A set of factors is a forest if its bipartite graph with the variables has no cycle; variables with
one state are constants and close none (`free` flags the others). For factors over two variables
this is a forest of an ordinary graph, parallel edges allowed.
"""

from __future__ import annotations

import numpy as np

from .jit import jit

__all__ = ["greedy_forest", "rooted_order", "selected_inverse", "uniform_tree"]


@jit
def _find(parent, i):
    """Representative of the component of i, with path halving."""
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@jit
def greedy_forest(order, scope_start, scope, free):
    """Take the factors in this order, each unless it closes a cycle; one flag per factor.

    With factors over two variables sorted by falling weight this is the heaviest spanning forest.
    """
    taken = np.zeros(len(scope_start) - 1, np.bool_)
    parent = np.arange(len(free))
    for a in order:
        closes = False
        for e in range(scope_start[a], scope_start[a + 1]):
            if not free[scope[e]]:
                continue
            here = _find(parent, scope[e])
            for f in range(scope_start[a], e):
                if free[scope[f]] and _find(parent, scope[f]) == here:
                    closes = True
        if closes:
            continue
        taken[a] = True
        first = -1
        for e in range(scope_start[a], scope_start[a + 1]):
            if not free[scope[e]]:
                continue
            here = _find(parent, scope[e])
            if first < 0:
                first = here
            else:
                parent[here] = first
    return taken


@jit
def rooted_order(taken, scope_start, scope, free, neighbour_start, neighbour_edge, edge_factor):
    """Visit the taken factors outwards from one root per component.

    Returns the factors with two or more free variables in that order, and the edge that leads
    from each of them to the variable it was reached from.
    """
    n = len(free)
    order = np.empty(len(taken), np.int64)
    parent = np.empty(len(taken), np.int64)
    queue = np.empty(n, np.int64)
    seen = np.zeros(n, np.bool_)
    used = np.zeros(len(taken), np.bool_)
    count = 0
    for root in range(n):
        if seen[root] or not free[root]:
            continue
        seen[root] = True
        queue[0] = root
        head, tail = 0, 1
        while head < tail:
            i = queue[head]
            head += 1
            for q in range(neighbour_start[i], neighbour_start[i + 1]):
                e = neighbour_edge[q]
                a = edge_factor[e]
                if used[a] or not taken[a]:
                    continue
                used[a] = True
                links = False
                for f in range(scope_start[a], scope_start[a + 1]):
                    j = scope[f]
                    if f != e and free[j]:
                        links = True
                        seen[j] = True
                        queue[tail] = j
                        tail += 1
                if links:
                    order[count] = a
                    parent[count] = e
                    count += 1
    return order[:count].copy(), parent[:count].copy()


@jit
def uniform_tree(start, neighbour, edge, component, rng):
    """A uniformly random spanning forest by loop-erased random walks (Wilson); flags per edge.

    `neighbour[start[i]:start[i+1]]` are the far ends of the edges `edge[...]` at vertex i; each
    component is walked towards its lowest vertex.
    """
    n = len(component)
    taken = np.zeros(len(neighbour) // 2, np.bool_)
    inside = np.zeros(n, np.bool_)
    rooted = np.zeros(n, np.bool_)
    leave = np.zeros(n, np.int64)  # slot by which the walk last left each vertex
    for i in range(n):
        if not rooted[component[i]]:
            rooted[component[i]] = True
            inside[i] = True
    for begin in range(n):
        i = begin
        while not inside[i]:
            leave[i] = start[i] + int(rng.random() * (start[i + 1] - start[i]))
            i = neighbour[leave[i]]
        # Only the last exit from each vertex survives: loops are erased.
        i = begin
        while not inside[i]:
            inside[i] = True
            taken[edge[leave[i]]] = True
            i = neighbour[leave[i]]
    return taken


@jit
def selected_inverse(start, row, lower, diagonal):
    """Entries of (L D L^T)^-1 on the pattern of L, by the Takahashi recursion.

    Column j of the strictly lower part of L has the sorted rows `row[start[j]:start[j+1]]`. The
    pattern must be closed under elimination, as that of a Cholesky factor is. Returns the lower
    entries on the same pattern, and the diagonal.
    """
    n = len(diagonal)
    below = np.zeros(len(row))
    on = np.zeros(n)
    place = np.full(n, -1, np.int64)  # where each row stands in the current column
    for j in range(n - 1, -1, -1):
        first, last = start[j], start[j + 1]
        for p in range(first, last):
            place[row[p]] = p
        for p in range(first, last):
            k = row[p]
            below[p] -= lower[p] * on[k]
            # Rows of column k that are also rows of column j: pairs (i, k) with i > k.
            for q in range(start[k], start[k + 1]):
                other = place[row[q]]
                if other >= 0:
                    below[other] -= lower[p] * below[q]
                    below[p] -= lower[other] * below[q]
        value = 1.0 / diagonal[j]
        for p in range(first, last):
            value -= lower[p] * below[p]
            place[row[p]] = -1
        on[j] = value
    return below, on
