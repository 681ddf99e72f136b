"""Sums over rows of products of two tables: what expected statistics and pair counts are made of."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from .jit import jit

__all__ = ["moment_sums", "square_sums", "weighted_sums"]

_FEW = 1 << 12  # numbers below which whole arrays are as quick as a kernel, and nothing is to be compiled
_WIDE = 1 << 14  # entries of the result from which a library's matrix product is worth its threads


@jit
def _gather(left, right, out):
    """Add left^T right to `out`, four rows at a time."""
    rows, width = len(left), right.shape[1]
    whole = rows - rows % 4
    for t in range(0, whole, 4):
        for j in range(left.shape[1]):
            a, b, c, d = left[t, j], left[t + 1, j], left[t + 2, j], left[t + 3, j]
            for k in range(width):
                out[j, k] += a * right[t, k] + b * right[t + 1, k] + c * right[t + 2, k] + d * right[t + 3, k]
    for t in range(whole, rows):
        for j in range(left.shape[1]):
            a = left[t, j]
            for k in range(width):
                out[j, k] += a * right[t, k]


def weighted_sums(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """left^T right for tables (rows, a) and (rows, b) with many rows and few columns.

    Small results are summed here: the threads of a linear algebra library would wait for each other
    longer than that takes.
    """
    if left.shape[1] * right.shape[1] > _WIDE:
        return left.T @ right
    out = np.zeros((left.shape[1], right.shape[1]))
    _gather(np.ascontiguousarray(left), np.ascontiguousarray(right), out)
    return out


@jit
def _products(row, d, is_diagonal, line):
    """Products of the first d entries of a line, squares only or one triangle, behind these."""
    at = d
    for i in range(d):
        v = line[row, i]
        if is_diagonal:
            line[row, at] = v * v
            at += 1
        else:
            for j in range(i + 1):
                line[row, at] = v * line[row, j]
                at += 1


@jit
def _moments(weights, x, origin, is_diagonal, out):
    """Add the sums of weight (y, products of y) to `out`, four rows at a time; nothing larger is stored."""
    rows, d = x.shape
    width, last = out.shape[1], rows - 1
    line = np.zeros((4, width))
    for first in range(0, rows, 4):
        for b in range(4):
            row = min(first + b, last)  # beyond the last row one that has no weight
            for i in range(d):
                line[b, i] = x[row, i] - origin[i]
            _products(b, d, is_diagonal, line)
        for k in range(weights.shape[1]):
            p = weights[first, k]
            q = weights[first + 1, k] if first + 1 < rows else 0.0
            r = weights[first + 2, k] if first + 2 < rows else 0.0
            s = weights[first + 3, k] if first + 3 < rows else 0.0
            for i in range(width):
                out[k, i] += p * line[0, i] + q * line[1, i] + r * line[2, i] + s * line[3, i]


def moment_sums(weights: np.ndarray, x: np.ndarray, origin: np.ndarray) -> np.ndarray:
    """Sums over rows of weight times (y, y y^T), y = x - origin, shape (members, d + d^2).

    Parameters
    ----------
    weights, x, origin
        Shapes (rows, members), (rows, d) and (d,).
    """
    d, members = x.shape[1], weights.shape[1]
    half = np.zeros((members, d + d * (d + 1) // 2))
    _moments(*map(np.ascontiguousarray, (weights, x, origin)), False, half)
    return half[:, _whole(d)]


@lru_cache(maxsize=64)
def _whole(d: int) -> np.ndarray:
    """Where the entries of (y, y y^T) are in (y, its lower triangle)."""
    i, j = np.indices((d, d))
    low, high = np.minimum(i, j), np.maximum(i, j)
    return np.concatenate([np.arange(d), (d + high * (high + 1) // 2 + low).ravel()])


def square_sums(weights: np.ndarray, x: np.ndarray, origin: np.ndarray) -> np.ndarray:
    """Sums over rows of weight times (y, y^2) for every coordinate, y = x - origin, shape (members, 2 d)."""
    if x.size * weights.shape[1] < _FEW:
        y = x - origin
        return weights.T @ np.concatenate([y, y * y], axis=1)
    out = np.zeros((weights.shape[1], 2 * x.shape[1]))
    _moments(*map(np.ascontiguousarray, (weights, x, origin)), True, out)
    return out
