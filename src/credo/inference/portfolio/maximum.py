"""The portfolio as a method: the race of `bracket.py` for maxima, asked like any other algorithm.

It is what `credo.infer` takes for MAP and marginal MAP where exact inference is out of reach. Every turn may
find better states, whose score is the lower side, or a better bound, the upper side; where the two meet the
states are proven optimal and the run ends, whatever time is left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ...core import check
from ...core.result import Estimate, Result, Status
from ...optimise.driver import Outcome, drive
from ..problem.base import Algorithm, Budget, Problem, register
from .bracket import Bracket, Turns, best_of

__all__ = ["Portfolio"]

_SECONDS = 10.0  # where no time is given
_WAY_ON = {
    Status.OUT_OF_TIME: "raise seconds",
    Status.STALLED: "no method of the portfolio closes more of it",
}


@register
@dataclass(frozen=True, kw_only=True)
class Portfolio(Algorithm):
    """Searches and bounds in turn for the time given: the best states found, a bound, and the gap.

    Local search, decimation, graph cuts, dual decomposition, weighted mini-buckets and complete searches have
    their turns, first briefly, then whichever promises most. It ends after `seconds`, 10 if none are given,
    or before that when the bound is within `tol` of the score; `max_iter` counts turns.

    >>> import credo
    >>> grid = credo.datasets.ising_grid(6, coupling="normal(scale=1)", field="normal(scale=1)", seed=0)
    >>> best = credo.infer(grid, "portfolio", maximise="all", seconds=5)
    >>> best.status.value, best.gap < 1e-6
    ('proven optimal', True)
    """

    name: ClassVar[str] = "portfolio"
    answers: ClassVar[tuple[str, ...]] = ("max", "mixed")
    promises: ClassVar[frozenset[str]] = frozenset({"upper"})
    memory_gb: float | None = None  # most memory for tables; None is half of the machine's memory

    def __post_init__(self) -> None:
        if self.memory_gb is not None:
            check.at_least("memory_gb", self.memory_gb, 0)

    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """The race until the bounds meet or the time is up."""
        if budget.seconds is None:
            budget = replace(budget, seconds=_SECONDS)
        turns = _Maximum(budget.tol, self.memory_gb)
        # A turn that was cut has found something too; whether the gap is small enough is asked by the race.
        return drive(turns, problem, replace(budget, tol=0.0), rng, whole=False)  # type: ignore[no-any-return]


class _Maximum(Turns):
    """The race whose answer is a result."""

    name = "portfolio"

    def read(self, problem: Problem, outcome: Outcome) -> Result:
        """The best states, how good they are, and how good any can be."""
        found: Bracket = super().read(problem, outcome)
        way_on = _WAY_ON.get(found.status)
        hint = f"the bound is {found.gap:.4g} above the score; {way_on}" if way_on else ""
        trace = {name: np.array(numbers) for name, numbers in outcome.trace.items()}
        best = best_of(found)
        if problem.is_max:  # states of all variables have a score, not a bound on one
            value = problem.graph.log_scores(best.assignment.indices[None, :])[0]  # type: ignore[union-attr]
            best = best.but(score=Estimate(value, "exact"))
        notes = (f"states by {found.lower_by}, bound by {found.upper_by}", *found.notes)
        return best.but(algorithm=self.name, hint=hint, trace=trace, notes=notes)

    def show(self, problem: Problem, outcome: Outcome) -> Result:
        """The answer so far, for observers: perhaps without states."""
        return super().read(problem, outcome).best  # type: ignore[no-any-return]
