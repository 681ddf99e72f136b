"""Restricted Boltzmann machines: new columns are the probabilities of hidden units.

transform        p(h_j = 1 | v) of every row
score_samples    log p(v); log Z is summed where the smaller layer has 16 units or fewer, and estimated by
annealed importance sampling (1,000 temperatures, 100 chains) beyond that
"""

from __future__ import annotations

import abc
import os
import warnings
from typing import Any, ClassVar, Literal, Self

import numpy as np

from ..core import check
from ..core.errors import ConvergenceWarning
from ..core.records import register
from ..inference.portfolio.question import infer, sample
from ..learning.base import Fit, fit
from ..learning.boltzmann import Boltzmann
from ..learning.infinite import InfiniteBoltzmann
from ..models.rbm import RBM
from ..optimise.optimisers import SGD
from ..optimise.run import noted
from .inputs import read_rows
from .transformers import TransformerEstimator

__all__ = ["BernoulliRBM", "GaussianRBM", "InfiniteRBM"]

_SUMMED = 16  # units of the smaller layer up to which log Z is exact
_ANNEALED = "ais(temperatures=1000, error=1e9)"


class _Machine(TransformerEstimator, abc.ABC):
    """What the estimators share; final classes say how they learn."""

    _visible: ClassVar[Literal["bernoulli", "gaussian"]] = "bernoulli"

    model_: RBM  # the machine that was learned
    n_components: int
    n_iter: int

    @abc.abstractmethod
    def _learner(self, rows: int) -> Boltzmann | InfiniteBoltzmann:
        """The learner with these options, for so many rows."""

    def _learn(self, model: Any, rows: np.ndarray, count: int, **kept: Any) -> Fit:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a number of epochs was asked for
            return fit(
                model, rows, self._learner(len(rows)), max_iter=count, tol=0.0, seed=self._seed(), **kept
            )

    @noted
    def fit(
        self, X: Any, y: Any = None, *, checkpoint: str | os.PathLike[str] | None = None, every: float = 60
    ) -> Self:
        """Learn from rows; `y` is not used, `checkpoint` and `every` are as in `credo.fit`."""
        rows = read_rows(self, X, reset=True)
        blank = RBM.blank(self.n_components, visible=self._visible)
        found = self._learn(blank, rows, self.n_iter, checkpoint=checkpoint, every=every)
        self._keep_fit(found)
        self.model_ = found.model
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """One more epoch, on these rows; chains begin at them."""
        is_first = not hasattr(self, "model_")
        rows = read_rows(self, X, reset=is_first)
        start = RBM.blank(self.n_components, visible=self._visible) if is_first else self.model_
        found = self._learn(start, rows, 1)
        steps = getattr(self, "n_iter_", 0)
        self._keep_fit(found)
        self.n_iter_ = steps + 1
        self.model_ = found.model
        return self

    def _fitted(self) -> RBM:
        found: RBM = self._learned("model_")
        return found

    def _columns(self, X: Any) -> np.ndarray:
        """Probabilities of hidden units."""
        model = self._fitted()
        return model.hidden_given(read_rows(self, X))

    @property
    def _n_features_out(self) -> int:
        return int(self._fitted().weights.shape[1])

    @property
    def components_(self) -> np.ndarray:
        """Weights, (hidden units, visible units)."""
        return self._fitted().weights.T

    @property
    def intercept_hidden_(self) -> np.ndarray:
        """Biases of hidden units."""
        return self._fitted().hidden_bias

    @property
    def intercept_visible_(self) -> np.ndarray:
        """Biases of visible units."""
        return self._fitted().visible_bias

    def log_z(self) -> float:
        """Log Z, exact or by annealed importance sampling."""
        model = self._fitted()
        size = model.weights.shape[1] if model.is_real else min(model.weights.shape)
        if size <= _SUMMED or model.is_real:
            return model.log_z()
        found = infer(model, _ANNEALED, seed=0).log_z
        assert found is not None
        return float(found.value)

    def score_samples(self, X: Any) -> np.ndarray:
        """Log density of every row."""
        model = self._fitted()
        rows = read_rows(self, X)
        return np.asarray(model.log_density(rows, self.log_z()))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log density of the rows."""
        return float(self.score_samples(X).mean())

    def reconstruct(self, X: Any) -> np.ndarray:
        """Visible units as the hidden probabilities of every row say them."""
        model = self._fitted()
        return model.visible_given(model.hidden_given(read_rows(self, X)))

    def gibbs(self, X: Any, sweeps: int = 1) -> np.ndarray:
        """Visible units after some sweeps of Gibbs sampling from every row."""
        check.whole("sweeps", sweeps, 1)
        model, rng = self._fitted(), np.random.default_rng(self._seed())
        rows = read_rows(self, X)
        for _ in range(sweeps):
            hidden = model.hidden_given(rows)
            means = model.visible_given((rng.random(hidden.shape) < hidden).astype(float))
            if model.is_real:
                rows = means + model.sd * rng.standard_normal(means.shape)
            else:
                rows = (rng.random(means.shape) < means).astype(float)
        return np.asarray(rows)

    def sample(self, n_samples: int = 1) -> np.ndarray:
        """Rows of visible units, by chains."""
        model = self._fitted()
        drawn = sample(model, n_samples, method="gibbs(effective=0)", seed=self._seed())
        count = len(model.weights)
        return np.stack([drawn.column(f"v{i}") for i in range(count)], axis=1).astype(float)


class _ByChains(_Machine):
    """Machines of a fixed number of units."""

    def __init__(
        self,
        n_components: int = 256,
        *,
        learning_rate: float = 0.05,
        batch_size: int = 100,
        n_iter: int = 10,
        momentum: float = 0.5,
        negative: str = "pcd",
        sweeps: int | None = None,
        centring: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_components, self.learning_rate, self.batch_size = n_components, learning_rate, batch_size
        self.n_iter, self.momentum, self.negative, self.sweeps = n_iter, momentum, negative, sweeps
        self.centring, self.random_state = centring, random_state

    def _learner(self, rows: int) -> Boltzmann:
        return Boltzmann(
            negative=self.negative,  # type: ignore[arg-type]
            sweeps=self.sweeps,
            batch=self.batch_size,
            centring=self.centring,
            optimiser=SGD(rate=self.learning_rate, momentum=self.momentum),
        )


@register("BernoulliRBM")
class BernoulliRBM(_ByChains):
    """Two-state visible units; columns are probabilities from 0 to 1.

    Parameters
    ----------
    n_components
        Hidden units.
    learning_rate, momentum, batch_size, n_iter
        Of the steps, the rows of each, and how often all rows are gone through.
    negative, sweeps, centring
        As the learner `boltzmann` has them: how the model's side of the slope is found.
    random_state
        Seed.

    Attributes are `components_` (hidden, visible), `intercept_hidden_`, `intercept_visible_`, `model_` and
    `fit_`.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.estimators import BernoulliRBM
    >>> X = np.repeat(np.random.default_rng(0).integers(0, 2, (200, 2)), 2, axis=1)
    >>> chains = dict(negative="cd", learning_rate=0.5, batch_size=20, n_iter=50)
    >>> found = BernoulliRBM(2, **chains, random_state=0).fit(X)
    >>> found.transform(X).shape, bool(found.score(X) > -4 * np.log(2) + 0.5)
    ((200, 2), True)
    """


@register("GaussianRBM")
class GaussianRBM(_ByChains):
    """Real visible units, whose standard deviations given the hidden ones are half those of the columns.

    Parameters
    ----------
    n_components
        Hidden units.
    learning_rate, momentum, batch_size, n_iter
        Of the steps, the rows of each, and how often all rows are gone through.
    negative, sweeps, centring
        As the learner `boltzmann` has them; chains alone treat real units.
    random_state
        Seed.

    Attributes are those of `BernoulliRBM`.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.estimators import GaussianRBM
    >>> X = np.repeat([[0.0, 1.0], [4.0, -3.0]], 50, axis=0) + np.random.default_rng(0).normal(size=(100, 2))
    >>> GaussianRBM(3, learning_rate=0.01, random_state=0).fit(X).transform(X).shape
    (100, 3)
    """

    _visible = "gaussian"


@register("InfiniteRBM")
class InfiniteRBM(_Machine):
    """Two-state visible units, and hidden ones that are added one by one, by Frank-Wolfe.

    Parameters
    ----------
    n_components
        Hidden units at most; fewer where no other is worth more than those there are.
    penalty
        Of half the square of the weights of a unit.
    n_chains
        Chains that are carried on.
    rows
        That a unit is found on, drawn anew for each; None is all.
    random_state
        Seed.

    Attributes are those of `BernoulliRBM`. `partial_fit` adds one unit.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.estimators import InfiniteRBM
    >>> X = np.repeat(np.random.default_rng(0).integers(0, 2, (200, 2)), 2, axis=1)
    >>> found = InfiniteRBM(3, random_state=0).fit(X)
    >>> found.transform(X).shape, bool(found.score(X) > -4 * np.log(2) + 0.5)
    ((200, 3), True)
    """

    def __init__(
        self,
        n_components: int = 100,
        *,
        penalty: float = 0.01,
        n_chains: int = 1000,
        rows: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components, self.penalty, self.n_chains = n_components, penalty, n_chains
        self.rows, self.random_state = rows, random_state

    @property
    def n_iter(self) -> int:  # type: ignore[override]
        """A unit per step."""
        return self.n_components

    def _learner(self, rows: int) -> InfiniteBoltzmann:
        return InfiniteBoltzmann(penalty=self.penalty, particles=self.n_chains, rows=self.rows)
