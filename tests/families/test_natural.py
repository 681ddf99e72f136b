"""The mathematics of families on stacked arrays, against SciPy, differences of A and the checked classes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import psi

from credo.families import Categorical, DiagonalGaussian, Dirichlet, Gamma, Gaussian
from credo.families.natural import (
    GAMMA,
    NORMAL,
    SIMPLEX,
    STATES,
    VECTOR,
    dirichlet_expected_log,
    dirichlet_log_norm,
    log_sum,
    match_dirichlet,
    normalised,
)

PLATES, D = (2, 3), 4
FAMILIES = {"normal": NORMAL, "vector": VECTOR, "gamma": GAMMA, "simplex": SIMPLEX, "states": STATES}


def natural(name, seed=0):
    rng = np.random.default_rng(seed)
    if name == "normal":
        return rng.normal(size=PLATES), -rng.random(PLATES) - 0.2
    if name == "vector":
        root = rng.normal(size=(*PLATES, D, D))
        return rng.normal(size=(*PLATES, D)), -0.5 * (root @ root.swapaxes(-1, -2) + np.eye(D))
    if name == "gamma":
        return 3 * rng.random(PLATES) - 0.5, -rng.random(PLATES) - 0.3
    if name == "simplex":
        return (3 * rng.random((*PLATES, D)) - 0.7,)
    return (3 * rng.normal(size=(*PLATES, D)),)


def member(name, eta, at):
    """The member at one place as a checked class of the folder, and the constant its base measure keeps."""
    eta = [part[at] for part in eta]
    flat = np.concatenate([np.ravel(part) for part in eta])[None]
    kind = {
        "normal": DiagonalGaussian,
        "vector": Gaussian,
        "gamma": Gamma,
        "simplex": Dirichlet,
        "states": Categorical,
    }[name].from_natural(flat)
    d = {"normal": 1, "vector": D}.get(name, 0)
    return kind, 0.5 * d * np.log(2 * np.pi)


@pytest.fixture(params=FAMILIES)
def name(request):
    return request.param


def test_stacked_families_are_those_of_the_checked_classes(name):
    family, eta, other = FAMILIES[name], natural(name), natural(name, seed=1)
    values, means, entropies = family.log_normaliser(eta), family.mean(eta), family.entropy(eta)
    both = family.symmetric_kl(eta, other)
    assert values.shape == entropies.shape == both.shape == PLATES
    for at in np.ndindex(*PLATES):
        found, constant = member(name, eta, at)
        second = member(name, other, at)[0]
        flat = np.concatenate([np.ravel(part[at]) for part in means])
        np.testing.assert_allclose(flat, found.mean_parameters[0], rtol=1e-10)
        assert entropies[at] == pytest.approx(found.entropy()[0], abs=1e-10)
        assert both[at] == pytest.approx((found.kl(second) + second.kl(found))[0], rel=1e-9)
        if name != "states":  # whose class keeps its natural parameters normalised
            assert values[at] == pytest.approx(found.log_normaliser[0] + constant, abs=1e-10)


def test_means_are_the_slopes_of_the_log_normaliser(name):
    family, eta = FAMILIES[name], natural(name)
    rng = np.random.default_rng(2)
    way = [rng.normal(size=part.shape) for part in eta]
    if name == "vector":
        way[1] = way[1] + way[1].swapaxes(-1, -2)
    step = 1e-6
    ends = [tuple(a + s * step * b for a, b in zip(eta, way, strict=True)) for s in (1, -1)]
    slope = (family.log_normaliser(ends[0]) - family.log_normaliser(ends[1])) / (2 * step)
    np.testing.assert_allclose(slope, family.inner(tuple(way), family.mean(eta)), rtol=1e-6, atol=1e-7)


def test_entropies_are_those_of_scipy():
    shape, rate = np.array([0.4, 2.0]), np.array([3.0, 0.5])
    np.testing.assert_allclose(
        GAMMA.entropy((shape - 1, -rate)), stats.gamma(shape, scale=1 / rate).entropy()
    )
    a = np.array([0.5, 2.0, 1.0])
    assert SIMPLEX.entropy((a - 1,)) == pytest.approx(stats.dirichlet(a).entropy())
    precision, shift = np.array([[2.0, 0.3], [0.3, 1.0]]), np.array([1.0, -4.0])
    expected = stats.multivariate_normal(cov=np.linalg.inv(precision)).entropy()
    assert VECTOR.entropy((shift, -0.5 * precision)) == pytest.approx(expected)


def test_impossible_states_have_no_entropy_and_no_distance():
    eta = (np.array([[0.0, -np.inf, 0.0], [-np.inf, 5.0, -np.inf]]),)
    np.testing.assert_allclose(STATES.entropy(eta), [np.log(2), 0], atol=1e-15)
    np.testing.assert_array_equal(STATES.symmetric_kl(eta, eta), [0, 0])
    other = (np.array([[0.0, 0.0, 0.0], [-np.inf, 1.0, -np.inf]]),)
    np.testing.assert_array_equal(STATES.symmetric_kl(eta, other), [np.inf, 0])


def test_small_concentrations_keep_their_digits():
    a = np.array([1e-20, 1e-18])
    assert dirichlet_log_norm(a) == pytest.approx(np.log(1e20 + 1e18), rel=1e-12)
    np.testing.assert_allclose(
        dirichlet_expected_log(a), [-1e20 + 1 / 1.01e-18, -1e18 + 1 / 1.01e-18], rtol=1e-9
    )


def test_a_dirichlet_is_recovered_from_its_expected_logarithms():
    alpha = np.array([[0.05, 3.0], [40.0, 0.7], [1.0, 1.0]])
    target = psi(alpha) - psi(alpha.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(match_dirichlet(target, np.ones_like(alpha)), alpha, rtol=1e-8)


def test_sums_of_weights_that_are_all_zero_are_zero():
    logs = np.array([[-np.inf, -np.inf], [1000.0, 1000.0], [-np.inf, -2000.0]])
    np.testing.assert_array_equal(log_sum(logs), [-np.inf, 1000 + np.log(2), -2000])
    weight, total = normalised(logs)
    np.testing.assert_array_equal(weight, [[0, 0], [0.5, 0.5], [0, 1]])
    np.testing.assert_array_equal(total, log_sum(logs))
