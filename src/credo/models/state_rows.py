"""Rows of joint states as models read them."""

from __future__ import annotations

import numpy as np

from ..core.errors import QueryError
from ..core.result import Samples
from ..core.variable import Variables

__all__ = ["state_rows"]


def state_rows(what: str, variables: Variables, states: Samples | np.ndarray) -> np.ndarray:
    """Check state indices of shape (rows, n); `what` begins the message if they are wrong."""
    rows = np.asarray(states.indices if isinstance(states, Samples) else states)
    n = len(variables)
    if np.ma.is_masked(states):
        raise QueryError(f"{what}: expected states of all variables, got a masked array with masked entries")
    if rows.ndim != 2 or rows.shape[1] != n or rows.dtype.kind not in "iu":
        raise QueryError(f"{what}: expected integers of shape (rows, {n}), got {rows.dtype} {rows.shape}")
    bad = np.argwhere((rows < 0) | (rows >= variables.sizes))
    if len(bad):
        row, i = bad[0]
        raise QueryError(
            f"{what}: row {row} has state {rows[row, i]} of '{variables.names[i]}', "
            f"expected 0 to {variables.sizes[i] - 1}"
        )
    return rows
