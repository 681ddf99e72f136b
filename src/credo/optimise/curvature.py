"""The two loops of L-BFGS: a slope times the inverse curvature that recent moves have shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ..core.records import record

__all__ = ["CurvaturePairs", "apply_curvature", "dot", "is_curved", "last_scale"]

_LEAST = 1e-200  # products of numbers that are smaller underflow
_SHORT = 8192  # numbers up to which a product by BLAS stays in this thread


def dot(a: np.ndarray, b: np.ndarray) -> float:
    """Inner product in this thread: vectors are too short for several to be worth their start."""
    return float(a.dot(b)) if len(a) <= _SHORT else float(np.einsum("i,i->", a, b))


def is_curved(move: np.ndarray, turn: np.ndarray) -> bool:
    """Whether a move and the turn of the slope along it make a pair that `apply_curvature` can use."""
    lengths = dot(move, move), dot(turn, turn)
    return min(lengths) > _LEAST and dot(move, turn) > 1e-10 * float(np.sqrt(lengths[0] * lengths[1]))


def apply_curvature(
    slope: np.ndarray,
    moves: Sequence[np.ndarray],
    turns: Sequence[np.ndarray],
    metric: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    """The slope times the inverse curvature.

    `moves` are recent ones and `turns` how the slope changed with them, each with a positive inner product;
    `metric` stands for the inverse curvature where they say nothing.
    """
    left, parts, sizes = slope.copy(), [], [dot(m, t) for m, t in zip(moves, turns, strict=True)]
    for move, turn, size in zip(moves[::-1], turns[::-1], sizes[::-1], strict=True):
        parts.append(dot(move, left) / size)
        left -= parts[-1] * turn
    way = metric(left)
    for move, turn, size, part in zip(moves, turns, sizes, parts[::-1], strict=True):
        way += (part - dot(turn, way) / size) * move
    return way


def last_scale(
    moves: Sequence[np.ndarray], turns: Sequence[np.ndarray]
) -> Callable[[np.ndarray], np.ndarray]:
    """The usual metric: one number, by which the last move was longer than its turn."""
    scale = dot(moves[-1], turns[-1]) / dot(turns[-1], turns[-1]) if moves else 1.0
    return lambda v: scale * v


@record("pairs")
class CurvaturePairs(NamedTuple):
    """Recent moves, and how the slope turned along each."""

    moves: tuple[np.ndarray, ...] = ()
    turns: tuple[np.ndarray, ...] = ()

    def times(
        self, slope: np.ndarray, metric: Callable[[np.ndarray], np.ndarray] | None = None
    ) -> np.ndarray:
        """The slope times the inverse curvature."""
        return apply_curvature(slope, self.moves, self.turns, metric or last_scale(self.moves, self.turns))

    def after(self, move: np.ndarray, turn: np.ndarray, memory: int) -> CurvaturePairs:
        """With one more pair if its curvature is safely positive, and no more than `memory` of them."""
        if not is_curved(move, turn):
            return self
        return CurvaturePairs((*self.moves, move)[-memory:], (*self.turns, turn)[-memory:])
