"""Large arrays that are used again, so that repeated work pays for its memory once.

The system hands out memory in pages that are zeroed at their first touch, and takes back what is freed at
the end of the heap: an iteration that makes some megabytes of numbers and drops them can spend a third of its
time on that. Inside of `reusing()` memory from `empty` goes back to a store when the last array that looks at
it is gone, and the next call of the same or a smaller size gets it. What somebody still holds is never given
twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod
from typing import Any

import numpy as np

__all__ = ["empty", "reusing"]

_LEAST = 1 << 13  # numbers from which memory is kept; the allocator keeps less by itself


class _Lease:
    """Memory on loan: arrays made from this hold it, and it goes back when they are gone."""

    __slots__ = ("__array_interface__", "_memory", "_store")

    def __init__(self, memory: np.ndarray, store: list[np.ndarray], shape: tuple[int, ...]) -> None:
        self._memory, self._store = memory, store
        own: dict[str, Any] = memory.__array_interface__
        self.__array_interface__ = {**own, "shape": shape, "strides": None}

    def __del__(self) -> None:
        self._store.append(self._memory)


_store: ContextVar[list[np.ndarray] | None] = ContextVar("store of large arrays", default=None)


@contextmanager
def reusing() -> Iterator[None]:
    """Memory of `empty` is kept for the next call until this ends; inside of another one it is that one's."""
    if _store.get() is not None:
        yield
        return
    token = _store.set([])
    try:
        yield
    finally:
        _store.reset(token)


def empty(shape: tuple[int, ...]) -> np.ndarray:
    """An array of floats with any contents, as `np.empty`.

    Examples
    --------
    >>> from credo.kernels.buffers import empty, reusing
    >>> with reusing():
    ...     first = empty((100, 100))
    ...     place = first.ctypes.data
    ...     del first
    ...     empty((90, 100)).ctypes.data == place
    True
    """
    store, size = _store.get(), prod(shape)
    if store is None or size < _LEAST:
        return np.empty(shape)
    fits = [k for k, memory in enumerate(store) if memory.size >= size]
    if not fits:
        store.clear()  # so that never more is held than was in use at one time
        return np.asarray(_Lease(np.empty(size), store, shape))
    smallest = min(fits, key=lambda k: store[k].size)
    return np.asarray(_Lease(store.pop(smallest), store, shape))
