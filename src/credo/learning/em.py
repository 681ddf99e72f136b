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

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ..core import check
from ..core.errors import ImpossibleRowError, OptionError
from ..core.records import record
from ..core.result import Estimate, Kind, Status
from ..data.table import StateTable
from ..models.bayes_net import BayesNet
from ..optimise.budgets import with_start
from ..optimise.driver import UNKNOWN, Outcome, Step, drive
from ..optimise.run import Run
from ..optimise.run import check as run_check
from .base import Fit, Learner, Task, register_learner
from .counts import TableStep, Unseen
from .e_step import EStep, Expected
from .expectations import Oracle
from .m_step import DirectedStep, MStep, UndirectedStep
from .parameters import Parameters, why_not_linear
from .priors import Prior, prior_of, priors
from .runs import arrays, completed
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
    checkpoints: ClassVar[bool] = True
    tol: ClassVar[float] = 1e-3  # change of a parameter
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
        steps = _Steps(self, task, self._m_step(task))
        found, parameters = drive(steps, task, with_start(task.budget), rng, restarts=self.restarts)
        if not self.hard or found.status in (Status.INTERRUPTED, Status.OUT_OF_TIME):
            return found  # type: ignore[no-any-return]
        # What the curve shows is the likelihood of the completed rows.
        return completed(found, lambda fit: replace(fit, log_likelihood=steps.plain(parameters)))  # type: ignore[no-any-return]

    def _m_step(self, task: Task) -> MStep:
        if isinstance(task.model, BayesNet):
            return DirectedStep(
                TableStep.of(task.model, prior=self.prior, tie=self.tie, fixed=self.fixed, unseen=self.unseen)
            )
        oracle = Oracle(task.inference, task.inference_budget, task.seed)
        parameters = Parameters.of(task.model, tie=self.tie or None, fixed=self.fixed)
        return UndirectedStep(parameters, prior_of(self.prior), oracle, self.steps)

    def _e_step(self, task: Task, m_step: MStep, data: StateTable, *, values_only: bool = False) -> EStep:
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


@record("em memory")
class _Memory(NamedTuple):
    """The running mean of expected counts of stepwise EM.

    It begins with those of all rows: after the first batch alone, states that it lacks would be impossible.
    """

    counts: np.ndarray
    batches: int = 1

    def mixed(self, new: np.ndarray, rate: float) -> _Memory:
        """With the counts of another batch."""
        share = (self.batches + 1) ** -rate
        return _Memory((1 - share) * self.counts + share * new, self.batches + 1)


@record("em")
class _State(NamedTuple):
    """Parameters, and what the E-step said about them."""

    parameters: np.ndarray
    note: str | None = None  # about the start
    expected: Expected | None = None  # None before the first E-step
    objective: float = -np.inf
    memory: _Memory | None = None
    number: int = 0  # E-steps so far


class _Steps:
    """EM as the driver sees it: M-step and E-step; the first step is an E-step alone.

    The residual is the largest change of a parameter: of a probability in a network, of a log weight in
    other models.
    """

    name = EM.name

    def __init__(self, em: EM, task: Task, m_step: MStep) -> None:
        self.em, self.task, self.m_step = em, task, m_step
        self.e_step = em._e_step(task, m_step, task.data)
        self.held: EStep | None = None
        if task.validation is not None:
            self.held = em._e_step(task, m_step, task.validation, values_only=True)

    @property
    def memory(self) -> tuple[Oracle, ...]:
        """What steps change besides the state."""
        steps: tuple[Any, ...] = (self.e_step, self.m_step, self.held)
        return tuple(step.oracle for step in steps if hasattr(step, "oracle"))

    def start(self, task: Task, run: Run) -> Step:
        return Step(_State(*self.em._start(self.m_step, task, run.rng, run.number)))

    def advance(self, task: Task, state: _State, run: Run) -> Step:
        parameters, memory = self._improved(state, run.rng)
        found = self.e_step(self.m_step.log_tables(parameters))
        trace = self._numbers(parameters, found) | {"seconds": [run.elapsed]}
        objective, number = trace["objective"][0], state.number + 1
        memory = memory or _Memory(found.counts)
        change = float(np.abs(parameters - state.parameters).max(initial=0.0)) if state.number else UNKNOWN
        # One M-step is all there is to do where the E-step does not depend on the parameters.
        is_exact = number == 2 and self._is_closed_form()
        new = _State(parameters, state.note, found, objective, memory, number)
        return Step(new, [change], trace, Status.EXACT if is_exact else None)

    def value(self, state: _State) -> float:
        return state.objective

    def parameters(self, task: Task, state: _State) -> np.ndarray:
        return state.parameters

    def show(self, task: Task, outcome: Outcome) -> Fit:
        return self.read(task, outcome)[0]

    def read(self, task: Task, outcome: Outcome) -> tuple[Fit, np.ndarray]:
        """The fit, and its parameters as a vector."""
        state = outcome.state
        names = ["objective", "log_likelihood", "seconds"] + ["validation"] * (self.held is not None)
        trace = arrays(outcome.trace, names)
        value = None
        if state.expected is not None and not self.em.hard:
            value = Estimate(float(trace["log_likelihood"][-1]) * task.data.total, self._kind)
        found = Fit(
            self.m_step.made(state.parameters), outcome.ended, trace["objective"], value, trace,
            notes=tuple(self._notes(state, trace["objective"])),
            restarts=np.array(outcome.values or [state.objective]),
        )  # fmt: skip
        return found, state.parameters

    @property
    def _kind(self) -> Kind:
        """What the log-likelihoods guarantee."""
        return "exact" if self.e_step.kind() == self.m_step.kind() == "exact" else "estimate"

    def _is_closed_form(self) -> bool:
        return self.e_step.is_closed_form and isinstance(self.m_step, DirectedStep) and not self.em.batch

    def _improved(self, state: _State, rng: np.random.Generator) -> tuple[np.ndarray, _Memory | None]:
        """The M-step: one, or one per batch."""
        parameters, memory, total = state.parameters, state.memory, self.task.data.total
        if state.expected is None or memory is None:
            return parameters, memory
        if self.em.batch is None or self.em.batch >= len(self.task.data):
            return self.m_step.maximise(state.expected.counts, total, parameters), memory
        for batch in self.e_step.batches(self.em.batch, rng):
            run_check()
            memory = memory.mixed(batch(self.m_step.log_tables(parameters)).counts, self.em.rate)
            parameters = self.m_step.maximise(memory.counts, total, parameters)
        return parameters, memory

    def _numbers(self, parameters: np.ndarray, found: Expected) -> dict[str, list[float]]:
        """The curves at these parameters, per row."""
        total, log_z = self.task.data.total, self.m_step.log_z(parameters)
        value = found.log_weight / total - log_z
        objective = value + self.m_step.log_prior(parameters) / total
        numbers = {"objective": [objective], "log_likelihood": [value]}
        if self.held is not None:
            try:
                weight = self.held(self.m_step.log_tables(parameters)).log_weight
            except ImpossibleRowError:  # states that no training row has: learning goes on
                numbers["validation"] = [-np.inf]
            else:
                numbers["validation"] = [weight / self.held.data.total - log_z]
        return numbers

    def plain(self, parameters: np.ndarray) -> Estimate:
        """Log-likelihood, all completions summed."""
        e_step = self.em._e_step(self.task, self.m_step, self.task.data, values_only=True)
        found, total = e_step(self.m_step.log_tables(parameters)), self.task.data.total
        return Estimate((found.log_weight / total - self.m_step.log_z(parameters)) * total, self._kind)

    def _notes(self, state: _State, objective: np.ndarray) -> list[str]:
        """Sentences about a run."""
        said = ([state.note] if state.note else []) + self.e_step.oracle.report() + self.m_step.report()
        falls = int((np.diff(objective) < -_ROUNDING * np.maximum(1.0, np.abs(objective[1:]))).sum())
        if falls and self.em.batch is not None:
            said.append(f"the objective fell in {falls} epochs, as stepwise EM may")
        elif falls:
            why = "a numerical problem" if self._kind == "exact" else "inference is approximate"
            said.append(f"the objective fell in {falls} of {len(objective) - 1} iterations: {why}")
        return said
