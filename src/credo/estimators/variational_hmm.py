"""Hidden Markov models by variational Bayes, by hmmlearn's names."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ..core import check
from ..core.errors import OptionError
from ..core.numbers import float_array
from ..core.records import register
from ..families.conjugates import default_prior
from ..families.gaussian_wishart import GaussianWishart
from ..families.normal_gamma import NormalGamma
from ..learning.base import Fit, Learner
from ..learning.vb import VariationalBayes
from .count_hmm import CategoricalHMM
from .gaussian_hmm import SingleGaussians
from .hidden_markov import Decoder, HiddenMarkov

__all__ = ["VariationalCategoricalHMM", "VariationalChain", "VariationalGaussianHMM"]


class VariationalChain(HiddenMarkov):
    """What both share: every part gets a distribution, whose expectation the attributes are."""

    posterior_: Any

    def _check(self) -> None:
        super()._check()
        letters = "".join(["s", "t", *self._emits])
        if set(self.params) != set(letters):
            raise OptionError(
                f"params: expected {letters!r}, for every part gets a distribution, got {self.params!r}"
            )

    def _learner(self, rows: np.ndarray, starts: int) -> Learner:
        return VariationalBayes(prior=self._prior(rows), restarts=starts, prune="none")

    def _keep_fit(self, found: Fit) -> None:
        super()._keep_fit(found)
        self.posterior_ = found.posterior

    @property
    def lower_bound_(self) -> float:
        """The free energy, below the log evidence of the data."""
        return float(self._learned("fit_").evidence.value)


@register("VariationalCategoricalHMM")
class VariationalCategoricalHMM(VariationalChain, CategoricalHMM):
    """Hidden Markov model with symbols 0, 1, ... and a distribution over its parameters.

    Options are those of `CategoricalHMM`; the priors of `startprob_prior`, `transmat_prior` and
    `emissionprob_prior` are one count each, and `params` must name all parts. Attributes are expected
    parameters; `posterior_` is the distribution, `lower_bound_` the free energy, below the log evidence.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.estimators import VariationalCategoricalHMM
    >>> x = [[0] * 9 + [1] * 9, [1] * 9 + [0] * 8]
    >>> found = VariationalCategoricalHMM(2, random_state=0).fit(x)
    >>> np.sort(found.emissionprob_[:, 0]).round(1), found.lower_bound_ < found.score(x)
    (array([0.1, 0.9]), True)
    """


@register("VariationalGaussianHMM")
class VariationalGaussianHMM(VariationalChain, SingleGaussians):
    """Hidden Markov model with Gaussian rows and a distribution over its parameters.

    Parameters
    ----------
    n_components
        How many hidden states.
    covariance_type
        `"full"` or `"diag"`.
    startprob_prior, transmat_prior
        Dirichlet counts of first states and of moves.
    means_prior, beta_prior, dof_prior, scale_prior
        Centre of the means and how many rows it counts for; degrees of freedom of the precisions and the
        scatter that these are worth. What is None is weak, at the scale of the data.
    algorithm, random_state, max_iter, n_iter, tol, n_init, verbose, params, init_params
        As of `GaussianHMM`; `params` must name all parts, which get a distribution each.

    Attributes are expected parameters, `startprob_`, `transmat_`, `means_`, `covariances_`; `posterior_` is
    the distribution, `lower_bound_` the free energy, below the log evidence.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.estimators import VariationalGaussianHMM
    >>> X = np.concatenate([np.zeros(20), np.full(20, 5.0), np.zeros(20)])[:, None]
    >>> X = X + np.sin(np.arange(60.0))[:, None]
    >>> found = VariationalGaussianHMM(2, random_state=0).fit(X)
    >>> np.flatnonzero(np.diff(found.predict(X)))
    array([19, 39])
    """

    def __init__(  # noqa: PLR0913, hmmlearn's
        self,
        n_components: int = 1,
        covariance_type: Literal["full", "diag"] = "full",
        *,
        startprob_prior: Any = 1.0,
        transmat_prior: Any = 1.0,
        means_prior: Any = None,
        beta_prior: float | None = None,
        dof_prior: float | None = None,
        scale_prior: Any = None,
        algorithm: Decoder = "viterbi",
        random_state: Any = None,
        max_iter: int = 500,
        n_iter: int | None = None,
        tol: float = 1e-3,
        n_init: int | None = None,
        verbose: bool = False,
        params: str = "stmc",
        init_params: str = "stmc",
    ) -> None:
        self.n_components, self.covariance_type = n_components, covariance_type
        self.startprob_prior, self.transmat_prior = startprob_prior, transmat_prior
        self.means_prior, self.beta_prior = means_prior, beta_prior
        self.dof_prior, self.scale_prior = dof_prior, scale_prior
        self.algorithm, self.random_state, self.max_iter, self.n_iter = (
            algorithm,
            random_state,
            max_iter,
            n_iter,
        )
        self.tol, self.n_init, self.verbose = tol, n_init, verbose
        self.params, self.init_params = params, init_params

    def _check(self) -> None:
        super()._check()
        check.one_of("covariance_type", self.covariance_type, ["diag", "full"])

    def _emission_prior(self, rows: np.ndarray) -> Any:
        given = self.means_prior, self.beta_prior, self.dof_prior, self.scale_prior
        if all(value is None for value in given):
            return None
        usual, d = default_prior(self._shape(rows), rows), rows.shape[1]
        centre, beta, scale = (
            None if value is None else float_array(name, value, error=OptionError)
            for name, value in (
                ("means_prior", self.means_prior),
                ("beta_prior", self.beta_prior),
                ("scale_prior", self.scale_prior),
            )
        )
        centre = usual.centre[0] if centre is None else np.broadcast_to(centre, (d,))
        strength = usual.strength[0] if beta is None else beta
        if isinstance(usual, NormalGamma):
            rate = usual.rate[0] if scale is None else np.broadcast_to(scale / 2, (d,))
            shape = usual.shape[0] if self.dof_prior is None else np.full(d, self.dof_prior / 2)
            return NormalGamma([centre], [np.broadcast_to(strength, (d,))], [shape], [rate])
        scatter = usual.scatter[0] if scale is None else scale * np.eye(d) if not scale.ndim else scale
        freedom = usual.freedom[0] if self.dof_prior is None else self.dof_prior
        return GaussianWishart([centre], [float(strength)], [freedom], [scatter])
