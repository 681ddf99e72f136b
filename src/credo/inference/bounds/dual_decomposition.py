r"""Dual decomposition for MAP: an upper bound that shifts between terms make tight, and decoded states.

    L(delta) = sum_i max [ theta_i + sum_a delta_{a,i} ]  +  sum_a max [ theta_a - sum_{i in a} delta_{a,i} ]

bounds the best score for every delta, and min L is the value of the local-polytope relaxation (`lp`).
`updates` chooses how L is lowered; gamma_{a,i}(x_i) is what factor a can reach at x_i, own shift left out:

`auto`         `sequential` until it stalls, then `smoothed` from there.
`sequential`   along an order of the variables and back, each collects all its gamma and hands
               theta_i + sum_a gamma_{a,i} on to the factors with members to come, in equal shares (for
               pairs: TRW-S). Monotone, the fastest in practice; exact in one sweep on forests.
`star`         delta_{a,i} = gamma_{a,i} - ( theta_i + sum_b gamma_{b,i} ) / (N_i + 1). Monotone.
`mplp`         factor by factor, its max-marginals are shared equally by its variables. Monotone.
`smoothed`     star steps on maxima softened to t log sum exp(./t) with falling t: never stalls.
`subgradient`  delta -= eta_t g with falling steps eta_t, where g is 1 at the variable's best state less 1 at
               its state in the factor's best entry. Not monotone: the best bound is kept.

`sequential`, `star` and `mplp` may stall above the minimum, where no single variable or factor can lower
L. The bound is always evaluated with true maxima. States are decoded every few sweeps, and where the
bound meets the score of the best ones, they are proven optimal. A sweep costs (entries of all tables) x
(arity).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, get_args

import numpy as np

from ...core import check
from ...core.records import record
from ...core.result import Result, Status
from ...kernels import dual_decomposition as kernel
from ..problem.base import IterativeAlgorithm, Problem, register
from ..problem.value import meets
from .decomposition import Decomposition, answer

__all__ = ["DualDecomposition", "DualState"]

Updates = Literal["auto", "sequential", "star", "mplp", "smoothed", "subgradient"]

_WORK = 1e7  # table entries looked at between two decodings
_OFTEN = 10  # sweeps between two decodings at most
_STILL = 0.003  # change of a shift, in temperatures, from which a smoothed bound counts as minimised
_PER_HEAT = 200  # sweeps at one temperature at most
_STALLED = 1e-5  # share of the gap by which a sweep must lower the bound to be worth another one


@record("dual-decomposition", rebuilt=("work",))
class DualState(NamedTuple):
    """Shifts, the best bound and the best states so far."""

    work: Decomposition
    shifts: np.ndarray  # flat over edges and states
    bound: float  # lowest so far
    states: np.ndarray  # best so far, among the possible ones
    score: float  # their value
    heat: float  # temperature of the smoothed maxima, 0 for true ones
    age: int  # sweeps at this temperature
    bounds: tuple[float, ...]  # lowest bound after each sweep
    scores: tuple[float, ...]  # best score after each sweep


@register
@dataclass(frozen=True, kw_only=True)
class DualDecomposition(IterativeAlgorithm[DualState]):
    """Lower the bound on the best score by shifts between factors and variables."""

    name: ClassVar[str] = "dual-decomposition"
    promises: ClassVar[frozenset[str]] = frozenset({"upper", "monotone"})
    updates: Updates = "auto"  # how the bound is lowered
    first_step: float = 1.0  # of the subgradient, in standard deviations of the log tables
    decay: float = 0.5  # power by which its steps fall with the number of sweeps

    def __post_init__(self) -> None:
        """Check the options."""
        check.one_of("updates", self.updates, get_args(Updates))
        check.at_least("first_step", self.first_step, 0)
        check.in_range("decay", self.decay, 0, 1.0 + 1e-9)

    def start(self, problem: Problem, rng: np.random.Generator) -> DualState:
        """No shifts."""
        work = Decomposition.of(problem)
        shifts = work.no_shifts()
        states, score = work.decode(shifts)
        heat = _scale(work) if self.updates in ("smoothed", "subgradient") else 0.0
        return DualState(work, shifts, work.bound(shifts), states, score, heat, 0, (), ())

    def step(self, problem: Problem, state: DualState) -> tuple[DualState, float]:
        """One sweep."""
        state, changes = self.advance(problem, state, 1, 0.0)
        return state, changes[-1]

    def advance(
        self, problem: Problem, state: DualState, count: int, tol: float
    ) -> tuple[DualState, list[float]]:
        """A few sweeps, then states are decoded; a proven optimum counts as no change."""
        work = state.work
        entries = int((work.terms.table_size * np.diff(work.terms.scope_start)).sum())
        changes: list[float] = []
        state = state._replace(shifts=state.shifts.copy())
        for _ in range(min(count, _OFTEN, max(1, int(_WORK / max(entries, 1))))):
            state, change = self._sweep(state)
            changes.append(change)
            if change < tol:
                break
        state = _decode(state)
        if meets(state.score, state.bound):
            changes[-1] = 0.0
        elif self.updates == "auto" and state.heat == 0.0:
            state, changes[-1] = _leave_stall(state, changes[-1], tol)
        bounds, scores = state.bounds, (*state.scores, *[state.score] * len(changes))
        return state._replace(bounds=(*bounds[:-1], state.bound), scores=scores), changes

    def _sweep(self, state: DualState) -> tuple[DualState, float]:
        """One sweep in place, the bound after it, and its relative fall."""
        work, heat = state.work, state.heat
        moved = self._move(state)
        best = min(state.bound, work.bound(state.shifts))
        change = (state.bound - best) / max(1.0, abs(best))
        if self.updates == "subgradient":
            change = moved
        elif heat > 0.0:
            change = heat * _logs(work) / max(1.0, abs(best))
            cool = moved < _STILL * heat or state.age >= _PER_HEAT
            state = state._replace(heat=heat / 2 if cool else heat, age=0 if cool else state.age + 1)
        return state._replace(bound=best, bounds=(*state.bounds, best)), change

    def _move(self, state: DualState) -> float:
        """Change the shifts in place; by how much, where that is asked for."""
        work, shifts, turn, heat = state.work, state.shifts, len(state.bounds), state.heat
        terms, node = work.terms, work.node
        if self.updates == "subgradient":
            slope = np.empty_like(shifts)
            kernel.subgradient(terms, node, shifts, slope)
            length = self.first_step * heat / (1 + turn) ** self.decay
            shifts -= length * slope
            return length * float(np.abs(slope).max(initial=0.0))
        if self.updates == "mplp":
            kernel.mplp_sweep(terms, node, shifts, turn % 2 == 1)
        elif self.updates == "star" or heat > 0.0:
            order = work.plan.order[:: -1 if turn % 2 else 1].copy()
            return float(kernel.star_sweep(terms, node, shifts, order, heat))
        else:
            work.sweep(shifts, trust=turn > 0)
        return 0.0

    def read(self, problem: Problem, state: DualState, status: Status) -> Result:
        """The lowest bound and the best states."""
        if state.score == -np.inf:
            found = state.work.possible(state.shifts)
            if found is not None:
                state = state._replace(states=found[0], score=found[1])
        trace = {"bound": np.array(state.bounds), "score": np.array(state.scores)}
        states = state.work.original(state.states)
        return answer(self.name, problem, status, state.bound, states, trace)


def _decode(state: DualState) -> DualState:
    """The state with the better of its states and newly decoded ones.

    Shifts of smoothed maxima and of subgradients lie beside the corners of the bound: a monotone sweep on
    a copy moves them there, which tightens the bound and sharpens the decoding.
    """
    work, shifts, bound = state.work, state.shifts, state.bound
    if state.heat > 0.0:
        shifts = shifts.copy()
        work.sweep(shifts, trust=False)
        bound = min(bound, work.bound(shifts))
    for backwards in (False, True):
        states, score = work.decode(shifts, backwards=backwards)
        if score > state.score:
            state = state._replace(states=states, score=score)
    if state.score == -np.inf and (found := work.possible(shifts)) is not None:
        state = state._replace(states=found[0], score=found[1])
    return state._replace(bound=bound)


def _leave_stall(state: DualState, change: float, tol: float) -> tuple[DualState, float]:
    """Go over to smoothed maxima where a sweep gains next to nothing of the gap."""
    gap = state.bound - state.score
    worth = _STALLED * gap / max(1.0, abs(state.bound))
    if len(state.work.graph.scope) == 0 or not change < max(tol, worth if np.isfinite(worth) else tol):
        return state, change
    heat = _scale(state.work)
    if np.isfinite(gap):
        heat = min(heat, gap / _logs(state.work))
    return state._replace(heat=heat), max(change, 2 * tol)


def _scale(work: Decomposition) -> float:
    """Spread of the finite log tables."""
    tables = work.graph.log_tables
    finite = tables[np.isfinite(tables)]
    return max(float(finite.std()), 1e-6) if len(finite) else 1.0


def _logs(work: Decomposition) -> float:
    """What smoothing adds to the bound at most, per unit of temperature."""
    return float(np.log(work.terms.sizes).sum() + np.log(work.terms.table_size).sum())
