"""The one way kernels are compiled.

Cached on disk, without the interpreter lock, and with those fast-math flags that keep
infinities and zeros meaningful (`nnan` and `ninf` are never set). Compiling for a machine happens once
and takes a while; somebody waiting at a terminal is told so.
"""

from __future__ import annotations

import sys
from typing import Any

import numba
from numba.core import event

__all__ = ["inlined", "inner", "jit"]

_FLAGS = {"contract", "reassoc", "arcp", "nsz"}


def jit(function: Any) -> Any:
    """Compile a kernel; its source stays callable as `function.py_func`."""
    return numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_FLAGS)(function)


class _Notice(event.Listener):  # type: ignore[misc]
    """Says once, on a terminal, that kernels are being compiled; loading them from disk is silent."""

    told = False

    def on_start(self, event: Any) -> None:
        """A compilation begins."""
        module = event.data["dispatcher"].py_func.__module__
        if not _Notice.told and module.startswith("credo.") and sys.stderr.isatty():
            _Notice.told = True
            print("credo: compiling for this machine, once; the next start is quick ...", file=sys.stderr)

    def on_end(self, event: Any) -> None:
        """A compilation is over."""


event.register("numba:compile", _Notice())


def inlined(function: Any) -> Any:
    """Compile a small part of kernels, to be put in place of its calls in inner loops.

    It may read and write arrays but make none: a call of an ordinary compiled function passes seven words
    per array and counts references, which costs more than the work on a few numbers.
    """
    options: dict[str, Any] = {"forceinline": True, "_nrt": False}
    return numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_FLAGS, **options)(function)


def inner(function: Any) -> Any:
    """`inlined`, and never called from Python: without the entry points for that, compiling is quicker."""
    options: dict[str, Any] = {"forceinline": True, "_nrt": False}
    options |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_FLAGS, **options)(function)
