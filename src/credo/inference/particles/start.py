"""Where variables lie before any message is known: tables that first particles are drawn from.

A variable is looked for over all magnitudes (`located`), first by its own factors, then, where these have no
finite integral, by them and the largest values of its pair factors with known neighbours, or with any where
no variable of its part of the graph is known. What is still unknown is taken to lie where the nearest known
variable does, or around zero.
"""

from __future__ import annotations

import numpy as np

from ..problem.located import first_points, nearest, search
from .edges import send_largest, unary_values
from .pairs import ParticlePairs
from .tables import refine

__all__ = ["locate", "state_points"]

_ROUNDS = 2  # of moving points to equal masses
_TOGETHER = 3  # searches of variables that only say where the others are


def state_points(pairs: ParticlePairs, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Points (n, count) of discrete variables, which are their states, and the logs of their weights.

    States that a variable does not have weigh nothing; rows of real variables are zero.
    """
    states = np.arange(count)
    last = np.maximum(pairs.sizes - 1, 0)[:, None]
    there = (states <= last) | pairs.is_real[:, None]
    points = np.where(pairs.is_real[:, None], 0.0, np.minimum(states, last))
    return points, np.where(there, 0.0, -np.inf)


def locate(pairs: ParticlePairs, count: int, spread: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points (n, count) that cover where real variables may lie, log densities there, and who was found."""
    look = _PointSearch(pairs, count)
    look.find(pairs.is_real, np.zeros(pairs.n, dtype=bool))
    unknown = pairs.is_real & ~look.known
    near = pairs.collect((~unknown[pairs.sender]).astype(np.float64)) > 0  # who has a known neighbour
    links = _links(pairs)
    alone = unknown & (pairs.degrees > 0)
    alone[list(nearest(links, look.known & pairs.is_real))] = False
    look.find(unknown & near, ~unknown)
    for _ in range(_TOGETHER if alone.any() else 0):
        look.find(alone, np.ones(pairs.n, dtype=bool))
    unknown = pairs.is_real & ~look.known
    _borrow(pairs, look.points, look.values, unknown, links, spread)
    return look.points, look.values, look.known & pairs.is_real


class _PointSearch:
    """Points of all variables, moved to where the variables are."""

    def __init__(self, pairs: ParticlePairs, count: int) -> None:
        self.pairs = pairs
        self.points, self._log_states = state_points(pairs, count)
        self.points[pairs.is_real] = first_points(count)
        self.values = np.zeros(self.points.shape)
        self.known = ~pairs.is_real

    def find(self, asked: np.ndarray, senders: np.ndarray) -> None:
        """Look for the variables asked for; pair factors are heard where their other variable sends."""
        if not asked.any():
            return
        pairs, count = self.pairs, self.points.shape[1]
        heard = senders[pairs.sender][:, None]
        told = self._messages()

        def height(x: np.ndarray) -> np.ndarray:
            at = np.where(pairs.is_real[:, None], x, 0.0)
            values = unary_values(pairs, at, strict=False)
            if not senders.any():
                return values
            most = send_largest(pairs, self.points[pairs.sender], told[pairs.sender], at[pairs.receiver])
            return values + pairs.collect(np.where(heard, np.maximum(most, -1e300), 0.0))

        seen = search(height, asked)
        points = refine(seen.points, seen.values, widen=False, count=count)
        for _ in range(_ROUNDS):
            points = refine(points, height(points), widen=False)
        found = seen.known
        self.points[found], self.values[found] = points[found], height(points)[found]
        self.known |= found

    def _messages(self) -> np.ndarray:
        """Log weights of the points of all senders."""
        return unary_values(self.pairs, self.points, strict=False) + self._log_states


def _borrow(
    pairs: ParticlePairs,
    points: np.ndarray,
    values: np.ndarray,
    unknown: np.ndarray,
    links: dict[int, list[int]],
    spread: float,
) -> None:
    """Give the unknown the table of the nearest known variable, or a normal density around zero."""
    grid = np.linspace(-6, 6, points.shape[1])
    points[unknown], values[unknown] = spread * grid, -0.5 * grid**2
    for i, known in nearest(links, pairs.is_real & ~unknown).items():
        if unknown[i]:
            points[i], values[i] = points[known], values[known]


def _links(pairs: ParticlePairs) -> dict[int, list[int]]:
    links: dict[int, list[int]] = {}
    for i, j in zip(pairs.sender.tolist(), pairs.receiver.tolist(), strict=True):
        links.setdefault(i, []).append(j)
    return links
