"""A clock that tells working from compiling."""

from __future__ import annotations

import time
from typing import Any

from ..kernels.jit import compile_seconds

__all__ = ["Stopwatch", "told_seconds"]


class Stopwatch:
    """Started when made.

    >>> from credo.core.stopwatch import Stopwatch
    >>> watch = Stopwatch()
    >>> watch.seconds < 1, watch.compile_seconds
    (True, 0.0)
    """

    def __init__(self) -> None:
        self._start, self._compiled = time.perf_counter(), compile_seconds()

    @property
    def compile_seconds(self) -> float:
        """Wall time spent on compiling, or on loading what was compiled."""
        return min(compile_seconds() - self._compiled, time.perf_counter() - self._start)

    @property
    def seconds(self) -> float:
        """Wall time without compiling."""
        return time.perf_counter() - self._start - self.compile_seconds


def told_seconds(record: Any) -> str:
    """How long a run took, in words: compiling is told apart where it shows."""
    if record.compile_seconds < 0.01:
        return f"{record.seconds:.3g} s"
    return f"{record.seconds:.3g} s (and {record.compile_seconds:.2g} s of compiling)"
