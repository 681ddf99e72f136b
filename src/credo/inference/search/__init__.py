"""Search for the best states."""

from __future__ import annotations

from ..problem.contents import Method

__all__ = ["METHODS"]

METHODS = {
    "local-search": Method(
        "credo.inference.search.local_search",
        "Iterated local search with exact moves of whole blocks; for large models, MAP and marginal MAP.",
        answers=("max", "mixed", "powered"),
        promises=("lower",),
        checkpoints=True,
    ),
    "branch-and-bound": Method(
        "credo.inference.search.branch_and_bound",
        "AND/OR search guided by weighted mini-buckets: proves optima, and brackets them when stopped.",
        answers=("max", "mixed", "powered"),
        promises=("upper",),
    ),
    "soft-consistency": Method(
        "credo.inference.search.soft_consistency",
        "Branch and bound with soft local consistency: exact MAP for wide models with structured tables.",
        answers=("max",),
        promises=("upper",),
        checkpoints=True,
    ),
    "decimation": Method(
        "credo.inference.search.decimation",
        "Fix the most decided variables, round by round.",
        answers=("max", "mixed"),
        promises=("lower",),
        checkpoints=True,
    ),
    "graph-cut": Method(
        "credo.inference.search.graph_cut",
        "The best state of an attractive binary pairwise model, by a smallest cut.",
        answers=("max",),
        promises=("upper",),
    ),
    "alpha-expansion": Method(
        "credo.inference.search.alpha_expansion",
        "Expansion moves by smallest cuts, for pairs that are metrics such as Potts models.",
        answers=("max",),
        promises=("upper",),
        checkpoints=True,
    ),
}
