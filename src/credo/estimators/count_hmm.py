"""Hidden Markov models with symbols or counts, by hmmlearn's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ..core import check
from ..core.errors import DataError, OptionError
from ..core.numbers import float_array
from ..core.records import register
from ..families.base import Family
from ..families.blank import members_of
from ..families.categorical import Categorical
from ..families.gamma import Gamma, Poisson
from ..families.product import Product
from .hidden_markov import Decoder, HiddenMarkov, dirichlet_of

__all__ = ["CategoricalHMM", "PoissonHMM"]


@register("CategoricalHMM")
class CategoricalHMM(HiddenMarkov):
    """Hidden Markov model with symbols 0, 1, ...

    Parameters
    ----------
    n_components
        How many hidden states.
    startprob_prior, transmat_prior, emissionprob_prior
        Dirichlet counts of first states, moves and symbols; 1 says nothing.
    n_features
        How many symbols there are; by default one more than the largest in the training data.
    algorithm, random_state, max_iter, n_iter, tol, n_init, verbose, params, init_params
        As of `GaussianHMM`, with e for `emissionprob_`.

    A sequence is a column, (steps, 1), or an array (steps,); of several columns each is emitted by itself.
    NaN and -1 are missing. Attributes are `startprob_`, `transmat_` and `emissionprob_`, (states, symbols),
    of several columns (states, columns, symbols).

    Examples
    --------
    >>> from credo.estimators import CategoricalHMM
    >>> hmm = CategoricalHMM(2, random_state=0).fit([[0, 0, 0, 1, 1, 1], [0, 0, 1, 1]])
    >>> [len(set(path)) for path in hmm.predict([[0, 0, 1], [0, 0]])]
    [2, 1]
    """

    _emits: ClassVar[Mapping[str, str]] = {"e": "emissionprob_"}
    _starts: ClassVar[int] = 12  # tables of symbols have more maxima than numbers
    _flat = True

    emissionprob_: np.ndarray  # (states, symbols)

    def __init__(  # noqa: PLR0913, hmmlearn's
        self,
        n_components: int = 1,
        startprob_prior: Any = 1.0,
        transmat_prior: Any = 1.0,
        *,
        emissionprob_prior: Any = 1.0,
        n_features: int | None = None,
        algorithm: Decoder = "viterbi",
        random_state: Any = None,
        max_iter: int = 500,
        n_iter: int | None = None,
        tol: float = 1e-3,
        n_init: int | None = None,
        verbose: bool = False,
        params: str = "ste",
        init_params: str = "ste",
    ) -> None:
        self.n_components, self.startprob_prior = n_components, startprob_prior
        self.transmat_prior, self.emissionprob_prior = transmat_prior, emissionprob_prior
        self.n_features, self.algorithm, self.random_state = n_features, algorithm, random_state
        self.max_iter, self.n_iter, self.tol, self.n_init = max_iter, n_iter, tol, n_init
        self.verbose, self.params, self.init_params = verbose, params, init_params

    def _symbols(self, rows: np.ndarray) -> int:
        known = rows[rows >= 0]
        if not len(known):
            raise DataError("X: expected at least one observed symbol, got none")
        if self.n_features is None:
            return int(known.max()) + 1
        check.whole("n_features", self.n_features, 1)
        return int(self.n_features)

    def _shape(self, rows: np.ndarray) -> Family:
        size, symbols = int(self.n_components), self._symbols(rows)
        return _by_column([members_of("categorical", size, symbols) for _ in range(rows.shape[1])])

    def _emission_prior(self, rows: np.ndarray) -> Any:
        shape = int(self.n_components), self._symbols(rows)
        found = dirichlet_of("emissionprob_prior", self.emissionprob_prior, shape)
        return found if found is None or rows.shape[1] == 1 else (found,) * rows.shape[1]

    def _members(self, parts: Mapping[str, Any]) -> Family:
        tables = float_array("emissionprob_", parts["emissionprob_"], error=OptionError)
        return _by_column([Categorical(t) for t in np.moveaxis(tables, 1, 0)] if tables.ndim == 3
                          else [Categorical(tables)])  # fmt: skip

    def _attributes(self, emission: Any) -> dict[str, np.ndarray]:
        if isinstance(emission, Product):
            return {"emissionprob_": np.stack([part.probabilities for part in _parts(emission)], axis=1)}
        return {"emissionprob_": emission.probabilities}


@register("PoissonHMM")
class PoissonHMM(HiddenMarkov):
    """Hidden Markov model with counts, each column by itself.

    Parameters
    ----------
    n_components
        How many hidden states.
    startprob_prior, transmat_prior
        Dirichlet counts of first states and of moves; 1 says nothing.
    lambdas_prior, lambdas_weight
        Counts, and rows with such counts, that every rate has seen before; 0 and 0 say nothing.
    algorithm, random_state, max_iter, n_iter, tol, n_init, verbose, params, init_params
        As of `GaussianHMM`, with l for `lambdas_`.

    A sequence of one column may be an array (steps,). NaN and -1 are missing. Attributes are `startprob_`,
    `transmat_` and `lambdas_`, (states, columns).

    Examples
    --------
    >>> from credo.estimators import PoissonHMM
    >>> hmm = PoissonHMM(2, random_state=0).fit([0, 1, 0, 0, 9, 8, 11, 10, 0, 1, 0])
    >>> sorted(hmm.lambdas_.ravel().round(1).tolist())
    [0.3, 9.5]
    """

    _emits: ClassVar[Mapping[str, str]] = {"l": "lambdas_"}
    _flat = True

    lambdas_: np.ndarray  # (states, columns) expected counts

    def __init__(  # noqa: PLR0913, hmmlearn's
        self,
        n_components: int = 1,
        startprob_prior: Any = 1.0,
        transmat_prior: Any = 1.0,
        *,
        lambdas_prior: Any = 0.0,
        lambdas_weight: Any = 0.0,
        algorithm: Decoder = "viterbi",
        random_state: Any = None,
        n_iter: int | None = None,
        tol: float = 1e-3,
        verbose: bool = False,
        params: str = "stl",
        init_params: str = "stl",
        max_iter: int = 500,
        n_init: int | None = None,
    ) -> None:
        self.n_components, self.startprob_prior = n_components, startprob_prior
        self.transmat_prior, self.lambdas_prior = transmat_prior, lambdas_prior
        self.lambdas_weight, self.algorithm, self.random_state = lambdas_weight, algorithm, random_state
        self.n_iter, self.tol, self.verbose, self.params = n_iter, tol, verbose, params
        self.init_params, self.max_iter, self.n_init = init_params, max_iter, n_init

    def _shape(self, rows: np.ndarray) -> Family:
        return _poissons(np.ones((int(self.n_components), rows.shape[1])))

    def _emission_prior(self, rows: np.ndarray) -> Any:
        shape = int(self.n_components), rows.shape[1]
        parts = []
        for name in ("lambdas_prior", "lambdas_weight"):
            given = float_array(name, getattr(self, name), error=OptionError)
            try:
                parts.append(np.broadcast_to(given, shape))
            except ValueError:
                raise OptionError(f"{name}: expected a number, or shape {shape}, got {given.shape}") from None
        seen, weight = parts
        if not seen.any() and not weight.any():
            return None
        if not (weight > 0).all() or (seen < 0).any():
            raise OptionError(
                f"lambdas_prior, lambdas_weight: expected counts from 0 and positive weights, got "
                f"{seen.min():g} and {weight.min():g}"
            )
        priors = [Gamma(s + 1.0, w) for s, w in zip(seen.T, weight.T, strict=True)]
        return priors[0] if len(priors) == 1 else tuple(priors)

    def _members(self, parts: Mapping[str, Any]) -> Family:
        rates = float_array("lambdas_", parts["lambdas_"], error=OptionError)
        return _poissons(rates if rates.ndim == 2 else rates[:, None])

    def _attributes(self, emission: Any) -> dict[str, np.ndarray]:
        return {"lambdas_": np.stack([part.rate for part in _parts(emission)], axis=1)}


def _poissons(rates: np.ndarray) -> Family:
    return _by_column([Poisson(column) for column in rates.T])


def _by_column(each: Sequence[Family]) -> Family:
    """One family per column of an array."""
    return each[0] if len(each) == 1 else Product(each, range(len(each)))


def _parts(emission: Any) -> Any:
    return emission.parts if isinstance(emission, Product) else [emission]
