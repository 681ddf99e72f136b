r"""Conjugate priors as variational Bayes uses them: defaults, missing values, and hyper-parameter steps.

Missing coordinates of a row are hidden variables. With independent coordinates they drop out. Under a
full covariance the integral over them is a Gaussian one,

    log int exp E[log N(x | m, L^-1)] dx_missing
        = log N(x_seen | c, E[L]^-1) + (E log |L| - log |E L| - d / k) / 2,

so that the member with mean c and precision E[L] supplies the E-step, and its conditional Gaussian the
expected statistics.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import gammaln

from ..core.errors import DataError, ModelError
from ..families.base import Conjugate, Family
from ..families.categorical import Categorical
from ..families.dirichlet import Dirichlet
from ..families.gamma import Gamma, Poisson
from ..families.gaussian import Gaussian
from ..families.gaussian_diagonal import DiagonalGaussian
from ..families.gaussian_wishart import GaussianWishart
from ..families.normal_gamma import NormalGamma

__all__ = ["adapted", "best_symmetric", "check_prior", "default_prior", "expected_log_density", "updated"]

_LARGEST = 1e6  # concentration above which rows are equal for all purposes
_LEAST = 1e-6


def default_prior(member: Family, x: np.ndarray) -> Any:
    """A weak prior at the scale of the data, with one member.

    Gaussians: the mean of the data counting for one row, and its covariance for as many rows as there are
    dimensions (for diagonal ones, one row); states: one count each; rates: one event at the mean rate.
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
    raise ModelError(
        f"variational Bayes: expected Categorical, Gaussian, DiagonalGaussian or Poisson members, which have "
        f"conjugate priors, got {type(member).__name__}; use maximum likelihood for others"
    )


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


def expected_log_density(q: Conjugate, x: np.ndarray) -> np.ndarray:
    """E[log p(x | parameters)] with missing coordinates integrated out, (rows, members)."""
    if not isinstance(q, GaussianWishart) or not np.isnan(x).any():
        return q.expected_log_density(x)
    d = q.dimension
    log_det = d * np.log(q.freedom) - np.linalg.slogdet(q.scatter)[1]
    out = q.mean().log_density(x) + 0.5 * (q.expected_log_det - log_det - d / q.strength)
    out[np.isnan(x).all(axis=1)] = 0.0
    return out


def updated(prior: Conjugate, q: Conjugate | None, x: np.ndarray, weights: np.ndarray) -> Any:
    """The posterior given weighted rows (rows, members); `q` completes rows with missing coordinates."""
    prior = prior.repeat(weights.shape[1])
    if isinstance(prior, NormalGamma) and np.isnan(x).any():
        return _seen_only(prior, x, weights)
    return prior.posterior((prior if q is None else q).mean().collect(x, weights))


def _seen_only(prior: NormalGamma, x: np.ndarray, weights: np.ndarray) -> NormalGamma:
    """Every coordinate by itself: one that a row does not observe tells nothing."""
    found = []
    for i in range(prior.dimension):
        own = (part[:, [i]] for part in (prior.centre, prior.strength, prior.shape, prior.rate))
        column = NormalGamma(*own)
        after = column.posterior(column.mean().collect(x[:, [i]], weights))
        found.append((after.centre, after.strength, after.shape, after.rate))
    return NormalGamma(*(np.concatenate(parts, axis=1) for parts in zip(*found, strict=True)))


def adapted(prior: Any, q: Any) -> Any:
    """The prior with one member, of the same kind, under which F is highest for this q.

    Gaussian priors get a new centre and scale, categorical ones a new symmetric concentration, gamma
    ones a new rate; strengths, freedoms and shapes stay.
    """
    prior = prior.take([0])
    members = len(q)
    if isinstance(prior, GaussianWishart):
        total = q.expected_precision.sum(axis=0)
        pull = np.einsum("kij,kj->i", q.expected_precision, q.centre - q.centre[0])
        centre = q.centre[0] + np.linalg.solve(total, pull)
        scatter = members * prior.freedom[0] * np.linalg.inv(total)
        return GaussianWishart([centre], prior.strength, prior.freedom, [0.5 * (scatter + scatter.T)])
    if isinstance(prior, NormalGamma):
        total = q.expected_precision.sum(axis=0)
        centre = q.centre[0] + (q.expected_precision * (q.centre - q.centre[0])).sum(axis=0) / total
        return NormalGamma([centre], prior.strength, prior.shape, members * prior.shape / total)
    if isinstance(prior, Gamma):
        return Gamma(prior.shape, members * prior.shape / (q.shape / q.rate).sum())
    if isinstance(prior, Dirichlet):
        states = prior.concentration.shape[1]
        return Dirichlet(np.full((1, states), best_symmetric(q.expected_log)))
    raise ModelError(f"prior: expected a conjugate prior of credo.families, got {type(prior).__name__}")


def best_symmetric(expected_log: np.ndarray) -> float:
    """The concentration a of symmetric Dirichlet rows that maximises E[log p(rows | a)].

    Parameters
    ----------
    expected_log
        E[log theta], (rows, states); -inf for impossible states.
    """
    possible = np.isfinite(expected_log)
    states = possible.sum(axis=1)
    used = states > 1
    if not used.any():
        return 1.0
    total = expected_log[used][possible[used]].sum()

    def loss(log_a: float) -> float:
        a = np.exp(log_a)
        norm = gammaln(states[used] * a) - states[used] * gammaln(a)
        return -float(norm.sum() + (a - 1.0) * total)

    found = minimize_scalar(
        loss, bounds=(np.log(_LEAST), np.log(_LARGEST)), method="bounded", options={"xatol": 1e-10}
    )
    return float(np.exp(found.x))


def check_prior(prior: Any, member: Family) -> Any:
    """Refuse a prior that does not belong to the family of these members."""
    wanted = {
        Categorical: Dirichlet,
        Poisson: Gamma,
        Gaussian: GaussianWishart,
        DiagonalGaussian: NormalGamma,
    }
    kind = wanted.get(type(member))
    if kind is None or not isinstance(prior, kind):
        name = "none" if kind is None else kind.__name__
        raise ModelError(f"prior of {type(member).__name__}: expected {name}, got {type(prior).__name__}")
    size = {
        Dirichlet: lambda: (prior.concentration.shape[1], getattr(member, "states", 0)),
        GaussianWishart: lambda: (prior.dimension, getattr(member, "dimension", 0)),
        NormalGamma: lambda: (prior.dimension, getattr(member, "dimension", 0)),
        Gamma: lambda: (1, 1),
    }[kind]()
    if size[0] != size[1]:
        raise ModelError(f"prior: expected {size[1]} states or dimensions as the data have, got {size[0]}")
    return prior
