"""Layers with arrays as their only leaves, so that a network is its own tree of parameters.

Weights start uniform in +-1/sqrt(inputs), embeddings standard normal, both drawn by NumPy: the numbers
depend on the generator alone, not on the device, and nothing is compiled to draw them. A layer works on
arrays (..., features); `kind` is the float type.
"""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["Embedding", "Linear", "Residual", "SelfAttention"]

_EPSILON = 1e-5  # keeps the normalisation of a constant row finite


class Embedding(eqx.Module):
    """One learnable vector per thing."""

    table: Any  # (things, width)

    def __init__(self, things: int, width: int, rng: np.random.Generator, kind: Any = np.float32) -> None:
        self.table = rng.normal(size=(things, width)).astype(kind)

    def __call__(self) -> jax.Array:
        """All vectors."""
        return jnp.asarray(self.table)


class Linear(eqx.Module):
    """x W + b.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> from credo.nn.layers import Linear
    >>> Linear(3, 2, np.random.default_rng(0))(jnp.ones((5, 3))).shape
    (5, 2)
    """

    weight: Any  # (inputs, outputs)
    bias: Any  # (outputs,)

    def __init__(self, inputs: int, outputs: int, rng: np.random.Generator, kind: Any = np.float32) -> None:
        bound = 1 / math.sqrt(inputs)
        self.weight = rng.uniform(-bound, bound, (inputs, outputs)).astype(kind)
        self.bias = rng.uniform(-bound, bound, outputs).astype(kind)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Apply to the last axis."""
        return x @ self.weight + self.bias


class SelfAttention(eqx.Module):
    """One head of dot-product attention over all rows, added to its input and normalised.

    LN( W_o softmax( Q K' s ) V + x ) with s = 1, or 1/sqrt(width) if `scaled`.
    """

    query: Linear  # what a row looks for
    key: Linear  # what a row is found by
    value: Linear  # what a row gives
    output: Linear  # applied to what was gathered
    gain: Any  # (width,) of the normalisation
    shift: Any  # (width,) of the normalisation
    scaled: bool = eqx.field(static=True)  # whether scores are divided by sqrt(width)

    def __init__(
        self, width: int, rng: np.random.Generator, kind: Any = np.float32, *, scaled: bool = False
    ) -> None:
        self.query, self.key, self.value, self.output = (Linear(width, width, rng, kind) for _ in range(4))
        self.gain, self.shift = np.ones(width, kind), np.zeros(width, kind)
        self.scaled = scaled

    def __call__(self, x: jax.Array, mask: jax.Array | None = None) -> jax.Array:
        """Attend from every row to the rows where `mask` is true, or to all."""
        scores = self.query(x) @ jnp.swapaxes(self.key(x), -1, -2)
        if self.scaled:
            scores = scores / math.sqrt(x.shape[-1])
        if mask is not None:
            scores = jnp.where(mask[..., None, :], scores, np.finfo(scores.dtype).min)
        mixed = self.output(jax.nn.softmax(scores, axis=-1) @ self.value(x)) + x
        centred = mixed - mixed.mean(axis=-1, keepdims=True)
        spread = jnp.sqrt((centred**2).mean(axis=-1, keepdims=True) + _EPSILON)
        return centred / spread * self.gain + self.shift


class Residual(eqx.Module):
    """relu( W2 relu( W1 x ) ) + x."""

    first: Linear  # W1
    second: Linear  # W2

    def __init__(self, width: int, rng: np.random.Generator, kind: Any = np.float32) -> None:
        self.first, self.second = Linear(width, width, rng, kind), Linear(width, width, rng, kind)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Apply to the last axis."""
        return jax.nn.relu(self.second(jax.nn.relu(self.first(x)))) + x
