"""The one place where what a user calls numbers becomes an array of floats.

NumPy converts more than it should: it drops imaginary parts and masks, and counts dates from 1970. What would
lose something is refused here with a sentence that says how to keep it; the error's class is the caller's.
"""

from __future__ import annotations

import sys
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from .errors import CredoError, ModelError

__all__ = ["float_array", "is_missing"]

_PLAIN = frozenset({float, int, bool, np.float64, np.int64})  # numbers that hide no mask
_FAILURES = (TypeError, ValueError, OverflowError, RuntimeError)  # of NumPy, and of arrays of other libraries


class _MaskedError(Exception):
    """Entries are masked where none may be missing."""


def float_array(
    what: str,
    value: Any,
    *,
    error: type[CredoError] = ModelError,
    expected: str = "numbers",
    copy: bool = False,
    missing: bool = False,
) -> np.ndarray:
    """Floats of any shape, NaN and infinities included, or a refusal `what: expected ..., got ...`.

    Parameters
    ----------
    what, expected
        For the sentence, which begins with what it is about unless that is empty.
    value
        Anything that NumPy reads: arrays, nested lists, frames.
    error
        The class of the refusal.
    copy
        Whether the array must be the caller's own.
    missing
        Whether cells may be missing: masked ones, None and pandas' NA become NaN.
    """
    if type(value) is np.ndarray and value.dtype == np.float64:
        return value.copy() if copy else value
    try:
        if _holds_masks(value):
            if not missing:
                raise _MaskedError
            value = _unmasked(value)
        found = np.asarray(value)
        if found.dtype.kind == "O":
            found = _numbers_of(found, missing)
        if found.dtype.kind in "cmMV":
            raise TypeError
        return found.astype(np.float64, copy=copy)
    except _MaskedError:
        told = "a masked array with masked entries; `filled(...)` gives them a number"
    except _FAILURES:
        told = _describe(value)
    raise error(f"{what}: expected {expected}, got {told}" if what else f"expected {expected}, got {told}")


def is_missing(value: Any) -> bool:
    """Whether a value means that nothing was observed."""
    return (
        value is None
        or (type(value).__name__ == "MaskedConstant" and value is np.ma.masked)
        or (isinstance(value, (float, np.floating)) and bool(np.isnan(value)))
        or type(value).__name__ in ("NAType", "NaTType")  # of pandas, without importing it
    )


def _is_masked(value: Any) -> bool:
    """Whether this is a masked array; who has one has loaded their module, which takes its time."""
    masked = sys.modules.get("numpy.ma")
    return masked is not None and isinstance(value, masked.MaskedArray)


def _holds_masks(value: Any) -> bool:
    """Whether an entry of a masked array, or of one inside of a list, is masked."""
    if _is_masked(value):
        return bool(np.ma.is_masked(value))
    if not isinstance(value, (list, tuple)):
        return False
    return not set(map(type, value)) <= _PLAIN and any(_holds_masks(x) for x in value)


def _unmasked(value: Any) -> Any:
    """The same with NaN for masked entries."""
    if _is_masked(value):
        if value.dtype.kind not in "biuf":
            raise TypeError
        return np.ma.filled(value.astype(np.float64), np.nan)
    return [_unmasked(x) for x in value] if isinstance(value, (list, tuple)) else value


def _numbers_of(objects: np.ndarray, missing: bool) -> np.ndarray:
    """Floats of an array of objects, if each is a real number, or missing where that is allowed."""
    for x in objects.flat:
        if not isinstance(x, (Real, Decimal)) and not (missing and is_missing(x)):
            raise TypeError
    return np.array([np.nan if is_missing(x) else float(x) for x in objects.flat]).reshape(objects.shape)


def _describe(value: Any) -> str:
    """What was given in the place of numbers, and the way out where there is one."""
    if hasattr(value, "columns"):
        others = [str(name) for name in value.columns if np.asarray(value[name]).dtype.kind not in "biuf"]
        return f"columns of another kind: {others[:5]}; encode them first" if others else f"{value!r:.80}"
    try:
        kind = np.asarray(value).dtype
    except _FAILURES:
        return f"{value!r:.80}"
    if kind.kind == "c":
        return f"complex ones: {value!r:.80}; give `.real` if their imaginary parts mean nothing"
    if kind.kind in "mM":
        return f"dates ({kind}); give numbers, such as days: (x - x[0]) / np.timedelta64(1, 'D')"
    return f"{value!r:.80}"
