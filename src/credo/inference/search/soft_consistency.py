r"""MAP by branch and bound with soft local consistency, best-first and depth-first at once.

With costs -theta, every node of the search holds an equivalent network (see `kernels.soft_consistency`)

    cost(x) = c0 + sum_i unary_i(x_i) + sum_a reduced_a(x_a),       all terms non-negative,

so c0 bounds its subtree from below. Before the search, sweeps of sequential tree-reweighted message
passing raise c0 towards the bound of the local linear relaxation; in the search, directional and
existential consistency are kept up by small moves around each decision and undone on the way back. Nodes
left open wait in a heap by their bounds. The upper bound on the maximum is therefore true whenever the
run is stopped, and falls until it meets the score: then the assignment is proven optimal.

Half of the time goes to probes: searches that pretend to know an assignment of a cost between the bounds.
The lower that ceiling, the more is pruned, so a probe often ends soon. It has found a better assignment,
or shown that none lies below the ceiling, which then bounds all costs.

Before all that, factors over the same variables are merged, variables with few neighbours are
eliminated, pairs along short cycles become one factor (the sweeps then reach a tighter relaxation), and
unconnected parts are searched apart. Zero entries are infinite costs and prune.

Subtrees are given up when their bound comes within 1e-9 (relative to the score, or absolute below 1)
of the best score: "proven optimal" means none is better by more than that. Any arity; projections go
over whole tables, so factors of high arity cost their size at every visit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ...core import check
from ...core.records import record
from ...core.result import Assignment, Estimate, Result, Status
from ...kernels import soft_consistency as kernel
from ...kernels.soft_consistency_nodes import NODES, OPEN, SEEN, OpenNodes, compact, fresh_tree
from ...kernels.soft_consistency_root import assignment_cost, decode, descend, sweep
from ...kernels.soft_consistency_search import Stack, fresh_stack, search
from ...optimise.driver import UNKNOWN, Outcome, Step, drive
from ...optimise.run import Run
from ..bounds.possible import evaluate_states
from ..problem.base import Budget, Problem, ResumableAlgorithm, register
from .local_search import improve
from .soft_network import NetworkPart, Reduced, reduce_graph

__all__ = ["SoftConsistency"]

_CLOSE = 1e-9  # gap to the best score, relative or absolute below 1, at which a subtree is given up
_OPERATIONS = 20_000_000  # table entries looked at between two looks at the clock: 0.1 to 0.3 s
_PATIENCE = 1e-3  # share of the gap that ten sweeps must gain
_SWEEPS = 2000  # of the preparation at most
_MOVE = 3e-4  # share of the gap below which a move of costs is not worth its time
_DESCENTS = 20  # rounds of one-state changes after each decoding
_SHARE, _LEAST = 1 / 8, 1 / 1024  # of the gap, below the ceiling of a probe: first, and least
_LOCAL = 4  # iterations of the first local search, before the branching; later ones have more


@register
@dataclass(frozen=True, kw_only=True)
class SoftConsistency(ResumableAlgorithm["_CostSearch"]):
    """Branch and bound with soft local consistency: exact MAP for wide models with structured tables.

    A step of the budget is about 0.2 s of search. `tol` is the gap at which the run ends.
    """

    name: ClassVar[str] = "soft-consistency"
    checkpoints: ClassVar[bool] = True
    promises: ClassVar[frozenset[str]] = frozenset({"upper"})
    eliminate: int = 3  # variables with at most so many neighbours are eliminated beforehand
    cycles: bool = True  # merge pairs of variables along short cycles into one factor: tighter bounds
    max_nodes: int = 0  # search nodes per unconnected part after which the run ends; 0: no limit

    def __post_init__(self) -> None:
        """Check the options."""
        check.whole("eliminate", self.eliminate, 0)
        check.whole("max_nodes", self.max_nodes, 0)

    def start(self, problem: Problem, rng: np.random.Generator) -> _CostSearch:
        """All parts of the problem, nothing searched."""
        return _CostSearch(problem, self, rng)

    def resume(self, problem: Problem, state: _CostSearch, budget: Budget) -> Result:
        """Sweeps, local search, then branching until proven, the budget is used up, or somebody stops it."""
        # What a step has found is kept in the state even where the step is cut.
        return drive(_CostSearchSteps(), problem, budget, state=state, whole=False)  # type: ignore[no-any-return]


class _CostSearchSteps:
    """The search as the driver sees it."""

    name = SoftConsistency.name

    def advance(self, problem: Problem, state: _CostSearch, run: Run) -> Step:
        if state.is_done or not state.may_go_on:
            return Step(state, status=Status.OPTIMAL if state.is_done else Status.OUT_OF_ITERATIONS)
        state.step(run.left if np.isfinite(run.left) else None)
        trace = {"bound": [state.upper], "score": [state.score]}
        return Step(state, [state.gap], trace, Status.OPTIMAL if state.is_done else None)

    def read(self, problem: Problem, outcome: Outcome) -> Result:
        trace = {name: np.array(outcome.trace.get(name, ())) for name in ("bound", "score")}
        return replace(outcome.state.read(self.name, outcome.ended, trace), state=outcome.state)


@record("soft-consistency", kept=("_parts", "_polished", "_steps", "_rng"))
class _CostSearch:
    """All parts of a problem."""

    def __init__(self, problem: Problem, options: SoftConsistency, rng: np.random.Generator) -> None:
        self._problem, self._rng = problem, rng
        self._reduced: Reduced = reduce_graph(problem.graph, degree=options.eliminate, cycles=options.cycles)
        if self._reduced.constant == np.inf:
            raise problem.contradiction()
        self._parts = [_PartSearch(part, options.max_nodes) for part in self._reduced.parts]
        self._polished, self._steps = 0, 0
        for part in self._parts:
            self._use(part)

    @property
    def is_done(self) -> bool:
        """Whether every part is solved."""
        return all(part.is_done for part in self._parts)

    @property
    def may_go_on(self) -> bool:
        """Whether a part that is not solved has nodes left to spend."""
        return any(part.may_go_on for part in self._parts)

    @property
    def upper(self) -> float:
        """No assignment scores more than this, up to the slack of the comparisons."""
        return -(self._reduced.constant + sum(part.lower for part in self._parts))

    @property
    def score(self) -> float:
        """Of the best assignment so far."""
        return -(self._reduced.constant + sum(part.cost for part in self._parts))

    @property
    def open_nodes(self) -> int:
        """Nodes waiting in all parts."""
        return sum(part.open_nodes for part in self._parts)

    @property
    def gap(self) -> float:
        """How far the bound is above the score; what cannot be said yet is unknown."""
        return min(max(self.upper - self.score, 0.0), UNKNOWN)

    def step(self, seconds: float | None) -> None:
        """Some work on the part with the widest gap, sweeps first; now and then, local search."""
        ready = [part for part in self._parts if part.may_go_on]
        unswept = [part for part in ready if not part.is_swept]
        if not unswept:
            if self._steps >= 4**self._polished - 1:
                self._polished += 1
                self._polish(seconds)
                return
            self._steps += 1
        part = max(unswept or ready, key=lambda part: part.gap)
        part.set_slack(_CLOSE * max(1.0, abs(self.score)) if np.isfinite(self.score) else 0.0)
        part.advance()
        self._use(part)

    def _use(self, part: _PartSearch) -> None:
        if part.is_done and part.cost == np.inf:
            raise self._problem.contradiction()

    def _polish(self, seconds: float | None) -> None:
        """Let a local search improve on the states decoded so far."""
        budget = Budget(
            max_iter=_LOCAL * 2**self._polished // 2, seconds=None if seconds is None else seconds / 4
        )
        states, _ = improve(self._problem, self.states(), budget, self._rng)
        for part in self._parts:
            part.offer(states[part.variables])

    def states(self) -> np.ndarray:
        """The best assignment so far; where none is known, states that look good."""
        states = np.zeros(len(self._problem.graph.variables), dtype=np.int64)
        for part in self._parts:
            states[part.variables] = part.states
        self._reduced.complete(states)
        return states

    def read(self, name: str, status: Status, trace: dict[str, np.ndarray]) -> Result:
        """The answer so far."""
        states, score = evaluate_states(
            self._problem, self.states(), np.arange(len(self._problem.graph.variables))
        )
        slack = _CLOSE * max(1.0, abs(score.value)) if np.isfinite(score.value) else 0.0
        bound = Estimate(max(self.upper, score.value) + slack, "upper")
        if self.is_done or self.upper - score.value <= slack:
            status, bound = Status.OPTIMAL, Estimate(score.value, "exact")
        nodes = sum(part.seen for part in self._parts)
        note = f"{nodes} search nodes, {self.open_nodes} left open, {len(self._parts)} parts"
        return Result(
            name,
            status,
            log_z=bound,
            assignment=Assignment(self._problem.graph.variables, states),
            score=score,
            trace=trace,
            notes=(note,),
        )


@record(
    "soft-consistency part",
    kept=(
        "_work", "_tree", "_stack", "_guess", "_sweeps", "_before", "_floor", "_share", "_effort",
        "_searched", "_probed", "_probe_nodes", "is_swept", "is_done",
    ),
)  # fmt: skip
class _PartSearch:
    """The search of one connected network."""

    def __init__(self, part: NetworkPart, nodes: int) -> None:
        self.variables, self._net, self._unary = part
        net = self._net
        moved = int(net.state_start[-1] + net.edge_start[-1])
        self._work = kernel.fresh_work(net, trail=(1 << 20) + 8 * moved)
        self._room = max(1 << 16, 8 * int(net.state_start[-1]))
        self._tree = fresh_tree(self._room)
        self._stack = fresh_stack(net)
        self._limit = nodes if nodes else 1 << 62
        self._guess = np.zeros(len(self.variables), dtype=np.int64)
        self._sweeps, self._before = 0, -np.inf
        self._floor, self._share, self._effort = -np.inf, _SHARE, _OPERATIONS  # of the probes
        self._searched, self._probed, self._probe_nodes = 0, 0, 0  # operations of both, nodes of probes
        self.is_swept = False
        self.is_done = self._forbid()

    def _forbid(self) -> bool:
        """Remove the states with infinite unary cost; True if a variable has none left."""
        net, work = self._net, self._work
        work.unary[:] = np.where(np.isinf(self._unary), 0.0, self._unary)
        for place in np.flatnonzero(np.isinf(self._unary)):
            i = int(np.searchsorted(net.state_start, place, side="right")) - 1
            kernel.remove(net, work, i, int(place - net.state_start[i]))
        return bool((work.size == 0).any())

    @property
    def cost(self) -> float:
        """Of the best assignment, +inf if none is known."""
        return float(self._work.number[kernel.UPPER])

    @property
    def lower(self) -> float:
        """Bound on the cost of every assignment."""
        if self.is_done:
            return self.cost
        waiting = self._tree.bound[self._tree.heap[0]] if self._tree.tally[OPEN] else -np.inf
        return min(self.cost, max(float(self._work.number[kernel.C0]), float(waiting), self._floor))

    @property
    def gap(self) -> float:
        """What is left to prove."""
        return self.cost - self.lower

    @property
    def seen(self) -> int:
        """Search nodes so far."""
        return int(self._tree.tally[SEEN]) + self._probe_nodes

    @property
    def open_nodes(self) -> int:
        """Nodes waiting."""
        return 0 if self.is_done else int(self._tree.tally[OPEN])

    @property
    def may_go_on(self) -> bool:
        """Whether there is something left to do, and nodes to do it with."""
        return not self.is_done and self.seen < self._limit

    @property
    def states(self) -> np.ndarray:
        """The best assignment, or what the last sweep suggests."""
        return self._work.best if self._work.best[0] >= 0 else self._guess

    def set_slack(self, slack: float) -> None:
        """How close to the best cost a bound must come."""
        self._work.number[kernel.SLACK] = slack

    def offer(self, states: np.ndarray) -> None:
        """Take an assignment if it is better."""
        cost = assignment_cost(self._net, self._unary, states)
        if cost < self.cost:
            self._work.number[kernel.UPPER] = cost
            self._work.best[:] = states

    def advance(self) -> None:
        """A fraction of a second of sweeps or of search."""
        if self.is_swept:
            if self._probed < self._searched and np.isfinite(self.gap):
                self._probe()
            else:
                self._search()
            return
        end = self._work.tally[kernel.OPERATIONS] + _OPERATIONS
        while not self.is_swept and self._work.tally[kernel.OPERATIONS] < end:
            self._sweep()

    def _sweep(self) -> None:
        """One sweep each way, and a decoding every few sweeps."""
        net, work = self._net, self._work
        for forward in (True, False):
            if sweep(net, work, forward):
                self.is_done = self.is_swept = True
                return
            if self._sweeps % 4 == 0:
                decode(net, work, forward, self._guess)
                descend(net, self._unary, self._guess, _DESCENTS)
                self.offer(self._guess)
        self._sweeps += 2
        if self._sweeps % 10 == 0:
            c0 = float(work.number[kernel.C0])
            slow = c0 - self._before < _PATIENCE * min(self.gap, max(1.0, abs(c0)))
            self.is_swept = slow or self._sweeps >= _SWEEPS
            self._before = c0

    def _search(self) -> None:
        """Branch for a while."""
        work, tree = self._work, self._tree
        if tree.tally[NODES] > len(tree.parent) - 2 * len(self._stack.variable) - 2:
            compact(tree)
            if tree.tally[NODES] > len(tree.parent) // 2:
                grown = [np.concatenate([array, np.zeros_like(array)]) for array in tree[:-1]]
                tree = self._tree = OpenNodes(*grown, tally=tree.tally)  # type: ignore[misc]
        before = int(work.tally[kernel.OPERATIONS])
        self.is_done = self._branch(work, tree, self._stack, _OPERATIONS, self.gap)
        self._searched += int(work.tally[kernel.OPERATIONS]) - before

    def _probe(self) -> None:
        """Branch below a ceiling, on a copy: to a better assignment, or a better bound, or neither."""
        work = kernel.NetworkWork(*(array.copy() for array in self._work))
        work.stamp[:] = -1  # levels are counted anew
        tree, stack = fresh_tree(self._room), fresh_stack(self._net)
        room = self._share * self.gap
        ceiling = self.lower + room
        work.number[kernel.UPPER], work.tally[kernel.OPERATIONS] = ceiling, 0
        is_done = self._branch(work, tree, stack, self._effort, room)
        self._probed += int(work.tally[kernel.OPERATIONS])
        self._probe_nodes += int(tree.tally[SEEN])
        slack = float(work.number[kernel.SLACK])
        if work.number[kernel.UPPER] < ceiling:
            self.offer(work.best)
        elif is_done:
            self._floor = ceiling - slack
            self._share = min(2 * self._share, 1.0)
            self.is_done = self._floor >= self.cost - slack
        elif self._share > _LEAST:
            self._share /= 2
        else:
            self._share, self._effort = _SHARE, 2 * self._effort

    def _branch(
        self, work: kernel.NetworkWork, tree: OpenNodes, stack: Stack, operations: int, gap: float
    ) -> bool:
        """Search for a while; True if nothing is left open."""
        slack = work.number[kernel.SLACK]
        tiny = max(1e-13, slack / (len(self._net.table_start) + len(self.variables)))
        work.number[kernel.GAIN] = max(tiny, _MOVE * min(gap, max(1.0, abs(self.lower))))
        nodes = max(self._limit - self.seen, 0)
        return bool(search(self._net, work, tree, stack, self._unary, operations, nodes, tiny))
