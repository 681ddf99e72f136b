"""Values, gradients and traces of Hessians of a log density at several points, compiled."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...core.log_density import LogDensity, Shape, log_density
from ...nn.arrays import precision
from ...nn.compiled import Compiled

__all__ = ["LocalShape"]


class LocalShape:
    """The log density of a graph of real variables near given points."""

    def __init__(self, density: LogDensity) -> None:
        self._density = density

    def slopes(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values (count,) and gradients (count, dimension)."""
        with precision(double=True):
            found = _SLOPES(points, self._density.arrays, shape=self._density.shape)
            return np.asarray(found[0]), np.asarray(found[1])

    def traces(self, points: np.ndarray) -> np.ndarray:
        """Traces of the Hessians, (count,)."""
        with precision(double=True):
            return np.asarray(_TRACES(points, self._density.arrays, shape=self._density.shape))


def _slopes(points: jax.Array, arrays: Any, *, shape: Shape) -> tuple[Any, Any]:
    return jax.vmap(jax.value_and_grad(lambda u: log_density(u, arrays, shape)))(points)


def _traces(points: jax.Array, arrays: Any, *, shape: Shape) -> jax.Array:
    slope = jax.grad(lambda u: log_density(u, arrays, shape))

    def one(u: jax.Array) -> jax.Array:
        # One product per direction, so that the Hessian is never held.
        return jax.lax.map(lambda e: jnp.vdot(e, jax.jvp(slope, (u,), (e,))[1]), jnp.eye(len(u))).sum()

    return jax.vmap(one)(points)


_SLOPES, _TRACES = Compiled(_slopes), Compiled(_traces)
