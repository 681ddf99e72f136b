r"""Mixtures of members of a family, one mixture per hidden state.

    p(x | k) = sum_c weights[k, c] p(x | component k, c)

Not an exponential family itself, but learned by the same steps: `collect` divides the weight of a row among
the components of each mixture by their responsibilities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.errors import ModelError
from ..core.records import register
from .base import Conjugate, Emission, Statistics
from .categorical import Categorical
from .dirichlet import Dirichlet

__all__ = ["Mixture", "MixturePrior", "MixtureStatistics"]


@dataclass(frozen=True)
class MixtureStatistics:
    """Weighted sums for the weights and for the components; they add up over parts of the data."""

    weights: Statistics  # of the categorical choice of a component, one member per mixture
    components: Any  # of the components, one member per mixture and component

    def __add__(self, other: MixtureStatistics) -> MixtureStatistics:
        return MixtureStatistics(self.weights + other.weights, self.components + other.components)

    def scaled(self, step: float) -> MixtureStatistics:
        """The same with all weights multiplied by one number."""
        return MixtureStatistics(self.weights.scaled(step), self.components.scaled(step))

    @property
    def count(self) -> np.ndarray:
        """Total weight of each mixture, (members,)."""
        return self.weights.count


@register("MixturePrior")
@dataclass(frozen=True)
class MixturePrior:
    """Priors on the weights and on the components; None leaves a part to maximum likelihood."""

    weights: Dirichlet | None = None  # one member, or one per mixture
    components: Conjugate | None = None  # one member, or one per mixture and component

    def log_density(self, members: Mixture) -> np.ndarray:
        """Log prior density, (members,)."""
        out = np.zeros(len(members))
        if self.weights is not None:
            out += self.weights.log_density(members.choice)
        if self.components is not None:
            out += self.components.log_density(members.components).reshape(len(members), -1).sum(axis=1)
        return out


@register("Mixture", fields=["weights", "components"])
class Mixture(Emission):
    """Mixtures with equally many components each; immutable.

    Parameters
    ----------
    weights
        Shape (members, components); rows sum to 1.
    components
        A family with members times components members, those of the first mixture first.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.families.gaussian_diagonal import DiagonalGaussian
    >>> from credo.families.mixture import Mixture
    >>> parts = DiagonalGaussian([[0.0], [4.0]], [[1.0], [1.0]])
    >>> Mixture([[0.5, 0.5]], parts).log_density([[0.0]]).round(4)
    array([[-1.6118]])
    """

    def __init__(self, weights: Any, components: Emission) -> None:
        self._choice = Categorical(weights)
        if not isinstance(components, Emission):
            raise ModelError(f"components: expected members of a family, got {type(components).__name__}")
        if len(components) != self._choice.probabilities.size:
            raise ModelError(
                f"components: expected {self._choice.probabilities.size} members, one per weight, "
                f"got {len(components)}"
            )
        self._components = components

    @property
    def weights(self) -> np.ndarray:
        """(members, components), read-only."""
        return self._choice.probabilities

    @property
    def choice(self) -> Categorical:
        """The weights as categorical members."""
        return self._choice

    @property
    def components(self) -> Any:
        """The family of all components."""
        return self._components

    def __len__(self) -> int:
        return len(self._choice)

    @property
    def n_parameters(self) -> int:
        """Weights and components."""
        return self._choice.n_parameters + self._components.n_parameters

    def movement(self, new: Mixture) -> float:
        """The largest change of a weight or of a component."""
        return max(self._choice.movement(new._choice), self._components.movement(new._components))

    def rows(self, x: Any) -> np.ndarray:
        """Rows of the components."""
        return self._components.rows(x)

    def missing(self, x: np.ndarray) -> np.ndarray:
        """Rows that observe nothing."""
        return self._components.missing(x)

    def hide(self, x: np.ndarray, hidden: np.ndarray) -> np.ndarray:
        """A copy in which the marked rows observe nothing."""
        return self._components.hide(x, hidden)

    def _joint(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log p(x, c | k) as (rows, members, components), and its maximum over c."""
        logs = self._components.log_density(x).reshape(len(x), *self.weights.shape)
        joint = logs + self._choice.natural
        return joint, joint.max(axis=2)

    def log_density(self, x: Any) -> np.ndarray:
        """Log density of every row under every mixture, (rows, members)."""
        joint, top = self._joint(self.rows(x))
        safe = np.where(np.isfinite(top), top, 0.0)
        with np.errstate(divide="ignore"):
            return safe + np.log(np.exp(joint - safe[:, :, None]).sum(axis=2))

    def responsibilities(self, x: Any) -> np.ndarray:
        """p(c | x, k), (rows, members, components)."""
        joint, top = self._joint(self.rows(x))
        weights = np.exp(joint - np.where(np.isfinite(top), top, 0.0)[:, :, None])
        sums = weights.sum(axis=2, keepdims=True)
        return weights / np.where(sums > 0, sums, 1.0)

    def collect(self, x: Any, weights: np.ndarray | None = None) -> MixtureStatistics:
        """Expected statistics of the choice and of the components; missing rows do not count."""
        found = self.rows(x)
        shares = self.responsibilities(found)
        if weights is not None:
            shares = shares * np.asarray(weights)[:, :, None]
        flat = shares.reshape(len(found), -1)
        seen = ~self.missing(found)
        total = shares[seen].sum(axis=0)
        return MixtureStatistics(Statistics(total.sum(axis=1), total), self._components.collect(found, flat))

    def maximise(self, statistics: MixtureStatistics, prior: Any = None, *, floor: float = 0.0) -> Mixture:
        """New weights and components; `prior` is a `MixturePrior`."""
        prior = MixturePrior() if prior is None else prior
        if not isinstance(prior, MixturePrior):
            raise ModelError(f"prior of a mixture: expected a MixturePrior, got {type(prior).__name__}")
        choice = self._choice.maximise(statistics.weights, prior.weights)
        parts = self._components.maximise(statistics.components, prior.components, floor=floor)
        return Mixture(choice.probabilities, parts)

    def sample(self, members: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One row from each of the given mixtures."""
        chosen = self._choice.sample(np.asarray(members), rng)
        return self._components.sample(np.asarray(members) * self.weights.shape[1] + chosen, rng)

    def take(self, members: Any) -> Mixture:
        """Some of the mixtures."""
        width = self.weights.shape[1]
        index = np.arange(len(self))[members]
        where = (index[:, None] * width + np.arange(width)).ravel()
        return Mixture(self.weights[members], self._components.take(where))

    def perturbed(self, x: np.ndarray, rng: np.random.Generator) -> Mixture:
        """Random components and equal weights."""
        width = self.weights.shape[1]
        return Mixture(np.full(self.weights.shape, 1.0 / width), self._components.perturbed(x, rng))

    def __repr__(self) -> str:
        return f"Mixture({len(self)} members of {self.weights.shape[1]} components: {self._components!r})"
