"""Weighted mini-bucket: bounds at every iteration, derivatives, identities."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import credo
from credo.core.errors import ConvergenceWarning, OptionError, UnsupportedError
from credo.core.registry import describe
from credo.core.result import Status
from credo.datasets.distributions import Normal
from credo.inference.bounds.bucket_passes import bucket_passes, first_weights
from credo.inference.bounds.bucket_weights import reweigh
from credo.inference.bounds.mini_bucket import MiniBucket
from credo.inference.bounds.wmb import WMB
from credo.inference.problem.base import Budget, Problem
from inference.bucket_models import HEATS, powered, problem, random_graph

SLACK = 1e-9
LINKAGE = Path(__file__).resolve().parents[3] / "shared" / "data" / "uai08" / "linkage"
RNG = np.random.default_rng(0)
UPPER = [
    WMB(ibound=1),
    WMB(ibound=2, max_entries=8),
    WMB(ibound=1, adapt=False),
    WMB(ibound=1, adapt=False, damping=0.05),
    WMB(ibound=1, update="gradient"),
    WMB(ibound=1, weights="even", adapt=False),
]


def _grid(seed: int, n: int = 5) -> credo.FactorGraph:
    return credo.datasets.ising_grid(n, seed=seed, field=Normal(1.4), coupling=Normal(1.4)).to_factor_graph()


def _sum_problem(graph: credo.FactorGraph) -> Problem:
    n = len(graph.variables)
    return Problem(graph, np.ones(n), np.zeros(n, dtype=np.int64))


@contextmanager
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def _bucket_sums(passes, weight: np.ndarray) -> np.ndarray:
    return np.bincount(passes.buckets.variable, weights=weight, minlength=len(passes.temperatures))


@pytest.mark.parametrize("kind", HEATS)
@pytest.mark.parametrize("method", UPPER, ids=describe)
def test_the_bound_holds_at_every_iteration(method: WMB, kind: str):
    for seed in range(20):
        asked = problem(random_graph(seed), kind, seed)
        truth = powered(asked)
        state = method.start(asked, RNG)
        many = asked.graph.variables.sizes > 1
        for _ in range(8):
            assert state.tables.value >= truth - SLACK, seed
            assert not np.isnan(state.tables.theta).any()
            assert (state.tables.theta < np.inf).all()
            sums = _bucket_sums(state.passes, state.tables.weight)
            np.testing.assert_allclose(sums[many], asked.temperatures[many], rtol=1e-12, atol=0)
            assert (state.tables.weight >= 0).all()
            state, _ = method.step(asked, state)
        assert (state.bounds >= truth - SLACK).all()
        assert state.best.value == min([*state.bounds, method.start(asked, RNG).tables.value])
        found = method.read(asked, state, Status.OUT_OF_ITERATIONS)
        assert found.score is None or found.score.value <= truth + SLACK
        if found.log_z.kind == "exact":
            assert found.log_z.value == pytest.approx(truth, abs=1e-8)


@pytest.mark.parametrize(
    "method", [WMB(ibound=1, bound="lower"), WMB(ibound=1, bound="lower", adapt=False)], ids=describe
)
def test_lower_bounds_hold_at_every_iteration(method: WMB):
    finite = 0
    for seed in range(80):
        asked = problem(random_graph(seed), "sum", seed)
        if seed % 2:
            heat = np.random.default_rng(seed).choice([0.3, 1.0, 2.0], len(asked.temperatures))
            asked = Problem(asked.graph, heat, np.unique(-heat, return_inverse=True)[1].astype(np.int64))
        truth = powered(asked)
        state = method.start(asked, RNG)
        many = asked.graph.variables.sizes > 1
        for _ in range(10):
            sums = _bucket_sums(state.passes, state.tables.weight)
            np.testing.assert_allclose(sums[many], asked.temperatures[many], rtol=1e-9)
            state, _ = method.step(asked, state)
        assert (state.bounds <= truth + SLACK).all()
        finite += bool(np.isfinite(state.bounds).all())
        assert -np.inf < method.read(asked, state, Status.CONVERGED).log_z.value <= truth + SLACK
    assert finite > 30


def test_the_model_is_only_reparameterised():
    for seed in range(10):
        asked = problem(random_graph(seed), "mixed", seed)
        method = WMB(ibound=1)
        state = method.start(asked, RNG)
        for _ in range(6):
            state, _ = method.step(asked, state)
        buckets = state.passes.buckets
        for _ in range(5):
            x = np.array([RNG.integers(d) for d in asked.graph.variables.sizes])
            value = state.passes.constant
            for c in range(len(buckets)):
                axes = slice(buckets.scope_start[c], buckets.scope_start[c + 1])
                value += state.tables.theta[
                    buckets.table_start[c] + int((buckets.stride[axes] * x[buckets.scope[axes]]).sum())
                ]
            assert value == pytest.approx(float(asked.graph.log_scores(x[None])[0]), abs=1e-9)


def test_beliefs_and_entropies_are_the_derivatives_of_the_bound():
    asked = _sum_problem(_grid(0, 3))
    passes = bucket_passes(asked, 1, 2**16)
    rng = np.random.default_rng(1)
    weight = first_weights(passes, "upper", split=True) * rng.uniform(0.5, 1.5, len(passes.buckets))
    tables = passes.evaluate(passes.theta, weight)
    _, entropy, _ = passes.backward(tables, 1.0)
    h = 1e-6
    for c in range(len(weight)):
        moved = weight.copy()
        moved[c] += h
        up = passes.evaluate(passes.theta, moved).value
        moved[c] -= 2 * h
        slope = (up - passes.evaluate(passes.theta, moved).value) / (2 * h)
        assert slope == pytest.approx(entropy[c], abs=1e-7)


def test_weights_tau_and_zeros_are_mini_bucket_elimination():
    for seed in range(20):
        for kind in HEATS:
            asked = problem(random_graph(seed), kind, seed)
            passes = bucket_passes(asked, 1, 2**16)
            weight = first_weights(passes, "upper", split=False)
            found = MiniBucket(ibound=1).run(asked, Budget(), RNG).log_z.value
            assert passes.evaluate(passes.theta, weight).value == pytest.approx(found, abs=1e-12)


@pytest.mark.parametrize("kind", HEATS)
def test_enough_room_makes_it_exact(kind: str):
    for seed in range(20):
        asked = problem(random_graph(seed), kind, seed)
        found = WMB(ibound=20, max_entries=2**20).run(asked, Budget(), RNG)
        assert found.status is Status.EXACT
        assert found.log_z.value == pytest.approx(powered(asked), rel=1e-10, abs=1e-10)


def test_adapted_steps_make_the_bound_monotone_and_raw_ones_need_not():
    rises = 0
    for seed in range(5):
        graph = _grid(seed)
        names = graph.variables.names
        for maximise in ((), "all", names[::2]):
            with _quiet():
                adapted = credo.infer(graph, "wmb(ibound=1)", maximise=maximise, max_iter=30)
                raw = credo.infer(graph, "wmb(ibound=1, adapt=false)", maximise=maximise, max_iter=30)
            best = np.minimum.accumulate(adapted.trace["bound"])
            assert best[-1] == pytest.approx(adapted.log_z.value, abs=1e-9)
            assert raw.log_z.value == pytest.approx(raw.trace["bound"].min(), abs=1e-9)
            rises += bool((np.diff(raw.trace["bound"]) > 1e-9).any())
    assert rises  # the reason why there is an option


def test_larger_tables_end_no_looser():
    for seed in range(4):
        graph = _grid(seed)
        for maximise in ((), "all", graph.variables.names[::2]):
            ends = []
            for ibound in (1, 3, 5):
                with _quiet():
                    run = credo.infer(graph, f"wmb(ibound={ibound})", maximise=maximise, max_iter=100)
                ends.append(run.log_z.value)
            assert ends[0] >= ends[1] - 1e-6 and ends[1] >= ends[2] - 1e-6, (seed, ends)


def test_weight_steps_lower_the_bound():
    worse = 0
    for seed in range(10):
        asked = _sum_problem(_grid(seed, 4))
        passes = bucket_passes(asked, 1, 2**16)
        weight = first_weights(passes, "upper", split=True)
        old = passes.evaluate(passes.theta, weight)
        entropy = passes.backward(old, 1.0)[1]
        for rate in (0.01, 0.3):
            new = passes.evaluate(passes.theta, reweigh(passes, weight, entropy, rate, 0.002, lower=False))
            worse += new.value > old.value
    assert worse == 0


def test_map_on_an_attractive_grid_is_proven():
    graph = credo.datasets.ising_grid(6, seed=1, coupling=0.3).to_factor_graph()
    found = credo.infer(graph, "wmb(ibound=3)", maximise="all")
    assert found.status in (Status.OPTIMAL, Status.EXACT)
    assert found.log_z.kind == "exact"
    assert found.score.value == pytest.approx(credo.infer(graph, "junction-tree", maximise="all").log_z.value)


def test_nothing_done_is_already_a_bound():
    graph = _grid(0)
    truth = credo.infer(graph, "junction-tree").log_z.value
    for question in ({"max_iter": 0}, {"seconds": 0.0}):
        with pytest.warns(ConvergenceWarning):
            assert credo.infer(graph, "wmb(ibound=1)", **question).log_z.value >= truth


@pytest.mark.skipif(not LINKAGE.is_dir(), reason="no shared data beside the repository")
def test_a_pedigree_with_zeros_is_bounded():
    graph = credo.load(str(LINKAGE / "pedigree1.erg.gz")).to_factor_graph()
    with _quiet():
        total = credo.infer(graph, "wmb", max_iter=20).log_z
        best = credo.infer(graph, "wmb", maximise="all", max_iter=20)
    truth = credo.infer(graph, "junction-tree").log_z.value
    top = credo.infer(graph, "junction-tree", maximise="all").log_z.value
    assert truth - SLACK <= total.value <= truth + 2.0
    assert top - SLACK <= best.log_z.value <= top + 1.0
    assert -np.inf < best.score.value <= top + SLACK


def test_refusals_are_sentences():
    graph = _grid(0)
    with pytest.raises(UnsupportedError, match="bounded from below by the score of any assignment"):
        credo.infer(graph, "wmb(bound=lower)", maximise=[graph.variables.names[0]])
    for options, message in (
        ({"damping": 1.5}, "damping must be in"),
        ({"bound": "both"}, "bound must be one of"),
        ({"update": "newton"}, "update must be one of"),
        ({"weights": "odd"}, "weights must be one of"),
        ({"rate": -1}, "rate must be at least 0"),
        ({"floor": 1.0}, "floor must be in"),
        ({"ibound": -1}, "ibound must be at least 0"),
        ({"max_entries": 0}, "max_entries must be at least 1"),
    ):
        with pytest.raises(OptionError, match=message):
            WMB(**options)
