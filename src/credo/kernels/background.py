"""Compiling beside an interpreted run: in a helper process, which leaves what it made in the cache on disk.

A thread would not do: the compiler holds the interpreter's lock for most of its time, and a process cannot
end safely while one of its threads is inside it. The helper is started at the first request and ends with
the process that started it; what it had finished by then is kept. Where there is no second core, no
interpreter to start, or no folder that keeps files, nothing is done here, and kernels are compiled where they
are called.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from . import disk_cache

if TYPE_CHECKING:
    from .jit import Kernel

__all__ = ["Helper", "serve"]

# The helper reads where to find modules before it imports any of ours.
_SERVE = """
import pickle, sys
sys.path[:] = pickle.load(sys.stdin.buffer)
from credo.kernels.background import serve
serve()
"""


def _nothing() -> None:
    """What is looked at where nobody listens."""


class Helper:
    """The process that compiles for this one, and what it was asked for.

    `look` is set by whoever listens to signals; it may raise in a wait, and between the parts of long work.
    """

    look: Callable[[], None] = staticmethod(_nothing)

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._asked: list[Kernel] = []
        self._finished = 0  # how many of those it has done with
        self._failed = False
        self._lock = threading.Lock()

    def ask(self, kernel: Kernel, args: tuple[Any, ...]) -> bool:
        """Ask for a kernel, for arguments of these types; False if that is of no use."""
        with self._lock:
            if kernel in self._asked:
                return not self._failed
            if self._process is None and not self._begin():
                return False
            request = (kernel.__module__, kernel.__name__, tuple(example(a) for a in args))
            with contextlib.suppress(OSError):
                self._send(request)
                self._asked.append(kernel)
                return True
            self._failed = True
            return False

    def has_made(self, kernel: Kernel) -> bool:
        """Whether the helper has done with a kernel it was asked for, or will never do."""
        with self._lock:
            self._listen()
            return self._failed or kernel in self._asked[: self._finished]

    def wait_for(self, kernel: Kernel) -> None:
        """Until the helper has done with a kernel; at once if it was not asked for it."""
        while kernel in self._asked and not self.has_made(kernel):
            Helper.look()
            time.sleep(0.01)

    def _begin(self) -> bool:
        can_listen = hasattr(os, "set_blocking")  # without waiting for an answer
        able = can_listen and _cores() > 1 and bool(sys.executable) and disk_cache.can_keep()
        if self._failed or not able:
            self._failed = True
            return False
        environment = {**os.environ, "CREDO_KERNELS": "compiled"}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _SERVE],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
            self._send(sys.path)
        except OSError:
            self._failed = True
            return False
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        atexit.register(self.stop)
        return True

    def _send(self, item: Any) -> None:
        assert self._process is not None and self._process.stdin is not None
        pickle.dump(item, self._process.stdin)
        self._process.stdin.flush()

    def _listen(self) -> None:
        """Count the signs the helper gave: one byte for each request it has done with."""
        if self._process is None or self._failed:
            return
        assert self._process.stdout is not None
        self._finished += len(self._process.stdout.read() or b"")
        if self._process.poll() is not None:
            self._failed = True

    def stop(self) -> None:
        """End the helper, whatever it is doing."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def example(value: Any) -> Any:
    """Something small of the same type, as far as the compiler can see."""
    if isinstance(value, np.ndarray):
        small = np.zeros((2,) * value.ndim, value.dtype, order="F" if value.flags.fnc else "C")
        contiguous = value.flags.c_contiguous or value.flags.f_contiguous
        return (
            small
            if contiguous
            else np.zeros((4,) * value.ndim, value.dtype)[(slice(None, None, 2),) * value.ndim]
        )
    if isinstance(value, tuple):
        parts = [example(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def serve() -> None:
    """Compile what is asked for on standard input, and say one byte for each request."""
    import importlib

    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            module, name, args = pickle.load(source)
        except EOFError:
            return
        with contextlib.suppress(Exception):  # the one who asked will meet the error itself
            kernel = getattr(importlib.import_module(module), name)
            kernel.compiled.compile_for(args)
        sink.write(b".")
        sink.flush()
