r"""Variational Bayes for the tables of Bayesian networks, hidden variables and missing values included.

    theta_i(. | u) ~ Dirichlet(m_iu) for every row u of every table i

    VB-E   expected counts under the network with tables exp E[log theta], whose rows sum to less than one
    VB-M   concentrations = m + expected counts

The E-step is that of EM, so a latent-class model, a network with missing cells and a tree of hidden causes
are all the same to it. Where nothing is hidden, F is the log evidence itself (with `bdeu`, the
Bayesian-Dirichlet score), found in one step. An entry that is zero in the model is impossible and stays so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from ..core.errors import ImpossibleRowError, ModelError
from ..core.result import Kind, Status
from ..data.dataset import Dataset
from ..data.stream import Stream
from ..data.table import StateTable
from ..models.bayes_net import BayesNet
from ..models.table_posterior import TablePosterior
from .base import Fit, Task
from .counts import TableStep
from .e_step import EStep
from .em_data import DividedData, Expected, Place, unit_batches
from .em_steps import EMRun, EMStart, fit_of
from .expectations import Oracle
from .m_step import DirectedStep
from .vb_steps import Prunable, posterior_fit

__all__ = ["NetworkTables", "network_problem", "why_not_network"]

_PLANS = 8  # prunings whose E-step is kept


def network_problem(
    task: Task,
    *,
    prior: Any,
    fixed: tuple[str, ...],
    adapts: tuple[str, ...],
    start: str,
    stream: Stream | None,
) -> NetworkTables:
    """The problem of a network with these options of the learner."""
    step = TableStep.of(task.model, fixed=fixed)
    blank = replace(task.model.posterior(prior), held=step.held)
    oracle = Oracle(task.inference, task.inference_budget, task.seed, warm=False)
    return NetworkTables(task, step, oracle, blank, adapts, start, stream)


def why_not_network(task: Task) -> str | None:
    """Refuses networks with real nodes."""
    if task.model.regressions:
        return "real nodes of a BayesNet have no distribution over their parameters here; use em"
    return None


@dataclass(frozen=True)
class NetworkTables(DividedData, Prunable):
    """A network with its data; its components are the states of hidden variables."""

    task: Task  # the network with its data
    step: TableStep  # how tables are drawn
    oracle: Oracle  # who answers questions about the network
    blank: TablePosterior  # the prior
    adapts: tuple[str, ...]  # children whose concentration is learned
    begins: str  # how the first run begins
    stream: Stream | None = None  # where all data come from, if the task has the first batch only

    @property
    def rows(self) -> float:  # type: ignore[override]
        """Weight of all rows."""
        return self.task.data.total if self.stream is None else self.stream.total

    @property
    def memory(self) -> tuple[Any, ...]:
        """The counters of the oracle."""
        return (self.oracle,)

    @cached_property
    def _plans(self) -> dict[Any, EStep]:
        return {}

    def _e_step(self, model: BayesNet, held: StateTable | None = None) -> EStep:
        """The E-step of the network or of one of its last prunings, or what tells the value of held rows."""
        key = (held is None, *(v.states for v in model.variables))
        if key not in self._plans:
            while len(self._plans) > _PLANS:
                self._plans.pop(next(iter(self._plans)))
            data = replace(self.task.data if held is None else held, variables=model.variables)
            values_only = held is not None
            self._plans[key] = EStep(model.to_factor_graph(), data, self.oracle, values_only=values_only)
        return self._plans[key]

    def start(self, rng: np.random.Generator, number: int) -> EMStart:
        """Tables as given, apart where hidden states are alike, or random."""
        tables, note = _first(self.step, self.task, rng, self.begins if number == 0 else "random")
        return EMStart(self.blank, note, tables)

    def prepare(self, first: np.ndarray, parameters: TablePosterior) -> TablePosterior:
        """The posterior of the counts that tables expect."""
        with np.errstate(divide="ignore"):
            counts = self._e_step(parameters.model)(np.log(first)).counts
        return self.maximise(counts * (self.rows / self.task.data.total), parameters)

    def expect(self, parameters: TablePosterior) -> Expected:
        """Expected counts under exp E[log tables]."""
        found = self._e_step(parameters.model)(self._logs(parameters))
        return Expected(found.log_weight, found.counts)

    def _logs(self, parameters: TablePosterior) -> np.ndarray:
        """Expected log tables; those that are not learned as they are."""
        logs: np.ndarray = parameters.rows.expected_log
        if parameters.held.any():
            with np.errstate(divide="ignore"):
                logs = np.where(parameters.held, np.log(parameters.model.flat_tables), logs)
        return logs

    def part(self, batch: Dataset) -> NetworkTables:
        """With the rows of a batch."""
        data = StateTable.of_dataset(batch, self.task.model.variables)
        return replace(self, task=replace(self.task, data=data, validation=None), stream=None)

    def own_batches(self, size: int, seed: int, place: Place) -> Iterator[tuple[Callable[[Any], Any], Place]]:
        """So many rows at a time."""
        for rows, end in unit_batches(np.arange(len(self.task.data)), size, seed, place):
            yield partial(self._counts, self._e_step(self.task.model).batch(rows)), end

    def _counts(self, batch: Callable[[np.ndarray], Any], parameters: TablePosterior) -> np.ndarray:
        found: np.ndarray = batch(self._logs(parameters)).counts
        return found

    def maximise(self, statistics: np.ndarray, parameters: TablePosterior) -> TablePosterior:
        """Concentrations and counts."""
        is_still = parameters.held | (parameters.prior.concentration == 0)
        return replace(parameters, rows=parameters.prior.posterior(np.where(is_still, 0.0, statistics)))

    def adapt(self, parameters: TablePosterior) -> TablePosterior:
        """Concentrations of priors under which F is highest."""
        return parameters.match(self.adapts) if self.adapts else parameters

    def is_monotone(self) -> bool:
        """Where inference is exact."""
        return self.oracle.kind(complete=False) == "exact"

    def is_closed_form(self) -> bool:
        """Where nothing is hidden or missing."""
        if self.stream is not None:
            return False
        return self._e_step(self.blank.model).is_closed_form and not self.adapts

    def report(self) -> list[str]:
        """What the oracle says."""
        return self.oracle.report()

    def validate(self, parameters: TablePosterior) -> float | None:
        """Under expected tables."""
        held = self.task.validation
        if held is None:
            return None
        model = parameters.mean()
        try:
            with np.errstate(divide="ignore"):
                return self._e_step(model, held)(np.log(model.flat_tables)).log_weight / held.total
        except ImpossibleRowError:  # tables that are not learned may have zeros
            return -np.inf

    def sizes(self, parameters: TablePosterior, statistics: np.ndarray) -> np.ndarray:
        """Expected rows of every state of every hidden variable, one variable after the other."""
        return np.concatenate(self._visits(parameters, statistics)) if self.task.data.hidden else np.empty(0)

    def _visits(self, q: TablePosterior, counts: np.ndarray) -> list[np.ndarray]:
        graph, variables, found = q.model.to_factor_graph(), q.model.variables, []
        for name in self.task.data.hidden:
            i = variables.position(name)
            mine = counts[int(graph.table_start[i]) : int(graph.table_start[i] + graph.table_size[i])]
            found.append(mine.reshape(-1, variables.sizes[i]).sum(axis=0))
        return found

    def fewer(self, parameters: TablePosterior, kept: np.ndarray) -> TablePosterior | None:
        """With all rows divided among the states that are left; None if a variable has none left."""
        variables, states, first = parameters.model.variables, {}, 0
        for name in self.task.data.hidden:
            size = int(variables.sizes[variables.position(name)])
            own = kept[(kept >= first) & (kept < first + size)] - first
            if not len(own):
                return None
            if len(own) < size:
                states[name] = own
            first += size
        try:
            left = parameters.take(states)
            return self.maximise(self.expect(left).statistics, left)
        except (ModelError, ImpossibleRowError):
            return None

    def fit_of(self, found: EMRun) -> Fit:
        """The fit; where nothing is hidden, F is the log evidence itself."""
        is_exact = found.status is Status.EXACT
        kind: Kind = "exact" if is_exact else "lower"
        fit = posterior_fit(fit_of(self, found), found, kind if self.is_monotone() else "estimate")
        left = found.parameters.model.variables.sizes
        if left.sum() == self.blank.model.variables.sizes.sum():
            return fit
        told = f"hidden states without rows were removed: {left.tolist()} are left"
        return replace(fit, notes=(*fit.notes, told))


def _first(step: TableStep, task: Task, rng: np.random.Generator, how: str) -> tuple[np.ndarray, str | None]:
    if how == "random":
        return step.random(rng), None
    if how == "given":
        return step.start(), None
    hidden = task.data.variables.positions(task.data.hidden)
    return DirectedStep(step).separated(step.start(), hidden, rng)
