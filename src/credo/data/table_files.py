"""Tables written to files: .csv, .tsv or .parquet, as the name ends.

Missing cells are empty, so that `read` gives back what was written. A column of vectors becomes a column per
coordinate, `name[0]`, `name[1]`, ...
"""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..core.errors import FormatError, MissingExtraError
from ..core.files import replacing
from ..core.numbers import is_missing

__all__ = ["check_ending", "plain_columns", "write_rows", "write_table"]

_ENDINGS = (".csv", ".tsv", ".parquet")


def plain_columns(columns: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Columns as lists of plain values, None where a cell is missing.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.data.table_files import plain_columns
    >>> plain_columns({"size": np.array([1.5, np.nan]), "place": np.eye(2)})
    {'size': [1.5, None], 'place[0]': [1.0, 0.0], 'place[1]': [0.0, 1.0]}
    """
    found: dict[str, list[Any]] = {}
    for name, column in columns.items():
        values = np.asarray(column)
        if values.ndim > 1:
            parts = {f"{name}[{k}]": part for k, part in enumerate(values.reshape(len(values), -1).T)}
        else:
            parts = {str(name): column}
        for title, part in parts.items():
            found[title] = _cells(part)
    return found


def _cells(column: Any) -> list[Any]:
    cells: list[Any] = column.tolist() if hasattr(column, "tolist") else list(column)
    if isinstance(column, np.ndarray) and column.dtype.kind in "biuUS":
        return cells  # which have no way to be missing
    return [None if is_missing(cell) else cell for cell in cells]


def check_ending(path: str | os.PathLike[str]) -> str:
    """How the name of a file ends; refused where no table can be written like that."""
    ending = Path(path).suffix.lower()
    if ending not in _ENDINGS:
        raise FormatError(f"{path}: expected a file name ending in {', '.join(_ENDINGS)}, got '{ending}'")
    return ending


def write_table(columns: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    r"""Write columns to a file, whole or not at all.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from credo.data.table_files import write_table
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "few.csv"
    >>> write_table({"size": [1.5, None], "kind": ["moth", "bat"]}, path)
    >>> path.read_text()
    'size,kind\n1.5,moth\n,bat\n'
    """
    ending = check_ending(path)
    plain = plain_columns(columns)
    if ending == ".parquet":
        _write_parquet(plain, path)
        return
    with replacing(path, text=True) as file:
        write_rows(plain, file, "\t" if ending == ".tsv" else ",")


def write_rows(columns: Mapping[str, list[Any]], file: IO[str], delimiter: str = ",") -> None:
    """Write plain columns as text, a line of names first."""
    rows = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    rows.writerow(columns)
    rows.writerows(zip(*columns.values(), strict=True))


def _write_parquet(columns: Mapping[str, list[Any]], path: str | os.PathLike[str]) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError(f'{path}: Parquet needs pyarrow: pip install "credo[data]"') from None
    with replacing(path) as file:
        pq.write_table(pa.table(dict(columns)), file)
