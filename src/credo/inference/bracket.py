r"""Certified answers in one call: a lower and an upper bound, tightened until they are close enough.

The value asked for is the powered sum of `base.py`: log Z, the score of the best configuration, or
the value of marginal MAP. Every method of the library that bounds it from one side or both takes
part. Exact inference answers at once where it fits into the limits. Otherwise the methods run in
turn, first each of them briefly, then whichever gained most per second at its last turn, with more
time and finer settings (larger clusters, more restarts) at each turn. All bounds are true whenever
a run is cut, so the best of each side stands:

    lower = max over methods,   upper = min over methods,   lower <= value <= upper.

Two bounds need no method and come first. For any state x and temperatures t >= 0,

    theta(x)  <=  Phi  <=  sum_a max theta_a + sum_i t_i log |X_i|.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from ..core import check
from ..core.errors import TooLargeError, UnsupportedError
from ..core.factor_graph import Model
from ..core.progress import Progress
from ..core.result import Assignment, Estimate, Result, Status
from .base import Budget, Problem, algorithms, pose
from .exact.tree import Limits, machine_gigabytes, prepare

__all__ = ["Bracket", "Step", "bracket", "tighten"]

_CLOSED = 1e-9  # relative gap at which rounding, not the methods, separates the bounds
_OPERATIONS = 27.5  # log2 of the operations exact inference does in a second
_GLANCE = 0.05  # effort of a first look at the width
_HOPE = 4.0  # log2 of what a thorough search for an elimination order may gain over a glance
_IDLE = 2  # turns without a gain after which a method is asked no more
_FIRST = 0.04  # share of the time that goes to the first turn of each method
_LAST_LEVEL = 12  # beyond this no setting becomes finer


@dataclass(frozen=True)
class Step:
    """One turn of one method."""

    seconds: float  # since the beginning
    method: str  # what ran
    lower: float  # the lower bound after it
    upper: float  # the upper bound after it


@dataclass(frozen=True, repr=False)
class Bracket:
    """Two bounds on one number, who proved them, and how they came together."""

    lower: Estimate  # never above the value
    upper: Estimate  # never below it
    status: Status  # why tightening stopped
    assignment: Assignment | None = None  # of the maximised variables; its score is `lower`
    lower_by: str = ""  # the method behind the lower bound
    upper_by: str = ""  # and behind the upper one
    history: tuple[Step, ...] = ()  # one entry per turn
    seconds: float = 0.0  # wall time
    notes: tuple[str, ...] = ()  # sentences about methods that could not take part

    @property
    def gap(self) -> float:
        """Upper less lower; 0 for an exact answer."""
        return max(0.0, self.upper.value - self.lower.value)

    @property
    def is_exact(self) -> bool:
        """Whether the two bounds are one number, up to rounding."""
        return _is_closed(self.lower.value, self.upper.value)

    @property
    def middle(self) -> float:
        """The middle of the bracket; the lower bound where there is no finite upper one."""
        return self.lower.value + self.gap / 2 if np.isfinite(self.gap) else self.lower.value

    def __repr__(self) -> str:
        how = "exact" if self.is_exact else f"gap {self.gap:.4g}"
        lines = [
            f"{self.lower.value:.10g} <= value <= {self.upper.value:.10g} ({how}), "
            f"{self.status.value}, {self.seconds:.3g} s",
            f"lower by {self.lower_by}, upper by {self.upper_by}",
        ]
        if self.assignment is not None:
            lines.append(repr(self.assignment))
        return "\n".join([*lines, *self.notes])


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
    >>> round(found.lower.value, 6), round(found.upper.value, 6), found.is_exact
    (-0.83, -0.83, True)
    """
    check.at_least("gap", gap, 0)
    check.at_least("seconds", seconds, 0)
    if memory_gb is not None:
        check.at_least("memory_gb", memory_gb, 0)
    question, problem = pose(model, evidence, maximise, temperatures, order)
    found = tighten(problem, gap=gap, seconds=seconds, memory_gb=memory_gb, seed=seed)
    if found.assignment is None:
        return found
    indices = question.restriction.expand_indices(found.assignment.indices)
    return replace(found, assignment=Assignment(question.original.variables, indices))


def tighten(
    problem: Problem, *, gap: float, seconds: float, memory_gb: float | None, seed: int | None
) -> Bracket:
    """The bracket of a problem, in terms of its own graph."""
    memory = machine_gigabytes() / 2 if memory_gb is None else memory_gb
    race = _Race(problem, gap, time.perf_counter(), seconds, memory, np.random.default_rng(seed))
    race.take("exact bounds of each table", _trivial(problem))
    try:
        if not race.exact():
            with Progress("bracket", max(seconds, 1e-3)) as bar:
                race.run(bar)
    except KeyboardInterrupt:
        race.status = Status.INTERRUPTED
    return race.result()


@dataclass
class _Runner:
    """A method in the race: its settings by level, and how it has done."""

    specs: Iterator[str]  # finer from turn to turn
    slice: float  # seconds of the next turn
    rate: float = np.inf  # gain per second at the last turn; untried ones go first
    idle: int = 0  # turns in a row without a gain


@dataclass
class _Race:
    """The bounds so far, and the methods that may still tighten them."""

    problem: Problem
    gap: float
    clock: float
    seconds: float
    memory: float
    rng: np.random.Generator
    lower: Estimate = field(default_factory=lambda: Estimate(-np.inf, "lower"))
    upper: Estimate = field(default_factory=lambda: Estimate(np.inf, "upper"))
    lower_by: str = "nothing"
    upper_by: str = "nothing"
    assignment: Assignment | None = None
    status: Status = Status.CONVERGED
    history: list[Step] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def left(self) -> float:
        return max(0.0, self.seconds - (time.perf_counter() - self.clock))

    @property
    def is_done(self) -> bool:
        apart = self.upper.value - self.lower.value
        return apart <= self.gap or _is_closed(self.lower.value, self.upper.value)

    def exact(self) -> bool:
        """Answer exactly if that is forecast to fit into what is left of time and memory."""
        affordable = _OPERATIONS + float(np.log2(max(self.left, 1e-3)))
        for effort, hope in ((_GLANCE, _HOPE), (1.0, 0.0)):
            try:
                predicted = prepare(self.problem, effort).forecast
                Limits(self.memory * 2**hope, affordable + hope).refuse(predicted)
            except TooLargeError:
                return False
        return self.turn("junction-tree", self.left) > 0 and self.is_done

    def run(self, bar: Progress) -> None:
        """Give turns until the bounds are close enough, the time is up, or nothing more is gained."""
        first = _FIRST * self.seconds
        runners = [_Runner(specs, first) for specs in _entrants(self.problem, self.memory)]
        while runners and not self.is_done:
            if self.history and self.left <= 0 and all(np.isfinite(r.rate) for r in runners[:2]):
                self.status = Status.OUT_OF_TIME
                return
            runner = max(runners, key=lambda r: r.rate)
            spec = next(runner.specs, None)
            if spec is None:
                runners.remove(runner)
                continue
            began = time.perf_counter()
            gain = self.turn(spec, min(runner.slice, self.left))
            runner.rate = gain / max(time.perf_counter() - began, 1e-6)
            runner.idle = 0 if gain > 0 else runner.idle + 1
            runner.slice *= 2
            if runner.idle >= _IDLE:
                runners.remove(runner)
            bar.update(self.seconds - self.left, f"gap {self.upper.value - self.lower.value:.4g}")

    def turn(self, spec: str, seconds: float) -> float:
        """Run a method for some seconds; how much closer the bounds came."""
        algorithm = algorithms.resolve(spec)
        reason = algorithm.why_not(self.problem)
        if reason is None:
            budget = Budget(max_iter=10**9, tol=1e-9, seconds=seconds)
            try:
                return self.take(spec, algorithm.run(self.problem, budget, self.rng.spawn(1)[0]))
            except (UnsupportedError, TooLargeError) as refusal:
                reason = str(refusal)
        self.notes.append(f"{spec} took no part: {reason}")
        return 0.0

    def take(self, spec: str, result: Result) -> float:
        """Keep what a result proves; how much closer the bounds came."""
        before = (self.lower.value, self.upper.value)
        value, score = result.log_z, result.score
        if value is not None and value.kind in ("exact", "upper") and value.value < self.upper.value:
            self.upper, self.upper_by = value, spec
        if score is not None and score.value > self.lower.value:
            self.lower, self.lower_by, self.assignment = replace(score, kind="lower"), spec, result.assignment
        elif value is not None and value.kind in ("exact", "lower") and value.value > self.lower.value:
            self.lower, self.lower_by = replace(value, kind="lower"), spec
            self.assignment = result.assignment
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        spent = time.perf_counter() - self.clock
        self.history.append(Step(spent, spec, self.lower.value, self.upper.value))
        return _gain(before, (self.lower.value, self.upper.value))

    def result(self) -> Bracket:
        """The bounds; exact ones are marked so, and rounding cannot turn them around."""
        lower, upper, status = self.lower, self.upper, self.status
        if _is_closed(lower.value, upper.value):
            status = Status.OPTIMAL if self.assignment is not None else Status.EXACT
            kind: Literal["exact", "lower"] = "exact"
            upper = Estimate(max(lower.value, upper.value), kind)
            lower = Estimate(lower.value, kind)
        return Bracket(
            lower,
            upper,
            status,
            self.assignment,
            self.lower_by,
            self.upper_by,
            tuple(self.history),
            time.perf_counter() - self.clock,
            tuple(dict.fromkeys(self.notes)),
        )


def _is_closed(lower: float, upper: float) -> bool:
    return bool(np.isfinite(upper - lower) and upper - lower <= _CLOSED * max(1.0, abs(upper)))


def _gain(before: tuple[float, float], after: tuple[float, float]) -> float:
    """How much closer two bounds came; a bound that becomes finite counts most."""
    moves = [
        abs(b - a) if np.isfinite(a) and np.isfinite(b) else 1e6
        for a, b in zip(before, after, strict=True)
        if a != b
    ]
    return float(sum(moves))


def _trivial(problem: Problem) -> Result:
    """The upper bound every table on its own gives."""
    graph = problem.graph
    start, size = graph.table_start, graph.table_size
    tops = [graph.log_tables[b : b + n].max() for b, n in zip(start.tolist(), size.tolist(), strict=True)]
    free = float((problem.temperatures * np.log(graph.variables.sizes)).sum())
    upper = float(np.sum(tops)) + free
    if upper == -np.inf:
        raise problem.contradiction()
    return Result("", Status.CONVERGED, log_z=Estimate(upper, "upper"))


def _entrants(problem: Problem, memory_gb: float) -> list[Iterator[str]]:
    """The methods that bound this kind of value, as specifications of rising effort."""
    widest = int(np.log2(max(memory_gb, 1e-3) * 2**30 / 8 / 64))

    def rising(make: Callable[[int], str]) -> Iterator[str]:
        return (make(level) for level in range(_LAST_LEVEL))

    def clusters(spec: str) -> Callable[[int], str]:
        return lambda level: spec.format(ibound=min(2 + 2 * level, widest))

    above = [rising(clusters("wmb(ibound={ibound})")), rising(clusters("gdd(ibound={ibound})"))]
    if problem.is_sum:
        return [
            rising(lambda level: f"mean-field(restarts={2**level})"),
            *above,
            rising(lambda level: f"structured-mean-field(restarts={2**level})"),
            rising(clusters("wmb(bound=lower, ibound={ibound})")),
            rising(lambda level: "trw-primal"),
        ]
    below = [rising(lambda level: "decimation"), rising(lambda level: "local-search")]
    if problem.is_max:
        return [
            *below,
            rising(lambda level: "dual-decomposition"),
            rising(lambda level: "graph-cut"),
            rising(lambda level: "soft-consistency"),
            rising(lambda level: "branch-and-bound"),
            *above,
        ]
    if problem.maximises_last and len(problem.maximised):
        return [*below, *above, rising(lambda level: "branch-and-bound")]
    return above
