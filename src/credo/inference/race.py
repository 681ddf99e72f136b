r"""Which methods bound a value, in which order they get their turns, and when one gives up.

Every entrant has settings of rising effort, its levels. A first turn is short and cheap; turns of the
same entrant double in length. After each a turn has a rate, the part of the gap it closed per second,
and the entrant with the best expected rate is next. The expectation is the last rate, or a fixed
share of the gap over the length of the next turn for what may do better than before: an entrant that
begins a new level, or a complete search, which closes the gap only when it ends.

An iterative method that was cut goes on from its own state. It leaves a level when it has converged or
gains little, and the race after the last level: nothing is done twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.errors import TooLargeError
from ..core.result import Result, Status
from .base import Algorithm, Budget, IterativeAlgorithm, Problem, algorithms
from .exact.tree import Limits, Prepared, prepare

__all__ = ["Entrant", "Runner", "entrants", "fitting"]

_OPERATIONS = 27.5  # log2 of the operations exact inference does in a second
_LEAST = 1e-3  # seconds: planning alone takes as long
_GLANCE = 0.05  # effort of a first look at the width
_HOPE = 4.0  # log2 of what a thorough search for an elimination order may gain over a glance
_FIRST = 0.04  # share of the time that goes to the first turn of each entrant
_SEARCH = 0.2  # share of the gap a complete search is expected to close in its next turn
_LEVEL = 0.05  # the same for a new level
_LITTLE = 0.01  # share of the gap below which a turn was not worth its level
_IDLE = 2  # turns in a row without a gain after which repeating with other random numbers ends
_MOST_TABLE = 20  # log2 of the largest joined table
_COPIES = 4  # arrays of the size of all tables a bound keeps
_ENTRIES = 2e7  # of joined tables that one turn of a second is for
_TOL = 1e-9  # relative change at which a bound has converged


def fitting(problem: Problem, seconds: float, memory_gb: float) -> Prepared | None:
    """The plan of exact inference if its forecast fits into the time and memory, else None."""
    affordable = _OPERATIONS + float(np.log2(max(seconds, _LEAST)))
    ready = None
    for effort, hope in ((_GLANCE, _HOPE), (1.0, 0.0)):
        try:
            ready = prepare(problem, effort)
            Limits(memory_gb * 2**hope, affordable + hope).refuse(ready.forecast)
        except TooLargeError:
            return None
    return ready


@dataclass(frozen=True)
class Entrant:
    """A method with its settings of rising effort."""

    levels: tuple[str, ...]  # specifications; {table} stands for the largest table to join
    is_search: bool = False  # whether it closes the gap when it ends
    is_random: bool = False  # whether the last level is worth repeating with other random numbers
    as_maximum: bool = False  # asked for the best joint state instead, whose score is a lower bound


@dataclass
class Runner:
    """An entrant in the race, and how it has done."""

    entrant: Entrant
    slice: float  # seconds of the next turn
    level: int = 0
    spec: str = ""  # of the level, once it has begun
    state: Any = None  # of an iterative method that was cut
    rate: float = np.inf  # gain per second at the last turn; the untried go first
    idle: int = 0  # turns in a row without a gain
    is_out: bool = False  # whether there is nothing more to try

    def expected(self, gap: float) -> float:
        """Gain per second to hope for."""
        hope = _SEARCH if self.entrant.is_search else 0.0 if self.spec else _LEVEL
        return max(self.rate, hope * min(gap, 1e6) / max(self.slice, _LEAST))

    def begin(self, problem: Problem, memory_gb: float) -> str:
        """The specification of the next turn; the sizes of tables follow the memory and the time."""
        if not self.spec:
            pieces = max(1, problem.graph.n_factors)
            room = min(memory_gb * 2**27 / _COPIES, _ENTRIES * self.slice) / pieces
            table = int(min(2.0**_MOST_TABLE, max(1.0, room)))
            self.spec = self.entrant.levels[self.level].format(table=table)
        return self.spec

    def go(
        self, algorithm: Algorithm, problem: Problem, seconds: float, rng: np.random.Generator
    ) -> Result:
        """Run for some seconds, from where the last turn ended if it was cut."""
        if self.entrant.as_maximum:
            n = len(problem.temperatures)
            problem = replace(problem, temperatures=np.zeros(n), levels=np.zeros(n, dtype=np.int64))
        if self.state is not None and isinstance(algorithm, IterativeAlgorithm):
            algorithm = _Continued(algorithm, self.state)
        found = algorithm.run(problem, Budget(max_iter=10**9, tol=_TOL, seconds=seconds), rng)
        self.state = found.state
        if not self.entrant.as_maximum:
            return found
        score = None if found.score is None else replace(found.score, kind="lower")
        return replace(found, log_z=score, score=None, assignment=None)

    def after(self, status: Status, gain: float, seconds: float, gap: float) -> None:
        """What a turn says about the next one."""
        self.rate = gain / max(seconds, 1e-6)
        self.idle = 0 if gain > 0 else self.idle + 1
        self.slice *= 2
        has_ended = status is not Status.OUT_OF_TIME
        if has_ended or (self.state is not None and gain <= _LITTLE * gap):
            self.climb(has_ended=has_ended)

    def climb(self, *, has_ended: bool) -> None:
        """To the next level, or out."""
        if self.level + 1 < len(self.entrant.levels):
            self.level, self.spec, self.state = self.level + 1, "", None
        elif self.entrant.is_random:
            self.is_out = self.idle >= _IDLE
        elif has_ended or self.idle >= _IDLE:
            self.is_out = True


class _Continued(IterativeAlgorithm[Any]):
    """An iterative method that starts from a state of its own."""

    def __init__(self, algorithm: IterativeAlgorithm[Any], state: Any) -> None:
        self.name = algorithm.name  # type: ignore[misc]
        self._algorithm, self._state = algorithm, state
        self.step, self.advance, self.read = algorithm.step, algorithm.advance, algorithm.read  # type: ignore[method-assign]

    def why_not(self, problem: Problem) -> str | None:
        return self._algorithm.why_not(problem)

    def start(self, problem: Problem, rng: np.random.Generator) -> Any:
        return self._state

    def step(self, problem: Problem, state: Any) -> tuple[Any, float]:
        raise NotImplementedError

    def read(self, problem: Problem, state: Any, status: Status) -> Result:
        raise NotImplementedError


def runners(problem: Problem, seconds: float) -> Iterator[Runner]:
    """The entrants of a problem at the start."""
    return (Runner(entrant, _FIRST * seconds) for entrant in entrants(problem))
