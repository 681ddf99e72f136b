"""Data in which every row lacks something: what can be learned is learned."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo.estimators import BayesianMixture, GaussianHMM
from credo.families import DiagonalGaussian, Gaussian, Mixture

CENTRES = np.array([[0.0, 0.0, 0.0], [6.0, 0.0, 6.0], [0.0, 6.0, -6.0]])


def with_gaps(count=600, seed=0):
    """Rows of three clusters, each without one or two of its three coordinates, and their clusters."""
    rng = np.random.default_rng(seed)
    z = np.repeat(rng.integers(3, size=count // 10), 10)
    x = CENTRES[z] + rng.normal(size=(len(z), 3))
    x[np.arange(len(z)), rng.integers(3, size=len(z))] = np.nan
    x[rng.random(len(z)) < 0.2, 0] = np.nan
    return x[~np.isnan(x).all(axis=1)], z


def found(means):
    """The means in the order of the centres."""
    apart = np.linalg.norm(CENTRES[:, None] - means, axis=2)
    assert sorted(apart.argmin(axis=1)) == [0, 1, 2]
    return means[apart.argmin(axis=1)]


@pytest.mark.parametrize("covariance", ["full", "tied", "diag"])
def test_hidden_markov_models_learn_from_rows_that_all_lack_something(covariance):
    x, _ = with_gaps()
    assert np.isnan(x).any(axis=1).all()
    model = GaussianHMM(3, covariance_type=covariance, n_init=5, random_state=0).fit(x)
    np.testing.assert_allclose(found(model.model_.emission.mean), CENTRES, atol=0.5)


@pytest.mark.parametrize("family", [Gaussian, DiagonalGaussian])
def test_variational_mixtures_learn_from_rows_that_all_lack_something(family):
    x, _ = with_gaps()
    scale = np.tile(np.eye(3), (3, 1, 1)) if family is Gaussian else np.ones((3, 3))
    start = Mixture(np.full((1, 3), 1 / 3), family(np.zeros((3, 3)), scale))
    fit = credo.fit(start, x, "vb(restarts=5)", seed=0)
    np.testing.assert_allclose(found(fit.model.components.mean), CENTRES, atol=0.5)
    assert (np.diff(fit.trace["free_energy"]) > -1e-6).all()


def test_the_estimator_of_mixtures_learns_from_rows_that_all_lack_something():
    x, _ = with_gaps()
    made = BayesianMixture(3, n_init=5, random_state=0).fit(x)
    assert np.isfinite(made.score_samples(x)).all() and len(made.predict(x)) == len(x)
