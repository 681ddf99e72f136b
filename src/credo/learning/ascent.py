"""The one loop of the gradient learners: an objective, a prior, an optimiser, and what is kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core.errors import DataError, ImpossibleRowError, OptionError
from ..core.factor_graph import FactorGraph
from ..core.progress import Progress
from ..core.result import Status
from ..inference.base import Budget
from .optimisers import Loss, Optimiser, Step, Stop
from .priors import Prior

__all__ = ["Ascent", "break_symmetry"]


@dataclass
class Ascent:
    """Maximise a mean over rows plus a prior; keeps every iteration's numbers, and the best weights.

    With `patience`, learning stops after so many iterations without a better validation value and
    returns the weights of the best one; otherwise the last weights are returned.
    """

    objective: Any  # what is maximised: an Objective, on whatever rows
    prior: Prior  # added to the sum over rows
    optimiser: Optimiser  # what moves the weights
    data: Any  # rows to learn from: anything with `total`, a length and `batches`, as Observations
    validation: Any = None  # rows to watch only
    watched: Any = None  # what the curves show, if not the objective itself
    batch: int | None = None  # rows per step of a stochastic optimiser
    patience: int | None = None  # iterations without a better validation value
    label: str = "likelihood"  # of the progress bar
    weights: np.ndarray = field(init=False)  # what is returned
    trace: dict[str, list[float]] = field(init=False)  # one number per iteration and curve

    def run(self, start: np.ndarray, budget: Budget, rng: np.random.Generator) -> Status:
        """Climb from `start`; the result is in `weights` and `trace`."""
        self._check()
        self.weights = start.copy()
        self.trace = {"objective": [], "log_likelihood": [], "gradient": [], "seconds": []}
        if self.validation is not None:
            self.trace["validation"] = []
        self._clock, self._best, self._since = time.perf_counter(), -np.inf, 0
        try:
            with Progress(self.label, budget.max_iter) as bar:
                return self.optimiser.minimise(self._loss(rng), start, budget, self._watcher(bar))
        except Stop as stop:
            return stop.status
        except KeyboardInterrupt:
            return Status.INTERRUPTED

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
                    return -extra / total, -slope / total
                value, gradient = self.objective.evaluate(weights, rows)
                return -share * value - extra / total, -share * gradient - slope / total

            return step

        def batches() -> Iterator[Step]:
            return map(on, self.data.batches(self.batch, rng))

        return Loss(on(self.data), batches, self.prior.strength() / total)

    def _watcher(self, bar: Progress) -> Callable[[np.ndarray, float, np.ndarray], None]:
        def watch(weights: np.ndarray, value: float, gradient: np.ndarray) -> None:
            objective = -value
            likelihood = objective - self.prior.value(weights) / self.data.total
            if self.watched is not None:
                likelihood = self.watched.value(weights, self.data)
                objective = likelihood + self.prior.value(weights) / self.data.total
            self.trace["objective"].append(objective)
            self.trace["log_likelihood"].append(likelihood)
            self.trace["gradient"].append(float(np.abs(gradient).max(initial=0.0)))
            self.trace["seconds"].append(time.perf_counter() - self._clock)
            bar.update(len(self.trace["objective"]) - 1, f"objective {objective:.6g}")
            self._keep(weights)

        return watch

    def _keep(self, weights: np.ndarray) -> None:
        if self.validation is None:
            self.weights = weights
            return
        try:
            held = (self.watched or self.objective).value(weights, self.validation)
        except ImpossibleRowError as error:
            if self.patience is not None:  # there would be nothing to choose by
                raise DataError(f"validation {error}") from None
            held = -np.inf
        self.trace["validation"].append(held)
        if self.patience is None:
            self.weights = weights
        elif held > self._best:
            self.weights, self._best, self._since = weights, held, 0
        else:
            self._since += 1
            if self._since >= self.patience:
                raise Stop(Status.CONVERGED)

    def arrays(self) -> dict[str, np.ndarray]:
        """The trace as equally long arrays; an interrupted last entry is cut."""
        length = min(map(len, self.trace.values()))
        return {key: np.array(values[:length]) for key, values in self.trace.items()}


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
