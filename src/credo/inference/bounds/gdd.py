r"""Generalised dual decomposition: one bound for sums, maxima and everything between, lowered monotonically.

    Phi_tau  <=  L(delta, w) = sum_s  log sum^{w^s}_{x_s}  exp[ theta_s + sum_{c around s} delta_{s,c} (x_s) ]
                             + sum_c  log sum^{w^c}_{x_c}  exp[ theta_c - sum_{s in c} delta_{s,c} (x_s) ]

for any shifts delta and any weights w >= 0 whose sum over the regions that hold variable i is its
temperature tau_i; every powered sum follows the global order of elimination (Hoelder's inequality). With
`ibound` 0 clusters are the factors and separators the variables; otherwise clusters are mini-buckets of
`ibound` + 1 variables and their overlaps are separators too: more work per sweep, a tighter bound, exact once
`ibound` reaches the width of the order. All temperatures zero: dual decomposition; all one, on pairs: tree
reweighting.

A sweep visits every separator. Its shifts are set to the exact minimum of its block where what follows it
in its clusters is maximised, and moved by a few line searches otherwise (`kernels/gdd_shifts.py`). Then each
variable shares out its temperature anew by an exponentiated gradient

    w_k <- tau_i w_k exp( -eta (H_k - Hbar_i) ) / normaliser,     H_k its conditional entropy in region k,

(`kernels/gdd_sweeps.py`). A step is taken only if the terms it touches do not rise, so neither does the
bound, and it holds whenever a run is stopped. The weights of mini-buckets give a good bound after one sweep
but are zero for most regions, where the bound then has no slope; with `weights="auto"` a fifth of every
temperature is spread evenly after that sweep, and the lower of the bounds before and after counts.
Where sums and maxima meet, closed forms soon stop at a kink; with `smooth` the sweeps see a small
temperature in place of zero, which cools down, and the lowest true bound counts. `updates="joint"` runs
L-BFGS on all shifts and weights at once instead; maxima are smoothed for it too.

Zeros stay in the tables and shifts stay finite. Where all weights around a block vanish the bound is not
smooth, and sweeps may stop above its minimum. A maximised variable that an explicit order eliminates before a
sum is moved along a smoothed direction, with the same guarantee. For maximised variables the states are
decoded from the shifted tables, one variable after another, and scored by their own value: a lower bound
beside the upper. Cost per sweep: a few passes over the tables per separator in them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from ...core import check
from ...core.result import Assignment, Estimate, Result, Status
from ...kernels.gdd import bound_of, project_zeros, shift_tables
from ...kernels.gdd_decode import decode_states
from ...kernels.gdd_sweeps import gdd_sweep
from ..base import IterativeAlgorithm, Problem, register
from ..value import value_of
from .gdd_joint import Descent, joint_start, joint_step
from .gdd_plan import Plan, make_plan
from .possible import possible_state

__all__ = ["GDD", "GDDState"]

MET = 1e-9  # relative gap at which a bound meets a score
_EVEN = 0.2  # part of every temperature that weights=auto spreads evenly after its first sweep
_COOLING, _COLDEST = 0.8, 1e-3  # of smoothed maxima: factor per sweep, and where it ends
_LOOK = 10  # sweeps between two looks at the score, where all variables are maximised


class GDDState(NamedTuple):
    """Shifts and weights, and what they amount to."""

    plan: Plan  # who touches whom
    base: np.ndarray  # tables of all regions without shifts
    constant: float  # what no region holds
    tables: np.ndarray  # with shifts
    shifts: np.ndarray  # per edge and state of its separator
    weight: np.ndarray  # per axis of every region
    steps: np.ndarray  # last length of step per separator
    paces: np.ndarray  # last pace of the weights per variable
    best: float  # lowest bound so far
    bounds: tuple[float, ...]  # after each sweep
    states: np.ndarray | None  # best decoding so far, where all variables are maximised
    descent: Descent | None  # of updates=joint


@register
@dataclass(frozen=True, kw_only=True)
class GDD(IterativeAlgorithm[GDDState]):
    """Lower a bound on any powered sum by shifting costs and sharing out temperatures."""

    name: ClassVar[str] = "gdd"
    promises: ClassVar[frozenset[str]] = frozenset({"upper", "monotone"})
    ibound: int = 0  # clusters of ibound + 1 variables; 0: the factors
    updates: Literal["blocks", "joint"] = "blocks"  # one block after another, or L-BFGS on everything
    weights: Literal["auto", "matched", "uniform"] = "auto"  # first ones: of mini-buckets, or even
    fixed_weights: bool = False  # keep the first weights
    floor: float = 0.002  # share of its temperature that every region of a variable keeps
    inner: int = 5  # steps of a block that has no closed form
    smooth: bool = True  # between sums, let maxima start as powered sums that cool down
    max_table: int = 1 << 20  # entries of a cluster's table beyond which factors are not joined

    def __post_init__(self) -> None:
        """Check the options."""
        check.at_least("ibound", self.ibound, 0)
        check.one_of("updates", self.updates, ["blocks", "joint"])
        check.one_of("weights", self.weights, ["auto", "matched", "uniform"])
        check.in_range("floor", self.floor, 0, 0.5)
        check.at_least("inner", self.inner, 1)
        check.at_least("max_table", self.max_table, 1)

    def why_not(self, problem: Problem) -> str | None:
        """Any temperatures, but no joints or samples."""
        if problem.query or problem.samples:
            return "it bounds log Z and maxima; use elimination for joints and samples"
        return None

    def start(self, problem: Problem, rng: np.random.Generator) -> GDDState:
        """No shifts."""
        plan = make_plan(problem, self.ibound, self.max_table, smooth=self._is_smoothed(problem))
        base, constant = plan.tables(problem)
        if constant == -np.inf or not project_zeros(
            plan.regions, plan.separators, plan.edges, plan.maps, base
        ):
            raise problem.contradiction()
        weight = plan.first_weights(problem.temperatures, self._rule(problem, plan))
        state = GDDState(
            plan,
            base,
            constant,
            base.copy(),
            np.zeros(plan.n_shifts),
            weight,
            np.full(len(plan.separators), 0.5),
            np.full(len(problem.temperatures), 0.5),
            np.inf,
            (),
            None,
            None,
        )
        state = state._replace(best=_bound(state))
        if self.updates == "joint":
            state = state._replace(
                descent=joint_start(problem, state, self.floor, free=not self.fixed_weights)
            )
        return state

    def _rule(self, problem: Problem, plan: Plan) -> Literal["matched", "uniform"]:
        if self.weights == "auto":
            alone = problem.is_sum and self.ibound == 0 and not plan.joins.is_tree
            return "uniform" if alone else "matched"
        return self.weights

    def step(self, problem: Problem, state: GDDState) -> tuple[GDDState, float]:
        """One sweep, or one joint step; the change is what the bound fell by, relative to its size."""
        if state.descent is not None:
            state, bound, is_done = joint_step(problem, state, self.floor)
            change = 0.0 if is_done else 1.0
        else:
            if len(state.bounds) == 1:
                state = self._spread(problem, state)
            state, bound = self._sweep(problem, state)
            # Sweeps go back and forth: both directions have to come to rest.
            before = state.bounds[-2] if len(state.bounds) > 2 else np.inf
            change = max(0.0, before - bound) / max(1.0, abs(bound)) if before < np.inf else 1.0
            if self._is_smoothed(problem) and self._heat(state) > _COLDEST:
                change = 1.0
        if bound == -np.inf:
            raise problem.contradiction()
        state = state._replace(best=min(state.best, bound), bounds=(*state.bounds, bound))
        if problem.is_max and (len(state.bounds) % _LOOK == 0 or change < 1e-8):
            state = self._look(problem, state)
            assert state.states is not None  # looking finds some
            if _meets(_score(problem, state.states), state.best):
                change = 0.0
        return state, change

    def _spread(self, problem: Problem, state: GDDState) -> GDDState:
        """After a first sweep with the weights of mini-buckets: let every region have a part."""
        if self.weights != "auto" or self.fixed_weights or state.plan.joins.is_tree:
            return state
        even = state.plan.first_weights(problem.temperatures, "uniform")
        return state._replace(weight=(1 - _EVEN) * state.weight + _EVEN * even)

    def _is_smoothed(self, problem: Problem) -> bool:
        """Whether sums and maxima meet: closed forms of maxima then stop short of the minimum."""
        return self.smooth and not problem.is_max and bool((problem.temperatures == 0).any())

    def _heat(self, state: GDDState) -> float:
        """What stands for temperature zero in the next sweep."""
        return max(_COLDEST, _COOLING ** len(state.bounds))

    def _sweep(self, problem: Problem, state: GDDState) -> tuple[GDDState, float]:
        plan = state.plan
        order = np.arange(len(plan.separators))
        if len(state.bounds) % 2:
            order = order[::-1].copy()
        tables, shifts, weight = state.tables.copy(), state.shifts.copy(), state.weight.copy()
        cold = problem.temperatures[plan.axis_variable] == 0
        if self._is_smoothed(problem):
            even = plan.first_weights(np.ones(len(problem.temperatures)), "uniform")
            weight[cold] = self._heat(state) * even[cold]
        gdd_sweep(
            plan.regions,
            plan.separators,
            plan.edges,
            plan.axis_size,
            plan.maps,
            plan.members,
            plan.entry_start,
            plan.entry_region,
            plan.entry_axis,
            weight,
            tables,
            shifts,
            state.steps,
            state.paces,
            order,
            self.inner,
            0.0 if self.fixed_weights else max(self.floor, 1e-12),
            plan.room_sizes,
        )
        weight[cold] = 0.0
        # From the original tables: rounding does not add up over the sweeps.
        shift_tables(plan.separators, plan.edges, plan.maps, state.base, shifts, tables)
        moved = state._replace(tables=tables, shifts=shifts, weight=weight)
        return moved, _bound(moved)

    def _look(self, problem: Problem, state: GDDState) -> GDDState:
        """Decode, and keep the best states met."""
        found = [s for s in (state.states, *_decodings(problem, state)) if s is not None]
        scores = [_score(problem, s) for s in found]
        return state._replace(states=found[int(np.argmax(scores))])

    def read(self, problem: Problem, state: GDDState, status: Status) -> Result:
        """The bound and, for maximised variables, decoded states with their value."""
        bounds = np.minimum.accumulate(np.array(state.bounds)) if state.bounds else np.empty(0)
        result = Result(self.name, status, log_z=Estimate(state.best, "upper"), trace={"bound": bounds})
        wanted = problem.temperatures == 0
        if not wanted.any() or not problem.maximises_last:
            return result
        states, score = _best_value(problem, state)
        if _meets(score.value, state.best):
            result = replace(result, status=Status.OPTIMAL, log_z=Estimate(state.best, "exact"))
        shown = Assignment(problem.graph.variables, np.where(wanted, states, -1))
        return replace(result, assignment=shown, score=score)


def _meets(score: float, bound: float) -> bool:
    return score >= bound - MET * max(1.0, abs(bound))


def _bound(state: GDDState) -> float:
    plan = state.plan
    terms = np.empty(len(plan.regions))
    return state.constant + float(bound_of(plan.regions, plan.axis_size, state.weight, state.tables, terms))


def _score(problem: Problem, states: np.ndarray) -> float:
    return float(problem.graph.log_scores(states[None, :])[0])


def _decodings(problem: Problem, state: GDDState) -> list[np.ndarray]:
    """Three ways to read states off the tables; variables that are not maximised come last."""
    plan = state.plan
    late = plan.joins.order.order[::-1]
    cold = problem.temperatures[late] == 0
    found = []
    for first in (late[cold], late[cold][::-1]):
        for alone in (True, False):
            order = np.ascontiguousarray(np.concatenate([first, late[~cold]]))
            states = np.full(len(order), -1, dtype=np.int64)
            decode_states(
                plan.single,
                plan.separators,
                plan.edges,
                plan.axis_size,
                plan.axis_variable,
                state.tables,
                order,
                states,
                alone,
            )
            found.append(states)
    return found[1:]  # read alone, the order does not matter


def _best_value(problem: Problem, state: GDDState) -> tuple[np.ndarray, Estimate]:
    """The best decoding and its value; one of positive weight if the search for it succeeds."""
    found = _decodings(problem, state)
    if state.states is not None:
        found.append(state.states)
    cold = problem.temperatures == 0
    distinct = {np.where(cold, s, 0).tobytes(): s for s in found}.values()
    scored = [(s, value_of(problem, s)) for s in distinct]
    states, score = max(scored, key=lambda pair: pair[1].value)
    if score.value == -np.inf:
        repaired = possible_state(problem, states, state.plan.joins.order.order[::-1])
        if repaired is not None:
            states, score = repaired, value_of(problem, repaired)
    return states, score
