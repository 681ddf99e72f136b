r"""Exact MAP and marginal MAP by branch and bound on the AND/OR search space.

Variables are searched in the reverse of an elimination order in which sums come first, so that all
maximised variables are set before a sum is met. The elimination tree of the order splits the problem: given
its ancestors, the subtrees below a variable are independent, and the value of a subtree depends only on its
context, the ancestors it is connected to:

    v_i(context) = max_{x_i} [ theta_{bucket of i} + sum_{children c} v_c ],      v_c = Q_c for summed parts.

Weighted mini-buckets, after some iterations of cost shifting, bound every v from above; the larger their
tables (`log2_table`, by default what the time allows), the better the guidance. `depth-first` asks every
node for a value above what is already known, and caches answers by context; `best-first` always extends the
partial assignment with the largest bound, and gives way to depth-first when its memory is full. Sums are
computed exactly by elimination once their context is set. A local search runs beside and supplies good
assignments early.

Whenever it stops, the score belongs to the best assignment found and `log_z` is an upper bound: the largest
one among all that is still open. When the two meet (to 1e-10, relative), the assignment is proven optimal.
An iteration is a portion of work, about four million table entries.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from ...core import check
from ...core.progress import Progress
from ...core.result import Assignment, Estimate, Result, Status
from ...kernels import and_or_search as kernel
from ...kernels.and_or_nodes import Memory, Plan, recalled, summed_at_root
from ...kernels.best_first import best_first
from ...kernels.jit import Kernel
from ..base import Algorithm, Budget, Problem, register
from ..bounds.bucket_passes import BucketPasses, bucket_passes
from ..bounds.wmb import WMB, WMBState
from .and_or import make_memory, make_plan
from .local_search import StateSearch, first_states, why_no_states

__all__ = ["BranchAndBound"]

_MET = 1e-10  # relative difference of bound and score that counts as none: rounding of many logs
_WORK = 2**22  # table entries per iteration
_ENTRIES_PER_SECOND = 4e5  # of mini-buckets, so that bounding takes a fair share of the time given
_MOST_ENTRIES = 2**24
_BOUND_SWEEPS = 12  # iterations that tighten the mini-buckets, at most
_BOUND_SHARE = 0.2  # of the time given
_TIGHTEN_SHARE = 0.3  # of the time: while a search goes on, the mini-buckets may still tighten the bound
_WITHOUT_LIMIT = 60.0  # seconds the bounds are made for if no time is given
_CACHE = 2**21  # answers kept
_NODES = 3_000_000  # partial assignments kept by best-first search
_PATIENCE = 60  # fruitless steps after which the local search beside ends


@register
@dataclass(frozen=True, kw_only=True)
class BranchAndBound(Algorithm):
    """AND/OR search guided by weighted mini-buckets: proves optima, and brackets them when stopped."""

    name: ClassVar[str] = "branch-and-bound"
    promises: ClassVar[frozenset[str]] = frozenset({"upper"})
    search: Literal["depth-first", "best-first"] = "depth-first"  # which open node comes next
    log2_table: int = 0  # log2 of the largest mini-bucket; 0: by the time given
    max_nodes: int = 0  # nodes after which it stops; 0: no limit
    local: bool = True  # whether a local search supplies assignments

    def __post_init__(self) -> None:
        """Check the options."""
        check.one_of("search", self.search, ["depth-first", "best-first"])
        check.whole("log2_table", self.log2_table, 0, 40)
        check.whole("max_nodes", self.max_nodes, 0)

    def why_not(self, problem: Problem) -> str | None:
        """Something must be maximised, after all else."""
        return why_no_states(problem)

    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """Bound, search, and say what is proven."""
        run = _Run(self, problem, budget, rng)
        try:
            run.bound()
            run.guess()
            run.search()
        except KeyboardInterrupt:
            run.status = Status.INTERRUPTED
        return run.result()


class _Run:
    """One run: the best assignment, the bound, and the clock."""

    def __init__(
        self, options: BranchAndBound, problem: Problem, budget: Budget, rng: np.random.Generator
    ) -> None:
        self._options, self._problem, self._budget, self._rng = options, problem, budget, rng
        self._clock = time.perf_counter()
        self._beside = StateSearch(problem, rng, 16.0, first_states(problem, rng))
        self._wmb = WMB(ibound=62, max_table=2 ** (options.log2_table or 4))
        self._passes = bucket_passes(problem, self._wmb.ibound, self._wmb.max_table)
        self._tables = self._wmb.start(problem, rng).best
        self._state: WMBState | None = None
        self._change, self._bounding = (
            1.0,
            0.0,
        )  # of the last iteration of the mini-buckets; seconds spent on them
        self.upper = self._tables.value
        self.status = Status.OUT_OF_ITERATIONS
        self._nodes = 0
        self._uppers: list[float] = []
        self._scores: list[float] = []
        self._notes: tuple[str, ...] = ()

    @property
    def _elapsed(self) -> float:
        return time.perf_counter() - self._clock

    def _is_over(self, share: float = 1.0) -> bool:
        return self._budget.seconds is not None and self._elapsed > share * self._budget.seconds

    def _is_met(self) -> bool:
        score = self._beside.score
        return score.value >= self.upper - _MET * max(1.0, abs(self.upper))

    def bound(self) -> None:
        """Mini-buckets as large as the time allows, and some iterations on them."""
        if self._is_over():
            return
        problem, rng = self._problem, self._rng
        if not self._options.log2_table:
            self._wmb, self._passes = self._sized()
        self._state = self._wmb.start(problem, rng)
        for _ in range(_BOUND_SWEEPS):
            if self._is_over(_BOUND_SHARE) or self._state.passes.is_exact:
                break
            self._tighten()
        self._passes, self._tables = self._state.passes, self._state.best
        self.upper = min(self.upper, self._tables.value)

    def _tighten(self) -> None:
        """One iteration of the mini-buckets, if it may still gain; a search keeps the tables it has."""
        if self._state is None or self._change < 1e-7:
            return
        clock = time.perf_counter()
        self._state, self._change = self._wmb.step(self._problem, self._state)
        self._bounding += time.perf_counter() - clock
        self.upper = min(self.upper, self._state.best.value)

    def _sized(self) -> tuple[WMB, BucketPasses]:
        """The widest mini-buckets whose tables fit the time given."""
        seconds = _WITHOUT_LIMIT if self._budget.seconds is None else self._budget.seconds
        allowed = min(_ENTRIES_PER_SECOND * seconds, _MOST_ENTRIES)
        wmb, passes = self._wmb, self._passes
        for log2 in range(5, 25):
            if passes.is_exact or 1.6 * passes.buckets.table_start[-1] > allowed or self._is_over(0.1):
                break
            wider = replace(self._wmb, max_table=2**log2)
            found = bucket_passes(self._problem, wider.ibound, wider.max_table)
            if found.buckets.table_start[-1] > allowed:
                break
            wmb, passes = wider, found
        return wmb, passes

    def guess(self) -> None:
        """First assignments: what the bounds suggest, and what messages do."""
        self._beside.propose(self._passes.decode(self._tables.psi))
        if self._options.local and not self._is_over() and not self._is_met():
            self._beside.ask_messages(self._budget, self._clock)

    def search(self) -> None:
        """Search until the assignment is proven, or the budget is used up."""
        if self._is_met():
            return
        plan = None if self._is_over() else make_plan(self._problem, self._passes, self._tables)
        if plan is None:
            if self._is_over():
                self.status = Status.OUT_OF_TIME
                return
            self._notes = ("the model is too large, or its sums are too wide, for branching: no search",)
            self._without()
            return
        self._depth_first(plan) if self._options.search == "depth-first" else self._best_first(plan)

    def _without(self) -> None:
        """The local search alone."""
        for _ in range(self._budget.max_iter):
            if self._pause(0.0):
                return
            if self._beside.is_spent(_PATIENCE) and not self._beside.widen(self._budget):
                return

    def _threshold(self) -> float:
        score = self._beside.score.value
        if score == -np.inf:
            return score
        return score + _MET * max(1.0, abs(score)) - self._passes.constant

    def _pause(self, spent: float) -> bool:
        """Between portions of work: the local search has its share; whether to stop."""
        self._uppers.append(self.upper)
        self._scores.append(self._beside.score.value)
        if self._is_met():
            return True
        beside = time.perf_counter()
        while self._options.local and not self._is_over():
            if self._beside.is_spent(_PATIENCE) and not self._beside.widen(self._budget):
                break
            self._beside.step(self._budget, self._clock)
            if time.perf_counter() - beside >= spent:
                break
        if self._options.max_nodes == 0 and self._bounding < _TIGHTEN_SHARE * self._elapsed:
            self._tighten()
        if self._beside.proven:
            self.upper = min(self.upper, self._beside.score.value)
        if self._is_over():
            self.status = Status.OUT_OF_TIME
        return self._is_met() or self._is_over()

    def _portion(self) -> int:
        """Nodes that may be opened now; 0 if the limit is reached."""
        most = self._options.max_nodes
        return 2**60 if most == 0 else max(0, most - self._nodes)

    def _depth_first(self, plan: Plan) -> None:
        memory = make_memory(plan, _CACHE if self._budget.seconds != 0 else 2**10)
        root = len(plan.sizes) - 1
        kernel.enter(plan, memory, root, self._threshold(), False)
        with Progress("branch-and-bound", self._budget.max_iter) as bar:
            for done in range(self._budget.max_iter):
                if self._portion() == 0:
                    break
                clock, before = time.perf_counter(), memory.tally[1]
                code = self._explore(kernel.depth_first, memory, plan, memory)
                self._nodes += int(memory.tally[1] - before)
                if code == kernel.DONE:
                    self._conclude(plan, memory)
                    return
                spent = time.perf_counter() - clock
                self.upper = min(self.upper, self._at_least_score(kernel.frontier_bound(plan, memory)))
                states = np.append(self._beside.best, 0)  # with a place for the common root
                kernel.partial_solution(plan, memory, states)
                self._beside.propose(states[:root])
                if self._pause(spent):
                    return
                kernel.raise_threshold(plan, memory, self._threshold())
                bar.update(done + 1, f"{self._beside.score.value:.6g} <= value <= {self.upper:.6g}")

    def _explore(self, search: Kernel, memory: Memory, *arrays: Any, nodes: int | None = None) -> Any:
        """One iteration of a search, in portions while its kernel is interpreted."""
        last, left = memory.tally[1] + (self._portion() if nodes is None else nodes), _WORK
        while True:
            part = search.portion(1.0, left)
            found = search.over(part)(*arrays, int(last - memory.tally[1]), part)
            left -= part
            code = found[0] if isinstance(found, tuple) else found
            if code != kernel.MORE or left <= 0 or memory.tally[1] >= last:
                return found

    def _at_least_score(self, bound: float) -> float:
        """A bound on what is open, as a bound on everything: the assignment in hand counts too."""
        return max(bound + self._passes.constant, self._beside.score.value)

    def _conclude(self, plan: Plan, memory: Memory) -> None:
        """The root is answered: read the optimal assignment, or keep the one that was not exceeded."""
        if not memory.tally[3]:
            if self._beside.score.value == -np.inf:
                raise self._problem.contradiction()
            self.upper = self._beside.score.value
            return
        self.upper = float(memory.answer[0]) + self._passes.constant
        states = self._beside.best.copy()
        root = len(plan.sizes) - 1
        inside = plan.span[root]
        while (memory.solution[1:inside] < 0).any() and not self._is_over():
            if not self._repair(plan, memory, inside):
                break
        known = memory.solution[1:inside] >= 0
        states[plan.walk[1:inside][known]] = memory.solution[1:inside][known]
        self._beside.propose(states)

    def _repair(self, plan: Plan, memory: Memory, inside: int) -> bool:
        """Search again below the first variable whose value came from the cache without states."""
        at = 1 + int(np.flatnonzero(memory.solution[1:inside] < 0)[0])
        memory.x[plan.walk[1:at]] = memory.solution[1:at]
        i = int(plan.walk[at])
        value = recalled(plan, memory, i)
        memory.tally[0] = 0
        kernel.enter(
            plan, memory, i, value - _MET * max(1.0, abs(value)) if value > -np.inf else value, False
        )
        for _ in range(self._budget.max_iter):
            if self._explore(kernel.depth_first, memory, plan, memory, nodes=2**60) == kernel.DONE:
                return bool(memory.tally[3])
            if self._is_over():
                return False
        return False

    def _best_first(self, plan: Plan) -> None:
        memory = make_memory(plan, _CACHE if self._budget.seconds != 0 else 2**10)
        inside = plan.span[len(plan.sizes) - 1]
        turns = plan.walk[1:inside].copy()
        above, depth = np.empty(_NODES, dtype=np.int64), np.empty(_NODES, dtype=np.int64)
        state, heap = np.empty(_NODES, dtype=np.int32), np.empty(_NODES, dtype=np.int64)
        value, size = np.empty(_NODES), np.array([1, 1], dtype=np.int64)
        above[0], depth[0], state[0], heap[0] = -1, 0, 0, 0
        value[0] = summed_at_root(plan, memory)
        with Progress("branch-and-bound", self._budget.max_iter) as bar:
            for done in range(self._budget.max_iter):
                if self._portion() == 0:
                    return
                clock, before = time.perf_counter(), memory.tally[1]
                code, node = self._explore(
                    best_first, memory, plan, memory, turns, above, state, depth, value, heap, size,
                    self._threshold(),
                )  # fmt: skip
                self._nodes += int(memory.tally[1] - before)
                if code == kernel.DONE:
                    self._adopt(plan, turns, above, state, value, node)
                    return
                self.upper = min(self.upper, self._at_least_score(float(value[heap[0]])))
                if self._pause(time.perf_counter() - clock):
                    return
                bar.update(done + 1, f"{self._beside.score.value:.6g} <= value <= {self.upper:.6g}")
                if code == kernel.FULL:
                    self._notes = (f"{_NODES} open nodes fill the memory; the search went on depth first",)
                    self._depth_first(plan)
                    return

    def _adopt(
        self,
        plan: Plan,
        turns: np.ndarray,
        above: np.ndarray,
        state: np.ndarray,
        value: np.ndarray,
        node: int,
    ) -> None:
        """The best node is complete: its states are optimal. Without one, those in hand are."""
        if node < 0:
            if self._beside.score.value == -np.inf:
                raise self._problem.contradiction()
            self.upper = self._beside.score.value
            return
        self.upper = min(self.upper, float(value[node]) + self._passes.constant)
        states = self._beside.best.copy()
        for i in turns[::-1].tolist():
            states[i], node = state[node], int(above[node])
        self._beside.propose(states)

    def result(self) -> Result:
        """The assignment, its score, and the bound."""
        problem, score = self._problem, self._beside.score
        upper = max(self.upper, score.value)
        kind: Literal["exact", "upper"] = "upper"
        if self._is_met() and score.kind == "exact":
            self.status, kind, upper = Status.OPTIMAL, "exact", score.value
        shown = np.where(problem.temperatures == 0, self._beside.best, -1)
        return Result(
            self._options.name,
            self.status,
            log_z=Estimate(upper, kind),
            assignment=Assignment(problem.graph.variables, shown),
            score=score,
            trace={"bound": np.array(self._uppers), "score": np.array(self._scores)},
            notes=(*self._notes, f"{self._nodes} nodes"),
        )
