r"""A run: a clock with an end, and a note of who wants it to end.

Signals. The first SIGINT (Ctrl-C) or SIGTERM raises nothing: it leaves a note on the outermost run, which is
read between steps and by `check()`. (An exception raised while a compiled kernel returns a tuple becomes a
SystemError, and where it returns a named tuple the process dies.) The second raises KeyboardInterrupt.
Handlers that others have set, and other threads, are left alone. After a SIGTERM was answered, the next
outermost run ends the process.

Runs inside runs end with what is around them. One that is cut by somebody further out has nothing to say: it
raises `Stopped` up to the outermost run whose steps count only as a whole (`whole`), whose last state is
untouched and answers. Where parts count (a call of the library, a race, a search) the run inside
returns what it has.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # without enums, which cost more than the rest of a call
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from math import inf
from time import perf_counter
from typing import Any, ParamSpec, TypeVar

import numpy as np

from ..core import check as checks
from ..core.errors import ConvergenceError
from ..core.result import Status
from ..kernels.background import Helper

__all__ = [
    "Budget",
    "Run",
    "Stopped",
    "call",
    "check",
    "current_run",
    "is_ending",
    "noted",
    "planning",
    "recall",
    "unwatched",
    "watched",
]

P = ParamSpec("P")
R = TypeVar("R")

_INT, _TERM = int(signal.SIGINT), int(signal.SIGTERM)
_CURRENT: ContextVar[Run | None] = ContextVar("run", default=None)


@dataclass(frozen=True)
class Budget:
    """When to stop; only ever an argument of a call."""

    max_iter: int = 1000  # steps of one start, as the algorithm counts them
    tol: float = 1e-8  # residual that counts as none
    seconds: float | None = None  # wall time of everything, None for no limit

    def __post_init__(self) -> None:
        checks.whole("max_iter", self.max_iter, 0)
        checks.at_least("tol", self.tol, 0)
        if self.seconds is not None:
            checks.at_least("seconds", self.seconds, 0)


_NO_LIMIT = Budget()
_T = TypeVar("_T")


class Stopped(BaseException):
    """A signal, or the end of somebody's time, on its way out to the run that answers.

    No `Exception`: whoever catches those must not keep it.
    """

    def __init__(self, status: Status) -> None:
        super().__init__(status)
        self.status = status


class Run:
    """What an algorithm may ask while it works: `left`, `elapsed`, the generator.

    Parameters
    ----------
    budget
        Its limits; the time counts from here.
    rng
        The one random generator of the run.
    whole
        Whether a step of it counts only when it is finished.
    on_step
        An observer for the first driven run inside.
    """

    is_leaving = False  # whether a SIGTERM was answered
    checkpoint: Any = None  # of a call: for the first driven run inside
    is_planning = False  # whether it only limits the time of a plan for the run around it
    is_traced = False  # whether every step is to be recorded, whatever that costs

    def __init__(
        self,
        budget: Budget,
        rng: Any = None,
        *,
        whole: bool = True,
        on_step: Callable[[int, Any], None] | None = None,
    ) -> None:
        parent = _CURRENT.get()
        self.budget, self.rng, self.whole, self.parent = budget, rng, whole, parent
        self.began, self.number, self.count = perf_counter(), 0, budget.max_iter
        self.on_step = on_step
        self.asked = 0  # the signal that was noted, at the outermost run
        self.has_begun = True  # whether there is a state to answer from
        self.cuts = 0  # of plans, at the outermost run
        self.hurried: dict[Any, Any] = {}  # plans that were cut
        self.ends = inf if budget.seconds is None else self.began + budget.seconds
        self.root: Run = self
        self.outer: Run | None = None  # the next one outside whose steps count as a whole
        if parent is not None:
            self.root, self.ends = parent.root, min(self.ends, parent.ends)
            self.outer = parent if parent.whole else parent.outer

    def __enter__(self) -> Run:
        if self.outer is not None and (status := self.outer.ended()) is not None:
            raise Stopped(status)
        if self.parent is None:
            self._handlers = self._listen()
            # NumPy's own defaults, whatever the caller has set: weights that underflow are zeros here.
            self._floats = np.errstate(divide="warn", over="warn", under="ignore", invalid="warn")
            self._floats.__enter__()
        self._token = _CURRENT.set(self)
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        _CURRENT.reset(self._token)
        if self.parent is None:
            self._floats.__exit__(None, None, None)
            for number, handler in self._handlers:
                signal.signal(number, handler)
            Run.is_leaving |= self.asked == _TERM
        if self.checkpoint is not None:
            self.checkpoint.close()
        if self.parent is None and isinstance(error, Stopped):
            if error.status is Status.INTERRUPTED:
                raise KeyboardInterrupt("stopped before there was anything to answer with") from None
            raise ConvergenceError(
                "the time given was used up before there was anything to answer with; raise seconds"
            ) from None

    def _listen(self) -> tuple[tuple[int, Any], ...]:
        """Put our handlers in the place of Python's own; those of others stay."""
        if Run.is_leaving:
            raise SystemExit(128 + _TERM)
        if threading.get_ident() != threading.main_thread().ident:
            return ()
        defaults = ((_INT, signal.default_int_handler), (_TERM, signal.SIG_DFL))
        mine = [number for number, default in defaults if signal.getsignal(number) == default]
        return tuple((number, signal.signal(number, self.note)) for number in mine)

    def note(self, number: int, frame: object = None) -> None:
        """Take a signal down; the second one raises."""
        if self.asked:
            raise KeyboardInterrupt
        self.asked = number

    def take_observer(self) -> Callable[[int, Any], None] | None:
        """The observer given to a run around this one, for the first run that asks for it."""
        around = self.parent
        while around is not None and around.on_step is None:
            around = around.parent
        if around is None:
            return None
        found, around.on_step = around.on_step, None
        return found

    def take_checkpoint(self) -> Any:
        """The checkpoint of a call around this run, for the outermost driven run in it."""
        around = self.parent
        while around is not None and around.checkpoint is None:
            if not around.has_begun:
                return None  # work of a start: the run that it is for comes later
            around = around.parent
        if around is None or around.checkpoint.is_taken:
            return None
        around.checkpoint.is_taken = True
        return around.checkpoint

    @property
    def keeps_checkpoint(self) -> bool:
        """Whether a call around it has a checkpoint."""
        around: Run | None = self
        while around is not None and around.checkpoint is None:
            around = around.parent
        return around is not None

    @property
    def elapsed(self) -> float:
        """Seconds since it began."""
        return perf_counter() - self.began

    @property
    def given(self) -> float:
        """Seconds from its beginning to its end, or that of a run around it."""
        return max(0.0, self.ends - self.began)

    @property
    def left(self) -> float:
        """Seconds until its end, or that of a run around it."""
        return max(0.0, self.ends - perf_counter())

    def ended(self, now: float = 0.0) -> Status | None:
        """What ended it, if anything did."""
        if self.root.asked:
            return Status.INTERRUPTED
        return Status.OUT_OF_TIME if (now or perf_counter()) > self.ends else None


@contextmanager
def unwatched() -> Iterator[None]:
    """Work that nobody stops: reading an answer."""
    token = _CURRENT.set(None)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def call(on_step: Callable[[int, Any], None] | None = None, seconds: float | None = None) -> Run:
    """What a public call is: signals are noted from here on; the runs inside have their own time.

    With `seconds` they end with the call, what it does before them included.
    """
    run = Run(_NO_LIMIT if seconds is None else Budget(seconds=seconds), whole=False, on_step=on_step)
    run.has_begun = seconds is None
    return run


def noted(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator of a public function that is a call."""

    @wraps(function)
    def inside(*args: P.args, **named: P.kwargs) -> R:
        with call():
            return function(*args, **named)

    return inside


def current_run() -> Run | None:
    """The run around the caller, if there is one."""
    return _CURRENT.get()


def is_ending() -> bool:
    """Whether the run around the caller has ended: searches for something better then keep what they have."""
    run = _CURRENT.get()
    return run is not None and run.ended() is not None


def check() -> None:
    """To be called in long work, between steps and in planning: raises `Stopped` at an end.

    Before a run has a state to answer from, its own time is no reason to stop it: only what is around it,
    or a signal.
    """
    run = _CURRENT.get()
    if run is not None and not run.has_begun and not run.root.asked:
        run = run.outer
    if run is not None and (status := run.ended()) is not None:
        raise Stopped(status)


def _check_signals() -> None:
    """The same while a kernel is compiled elsewhere: only a signal is a reason to give it up."""
    run = _CURRENT.get()
    if run is not None and run.root.asked:
        raise Stopped(Status.INTERRUPTED)


Helper.look = staticmethod(_check_signals)


def watched(items: Iterable[_T]) -> Iterator[_T]:
    """The items of long work, with a `check()` before each."""
    for item in items:
        check()
        yield item


@contextmanager
def planning(share: float = 0.5) -> Iterator[None]:
    """Work on a plan, which may take this share of the time left; then it is ending, and `check()` raises.

    Where there is no run there is no limit. A run that keeps a checkpoint makes its plan whole: it must find
    the same one again when it is resumed.
    """
    run = _CURRENT.get()
    if run is None:
        yield
    elif run.keeps_checkpoint:
        with unwatched():
            yield
    else:
        seconds = None if run.ends == inf else share * run.left
        with Run(Budget(seconds=seconds), run.rng, whole=False) as inside:
            inside.is_planning = True
            try:
                yield
            finally:
                inside.root.cuts += inside.ended() is not None


def recall(memo: Any, key: Hashable, make: Callable[[], Any]) -> Any:
    """The plan filed under `key`, made now if there is none.

    One that was cut is filed for this run alone, which must find it again: what is planned later fits to it.
    """
    if key in memo:
        return memo[key]
    here = run = _CURRENT.get()
    while run is not None:
        if (id(memo), key) in run.hurried:
            return run.hurried[id(memo), key]
        run = run.parent
    cuts = 0 if here is None else here.root.cuts
    made = make()
    if here is None or here.root.cuts == cuts:
        return memo.recall(key, lambda: made)
    while here.is_planning and here.parent is not None:
        here = here.parent
    here.hurried[id(memo), key] = made
    return made
