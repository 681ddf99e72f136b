"""Rows with missing coordinates under many Gaussians, one pattern of missing coordinates after another.

With the precision P, u the coordinates that a row misses and o the others,

    E[x_u | x_o] = m_u - P_uu^-1 P_uo (x_o - m_o),    Cov[x_u | x_o] = P_uu^-1,
    log N(x_o) = log N(x) at x_u = E[x_u | x_o], + |u| log(2 pi) / 2 - log |P_uu| / 2

so that a pattern costs a Cholesky factor of the size of what is missing, and a row what a complete one costs:
the filled row has the distance of its observed part, because the quadratic form is smallest there.
"""

from __future__ import annotations

import numpy as np

from .jit import jit

__all__ = ["completed_sums", "seen_densities"]

_BLOCK = 64
_HALF_LOG_2PI = 0.5 * float(np.log(2.0 * np.pi))


@jit
def _condition(precision, at, missed, root, rest, gain):
    """P_uu^-1 in `rest` and -P_uu^-1 P_uo in `gain`; half the logarithm of |P_uu|.

    `at` has the coordinates, those that are missed first, `missed` of them.
    """
    half = 0.0
    for i in range(missed):  # the Cholesky factor of P_uu
        for j in range(i + 1):
            total = precision[at[i], at[j]]
            for h in range(j):
                total -= root[i, h] * root[j, h]
            root[i, j] = np.sqrt(total) if i == j else total / root[j, j]
        half += np.log(root[i, i])
    for j in range(missed):  # its inverse, in place: column j needs the columns after it no more
        root[j, j] = 1.0 / root[j, j]
        for i in range(j + 1, missed):
            total = 0.0
            for h in range(j, i):
                total -= root[i, h] * root[h, j]
            root[i, j] = total / root[i, i]
    for i in range(missed):
        for j in range(missed):
            total = 0.0
            for h in range(max(i, j), missed):
                total += root[h, i] * root[h, j]
            rest[i, j] = total
    for i in range(missed):
        for j in range(missed, len(at)):
            total = 0.0
            for h in range(missed):
                total -= rest[i, h] * precision[at[h], at[j]]
            gain[i, j] = total
    return half


@jit
def _order(seen, at):
    """Coordinates, missed ones first; how many those are."""
    missed = 0
    for i in range(len(seen)):
        if not seen[i]:
            at[missed] = i
            missed += 1
    place = missed
    for i in range(len(seen)):
        if seen[i]:
            at[place] = i
            place += 1
    return missed


@jit
def _densities(x, order, start, seen, means, precisions, roots, constants, out):
    d = x.shape[1]
    at = np.empty(d, np.int64)
    root, rest, gain = np.empty((d, d)), np.empty((d, d)), np.empty((d, d))
    gap, line, square = np.empty((d, _BLOCK)), np.empty(_BLOCK), np.empty(_BLOCK)
    for g in range(len(seen)):
        missed = _order(seen[g], at)
        if missed == d:
            for n in range(start[g], start[g + 1]):
                for k in range(len(means)):
                    out[order[n], k] = 0.0
            continue
        for k in range(len(means)):
            half = _condition(precisions[k], at, missed, root, rest, gain)
            constant = constants[k] + missed * _HALF_LOG_2PI - half
            for first in range(start[g], start[g + 1], _BLOCK):
                size = min(_BLOCK, start[g + 1] - first)
                for j in range(missed, d):
                    c, m = at[j], means[k, at[j]]
                    for b in range(size):
                        gap[c, b] = x[order[first + b], c] - m
                for i in range(missed):
                    c = at[i]
                    for b in range(size):
                        gap[c, b] = 0.0
                    for j in range(missed, d):
                        s, a = gain[i, j], at[j]
                        for b in range(size):
                            gap[c, b] += s * gap[a, b]
                for b in range(size):
                    square[b] = 0.0
                for i in range(d):
                    for b in range(size):
                        line[b] = 0.0
                    for j in range(i + 1):
                        r = roots[k, i, j]
                        for b in range(size):
                            line[b] += r * gap[j, b]
                    for b in range(size):
                        square[b] += line[b] * line[b]
                for b in range(size):
                    out[order[first + b], k] = constant - 0.5 * square[b]


@jit
def _sums(x, weights, order, start, seen, means, precisions, origins, out):
    d = x.shape[1]
    at = np.empty(d, np.int64)
    root, rest, gain, y = np.empty((d, d)), np.empty((d, d)), np.empty((d, d)), np.empty(d)
    for g in range(len(seen)):
        missed = _order(seen[g], at)
        if missed == d:
            continue
        for k in range(len(means)):
            _condition(precisions[k], at, missed, root, rest, gain)
            total = 0.0
            for n in range(start[g], start[g + 1]):
                row = order[n]
                w = weights[row, k]
                if w == 0.0:
                    continue
                total += w
                for i in range(missed):
                    c = at[i]
                    value = means[k, c] - origins[k, c]
                    for j in range(missed, d):
                        value += gain[i, j] * (x[row, at[j]] - means[k, at[j]])
                    y[c] = value
                for j in range(missed, d):
                    y[at[j]] = x[row, at[j]] - origins[k, at[j]]
                for i in range(d):
                    v, line = w * y[i], d + i * d
                    out[k, i] += v
                    for j in range(d):
                        out[k, line + j] += v * y[j]
            for i in range(missed):
                for j in range(missed):
                    out[k, d + at[i] * d + at[j]] += total * rest[i, j]


def seen_densities(
    x: np.ndarray,
    groups: tuple[np.ndarray, np.ndarray, np.ndarray],
    means: np.ndarray,
    precisions: np.ndarray,
    roots: np.ndarray,
    constants: np.ndarray,
) -> np.ndarray:
    """Log densities of the coordinates that are not NaN, (rows, members); 0 where there is none.

    Parameters
    ----------
    x
        (rows, d).
    groups
        The patterns (patterns, d), True where a coordinate is there; the rows, pattern by pattern; where
        each pattern begins among those.
    means, precisions, roots, constants
        Of the members; see `gaussian_density.dense_densities`. roots[k]^T roots[k] = precisions[k].
    """
    seen, order, start = groups
    out = np.empty((len(x), len(means)))
    parts = map(np.ascontiguousarray, (x, order, start, seen, means, precisions, roots, constants))
    _densities(*parts, out)
    return out


def completed_sums(
    x: np.ndarray,
    weights: np.ndarray,
    groups: tuple[np.ndarray, np.ndarray, np.ndarray],
    means: np.ndarray,
    precisions: np.ndarray,
    origins: np.ndarray,
) -> np.ndarray:
    """Sums of weight times E[(y, y y^T)], y = x - origin of the member, given the coordinates that are there.

    Parameters
    ----------
    x, weights
        (rows, d) and (rows, members); rows of NaN alone do not count.
    groups, means, precisions
        As in `seen_densities`.
    origins
        (members, d).
    """
    seen, order, start = groups
    d = x.shape[1]
    out = np.zeros((len(means), d + d * d))
    parts = map(np.ascontiguousarray, (x, weights, order, start, seen, means, precisions, origins))
    _sums(*parts, out)
    return out
