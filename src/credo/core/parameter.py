"""Parameters that are declared: a factor gets one in the place of a number, and learning may change it."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .domain import Continuous, Real
from .errors import ModelError
from .numbers import float_array

__all__ = ["Parameter"]


class Parameter:
    """A number, or an array of numbers, by a name; factors that are given the same name share it.

    Parameters
    ----------
    name
        What it is called in `HybridNet.parameters`.
    value
        Where it begins.
    domain
        Where each of its numbers lies: `Real()`, `Positive()` or `Interval(a, b)`.

    Examples
    --------
    >>> import credo
    >>> a, b = credo.Variable("a", 2), credo.Variable("b", 2)
    >>> def alike(a, b, strength):
    ...     return strength * (a == b)
    >>> pull = credo.Parameter("pull", 0.0)
    >>> net = credo.HybridNet([a, b], [credo.DensityFactor([a, b], alike, pull)])
    >>> found = credo.fit(net, {"a": [0, 1, 1, 0], "b": [0, 1, 1, 1]}).model
    >>> float(found.parameters["pull"].round(4))  # log(3 / 1)
    1.0986
    """

    is_declared: ClassVar[bool] = True

    def __init__(self, name: str, value: Any, domain: Continuous | None = None) -> None:
        if not isinstance(name, str) or not name:
            raise ModelError(f"parameter: expected a name, got {name!r:.80}")
        self.name, self.domain = name, Real() if domain is None else domain
        if not isinstance(self.domain, Continuous) or self.domain.shape:
            raise ModelError(
                f"parameter '{name}': expected a domain of single numbers, such as Positive(), got "
                f"{self.domain!r:.60}; an array has one number of the domain in each place"
            )
        self.value = float_array(f"parameter '{name}'", value, copy=True)
        for number in self.value.ravel():
            try:
                self.domain.value(number)
            except ModelError as error:
                raise ModelError(f"parameter '{name}': {error}") from None
        self.value.flags.writeable = False

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The value, where a factor wants numbers."""
        return np.array(self.value, dtype=dtype)

    def __repr__(self) -> str:
        return f"Parameter({self.name!r}, {self.value.tolist()}, {self.domain!r})"
