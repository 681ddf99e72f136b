"""When chains may be called converged, what they say if not, where they start, and what they record."""

from __future__ import annotations

import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import credo
import hybrid_zoo
from credo import potentials
from credo.core.errors import ConvergenceError, ConvergenceWarning
from credo.core.result import Status
from credo.inference.sampling.draws import Draws
from credo.inference.sampling.starts import farthest
from credo.optimise import driver
from credo.optimise.pace import Pace
from zoo import case

UNSEEN = "a mode that none of them has visited does not show"


def two_modes() -> credo.HybridNet:
    x = hybrid_zoo.real("x")
    return credo.HybridNet([x], [potentials.gaussian_mixture(x, [0.5, 0.5], [-10.0, 10.0], [1.0, 1.0])])


def funnel() -> credo.HybridNet:
    """x ~ N(0, e^v), v ~ N(0, 9): too steep at its neck for any one step size."""
    v, x = hybrid_zoo.real("v"), hybrid_zoo.real("x")

    def neck(v, x):
        return -0.5 * x**2 * jnp.exp(-v) - 0.5 * v

    return credo.HybridNet([v, x], [potentials.gaussian(v, 0.0, 9.0), credo.DensityFactor([v, x], neck)])


@pytest.mark.parametrize("method", ["nuts", "hmc", "metropolis"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_chains_visit_both_of_two_separate_modes_and_do_not_claim_to_agree(method: str, seed: int):
    with pytest.warns(ConvergenceWarning, match=f"{method}: the chains do not agree yet"):
        found = credo.infer(two_modes(), method, seed=seed, max_iter=200)
    x = found.samples.column("x")
    assert (x > 0).any() and (x < 0).any()
    assert found.status is Status.OUT_OF_ITERATIONS and "R-hat of 'x' is" in found.advice


@pytest.mark.parametrize("method", [pytest.param("nuts", marks=pytest.mark.slow), "gibbs", "metropolis"])
def test_results_say_that_modes_may_be_unseen(method: str):
    found = credo.infer(hybrid_zoo.gaussian_loop(), f"{method}(effective=1)", seed=0)
    assert found.status is Status.CONVERGED and "R-hat - 1 fell below 0.05" in found.advice
    assert UNSEEN in found.notes[-1]


def test_a_run_with_divergences_has_not_converged_and_its_advice_names_them():
    with pytest.warns(ConvergenceWarning, match=r"nuts: \d+ trajector.* diverged after the warm-up"):
        found = credo.infer(funnel(), "nuts(effective=1, r_hat=9)", seed=0, max_iter=500)
    assert found.status is Status.STALLED and not found.converged
    assert "raise target or warmup" in found.advice and found.advice in found.notes
    assert found.advice in found.summary() and "max_iter" not in found.advice


def test_few_effective_draws_are_not_enough_and_the_advice_names_them():
    graph = case("grid 3x3").graph
    with pytest.warns(ConvergenceWarning, match=r"draws of 'x\d' are worth \d+ independent ones, 100 are"):
        found = credo.infer(graph, "gibbs(r_hat=2)", seed=0, max_iter=20)
    assert found.status is Status.OUT_OF_ITERATIONS and found.diagnostics["ess"].min() < 100
    assert found.advice.endswith("raise max_iter")
    with pytest.raises(ConvergenceError, match=r"5000 are wanted \(effective\): raise draws"):
        credo.infer(graph, "gibbs(effective=5000, draws=500)", seed=0, strict=True)
    assert credo.infer(graph, "gibbs(r_hat=2, effective=5)", seed=0, max_iter=20).converged


def test_a_loose_tolerance_lets_chains_agree_sooner():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        strict, loose = (
            credo.infer(two_modes(), "nuts(effective=0)", seed=1, max_iter=50, tol=tol) for tol in (0.0, 9.0)
        )
    assert not strict.converged and loose.converged


@pytest.mark.parametrize("method", ["nuts", "gibbs"])
def test_energy_and_r_hat_are_recorded_by_step(method: str, monkeypatch):
    net = hybrid_zoo.gaussian_loop()
    monkeypatch.setattr(driver, "_THIN", 0.0)
    seen = []
    found = credo.infer(
        net, f"{method}(warmup=100)", seed=0, max_iter=300, on_step=lambda _, view: seen.append(view.energy)
    )
    steps = 100 + 300
    energy, r_hat = found.trace["energy"], found.trace["r_hat"]
    assert len(energy) == len(r_hat) == steps
    assert seen[-1] == energy[-1] and np.isfinite(energy).all()
    assert np.isinf(r_hat[:131]).all() and r_hat[-1] == found.diagnostics["r_hat"].max()
    assert np.isfinite(r_hat[131:]).all()
    # The mean energy of a Gaussian with these factors: minus E[log density], up to what scales add.
    rows = np.stack([found.samples.column(n).reshape(4, 300) for n in net.names], axis=-1)
    scores = -0.5 * np.einsum("cti,ij,ctj->ct", rows, net.precision, rows) + rows @ net.shift
    gap = energy[100:] + scores.mean(axis=0)
    np.testing.assert_allclose(gap, gap[0], atol=1e-9)


def test_the_energy_of_tables_is_minus_the_mean_score():
    graph = case("grid 3x3").graph
    found = credo.infer(graph, "gibbs", seed=0, max_iter=300)
    scores = graph.log_scores(found.samples.indices).reshape(4, 300)
    np.testing.assert_allclose(found.trace["energy"][-300:], -scores.mean(axis=0))


@pytest.mark.filterwarnings("ignore::credo.core.errors.ConvergenceWarning")
@pytest.mark.parametrize("method", ["nuts", "gibbs"])
def test_how_many_steps_come_at_once_changes_nothing_that_is_recorded(method: str, monkeypatch):
    def run():
        return credo.infer(hybrid_zoo.gaussian_loop(), f"{method}(warmup=30)", max_iter=130, seed=0)

    doubling = run()
    monkeypatch.setattr(Pace, "took", lambda pace, seconds: None)
    single = run()
    for name, numbers in doubling.trace.items():
        np.testing.assert_array_equal(single.trace[name], numbers)
    assert single.notes == doubling.notes


def ends(values, logs) -> Draws:
    x, count = np.array(values, dtype=float), len(values)
    return Draws(np.full((count, 1, 1), -1), {"x": x[:, None]}, np.array(logs, dtype=float)[:, None])


def test_chains_begin_far_apart_and_nowhere_negligible():
    found = farthest(ends([0.0, 0.1, 5.0, 5.1, -3.0, 90.0], [0, -1, -1, -2, -1, -40]), 3)
    assert found.values["x"][:, 0].tolist() == [0.0, 5.1, -3.0]
    assert farthest(ends([1.0, 99.0], [0, -99]), 3).values["x"][:, 0].tolist() == [1.0] * 3
    states = np.array([[0, 0], [0, 1], [1, 1]])[:, None]
    assert farthest(Draws(states, {}, np.zeros((3, 1))), 2).states[:, 0].tolist() == [[0, 0], [1, 1]]
