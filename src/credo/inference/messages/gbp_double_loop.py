"""The loops of `gbp` that work on beliefs of regions: a descent on the region free energy.

`kernels/region_descent.py` states the iteration. In the double loop one outer step draws the tangents of the
concave part of the free energy at the present beliefs and solves the convex problem that is left, by
passes over the inner regions; the free energy never rises. The inner loop need not be run to the end:
a few passes are enough if the free energy fell, otherwise they are continued until it did, or until
the beliefs agree to rounding.

The single loop moves the tangents in every pass. It has the same fixed points and no guarantee, but it
often settles ten times sooner.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ...core.records import record
from ...core.result import Result, Status
from ...kernels.region_descent import descend
from ...kernels.regions import IMPOSSIBLE
from ...optimise.cccp import Inner, lower
from ...optimise.driver import Step
from ...optimise.run import Run
from ..problem.base import IterativeAlgorithm, Problem
from .region_plan import RegionTables

__all__ = ["DescentState", "RegionDescent"]

_AGREED = 1e-12  # disagreement of beliefs at which the convex problem counts as solved
_FIRST_PASSES = 200  # of the first outer step, whose free energy the next ones are compared with
_PASSES = 5  # of an inner loop before the free energy is looked at
_MOST_PASSES = 2000  # of one inner loop
_CHUNK = 16  # passes of the single loop between two looks at the clock


@record("gbp descent")
class DescentState(NamedTuple):
    """Where the descent stands."""

    multipliers: np.ndarray  # one table per inner region and root above it
    logs: np.ndarray  # normalised log beliefs of all regions
    free_energies: tuple[float, ...]  # after each outer step of the double loop


class _FreeEnergy:
    """The region free energy as a function with a convex and a concave part; places are `DescentState`s."""

    def __init__(self, tables: RegionTables) -> None:
        self._tables = tables

    def value(self, x: DescentState) -> float:
        return -float(self._tables.log_z(x.logs))

    def bound(self, x: DescentState) -> DescentState:
        """Where the tangents touch, which is all that the passes need to know."""
        return x

    def place(self, state: DescentState) -> DescentState:
        return state

    def change(self, old: DescentState, new: DescentState) -> float:
        """The largest one of a belief."""
        return float(np.abs(np.exp(new.logs) - np.exp(old.logs)).max(initial=0.0))


class _TangentPasses:
    """Passes with fixed tangents as the driver sees them; the residual is the disagreement of beliefs."""

    name = "gbp"

    def __init__(self, descent: RegionDescent, problem: Problem) -> None:
        self._descent, self._problem = descent, problem

    def start(self, tangent: DescentState, run: Run) -> Step:
        return Step(tangent)

    def advance(self, tangent: DescentState, state: DescentState, run: Run) -> Step:
        return Step(*self._descent.passes(self._problem, state, run.count, run.budget.tol, at=tangent.logs))


@dataclass(frozen=True)
class RegionDescent(IterativeAlgorithm[DescentState]):
    """Steps of the double or the single loop, from a state or from log beliefs of all regions."""

    tables: RegionTables  # the problem on its region graph
    first: DescentState  # where to start
    eager: bool  # whether tangents move in every pass (the single loop)
    name: ClassVar[str] = "gbp"

    def why_not(self, problem: Problem) -> str | None:
        """The caller has checked."""
        return None

    def start(self, problem: Problem, rng: np.random.Generator) -> DescentState:
        """The given state."""
        return self.first

    def step(self, problem: Problem, state: DescentState) -> tuple[DescentState, float]:
        """One step; the change is the largest one of a belief."""
        state, changes = self.advance(problem, state, 1, 0.0)
        return state, float(changes[-1])

    def advance(
        self, problem: Problem, state: DescentState, count: int, tol: float
    ) -> tuple[DescentState, np.ndarray]:
        """Several passes of the single loop, or one outer step of the double loop."""
        if self.eager:
            return self.passes(problem, state, min(count, _CHUNK), tol)
        before = state.free_energies[-1] if state.free_energies else np.inf
        steps = _PASSES if state.free_energies else _FIRST_PASSES
        whole = _FreeEnergy(self.tables)
        found = lower(
            whole, _TangentPasses(self, problem), state, before, Inner(steps, _MOST_PASSES, _AGREED)
        )
        change = np.array([whole.change(state, found.x)])
        return found.x._replace(free_energies=(*state.free_energies, found.value)), change

    def passes(
        self, problem: Problem, state: DescentState, count: int, tol: float, at: np.ndarray | None = None
    ) -> tuple[DescentState, np.ndarray]:
        """Up to `count` passes over the inner regions, and the disagreement met in each."""
        plan = self.tables.plan
        multipliers, logs = state.multipliers.copy(), np.empty_like(state.logs)
        work = float(len(logs))
        count = descend.portion(work, count)
        changes = descend.over(work * count)(
            self.eager,
            plan.counting,
            self.tables.root_theta,
            plan.pairs,
            multipliers,
            state.logs if at is None else at,
            logs,
            count,
            tol,
        )
        if changes[-1] == IMPOSSIBLE:
            raise problem.contradiction()
        return state._replace(multipliers=multipliers, logs=logs), changes

    def read(self, problem: Problem, state: DescentState, status: Status) -> Result:
        """Beliefs of the regions as marginals, and the free energy after each outer step."""
        result = self.tables.result(self.name, state.logs, status)
        if not self.eager:
            result.trace["free_energy"] = np.array(state.free_energies)
        return result
