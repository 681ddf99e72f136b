r"""Moments by sums over points: those of a proposal, and how the proposal moves to what was found.

The member of an exponential family (`families/natural.py`) that is closest to p, in KL(p || q), has the
expected sufficient statistics of p. Expectations are sums over points drawn from a proposal, each with the
weight f / proposal; Gauss-Hermite points of a full covariance for real variables (exact for a polynomial of
degree 2n - 1 times the proposal), a low-discrepancy sequence for a simplex.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ...core.factor import look_up
from ...core.factor_graph import FactorGraph
from ...core.groups import FactorBatch
from ...families.natural import LOG_2PI, log_sum

__all__ = [
    "gauss_hermite",
    "group_log_values",
    "is_positive_definite",
    "point_moments",
    "relative_logs",
    "simplex_points",
    "whitened_form",
    "whitened_step",
]

_MANY = 64  # factors from which one compiled call is worth its compilation
_FAR = 3.0  # standard deviations: a mean farther out means that the proposal missed the mass
_NARROWER, _WIDER = 1 / 16, 16.0  # how much one step may change variances
_NEAR = 0.02  # a proposal this close to what it proposes for is kept


@lru_cache(maxsize=64)
def gauss_hermite(nodes: int, dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """Points (nodes^d, d) and log weights of the expectation under a standard normal in d dimensions.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.inference.messages.moments import gauss_hermite
    >>> z, log_weight = gauss_hermite(5, 1)
    >>> float(np.exp(log_weight) @ z[:, 0] ** 4).__round__(12)
    3.0
    """
    y, w = np.polynomial.hermite_e.hermegauss(nodes)
    # The outer weights of large rules underflow; those points are of no use.
    y, log_w = y[w > 0], np.log(w[w > 0]) - 0.5 * LOG_2PI
    grids = np.meshgrid(*[y] * dimension, indexing="ij")
    logs = np.meshgrid(*[log_w] * dimension, indexing="ij")
    points = np.stack([g.ravel() for g in grids], axis=1) if dimension else np.zeros((1, 0))
    total = sum((part.ravel() for part in logs), np.zeros(len(points)))
    points.flags.writeable = total.flags.writeable = False
    return points, total


def relative_logs(
    mean: np.ndarray, root: np.ndarray, precision: np.ndarray, shift: np.ndarray, z: np.ndarray
) -> np.ndarray:
    """Logs of exp(shift x - x' precision x / 2) / N(x; mean, root root') at points x = mean + root z.

    One row of `precision` (rows, d, d) and `shift` (rows, d) serves all states of `mean` (rows, states, d)
    and `root`. The answer is a quadratic form in z, (rows, states, points).
    """
    start, linear, bent = whitened_form(mean, root, precision, shift)
    d = z.shape[1]
    start = start + 0.5 * d * LOG_2PI
    bent = bent + 0.5 * np.eye(d)
    terms = np.concatenate([linear, bent.reshape(*bent.shape[:2], d * d)], axis=-1)
    return np.asarray(start[..., None] + np.matmul(terms, _powers(z).T))


def whitened_form(
    mean: np.ndarray, root: np.ndarray, precision: np.ndarray, shift: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A constant, vector and matrix: shift x - x' precision x / 2 + log |root| as a form in z.

    Shapes are those of `relative_logs`; no coefficient takes a sum over points.
    """
    pulled = np.einsum("rij,rcj->rci", precision, mean)
    start = (mean * (shift[:, None] - 0.5 * pulled)).sum(axis=-1)
    norm = np.log(np.abs(np.einsum("...ii->...i", root))).sum(axis=-1)
    linear = np.einsum("rcij,rci->rcj", root, shift[:, None] - pulled)
    bent = -0.5 * np.einsum("rcij,ril,rclk->rcjk", root, precision, root)
    return start + norm, linear, bent


def point_moments(
    share: np.ndarray, mean: np.ndarray, root: np.ndarray, z: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Means and covariances of the points mean + root z under weights (..., points) that sum to one."""
    d = z.shape[1]
    found = np.matmul(share, _powers(z))
    first, second = found[..., :d], found[..., d:].reshape(*share.shape[:-1], d, d)
    inner = second - first[..., :, None] * first[..., None, :]
    moved = mean + np.einsum("...ij,...j->...i", root, first)
    return moved, root @ inner @ np.swapaxes(root, -1, -2)


def _powers(z: np.ndarray) -> np.ndarray:
    """First and second powers of points (points, d): (points, d + d^2)."""
    return np.concatenate([z, (z[:, :, None] * z[:, None, :]).reshape(len(z), -1)], axis=1)


@lru_cache(maxsize=64)
def _uniform_points(count: int, dimension: int) -> np.ndarray:
    """A low-discrepancy sequence in the unit cube: multiples of the powers of a generalised golden ratio."""
    ratio = 2.0
    for _ in range(60):
        ratio = (1.0 + ratio) ** (1.0 / (dimension + 1.0))
    steps = ratio ** -np.arange(1.0, dimension + 1.0)
    return (0.5 + np.arange(1, count + 1)[:, None] * steps) % 1.0


def simplex_points(concentration: np.ndarray, count: int) -> np.ndarray:
    """Logarithms of points that follow Dirichlet distributions, (..., count, width)."""
    from scipy.special import gammaincinv, gammaln

    alpha = concentration[..., None, :]
    u = _uniform_points(count, concentration.shape[-1])
    # Gamma(a) = Gamma(a + 1) U^(1/a) in distribution; its logarithm exists where the quantile underflows.
    with np.errstate(divide="ignore"):
        direct = np.log(gammaincinv(alpha, u))
    small = (np.log(u) + gammaln(alpha + 1)) / alpha
    logs = np.where(direct > -600.0, direct, small)
    return logs - log_sum(logs)[..., None]


def is_positive_definite(matrix: np.ndarray) -> bool:
    """Whether a symmetric matrix is positive definite; variables may have very different scales."""
    diagonal = np.diag(matrix)
    if not (diagonal > 0).all():
        return False
    unit = 1 / np.sqrt(diagonal)
    try:
        np.linalg.cholesky(matrix * unit[:, None] * unit)
    except np.linalg.LinAlgError:
        return False
    return True


def whitened_step(
    mean: np.ndarray, covariance: np.ndarray, at: np.ndarray, root: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Move Gaussian proposals N(at, root root') towards given moments; the last answer says how far.

    It is the largest difference of a mean or covariance in units of the proposal, 0 for one that is close
    enough to stay. A proposal that missed the mass grows; none shrinks or grows by more than a factor of four
    at once, because what is seen through few points says little about scales far from their own.
    """
    if not mean.shape[-1]:
        return at, root, np.zeros(mean.shape[:-1])
    away = np.linalg.solve(root, (mean - at)[..., None])[..., 0]
    half = np.linalg.solve(root, covariance)
    inner = np.linalg.solve(root, np.swapaxes(half, -1, -2))
    inner = 0.5 * (inner + np.swapaxes(inner, -1, -2))
    identity = np.eye(mean.shape[-1])
    gap = np.maximum(np.abs(away).max(axis=-1), np.abs(inner - identity).max(axis=(-1, -2)))
    moved = np.isfinite(gap) & (gap > _NEAR)
    inner = np.where(moved[..., None, None], inner, identity)
    values, vectors = np.linalg.eigh(inner)
    missed = np.abs(away).max(axis=-1, keepdims=True) > _FAR
    values = np.where(missed, _WIDER, np.clip(values, _NARROWER, _WIDER))
    new = np.linalg.cholesky(np.einsum("...ij,...j,...kj->...ik", vectors, values, vectors))
    where = moved[..., None]
    gap = np.where(moved, gap, 0.0)
    return np.where(where, mean, at), np.where(where[..., None], root @ new, root), gap


def group_log_values(
    graph: FactorGraph, group: FactorBatch, rows: np.ndarray, columns: Sequence[np.ndarray]
) -> np.ndarray:
    """Log-potentials of some factors of a group; each column has these factors on its first axis.

    Few factors are called one by one, many in one compiled call, filled up to a power of two so that few
    programs serve all.
    """
    if group.function is look_up and len(columns) == group.parameters[0].ndim - 1:
        at = np.arange(len(rows)).reshape(-1, *(1 for _ in columns[0].shape[1:])) if columns else slice(None)
        return np.asarray(group.parameters[0][rows][(at, *columns)])
    compiled = _compile() if len(rows) >= _MANY else None
    if compiled is None:
        factors = (graph.factors[int(a)] for a in group.factors[rows])
        return np.stack([f.log_values(*(c[k] for c in columns)) for k, f in enumerate(factors)])
    count = 1 << (len(rows) - 1).bit_length()
    at = np.resize(rows, count)
    part = FactorBatch(
        group.function,
        group.domains,
        group.factors[at],
        group.scopes[at],
        tuple(p[at] for p in group.parameters),
    )
    again = np.resize(np.arange(len(rows)), count)
    return np.asarray(compiled(graph, part, [c[again] for c in columns]))[: len(rows)]


def _compile() -> Any:
    """The compiled evaluation, or None without JAX."""
    try:
        from ..problem.potentials import evaluate
    except ImportError:
        return None
    return evaluate
