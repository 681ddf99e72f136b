"""One table of a stream in memory: its units in the order of an epoch, and where sequences begin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.errors import DataError
from ..core.numbers import is_missing
from .dataset import Dataset
from .sources import named_columns
from .stream_sources import StreamSource

__all__ = ["UnitTable", "continued_rows", "run_lengths"]

Rows = slice | np.ndarray


class UnitTable:
    """A table of which batches take units.

    Parameters
    ----------
    rows
        How many there are.
    lengths
        Rows of its units, one after the other; None: each row is one.
    rng
        Permutes the units; None leaves them as they are.
    make
        Gives a dataset of some units, by their numbers, the numbers of their rows, and their lengths.
    """

    def __init__(
        self,
        rows: int,
        lengths: np.ndarray | None,
        rng: np.random.Generator | None,
        make: Callable[[Rows, Rows, np.ndarray | None], Dataset],
    ) -> None:
        self._lengths, self._make = lengths, make
        self._size = rows if lengths is None else len(lengths)
        self._order = None if rng is None else rng.permutation(self._size)
        if lengths is not None:
            self._begin = np.cumsum(lengths) - lengths
            self._ends = np.cumsum(lengths if self._order is None else lengths[self._order])

    def __len__(self) -> int:
        return self._size

    def upto(self, first: int, room: int, at_least: bool) -> int:
        """The unit after the last one that fits into so many rows; `at_least` says that one must."""
        if self._lengths is None:
            return min(first + room, self._size)
        used = int(self._ends[first - 1]) if first else 0
        last = int(np.searchsorted(self._ends, used + room, side="right"))
        return max(last, first + at_least)

    def read(self, first: int, last: int) -> Dataset:
        """Some units in the order of the table."""
        units: Rows = slice(first, last) if self._order is None else self._order[first:last]
        if self._lengths is None:
            return self._make(units, units, None)
        lengths, begin = self._lengths[units], self._begin[units]
        if self._order is None:
            rows: Rows = slice(int(begin[0]), int(begin[-1] + lengths[-1]))
        else:
            before = np.cumsum(lengths) - lengths
            rows = np.repeat(begin - before, lengths) + np.arange(lengths.sum())
        return self._make(units, rows, lengths)


def run_lengths(ids: np.ndarray) -> np.ndarray:
    """How often each value follows itself."""
    ends = np.flatnonzero(np.append(ids[1:] != ids[:-1], True)) if len(ids) else np.empty(0, np.int64)
    return np.diff(ends, prepend=-1)


def continued_rows(source: StreamSource, groups: str) -> np.ndarray:
    """First rows of every table that go on with the last sequence of the table before; takes a pass."""
    found = np.zeros(len(source.sizes), dtype=np.int64)
    known: set[Any] = set()
    last: Any = None
    for number in np.flatnonzero(source.sizes).tolist():
        table = source.table(number, (groups,))
        if source.has_rows:
            ids = table.column(groups)
            runs = run_lengths(ids)
            begun = ids[np.cumsum(runs) - runs].tolist()
            if begun[0] == last:
                found[number] = runs[0]
                del begun[0]
        else:
            begun = list(dict.fromkeys(np.asarray(named_columns(table).columns[groups]).tolist()))
        for name in begun:
            if is_missing(name):
                raise DataError(
                    f"{source.place(number)}: column '{groups}': expected the name of a sequence in every "
                    "row, got a missing cell; leave out such rows"
                )
            if name in known:
                raise DataError(
                    f"{source.place(number)}: the rows of sequence {name!r:.40} do not follow each other; "
                    f"sort the data by '{groups}', or read them at once by credo.data.read"
                )
            known.add(name)
            last = name
    return found
