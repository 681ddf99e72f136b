r"""Variational Bayes for the tables of Bayesian networks, hidden variables and missing values included.

    theta_i(. | u) ~ Dirichlet(m_iu) for every row u of every table i

    VB-E   expected counts under the network with tables exp E[log theta], whose rows sum to less than one
    VB-M   concentrations = m + expected counts

The E-step is that of EM, so a latent-class model, a network with missing cells and a tree of hidden causes
are all the same to it. Where nothing is hidden, F is the log evidence itself (with `bdeu`, the
Bayesian-Dirichlet score), found in one step. An entry that is zero in the model is impossible and stays so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..core.errors import ImpossibleRowError, ModelError, OptionError
from ..core.records import register
from ..core.result import Kind, Status
from ..core.variable import Variable, Variables
from ..data.table import StateTable
from ..families.dirichlet_rows import DirichletRows
from ..families.natural import best_symmetric
from ..models.bayes_net import BayesNet
from .base import Fit, Task
from .counts import TableStep
from .e_step import EStep
from .em_data import Expected
from .em_steps import EMRun, EMStart, fit_of
from .expectations import Oracle
from .m_step import DirectedStep
from .table_priors import table_prior_of
from .vb_steps import Prunable, posterior_fit

__all__ = ["Network", "TablePosterior", "network_problem", "table_rows", "why_not_network"]

_PLANS = 8  # prunings whose E-step is kept


@register("TablePosterior")
@dataclass(frozen=True)
class TablePosterior:
    """Dirichlet distributions over all rows of all tables, and the prior they came from."""

    model: BayesNet  # the structure
    rows: DirichletRows  # in the order of `model.flat_tables`
    prior: DirichletRows  # in the same order
    held: np.ndarray  # (entries,) whether an entry is not learned

    def concentration(self, child: str) -> np.ndarray:
        """Of the table of one variable, in its shape."""
        graph, i = self.model.to_factor_graph(), self.model.variables.position(child)
        first = int(graph.table_start[i])
        flat = self.rows.concentration[first : first + int(graph.table_size[i])]
        return flat.reshape(self.model.tables[child].shape)

    def mean(self) -> BayesNet:
        """The network with expected tables; it predicts as the average over all tables does."""
        return self._made(self.rows.mean())

    def movement(self, new: TablePosterior) -> float:
        """The largest change of an expected probability."""
        return float(np.abs(new.rows.mean() - self.rows.mean()).max(initial=0.0))

    def match(self, names: tuple[str, ...]) -> TablePosterior:
        """The same with one concentration for each table of these children, the best; not for tables held."""
        graph, logs = self.model.to_factor_graph(), self.rows.expected_log
        new = self.prior.concentration.copy()
        for i, variable in enumerate(self.model.variables):
            mine = slice(int(graph.table_start[i]), int(graph.table_start[i] + graph.table_size[i]))
            if variable.name in names and not self.held[mine].any():
                best = best_symmetric(logs[mine].reshape(-1, self.model.variables.sizes[i]))
                new[mine] = np.where(new[mine] > 0, best, 0.0)
        return replace(self, prior=self.prior.with_concentration(new))

    def take(self, kept: Mapping[str, np.ndarray]) -> TablePosterior:
        """The network in which these variables have some of their states only."""
        old = self.model
        variables = [
            Variable(v.name, [v.states[int(s)] for s in kept[v.name]]) if v.name in kept else v
            for v in old.variables
        ]
        parts = [old.flat_tables, self.rows.concentration, self.prior.concentration, self.held]
        tables, rows, prior, held = (self._taken(part, kept) for part in parts)
        smaller = Variables.of(variables)
        sizes = np.concatenate(
            [np.full(len(t) // size, size) for t, size in zip(tables, smaller.sizes, strict=True)]
        )
        flat = [
            (t.reshape(-1, size) / t.reshape(-1, size).sum(axis=1, keepdims=True)).ravel()
            for t, size in zip(tables, smaller.sizes, strict=True)
        ]
        graph = old.to_factor_graph()
        return TablePosterior(
            BayesNet.from_flat(smaller, graph.scope_start, graph.scope, np.concatenate(flat)),
            DirichletRows(np.concatenate(rows), sizes), DirichletRows(np.concatenate(prior), sizes),
            np.concatenate(held),
        )  # fmt: skip

    def _taken(self, flat: np.ndarray, kept: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """What belongs to some states, one flat array per table."""
        graph, found = self.model.to_factor_graph(), []
        for i, name in enumerate(self.model.variables.names):
            first = int(graph.table_start[i])
            table = flat[first : first + int(graph.table_size[i])].reshape(self.model.tables[name].shape)
            for axis, member in enumerate([*self.model.parents[name], name]):
                if member in kept:
                    table = np.take(table, kept[member], axis=axis)
            found.append(table.ravel())
        return found

    def sample(self, rng: np.random.Generator) -> BayesNet:
        """A network with tables drawn at random."""
        return self._made(self.rows.sample(rng))

    def _made(self, tables: np.ndarray) -> BayesNet:
        graph = self.model.to_factor_graph()
        tables = np.where(self.held, self.model.flat_tables, tables)
        return BayesNet.from_flat(self.model.variables, graph.scope_start, graph.scope, tables)

    def divergence(self) -> float:
        """KL to the prior."""
        return float(self.rows.kl(self.prior).sum())

    def __repr__(self) -> str:
        return f"TablePosterior({self.rows!r} of {self.model!r})"


def table_rows(model: BayesNet, prior: Any = "uniform(count=1)") -> DirichletRows:
    """The Dirichlet prior of all rows; entries that are zero in the model are impossible.

    Parameters
    ----------
    model
        The network.
    prior
        `"uniform(count=1)"`, `"bdeu(size=10)"`, `"towards(size=1)"`, or a mapping child name ->
        concentrations, in which tables that are not named get 1.
    """
    if isinstance(prior, dict):
        prior = dict.fromkeys(model.variables.names, 1.0) | prior
    counts = table_prior_of(prior).pseudo_counts(model)
    possible = model.flat_tables > 0
    if (counts[possible] <= 0).any():
        raise OptionError(
            "prior: expected positive concentrations for all entries that are not zero in the model, got 0; "
            "use uniform(count=1) or bdeu(size=10)"
        )
    sizes = model.variables.sizes
    per_table = model.to_factor_graph().table_size // sizes
    return DirichletRows(np.where(possible, counts, 0.0), np.repeat(sizes, per_table))


def network_problem(
    task: Task, *, prior: Any, fixed: tuple[str, ...], adapts: tuple[str, ...], start: str
) -> Network:
    """The problem of a network with these options of the learner."""
    rows = table_rows(task.model, "uniform(count=1)" if prior is None else prior)
    step = TableStep.of(task.model, fixed=fixed)
    oracle = Oracle(task.inference, task.inference_budget, task.seed, warm=False)
    return Network(task, step, oracle, TablePosterior(task.model, rows, rows, step.held), adapts, start)


def why_not_network(task: Task) -> str | None:
    """Refuses networks with real nodes."""
    if task.model.regressions:
        return "real nodes of a BayesNet have no distribution over their parameters here; use em"
    return None


@dataclass(frozen=True)
class Network(Prunable):
    """A network with its data; its components are the states of hidden variables."""

    task: Task  # the network with its data
    step: TableStep  # how tables are drawn
    oracle: Oracle  # who answers questions about the network
    blank: TablePosterior  # the prior
    adapts: tuple[str, ...]  # children whose concentration is learned
    begins: str  # how the first run begins

    @property
    def rows(self) -> float:  # type: ignore[override]
        """Weight of all rows."""
        return self.task.data.total

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
            return self.maximise(self._e_step(parameters.model)(np.log(first)).counts, parameters)

    def expect(self, parameters: TablePosterior) -> Expected:
        """Expected counts under exp E[log tables]."""
        logs = parameters.rows.expected_log
        if parameters.held.any():
            with np.errstate(divide="ignore"):
                logs = np.where(parameters.held, np.log(parameters.model.flat_tables), logs)
        found = self._e_step(parameters.model)(logs)
        return Expected(found.log_weight, found.counts)

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
