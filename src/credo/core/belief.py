"""What is believed about one continuous variable.

A marginal of a discrete variable is an array of probabilities. That of a real or simplex-valued variable is
a `Density`: it has moments, can be evaluated and sampled, and knows its highest point. For a simplex
variable, moments and modes are vectors and points have their coordinates on the last axis.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import QueryError

__all__ = ["REACH", "Density", "PointMass", "curve_points", "values_at"]

REACH = 8.0  # standard deviations beyond which a density is next to nothing, also beside a wide one
_AT_ONCE = 1024  # points evaluated together


class Density(abc.ABC):
    """The density of one real or simplex-valued variable."""

    @property
    @abc.abstractmethod
    def mean(self) -> Any:
        """Expected value, a number or a vector."""

    @property
    @abc.abstractmethod
    def variance(self) -> Any:
        """The variance, coordinate by coordinate."""

    @property
    @abc.abstractmethod
    def mode(self) -> Any:
        """A point of the highest density."""

    @abc.abstractmethod
    def log_density(self, x: Any) -> np.ndarray:
        """Log density at points."""

    @abc.abstractmethod
    def sample(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Independent draws, one per row."""

    def density(self, x: Any) -> np.ndarray:
        """Density at points."""
        return np.exp(self.log_density(x))

    @property
    def sd(self) -> Any:
        """Standard deviation, in the units of the variable; of a vector one per coordinate."""
        return np.sqrt(self.variance)

    def curve_points(self, count: int) -> np.ndarray:
        """Points of the line that show every part of the density of a real variable.

        Here `count` of them within `REACH` standard deviations of the mean; densities of several parts
        have points around each.
        """
        return np.linspace(self.mean - REACH * self.sd, self.mean + REACH * self.sd, count)


def curve_points(densities: Iterable[Density], count: int) -> np.ndarray:
    """Rising points that show every part of several densities of one real variable."""
    return np.unique(np.concatenate([d.curve_points(count) for d in densities]))


def values_at(density: Density, x: np.ndarray) -> np.ndarray:
    """The density at many points, a part of them at a time: a mixture makes a matrix of them."""
    return np.concatenate([density.density(x[k : k + _AT_ONCE]) for k in range(0, len(x), _AT_ONCE)])


@dataclass(frozen=True)
class PointMass(Density):
    """All mass at one point, as for an observed variable."""

    value: Any  # a number or a vector

    @property
    def mean(self) -> Any:
        """The point itself, a number or a vector."""
        return self.value

    @property
    def variance(self) -> Any:
        """Zero, a number or one for each coordinate: a point does not vary."""
        return np.zeros_like(self.value, dtype=np.float64)[()]

    @property
    def mode(self) -> Any:
        """The point itself, which has all the mass."""
        return self.value

    def log_density(self, x: Any) -> np.ndarray:
        """Refused: a point mass has no density."""
        raise QueryError(f"this variable is known to be {self.value}: it has no density to evaluate")

    def sample(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """The point, again and again."""
        return np.broadcast_to(self.value, (count, *np.shape(self.value))).copy()
