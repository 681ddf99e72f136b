"""Branch and bound: equal to elimination when it ends, a bracket of the truth whenever it is cut."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np
import pytest

import credo
from conformance.oracle import Oracle
from credo.core.errors import ConvergenceWarning, OptionError, UnsupportedError, ZeroProbabilityError
from credo.core.factor import TableFactor
from credo.core.factor_graph import FactorGraph
from credo.core.result import Status
from credo.core.variable import Variable
from credo.inference.search import branch_and_bound
from seeds import each_seed
from zoo import ZOO

KINDS = ["depth-first", "best-first"]


def random_graph(rng: np.random.Generator, n: int, zeros: float = 0.1) -> FactorGraph:
    """Up to three states and three variables per factor; parts may be disconnected."""
    variables = [Variable(f"x{i}", int(rng.integers(1, 4))) for i in range(n)]
    factors = []
    for _ in range(int(rng.integers(n, 2 * n))):
        scope = [variables[i] for i in rng.choice(n, int(rng.integers(1, 4)), replace=False)]
        table = np.exp(2 * rng.standard_normal([v.size for v in scope]))
        factors.append(TableFactor(scope, np.where(rng.random(table.shape) < zeros, 0, table)))
    return FactorGraph(variables, factors)


def frustrated_grid(size: int, seed: int) -> FactorGraph:
    """A grid of two-state variables with couplings of both signs."""
    rng = np.random.default_rng(seed)
    at = np.arange(size * size).reshape(size, size)
    pairs = np.concatenate(
        [np.stack([at[:, :-1].ravel(), at[:, 1:].ravel()], 1), np.stack([at[:-1].ravel(), at[1:].ravel()], 1)]
    )
    alone = at.reshape(-1, 1)
    return FactorGraph.from_arrays(
        np.full(size * size, 2),
        (pairs, rng.standard_normal((len(pairs), 2, 2))),
        (alone, 0.2 * rng.standard_normal((len(alone), 2))),
        log=True,
    )


def quietly(*args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return credo.infer(*args, **kwargs)


@pytest.fixture
def poor(monkeypatch):
    """Loose bounds and no first assignment, so that there is something left to search."""
    monkeypatch.setattr(branch_and_bound, "_BOUND_SWEEPS", 0)
    monkeypatch.setattr(branch_and_bound._Search, "_guess", lambda search: None)
    monkeypatch.setattr(branch_and_bound.StateSearch, "ask_messages", _asked)


def _asked(search):
    search.has_asked = True


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", [c for c in ZOO if c.names], ids=lambda c: c.id)
def test_the_zoo_is_solved(case, kind, poor):
    truth = Oracle(case)
    spec = f"branch-and-bound(search={kind}, log2_table=1, local=False)"
    for chosen in ("all", case.names[::2], case.names[:1]):
        result = credo.infer(case.graph, spec, maximise=chosen, seed=0)
        names = case.names if chosen == "all" else chosen
        expected = truth.marginal_map(names)
        assert result.status is Status.OPTIMAL and result.log_z.kind == "exact"
        assert result.log_z.value == pytest.approx(expected, rel=1e-9, abs=1e-9)
        states = {n: result.assignment.index(n) for n in names}
        assert truth.value_of(states) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@each_seed(range(12))
def test_random_models_equal_elimination_and_every_cut_brackets_the_truth(seed, kind, poor):
    rng = np.random.default_rng(seed)
    for trial in range(3):
        n = int(rng.integers(6, 15))
        graph = random_graph(rng, n)
        names = list(graph.variables.names)
        chosen = "all" if trial == 0 else rng.choice(names, int(rng.integers(1, n)), replace=False).tolist()
        spec = f"branch-and-bound(search={kind}, log2_table=2, local=False"
        try:
            truth = credo.infer(graph, "junction-tree", maximise=chosen).log_z.value
        except ZeroProbabilityError:
            with pytest.raises(ZeroProbabilityError, match="contradict each other"):
                quietly(graph, spec + ")", maximise=chosen, seed=0)
            continue
        result = credo.infer(graph, spec + ")", maximise=chosen, seed=0)
        assert result.status is Status.OPTIMAL
        assert result.log_z.value == pytest.approx(truth, rel=1e-9, abs=1e-9)
        assert result.score.value == pytest.approx(truth, rel=1e-9, abs=1e-9)
        for nodes in (1, 2, 3, 5, 8, 13, 30):
            cut = quietly(graph, spec + f", max_nodes={nodes})", maximise=chosen, seed=0)
            assert cut.log_z.value >= truth - 1e-9 >= cut.score.value - 2e-9
            assert cut.log_z.kind == ("exact" if cut.status is Status.OPTIMAL else "upper")


@pytest.mark.parametrize("kind", KINDS)
def test_cuts_of_a_frustrated_grid_bracket_the_truth_and_tighten(kind, poor):
    graph = frustrated_grid(7, 4)
    for chosen in ("all", list(graph.variables.names)[::3]):
        truth = credo.infer(graph, "junction-tree", maximise=chosen).log_z.value
        spec = f"branch-and-bound(search={kind}, log2_table=3, local=False"
        for nodes in (1, 10, 100, 1000):
            cut = quietly(graph, spec + f", max_nodes={nodes})", maximise=chosen, seed=0)
            assert cut.log_z.value >= truth - 1e-9 >= cut.score.value - 2e-9
        found = quietly(graph, spec[: spec.index(", log2")] + ")", maximise=chosen, seed=0)
        assert found.status is Status.OPTIMAL
        assert found.log_z.value == pytest.approx(truth, rel=1e-9)


def test_a_small_cache_changes_nothing(monkeypatch, poor):
    monkeypatch.setattr(branch_and_bound, "_CACHE", 1)
    for seed in range(5):
        graph = random_graph(np.random.default_rng(100 + seed), 12, zeros=0.0)
        truth = credo.infer(graph, "junction-tree", maximise="all").log_z.value
        found = credo.infer(graph, "branch-and-bound(log2_table=2, local=False)", maximise="all")
        assert found.log_z.value == pytest.approx(truth, rel=1e-9)


def test_full_memory_hands_over_to_depth_first(monkeypatch, poor):
    monkeypatch.setattr(branch_and_bound, "_NODES", 8)
    graph = frustrated_grid(5, 4)
    truth = credo.infer(graph, "junction-tree", maximise="all").log_z.value
    found = credo.infer(
        graph, "branch-and-bound(search=best-first, log2_table=2, local=False)", maximise="all"
    )
    assert found.status is Status.OPTIMAL and found.log_z.value == pytest.approx(truth, rel=1e-9)
    assert "depth first" in found.notes[0]


@pytest.mark.parametrize("kind", KINDS)
def test_small_portions_of_work_change_nothing(kind, monkeypatch, poor):
    monkeypatch.setattr(branch_and_bound, "_WORK", 50)
    graph = random_graph(np.random.default_rng(7), 12, zeros=0.05)
    truth = credo.infer(graph, "junction-tree", maximise=["x0", "x3", "x5", "x7"]).log_z.value
    spec = f"branch-and-bound(search={kind}, log2_table=2)"
    found = credo.infer(graph, spec, maximise=["x0", "x3", "x5", "x7"], max_iter=10**6)
    assert found.status is Status.OPTIMAL and found.log_z.value == pytest.approx(truth, rel=1e-9)
    assert (found.trace["bound"] >= truth - 1e-9).all() and (np.diff(found.trace["bound"]) <= 1e-12).all()
    assert (found.trace["score"] <= truth + 1e-9).all()


def test_other_temperatures_below_the_maximum():
    graph = random_graph(np.random.default_rng(11), 9, zeros=0.0)
    heat = {"x0": 0.0, "x1": 0.0, "x4": 0.0, "x2": 0.5, "x3": 2.0}
    truth = credo.infer(graph, "junction-tree", temperatures=heat).log_z.value
    found = credo.infer(graph, "branch-and-bound(log2_table=2)", temperatures=heat, seed=0)
    assert found.log_z.value == pytest.approx(truth, rel=1e-9)


def test_evidence_is_respected_and_contradictions_are_named():
    graph = credo.FactorGraph(
        {"a": 2, "b": 2, "c": 3}, {("a", "b"): [[0, 1], [1, 0]], ("b", "c"): [[1, 2, 3], [4, 5, 1]]}
    )
    found = credo.infer(graph, "branch-and-bound", evidence={"a": 1}, maximise="all")
    assert (found.assignment.index("a"), found.assignment.index("b"), found.assignment.index("c")) == (
        1,
        0,
        2,
    )
    with pytest.raises(ZeroProbabilityError, match="evidence has probability zero"):
        credo.infer(graph, "branch-and-bound", evidence={"a": 1, "b": 1}, maximise="all")


def test_no_time_still_gives_a_bracket():
    graph = credo.datasets.ising_grid(12, seed=0).to_factor_graph()
    truth = credo.infer(graph, "junction-tree", maximise="all").log_z.value
    result = quietly(graph, "branch-and-bound", maximise="all", seconds=0, seed=0)
    assert result.log_z.value >= truth - 1e-9 >= result.score.value - 2e-9
    result = quietly(graph, "branch-and-bound", maximise="all", max_iter=0, seed=0)
    assert result.log_z.value >= truth - 1e-9 >= result.score.value - 2e-9


@pytest.mark.parametrize("part", ["_bound", "_explore", "_tighten", "_aside"])
def test_ctrl_c_anywhere_returns_a_bracket(part, monkeypatch, poor):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(branch_and_bound, "_WORK", 50)
    monkeypatch.setattr(branch_and_bound._Search, part, stop)
    graph = frustrated_grid(7, 4)
    truth = credo.infer(graph, "junction-tree", maximise="all").log_z.value
    result = quietly(graph, "branch-and-bound(log2_table=2)", maximise="all", seed=0)
    assert result.status is Status.INTERRUPTED
    assert result.log_z.value >= truth - 1e-9 >= result.score.value - 2e-9


def test_what_cannot_be_searched_is_refused_in_a_sentence():
    graph = credo.FactorGraph({"a": 2, "b": 2}, {("a", "b"): [[1, 2], [3, 4]]})
    with pytest.raises(
        UnsupportedError,
        match="it gives MAP, marginal MAP and powered sums, and the question asks for marginals",
    ):
        credo.infer(graph, "branch-and-bound")
    with pytest.raises(OptionError, match="search"):
        credo.infer(graph, "branch-and-bound(search=sideways)", maximise="all")
    with pytest.raises(OptionError, match="max_nodes"):
        credo.infer(graph, "branch-and-bound(max_nodes=-1)", maximise="all")


FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "uai14" / "MMAP"


@pytest.mark.skipif(not FOLDER.is_dir(), reason="no shared data beside the repository")
@pytest.mark.parametrize("name", ["Segmentation_12", "Segmentation_16"])
def test_public_marginal_map_models_are_proven(name):
    from credo.io.uai_results import read_evidence, read_query

    model = credo.load(FOLDER / f"{name}.uai.gz")
    evidence = read_evidence(FOLDER / f"{name}.uai.evid", model.variables)
    query = read_query(FOLDER / f"{name}.uai.query", model.variables)
    exact = credo.infer(model, "junction-tree", evidence=evidence, maximise=query).log_z.value
    spec = "branch-and-bound(log2_table=10, local=False)"
    found = quietly(model, spec, evidence=evidence, maximise=query, seed=0, max_iter=50)
    assert found.log_z.value >= exact - 1e-8 >= found.score.value - 2e-8
    assert math.isfinite(found.gap)
