r"""L-BFGS: limited-memory quasi-Newton descent of  F(w) = f(w) + sum_k l1_k |w_k|.

    direction   d = -H g,  H from the last pairs s = w' - w, y = g' - g by the two-loop recursion
    step        smooth F: strong Wolfe conditions, or halving until F falls enough (`line_search.py`)
                with absolute values (OWL-QN, Andrew and Gao 2007): g is the steepest descent direction of F,
                d is kept within its signs, steps stay in the orthant of w and halve

F never rises between accepted points, up to rounding. Memory O(pairs * weights). What is remembered is a
state: a descent can be cut after any line search and goes on with the same bits. The vectors are long and
the rest is small, so this is a page of NumPy; a library routine with general bounds spent thirty times
longer on the same problems than the objective did.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from ..core.records import record
from ..core.result import Status
from .curvature import CurvaturePairs, dot
from .driver import Step
from .line_search import ROUNDING, Trial, backtrack, falls, wolfe
from .run import check

__all__ = ["Descent", "Function", "Point", "advance", "descend"]

Function = Callable[[np.ndarray], tuple[Any, ...]]  # place -> value, gradient, and whatever else is wanted
_HALVINGS = 30  # of a plain search


@record("point")
class Point(NamedTuple):
    """A place and what is known there."""

    w: np.ndarray  # the place
    value: float  # F
    gradient: np.ndarray  # of f
    slope: np.ndarray  # of F: the subgradient of least size
    more: tuple[Any, ...] = ()  # what else the function said

    @classmethod
    def at(cls, function: Function, w: np.ndarray, l1: np.ndarray | float = 0.0) -> Point:
        """The function with its absolute values at `w`; where a weight is zero, the slope of least size."""
        value, gradient, *more = function(w)
        if not np.any(l1):
            return cls(w, value, gradient, gradient, tuple(more))
        least = np.sign(gradient) * np.maximum(np.abs(gradient) - l1, 0.0)
        slope = np.where(w == 0, least, gradient + l1 * np.sign(w))
        return cls(w, value + float((l1 * np.abs(w)).sum()), gradient, slope, tuple(more))

    @property
    def is_finite(self) -> bool:
        """Whether nothing overflowed."""
        return bool(np.isfinite(self.value) and np.isfinite(self.gradient).all())

    @property
    def steepness(self) -> float:
        """The largest absolute entry of the slope, 0 at a stationary point: the residual of a run."""
        return float(np.abs(self.slope).max(initial=0.0))

    @property
    def left(self) -> float:
        """What a step of unit curvature along the largest slope could still gain, relative to F."""
        return min(self.steepness, self.steepness**2 / max(1.0, abs(self.value)))


@record("descent")
class Descent(NamedTuple):
    """Where a descent is, and the moves and turns of the gradient that led there."""

    here: Point
    pairs: CurvaturePairs = CurvaturePairs()


def descend(
    function: Function,
    state: Descent,
    l1: np.ndarray | float = 0.0,
    *,
    memory: int = 10,
    search: Literal["wolfe", "halving"] = "wolfe",
) -> Descent | None:
    """One line search on; None where no step leads down.

    Parameters
    ----------
    function
        Value and gradient of the smooth part; where they are no numbers, the search steps back. What else it
        returns is kept in `Point.more`.
    state
        Where to go on.
    l1
        Strengths of the absolute values.
    memory
        Pairs of moves and turns that are kept.
    search
        Along a smooth function; with absolute values it is always halving.
    """
    here = state.here
    along = _along_orthant if np.any(l1) else _along_line if search == "wolfe" else _along_halves
    # Old curvature may be what misleads; the plain slope is the last word.
    for pairs in (state.pairs, CurvaturePairs())[: 1 + bool(state.pairs.moves)]:
        d = -pairs.times(here.slope)
        if np.any(l1):
            d = np.where(d * here.slope < 0, d, 0.0)
        if not dot(d, here.slope) < 0:
            continue
        there = along(function, here, d, l1, not pairs.moves)
        if there is not None:
            return Descent(there, pairs.after(there.w - here.w, there.gradient - here.gradient, memory))
    return None


def advance(function: Function, state: Descent, l1: np.ndarray | float = 0.0, *, memory: int = 10) -> Step:
    """One line search as a driven step: the residual is the largest slope, none if it is rounding."""
    new = descend(function, state, l1, memory=memory)
    if new is not None:
        return Step(new, [new.here.steepness])
    # Rounding ends a descent near the optimum; anywhere else the gradient is not that of the value.
    least = 10 * np.sqrt(ROUNDING) * max(1.0, abs(state.here.value))
    return Step(state, [0.0]) if state.here.steepness <= least else Step(state, status=Status.STALLED)


def _first_length(size: float, is_fresh: bool) -> float:
    """One for a quasi-Newton step; a short one for a plain slope, whose length means nothing."""
    return min(1.0, 1.0 / size) if is_fresh else 1.0


def _along_orthant(
    function: Function, here: Point, d: np.ndarray, l1: np.ndarray | float, is_fresh: bool
) -> Point | None:
    """Weights that would change their sign stop at zero."""
    orthant = np.where(here.w == 0, -np.sign(here.slope), np.sign(here.w))

    def at(length: float) -> Point:
        check()
        w = here.w + length * d
        return Point.at(function, np.where(w * orthant > 0, w, 0.0), l1)

    def is_enough(there: Point, length: float) -> bool:
        gain = dot(here.slope, there.w - here.w)
        return there.is_finite and gain < 0 and falls(there.value, here.value, gain)

    found = backtrack(at, is_enough, _first_length(float(np.abs(d).sum()), is_fresh))
    return None if found is None else found[0]


def _along_halves(
    function: Function, here: Point, d: np.ndarray, l1: np.ndarray | float, is_fresh: bool
) -> Point | None:
    """A search that never grows begins as far out as is sensible; it is not cut, so that any turn gets on."""
    predicted = dot(here.slope, d)
    found = backtrack(
        lambda length: Point.at(function, here.w + length * d),
        lambda there, length: there.is_finite and falls(there.value, here.value, length * predicted),
        _first_length(float(np.abs(d).max()), is_fresh),
        _HALVINGS,
    )
    return None if found is None else found[0]


def _along_line(
    function: Function, here: Point, d: np.ndarray, l1: np.ndarray | float, is_fresh: bool
) -> Point | None:
    def at(length: float) -> Trial:
        check()
        there = Point.at(function, here.w + length * d)
        if not there.is_finite:
            return Trial(np.inf, np.inf, there)
        return Trial(there.value, dot(there.slope, d), there)

    first = _first_length(float(np.abs(d).sum()), is_fresh)
    found = wolfe(at, here.value, dot(here.slope, d), first)
    return None if found is None else found.place
