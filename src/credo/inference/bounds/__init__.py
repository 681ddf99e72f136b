"""Bounds that hold whenever a run is stopped."""

from __future__ import annotations

from ..problem.contents import Method

__all__ = ["METHODS"]

METHODS = {
    "wmb": Method(
        "credo.inference.bounds.wmb",
        "Forward passes bound, backward passes tell how to shift costs and weights.",
        answers=("sum", "max", "mixed", "powered", "ordered"),
        promises=("exact on trees", "upper"),
        checkpoints=True,
        slopes=True,
    ),
    "gdd": Method(
        "credo.inference.bounds.gdd",
        "Lower a bound on any powered sum by shifting costs and sharing out temperatures.",
        answers=("sum", "max", "mixed", "powered", "ordered"),
        promises=("monotone", "upper"),
        checkpoints=True,
        slopes=True,
    ),
    "mini-bucket": Method(
        "credo.inference.bounds.mini_bucket",
        "Elimination with split buckets.",
        answers=("sum", "max", "mixed", "powered", "ordered"),
        promises=("exact on trees", "upper"),
        slopes=True,
    ),
    "trw-primal": Method(
        "credo.inference.bounds.trw_primal",
        "Minimise an explicit convex combination of forest log partition functions.",
        answers=("sum", "max"),
        promises=("exact on trees", "monotone", "upper"),
        checkpoints=True,
        slopes=True,
    ),
    "dual-decomposition": Method(
        "credo.inference.bounds.dual_decomposition",
        "Lower the bound on the best score by shifts between factors and variables.",
        answers=("max",),
        promises=("monotone", "upper"),
        checkpoints=True,
    ),
    "lp": Method(
        "credo.inference.bounds.lp",
        "The local-polytope relaxation through a linear programming solver.",
        answers=("max",),
        promises=("upper",),
    ),
    "reordering": Method(
        "credo.inference.bounds.reordering",
        "Mini-bucket elimination along the best order found, whatever the temperatures.",
        answers=("sum", "max", "mixed", "powered"),
        promises=("upper",),
        slopes=True,
    ),
}
