"""Columns whose values say what they are, because no model does.

Categories stay in their order; bools, strings, whole numbers and whole floats with gaps become sorted labels;
other floats are real. What would be a guess is refused with the way out.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Number
from typing import Any

import numpy as np

from ..core.domain import Discrete, Domain, Real, unlabelled_states
from ..core.errors import DataError
from ..core.numbers import float_array, is_missing
from .cells import Cells, is_missing_word
from .coding import coded, without
from .column import Column

__all__ = ["MOST_NUMBERS", "shown"]

MOST_NUMBERS = 32  # different whole numbers that are states; more are amounts
_NAMED = 0.9  # share of different strings among as many rows from which they name the rows


def shown(
    name: str,
    values: Any,
    *,
    has_names: bool = True,
    in_file: bool = False,
    missing: Sequence[Any] = (),
) -> Column:
    """A column with the domain that its values show; the parameters are those of `coded`."""
    if isinstance(values, Column):
        return values
    kind = getattr(getattr(values, "dtype", None), "kind", "O")
    if kind in "cmMV":
        raise _no_states(name, str(values.dtype), "give numbers, or labels: astype(str)")
    array = _float_array(name, values)
    domain: Domain | None = None if array is None else _real(name, array, missing)
    if domain is None:
        values = values if array is None else array
        try:
            cells = without(Cells.of(values), missing, in_file)
        except DataError as error:
            raise DataError(f"data: column '{name}', {error}") from None
        _refuse_vectors(name, cells)
        if in_file:
            cells = cells.without([v for v in cells.distinct if is_missing_word(v)])
        domain = _domain(name, cells, has_names, in_file)
        values = cells if domain.size else values
    return coded(name, domain, values, has_names=has_names, in_file=in_file, missing=missing)


def _refuse_vectors(name: str, cells: Cells) -> None:
    if cells.vectors:
        row, vector = next(iter(cells.vectors.items()))
        raise _no_states(
            name,
            f"{vector!r:.40} in row {row}",
            f"soft evidence needs the states it weighs: schema={{'{name}': [...]}}",
        )


def _real(name: str, array: np.ndarray, missing: Sequence[Any]) -> Real | None:
    """The domain of floats; None for whole ones with gaps, which integers with missing cells become."""
    if array.ndim == 2:
        return Real(array.shape[1])
    if array.ndim != 1:
        raise DataError(f"data: column '{name}': expected one value per row, got shape {array.shape}")
    gone = np.isnan(array) | np.isin(array, [m for m in missing if isinstance(m, (int, float))])
    seen = array[~gone]
    if not gone.any() or not len(seen) or not (seen == np.floor(seen)).all() or np.isinf(seen).any():
        return Real()
    return Real() if len(np.unique(seen)) > MOST_NUMBERS else None


def _float_array(name: str, values: Any) -> np.ndarray | None:
    """Floats as an array, whatever holds them; None where there is something else than floats and gaps."""
    dtype = getattr(values, "dtype", None)
    kind = getattr(dtype, "kind", "O")
    if isinstance(values, Cells) or hasattr(dtype, "categories"):
        return None
    if isinstance(values, np.ma.MaskedArray):
        return np.ma.filled(values, np.nan) if kind == "f" else None
    if str(dtype) in ("Float32", "Float64"):
        return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    if kind in "biuf" and getattr(values, "ndim", 1) == 1:
        return np.asarray(values) if kind == "f" else None
    if isinstance(values, np.ndarray) and values.ndim != 1:
        return values
    listed = list(values) if str(dtype) in ("None", "object") else []
    kinds = set(map(type, listed))
    if kinds and kinds <= {list, tuple, np.ndarray} and len({np.shape(v) for v in listed}) == 1:
        array = np.asarray(listed)
        return array if array.dtype.kind == "f" else None
    floats = any(issubclass(k, (float, np.floating)) for k in kinds)
    if not floats or not all(_is_number(k) for k in kinds):
        return None
    gaps = [v for v in listed if not is_missing(v)]
    return float_array(f"data: column '{name}'", listed, error=DataError, missing=True) if gaps else None


def _is_number(kind: type) -> bool:
    """Whether values of this type are numbers that are no states by themselves, or gaps."""
    numbers = issubclass(kind, (float, int, np.number)) and not issubclass(kind, (bool, np.complexfloating))
    return numbers or kind.__name__ in ("NoneType", "NAType", "MaskedConstant")


def _domain(name: str, cells: Cells, has_names: bool, in_file: bool) -> Domain:
    if cells.declared:
        return Discrete.of([str(label) for label in cells.distinct])
    used = cells.used
    if not used:
        raise DataError(
            f"data: column '{name}': expected at least one value, got none; give variables as schema"
        )
    kinds = set(map(_kind, used))
    if kinds == {str}:
        return _labels(name, cells, [str(v).strip() if in_file else str(v) for v in used], in_file)
    if kinds == {bool}:
        return Discrete.of(["False", "True"])
    if kinds == {int}:
        found = sorted(map(int, used))
        return _labelled_numbers(name, found) if has_names else _positions(name, found)
    if kinds <= {int, float}:
        return Real()
    odd = next((f"{v!r:.40}" for v in used if _kind(v) is None), None)
    if odd is not None:
        raise _no_states(name, odd, "give numbers, or labels: astype(str)")
    raise _no_states(name, "values of several kinds", "give one kind of label: astype(str)")


def _kind(value: Any) -> type | None:
    """Which kind of value: a bool, a whole number, another number, a string, or None of them."""
    if isinstance(value, (bool, np.bool_)):
        return bool
    if isinstance(value, (int, np.integer)):
        return int
    if isinstance(value, str):
        return str
    return (
        float if isinstance(value, Number) and not isinstance(value, (complex, np.complexfloating)) else None
    )


def _labels(name: str, cells: Cells, found: list[str], in_file: bool) -> Domain:
    """Sorted strings, numbers by their size; in a file numbers that are not all whole are real."""
    try:
        numbers = sorted(set(found), key=float)
    except ValueError:
        numbers = []
    if numbers and in_file:
        if not all(float(v).is_integer() for v in numbers):
            return Real()
        _refuse_amounts(name, len(numbers))
    count = int((cells.codes >= 0).sum())
    if len(found) > max(MOST_NUMBERS, _NAMED * count):
        rows = "as many" if len(found) == count else str(count)
        raise _no_states(name, f"{len(found)} different strings in {rows} rows", "leave out names of rows")
    return Discrete.of(numbers or sorted(set(found)))


def _labelled_numbers(name: str, found: list[int]) -> Domain:
    """Whole numbers as sorted labels; from 0 without a gap they need none."""
    _refuse_amounts(name, len(found))
    if found[:2] == [-1, 0]:
        raise _no_states(
            name,
            "-1 among whole numbers from 0",
            "give missing=-1 if it stands for missing cells, labels, astype(str), if it is a state",
        )
    plain = found == list(range(len(found)))
    return unlabelled_states(len(found)) if plain else Discrete.of([str(v) for v in found])


def _positions(name: str, found: list[int]) -> Domain:
    """Positions of states, -1 where missing."""
    if found[0] < -1 or found[-1] < 0:
        raise _no_states(name, f"{found[0]}", "whole numbers of an array are positions of states from 0")
    _refuse_amounts(name, found[-1] + 1)
    return unlabelled_states(found[-1] + 1)


def _refuse_amounts(name: str, count: int) -> None:
    if count > MOST_NUMBERS:
        raise _no_states(
            name,
            f"{count} different numbers",
            f"at most {MOST_NUMBERS} whole numbers are states: give schema={{'{name}': Real()}} if they are "
            "amounts, or labels: astype(str)",
        )


def _no_states(name: str, got: str, way_out: str) -> DataError:
    return DataError(
        f"data: column '{name}': expected states, that is whole numbers, bools, strings or categories, or "
        f"numbers, got {got}; {way_out}, or give the variables with their states"
    )
