r"""Gaussians with full covariance matrices, one per member or one for all.

    T(x) = (x, x x^T),   eta = (C^-1 m, -C^-1 / 2),   A = (m^T C^-1 m + log |C|) / 2,   h = (2 pi)^(-d/2)

x x^T is kept as d^2 numbers. Tied members share C, and `update` pools their scatter.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from ..core.errors import ModelError
from ..core.records import register
from ..kernels.gaussian_density import dense_densities
from ..kernels.gaussian_missing import completed_sums, seen_densities
from ..kernels.row_patterns import group_rows
from ..kernels.weighted_sums import moment_sums
from .base import frozen, numbers
from .gaussian_rows import GaussianRows, cholesky, first_seen, most_probable
from .moments import RowMoments, moments_of_sums, quadratic, without_rounding
from .natural import LOG_2PI, gaussian_moments

__all__ = ["Gaussian", "TiedGaussian", "floored"]

_NARROW = 12  # up to this dimension sums of x x^T are faster without a matrix product
_ASYMMETRY = 1e-8  # relative to the largest entry


class _FullGaussian(GaussianRows):
    """What both kinds share."""

    _form = "full"

    @cached_property
    def _roots(self) -> np.ndarray:
        """Inverses of the Cholesky factors, (members, d, d)."""
        return np.linalg.inv(cholesky("covariance", self.covariances))

    @cached_property
    def _half_log_det(self) -> np.ndarray:
        return -np.log(np.einsum("kii->ki", self._roots)).sum(axis=1)

    @property
    def precisions(self) -> np.ndarray:
        """Inverse covariances, (members, d, d)."""
        return np.swapaxes(self._roots, 1, 2) @ self._roots

    @property
    def natural(self) -> np.ndarray:
        """(precision times mean, -precision / 2), (members, d + d^2)."""
        precisions = self.precisions
        first = np.einsum("kij,kj->ki", precisions, self._mean)
        return np.concatenate([first, -0.5 * precisions.reshape(len(self), -1)], axis=1)

    @property
    def log_normaliser(self) -> np.ndarray:
        """A, without the constant that h holds."""
        lines = np.einsum("kij,kj->ki", self._roots, self._mean)
        return 0.5 * (lines**2).sum(axis=1) + self._half_log_det

    @property
    def mean_parameters(self) -> np.ndarray:
        """(m, C + m m^T), (members, d + d^2)."""
        second = self.covariances + self._mean[:, :, None] * self._mean[:, None, :]
        return np.concatenate([self._mean, second.reshape(len(self), -1)], axis=1)

    def entropy(self) -> np.ndarray:
        """Differential entropy."""
        return 0.5 * self.dimension * (1.0 + LOG_2PI) + self._half_log_det

    def kl(self, other: Any) -> np.ndarray:
        """KL divergence of every member to the one of `other` at the same place."""
        lines = np.einsum("kij,kj->ki", other._roots, self._mean - other._mean)
        ratio = other._roots @ cholesky("covariance", self.covariances)
        logs = other._half_log_det - self._half_log_det
        return 0.5 * ((ratio**2).sum(axis=(1, 2)) + (lines**2).sum(axis=1) - self.dimension) + logs

    def _about(self, x: np.ndarray, weights: np.ndarray, origin: np.ndarray) -> np.ndarray:
        if self.dimension > _NARROW:
            return super()._about(x, weights, origin)
        return moment_sums(weights, x, origin)

    def _complete_density(self, x: np.ndarray) -> np.ndarray:
        constants = -0.5 * self.dimension * LOG_2PI - self._half_log_det
        return dense_densities(x, self._mean, self._roots, constants)

    def _seen_density(self, x: np.ndarray) -> np.ndarray:
        return seen_densities(x, group_rows(x), self._mean, self.covariances)

    def _completed(self, x: np.ndarray, weights: np.ndarray) -> RowMoments:
        """Sums about an origin among the data, which are taken again about a mean that is far from it."""
        groups, precisions, d = group_rows(x), self.precisions, self.dimension
        origin = first_seen(x)
        counts, total = completed_sums(x, weights, groups, self._mean, precisions, origin)
        seen = groups[0].sum(axis=1)
        count = (seen > 0) @ counts

        def again(k: int, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            one = slice(k, k + 1)
            sums = completed_sums(x, weights[:, one], groups, self._mean[one], precisions[one], mean)[1][0]
            missed = sums[:d] / count[k]
            scatter = sums[d:] - count[k] * quadratic("full", missed)
            return mean + missed, without_rounding(count[k], mean, scatter, "full")

        found = moments_of_sums(count, origin, total, "full", again)
        return replace(found, log_base=self._base_of((seen == d) @ counts))


@register("Gaussian", fields={"mean": "mean", "covariance": "covariances"})
class Gaussian(_FullGaussian):
    """Gaussian members, each with its own covariance matrix; immutable.

    Parameters
    ----------
    mean
        Shape (members, d).
    covariance
        Symmetric positive definite, shape (members, d, d).

    Examples
    --------
    >>> import numpy as np
    >>> from credo.families.gaussian import Gaussian
    >>> g = Gaussian([[0.0, 0.0]], [np.eye(2)])
    >>> g.log_density([[0.0, 0.0], [1.0, np.nan]]).round(4)
    array([[-1.8379],
           [-1.4189]])
    """

    def __init__(self, mean: Any, covariance: Any) -> None:
        self._mean = numbers("mean", mean, 2)
        self._covariance = _symmetric("covariance", covariance, 3)
        members, d = self._mean.shape
        if self._covariance.shape != (members, d, d):
            raise ModelError(f"covariance: expected shape {(members, d, d)}, got {self._covariance.shape}")
        _ = self._roots  # refuses what is not positive definite

    @property
    def covariances(self) -> np.ndarray:
        """(members, d, d), read-only."""
        return self._covariance

    @property
    def n_parameters(self) -> int:
        """Means and triangles of covariances."""
        d = self.dimension
        return len(self) * (d + d * (d + 1) // 2)

    @classmethod
    def from_natural(cls, natural: Any) -> Gaussian:
        """Members with these natural parameters, (members, d + d^2)."""
        first, second = _split(natural)
        return cls(*gaussian_moments(-(second + np.swapaxes(second, 1, 2)), first))

    @classmethod
    def from_mean(cls, mean: Any) -> Gaussian:
        """Members with E[x] and E[x x^T], (members, d + d^2)."""
        first, second = _split(mean)
        return cls(first, second - first[:, :, None] * first[:, None, :])

    def update(self, counts: None, sums: RowMoments, prior: Any = None, *, floor: float = 0.0) -> Gaussian:
        """Weighted means and covariances, or the mode of the Gaussian-Wishart posterior."""
        if prior is not None:
            found, chosen = most_probable(prior.repeat(len(self)).posterior(sums), sums.count)
            means, covariances = self._mean.copy(), self._covariance.copy()
            means[chosen], covariances[chosen] = found.mean, floored(found.covariances, floor)
            return Gaussian(means, covariances)
        seen = (sums.count > 0)[:, None]
        mean = np.where(seen, sums.mean, self._mean)
        average = sums.scatter / np.where(seen, sums.count[:, None], 1.0)
        covariance = np.where(seen[:, :, None], average.reshape(self._covariance.shape), self._covariance)
        return Gaussian(mean, floored(covariance, floor))

    def take(self, members: Any) -> Gaussian:
        """Some of the members."""
        return Gaussian(self._mean[members], self._covariance[members])

    def initialise(self, x: np.ndarray, rng: np.random.Generator) -> Gaussian:
        """Distant rows of the data as means, the variances of all rows."""
        means, spread = self._seeds(x, rng)
        return Gaussian(means, np.broadcast_to(np.diag(spread), (len(self), len(spread), len(spread))))


@register("TiedGaussian", fields=["mean", "covariance"])
class TiedGaussian(_FullGaussian):
    """Gaussian members with one covariance matrix for all; immutable.

    Parameters
    ----------
    mean
        Shape (members, d).
    covariance
        Symmetric positive definite, shape (d, d).
    """

    def __init__(self, mean: Any, covariance: Any) -> None:
        self._mean = numbers("mean", mean, 2)
        self._covariance = _symmetric("covariance", covariance, 2)
        d = self.dimension
        if self._covariance.shape != (d, d):
            raise ModelError(f"covariance: expected shape {(d, d)}, got {self._covariance.shape}")
        _ = self._roots

    @cached_property
    def _roots(self) -> np.ndarray:
        root = np.linalg.inv(cholesky("covariance", self._covariance[None]))
        return np.ascontiguousarray(np.broadcast_to(root, (len(self), *root.shape[1:])))

    @property
    def covariance(self) -> np.ndarray:
        """(d, d), read-only."""
        return self._covariance

    @property
    def covariances(self) -> np.ndarray:
        """The shared matrix for every member, (members, d, d)."""
        return np.broadcast_to(self._covariance, (len(self), *self._covariance.shape))

    @property
    def n_parameters(self) -> int:
        """Means and one triangle."""
        d = self.dimension
        return len(self) * d + d * (d + 1) // 2

    @classmethod
    def from_natural(cls, natural: Any) -> TiedGaussian:
        """Members with these natural parameters; their quadratic parts must be equal."""
        found = Gaussian.from_natural(natural)
        return cls(found.mean, _shared(found.covariances))

    @classmethod
    def from_mean(cls, mean: Any) -> TiedGaussian:
        """Members with E[x] and E[x x^T]; their covariances must be equal."""
        found = Gaussian.from_mean(mean)
        return cls(found.mean, _shared(found.covariances))

    def update(
        self, counts: None, sums: RowMoments, prior: Any = None, *, floor: float = 0.0
    ) -> TiedGaussian:
        """Weighted means and the pooled covariance.

        A prior is a `GaussianWishart` with one member: its Wishart part counts once, its Gaussian part
        once per mean, unless its strength is 0.
        """
        if prior is not None:
            return self._most_probable(sums, prior, floor)
        mean = np.where((sums.count > 0)[:, None], sums.mean, self._mean)
        count, shape = sums.count.sum(), self._covariance.shape
        pooled = sums.scatter.sum(axis=0).reshape(shape) / count if count > 0 else self._covariance
        return TiedGaussian(mean, floored(pooled[None], floor)[0])

    def _most_probable(self, sums: RowMoments, prior: Any, floor: float) -> TiedGaussian:
        if len(prior) != 1:
            raise ModelError(f"prior of a tied covariance: expected one member, got {len(prior)}")
        members, d = self._mean.shape
        after = prior.repeat(members).posterior(sums)
        added = (after.scatter - prior.scatter).sum(axis=0)
        means = members if prior.strength[0] > 0 else 0
        weight = prior.freedom[0] - d - 1 + means + sums.count.sum()
        return TiedGaussian(after.centre, floored((prior.scatter[0] + added)[None] / weight, floor)[0])

    def take(self, members: Any) -> TiedGaussian:
        """Some of the members."""
        return TiedGaussian(self._mean[members], self._covariance)

    def initialise(self, x: np.ndarray, rng: np.random.Generator) -> TiedGaussian:
        """Distant rows of the data as means, the variances of all rows."""
        means, spread = self._seeds(x, rng)
        return TiedGaussian(means, np.diag(spread))


def _split(flat: Any) -> tuple[np.ndarray, np.ndarray]:
    """(members, d + d^2) into vectors and matrices."""
    found = numbers("parameters", flat, 2)
    d = round((np.sqrt(1 + 4 * found.shape[1]) - 1) / 2)
    if d + d * d != found.shape[1]:
        raise ModelError(f"parameters: expected d + d^2 numbers per member, got {found.shape[1]}")
    return found[:, :d], found[:, d:].reshape(len(found), d, d)


def _symmetric(name: str, value: Any, axes: int) -> np.ndarray:
    found = numbers(name, value, axes)
    other = np.swapaxes(found, -1, -2) if found.shape[-1] == found.shape[-2] else None
    if other is None or np.abs(found - other).max() > _ASYMMETRY * np.abs(found).max():
        raise ModelError(f"{name}: expected symmetric matrices, got shape {found.shape} with unequal halves")
    return frozen(0.5 * (found + other))


def floored(covariances: np.ndarray, floor: float) -> np.ndarray:
    """Eigenvalues below the floor raised to it."""
    if floor <= 0.0:
        return covariances
    values, vectors = np.linalg.eigh(covariances)
    if (values >= floor).all():
        return covariances
    return (vectors * np.maximum(values, floor)[:, None, :]) @ np.swapaxes(vectors, 1, 2)


def _shared(covariances: np.ndarray) -> np.ndarray:
    if not np.allclose(covariances, covariances[0], rtol=1e-8, atol=0):
        raise ModelError("tied members: expected equal covariances, got different ones; use Gaussian")
    return covariances[0]
