r"""A small residual network for grey images: from pixels to features to the logits of classes.

    x_0 = C_2(image),    x_i = S x_{i-1} + g C( relu C( relu x_{i-1} ) ),    i = 1, 2, 3
    features = mean over pixels of relu x_3,    logits = features W + b

C is a 3x3 convolution, by nine shifted copies and one matrix product, which a CPU does several times faster
inside of a loop than a convolution. Every stage but the first halves the image (steps of two pixels) and
doubles the channels; S picks every second pixel and mixes channels where the shape changes, and is nothing
otherwise. The gains g are learned and start at a half, which keeps the scale without any normalisation.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .compiled import Compiled
from .layers import Linear

__all__ = ["Convolution", "ImageBlock", "ImageNetwork", "cross_entropy", "shown"]


class Convolution(eqx.Module):
    """3x3 windows with zeros around the image, (images, height, width, channels).

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> from credo.nn.image_network import Convolution
    >>> Convolution(1, 4, np.random.default_rng(0), step=2)(jnp.ones((2, 7, 6, 1))).shape
    (2, 4, 3, 4)
    """

    weight: Any  # (9 inputs, outputs), windows row by row
    bias: Any  # (outputs,)
    step: int = eqx.field(static=True)  # pixels from one window to the next

    def __init__(self, inputs: int, outputs: int, rng: np.random.Generator, *, step: int = 1) -> None:
        scale = math.sqrt(2 / (9 * inputs))  # keeps the variance through a rectifier
        self.weight = (scale * rng.standard_normal((9 * inputs, outputs))).astype(np.float32)
        self.bias, self.step = np.zeros(outputs, np.float32), step

    def __call__(self, x: jax.Array) -> jax.Array:
        """The convolved images."""
        height, width = x.shape[1:3]
        wide = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
        shifted = [
            wide[:, i : i + height : self.step, j : j + width : self.step] for i in range(3) for j in range(3)
        ]
        return jnp.concatenate(shifted, axis=-1) @ self.weight + self.bias


class ImageBlock(eqx.Module):
    """Two convolutions beside a shortcut."""

    first: Convolution  # which changes channels, and resolution with them
    second: Convolution  # with as many channels in as out
    gain: Any  # of the convolutions
    shortcut: Any  # (inputs, outputs) where channels change, otherwise None

    def __init__(self, inputs: int, outputs: int, rng: np.random.Generator) -> None:
        step = 1 if inputs == outputs else 2
        self.first = Convolution(inputs, outputs, rng, step=step)
        self.second = Convolution(outputs, outputs, rng)
        self.gain = np.array(0.5, np.float32)
        scale = 1 / math.sqrt(inputs)
        mixed = (scale * rng.standard_normal((inputs, outputs))).astype(np.float32)
        self.shortcut = None if step == 1 else mixed

    def __call__(self, x: jax.Array) -> jax.Array:
        """The next channels."""
        inner = self.second(jax.nn.relu(self.first(jax.nn.relu(x))))
        straight = x if self.shortcut is None else x[:, ::2, ::2] @ self.shortcut
        return straight + self.gain * inner


class ImageNetwork(eqx.Module):
    """Grey images (images, height, width) of any size to logits (images, classes).

    Parameters
    ----------
    classes
        How many.
    width
        Channels of the first stage; there are four times as many features.
    rng
        Draws the weights.

    Examples
    --------
    >>> import jax
    >>> import numpy as np
    >>> from credo.nn.image_network import ImageNetwork
    >>> network = ImageNetwork(10, 4, np.random.default_rng(0))
    >>> images = jax.ShapeDtypeStruct((3, 28, 28), np.float32)
    >>> jax.eval_shape(network, images).shape, jax.eval_shape(network.features, images).shape
    ((3, 10), (3, 16))
    """

    stem: Convolution  # from grey to the channels of the first stage
    blocks: tuple[ImageBlock, ...]  # one after the other
    head: Linear  # from features to logits

    def __init__(self, classes: int, width: int, rng: np.random.Generator) -> None:
        self.stem = Convolution(1, width, rng, step=2)
        sizes = (width, width, 2 * width, 4 * width)
        self.blocks = tuple(ImageBlock(a, b, rng) for a, b in pairwise(sizes))
        self.head = Linear(4 * width, classes, rng)

    def features(self, x: jax.Array) -> jax.Array:
        """What the last layer reads, (images, 4 width)."""
        found = self.stem(x[..., None])
        for block in self.blocks:
            found = block(found)
        return jax.nn.relu(found).mean(axis=(1, 2))

    def __call__(self, x: jax.Array) -> jax.Array:
        """Logits."""
        return self.head(self.features(x))  # type: ignore[no-any-return]


def cross_entropy(network: ImageNetwork, state: Any, batch: Any, key: Any) -> Any:
    """Mean negative log probability of the right classes: a loss of `adam.Gradient`.

    The state holds the mean and the standard deviation of pixels as `scale`; rows are images `x`, whatever
    their type of numbers, and numbers of classes `y`.
    """
    mean, spread = state["scale"]
    logs = jax.nn.log_softmax(network((batch.rows["x"].astype(jnp.float32) - mean) / spread))
    right = jnp.take_along_axis(logs, batch.rows["y"][:, None], axis=1)[:, 0]
    return -(batch.weights @ right) / batch.weights.sum(), ({}, {})


def _shown(network: ImageNetwork, scale: Any, images: Any) -> Any:
    found = network.features((images - scale[0]) / scale[1])
    return found, network.head(found)


shown = Compiled(_shown)  # (network, scale, images) -> features, logits
