"""Flows by text: what blanks take as the family of the columns.

coupling(layers=4)                                      a bijection over standard Gaussians
flow(bijection=glow(levels=2), noise=uniform)           with options
flow(components=5, covariance=tied)                     over a mixture of so many Gaussians, which is learned
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import check
from ..core.errors import OptionError
from ..core.registry import read_spec, read_value
from ..nn.bijections.base import BIJECTIONS, read_bijection
from .base import Family
from .flow import Flow
from .gaussian import Gaussian, TiedGaussian
from .gaussian_diagonal import DiagonalGaussian, SphericalGaussian
from .mixture import Mixture

__all__ = ["COVARIANCES", "flow_members", "is_flow", "latent_mixture"]

COVARIANCES = ("diagonal", "full", "spherical", "tied")
_OPTIONS = ("bijection", "components", "covariance", "noise", "precision", "step")


def is_flow(kind: str) -> bool:
    """Whether a text names a flow or a bijection.

    >>> from credo.families.flow_kinds import is_flow
    >>> [is_flow(kind) for kind in ("flow", "actnorm + coupling(layers=2)", "gaussian")]
    [True, True, False]
    """
    name = kind.partition("+")[0].partition("(")[0].strip()
    return name == "flow" or name in BIJECTIONS


def flow_members(kind: str, members: int, width: int) -> Flow:
    """Flow members over so many columns."""
    options: dict[str, Any] = {"bijection": kind}
    if kind.partition("(")[0].strip() == "flow" and "+" not in kind.partition("(")[0]:
        options = dict(_option(part) for part in read_spec("emission", kind)[1])
    bijection = read_bijection(options.pop("bijection", "flow"))
    components, covariance = options.pop("components", 1), options.pop("covariance", "diagonal")
    base = None
    if components != 1:
        base = latent_mixture(members, components, bijection.kept(width), covariance)
    return Flow.started(bijection, width, members, base, **options)


def latent_mixture(members: int, components: int, dimension: int, covariance: str = "diagonal") -> Mixture:
    """Mixtures of Gaussians near the origin, whose parameters are still to come."""
    check.whole("components", components, 1)
    check.one_of("covariance", covariance, list(COVARIANCES))
    count, eye = members * components, np.eye(dimension)
    mean = np.zeros((count, dimension))
    parts: dict[str, Any] = {
        "diagonal": lambda: DiagonalGaussian(mean, np.ones_like(mean)),
        "spherical": lambda: SphericalGaussian(mean, np.ones(count)),
        "full": lambda: Gaussian(mean, np.broadcast_to(eye, (count, dimension, dimension))),
        "tied": lambda: TiedGaussian(mean, eye),
    }
    family: Family = parts[covariance]()
    return Mixture(np.full((members, components), 1.0 / components), family)


def _option(part: str) -> tuple[str, Any]:
    name, _, value = part.partition("=")
    if name.strip() not in _OPTIONS:
        raise OptionError(f"flow has no option '{name.strip()}'; its options are {list(_OPTIONS)}")
    return name.strip(), read_value(value.strip())
