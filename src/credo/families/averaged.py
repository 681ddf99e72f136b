"""A family whose parameters are distributions: what variational Bayes puts in the place of a family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.domain import Domain
from .base import ExpectedSums
from .trees import Tree

__all__ = ["AveragedFamily"]


class AveragedFamily:
    """Log densities averaged over the parameters of each member; exp of them is not normalised.

    It is what an E-step asks of a family, and no more: what is chosen inside of a member is summed in its
    average, and what rows say to it is for `posterior` of the distribution of its parameters.

    Parameters
    ----------
    parameters
        The distribution: a `Conjugate`, a `ConjugateProduct` or a `ConjugateMixture`.

    Examples
    --------
    >>> from credo.families import Dirichlet
    >>> from credo.families.averaged import AveragedFamily
    >>> AveragedFamily(Dirichlet([[1.0, 1.0]])).log_density([0, -1]).ravel()
    array([-1.,  0.])
    """

    def __init__(self, parameters: Any) -> None:
        self.parameters = parameters

    def __len__(self) -> int:
        return len(self.parameters)

    @property
    def is_closed(self) -> bool:
        """Whether nothing is hidden inside of a member."""
        return bool(self.parameters.is_closed)

    def rows(self, x: Any) -> np.ndarray:
        """`x` as the array the other methods work on."""
        return np.asarray(self.parameters.mean().rows(x))

    def schema(self, names: Sequence[str]) -> dict[str, Domain]:
        """What the columns that make up rows hold."""
        return dict(self.parameters.mean().schema(names))

    def missing(self, x: np.ndarray) -> np.ndarray:
        """Which rows observe nothing, (rows,)."""
        return np.asarray(self.parameters.mean().missing(x))

    def hide(self, x: np.ndarray, hidden: np.ndarray) -> np.ndarray:
        """A copy in which the rows marked in `hidden` (rows,) observe nothing."""
        return np.asarray(self.parameters.mean().hide(x, hidden))

    @property
    def means(self) -> Any:
        """Under expected parameters."""
        return self.parameters.mean().means

    def log_density(self, x: Any) -> np.ndarray:
        """E[log p(x | parameters)], (rows, members), what is missing summed out."""
        return np.asarray(self.parameters.expected_log_density(x))

    def leaves(self, x: Any) -> Tree:
        """The averages."""
        return self.log_density(x)

    def combine(self, leaves: Tree) -> np.ndarray:
        """The averages."""
        return leaves  # type: ignore[no-any-return]

    def divide(self, leaves: Tree, weights: np.ndarray) -> tuple[Tree, Tree]:
        """Choices are divided by `expect`."""
        return None, weights

    def expect(self, x: Any, weights: Any = None, leaves: Tree = None) -> ExpectedSums:
        """What rows with weights (rows, members) say to the distribution of the parameters."""
        found: ExpectedSums = self.parameters.expect(x, weights)
        return found

    def expect_under(self, members: Any, x: Any, weights: Any = None) -> ExpectedSums:
        """The same where what is hidden inside of a member is divided as these members do."""
        found: ExpectedSums = self.parameters.expect_under(members, x, weights)
        return found

    def __repr__(self) -> str:
        return f"AveragedFamily({self.parameters!r})"
