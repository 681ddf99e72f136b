r"""Nodes of directed conjugate models for variational message passing.

Every random node is an exponential family with statistics u(x); its natural parameters are a function of
the moments E[u] of its parents, linear in each of them. So what a child tells a parent is the coefficient of
the parent's statistics in E[log p(child | parents)]:

    GaussianNode     u = (x, x^2)    x ~ N(m, 1/t): to x (t m, -t/2), to m (t x, -t/2), to t (1, -(x-m)^2) / 2
    VectorNode       u = (x, x x')   x ~ N(0, diag(t)^-1)
    GammaNode        u = (log t, t)  t ~ Gamma(a, b): (a - 1, -b)
    DirichletNode    u = log p       p ~ Dirichlet(a): a - 1
    CategoricalNode  u = one-hot     z ~ p: to z log p, to p the one-hot
    DotNode          m = a . b       of two vectors, no random node itself: passes messages on

The families themselves, A(eta) and E[u], are those of `families/natural.py`.

`choose=z` makes a node a mixture: its parents carry one more last axis (for `CategoricalNode` one before the
states) with the components, and the categorical node z selects among them.

A node has a shape, and parents broadcast against it as NumPy arrays do; messages are summed over broadcast
axes. Constants may stand for any parent. Values of observed nodes that are NaN (-1 for states) are missing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.errors import DataError, ModelError
from ..core.numbers import float_array
from ..families.natural import GAMMA, LOG_2PI, NORMAL, VECTOR, Parts
from .vmp_base import (
    ConstantNode,
    MessageNode,
    RandomNode,
    RootNode,
    check_broadcast,
    check_kind,
    fold,
    nodes_among,
    shape_of,
)
from .vmp_discrete import CategoricalNode, DirichletNode

__all__ = [
    "CategoricalNode",
    "DirichletNode",
    "DotNode",
    "GammaNode",
    "GaussianNode",
    "MessageNode",
    "VectorNode",
]


class GaussianNode(RandomNode):
    """Real numbers x ~ N(mean, 1 / precision).

    Parameters
    ----------
    mean
        A number, an array, a `GaussianNode` or a `DotNode`.
    precision
        A number, an array or a `GammaNode`.
    shape
        Of the node; by default that of its parents together.
    choose
        A `CategoricalNode` that selects the last axis of the parents.
    observed
        Data; NaN is missing.
    """

    family = NORMAL

    def __init__(
        self, mean: Any = 0.0, precision: Any = 1.0, *, shape: Any = None, choose: Any = None,
        observed: Any = None,
    ) -> None:  # fmt: skip
        self.mean = _real(mean)
        self.precision = _positive(precision)
        check_kind("mean", self.mean, (GaussianNode, DotNode))
        check_kind("precision", self.precision, (GammaNode,))
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
        log_t, t = at(self.precision)
        share = at(self.choose)[0] if self.choose is not None else np.ones(())
        return m, m2, t, log_t, share

    def prior(self, at: Any) -> Parts:
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

    def to_parent(self, parent: MessageNode, at: Any) -> Parts:
        """The message to mean, precision or choice, in the natural parameters of that parent."""
        m, m2, t, _, share = self._terms(at)
        x, x2, seen = self._value(at)
        if parent is self.choose:
            table = np.broadcast_to(seen * self._log(at), self._full)
            return (fold(table, self._full, (*parent.shape, self._full[-1])),)
        weight = share * seen
        if parent is self.mean:
            found: Parts = (weight * t * x, -0.5 * weight * t)
        else:
            found = (0.5 * weight, -0.5 * weight * (x2 - 2.0 * x * m + m2))
        first, second = (fold(a, self._full, parent.shape) for a in found)
        return first, second

    def _log(self, at: Any) -> np.ndarray:
        m, m2, t, log_t, _ = self._terms(at)
        x, x2, _ = self._value(at)
        return 0.5 * (log_t - LOG_2PI - t * (x2 - 2.0 * x * m + m2))

    def expected_log(self, at: Any) -> float:
        """Summed over values that are not missing."""
        share, seen = self._terms(at)[-1], self._value(at)[-1]
        return float(np.broadcast_to(share * seen * self._log(at), self._full).sum())


class GammaNode(RootNode):
    """Positive numbers t ~ Gamma(a, b), E[t] = a / b; `a` and `b` are constants."""

    family = GAMMA

    def __init__(self, a: Any = 1.0, b: Any = 1.0, *, shape: Any = None) -> None:
        self._a, self._b = float_array("GammaNode", a), float_array("GammaNode", b)
        if not ((self._a > 0).all() and (self._b > 0).all()):
            raise ModelError("GammaNode: expected positive shapes and rates, got a number that is not")
        self.shape = shape_of(shape, None, np.broadcast_shapes(self._a.shape, self._b.shape))

    def prior(self, at: Any) -> Parts:
        """(a - 1, -b)."""
        return np.broadcast_to(self._a - 1.0, self.shape), np.broadcast_to(-self._b, self.shape)


class VectorNode(RandomNode):
    """Real vectors x ~ N(0, diag(precision)^-1); the last axis, of `size`, is not in the shape.

    The precision is a number, an array or a `GammaNode` that broadcasts against (*shape, size).
    """

    family = VECTOR

    def __init__(self, size: int, precision: Any = 1.0, *, shape: Any = ()) -> None:
        self.size = int(size)
        self.precision = _positive(precision)
        check_kind("precision", self.precision, (GammaNode,))
        self.shape = shape_of(shape, None, ())
        self._full = (*self.shape, self.size)
        check_broadcast(self.shape, self.precision.shape, self._full)
        self.parents = nodes_among(self.precision)

    def prior(self, at: Any) -> Parts:
        """(0, -diag(t) / 2)."""
        t = np.broadcast_to(at(self.precision)[1], self._full)
        return np.zeros(self._full), -0.5 * t[..., None] * np.eye(self.size)

    def to_parent(self, parent: MessageNode, at: Any) -> Parts:
        """(1/2, -E[x^2]/2) per coordinate, to the precision: the only parent."""
        square = np.diagonal(at(self)[1], axis1=-2, axis2=-1)
        return (
            fold(np.full((), 0.5), self._full, parent.shape),
            fold(-0.5 * square, self._full, parent.shape),
        )

    def expected_log(self, at: Any) -> float:
        """E[log p(vector | precision)] under q, summed over the entries."""
        log_t, t = (np.broadcast_to(a, self._full) for a in at(self.precision))
        square = np.diagonal(at(self)[1], axis1=-2, axis2=-1)
        return float(0.5 * (log_t - LOG_2PI - t * square).sum())

    def start(self, natural: Parts, rng: np.random.Generator) -> Parts:
        """Random means, because products of two vectors are stuck at zero."""
        precision = -2.0 * natural[1]
        drawn = rng.standard_normal(natural[0].shape)
        return np.einsum("...ij,...j->...i", precision, drawn), natural[1]


class DotNode(MessageNode):
    """Inner products a . b of vectors, each a `VectorNode` or a constant array with the same last axis."""

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = _vector(a), _vector(b)
        self.shape = np.broadcast_shapes(self.a.shape, self.b.shape)
        sizes = [getattr(v, "size", None) for v in (self.a, self.b)]
        if sizes[0] != sizes[1]:
            raise ModelError(f"DotNode: expected vectors of one size, got {sizes[0]} and {sizes[1]}")
        self.parents = nodes_among(self.a, self.b)

    def value(self, at: Any) -> Parts:
        """First and second moment of the inner products, E[m] and E[m^2]."""
        (a, aa), (b, bb) = at(self.a), at(self.b)
        return (a * b).sum(axis=-1), (aa * bb).sum(axis=(-2, -1))

    def pass_on(self, parent: MessageNode, message: Parts, at: Any) -> Parts:
        """A message about m as one about a vector."""
        other = at(self.b if parent is self.a else self.a)
        first, second = message
        size = other[0].shape[-1]
        return (
            fold(first[..., None] * other[0], (*self.shape, size), (*parent.shape, size)),
            fold(second[..., None, None] * other[1], (*self.shape, size, size), (*parent.shape, size, size)),
        )


def _real(value: Any) -> Any:
    if isinstance(value, MessageNode):
        return value
    found = float_array("constant", value)
    return ConstantNode(found, found**2)


def _positive(value: Any) -> Any:
    if isinstance(value, MessageNode):
        return value
    found = float_array("constant", value)
    if not (found > 0).all():
        raise ModelError("precision: expected positive numbers, got one that is not")
    return ConstantNode(np.log(found), found)


def _vector(value: Any) -> Any:
    if isinstance(value, VectorNode):
        return value
    if isinstance(value, MessageNode):
        raise ModelError(f"DotNode: expected vectors or arrays, got {type(value).__name__}")
    found = float_array("constant", value)
    if not found.ndim or not np.isfinite(found).all():
        raise ModelError("DotNode: expected finite numbers with the vectors on the last axis")
    made: Any = ConstantNode(found, found[..., :, None] * found[..., None, :])
    made.shape, made.size = found.shape[:-1], found.shape[-1]
    return made


def full_shape(shape: tuple[int, ...], choose: Any, parents: list[Any]) -> tuple[int, ...]:
    if choose is not None and not isinstance(choose, CategoricalNode):
        raise ModelError(f"choose: expected a CategoricalNode, got {type(choose).__name__}")
    full = shape if choose is None else (*shape, choose.states)
    for parent in parents:
        check_broadcast(shape, parent.shape, full)
    if choose is not None:
        check_broadcast(shape, (*choose.shape, choose.states), full)
    return full
