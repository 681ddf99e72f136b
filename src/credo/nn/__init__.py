"""The small neural kit on JAX, Equinox and Optax: layers, an optimisation loop, arrays for devices.

Nothing here knows a model or an algorithm: arrays in, arrays out. The modules import JAX when they are
loaded, so each is imported when it is first used.

    arrays       ragged tables as padded or bucketed arrays, sparse linear maps by gathers, double precision
    layers       embeddings, self-attention, residual layers
    image_network  a small residual network for grey images
    compiled     one compiled program per combination of shapes, and the seconds compiling took
    layout       trees of parameters as a few rows of numbers
    adam         Adam by Optax: directions, rates, clipped gradients
    loop         steps in a compiled loop, with a row of numbers kept of each
    chunks       mini-batch steps in compiled chunks: phases, carried state, resumable within an epoch
    batches      which rows a mini-batch has, by seed, epoch and position
    hooks        what happens between epochs: validation, early stopping
    bijections   maps of flows: options, and functions of the parameters of one member
    row_programs functions of rows, compiled for a few sizes of blocks
    optimise     driven Adam steps on many problems of one shape at once, with early stop and history
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import furnish

if TYPE_CHECKING:
    from . import (
        adam,
        arrays,
        batches,
        bijections,
        chunks,
        compiled,
        hooks,
        image_network,
        layers,
        layout,
        loop,
        optimise,
    )

__all__ = [
    "adam",
    "arrays",
    "batches",
    "bijections",
    "chunks",
    "compiled",
    "hooks",
    "image_network",
    "layers",
    "layout",
    "loop",
    "optimise",
]

furnish(
    __name__,
    {},
    modules=(
        "adam",
        "arrays",
        "batches",
        "bijections",
        "chunks",
        "compiled",
        "hooks",
        "image_network",
        "layers",
        "layout",
        "loop",
        "optimise",
    ),
)
