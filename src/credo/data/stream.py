"""Data of more than memory: tables that are read one after another, and given in batches as often as asked.

    rows = credo.data.stream("big.parquet", batch_rows=65536)              # row groups of Parquet files
    rows = credo.data.stream(["a.csv", "b.csv"], shuffle=True, seed=0)     # pieces of text files
    rows = credo.data.stream(lambda: (load(day) for day in days))          # tables that a function gives
    for batch in rows: ...                                                 # each a `Dataset`

All batches have one schema: that of the model which is learned, or the one that a first pass over the data
finds by the rules of `read`. `shuffle` permutes the tables, and the units in each, by (seed, epoch, table):

    order of tables      default_rng([seed, epoch]).permutation
    order in table g     default_rng([seed, epoch, g + 1]).permutation

so that three integers say where a pass stands, (epoch, table in this order, unit in this order), and a pass
can begin anywhere. One table at a time is in memory, and a batch. Sequences are never cut: the rows of one
follow each other, and those that go on in the next row group are read from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from ..core import check
from ..core.display import Listing, Shown
from ..core.domain import Real
from ..core.errors import DataError, OptionError
from ..core.fingerprint import fingerprint
from ..core.variable import Variables
from .coding import numbers_of
from .dataset import Dataset, unit_weights
from .read import read
from .sources import named_columns
from .stream_files import ParquetTables
from .stream_schema import common_schema
from .stream_sources import StreamSource, source_of
from .stream_tables import Rows, UnitTable, continued_rows, run_lengths

__all__ = ["Stream", "stream"]

T = TypeVar("T")

_HEAD = 100  # rows that show what columns a table has
_AT_ONCE = 1 << 16  # rows that are looked at together where a pass finds the schema


def stream(
    data: Any,
    *,
    batch_rows: int = 65536,
    shuffle: bool = False,
    seed: int = 0,
    schema: Any = None,
    columns: Iterable[str] | None = None,
    groups: str | None = None,
    weights: str | None = None,
) -> Stream:
    """Data in batches, which are read anew for every pass.

    Parameters
    ----------
    data
        A path or paths of .parquet, .csv or .tsv files; a list of tables, or of functions that give one each;
        or a function that gives an iterable of tables, in any form that `read` takes.
    batch_rows
        Rows of a batch; a sequence that is longer is a batch by itself.
    shuffle, seed
        Whether batches come in another order in every epoch, and the seed of these orders.
    schema
        Variables, or a mapping name -> states or domain; None: those of the model, or what a pass finds.
    columns
        The columns to be read; all by default.
    groups
        A column that names the sequence of each row. The rows of a sequence follow each other in a file, and
        lie in one table of a list or function.
    weights
        A column that says how often each row counts, the same in all rows of a sequence.

    Examples
    --------
    >>> import credo
    >>> tables = [{"rain": ["no", "yes", "no"], "wet": [0, 1, 0]}, {"rain": ["no", "no"], "wet": [1, 0]}]
    >>> rows = credo.data.stream(tables, batch_rows=2, shuffle=True, seed=0)
    >>> rows
    Stream(5 rows in 2 tables, 2 columns, batches of 2 rows, shuffled)
    >>> [batch["wet"].tolist() for batch in rows.epoch(1)]
    [['0', '1'], ['0', '0'], ['1']]
    """
    check.whole("batch_rows", batch_rows, 1)
    check.one_of("shuffle", shuffle, [True, False])
    check.whole("seed", seed, 0)
    source = source_of(data)
    if shuffle and source.in_order:
        raise OptionError(
            "shuffle: a function that gives tables in turn can only be read in order; give a list of "
            "functions that give one table each"
        )
    wanted = None if columns is None else tuple(columns)
    for name in (*(wanted or ()), *(name for name in (groups, weights) if name is not None)):
        if name not in source.names:
            raise DataError(f"stream: there is no column {name!r:.40}; it has {list(source.names)[:12]}")
    given = None if schema is None else Variables.of(schema)
    made = Stream(source, batch_rows, shuffle, seed, None, wanted, groups, weights)
    return made if given is None else made.with_schema(given)


@dataclass(frozen=True, repr=False, eq=False)
class Stream(Shown):
    """Batches of rows or sequences; made by `stream`."""

    source: StreamSource  # where tables come from
    batch_rows: int  # of a batch
    shuffle: bool  # whether epochs differ in order
    seed: int  # of the orders
    schema: Variables | None = None  # given, or that of a model
    columns: tuple[str, ...] | None = None  # that are read; None: all
    groups: str | None = None  # the column that tells sequences apart
    weights: str | None = None  # the column that says how often rows count
    _memo: dict[Any, Any] = field(
        default_factory=dict, init=False
    )  # the table that was read last, and its key

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns that are read."""
        apart = (self.groups, self.weights)
        return self.columns or tuple(name for name in self.source.names if name not in apart)

    @cached_property
    def variables(self) -> Variables:
        """Names and domains of the columns of every batch; without a schema a pass finds them."""
        return common_schema(self.names, self._rows()) if self.schema is None else self.schema

    @cached_property
    def n_rows(self) -> int:
        """How many rows all batches of a pass have."""
        return int(self.source.sizes.sum())

    @cached_property
    def total(self) -> float:
        """Rows of a pass, each counted with its weight; takes a pass over these."""
        if self.weights is None:
            return float(self.n_rows)
        return sum(map(self._weight_of, range(len(self.source.sizes))))

    def _weight_of(self, number: int) -> float:
        """All rows of a table together."""
        assert self.weights is not None
        table = self.source.table(number, (self.weights,))
        raw = named_columns(table.take(slice(0, len(table))) if self.source.has_rows else table)
        try:
            found = numbers_of(self.weights, raw.columns[self.weights], Real(), in_file=raw.in_file)
            return float(unit_weights(found, len(found)).sum())
        except DataError as error:
            raise DataError(f"{self.source.place(number)}: {error}") from None

    @cached_property
    def is_complete(self) -> bool:
        """Whether no cell is missing and every variable has a column; takes a pass."""
        hidden = set(self.variables.names) - set(self.names)
        return not hidden and not any(c.missing.any() for batch in self for c in batch.columns)

    def with_schema(self, variables: Any) -> Stream:
        """The same with columns read as these variables; columns that are none of them are left out."""
        wanted = Variables.of(variables)
        head = self.source.table(0, self.names, _HEAD)
        if self.source.has_rows:
            head = head.take(slice(0, min(len(head), _HEAD)))
        elif (self.groups, self.weights) != (None, None):
            head = read(head, columns=self.names)
        found = read(head, schema=wanted, columns=self.columns)  # refuses what does not fit
        return replace(self, schema=wanted, columns=found.names)

    def __iter__(self) -> Iterator[Dataset]:
        return self.epoch(0)

    def epoch(self, number: int) -> Iterator[Dataset]:
        """The batches of a pass; passes differ in order where the stream is shuffled."""
        for batch, _ in self.batches((number,)):
            yield batch

    def batches(
        self, place: tuple[int, ...] = (), rows: int | None = None
    ) -> Iterator[tuple[Dataset, tuple[int, ...]]]:
        """The batches of a pass from a place on, each with the place after it; () stands for both ends.

        Parameters
        ----------
        place
            (epoch, table, unit), where the last of these may be left out.
        rows
            Of a batch, if not `batch_rows`.
        """
        epoch, t, unit = (*place, 0, 0, 0)[:3]
        order = self._order(epoch)
        parts: list[Dataset] = []
        most = room = rows or self.batch_rows
        while t < len(order):
            table = self._table(epoch, int(order[t]))
            last = table.upto(unit, room, at_least=not parts)
            if last > unit:
                with self.placed((epoch, t, unit)):
                    parts.append(table.read(unit, last))
                room -= parts[-1].n_rows
            is_over = last == len(table)
            is_full = not is_over or room <= 0
            t, unit = (t + 1, 0) if is_over else (t, last)
            del table  # so that the next one takes its place in memory
            if t == len(order):
                self._memo.clear()
            if is_full or t == len(order):
                yield _joined(parts), (epoch, t, unit) if t < len(order) else ()
                parts, room = [], most

    def map(self, function: Callable[[Dataset], T]) -> Iterator[T]:
        """What a function gives for every batch of a pass."""
        place: tuple[int, ...] = ()
        for batch, end in self.batches():
            with self.placed(place):
                found = function(batch)
            yield found
            place = end

    @contextmanager
    def placed(self, place: tuple[int, ...]) -> Iterator[None]:
        """Let what is said about data say where in the stream the batch begins."""
        epoch, t, unit = (*place, 0, 0, 0)[:3]
        try:
            yield
        except DataError as error:
            where = self.source.place(int(self._order(epoch)[t]))
            raise DataError(f"{where}, the batch from unit {unit} on: {error}") from None

    def fingerprint(self) -> str:
        """Another text for another source, as far as files say without being read, or other options."""
        order = (self.batch_rows, self.shuffle, self.seed)
        form = (self.schema, self.columns, self.groups, self.weights)
        return fingerprint(self.source.fingerprint(), *order, *form)

    def _shown(self) -> Iterable[str | Listing]:
        what = "row groups" if isinstance(self.source, ParquetTables) else "tables"
        size = f"{self.n_rows} rows in {len(self.source.sizes)} {what}, {len(self.names)} columns"
        grouped = "" if self.groups is None else f", sequences by '{self.groups}'"
        shuffled = ", shuffled" if self.shuffle else ""
        weighed = "" if self.weights is None else f", weights in '{self.weights}'"
        yield f"Stream({size}, batches of {self.batch_rows} rows{shuffled}{grouped}{weighed})"

    # Tables -------------------------------------------------------------------------------------------------

    def _order(self, epoch: int) -> np.ndarray:
        """Numbers of the tables in which units begin, in the order of an epoch."""
        there = np.flatnonzero(self.source.sizes - self._continued)
        if not self.shuffle:
            return there
        return there[np.random.default_rng([self.seed, epoch]).permutation(len(there))]

    @cached_property
    def _continued(self) -> np.ndarray:
        """First rows of every table that belong to the last sequence of the table before."""
        if self.groups is None:
            return np.zeros(len(self.source.sizes), dtype=np.int64)
        return continued_rows(self.source, self.groups)

    def _table(self, epoch: int, number: int) -> UnitTable:
        """A table in the order of an epoch; the last one is kept."""
        key = (epoch if self.shuffle else 0, number)
        if key not in self._memo:
            self._memo.clear()  # before the next one takes memory
            rng = np.random.default_rng([self.seed, epoch, number + 1]) if self.shuffle else None
            self._memo[key] = self._of_file(number, rng) if self.source.has_rows else self._given(number, rng)
        found: UnitTable = self._memo[key]
        return found

    def _given(self, number: int, rng: np.random.Generator | None) -> UnitTable:
        """A table that somebody gives."""
        raw = self.source.table(number, self.names)
        try:
            data = read(
                raw, schema=self.variables, columns=self.names, groups=self.groups, weights=self.weights
            )
        except DataError as error:
            raise DataError(f"{self.source.place(number)}: {error}") from None
        lengths = None if self.groups is None else data.lengths
        return UnitTable(data.n_rows, lengths, rng, lambda units, rows, lengths: data.take(units))

    def _of_file(self, number: int, rng: np.random.Generator | None) -> UnitTable:
        """The rows of all units that begin in a table of a file."""
        schema, columns = self.variables, self.names  # before a table is in memory: it may take a pass
        names = (*columns, *(name for name in (self.groups, self.weights) if name is not None))
        table, skip = self.source.table(number, names), int(self._continued[number])
        for after in range(number + 1, len(self.source.sizes)):
            more = int(self._continued[after])
            table = table.below(self.source.table(after, names, more)) if more else table
            if more < self.source.sizes[after]:
                break
        lengths = None if self.groups is None else run_lengths(table.column(self.groups)[skip:])

        def make(units: Rows, rows: Rows, lengths: np.ndarray | None) -> Dataset:
            kept = slice(rows.start + skip, rows.stop + skip) if isinstance(rows, slice) else rows + skip
            found = table.take(kept)
            return read(found, schema=schema, columns=columns, lengths=lengths, weights=self.weights)

        return UnitTable(len(table) - skip, lengths, rng, make)

    def _rows(self) -> Iterator[Any]:
        """All rows in a form that `read` takes."""
        for number, size in enumerate(self.source.sizes.tolist()):
            table = self.source.table(number, self.names)
            if not self.source.has_rows:
                yield table
                continue
            for first in range(0, size, _AT_ONCE):
                yield table.take(slice(first, min(first + _AT_ONCE, size)))
            del table


def _joined(parts: list[Dataset]) -> Dataset:
    """The units of all parts, one after the other."""
    if len(parts) == 1:
        return parts[0]
    columns = []
    for same in zip(*(part.columns for part in parts), strict=True):
        columns.append(same[0].below(same[1:]))
    lengths = np.concatenate([part.lengths for part in parts]) if parts[0].is_sequences else None
    weights = np.concatenate([part.weights for part in parts])
    return Dataset.of(columns, lengths=lengths, weights=weights, notes=parts[0].notes)
