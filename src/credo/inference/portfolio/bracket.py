r"""Certified answers in one call: a lower and an upper bound, tightened until they are close enough.

The value asked for is the powered sum of `base.py`: log Z, the score of the best configuration, or
the value of marginal MAP. Every method of the library that bounds it from one side or both takes
part. Exact inference answers at once where it fits into the limits. Otherwise the methods run in
turn (`race.py`): first each of them briefly, then whichever promises most per second, with more time
and finer settings from turn to turn. All bounds are true whenever a run is cut, so the best of each
side stands:

    lower = max over methods,   upper = min over methods,   lower <= value <= upper.

Two bounds need no method and come first. For any state x and temperatures t >= 0,

    theta(x)  <=  Phi  <=  sum_a max theta_a + sum_i t_i log |X_i|.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from ...core import check
from ...core.display import Listing, Shown
from ...core.errors import TooLargeError, UnsupportedError
from ...core.factor_graph import Model
from ...core.machine import machine_gigabytes
from ...core.result import Assignment, Estimate, Result, Status
from ...kernels.positive_read import shifted_tables
from ...optimise.driver import UNKNOWN, Observer, Outcome, Step, drive
from ...optimise.run import Run, Stopped
from ..problem.base import Budget, Problem, algorithms
from ..problem.reading import able, refusal
from ..problem.tree import climb
from ..problem.value import meets
from ..search.local_search import first_states
from .question import Question, pose
from .race import Runner, as_maximum, choose, entrants, fitting, gain_of

__all__ = ["Bracket", "Turn", "Turns", "best_of", "bracket", "tighten"]

_FIRST, _BRIEF = 0.04, 0.2  # first turn of each method: share of the time, and seconds at most
_CHEAP = 2  # the first entrants have a turn even without any time, so that both sides are bounded
_TURNS = 10**9  # as many as there is time for
_EXACT = ("gaussian", "conditional-gaussian")  # methods for models that are not of tables


@dataclass(frozen=True)
class Turn:
    """One turn of one method."""

    seconds: float  # since the beginning
    method: str  # what ran
    lower: float  # the lower bound after it
    upper: float  # the upper bound after it


@dataclass(frozen=True, repr=False)
class Bracket(Shown):
    """Two bounds on one number, who proved them, and how they came together."""

    lower: Estimate  # never above the value
    upper: Estimate  # never below it
    status: Status  # why tightening stopped
    assignment: Assignment | None = None  # of the maximised variables; worth at least `lower`
    lower_by: str = ""  # the method behind the lower bound
    upper_by: str = ""  # and behind the upper one
    history: tuple[Turn, ...] = ()  # one entry per turn
    seconds: float = 0.0  # wall time
    notes: tuple[str, ...] = ()  # sentences about methods that could not take part

    @property
    def gap(self) -> float:
        """Upper less lower; 0 for an exact answer."""
        return max(0.0, self.upper.value - self.lower.value)

    @property
    def is_exact(self) -> bool:
        """Whether the two bounds are one number, up to rounding."""
        return meets(self.lower.value, self.upper.value)

    @property
    def middle(self) -> float:
        """The middle of the bracket; the lower bound where there is no finite upper one."""
        return self.lower.value + self.gap / 2 if np.isfinite(self.gap) else self.lower.value

    @property
    def best(self) -> Result:
        """The assignment, its score, and the bound; no assignment where none of positive weight was found."""
        if self.assignment is None or self.lower.value == -np.inf:
            return Result(self.lower_by, self.status, log_z=self.upper)
        return Result(self.lower_by, self.status, self.upper, assignment=self.assignment, score=self.lower)

    def _shown(self) -> Iterable[str | Listing]:
        how = "exact" if self.is_exact else f"gap {self.gap:.4g}"
        between = f"{self.lower.value:.10g} <= value <= {self.upper.value:.10g}"
        yield f"{between} ({how}), {self.status.value}, {self.seconds:.3g} s"
        yield f"lower by {self.lower_by}, upper by {self.upper_by}"
        if self.assignment is not None:
            yield from self.assignment._shown()


def bracket(
    model: Model,
    evidence: Mapping[str, Any] | None = None,
    maximise: Literal["all"] | Iterable[str] = (),
    *,
    temperatures: Mapping[str, float] | None = None,
    order: Iterable[str] | None = None,
    gap: float = 0.0,
    seconds: float = 10.0,
    memory_gb: float | None = None,
    seed: int | None = 0,
) -> Bracket:
    """Lower and upper bounds on log Z, on the MAP score or on the marginal MAP value.

    Parameters
    ----------
    model, evidence, maximise, temperatures, order
        The question, as in `credo.infer`.
    gap
        Stop when the bounds are this close (natural logarithm).
    seconds
        Stop after about this wall time; a single step of a method is not interrupted.
    memory_gb
        Most memory for tables; None is half of the machine's.
    seed
        Seed of the methods that draw random numbers.

    Examples
    --------
    >>> import credo
    >>> found = credo.bracket(credo.datasets.asia(), evidence={"dysp": "yes"})
    >>> round(found.lower.value, 4), round(found.upper.value, 4), found.is_exact
    (-0.8302, -0.8302, True)
    """
    check.at_least("gap", gap, 0)
    check.at_least("seconds", seconds, 0)
    if memory_gb is not None:
        check.at_least("memory_gb", memory_gb, 0)
    question, problem = pose(model, evidence, maximise, temperatures, order)
    tables = problem.graph.as_tables()
    if tables is None:
        return _without_tables(question, problem, seed)
    problem = problem if tables is problem.graph else replace(problem, graph=tables)
    found = tighten(problem, gap=gap, seconds=seconds, memory_gb=memory_gb, seed=seed)
    if found.assignment is None:
        return found
    answer = Result("bracket", found.status, assignment=found.assignment)
    return replace(found, assignment=question.all_states(answer).assignment)


def _without_tables(question: Question, problem: Problem, seed: int | None) -> Bracket:
    """The exact answer where real variables are Gaussian given states; there are no other bounds."""
    names = able(problem, _EXACT)
    if not names:
        raise UnsupportedError(
            "bracket: bounds from both sides are known for discrete models, and for Gaussian ones that are "
            f"small enough to be exact: {refusal(algorithms.resolve(_EXACT[-1]), problem)}; use infer: "
            "the log Z of mean-field is a lower bound"
        )
    found = question.ask(problem, names[0], Budget(), seed=seed, strict=True)
    assert found.log_z is not None
    return Bracket(
        found.log_z, found.log_z, found.status, found.assignment, names[0], names[0], seconds=found.seconds
    )


def tighten(
    problem: Problem,
    *,
    gap: float,
    seconds: float,
    memory_gb: float | None,
    seed: int | None,
    on_step: Observer | None = None,
) -> Bracket:
    """The bracket of a problem, in terms of its own graph."""
    turns = Turns(gap, memory_gb)
    budget = Budget(max_iter=_TURNS, tol=0.0, seconds=seconds)
    # A turn that was cut has proven something too.
    rng = check.generator(seed)
    return drive(turns, problem, budget, rng, whole=False, on_step=on_step)  # type: ignore[no-any-return]


def best_of(found: Bracket) -> Result:
    """The best states of a bracket on a maximum; a sentence where there are none."""
    if found.best.assignment is None and found.status is Status.INTERRUPTED:
        raise Stopped(found.status)
    if found.best.assignment is None:
        raise UnsupportedError("no assignment of positive weight was found in the time given; raise seconds")
    return found.best


class Turns:
    """The race as the driver sees it: a step is a turn.

    Parameters
    ----------
    gap
        How close the bounds have to be.
    memory_gb
        Most memory for tables; None is half of the machine's.
    """

    name = "bracket"
    shows_time = True

    def __init__(self, gap: float, memory_gb: float | None) -> None:
        self._gap, self._memory = gap, machine_gigabytes() / 2 if memory_gb is None else memory_gb

    def start(self, problem: Problem, run: Run) -> Step:
        """The bound and the states that need no method."""
        race = _Race(problem, self._gap, self._memory, run)
        race.take("the largest entry of every table", _largest_entries(problem))
        race.take("one state", _one_state(problem, run.rng))
        return Step(race)

    def advance(self, problem: Problem, race: _Race, run: Run) -> Step:
        """The exact answer, or the next turn."""
        status = race.go_on() if race.runners else race.begin()
        sides = {"bound": [race.upper.value], "score": [race.lower.value]}
        return Step(race, [min(max(race.apart, 0.0), UNKNOWN)], sides, race.verdict() or status)

    def read(self, problem: Problem, outcome: Outcome) -> Any:
        """The bounds so far."""
        return outcome.state.result(outcome.ended)


@dataclass
class _Race:
    """The bounds so far, and who may still tighten them."""

    problem: Problem
    gap: float
    memory: float
    run: Run
    runners: list[Runner] = field(default_factory=list)  # none before the first turns
    lower: Estimate = field(default_factory=lambda: Estimate(-np.inf, "lower"))
    upper: Estimate = field(default_factory=lambda: Estimate(np.inf, "upper"))
    lower_by: str = "nothing"
    upper_by: str = "nothing"
    assignment: Assignment | None = None
    history: list[Turn] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def apart(self) -> float:
        return self.upper.value - self.lower.value

    def verdict(self) -> Status | None:
        """Whether the bounds are one number, or close enough."""
        if meets(self.lower.value, self.upper.value):
            return Status.EXACT if self.assignment is None else Status.OPTIMAL
        return Status.CONVERGED if self.apart <= self.gap else None

    def begin(self) -> Status | None:
        """The exact answer, or the turns that come whatever time is left."""
        if self.verdict() is not None or self.exact():
            return Status.STALLED  # unless the verdict is better: nobody else is asked
        # Turns double: a brief first one costs little, and easy models need not wait for a large budget.
        brief = min(_FIRST * self.run.given, _BRIEF)
        self.runners = [Runner(entrant, brief) for entrant in entrants(self.problem)]
        for runner in self.runners[:_CHEAP]:
            if self.verdict() is None:
                self.turn(runner)
        return None

    def exact(self) -> bool:
        """Answer exactly if that is forecast to fit into what is left of time and memory."""
        ready = fitting(self.problem, self.run.left, self.memory)
        if ready is None:
            return False
        if self.problem.is_sum:
            assert ready.tree is not None  # a hopeless plan does not fit
            value = Estimate(climb(ready.problem, ready.tree).log_z, "exact")
            found = Result("", Status.EXACT, log_z=value)
        else:
            found = algorithms.resolve("junction-tree").run(self.problem, Budget(), self.run.rng)
        self.take("junction-tree", found)
        return True

    def go_on(self) -> Status | None:
        """The turn of whoever promises most; an end where nothing more is gained, or not in this time."""
        able = [r for r in self.runners if not r.is_out]
        ready = [r for r in able if r.has_use_for(self.run.left)]
        if not ready:
            return Status.OUT_OF_TIME if able else Status.STALLED
        self.turn(choose(ready, self.apart))
        return None

    def turn(self, runner: Runner) -> None:
        """Run a method for the seconds of its turn, and keep what it proves."""
        spec = runner.begin(self.problem, self.memory)
        algorithm = algorithms.resolve(spec)
        asked = as_maximum(self.problem) if runner.entrant.as_maximum else self.problem
        reason = refusal(algorithm, asked)
        before, began = (self.lower.value, self.upper.value), self.run.elapsed
        if reason is None:
            try:
                seconds = runner.share(self.run.left)
                found = runner.run(algorithm, self.problem, seconds, self.run.rng.spawn(1)[0])
            except (UnsupportedError, TooLargeError) as error:
                reason = str(error)
        if reason is not None:
            runner.is_out, runner.rate = True, 0.0
            self.notes.append(f"{spec} took no part: {reason}")
            return
        self.take(spec, found)
        gain = gain_of(before, (self.lower.value, self.upper.value))
        runner.learn(found.status, gain, self.run.elapsed - began, self.apart)

    def take(self, spec: str, result: Result) -> None:
        """Keep what a result proves."""
        value, score = result.log_z, result.score
        if value is not None and value.kind in ("exact", "upper") and value.value < self.upper.value:
            self.upper, self.upper_by = value, spec
        below = [score] if score is not None else []
        if value is not None and value.kind in ("exact", "lower"):
            below.append(value)
        if self.problem.maximises_last and len(self.problem.maximised) and result.assignment is None:
            below = []  # a lower bound on a maximum counts with the states that reach it
        for found in below:
            if found.value > self.lower.value:
                self.lower, self.lower_by = replace(found, kind="lower"), spec
                self.assignment = result.assignment
        self.history.append(Turn(self.run.elapsed, spec, self.lower.value, self.upper.value))
        if result.status is Status.INTERRUPTED:
            raise Stopped(result.status)

    def result(self, status: Status) -> Bracket:
        """The bounds; exact ones are marked so, and rounding cannot turn them around."""
        lower, upper, status = self.lower, self.upper, self.verdict() or status
        if status in (Status.EXACT, Status.OPTIMAL):
            upper = Estimate(max(lower.value, upper.value), "exact")
            lower = replace(lower, kind="exact")
        return Bracket(
            lower,
            upper,
            status,
            self.assignment,
            self.lower_by,
            self.upper_by,
            tuple(self.history),
            self.run.elapsed,
            tuple(dict.fromkeys(self.notes)),
        )


def _largest_entries(problem: Problem) -> Result:
    """The upper bound of every table on its own."""
    graph = problem.graph
    sizes = graph.variables.sizes
    _, tops = shifted_tables(graph.scope_start, graph.scope, sizes, graph.log_tables, graph.table_start)
    free = float((problem.temperatures * np.log(sizes)).sum())
    upper = float(tops.sum()) + free
    if upper == -np.inf:
        raise problem.contradiction()
    return Result("", Status.CONVERGED, log_z=Estimate(upper, "upper"))


def _one_state(problem: Problem, rng: np.random.Generator) -> Result:
    """The lower bound of a single joint state."""
    states = first_states(problem, rng)
    value = Estimate(float(problem.graph.log_scores(states[None, :])[0]), "lower")
    wanted = problem.temperatures == 0
    if not wanted.any() or not problem.maximises_last:
        return Result("", Status.CONVERGED, log_z=value)
    shown = Assignment(problem.graph.variables, np.where(wanted, states, -1))
    return Result("", Status.CONVERGED, score=value, assignment=shown)
