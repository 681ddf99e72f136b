r"""Planar and radial flows: one direction, or one centre, at a time.

    planar   z = x + u tanh(w.x + b),             det = 1 + u.w (1 - tanh^2(w.x + b))
    radial   z = x + beta h (x - c),              h = 1 / (alpha + |x - c|)
             det = (1 + beta h)^(d-1) (1 + beta h - beta h^2 |x - c|)

Both can be inverted where u.w > -1 and beta > -alpha, which the parameters are mapped to:
u <- u + (m(u.w) - u.w) w / |w|^2 with m(a) = softplus(a) - 1, and beta = alpha (exp(b) - 1). The inverse of a
planar layer is, along w, the root of an increasing function, found by halving; that of a radial one the root
of a square.
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

__all__ = ["Planar", "Radial"]

_HALVINGS = {np.dtype(np.float32): 40, np.dtype(np.float64): 80}


@register("bijection.planar")
@register_bijection
@dataclass(frozen=True, kw_only=True)
class Planar(RowBijection):
    """Rows are pushed along one direction, layer after layer."""

    name: ClassVar[str] = "planar"
    layers: int = 8  # directions

    def __post_init__(self) -> None:
        """Check the option."""
        check.whole("layers", self.layers, 1)

    def start(self, d: int, rng: np.random.Generator) -> Tree:
        """Random directions, nearly no push."""
        w = rng.standard_normal((self.layers, d)) / np.sqrt(d)
        return {"w": w, "u": 0.01 * rng.standard_normal((self.layers, d)), "b": np.zeros(self.layers)}

    def forward(self, tree: Tree, x: Any) -> tuple[Any, Any]:
        """The equation of the module, layer after layer."""

        def layer(carry: Any, own: Any) -> Any:
            h, volume = carry
            u, along = _push(own)
            bend = jnp.tanh(h @ own["w"] + own["b"])
            return (h + bend[:, None] * u, volume + jnp.log1p(along * (1 - bend**2))), None

        return jax.lax.scan(layer, (x, jnp.zeros_like(x[:, 0])), tree)[0]  # type: ignore[no-any-return]

    def backward(self, tree: Tree, z: Any) -> Any:
        """The root of a + u.w tanh(a + b) = w.z by halving."""

        def layer(h: Any, own: Any) -> Any:
            u, along = _push(own)
            wanted, reach = h @ own["w"], jnp.abs(along) + 1.0
            a = _root(lambda a: a + along * jnp.tanh(a + own["b"]), wanted, wanted - reach, wanted + reach)
            return h - jnp.tanh(a + own["b"])[:, None] * u, None

        return jax.lax.scan(layer, z, tree, reverse=True)[0]


@register("bijection.radial")
@register_bijection
@dataclass(frozen=True, kw_only=True)
class Radial(RowBijection):
    """Rows are pulled to or pushed from one centre, layer after layer."""

    name: ClassVar[str] = "radial"
    layers: int = 8  # centres

    def __post_init__(self) -> None:
        """Check the option."""
        check.whole("layers", self.layers, 1)

    def start(self, d: int, rng: np.random.Generator) -> Tree:
        """Random centres, no pull."""
        none = np.zeros(self.layers)
        return {"centre": rng.standard_normal((self.layers, d)), "log_alpha": none, "log_pull": none.copy()}

    def forward(self, tree: Tree, x: Any) -> tuple[Any, Any]:
        """The equation of the module, layer after layer."""
        d = x.shape[1]

        def layer(carry: Any, own: Any) -> Any:
            h, volume = carry
            alpha, beta = _pull(own)
            gap, r = _distance(h, own["centre"])
            scale = beta / (alpha + r)
            own_volume = (d - 1) * jnp.log1p(scale) + jnp.log1p(scale - scale * r / (alpha + r))
            return (h + scale[:, None] * gap, volume + own_volume), None

        return jax.lax.scan(layer, (x, jnp.zeros_like(x[:, 0])), tree)[0]  # type: ignore[no-any-return]

    def backward(self, tree: Tree, z: Any) -> Any:
        """The distance r with r + beta r / (alpha + r) = |z - c|, the positive root of a square."""

        def layer(h: Any, own: Any) -> Any:
            alpha, beta = _pull(own)
            gap, far = _distance(h, own["centre"])
            half = 0.5 * (alpha + beta - far)
            root = jnp.sqrt(half**2 + alpha * far)
            # Of the two forms of the root the one without cancellation.
            r = jnp.where(half > 0, alpha * far / (half + root), root - half)
            return own["centre"] + gap / (1 + beta / (alpha + r))[:, None], None

        return jax.lax.scan(layer, z, tree, reverse=True)[0]


def _push(own: Tree) -> tuple[Any, Any]:
    """The vector u that can be inverted, and u.w."""
    w = own["w"]
    before = own["u"] @ w
    along = jax.nn.softplus(before) - 1.0
    return own["u"] + (along - before) * w / (w @ w), along


def _pull(own: Tree) -> tuple[Any, Any]:
    """Alpha and beta."""
    alpha = jnp.exp(own["log_alpha"])
    return alpha, -alpha + alpha * jnp.exp(own["log_pull"])


def _distance(h: Any, centre: Any) -> tuple[Any, Any]:
    """Differences and distances, whose slope at the centre is zero."""
    gap = h - centre
    square = (gap**2).sum(axis=1)
    positive = square > 0
    return gap, jnp.where(positive, jnp.sqrt(jnp.where(positive, square, 1.0)), 0.0)


def _root(function: Any, wanted: Any, low: Any, high: Any) -> Any:
    """Where an increasing function has a value, between two places."""

    def halve(_: Any, ends: Any) -> Any:
        low, high = ends
        middle = 0.5 * (low + high)
        is_below = function(middle) < wanted
        return jnp.where(is_below, middle, low), jnp.where(is_below, high, middle)

    low, high = jax.lax.fori_loop(0, _HALVINGS[np.dtype(wanted.dtype)], halve, (low, high))
    return 0.5 * (low + high)
