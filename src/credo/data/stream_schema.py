"""The schema of a stream: what `read` would say of all its tables at once, from their distinct values.

`read` decides by the values that a column shows and by how often they repeat, so a short column with every
distinct value, and as many rows as matter, is read as the whole one would be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..core.errors import DataError
from ..core.variable import Variable, Variables
from .cells import Cells
from .column import MISSING
from .read import read
from .sources import Raw, named_columns

__all__ = ["common_schema"]

_MOST = 1 << 16  # different values that are kept of a column
_MOST_NUMBERS = 64  # the same for numbers: more than this are amounts by any rule


def common_schema(names: Sequence[str], tables: Iterable[Any]) -> Variables:
    """Names and domains of columns, from all tables."""
    seen = {name: _Seen(name) for name in names}
    raw = Raw({})
    for table in tables:
        raw = named_columns(table)
        for name in names:
            if name not in raw.columns:
                raise DataError(f"stream: a table has no column '{name}'; it has {list(raw.columns)[:8]}")
            seen[name].add(raw.columns[name])
    found = []
    for name, column in seen.items():
        short = read(Raw({name: column.shown()}, raw.has_names, raw.in_file))
        found.append(Variable(name, short.column(name).domain))
    return Variables.of(found)


class _Seen:
    """Distinct values of one column."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._values: dict[Any, None] = {}
        self._kinds: set[np.dtype[Any] | None] = set()  # of numbers; None for anything else
        self._count = 0  # cells that are not missing
        self._has_gaps = False
        self._are_declared = False

    def add(self, column: Any) -> None:
        """Take note of some rows."""
        if str(getattr(column, "dtype", "")) in ("Float32", "Float64"):  # of pandas
            column = column.to_numpy(dtype=np.float64, na_value=np.nan)
        if np.ndim(column) != 1:
            raise DataError(
                f"stream: column '{self._name}': expected one value per row, got shape {np.shape(column)}; "
                "give schema"
            )
        kind = getattr(column, "dtype", None)
        if isinstance(kind, np.dtype) and kind.kind in "iuf" and not np.ma.isMaskedArray(column):
            self._add_numbers(np.asarray(column))
        else:
            self._add_cells(column)
        if len(self._values) > _MOST:
            raise DataError(
                f"stream: column '{self._name}' has more than {_MOST} different values; leave it out, or "
                "give schema with its states"
            )

    def _add_cells(self, column: Any) -> None:
        try:
            cells = Cells.of(column)
        except DataError as error:
            raise DataError(f"stream: column '{self._name}', {error}; give schema") from None
        if cells.vectors:
            odd = next(iter(cells.vectors.values()))
            raise DataError(
                f"stream: column '{self._name}': expected labels or numbers, got {odd!r:.40}; give schema"
            )
        self._kinds.add(None)
        self._are_declared = self._are_declared or cells.declared
        self._values |= dict.fromkeys(cells.distinct if cells.declared else cells.used)
        self._note(cells.codes == MISSING)

    def _add_numbers(self, array: np.ndarray) -> None:
        self._kinds.add(array.dtype)
        gone = np.isnan(array)
        self._note(gone)
        if len(self._values) > _MOST_NUMBERS:
            return
        seen = array[~gone]
        parts = seen[seen != np.floor(seen)][:1]  # one shows that they are amounts
        kept = parts if len(parts) else np.unique(seen)[: 2 * _MOST_NUMBERS]
        self._values |= dict.fromkeys(kept.tolist())

    def _note(self, gone: np.ndarray) -> None:
        missing = int(gone.sum())
        self._has_gaps = self._has_gaps or missing > 0
        self._count += len(gone) - missing

    def shown(self) -> Any:
        """A short column that is read as the long one would be."""
        values = list(self._values)
        kinds = [kind for kind in self._kinds if kind is not None]
        if None not in self._kinds and kinds:
            gaps = [np.nan] if self._has_gaps else []
            return np.array([*values, *gaps], dtype=np.result_type(*kinds, *([float] if gaps else [])))
        if self._are_declared:
            return Cells(values, np.arange(len(values)), declared=True)
        twice = (values * 2)[: self._count]
        return [*twice, *([None] if self._has_gaps else [])]
