"""Factors that are Gaussian given states, under products: against points, differences and bounds."""

from __future__ import annotations

from itertools import product

import jax
import numpy as np
import pytest

import credo
from credo.core.density import quadratic
from credo.core.errors import ConvergenceWarning
from credo.core.linear_gaussian import residual
from credo.core.result import Status
from credo.inference.problem.base import Problem
from credo.inference.problem.closed_forms import expected_by_states, natural, over_states
from credo.inference.variational.bethe import Bethe
from credo.inference.variational.bethe_ascent import slope_at
from credo.inference.variational.bethe_run import Ascents
from credo.nn.arrays import precision
from credo.nn.compiled import Compiled


def real(*names: str) -> list[credo.Variable]:
    return [credo.Variable(name, credo.Real()) for name in names]


def as_function(factor: credo.Factor) -> credo.DensityFactor:
    """The same factor, its form unknown, so that expectations are sums over points."""

    def unknown(*arguments):
        return factor.function(*arguments)

    return credo.DensityFactor(factor.scope, unknown, *factor.parameters)


def switching(seed: int, *, closed: bool = True, forbidden: bool = False) -> credo.HybridNet:
    """Two discrete variables, a loop of three real ones, regressions that depend on the states."""
    rng = np.random.default_rng(seed)
    s, t = credo.Variable("s", 2), credo.Variable("t", 3)
    x, y, z = real("x", "y", "z")
    constant, offset = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
    if forbidden:
        constant[1, 2] = -np.inf
    mixed: list[credo.Factor] = [
        credo.LinearGaussianFactor.conditional(y, [x], [s], rng.normal(size=(2, 1)), [0.5, 2.0], [1.0, -1.0]),
        credo.LinearGaussianFactor([y, z, s, t], rng.normal(size=(2, 3, 2)), offset, 1.5, constant),
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
            slope = jax.grad(value)
            found = jax.jit(lambda x, f=slope: (f(x), jax.grad(f)(x)))(0.0)
            np.testing.assert_allclose([h, -J], found, atol=1e-10)


def test_a_forbidden_state_without_probability_counts_nothing():
    with precision(double=True):
        table = np.array([[1.0, -np.inf], [2.0, 3.0]])
        assert over_states(table, [np.array([0.0, 1.0]), np.array([0.5, 0.5])]) == 2.5
        assert over_states(table, [np.array([0.5, 0.5]), np.array([0.5, 0.5])]) == -np.inf


# Mean field


@pytest.mark.parametrize("seed", range(2))
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


def test_mean_field_says_so_where_a_variance_has_no_limit(monkeypatch):
    """Where the first look at the model lets it pass, the precision that is not positive tells."""
    from credo.inference.variational import continuous_mean_field as module

    monkeypatch.setattr(module, "starting_places", lambda graph: None)
    monkeypatch.setattr(module, "_away", lambda problem, places: (np.zeros(3), np.ones(3)))
    (x,), s = real("x"), credo.Variable("s", 2)
    free = credo.LinearGaussianFactor([x, s], [[0.0], [0.0]], 0.0, 1.0)
    model = credo.HybridNet([x, s], [free, credo.TableFactor([s], [0.5, 0.5])])
    with pytest.warns(ConvergenceWarning):
        found = credo.infer(model, "mean-field", seed=0)
    assert found.status is Status.DIVERGED and found.log_z is None
    assert any("grows without limit" in note for note in found.notes)


# Bethe


def ascents_of(model: credo.HybridNet, **options) -> Ascents:
    with precision(double=True):
        problem = Problem.about(model.to_factor_graph())
        return Ascents(problem, Bethe(**{"guard": 1.0, **options}), False, np.random.default_rng(0))


def slopes_of(run: Ascents):
    """Values and gradients at a stack of parameters."""

    def one(parameters, data):
        points = jax.tree.map(lambda x: x[0], run.carry.points)
        key = jax.random.PRNGKey(0)
        return slope_at(run.plan, run.settings, data, run.numbers, run.weights, parameters, key, points, 0.0)

    program = Compiled(jax.vmap(one, in_axes=(0, None)))

    def call(parameters):
        with precision(double=True):
            return jax.tree.map(np.asarray, program(parameters, run.data))

    return call


def random_parameters(run: Ascents, count: int):
    rng = np.random.default_rng(3)
    return jax.tree.map(lambda x: 0.7 * rng.standard_normal((count, *x.shape[1:])), run.carry.parameters)


@pytest.mark.parametrize("components", [1, 3])
@pytest.mark.parametrize("gradient", ["score", "autodiff"])
def test_bethe_has_the_values_and_slopes_of_points(components: int, gradient: str):
    runs = [
        ascents_of(switching(1, closed=closed), components=components, nodes=4, gradient=gradient)
        for closed in (True, False)
    ]
    assert sum(group.form is not None for group in runs[0].plan.groups) == 4
    assert all(group.form is None for group in runs[1].plan.groups)
    parameters = random_parameters(runs[0], 5)
    (value, slope), (other, expected) = (slopes_of(run)(parameters) for run in runs)
    np.testing.assert_allclose(value, other, atol=1e-8)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-8), slope, expected)


@pytest.mark.parametrize("gradient", ["score", "autodiff"])
def test_slopes_of_one_component_are_differences(gradient: str):
    run = ascents_of(switching(2), components=1, gradient=gradient)
    call, first = slopes_of(run), random_parameters(run, 1)
    leaves, tree = jax.tree.flatten(first)
    flat, step = np.concatenate([leaf.ravel() for leaf in leaves]), 1e-5
    moved = flat + step * np.concatenate([np.eye(len(flat)), -np.eye(len(flat))])
    parts = np.split(moved, np.cumsum([leaf.size for leaf in leaves])[:-1], axis=1)
    stacked = [part.reshape(-1, *leaf.shape[1:]) for part, leaf in zip(parts, leaves, strict=True)]
    values, _ = call(jax.tree.unflatten(tree, stacked))
    up, down = np.split(values, 2)
    found = np.concatenate([leaf.ravel() for leaf in jax.tree.leaves(call(first)[1])])
    np.testing.assert_allclose(found, (up - down) / (2 * step), atol=1e-7)


def test_one_sampled_component_has_the_same_slopes_on_average():
    """Where one component is drawn per step, closed forms are those of the drawn one."""
    run = ascents_of(switching(1), components=1, sampled=True)
    whole = ascents_of(switching(1), components=1)
    parameters = random_parameters(whole, 2)
    found, expected = slopes_of(run)(parameters), slopes_of(whole)(parameters)
    np.testing.assert_allclose(found[0], expected[0], atol=1e-10)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-10), found[1].parts, expected[1].parts)


@pytest.mark.parametrize("forbidden", [False, True])
def test_bethe_of_one_component_is_the_mean_field_bound(forbidden: bool):
    model = switching(3, forbidden=forbidden)
    bound = credo.infer(model, "mean-field(restarts=5)", seed=0, tol=1e-9, max_iter=2000).log_z.value
    found = credo.infer(model, "bethe(components=1, restarts=5)", seed=0, max_iter=3000)
    assert found.log_z.kind == "lower"
    assert found.log_z.value == pytest.approx(bound, abs=1e-3)
    assert found.log_z.value < credo.infer(model, "conditional-gaussian").log_z.value


def test_bethe_treats_a_gaussian_block_of_any_arity():
    scope = real(*(f"x{i}" for i in range(12)))
    J = np.eye(12) + 0.05
    model = credo.HybridNet(scope, [credo.GaussianFactor(scope, J, np.arange(12.0))])
    found = credo.infer(model, "bethe(components=1)", seed=0, max_iter=3000)
    mean = np.linalg.solve(J, np.arange(12.0))
    bound = 0.5 * np.arange(12.0) @ mean + 0.5 * np.log(2 * np.pi / np.diag(J)).sum()
    assert found.log_z.kind == "lower" and found.log_z.value == pytest.approx(bound, abs=1e-4)
    np.testing.assert_allclose([found.marginals[v.name].mean for v in scope], mean, atol=1e-2)


def test_points_are_counted_where_there_are_any():
    model, _, _ = six()
    (closed,) = model.to_factor_graph().batches
    (other,) = credo.HybridNet(model.variables, [as_function(model.factors[0])]).to_factor_graph().batches
    assert Bethe(components=1).evaluations(closed, False) == 1
    assert Bethe(components=3, counting=0).evaluations(closed, False) == 3
    assert Bethe(components=3).evaluations(closed, False) == 9 * 5**6  # the logarithm of the mixture
    assert Bethe(components=1).evaluations(other, False) == 5**6
