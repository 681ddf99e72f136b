"""Distributions with parameters: families, families over families, and conjugate priors, in batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import furnish

if TYPE_CHECKING:
    from .base import ClosedLeaf, Conjugate, Expected, Family, Statistics
    from .categorical import Categorical
    from .dirichlet import Dirichlet
    from .gamma import Gamma, Poisson
    from .gaussian import Gaussian, TiedGaussian
    from .gaussian_diagonal import DiagonalGaussian, SphericalGaussian
    from .gaussian_wishart import GaussianWishart
    from .mixture import Mixture
    from .normal_gamma import NormalGamma
    from .product import Product
    from .student import StudentT

__all__ = [
    "Categorical",
    "ClosedLeaf",
    "Conjugate",
    "DiagonalGaussian",
    "Dirichlet",
    "Expected",
    "Family",
    "Gamma",
    "Gaussian",
    "GaussianWishart",
    "Mixture",
    "NormalGamma",
    "Poisson",
    "Product",
    "SphericalGaussian",
    "Statistics",
    "StudentT",
    "TiedGaussian",
]


furnish(
    __name__,
    {
        "base": ("ClosedLeaf", "Conjugate", "Expected", "Family", "Statistics"),
        "categorical": ("Categorical",),
        "dirichlet": ("Dirichlet",),
        "gamma": ("Gamma", "Poisson"),
        "gaussian": ("Gaussian", "TiedGaussian"),
        "gaussian_diagonal": ("DiagonalGaussian", "SphericalGaussian"),
        "gaussian_wishart": ("GaussianWishart",),
        "mixture": ("Mixture",),
        "normal_gamma": ("NormalGamma",),
        "product": ("Product",),
        "student": ("StudentT",),
    },
)
