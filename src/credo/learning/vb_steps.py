r"""The steps of variational Bayes: those of EM on distributions over parameters, and pruning between them.

Pruning waits until a run has settled. Then it goes on with fewer components as a *trial*, and where that
settles with a higher free energy F, the trial is the run from there on; otherwise the next trial is made,
until none is left. A trial is one long step of the run: what it does is seen when it has been accepted.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from ..core.records import record
from ..core.result import Estimate, Kind, Status
from ..optimise.driver import UNKNOWN, Outcome, Step, judge
from ..optimise.run import Run
from .base import Fit
from .em_steps import EMProblem, EMRun, EMStart, EMSteps

__all__ = [
    "Prunable",
    "Prune",
    "PruningSteps",
    "Variational",
    "posterior_fit",
]

Prune = Literal["unused", "search"]
_UNUSED = 0.5  # a component with fewer expected rows than this explains nothing


class Variational(EMProblem):
    """A problem whose parameters are a posterior: it has `divergence`, `mean` and `movement`."""

    def log_prior(self, parameters: Any) -> float:
        """What the free energy has besides the log weight: minus KL of the posterior to the prior."""
        return -float(parameters.divergence())

    def made(self, parameters: Any) -> Any:
        """The model with expected parameters."""
        return parameters.mean()

    def movement(self, old: Any, new: Any) -> float:
        """The largest change of a parameter of the expected model; see `Family.movement` for the units."""
        return float(old.movement(new))


class Prunable(Variational):
    """A problem whose posteriors have components that can be left out."""

    @abc.abstractmethod
    def sizes(self, parameters: Any, statistics: Any) -> np.ndarray:
        """Expected rows of each component."""

    @abc.abstractmethod
    def fewer(self, parameters: Any, kept: np.ndarray) -> Any:
        """The posterior of some components, with all rows divided among them; None if that is impossible."""


@record("vb trial")
class _Trial(NamedTuple):
    """A run with fewer components."""

    state: Any  # of EM
    number: int  # of the trials with what was found
    residuals: tuple[float, ...] = ()  # of its steps
    trace: dict[str, list[float]] | None = None  # of its steps


@record("vb pruning")
class _State(NamedTuple):
    """What was found, and the trial under way."""

    found: Any  # state of EM
    residual: float = UNKNOWN  # of the last step to what was found
    trial: _Trial | None = None


@dataclass(frozen=True)
class PruningSteps(EMSteps):
    """Steps of EM, then trials with fewer components.

    Parameters
    ----------
    name, batch, rate, shown, kept
        As in `EMSteps`.
    prune
        `"unused"`: components without rows are removed; `"search"`: also any other, on trial, smallest first.
    """

    prune: Prune = "unused"

    def begin(self, start: EMStart) -> Step:
        """A state without an E-step."""
        return Step(_State(super().begin(start).state))

    def advance(self, problem: Any, state: Any, run: Run) -> Step:
        """One step of EM: of the run, or of its trial."""
        if state.trial is not None:
            return self._advance_trial(problem, state, state.trial, run)
        step = super().advance(problem, state.found, run)
        return self._settle(problem, step, run)

    def _settle(self, problem: Any, step: Step, run: Run) -> Step:
        """Steps that led to what was found; where it has settled, the first trial begins."""
        residuals, trial = list(step.residuals), None
        last = residuals[-1]
        if step.status is None and judge(last, run.budget.tol) is Status.CONVERGED:
            trial = self._trial(problem, step.state, 0)
        if trial is not None:
            residuals[-1] = UNKNOWN  # it goes on
        return step._replace(state=_State(step.state, last, trial), residuals=residuals)

    def _advance_trial(self, problem: Any, state: _State, trial: _Trial, run: Run) -> Step:
        step = super().advance(problem, trial.state, run)
        old = trial.trace or {}
        trace = {name: [*old.get(name, ()), *more] for name, more in (step.trace or {}).items()}
        trial = _Trial(step.state, trial.number, (*trial.residuals, *step.residuals), trace)
        last = trial.residuals[-1] if trial.residuals else UNKNOWN
        is_over = step.status is not None or judge(last, run.budget.tol) is not None
        if not is_over and len(trial.residuals) < run.budget.max_iter:
            return Step(state._replace(trial=trial))
        if step.status is not Status.DIVERGED and step.state.objective > state.found.objective:
            return self._settle(problem, Step(step.state, trial.residuals, trace), run)
        after = self._trial(problem, state.found, trial.number + 1)
        return Step(state._replace(trial=after), [] if after is not None else [state.residual])

    def _trial(self, problem: Any, found: Any, number: int) -> _Trial | None:
        """The first trial of this number or above that is possible."""
        trials = self._kept(problem.sizes(found.parameters, found.statistics))
        for at in range(number, len(trials)):
            fewer = problem.fewer(found.parameters, trials[at])
            if fewer is not None:
                return _Trial(super().begin(EMStart(fewer)).state, at)
        return None

    def _kept(self, rows: np.ndarray) -> Sequence[np.ndarray]:
        """Which components to keep, one trial after another."""
        used = np.flatnonzero(rows >= _UNUSED)
        first = [used] if 0 < len(used) < len(rows) else []
        if self.prune == "unused" or len(rows) < 2:
            return first
        return [*first, *(np.flatnonzero(np.arange(len(rows)) != k) for k in np.argsort(rows))]

    def value(self, state: Any) -> float:
        """How good a start was."""
        return super().value(state.found)

    def parameters(self, problem: Any, state: Any) -> Any:
        """For observers."""
        return super().parameters(problem, state.found)

    def read(self, problem: Any, outcome: Outcome) -> EMRun:
        """Where it led, without a trial that has not been accepted."""
        return super().read(problem, replace(outcome, state=outcome.state.found))


def posterior_fit(fit: Fit, found: EMRun, kind: Kind = "lower") -> Fit:
    """The fit of a run on posteriors: its objective is the free energy, `model` has expected parameters.

    The log weight is no likelihood; that of the expected model is not computed.
    """
    trace = {name: curve for name, curve in fit.trace.items() if name != "log_likelihood"}
    trace["free_energy"] = np.array(found.objective)
    evidence = Estimate(float(found.value), kind)
    return replace(fit, log_likelihood=None, trace=trace, posterior=found.parameters, evidence=evidence)
