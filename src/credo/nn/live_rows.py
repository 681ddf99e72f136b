"""Batches without the problems that are done: rows are left out, and put back.

Sizes are powers of two, so that few programs are compiled; what fills them up are rows that are done.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

__all__ = ["live_rows", "put_rows", "take_rows"]

_WORTH = 2**18  # numbers of rows that are done beyond which a smaller program is worth compiling


def live_rows(is_live: np.ndarray, numbers: int) -> np.ndarray | None:
    """The rows to go on with once at least half of them are done; None for all.

    Parameters
    ----------
    is_live
        (rows,) which are not done.
    numbers
        How many each of them has.
    """
    count, live = len(is_live), int(is_live.sum())
    size = 1 << (max(1, live) - 1).bit_length()
    if 2 * live > count or (count - size) * numbers < _WORTH:
        return None
    return np.sort(np.argsort(~is_live, kind="stable")[:size])


def take_rows(tree: Any, rows: np.ndarray) -> Any:
    """These rows of all arrays."""
    return jax.tree.map(lambda x: np.asarray(x)[rows], tree)


def put_rows(whole: Any, rows: np.ndarray, part: Any) -> Any:
    """The arrays of `whole` with these rows replaced."""

    def put(old: Any, new: Any) -> np.ndarray:
        found = np.array(old)
        found[rows] = new
        return found

    return jax.tree.map(put, whole, part)
