"""Potentials against their formulas, in NumPy and in JAX."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo import potentials
from credo.core.errors import ModelError
from credo.core.factor_list import _probes
from credo.core.log_density import LogDensity
from credo.inference.problem.potentials import evaluate, is_traceable, terms_of
from credo.inference.variational.curvature import LocalShape
from hybrid_zoo import real

X, Y, S = real("x"), real("y"), credo.Variable("s", ["off", "on"])
THETA = credo.Variable("theta", credo.Simplex(2))
ROWS = np.random.default_rng(0).normal(size=(20, 2))
AT = np.linspace(-4, 5, 2001)


def normal(x, mean, variance):
    return np.exp(-0.5 * (x - mean) ** 2 / variance) / np.sqrt(2 * np.pi * variance)


def test_densities_are_normalised_and_their_formulas():
    np.testing.assert_allclose(np.exp(potentials.gaussian(X, 1.0, 0.5).log_values(AT)), normal(AT, 1, 0.5))
    mixture = 0.3 * normal(AT, -1, 1) + 0.7 * normal(AT, 2, 0.5)
    found = potentials.gaussian_mixture(X, [0.3, 0.7], [-1.0, 2.0], [1.0, 0.5])
    np.testing.assert_allclose(np.exp(found.log_values(AT)), mixture)
    kernel = potentials.kernel_density([X], ROWS[:, 0], 0.3)
    np.testing.assert_allclose(
        np.exp(kernel.log_values(AT)), normal(AT[:, None], ROWS[:, 0], 0.09).mean(axis=1)
    )
    pair = potentials.kernel_density([X, Y], ROWS, [0.3, 0.4])
    across = np.exp(pair.log_values(AT[:, None], AT[None, :]))
    single = np.exp(potentials.kernel_density([X], ROWS[:, 0], 0.3).log_values(AT))
    np.testing.assert_allclose(np.trapezoid(across, AT, axis=1), single, atol=2e-3)


def test_shapes_of_the_others():
    np.testing.assert_allclose(potentials.laplace(X, Y, scale=2.0).log_values(1.0, AT), -abs(1 - AT) / 2)
    clamped = potentials.clamped_laplace(X, scale=0.03, limit=0.2).log_values(AT)
    assert clamped.min() == pytest.approx(-0.2 / 0.03)
    assert potentials.clamped_laplace(X, scale=0.03, limit=0.2).log_value({"x": 0.2}) == clamped.min()
    two = np.exp(-0.1 * ((AT - 10) ** 2 + 121)) + np.exp(-0.1 * ((AT + 10) ** 2 + 81))
    np.testing.assert_allclose(np.exp(potentials.bimodal(X, Y).log_values(AT, 1.0)), two)
    assert potentials.student(X, freedom=3.0).log_value({"x": 3.0}) == pytest.approx(-2 * np.log(4))
    ratio = potentials.density_ratio(X, Y, ROWS, 0.3, (0.5, 1.0)).log_values(0.2, AT)
    pair = potentials.kernel_density([X, Y], ROWS, 0.3).log_values(0.2, AT)
    one = potentials.kernel_density([X], ROWS[:, 0], 0.3).log_values(0.2)
    other = potentials.kernel_density([Y], ROWS[:, 1], 0.3).log_values(AT)
    np.testing.assert_allclose(ratio, pair - 0.5 * one - other)


def test_dirichlet_and_categorical():
    p = np.linspace(0.01, 0.99, 99)
    points = np.stack([p, 1 - p], axis=1)
    density = np.exp(potentials.dirichlet(THETA, [2.0, 3.0]).log_values(points))
    np.testing.assert_allclose(density, 12 * p * (1 - p) ** 2)
    found = potentials.categorical(S, THETA).log_values(np.array([0, 1]), np.array([0.3, 0.7]))
    np.testing.assert_allclose(np.exp(found), [0.3, 0.7])


def test_compiled_values_are_those_of_numpy():
    factors = [
        potentials.gaussian(X), potentials.laplace(X, Y), potentials.clamped_laplace(X, Y, scale=0.1),
        potentials.bimodal(X, Y), potentials.emission(X, S, [0.0, 5.0], 1.0), potentials.student(X, Y),
        potentials.dirichlet(THETA, [2.0, 1.0]), potentials.categorical(S, THETA),
        potentials.gaussian_mixture(Y, [0.3, 0.7], [-1.0, 2.0], [1.0, 0.5]),
        potentials.kernel_density([X, Y], ROWS, 0.3), potentials.density_ratio(X, Y, ROWS, 0.3),
        credo.TableFactor([S], [0.2, 0.8]), credo.DensityFactor([X], lambda x: -np.abs(x)),
        potentials.network([X], lambda x, w: w * x, 2.0),
    ]  # fmt: skip
    graph = credo.HybridNet([X, Y, S, THETA], factors).to_factor_graph()
    black_boxes = 0
    for group in graph.batches:
        black_boxes += not is_traceable(group)
        columns = tuple(np.stack([_probes(d)] * len(group.factors)) for d in group.domains)
        expected = [
            graph.factors[a].log_values(*(c[i] for c in columns)) for i, a in enumerate(group.factors)
        ]
        np.testing.assert_allclose(evaluate(graph, group, columns), expected, rtol=1e-12)
    assert black_boxes == 1


def test_compiled_gradients_of_mixtures_are_finite_differences():
    """Everywhere: a maximum among the terms must leave no trace in the derivative."""
    factors = [
        potentials.gaussian_mixture(X, [0.4, 0.6], [-2.0, 1.0], [1.0, 0.5]),
        potentials.kernel_density([X, Y], ROWS, 0.3),
    ]
    graph = credo.HybridNet([X, Y], factors).to_factor_graph()
    shape = LocalShape(LogDensity.of(graph, np.array([-0.2, 0.1]), np.array([1.69, 0.7])))
    points = np.random.default_rng(0).normal(size=(200, 2))
    slopes = shape.slopes(points)[1]
    for k, step in enumerate(np.eye(2) * 1e-6):
        expected = (shape.slopes(points + step)[0] - shape.slopes(points - step)[0]) / 2e-6
        np.testing.assert_allclose(slopes[:, k], expected, rtol=1e-4, atol=1e-4)


def test_an_evaluation_of_a_parzen_density_holds_a_term_per_row():
    def terms(factor):
        return terms_of(credo.HybridNet(factor.scope, [factor]).to_factor_graph().batches[0])

    assert terms(potentials.laplace(X, Y)) == 1
    assert terms(potentials.gaussian_mixture(X, np.full(7, 1 / 7), np.arange(7.0), np.ones(7))) == 7
    assert terms(potentials.kernel_density([X, Y], ROWS, 0.3)) == len(ROWS)
    assert terms(potentials.density_ratio(X, Y, ROWS, 0.3)) == len(ROWS)
    assert (
        terms(credo.DensityFactor([X], lambda x, data: -np.abs(np.asarray(x) - data.sum()), [np.ones(9)]))
        == 9
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: potentials.gaussian(X, variance=-1.0),
        lambda: potentials.laplace(S),
        lambda: potentials.laplace(X, Y, X),
        lambda: potentials.dirichlet(X, 1.0),
        lambda: potentials.categorical(credo.Variable("z", 3), THETA),
        lambda: potentials.emission(X, Y, 0.0, 1.0),
        lambda: potentials.kernel_density([X], [np.nan], 1.0),
        lambda: potentials.kernel_density([X, Y], ROWS, 0.0),
        lambda: potentials.kernel_density([X], [1.0], [1.0, 2.0]),
        lambda: potentials.kernel_density([X], ["a"], 1.0),
        lambda: potentials.density_ratio(X, Y, ROWS, 0.3, (1.0, 2.0, 3.0)),
        lambda: potentials.gaussian_mixture(X, [0.5, 0.5], [0.0, 1.0, 2.0], [1.0]),
        lambda: potentials.gaussian_mixture(X, [], [], []),
        lambda: potentials.gaussian_mixture(X, [[0.5], [0.5]], 0.0, 1.0),
        lambda: potentials.gaussian_mixture(X, "half", 0.0, 1.0),
        lambda: potentials.laplace(X, scale="wide"),
        lambda: potentials.dirichlet(THETA, [1.0, 2.0, 3.0]),
        lambda: potentials.dirichlet("theta", 1.0),
        lambda: potentials.categorical("z", THETA),
        lambda: potentials.emission(X, S, [0.0, 1.0, 2.0], 1.0),
        lambda: potentials.emission(X, S, 0.0, [1.0, "a"]),
        lambda: potentials.emission(X, "s", 0.0, 1.0),
    ],
)
def test_bad_arguments_get_a_sentence(make):
    with pytest.raises(ModelError) as refused:
        make()
    assert len(str(refused.value).split()) >= 4
