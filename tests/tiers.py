"""Kernels in the tier a test asks for: interpreted, or both at once and compared.

While a `Recording` is open, a kernel called from Python runs compiled on the arguments it was given and
interpreted on copies of them; answers and changed arguments must agree. Copies keep what a kernel can
notice: which arrays overlap, memory layouts, read-only flags.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from types import CodeType
from typing import Any
from unittest import mock

import numpy as np

from credo.kernels.jit import Kernel

__all__ = ["Recording", "calling", "compiled", "copies", "differences", "interpreted"]

_CLOSE = 1e-12
_REPEATS = 3  # calls of one kernel with arguments of the same types, shapes and flags that are compared


@contextmanager
def calling(run: Callable[[Kernel, tuple[Any, ...]], Any]) -> Iterator[None]:
    """Every call of a kernel from Python is `run(kernel, arguments)`, whatever has been compiled before."""
    with (
        mock.patch.object(Kernel, "__call__", lambda kernel, *args: run(kernel, args)),
        mock.patch.object(Kernel, "over", lambda kernel, work: lambda *args: run(kernel, args)),
    ):
        yield


def _run_source(kernel: Kernel, args: tuple[Any, ...]) -> Any:
    with np.errstate(all="ignore"):
        return kernel.plain(*args)


def interpreted() -> Any:
    """A context in which all kernels are interpreted."""
    return calling(_run_source)


def compiled() -> Any:
    """A context in which all kernels are compiled."""
    return calling(lambda kernel, args: kernel.compiled(*args))


class Recording:
    """Compares the tiers of all kernels that are called while it is open."""

    def __init__(self) -> None:
        self.failures: dict[str, str] = {}  # kernel -> first difference
        self.ran: set[CodeType] = set()  # sources that were interpreted
        self._seen: Counter[Any] = Counter()
        self._turn = threading.Lock()

    def open(self) -> Any:
        """A context in which calls are compared."""
        return calling(self._both)

    def misses(self, kernels: set[Kernel]) -> list[str]:
        """The kernels whose source never ran."""
        return sorted(_name(k) for k in kernels if k.py_func.__code__ not in self.ran)

    def _both(self, kernel: Kernel, args: tuple[Any, ...]) -> Any:
        with self._turn:  # threads may write to different parts of one array
            return self._compared(kernel, args)

    def _compared(self, kernel: Kernel, args: tuple[Any, ...]) -> Any:
        key = kernel, tuple(_kind(a) for a in args)
        self._seen[key] += 1
        if self._seen[key] > _REPEATS:
            return kernel.compiled(*args)
        twin = copies(args)
        answer = kernel.compiled(*args)
        try:
            found = self._interpreted(kernel, twin)
        except Exception as error:
            self.failures.setdefault(_name(kernel), f"interpreted: {error!r}")
            return answer
        for what, one, other in (("answer", found, answer), ("arguments", twin, args)):
            for difference in differences(one, other):
                self.failures.setdefault(_name(kernel), f"{what}{difference}")
        return answer

    def _interpreted(self, kernel: Kernel, args: tuple[Any, ...]) -> Any:
        outside = sys.getprofile()
        sys.setprofile(lambda frame, event, _: self.ran.add(frame.f_code) if event == "call" else None)
        try:
            return _run_source(kernel, args)
        finally:
            sys.setprofile(outside)


def _name(kernel: Kernel) -> str:
    return f"{kernel.__module__.rpartition('.')[2]}.{kernel.__name__}"


def _kind(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_kind(v) for v in value)
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape
    return type(value), value if isinstance(value, bool | int) else None


def copies(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments that share nothing with these, and with each other what these share."""
    owners: dict[int, np.ndarray] = {}
    return tuple(_copy(a, owners) for a in args)


def _copy(value: Any, owners: dict[int, np.ndarray]) -> Any:
    if isinstance(value, tuple):
        parts = [_copy(v, owners) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, np.random.Generator):
        return deepcopy(value)
    if not isinstance(value, np.ndarray):
        return value
    owner = value
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    if not owner.flags.forc:
        owner = value = value.copy()  # borrowed memory with gaps
    if id(owner) not in owners:
        owners[id(owner)] = np.empty(max(owner.nbytes, 1), np.uint8)
        np.ndarray(owner.shape, owner.dtype, owners[id(owner)], 0, owner.strides)[...] = owner
    offset = value.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    twin = np.ndarray(value.shape, value.dtype, owners[id(owner)], offset if value.size else 0, value.strides)
    twin.flags.writeable = value.flags.writeable
    return twin


def differences(one: Any, other: Any) -> list[str]:
    """Where two answers differ, NaN being equal to NaN."""
    if isinstance(one, tuple):
        if not isinstance(other, tuple) or len(one) != len(other):
            return [f": {one!r} and {other!r}"]
        return [f"[{k}]{d}" for k in range(len(one)) for d in differences(one[k], other[k])]
    if isinstance(one, np.random.Generator):
        return differences(one.random(4), deepcopy(other).random(4))
    if one is None or other is None:
        return [] if one is other else [f": {one!r} and {other!r}"]
    a, b = np.asarray(one), np.asarray(other)
    if a.shape != b.shape or a.dtype.kind not in _LIKE[b.dtype.kind]:
        return [f": {a.dtype}{a.shape} and {b.dtype}{b.shape}"]
    if a.dtype.kind != "f":
        return [] if np.array_equal(a, b) else [f": {one!r} and {other!r}"]
    finite = np.abs(b[np.isfinite(b)])
    slack = _CLOSE * max(1.0, float(finite.max(initial=0.0)))
    return [] if np.allclose(a, b, rtol=_CLOSE, atol=slack, equal_nan=True) else [f": {one!r} and {other!r}"]


_LIKE = {"i": "iub", "u": "iu", "b": "bi", "f": "f"}  # kinds of numbers that may stand for each other
