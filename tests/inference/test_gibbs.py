"""Gibbs sampling: discrete, Gaussian, hybrid and simplex models against exact answers; refusals."""

from __future__ import annotations

import signal
import warnings

import numpy as np
import pytest

import credo
import hybrid_zoo
from conformance.oracle import Oracle
from credo import potentials
from credo.core.belief import PointMass
from credo.core.errors import (
    ConvergenceWarning,
    ModelError,
    OptionError,
    TooLargeError,
    UnsupportedError,
    ZeroProbabilityError,
)
from credo.core.result import Status
from credo.inference.problem import gaussian_system
from credo.inference.problem.base import Problem
from credo.inference.sampling import chains, starts
from credo.inference.sampling.table_chains import TableEngine
from credo.optimise.pace import Pace
from zoo import case


def errors_of(result, truth: Oracle) -> list[float]:
    """Deviations of marginals in standard errors."""
    names = truth.case.names
    errors = dict(zip(names, result.diagnostics["mcse"], strict=True))
    gaps = {n: np.abs(result.marginals[n] - truth.joint([n])).max() for n in names}
    return [gaps[n] / errors[n] if errors[n] > 0 else gaps[n] * 1e9 for n in names]


@pytest.mark.parametrize("name", ["grid 3x3", "three-way factors", "tree with zeros", "shared tables"])
@pytest.mark.parametrize("method", ["gibbs", "metropolis"])
def test_frequencies_of_discrete_models_are_right_within_their_errors(method: str, name: str):
    problem = case(name)
    result = credo.infer(problem.graph, method, max_iter=4000, seed=2)
    assert result.status is Status.CONVERGED
    assert max(errors_of(result, Oracle(problem))) < 5
    assert result.log_z is None
    assert result.samples.indices.shape == (16000, len(problem.names))


@pytest.mark.parametrize("method", ["gibbs", "metropolis"])
def test_joint_draws_have_the_right_frequencies_and_no_impossible_state(method: str):
    problem = case("tree with zeros")
    p = Oracle(problem).probabilities
    rows = credo.infer(problem.graph, method, max_iter=4000, seed=3).samples.indices
    cell = np.ravel_multi_index(tuple(rows.T), p.shape)
    found = np.bincount(cell, minlength=p.size).reshape(p.shape) / len(rows)
    assert not found[p == 0].any()
    assert np.abs(found - p).max() < 0.03


@pytest.mark.parametrize("method", ["gibbs", "metropolis"])
def test_chains_cut_off_by_zeros_disagree_and_the_notes_say_why(method: str):
    with pytest.warns(ConvergenceWarning, match=r"the chains do not agree yet \(R-hat of 'x0' is inf"):
        result = credo.infer(case("xor").graph, method, seed=0)
    assert result.status is Status.OUT_OF_ITERATIONS
    assert np.isinf(result.diagnostics["r_hat"]).all()
    assert "the chains do not agree yet" in result.notes[1]
    assert "some weights are zero" in result.notes[3] and "'x0', 'x1', 'x2'] never moved" in result.notes[3]


def test_a_seed_repeats_the_draws_and_another_gives_others():
    graph = case("grid 3x3").graph
    first, again, other = (
        credo.infer(graph, "gibbs", seed=s, max_iter=400).samples.indices for s in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_observed_states_stay_and_soft_evidence_weighs():
    problem = case("grid 3x3")
    evidence = problem.evidences["several"]
    result = credo.infer(problem.graph, "gibbs", evidence=evidence, max_iter=4000, seed=0)
    truth = Oracle(problem, evidence)
    for name in problem.names:
        np.testing.assert_allclose(result.marginals[name], truth.joint([name]), atol=0.03)
    for name, state in evidence.items():
        if not isinstance(state, list):
            assert (result.samples.column(name) == state).all()


def test_a_hybrid_model_agrees_with_enumeration_and_quadrature():
    model = hybrid_zoo.switching_loop()
    result = credo.infer(model, "gibbs", seed=0, max_iter=4000)
    hybrid_zoo.within_errors(result, hybrid_zoo.truth(model))
    again = credo.infer(model, "gibbs", seed=0, max_iter=4000)
    np.testing.assert_array_equal(result.samples.column("x"), again.samples.column("x"))
    # The joint: how the switches go with the signs of their emissions.
    s, x = result.samples.column("s"), result.samples.column("x")
    assert np.corrcoef(s, x)[0, 1] == pytest.approx(_correlation(model), abs=0.05)


def _correlation(model: credo.HybridNet) -> float:
    points = np.linspace(-12, 12, 241)
    mesh = np.meshgrid(np.arange(2), points, np.arange(3), points, indexing="ij", sparse=True)
    p = np.exp(model.to_factor_graph().log_scores(dict(zip(["s", "x", "t", "y"], mesh, strict=True))))
    p = p.sum(axis=(2, 3)) / p.sum()
    s, x = mesh[0][..., 0, 0], mesh[1][..., 0, 0]
    mean = [(p * v).sum() for v in (s, x)]
    spread = [np.sqrt((p * (v - m) ** 2).sum()) for v, m in zip((s, x), mean, strict=True)]
    return float((p * (s - mean[0]) * (x - mean[1])).sum() / np.prod(spread))


def test_gaussian_models_have_exact_conditionals_and_moments_with_and_without_evidence():
    net = hybrid_zoo.gaussian_loop()
    result = credo.infer(net, "gibbs", seed=0)
    hybrid_zoo.within_errors(result, hybrid_zoo.gaussian_truth(net))
    given = credo.infer(net, "gibbs", evidence={"x0": 2.0}, seed=0)
    covariance, mean = net.covariance, net.mean
    expected = mean[1:] + covariance[1:, 0] / covariance[0, 0] * (2.0 - mean[0])
    found = np.array([given.marginals[name].mean for name in net.names[1:]])
    assert (np.abs(found - expected) < 5 * given.diagnostics["mcse"]).all()
    assert isinstance(given.marginals["x0"], PointMass)
    assert (given.samples.column("x0") == 2.0).all()


def test_shares_of_topics_are_dirichlet():
    result = credo.infer(hybrid_zoo.topics(), "gibbs", evidence=hybrid_zoo.TOPIC_EVIDENCE, seed=0)
    hybrid_zoo.has_topic_shares(result)
    np.testing.assert_allclose(result.samples.column("theta").sum(axis=1), 1)


def test_a_function_written_with_numpy_is_called_back_in_double_precision():
    x = hybrid_zoo.real("x")
    seen = set()

    def bell(values):
        seen.add((np.asarray(values).dtype, isinstance(values, np.ndarray)))
        return -0.5 * np.square(np.asarray(values) - 1.0)

    result = credo.infer(credo.HybridNet([x], [credo.DensityFactor([x], bell)]), "gibbs(warmup=20)",
                         max_iter=300, seed=0)  # fmt: skip
    assert seen == {(np.dtype(np.float64), True)}
    assert abs(result.marginals["x"].mean - 1.0) < 5 * result.diagnostics["mcse"][0]


def test_a_potential_that_turns_nan_is_refused_by_name():
    x = hybrid_zoo.real("x")

    def broken(values):
        import jax.numpy as jnp

        return jnp.where(abs(values) < 3.0, -0.01 * values**2, jnp.nan)

    model = credo.HybridNet([x], [credo.DensityFactor([x], broken)])
    with pytest.raises(ModelError, match=r"factor over \['x'\].*log-potentials must be numbers below inf"):
        credo.infer(model, "gibbs(spread=0.5)", seed=0)


def test_sample_draws_as_many_rows_as_asked_for():
    graph = case("pair").graph
    for count in (0, 1, 7, 5001):
        rows = credo.sample(graph, count, method="gibbs", seed=0)
        assert rows.indices.shape == (count, 2)
    net = hybrid_zoo.gaussian_loop()
    assert credo.sample(net, 3, method="gibbs", seed=0).column("x0").shape == (3,)
    assert credo.sample(net, 0, method="gibbs", seed=0).column("x0").shape == (0,)


def test_everything_observed_leaves_nothing_to_draw():
    values = {"s": 1, "x": 0.5, "t": 2, "y": 1.5}
    result = credo.infer(hybrid_zoo.switching_loop(), "gibbs", evidence=values, seed=0, max_iter=10)
    assert result.converged and result.marginals["x"].mean == 0.5


def test_a_run_out_of_time_returns_what_there_is():
    grid = credo.datasets.ising_grid(30, seed=0)
    with pytest.warns(ConvergenceWarning, match="the time given was used up"):
        result = credo.infer(grid, "gibbs", seconds=0.0, seed=0)
    assert result.status is Status.OUT_OF_TIME
    assert len(result.samples) == 4


@pytest.mark.parametrize("graph", [credo.datasets.ising_grid(3, seed=0), hybrid_zoo.laplace_chain()])
def test_how_many_sweeps_come_at_once_does_not_change_the_draws(graph, monkeypatch):
    def run():
        return credo.infer(graph, "gibbs(warmup=30)", max_iter=70, seed=0)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        doubling = run()
        monkeypatch.setattr(Pace, "took", lambda pace, seconds: None)
        single = run()
    for name in graph.variables.names:
        np.testing.assert_array_equal(single.samples.column(name), doubling.samples.column(name))
    assert single.notes == doubling.notes


def test_a_variable_that_moves_between_two_calls_has_moved(monkeypatch):
    monkeypatch.setattr(Pace, "took", lambda pace, seconds: None)
    graph = credo.FactorGraph({"a": 2, "b": 2}, {("a",): [0.5, 0.5], ("b",): [0.0, 1.0]})
    (note,) = [note for note in credo.infer(graph, "gibbs", seed=0).notes if "some weights are zero" in note]
    assert "'b'" in note and "'a'" not in note


def test_ctrl_c_keeps_the_draws_so_far(monkeypatch):
    real, calls = TableEngine.advance, []

    def pressed(engine, first, count):
        calls.append(count)
        if sum(calls) > 60:
            signal.raise_signal(signal.SIGINT)
        return real(engine, first, count)

    monkeypatch.setattr(TableEngine, "advance", pressed)
    with pytest.warns(ConvergenceWarning, match="stopped by hand"):
        found = credo.infer(credo.datasets.ising_grid(3, seed=0), "gibbs(warmup=10)", seed=0)
    assert found.status is Status.INTERRUPTED
    assert len(found.samples) == 4 * (sum(calls) - 10)  # the warm-up is too short for short runs


def test_impossible_models_and_starts_are_refused():
    never = credo.FactorGraph({"a": 2, "b": 2}, {("a",): [1, 0], ("a", "b"): [[0, 0], [1, 1]]})
    with pytest.raises(ZeroProbabilityError, match="the model gives every configuration weight zero"):
        credo.infer(never, "gibbs")
    with pytest.raises(ZeroProbabilityError, match="the evidence has probability zero"):
        credo.infer(case("xor").graph, "gibbs", evidence={"x0": 0, "x1": 0, "x2": [0.0, 1.0]})
    x = hybrid_zoo.real("x")

    def far(values):
        return np.where(np.asarray(values) > 1e9, 0.0, -np.inf)

    with pytest.raises(UnsupportedError, match="none of 200 random points has positive weight"):
        credo.infer(credo.HybridNet([x], [credo.DensityFactor([x], far)]), "gibbs", seed=0)
    with pytest.raises(ModelError, match="has no integral: it does not fall off along 'x'"):
        credo.infer(credo.HybridNet([x], [credo.GaussianFactor([x], [[0.0]], [1.0])]), "gibbs", seed=0)


def test_chains_that_run_away_are_refused(monkeypatch):
    """Each variable is Gaussian given the other; together they grow fourfold per sweep."""
    monkeypatch.setattr(gaussian_system, "_MOST_WORK", 0.0)  # as if the model was too large to be factorised
    x, y = hybrid_zoo.real("x"), hybrid_zoo.real("y")
    model = credo.HybridNet([x, y], [credo.GaussianFactor([x, y], [[1.0, 2.0], [2.0, 1.0]])])
    with pytest.raises(ModelError, match=r"has no integral: the draws of '[xy]' leave the range of numbers"):
        credo.infer(model, "gibbs", seed=0)


def test_a_start_of_positive_weight_is_looked_for_farther_and_nearer(monkeypatch):
    x = hybrid_zoo.real("x")

    def narrow(values):
        return np.where(np.abs(np.asarray(values)) < 0.05, 0.0, -np.inf)

    problem = Problem.about(credo.FactorGraph([x], [credo.DensityFactor([x], narrow)]))
    found = starts.starting_points(problem, 8, 50.0, np.random.default_rng(0), "gibbs")
    assert (np.abs(found.values["x"]) < 0.05).all()


@pytest.mark.parametrize("method", ["gibbs", "metropolis"])
def test_refusals(method: str, monkeypatch):
    graph = case("pair").graph
    with pytest.raises(
        UnsupportedError,
        match=f"{method} cannot treat this problem: it gives marginals.* samples, and .* asks for MAP",
    ):
        credo.infer(graph, method, maximise="all")
    with pytest.raises(OptionError, match="chains must be at least 1, got 0"):
        credo.infer(graph, f"{method}(chains=0)")
    with pytest.raises(OptionError, match=r"warmup must be a whole number, got 1\.5"):
        credo.infer(graph, f"{method}(warmup=1.5)")
    with pytest.raises(UnsupportedError, match="cannot start from an earlier result"):
        first = credo.infer(graph, "mean-field")
        credo.infer(graph, method, warm_start=first)
    monkeypatch.setattr(chains, "_MEMORY", 1000)
    with pytest.raises(TooLargeError, match="4 chains of 1000 draws of 2 variables need"):
        credo.infer(graph, method)


def test_options_change_the_number_of_draws():
    graph = case("pair").graph
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert len(credo.infer(graph, "gibbs(chains=2, draws=30, warmup=0)", seed=0).samples) == 60
        assert len(credo.infer(graph, "gibbs", max_iter=25, seed=0).samples) == 100


def test_the_default_for_samples_of_a_hybrid_model_is_gibbs():
    rows = credo.sample(hybrid_zoo.switching_loop(), 10, seed=0)
    assert len(rows) == 10 and rows.column("x").shape == (10,)
    same = credo.sample(hybrid_zoo.switching_loop(), 10, method="gibbs", seed=0)
    np.testing.assert_array_equal(rows.column("x"), same.column("x"))


def test_a_mixture_of_far_modes_is_crossed_by_slices():
    x = hybrid_zoo.real("x")
    model = credo.HybridNet([x], [potentials.gaussian_mixture(x, [0.3, 0.7], [-4.0, 4.0], [1.0, 1.0])])
    result = credo.infer(model, "gibbs", seed=0, max_iter=4000)
    hybrid_zoo.within_errors(result, hybrid_zoo.truth(model))
