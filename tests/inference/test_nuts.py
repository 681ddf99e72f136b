"""NUTS and HMC: moments of a Gaussian and of a Dirichlet variable, evidence, seeds, refusals."""

from __future__ import annotations

import importlib.util

import jax.numpy as jnp
import numpy as np
import pytest

import credo
import hybrid_zoo
from credo import potentials
from credo.core.errors import MissingExtraError, ModelError, OptionError, UnsupportedError
from credo.core.result import Status
from credo.inference.problem import gradients


@pytest.mark.parametrize("method", ["nuts", "hmc"])
def test_a_potential_that_turns_nan_is_refused_by_name(method):
    x = hybrid_zoo.real("x")
    factor = credo.DensityFactor([x], lambda v: jnp.where(abs(v) < 1.5, -(v**2), jnp.nan))
    with pytest.raises(ModelError, match=r"factor over \['x'\]: log-potentials must be numbers below inf"):
        credo.infer(credo.HybridNet([x], [factor]), f"{method}(spread=0.5)", seed=0, max_iter=300)


def model() -> credo.HybridNet:
    """A Gaussian cycle, and apart from it a share that is Dirichlet: one program for both."""
    net = hybrid_zoo.gaussian_loop()
    theta = credo.Variable("theta", credo.Simplex(3))
    graph = net.to_factor_graph()
    return credo.HybridNet(
        [*graph.variables, theta], [*graph.factors, potentials.dirichlet(theta, [4.0, 2.0, 3.0])]
    )


def check(result) -> None:
    """Moments within Monte Carlo error."""
    net = hybrid_zoo.gaussian_loop()
    assert result.status is Status.CONVERGED, result.notes
    found = np.array([result.marginals[name].mean for name in net.names])
    assert (np.abs(found - net.mean) < 5 * result.diagnostics["mcse"][:-1]).all()
    rows = np.stack([result.samples.column(name) for name in net.names], axis=1)
    np.testing.assert_allclose(np.cov(rows.T), net.covariance, atol=0.2)
    alpha = np.array([4.0, 2.0, 3.0])
    mean = alpha / alpha.sum()
    theta = result.marginals["theta"]
    assert np.abs(theta.mean - mean).max() < 5 * result.diagnostics["mcse"][-1]
    np.testing.assert_allclose(theta.variance, mean * (1 - mean) / 10, rtol=0.2)
    assert result.log_z is None
    assert (result.diagnostics["ess"] > 400).all()


def test_nuts_has_the_moments_of_gaussian_and_dirichlet_variables():
    result = credo.infer(model(), "nuts", seed=0)
    check(result)
    again = credo.infer(model(), "nuts", seed=0)
    np.testing.assert_array_equal(result.samples.column("theta"), again.samples.column("theta"))
    other = credo.sample(model(), 7, method="nuts", seed=1)
    assert other.column("x0").shape == (7,) and other.column("theta").shape == (7, 3)
    assert (other.column("x0") != result.samples.column("x0")[:7]).all()


def test_hmc_with_a_dense_mass_matrix_has_them_too():
    check(credo.infer(model(), "hmc(metric=dense)", seed=0))


def test_observed_variables_leave_and_come_back():
    net = hybrid_zoo.gaussian_loop()
    result = credo.infer(net, "hmc", evidence={"x1": 1.0, "x3": -1.0}, seed=0)
    free = [0, 2, 4]
    J, h = net.precision, net.shift
    expected = np.linalg.solve(J[np.ix_(free, free)], (h - J[:, [1, 3]] @ [1.0, -1.0])[free])
    found = np.array([result.marginals[net.names[i]].mean for i in free])
    assert (np.abs(found - expected) < 5 * result.diagnostics["mcse"]).all()
    assert result.marginals["x1"].mean == 1.0


def test_nothing_to_move_is_no_problem():
    net = hybrid_zoo.gaussian_loop()
    result = credo.infer(net, "nuts", evidence={name: 0.0 for name in net.names}, seed=0, max_iter=5)
    assert result.converged and len(result.samples) == 20
    sure = credo.HybridNet(
        [theta := credo.Variable("theta", credo.Simplex(1))], [potentials.dirichlet(theta, 1.0)]
    )
    assert credo.infer(sure, "hmc", max_iter=5).marginals["theta"].mean == pytest.approx([1.0])


@pytest.mark.parametrize("method", ["nuts", "hmc"])
def test_refusals(method: str):
    x = hybrid_zoo.real("x")

    def bell(values):
        return -0.5 * np.square(np.asarray(values))

    cannot = f"{method} cannot treat this problem: "
    with pytest.raises(
        UnsupportedError,
        match=cannot + r"it works on real, vector, positive, interval and simplex variables, and 's' is",
    ):
        credo.infer(hybrid_zoo.switching(), method)
    with pytest.raises(
        UnsupportedError, match=cannot + r".*JAX cannot trace the factor over \['x'\].*use gibbs"
    ):
        credo.infer(credo.HybridNet([x], [credo.DensityFactor([x], bell)]), method)
    with pytest.raises(UnsupportedError, match=cannot + "it gives .*, and the question asks for MAP"):
        credo.infer(hybrid_zoo.gaussian_loop(), method, maximise="all")
    with pytest.raises(OptionError, match=r"target must be in \[0.05, 1\), got 1"):
        credo.infer(hybrid_zoo.gaussian_loop(), f"{method}(target=1)")
    with pytest.raises(OptionError, match="must be at least 1, got 0"):
        credo.infer(hybrid_zoo.gaussian_loop(), {"nuts": "nuts(doublings=0)", "hmc": "hmc(steps=0)"}[method])


@pytest.mark.parametrize("package", ["blackjax", "jax"])
def test_a_missing_package_is_named_with_its_extra(monkeypatch, package: str):
    found = importlib.util.find_spec
    monkeypatch.setattr(gradients.importlib.util, "find_spec", lambda n: None if n == package else found(n))
    with pytest.raises(MissingExtraError, match=rf"nuts needs the package '{package}'.*credo\[neural\]"):
        credo.infer(hybrid_zoo.gaussian_loop(), "nuts")
