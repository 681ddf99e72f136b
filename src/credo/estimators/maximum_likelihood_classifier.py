r"""One density per class: the class under which a row, or a sequence, is most probable.

    label(x) = argmax_y  log p(x | model_y) + log prior_y

Each model is learned by `credo.fit` from the rows of its class alone, so that a class can be added later
without touching the others. Without priors the likelihoods decide, which is what suits test data whose
classes are mixed in another way than the training data. Likelihoods are compared as they are: models of one
classifier should read the same columns in the same unit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np

from ..core import check
from ..core.errors import DataError, OptionError, ZeroProbabilityError
from ..core.numbers import float_array
from ..core.records import register
from ..data.dataset import Dataset
from ..data.read import read
from ..data.sources import split_list
from ..families.mixture import Mixture
from ..learning.base import Fit, Learner, fit
from ..learning.discriminative import discriminate
from ..learning.likelihood import log_likelihood
from ..optimise.run import noted
from .base import Estimator
from .inputs import read_columns, read_labels, read_rows

__all__ = ["MaximumLikelihoodClassifier"]

Priors = Literal["counts"] | Mapping[Any, float] | None


@register("MaximumLikelihoodClassifier")
class MaximumLikelihoodClassifier(Estimator):
    """Classify rows, or sequences, by the model that finds them most probable.

    Parameters
    ----------
    model
        Where learning starts: a blank or a model that `credo.fit` takes (a mixture, a hidden Markov model,
        any family), the same for all classes; a mapping label -> model; or a function (label, data) -> model.
        None is a Gaussian of each column, which makes a naive Bayes classifier.
    learner
        As of `credo.fit`.
    priors
        Of the classes: None for none, `"counts"` for their shares of the training data, or label -> weight.
    options
        Further arguments of `credo.fit`: max_iter, tol, restarts, prior, validation, ...
    warm_start
        Whether `fit` goes on from the models of an earlier call, for classes that it knows.
    random_state
        The same seed gives the same answer, whatever the order in which classes are added.

    Attributes
    ----------
    classes_
        Labels, sorted.
    counts_
        Rows, or sequences, of each class in training.
    fits_
        The `Fit` of each class; `models_` are their models.

    Examples
    --------
    >>> import credo
    >>> import numpy as np
    >>> from credo.estimators import MaximumLikelihoodClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, y = np.concatenate([rng.normal(0, 1, (30, 2)), rng.normal(5, 1, (30, 2))]), np.repeat([0, 1], 30)
    >>> member = credo.families.DiagonalGaussian([[0.0, 0.0]], [[1.0, 1.0]])
    >>> found = MaximumLikelihoodClassifier(member).fit(X, y)
    >>> found.score(X, y), found.predict([[0.0, 0.0], [5.0, 4.0]])
    (1.0, array([0, 1]))

    One more class, the others untouched:

    >>> found.add_class(2, rng.normal(-5, 1, (30, 2))).predict([[-5.0, -5.0], [0.0, 1.0]])
    array([2, 0])
    """

    _kind = "classifier"
    _needs_y = True
    _allows_nan = True

    classes_: np.ndarray
    counts_: np.ndarray
    fits_: tuple[Fit, ...]

    def __init__(
        self,
        model: Any = None,
        *,
        learner: str | Learner | None = None,
        priors: Priors = None,
        options: Mapping[str, Any] | None = None,
        warm_start: bool = False,
        random_state: int | None = None,
    ) -> None:
        self.model, self.learner, self.priors, self.options = model, learner, priors, options
        self.warm_start, self.random_state = warm_start, random_state

    @noted
    def fit(self, X: Any, y: Any, lengths: Any = None) -> Self:
        """Learn one model per class.

        Parameters
        ----------
        X
            Rows (an array, a frame, a `Dataset`), or a list of sequences.
        y
            One label per row, or per sequence.
        lengths
            Of sequences in one table.
        """
        units = _Units(self._read(X, reset=True), lengths)
        labels = read_labels(self, y, units.count, units.word)
        classes, counts = np.unique(labels, return_counts=True)
        known = self._known() if self.warm_start and hasattr(self, "fits_") else {}
        fits = [
            self._fitted(c, units.take(np.flatnonzero(labels == c)), known.get(c)) for c in classes.tolist()
        ]
        self.classes_, self.counts_, self.fits_ = classes, counts, tuple(fits)
        self._log_priors()
        return self

    @noted
    def add_class(self, label: Any, X: Any, lengths: Any = None) -> Self:
        """Learn one more class from its rows or sequences; models of other classes stay as they are."""
        units = _Units(self._read(X), lengths)
        known = self._known()
        if label in known:
            raise DataError(f"label: there is a class {label!r} already; expected a new one")
        if not units.count:
            raise DataError("X: expected at least one row, got none")
        found = self._fitted(label, units.take(np.arange(units.count)), None)
        labels = np.array([*self.classes_.tolist(), label])
        order = np.argsort(labels)
        self.classes_, self.counts_ = labels[order], np.append(self.counts_, units.count)[order]
        fits = (*self.fits_, found)
        self.fits_ = tuple(fits[k] for k in order)
        self._log_priors()
        return self

    @noted
    def tune(
        self, X: Any, y: Any, lengths: Any = None, *, epochs: int = 1,
        parts: Literal["all", "leaves"] = "leaves", rate: float = 1e-3, batch: int = 32,
    ) -> Self:  # fmt: skip
        """Go on from the fitted models so that they tell the classes apart; see `learning.discriminate`.

        Parameters
        ----------
        X, y, lengths
            As of `fit`.
        epochs
            Passes over the data; one is usual, more of them overfit soon.
        parts
            Leaves of the emissions, or all parameters.
        rate, batch
            Of Adam; rows or sequences of a step.

        Classes weigh as `priors` says, here and in predictions.
        """
        known, data = self._known(), self._read(X)
        labels = read_labels(self, y, _Units(data, lengths).count)
        weights = dict(zip(known, np.exp(self._log_priors()).tolist(), strict=True))
        found = discriminate(
            self.models_, data, labels, lengths=lengths, priors=None if self.priors is None else weights,
            tune=parts, epochs=epochs, rate=rate, batch=batch, seed=self.random_state,
        )  # fmt: skip
        self.fits_ = tuple(replace(fit, model=found.models[label]) for label, fit in known.items())
        return self

    @property
    def models_(self) -> dict[Any, Any]:
        """Label -> what was learned of its class."""
        return {label: fit.model for label, fit in self._known().items()}

    def log_likelihoods(self, X: Any, lengths: Any = None) -> np.ndarray:
        """Log p(x | class), without priors, (rows or sequences, classes)."""
        fits, X = self._known().values(), self._read(X)
        columns = [log_likelihood(found.model, X, lengths=lengths, each=True) for found in fits]
        return np.stack(columns, axis=1)

    def predict_log_proba(self, X: Any, lengths: Any = None) -> np.ndarray:
        """Log probabilities of the classes, (rows or sequences, classes)."""
        logs = self.log_likelihoods(X, lengths) + self._log_priors()
        top = logs.max(axis=1, keepdims=True)
        lost = np.flatnonzero(~np.isfinite(top[:, 0]))
        if len(lost):
            raise ZeroProbabilityError(
                f"X: number {lost[0]} is impossible for every class; give learning a prior or a floor"
            )
        return logs - top - np.log(np.exp(logs - top).sum(axis=1, keepdims=True))  # type: ignore[no-any-return]

    def predict_proba(self, X: Any, lengths: Any = None) -> np.ndarray:
        """Probabilities of the classes, (rows or sequences, classes)."""
        return np.exp(self.predict_log_proba(X, lengths))  # type: ignore[no-any-return]

    def predict(self, X: Any, lengths: Any = None) -> np.ndarray:
        """The label of the class of highest probability."""
        chances = self.predict_log_proba(X, lengths)
        return self.classes_[chances.argmax(axis=1)]  # type: ignore[no-any-return]

    def score(self, X: Any, y: Any, lengths: Any = None) -> float:
        """Share of the rows, or sequences, that get their label."""
        found = self.predict(X, lengths)
        return float((found == read_labels(self, y, len(found))).mean())

    def _known(self) -> dict[Any, Fit]:
        if hasattr(self, "fits_"):
            return dict(zip(self.classes_.tolist(), self.fits_, strict=True))
        self._refuse_unfitted()

    def _read(self, X: Any, *, reset: bool = False) -> Any:
        """The data as they came, tables compared with what was fitted."""
        if self.model is None or hasattr(X, "toarray"):
            return read_rows(self, X, reset=reset)
        if hasattr(X, "columns"):
            read_columns(self, X, len(X.columns), reset=reset)
            return X
        if isinstance(X, (Mapping, Dataset)) or split_list(X) is not None:
            return X
        found = np.asarray(X)
        if found.dtype.kind in "US" or (found.ndim == 1 and found.dtype.kind in "iu"):
            return found
        rows = read_rows(self, X, reset=reset)
        return found if found.dtype.kind in "iu" else rows

    def _fitted(self, label: Any, data: Any, before: Fit | None) -> Fit:
        start = before if before is not None else self._start(label, data)
        options = dict(self.options or {})
        try:
            learner = "em(floor=1e-6)" if self.model is None and self.learner is None else self.learner
            return fit(start, data, learner, seed=self._seed_of(label), **options)
        except (DataError, OptionError) as error:
            raise type(error)(f"class {label!r}: {error}") from None

    def _start(self, label: Any, data: Any) -> Any:
        if self.model is None:
            return Mixture.blank(1, "diagonal")
        if isinstance(self.model, Mapping):
            if label not in self.model:
                raise OptionError(f"model: expected one for class {label!r} too, got {list(self.model)[:8]}")
            return self.model[label]
        is_function = isinstance(self.model, Callable) and not hasattr(self.model, "log_density")  # type: ignore[arg-type]
        return self.model(label, data) if is_function else self.model

    def _seed_of(self, label: Any) -> int | None:
        """A seed that belongs to the label."""
        if self.random_state is None:
            return None
        check.whole("random_state", self.random_state, 0)
        words = [int(byte) for byte in repr(label).encode()]
        return int(np.random.default_rng([self.random_state, *words]).integers(2**31))

    def _log_priors(self) -> np.ndarray:
        """Logarithms of the shares of the classes."""
        if self.priors is None:
            return np.zeros(len(self.classes_))
        if isinstance(self.priors, str):
            check.one_of("priors", self.priors, ["counts"])
            weights = self.counts_.astype(float)
        else:
            lacking = [label for label in self.classes_.tolist() if label not in self.priors]
            if lacking:
                raise OptionError(f"priors: expected a weight of every class, got none of {lacking[0]!r}")
            given = [self.priors[label] for label in self.classes_.tolist()]
            weights = float_array("priors", given, error=OptionError)
        if not ((weights >= 0) & (weights < np.inf)).all() or not weights.sum() > 0:
            raise OptionError(f"priors: expected non-negative weights, one positive, got {weights.tolist()}")
        with np.errstate(divide="ignore"):
            return np.log(weights / weights.sum())


class _Units:
    """Rows or sequences, from which those of one class are taken."""

    def __init__(self, X: Any, lengths: Any = None) -> None:
        if lengths is not None:
            cuts = np.cumsum(np.asarray(lengths, dtype=np.int64))
            if len(cuts) and cuts[-1] != len(X):
                raise DataError(f"lengths: expected whole numbers that sum to {len(X)} rows, got {cuts[-1]}")
            X = np.split(np.asarray(X), cuts[:-1])
        parts = split_list(X)
        # Named columns are read once, so that all classes know all states.
        is_table = parts is None and not isinstance(X, Dataset) and _has_names(X)
        self._data: Any = parts if parts is not None else read(X) if is_table else X
        self._is_list = parts is not None
        if not self._is_list and not isinstance(self._data, Dataset):
            self._data = np.atleast_1d(np.asarray(self._data))
        is_cut = self._is_list or (isinstance(self._data, Dataset) and self._data.is_sequences)
        self.word = "sequence" if is_cut else "row"
        self.count = len(self._data)

    def take(self, which: np.ndarray) -> Any:
        """Those with these numbers."""
        if self._is_list:
            return [self._data[k] for k in which.tolist()]
        return self._data.take(which) if isinstance(self._data, Dataset) else self._data[which]


def _has_names(X: Any) -> bool:
    return isinstance(X, Mapping) or hasattr(X, "columns")
