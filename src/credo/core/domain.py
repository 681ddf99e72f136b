"""Domains: what values a variable takes.

    Discrete   finitely many states, with or without labels
    Real       a number of the whole line
    Simplex    a vector of K non-negative numbers that sum to one

A domain reads one value given by a user (`value`) and says how many states it has (`size`, 0 where values
are not counted), so that flat arrays over states have no room for variables without states.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from .errors import ModelError
from .numbers import float_array

__all__ = ["Discrete", "Domain", "Real", "Simplex", "domain_of", "unlabelled"]


_MANY = 2**63  # the first number of states that arrays cannot count


@dataclass(frozen=True, slots=True)
class Discrete:
    """A finite set of states, with or without labels; without, labels are '0', '1', ..."""

    kind: ClassVar[str] = "discrete"
    size: int  # number of states
    states: tuple[str, ...] | None = None  # labels in the order of the table axis

    @classmethod
    def of(cls, states: int | Iterable[Any] | Discrete) -> Discrete:
        """Make a domain from a count, a list of labels, or another domain."""
        if isinstance(states, Discrete):
            return states
        if isinstance(states, (int, np.integer)) and not isinstance(states, bool):
            if states < 1:
                raise ModelError(f"a domain needs at least one state, got {states!r:.80}")
            if states >= _MANY:
                raise ModelError(f"a domain has fewer than 2^63 states, got {states!r:.80}")
            return unlabelled(int(states))
        if isinstance(states, (str, bytes)) or not isinstance(states, Iterable):
            raise ModelError(f"states: expected a count or a list of labels, got {states!r}")
        labels = tuple(str(s) for s in states)
        if not labels:
            raise ModelError("a domain needs at least one state, got an empty list")
        if len(set(labels)) < len(labels):
            raise ModelError(f"state labels must differ, got {list(labels)}")
        return cls(len(labels), labels)

    def label(self, i: int) -> str:
        """The label of state `i`."""
        return str(i) if self.states is None else self.states[i]

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels in order."""
        return tuple(map(str, range(self.size))) if self.states is None else self.states

    def restrict(self, keep: np.ndarray) -> Discrete:
        """The domain with only the states whose indices are in `keep`."""
        return Discrete(len(keep), tuple(self.label(int(i)) for i in keep))


@lru_cache(maxsize=4096)
def unlabelled(size: int) -> Discrete:
    """The domain of this many states without labels, made once."""
    return Discrete(size)


@dataclass(frozen=True, slots=True)
class Real:
    """The numbers of the whole line: `Variable("x", Real())`."""

    kind: ClassVar[str] = "real"

    @property
    def size(self) -> int:
        """No states."""
        return 0

    @property
    def width(self) -> int:
        """How many numbers a value has."""
        return 1

    def value(self, given: Any) -> float:
        """One value, or an error that says what was expected."""
        if type(given) in (float, int) and abs(given) <= sys.float_info.max:
            return float(given)
        array = float_array("", given, expected="a number")
        if array.size != 1:
            raise ModelError(f"expected a number, got {given!r:.80}")
        number = float(array.item())
        if not np.isfinite(number):
            raise ModelError(f"expected a finite number, got {number}")
        return number


_SUM = 1e-6  # how far from one the sum of a given vector may be


@dataclass(frozen=True, slots=True)
class Simplex:
    """Vectors of `width` non-negative numbers that sum to one: `Variable("theta", Simplex(3))`."""

    kind: ClassVar[str] = "simplex"
    width: int  # how many numbers a value has

    def __post_init__(self) -> None:
        if not isinstance(self.width, (int, np.integer)) or not 1 <= self.width < _MANY:
            raise ModelError(
                f"a simplex needs at least one coordinate and fewer than 2^63, got {self.width!r:.80}"
            )

    @property
    def size(self) -> int:
        """No states."""
        return 0

    def value(self, given: Any) -> np.ndarray:
        """One value, or an error that says what was expected."""
        vector = float_array("", given, expected=f"{self.width} numbers")
        if vector.shape != (self.width,):
            raise ModelError(f"expected {self.width} numbers, got shape {vector.shape}")
        if not (vector >= 0).all() or abs(vector.sum() - 1) > _SUM:
            raise ModelError(f"expected non-negative numbers that sum to 1, got {vector}")
        return vector


Domain = Discrete | Real | Simplex


def domain_of(given: int | Iterable[Any] | Domain) -> Domain:
    """A domain from a count, a list of labels, or a domain."""
    return given if isinstance(given, (Real, Simplex)) else Discrete.of(given)
