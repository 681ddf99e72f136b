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

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ...core import check
from ...core.result import Assignment, Estimate, Result, Status
from ...kernels import and_or_search as kernel
from ...kernels.and_or_nodes import AndOrPlan, Memory, recalled, summed_at_root
from ...kernels.best_first import best_first
from ...kernels.jit import Kernel
from ...optimise.driver import UNKNOWN, Outcome, Step, drive
from ...optimise.run import Run
from ...optimise.run import check as check_clock
from ..bounds.bucket_passes import BucketPasses, bucket_passes
from ..bounds.wmb import WMB, WMBState
from ..problem.base import Algorithm, Budget, Problem, register
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
        # What a step has found is kept even where the step is cut.
        return drive(_NodeSteps(self), problem, budget, rng, whole=False)  # type: ignore[no-any-return]


class _NodeSteps:
    """The search as the driver sees it."""

    name = BranchAndBound.name

    def __init__(self, options: BranchAndBound) -> None:
        self._options = options

    def start(self, problem: Problem, run: Run) -> Step:
        return Step(_Search(self._options, problem, run))

    def advance(self, problem: Problem, search: _Search, run: Run) -> Step:
        return search.next(run)

    def read(self, problem: Problem, outcome: Outcome) -> Result:
        return outcome.state.result(outcome)  # type: ignore[no-any-return]


class _Open(NamedTuple):
    """Partial assignments of the best-first search, as its kernel takes them."""

    turns: np.ndarray  # variables in the order in which they are set
    above: np.ndarray  # the one it extends
    state: np.ndarray  # of the variable that it sets
    depth: np.ndarray
    value: np.ndarray  # bound on what it leads to
    heap: np.ndarray  # by falling bounds
    size: np.ndarray  # (2,) kept, and in the heap


class _Search:
    """The best assignment, the bound, and what comes next."""

    # What a search goes on from, once there is one.
    _plan: AndOrPlan
    _memory: Memory
    _open: _Open

    def __init__(self, options: BranchAndBound, problem: Problem, run: Run) -> None:
        self._options, self._problem, self._rng = options, problem, run.rng
        self._beside = StateSearch(problem, run.rng, 16.0, first_states(problem, run.rng), run.budget.seconds)
        self._wmb = WMB(ibound=62, max_entries=2 ** (options.log2_table or 4))
        self._passes = bucket_passes(problem, self._wmb.ibound, self._wmb.max_entries)
        self._tables = self._wmb.start(problem, run.rng).best
        self._state: WMBState | None = None
        self._change = 1.0  # of the last iteration of the mini-buckets
        self._bounding = 0.0  # seconds spent on them
        self._spent = 0.0  # seconds of the last portion of work
        self.upper = self._tables.value
        self._nodes = 0
        self._notes: tuple[str, ...] = ()
        self.next: Callable[[Run], Step] = self._prepare  # the step to come
        self._after: Callable[[Run], Step] = self._prepare  # what comes after the local search

    def _is_met(self) -> bool:
        score = self._beside.score
        return score.value >= self.upper - _MET * max(1.0, abs(self.upper))

    def _finish(self) -> Step:
        """There is nothing more to do; `result` knows whether that is a proof."""
        return Step(self, status=Status.OUT_OF_ITERATIONS)

    def _prepare(self, run: Run) -> Step:
        """The bounds, and the assignment they suggest."""
        if run.ended() is None:
            self._bound(run)
        self._guess()
        self.next = self._branch
        return Step(self)

    def _guess(self) -> None:
        """Take over the states that the bounds suggest, if they are better."""
        self._beside.propose(self._passes.decode(self._tables.psi))

    def _bound(self, run: Run) -> None:
        """Mini-buckets as large as the time allows, and some iterations on them."""
        if not self._options.log2_table:
            self._wmb, self._passes = self._size_bounds(run)
        self._state = self._wmb.start(self._problem, self._rng)
        for _ in range(_BOUND_SWEEPS):
            if _is_past(run, _BOUND_SHARE) or self._state.passes.is_exact:
                break
            self._tighten(run)
        self._passes, self._tables = self._state.passes, self._state.best
        self.upper = min(self.upper, self._tables.value)

    def _tighten(self, run: Run) -> None:
        """One iteration of the mini-buckets, if it may still gain; a search keeps the tables it has."""
        if self._state is None or self._change < 1e-7:
            return
        check_clock()
        began = run.elapsed
        self._state, self._change = self._wmb.step(self._problem, self._state)
        self._bounding += run.elapsed - began
        self.upper = min(self.upper, self._state.best.value)

    def _size_bounds(self, run: Run) -> tuple[WMB, BucketPasses]:
        """The widest mini-buckets whose tables fit the time given."""
        seconds = run.given if np.isfinite(run.given) else _WITHOUT_LIMIT
        allowed = min(_ENTRIES_PER_SECOND * seconds, _MOST_ENTRIES)
        wmb, passes = self._wmb, self._passes
        for log2 in range(5, 25):
            if passes.is_exact or 1.6 * passes.buckets.table_start[-1] > allowed or _is_past(run, 0.1):
                break
            wider = replace(self._wmb, max_entries=2**log2)
            found = bucket_passes(self._problem, wider.ibound, wider.max_entries)
            if found.buckets.table_start[-1] > allowed:
                break
            wmb, passes = wider, found
        return wmb, passes

    def _branch(self, run: Run) -> Step:
        """What messages suggest, then the plan of the search."""
        if self._options.local and not self._is_met() and not self._beside.has_asked:
            self._beside.ask_messages()
            return Step(self)
        if self._is_met():
            return self._finish()
        plan = make_plan(self._problem, self._passes, self._tables)
        if plan is None:
            self._notes = ("the model is too large, or its sums are too wide, for branching: no search",)
            self.next = self._alone
            return Step(self)
        self._plan, self._memory = plan, make_memory(plan, _CACHE if run.budget.seconds != 0 else 2**10)
        if self._options.search == "best-first":
            self._open, self.next = _first_node(plan, self._memory), self._best_first
        else:
            self._enter()
        return Step(self)

    def _enter(self) -> None:
        """Begin at the root, depth first."""
        kernel.enter(self._plan, self._memory, len(self._plan.sizes) - 1, self._threshold(), False)
        self.next = self._depth_first

    def _alone(self, run: Run) -> Step:
        """The local search alone."""
        if self._beside.is_spent(_PATIENCE) and not self._beside.widen():
            return self._finish()
        return self._record(0.0)

    def _threshold(self) -> float:
        score = self._beside.score.value
        if score == -np.inf:
            return score
        return score + _MET * max(1.0, abs(score)) - self._passes.constant

    def _record(self, spent: float) -> Step:
        """A portion of work is done, in so many seconds: the local search has its share next."""
        self._after, self.next, self._spent = self.next, self._aside, spent
        trace = {"bound": [self.upper], "score": [self._beside.score.value]}
        return Step(self, [UNKNOWN], trace, Status.OUT_OF_ITERATIONS if self._is_met() else None)

    def _aside(self, run: Run) -> Step:
        """The local search for as long as the last portion of work took, and some work on the bound."""
        began = run.elapsed
        while self._options.local:
            if self._beside.is_spent(_PATIENCE) and not self._beside.widen():
                break
            self._beside.step()
            if run.elapsed - began >= self._spent:
                break
        if self._options.max_nodes == 0 and self._bounding < _TIGHTEN_SHARE * run.elapsed:
            self._tighten(run)
        if self._beside.proven:
            self.upper = min(self.upper, self._beside.score.value)
        self.next = self._after
        return self._finish() if self._is_met() else Step(self)

    def _portion(self) -> int:
        """Nodes that may be opened now; 0 if the limit is reached."""
        most = self._options.max_nodes
        return 2**60 if most == 0 else max(0, most - self._nodes)

    def _depth_first(self, run: Run) -> Step:
        if self._portion() == 0:
            return self._finish()
        plan, memory = self._plan, self._memory
        began, before = run.elapsed, memory.tally[1]
        kernel.raise_threshold(plan, memory, self._threshold())
        code = self._explore(kernel.depth_first, plan, memory)
        self._nodes += int(memory.tally[1] - before)
        if code == kernel.DONE:
            return self._conclude()
        spent = run.elapsed - began
        self.upper = min(self.upper, self._at_least_score(kernel.frontier_bound(plan, memory)))
        states = np.append(self._beside.best, 0)  # with a place for the common root
        kernel.partial_solution(plan, memory, states)
        self._beside.propose(states[:-1])
        return self._record(spent)

    def _explore(self, search: Kernel, *arrays: Any, nodes: int | None = None) -> Any:
        """One iteration of a search, in portions while its kernel is interpreted."""
        memory = self._memory
        last, left = memory.tally[1] + (self._portion() if nodes is None else nodes), _WORK
        while True:
            part = search.portion(1.0, left)
            found = search.over(part)(*arrays, int(last - memory.tally[1]), part)
            left -= part
            code = found[0] if isinstance(found, tuple) else found
            if code != kernel.MORE or left <= 0 or memory.tally[1] >= last:
                return found
            check_clock()

    def _at_least_score(self, bound: float) -> float:
        """A bound on what is open, as a bound on everything: the assignment in hand counts too."""
        return max(bound + self._passes.constant, self._beside.score.value)

    def _conclude(self) -> Step:
        """The root is answered: read the optimal assignment, or keep the one that was not exceeded."""
        if not self._memory.tally[3]:
            self._keep()
            return self._finish()
        self.upper = float(self._memory.answer[0]) + self._passes.constant
        return self._complete()

    def _keep(self) -> None:
        """Nothing exceeds the assignment in hand."""
        if self._beside.score.value == -np.inf:
            raise self._problem.contradiction()
        self.upper = self._beside.score.value

    def _complete(self) -> Step:
        """Take over what is known of the optimal assignment; what is not is searched for again."""
        plan, memory = self._plan, self._memory
        inside = plan.span[len(plan.sizes) - 1]
        found = memory.solution[1:inside]
        known = found >= 0
        states = self._beside.best.copy()
        states[plan.walk[1:inside][known]] = found[known]
        self._beside.propose(states)
        if known.all():
            return self._finish()
        # Its value came from the cache, without states.
        at = 1 + int(np.flatnonzero(~known)[0])
        memory.x[plan.walk[1:at]] = memory.solution[1:at]
        i = int(plan.walk[at])
        value = recalled(plan, memory, i)
        memory.tally[0] = 0
        kernel.enter(
            plan, memory, i, value - _MET * max(1.0, abs(value)) if value > -np.inf else value, False
        )
        self.next = self._repair
        return Step(self)

    def _repair(self, run: Run) -> Step:
        """Search again below a variable whose states are not known."""
        if self._explore(kernel.depth_first, self._plan, self._memory, nodes=2**60) != kernel.DONE:
            return Step(self)
        return self._complete() if self._memory.tally[3] else self._finish()

    def _best_first(self, run: Run) -> Step:
        if self._portion() == 0:
            return self._finish()
        memory, open_ = self._memory, self._open
        began, before = run.elapsed, memory.tally[1]
        code, node = self._explore(best_first, self._plan, memory, *open_, self._threshold())
        self._nodes += int(memory.tally[1] - before)
        if code == kernel.DONE:
            self._adopt(node)
            return self._finish()
        self.upper = min(self.upper, self._at_least_score(float(open_.value[open_.heap[0]])))
        if code == kernel.FULL:
            self._notes = (f"{_NODES} open nodes fill the memory; the search went on depth first",)
            self._memory = make_memory(self._plan, len(memory.key))
            self._enter()
        return self._record(run.elapsed - began)

    def _adopt(self, node: int) -> None:
        """The best node is complete: its states are optimal. Without one, those in hand are."""
        if node < 0:
            self._keep()
            return
        open_ = self._open
        self.upper = min(self.upper, float(open_.value[node]) + self._passes.constant)
        states = self._beside.best.copy()
        for i in open_.turns[::-1].tolist():
            states[i], node = open_.state[node], int(open_.above[node])
        self._beside.propose(states)

    def result(self, outcome: Outcome) -> Result:
        """The assignment, its score, and the bound."""
        problem, score = self._problem, self._beside.score
        upper = max(self.upper, score.value)
        status, kind = outcome.ended, "upper"
        if self._is_met() and score.kind == "exact":
            status, kind, upper = Status.OPTIMAL, "exact", score.value
        shown = np.where(problem.temperatures == 0, self._beside.best, -1)
        return Result(
            self._options.name,
            status,
            log_z=Estimate(upper, kind),  # type: ignore[arg-type]
            assignment=Assignment(problem.graph.variables, shown),
            score=score,
            trace={name: np.array(outcome.trace.get(name, ())) for name in ("bound", "score")},
            notes=(*self._notes, f"{self._nodes} nodes"),
        )


def _is_past(run: Run, share: float) -> bool:
    """Whether a share of the time given is over."""
    return run.elapsed > share * run.given


def _first_node(plan: AndOrPlan, memory: Memory) -> _Open:
    """The empty assignment, open."""
    turns = plan.walk[1 : plan.span[len(plan.sizes) - 1]].copy()
    above, depth, heap = (np.empty(_NODES, dtype=np.int64) for _ in range(3))
    state, value = np.empty(_NODES, dtype=np.int32), np.empty(_NODES)
    above[0], depth[0], state[0], heap[0] = -1, 0, 0, 0
    value[0] = summed_at_root(plan, memory)
    return _Open(turns, above, state, depth, value, heap, np.array([1, 1], dtype=np.int64))
