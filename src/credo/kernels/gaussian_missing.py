"""Rows with missing coordinates under many Gaussians, one pattern of missing coordinates after another.

With covariance C, precision P, u the coordinates that a row misses and o the others,

    x_o ~ N(m_o, C_oo),   E[x_u | x_o] = m_u + G (x_o - m_o),   Cov[x_u | x_o] = P_uu^-1,   G = -P_uu^-1 P_uo

The rows of a pattern are summed first and completed together: with y_o = x_o - c_o about an origin c, and
W, s, S the sums of the weights times 1, y_o, y_o y_o^T, the completed rows y = (y_o, G y_o + e) have

    e = m_u - c_u + G (c_o - m_o),    sum w y_u = f = G s + W e,
    sum w y_u y_o^T = H = G S + e s^T,    sum w E[y_u y_u^T] = H G^T + f e^T + W P_uu^-1

so that a row costs no more than a complete one, and a pattern some small products for every member.
"""

from __future__ import annotations

import numpy as np

from .buffers import empty
from .jit import jit

__all__ = ["completed_sums", "seen_densities", "seen_diagonal_densities", "seen_sums"]

_BLOCK = 64
_LEAST = 1e-100
_HALF_LOG_2PI = 0.5 * float(np.log(2.0 * np.pi))


@jit
def _inverse_root(matrix, at, first, last, root):
    """Inverse of the Cholesky factor of the coordinates at[first:last]; the sum of its log diagonal.

    By L D L^T: the square roots come last, so that nothing waits for them.
    """
    size, logs, product = last - first, 0.0, 1.0
    for i in range(size):
        for j in range(i):
            total = matrix[at[first + i], at[first + j]]
            for h in range(j):
                total -= root[i, h] * root[j, h]
            root[i, j] = total
        total = matrix[at[first + i], at[first + i]]
        for h in range(i):
            value = root[i, h]
            root[i, h] = value * root[h, h]
            total -= value * root[i, h]
        own = 1.0 / total
        root[i, i] = own
        product *= own
        if not _LEAST < product < 1.0 / _LEAST:  # one logarithm serves a product of a few numbers
            logs += np.log(product)
            product = 1.0
    # In place: an entry needs the factor to its left and below, and the inverse above it.
    for i in range(size):
        for j in range(i):
            total = root[i, j]
            for h in range(j + 1, i):
                total += root[i, h] * root[h, j]
            root[i, j] = -total
    for i in range(size):
        own = np.sqrt(root[i, i])
        for j in range(i):
            root[i, j] *= own
        root[i, i] = own
    return 0.5 * (logs + np.log(product))


@jit
def _condition(precision, at, missed, root, cross, rest, gain):
    """P_uu^-1 in `rest` and G in `gain`; the missed coordinates come first in `at`. `cross` is room."""
    _inverse_root(precision, at, 0, missed, root)
    seen = len(at) - missed
    for h in range(missed):
        row = at[h]
        for j in range(seen):
            cross[h, j] = precision[row, at[missed + j]]
    for i in range(missed):
        for j in range(i + 1):
            total = 0.0
            for h in range(i, missed):
                total += root[h, i] * root[h, j]
            rest[i, j] = rest[j, i] = total
    for i in range(missed):
        for j in range(seen):
            total = 0.0
            for h in range(missed):
                total -= rest[i, h] * cross[h, j]
            gain[i, j] = total


@jit
def _split(seen, at, missed):
    """Coordinates of every pattern, missed ones first, and how many those are."""
    for g in range(len(seen)):
        count = 0
        for i in range(seen.shape[1]):
            if not seen[g, i]:
                at[g, count] = i
                count += 1
        missed[g] = count
        for i in range(seen.shape[1]):
            if seen[g, i]:
                at[g, count] = i
                count += 1


@jit
def _densities(x, order, start, at, missed, means, covariances, out):
    d, members = x.shape[1], len(means)
    roots, constants = np.empty((members, d, d)), np.empty(members)
    block, gap = np.zeros((d, _BLOCK)), np.empty((d, _BLOCK))
    line, square = np.empty(_BLOCK), np.empty(_BLOCK)
    for g in range(len(at)):
        few, many = missed[g], d - missed[g]
        for k in range(members):
            logs = _inverse_root(covariances[k], at[g], few, d, roots[k])
            constants[k] = logs - many * _HALF_LOG_2PI
        for first in range(start[g], start[g + 1], _BLOCK):
            size = min(_BLOCK, start[g + 1] - first)
            wide = (size + 7) // 8 * 8  # whole vectors: what is beyond the rows is computed and left
            for b in range(size):
                row = order[first + b]
                for i in range(many):
                    block[i, b] = x[row, at[g, few + i]]
            for k in range(members):
                for b in range(wide):
                    square[b] = 0.0
                for i in range(many):
                    m = means[k, at[g, few + i]]
                    for b in range(wide):
                        gap[i, b] = block[i, b] - m
                        line[b] = 0.0
                    for j in range(i + 1):
                        r = roots[k, i, j]
                        for b in range(wide):
                            line[b] += r * gap[j, b]
                    for b in range(wide):
                        square[b] += line[b] * line[b]
                for b in range(size):
                    out[order[first + b], k] = constants[k] - 0.5 * square[b]


@jit
def _sums(x, weights, order, start, at, missed, means, precisions, origin, counts, out):
    """The entries 1, y_o, y_o y_o^T of a row are made once for all members; four rows are added at a time."""
    d, members = x.shape[1], len(means)
    root, rest, gain, square = np.empty((d, d)), np.empty((d, d)), np.empty((d, d)), np.empty((d, d))
    cross, shift, first_u = np.empty((d, d)), np.empty(d), np.empty(d)
    w, line, total = np.empty(4), np.empty((4, 1 + d + d * d)), np.empty((members, 1 + d + d * d))
    for g in range(len(at)):
        few, many = missed[g], d - missed[g]
        width = 1 + many + many * (many + 1) // 2
        total[:, :width] = 0.0
        for n in range(start[g], start[g + 1], 4):
            size = min(4, start[g + 1] - n)
            for b in range(size):
                row, place = order[n + b], 1 + many
                line[b, 0] = 1.0
                for i in range(many):
                    c = at[g, few + i]
                    v = x[row, c] - origin[c]
                    line[b, 1 + i] = v
                    for j in range(i + 1):
                        line[b, place + j] = v * line[b, 1 + j]
                    place += i + 1
            _add_rows(weights, order, n, size, line, w, total, width)
        for k in range(members):
            counts[g, k] = total[k, 0]
            if many > 0 and total[k, 0] > 0.0:
                _unfold(total[k], many, square)
                _condition(precisions[k], at[g], few, root, cross, rest, gain)
                _complete(
                    total[k], square, at[g], few, means[k], origin, rest, gain, cross, shift, first_u, out[k]
                )


@jit
def _add_rows(weights, order, n, size, line, w, total, width):
    """Add up to four rows to the sums of every member."""
    for k in range(len(total)):
        for b in range(size):
            w[b] = weights[order[n + b], k]
        if size == 4:
            p, q, r, s = w[0], w[1], w[2], w[3]
            for e in range(width):
                total[k, e] += p * line[0, e] + q * line[1, e] + r * line[2, e] + s * line[3, e]
        else:
            for b in range(size):
                p = w[b]
                for e in range(width):
                    total[k, e] += p * line[b, e]


@jit
def _unfold(total, many, square):
    """Both halves of S from one."""
    place = 1 + many
    for i in range(many):
        for j in range(i + 1):
            square[i, j] = square[j, i] = total[place + j]
        place += i + 1


@jit
def _complete(total, square, at, few, mean, origin, rest, gain, cross, shift, first_u, out):
    """Add the completed sums of one pattern to those of a member; see the equations of this module."""
    d = len(at)
    many, weight = d - few, total[0]
    for i in range(few):
        c = at[i]
        e, f = mean[c] - origin[c], 0.0
        for j in range(many):
            o = at[few + j]
            e += gain[i, j] * (origin[o] - mean[o])
            f += gain[i, j] * total[1 + j]
        shift[i], first_u[i] = e, f + weight * e
        out[c] += first_u[i]
        for j in range(many):
            value = e * total[1 + j]
            for h in range(many):
                value += gain[i, h] * square[j, h]
            cross[i, j] = value
            o = at[few + j]
            out[d + max(c, o) * d + min(c, o)] += value
        for j in range(i + 1):
            value = weight * rest[i, j] + first_u[i] * shift[j]
            for h in range(many):
                value += cross[i, h] * gain[j, h]
            out[d + c * d + at[j]] += value
    for j in range(many):
        o = at[few + j]
        out[o] += total[1 + j]
        for h in range(j + 1):
            out[d + o * d + at[few + h]] += square[j, h]


@jit
def _diagonal(x, means, precisions, terms, out):
    """Coordinates that are missing add neither a square nor a term."""
    rows, d = x.shape
    block, there, square = np.zeros((d, _BLOCK)), np.zeros((d, _BLOCK)), np.empty(_BLOCK)
    for first in range(0, rows, _BLOCK):
        size = min(_BLOCK, rows - first)
        for b in range(size):
            for i in range(d):
                v = x[first + b, i]
                block[i, b], there[i, b] = (0.0, 0.0) if np.isnan(v) else (v, 1.0)
        for k in range(len(means)):
            for b in range(_BLOCK):
                square[b] = 0.0
            for i in range(d):
                m, p, t = means[k, i], precisions[k, i], terms[k, i]
                for b in range(_BLOCK):
                    gap = block[i, b] - m
                    square[b] += there[i, b] * (p * gap * gap + t)
            for b in range(size):
                out[first + b, k] = -0.5 * square[b]


@jit
def _diagonal_sums(x, weights, origin, out):
    rows, d = x.shape
    y, there = np.empty(d), np.empty(d)
    for row in range(rows):
        for i in range(d):
            v = x[row, i]
            y[i], there[i] = (0.0, 0.0) if np.isnan(v) else (v - origin[i], 1.0)
        for k in range(weights.shape[1]):
            w = weights[row, k]
            for i in range(d):
                v = w * y[i]
                out[0, k, i] += w * there[i]
                out[1, k, i] += v
                out[2, k, i] += v * y[i]


def seen_densities(
    x: np.ndarray,
    groups: tuple[np.ndarray, np.ndarray, np.ndarray],
    means: np.ndarray,
    covariances: np.ndarray,
) -> np.ndarray:
    """Log densities of the coordinates that are not NaN, (rows, members); 0 where there is none.

    Parameters
    ----------
    x
        (rows, d).
    groups
        The patterns (patterns, d), True where a coordinate is there; the rows, pattern by pattern; where
        each pattern begins among those.
    means, covariances
        Of the members.
    """
    seen, order, start = groups
    out = empty((len(x), len(means)))
    parts = map(np.ascontiguousarray, (x, order, start, *_halves(seen), means, covariances))
    _densities(*parts, out)
    return out


def _halves(seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    at, missed = np.empty(seen.shape, dtype=np.int64), np.empty(len(seen), dtype=np.int64)
    _split(np.ascontiguousarray(seen), at, missed)
    return at, missed


def completed_sums(
    x: np.ndarray,
    weights: np.ndarray,
    groups: tuple[np.ndarray, np.ndarray, np.ndarray],
    means: np.ndarray,
    precisions: np.ndarray,
    origin: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Weights by pattern (patterns, members); sums of weight times E[(y, y y^T)], (members, d + d^2).

    y = x - origin; expectations are given what is there. Rows of NaN alone add nothing to the sums.

    Parameters
    ----------
    x, weights
        (rows, d) and (rows, members).
    groups
        As in `seen_densities`.
    means, precisions
        Of the members.
    origin
        (d,).
    """
    seen, order, start = groups
    d, members = x.shape[1], len(means)
    counts, half = np.zeros((len(seen), members)), np.zeros((members, d + d * d))
    parts = map(np.ascontiguousarray, (x, weights, order, start, *_halves(seen), means, precisions, origin))
    _sums(*parts, counts, half)
    second = half[:, d:].reshape(members, d, d)
    upper = np.swapaxes(np.tril(second, -1), 1, 2)
    return counts, np.concatenate([half[:, :d], (second + upper).reshape(members, -1)], axis=1)


def seen_diagonal_densities(x: np.ndarray, means: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Log densities of the coordinates that are not NaN under independent ones, (rows, members)."""
    out = empty((len(x), len(means)))
    parts = (x, means, 1.0 / variances, np.log(variances) + 2.0 * _HALF_LOG_2PI)
    _diagonal(*map(np.ascontiguousarray, parts), out)
    return out


def seen_sums(x: np.ndarray, weights: np.ndarray, origin: np.ndarray) -> np.ndarray:
    """Sums of weight times (1, y, y^2), y = x - origin, over what is not NaN, (3, members, d)."""
    out = np.zeros((3, weights.shape[1], x.shape[1]))
    _diagonal_sums(*map(np.ascontiguousarray, (x, weights, origin)), out)
    return out
