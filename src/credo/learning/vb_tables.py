r"""Variational Bayes for the tables of Bayesian networks, hidden variables and missing values included.

    theta_i(. | u) ~ Dirichlet(m_iu) for every row u of every table i

    VB-E   expected counts under the network with tables exp E[log theta], whose rows sum to less than one
    VB-M   concentrations = m + expected counts

The E-step is that of EM, so a latent-class model, a network with missing cells and a tree of hidden causes
are all the same to it. Where nothing is hidden, F is the log evidence itself (with `bdeu`, the
Bayesian-Dirichlet score), found in one step. An entry that is zero in the model is impossible and stays so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from ..core import check
from ..core.errors import ImpossibleRowError, OptionError
from ..core.records import register
from ..core.result import Estimate, Kind, Status
from ..core.variable import Variable, Variables
from ..families.dirichlet_rows import DirichletRows
from ..models.bayes_net import BayesNet
from ..optimise.run import Run
from .base import Fit, Learner, Task, register_learner
from .counts import TableStep
from .e_step import EStep
from .em_data import Expected
from .em_steps import EMStart
from .expectations import Oracle
from .likelihood import log_likelihood
from .m_step import DirectedStep
from .runs import completed
from .table_priors import table_prior_of
from .vb import VariationalModel, posterior_fit, run_vb
from .vb_priors import best_symmetric

__all__ = ["TablePosterior", "VariationalBayes", "table_rows"]

_UNUSED = 0.5  # a hidden state with fewer expected rows than this explains nothing


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


@dataclass(frozen=True)
class _Network(VariationalModel):
    """A network with its data."""

    task: Task
    step: TableStep  # how tables are drawn
    e_step: EStep
    blank: TablePosterior  # the prior
    adapts: bool
    how: str  # the first run begins

    @property
    def rows(self) -> float:  # type: ignore[override]
        return self.task.data.total

    def start(self, rng: np.random.Generator, number: int) -> EMStart:
        tables, note = _first(self.step, self.task, rng, self.how if number == 0 else "random")
        return EMStart(self.blank, note, tables)

    def prepare(self, first: np.ndarray, parameters: TablePosterior) -> TablePosterior:
        with np.errstate(divide="ignore"):
            return self.maximise(self.e_step(np.log(first)).counts, parameters)

    def expect(self, q: TablePosterior) -> Expected:
        logs = q.rows.expected_log
        if q.held.any():
            with np.errstate(divide="ignore"):
                logs = np.where(q.held, np.log(q.model.flat_tables), logs)
        found = self.e_step(logs)
        return Expected(found.log_weight, found.counts)

    def divergence(self, q: TablePosterior) -> float:
        return q.divergence()

    def is_monotone(self) -> bool:
        return self.e_step.kind() == "exact"

    def maximise(self, statistics: np.ndarray, q: TablePosterior) -> TablePosterior:
        counts = np.where(q.held | (q.prior.concentration == 0), 0.0, statistics)
        return replace(q, rows=q.prior.posterior(counts))

    def movement(self, q: TablePosterior, new: TablePosterior) -> float:
        return float(np.abs(new.rows.mean() - q.rows.mean()).max(initial=0.0))

    def adapt(self, q: TablePosterior) -> TablePosterior:
        if not self.adapts:
            return q
        graph, logs = q.model.to_factor_graph(), q.rows.expected_log
        new = q.prior.concentration.copy()
        for i, size in enumerate(q.model.variables.sizes):
            mine = slice(int(graph.table_start[i]), int(graph.table_start[i] + graph.table_size[i]))
            if not q.held[mine].any():
                new[mine] = np.where(new[mine] > 0, best_symmetric(logs[mine].reshape(-1, size)), 0.0)
        return replace(q, prior=q.prior.with_concentration(new))


@register_learner
@dataclass(frozen=True, kw_only=True)
class VariationalBayes(Learner):
    """Dirichlet distributions over the tables of a Bayesian network.

    The result is a `Fit`: `model` has the expected tables, `posterior` the distribution, and
    `evidence` the free energy, a lower bound of the log evidence (exact if the data are complete).

    Examples
    --------
    >>> import credo
    >>> from credo.learning import fit
    >>> net = credo.BayesNet.random({"rain": 2, "wet": 2}, {"wet": ["rain"]}, seed=0)
    >>> found = fit(net, {"rain": [0, 0, 1, 1], "wet": [0, 0, 1, 0]}, "vb")
    >>> found.model.tables["wet"]
    array([[0.75, 0.25],
           [0.5 , 0.5 ]])
    >>> print(found.evidence)
    -6.29156914 (exact)
    """

    name: ClassVar[str] = "vb"
    monotone: ClassVar[bool] = True
    checkpoints: ClassVar[bool] = True
    tol: ClassVar[float] = 1e-3  # change of a parameter
    prior: Any = "uniform(count=1)"  # Dirichlet concentrations: uniform, bdeu, towards, or by name
    start: Literal["auto", "given", "random"] = "auto"  # of the first run; auto breaks symmetries only
    restarts: int = 1  # runs in all; the best is returned
    adapt: bool = False  # whether to learn one concentration per table as well
    prune: bool = False  # whether to remove states of hidden variables that no row needs
    fixed: tuple[str, ...] = ()  # children whose tables are not learned

    def __post_init__(self) -> None:
        """Check the options."""
        check.one_of("start", self.start, ["auto", "given", "random"])
        check.whole("restarts", self.restarts, 1)
        for name in ("adapt", "prune"):
            check.one_of(name, getattr(self, name), [True, False])
        table_prior_of(self.prior)

    def why_not(self, task: Task) -> str | None:
        """Refuses all but Bayesian networks: it learns distributions over conditional tables."""
        if not isinstance(task.model, BayesNet):
            return (
                f"it learns the tables of a BayesNet, got {type(task.model).__name__}; use em or likelihood"
            )
        if task.model.regressions:
            return "real nodes of a BayesNet have no distribution over their parameters here; use em"
        return None

    def run(self, task: Task, rng: np.random.Generator) -> Fit:
        """Climb, and prune where asked to."""
        with Run(task.budget, rng, whole=False):
            found, task = self._pruned(task, rng)
        if task.validation is None:
            return found
        held = task.validation

        def watched(found: Fit) -> Fit:
            try:
                value = log_likelihood(found.model, held, task.inference, seed=task.seed).value
            except ImpossibleRowError:  # tables that are not learned may have zeros
                value = -np.inf
            return replace(found, trace={**found.trace, "validation": np.array([value / held.total])})

        return completed(found, watched)

    def _pruned(self, task: Task, rng: np.random.Generator) -> tuple[Fit, Task]:
        """The fit, and the task without the states that were removed."""
        found = self._once(task, rng, self.start)
        while self.prune and found.status is Status.CONVERGED:
            fewer = _without_unused(task, found)
            if fewer is None:
                break
            after = replace(self, restarts=1)._once(fewer, rng, "given")
            assert isinstance(after.evidence, Estimate) and isinstance(found.evidence, Estimate)
            if after.evidence.value < found.evidence.value:
                is_cut = after.status in (Status.INTERRUPTED, Status.OUT_OF_TIME)
                return replace(found, status=after.status if is_cut else found.status), task
            said = f"hidden states without rows were removed: {after.model.variables.sizes.tolist()} are left"
            curve = np.concatenate([found.trace["free_energy"], after.trace["free_energy"]])
            found = replace(
                after, notes=(*found.notes, said), objective=curve / task.data.total,
                trace=after.trace | {"free_energy": curve},
            )  # fmt: skip
            task = fewer
        return found, task

    def _once(self, task: Task, rng: np.random.Generator, how: str) -> Fit:
        prior = table_rows(task.model, self.prior)
        step = TableStep.of(task.model, fixed=self.fixed)
        oracle = Oracle(task.inference, task.inference_budget, task.seed, warm=False)
        e_step = EStep(task.model.to_factor_graph(), task.data, oracle)
        blank = TablePosterior(task.model, prior, prior, step.held)
        problem = _Network(task, step, e_step, blank, self.adapt, how)
        best = run_vb(problem, task.budget, rng, name=self.name, restarts=self.restarts)

        closed = e_step.is_closed_form and not self.adapt and best.status is Status.CONVERGED
        kind: Kind = "exact" if closed else "lower"
        fit = posterior_fit(problem, best, kind if e_step.kind() == "exact" else "estimate")
        return replace(
            fit, status=Status.EXACT if closed else best.status, notes=(*fit.notes, *oracle.report())
        )


def _first(step: TableStep, task: Task, rng: np.random.Generator, how: str) -> tuple[np.ndarray, str | None]:
    if how == "random":
        return step.random(rng), None
    if how == "given":
        return step.start(), None
    hidden = task.data.variables.positions(task.data.hidden)
    return DirectedStep(step).separated(step.start(), hidden, rng)


def _without_unused(task: Task, found: Fit) -> Task | None:
    """The task without hidden states in which nearly no row is expected; None if all are used."""
    q, old = found.posterior, found.posterior.model
    counts = q.rows.concentration - q.prior.concentration
    graph, tables = old.to_factor_graph(), found.model.tables
    kept = {}
    for name in task.data.hidden:
        i = old.variables.position(name)
        mine = counts[int(graph.table_start[i]) : int(graph.table_start[i] + graph.table_size[i])]
        used = np.flatnonzero(mine.reshape(-1, old.variables.sizes[i]).sum(axis=0) >= _UNUSED)
        if 0 < len(used) < old.variables.sizes[i]:
            kept[name] = used
    if not kept:
        return None
    variables = Variables.of(
        [
            Variable(v.name, [v.states[int(s)] for s in kept[v.name]]) if v.name in kept else v
            for v in old.variables
        ]
    )
    smaller = {}
    for name in old.variables.names:
        table = tables[name]
        for axis, member in enumerate([*old.parents[name], name]):
            if member in kept:
                table = np.take(table, kept[member], axis=axis)
        smaller[name] = table / table.sum(axis=-1, keepdims=True)
    model = BayesNet(variables, {n: list(old.parents[n]) for n in old.variables.names}, smaller)
    held = None if task.validation is None else replace(task.validation, variables=variables)
    return replace(task, model=model, data=replace(task.data, variables=variables), validation=held)
