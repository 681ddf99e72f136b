r"""Gaussian rows whose columns share a few hidden numbers: the covariance is that of factor analysis.

    z ~ N(0, I),   x | z ~ N(mu + Lambda z, diag psi),      so  x ~ N(mu, Lambda Lambda' + diag psi)

The M-step maximises  -log |C| - tr(C^-1 S)  for the covariance S of the rows. Given psi the best loadings
are known: with the eigenvectors u_1, u_2, ... of psi^-1/2 S psi^-1/2 in the order of their values l_1, ...,

    Lambda = psi^1/2 U_k (diag l_k - 1)_+^1/2,

and what is left is a function of psi with a simple slope,

    f(psi) = 1/2 sum_d log psi_d + 1/2 sum_{i<=k, l_i>1} (1 + log l_i) + 1/2 sum_{others} l_j,
    df / d psi_d = 1/2 sum_{others} (1 - l_j) u_dj^2 / psi_d,

which L-BFGS lowers in the logarithms; alternating psi and Lambda, as EM does, is slow where a variance
tends to zero (a Heywood case). There it stops at a share of the variance of its column. One variance for
all columns (probabilistic principal components) is the mean of the eigenvalues of S that are left. Rotations
of the loadings say the same; here factors are in the order of what they explain.

Sources: Joreskog 1967; Tipping and Bishop 1999.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core.check import finite_numbers
from ..core.errors import ModelError
from ..core.records import register
from ..optimise.optimisers import LBFGS, Loss
from ..optimise.run import Budget
from .base import frozen, numbers
from .gaussian import Gaussian
from .gaussian_rows import patterns
from .moments import RowMoments

__all__ = ["FactorGaussian", "fit_factors"]

_LIMITS = Budget(1000, 1e-8)  # steps, and the largest slope by the logarithm of a variance
_LEAST = 1e-6  # share of a column's variance that the factors leave at least


class _Profile(NamedTuple):
    """The negative log-likelihood per row with the best loadings, as a function of psi."""

    value: float
    slope: np.ndarray  # (d,) by psi
    loadings: np.ndarray  # (d, factors)

    @classmethod
    def at(cls, wanted: np.ndarray, noise: np.ndarray, factors: int) -> _Profile:
        root = np.sqrt(noise)
        values, vectors = np.linalg.eigh(wanted / (root[:, None] * root))
        values, vectors = values[::-1], vectors[:, ::-1]
        used = (np.arange(len(values)) < factors) & (values > 1)
        top, rest = np.where(used, values, 1.0), np.where(used, 1.0, values)
        value = 0.5 * float(np.log(noise).sum() + np.log(top).sum() + rest.sum())
        slope = 0.5 * (vectors**2 @ (1.0 - rest)) / noise
        loadings = root[:, None] * vectors * np.sqrt(top - 1.0)
        more = max(factors - len(values), 0)  # factors that explain nothing
        return cls(value, slope, np.pad(loadings[:, :factors], ((0, 0), (0, more))))


def fit_factors(
    covariance: np.ndarray,
    factors: int,
    noise: np.ndarray | None = None,
    *,
    isotropic: bool = False,
    floor: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Loadings (d, factors) and variances (d,) of the highest likelihood for rows with this covariance.

    Parameters
    ----------
    covariance
        Of the rows, (d, d).
    factors
        How many.
    noise
        Variances to start from; half of those of the columns if left out.
    isotropic
        Whether one variance is that of all columns.
    floor
        Of the variances; at least a small share of that of their column.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.families.factor_gaussian import fit_factors
    >>> loadings, noise = fit_factors(np.array([[5.0, 2.0, 2.0], [2.0, 2.0, 1.0], [2.0, 1.0, 3.0]]), 1)
    >>> np.abs(loadings[:, 0]).round(4), noise.round(4)
    (array([2., 1., 1.]), array([1., 1., 2.]))
    """
    variances = covariance.diagonal()
    if not (variances > 0).all() and not floor > 0:
        raise ModelError(
            f"noise: column {int(variances.argmin())} does not vary, which leaves no variance; leave it out, "
            "or give a floor"
        )
    if isotropic:
        left = np.linalg.eigvalsh(covariance)[: max(len(covariance) - factors, 1)].mean()
        found = np.full(len(covariance), max(float(left), _LEAST * float(variances.mean()), floor))
        return _Profile.at(covariance, found, factors).loadings, found
    least = np.maximum(_LEAST * variances, floor)
    first = 0.5 * variances if noise is None else noise

    def cost(logs: np.ndarray) -> tuple[float, np.ndarray]:
        left = np.exp(logs)
        here = _Profile.at(covariance, least + left, factors)
        return here.value, here.slope * left

    start = np.log(np.maximum(first - least, least))
    logs = LBFGS().minimise(Loss(cost), start, _LIMITS)[0]
    found = least + np.exp(logs)
    return _Profile.at(covariance, found, factors).loadings, found


@register("FactorGaussian", fields=["mean", "loadings", "noise", "isotropic"])
class FactorGaussian(Gaussian):
    """Gaussian members with loadings on hidden factors; immutable.

    Parameters
    ----------
    mean
        Shape (members, d).
    loadings
        Shape (members, d, factors).
    noise
        Variances that no factor explains, above zero, (members, d).
    isotropic
        Whether one variance is that of all columns, also when it is learned.

    Examples
    --------
    >>> import numpy as np
    >>> import credo
    >>> from credo.families import FactorGaussian
    >>> truth = FactorGaussian([[0.0, 0.0, 0.0]], [[[2.0], [1.0], [-1.0]]], [[1.0, 1.0, 1.0]])
    >>> x, _ = credo.sample(truth, 4000, seed=0)
    >>> found = credo.fit(credo.models.FactorAnalysis(1), x).model
    >>> bool(np.allclose(np.abs(found.loadings[0, :, 0]), [2, 1, 1], atol=0.1))
    True
    """

    def __init__(self, mean: Any, loadings: Any, noise: Any, isotropic: bool = False) -> None:
        given, left = finite_numbers("loadings", loadings), numbers("noise", noise, 2)
        if given.ndim != 3:
            raise ModelError(f"loadings: expected shape (members, columns, factors), got {given.shape}")
        if left.shape != given.shape[:2]:
            raise ModelError(f"noise: expected a variance for every row of loadings, got shape {left.shape}")
        if not (left > 0).all():
            raise ModelError(f"noise: expected variances above zero, got {left.min():g}")
        if isotropic and np.ptp(left, axis=1).any():
            raise ModelError("noise: expected one variance for all columns, as isotropic says, got several")
        self.loadings, self.noise, self.isotropic = frozen(given), frozen(left), bool(isotropic)
        d = given.shape[1]
        super().__init__(mean, given @ np.swapaxes(given, 1, 2) + left[:, :, None] * np.eye(d))

    @property
    def factors(self) -> int:
        """How many hidden numbers a row has."""
        return self.loadings.shape[2]

    @property
    def n_parameters(self) -> int:
        """Means, variances, and loadings less the rotations that change nothing."""
        d, k = self.loadings.shape[1:]
        return len(self) * (d + (1 if self.isotropic else d) + d * k - k * (k - 1) // 2)

    @property
    def starts_apart(self) -> bool:
        """One member has nothing to be apart from."""
        return len(self) == 1

    def latent(self, x: Any) -> np.ndarray:
        """E[z] of every row under every member, (rows, members, factors); NaN is missing."""
        rows = self.rows(x)
        found = np.empty((len(rows), len(self), self.factors))
        for seen, where in patterns(rows):
            for m, (loadings, noise) in enumerate(zip(self.loadings, self.noise, strict=True)):
                weighed = loadings[seen] / noise[seen, None]
                precision = np.eye(self.factors) + loadings[seen].T @ weighed
                gap = (rows[where] - self.mean[m])[:, seen]
                found[where, m] = np.linalg.solve(precision, (gap @ weighed).T).T
        return found

    def update(
        self, counts: None, sums: RowMoments, prior: Any = None, *, floor: float = 0.0
    ) -> FactorGaussian:
        """Means, and factor analysis of the covariance of every member from its present variances."""
        if prior is not None:
            raise ModelError(f"prior of factors: expected None, got {type(prior).__name__}; learn them by vb")
        mean, loadings, noise = self.mean.copy(), self.loadings.copy(), self.noise.copy()
        for m in np.flatnonzero(sums.count > 0):
            covariance = sums.scatter[m].reshape(2 * (self.dimension,)) / sums.count[m]
            mean[m] = sums.mean[m]
            loadings[m], noise[m] = fit_factors(
                covariance, self.factors, noise[m], isotropic=self.isotropic, floor=floor
            )
        return FactorGaussian(mean, loadings, noise, self.isotropic)

    def take(self, members: Any) -> FactorGaussian:
        """Some of the members."""
        return FactorGaussian(
            self._mean[members], self.loadings[members], self.noise[members], self.isotropic
        )

    def initialise(self, x: np.ndarray, rng: np.random.Generator) -> FactorGaussian:
        """Distant rows as means; random loadings that explain about half of the variances."""
        means, spread = self._seeds(x, rng)
        scale = np.sqrt(spread / (2 * max(self.factors, 1)))
        loadings = rng.standard_normal(self.loadings.shape) * scale[:, None]
        noise = np.full(len(spread), spread.mean()) if self.isotropic else spread
        return FactorGaussian(means, loadings, np.tile(0.5 * noise, (len(self), 1)), self.isotropic)
