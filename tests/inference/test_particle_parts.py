"""What particle methods are made of: beliefs and their value, proposals, tables, first places."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import credo
from credo import potentials
from credo.inference.particles import edges
from credo.inference.particles.cloud import Cloud, messages_at
from credo.inference.particles.ep_particle_bp import Sites, project
from credo.inference.particles.pairs import ParticlePairs
from credo.inference.particles.readout import bethe_value, tabulate
from credo.inference.particles.start import locate
from credo.inference.particles.tables import draw, log_widths, moments, panels, stratify
from hybrid_zoo import gaussian_tree, laplace_chain, real


def test_beliefs_are_densities_that_can_be_evaluated_anywhere():
    model = laplace_chain()
    belief = credo.infer(model, "particle-bp(particles=200)", seed=0).marginals["x1"]
    x = np.linspace(-12, 14, 4001)
    density = belief.density(x)
    assert np.trapezoid(density, x) == pytest.approx(1, abs=1e-3)
    mean = np.trapezoid(x * density, x)
    assert mean == pytest.approx(belief.mean, abs=1e-3)
    assert np.trapezoid((x - mean) ** 2 * density, x) == pytest.approx(belief.variance, abs=2e-3)
    assert density.max() == pytest.approx(float(belief.density(belief.mode)), rel=1e-2)
    assert np.isfinite(belief.log_density(30.0))
    assert belief.log_density(np.zeros((2, 3))).shape == (2, 3)
    drawn = belief.sample(4000, np.random.default_rng(0))
    assert drawn.mean() == pytest.approx(belief.mean, abs=0.06)


def test_the_bethe_value_of_exact_messages_on_a_tree_is_log_z():
    """Particles on a fine grid with the weights of the trapezoidal rule are belief propagation."""
    tree = gaussian_tree(4)
    pairs = ParticlePairs(tree.to_factor_graph())
    points = np.tile(np.linspace(-9, 9, 241), (pairs.n, 1))
    base = log_widths(points)
    unary = edges.unary_values(pairs, points)
    cloud = Cloud.of(pairs, points, base, unary, unary[pairs.sender])
    for _ in range(4):
        beliefs, cavities = pairs.beliefs(unary, messages_at(pairs, cloud, points))
        cloud = Cloud.of(pairs, points, base, beliefs, cavities)
    table = tabulate(pairs, partial(messages_at, pairs, cloud), points)
    assert bethe_value(pairs, table) == pytest.approx(tree.log_z, abs=1e-6)
    mean, variance = moments(table.points, table.log_beliefs + table.log_measure)
    np.testing.assert_allclose(mean, tree.mean, atol=1e-6)
    np.testing.assert_allclose(variance, np.diag(tree.covariance), atol=1e-6)


def test_zero_messages_are_left_out_and_not_subtracted():
    a, b, c = (credo.Variable(name, 2) for name in "abc")
    graph = credo.FactorGraph(
        [a, b, c], [credo.TableFactor([a, b], np.ones((2, 2))), credo.TableFactor([b, c], np.ones((2, 2)))]
    )
    pairs = ParticlePairs(credo.HybridNet(graph.variables, graph.factors).to_factor_graph())
    messages = np.log([[1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0]])
    messages[0] = [-np.inf, 1.0]  # a -> b says that b is not 0
    beliefs, cavities = pairs.beliefs(np.zeros((3, 2)), messages)
    np.testing.assert_array_equal(beliefs[1], [-np.inf, 1.0])
    np.testing.assert_array_equal(cavities[2], [0.0, 0.0])  # b -> a does not send it back
    np.testing.assert_array_equal(cavities[1], [-np.inf, 1.0])  # b -> c passes it on


def _one_edge():
    x, y = real("x"), real("y")
    return ParticlePairs(credo.HybridNet([x, y], [potentials.laplace(x, y)]).to_factor_graph())


def _project(message, sites=None):
    """Project a message into y, whose cavity is a standard normal density."""
    pairs = _one_edge()
    sites = sites or Sites(np.ones(2), np.zeros(2), np.zeros(2), np.zeros(2))
    points = np.tile(np.linspace(-9, 9, 400), (2, 1))
    unary = -0.5 * points**2
    messages = np.stack([message(points[1]), np.zeros(400)])
    return project(pairs, sites, points, unary, messages)


def test_a_gaussian_message_is_projected_on_itself():
    sites, skipped = _project(lambda y: -0.5 * 3 * (y - 1) ** 2)
    assert skipped == 0
    assert sites.precision[0] == pytest.approx(3, abs=1e-6)
    assert sites.shift[0] == pytest.approx(3, abs=1e-6)
    np.testing.assert_allclose(sites.unary_precision, 1, atol=1e-6)


def test_a_message_that_widens_is_projected_as_long_as_the_proposal_is_proper():
    sites, skipped = _project(lambda y: 0.25 * y**2)
    assert skipped == 0
    assert sites.precision[0] == pytest.approx(-0.5, abs=1e-4)


@pytest.mark.parametrize(
    "message",
    [lambda y: 0.6 * y**2, lambda y: np.zeros_like(y) + 0.5 * y**2, lambda y: np.full_like(y, -np.inf)],
    ids=["grows", "leaves nothing that ends", "zero"],
)
def test_improper_updates_are_skipped(message):
    before = Sites(np.ones(2), np.zeros(2), np.array([0.0, 0.0]), np.zeros(2))
    sites, skipped = _project(message, before)
    assert skipped >= 1
    assert sites.precision[0] == before.precision[0]
    assert (sites.proposals(_one_edge())[0] > 0).all()


def test_updates_that_go_astray_together_give_way_to_the_belief():
    """Two messages that are proper alone but whose sites add up to a negative precision."""
    x, y, z = (real(name) for name in "xyz")
    pairs = ParticlePairs(
        credo.HybridNet([x, y, z], [potentials.laplace(x, y), potentials.laplace(z, y)]).to_factor_graph()
    )
    points = np.tile(np.linspace(-9, 9, 400), (3, 1))
    sites = Sites(np.ones(3), np.zeros(3), np.zeros(4), np.zeros(4))
    messages = np.zeros((4, 400))
    messages[:2] = 0.3 * points[1] ** 2 * (np.abs(points[1]) < 3) + 2.7 * (np.abs(points[1]) >= 3)
    new, skipped = project(pairs, sites, points, -0.5 * points**2, messages)
    precision, shift = new.proposals(pairs)
    assert skipped > 0
    assert (precision > 0).all()
    beliefs = pairs.beliefs(-0.5 * points**2, messages)[0]
    mean, variance = moments(points, beliefs + log_widths(points))
    assert 1 / precision[1] == pytest.approx(variance[1], rel=1e-9)
    assert shift[1] / precision[1] == pytest.approx(mean[1], abs=1e-9)


def test_draws_have_the_density_that_is_reported():
    points = np.array([[0.0, 1.0, 3.0, 4.0]])
    values = np.log([[1.0, 3.0, 1.0, 0.5]])
    uniforms = stratify(1, 20000, np.random.default_rng(0))
    x, log_density = draw(points, values, uniforms)
    mass = np.array([2.0, 4.0, 0.75]) / 6.75
    np.testing.assert_allclose(np.histogram(x[0], points[0])[0] / 20000, mass, atol=1e-3)
    cell = np.searchsorted(points[0], x[0]) - 1
    np.testing.assert_allclose(np.exp(log_density[0]), (mass / [1.0, 2.0, 1.0])[cell])


def test_panels_integrate_polynomials_exactly():
    edge = np.array([[-1.0, 0.0, 0.5, 0.5, 2.0]])
    points, log_weights = panels(edge, 4)
    assert (np.exp(log_weights) * points**7).sum() == pytest.approx((2**8 - 1) / 8)


def test_variables_are_found_wherever_they_are():
    a, b, c, d, e, f = (real(name) for name in "abcdef")
    model = credo.HybridNet(
        [a, b, c, d, e, f],
        [
            potentials.gaussian(a, -3000.0, 1e-4),
            potentials.laplace(a, b),  # says where b is, because a is known
            potentials.laplace(b, e),  # says nothing about e yet
            credo.GaussianFactor.from_moments([c, d], [40.0, -7.0], [[4.0, 1.0], [1.0, 0.5]]),
        ],
    )
    points, values, known = locate(ParticlePairs(model.to_factor_graph()), 64, spread=2.0)
    assert known.tolist() == [True, True, True, True, False, False]
    mean, variance = moments(points, values + log_widths(points))
    np.testing.assert_allclose(mean, [-3000, -3000, 40, -7, -3000, 0], atol=0.2)
    assert variance[0] == pytest.approx(1e-4, rel=0.05)
    assert variance[5] == pytest.approx(4.0, rel=0.05)
