r"""Images of one flow step: squeezing, mixing of channels, 3x3 convolutions.

Images are (rows, height, width, channels). A squeeze makes channels of the pixels of 2x2 squares. A 3x3
convolution is the matrix product of a pixel's nine neighbours, zeros outside, with one matrix: on a CPU that
is several times faster inside of a scan than the convolution of the compiler.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

__all__ = ["convolve", "neighbours", "squeeze", "started_convolution", "unsqueeze"]


def squeeze(x: Any) -> Any:
    """(rows, h, w, c) to (rows, h/2, w/2, 4 c)."""
    n, h, w, c = x.shape
    parts = x.reshape(n, h // 2, 2, w // 2, 2, c).transpose(0, 1, 3, 2, 4, 5)
    return parts.reshape(n, h // 2, w // 2, 4 * c)


def unsqueeze(x: Any) -> Any:
    """The inverse."""
    n, h, w, c = x.shape
    parts = x.reshape(n, h, w, 2, 2, c // 4).transpose(0, 1, 3, 2, 4, 5)
    return parts.reshape(n, 2 * h, 2 * w, c // 4)


def neighbours(x: Any) -> Any:
    """(rows, h, w, 9 c): every pixel with those around it."""
    h, w = x.shape[1:3]
    wide = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    return jnp.concatenate([wide[:, i : i + h, j : j + w] for i in range(3) for j in range(3)], axis=3)


def convolve(x: Any, weight: Any, bias: Any) -> Any:
    """3x3 where the weight has nine times as many rows as x has channels, 1x1 where it has as many."""
    seen = neighbours(x) if weight.shape[0] == 9 * x.shape[3] else x
    flat = seen.reshape(-1, seen.shape[3]) @ weight
    return flat.reshape(*x.shape[:3], weight.shape[1]) + bias


def started_convolution(inputs: int, outputs: int, rng: np.random.Generator, *, size: int = 3) -> np.ndarray:
    """Weights uniform in +-1/sqrt(inputs of a pixel)."""
    rows = inputs * size * size
    return rng.uniform(-1, 1, (rows, outputs)) / np.sqrt(rows)
