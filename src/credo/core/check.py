"""Argument checks with one wording: `name must be ..., got ...`."""

from __future__ import annotations

import sys
from collections.abc import Collection
from numbers import Integral, Real
from typing import Any

import numpy as np

from .errors import ModelError, OptionError
from .numbers import float_array

__all__ = ["above", "at_least", "finite", "finite_numbers", "generator", "in_range", "one_of", "whole"]

_LARGEST = sys.float_info.max
_WHOLE = 2**63  # whole numbers below it fit into arrays


def in_range(name: str, value: float, low: float, high: float) -> None:
    """Refuse a value outside [low, high)."""
    if not _is_number(value) or not low <= value < high:
        raise OptionError(f"{name} must be in [{low:g}, {high:g}), got {value!r:.80}")
    _holdable(name, value)


def at_least(name: str, value: float, low: float) -> None:
    """Refuse a value below `low` (NaN included), and whole numbers that no float can hold."""
    if not _is_number(value) or not value >= low:
        raise OptionError(f"{name} must be at least {low:g}, got {value!r:.80}")
    _holdable(name, value)


def above(name: str, value: float, low: float) -> None:
    """Refuse what is not a finite number above `low`."""
    if not _is_number(value) or not np.isfinite(value) or not value > low:
        raise OptionError(f"{name} must be a number above {low:g}, got {value!r:.80}")


def finite(name: str, value: float) -> None:
    """Refuse what is no finite number."""
    if not _is_number(value) or not -_LARGEST <= value <= _LARGEST:
        raise OptionError(f"{name} must be a finite number, got {value!r:.80}")


def one_of(name: str, value: Any, allowed: Collection[Any]) -> None:
    """Refuse a value that is not listed."""
    if value not in allowed:
        raise OptionError(f"{name} must be one of {sorted(allowed)}, got {value!r}")


def whole(name: str, value: Any, low: int, high: int | None = None) -> None:
    """Refuse what is no whole number of at least `low`, and below `high` if that is given."""
    if type(value) is not int and not (_is_number(value) and isinstance(value, Integral)):
        raise OptionError(f"{name} must be a whole number, got {value!r:.80}")
    number: Any = value  # numpy's whole numbers too
    if high is not None:
        in_range(name, number, low, high)
    elif number >= _WHOLE:
        raise OptionError(f"{name} must be below 2^63, got {value!r:.80}")
    else:
        at_least(name, number, low)


def generator(seed: Any, name: str = "seed") -> np.random.Generator:
    """The random numbers of a seed: a whole number from 0, None for fresh ones, or a generator to share."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError, OverflowError):
        raise OptionError(
            f"{name} must be a whole number of at least 0, a numpy Generator or None, got {seed!r:.80}"
        ) from None


def finite_numbers(name: str, values: Any) -> np.ndarray:
    """A copy of parts of a model as finite floats, or a refusal."""
    found = float_array(name, values, copy=True)
    if not np.isfinite(found).all():
        raise ModelError(f"{name}: expected finite numbers, got {found[~np.isfinite(found)].flat[0]:g}")
    return found


def _holdable(name: str, value: float) -> None:
    if isinstance(value, int) and abs(value) > _LARGEST:  # floats hold themselves, whatever their width
        raise OptionError(f"{name} must be a number that a float can hold, got {value!r:.80}")


def _is_number(value: Any) -> bool:
    # The two usual types first: asking an abstract class costs a microsecond.
    return type(value) in (float, int) or (isinstance(value, Real) and not isinstance(value, bool))
