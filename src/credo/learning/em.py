r"""Expectation maximisation: learning with missing values and hidden variables.

    E   counts_a(x_a) = sum over rows of  p(x_a | what the row observes)
    M   new parameters as if the counts had been observed: divide by row sums, or climb (`m_step.py`)

For any model with learnable tables (Bayesian networks in closed form; Markov networks, log-linear models and
factor graphs by a few quasi-Newton steps, which is generalised EM) and any algorithm that yields factor
marginals. Missing values are taken to be missing at random. With exact inference the objective (likelihood,
or with a prior the posterior) never falls; with an approximate one it may, and the notes say so. It converges
to a stationary point that depends on the start: use `restarts`.

The symmetry trap: where two states of a hidden variable have the same rows in all tables around it, as in a
network with uniform tables, they get the same expected counts and stay alike for ever. So by default
(`start=auto`) such tables are perturbed at random before the first step, with a note; `start=given` keeps
them as they are, `start=random` draws all rows anew, as every restart after the first does. An entry that is
zero at the start stays zero unless it has pseudo-counts.

hard      the best completion of each row counts instead of all (Viterbi training); the objective is the
          likelihood of the completed rows
batch     stepwise EM: counts <- (1 - r) counts + r (N/B) counts of a batch of B rows, one M-step
          per batch, r = (k + 1)^-rate; the objective is evaluated after each epoch and may fall

Cost per iteration: one pass over the distinct neighbourhoods of the hidden variables (`hidden_parts.py`).
Sources: Dempster, Laird and Rubin 1977; Lauritzen 1995; Liang and Klein 2009 (stepwise).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from ..core import check
from ..core.errors import ImpossibleRowError, OptionError
from ..core.progress import Progress
from ..core.result import Estimate, Kind, Status
from ..models.bayes_net import BayesNet
from .base import Fit, Learner, Task, register_learner
from .counts import TableStep, Unseen
from .data import Observations
from .e_step import EStep, Expected
from .expectations import Oracle
from .m_step import DirectedStep, MStep, UndirectedStep
from .parameters import Parameters, why_not_linear
from .priors import Prior, prior_of, priors
from .table_priors import table_prior_of

__all__ = ["EM"]

_ROUNDING = 1e-10  # relative fall of the objective that is noise


@register_learner
@dataclass(frozen=True, kw_only=True)
class EM(Learner):
    """Expectation maximisation.

    Examples
    --------
    A coin is chosen, never seen, and thrown three times:

    >>> import credo
    >>> from credo.learning import fit
    >>> names = ["first", "second", "third"]
    >>> states = dict.fromkeys(["coin", *names], 2)
    >>> start = credo.BayesNet.random(states, {name: ["coin"] for name in names}, seed=1)
    >>> throws = [[0, 0, 0]] * 40 + [[1, 1, 1]] * 40 + [[0, 0, 1], [1, 1, 0]] * 10
    >>> data = {name: [row[k] for row in throws] for k, name in enumerate(names)}
    >>> found = fit(start, data, "em", seed=0)
    >>> found.status, bool((found.objective[1:] >= found.objective[:-1] - 1e-12).all())
    (<Status.CONVERGED: 'converged'>, True)
    >>> sorted(found.model.tables["coin"].round(2).tolist())
    [0.5, 0.5]
    """

    name: ClassVar[str] = "em"
    prior: Any = None  # networks: uniform, bdeu, towards or name -> pseudo-counts; others: gaussian, ...
    start: Literal["auto", "given", "random"] = "auto"  # of the first run; auto breaks symmetries only
    restarts: int = 1  # runs in all; the best is returned
    hard: bool = False  # the best completion of each row instead of all
    batch: int | None = None  # rows per M-step of stepwise EM; None: all
    rate: float = 0.6  # how fast stepwise EM forgets, above 0.5 and at most 1
    unseen: Unseen = "keep"  # parent states without expected counts: keep their values, uniform, or refuse
    tie: Any = ()  # networks: lists of names of children that share a table; others: as in likelihood
    fixed: tuple[Any, ...] = ()  # children (networks) or factors (others) that are not learned
    steps: int = 5  # quasi-Newton steps of one M-step, for models without a closed form
    threads: int | None = None  # of the exact E-step; None: all the machine has

    def __post_init__(self) -> None:
        """Check the options."""
        check.one_of("start", self.start, ["auto", "given", "random"])
        check.one_of("unseen", self.unseen, ["keep", "uniform", "refuse"])
        check.one_of("hard", self.hard, [True, False])
        check.whole("restarts", self.restarts, 1)
        check.whole("steps", self.steps, 1)
        for name, value in (("batch", self.batch), ("threads", self.threads)):
            if value is not None:
                check.whole(name, value, 1)
        if isinstance(self.rate, bool) or not isinstance(self.rate, (int, float)) or not 0.5 < self.rate <= 1:
            raise OptionError(f"rate must be above 0.5 and at most 1, got {self.rate!r}")
        if not self._is_weight_prior():
            table_prior_of(self.prior)

    def _is_weight_prior(self) -> bool:
        name = str(self.prior).partition("(")[0].strip()
        return isinstance(self.prior, Prior) or (isinstance(self.prior, str) and name in priors.names())

    def why_not(self, task: Task) -> str | None:
        """Models with tables or weights to learn."""
        if isinstance(task.model, BayesNet):
            if self._is_weight_prior():
                return f"{self.prior} is a prior of weights; for a BayesNet use uniform, bdeu or towards"
            return None
        reason = why_not_linear(task.model)
        if reason is not None:
            return reason.replace("expected a", "expected a BayesNet,", 1)
        if self.prior is not None and not self._is_weight_prior():
            return f"{self.prior} is a prior of conditional tables; use gaussian, laplace or elastic here"
        return None

    def run(self, task: Task, rng: np.random.Generator) -> Fit:
        """All restarts; the best of them."""
        m_step = self._m_step(task)
        climb = _Climb(self, task, m_step, self._e_step(task, m_step, task.data), rng)
        best: _Path | None = None
        finals: list[float] = []
        with Progress(self.name, self.restarts * task.budget.max_iter) as bar:
            for k in range(self.restarts):
                path = climb.run(self._start(m_step, task, rng, k), bar, k * task.budget.max_iter)
                finals.append(path.objective[-1] if path.objective else -np.inf)
                if best is None or finals[-1] > finals[best.number]:
                    best = path
                    best.number = k
                if path.status in (Status.INTERRUPTED, Status.OUT_OF_TIME):
                    break
        assert best is not None
        best.status = path.status if path.status is Status.INTERRUPTED else best.status
        return self._fit(climb, best, finals)

    def _m_step(self, task: Task) -> MStep:
        if isinstance(task.model, BayesNet):
            return DirectedStep(
                TableStep.of(task.model, prior=self.prior, tie=self.tie, fixed=self.fixed, unseen=self.unseen)
            )
        oracle = Oracle(task.inference, task.inference_budget, task.seed)
        parameters = Parameters.of(task.model, tie=self.tie or None, fixed=self.fixed)
        return UndirectedStep(parameters, prior_of(self.prior), oracle, self.steps)

    def _e_step(self, task: Task, m_step: MStep, data: Observations, *, values_only: bool = False) -> EStep:
        """For learning, or only to know the log-likelihood, all completions summed."""
        oracle = Oracle(task.inference, task.inference_budget, task.seed, warm=False)
        hard = self.hard and not values_only
        return EStep(m_step.graph, data, oracle, hard, self.threads, values_only)

    def _start(
        self, m_step: MStep, task: Task, rng: np.random.Generator, k: int
    ) -> tuple[np.ndarray, str | None]:
        if k > 0 or self.start == "random":
            return m_step.random(rng), None
        given = m_step.start()
        if self.start == "given":
            return given, None
        return m_step.separated(given, task.data.variables.positions(task.data.hidden), rng)

    def _fit(self, climb: _Climb, best: _Path, finals: list[float]) -> Fit:
        task, m_step = climb.task, climb.m_step
        trace = {key: np.array(values) for key, values in best.trace.items()}
        length = min(map(len, trace.values()))
        trace = {key: values[:length] for key, values in trace.items()}
        value = None
        if length and not self.hard:
            value = Estimate(float(trace["log_likelihood"][-1]) * task.data.total, climb.kind)
        elif length and best.status is not Status.INTERRUPTED:
            value = Estimate(climb.plain(best.parameters) * task.data.total, climb.kind)
        return Fit(
            m_step.made(best.parameters), best.status, trace["objective"], value, trace,
            notes=tuple(climb.notes(best)), restarts=np.array(finals),
        )  # fmt: skip


@dataclass
class _Path:
    """One run from one start."""

    parameters: np.ndarray
    status: Status = Status.OUT_OF_ITERATIONS
    trace: dict[str, list[float]] = field(default_factory=dict)
    note: str | None = None
    falls: int = 0  # iterations in which the objective fell
    number: int = 0

    @property
    def objective(self) -> list[float]:
        return self.trace["objective"]


class _Climb:
    """What all runs of one call share."""

    def __init__(self, em: EM, task: Task, m_step: MStep, e_step: EStep, rng: np.random.Generator) -> None:
        self.em, self.task, self.m_step, self.e_step, self.rng = em, task, m_step, e_step, rng
        self.clock = time.perf_counter()
        self.held: EStep | None = None
        if task.validation is not None:
            self.held = em._e_step(task, m_step, task.validation, values_only=True)

    @property
    def kind(self) -> Kind:
        """What the log-likelihoods guarantee."""
        return "exact" if self.e_step.kind() == self.m_step.kind() == "exact" else "estimate"

    def run(self, start: tuple[np.ndarray, str | None], bar: Progress, done: int) -> _Path:
        """Iterate until the objective per row changes less than tol."""
        path = _Path(start[0], note=start[1])
        path.trace = {key: [] for key in ("objective", "log_likelihood", "seconds")}
        if self.held is not None:
            path.trace["validation"] = []
        try:
            path.status = self._iterate(path, bar, done)
        except KeyboardInterrupt:
            path.status = Status.INTERRUPTED
        return path

    def _iterate(self, path: _Path, bar: Progress, done: int) -> Status:
        budget = self.task.budget
        parameters, memory = path.parameters, _Memory()
        for k in range(budget.max_iter + 1):
            found = self.e_step(self.m_step.log_tables(parameters))
            if k == 0:
                memory.counts = found.counts
            change = self._record(path, parameters, found)
            bar.update(done + k, f"objective {path.objective[-1]:.6g}")
            if abs(change) < budget.tol:
                return Status.CONVERGED
            if k == 1 and self._is_closed_form():
                return Status.EXACT
            if budget.seconds is not None and time.perf_counter() - self.clock > budget.seconds:
                return Status.OUT_OF_TIME
            if k < budget.max_iter:
                parameters = self._improved(parameters, found, memory)
        return Status.OUT_OF_ITERATIONS

    def _is_closed_form(self) -> bool:
        """Whether one M-step was all there is to do."""
        return self.e_step.is_closed_form and isinstance(self.m_step, DirectedStep) and not self.em.batch

    def _improved(self, parameters: np.ndarray, found: Expected, memory: _Memory) -> np.ndarray:
        if self.em.batch is None or self.em.batch >= len(self.task.data):
            return self.m_step.maximise(found.counts, self.task.data.total, parameters)
        for batch in self.e_step.batches(self.em.batch, self.rng):
            new = batch(self.m_step.log_tables(parameters))
            counts = memory.mixed(new.counts, self.em.rate)
            parameters = self.m_step.maximise(counts, self.task.data.total, parameters)
        return parameters

    def _record(self, path: _Path, parameters: np.ndarray, found: Expected) -> float:
        """Keep the numbers of one iteration; returns the change of the objective."""
        total, trace = self.task.data.total, path.trace
        log_z = self.m_step.log_z(parameters)
        value = found.log_weight / total - log_z
        trace["log_likelihood"].append(value)
        trace["objective"].append(value + self.m_step.log_prior(parameters) / total)
        trace["seconds"].append(time.perf_counter() - self.clock)
        if self.held is not None:
            tables = self.m_step.log_tables(parameters)
            try:
                held = self.held(tables).log_weight / self.held.data.total - log_z
            except ImpossibleRowError:  # states that no training row has: learning goes on
                held = -np.inf
            trace["validation"].append(held)
        path.parameters = parameters
        if len(path.objective) < 2:
            return np.inf
        change = path.objective[-1] - path.objective[-2]
        path.falls += change < -_ROUNDING * max(1.0, abs(path.objective[-1]))
        return float(change)

    def plain(self, parameters: np.ndarray) -> float:
        """Log-likelihood per row, all completions summed."""
        e_step = self.em._e_step(self.task, self.m_step, self.task.data, values_only=True)
        found = e_step(self.m_step.log_tables(parameters))
        return found.log_weight / self.task.data.total - self.m_step.log_z(parameters)

    def notes(self, path: _Path) -> list[str]:
        """Sentences about a run."""
        said = ([path.note] if path.note else []) + self.e_step.oracle.report() + self.m_step.report()
        if path.falls and self.em.batch is not None:
            said.append(f"the objective fell in {path.falls} epochs, as stepwise EM may")
        elif path.falls:
            why = "a numerical problem" if self.kind == "exact" else "inference is approximate"
            said.append(f"the objective fell in {path.falls} of {len(path.objective) - 1} iterations: {why}")
        return said


class _Memory:
    """The running mean of expected counts of stepwise EM.

    It begins with those of all rows: after the first batch alone, states that it lacks would be impossible.
    """

    def __init__(self) -> None:
        self.counts = np.empty(0)
        self.steps = 1

    def mixed(self, new: np.ndarray, rate: float) -> np.ndarray:
        """Mix in the counts of a batch."""
        self.steps += 1
        share = self.steps**-rate
        self.counts = (1 - share) * self.counts + share * new
        return self.counts
