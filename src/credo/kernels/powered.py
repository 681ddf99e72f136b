r"""Powered sums of one table along an order, their beliefs and their conditional entropies.

A table over x_1 ... x_c, its axes in the order of elimination, and one weight w_k >= 0 per axis:

    Z_0 = table,   Z_k(x_{k+1..c}) = w_k log sum_{x_k} exp( Z_{k-1}(x_{k..c}) / w_k ),   max for w_k = 0,

    mu(x_k | x_{k+1..c}) = exp( (Z_{k-1} - Z_k) / w_k ),   even over the maximisers for w_k = 0.

The value Z_c has the gradient mu = prod_k mu(x_k | later) with respect to the table and
H(x_k | later; mu) with respect to w_k. Where w_k = 0 that is the derivative from above: the mean
logarithm of the number of maximisers. Everything is in logs; -inf entries are legal, and a table
of nothing else has value -inf and belief zero.

The first axis is eliminated first, so every step adds up equal, contiguous slices and can write its
result over the first of them. All tables are flat, in C order.
"""

from __future__ import annotations

import numpy as np

from .arrays import copy
from .jit import inner, jit

__all__ = [
    "eliminate_first",
    "powered_beliefs",
    "powered_levels",
    "powered_region",
    "powered_sum",
    "powered_value",
]

TINY = 1e-150  # weights below are maxima; 1 / w of a smaller one may overflow
TIE = 1e-10  # how far below the maximum an entry still counts as a maximiser


@inner
def eliminate_first(source, at, size, rest, weight, target, to):
    """Powered sum over the first axis: target[to + r] from source[at + k * rest + r], k < size.

    The two places may be the same.
    """
    if size == 2 and weight >= TINY:
        for r in range(rest):
            a, b = source[at + r], source[at + rest + r]
            if a < b:
                a, b = b, a
            if b > -np.inf:
                a += weight * np.log1p(np.exp((b - a) / weight))
            target[to + r] = a
        return
    for r in range(rest):
        top = source[at + r]
        for k in range(1, size):
            top = max(top, source[at + k * rest + r])
        if weight >= TINY and top > -np.inf:
            total = 0.0
            for k in range(size):
                total += np.exp((source[at + k * rest + r] - top) / weight)
            top += weight * np.log(total)
        target[to + r] = top


@inner
def powered_value(work, at, count, sizes, weights, first, last):
    """Powered sum over axes first..last-1 of the table at work[at : at + count], in place.

    Axis q has `sizes[q]` states and weight `weights[q]`. What is left over the later axes starts at
    `at`; its size is returned.
    """
    left = count
    for q in range(first, last):
        left //= sizes[q]
        eliminate_first(work, at, sizes[q], left, weights[q], work, at)
    return left


@jit
def powered_sum(table, sizes, weights):
    """The powered sum of one flat table over all of its axes.

    Parameters
    ----------
    table
        Flat log table, C order, the axis eliminated first in front.
    sizes, weights
        States and weight of each axis.
    """
    work = table.copy()
    powered_value(work, 0, len(table), sizes, weights, 0, len(sizes))
    return work[0]


@inner
def powered_levels(levels, at, count, sizes, weights, first, last):
    """All partial sums Z_0 ... Z_c of the table at levels[at : at + count], one after another behind it.

    Returns where the last one, the value, stands. With two states or more per axis they take less than
    twice the table; at most one entry per axis more without.
    """
    here, left = at, count
    for q in range(first, last):
        rest = left // sizes[q]
        eliminate_first(levels, here, sizes[q], rest, weights[q], levels, here + left)
        here += left
        left = rest
    return here


@inner
def powered_beliefs(levels, at, count, sizes, weights, first, last, belief, entropy):
    """Beliefs and conditional entropies from the partial sums of `powered_levels`.

    Fills belief[: count] with mu and entropy[q] for the axes q = first..last-1.
    """
    upper, rest = at, count
    for q in range(first, last):
        upper += rest
        rest //= sizes[q]
    belief[0] = 1.0 if levels[upper] > -np.inf else 0.0
    for q in range(last - 1, first - 1, -1):
        lower = upper - rest * sizes[q]
        entropy[q] = _condition(levels, lower, upper, sizes[q], rest, weights[q], belief)
        rest *= sizes[q]
        upper = lower


@inner
def _condition(levels, lower, upper, size, rest, weight, belief):
    """Spread belief[: rest] over one more axis in front; the conditional entropy given the rest."""
    entropy = 0.0
    for r in range(rest):
        mass, top = belief[r], levels[upper + r]
        if mass == 0.0 or top == -np.inf:
            for k in range(size):
                belief[k * rest + r] = 0.0
            continue
        if weight >= TINY:
            for k in range(size):
                fall = (levels[lower + k * rest + r] - top) / weight
                share = np.exp(fall)
                if share > 0.0:
                    entropy -= mass * share * fall
                belief[k * rest + r] = mass * share
            continue
        slack = TIE * max(1.0, abs(top))
        ties = 0
        for k in range(size):
            if levels[lower + k * rest + r] >= top - slack:
                ties += 1
        entropy += mass * np.log(ties)
        for k in range(size):
            is_best = levels[lower + k * rest + r] >= top - slack
            belief[k * rest + r] = mass / ties if is_best else 0.0
    return entropy


@jit
def powered_region(table, sizes, weights):
    """Value, belief (flat, as the table) and conditional entropy per axis of one table's powered sum."""
    count, arity = len(table), len(sizes)
    levels, belief, entropy = np.empty(2 * count + arity * count), np.empty(count), np.empty(arity)
    copy(table, levels[:count])
    top = powered_levels(levels, 0, count, sizes, weights, 0, arity)
    powered_beliefs(levels, 0, count, sizes, weights, 0, arity, belief, entropy)
    return levels[top], belief, entropy
