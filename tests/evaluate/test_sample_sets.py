"""Scores of sets of samples against closed forms and independent formulas."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import sqrtm
from scipy.spatial.distance import cdist

from credo.core.errors import DataError, OptionError
from credo.evaluate import (
    frechet_distance,
    inception_score,
    mmd,
    nearest_neighbour_accuracy,
    score_samples,
)


def rows(seed, count=40, width=3, scale=1.0, shift=0.0):
    return shift + scale * np.random.default_rng(seed).standard_normal((count, width))


def test_the_inception_score_is_one_if_nothing_is_told_apart_and_the_classes_if_everything_is():
    assert inception_score(np.full((7, 5), 0.2)) == pytest.approx(1)
    assert inception_score(np.repeat(np.eye(5), 3, axis=0)) == pytest.approx(5)
    assert inception_score(np.tile([0.0, 1.0], (4, 1))) == pytest.approx(1)  # one mode of two


def test_the_inception_score_is_the_information_between_rows_and_classes():
    p = np.random.default_rng(0).dirichlet([0.3] * 4, size=9)
    entropy = -(p.mean(axis=0) * np.log(p.mean(axis=0))).sum()
    assert np.log(inception_score(p)) == pytest.approx(entropy + (p * np.log(p)).sum(axis=1).mean())


def test_the_frechet_distance_agrees_with_the_matrix_root():
    x, y = rows(0, width=4), rows(1, 60, 4, 1.7, 0.3) @ rows(2, 4, 4)
    one, other = np.cov(x.T), np.cov(y.T)
    cross = np.trace(sqrtm(one @ other)).real
    gap = ((x.mean(axis=0) - y.mean(axis=0)) ** 2).sum()
    assert frechet_distance(x, y) == pytest.approx(gap + np.trace(one) + np.trace(other) - 2 * cross)


def whitened(x):
    """Rows with mean zero and the unit matrix as covariance."""
    centred = x - x.mean(axis=0)
    return centred @ np.linalg.inv(np.linalg.cholesky(np.cov(centred.T))).T


def test_the_frechet_distance_of_spherical_gaussians_has_a_closed_form():
    x, y = whitened(rows(0, width=2)), 1.0 + 2.0 * whitened(rows(1, 70, 2))
    assert frechet_distance(x, y) == pytest.approx(2 * 1.0**2 + 2 * (2 - 1) ** 2)
    assert frechet_distance(x, x[::-1]) == pytest.approx(0, abs=1e-12)


def test_covariances_without_full_rank_have_a_distance():
    assert frechet_distance(rows(0, 3, 6), rows(1, 3, 6)) > 0
    assert frechet_distance(np.zeros((2, 2)), np.zeros((3, 2))) == 0


@pytest.mark.parametrize("unbiased", [False, True])
def test_mmd_is_the_sum_over_pairs(unbiased):
    x, y = rows(0, 12), rows(1, 9, shift=0.5)
    width = cdist(x, x, "sqeuclidean").mean()

    def kernel(a, b):
        return np.exp(-cdist(a, b, "sqeuclidean") / (2 * width))

    def mean(a):
        k = kernel(a, a)
        return (k.sum() - np.trace(k)) / (len(a) * (len(a) - 1)) if unbiased else k.mean()

    expected = mean(x) + mean(y) - 2 * kernel(x, y).mean()
    assert mmd(x, y, unbiased=unbiased) == pytest.approx(expected)
    assert mmd(x, y, bandwidth=width, unbiased=unbiased) == pytest.approx(expected)


def test_biased_mmd_of_equal_sets_is_zero_and_unbiased_mmd_of_one_law_is_zero_on_average():
    x = rows(0, 30)
    assert mmd(x, x) == 0 and mmd(x, x[::-1]) == pytest.approx(0, abs=1e-12)
    found = [mmd(rows(k, 20), rows(k + 1000, 20), bandwidth=3.0, unbiased=True) for k in range(300)]
    assert abs(np.mean(found)) < 3 * np.std(found) / np.sqrt(300) and min(found) < 0


def test_one_nearest_neighbour_accuracy_is_zero_for_copies_one_for_sets_apart_and_half_for_one_law():
    x = rows(0, 50)
    assert nearest_neighbour_accuracy(x, x) == 0
    assert nearest_neighbour_accuracy(x, x + 100) == 1
    assert nearest_neighbour_accuracy(rows(1, 500), rows(2, 500)) == pytest.approx(0.5, abs=0.05)
    # Every row twice in both sets: of three equally near rows one is of the same set.
    assert nearest_neighbour_accuracy(np.tile(x, (2, 1)), np.tile(x, (2, 1))) == pytest.approx(1 / 3)


def test_one_nearest_neighbour_accuracy_is_leave_one_out_classification():
    from sklearn.model_selection import LeaveOneOut, cross_val_score
    from sklearn.neighbors import KNeighborsClassifier

    x, y = rows(0, 25), rows(1, 31, shift=0.7)
    both, labels = np.concatenate([x, y]), np.repeat([0, 1], [25, 31])
    expected = cross_val_score(KNeighborsClassifier(1), both, labels, cv=LeaveOneOut()).mean()
    assert nearest_neighbour_accuracy(x, y) == pytest.approx(expected)


class Halves:
    """A classifier of rows by the sign of their first column."""

    accuracy_ = 0.75

    def predict_proba(self, X):
        sure = 1 / (1 + np.exp(-3 * np.asarray(X)[:, 0]))
        return np.stack([sure, 1 - sure], axis=1)

    def features(self, X):
        return 2.0 * np.asarray(X)


def test_all_scores_go_through_the_features_of_the_classifier_and_show_its_accuracy():
    x, y = rows(0), rows(1, 30, shift=0.2)
    found = score_samples(x, y, Halves())
    assert found.inception == inception_score(Halves().predict_proba(y))
    assert found.frechet == pytest.approx(4 * frechet_distance(x, y))
    assert (found.mmd, found.neighbour) == pytest.approx((mmd(x, y), nearest_neighbour_accuracy(x, y)))
    assert found.rows == 30 and "classifier's accuracy" in repr(found) and "0.75" in repr(found)


def test_images_are_rows():
    x, y = rows(0, 20, 16), rows(1, 20, 16)
    assert mmd(x.reshape(20, 4, 4), y.reshape(20, 4, 4)) == mmd(x, y)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: mmd(np.zeros((3, 2)), np.zeros((3, 4))), r"drawn: expected 2 columns, .* got 4"),
        (lambda: mmd(np.zeros((3, 2)), np.ones((3, 2))), "real: expected rows that differ, got equal ones"),
        (lambda: frechet_distance(rows(0), rows(0)[:1]), r"drawn: expected at least 2 rows .* \(1, 3\)"),
        (
            lambda: frechet_distance(rows(0), np.full((3, 3), np.nan)),
            "drawn: expected finite numbers, got nan",
        ),
        (lambda: inception_score([0.5, 0.5]), r"expected shape \(rows, classes\), got \(2,\)"),
        (lambda: inception_score([[0.5, 0.6]]), "rows of non-negative numbers that sum to 1"),
    ],
)
def test_what_are_no_sets_of_rows_is_refused(call, said):
    with pytest.raises(DataError, match=said):
        call()


@pytest.mark.parametrize("width", [0.0, -1.0, np.nan, np.inf])
def test_a_bandwidth_is_a_positive_number(width):
    with pytest.raises(OptionError, match="bandwidth must be a positive number"):
        mmd(rows(0), rows(1), bandwidth=width)
