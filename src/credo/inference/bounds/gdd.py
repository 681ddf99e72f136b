r"""Generalised dual decomposition: one bound for sums, maxima and everything between, lowered monotonically.

    Phi_tau  <=  L(delta, w) = sum_s  log sum^{w^s}_{x_s}  exp[ theta_s + sum_{c around s} delta_{s,c} (x_s) ]
                             + sum_c  log sum^{w^c}_{x_c}  exp[ theta_c - sum_{s in c} delta_{s,c} (x_s) ]

for any shifts delta and any weights w >= 0 whose sum over the regions that hold variable i is its
temperature tau_i; every powered sum follows the global order of elimination (Hoelder's inequality). The
clusters c are the factors (`ibound` 0, separators s the variables) or mini-buckets of `ibound` + 1 variables:
more work per sweep, a tighter bound, exact once `ibound` reaches the width of the order. All temperatures
zero: dual decomposition; all one, on pairs: tree reweighting.

`updates="passes"` keeps to weights that are zero except where a variable is eliminated. At the minimum this
loses nothing, and most shifts then have their best value in closed form, the messages of a forward
pass (`gdd_passes.py`). A sweep is a forward and a backward pass that bring the clusters of every variable to
agreement, and a quasi-Newton step on all remaining shifts and weights with its own two passes, so it costs
about two iterations of weighted mini-buckets. Each is taken only if the bound falls.

`updates="blocks"` visits every separator, in the order of elimination and back. Its shifts are set to the
exact minimum of its block where what follows it in its clusters is maximised, and moved by a few line
searches otherwise (`kernels/gdd_shifts.py`). Then each variable shares out its temperature anew by an
exponentiated gradient

    w_k <- tau_i w_k exp( -eta (H_k - Hbar_i) ) / normaliser,     H_k its conditional entropy in region k,

(`kernels/gdd_sweeps.py`). A step is taken only if the terms it touches do not rise. Separators that share no
cluster do not disturb each other: large graphs are swept colour by colour, on all cores, and the result does
not depend on how many there are. `updates="joint"` runs L-BFGS on all shifts and weights at once instead,
`updates="newton"` alternates a Newton step on all shifts of a small model with those of the weights
(`gdd_newton.py`). These two have converged when the conditions of a minimum hold to within `tol`.

The bound holds whenever a run is stopped, and the one reported never rises: `trace["bound"]`. Where there are
maxima the bound has kinks at which every method stops; with `smooth` maxima stand at a small temperature,
which cools down, and the lowest true bound counts. `trace["raw"]` shows the true bound after each sweep.
Zeros stay in the tables and shifts stay finite. For maximised variables the states are decoded, one variable
after another, and scored by their own value: a lower bound beside the upper.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from ...core import check
from ...core.records import record
from ...core.result import Assignment, Estimate, Marginals, Result, Status
from ...kernels.gdd import bound_of, project_zeros
from ...kernels.gdd_decode import decode_states
from ..problem.base import IterativeAlgorithm, Problem, register
from ..problem.value import meets, value_of
from .gdd_blocks import bound_after, share_out, sweep_blocks
from .gdd_joint import JointDescent, joint_start, joint_step
from .gdd_newton import kkt_residual, newton_shifts, refuse_large
from .gdd_passes import Passing, pass_start, pass_step
from .gdd_plan import GDDPlan, make_plan
from .possible import evaluate_states

__all__ = ["GDD", "GDDState"]

_EVEN = 0.2  # part of every temperature that weights=auto spreads evenly after its first sweep
_COOLING, _COLDEST = 0.8, 1e-3  # of smoothed maxima: factor per sweep, and where it ends
_LOOK = 10  # sweeps between two looks at the score, where all variables are maximised


@record("gdd blocks", rebuilt=("plan", "base"))
class GDDState(NamedTuple):
    """Shifts and weights, and what they amount to."""

    plan: GDDPlan  # who touches whom
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
    descent: JointDescent | None  # of updates=joint
    residual: float = np.inf  # of the conditions of a minimum, where they are looked at


@register
@dataclass(frozen=True, kw_only=True)
class GDD(IterativeAlgorithm[GDDState | Passing]):
    """Lower a bound on any powered sum by shifting costs and sharing out temperatures."""

    name: ClassVar[str] = "gdd"
    promises: ClassVar[frozenset[str]] = frozenset({"upper", "monotone"})
    slopes: ClassVar[bool] = True
    ibound: int | None = None  # clusters of ibound + 1 variables; 0: the factors; None: as time allows
    updates: Literal["passes", "blocks", "joint", "newton"] = "passes"  # mini-buckets, blocks, or all at once
    weights: Literal["auto", "matched", "uniform"] = "auto"  # first ones of blocks: of mini-buckets, or even
    fixed_weights: bool = False  # keep the first weights
    floor: float = 0.002  # share of its temperature that every region that may have some keeps
    inner: int = 5  # steps of a block that has no closed form; of the weights, for one of newton
    smooth: bool = True  # let maxima start as powered sums that cool down
    max_entries: int = 1 << 20  # entries of a cluster's table beyond which factors are not joined

    def __post_init__(self) -> None:
        """Check the options."""
        if self.ibound is not None:
            check.whole("ibound", self.ibound, 0)
        check.one_of("updates", self.updates, ["passes", "blocks", "joint", "newton"])
        check.one_of("weights", self.weights, ["auto", "matched", "uniform"])
        check.in_range("floor", self.floor, 0, 0.5)
        check.whole("inner", self.inner, 1)
        check.whole("max_entries", self.max_entries, 1)

    def why_not(self, problem: Problem) -> str | None:
        """Newton steps need second derivatives, which maxima have only while they are smooth."""
        if self.updates == "newton" and not self.smooth and (problem.temperatures == 0).any():
            return "updates=newton needs smooth maxima; leave out smooth=false, or use updates=blocks"
        return None

    def start(self, problem: Problem, rng: np.random.Generator) -> GDDState | Passing:
        """No shifts."""
        if self.updates == "passes":
            return pass_start(
                problem,
                self.ibound,
                self.max_entries,
                smooth=self.smooth,
                free=not self.fixed_weights,
                floor=self.floor,
            )
        plan = make_plan(problem, self.ibound or 0, self.max_entries, smooth=self._is_smoothed(problem))
        if self.updates == "newton":
            refuse_large(plan)
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
        if self.updates == "newton":
            state = self._spread(problem, state)
        if self.updates == "joint":
            state = state._replace(
                descent=joint_start(problem, state, self.floor, free=not self.fixed_weights)
            )
        return state

    def _rule(self, problem: Problem, plan: GDDPlan) -> Literal["matched", "uniform"]:
        if self.weights == "auto":
            alone = problem.is_sum and not self.ibound and not plan.joins.is_tree
            return "uniform" if alone else "matched"
        return self.weights

    def step(self, problem: Problem, state: GDDState | Passing) -> tuple[GDDState | Passing, float]:
        """One sweep, or one joint step; the change is what the bound fell by, relative to its size."""
        if isinstance(state, Passing):
            passed, change = pass_step(problem, state)
            if problem.is_max and (len(passed.bounds) % _LOOK == 0 or change < 1e-8):
                passed = _look_again(problem, passed)
                assert passed.states is not None  # looking finds some
                if meets(_score(problem, passed.states), passed.best.value):
                    change = 0.0
            return passed, change
        return self._block_step(problem, state)

    def _block_step(self, problem: Problem, state: GDDState) -> tuple[GDDState, float]:
        if state.descent is not None:
            state, bound, is_done = joint_step(problem, state, self.floor)
            is_smooth = not (problem.temperatures == 0).any()
            change = 0.0 if is_done else self._residual(state, state.weight) if is_smooth else 1.0
        else:
            if len(state.bounds) == 1 and self.updates == "blocks":
                state = self._spread(problem, state)
            state, bound = self._sweep(problem, state)
            # Sweeps go back and forth: both directions have to come to rest.
            before = state.bounds[-2] if len(state.bounds) > 2 else np.inf
            change = max(0.0, before - bound) / max(1.0, abs(bound)) if before < np.inf else 1.0
            if self.updates == "newton":
                change = state.residual
            if self._is_smoothed(problem) and self._heat(state) > _COLDEST:
                change = 1.0
        if bound == -np.inf:
            raise problem.contradiction()
        state = state._replace(best=min(state.best, bound), bounds=(*state.bounds, bound))
        if problem.is_max and (len(state.bounds) % _LOOK == 0 or change < 1e-8):
            state = self._look(problem, state)
            assert state.states is not None  # looking finds some
            if meets(_score(problem, state.states), state.best):
                change = 0.0
        return state, change

    def _spread(self, problem: Problem, state: GDDState) -> GDDState:
        """After a first sweep with the weights of mini-buckets: let every region have a part.

        Newton steps begin so, with any weights: second derivatives need all of them positive.
        """
        if self.updates == "blocks" and (
            self.weights != "auto" or self.fixed_weights or state.plan.joins.is_tree
        ):
            return state
        even = state.plan.first_weights(problem.temperatures, "uniform")
        return state._replace(weight=(1 - _EVEN) * state.weight + _EVEN * even)

    def _is_smoothed(self, problem: Problem) -> bool:
        """Whether sums and maxima meet: closed forms of maxima then stop short of the minimum."""
        cold = bool((problem.temperatures == 0).any())
        return cold and self.smooth and (self.updates == "newton" or not problem.is_max)

    def _heat(self, state: GDDState) -> float:
        """What stands for temperature zero in the next sweep."""
        return max(_COLDEST, _COOLING ** len(state.bounds))

    def _sweep(self, problem: Problem, state: GDDState) -> tuple[GDDState, float]:
        plan = state.plan
        tables, shifts, weight = state.tables.copy(), state.shifts.copy(), state.weight.copy()
        steps, paces = state.steps.copy(), state.paces.copy()
        cold = problem.temperatures[plan.axis_variable] == 0
        if self._is_smoothed(problem):
            even = plan.first_weights(np.ones(len(problem.temperatures)), "uniform")
            weight[cold] = self._heat(state) * even[cold]
        residual, floor = np.inf, 0.0 if self.fixed_weights else max(self.floor, 1e-12)
        changing = (weight, tables, shifts, steps, paces)
        if self.updates == "newton":
            shifts[:] = newton_shifts(plan, state.base, shifts, weight)
            bound_after(plan, state.base, shifts, weight, tables)
            if floor > 0:
                share_out(plan, changing, floor, self.inner)
            residual = self._residual(state._replace(tables=tables), weight)
        else:
            sweep_blocks(plan, changing, self.inner, floor, backwards=len(state.bounds) % 2 == 1)
        weight[cold] = 0.0
        bound = state.constant + bound_after(plan, state.base, shifts, weight, tables)
        state = state._replace(
            tables=tables, shifts=shifts, weight=weight, steps=steps, paces=paces, residual=residual
        )
        return state, bound

    def _residual(self, state: GDDState, weight: np.ndarray) -> float:
        return kkt_residual(state.plan, weight, state.tables, self.floor, free=not self.fixed_weights)

    def _look(self, problem: Problem, state: GDDState) -> GDDState:
        """Decode, and keep the best states met."""
        found = [s for s in (state.states, *_decodings(problem, state)) if s is not None]
        scores = [_score(problem, s) for s in found]
        return state._replace(states=found[int(np.argmax(scores))])

    def read(self, problem: Problem, state: GDDState | Passing, status: Status) -> Result:
        """The bound and, for maximised variables, decoded states with their value."""
        raw = np.array(state.bounds)
        best = state.best.value if isinstance(state, Passing) else state.best
        trace = {"bound": np.minimum.accumulate(raw), "raw": raw}
        result = Result(self.name, status, log_z=Estimate(best, "upper"), trace=trace)
        if isinstance(state, Passing):
            result = _more_of_passes(problem, state, result)
        else:
            slopes = state.plan.factor_marginals(problem.graph, state.weight, state.tables)
            result = replace(result, factor_marginals=slopes)
        wanted = problem.temperatures == 0
        if not wanted.any() or not problem.maximises_last:
            return result
        if isinstance(state, Passing):
            found, order = _pass_decodings(state), state.plan.hard.buckets.order
        else:
            found, order = _decodings(problem, state), state.plan.joins.order.order
        if state.states is not None:
            found.append(state.states)
        states, score = _best_value(problem, found, order[::-1])
        if meets(score.value, best) and result.status is not Status.EXACT:
            result = replace(result, status=Status.OPTIMAL, log_z=Estimate(best, "exact"))
        shown = Assignment(problem.graph.variables, np.where(wanted, states, -1))
        return replace(result, assignment=shown, score=score)


def _more_of_passes(problem: Problem, state: Passing, result: Result) -> Result:
    """Marginals of sums; no bucket split: nothing was lost."""
    hard = state.plan.hard
    result = replace(result, factor_marginals=hard.factor_marginals(problem.graph, state.best))
    if hard.is_exact:
        result = replace(result, status=Status.EXACT, log_z=Estimate(state.best.value, "exact"))
    if problem.is_sum:
        marginals = Marginals(problem.graph.variables, hard.backward(state.best, 1.0)[2])
        result = replace(result, marginals=marginals)
    return result


def _pass_decodings(state: Passing) -> list[np.ndarray]:
    hard = state.plan.hard
    return [hard.decode(state.best.psi), hard.decode(state.tables.psi)]


def _look_again(problem: Problem, state: Passing) -> Passing:
    """Decode, and keep the best states met."""
    found = [s for s in (state.states, *_pass_decodings(state)) if s is not None]
    scores = [_score(problem, s) for s in found]
    return state._replace(states=found[int(np.argmax(scores))])


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


def _best_value(problem: Problem, found: list[np.ndarray], late: np.ndarray) -> tuple[np.ndarray, Estimate]:
    """The best decoding and its value; one of positive weight if the search for it succeeds."""
    cold = problem.temperatures == 0
    distinct = {np.where(cold, s, 0).tobytes(): s for s in found}.values()
    scored = [(s, value_of(problem, s)) for s in distinct]
    states, score = max(scored, key=lambda pair: pair[1].value)
    return evaluate_states(problem, states, late) if score.value == -np.inf else (states, score)
