"""Mixtures by variational Bayes with the interface of scikit-learn, which is not needed for it."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy.special import logsumexp

from ..core import check
from ..core.errors import DataError, QueryError
from ..core.numbers import float_array
from ..core.records import register
from ..families.base import Family
from ..families.categorical import Categorical
from ..families.conjugate import Conjugate
from ..families.dirichlet import Dirichlet
from ..families.gamma import Poisson
from ..families.gaussian import Gaussian
from ..families.gaussian_diagonal import DiagonalGaussian
from ..families.mixture import Mixture, MixturePrior
from ..families.posteriors import MixturePosterior
from ..families.stick_breaking import StickBreaking
from ..inference.exact.hidden_rows import smooth_rows
from ..optimise.run import noted
from .base import Fit, fit
from .estimator import Estimator
from .vb import VariationalBayes

__all__ = ["BayesianMixture"]

_KINDS = ("gaussian", "diagonal", "categorical", "poisson")


@register("BayesianMixture")
class BayesianMixture(Estimator):
    """A mixture whose number of components is found by variational Bayes.

    Parameters
    ----------
    components
        How many components there may be at most; ones that the data do not need are removed.
    family
        Of a component: `"gaussian"` (full covariance), `"diagonal"`, `"categorical"`, `"poisson"`.
    weights, concentration, prior, adapt, prune
        The prior of the weights, its parameter, the conjugate prior of a component, hyper-parameters
        to learn (`"weights"`, `"components"`), and which components to remove: those without rows
        (`"unused"`), on trial any other (`"search"`), or none.
    restarts, max_iter, tol, seed
        Random starts, when each of them stops, and their seed.

    After `fit`, `posterior_` is the distribution over the parameters, `model_` the mixture with expected
    ones, `weights_` and `components_` (how many are used) its parts, `fit_` the whole report and
    `lower_bound_` the free energy.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.learning.bayesian_mixture import BayesianMixture
    >>> rng = np.random.default_rng(0)
    >>> x = np.concatenate([rng.normal(-5, 1, (50, 2)), rng.normal(5, 1, (50, 2))])
    >>> mixture = BayesianMixture(components=6, concentration=0.01, seed=0).fit(x)
    >>> mixture.components_, len(set(mixture.predict(x)[:50]))
    (2, 1)
    """

    _kind = "clusterer"
    posterior_: MixturePosterior
    fit_: Fit

    def __init__(
        self,
        components: int = 10,
        *,
        family: Literal["gaussian", "diagonal", "categorical", "poisson"] = "gaussian",
        weights: Literal["dirichlet", "stick-breaking"] = "dirichlet",
        concentration: float | None = None,
        prior: Conjugate | None = None,
        adapt: tuple[str, ...] = (),
        prune: Literal["unused", "search", "none"] = "unused",
        restarts: int = 1,
        max_iter: int = 1000,
        tol: float = 1e-5,
        seed: int | None = None,
    ) -> None:
        self.components = components
        self.family = family
        self.weights = weights
        self.concentration = concentration
        self.prior = prior
        self.adapt = adapt
        self.prune = prune
        self.restarts = restarts
        self.max_iter = max_iter
        self.tol = tol
        self.seed = seed

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks of an estimator; it is there when this is called."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    @noted
    def fit(self, X: Any, y: Any = None) -> BayesianMixture:
        """Learn from rows; `y` is not used."""
        rows, members = self.members(X)
        check.one_of("prune", self.prune, ["unused", "search", "none"])
        learner = VariationalBayes(prune=self.prune, adapt=tuple(self.adapt), restarts=self.restarts)
        self.fit_ = fit(
            Mixture(np.full((1, len(members)), 1.0 / len(members)), members), rows, learner,
            prior=self.mixture_prior(self.prior), max_iter=self.max_iter, tol=self.tol, seed=self.seed,
        )  # fmt: skip
        self.posterior_ = self.fit_.posterior
        return self

    def mixture_prior(self, components: Conjugate | None) -> MixturePrior:
        """The prior of weights as the options say, with this one of the components."""
        check.one_of("weights", self.weights, ["dirichlet", "stick-breaking"])
        is_stick = self.weights == "stick-breaking"
        usual = 1.0 if is_stick else 1.0 / self.components
        a = usual if self.concentration is None else self.concentration
        check.at_least("concentration", a, 1e-10)
        weights = StickBreaking.prior(self.components, a) if is_stick else Dirichlet([[a] * self.components])
        return MixturePrior(weights, components)

    def members(self, X: Any) -> tuple[np.ndarray, Family]:
        """The data as an array, and members of the family in their shape."""
        check.whole("components", self.components, 1)
        check.one_of("family", self.family, _KINDS)
        rows = _table(X)
        return rows, _members(self.family, self.components, rows)

    @property
    def _found(self) -> MixturePosterior:
        if not hasattr(self, "posterior_"):
            raise QueryError("BayesianMixture: expected a fitted mixture; call fit first")
        return self.posterior_

    @property
    def model_(self) -> Any:
        """The mixture with expected parameters."""
        return self._found.mean()

    @property
    def weights_(self) -> np.ndarray:
        """Expected weights, (components,)."""
        return self._found.weights.mean()

    @property
    def components_(self) -> int:
        """How many components are used."""
        return len(self._found)

    @property
    def means_(self) -> np.ndarray:
        """Expected means of Gaussian components, (components, d)."""
        return self._found.components.mean().mean

    @property
    def lower_bound_(self) -> float:
        """The free energy, below the log evidence of the data."""
        _ = self._found
        assert self.fit_.evidence is not None
        return self.fit_.evidence.value

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of every component for every row, (rows, components)."""
        found = smooth_rows(self._found.instantiate(self._rows(X))).marginals
        return found

    def predict(self, X: Any) -> np.ndarray:
        """The most probable component of every row."""
        return self.predict_proba(X).argmax(axis=1)

    def fit_predict(self, X: Any, y: Any = None) -> np.ndarray:
        """Learn, and say to which component each row belongs."""
        return self.fit(X).predict(X)

    def score_samples(self, X: Any) -> np.ndarray:
        """Log predictive density of every row; rows with missing coordinates under expected parameters."""
        rows = self._rows(X)
        if self.family == "gaussian" and np.isnan(rows).any():
            logs = self._found.mean().components.log_density(rows)
            return logsumexp(np.log(self.weights_) + logs, axis=1)
        return self._found.predictive(rows)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log predictive density of the rows."""
        return float(self.score_samples(X).mean())

    def sample(self, count: int = 1, *, seed: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """New rows and their components, under expected parameters."""
        check.whole("count", count, 1)
        rng = check.generator(self.seed if seed is None else seed)
        labels = rng.choice(self.components_, size=count, p=self.weights_)
        return self._found.components.mean().sample(labels, rng), labels

    def _rows(self, X: Any) -> np.ndarray:
        return self._found.components.mean().rows(_table(X))


def _table(X: Any) -> np.ndarray:
    """Numbers of a data frame, an array or nested lists."""
    found = float_array("data", X, error=DataError, missing=True)
    if not found.size:
        raise DataError("data: expected at least one row, got none")
    return found


def _members(family: str, count: int, x: np.ndarray) -> Family:
    """Members of the kind wanted, in the shape of the data."""
    if family == "poisson":
        return Poisson(np.ones(count))
    if family == "categorical":
        top = int(np.nanmax(x)) if (~np.isnan(x)).any() else 0
        return Categorical(np.full((count, max(top + 1, 2)), 1.0 / max(top + 1, 2)))
    if x.ndim != 2:
        raise DataError(f"data: expected shape (rows, columns), got {x.shape}")
    d = x.shape[1]
    if family == "diagonal":
        return DiagonalGaussian(np.zeros((count, d)), np.ones((count, d)))
    return Gaussian(np.zeros((count, d)), np.tile(np.eye(d), (count, 1, 1)))
