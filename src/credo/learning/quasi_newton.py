r"""Limited-memory quasi-Newton descent of  F(w) = f(w) + sum_k l1_k |w_k|.

    direction   d = -H g,  H from the last pairs s = w' - w, y = g' - g by the two-loop recursion
    step        smooth F: strong Wolfe conditions, by bracketing and interpolation
                with absolute values (OWL-QN, Andrew and Gao 2007): g is the steepest descent direction of F,
                d is kept within its signs, steps stay in the orthant of w, and halve until F falls enough

F never rises between accepted points, up to rounding. Memory O(pairs * weights). The vectors are long and
the rest is small, so this is a page of NumPy; a library routine with general bounds spent thirty times
longer on the same problems than the objective did.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..core.result import Status
from ..inference.curvature import curved, dot, last_scale
from ..optimise.run import check

__all__ = ["Descent", "Point", "descended"]

Function = Callable[[np.ndarray], tuple[float, np.ndarray]]
_ENOUGH, _FLAT = 1e-4, 0.9  # the two Wolfe constants
_ROUNDING = 1e-14  # relative change of F that is noise
_TRIES = 40  # evaluations of one line search


@dataclass(frozen=True)
class Point:
    """A place and what is known there."""

    w: np.ndarray  # the place
    value: float  # F
    gradient: np.ndarray  # of f
    slope: np.ndarray  # of F: the subgradient of least size

    @classmethod
    def at(cls, function: Function, w: np.ndarray, l1: np.ndarray | float) -> Point:
        """Evaluate."""
        value, gradient = function(w)
        if not np.any(l1):
            return cls(w, value, gradient, gradient)
        least = np.sign(gradient) * np.maximum(np.abs(gradient) - l1, 0.0)
        slope = np.where(w == 0, least, gradient + l1 * np.sign(w))
        return cls(w, value + float((l1 * np.abs(w)).sum()), gradient, slope)

    @property
    def is_finite(self) -> bool:
        """Whether nothing overflowed."""
        return bool(np.isfinite(self.value) and np.isfinite(self.gradient).all())

    @property
    def steepness(self) -> float:
        """The largest slope."""
        return float(np.abs(self.slope).max(initial=0.0))


class Descent(NamedTuple):
    """Where a descent is, and the steps and changes of the gradient that led there."""

    here: Point
    pairs: tuple[tuple[np.ndarray, np.ndarray], ...] = ()


def descended(
    function: Function, state: Descent, l1: np.ndarray | float, *, memory: int, tol: float
) -> Descent | Status:
    """One line search on; a status where there is none."""
    here, pairs = state
    search = _orthant_search if np.any(l1) else _wolfe_search
    there = search(function, here, _direction(here, pairs, l1), l1, not pairs)
    if there is None and pairs:
        pairs = ()  # old curvature may be what misleads; the plain slope is the last word
        there = search(function, here, -here.slope, l1, True)
    if there is None:
        return _stalled(here, tol)
    step, change = there.w - here.w, there.gradient - here.gradient
    if dot(step, change) > 1e-10 * dot(change, change):
        pairs = (*pairs, (step, change))[-memory:]
    return Descent(there, pairs)


def _stalled(here: Point, tol: float) -> Status:
    """Rounding ends a descent near the optimum; anywhere else the gradient is not that of the value."""
    rounding = np.sqrt(_ROUNDING) * max(1.0, abs(here.value))
    return Status.CONVERGED if here.steepness <= max(tol, 10 * rounding) else Status.STALLED


def _direction(
    here: Point, pairs: tuple[tuple[np.ndarray, np.ndarray], ...], l1: np.ndarray | float
) -> np.ndarray:
    """The two-loop recursion on the slope."""
    moves, turns = [step for step, _ in pairs], [change for _, change in pairs]
    d = -curved(here.slope, moves, turns, last_scale(moves, turns))
    if np.any(l1):
        d = np.where(d * here.slope < 0, d, 0.0)
    return d if dot(d, here.slope) < 0 else -here.slope


def _first_length(d: np.ndarray, fresh: bool) -> float:
    """One for a quasi-Newton step; a short one for a plain slope, whose length means nothing."""
    return min(1.0, 1.0 / float(np.abs(d).sum())) if fresh else 1.0


def _orthant_search(
    function: Function, here: Point, d: np.ndarray, l1: np.ndarray | float, fresh: bool
) -> Point | None:
    """Halve the step until F falls enough; weights that would change their sign stop at zero."""
    orthant = np.where(here.w == 0, -np.sign(here.slope), np.sign(here.w))
    length = _first_length(d, fresh)
    for _ in range(_TRIES):
        check()
        w = here.w + length * d
        w = np.where(w * orthant > 0, w, 0.0)
        there = Point.at(function, w, l1)
        gain = dot(here.slope, w - here.w)
        if there.is_finite and there.value <= here.value + _ENOUGH * gain and gain < 0:
            return there
        length *= 0.5
    return None


def _wolfe_search(
    function: Function, here: Point, d: np.ndarray, l1: np.ndarray | float, fresh: bool
) -> Point | None:
    """A step with enough descent and a flatter slope: grow until bracketed, then interpolate."""
    along = dot(here.slope, d)
    noise = _ROUNDING * max(1.0, abs(here.value))
    low, low_value, low_slope = 0.0, here.value, along
    high: float | None = None
    length = _first_length(d, fresh)
    best: Point | None = None
    for _ in range(_TRIES):
        check()
        there = Point.at(function, here.w + length * d, l1)
        slope = dot(there.slope, d) if there.is_finite else np.inf
        falls = there.is_finite and there.value <= here.value + _ENOUGH * length * along
        # So near the optimum that values are noise, the slopes decide alone.
        falls = falls or (there.is_finite and there.value <= here.value + noise and abs(slope) <= -along)
        if falls and abs(slope) <= -_FLAT * along:
            return there
        if not falls or (high is not None and there.value >= low_value + noise) or slope >= 0:
            if falls and (best is None or there.value < best.value):
                best = there
            high = length
        else:
            best = there
            low, low_value, low_slope = length, there.value, slope
        length = _next_length(low, low_value, low_slope, high, there)
        if high is not None and high - low <= 1e-16 * high:
            break
    return best


def _next_length(low: float, low_value: float, low_slope: float, high: float | None, there: Point) -> float:
    """Double while nothing is bracketed; then the minimum of a parabola, kept inside the bracket."""
    if high is None:
        return 2.0 * low
    width = high - low
    rise = there.value - low_value - low_slope * width
    guess = -low_slope * width**2 / (2 * rise) if np.isfinite(rise) and rise > 0 else 0.5 * width
    return low + min(max(guess, 0.1 * width), 0.9 * width)
