"""Densities on a simplex: weighted points, mixtures of Dirichlets."""

from __future__ import annotations

import numpy as np
import pytest

from credo.core.errors import QueryError
from credo.families.densities import DirichletMixtureDensity, SimplexParticleDensity

ALPHA = np.array([4.0, 2.0, 3.0])


@pytest.fixture(scope="module")
def density() -> SimplexParticleDensity:
    points = np.random.default_rng(0).dirichlet(ALPHA, size=3000)
    return SimplexParticleDensity(points, np.full(3000, 1 / 3000))


def test_moments_are_those_of_the_points(density):
    mean = ALPHA / ALPHA.sum()
    np.testing.assert_allclose(density.mean, mean, atol=0.01)
    np.testing.assert_allclose(density.variance, mean * (1 - mean) / 10, rtol=0.1)
    np.testing.assert_allclose(density.sd, np.sqrt(density.variance))


def test_the_smoothed_density_integrates_to_one_and_is_near_the_true_one(density):
    grid = (np.arange(60) + 0.5) / 60
    a, b = np.meshgrid(grid, grid, indexing="ij")
    inside = a + b < 1
    points = np.stack([a[inside], b[inside], 1 - a[inside] - b[inside]], axis=1)
    values = np.concatenate([density.density(part) for part in np.array_split(points, 20)])
    assert values.sum() / 3600 == pytest.approx(1, abs=0.02)
    truth = 3360 * np.prod(points ** (ALPHA - 1), axis=1)  # 8! / (3! 1! 2!)
    assert np.abs(values - truth).sum() / 3600 < 0.15
    np.testing.assert_allclose(density.mode, (ALPHA - 1) / 6, atol=0.12)


def test_samples_are_points_drawn_by_weight(density):
    two = SimplexParticleDensity(np.array([[0.2, 0.8], [0.7, 0.3]]), np.array([0.25, 0.75]))
    rows = two.sample(4000, np.random.default_rng(0))
    assert rows.shape == (4000, 2) and (rows[:, 0] == 0.7).mean() == pytest.approx(0.75, abs=0.03)
    same = SimplexParticleDensity(np.array([[1.0, 0.0]]), np.ones(1))
    assert np.isfinite(same.log_density(np.array([0.5, 0.5]))) and "1 particles" in repr(same)


def test_the_mode_of_a_mixture_lies_between_near_components():
    density = DirichletMixtureDensity(np.array([0.5, 0.5]), np.array([[6.0, 4.0, 4.0], [4.0, 6.0, 4.0]]))
    x = density.mode
    np.testing.assert_allclose(x, [4 / 11, 4 / 11, 3 / 11], atol=1e-6)
    for alpha in density.concentrations:
        assert density.log_density(x) > density.log_density((alpha - 1) / (alpha - 1).sum())
    with pytest.raises(QueryError, match="no highest point"):
        _ = DirichletMixtureDensity(np.ones(1), np.array([[0.5, 2.0]])).mode
