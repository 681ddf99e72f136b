r"""An answer within a given time, by whatever suits the width of the model.

Narrow models are answered exactly. Otherwise maximisations go to the bracket of `bracket.py`, whose
lower side carries the best assignment found and whose upper side says how good it can be at most.
log Z and marginals of wide models are estimates: generalised belief propagation where its regions
are small, else belief propagation, with damping where it does not settle. Part of the time then goes
to bounds on log Z, and an estimate outside them is moved to the nearer one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ...core import check
from ...core.errors import TooLargeError, UnsupportedError, ZeroProbabilityError
from ...core.factor_graph import Model
from ...core.machine import machine_gigabytes
from ...core.result import Estimate, Result, Status
from ...optimise.driver import UNKNOWN, Observer, Outcome, Step, View, drive
from ...optimise.run import Run
from ..problem.base import Budget, Problem, algorithms
from .bracket import Bracket, best_of, tighten
from .question import pose
from .race import fitting

__all__ = ["SolverAnswer", "solve"]

_ESTIMATORS = ("gbp", "bp", "bp(damping=0.5)", "mean-field")  # the first that settles is taken
_QUICK = ("bp", "mean-field")  # without any time
_FOR_BOUNDS = 0.4  # share of the time that goes to bounds where an estimate is asked for
_DOWNWARDS = 3.0  # what all marginals cost, as a multiple of log Z alone
_TOL = 1e-7  # change of a message at which an estimator has settled


@dataclass(frozen=True)
class SolverAnswer:
    """The best answer found, and what is proven about it."""

    result: Result  # assignment, or marginals and log Z
    bounds: Bracket | None  # on log Z or the maximum; None where only marginals were asked for

    @property
    def sentences(self) -> tuple[str, ...]:
        """What is proven, for people."""
        if self.bounds is None:
            return (f"marginals by {self.result.algorithm}; nothing is proven about them",)
        found = self.bounds
        said = [
            f"lower bound {found.lower.value:.10g} by {found.lower_by}",
            f"upper bound {found.upper.value:.10g} by {found.upper_by}",
        ]
        if found.is_exact:
            what = (
                "the answer is exact"
                if self.result.assignment is None
                else "the assignment is proven optimal"
            )
            return (*said, what)
        return (*said, f"gap {found.gap:.6g}: {found.status.value}")


def solve(
    model: Model,
    evidence: Mapping[str, Any] | None = None,
    maximise: Literal["all"] | Iterable[str] = (),
    *,
    marginals: bool = False,
    seconds: float = 60.0,
    memory_gb: float | None = None,
    seed: int | None = 0,
    on_better: Callable[[Result], None] | None = None,
) -> SolverAnswer:
    """Answer within about `seconds` of wall time.

    Parameters
    ----------
    model, evidence, maximise
        The question, as in `credo.infer`.
    marginals
        Whether marginals are asked for, not log Z alone.
    seconds, memory_gb
        What may be used.
    seed
        Seed of the methods that draw random numbers.
    on_better
        Called with every better assignment as it is found, ten times a second at most.

    Examples
    --------
    >>> import credo
    >>> from credo.inference.portfolio.solve import solve
    >>> solve(credo.datasets.sprinkler(), maximise="all").sentences[-1]
    'the assignment is proven optimal'
    """
    check.at_least("seconds", seconds, 0)
    if memory_gb is not None:
        check.at_least("memory_gb", memory_gb, 0)
    question, problem = pose(model, evidence, maximise)
    with Run(Budget(seconds=seconds), whole=False) as run:
        run.has_begun = False  # its parts answer for themselves, and planning between them is short
        watch = None if on_better is None else _Better(lambda found: on_better(question.all_states(found)))
        result, bounds = _Work(problem, run, memory_gb, seed, watch).answer(marginals)
    return SolverAnswer(question.all_states(result), bounds)


class _Better:
    """An observer of a bracket that passes better assignments on."""

    def __init__(self, tell: Callable[[Result], None]) -> None:
        self._tell, self._best = tell, -np.inf

    def __call__(self, iteration: int, view: View) -> None:
        race = view.outcome.state
        if race.assignment is not None and race.lower.value > self._best:
            self._best = race.lower.value
            self._tell(
                Result(race.lower_by, Status.OUT_OF_TIME, assignment=race.assignment, score=race.lower)
            )


@dataclass(frozen=True)
class _Work:
    """A question and what may be used to answer it."""

    problem: Problem
    run: Run
    memory_gb: float | None
    seed: int | None
    watch: Observer | None = None  # of the bracket of a maximum

    def answer(self, marginals: bool) -> tuple[Result, Bracket | None]:
        """By the kind of question."""
        if len(self.problem.maximised):
            return self.maximum()
        return self.marginals() if marginals else self.log_z()

    def maximum(self) -> tuple[Result, Bracket]:
        """The states behind the lower side of the bracket."""
        found = self._tightened(1.0)
        return best_of(found), found

    def marginals(self) -> tuple[Result, Bracket | None]:
        """Exact ones if that fits, else estimates."""
        memory = machine_gigabytes() / 2 if self.memory_gb is None else self.memory_gb
        if fitting(self.problem, self.run.left / _DOWNWARDS, memory) is None:
            return self._estimated(self.run.left), None
        result = algorithms.resolve("junction-tree").run(self.problem, Budget(), check.generator(self.seed))
        assert result.log_z is not None  # exact methods always have one
        sides = (result.log_z, result.log_z, Status.EXACT, None)
        return result, Bracket(*sides, lower_by=result.algorithm, upper_by=result.algorithm)

    def log_z(self) -> tuple[Result, Bracket]:
        """The value if the bracket closes, else an estimate inside it."""
        found = self._tightened(_FOR_BOUNDS)
        if found.is_exact:
            return Result(found.upper_by, Status.EXACT, log_z=found.upper), found
        # Whoever interrupted the bounds does not want to wait for long.
        left = 0.0 if found.status is Status.INTERRUPTED else self.run.left
        return _clipped(self._estimated(left, found), found), found

    def _tightened(self, share: float) -> Bracket:
        return tighten(
            self.problem,
            gap=0.0,
            seconds=share * self.run.left,
            memory_gb=self.memory_gb,
            seed=self.seed,
            on_step=self.watch,
        )

    def _estimated(self, seconds: float, bounds: Bracket | None = None) -> Result:
        estimators = _Estimators(_ESTIMATORS if seconds > 0 else _QUICK, self.seed, bounds)
        budget = Budget(tol=_TOL, seconds=seconds)
        return drive(estimators, self.problem, budget, whole=False)  # type: ignore[no-any-return]


class _Tried(NamedTuple):
    """Which estimators had their turn."""

    turns: int = 0  # how many, with those that refused
    results: tuple[Result, ...] = ()


@dataclass(frozen=True)
class _Estimators:
    """Marginals and log Z by the first estimator that settles, else by the one that changed least.

    Before there is one, what is known is the middle of the bounds.
    """

    name: ClassVar[str] = "solve"
    specs: tuple[str, ...]
    seed: int | None
    bounds: Bracket | None

    def start(self, problem: Problem, run: Run) -> Step:
        return self.advance(problem, _Tried(), run) if self.bounds is None else Step(_Tried())

    def advance(self, problem: Problem, state: _Tried, run: Run) -> Step:
        """The turn of the next one that does not refuse."""
        for turn in range(state.turns, len(self.specs)):
            budget = Budget(max_iter=10**6, tol=_TOL, seconds=run.left / (len(self.specs) - turn))
            try:
                spec = self.specs[turn]
                found = algorithms.resolve(spec).run(problem, budget, check.generator(self.seed))
            except (TooLargeError, UnsupportedError):
                continue
            except ZeroProbabilityError:
                if turn + 1 == len(self.specs) and not state.results:
                    raise
                continue
            ended = found.status.is_success or found.status is Status.INTERRUPTED
            tried = _Tried(turn + 1, (*state.results, replace(found, algorithm=spec)))
            return Step(tried, [_last_change(found)], status=found.status if ended else None)
        return Step(state, status=Status.STALLED)

    def read(self, problem: Problem, outcome: Outcome) -> Result:
        results = outcome.state.results
        if results:
            settled = [found for found in results if found.status.is_success]
            return (settled or sorted(results, key=_last_change))[0]  # type: ignore[no-any-return]
        assert self.bounds is not None  # no start without bounds is made without a result
        return Result("bracket", outcome.ended, log_z=Estimate(self.bounds.middle, "estimate"))


def _last_change(result: Result) -> float:
    """Of the messages of an estimator; unknown where it has none."""
    change = result.trace.get("change", np.empty(0))
    return min(float(np.nan_to_num(change[-1], nan=UNKNOWN)), UNKNOWN) if len(change) else UNKNOWN


def _clipped(result: Result, found: Bracket) -> Result:
    """The result with its log Z inside the bracket."""
    if result.log_z is None:
        return result
    value = float(np.clip(result.log_z.value, found.lower.value, found.upper.value))
    return replace(result, log_z=Estimate(value, result.log_z.kind))
