"""What Gaussians of every shape of covariance share: rows of numbers, and missing coordinates.

A row may miss some coordinates (NaN). Its density is that of the observed ones, and its expected
sufficient statistics complete it by the conditional Gaussian of the others,

    E[x_u | x_o] = m_u + C_uo C_oo^-1 (x_o - m_o),    Cov = C_uu - C_uo C_oo^-1 C_ou,

row patterns being treated together.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from ..core.errors import DataError, ModelError
from ..core.numbers import float_array
from ..kernels.gaussian_density import dense_densities
from .base import Family, member_weights
from .moments import Form, RowMoments, column_moments, quadratic, reduced, weighted_moments
from .natural import LOG_2PI

__all__ = ["GaussianRows", "cholesky", "number_rows", "patterns"]

_BITS = 62  # columns whose pattern of missing values fits into one whole number


class GaussianRows(Family):
    """A Gaussian family with means (members, d) and some shape of covariance."""

    _mean: np.ndarray
    _form: ClassVar[Form]  # of the quadratic part of T

    @property
    def mean(self) -> np.ndarray:
        """(members, d), read-only."""
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

    def rows(self, x: Any) -> np.ndarray:
        """Numbers (rows, d); NaN is missing, infinities are refused."""
        return number_rows(x, self.dimension)

    def missing(self, x: np.ndarray) -> np.ndarray:
        """Rows of NaN only."""
        return np.isnan(x).all(axis=1)

    def hide(self, x: np.ndarray, hidden: np.ndarray) -> np.ndarray:
        """A copy with NaN in the marked rows."""
        return np.where(hidden[:, None], np.nan, x)

    def log_density(self, x: Any) -> np.ndarray:
        """Log density of the observed coordinates, (rows, members)."""
        found = self.rows(x)
        if not np.isnan(found).any():
            return self._complete_density(found)
        out = np.zeros((len(found), len(self)))
        for seen, where in patterns(found):
            if seen.all():
                out[where] = self._complete_density(found[where])
            elif seen.any():
                roots = np.linalg.inv(np.linalg.cholesky(self.covariances[:, seen][:, :, seen]))
                constants = _constants(roots)
                part = np.ascontiguousarray(found[where][:, seen])
                means = np.ascontiguousarray(self._mean[:, seen])
                out[where] = dense_densities(part, means, roots, constants)
        return out

    def collect(self, x: Any, weights: np.ndarray | None = None) -> RowMoments:
        """Expected moments; see `base.Emission.collect`."""
        found = self.rows(x)
        weights = member_weights(weights, len(found), len(self))
        if not np.isnan(found).any():
            return self._summed_rows(found, weights)
        sums = self._summed_rows(found[:0], None)
        for seen, where in patterns(found):
            part = None if weights is None else weights[where]
            if seen.all():
                sums = sums + self._summed_rows(found[where], part)
            elif seen.any():
                sums = sums + self._completed(found[where], part, seen)
        return sums

    def _summed_rows(self, x: np.ndarray, weights: np.ndarray | None) -> RowMoments:
        """Moments of complete rows."""
        if weights is None or not len(x):
            sums = RowMoments(np.full(len(self), float(len(x))), *self._shared(x), self._form)
        else:
            origin = np.ones(len(x)) @ x / len(x)  # several times faster than `mean` for few columns
            sums = weighted_moments(x, weights, origin, self._totals(x - origin, weights), self._form)
        return replace(sums, log_base=-0.5 * self.dimension * LOG_2PI * sums.count)

    def _shared(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and scatter of complete rows, for all members."""
        if not len(x):
            mean = np.zeros_like(self._mean)
            return mean, quadratic(self._form, mean)
        mean, scatter = column_moments(x, np.ones(len(x)), self._form)
        return np.tile(mean, (len(self), 1)), np.tile(scatter, (len(self), 1))

    def _completed(self, x: np.ndarray, weights: np.ndarray | None, seen: np.ndarray) -> RowMoments:
        """Expected moments of rows that observe the coordinates `seen`."""
        blind = ~seen
        share = np.ones((len(x), len(self))) if weights is None else weights
        count = share.sum(axis=0)
        mean = np.zeros_like(self._mean)
        scatter = np.zeros_like(quadratic(self._form, mean))
        covariances = self.covariances
        for k in np.flatnonzero(count > 0):
            covariance = covariances[k]
            gain = np.linalg.solve(covariance[np.ix_(seen, seen)], covariance[np.ix_(seen, blind)]).T
            filled = x.copy()
            filled[:, blind] = self._mean[k, blind] + (x[:, seen] - self._mean[k, seen]) @ gain.T
            rest = np.zeros_like(covariance)
            rest[np.ix_(blind, blind)] = (
                covariance[np.ix_(blind, blind)] - gain @ covariance[np.ix_(seen, blind)]
            )
            mean[k], scatter[k] = column_moments(filled, share[:, k], self._form)
            scatter[k] += count[k] * reduced(self._form, rest)
        return RowMoments(count, mean, scatter, self._form, np.zeros(len(self)))

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
        """Distant rows of the data as means, and the variance of every coordinate around one of them.

        Each next mean is drawn with probability proportional to its squared distance from those before
        it, so that one bad draw does not put all members into one cluster.
        """
        complete = x[~np.isnan(x).any(axis=1)]
        if not len(complete):
            raise DataError("data: expected at least one row without missing values to start from, got none")
        variances = (complete - complete[0]).var(axis=0)  # exactly 0 for a constant column
        spread = np.maximum(variances, np.finfo(np.float64).tiny)
        means = [complete[rng.integers(len(complete))]]
        nearest = (((complete - means[0]) ** 2) / spread).sum(axis=1)
        while len(means) < len(self):
            mass = nearest.sum()
            chosen = rng.choice(len(complete), p=nearest / mass) if mass > 0 else rng.integers(len(complete))
            means.append(complete[chosen])
            nearest = np.minimum(nearest, (((complete - means[-1]) ** 2) / spread).sum(axis=1))
        return np.array(means), np.where(variances > 0, variances, 1.0)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} members, dimension {self.dimension})"


def number_rows(x: Any, dimension: int) -> np.ndarray:
    """Numbers of shape (rows, dimension); one axis is enough if the dimension is 1."""
    found = float_array("data", x, error=DataError, missing=True)
    if found.ndim == 1 and dimension == 1:
        found = found[:, None]
    if found.ndim != 2 or found.shape[1] != dimension:
        raise DataError(f"data: expected shape (rows, {dimension}), got {found.shape}")
    if np.isinf(found).any():
        row = int(np.flatnonzero(np.isinf(found).any(axis=1))[0])
        raise DataError(f"data: row {row} has an infinite number; expected finite ones, or NaN for missing")
    return found


def patterns(x: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(observed coordinates, rows that observe just those), for every pattern that occurs."""
    seen = ~np.isnan(x)
    if x.shape[1] <= _BITS:  # whole numbers sort much faster than rows
        codes = seen @ (1 << np.arange(x.shape[1])[::-1])
        first, group = np.unique(codes, return_index=True, return_inverse=True)[1:]
        seen = seen[first]
    else:
        seen, group = np.unique(seen, axis=0, return_inverse=True)
    group = group.reshape(-1)
    order = np.argsort(group, kind="stable")
    edges = np.searchsorted(group[order], np.arange(len(seen) + 1))
    for g, pattern in enumerate(seen):
        yield pattern, order[edges[g] : edges[g + 1]]


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


def _constants(roots: np.ndarray) -> np.ndarray:
    """Log densities at the means, given the inverses of Cholesky factors."""
    logs = np.log(np.einsum("kii->ki", roots)).sum(axis=1)
    return logs - 0.5 * roots.shape[1] * LOG_2PI
