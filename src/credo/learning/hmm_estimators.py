"""Hidden Markov models in the manner of scikit-learn: fit, predict, score, sample.

    model = GaussianHMM(4, covariance="full", restarts=5, seed=0).fit(X, lengths)
    states = model.predict(X, lengths)

`X` is one array of rows with `lengths`, or a list of arrays, one per sequence. NaN is missing (-1 for
symbols). What was learned is in `hmm_`, a `models.hmm.HMM`; how it went in `fit_`.
"""

from __future__ import annotations

import abc
from typing import Any, Literal, Self

import numpy as np

from ..core import check
from ..core.errors import DataError, OptionError, QueryError
from ..core.numbers import float_array
from ..core.records import register
from ..data.sources import split_list
from ..families.base import Family
from ..families.blank import members_of
from ..families.categorical import Categorical
from ..families.gamma import Poisson
from ..families.mixture import Mixture
from ..inference.exact.hidden_rows import best_states, smooth_rows
from ..inference.portfolio.templates import draw_rows, total_log_z
from ..models.hmm import HMM, HMMPrior
from ..optimise.run import noted
from .base import Fit, fit
from .em import EM
from .estimator import Estimator

__all__ = ["CategoricalHMM", "GaussianHMM", "PoissonHMM"]

Covariance = Literal["full", "tied", "diagonal", "spherical"]


class _HiddenMarkov(Estimator, abc.ABC):
    """What the estimators share; final classes say what a state emits."""

    states: int
    prior: HMMPrior | None
    restarts: int
    max_iter: int
    tol: float
    seed: int | None
    start: HMM | None
    hmm_: HMM  # the model that was learned
    fit_: Fit  # curves, status and log-likelihood of the training

    @abc.abstractmethod
    def _emission(self, X: Any) -> Family:
        """Members of the right shape, whatever their parameters."""

    def _floor(self) -> float:
        return 0.0

    @noted
    def fit(self, X: Any, lengths: Any = None) -> Self:
        """Learn by EM from random starts, or from `start`."""
        check.whole("states", self.states, 1)
        check.whole("restarts", self.restarts, 1)
        first, seed = self.start, self.seed
        if first is None:
            size = int(self.states)
            shape = HMM(np.full(size, 1 / size), np.full((size, size), 1 / size), self._emission(X))
            rng = check.generator(seed)
            first, seed = shape.initialise(X, rng, lengths), int(rng.integers(2**31))
        elif not isinstance(first, HMM):
            raise OptionError(f"start: expected an HMM, got {type(first).__name__}")
        how = EM(prior=self.prior, floor=self._floor(), restarts=self.restarts)
        self.fit_ = fit(first, X, how, lengths=lengths, max_iter=self.max_iter, tol=self.tol, seed=seed)
        self.hmm_ = self.fit_.model
        return self

    def _fitted(self) -> HMM:
        if not hasattr(self, "hmm_"):
            raise QueryError(f"this {type(self).__name__} is not fitted yet; call fit(X, lengths) first")
        return self.hmm_

    def predict(self, X: Any, lengths: Any = None) -> np.ndarray:
        """The most probable path of hidden states, (positions,)."""
        return best_states(self._fitted().instantiate(X, lengths))[0]

    def predict_proba(self, X: Any, lengths: Any = None) -> np.ndarray:
        """Probabilities of the hidden states given all data of the sequence, (positions, states)."""
        return smooth_rows(self._fitted().instantiate(X, lengths)).marginals

    def decode(
        self, X: Any, lengths: Any = None, algorithm: Literal["viterbi", "map"] = "viterbi"
    ) -> tuple[float, np.ndarray]:
        """Score and states; `"map"` takes the most probable state of every step.

        The score is the log joint probability of data and path, or the expected number of right states.
        """
        check.one_of("algorithm", algorithm, ["viterbi", "map"])
        instance = self._fitted().instantiate(X, lengths)
        if algorithm == "viterbi":
            path, value = best_states(instance)
            return float(value.sum()), path
        marginals = smooth_rows(instance).marginals
        return float(marginals.max(axis=1).sum()), marginals.argmax(axis=1)

    def score(self, X: Any, lengths: Any = None) -> float:
        """Total log-likelihood."""
        model = self._fitted()
        return total_log_z(model, model.sequences(X, lengths))

    def score_samples(self, X: Any, lengths: Any = None) -> tuple[float, np.ndarray]:
        """Total log-likelihood, and the probabilities of the hidden states."""
        found = smooth_rows(self._fitted().instantiate(X, lengths))
        return float(found.log_z.sum()), found.marginals

    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Rows and hidden states of one new sequence."""
        return draw_rows(self._fitted(), n_samples, random_state)

    def bic(self, X: Any, lengths: Any = None) -> float:
        """Bayesian information criterion, -2 log-likelihood + parameters log(steps); lower is better."""
        model = self._fitted()
        data = model.sequences(X, lengths)
        return -2 * total_log_z(model, data) + model.n_parameters * float(np.log(data.n_rows))

    def aic(self, X: Any, lengths: Any = None) -> float:
        """Akaike information criterion, -2 log-likelihood + 2 parameters; lower is better."""
        return -2 * self.score(X, lengths) + 2 * self._fitted().n_parameters


@register("GaussianHMM")
class GaussianHMM(_HiddenMarkov):
    """Hidden Markov model with Gaussian rows, or with mixtures of Gaussians.

    Parameters
    ----------
    states
        How many hidden states.
    covariance
        `"full"`, `"tied"` (one for all states), `"diagonal"` or `"spherical"`.
    components
        Gaussians per state.
    floor
        Variances below this are raised to it.
    prior
        An `HMMPrior` for a MAP estimate.
    restarts, max_iter, tol, seed
        As of `EM` and `credo.fit`.
    start
        An `HMM` to start from, instead of a random one.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.learning.hmm_estimators import GaussianHMM
    >>> X = np.concatenate([np.zeros(20), np.full(20, 5.0), np.zeros(20)])[:, None]
    >>> X = X + 0.1 * np.sin(np.arange(60.0))[:, None]
    >>> hmm = GaussianHMM(2, seed=0).fit(X)
    >>> np.flatnonzero(np.diff(hmm.predict(X)))
    array([19, 39])
    """

    def __init__(
        self,
        states: int = 1,
        *,
        covariance: Covariance = "diagonal",
        components: int = 1,
        floor: float = 1e-6,
        prior: HMMPrior | None = None,
        restarts: int = 1,
        max_iter: int = 1000,
        tol: float = 1e-4,
        seed: int | None = None,
        start: HMM | None = None,
    ) -> None:
        self.states, self.covariance, self.components, self.floor = states, covariance, components, floor
        self.prior, self.restarts, self.max_iter, self.tol = prior, restarts, max_iter, tol
        self.seed, self.start = seed, start

    def _floor(self) -> float:
        return self.floor

    def _emission(self, X: Any) -> Family:
        check.one_of("covariance", self.covariance, ["full", "tied", "diagonal", "spherical"])
        check.whole("components", self.components, 1)
        parts = split_list(X)
        try:
            shape = np.shape(X if parts is None else parts[0])
        except ValueError:
            shape = ()
        if len(shape) != 2:
            raise DataError(f"data: expected rows of numbers, shape (rows, d), got shape {shape}")
        kind = "gaussian" if self.covariance == "full" else self.covariance
        members = members_of(kind, int(self.states * self.components), shape[1])
        if self.components == 1:
            return members
        return Mixture(np.full((self.states, self.components), 1 / self.components), members)


@register("CategoricalHMM")
class CategoricalHMM(_HiddenMarkov):
    """Hidden Markov model with symbols 0, 1, ...

    Parameters
    ----------
    states
        How many hidden states.
    symbols
        How many symbols there are; by default one more than the largest in the training data.
    prior, restarts, max_iter, tol, seed, start
        As of `GaussianHMM`.
    """

    def __init__(
        self,
        states: int = 1,
        *,
        symbols: int | None = None,
        prior: HMMPrior | None = None,
        restarts: int = 1,
        max_iter: int = 1000,
        tol: float = 1e-4,
        seed: int | None = None,
        start: HMM | None = None,
    ) -> None:
        self.states, self.symbols, self.prior, self.restarts = states, symbols, prior, restarts
        self.max_iter, self.tol, self.seed, self.start = max_iter, tol, seed, start

    def _emission(self, X: Any) -> Family:
        symbols = self.symbols
        if symbols is None:
            told: Any = {"error": DataError, "expected": "symbols numbered from 0", "missing": True}
            parts = [float_array("data", part, **told) for part in split_list(X) or [X]]
            flat = np.concatenate([part.ravel() for part in parts])
            known = flat[(flat >= 0) & (flat < np.inf)]
            if not len(known):
                raise DataError("data: expected at least one observed symbol, got none")
            symbols = int(known.max()) + 1
        check.whole("symbols", symbols, 1)
        return Categorical(np.full((int(self.states), symbols), 1 / symbols))


@register("PoissonHMM")
class PoissonHMM(_HiddenMarkov):
    """Hidden Markov model with counts.

    Parameters
    ----------
    states
        How many hidden states.
    prior, restarts, max_iter, tol, seed, start
        As of `GaussianHMM`.
    """

    def __init__(
        self,
        states: int = 1,
        *,
        prior: HMMPrior | None = None,
        restarts: int = 1,
        max_iter: int = 1000,
        tol: float = 1e-4,
        seed: int | None = None,
        start: HMM | None = None,
    ) -> None:
        self.states, self.prior, self.restarts, self.max_iter = states, prior, restarts, max_iter
        self.tol, self.seed, self.start = tol, seed, start

    def _emission(self, X: Any) -> Family:
        return Poisson(np.ones(int(self.states)))
