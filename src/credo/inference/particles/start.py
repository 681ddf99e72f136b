"""Where variables lie before any message is known: tables that first particles are drawn from.

A variable is looked for over all magnitudes, first by its own factors, then, where these have no finite
integral, by them and the largest values its pair factors can take. What is still unknown is taken to lie
where the nearest known variable does, or around zero.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from .edges import send_largest, unary_values
from .pairs import Pairs
from .tables import improper, refine, wide_points

__all__ = ["locate", "state_points"]

_ROUNDS = 6  # each narrows the window by up to a hundred times


def state_points(pairs: Pairs, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Points (n, count) of discrete variables, which are their states, and the logs of their weights.

    States that a variable does not have weigh nothing; rows of real variables are zero.
    """
    states = np.arange(count)
    last = np.maximum(pairs.sizes - 1, 0)[:, None]
    there = (states <= last) | pairs.is_real[:, None]
    points = np.where(pairs.is_real[:, None], 0.0, np.minimum(states, last))
    return points, np.where(there, 0.0, -np.inf)


def locate(pairs: Pairs, count: int, spread: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points (n, count) that cover where real variables may lie, log densities there, and who was found."""
    points, log_states = state_points(pairs, count)
    wide = wide_points(count)
    points[pairs.is_real] = wide
    values, unknown = _zoom(pairs, points, log_states, pairs.is_real, with_pairs=False)
    if (unknown & (pairs.degrees > 0)).any():
        points[unknown] = wide
        values, unknown = _zoom(pairs, points, log_states, unknown, with_pairs=True)
    _borrow(pairs, points, values, unknown, spread)
    return points, values, pairs.is_real & ~unknown


def _zoom(
    pairs: Pairs, points: np.ndarray, log_states: np.ndarray, asked: np.ndarray, *, with_pairs: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Move the points of the variables asked for to where these are; log densities, and who has no place."""
    for turn in range(_ROUNDS):
        values = unary_values(pairs, points, strict=False) + log_states
        if with_pairs:
            most = send_largest(pairs, points[pairs.sender], values[pairs.sender], points[pairs.receiver])
            values = values + pairs.collect(np.maximum(most, -1e300))
        if turn == 0:
            unknown = asked & improper(values)
            asked = asked & ~unknown
        if turn < _ROUNDS - 1:
            points[asked] = refine(points[asked], values[asked], widen=False)
    return values, unknown


def _borrow(pairs: Pairs, points: np.ndarray, values: np.ndarray, unknown: np.ndarray, spread: float) -> None:
    """Give the unknown the table of the nearest known variable, or a normal density around zero."""
    waiting = unknown.copy()
    neighbours: dict[int, list[int]] = {}
    for i, j in zip(pairs.sender.tolist(), pairs.receiver.tolist(), strict=True):
        neighbours.setdefault(i, []).append(j)
    queue = deque(np.flatnonzero(pairs.is_real & ~unknown).tolist()) if waiting.any() else deque()
    while queue:
        i = queue.popleft()
        for j in neighbours.get(i, ()):
            if waiting[j]:
                points[j], values[j], waiting[j] = points[i], values[i], False
                queue.append(j)
    grid = np.linspace(-6, 6, points.shape[1])
    points[waiting], values[waiting] = spread * grid, -0.5 * grid**2
