r"""What Gaussians collect: weight, mean and scatter of rows, which keep their digits far from the origin.

    N = sum w,   m = sum w x / N,   S = sum w Q(x - m)

with Q(v) the quadratic part of T: v v^T (full), v^2 for every coordinate (diagonal) or |v|^2 (spherical).
The sums of T itself are N m and S + N Q(m); a variance taken from those is a small difference of large
numbers where the mean is large. Parts of the data add up without such differences,

    N = N1 + N2,   m = m1 + (m2 - m1) N2 / N,   S = S1 + S2 + Q(m2 - m1) N1 N2 / N
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ..core.records import record

__all__ = [
    "Form",
    "RowMoments",
    "column_moments",
    "moments_of_sums",
    "quadratic",
    "weighted_moments",
    "without_rounding",
]

Form = Literal["full", "diagonal", "spherical"]

_WORN = 1e6  # square of a mean over the variance from which too many digits are lost in their difference
_NARROW = 12  # up to this dimension sums of v v^T are faster without a matrix product
_ROUNDING = 0.1 * float(np.finfo(np.float64).eps)  # ratio of a spread to the mean that no numbers have


@record("row moments")
@dataclass(frozen=True)
class RowMoments:
    """Weighted sums over rows of data, for each member; they add up over parts of the data."""

    count: np.ndarray  # (members,) sum of the weights
    mean: np.ndarray  # (members, d) weighted mean, anything where there is no weight
    scatter: np.ndarray  # (members, m) sum of weight times Q(x - mean), flat
    form: Form  # which Q
    log_base: float | np.ndarray = 0.0  # sum of weight times log h(x), (members,) if it is not zero

    @property
    def total(self) -> np.ndarray:
        """Sums of weight times T(x) = (x, Q(x)), (members, d + m)."""
        count = self.count[:, None]
        return np.concatenate([count * self.mean, self.around(np.zeros_like(self.mean))], axis=1)

    def around(self, centre: np.ndarray) -> np.ndarray:
        """Sums of weight times Q(x - centre), with one centre per member, (members, m)."""
        return self.scatter + self.count[:, None] * quadratic(self.form, self.mean - centre)

    def __add__(self, other: RowMoments) -> RowMoments:
        count = self.count + other.count
        share = (other.count / np.where(count > 0, count, 1.0))[:, None]
        gap = other.mean - self.mean
        between = share * self.count[:, None] * quadratic(self.form, gap)
        scatter = self.scatter + other.scatter + between
        return RowMoments(count, self.mean + share * gap, scatter, self.form, self.log_base + other.log_base)

    def scaled(self, step: float) -> RowMoments:
        """The same with all weights multiplied by one number, as mini-batches need it."""
        return replace(
            self, count=step * self.count, scatter=step * self.scatter, log_base=step * self.log_base
        )


def quadratic(form: Form, v: np.ndarray) -> np.ndarray:
    """Q of vectors (..., d), flat on the last axis."""
    if form == "full":
        return (v[..., :, None] * v[..., None, :]).reshape(*v.shape[:-1], -1)
    return v * v if form == "diagonal" else (v * v).sum(axis=-1, keepdims=True)


def weighted_moments(
    x: np.ndarray, weights: np.ndarray, origin: np.ndarray, total: np.ndarray, form: Form
) -> RowMoments:
    """RowMoments of rows from their sums of T about an origin among the data.

    Parameters
    ----------
    x, weights
        Shapes (rows, d) and (rows, members).
    origin, total
        A row (d,), and the sums of weight times T(x - origin), (members, d + m).
    form
        Of T.

    The few members whose rows are far from the origin, for their spread, are summed again about their mean.
    """
    count = np.ones(len(x)) @ weights

    def again(k: int, _: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return column_moments(x, weights[:, k], form)

    return moments_of_sums(count, origin, total, form, again)


def moments_of_sums(
    count: np.ndarray,
    origin: np.ndarray,
    total: np.ndarray,
    form: Form,
    again: Callable[[int, np.ndarray], tuple[np.ndarray, np.ndarray]],
) -> RowMoments:
    """RowMoments from the weight (members,) and the sums of T(x - origin), (members, d + m).

    `again(k, mean)` gives mean and scatter of a member whose mean is too far from the origin for its spread.
    """
    d = origin.shape[-1]
    gap = total[:, :d] / np.where(count > 0, count, 1.0)[:, None]
    scatter = total[:, d:] - count[:, None] * quadratic(form, gap)
    mean = origin + gap
    worn = _diagonals(form, total[:, d:], d) > _WORN * _diagonals(form, scatter, d)
    for k in np.flatnonzero(worn.any(axis=1) & (count > 0)):
        mean[k], scatter[k] = again(int(k), mean[k])
    return RowMoments(count, mean, scatter, form)


def column_moments(x: np.ndarray, weights: np.ndarray, form: Form) -> tuple[np.ndarray, np.ndarray]:
    """Mean (d,) and scatter (m,) of rows with one weight each, not all zero, in two passes."""
    count, d = weights.sum(), x.shape[1]
    mean = weights @ x / count
    gap = x - mean
    missed = weights @ gap / count
    if form == "full" and d > _NARROW:
        second = (weights[:, None] * gap).T @ gap
        second = (0.5 * (second + second.T)).ravel()
    else:
        second = weights @ quadratic(form, gap)
    return mean + missed, without_rounding(count, mean, second - count * quadratic(form, missed), form)


def without_rounding(count: float, mean: np.ndarray, scatter: np.ndarray, form: Form) -> np.ndarray:
    """The scatter (m,) about a mean, exactly 0 for coordinates that are all equal."""
    d = len(mean)
    # What is left of rows that are all equal is the rounding of their mean.
    least = count * _ROUNDING**2 * _diagonals(form, quadratic(form, mean), d)
    flat = _diagonals(form, scatter, d) <= least
    if form == "full":
        return np.where(flat[:, None] | flat, 0.0, scatter.reshape(d, d)).ravel()
    return np.where(flat, 0.0, scatter)


def _diagonals(form: Form, flat: np.ndarray, d: int) -> np.ndarray:
    """The entries of Q that are squares."""
    return flat[..., :: d + 1] if form == "full" else flat
