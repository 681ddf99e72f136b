"""The factors of a hybrid graph as functions that JAX compiles.

A group of factors is evaluated in one call: every column and every parameter has the factors on its first
axis, and `log_values(columns, parameters)` has them too. A function that JAX cannot trace (one written
with NumPy) is called back from the compiled program; it then needs no derivative, and has none. Where it
raises an error its values are NaN: a program cannot be left by an exception.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...core.domain import Discrete
from ...core.errors import ModelError
from ...core.factor_graph import FactorGraph
from ...core.groups import FactorBatch
from ...core.log_density import LogDensity
from ...nn.arrays import precision
from ...nn.compiled import Compiled

__all__ = [
    "evaluate",
    "group_function",
    "is_traceable",
    "log_values",
    "refuse_bad_values",
    "terms_of",
    "untraceable",
]

_PROBES = 3  # evaluations in a trial call


def group_function(group: FactorBatch, *, last: bool = False) -> Callable[[Any, Any], Any]:
    """The log-potentials of all factors of a group, `f(columns, parameters)`, for use inside JAX programs.

    `columns` is a tuple with one array per variable of the scope, (count, ...), a simplex variable with its
    coordinates on the last axis; `parameters` is `group.parameters`. The result has the common shape. With
    `last` the columns and the result have the factors on the last axis instead of the first. The same group
    gives the same function object, so that programs can be filed under it.
    """
    widths = tuple(not isinstance(d, Discrete) and bool(d.shape) for d in group.domains)
    make = _trace if is_traceable(group) else _called_back
    values = make(group.function, widths)
    return _with_factors_last(values) if last else values


@lru_cache(maxsize=1024)
def _with_factors_last(values: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def turned(columns: Any, parameters: Any) -> Any:
        found = values(tuple(jnp.moveaxis(c, -1, 0) for c in columns), parameters)
        return jnp.moveaxis(found, 0, -1)

    return turned


def is_traceable(group: FactorBatch) -> bool:
    """Whether JAX can compile, and differentiate, the function of a group."""
    shapes = tuple(p.shape[1:] for p in group.parameters)
    kinds = tuple(p.dtype.str for p in group.parameters)
    try:
        return _is_traceable(group.function, group.domains, shapes, kinds)
    except TypeError:  # a function that cannot be hashed
        return _is_traceable.__wrapped__(group.function, group.domains, shapes, kinds)


@lru_cache(maxsize=1024)
def _is_traceable(function: Any, domains: Any, shapes: Any, kinds: Any) -> bool:
    with precision(double=True):
        try:
            jax.eval_shape(function, *_arguments(domains, shapes, kinds))
        except (TypeError, AttributeError):  # JAX's tracer errors are type errors
            return False
    return True


def _arguments(domains: Any, shapes: Any, kinds: Any) -> list[Any]:
    """What a function is called with, in a trial."""
    shape: Any = jax.ShapeDtypeStruct
    parameters = [shape(s, np.dtype(k)) for s, k in zip(shapes, kinds, strict=True)]
    return [*(_like(d, shape) for d in domains), *parameters]


def _like(domain: Any, shape: Any) -> Any:
    if isinstance(domain, Discrete):
        return shape((_PROBES,), np.dtype(np.int64))
    return shape((_PROBES, *domain.shape), np.dtype(np.float64))


def terms_of(group: FactorBatch) -> int:
    """Numbers that one evaluation holds at a time: one in a plain formula, one per row of Parzen's."""
    if not is_traceable(group):
        return max((int(np.prod(p.shape[1:])) for p in group.parameters), default=1)
    shapes = tuple(p.shape[1:] for p in group.parameters)
    kinds = tuple(p.dtype.str for p in group.parameters)
    with precision(double=True):
        program = jax.make_jaxpr(group.function)(*_arguments(group.domains, shapes, kinds))
    return -(-_largest(program.jaxpr) // _PROBES)


def _largest(program: Any) -> int:
    """Size of the largest array that a traced program computes."""
    most = 1
    for equation in program.eqns:
        parts = [getattr(p, "jaxpr", p) for p in jax.tree.leaves(list(equation.params.values()))]
        inside = [_largest(p) for p in parts if hasattr(p, "eqns")]
        own = [int(np.prod(getattr(v.aval, "shape", ()))) for v in equation.outvars]
        most = max(most, *inside, *own)
    return most


@lru_cache(maxsize=1024)
def _trace(function: Callable[..., Any], widths: tuple[bool, ...]) -> Callable[[Any, Any], Any]:
    def values(columns: Any, parameters: Any) -> Any:
        def one(own: Any, numbers: Any) -> Any:
            return jnp.broadcast_to(function(*own, *numbers), _common(own, widths))

        return jax.vmap(one)(tuple(columns), tuple(parameters))

    return values


@lru_cache(maxsize=1024)
def _called_back(function: Callable[..., Any], widths: tuple[bool, ...]) -> Callable[[Any, Any], Any]:
    def host(columns: Any, parameters: Any) -> np.ndarray:
        count = len(jax.tree.leaves((columns, parameters))[0])
        shape = (count, *_common([c[0] for c in columns], widths))
        found = np.empty(shape)
        for a in range(count):
            try:
                found[a] = function(*(c[a] for c in columns), *(p[a] for p in parameters))
            except Exception:  # a function of the user may raise anything
                found[a] = np.nan
        return found

    struct: Any = jax.ShapeDtypeStruct

    def values(columns: Any, parameters: Any) -> Any:
        arguments = jax.tree.map(jnp.asarray, (tuple(columns), tuple(parameters)))
        leaves, tree = jax.tree.flatten(arguments)
        kinds = [np.dtype(x.dtype) for x in leaves]
        inner = _common([struct(c.shape[1:], c.dtype) for c in columns], widths)
        kind = np.dtype(jnp.result_type(float))

        def called(*packed: Any) -> np.ndarray:
            pairs = zip(packed, kinds, strict=True)
            found = host(*jax.tree.unflatten(tree, [_unpack(x, kind) for x, kind in pairs]))
            return np.ascontiguousarray(found, dtype=kind)[..., None].view(np.uint32)

        shape = struct((leaves[0].shape[0], *inner, kind.itemsize // 4), np.dtype(np.uint32))
        packed = jax.pure_callback(called, shape, *map(_pack, leaves), vmap_method="sequential")
        return jax.lax.bitcast_convert_type(packed if kind.itemsize > 4 else packed[..., 0], kind)

    return values


def _pack(x: Any) -> Any:
    """Numbers of 64 bits as pairs of words: a callback may run in a thread where JAX knows 32 bits only."""
    return jax.lax.bitcast_convert_type(x, jnp.uint32) if x.dtype.itemsize == 8 else x


def _unpack(x: Any, kind: np.dtype[Any]) -> np.ndarray:
    array = np.ascontiguousarray(x)
    return array.view(kind)[..., 0] if kind.itemsize == 8 else array


def _common(columns: Any, widths: tuple[bool, ...]) -> tuple[int, ...]:
    """The shape of the result: columns broadcast, without the coordinates of simplex variables."""
    shapes = (c.shape[:-1] if wide else c.shape for c, wide in zip(columns, widths, strict=True))
    return np.broadcast_shapes(*shapes)


_PROGRAM = Compiled(lambda columns, parameters, function: function(columns, parameters))


def evaluate(graph: FactorGraph, group: FactorBatch, columns: Any, *, strict: bool = True) -> np.ndarray:
    """Log-potentials of a group at given columns as a NumPy array in double precision, checked if strict.

    Examples
    --------
    >>> import numpy as np
    >>> import credo
    >>> from credo.inference.problem.potentials import evaluate
    >>> graph = credo.GaussianNet([[2.0, 0.5], [0.5, 1.0]], [1.0, 0.0]).to_factor_graph()
    >>> pair = next(g for g in graph.batches if g.scopes.shape[1] == 2)
    >>> evaluate(graph, pair, (np.array([[1.0, 2.0]]), np.array([[3.0, 3.0]]))).round(3).tolist()
    [[-1.5, -3.0]]
    """
    with precision(double=True):
        values = np.asarray(_PROGRAM(tuple(columns), group.parameters, function=group_function(group)))
    if strict and not (values < np.inf).all():
        row = int(np.flatnonzero(~(values < np.inf).reshape(len(values), -1).all(axis=1))[0])
        own = (np.broadcast_to(c, (len(values), *np.shape(c)[1:]))[row] for c in columns)
        graph.factors[int(group.factors[row])].log_values(*own)  # tells what its function raises, if it does
        refuse_bad_values(graph, group, values)
    return values


def log_values(density: LogDensity, vectors: np.ndarray) -> np.ndarray:
    """Sums of all log-potentials at (count, dimension); an error names a factor that is no number."""
    values, graph = density.values(vectors), density.graph
    names, total = graph.variables.names, np.zeros(len(vectors))
    for group in graph.batches:
        if group.scopes.shape[1]:
            every = ([values[names[int(i)]] for i in group.scopes[:, k]] for k in range(len(group.domains)))
            total += evaluate(graph, group, tuple(np.stack(own) for own in every)).sum(axis=0)
    return total


def untraceable(graph: FactorGraph) -> str | None:
    """A sentence about the first factor that JAX cannot differentiate; None if there is none."""
    for group in graph.batches:
        if not is_traceable(group):
            factor = graph.factors[int(group.factors[0])]
            return (
                f"it needs gradients, and JAX cannot trace the factor over {list(factor.names)}; "
                "write it with jax.numpy (or credo.core.density.namespace), or use gibbs or metropolis"
            )
    return None


def refuse_bad_values(graph: FactorGraph, group: FactorBatch, values: np.ndarray) -> None:
    """Raise an error that names the factor if a log-potential is NaN or +inf."""
    if (values < np.inf).all():
        return
    row = int(np.flatnonzero(~(values < np.inf).reshape(len(values), -1).all(axis=1))[0])
    bad = values[row][~(values[row] < np.inf)].flat[0]
    factor = graph.factors[int(group.factors[row])]
    raise ModelError(f"factor over {list(factor.names)}: log-potentials must be numbers below inf, got {bad}")
