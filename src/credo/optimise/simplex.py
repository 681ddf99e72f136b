r"""The lowest point of a convex quadratic over a simplex, by active sets.

    minimise  1/2 m' Q m - b . m,     m >= 0,  sum m = 1

With the shares that may be positive fixed the answer is a linear system; a share that would be negative
leaves on the way there, and one whose slope is lowest enters at the answer. The value falls with every
change, so no set comes twice, and the number of systems is about that of the shares. Q need not be regular.
"""

from __future__ import annotations

import numpy as np

__all__ = ["lowest_mixture"]

_NONE = 1e-14  # a share that is none
_RIDGE = 1e-12  # relative strength that makes singular systems solvable


def lowest_mixture(
    square: np.ndarray, reward: np.ndarray, start: np.ndarray | None = None, tol: float = 1e-10
) -> np.ndarray:
    """Shares m, from `start`, another mixture; no change of the sum of slopes above `tol` is left.

    Parameters
    ----------
    square, reward
        Q, (n, n) without negative curvature, and b.
    start
        Shares to begin with.
    tol
        How much the value may still fall, as its slope promises.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.optimise.simplex import lowest_mixture
    >>> lowest_mixture(np.eye(3), np.array([0.2, 0.7, 0.4])).round(6).tolist()
    [0.1, 0.6, 0.3]
    """
    n = len(reward)
    m = np.zeros(n)
    m[int(np.argmin(0.5 * square.diagonal() - reward))] = 1.0
    if start is not None and start.sum() > 0:
        m = start / start.sum()
    ridge = _RIDGE * max(float(square.diagonal().max()), 1e-300)
    for _ in range(20 * n + 20):
        slope = square @ m - reward
        enter = int(np.argmin(slope))
        if float(slope @ m) - slope[enter] <= tol:
            break
        inside = m > _NONE
        inside[enter] = True
        m = _settled(square, reward, m, inside, ridge)
    return m


def _settled(
    square: np.ndarray, reward: np.ndarray, m: np.ndarray, inside: np.ndarray, ridge: float
) -> np.ndarray:
    """The lowest mixture of these, or of those of them that do not leave on the way."""
    while True:
        at = np.flatnonzero(inside)
        goal = np.zeros(len(m))
        goal[at] = _balanced(square[np.ix_(at, at)], reward[at], ridge)
        short = at[goal[at] <= 0]
        if not len(short):
            return goal
        falls = m[short] - goal[short]
        lengths = np.where(falls > 0, m[short] / np.where(falls > 0, falls, 1.0), 1.0)
        first = int(np.argmin(lengths))
        m = np.maximum(m + min(lengths[first], 1.0) * (goal - m), 0.0)
        inside = inside.copy()
        inside[short[first]] = False
        m[short[first]] = 0.0
        if inside.sum() == 1:
            return inside.astype(np.float64)


def _balanced(square: np.ndarray, reward: np.ndarray, ridge: float) -> np.ndarray:
    """Shares of any sign, which add up to one, with equal slopes."""
    n = len(reward)
    system = np.ones((n + 1, n + 1))
    system[:n, :n] = square + ridge * np.eye(n)
    system[n, n] = 0.0
    scale = max(float(np.abs(square).max()), 1e-300)
    system[:n, :n] /= scale
    found: np.ndarray = np.linalg.lstsq(system, np.append(reward / scale, 1.0), rcond=None)[0][:n]
    return found
