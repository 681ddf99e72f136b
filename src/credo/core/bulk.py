"""Whole arrays of tables of one shape, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import ModelError
from .factor import check_log_table, to_log
from .numbers import float_array
from .variable import Variables

__all__ = ["TableArrays", "refuse_without_states"]


def refuse_without_states(variables: Variables, scope: np.ndarray) -> None:
    """Raise an error if one of these variables is continuous."""
    without = scope[variables.sizes[scope] == 0]
    if len(without):
        name = variables.names[int(without[0])]
        raise ModelError(f"variable '{name}' is continuous: a table needs states; use a DensityFactor")


@dataclass(frozen=True)
class TableArrays:
    """Checked arrays of one bulk group."""

    scopes: np.ndarray  # (count, arity)
    tables: np.ndarray  # logs, (count, d1, ..., dk), or (d1, ..., dk) if all share one
    table_start: np.ndarray  # (count,) where each begins in the flat array

    @classmethod
    def of(cls, variables: Variables, scopes: Any, tables: Any, *, log: bool) -> TableArrays:
        """Check scopes (count, arity) and tables (count, d1, ..., dk), or one table that all share."""
        scopes = np.asarray(scopes, dtype=np.int64)
        if scopes.ndim != 2:
            raise ModelError(f"scopes: expected an array of shape (count, arity), got {scopes.shape}")
        count, arity = scopes.shape
        outside = scopes[(scopes < 0) | (scopes >= len(variables))]
        if len(outside):
            raise ModelError(f"scopes: expected positions in [0, {len(variables)}), got {outside[0]}")
        refuse_without_states(variables, scopes.ravel())
        if log:
            tables = float_array("tables", tables)
            check_log_table(tables, "tables")
        else:
            tables = to_log(tables, "tables")
        shared = tables.ndim == arity
        sizes = variables.sizes[scopes]
        shape = tables.shape if shared else tables.shape[1:]
        if len(shape) != arity or (not shared and len(tables) != count):
            raise ModelError(
                f"tables: expected shape (d1, ..., d{arity}) or ({count}, d1, ..., d{arity}), "
                f"got {tables.shape}"
            )
        if count and not (sizes == np.array(shape, dtype=np.int64)).all():
            a = int(np.flatnonzero((sizes != shape).any(axis=1))[0])
            raise ModelError(
                f"factor {a} over {[variables.names[i] for i in scopes[a]]}: "
                f"expected a table of shape {tuple(map(int, sizes[a]))}, got {shape}"
            )
        step = 0 if shared else int(np.prod(shape, dtype=np.int64))
        return cls(scopes, tables, np.arange(count, dtype=np.int64) * step)
