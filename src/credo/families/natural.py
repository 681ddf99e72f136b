r"""The mathematics of exponential families on stacked arrays: arrays in, arrays out, no objects per member.

    p(y | eta) = exp( eta . u(y) - A(eta) ),     mu = E[u(y)] = grad A(eta),     entropy = A - eta . mu

             u(y)              eta               A
    normal   x, x^2            h, -J / 2         (h^2 / J + log 2 pi - log J) / 2
    vector   x, x x'           h, -J / 2         (h' J^-1 h + d log 2 pi - log |J|) / 2
    gamma    log t, t          a - 1, -b         log Gamma(a) - a log b
    simplex  log theta         a - 1             sum_s log Gamma(a_s) - log Gamma(sum_s a_s)
    states   one-hot of x      log weights       log sum_s exp eta_s

The checked members of this folder, the nodes of variational message passing and the sites of expectation
propagation all compute by what is here. Members may lie on any number of leading axes. Constants are in A and
the base measure is 1, so a product of densities is a sum of eta and a quotient a difference, and log Z of a
product is a difference of A. (The Gaussian classes keep (2 pi)^(-d/2) in the base measure of their rows.)

The functions take the parameters in which no digits are lost: precision J and shift h, shape a and rate b,
concentrations a (near zero, a - 1 has none left). The families at the end of the file take eta itself, as a
tuple with one array per statistic.
"""

from __future__ import annotations

import abc
from math import lgamma
from typing import ClassVar, Final

import numpy as np

__all__ = [
    "GAMMA",
    "LOG_2PI",
    "NORMAL",
    "SIMPLEX",
    "STATES",
    "VECTOR",
    "NaturalFamily",
    "Parts",
    "best_symmetric",
    "dirichlet_expected_log",
    "dirichlet_log_norm",
    "gamma_expected_log",
    "gamma_log_norm",
    "gaussian_log_norm",
    "gaussian_moments",
    "log_sum",
    "match_dirichlet",
    "normal_log_norm",
    "normal_moments",
    "normalised",
]

Parts = tuple[np.ndarray, ...]  # natural or mean parameters, one array per statistic

LOG_2PI: Final = float(np.log(2 * np.pi))
_FEW, _LARGE = (
    64,
    1e300,
)  # values of the gamma function that are computed one by one
_LARGEST = 1e6  # concentration above which rows are equal for all purposes
_LEAST = 1e-6
_NEWTON = 60  # most steps of a projection on a Dirichlet; fewer than ten are usual


def normal_moments(precision: np.ndarray, shift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of exp(shift x - precision x^2 / 2), entry by entry."""
    return shift / precision, 1 / precision


def normal_log_norm(precision: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Log of the integral of exp(shift x - precision x^2 / 2), entry by entry."""
    return np.asarray(0.5 * (LOG_2PI - np.log(precision) + shift**2 / precision))


def gaussian_moments(precision: np.ndarray, shift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means (..., d) and covariances (..., d, d) of exp(shift x - x' precision x / 2)."""
    inverse = np.linalg.inv(precision)
    covariance = 0.5 * (inverse + np.swapaxes(inverse, -1, -2))
    return np.einsum("...ij,...j->...i", covariance, shift), covariance


def gaussian_log_norm(precision: np.ndarray, shift: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Log of the integral of exp(shift x - x' precision x / 2), whose mean is known."""
    square, log_det = (shift * mean).sum(axis=-1), np.linalg.slogdet(precision)[1]
    return np.asarray(0.5 * (square + shift.shape[-1] * LOG_2PI - log_det))


def gamma_log_norm(shape: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """Log of the integral of t^(shape - 1) exp(-rate t)."""
    return np.asarray(_log_gamma(np.asarray(shape)) - shape * np.log(rate))


def _log_gamma(x: np.ndarray) -> np.ndarray:
    """Log of the gamma function; few values do without SciPy, whose import takes longer than a small fit."""
    if 0 < x.size <= _FEW and x.min() > 0 and x.max() < _LARGE:
        return np.array([lgamma(v) for v in x.ravel().tolist()]).reshape(x.shape)
    from scipy.special import gammaln

    return np.asarray(gammaln(x))


def gamma_expected_log(shape: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """E[log t]; E[t] is shape / rate."""
    from scipy.special import psi

    return np.asarray(psi(shape) - np.log(rate))


def dirichlet_log_norm(concentration: np.ndarray) -> np.ndarray:
    """Log of the integral of prod_s theta_s^(a_s - 1), the multivariate beta function of the last axis."""
    from scipy.special import gammaln

    return np.asarray(gammaln(concentration).sum(axis=-1) - gammaln(concentration.sum(axis=-1)))


def dirichlet_expected_log(concentration: np.ndarray) -> np.ndarray:
    """E[log theta], coordinates on the last axis."""
    from scipy.special import psi

    return np.asarray(psi(concentration) - psi(concentration.sum(axis=-1, keepdims=True)))


def best_symmetric(expected_log: np.ndarray) -> float:
    """The concentration a of symmetric Dirichlet rows that maximises E[log p(rows | a)].

    Parameters
    ----------
    expected_log
        E[log theta], (rows, states); -inf for impossible states.
    """
    from scipy.optimize import minimize_scalar
    from scipy.special import gammaln

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


def match_dirichlet(expected_log: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Concentrations (..., width) whose E[log theta] is the given one, by Newton's method.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.families.natural import dirichlet_expected_log, match_dirichlet
    >>> match_dirichlet(dirichlet_expected_log(np.array([0.3, 2.0, 5.0])), np.ones(3)).round(6).tolist()
    [0.3, 2.0, 5.0]
    """
    from scipy.special import polygamma

    alpha = np.array(start, dtype=np.float64)
    for _ in range(_NEWTON):
        gradient = expected_log - dirichlet_expected_log(alpha)
        curvature = -polygamma(1, alpha)
        # The curvature is diagonal but for what the sum of the concentrations adds to every entry.
        common = (gradient / curvature).sum(axis=-1, keepdims=True) / (
            1 / polygamma(1, alpha.sum(axis=-1, keepdims=True)) + (1 / curvature).sum(axis=-1, keepdims=True)
        )
        step = (gradient - common) / curvature
        # A step that leaves the positive numbers goes half the way to zero instead.
        new = np.where(step < alpha, alpha - step, 0.5 * alpha)
        done = np.abs(new - alpha).max(initial=0.0) <= 1e-13 * np.abs(alpha).max(initial=1.0)
        alpha = new
        if done:
            break
    return alpha


def log_sum(logs: np.ndarray, axis: int | tuple[int, ...] = -1) -> np.ndarray:
    """Log of the sum of exponentials; -inf where all are."""
    _, total, top = _weights(logs, axis)
    with np.errstate(divide="ignore"):
        return np.asarray(np.squeeze(np.log(total) + top, axis=axis))


def normalised(logs: np.ndarray, axis: int = -1) -> tuple[np.ndarray, np.ndarray]:
    """Weights that sum to one, and the log of what they were divided by; zeros where all are.

    The sum is divided out as a number: large logarithms have too few digits for that.
    """
    weight, total, top = _weights(logs, axis)
    with np.errstate(divide="ignore"):
        log_total = np.squeeze(np.log(total) + top, axis=axis)
    return weight / np.maximum(total, 1.0), log_total


def _weights(logs: np.ndarray, axis: int | tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """exp(logs - top), its sum, which is 0 or from 1 upwards, and the largest logs, 0 where there is none."""
    top = np.max(logs, axis=axis, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0.0)
    weight = np.exp(logs - top)
    return weight, weight.sum(axis=axis, keepdims=True), top


class NaturalFamily(abc.ABC):
    """A family as functions of natural parameters on any leading axes; it holds no numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.families.natural import GAMMA
    >>> shape, rate = np.array([2.0, 3.0]), np.array([1.0, 4.0])
    >>> GAMMA.mean((shape - 1, -rate))[1]
    array([2.  , 0.75])
    """

    axes: ClassVar[tuple[int, ...]]  # how many of the last axes of each part belong to one member

    @abc.abstractmethod
    def log_normaliser(self, natural: Parts) -> np.ndarray:
        """A(eta), on the leading axes."""

    @abc.abstractmethod
    def mean(self, natural: Parts) -> Parts:
        """Expected statistics E[u], in parts as the natural parameters are."""

    def inner(self, natural: Parts, mean: Parts) -> np.ndarray:
        """Eta . mu, on the leading axes."""
        total: np.ndarray | float = 0.0
        for axes, first, second in zip(self.axes, natural, mean, strict=True):
            terms = first * second
            total = total + (terms.sum(axis=tuple(range(-axes, 0))) if axes else terms)
        return np.asarray(total)

    def entropy(self, natural: Parts) -> np.ndarray:
        """-E[log p], on the leading axes."""
        return self.log_normaliser(natural) - self.inner(natural, self.mean(natural))

    def symmetric_kl(self, natural: Parts, other: Parts) -> np.ndarray:
        """KL both ways, (eta' - eta) . (mu' - mu), on the leading axes: A falls out."""
        with np.errstate(invalid="ignore"):
            gaps = tuple(b - a for a, b in zip(natural, other, strict=True))
        moves = tuple(v - u for u, v in zip(self.mean(natural), self.mean(other), strict=True))
        return self.inner(gaps, moves)


class _NormalFamily(NaturalFamily):
    axes = (0, 0)

    def log_normaliser(self, natural: Parts) -> np.ndarray:
        return normal_log_norm(-2.0 * natural[1], natural[0])

    def mean(self, natural: Parts) -> Parts:
        mean, variance = normal_moments(-2.0 * natural[1], natural[0])
        return mean, mean**2 + variance


class _VectorFamily(NaturalFamily):
    axes = (1, 2)

    def log_normaliser(self, natural: Parts) -> np.ndarray:
        shift, precision = natural[0], -2.0 * natural[1]
        mean = np.linalg.solve(precision, shift[..., None])[..., 0]
        return gaussian_log_norm(precision, shift, mean)

    def mean(self, natural: Parts) -> Parts:
        mean, covariance = gaussian_moments(-2.0 * natural[1], natural[0])
        return mean, covariance + mean[..., :, None] * mean[..., None, :]


class _GammaFamily(NaturalFamily):
    axes = (0, 0)

    def log_normaliser(self, natural: Parts) -> np.ndarray:
        return gamma_log_norm(natural[0] + 1.0, -natural[1])

    def mean(self, natural: Parts) -> Parts:
        shape, rate = natural[0] + 1.0, -natural[1]
        return gamma_expected_log(shape, rate), shape / rate


class _SimplexFamily(NaturalFamily):
    axes = (1,)

    def log_normaliser(self, natural: Parts) -> np.ndarray:
        return dirichlet_log_norm(natural[0] + 1.0)

    def mean(self, natural: Parts) -> Parts:
        return (dirichlet_expected_log(natural[0] + 1.0),)


class _StatesFamily(NaturalFamily):
    axes = (1,)

    def log_normaliser(self, natural: Parts) -> np.ndarray:
        return log_sum(natural[0])

    def mean(self, natural: Parts) -> Parts:
        weight, total, _ = _weights(natural[0], -1)
        return (weight / np.maximum(total, 1.0),)

    def inner(self, natural: Parts, mean: Parts) -> np.ndarray:
        # An impossible state has eta = -inf and counts nothing.
        with np.errstate(invalid="ignore"):
            terms = natural[0] * mean[0]
        return np.asarray(np.where(mean[0] == 0, 0.0, terms).sum(axis=-1))


NORMAL: Final = _NormalFamily()
VECTOR: Final = _VectorFamily()
GAMMA: Final = _GammaFamily()
SIMPLEX: Final = _SimplexFamily()
STATES: Final = _StatesFamily()
