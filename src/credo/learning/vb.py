r"""Variational Bayes EM: a distribution over the parameters instead of one best value.

    log p(X) >= F(q_z, q_theta) = E[log p(X, Z | theta)] + H[q_z] - KL(q_theta || prior)

For conjugate-exponential models both steps are in closed form:

    VB-E    q_z     ~ exp E_theta[log p(X, Z | theta)]       the ordinary E-step at E[natural parameters]
    VB-M    q_theta = prior + E_z[sufficient statistics]     the conjugate update
    hyper   prior  <- argmax F                               where asked for

Every step raises F, which bounds the log evidence from below; the difference is KL(q || posterior). F is
known after each E-step at no cost:

    F = log_weight - divergence,   log_weight = log sum_z exp E_theta[log p(X, z | theta)]

F has many maxima: `restarts` climbs from several starts and keeps the best. A fall that rounding cannot
explain ends a run as diverged: it would mean that a family breaks the contract.
"""

from __future__ import annotations

import abc
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ..core import check
from ..core.errors import ConvergenceError, ConvergenceWarning
from ..core.result import Estimate, Status
from ..core.stopwatch import Stopwatch
from ..optimise.budgets import with_start
from ..optimise.driver import UNKNOWN, Outcome, Step, drive
from ..optimise.run import Budget, Run
from .base import Fit

__all__ = [
    "Expectation",
    "PosteriorClimb",
    "PosteriorStart",
    "Prune",
    "VariationalFit",
    "VariationalModel",
    "best_climb",
    "pruner",
    "report",
]

Prune = Literal["unused", "search", "none"]
Again = Callable[[Any], "PosteriorClimb"]
Refine = Callable[["PosteriorClimb", Again], "PosteriorClimb"]
_CURVE = "free_energy"  # its name in the trace of a run
_UNUSED = 0.5  # a component with fewer expected rows than this explains nothing
_FALL = 1e-9  # relative fall of the free energy that rounding explains


class Expectation(NamedTuple):
    """What a VB-E step finds."""

    log_weight: float  # log sum_z exp E[log p(X, z | theta)]
    statistics: Any  # what the VB-M step needs


class VariationalModel(abc.ABC):
    """A conjugate-exponential model together with its data; `q` is whatever describes q(theta)."""

    @abc.abstractmethod
    def expect(self, q: Any) -> Expectation:
        """The VB-E step."""

    @abc.abstractmethod
    def divergence(self, q: Any) -> float:
        """KL of q(theta) to the prior."""

    @abc.abstractmethod
    def maximise(self, statistics: Any, q: Any) -> Any:
        """The VB-M step."""

    def adapt(self, q: Any) -> Any:
        """The step of the hyper-parameters, which `q` carries; none by default."""
        return q

    def is_monotone(self) -> bool:
        """Whether F must rise; not so where the E-step is approximate."""
        return True

    def numbers(self, q: Any) -> dict[str, float]:
        """What the trace shall show after each step."""
        return {}

    def movement(self, q: Any, new: Any) -> float:
        """The largest change of a parameter of the expected model; see `Family.movement` for the units."""
        return float(q.mean().movement(new.mean()))


@dataclass(frozen=True, repr=False)
class VariationalFit(Fit):
    """A fit whose objective is the free energy per row, with the distribution over the parameters.

    `model` has the expected parameters; `log_likelihood` is that of this model, where it was computed.
    """

    posterior: Any = None  # the distribution over the parameters
    evidence: Estimate | None = None  # the free energy: below the log evidence of the data
    free_energy: np.ndarray = field(default_factory=lambda: np.empty(0))  # total, at every step

    def _run(self) -> Iterable[str]:
        yield from super()._run()
        if self.evidence is not None:
            yield f"log evidence {self.evidence}"


@dataclass(frozen=True, eq=False)
class PosteriorClimb:
    """One run from one start: the curve, and where it led."""

    q: Any  # the distribution over the parameters
    free_energy: list[float] = field(default_factory=list)  # at the start and after each iteration
    trace: dict[str, list[float]] = field(default_factory=dict)  # what `numbers` said at the same times
    status: Status = Status.OUT_OF_ITERATIONS  # why it stopped

    @property
    def value(self) -> float:
        """The last free energy."""
        return self.free_energy[-1] if self.free_energy else -np.inf

    @property
    def was_stopped(self) -> bool:
        """Whether somebody or the clock ended it."""
        return self.status in (Status.INTERRUPTED, Status.OUT_OF_TIME)


class PosteriorStart(NamedTuple):
    """A start that takes work: what to answer with at once, and how to get what to climb from."""

    q: Any
    prepare: Callable[[], Any]


class _State(NamedTuple):
    """A distribution over the parameters, and what the VB-E step said about it."""

    q: Any
    statistics: Any = None
    value: float = -np.inf  # its free energy
    is_evaluated: bool = False
    prepare: Callable[[], Any] | None = None  # gives the `q` of the first step


@dataclass(frozen=True)
class _Steps:
    """VB-M and VB-E as the driver sees them; the first step is a VB-E step alone.

    The residual is how far the step moved the parameters, see `VariationalModel.movement`.
    """

    name: str
    rows: float
    starts: Callable[[int], Any]

    def start(self, model: VariationalModel, run: Run) -> Step:
        first = self.starts(run.number)
        if isinstance(first, PosteriorStart):
            return Step(_State(first.q, prepare=first.prepare))
        return Step(_State(first))

    def advance(self, model: VariationalModel, state: _State, run: Run) -> Step:
        if state.is_evaluated:
            q = model.adapt(model.maximise(state.statistics, state.q))
        else:
            q = state.q if state.prepare is None else state.prepare()
        expected = model.expect(q)
        value = expected.log_weight - model.divergence(q)
        if state.is_evaluated and not np.isfinite(value):
            return Step(state, [UNKNOWN], status=Status.DIVERGED)
        gain = value - state.value
        fell = gain < -_FALL * max(self.rows, abs(value)) and model.is_monotone()
        trace = {name: [number] for name, number in model.numbers(q).items()} | {_CURVE: [value]}
        new = _State(q, expected.statistics, value, True)
        residual = min(model.movement(state.q, q), UNKNOWN) if state.is_evaluated else UNKNOWN
        return Step(new, [residual], trace, Status.DIVERGED if fell else None)

    def value(self, state: _State) -> float:
        return state.value

    def parameters(self, model: VariationalModel, state: _State) -> Any:
        return state.q

    def show(self, model: VariationalModel, outcome: Outcome) -> PosteriorClimb:
        return self.read(model, outcome)[0]

    def read(self, model: VariationalModel, outcome: Outcome) -> tuple[PosteriorClimb, np.ndarray]:
        trace = dict(outcome.trace)
        found = PosteriorClimb(outcome.state.q, trace.pop(_CURVE, []), trace, outcome.ended)
        return found, np.array(outcome.values or [found.value])


@dataclass(frozen=True)
class _Refined:
    """A climb and its refinement as one step."""

    steps_are_runs: ClassVar[bool] = True
    name: str
    starts: Callable[[int], Any]
    again: Again
    refine: Refine

    def start(self, model: VariationalModel, run: Run) -> Step:
        return Step(PosteriorClimb(self.starts(run.number)))

    def advance(self, model: VariationalModel, state: PosteriorClimb, run: Run) -> Step:
        found = self.again(state.q)
        if found.status in (Status.CONVERGED, Status.OUT_OF_ITERATIONS):
            found = self.refine(found, self.again)
        return Step(found, [UNKNOWN], status=found.status)

    def value(self, state: PosteriorClimb) -> float:
        return state.value

    def read(self, model: VariationalModel, outcome: Outcome) -> tuple[PosteriorClimb, np.ndarray]:
        found = replace(outcome.state, status=outcome.ended)
        return found, np.array(outcome.values or [found.value])


def best_climb(
    model: VariationalModel,
    starts: Callable[[int], Any],
    *,
    restarts: int,
    budget: Budget,
    rows: float,
    label: str,
    refine: Refine | None = None,
) -> tuple[PosteriorClimb, np.ndarray]:
    """The best of several climbs, and the free energy each of them reached.

    Parameters
    ----------
    model
        The model with its data.
    starts
        Makes the start of each number: a `q`, or a `PosteriorStart`.
    restarts, budget
        How many starts, and when each of them stops; `tol` is the `movement` that counts as none.
    rows
        How many rows the data have.
    label
        For the progress bar.
    refine
        Changes a finished climb, as pruning does; gets the climb and a function that climbs from a `q`.
    """
    check.whole("restarts", restarts, 1)
    each = with_start(budget)
    if refine is None:
        steps = _Steps(label, rows, starts)
        return drive(steps, model, each, restarts=restarts)  # type: ignore[no-any-return]

    def again(q: Any) -> PosteriorClimb:
        return drive(_Steps(label, rows, lambda number: q), model, each)[0]  # type: ignore[no-any-return]

    # What a climb has found counts even where its refinement is cut.
    whole = replace(budget, max_iter=1)
    refined = _Refined(label, starts, again, refine)
    return drive(refined, model, whole, restarts=restarts, whole=False)  # type: ignore[no-any-return]


def pruner(
    sizes: Callable[[Any], np.ndarray], take: Callable[[Any, np.ndarray], Any], how: Prune
) -> Refine | None:
    """What removes components from a finished climb and climbs on, for `best_climb`.

    Parameters
    ----------
    sizes
        Expected rows of each component under a `q`.
    take
        The `q` of some components, with everything divided among them; None if that is impossible.
    how
        `"unused"`: those without rows; `"search"`: also, on trial and smallest first, any other.
    """
    check.one_of("prune", how, ["unused", "search", "none"])
    if how == "none":
        return None

    def joined(found: PosteriorClimb, after: PosteriorClimb) -> PosteriorClimb:
        trace = {name: [*found.trace[name], *after.trace[name]] for name in after.trace}
        return PosteriorClimb(after.q, [*found.free_energy, *after.free_energy], trace, after.status)

    def trials(found: PosteriorClimb) -> list[np.ndarray]:
        """Which components to keep, one try after another."""
        rows = sizes(found.q)
        used = np.flatnonzero(rows >= _UNUSED)
        first = [used] if 0 < len(used) < len(rows) else []
        if how == "unused" or len(rows) < 2:
            return first
        return [*first, *(np.flatnonzero(np.arange(len(rows)) != k) for k in np.argsort(rows))]

    def better(found: PosteriorClimb, again: Again) -> PosteriorClimb | None:
        """The first climb on that ends higher, or what was found where the trials are stopped."""
        for kept in trials(found):
            fewer = take(found.q, kept)
            after = None if fewer is None else again(fewer)
            if after is not None and after.value > found.value:
                return joined(found, after)
            if after is not None and after.was_stopped:
                return replace(found, status=after.status)
        return None

    def refine(found: PosteriorClimb, again: Again) -> PosteriorClimb:
        while not found.was_stopped and found.status is not Status.DIVERGED:
            after = better(found, again)
            if after is None:
                return found
            found = after
        return found

    return refine


def report(
    best: PosteriorClimb,
    ends: np.ndarray,
    *,
    model: Any,
    posterior: Any,
    rows: float,
    label: str,
    watch: Stopwatch,
    strict: bool,
    notes: tuple[str, ...] = (),
    level: int = 4,
) -> VariationalFit:
    """The fit of a climb, with a warning (or an error, if `strict`) where it did not converge."""
    curve = np.array(best.free_energy)
    trace = {name: np.array(values) for name, values in best.trace.items()}
    if len(ends) > 1:
        notes = (*notes, f"the best of {len(ends)} starts; their free energies: {ends.round(4).tolist()}")
    found = VariationalFit(
        model=model,
        status=best.status,
        objective=curve / rows,
        trace=trace,
        learner=label,
        seconds=watch.seconds,
        compile_seconds=watch.compile_seconds,
        notes=notes,
        restarts=ends / rows,
        posterior=posterior,
        evidence=Estimate(float(best.value), "lower"),
        free_energy=curve,
    )
    warn_unless_converged(found, label, strict, level)
    return found


def warn_unless_converged(found: Fit, label: str, strict: bool, level: int) -> None:
    """What every call does with a run that did not converge."""
    if found.status.is_success:
        return
    if strict:
        raise ConvergenceError(f"{label}: {found.advice}")
    warnings.warn(f"{label}: {found.advice}", ConvergenceWarning, stacklevel=level)
