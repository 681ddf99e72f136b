"""Distributions with parameters: families, families over families, and conjugate priors, in batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import furnish

if TYPE_CHECKING:
    from .additive import AdditiveGaussian
    from .base import ClosedLeaf, ExpectedSums, Family, Statistics
    from .blank import BlankMixture, family_of
    from .blank_flow import BlankFlow
    from .categorical import Categorical
    from .conjugate import Conjugate
    from .conjugate_mixture import ConjugateMixture
    from .conjugate_product import ConjugateProduct
    from .dirichlet import Dirichlet
    from .factor_gaussian import FactorGaussian
    from .flow import Flow
    from .gamma import Gamma, Poisson
    from .gaussian import Gaussian, TiedGaussian
    from .gaussian_diagonal import DiagonalGaussian, SphericalGaussian
    from .gaussian_field import GaussianField
    from .gaussian_wishart import GaussianWishart
    from .independent import IndependentRows
    from .interpolation import interpolate
    from .learnable import Learnable
    from .mixture import Mixture, MixturePrior
    from .normal_gamma import NormalGamma
    from .posteriors import MixturePosterior
    from .product import Product
    from .stick_breaking import StickBreaking
    from .student import StudentT

__all__ = [
    "AdditiveGaussian",
    "BlankFlow",
    "BlankMixture",
    "Categorical",
    "ClosedLeaf",
    "Conjugate",
    "ConjugateMixture",
    "ConjugateProduct",
    "DiagonalGaussian",
    "Dirichlet",
    "ExpectedSums",
    "FactorGaussian",
    "Family",
    "Flow",
    "Gamma",
    "Gaussian",
    "GaussianField",
    "GaussianWishart",
    "IndependentRows",
    "Learnable",
    "Mixture",
    "MixturePosterior",
    "MixturePrior",
    "NormalGamma",
    "Poisson",
    "Product",
    "SphericalGaussian",
    "Statistics",
    "StickBreaking",
    "StudentT",
    "TiedGaussian",
    "family_of",
    "interpolate",
]


furnish(
    __name__,
    {
        "additive": ("AdditiveGaussian",),
        "base": ("ClosedLeaf", "ExpectedSums", "Family", "Statistics"),
        "conjugate": ("Conjugate",),
        "blank": ("BlankMixture", "family_of"),
        "blank_flow": ("BlankFlow",),
        "categorical": ("Categorical",),
        "dirichlet": ("Dirichlet",),
        "factor_gaussian": ("FactorGaussian",),
        "flow": ("Flow",),
        "gamma": ("Gamma", "Poisson"),
        "gaussian": ("Gaussian", "TiedGaussian"),
        "gaussian_field": ("GaussianField",),
        "gaussian_diagonal": ("DiagonalGaussian", "SphericalGaussian"),
        "gaussian_wishart": ("GaussianWishart",),
        "independent": ("IndependentRows",),
        "interpolation": ("interpolate",),
        "learnable": ("Learnable",),
        "conjugate_mixture": ("ConjugateMixture",),
        "conjugate_product": ("ConjugateProduct",),
        "mixture": ("Mixture", "MixturePrior"),
        "posteriors": ("MixturePosterior",),
        "stick_breaking": ("StickBreaking",),
        "normal_gamma": ("NormalGamma",),
        "product": ("Product",),
        "student": ("StudentT",),
    },
)
