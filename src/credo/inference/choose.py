"""The documented rule behind `credo.infer(model)` without a method.

The junction tree, if its forecast stays within half of the machine's memory and about a minute of
work; otherwise belief propagation, where it can answer the question. What was chosen, and why, is
in the result's notes.
"""

from __future__ import annotations

from ..core.errors import TooLargeError
from .base import Algorithm, Problem
from .exact.junction_tree import JunctionTree
from .exact.tree import Limits, prepare
from .messages.bp import BP

__all__ = ["choose"]

_MINUTE = 36.0  # log2 of the multiplications that take about a minute


def choose(problem: Problem) -> tuple[Algorithm, str]:
    """The algorithm to use, and a sentence that says so."""
    chosen = JunctionTree()
    predicted = prepare(problem, chosen.effort).forecast
    try:
        Limits(None, _MINUTE).refuse(predicted)
    except TooLargeError:
        if BP().why_not(problem) is not None:
            raise
        return BP(), f"chosen: bp, an approximation (junction-tree would need {predicted})"
    return chosen, f"chosen: junction-tree ({predicted})"
