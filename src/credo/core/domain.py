"""Domains: what values a variable takes.

    Discrete        finitely many states, with or without labels
    Real(d)         a number of the whole line, or a vector of d of them
    Positive        a number above zero
    Interval(a, b)  a number between two others
    Simplex(k)      a vector of k non-negative numbers that sum to one

A domain reads one value given by a user (`value`) and says how many states it has (`size`, 0 where values
are not counted), so that flat arrays over states have no room for variables without states. Values of a
continuous domain are arrays of its `shape`; they are described by free coordinates, numbers of the whole line
(`bijections.py`).
"""

from __future__ import annotations

import abc
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from .errors import ModelError
from .numbers import float_array
from .records import register

__all__ = [
    "Continuous",
    "Discrete",
    "Domain",
    "FreeCoordinate",
    "Interval",
    "Positive",
    "Real",
    "Simplex",
    "domain_of",
    "unlabelled_states",
]


_MANY = 2**63  # the first number of states that arrays cannot count


@register("discrete")
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
            return unlabelled_states(int(states))
        if isinstance(states, (str, bytes)) or not isinstance(states, Iterable):
            raise ModelError(f"states: expected a count or a list of labels, got {states!r}")
        labels = tuple(str(s) for s in states)
        if not labels:
            raise ModelError("a domain needs at least one state, got an empty list")
        if len(set(labels)) < len(labels):
            raise ModelError(f"state labels must differ, got {list(labels)!r:.80}")
        return cls(len(labels), labels)

    def to_parts(self) -> dict[str, Any]:
        """What files keep: the labels, or how many states there are."""
        return {"states": self.size if self.states is None else self.states}

    @classmethod
    def from_parts(cls, states: Any) -> Discrete:
        """The domain of these states."""
        if type(states) is not int and not (
            isinstance(states, tuple) and all(isinstance(s, str) for s in states)
        ):
            raise ModelError(f"states: expected a count or labels, got {states!r:.80}")
        return cls.of(states)

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
def unlabelled_states(size: int) -> Discrete:
    """The domain of this many states without labels, made once."""
    return Discrete(size)


class Continuous(abc.ABC):
    """A domain whose values are numbers, or vectors of them."""

    __slots__ = ()
    kind: ClassVar[str]  # what algorithms call it where they say what they read

    @property
    def size(self) -> int:
        """Zero: the values of this domain are not numbered states."""
        return 0

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Of a value: () or (width,)."""

    @property
    def numbers(self) -> int:
        """How many numbers a value has."""
        return self.shape[0] if self.shape else 1

    @abc.abstractmethod
    def value(self, given: Any) -> Any:
        """One value, or an error that says what was expected."""


def _number(given: Any) -> float:
    if type(given) in (float, int) and abs(given) <= sys.float_info.max:
        return float(given)
    array = float_array("", given, expected="a number")
    if array.size != 1:
        raise ModelError(f"expected a number, got {given!r:.80}")
    number = float(array.item())
    if not np.isfinite(number):
        raise ModelError(f"expected a finite number, got {number}")
    return number


def _vector(given: Any, width: int) -> np.ndarray:
    vector = float_array("", given, expected=f"{width} numbers")
    if vector.shape != (width,):
        raise ModelError(f"expected {width} numbers, got shape {vector.shape}")
    if not np.isfinite(vector).all():
        raise ModelError(f"expected finite numbers, got {vector}")
    return vector


def _check_width(what: str, width: Any) -> None:
    if not isinstance(width, (int, np.integer)) or isinstance(width, bool) or not 1 <= width < _MANY:
        raise ModelError(f"{what} needs at least one coordinate and fewer than 2^63, got {width!r:.80}")


@register("real")
@dataclass(frozen=True, slots=True, repr=False)
class Real(Continuous):
    """Numbers of the whole line, `Variable("x", Real())`, or vectors of them, `Variable("y", Real(3))`."""

    kind: ClassVar[str] = "real"
    width: int = 1  # how many numbers a value has; one is a number, not a vector

    def __post_init__(self) -> None:
        _check_width("Real", self.width)

    @property
    def shape(self) -> tuple[int, ...]:
        """A number, or a vector."""
        return () if self.width == 1 else (self.width,)

    def value(self, given: Any) -> Any:
        """One value, or an error that says what was expected."""
        return _number(given) if self.width == 1 else _vector(given, self.width)

    def __repr__(self) -> str:
        return "Real()" if self.width == 1 else f"Real({self.width})"


@dataclass(frozen=True, slots=True, repr=False)
class FreeCoordinate(Real):
    """A number of the line that describes a value of another domain, and how far it makes a difference."""

    low: float = -np.inf  # where values become the last number before an end of their domain
    high: float = np.inf  # the same towards the other end


@register("positive")
@dataclass(frozen=True, slots=True)
class Positive(Continuous):
    """The numbers above zero: `Variable("rate", Positive())`."""

    kind: ClassVar[str] = "positive"

    @property
    def shape(self) -> tuple[int, ...]:
        """A number."""
        return ()

    def value(self, given: Any) -> float:
        """One value, or an error that says what was expected."""
        number = _number(given)
        if not number > 0:
            raise ModelError(f"expected a number above zero, got {number}")
        return number


@register("interval")
@dataclass(frozen=True, slots=True, repr=False)
class Interval(Continuous):
    """The numbers between two others, which do not belong to it: `Variable("p", Interval(0, 1))`."""

    kind: ClassVar[str] = "interval"
    low: float  # where it begins
    high: float  # where it ends

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            try:
                object.__setattr__(self, name, _number(getattr(self, name)))
            except ModelError as error:
                raise ModelError(
                    f"Interval: its ends: {error}; Positive() and Real() have no ends at infinity to give"
                ) from None
        if not self.low < self.high:
            raise ModelError(
                f"Interval: the first end must be below the second, got {self.low} and {self.high}"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """A number."""
        return ()

    def value(self, given: Any) -> float:
        """One value, or an error that says what was expected."""
        number = _number(given)
        if not self.low < number < self.high:
            raise ModelError(f"expected a number between {self.low:g} and {self.high:g}, got {number}")
        return number

    def __repr__(self) -> str:
        return f"Interval({self.low:g}, {self.high:g})"


_SUM = 1e-6  # how far from one the sum of a given vector may be


@register("simplex")
@dataclass(frozen=True, slots=True)
class Simplex(Continuous):
    """Vectors of `width` non-negative numbers that sum to one: `Variable("theta", Simplex(3))`."""

    kind: ClassVar[str] = "simplex"
    width: int  # how many numbers a value has

    def __post_init__(self) -> None:
        _check_width("a simplex", self.width)

    @property
    def shape(self) -> tuple[int, ...]:
        """A vector."""
        return (self.width,)

    def value(self, given: Any) -> np.ndarray:
        """One value, or an error that says what was expected."""
        vector = _vector(given, self.width)
        if not (vector >= 0).all() or abs(vector.sum() - 1) > _SUM:
            raise ModelError(f"expected non-negative numbers that sum to 1, got {vector}")
        return vector


Domain = Discrete | Continuous


def domain_of(given: int | Iterable[Any] | Domain) -> Domain:
    """A domain from a count, a list of labels, or a domain."""
    return given if isinstance(given, Continuous) else Discrete.of(given)
