"""Sums over rows of products of two tables: what expected statistics and pair counts are made of."""

from __future__ import annotations

import numpy as np

from .jit import jit

__all__ = ["moment_sums", "weighted_sums"]

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
def _moments(weights, x, out):
    """Add the sums of weight (x, x x^T) to `out`, four rows at a time; nothing larger is ever stored."""
    rows, d = x.shape
    width = d + d * d
    line = np.zeros((4, width))
    for first in range(0, rows, 4):
        size = min(4, rows - first)
        for b in range(4):
            for i in range(d):
                v = x[first + b, i] if b < size else 0.0
                line[b, i] = v
                for j in range(d):
                    line[b, d + i * d + j] = v * x[first + b, j] if b < size else 0.0
        last = rows - 1
        for k in range(weights.shape[1]):
            p = weights[first, k]
            q, r, s = (
                weights[min(first + 1, last), k],
                weights[min(first + 2, last), k],
                weights[min(first + 3, last), k],
            )
            for i in range(width):
                out[k, i] += p * line[0, i] + q * line[1, i] + r * line[2, i] + s * line[3, i]


def moment_sums(weights: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Sums over rows of weight times (x, x x^T), shape (members, d + d^2).

    Parameters
    ----------
    weights, x
        Shapes (rows, members) and (rows, d).
    """
    out = np.zeros((weights.shape[1], x.shape[1] * (1 + x.shape[1])))
    _moments(weights, np.ascontiguousarray(x), out)
    return out
