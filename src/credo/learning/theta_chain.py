r"""The Bayesian view of a block: samples share one random matrix Theta, and its messages run along a chain.

Prior and messages are products of Dirichlet distributions, one per row of the matrix:

    prior                  Dir(alpha + 1)
    message of sample n    b_n(theta) ~ prod_ij theta_ij^(f_n(i) b_n(j)) = Dir(f_n b_n' + 1)      variational
    message to sample n    f_n ~ prior times the messages of all other samples
    posterior              Dir(alpha + sum_n f_n b_n' + 1);   mode ~ alpha + sum_n f_n b_n'

With sharp messages this is exact counting. With soft ones the true message f' theta b is a mixture that
grows with every sample, and the Dirichlet takes its place. The matrix a sample works with is the mean of
the message it gets, which knows all other samples and not the sample itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..core.errors import DataError
from ..core.numbers import float_array
from ..families.dirichlet import Dirichlet

__all__ = ["ThetaChain"]


@dataclass(frozen=True)
class ThetaChain:
    """The chain of one block.

    Parameters
    ----------
    f, b
        (samples, rows) and (samples, columns): the messages that enter the block.
    alpha
        Prior counts, a number or (rows, columns); 0 is a flat prior.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.learning.theta_chain import ThetaChain
    >>> chain = ThetaChain(np.eye(2)[[0, 0, 1]], np.eye(2)[[0, 1, 1]])
    >>> chain.posterior.concentration
    array([[2., 2.],
           [1., 2.]])
    >>> chain.mode()
    array([[0.5, 0.5],
           [0. , 1. ]])
    """

    f: np.ndarray
    b: np.ndarray
    alpha: Any = 0.0

    def __post_init__(self) -> None:
        """Check shapes and signs."""
        for side in ("f", "b"):
            object.__setattr__(self, side, float_array("messages", getattr(self, side), error=DataError))
        if self.f.ndim != 2 or self.b.ndim != 2 or len(self.f) != len(self.b):
            raise DataError(
                "messages: expected (samples, rows) and (samples, columns), "
                f"got {self.f.shape} and {self.b.shape}"
            )
        shape = (self.f.shape[1], self.b.shape[1])
        try:
            alpha = np.broadcast_to(float_array("alpha", self.alpha, error=DataError), shape)
        except ValueError:
            raise DataError(
                f"alpha: expected a number or shape {shape}, got {np.shape(self.alpha)}"
            ) from None
        if not ((alpha > -1) & (alpha < np.inf)).all():
            raise DataError("alpha: expected finite numbers above -1")
        object.__setattr__(self, "alpha", alpha)

    @cached_property
    def counts(self) -> np.ndarray:
        """(samples, rows, columns) exponents of the message of each sample."""
        return self.f[:, :, None] * self.b[:, None, :]

    @cached_property
    def forward(self) -> np.ndarray:
        """(samples, rows, columns) Dirichlet parameters of the message to each sample.

        The chain's two recursions: the prior and all samples before, times all samples after.
        """
        zero = np.zeros((1, *self.alpha.shape))
        before = np.concatenate([zero, np.cumsum(self.counts, axis=0)[:-1]])
        after = np.concatenate([np.cumsum(self.counts[::-1], axis=0)[::-1][1:], zero])
        return self.alpha + 1.0 + before + after

    @property
    def backward(self) -> np.ndarray:
        """(samples, rows, columns) Dirichlet parameters of the message of each sample."""
        return self.counts + 1.0

    @property
    def forward_means(self) -> np.ndarray:
        """(samples, rows, columns) the matrix each sample works with: the mean of the message to it."""
        return self.forward / self.forward.sum(axis=2, keepdims=True)

    def outgoing(self) -> tuple[np.ndarray, np.ndarray]:
        """What the block sends on in every sample: f_Y (samples, columns) and b_X (samples, rows)."""
        means = self.forward_means
        f = np.einsum("nij,ni->nj", means, self.f)
        b = np.einsum("nij,nj->ni", means, self.b)
        return f / f.sum(axis=1, keepdims=True), b / b.sum(axis=1, keepdims=True)

    @property
    def posterior(self) -> Dirichlet:
        """Of the matrix, one member per row."""
        return Dirichlet(self.alpha + 1.0 + self.counts.sum(axis=0))

    def mode(self) -> np.ndarray:
        """The likeliest matrix, ~ alpha + counts; the mean of a row that has neither."""
        return np.asarray(self.posterior.mode().probabilities)

    def mean(self) -> np.ndarray:
        """The mean matrix, ~ alpha + 1 + counts."""
        return np.asarray(self.posterior.mean().probabilities)
