"""How couplings and fields of random models are drawn.

A distribution is an object such as `Normal(1.0)`, the text "normal(scale=1.0)" or
"uniform(low=-1, high=1)", or a number, which is drawn every time. Pairs of distributions used
in published experiments have a function each, to be unpacked into a generator:

    ising_grid(10, **normal_couplings(field_scale=0.1), seed=3)
"""

from __future__ import annotations

import abc
import sys
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..core import check
from ..core.errors import OptionError
from ..core.registry import Registry

__all__ = [
    "Constant",
    "Distribution",
    "Normal",
    "Uniform",
    "distribution",
    "normal_couplings",
    "quadratic_form_couplings",
    "uniform_couplings",
]

_LARGEST = sys.float_info.max


class Distribution(abc.ABC):
    """A source of independent numbers."""

    name: ClassVar[str]

    @abc.abstractmethod
    def draw(self, rng: np.random.Generator, shape: int | tuple[int, ...]) -> np.ndarray:
        """Independent numbers in an array of this shape."""


_registry: Registry[Distribution] = Registry("distribution")


@_registry.register
@dataclass(frozen=True)
class Normal(Distribution):
    """Normal with standard deviation `scale`."""

    name: ClassVar[str] = "normal"
    scale: float = 1.0
    mean: float = 0.0  # centre of the distribution

    def __post_init__(self) -> None:
        """Check the parameters."""
        check.in_range("scale", self.scale, 0, np.inf)
        _check_finite("mean", self.mean)

    def draw(self, rng: np.random.Generator, shape: int | tuple[int, ...]) -> np.ndarray:
        """Independent numbers in an array of this shape."""
        return rng.normal(self.mean, self.scale, size=shape)


@_registry.register
@dataclass(frozen=True)
class Uniform(Distribution):
    """Uniform between `low` and `high`."""

    name: ClassVar[str] = "uniform"
    low: float = -1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        """Check the parameters."""
        _check_finite("low", self.low)
        check.in_range("high", self.high, self.low, np.inf)

    def draw(self, rng: np.random.Generator, shape: int | tuple[int, ...]) -> np.ndarray:
        """Independent numbers in an array of this shape."""
        return rng.uniform(self.low, self.high, size=shape)


@_registry.register
@dataclass(frozen=True)
class Constant(Distribution):
    """The same number every time."""

    name: ClassVar[str] = "constant"
    value: float = 0.0  # the number

    def __post_init__(self) -> None:
        """Check the parameter."""
        _check_finite("value", self.value)

    def draw(self, rng: np.random.Generator, shape: int | tuple[int, ...]) -> np.ndarray:
        """Fill an array of this shape; no randomness is used."""
        return np.full(shape, float(self.value))


def distribution(spec: Any) -> Distribution:
    """Make a distribution from an object, a text, or a number.

    Examples
    --------
    >>> from credo.datasets.distributions import distribution
    >>> distribution("uniform(low=-2, high=2)")
    Uniform(low=-2, high=2)
    >>> distribution(0.3)
    Constant(value=0.3)
    """
    if isinstance(spec, (int, float, np.integer, np.floating)) and not isinstance(spec, bool):
        _check_finite("value", spec if isinstance(spec, (int, float)) else float(spec))
        return Constant(float(spec))
    found = _registry.resolve(spec)
    if not isinstance(found, Distribution):
        raise OptionError(f"distribution: expected a Distribution, a text or a number, got {spec!r:.80}")
    return found


def normal_couplings(field_scale: float = 0.1, coupling_scale: float = 1.0) -> dict[str, Distribution]:
    """Couplings N(0, coupling_scale^2) and fields N(0, field_scale^2).

    With `coupling_scale=1` the set-up of the published comparisons of message passing and
    region networks on grids and complete graphs (field scales 0.1 to 4). With both scales
    sqrt(2) a 5x5 grid is the toy model on which bounds for marginal MAP were shown, its N(0, 2)
    read as a variance, which the publication leaves open.

    Examples
    --------
    >>> from credo import datasets
    >>> datasets.ising_grid(5, **datasets.normal_couplings(field_scale=0.1), seed=0)
    MarkovNet(25 variables, 65 factors)
    """
    return {"coupling": Normal(coupling_scale), "field": Normal(field_scale)}


def uniform_couplings(width: float = 1.0, field_width: float = 1.0) -> dict[str, Distribution]:
    """Couplings U(-width, width) and fields U(-field_width, field_width).

    With `field_width=1` the set-up of published tables with widths 1 to 15; with
    `field_width=0.5` that of the speed benchmarks.

    Examples
    --------
    >>> from credo import datasets
    >>> datasets.complete_ising(9, **datasets.uniform_couplings(width=5), seed=0)
    MarkovNet(9 variables, 45 factors)
    """
    return {"coupling": Uniform(-width, width), "field": Uniform(-field_width, field_width)}


def quadratic_form_couplings(sigma: float = 0.1) -> dict[str, Distribution]:
    """Couplings and fields of p(x) ∝ exp(-x'Jx - b'x), J_ij ~ N(0, sigma^2), b_i ~ N(0, (sigma/4)^2).

    The symmetric matrix counts every pair twice, so an edge has the coupling -2 J_ij. The
    set-up of the published convergence study of alpha belief propagation on random graphs.

    Examples
    --------
    >>> from credo import datasets
    >>> datasets.quadratic_form_couplings(0.2)
    {'coupling': Normal(scale=0.4, mean=0.0), 'field': Normal(scale=0.05, mean=0.0)}
    """
    return {"coupling": Normal(2 * sigma), "field": Normal(sigma / 4)}


def _check_finite(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= _LARGEST:
        raise OptionError(f"{name} must be a finite number, got {value!r:.80}")
