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

from .jit import jit

__all__ = ["completed_sums", "seen_densities", "seen_diagonal_densities", "seen_sums"]

_BLOCK = 64
_HALF_LOG_2PI = 0.5 * float(np.log(2.0 * np.pi))


@jit
def _inverse_root(matrix, at, first, last, root):
    """Inverse of the Cholesky factor of the coordinates at[first:last]; the sum of its log diagonal."""
    size, logs = last - first, 0.0
    for i in range(size):
        for j in range(i + 1):
            total = matrix[at[first + i], at[first + j]]
            for h in range(j):
                total -= root[i, h] * root[j, h]
            root[i, j] = np.sqrt(total) if i == j else total / root[j, j]
    # In place: an entry needs the factor to its left and below, and the inverse above it.
    for i in range(size):
        own = 1.0 / root[i, i]
        for j in range(i):
            total = 0.0
            for h in range(j, i):
                total -= root[i, h] * root[h, j]
            root[i, j] = total * own
        root[i, i] = own
        logs += np.log(own)
    return logs


@jit
def _condition(precision, at, missed, root, rest, gain):
    """P_uu^-1 in `rest` and G in `gain`; the missed coordinates come first in `at`."""
    _inverse_root(precision, at, 0, missed, root)
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
            gain[i, j - missed] = total


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
def _sums(x, weights, order, start, at, missed, means, precisions, origin, out):
    """The entries 1, y_o, y_o y_o^T of a row are made once for all members; four rows are added at a time."""
    d, members = x.shape[1], len(means)
    root, rest, gain = np.empty((d, d)), np.empty((d, d)), np.empty((d, d))
    cross, shift, first_u = np.empty((d, d)), np.empty(d), np.empty(d)
    w, line, total = np.empty(4), np.empty((4, 1 + d + d * d)), np.empty((members, 1 + d + d * d))
    for g in range(len(at)):
        few, many = missed[g], d - missed[g]
        if many == 0:
            continue
        width = 1 + many + many * many
        total[:, :width] = 0.0
        for n in range(start[g], start[g + 1], 4):
            size = min(4, start[g + 1] - n)
            for b in range(4):
                row = order[n + min(b, size - 1)]  # beyond the last row one that has no weight
                line[b, 0] = 1.0
                for i in range(many):
                    c = at[g, few + i]
                    line[b, 1 + i] = x[row, c] - origin[c]
                for i in range(many):
                    v, place = line[b, 1 + i], 1 + many + i * many
                    for j in range(many):
                        line[b, place + j] = v * line[b, 1 + j]
            for k in range(members):
                for b in range(4):
                    w[b] = weights[order[n + b], k] if b < size else 0.0
                p, q, r, s = w[0], w[1], w[2], w[3]
                for e in range(width):
                    total[k, e] += p * line[0, e] + q * line[1, e] + r * line[2, e] + s * line[3, e]
        for k in range(members):
            if total[k, 0] > 0.0:
                _condition(precisions[k], at[g], few, root, rest, gain)
                _complete(total[k], at[g], few, means[k], origin, rest, gain, cross, shift, first_u, out[k])


@jit
def _complete(total, at, few, mean, origin, rest, gain, cross, shift, first_u, out):
    """Add the completed sums of one pattern to those of a member; see the equations of this module."""
    d = len(at)
    many, weight = d - few, total[0]
    second = 1 + many
    for i in range(few):
        c = at[i]
        e, f = mean[c] - origin[c], 0.0
        for j in range(many):
            o = at[few + j]
            e += gain[i, j] * (origin[o] - mean[o])
            f += gain[i, j] * total[1 + j]
            cross[i, j] = 0.0
        shift[i], first_u[i] = e, f + weight * e
        for h in range(many):
            s, place = gain[i, h], second + h * many
            for j in range(many):
                cross[i, j] += s * total[place + j]
        for j in range(many):
            cross[i, j] += e * total[1 + j]
    for j in range(many):
        o = at[few + j]
        out[o] += total[1 + j]
        for h in range(many):
            out[d + o * d + at[few + h]] += total[second + j * many + h]
    for i in range(few):
        c = at[i]
        out[c] += first_u[i]
        for j in range(many):
            o = at[few + j]
            out[d + c * d + o] += cross[i, j]
            out[d + o * d + c] += cross[i, j]
        for j in range(few):
            value = weight * rest[i, j] + first_u[i] * shift[j]
            for h in range(many):
                value += cross[i, h] * gain[j, h]
            out[d + c * d + at[j]] += value


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
    out = np.empty((len(x), len(means)))
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
) -> np.ndarray:
    """Sums of weight times E[(y, y y^T)], y = x - origin, given what is there, (members, d + d^2).

    Parameters
    ----------
    x, weights
        (rows, d) and (rows, members); rows of NaN alone do not count.
    groups
        As in `seen_densities`.
    means, precisions
        Of the members.
    origin
        (d,).
    """
    seen, order, start = groups
    d = x.shape[1]
    out = np.zeros((len(means), d + d * d))
    parts = map(np.ascontiguousarray, (x, weights, order, start, *_halves(seen), means, precisions, origin))
    _sums(*parts, out)
    return out


def seen_diagonal_densities(x: np.ndarray, means: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Log densities of the coordinates that are not NaN under independent ones, (rows, members)."""
    out = np.empty((len(x), len(means)))
    parts = (x, means, 1.0 / variances, np.log(variances) + 2.0 * _HALF_LOG_2PI)
    _diagonal(*map(np.ascontiguousarray, parts), out)
    return out


def seen_sums(x: np.ndarray, weights: np.ndarray, origin: np.ndarray) -> np.ndarray:
    """Sums of weight times (1, y, y^2), y = x - origin, over what is not NaN, (3, members, d)."""
    out = np.zeros((3, weights.shape[1], x.shape[1]))
    _diagonal_sums(*map(np.ascontiguousarray, (x, weights, origin)), out)
    return out
