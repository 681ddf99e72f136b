"""Kernels in two tiers: interpreted until work pays for compiling, then compiled.

A kernel is written as a plain Python function on arrays. Compiling one takes seconds, loading it from the
disk tens of milliseconds and Numba itself a few tenths of a second, while a small question needs a few
milliseconds of interpreted work. So a call runs the Python source as long as

    spent + forecast <= allowance,

where `spent` is the time this kernel has run interpreted, the forecast is what its rate so far says about
this call (seconds per unit of work; the work is given, or the number of array entries passed), and the
allowance is a small share of what compiling would cost, or all of what loading costs where the compiled form
lies on disk. The first interpreted moments of a process are free. So a process that compiles in the end is
later by a few per cent than one that compiles at once, and most processes never do. Kernels that repeat
steps are called for a portion of them at a time, by the time that the last call took, so that no call is
long: the tier can change between two, and clocks and signals are looked at. Where there is a second core, a
helper process compiles (`background.py`) while the interpreted tier goes on; a call that would be long is
compiled first.

The interpreted world is interpreted throughout: there a kernel's calls of other kernels go to their plain
functions. What a warning, a division by zero or a wrapped integer means is the same in both
tiers: nothing is said, IEEE and two's complement decide.

The environment variable `CREDO_KERNELS` (`compiled` or `interpreted`) forces one tier.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from . import disk_cache
from .background import Helper

if TYPE_CHECKING:
    from .compiled import CompiledKernel

__all__ = [
    "Kernel",
    "compile_seconds",
    "count_compiling",
    "current_tier",
    "inlined",
    "inner",
    "jit",
    "parallel",
    "prange",
    "settle",
    "threads",
]

FREE = 0.5  # interpreted seconds of a process that are not weighed against compiling
SHARE = 0.1  # of the price of compiling that may be spent interpreting
FIRST_RATE = 1e-6  # seconds per unit of work, before a kernel has run
LONG = 1.0  # interpreted seconds of one call that are not spent waiting for a compiled form
CAUTIOUS_RATE = 1e-5  # the same, where a call can be cut short and the next one be longer
PORTION = 0.05  # seconds a call may take where it can be cut into several
COMPILED_RATE = 2e-8  # seconds per unit of work of a compiled kernel that has not run, with caution
_NOTHING = 0.01  # interpreted seconds of a kernel that are not worth a thought
_PER_BYTE = 7e-4  # seconds of compiling per byte of byte code
_NUMBA = 0.3  # seconds to import Numba
_LOADING = 0.025  # seconds to load one compiled kernel

prange = range  # replaced by Numba's in compiled kernels


def _forced_tier() -> str:
    tier = os.environ.get("CREDO_KERNELS", "tiered")
    if tier not in ("tiered", "compiled", "interpreted"):
        raise ValueError(f"CREDO_KERNELS: expected 'compiled', 'interpreted' or 'tiered', got {tier!r}")
    return tier


class _Process:
    """What all kernels of this process share."""

    tier = _forced_tier()
    settled = 0  # runs that need one tier from their beginning to their end
    spent = 0.0  # interpreted seconds
    compiling = 0.0  # seconds of compiling and loading
    lock = threading.RLock()
    helper = Helper()


def _after_fork() -> None:
    _Process.lock = threading.RLock()  # whoever held it does not exist here
    _Process.helper = Helper()  # that of the parent serves the parent


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Kernel:
    """A function on arrays that compiles itself when that pays; `py_func` is its source."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self.py_func = function
        self.options = options
        self._spent = 0.0  # seconds run interpreted
        self._done = 0.0  # work done in that time
        self._pace = COMPILED_RATE  # seconds per unit of work of the last compiled call
        self._compiled: Any = None  # the compiled form, once there is one
        self._run: Any = None  # the same, once it is what calls from Python take
        self.__name__, self.__doc__ = function.__name__, function.__doc__
        self.__module__, self.__qualname__ = function.__module__, function.__qualname__
        self.__wrapped__ = function  # for signatures and doctests

    def __call__(self, *args: Any) -> Any:
        """Run in whichever tier is due, the work being the array entries given."""
        run = self._run
        if run is not None:
            return run(*args)
        return self._start(entries_of(args), *args)

    def over(self, work: float) -> Callable[..., Any]:
        """The kernel for a call whose amount of work is known better than by the entries of its arrays."""
        return partial(self._start if self._run is None else self._paced, work)

    def _paced(self, work: float, *args: Any) -> Any:
        clock = time.perf_counter()
        answer = self._run(*args)
        self._pace = (time.perf_counter() - clock) / max(work, 1.0)
        return answer

    def portion(self, work: float, most: int) -> int:
        """How many steps of so much work one call should do, so that it is short."""
        if self._run is not None or current_tier() == "compiled":
            rate = self._pace
        else:
            rate = self._spent / self._done if self._done else CAUTIOUS_RATE
        return max(1, min(most, int(PORTION / (rate * work + 1e-9))))

    def parts(self, work: float, count: int) -> Iterator[tuple[Callable[..., Any], slice]]:
        """Calls for `count` steps of so much work each, a portion at a time; a signal ends them between."""
        done = 0
        while done < count:
            Helper.look()
            end = done + self.portion(work, count - done)
            yield self.over(work * (end - done)), slice(done, end)
            done = end

    def _start(self, work: float, *args: Any) -> Any:
        rate = self._spent / self._done if self._done else FIRST_RATE
        if self._is_due(rate * work, args):
            return self.compiled(*args)
        clock = time.thread_time()
        with np.errstate(all="ignore"):
            answer = self.plain(*args)
        seconds = time.thread_time() - clock
        self._spent += seconds
        self._done += work
        _Process.spent += seconds
        return answer

    def _is_due(self, forecast: float, args: tuple[Any, ...]) -> bool:
        """Whether to take the compiled form for a call of so many interpreted seconds."""
        if not self._is_for_python:
            return False
        tier = current_tier()
        if tier != "tiered":
            return tier == "compiled"
        if self._spent + forecast < _NOTHING or not self._compiling_pays(forecast):
            return False
        if disk_cache.holds(self):
            return True
        helper = _Process.helper
        if forecast > LONG:
            if self.price > LONG:
                helper.ask(self, args)  # a signal ends the wait for it, and not what we compile ourselves
            helper.wait_for(self)  # rather than compile what it is about to finish
            return True
        if not helper.ask(self, args):
            return True
        if self._spent + forecast > self.price:  # it shares a core with us, and needs it more
            helper.wait_for(self)
        return helper.has_made(self)

    def _compiling_pays(self, forecast: float) -> bool:
        if disk_cache.holds(self):
            return self._spent + forecast > (_LOADING if "numba" in sys.modules else _LOADING + _NUMBA)
        return _Process.spent + forecast > FREE and self._spent + forecast > SHARE * self.price

    @property
    def _is_for_python(self) -> bool:
        """Whether its compiled form can be called from Python, not from kernels alone."""
        return not self.options.get("no_cpython_wrapper", False)

    @property
    def price(self) -> float:
        """Seconds that compiling would take, by the size of what is not compiled yet."""
        return _PER_BYTE * sum(len(k.py_func.__code__.co_code) for k in self.reach if k._compiled is None)

    @cached_property
    def reach(self) -> frozenset[Kernel]:
        """The kernel and all it calls."""
        found, open_ = {self}, [self]
        while open_:
            new = set(called_by(open_.pop())) - found
            found |= new
            open_ += new
        return frozenset(found)

    @cached_property
    def plain(self) -> FunctionType:
        """The Python source, calling the Python source of other kernels."""
        f = self.py_func
        return FunctionType(
            f.__code__, _plain_world(f.__globals__), f.__name__, f.__defaults__, f.__closure__
        )

    @property
    def compiled(self) -> CompiledKernel:
        """The compiled form; its signatures are compiled, or loaded, as calls need them."""
        if self._compiled is None:
            with _Process.lock:
                if self._compiled is None:
                    from .compiled import CompiledKernel

                    self._compiled = CompiledKernel.of(self)
                    self._run = self._compiled if self._is_for_python else None
        return self._compiled

    @property
    def _numba_type_(self) -> Any:
        """How compiled kernels see this one."""
        return self.compiled._numba_type_

    def __repr__(self) -> str:
        tier = "interpreted" if self._compiled is None else "compiled"
        return f"<kernel {self.__module__}.{self.__name__}, {tier}>"


def called_by(kernel: Kernel) -> list[Kernel]:
    """The kernels that the source of one names."""
    world = kernel.py_func.__globals__
    named = (world.get(name) for name in kernel.py_func.__code__.co_names)
    return [k for k in named if isinstance(k, Kernel)]


def entries_of(args: Any) -> int:
    """How many array entries a call is given."""
    total = 0
    for a in args:
        if isinstance(a, np.ndarray):
            total += a.size
        elif isinstance(a, tuple):
            total += entries_of(a)
    return total


_WORLDS: dict[int, dict[str, Any]] = {}  # globals of a module -> the same with plain functions for kernels


def _plain_world(world: dict[str, Any]) -> dict[str, Any]:
    if id(world) not in _WORLDS:
        plain = _WORLDS[id(world)] = dict(world)
        plain.update({k: v.plain for k, v in world.items() if isinstance(v, Kernel)})
    return _WORLDS[id(world)]


def current_tier() -> str:
    """The tier that all calls take, or `tiered` where each is weighed."""
    return "compiled" if _Process.settled and _Process.tier == "tiered" else _Process.tier


def settle(runs: int) -> None:
    """Count runs that need the last bits to be those of one tier: while there are any, all is compiled."""
    with _Process.lock:
        _Process.settled += runs


def jit(function: Callable[..., Any]) -> Kernel:
    """Make a kernel of a function."""
    return Kernel(function, {})


def parallel(function: Callable[..., Any]) -> Kernel:
    """Make a kernel that spreads its loops over `prange` on all cores."""
    return Kernel(function, {"parallel": True, "fastmath": False})


def inlined(function: Callable[..., Any]) -> Kernel:
    """Make a small part of kernels, to be put in place of its calls in inner loops.

    It may read and write arrays but make none: a call of an ordinary compiled function passes seven words
    per array and counts references, which costs more than the work on a few numbers.
    """
    return Kernel(function, {"forceinline": True, "_nrt": False})


def inner(function: Callable[..., Any]) -> Kernel:
    """`inlined`, and never called from Python: without the entry points for that, compiling is quicker."""
    options = {"forceinline": True, "_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return Kernel(function, options)


def compile_seconds() -> float:
    """Seconds this process has spent on compiling and loading kernels."""
    return _Process.compiling


def count_compiling(seconds: float) -> None:
    """Add to `compile_seconds`."""
    _Process.compiling += seconds


def threads() -> int:
    """How many threads a parallel kernel will use, at most 16."""
    if _Process.tier == "interpreted":
        return 1
    import numba

    return min(16, int(numba.get_num_threads()))
