"""Adaptive integrals: smooth functions, kinks, jumps, needles and long tails."""

from __future__ import annotations

import numpy as np
import pytest

from credo.inference.messages.cubature import integrate

LOG_2PI = np.log(2 * np.pi)


def normal(z, mean, sd):
    return -0.5 * ((z - mean) / sd) ** 2 - np.log(sd) - 0.5 * LOG_2PI


def test_many_integrals_of_different_widths_at_once():
    sd = np.array([1e-5, 0.3, 1.0, 30.0])
    found = integrate(lambda owner, z: normal(z[..., 0], 0.7, sd[owner][:, None]), 4, 1)
    np.testing.assert_allclose(found.logs, 0.0, atol=1e-9)
    np.testing.assert_allclose(found.mean[:, 0], 0.7, atol=1e-9)
    np.testing.assert_allclose(found.covariance[1:, 0, 0], sd[1:] ** 2, rtol=1e-9)


def test_a_jump_and_a_kink_cost_no_accuracy():
    found = integrate(lambda owner, z: np.where(z[..., 0] > 0.3, -np.abs(z[..., 0] - 1.1), -np.inf), 1, 1)
    assert found.logs[0] == pytest.approx(np.log(2 - np.exp(-0.8)), abs=1e-8)


def test_two_dimensions_with_a_curved_ridge():
    def ridge(owner, z):
        return normal(z[..., 1], np.sin(3 * z[..., 0]), 0.1) + normal(z[..., 0], 0.0, 1.0)

    found = integrate(ridge, 2, 2)
    np.testing.assert_allclose(found.logs, 0.0, atol=1e-7)
    np.testing.assert_allclose(found.covariance[:, 0, 1], 3 * np.exp(-4.5), atol=1e-7)
    np.testing.assert_allclose(found.covariance[:, 1, 1], 0.01 + 0.5 * (1 - np.exp(-18)), atol=1e-7)


def test_what_does_not_end_is_told_from_what_does():
    functions = [lambda x: -0.5 * x**2, lambda x: -3 * np.log1p(x**2), lambda x: 0.0 * x]
    tails = [integrate(lambda owner, z, f=f: f(z[..., 0]), 1, 1).tail[0] for f in functions]
    assert tails[0] < 1e-12 and tails[1] < 1e-6 and tails[2] > 0.5


def test_nothing_has_the_integral_zero():
    found = integrate(lambda owner, z: np.full(z.shape[:2], -np.inf), 1, 2)
    assert found.logs[0] == -np.inf and found.tail[0] == 0
