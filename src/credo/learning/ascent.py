"""The one loop of the gradient learners: an objective, a prior, an optimiser, and what is kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import DataError, ImpossibleRowError, OptionError
from ..core.factor_graph import FactorGraph
from ..core.records import record
from ..core.result import Status
from ..optimise import driver
from ..optimise.optimisers import Look, Loss, Optimiser, Step
from ..optimise.run import Budget, Run
from .priors import Prior
from .runs import arrays

__all__ = ["Ascent", "Climbed", "break_symmetry"]


class Climbed(NamedTuple):
    """Where an ascent led."""

    weights: np.ndarray
    status: Status
    trace: dict[str, np.ndarray]  # one number per iteration and curve
    stopped_early: bool  # whether patience with the validation value ended it


@dataclass(frozen=True)
class Ascent:
    """Maximise a mean over rows plus a prior; every iteration's numbers are kept.

    With `patience`, learning stops after so many iterations without a better validation value and
    returns the weights of the best one; otherwise the last weights are returned.
    """

    objective: Any  # what is maximised: an Objective, on whatever rows
    prior: Prior  # added to the sum over rows
    optimiser: Optimiser  # what moves the weights
    data: Any  # rows to learn from: anything with `total`, a length and `batches`, as StateTable
    validation: Any = None  # rows to watch only
    watched: Any = None  # what the curves show, if not the objective itself
    batch: int | None = None  # rows per step of a stochastic optimiser
    patience: int | None = None  # iterations without a better validation value
    label: str = "likelihood"  # of the progress bar

    def run(self, start: np.ndarray, budget: Budget, rng: np.random.Generator) -> Climbed:
        """Climb from `start`."""
        self._check()
        steps = _Steps(self, start, self._loss(rng))
        return driver.drive(steps, None, self.optimiser.limits(budget), rng)  # type: ignore[no-any-return]

    def _check(self) -> None:
        if self.patience is not None and self.validation is None:
            raise OptionError("patience: early stopping needs validation data; give validation=...")
        if self.batch is not None and not self.optimiser.is_stochastic:
            raise OptionError(
                f"batch: {self.optimiser.name} uses all rows at each step; use optimiser=adam or sgd"
            )

    def _loss(self, rng: np.random.Generator) -> Loss:
        total, mean = self.data.total, self.data.total / len(self.data)

        def on(rows: Any) -> Step:
            # Rows may weigh more or less than others: what a batch says counts by its weight per row.
            share = 1.0 if rows is self.data else rows.total / len(rows) / mean

            def step(weights: np.ndarray) -> tuple[float, np.ndarray]:
                extra, slope = self.prior.smooth(weights)
                if not share:
                    return -extra / total, np.zeros_like(weights) - slope / total
                value, gradient = self.objective.evaluate(weights, rows)
                down = -share * gradient
                is_flat = isinstance(slope, float)  # millions of zeros take a while
                return -share * value - extra / total, down if is_flat else down - slope / total

            return step

        def batches() -> Iterator[Step]:
            return map(on, self.data.batches(self.batch, rng))

        return Loss(on(self.data), batches, self.prior.strength() / total)

    def numbers(self, look: Look, seconds: float) -> dict[str, list[float]]:
        """The curves at a place."""
        objective, prior = -look.value, self.prior.value(look.weights) / self.data.total
        likelihood = objective - prior
        if self.watched is not None:
            likelihood = self.watched.value(look.weights, self.data)
            objective = likelihood + prior
        steepness = float(np.abs(look.gradient).max(initial=0.0))
        found = {"objective": objective, "log_likelihood": likelihood, "gradient": steepness}
        if self.validation is not None:
            found["validation"] = self._held(look.weights)
        return {name: [number] for name, number in found.items()} | {"seconds": [seconds]}

    def _held(self, weights: np.ndarray) -> float:
        try:
            return float((self.watched or self.objective).value(weights, self.validation))
        except ImpossibleRowError as error:
            if self.patience is not None:  # there would be nothing to choose by
                raise DataError(f"validation {error}") from None
            return -np.inf


@record("ascent")
class _State(NamedTuple):
    """Where the optimiser is, and what would be returned."""

    weights: np.ndarray
    inner: Any = None  # of the optimiser; None before the start is evaluated
    best: float = -np.inf  # validation value of the weights
    since: int = 0  # iterations without a better one


class _Steps:
    """An ascent as the driver sees it."""

    def __init__(self, ascent: Ascent, first: np.ndarray, loss: Loss) -> None:
        self._ascent, self._first, self._loss, self.name = ascent, first, loss, ascent.label
        self.memory = getattr(ascent.objective, "memory", ())

    def start(self, problem: None, run: Run) -> driver.Step:
        return driver.Step(_State(self._first.copy()))

    def advance(self, problem: None, state: _State, run: Run) -> driver.Step:
        ascent = self._ascent
        if state.inner is None:
            step = ascent.optimiser.begin(self._loss, self._first)
        else:
            step = ascent.optimiser.advance(self._loss, state.inner, run)
        if step.state is state.inner:  # it found no way on
            return driver.Step(state, step.residuals, status=step.status)
        look = step.state[0]
        trace = ascent.numbers(look, run.elapsed)
        new = _State(look.weights, step.state)
        if ascent.patience is None:
            return driver.Step(new, step.residuals, trace, step.status)
        held = trace["validation"][0]
        if held > state.best:
            return driver.Step(new._replace(best=held), step.residuals, trace, step.status)
        late = state.since + 1 >= ascent.patience
        new = state._replace(inner=step.state, since=state.since + 1)
        return driver.Step(new, step.residuals, trace, Status.STALLED if late else step.status)

    def parameters(self, problem: None, state: _State) -> np.ndarray:
        return state.weights

    def read(self, problem: None, outcome: driver.Outcome) -> Climbed:
        names = ["objective", "log_likelihood", "gradient", "seconds"]
        names += ["validation"] * (self._ascent.validation is not None)
        patience, since = self._ascent.patience, outcome.state.since
        early = patience is not None and since >= patience and outcome.status is Status.STALLED
        return Climbed(outcome.state.weights, outcome.ended, arrays(outcome.trace, names), early)


def break_symmetry(
    graph: FactorGraph, hidden: np.ndarray, weights: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, str | None]:
    """Random weights where a hidden variable's states cannot be told apart, and a sentence about it.

    At such a point the gradient treats all those states alike, and no step ever separates them.
    """
    for i in hidden:
        around = np.flatnonzero(graph.scope == i)
        if graph.variables.sizes[i] > 1 and all(_is_flat(graph, int(e)) for e in around):
            name = graph.variables.names[int(i)]
            noise = 0.1 * rng.standard_normal(len(weights))
            return weights + noise, (
                f"the states of the hidden variable '{name}' were alike at the start: small random "
                "numbers were added to all weights"
            )
    return weights, None


def _is_flat(graph: FactorGraph, edge: int) -> bool:
    """Whether a factor's table is the same for all states of the variable of this edge."""
    a = int(np.searchsorted(graph.scope_start, edge, side="right")) - 1
    table = np.moveaxis(graph.log_table(a), edge - int(graph.scope_start[a]), 0)
    return bool((table == table[:1]).all())
