r"""Gaussian-Wishart distributions over mean and precision, conjugate to Gaussian rows.

    p(m, L) = N(m | c, (k L)^-1) Wishart(L | n, S^-1),     E[L] = n S^-1

with centre c, strength k, freedom n > d - 1 and scatter S. In natural form, t = (log |L|, L, L m, m^T L m),

    chi = ( (n - d) / 2,  -(S + k c c^T) / 2,  k c,  -k / 2 ),
    posterior = chi + (N, -sum x x^T, 2 sum x, -N) / 2

Missing coordinates of a row are hidden variables, and the integral over them is a Gaussian one,

    log int exp E[log N(x | m, L^-1)] dx_missing
        = log N(x_seen | c, E[L]^-1) + (E log |L| - log |E L| - d / k) / 2,

so that the member with mean c and precision E[L] supplies the E-step of variational Bayes, and its
conditional Gaussian the expected statistics.

A strength of 0 is improper: it has modes and posteriors, but its evidence is -inf, and its density is known
up to a factor, which `log_density` takes to be the one of strength 1. Means of a tied covariance then have a
density that is constant whatever the covariance.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ..core.errors import DataError, ModelError
from ..core.records import register
from ..kernels.gaussian_density import dense_densities
from .base import numbers
from .conjugate import Conjugate
from .gaussian import Gaussian, TiedGaussian
from .gaussian_rows import cholesky
from .moments import RowMoments
from .natural import LOG_2PI
from .number_rows import number_rows

__all__ = ["GaussianWishart"]


@register("GaussianWishart", fields=["centre", "strength", "freedom", "scatter"])
class GaussianWishart(Conjugate):
    """Gaussian-Wishart members; immutable.

    Parameters
    ----------
    centre
        Expected means, (members, d).
    strength
        How many rows the centre counts for, (members,).
    freedom
        Degrees of freedom of the Wishart, above d - 1, (members,).
    scatter
        Inverse scale matrix, (members, d, d): the covariance is expected near scatter / freedom.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.families.gaussian_wishart import GaussianWishart
    >>> prior = GaussianWishart([[0.0, 0.0]], [1.0], [4.0], [np.eye(2)])
    >>> member = prior.mean()
    >>> after = prior.posterior(member.collect([[1.0, 2.0], [3.0, 4.0]]))
    >>> after.centre.round(4), after.freedom
    (array([[1.3333, 2.    ]]), array([6.]))
    """

    def __init__(self, centre: Any, strength: Any, freedom: Any, scatter: Any) -> None:
        self._centre = numbers("centre", centre, 2)
        self._strength = numbers("strength", strength, 1)
        self._freedom = numbers("freedom", freedom, 1)
        self._scatter = numbers("scatter", scatter, 3)
        members, d = self._centre.shape
        for name, array, shape in (
            ("strength", self._strength, (members,)),
            ("freedom", self._freedom, (members,)),
            ("scatter", self._scatter, (members, d, d)),
        ):
            if array.shape != shape:
                raise ModelError(f"{name}: expected shape {shape}, got {array.shape}")
        if (self._strength < 0).any():
            raise ModelError(f"strength: expected numbers from 0 upwards, got {self._strength.min():g}")
        if (self._freedom <= d - 1).any():
            raise ModelError(f"freedom: expected numbers above {d - 1}, got {self._freedom.min():g}")
        _ = self._roots

    @cached_property
    def _roots(self) -> np.ndarray:
        """R with R^T R = S^-1, lower triangular."""
        return np.linalg.inv(cholesky("scatter", self._scatter))

    @cached_property
    def _log_scale(self) -> np.ndarray:
        """Log |S^-1|."""
        return 2.0 * np.log(np.einsum("kii->ki", self._roots)).sum(axis=1)

    @property
    def centre(self) -> np.ndarray:
        """Where the means are expected, (members, d)."""
        return self._centre

    @property
    def strength(self) -> np.ndarray:
        """How many rows the centre is worth, (members,)."""
        return self._strength

    @property
    def freedom(self) -> np.ndarray:
        """Degrees of freedom of the precisions, (members,)."""
        return self._freedom

    @property
    def scatter(self) -> np.ndarray:
        """S^-1, the scatter that the precisions are worth, (members, d, d)."""
        return self._scatter

    @property
    def dimension(self) -> int:
        """How many coordinates a row has."""
        return self._centre.shape[1]

    def __len__(self) -> int:
        return len(self._centre)

    @property
    def natural(self) -> np.ndarray:
        """chi, (members, 1 + d^2 + d + 1)."""
        centred = self._strength[:, None] * self._centre
        second = self._scatter + centred[:, :, None] * self._centre[:, None, :]
        first = (self._freedom - self.dimension)[:, None] / 2
        last = -self._strength[:, None] / 2
        return np.concatenate([first, -0.5 * second.reshape(len(self), -1), centred, last], axis=1)

    @property
    def _mean_normaliser(self) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return 0.5 * self.dimension * (LOG_2PI - np.log(self._strength))

    @property
    def _precision_normaliser(self) -> np.ndarray:
        from scipy.special import multigammaln

        d, n = self.dimension, self._freedom
        gammas = np.array([multigammaln(0.5 * value, d) for value in n])
        return 0.5 * n * (self._log_scale + d * np.log(2.0)) + gammas

    @property
    def log_normaliser(self) -> np.ndarray:
        """B(chi) of mean and precision together, (members,)."""
        return self._mean_normaliser + self._precision_normaliser

    @property
    def expected_log_det(self) -> np.ndarray:
        """E[log |L|], (members,)."""
        from scipy.special import psi

        d = self.dimension
        steps = psi(0.5 * (self._freedom[:, None] - np.arange(d))).sum(axis=1)
        return steps + d * np.log(2.0) + self._log_scale

    @property
    def expected_precision(self) -> np.ndarray:
        """E[L] = n S^-1, (members, d, d)."""
        return self._freedom[:, None, None] * np.swapaxes(self._roots, 1, 2) @ self._roots

    @property
    def mean_parameters(self) -> np.ndarray:
        """E[(log |L|, L, L m, m^T L m)]."""
        precision = self.expected_precision
        first = np.einsum("kij,kj->ki", precision, self._centre)
        square = np.einsum("ki,ki->k", first, self._centre) + self.dimension / self._strength
        parts = [self.expected_log_det[:, None], precision.reshape(len(self), -1), first, square[:, None]]
        return np.concatenate(parts, axis=1)

    @classmethod
    def from_natural(cls, natural: Any) -> GaussianWishart:
        """Members with these natural parameters."""
        chi = numbers("natural", natural, 2)
        d = round((np.sqrt(4 * chi.shape[1] - 7) - 1) / 2)
        strength = -2.0 * chi[:, -1]
        centre = chi[:, -1 - d : -1] / strength[:, None]
        second = -2.0 * chi[:, 1 : 1 + d * d].reshape(-1, d, d)
        scatter = second - strength[:, None, None] * centre[:, :, None] * centre[:, None, :]
        return cls(centre, strength, 2.0 * chi[:, 0] + d, scatter)

    def posterior(self, statistics: RowMoments) -> GaussianWishart:
        """Given statistics that a `Gaussian` or a `TiedGaussian` collected."""
        prior = self.repeat(len(statistics.count))
        count = statistics.count
        strength = prior._strength + count
        share = count / np.where(strength > 0, strength, 1.0)
        gap = statistics.mean - prior._centre
        between = (prior._strength * share)[:, None, None] * gap[:, :, None] * gap[:, None, :]
        scatter = prior._scatter + statistics.scatter.reshape(between.shape) + between
        centre = prior._centre + share[:, None] * gap
        return GaussianWishart(centre, strength, prior._freedom + count, scatter)

    def log_density(self, members: Any) -> np.ndarray:
        """Log density of means and precisions of Gaussian members, (members,).

        Tied members have one precision: under a prior with one member its density counts once, in equal
        shares.
        """
        prior = self.repeat(len(members))
        precisions = np.linalg.inv(members.covariances)
        log_det = np.linalg.slogdet(precisions)[1]
        gap = members.mean - prior._centre
        square = np.einsum("ki,kij,kj->k", gap, precisions, gap)
        trace = np.einsum("kij,kij->k", prior._scatter, precisions)
        is_tied = isinstance(members, TiedGaussian)
        flat = prior._strength == 0
        known = np.where(flat, 1.0, prior._strength)
        gauss = 0.5 * (np.where(flat & is_tied, 0.0, log_det) - prior._strength * square)
        gauss -= 0.5 * self.dimension * (LOG_2PI - np.log(known))
        wishart = 0.5 * ((prior._freedom - self.dimension - 1) * log_det - trace)
        wishart = wishart - prior._precision_normaliser
        share = len(members) if is_tied and len(self) == 1 else 1
        return gauss + wishart / share

    def expected_log_density(self, x: Any) -> np.ndarray:
        """E[log N(x | m, L^-1)], (rows, members); 0 for rows that observe nothing.

        Missing coordinates are summed out of exp of it, see the module.
        """
        found, d = number_rows(x, self.dimension), self.dimension
        if not np.isnan(found).any():
            constants = 0.5 * (self.expected_log_det - d * LOG_2PI - d / self._strength)
            return self._densities(found, np.sqrt(self._freedom), constants)
        log_det = d * np.log(self._freedom) + self._log_scale
        out = self.mean().log_density(found) + 0.5 * (self.expected_log_det - log_det - d / self._strength)
        out[np.isnan(found).all(axis=1)] = 0.0
        return out

    def match(self, members: GaussianWishart) -> GaussianWishart:
        """Another centre and scatter; the strength and freedom of the first member stay."""
        precision, first = members.expected_precision, members.centre[0]
        total = precision.sum(axis=0)
        pull = np.einsum("kij,kj->i", precision, members.centre - first)
        scatter = len(members) * self._freedom[0] * np.linalg.inv(total)
        return GaussianWishart(
            [first + np.linalg.solve(total, pull)], self._strength[:1], self._freedom[:1],
            [0.5 * (scatter + scatter.T)],
        )  # fmt: skip

    def _densities(self, x: Any, stretch: np.ndarray, constants: np.ndarray) -> np.ndarray:
        found = number_rows(x, self.dimension)
        blind = np.isnan(found)
        hidden = blind.all(axis=1)
        if (blind.any(axis=1) & ~hidden).any():
            raise DataError(
                "data: single missing coordinates have no predictive density under a full covariance; "
                "mean().log_density(x) is the density at expected parameters, or fill them in"
            )
        filled = np.where(hidden[:, None], 0.0, found)
        out = dense_densities(filled, self._centre, stretch[:, None, None] * self._roots, constants)
        out[hidden] = 0.0
        return out

    def predictive(self, x: Any) -> np.ndarray:
        """Student-t log densities with freedom - d + 1 degrees, (rows, members)."""
        from scipy.special import gammaln

        d = self.dimension
        degrees = self._freedom - d + 1
        scale = degrees * self._strength / (self._strength + 1)
        log_det = self._log_scale + d * np.log(scale)
        constants = gammaln(0.5 * (degrees + d)) - gammaln(0.5 * degrees)
        constants = constants - 0.5 * d * np.log(degrees * np.pi) + 0.5 * log_det
        square = -2.0 * self._densities(x, np.sqrt(scale), np.zeros(len(self)))
        out = constants - 0.5 * (degrees + d) * np.log1p(square / degrees)
        out[np.isnan(number_rows(x, d)).all(axis=1)] = 0.0
        return out

    def mean(self) -> Gaussian:
        """Expected means and the inverses of the expected precisions."""
        return Gaussian(self._centre, self._scatter / self._freedom[:, None, None])

    @property
    def has_mode(self) -> np.ndarray:
        """Whether the density of a member has a maximum, (members,)."""
        return self._freedom > self.dimension

    def mode(self) -> Gaussian:
        """The most probable mean and precision together; needs freedom > d."""
        weight = self._freedom - self.dimension
        if not self.has_mode.all():
            raise ModelError(
                f"mode: expected freedom above {self.dimension}, got {self._freedom.min():g}: "
                "the density has no maximum; raise the freedom"
            )
        return Gaussian(self._centre, self._scatter / weight[:, None, None])

    def sample(self, rng: np.random.Generator) -> Gaussian:
        """Random means and covariances."""
        from scipy.stats import wishart

        d = self.dimension
        means, covariances = np.empty((len(self), d)), np.empty((len(self), d, d))
        scales = np.swapaxes(self._roots, 1, 2) @ self._roots
        for k in range(len(self)):
            drawn = wishart.rvs(self._freedom[k], scales[k], random_state=rng)
            covariances[k] = np.linalg.inv(np.reshape(drawn, (d, d)))
            means[k] = rng.multivariate_normal(self._centre[k], covariances[k] / self._strength[k])
        return Gaussian(means, 0.5 * (covariances + np.swapaxes(covariances, 1, 2)))

    def take(self, members: Any) -> GaussianWishart:
        """Some of the members."""
        parts = (self._centre, self._strength, self._freedom, self._scatter)
        return GaussianWishart(*(part[members] for part in parts))

    def entropy(self) -> np.ndarray:
        """-E[log p(m, L)], which does not depend on the centre, (members,)."""
        moved = GaussianWishart(np.zeros_like(self._centre), self._strength, self._freedom, self._scatter)
        return super(GaussianWishart, moved).entropy()

    def kl(self, other: GaussianWishart) -> np.ndarray:
        """KL divergence of every member to the one of `other` at the same place."""
        from scipy.special import multigammaln, psi

        other = other.repeat(len(self))
        d, n = self.dimension, self._freedom
        ratio = other._strength / self._strength
        lines = np.einsum("kij,kj->ki", self._roots, self._centre - other._centre)
        gauss = d * (ratio - 1.0 - np.log(ratio)) + other._strength * n * (lines**2).sum(axis=1)
        trace = np.einsum("kij,kij->k", other._scatter, self.expected_precision)
        steps = psi(0.5 * (n[:, None] - np.arange(d))).sum(axis=1)
        gammas = np.array(
            [
                multigammaln(0.5 * b, d) - multigammaln(0.5 * a, d)
                for a, b in zip(n, other._freedom, strict=True)
            ]
        )
        wish = 0.5 * (n - other._freedom) * steps + gammas
        wish += 0.5 * other._freedom * (other._log_scale - self._log_scale)
        return 0.5 * gauss + wish + 0.5 * (trace - n * d)

    def __repr__(self) -> str:
        return f"GaussianWishart({len(self)} members, dimension {self.dimension})"
