"""A progress bar for runs of more than two seconds, on a terminal or in a notebook and nowhere else."""

from __future__ import annotations

import importlib
import math
import sys
import time
from types import TracebackType
from typing import ClassVar, Protocol

__all__ = ["Progress"]

_PATIENCE = 2.0  # seconds before a bar appears
_PAUSE = 0.2  # seconds between two drawings in a notebook: each one is a message to the browser


class Progress:
    """Use as `with Progress("bp", total) as bar: bar.update(done)`; one inside another stays silent."""

    _depth: ClassVar[int] = 0  # how many are open

    def __init__(self, label: str, total: float | None) -> None:
        self._label, self._total = label, total
        self._clock = time.perf_counter()
        self._is_silent = False
        self._bar: _Bar | None = None

    def update(self, done: float, note: str = "") -> None:
        """Say how far the work is; draws nothing in the first two seconds or where nobody looks."""
        if self._is_silent:
            return
        if self._bar is None:
            if time.perf_counter() - self._clock < _PATIENCE:
                return
            self._bar = _open_bar(self._label, self._total, self._clock)
            if self._bar is None:
                self._is_silent = True
                return
        self._bar.update(done, f"{self._label} {note}".strip())

    def __enter__(self) -> Progress:
        self._is_silent = Progress._depth > 0
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
            self._bar.close()


class _Bar(Protocol):
    """What is drawn, on whatever there is to draw on; gone once closed."""

    def update(self, done: float, text: str) -> None: ...

    def close(self) -> None: ...


def _open_bar(label: str, total: float | None, began: float) -> _Bar | None:
    """The bar for what standard error is: a notebook's stream, a terminal, or neither (a file, a pipe)."""
    # A kernel's stream says that it is no terminal; a redirected one is the kernel's no longer.
    if type(sys.stderr).__module__.partition(".")[0] == "ipykernel" and "IPython" in sys.modules:
        return _NotebookBar(label, total, began)
    return _TerminalBar(label, total) if sys.stderr.isatty() else None


class _TerminalBar:
    def __init__(self, label: str, total: float | None) -> None:
        from rich.console import Console
        from rich.progress import Progress as Bar

        self._bar = Bar(console=Console(stderr=True), transient=True)
        self._bar.start()
        self._task = self._bar.add_task(label, total=total)

    def update(self, done: float, text: str) -> None:
        self._bar.update(self._task, completed=done, description=text)

    def close(self) -> None:
        self._bar.stop()


class _NotebookBar:
    """One output of the running cell, replaced in place."""

    def __init__(self, label: str, total: float | None, began: float) -> None:
        self._total, self._began = total, began
        self._drawn = -math.inf  # when
        display = importlib.import_module("IPython.display").display
        self._handle = display({"text/plain": label}, raw=True, display_id=True)

    def update(self, done: float, text: str) -> None:
        now = time.perf_counter()
        if now - self._drawn >= _PAUSE:
            self._drawn = now
            self._handle.update(_bundle(text, done, self._total, now - self._began), raw=True)

    def close(self) -> None:
        self._handle.update({"text/plain": "", "text/html": ""}, raw=True)


def _bundle(text: str, done: float, total: float | None, passed: float) -> dict[str, str]:
    """The bar as markup for browsers and as a line for what shows text only."""
    from html import escape

    told, clock = escape(text), f"{passed:.0f} s"
    if not total:
        return {"text/plain": f"{text}  {clock}", "text/html": f"<progress></progress> {told} {clock}"}
    part = min(max(done / total, 0.0), 1.0)
    filled = "█" * round(30 * part)
    bar = f'<progress max="1" value="{part:.4f}"></progress>'
    return {
        "text/plain": f"{text}  |{filled:<30}| {part:.0%}  {clock}",
        "text/html": f"{bar} {told} {part:.0%} {clock}",
    }
