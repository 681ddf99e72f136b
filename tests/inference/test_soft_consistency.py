"""Soft-consistency search against enumeration, and its bounds whenever it is stopped."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path

import numpy as np
import pytest

import credo
from credo.core.errors import ConvergenceWarning, OptionError, UnsupportedError, ZeroProbabilityError
from credo.core.factor import TableFactor
from credo.core.factor_graph import FactorGraph
from credo.core.result import Status
from credo.core.variable import Variable
from credo.inference.search import soft_consistency
from credo.inference.search.soft_network import reduce_graph
from random_models import joint
from seeds import each_seed

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "uai14" / "MAP"


def random_graph(seed: int, *, zeros: float = 0.0, most: int = 8, arity: int = 4, spread: float = 2.0):
    """Mixed state counts (one included), factors over up to `arity` variables, often unconnected."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, int(rng.integers(1, most + 1)))
    variables = [Variable(f"x{i}", int(s)) for i, s in enumerate(sizes)]
    factors = []
    for _ in range(int(rng.integers(0, 2 * len(sizes) + 2))):
        count = int(rng.integers(0, min(arity, len(sizes)) + 1))
        scope = [variables[i] for i in rng.permutation(len(sizes))[:count]]
        table = spread * rng.standard_normal([v.size for v in scope])
        factors.append(TableFactor.from_log(scope, np.where(rng.random(table.shape) < zeros, -np.inf, table)))
    return FactorGraph(variables, factors)


def dense_graph(seed: int, n: int, states: int = 2, spread: float = 1.0):
    """A frustrated complete graph: the relaxation is loose, so that there is something to search."""
    rng = np.random.default_rng(seed)
    pairs = np.array(list(itertools.combinations(range(n), 2)))
    tables = spread * rng.standard_normal((len(pairs), states, states))
    return FactorGraph.from_arrays(np.full(n, states), (pairs, tables), log=True)


def solve(graph, method="soft-consistency", **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return credo.infer(graph, method, maximise="all", seed=0, **arguments)


@pytest.mark.parametrize("block", range(10))
@pytest.mark.parametrize("eliminate", [0, 3])
@pytest.mark.parametrize("zeros", [0.0, 0.15, 0.4])
def test_equals_enumeration_on_random_models(block: int, eliminate: int, zeros: float):
    for seed in range(10 * block, 10 * block + 10):
        graph = random_graph(seed, zeros=zeros)
        truth = joint(graph).max()
        if truth == -np.inf:
            with pytest.raises(ZeroProbabilityError, match="contradict"):
                solve(graph, f"soft-consistency(eliminate={eliminate})")
            continue
        found = solve(graph, f"soft-consistency(eliminate={eliminate})")
        assert found.status is Status.OPTIMAL
        assert found.log_z.kind == "exact"
        assert found.log_z.value == pytest.approx(truth, rel=1e-9, abs=1e-9), seed
        assert found.score.value == pytest.approx(truth, rel=1e-9, abs=1e-9), seed
        assert graph.log_scores(found.assignment.indices[None, :])[0] == found.score.value


@each_seed(range(12))
def test_equals_enumeration_where_the_relaxation_is_loose(seed: int):
    graph = dense_graph(seed, 12) if seed % 2 else dense_graph(seed, 8, states=3)
    states = np.array(list(itertools.product(*map(range, graph.variables.sizes))))
    truth = graph.log_scores(states).max()
    found = solve(graph, "soft-consistency(eliminate=0)")
    assert found.log_z.value == pytest.approx(truth, rel=1e-9)
    assert found.status is Status.OPTIMAL


@each_seed(range(25))
def test_evidence_is_kept(seed: int):
    graph = random_graph(seed, zeros=0.1)
    weights = joint(graph)
    if weights.max() == -np.inf:
        pytest.skip("impossible")
    x = np.argwhere(weights > -np.inf)[seed % 3 % int((weights > -np.inf).sum())]
    evidence = {f"x{i}": int(x[i]) for i in range(0, len(x), 2)}
    held = weights[tuple(x[i] if i % 2 == 0 else slice(None) for i in range(len(x)))]
    found = solve(graph, evidence=evidence)
    assert found.log_z.value == pytest.approx(float(held.max()), rel=1e-9, abs=1e-9)
    assert all(found.assignment.index(name) == k for name, k in evidence.items())


@pytest.mark.parametrize("nodes", [1, 2, 5, 20, 100])
@pytest.mark.parametrize("seed", range(6))
def test_bounds_are_true_after_any_number_of_nodes(seed: int, nodes: int):
    graph = dense_graph(seed, 14)
    exact = solve(graph, "junction-tree").log_z.value
    found = solve(graph, f"soft-consistency(max_nodes={nodes}, eliminate=0)")
    assert found.log_z.value >= exact - 1e-9 * abs(exact)
    assert found.score.value <= exact + 1e-9 * abs(exact)
    assert (found.log_z.kind == "exact") == (found.status is Status.OPTIMAL)


@pytest.mark.parametrize("arguments", [{"seconds": 0}, {"max_iter": 0}, {"max_iter": 1}, {"max_iter": 2}])
@each_seed(range(20))
def test_bounds_are_true_when_stopped_at_once(seed: int, arguments: dict):
    graph = random_graph(seed, zeros=0.35)
    truth = joint(graph).max()
    for method in ("soft-consistency", "soft-consistency(eliminate=0, cycles=false)"):
        try:
            found = solve(graph, method, **arguments)
        except ZeroProbabilityError:
            assert truth == -np.inf
            continue
        assert found.log_z.value >= truth - 1e-9 * max(1, abs(truth))
        assert found.score.value <= truth + 1e-9 * max(1, abs(truth)) or truth == -np.inf
        assert found.score.value > -np.inf or truth == -np.inf


def test_probes_below_a_ceiling_keep_the_bound_true_and_lead_to_the_proof(monkeypatch):
    """With little work per step, half of the steps are probes; some must have raised the floor."""
    monkeypatch.setattr(soft_consistency, "_OPERATIONS", 2000)
    monkeypatch.setattr(soft_consistency, "_SWEEPS", 2)
    floors = []
    real = soft_consistency._PartSearch._probe
    monkeypatch.setattr(
        soft_consistency._PartSearch, "_probe", lambda part: floors.append((real(part), part._floor)[1])
    )
    for seed in range(6):
        graph = dense_graph(seed, 12) if seed % 2 else dense_graph(seed, 8, states=3)
        states = np.array(list(itertools.product(*map(range, graph.variables.sizes))))
        truth = graph.log_scores(states).max()
        found = solve(graph, "soft-consistency(eliminate=0, cycles=false)")
        assert found.status is Status.OPTIMAL
        assert found.score.value == pytest.approx(truth, rel=1e-9)
        assert found.trace["bound"].min() >= truth - 1e-8
        assert (np.diff(found.trace["bound"]) <= 1e-9).all()
    assert np.isfinite(floors).any()


def test_the_bound_falls_and_the_score_rises_while_it_runs():
    found = solve(dense_graph(3, 30), max_iter=10)
    bounds, scores = found.trace["bound"], found.trace["score"]
    assert len(bounds) == len(scores) > 0
    assert (np.diff(bounds) <= 1e-9).all()
    assert (np.diff(scores) >= -1e-9).all()
    assert (bounds >= scores - 1e-9).all()


def test_a_contradiction_that_only_search_finds_is_raised():
    """Three mutually different variables with two states: arc consistent, and impossible."""
    differ = np.where(np.eye(2), -np.inf, 0.0)
    pairs = np.array([(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (2, 4)])
    graph = FactorGraph.from_arrays(np.full(5, 2), (pairs, differ), log=True)
    with pytest.raises(ZeroProbabilityError, match="contradict each other"):
        solve(graph, "soft-consistency(eliminate=0)")
    with pytest.raises(ZeroProbabilityError, match="contradict each other"):
        solve(graph)


def test_a_large_gap_counts_as_converged_with_a_large_tol():
    found = solve(dense_graph(1, 30), tol=1e6)
    assert found.status in (Status.CONVERGED, Status.OPTIMAL)


def test_same_seed_same_answer():
    one, two = (solve(dense_graph(5, 16), "soft-consistency(max_nodes=50)") for _ in range(2))
    assert one.log_z == two.log_z
    assert (one.assignment.indices == two.assignment.indices).all()


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 5])
@each_seed(range(40))
def test_reduction_keeps_the_maximum(seed: int, degree: int):
    graph = random_graph(seed, zeros=0.1)
    reduced = reduce_graph(graph, degree=degree, cycles=bool(seed % 2))
    truth = joint(graph).max()
    if reduced.constant == np.inf:
        assert truth == -np.inf
        return
    states = np.zeros(len(graph.variables), dtype=np.int64)
    total = reduced.constant
    for part in reduced.parts:
        best = np.inf
        for x in itertools.product(*map(range, np.diff(part.net.state_start))):
            cost = _cost(part, np.array(x))
            if cost < best:
                best, states[part.variables] = cost, x
        total += best
    assert -total == pytest.approx(truth, rel=1e-12, abs=1e-12)
    reduced.complete(states)
    assert graph.log_scores(states[None, :])[0] == pytest.approx(truth, rel=1e-12, abs=1e-12)


def _cost(part, x):
    net = part.net
    total = part.unary[net.state_start[:-1] + x].sum()
    for a in range(len(net.table_start)):
        edges = range(net.scope_start[a], net.scope_start[a + 1])
        total += net.tables[net.table_start[a] + sum(x[net.scope[e]] * net.stride[e] for e in edges)]
    return total


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda g: credo.infer(g, "soft-consistency"),
            UnsupportedError,
            "it gives MAP, and the question asks for marginals and log Z",
        ),
        (lambda g: solve(g, "soft-consistency(max_nodes=-1)"), OptionError, "max_nodes must be at least 0"),
        (lambda g: solve(g, "soft-consistency(eliminate=-1)"), OptionError, "eliminate must be at least 0"),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call(dense_graph(0, 3))


@pytest.mark.skipif(not FOLDER.is_dir(), reason="no shared data beside the repository")
@pytest.mark.parametrize(
    ("name", "best"),
    [("Segmentation_14", -92.33355605653588), ("ImageAlignment_12", -1005.4684758147887)],
)
def test_public_models_are_proven(name: str, best: float):
    found = solve(credo.load(FOLDER / f"{name}.uai.gz"))
    assert found.status is Status.OPTIMAL
    assert found.log_z.value == pytest.approx(best, rel=1e-9)
