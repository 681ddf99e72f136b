r"""Mixtures of members of a family, one mixture per hidden state.

    p(x | k) = sum_c weights[k, c] p(x | component k, c)

Components are any family, mixtures too. `divide` gives each component its share of the weight of a row,

    q[r, k, c] = weight[r, k] p(c | x_r, k),      counts[k, c] = sum_r q[r, k, c]

and the components divide theirs in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.domain import Domain
from ..core.errors import DataError, ModelError
from ..core.records import register
from .base import Family, Statistics, each_member, map_columns
from .categorical import Categorical
from .dirichlet import Dirichlet
from .stick_breaking import StickBreaking
from .trees import Tree, map_tree

if TYPE_CHECKING:
    from .blank import BlankMixture

__all__ = ["Mixture", "MixturePrior"]


@register("MixturePrior")
@dataclass(frozen=True)
class MixturePrior:
    """Priors on the weights and on the components; None leaves a part to maximum likelihood."""

    weights: Dirichlet | StickBreaking | None = None  # one member, or one per mixture; a stick for `vb` only
    components: Any = None  # of their family: one member, or one per mixture and component

    @property
    def dirichlet(self) -> Dirichlet | None:
        """The prior of the weights, which a most probable mixture needs to be a Dirichlet."""
        if isinstance(self.weights, StickBreaking):
            raise ModelError(
                "weights: expected a Dirichlet prior for a most probable mixture, got StickBreaking; learn a "
                "distribution over mixtures by vb"
            )
        return self.weights

    def log_density(self, members: Mixture) -> np.ndarray:
        """Log prior density, (members,)."""
        out = np.zeros(len(members))
        if self.dirichlet is not None:
            out += self.dirichlet.log_density(members.choice)
        if self.components is not None:
            out += self.components.log_density(members.components).reshape(len(members), -1).sum(axis=1)
        return out


@register("Mixture", fields=["weights", "components"])
class Mixture(Family):
    """Mixtures with equally many components each; immutable.

    Parameters
    ----------
    weights
        Shape (members, components); rows sum to 1. One number alone makes a blank with so many components,
        which `credo.fit` fills; `emission` is then the family of the columns, see `Mixture.blank`.
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

    def __new__(cls, weights: Any = None, components: Any = None, **more: Any) -> Any:
        """A family, or with a number alone a blank."""
        if components is not None or not isinstance(weights, (int, np.integer)):
            return super().__new__(cls)
        from .blank import BlankMixture

        return BlankMixture(int(weights), **more)

    def __init__(self, weights: Any, components: Family | None = None, *, emission: Any = None) -> None:
        self._choice = Categorical(weights)
        if not isinstance(components, Family):
            raise ModelError(f"components: expected members of a family, got {type(components).__name__}")
        if len(components) != self._choice.probabilities.size:
            raise ModelError(
                f"components: expected {self._choice.probabilities.size} members, one per weight, "
                f"got {len(components)}"
            )
        self._components = components

    @staticmethod
    def blank(components: int, emission: Any = None) -> BlankMixture:
        """So many components, families and parameters to come from data by `credo.fit`.

        Parameters
        ----------
        components
            How many.
        emission
            The family of the columns: one name, column -> name, or None, which lets the columns say; see
            `families.blank.family_of`.

        Examples
        --------
        >>> import credo
        >>> blank = credo.Mixture.blank(2)
        >>> blank
        BlankMixture(2 components; no parameters yet: fit it first)
        >>> found = credo.fit(blank, {"size": [1.0, 1.2, 0.9, 5.1, 5.0, 4.8]}, "em(floor=1e-4)", seed=0)
        >>> sorted(found.model.components.parts[0].mean.ravel().round(2).tolist())
        [1.03, 4.97]
        """
        from .blank import BlankMixture

        return BlankMixture(components, emission)

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

    def schema(self, names: Sequence[str]) -> dict[str, Domain]:
        """That of the components."""
        return self._components.schema(names)

    @property
    def means(self) -> Any:
        """Those of the components, weighted."""
        weights = self._choice.probabilities
        return map_columns(
            lambda own: np.einsum("kc,kc...->k...", weights, own.reshape(*weights.shape, *own.shape[1:])),
            self._components.means,
        )

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

    def _nested(self, tree: Tree, axis: int = 1) -> Tree:
        """One axis of members times components becomes two."""
        shape = self.weights.shape
        return map_tree(lambda a: a.reshape(*a.shape[:axis], *shape, *a.shape[axis + 1 :]), tree)

    def _flat(self, tree: Tree, axis: int = 1) -> Tree:
        """The axes of members and components become one."""
        size = self.weights.size
        return map_tree(lambda a: a.reshape(*a.shape[:axis], size, *a.shape[axis + 2 :]), tree)

    def leaves(self, x: Any) -> Tree:
        """Log densities of the components, (rows, members, components, ...)."""
        return self._nested(self._components.leaves(x))

    def _shares(self, leaves: Tree) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """p(x, c | k) over its maximum for c, (rows, members, components), the maximum's log, and the sum."""
        shares = self._nested(self._components.combine(self._flat(leaves))) + self._choice.natural
        top = shares.max(axis=2)
        top[~np.isfinite(top)] = 0.0
        shares -= top[:, :, None]
        np.exp(shares, out=shares)
        return shares, top, shares.sum(axis=2)

    def combine(self, leaves: Tree) -> np.ndarray:
        """Log density of every row under every mixture, (rows, members)."""
        _, top, total = self._shares(leaves)
        with np.errstate(divide="ignore"):
            return top + np.log(total)

    def divide(self, leaves: Tree, weights: np.ndarray) -> tuple[Tree, Tree]:
        """Counts of components (members, components) with those of their own choices, and q."""
        shares, _, total = self._shares(leaves)
        shares *= (weights / np.where(total > 0, total, 1.0))[:, :, None]
        counts, q = self._components.divide(self._flat(leaves), self._flat(shares))
        return {"choice": shares.sum(axis=0), "components": counts}, self._nested(q)

    def responsibilities(self, x: Any) -> np.ndarray:
        """p(c | x, k), (rows, members, components)."""
        shares, _, total = self._shares(self.leaves(x))
        return shares / np.where(total > 0, total, 1.0)[:, :, None]

    def collect(self, x: Any, q: Tree = None) -> Tree:
        """The sums of the components; q comes from `divide`."""
        if q is None:
            raise DataError(
                "q: expected the divided weights of a mixture, got None; see `divide` or `expect`"
            )
        return self._components.collect(x, self._flat(q))

    def update(self, counts: Tree, sums: Tree, prior: Any = None, *, floor: float = 0.0) -> Mixture:
        """New weights and components; `prior` is a `MixturePrior`."""
        prior = MixturePrior() if prior is None else prior
        if not isinstance(prior, MixturePrior):
            raise ModelError(f"prior of a mixture: expected a MixturePrior, got {type(prior).__name__}")
        chosen = Statistics(counts["choice"].sum(axis=1), counts["choice"])
        choice = self._choice.update(None, chosen, prior.dirichlet)
        parts = self._components.update(counts["components"], sums, prior.components, floor=floor)
        return Mixture(choice.probabilities, parts)

    def to_free(self) -> Tree:
        """Free numbers of the components; the weights are counted."""
        return self._nested(self._components.to_free(), 0)

    def from_free(self, tree: Tree) -> Mixture:
        """Components with these free numbers; the same weights."""
        return Mixture._kept(self._choice, self._components.from_free(self._flat(tree, 0)))

    @property
    def is_free(self) -> Tree:
        """As the components say."""
        return self._components.is_free

    @property
    def structure(self) -> tuple[Any, ...]:
        """The width and the components."""
        return Mixture, self.weights.shape[1], self._components.structure

    def to_arrays(self, x: np.ndarray) -> Tree:
        """Rows of the components."""
        return self._components.to_arrays(x)

    @property
    def starts_apart(self) -> bool:
        """As the components say."""
        return self._components.starts_apart

    @property
    def is_noisy(self) -> bool:
        """As the components say."""
        return self._components.is_noisy

    def refuse(self, x: np.ndarray) -> None:
        """As the components say."""
        self._components.refuse(x)

    def noisy_at(self, x: Tree, key: Any) -> Tree:
        """As the components say."""
        return self._components.noisy_at(x, key)

    def choices(self) -> Tree:
        """Weights, and the choices of the components."""
        return {"choice": self.weights, "components": self._components.choices()}

    def choice_value(self, counts: Tree) -> float:
        """Of the weights, and of the choices of the components."""
        chosen, logs = counts["choice"], self._choice.natural
        own = float((chosen[chosen > 0] * logs[chosen > 0]).sum())
        return own + self._components.choice_value(counts["components"])

    def log_scales(self, tree: Tree) -> Any:
        """As the components say."""
        return self._components.log_scales(self._flat(tree, 0))

    def pool(self, slopes: Tree) -> Tree:
        """As the components say."""
        return self._nested(self._components.pool(self._flat(slopes, 0)), 0)

    def leaves_at(self, tree: Tree, x: Tree) -> Tree:
        """Leaves of the components of one mixture, (rows, components, ...)."""
        return each_member(self._components)(tree, x)

    @classmethod
    def _kept(cls, choice: Categorical, components: Family) -> Mixture:
        """Made of parts that fit, the weights to the last bit."""
        made = cls.__new__(cls)
        made._choice, made._components = choice, components
        return made

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

    def initialise(self, x: np.ndarray, rng: np.random.Generator) -> Mixture:
        """Random components and equal weights."""
        width = self.weights.shape[1]
        return Mixture(np.full(self.weights.shape, 1.0 / width), self._components.initialise(x, rng))

    def __repr__(self) -> str:
        return f"Mixture({len(self)} members of {self.weights.shape[1]} components: {self._components!r})"
