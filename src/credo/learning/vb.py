r"""Variational Bayes EM: a distribution over the parameters instead of one best value.

    log p(X) >= F(q_z, q_theta) = E[log p(X, Z | theta)] + H[q_z] - KL(q_theta || prior)

For conjugate-exponential models both steps are in closed form:

    VB-E    q_z     ~ exp E_theta[log p(X, Z | theta)]       the ordinary E-step at E[natural parameters]
    VB-M    q_theta = prior + E_z[sufficient statistics]     the conjugate update
    hyper   prior  <- argmax F                               where asked for

Every step raises F, which bounds the log evidence from below; the difference is KL(q || posterior). F is
known after each E-step at no cost:

    F = log_weight - divergence,   log_weight = log sum_z exp E_theta[log p(X, z | theta)]

F has many maxima: `restarts` begins anew several times and keeps the best. A fall that rounding cannot
explain ends a run as diverged: it would mean that a family breaks the contract.
"""

from __future__ import annotations

import abc
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from ..core import check
from ..core.errors import ConvergenceError, ConvergenceWarning
from ..core.result import Estimate, Kind, Status
from ..core.stopwatch import Stopwatch
from ..optimise.budgets import with_start
from ..optimise.driver import UNKNOWN, Outcome, Step, drive
from ..optimise.run import Budget, Run
from .base import Fit
from .em_data import Expected
from .em_steps import EMProblem, EMRun, EMStart, EMSteps, fit_of, run_em

__all__ = [
    "Prune",
    "VariationalModel",
    "posterior_fit",
    "pruner",
    "report",
    "run_vb",
    "warn_unless_converged",
]

Prune = Literal["unused", "search", "none"]
Again = Callable[[Any], EMRun]
Refine = Callable[[EMRun, Again], EMRun]
_UNUSED = 0.5  # a component with fewer expected rows than this explains nothing


class VariationalModel(EMProblem):
    """A conjugate-exponential model together with its data; its parameters `q` describe q(theta)."""

    @abc.abstractmethod
    def expect(self, q: Any) -> Expected:
        """The VB-E step; the log weight is log sum over z of exp E[log p(X, z | theta)]."""

    @abc.abstractmethod
    def divergence(self, q: Any) -> float:
        """KL of q(theta) to the prior."""

    @abc.abstractmethod
    def maximise(self, statistics: Any, q: Any) -> Any:
        """The VB-M step."""

    def log_prior(self, q: Any) -> float:
        """What the free energy has besides the log weight."""
        return -self.divergence(q)

    def made(self, q: Any) -> Any:
        """The model with expected parameters."""
        return q.mean()

    def movement(self, q: Any, new: Any) -> float:
        """The largest change of a parameter of the expected model; see `Family.movement` for the units."""
        return float(q.mean().movement(new.mean()))


@dataclass(frozen=True)
class _Refined:
    """A run and its refinement as one step."""

    steps_are_runs: ClassVar[bool] = True
    name: str
    again: Again
    refine: Refine

    def start(self, problem: VariationalModel, run: Run) -> Step:
        return Step(EMRun(problem.start(run.rng, run.number).parameters))

    def advance(self, problem: VariationalModel, state: EMRun, run: Run) -> Step:
        found = self.again(state.parameters)
        if found.status in (Status.CONVERGED, Status.OUT_OF_ITERATIONS):
            found = self.refine(found, self.again)
        return Step(found, [UNKNOWN], status=found.status)

    def value(self, state: EMRun) -> float:
        return state.value

    def read(self, problem: VariationalModel, outcome: Outcome) -> EMRun:
        found: EMRun = outcome.state
        return replace(found, status=outcome.ended, values=np.array(outcome.values or [found.value]))


def run_vb(
    problem: VariationalModel,
    budget: Budget,
    rng: np.random.Generator,
    *,
    name: str,
    restarts: int = 1,
    refine: Refine | None = None,
) -> EMRun:
    """The best of several runs of variational Bayes.

    Parameters
    ----------
    problem
        The model with its data.
    budget, rng
        When each run stops, `tol` being the `movement` that counts as none; the one generator.
    name
        For the progress bar.
    restarts
        How many runs.
    refine
        Changes a finished run, as pruning does; gets the run and a function that goes on from a `q`.
    """
    check.whole("restarts", restarts, 1)
    if refine is None:
        return run_em(problem, budget, rng, name=name, restarts=restarts)

    def again(q: Any) -> EMRun:
        steps = EMSteps(name)
        first = steps.begin(EMStart(q)).state
        return drive(steps, problem, with_start(budget), rng, state=first)  # type: ignore[no-any-return]

    # What a run has found counts even where its refinement is cut.
    whole = replace(budget, max_iter=1)
    return drive(  # type: ignore[no-any-return]
        _Refined(name, again, refine), problem, whole, rng, restarts=restarts, whole=False
    )


def pruner(
    sizes: Callable[[Any], np.ndarray], take: Callable[[Any, np.ndarray], Any], how: Prune
) -> Refine | None:
    """What removes components from a finished run and goes on, for `run_vb`.

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

    def joined(found: EMRun, after: EMRun) -> EMRun:
        trace = {name: [*found.trace[name], *after.trace[name]] for name in after.trace}
        return replace(after, objective=[*found.objective, *after.objective], trace=trace)

    def trials(found: EMRun) -> list[np.ndarray]:
        """Which components to keep, one try after another."""
        rows = sizes(found.parameters)
        used = np.flatnonzero(rows >= _UNUSED)
        first = [used] if 0 < len(used) < len(rows) else []
        if how == "unused" or len(rows) < 2:
            return first
        return [*first, *(np.flatnonzero(np.arange(len(rows)) != k) for k in np.argsort(rows))]

    def better(found: EMRun, again: Again) -> EMRun | None:
        """The first run on that ends higher, or what was found where the trials are stopped."""
        for kept in trials(found):
            fewer = take(found.parameters, kept)
            after = None if fewer is None else again(fewer)
            if after is not None and after.value > found.value:
                return joined(found, after)
            if after is not None and after.was_stopped:
                return replace(found, status=after.status)
        return None

    def refine(found: EMRun, again: Again) -> EMRun:
        while not found.was_stopped and found.status is not Status.DIVERGED:
            after = better(found, again)
            if after is None:
                return found
            found = after
        return found

    return refine


def report(
    problem: VariationalModel,
    found: EMRun,
    *,
    label: str,
    watch: Stopwatch,
    strict: bool,
    notes: tuple[str, ...] = (),
    level: int = 4,
) -> Fit:
    """The fit of a run, with a warning (or an error, if `strict`) where it did not converge."""
    if len(found.values) > 1:
        told = found.values.round(4).tolist()
        notes = (*notes, f"the best of {len(found.values)} starts; their free energies: {told}")
    fit = replace(
        posterior_fit(problem, found), learner=label, notes=notes, seconds=watch.seconds,
        compile_seconds=watch.compile_seconds,
    )  # fmt: skip
    warn_unless_converged(fit, label, strict, level)
    return fit


def posterior_fit(problem: VariationalModel, found: EMRun, kind: Kind = "lower") -> Fit:
    """The fit of a run: its objective is the free energy per row, `model` has expected parameters.

    The log weight is no likelihood; that of the expected model is not computed.
    """
    fit = fit_of(problem, found)
    trace = {name: curve for name, curve in fit.trace.items() if name != "log_likelihood"}
    trace["free_energy"] = np.array(found.objective)
    evidence = Estimate(float(found.value), kind)
    return replace(fit, log_likelihood=None, trace=trace, posterior=found.parameters, evidence=evidence)


def warn_unless_converged(found: Fit, label: str, strict: bool, level: int) -> None:
    """What every call does with a run that did not converge."""
    if found.status.is_success:
        return
    if strict:
        raise ConvergenceError(f"{label}: {found.advice}")
    warnings.warn(f"{label}: {found.advice}", ConvergenceWarning, stacklevel=level)
