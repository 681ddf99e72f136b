"""Plain BP on pairwise binary models, with one ratio m(1) / m(0) per message.

    to_j = (p01 + p11 c_i) / (p00 + p10 c_i),     c_i = (prod of all ratios at i) / (own ratio)

for positive tables of moderate range; a message costs a few nanoseconds. Divisions are most of that:
the fraction is expanded by the own ratio, so that the cavity c_i needs none.
"""

from __future__ import annotations

import numpy as np

from .arrays import copy
from .jit import inlined, jit, parallel, prange

__all__ = [
    "binary_beliefs",
    "binary_ordered",
    "binary_read",
    "binary_sweeps",
    "binary_sweeps_parallel",
    "prepare_binary",
]


@inlined
def _binary_pair(p, a, bi, r, bj, s):
    """Ratios sent by pairwise factor a, given the beliefs of its variables and its old messages r, s."""
    to_i = (p[a, 2] * s + p[a, 3] * bj) / (p[a, 0] * s + p[a, 1] * bj)
    to_j = (p[a, 1] * r + p[a, 3] * bi) / (p[a, 0] * r + p[a, 2] * bi)
    return to_i, to_j


@inlined
def _larger_gap(change, new, old):
    """The larger of `change` and the change in probability from ratio `old` to `new`."""
    gap, scale = abs(new - old), (1.0 + new) * (1.0 + old)
    return gap / scale if gap > change * scale else change  # divide only for a new maximum


@jit
def binary_beliefs(first, second, prior, ratio, belief):
    """Products of the prior ratio and all ratios at each variable."""
    copy(prior, belief)
    for a in range(len(first)):
        belief[first[a]] *= ratio[a, 0]
        belief[second[a]] *= ratio[a, 1]


@jit
def binary_sweeps(first, second, p, prior, ratio, sweeps, tol):
    """Flooding BP on pairwise binary factors, one ratio m(1)/m(0) per message; in place.

    Factor a joins variables first[a] and second[a] with the table p[a] = (p00, p01, p10, p11);
    `prior` is the ratio of the unary factors, `ratio[a]` the messages to the first and the second.
    Returns the largest change, in probability, of each sweep done.
    """
    n = len(prior)
    belief = np.empty((2, n))
    binary_beliefs(first, second, prior, ratio, belief[0])
    changes = np.zeros(sweeps)
    for turn in range(sweeps):
        now, ahead = turn % 2, 1 - turn % 2
        for i in range(n):
            belief[ahead, i] = prior[i]
        change = 0.0
        for a in range(len(first)):
            i, j = first[a], second[a]
            r, s = ratio[a, 0], ratio[a, 1]
            to_i, to_j = _binary_pair(p, a, belief[now, i], r, belief[now, j], s)
            change = _larger_gap(_larger_gap(change, to_i, r), to_j, s)
            ratio[a, 0], ratio[a, 1] = to_i, to_j
            belief[ahead, i] *= to_i
            belief[ahead, j] *= to_j
        changes[turn] = change
        if change < tol:
            return changes[: turn + 1]
    return changes


@jit
def binary_ordered(order, first, second, p, prior, ratio, sweeps, tol):
    """As `binary_sweeps`, but every new message is used at once; rows of `order` are taken in turn."""
    belief = np.empty(len(prior))
    changes = np.zeros(sweeps)
    for turn in range(sweeps):
        binary_beliefs(first, second, prior, ratio, belief)
        change = 0.0
        row = order[turn % len(order)]
        for q in range(len(row)):
            a = row[q]
            i, j = first[a], second[a]
            r, s = ratio[a, 0], ratio[a, 1]
            bi, bj = belief[i], belief[j]
            to_i, to_j = _binary_pair(p, a, bi, r, bj, s)
            change = _larger_gap(_larger_gap(change, to_i, r), to_j, s)
            ratio[a, 0], ratio[a, 1] = to_i, to_j
            belief[i], belief[j] = bi * to_i / r, bj * to_j / s
        changes[turn] = change
        if change < tol:
            return changes[: turn + 1]
    return changes


@parallel
def binary_sweeps_parallel(first, second, p, prior, ratio, sweeps, tol, blocks):
    """Flooding as in `binary_sweeps`, over as many cores as there are blocks of factors.

    Each core multiplies the ratios of its own factors, in order, into beliefs of its own; gathering
    them variable by variable would jump through memory.
    """
    n, m = len(prior), len(first)
    belief = np.empty(n)
    parts = np.ones((blocks, n))
    binary_beliefs(first, second, prior, ratio, belief)
    changes = np.zeros(sweeps)
    worst = np.zeros(blocks)
    for turn in range(sweeps):
        for block in prange(blocks):
            change = 0.0
            for a in range(block * m // blocks, (block + 1) * m // blocks):
                i, j = first[a], second[a]
                r, s = ratio[a, 0], ratio[a, 1]
                to_i, to_j = _binary_pair(p, a, belief[i], r, belief[j], s)
                change = _larger_gap(_larger_gap(change, to_i, r), to_j, s)
                ratio[a, 0], ratio[a, 1] = to_i, to_j
                parts[block, i] *= to_i
                parts[block, j] *= to_j
            worst[block] = change
        for i in prange(n):
            value = prior[i]
            for block in range(blocks):
                value *= parts[block, i]
                parts[block, i] = 1.0
            belief[i] = value
        changes[turn] = worst.max()
        if changes[turn] < tol:
            return changes[: turn + 1]
    return changes


@jit
def prepare_binary(active, constant, scope_start, scope, sizes, state_start, tables, table_start):
    """Arrays of `binary_sweeps` for the active factors, and the two edges of each."""
    m = len(active)
    first, second = np.empty(m, np.int64), np.empty(m, np.int64)
    edges = np.empty((m, 2), np.int64)
    p = np.empty((m, 4))
    for q in range(m):
        a = active[q]
        side = 0
        for e in range(scope_start[a], scope_start[a + 1]):
            if sizes[scope[e]] > 1:
                edges[q, side] = e
                side += 1
        first[q], second[q] = scope[edges[q, 0]], scope[edges[q, 1]]
        t = table_start[a]
        top = max(tables[t], tables[t + 1], tables[t + 2], tables[t + 3])
        for k in range(4):
            p[q, k] = np.exp(tables[t + k] - top)
    prior = np.ones(len(sizes))
    for i in range(len(sizes)):
        if sizes[i] > 1:
            prior[i] = np.exp(constant[state_start[i] + 1] - constant[state_start[i]])
    return first, second, p, prior, edges


@jit
def binary_read(
    active, free, first, second, p, prior, ratio, scope_start, scope, sizes, state_start, tables, table_start
):
    """Marginals, factor beliefs and the Bethe log Z of a binary state."""
    n, m = len(sizes), len(scope_start) - 1
    belief = np.empty(n)
    binary_beliefs(first, second, prior, ratio, belief)
    marginals = np.ones(state_start[-1])
    entropy = np.zeros(n)
    for i in range(n):
        if sizes[i] > 1:
            one = belief[i] / (1.0 + belief[i])
            zero = 1.0 / (1.0 + belief[i])
            marginals[state_start[i]], marginals[state_start[i] + 1] = zero, one
            entropy[i] = (-zero * np.log(zero) if zero > 0.0 else 0.0) - (
                one * np.log(one) if one > 0.0 else 0.0
            )
    start = np.zeros(m + 1, np.int64)
    for a in range(m):
        start[a + 1] = start[a] + (1 << free[a])
    out = np.empty(start[m])
    value = 0.0
    for i in range(n):
        value += entropy[i]
    for a in range(m):
        t = table_start[a]
        if free[a] == 0:
            out[start[a]] = 1.0
            value += tables[t]
        elif free[a] == 1:
            for e in range(scope_start[a], scope_start[a + 1]):
                i = scope[e]
                if sizes[i] > 1:
                    for k in range(2):
                        out[start[a] + k] = marginals[state_start[i] + k]
                        value += out[start[a] + k] * tables[t + k]
    for q in range(len(active)):
        a = active[q]
        ci, cj = belief[first[q]] / ratio[q, 0], belief[second[q]] / ratio[q, 1]
        b = out[start[a] : start[a] + 4]
        # Cavities as probabilities: the product of two large ratios would overflow.
        zi, zj = 1.0 / (1.0 + ci), 1.0 / (1.0 + cj)
        ci, cj = ci * zi, cj * zj
        b[0], b[1], b[2], b[3] = p[q, 0] * zi * zj, p[q, 1] * zi * cj, p[q, 2] * ci * zj, p[q, 3] * ci * cj
        norm = 1.0 / (b[0] + b[1] + b[2] + b[3])
        for k in range(4):
            b[k] *= norm
            if b[k] > 0.0:
                value += b[k] * (tables[table_start[a] + k] - np.log(b[k]))
        value -= entropy[first[q]] + entropy[second[q]]
    return marginals, out, value
