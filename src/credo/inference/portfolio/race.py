r"""Which methods bound a value, in which order they get their turns, and when one gives up.

Every entrant has settings of rising effort, its levels. A first turn is short and cheap; turns of the
same entrant double in length. A turn has a rate, what it closed of the gap per second, and the entrant
with the best expected rate is next. The expectation is the last rate, or a fixed share of the gap
over the length of the next turn where that may be better than the last: at the beginning of a level,
and for a complete search, which closes the gap only when it ends.

An iterative method that was cut goes on from its own state. It leaves a level when it has converged or
gains little, and the race after the last level: nothing is done twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...core.result import Result, Status
from ..problem.base import Algorithm, Budget, Problem, ResumableAlgorithm
from ..problem.tree import Limits, Prepared, affordable, may_fit, prepare

__all__ = ["Entrant", "Runner", "as_maximum", "choose", "entrants", "fitting", "gain_of"]

_LEAST = 1e-3  # seconds of a turn
_GLANCE = 0.05  # effort of a first look at the width
_HOPE = 4.0  # log2 of what a thorough search for an elimination order may gain over a glance
_SEARCH = 0.2  # share of the gap a complete search is expected to close in its next turn
_LEVEL = 0.05  # the same for a new level
_LITTLE = 0.03  # share of the gap below which a turn was not worth its level
_IDLE = 2  # turns in a row without a gain after which repeating with other random numbers ends
_MOST_TABLE = 20  # log2 of the largest joined table
_COPIES = 4  # arrays of the size of all tables that a bound keeps
_ENTRIES = 4e7  # of joined tables that a turn of one second is for
_TOL = 1e-9  # relative change at which a bound has converged
_BOUNDLESS = 1e6  # what a gap, or a gain, counts for that is not finite


def fitting(problem: Problem, seconds: float, memory_gb: float) -> Prepared | None:
    """The plan of exact inference if its forecast fits into the time and memory, else None."""
    most = affordable(seconds)
    if not may_fit(problem, most):
        return None
    ready = None
    for effort, hope in ((_GLANCE, _HOPE), (1.0, 0.0)):
        ready = prepare(problem, effort)
        if Limits(memory_gb * 2**hope, most + hope).excess(ready.forecast):
            return None
    return ready


@dataclass(frozen=True)
class Entrant:
    """A method with its settings of rising effort."""

    levels: tuple[str, ...]  # specifications; {table} stands for the largest table to join
    sizes: tuple[int, ...] = ()  # per level the variables a table may join, where that is what rises
    is_search: bool = False  # whether it closes the gap when it ends
    is_random: bool = False  # whether the last level is worth repeating with other random numbers
    as_maximum: bool = False  # asked for the best joint state instead, whose score is a lower bound


@dataclass
class Runner:
    """An entrant in the race, and how it has done."""

    entrant: Entrant
    slice: float  # seconds of the next turn
    level: int = 0  # how far its settings have risen
    spec: str = ""  # of the level, once it has begun
    state: Any = None  # of an iterative method that was cut
    rate: float = np.inf  # gain per second at the last turn; the untried go first
    spent: float = 0.0  # seconds of all turns
    idle: int = 0  # turns in a row without a gain
    is_out: bool = False  # whether there is nothing more to try
    most: float = np.inf  # entries of a joined table that the memory allows

    @property
    def is_untried(self) -> bool:
        """Whether it had no turn yet."""
        return self.rate == np.inf

    def expected(self, gap: float) -> float:
        """Gain per second to hope for."""
        is_open = not self.spec or (self.entrant.is_random and self.idle < _IDLE)
        hope = _SEARCH if self.entrant.is_search else _LEVEL if is_open else 0.0
        return max(self.rate, hope * min(gap, _BOUNDLESS) / max(self.slice, _LEAST))

    def has_use_for(self, seconds: float) -> bool:
        """Whether so much time allows more than the last turn did."""
        starts_anew = bool(self.spec) and self.state is None and not self.entrant.is_random
        return not starts_anew or 2 * seconds > self.slice

    def share(self, left: float) -> float:
        """Seconds of the next turn; a search that cannot have a longer one after it gets all that is left."""
        return left if left < self.slice or (self.entrant.is_search and left < 3 * self.slice) else self.slice

    def begin(self, problem: Problem, memory_gb: float) -> str:
        """The specification of the next turn; the sizes of tables follow the memory and the time."""
        if not self.spec:
            pieces = max(1, problem.graph.n_factors)
            self.most = min(2.0**_MOST_TABLE, memory_gb * 2**27 / _COPIES / pieces)
            table = int(max(1.0, min(self.most, _ENTRIES * max(self.slice, _LEAST) / pieces)))
            # Sizes far below what the time allows are passed over: larger tables do more with it.
            affordable = [k for k, size in enumerate(self.entrant.sizes) if 2**size <= table]
            self.level = max([self.level, *affordable])
            self.spec = self.entrant.levels[self.level].format(table=table)
        return self.spec

    def run(self, algorithm: Algorithm, problem: Problem, seconds: float, rng: np.random.Generator) -> Result:
        """Run for some seconds, from where the last turn ended if it was cut."""
        budget = Budget(max_iter=10**9, tol=_TOL, seconds=seconds)
        if self.entrant.as_maximum:
            problem = as_maximum(problem)
        if isinstance(algorithm, ResumableAlgorithm):
            found = (
                algorithm.run(problem, budget, rng)
                if self.state is None
                else algorithm.resume(problem, self.state, budget)
            )
            self.state = found.state
        else:
            found = algorithm.run(problem, budget, rng)
        if not self.entrant.as_maximum:
            return found
        score = None if found.score is None else replace(found.score, kind="lower")
        return replace(found, log_z=score, score=None, assignment=None)

    def learn(self, status: Status, gain: float, seconds: float, gap: float) -> None:
        """What a turn says about the next one."""
        self.rate, self.spent = gain / max(seconds, 1e-6), self.spent + seconds
        self.idle = 0 if gain > 0 else self.idle + 1
        self.slice *= 2
        has_ended = status is not Status.OUT_OF_TIME
        may_climb = self.state is not None and gain <= _LITTLE * gap and not self.entrant.is_search
        if not has_ended and not may_climb:
            return
        is_full = bool(self.entrant.sizes) and 2.0 ** self.entrant.sizes[self.level] >= self.most
        if self.level + 1 < len(self.entrant.levels) and not is_full:
            self.level, self.spec, self.state = self.level + 1, "", None
        elif self.entrant.is_random:
            self.is_out = self.idle >= _IDLE
        else:
            self.is_out = has_ended or self.idle >= _IDLE


def gain_of(before: tuple[float, float], after: tuple[float, float]) -> float:
    """How much closer two bounds came; a bound that becomes finite counts most."""
    moves = [
        abs(b - a) if np.isfinite(a) and np.isfinite(b) else _BOUNDLESS
        for a, b in zip(before, after, strict=True)
        if a != b
    ]
    return float(sum(moves))


def choose(ready: list[Runner], gap: float) -> Runner:
    """Whose turn it is: the untried first, then half of the time for searches, else the most promising."""
    searches = [r for r in ready if r.entrant.is_search]
    if searches and not any(r.is_untried for r in ready):
        others = sum(r.spent for r in ready if not r.entrant.is_search)
        if sum(r.spent for r in searches) <= others:
            ready = searches
    return max(ready, key=lambda r: r.expected(gap))


def as_maximum(problem: Problem) -> Problem:
    """The same model, asked for its best joint state: a powered sum is never below its largest term."""
    n = len(problem.temperatures)
    return replace(problem, temperatures=np.zeros(n), levels=np.zeros(n, dtype=np.int64))


def entrants(problem: Problem) -> list[Entrant]:
    """The methods that bound this kind of value: first a cheap one from below, then one from above."""
    gdd = _rising("gdd", (0, 3, 6, 9, 12, 15))
    wmb = _rising("wmb", (2, 8, 11, 14, 17, 20))
    below = _rising("wmb", (2, 8, 11, 14, 17, 20), "bound=lower, ")
    if problem.is_sum:
        mean_field, structured = (_restarting(n) for n in ("mean-field", "structured-mean-field"))
        return [mean_field, wmb, gdd, structured, below, Entrant(("trw-primal",))]
    states = Entrant(("local-search",), is_random=True)
    search = Entrant(("branch-and-bound",), is_search=True)
    if problem.is_max:
        return [
            states,
            Entrant(("dual-decomposition",)),
            Entrant(("graph-cut",)),
            Entrant(("soft-consistency",), is_search=True),
            Entrant(("alpha-expansion",)),
            Entrant(("decimation",)),
            search,
            wmb,
            gdd,
        ]
    if len(problem.maximised) and problem.maximises_last:
        free = _rising("reordering", (4, 8, 12), "matching=true, ")
        return [states, gdd, Entrant(("decimation",)), wmb, search, free]
    return [replace(states, as_maximum=True), wmb, below, gdd]


def _rising(name: str, sizes: tuple[int, ...], options: str = "") -> Entrant:
    """One level per size of cluster."""
    return Entrant(
        tuple(f"{name}({options}ibound={size}, max_entries={{table}})" for size in sizes), sizes=sizes
    )


def _restarting(name: str) -> Entrant:
    """Each level with twice the starts."""
    return Entrant(tuple(f"{name}(restarts={2**level})" for level in range(8)))
