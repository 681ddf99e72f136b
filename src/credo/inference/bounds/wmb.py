"""Weighted mini-bucket: mini-bucket elimination whose costs and weights are tuned by beliefs.

The mini-buckets r of variable i take powered sums of weight w_r >= 0 with sum_r w_r = t_i (Hoelder):

    sum^{t_i}_x prod_r f_r(x)  <=  prod_r sum^{w_r}_x f_r(x),

a lower bound instead if one weight is positive and the others negative (reverse Hoelder). The bound holds
for every weights and for every way to shift costs among the mini-buckets, so it may be read at any
time. One iteration is a forward pass (messages; shifts on the way; the bound) and a backward pass (beliefs
b_r, which are the bound's derivative):

    fixed-point   theta_r += step w_r ( sum_q (w_q / t) log b_q - log b_r )      on shared variables
    gradient      theta_r -= step t ( b_r - mean_q b_q )
    weights       w_r <- w_r exp( -rate w_r ( H_r - Hbar ) ),  normalised to t;   Hbar = sum_q w_q H_q / t

with H_r the entropy of i given the other variables of r, and max-marginals, averaged, in place of w log b
where the temperature is zero. At a fixed point all mini-buckets agree and the bound is stationary.

`damping` is the step as a fraction: 1 goes all the way to agreement. Full steps may overshoot, and with sums
and maxima mixed they usually do. With `adapt`, a step that loosens the bound is taken back and halved. The
bound is not smooth where there are maxima: when no step helps there, a few are forced. Without it
the raw iteration runs. Either way `trace["bound"]` shows what every iteration tried, and the answer is read
from the best of them. Exact if no bucket is split (`ibound` at least the width), so on trees.
A bound of -inf proves a contradiction. `factor_marginals` are the derivative of the bound by the log tables
with these weights and shifts; where no bucket is split, that of the powered sum itself. Cost per iteration: a
few passes over all table entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from ...core import check
from ...core.records import record
from ...core.result import Estimate, Marginals, Result, Status
from ..problem.base import IterativeAlgorithm, Problem, register
from .bucket_choice import tightest_passes
from .bucket_passes import Bound, BucketPasses, Tables, finish, first_weights, heat_after, one_state
from .bucket_weights import reweigh
from .mini_bucket import why_not_buckets

__all__ = ["WMB", "WMBState"]

_SMALLEST = 1e-3  # share of the damping below which an adapted step has nothing to gain
_ROUNDING = 1e-13  # relative rise of the bound that is no rise
_KICKS, _KICK = 4, 0.3  # forced steps out of the dead ends of maxima, and their share of the damping
_GROWTH = 1.5  # of the step after one that helped


@record("wmb", rebuilt=("passes",))
class WMBState(NamedTuple):
    """Where an iteration stands."""

    passes: BucketPasses  # mini-buckets and layout
    tables: Tables  # costs, weights and messages now
    context: np.ndarray | None  # beliefs of the parents, None before the first backward pass
    entropy: np.ndarray | None  # of each mini-bucket's variable given its others
    step: float  # share of the way to agreement that is tried next
    best: Tables  # the tightest bound so far
    changes: tuple[float, ...]  # relative changes of the last iterations
    bounds: np.ndarray  # the raw bound after each iteration
    forced: bool = False  # whether the next step is taken even if it loosens the bound
    kicks: int = 0  # how many were


@register
@dataclass(frozen=True, kw_only=True)
class WMB(IterativeAlgorithm[WMBState]):
    """Forward passes bound, backward passes tell how to shift costs and weights."""

    name: ClassVar[str] = "wmb"
    promises: ClassVar[frozenset[str]] = frozenset({"exact on trees", "upper"})
    slopes: ClassVar[bool] = True
    ibound: int | None = None  # variables of a cluster besides its own; None: as many as fit
    max_entries: int = 2**17  # most entries of a joined table
    bound: Bound = "upper"  # which side
    update: Literal["fixed-point", "gradient"] = "fixed-point"  # how costs are shifted
    damping: float = 1.0  # share of the way to agreement a step goes at most
    adapt: bool = True  # take back and halve steps that loosen the bound
    weights: Literal["optimised", "even"] = "optimised"  # how temperatures are split
    rate: float = 5.0  # of the weight updates
    floor: float = 0.002  # least share of a weight: zero would be absorbing

    def __post_init__(self) -> None:
        """Check the options."""
        if self.ibound is not None:
            check.whole("ibound", self.ibound, 0)
        check.whole("max_entries", self.max_entries, 1)
        check.one_of("bound", self.bound, ["upper", "lower"])
        check.one_of("update", self.update, ["fixed-point", "gradient"])
        check.in_range("damping", self.damping, 0, 1 + 1e-12)
        check.one_of("weights", self.weights, ["optimised", "even"])
        check.at_least("rate", self.rate, 0)
        check.in_range("floor", self.floor, 0, 1)

    @property
    def remedy(self) -> str:
        """None: steps that loosen the bound are taken back, and `damping` is the share of a step."""
        return ""

    def why_not(self, problem: Problem) -> str | None:
        """No lower bounds on maxima."""
        return why_not_buckets(problem, self.bound)

    def start(self, problem: Problem, rng: np.random.Generator) -> WMBState:
        """Even weights, no shifts."""
        passes = tightest_passes(problem, self.ibound, self.max_entries, self.bound)
        tables = passes.evaluate(passes.theta, first_weights(passes, self.bound, split=True))
        if tables.value == -np.inf and self.bound == "upper":
            raise problem.contradiction()
        return WMBState(passes, tables, None, None, self.damping, tables, (), np.empty(0))

    def step(self, problem: Problem, state: WMBState) -> tuple[WMBState, float]:
        """One forward pass with shifts and the backward pass after it."""
        passes, old = state.passes, state.tables
        if passes.is_exact or old.value == -np.inf:
            return state._replace(bounds=np.append(state.bounds, old.value)), 0.0
        weight = old.weight
        if self.weights == "optimised" and state.entropy is not None:
            weight = reweigh(
                passes, weight, state.entropy, self.rate * state.step, self.floor, lower=self.bound == "lower"
            )
        message = None if state.context is None else old.message
        new, _ = passes.forward(
            old.theta, weight, message, state.context, state.step, self.bound,
            gradient=self.update == "gradient",
        )  # fmt: skip
        if new.value == -np.inf and self.bound == "upper":
            raise problem.contradiction()
        gain = old.value - new.value if self.bound == "upper" else new.value - old.value
        state = state._replace(bounds=np.append(state.bounds, new.value))
        if self.adapt and not state.forced and not gain >= -_ROUNDING * max(1.0, abs(old.value)):
            return self._take_back(state)
        change = abs(gain) / max(1.0, abs(new.value)) if np.isfinite(new.value) else np.inf
        return self._accept(state, new, change)

    def _take_back(self, state: WMBState) -> tuple[WMBState, float]:
        """Stay, and try half the step next; with nowhere to go, force a step a few times."""
        if state.context is None:
            # Matching before the first beliefs may loosen the bound; with them it cannot if steps are small.
            context, entropy, _ = state.passes.backward(state.tables, heat_after(0))
            return state._replace(context=context, entropy=entropy), 1.0
        step = state.step / 2
        if step >= _SMALLEST * self.damping:
            return state._replace(step=step), max((1.0, *state.changes))
        if state.kicks < _KICKS and (state.passes.temperatures == 0).any():
            return state._replace(step=_KICK * self.damping, forced=True, kicks=state.kicks + 1), 1.0
        return state._replace(step=step), 0.0

    def _accept(self, state: WMBState, new: Tables, change: float) -> tuple[WMBState, float]:
        """Go on from the new tables."""
        context, entropy, _ = state.passes.backward(new, heat_after(len(state.bounds)))
        sign = 1.0 if self.bound == "upper" else -1.0
        best = new if sign * new.value < sign * state.best.value else state.best
        step = min(self.damping, state.step * _GROWTH) if self.adapt else state.step
        changes = (*state.changes[-2:], change)
        state = state._replace(
            tables=new, context=context, entropy=entropy, step=step, best=best, changes=changes, forced=False
        )
        return state, max(changes) if len(changes) == 3 else max((1.0, *changes))

    def read(self, problem: Problem, state: WMBState, status: Status) -> Result:
        """The tightest bound, with marginals or an assignment from the same tables."""
        best, passes = state.best, state.passes
        value = best.value
        if self.bound == "lower":
            value = max(value, one_state(problem, passes, best))
        marginals = None
        if problem.is_sum and best.value > -np.inf:
            marginals = Marginals(problem.graph.variables, passes.backward(best, 1.0)[2])
        found = Result(
            self.name,
            status,
            log_z=Estimate(value, self.bound),
            marginals=marginals,
            trace={"bound": state.bounds},
        )
        return finish(problem, passes, best, found)
