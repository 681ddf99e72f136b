"""Hidden Markov models with rows of numbers, by hmmlearn's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from ..core import check
from ..core.errors import OptionError
from ..core.records import register
from ..families.base import Family
from ..families.mixture import Mixture, MixturePrior
from .gaussians import Covariance, gaussian_members, gaussian_prior, gaussian_shape, shaped_covariances
from .hidden_markov import Decoder, HiddenMarkov, dirichlet_of

__all__ = ["GMMHMM", "GaussianHMM", "SingleGaussians"]


class _GaussianStates(HiddenMarkov):
    """States that emit Gaussian rows, or mixtures of these."""

    covariance_type: Covariance
    min_covar: float
    means_prior: Any
    means_weight: Any
    covars_prior: Any
    covars_weight: Any
    means_: np.ndarray  # (states, d), of mixtures (states, components, d)
    covariances_: np.ndarray  # in the shape of their kind

    def _floor(self) -> float:
        check.at_least("min_covar", self.min_covar, 0)
        return self.min_covar

    def _shape(self, rows: np.ndarray) -> Family:
        return gaussian_shape(self.covariance_type, int(self.n_components) * self._per_state(), rows.shape[1])

    def _gaussian_prior(self, rows: np.ndarray) -> Any:
        return gaussian_prior(
            self.covariance_type, int(self.n_components) * self._per_state(), rows.shape[1],
            means_prior=self.means_prior, means_weight=self.means_weight,
            covars_prior=self.covars_prior, covars_weight=self.covars_weight,
        )  # fmt: skip


class SingleGaussians(HiddenMarkov):
    """States that emit one Gaussian each."""

    _emits: ClassVar[Mapping[str, str]] = {"m": "means_", "c": "covariances_"}

    covariance_type: Any
    means_: np.ndarray  # (states, d)
    covariances_: np.ndarray  # in the shape of their kind

    def _shape(self, rows: np.ndarray) -> Family:
        return gaussian_shape(self.covariance_type, int(self.n_components), rows.shape[1])

    def _members(self, parts: Mapping[str, Any]) -> Family:
        return gaussian_members(self.covariance_type, parts["means_"], parts["covariances_"])

    def _attributes(self, emission: Any) -> dict[str, np.ndarray]:
        kind, mean = self.covariance_type, emission.mean
        return {"means_": mean, "covariances_": shaped_covariances(kind, emission.covariances, *mean.shape)}

    @property
    def covars_(self) -> np.ndarray:
        """A covariance matrix per state, (states, d, d); may be set in the shape of the kind."""
        self._learned("covariances_")
        found: np.ndarray = self._members(vars(self)).covariances  # type: ignore[attr-defined]
        return found

    @covars_.setter
    def covars_(self, value: Any) -> None:
        shape = np.shape(self.means_) if hasattr(self, "means_") else (self.n_components, np.shape(value)[-1])
        self.covariances_ = shaped_covariances(self.covariance_type, value, *shape)


@register("GaussianHMM")
class GaussianHMM(SingleGaussians, _GaussianStates):
    """Hidden Markov model with Gaussian rows.

    Parameters
    ----------
    n_components
        How many hidden states.
    covariance_type
        `"diag"`, `"full"`, `"tied"` (one for all states) or `"spherical"`.
    min_covar
        Variances below this are raised to it.
    startprob_prior, transmat_prior
        Dirichlet counts of first states and of moves; 1 says nothing.
    means_prior, means_weight, covars_prior, covars_weight
        Conjugate prior of a most probable fit; see `gaussians.py`. `covars_prior=0` is maximum likelihood.
        One number for a matrix is that multiple of the identity.
    algorithm
        What `predict` and `decode` tell: `"viterbi"` the best path, `"map"` the best state of every step.
    random_state
        A seed.
    max_iter, n_iter, tol
        When to stop: iterations (`n_iter` is hmmlearn's name, and goes first where it is given), and the
        largest change of a parameter that counts as none.
    n_init
        Starts, of which the best is kept; 6 by default, 1 if some parameters start where they were set.
    verbose
        Write the progress to standard error.
    params, init_params
        Letters of what is learned, and of what is chosen from data to start from: s (startprob_),
        t (transmat_), m (means_), c (covariances_). What is left out of `init_params` and was set starts
        there.

    Attributes are `startprob_`, `transmat_`, `means_`, `covariances_` (in the shape of the kind; `covars_`
    has a matrix per state), `model_` (the model) and `fit_` (the report).

    Examples
    --------
    >>> import numpy as np
    >>> from credo.estimators import GaussianHMM
    >>> X = np.concatenate([np.zeros(20), np.full(20, 5.0), np.zeros(20)])[:, None]
    >>> X = X + 0.1 * np.sin(np.arange(60.0))[:, None]
    >>> hmm = GaussianHMM(2, random_state=0).fit(X)
    >>> np.flatnonzero(np.diff(hmm.predict(X)))
    array([19, 39])
    """

    def __init__(  # noqa: PLR0913, hmmlearn's
        self,
        n_components: int = 1,
        covariance_type: Covariance = "diag",
        min_covar: float = 1e-6,
        *,
        startprob_prior: Any = 1.0,
        transmat_prior: Any = 1.0,
        means_prior: Any = 0,
        means_weight: Any = 0,
        covars_prior: Any = 1e-2,
        covars_weight: Any = 1,
        algorithm: Decoder = "viterbi",
        random_state: Any = None,
        n_iter: int | None = None,
        tol: float = 1e-3,
        verbose: bool = False,
        params: str = "stmc",
        init_params: str = "stmc",
        max_iter: int = 500,
        n_init: int | None = None,
    ) -> None:
        self.n_components, self.covariance_type, self.min_covar = n_components, covariance_type, min_covar
        self.startprob_prior, self.transmat_prior = startprob_prior, transmat_prior
        self.means_prior, self.means_weight = means_prior, means_weight
        self.covars_prior, self.covars_weight = covars_prior, covars_weight
        self.algorithm, self.random_state, self.n_iter = algorithm, random_state, n_iter
        self.tol, self.verbose, self.params, self.init_params = tol, verbose, params, init_params
        self.max_iter, self.n_init = max_iter, n_init

    def _emission_prior(self, rows: np.ndarray) -> Any:
        return self._gaussian_prior(rows)


@register("GMMHMM")
class GMMHMM(_GaussianStates):
    """Hidden Markov model whose states emit mixtures of Gaussians.

    Parameters
    ----------
    n_components
        How many hidden states.
    n_mix
        Gaussians per state.
    weights_prior
        Dirichlet counts of the weights of these; 1 says nothing.
    covariance_type
        `"diag"`, `"full"` or `"spherical"`.
    startprob_prior, transmat_prior, means_prior, means_weight, covars_prior, covars_weight
        As of `GaussianHMM`; nothing by default, which is maximum likelihood.
    min_covar, algorithm, random_state, max_iter, n_iter, tol, n_init, verbose, params, init_params
        As of `GaussianHMM`, with w for `weights_`.

    Attributes are those of `GaussianHMM` and `weights_`, (states, n_mix); means and covariances have one more
    axis, of the Gaussians of a state.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.estimators import GMMHMM
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal([[-4.0], [0.0], [4.0]], 0.5, (3, 60)).reshape(-1, 1)
    >>> GMMHMM(2, n_mix=2, random_state=0).fit(X).means_.shape
    (2, 2, 1)
    """

    _emits: ClassVar[Mapping[str, str]] = {"m": "means_", "c": "covariances_", "w": "weights_"}

    def __init__(  # noqa: PLR0913, hmmlearn's
        self,
        n_components: int = 1,
        n_mix: int = 1,
        *,
        min_covar: float = 1e-6,
        startprob_prior: Any = 1.0,
        transmat_prior: Any = 1.0,
        weights_prior: Any = 1.0,
        means_prior: Any = 0,
        means_weight: Any = 0,
        covars_prior: Any = 0,
        covars_weight: Any = 1,
        algorithm: Decoder = "viterbi",
        covariance_type: Covariance = "diag",
        random_state: Any = None,
        n_iter: int | None = None,
        tol: float = 1e-3,
        verbose: bool = False,
        params: str = "stmcw",
        init_params: str = "stmcw",
        max_iter: int = 500,
        n_init: int | None = None,
    ) -> None:
        self.n_components, self.n_mix, self.min_covar = n_components, n_mix, min_covar
        self.startprob_prior, self.transmat_prior = startprob_prior, transmat_prior
        self.weights_prior, self.means_prior, self.means_weight = weights_prior, means_prior, means_weight
        self.covars_prior, self.covars_weight = covars_prior, covars_weight
        self.algorithm, self.covariance_type, self.random_state = algorithm, covariance_type, random_state
        self.n_iter, self.tol, self.verbose, self.params = n_iter, tol, verbose, params
        self.init_params, self.max_iter, self.n_init = init_params, max_iter, n_init

    def _check(self) -> None:
        super()._check()
        check.whole("n_mix", self.n_mix, 1)
        if self.covariance_type == "tied":
            raise OptionError(
                "covariance_type: expected diag, full or spherical for mixtures, got 'tied'; "
                "GaussianHMM has tied covariances"
            )

    def _per_state(self) -> int:
        return int(self.n_mix)

    def _emission_prior(self, rows: np.ndarray) -> Any:
        shape = int(self.n_components), int(self.n_mix)
        own, weights = self._gaussian_prior(rows), dirichlet_of("weights_prior", self.weights_prior, shape)
        if own is None and weights is None:
            return None
        return MixturePrior(weights, own) if shape[1] > 1 else own

    def _members(self, parts: Mapping[str, Any]) -> Family:
        means = np.asarray(parts["means_"])
        flat = means.reshape(-1, means.shape[-1])
        covariances = np.asarray(parts["covariances_"])
        each = covariances.reshape(len(flat), *covariances.shape[2:])
        members = gaussian_members(self.covariance_type, flat, each)
        return Mixture(parts["weights_"], members) if self.n_mix > 1 else members

    def _attributes(self, emission: Any) -> dict[str, np.ndarray]:
        shape = (int(self.n_components), int(self.n_mix))
        members = emission.components if isinstance(emission, Mixture) else emission
        weights = emission.weights if isinstance(emission, Mixture) else np.ones(shape)
        flat = shaped_covariances(self.covariance_type, members.covariances, *members.mean.shape)
        return {
            "weights_": weights,
            "means_": members.mean.reshape(*shape, -1),
            "covariances_": flat.reshape(*shape, *flat.shape[1:]),
        }

    @property
    def covars_(self) -> np.ndarray:
        """The covariances in the shape of their kind, as hmmlearn's mixtures have them."""
        found: np.ndarray = self._learned("covariances_")
        return found

    @covars_.setter
    def covars_(self, value: Any) -> None:
        self.covariances_ = np.array(value, dtype=np.float64)
