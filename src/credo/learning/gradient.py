"""What the learners of weights share: options, the climb from the model's weights, and what is reported.

A learner says where its statistics come from (`sees`), and everything else is here: which weights there are,
the prior, the optimiser, batches, validation and early stopping, and states of hidden variables that are
alike at the start.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..core import check
from ..core.errors import OptionError
from ..core.result import Estimate
from ..data.table import MISSING, StateTable
from ..inference.problem.base import Algorithm
from ..optimise.optimisers import Optimiser, optimiser_of
from .ascent import Ascent, Climbed, break_symmetry
from .base import Fit, Learner, Task
from .expectations import Oracle
from .hybrid_source import HybridLikelihood, HybridRows
from .label_sources import ChainLikelihood, GraphLikelihood
from .log_linear import Objective, StatisticsSource
from .parameters import NOT_DECLARED, Parameters, why_not_linear
from .priors import Prior, prior_of
from .runs import completed
from .table_sources import Likelihood

__all__ = ["Aim", "GradientLearner", "likelihood_source", "weights_of"]


class Aim(NamedTuple):
    """What one kind of gradient learning looks at."""

    objective: Objective  # what is climbed
    watched: Objective | None = None  # what the curves show, if not the objective itself
    curve: str = "log_likelihood"  # the name of what they show
    oracle: Oracle | None = None  # of a likelihood, which is told in the fit


def weights_of(task: Task, tie: Any = None, fixed: Any = ()) -> Any:
    """The model of a task as a vector of weights: its own offer, or that of its tables."""
    if hasattr(task.model, "score_weights"):
        if tie is not None or tuple(fixed):
            raise OptionError(f"tie, fixed: {task.name} says itself which of its weights are one; leave out")
        return task.model.score_weights(task.data)
    return Parameters.of(task.model, tie=tie, fixed=fixed)


def likelihood_source(weights: Any, batch: Any, oracle: Oracle) -> StatisticsSource:
    """The log-likelihood of rows, of labelled sequences, or of labelled graphs."""
    if isinstance(batch, StateTable):
        return Likelihood(weights.graph, oracle)
    if isinstance(batch, HybridRows):
        return HybridLikelihood(oracle)
    return GraphLikelihood(oracle) if hasattr(batch, "graphs") else ChainLikelihood()


@dataclass(frozen=True, kw_only=True)
class GradientLearner(Learner):
    """Gradient ascent on a mean over rows, plus a prior, in the weights of a model."""

    checkpoints: ClassVar[bool] = True
    optimiser: str | Optimiser = "lbfgs"  # lbfgs, adam(...), sgd(...)
    prior: str | Prior | None = None  # gaussian(...), laplace(...), elastic(...)
    batch: int | None = None  # rows per step of a stochastic optimiser
    tie: Any = None  # which tables are one: None, "shape", or lists of factor positions
    fixed: tuple[int, ...] = ()  # factors that are not learned
    patience: int | None = None  # iterations without a better validation value before stopping

    def __post_init__(self) -> None:
        """Check the options."""
        optimiser_of(self.optimiser)
        prior_of(self.prior)
        for name, value in (("batch", self.batch), ("patience", self.patience)):
            if value is not None:
                check.whole(name, value, 1)

    @abc.abstractmethod
    def sees(self, task: Task, weights: Any, rng: np.random.Generator) -> Aim:
        """What is climbed, and what is shown."""

    def weights(self, task: Task) -> Any:
        """The model of a task as a vector of weights."""
        return weights_of(task, self.tie, self.fixed)

    def begin(self, task: Task, weights: Any, rng: np.random.Generator) -> tuple[np.ndarray, str | None]:
        """Where to start, and a sentence where that is not where the model is."""
        return _apart(task, weights, rng)

    def notes(self, seen: Aim) -> list[str]:
        """Sentences about the run."""
        return [] if seen.oracle is None else seen.oracle.report()

    def why_not(self, task: Task) -> str | None:
        """Models of weights, any data."""
        if isinstance(task.data, HybridRows) and not getattr(task.model, "declared", ()):
            return NOT_DECLARED
        return None if hasattr(task.model, "score_weights") else why_not_linear(task.model)

    def run(self, task: Task, rng: np.random.Generator) -> Fit:
        """Climb, then evaluate the weights that are returned."""
        task = _as_asked(task)
        weights = self.weights(task)
        seen = self.sees(task, weights, rng)
        start, note = self.begin(task, weights, rng)
        ascent = Ascent(
            seen.objective, prior_of(self.prior), optimiser_of(self.optimiser), task.data, task.validation,
            seen.watched, self.batch, self.patience, self.name,
        )  # fmt: skip
        climbed = ascent.run(start, task.budget, rng)
        trace = dict(climbed.trace)
        trace[seen.curve] = trace.pop("log_likelihood")
        notes = ([note] if note else []) + self.notes(seen)
        found = Fit(
            weights.model(climbed.weights), climbed.status, trace["objective"], None, trace,
            notes=tuple(notes), stopped_early=climbed.stopped_early,
        )  # fmt: skip
        if seen.oracle is None or not len(trace[seen.curve]):
            return found  # no likelihood, or stopped before the first value was known
        return completed(found, _Valued(ascent, climbed, seen.oracle, task.data))


class _Valued:
    """A fit with the log-likelihood of the weights that are returned."""

    def __init__(self, ascent: Ascent, climbed: Climbed, oracle: Oracle, data: Any) -> None:
        self.ascent, self.climbed, self.oracle, self.data = ascent, climbed, oracle, data

    def __call__(self, found: Fit) -> Fit:
        value = float(self.climbed.trace["log_likelihood"][-1])
        if self.ascent.patience is not None or self.ascent.optimiser.is_stochastic:
            value = self.ascent.objective.value(self.climbed.weights, self.data)  # not the last of the curve
        kind = self.oracle.kind(self.data.is_complete)
        return replace(found, log_likelihood=Estimate(value * self.data.total, kind))


def _as_asked(task: Task) -> Task:
    """Sequences as graphs where a method for graphs was named."""
    method: str | Algorithm | None = task.inference
    if method is None or not hasattr(task.data, "as_graphs"):
        return task
    size = len(task.model.labels)
    held = None if task.validation is None else task.validation.as_graphs(size)
    return replace(task, data=task.data.as_graphs(size), validation=held)


def _apart(task: Task, weights: Any, rng: np.random.Generator) -> tuple[np.ndarray, str | None]:
    """Where to start: small random weights where hidden states could not be told apart for ever."""
    if isinstance(task.data, StateTable):
        hidden = task.data.variables.positions(task.data.hidden)
        return break_symmetry(weights.graph_at(weights.start), hidden, weights.start, rng)
    if isinstance(task.data, HybridRows):
        return weights.start, None
    if not (task.data.labels == MISSING).any() or weights.start.any():
        return weights.start, None
    return 0.01 * rng.standard_normal(len(weights.start)), (
        "some labels are missing and all weights were zero, where labels cannot be told apart: learning "
        "started at small random numbers"
    )
