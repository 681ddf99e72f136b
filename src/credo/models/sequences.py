"""Many sequences of different lengths as one flat table.

Sequence i owns the rows start[i]:start[i+1]. Sequences come as one array with `lengths`, or as a list with
one array, data frame or list for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import DataError

__all__ = ["Sequences", "as_sequences", "split_list", "step_counts"]


class Sequences(NamedTuple):
    """Rows of all sequences and where each begins."""

    rows: np.ndarray  # (positions, ...) of all sequences, one after the other
    start: np.ndarray  # (sequences + 1,)

    @property
    def lengths(self) -> np.ndarray:
        """How many steps each sequence has, (sequences,)."""
        return np.diff(self.start)

    def __repr__(self) -> str:
        return f"Sequences({len(self.start) - 1} sequences, {len(self.rows)} steps)"

    def blocks(self, positions: int) -> Iterator[tuple[slice, Sequences]]:
        """Consecutive sequences with about this many positions together, and which they are."""
        first = 0
        while first < len(self.start) - 1:
            last = int(np.searchsorted(self.start, self.start[first] + positions, side="right")) - 1
            last = max(last, first + 1)
            begin, end = self.start[first], self.start[last]
            part = Sequences(self.rows[begin:end], self.start[first : last + 1] - begin)
            yield slice(first, last), part
            first = last

    def take(self, which: np.ndarray) -> Sequences:
        """Some of the sequences, in this order."""
        begin, lengths = self.start[which], self.lengths[which]
        start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        rows = np.repeat(begin - start[:-1], lengths) + np.arange(start[-1])
        return Sequences(self.rows[rows], start)

    def place(self, position: int) -> str:
        """Words for a flat position: which sequence, which step."""
        s = int(np.searchsorted(self.start, position, side="right")) - 1
        return f"sequence {s}, step {position - self.start[s]}"


def as_sequences(
    x: Any,
    lengths: Any,
    rows: Callable[[Any], np.ndarray],
    *,
    mask: Any = None,
    hide: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
) -> Sequences:
    """Read sequences.

    Parameters
    ----------
    x
        One table of all rows (an array, a data frame or nested lists), a list with one array, frame or list
        of rows per sequence, or `Sequences`, which are taken as they are.
    lengths
        Of the sequences in one array; None makes it one sequence.
    rows
        Turns data into the array the emission works on, and refuses what does not fit.
    mask
        (positions,), True where the step was observed; the other steps are hidden by `hide`.
    """
    if isinstance(x, Sequences):
        if lengths is not None or mask is not None:
            raise DataError("lengths, mask: these sequences are complete; leave both out")
        return x
    parts = split_list(x) if lengths is None else None
    if parts is not None:
        found = _from_list(parts, rows)
    else:
        found = _from_table(x, lengths, rows)
    if not len(found.rows):
        raise DataError("data: expected at least one step, got none")
    if mask is not None:
        seen = np.asarray(mask)
        if seen.shape != (len(found.rows),) or seen.dtype != bool or hide is None:
            raise DataError(
                f"mask: expected {len(found.rows)} booleans, True where a step was observed, "
                f"got {seen.dtype} of shape {seen.shape}"
            )
        found = Sequences(hide(found.rows, ~seen), found.start)
    return found


def split_list(x: Any) -> list[Any] | None:
    """The sequences of a list that holds one item for each; None for anything else.

    Items are arrays, data frames, lists of rows, or lists of numbers of different lengths: lists of one
    length may be the rows of a table.
    """
    if not isinstance(x, (list, tuple)) or not x:
        return None
    if all(getattr(part, "ndim", 0) >= 1 for part in x):
        return list(x)
    if not all(isinstance(part, (list, tuple)) for part in x):
        return None
    has_rows = any(isinstance(row, (list, tuple, np.ndarray)) for part in x for row in part)
    return list(x) if has_rows or len({len(part) for part in x}) > 1 else None


def step_counts(lengths: Any) -> np.ndarray:
    """Lengths of sequences to be drawn, from one number or one each."""
    found = np.atleast_1d(np.asarray(lengths))
    if found.ndim != 1 or found.dtype.kind not in "iu" or not len(found) or (found < 0).any():
        raise DataError(f"lengths: expected counts of steps, got {lengths!r:.60}")
    return found


def _from_table(x: Any, lengths: Any, rows: Callable[[Any], np.ndarray]) -> Sequences:
    """All rows in one table; lists that are no rows of such data are sequences of one length."""
    try:
        table = rows(x)
    except DataError:
        if lengths is None and isinstance(x, (list, tuple)) and x and isinstance(x[0], (list, tuple)):
            with suppress(DataError):
                return _from_list(x, rows)
        raise
    return Sequences(table, _starts(lengths, len(table)))


def _from_list(x: Any, rows: Callable[[Any], np.ndarray]) -> Sequences:
    parts = []
    for s, part in enumerate(x):
        try:
            parts.append(rows(part))
        except DataError as error:
            raise DataError(f"sequence {s}: {error}") from None
    start = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
    return Sequences(np.concatenate(parts), start)


def _starts(lengths: Any, total: int) -> np.ndarray:
    if lengths is None:
        return np.array([0, total], dtype=np.int64)
    found = np.asarray(lengths)
    if found.ndim != 1 or found.dtype.kind not in "iu" or (found < 0).any():
        raise DataError(f"lengths: expected counts of steps, one per sequence, got {lengths!r:.60}")
    if found.sum() != total:
        raise DataError(f"lengths: expected a sum of {total}, the number of rows, got {found.sum()}")
    return np.concatenate([[0], np.cumsum(found)]).astype(np.int64)
