"""Which other methods answer a question, found out by asking them about this very problem.

A refusal names a way out; a method that would refuse as well is none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .base import Problem, algorithms
from .contents import Method

__all__ = ["alternatives"]

_MANY = 2000  # factors from which a graph of tables is not turned into one of any domain for asking


def alternatives(problem: Any, is_meant: Callable[[Method], bool] = lambda known: True) -> list[str]:
    """The best known method of each family that takes this problem on, among those that are meant."""
    asked = _Asked(problem)
    found: dict[str, str] = {}
    for name, known in algorithms.entries().items():
        if known.family not in found and is_meant(known) and asked.is_taken_on(name, known):
            found[known.family] = name
    return list(found.values())


class _Asked:
    """A problem in the forms that methods read."""

    def __init__(self, problem: Any) -> None:
        self._problem, self._is_discrete = problem, isinstance(problem, Problem)
        self._as_hybrid: Any = None if self._is_discrete else problem

    def is_taken_on(self, name: str, known: Method) -> bool:
        if self._problem.task not in known.answers:
            return False
        if self._is_discrete and known.hybrid:
            return "discrete" in known.reads and self._asks_hybrid(name, known)
        if not (self._is_discrete or known.hybrid or known.continuous):
            return False
        return algorithms.resolve(name).why_not(self._problem) is None

    def _asks_hybrid(self, name: str, known: Method) -> bool:
        if self._problem.graph.n_factors > _MANY:
            # Chains move one variable at a time, whatever the factors are; others would have to look at them.
            return known.family == "sampling"
        if self._as_hybrid is None:
            self._as_hybrid = _as_hybrid(self._problem)
        return algorithms.resolve(name).why_not(self._as_hybrid) is None


def _as_hybrid(problem: Problem) -> Any:
    from .hybrid import HybridQuestion

    question = HybridQuestion.of(problem.graph, None)
    names = [problem.graph.variables.names[int(i)] for i in problem.maximised]
    return question.problem(names, samples=problem.samples)
