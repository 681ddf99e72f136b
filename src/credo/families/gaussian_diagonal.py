r"""Gaussians with independent coordinates: a variance per coordinate, or one for all.

diagonal:   T(x) = (x, x^2),     eta = (m / v, -1 / (2 v))
spherical:  T(x) = (x, |x|^2),   eta = (m / v, -1 / (2 v)) with one v per member
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..core.errors import ModelError
from ..core.records import register
from ..kernels.gaussian_density import diagonal_densities
from ..kernels.gaussian_missing import seen_diagonal_densities, seen_sums
from ..kernels.weighted_sums import square_sums
from .base import numbers
from .gaussian_rows import UNSEEN, GaussianRows, first_seen, most_probable
from .moments import RowMoments, column_moments, moments_of_sums
from .natural import LOG_2PI, normal_moments

__all__ = ["DiagonalGaussian", "SphericalGaussian"]


class _Independent(GaussianRows):
    """What both kinds share."""

    _variances: np.ndarray  # (members, d)

    @property
    def variances(self) -> np.ndarray:
        """Of every coordinate, (members, d), read-only."""
        return self._variances

    @property
    def covariances(self) -> np.ndarray:
        """Diagonal matrices, (members, d, d)."""
        return self._variances[:, :, None] * np.eye(self.dimension)

    def movement(self, new: Any) -> float:
        """The largest change of a mean, in standard deviations, or of a variance, in variances."""
        means = np.abs(new._mean - self._mean) / np.sqrt(self._variances)
        shapes = np.abs(new._variances / self._variances - 1.0)
        return float(max(means.max(initial=0.0), shapes.max(initial=0.0)))

    @property
    def log_normaliser(self) -> np.ndarray:
        """A, without the constant that h holds."""
        return 0.5 * (self._mean**2 / self._variances + np.log(self._variances)).sum(axis=1)

    def entropy(self) -> np.ndarray:
        """Differential entropy."""
        return 0.5 * (1.0 + LOG_2PI + np.log(self._variances)).sum(axis=1)

    def kl(self, other: Any) -> np.ndarray:
        """KL divergence of every member to the one of `other` at the same place."""
        ratio = self._variances / other._variances
        gap = (self._mean - other._mean) ** 2 / other._variances
        return 0.5 * (ratio - 1.0 - np.log(ratio) + gap).sum(axis=1)

    def _complete_density(self, x: np.ndarray) -> np.ndarray:
        constants = -0.5 * (LOG_2PI + np.log(self._variances)).sum(axis=1)
        return diagonal_densities(x, self._mean, 1.0 / self._variances, constants)

    def _completed(self, x: np.ndarray, weights: np.ndarray) -> RowMoments:
        """Sums over what was seen, and the mean and variance of each member for what was not: no patterns."""
        blind = np.isnan(x)
        lacking = blind.sum(axis=1)
        weights = np.where((lacking == self.dimension)[:, None], 0.0, weights)
        count = np.ones(len(x)) @ weights
        origin = first_seen(x)
        seen, first, second = seen_sums(x, weights, origin)
        unseen, gap = np.maximum(count[:, None] - seen, 0.0), self._mean - origin
        first = first + unseen * gap
        second = second + unseen * (gap * gap + self._variances)

        def again(k: int, _: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            mean, scatter = column_moments(np.where(blind, self._mean[k], x), weights[:, k], self._form)
            return mean, scatter + self._kept(unseen[k] * self._variances[k])

        total = np.concatenate([first, self._kept(second)], axis=1)
        sums = moments_of_sums(count, origin, total, self._form, again)
        return replace(sums, log_base=self._base_of((lacking == 0) @ weights))

    def _kept(self, squares: np.ndarray) -> np.ndarray:
        """What the form keeps of a square per coordinate."""
        return squares if self._form == "diagonal" else squares.sum(axis=-1, keepdims=True)

    def _about(self, x: np.ndarray, weights: np.ndarray, origin: np.ndarray) -> np.ndarray:
        first, second = np.split(square_sums(weights, x, origin), 2, axis=1)
        return np.concatenate([first, self._kept(second)], axis=1)

    def _seen_density(self, x: np.ndarray) -> np.ndarray:
        return seen_diagonal_densities(x, self._mean, self._variances)


@register("DiagonalGaussian", fields=["mean", "variances"])
class DiagonalGaussian(_Independent):
    """Gaussian members with a variance per coordinate; immutable.

    Parameters
    ----------
    mean, variances
        Shape (members, d); variances are positive.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.families.gaussian_diagonal import DiagonalGaussian
    >>> g = DiagonalGaussian([[0.0, 0.0]], [[1.0, 4.0]])
    >>> g.update(None, g.collect([[0.0, 1.0], [2.0, 3.0]])).variances
    array([[1., 1.]])
    """

    _form = "diagonal"

    def __init__(self, mean: Any, variances: Any) -> None:
        self._mean = numbers("mean", mean, 2)
        self._variances = _positive(variances, 2)
        if self._variances.shape != self._mean.shape:
            raise ModelError(f"variances: expected shape {self._mean.shape}, got {self._variances.shape}")

    @property
    def n_parameters(self) -> int:
        """Means and variances."""
        return 2 * self._mean.size

    @property
    def natural(self) -> np.ndarray:
        """(mean / variance, -1 / (2 variance)), (members, 2 d)."""
        return np.concatenate([self._mean / self._variances, -0.5 / self._variances], axis=1)

    @property
    def mean_parameters(self) -> np.ndarray:
        """(E[x], E[x^2]), (members, 2 d)."""
        return np.concatenate([self._mean, self._mean**2 + self._variances], axis=1)

    @classmethod
    def from_natural(cls, natural: Any) -> DiagonalGaussian:
        """Members with these natural parameters, (members, 2 d)."""
        first, second = np.split(numbers("natural", natural, 2), 2, axis=1)
        return cls(*normal_moments(-2.0 * second, first))

    @classmethod
    def from_mean(cls, mean: Any) -> DiagonalGaussian:
        """Members with E[x] and E[x^2], (members, 2 d)."""
        first, second = np.split(numbers("mean", mean, 2), 2, axis=1)
        return cls(first, second - first**2)

    def update(
        self, counts: None, sums: RowMoments, prior: Any = None, *, floor: float = 0.0
    ) -> DiagonalGaussian:
        """Weighted means and variances, or the mode of the normal-gamma posterior."""
        if prior is not None:
            found, chosen = most_probable(prior.repeat(len(self)).posterior(sums), sums.count)
            mean, variances = self._mean.copy(), self._variances.copy()
            mean[chosen], variances[chosen] = found.mean, np.maximum(found.variances, floor)
            return DiagonalGaussian(mean, variances)
        seen = (sums.count > 0)[:, None]
        mean = np.where(seen, sums.mean, self._mean)
        average = sums.scatter / np.where(seen, sums.count[:, None], 1.0)
        variances = np.where(seen, average, self._variances)
        return DiagonalGaussian(mean, np.maximum(variances, floor))

    def take(self, members: Any) -> DiagonalGaussian:
        """Some of the members."""
        return DiagonalGaussian(self._mean[members], self._variances[members])

    def initialise(self, x: np.ndarray, rng: np.random.Generator) -> DiagonalGaussian:
        """Distant rows of the data as means, the variances of all rows."""
        means, spread = self._seeds(x, rng)
        return DiagonalGaussian(means, np.broadcast_to(spread, means.shape))


@register("SphericalGaussian", fields=["mean", "variance"])
class SphericalGaussian(_Independent):
    """Gaussian members with one variance for all coordinates; immutable.

    Parameters
    ----------
    mean
        Shape (members, d).
    variance
        Positive, shape (members,).
    """

    _form = "spherical"

    def __init__(self, mean: Any, variance: Any) -> None:
        self._mean = numbers("mean", mean, 2)
        self._variance = _positive(variance, 1)
        if self._variance.shape != (len(self._mean),):
            raise ModelError(f"variance: expected shape ({len(self._mean)},), got {self._variance.shape}")
        self._variances = np.repeat(self._variance[:, None], self.dimension, axis=1)

    @property
    def variance(self) -> np.ndarray:
        """(members,), read-only."""
        return self._variance

    @property
    def n_parameters(self) -> int:
        """Means and one variance each."""
        return self._mean.size + len(self)

    @property
    def natural(self) -> np.ndarray:
        """(mean / variance, -1 / (2 variance)), (members, d + 1)."""
        return np.concatenate([self._mean / self._variances, -0.5 / self._variance[:, None]], axis=1)

    @property
    def mean_parameters(self) -> np.ndarray:
        """(E[x], E[|x|^2]), (members, d + 1)."""
        second = (self._mean**2 + self._variances).sum(axis=1, keepdims=True)
        return np.concatenate([self._mean, second], axis=1)

    @classmethod
    def from_natural(cls, natural: Any) -> SphericalGaussian:
        """Members with these natural parameters, (members, d + 1)."""
        found = numbers("natural", natural, 2)
        mean, variance = normal_moments(-2.0 * found[:, -1:], found[:, :-1])
        return cls(mean, variance[:, 0])

    @classmethod
    def from_mean(cls, mean: Any) -> SphericalGaussian:
        """Members with E[x] and E[|x|^2], (members, d + 1)."""
        found = numbers("mean", mean, 2)
        first = found[:, :-1]
        return cls(first, (found[:, -1] - (first**2).sum(axis=1)) / first.shape[1])

    def update(
        self, counts: None, sums: RowMoments, prior: Any = None, *, floor: float = 0.0
    ) -> SphericalGaussian:
        """Weighted means and mean squared distances.

        The density of a `NormalGamma` prior is taken where all coordinates of a member have the same
        precision; its rates and shapes then add up over the coordinates.
        """
        count, square = sums.count[:, None], sums.scatter[:, 0]
        if prior is None:
            seen = count > 0
            mean = np.where(seen, sums.mean, self._mean)
            average = square / np.where(seen, count * self.dimension, 1.0)[:, 0]
            return SphericalGaussian(mean, np.maximum(np.where(seen[:, 0], average, self._variance), floor))
        prior = prior.repeat(len(self))
        strength = prior.strength + count
        share = count / np.where(strength > 0, strength, 1.0)
        gap = sums.mean - prior.centre
        square = square + (prior.strength * share * gap**2 + 2 * prior.rate).sum(axis=1)
        weight = (2 * prior.shape - 1 + count).sum(axis=1)
        kept = (weight <= 0) & (sums.count <= UNSEEN)
        mean = np.where(kept[:, None], self._mean, prior.centre + share * gap)
        variance = np.maximum(square / np.where(kept, 1.0, weight), floor)
        return SphericalGaussian(mean, np.where(kept, self._variance, variance))

    def take(self, members: Any) -> SphericalGaussian:
        """Some of the members."""
        return SphericalGaussian(self._mean[members], self._variance[members])

    def initialise(self, x: np.ndarray, rng: np.random.Generator) -> SphericalGaussian:
        """Distant rows of the data as means, the mean variance of all rows."""
        means, spread = self._seeds(x, rng)
        return SphericalGaussian(means, np.full(len(means), spread.mean()))


def _positive(value: Any, axes: int) -> np.ndarray:
    found = numbers("variances", value, axes)
    if (found <= 0).any():
        k = int(np.argwhere(found <= 0)[0][0])
        raise ModelError(
            f"variances of member {k}: expected positive numbers, got {found[k].min():.3g}; "
            "give learning a prior or a floor for variances, or fewer members"
        )
    return found
