"""What estimators that give new columns share: names of these, and tables in the form that was asked for."""

from __future__ import annotations

import abc
import importlib
import sys
from typing import Any, Self

import numpy as np

from ..core import check
from ..core.errors import MissingExtraError
from .base import Estimator

__all__ = ["TransformerEstimator"]


class TransformerEstimator(Estimator, abc.ABC):
    """What the estimators share; final classes say what the columns are."""

    _kind = None

    @abc.abstractmethod
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows; `y` is not used."""

    @abc.abstractmethod
    def _columns(self, X: Any) -> np.ndarray:
        """The new columns of rows."""

    @property
    @abc.abstractmethod
    def _n_features_out(self) -> int:
        """How many columns come out."""

    def transform(self, X: Any) -> Any:
        """The new columns of rows: an array, or a frame if `set_output` asks for one."""
        return self._formed(self._columns(X), X)

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """`fit`, then `transform`, of the same rows."""
        return self.fit(X).transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the new columns; those of the old ones play no part."""
        self._learned("n_features_in_")
        name = type(self).__name__.lower()
        return np.array([f"{name}{k}" for k in range(self._n_features_out)], dtype=object)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Whether `transform` gives an array (`"default"`), a `"pandas"` or a `"polars"` frame."""
        if transform is not None:
            check.one_of("transform", transform, ["default", "pandas", "polars"])
            self._sklearn_output_config = {"transform": transform}
        return self

    def _formed(self, table: np.ndarray, X: Any) -> Any:
        form = getattr(self, "_sklearn_output_config", {}).get("transform")
        if form is None and "sklearn" in sys.modules:
            form = sys.modules["sklearn"].get_config()["transform_output"]
        if form in (None, "default"):
            return table
        names = self.get_feature_names_out()
        try:
            if form == "pandas":
                import pandas

                return pandas.DataFrame(table, columns=names, index=getattr(X, "index", None))
            return importlib.import_module("polars").DataFrame(table, schema=list(names))
        except ImportError:
            raise MissingExtraError(
                f"set_output: expected {form} to be installed; install it, or ask for 'default'"
            ) from None
