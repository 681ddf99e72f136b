"""Walk-summability: when Gaussian belief propagation is known to converge.

With J scaled to a unit diagonal and R = I - J, the inverse is the sum of the weights of all walks on the
graph, J^-1 = I + R + R^2 + ...; a model is walk-summable if the sum converges whatever the order, which is

    rho(|R|) < 1,      implied by      sum_{j != i} |J_ij| < J_ii   for all i.

Then J is positive definite, belief propagation on the pairs of J converges with any start and schedule, and
its means are exact; its variances miss the walks that go around a loop. On large models the radius is
enclosed by power iteration: for a positive vector v it is at most the largest (|R| v)_i / v_i (Collatz and
Wielandt) and at least v'|R|v / v'v.

Source: Malioutov, Johnson and Willsky (2006).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...optimise.run import is_ending

__all__ = ["WalkSums", "walk_sums"]

_DENSE = 200  # variables up to which all eigenvalues are computed
_STEPS = 500  # products with the matrix otherwise
_ROUGH = 1e-3  # relative accuracy of an eigenvalue that is only compared with 1
_RESTARTS = 20  # of a Lanczos iteration
_TINY = 1e-200  # keeps a vector positive
_ROUNDING = 1e-12  # an eigenvalue closer to 1 than this is 1


@dataclass(frozen=True, eq=False)
class WalkSums:
    """What is known about the walks of a symmetric matrix with a positive diagonal."""

    lower: float  # the spectral radius of |R| is at least this
    upper: float  # and at most this
    is_dominant: bool  # whether every diagonal entry exceeds the sum of the others in its row
    direction: np.ndarray | None = None  # along which x'Jx is not positive, if one was found

    @property
    def is_summable(self) -> bool | None:
        """Whether the model is walk-summable; None if the radius is too close to 1 to tell."""
        return True if self.upper < 1 else False if self.lower >= 1 else None

    def __str__(self) -> str:
        words = {True: "walk-summable", False: "not walk-summable", None: "at the edge of walk-summability"}
        if self.is_dominant:
            return f"diagonally dominant, so walk-summable (spectral radius at most {self.upper:.4g})"
        radius = f"{self.upper:.4g}"
        if f"{self.lower:.4g}" != radius:
            radius = f"between {self.lower:.4g} and {radius}"
        return f"{words[self.is_summable]} (spectral radius {radius})"


def walk_sums(matrix: Any) -> WalkSums:
    """Examine a sparse symmetric matrix with a positive diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csc_matrix
    >>> from credo.inference.messages.walk_sums import walk_sums
    >>> cycle = np.eye(3) + 0.55 * (np.ones((3, 3)) - np.eye(3))
    >>> print(walk_sums(csc_matrix(cycle)))
    not walk-summable (spectral radius 1.1)
    """
    from scipy.sparse import diags_array

    diagonal = matrix.diagonal()
    scale = diags_array(1 / np.sqrt(diagonal))
    rest = (scale @ matrix @ scale).tocsr()
    rest.setdiag(0.0)
    rest.eliminate_zeros()
    sums = np.asarray(abs(matrix).sum(axis=1)).ravel() - diagonal
    dominance = float((sums / diagonal).max(initial=0.0))
    if dominance < 1:
        return WalkSums(0.0, dominance, True)
    lower, upper = _radius(abs(rest))
    direction = None
    if upper >= 1:
        value, vector = _largest(-rest)
        direction = vector / np.sqrt(diagonal) if value >= 1 - _ROUNDING else None
    return WalkSums(lower, upper, False, direction)


def _radius(matrix: Any) -> tuple[float, float]:
    """Bounds on the spectral radius of a symmetric non-negative matrix, close enough to compare it with 1."""
    n = matrix.shape[0]
    if n <= _DENSE:
        value = float(np.linalg.eigvalsh(matrix.toarray())[-1])
        return value, value
    v = np.ones(n)
    lower, upper = 0.0, np.inf
    for _ in range(_STEPS):
        w = matrix @ v
        lower = max(lower, float(v @ w) / float(v @ v))
        upper = min(upper, float((w / v).max()))
        if upper < 1 or lower >= 1 or is_ending():
            break
        v = np.maximum(v + w, _TINY)  # adding v keeps bipartite graphs from swinging between two vectors
        v /= v.max()
    return lower, upper


def _largest(matrix: Any) -> tuple[float, np.ndarray]:
    """A value not above the largest eigenvalue of a symmetric matrix, usually close, and its vector."""
    n = matrix.shape[0]
    if n <= _DENSE:
        values, vectors = np.linalg.eigh(matrix.toarray())
        return float(values[-1]), vectors[:, -1]
    from scipy.sparse.linalg import ArpackNoConvergence, eigsh

    begin = np.random.default_rng(0).standard_normal(n)  # the same model gives the same answer
    try:
        vector = eigsh(matrix, k=1, which="LA", v0=begin, tol=_ROUGH, maxiter=_RESTARTS)[1][:, 0]
    except ArpackNoConvergence:
        return 0.0, begin
    return float(vector @ (matrix @ vector)), vector
