"""Tables of observations: what every learner reads.

A row observes some variables and misses others. Equal rows are stored once with a count, because
likelihoods, gradients and expected counts depend on the distinct rows alone; a missing value is -1.

    data = Observations.of(model.variables, frame)        # pandas, NumPy, columns, rows, CSV, Parquet
    data.states, data.counts                              # distinct rows (d, n), their counts (d,)

Accepted are

* a data frame, or a mapping name -> column, with state labels or state indices,
* a list of mappings name -> state, one per row,
* an array (rows, n) with the columns in the order of the variables,
* `Samples`, as `credo.sample` returns them,
* the path of a .csv, .tsv or .parquet file with a header line.

None, NaN and pandas' NA are missing; in files also an empty cell, `NA`, `NaN`, `?` and `null`, unless
the variable has a state of that name. Among integers, -1 is missing unless '-1' is a state, as it is
of a spin. Columns that are left out are hidden variables. Nothing is dropped silently: a column that is
no variable, a state that does not exist and a row that observes nothing are refused.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import DataError, EvidenceError, FormatError, MissingExtraError, QueryError
from ..core.factor_graph import FactorGraph
from ..core.result import Samples
from ..core.variable import Variable, Variables
from ..io.content import bare_name, read_content

__all__ = ["MISSING", "Observations"]

MISSING = -1
_ENTRIES = 1 << 21  # table entries looked up at once when counting; bounds the memory
_MISSING_WORDS = frozenset({"", "na", "nan", "?", "null", "none"})


@dataclass(frozen=True, repr=False)
class Observations:
    """Distinct rows of states with counts; make it with `Observations.of`.

    Examples
    --------
    >>> import credo
    >>> from credo.learning.data import Observations
    >>> model = credo.datasets.sprinkler()
    >>> rows = [{"rain": "yes", "wet": "yes"}, {"rain": "yes", "wet": "yes"}, {"rain": None, "wet": "no"}]
    >>> data = Observations.of(model.variables, rows)
    >>> data
    Observations(3 rows, 2 distinct, 2 of 4 variables observed, some values missing)
    >>> data.counts
    array([2., 1.])
    """

    variables: Variables  # of the model, one per column
    states: np.ndarray  # (distinct, n) state indices, -1 where missing
    counts: np.ndarray  # (distinct,) total weight of each distinct row
    row_of: np.ndarray  # (rows,) distinct row of each row, in the order of the data
    row_weights: np.ndarray  # (rows,) weight of each row, 1 unless given

    @classmethod
    def of(cls, variables: Any, data: Any, *, weights: Any = None) -> Observations:
        """Read a table of observations in any of the forms of the module's description.

        Parameters
        ----------
        variables
            The variables of the model.
        data
            The table.
        weights
            How often each row counts; 1 by default.
        """
        variables = Variables.of(variables)
        if isinstance(data, Observations):
            if weights is not None:
                raise DataError("weights: these observations have their weights already; leave them out")
            if data.variables is not variables and data.variables != variables:
                raise DataError("data: these observations were made for other variables; make them anew")
            return data
        if isinstance(data, Samples):
            return cls.from_states(variables, data.indices, weights=weights)
        if isinstance(data, (str, os.PathLike)):
            return cls._made(variables, _of_columns(variables, _read_file(data), in_file=True), weights)
        if hasattr(data, "columns") and hasattr(data, "__getitem__"):
            names = [str(name) for name in data.columns]
            columns = {str(name): data[name] for name in data.columns}
            if len(columns) < len(names):
                twice = next(n for n in names if names.count(n) > 1)
                raise DataError(f"data: the column '{twice}' appears twice; names must differ")
            return cls._made(variables, _of_columns(variables, columns), weights)
        if isinstance(data, Mapping):
            return cls._made(variables, _of_columns(variables, data), weights)
        if isinstance(data, Sequence) and data and isinstance(data[0], Mapping):
            return cls._made(variables, _of_rows(variables, data), weights)
        return cls._made(variables, _of_array(variables, data), weights)

    @classmethod
    def from_states(cls, variables: Any, states: Any, *, weights: Any = None) -> Observations:
        """Make observations of state indices (rows, n), where -1 is always a missing value."""
        variables = Variables.of(variables)
        found = np.asarray(states)
        n = len(variables)
        if found.ndim != 2 or found.shape[1] != n or found.dtype.kind not in "iu":
            raise DataError(
                f"data: expected integers of shape (rows, {n}), got {found.dtype} of shape {found.shape}"
            )
        bad = np.argwhere((found < MISSING) | (found >= variables.sizes))
        if len(bad):
            row, i = bad[0]
            raise DataError(
                f"data: row {row} has state {found[row, i]} of '{variables.names[i]}', "
                f"expected 0 to {variables.sizes[i] - 1}, or -1 for missing"
            )
        return cls._made(variables, found, weights)

    @classmethod
    def _made(cls, variables: Variables, states: np.ndarray, weights: Any) -> Observations:
        if not len(states):
            raise DataError("data: expected at least one row, got none")
        empty = np.flatnonzero((states == MISSING).all(axis=1))
        if len(empty):
            raise DataError(
                f"data: row {empty[0]} observes no variable ({len(empty)} such rows); leave them out"
            )
        row_weights = _weights(weights, len(states))
        distinct, row_of = _distinct(states, variables.sizes)
        counts = np.bincount(row_of, row_weights, minlength=len(distinct))
        return cls(variables, distinct, counts, row_of, row_weights)

    def __len__(self) -> int:
        return len(self.row_of)

    @property
    def total(self) -> float:
        """Sum of the weights of all rows: the number of rows, if no weights were given."""
        return float(self.counts.sum())

    @cached_property
    def observed(self) -> np.ndarray:
        """Which values are there, (distinct, n)."""
        return self.states != MISSING

    @cached_property
    def is_complete(self) -> bool:
        """Whether no value is missing."""
        return bool(self.observed.all())

    @cached_property
    def hidden(self) -> tuple[str, ...]:
        """Names of the variables that no row observes."""
        return tuple(self.variables.names[int(i)] for i in np.flatnonzero(~self.observed.any(axis=0)))

    @cached_property
    def complete_rows(self) -> np.ndarray:
        """Positions of the distinct rows without a missing value."""
        return np.flatnonzero(self.observed.all(axis=1))

    @cached_property
    def incomplete_rows(self) -> np.ndarray:
        """Positions of the distinct rows with a missing value."""
        return np.flatnonzero(~self.observed.all(axis=1))

    def patterns(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Pairs (observed (n,), distinct rows): the rows that observe the same variables.

        Exact plans depend on which variables are observed, not on their states, so learners treat
        the rows of one pattern one after another.
        """
        masks, which = np.unique(self.observed, axis=0, return_inverse=True)
        which = which.ravel()
        return [(mask, np.flatnonzero(which == p)) for p, mask in enumerate(masks)]

    def take(self, rows: np.ndarray) -> Observations:
        """The observations of some rows of the data (positions, repeats allowed)."""
        kept, row_of = np.unique(self.row_of[rows], return_inverse=True)
        weights = self.row_weights[rows]
        counts = np.bincount(row_of.ravel(), weights, minlength=len(kept))
        return Observations(self.variables, self.states[kept], counts, row_of.ravel(), weights)

    def split(self, fraction: float, rng: np.random.Generator) -> tuple[Observations, Observations]:
        """Two parts at random, the second with about this fraction of the rows; both have one at least."""
        if not 0 < fraction < 1 or len(self) < 2:
            raise DataError(
                f"split: expected a fraction between 0 and 1 of at least two rows, "
                f"got {fraction} of {len(self)}"
            )
        order = rng.permutation(len(self))
        size = min(max(round(fraction * len(self)), 1), len(self) - 1)
        return self.take(np.sort(order[size:])), self.take(np.sort(order[:size]))

    def batches(self, size: int | None, rng: np.random.Generator) -> Iterator[Observations]:
        """The rows in random order, `size` at a time; everything at once for None."""
        if size is None or size >= len(self):
            yield self
            return
        order = rng.permutation(len(self))
        for first in range(0, len(order), size):
            yield self.take(order[first : first + size])

    def table_counts(self, graph: FactorGraph) -> np.ndarray:
        """Weighted counts of every table entry, in factor order without gaps.

        A row counts for a factor if it observes the factor's whole scope.
        """
        start = np.concatenate([[0], np.cumsum(graph.table_size)]).astype(np.int64)
        found = np.zeros(int(start[-1]))
        at_once = max(_ENTRIES // max(len(self.states), 1), 1)  # factors treated together
        for group in graph.shape_groups:
            for first in range(0, len(group.factors), at_once):
                scopes = group.scopes[first : first + at_once]
                entry = np.zeros((len(self.states), len(scopes)), dtype=np.int64)
                seen = np.ones(entry.shape, dtype=bool)
                for k, size in enumerate(group.shape):
                    column = self.states[:, scopes[:, k]]
                    entry = entry * size + column
                    seen &= column != MISSING
                entry += start[group.factors[first : first + at_once]]
                weight = np.broadcast_to(self.counts[:, None], entry.shape)
                found += np.bincount(entry[seen], weight[seen], minlength=len(found))
        return found

    def evidence(self, row: int) -> dict[str, int]:
        """What a distinct row observes, as name -> state index."""
        names = self.variables.names
        return {names[int(i)]: int(self.states[row, i]) for i in np.flatnonzero(self.observed[row])}

    def __repr__(self) -> str:
        n = len(self.variables)
        return (
            f"Observations({len(self)} rows, {len(self.states)} distinct, {n - len(self.hidden)} of {n} "
            f"variables observed, {'complete' if self.is_complete else 'some values missing'})"
        )


def _weights(weights: Any, rows: int) -> np.ndarray:
    if weights is None:
        return np.ones(rows)
    try:
        found = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"weights: expected one number per row, got {weights!r:.80}") from None
    if found.shape != (rows,):
        raise DataError(f"weights: expected {rows} numbers, one per row, got shape {found.shape}")
    bad = np.flatnonzero(~(np.isfinite(found) & (found >= 0)))
    if len(bad):
        raise DataError(f"weights: expected finite numbers from 0, got {found[bad[0]]:g} in row {bad[0]}")
    if not found.any():
        raise DataError("weights: at least one row must have a positive weight")
    return found


def _distinct(states: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct rows, and the position of each row among them."""
    # Rows of small integers are sorted as one block of bytes each, which is many times faster.
    narrow = np.int8 if sizes.max(initial=0) < 127 else np.int64
    packed = np.ascontiguousarray(states, dtype=narrow)
    keys = packed.view(np.dtype((np.void, packed.dtype.itemsize * packed.shape[1]))).ravel()
    _, first, row_of = np.unique(keys, return_index=True, return_inverse=True)
    return np.ascontiguousarray(states[first], dtype=np.int64), row_of.ravel()


def _of_columns(variables: Variables, columns: Mapping[str, Any], *, in_file: bool = False) -> np.ndarray:
    """State indices (rows, n) of named columns."""
    length, found = -1, np.empty((0, 0), dtype=np.int64)
    for name, column in columns.items():
        try:
            i = variables.position(str(name))
        except QueryError as error:
            raise DataError(f"data: the column {name!r} is no variable of the model: {error}") from None
        if isinstance(column, (str, bytes)) or not hasattr(column, "__len__"):
            raise DataError(f"data: column '{name}': expected a list of states, got {column!r:.80}")
        if length < 0:
            length = len(column)
            found = np.full((length, len(variables)), MISSING, dtype=np.int64)
        if len(column) != length:
            raise DataError(f"data: column '{name}' has {len(column)} rows, the first one {length}")
        found[:, i] = _codes(variables[i], column, in_file)
    return found


def _of_rows(variables: Variables, rows: Sequence[Mapping[str, Any]]) -> np.ndarray:
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
    return _of_columns(variables, columns) if columns else np.full((len(rows), len(variables)), MISSING)


def _of_array(variables: Variables, data: Any) -> np.ndarray:
    """State indices of an array whose columns are the variables in order."""
    try:
        array = np.asarray(data)
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
        found[:, i] = _codes(variables[i], array[:, i], False)
    return found


def _codes(variable: Variable, column: Any, in_file: bool) -> np.ndarray:
    """State indices of one column."""
    dtype: Any = getattr(column, "dtype", None)
    if hasattr(dtype, "categories"):
        codes = np.asarray(getattr(column, "cat", column).codes, dtype=np.int64)
        used, where = np.unique(codes, return_inverse=True)
        states = [
            MISSING if c < 0 else _state(variable, dtype.categories[c], int(np.flatnonzero(codes == c)[0]))
            for c in used
        ]
        return np.array(states, dtype=np.int64)[where.ravel()]
    values = np.asarray(column)
    if values.ndim != 1:
        raise DataError(f"data: column '{variable.name}': expected one value per row, got {values.shape}")
    if values.dtype.kind in "iu" and len(values) and values.min() >= 0 and values.max() < variable.size:
        return values.astype(np.int64)
    if values.dtype.kind in "iufb":
        distinct, first, where = np.unique(values, return_index=True, return_inverse=True)
        found = [_number(variable, v, int(r)) for v, r in zip(distinct, first, strict=True)]
        return np.array(found, dtype=np.int64)[where.ravel()]
    # A list that mixes labels and numbers would become text as an array.
    kept = isinstance(column, (list, tuple)) or values.dtype.kind == "O"
    return _coded_objects(variable, column if kept else values.tolist(), in_file)


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
            missing = _is_missing(value) or (in_file and _is_missing_word(variable, value))
            code = MISSING if missing else _state(variable, value, r, from_text=in_file)
            known[type(value), value] = code
        codes.append(code)
    return np.array(codes, dtype=np.int64)


def _number(variable: Variable, value: Any, row: int) -> int:
    if np.isnan(value) or (value == MISSING and "-1" not in variable.states):
        return MISSING
    return _state(variable, value, row)


def _is_missing(value: Any) -> bool:
    return (
        value is None
        or (isinstance(value, (float, np.floating)) and bool(np.isnan(value)))
        or type(value).__name__ in ("NAType", "NaTType")
    )


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


def _read_file(path: str | os.PathLike[str]) -> dict[str, Any]:
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
