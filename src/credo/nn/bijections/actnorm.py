r"""A scale and a shift per coordinate, which start from data.

    z = (x - centre) exp(log_scale),     log |det| = sum log_scale

After `adapt` rows have mean zero and variance one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from ...core.records import register
from .base import RowBijection, Tree, register_bijection

__all__ = ["Actnorm"]

_NARROW = 1e-6  # least variance, relative to the mean of all coordinates


@register("bijection.actnorm")
@register_bijection
@dataclass(frozen=True, kw_only=True)
class Actnorm(RowBijection):
    """A scale and a shift per coordinate, which start from data."""

    name: ClassVar[str] = "actnorm"

    def start(self, d: int, rng: np.random.Generator) -> Tree:
        """The identity."""
        return {"centre": np.zeros(d), "log_scale": np.zeros(d)}

    def forward(self, tree: Tree, x: Any) -> tuple[Any, Any]:
        """The equation of the module."""
        volume = jnp.broadcast_to(tree["log_scale"].sum(), x.shape[:1])
        return (x - tree["centre"]) * jnp.exp(tree["log_scale"]), volume

    def backward(self, tree: Tree, z: Any) -> Any:
        """Its inverse."""
        return z * jnp.exp(-tree["log_scale"]) + tree["centre"]

    def adapt(self, tree: Tree, x: Any, weights: Any) -> Tree:
        """Mean zero and variance one."""
        centre, log_scale = standardising(x, weights)
        return {"centre": centre, "log_scale": log_scale}


def standardising(x: Any, weights: Any) -> tuple[Any, Any]:
    """Mean, and minus the log standard deviation, over the rows with weights (rows,)."""
    share = weights / weights.sum()
    mean = share @ x
    square = share @ (x - mean) ** 2
    least = _NARROW * square.mean() + float(np.finfo(x.dtype).tiny)
    return mean, -0.5 * jnp.log(jnp.maximum(square, least))
