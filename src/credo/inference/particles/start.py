"""Where variables lie before any message is known: tables that first particles are drawn from.

A variable is looked for over all magnitudes, first by its own factors, then, where these have no finite
integral, by them and the largest values of its pair factors with known neighbours, or with any where no
variable of its part of the graph is known. What is still unknown is taken to lie where the nearest known
variable does, or around zero.
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
    nobody = np.zeros(pairs.n, dtype=bool)
    values, unknown = _zoom(pairs, points, log_states, pairs.is_real, nobody)
    near = pairs.collect((~unknown[pairs.sender]).astype(np.float64)) > 0  # who has a known neighbour
    alone = np.isin(np.arange(pairs.n), list(_nearest(pairs, pairs.is_real & ~unknown)), invert=True)
    for asked, senders in ((unknown & near, ~unknown), (unknown & alone & (pairs.degrees > 0), ~nobody)):
        if asked.any():
            points[asked] = wide
            found, still = _zoom(pairs, points, log_states, asked, senders)
            values[asked], unknown = found[asked], (unknown & ~asked) | still
    _borrow(pairs, points, values, unknown, spread)
    return points, values, pairs.is_real & ~unknown


def _zoom(
    pairs: Pairs, points: np.ndarray, log_states: np.ndarray, asked: np.ndarray, senders: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Move the points of the variables asked for to where these are; log densities, and who has no place.

    Pair factors are heard where their other variable is among the senders.
    """
    heard = senders[pairs.sender][:, None]
    for turn in range(_ROUNDS):
        values = unary_values(pairs, points, strict=False) + log_states
        if senders.any():
            most = send_largest(pairs, points[pairs.sender], values[pairs.sender], points[pairs.receiver])
            values = values + pairs.collect(np.where(heard, np.maximum(most, -1e300), 0.0))
        if turn == 0:
            unknown = asked & improper(values)
            asked = asked & ~unknown
        if turn < _ROUNDS - 1:
            points[asked] = refine(points[asked], values[asked], widen=False)
    return values, unknown


def _borrow(pairs: Pairs, points: np.ndarray, values: np.ndarray, unknown: np.ndarray, spread: float) -> None:
    """Give the unknown the table of the nearest known variable, or a normal density around zero."""
    grid = np.linspace(-6, 6, points.shape[1])
    points[unknown], values[unknown] = spread * grid, -0.5 * grid**2
    for i, known in _nearest(pairs, pairs.is_real & ~unknown).items():
        points[i], values[i] = points[known], values[known]


def _nearest(pairs: Pairs, known: np.ndarray) -> dict[int, int]:
    """Real variable -> the nearest known one, for those that have one in their part of the graph."""
    neighbours: dict[int, list[int]] = {}
    for i, j in zip(pairs.sender.tolist(), pairs.receiver.tolist(), strict=True):
        neighbours.setdefault(i, []).append(j)
    found = {i: i for i in np.flatnonzero(known).tolist()}
    queue = deque(found)
    while queue:
        i = queue.popleft()
        for j in neighbours.get(i, ()):
            if j not in found:
                found[j] = found[i]
                queue.append(j)
    return {i: source for i, source in found.items() if pairs.is_real[i]}
