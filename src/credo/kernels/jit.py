"""The one way kernels are compiled.

Cached on disk, without the interpreter lock, and with those fast-math flags that keep
infinities and zeros meaningful (`nnan` and `ninf` are never set).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

__all__ = ["inline", "jit"]

F = TypeVar("F", bound=Callable[..., Any])
_FLAGS = {"contract", "reassoc", "arcp", "nsz"}


def jit(function: F) -> F:
    """Compile a kernel; its source stays callable as `function.py_func`."""
    return numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_FLAGS)(function)  # type: ignore[no-any-return]


def inline(function: F) -> F:
    """Compile a small helper that LLVM should merge into its callers."""
    return numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_FLAGS, inline="always")(  # type: ignore[no-any-return]
        function
    )
