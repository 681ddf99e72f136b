"""What the estimators of conditional random fields share.

Both learn the weights of a `CRF` by (penalised) maximum conditional likelihood, which is concave when all
labels are observed; missing labels (None) are summed out.

    objective = sum_n log p(y_n | x_n) + log prior(weights)

With `support="observed"` only pairs (feature, label) and transitions that occur in the training data have
a weight, as in CRFsuite by default; `prior="elastic(c1=..., c2=...)"` is its penalty.
"""

from __future__ import annotations

import abc
import os
import warnings
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np

from ..core import check
from ..core.errors import ConvergenceWarning, DataError, OptionError
from ..core.numbers import is_missing
from ..core.result import Result
from ..inference.portfolio.question import infer
from ..inference.problem.base import Algorithm
from ..learning.base import fit
from ..learning.likelihood import MaximumLikelihood, log_likelihood
from ..learning.priors import prior_of
from ..models.crf import CRF
from ..models.crf_features import Labels, label_list
from ..optimise.optimisers import optimiser_of
from ..optimise.run import noted
from .base import Estimator
from .inputs import read_columns

__all__ = ["RandomField", "Support", "accuracy", "by_item", "check_items"]

Support = Literal["all", "observed"]


class RandomField(Estimator, abc.ABC):
    """What both estimators share."""

    _kind = None  # labels of items are lists, which scikit-learn's classifiers have no idea of
    _needs_y = True
    _reads_tables = False

    classes_: np.ndarray  # labels, sorted
    model_: CRF  # the field that was learned

    def _fitted(self) -> CRF:
        found: CRF = self._learned("model_")
        return found

    def _check_columns(self, X: Any, *, reset: bool = False) -> None:
        """Remember the names of the columns of frames, or compare them with those that were fitted."""
        if reset and hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        for number, part in enumerate(X):
            nodes = part[0] if isinstance(part, tuple) and len(part) else part
            if hasattr(nodes, "columns") or hasattr(self, "feature_names_in_"):
                read_columns(self, nodes, np.shape(nodes)[-1], reset=reset and not number)

    def _labelled(self, states: Any) -> list[np.ndarray]:
        """Labels as they were written, one array per item."""
        return [self.classes_[part] for part in by_item(states)]

    @abc.abstractmethod
    def _blank(self, y: Any) -> CRF:
        """The field to learn, for such labels."""

    @abc.abstractmethod
    def _inputs(self, X: Any, y: Any = None) -> list[Any]:
        """Items as the field takes them."""

    @property
    def _method(self) -> str | Algorithm | None:
        """The algorithm that answers; None is what suits the items."""
        return None

    @noted
    def fit(
        self,
        X: Sequence[Any],
        y: Sequence[Sequence[Any]],
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        every: float = 60,
    ) -> Self:
        """Learn from items `X` and the labels `y` of their nodes; see `models.crf_inputs` for their forms.

        `checkpoint` and `every` are as in `credo.fit`.
        """
        self._check(X, y)
        self._learn(self._blank(y), self._inputs(X, y), y, checkpoint=checkpoint, every=every)
        return self

    @abc.abstractmethod
    def predict(self, X: Sequence[Any]) -> list[np.ndarray]:
        """Labels of the nodes of each item."""

    def predict_proba(self, X: Sequence[Any]) -> list[np.ndarray]:
        """Label probabilities (nodes, labels) of each item, columns as in `classes_`."""
        return by_item(self._asked(X).marginals)

    def score(self, X: Sequence[Any], y: Sequence[Sequence[Any]]) -> float:
        """Fraction of nodes with a known label that are predicted right."""
        return accuracy(self.predict(X), y)

    def log_likelihood(self, X: Sequence[Any], y: Sequence[Sequence[Any]]) -> float:
        """Sum over items of log p(y | x), as the algorithm sees it; labels written alike are the same."""
        inputs, crf = self._inputs(X, y), self._fitted()
        listed = [label_list(part, number) for number, part in enumerate(y)]
        return float(log_likelihood(crf, inputs, self._method, targets=listed, seed=self._seed()))

    def _asked(self, X: Sequence[Any], maximise: Any = ()) -> Result:
        crf = self._fitted()
        check_items(X, None)
        self._check_columns(X)
        return infer(crf, self._method, data=self._inputs(X), maximise=maximise, seed=self._seed())

    def _adopt(self, crf: CRF) -> Any:
        if not isinstance(crf, CRF):
            raise OptionError(f"from_model: expected a CRF, got {type(crf).__name__}")
        self.model_, self.classes_ = crf, np.array(crf.labels)
        return self

    def _learn(self, blank: CRF, X: list[Any], y: Any, **kept: Any) -> None:
        """Learn from zero weights; random ones would only slow a concave objective down."""
        options = self.get_params()
        learner = MaximumLikelihood(
            **{name: options[name] for name in ("prior", "optimiser", "batch", "patience")}
        )
        limits = {name: options[name] for name in ("max_iter", "tol", "seconds")}
        known = Labels.of(y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = fit(
                blank, X, learner, targets=y, inference=self._method,
                validation=options["validation"] or None, seed=self._seed(), **limits, **kept,
            )  # fmt: skip
        self.classes_, self.model_ = known.classes, found.model
        self.n_features_in_ = len(found.model.node_weights)
        self._keep_fit(found)
        if not (found.status.is_success or found.stopped_early):
            told = f"{type(self).__name__}: {found.advice}"
            warnings.warn(told, ConvergenceWarning, stacklevel=4)

    def _check(self, X: Any, y: Any) -> None:
        options = self.get_params()
        optimiser_of(options["optimiser"])
        prior_of(options["prior"])
        check.one_of("support", options["support"], ["all", "observed"])
        check.in_range("validation", options["validation"], 0, 1)
        check_items(X, y)
        self._check_columns(X, reset=True)


def check_items(X: Any, y: Any) -> None:
    """Refuse what is no list of inputs with as many lists of labels."""
    listed = isinstance(X, Sequence) and not isinstance(X, (str, tuple))
    if not listed and not (isinstance(X, np.ndarray) and (X.dtype == object or X.ndim == 3)):
        raise DataError(f"X: expected a list of sequences or graphs, got {type(X).__name__}")
    if not len(X):
        raise DataError("X: expected at least one sequence or graph, got none")
    if y is not None and (not hasattr(y, "__len__") or len(y) != len(X)):
        got = len(y) if hasattr(y, "__len__") else type(y).__name__
        raise DataError(f"y: expected {len(X)} lists of labels, one per item of X, got {got}")


def by_item(rows: Any) -> list[np.ndarray]:
    """One array per item; of a single one there is no list."""
    found = rows["label"]
    return found if isinstance(found, list) else [found]


def accuracy(found: list[np.ndarray], wanted: Sequence[Sequence[Any]]) -> float:
    """The fraction of known labels that are right."""
    check_items(found, wanted)
    right = total = 0
    for number, (guess, truth) in enumerate(zip(found, wanted, strict=True)):
        if len(guess) != len(label_list(truth, number)):
            raise DataError(f"labels of item {number}: expected {len(guess)}, got {len(truth)}")
        for a, b in zip(guess.tolist(), truth, strict=True):
            if not is_missing(b):
                total += 1
                right += a == b
    if not total:
        raise DataError("y: expected at least one known label to score against, got none")
    return right / total
