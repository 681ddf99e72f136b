r"""The Bethe value of a mixture of Gaussian trees and its gradient.

With G(x) = sum_i [log phi_i - (1 - N_i) log b_i](x_i) + sum_ij [log psi_ij - log b_ij](x_i, x_j),

    F = E_b[G],     dF / d nu = E_b[ (G - constant) d log b / d nu ],

because E_b[d log b] = 0: no derivative of a potential is needed. Expectations are taken in one of two ways:

quadrature  term by term under every component, Gauss-Hermite in one or two dimensions (the two-dimensional
            block of a pair is whitened first)
samples     joint samples of b, with the mean of the other samples as the constant

The slope is that of a surrogate, the sum of w G log b with G held fixed. (The slope of the quadrature sum
itself would let an optimiser exploit its error.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...core.factor_graph import FactorGraph
from ...nn.arrays import precision
from ...nn.compiled import Compiled
from ..problem.potentials import group_function

__all__ = [
    "Arrays",
    "GaussianTreeParameters",
    "GaussianTreeSystem",
    "estimated",
    "hermite",
    "value_and_slopes",
]

_LOG_2PI = float(np.log(2 * np.pi))


class GaussianTreeParameters(NamedTuple):
    """What is optimised."""

    means: Any  # (M, n)
    slopes: Any  # (M, n) on the variable above, not used for roots
    log_sds: Any  # (M, n) given the variable above
    logits: Any  # (M,) of the weights


class Arrays(NamedTuple):
    """The parts of a problem that do not change, as arrays."""

    up: Any  # (M, n) the variable above, -1 for roots
    ends: Any  # (edges, 2)
    counts: Any  # (n,) 1 - degree
    single: tuple[Any, ...]  # per group of one variable: (positions, parameters)
    double: tuple[Any, ...]  # per group of two: (edges, (count, 2) which end is which argument, parameters)


@dataclass(frozen=True)
class GaussianTreeSystem:
    """A model of real variables with factors of one or two, and a tree per component."""

    arrays: Arrays  # numbers of the factors and of the trees
    functions: tuple[tuple[Any, ...], tuple[Any, ...]]  # log-potentials of groups of one and of two variables
    constant: float  # of factors without variables

    @classmethod
    def of(cls, graph: FactorGraph, ends: np.ndarray, up: np.ndarray) -> GaussianTreeSystem:
        """Collect the factors of a graph; `ends` lists the distinct pairs, lower position first."""
        n = len(graph.variables)
        edge_of = {(int(i), int(j)): e for e, (i, j) in enumerate(ends)}
        single, double = [], []
        functions: tuple[list[Any], list[Any]] = ([], [])
        constant = 0.0
        for group in graph.batches:
            arity = group.scopes.shape[1]
            if arity == 0:
                constant += sum(float(graph.factors[a].log_values()) for a in group.factors)
            elif arity == 1:
                single.append((group.scopes[:, 0], group.parameters))
                functions[0].append(group_function(group))
            else:
                pairs = np.sort(group.scopes, axis=1)
                edge = np.array([edge_of[int(i), int(j)] for i, j in pairs])
                side = (group.scopes != pairs[:, :1]).astype(np.int64)
                double.append((edge, side, group.parameters))
                functions[1].append(group_function(group))
        degrees = np.bincount(ends.ravel(), minlength=n)
        arrays = Arrays(up, ends, 1.0 - degrees, tuple(single), tuple(double))
        return cls(arrays, (tuple(functions[0]), tuple(functions[1])), constant)


def _moments(p: GaussianTreeParameters, arrays: Arrays) -> tuple[Any, Any, Any]:
    """Variances (M, n), covariances of the pairs (M, edges), and x as combinations of noise (M, n, n)."""
    count, n = p.means.shape
    below = jnp.arange(n)
    weights = jnp.where(arrays.up >= 0, p.slopes, 0.0)
    step = jax.vmap(lambda up, w: jnp.zeros((n, n)).at[below, jnp.maximum(up, 0)].add(w))(arrays.up, weights)
    reach = jnp.broadcast_to(jnp.eye(n), (count, n, n))
    for _ in range(max(1, int(np.ceil(np.log2(max(n, 2)))))):  # (I - W)^-1 = (I + W)(I + W^2)(I + W^4) ...
        reach = reach + step @ reach
        step = step @ step
    noise = reach * jnp.exp(p.log_sds)[:, None, :]
    variances = (noise**2).sum(axis=2)
    i, j = arrays.ends[:, 0], arrays.ends[:, 1]
    return variances, (noise[:, i] * noise[:, j]).sum(axis=2), noise


def _log_normal(x: jax.Array, mean: jax.Array | float, variance: jax.Array | float) -> jax.Array:
    return -0.5 * ((x - mean) ** 2 / variance + jnp.log(variance) + _LOG_2PI)


def _log_pair(
    x: jax.Array, y: jax.Array, mean: jax.Array, other: jax.Array, v: jax.Array, w: jax.Array, c: jax.Array
) -> jax.Array:
    """Log density of two numbers with these means, variances v, w and covariance c."""
    rest = w - c**2 / v
    return _log_normal(x, mean, v) + _log_normal(y, other + c / v * (x - mean), rest)


def _mix(p: GaussianTreeParameters, terms: Any) -> jax.Array:
    """Log of the weighted sum over components, which are on the first axis."""
    log_weights = jax.nn.log_softmax(p.logits)
    return jax.nn.logsumexp(log_weights.reshape(-1, *[1] * (terms.ndim - 1)) + terms, axis=0)


def _log_nodes(p: GaussianTreeParameters, variances: jax.Array, x: jax.Array) -> jax.Array:
    """Log of the beliefs b_i at x (..., n)."""
    return _mix(p, jax.vmap(lambda mean, v: _log_normal(x, mean, v))(p.means, variances))


def _log_pairs(
    p: GaussianTreeParameters, arrays: Arrays, variances: jax.Array, covariances: Any, xy: Any
) -> jax.Array:
    """Log of the beliefs b_ij at xy (..., edges, 2)."""
    i, j = arrays.ends[:, 0], arrays.ends[:, 1]

    def one(mean: jax.Array, v: jax.Array, c: jax.Array) -> jax.Array:
        return _log_pair(xy[..., 0], xy[..., 1], mean[i], mean[j], v[i], v[j], c)

    return _mix(p, jax.vmap(one)(p.means, variances, covariances))


def _node_potentials(arrays: Arrays, functions: Any, x: jax.Array) -> jax.Array:
    """Summed log-potentials of single variables at x (..., n)."""
    total = jnp.zeros(x.shape)
    for (where, parameters), function in zip(arrays.single, functions[0], strict=True):
        values = function((jnp.moveaxis(x[..., where], -1, 0),), parameters)
        total = total.at[..., where].add(jnp.moveaxis(values, 0, -1))
    return total


def _pair_potentials(arrays: Arrays, functions: Any, xy: Any) -> jax.Array:
    """Summed log-potentials of pairs at xy (..., edges, 2)."""
    total = jnp.zeros(xy.shape[:-1])
    for (edge, side, parameters), function in zip(arrays.double, functions[1], strict=True):
        rows = jnp.arange(len(edge))
        chosen = jnp.moveaxis(xy[..., edge, :], (-2, -1), (0, 1))
        values = function((chosen[rows, side[:, 0]], chosen[rows, side[:, 1]]), parameters)
        total = total.at[..., edge].add(jnp.moveaxis(values, 0, -1))
    return total


class _Gains(NamedTuple):
    """Quadrature points, what is gained at each, and the means of that under every component."""

    x: jax.Array  # (K, M, n)
    xy: Any  # (K, K, M, edges, 2)
    nodes: Any  # (K, M, n)
    pairs: Any  # (K, K, M, edges)
    mean_nodes: Any  # (M, n)
    mean_pairs: Any  # (M, edges)

    @property
    def of_component(self) -> jax.Array:
        """Summed means, (M,)."""
        return self.mean_nodes.sum(axis=1) + self.mean_pairs.sum(axis=1)


def _gains(p: GaussianTreeParameters, arrays: Arrays, points: jax.Array, functions: Any) -> _Gains:
    """What single variables and pairs gain; `points` are standard normal nodes and weights."""
    at, weight = points
    v, c, _ = _moments(p, arrays)
    x, xy = _grid(p.means, v, c, arrays.ends, at)
    nodes = _node_potentials(arrays, functions, x) - arrays.counts * _log_nodes(p, v, x)
    pairs = _pair_potentials(arrays, functions, xy) - _log_pairs(p, arrays, v, c, xy)
    mean_pairs = jnp.einsum("a,b,abme->me", weight, weight, pairs)
    return _Gains(x, xy, nodes, pairs, jnp.einsum("a,amn->mn", weight, nodes), mean_pairs)


def _by_quadrature(
    p: GaussianTreeParameters, arrays: Arrays, points: jax.Array, functions: Any
) -> tuple[Any, Any]:
    """The value by quadrature, and a surrogate in which only log densities are differentiated."""
    weight = points[1]
    v, c, _ = _moments(p, arrays)
    still = jax.lax.stop_gradient(p)
    held = jax.lax.stop_gradient(_gains(still, arrays, points, functions))
    i, j = arrays.ends[:, 0], arrays.ends[:, 1]
    score = _log_normal(held.x, p.means, v)
    score_pairs = _log_pair(
        held.xy[..., 0], held.xy[..., 1], p.means[:, i], p.means[:, j], v[:, i], v[:, j], c
    )
    share = jax.nn.softmax(still.logits)
    surrogate = jax.nn.softmax(p.logits) @ held.of_component
    surrogate += jnp.einsum("m,a,amn->", share, weight, (held.nodes - held.mean_nodes) * score)
    surrogate += jnp.einsum(
        "m,a,b,abme->", share, weight, weight, (held.pairs - held.mean_pairs) * score_pairs
    )
    return share @ held.of_component, surrogate


def _grid(
    means: jax.Array, variances: jax.Array, covariances: Any, ends: Any, at: jax.Array
) -> tuple[Any, Any]:
    """Quadrature points under every component: (K, M, n) and, whitened pair by pair, (K, K, M, edges, 2)."""
    i, j = ends[:, 0], ends[:, 1]
    sd = jnp.sqrt(variances)
    x = means + sd * at[:, None, None]
    tilt = covariances / sd[:, i]
    rest = jnp.sqrt(jnp.maximum(variances[:, j] - tilt**2, 0.0))
    first = jnp.broadcast_to(x[:, None, :, i], (len(at), len(at), *tilt.shape))
    second = means[:, j] + tilt * at[:, None, None, None] + rest * at[None, :, None, None]
    return x, jnp.stack([first, second], axis=-1)


def _log_joint(p: GaussianTreeParameters, arrays: Arrays, x: jax.Array) -> jax.Array:
    """Log density of the mixture at rows (S, n)."""

    def one(up: Any, mean: jax.Array, slope: jax.Array, log_sd: Any) -> jax.Array:
        gap = x - mean
        above = jnp.where(up >= 0, gap[:, jnp.maximum(up, 0)], 0.0)
        return _log_normal((gap - slope * above) * jnp.exp(-log_sd), 0.0, 1.0).sum(axis=1) - log_sd.sum()

    terms = jax.vmap(one)(arrays.up, p.means, p.slopes, p.log_sds)
    return jax.nn.logsumexp(jax.nn.log_softmax(p.logits)[:, None] + terms, axis=0)


def _by_samples(
    p: GaussianTreeParameters, arrays: Arrays, points: jax.Array, functions: Any
) -> tuple[Any, Any]:
    """The value and its surrogate from joint samples; `points` are a key and an array, a row per sample."""
    key, like = points
    still, (variances, covariances, noise) = jax.lax.stop_gradient((p, _moments(p, arrays)))
    pick, draw = jax.random.split(key)
    count = like.shape[0]
    m = jax.random.categorical(pick, still.logits, shape=(count,))
    normal = jax.random.normal(draw, (count, p.means.shape[1]))
    x = still.means[m] + jnp.einsum("snk,sk->sn", noise[m], normal)
    xy = x[:, arrays.ends]
    nodes = _node_potentials(arrays, functions, x) - arrays.counts * _log_nodes(still, variances, x)
    pairs = _pair_potentials(arrays, functions, xy) - _log_pairs(still, arrays, variances, covariances, xy)
    gain = nodes.sum(axis=1) + pairs.sum(axis=1)
    baseline = (gain.sum() - gain) / (count - 1)
    return gain.mean(), ((gain - baseline) * _log_joint(p, arrays, x)).mean()


_ESTIMATES = {"quadrature": _by_quadrature, "samples": _by_samples}


def estimated(
    p: GaussianTreeParameters, arrays: Arrays, points: jax.Array, *, functions: Any, estimate: str
) -> tuple[Any, Any]:
    """The value and its slopes, inside JAX programs; `points` are what the estimate needs."""

    def surrogate(q: GaussianTreeParameters) -> tuple[Any, Any]:
        value, stand_in = _ESTIMATES[estimate](q, arrays, points, functions)
        return stand_in, value

    slopes, value = jax.grad(surrogate, has_aux=True)(p)
    return value, slopes


_PROGRAM = Compiled(estimated)


def hermite(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of Gauss-Hermite quadrature under N(0, 1)."""
    at, weight = np.polynomial.hermite_e.hermegauss(nodes)
    return at, weight / weight.sum()


def value_and_slopes(
    system: GaussianTreeSystem, parameters: GaussianTreeParameters, *, nodes: int = 10
) -> tuple[float, GaussianTreeParameters]:
    """The value by quadrature and its derivatives, as NumPy arrays."""
    with precision(double=True):
        value, slopes = _PROGRAM(
            parameters, system.arrays, hermite(nodes), functions=system.functions, estimate="quadrature"
        )
        return float(value) + system.constant, GaussianTreeParameters(*(np.asarray(s) for s in slopes))
