"""What estimators in the manner of scikit-learn share; scikit-learn itself is not needed."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from ..core.display import Listing, Shown, told
from ..core.errors import OptionError

__all__ = ["Estimator"]


class Estimator(Shown):
    """Options are the arguments of the constructor, stored under their names; `fit` sets names with _."""

    _kind = "density_estimator"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The options, by name."""
        names = inspect.signature(type(self).__init__).parameters
        return {name: getattr(self, name) for name in names if name != "self"}

    def set_params(self, **options: Any) -> Self:
        """Change options; returns the estimator itself."""
        known = self.get_params()
        for name, value in options.items():
            if name not in known:
                raise OptionError(
                    f"{type(self).__name__} has no option '{name}'; its options are {sorted(known)}"
                )
            setattr(self, name, value)
        return self

    def to_parts(self) -> dict[str, Any]:
        """What files keep: the options and what was learned."""
        learned = {name: value for name, value in vars(self).items() if _is_learned(name)}
        return {"options": self.get_params(), "learned": learned}

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
        from sklearn.utils import InputTags, Tags, TargetTags  # type: ignore[import-untyped]

        return Tags(estimator_type=self._kind, target_tags=TargetTags(required=False), input_tags=InputTags())

    def __sklearn_is_fitted__(self) -> bool:
        return any(map(_is_learned, vars(self)))

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        shown = [f"{k}={v!r}" for k, v in self.get_params().items() if v is not defaults[k].default]
        return f"{type(self).__name__}({', '.join(shown)})"

    def _shown(self) -> Iterable[str | Listing]:
        learned = {k: v for k, v in vars(self).items() if _is_learned(k)}
        yield repr(self)
        for title, values in (("option", self.get_params()), ("learned", learned)):
            if values:
                rows = [[name, _brief(value)] for name, value in values.items()]
                yield Listing(rows, [False, False], [title, "value"])


def _is_learned(name: str) -> bool:
    return name.endswith("_") and not name.startswith("_")


def _brief(value: Any) -> str:
    """A value on one line; of a large array the shape."""
    if isinstance(value, np.ndarray):
        return told(value) if value.ndim < 2 and value.size <= 8 else f"array of shape {value.shape}"
    return f"{value!r:.80}"
