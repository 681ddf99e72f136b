"""Max-product and mixed-product BP on pairwise tables in positive numbers.

With psi and cavities c_i = B_i / m_{a->i} positive and of moderate range, a factor on i and j sends

    to_j(y) = max_x psi(x, y) c_i(x)        both maximised,
    to_j(y) = sum_x psi(x, y) c_i(x)        otherwise, where a maximised i that sends to a summed j
                                            keeps only the states that maximise its belief.

So kinds of factors differ in two things only: which products of matrix and vector they take, and whether
a cavity is confined first. Nothing takes a logarithm, and a sweep costs about as much as one of sums.
"""

from __future__ import annotations

import numpy as np

from .jit import inlined, jit
from .positive_messages import divide, extent, gather, matrix, reset, store

__all__ = ["mixed_sweeps", "pair_kinds"]

_U = np.uint64
_EQUAL = 1.0 - 1e-9  # of the best belief, from which a state counts as best too
_SUMS, _FIRST, _SECOND, _BOTH = 0, 1, 2, 3  # which variables of a pair are maximised


@jit
def pair_kinds(active, scope_start, scope, sizes, heat):
    """Per factor which of its two free variables are maximised (1: the first, 2: the second, 3: both)."""
    kinds = np.zeros(len(scope_start) - 1, np.int64)
    for q in range(len(active)):
        a, bit = active[q], 1
        for e in range(scope_start[a], scope_start[a + 1]):
            if sizes[scope[e]] > 1:
                if heat[scope[e]] == 0.0:
                    kinds[a] += bit
                bit *= 2
    return kinds


@inlined
def _best_pair(psi, t, rows, cols, work, left, right, to_left, to_right):
    """The messages of a matrix whose variables are both maximised, two columns at a time."""
    y = _U(0)
    for x in range(rows):
        work[to_left + x] = 0.0
    while y + _U(2) <= cols:
        r0, r1 = work[right + y], work[right + y + _U(1)]
        s0, s1 = 0.0, 0.0
        at = t + y
        for x in range(rows):
            weight, v0, v1 = work[left + x], psi[at], psi[at + _U(1)]
            w0, w1, h0, h1 = v0 * weight, v1 * weight, v0 * r0, v1 * r1
            s0 = w0 if w0 > s0 else s0
            s1 = w1 if w1 > s1 else s1
            here = h0 if h0 > h1 else h1
            work[to_left + x] = here if here > work[to_left + x] else work[to_left + x]
            at += cols
        work[to_right + y], work[to_right + y + _U(1)] = s0, s1
        y += _U(2)
    if y < cols:
        r0, s0 = work[right + y], 0.0
        at = t + y
        for x in range(rows):
            w0, here = psi[at] * work[left + x], psi[at] * r0
            s0 = w0 if w0 > s0 else s0
            work[to_left + x] = here if here > work[to_left + x] else work[to_left + x]
            at += cols
        work[to_right + y] = s0


@inlined
def _confined(belief, b, work, c, size, to):
    """The cavity at c of `work` without the states that do not maximise the belief, from position `to` on."""
    top = 0.0
    for k in range(size):
        top = max(top, belief[b + k])
    for k in range(size):
        work[to + k] = work[c + k] if belief[b + k] >= _EQUAL * top else 0.0


@jit
def mixed_sweeps(
    order, asynchronous, kinds, scope_start, scope, sizes, state_start, edge_state_start, psi, table_start,
    constant, messages, sweeps, tol,
):  # fmt: skip
    """Sweeps as `linear_sweeps` does them, over factors of two free variables; `kinds` is one per factor.

    Returns the largest change, in probability, of each sweep done.
    """
    widest = extent(order[0], scope_start, scope, sizes)[0]
    edges = np.zeros((len(kinds), 2), np.int64)
    place = np.full(len(scope), _U(2 * len(constant)))
    for q in range(order.shape[1]):
        side = 0
        for e in range(scope_start[order[0, q]], scope_start[order[0, q] + 1]):
            place[e] = _U(2 * state_start[scope[e]])
            if sizes[scope[e]] > 1:
                edges[order[0, q], side] = e
                side += 1
    belief, work = np.empty(2 * len(constant)), np.empty(6 * widest)
    dims = np.zeros(2, np.uint64)
    width = _U(widest)
    out, near = _U(2) * width, _U(4) * width
    changes = np.zeros(sweeps)
    for turn in range(sweeps):
        row = turn % len(order)
        now = 0 if asynchronous else turn % 2
        ahead = 0 if asynchronous else 1 - now
        if turn % 8 == 0:  # running products pile up rounding
            reset(belief, now, state_start, constant)
            gather(belief, now, place, edge_state_start, messages)
        if not asynchronous:
            reset(belief, ahead, state_start, constant)
        change = 0.0
        for q in range(order.shape[1]):
            a = order[row, q]
            t, kind = _U(table_start[a]), kinds[a]
            for j in range(2):
                e = edges[a, j]
                g = _U(edge_state_start[e])
                size = _U(edge_state_start[e + 1]) - g
                dims[j] = size
                b, c = place[e] + _U(now) * size, _U(j) * width
                divide(belief, b, messages, g, size, work, c)
                if kind == j + 1:
                    _confined(belief, b, work, c, size, near + c)
            if kind == _BOTH:
                _best_pair(psi, t, dims[0], dims[1], work, _U(0), width, out, out + width)
            elif kind == _SUMS:
                matrix(psi, t, dims[0], dims[1], work, _U(0), width, out, out + width)
            elif kind == _FIRST:
                matrix(psi, t, dims[0], dims[1], work, near, width, out, out + width)
            else:
                matrix(psi, t, dims[0], dims[1], work, _U(0), near + width, out, out + width)
            for j in range(2):
                e, c = edges[a, j], _U(j) * width
                moved = store(
                    work, out + c, c, dims[j], messages, _U(edge_state_start[e]), belief,
                    place[e] + _U(ahead) * dims[j], asynchronous,
                )  # fmt: skip
                change = max(change, moved)
        changes[turn] = change
        if change < tol:
            return changes[: turn + 1]
    return changes
