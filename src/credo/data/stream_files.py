"""Tables of a stream that lie in files: row groups of Parquet, pieces of text; see `stream_sources.py`."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.content import reason
from ..core.errors import FormatError, MissingExtraError
from ..core.fingerprint import fingerprint
from .sources import Raw

__all__ = ["ParquetTables", "TextTables"]

_TEXT_ROWS = 1 << 16  # of a piece of a text file
_ENDS = 1 << 12  # bytes at both ends of a text file that its fingerprint covers


class ArrowRows:
    """Rows of a Parquet file."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def take(self, rows: slice | np.ndarray) -> Any:
        """A data frame of some of them."""
        if isinstance(rows, slice):
            return self._table.slice(rows.start, rows.stop - rows.start).to_pandas()
        return self._table.take(rows).to_pandas()

    def column(self, name: str) -> np.ndarray:
        """One column as objects."""
        return np.asarray(self._table.column(name).to_pandas())

    def below(self, other: ArrowRows) -> ArrowRows:
        """With the rows of another table after these."""
        import pyarrow

        return ArrowRows(pyarrow.concat_tables([self._table, other._table]).combine_chunks())


class ParquetTables:
    """The row groups of Parquet files."""

    in_order, has_rows = False, True

    def __init__(self, paths: Sequence[Path]) -> None:
        try:
            import pandas  # noqa: F401, what tables are turned into
            from pyarrow import ArrowException, parquet
        except ImportError:
            raise MissingExtraError(
                f'{paths[0]}: Parquet needs pandas and pyarrow: pip install "credo[data]"'
            ) from None
        self._paths, self._errors = paths, (ArrowException, OSError)
        try:
            # Without threads: they do not survive a fork, and learning is what takes the time.
            self._files = [parquet.ParquetFile(path, pre_buffer=False) for path in paths]
        except self._errors as error:
            raise FormatError(f"{paths[0]}: cannot be read as Parquet ({error})") from None
        self._parts = [(f, k) for f, file in enumerate(self._files) for k in range(file.num_row_groups)]
        for path, file in zip(paths, self._files, strict=True):
            if not file.schema_arrow.equals(self._files[0].schema_arrow):
                raise FormatError(f"{path}: expected the columns of {paths[0]}, got others")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of the columns; an index that pandas wrote is none."""
        return tuple(map(str, self._files[0].schema_arrow.empty_table().to_pandas().columns))

    @cached_property
    def sizes(self) -> np.ndarray:
        """As the footers say."""
        counts = [self._files[f].metadata.row_group(k).num_rows for f, k in self._parts]
        return np.array(counts, dtype=np.int64)

    def table(self, number: int, names: Sequence[str], rows: int | None = None) -> ArrowRows:
        """A row group."""
        import pyarrow

        f, k = self._parts[number]
        try:
            if rows is None:
                found = self._files[f].read_row_group(k, columns=list(names), use_threads=False)
                return ArrowRows(found.combine_chunks())
            first, left = [], rows
            for batch in self._files[f].iter_batches(rows, [k], list(names), use_threads=False):
                first.append(batch.slice(0, left))
                left -= first[-1].num_rows
                if not left:
                    break
            return ArrowRows(pyarrow.Table.from_batches(first).combine_chunks())
        except self._errors as error:
            raise FormatError(f"{self.place(number)}: cannot be read ({error})") from None

    def place(self, number: int) -> str:
        """File and row group."""
        f, k = self._parts[number]
        return f"{self._paths[f]}, row group {k}"

    def fingerprint(self) -> str:
        """Sizes and footers."""
        parts = []
        for path in self._paths:
            with path.open("rb") as file:
                size = file.seek(-8, os.SEEK_END) + 8
                footer = int.from_bytes(file.read(4), "little")
                file.seek(max(size - 8 - footer, 0))
                parts.append((size, file.read(footer)))
        return fingerprint(parts)


class TextRows:
    """Rows of a text file, by column."""

    def __init__(self, columns: dict[str, list[str]]) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), ()))

    def take(self, rows: slice | np.ndarray) -> Raw:
        """Some of them."""
        if isinstance(rows, slice):
            return Raw({name: cells[rows] for name, cells in self._columns.items()}, in_file=True)
        return Raw({n: [cells[r] for r in rows] for n, cells in self._columns.items()}, in_file=True)

    def column(self, name: str) -> np.ndarray:
        """One column."""
        return np.array(self._columns[name], dtype=object)

    def below(self, other: TextRows) -> TextRows:
        """With the rows of another table after these."""
        return TextRows({name: cells + other._columns[name] for name, cells in self._columns.items()})


class _Piece(NamedTuple):
    path: Path
    begin: int  # byte
    line: int  # lines before it
    rows: int


class TextTables:
    """Pieces of .csv and .tsv files with a line of names each."""

    in_order, has_rows = False, True

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        heads = [self._header(path) for path in paths]
        self.names = tuple(heads[0])
        for path, head in zip(paths, heads, strict=True):
            if len(set(head)) < len(head):
                raise FormatError(f"{path}, line 1: expected different column names, got {head!r:.80}")
            if tuple(head) != self.names:
                raise FormatError(f"{path}: expected the columns of {paths[0]}, got {head!r:.80}")

    def _header(self, path: Path) -> list[str]:
        with path.open("rb") as file:
            found = next(_records(path, file, 0), (0, []))[1]
        return [name.strip().removeprefix("\ufeff") for name in found]

    @cached_property
    def _pieces(self) -> list[_Piece]:
        """Where pieces begin."""
        found = []
        for path in self._paths:
            with path.open("rb") as file:
                records = _records(path, file, 0)
                line, _ = next(records, (0, None))
                begin, count, first = file.tell(), 0, line
                for line, cells in records:
                    count += not self._is_blank(cells)
                    if count == _TEXT_ROWS:
                        found.append(_Piece(path, begin, first, count))
                        begin, count, first = file.tell(), 0, line
                if count:
                    found.append(_Piece(path, begin, first, count))
        return found

    def _is_blank(self, cells: list[str]) -> bool:
        return not cells and len(self.names) > 1

    @cached_property
    def sizes(self) -> np.ndarray:
        """As the pass over the files found."""
        return np.array([piece.rows for piece in self._pieces], dtype=np.int64)

    def table(self, number: int, names: Sequence[str], rows: int | None = None) -> TextRows:
        """A piece."""
        piece = self._pieces[number]
        wanted = piece.rows if rows is None else rows
        found: list[list[str]] = []
        with piece.path.open("rb") as file:
            file.seek(piece.begin)
            for line, read in _records(piece.path, file, piece.line):
                if self._is_blank(read):
                    continue
                cells = read or [""]
                if len(cells) != len(self.names):
                    raise FormatError(
                        f"{piece.path}, line {line}: expected {len(self.names)} cells, got {len(cells)}"
                    )
                found.append(cells)
                if len(found) == wanted:
                    break
        place = [self.names.index(name) for name in names]
        return TextRows({name: [row[k] for row in found] for name, k in zip(names, place, strict=True)})

    def place(self, number: int) -> str:
        """File and first line."""
        piece = self._pieces[number]
        return f"{piece.path}, lines from {piece.line + 1}"

    def fingerprint(self) -> str:
        """Sizes, and the bytes at both ends."""
        parts = []
        for path in self._paths:
            with path.open("rb") as file:
                first = file.read(_ENDS)
                size = file.seek(0, os.SEEK_END)
                file.seek(max(size - _ENDS, 0))
                parts.append((size, first, file.read()))
        return fingerprint(parts)


def _records(path: Path, file: Any, line: int) -> Iterator[tuple[int, list[str]]]:
    """Cells of the records from here on, each with the line that it ends in; quoted cells may span lines."""

    def lines() -> Iterator[str]:
        # `readline`, so that `file.tell()` is where the last record ended.
        while text := file.readline():
            try:
                yield text.decode()
            except UnicodeDecodeError:
                raise FormatError(f"{path}: expected text in UTF-8") from None

    reader = csv.reader(lines(), delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
    try:
        for cells in reader:
            yield line + reader.line_num, cells
    except csv.Error as error:
        raise FormatError(f"{path}, line {line + reader.line_num}: {error}") from None
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({reason(error)})") from None
