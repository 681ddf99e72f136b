r"""One driver for everything that takes steps: inference, learning, search, sampling, optimisers, races.

An algorithm says how to start, how to go on and what a state answers (`Iterative`). The driver owns the
rest: budget, clock, signals, restarts, progress, observers, the trace, the status. It says *converged* when
the residual of a step, which should vanish at the answer, is below `tol`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from ..core.result import Result, Status
from .run import Budget, Run, Stopped, unwatched

if TYPE_CHECKING:
    from .checkpoint import Checkpoint

__all__ = ["UNKNOWN", "Iterative", "Observer", "Outcome", "Step", "View", "Work", "advice", "drive", "judge"]

UNKNOWN = float(np.finfo(np.float64).max)  # residual of a step that cannot tell how far the answer is
_ENDLESS = 10**6  # steps that nobody means to wait for: the time limits such a run
_THIN = 0.1  # seconds between two looks of an observer
_LIMITS = {
    Status.OUT_OF_ITERATIONS: ("max_iter was reached", "it"),
    Status.OUT_OF_TIME: ("the time given was used up", "seconds"),
}
_SETTLING = 50  # steps before which nobody can say that a run goes nowhere
_FALL = 0.9  # of the least residual before: more than this in the second half of a run is no fall
_INTERRUPT = 2  # the number of SIGINT: how an observer asks to stop


class Step(NamedTuple):
    """What one call of `advance` did: any number of finished steps, none while a long one is under way."""

    state: Any  # data; the state before it is left as it was
    residuals: Sequence[float] | np.ndarray = ()  # per finished step; vanishes at the answer
    trace: Mapping[str, Sequence[Any] | np.ndarray] | None = None  # name -> numbers per finished step
    status: Status | None = None  # a proof or a dead end that only the algorithm can know of


class Iterative(Protocol):
    """What can be driven."""

    @property
    def name(self) -> str:
        """What it is called in progress bars."""

    def start(self, problem: Any, run: Run) -> Step:
        """The cheapest state that can be read, of start number `run.number`."""

    def advance(self, problem: Any, state: Any, run: Run) -> Step:
        """At most `run.count` steps."""

    def read(self, problem: Any, outcome: Outcome) -> Any:
        """The answer: pure, short, valid at any moment."""

    def value(self, state: Any) -> float:
        """How good a state is, larger is better; asked only where there are restarts."""

    # `memory`, where there is one: objects outside of the state that steps change, for checkpoints.


@dataclass(eq=False)
class Outcome:
    """Where one start led, or the best of several."""

    state: Any  # the last one
    status: Status | None = None  # None while it goes on
    residuals: list[float] = field(default_factory=list)  # one per step
    trace: dict[str, list[Any]] = field(default_factory=dict)  # what the algorithm recorded
    number: int = 0  # which start
    values: list[float] = field(default_factory=list)  # at the end of every start, where there are several

    def take(self, step: Step) -> None:
        """Note what a call did."""
        self.residuals.extend(map(float, step.residuals))
        for name, numbers in (step.trace or {}).items():
            self.trace.setdefault(name, []).extend(numbers)
        self.state, self.status = step.state, step.status

    @property
    def last(self) -> float:
        """The last residual."""
        return self.residuals[-1] if self.residuals else UNKNOWN

    @property
    def was_stopped(self) -> bool:
        """Whether somebody or the clock ended it."""
        return self.status in (Status.OUT_OF_TIME, Status.INTERRUPTED)

    @property
    def ended(self) -> Status:
        """Why it ended; asked of a run that goes on: that it may have to stop for want of steps."""
        return self.status or Status.OUT_OF_ITERATIONS


class View:
    """What an observer sees: nothing is computed before it is asked for, and then once.

    Parameters
    ----------
    outcome
        State, residuals and trace so far.
    read
        Computes the answer so far.
    stop
        Ends the run with it.
    ask
        What the algorithm has of this name (`messages`, `parameters`), None where it has none.
    """

    def __init__(
        self,
        outcome: Outcome,
        read: Callable[[], Any],
        stop: Callable[[], None],
        ask: Callable[[str], Any] = lambda name: None,
    ) -> None:
        self.outcome, self.stop, self._read, self._ask = outcome, stop, read, ask

    def mapped(self, back: Callable[[Any], Any]) -> View:
        """The same with another form of the answer."""
        return View(self.outcome, lambda: back(self._read()), self.stop, self._ask)

    @cached_property
    def _result(self) -> Any:
        return self._read()

    def result(self) -> Any:
        """The answer so far."""
        return self._result

    @property
    def residual(self) -> float | None:
        """What should vanish at the answer; None before it is known."""
        return self.outcome.last if self.outcome.last < UNKNOWN else None

    @property
    def beliefs(self) -> Any:
        """Marginals so far."""
        return getattr(self.result(), "marginals", None)

    @property
    def log_z(self) -> Any:
        """Log Z or the value of the maximisation so far, an `Estimate` that says what it guarantees."""
        return getattr(self.result(), "log_z", None)

    @property
    def bound(self) -> float | None:
        """The bound proven so far, from above or below as `log_z.kind` says."""
        value = self.log_z
        return value.value if value is not None and value.kind != "estimate" else None

    @property
    def energy(self) -> float | None:
        """Minus the score of the states so far, or the free energy, minus log Z; else the last one traced."""
        value = getattr(self.result(), "score", None) or self.log_z
        if value is not None:
            return -float(value.value)
        traced = self.outcome.trace.get("energy")
        return float(traced[-1]) if traced else None

    @cached_property
    def messages(self) -> Any:
        """(factor, variable) -> log message, on the conditioned model, of methods that pass them on edges."""
        return self._ask("messages")

    @cached_property
    def parameters(self) -> Any:
        """What a learner changes, so far: arrays or a model."""
        return self._ask("parameters")


Observer = Callable[[int, View], None]


def drive(
    algorithm: Any,
    problem: Any,
    budget: Budget,
    rng: Any = None,
    *,
    restarts: int = 1,
    whole: bool = True,
    state: Any = None,
    on_step: Observer | None = None,
) -> Any:
    """Step until the residual is below `tol`, the budget is used up, or somebody stops it; then the answer.

    Parameters
    ----------
    algorithm
        Something `Iterative`.
    problem
        What it is given with every call.
    budget, rng
        Limits, and the one generator.
    restarts
        How many starts; the best by `value` is read.
    whole
        Whether a step counts only when it is finished.
    state
        Where to go on from, instead of a start.
    on_step
        Called as `on_step(iteration, view)` between steps, ten times a second at most.
    """
    with Run(budget, rng, whole=whole) as run:
        on_step = on_step or run.take_observer()
        run.is_traced = getattr(on_step, "asks_trace", False)
        outcome = Work(algorithm, problem, run, on_step, restarts).run_all(state)
        if outcome.was_stopped and run.outer is not None and (status := run.outer.ended()) is not None:
            raise Stopped(status)  # somebody further out answers
        with unwatched():
            found = algorithm.read(problem, outcome)
        if isinstance(found, Result) and not (found.status.is_success or found.hint):
            found = found.but(hint=advice(found.status, outcome.residuals, getattr(algorithm, "remedy", "")))
        return found


class Work:
    """One call of `drive`."""

    def __init__(
        self, algorithm: Any, problem: Any, run: Run, on_step: Observer | None, restarts: int
    ) -> None:
        self.algorithm, self.problem, self.run, self.restarts = algorithm, problem, run, restarts
        # Where steps are runs, an observer is for those.
        self.inside = on_step if getattr(algorithm, "steps_are_runs", False) else None
        self.on_step: Observer = on_step if on_step is not None and self.inside is None else _nobody
        self.keep: Checkpoint | None = run.take_checkpoint()
        self.values: list[float] = []
        self.best: Outcome | None = None

    @property
    def memory(self) -> tuple[Any, ...]:
        """What the algorithm changes besides its state."""
        return getattr(self.algorithm, "memory", ())

    @property
    def _shows_time(self) -> bool:
        """Whether the time limits the run, and not the number of its steps."""
        many = self.run.budget.max_iter * self.restarts > _ENDLESS
        return many or getattr(self.algorithm, "shows_time", False)

    def run_all(self, state: Any) -> Outcome:
        """Every start in turn; the best, under the status of the last one if that was cut."""
        from ..core.progress import Progress  # an answer in one step has no bar

        restarts = self.restarts
        steps = self.run.budget.max_iter * restarts
        with Progress(self.algorithm.name, self.run.given if self._shows_time else steps) as bar:
            self.bar = bar
            resumed = None if self.keep is None else self.keep.resume(self, state)
            for number in range(resumed.number if resumed else 0, restarts):
                try:
                    at, resumed = resumed or self.begin(number, state), None
                except (Stopped, KeyboardInterrupt) as stopped:
                    if self.best is None:
                        raise
                    self.best.status = self._answer(stopped)
                    break
                self._climb(at)
                if restarts > 1:
                    self.values.append(self.algorithm.value(at.state))
                if self.best is None or self.values[-1] > self.values[self.best.number]:
                    self.best = at
                if at.was_stopped:
                    self.best.status = at.status
                    break
        if self.keep is not None:
            self.keep.finish(self)
        assert self.best is not None
        self.best.values = self.values
        return self.best

    def begin(self, number: int, state: Any) -> Outcome:
        """The first state of a start."""
        if self.keep is not None:
            self.keep.before_start(self.run.rng)
        self.run.number, self.run.has_begun = number, self.best is not None
        self.run.on_step = self.inside
        first = Step(state) if state is not None else self.algorithm.start(self.problem, self.run)
        self.run.has_begun = True
        at = Outcome(None, number=number)
        at.take(first)
        return at

    def _climb(self, at: Outcome) -> None:
        """Steps from one start. Nothing but `advance` can be cut: what is known stays whole."""
        run, most, look, keep, is_cut = self.run, self.run.budget.max_iter, 0.0, self.keep, False
        try:
            while at.status is None and (left := most - len(at.residuals)) > 0:
                if keep is not None:
                    keep.look(self, at)
                run.count, run.on_step = left, self.inside
                at.take(self.algorithm.advance(self.problem, at.state, run))
                now = perf_counter()
                at.status = at.status or judge(at.last, run.budget.tol) or run.ended(now)
                if now >= look:
                    look = now + _THIN
                    self.bar.update(*self._progress(at))
                    self.on_step(len(at.residuals), self._view(at))
                    at.status = at.status or run.ended()  # an observer may stop the run
        except (Stopped, KeyboardInterrupt) as stopped:
            at.status, is_cut = self._answer(stopped), True
        at.status = at.ended
        if keep is not None:
            keep.end(self, at, is_cut)

    def _progress(self, at: Outcome) -> tuple[float, str]:
        """How far the bar is: steps done, or time where steps do not limit the run; and what to say."""
        most = self.run.budget.max_iter
        done = self.run.elapsed if self._shows_time else at.number * most + len(at.residuals)
        return done, f"residual {at.last:.1e}" if at.last < UNKNOWN else ""

    def _answer(self, stopped: BaseException) -> Status:
        """What the run ended with: a state is there, and is the answer."""
        if isinstance(stopped, Stopped):
            return stopped.status
        # The second signal, or one under a handler of others.
        self.run.root.asked = self.run.root.asked or _INTERRUPT
        return Status.INTERRUPTED

    def _reading(self, at: Outcome) -> Callable[[], Any]:
        def read() -> Any:
            with unwatched():
                return getattr(self.algorithm, "show", self.algorithm.read)(self.problem, at)

        return read

    def _view(self, at: Outcome) -> View:
        def ask(name: str) -> Any:
            method = getattr(self.algorithm, name, None)
            return None if method is None else method(self.problem, at.state)

        return View(at, self._reading(at), lambda: self.run.root.note(_INTERRUPT), ask)


def _nobody(iteration: int, view: View) -> None:
    """Who looks where nobody does."""


def advice(status: Status, residuals: Sequence[float], remedy: str = "") -> str:
    """What to do about a run that ended so: only what can help this one.

    A residual that was never known is not changed by `tol`; one that no longer falls is not by more steps.
    """
    if status is Status.DIVERGED:
        return f"a value left the finite range; {remedy + ', or ' if remedy else ''}use another method"
    if status not in _LIMITS:
        return status.advice
    limit, more = _LIMITS[status]
    known = [residual for residual in residuals if residual < UNKNOWN]
    if not known:
        return f"{limit}; raise {more}"
    if len(known) < _SETTLING or min(known[len(known) // 2 :]) < _FALL * min(known[: len(known) // 2]):
        return f"{limit}; raise {more}, or loosen tol"
    others = [*([remedy] if remedy else []), "loosen tol"]
    return f"{limit}, and the change no longer falls; {', '.join(others)}, or use another method"


def judge(last: float, tol: float) -> Status | None:
    """Whether the last residual ends a run; asked by those that take many runs' steps at once, too."""
    if not isfinite(last):
        return Status.DIVERGED
    return Status.CONVERGED if last < tol else None
