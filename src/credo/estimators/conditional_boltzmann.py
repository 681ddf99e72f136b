"""Conditional Boltzmann machines: outputs of two states that depend on inputs and on each other."""

from __future__ import annotations

import os
import warnings
from typing import Any, Self

import numpy as np

from ..core import check
from ..core.errors import ConvergenceWarning, DataError
from ..core.records import register
from ..core.result import Result
from ..inference.portfolio.question import infer
from ..learning.base import fit
from ..learning.boltzmann import Boltzmann
from ..models.conditional_rbm import ConditionalRBM
from ..optimise.optimisers import SGD
from ..optimise.run import noted
from .base import Estimator
from .inputs import read_rows

__all__ = ["ConditionalRBMClassifier"]

_SETTLED = 1e-3  # change of a belief


@register("ConditionalRBMClassifier")
class ConditionalRBMClassifier(Estimator):
    """Several outputs of two states given inputs, with hidden units between them.

    Prediction is by what was learned with: sum-product after `negative="bp"`, the best outputs with hidden
    units summed after `"margin"`, the best joint state after `"joint-margin"` and `"icm-margin"`, mean
    field after chains and mean field.

    Parameters
    ----------
    n_components
        Hidden units; 0 makes a logistic regression of every output.
    learning_rate, momentum, batch_size, n_iter
        Of the steps, the rows of each, and how often all rows are gone through.
    negative, sweeps
        As the learner `boltzmann` has them.
    validation_fraction, patience
        With a patience, so many epochs without fewer errors on this part of the rows end learning, and the
        machine with the fewest is kept.
    random_state
        Seed.

    Attributes are `model_` (a `ConditionalRBM`) and `fit_`.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.estimators import ConditionalRBMClassifier
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> Y = np.column_stack([X[:, 0] > 0, X[:, 0] <= 0]).astype(int)
    >>> found = ConditionalRBMClassifier(2, learning_rate=0.5, random_state=0).fit(X, Y)
    >>> found.predict(X[:3]).shape, found.score(X, Y) > 0.95
    ((3, 2), True)
    """

    _kind = None
    _needs_y = True

    model_: ConditionalRBM  # the machine that was learned

    def __init__(
        self,
        n_components: int = 256,
        *,
        learning_rate: float = 0.05,
        batch_size: int = 20,
        n_iter: int = 20,
        momentum: float = 0.5,
        negative: str = "bp",
        sweeps: int | None = None,
        validation_fraction: float = 0.1,
        patience: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components, self.learning_rate, self.batch_size = n_components, learning_rate, batch_size
        self.n_iter, self.momentum, self.negative, self.sweeps = n_iter, momentum, negative, sweeps
        self.validation_fraction, self.patience = validation_fraction, patience
        self.random_state = random_state

    @noted
    def fit(
        self, X: Any, y: Any, *, checkpoint: str | os.PathLike[str] | None = None, every: float = 60
    ) -> Self:
        """Learn from rows and their outputs (rows, outputs), numbers from 0 to 1."""
        check.whole("n_components", self.n_components, 0)
        rows, outputs = read_rows(self, X, reset=True), _outputs(y)
        inputs, count = rows.shape[1], outputs.shape[1]
        hidden = self.n_components
        blank = ConditionalRBM(
            np.zeros((count, hidden)), np.zeros((count, inputs)), np.zeros((hidden, inputs))
        )
        learner = Boltzmann(
            negative=self.negative,  # type: ignore[arg-type]
            sweeps=self.sweeps,
            batch=self.batch_size,
            patience=self.patience,
            optimiser=SGD(rate=self.learning_rate, momentum=self.momentum),
        )
        held = None if self.patience is None else self.validation_fraction
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a number of epochs was asked for
            found = fit(
                blank, rows, learner, targets=outputs, validation=held, max_iter=self.n_iter, tol=0.0,
                seed=self._seed(), checkpoint=checkpoint, every=every,
            )  # fmt: skip
        self._keep_fit(found)
        self.model_ = found.model
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Outputs of every row, 0 or 1, (rows, outputs)."""
        if self.negative not in ("margin", "joint-margin", "icm-margin"):
            return (self.predict_proba(X) > 0.5).astype(np.int64)
        maximise: Any = ["visible"] if self.negative == "margin" else "all"
        states = self._asked(X, None, maximise=maximise).assignment
        assert states is not None
        return np.asarray(states["visible"])

    def predict_proba(self, X: Any) -> np.ndarray:
        """p(output = 1 | row) of every output, by sum-product or mean field."""
        method = "mean-field" if self.negative not in ("bp", "margin", "joint-margin", "icm-margin") else "bp"
        found = self._asked(X, method).marginals
        assert found is not None
        return np.asarray(found["visible"])

    def _asked(self, X: Any, method: str | None, **options: Any) -> Result:
        model: Any = self._learned("model_")
        rows = read_rows(self, X)
        sweeps = (self.sweeps or 7) + self.n_iter  # as many as the last epoch had
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # as while learning
            return infer(model, method, data=rows, max_iter=sweeps, tol=_SETTLED, **options)

    def score(self, X: Any, y: Any) -> float:
        """The fraction of outputs that are predicted right."""
        return float((self.predict(X) == (_outputs(y) > 0.5)).mean())


def _outputs(y: Any) -> np.ndarray:
    """Rows of outputs; the machine checks that they are from 0 to 1."""
    if y is None:
        raise DataError("ConditionalRBMClassifier requires y to be passed, but the target y is None")
    found = np.asarray(y, dtype=np.float64)
    if found.ndim != 2:
        raise DataError(f"y: expected a table (rows, outputs) of two-state outputs, got shape {found.shape}")
    return found
