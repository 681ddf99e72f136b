r"""Dirichlet distributions over probabilities, conjugate to categorical observations.

    p(pi) = exp( sum_s (a_s - 1) log pi_s - B(a) ),   B(a) = sum_s log Gamma(a_s) - log Gamma(sum_s a_s)
    E[log pi_s] = digamma(a_s) - digamma(sum a),      posterior a + counts

exp E[log pi] sums to less than one; variational Bayes uses it as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.errors import ModelError
from ..core.numbers import float_array
from ..core.records import register
from .base import Statistics, numbers
from .categorical import Categorical
from .conjugate import Conjugate
from .natural import best_symmetric, dirichlet_expected_log, dirichlet_log_norm

__all__ = ["Dirichlet"]


@register("Dirichlet", fields=["concentration"])
class Dirichlet(Conjugate):
    """Dirichlet members, each over the probabilities of one categorical; immutable.

    Parameters
    ----------
    concentration
        Positive numbers, shape (members, states).

    Examples
    --------
    >>> import numpy as np
    >>> from credo.families.dirichlet import Dirichlet
    >>> from credo.families.categorical import Categorical
    >>> prior = Dirichlet([[1.0, 1.0]])
    >>> seen = Categorical([[0.5, 0.5]]).collect([0, 0, 1])
    >>> prior.posterior(seen).mean().probabilities
    array([[0.6, 0.4]])
    >>> float(np.exp(prior.log_evidence(seen)[0]).round(6))  # 2! 1! / 4!
    0.083333
    """

    def __init__(self, concentration: Any) -> None:
        self._a = numbers("concentration", concentration, 2)
        if (self._a <= 0).any():
            raise ModelError(f"concentration: expected positive numbers, got {self._a.min():g}")

    @property
    def concentration(self) -> np.ndarray:
        """(members, states), read-only."""
        return self._a

    def __len__(self) -> int:
        return len(self._a)

    @property
    def natural(self) -> np.ndarray:
        """Concentration - 1."""
        return self._a - 1.0

    @property
    def log_normaliser(self) -> np.ndarray:
        """Log of the multivariate beta function."""
        return dirichlet_log_norm(self._a)

    @property
    def mean_parameters(self) -> np.ndarray:
        """E[log pi], (members, states)."""
        return dirichlet_expected_log(self._a)

    @property
    def expected_log(self) -> np.ndarray:
        """E[log pi], by the name it has in variational Bayes."""
        return self.mean_parameters

    @classmethod
    def from_natural(cls, natural: Any) -> Dirichlet:
        """Members with concentration natural + 1."""
        return cls(float_array("natural", natural) + 1.0)

    def posterior(self, statistics: Statistics) -> Dirichlet:
        """Counts are added."""
        return Dirichlet(self.repeat(len(statistics.count))._a + statistics.total)

    def log_density(self, members: Categorical) -> np.ndarray:
        """Log density of probabilities; -inf or inf at the border where it is so."""
        prior = self.repeat(len(members))
        with np.errstate(invalid="ignore"):
            terms = np.where(prior.natural == 0, 0.0, prior.natural * members.natural)
        return terms.sum(axis=1) - prior.log_normaliser

    def expected_log_density(self, x: Any) -> np.ndarray:
        """E[log pi_x], (rows, members); 0 where x is missing."""
        return self._look_up(x, self.mean_parameters)

    def predictive(self, x: Any) -> np.ndarray:
        """Log E[pi_x], (rows, members)."""
        return self._look_up(x, np.log(self._a) - np.log(self._a.sum(axis=1, keepdims=True)))

    def _look_up(self, x: Any, values: np.ndarray) -> np.ndarray:
        table = np.zeros((values.shape[1] + 1, len(self)))
        table[:-1] = values.T
        return table[self.mean().rows(x)]

    def match(self, members: Dirichlet) -> Dirichlet:
        """A symmetric one."""
        best = best_symmetric(members.mean_parameters)
        return Dirichlet(np.full((1, self._a.shape[1]), best))

    def mean(self) -> Categorical:
        """Normalised concentrations."""
        return Categorical(self._a / self._a.sum(axis=1, keepdims=True))

    def mode(self) -> Categorical:
        """Normalised concentration - 1, where that is positive; the mean of a row that has none."""
        rest = np.maximum(self._a - 1.0, 0.0)
        sums = rest.sum(axis=1, keepdims=True)
        mean = self._a / self._a.sum(axis=1, keepdims=True)
        return Categorical(np.where(sums > 0, rest / np.where(sums > 0, sums, 1.0), mean))

    def sample(self, rng: np.random.Generator) -> Categorical:
        """Random probabilities."""
        draws = np.array([rng.dirichlet(row) for row in self._a])
        return Categorical(draws)

    def take(self, members: Any) -> Dirichlet:
        """Some of the members."""
        return Dirichlet(self._a[members])

    def kl(self, other: Dirichlet) -> np.ndarray:
        """KL divergence of every member to the one of `other` at the same place."""
        other = other.repeat(len(self))
        gap = ((self._a - other._a) * self.mean_parameters).sum(axis=1)
        return gap - self.log_normaliser + other.log_normaliser

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dirichlet) and np.array_equal(self._a, other._a)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Dirichlet({len(self)} members, {self._a.shape[1]} states)"
