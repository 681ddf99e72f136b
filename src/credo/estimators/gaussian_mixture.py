"""Mixtures of Gaussians by EM, by scikit-learn's names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core import check
from ..core.errors import OptionError
from ..core.numbers import float_array
from ..core.records import register
from ..families.base import Family
from ..families.blank import BlankMixture
from ..families.independent import IndependentRows
from ..families.mixture import Mixture
from ..learning.base import fit
from ..learning.em import EM
from ..optimise.run import noted
from .gaussians import Covariance, gaussian_members, gaussian_shape, shaped_covariances
from .mixtures import MixtureEstimator

__all__ = ["GaussianMixture"]


@register("GaussianMixture")
class GaussianMixture(MixtureEstimator):
    """A mixture of Gaussians of highest likelihood; NaN in rows is missing.

    Parameters
    ----------
    n_components
        How many components.
    covariance_type
        `"full"`, `"tied"` (one for all), `"diag"` or `"spherical"`.
    tol, max_iter
        When to stop: the largest change of a parameter that counts as none, and iterations.
    reg_covar
        Variances below this are raised to it.
    n_init
        Starts; the best is kept.
    weights_init, means_init, precisions_init
        Where the first start begins; what is None comes from the data.
    random_state
        A seed.

    Attributes are `weights_`, `means_`, `covariances_`, `lower_bound_` (log-likelihood per row), `model_`
    (the mixture) and `fit_` (the report).

    Examples
    --------
    >>> import numpy as np
    >>> from credo.estimators import GaussianMixture
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(-5, 1, (50, 2)), rng.normal(5, 1, (50, 2))])
    >>> np.sort(GaussianMixture(2, random_state=0).fit(X).means_[:, 0]).round()
    array([-5.,  5.])
    """

    weights_: np.ndarray  # (components,)
    means_: np.ndarray  # (components, d)
    covariances_: np.ndarray  # in the shape of their kind

    def __init__(
        self,
        n_components: int = 1,
        *,
        covariance_type: Covariance = "full",
        tol: float = 1e-3,
        reg_covar: float = 1e-6,
        max_iter: int = 500,
        n_init: int = 1,
        weights_init: Any = None,
        means_init: Any = None,
        precisions_init: Any = None,
        random_state: Any = None,
    ) -> None:
        self.n_components, self.covariance_type, self.tol = n_components, covariance_type, tol
        self.reg_covar, self.max_iter, self.n_init = reg_covar, max_iter, n_init
        self.weights_init, self.means_init, self.precisions_init = weights_init, means_init, precisions_init
        self.random_state = random_state

    @noted
    def fit(
        self, X: Any, y: Any = None, *, checkpoint: str | os.PathLike[str] | None = None, every: float = 60
    ) -> GaussianMixture:
        """Learn from rows; `y` is not used, `checkpoint` and `every` are as in `credo.fit`."""
        check.whole("n_components", self.n_components, 1)
        check.whole("n_init", self.n_init, 1)
        check.at_least("reg_covar", self.reg_covar, 0)
        rows = self._read(X, reset=True)
        given = {
            name: value
            for name, value in (
                ("weights_", self.weights_init),
                ("means_", self.means_init),
                ("covariances_", self._covariances_init()),
            )
            if value is not None
        }
        start = _Start(
            self, gaussian_shape(self.covariance_type, int(self.n_components), rows.shape[1]), given
        )
        found = fit(
            start, rows, EM(floor=self.reg_covar, restarts=self.n_init), max_iter=self.max_iter, tol=self.tol,
            seed=self._seed(), checkpoint=checkpoint, every=every,
        )  # fmt: skip
        for name, value in self._parts(found.model).items():
            setattr(self, name, np.array(value))
        self._keep_fit(found)
        return self

    def _covariances_init(self) -> np.ndarray | None:
        if self.precisions_init is None:
            return None
        given = float_array("precisions_init", self.precisions_init, error=OptionError)
        return np.linalg.inv(given) if self.covariance_type in ("full", "tied") else 1.0 / given

    def _parts(self, mixture: Mixture) -> dict[str, np.ndarray]:
        mean, covariances = mixture.components.mean, mixture.components.covariances
        return {
            "weights_": mixture.weights[0],
            "means_": mean,
            "covariances_": shaped_covariances(self.covariance_type, covariances, *mean.shape),
        }

    def _built(self, parts: Mapping[str, Any]) -> Mixture:
        members = gaussian_members(self.covariance_type, parts["means_"], parts["covariances_"])
        return Mixture(np.asarray(parts["weights_"])[None], members)

    @property
    def model_(self) -> Mixture:
        """The mixture of the parameters."""
        return self._built({n: self._learned(n) for n in ("weights_", "means_", "covariances_")})

    @property
    def precisions_(self) -> np.ndarray:
        """Inverse covariances, in the shape of their kind."""
        precisions = np.linalg.inv(self.model_.components.covariances)
        return shaped_covariances(self.covariance_type, precisions, *self.means_.shape)

    @property
    def lower_bound_(self) -> float:
        """Log-likelihood per row of the training data."""
        return float(self._learned("fit_").objective[-1])

    def bic(self, X: Any) -> float:
        """Bayesian information criterion, -2 log-likelihood + parameters log(rows); lower is better."""
        each = self.score_samples(X)
        return float(-2 * each.sum() + self.model_.n_parameters * np.log(len(each)))

    def aic(self, X: Any) -> float:
        """Akaike information criterion, -2 log-likelihood + 2 parameters; lower is better."""
        return float(-2 * self.score_samples(X).sum() + 2 * self.model_.n_parameters)


class _Start(BlankMixture):
    """A blank of an estimator: some of the parameters are given, the others come from data."""

    def __init__(self, estimator: GaussianMixture, members: Family, given: Mapping[str, Any]) -> None:
        super().__init__(len(members))
        self._estimator, self._shape, self._given = estimator, members, given

    def _members(self, source: Any, reading: Mapping[str, Any]) -> Family:
        return self._shape

    def fill(self, source: Any, rng: np.random.Generator, **options: Any) -> IndependentRows:
        """Members that are apart, with what is given in its place."""
        found = super().fill(source, rng, **options)
        parts = {**self._estimator._parts(found.family), **self._given}
        return IndependentRows(self._estimator._built(parts))
