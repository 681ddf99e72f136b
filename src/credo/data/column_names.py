"""The names of the columns of a table in a file, without its rows."""

from __future__ import annotations

import csv
import os
from pathlib import Path

from ..core.errors import FormatError, MissingExtraError

__all__ = ["column_names"]


def column_names(path: str | os.PathLike[str]) -> list[str]:
    r"""The first line of a .csv or .tsv file, or the schema of a .parquet file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from credo.data.column_names import column_names
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "few.csv"
    >>> _ = path.write_text("size,kind\n1.5,moth\n")
    >>> column_names(path)
    ['size', 'kind']
    """
    ending = Path(path).suffix.lower()
    if ending == ".parquet":
        try:
            import pyarrow.parquet as pq
        except ImportError:
            raise MissingExtraError(f'{path}: Parquet needs pyarrow: pip install "credo[data]"') from None
        names: list[str] = pq.read_schema(path).names
        return names
    if ending not in (".csv", ".tsv"):
        raise FormatError(f"{path}: expected a .csv, .tsv or .parquet file, got '{ending}'")
    with open(path, newline="", encoding="utf-8") as file:
        return next(csv.reader(file, delimiter="\t" if ending == ".tsv" else ","), [])
