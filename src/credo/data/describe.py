"""What is in data, and how it would be read: a row for each column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.display import LIMIT, Listing, Shown, beyond, data_frame, told
from ..core.domain import Discrete, Domain
from ..core.errors import OptionError
from .column import Column
from .dataset import Dataset
from .read import gather
from .stream import Stream

__all__ = ["ColumnSummary", "Description", "describe"]

_LABELS = 4  # shown of a column
_NUMBERS = ("min", "mean", "max")


@dataclass(frozen=True)
class ColumnSummary:
    """One column in numbers; those that a column of states lacks are None."""

    name: str  # of the column
    domain: Domain  # as read
    missing: int  # cells that observe nothing
    soft: int  # cells of soft evidence
    distinct: int | None  # different values that occur; None where they were not counted
    min: Any = None  # the least of numbers; of vectors by coordinate
    mean: Any = None  # of numbers
    max: Any = None  # the largest of numbers

    @classmethod
    def of(cls, column: Column) -> ColumnSummary:
        """Count and average the cells of a column."""
        missing = int(column.missing.sum())
        soft = 0 if column.soft is None else int((column.soft != 1).any(axis=1).sum())
        if column.is_discrete:
            found = len(np.unique(column.values[column.values >= 0]))
            return cls(column.name, column.domain, missing, soft, found)
        seen = column.values[~column.missing]
        found = len(np.unique(seen, axis=0))
        if not len(seen):
            return cls(column.name, column.domain, missing, soft, found)
        kept = np.isnan(seen)  # coordinates of vectors may be missing one by one
        total = np.where(kept, 0.0, seen).sum(axis=0) / np.maximum((~kept).sum(axis=0), 1)
        low, high = np.where(kept, np.inf, seen).min(axis=0), np.where(kept, -np.inf, seen).max(axis=0)
        return cls(column.name, column.domain, missing, soft, found, low, total, high)

    def words(self) -> str:
        """The domain as one reads it: the labels of states, or the kind of numbers."""
        if not isinstance(self.domain, Discrete):
            return repr(self.domain)
        if self.domain.states is None:
            return f"{self.domain.size} states"
        labels = ", ".join(self.domain.labels[:_LABELS])
        return f"{self.domain.size} states: {labels}{', ...' if self.domain.size > _LABELS else ''}"


@dataclass(frozen=True, repr=False)
class Description(Shown):
    """A summary of every column, the units, and what was noted."""

    columns: tuple[ColumnSummary, ...]  # in order
    rows: int  # in all
    lengths: np.ndarray | None  # of the sequences; None where rows are units
    notes: tuple[str, ...] = ()  # sentences about what was left out or may surprise
    refused: Mapping[str, str] | None = None  # column -> why it cannot be read

    def to_frame(self) -> Any:
        """A pandas data frame with a row per column that could be read."""
        kinds = ("name", "missing", "soft", "distinct", *_NUMBERS)
        columns = {kind: [getattr(c, kind) for c in self.columns] for kind in kinds}
        return data_frame(
            {"name": columns.pop("name"), "domain": [c.words() for c in self.columns], **columns}
        )

    def _shown(self) -> Iterable[str | Listing]:
        units = ""
        if self.lengths is not None:
            shortest, longest = int(self.lengths.min()), int(self.lengths.max())
            units = f" in {len(self.lengths)} sequences of {shortest} to {longest}"
        header = ["column", "domain", "missing", "distinct"]
        shown = self.columns[:LIMIT]
        distinct = ["" if c.distinct is None else str(c.distinct) for c in shown]
        rows = [[c.name, c.words(), str(c.missing), d] for c, d in zip(shown, distinct, strict=True)]
        if any(c.soft for c in self.columns):
            header = [*header, "soft"]
            rows = [[*row, str(c.soft)] for row, c in zip(rows, self.columns, strict=False)]
        if any(c.min is not None for c in self.columns):
            header = [*header, *_NUMBERS]
            rows = [[*row, *_numbers(c)] for row, c in zip(rows, self.columns, strict=False)]
        right = [False, False] + [True] * (len(header) - 2)
        more = beyond(len(self.columns), "columns")
        yield Listing(rows, right, header, f"{self.rows} rows{units}, {len(self.columns)} columns", more)
        yield from self.notes
        yield from (f"cannot be read: {why}" for why in (self.refused or {}).values())


def _numbers(column: ColumnSummary) -> list[str]:
    found = (getattr(column, kind) for kind in _NUMBERS)
    return ["" if value is None else told(value) for value in found]


def describe(source: Any, **options: Any) -> Description:
    """Say how a source is read, before anything is learned from it.

    Parameters
    ----------
    source, options
        As of `credo.data.read`; a column that cannot be read is told with the reason, and the others shown.
        Of a stream, batch by batch: different numbers are not counted, which would need all of them.

    Examples
    --------
    >>> import credo
    >>> credo.data.describe({"rain": ["yes", "no", None, "no"], "height": [1.5, 2.0, 2.5, 2.0]})
    4 rows, 2 columns
    column  domain             missing  distinct  min  mean  max
    rain    2 states: no, yes        1         2
    height  Real()                   0         3  1.5     2  2.5
    """
    if isinstance(source, Stream):
        if options:
            raise OptionError(
                f"describe: a stream says itself how it is read; leave out {', '.join(options)}, or give "
                "them to credo.data.stream"
            )
        return _described(source)
    refused: dict[str, str] = {}
    data = (
        source if isinstance(source, Dataset) and not options else gather(source, refused=refused, **options)
    )
    found = tuple(map(ColumnSummary.of, data.columns))
    lengths = data.lengths if data.is_sequences else None
    return Description(found, data.n_rows, lengths, data.notes, refused)


def _described(data: Stream) -> Description:
    """The same of a stream: sums and extremes over its batches."""
    parts: list[list[ColumnSummary]] = []
    used = {v.name: np.zeros(v.size, dtype=bool) for v in data.variables}
    lengths: list[np.ndarray] = []
    notes: tuple[str, ...] = ()
    for batch in data:
        parts.append([ColumnSummary.of(column) for column in batch.columns])
        for column in batch.columns:
            if column.is_discrete:
                used[column.name][column.values[column.values >= 0]] = True
        lengths.append(batch.lengths)
        notes = batch.notes
    sizes = [int(length.sum()) for length in lengths]
    found = tuple(_summed(columns, sizes, used) for columns in zip(*parts, strict=True))
    return Description(found, sum(sizes), None if data.groups is None else np.concatenate(lengths), notes, {})


def _summed(
    parts: tuple[ColumnSummary, ...], rows: list[int], used: Mapping[str, np.ndarray]
) -> ColumnSummary:
    """One column of all batches, which have so many rows."""
    name, domain = parts[0].name, parts[0].domain
    missing, soft = sum(part.missing for part in parts), sum(part.soft for part in parts)
    if isinstance(domain, Discrete):
        return ColumnSummary(name, domain, missing, soft, int(used[name].sum()))
    counts = [count - part.missing for part, count in zip(parts, rows, strict=True) if part.min is not None]
    seen = [part for part in parts if part.min is not None]
    if not seen:
        return ColumnSummary(name, domain, missing, soft, None)
    low, high = np.min([part.min for part in seen], axis=0), np.max([part.max for part in seen], axis=0)
    mean = np.average([part.mean for part in seen], axis=0, weights=counts)
    return ColumnSummary(name, domain, missing, soft, None, low, mean, high)
