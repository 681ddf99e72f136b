"""Log densities of many rows under many Gaussians.

Rows are taken in blocks, coordinates first, so that the inner loops run over rows and use the vector
units; differences to the mean come first, so that data far from the origin lose no digits.
"""

from __future__ import annotations

import numpy as np

from .buffers import empty
from .jit import jit

__all__ = ["dense_densities", "diagonal_densities"]

_BLOCK = 64
_FEW = 1 << 12  # numbers below which whole arrays are as quick as a kernel, and nothing is to be compiled
_WIDE = 24  # from this dimension on, one matrix product per member is faster


@jit
def _dense(x, means, roots, constants, out):
    rows, d = x.shape
    block, gap = np.zeros((d, _BLOCK)), np.empty((d, _BLOCK))
    line, square = np.empty(_BLOCK), np.empty(_BLOCK)
    for first in range(0, rows, _BLOCK):
        size = min(_BLOCK, rows - first)
        for b in range(size):
            for i in range(d):
                block[i, b] = x[first + b, i]
        for k in range(len(means)):
            for i in range(d):
                m = means[k, i]
                for b in range(_BLOCK):
                    gap[i, b] = block[i, b] - m
            for b in range(_BLOCK):
                square[b] = 0.0
            for i in range(d):
                for b in range(_BLOCK):
                    line[b] = 0.0
                for j in range(i + 1):
                    r = roots[k, i, j]
                    for b in range(_BLOCK):
                        line[b] += r * gap[j, b]
                for b in range(_BLOCK):
                    square[b] += line[b] * line[b]
            for b in range(size):
                out[first + b, k] = constants[k] - 0.5 * square[b]


@jit
def _diagonal(x, means, precisions, constants, out):
    rows, d = x.shape
    block, square = np.zeros((d, _BLOCK)), np.empty(_BLOCK)
    for first in range(0, rows, _BLOCK):
        size = min(_BLOCK, rows - first)
        for b in range(size):
            for i in range(d):
                block[i, b] = x[first + b, i]
        for k in range(len(means)):
            for b in range(_BLOCK):
                square[b] = 0.0
            for i in range(d):
                m, p = means[k, i], precisions[k, i]
                for b in range(_BLOCK):
                    gap = block[i, b] - m
                    square[b] += p * gap * gap
            for b in range(size):
                out[first + b, k] = constants[k] - 0.5 * square[b]


def dense_densities(x: np.ndarray, means: np.ndarray, roots: np.ndarray, constants: np.ndarray) -> np.ndarray:
    """constants[k] - |roots[k] (x - means[k])|^2 / 2, shape (rows, members).

    Parameters
    ----------
    x, means
        Shapes (rows, d) and (members, d).
    roots
        Lower triangular, (members, d, d): inverses of the Cholesky factors of the covariances.
    constants
        (members,): log densities at the means.
    """
    out = empty((len(x), len(means)))
    if x.shape[1] < _WIDE:
        x, *rest = map(np.ascontiguousarray, (x, means, roots, constants))
        for run, rows in _dense.parts(float(rest[1].size), len(x)):
            run(x[rows], *rest, out[rows])
        return out
    for k in range(len(means)):
        line = (x - means[k]) @ roots[k].T
        out[:, k] = constants[k] - 0.5 * np.einsum("ni,ni->n", line, line)
    return out


def diagonal_densities(
    x: np.ndarray, means: np.ndarray, precisions: np.ndarray, constants: np.ndarray
) -> np.ndarray:
    """constants[k] - sum_i precisions[k, i] (x_i - means[k, i])^2 / 2, shape (rows, members)."""
    if x.size * len(means) < _FEW:
        gap = x[:, None, :] - means
        return np.asarray(constants - 0.5 * np.einsum("nkd,nkd,kd->nk", gap, gap, precisions))
    out = empty((len(x), len(means)))
    x, *rest = map(np.ascontiguousarray, (x, means, precisions, constants))
    for run, rows in _diagonal.parts(float(rest[0].size), len(x)):
        run(x[rows], *rest, out[rows])
    return out
