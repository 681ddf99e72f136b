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

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import NoneType
from typing import Any, ClassVar, Literal

import numpy as np

from ..core import check
from ..core.errors import DataError, ImpossibleRowError
from ..core.instance import Template
from ..core.result import Estimate, Kind
from ..data.dataset import Dataset
from ..data.stream import Stream
from ..data.table import StateTable
from ..families.learnable import Learnable
from ..inference.problem.base import algorithms
from ..inference.problem.rows import reads_rows
from ..models.table_priors import TablePrior, table_prior_of
from .base import Fit, Learner, Task, register_learner
from .conditional_gaussian import NetworkProblem
from .counts import TableStep, Unseen
from .e_step import EStep
from .em_data import DividedData, Expected, Place, batch_of, check_batches, unit_batches
from .em_steps import EMProblem, EMRun, EMStart, fit_of, run_em
from .expectations import Oracle
from .hidden_rows import RowsOracle
from .hmm import HiddenRows
from .m_step import DirectedStep, MStep, UndirectedStep
from .network_rows import NetworkRows
from .parameters import Parameters, why_not_linear
from .priors import Prior, prior_of, priors
from .runs import completed
from .streams import first_batch

__all__ = ["EM"]

_ROUNDING = 1e-10  # relative fall of the objective that is noise


@register_learner
@dataclass(frozen=True, kw_only=True)
class EM(Learner):
    """Expectation maximisation; for chains also by the name `baum-welch`.

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
    monotone: ClassVar[bool] = True
    checkpoints: ClassVar[bool] = True
    streams: ClassVar[bool] = True
    reads_soft: ClassVar[bool] = True
    tol: ClassVar[float] = 1e-3  # change of a parameter
    prior: Any = None  # networks: uniform, bdeu, ...; weights: gaussian, ...; rows: HMMPrior, ...
    start: Literal["auto", "given", "random"] = "auto"  # of the first run; auto breaks symmetries only
    restarts: int = 1  # runs in all; the best is returned
    hard: bool = False  # the best completion of each row instead of all
    batch: int | None = None  # rows, or sequences in memory, per M-step of stepwise EM; None: all
    rate: float = 0.6  # how fast stepwise EM forgets, above 0.5 and at most 1
    unseen: Unseen = "keep"  # parent states without expected counts: keep their values, uniform, or refuse
    tie: Any = ()  # networks: lists of names of children that share a table; others: as in likelihood
    fixed: tuple[Any, ...] = ()  # children (networks), factors, or parts (sequences) that are not learned
    steps: int = 5  # quasi-Newton steps of one M-step, for models without a closed form
    threads: int | None = None  # of the exact E-step; None: all the machine has
    floor: float = 0.0  # variances of emissions, or shares of those of real nodes, are raised to it

    def __post_init__(self) -> None:
        """Check the options."""
        check.one_of("start", self.start, ["auto", "given", "random"])
        check.one_of("unseen", self.unseen, ["keep", "uniform", "refuse"])
        check.one_of("hard", self.hard, [True, False])
        check.whole("restarts", self.restarts, 1)
        check.whole("steps", self.steps, 1)
        check.at_least("floor", self.floor, 0)
        if self.threads is not None:
            check.whole("threads", self.threads, 1)
        check_batches(self.batch, self.rate)
        if isinstance(self.prior, (str, Mapping)) and not self._is_weight_prior():
            table_prior_of(self.prior)

    def _is_weight_prior(self) -> bool:
        name = str(self.prior).partition("(")[0].strip()
        return isinstance(self.prior, Prior) or (isinstance(self.prior, str) and name in priors.names())

    def why_not(self, task: Task) -> str | None:
        """Models with tables or weights to learn, and those of hidden rows."""
        if self.hard and isinstance(task.data, Stream):
            return "hard cannot be had for a stream"
        return self._why_not_rows(task) if isinstance(task.model, Template) else self._why_not_tables(task)

    def _why_not_tables(self, task: Task) -> str | None:
        """Options that mean something for these tables."""
        if not isinstance(self.prior, (str, Mapping, Prior, TablePrior, NoneType)):
            kind = type(self.prior).__name__
            return f"a {kind} is no prior of tables or weights, and {task.name} has nothing else"
        if self.floor and not getattr(task.model, "regressions", None):
            return f"floor holds variances of emissions, and {task.name} has none"
        if getattr(task.model, "regressions", None) and self.hard:
            return "hard cannot be had where nodes are real"
        if hasattr(type(task.model), "flat_tables"):
            if self._is_weight_prior():
                return f"{self.prior} is a prior of weights; for a BayesNet use uniform, bdeu or towards"
            return None
        reason = why_not_linear(task.model)
        if reason is not None:
            return reason.replace("expected a", "expected a BayesNet,", 1)
        if self.prior is not None and not self._is_weight_prior():
            return f"{self.prior} is a prior of conditional tables; use gaussian, laplace or elastic here"
        return None

    def _why_not_rows(self, task: Task) -> str | None:
        """What the model offers to be learned; each option must mean something."""
        model = task.model
        if not isinstance(model, Learnable):
            return f"{task.name} is no Learnable: it has no `update` from expected counts"
        if task.inference is not None and (reason := _why_not_asked(task)) is not None:
            return reason
        in_parts = self.batch is not None or isinstance(task.data, Stream)
        if in_parts and model.emission.to_free() is not None:
            what = "batch" if self.batch is not None else "a stream"
            return (
                f"{what} cannot be had where leaves have no closed form: each of its gradient steps sees all "
                "rows; use gradient-em"
            )
        if model.emission.is_noisy:
            return (
                "rows come in steps, and noise is new in every step, so no objective can be sure to rise; "
                "use gradient-em"
            )
        if not isinstance(self.prior, (*model.prior_kinds, NoneType)):
            kinds = " or ".join(kind.__name__ for kind in model.prior_kinds) or "none"
            return f"{self.prior} is no prior of {task.name}; expected {kinds}"
        if self.unseen == "uniform":
            return "unseen must be keep or refuse for models of rows and sequences"
        given = [n for n, v in (("hard", self.hard), ("tie", self.tie), ("threads", self.threads)) if v]
        return f"{', '.join(given)} cannot be had for {task.name}" if given else None

    def _rows(self, task: Task) -> HiddenRows:
        if task.model.emission.missing(task.data.rows()).all():
            raise DataError("data: expected at least one observed row, got missing ones only")
        task.model.emission.refuse(task.data.rows())
        unseen: Any = self.unseen
        kind = HiddenRows
        if task.model.emission.to_free() is not None:
            kind = _climbed(task)
        return kind(
            task.model, task.data, self.prior, tuple(self.fixed), self.floor, unseen, task.validation,
            self.start == "random", oracle=_rows_oracle(task),
        )  # fmt: skip

    def run(self, task: Task, rng: np.random.Generator) -> Fit:
        """All restarts; the best of them."""
        stream = None
        if isinstance(task.data, Stream):
            stream, task = task.data, replace(task, data=first_batch(task.model, task.data))
        if isinstance(task.model, Template):
            rows = self._rows(task)
            rows = rows if stream is None else replace(rows, stream=stream)
            found = run_em(
                rows, task.budget, rng, name=self.name, restarts=self.restarts, batch=self.batch,
                rate=self.rate, shown=rows.fit_of,
            )  # fmt: skip
            return rows.fit_of(found)
        if isinstance(task.data, NetworkRows):
            return self._with_real_nodes(task, stream, rng)
        problem = _Tables(self, task, self._m_step(task), stream=stream)
        found = run_em(
            problem, task.budget, rng, name=self.name, restarts=self.restarts,
            batch=batch_of(self.batch, task.data, stream), rate=self.rate, shown=problem.fit_of,
        )  # fmt: skip
        fit = problem.fit_of(found)
        if not self.hard or found.was_stopped:
            return fit
        # What the curve shows is the likelihood of the completed rows.
        return completed(fit, lambda fit: replace(fit, log_likelihood=problem.plain(found.parameters)))

    def _with_real_nodes(self, task: Task, stream: Stream | None, rng: np.random.Generator) -> Fit:
        """Exact expectations of states and numbers."""
        floor = {"floor": self.floor} if self.floor else {}
        problem = NetworkProblem(
            task.model, task.data, prior=self.prior, tie=self.tie, fixed=self.fixed, unseen=self.unseen,
            watched=task.validation, stream=stream, **floor,
        )  # fmt: skip
        found = run_em(
            problem, task.budget, rng, name=self.name, restarts=self.restarts,
            batch=batch_of(self.batch, task.data, stream), rate=self.rate, shown=partial(fit_of, problem),
        )  # fmt: skip
        return fit_of(problem, found)

    def _m_step(self, task: Task) -> MStep:
        if hasattr(type(task.model), "flat_tables"):
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


def _why_not_asked(task: Task) -> str | None:
    """Why the expectations of these rows cannot come from the method that was named."""
    size = len(task.model.emission)
    instance = task.model.hidden(np.zeros((0, size)), np.zeros(1, dtype=np.int64))
    method: Any = algorithms.resolve(task.inference or "")
    if not reads_rows(method, instance, ()):
        return f"{method.name} reads no {instance.structure}; leave out inference, they are answered exactly"
    if isinstance(task.data, Stream):
        return "a stream is answered exactly, batch by batch; leave out inference"
    if task.model.emission.to_free() is not None:
        return "leaves without closed form are moved with exact expectations; leave out inference"
    return method.why_not_rows(instance)


def _rows_oracle(task: Task) -> RowsOracle | None:
    if task.inference is None:
        return None
    method: Any = algorithms.resolve(task.inference)
    return RowsOracle(method, task.inference_budget, task.seed or 0)


def _climbed(task: Task) -> type[HiddenRows]:
    """Leaves without closed form, whose posteriors are kept for all rows."""
    from .climbed_rows import ClimbedRows
    from .gradient_passes import check_memory

    check_memory(task.model.emission, task.data)
    return ClimbedRows


class _Tables(DividedData, EMProblem):
    """A model of tables with its rows.

    The parameters are a vector: the probabilities of a network, the log weights of other models.
    """

    def __init__(
        self, em: EM, task: Task, m_step: MStep, oracle: Oracle | None = None, stream: Stream | None = None
    ) -> None:
        self.em, self.task, self.m_step, self.stream = em, task, m_step, stream
        self.rows = task.data.total if stream is None else stream.total
        self.e_step = em._e_step(task, m_step, task.data)
        if oracle is not None:
            self.e_step.oracle = oracle  # of all batches
        self.held: EStep | None = None
        if task.validation is not None:
            self.held = em._e_step(task, m_step, task.validation, values_only=True)

    @property
    def memory(self) -> tuple[Oracle, ...]:
        steps: tuple[Any, ...] = (self.e_step, self.m_step, self.held)
        return tuple(step.oracle for step in steps if hasattr(step, "oracle"))

    def start(self, rng: np.random.Generator, number: int) -> EMStart:
        return EMStart(*self.em._start(self.m_step, self.task, rng, number))

    def expect(self, parameters: np.ndarray) -> Expected:
        found = self.e_step(self.m_step.log_tables(parameters))
        return Expected(found.log_weight - self.rows * self.m_step.log_z(parameters), found.counts)

    def maximise(self, statistics: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        rows = self.rows
        if self.stream is not None:  # every row counts once in the first table, but for those without a cell
            rows = float(statistics[: int(self.m_step.graph.table_size[0])].sum())
        return self.m_step.maximise(statistics, rows, parameters)

    def part(self, batch: Dataset) -> _Tables:
        data = StateTable.of_dataset(batch, self.task.data.variables)
        return _Tables(
            self.em, replace(self.task, data=data, validation=None), self.m_step, self.e_step.oracle
        )

    def own_batches(self, size: int, seed: int, place: Place) -> Iterator[tuple[Callable[[Any], Any], Place]]:
        for rows, end in unit_batches(np.arange(len(self.task.data)), size, seed, place):
            yield partial(self._batch, self.e_step.batch(rows)), end

    def _batch(self, batch: Callable[[np.ndarray], Any], parameters: np.ndarray) -> np.ndarray:
        found: np.ndarray = batch(self.m_step.log_tables(parameters)).counts
        return found

    def movement(self, old: np.ndarray, new: np.ndarray) -> float:
        return float(np.abs(new - old).max(initial=0.0))

    def log_prior(self, parameters: np.ndarray) -> float:
        return self.m_step.log_prior(parameters)

    def made(self, parameters: np.ndarray) -> Any:
        return self.m_step.made(parameters)

    def is_monotone(self) -> bool:
        return False  # a fall is told in the notes, with its reason

    def is_closed_form(self) -> bool:
        return self.stream is None and self.e_step.is_closed_form and isinstance(self.m_step, DirectedStep)

    def kind(self) -> Kind:
        return "exact" if self.e_step.kind() == self.m_step.kind() == "exact" else "estimate"

    def report(self) -> list[str]:
        return self.e_step.oracle.report() + self.m_step.report()

    def validate(self, parameters: np.ndarray) -> float | None:
        if self.held is None:
            return None
        try:
            weight = self.held(self.m_step.log_tables(parameters)).log_weight
        except ImpossibleRowError:  # states that no training row has: learning goes on
            return -np.inf
        return weight / self.held.data.total - self.m_step.log_z(parameters)

    def plain(self, parameters: np.ndarray) -> Estimate:
        """Log-likelihood, all completions summed."""
        e_step = self.em._e_step(self.task, self.m_step, self.task.data, values_only=True)
        found = e_step(self.m_step.log_tables(parameters))
        return Estimate(found.log_weight - self.rows * self.m_step.log_z(parameters), self.kind())

    def fit_of(self, found: EMRun) -> Fit:
        """The fit, as far as it is known without more work."""
        fit = fit_of(self, found)
        value = None if self.em.hard else fit.log_likelihood
        return replace(fit, log_likelihood=value, notes=(*fit.notes, *self._falls(fit.objective)))

    def _falls(self, objective: np.ndarray) -> list[str]:
        """Sentences about falls of the objective."""
        falls = int((np.diff(objective) < -_ROUNDING * np.maximum(1.0, np.abs(objective[1:]))).sum())
        if falls and self.em.batch is not None:
            return [f"the objective fell in {falls} epochs, as stepwise EM may"]
        if not falls:
            return []
        why = "a numerical problem" if self.kind() == "exact" else "inference is approximate"
        return [f"the objective fell in {falls} of {len(objective) - 1} iterations: {why}"]
