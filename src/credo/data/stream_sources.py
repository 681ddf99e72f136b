"""Where the tables of a stream come from; one of them is in memory at a time.

    ParquetTables   row groups of files, whose footers say how many rows they have
    TextTables      pieces of .csv and .tsv files; one pass finds where they begin
    ListedTables    a list of tables, or of functions that give one each
    GivenTables     a function that gives an iterable of tables, which is read in order

Each has the names of its columns, the number of rows of every table, and gives a table by its number.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..core.content import bare_name
from ..core.errors import DataError, FormatError
from ..core.fingerprint import fingerprint
from .sources import named_columns
from .stream_files import ParquetTables, TextTables

__all__ = ["StreamSource", "source_of"]

_KINDS = (".parquet", ".csv", ".tsv")


class StreamSource(Protocol):
    """Tables with the same columns, by number."""

    in_order: bool  # whether tables can be had in their order only
    has_rows: bool  # whether a table is raw rows (`take`, `len`) instead of something that `read` takes

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns."""

    @property
    def sizes(self) -> np.ndarray:
        """Rows of every table."""

    def table(self, number: int, names: Sequence[str], rows: int | None = None) -> Any:
        """A table with these columns; of raw rows only the first ones, if a number is given."""

    def place(self, number: int) -> str:
        """Words for a table."""

    def fingerprint(self) -> str:
        """Another text for other data, as far as that is known without reading them."""


def source_of(data: Any) -> StreamSource:
    """The tables of a path or several, of a list of tables, or of a function that gives tables."""
    if callable(data):
        return GivenTables(data)
    parts = [data] if isinstance(data, (str, os.PathLike)) else data
    if not isinstance(parts, (list, tuple)) or not parts:
        raise DataError(
            "stream: expected a path or paths of .parquet, .csv or .tsv files, a list of tables, or a "
            f"function that gives an iterable of tables, got {data!r:.80}; what is in memory is read by "
            "credo.data.read"
        )
    if not all(isinstance(part, (str, os.PathLike)) for part in parts):
        return ListedTables(parts)
    paths = [Path(part) for part in parts]
    kind = paths[0].suffix.lower()
    for path in paths:
        if path.suffix.lower() != kind or kind not in _KINDS:
            way_out = "unpack it first" if bare_name(path) != path.name else "write all as Parquet"
            raise FormatError(f"{path}: expected files of one kind, {', '.join(_KINDS)}; {way_out}")
        if not path.is_file():
            raise FormatError(f"{path}: there is no such file")
    return ParquetTables(paths) if kind == ".parquet" else TextTables(paths)


class ListedTables:
    """Tables of a list, or what functions in it give when they are called."""

    in_order, has_rows = False, False

    def __init__(self, items: Sequence[Any]) -> None:
        self._items = items

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Those of the first table."""
        return _names(self.table(0))

    @cached_property
    def sizes(self) -> np.ndarray:
        """Rows of the tables, each of which is made for this once."""
        return np.array([_length(self.table(k)) for k in range(len(self._items))], dtype=np.int64)

    def table(self, number: int, names: Sequence[str] = (), rows: int | None = None) -> Any:
        """One of them."""
        item = self._items[number]
        return item() if callable(item) else item

    def place(self, number: int) -> str:
        """Its number."""
        return f"table {number}"

    def fingerprint(self) -> str:
        """Numbers of rows: whoever gives tables says whether they are the same."""
        return fingerprint(self.names, self.sizes)


class GivenTables:
    """Tables of an iterable, which a function makes anew for every pass."""

    in_order, has_rows = True, False

    def __init__(self, make: Callable[[], Iterable[Any]]) -> None:
        self._make = make
        self._rest: Iterator[Any] = iter(())
        self._next = -1  # number of the table that `_rest` gives next

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Those of the first table."""
        return _names(self.table(0))

    @cached_property
    def sizes(self) -> np.ndarray:
        """Rows of the tables, all of which are made for this once."""
        found = np.array([_length(table) for table in self._make()], dtype=np.int64)
        if not len(found):
            raise DataError("stream: expected a function that gives an iterable of tables, it gave none")
        return found

    def table(self, number: int, names: Sequence[str] = (), rows: int | None = None) -> Any:
        """The next one; another one is found by beginning again."""
        if number < self._next or self._next < 0:
            self._rest, self._next = iter(self._make()), 0
        for table in self._rest:
            self._next += 1
            if self._next > number:
                return table
        raise DataError(
            f"stream: expected table {number} again, but the function gave {self._next}; it must give the "
            "same tables whenever it is called"
        )

    def place(self, number: int) -> str:
        """Its number."""
        return f"table {number}"

    def fingerprint(self) -> str:
        """The function, and the numbers of rows."""
        return fingerprint(self._make, self.names, self.sizes)


def _names(table: Any) -> tuple[str, ...]:
    return tuple(named_columns(table).columns)


def _length(table: Any) -> int:
    return max(map(len, named_columns(table).columns.values()), default=0)
