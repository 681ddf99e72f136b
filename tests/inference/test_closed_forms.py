"""Factors that are Gaussian given states, under products: closed forms against points, differences, bounds."""

from __future__ import annotations

from itertools import product

import jax
import numpy as np
import pytest

import credo
from credo.core.density import quadratic
from credo.core.linear_gaussian import residual
from credo.core.result import Status
from credo.inference.closed_forms import expected_by_states, natural, over_states
from credo.nn.arrays import precision


def real(*names: str) -> list[credo.Variable]:
    return [credo.Variable(name, credo.Real()) for name in names]


def as_function(factor: credo.Factor) -> credo.DensityFactor:
    """The same factor, its form unknown, so that expectations are sums over points."""
    return credo.DensityFactor(factor.scope, lambda *a: factor.function(*a), *factor.parameters)


def switching(seed: int, *, closed: bool = True, forbidden: bool = False) -> credo.HybridNet:
    """Two discrete variables, a loop of three real ones, regressions that depend on the states."""
    rng = np.random.default_rng(seed)
    s, t = credo.Variable("s", 2), credo.Variable("t", 3)
    x, y, z = real("x", "y", "z")
    constant = rng.normal(size=(2, 3))
    if forbidden:
        constant[1, 2] = -np.inf
    mixed: list[credo.Factor] = [
        credo.LinearGaussianFactor.conditional(y, [x], [s], rng.normal(size=(2, 1)), [0.5, 2.0], [1.0, -1.0]),
        credo.LinearGaussianFactor([y, z, s, t], rng.normal(size=(2, 3, 2)), rng.normal(size=(2, 3)), 1.5, constant),
        credo.LinearGaussianFactor([x, z], [1.0, -0.5], 0.3, 0.8),
        credo.GaussianFactor([x, y, z], np.eye(3) + 0.2, [0.5, 0.0, -0.4], 0.1),
    ]  # fmt: skip
    table = np.exp(rng.normal(size=(2, 3)))
    if forbidden:
        table[1, 2] = 0.0
    mixed = mixed if closed else [as_function(f) for f in mixed]
    return credo.HybridNet([s, t, x, y, z], [credo.TableFactor([s, t], table), *mixed])


def six(seed: int = 0) -> tuple[credo.HybridNet, np.ndarray, np.ndarray]:
    """One Gaussian block of six variables, with its precision and shift."""
    rng = np.random.default_rng(seed)
    a, h = rng.normal(size=(6, 6)), rng.normal(size=6)
    J = a @ a.T / 6 + np.eye(6)
    scope = real(*"abcdef")
    return credo.HybridNet(scope, [credo.GaussianFactor(scope, J, h, 0.5)]), J, h


# The formulas


def grid(k: int, nodes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    z, w = np.polynomial.hermite_e.hermegauss(nodes)
    points = np.stack(np.meshgrid(*[z] * k, indexing="ij"), axis=-1).reshape(-1, k)
    weights = np.stack(np.meshgrid(*[w / w.sum()] * k, indexing="ij"), axis=-1).reshape(-1, k)
    return points, weights.prod(axis=1)


def random_factor(form, rng: np.random.Generator):
    """Parameters of a factor of three numbers, and of states 2 x 3 if it is a residual; with moments."""
    mean, variance = rng.normal(size=3), rng.uniform(0.2, 3.0, 3)
    if form is quadratic:
        J = rng.normal(size=(3, 3))
        return mean, variance, [], (J + J.T, rng.normal(size=3), np.float64(0.7))
    shares = [rng.dirichlet(np.ones(2)), rng.dirichlet(np.ones(3))]
    b, c, v = rng.normal(size=(2, 3)), rng.normal(size=(2, 3)), rng.uniform(0.3, 2.0, (2, 3))
    return mean, variance, shares, (rng.normal(size=(2, 3, 3)), b, v, c)


@pytest.mark.parametrize("form", [quadratic, residual])
def test_expectations_are_those_of_points(form):
    rng = np.random.default_rng(1)
    points, weights = grid(3)
    for _ in range(20):
        mean, variance, shares, parameters = random_factor(form, rng)
        x = mean + np.sqrt(variance) * points
        given = list(product(*(range(len(s)) for s in shares)))
        odds = np.array([np.prod([s[i] for s, i in zip(shares, at, strict=True)]) for at in given])
        values = np.array([weights @ form(*x.T, *at, *parameters) for at in given])
        with precision(double=True):
            table = expected_by_states(form, mean, variance, parameters, len(shares))
            found = over_states(table, shares)
            kept = [over_states(table, shares, j) @ s for j, s in enumerate(shares)]
        np.testing.assert_allclose(np.ravel(table), values, atol=1e-10)
        np.testing.assert_allclose([found, *kept], odds @ values, atol=1e-10)


@pytest.mark.parametrize("form", [quadratic, residual])
def test_natural_parameters_are_the_derivatives(form):
    rng = np.random.default_rng(2)
    with precision(double=True):
        for axis in range(3):
            mean, variance, shares, parameters = random_factor(form, rng)
            mean = jax.numpy.asarray(mean)

            def value(x, mean=mean, variance=variance, shares=shares, parameters=parameters, axis=axis):
                at = mean.at[axis].set(x)
                return over_states(expected_by_states(form, at, variance, parameters, len(shares)), shares)

            J, h = natural(form, axis, mean, shares, parameters)
            np.testing.assert_allclose(
                [h, -J], [jax.grad(value)(0.0), jax.grad(jax.grad(value))(0.0)], atol=1e-10
            )


def test_a_forbidden_state_without_probability_counts_nothing():
    with precision(double=True):
        table = np.array([[1.0, -np.inf], [2.0, 3.0]])
        assert over_states(table, [np.array([0.0, 1.0]), np.array([0.5, 0.5])]) == 2.5
        assert over_states(table, [np.array([0.5, 0.5]), np.array([0.5, 0.5])]) == -np.inf


# Mean field


@pytest.mark.parametrize("seed", range(4))
def test_mean_field_is_a_bound_that_no_sweep_lowers(seed: int):
    model = switching(seed)
    exact = credo.infer(model, "conditional-gaussian").log_z.value
    found = credo.infer(model, "mean-field(restarts=2)", seed=seed, tol=1e-9, max_iter=2000)
    assert found.status is Status.CONVERGED and found.log_z.kind == "lower"
    assert exact - 5.0 < found.log_z.value < exact
    assert (np.diff(found.trace["log_z"]) >= -1e-10).all()
    assert not any("points" in note for note in found.notes)


@pytest.mark.parametrize("forbidden", [False, True])
def test_mean_field_agrees_with_points(forbidden: bool):
    model = switching(0, forbidden=forbidden)
    found = credo.infer(model, "mean-field", seed=0, tol=1e-10, max_iter=2000)
    other = credo.infer(
        switching(0, closed=False, forbidden=forbidden),
        "mean-field(nodes=4)", seed=0, tol=1e-10, max_iter=2000, warm_start=found,
    )  # fmt: skip
    assert found.log_z.kind == "lower" and other.log_z.kind == "estimate"
    assert found.log_z.value == pytest.approx(other.log_z.value, abs=1e-8)
    for name in "st":
        np.testing.assert_allclose(found.marginals[name], other.marginals[name], atol=1e-7)
    for name in "xyz":
        assert found.marginals[name].mean == pytest.approx(other.marginals[name].mean, abs=1e-7)
        assert found.marginals[name].variance == pytest.approx(other.marginals[name].variance, abs=1e-7)


def test_mean_field_mixes_closed_forms_and_functions():
    """A variable with one factor that is no closed form: the others are still not evaluated at points."""
    x, y = real("x", "y")
    s = credo.Variable("s", 2)
    regression = credo.LinearGaussianFactor.conditional(y, [x], [s], [[1.0], [-1.0]], [0.5, 1.0], [1.0, 0.0])
    factors = [
        credo.DensityFactor([x], lambda x: -0.25 * x**4),
        credo.TableFactor([s], [0.4, 0.6]),
        credo.GaussianFactor([y], [[1.0]], [1.0]),
    ]
    pair = [
        credo.infer(credo.HybridNet([x, y, s], [*factors, f]), "mean-field(nodes=6)", seed=0, tol=1e-9)
        for f in (regression, as_function(regression))
    ]
    assert pair[0].log_z.value == pytest.approx(pair[1].log_z.value, abs=1e-8)
    assert pair[0].marginals["x"].mean == pytest.approx(pair[1].marginals["x"].mean, abs=1e-6)
    np.testing.assert_allclose(pair[0].marginals["s"], pair[1].marginals["s"], atol=1e-7)


def test_mean_field_treats_a_gaussian_block_of_any_arity():
    model, J, h = six()
    found = credo.infer(model, "mean-field", seed=0, tol=1e-12)
    mean = np.linalg.solve(J, h)
    np.testing.assert_allclose([found.marginals[n].mean for n in "abcdef"], mean, atol=1e-8)
    np.testing.assert_allclose([found.marginals[n].variance for n in "abcdef"], 1 / np.diag(J), rtol=1e-12)
    bound = 0.5 + 0.5 * h @ mean + 0.5 * np.log(2 * np.pi / np.diag(J)).sum()
    assert found.log_z.kind == "lower" and found.log_z.value == pytest.approx(bound, abs=1e-8)


def test_mean_field_finds_that_there_is_no_integral():
    """The residual confines x in one state only."""
    (x,), s = real("x"), credo.Variable("s", 2)
    confined = credo.LinearGaussianFactor([x, s], [[1.0], [0.0]], 0.0, 1.0)
    model = credo.HybridNet([x, s], [confined, credo.TableFactor([s], [0.5, 0.5])])
    with pytest.raises(credo.CredoError, match="integral"):
        credo.infer(model, "mean-field", seed=0)
