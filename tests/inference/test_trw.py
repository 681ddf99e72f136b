"""Tree-reweighted BP: an upper bound at any time, BP for rho = 1, optimal rho, duality."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

import credo
from credo.core.errors import (
    ConvergenceWarning,
    ModelError,
    OptionError,
    UnsupportedError,
    ZeroProbabilityError,
)
from credo.core.factor import TableFactor
from credo.core.factor_graph import FactorGraph
from credo.core.result import Status
from credo.core.variable import Variable
from credo.inference.messages.bp import BP
from credo.inference.messages.engine import log_messages
from credo.inference.messages.trw import TRW, bound_of_messages
from credo.inference.problem.base import Budget, Problem
from credo.inference.problem.forest import ForestPasses
from credo.kernels import trees as kernel
from credo.structures.spanning_trees import appearance, covering_forests
from seeds import each_seed
from zoo import ZOO, case


def random_graph(seed: int, *, wide: bool, zeros: bool, spread: float = 1.5) -> FactorGraph:
    """A small loopy graph; one joint state keeps a positive weight."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 4, 6)
    variables = [Variable(f"x{i}", int(s)) for i, s in enumerate(sizes)]
    kept = [int(rng.integers(s)) for s in sizes]
    arities = [1, 2, 2, 2, 3, 3] if wide else [1, 2, 2, 2]
    factors = []
    for _ in range(9):
        scope = rng.choice(6, arities[int(rng.integers(len(arities)))], replace=False)
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
@pytest.mark.parametrize("wide", [False, True], ids=["pairs", "wide"])
def test_the_bound_holds_on_many_random_models(wide: bool, zeros: bool):
    converged = 0
    for seed in range(40):
        graph = random_graph(seed, wide=wide, zeros=zeros)
        truth = credo.infer(graph, "enumerate").log_z.value
        for spec in ("trw", "trw(rho=trees)"):
            result = quietly(graph, spec, seed=seed)
            converged += result.converged
            assert result.log_z.kind == ("upper" if result.converged else "estimate")
            bound = result.log_z.value if result.converged else float(result.notes[0].rpartition(" ")[2])
            assert bound >= truth - 1e-8, (seed, spec)
    # Zeros may put the optimum on the boundary, which is reached slowly; the bound holds all the same.
    assert converged >= (40 if zeros else 76)


@pytest.mark.parametrize("zeros", [False, True], ids=["positive", "zeros"])
@pytest.mark.parametrize("wide", [False, True], ids=["pairs", "wide"])
@pytest.mark.parametrize("heat", [1.0, 0.0], ids=["sum", "max"])
def test_any_messages_certify_a_bound(wide: bool, zeros: bool, heat: float):
    rng = np.random.default_rng(1)
    for seed in range(15):
        graph = random_graph(seed, wide=wide, zeros=zeros)
        exact = credo.infer(graph, "enumerate", maximise=() if heat else "all").log_z.value
        passes, rho = ForestPasses(graph), appearance(graph)
        for scale in (0.0, 1.0, 20.0):
            messages = scale * rng.standard_normal(graph.wiring.edge_state_start[-1])
            assert bound_of_messages(problem_of(graph, heat), passes, messages, rho) >= exact - 1e-9


@each_seed(range(10))
def test_the_bound_of_converged_messages_is_the_reweighted_free_energy(seed: int):
    graph = random_graph(seed, wide=seed % 2 == 0, zeros=False)
    problem, algorithm = problem_of(graph), TRW(damping=0.3)
    result = algorithm.run(problem, Budget(5000, 1e-12), np.random.default_rng(0))
    assert result.status is Status.CONVERGED
    p, tables, rho = result.marginals.flat, result.factor_marginals, appearance(graph)
    entropy = lambda q: -float((q * np.log(np.where(q > 0, q, 1))).sum())
    value = sum(entropy(p[s:t]) for s, t in itertools.pairwise(graph.variables.state_start))
    for a in range(graph.n_factors):
        ends = sum(entropy(result.marginals[graph.variables.names[i]]) for i in graph.scope_of(a))
        value += float((tables[a] * graph.log_table(a)).sum()) - rho[a] * (ends - entropy(tables[a]))
    assert result.log_z.value == pytest.approx(value, abs=1e-8)


@pytest.mark.parametrize("seed", range(6))
def test_marginals_maximise_the_concave_objective(seed: int):
    # The gradient of the optimum with respect to a node potential is the node marginal.
    graph = random_graph(seed, wide=False, zeros=False, spread=0.8)
    result = credo.infer(graph, "trw", tol=1e-12, max_iter=5000)
    h = 1e-4
    for state in range(2):
        bump = np.zeros(graph.variables.sizes[0])
        bump[state] = h
        values = [
            credo.infer(graph, "trw", evidence={"x0": np.exp(s * bump).tolist()}, tol=1e-12, max_iter=5000)
            for s in (1, -1)
        ]
        slope = (values[0].log_z.value - values[1].log_z.value) / (2 * h)
        assert result.marginals["x0"][state] == pytest.approx(slope, abs=1e-5)


@pytest.mark.parametrize("schedule", ["flooding", "sequential"])
@pytest.mark.parametrize("id", ["grid 3x3", "three-way factors", "grid with zeros", "one-state variables"])
def test_appearance_one_is_bp_iterate_by_iterate(id: str, schedule: str):
    problem = problem_of(case(id).graph)
    rng = np.random.default_rng(0)
    trw, bp = TRW(fixed_rho=1.0, damping=0.0, schedule=schedule), BP(schedule=schedule)
    one, two = trw.start(problem, rng), bp.start(problem, rng)
    for _ in range(12):
        (one, change), (two, other) = trw.step(problem, one), bp.step(problem, two)
        first, second = log_messages(one.messages), log_messages(two)
        np.testing.assert_allclose(np.exp(first), np.exp(second), rtol=0, atol=1e-12)
        assert change == pytest.approx(other, abs=1e-12)
    found, expected = (a.read(problem, s, Status.CONVERGED) for a, s in ((trw, one), (bp, two)))
    assert found.log_z.value == pytest.approx(expected.log_z.value, abs=1e-10)
    assert found.log_z.kind == "estimate"


@pytest.mark.parametrize("wide", [False, True], ids=["pairs", "wide"])
def test_optimised_appearance_is_never_looser_than_uniform(wide: bool):
    gains = []
    for seed in range(12):
        graph = random_graph(seed, wide=wide, zeros=seed % 3 == 0)
        truth = credo.infer(graph, "enumerate").log_z.value
        uniform = quietly(graph, "trw", max_iter=5000)
        optimised = quietly(graph, "trw(rho=optimised)", max_iter=5000)
        if uniform.converged and optimised.converged:
            assert truth - 1e-9 <= optimised.log_z.value <= uniform.log_z.value + 1e-6, seed
            gains.append(uniform.log_z.value - optimised.log_z.value)
    assert len(gains) >= 10
    assert max(gains) > 1e-3


def test_a_run_that_did_not_converge_gives_an_estimate_and_a_bound_in_its_note():
    problem = case("strong coupling")
    with pytest.warns(ConvergenceWarning, match="trw: max_iter was reached"):
        result = credo.infer(problem.graph, "trw", max_iter=2)
    assert result.log_z.kind == "estimate"
    bound = float(result.notes[0].rpartition(" ")[2])
    assert bound >= credo.infer(problem.graph, "enumerate").log_z.value
    best = quietly(problem.graph, "trw", max_iter=2, maximise="all")
    assert best.log_z.kind == "lower"
    assert best.log_z.value <= credo.infer(problem.graph, "enumerate", maximise="all").log_z.value + 1e-12


def test_a_fixed_appearance_is_not_optimised():
    result = credo.infer(case("3-cycle").graph, "trw(rho=optimised, fixed_rho=0.8)")
    assert result.converged
    assert result.log_z.kind == "estimate"
    np.testing.assert_array_equal(result.state.rho, 0.8)


def test_a_warm_start_continues_where_the_last_run_stopped():
    graph = case("grid 3x3").graph
    first = quietly(graph, "trw", max_iter=20)
    again = credo.infer(graph, "trw", warm_start=first)
    cold = credo.infer(graph, "trw")
    assert len(again.trace["change"]) < len(cold.trace["change"])
    assert again.log_z.value == pytest.approx(cold.log_z.value, abs=1e-7)


def test_given_forests_decide_the_appearance():
    graph = case("3-cycle").graph
    result = credo.infer(graph, TRW(rho="trees", forests=((0, 1), (1, 2), (2, 0))))
    assert result.log_z.value == pytest.approx(credo.infer(graph, "trw").log_z.value, abs=1e-7)
    np.testing.assert_allclose(result.state.rho, 2 / 3)
    assert result.algorithm == "trw(rho=trees, forests=((0, 1), (1, 2), (2, 0)))"
    with pytest.raises(ModelError, match="forests: expected every factor in some forest"):
        credo.infer(graph, TRW(rho="trees", forests=((0, 1),)))


@pytest.mark.parametrize("id", [c.id for c in ZOO])
def test_maxima_are_bounded_from_above(id: str):
    graph = case(id).graph
    result = quietly(graph, "trw", maximise="all")
    best = credo.infer(graph, "enumerate", maximise="all").log_z.value
    if result.converged:
        assert result.log_z.kind == "upper"
        assert result.log_z.value >= best - 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_explicit_forests_of_the_same_messages_are_below_the_certified_bound(seed: int):
    # sum_T w_T log Z_T of the split that messages define, forest by forest, by exact passes.
    graph = random_graph(seed, wide=seed % 2 == 0, zeros=False)
    passes, forests = ForestPasses(graph), covering_forests(graph)
    rho, w = forests.appearance, graph.wiring
    messages = np.random.default_rng(seed).standard_normal(w.edge_state_start[-1])
    node, tables = passes.node.copy(), passes.dense_tables()
    for a in passes.links:
        shape = w.sizes[graph.scope_of(a)]
        block = tables[passes.start[a] : passes.start[a + 1]].reshape(shape)
        for k, e in enumerate(range(w.scope_start[a], w.scope_start[a + 1])):
            m = messages[w.edge_state_start[e] : w.edge_state_start[e + 1]]
            i = w.scope[e]
            node[w.state_start[i] : w.state_start[i + 1]] += m
            block -= m.reshape([-1 if j == k else 1 for j in range(len(shape))])
    explicit = passes.constant
    for row, weight in zip(forests.members, forests.weights, strict=True):
        explicit += weight * passes.run(passes.order(row), node, 1 / rho, tables=tables).value
    truth = credo.infer(graph, "enumerate").log_z.value
    certified = bound_of_messages(problem_of(graph), passes, messages, rho)
    assert truth - 1e-9 <= explicit <= certified + 1e-9


def test_impossible_models_are_named():
    never = credo.FactorGraph({"a": 2, "b": 2}, {("a",): [1, 0], ("a", "b"): [[0, 0], [1, 1]]})
    for maximise in ((), "all"):
        with pytest.raises(ZeroProbabilityError, match="the model gives every configuration weight zero"):
            credo.infer(never, "trw", maximise=maximise)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("trw(rho=best)", r"rho must be one of \['optimised', 'trees', 'uniform'\], got 'best'"),
        ("trw(damping=1)", r"damping must be in \[0, 1\), got 1"),
        ("trw(trees=0)", "trees must be at least 1, got 0"),
        ("trw(rounds=-1)", "rounds must be at least 0, got -1"),
        ("trw(fixed_rho=0)", "fixed_rho must be at least 0.001, got 0"),
        ("trw(schedule=none)", "schedule must be one of"),
    ],
)
def test_wrong_options_are_named(spec: str, message: str):
    with pytest.raises(OptionError, match=message):
        credo.infer(case("pair").graph, spec)


def test_mixed_tasks_are_refused():
    with pytest.raises(
        UnsupportedError, match="it gives marginals and log Z and MAP, and the question asks for marginal MAP"
    ):
        credo.infer(case("pair").graph, "trw", maximise=["x0"])


def test_the_bound_kernel_gives_the_same_uncompiled(monkeypatch):
    graph = case("three-way factors").graph
    passes, problem = ForestPasses(graph), problem_of(graph)
    messages = np.random.default_rng(0).standard_normal(graph.wiring.edge_state_start[-1])
    compiled = bound_of_messages(problem, passes, messages, appearance(graph))
    for name in ("_log_sum", "_reduce_to", "_spread"):
        monkeypatch.setattr(kernel, name, getattr(kernel, name).py_func)
    monkeypatch.setattr("credo.inference.messages.trw.reweighted_bound", kernel.reweighted_bound.py_func)
    assert bound_of_messages(problem, passes, messages, appearance(graph)) == pytest.approx(
        compiled, abs=1e-12
    )
