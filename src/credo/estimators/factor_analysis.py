"""Factor analysis by variational Bayes: new columns are the factors of rows."""

from __future__ import annotations

import os
from typing import Any, Literal, Self

import numpy as np

from ..core import check
from ..core.records import register
from ..families.gaussian import Gaussian
from ..families.independent import IndependentRows
from ..inference.portfolio.templates import sequence_log_z
from ..learning.base import fit
from ..learning.vb import VariationalBayes
from ..models.factor_analysis import FactorAnalysis
from ..optimise.run import noted
from .inputs import read_rows
from .transformers import TransformerEstimator

__all__ = ["BayesianFactorAnalysis"]


@register("BayesianFactorAnalysis")
class BayesianFactorAnalysis(TransformerEstimator):
    """Factors that columns of numbers share; how many there are is found. NaN in rows is missing.

    Parameters
    ----------
    n_components
        How many factors there may be at most; None is one less than the columns.
    noise
        `"diagonal"`, a variance per column, or `"isotropic"`, one for all.
    prune
        Whether factors that the data do not need are left out.
    n_init, max_iter, tol, random_state
        Random starts, when each of them stops, and their seed.

    Attributes are `components_` (factors, columns), `noise_variance_`, `mean_`, `n_components_` (how many
    factors are used), `posterior_`, `model_` (the Gaussian of the rows), `lower_bound_` and `fit_`.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.estimators import BayesianFactorAnalysis
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2)) @ rng.normal(size=(2, 8)) + 0.5 * rng.normal(size=(300, 8))
    >>> found = BayesianFactorAnalysis(6, random_state=0).fit(X)
    >>> found.n_components_, found.transform(X).shape
    (2, (300, 2))
    """

    _allows_nan = True

    posterior_: Any

    def __init__(
        self,
        n_components: int | None = None,
        *,
        noise: Literal["diagonal", "isotropic"] = "diagonal",
        prune: bool = True,
        n_init: int = 1,
        max_iter: int = 5000,
        tol: float = 1e-5,
        random_state: Any = None,
    ) -> None:
        self.n_components, self.noise, self.prune, self.n_init = n_components, noise, prune, n_init
        self.max_iter, self.tol, self.random_state = max_iter, tol, random_state

    @noted
    def fit(
        self, X: Any, y: Any = None, *, checkpoint: str | os.PathLike[str] | None = None, every: float = 60
    ) -> Self:
        """Learn from rows; `y` is not used, `checkpoint` and `every` are as in `credo.fit`."""
        check.one_of("prune", self.prune, [False, True])
        rows = read_rows(self, X, reset=True, least=2)
        learner = VariationalBayes(prune="unused" if self.prune else "none", restarts=self.n_init)
        found = fit(
            FactorAnalysis(self.n_components, noise=self.noise), rows, learner, max_iter=self.max_iter,
            tol=self.tol, seed=self._seed(), checkpoint=checkpoint, every=every,
        )  # fmt: skip
        self._keep_fit(found)
        self.posterior_ = found.posterior
        return self

    def _columns(self, X: Any) -> np.ndarray:
        """Expected factors of rows, (rows, factors)."""
        posterior = self._learned("posterior_")
        return posterior.latent(read_rows(self, X))  # type: ignore[no-any-return]

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    @property
    def n_components_(self) -> int:
        """How many factors are used."""
        return int(self._learned("posterior_").factors)

    @property
    def components_(self) -> np.ndarray:
        """Expected loadings, (factors, columns)."""
        return self._learned("posterior_").loadings.T  # type: ignore[no-any-return]

    @property
    def noise_variance_(self) -> np.ndarray:
        """Variances that no factor explains, (columns,)."""
        return self._learned("posterior_").noise  # type: ignore[no-any-return]

    @property
    def mean_(self) -> np.ndarray:
        """Means of the columns."""
        return self._learned("posterior_").centre  # type: ignore[no-any-return]

    @property
    def model_(self) -> Gaussian:
        """The Gaussian that the factors make of the rows."""
        return self._learned("posterior_").mean()  # type: ignore[no-any-return]

    @property
    def lower_bound_(self) -> float:
        """The free energy, below the log evidence of the data."""
        return float(self._learned("fit_").evidence.value)

    def get_covariance(self) -> np.ndarray:
        """The covariance of the rows, (columns, columns)."""
        return self.model_.covariances[0]  # type: ignore[no-any-return]

    def score_samples(self, X: Any) -> np.ndarray:
        """Log density of every row."""
        model = IndependentRows(self.model_)
        return sequence_log_z(model, model.sequences(read_rows(self, X)))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log density of the rows."""
        return float(self.score_samples(X).mean())
