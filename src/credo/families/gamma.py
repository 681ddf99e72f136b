r"""Poisson counts and their conjugate gamma distributions.

    Poisson:  T(x) = x,  eta = log r,  A = exp eta,  h = 1 / x!
    Gamma:    p(r) = exp( (a - 1) log r - b r - log Gamma(a) + a log b ),  posterior (a + sum x, b + N)

A missing count is NaN or -1. A gamma member is also what variational Bayes puts on a single precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.errors import DataError, ModelError
from ..core.numbers import float_array
from ..core.records import register
from .base import ClosedLeaf, Statistics, member_weights, numbers
from .conjugate import Conjugate
from .natural import gamma_expected_log, gamma_log_norm

__all__ = ["Gamma", "Poisson"]

_LEAST = 1e-300  # what the rate of a member that saw only zeros is raised to: log 0 is no parameter


@register("Poisson", fields=["rate"])
class Poisson(ClosedLeaf):
    """Poisson members; immutable.

    Parameters
    ----------
    rate
        Expected counts, positive, (members,).

    Examples
    --------
    >>> from credo.families.gamma import Poisson
    >>> p = Poisson([1.0, 2.0])
    >>> p.update(None, p.collect([0, 1, 5])).rate
    array([2., 2.])
    """

    def __init__(self, rate: Any) -> None:
        self._rate = numbers("rate", rate, 1)
        if (self._rate <= 0).any():
            raise ModelError(f"rate: expected positive numbers, got {self._rate.min():g}")

    @property
    def rate(self) -> np.ndarray:
        """Expected count of each member, (members,), read-only."""
        return self._rate

    @property
    def means(self) -> np.ndarray:
        """The rates."""
        return self._rate

    def __len__(self) -> int:
        return len(self._rate)

    def movement(self, new: Poisson) -> float:
        """The largest change of a rate, in standard deviations."""
        return float((np.abs(new._rate - self._rate) / np.sqrt(self._rate)).max(initial=0.0))

    @property
    def n_parameters(self) -> int:
        """One per member."""
        return len(self)

    @property
    def natural(self) -> np.ndarray:
        """Log rate, (members, 1)."""
        return np.log(self._rate)[:, None]

    @property
    def log_normaliser(self) -> np.ndarray:
        """A(eta) = exp(eta), the rate, (members,)."""
        return self._rate

    @property
    def mean_parameters(self) -> np.ndarray:
        """The rate, (members, 1)."""
        return self._rate[:, None]

    @classmethod
    def from_natural(cls, natural: Any) -> Poisson:
        """Members with these log rates, (members, 1)."""
        return cls(np.exp(numbers("natural", natural, 2))[:, 0])

    @classmethod
    def from_mean(cls, mean: Any) -> Poisson:
        """Members with these expected counts, (members, 1)."""
        return cls(numbers("mean", mean, 2)[:, 0])

    def rows(self, x: Any) -> np.ndarray:
        """Counts (rows,) as floats; a column (rows, 1) is accepted, NaN and -1 are missing."""
        return _counts(x)

    def missing(self, x: np.ndarray) -> np.ndarray:
        """Rows of NaN."""
        return np.isnan(x)

    def hide(self, x: np.ndarray, hidden: np.ndarray) -> np.ndarray:
        """A copy with NaN in the marked rows."""
        return np.where(hidden, np.nan, x)

    def sufficient(self, x: np.ndarray) -> np.ndarray:
        """The counts."""
        return x[:, None]

    def log_base(self, x: np.ndarray) -> np.ndarray:
        """-log x!."""
        from scipy.special import gammaln

        return -gammaln(x + 1.0)

    def leaves(self, x: Any) -> np.ndarray:
        """Log probability of the counts, (rows, members)."""
        from scipy.special import gammaln

        found = self.rows(x)
        out = found[:, None] * np.log(self._rate) - self._rate - gammaln(found + 1.0)[:, None]
        out[np.isnan(found)] = 0.0
        return out

    def sample(self, members: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One count from each of the given members."""
        return rng.poisson(self._rate[members]).astype(np.float64)

    def collect(self, x: Any, q: np.ndarray | None = None) -> Statistics:
        """Weighted sums of the counts; missing rows do not count."""
        found = self.rows(x)
        weights = member_weights(q, len(found), len(self))
        seen = ~np.isnan(found)
        return self._summed(found[seen], None if weights is None else weights[seen])

    def update(self, counts: None, sums: Statistics, prior: Any = None, *, floor: float = 0.0) -> Poisson:
        """Mean counts, or the mode of the gamma posterior; `floor` is not used here."""
        count, total = sums.count, sums.total[:, 0]
        if prior is not None:
            own = prior.repeat(len(self))
            count, total = count + own.rate, total + own.shape - 1.0
        seen = count > 0
        rate = np.where(seen, np.maximum(total, 0.0) / np.where(seen, count, 1.0), self._rate)
        return Poisson(np.maximum(rate, _LEAST))

    def entropy(self) -> np.ndarray:
        """-E[log p(x)], summed over all counts that matter."""
        top = int(self._rate.max() + 40.0 * np.sqrt(self._rate.max()) + 60.0)
        logs = self.log_density(np.arange(top))
        return -(np.exp(logs) * logs).sum(axis=0)

    def take(self, members: Any) -> Poisson:
        """Some of the members."""
        return Poisson(self._rate[members])

    def initialise(self, x: np.ndarray, rng: np.random.Generator) -> Poisson:
        """The mean count times random numbers around 1."""
        mean = np.nanmean(x) if (~np.isnan(x)).any() else 1.0
        return Poisson(max(float(mean), 1e-3) * rng.gamma(2.0, 0.5, size=len(self)) + 1e-3)

    def __repr__(self) -> str:
        return f"Poisson({len(self)} members)"


@register("Gamma", fields=["shape", "rate"])
class Gamma(Conjugate):
    """Gamma members over the rates of Poisson members; immutable.

    Parameters
    ----------
    shape, rate
        Positive, (members,).
    """

    def __init__(self, shape: Any, rate: Any) -> None:
        self._shape, self._rate = numbers("shape", shape, 1), numbers("rate", rate, 1)
        if self._shape.shape != self._rate.shape:
            raise ModelError(f"rate: expected shape {self._shape.shape}, got {self._rate.shape}")
        if (self._shape <= 0).any() or (self._rate <= 0).any():
            raise ModelError("gamma: expected positive shapes and rates, got a number that is not")

    @property
    def shape(self) -> np.ndarray:
        """Shape a of each member, (members,)."""
        return self._shape

    @property
    def rate(self) -> np.ndarray:
        """Rate b of each member, (members,); the mean is a / b."""
        return self._rate

    def __len__(self) -> int:
        return len(self._shape)

    @property
    def natural(self) -> np.ndarray:
        """(a - 1, -b), (members, 2)."""
        return np.stack([self._shape - 1.0, -self._rate], axis=1)

    @property
    def log_normaliser(self) -> np.ndarray:
        """Log Gamma(a) - a log b."""
        return gamma_log_norm(self._shape, self._rate)

    @property
    def mean_parameters(self) -> np.ndarray:
        """(E[log r], E[r]), (members, 2)."""
        return np.stack([gamma_expected_log(self._shape, self._rate), self._shape / self._rate], axis=1)

    @classmethod
    def from_natural(cls, natural: Any) -> Gamma:
        """Members with these natural parameters, (members, 2)."""
        chi = numbers("natural", natural, 2)
        return cls(chi[:, 0] + 1.0, -chi[:, 1])

    def posterior(self, statistics: Statistics) -> Gamma:
        """Given statistics that Poisson members collected."""
        prior = self.repeat(len(statistics.count))
        return Gamma(prior._shape + statistics.total[:, 0], prior._rate + statistics.count)

    def log_density(self, members: Any) -> np.ndarray:
        """Log density of the rates of Poisson members, or of numbers (members,)."""
        rates = members.rate if isinstance(members, Poisson) else float_array("rates", members)
        prior = self.repeat(len(rates))
        return (prior._shape - 1.0) * np.log(rates) - prior._rate * rates - prior.log_normaliser

    def expected_log_density(self, x: Any) -> np.ndarray:
        """E[log Poisson(x | r)], (rows, members); 0 where missing."""
        from scipy.special import gammaln

        found = _counts(x)
        log_rate, rate = self.mean_parameters.T
        out = found[:, None] * log_rate - rate - gammaln(found + 1.0)[:, None]
        out[np.isnan(found)] = 0.0
        return out

    def predictive(self, x: Any) -> np.ndarray:
        """Negative binomial log probabilities, (rows, members); 0 where missing."""
        from scipy.special import gammaln

        found = _counts(x)[:, None]
        a, b = self._shape, self._rate
        out = gammaln(a + found) - gammaln(a) - gammaln(found + 1.0)
        out = out + a * np.log(b / (b + 1.0)) - found * np.log1p(b)
        return np.where(np.isnan(found), 0.0, out)

    def match(self, members: Gamma) -> Gamma:
        """Another rate; the shape of the first member stays."""
        shape = self._shape[:1]
        return Gamma(shape, len(members) * shape / (members.shape / members.rate).sum())

    def mean(self) -> Poisson:
        """Expected rates."""
        return Poisson(self._shape / self._rate)

    def mode(self) -> Poisson:
        """Most probable rates; needs shape > 1."""
        if (self._shape <= 1).any():
            raise ModelError(
                f"mode: expected shapes above 1, got {self._shape.min():g}: the density has no maximum "
                "at a positive rate; raise the shape"
            )
        return Poisson((self._shape - 1.0) / self._rate)

    def sample(self, rng: np.random.Generator) -> Poisson:
        """Random rates."""
        return Poisson(np.maximum(rng.gamma(self._shape, 1.0 / self._rate), _LEAST))

    def take(self, members: Any) -> Gamma:
        """Some of the members."""
        return Gamma(self._shape[members], self._rate[members])

    def __repr__(self) -> str:
        return f"Gamma({len(self)} members)"


def _counts(x: Any) -> np.ndarray:
    found = float_array("data", x, error=DataError, expected="counts", missing=True)
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.ndim != 1:
        raise DataError(f"data: expected counts of shape (rows,), got shape {found.shape}")
    found = np.where(found == -1.0, np.nan, found)
    bad = ~np.isnan(found) & ((found < 0) | (found != np.floor(found)))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise DataError(f"data: row {row} has {found[row]:g}, expected a count, or NaN for missing")
    return found
