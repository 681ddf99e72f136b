"""Sequences in the form that a family of rows works on: the one reader of all models of sequences.

Tables with names (frames, columns, files, datasets) are read by `data.read` with what the family says about
its columns; anything else is taken as rows, a list of them as sequences. What a reader made may be passed to
it again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from ..core.domain import Discrete, Domain
from ..core.errors import DataError
from ..core.samples import Samples
from .dataset import Dataset, begin_of, unit_weights
from .read import read
from .sources import named_columns, split_list

__all__ = ["RowReader", "emitted_columns", "read_sequences", "step_counts"]


class RowReader(Protocol):
    """What a family says about rows of data."""

    def rows(self, x: Any) -> np.ndarray:
        """The array it works on, or an error that says what is wrong."""
        ...

    def schema(self, names: Sequence[str]) -> dict[str, Domain]:
        """What named columns hold."""
        ...

    def hide(self, x: np.ndarray, hidden: np.ndarray) -> np.ndarray:
        """A copy in which the marked rows observe nothing."""
        ...


def read_sequences(
    source: Any,
    family: RowReader,
    *,
    lengths: Any = None,
    mask: Any = None,
    groups: str | None = None,
    columns: Any = None,
    weights: Any = None,
) -> Dataset:
    """Read sequences; `rows()` of what comes back is what the family works on.

    Parameters
    ----------
    source
        A table with names, one array of all rows, nested lists, a list with one of these per sequence, or a
        `Dataset`, whose sequences are taken as they are. Rows that nothing cuts are one sequence.
    family
        Turns data into the array it works on, and refuses what does not fit.
    lengths
        Of the sequences in one table.
    mask
        (rows,), True where a row was observed; the family hides the others.
    groups, columns
        Of a table with names: the column that tells sequences apart, and those that are emitted.
    weights
        How often each sequence counts, or the name of the column that says so.

    Examples
    --------
    >>> from credo.data.sequences import read_sequences
    >>> from credo.families import Categorical
    >>> data = read_sequences([[0, 1, 1], [1, 0]], Categorical([[0.5, 0.5]]))
    >>> data.rows(), data.begin
    (array([0, 1, 1, 1, 0]), array([0, 3, 5]))
    """
    if isinstance(source, (Samples, str, os.PathLike)):
        source = named_columns(source)
    columns = _own_columns(family, columns)
    wanted = emitted_columns(source, groups, columns, weights)
    if isinstance(source, Dataset):
        found = _again(source, family, lengths, groups, columns, weights)
    elif wanted is not None:
        found = _of_table(source, wanted, family, lengths, groups, weights)
    elif groups is not None or (columns is not None and not _own_columns(family, None)):
        raise DataError(
            "groups, columns: expected a table whose columns have names, such as a data frame, got "
            f"{type(source).__name__}; give lengths, or a list with one array per sequence"
        )
    else:
        rows, begin = _plain(source, lengths, family)
        found = _of_rows(rows, family, begin, _counted(weights, begin))
    return found if mask is None else _masked(found, family, mask)


def _own_columns(family: RowReader, columns: Any) -> Any:
    """The columns of a family that names them, in its order; otherwise those that were asked for."""
    own = list(getattr(family, "names", ()))
    if own and columns is not None and set(columns) != set(own):
        raise DataError(
            f"columns: expected those of the model, {own}, got {list(columns)}; leave columns out"
        )
    return own or columns


def emitted_columns(
    source: Any, groups: str | None = None, columns: Any = None, weights: Any = None
) -> list[str] | None:
    """Names of the columns of rows: all but those of groups and weights, if none are chosen.

    None where columns have no names.
    """
    names = _names(source)
    if names is None or columns:
        return None if names is None else list(columns)
    told = weights if isinstance(weights, str) else None
    return [n for n in names if n not in (groups, told)]


def _names(source: Any) -> list[str] | None:
    """Names of the columns of a table, or of the first of a list of tables; None where there are none."""
    if isinstance(source, Mapping):
        return [str(name) for name in source]
    if isinstance(source, (list, tuple)) and source and hasattr(source[0], "columns"):
        return _names(source[0])
    found = getattr(source, "columns", None)
    if found is None or isinstance(source, Dataset):
        return None
    names = list(found)
    return names if all(isinstance(name, str) for name in names) else None


def _of_table(
    source: Any, wanted: list[str], family: RowReader, lengths: Any, groups: Any, weights: Any
) -> Dataset:
    """Named columns, read with what the family says about them."""
    told = weights if isinstance(weights, str) else None
    table = read(
        source, schema=family.schema(wanted), columns=wanted, groups=groups, lengths=lengths, weights=told
    )
    begin = table.begin if table.is_sequences else _whole(table.n_rows)
    if told is not None and not table.is_sequences:
        raise DataError(
            f"weights: '{told}' has one per row, expected one per sequence; give groups or lengths"
        )
    counted = _counted(weights, begin) if told is None else table.weights
    return replace(_made(table, family.rows(table.rows()), begin), weights=counted)


def _again(
    data: Dataset, family: RowReader, lengths: Any, groups: Any, columns: Any, weights: Any
) -> Dataset:
    """A dataset; rows that are units of their own become the steps of one sequence, or of several."""
    if groups is not None or (data.is_sequences and (lengths is not None or weights is not None)):
        raise DataError(
            "groups, lengths, weights: these sequences are complete; leave them out, or read the source again"
        )
    found = data if columns is None else data.select(columns)
    begin, counted = found.begin, found.weights
    if not found.is_sequences:
        if (counted != 1).any():
            raise DataError(
                "weights: these data have one per row, expected one per sequence; read the source with "
                "groups or lengths"
            )
        begin = _whole(found.n_rows) if lengths is None else begin_of(found.n_rows, lengths=lengths)
        counted = _counted(weights, begin)
    rows = found.rows()
    checked = family.rows(rows)
    if checked is rows and found.is_sequences:
        return replace(found, block=rows)
    return replace(_made(found, checked, begin), weights=counted)


def _made(table: Dataset, rows: np.ndarray, begin: np.ndarray) -> Dataset:
    """The columns of a table with rows as the family has them, and sequences."""
    if not table.n_rows:
        raise DataError("data: expected at least one step, got none")
    ones = np.ones(len(begin) - 1)
    return replace(table, begin=begin, weights=ones, is_sequences=True, block=rows)


def _plain(source: Any, lengths: Any, family: RowReader) -> tuple[np.ndarray, np.ndarray]:
    """Rows without names and where sequences begin.

    Lists that are no rows of such data are sequences of one length.
    """
    parts = split_list(source) if lengths is None else None
    if parts is not None:
        return _joined(parts, family)
    try:
        rows = family.rows(source)
    except DataError:
        nested = isinstance(source, (list, tuple)) and source and isinstance(source[0], (list, tuple))
        if nested and lengths is None:
            with suppress(DataError):
                return _joined(source, family)
        raise
    return rows, _whole(len(rows)) if lengths is None else begin_of(len(rows), lengths=lengths)


def _joined(parts: Any, family: RowReader) -> tuple[np.ndarray, np.ndarray]:
    found = []
    for s, part in enumerate(parts):
        try:
            found.append(family.rows(part))
        except DataError as error:
            raise DataError(f"sequence {s}: {error}") from None
    begin = np.concatenate([[0], np.cumsum([len(part) for part in found])]).astype(np.int64)
    return np.concatenate(found), begin


def _of_rows(rows: np.ndarray, family: RowReader, begin: np.ndarray, weights: np.ndarray) -> Dataset:
    if not len(rows):
        raise DataError("data: expected at least one step, got none")
    fields = rows.dtype.names
    names = list(fields or (f"x{k}" for k in range(rows.shape[1] if rows.ndim == 2 else 1)))
    said = family.schema(names)
    kinds = [_kept(said.get(name), rows.dtype[name] if fields else rows.dtype) for name in names]
    return Dataset.from_rows(rows, names=names, domains=kinds, begin=begin, weights=weights)


def _kept(domain: Domain | None, kind: np.dtype[Any]) -> Domain | None:
    """The domain that a family says, unless it holds its values in another way, such as states as floats."""
    plain = kind.subdtype is None and (kind.kind in "iu" or not isinstance(domain, Discrete))
    return domain if plain else None


def _whole(rows: int) -> np.ndarray:
    """Where one sequence of all rows begins and ends."""
    return np.array([0, rows], dtype=np.int64)


def _counted(weights: Any, begin: np.ndarray) -> np.ndarray:
    return unit_weights(weights, len(begin) - 1, "sequence")


def _masked(data: Dataset, family: RowReader, mask: Any) -> Dataset:
    seen = np.asarray(mask)
    if seen.shape != (data.n_rows,) or seen.dtype != bool:
        raise DataError(
            f"mask: expected {data.n_rows} booleans, True where a step was observed, "
            f"got {seen.dtype} of shape {seen.shape}"
        )
    return _of_rows(family.hide(data.rows(), ~seen), family, data.begin, data.weights)


def step_counts(lengths: Any) -> np.ndarray:
    """Lengths of sequences to be drawn, from one number or one each."""
    found = np.atleast_1d(np.asarray(lengths))
    if found.ndim != 1 or found.dtype.kind not in "iu" or not len(found) or (found < 0).any():
        raise DataError(f"lengths: expected counts of steps, got {lengths!r:.60}")
    return found
