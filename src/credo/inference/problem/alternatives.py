"""Which other methods answer a question, found out by asking them about this very problem.

A refusal names a way out; a method that would refuse as well is none.
"""

from __future__ import annotations

from collections.abc import Callable

from ...core.registry import or_else
from .base import Problem, algorithms
from .contents import Method
from .reading import pose_for

__all__ = ["alternatives", "way_out"]

_MANY = (
    2000  # factors from which methods that look at functions are not asked: that takes longer than the rest
)


def alternatives(problem: Problem, is_meant: Callable[[Method], bool] = lambda known: True) -> list[str]:
    """The best known method of each family that takes this problem on, among those that are meant."""
    found: dict[str, str] = {}
    for name, known in algorithms.entries().items():
        if known.family not in found and is_meant(known) and _takes_on(name, known, problem):
            found[known.family] = name
    return list(found.values())


def _takes_on(name: str, known: Method, problem: Problem) -> bool:
    algorithm = algorithms.resolve(name)
    posed = pose_for(algorithm, problem)
    if isinstance(posed, str):
        return False
    if posed.problem.graph.n_factors > _MANY and not posed.problem.graph.is_tables:
        # Chains move one variable at a time, whatever the factors are; others would have to look at them.
        return known.family in ("sampling", "exact")
    return algorithm.why_not(posed.problem) is None


def way_out(problem: Problem, but: str) -> str:
    """The end of a refusal: what answers this question instead."""
    able = [name for name in alternatives(problem) if name != but]
    return f"use {or_else(able)}" if able else "no method answers this question"
