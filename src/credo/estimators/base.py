"""What estimators in the manner of scikit-learn share; scikit-learn itself is not needed.

Options are the arguments of the constructor, kept under their names; `fit` sets names that end with `_`. What
scikit-learn wants of its own types (tags, the error of an estimator that is not fitted) is made of these
where it is loaded already: importing it takes longer than most fits.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from typing import Any, ClassVar, NoReturn, Self

import numpy as np

from ..core import check
from ..core.display import Listing, Shown, told
from ..core.errors import OptionError, QueryError
from ..learning.base import Fit

__all__ = ["Estimator"]


class UnfittedError(QueryError, AttributeError):
    """An estimator is asked about something that only `fit` can tell."""


class Estimator(Shown):
    """Options are the arguments of the constructor, stored under their names; `fit` sets names with _."""

    _kind: ClassVar[str | None] = "density_estimator"  # scikit-learn's word for what it is
    _allows_nan: ClassVar[bool] = False  # whether NaN in X is a missing number
    _needs_y: ClassVar[bool] = False
    _has_positive_rows: ClassVar[bool] = False  # whether X must not be negative
    _reads_sparse: ClassVar[bool] = False
    _reads_tables: ClassVar[bool] = True  # whether X is a table (rows, columns)

    fit_: Fit  # the report of the learner: curves, status, notes

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The options, by name; `deep` adds those of options that are estimators, as `option__name`."""
        names = inspect.signature(type(self).__init__).parameters
        found = {name: getattr(self, name) for name in names if name != "self"}
        for name, value in list(found.items()) if deep else ():
            if isinstance(value, Estimator):
                found |= {f"{name}__{inner}": v for inner, v in value.get_params().items()}
        return found

    def set_params(self, **options: Any) -> Self:
        """Change options; returns the estimator itself."""
        known = self.get_params()
        for name, value in options.items():
            if name not in known:
                raise OptionError(
                    f"{type(self).__name__} has no option '{name}'; its options are {sorted(known)}"
                )
            outer, _, inner = name.partition("__")
            if inner:
                getattr(self, outer).set_params(**{inner: value})
            else:
                setattr(self, name, value)
        return self

    def to_parts(self) -> dict[str, Any]:
        """What files keep: the options and what was learned."""
        learned = {name: value for name, value in vars(self).items() if _is_learned(name)}
        return {"options": self.get_params(deep=False), "learned": learned}

    @classmethod
    def from_parts(cls, options: Any, learned: Any) -> Self:
        """The estimator of what a file kept."""
        made = cls(**options)
        for name, value in learned.items():
            if not _is_learned(name) or hasattr(cls, name):
                raise OptionError(f"{cls.__name__} learns no '{name!s:.40}'")
            setattr(made, name, value)
        return made

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks of an estimator; it is there when this is called."""
        from sklearn.utils import (  # type: ignore[import-untyped]
            ClassifierTags,
            InputTags,
            Tags,
            TargetTags,
            TransformerTags,
        )

        reads = InputTags(
            two_d_array=self._reads_tables, sparse=self._reads_sparse, allow_nan=self._allows_nan,
            positive_only=self._has_positive_rows,
        )  # fmt: skip
        return Tags(
            estimator_type=self._kind,
            target_tags=TargetTags(required=self._needs_y),
            transformer_tags=TransformerTags(preserves_dtype=[]) if hasattr(self, "transform") else None,
            classifier_tags=ClassifierTags() if self._kind == "classifier" else None,
            input_tags=reads,
        )

    def __sklearn_is_fitted__(self) -> bool:
        return any(map(_is_learned, vars(self)))

    def _learned(self, name: str) -> Any:
        """Something that `fit` sets, or the refusal of an estimator without it."""
        if not hasattr(self, name):
            self._refuse_unfitted()
        return getattr(self, name)

    def _refuse_unfitted(self) -> NoReturn:
        told = f"this {type(self).__name__} is not fitted yet; call fit first"
        known = sys.modules.get("sklearn.exceptions")
        if known is None:
            raise UnfittedError(told)

        class NotFittedError(UnfittedError, known.NotFittedError):  # type: ignore[misc, name-defined]
            """For those who catch scikit-learn's."""

        raise NotFittedError(told)

    def _seed(self, given: Any = None) -> Any:
        """The seed of a call: the one given there, or `random_state`; NumPy's old generators are shared."""
        state = getattr(self, "random_state", None) if given is None else given
        return shared_generator(state)

    def _keep_fit(self, found: Fit) -> None:
        """The report of a learner, and what scikit-learn calls its parts."""
        self.fit_ = found
        self.n_iter_ = max(len(found.objective) - 1, 1)
        self.converged_ = found.converged

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        options = self.get_params(deep=False)
        shown = [f"{k}={v!r}" for k, v in options.items() if not _is_same(v, defaults[k].default)]
        return f"{type(self).__name__}({', '.join(shown)})"

    def _shown(self) -> Iterable[str | Listing]:
        learned = {k: v for k, v in vars(self).items() if _is_learned(k)}
        yield repr(self)
        for title, values in (("option", self.get_params()), ("learned", learned)):
            if values:
                rows = [[name, _brief(value)] for name, value in values.items()]
                yield Listing(rows, [False, False], [title, "value"])


def shared_generator(state: Any) -> Any:
    """What `credo.fit` takes as a seed, for what scikit-learn takes as a `random_state`."""
    if isinstance(state, np.random.RandomState):
        return np.random.Generator(state._bit_generator)  # type: ignore[attr-defined]
    if state is np.random:
        return None
    if state is not None:
        check.generator(state, "random_state")
    return state


def _is_learned(name: str) -> bool:
    return name.endswith("_") and not name.startswith("_")


def _is_same(value: Any, default: Any) -> bool:
    """Whether an option has its default; arrays have none."""
    return value is default or (
        type(value) is type(default) and isinstance(value, (int, float, str, tuple)) and value == default
    )


def _brief(value: Any) -> str:
    """A value on one line; of a large array the shape."""
    if isinstance(value, np.ndarray):
        return told(value) if value.ndim < 2 and value.size <= 8 else f"array of shape {value.shape}"
    return f"{value!r:.80}"
