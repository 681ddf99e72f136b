"""Where compiled kernels lie on disk, and which are there; no package is needed to look.

One file per kernel and signature, `name-stamp-key.nbc`: the stamp changes with the byte code of the kernel
and of all it calls, and with the constants they name, so that an edit makes exactly the kernels stale that it
reaches; the key is that of the signature and the processor. Files are written beside and renamed, so that
any number of processes may share a folder: that of `NUMBA_CACHE_DIR`, or the first of these that
can be written to: the package's own, the user's, a private temporary one. Where none can, nothing is kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
from functools import cache
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .jit import Kernel

__all__ = ["can_keep", "holds", "name_of", "read", "write"]

_SUFFIX = ".nbc"


@cache
def folders() -> tuple[Path, ...]:
    """Where compiled kernels may lie, the best place first."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        return (Path(chosen),)
    found = [Path(__file__).parent / "__pycache__"]
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    found.append(Path(home) / "credo")
    with contextlib.suppress(OSError):  # there may be no temporary folder at all
        found.append(Path(tempfile.gettempdir()) / f"credo-{_user()}")
    return tuple(found)


def _user() -> str:
    return str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")


def _is_ours(folder: Path) -> bool:
    """Whether nobody else can put files there: what is loaded from it is run."""
    if not hasattr(os, "getuid") or folder.parent != Path(tempfile.gettempdir()):
        return True
    with contextlib.suppress(OSError):
        found = folder.lstat()
        return found.st_uid == os.getuid() and not found.st_mode & 0o022
    return False


@cache
def _listing() -> dict[str, Path]:
    """File name -> folder, as this process found them at first."""
    found: dict[str, Path] = {}
    for folder in reversed(folders()):
        if _is_ours(folder):
            with contextlib.suppress(OSError):
                found |= {name: folder for name in os.listdir(folder) if name.endswith(_SUFFIX)}
    return found


@cache
def _prefixes() -> frozenset[str]:
    return frozenset(name.rpartition("-")[0] for name in _listing())


def holds(kernel: Kernel) -> bool:
    """Whether some compiled form of this kernel lies on disk."""
    return name_of(kernel) in _prefixes()


def read(name: str) -> bytes | None:
    """The content of a file of the cache, None if there is none."""
    for folder in folders():
        with contextlib.suppress(OSError):
            if _is_ours(folder):
                return (folder / (name + _SUFFIX)).read_bytes()
    return None


def write(name: str, content: bytes) -> None:
    """Keep a file in the first folder that takes it; a full disk or a read-only one is no error."""
    for folder in folders():
        beside = folder / f"{name}.{os.getpid()}.tmp"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_ours(folder):
                continue
            beside.write_bytes(content)
            os.replace(beside, folder / (name + _SUFFIX))
        except OSError:
            with contextlib.suppress(OSError):
                beside.unlink()
            continue
        _forget_stale(folder, name)
        return


@cache
def can_keep() -> bool:
    """Whether there is a folder that takes files."""
    for folder in folders():
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if _is_ours(folder):
                with tempfile.TemporaryFile(dir=folder):
                    return True
    return False


def _forget_stale(folder: Path, name: str) -> None:
    """Remove what older sources of the same kernel left."""
    current = name.rpartition("-")[0]
    base = current.rpartition("-")[0]
    for old in folder.glob(f"{base}-*{_SUFFIX}"):
        if not old.name.startswith(current + "-"):
            with contextlib.suppress(OSError):
                old.unlink()


@cache
def name_of(kernel: Kernel) -> str:
    """Module, name and stamp of a kernel."""
    digest = hashlib.sha256(f"{sys.version_info[:3]} {np.__version__}".encode())
    for k in sorted(kernel.reach, key=lambda k: (k.__module__, k.__name__)):
        code = k.py_func.__code__
        world = k.py_func.__globals__
        named = {n: _describe(world[n]) for n in code.co_names if n in world}
        digest.update(
            repr((k.__module__, _content(code), sorted(named.items()), sorted(k.options.items()))).encode()
        )
    return f"{kernel.__module__.rpartition('.')[2]}.{kernel.__name__}-{digest.hexdigest()[:16]}"


def _content(code: CodeType) -> Any:
    constants = tuple(_content(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts)
    return code.co_code, code.co_names, code.co_varnames, constants


def _describe(value: Any) -> str:
    """What a global name means to a kernel: the value of a constant, else what it is called."""
    if isinstance(value, (bool, int, float, complex, str, tuple, np.generic)):
        return repr(value)
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    return str(getattr(value, "__name__", type(value).__name__))
