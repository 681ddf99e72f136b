"""Sums over rows of products of two tables: what expected statistics and pair counts are made of."""

from __future__ import annotations

import numpy as np

from .jit import jit

__all__ = ["weighted_sums"]

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
