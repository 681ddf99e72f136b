"""Reading data once for everything that is learned from or scored.

    data = credo.data.read(frame, schema=model.variables)      # the model's domains decide
    data = credo.data.read(frame)                              # what the columns show decides
    data = credo.data.read(frame, groups="patient")            # sequences: one per patient

Sources are pandas, polars and Arrow frames, mappings name -> column, lists of mappings, arrays, lists with an
array or frame per sequence, `Samples`, and paths of .csv, .tsv and .parquet files. Without a schema,
categories stay in their order; bools, strings, whole numbers and whole floats with gaps become sorted labels,
at most 32 of them for numbers; other floats are real. Whole numbers in a named column are labels where all of
them are labels of the variable, and positions of states otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.domain import Continuous, Discrete, Interval, Positive, Real, unlabelled
from ..core.errors import DataError, MissingExtraError, QueryError
from ..core.numbers import float_array
from ..core.samples import Samples
from ..core.variable import Variable, Variables
from .column import MISSING, Column
from .dataset import Dataset, unit_weights
from .states import TextColumns, codes_of, is_missing_word, read_file, states_of

__all__ = ["named_columns", "read", "split_list"]

_MOST_NUMBERS = 32  # whole numbers that are states; more are amounts


def read(
    source: Any,
    *,
    schema: Any = None,
    columns: Iterable[str] | None = None,
    targets: Iterable[str] | str | None = None,
    groups: str | None = None,
    lengths: Any = None,
    weights: Any = None,
) -> Dataset:
    """Read a table or sequences.

    Parameters
    ----------
    source
        In any of the forms of the module's description.
    schema
        Variables, or a mapping name -> states or domain; None lets the columns say what they are.
    columns
        The columns to be read; all by default.
    targets
        Names of the columns that are to be predicted.
    groups
        A column that names the sequence of each row; the rows of a sequence keep their order.
    lengths
        Of the sequences, one after the other.
    weights
        One per unit: per row, or per sequence.

    Examples
    --------
    >>> import credo
    >>> credo.data.read({"rain": ["yes", "no", None], "height": [1.5, 2.0, 2.5]})
    Dataset(3 rows, 2 columns)
    rain  height
    yes      1.5
    no         2
             2.5
    """
    variables = None if schema is None else Variables.of(schema)
    if isinstance(source, Dataset):
        return _again(source, variables, columns, lengths, weights)
    parts = split_list(source) if lengths is None else None
    if parts is not None:
        named, lengths = _joined([named_columns(part, variables) for part in parts])
    else:
        named = named_columns(source, variables)
    in_file = isinstance(source, (str, os.PathLike, TextColumns))
    order, lengths = _grouped(named, groups, lengths)
    if columns is not None:
        named = {name: _column_of(named, name) for name in columns}
    notes = _unknown(named, variables)
    made = [_typed(name, values, variables, in_file) for name, values in named.items()]
    _check_lengths(made)
    if order is not None:
        made = [column.take(order) for column in made]
    wanted = (targets,) if isinstance(targets, str) else tuple(targets or ())
    if not made or not len(made[0]):
        raise DataError("data: expected at least one row, got none")
    units = len(made[0]) if lengths is None else len(lengths)
    counted = unit_weights(weights, units, "row" if lengths is None else "sequence")
    return Dataset.of(made, lengths=lengths, weights=counted, targets=wanted, notes=notes)


def split_list(x: Any) -> list[Any] | None:
    """The sequences of a list that holds one item for each; None for anything else.

    Items are arrays, data frames, lists of rows, or lists of numbers of different lengths: lists of one
    length may be the rows of a table.
    """
    if not isinstance(x, (list, tuple)) or not x:
        return None
    if all(getattr(part, "ndim", 0) >= 1 or hasattr(part, "columns") for part in x):
        return list(x)
    if not all(isinstance(part, (list, tuple)) for part in x):
        return None
    has_rows = any(isinstance(row, (list, tuple, np.ndarray)) for part in x for row in part)
    return list(x) if has_rows or len({len(part) for part in x}) > 1 else None


def _again(data: Dataset, variables: Variables | None, columns: Any, lengths: Any, weights: Any) -> Dataset:
    """A dataset that was read before, for a model with these variables."""
    if lengths is not None or weights is not None:
        raise DataError("lengths, weights: these data have their units already; leave both out")
    found = data if columns is None else data.select(columns)
    for column in found.columns:
        if variables is not None and column.name in variables.names:
            wanted = variables[variables.position(column.name)].domain
            if wanted != column.domain:
                raise DataError(
                    f"data: column '{column.name}' was read as {column.domain!r:.60}, the model has "
                    f"{wanted!r:.60}; read the source again with the model's variables as schema"
                )
    return found


def named_columns(source: Any, variables: Variables | None = None) -> dict[str, Any]:
    """Columns by name."""
    if isinstance(source, Samples):
        return {v.name: _sampled(source, v) for v in source.variables}
    if isinstance(source, (str, os.PathLike)):
        return read_file(source)
    if isinstance(source, Mapping):
        return {str(name): column for name, column in source.items()}
    if hasattr(source, "columns") and hasattr(source, "iloc"):
        return _distinct_names(source.columns, [source.iloc[:, k] for k in range(source.shape[1])])
    if hasattr(source, "columns") and not isinstance(source, np.ndarray):
        return _of_frame(source)
    if isinstance(source, Sequence) and source and isinstance(source[0], Mapping):
        names = list(dict.fromkeys(name for row in source for name in row))
        return {str(name): [row.get(name) for row in source] for name in names}
    return _of_array(source, variables)


def _sampled(samples: Samples, variable: Variable) -> Any:
    values = samples.column(variable.name)
    return Column(variable.name, variable.domain, values) if variable.is_discrete else values


def _distinct_names(names: Any, columns: list[Any]) -> dict[str, Any]:
    found = dict(zip(map(str, names), columns, strict=True))
    if len(found) < len(columns):
        called = [str(name) for name in names]
        twice = next(name for name in called if called.count(name) > 1)
        raise DataError(f"data: the column '{twice}' appears twice; names must differ")
    return found


def _of_frame(frame: Any) -> dict[str, Any]:
    """Columns of polars, Arrow and other frames."""
    try:
        import narwhals.stable.v1 as nw
    except ImportError:
        raise MissingExtraError('frames need narwhals: pip install "credo[data]"') from None
    try:
        table = nw.from_native(frame, eager_only=True)
    except TypeError:
        raise DataError(f"data: expected a data frame in memory, got {type(frame).__name__}") from None
    return {name: _series(table[name], nw) for name in table.columns}


def _series(series: Any, nw: Any) -> Any:
    """A column as NumPy has it; states with declared categories as a column of states."""
    if series.dtype in (nw.Categorical, nw.Enum):
        labels = [str(label) for label in series.cat.get_categories().to_list()]
        place = {label: k for k, label in enumerate(labels)}
        cells = [MISSING if v is None else place[str(v)] for v in series.to_list()]
        return Column(series.name, Discrete.of(labels), np.array(cells, dtype=np.int64))
    return series.to_numpy()


def _of_array(source: Any, variables: Variables | None) -> dict[str, Any]:
    try:
        array = source if isinstance(source, np.ma.MaskedArray) else np.asarray(source)
    except ValueError:
        array = np.empty(())
    if array.dtype.names is not None:
        return {name: array[name] for name in array.dtype.names}
    table = array[:, None] if array.ndim == 1 and array.size else array
    width = "d" if variables is None else len(variables)
    if table.ndim != 2 or (variables is not None and table.shape[1] != len(variables)):
        raise DataError(
            f"data: expected an array of shape (rows, {width}), a data frame, a mapping of columns, a list "
            f"of mappings or a file, got {type(source).__name__} of shape {array.shape}"
        )
    names = [f"x{k}" for k in range(table.shape[1])] if variables is None else list(variables.names)
    return {name: table[:, k] for k, name in enumerate(names)}


def _joined(parts: list[dict[str, Any]]) -> tuple[dict[str, Any], np.ndarray]:
    """The columns of all sequences below each other, and the lengths of the sequences."""
    names = list(parts[0])
    for s, part in enumerate(parts):
        if list(part) != names:
            raise DataError(f"sequence {s}: expected the columns {names[:5]}, got {list(part)[:5]}")
    lengths = np.array([len(next(iter(part.values()))) if part else 0 for part in parts], dtype=np.int64)
    return {name: np.concatenate([np.asarray(part[name]) for part in parts]) for name in names}, lengths


def _column_of(named: Mapping[str, Any], name: str) -> Any:
    if name not in named:
        try:
            Variables(tuple(named), (unlabelled(1),) * len(named)).position(name)
        except QueryError as error:
            raise DataError(f"data: {str(error).replace('variable', 'column', 1)}") from None
    return named[name]


def _grouped(named: dict[str, Any], groups: str | None, lengths: Any) -> tuple[np.ndarray | None, Any]:
    """The order that joins the rows of each sequence, and the lengths; takes the column of groups out."""
    if groups is None:
        return None, lengths
    if lengths is not None:
        raise DataError("groups, lengths: expected one of them, got both")
    values = _column_of(named, groups)
    del named[groups]
    _, first, which = np.unique(np.asarray(values).astype(str), return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))[which.ravel()]  # sequences in the order of their first rows
    return np.argsort(rank, kind="stable"), np.bincount(rank)


def _unknown(named: dict[str, Any], variables: Variables | None) -> list[str]:
    """Take out columns that are no variables; without a column for every variable they are refused."""
    if variables is None:
        return []
    other = [name for name in named if name not in variables.names]
    if other and any(name not in named for name in variables.names):
        try:
            variables.position(other[0])
        except QueryError as error:
            raise DataError(f"data: the column {other[0]!r} is no variable of the model: {error}") from None
    for name in other:
        del named[name]
    return [f"columns that are no variables were left out: {', '.join(other)}"] if other else []


def _typed(name: str, values: Any, variables: Variables | None, in_file: bool) -> Column:
    """One column with the domain of the schema, or with the one it shows."""
    if isinstance(values, Column):
        return values if variables is None else _relabelled(values, variables[variables.position(name)])
    single = isinstance(values, (str, bytes)) or not getattr(values, "ndim", 1)
    if single or not hasattr(values, "__len__"):
        raise DataError(f"data: column '{name}': expected a list of values, got {values!r:.80}")
    if variables is not None:
        variable = variables[variables.position(name)]
        if isinstance(variable.domain, Continuous):
            return Column(name, variable.domain, _numbers(name, values, variable.domain, in_file))
        return Column(name, variable.domain, _states(variable, values, in_file))
    return _guessed(name, values, in_file)


def _relabelled(column: Column, variable: Variable) -> Column:
    known, wanted = column.domain, variable.domain
    if known == wanted:
        return column
    if (
        isinstance(known, Discrete)
        and isinstance(wanted, Discrete)
        and set(known.labels) <= set(wanted.labels)
    ):
        place = {label: k for k, label in enumerate(wanted.labels)}
        codes = np.array([*(place[label] for label in known.labels), MISSING])
        return Column(column.name, wanted, codes[column.values])
    raise DataError(
        f"data: column '{column.name}' has the domain {known!r:.60}, the model {wanted!r:.60}; "
        "give columns of labels instead"
    )


def _states(variable: Variable, values: Any, in_file: bool) -> np.ndarray:
    """Positions of states; whole numbers that are all labels are read as labels."""
    if not in_file and variable.discrete.states is not None:
        array = np.asarray(values) if not hasattr(getattr(values, "dtype", None), "categories") else None
        if array is not None and array.ndim == 1 and array.dtype.kind in "iuf":
            distinct, where = np.unique(array, return_inverse=True)
            words = ["" if np.isnan(v) else str(int(v)) if float(v).is_integer() else "." for v in distinct]
            place = {label: k for k, label in enumerate(variable.states)}
            if all(word == "" or word in place for word in words):
                found = np.array([MISSING if w == "" else place[w] for w in words], dtype=np.int64)
                return found[where.ravel()]
    return codes_of(variable, values, in_file)


def _numbers(name: str, values: Any, domain: Continuous, in_file: bool) -> np.ndarray:
    """Finite floats of a domain, NaN where missing."""
    if in_file and not isinstance(values, np.ndarray) and isinstance(next(iter(values), None), str):
        values = [None if is_missing_word(v) else _parsed(name, r, v) for r, v in enumerate(values)]
    found = float_array(f"data: column '{name}'", values, error=DataError, missing=True)
    if found.shape[1:] != domain.shape:
        raise DataError(
            f"data: column '{name}': expected values of shape {domain.shape} per row, got {found.shape}"
        )
    low, high = (0.0, np.inf) if isinstance(domain, Positive) else (-np.inf, np.inf)
    if isinstance(domain, Interval):
        low, high = domain.low, domain.high
    bad = np.flatnonzero(np.isinf(found) | (found <= low) | (found >= high))
    if len(bad):
        row = int(bad[0]) // max(domain.numbers, 1)
        raise DataError(
            f"data: column '{name}', row {row}: expected a finite value of {domain!r}, "
            f"got {found.ravel()[bad[0]]:g}"
        )
    return found


def _parsed(name: str, row: int, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise DataError(f"data: column '{name}', row {row}: expected a number, got {text!r:.40}") from None


def _guessed(name: str, values: Any, in_file: bool) -> Column:
    """A column whose values say what they are."""
    kind = getattr(getattr(values, "dtype", None), "kind", "O")
    if hasattr(getattr(values, "dtype", None), "categories") or in_file:
        return _labelled(name, values, in_file)
    array = (
        np.asarray(float_array(name, values, missing=True)) if np.ma.is_masked(values) else np.asarray(values)
    )
    if array.dtype.kind == "O" and kind != "O":
        array = np.asarray(values.to_numpy(dtype=float, na_value=np.nan)) if kind in "iuf" else array
    if array.ndim == 2 and array.dtype.kind == "f":
        return Column(name, Real(array.shape[1]), _numbers(name, array, Real(array.shape[1]), False))
    if array.ndim != 1:
        raise DataError(f"data: column '{name}': expected one value per row, got {array.shape}")
    if array.dtype.kind == "f" and not _counted(array):
        return Column(name, Real(), _numbers(name, array, Real(), False))
    if array.dtype.kind in "iuf":
        return _whole(name, array)
    return _labelled(name, values, in_file)


def _counted(array: np.ndarray) -> bool:
    """Whether floats are whole numbers with gaps, as integers with missing cells become."""
    gone = np.isnan(array)
    if not gone.any() or gone.all():
        return False
    seen = array[~gone]
    return bool(
        (seen == np.floor(seen)).all() and np.isfinite(seen).all() and len(np.unique(seen)) <= _MOST_NUMBERS
    )


def _whole(name: str, array: np.ndarray) -> Column:
    """Whole numbers as sorted labels; from 0 without a gap they need none."""
    seen = array[~np.isnan(array)] if array.dtype.kind == "f" else array
    distinct = np.unique(seen)
    if len(distinct) > _MOST_NUMBERS:
        raise DataError(
            f"data: column '{name}': expected at most {_MOST_NUMBERS} whole numbers as states, got "
            f"{len(distinct)}; give schema={{'{name}': Real()}} if they are amounts, or labels: astype(str)"
        )
    codes = np.searchsorted(
        distinct, np.where(np.isnan(array), distinct[0], array) if len(distinct) else array
    )
    codes = np.where(np.isnan(array), MISSING, codes).astype(np.int64)
    plain = np.array_equal(distinct, np.arange(len(distinct)))
    domain = unlabelled(len(distinct)) if plain else Discrete.of([str(int(v)) for v in distinct])
    return Column(name, domain, codes)


def _labelled(name: str, values: Any, in_file: bool) -> Column:
    if in_file and not hasattr(values, "dtype"):
        real = _real_text(name, values)
        if real is not None:
            return real
    variable = Variable(name, states_of(name, values, in_file))
    return Column(name, variable.domain, codes_of(variable, values, in_file))


def _real_text(name: str, values: Sequence[str]) -> Column | None:
    """A column of a text file whose cells are numbers and not all whole."""
    try:
        found = np.array([np.nan if is_missing_word(v) else float(v) for v in values])
    except (TypeError, ValueError):
        return None
    seen = found[~np.isnan(found)]
    if not len(seen) or (seen == np.floor(seen)).all():
        return None
    return Column(name, Real(), _numbers(name, found, Real(), False))


def _check_lengths(made: Sequence[Column]) -> None:
    for column in made:
        if len(column) != len(made[0]):
            raise DataError(
                f"data: column '{column.name}' has {len(column)} rows, the first one {len(made[0])}"
            )
