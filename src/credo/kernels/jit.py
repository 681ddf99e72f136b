"""The one way kernels are compiled.

Cached on disk, without the interpreter lock, and with those fast-math flags that keep
infinities and zeros meaningful (`nnan` and `ninf` are never set).
"""

from __future__ import annotations

from typing import Any

import numba

__all__ = ["jit"]

_FLAGS = {"contract", "reassoc", "arcp", "nsz"}


def jit(function: Any) -> Any:
    """Compile a kernel; its source stays callable as `function.py_func`."""
    return numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_FLAGS)(function)
