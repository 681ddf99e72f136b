r"""Members whose rows move: what gradient steps need of the base of a flow.

Sums say nothing about rows that a flow moves while it learns. So leaves with a closed form are moved here by
gradients too, together with the flow; choices are counted as anywhere. Free numbers are

    diagonal, spherical   mean, log standard deviation
    full, tied            mean, A with A C A' = I, lower triangular, its diagonal as logarithms

and log p = log |A| - |A (x - mean)|^2 / 2 - d/2 log 2 pi. Parameters that did not move keep their last bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.errors import ModelError
from .base import Family, Statistics, each_member
from .gaussian import Gaussian, TiedGaussian
from .gaussian_diagonal import DiagonalGaussian, SphericalGaussian
from .mixture import Mixture, MixturePrior
from .product import Product
from .trees import Tree, settled

__all__ = ["MovedMembers", "moved"]

_LOG_2PI = float(np.log(2 * np.pi))


class MovedMembers:
    """A family of which all leaves move; those of StudentT and Flow do so by themselves."""

    def __init__(self, family: Family) -> None:
        self.family: Any = family

    @property
    def structure(self) -> tuple[Any, ...]:
        """See `Family.structure`."""
        return type(self), self.family.structure

    def to_free(self) -> Tree:
        """See `Family.to_free`."""
        return self.family.to_free()

    def from_free(self, tree: Tree) -> Any:
        """The family with these numbers."""
        return self.family.from_free(tree)

    @property
    def is_free(self) -> Tree:
        """See `Family.is_free`."""
        return self.family.is_free

    def pool(self, slopes: Tree) -> Tree:
        """See `Family.pool`."""
        return self.family.pool(slopes)

    def log_scales(self, tree: Tree) -> Any:
        """See `Family.log_scales`; None where members are no components."""
        return None

    def leaves_at(self, tree: Tree, x: Any) -> Tree:
        """Leaves of one member for rows of numbers (rows, d), a JAX function."""
        return self.family.leaves_at(tree, x)

    def update(self, counts: Tree, prior: Any = None) -> Any:
        """The family with its choices counted."""
        if prior is not None:
            raise ModelError(f"prior of leaves under a flow: expected None, got {type(prior).__name__}")
        return self.family if counts is None else self.family.update(counts, None)


class MovedDiagonal(MovedMembers):
    """Independent coordinates."""

    def to_free(self) -> Tree:
        """Mean and log standard deviation."""
        return {"mean": self.family.mean, "log_scale": 0.5 * np.log(self._variances())}

    def _variances(self) -> np.ndarray:
        found: np.ndarray = self.family.variances
        return found

    def from_free(self, tree: Tree) -> Any:
        """Members of the same family."""
        before = self.to_free()
        mean = settled(tree["mean"], before["mean"], self.family.mean, lambda now: now)
        spread = settled(
            tree["log_scale"], before["log_scale"], self._variances(), lambda now: np.exp(2 * now)
        )
        return type(self.family)(mean, spread)

    @property
    def is_free(self) -> Tree:
        """All."""
        return {"mean": True, "log_scale": True}

    def pool(self, slopes: Tree) -> Tree:
        """Nothing is shared."""
        return slopes

    def component_scales(self, tree: Tree) -> Any:
        """Log standard deviations, (..., d) as the means."""
        return tree["log_scale"]

    def leaves_at(self, tree: Tree, x: Any) -> Any:
        """The density of one member, (rows,)."""
        import jax.numpy as jnp

        log_scale = jnp.broadcast_to(tree["log_scale"], tree["mean"].shape)
        z = (x - tree["mean"]) * jnp.exp(-log_scale)
        return -0.5 * (z**2).sum(axis=-1) - log_scale.sum() - 0.5 * x.shape[-1] * _LOG_2PI


class MovedSpherical(MovedDiagonal):
    """One variance for all coordinates of a member."""

    def _variances(self) -> np.ndarray:
        found: np.ndarray = self.family.variance
        return found

    def component_scales(self, tree: Tree) -> Any:
        """That of a member for all its coordinates."""
        return tree["log_scale"][..., None] + 0 * tree["mean"]


class MovedFull(MovedMembers):
    """Covariance matrices; a tied one is the same for all members, so are its slopes."""

    def to_free(self) -> Tree:
        """Mean, and the inverse of the root of the covariance."""
        root = np.linalg.inv(np.linalg.cholesky(self.family.covariances))
        logs = np.log(np.einsum("kii->ki", root))
        return {"mean": self.family.mean, "log_diagonal": logs, "lower": np.tril(root, -1)}

    def from_free(self, tree: Tree) -> Any:
        """Members of the same family."""
        before = self.to_free()
        mean = settled(tree["mean"], before["mean"], self.family.mean, lambda now: now)
        if all(_is_same(tree[name], before[name]) for name in ("log_diagonal", "lower")):
            covariance = self.family.covariances
        else:
            logs, lower = (np.asarray(tree[name], np.float64) for name in ("log_diagonal", "lower"))
            inverse = np.linalg.inv(np.tril(lower, -1) + np.exp(logs)[:, :, None] * np.eye(mean.shape[1]))
            covariance = inverse @ np.swapaxes(inverse, 1, 2)
        is_tied = isinstance(self.family, TiedGaussian)
        return type(self.family)(mean, covariance[0] if is_tied else covariance)

    @property
    def is_free(self) -> Tree:
        """All."""
        return {"mean": True, "log_diagonal": True, "lower": True}

    def pool(self, slopes: Tree) -> Tree:
        """Tied members get the sum of their slopes each, and stay equal."""
        if not isinstance(self.family, TiedGaussian):
            return slopes
        shared = {k: 0 * v + v.sum(axis=0, keepdims=True) for k, v in slopes.items() if k != "mean"}
        return {**slopes, **shared}

    def component_scales(self, tree: Tree) -> Any:
        """Log standard deviations given the coordinates before."""
        return -tree["log_diagonal"]

    def leaves_at(self, tree: Tree, x: Any) -> Any:
        """The density of one member, (rows,)."""
        import jax.numpy as jnp

        gap = x - tree["mean"]
        z = gap @ jnp.tril(tree["lower"], -1).T + gap * jnp.exp(tree["log_diagonal"])
        return tree["log_diagonal"].sum() - 0.5 * (z**2).sum(axis=-1) - 0.5 * x.shape[-1] * _LOG_2PI


class MovedMixture(MovedMembers):
    """Components move, weights are counted."""

    def __init__(self, family: Mixture) -> None:
        super().__init__(family)
        self.parts = moved(family.components)

    @property
    def structure(self) -> tuple[Any, ...]:
        """The width and the components."""
        return MovedMixture, self.family.weights.shape[1], self.parts.structure

    def to_free(self) -> Tree:
        """Those of the components."""
        return self.family._nested(self.parts.to_free(), 0)

    def from_free(self, tree: Tree) -> Any:
        """The same weights, to the last bit."""
        return Mixture._kept(self.family.choice, self.parts.from_free(self.family._flat(tree, 0)))

    @property
    def is_free(self) -> Tree:
        """As the components say."""
        return self.parts.is_free

    def pool(self, slopes: Tree) -> Tree:
        """As the components say."""
        return self.family._nested(self.parts.pool(self.family._flat(slopes, 0)), 0)

    def log_scales(self, tree: Tree) -> Any:
        """Of Gaussian components."""
        own = getattr(self.parts, "component_scales", None)
        return self.parts.log_scales(tree) if own is None else own(tree)

    def leaves_at(self, tree: Tree, x: Any) -> Tree:
        """Leaves of the components of one mixture."""
        return each_member(self.parts)(tree, x)

    def update(self, counts: Tree, prior: Any = None) -> Any:
        """New weights."""
        prior = MixturePrior() if prior is None else prior
        chosen = Statistics(counts["choice"].sum(axis=1), counts["choice"])
        choice = self.family.choice.update(None, chosen, prior.dirichlet)
        return Mixture._kept(choice, self.parts.update(counts["components"], prior.components))


class MovedProduct(MovedMembers):
    """Every part reads its own columns, which have numbers."""

    def __init__(self, family: Product) -> None:
        super().__init__(family)
        if family.names:
            raise ModelError(
                f"base of a flow: expected a product over columns by number, 0, 1, ..., got {family.names}"
            )
        self.parts = [moved(part) for part in family.parts]

    @property
    def structure(self) -> tuple[Any, ...]:
        """The parts and their columns."""
        return MovedProduct, self.family.columns, *(part.structure for part in self.parts)

    def to_free(self) -> Tree:
        """One tree per part."""
        return tuple(part.to_free() for part in self.parts)

    def from_free(self, tree: Tree) -> Any:
        """Every part with its own."""
        found = [part.from_free(own) for part, own in zip(self.parts, tree, strict=True)]
        return self.family.with_parts(found)

    @property
    def is_free(self) -> Tree:
        """As the parts say."""
        return tuple(part.is_free for part in self.parts)

    def pool(self, slopes: Tree) -> Tree:
        """As the parts say."""
        return tuple(part.pool(own) for part, own in zip(self.parts, slopes, strict=True))

    def leaves_at(self, tree: Tree, x: Any) -> Tree:
        """Leaves of the parts."""
        each = zip(self.parts, tree, self.family.columns, strict=True)
        return tuple(part.leaves_at(own, x[:, list(columns)]) for part, own, columns in each)

    def update(self, counts: Tree, prior: Any = None) -> Any:
        """Choices of every part."""
        own = (None,) * len(self.parts) if counts is None else counts
        priors = (None,) * len(self.parts) if prior is None else prior
        each = zip(self.parts, own, priors, strict=True)
        return self.family.with_parts([part.update(n, p) for part, n, p in each])


_MOVED: dict[type, type[MovedMembers]] = {
    DiagonalGaussian: MovedDiagonal,
    SphericalGaussian: MovedSpherical,
    Gaussian: MovedFull,
    TiedGaussian: MovedFull,
    Mixture: MovedMixture,
    Product: MovedProduct,
}


def moved(family: Family) -> Any:
    """The members as gradient steps move all of their leaves."""
    if type(family) in _MOVED:
        return _MOVED[type(family)](family)  # type: ignore[arg-type]
    if family.to_free() is None:
        raise ModelError(
            f"base of a flow: expected Gaussian members, StudentT, a Flow, or mixtures and products of "
            f"these, got {type(family).__name__}"
        )
    return MovedMembers(family)


def _is_same(found: Any, before: np.ndarray) -> bool:
    return bool((np.asarray(found) == np.asarray(before, np.asarray(found).dtype)).all())
