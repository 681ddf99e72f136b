"""The compiled tier: Numba's dispatcher with fewer specialisations and our own files on disk.

A signature is normalised before anything is compiled: read-only arrays count as writable (the code is the
same; kernels write only to what they document), literal integers and truth values count as plain ones. The
code compiled for the normal signature is then entered for the signature that came, so that the next such call
finds it at once.

Fast-math flags are those that keep infinities and zeros meaningful; `nnan` and `ninf` are never set.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
import threading
import time
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numba
from numba.core import compiler, event, registry, sigutils, types
from numba.core.serialize import dumps

from . import disk_cache, jit

if TYPE_CHECKING:
    from .jit import Kernel

__all__ = ["CompiledKernel"]

_OPTIONS: dict[str, Any] = {
    "nopython": True,
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract", "reassoc", "arcp", "nsz"},
    "boundscheck": None,
    "no_cfunc_wrapper": True,  # nobody calls kernels from C
}


_Dispatcher: Any = registry.CPUDispatcher


class CompiledKernel(_Dispatcher):  # type: ignore[misc]
    """The compiled forms of one kernel."""

    @classmethod
    def of(cls, kernel: Kernel) -> CompiledKernel:
        """The dispatcher of a kernel; nothing is compiled yet."""
        function = kernel.py_func
        if kernel.options.get("parallel"):
            world = {**function.__globals__, "prange": numba.prange}
            function = FunctionType(function.__code__, world, function.__name__)
            function.__module__, function.__qualname__ = kernel.__module__, kernel.__qualname__
        made = cls(py_func=function, targetoptions={**_OPTIONS, **kernel.options})
        made._cache = _Files(kernel)
        return made

    def compile_for(self, args: tuple[Any, ...]) -> None:
        """Compile for arguments of these types, without a call."""
        self.compile(tuple(self.typeof_pyval(a) for a in args))

    def compile(self, sig: Any) -> Any:
        """The entry point for a signature."""
        came, _ = sigutils.normalize_signature(sig)
        plain = tuple(_plain(t) for t in came)
        known = self.overloads.get(plain)
        if known is None:
            with _Watch(self._cache.kernel):
                entry = super().compile(plain)
        else:
            entry = known.entry_point
        if plain != tuple(came):
            self._insert([t._code for t in came], entry, False)
        return entry

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """How a compiled caller sees this kernel: by plain signatures only."""
        _, folded = self._compiler.fold_argument_types(args, kws)
        return super().get_call_template(tuple(_plain(t) for t in folded), {})


def _plain(given: Any) -> Any:
    t: Any = types.unliteral(given)
    if isinstance(t, types.Array) and not t.mutable:
        return t.copy(readonly=False)
    if type(t) in (types.Tuple, types.UniTuple):
        return types.Tuple(tuple(_plain(part) for part in t.types))
    return t


class _Watch:
    """Counts the time of compiling and loading, once for nested kernels, and tells somebody who waits.

    Loading is silent. Compiling is announced on standard error, on terminals and in notebooks, with the time
    it took behind.
    """

    _local = threading.local()

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def __enter__(self) -> None:
        self._local.open = (*getattr(self._local, "open", ()), self)
        self._said = False
        self._clock = time.perf_counter()

    def __exit__(self, *_: Any) -> None:
        self._local.open = self._local.open[:-1]
        if self._local.open:
            return
        seconds = time.perf_counter() - self._clock
        jit.count_compiling(seconds)
        if self._said:
            print(f" {seconds:.1f} s", file=sys.stderr, flush=True)

    @classmethod
    def announce(cls) -> None:
        """Say once per call from outside what is being compiled; the rest of the line comes at its end."""
        first = getattr(cls._local, "open", (None,))[0]
        if first is not None and not first._said and _is_watched(sys.stderr):
            first._said = True
            name = f"{first._kernel.__module__.rpartition('.')[2]}.{first._kernel.__name__}"
            print(f"credo: compiling {name} for this machine, once ...", end="", file=sys.stderr, flush=True)


def _is_watched(stream: Any) -> bool:
    """Whether somebody reads a stream as it is written: a terminal, or a notebook."""
    return stream.isatty() or type(stream).__module__.startswith("ipykernel")


class _Listener(event.Listener):  # type: ignore[misc]
    """Hears when a kernel is not found on disk but compiled."""

    def on_start(self, event: Any) -> None:
        """A compilation begins."""
        if isinstance(event.data["dispatcher"], CompiledKernel):
            _Watch.announce()

    def on_end(self, event: Any) -> None:
        """A compilation is over."""


event.register("numba:compile", _Listener())


class _Files:
    """The compiled forms of one kernel on disk, as Numba's dispatchers ask for them.

    A file that cannot be read, or is not what it should be, is as good as none: the kernel is
    compiled and the file written again.
    """

    cache_path = property(lambda self: str(disk_cache.folders()[0]))

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def _name(self, sig: Any, codegen: Any) -> str:
        options = sorted((k, sorted(v) if isinstance(v, set) else v) for k, v in _OPTIONS.items())
        key = repr((sig, codegen.magic_tuple(), numba.__version__, options))
        return f"{disk_cache.name_of(self.kernel)}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"

    def load_overload(self, sig: Any, context: Any) -> Any:
        """The compiled form for a signature, None if there is none."""
        context.refresh()
        content = disk_cache.read(self._name(sig, context.codegen()))
        if content is None:
            return None
        try:
            return compiler.CompileResult._rebuild(context, *pickle.loads(content))
        except Exception:  # whatever a damaged file does to its readers
            return None

    def save_overload(self, sig: Any, made: Any) -> None:
        """Keep a compiled form."""
        if not made.library.has_dynamic_globals:
            disk_cache.write(self._name(sig, made.codegen), dumps(made._reduce()))

    def enable(self) -> None:
        """Nothing to do."""

    disable = flush = enable
