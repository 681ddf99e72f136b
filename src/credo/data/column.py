"""One column of a table: a name, a domain, and a value or nothing in every row.

States are kept as their positions (int64, -1 where nothing was observed), numbers as float64 (NaN where
nothing was observed), vectors as (rows, d). Counts are whole numbers in a column of numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.domain import Discrete, Domain, Real, unlabelled
from ..core.errors import DataError
from ..core.numbers import float_array

__all__ = ["MISSING", "Column", "columns_of"]

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

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: Any) -> Column:
        """The same column with some of the rows (positions, a mask or a slice)."""
        soft = None if self.soft is None else self.soft[rows]
        return Column(self.name, self.domain, self.values[rows], soft)

    def labels(self) -> np.ndarray:
        """Labels of the states as objects, None where missing; numbers as they are."""
        if not isinstance(self.domain, Discrete):
            return self.values
        words = np.array([*self.domain.labels, None], dtype=object)
        return words[self.values]


def columns_of(
    rows: np.ndarray, names: Iterable[str] | None, domains: Iterable[Domain | None] | None
) -> list[Column]:
    """The columns of one array: numbers (rows, d) or (rows,), positions of states, or named fields.

    Without a name a column is x0, x1, ...; without a domain its values say what they are.
    """
    parts = _named(rows, names)
    kinds: list[Domain | None] = [None] * len(parts) if domains is None else list(domains)
    return [_made(name, values, kind) for (name, values), kind in zip(parts, kinds, strict=True)]


def _named(rows: np.ndarray, names: Iterable[str] | None) -> list[tuple[str, np.ndarray]]:
    """Named arrays of one array."""
    if rows.dtype.names is not None:
        return [(name, rows[name]) for name in rows.dtype.names]
    block = rows if rows.ndim == 2 else rows[:, None] if rows.ndim == 1 else None
    if block is None:
        raise DataError(f"data: expected an array (rows,) or (rows, d), got shape {rows.shape}")
    if block.dtype.kind == "f":
        block = block.astype(np.float64, copy=False)
    called = [f"x{k}" for k in range(block.shape[1])] if names is None else list(map(str, names))
    if len(called) != block.shape[1]:
        raise DataError(f"names: expected {block.shape[1]}, one per column, got {len(called)}")
    return [(name, block[:, k]) for k, name in enumerate(called)]


def _made(name: str, values: np.ndarray, domain: Domain | None) -> Column:
    """A column of an array of states or numbers; without a domain the values say what they are."""
    if values.dtype.kind in "iu" and not (domain is not None and not isinstance(domain, Discrete)):
        states = values.astype(np.int64, copy=False)
        lowest = int(states.min(initial=MISSING))
        if domain is None:
            domain = unlabelled(max(int(states.max(initial=0)) + 1, 1))
        if lowest < MISSING or int(states.max(initial=0)) >= domain.size:
            raise DataError(
                f"data: column '{name}': expected positions from -1 (missing) to {domain.size - 1}, "
                f"got {lowest} to {int(states.max(initial=0))}"
            )
        return Column(name, domain, states)
    numbers = float_array(f"column '{name}'", values, error=DataError)
    if np.isinf(numbers).any():
        raise DataError(f"data: column '{name}': expected finite numbers or NaN, got infinity")
    return Column(name, domain or Real(numbers.shape[1] if numbers.ndim == 2 else 1), numbers)
