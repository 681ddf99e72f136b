"""The documented rule behind `credo.infer(model)` without a method.

The junction tree, if its forecast stays within half of the machine's memory and about a minute of
work; otherwise the question is refused with the forecast and the names of the approximate methods.
"""

from __future__ import annotations

from .base import Algorithm, Problem
from .exact.junction_tree import JunctionTree
from .exact.tree import Limits, plan, prune

__all__ = ["choose"]

_MINUTE = 36.0  # log2 of the multiplications that take about a minute


def choose(problem: Problem) -> tuple[Algorithm, str]:
    """The algorithm to use, and a sentence that says so."""
    chosen = JunctionTree(max_log2_operations=_MINUTE)
    predicted, _ = plan(problem, problem.query, chosen.effort)
    if prune(problem, predicted) is None:
        Limits(None, _MINUTE).refuse(predicted)
    return chosen, f"chosen: junction-tree ({predicted})"
