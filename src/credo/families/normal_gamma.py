r"""Normal-gamma distributions over mean and precision of independent coordinates.

    p(m, l) = prod_i N(m_i | c_i, 1 / (k_i l_i)) Gamma(l_i | a_i, b_i),     E[l_i] = a_i / b_i

with centre c, strength k, shape a and rate b, one of each per coordinate; conjugate to `DiagonalGaussian`.
In natural form, t = (log l, l, l m, l m^2) per coordinate,

    chi = ( a - 1/2,  -b - k c^2 / 2,  k c,  -k / 2 ),   posterior = chi + (N, -sum x^2, 2 sum x, -N) / 2

A strength of 0 is improper: it has modes and posteriors, but its evidence is -inf, and its density is known
up to a factor, which `log_density` takes to be the one of strength 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.errors import ModelError
from ..core.records import register
from ..kernels.gaussian_missing import seen_sums
from .base import ExpectedSums, member_weights, numbers
from .conjugate import Conjugate
from .gaussian_diagonal import DiagonalGaussian
from .gaussian_rows import first_seen
from .moments import RowMoments, column_moments, moments_of_sums
from .natural import LOG_2PI, gamma_expected_log, gamma_log_norm
from .number_rows import number_rows

__all__ = ["NormalGamma"]


@register("NormalGamma", fields=["centre", "strength", "shape", "rate"])
class NormalGamma(Conjugate):
    """Normal-gamma members; immutable.

    Parameters
    ----------
    centre, strength, shape, rate
        Shape (members, d) each.

    Examples
    --------
    >>> from credo.families.normal_gamma import NormalGamma
    >>> prior = NormalGamma([[0.0]], [[1.0]], [[1.0]], [[1.0]])
    >>> prior.posterior(prior.mean().collect([[1.0], [3.0]])).centre.round(4)
    array([[1.3333]])
    """

    def __init__(self, centre: Any, strength: Any, shape: Any, rate: Any) -> None:
        self._centre = numbers("centre", centre, 2)
        self._strength = numbers("strength", strength, 2)
        self._shape, self._rate = numbers("shape", shape, 2), numbers("rate", rate, 2)
        for name, array in (("strength", self._strength), ("shape", self._shape), ("rate", self._rate)):
            if array.shape != self._centre.shape:
                raise ModelError(f"{name}: expected shape {self._centre.shape}, got {array.shape}")
            if (array < 0).any() or (name != "strength" and (array == 0).any()):
                raise ModelError(f"{name}: expected positive numbers, got {array.min():g}")

    @property
    def centre(self) -> np.ndarray:
        """Where the means are expected, (members, d)."""
        return self._centre

    @property
    def strength(self) -> np.ndarray:
        """How many rows the centre is worth, (members, d)."""
        return self._strength

    @property
    def shape(self) -> np.ndarray:
        """Shape of the gamma density of each precision, (members, d)."""
        return self._shape

    @property
    def rate(self) -> np.ndarray:
        """Rate of the gamma density of each precision, (members, d)."""
        return self._rate

    @property
    def dimension(self) -> int:
        """How many coordinates a row has."""
        return self._centre.shape[1]

    def __len__(self) -> int:
        return len(self._centre)

    @property
    def natural(self) -> np.ndarray:
        """chi, (members, 4 d)."""
        k, c = self._strength, self._centre
        return np.concatenate([self._shape - 0.5, -self._rate - 0.5 * k * c**2, k * c, -0.5 * k], axis=1)

    @property
    def log_normaliser(self) -> np.ndarray:
        """B(chi), summed over the coordinates."""
        with np.errstate(divide="ignore"):
            gauss = 0.5 * (LOG_2PI - np.log(self._strength))
        return (gauss + gamma_log_norm(self._shape, self._rate)).sum(axis=1)

    @property
    def expected_log_precision(self) -> np.ndarray:
        """E[log l], (members, d)."""
        return gamma_expected_log(self._shape, self._rate)

    @property
    def expected_precision(self) -> np.ndarray:
        """E[l], (members, d)."""
        return self._shape / self._rate

    @property
    def mean_parameters(self) -> np.ndarray:
        """E[(log l, l, l m, l m^2)], (members, 4 d)."""
        precision, c = self.expected_precision, self._centre
        last = precision * c**2 + 1.0 / self._strength
        return np.concatenate([self.expected_log_precision, precision, precision * c, last], axis=1)

    @classmethod
    def from_natural(cls, natural: Any) -> NormalGamma:
        """Members with these natural parameters."""
        first, second, third, last = np.split(numbers("natural", natural, 2), 4, axis=1)
        strength = -2.0 * last
        centre = third / strength
        return cls(centre, strength, first + 0.5, -second - 0.5 * strength * centre**2)

    def posterior(self, statistics: RowMoments) -> NormalGamma:
        """Given statistics that a `DiagonalGaussian` collected, or those of `expect`."""
        shape = (-1, self.dimension)
        mean, scatter = statistics.mean.reshape(shape), statistics.scatter.reshape(shape)
        prior = self.repeat(len(mean))
        count = statistics.count.reshape(len(mean), -1)
        strength = prior._strength + count
        share = count / np.where(strength > 0, strength, 1.0)
        gap = mean - prior._centre
        around = scatter + prior._strength * share * gap**2
        centre = prior._centre + share * gap
        return NormalGamma(centre, strength, prior._shape + 0.5 * count, prior._rate + 0.5 * around)

    def log_density(self, members: Any) -> np.ndarray:
        """Log density of means and precisions of diagonal members, (members,); see the module."""
        prior = self.repeat(len(members))
        precision = 1.0 / members.variances
        gap = prior._strength * (members.mean - prior._centre) ** 2
        terms = (prior._shape - 0.5) * np.log(precision) - precision * (prior._rate + 0.5 * gap)
        known = np.where(prior._strength > 0, prior._strength, 1.0)
        gauss = 0.5 * (LOG_2PI - np.log(known))
        return terms.sum(axis=1) - (gauss + gamma_log_norm(prior._shape, prior._rate)).sum(axis=1)

    def expected_log_density(self, x: Any) -> np.ndarray:
        """E[log N(x | m, 1/l)], (rows, members); missing coordinates add nothing."""
        found = number_rows(x, self.dimension)
        constants = 0.5 * (self.expected_log_precision - LOG_2PI - 1.0 / self._strength)
        out = np.empty((len(found), len(self)))
        for k in range(len(self)):
            gap = self.expected_precision[k] * (found - self._centre[k]) ** 2
            out[:, k] = np.nansum(constants[k] - 0.5 * gap, axis=1)
        return out

    def expect(self, x: Any, weights: Any = None) -> ExpectedSums:
        """Moments of every coordinate by itself: one that a row does not observe tells nothing.

        They are those of members times coordinates members of one coordinate each.
        """
        found = number_rows(x, self.dimension)
        given = member_weights(weights, len(found), len(self))
        share = np.ones((len(found), len(self))) if given is None else given
        seen = ~np.isnan(found)
        if seen.all():
            sums = self.mean().collect(found, share)
            count = np.repeat(sums.count, self.dimension)
            alone = RowMoments(count, sums.mean.reshape(-1, 1), sums.scatter.reshape(-1, 1), "diagonal")
            return ExpectedSums(sums.count, None, alone)
        origin = first_seen(found)
        count, *total = seen_sums(found, share, origin).reshape(3, -1)

        def again(k: int, _: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            member, i = divmod(k, self.dimension)
            return column_moments(found[seen[:, i]][:, [i]], share[seen[:, i], member], "diagonal")

        where = np.tile(origin, len(self))[:, None]
        alone = moments_of_sums(count, where, np.stack(total, axis=1), "diagonal", again)
        return ExpectedSums(share[seen.any(axis=1)].sum(axis=0), None, alone)

    def match(self, members: NormalGamma) -> NormalGamma:
        """Another centre and rate; the strength and shape of the first member stay."""
        precision, total = members.expected_precision, members.expected_precision.sum(axis=0)
        first = members.centre[0]
        centre = first + (precision * (members.centre - first)).sum(axis=0) / total
        shape = self._shape[:1]
        return NormalGamma([centre], self._strength[:1], shape, len(members) * shape / total)

    def predictive(self, x: Any) -> np.ndarray:
        """Products of Student-t log densities with 2 a degrees, (rows, members)."""
        from scipy.special import gammaln

        found = number_rows(x, self.dimension)
        a, k = self._shape, self._strength
        scale = a * k / (self._rate * (k + 1))
        constants = gammaln(a + 0.5) - gammaln(a) + 0.5 * (np.log(scale) - np.log(2 * np.pi * a))
        out = np.empty((len(found), len(self)))
        for j in range(len(self)):
            square = scale[j] * (found - self._centre[j]) ** 2 / (2 * a[j])
            out[:, j] = np.nansum(constants[j] - (a[j] + 0.5) * np.log1p(square), axis=1)
        return out

    def mean(self) -> DiagonalGaussian:
        """Expected means and the inverses of the expected precisions."""
        return DiagonalGaussian(self._centre, self._rate / self._shape)

    @property
    def has_mode(self) -> np.ndarray:
        """Whether the density of a member has a maximum, (members,)."""
        return np.asarray((self._shape > 0.5).all(axis=1))

    def mode(self) -> DiagonalGaussian:
        """The most probable mean and precision together; needs shape > 1/2."""
        if not self.has_mode.all():
            raise ModelError(
                f"mode: expected shapes above 0.5, got {self._shape.min():g}: the density has no maximum; "
                "raise the shape"
            )
        return DiagonalGaussian(self._centre, 2.0 * self._rate / (2.0 * self._shape - 1.0))

    def sample(self, rng: np.random.Generator) -> DiagonalGaussian:
        """Random means and variances."""
        precision = rng.gamma(self._shape, 1.0 / self._rate)
        means = self._centre + rng.standard_normal(precision.shape) / np.sqrt(self._strength * precision)
        return DiagonalGaussian(means, 1.0 / precision)

    def take(self, members: Any) -> NormalGamma:
        """Some of the members."""
        parts = (self._centre, self._strength, self._shape, self._rate)
        return NormalGamma(*(part[members] for part in parts))

    def entropy(self) -> np.ndarray:
        """-E[log p(m, l)], which does not depend on the centre, (members,)."""
        moved = NormalGamma(np.zeros_like(self._centre), self._strength, self._shape, self._rate)
        return super(NormalGamma, moved).entropy()

    def kl(self, other: NormalGamma) -> np.ndarray:
        """KL divergence of every member to the one of `other` at the same place."""
        from scipy.special import gammaln, psi

        other = other.repeat(len(self))
        a, b, precision = self._shape, self._rate, self.expected_precision
        ratio = other._strength / self._strength
        gap = other._strength * precision * (self._centre - other._centre) ** 2
        gamma = (a - other._shape) * psi(a) - gammaln(a) + gammaln(other._shape)
        gamma += other._shape * np.log(b / other._rate) + precision * (other._rate - b)
        return (0.5 * (ratio - 1.0 - np.log(ratio) + gap) + gamma).sum(axis=1)

    def __repr__(self) -> str:
        return f"NormalGamma({len(self)} members, dimension {self.dimension})"
