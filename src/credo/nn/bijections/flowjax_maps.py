r"""Bijections of flowjax: rational-quadratic splines and autoregressive flows (extra `flows`).

    spline   couplings whose other half goes through monotone splines of `knots` pieces on [-reach, reach]
    maf      every coordinate is moved by those before it: one pass to latent numbers, d passes back

The library's own direction is from latent numbers to rows; it is turned round here. Its parameters are a
tuple of arrays, the rest of its objects is made again from the options.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import equinox as eqx
import jax
import numpy as np

from ...core import check
from ...core.errors import MissingExtraError
from ...core.records import register
from .base import RowBijection, Tree, register_bijection

__all__ = ["Autoregressive", "Spline"]


class _Foreign(RowBijection):
    """A bijection of the library, from the options."""

    layers: int
    width: int

    def _made(self, d: int, key: Any) -> Any:
        """The object of the library for rows of d numbers."""
        raise AssertionError("each kind makes its own")

    def start(self, d: int, rng: np.random.Generator) -> Tree:
        """Its arrays."""
        _skeleton(self, d)
        made = self._made(d, jax.random.PRNGKey(int(rng.integers(1 << 31))))
        return tuple(np.asarray(leaf) for leaf in jax.tree.leaves(_parted(made)[0]))

    def forward(self, tree: Tree, x: Any) -> tuple[Any, Any]:
        """Rows to latent numbers."""
        return jax.vmap(self._whole(tree, x.shape[1]).inverse_and_log_det)(x)  # type: ignore[no-any-return]

    def backward(self, tree: Tree, z: Any) -> Any:
        """Latent numbers to rows."""
        return jax.vmap(self._whole(tree, z.shape[1]).transform)(z)

    def _whole(self, tree: Tree, d: int) -> Any:
        structure, rest = _skeleton(self, d)
        import paramax

        return paramax.unwrap(eqx.combine(jax.tree.unflatten(structure, tree), rest))

    def why_not(self, d: int) -> str | None:
        """The other half needs one coordinate at least."""
        return (
            None if d > 1 else f"a {self.name} needs two coordinates or more, got {d}; use actnorm or radial"
        )


@cache
def _skeleton(kind: _Foreign, d: int) -> tuple[Any, Any]:
    """Where arrays belong in the object of the library, and what else it has.

    Made when parameters are, never while a program is traced: the library checks its numbers.
    """
    arrays, rest = _parted(kind._made(d, jax.random.PRNGKey(0)))
    return jax.tree.structure(arrays), rest


def _parted(made: Any) -> tuple[Any, Any]:
    """Arrays that may be learned, and the rest."""
    import paramax

    return eqx.partition(  # type: ignore[no-any-return]
        made, eqx.is_inexact_array, is_leaf=lambda leaf: isinstance(leaf, paramax.NonTrainable)
    )


@register("bijection.spline")
@register_bijection
@dataclass(frozen=True, kw_only=True)
class Spline(_Foreign):
    """Couplings by rational-quadratic splines (flowjax)."""

    name: ClassVar[str] = "spline"
    layers: int = 4  # couplings
    width: int = 24  # of the hidden layers of the conditioners
    knots: int = 8  # pieces of a spline
    reach: float = 4.0  # splines are the identity outside of [-reach, reach]

    def __post_init__(self) -> None:
        """Check the options."""
        for name, low in (("layers", 1), ("width", 1), ("knots", 2)):
            check.whole(name, getattr(self, name), low)
        check.finite("reach", self.reach)
        check.at_least("reach", self.reach, 1e-3)

    def _made(self, d: int, key: Any) -> Any:
        library = _library()
        spline = library.bijections.RationalQuadraticSpline(knots=self.knots, interval=self.reach)
        base = library.distributions.StandardNormal((d,))
        return library.flows.coupling_flow(
            key, base_dist=base, transformer=spline, flow_layers=self.layers, nn_width=self.width, nn_depth=2
        ).bijection


@register("bijection.maf")
@register_bijection
@dataclass(frozen=True, kw_only=True)
class Autoregressive(_Foreign):
    """Every coordinate is moved by those before it (flowjax)."""

    name: ClassVar[str] = "maf"
    layers: int = 4  # passes over the coordinates, in orders that change
    width: int = 24  # of the hidden layers

    def __post_init__(self) -> None:
        """Check the options."""
        for name in ("layers", "width"):
            check.whole(name, getattr(self, name), 1)

    def _made(self, d: int, key: Any) -> Any:
        library = _library()
        base = library.distributions.StandardNormal((d,))
        return library.flows.masked_autoregressive_flow(
            key, base_dist=base, flow_layers=self.layers, nn_width=self.width, nn_depth=1
        ).bijection


def _library() -> Any:
    try:
        import flowjax.bijections
        import flowjax.distributions
        import flowjax.flows
    except ImportError as problem:
        raise MissingExtraError(
            f"splines and autoregressive flows need flowjax: install credo[flows] ({problem})"
        ) from problem
    return flowjax
