r"""Generalised belief propagation: messages between overlapping regions.

A region graph (see `structures/regions.py`) groups variables and factors into regions that know
their own short loops. Parents send messages to children,

    m_{P->R}(x_R) ~ sum_{x_P \ x_R} prod_{a in A_P \ A_R} psi_a(x_a) prod_{(I,J) in N(P,R)} m_{I->J}(x_J)
                    / prod_{(I,J) in H(P,R)} m_{I->J}(x_J)
    b_R(x_R)      ~ prod_{a in A_R} psi_a(x_a) x (all messages that enter R or a region below it from outside)

where A_P \ A_R are all factors of P that R lacks, also those that join variables of R with others;
N holds the messages from outside P into P or below that do not reach R, H those from between P and R
into R or below, except P -> R itself.

Fixed points are stationary points of the region free energy F; log Z is estimated by -F, which is
neither an upper nor a lower bound. Exact when the region graph has no loops, in two sweeps: Bethe regions
on a forest (what `regions=auto` takes there), the regions of a junction tree. With Bethe regions this is
belief propagation. On grids with their faces as regions errors are about a hundred times smaller than
those of belief propagation where couplings are moderate.

These messages often run away, damped or not: on a 10 x 10 grid with couplings up to 1/2 no damping helps.
So there are three solvers with the same fixed points:

    messages      the equations above, damped
    single-loop   multipliers between the roots and all other (inner) regions. Each inner region in turn takes
                  the average of what its roots believe; its negative counting number acts as damping. No
                  guarantee, but it settles nearly always, and soon.
    double-loop   the same passes with fixed tangents of the concave part of F in the inner loop: every outer
                  step lowers F, so it converges

`solver=auto` runs the single loop first and, if it does not settle, continues with the double loop from its
beliefs; a note says so. The trace of the double loop holds F after each outer step.

Planning regions may take half of the time given; if that is not enough, the factors are the regions, a note
says so, and belief propagation has the rest of the time.

A sweep of messages costs (entries of the parent tables) x (messages that enter them), a pass of the loops
(entries of the root tables) x (inner regions below them).

Sources: Yedidia, Freeman and Weiss (2005) for regions and messages; Heskes, Albers and Kappen (2003) for
the loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ...core import check
from ...core.errors import OptionError, QueryError
from ...core.records import record
from ...core.result import Estimate, Result, Status
from ...kernels import regions as kernel
from ...optimise.run import Run, Stopped, planning
from ...structures.region_builders import MAX_ENTRIES, REGIONS
from ..problem.base import Algorithm, Budget, IterativeAlgorithm, Problem, register
from .bp import BP
from .gbp_double_loop import DescentState, RegionDescent
from .region_plan import RegionPlan, RegionTables, plan_of

__all__ = ["GBP"]

_CHUNK = 16  # sweeps between two looks at the clock
_FAINT = -30.0  # log of what stands for zero in a warm start
_PATIENCE = 500  # passes of the single loop before `auto` turns to the double loop


@register
@dataclass(frozen=True, kw_only=True)
class GBP(Algorithm):
    """Messages between regions of a region graph, with a convergent double loop to fall back on.

    Examples
    --------
    >>> import credo
    >>> grid = credo.datasets.ising_grid(4, coupling="uniform(low=-0.5, high=0.5)", seed=0)
    >>> exact = credo.infer(grid, "junction-tree").marginals.flat
    >>> errors = [abs(credo.infer(grid, m).marginals.flat - exact).max() for m in ("bp", "gbp")]
    >>> bool(errors[1] < errors[0] / 50)
    True
    """

    name: ClassVar[str] = "gbp"
    slopes: ClassVar[bool] = True
    checkpoints: ClassVar[bool] = True
    promises: ClassVar[frozenset[str]] = frozenset({"exact on trees"})
    warm_starts: ClassVar[bool] = True
    # root regions: auto, bethe, cvm, faces, all-faces, star, loops, loop-edge-node, junction-tree, or names
    regions: str | Sequence[Sequence[str]] = "auto"
    # messages: parent to child; single-loop, double-loop: descent; auto: single loop, then double loop
    solver: Literal["auto", "messages", "single-loop", "double-loop"] = "auto"
    # weight of the old message, for messages; None: 0.5, and 0 on region graphs without loops
    damping: float | None = None
    damping_domain: Literal["log", "linear"] = "log"  # whether logs of messages are mixed, or messages
    schedule: Literal["bottom-up", "top-down", "random"] = "bottom-up"  # which regions send first
    max_entries: int = MAX_ENTRIES  # loops with more joint states are split into triangles

    def __post_init__(self) -> None:
        """Check the options."""
        if isinstance(self.regions, str):
            check.one_of("regions", self.regions, REGIONS)
        elif not isinstance(self.regions, Sequence):
            raise OptionError(f"regions: expected a name or lists of variable names, got {self.regions!r}")
        check.one_of("solver", self.solver, ["auto", "messages", "single-loop", "double-loop"])
        if self.damping is not None:
            check.in_range("damping", self.damping, 0, 1)
        check.one_of("damping_domain", self.damping_domain, ["log", "linear"])
        check.one_of("schedule", self.schedule, ["bottom-up", "top-down", "random"])
        check.whole("max_entries", self.max_entries, 8)

    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """Pass messages, minimise the free energy, or a single and then the double loop."""
        with Run(budget, rng, whole=False) as run:
            run.has_begun = False  # there is nothing yet to answer with
            return self._solve(problem, budget, rng, run)

    def _solve(self, problem: Problem, budget: Budget, rng: np.random.Generator, run: Run) -> Result:
        try:
            with planning():
                tables = self._make_plan(problem)
        except Stopped as cut:
            return self._on_factors(problem, budget, rng, cut.status)
        messages = self._messages(tables)
        run.has_begun = True
        if tables.plan.regions.is_forest:
            return _exact(messages.run(problem, budget, rng), messages)
        if self.solver == "messages":
            return messages.run(problem, budget, rng)
        first = self._first(problem, tables, messages)
        if self.solver != "auto":
            return RegionDescent(tables, first, self.solver == "single-loop").run(problem, budget, rng)
        patience = replace(budget, max_iter=min(budget.max_iter, _PATIENCE))
        found = RegionDescent(tables, first, True).run(problem, patience, rng)
        stopped = found.status in (Status.OUT_OF_ITERATIONS, Status.DIVERGED)
        if not stopped or budget.max_iter <= len(found.trace["change"]):
            return found
        passes, change = len(found.trace["change"]), float(found.trace["change"][-1])
        note = f"the single loop still changed by {change:.2g} after {passes} passes; the double loop went on"
        second = RegionDescent(tables, found.state, False).run(problem, budget, rng)
        return replace(second, notes=(*second.notes, note))

    def _make_plan(self, problem: Problem) -> RegionTables:
        """The numbers of the problem on its regions, with every index that sweeps and answers need."""
        plan = plan_of(problem.graph, self.regions, self.max_entries)
        tables = RegionTables(problem, plan)
        if self.solver != "messages" and not plan.regions.is_forest:
            _ = plan.pairs
        return tables

    def _on_factors(
        self, problem: Problem, budget: Budget, rng: np.random.Generator, status: Status
    ) -> Result:
        """Without a plan the factors are the regions: belief propagation for the rest of the time.

        The messages are no state that a run on regions could begin from, and are not kept.
        """
        found = BP(damping=self.damping or 0.0).run(replace(problem, warm=None), budget, rng)
        note = f"planning the regions was cut ({status.value}): the factors are the regions, as in bp"
        return replace(found, algorithm=self.name, state=None, notes=(*found.notes, note))

    def _first(self, problem: Problem, tables: RegionTables, messages: _Messages) -> DescentState:
        """No multipliers and the beliefs of separate regions, or where an earlier run ended."""
        if problem.warm is None:
            return DescentState(np.zeros(tables.plan.pairs.message_start[-1]), messages.first_beliefs(), ())
        earlier = _warm(problem, DescentState, "multipliers", int(tables.plan.pairs.message_start[-1]))
        return DescentState(_revive(earlier.multipliers), _revive(earlier.logs), ())

    def _messages(self, tables: RegionTables) -> _Messages:
        damping = self.damping
        if damping is None:
            damping = 0.0 if tables.plan.regions.is_forest else 0.5
        return _Messages(tables, float(damping), self.damping_domain == "linear", self.schedule)


def _exact(result: Result, messages: _Messages) -> Result:
    """The result on a region graph without loops: exact after a sweep inwards and one outwards."""
    complete = not len(messages.plan.senders) or result.state.turn >= 2
    if messages.damping > 0 or not complete or result.status is not Status.CONVERGED:
        return result
    assert result.log_z is not None
    note = "the region graph has no loops: two sweeps of messages are exact"
    exact = Estimate(result.log_z.value, "exact")
    return replace(result, status=Status.EXACT, log_z=exact, notes=(*result.notes, note))


def _warm(problem: Problem, kind: type, part: str, size: int) -> Any:
    """The state of the warm start, if it is of the right kind and size."""
    state = problem.warm
    if not isinstance(state, kind):
        raise QueryError("warm_start: expected the result of gbp with the same kind of solver")
    if len(getattr(state, part)) != size:
        raise QueryError(
            f"warm_start: expected {part} of {size} entries, got {len(getattr(state, part))}; "
            "start from a run on the same structure and regions"
        )
    return state


def _revive(logs: np.ndarray) -> np.ndarray:
    """Entries that were impossible become unlikely: the tables may have changed since."""
    return np.maximum(logs, _FAINT)


@record("gbp")
class GBPState(NamedTuple):
    """Messages of all edges of the region graph."""

    messages: np.ndarray  # log messages, one table per edge
    turn: int  # sweeps done
    rng: np.random.Generator  # for random orders


@dataclass(frozen=True)
class _Messages(IterativeAlgorithm[GBPState]):
    """Sweeps of parent-to-child messages."""

    tables: RegionTables
    damping: float
    linear: bool
    schedule: str
    name: ClassVar[str] = "gbp"

    @property
    def plan(self) -> RegionPlan:
        return self.tables.plan

    def why_not(self, problem: Problem) -> str | None:
        return None

    def start(self, problem: Problem, rng: np.random.Generator) -> GBPState:
        if problem.warm is not None:
            earlier = _warm(problem, GBPState, "messages", int(self.plan.message_start[-1]))
            return GBPState(_revive(earlier.messages), 0, rng)
        sizes = np.diff(self.plan.message_start)
        first = np.repeat(-np.log(sizes), sizes) if self.linear else np.zeros(self.plan.message_start[-1])
        return GBPState(first, 0, rng)

    def step(self, problem: Problem, state: GBPState) -> tuple[GBPState, float]:
        state, changes = self.advance(problem, state, 1, 0.0)
        return state, float(changes[-1])

    def advance(
        self, problem: Problem, state: GBPState, count: int, tol: float
    ) -> tuple[GBPState, np.ndarray]:
        work = float(self.plan.message_start[-1])
        count = kernel.sweeps.portion(work, min(count, _CHUNK))
        messages = state.messages.copy()
        orders = self._orders(state, count)
        edges = self.tables.edges
        part = 1.0 - self.damping  # of the change of a message, which a damped sweep makes
        changes = kernel.sweeps.over(work * count)(
            orders, self.damping, self.linear, edges, messages, count, tol * part
        )
        if changes[-1] == kernel.IMPOSSIBLE:
            raise problem.contradiction()
        return GBPState(messages, state.turn + len(changes), state.rng), changes / part

    def _orders(self, state: GBPState, count: int) -> np.ndarray:
        """Rows of regions that send, one row per sweep in turn."""
        down = self.plan.senders
        if self.plan.regions.is_forest:
            rows = np.stack([down, down[::-1]])
            return np.roll(rows, -(state.turn % 2), axis=0)  # a new array: kernels are compiled for C order
        if self.schedule == "random":
            return np.stack([state.rng.permutation(down) for _ in range(count)])
        return np.ascontiguousarray(down if self.schedule == "top-down" else down[::-1])[None, :]

    def log_beliefs(self, state: GBPState) -> np.ndarray:
        return np.asarray(kernel.beliefs(self.tables.edges, state.messages))

    def first_beliefs(self) -> np.ndarray:
        """What the regions believe before any message."""
        return self.log_beliefs(GBPState(np.zeros(self.plan.message_start[-1]), 0, np.random.default_rng(0)))

    def read(self, problem: Problem, state: GBPState, status: Status) -> Result:
        return self.tables.result(self.name, self.log_beliefs(state), status)
