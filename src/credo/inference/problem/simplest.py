"""What an algorithm is for, found out by asking it: the simplest question of each kind, per domain.

This tells users' own algorithms from each other as the tables of contents do for those of this package, and
is what the tables are tested against.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...core.density import DensityFactor, GaussianFactor
from ...core.domain import Interval, Positive, Real, Simplex
from ...core.factor_graph import FactorGraph
from ...core.registry import summary_of
from ...core.variable import Variable
from .base import Algorithm, Problem
from .contents import KINDS, TASKS, Method
from .reading import declaration_of, refusal

__all__ = ["accepts", "method_of"]


def method_of(cls: type[Algorithm]) -> Method:
    """What an algorithm declares, and what it accepts with its options at default."""
    accepted = {domain: accepts(cls(), domain) for domain in KINDS}
    return Method(
        cls.__module__,
        summary_of(cls),
        answers=tuple(task for task in TASKS if any(task in tasks for tasks in accepted.values())),
        reads=tuple(domain for domain, tasks in accepted.items() if tasks),
        groups=declaration_of(cls).groups,
        promises=tuple(sorted(cls.promises)),
        compiles=cls.compiles,
        checkpoints=cls.checkpoints,
        slopes=cls.slopes,
    )


def accepts(algorithm: Algorithm, domain: str = "discrete") -> list[str]:
    """The kinds of questions an algorithm takes on about two variables of a domain."""
    return [task for task, problem in _asked(domain) if refusal(algorithm, problem) is None]


def _asked(domain: str) -> Iterator[tuple[str, Problem]]:
    graph = _graph(domain)
    yield "sum", Problem.about(graph)
    yield "max", Problem.about(graph, (0, 1))
    yield "mixed", Problem.about(graph, (0,))
    yield "powered", Problem(graph, np.array([0.5, 0.0]), np.array([0, 1]))
    yield "ordered", Problem(graph, np.array([0.0, 1.0]), np.array([0, 1]))
    yield "query", Problem(graph, np.ones(2), np.zeros(2, dtype=np.int64), query=(0,))
    yield "samples", Problem.about(graph, samples=1)


def _graph(domain: str) -> Any:
    """Two variables that attract each other a little, or two that do not."""
    if domain == "discrete":
        return FactorGraph({"a": 2, "b": 2}, {("a", "b"): [[2, 1], [1, 2]]})
    if domain == "real":
        scope = [Variable(name, Real()) for name in "ab"]
        return FactorGraph(scope, [GaussianFactor(scope, np.array([[2.0, -0.5], [-0.5, 2.0]]), np.zeros(2))])
    if domain == "vector":
        scope = [Variable(name, Real(2)) for name in "ab"]
        return FactorGraph(scope, [GaussianFactor([v], np.eye(2)) for v in scope])
    if domain == "simplex":
        scope = [Variable(name, Simplex(2)) for name in "ab"]
        return FactorGraph(scope, [DensityFactor([v], _flat) for v in scope])
    scope = [Variable(name, Positive() if domain == "positive" else Interval(-1, 1)) for name in "ab"]
    return FactorGraph(scope, [DensityFactor([v], _falling) for v in scope])


def _flat(point: Any) -> Any:
    return point[..., 0] * 0.0


def _falling(x: Any) -> Any:
    return -x
