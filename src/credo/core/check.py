"""Argument checks with one wording: `name must be ..., got ...`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from .errors import OptionError

__all__ = ["at_least", "in_range", "one_of"]


def in_range(name: str, value: float, low: float, high: float) -> None:
    """Refuse a value outside [low, high)."""
    if not _is_number(value) or not low <= value < high:
        raise OptionError(f"{name} must be in [{low:g}, {high:g}), got {value!r}")


def at_least(name: str, value: float, low: float) -> None:
    """Refuse a value below `low` (NaN included)."""
    if not _is_number(value) or not value >= low:
        raise OptionError(f"{name} must be at least {low:g}, got {value!r}")


def one_of(name: str, value: Any, allowed: Collection[Any]) -> None:
    """Refuse a value that is not listed."""
    if value not in allowed:
        raise OptionError(f"{name} must be one of {sorted(allowed)}, got {value!r}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
