"""The alpha-divergence, its limits, and the projections that alpha belief propagation iterates."""

from __future__ import annotations

import numpy as np
import pytest

from credo.kernels.divergence import alpha_terms


def alpha_divergence(p, q, alpha):
    return alpha_terms(p, q, alpha).sum()


def kl_divergence(p, q):
    return alpha_divergence(p, q, 1)


def _pair(seed: int, shape=(7,)) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.random(shape) + 0.05, rng.random(shape) + 0.05


def _by_definition(p, q, alpha):
    return (alpha * p + (1 - alpha) * q - p**alpha * q ** (1 - alpha)).sum() / (alpha * (1 - alpha))


def _kl(p, q):
    return (p * np.log(p / q) + q - p).sum()


@pytest.mark.parametrize("alpha", [-2.5, -1, -0.1, 0.1, 0.3, 0.5, 0.8, 1.5, 3])
def test_it_is_its_definition(alpha: float):
    p, q = _pair(0)
    assert alpha_divergence(p, q, alpha) == pytest.approx(_by_definition(p, q, alpha), rel=1e-12)


def test_the_limits_are_the_two_kl_divergences():
    p, q = _pair(1)
    assert alpha_divergence(p, q, 1) == pytest.approx(_kl(p, q), rel=1e-14)
    assert alpha_divergence(p, q, 0) == pytest.approx(_kl(q, p), rel=1e-14)
    assert kl_divergence(p, q) == pytest.approx(_kl(p, q), rel=1e-14)


@pytest.mark.parametrize("near", [1e-4, 1e-7, 1e-10, 1e-13])
def test_it_is_smooth_near_its_limits(near: float):
    p, q = _pair(2)
    for side in (-near, near):
        assert alpha_divergence(p, q, side) == pytest.approx(_kl(q, p), rel=10 * near + 1e-12)
        assert alpha_divergence(p, q, 1 + side) == pytest.approx(_kl(p, q), rel=10 * near + 1e-12)


@pytest.mark.parametrize("alpha", [-1, 0, 0.2, 0.5, 0.9, 1, 2])
def test_it_is_not_negative_and_zero_only_at_equality(alpha: float):
    for seed in range(20):
        p, q = _pair(seed)
        assert alpha_divergence(p, q, alpha) > 0
        assert alpha_divergence(p, p, alpha) == 0
        assert alpha_divergence(p, p * (1 + 1e-6), alpha) == pytest.approx(p.sum() * 5e-13, rel=1e-2)


@pytest.mark.parametrize("alpha", [-1, 0, 0.2, 0.5, 1, 2])
def test_swapping_the_arguments_mirrors_alpha(alpha: float):
    p, q = _pair(3)
    assert alpha_divergence(p, q, alpha) == pytest.approx(alpha_divergence(q, p, 1 - alpha), rel=1e-12)


def test_zeros_count_where_they_should():
    p, q = np.array([0, 0.5, 0.5, 0]), np.array([0.2, 0, 0.8, 0])
    for alpha in (0.3, 0.5, 0.7):
        assert alpha_divergence(p, q, alpha) == pytest.approx(_by_definition(p, q, alpha), rel=1e-12)
    for alpha in (-1, 0, 1, 2):
        assert alpha_divergence(p, q, alpha) == np.inf
    assert kl_divergence(np.array([0.0, 1.0]), np.array([0.5, 0.5])) == pytest.approx(np.log(2), rel=1e-15)


def _factorised(weights: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """An unnormalised product of two vectors from their logs."""
    u, v = np.exp(weights[: shape[0]]), np.exp(weights[shape[0] :])
    return u[:, None] * v[None, :]


def _gradient(function, at: np.ndarray) -> np.ndarray:
    steps = 1e-6 * np.eye(len(at))
    return np.array([(function(at + s) - function(at - s)) / 2e-6 for s in steps])


@pytest.mark.parametrize("alpha", [-0.5, 0.3, 0.5, 1, 2])
def test_its_gradient_is_that_of_kl_at_the_tilted_measure(alpha: float):
    # d D_alpha(p || q) = (1/alpha) d KL(p' || q) with p' = p^alpha q^(1-alpha) held fixed.
    p, _ = _pair(4, (3, 4))
    weights = np.random.default_rng(5).normal(size=7)
    q = _factorised(weights, (3, 4))
    tilted = p**alpha * q ** (1 - alpha)
    one = _gradient(lambda w: alpha_divergence(p, _factorised(w, (3, 4)), alpha), weights)
    two = _gradient(lambda w: kl_divergence(tilted, _factorised(w, (3, 4))), weights) / alpha
    np.testing.assert_allclose(one, two, rtol=1e-6, atol=1e-7)


def test_projecting_on_products_matches_the_marginals():
    p, _ = _pair(6, (3, 4))
    u, v = p.sum(axis=1), p.sum(axis=0) / p.sum()
    best = np.log(np.concatenate([u, v]))
    np.testing.assert_allclose(
        _gradient(lambda w: kl_divergence(p, _factorised(w, (3, 4))), best), 0, atol=1e-8
    )


def test_a_fixed_point_of_the_projections_is_stationary():
    p, _ = _pair(7, (3, 4))
    alpha, q = 0.5, np.full((3, 4), 1.0)
    for _ in range(400):
        tilted = p**alpha * q ** (1 - alpha)
        q = tilted.sum(axis=1)[:, None] * tilted.sum(axis=0)[None, :] / tilted.sum()
    weights = np.log(np.concatenate([q[:, 0], q[0] / q[0, 0]]))
    gradient = _gradient(lambda w: alpha_divergence(p, _factorised(w, (3, 4)), alpha), weights)
    np.testing.assert_allclose(gradient, 0, atol=1e-8)
