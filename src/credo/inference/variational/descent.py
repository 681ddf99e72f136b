"""What naive and structured mean field share: feasible starts, and the best of several descents.

A start is feasible if its product avoids every zero entry of every factor; its free energy is then
finite, and coordinate updates keep it so. If the time ends before one is found, there is nothing to descend
from: the bound is -inf, and a note says so.
"""

from __future__ import annotations

import abc
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from ...core.errors import QueryError
from ...core.result import Estimate, Result
from ...optimise.driver import Outcome, Step, drive
from ...optimise.run import Budget, Run
from ..exact.possible_states import feasible_states
from ..problem.base import Problem
from ..problem.free_energy import mean_field

__all__ = ["Descents", "starting_beliefs", "told_ends", "uniform_beliefs"]

_NOISE = 0.1  # relative; a symmetric model has a saddle point at uniform beliefs


def starting_beliefs(problem: Problem, restart: int, rng: np.random.Generator, name: str) -> np.ndarray:
    """Feasible beliefs: those of the warm start or nearly uniform at first, random at later starts."""
    variables = problem.graph.variables
    total = int(variables.state_start[-1])
    if restart == 0 and problem.warm is not None:
        raw = _warm_beliefs(problem)
        if np.isfinite(mean_field(problem.graph, raw)):
            return raw
        raw = raw + np.finfo(float).tiny  # the box below may lie where the old beliefs were zero
    else:
        raw = 1.0 + _NOISE * rng.random(total) if restart == 0 else rng.exponential(size=total)
    if np.isneginf(problem.graph.log_tables).any():
        raw = raw * feasible_states(problem, restart, rng, name)
    owner = np.repeat(np.arange(len(variables)), variables.sizes)
    norm = np.bincount(owner, weights=raw, minlength=len(variables))
    return raw / norm[owner]


def uniform_beliefs(problem: Problem) -> np.ndarray:
    """What is answered where the time ended before feasible beliefs were found."""
    sizes = problem.graph.variables.sizes
    return np.repeat(1.0 / sizes, sizes)


def _warm_beliefs(problem: Problem) -> np.ndarray:
    beliefs = getattr(problem.warm, "marginals", None)
    expected = int(problem.graph.variables.state_start[-1])
    if not isinstance(beliefs, np.ndarray):
        raise QueryError("warm_start: expected the result of mean-field or structured-mean-field")
    if beliefs.shape != (expected,):
        raise QueryError(
            f"warm_start: expected beliefs of {expected} states, got {len(beliefs)}; "
            "the earlier run must have the same variables and observe the same ones"
        )
    return beliefs


def told_ends(values: list[float]) -> tuple[str, ...]:
    """A sentence about the values that several starts led to; none if there were not several."""
    if not values:
        return ()
    return (f"{len(values)} starts gave values from {min(values):.8g} to {max(values):.8g}",)


class HasFreeEnergy(Protocol):
    """What the states of all descents share."""

    @property
    def free_energy(self) -> float:
        """Of the beliefs of this state."""
        ...


S = TypeVar("S", bound=HasFreeEnergy)


class Descents(abc.ABC, Generic[S]):
    """Descents of a free energy by sweeps, as the driver sees them; the lowest end is kept.

    Parameters
    ----------
    name
        Of the algorithm.
    restarts
        How many descents.
    rng
        Parent of the generators that they have, one each.
    """

    def __init__(self, name: str, restarts: int, rng: np.random.Generator) -> None:
        self.name, self._restarts = name, restarts
        self._parent = self.rng = rng

    @property
    def memory(self) -> tuple[np.random.Generator]:
        """What sweeps change besides the state."""
        return (self.rng,)

    @abc.abstractmethod
    def begin(self, problem: Any, number: int, rng: np.random.Generator) -> S:
        """The first state of a descent."""

    @abc.abstractmethod
    def sweep(self, problem: Any, state: S, rng: np.random.Generator) -> tuple[S, float]:
        """The next state, and how much beliefs changed."""

    @abc.abstractmethod
    def read(self, problem: Any, outcome: Outcome) -> Result:
        """The beliefs and the bound of the state that a run ended with."""

    def run(self, problem: Any, budget: Budget) -> Result:
        """Sweep from each start until beliefs stand still."""
        return drive(self, problem, budget, self._parent, restarts=self._restarts)  # type: ignore[no-any-return]

    def start(self, problem: Any, run: Run) -> Step:
        """The state that start number `run.number` begins with, with a generator of its own."""
        self.rng = run.rng.spawn(1)[0]
        state = self.begin(problem, run.number, self.rng)
        # Without a feasible start there is nothing to sweep: the time ended while one was looked for.
        return Step(state, status=run.ended() if state.free_energy == np.inf else None)

    def advance(self, problem: Any, state: S, run: Run) -> Step:
        """One sweep over all beliefs; its residual is how much they changed."""
        state, change = self.sweep(problem, state, self.rng)
        return Step(state, [change], {"free_energy": [state.free_energy]})

    def value(self, state: S) -> float:
        """The lower bound on log Z that the state proves, minus its free energy."""
        return -state.free_energy

    def bound(self, outcome: Outcome) -> Result:
        """The bound and the story, without beliefs."""
        ends, starts, notes = outcome.values, self._restarts, tuple[str, ...]()
        energy = np.array(outcome.trace.get("free_energy", ()))
        if ends:  # not while the first of several goes on
            note = f"{len(ends)} of {starts} starts gave bounds from {min(ends):.8g} to {max(ends):.8g}"
            notes = (note,)
        if outcome.state.free_energy == np.inf:
            notes += ("no joint state of positive weight was found in the time given: nothing is bounded",)
        return Result(
            self.name,
            outcome.ended,
            log_z=Estimate(0.0 - outcome.state.free_energy, "lower"),
            trace={
                "change": np.array(outcome.residuals),
                "free_energy": energy,
                "log_z": 0.0 - energy,
            },
            state=outcome.state,
            notes=notes,
        )
