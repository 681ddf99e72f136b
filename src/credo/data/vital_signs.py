r"""Numbers that describe a stretch of vital signs: intervals between heart beats, oxygen saturation.

    heart rate      deviation, asymmetry and sample entropy of the intervals (the characteristics behind HeRO)
    oximetry        mean, deviation, skewness and kurtosis of intervals and saturation, and the least and the
                    largest correlation of the two over lags (POPS)

Asymmetry compares the squares above the median, R2, with those below, R1: (R2 - R1) / (R2 + R1), which grows
with the usual ratio R2 / R1 and stays finite; decelerations make it positive. Sample entropy is -log(A / B):
of the pairs of stretches of `order` samples that agree within a tolerance, B, so many, A, agree in the sample
after it too. Where no pair does, it is the largest value that can be seen, log( (n - m)(n - m - 1) / 2 ).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import check
from ..core.errors import DataError
from ..core.numbers import float_array

__all__ = ["heart_rate_features", "oximetry_features", "sample_asymmetry", "sample_entropy"]


def heart_rate_features(intervals: Any, *, order: int = 3, tolerance: float = 0.2) -> np.ndarray:
    """Deviation, sample asymmetry, sample entropy, (3,).

    Parameters
    ----------
    intervals
        Between heart beats, evenly sampled.
    order, tolerance
        As of `sample_entropy`.
    """
    x = _series("intervals", intervals, order + 2)
    return np.array([x.std(), sample_asymmetry(x), sample_entropy(x, order=order, tolerance=tolerance)])


def oximetry_features(intervals: Any, saturation: Any, *, lags: int = 30) -> np.ndarray:
    """Four moments of each series, the least and the largest cross-correlation, (10,).

    Parameters
    ----------
    intervals, saturation
        Sampled at the same times.
    lags
        Samples by which either may be behind.
    """
    check.whole("lags", lags, 0)
    x, y = _series("intervals", intervals, lags + 2), _series("saturation", saturation, lags + 2)
    if len(x) != len(y):
        raise DataError(f"saturation: expected {len(x)} samples, as many as intervals, got {len(y)}")
    one, other = _standardised(x), _standardised(y)
    size = len(x)
    both = [
        (one[max(0, k) : size + min(0, k)] * other[max(0, -k) : size + min(0, -k)]).sum() / size
        for k in range(-lags, lags + 1)
    ]
    moments = [[s.mean(), s.std(), (z**3).mean(), (z**4).mean()] for s, z in ((x, one), (y, other))]
    return np.array([*moments[0], *moments[1], min(both), max(both)])


def sample_asymmetry(x: Any) -> float:
    """From -1, all squares below the median, to 1, all above; 0 for a constant series.

    Examples
    --------
    >>> from credo.data.vital_signs import sample_asymmetry
    >>> sample_asymmetry([0.0, 1.0, 2.0]), sample_asymmetry([0.0, 0.0, 0.0, 5.0])
    (0.0, 1.0)
    """
    values = _series("x", x, 1)
    away = values - np.median(values)
    above, below = float((away[away > 0] ** 2).sum()), float((away[away < 0] ** 2).sum())
    return (above - below) / (above + below) if above + below > 0 else 0.0


def sample_entropy(x: Any, *, order: int = 3, tolerance: float = 0.2) -> float:
    """How hard the next sample is to tell from those before it; 0 for a constant series.

    Parameters
    ----------
    x
        Evenly sampled.
    order
        Samples before it.
    tolerance
        How far samples that agree may be apart, in standard deviations.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.data.vital_signs import sample_entropy
    >>> wave, noise = np.sin(np.arange(300.0)), np.random.default_rng(0).normal(size=300)
    >>> sample_entropy(wave) < 0.5 < sample_entropy(noise)
    True
    """
    check.whole("order", order, 1)
    check.at_least("tolerance", tolerance, 0)
    values = _series("x", x, order + 2)
    count, reach = len(values) - order, tolerance * values.std()
    agree = np.abs(values[:, None] - values) <= reach
    same = np.ones((count, count), dtype=bool)
    for k in range(order):
        same &= agree[k : k + count, k : k + count]
    upper = np.triu(same, 1)
    pairs, longer = int(upper.sum()), int((upper & agree[order:, order:]).sum())
    if not longer:
        return float(np.log(count * (count - 1) / 2))
    return float(-np.log(longer / pairs))


def _series(name: str, value: Any, least: int) -> np.ndarray:
    found = float_array(name, value, error=DataError)
    if found.ndim != 1 or len(found) < least or not np.isfinite(found).all():
        raise DataError(
            f"{name}: expected at least {least} finite numbers, shape (samples,), got shape {found.shape}"
        )
    return found


def _standardised(x: np.ndarray) -> np.ndarray:
    spread = x.std()
    return (x - x.mean()) / (spread if spread > 0 else 1.0)  # type: ignore[no-any-return]
