r"""Conjugate distributions of mixtures: Dirichlet weights, and a conjugate distribution of each component.

    q(theta_k) = Dir(pi_k) prod_c q(theta_kc),
    log of the averaged density = log sum_c exp( E[log pi_kc] + E[log p_kc(x)] ),
    q(c | x, k) = its share of that sum

The choice of a component is hidden as the state is, so that it is summed where the state is, and rows are
divided among components by the same shares. With one component it is the distribution of that component.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.errors import ModelError
from ..core.records import register
from .base import ExpectedSums, Members, Statistics
from .dirichlet import Dirichlet
from .mixture import Mixture
from .trees import Tree

__all__ = ["ConjugateMixture"]


@register("ConjugateMixture", fields=["weights", "components"])
class ConjugateMixture(Members):
    """Priors or posteriors of mixtures with equally many components each; immutable.

    Parameters
    ----------
    weights
        A Dirichlet with one member per mixture.
    components
        The conjugate distribution of the components, those of the first mixture first; one member serves all.

    Examples
    --------
    >>> from credo.families import Dirichlet, Gamma
    >>> from credo.families.conjugate_mixture import ConjugateMixture
    >>> prior = ConjugateMixture(Dirichlet([[1.0, 1.0]]), Gamma([1.0], [1.0]))
    >>> after = prior.posterior(prior.expect([0.0, 4.0]).sums)
    >>> after.weights.concentration, after.components.shape
    (array([[2., 2.]]), array([3., 3.]))
    """

    def __init__(self, weights: Dirichlet, components: Any) -> None:
        if not isinstance(weights, Dirichlet):
            raise ModelError(f"weights: expected a Dirichlet, got {type(weights).__name__}")
        self._weights, self._components = weights, components.repeat(weights.concentration.size)

    @property
    def weights(self) -> Dirichlet:
        """One member per mixture."""
        return self._weights

    @property
    def components(self) -> Any:
        """One member per mixture and component."""
        return self._components

    @property
    def width(self) -> int:
        """Components of a mixture."""
        return int(self._weights.concentration.shape[1])

    @property
    def is_closed(self) -> bool:
        """Never: the component is hidden."""
        return False

    def __len__(self) -> int:
        return len(self._weights)

    def take(self, members: Any) -> ConjugateMixture:
        """Some of the mixtures."""
        index = np.arange(len(self))[members]
        where = (index[:, None] * self.width + np.arange(self.width)).ravel()
        return ConjugateMixture(self._weights.take(index), self._components.take(where))

    def repeat(self, count: int) -> ConjugateMixture:
        """So many mixtures: these if there are as many, or the only one repeated."""
        if len(self) == count:
            return self
        if len(self) != 1:
            raise ModelError(f"prior: expected 1 or {count} mixtures, got {len(self)}; repeat one of them")
        return self.take(np.zeros(count, dtype=np.int64))

    def _nested(self, densities: np.ndarray, log_weights: np.ndarray) -> np.ndarray:
        """Weighted densities of components, (rows, mixtures, components)."""
        return densities.reshape(len(densities), *log_weights.shape) + log_weights

    def _terms(self, x: Any) -> np.ndarray:
        return self._nested(self._components.expected_log_density(x), self._weights.expected_log)

    def _hidden(self, x: Any) -> np.ndarray:
        return np.asarray(self._components.mean().missing(self._components.mean().rows(x)))

    def expected_log_density(self, x: Any) -> np.ndarray:
        """Logarithm of the averaged density, (rows, mixtures), components summed out; 0 where x is missing.

        exp of it is not normalised, and must not be.
        """
        return np.where(self._hidden(x)[:, None], 0.0, np.logaddexp.reduce(self._terms(x), axis=2))

    def predictive(self, x: Any) -> np.ndarray:
        """Logarithm of E[p(x | parameters)], (rows, mixtures)."""
        shares = np.log(self._weights.mean().probabilities)
        return np.asarray(np.logaddexp.reduce(self._nested(self._components.predictive(x), shares), axis=2))

    def expect(self, x: Any, weights: Any = None) -> ExpectedSums:
        """What rows with weights (rows, mixtures) say to `posterior`."""
        terms = self._terms(x)
        shares = np.exp(terms - np.logaddexp.reduce(terms, axis=2)[:, :, None])
        return self._divided(x, weights, shares, self._components.expect)

    def expect_under(self, members: Mixture, x: Any, weights: Any = None) -> ExpectedSums:
        """The same where rows are divided as these mixtures do: a start, as equal components never part."""

        def inner(x: Any, weights: Any) -> ExpectedSums:
            found: ExpectedSums = self._components.expect_under(members.components, x, weights)
            return found

        return self._divided(x, weights, members.responsibilities(x), inner)

    def _divided(self, x: Any, weights: Any, shares: np.ndarray, inner: Any) -> ExpectedSums:
        hidden = self._hidden(x)
        seen = np.ones((len(hidden), len(self))) if weights is None else weights
        seen = np.where(hidden[:, None], 0.0, seen)
        shares = shares * seen[:, :, None]
        count, chosen = seen.sum(axis=0), shares.sum(axis=0)
        own = inner(x, shares.reshape(len(hidden), -1))
        return ExpectedSums(count, None, {"choice": Statistics(count, chosen), "components": own.sums})

    def posterior(self, statistics: Tree) -> ConjugateMixture:
        """Counts of components are added, and each component is updated by itself."""
        weights = self._weights.posterior(statistics["choice"])
        return ConjugateMixture(weights, self._components.posterior(statistics["components"]))

    def match(self, members: ConjugateMixture) -> ConjugateMixture:
        """One prior for all mixtures and components; see `Conjugate.match`."""
        own = self._components.match(members._components)
        return ConjugateMixture(self._weights.match(members._weights), own)

    def kl(self, other: ConjugateMixture) -> np.ndarray:
        """KL divergence of every mixture to the one of `other` at the same place, (mixtures,)."""
        own = self._components.kl(other._components).reshape(len(self), self.width)
        return np.asarray(self._weights.kl(other._weights) + own.sum(axis=1))

    def mean(self) -> Mixture:
        """Mixtures with expected parameters."""
        return Mixture(self._weights.mean().probabilities, self._components.mean())

    def sample(self, rng: np.random.Generator) -> Mixture:
        """Mixtures with parameters drawn at random."""
        return Mixture(self._weights.sample(rng).probabilities, self._components.sample(rng))

    def __repr__(self) -> str:
        return f"ConjugateMixture({len(self)} members of {self.width} components: {self._components!r})"
