r"""How far to go along a line that leads down.

    backtrack        halve the length until what is found there is good enough
    wolfe            enough descent and a flatter slope (the strong Wolfe conditions): grow until such a
                     length is bracketed, then interpolate
    golden_section   the lowest place of a function with one valley

What is tried is a function of the length. Where a search may be cut, the function asks (`run.check`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

__all__ = ["ROUNDING", "Trial", "backtrack", "falls", "golden_section", "wolfe"]

T = TypeVar("T")
ROUNDING = 1e-14  # relative change of a value that is noise
_ENOUGH, _FLAT = 1e-4, 0.9  # the two Wolfe constants
_TRIES = 40  # evaluations of one search
_GOLDEN = float((np.sqrt(5.0) - 1.0) / 2.0)


def falls(new: float, old: float, predicted: float) -> bool:
    """Whether a value fell enough, given what the slope promised for this length (Armijo's condition)."""
    return new <= old + _ENOUGH * predicted


def backtrack(
    at: Callable[[float], T], is_enough: Callable[[T, float], bool], length: float = 1.0, tries: int = _TRIES
) -> tuple[T, float] | None:
    """The first of `length`, `length` / 2, ... where it is enough, and what is there; None if none is.

    Examples
    --------
    >>> from credo.optimise.line_search import backtrack, falls
    >>> backtrack(lambda t: (3 - 8 * t) ** 2, lambda value, t: falls(value, 9.0, -48 * t))
    (1.0, 0.5)
    """
    for _ in range(tries):
        found = at(length)
        if is_enough(found, length):
            return found, length
        length /= 2
    return None


class Trial(NamedTuple):
    """What is found at one length."""

    value: float  # inf where there is no number
    slope: float  # along the line; inf where there is no number
    place: Any = None  # whatever the caller needs of it


def wolfe(at: Callable[[float], Trial], value: float, along: float, length: float) -> Trial | None:
    """A length with enough descent and a flatter slope; the lowest one seen if there is none, or None.

    Parameters
    ----------
    at
        What is found at a length.
    value, along
        The value and the slope, below zero, at length zero.
    length
        To be tried first.
    """
    noise = ROUNDING * max(1.0, abs(value))
    low, high, best = (0.0, value, along), None, None
    for _ in range(_TRIES):
        there = at(length)
        has_fallen = falls(there.value, value, length * along)
        # So near the optimum that values are noise, the slopes decide alone.
        is_lower = has_fallen or (there.value <= value + noise and abs(there.slope) <= -along)
        if is_lower and abs(there.slope) <= -_FLAT * along:
            return there
        # A search that fails must not take noise for a way on: it would creep for ever.
        if has_fallen and there.value < (value if best is None else best.value):
            best = there
        if not is_lower or (high is not None and there.value >= low[1] + noise) or there.slope >= 0:
            high = length
        else:
            low = (length, there.value, there.slope)
        length = _next_length(low, high, there.value)
        if high is not None and high - low[0] <= 1e-16 * high:
            break
    return best


def _next_length(low: tuple[float, float, float], high: float | None, value: float) -> float:
    """Double while nothing is bracketed; then the minimum of a parabola, kept inside the bracket."""
    length, low_value, low_slope = low
    if high is None:
        return 2.0 * length
    width = high - length
    rise = value - low_value - low_slope * width
    guess = -low_slope * width**2 / (2 * rise) if np.isfinite(rise) and rise > 0 else 0.5 * width
    return length + min(max(guess, 0.1 * width), 0.9 * width)


def golden_section(value: Callable[[float], float], low: float, high: float, tol: float = 1e-10) -> float:
    """Where a function with one valley is lowest in [low, high], to `tol` of the width.

    The ends count too: a function that only falls ends at `high` itself.

    Examples
    --------
    >>> from credo.optimise.line_search import golden_section
    >>> round(golden_section(lambda t: (t - 0.3) ** 2, 0.0, 1.0), 6)
    0.3
    >>> golden_section(lambda t: -t, 0.0, 2.0)
    2.0
    """
    left, right, width = low, high, high - low
    a, b = right - _GOLDEN * width, left + _GOLDEN * width
    at_a, at_b = value(a), value(b)
    while right - left > tol * width:
        if at_a <= at_b:
            right, b, at_b = b, a, at_a
            a = right - _GOLDEN * (right - left)
            at_a = value(a)
        else:
            left, a, at_a = a, b, at_b
            b = left + _GOLDEN * (right - left)
            at_b = value(b)
    return min((low, high, (left + right) / 2), key=value)
