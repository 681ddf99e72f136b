"""Which conjugate prior a family has: a weak one at the scale of the data, and a check of given ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.errors import DataError, ModelError
from .base import Family
from .categorical import Categorical
from .conjugate_mixture import ConjugateMixture
from .conjugate_product import ConjugateProduct
from .dirichlet import Dirichlet
from .gamma import Gamma, Poisson
from .gaussian import Gaussian
from .gaussian_diagonal import DiagonalGaussian
from .gaussian_wishart import GaussianWishart
from .mixture import Mixture, MixturePrior
from .normal_gamma import NormalGamma
from .product import Product

__all__ = ["check_prior", "default_prior", "why_no_conjugate"]

_PRIORS: dict[type[Family], Any] = {
    Categorical: Dirichlet,
    Poisson: Gamma,
    Gaussian: GaussianWishart,
    DiagonalGaussian: NormalGamma,
}


def why_no_conjugate(member: Family) -> str | None:
    """None if members of this family have a conjugate prior, otherwise the reason."""
    if isinstance(member, Product):
        return next((why for part in member.parts if (why := why_no_conjugate(part)) is not None), None)
    if isinstance(member, Mixture):
        return why_no_conjugate(member.components)
    if type(member) in _PRIORS:
        return None
    return (
        "variational Bayes: expected Categorical, Gaussian, DiagonalGaussian or Poisson members, or "
        f"products and mixtures of these, which have conjugate priors, got {type(member).__name__}; use "
        "maximum likelihood for others"
    )


def default_prior(member: Family, x: np.ndarray) -> Any:
    """A weak prior at the scale of the data, with one member.

    Gaussians: the mean of the data counting for one row, and its covariance for as many rows as there are
    dimensions (for diagonal ones, one row); states: one count each; rates: one event at the mean rate;
    weights of components: one count in all.
    """
    if isinstance(member, Categorical):
        return Dirichlet(np.ones((1, member.states)))
    if isinstance(member, Poisson):
        mean = float(np.nanmean(x)) if (~np.isnan(x)).any() else 1.0
        return Gamma([1.0], [1.0 / max(mean, 1e-3)])
    if isinstance(member, (Gaussian, DiagonalGaussian)):
        centre, spread = _centre(x)
        if isinstance(member, DiagonalGaussian):
            one = np.ones_like(centre)
            return NormalGamma([centre], [one], [one], [np.diag(spread)])
        d = len(centre)
        return GaussianWishart([centre], [1.0], [float(d)], [spread])
    if isinstance(member, Product):
        each = zip(member.parts, member.split(x), strict=True)
        return ConjugateProduct(member, [default_prior(part, own) for part, own in each])
    if isinstance(member, Mixture):
        return _mixture_prior(MixturePrior(), member, x)
    raise ModelError(why_no_conjugate(member))


def _centre(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the observed values; constant columns get variance 1."""
    seen = ~np.isnan(x)
    if not seen.any(axis=0).all():
        k = int(np.flatnonzero(~seen.any(axis=0))[0])
        raise DataError(f"data: column {k} has no observed value; leave it out")
    origin = np.nanmin(x, axis=0)
    near = x - origin  # exactly 0 in constant columns
    centre = origin + np.nanmean(near, axis=0)
    complete = near[seen.all(axis=1)]
    variances = np.nanvar(near, axis=0)
    variances = np.where(variances > 0, variances, 1.0)
    if len(complete) > x.shape[1] + 1:
        covariance = np.atleast_2d(np.cov(complete.T))
        least = np.linalg.eigvalsh(covariance)[0] if np.isfinite(covariance).all() else 0.0
        if least > 1e-10 * variances.max():
            return centre, covariance
    return centre, np.diag(variances)


def check_prior(prior: Any, member: Family, x: np.ndarray | None = None) -> Any:
    """The prior, refused if it does not belong to the family of these members; of a product one per part.

    `x`, rows of data, give a mixture's components the prior that a `MixturePrior` leaves out.
    """
    if isinstance(member, Product):
        return _checked_parts(prior, member, x)
    if isinstance(member, Mixture):
        return _checked_mixture(prior, member, x)
    kind = _PRIORS.get(type(member))
    if kind is None or not isinstance(prior, kind):
        name = "none" if kind is None else kind.__name__
        raise ModelError(f"prior of {type(member).__name__}: expected {name}, got {type(prior).__name__}")
    size = _size(prior), getattr(member, "states", 0) or getattr(member, "dimension", 1)
    if size[0] != size[1]:
        raise ModelError(f"prior: expected {size[1]} states or dimensions as the data have, got {size[0]}")
    return prior


def _size(prior: Any) -> int:
    """States or dimensions of the data that a prior is for; 1 for counts."""
    if isinstance(prior, Dirichlet):
        return int(prior.concentration.shape[1])
    return int(prior.dimension) if isinstance(prior, (GaussianWishart, NormalGamma)) else 1


def _checked_parts(prior: Any, member: Product, x: np.ndarray | None) -> ConjugateProduct:
    parts = prior.parts if isinstance(prior, ConjugateProduct) else prior
    if not isinstance(parts, (tuple, list)) or len(parts) != len(member.parts):
        raise ModelError(
            f"prior of Product: expected {len(member.parts)} priors, one per part, got {prior!r:.60}"
        )
    rows = [None] * len(parts) if x is None else member.split(x)
    each = zip(parts, member.parts, rows, strict=True)
    return ConjugateProduct(member, [check_prior(p, part, own) for p, part, own in each])


def _checked_mixture(prior: Any, member: Mixture, x: np.ndarray | None) -> ConjugateMixture:
    if isinstance(prior, ConjugateMixture):
        prior = MixturePrior(prior.weights, prior.components)
    if not isinstance(prior, MixturePrior):
        raise ModelError(f"prior of Mixture: expected a MixturePrior, got {type(prior).__name__}")
    return _mixture_prior(prior, member, x)


def _mixture_prior(prior: MixturePrior, member: Mixture, x: np.ndarray | None) -> ConjugateMixture:
    """A conjugate distribution of mixtures; parts that the prior leaves out are weak ones."""
    width, weights = member.weights.shape[1], prior.dirichlet
    if weights is None:
        weights = Dirichlet(np.full((1, width), 1.0 / width))
    if weights.concentration.shape[1] != width:
        raise ModelError(
            f"prior of weights: expected {width} components, got {weights.concentration.shape[1]}"
        )
    if prior.components is not None:
        own = check_prior(prior.components, member.components, x)
    elif x is None:
        raise ModelError("prior of Mixture: expected priors of its components, got none; give them, or data")
    else:
        own = default_prior(member.components, x)
    return ConjugateMixture(weights, own)
