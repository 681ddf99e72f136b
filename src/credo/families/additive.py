r"""Gaussian rows whose mean is a sum of effects, one for each of several hidden states.

    x ~ N( sum_m B_m[s_m], C )          one member for every joint state (s_1, ..., s_M)

Members are those of a tied Gaussian, the last state changing fastest; what is learned are the effects B_m, by
regression: with counts n_j and mean rows y_j of the members, and D the matrix that says which effects they
add up, the new effects minimise

    sum_j n_j (y_j - D_j B)' C^-1 (y_j - D_j B),

whose solution does not depend on C. Only sums of effects are determined; the smallest change is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Self

import numpy as np

from ..core import check
from ..core.errors import ModelError
from ..core.records import register
from .base import frozen
from .gaussian import TiedGaussian, floored
from .moments import RowMoments

__all__ = ["AdditiveGaussian"]


@register("AdditiveGaussian", fields=["effects", "covariance"])
class AdditiveGaussian(TiedGaussian):
    """Members for all joint states of several chains, whose means are sums of effects; immutable.

    Parameters
    ----------
    effects
        One array (states, d) per chain.
    covariance
        Symmetric positive definite, shape (d, d).

    Examples
    --------
    >>> from credo.families.additive import AdditiveGaussian
    >>> AdditiveGaussian([[[0.0], [1.0]], [[0.0], [10.0]]], [[1.0]]).mean.ravel()
    array([ 0., 10.,  1., 11.])
    """

    def __init__(self, effects: Sequence[Any], covariance: Any) -> None:
        parts = [check.finite_numbers(f"effect of chain {m}", effect) for m, effect in enumerate(effects)]
        wrong = [m for m, part in enumerate(parts) if part.ndim != 2 or part.shape[1:] != parts[0].shape[1:]]
        if wrong or not parts:
            got = f"shape {parts[wrong[0]].shape} for chain {wrong[0]}" if wrong else "none"
            raise ModelError(f"effects: expected arrays (states of the chain, d) with one d, got {got}")
        self.effects = tuple(frozen(part) for part in parts)
        super().__init__(self._design @ np.concatenate(self.effects), covariance)

    @property
    def shape(self) -> tuple[int, ...]:
        """States of each chain."""
        return tuple(len(effect) for effect in self.effects)

    @property
    def _design(self) -> np.ndarray:
        """Which effects each member adds up, (members, all states)."""
        states = np.unravel_index(np.arange(prod(self.shape)), self.shape)
        return np.concatenate([np.eye(n)[s] for n, s in zip(self.shape, states, strict=True)], axis=1)

    @property
    def n_parameters(self) -> int:
        """Effects that are determined, and one triangle."""
        d = self.dimension
        return (sum(self.shape) - len(self.shape) + 1) * d + d * (d + 1) // 2

    def update(self, counts: None, sums: RowMoments, prior: Any = None, *, floor: float = 0.0) -> Self:
        """Effects by regression, and the covariance of what they leave."""
        if prior is not None:
            raise ModelError(f"prior of additive effects: expected None, got {type(prior).__name__}")
        design, root = self._design, np.sqrt(sums.count)[:, None]
        missed = np.where(root > 0, sums.mean - self._mean, 0.0)
        change = np.linalg.lstsq(root * design, root * missed, rcond=None)[0]
        left = (missed - design @ change) * root
        total, shape = sums.count.sum(), self._covariance.shape
        covariance = self._covariance
        if total > 0:
            covariance = (sums.scatter.sum(axis=0).reshape(shape) + left.T @ left) / total
        return self._with(np.concatenate(self.effects) + change, floored(covariance[None], floor)[0])

    def _with(self, effects: np.ndarray, covariance: np.ndarray) -> Self:
        return type(self)(np.split(effects, np.cumsum(self.shape)[:-1]), covariance)

    def initialise(self, x: np.ndarray, rng: np.random.Generator) -> Self:
        """Effects that come near distant rows of the data, the variances of all rows."""
        means, spread = self._seeds(x, rng)
        effects = np.linalg.lstsq(self._design, means, rcond=None)[0]
        return self._with(effects, np.diag(spread))
