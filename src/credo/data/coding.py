"""Columns whose domain is known: labels and positions become states, numbers are checked.

Whole numbers are ambiguous: 1 may be the label '1' or the second state. In an array without names they are
positions, and -1 is a missing cell. In a named column they are labels where all of them are labels, and
positions otherwise; where the two readings contradict each other the column is refused. A variable with a
state '-1', such as a spin, has no missing cells of that kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..core.domain import Continuous, Discrete, Domain, Interval, Positive, Simplex
from ..core.errors import DataError, EvidenceError
from ..core.numbers import float_array
from ..core.variable import Variable
from .cells import Cells, is_missing_word
from .column import MISSING, Column

__all__ = ["coded", "numbers_of", "relabelled", "soft_weights", "without"]

_SUM = 1e-6  # by which a point of a simplex may miss its sum


def coded(
    name: str,
    domain: Domain,
    values: Any,
    *,
    has_names: bool = True,
    in_file: bool = False,
    missing: Sequence[Any] = (),
) -> Column:
    """A column of a domain.

    Parameters
    ----------
    name, domain
        Of the column.
    values
        An array, a list, a series, `Cells`, or a `Column` that was read before.
    has_names
        Whether the source has names: its whole numbers may be labels.
    in_file
        Whether values are text of a file.
    missing
        Values that stand for missing cells.
    """
    if isinstance(values, Column):
        return relabelled(values, domain)
    if isinstance(domain, Continuous):
        return Column(name, domain, numbers_of(name, values, domain, in_file=in_file, missing=missing))
    kind = getattr(getattr(values, "dtype", None), "kind", "O")
    if kind in "cmMV":  # whose cells NumPy would tell as other things
        raise DataError(
            f"data: column '{name}': expected states, got {values.dtype}; give labels: astype(str)"
        )
    variable = Variable(name, domain)
    weights = _matrix(variable, values)
    if weights is not None:
        return Column(name, domain, np.full(len(weights), MISSING, dtype=np.int64), weights)
    if isinstance(getattr(values, "dtype", None), np.dtype) and not isinstance(values, np.ma.MaskedArray):
        values = np.asarray(values)  # of a series
        are_positions = not has_names or not _whole_labels(variable)
        if kind in "iu" and len(values) and not missing and are_positions:
            if values.min() >= 0 and values.max() < domain.size:
                return Column(name, domain, values.astype(np.int64, copy=False))
    try:
        cells = without(Cells.of(values), missing, in_file)
    except DataError as error:
        raise DataError(f"data: column '{name}', {error}") from None
    positions = cells.mapped(_positions(variable, cells, has_names, in_file))
    return Column(name, domain, positions, _vectors(variable, cells))


def without(cells: Cells, missing: Sequence[Any], in_file: bool = False) -> Cells:
    """Cells of which these values are missing; numbers are meant by the text of a file too."""
    if not missing:
        return cells
    text = {str(m) for m in missing} if in_file else set()
    return cells.without(v for v in cells.distinct if v in text or any(_same(v, m) for m in missing))


def _same(value: Any, other: Any) -> bool:
    return isinstance(value, str) == isinstance(other, str) and bool(value == other)


def relabelled(column: Column, domain: Domain) -> Column:
    """A column that was read before, for a domain that has all of its states."""
    known = column.domain
    if known == domain:
        return column
    if not isinstance(known, Discrete) or not isinstance(domain, Discrete):
        raise _other_domain(column.name, f"the domain {known!r:.60}", f"{domain!r:.60}")
    if not set(known.labels) <= set(domain.labels) or column.soft is not None:
        has, wanted = list(known.labels)[:5], list(domain.labels)[:5]
        raise _other_domain(column.name, f"the states {has}", str(wanted))
    place = {label: k for k, label in enumerate(domain.labels)}
    codes = np.array([*(place[label] for label in known.labels), MISSING])
    return Column(column.name, domain, codes[column.values])


def _other_domain(name: str, has: str, wanted: str) -> DataError:
    return DataError(
        f"data: column '{name}' has {has}, the model's {wanted}; read the source again with the model's "
        "variables as schema, or give columns of labels"
    )


# ---------------------------------------------------------------------------------------------
# States
# ---------------------------------------------------------------------------------------------


def _positions(variable: Variable, cells: Cells, has_names: bool, in_file: bool) -> list[int]:
    """The state of each distinct value."""
    seen = cells.used
    whole = [] if cells.declared or in_file else [v for v in seen if _is_whole(v)]
    numbers = _whole_numbers(variable, whole, cells, has_names)
    found, used = [], set(map(id, seen))
    for value in cells.distinct:
        if id(value) not in used:
            found.append(MISSING)
        elif id(value) in numbers:
            found.append(numbers[id(value)])
        else:
            found.append(_position(variable, value, cells, in_file))
    return found


def _is_whole(value: Any) -> bool:
    if isinstance(value, (float, np.floating)):
        return float(value).is_integer()
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _whole_numbers(variable: Variable, whole: list[Any], cells: Cells, has_names: bool) -> dict[int, int]:
    """The states of whole numbers, by their identity: labels or positions."""
    labels = _whole_labels(variable)
    if labels and has_names and all(int(v) in labels for v in whole):
        return {id(v): labels[int(v)] for v in whole}
    values = {int(v) for v in whole}
    if -1 in labels and {-1, 0} <= values:
        raise DataError(
            f"data: column '{variable.name}': -1 is a state of it and 0 a position, which do not go "
            "together; give labels, and None or a mask where cells are missing"
        )
    if has_names and whole and any(label >= 0 and label != k for label, k in labels.items()):
        odd = next(v for v in whole if int(v) not in labels)
        raise DataError(
            f"data: row {cells.row(odd)}: variable '{variable.name}' has no state '{int(odd)}'; its states "
            f"are {list(variable.states[:12])}: whole numbers of a named column are labels of it; positions "
            "of states are given as an array of all variables"
        )
    return {id(v): _at(variable, v, labels, cells) for v in whole}


def _whole_labels(variable: Variable) -> dict[int, int]:
    """Labels that are whole numbers and their positions; nothing where states have no labels."""
    found: dict[int, int] = {}
    for k, label in enumerate(variable.discrete.states or ()):
        try:
            found.setdefault(int(label), k)
        except ValueError:
            continue
    return found


def _at(variable: Variable, value: Any, labels: dict[int, int], cells: Cells) -> int:
    if value == MISSING:
        return labels.get(MISSING, MISSING)
    return _index(variable, value, cells)


def _position(variable: Variable, value: Any, cells: Cells, in_file: bool) -> int:
    """The state of a label; in a file a number that is no label is a position."""
    if cells.declared and str(value) in variable.states:
        return variable.states.index(str(value))
    if in_file and isinstance(value, str):
        text = value.strip()
        if text not in variable.states:
            if is_missing_word(text):
                return MISSING
            if text.removesuffix(".0").isdecimal():
                return _index(variable, int(text.removesuffix(".0")), cells, value)
        return _index(variable, text, cells, value)
    return _index(variable, value, cells)


def _index(variable: Variable, state: Any, cells: Cells, value: Any = None) -> int:
    try:
        return variable.index(state)
    except EvidenceError as error:
        row = cells.row(state if value is None else value)
        raise DataError(f"data: row {row}: {error}") from None


# ---------------------------------------------------------------------------------------------
# Soft evidence
# ---------------------------------------------------------------------------------------------


def soft_weights(variable: Variable, given: Any) -> np.ndarray:
    """Weights of the states of a variable for every row, (rows, states); rows of NaN say nothing."""
    what = f"soft: '{variable.name}'"
    if isinstance(given, (list, tuple)) and given and all(np.ndim(part) == 2 for part in given):
        given = np.concatenate(given)  # of one sequence each
    weights = float_array(what, given, error=DataError, copy=True, missing=True)
    if weights.ndim != 2 or weights.shape[1] != variable.size:
        raise DataError(
            f"{what}: expected weights of shape (rows, {variable.size}), one per state "
            f"{list(variable.states[:5])}, got shape {weights.shape}"
        )
    weights[np.isnan(weights).all(axis=1)] = 1.0
    fine = np.isfinite(weights) & (weights >= 0)
    bad = np.flatnonzero(~(fine.all(axis=1) & (weights.sum(axis=1) > 0)))
    if len(bad):
        raise DataError(
            f"{what}, row {bad[0]}: expected finite weights from 0, not all of them 0, got {weights[bad[0]]}"
        )
    return weights


def _matrix(variable: Variable, values: Any) -> np.ndarray | None:
    """Soft evidence where every cell is a vector; None where cells are values."""
    shape = np.shape(values) if isinstance(values, np.ndarray) else ()
    if len(shape) < 2:
        return None
    if shape == (len(values), variable.size) and values.dtype.kind in "biuf":
        return soft_weights(variable, values)
    raise DataError(
        f"data: column '{variable.name}': expected one value per row, or the weights of its {variable.size} "
        f"states, got shape {shape}"
    )


def _vectors(variable: Variable, cells: Cells) -> np.ndarray | None:
    """Soft evidence where some cells are vectors."""
    if not cells.vectors:
        return None
    weights = np.full((len(cells.codes), variable.size), np.nan)
    for row, vector in cells.vectors.items():
        try:
            weights[row] = float_array("", vector, error=DataError)
        except (DataError, ValueError):
            raise DataError(
                f"data: row {row}: expected a state of '{variable.name}', or one weight for each of its "
                f"{variable.size} states, got {vector!r:.80}"
            ) from None
    return soft_weights(variable, weights)


# ---------------------------------------------------------------------------------------------
# Numbers
# ---------------------------------------------------------------------------------------------


def numbers_of(
    name: str, values: Any, domain: Continuous, *, in_file: bool = False, missing: Sequence[Any] = ()
) -> np.ndarray:
    """Finite floats of a domain, NaN where missing."""
    if in_file and not isinstance(values, np.ndarray):
        values = _parsed(name, values, missing)
    if getattr(values, "dtype", None) is not None and str(values.dtype) in ("Int64", "Float64", "boolean"):
        values = values.to_numpy(dtype=np.float64, na_value=np.nan)
    found = float_array(f"data: column '{name}'", values, error=DataError, missing=True)
    if found.shape[1:] != domain.shape:
        raise DataError(
            f"data: column '{name}': expected values of shape {domain.shape} per row, got {found.shape}"
        )
    gone = [m for m in missing if isinstance(m, (int, float))]
    if gone:
        found = np.where(np.isin(found, gone), np.nan, found)
    _check_inside(name, domain, found)
    return found


def _check_inside(name: str, domain: Continuous, found: np.ndarray) -> None:
    low, high = (0.0, np.inf) if isinstance(domain, Positive) else (-np.inf, np.inf)
    if isinstance(domain, Interval):
        low, high = domain.low, domain.high
    bad = np.isinf(found) | (found <= low) | (found >= high)
    if isinstance(domain, Simplex):
        off = (found < 0).any(axis=1) | (np.abs(found.sum(axis=1) - 1) > _SUM)
        bad |= off[:, None]
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        got = found[at // domain.numbers] if isinstance(domain, Simplex) else f"{found.ravel()[at]:g}"
        raise DataError(
            f"data: column '{name}', row {at // max(domain.numbers, 1)}: expected a finite value of "
            f"{domain!r}, got {got}"
        )


def _parsed(name: str, values: Iterable[Any], missing: Sequence[Any]) -> np.ndarray:
    """Numbers that a file spells."""
    cells = without(Cells.of(list(values)), missing, in_file=True)
    numbers = []
    for text in cells.distinct:
        try:
            numbers.append(np.nan if is_missing_word(text) else float(text))
        except ValueError:
            raise DataError(
                f"data: column '{name}', row {cells.row(text)}: expected a number, got {text!r:.40}"
            ) from None
    return np.array([*numbers, np.nan])[cells.codes]
