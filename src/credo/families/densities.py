"""Densities of one variable as answers: mixtures, tables on a grid, weighted particles.

MixtureDensity            sum_m w_m N(x; mu_m, sigma_m^2)
DirichletMixtureDensity   sum_m w_m Dir(x; alpha_m)
GridDensity               linear between points, zero outside
ParticleDensity           weighted points, smoothed by Gaussian kernels where a density is asked for
SimplexParticleDensity    the same on a simplex, smoothed by Dirichlet kernels
"""

from __future__ import annotations

import abc
import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..core.belief import REACH, Density
from ..core.numbers import float_array
from .natural import LOG_2PI, dirichlet_log_norm

__all__ = [
    "DirichletMixtureDensity",
    "GridDensity",
    "MixtureDensity",
    "ParticleDensity",
    "SimplexParticleDensity",
    "WeightedPoints",
]

_AT_ONCE = 64  # points whose smoothed density is asked for in one go

_CLIMBS = 200  # most steps from a component to the nearest mode
_LIGHT = 1e-12  # weight below which a component is not shown
_WIDEST = 0.5  # standard deviations between points that show a component
_STILL = 1e-10  # the step, in standard deviations, at which a climb has arrived


@dataclass(frozen=True, repr=False)
class MixtureDensity(Density):
    """A mixture of Gaussians; one component is a Gaussian."""

    weights: np.ndarray  # (components,) sum to 1
    means: np.ndarray  # (components,)
    sds: np.ndarray  # (components,)

    @property
    def mean(self) -> float:
        """The mean."""
        return float(self.weights @ self.means)

    @property
    def variance(self) -> float:
        """The variance."""
        return float(self.weights @ (self.sds**2 + (self.means - self.mean) ** 2))

    @cached_property
    def mode(self) -> float:
        """The highest point, found by climbing from every component."""
        x = float_array("means", self.means, copy=True)
        precision = 1 / self.sds**2
        for _ in range(_CLIMBS):  # mean shift: each step raises the density
            share = np.exp(self._terms(x) - self._terms(x).max(axis=1, keepdims=True)) * precision
            new = share @ self.means / share.sum(axis=1)
            if (np.abs(new - x) <= _STILL * self.sds).all():
                break
            x = new
        return float(x[np.argmax(self.log_density(x))])

    def _terms(self, x: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            gap = (x[..., None] - self.means) / self.sds
            return np.log(self.weights) - 0.5 * gap**2 - np.log(self.sds) - 0.5 * LOG_2PI

    def log_density(self, x: Any) -> np.ndarray:
        """Log density at points."""
        terms = self._terms(np.asarray(x, dtype=np.float64))
        return np.logaddexp.reduce(terms, axis=-1)

    def sample(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Independent draws."""
        part = rng.choice(len(self.weights), size=count, p=self.weights)
        return self.means[part] + self.sds[part] * rng.standard_normal(count)

    def curve_points(self, count: int) -> np.ndarray:
        """Points around every component that has weight; one alone has `count` of them."""
        heavy = self.weights > _LIGHT
        return _cover(self.means[heavy], self.sds[heavy], count)

    def __repr__(self) -> str:
        return f"MixtureDensity({len(self.weights)} components, {self.mean:.4g} +- {self.sd:.4g})"


@dataclass(frozen=True, repr=False)
class DirichletMixtureDensity(Density):
    """A mixture of Dirichlet densities on one simplex."""

    weights: np.ndarray  # (components,) sum to 1
    concentrations: np.ndarray  # (components, width)

    @property
    def mean(self) -> np.ndarray:
        """The mean."""
        return self.weights @ self._means

    @property
    def _means(self) -> np.ndarray:
        return self.concentrations / self.concentrations.sum(axis=1, keepdims=True)

    @property
    def variance(self) -> np.ndarray:
        """The variance of every coordinate."""
        total = self.concentrations.sum(axis=1, keepdims=True)
        spread = self._means * (1 - self._means) / (total + 1)
        return self.weights @ (spread + (self._means - self.mean) ** 2)

    @property
    def mode(self) -> np.ndarray:
        """The highest point, which exists where no concentration is below 1."""
        from .dirichlet_mixture import mixture_mode

        return mixture_mode(self.weights, self.concentrations)

    def log_density(self, x: Any) -> np.ndarray:
        """Log density at points."""
        from scipy.special import xlogy

        x = np.asarray(x, dtype=np.float64)[..., None, :]
        alpha = self.concentrations
        with np.errstate(divide="ignore"):
            terms = np.log(self.weights) - dirichlet_log_norm(alpha) + xlogy(alpha - 1, x).sum(axis=-1)
        return np.logaddexp.reduce(terms, axis=-1)

    def sample(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Independent draws."""
        part = rng.choice(len(self.weights), size=count, p=self.weights)
        gamma = rng.standard_gamma(self.concentrations[part])
        return gamma / gamma.sum(axis=1, keepdims=True)

    def __repr__(self) -> str:
        return f"DirichletMixtureDensity({len(self.weights)} components)"


@dataclass(frozen=True, repr=False)
class GridDensity(Density):
    """Values on rising points, linear between them and zero outside; made to integrate to one."""

    points: np.ndarray  # (count,) rising
    values: np.ndarray  # (count,) densities

    @classmethod
    def of(cls, points: np.ndarray, log_values: np.ndarray) -> GridDensity:
        """Normalise values given by their logarithms."""
        weight = np.exp(log_values - log_values.max())
        return cls(points, weight / np.trapezoid(weight, points))

    def _expect(self, values: np.ndarray) -> float:
        return float(np.trapezoid(values * self.values, self.points))

    @property
    def mean(self) -> float:
        """The mean."""
        return self._expect(self.points)

    @property
    def variance(self) -> float:
        """The variance."""
        return self._expect((self.points - self.mean) ** 2)

    @property
    def mode(self) -> float:
        """The point with the highest value."""
        return float(self.points[np.argmax(self.values)])

    def log_density(self, x: Any) -> np.ndarray:
        """Log density at points."""
        with np.errstate(divide="ignore"):
            return np.log(np.interp(x, self.points, self.values, left=0.0, right=0.0))

    def sample(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Independent draws, uniform within the piece between two points."""
        mass = 0.5 * (self.values[1:] + self.values[:-1]) * np.diff(self.points)
        piece = rng.choice(len(mass), size=count, p=mass / mass.sum())
        return self.points[piece] + rng.random(count) * np.diff(self.points)[piece]

    def curve_points(self, count: int) -> np.ndarray:
        """Its own points, between which it is linear, and one outside at each end."""
        low, high = self.points[[0, -1]]
        return np.concatenate([[np.nextafter(low, -np.inf)], self.points, [np.nextafter(high, np.inf)]])

    def __repr__(self) -> str:
        return f"GridDensity({len(self.points)} points, {self.mean:.4g} +- {self.sd:.4g})"


@dataclass(frozen=True, repr=False)
class ParticleDensity(Density):
    """Weighted points of a real variable."""

    particles: np.ndarray  # (count,)
    weights: np.ndarray  # (count,) sum to 1

    @property
    def mean(self) -> float:
        """The mean."""
        return float(self.weights @ self.particles)

    @property
    def variance(self) -> float:
        """The variance."""
        return float(self.weights @ (self.particles - self.mean) ** 2)

    @cached_property
    def smooth(self) -> MixtureDensity:
        """Gaussian kernels on the particles, with Silverman's bandwidth for the effective sample size."""
        effective = 1 / float(self.weights @ self.weights)
        order = np.argsort(self.particles)
        cumulative = np.cumsum(self.weights[order])
        low, high = np.interp([0.25, 0.75], cumulative, self.particles[order])
        spread = [s for s in (float(np.sqrt(self.variance)), (high - low) / 1.349) if s > 0]
        width = 0.9 * min(spread, default=1e-6) * effective**-0.2
        return MixtureDensity(self.weights, self.particles, np.full(len(self.particles), width))

    @property
    def mode(self) -> float:
        """The particle where the smoothed density is highest."""
        return float(self.particles[np.argmax(self.smooth.log_density(self.particles))])

    def log_density(self, x: Any) -> np.ndarray:
        """Log of the smoothed density at points."""
        return self.smooth.log_density(x)

    def sample(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Particles drawn by their weights."""
        return rng.choice(self.particles, size=count, p=self.weights)

    def curve_points(self, count: int) -> np.ndarray:
        """Those of the smoothed density."""
        return self.smooth.curve_points(count)

    def __repr__(self) -> str:
        return f"ParticleDensity({len(self.particles)} particles, {self.mean:.4g} +- {self.sd:.4g})"


@dataclass(frozen=True, repr=False)
class WeightedPoints(Density):
    """Weighted points of several coordinates; what has no meaning for points is asked of `smooth`."""

    particles: np.ndarray  # (count, width)
    weights: np.ndarray  # (count,) sum to 1

    @property
    @abc.abstractmethod
    def smooth(self) -> Density:
        """A mixture of kernels on the particles."""

    @property
    def mean(self) -> np.ndarray:
        """The mean."""
        return self.weights @ self.particles

    @property
    def variance(self) -> np.ndarray:
        """The variance of every coordinate."""
        return self.weights @ (self.particles - self.mean) ** 2

    @property
    def mode(self) -> np.ndarray:
        """The particle where the smoothed density is highest."""
        parts = np.array_split(self.particles, max(1, len(self.particles) // _AT_ONCE))
        return self.particles[np.argmax(np.concatenate([self.log_density(part) for part in parts]))]

    def log_density(self, x: Any) -> np.ndarray:
        """Log of the smoothed density at points."""
        return self.smooth.log_density(x)

    def sample(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Particles drawn by their weights."""
        return self.particles[rng.choice(len(self.particles), size=count, p=self.weights)]


@dataclass(frozen=True, repr=False)
class SimplexParticleDensity(WeightedPoints):
    """Weighted points of a simplex variable."""

    @cached_property
    def smooth(self) -> DirichletMixtureDensity:
        """Kernels Dir(1 + particle / b): each has its mode at its particle, and b p (1 - p) for variance.

        The kernels' variance is Scott's share of that of the particles.
        """
        freedom = self.particles.shape[1] - 1
        effective = 1 / float(self.weights @ self.weights)
        share = effective ** (-2 / (freedom + 4))
        own = float((self.weights @ (self.particles * (1 - self.particles))).sum())
        width = max(share * float(self.variance.sum()) / own, 1e-9) if own > 0 else 1.0
        return DirichletMixtureDensity(self.weights, 1 + self.particles / width)

    def __repr__(self) -> str:
        return f"SimplexParticleDensity({len(self.particles)} particles)"


def _cover(centres: np.ndarray, widths: np.ndarray, count: int) -> np.ndarray:
    """Points within `REACH` widths of every centre: about `count`, or as many as show the shape of each.

    Widths are sorted into octaves. The intervals of an octave are joined where they overlap, and the points
    of each piece are as close as its narrowest member asks for.
    """
    pieces: list[tuple[float, float, float]] = []  # low, high, least width
    octaves = np.floor(np.log2(widths))
    for octave in np.unique(octaves):
        mine = np.flatnonzero(octaves == octave)
        mine = mine[np.argsort(centres[mine] - REACH * widths[mine])]
        low, high = centres[mine] - REACH * widths[mine], centres[mine] + REACH * widths[mine]
        ends = np.maximum.accumulate(high)
        first = np.concatenate([[0], 1 + np.flatnonzero(low[1:] > ends[:-1]), [len(mine)]])
        for a, b in itertools.pairwise(first):
            pieces.append((float(low[a]), float(ends[b - 1]), float(widths[mine[a:b]].min())))
    sizes = np.array([(high - low) / width for low, high, width in pieces])
    step = min(_WIDEST, float(sizes.sum()) / (count - 1))  # in widths
    return np.concatenate(
        [
            np.linspace(low, high, 1 + int(np.ceil(size / step)))
            for (low, high, _), size in zip(pieces, sizes, strict=True)
        ]
    )
