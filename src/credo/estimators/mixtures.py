"""What the estimators of mixtures share: whose rows these are, how likely they are, new ones."""

from __future__ import annotations

import abc
import os
from typing import Any, ClassVar, Self

import numpy as np

from ..core import check
from ..families.independent import IndependentRows, rows_model
from ..inference.exact.hidden_rows import smooth_rows
from ..inference.portfolio.templates import draw_rows, sequence_log_z
from .base import Estimator
from .inputs import read_rows

__all__ = ["MixtureEstimator"]


class MixtureEstimator(Estimator, abc.ABC):
    """What the estimators share; final classes say how they learn."""

    _allows_nan = True
    _flat: ClassVar[bool] = False

    n_components: int
    random_state: Any

    @abc.abstractmethod
    def fit(
        self, X: Any, y: Any = None, *, checkpoint: str | os.PathLike[str] | None = None, every: float = 60
    ) -> Self:
        """Learn from rows; `y` is not used."""

    @property
    @abc.abstractmethod
    def model_(self) -> Any:
        """The mixture that was learned."""

    def _asked(self) -> Any:
        """What says whose rows are whose."""
        return rows_model(self.model_)

    def _read(self, X: Any, *, reset: bool = False) -> np.ndarray:
        return read_rows(self, X, reset=reset)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of every component for every row, (rows, components)."""
        return smooth_rows(self._asked().instantiate(self._read(X))).marginals

    def predict(self, X: Any) -> np.ndarray:
        """The most probable component of every row."""
        return self.predict_proba(X).argmax(axis=1)

    def fit_predict(self, X: Any, y: Any = None) -> np.ndarray:
        """Learn, and say to which component each row belongs."""
        return self.fit(X).predict(X)

    def score_samples(self, X: Any) -> np.ndarray:
        """Log density of every row."""
        model = IndependentRows(self.model_)
        return sequence_log_z(model, model.sequences(self._read(X)))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log density of the rows."""
        return float(self.score_samples(X).mean())

    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """New rows, and the components they are from."""
        check.whole("n_samples", n_samples, 1)
        return draw_rows(self.model_, n_samples, self._seed(random_state))
