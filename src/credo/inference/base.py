"""What every inference algorithm is, the one loop, and the one public call.

The task is a powered sum with a temperature per variable,

    Phi = log  sum^{t_n}_{x_n} ... sum^{t_1}_{x_1}  exp theta(x),
    sum^t_x f = ( sum_x f^{1/t} )^t,      sum^0_x f = max_x f,

so marginals and log Z (all t = 1), MAP (all t = 0) and marginal MAP (0 for the maximised
variables, 1 for the others) are one task. Powered sums of different temperatures do not
commute: variables are eliminated by falling temperature, sums before maxima, unless an
`order` is given.
"""

from __future__ import annotations

import abc
import importlib
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np

from ..core import check
from ..core.errors import (
    ConvergenceError,
    ConvergenceWarning,
    ModelError,
    OptionError,
    QueryError,
    UnsupportedError,
    ZeroProbabilityError,
)
from ..core.evidence import Evidence, Restriction, condition
from ..core.factor_graph import FactorGraph, Model
from ..core.progress import Progress
from ..core.registry import Registry, describe
from ..core.result import Joint, Result, Samples, Status, unrestrict

__all__ = [
    "Algorithm",
    "Budget",
    "ContradictoryRowError",
    "IterativeAlgorithm",
    "Problem",
    "Question",
    "algorithms",
    "graph_of",
    "infer",
    "pose",
    "query",
    "register",
    "sample",
]


def _load_all() -> None:
    importlib.import_module("credo.inference")


@dataclass(frozen=True)
class Budget:
    """When to stop."""

    max_iter: int = 1000  # sweeps or steps, as the algorithm counts them
    tol: float = 1e-8  # largest change that counts as converged
    seconds: float | None = None  # wall time, None for no limit

    def __post_init__(self) -> None:
        check.at_least("max_iter", self.max_iter, 0)
        check.at_least("tol", self.tol, 0)
        if self.seconds is not None:
            check.at_least("seconds", self.seconds, 0)


@dataclass(frozen=True)
class Problem:
    """A conditioned graph and the question asked about it; positions index `graph.variables`."""

    graph: FactorGraph
    temperatures: np.ndarray  # (n,) 1 = sum, 0 = maximise
    levels: np.ndarray  # (n,) variables are eliminated by rising level
    query: tuple[int, ...] = ()  # variables whose joint marginal is asked for
    samples: int = 0  # how many joint samples are asked for
    has_evidence: bool = False  # whether anything was observed; decides the wording of a refusal
    warm: Any = None  # state of an earlier run on the same structure, to start from

    @cached_property
    def is_sum(self) -> bool:
        """Whether all variables are summed."""
        return bool((self.temperatures == 1).all())

    @cached_property
    def is_max(self) -> bool:
        """Whether all variables are maximised."""
        return bool((self.temperatures == 0).all())

    @property
    def maximised(self) -> np.ndarray:
        """Positions of the maximised variables."""
        return np.flatnonzero(self.temperatures == 0)

    @cached_property
    def maximises_last(self) -> bool:
        """Whether every maximised variable is eliminated after all others: an assignment then has a value."""
        heat, levels = self.temperatures, self.levels
        return bool(levels[heat > 0].max(initial=-1) <= levels[heat == 0].min(initial=len(levels)))

    def contradiction(self) -> ZeroProbabilityError:
        """The error to raise when no configuration has positive weight."""
        if self.has_evidence:
            return ZeroProbabilityError(
                "the evidence has probability zero under this model; "
                "check the observed states, or give soft evidence (a likelihood vector)"
            )
        return ZeroProbabilityError(
            "the model gives every configuration weight zero: its factors contradict each other"
        )


class ContradictoryRowError(ZeroProbabilityError):
    """One of many rows of evidence is impossible; `row` is its number."""

    def __init__(self, row: int) -> None:
        super().__init__(f"row {row}: the evidence has probability zero under this model")
        self.row = row


class Algorithm(abc.ABC):
    """Options are the dataclass fields of the final class; nothing else is configurable.

    A complete algorithm: one that believes all states are equally likely.

    >>> from dataclasses import dataclass
    >>> from typing import ClassVar
    >>> import numpy as np
    >>> from credo.core.result import Marginals, Result, Status
    >>> from credo.inference.base import Algorithm
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Indifferent(Algorithm):
    ...     name: ClassVar[str] = "indifferent"
    ...     def why_not(self, problem):
    ...         return None if problem.is_sum else "it knows no maxima"
    ...     def run(self, problem, budget, rng):
    ...         variables = problem.graph.variables
    ...         flat = np.repeat(1 / variables.sizes, variables.sizes)
    ...         return Result(self.name, Status.EXACT, marginals=Marginals(variables, flat))
    >>> import credo
    >>> credo.infer(credo.datasets.sprinkler(), Indifferent()).marginals["rain"]
    array([0.5, 0.5])
    """

    name: ClassVar[str]
    promises: ClassVar[frozenset[str]] = frozenset()  # words the conformance tests check
    warm_starts: ClassVar[bool] = False  # whether `run` makes use of `problem.warm`
    compiles: ClassVar[bool] = False  # whether a new structure is compiled first, which takes seconds

    @abc.abstractmethod
    def why_not(self, problem: Problem) -> str | None:
        """None if the problem can be treated, otherwise the reason in one sentence."""

    @abc.abstractmethod
    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """Solve; the result is in terms of `problem.graph`. Never modifies its arguments."""


S = TypeVar("S")


class IterativeAlgorithm(Algorithm, Generic[S]):
    """An algorithm with a state. Implement `start`, `step` and `read`; the loop is here."""

    @abc.abstractmethod
    def start(self, problem: Problem, rng: np.random.Generator) -> S:
        """The first state."""

    @abc.abstractmethod
    def step(self, problem: Problem, state: S) -> tuple[S, float]:
        """The next state and how much it changed."""

    def advance(
        self, problem: Problem, state: S, count: int, tol: float
    ) -> tuple[S, Sequence[float] | np.ndarray]:
        """At most `count` steps in one go, and the change of each; algorithms with cheap steps do many."""
        state, change = self.step(problem, state)
        return state, [change]

    @abc.abstractmethod
    def read(self, problem: Problem, state: S, status: Status) -> Result:
        """The answer held by a state, given why the run stopped."""

    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """Step until the change is below `tol`, or the budget is used up, or Ctrl-C."""
        clock = time.perf_counter()
        return self.resume(problem, self.start(problem, rng), budget, clock)

    def resume(self, problem: Problem, state: S, budget: Budget, clock: float | None = None) -> Result:
        """The same from a state of an earlier run; the time counts from `clock`, or from now."""
        clock = time.perf_counter() if clock is None else clock
        changes: list[float] = []
        status = Status.OUT_OF_ITERATIONS
        with Progress(self.name, budget.max_iter) as bar:
            try:
                while len(changes) < budget.max_iter:
                    state, new = self.advance(problem, state, budget.max_iter - len(changes), budget.tol)
                    changes.extend(float(change) for change in new)
                    bar.update(len(changes), f"change {changes[-1]:.1e}")
                    if not np.isfinite(changes[-1]):
                        status = Status.DIVERGED
                        break
                    if changes[-1] < budget.tol:
                        status = Status.CONVERGED
                        break
                    if budget.seconds is not None and time.perf_counter() - clock > budget.seconds:
                        status = Status.OUT_OF_TIME
                        break
            except KeyboardInterrupt:
                status = Status.INTERRUPTED
        result = self.read(problem, state, status)
        return replace(result, trace={**result.trace, "change": np.array(changes)}, state=state)


algorithms: Registry[Algorithm] = Registry("algorithm", _load_all)
register = algorithms.register


def infer(
    model: Model,
    method: str | Algorithm | None = None,
    *,
    evidence: Mapping[str, Any] | None = None,
    maximise: Literal["all"] | Iterable[str] = (),
    temperatures: Mapping[str, float] | None = None,
    order: Iterable[str] | None = None,
    max_iter: int = 1000,
    tol: float = 1e-8,
    seconds: float | None = None,
    seed: int | None = None,
    strict: bool = False,
    warm_start: Result | None = None,
) -> Result:
    """Answer a question about a model.

    Parameters
    ----------
    model
        Anything with `to_factor_graph()`.
    method
        A name such as `"junction-tree"`, with options `"junction-tree(propagation=hugin)"`, or
        an algorithm object. Without one: the junction tree if its forecast is small.
    evidence
        Name -> state label, state index, likelihood vector, or None for missing.
    maximise
        `()` for marginals and log Z, `"all"` for MAP, names for marginal MAP.
    temperatures
        Name -> temperature of the powered sum, for variables not in `maximise`; 1 is a sum.
    order
        Full elimination order (first eliminated first) where temperatures differ and the
        default, by falling temperature, is not meant.
    max_iter, tol, seconds
        When to stop an iterative method.
    seed
        Seed of the one random generator of the run.
    strict
        Raise `ConvergenceError` instead of warning when the run did not converge.
    warm_start
        The result of an earlier run of a message-passing method with the same variables observed.

    Returns
    -------
    Result
        For marginal MAP and MAP, `log_z` is the value of the maximisation.

    Examples
    --------
    >>> import credo
    >>> model = credo.datasets.sprinkler()
    >>> print(credo.infer(model, evidence={"wet": "yes"}).marginals["rain"].round(4))
    [0.2921 0.7079]
    """
    question, problem = pose(model, evidence, maximise, temperatures, order)
    if warm_start is not None:
        if not isinstance(warm_start, Result):
            raise QueryError(f"warm_start: expected the Result of an earlier run, got {warm_start!r:.80}")
        if warm_start.state is None:
            raise QueryError(f"warm_start: {warm_start.algorithm} keeps no state to start from")
        problem = replace(problem, warm=warm_start.state)
    return question.ask(problem, method, Budget(max_iter, tol, seconds), seed=seed, strict=strict)


def pose(
    model: Model,
    evidence: Mapping[str, Any] | None,
    maximise: Literal["all"] | Iterable[str] = (),
    temperatures: Mapping[str, float] | None = None,
    order: Iterable[str] | None = None,
) -> tuple[Question, Problem]:
    """The checked question of a call like `infer`, and its problem on the conditioned graph."""
    question = Question.of(model, evidence)
    return question, question.problem(maximise, temperatures, order)


def query(
    model: Model,
    variables: str | Iterable[str],
    *,
    given: str | Iterable[str] = (),
    evidence: Mapping[str, Any] | None = None,
    method: str | Algorithm = "elimination",
) -> Joint:
    """Joint marginal p(variables | evidence), or the conditional table p(variables | given, evidence).

    Examples
    --------
    >>> import credo
    >>> credo.query(credo.datasets.sprinkler(), "wet", given=["rain"])["yes", "no"].__round__(6)
    0.378
    """
    question = Question.of(model, evidence)
    names, given = _names(variables), _names(given)
    problem = question.problem((), None, None, query=(*names, *given))
    joint = question.ask(problem, method, Budget(), seed=None, strict=True).joint
    if joint is None:
        raise QueryError(f"{method} computes no joint marginals; use method='elimination'")
    if not given:
        return joint
    axes = tuple(range(len(names)))
    norm = joint.table.sum(axis=axes, keepdims=True)
    # Where the condition has probability zero the conditional is undefined; 0/0 := 0.
    table = np.divide(joint.table, norm, out=np.zeros_like(joint.table), where=norm > 0)
    return replace(joint, table=table, given=len(given))


def sample(
    model: Model,
    count: int,
    *,
    evidence: Mapping[str, Any] | None = None,
    method: str | Algorithm = "junction-tree",
    seed: int | None = None,
) -> Samples:
    """Joint samples from p(x | evidence)."""
    check.at_least("count", count, 0)
    question = Question.of(model, evidence)
    if count == 0:
        return Samples(question.original.variables, np.empty((0, len(question.original.variables)), np.int64))
    problem = question.problem((), None, None, samples=int(count))
    samples = question.ask(problem, method, Budget(), seed=seed, strict=False).samples
    if samples is None:
        raise QueryError(f"{method} draws no samples; use method='junction-tree'")
    return samples


def graph_of(model: Model) -> FactorGraph:
    """The factor graph of a model, or a sentence about what is none."""
    if not hasattr(model, "to_factor_graph"):
        raise ModelError(f"expected a model (something with to_factor_graph()), got {type(model).__name__}")
    return model.to_factor_graph()


@dataclass(frozen=True)
class Question:
    """A model with evidence: it poses problems on the restricted graph, maps answers back."""

    original: FactorGraph  # as given
    graph: FactorGraph  # conditioned on the evidence
    restriction: Restriction  # the way back from one to the other
    has_evidence: bool  # whether anything was observed

    @classmethod
    def of(cls, model: Model, evidence: Mapping[str, Any] | None) -> Question:
        """Check the evidence and condition the model on it."""
        original = graph_of(model)
        checked = Evidence.of(original.variables, evidence)
        graph, restriction = condition(original, checked)
        return cls(original, graph, restriction, not checked.is_empty)

    def problem(
        self,
        maximise: Literal["all"] | Iterable[str],
        temperatures: Mapping[str, float] | None,
        order: Iterable[str] | None,
        *,
        query: Iterable[str] = (),
        samples: int = 0,
    ) -> Problem:
        """What is asked, checked: temperatures and levels by position."""
        variables = self.graph.variables
        heat = np.ones(len(variables))
        for name, value in (temperatures or {}).items():
            check.in_range(f"temperature of '{name}'", value, 0, float("inf"))
            heat[variables.position(name)] = value
        if isinstance(maximise, str):
            if maximise != "all":
                raise QueryError(f"maximise: expected 'all' or a list of names, got {maximise!r}")
            heat[:] = 0
        else:
            heat[variables.positions(maximise)] = 0
        asked = tuple(int(i) for i in variables.positions(query))
        if len(set(asked)) < len(asked):
            raise QueryError(f"query: a variable is named twice in {list(query)}")
        levels = _levels(heat) if order is None else _levels_of_order(variables, order)
        return Problem(self.graph, heat, levels, asked, samples, self.has_evidence)

    def ask(
        self,
        problem: Problem,
        method: str | Algorithm | None,
        budget: Budget,
        *,
        seed: int | None,
        strict: bool,
    ) -> Result:
        """Run a method, say how it went, and map its answer back to all states."""
        notes: tuple[str, ...] = ()
        if method is None:
            from .choose import choose

            algorithm, note = choose(problem)
            notes = (note,)
        else:
            algorithm = algorithms.resolve(method)
        if not isinstance(algorithm, Algorithm):
            raise OptionError(f"method: expected a name or an Algorithm, got {algorithm!r}")
        reason = algorithm.why_not(problem)
        if reason is not None:
            raise UnsupportedError(f"{algorithm.name} cannot treat this problem: {reason}")
        if problem.warm is not None and not algorithm.warm_starts:
            raise UnsupportedError(
                f"{algorithm.name} cannot start from an earlier result; leave out warm_start"
            )
        clock = time.perf_counter()
        result = algorithm.run(problem, budget, np.random.default_rng(seed))
        seconds = time.perf_counter() - clock
        if not result.status.is_success:
            sentence = f"{algorithm.name}: {result.status.advice}"
            if strict:
                raise ConvergenceError(sentence)
            warnings.warn(sentence, ConvergenceWarning, stacklevel=3)
        result = replace(
            result, algorithm=describe(algorithm), seconds=seconds, notes=(*notes, *result.notes)
        )
        return unrestrict(result, self.restriction, self.original)


def _names(names: str | Iterable[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _levels(temperatures: np.ndarray) -> np.ndarray:
    """Level 0 for the highest temperature, rising as it falls."""
    return np.unique(-temperatures, return_inverse=True)[1].astype(np.int64)


def _levels_of_order(variables: Any, order: Iterable[str]) -> np.ndarray:
    positions = variables.positions(order)
    if len(set(positions.tolist())) != len(variables) or len(positions) != len(variables):
        raise QueryError(
            f"order: expected each of the {len(variables)} variables once, got {len(positions)} names"
        )
    levels = np.empty(len(variables), dtype=np.int64)
    levels[positions] = np.arange(len(variables))
    return levels
