r"""Factors with structure: linear in real variables given states, and bilinear between two layers.

    LinearGaussianFactor   log f(x, s) = c_s - (w_s'x - b_s)^2 / (2 v_s)
    BilinearFactor         log f(x, y) = x' W y

The first is a regression, an emission or a switching dynamics: N(x_1; bias_s + weights_s'x_2.., v_s) has
w = (1, -weights_s), b = bias_s and c = -log(2 pi v_s) / 2. The second is what joins the layers of a Boltzmann
machine; values are the numbers 0, 1, ... of states, or numbers where a layer is real.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from .density import (
    DensityFactor,
    Sliced,
    coordinates_of,
    coordinatewise,
    finite_array,
    refuse_vector,
)
from .domain import Discrete, Real
from .errors import ModelError
from .factor import Factor, TableFactor, check_scope
from .numbers import float_array
from .records import register
from .variable import Variable

__all__ = ["BilinearFactor", "LinearGaussianFactor", "product", "residual"]


@register("residual")
def residual(*arguments: Any) -> Any:
    """The form c_s - (w_s'x - b_s)^2 / (2 v_s) of numbers x, then states s, then w, b, v and c."""
    *values, w, b, v, c = arguments
    k = w.shape[-1]
    x, s = values[:k], tuple(values[k:])
    gap = -b[s]
    for i, number in enumerate(x):
        gap = gap + w[(*s, i)] * number
    return c[s] - 0.5 * gap**2 / v[s]


@register("product")
def product(x: Any, y: Any, w: Any) -> Any:
    """One pair of a bilinear factor."""
    return w * x * y


class LinearGaussianFactor(Factor):
    """A residual of real variables whose weights, offset and variance depend on states.

    Parameters
    ----------
    scope
        Real variables, then discrete ones.
    weights
        w, (states..., k) for real variables of k numbers in all; a vector stands for its coordinates.
    offset, variance, constant
        b, v and c, (states...); one number may stand for all.

    Examples
    --------
    >>> from credo import LinearGaussianFactor, Real, Variable
    >>> x, s = Variable("x", Real()), Variable("s", ["off", "on"])
    >>> factor = LinearGaussianFactor.conditional(x, [], [s], [[], []], 1.0, bias=[0.0, 5.0])
    >>> factor.log_value({"x": 5.0, "s": "on"}).__round__(4)
    -0.9189
    """

    def __init__(
        self,
        scope: Iterable[Variable],
        weights: Any,
        offset: Any = 0.0,
        variance: Any = 1.0,
        constant: Any = 0.0,
    ) -> None:
        self.scope = tuple(scope)
        where = check_scope(self.scope)
        real = [isinstance(v.domain, Real) for v in self.scope]
        if False in real and any(real[real.index(False) :]):
            raise ModelError(f"{where}: expected real variables, then discrete ones")
        first, k = sum(real), coordinates_of(self.scope)
        for v in self.scope[first:]:
            if not isinstance(v.domain, Discrete):
                raise ModelError(f"{where}: expected real or discrete variables, '{v.name}' is {v.domain!r}")
        states = tuple(v.size for v in self.scope[first:])
        self.weights = finite_array(f"{where}: weights", weights, (*states, k))
        self.offset = finite_array(f"{where}: offset", offset, states, spread=True)
        self.variance = finite_array(f"{where}: variance", variance, states, spread=True)
        self.constant = _below_infinity(where, constant, states)
        if not (self.variance > 0).all():
            raise ModelError(f"{where}: variances must be positive, got {self.variance.min()}")

    @classmethod
    def conditional(
        cls,
        child: Variable,
        parents: Iterable[Variable],
        states: Iterable[Variable],
        weights: Any,
        variance: Any,
        bias: Any = 0.0,
    ) -> LinearGaussianFactor:
        """The density N(child; bias_s + weights_s'parents, variance_s); weights are (states..., parents)."""
        parents, states = tuple(parents), tuple(states)
        scope = (child, *parents, *states)
        where = check_scope(scope)
        refuse_vector(where, child)
        sizes = tuple(v.discrete.size for v in states)
        weights = finite_array(f"{where}: weights", weights, (*sizes, coordinates_of(parents)))
        variance = finite_array(f"{where}: variance", variance, sizes, spread=True)
        bias = finite_array(f"{where}: bias", bias, sizes, spread=True)
        if not (variance > 0).all():
            raise ModelError(f"{where}: variances must be positive, got {variance.min()}")
        w = np.concatenate([np.ones((*sizes, 1)), -weights], axis=-1)
        return cls(scope, w, bias, variance, -0.5 * np.log(2 * np.pi * variance))

    @property
    def function(self) -> Callable[..., Any]:
        """(values of the scope, parameters) -> log density of the residual, traceable by JAX."""
        return coordinatewise(residual, (v.domain for v in self.scope))

    @property
    def parameters(self) -> tuple[np.ndarray, ...]:
        """Weights, offset, variance and constant."""
        return self.weights, self.offset, self.variance, self.constant

    def condition(self, evidence: Mapping[str, Any]) -> Factor:
        """The factor with the observed variables of its scope fixed and removed."""
        real = [v for v in self.scope if not v.is_discrete]
        given = np.array([v.name in evidence for v in self.scope], dtype=bool)
        seen = np.repeat(given[: len(real)], [coordinates_of([v]) for v in real])
        x = np.zeros(len(seen))
        parts = [np.ravel(v.value(evidence[v.name])) for v in real if v.name in evidence]
        x[seen] = np.concatenate([np.empty(0), *parts])
        where = tuple(
            v.value(evidence[v.name]) if g else slice(None)
            for v, g in zip(self.scope[len(real) :], given[len(real) :], strict=True)
        )
        b = (self.offset - self.weights @ x)[where]
        w, v, c = self.weights[where][..., ~seen], self.variance[where], self.constant[where]
        free = [variable for variable, g in zip(self.scope, given, strict=True) if not g]
        if w.shape[-1]:
            return LinearGaussianFactor(free, w, b, v, c)
        return TableFactor.from_log(free, c - 0.5 * b**2 / v)

    def __repr__(self) -> str:
        return f"LinearGaussianFactor({list(self.names)})"


def _below_infinity(where: str, constant: Any, states: tuple[int, ...]) -> np.ndarray:
    """Log weights of joint states: -inf forbids one."""
    array = float_array(f"{where}: constants", constant)
    array = np.broadcast_to(array, states).copy() if array.shape in ((), (1,)) else np.array(array)
    if array.shape != states or not (array < np.inf).all():
        raise ModelError(
            f"{where}: constants must be numbers below inf of shape {states}, got {constant!r:.80}"
        )
    return array


class BilinearFactor(Factor):
    """The interaction x'Wy of two layers of variables.

    Parameters
    ----------
    left, right
        Discrete variables, whose values are 0, 1, ..., or real ones.
    weights
        W, (left, right).
    """

    def __init__(self, left: Iterable[Variable], right: Iterable[Variable], weights: Any) -> None:
        left, right = tuple(left), tuple(right)
        self.scope = (*left, *right)
        where = f"bilinear factor of {len(left)} by {len(right)} variables"
        check_scope(self.scope)
        for v in self.scope:
            if not v.is_discrete and v.domain != Real():
                raise ModelError(f"{where}: expected discrete or real variables, '{v.name}' is {v.domain!r}")
        self.weights = finite_array(f"{where}: weights", weights, (len(left), len(right)))

    @property
    def function(self) -> Callable[..., Any]:
        """(values of the left, values of the right, W) -> x'Wy, traceable by JAX."""
        return _bilinear

    @property
    def parameters(self) -> tuple[np.ndarray, ...]:
        """The matrix W, (left, right), as the one argument after the values."""
        return (self.weights,)

    def condition(self, evidence: Mapping[str, Any]) -> Factor:
        """The factor with the observed variables of its scope fixed and removed."""
        seen = tuple(v.name in evidence for v in self.scope)
        given = [v.value(evidence[v.name]) for v in self.scope if v.name in evidence]
        free = [v for v in self.scope if v.name not in evidence]
        return DensityFactor(free, Sliced(_bilinear, seen), *given, self.weights) if given else self

    def __repr__(self) -> str:
        return f"BilinearFactor{self.weights.shape}"


def _bilinear(*arguments: Any) -> Any:
    """The form x'Wy of the values before the last argument, W."""
    *values, w = arguments
    count = w.shape[0]
    total: Any = 0.0
    for i, x in enumerate(values[:count]):
        inner: Any = 0.0
        for j, y in enumerate(values[count:]):
            inner = inner + w[i, j] * y
        total = total + x * inner
    return total
