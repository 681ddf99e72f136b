"""Formulas of the source on continuous Bethe inference that are misprinted: ours hold, the printed ones fail.

Here are those that belong to no algorithm's own file. Theorem 1 is in `test_bethe_system.py`, (4.14) in
`test_nonparametric_vi.py`, (6.9) and (6.16) in `test_mixture_of_trees.py`, (8.5) in
`learning/test_continuous_structure.py`, (A.2) and (D.4) to (D.6) in `learning/test_lda_objective.py`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import digamma
from scipy.stats import dirichlet, multivariate_normal, norm

import credo
import hybrid_zoo as zoo
from credo import potentials
from credo.core.variable import Variables
from credo.inference.problem.tree import forecast
from credo.inference.variational.gaussian_tree_mixture import GaussianTree
from credo.inference.variational.stein import direction
from credo.inference.variational.surrogate import Surrogate
from credo.models.bayesian_tree import BayesianTree

X, Y = credo.Variable("x", credo.Real()), credo.Variable("y", credo.Real())


def gaussian_tree(n=4):
    net = zoo.gaussian_tree(n, 1)
    precision, shift = net.precision, net.shift
    up = np.array([-1, *(int(np.flatnonzero(precision[i, :i])[0]) for i in range(1, n))])
    return precision, GaussianTree.of_precision(up, np.arange(n), precision, shift)


def mixture(means, sds, weights):
    variables = Variables.of([X, Y][: len(means)])
    return Surrogate(
        variables, np.log(weights), np.array(means), np.array(sds), np.zeros((0, len(weights))), {}
    )


def test_elimination_of_a_chain_costs_two_products_and_not_one_cube():
    """L310: both sums of a chain of three cost 2 k^2 products; all joint states would cost k^3."""
    k = 7
    rng = np.random.default_rng(0)
    one, two = rng.random((k, k)), rng.random((k, k))
    model = credo.MarkovNet({"a": k, "b": k, "c": k}, {("a", "b"): one, ("b", "c"): two})
    assert credo.infer(model, "elimination").log_z.value == pytest.approx(np.log(one.sum(0) @ two.sum(1)))
    assert 2 ** forecast(model).log2_operations == pytest.approx(2 * k**2 + k)  # and the last sum


def test_beliefs_of_a_pair_are_products_within_a_component():
    """(5.5): no correlation inside a component; all of it comes from the components' means."""
    weights, means = np.array([0.3, 0.7]), np.array([[-1.0, 2.0], [0.5, 3.0]])
    belief = mixture(means, [[1.0, 0.5], [2.0, 0.7]], weights)
    at = {"x": np.array([0.3]), "y": np.array([1.1])}
    parts = norm.pdf(0.3, means[0], [1.0, 0.5]) * norm.pdf(1.1, means[1], [2.0, 0.7])
    assert belief.log_density(at)[0] == pytest.approx(np.log(weights @ parts))
    drawn = belief.sample(200_000, 0)
    centred = means - (means @ weights)[:, None]
    assert np.cov(drawn.column("x"), drawn.column("y"))[0, 1] == pytest.approx(
        (centred[0] * weights) @ centred[1], abs=0.03
    )


def test_the_second_parameter_of_a_belief_is_a_standard_deviation():
    """L590 calls sigma the variance: a Gaussian of variance 9 is found with sigma 3."""
    found = credo.infer(
        credo.HybridNet([X], [potentials.gaussian(X, 1.0, 9.0)]), "bethe(components=1)", seed=0
    )
    assert found.state.sds[0, 0] == pytest.approx(3.0, abs=0.01)
    assert found.marginals["x"].variance == pytest.approx(9.0, abs=0.06)


def test_the_normaliser_of_a_gaussian_tree():
    """(6.12): (2 pi)^(k/2) det(Sigma)^(1/2), printed (2 pi)^(-k/2) det(Sigma)."""
    precision, tree = gaussian_tree()
    k, det = len(precision), np.linalg.det(np.linalg.inv(precision))
    right, printed = (
        0.5 * k * np.log(2 * np.pi) + 0.5 * np.log(det),
        -0.5 * k * np.log(2 * np.pi) + np.log(det),
    )
    peak = -tree.log_density(tree.mean[None])[0]
    assert peak == pytest.approx(right, abs=1e-10)
    assert abs(peak - printed) > 1.0


def test_a_precision_is_the_inverse_of_the_whole_covariance():
    """(6.15): entries of the precision are not those of inverted blocks."""
    precision, tree = gaussian_tree()
    covariance = tree.covariance()
    np.testing.assert_allclose(np.linalg.inv(covariance), precision, atol=1e-10)
    np.testing.assert_allclose(tree.precision().toarray(), precision, atol=1e-10)
    gaps = []
    for i, j in zip(*np.nonzero(np.triu(precision, 1)), strict=True):
        block = np.linalg.inv(covariance[np.ix_([i, j], [i, j])])
        gaps.append(np.abs(block - precision[np.ix_([i, j], [i, j])]).max())
    assert max(gaps) > 0.05
    x = np.random.default_rng(0).normal(size=(5, len(precision)))
    np.testing.assert_allclose(tree.log_density(x), multivariate_normal(tree.mean, covariance).logpdf(x))


def test_the_entropy_of_pair_probabilities_counts_once():
    """(7.10): the integral of b log b over theta; printed it stands once for each joint state."""
    prior = np.array([1.5, 1.0, 2.0, 1.0])
    model = BayesianTree(
        {"a": 2, "b": 2}, [("a", "b")], rows=1, concentration={("a", "b"): prior.reshape(2, 2)}
    )
    posterior = prior + np.eye(4)[2]
    logs = digamma(posterior) - digamma(posterior.sum())
    log_prior = (
        (prior - 1) @ logs + dirichlet(prior).logpdf(np.full(4, 0.25)) - (prior - 1).sum() * np.log(0.25)
    )
    entropy = dirichlet(posterior).entropy()
    evidence = model.log_evidence([[1, 0]])
    assert logs[2] + log_prior + entropy == pytest.approx(evidence, abs=1e-10)
    assert abs(logs[2] + log_prior + 4 * entropy - evidence) > 1.0


def test_a_laplace_potential_has_a_centre():
    """(8.1): exp(-|x - mu| / nu), printed without mu."""
    x = np.linspace(-4.0, 6.0, 11)
    found = potentials.laplace(X, scale=0.5, centre=1.5).log_values(x)
    np.testing.assert_allclose(found - found.max(), -(np.abs(x - 1.5) - np.abs(x - 1.5).min()) / 0.5)
    printed = -np.abs(x) / 0.5
    assert np.abs((found - found.max()) - (printed - printed.max())).max() > 1.0


def test_particles_follow_the_slope_of_the_log_density():
    """(C.1): on draws of p the direction vanishes for the slope of log p; for that of p, as printed, not."""
    rng = np.random.default_rng(0)
    x = rng.normal(1.0, 0.6, (4000, 1))
    log_slope = (1.0 - x) / 0.36
    still, _ = direction(x, log_slope, None, np.float64(1.0))
    pushed, _ = direction(x, log_slope * norm.pdf(x, 1.0, 0.6), None, np.float64(1.0))
    assert np.abs(still).mean() < 0.03
    assert np.abs(pushed).mean() > 0.1


def test_a_component_that_underflows_adds_nothing():
    """L1233: exp(-inf) is 0; were its logarithm 0, as printed, it would add 1."""
    belief = mixture([[0.0, 5.0]], [[1.0, 1.0]], np.array([1.0, 0.5]))
    far = replace(belief, log_weights=np.array([0.0, -np.inf]))
    found = far.log_density({"x": np.array([0.7])})[0]
    assert found == pytest.approx(norm.logpdf(0.7))
    assert abs(found - np.log(norm.pdf(0.7) + 1.0)) > 0.5
