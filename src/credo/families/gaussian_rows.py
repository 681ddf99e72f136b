"""What Gaussians of every shape of covariance share: rows of numbers, and missing coordinates.

A row may miss some coordinates (NaN). Its density is that of the observed ones, and its expected
sufficient statistics complete it by the conditional Gaussian of the others,

    E[x_u | x_o] = m_u + C_uo C_oo^-1 (x_o - m_o),    Cov = C_uu - C_uo C_oo^-1 C_ou,

rows with the same missing coordinates being treated together.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from ..core.errors import DataError, ModelError
from ..kernels.row_patterns import group_rows
from .base import ClosedLeaf, member_weights
from .moments import Form, RowMoments, column_moments, quadratic, weighted_moments
from .natural import LOG_2PI
from .number_rows import NumberRows

__all__ = [
    "UNSEEN",
    "GaussianRows",
    "cholesky",
    "first_seen",
    "most_probable",
    "patterns",
    "starting_means",
]


UNSEEN = 1e-12  # weight of rows below which there are none
_FIRST = 64  # rows among which every coordinate is looked for first


class GaussianRows(NumberRows, ClosedLeaf):
    """A Gaussian family with means (members, d) and some shape of covariance."""

    _mean: np.ndarray
    _form: ClassVar[Form]  # of the quadratic part of T

    @property
    def mean(self) -> np.ndarray:
        """(members, d), read-only."""
        return self._mean

    @property
    def means(self) -> np.ndarray:
        """The same, by the name that all families have."""
        return self._mean

    @property
    @abc.abstractmethod
    def covariances(self) -> np.ndarray:
        """Full covariance matrices (members, d, d)."""

    @property
    def dimension(self) -> int:
        """How many coordinates a row has."""
        return self._mean.shape[1]

    def __len__(self) -> int:
        return len(self._mean)

    def movement(self, new: Any) -> float:
        """The largest change of a mean, in standard deviations, or of a covariance, in variances."""
        before = self.covariances
        scale = np.sqrt(before.diagonal(axis1=1, axis2=2))
        means = np.abs(new._mean - self._mean) / scale
        shapes = np.abs(new.covariances - before) / (scale[:, :, None] * scale[:, None, :])
        return float(max(means.max(initial=0.0), shapes.max(initial=0.0)))

    @abc.abstractmethod
    def _complete_density(self, x: np.ndarray) -> np.ndarray:
        """Log density of rows without NaN."""

    def sufficient(self, x: np.ndarray) -> np.ndarray:
        """A row and its quadratic part, (rows, d + d^2), (rows, 2 d) or (rows, d + 1); see `moments`."""
        return np.concatenate([x, quadratic(self._form, x)], axis=1)

    def log_base(self, x: np.ndarray) -> np.ndarray:
        """-d/2 log 2 pi."""
        return np.full(len(x), -0.5 * self.dimension * LOG_2PI)

    def leaves(self, x: Any) -> np.ndarray:
        """Log density of the observed coordinates, (rows, members)."""
        found = self.rows(x)
        if not np.isnan(found).any():
            return self._complete_density(found)
        return self._seen_density(found)

    def collect(self, x: Any, q: np.ndarray | None = None) -> RowMoments:
        """Expected moments; see `base.Family.collect`."""
        found = self.rows(x)
        weights = member_weights(q, len(found), len(self))
        if not np.isnan(found).any():
            return self._summed_rows(found, weights)
        share = np.ones((len(found), len(self))) if weights is None else weights
        return self._completed(found, share)

    def _summed_rows(self, x: np.ndarray, weights: np.ndarray | None) -> RowMoments:
        """RowMoments of complete rows."""
        if weights is None or not len(x):
            sums = RowMoments(np.full(len(self), float(len(x))), *self._shared(x), self._form)
        else:
            origin = np.ones(len(x)) @ x / len(x)  # several times faster than `mean` for few columns
            sums = weighted_moments(x, weights, origin, self._about(x, weights, origin), self._form)
        return replace(sums, log_base=self._base_of(sums.count))

    def _about(self, x: np.ndarray, weights: np.ndarray, origin: np.ndarray) -> np.ndarray:
        """Sums of weight times T(x - origin), (members, d + m)."""
        return self._totals(x - origin, weights)

    def _shared(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and scatter of complete rows, for all members."""
        if not len(x):
            mean = np.zeros_like(self._mean)
            return mean, quadratic(self._form, mean)
        mean, scatter = column_moments(x, np.ones(len(x)), self._form)
        return np.tile(mean, (len(self), 1)), np.tile(scatter, (len(self), 1))

    @abc.abstractmethod
    def _seen_density(self, x: np.ndarray) -> np.ndarray:
        """Log density of the observed coordinates of rows with NaN."""

    @abc.abstractmethod
    def _completed(self, x: np.ndarray, weights: np.ndarray) -> RowMoments:
        """Expected moments of rows with NaN, of which those that observe nothing do not count."""

    def _base_of(self, count: np.ndarray) -> np.ndarray:
        """Log h of so many complete rows."""
        return -0.5 * self.dimension * LOG_2PI * count

    def sample(self, members: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One row from each of the given members."""
        noise = rng.standard_normal((len(members), self.dimension))
        roots = np.linalg.cholesky(self.covariances)
        out = np.empty_like(noise)
        for k in range(len(self)):
            where = np.flatnonzero(np.asarray(members) == k)
            out[where] = self._mean[k] + noise[where] @ roots[k].T
        return out

    def _seeds(self, x: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """See `starting_means`."""
        return starting_means(x, len(self), rng)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} members, dimension {self.dimension})"


def starting_means(x: np.ndarray, members: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Distant rows of the data as means, and the variance of every coordinate around one of them.

    Each next mean is drawn with probability proportional to its squared distance from those before
    it, so that one bad draw does not put all members into one cluster. Where too few rows are complete,
    missing coordinates are put at the mean of those that were seen.
    """
    complete, variances = _starting_rows(x, members)
    spread = np.maximum(variances, np.finfo(np.float64).tiny)
    means = [complete[rng.integers(len(complete))]]
    nearest = (((complete - means[0]) ** 2) / spread).sum(axis=1)
    while len(means) < members:
        mass = nearest.sum()
        chosen = rng.choice(len(complete), p=nearest / mass) if mass > 0 else rng.integers(len(complete))
        means.append(complete[chosen])
        nearest = np.minimum(nearest, (((complete - means[-1]) ** 2) / spread).sum(axis=1))
    return np.array(means), np.where(variances > 0, variances, 1.0)


def _starting_rows(x: np.ndarray, members: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows without NaN to start members from, and the variances of what was seen of every coordinate."""
    seen = ~np.isnan(x)
    whole = seen.all(axis=1)
    if whole.all():
        return x, (x - x[0]).var(axis=0)  # exactly 0 for a constant column
    count = seen.sum(axis=0)
    if not count.all():
        column = int(np.flatnonzero(count == 0)[0])
        raise DataError(
            f"data: coordinate {column} is missing in every row; leave it out, nothing can be learned of it"
        )
    first = first_seen(x)
    gap = np.where(seen, x - first, 0.0)
    mean = gap.sum(axis=0) / count
    variances = np.where(seen, (gap - mean) ** 2, 0.0).sum(axis=0) / count
    if whole.sum() >= members:
        return x[whole], variances
    some = seen.any(axis=1)
    return np.where(seen, x, first + mean)[some], variances


def first_seen(x: np.ndarray) -> np.ndarray:
    """The first number of every coordinate, (d,); 0 where all are missing."""
    some = x[:_FIRST]
    if np.isnan(some).all(axis=0).any():
        some = x
    return np.nan_to_num(some[np.isnan(some).argmin(axis=0), np.arange(x.shape[1])])


def patterns(x: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(observed coordinates, rows that observe just those), for every pattern that occurs."""
    seen, order, start = group_rows(x)
    for g, pattern in enumerate(seen):
        yield pattern, order[start[g] : start[g + 1]]


def cholesky(name: str, matrices: np.ndarray) -> np.ndarray:
    """Cholesky factors of matrices (members, d, d); names the member that has none."""
    try:
        return np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        lows = np.array([np.linalg.eigvalsh(matrix)[0] for matrix in matrices])
        k = int(lows.argmin())
        raise ModelError(
            f"{name} of member {k}: expected a positive definite matrix, got a smallest eigenvalue of "
            f"{lows[k]:.3g}; give learning a prior or a floor for variances, or fewer members"
        ) from None


def most_probable(after: Any, count: np.ndarray) -> tuple[Any, np.ndarray]:
    """Modes of the posteriors of members, and which members these are.

    Those without rows, and with a prior that has no mode by itself, are left out: they keep what they have.
    """
    chosen = np.flatnonzero(after.has_mode | (count > UNSEEN))
    if not len(chosen):
        chosen = np.arange(len(after))  # of which the refusal speaks
    return after.take(chosen).mode(), chosen
