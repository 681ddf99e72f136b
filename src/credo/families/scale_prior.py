r"""Priors that keep the components of a latent mixture from collapsing on single rows.

    gamma   1/K sum_k sum_d log Gamma(1 / sigma_kd; shape, rate)
    l2      -strength/K sum_k |1 - sigma_k|^2

They are added to the mean log-likelihood of a row. The first has its maximum at sigma = rate / (shape - 1),
which is 1 for shape 2 and rate 1, and excludes sigma = 0; the second only discourages it. The density is that
of 1/sigma, without a Jacobian.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lgamma, log
from typing import Any, ClassVar

from ..core import check
from ..core.errors import OptionError
from ..core.records import register
from ..core.registry import read_spec, read_value

__all__ = ["GammaScales", "SquaredScales", "read_scale_prior"]


@register("GammaScales")
@dataclass(frozen=True, kw_only=True)
class GammaScales:
    """Inverse standard deviations have a Gamma distribution."""

    name: ClassVar[str] = "gamma"
    shape: float = 2.0  # a
    rate: float = 1.0  # b

    def __post_init__(self) -> None:
        """Check the options."""
        for name, value in (("shape", self.shape), ("rate", self.rate)):
            check.finite(name, value)
            if value <= 0:
                raise OptionError(f"{name} must be positive, got {value!r}")

    def value(self, log_scales: Any, xp: Any) -> Any:
        """Of log standard deviations (..., components, d), in NumPy or JAX; members add up."""
        constant = self.shape * log(self.rate) - lgamma(self.shape)
        each = constant - (self.shape - 1) * log_scales - self.rate * xp.exp(-log_scales)
        return each.sum() / log_scales.shape[-2]


@register("SquaredScales")
@dataclass(frozen=True, kw_only=True)
class SquaredScales:
    """Standard deviations are drawn to 1 by a square."""

    name: ClassVar[str] = "l2"
    strength: float = 1.0  # lambda

    def __post_init__(self) -> None:
        """Check the option."""
        check.finite("strength", self.strength)
        check.at_least("strength", self.strength, 0)

    def value(self, log_scales: Any, xp: Any) -> Any:
        """See `GammaScales.value`."""
        return -self.strength * ((1.0 - xp.exp(log_scales)) ** 2).sum() / log_scales.shape[-2]


_KINDS: dict[str, Any] = {kind.name: kind for kind in (GammaScales, SquaredScales)}


def read_scale_prior(spec: Any) -> Any:
    """The prior that a text such as "gamma(shape=2, rate=1)" describes; None stays None.

    >>> from credo.families.scale_prior import read_scale_prior
    >>> read_scale_prior("l2(strength=0.1)")
    SquaredScales(strength=0.1)
    """
    if spec is None or isinstance(spec, (GammaScales, SquaredScales)):
        return spec
    if not isinstance(spec, str):
        raise OptionError(f"scales: expected gamma, l2 or None, got {type(spec).__name__}")
    name, parts = read_spec("scales", spec)
    check.one_of("scales", name, list(_KINDS))
    pairs = (part.partition("=") for part in parts)
    options = {key.strip(): read_value(value.strip()) for key, _, value in pairs}
    known = list(_KINDS[name].__dataclass_fields__)
    for key in options:
        if key not in known:
            raise OptionError(f"{name} has no option '{key}'; its options are {known}")
    return _KINDS[name](**options)
