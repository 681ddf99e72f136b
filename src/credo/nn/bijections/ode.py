r"""Continuous flows: rows follow a field of velocities for a unit of time.

    dh/dt = v(h, t),     d log p / dt = -tr dv/dh,     z = h(1),  x = h(0)

v is a dense network of h and t. The equations are solved by Runge and Kutta's method of fourth order in equal
steps, in both directions. The volume is that of the field, and the inverse is the field run backwards: both
are exact up to the error of the steps, which falls with their fourth power. The trace is exact: d products of
the field with unit vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from ...core import check
from ...core.records import register
from .base import RowBijection, Tree, register_bijection
from .networks import dense, started_dense

__all__ = ["Ode"]


@register("bijection.ode")
@register_bijection
@dataclass(frozen=True, kw_only=True)
class Ode(RowBijection):
    """Rows follow a field of velocities that a network gives."""

    name: ClassVar[str] = "ode"
    width: int = 32  # of the hidden layers of the network
    depth: int = 2  # hidden layers
    steps: int = 10  # of the solver
    zero: bool = True  # whether the map starts as the identity

    def __post_init__(self) -> None:
        """Check the options."""
        for name in ("width", "steps", "depth"):
            check.whole(name, getattr(self, name), 1)
        check.one_of("zero", self.zero, [True, False])

    def start(self, d: int, rng: np.random.Generator) -> Tree:
        """The network."""
        return started_dense(d + 1, self.width, self.depth, d, rng, last=0.0 if self.zero else 1.0)

    def forward(self, tree: Tree, x: Any) -> tuple[Any, Any]:
        """From time 0 to 1."""
        return self._solve(tree, x, with_volume=True, is_forward=True)

    def backward(self, tree: Tree, z: Any) -> Any:
        """From time 1 to 0."""
        return self._solve(tree, z, with_volume=False, is_forward=False)[0]

    def _solve(self, tree: Tree, x: Any, *, with_volume: bool, is_forward: bool) -> tuple[Any, Any]:
        d, step = x.shape[1], (1.0 if is_forward else -1.0) / self.steps

        def field(h: Any, t: Any) -> Any:
            return dense(tree, jnp.concatenate([h, jnp.full_like(h[:, :1], t)], axis=1), "tanh")

        def rates(h: Any, t: Any) -> tuple[Any, Any]:
            if not with_volume:
                return field(h, t), jnp.zeros_like(h[:, 0])
            velocity, along = jax.linearize(lambda rows: field(rows, t), h)
            units = jnp.broadcast_to(jnp.eye(d, dtype=h.dtype)[:, None, :], (d, *h.shape))
            return velocity, jnp.einsum("kni,kni->n", jax.vmap(along)(units), units)

        def move(carry: Any, k: Any) -> Any:
            h, volume = carry
            t = k * step + (0.0 if is_forward else 1.0)
            one, own = rates(h, t)
            total, volumes = one, own
            for share, weight in ((0.5, 2.0), (0.5, 2.0), (1.0, 1.0)):
                one, own = rates(h + share * step * one, t + share * step)
                total, volumes = total + weight * one, volumes + weight * own
            return (h + step / 6 * total, volume + step / 6 * volumes), None

        times = jnp.arange(self.steps).astype(x.dtype)
        return jax.lax.scan(move, (x, jnp.zeros_like(x[:, 0])), times)[0]  # type: ignore[no-any-return]
