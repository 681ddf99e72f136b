"""Decimation: good states, never impossible ones, for MAP and marginal MAP."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo.core.errors import OptionError, UnsupportedError, ZeroProbabilityError
from credo.core.result import Status
from credo.inference.search.decimation import Decimation
from inference.map_models import grid, random_model
from random_models import joint
from zoo import TREES, case

pytestmark = pytest.mark.filterwarnings("ignore::credo.core.errors.ConvergenceWarning")


@pytest.mark.parametrize(("arity", "zeros"), [(2, 0.0), (2, 0.5), (3, 0.6)])
def test_its_states_are_possible_and_mostly_the_best(arity, zeros):
    best = 0
    for seed in range(30):
        graph = random_model(seed, arity, zeros)
        weights = joint(graph)
        result = credo.infer(graph, "decimation", maximise="all")
        assert result.log_z.kind == "lower"
        assert weights[tuple(result.assignment.indices)] == pytest.approx(result.score.value)
        assert -np.inf < result.score.value <= weights.max() + 1e-9
        best += result.score.value > weights.max() - 1e-9
    assert best >= 22


@pytest.mark.parametrize("tree", TREES, ids=lambda c: c.id)
def test_it_is_right_on_trees(tree):
    result = credo.infer(tree.graph, "decimation", maximise="all")
    assert result.score.value == pytest.approx(tree.log_weights.max(), rel=1e-9, abs=1e-9)


def test_marginal_map_is_valued_and_never_above_the_truth():
    best = 0
    for seed in range(20):
        graph = random_model(seed, 2, 0.3)
        some = graph.variables.names[:3]
        truth = credo.infer(graph, "enumerate", maximise=some).log_z.value
        result = credo.infer(graph, "decimation", maximise=some)
        assert set(result.assignment) == set(some)
        assert result.score.value <= truth + 1e-9
        best += result.score.value > truth - 1e-9
    assert best >= 14


def test_parity_checks_end_in_a_code_word():
    rng = np.random.default_rng(0)
    even = np.where(np.indices([2] * 4).sum(axis=0) % 2 == 0, 1.0, 0.0)
    n = 40
    checks = np.stack([rng.permutation(n)[:4] for _ in range(25)])
    single = rng.dirichlet([1, 1], size=n)
    graph = credo.FactorGraph.from_arrays(np.full(n, 2), (np.arange(n)[:, None], single), (checks, even))
    assert credo.infer(graph, "decimation(share=0.3)", maximise="all").score.value > -np.inf


def test_it_beats_plain_max_product_on_average_over_loopy_grids():
    gain = []
    for seed in range(6):
        graph = grid(10, 3, seed)
        plain = credo.infer(graph, "bp", maximise="all", max_iter=100).score.value
        gain.append(credo.infer(graph, "decimation", maximise="all").score.value - plain)
    assert np.mean(gain) > 0


@pytest.mark.parametrize(
    ("budget", "status"),
    [({"max_iter": 1}, Status.OUT_OF_ITERATIONS), ({"seconds": 0}, Status.OUT_OF_TIME)],
)
def test_a_short_budget_still_gives_possible_states(budget, status):
    stopped = 0
    for seed in range(10):
        result = credo.infer(random_model(seed, 3, 0.5), "decimation(share=0.01)", maximise="all", **budget)
        # Zeros may decide everything before the budget is used up.
        assert result.status in (status, Status.CONVERGED)
        stopped += result.status is status
        assert result.score.value > -np.inf
    assert stopped > 0


def test_ctrl_c_in_any_round_gives_possible_states(monkeypatch):
    real, calls = Decimation.believe, []

    def stop(*args):
        calls.append(1)
        if len(calls) % 3 == 0:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(Decimation, "believe", stop)
    graph = grid(6, 3, 0)
    result = credo.infer(graph, "decimation", maximise="all")
    assert result.status is Status.INTERRUPTED and len(result.trace["decided"]) == 2
    assert result.score.value == pytest.approx(graph.log_scores(result.assignment.indices[None])[0])


def test_contradictions_other_tasks_and_wrong_options_are_refused():
    graph = random_model(0)
    with pytest.raises(
        UnsupportedError, match="it gives MAP and marginal MAP, and the question asks for marginals and log Z"
    ):
        credo.infer(graph, "decimation")
    with pytest.raises(UnsupportedError, match="the question asks for powered sums"):
        credo.infer(graph, "decimation", maximise=["x0"], temperatures={"x1": 0.5})
    order = ["x0", *(n for n in graph.variables.names if n != "x0")]
    with pytest.raises(UnsupportedError, match="the question asks for powered sums in a given order"):
        credo.infer(graph, "decimation", maximise=["x0"], order=order)
    with pytest.raises(ZeroProbabilityError, match="the evidence has probability zero"):
        evidence = {"x0": 0, "x1": 0, "x2": 1}
        credo.infer(case("xor").graph, "decimation", maximise="all", evidence=evidence)
    for option, message in (
        ("share=2", r"share must be in \[0, 1\)"),
        ("sweeps=0", "sweeps must be at least 1"),
        ("damping=1", r"damping must be in \[0, 1\)"),
    ):
        with pytest.raises(OptionError, match=message):
            credo.infer(graph, f"decimation({option})", maximise="all")
