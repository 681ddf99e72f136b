r"""The tree-reweighted bound in its primal form: an upper bound whenever it is stopped.

With forests T of weight w_T (positive, summing to 1), rho_a = sum_{T with a} w_T, and any
lambda with sum_T w_T lambda_{T,i} = 0,

    log Z  <=  L = sum_T w_T log Z_T,
    log Z_T = log sum_x exp( sum_i [ theta_i + lambda_{T,i} ] (x_i) + sum_{a in T} theta_a(x_a) / rho_a ),

because log Z is convex and the forests average to the model. L is minimised over lambda and over
the weights by L-BFGS with backtracking, so it never rises; each evaluation is one exact pass per
forest. Shifting only the variables' terms loses nothing: at the minimum all forests agree on the
variables' marginals, hence (same tables, same ends) on the factors' too, and L equals the value of
`trw` at the same rho. Gradients, with P_T the marginals of T and P their average:

    dL/dlambda_{T,i} = w_T ( P_{T,i} - P_i ),
    dL/dw_T          = log Z_T - <P, lambda_T> - sum_{a in T} <P_a, theta_a> / rho_a.

With all variables maximised the same shifts bound the best score: forests maximise instead of
summing, and the minimisation runs on smoothed maxima  t log sum exp(./t)  with falling t.
Any arity; the forests are sets of factors without a cycle. Exact on trees.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from ...core import check
from ...core.factor_graph import FactorGraph
from ...core.records import record
from ...core.result import Estimate, FactorMarginals, Marginals, Result, Status
from ...kernels.tables import best_states
from ...optimise.lbfgs import Descent, Function, Point, descend
from ...structures.spanning_trees import Forests, covering_forests, random_forests
from ..problem.base import IterativeAlgorithm, Problem, register
from ..problem.forest import ForestPasses
from .decomposition import answer
from .possible import evaluate_states

__all__ = ["TRWPrimal"]

_FLOOR = 0.02  # share of the weights that stays equal: no forest vanishes, so no rho does
_COLDEST = 1e-3  # temperature at which smoothed maxima stop being sharpened
_PER_HEAT = 40  # steps at one temperature at most


class _PrimalBound:
    """What stays the same while the bound is minimised."""

    def __init__(self, graph: FactorGraph, forests: Forests) -> None:
        self.passes = ForestPasses(graph)
        self.forests = forests
        self.members = forests.members.astype(np.float64)
        self.orders = [self.passes.order(row) for row in forests.members]
        self.theta = self.passes.dense_tables()
        self.finite = np.where(np.isneginf(self.theta), 0.0, self.theta)  # for <P, theta>, where P is 0
        self.shape = (len(forests), len(self.passes.node))


@record("trw-primal value")
class _Value(NamedTuple):
    """One evaluation of the bound."""

    bound: float
    gradient: np.ndarray  # with respect to the point
    weights: np.ndarray  # of the forests
    states: np.ndarray  # average marginals per flat state
    tables: np.ndarray  # average factor marginals, dense
    disagreement: float  # largest difference of a forest's marginal from the average


@record("trw-primal", rebuilt=("work",))
class PrimalState(NamedTuple):
    """A point, its value, and what L-BFGS remembers."""

    work: _PrimalBound  # forests and index arrays
    descent: Descent  # shifts per forest and state, then one logit per forest; and what L-BFGS remembers
    heat: float  # temperature of the smoothed maxima, 1 for sums
    age: int  # steps taken at this temperature
    best: float  # lowest bound on the maximum so far
    bounds: np.ndarray  # the bound after each step

    @property
    def point(self) -> np.ndarray:
        """Shifts and logits."""
        return self.descent.here.w

    @property
    def value(self) -> _Value:
        """The bound there."""
        found: _Value = self.descent.here.more[0]
        return found


@register
@dataclass(frozen=True, kw_only=True)
class TRWPrimal(IterativeAlgorithm[PrimalState]):
    """Minimise an explicit convex combination of forest log partition functions."""

    name: ClassVar[str] = "trw-primal"
    promises: ClassVar[frozenset[str]] = frozenset({"exact on trees", "upper", "monotone"})
    slopes: ClassVar[bool] = True
    trees: int = 0  # random forests (more if needed to cover); 0: a few deterministic covering ones
    weights: Literal["optimised", "equal"] = "optimised"  # of the forests

    def __post_init__(self) -> None:
        """Check the options."""
        check.whole("trees", self.trees, 0)
        check.one_of("weights", self.weights, ["optimised", "equal"])

    def start(self, problem: Problem, rng: np.random.Generator) -> PrimalState:
        """No shifts, equal weights: theta split by appearance."""
        graph = problem.graph
        forests = random_forests(graph, self.trees, rng) if self.trees else covering_forests(graph)
        work = _PrimalBound(graph, forests)
        if work.passes.is_impossible:
            raise problem.contradiction()
        point = np.zeros(len(forests) * (work.shape[1] + 1))
        heat = (
            1.0 if problem.is_sum else max(1.0, float(np.ptp(work.finite)) / 4 if len(work.finite) else 0.0)
        )
        first = Descent(Point.at(self._function(problem, work, heat), point))
        best = first.here.value if problem.is_sum else self._evaluate(problem, work, point, 0.0).bound
        return PrimalState(work, first, heat, 0, best, np.empty(0))

    def step(self, problem: Problem, state: PrimalState) -> tuple[PrimalState, float]:
        """One L-BFGS step that lowers the bound; the change is what the forests still disagree by."""
        function = self._function(problem, state.work, state.heat)
        moved = descend(function, state.descent, search="halving") or state.descent
        # Where rounding hides any decrease, nothing is left to gain.
        stuck = state.value.bound - moved.here.value <= 4e-16 * abs(state.value.bound)
        state = state._replace(descent=moved, age=state.age + 1)
        change = 0.0 if stuck else self._left(state)
        if not problem.is_sum:
            state, change = self._cool(problem, state, change)
        best = state.value.bound if problem.is_sum else state.best
        return state._replace(best=best, bounds=np.append(state.bounds, best)), change

    def _left(self, state: PrimalState) -> float:
        slope = state.value.gradient[state.work.shape[0] * state.work.shape[1] :]
        return max(state.value.disagreement, float(np.abs(slope).max(initial=0.0)))

    def _cool(self, problem: Problem, state: PrimalState, change: float) -> tuple[PrimalState, float]:
        """Sharpen the maxima once this temperature is done; the change is zero after the last one."""
        if change > 1e-2 and state.age < _PER_HEAT:
            return state, max(change, 1.0)
        exact = self._evaluate(problem, state.work, state.point, 0.0).bound
        state = state._replace(best=min(state.best, exact))
        if state.heat <= _COLDEST or len(state.work.orders) == 1:
            return state, 0.0
        heat = state.heat / 2
        descent = Descent(Point.at(self._function(problem, state.work, heat), state.point))
        return state._replace(heat=heat, age=0, descent=descent), 1.0

    def _function(self, problem: Problem, work: _PrimalBound, heat: float) -> Function:
        """What L-BFGS descends."""

        def evaluate(point: np.ndarray) -> tuple[float, np.ndarray, _Value]:
            value = self._evaluate(problem, work, point, heat)
            return value.bound, value.gradient, value

        return evaluate

    def _evaluate(self, problem: Problem, work: _PrimalBound, point: np.ndarray, heat: float) -> _Value:
        """The bound at a point; gradient and marginals are those of the given temperature."""
        count, size = work.shape
        shifts, logits = point[: count * size].reshape(count, size), point[count * size :]
        share = np.exp(logits - logits.max())
        share /= share.sum()
        w = (1 - _FLOOR) * share + _FLOOR / count
        rho = np.minimum(w @ work.members, 1.0)
        centred = shifts - w @ shifts
        heats = heat if heat > 0 else 1.0
        log_z, states = np.empty(count), np.empty((count, size))
        tables = np.zeros(len(work.theta))
        for t in range(count):
            found = work.passes.run(work.orders[t], work.passes.node + centred[t], 1 / rho, heat=heat)
            if found.value == -np.inf:
                raise problem.contradiction()
            log_z[t] = found.value
            states[t] = np.exp(found.belief / heats)
            tables += w[t] * np.exp(found.joint / heats)
        average = w @ states
        tables /= np.repeat(rho, np.diff(work.passes.start))
        apart = w[:, None] * (states - average)
        energy = np.zeros(len(rho))
        if len(rho):
            energy = np.add.reduceat(np.append(tables * work.finite, 0.0), work.passes.start[:-1])
        by_weight = log_z - shifts @ average - work.members @ (energy / rho)
        turn = (1 - _FLOOR) * share * (by_weight - share @ by_weight)
        if self.weights == "equal":
            turn = np.zeros(count)
        return _Value(
            work.passes.constant + float(w @ log_z),
            np.concatenate([apart.ravel(), turn]),
            w,
            average,
            tables,
            float(np.abs(states - average).max(initial=0.0)),
        )

    def read(self, problem: Problem, state: PrimalState, status: Status) -> Result:
        """The bound, and average marginals or the states they favour."""
        graph, value, trace = problem.graph, state.value, {"bound": state.bounds}
        if problem.is_sum:
            tables = state.work.passes.fill(value.tables, value.states)
            return Result(
                self.name,
                status,
                log_z=Estimate(state.best, "upper"),
                marginals=Marginals(graph.variables, value.states),
                factor_marginals=FactorMarginals(graph, tables),
                trace=trace,
            )
        favoured = best_states(graph.variables.state_start, value.states)
        states, _ = evaluate_states(problem, favoured, np.arange(len(favoured)))
        return answer(self.name, problem, status, state.best, states, trace)
