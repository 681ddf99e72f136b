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
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from ..core import check
from ..core.errors import ConvergenceError, ConvergenceWarning
from ..core.progress import Progress
from ..core.result import Estimate, Status
from ..core.stopwatch import Stopwatch
from ..inference.base import Budget
from .base import Fit

__all__ = [
    "Climb",
    "Expectation",
    "Prune",
    "VariationalFit",
    "VariationalModel",
    "best_climb",
    "pruner",
    "report",
]

Prune = Literal["unused", "search", "none"]
Again = Callable[[Any], "Climb"]
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


@dataclass
class Climb:
    """One run from one start: the curve, and where it is."""

    q: Any  # the distribution over the parameters
    free_energy: list[float] = field(default_factory=list)  # at the start and after each iteration
    trace: dict[str, list[float]] = field(default_factory=dict)  # what `numbers` said at the same times
    status: Status = Status.OUT_OF_ITERATIONS  # why it stopped

    @property
    def value(self) -> float:
        """The last free energy."""
        return self.free_energy[-1] if self.free_energy else -np.inf

    def record(self, value: float, numbers: dict[str, float]) -> float:
        """Note a free energy; returns the gain."""
        gain = value - self.value
        self.free_energy.append(value)
        for name, number in numbers.items():
            self.trace.setdefault(name, []).append(number)
        return gain


def climb(
    model: VariationalModel,
    start: Any,
    budget: Budget,
    rows: float,
    tick: Callable[[float], None],
    end: float,
) -> Climb:
    """Alternate VB-E and VB-M; q is always the one whose free energy is the last of the curve."""
    found = Climb(start)
    try:
        expected = model.expect(start)
        found.record(expected.log_weight - model.divergence(start), model.numbers(start))
        for _ in range(budget.max_iter):
            q = model.adapt(model.maximise(expected.statistics, found.q))
            expected = model.expect(q)
            value = expected.log_weight - model.divergence(q)
            if not np.isfinite(value):
                found.status = Status.DIVERGED
                return found
            found.q = q
            gain = found.record(value, model.numbers(q))
            tick(value)
            if gain < -_FALL * max(rows, abs(value)) and model.is_monotone():
                found.status = Status.DIVERGED
                return found
            if abs(gain) < budget.tol * rows:
                found.status = Status.CONVERGED
                return found
            if time.perf_counter() > end:
                found.status = Status.OUT_OF_TIME
                return found
    except KeyboardInterrupt:
        found.status = Status.INTERRUPTED
    return found


def best_climb(
    model: VariationalModel,
    starts: Callable[[int], Any],
    *,
    restarts: int,
    budget: Budget,
    rows: float,
    label: str,
    refine: Callable[[Climb, Callable[[Any], Climb]], Climb] | None = None,
) -> tuple[Climb, np.ndarray]:
    """The best of several climbs, and the free energy each of them reached.

    Parameters
    ----------
    model
        The model with its data.
    starts
        Makes the start of each number.
    restarts, budget
        How many starts, and when each of them stops; `tol` is the gain per row that counts as none.
    rows
        How many rows the data have.
    label
        For the progress bar.
    refine
        Changes a finished climb, as pruning does; gets the climb and a function that climbs from a `q`.
    """
    check.whole("restarts", restarts, 1)
    clock = time.perf_counter()
    end = np.inf if budget.seconds is None else clock + budget.seconds
    done, climbs = 0, []
    with Progress(label, restarts * budget.max_iter) as bar:

        def tick(value: float) -> None:
            nonlocal done
            done += 1
            bar.update(min(done, restarts * budget.max_iter), f"{value:.6g}")

        def again(q: Any) -> Climb:
            return climb(model, q, budget, rows, tick, end)

        for number in range(restarts):
            found = again(starts(number))
            if refine is not None and found.status in (Status.CONVERGED, Status.OUT_OF_ITERATIONS):
                found = refine(found, again)
            climbs.append(found)
            done = (number + 1) * budget.max_iter
            if found.status in (Status.INTERRUPTED, Status.OUT_OF_TIME):
                break
    best = max(climbs, key=lambda c: c.value)
    if climbs[-1].status is Status.INTERRUPTED:
        best.status = Status.INTERRUPTED
    return best, np.array([c.value for c in climbs])


def pruner(
    sizes: Callable[[Any], np.ndarray], take: Callable[[Any, np.ndarray], Any], how: Prune
) -> Callable[[Climb, Again], Climb] | None:
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

    def without(found: Climb, kept: np.ndarray, again: Again) -> Climb | None:
        """The climb on, if it ends higher."""
        fewer = take(found.q, kept)
        after = None if fewer is None else again(fewer)
        if after is None or after.value <= found.value:
            return None
        trace = {name: [*found.trace[name], *after.trace[name]] for name in after.trace}
        return Climb(after.q, [*found.free_energy, *after.free_energy], trace, after.status)

    def trials(found: Climb) -> list[np.ndarray]:
        """Which components to keep, one try after another."""
        rows = sizes(found.q)
        used = np.flatnonzero(rows >= _UNUSED)
        first = [used] if 0 < len(used) < len(rows) else []
        if how == "unused" or len(rows) < 2:
            return first
        return [*first, *(np.flatnonzero(np.arange(len(rows)) != k) for k in np.argsort(rows))]

    def refine(found: Climb, again: Again) -> Climb:
        while found.status in (Status.CONVERGED, Status.OUT_OF_ITERATIONS):
            better = (without(found, kept, again) for kept in trials(found))
            found_better = next((one for one in better if one is not None), None)
            if found_better is None:
                return found
            found = found_better
        return found

    return refine


def report(
    best: Climb,
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
