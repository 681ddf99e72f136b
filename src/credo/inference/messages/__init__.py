"""Message passing."""

from __future__ import annotations

from ..problem.contents import Method

__all__ = ["METHODS"]

METHODS = {
    "bp": Method(
        "credo.inference.messages.bp",
        "Loopy belief propagation with a choice of schedule and damping.",
        answers=("sum", "max", "mixed"),
        groups=("tables", "bilinear"),
        promises=("exact on trees",),
        checkpoints=True,
        slopes=True,
    ),
    "trw": Method(
        "credo.inference.messages.trw",
        "Reweighted message passing with a choice of appearance probabilities.",
        answers=("sum", "max"),
        promises=("exact on trees",),
        checkpoints=True,
        slopes=True,
    ),
    "gbp": Method(
        "credo.inference.messages.gbp",
        "Messages between regions of a region graph, with a convergent double loop to fall back on.",
        answers=("sum",),
        promises=("exact on trees",),
        checkpoints=True,
        slopes=True,
    ),
    "ep": Method(
        "credo.inference.messages.ep",
        "Expectation propagation and power EP, with sites per variable or joint ones per factor.",
        answers=("sum",),
        reads=("discrete", "real", "vector", "positive", "interval", "simplex"),
        groups=("functions",),
        checkpoints=True,
    ),
    "fractional-bp": Method(
        "credo.inference.messages.fractional_bp",
        "Fractional BP (power EP on discrete models); power 1 is BP, 1 / rho is tree-reweighted BP.",
        answers=("sum",),
        checkpoints=True,
        slopes=True,
    ),
    "alpha-bp": Method(
        "credo.inference.messages.alpha_bp",
        "Alpha belief propagation; alpha = 1 is BP, smaller values are calmer on loops.",
        answers=("sum",),
        checkpoints=True,
        slopes=True,
    ),
    "trp": Method(
        "credo.inference.messages.trp",
        "Cycle through spanning forests, rewriting the joint by its forests' marginals.",
        answers=("sum",),
        promises=("exact on trees",),
        checkpoints=True,
        slopes=True,
    ),
    "gaussian-bp": Method(
        "credo.inference.messages.gaussian_bp",
        "Gaussian belief propagation: exact on trees, exact means where it converges.",
        answers=("sum", "max"),
        reads=("real",),
        promises=("exact on trees",),
        groups=("gaussian",),
        checkpoints=True,
    ),
    "grid-bp": Method(
        "credo.inference.messages.grid_bp",
        "Discretise real variables and run belief propagation on the tables.",
        answers=("sum", "max", "mixed"),
        reads=("discrete", "real", "positive", "interval"),
        groups=("functions",),
        slopes=True,
    ),
}
