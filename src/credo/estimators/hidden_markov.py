"""What the estimators of hidden Markov models share: hmmlearn's calls and attributes around `credo.fit`.

The attributes of hmmlearn (`startprob_`, `transmat_`, those of the emission) are the parameters; `model_` is
the model that they make. So they can be set by hand, to start from (`init_params`) or to ask about at once.
"""

from __future__ import annotations

import abc
import os
import sys
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from ..core import check
from ..core.errors import OptionError
from ..core.numbers import float_array
from ..data.dataset import Dataset
from ..families.base import Family
from ..families.dirichlet import Dirichlet
from ..inference.exact.hidden_rows import best_states, smooth_rows
from ..inference.portfolio.templates import draw_rows, total_log_z
from ..learning.base import Learner, fit
from ..learning.em import EM
from ..models.blank_hmm import BlankHMM
from ..models.hmm import HMM, HMMPrior
from ..optimise.driver import View
from ..optimise.run import noted
from .base import Estimator
from .inputs import SequenceRows, are_lengths, read_sequences, split_rows

__all__ = ["Decoder", "HiddenMarkov", "Monitor", "dirichlet_of"]

Decoder = Literal["viterbi", "map"]
_TABLES = {"s": "startprob_", "t": "transmat_"}


class Monitor(NamedTuple):
    """How training went, by hmmlearn's names."""

    history: np.ndarray  # the objective per row: at the start, and after each iteration
    iter: int  # iterations
    converged: bool


class HiddenMarkov(Estimator, abc.ABC):
    """What the estimators share; final classes say what a state emits."""

    _emits: ClassVar[Mapping[str, str]]  # letter of `params` -> attribute with these parameters
    _flat: ClassVar[bool] = False  # whether a sequence may have one axis
    _starts: ClassVar[int] = 6  # with which maxima are rarely lower than those of hmmlearn
    _allows_nan = True

    n_components: int
    startprob_prior: Any
    transmat_prior: Any
    algorithm: Decoder
    random_state: Any
    max_iter: int
    n_iter: int | None
    tol: float
    n_init: int | None
    verbose: bool
    params: str
    init_params: str
    startprob_: np.ndarray  # probabilities of the first state
    transmat_: np.ndarray  # row j: probabilities of the state after j

    @abc.abstractmethod
    def _shape(self, rows: np.ndarray) -> Family:
        """Members for such rows, one per state and component, whatever their parameters."""

    @abc.abstractmethod
    def _members(self, parts: Mapping[str, Any]) -> Family:
        """What states emit, from the attributes that `_emits` names."""

    @abc.abstractmethod
    def _attributes(self, emission: Any) -> dict[str, np.ndarray]:
        """The attributes of these members: the way back."""

    @abc.abstractmethod
    def _emission_prior(self, rows: np.ndarray) -> Any:
        """The conjugate prior of the emission, None for maximum likelihood."""

    def _learner(self, rows: np.ndarray, starts: int) -> Learner:
        return EM(prior=self._prior(rows), floor=self._floor(), restarts=starts, fixed=self._fixed())

    def _floor(self) -> float:
        return 0.0

    def _per_state(self) -> int:
        """Components of what a state emits."""
        return 1

    @noted
    def fit(
        self,
        X: Any,
        y: Any = None,
        lengths: Any = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        every: float = 60,
    ) -> Self:
        """Learn from one sequence, from several in one table, or from a list of tables.

        Parameters
        ----------
        X
            Rows of one table, or a list with a table per sequence.
        y
            Not used, unless it sums to the rows: whole numbers that do are the `lengths`.
        lengths
            Of the sequences in one table.
        checkpoint, every
            A file that keeps the state of learning, as in `credo.fit`.
        """
        self._check()
        if lengths is None and are_lengths(y, _count(X)):
            lengths = y
        read = read_sequences(self, X, lengths, reset=True, flat=self._flat)
        start, starts = self._start(read.rows)
        found = fit(
            start, read.rows, self._learner(read.rows, starts), lengths=read.lengths,
            max_iter=self.max_iter if self.n_iter is None else self.n_iter, tol=self.tol,
            seed=self._seed(), on_step=_tell if self.verbose else None, checkpoint=checkpoint, every=every,
        )  # fmt: skip
        self._adopt(found.model)
        self._keep_fit(found)
        return self

    def _check(self) -> None:
        check.whole("n_components", self.n_components, 1)
        if self.n_init is not None:
            check.whole("n_init", self.n_init, 1)
        check.one_of("algorithm", self.algorithm, ["map", "viterbi"])
        check.one_of("verbose", self.verbose, [False, True])
        letters = {*_TABLES, *self._emits}
        for name, value in (("params", self.params), ("init_params", self.init_params)):
            if not isinstance(value, str) or not set(value) <= letters:
                raise OptionError(f"{name}: expected letters among {''.join(sorted(letters))}, got {value!r}")

    def _fixed(self) -> tuple[str, ...]:
        """Parts of the model that are not learned, by its names."""
        own = set(self._emits) & set(self.params)
        if own and own != set(self._emits):
            raise OptionError(
                f"params: {sorted(own)} without the rest of {sorted(self._emits)}: what a state emits is "
                "learned together or not at all"
            )
        named = [name for letter, name in zip("st", ("start", "transition"), strict=True)
                 if letter not in self.params]  # fmt: skip
        return (*named, *(() if own else ("emission",)))

    def _start(self, rows: np.ndarray) -> tuple[Any, int]:
        """What `credo.fit` starts from, and how often; `init_params` leaves out what was set by hand."""
        names = {**_TABLES, **self._emits}
        given = {
            name: getattr(self, name)
            for letter, name in names.items()
            if letter not in self.init_params and hasattr(self, name)
        }
        members = int(self.n_components) * self._per_state()
        usual = 1 if given or members == 1 else self._starts
        starts = usual if self.n_init is None else int(self.n_init)
        if len(given) == len(names):
            return self._built(given), starts
        return _Start(self, self._shape(rows), given), starts

    def _built(self, parts: Mapping[str, Any]) -> HMM:
        """The model with these attributes."""
        model = HMM(parts["startprob_"], parts["transmat_"], self._members(parts))
        if model.states != self.n_components:
            raise OptionError(
                f"n_components: expected {model.states}, as startprob_ and the others have, got "
                f"{self.n_components}"
            )
        return model

    def _parts(self, model: Any) -> dict[str, np.ndarray]:
        tables = {"startprob_": model.start, "transmat_": model.transition}
        return {**tables, **self._attributes(model.emission)}

    def _adopt(self, model: Any) -> None:
        for name, value in self._parts(model).items():
            setattr(self, name, np.array(value))

    def _prior(self, rows: np.ndarray) -> HMMPrior | None:
        size = int(self.n_components)
        start = dirichlet_of("startprob_prior", self.startprob_prior, (1, size))
        moves = dirichlet_of("transmat_prior", self.transmat_prior, (size, size))
        emission = self._emission_prior(rows)
        if start is None and moves is None and emission is None:
            return None
        return HMMPrior(start, moves, emission)

    @property
    def model_(self) -> HMM:
        """The model of the parameters."""
        names = [*_TABLES.values(), *self._emits.values()]
        return self._built({name: self._learned(name) for name in names})

    @property
    def monitor_(self) -> Monitor:
        """How training went."""
        found = self._learned("fit_")
        return Monitor(found.objective, self.n_iter_, self.converged_)

    def _read(self, X: Any, lengths: Any) -> tuple[HMM, Dataset, SequenceRows]:
        model = self.model_
        read = read_sequences(self, X, lengths, flat=self._flat)
        return model, model.sequences(read.rows, read.lengths), read

    def predict(self, X: Any, lengths: Any = None) -> Any:
        """The hidden states: the best path, or with `algorithm="map"` the best state of every step."""
        return self.decode(X, lengths)[1]

    def fit_predict(self, X: Any, y: Any = None, lengths: Any = None) -> Any:
        """`fit`, then `predict`, of the same data."""
        lengths = y if lengths is None and are_lengths(y, _count(X)) else lengths
        return self.fit(X, None, lengths).predict(X, lengths)

    def predict_proba(self, X: Any, lengths: Any = None) -> Any:
        """Probabilities of the hidden states given all data of the sequence, (rows, states)."""
        return self.score_samples(X, lengths)[1]

    def decode(self, X: Any, lengths: Any = None, algorithm: Decoder | None = None) -> tuple[float, Any]:
        """Score and states; `"map"` takes the most probable state of every step.

        The score is the log joint probability of data and path, or the expected number of right states.
        """
        how = self.algorithm if algorithm is None else algorithm
        check.one_of("algorithm", how, ["map", "viterbi"])
        model, data, read = self._read(X, lengths)
        instance = model.instantiate(data)
        if how == "viterbi":
            path, value = best_states(instance)
            return float(value.sum()), split_rows(read, path)
        marginals = smooth_rows(instance).marginals
        return float(marginals.max(axis=1).sum()), split_rows(read, marginals.argmax(axis=1))

    def score(self, X: Any, y: Any = None, lengths: Any = None) -> float:
        """Total log-likelihood; `y` as in `fit`."""
        lengths = y if lengths is None and are_lengths(y, _count(X)) else lengths
        model, data, _ = self._read(X, lengths)
        return total_log_z(model, data)

    def score_samples(self, X: Any, lengths: Any = None) -> tuple[float, Any]:
        """Total log-likelihood, and the probabilities of the hidden states."""
        model, data, read = self._read(X, lengths)
        found = smooth_rows(model.instantiate(data))
        return float(found.log_z.sum()), split_rows(read, found.marginals)

    def sample(
        self, n_samples: int = 1, random_state: Any = None, currstate: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rows and hidden states of one new sequence, which begins in `currstate` if that is given."""
        model = self.model_
        check.whole("n_samples", n_samples, 1)
        if currstate is not None:
            check.whole("currstate", currstate, 0, model.states)
            model = HMM(np.eye(model.states)[currstate], model.transition, model.emission)
        rows, states = draw_rows(model, n_samples, self._seed(random_state))
        return rows[:, None] if rows.ndim == 1 else rows, states

    def get_stationary_distribution(self) -> np.ndarray:
        """Probabilities of the states in the long run."""
        return self.model_.stationary

    def bic(self, X: Any, lengths: Any = None) -> float:
        """Bayesian information criterion, -2 log-likelihood + parameters log(steps); lower is better."""
        model, data, _ = self._read(X, lengths)
        return -2 * total_log_z(model, data) + model.n_parameters * float(np.log(data.n_rows))

    def aic(self, X: Any, lengths: Any = None) -> float:
        """Akaike information criterion, -2 log-likelihood + 2 parameters; lower is better."""
        return -2 * self.score(X, lengths=lengths) + 2 * self.model_.n_parameters


class _Start(BlankHMM):
    """A blank of an estimator: some of the parameters are given, the others come from data."""

    def __init__(self, estimator: HiddenMarkov, members: Family, given: Mapping[str, Any]) -> None:
        super().__init__(int(estimator.n_components), None, estimator._per_state())
        self._estimator, self._shape, self._given = estimator, members, given

    def _members(self, source: Any, reading: Mapping[str, Any]) -> Family:
        return self._shape

    def fill(self, source: Any, rng: np.random.Generator, **options: Any) -> HMM:
        """Members that are apart, with what is given in its place."""
        found = super().fill(source, rng, **options)
        return self._estimator._built({**self._estimator._parts(found), **self._given})


def dirichlet_of(name: str, value: Any, shape: tuple[int, int]) -> Dirichlet | None:
    """A Dirichlet prior of rows from one number, or numbers of their shape; all ones say nothing."""
    given = float_array(name, value, error=OptionError)
    try:
        counts = np.broadcast_to(given, shape)
    except ValueError:
        raise OptionError(f"{name}: expected a number, or shape {shape}, got shape {given.shape}") from None
    if not (counts > 0).all():
        raise OptionError(f"{name}: expected positive numbers, got {counts.min():g}")
    return None if (counts == 1).all() else Dirichlet(counts)


def _count(X: Any) -> int:
    """How many rows there are, so far as that is known without reading."""
    shape = getattr(X, "shape", None)
    return int(shape[0]) if shape else len(X) if hasattr(X, "__len__") else -1


def _tell(iteration: int, view: View) -> None:
    print(f"iteration {iteration}, residual {view.residual}", file=sys.stderr)
