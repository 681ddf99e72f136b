r"""Gaussian trees with a sparse Cholesky factor of the precision, and their mixtures.

A tree is rooted; every other variable c has the linear-Gaussian conditional

    x_c | x_p  ~  N( mu_c + w_c (x_p - mu_p), s_c^2 ),         p the variable above c,

so with leaves before roots the precision is L L', where column c of L has 1 / s_c on the diagonal and -w_c /
s_c in the row of p, and nothing else: eliminating leaves first fills nothing in. Any values of mu, w and log
s are allowed; the precision is positive definite and has a zero wherever the tree has no edge. The
derivatives of the log density of one component by its mean and by an entry of its precision Delta (Sigma =
Delta^-1) are

    Delta (x - mu),      (Sigma - (x - mu)(x - mu)')_ij / 2   on the diagonal, twice that for a pair i, j.

In a mixture they are multiplied by the responsibility lambda_m N_m(x) / b(x).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...families.densities import MixtureDensity
from .components import effective_number

__all__ = ["GaussianTree", "GaussianTreeMixture", "precision_score"]


@dataclass(frozen=True, eq=False)
class GaussianTree:
    """A multivariate Gaussian on a rooted forest."""

    up: np.ndarray  # (n,) the variable above each, -1 for roots
    order: np.ndarray  # (n,) every variable after the one above it
    mean: np.ndarray  # (n,)
    slope: np.ndarray  # (n,) w, not used for roots
    sd: np.ndarray  # (n,) s, given the variable above

    @classmethod
    def of_precision(
        cls, up: np.ndarray, order: np.ndarray, precision: np.ndarray, shift: np.ndarray
    ) -> GaussianTree:
        """The tree part of the density exp(-x'Jx / 2 + h'x), by elimination from the leaves.

        Raises `numpy.linalg.LinAlgError` if the tree part of J is not positive definite.
        """
        n = len(up)
        pivot, shifted = np.diagonal(precision).astype(np.float64).copy(), shift.astype(np.float64).copy()
        slope, sd, mean = np.zeros(n), np.zeros(n), np.zeros(n)
        for c in order[::-1]:
            if pivot[c] <= 0:
                raise np.linalg.LinAlgError("the precision is not positive definite on this tree")
            sd[c] = pivot[c] ** -0.5
            p = up[c]
            if p >= 0:
                slope[c] = -precision[c, p] / pivot[c]
                pivot[p] -= precision[c, p] ** 2 / pivot[c]
                shifted[p] += slope[c] * shifted[c]
        for c in order:
            mean[c] = shifted[c] * sd[c] ** 2 + (slope[c] * mean[up[c]] if up[c] >= 0 else 0.0)
        return cls(up, order, mean, slope, sd)

    def cholesky(self) -> Any:
        """The factor L as a sparse matrix, rows and columns from leaves to roots (`order` backwards)."""
        from scipy.sparse import csc_array

        n = len(self.up)
        place = np.empty(n, dtype=np.int64)
        place[self.order[::-1]] = np.arange(n)
        c = np.flatnonzero(self.up >= 0)
        rows = np.concatenate([place, place[self.up[c]]])
        columns = np.concatenate([place, place[c]])
        values = np.concatenate([1 / self.sd, -self.slope[c] / self.sd[c]])
        return csc_array((values, (rows, columns)), shape=(n, n))

    def precision(self) -> Any:
        """The precision L L' as a sparse matrix, in the order of the variables."""
        factor = self.cholesky()
        place = np.empty(len(self.up), dtype=np.int64)
        place[self.order[::-1]] = np.arange(len(self.up))
        return (factor @ factor.T).tocsr()[place][:, place]

    def covariance(self) -> np.ndarray:
        """The covariance, (n, n)."""
        n = len(self.up)
        found = np.zeros((n, n))
        for count, c in enumerate(self.order):
            done, p = self.order[:count], self.up[c]
            if p >= 0:
                found[c, done] = found[done, c] = self.slope[c] * found[p, done]
            found[c, c] = self.sd[c] ** 2 + (self.slope[c] ** 2 * found[p, p] if p >= 0 else 0.0)
        return found

    @property
    def variance(self) -> np.ndarray:
        """Variance of each variable, (n,), from the root of the tree outwards."""
        found = np.zeros(len(self.up))
        for c in self.order:
            found[c] = self.sd[c] ** 2 + (self.slope[c] ** 2 * found[self.up[c]] if self.up[c] >= 0 else 0.0)
        return found

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Log density of rows (rows, n)."""
        gap = x - self.mean
        above = np.where(self.up >= 0, gap[:, self.up], 0.0)
        whitened = (gap - self.slope * above) / self.sd
        return np.asarray(-0.5 * (whitened**2 + np.log(2 * np.pi)).sum(axis=1) - np.log(self.sd).sum())

    def sample(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Rows (count, n), outwards from the roots."""
        gap = self.sd * rng.standard_normal((count, len(self.up)))
        for c in self.order:
            if self.up[c] >= 0:
                gap[:, c] += self.slope[c] * gap[:, self.up[c]]
        return self.mean + gap


@dataclass(frozen=True, eq=False, repr=False)
class GaussianTreeMixture:
    """The density sum_m weights[m] N_m(x) that was found: what a run keeps as its state."""

    names: tuple[str, ...]  # of the variables
    weights: np.ndarray  # (components,)
    trees: tuple[GaussianTree, ...]  # the components

    @property
    def effective(self) -> float:
        """Effective number of components: of the entropy of the weights, those that coincide counted once."""
        return effective_number(self.weights, self.overlaps)

    @property
    def overlaps(self) -> np.ndarray:
        """(components, components) Bhattacharyya coefficients."""
        covariances, found = [t.covariance() for t in self.trees], np.eye(len(self.trees))
        for k, one in enumerate(self.trees):
            for j, other in enumerate(self.trees[:k]):
                both = 0.5 * (covariances[k] + covariances[j])
                gap = one.mean - other.mean
                log_sds = 0.5 * (np.log(one.sd).sum() + np.log(other.sd).sum())
                log = log_sds - 0.5 * np.linalg.slogdet(both)[1] - 0.125 * gap @ np.linalg.solve(both, gap)
                found[k, j] = found[j, k] = np.exp(min(log, 0.0))
        return found

    def edges(self, m: int) -> list[tuple[str, str]]:
        """Names of the linked variables of a component."""
        tree = self.trees[m]
        return [(self.names[tree.up[c]], self.names[c]) for c in tree.order if tree.up[c] >= 0]

    def densities(self) -> dict[str, MixtureDensity]:
        """The marginal of every variable."""
        means = np.array([t.mean for t in self.trees])
        sds = np.sqrt([t.variance for t in self.trees])
        return {
            name: MixtureDensity(self.weights, means[:, i], sds[:, i]) for i, name in enumerate(self.names)
        }

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Log density of rows (rows, n)."""
        with np.errstate(divide="ignore"):
            terms = [np.log(w) + t.log_density(x) for w, t in zip(self.weights, self.trees, strict=True)]
        return np.asarray(np.logaddexp.reduce(terms, axis=0))

    def sample(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Rows (count, n): a component first, then outwards from its roots."""
        rows = np.empty((count, len(self.names)))
        which = rng.choice(len(self.weights), size=count, p=self.weights)
        for m, tree in enumerate(self.trees):
            rows[which == m] = tree.sample(int((which == m).sum()), rng)
        return rows


def precision_score(tree: GaussianTree, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives of the log density at x (n,) by the mean (n,) and by the entries of the precision (n, n).

    Entry (i, j) off the diagonal is the derivative by the one number that stands at (i, j) and at (j, i).
    """
    gap = np.asarray(x, dtype=np.float64) - tree.mean
    half = 0.5 * (tree.covariance() - np.outer(gap, gap))
    return tree.precision() @ gap, 2 * half - np.diag(np.diagonal(half))
