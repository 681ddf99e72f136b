"""The distinct values of a column, and which of them each row has.

What a value means is decided once per distinct value; the million rows that have it follow as positions.
Strings and objects are told apart by hashing, whole numbers by counting, all in compiled code.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.errors import DataError
from ..core.numbers import is_missing
from .column import MISSING

__all__ = ["Cells", "is_missing_word"]

_COUNTED = 1 << 16  # range of whole numbers that are told apart by counting instead of sorting
_MISSING_WORDS = frozenset({"", "na", "nan", "?", "null", "none"})
_BOOLS = frozenset({bool, np.bool_})
_VECTORS = (list, tuple, np.ndarray)


def is_missing_word(text: Any) -> bool:
    """Whether a cell of a text file says that nothing was observed."""
    return isinstance(text, str) and text.strip().lower() in _MISSING_WORDS


@dataclass(frozen=True)
class Cells:
    """Values of one column: the distinct ones, and a position among them for each row.

    Examples
    --------
    >>> from credo.data.cells import Cells
    >>> Cells.of(["yes", None, "no", "yes"])
    Cells(distinct=['yes', None, 'no'], codes=array([ 0, -1,  2,  0]), declared=False, vectors=None)
    """

    distinct: list[Any]  # Python values; some may be of no row
    codes: np.ndarray  # (rows,) positions among them, -1 where nothing was observed
    declared: bool = False  # whether they are categories in their order, labels even where they are numbers
    vectors: dict[int, Any] | None = None  # row -> what stands there instead of a value: soft evidence

    @classmethod
    def of(cls, values: Any) -> Cells:
        """The cells of an array, a list or a series."""
        if isinstance(values, Cells):
            return values
        dtype: Any = getattr(values, "dtype", None)
        if hasattr(dtype, "categories"):
            codes = np.asarray(getattr(values, "cat", values).codes, dtype=np.int64)
            return cls(list(dtype.categories), codes, declared=True)
        if isinstance(values, np.ma.MaskedArray):
            found = cls.of(values.data)
            return replace(found, codes=np.where(np.ma.getmaskarray(values), MISSING, found.codes))
        if isinstance(values, (list, tuple)):
            return cls._hashed(list(values))
        if getattr(dtype, "kind", "") == "O" and hasattr(values, "factorize") and str(dtype) != "object":
            codes, uniques = values.factorize()  # strings of pandas
            return cls(list(uniques), np.asarray(codes, dtype=np.int64))._with_gaps()
        array = np.asarray(values)
        if array.dtype.kind in "biu":
            return cls(*_of_integers(array))
        return cls(*_of_floats(array)) if array.dtype.kind == "f" else cls._hashed(array.tolist())

    @classmethod
    def joined(cls, parts: Sequence[Cells]) -> Cells:
        """Columns of declared categories below each other, with the categories of all."""
        labels = list(dict.fromkeys(label for part in parts for label in part.distinct))
        place = {label: k for k, label in enumerate(labels)}
        codes = [np.array([*(place[v] for v in p.distinct), MISSING])[p.codes] for p in parts]
        return cls(labels, np.concatenate(codes), declared=True)

    @classmethod
    def _hashed(cls, values: list[Any]) -> Cells:
        kinds = set(map(type, values))
        vectors = None
        if any(issubclass(kind, _VECTORS) for kind in kinds):
            vectors = {r: v for r, v in enumerate(values) if isinstance(v, _VECTORS)}
            values = [None if isinstance(v, _VECTORS) else v for v in values]
        keys: list[Any] = values
        if kinds & _BOOLS and not all(kind in _BOOLS or issubclass(kind, str) for kind in kinds):
            keys = [(type(v) in _BOOLS, v) for v in values]  # True is 1 to a dictionary
        try:
            place = {key: k for k, key in enumerate(dict.fromkeys(keys))}
        except TypeError:
            r, odd = next((r, v) for r, v in enumerate(values) if type(v).__hash__ is None)
            raise DataError(f"row {r}: expected one value per cell, got {odd!r:.80}") from None
        codes = np.fromiter(map(place.__getitem__, keys), np.int64, len(keys))
        distinct = list(place) if keys is values else [key[1] for key in place]
        return cls(distinct, codes, vectors=vectors)._with_gaps()

    def _with_gaps(self) -> Cells:
        """The same with -1 for values that mean that nothing was observed."""
        return self.without(v for v in self.distinct if is_missing(v))

    def without(self, gone: Iterable[Any]) -> Cells:
        """The same where these of the distinct values (by identity) count as missing."""
        out = {id(v) for v in gone}
        if not out:
            return self
        lookup = [MISSING if id(v) in out else k for k, v in enumerate(self.distinct)]
        return replace(self, codes=np.array([*lookup, MISSING])[self.codes])

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def used(self) -> list[Any]:
        """The distinct values that some row has."""
        seen = np.bincount(self.codes + 1, minlength=len(self.distinct) + 1)[1:]
        return [v for v, count in zip(self.distinct, seen, strict=True) if count]

    def row(self, value: Any) -> int:
        """The first row that has this one of the distinct values."""
        k = next(k for k, v in enumerate(self.distinct) if v is value)
        return int(np.argmax(self.codes == k))

    def mapped(self, positions: Sequence[int]) -> np.ndarray:
        """A number for each row, given one for each distinct value; -1 stays where nothing was observed."""
        return np.array([*positions, MISSING], dtype=np.int64)[self.codes]


def _of_integers(array: np.ndarray) -> tuple[list[Any], np.ndarray]:
    """Whole numbers, or bools."""
    if array.dtype.kind == "b":
        return [False, True], array.astype(np.int64)
    if not len(array):
        return [], array.astype(np.int64)
    low, high = int(array.min()), int(array.max())
    if high - low < _COUNTED:
        # Unsigned numbers may be beyond the signed ones, and differences of short ones beyond themselves.
        shifted = (array - array.min() if array.dtype.kind == "u" else array.astype(np.int64) - low).astype(
            int
        )
        there = np.flatnonzero(np.bincount(shifted, minlength=high - low + 1))
        place = np.zeros(high - low + 1, dtype=np.int64)
        place[there] = np.arange(len(there))
        return [low + k for k in there.tolist()], place[shifted]
    distinct, codes = np.unique(array, return_inverse=True)
    return distinct.tolist(), codes.ravel()


def _of_floats(array: np.ndarray) -> tuple[list[Any], np.ndarray]:
    """Numbers, NaN where nothing was observed; whole ones as integers."""
    gone = np.isnan(array)
    seen = array[~gone]
    codes = np.full(array.shape, MISSING, dtype=np.int64)
    if (np.abs(seen) < 2.0**53).all() and (seen == np.floor(seen)).all():
        distinct, codes[~gone] = _of_integers(seen.astype(np.int64))
    else:
        numbers, which = np.unique(seen, return_inverse=True)
        distinct, codes[~gone] = numbers.tolist(), which.ravel()
    return distinct, codes
