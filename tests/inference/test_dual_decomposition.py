"""Dual decomposition: valid at every sweep, monotone, as low as the linear program, proofs that hold."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo.core.errors import ConvergenceWarning, OptionError, UnsupportedError, ZeroProbabilityError
from credo.core.result import Status
from credo.inference.bounds.decomposition import Decomposition
from credo.inference.bounds.dual_decomposition import DualDecomposition
from credo.inference.problem.base import Problem
from inference.map_models import grid, random_model
from random_models import joint
from zoo import TREES, case

UPDATES = ["auto", "sequential", "star", "mplp", "smoothed", "subgradient"]
KINDS = [(2, 0.0), (2, 0.4), (3, 0.0), (3, 0.4)]

pytestmark = pytest.mark.filterwarnings("ignore::credo.core.errors.ConvergenceWarning")


def problem(graph) -> Problem:
    n = len(graph.variables)
    return Problem(graph, np.zeros(n), np.zeros(n, dtype=np.int64))


def run(graph, updates, **budget):
    return credo.infer(graph, f"dual-decomposition(updates={updates})", maximise="all", **budget)


@pytest.mark.parametrize(("arity", "zeros"), KINDS)
@pytest.mark.parametrize("updates", UPDATES)
def test_bound_and_score_hold_at_every_sweep(updates, arity, zeros):
    algorithm = DualDecomposition(updates=updates)
    for seed in range(12):
        graph = random_model(seed, arity, zeros)
        weights = joint(graph)
        asked = problem(graph)
        state = algorithm.start(asked, np.random.default_rng(0))
        before = np.inf
        for _ in range(15):
            best = weights.max()
            assert state.bound >= best - 1e-9
            assert state.score <= best + 1e-9
            assert state.work.bound(state.shifts) >= best - 1e-9
            assert np.isfinite(state.shifts).all()
            assert state.bound <= before
            found = weights[tuple(state.work.original(state.states))]
            assert found == state.score or found == pytest.approx(state.score, abs=1e-9)
            before = state.bound
            state, _ = algorithm.step(asked, state)


@pytest.mark.parametrize(("arity", "zeros"), KINDS)
@pytest.mark.parametrize("updates", ["sequential", "star", "mplp"])
def test_each_sweep_lowers_the_bound_at_its_own_shifts(updates, arity, zeros):
    algorithm = DualDecomposition(updates=updates)
    for seed in range(12):
        asked = problem(random_model(100 + seed, arity, zeros))
        state = algorithm.start(asked, np.random.default_rng(0))
        before = state.work.bound(state.shifts)
        for _ in range(12):
            state, _ = algorithm.step(asked, state)
            now = state.work.bound(state.shifts)
            assert now <= before + 1e-11 * max(1.0, abs(before))
            before = now


@pytest.mark.parametrize("updates", UPDATES)
def test_pairwise_bounds_reach_the_linear_program(updates):
    for seed in range(10):
        graph = random_model(seed)
        lp = credo.infer(graph, "lp", maximise="all").log_z.value
        slack = 0.05 if updates == "subgradient" else 1e-4
        found = run(graph, updates, max_iter=600).log_z.value
        assert lp - 1e-7 <= found <= lp + slack


@pytest.mark.parametrize(("updates", "slack"), [("auto", 0.02), ("smoothed", 0.02), ("subgradient", 0.3)])
@pytest.mark.parametrize("zeros", [0.0, 0.3])
def test_higher_order_bounds_reach_the_linear_program_where_block_steps_stall(updates, slack, zeros):
    stalled = 0
    for seed in range(10):
        graph = random_model(seed, 3, zeros)
        lp = credo.infer(graph, "lp", maximise="all").log_z.value
        found = run(graph, updates, max_iter=3000).log_z.value
        assert lp - 1e-7 <= found <= lp + slack, seed
        block = run(graph, "sequential", max_iter=1000).log_z.value
        assert block >= lp - 1e-7
        stalled += block > lp + 0.01
    assert stalled > 0  # otherwise nothing is shown here


@pytest.mark.parametrize("tree", TREES, ids=lambda c: c.id)
@pytest.mark.parametrize("updates", ["auto", "sequential"])
def test_one_sequential_sweep_proves_the_optimum_of_a_tree(updates, tree):
    result = run(tree.graph, updates, max_iter=1)
    assert result.status is Status.OPTIMAL
    assert result.log_z.kind == "exact"
    assert result.log_z.value == pytest.approx(tree.log_weights.max(), rel=1e-9, abs=1e-9)
    assert result.gap == 0


@pytest.mark.parametrize("updates", UPDATES)
def test_a_proof_is_never_wrong(updates):
    proven = 0
    for seed in range(25):
        graph = random_model(seed, 2 + seed % 2, 0.2)
        result = run(graph, updates, max_iter=60)
        if result.status is Status.OPTIMAL:
            proven += 1
            assert result.log_z.kind == "exact"
            assert result.score.value == pytest.approx(joint(graph).max(), abs=1e-8)
        else:
            assert result.log_z.kind == "upper"
    assert proven > 5


def test_the_trace_tells_bound_and_score_of_every_sweep():
    with pytest.warns(ConvergenceWarning):
        result = run(grid(8, 3, 0), "sequential", max_iter=23, tol=0)
    lengths = {name: len(values) for name, values in result.trace.items()}
    assert set(lengths) == {"bound", "score", "change"}
    assert len(set(lengths.values())) == 1
    assert (np.diff(result.trace["bound"]) <= 0).all() and (np.diff(result.trace["score"]) >= 0).all()
    assert result.trace["bound"][-1] == result.log_z.value
    assert result.trace["score"][-1] == pytest.approx(result.score.value)


@pytest.mark.parametrize("updates", UPDATES)
@pytest.mark.parametrize("budget", [{"seconds": 0}, {"max_iter": 0}])
def test_no_time_still_gives_a_bound_and_states(updates, budget):
    graph = random_model(3, 3, 0.3)
    result = run(graph, updates, **budget)
    assert result.log_z.value >= joint(graph).max() - 1e-9
    assert set(result.assignment) == set(graph.variables.names)


def test_zeros_that_mislead_greedy_choices_still_end_in_a_possible_state():
    for seed in range(30):
        graph = random_model(seed, 3, 0.6)
        assert run(graph, "sequential", max_iter=2).score.value > -np.inf


def test_factors_over_the_same_variables_count_as_one():
    rng = np.random.default_rng(0)
    parts = [rng.standard_normal((2, 3)) for _ in range(3)]
    pieces = [(("a", "b"), parts[0]), (("b", "a"), parts[1].T), (("a", "b"), parts[2])]
    variables = [credo.Variable("a", 2), credo.Variable("b", 3), credo.Variable("c", 2)]
    by_name = {v.name: v for v in variables}
    factors = [credo.TableFactor.from_log([by_name[n] for n in scope], t) for scope, t in pieces]
    graph = credo.FactorGraph(variables, factors)
    work = Decomposition.of(problem(graph))
    assert work.graph.n_factors == 1
    assert work.bound(work.no_shifts()) == pytest.approx(sum(parts).max())


def test_contradictions_are_named():
    never = credo.FactorGraph({"a": 2, "b": 2}, {("a",): [1, 0], ("a", "b"): [[0, 0], [1, 1]]})
    with pytest.raises(ZeroProbabilityError, match="weight zero"):
        run(never, "auto")
    parity = case("xor").graph
    with pytest.raises(ZeroProbabilityError, match="the evidence has probability zero"):
        credo.infer(parity, "dual-decomposition", evidence={"x0": 0, "x1": 0, "x2": 1}, maximise="all")
    empty = credo.FactorGraph({"a": 2}, [credo.TableFactor.from_log([], np.array(-np.inf))])
    with pytest.raises(ZeroProbabilityError, match="weight zero"):
        run(empty, "auto")


@pytest.mark.parametrize(
    ("spec", "maximise", "message"),
    [
        ("dual-decomposition", ["x0"], "it gives MAP, and the question asks for marginal MAP"),
        ("dual-decomposition", (), "it gives MAP, and the question asks for marginals and log Z"),
    ],
)
def test_other_tasks_are_refused(spec, maximise, message):
    with pytest.raises(UnsupportedError, match=message):
        credo.infer(random_model(0), spec, maximise=maximise)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("updates=fast", "updates must be one of"),
        ("first_step=-1", "first_step must be at least 0"),
        ("decay=2", r"decay must be in \[0, 1\)"),
    ],
)
def test_options_are_checked(option, message):
    with pytest.raises(OptionError, match=message):
        credo.infer(random_model(0), f"dual-decomposition({option})", maximise="all")
