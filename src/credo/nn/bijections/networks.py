"""Dense networks of one member as trees of arrays: what bijections and fields of vectors depend on."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["ACTIVATIONS", "dense", "started_dense"]

Tree = Any
ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "tanh": jnp.tanh,
    "relu": jax.nn.relu,
    "leaky": lambda x: jax.nn.leaky_relu(x, 0.01),
}


def started_dense(
    inputs: int, width: int, depth: int, outputs: int, rng: np.random.Generator, *, last: float = 0.0
) -> Tree:
    """Weights of `depth` hidden layers, uniform in +-1/sqrt(inputs); the last layer has that times `last`."""

    def drawn(rows: int, columns: int, size: float = 1.0) -> np.ndarray:
        bound = size / np.sqrt(rows)
        return rng.uniform(-bound, bound, (rows, columns)) if size else np.zeros((rows, columns))

    sizes = [inputs, *[width] * depth]
    hidden = tuple({"weight": drawn(m, n), "bias": np.zeros(n)} for m, n in pairwise(sizes))
    return {"hidden": hidden, "weight": drawn(sizes[-1], outputs, last), "bias": np.zeros(outputs)}


def dense(tree: Tree, x: Any, activation: str) -> Any:
    """The network, of rows (rows, inputs)."""
    bend = ACTIVATIONS[activation]
    for layer in tree["hidden"]:
        x = bend(x @ layer["weight"] + layer["bias"])
    return x @ tree["weight"] + tree["bias"]
