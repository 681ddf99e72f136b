"""The primal tree bound: valid whenever stopped, never rising, equal to the dual at the same weights."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import credo
from credo.core.errors import ConvergenceWarning, OptionError, UnsupportedError, ZeroProbabilityError
from credo.core.factor import TableFactor
from credo.core.factor_graph import FactorGraph
from credo.core.result import Status
from credo.core.variable import Variable
from credo.inference.bounds.trw_primal import TRWPrimal
from credo.inference.messages.trw import TRW
from credo.inference.problem.base import Budget, Problem
from credo.inference.problem.forest import ForestPasses
from credo.kernels import trees as kernel
from credo.structures.spanning_trees import covering_forests, spanning_forest
from seeds import each_seed
from zoo import TREES, ZOO, Case, case


def random_graph(seed: int, *, zeros: bool = False, spread: float = 1.5) -> FactorGraph:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 4, 6)
    variables = [Variable(f"x{i}", int(s)) for i, s in enumerate(sizes)]
    kept = [int(rng.integers(s)) for s in sizes]
    factors = []
    for _ in range(9):
        scope = rng.choice(6, int(rng.choice([1, 2, 2, 2, 3])), replace=False)
        table = spread * rng.standard_normal([sizes[i] for i in scope])
        if zeros:
            table[rng.random(table.shape) < 0.3] = -np.inf
            table[tuple(kept[i] for i in scope)] = 0.5
        factors.append(TableFactor.from_log([variables[i] for i in scope], table))
    return FactorGraph(variables, factors)


def problem_of(graph: FactorGraph, heat: float = 1.0) -> Problem:
    n = len(graph.variables)
    return Problem(graph, np.full(n, heat), np.zeros(n, dtype=np.int64))


def quietly(*args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return credo.infer(*args, **kwargs)


@pytest.mark.parametrize("zeros", [False, True], ids=["positive", "zeros"])
@pytest.mark.parametrize("max_iter", [0, 1, 5, 100])
def test_the_bound_holds_whenever_the_run_is_stopped(max_iter: int, zeros: bool):
    for seed in range(15):
        graph = random_graph(seed, zeros=zeros)
        truth = credo.infer(graph, "enumerate").log_z.value
        result = quietly(graph, "trw-primal", max_iter=max_iter)
        assert result.log_z.kind == "upper"
        assert result.log_z.value >= truth - 1e-9, seed


@pytest.mark.parametrize("maximise", [(), "all"], ids=["sum", "max"])
@pytest.mark.parametrize("seed", range(6))
def test_the_bound_never_rises(seed: int, maximise):
    bounds = quietly(random_graph(seed), "trw-primal", maximise=maximise, max_iter=200).trace["bound"]
    assert (np.diff(bounds) <= 1e-12).all()


@each_seed(range(10))
def test_the_minimum_is_the_dual_value_at_the_same_weights(seed: int):
    graph = random_graph(seed, zeros=seed % 3 == 0, spread=1.0)
    forests = covering_forests(graph)
    given = tuple(tuple(np.flatnonzero(row).tolist()) for row in forests.members)
    primal = quietly(graph, "trw-primal(weights=equal)", max_iter=3000)
    dual = quietly(graph, TRW(rho="trees", forests=given, damping=0.2), max_iter=10000, tol=1e-10)
    assert dual.converged
    assert primal.log_z.value == pytest.approx(dual.log_z.value, abs=1e-5)
    np.testing.assert_allclose(primal.marginals.flat, dual.marginals.flat, atol=1e-3)


@pytest.mark.parametrize("seed", range(6))
def test_optimised_weights_are_never_looser_than_equal_ones(seed: int):
    graph = random_graph(seed)
    equal = quietly(graph, "trw-primal(weights=equal)")
    assert quietly(graph, "trw-primal").log_z.value <= equal.log_z.value + 1e-6


@pytest.mark.parametrize("problem", TREES, ids=lambda c: c.id)
def test_one_forest_is_exact_at_once(problem: Case):
    result = quietly(problem.graph, "trw-primal", max_iter=0)
    exact = credo.infer(problem.graph, "enumerate")
    assert result.log_z.value == pytest.approx(exact.log_z.value, rel=1e-12, abs=1e-10)
    np.testing.assert_allclose(result.marginals.flat, exact.marginals.flat, atol=1e-10)


@pytest.mark.parametrize("heat", [1.0, 0.3])
@pytest.mark.parametrize("id", ["grid 3x3", "three-way factors", "parity checks"])
def test_the_gradient_equals_finite_differences(id: str, heat: float):
    algorithm, problem = TRWPrimal(), problem_of(case(id).graph)
    state = algorithm.start(problem, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    point = rng.standard_normal(len(state.point))
    value = algorithm._evaluate(problem, state.work, point, heat)
    h = 1e-5
    for k in [*rng.choice(len(point), 8, replace=False), len(point) - 1]:
        move = np.zeros(len(point))
        move[k] = h
        up, down = (algorithm._evaluate(problem, state.work, point + s * move, heat).bound for s in (1, -1))
        assert value.gradient[k] == pytest.approx((up - down) / (2 * h), abs=1e-6)


@pytest.mark.parametrize("problem", ZOO, ids=lambda c: c.id)
def test_the_best_score_is_bounded_from_above(problem: Case):
    result = quietly(problem.graph, "trw-primal", maximise="all")
    best = float(problem.log_weights.max())
    assert result.log_z.kind == ("exact" if result.status is Status.OPTIMAL else "upper")
    assert best - 1e-9 <= result.log_z.value
    if problem.is_tree:
        assert result.log_z.value == pytest.approx(best, rel=1e-12, abs=1e-10)


@pytest.mark.parametrize("seed", [4, 5, 17, 19])
def test_states_that_zeros_forbid_give_way_to_possible_ones(seed: int):
    result = quietly(random_graph(seed, zeros=True), "trw-primal", maximise="all", max_iter=3)
    assert -np.inf < result.score.value <= result.log_z.value


@pytest.mark.parametrize("heat", [1.0, 0.5, 0.0])
@pytest.mark.parametrize(
    "id", ["tree with zeros", "three-way tree", "disconnected parts", "one-state variables"]
)
def test_a_forest_pass_is_exact_at_any_temperature(id: str, heat: float, monkeypatch):
    graph = case(id).graph
    members = spanning_forest(graph)
    part = graph.select(np.flatnonzero(members))
    if heat:
        temperatures = dict.fromkeys(graph.variables.names, heat)
        truth = credo.infer(part, "enumerate", temperatures=temperatures).log_z.value
    else:
        truth = credo.infer(part, "enumerate", maximise="all").log_z.value
    passes = ForestPasses(part)
    order = passes.order(np.ones(part.n_factors, dtype=bool))
    found = passes.run(order, passes.node, np.ones(part.n_factors), heat=heat)
    assert found.value + passes.constant == pytest.approx(truth, abs=1e-11)
    for name in ("_log_sum", "_reduce_to", "_spread"):
        monkeypatch.setattr(kernel, name, getattr(kernel, name).py_func)
    monkeypatch.setattr(kernel, "pass_forest", kernel.pass_forest.py_func)
    plain = passes.run(order, passes.node, np.ones(part.n_factors), heat=heat)
    np.testing.assert_allclose(plain.belief, found.belief, atol=1e-12)


def test_impossible_models_are_named():
    never = credo.FactorGraph({"a": 2, "b": 2}, {("a",): [1, 0], ("a", "b"): [[0, 0], [1, 1]]})
    for maximise in ((), "all"):
        with pytest.raises(ZeroProbabilityError, match="the model gives every configuration weight zero"):
            credo.infer(never, "trw-primal", maximise=maximise)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("trw-primal(trees=-1)", "trees must be at least 0, got -1"),
        ("trw-primal(weights=some)", r"weights must be one of \['equal', 'optimised'\], got 'some'"),
    ],
)
def test_wrong_options_are_named(spec: str, message: str):
    with pytest.raises(OptionError, match=message):
        credo.infer(case("pair").graph, spec)


def test_mixed_tasks_are_refused():
    with pytest.raises(
        UnsupportedError, match="it gives marginals and log Z and MAP, and the question asks for marginal MAP"
    ):
        credo.infer(case("pair").graph, "trw-primal", maximise=["x0"])


def test_the_run_can_be_continued_from_a_small_budget():
    problem = problem_of(case("grid 3x3").graph)
    short = TRWPrimal().run(problem, Budget(max_iter=3), np.random.default_rng(0))
    long = TRWPrimal().run(problem, Budget(max_iter=300), np.random.default_rng(0))
    np.testing.assert_array_equal(long.trace["bound"][:3], short.trace["bound"])
    assert long.log_z.value < short.log_z.value


@pytest.mark.filterwarnings("ignore::credo.core.errors.ConvergenceWarning")
def test_huge_potentials_neither_vanish_nor_divide_by_zero():
    a = [[[-690.0, 0], [0, 1], [-690, 0]], [[1, 1], [690, 1], [690, -690]]]
    b = [[[690.0, 0], [0, -690], [1, -690]], [[690, 0], [0, 0], [0, 690]]]
    graph = FactorGraph.from_arrays(
        [2, 2, 3], ([[0, 2, 1]], a), ([[1]], [690.0, -690]), ([[0]], [-690.0, 1]), ([[0]], [0.0, 690]),
        ([[1]], [0.0, 690]), ([[0, 2, 1]], b), log=True,
    )  # fmt: skip
    evidence = {"x2": [0.9, 0.7, 0]}
    exact = credo.infer(graph, "junction-tree", evidence=evidence).log_z.value
    assert credo.infer(graph, "trw-primal", evidence=evidence).log_z.value >= exact - 1e-6 * abs(exact)
    ring = FactorGraph.from_arrays(
        [2, 2, 2],
        ([[0], [1], [2]], [[143, -158], [445, -97], [26, -89]]),
        (
            [[0, 1], [1, 2], [0, 2]],
            [[[-214, 487], [53, 408]], [[121, -234], [-494, -417]], [[-236, 145], [132, 719]]],
        ),
        log=True,
    )
    exact = credo.infer(ring, "junction-tree").log_z.value
    for method in ("trw-primal", "gdd(ibound=1, updates=joint)"):
        assert credo.infer(ring, method, max_iter=300).log_z.value >= exact - 1e-6 * abs(exact)
