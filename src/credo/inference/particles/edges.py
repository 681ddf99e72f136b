"""What is computed on all edges at once: tables of pair factors, summed in one way or another.

An edge table (sender's points) x (receiver's points) is made, used and forgotten, a block of edges at a time,
so that it stays in the processor's cache; only vectors per edge are kept. A few edges, and edges with a
function that JAX cannot trace, are done one after the other in NumPy with the same formulas: that takes less
than compiling.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...core.domain import Discrete
from ...core.groups import FactorBatch
from ...nn.arrays import precision
from ...nn.compiled import Compiled
from ..problem.potentials import evaluate, group_function, is_traceable
from .pairs import EdgeClass, ParticlePairs
from .tables import shuffle

__all__ = ["conditional_draws", "edge_sums", "log_mixtures", "send", "send_largest", "unary_values"]

_ENTRIES = 1 << 19  # of the tables made at once
_FEW = 64  # factors up to which none is compiled
_LITTLE = 1 << 18  # entries of all their tables up to which none is compiled
_WIDE = 16  # numbers per factor from which a function is taken to make a table for each

Formula = Callable[..., Any]  # (namespace, table, *arrays) -> arrays, each with the edges on its first axis


def _log_sum(xp: Any, values: jax.Array, axis: int) -> jax.Array:
    top = values.max(axis=axis, keepdims=True)
    safe = xp.where(xp.isneginf(top), 0.0, top)
    with np.errstate(divide="ignore"):
        return xp.log(xp.exp(values - safe).sum(axis=axis)) + xp.squeeze(safe, axis)


def _message(xp: Any, table: Any, log_weights: jax.Array) -> tuple[Any, ...]:
    return (_log_sum(xp, table + log_weights[:, :, None], 1),)


def _largest(xp: Any, table: Any, log_weights: jax.Array) -> tuple[Any, ...]:
    whole = table + log_weights[:, :, None]
    return (xp.where(xp.isnan(whole), -xp.inf, whole).max(axis=1),)


def _sums(xp: Any, table: Any, one: Any, other: jax.Array) -> tuple[Any, ...]:
    whole = table + one[:, :, None] + other[:, None, :]
    top = whole.max(axis=(1, 2), keepdims=True)
    weight = xp.exp(whole - xp.where(xp.isneginf(top), 0.0, top))
    rows, columns = weight.sum(axis=2), weight.sum(axis=1)
    with np.errstate(divide="ignore"):
        log_total = xp.log(rows.sum(axis=1)) + top[:, 0, 0]
    total = xp.maximum(rows.sum(axis=1), 1e-300)[:, None]
    return log_total, rows / total, columns / total


def _draws(xp: Any, table: Any, log_receiver: Any, log_widths: Any, uniforms: Any) -> tuple[Any, ...]:
    """Cells of the receiver's points, drawn given each of the sender's, and the log mass of all cells."""
    table = table + log_receiver[:, None, :]
    mass = xp.logaddexp(table[:, :, 1:], table[:, :, :-1]) - np.log(2) + log_widths[:, None, :]
    log_total = _log_sum(xp, mass, 2)
    with np.errstate(invalid="ignore"):
        share = xp.exp(mass - xp.where(xp.isneginf(log_total), 0.0, log_total)[:, :, None])
    reached = xp.cumsum(share, axis=2) < uniforms[:, :, None]
    return log_total, xp.minimum(reached.sum(axis=2), mass.shape[2] - 1)


def _column(domain: Any, values: Any) -> Any:
    return values.astype(int) if isinstance(domain, Discrete) else values


def _table(
    one: Any, other: jax.Array, parameters: Any, functions: tuple[tuple[Any, Any, bool], ...], swap: bool
) -> jax.Array:
    """Sum of the log-potentials of all factors of an edge, (edges, sender's points, receiver's points)."""
    total: Any = 0.0
    for (function, domains, swapped), numbers in zip(functions, parameters, strict=True):
        columns = (one[:, :, None], other[:, None, :])
        columns = columns[::-1] if swapped != swap else columns
        total = total + function(tuple(map(_column, domains, columns)), numbers)
    return total


def _blocks(
    one: Any,
    other: jax.Array,
    parameters: Any,
    arrays: Any,
    functions: Any,
    swap: bool,
    formula: Formula,
    size: int,
) -> jax.Array:
    count = one.shape[0]
    number = -(-count // size)

    def do(block: Any) -> jax.Array:
        one, other, parameters, arrays = block
        return formula(jnp, _table(one, other, parameters, functions, swap), *arrays)

    if number <= 1:
        return do((one, other, parameters, arrays))
    index = jnp.minimum(jnp.arange(number * size), count - 1)
    cut = jax.tree.map(
        lambda a: a[index].reshape(number, size, *a.shape[1:]), (one, other, parameters, arrays)
    )
    found = jax.lax.map(do, cut)
    return jax.tree.map(lambda a: a.reshape(number * size, *a.shape[2:])[:count], found)


_PROGRAM = Compiled(_blocks)


def _trace(
    kind: EdgeClass, swap: bool, one: np.ndarray, other: np.ndarray, arrays: Any, formula: Formula
) -> Any:
    functions = tuple((group_function(group), group.domains, swapped) for group, swapped in kind.members)
    size = max(1, min(len(one), _ENTRIES // (one.shape[1] * other.shape[1] * _inner(kind))))
    with precision(double=True):
        found = _PROGRAM(
            one, other, kind.parameters, arrays, functions=functions, swap=swap, formula=formula, size=size
        )
        return tuple(map(np.asarray, found))


def _one_by_one(
    pairs: ParticlePairs,
    kind: EdgeClass,
    swap: bool,
    one: np.ndarray,
    other: np.ndarray,
    arrays: Any,
    formula: Formula,
) -> Any:
    found = []
    for e in range(len(one)):
        total: Any = 0.0
        for (group, swapped), row in zip(kind.members, kind.rows[e], strict=True):
            columns = (one[e][:, None], other[e][None, :])
            columns = columns[::-1] if swapped != swap else columns
            factor = pairs.graph.factors[int(group.factors[row])]
            total = total + factor.log_values(*map(_column, group.domains, columns))
        found.append(formula(np, np.asarray(total)[None], *(a[e : e + 1] for a in arrays)))
    return tuple(np.concatenate(parts) for parts in zip(*found, strict=True))


def _on_edges(
    pairs: ParticlePairs,
    one: np.ndarray,
    other: np.ndarray,
    arrays: tuple[np.ndarray, ...],
    formula: Formula,
    back: bool,
) -> tuple[np.ndarray, ...]:
    """A formula on the tables of all edges, or of all messages if `back` says that rows go both ways."""
    parts = []
    for kind, swap in ((k, s) for s in ((False, True) if back else (False,)) for k in pairs.classes):
        first = pairs.n_edges if swap else 0
        rows = slice(first + kind.start, first + kind.stop)
        own = (kind, swap, one[rows], other[rows], tuple(a[rows] for a in arrays), formula)
        parts.append(_trace(*own) if _is_compiled(kind, *own[2:4]) else _one_by_one(pairs, *own))
        if formula is not _largest and not all((p < np.inf).all() for p in parts[-1]):
            _refuse(pairs, *own[:4])
    return tuple(np.concatenate(p) for p in zip(*parts, strict=True))


def _inner(kind: EdgeClass) -> int:
    """Numbers that one entry of a table is made of."""
    inner = max((p[0].size for numbers in kind.parameters for p in numbers), default=1)
    return inner if inner >= _WIDE else 1


def _is_compiled(kind: EdgeClass, one: np.ndarray, other: np.ndarray) -> bool:
    if len(one) <= _FEW and one.size * other.shape[1] * _inner(kind) <= _LITTLE:
        return False
    return all(is_traceable(group) for group, _ in kind.members)


def _refuse(pairs: ParticlePairs, kind: EdgeClass, swap: bool, one: np.ndarray, other: np.ndarray) -> None:
    """Find the factor that is not a number below inf, and name it."""
    for k, (group, swapped) in enumerate(kind.members):
        for e, row in enumerate(kind.rows[:, k]):
            columns = (one[e][:, None], other[e][None, :])
            columns = columns[::-1] if swapped != swap else columns
            factor = pairs.graph.factors[int(group.factors[row])]
            factor.log_values(*map(_column, group.domains, columns))


def send(
    pairs: ParticlePairs, particles: np.ndarray, log_weights: np.ndarray, points: np.ndarray
) -> np.ndarray:
    """Log messages at points of their receivers: log sum_k weight_k psi(particle_k, point).

    Parameters
    ----------
    particles, log_weights
        (2E, k) of the sender of every message.
    points
        (2E, p) of its receiver.

    Returns
    -------
    numpy.ndarray
        (2E, p)
    """
    if not pairs.n_edges:
        return np.zeros((0, points.shape[1]))
    return _on_edges(pairs, particles, points, (log_weights,), _message, back=True)[0]


def send_largest(
    pairs: ParticlePairs, particles: np.ndarray, log_weights: np.ndarray, points: np.ndarray
) -> np.ndarray:
    """The same with a maximum for the sum; values that are no numbers count as zero."""
    if not pairs.n_edges:
        return np.zeros((0, points.shape[1]))
    return _on_edges(pairs, particles, points, (log_weights,), _largest, back=True)[0]


def edge_sums(
    pairs: ParticlePairs, points: np.ndarray, one: np.ndarray, other: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sums of psi(x, y) exp(one(x) + other(y)) over points x and y of the two ends of every edge.

    Parameters
    ----------
    points
        (n, p) of all variables.
    one, other
        (E, p) at the points of the first and of the second end.

    Returns
    -------
    log_total, first, second
        (E,) the log sums, and (E, p) their shares by point of the first and of the second end.
    """
    shape = (0, points.shape[1])
    if not pairs.n_edges:
        return np.zeros(0), np.zeros(shape), np.zeros(shape)
    ends = pairs.ends
    found = _on_edges(pairs, points[ends[:, 0]], points[ends[:, 1]], (one, other), _sums, back=False)
    return found[0], found[1], found[2]


def conditional_draws(
    pairs: ParticlePairs,
    particles: np.ndarray,
    points: np.ndarray,
    log_receiver: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """For every particle x of a sender a draw y from psi(x, y) f(y), y within the points of the receiver.

    Parameters
    ----------
    particles
        (2E, k) of the senders.
    points
        (2E, p), rising, of the receivers.
    log_receiver
        (2E, p) log f there.

    Returns
    -------
    draws, log_masses
        (2E, k), and the logs of the integrals over y, (2E, k).
    """
    shape = particles.shape
    with np.errstate(divide="ignore"):
        log_widths = np.log(np.diff(points, axis=1))
    uniforms, within = shuffle(shape[0], shape[1], rng), rng.random(shape)
    if not pairs.n_edges:
        return np.zeros(shape), np.zeros(shape)
    log_mass, cell = _on_edges(
        pairs, particles, points, (log_receiver, log_widths, uniforms), _draws, back=True
    )
    cell = cell.astype(np.int64)
    low, high = np.take_along_axis(points, cell, 1), np.take_along_axis(points, cell + 1, 1)
    return low + within * (high - low), log_mass


def unary_values(pairs: ParticlePairs, points: np.ndarray, *, strict: bool = True) -> np.ndarray:
    """Log of the product of the unary factors of every variable at its points, (n, p).

    Without `strict`, values that are no numbers below inf count as zero.
    """
    total = np.zeros(points.shape)
    for group in pairs.unary:
        at = group.scopes[:, 0]
        values = _unary(pairs, group, points[at], strict)
        np.add.at(total, at, values)
    return total


_UNARY = Compiled(lambda columns, parameters, function: function(columns, parameters))


def _unary(pairs: ParticlePairs, group: FactorBatch, points: np.ndarray, strict: bool) -> np.ndarray:
    column = _column(group.domains[0], points)
    if not strict:
        with precision(double=True), np.errstate(all="ignore"):
            values = np.asarray(_raw(pairs, group, column), dtype=np.float64)
        return np.where(values < np.inf, values, -np.inf)
    if len(points) > _FEW:
        return evaluate(pairs.graph, group, (column,))
    factors = (pairs.graph.factors[int(a)] for a in group.factors)
    return np.stack([f.log_values(c) for f, c in zip(factors, column, strict=True)])


def _raw(pairs: ParticlePairs, group: FactorBatch, column: np.ndarray) -> Any:
    """Values of unary factors, checked in nothing."""
    if len(column) > _FEW:
        return _UNARY((column,), group.parameters, function=group_function(group))
    factors = (pairs.graph.factors[int(a)] for a in group.factors)
    found = [f.function(c, *f.parameters) for f, c in zip(factors, column, strict=True)]
    return np.stack([np.broadcast_to(v, column.shape[1:]) for v in found])


def _mixtures(xp: Any, means: Any, log_weights: Any, sds: Any, points: Any) -> Any:
    gap = (points[:, None, :] - means[:, :, None]) / sds[:, :, None]
    own = log_weights - xp.log(sds) - 0.5 * np.log(2 * np.pi)
    return _log_sum(xp, own[:, :, None] - 0.5 * gap**2, 1)


def _mixture_blocks(
    means: jax.Array, log_weights: jax.Array, sds: jax.Array, points: jax.Array, size: int
) -> jax.Array:
    count = means.shape[0]
    number = -(-count // size)

    index = jnp.minimum(jnp.arange(number * size), count - 1)
    cut = jax.tree.map(
        lambda a: a[index].reshape(number, size, *a.shape[1:]), (means, log_weights, sds, points)
    )
    return jax.lax.map(lambda block: _mixtures(jnp, *block), cut).reshape(number * size, -1)[:count]


_MIXTURES = Compiled(_mixture_blocks)


def log_mixtures(
    means: np.ndarray, log_weights: np.ndarray, sds: np.ndarray, points: np.ndarray
) -> np.ndarray:
    """Logs of Gaussian mixtures (rows, k) at points (rows, p)."""
    if not len(means):
        return np.zeros((0, points.shape[1]))
    if means.size * points.shape[1] <= _LITTLE:
        return np.asarray(_mixtures(np, means, log_weights, sds, points))
    size = max(1, min(len(means), _ENTRIES // (means.shape[1] * points.shape[1])))
    with precision(double=True):
        return np.asarray(_MIXTURES(means, log_weights, sds, points, size=size))
