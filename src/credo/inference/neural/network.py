"""The network, free logits in its place, and the objective; everything here is JAX.

    e_i  ->  attention over all variables  ->  per root: the vectors of its variables side by side
         ->  residual layers  ->  one logit per joint state  ->  softmax

Roots of one shape share their layers. Where a root has many variables or states, its vectors are first
taken to a narrower one, so that the layers do not outgrow the table.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ...nn.arrays import LinearMap
from ...nn.layers import Embedding, Linear, Residual, SelfAttention
from .region_system import Bucket, RegionSystem

__all__ = ["BeliefNetwork", "Logits", "Shared", "change", "objective"]

_IMPOSSIBLE = -1e9  # logit of an impossible state; its exponential is zero
_MOST_SIDES = 4  # vectors that are put side by side without narrowing
_MOST_WEIGHTS = 2**21  # of the layer in front of a softmax
_NOISE = 0.01  # spread of the first free logits


class Shared(eqx.Module):
    """What all models of one structure have in common."""

    scopes: tuple[Any, ...]  # per bucket (roots, variables)
    inner: LinearMap  # beliefs of the regions that are no roots
    counting: Any  # of the entries of inner regions
    disagreement: LinearMap  # of parents and children
    shown: LinearMap  # marginals whose change is watched
    penalty: Any  # weight of the squared disagreement
    buckets: tuple[Bucket, ...] = eqx.field(static=True)  # of the roots

    @classmethod
    def of(cls, system: RegionSystem, penalty: float, kind: Any) -> Shared:
        """The arrays of a system on the device."""
        matrices = [_gather(m, kind) for m in (system.inner, system.disagreement, system.shown)]
        counting = system.counting[system.inner_entry].astype(kind)
        weight = np.asarray(penalty, kind)
        return cls(system.scopes, matrices[0], counting, matrices[1], matrices[2], weight, system.buckets)


class _Head(eqx.Module):
    """From the vectors of a root's variables to its logits."""

    narrow: Linear | None
    layers: tuple[Residual, ...]
    output: Linear

    def __init__(self, bucket: Bucket, width: int, layers: int, rng: np.random.Generator, kind: Any) -> None:
        inputs = bucket.arity * width
        hidden = min(min(bucket.arity, _MOST_SIDES) * width, max(8, _MOST_WEIGHTS // bucket.entries))
        self.narrow = None if hidden == inputs else Linear(inputs, hidden, rng, kind)
        self.layers = tuple(Residual(hidden, rng, kind) for _ in range(layers))
        self.output = Linear(hidden, bucket.entries, rng, kind)

    def __call__(self, x: jax.Array) -> jax.Array:
        if self.narrow is not None:
            x = self.narrow(x)
        for layer in self.layers:
            x = layer(x)
        return self.output(x)


class BeliefNetwork(eqx.Module):
    """Logits of all roots from one embedding per variable."""

    embedding: Embedding  # one vector per variable
    attention: tuple[SelfAttention, ...]  # over all variables
    heads: tuple[_Head, ...]  # one per bucket

    def __init__(
        self,
        buckets: tuple[Bucket, ...],
        variables: int,
        width: int,
        layers: tuple[int, int],
        rng: np.random.Generator,
        kind: Any,
    ) -> None:
        self.embedding = Embedding(variables, width, rng, kind)
        self.attention = tuple(SelfAttention(width, rng, kind) for _ in range(layers[0]))
        self.heads = tuple(_Head(bucket, width, layers[1], rng, kind) for bucket in buckets)

    def __call__(self, scopes: tuple[Any, ...]) -> list[jax.Array]:
        """Per bucket (roots, entries)."""
        x = self.embedding()
        for layer in self.attention:
            x = layer(x)
        sides = [x[scope].reshape(scope.shape[0], -1) for scope in scopes]
        return [head(side) for head, side in zip(self.heads, sides, strict=True)]


class Logits(eqx.Module):
    """Free logits, one per root and joint state."""

    tables: tuple[Any, ...]  # per bucket (roots, entries)

    def __init__(self, buckets: tuple[Bucket, ...], rng: np.random.Generator, kind: Any) -> None:
        self.tables = tuple(
            (_NOISE * rng.normal(size=(bucket.roots, bucket.entries))).astype(kind) for bucket in buckets
        )

    def __call__(self, scopes: tuple[Any, ...]) -> list[jax.Array]:
        """Per bucket (roots, entries)."""
        return [jnp.asarray(table) for table in self.tables]


def root_log_beliefs(network: Any, possible: jax.Array, shared: Shared) -> jax.Array:
    """Log beliefs of all entries of the roots, bucket by bucket."""
    parts, first = [], 0
    for bucket, logits in zip(shared.buckets, network(shared.scopes), strict=True):
        last = first + bucket.roots * bucket.entries
        mask = possible[first:last].reshape(bucket.roots, bucket.entries)
        parts.append(jax.nn.log_softmax(jnp.where(mask, logits, _IMPOSSIBLE), axis=-1).ravel())
        first = last
    return jnp.concatenate(parts)


def free_energy(logs: jax.Array, energy: jax.Array, possible: jax.Array, shared: Shared) -> jax.Array:
    """The region free energy of the log beliefs of the roots."""
    b = jnp.exp(logs)
    return jnp.sum(b * jnp.where(possible, logs, 0.0)) + _without_roots(b, energy, shared)


def _without_roots(b: jax.Array, energy: jax.Array, shared: Shared) -> jax.Array:
    """The same without the entropies of the roots."""
    u = shared.inner(b)
    inner = shared.counting * u * jnp.log(jnp.maximum(u, np.finfo(u.dtype).tiny))
    return jnp.sum(inner) - jnp.dot(energy, b)


def objective(network: Any, model: dict[str, jax.Array], shared: Shared) -> Any:
    """Free energy + <multiplier, r> + penalty |r|^2 with r the disagreement of parents and children.

    The residual, per nat of the free energy, is the squared length of the natural gradient by the beliefs of
    the roots (about twice what a step could still gain), plus |r|^2 where there is a penalty. Unlike the
    gradient by logits it does not vanish where a belief has come too near to zero.
    """
    possible = model["possible"]
    logs = root_log_beliefs(network, possible, shared)
    b = jnp.exp(logs)
    f = free_energy(logs, model["energy"], possible, shared)
    r = shared.disagreement(b)
    squared = jnp.sum(r**2)

    def rest(b: jax.Array) -> jax.Array:
        return _without_roots(b, model["energy"], shared) + _coupling(shared.disagreement(b), model, shared)

    slope = jax.grad(rest)(jax.lax.stop_gradient(b)) + logs
    apart = jnp.where(shared.penalty > 0, squared, 0.0)
    left = (_natural(b, slope, shared) + apart) / jnp.maximum(1.0, jnp.abs(f))
    return f + _coupling(r, model, shared), {"free_energy": f, "penalty": squared, "residual": left}, b


def _coupling(r: jax.Array, model: dict[str, jax.Array], shared: Shared) -> jax.Array:
    """What makes parents and children agree."""
    return jnp.dot(model["multiplier"], r) + shared.penalty * jnp.sum(r**2)


def _natural(b: jax.Array, slope: jax.Array, shared: Shared) -> jax.Array:
    """Variances of the slopes under the beliefs of the roots, added up."""
    total, first = jnp.zeros((), b.dtype), 0
    for bucket in shared.buckets:
        last = first + bucket.roots * bucket.entries
        p, d = (x[first:last].reshape(bucket.roots, bucket.entries) for x in (b, slope))
        centred = d - jnp.sum(p * d, axis=1, keepdims=True)
        total, first = total + jnp.sum(p * centred**2), last
    return total


def change(difference: jax.Array, shared: Shared) -> jax.Array:
    """Mean squared change of the marginals of variables plus that of the marginals of larger factors."""
    return jnp.sum(shared.shown(difference) ** 2)


def _gather(matrix: Any, kind: Any) -> LinearMap:
    entries = matrix.tocoo()
    return LinearMap.of(entries.row, entries.col, entries.data, entries.shape, kind)
