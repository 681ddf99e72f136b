r"""Affine couplings: half of a row scales and shifts the other half.

    z_a = x_a,     z_b = exp(s(x_a)) x_b + t(x_a),     s = bound tanh(raw / bound),     log |det| = sum s

(s, t) is a dense network of x_a, the conditioner; the scale is between exp(-bound) and exp(bound), so the map
can be inverted everywhere. After every layer the coordinates are reversed: what was kept by one is moved by
the next, whatever d is. `masks` says which coordinates belong to the two halves: those in front and those
behind (alternating), the even and the odd ones (interleaved), or others for every pair of layers (random).

Layers are scanned: the time to compile does not grow with their number. The last layer of every conditioner
starts at zero, so that the map starts as the identity: from random starts components of a mixture that are
behind in the first steps starve.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np

from ...core import check
from ...core.records import register
from .base import RowBijection, Tree, register_bijection
from .networks import ACTIVATIONS, dense, started_dense

__all__ = ["Coupling"]


@register("bijection.coupling")
@register_bijection
@dataclass(frozen=True, kw_only=True)
class Coupling(RowBijection):
    """Affine couplings: half of a row scales and shifts the other half."""

    name: ClassVar[str] = "coupling"
    layers: int = 4  # couplings
    width: int = 24  # of the hidden layers of the conditioners
    depth: int = 2  # hidden layers of a conditioner
    masks: Literal["alternating", "interleaved", "random"] = "alternating"  # which half a layer keeps
    bound: float = 2.0  # of log scales
    activation: Literal["tanh", "relu", "leaky"] = "tanh"  # of the conditioners
    zero: bool = True  # whether the map starts as the identity
    seed: int = 0  # of random masks

    def __post_init__(self) -> None:
        """Check the options."""
        check.whole("layers", self.layers, 1)
        check.whole("width", self.width, 1)
        check.whole("depth", self.depth, 0)
        check.whole("seed", self.seed, 0)
        check.one_of("masks", self.masks, ["alternating", "interleaved", "random"])
        check.one_of("activation", self.activation, list(ACTIVATIONS))
        check.one_of("zero", self.zero, [True, False])
        check.finite("bound", self.bound)
        check.at_least("bound", self.bound, 1e-3)

    def why_not(self, d: int) -> str | None:
        """Two halves need two coordinates."""
        return None if d > 1 else f"a coupling needs two coordinates or more, got {d}; use actnorm or radial"

    def start(self, d: int, rng: np.random.Generator) -> Tree:
        """Layers stacked on the first axis."""
        fixed, last = d // 2, 0.0 if self.zero else 1.0
        each = [
            started_dense(fixed, self.width, self.depth, 2 * (d - fixed), rng, last=last)
            for _ in range(self.layers)
        ]
        return jax.tree.map(lambda *arrays: np.stack(arrays), *each)

    def forward(self, tree: Tree, x: Any) -> tuple[Any, Any]:
        """Layer after layer."""
        fixed, order = x.shape[1] // 2, self._order(x.shape[1])

        def layer(carry: Any, own: Any) -> Any:
            h, volume = carry
            h = h[:, own[1]] if order is not None else h
            log_scale, shift = self._affine(own[0], h[:, :fixed])
            moved = h[:, fixed:] * jnp.exp(log_scale) + shift
            h = jnp.concatenate([h[:, :fixed], moved], axis=1)[:, ::-1]
            return (h, volume + log_scale.sum(axis=1)), None

        begin = x[:, self._first(x.shape[1])] if self.masks == "interleaved" else x
        return jax.lax.scan(layer, (begin, jnp.zeros_like(x[:, 0])), (tree, order))[0]  # type: ignore[no-any-return]

    def backward(self, tree: Tree, z: Any) -> Any:
        """The layers from the last to the first."""
        fixed, order = z.shape[1] // 2, self._order(z.shape[1])
        back = None if order is None else np.argsort(order, axis=1)

        def layer(h: Any, own: Any) -> Any:
            h = h[:, ::-1]
            log_scale, shift = self._affine(own[0], h[:, :fixed])
            moved = (h[:, fixed:] - shift) * jnp.exp(-log_scale)
            h = jnp.concatenate([h[:, :fixed], moved], axis=1)
            return (h[:, own[1]] if back is not None else h), None

        h, _ = jax.lax.scan(layer, z, (tree, back), reverse=True)
        return h[:, np.argsort(self._first(z.shape[1]))] if self.masks == "interleaved" else h

    def _affine(self, tree: Tree, kept: Any) -> tuple[Any, Any]:
        """Log scale and shift."""
        raw, shift = jnp.split(dense(tree, kept, self.activation), 2, axis=1)
        return self.bound * jnp.tanh(raw / self.bound), shift

    def _first(self, d: int) -> np.ndarray:
        """Even coordinates, then odd ones, so many in front as a coupling keeps."""
        return np.concatenate([np.arange(1, d, 2), np.arange(0, d, 2)])

    def _order(self, d: int) -> np.ndarray | None:
        """(layers, d) the order before each layer, drawn for pairs: the second keeps what the first moved."""
        if self.masks != "random":
            return None
        rng = np.random.default_rng([self.seed, d])
        rows = [rng.permutation(d) if k % 2 == 0 else np.arange(d) for k in range(self.layers)]
        return np.array(rows)
