"""A progress bar for runs that take longer than two seconds, on a terminal and nowhere else."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, ClassVar

__all__ = ["Progress"]

_PATIENCE = 2.0  # seconds before a bar appears


class Progress:
    """Use as `with Progress("bp", total) as bar: bar.update(done)`; one inside another stays silent."""

    _depth: ClassVar[int] = 0  # how many are open

    def __init__(self, label: str, total: float | None) -> None:
        self._label, self._total = label, total
        self._clock = time.perf_counter()
        self._is_inner = False
        self._bar: Any = None
        self._task: Any = None

    def update(self, done: float, note: str = "") -> None:
        """Say how far the work is; draws nothing in the first two seconds or without a terminal."""
        if self._is_inner:
            return
        if self._bar is None:
            if time.perf_counter() - self._clock < _PATIENCE or not sys.stderr.isatty():
                return
            self._open()
        self._bar.update(self._task, completed=done, description=f"{self._label} {note}".strip())

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import Progress as Bar

        self._bar = Bar(console=Console(stderr=True), transient=True)
        self._bar.start()
        self._task = self._bar.add_task(self._label, total=self._total)

    def __enter__(self) -> Progress:
        self._is_inner = Progress._depth > 0
        Progress._depth += 1
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        Progress._depth -= 1
        if self._bar is not None:
            self._bar.stop()
