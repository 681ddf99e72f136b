"""Mini-bucket elimination and reordering: bounds against enumeration, and what ties them to exact methods."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import credo
from credo.core.errors import OptionError, TooLargeError, UnsupportedError, ZeroProbabilityError
from credo.core.result import Status
from credo.inference.bounds.bucket_choice import _early_value, tightest_passes
from credo.inference.bounds.bucket_passes import bucket_passes, first_weights
from credo.inference.bounds.mini_bucket import MiniBucket
from credo.inference.bounds.reordering import Reordering
from credo.inference.portfolio.question import pose
from credo.inference.problem.base import Budget, Problem
from credo.inference.problem.reading import refusal
from inference.bucket_models import HEATS, powered, problem, random_graph

SLACK = 1e-9


def _run(method, asked: Problem):
    return method.run(asked, Budget(), np.random.default_rng(0))


@pytest.mark.parametrize("kind", HEATS)
def test_upper_bounds_hold_on_random_models(kind: str):
    for seed in range(60):
        asked = problem(random_graph(seed), kind, seed)
        truth = powered(asked)
        for method in (
            MiniBucket(ibound=1),
            MiniBucket(ibound=1, matching=True),
            MiniBucket(ibound=2, max_entries=8),
            Reordering(ibound=1),
            Reordering(ibound=20, max_entries=2**20),
        ):
            if refusal(method, asked) is not None:
                assert isinstance(method, Reordering) and kind == "odd order"
                continue
            found = _run(method, asked)
            assert found.log_z.value >= truth - SLACK, (seed, method)
            if found.log_z.kind == "exact":
                assert found.log_z.value == pytest.approx(truth, abs=1e-8), (seed, method)
            if found.score is not None:
                assert found.score.value <= truth + SLACK, (seed, method)


def test_lower_bounds_hold_on_random_models():
    finite = 0
    for seed in range(80):
        asked = problem(random_graph(seed), "sum", seed)
        heat = np.random.default_rng(seed).choice([0.3, 1.0, 2.0], len(asked.temperatures))
        asked = replace(asked, temperatures=heat, levels=np.unique(-heat, return_inverse=True)[1])
        truth = powered(asked)
        for method in (
            MiniBucket(ibound=1, bound="lower"),
            MiniBucket(bound="lower", ibound=1, matching=True),
        ):
            value = _run(method, asked).log_z.value
            assert -np.inf < value <= truth + SLACK, (seed, method)
            passes = bucket_passes(asked, 1, 2**16)
            weight = first_weights(passes, "lower", split=method.matching)
            raw = passes.evaluate(passes.theta, weight).value
            assert raw <= truth + SLACK
            finite += raw > -np.inf
    assert finite > 40  # or the minima were never tried


@pytest.mark.parametrize("kind", HEATS)
def test_enough_room_makes_it_exact(kind: str):
    for seed in range(20):
        asked = problem(random_graph(seed), kind, seed)
        found = _run(MiniBucket(ibound=20, max_entries=2**20), asked)
        assert found.status is Status.EXACT and found.log_z.kind == "exact"
        assert found.log_z.value == pytest.approx(powered(asked), rel=1e-10, abs=1e-10)


def test_reordering_bounds_marginal_map_from_above_and_is_not_exact():
    graph = credo.FactorGraph(
        {"a": 2, "b": 2, "c": 2}, {("a", "b"): [[3, 1], [2, 2.5]], ("b", "c"): np.ones((2, 2))}
    )
    truth = credo.infer(graph, "junction-tree", maximise=["b"]).log_z.value
    found = credo.infer(graph, "reordering", maximise=["b"])
    assert found.log_z.value >= truth - SLACK
    assert found.log_z.kind in ("upper", "exact")
    assert set(found.assignment) == {"b"}


def test_a_free_order_is_narrower_and_the_value_larger():
    gaps = []
    for seed in range(40):
        asked = problem(random_graph(seed), "mixed", seed)
        found = _run(Reordering(ibound=20, max_entries=2**20), asked)
        gaps.append(found.log_z.value - powered(asked))
    assert min(gaps) >= -SLACK and max(gaps) > 0.05


def test_matching_tightens_on_the_whole():
    plain, matched = [], []
    for seed in range(10):
        graph = credo.datasets.ising_grid(6, seed=seed).to_factor_graph()
        for maximise in ((), "all"):
            plain.append(credo.infer(graph, "mini-bucket(ibound=2)", maximise=maximise).log_z.value)
            matched.append(
                credo.infer(graph, "mini-bucket(ibound=2, matching=true)", maximise=maximise).log_z.value
            )
    assert np.mean(matched) < np.mean(plain)


@pytest.mark.filterwarnings("ignore::credo.core.errors.ConvergenceWarning")
def test_limits_that_split_worse_give_way_to_lower_ones():
    """Sums and maxima of this 5x5 grid: 5 variables joined bound worse than 4 do."""
    graph = credo.datasets.ising_grid(5, seed=202).to_factor_graph()
    rng = np.random.default_rng(1)
    names = [n for n in graph.variables.names if rng.random() < 0.5]
    _, asked = pose(graph, None, names)
    for rounds in (0, 10):
        plain = [_early_value(bucket_passes(asked, k, 2**20), "upper", rounds, matching=True) for k in (3, 4)]
        assert plain[1] > plain[0] + 0.3
    assert tightest_passes(asked, 4, 2**20).limits == (3, 2**20)
    found = [credo.infer(graph, f"gdd(ibound={k})", maximise=names, max_iter=50).log_z.value for k in (3, 4)]
    assert found[1] == pytest.approx(found[0])
    entries = tightest_passes(asked, None, 32).limits[1]
    assert entries in (32, 16, 8)


def test_a_bound_of_zero_proves_a_contradiction():
    never = credo.FactorGraph({"a": 2, "b": 2}, {("a",): [1, 0], ("a", "b"): [[0, 0], [1, 1]]})
    for spec in ("mini-bucket", "mini-bucket(bound=lower)", "reordering", "wmb", "wmb(bound=lower)"):
        with pytest.raises(ZeroProbabilityError, match="its factors contradict each other"):
            credo.infer(never, spec)


def test_refusals_are_sentences():
    graph = credo.datasets.asia().to_factor_graph()
    with pytest.raises(UnsupportedError, match="bounded from below by the score of any assignment"):
        credo.infer(graph, "mini-bucket(bound=lower)", maximise="all")
    with pytest.raises(UnsupportedError, match="the question asks for joint tables"):
        credo.query(graph, "smoke", method="mini-bucket")
    with pytest.raises(UnsupportedError, match="the question asks for powered sums in a given order"):
        names = graph.variables.names
        credo.infer(graph, "reordering", temperatures={names[0]: 0.0}, order=names)
    with pytest.raises(OptionError, match="bound must be one of"):
        MiniBucket(bound="both")
    with pytest.raises(OptionError, match="ibound must be at least 0"):
        Reordering(ibound=-1)
    with pytest.raises(OptionError, match="max_entries must be at least 1"):
        MiniBucket(max_entries=0)


def test_tables_beyond_the_memory_are_refused(monkeypatch):
    monkeypatch.setattr("credo.inference.bounds.bucket_passes.machine_gigabytes", lambda: 1e-6)
    with pytest.raises(
        TooLargeError, match="more than half of this machine's memory; lower ibound or max_entries"
    ):
        credo.infer(credo.datasets.ising_grid(6, seed=0), "mini-bucket")


@pytest.mark.filterwarnings("ignore::credo.core.errors.ConvergenceWarning")
def test_a_lower_bound_is_never_called_optimal():
    grid = credo.datasets.ising_grid(3, seed=0)
    exact = credo.infer(grid, "junction-tree", maximise=["x0"], evidence={"x0": 0}).log_z.value
    for method in ("mini-bucket(ibound=1, bound=lower)", "wmb(ibound=1, bound=lower)"):
        found = credo.infer(grid, method, maximise=["x0"], evidence={"x0": 0})
        assert found.log_z.kind == "lower" and found.log_z.value < exact - 0.1
        assert found.status is not Status.OPTIMAL


def test_impossible_models_are_told_when_costs_are_shifted():
    graph = credo.FactorGraph(
        {"a": 2, "b": 2, "c": 2},
        {("a", "b"): np.ones((2, 2)), ("b", "c"): np.zeros((2, 2)), ("a", "c"): np.eye(2)},
    )
    for method in (
        "mini-bucket(ibound=1)",
        "mini-bucket(ibound=1, matching=True)",
        "reordering(ibound=1, matching=True)",
    ):
        with pytest.raises(ZeroProbabilityError):
            credo.infer(graph, method)
