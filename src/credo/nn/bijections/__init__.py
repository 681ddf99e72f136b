"""Bijections of rows for flows: frozen options, and pure functions of the parameters of one member."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.lazy import furnish

if TYPE_CHECKING:
    from .actnorm import Actnorm
    from .base import Chain, RowBijection, read_bijection
    from .coupling import Coupling
    from .flowjax_maps import Autoregressive, Spline
    from .glow import Glow
    from .mixing import Mixing, Permutation
    from .ode import Ode
    from .planar import Planar, Radial

__all__ = [
    "Actnorm",
    "Autoregressive",
    "Chain",
    "Coupling",
    "Glow",
    "Mixing",
    "Ode",
    "Permutation",
    "Planar",
    "Radial",
    "RowBijection",
    "Spline",
    "read_bijection",
]

furnish(
    __name__,
    {
        "actnorm": ("Actnorm",),
        "base": ("RowBijection", "Chain", "read_bijection"),
        "coupling": ("Coupling",),
        "flowjax_maps": ("Autoregressive", "Spline"),
        "glow": ("Glow",),
        "mixing": ("Mixing", "Permutation"),
        "ode": ("Ode",),
        "planar": ("Planar", "Radial"),
    },
)
