"""Factors on continuous variables, alone or together with discrete ones.

    GaussianFactor   log f(x) = g + h'x - x'Jx / 2                 (canonical form; J need not be invertible)
    DensityFactor    log f(x) = function(x_1, ..., x_k, *parameters)   (any function that works on arrays)

Only the product of all factors of a model has to be integrable: a single factor may be constant, or grow.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .domain import Continuous, Real
from .errors import CredoError, ModelError
from .factor import Factor, check_scope
from .numbers import float_array
from .records import register
from .variable import Variable

__all__ = [
    "Composed",
    "DensityFactor",
    "GaussianFactor",
    "Sliced",
    "canonical_of_moments",
    "coordinates_of",
    "coordinatewise",
    "double_precision",
    "finite_array",
    "is_positive_definite",
    "namespace",
    "quadratic",
    "refuse_vector",
    "stacked",
    "symmetric",
]

_NO_NUMBERS = {"c": "complex ones", "O": "None or other objects", "U": "text", "S": "text"}  # by kind
_SYMMETRIC = 1e-8  # largest difference of two mirrored entries, relative to the largest entry


def namespace(*arrays: Any) -> Any:
    """`jax.numpy` if one of the arrays is JAX's, otherwise NumPy: for functions that serve both."""
    jax = sys.modules.get("jax")
    if jax is not None and any(isinstance(array, jax.Array) for array in arrays):
        return jax.numpy
    return np


def double_precision() -> Any:
    """A scope in which JAX computes in float64; nothing if JAX is not loaded."""
    jax = sys.modules.get("jax")
    return contextlib.nullcontext() if jax is None else jax.enable_x64(True)


@register("quadratic")
def quadratic(*arguments: Any) -> Any:
    """The form g + h'x - x'Jx / 2 of the numbers before the last three arguments, which are J, h and g."""
    *x, J, h, g = arguments
    total: Any = g
    for i, xi in enumerate(x):
        total = total + xi * (h[i] - 0.5 * J[i, i] * xi)
        for j in range(i + 1, len(x)):
            total = total - J[i, j] * xi * x[j]
    return total


@register("function of coordinates")
@dataclass(frozen=True)
class _Coordinatewise:
    """A function of numbers as a function of numbers and vectors."""

    function: Callable[..., Any]
    widths: tuple[int, ...]  # coordinates of each of the first arguments; 0 where it is a number

    def __call__(self, *arguments: Any) -> Any:
        numbers: list[Any] = []
        for value, width in zip(arguments, self.widths, strict=False):
            numbers += [value[..., k] for k in range(width)] if width else [value]
        return self.function(*numbers, *arguments[len(self.widths) :])


def coordinatewise(function: Callable[..., Any], domains: Iterable[Any]) -> Callable[..., Any]:
    """A function of the coordinates of all variables one by one, for columns of these domains."""
    widths = tuple(d.width if isinstance(d, Real) and d.shape else 0 for d in domains)
    return _Coordinatewise(function, widths) if any(widths) else function


def coordinates_of(scope: Iterable[Variable]) -> int:
    """How many numbers the real variables of a scope have together."""
    return sum(v.domain.width for v in scope if isinstance(v.domain, Real))


class GaussianFactor(Factor):
    """A Gaussian potential in canonical form, exp(g + h'x - x'Jx / 2).

    Parameters
    ----------
    scope
        Real variables, k numbers in all: a vector variable stands for its coordinates.
    precision
        The symmetric matrix J, (k, k); any symmetric matrix, zeros included.
    shift
        The vector h, (k,).
    constant
        The number g.

    Examples
    --------
    >>> from credo import GaussianFactor, Real, Variable
    >>> x = Variable("x", Real())
    >>> GaussianFactor.from_moments([x], [1.0], [[4.0]]).log_value({"x": 1.0}).__round__(4)
    -1.6121
    """

    def __init__(
        self, scope: Iterable[Variable], precision: Any, shift: Any = 0.0, constant: float = 0.0
    ) -> None:
        self.scope = tuple(scope)
        where = check_scope(self.scope)
        for v in self.scope:
            if not isinstance(v.domain, Real):
                raise ModelError(
                    f"{where}: a Gaussian factor takes real variables, '{v.name}' is {v.domain!r}"
                )
        k = coordinates_of(self.scope)
        self.precision = symmetric(where, "precision", finite_array(f"{where}: precision", precision, (k, k)))
        self.shift = finite_array(f"{where}: shift", shift, (k,), spread=True)
        self.constant = float(finite_array(f"{where}: constant", constant, ()))

    @classmethod
    def from_moments(cls, scope: Iterable[Variable], mean: Any, covariance: Any) -> GaussianFactor:
        """The normalised density with this mean and covariance."""
        scope = tuple(scope)
        where = check_scope(scope)
        k = coordinates_of(scope)
        mean = finite_array(f"{where}: mean", mean, (k,))
        covariance = finite_array(f"{where}: covariance", covariance, (k, k))
        J, h = canonical_of_moments(where, mean, covariance)
        g = -0.5 * (mean @ h + np.linalg.slogdet(np.pi * (covariance + covariance.T))[1])
        return cls(scope, J, h, g)

    @classmethod
    def linear(
        cls, child: Variable, parents: Iterable[Variable], weights: Any, variance: float, bias: float = 0.0
    ) -> GaussianFactor:
        """The conditional density p(child | parents) = N(child; weights' parents + bias, variance)."""
        scope = (child, *parents)
        where = check_scope(scope)
        refuse_vector(where, child)
        variance = float(finite_array(f"{where}: variance", variance, ()))
        bias = float(finite_array(f"{where}: bias", bias, ()))
        if not variance > 0:
            raise ModelError(f"{where}: the variance must be positive, got {variance!r}")
        a = np.concatenate([[1.0], -finite_array(f"{where}: weights", weights, (coordinates_of(scope) - 1,))])
        J = np.outer(a, a) / variance
        g = -0.5 * (bias**2 / variance + np.log(2 * np.pi * variance))
        return cls(scope, J, a * bias / variance, g)

    @property
    def function(self) -> Callable[..., Any]:
        """The quadratic form."""
        return coordinatewise(quadratic, (v.domain for v in self.scope))

    @property
    def parameters(self) -> tuple[np.ndarray, ...]:
        """J, h and g."""
        return self.precision, self.shift, np.asarray(self.constant)

    def condition(self, evidence: Mapping[str, Any]) -> GaussianFactor:
        """The factor with the observed variables of its scope fixed and removed."""
        given = [np.ravel(v.value(evidence[v.name])) for v in self.scope if v.name in evidence]
        x = np.concatenate([np.empty(0), *given])
        seen = np.repeat([v.name in evidence for v in self.scope], [coordinates_of([v]) for v in self.scope])
        J, h = self.precision, self.shift
        g = self.constant + h[seen] @ x - 0.5 * x @ J[np.ix_(seen, seen)] @ x
        free = [v for v in self.scope if v.name not in evidence]
        return GaussianFactor(free, J[np.ix_(~seen, ~seen)], h[~seen] - J[np.ix_(~seen, seen)] @ x, float(g))

    def __repr__(self) -> str:
        return f"GaussianFactor({list(self.names)})"


@register("sliced function")
@dataclass(frozen=True)
class Sliced:
    """A function with some of its first arguments given among the parameters instead."""

    function: Callable[..., Any]
    seen: tuple[bool, ...]  # which arguments are given, one flag per variable of the original scope

    def __call__(self, *arguments: Any) -> Any:
        """The free values, then the observed ones, then the parameters."""
        n_free = len(self.seen) - sum(self.seen)
        free, given = iter(arguments[:n_free]), iter(arguments[n_free : len(self.seen)])
        values = [next(given) if seen else next(free) for seen in self.seen]
        return self.function(*values, *arguments[len(self.seen) :])


@dataclass(frozen=True)
class Composed:
    """A function of values as a function of free coordinates, which come one by one."""

    function: Callable[..., Any]
    maps: tuple[Any, ...]  # a bijection per variable of the original scope; None: it stays as it is

    def __call__(self, *arguments: Any) -> Any:
        """The values are made from their coordinates; parameters follow."""
        rest, values = iter(arguments), []
        for own in self.maps:
            if own is None:
                values.append(next(rest))
            else:
                values.append(own.inverse(stacked([next(rest) for _ in range(own.free)])))
        return self.function(*values, *rest)


def stacked(numbers: list[Any]) -> Any:
    """Arrays of numbers as the coordinates of vectors, on the last axis."""
    xp = namespace(*numbers)
    return xp.stack(xp.broadcast_arrays(*numbers), axis=-1)


class DensityFactor(Factor):
    """A factor given by a function of arrays that returns log-potentials.

    Parameters
    ----------
    scope
        Variables of any domain.
    function
        Called with one array per variable, then with the parameters; arrays are broadcast against each
        other, and the result has their common shape. State indices for discrete variables, numbers for
        scalar ones, coordinates on the last axis for vectors and simplices. Written with operators and
        `jax.numpy` (or `credo.core.density.namespace`) it is compiled, otherwise it is called back.
    parameters
        Arrays. Many factors of one function that differ in their parameters are evaluated in one call;
        give the same function object to all of them. A `Parameter` is one that a `HybridNet` learns.

    Examples
    --------
    >>> from credo import DensityFactor, Real, Variable
    >>> def pull(x, y, strength):
    ...     return -strength * abs(x - y)
    >>> DensityFactor([Variable("x", Real()), Variable("y", Real())], pull, 2.0).log_value({"x": 1, "y": 3})
    -4.0
    """

    def __init__(self, scope: Iterable[Variable], function: Callable[..., Any], *parameters: Any) -> None:
        self.scope = tuple(scope)
        where = check_scope(self.scope)
        if not callable(function):
            raise ModelError(f"{where}: expected a function of arrays, got {function!r:.80}")
        self._function = function
        self._parameters = tuple(_parameter(where, p) for p in parameters)
        self.declared = {k: p for k, p in enumerate(parameters) if getattr(p, "is_declared", False)}

    @property
    def function(self) -> Callable[..., Any]:
        """The function it was made from."""
        return self._function

    @property
    def parameters(self) -> tuple[np.ndarray, ...]:
        """The parameters of this factor."""
        return self._parameters

    def log_values(self, *columns: Any) -> np.ndarray:
        """Log-potentials of many joint states, checked: numbers below +inf, of the common shape."""
        columns = tuple(np.asarray(c) for c in columns)
        where = f"factor over {list(self.names)}"
        values = self._call(where, columns)
        inner = [
            c.shape[:-1] if isinstance(v.domain, Continuous) and v.domain.shape else c.shape
            for c, v in zip(columns, self.scope, strict=True)
        ]
        expected = np.broadcast_shapes(*inner)
        if values.shape != expected:
            raise ModelError(
                f"{where}: its function must return one log-potential per joint state, shape {expected}, "
                f"got shape {values.shape}"
            )
        if not (values < np.inf).all():
            bad = values[~(values < np.inf)].flat[0]
            raise ModelError(f"{where}: log-potentials must be numbers below inf, got {bad}")
        return values

    def _call(self, where: str, columns: tuple[np.ndarray, ...]) -> np.ndarray:
        """What the function returns, as numbers; what it raises names the factor."""
        try:
            # -inf is legal, and what is no number is refused by the caller: NumPy need not warn of either.
            with double_precision(), np.errstate(all="ignore"):
                values = np.asarray(self._function(*columns, *self._parameters))
            if values.dtype.kind in _NO_NUMBERS:
                got = _NO_NUMBERS[values.dtype.kind]
                raise ModelError(
                    f"{where}: log-potentials must be real numbers, got {got}; its function has to return an "
                    "array of them"
                )
            return values.astype(np.float64, copy=False)
        except (CredoError, MemoryError, Warning):
            raise
        except Exception as error:  # a function of the user may raise anything
            raise ModelError(
                f"{where}: its function failed with {type(error).__name__}: {error}; it is called with one "
                f"array per variable ({len(columns)}), then its parameters ({len(self._parameters)}), and "
                "has to work on whole arrays (`where` in place of `if`)"
            ) from error

    def condition(self, evidence: Mapping[str, Any]) -> DensityFactor:
        """The factor with the observed variables of its scope fixed and removed."""
        seen = tuple(v.name in evidence for v in self.scope)
        if not any(seen):
            return self
        given = [v.value(evidence[v.name]) for v in self.scope if v.name in evidence]
        free = [v for v in self.scope if v.name not in evidence]
        return DensityFactor(free, Sliced(self._function, seen), *given, *self._parameters)

    def __repr__(self) -> str:
        name = getattr(self._function, "__name__", type(self._function).__name__)
        return f"DensityFactor({list(self.names)}, {name})"


def _parameter(where: str, value: Any) -> np.ndarray:
    """Whole numbers stay whole, because an observed state is an index into a table."""
    array = float_array(f"{where}: a parameter", value, expected="an array of numbers", copy=True)
    if np.isnan(array).any():
        raise ModelError(f"{where}: a parameter is NaN")
    whole = np.asarray(value).dtype.kind in "biu"
    return np.asarray(value).astype(np.int64) if whole else array


def finite_array(what: str, value: Any, shape: tuple[int, ...], *, spread: bool = False) -> np.ndarray:
    """A copy as finite numbers of this shape; with `spread`, one number may stand for all."""
    array = float_array(what, value, copy=True)
    if spread and array.shape in ((), (1,)):
        array = np.full(shape, array.item())
    if array.shape != shape:
        raise ModelError(f"{what} must have shape {shape}, got {array.shape}")
    if not np.isfinite(array).all():
        raise ModelError(f"{what} must be finite, got {array}")
    return array


def symmetric(where: str, what: str, matrix: np.ndarray) -> np.ndarray:
    """A square matrix made symmetric to the last digit, or a refusal if it is not so up to rounding."""
    if not _is_symmetric(matrix):
        raise ModelError(f"{where}: the {what} must be symmetric, got\n{matrix}")
    return np.asarray((matrix + matrix.T) / 2)


def _is_symmetric(matrix: np.ndarray) -> bool:
    with np.errstate(under="ignore"):
        return bool(np.allclose(matrix, matrix.T, atol=_SYMMETRIC * np.abs(matrix).max(initial=0.0)))


def refuse_vector(where: str, variable: Variable) -> None:
    """Refuse a variable of several numbers where one is wanted."""
    if isinstance(variable.domain, Real) and variable.domain.shape:
        raise ModelError(
            f"{where}: expected a variable with one number, '{variable.name}' is {variable.domain!r}; "
            "write the factor of all coordinates as a GaussianFactor"
        )


def is_positive_definite(matrix: np.ndarray) -> bool:
    """Whether a symmetric matrix is positive definite beyond rounding, whatever the units of its rows."""
    diagonal = np.diagonal(matrix)
    if not (diagonal > 0).all():
        return False
    unit = 1 / np.sqrt(diagonal)
    smallest = np.linalg.eigvalsh(unit[:, None] * matrix * unit).min(initial=1.0)
    return bool(smallest > len(matrix) * np.finfo(np.float64).eps)


def canonical_of_moments(
    where: str, mean: np.ndarray, covariance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The precision J and shift h of the Gaussian with this mean and covariance."""
    halved = (covariance + covariance.T) / 2
    if not _is_symmetric(covariance) or not is_positive_definite(halved):
        raise ModelError(
            f"{where}: the covariance must be symmetric and positive definite, got\n{covariance}"
        )
    J = np.linalg.inv(halved)
    J = (J + J.T) / 2
    return J, J @ mean
