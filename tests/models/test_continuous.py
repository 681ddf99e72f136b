"""Gaussian nets from bad and from badly scaled arrays, against dense linear algebra."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo.core.errors import ModelError

EYE = np.eye(2)


@pytest.mark.parametrize(
    ("mean", "covariance", "words"),
    [
        ([0, 0], [[1, 0.9], [0, 1]], "the covariance must be symmetric and positive definite"),
        ([0, 0], [[1, 1], [1, 1]], "the covariance must be symmetric and positive definite"),
        ([0, 0], [[1, 0], [0, -1]], "the covariance must be symmetric and positive definite"),
        ([0, 0, 0], EYE, r"covariance must have shape \(3, 3\), got \(2, 2\)"),
        ([0, 0], [["a", 0], [0, 1]], "covariance: expected numbers"),
        ([[0, 0]], EYE, "mean: expected one number per variable"),
        (["a", 0], EYE, "mean: expected numbers"),
        ([0, np.nan], EYE, "mean: expected finite numbers"),
    ],
)
def test_moments_that_are_no_gaussian_are_refused(mean, covariance, words):
    with pytest.raises(ModelError, match=words):
        credo.GaussianNet.from_moments(mean, covariance)


def test_moments_come_back_whatever_their_units():
    unit = np.array([1e-10, 1.0, 1e8])
    covariance = np.array([[2.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 1.5]]) * np.outer(unit, unit)
    net = credo.GaussianNet.from_moments([1e-10, -2.0, 3e8], covariance)
    np.testing.assert_allclose(net.covariance, covariance, rtol=1e-9)
    np.testing.assert_allclose(net.mean, [1e-10, -2.0, 3e8], rtol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([["a"]],), "precision: expected numbers"),
        (([[1.0, 2.0], [1.0]],), "precision: expected numbers"),
        (([1.0, 2.0],), "symmetric matrix, got shape"),
        (([[1e-8, 9e-9], [0.0, 1e-8]],), "the precision must be symmetric"),
        (([[1.0, 1.0], [1.0, 1.0]],), "positive definite"),
        ((EYE, [1.0]), r"shift must have shape \(2,\)"),
        ((EYE, "ab"), "shift: expected numbers"),
        ((EYE, [1.0, np.inf]), "shift must be finite"),
        ((EYE, None, ["a"]), "names: expected 2"),
    ],
)
def test_bad_arrays_get_a_sentence(arguments, words):
    with pytest.raises(ModelError, match=words):
        credo.GaussianNet(*arguments)


def test_a_precision_symmetric_up_to_rounding_is_made_so():
    J = np.array([[2.0, 0.5], [0.5 * (1 + 1e-12), 1.0]])
    net = credo.GaussianNet(J)
    assert net.precision[0, 1] == net.precision[1, 0]
    np.testing.assert_allclose(net.precision, J, rtol=1e-11)
