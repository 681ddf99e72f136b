"""Where columns come from: frames, mappings, rows, arrays, samples and files give named columns.

Nothing is interpreted here; `coding.py` and `domains.py` say what the values mean.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..core.content import bare_name, read_content
from ..core.domain import Discrete
from ..core.errors import DataError, FormatError, MissingExtraError
from ..core.samples import Samples
from ..core.variable import Variable, Variables
from .cells import Cells
from .column import MISSING, Column

__all__ = ["Raw", "is_table", "joined", "named_columns", "number_columns", "read_file", "split_list"]


@dataclass(frozen=True)
class Raw:
    """Columns of values as they came."""

    columns: dict[str, Any]  # name -> values: an array, a list, a series, `Cells`, or a `Column`
    has_names: bool = True  # False where whole numbers are positions of states, as in arrays
    in_file: bool = False  # whether values are text

    def with_spins(self) -> Raw:
        """The same where whole numbers that are all -1 or 1 are states; as positions -1 would be missing."""
        values = list(self.columns.values())
        whole = all(isinstance(v, np.ndarray) and v.dtype.kind == "i" for v in values)
        if self.has_names or not whole or not all((np.abs(v) == 1).all() for v in values):
            return self
        if not any((v < 0).any() for v in values):
            return self
        spin = Discrete.of(["-1", "1"])
        made = {n: Column(n, spin, (v > 0).astype(np.int64)) for n, v in self.columns.items()}
        return replace(self, columns=made)


def named_columns(source: Any, variables: Variables | None = None) -> Raw:
    """The columns of one table; those of an array are named by the variables, or x0, x1, ..."""
    if isinstance(source, Raw):
        return source
    if isinstance(source, Samples):
        return Raw({v.name: _sampled(source, v) for v in source.variables})
    if isinstance(source, (str, os.PathLike)):
        return Raw(read_file(source), in_file=not bare_name(source).lower().endswith(".parquet"))
    if isinstance(source, Mapping):
        return Raw(_distinct_names(source, list(source.values())))
    if hasattr(source, "columns") and hasattr(source, "iloc"):
        return Raw(_distinct_names(source.columns, [source.iloc[:, k] for k in range(source.shape[1])]))
    if hasattr(source, "columns") and not isinstance(source, np.ndarray):
        return Raw(_of_frame(source))
    if isinstance(source, Sequence) and source and isinstance(source[0], Mapping):
        return Raw(_of_rows(source))
    return _of_array(source, variables)


def is_table(source: Any) -> bool:
    """Whether columns have names: a frame, a mapping, samples, a dataset, a file; not a list of rows."""
    if isinstance(source, (Mapping, Samples, str, os.PathLike)):
        return True
    return hasattr(source, "columns") and not isinstance(source, np.ndarray)


def number_columns(what: str, source: Any, names: Sequence[str] = ()) -> np.ndarray:
    """The columns of a table of numbers side by side, (rows, columns).

    Of a table that has columns of all these names, such as samples of a machine, no others are taken.
    """
    found = named_columns(source).columns
    if names and set(names) <= set(found):
        found = {name: found[name] for name in names}
    columns = [c.values if isinstance(c, Column) else c for c in found.values()]
    lengths = {len(column) for column in columns}
    if len(lengths) > 1:
        raise DataError(f"{what}: expected columns with the same number of rows, got {sorted(lengths)}")
    try:
        return np.array([np.asarray(column, dtype=np.float64) for column in columns]).T
    except (TypeError, ValueError):
        raise DataError(
            f"{what}: expected numbers in all columns, got {list(found)!r:.60} with others"
        ) from None


def split_list(x: Any, width: int | None = None) -> list[Any] | None:
    """The sequences of a list that holds one item for each; None for anything else.

    Parameters
    ----------
    x
        Anything. Items of such a list are arrays, data frames, lists of rows, or lists of numbers of
        different lengths: lists of one length may be the rows of a table.
    width
        How many columns a table has, if that is known: flat arrays of this length are rows.
    """
    if not isinstance(x, (list, tuple)) or not x:
        return None
    if all(getattr(part, "ndim", 0) >= 1 or hasattr(part, "columns") for part in x):
        are_rows = width is not None and width > 1 and all(np.shape(part) == (width,) for part in x)
        return None if are_rows else list(x)
    if not all(isinstance(part, (list, tuple)) for part in x):
        return None
    has_rows = any(isinstance(row, (list, tuple, np.ndarray)) for part in x for row in part)
    return list(x) if has_rows or len({len(part) for part in x}) > 1 else None


def joined(parts: list[Raw]) -> tuple[Raw, np.ndarray]:
    """The columns of all sequences below each other, and the lengths of the sequences."""
    names = list(parts[0].columns)
    for s, part in enumerate(parts):
        if list(part.columns) != names:
            raise DataError(f"sequence {s}: expected the columns {names[:5]}, got {list(part.columns)[:5]}")
    lengths = [len(next(iter(part.columns.values()))) if names else 0 for part in parts]
    below = {name: _below([part.columns[name] for part in parts]) for name in names}
    return Raw(below, parts[0].has_names), np.array(lengths, dtype=np.int64)


def _below(values: list[Any]) -> Any:
    """Values of one column below each other; what each kind says about missing cells and labels is kept."""
    if all(isinstance(v, np.ndarray) for v in values):
        masked = any(isinstance(v, np.ma.MaskedArray) for v in values)
        return np.ma.concatenate(values) if masked else np.concatenate(values)  # type: ignore[no-untyped-call]
    if any(hasattr(getattr(v, "dtype", None), "categories") for v in values):
        cells = [Cells.of(v) for v in values]
        return Cells.joined(cells) if all(c.declared for c in cells) else _listed(values)
    return _listed(values)


def _listed(values: list[Any]) -> list[Any]:
    return [cell for v in values for cell in (v.tolist() if hasattr(v, "tolist") else v)]


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
    """A column as NumPy has it, or as a list where cells are missing; declared categories as `Cells`."""
    if series.dtype in (nw.Categorical, nw.Enum):
        labels = [str(label) for label in series.cat.get_categories().to_list()]
        place: dict[Any, int] = {label: k for k, label in enumerate(labels)} | {None: MISSING}
        codes = np.array([place[v] for v in series.to_list()], dtype=np.int64)
        return Cells(labels, codes, declared=True)
    native = series.to_native()
    if series.dtype == nw.String and hasattr(native, "dictionary_encode"):  # Arrow tells strings apart itself
        coded = native.dictionary_encode().unify_dictionaries().combine_chunks()
        return Cells(
            coded.dictionary.to_pylist(), coded.indices.fill_null(MISSING).to_numpy().astype(np.int64)
        )
    counted = series.dtype.is_integer() and series.null_count()  # which arrays would hold as floats
    return series.to_list() if counted or series.dtype.is_nested() else series.to_numpy()


def _of_rows(rows: Sequence[Any]) -> dict[str, Any]:
    """Columns of a list of mappings; a name that a row lacks is missing there."""
    for r, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise DataError(f"data: row {r}: expected a mapping name -> value, got {row!r:.80}")
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {str(name): [row.get(name) for row in rows] for name in names}


def _of_array(source: Any, variables: Variables | None) -> Raw:
    if hasattr(source, "toarray"):
        raise DataError("data: expected a dense table, got a sparse matrix; give its `toarray()`")
    try:
        array = source if isinstance(source, np.ma.MaskedArray) else np.asarray(source)
    except ValueError:
        array = np.empty(())
    if array.dtype.names is not None:
        return Raw({name: array[name] for name in array.dtype.names})
    width = None if variables is None else len(variables)
    if array.ndim == 1 and not len(array) and hasattr(source, "__len__"):
        return Raw({})
    table = array[:, None] if array.ndim == 1 else array
    if table.ndim != 2 or (width is not None and table.shape[1] != width):
        raise DataError(
            f"data: expected an array of shape (rows, {'d' if width is None else width}), a data frame, a "
            f"mapping of columns, a list of mappings or a file, got {type(source).__name__} of shape "
            f"{array.shape}"
        )
    names = [f"x{k}" for k in range(table.shape[1])] if variables is None else list(variables.names)
    return Raw({name: table[:, k] for k, name in enumerate(names)}, has_names=False)


def read_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The columns of a .csv, .tsv or .parquet file; those of text files are lists of text."""
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
    rows = []
    for line in lines:
        if not line and len(names) > 1:
            continue  # a blank line at the end
        cells = line or [""]
        if len(cells) != len(names):
            raise FormatError(f"{path}, line {lines.line_num}: expected {len(names)} cells, got {len(cells)}")
        rows.append(cells)
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return {name: list(column) for name, column in zip(names, columns, strict=True)}


def _read_parquet(path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        import pandas as pd

        frame = pd.read_parquet(path)
    except ImportError:
        raise MissingExtraError(
            f'{path}: Parquet needs pandas and pyarrow: pip install "credo[data]"'
        ) from None
    except (OSError, ValueError) as error:
        raise FormatError(f"{path}: cannot be read as Parquet ({error})") from None
    return {str(name): frame[name] for name in frame.columns}
