"""What every inference algorithm is, and the one loop.

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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from ...core.errors import QueryError, ZeroProbabilityError
from ...core.factor_graph import FactorGraph
from ...core.registry import Registry
from ...core.result import Result, Status
from ...core.variable import Variable
from ...optimise.driver import Outcome, Step, drive
from ...optimise.run import Budget, Run
from ...structures.layers import dense_layers
from .contents import TASKS, Method, methods

__all__ = [
    "Algorithm",
    "Algorithms",
    "Budget",
    "ContradictoryRowError",
    "IterativeAlgorithm",
    "Problem",
    "ResumableAlgorithm",
    "algorithms",
    "names_to_maximise",
    "register",
]


_MUCH = 0.95  # damping above which more only slows a run


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
    vectors: Mapping[str, np.ndarray] = field(default_factory=dict)  # name -> its coordinates
    observed: np.ndarray | None = None  # flags of observed variables, which have one state; None: none

    @classmethod
    def about(
        cls, graph: FactorGraph, maximise: Iterable[int] = (), *, samples: int = 0, warm: Any = None
    ) -> Problem:
        """The usual question about a graph without evidence: sums, then maxima at these positions."""
        temperatures = np.ones(len(graph.variables))
        temperatures[list(maximise)] = 0
        return cls(graph, temperatures, (1 - temperatures).astype(np.int64), samples=samples, warm=warm)

    @cached_property
    def is_sum(self) -> bool:
        """Whether all variables are summed."""
        return bool((self.temperatures == 1).all())

    @cached_property
    def is_max(self) -> bool:
        """Whether all variables are maximised."""
        return bool((self.temperatures == 0).all())

    @property
    def task(self) -> str:
        """The kind of question, a word of `contents.TASKS`."""
        if self.query or self.samples:
            return "query" if self.query else "samples"
        if self.is_sum or self.is_max:
            return "sum" if self.is_sum else "max"
        along = self.temperatures[np.argsort(self.levels, kind="stable")]
        if (np.diff(along) > 0).any():
            return "ordered"
        return "mixed" if np.isin(self.temperatures, (0.0, 1.0)).all() else "powered"

    @cached_property
    def commuting_levels(self) -> np.ndarray:
        """The levels, neighbours of one temperature joined: their powered sums commute, so values stay."""
        order = np.argsort(self.levels, kind="stable")
        rises = np.diff(self.temperatures[order]) != 0
        levels = np.zeros(len(order), dtype=np.int64)
        levels[order[1:]] = np.cumsum(rises)
        return levels

    @property
    def maximised(self) -> np.ndarray:
        """Positions of the maximised variables."""
        return np.flatnonzero(self.temperatures == 0)

    @cached_property
    def maximises_last(self) -> bool:
        """Whether every maximised variable is eliminated after all others: an assignment then has a value."""
        heat, levels = self.temperatures, self.levels
        return bool(levels[heat > 0].max(initial=-1) <= levels[heat == 0].min(initial=len(levels)))

    @property
    def constant(self) -> float:
        """The log of the product of the factors without variables; an error if it is zero."""
        graph = self.graph
        alone = np.flatnonzero(np.diff(graph.scope_start) == 0)
        total = float(graph.log_tables[graph.table_start[alone]].sum())
        if total == -np.inf:
            raise self.contradiction()
        return total

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


def names_to_maximise(maximise: Any, names: Iterable[str]) -> tuple[Any, ...]:
    """The names a question maximises; `names` are those of all variables."""
    if isinstance(maximise, str) or not isinstance(maximise, Iterable):
        if maximise != "all":
            raise QueryError(f"maximise: expected 'all' or a list of names, got {maximise!r:.80}")
        return tuple(names)
    found = tuple(maximise)
    for name in found:
        if not isinstance(name, (str, Variable)):
            raise QueryError(f"maximise: expected 'all' or a list of names, got {name!r:.80} in it")
    return found


class ContradictoryRowError(ZeroProbabilityError):
    """Some of many rows of evidence are impossible; `rows` has the numbers of those that are known."""

    def __init__(self, rows: Any) -> None:
        self.rows = np.atleast_1d(np.asarray(rows, dtype=np.int64))
        super().__init__(f"row {self.row}: the evidence has probability zero under this model")

    @property
    def row(self) -> int:
        """The first of them."""
        return int(self.rows.min())


class Algorithm(abc.ABC):
    """Options are the dataclass fields of the final class; nothing else is configurable.

    What it reads and answers is declared, and everything else is refused before `why_not` is asked. Methods
    that read tables get observed variables with one state; those that read functions or Gaussian blocks get
    a graph without them. Methods of this package are declared in the table of contents of their folder.

    A complete algorithm: one that believes all states are equally likely.

    >>> from dataclasses import dataclass
    >>> from typing import ClassVar
    >>> import numpy as np
    >>> from credo.core.result import Marginals, Result, Status
    >>> from credo.inference.problem.base import Algorithm
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Indifferent(Algorithm):
    ...     name: ClassVar[str] = "indifferent"
    ...     answers: ClassVar[tuple[str, ...]] = ("sum",)
    ...     def run(self, problem, budget, rng):
    ...         variables = problem.graph.variables
    ...         flat = np.repeat(1 / variables.sizes, variables.sizes)
    ...         return Result(self.name, Status.EXACT, marginals=Marginals(variables, flat))
    >>> import credo
    >>> credo.infer(credo.datasets.sprinkler(), Indifferent()).marginals["rain"]
    rain   no: 0.5   yes: 0.5
    """

    name: ClassVar[str]
    answers: ClassVar[tuple[str, ...]] = tuple(TASKS)  # kinds of questions
    reads: ClassVar[tuple[str, ...]] = ("discrete",)  # domains of variables that were not observed
    groups: ClassVar[tuple[str, ...]] = ("tables",)  # kinds of factors; "functions" are batches of any kind
    promises: ClassVar[frozenset[str]] = frozenset()  # words the conformance tests check
    warm_starts: ClassVar[bool] = False  # whether `run` makes use of `problem.warm`
    compiles: ClassVar[bool] = False  # whether a new structure is compiled first, which takes seconds
    checkpoints: ClassVar[bool] = False  # whether its runs can be kept: they are driven, their state is data
    slopes: ClassVar[bool] = (
        False  # whether sums over tables come with factor marginals, as learners need them
    )

    def why_not(self, problem: Problem) -> str | None:
        """None if a problem of the declared kind can be treated, otherwise the reason in one sentence."""
        return None

    def takes_layers(self, problem: Problem) -> bool:
        """Whether a dense factor between two layers is read as it is, by methods that say they can."""
        return dense_layers(problem.graph) is not None

    @property
    def remedy(self) -> str:
        """What an option can do for a run whose change no longer falls; empty where none does."""
        damping = getattr(self, "damping", _MUCH)
        if damping is None or damping == 0:
            return "give damping"
        return f"raise damping (it is {damping:g})" if damping < _MUCH else ""

    @abc.abstractmethod
    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """Solve; the result is in terms of `problem.graph`. Never modifies its arguments."""


S = TypeVar("S")


class ResumableAlgorithm(Algorithm, Generic[S]):
    """An algorithm whose run goes on from where it was cut: the `state` of its results."""

    @abc.abstractmethod
    def start(self, problem: Problem, rng: np.random.Generator) -> S:
        """The first state."""

    @abc.abstractmethod
    def resume(self, problem: Problem, state: S, budget: Budget) -> Result:
        """Run from a state of an earlier run."""

    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """Run from the first state."""
        with Run(budget, rng, whole=False) as run:
            run.has_begun = False
            first = self.start(problem, rng)
            run.has_begun = True
            return self.resume(problem, first, budget)


class IterativeAlgorithm(ResumableAlgorithm[S]):
    """An algorithm of equal steps. Implement `start`, `step` and `read`; the driver has the loop.

    For checkpoints, make the class of its states known by `core.records.record`.
    """

    checkpoints: ClassVar[bool] = True

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

    def messages(self, problem: Problem, state: S) -> dict[tuple[int, str], np.ndarray] | None:
        """(factor, variable) -> log message held by a state, for observers; None where edges have none."""
        return None

    def resume(self, problem: Problem, state: S, budget: Budget) -> Result:
        """Step until the change is below `tol`, or the budget is used up, or somebody stops it."""
        return drive(_EqualSteps(self), problem, budget, state=state)  # type: ignore[no-any-return]


class _EqualSteps:
    """An iterative algorithm as the driver sees it."""

    def __init__(self, algorithm: IterativeAlgorithm[Any]) -> None:
        self._algorithm, self.name, self.remedy = algorithm, algorithm.name, algorithm.remedy

    def advance(self, problem: Problem, state: Any, run: Run) -> Step:
        count = 1 if run.is_traced else run.count
        state, changes = self._algorithm.advance(problem, state, count, run.budget.tol)
        if not run.is_traced:
            return Step(state, changes)
        found = self._algorithm.read(problem, state, Status.CONVERGED)
        if found.trace or found.log_z is None:  # it keeps a record of its own, or has no value
            return Step(state, changes)
        return Step(state, changes, {"log_z": [found.log_z.value] * len(changes)})

    def messages(self, problem: Problem, state: Any) -> Any:
        return self._algorithm.messages(problem, state)

    def read(self, problem: Problem, outcome: Outcome) -> Result:
        found = self._algorithm.read(problem, outcome.state, outcome.ended)
        trace = {name: np.array(numbers) for name, numbers in outcome.trace.items()}
        trace = {**found.trace, **trace, "change": np.array(outcome.residuals)}
        return replace(found, trace=trace, state=outcome.state)


class Algorithms(Registry[Algorithm]):
    """All algorithms by name: those of this package, imported one by one, and those of users."""

    def __init__(self) -> None:
        short = {"structured": "structured-mean-field"}
        super().__init__("algorithm", methods, "credo methods", short)

    def entries(self) -> dict[str, Method]:
        """Name -> what is known, family by family, the best known first; imports no algorithm."""
        known = dict(methods())
        others = [(name, cls) for name, cls in self._classes.items() if name not in known]
        if others:
            from .simplest import method_of

            known |= {name: method_of(cls) for name, cls in others}
        return known


algorithms = Algorithms()
register = algorithms.register
