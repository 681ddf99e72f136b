"""Passes of generalised dual decomposition: valid and monotone at every sweep, as tight as its relatives."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo.core.errors import ZeroProbabilityError
from credo.core.factor_graph import FactorGraph
from credo.core.result import Status
from credo.inference.bounds import gdd_passes
from credo.inference.bounds.gdd import GDD
from credo.inference.messages.trw import TRW
from credo.inference.portfolio.question import pose
from credo.kernels.gdd_passes import shift_tables
from inference.gdd_models import TASKS, random_graph, random_question, ring_and_grid, truth_of

pytestmark = pytest.mark.filterwarnings("ignore::credo.core.errors.ConvergenceWarning")


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    "options",
    [{"ibound": 0}, {"ibound": 2}, {"ibound": 0, "smooth": False}, {"ibound": 1, "fixed_weights": True}],
    ids=str,
)
def test_every_sweep_bounds_the_truth_and_the_answer_never_rises(task, options):
    rng = np.random.default_rng(TASKS.index(task))
    algorithm = GDD(**options)
    for k in range(30):
        graph = random_graph(rng, zeros=0.25 * (k % 2), n=5 + k % 2)
        _, problem = pose(graph, None, **random_question(rng, graph, task))
        truth = truth_of(problem)
        slack = 1e-9 * max(1.0, abs(truth)) if truth > -np.inf else 0.0
        try:
            state = algorithm.start(problem, rng)
            best = [state.best.value]
            for _ in range(9):
                state, change = algorithm.step(problem, state)
                assert change >= 0
                assert state.bounds[-1] >= truth - slack, (k, state.bounds, truth)
                best.append(state.best.value)
            result = algorithm.read(problem, state, Status.CONVERGED)
        except ZeroProbabilityError:
            assert truth == -np.inf
            continue
        assert (np.diff(best) <= 0).all()
        assert result.log_z.value == best[-1]
        assert (np.diff(result.trace["bound"]) <= 0).all()
        np.testing.assert_array_equal(result.trace["raw"], state.bounds)
        if result.score is not None:
            assert result.score.value <= truth + slack


def test_sweeps_without_maxima_lower_the_bound_itself():
    for seed in range(5):
        graph = credo.datasets.ising_grid(4, seed=seed).to_factor_graph()
        _, problem = pose(graph, None)
        algorithm = GDD(ibound=1)
        state = algorithm.start(problem, np.random.default_rng(0))
        before = state.tables.value
        for _ in range(25):
            was, state = state, algorithm.step(problem, state)[0]
            assert state.bounds[-1] <= before + 1e-10 or was.undo is not None  # or a leap was taken back
            before = state.bounds[-1]


@pytest.mark.parametrize("ibound", [1, 2])
def test_slopes_match_finite_differences(ibound):
    rng = np.random.default_rng(3)
    graph = credo.datasets.ising_grid(3, seed=1).to_factor_graph()
    _, problem = pose(graph, None, temperatures=dict.fromkeys(graph.variables.names, 0.7))
    state = GDD(ibound=ibound).start(problem, rng)
    plan = state.plan
    n = len(plan.owner)
    least = plan.least()
    part = rng.uniform(0.5, 1.5, len(plan.fellows))
    part /= plan.by_bucket(part)
    change = rng.standard_normal(n)

    def value(change, logs):
        theta = np.empty_like(plan.soft.theta)
        shift_tables(plan.soft.layout, plan.start, change, 1.0, plan.soft.theta, theta)
        grown = part * np.exp(logs)
        share = least + (1 - least * plan.fellows) * grown / plan.by_bucket(grown)
        return plan.soft.evaluate(theta, plan.weights(share, 1.0)), share

    tables, share = value(change, np.zeros(len(part)))
    slopes = gdd_passes._look(state, tables, share, leaping=True)
    assert n > 0
    h = 1e-5
    for q in rng.permutation(n)[:20]:
        ends = []
        for sign in (1, -1):
            moved = change.copy()
            moved[q] += sign * h
            ends.append(value(moved, np.zeros(len(part)))[0].value)
        assert (ends[0] - ends[1]) / (2 * h) == pytest.approx(slopes.slope[q], abs=1e-7)
    for c in range(len(part)):
        ends = [value(change, sign * h * (np.arange(len(part)) == c))[0].value for sign in (1, -1)]
        assert (ends[0] - ends[1]) / (2 * h) == pytest.approx(slopes.slope[n + c], abs=1e-7)


@pytest.mark.parametrize("task", ["sum", "max", "mixed"])
def test_no_looser_than_weighted_mini_buckets_in_equal_sweeps(task):
    for seed in range(6):
        graph = credo.datasets.ising_grid(5, seed=100 + seed).to_factor_graph()
        question = random_question(np.random.default_rng(seed), graph, task)
        for ibound in (1, 3):
            for sweeps in (3, 10, 30):
                found = [
                    credo.infer(graph, f"{name}(ibound={ibound})", max_iter=sweeps, **question).log_z.value
                    for name in ("gdd", "wmb")
                ]
                assert found[0] <= found[1] + 1e-6 * abs(found[1]), (seed, ibound, sweeps, found)


def test_pairwise_sums_reach_the_optimum_of_trw():
    """Fixed even weights are the appearance probabilities of two forests (B4)."""
    graph = ring_and_grid(np.random.default_rng(8))
    names = list(graph.variables.names)
    later = {i: [] for i in range(9)}
    for a in range(graph.n_factors):
        if len(scope := sorted(graph.scope_of(a).tolist())) == 2:
            later[scope[0]].append(a)
    forests = tuple(tuple(around[k % len(around)] for around in later.values() if around) for k in (0, 1))
    trw = credo.infer(graph, TRW(rho="trees", forests=forests), max_iter=5000, tol=1e-11).log_z.value
    for updates, tolerance in (("passes", 1e-7), ("blocks", 1e-2)):
        spec = f"gdd(updates={updates}, ibound=0, weights=matched, fixed_weights=True, floor=0)"
        found = credo.infer(graph, spec, order=names, max_iter=400, tol=1e-13).log_z.value
        assert found >= trw - 1e-7
        if updates == "passes":
            assert found == pytest.approx(trw, abs=tolerance)


def test_without_splits_the_answer_is_exact_and_says_so():
    graph = ring_and_grid(np.random.default_rng(4))
    for maximise in ((), "all", ["x0", "x5"]):
        _, problem = pose(graph, None, maximise)
        result = credo.infer(graph, "gdd", maximise=maximise)
        assert result.status is Status.EXACT and result.log_z.kind == "exact"
        assert result.log_z.value == pytest.approx(truth_of(problem), abs=1e-9)
        if maximise:
            assert result.score.value == pytest.approx(truth_of(problem), abs=1e-9)


def test_large_models_are_bounded_and_their_states_scored():
    rng = np.random.default_rng(0)
    n = 20
    pairs = [(r * n + c, r * n + c + 1) for r in range(n) for c in range(n - 1)]
    pairs += [(r * n + c, r * n + c + n) for r in range(n - 1) for c in range(n)]
    graph = FactorGraph.from_arrays(
        np.full(n * n, 3), (np.array(pairs), rng.standard_normal((len(pairs), 3, 3))), log=True
    )
    result = credo.infer(graph, "gdd(ibound=1)", maximise="all", max_iter=30)
    assert result.score.value <= result.log_z.value
    assert result.gap < 0.05 * abs(result.log_z.value)
