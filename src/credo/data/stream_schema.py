"""The schema of a stream: what `read` would say of all its tables at once, from their distinct values.

`read` decides by the values that a column shows and by whether they repeat, so a small table with every
distinct value of a column, twice if any comes twice, is read as the whole column would be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..core.errors import DataError
from ..core.numbers import is_missing
from ..core.variable import Variable, Variables
from .read import named_columns, read
from .states import TextColumns

__all__ = ["common_schema"]

_MOST = 1 << 16  # different values that are kept of a column
_MOST_NUMBERS = 64  # the same for numbers: more than this are amounts by any rule


def common_schema(names: Sequence[str], tables: Iterable[Any]) -> Variables:
    """Names and domains of columns, from all tables."""
    seen = {name: _Seen(name) for name in names}
    in_file = False
    for table in tables:
        in_file = in_file or isinstance(table, TextColumns)
        columns = named_columns(table)
        for name in names:
            if name not in columns:
                raise DataError(f"stream: a table has no column '{name}'; it has {list(columns)[:8]}")
            seen[name].add(columns[name])
    found = []
    for name, column in seen.items():
        shown = {name: column.shown()}
        domain = read(TextColumns(shown) if in_file else shown).column(name).domain
        found.append(Variable(name, domain))
    return Variables.of(found)


class _Seen:
    """Distinct values of one column."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._values: dict[Any, None] = {}
        self._kinds: set[np.dtype[Any]] = set()
        self._count = 0  # cells that are not missing
        self._has_gaps = False
        self._is_category = False

    def add(self, column: Any) -> None:
        """Take note of some rows."""
        categories = getattr(getattr(column, "dtype", None), "categories", None)
        if categories is not None:
            self._is_category = True
            self._values |= dict.fromkeys(categories.tolist())
            return
        array = np.asarray(column)
        if array.ndim != 1:
            raise DataError(
                f"stream: column '{self._name}': expected one value per row, got shape {array.shape}; "
                "give schema"
            )
        self._kinds.add(array.dtype)
        if array.dtype.kind in "iuf":
            self._add_numbers(array)
            return
        try:
            fresh = dict.fromkeys(array.tolist())
        except TypeError:
            raise DataError(
                f"stream: column '{self._name}': expected labels or numbers, got {array[0]!r:.40}; "
                "give schema"
            ) from None
        self._count += len(array)
        for value in fresh:
            if is_missing(value):
                self._has_gaps = True
            else:
                self._values[value] = None
        if len(self._values) > _MOST:
            raise DataError(
                f"stream: column '{self._name}' has more than {_MOST} different values; leave it out, or "
                "give schema with its states"
            )

    def _add_numbers(self, array: np.ndarray) -> None:
        gone = np.isnan(array)
        self._has_gaps |= bool(gone.any())
        seen = array[~gone]
        self._count += len(seen)
        if len(self._values) > _MOST_NUMBERS:
            return
        parts = seen[seen != np.floor(seen)][:1]  # one shows that they are amounts
        self._values |= dict.fromkeys(
            (parts if len(parts) else np.unique(seen)[: 2 * _MOST_NUMBERS]).tolist()
        )

    def shown(self) -> Any:
        """A short column that is read as the long one would be."""
        values = list(self._values)
        if self._is_category:
            import pandas as pd

            return pd.Categorical(values, categories=values)
        values = values * (1 + (self._count > len(values)))
        if all(kind.kind in "iuf" for kind in self._kinds):
            gaps = [np.nan] if self._has_gaps else []
            kind = np.result_type(*self._kinds, *([np.float64] if gaps else []))
            return np.array([*values, *gaps], dtype=kind)
        return [*values, *([None] if self._has_gaps else [])]
