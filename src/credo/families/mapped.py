r"""Densities of variables that are not numbers of the whole line, and of vectors.

MappedDensity           of x = x(u), from a density of the free coordinate u: p(x) = q(u) / |dx / du|
VectorMixtureDensity    sum_m w_m N(x; mu_m, S_m), x a vector
VectorParticleDensity   weighted vectors, smoothed by Gaussian kernels where a density is asked for
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..core.belief import Density
from ..core.bijections import Bijection
from .densities import ParticleDensity, WeightedPoints

__all__ = ["MappedDensity", "VectorMixtureDensity", "VectorParticleDensity"]

_LOG_2PI = float(np.log(2 * np.pi))
_POINTS = 4097  # of a quadrature
_ZOOMS = 8  # looks closer and closer at the highest point
_CLIMBS = 200  # most steps from a component to the nearest mode
_STILL = 1e-10  # the step, in standard deviations, at which a climb has arrived


@dataclass(frozen=True, repr=False)
class MappedDensity(Density):
    """A density of one number that is not free: positive, or between two others."""

    base: Density  # of the free coordinate
    own: Bijection  # x and u

    @property
    def mean(self) -> float:
        """The mean."""
        return self._expect(lambda x: x)

    @property
    def variance(self) -> float:
        """The variance."""
        mean = self.mean
        return self._expect(lambda x: (x - mean) ** 2)

    def _expect(self, function: Callable[[Any], Any]) -> float:
        if isinstance(self.base, ParticleDensity):
            return float(self.base.weights @ function(self._values(self.base.particles)))
        u, weight = self._nodes
        return float(weight @ function(self._values(u)))

    @cached_property
    def _nodes(self) -> tuple[np.ndarray, np.ndarray]:
        """Points of u and their masses; far ones too, where x may be large."""
        near = np.unique(self.base.curve_points(_POINTS))
        reach = near[-1] - near[0]
        sides = [
            np.linspace(a, b, _POINTS) for a, b in ((near[0] - reach, near[0]), (near[-1], near[-1] + reach))
        ]
        u = np.unique(np.concatenate([near, *sides]))
        gaps = np.diff(u)
        width = 0.5 * (np.append(gaps, 0.0) + np.append(0.0, gaps))
        weight = width * self.base.density(u)
        return u, weight / weight.sum()

    @cached_property
    def mode(self) -> float:
        """The highest point; towards an end at which the density rises without limit, a point near it."""
        u = np.unique(self.base.curve_points(_POINTS))
        for _ in range(_ZOOMS):
            best = int(np.argmax(self.log_density(self._values(u))))
            u = np.linspace(u[max(best - 1, 0)], u[min(best + 1, len(u) - 1)], 65)
        return float(self._values(u)[len(u) // 2])

    def _values(self, u: np.ndarray) -> np.ndarray:
        return np.asarray(self.own.inverse(np.asarray(u, dtype=np.float64)[..., None]))

    def log_density(self, x: Any) -> np.ndarray:
        """Log density at points; nothing lies outside the domain."""
        x = np.asarray(x, dtype=np.float64)
        with np.errstate(all="ignore"):
            u = np.asarray(self.own.forward(x))
            inside = np.isfinite(u).all(axis=-1)
            u = np.where(inside[..., None], u, 0.0)
            found = self.base.log_density(u[..., 0]) - self.own.log_jacobian(u)
        return np.where(inside, found, -np.inf)

    def sample(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Independent draws."""
        return self._values(self.base.sample(count, rng))

    def curve_points(self, count: int) -> np.ndarray:
        """Those of the free coordinate, mapped."""
        return np.unique(self._values(self.base.curve_points(count)))

    def __repr__(self) -> str:
        return f"MappedDensity({self.base!r}, {self.mean:.4g} +- {self.sd:.4g})"


@dataclass(frozen=True, repr=False)
class VectorMixtureDensity(Density):
    """A mixture of Gaussians of a vector; one component is a Gaussian."""

    weights: np.ndarray  # (components,) sum to 1
    means: np.ndarray  # (components, d)
    covariances: np.ndarray  # (components, d, d)

    @property
    def mean(self) -> np.ndarray:
        """The mean."""
        return self.weights @ self.means

    @property
    def covariance(self) -> np.ndarray:
        """The covariance matrix."""
        apart = self.means - self.mean
        between = apart[:, :, None] * apart[:, None, :]
        return np.einsum("m,mij->ij", self.weights, self.covariances + between)

    @property
    def variance(self) -> np.ndarray:
        """The variance of every coordinate."""
        return np.diagonal(self.covariance).copy()

    @cached_property
    def mode(self) -> np.ndarray:
        """The highest point, found by climbing from every component."""
        x, precision = np.array(self.means), np.linalg.inv(self.covariances)
        scale = np.sqrt(np.diagonal(self.covariances, axis1=1, axis2=2))
        pull = np.einsum("mij,mj->mi", precision, self.means)
        for _ in range(_CLIMBS):  # mean shift: each step raises the density
            terms = self._terms(x)
            share = np.exp(terms - terms.max(axis=1, keepdims=True))
            J = np.einsum("nm,mij->nij", share, precision)
            new = np.linalg.solve(J, (share @ pull)[..., None])[..., 0]
            if (np.abs(new - x) <= _STILL * scale).all():
                break
            x = new
        return np.asarray(x[np.argmax(self.log_density(x))])

    def _terms(self, x: np.ndarray) -> np.ndarray:
        root = np.linalg.cholesky(self.covariances)
        gap = np.linalg.solve(root, (x[..., None, :] - self.means)[..., None])[..., 0]
        half = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1) + 0.5 * x.shape[-1] * _LOG_2PI
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.weights) - 0.5 * (gap**2).sum(axis=-1) - half)

    def log_density(self, x: Any) -> np.ndarray:
        """Log density at points (..., d)."""
        return np.logaddexp.reduce(self._terms(np.asarray(x, dtype=np.float64)), axis=-1)

    def sample(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Independent draws."""
        part = rng.choice(len(self.weights), size=count, p=self.weights)
        noise = rng.standard_normal((count, self.means.shape[1], 1))
        return self.means[part] + (np.linalg.cholesky(self.covariances)[part] @ noise)[..., 0]

    def __repr__(self) -> str:
        return f"VectorMixtureDensity({len(self.weights)} components of {self.means.shape[1]} numbers)"


@dataclass(frozen=True, repr=False)
class VectorParticleDensity(WeightedPoints):
    """Weighted points of a vector variable."""

    @property
    def covariance(self) -> np.ndarray:
        """The covariance matrix."""
        apart = self.particles - self.mean
        return np.asarray((self.weights * apart.T) @ apart)

    @cached_property
    def smooth(self) -> VectorMixtureDensity:
        """Gaussian kernels on the particles, with Scott's share of their covariance."""
        d = self.particles.shape[1]
        effective = 1 / float(self.weights @ self.weights)
        least = 1e-12 * max(
            float(self.variance.max()), 1e-6
        )  # particles in a plane have no density without it
        own = effective ** (-2 / (d + 4)) * self.covariance + least * np.eye(d)
        return VectorMixtureDensity(
            self.weights, self.particles, np.broadcast_to(own, (len(self.weights), d, d))
        )

    def __repr__(self) -> str:
        return f"VectorParticleDensity({len(self.particles)} particles of {self.particles.shape[1]} numbers)"
