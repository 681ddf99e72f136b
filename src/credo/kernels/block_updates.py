"""Multiplicative updates of a matrix from the messages on its two sides."""

from __future__ import annotations

import numpy as np

from .jit import jit

__all__ = ["multiply"]


@jit
def multiply(theta, f, b, weights, iterations, by_column):
    """Repeat theta <- rows of theta * (f' (weights b / divisor)), divided by their sums.

    Parameters
    ----------
    theta
        (rows, columns).
    f, b
        (samples, rows) and (samples, columns), contiguous.
    weights
        (samples,).
    iterations
        How often.
    by_column
        Whether the divisor is f theta of each column, or the sum f theta b of each sample.

    Returns
    -------
    theta
        A new matrix; rows without weight are as they were.
    impossible
        A sample whose divisor was zero, -1 if there was none.
    """
    theta = theta.copy()
    across = np.ascontiguousarray(f.T)
    for _ in range(iterations):
        share = np.dot(f, theta)
        for n in range(len(f)):
            total = 0.0
            for m in range(share.shape[1]):
                total += share[n, m] * b[n, m]
            for m in range(share.shape[1]):
                weight = weights[n] * b[n, m]
                divisor = share[n, m] if by_column else total
                if weight > 0.0 and divisor <= 0.0:
                    return theta, n
                share[n, m] = weight / divisor if weight > 0.0 else 0.0
        grown = np.dot(across, share)
        for row in range(len(theta)):
            total = 0.0
            for m in range(theta.shape[1]):
                grown[row, m] *= theta[row, m]
                total += grown[row, m]
            if total > 0.0:
                for m in range(theta.shape[1]):
                    theta[row, m] = grown[row, m] / total
    return theta, -1
