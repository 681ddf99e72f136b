"""One column of a table: a name, a domain, and a value or nothing in every row.

States are kept as their positions (int64, -1 where nothing was observed), numbers as float64 (NaN where
nothing was observed), vectors as (rows, d). Counts are whole numbers in a column of numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.domain import Discrete, Domain
from ..core.errors import DataError

__all__ = ["MISSING", "Column"]

MISSING = -1  # the position of a state that was not observed


@dataclass(frozen=True, eq=False)
class Column:
    """Typed values of one name; `soft` weighs the states of each cell where evidence is uncertain."""

    name: str  # of the variable
    domain: Domain  # what values mean
    values: np.ndarray  # (rows,) state positions, or (rows,) or (rows, d) numbers
    soft: np.ndarray | None = None  # (rows, states) non-negative weights, all 1 where nothing is known

    def __post_init__(self) -> None:
        kind, shape = self.values.dtype, self.values.shape
        if isinstance(self.domain, Discrete):
            if kind != np.int64 or len(shape) != 1:
                raise DataError(f"column '{self.name}': expected int64 positions (rows,), got {kind} {shape}")
        elif kind != np.float64 or shape[1:] != self.domain.shape:
            raise DataError(
                f"column '{self.name}': expected float64 of shape (rows, *{self.domain.shape}), "
                f"got {kind} {shape}"
            )
        if self.soft is not None and self.soft.shape != (len(self.values), self.domain.size):
            raise DataError(
                f"column '{self.name}': expected soft weights of shape "
                f"{(len(self.values), self.domain.size)}, got {self.soft.shape}"
            )

    @property
    def is_discrete(self) -> bool:
        """Whether the values are states."""
        return isinstance(self.domain, Discrete)

    @property
    def missing(self) -> np.ndarray:
        """Which cells observe nothing, (rows,); a cell with soft weights observes something."""
        if self.is_discrete:
            gone = self.values == MISSING
            return gone if self.soft is None else gone & (self.soft == 1).all(axis=1)
        found = np.isnan(self.values)
        return found if found.ndim == 1 else found.all(axis=1)

    @property
    def is_complete(self) -> bool:
        """Whether all cells are known, of vectors all coordinates."""
        if self.is_discrete:
            return self.soft is None and not (self.values == MISSING).any()
        return not np.isnan(self.values).any()

    def evidence(self, row: int) -> Any:
        """What a cell that is not missing says: a position, a number, a vector, or likelihoods."""
        value = self.values[row]
        if self.soft is not None and (self.soft[row] != 1).any():
            known = self.soft[row].copy()
            if value != MISSING:
                known[np.arange(len(known)) != value] = 0.0
            return known
        return value.item() if np.ndim(value) == 0 else value

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: Any) -> Column:
        """The same column with some of the rows (positions, a mask or a slice)."""
        soft = None if self.soft is None else self.soft[rows]
        return Column(self.name, self.domain, self.values[rows], soft)

    def below(self, others: Sequence[Column]) -> Column:
        """The same column with the rows of others after these."""
        parts = (self, *others)
        soft = None
        if any(part.soft is not None for part in parts):
            flat = [np.ones((len(p), self.domain.size)) if p.soft is None else p.soft for p in parts]
            soft = np.concatenate(flat)
        return Column(self.name, self.domain, np.concatenate([part.values for part in parts]), soft)

    def labels(self) -> np.ndarray:
        """Labels of the states as objects, None where missing; numbers as they are."""
        if not isinstance(self.domain, Discrete):
            return self.values
        words = np.array([*self.domain.labels, None], dtype=object)
        return words[self.values]
