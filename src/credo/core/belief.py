"""What is believed about one continuous variable.

A marginal of a discrete variable is an array of probabilities. That of a real or simplex-valued variable is
a `Density`: it has moments, can be evaluated and sampled, and knows its highest point. For a simplex
variable, moments and modes are vectors and points have their coordinates on the last axis.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import QueryError

__all__ = ["Density", "PointMass"]


class Density(abc.ABC):
    """The density of one real or simplex-valued variable."""

    @property
    @abc.abstractmethod
    def mean(self) -> Any:
        """The mean."""

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
        """The standard deviation."""
        return np.sqrt(self.variance)


@dataclass(frozen=True)
class PointMass(Density):
    """All mass at one point, as for an observed variable."""

    value: Any  # a number or a vector

    @property
    def mean(self) -> Any:
        """The point."""
        return self.value

    @property
    def variance(self) -> Any:
        """Zero."""
        return np.zeros_like(self.value, dtype=np.float64)[()]

    @property
    def mode(self) -> Any:
        """The point."""
        return self.value

    def log_density(self, x: Any) -> np.ndarray:
        """Refused: a point mass has no density."""
        raise QueryError(f"this variable is known to be {self.value}: it has no density to evaluate")

    def sample(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """The point, again and again."""
        return np.broadcast_to(self.value, (count, *np.shape(self.value))).copy()
