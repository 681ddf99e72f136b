"""Data of templates: sequences in the form that their emission works on.

Tables with names (frames, columns, files, datasets) are read by `data.read` with what the emission says about
its columns; anything else is taken as rows, a list of them as sequences.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core import check
from ..core.errors import DataError
from ..data.dataset import Dataset
from ..data.read import read
from ..data.sources import read_file
from ..models.sequences import Sequences

__all__ = ["read_sequences", "split_sequences"]


def read_sequences(
    model: Any, data: Any, *, groups: str | None = None, columns: Any = None, lengths: Any = None
) -> Sequences:
    """The sequences of a template.

    Parameters
    ----------
    model
        Whose emission says what rows are.
    data
        A table with names, an array of rows, or a list with one of these per sequence.
    groups, columns
        Of a table with names: the column that tells sequences apart, and those that are emitted.
    lengths
        Of sequences in one table.
    """
    if isinstance(data, Sequences):
        return data
    if isinstance(data, (str, os.PathLike)):
        data = read_file(data)
    names = _names(data)
    if names is None:
        if groups is not None or columns is not None:
            raise DataError(
                "groups, columns: expected a table whose columns have names, such as a data frame, got "
                f"{type(data).__name__}; give lengths, or a list with one array per sequence"
            )
        return model.sequences(data, lengths)  # type: ignore[no-any-return]
    wanted = [n for n in names if n != groups] if columns is None else list(columns)
    if isinstance(data, Dataset):
        found = data.select(wanted)
        sizes = lengths if found.has_rows_as_units else found.lengths
        return model.sequences(found.rows(), sizes)  # type: ignore[no-any-return]
    found = read(data, schema=model.emission.schema(wanted), columns=wanted, groups=groups, lengths=lengths)
    sizes = None if groups is None and lengths is None else found.lengths
    return model.sequences(found.rows(), sizes)  # type: ignore[no-any-return]


def _names(data: Any) -> list[str] | None:
    """Names of the columns of a table; None where there are none."""
    if isinstance(data, Dataset):
        return list(data.names)
    if isinstance(data, Mapping):
        return [str(name) for name in data]
    found = getattr(data, "columns", None)
    if found is None:
        return None
    names = list(found)
    return names if all(isinstance(name, str) for name in names) else None


def split_sequences(
    data: Sequences, fraction: float, rng: np.random.Generator
) -> tuple[Sequences, Sequences]:
    """Two parts at random, the second with about this fraction of the sequences; both have one at least."""
    check.in_range("validation", fraction, 0, 1)
    count = len(data.start) - 1
    if count < 2:
        raise DataError("validation: expected two sequences at least to hold one back, got 1")
    order = rng.permutation(count)
    size = min(max(round(fraction * count), 1), count - 1)
    return data.take(np.sort(order[size:])), data.take(np.sort(order[:size]))
