"""Tables of observations in the forms users have them: columns, rows, arrays and files; see `table.py`.

Each reader gives state indices of shape (rows, variables), -1 where a value is missing.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..core.content import bare_name, read_content
from ..core.errors import DataError, EvidenceError, FormatError, MissingExtraError, QueryError
from ..core.numbers import is_missing
from ..core.result import Samples
from ..core.variable import Variable, Variables

__all__ = [
    "MISSING",
    "TextColumns",
    "codes_of",
    "is_missing_word",
    "of_array",
    "of_columns",
    "of_rows",
    "of_samples",
    "read_file",
    "states_of",
]

MISSING = -1
_MOST_NUMBERS = 32  # that are states of a variable; more are amounts
_MISSING_WORDS = frozenset({"", "na", "nan", "?", "null", "none"})


class TextColumns(dict[str, Any]):
    """Columns of a text file, whose cells are text: words may say that nothing was observed."""


def of_columns(variables: Variables, columns: Mapping[str, Any], *, in_file: bool = False) -> np.ndarray:
    """State indices (rows, n) of named columns."""
    length, found = -1, np.empty((0, 0), dtype=np.int64)
    for name, column in columns.items():
        try:
            i = variables.position(str(name))
        except QueryError as error:
            raise DataError(f"data: the column {name!r} is no variable of the model: {error}") from None
        single = isinstance(column, (str, bytes)) or not getattr(column, "ndim", 1)
        if single or not hasattr(column, "__len__"):
            raise DataError(f"data: column '{name}': expected a list of states, got {column!r:.80}")
        if length < 0:
            length = len(column)
            found = np.full((length, len(variables)), MISSING, dtype=np.int64)
        if len(column) != length:
            raise DataError(f"data: column '{name}' has {len(column)} rows, the first one {length}")
        found[:, i] = codes_of(variables[i], column, in_file)
    return found


def of_rows(variables: Variables, rows: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """State indices of a list of mappings name -> state."""
    columns: dict[str, list[Any]] = {}
    for r, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise DataError(f"data: row {r}: expected a mapping name -> state, got {row!r:.80}")
        for name in row:
            if name not in columns:
                columns[name] = [None] * len(rows)
        for name, value in row.items():
            columns[name][r] = value
    # Rows that are all empty have no columns at all.
    return of_columns(variables, columns) if columns else np.full((len(rows), len(variables)), MISSING)


def of_samples(variables: Variables, samples: Samples) -> np.ndarray:
    """State indices of samples of the same variables, or of others with the same names and labels."""
    if samples.variables == variables:
        return samples.indices
    found = np.full((len(samples), len(variables)), MISSING, dtype=np.int64)
    for k, other in enumerate(samples.variables):
        try:
            variable = variables[variables.position(other.name)]
        except QueryError as error:
            raise DataError(f"data: the samples are of '{other.name}' too: {error}") from None
        if not other.is_discrete or set(other.states) != set(variable.states):
            states = list(other.states)[:5] if other.is_discrete else other.domain
            raise DataError(
                f"data: the samples' '{other.name}' has the states {states}, "
                f"the model's {list(variable.states)[:5]}; give columns of labels instead"
            )
        places = {label: x for x, label in enumerate(variable.states)}
        codes = np.array([places[label] for label in other.states])
        found[:, variables.position(other.name)] = codes[samples.indices[:, k]]
    return found


def of_array(variables: Variables, data: Any) -> np.ndarray:
    """State indices of an array whose columns are the variables in order."""
    try:
        array = data if isinstance(data, np.ma.MaskedArray) else np.asarray(data)
    except ValueError:
        array = np.empty(0)
    n = len(variables)
    if array.size == 0 and array.ndim == 1 and hasattr(data, "__len__") and not len(data):
        return np.empty((0, n), dtype=np.int64)
    if array.ndim != 2 or array.shape[1] != n:
        raise DataError(
            f"data: expected an array of shape (rows, {n}), a data frame, a mapping of columns, a list "
            f"of mappings or a file, got {type(data).__name__} of shape {array.shape}"
        )
    found = np.empty(array.shape, dtype=np.int64)
    for i in range(n):
        found[:, i] = codes_of(variables[i], array[:, i], False)
    return found


def codes_of(variable: Variable, column: Any, in_file: bool) -> np.ndarray:
    """State indices of one column."""
    dtype: Any = getattr(column, "dtype", None)
    if hasattr(dtype, "categories"):
        codes = np.asarray(getattr(column, "cat", column).codes, dtype=np.int64)
        used, where = np.unique(codes, return_inverse=True)
        states = [
            MISSING if c < 0 else _category(variable, dtype.categories[c], int(np.flatnonzero(codes == c)[0]))
            for c in used
        ]
        return np.array(states, dtype=np.int64)[where.ravel()]
    if np.ma.is_masked(column):
        column = column.tolist()  # None where masked
    try:
        values = np.asarray(column)
    except ValueError:  # states and vectors side by side, or vectors of different lengths
        _refuse_vectors(variable, column)
        raise
    if values.ndim != 1:
        raise DataError(f"data: column '{variable.name}': expected one value per row, got {values.shape}")
    if values.dtype.kind in "iu" and len(values) and values.min() >= 0 and values.max() < variable.size:
        return values.astype(np.int64)
    if values.dtype.kind in "iufb":
        distinct, first, where = np.unique(values, return_index=True, return_inverse=True)
        found = [_number(variable, v, int(r)) for v, r in zip(distinct, first, strict=True)]
        return np.array(found, dtype=np.int64)[where.ravel()]
    if values.dtype.kind in "cmMV":  # whose cells NumPy would tell as other things
        raise DataError(
            f"data: column '{variable.name}': expected states, got {values.dtype}; give labels: astype(str)"
        )
    # A list that mixes labels and numbers would become text as an array.
    kept = isinstance(column, (list, tuple)) or values.dtype.kind == "O"
    return _coded_objects(variable, column if kept else values.tolist(), in_file)


def _category(variable: Variable, category: Any, row: int) -> int:
    """Index of a category, which is a label even where it is a whole number."""
    label = str(category)
    return variable.states.index(label) if label in variable.states else _state(variable, category, row)


def _refuse_vectors(variable: Variable, column: Any) -> None:
    """Name the row of a list in which a vector stands for a state."""
    for r, value in enumerate(column):
        if isinstance(value, (list, tuple, np.ndarray)):
            raise DataError(
                f"data: row {r}: expected a state of '{variable.name}', got {value!r:.80}; rows to learn "
                "from have no soft evidence: give a state, or None where it is not known"
            )


def _coded_objects(variable: Variable, values: Iterable[Any], in_file: bool) -> np.ndarray:
    """State indices of labels and other objects; each distinct one is looked up once."""
    known: dict[Any, int] = {}
    codes = []
    for r, value in enumerate(values):
        try:
            code = known.get((type(value), value))  # True is 1 to a dictionary, but not to a variable
        except TypeError:
            raise DataError(
                f"data: row {r}: expected a state of '{variable.name}', got {value!r:.80}"
            ) from None
        if code is None:
            missing = is_missing(value) or (in_file and _is_missing_word(variable, value))
            code = MISSING if missing else _state(variable, value, r, from_text=in_file)
            known[type(value), value] = code
        codes.append(code)
    return np.array(codes, dtype=np.int64)


def _number(variable: Variable, value: Any, row: int) -> int:
    if np.isnan(value) or (value == MISSING and "-1" not in variable.states):
        return MISSING
    return _state(variable, value, row)


def is_missing_word(text: str) -> bool:
    """Whether a cell of a text file says that nothing was observed."""
    return text.strip().lower() in _MISSING_WORDS


def _is_missing_word(variable: Variable, value: str) -> bool:
    return value.strip().lower() in _MISSING_WORDS and value.strip() not in variable.states


def _state(variable: Variable, value: Any, row: int, *, from_text: bool = False) -> int:
    """Index of a state; in a file a number that is no label is an index."""
    if from_text:
        value = value.strip()
        if value not in variable.states and value.removesuffix(".0").isdecimal():
            value = int(value.removesuffix(".0"))
    try:
        return variable.index(value)
    except EvidenceError as error:
        raise DataError(f"data: row {row}: {error}") from None


def states_of(name: str, column: Any, in_file: bool = False) -> int | list[str]:
    """States of a column: categories, sorted labels, or a count where they are whole numbers from 0.

    Parameters
    ----------
    name, column
        The column; its values are whole numbers, bools, strings or categories.
    in_file
        Whether all values are strings because they were read from a text file.
    """
    dtype: Any = getattr(column, "dtype", None)
    if hasattr(dtype, "categories"):
        return [str(c) for c in dtype.categories]
    values = [v.strip() if in_file and isinstance(v, str) else v for v in column]
    values = [v for v in values if not is_missing(v) and not (in_file and str(v).lower() in _MISSING_WORDS)]
    found = set(map(_plain, values)) if getattr(dtype, "kind", "O") not in "cmMV" else {None}
    if not found:
        raise DataError(f"data: column '{name}': expected at least one value, got none; give variables")
    kinds = {type(v) for v in found}
    if kinds == {str}:
        return _labels(name, {str(v) for v in found}, len(values), in_file)
    if kinds == {bool}:
        return sorted(str(v) for v in found)
    if not kinds <= {int, float}:
        odd = (f"{v!r:.40}" for v in values if _plain(v) is None)
        got = next(odd, str(dtype) if None in found else "values of several kinds")
        raise _no_states(name, got, "give one kind of label: astype(str)")
    return _positions(name, found)


def _plain(value: Any) -> Any:
    """A value as Python has it: a bool, a number, a string, or None if it is neither."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value)
    return str(value) if isinstance(value, str) else None


def _labels(name: str, found: set[str], count: int, in_file: bool) -> list[str]:
    """Sorted strings, unless they are amounts that a file spells out, or a name for every row."""
    try:
        numbers = sorted(found, key=float)
    except ValueError:
        numbers = []
    if numbers and in_file:
        _check_amounts(name, {float(v) for v in found})
    if len(found) == count > _MOST_NUMBERS:
        raise _no_states(name, f"{count} different strings in as many rows", "leave out names of rows")
    return numbers or sorted(found)


def _positions(name: str, found: set[Any]) -> int | list[str]:
    _check_amounts(name, found)
    if found <= {-1, 1} and -1 in found:  # spins
        return sorted({str(int(v)) for v in found}, key=float)
    if min(found) < 0:
        out = "give labels instead, astype(str), and None where values are missing"
        raise _no_states(name, f"{min(found):g} among whole numbers, which are positions of states", out)
    if max(found) >= _MOST_NUMBERS:
        out = f"numbers are positions of states, at most {_MOST_NUMBERS} of them: give labels, astype(str)"
        raise _no_states(name, f"{max(found):g}", out)
    return int(max(found)) + 1


def _check_amounts(name: str, found: set[Any]) -> None:
    """Refuse numbers that measure something."""
    odd = [v for v in found if not float(v).is_integer()]
    if odd:
        raise _no_states(
            name, f"{odd[0]:g}", "use `kernel_chow_liu`, or classes of numbers, as by `pandas.cut`"
        )
    if len(found) > _MOST_NUMBERS:
        out = f"at most {_MOST_NUMBERS} numbers are states: give labels, astype(str), or classes"
        raise _no_states(name, f"{len(found)} different numbers", out)


def _no_states(name: str, got: str, way_out: str) -> DataError:
    return DataError(
        f"data: column '{name}': expected states, that is whole numbers, bools, strings or categories, got "
        f"{got}; {way_out}, or give the variables with their states"
    )


def read_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The columns of a .csv, .tsv or .parquet file."""
    kind = Path(bare_name(path)).suffix.lower()
    if kind == ".parquet":
        return _read_parquet(path)
    if kind not in (".csv", ".tsv"):
        raise FormatError(f"{path}: expected a .csv, .tsv or .parquet file, got '{kind}'")
    try:
        text = read_content(path).decode()
    except UnicodeDecodeError:
        raise FormatError(f"{path}: expected text in UTF-8") from None
    lines = csv.reader(io.StringIO(text), delimiter="\t" if kind == ".tsv" else ",")
    names = [name.strip() for name in next(lines, [])]
    if len(set(names)) < len(names):
        raise FormatError(f"{path}, line 1: expected different column names, got {names!r:.80}")
    columns: dict[str, list[str]] = {name: [] for name in names}
    for line in lines:
        if not line and len(names) > 1:
            continue  # a blank line at the end
        cells = line or [""]
        if len(cells) != len(names):
            raise FormatError(f"{path}, line {lines.line_num}: expected {len(names)} cells, got {len(cells)}")
        for name, cell in zip(names, cells, strict=True):
            columns[name].append(cell)
    return columns


def _read_parquet(path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        import pandas as pd

        frame = pd.read_parquet(path)
    except ImportError:
        raise MissingExtraError(
            f'{path}: Parquet needs pandas and pyarrow: pip install "credo[data]" pyarrow'
        ) from None
    except (OSError, ValueError) as error:
        raise FormatError(f"{path}: cannot be read as Parquet ({error})") from None
    return {str(name): frame[name] for name in frame.columns}
