"""Inference by minimising a free energy with gradients; JAX is loaded when one of these runs."""

from __future__ import annotations

from ..problem.contents import Method

__all__ = ["METHODS"]

METHODS = {
    "renn": Method(
        "credo.inference.neural.renn",
        "A network whose outputs are beliefs of regions, optimised for their free energy.",
        answers=("sum",),
        compiles=True,
        checkpoints=True,
        slopes=True,
    ),
    "inference-net": Method(
        "credo.inference.neural.renn",
        "The same network on Bethe regions: one softmax per factor, variables as means of what factors say.",
        answers=("sum",),
        compiles=True,
        checkpoints=True,
        slopes=True,
    ),
    "region-direct": Method(
        "credo.inference.neural.direct",
        "Gradient minimisation of the region free energy under its constraints.",
        answers=("sum",),
        compiles=True,
        checkpoints=True,
        slopes=True,
    ),
    "bethe-direct": Method(
        "credo.inference.neural.direct",
        "Gradient minimisation of the Bethe free energy under its constraints.",
        answers=("sum",),
        compiles=True,
        checkpoints=True,
        slopes=True,
    ),
}
