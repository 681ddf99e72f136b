r"""Gaussian rows whose precision matrix has zeros at given places: covariance selection.

    maximise   log |J| - tr(J S)   subject to   J_ij = 0 where there is no edge

S is the covariance of the rows. At the top the covariance W = J^-1 equals S on the edges and the diagonal.
Column by column W is set to what a regression on the neighbours implies,

    b = W_NN^-1 S_Nj,   W_.j = W_.N b,

until nothing moves. The answer differs from S only where edges are missing; with all edges it is S.

Source: Dempster 1972; Hastie, Tibshirani and Friedman 2009, Algorithm 17.1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.errors import ModelError
from ..core.records import register
from ..optimise.driver import Outcome, Step, drive
from ..optimise.run import Budget, Run
from .base import frozen
from .gaussian import Gaussian
from .moments import RowMoments

__all__ = ["GaussianField", "select_covariance"]

_LIMITS = Budget(1000, 1e-10)  # sweeps over columns, and the largest change relative to the variances


class _Sweeps:
    """Covariance selection as the driver sees it: one sweep over all columns is a step."""

    name = "covariance-selection"

    def __init__(self, wanted: np.ndarray, edges: np.ndarray) -> None:
        self._wanted, self._around = wanted, [np.flatnonzero(row) for row in edges]
        self._scale = np.sqrt(np.outer(wanted.diagonal(), wanted.diagonal()))

    def start(self, problem: None, run: Run) -> Step:
        return Step(np.diag(self._wanted.diagonal()))

    def advance(self, problem: None, state: np.ndarray, run: Run) -> Step:
        found = state.copy()
        for j, near in enumerate(self._around):
            b = np.linalg.solve(found[np.ix_(near, near)], self._wanted[near, j])
            column = found[:, near] @ b
            column[j] = self._wanted[j, j]
            found[:, j] = found[j] = column
        change = float((np.abs(found - state) / self._scale).max())
        return Step(found, [change])

    def read(self, problem: None, outcome: Outcome) -> np.ndarray:
        found: np.ndarray = outcome.state
        return found


def select_covariance(covariance: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The covariance of highest likelihood whose inverse is zero off the diagonal and the edges.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.families.gaussian_field import select_covariance
    >>> chain = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=bool)
    >>> found = select_covariance(np.array([[2.0, 1.0, 0.9], [1.0, 2.0, 1.0], [0.9, 1.0, 2.0]]), chain)
    >>> found[0, 2].round(6), (np.linalg.inv(found)[0, 2] + 0.0).round(6)
    (np.float64(0.5), np.float64(0.0))
    """
    found: np.ndarray = drive(_Sweeps(covariance, edges), None, _LIMITS)
    return 0.5 * (found + found.T)


@register("GaussianField", fields=["mean", "covariance", "edges"])
class GaussianField(Gaussian):
    """One Gaussian member with a graph: precisions are zero where no edge is; immutable.

    Parameters
    ----------
    mean, covariance
        As of a `Gaussian` with one member.
    edges
        (d, d), symmetric: which pairs may have a precision.
    """

    def __init__(self, mean: Any, covariance: Any, edges: Any) -> None:
        super().__init__(mean, covariance)
        given = np.array(edges, dtype=bool)
        d = self.dimension
        if len(self) != 1 or given.shape != (d, d) or (given != given.T).any():
            raise ModelError(f"edges: expected a symmetric matrix {(d, d)} of one member, got {given.shape}")
        np.fill_diagonal(given, False)
        self.edges = frozen(given)

    @property
    def covariance(self) -> np.ndarray:
        """(1, d, d), read-only."""
        return self.covariances

    @property
    def n_parameters(self) -> int:
        """Means, variances and edges."""
        return 2 * self.dimension + int(self.edges.sum()) // 2

    def update(
        self, counts: None, sums: RowMoments, prior: Any = None, *, floor: float = 0.0
    ) -> GaussianField:
        """Means, and the covariance that fits on the edges."""
        if prior is not None:
            raise ModelError(f"prior of a Gaussian net: expected None, got {type(prior).__name__}")
        found = Gaussian.update(self, counts, sums, None, floor=floor)
        covariance = select_covariance(found.covariances[0], self.edges)
        return GaussianField(found.mean, covariance[None], self.edges)

    def take(self, members: Any) -> GaussianField:
        """The member itself."""
        return GaussianField(self.mean[members], self.covariances[members], self.edges)

    def initialise(self, x: np.ndarray, rng: np.random.Generator) -> GaussianField:
        """The mean and the variances of all rows."""
        found = Gaussian.initialise(self, x, rng)
        return GaussianField(found.mean, found.covariances, self.edges)
