r"""Nodes of directed conjugate models for variational message passing.

Every random node is an exponential family with statistics u(x); its natural parameters are a function of
the moments E[u] of its parents, linear in each of them. So what a child tells a parent is the coefficient of
the parent's statistics in E[log p(child | parents)]:

    Gaussian    u = (x, x^2)        x ~ N(m, 1/t):  to x (t m, -t/2), to m (t x, -t/2), to t (-(x-m)^2/2, 1/2)
    Vector      u = (x, x x')       x ~ N(0, diag(t)^-1)
    Gamma       u = (t, log t)      t ~ Gamma(a, b):  (-b, a - 1)
    Dirichlet   u = (log p)         p ~ Dirichlet(a): a - 1
    Categorical u = one-hot         z ~ p: to z log p, to p the one-hot
    Dot         m = a . b           of two vectors, no random node itself: passes messages on

`choose=z` makes a node a mixture: its parents carry one more last axis (for `Categorical` one before the
states) with the components, and the categorical node z selects among them.

A node has a shape, and parents broadcast against it as NumPy arrays do; messages are summed over broadcast
axes. Constants may stand for any parent. Values of observed nodes that are NaN (-1 for states) are missing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln, psi

from ..core.errors import DataError, ModelError
from ..core.numbers import float_array
from .vmp_base import (
    Constant,
    Moments,
    Node,
    Random,
    Root,
    check_broadcast,
    check_kind,
    fold,
    nodes_among,
    shape_of,
)
from .vmp_discrete import Categorical, Dirichlet

__all__ = ["Categorical", "Dirichlet", "Dot", "Gamma", "Gaussian", "Node", "Vector"]

_LOG_2PI = float(np.log(2.0 * np.pi))


class Gaussian(Random):
    """Real numbers x ~ N(mean, 1 / precision).

    Parameters
    ----------
    mean
        A number, an array, a `Gaussian` or a `Dot`.
    precision
        A number, an array or a `Gamma`.
    shape
        Of the node; by default that of its parents together.
    choose
        A `Categorical` that selects the last axis of the parents.
    observed
        Data; NaN is missing.
    """

    def __init__(
        self, mean: Any = 0.0, precision: Any = 1.0, *, shape: Any = None, choose: Any = None,
        observed: Any = None,
    ) -> None:  # fmt: skip
        self.mean = _real(mean)
        self.precision = _positive(precision)
        check_kind("mean", self.mean, (Gaussian, Dot))
        check_kind("precision", self.precision, (Gamma,))
        self.choose = choose
        wide = np.broadcast_shapes(self.mean.shape, self.precision.shape)
        data = observed
        if data is not None:
            data = float_array("observed", data, error=DataError, missing=True)
        self.shape = shape_of(shape, data, wide[:-1] if choose is not None else wide)
        self._full = full_shape(self.shape, choose, [self.mean, self.precision])
        if data is not None:
            if np.isinf(data).any():
                raise DataError("observed: expected finite numbers, or NaN for missing, got infinity")
            self.seen = (~np.isnan(data)).astype(float)
            filled = np.where(np.isnan(data), 0.0, data)
            self.observed = (filled, filled**2)
        self.parents = nodes_among(self.mean, self.precision, choose)

    def _terms(self, at: Any) -> tuple[np.ndarray, ...]:
        """E[m], E[m^2], E[t], E[log t], and the shares of the components (or 1)."""
        m, m2 = at(self.mean)
        t, log_t = at(self.precision)
        share = at(self.choose)[0] if self.choose is not None else np.ones(())
        return m, m2, t, log_t, share

    def prior(self, at: Any) -> Moments:
        """(t m, -t / 2), averaged over the components."""
        m, _, t, _, share = self._terms(at)
        first, second = share * t * m, -0.5 * share * t
        if self.choose is not None:
            first, second = (np.broadcast_to(a, self._full).sum(axis=-1) for a in (first, second))
        return np.broadcast_to(first, self.shape), np.broadcast_to(second, self.shape)

    def _value(self, at: Any) -> tuple[np.ndarray, ...]:
        x, x2 = at(self)
        seen = np.broadcast_to(self.seen, self.shape)
        return (x, x2, seen) if self.choose is None else (x[..., None], x2[..., None], seen[..., None])

    def to_parent(self, parent: Node, at: Any) -> Moments:
        """See the module."""
        m, m2, t, _, share = self._terms(at)
        x, x2, seen = self._value(at)
        if parent is self.choose:
            table = np.broadcast_to(seen * self._log(at), self._full)
            return (fold(table, self._full, (*parent.shape, self._full[-1])),)
        weight = share * seen
        if parent is self.mean:
            found: Moments = (weight * t * x, -0.5 * weight * t)
        else:
            found = (-0.5 * weight * (x2 - 2.0 * x * m + m2), 0.5 * weight)
        first, second = (fold(a, self._full, parent.shape) for a in found)
        return first, second

    def _log(self, at: Any) -> np.ndarray:
        m, m2, t, log_t, _ = self._terms(at)
        x, x2, _ = self._value(at)
        return 0.5 * (log_t - _LOG_2PI - t * (x2 - 2.0 * x * m + m2))

    def moments(self, natural: Moments) -> Moments:
        """E[x], E[x^2]."""
        variance = -0.5 / natural[1]
        mean = natural[0] * variance
        return mean, mean**2 + variance

    def log_normaliser(self, natural: Moments) -> np.ndarray:
        """With the constant, so that entropies are right."""
        return -0.25 * natural[0] ** 2 / natural[1] + 0.5 * (_LOG_2PI - np.log(-2.0 * natural[1]))

    def expected_log(self, at: Any) -> float:
        """Summed over values that are not missing."""
        share, seen = self._terms(at)[-1], self._value(at)[-1]
        return float(np.broadcast_to(share * seen * self._log(at), self._full).sum())


class Gamma(Root):
    """Positive numbers t ~ Gamma(a, b), E[t] = a / b; `a` and `b` are constants."""

    def __init__(self, a: Any = 1.0, b: Any = 1.0, *, shape: Any = None) -> None:
        self._a, self._b = float_array("Gamma", a), float_array("Gamma", b)
        if not ((self._a > 0).all() and (self._b > 0).all()):
            raise ModelError("Gamma: expected positive shapes and rates, got a number that is not")
        self.shape = shape_of(shape, None, np.broadcast_shapes(self._a.shape, self._b.shape))

    def prior(self, at: Any) -> Moments:
        """(-b, a - 1)."""
        return np.broadcast_to(-self._b, self.shape), np.broadcast_to(self._a - 1.0, self.shape)

    def moments(self, natural: Moments) -> Moments:
        """E[t], E[log t]."""
        rate, shape = -natural[0], natural[1] + 1.0
        return shape / rate, psi(shape) - np.log(rate)

    def log_normaliser(self, natural: Moments) -> np.ndarray:
        """Log Gamma(a) - a log b."""
        rate, shape = -natural[0], natural[1] + 1.0
        return gammaln(shape) - shape * np.log(rate)


class Vector(Random):
    """Real vectors x ~ N(0, diag(precision)^-1); the last axis, of `size`, is not in the shape.

    The precision is a number, an array or a `Gamma` that broadcasts against (*shape, size).
    """

    def __init__(self, size: int, precision: Any = 1.0, *, shape: Any = ()) -> None:
        self.size = int(size)
        self.precision = _positive(precision)
        check_kind("precision", self.precision, (Gamma,))
        self.shape = shape_of(shape, None, ())
        self._full = (*self.shape, self.size)
        check_broadcast(self.shape, self.precision.shape, self._full)
        self.parents = nodes_among(self.precision)

    def prior(self, at: Any) -> Moments:
        """(0, -diag(t) / 2)."""
        t = np.broadcast_to(at(self.precision)[0], self._full)
        return np.zeros(self._full), -0.5 * t[..., None] * np.eye(self.size)

    def to_parent(self, parent: Node, at: Any) -> Moments:
        """To the precision."""
        square = np.diagonal(at(self)[1], axis1=-2, axis2=-1)
        return (
            fold(-0.5 * square, self._full, parent.shape),
            fold(np.full((), 0.5), self._full, parent.shape),
        )

    def moments(self, natural: Moments) -> Moments:
        """E[x], E[x x']."""
        covariance = np.linalg.inv(-2.0 * natural[1])
        covariance = 0.5 * (covariance + np.swapaxes(covariance, -1, -2))
        mean = np.einsum("...ij,...j->...i", covariance, natural[0])
        return mean, covariance + mean[..., :, None] * mean[..., None, :]

    def log_normaliser(self, natural: Moments) -> np.ndarray:
        """With the constant."""
        precision = -2.0 * natural[1]
        mean = np.linalg.solve(precision, natural[0][..., None])[..., 0]
        square = (mean * natural[0]).sum(axis=-1)
        return 0.5 * (square + self.size * _LOG_2PI - np.linalg.slogdet(precision)[1])

    def expected_log(self, at: Any) -> float:
        """Under q."""
        t, log_t = (np.broadcast_to(a, self._full) for a in at(self.precision))
        square = np.diagonal(at(self)[1], axis1=-2, axis2=-1)
        return float(0.5 * (log_t - _LOG_2PI - t * square).sum())

    def start(self, natural: Moments, rng: np.random.Generator) -> Moments:
        """Random means, because products of two vectors are stuck at zero."""
        precision = -2.0 * natural[1]
        drawn = rng.standard_normal(natural[0].shape)
        return np.einsum("...ij,...j->...i", precision, drawn), natural[1]


class Dot(Node):
    """Inner products a . b of vectors, each a `Vector` or a constant array with the same last axis."""

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = _vector(a), _vector(b)
        self.shape = np.broadcast_shapes(self.a.shape, self.b.shape)
        sizes = [getattr(v, "size", None) for v in (self.a, self.b)]
        if sizes[0] != sizes[1]:
            raise ModelError(f"Dot: expected vectors of one size, got {sizes[0]} and {sizes[1]}")
        self.parents = nodes_among(self.a, self.b)

    def value(self, at: Any) -> Moments:
        """E[m], E[m^2]."""
        (a, aa), (b, bb) = at(self.a), at(self.b)
        return (a * b).sum(axis=-1), (aa * bb).sum(axis=(-2, -1))

    def pass_on(self, parent: Node, message: Moments, at: Any) -> Moments:
        """A message about m as one about a vector."""
        other = at(self.b if parent is self.a else self.a)
        first, second = message
        size = other[0].shape[-1]
        return (
            fold(first[..., None] * other[0], (*self.shape, size), (*parent.shape, size)),
            fold(second[..., None, None] * other[1], (*self.shape, size, size), (*parent.shape, size, size)),
        )


def _real(value: Any) -> Any:
    if isinstance(value, Node):
        return value
    found = float_array("constant", value)
    return Constant(found, found**2)


def _positive(value: Any) -> Any:
    if isinstance(value, Node):
        return value
    found = float_array("constant", value)
    if not (found > 0).all():
        raise ModelError("precision: expected positive numbers, got one that is not")
    return Constant(found, np.log(found))


def _vector(value: Any) -> Any:
    if isinstance(value, Vector):
        return value
    if isinstance(value, Node):
        raise ModelError(f"Dot: expected vectors or arrays, got {type(value).__name__}")
    found = float_array("constant", value)
    if not found.ndim or not np.isfinite(found).all():
        raise ModelError("Dot: expected finite numbers with the vectors on the last axis")
    made: Any = Constant(found, found[..., :, None] * found[..., None, :])
    made.shape, made.size = found.shape[:-1], found.shape[-1]
    return made


def full_shape(shape: tuple[int, ...], choose: Any, parents: list[Any]) -> tuple[int, ...]:
    if choose is not None and not isinstance(choose, Categorical):
        raise ModelError(f"choose: expected a Categorical, got {type(choose).__name__}")
    full = shape if choose is None else (*shape, choose.states)
    for parent in parents:
        check_broadcast(shape, parent.shape, full)
    if choose is not None:
        check_broadcast(shape, (*choose.shape, choose.states), full)
    return full
