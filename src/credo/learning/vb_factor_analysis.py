r"""Variational Bayes for factor analysis, with automatic relevance determination of the factors.

    z_n ~ N(0, I),   x_n ~ N(mu + Lambda z_n, diag psi),   Lambda_dk ~ N(0, 1 / alpha_k)

    q(z_n) = N(m_n, S),   S^-1 = I + sum_d E[l_d l_d'] / psi_d,   m_n = S sum_d l_d (x_nd - mu_d) / psi_d
    q(l_d) = N(l_d, S_d),  S_d^-1 = sum_n E[z z'] / psi_d + diag alpha,
             l_d = S_d sum_n (x_nd - mu_d) m_n / psi_d
    mu, psi, alpha by maximising F;   alpha_k = D / sum_d E[Lambda_dk^2]

Sums over d and n run over observed values. The alpha of factors that the data do not need grow without bound,
and their columns vanish: the rank is learned. Alternating these updates alone takes thousands of sweeps,
because z and Lambda only move against each other. So each sweep also applies the linear map z -> R z,
Lambda -> Lambda R^-1 that maximises F, which is known in closed form: it makes the mean of E[z z'] the
identity, at the top of -tr(R Z R')/2 + N log |R|, and E[Lambda' Lambda] diagonal. Factors that vanish are
removed on the way. F never falls. Cost per sweep O(N D K + D K^3), the K^3 part once per pattern of missing
values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import DataError
from ..core.records import record, register
from ..data.dataset import Dataset
from ..families.factor_gaussian import FactorGaussian
from ..families.gaussian_rows import patterns
from ..families.natural import LOG_2PI
from ..families.number_rows import number_rows
from ..families.product import Product
from .base import Fit
from .em_data import Expected
from .em_steps import EMRun, EMStart, fit_of
from .vb_steps import Variational, posterior_fit

__all__ = ["FactorPosterior", "Factors", "factor_problem", "factors_of"]

_LEAST = 1e-6  # noise variances below this share of a column's variance are raised to it
_LEVEL = 1e3  # a factor matters if its precision is below this times that of one which explains all
_MOST = 1e12  # alpha, relative to that of a factor that explains everything, beyond which all is rounding


@register("FactorPosterior")
@dataclass(frozen=True)
class FactorPosterior:
    """The distribution over the loadings, with the parameters that are maximised."""

    loadings: np.ndarray  # (d, factors) E[Lambda]
    covariances: np.ndarray  # (d, factors, factors) of the rows of Lambda
    alpha: np.ndarray  # (factors,) precision of each column
    noise: np.ndarray  # (d,) psi
    centre: np.ndarray  # (d,) mu

    @property
    def factors(self) -> int:
        """How many factors there are."""
        return len(self.alpha)

    @property
    def second_moments(self) -> np.ndarray:
        """E[l_d l_d'], (d, factors, factors)."""
        return self.covariances + self.loadings[:, :, None] * self.loadings[:, None, :]

    def relevant(self, level: float = _LEVEL) -> np.ndarray:
        """Which factors matter: alpha below `level` times that of one which explains all the variance."""
        explained = (self.second_moments.diagonal(axis1=1, axis2=2).sum() + self.noise.sum()) / level
        return len(self.noise) / self.alpha > explained

    def latent(self, x: Any) -> np.ndarray:
        """E[z] of rows, (rows, factors); NaN is missing."""
        return _latent(self, number_rows(x, len(self.centre)))[0]

    def filled(self, x: Any) -> np.ndarray:
        """The rows with missing values replaced by their expectations."""
        rows = number_rows(x, len(self.centre))
        return np.where(np.isnan(rows), self.centre + _latent(self, rows)[0] @ self.loadings.T, rows)

    def mean(self) -> FactorGaussian:
        """Expected loadings, and the expected covariance E[Lambda Lambda'] + diag psi."""
        left = self.noise + self.covariances.trace(axis1=1, axis2=2)
        return FactorGaussian([self.centre], [self.loadings], [left])

    def divergence(self) -> float:
        """KL of the loadings to their prior."""
        squares = self.second_moments.diagonal(axis1=1, axis2=2)
        logs = np.linalg.slogdet(self.covariances)[1].sum() + len(self.noise) * np.log(self.alpha).sum()
        return 0.5 * float((squares * self.alpha).sum() - squares.size - logs)

    def take(self, kept: np.ndarray) -> FactorPosterior:
        """Some of the factors."""
        covariances = self.covariances[:, kept][:, :, kept]
        return replace(self, loadings=self.loadings[:, kept], covariances=covariances, alpha=self.alpha[kept])

    def __repr__(self) -> str:
        return f"FactorPosterior({self.factors} factors, {len(self.noise)} dimensions)"


@record("factor statistics")
class _Hidden(NamedTuple):
    mean: np.ndarray  # (rows, factors) E[z]
    second: np.ndarray  # (d, factors, factors) sum of E[z z'] over rows that observe coordinate d
    total: np.ndarray  # (factors, factors) sum of E[z z'] over all rows


def _latent(q: FactorPosterior, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """E[z], the covariance sums per pattern spread to coordinates, and the log weight of all rows."""
    k, d = q.factors, len(q.noise)
    means, log_weight = np.empty((len(x), k)), 0.0
    spread = np.zeros((d + 1, k, k))  # covariance sums per coordinate; the last is over all rows
    for seen, where in patterns(x):
        gap = (x[where] - q.centre)[:, seen]
        precision = np.eye(k) + np.tensordot(1.0 / q.noise[seen], q.second_moments[seen], axes=1)
        pull = gap @ (q.loadings[seen] / q.noise[seen, None])
        covariance = np.linalg.inv(precision)
        covariance = 0.5 * (covariance + covariance.T)
        means[where] = pull @ covariance
        fit = 0.5 * float((means[where] * pull).sum() - (gap**2 / q.noise[seen]).sum())
        logs = np.linalg.slogdet(precision)[1] + (LOG_2PI + np.log(q.noise[seen])).sum()
        log_weight += fit - 0.5 * len(where) * float(logs)
        spread[np.append(seen, True)] += len(where) * covariance
    return means, spread, log_weight


@dataclass(frozen=True)
class Factors(Variational):
    """Factor analysis with its data."""

    x: np.ndarray  # (rows, d), NaN where missing
    isotropic: bool  # whether the noise has one variance for all columns
    floor: np.ndarray  # (d,) least noise
    largest: float  # alpha
    most: int  # factors at the start
    prune: bool  # whether factors that do not matter are removed
    family: Any  # that of the rows, which the model of a fit is one of

    @property
    def rows(self) -> float:  # type: ignore[override]
        """How many there are."""
        return float(len(self.x))

    def start(self, rng: np.random.Generator, number: int) -> EMStart:
        """Random loadings that explain half of the variances."""
        variances, (width, most) = np.nanvar(self.x, axis=0), (self.x.shape[1], self.most)
        scale = np.sqrt(variances / most)
        spread = np.broadcast_to(0.01 * np.eye(most), (width, most, most)) * variances[:, None, None]
        first = np.full(width, variances.mean()) if self.isotropic else variances
        loadings = rng.standard_normal((width, most)) * scale[:, None]
        drawn = FactorPosterior(loadings, spread, np.ones(most), 0.5 * first, np.nanmean(self.x, axis=0))
        return EMStart(self.adapt(drawn))

    def expect(self, q: FactorPosterior) -> Expected:
        """Moments of the hidden numbers."""
        mean, spread, log_weight = _latent(q, self.x)
        seen = ~np.isnan(self.x)
        second = spread[:-1] + np.einsum("nd,ni,nj->dij", seen.astype(float), mean, mean, optimize=True)
        return Expected(log_weight, _Hidden(mean, second, spread[-1] + mean.T @ mean))

    def maximise(self, statistics: _Hidden, q: FactorPosterior) -> FactorPosterior:
        """New loadings, then mu and psi."""
        seen = ~np.isnan(self.x)
        gap = np.where(seen, self.x - q.centre, 0.0)
        precision = statistics.second / q.noise[:, None, None] + np.diag(q.alpha)
        covariances = np.linalg.inv(precision)
        covariances = 0.5 * (covariances + np.swapaxes(covariances, 1, 2))
        pull = (gap.T @ statistics.mean) / q.noise[:, None]
        loadings = np.einsum("dij,dj->di", covariances, pull)
        q = replace(q, loadings=loadings, covariances=covariances)
        return self._point(statistics, q, seen)

    def _point(self, hidden: _Hidden, q: FactorPosterior, seen: np.ndarray) -> FactorPosterior:
        """New mu, then psi, by maximising F."""
        count = seen.sum(axis=0)
        fitted = hidden.mean @ q.loadings.T
        centre = q.centre + np.where(seen, self.x - q.centre - fitted, 0.0).sum(axis=0) / count
        gap = np.where(seen, self.x - centre, 0.0)
        square = (gap**2).sum(axis=0) - 2.0 * (gap * fitted).sum(axis=0)
        square += np.einsum("dij,dij->d", hidden.second, q.second_moments)
        noise = np.full(len(count), square.sum() / count.sum()) if self.isotropic else square / count
        q = replace(q, centre=centre, noise=np.maximum(noise, self.floor))
        return self._rotated(q, hidden.total / len(self.x))

    def _rotated(self, q: FactorPosterior, latent: np.ndarray) -> FactorPosterior:
        """The best linear map of the latent space; Lambda -> Lambda R^-1."""
        values, vectors = np.linalg.eigh(latent)
        root = (vectors * np.sqrt(values)) @ vectors.T
        turn = np.linalg.eigh(root @ q.second_moments.sum(axis=0) @ root)[1][:, ::-1]
        back = root @ turn  # R^-1
        covariances = back.T @ q.covariances @ back
        return replace(
            q, loadings=q.loadings @ back, covariances=0.5 * (covariances + np.swapaxes(covariances, 1, 2))
        )

    def adapt(self, q: FactorPosterior) -> FactorPosterior:
        """New alpha, without factors that vanish."""
        squares = q.second_moments.diagonal(axis1=1, axis2=2).sum(axis=0)
        q = replace(q, alpha=np.minimum(len(q.noise) / np.maximum(squares, 1e-300), self.largest))
        # The alpha of a factor that vanishes grows by the same amount each sweep; its limit is to have none.
        return q.take(np.flatnonzero(q.relevant())) if self.prune else q

    def movement(self, q: FactorPosterior, new: FactorPosterior) -> float:
        """Of the expected Gaussian, or of the share of the variance that a factor explains (1 / alpha).

        Rotations of the latent space change nothing; a factor that was removed counts as 1.
        """
        if new.factors < q.factors:
            return 1.0
        before = q.mean()
        scale = len(q.noise) / before.covariances.trace(axis1=1, axis2=2)[0]
        shares = np.abs(1.0 / np.sort(new.alpha) - 1.0 / np.sort(q.alpha)) * scale
        return max(before.movement(new.mean()), float(shares.max(initial=0.0)))

    def fit_of(self, found: EMRun) -> Fit:
        """The fit, as far as it is known without more work."""
        fit, left = fit_of(self, found), found.parameters.factors
        told = [f"{left} of {self.most} factors matter"] if left < self.most else []
        return posterior_fit(replace(fit, notes=(*told, *fit.notes)), found)

    def numbers(self, q: FactorPosterior) -> dict[str, float]:
        """How many factors matter."""
        return {"relevant": float(q.relevant().sum())}

    def made(self, q: FactorPosterior) -> Any:
        """The family of the rows with expected parameters, its columns named as they were."""
        found = q.mean()
        if self.isotropic:
            alike = np.full_like(found.noise, found.noise.mean())
            found = FactorGaussian(found.mean, found.loadings, alike, isotropic=True)
        return _with_part(self.family, found)


def factors_of(model: Any) -> FactorGaussian | None:
    """The one member with loadings that all rows are from, by themselves or as all columns of a table."""
    family = getattr(model, "family", None)
    if isinstance(family, Product) and len(family.parts) == 1:
        family = family.parts[0]
    return family if hasattr(family, "loadings") else None


def _with_part(family: Any, part: FactorGaussian) -> Any:
    """The same family of rows with another member."""
    return Product([part], family.columns, family.domains) if isinstance(family, Product) else part


def factor_problem(model: Any, data: Dataset, prune: bool) -> Factors:
    """Factor analysis of these rows; with `prune`, factors that do not matter are removed on the way."""
    given: Any = factors_of(model)
    rows = _checked(_columns(data.rows()))
    width, variances = rows.shape[1], np.nanvar(rows, axis=0)
    return Factors(
        rows, given.isotropic, np.maximum(_LEAST * variances, 1e-300), _MOST * width / variances.sum(),
        given.factors, prune, model.family,
    )  # fmt: skip


def _columns(rows: np.ndarray) -> np.ndarray:
    """Side by side, where they have names."""
    return rows if rows.dtype.names is None else np.stack([rows[name] for name in rows.dtype.names], axis=1)


def _checked(rows: np.ndarray) -> np.ndarray:
    """Rows that observe nothing are left out: they tell nothing."""
    rows = rows[~np.isnan(rows).all(axis=1)]
    for k in range(rows.shape[1]):
        column = rows[~np.isnan(rows[:, k]), k]
        if not len(column):
            raise DataError(f"data: column {k} has no observed value; leave it out")
        if np.ptp(column) == 0:
            raise DataError(f"data: column {k} is constant; factor analysis needs variation, leave it out")
    return rows
