"""Priors on parameters: what is added to the total log-likelihood.

    gaussian   -sum_k (w_k - mean)^2 / (2 scale^2)
    laplace    -sum_k |w_k| / scale

They are added to the *sum* over rows, so with means per row they are divided by the number of rows.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..core import check
from ..core.errors import OptionError
from ..core.registry import Registry

__all__ = ["Elastic", "GaussianPrior", "LaplacePrior", "Prior", "prior_of", "priors"]


class Prior(abc.ABC):
    """A log density up to a constant: a smooth part and the strength of an absolute value."""

    name: ClassVar[str]

    @abc.abstractmethod
    def smooth(self, weights: np.ndarray) -> tuple[float, np.ndarray | float]:
        """Value and gradient of the differentiable part; a gradient of zeros may be one number."""

    @abc.abstractmethod
    def strength(self) -> float:
        """The lambda of a term -lambda sum |w|."""

    def value(self, weights: np.ndarray) -> float:
        """The whole log density up to a constant."""
        return self.smooth(weights)[0] - self.strength() * float(np.abs(weights).sum())


priors: Registry[Prior] = Registry("prior")


@priors.register
@dataclass(frozen=True, kw_only=True)
class GaussianPrior(Prior):
    """Independent normal weights: -(w - mean)^2 / (2 scale^2) each."""

    name: ClassVar[str] = "gaussian"
    scale: float = 1.0  # standard deviation
    mean: float = 0.0  # where the weights are drawn to

    def __post_init__(self) -> None:
        """Check the options."""
        _check_scale(self.scale)

    def smooth(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """Log density of the squares, up to a constant, and its gradient."""
        away = (weights - self.mean) / self.scale**2
        return -0.5 * float((away * (weights - self.mean)).sum()), -away

    def strength(self) -> float:
        """Zero: absolute values cost nothing."""
        return 0.0


@priors.register
@dataclass(frozen=True, kw_only=True)
class LaplacePrior(Prior):
    """Few weights away from zero."""

    name: ClassVar[str] = "laplace"
    scale: float = 1.0  # mean absolute weight

    def __post_init__(self) -> None:
        """Check the options."""
        _check_scale(self.scale)

    def smooth(self, weights: np.ndarray) -> tuple[float, float]:
        """Nothing: all of this prior is in the absolute values."""
        return 0.0, 0.0

    def strength(self) -> float:
        """One over the scale."""
        return 1.0 / self.scale


@priors.register
@dataclass(frozen=True, kw_only=True)
class Elastic(Prior):
    """Both at once: -c1 sum |w| - c2 sum w^2, in the notation of CRFsuite."""

    name: ClassVar[str] = "elastic"
    c1: float = 0.0  # of the absolute values
    c2: float = 0.0  # of the squares

    def __post_init__(self) -> None:
        """Check the options."""
        check.at_least("c1", self.c1, 0)
        check.at_least("c2", self.c2, 0)

    def smooth(self, weights: np.ndarray) -> tuple[float, np.ndarray | float]:
        """Log density of the squares, up to a constant, and its gradient."""
        if not self.c2:
            return 0.0, 0.0
        return -self.c2 * float((weights * weights).sum()), -2 * self.c2 * weights

    def strength(self) -> float:
        """c1, what a unit of an absolute value costs."""
        return self.c1


def prior_of(prior: str | Prior | None) -> Prior:
    """A prior from its text form; None is no prior."""
    if prior is None:
        return Elastic()
    found = priors.resolve(prior)
    if not isinstance(found, Prior):
        raise OptionError(f"prior: expected a name such as 'gaussian(scale=1)' or a Prior, got {prior!r:.80}")
    return found


def _check_scale(scale: float) -> None:
    if isinstance(scale, bool) or not isinstance(scale, (int, float)) or not 0 < scale < np.inf:
        raise OptionError(f"scale must be a positive number, got {scale!r}")
