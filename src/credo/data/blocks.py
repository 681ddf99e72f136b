"""Columns and the one array that families work on, each made of the other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..core.domain import Discrete, Domain, Real, unlabelled_states
from ..core.errors import DataError
from ..core.numbers import float_array
from .column import MISSING, Column

__all__ = ["block_of", "columns_of", "rows_of"]


def rows_of(columns: Any, count: int) -> np.ndarray:
    """Columns as one array; a block that columns were cut from is given back without copying."""
    columns = list(columns)
    soft = next((c.name for c in columns if c.soft is not None), None)
    if soft is not None:
        raise DataError(
            f"data: column '{soft}' has soft evidence, which only em, vb and log_likelihood of models with "
            "tables read; give states, or None where they are not known"
        )
    if len(columns) == 1 and columns[0].is_discrete:
        return np.asarray(columns[0].values)
    if any(c.is_discrete for c in columns):
        fields = [(c.name, c.values.dtype, c.values.shape[1:]) for c in columns]
        found = np.empty(count, dtype=fields)
        for c in columns:
            found[c.name] = c.values
        return found
    block = block_of([c.values for c in columns])
    if block is not None:
        return block
    if not columns:
        return np.empty((count, 0))
    parts = [c.values if c.values.ndim == 2 else c.values[:, None] for c in columns]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def block_of(values: list[np.ndarray]) -> np.ndarray | None:
    """The rows of an array (rows, d) whose columns these are, in order and all of them; None if none is."""
    base = values[0].base if values else None
    if base is None or base.ndim != 2 or base.shape[1] != len(values) or base.strides[0] <= 0:
        return None
    first, step = _place(values[0]), base.strides[1]
    row, rest = divmod(first - _place(base), base.strides[0])
    for k, v in enumerate(values):
        is_next = v.ndim == 1 and _place(v) == first + k * step and v.strides[0] == base.strides[0]
        if v.base is not base or rest or not is_next:
            return None
    return base[row : row + len(values[0])]


def _place(array: np.ndarray) -> int:
    """Where its first number lies."""
    return int(array.__array_interface__["data"][0])


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
            domain = unlabelled_states(max(int(states.max(initial=0)) + 1, 1))
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
