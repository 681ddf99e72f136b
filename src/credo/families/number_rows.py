"""Rows of numbers, as every family of such rows reads and hides them: NaN is missing."""

from __future__ import annotations

import abc
from typing import Any

import numpy as np

from ..core.errors import DataError
from ..core.numbers import float_array
from .base import Family

__all__ = ["NumberRows", "number_rows"]


class NumberRows(Family):
    """A family of rows with a fixed count of numbers, each of which may be missing."""

    @property
    @abc.abstractmethod
    def dimension(self) -> int:
        """How many coordinates a row has."""

    def rows(self, x: Any) -> np.ndarray:
        """Numbers (rows, d); NaN is missing, infinities are refused."""
        return number_rows(x, self.dimension)

    def missing(self, x: np.ndarray) -> np.ndarray:
        """Rows of NaN only."""
        return np.isnan(x).all(axis=1)

    def hide(self, x: np.ndarray, hidden: np.ndarray) -> np.ndarray:
        """A copy with NaN in the marked rows."""
        return np.where(hidden[:, None], np.nan, x)


def number_rows(x: Any, dimension: int) -> np.ndarray:
    """Numbers of shape (rows, dimension); one axis is enough if the dimension is 1."""
    found = float_array("data", x, error=DataError, missing=True)
    if found.ndim == 1 and dimension == 1:
        found = found[:, None]
    if found.ndim != 2 or found.shape[1] != dimension:
        raise DataError(f"data: expected shape (rows, {dimension}), got {found.shape}")
    if np.isinf(found).any():
        row = int(np.flatnonzero(np.isinf(found).any(axis=1))[0])
        raise DataError(f"data: row {row} has an infinite number; expected finite ones, or NaN for missing")
    return found
