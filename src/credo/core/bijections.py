r"""Free coordinates: one table of bijections between the values of a domain and numbers of the whole line.

    domain           x of u                                 log |dx / du|
    Real(d)          x = u                                  0
    Positive         x = exp u                              u
    Interval(a, b)   x = a + (b - a) s(u)                   log(b - a) + log s(u) + log s(-u)
    Simplex(k)       x = softmax(u_1, ..., u_{k-1}, 0)      sum_k log x_k

with the logistic s(u) = 1 / (1 + exp(-u)). A density p(x) of values is the density p(x(u)) |dx / du| of free
coordinates. Samplers, variational methods and optimisers move u, which no wall limits; the table is all they
know of a domain. Beyond the `reach` of u, x would be rounded to the boundary and is the last number inside
instead: log-potentials are asked for at values of the domain only. Functions take NumPy and JAX arrays;
coordinates are on the last axis.

A new domain is a class (`domain.Continuous`) and one line here, or one call of `register_bijection`.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from .density import namespace
from .domain import Continuous, Interval, Positive, Real, Simplex
from .errors import ModelError

__all__ = ["Bijection", "bijection_of", "free_kinds", "register_bijection"]

_ROOM = 0.98  # share of the exponents of a number format that is used
_INSIDE = 0.99  # of it that is sure to lie inside
_DIGITS = 3.0  # nats of the distance from an end that are left where values are last told apart


class Bijection(abc.ABC):
    """A domain and its free coordinates; equal for equal domains, so that compiled programs are shared."""

    @property
    @abc.abstractmethod
    def free(self) -> int:
        """How many free coordinates there are."""

    @abc.abstractmethod
    def forward(self, x: Any) -> Any:
        """Free coordinates (..., free) of values (...) or (..., width)."""

    @abc.abstractmethod
    def inverse(self, u: Any) -> Any:
        """Values of free coordinates."""

    @abc.abstractmethod
    def log_jacobian(self, u: Any) -> Any:
        """Log |dx / du|, (...); for values on a simplex, of all coordinates but the last."""

    @property
    def keeps_volume(self) -> bool:
        """Whether the log Jacobian is zero everywhere."""
        return False

    @property
    def reach(self) -> tuple[tuple[float, float], ...]:
        """Per coordinate, where it begins and ends to make a difference; infinite if it always does."""
        return ((-np.inf, np.inf),) * self.free


@dataclass(frozen=True)
class _Identity(Bijection):
    domain: Real

    @property
    def free(self) -> int:
        return self.domain.width

    def forward(self, x: Any) -> Any:
        xp = namespace(x)
        return xp.asarray(x) if self.domain.shape else xp.asarray(x)[..., None]

    def inverse(self, u: Any) -> Any:
        return u if self.domain.shape else u[..., 0]

    def log_jacobian(self, u: Any) -> Any:
        return namespace(u).zeros(u.shape[:-1])

    @property
    def keeps_volume(self) -> bool:
        return True


@dataclass(frozen=True)
class _Logarithm(Bijection):
    domain: Positive

    @property
    def free(self) -> int:
        return 1

    def forward(self, x: Any) -> Any:
        xp = namespace(x)
        return xp.log(xp.asarray(x))[..., None]

    def inverse(self, u: Any) -> Any:
        return namespace(u).exp(_limit(u[..., 0]))

    def log_jacobian(self, u: Any) -> Any:
        xp, u = namespace(u), u[..., 0]
        return xp.where(u < _most(u), u, -xp.inf)  # x stands still above

    @property
    def reach(self) -> tuple[tuple[float, float], ...]:
        most = _INSIDE * _most(np.zeros(1))
        return ((-most, most),)


@dataclass(frozen=True)
class _ScaledLogit(Bijection):
    domain: Interval

    @property
    def free(self) -> int:
        return 1

    def forward(self, x: Any) -> Any:
        xp = namespace(x)
        x = xp.asarray(x)
        return (xp.log(x - self.domain.low) - xp.log(self.domain.high - x))[..., None]

    def inverse(self, u: Any) -> Any:
        xp, a, b = namespace(u), self.domain.low, self.domain.high
        small = (b - a) / (
            1 + xp.exp(_limit(xp.abs(u[..., 0])))
        )  # the distance from the nearer end, all digits
        x = xp.where(u[..., 0] < 0, a + small, b - small)
        inside = np.asarray([a, b], dtype=x.dtype)
        return xp.clip(x, np.nextafter(inside[0], inside[1]), np.nextafter(inside[1], inside[0]))

    def log_jacobian(self, u: Any) -> Any:
        xp, u = namespace(u), u[..., 0]
        return np.log(self.domain.high - self.domain.low) - xp.logaddexp(0.0, u) - xp.logaddexp(0.0, -u)

    @property
    def reach(self) -> tuple[tuple[float, float], ...]:
        ends = np.array([self.domain.low, self.domain.high])
        gaps = np.maximum(np.abs(np.spacing(ends)), np.exp(-_most(ends)))  # between the last numbers
        low, high = np.log((ends[1] - ends[0]) / gaps) - _DIGITS
        return ((-float(low), float(high)),)


@dataclass(frozen=True)
class _LogRatios(Bijection):
    domain: Simplex

    @property
    def free(self) -> int:
        return self.domain.width - 1

    def forward(self, x: Any) -> Any:
        xp = namespace(x)
        x = xp.asarray(x)
        logs = xp.log(xp.maximum(x, np.finfo(x.dtype).tiny))
        return logs[..., :-1] - logs[..., -1:]

    def inverse(self, u: Any) -> Any:
        return namespace(u).exp(self._logs(u))

    def log_jacobian(self, u: Any) -> Any:
        return self._logs(u).sum(axis=-1)

    def _logs(self, u: Any) -> Any:
        xp = namespace(u)
        logits = xp.concatenate([u, xp.zeros((*u.shape[:-1], 1), dtype=u.dtype)], axis=-1)
        apart = logits - logits.max(axis=-1, keepdims=True)
        return apart - xp.log(xp.exp(apart).sum(axis=-1, keepdims=True))


def _limit(u: Any) -> Any:
    """Numbers whose exponentials are neither zero nor infinite."""
    return namespace(u).clip(u, -_most(u), _most(u))


def _most(u: Any) -> float:
    """The largest number whose exponential is finite, and one over it too."""
    return _ROOM * float(np.log(np.finfo(u.dtype).max))


_TABLE: dict[str, Callable[[Any], Bijection]] = {
    "real": _Identity,
    "positive": _Logarithm,
    "interval": _ScaledLogit,
    "simplex": _LogRatios,
}


_OWN = tuple(_TABLE)


def register_bijection(kind: str, make: Callable[[Any], Bijection]) -> None:
    """Make a domain known: the word of its `kind`, and its bijection for a domain of that kind."""
    if kind in _OWN:
        raise ModelError(f"the kind '{kind}' of domains is built in; choose another word")
    _TABLE[kind] = make
    bijection_of.cache_clear()


def free_kinds() -> tuple[str, ...]:
    """The kinds of domains that have free coordinates."""
    return tuple(_TABLE)


@lru_cache(maxsize=4096)
def bijection_of(domain: Continuous) -> Bijection:
    """The bijection of a domain to its free coordinates.

    Examples
    --------
    >>> import numpy as np
    >>> from credo import Interval
    >>> from credo.core.bijections import bijection_of
    >>> bijection_of(Interval(0, 10)).inverse(np.array([[-1.0], [0.0], [1.0]])).round(3).tolist()
    [2.689, 5.0, 7.311]
    """
    make = _TABLE.get(domain.kind)
    if make is None:
        raise ModelError(
            f"{domain!r} has no free coordinates: no bijection is known for the kind '{domain.kind}'; "
            "give one to credo.core.bijections.register_bijection"
        )
    return make(domain)
