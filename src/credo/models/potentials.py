"""Potentials people build continuous models from; each call makes one factor.

    gaussian         N(x; mean, variance)                                    one variable
    gaussian_mixture sum_c w_c N(x; mean_c, variance_c)                      one variable
    laplace          exp(-|x - centre| / scale)                              one variable, or a difference
    clamped_laplace  the same, constant where |x - centre| > limit           not integrable alone
    student          (1 + (x - centre)^2 / (freedom scale^2))^(-(freedom+1)/2)
    bimodal          exp(-s((x-a)^2 + (y+a)^2)) + exp(-s((x+a)^2 + (y-a)^2)) two variables that differ in sign
    kernel_density   Parzen density with a product of Gaussian kernels       one or two variables
    density_ratio    p_ij / (p_i^r p_j^s) of such densities                  two variables
    dirichlet        Dir(theta; concentration)                               a simplex variable
    categorical      theta_z                                                 a discrete and a simplex variable
    emission         N(x; mean_s, variance_s)                                a real and a discrete variable
    network          any function of the values and of its weights           any variables

The second number of a Gaussian is a variance; the one of a Laplace potential is a scale. Log-potentials are
not normalised unless the line says "density".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..core import check
from ..core.density import DensityFactor, GaussianFactor, finite_array, namespace
from ..core.domain import Discrete, Real, Simplex
from ..core.errors import ModelError
from ..core.linear_gaussian import LinearGaussianFactor
from ..core.records import register
from ..core.variable import Variable

__all__ = [
    "bimodal",
    "categorical",
    "clamped_laplace",
    "density_ratio",
    "dirichlet",
    "emission",
    "gaussian",
    "gaussian_mixture",
    "kernel_density",
    "laplace",
    "network",
    "student",
]

_LOG_2PI = float(np.log(2 * np.pi))


def gaussian(x: Variable, mean: float = 0.0, variance: float = 1.0) -> GaussianFactor:
    """The density N(x; mean, variance)."""
    _positive("variance", variance)
    return GaussianFactor.from_moments([x], [mean], [[variance]])


def gaussian_mixture(x: Variable, weights: Any, means: Any, variances: Any) -> DensityFactor:
    """The mixture sum_c weights[c] N(x; means[c], variances[c])."""
    given = {"weights": weights, "means": means, "variances": variances}
    read = [np.atleast_1d(check.finite_numbers(name, values)) for name, values in given.items()]
    try:
        weights, means, variances = np.broadcast_arrays(*read)
    except ValueError:
        weights = np.empty(0)
    if weights.ndim != 1 or not len(weights):
        told = ", ".join(f"{name} of shape {v.shape}" for name, v in zip(given, read, strict=True))
        raise ModelError(f"gaussian_mixture: expected one number per component, got {told}")
    _positive("weights", weights)
    _positive("variances", variances)
    return DensityFactor([_real(x)], _log_mixture, np.log(weights), means, variances)


@register("potentials.gaussian_mixture")
def _log_mixture(x: Any, log_weights: Any, means: Any, variances: Any) -> Any:
    xp = namespace(x, log_weights)
    gap = xp.asarray(x)[..., None] - means
    terms = log_weights - 0.5 * (gap**2 / variances + xp.log(variances) + _LOG_2PI)
    return _log_sum(xp, terms)


def laplace(*scope: Variable, scale: float = 1.0, centre: float = 0.0) -> DensityFactor:
    """The potential exp(-|x - centre| / scale), or exp(-|x - y - centre| / scale) of two variables."""
    _positive("scale", scale)
    return DensityFactor(_one_or_two(scope), _LAPLACE[len(scope) - 1], scale, centre)


def clamped_laplace(
    *scope: Variable, scale: float = 1.0, limit: float = 1.0, centre: float = 0.0
) -> DensityFactor:
    """The Laplace potential of one variable or of a difference, constant beyond `limit`."""
    _positive("scale", scale)
    _positive("limit", limit)
    return DensityFactor(_one_or_two(scope), _CLAMPED[len(scope) - 1], scale, limit, centre)


@register("potentials.laplace of one")
def _laplace_one(x: Any, scale: Any, centre: Any) -> Any:
    return -abs(x - centre) / scale


@register("potentials.laplace of two")
def _laplace_two(x: Any, y: Any, scale: Any, centre: Any) -> Any:
    return -abs(x - y - centre) / scale


@register("potentials.clamped_laplace of one")
def _clamped_one(x: Any, scale: Any, limit: Any, centre: Any) -> Any:
    return -namespace(x, scale).minimum(abs(x - centre), limit) / scale


@register("potentials.clamped_laplace of two")
def _clamped_two(x: Any, y: Any, scale: Any, limit: Any, centre: Any) -> Any:
    return -namespace(x, y, scale).minimum(abs(x - y - centre), limit) / scale


_LAPLACE = (_laplace_one, _laplace_two)
_CLAMPED = (_clamped_one, _clamped_two)


def student(*scope: Variable, freedom: float = 3.0, scale: float = 1.0, centre: float = 0.0) -> DensityFactor:
    """The heavy-tailed Student potential of one variable, or of the difference of two."""
    _positive("freedom", freedom)
    _positive("scale", scale)
    return DensityFactor(_one_or_two(scope), _STUDENT[len(scope) - 1], freedom, scale, centre)


@register("potentials.student of one")
def _student_one(x: Any, freedom: Any, scale: Any, centre: Any) -> Any:
    return -(freedom + 1) / 2 * namespace(x, scale).log1p(((x - centre) / scale) ** 2 / freedom)


@register("potentials.student of two")
def _student_two(x: Any, y: Any, freedom: Any, scale: Any, centre: Any) -> Any:
    return _student_one(x - y, freedom, scale, centre)


_STUDENT = (_student_one, _student_two)


def bimodal(x: Variable, y: Variable, centre: float = 10.0, strength: float = 0.1) -> DensityFactor:
    """Two bumps, at (centre, -centre) and (-centre, centre), each exp(-strength times squared distance)."""
    _positive("strength", strength)
    return DensityFactor([_real(x), _real(y)], _bimodal, centre, strength)


@register("potentials.bimodal")
def _bimodal(x: Any, y: Any, centre: Any, strength: Any) -> Any:
    one = -strength * ((x - centre) ** 2 + (y + centre) ** 2)
    other = -strength * ((x + centre) ** 2 + (y - centre) ** 2)
    return namespace(x, y, centre).logaddexp(one, other)


def kernel_density(scope: Iterable[Variable], data: Any, bandwidth: Any) -> DensityFactor:
    """The Parzen density of rows (rows, k), a product of Gaussian kernels with one bandwidth per variable."""
    scope = tuple(map(_real, scope))
    data, bandwidth = _parzen(scope, data, bandwidth)
    return DensityFactor(scope, _kernel_one if len(scope) == 1 else _kernel_two, data, bandwidth)


def density_ratio(
    x: Variable, y: Variable, data: Any, bandwidth: Any, powers: Any = (1.0, 1.0)
) -> DensityFactor:
    """The ratio p_ij(x, y) / (p_i(x)^r p_j(y)^s) of Parzen densities, with powers (r, s)."""
    scope = (_real(x), _real(y))
    data, bandwidth = _parzen(scope, data, bandwidth)
    return DensityFactor(scope, _kernel_ratio, data, bandwidth, _each("powers", powers, 2))


def _log_kernels(x: Any, data: Any, bandwidth: Any) -> Any:
    xp = namespace(x, data)
    gap = (xp.asarray(x)[..., None] - data) / bandwidth
    return -0.5 * gap**2 - xp.log(bandwidth) - 0.5 * _LOG_2PI


def _log_mean(xp: Any, terms: Any) -> Any:
    return _log_sum(xp, terms) - np.log(terms.shape[-1])


@register("potentials.kernel_density of one")
def _kernel_one(x: Any, data: Any, bandwidth: Any) -> Any:
    return _log_mean(namespace(x, data), _log_kernels(x, data[:, 0], bandwidth[0]))


@register("potentials.kernel_density of two")
def _kernel_two(x: Any, y: Any, data: Any, bandwidth: Any) -> Any:
    one, other = _log_kernels(x, data[:, 0], bandwidth[0]), _log_kernels(y, data[:, 1], bandwidth[1])
    return _log_mean(namespace(x, y, data), one + other)


@register("potentials.density_ratio")
def _kernel_ratio(x: Any, y: Any, data: Any, bandwidth: Any, powers: Any) -> Any:
    xp = namespace(x, y, data)
    one, other = _log_kernels(x, data[:, 0], bandwidth[0]), _log_kernels(y, data[:, 1], bandwidth[1])
    single = powers[0] * _log_mean(xp, one) + powers[1] * _log_mean(xp, other)
    return _log_mean(xp, one + other) - single


def dirichlet(theta: Variable, concentration: Any) -> DensityFactor:
    """The density Dir(theta; concentration), with one number per coordinate or one for all."""
    _variable("dirichlet", theta)
    if not isinstance(theta.domain, Simplex):
        raise ModelError(f"dirichlet: variable '{theta.name}' must be a Simplex, it is {theta.domain!r}")
    alpha = _each("dirichlet: concentration", concentration, theta.domain.width)
    _positive("concentration", alpha)
    return DensityFactor([theta], _log_dirichlet, alpha, _log_beta(alpha))


@register("potentials.dirichlet")
def _log_dirichlet(theta: Any, alpha: Any, log_beta: Any) -> Any:
    xp = namespace(theta, alpha)
    return (xp.where(alpha == 1, 0.0, (alpha - 1) * xp.log(theta))).sum(axis=-1) - log_beta


def _log_beta(alpha: np.ndarray) -> float:
    from math import lgamma

    return sum(map(lgamma, alpha.tolist())) - lgamma(float(alpha.sum()))


def categorical(z: Variable, theta: Variable) -> DensityFactor:
    """The probability theta_z of a state of `z` under a simplex variable with as many coordinates."""
    _variable("categorical", z)
    _variable("categorical", theta)
    if not isinstance(theta.domain, Simplex) or theta.domain.width != z.size:
        raise ModelError(
            f"categorical: '{theta.name}' must be a Simplex with {z.size} coordinates, one per state of "
            f"'{z.name}', it is {theta.domain!r}"
        )
    return DensityFactor([z, theta], _log_categorical)


@register("potentials.categorical")
def _log_categorical(z: Any, theta: Any) -> Any:
    xp = namespace(z, theta)
    z, theta = xp.asarray(z), xp.asarray(theta)
    shape = np.broadcast_shapes(z.shape, theta.shape[:-1])
    states = xp.broadcast_to(z, shape)[..., None]
    picked = xp.take_along_axis(xp.broadcast_to(theta, (*shape, theta.shape[-1])), states, axis=-1)
    return xp.log(picked[..., 0])


def emission(x: Variable, s: Variable, means: Any, variances: Any) -> LinearGaussianFactor:
    """The density N(x; means[s], variances[s]) of a real variable given a discrete one."""
    _variable("emission", s)
    if not isinstance(s.domain, Discrete):
        raise ModelError(f"emission: variable '{s.name}' must be discrete, it is {s.domain!r}")
    means = _each("emission: means", means, s.size)
    variances = _each("emission: variances", variances, s.size)
    _positive("variances", variances)
    return LinearGaussianFactor.conditional(_real(x), (), (s,), np.empty((s.size, 0)), variances, means)


def network(scope: Iterable[Variable], function: Callable[..., Any], *weights: Any) -> DensityFactor:
    """Any function of the values and of arrays of weights, such as a neural network."""
    return DensityFactor(scope, function, *weights)


def _log_sum(xp: Any, terms: Any) -> Any:
    if xp is not np:
        # The derivative of a maximum looks for the entry that equals it, and finds none where a compiled
        # program computes the entry twice and rounds it differently; this one has no such derivative.
        from jax.scipy.special import logsumexp

        return logsumexp(terms, axis=-1)
    largest = terms.max(axis=-1, keepdims=True)
    safe = xp.where(xp.isfinite(largest), largest, 0.0)
    with np.errstate(divide="ignore"):
        return xp.log(xp.exp(terms - safe).sum(axis=-1)) + safe[..., 0]


def _variable(what: str, given: Any) -> None:
    if not isinstance(given, Variable):
        raise ModelError(
            f"{what}: expected a Variable, got {given!r:.80}; make it with Variable(name, domain)"
        )


def _each(what: str, values: Any, count: int) -> np.ndarray:
    """One number for each of `count` things, or one for all."""
    return finite_array(what, values, (count,), spread=True)


def _real(x: Variable) -> Variable:
    if not isinstance(x, Variable) or x.domain != Real():
        raise ModelError(f"expected a real variable, Variable(name, Real()), got {x!r:.80}")
    return x


def _one_or_two(scope: tuple[Variable, ...]) -> tuple[Variable, ...]:
    if len(scope) not in (1, 2):
        raise ModelError(f"expected one variable or two, got {len(scope)}")
    return tuple(map(_real, scope))


def _positive(name: str, value: Any) -> None:
    if not (check.finite_numbers(name, value) > 0).all():
        raise ModelError(f"{name} must be positive, got {value!r:.80}")


def _parzen(scope: tuple[Variable, ...], data: Any, bandwidth: Any) -> tuple[np.ndarray, np.ndarray]:
    k = len(scope)
    if k not in (1, 2):
        raise ModelError(f"a kernel density takes one variable or two, got {k}")
    rows = check.finite_numbers("data", data)
    rows = rows[:, None] if rows.ndim == 1 else rows
    if rows.ndim != 2 or rows.shape[1] != k or not len(rows):
        raise ModelError(f"data: expected finite rows of {k} numbers, got shape {np.shape(data)}")
    width = _each("bandwidth", bandwidth, k)
    _positive("bandwidth", width)
    return rows, width
