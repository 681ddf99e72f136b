"""Mixtures by variational Bayes, by scikit-learn's names."""

from __future__ import annotations

import os
from typing import Any, Literal

import numpy as np

from ..core import check
from ..core.records import register
from ..families.base import Family
from ..families.blank import members_of
from ..families.conjugate import Conjugate
from ..families.dirichlet import Dirichlet
from ..families.mixture import Mixture, MixturePrior
from ..families.posteriors import MixturePosterior
from ..families.stick_breaking import StickBreaking
from ..learning.base import fit
from ..learning.vb import VariationalBayes
from ..optimise.run import noted
from .gaussians import shaped_covariances
from .inputs import read_sequences
from .mixtures import MixtureEstimator

__all__ = ["BayesianMixture"]

_TYPES = {"full": "gaussian", "diag": "diagonal"}


@register("BayesianMixture")
class BayesianMixture(MixtureEstimator):
    """A mixture whose number of components is found by variational Bayes; NaN in rows is missing.

    Parameters
    ----------
    n_components
        How many components there may be at most; ones that the data do not need are removed.
    family
        Of a component: `"gaussian"`, `"categorical"`, `"poisson"`; the last two have one column.
    covariance_type
        Of Gaussians, `"full"` or `"diag"`.
    weight_concentration_prior_type, weight_concentration_prior
        `"dirichlet_distribution"` or `"dirichlet_process"` (a stick broken into `n_components` pieces), and
        its parameter, 1 / n_components or 1 by default.
    prior
        The conjugate prior of a component; a weak one at the scale of the data by default.
    adapt
        Hyper-parameters to learn, of `"weights"` and `"components"`.
    prune
        Which components to remove: those without rows (`"unused"`), on trial any other (`"search"`), or none.
    n_init, max_iter, tol, random_state
        Random starts, when each of them stops, and their seed.

    Attributes are `posterior_` (the distribution over the parameters), `model_` (the mixture with expected
    ones) with its parts `weights_`, `means_`, `covariances_`, `n_components_` (how many are used), `fit_`
    (the report) and `lower_bound_` (the free energy).

    Examples
    --------
    >>> import numpy as np
    >>> from credo.estimators import BayesianMixture
    >>> rng = np.random.default_rng(0)
    >>> x = np.concatenate([rng.normal(-5, 1, (50, 2)), rng.normal(5, 1, (50, 2))])
    >>> mixture = BayesianMixture(6, weight_concentration_prior=0.01, random_state=0).fit(x)
    >>> mixture.n_components_, len(set(mixture.predict(x)[:50]))
    (2, 1)
    """

    posterior_: MixturePosterior

    def __init__(
        self,
        n_components: int = 10,
        *,
        family: Literal["gaussian", "categorical", "poisson"] = "gaussian",
        covariance_type: Literal["full", "diag"] = "full",
        weight_concentration_prior_type: Literal[
            "dirichlet_distribution", "dirichlet_process"
        ] = "dirichlet_distribution",
        weight_concentration_prior: float | None = None,
        prior: Conjugate | None = None,
        adapt: tuple[str, ...] = (),
        prune: Literal["unused", "search", "none"] = "unused",
        n_init: int = 1,
        max_iter: int = 1000,
        tol: float = 1e-5,
        random_state: Any = None,
    ) -> None:
        self.n_components, self.family, self.covariance_type = n_components, family, covariance_type
        self.weight_concentration_prior_type = weight_concentration_prior_type
        self.weight_concentration_prior = weight_concentration_prior
        self.prior, self.adapt, self.prune = prior, adapt, prune
        self.n_init, self.max_iter, self.tol, self.random_state = n_init, max_iter, tol, random_state

    @noted
    def fit(
        self, X: Any, y: Any = None, *, checkpoint: str | os.PathLike[str] | None = None, every: float = 60
    ) -> BayesianMixture:
        """Learn from rows; `y` is not used, `checkpoint` and `every` are as in `credo.fit`."""
        rows, members = self.members(X)
        check.one_of("prune", self.prune, ["unused", "search", "none"])
        learner = VariationalBayes(prune=self.prune, adapt=tuple(self.adapt), restarts=self.n_init)
        found = fit(
            Mixture(np.full((1, len(members)), 1.0 / len(members)), members), rows, learner,
            prior=self.mixture_prior(self.prior), max_iter=self.max_iter, tol=self.tol, seed=self._seed(),
            checkpoint=checkpoint, every=every,
        )  # fmt: skip
        self._keep_fit(found)
        self.posterior_ = found.posterior
        return self

    def mixture_prior(self, components: Conjugate | None) -> MixturePrior:
        """The prior of weights as the options say, with this one of the components."""
        kind = self.weight_concentration_prior_type
        check.one_of("weight_concentration_prior_type", kind, ["dirichlet_distribution", "dirichlet_process"])
        is_stick = kind == "dirichlet_process"
        usual = 1.0 if is_stick else 1.0 / self.n_components
        given = self.weight_concentration_prior
        a = usual if given is None else given
        check.at_least("weight_concentration_prior", a, 1e-10)
        count = self.n_components
        weights = StickBreaking.prior(count, a) if is_stick else Dirichlet([[a] * count])
        return MixturePrior(weights, components)

    def members(self, X: Any) -> tuple[np.ndarray, Family]:
        """The data as an array, and members of the family in their shape."""
        check.whole("n_components", self.n_components, 1)
        check.one_of("family", self.family, ["categorical", "gaussian", "poisson"])
        check.one_of("covariance_type", self.covariance_type, list(_TYPES))
        rows = self._read(X, reset=True)
        if self.family == "gaussian":
            return rows, members_of(_TYPES[self.covariance_type], int(self.n_components), rows.shape[1])
        top = int(np.nanmax(rows)) if (~np.isnan(rows)).any() else 0
        return rows, members_of(self.family, int(self.n_components), max(top + 1, 2))

    def _read(self, X: Any, *, reset: bool = False) -> np.ndarray:
        return read_sequences(self, X, reset=reset, flat=self.family != "gaussian").rows

    def _asked(self) -> MixturePosterior:
        return self._learned("posterior_")  # type: ignore[no-any-return]

    @property
    def model_(self) -> Mixture:
        """The mixture with expected parameters."""
        return self._learned("posterior_").mean()  # type: ignore[no-any-return]

    @property
    def weights_(self) -> np.ndarray:
        """Expected weights, (components,)."""
        return self._learned("posterior_").weights.mean()  # type: ignore[no-any-return]

    @property
    def n_components_(self) -> int:
        """How many components are used."""
        return len(self._learned("posterior_"))

    @property
    def means_(self) -> np.ndarray:
        """Expected means of Gaussian components, (components, d)."""
        return self.model_.components.mean  # type: ignore[no-any-return]

    @property
    def covariances_(self) -> np.ndarray:
        """Inverses of the expected precisions of Gaussian components, in the shape of their kind."""
        found = self.model_.components
        return shaped_covariances(self.covariance_type, found.covariances, *found.mean.shape)

    @property
    def lower_bound_(self) -> float:
        """The free energy, below the log evidence of the data."""
        return float(self._learned("fit_").evidence.value)

    def score_samples(self, X: Any) -> np.ndarray:
        """Log predictive density of every row; rows with missing coordinates under expected parameters."""
        rows = self._read(X)
        if self.family == "gaussian" and self.covariance_type == "full" and np.isnan(rows).any():
            return super().score_samples(X)
        found = self._learned("posterior_")
        return found.predictive(found.components.mean().rows(rows))  # type: ignore[no-any-return]
