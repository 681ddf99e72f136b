"""Graph cuts and expansion moves against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import credo
from credo.core.errors import OptionError, UnsupportedError, ZeroProbabilityError
from credo.core.result import Status
from inference.map_models import attractive, grid, metric, random_model
from random_models import joint

pytestmark = pytest.mark.filterwarnings("ignore::credo.core.errors.ConvergenceWarning")


def cut(graph, **rest):
    return credo.infer(graph, "graph-cut", maximise="all", **rest)


@pytest.mark.parametrize("flipped", [False, True], ids=["as given", "states exchanged"])
@pytest.mark.parametrize("zeros", [0.0, 0.3, 0.7])
def test_cuts_equal_enumeration_and_prove_it(zeros, flipped):
    for seed in range(25):
        graph = attractive(seed, zeros, flipped)
        result = cut(graph)
        assert result.status is Status.OPTIMAL
        assert result.log_z.kind == "exact"
        assert result.score.value == pytest.approx(joint(graph).max(), abs=1e-9)


def test_a_large_grid_is_solved_and_proven():
    rng = np.random.default_rng(0)
    at = np.arange(60 * 60).reshape(60, 60)
    across = np.stack([at[:, :-1].ravel(), at[:, 1:].ravel()], axis=1)
    down = np.stack([at[:-1].ravel(), at[1:].ravel()], axis=1)
    pairs = np.concatenate([across, down])
    tables = rng.random((len(pairs), 1, 1)) * np.eye(2)
    single = rng.standard_normal((3600, 2))
    graph = credo.FactorGraph.from_arrays(
        np.full(3600, 2), (at.reshape(-1, 1), single), (pairs, tables), log=True
    )
    assert cut(graph).status is Status.OPTIMAL


def test_ties_and_zero_couplings_are_no_obstacle():
    flat = credo.FactorGraph({"a": 2, "b": 2, "c": 2}, {("a", "b"): np.ones((2, 2)), "c": [1, 1]})
    assert cut(flat).assignment.indices.tolist() == [0, 0, 0]
    ranks = credo.FactorGraph({"a": 2, "b": 2}, {("a", "b"): np.outer([0.1, 0.7], [0.3, 0.9])})
    assert cut(ranks).assignment.indices.tolist() == [1, 1]


def test_evidence_and_zeros_may_leave_two_states_of_many():
    graph = credo.FactorGraph(
        {"a": 3, "b": 2, "c": 3},
        {("a",): [1, 0, 2], ("a", "b"): [[3, 1], [1, 1], [1, 2]], ("b", "c"): np.ones((2, 3))},
    )
    with pytest.raises(UnsupportedError, match=r"variable 'c' has 3 states, and cuts choose between two"):
        cut(graph)
    found = cut(graph, evidence={"c": 1})
    assert found.assignment.indices.tolist() == [2, 1, 1]
    assert found.log_z.value == pytest.approx(np.log(4))


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        ({("a", "b", "c"): np.ones(8)}, r"the factor over \['a', 'b', 'c'\] joins more than two"),
        (
            {("a", "b"): [[1, 2], [2, 1]], ("b", "c"): [[1, 2], [2, 1]], ("c", "a"): [[1, 2], [2, 1]]},
            r"the factor over \['b', 'c'\] closes a cycle with an odd number of repulsive factors",
        ),
    ],
)
def test_a_refusal_names_the_factor(factors, message):
    with pytest.raises(UnsupportedError, match=message):
        cut(credo.FactorGraph({"a": 2, "b": 2, "c": 2}, factors))


def test_other_tasks_and_contradictions_are_refused():
    graph = attractive(3)
    for name in ("graph-cut", "alpha-expansion"):
        with pytest.raises(
            UnsupportedError, match="it gives MAP, and the question asks for marginals and log Z"
        ):
            credo.infer(graph, name)
        never = credo.FactorGraph({"a": 2, "b": 2}, {("a",): [1, 0], ("a", "b"): [[0, 0], [1, 1]]})
        with pytest.raises((ZeroProbabilityError, UnsupportedError)):
            credo.infer(never, name, maximise="all")
    with pytest.raises(ZeroProbabilityError, match="weight zero"):
        cut(credo.FactorGraph({"a": 2, "b": 2}, {("a",): [1, 0], ("a", "b"): [[0, 0], [1, 1]]}))


@pytest.mark.parametrize("sweeps", [0, 20])
@pytest.mark.parametrize("states", [2, 3, 4])
def test_no_single_expansion_improves_the_result(states, sweeps):
    for seed in range(15):
        graph = metric(seed, states, zeros=0.3)
        weights = joint(graph)
        result = credo.infer(graph, f"alpha-expansion(sweeps={sweeps})", maximise="all")
        x = result.assignment.indices
        assert weights[tuple(x)] == pytest.approx(result.score.value, abs=1e-9)
        assert result.log_z.value >= weights.max() - 1e-9
        assert np.isfinite(result.score.value)
        for k in range(states):
            for mask in itertools.product([False, True], repeat=len(x)):
                assert weights[tuple(np.where(mask, k, x))] <= result.score.value + 1e-9
        if states == 2:
            assert result.score.value == pytest.approx(weights.max(), abs=1e-9)


@pytest.mark.parametrize("zeros", [0.0, 0.5])
def test_expansions_are_exact_for_two_states_with_infinite_pairs(zeros):
    for seed in range(40):
        graph = attractive(seed, zeros)
        found = credo.infer(graph, "alpha-expansion(sweeps=0)", maximise="all")
        assert found.score.value == pytest.approx(joint(graph).max(), abs=1e-9)


def test_the_score_never_falls_on_a_potts_grid():
    result = credo.infer(grid(20, 5, 0, potts=1.0), "alpha-expansion(sweeps=5)", maximise="all")
    assert (np.diff(result.trace["score"]) >= 0).all()
    assert result.score.value <= result.log_z.value


@pytest.mark.parametrize(
    ("sizes", "table", "message"),
    [
        ([2, 3], np.ones((2, 3)), "joins variables with different numbers of states"),
        ([3, 3], 2 - np.eye(3), "is no metric: an expansion move would not be a smallest cut"),
        ([2, 2], [[0, 1], [1, 0]], "is no metric"),
    ],
)
def test_pairs_that_are_no_metric_are_named(sizes, table, message):
    graph = credo.FactorGraph({"a": sizes[0], "b": sizes[1]}, {("a", "b"): table})
    with pytest.raises(UnsupportedError, match=rf"the factor over \['a', 'b'\] {message}"):
        credo.infer(graph, "alpha-expansion", maximise="all")


def test_wide_factors_and_wrong_options_are_refused():
    with pytest.raises(UnsupportedError, match="joins more than two variables"):
        credo.infer(random_model(0, 3), "alpha-expansion", maximise="all")
    with pytest.raises(OptionError, match="sweeps must be at least 0"):
        credo.infer(metric(0, 3), "alpha-expansion(sweeps=-1)", maximise="all")
