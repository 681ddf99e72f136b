"""A clock that tells working from compiling."""

from __future__ import annotations

import os
import time
from typing import Any

from ..kernels.jit import compile_seconds

__all__ = ["Stopwatch", "process_seconds", "told_seconds"]

_START_TIME = 19  # the place of the start of a process, in ticks, behind its name in /proc/self/stat
_IMPORTED = time.perf_counter()


def process_seconds() -> float:
    """Seconds since this process began; where the system does not tell, since this module was imported."""
    try:
        with open("/proc/self/stat", encoding="ascii", errors="replace") as file:
            ticks = int(file.read().rpartition(")")[2].split()[_START_TIME])
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError, AttributeError):
        return time.perf_counter() - _IMPORTED


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
