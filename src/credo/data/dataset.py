"""What is learned from and scored: typed columns, the units they are cut into, and the units' weights.

A *unit* is what is independent of all others: a row of a table, or a sequence of rows. Unit u owns the rows
begin[u]:begin[u+1]; where rows are units, begin is 0, 1, ..., rows.

    data = Dataset.from_rows(x, begin=[0, 100, 250])      # rows in the form families work on
    data = credo.data.read(frame, groups="patient")       # anything else
    data.rows(), data.begin, data.weights

A `Dataset` never changes, and its arrays may be shared with the source: leave both as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.display import Listing, Shown, beyond, data_frame, told
from ..core.domain import Discrete, Domain
from ..core.errors import DataError, QueryError
from ..core.fingerprint import fingerprint
from ..core.numbers import float_array
from ..core.variable import Variables
from .blocks import columns_of, rows_of
from .column import Column

if TYPE_CHECKING:
    from .table import StateTable

__all__ = ["Dataset", "begin_of", "random_batches", "unit_weights"]

_ROWS = 6  # rows shown
_COLUMNS = 12  # columns shown


@dataclass(frozen=True, repr=False, eq=False)
class Dataset(Shown):
    """Columns of equal length, where units begin, and how often each unit counts.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.data import Dataset
    >>> data = Dataset.from_rows(np.array([[1.0, 2.0], [3.0, np.nan], [5.0, 6.0]]), begin=[0, 2, 3])
    >>> data.n_units, data.lengths, data.rows(["x1"]).ravel()
    (2, array([2, 1]), array([ 2., nan,  6.]))
    """

    columns: tuple[Column, ...]  # in order, of different names
    begin: np.ndarray  # (units + 1,) first row of each unit, then the number of rows
    weights: np.ndarray  # (units,) how often each counts
    targets: tuple[str, ...] = ()  # names of the columns that are to be predicted
    notes: tuple[str, ...] = ()  # sentences about what was left out
    is_sequences: bool = False  # whether units are sequences, whose rows follow each other
    block: np.ndarray | None = None  # the rows, where they came as one array

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise DataError(f"data: the column '{twice}' appears twice; names must differ")
        for column in self.columns:
            if len(column) != self.n_rows:
                raise DataError(
                    f"data: column '{column.name}' has {len(column)} rows, expected {self.n_rows}"
                )
        if self.weights.shape != (self.n_units,):
            raise DataError(
                f"weights: expected {self.n_units} numbers, one per unit, got shape {self.weights.shape}"
            )
        if self.block is not None and len(self.block) != self.n_rows:
            raise DataError(f"data: expected a block of {self.n_rows} rows, got {len(self.block)}")
        for name in self.targets:
            self.column(name)

    @classmethod
    def of(
        cls,
        columns: Iterable[Column],
        *,
        begin: Any = None,
        lengths: Any = None,
        weights: Any = None,
        targets: Iterable[str] = (),
        notes: Iterable[str] = (),
    ) -> Dataset:
        """Make a dataset of columns; every row is a unit unless `begin` or `lengths` cut them otherwise."""
        kept = tuple(columns)
        starts = begin_of(len(kept[0]) if kept else 0, begin=begin, lengths=lengths)
        cut = begin is not None or lengths is not None
        counted = unit_weights(weights, len(starts) - 1, "sequence" if cut else "row")
        return cls(kept, starts, counted, tuple(targets), tuple(notes), cut)

    @classmethod
    def from_rows(
        cls,
        rows: np.ndarray,
        *,
        names: Iterable[str] | None = None,
        domains: Iterable[Domain | None] | None = None,
        begin: Any = None,
        lengths: Any = None,
        weights: Any = None,
    ) -> Dataset:
        """Make a dataset of one array in the form that `rows` gives back.

        Parameters
        ----------
        rows
            Numbers (rows, d) or (rows,), positions of states (rows,), or a structured array.
        names, domains
            Of the columns; x0, x1, ... and what the values show by default.
        begin, lengths
            Where units begin, or how long they are; by default each row is one.
        weights
            One per unit.
        """
        block = np.asarray(rows)
        columns = columns_of(block, names, domains)
        return replace(cls.of(columns, begin=begin, lengths=lengths, weights=weights), block=block)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def n_rows(self) -> int:
        """How many rows all units have together."""
        return int(self.begin[-1])

    @property
    def n_units(self) -> int:
        """How many units there are."""
        return len(self.begin) - 1

    @property
    def lengths(self) -> np.ndarray:
        """How many rows each unit has, (units,)."""
        return np.diff(self.begin)

    @property
    def total(self) -> float:
        """Sum of the weights of all units."""
        return float(self.weights.sum())

    @property
    def has_rows_as_units(self) -> bool:
        """Whether every unit is one row."""
        return self.n_units == self.n_rows

    @property
    def variables(self) -> Variables:
        """Names and domains of the columns."""
        return Variables(self.names, tuple(column.domain for column in self.columns))

    @property
    def missing(self) -> np.ndarray:
        """Which rows observe nothing at all, (rows,)."""
        gone = np.ones(self.n_rows, dtype=bool)
        for column in self.columns:
            gone &= column.missing
        return gone

    @property
    def is_complete(self) -> bool:
        """Whether every cell, and every coordinate of a vector, is known for sure."""
        return all(column.is_complete for column in self.columns)

    @property
    def row_weights(self) -> np.ndarray:
        """The weight of its unit for every row, (rows,)."""
        return self.weights if self.has_rows_as_units else np.repeat(self.weights, self.lengths)

    @property
    def total_rows(self) -> float:
        """Sum of the weights of all rows."""
        return float(self.weights @ self.lengths)

    def __len__(self) -> int:
        return self.n_units

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __getitem__(self, name: str) -> np.ndarray:
        """Labels of the states, or the numbers, of one column."""
        return self.column(name).labels()

    def column(self, name: str) -> Column:
        """One column by its name."""
        try:
            return self.columns[self.variables.position(name)]
        except QueryError as error:
            raise DataError(f"data: {str(error).replace('variable', 'column', 1)}") from None

    def select(self, names: Iterable[str]) -> Dataset:
        """The dataset with these columns only, in this order."""
        kept = tuple(self.column(name) for name in names)
        there = {column.name for column in kept}
        left = tuple(t for t in self.targets if t in there)
        return replace(self, columns=kept, targets=left, block=self.block if kept == self.columns else None)

    def rows(self, names: Iterable[str] | None = None) -> np.ndarray:
        """Columns as one array: what families work on.

        Rows that came as one array are given back as they are. Otherwise float64 (rows, d) if all are
        numbers, int64 (rows,) for one column of states, or a structured array with a field per column, which
        is sliced, masked and joined as any other.
        """
        if names is None and self.block is not None:
            return self.block
        columns = self.columns if names is None else [self.column(name) for name in names]
        return rows_of(columns, self.n_rows)

    def take(self, units: Any) -> Dataset:
        """Some of the units, by their positions (repeats allowed), a mask or a slice."""
        which = np.arange(self.n_units)[units]
        if self.has_rows_as_units:
            rows, begin = which, np.arange(len(which) + 1)
        else:
            size = self.lengths[which]
            begin = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
            rows = np.repeat(self.begin[which] - begin[:-1], size) + np.arange(begin[-1])
        kept = tuple(column.take(rows) for column in self.columns)
        block = None if self.block is None else self.block[rows]
        return replace(self, columns=kept, begin=begin, weights=self.weights[which], block=block)

    def split(self, fraction: float, rng: np.random.Generator) -> tuple[Dataset, Dataset]:
        """Two parts at random, the second with about this fraction of the units that count; both have one."""
        order = rng.permutation(np.flatnonzero(self.weights))
        if not 0 < fraction < 1 or len(order) < 2:
            raise DataError(
                f"split: expected a fraction between 0 and 1 of at least two units with a weight, "
                f"got {fraction} of {len(order)}"
            )
        size = min(max(round(fraction * len(order)), 1), len(order) - 1)
        return self.take(np.sort(order[size:])), self.take(np.sort(order[:size]))

    def folds(self, k: int, rng: np.random.Generator) -> Iterator[tuple[Dataset, Dataset]]:
        """Pairs (rest, fold): the units in k parts at random, whose sizes differ by one at most."""
        if not 2 <= k <= len(self):
            raise DataError(f"folds: expected a number from 2 to the {len(self)} units, got {k}")
        part = rng.permutation(len(self)) % k
        for fold in range(k):
            yield self.take(part != fold), self.take(part == fold)

    def batches(self, size: int | None, rng: np.random.Generator) -> Iterator[Dataset]:
        """The units in random order, `size` at a time; everything at once for None."""
        return random_batches(self, size, rng)

    def blocks(self, rows: int) -> Iterator[tuple[slice, Dataset]]:
        """Consecutive units with about this many rows together, and which they are; nothing is copied."""
        if self.n_units and rows >= self.n_rows:
            yield slice(0, self.n_units), self
            return
        first = 0
        while first < self.n_units:
            last = int(np.searchsorted(self.begin, self.begin[first] + rows, side="right")) - 1
            last = max(last, first + 1)
            begin, end = int(self.begin[first]), int(self.begin[last])
            kept = tuple(column.take(slice(begin, end)) for column in self.columns)
            block = None if self.block is None else self.block[begin:end]
            starts, weights = self.begin[first : last + 1] - begin, self.weights[first:last]
            part = replace(self, columns=kept, begin=starts, weights=weights, block=block)
            yield slice(first, last), part
            first = last

    def place(self, row: int) -> str:
        """Words for a row: its number, or which sequence and step it is."""
        if not self.is_sequences:
            return f"row {row}"
        u = int(np.searchsorted(self.begin, row, side="right")) - 1
        return f"sequence {u}, step {row - self.begin[u]}"

    def evidence(self) -> list[dict[str, Any]]:
        """What each row observes, as name -> state position, number, vector, or likelihoods of states."""
        found: list[dict[str, Any]] = [{} for _ in range(self.n_rows)]
        for column in self.columns:
            for row in np.flatnonzero(~column.missing).tolist():
                found[row][column.name] = column.evidence(row)
        return found

    def table(self, variables: Any = None) -> StateTable:
        """Distinct rows with counts over the variables of a model, whose other variables are hidden."""
        from .table import StateTable

        return StateTable.of_dataset(self, Variables.of(self.variables if variables is None else variables))

    def fingerprint(self) -> str:
        """A short text that is another one for other columns, units or weights."""
        parts = [(c.name, c.domain, c.values, c.soft) for c in self.columns]
        return fingerprint(parts, self.begin, self.weights, self.targets)

    def to_frame(self) -> Any:
        """A pandas data frame: categories for states, a column of numbers per coordinate."""
        columns: dict[str, Any] = {}
        for c in self.columns:
            if isinstance(c.domain, Discrete):
                columns[c.name] = (c.domain.labels, c.values)
            elif c.values.ndim == 1:
                columns[c.name] = c.values
            else:
                columns |= {f"{c.name}[{k}]": values for k, values in enumerate(c.values.T)}
        return data_frame(columns)

    def _shown(self) -> Iterable[str | Listing]:
        units = f"{self.n_units} sequences, " if self.is_sequences else ""
        title = f"Dataset({units}{self.n_rows} rows, {len(self.columns)} columns)"
        shown = self.columns[:_COLUMNS]
        first = [c.take(slice(0, _ROWS)).labels() for c in shown]
        count = min(self.n_rows, _ROWS)
        rows = [[_told(values[r]) for values in first] for r in range(count)]
        names = [c.name for c in shown]
        if len(shown) < len(self.columns):
            names, rows = [*names, "..."], [[*row, "..."] for row in rows]
        right = [not c.is_discrete for c in shown] + [False] * (len(names) - len(shown))
        more = beyond(self.n_rows, "rows", _ROWS)
        return [Listing(rows, right, names, title, more), *self.notes]


def random_batches(data: Any, size: int | None, rng: np.random.Generator) -> Iterator[Any]:
    """Anything with `take`, its units in random order, `size` at a time; everything at once for None."""
    if size is None or size >= len(data):
        yield data
        return
    order = rng.permutation(len(data))
    for first in range(0, len(order), size):
        yield data.take(order[first : first + size])


def _told(value: Any) -> str:
    if value is None:
        return ""
    return "" if not isinstance(value, str) and np.isnan(value).all() else told(value)


def begin_of(rows: int, *, begin: Any = None, lengths: Any = None) -> np.ndarray:
    """First rows of units and the number of rows, from either, or one unit per row."""
    if begin is not None and lengths is not None:
        raise DataError("begin, lengths: expected one of them, got both")
    if lengths is not None:
        found = np.asarray(lengths)
        if found.ndim != 1 or found.dtype.kind not in "iu" or (found < 0).any():
            raise DataError(f"lengths: expected counts of steps, one per sequence, got {lengths!r:.60}")
        if found.sum() != rows:
            raise DataError(f"lengths: expected a sum of {rows}, the number of rows, got {found.sum()}")
        return np.concatenate([[0], np.cumsum(found)]).astype(np.int64)
    if begin is None:
        return np.arange(rows + 1, dtype=np.int64)
    starts = np.asarray(begin)
    wrong = starts.ndim != 1 or starts.dtype.kind not in "iu" or not len(starts)
    if wrong or starts[0] != 0 or starts[-1] != rows or (np.diff(starts) < 0).any():
        raise DataError(f"begin: expected ascending rows from 0 to {rows}, got {begin!r:.60}")
    return starts.astype(np.int64)


def unit_weights(weights: Any, units: int, what: str = "row") -> np.ndarray:
    """How often each unit counts; 1 by default."""
    if weights is None:
        return np.ones(units)
    found = float_array("weights", weights, error=DataError, expected=f"one number per {what}")
    if found.shape != (units,):
        raise DataError(f"weights: expected {units} numbers, one per {what}, got shape {found.shape}")
    bad = np.flatnonzero(~(np.isfinite(found) & (found >= 0)))
    if len(bad):
        raise DataError(f"weights: expected finite numbers from 0, got {found[bad[0]]:g} in {what} {bad[0]}")
    with np.errstate(over="ignore"):
        total = found.sum()
    if total == np.inf:
        raise DataError(f"weights: expected numbers with a finite sum, got up to {found.max():g}; scale them")
    if not found.any():
        raise DataError(f"weights: at least one {what} must have a positive weight")
    return found
