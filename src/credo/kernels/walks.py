"""Where the records of a stream of numbers begin, when each record says how long it is.

The functions here are plain Python so that small streams are walked without loading a compiler;
`text.py` compiles the same source for large ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["block_starts", "record_starts", "tuple_starts"]


def record_starts(values: Any, at: int, count: int, starts: np.ndarray) -> int:
    """Walk `count` records of the form (length, entries...) that begin at position `at`.

    Fills `starts` with the position of each length and of the end; returns the number of
    records that are whole (`count` if all are).
    """
    n = len(values)
    for a in range(count):
        starts[a] = at
        if at >= n:
            return a
        length = values[at]
        if not (0 <= length < n - at) or length != np.floor(length):
            return a
        at += 1 + int(length)
    starts[count] = at
    return count


def block_starts(values: Any, at: int, count: int, starts: np.ndarray) -> int:
    """Walk `count` blocks (k, k labels, k sizes, e, e pairs) that begin at position `at`.

    Fills `starts` with the position of each block and of the end; returns the number of blocks
    that are whole (`count` if all are).
    """
    n = len(values)
    for a in range(count):
        starts[a] = at
        if at >= n:
            return a
        arity = values[at]
        if arity < 0 or arity != np.floor(arity) or 2 * arity + 1 >= n - at:
            return a
        at += 1 + 2 * int(arity)
        entries = values[at]
        if entries < 0 or entries != np.floor(entries) or 2 * entries >= n - at:
            return a
        at += 1 + 2 * int(entries)
    starts[count] = at
    return count


def tuple_starts(values: Any, at: int, count: int, starts: np.ndarray) -> int:
    """Walk `count` cost functions (k, |k| variables, default, t, t rows of |k| states and a cost).

    A negative t stands for a table given before and has no rows. Fills `starts` as above.
    """
    n = len(values)
    for a in range(count):
        starts[a] = at
        if at >= n:
            return a
        arity = abs(values[at])
        if arity != np.floor(arity) or arity + 2 >= n - at:
            return a
        at += 2 + int(arity)
        rows = max(values[at], 0.0)
        if rows != np.floor(rows) or rows * (arity + 1) >= n - at:
            return a
        at += 1 + int(rows) * (int(arity) + 1)
    starts[count] = at
    return count
