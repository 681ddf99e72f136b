r"""CCCP, the concave-convex procedure: one convex problem after another, each above the function.

    f(x) = u(x) + v(x),   u convex, v concave
    bound_t(x) = u(x) + v(x_t) + <slope of v at x_t, x - x_t>  >=  f(x),   equal at x_t

Any place where bound_t is lower than at x_t is lower for f too, so a solver of the convex problem need not
come to its end: its steps go on until f has fallen, or until the convex problem is solved. f never rises, up
to rounding. The residual is what the problem says has changed; it vanishes at a stationary point. A problem
whose solver may stand still elsewhere says UNKNOWN of a step that changed nothing, which has then stalled.

Source: Yuille and Rangarajan 2003.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..core import check
from ..core.records import record
from ..core.result import Status
from .driver import UNKNOWN, Outcome, Step, drive
from .run import Budget, Run

__all__ = ["CCCP", "ConvexConcave", "Inner", "Lowered", "lower"]

_ROUNDING = 1e-13  # relative rise of a value that is no rise


class ConvexConcave(Protocol):
    """What is minimised; places are whatever it likes."""

    def begin(self) -> Any:
        """The first place."""

    def value(self, x: Any) -> float:
        """The convex and the concave part together, at a place."""

    def bound(self, x: Any) -> Any:
        """The convex problem that touches at `x`, as its solver takes it; its start is `x`."""

    def place(self, state: Any) -> Any:
        """Where a state of the solver is."""

    def change(self, old: Any, new: Any) -> float:
        """How much a step changed; vanishes at a stationary point."""


class Inner(NamedTuple):
    """How long a convex problem is worked on."""

    steps: int = 5  # of its solver before the whole function is looked at
    most: int = 2000  # of them
    solved: float = 1e-12  # residual of the solver at which there is no more to do
    fall: float = 0.0  # of the function, relatively: after less than that the solver goes on to its end


class Lowered(NamedTuple):
    """What one convex problem led to."""

    x: Any
    value: float  # of the whole function
    has_fallen: bool  # whether that is no more than before


def lower(problem: Any, solver: Any, x: Any, value: float, inner: Inner, rng: Any = None) -> Lowered:
    """Work on the convex problem at `x` until the function is no higher than `value`.

    Parameters
    ----------
    problem
        `ConvexConcave`.
    solver
        Something `Iterative` on what `problem.bound` gives.
    x, value
        Where to begin, and the value there or any other that is to be reached.
    inner
        How long.
    rng
        Of the solver.
    """
    bound, state, taken = problem.bound(x), None, 0
    while True:
        found = drive(_Whole(solver), bound, Budget(inner.steps, inner.solved), rng, state=state)
        state, taken = found.state, taken + len(found.residuals)
        there = problem.place(state)
        reached = problem.value(there)
        has_fallen = bool(reached <= value + (_ROUNDING * abs(value) if np.isfinite(value) else 0.0))
        is_enough = has_fallen and (not inner.fall or value - reached >= inner.fall * max(1.0, abs(reached)))
        if is_enough or taken >= inner.most or found.status is not Status.OUT_OF_ITERATIONS:
            return Lowered(there, reached, has_fallen)


class _Whole:
    """A solver whose answer is all that the driver knows."""

    def __init__(self, solver: Any) -> None:
        self._solver, self.name = solver, solver.name

    def start(self, problem: Any, run: Run) -> Step:
        step: Step = self._solver.start(problem, run)
        return step

    def advance(self, problem: Any, state: Any, run: Run) -> Step:
        step: Step = self._solver.advance(problem, state, run)
        return step

    def read(self, problem: Any, outcome: Outcome) -> Outcome:
        return outcome


@record("cccp")
class _TangentState(NamedTuple):
    """Where the procedure has come to."""

    x: Any
    value: float


@dataclass(frozen=True, kw_only=True)
class CCCP:
    """Convex problems in turn, as the driver sees them; what is read is the driver's outcome."""

    solver: Any  # of the convex problems: something Iterative
    inner: Inner = field(default_factory=Inner)  # how long each is worked on
    name: str = "cccp"  # in progress bars

    def __post_init__(self) -> None:
        """Check the options."""
        check.whole("steps", self.inner.steps, 1)
        check.whole("most", self.inner.most, 1)
        check.at_least("solved", self.inner.solved, 0)
        check.at_least("fall", self.inner.fall, 0)

    def start(self, problem: ConvexConcave, run: Run) -> Step:
        """The first place of the problem, evaluated."""
        x = problem.begin()
        return Step(_TangentState(x, problem.value(x)))

    def advance(self, problem: ConvexConcave, state: _TangentState, run: Run) -> Step:
        """One convex problem; where the function does not fall any more, its place stays."""
        new = lower(problem, self.solver, state.x, state.value, self.inner, run.rng)
        change = problem.change(state.x, new.x)
        if not new.has_fallen or change == UNKNOWN:
            if change < run.budget.tol:
                return Step(state, [change], {"value": [state.value]})
            return Step(state, status=Status.STALLED)
        return Step(_TangentState(new.x, new.value), [change], {"value": [new.value]})

    def value(self, state: _TangentState) -> float:
        """Minus the function, because drivers take larger values to be better."""
        return -state.value

    def read(self, problem: ConvexConcave, outcome: Outcome) -> Outcome:
        """What the driver knows."""
        return outcome
