"""Sparse symmetric matrices: the factorisation P'JP = L D L', and the diagonal of the inverse.

Columns are numbered in the order of elimination. Column j of L has ones on the diagonal, which are not
stored, and entries at the ascending rows row[start[j] : start[j + 1]]; the pattern must hold all fill-in, as
the cliques of an elimination order do. The inverse Z = J^-1 obeys

    Z L = L'^-1 D^-1      so that      Z_ij = [i = j] / d_j - sum_{k > j} Z_ik L_kj,      i >= j,

which, from the last column to the first, needs no entries of Z but those in the pattern of L.
"""

from __future__ import annotations

import numpy as np

from .jit import jit

__all__ = ["backward", "column_counts", "factorise", "forward", "inverse_diagonal"]


@jit
def column_counts(start, neighbour, order, limit, count):
    """Entries below the diagonal in each column of L, without making it; their sum, or more than `limit`.

    Row i of L has an entry in every column on the ways from its neighbours up to i in the elimination tree,
    where the parent of a column is the first row in which it has an entry.
    """
    n = len(order)
    rank = np.empty(n, np.int64)
    rank[order] = np.arange(n)
    parent = np.full(n, -1, np.int64)
    reached = np.full(n, -1, np.int64)
    total = 0
    for i in range(n):
        reached[i] = i
        v = order[i]
        for e in range(start[v], start[v + 1]):
            j = rank[neighbour[e]]
            while j < i and reached[j] != i:
                if parent[j] < 0:
                    parent[j] = i
                reached[j] = i
                count[j] += 1
                total += 1
                j = parent[j]
        if total > limit:
            return total
    return total


@jit
def factorise(start, row, diagonal, entry, least, value, pivot):
    """Fill L (`value`) and D (`pivot`) column by column; the first column whose pivot is too small, or -1.

    `entry` holds the entries of the matrix below the diagonal at the places of the pattern, `least[j]` what
    pivot j must exceed.
    """
    n = len(diagonal)
    work = np.zeros(n)
    head = np.full(n, -1, np.int64)  # the first column that changes column j next
    link = np.full(n, -1, np.int64)  # the column after it in that list
    at = start[:-1].copy()  # where column k goes on
    for j in range(n):
        d = diagonal[j]
        for e in range(start[j], start[j + 1]):
            work[row[e]] = entry[e]
        k = head[j]
        while k >= 0:
            after = link[k]
            e = at[k]
            factor = value[e] * pivot[k]
            d -= factor * value[e]
            for f in range(e + 1, start[k + 1]):
                work[row[f]] -= factor * value[f]
            at[k] = e + 1
            if e + 1 < start[k + 1]:
                link[k] = head[row[e + 1]]
                head[row[e + 1]] = k
            k = after
        pivot[j] = d
        if not d > least[j]:
            return j
        for e in range(start[j], start[j + 1]):
            value[e] = work[row[e]] / d
            work[row[e]] = 0.0
        if start[j] < start[j + 1]:
            link[j] = head[row[start[j]]]
            head[row[start[j]]] = j
    return -1


@jit
def forward(start, row, value, x):
    """Replace x by L^-1 x."""
    for j in range(len(start) - 1):
        for e in range(start[j], start[j + 1]):
            x[row[e]] -= value[e] * x[j]


@jit
def backward(start, row, value, x):
    """Replace x by L'^-1 x."""
    for j in range(len(start) - 2, -1, -1):
        for e in range(start[j], start[j + 1]):
            x[j] -= value[e] * x[row[e]]


@jit
def inverse_diagonal(start, row, value, pivot):
    """The diagonal of (L D L')^-1, by the entries of the inverse in the pattern of L."""
    n = len(pivot)
    diagonal = np.empty(n)
    inverse = np.empty(len(row))
    place = np.full(n, -1, np.int64)  # where a row stands in the column that is being made
    for j in range(n - 1, -1, -1):
        first, last = start[j], start[j + 1]
        for e in range(first, last):
            place[row[e]] = e
            inverse[e] = 0.0
        for e in range(first, last):
            k = row[e]
            inverse[e] -= value[e] * diagonal[k]
            for f in range(start[k], start[k + 1]):
                g = place[row[f]]
                if g >= 0:
                    inverse[e] -= value[g] * inverse[f]
                    inverse[g] -= value[e] * inverse[f]
        total = 1.0 / pivot[j]
        for e in range(first, last):
            total -= value[e] * inverse[e]
            place[row[e]] = -1
        diagonal[j] = total
    return diagonal
