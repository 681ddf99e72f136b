"""Numbers about vital signs against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from credo.core.errors import DataError
from credo.data.vital_signs import (
    heart_rate_features,
    oximetry_features,
    sample_asymmetry,
    sample_entropy,
)

RNG = np.random.default_rng(1)


def counted_entropy(x, order, tolerance):
    """By the definition, pair by pair."""
    reach, count, pairs, longer = tolerance * x.std(), len(x) - order, 0, 0
    for i in range(count):
        for j in range(i + 1, count):
            if np.abs(x[i : i + order] - x[j : j + order]).max() <= reach:
                pairs += 1
                longer += abs(x[i + order] - x[j + order]) <= reach
    return -np.log(longer / pairs)


@pytest.mark.parametrize(("order", "tolerance"), [(1, 0.3), (2, 0.2), (3, 0.5)])
def test_sample_entropy_counts_pairs(order, tolerance):
    x = RNG.normal(size=80)
    assert sample_entropy(x, order=order, tolerance=tolerance) == pytest.approx(
        counted_entropy(x, order, tolerance)
    )


def test_sample_entropy_is_finite_where_nothing_agrees_and_zero_where_all_does():
    assert sample_entropy([1.0, 2.0, 4.0, 8.0, 16.0, 32.0], order=2, tolerance=0.0) == pytest.approx(
        np.log(6)
    )
    assert sample_entropy(np.ones(20)) == 0


def test_asymmetry_grows_with_decelerations_and_is_odd():
    x = RNG.normal(size=500)
    slow = x + 6 * (RNG.random(500) < 0.05)
    assert abs(sample_asymmetry(x)) < 0.2 < sample_asymmetry(slow)
    assert sample_asymmetry(-slow) == pytest.approx(-sample_asymmetry(slow))
    assert sample_asymmetry(5 * slow + 2) == pytest.approx(sample_asymmetry(slow))
    assert heart_rate_features(slow).tolist() == [slow.std(), sample_asymmetry(slow), sample_entropy(slow)]


def test_oximetry_has_moments_and_correlations_over_lags():
    x = RNG.gamma(3, size=200)
    y = 90 + np.roll(x, 5)
    found = oximetry_features(x, y, lags=10)
    moments = [[s.mean(), s.std(), stats.skew(s), stats.kurtosis(s, fisher=False)] for s in (x, y)]
    np.testing.assert_allclose(found[:8], np.ravel(moments))
    assert 0.9 < found[9] <= 1 and found[8] < found[9]
    flat = oximetry_features(np.ones(50), np.ones(50))
    assert np.isfinite(flat).all() and flat[[0, 4]].tolist() == [1, 1]


def test_refusals():
    with pytest.raises(DataError, match=r"x: expected at least 5 finite numbers, .* got shape \(4,\)"):
        sample_entropy(np.ones(4))
    with pytest.raises(DataError, match="intervals: expected at least 5 finite numbers"):
        heart_rate_features([1.0, np.nan, 2.0, 3.0, 4.0, 5.0])
    with pytest.raises(DataError, match="saturation: expected 40 samples, as many as intervals, got 50"):
        oximetry_features(np.arange(40.0), np.arange(50.0))
