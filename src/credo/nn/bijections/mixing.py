r"""Coordinates mixed by a matrix, or put into another order.

    z = x W,     log |det| = log |det W|

W starts as the identity (`start="identity"`) or as a random rotation; `adapt` does not change it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import jax.numpy as jnp
import numpy as np

from ...core import check
from ...core.records import register
from .base import RowBijection, Tree, register_bijection

__all__ = ["Mixing", "Permutation", "random_rotation"]


@register("bijection.mixing")
@register_bijection
@dataclass(frozen=True, kw_only=True)
class Mixing(RowBijection):
    """A matrix that mixes all coordinates."""

    name: ClassVar[str] = "mixing"
    first: Literal["rotation", "identity"] = "rotation"  # where learning starts

    def __post_init__(self) -> None:
        """Check the option."""
        check.one_of("first", self.first, ["rotation", "identity"])

    def start(self, d: int, rng: np.random.Generator) -> Tree:
        """A random rotation, or the identity."""
        return {"matrix": np.eye(d) if self.first == "identity" else random_rotation(d, rng)}

    def forward(self, tree: Tree, x: Any) -> tuple[Any, Any]:
        """The equation of the module."""
        volume = jnp.linalg.slogdet(tree["matrix"])[1]
        return x @ tree["matrix"], jnp.broadcast_to(volume, x.shape[:1])

    def backward(self, tree: Tree, z: Any) -> Any:
        """By solving equations."""
        return jnp.linalg.solve(tree["matrix"].T, z.T).T


@register("bijection.permutation")
@register_bijection
@dataclass(frozen=True, kw_only=True)
class Permutation(RowBijection):
    """Coordinates in another order, drawn once, or from the last to the first."""

    name: ClassVar[str] = "permutation"
    seed: int | None = 0  # of the order; None reverses

    def __post_init__(self) -> None:
        """Check the option."""
        if self.seed is not None:
            check.whole("seed", self.seed, 0)

    def start(self, d: int, rng: np.random.Generator) -> Tree:
        """There are no parameters."""
        return {}

    def forward(self, tree: Tree, x: Any) -> tuple[Any, Any]:
        """The order."""
        return x[:, self._order(x.shape[1])], jnp.zeros_like(x[:, 0])

    def backward(self, tree: Tree, z: Any) -> Any:
        """The order before."""
        return z[:, np.argsort(self._order(z.shape[1]))]

    def _order(self, d: int) -> np.ndarray:
        """Where each coordinate comes from."""
        return np.arange(d)[::-1] if self.seed is None else np.random.default_rng(self.seed).permutation(d)


def random_rotation(d: int, rng: np.random.Generator) -> np.ndarray:
    """An orthogonal matrix."""
    return np.linalg.qr(rng.standard_normal((d, d)))[0]
