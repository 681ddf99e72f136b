"""What an algorithm is given: a problem in a form that it reads, or the reason why there is none.

Conditioning comes first: factors whose variables have states only are tables by then, so a model with
observed numbers is answered by every discrete method. Methods that read tables get the conditioned graph as
it is, where observed variables keep one state. Methods that read functions or Gaussian blocks get it
without the observed variables, and their answers are completed. Domains other than states, numbers of the
line and simplices are read through their free coordinates (`core/free.py`); domains of users as well: numbers
by methods that read positive numbers, vectors by those that read vectors of the line.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...core.domain import Simplex
from ...core.factor_graph import FactorGraph
from ...core.groups import Bilinear, Group, LinearGaussians, TableBlock
from ...core.result import Result, spread
from .base import Algorithm, Problem
from .contents import KINDS, TASKS, Method, methods

if TYPE_CHECKING:
    from ...core.free import FreeGraph

__all__ = ["Posed", "able", "compact", "declaration_of", "pose_for", "refusal"]


class Posed(NamedTuple):
    """A problem as an algorithm reads it, and the way back from its answer."""

    problem: Problem
    keep: np.ndarray | None  # variables that it is about, by position in the original problem; None: all
    original: Problem
    free: FreeGraph | None = None  # how values became numbers of the line
    bound: FactorGraph | None = None  # the graph before that

    def complete(self, result: Result) -> Result:
        """An answer in values, with the observed variables added."""
        if self.free is not None and self.bound is not None:
            from .free_answers import in_values

            result = in_values(result, self.free, self.bound)
        if self.keep is None:
            return result
        asked = self.original
        return spread(result, self.keep, asked.graph, asked.maximised, asked.query)


def declaration_of(algorithm: Any) -> Algorithm | Method:
    """Where it is said what an algorithm, or a class of them, reads and answers."""
    return methods().get(algorithm.name) or algorithm


def pose_for(algorithm: Any, problem: Problem) -> Posed | str:
    """The problem as the algorithm reads it, or why it cannot."""
    known = declaration_of(algorithm)
    posed = _readable(known, problem, algorithm)
    if isinstance(posed, str) or _is_answered(posed.problem, known.answers):
        return posed
    told = [TASKS[task] for task in known.answers]
    return f"it gives {_join_words(told)}, and the question asks for {TASKS[posed.problem.task]}"


def _is_answered(problem: Problem, answers: tuple[str, ...]) -> bool:
    """Whether the question is of a declared kind; without variables a sum is a maximum, too."""
    is_both = problem.task == "sum" and problem.is_max
    return problem.task in answers or (is_both and "max" in answers)


def _readable(known: Algorithm | Method, problem: Problem, algorithm: Any) -> Posed | str:
    if "bilinear" in known.groups and problem.graph.others and algorithm.takes_layers(problem):
        return Posed(problem, None, problem) if "tables" in known.groups else compact(problem)
    if "tables" in known.groups and (tables := problem.graph.as_tables()) is not None:
        whole = problem if tables is problem.graph else replace(problem, graph=tables)
        return Posed(whole, None, problem)
    posed = _convert(known, compact(problem))
    return _why_unreadable(known, posed.problem.graph) or _free(posed)


def _free(posed: Posed) -> Posed:
    """The problem in free coordinates, where there are other domains than methods are written for."""
    problem = posed.problem
    if problem.graph.variables.is_discrete:
        return posed
    from ...core.free import FreeGraph

    free = FreeGraph.of(problem.graph, problem.temperatures)
    if free is None:
        return posed
    moved = replace(
        problem,
        graph=free.graph,
        temperatures=np.repeat(problem.temperatures, free.counts),
        levels=np.repeat(problem.levels, free.counts),
        query=tuple(int(free.start[i]) for i in problem.query),
        vectors=free.vectors,
    )
    return posed._replace(problem=moved, free=free, bound=problem.graph)


def refusal(algorithm: Any, problem: Problem) -> str | None:
    """None if the algorithm takes on the problem, otherwise the reason in one sentence."""
    posed = pose_for(algorithm, problem)
    return posed if isinstance(posed, str) else algorithm.why_not(posed.problem)


def able(problem: Problem, names: Any) -> list[str]:
    """Those of these methods that take on the problem with their options at default."""
    from .base import algorithms

    return [name for name in names if refusal(algorithms.resolve(name), problem) is None]


def compact(problem: Problem) -> Posed:
    """The problem about the variables that were not observed."""
    seen = problem.observed
    if seen is None or not seen.any():
        return Posed(problem, None, problem)
    keep = np.flatnonzero(~seen)
    query = tuple(int(i) for i in np.searchsorted(keep, [q for q in problem.query if not seen[q]]))
    small = replace(
        problem,
        graph=problem.graph.compact(keep),
        temperatures=problem.temperatures[keep],
        levels=problem.levels[keep],
        query=query,
        observed=None,
    )
    return Posed(small, keep, problem)


def _why_unreadable(known: Algorithm | Method, graph: FactorGraph) -> str | None:
    variables = graph.variables
    if "discrete" not in known.reads and variables.sizes.any():
        name = variables.names[int((variables.sizes > 0).argmax())]
        return f"it works on {_join_words(known.reads)} variables, and '{name}' is discrete"
    strange = [domain for domain in variables.continuous if not _is_read(known, domain)]
    if strange:
        name, domain = variables.first_in(strange)
        told = f"'{name}' is continuous ({domain.kind}) and not observed"
        if is_vector(domain):
            told = f"'{name}' is a vector of {domain.numbers} numbers and not observed"
        return f"it works on {_join_words(known.reads)} variables, and {told}"
    if "functions" in known.groups:
        return None
    wrong = [group.kind for group in graph.others if group.kind not in known.groups]
    if np.diff(graph.scope_start).any() and "tables" not in known.groups:
        wrong.append("tables")
    if not wrong:
        return None
    return f"it reads {_join_words(known.groups)} factors, and some are {wrong[0]}"


def is_vector(domain: Any) -> bool:
    """Whether values of a domain are several numbers, each of them free."""
    return bool(domain.shape) and not isinstance(domain, Simplex)


def _is_read(known: Algorithm | Method, domain: Any) -> bool:
    """Whether a method reads a continuous domain, as it is or through its free coordinates."""
    if is_vector(domain):
        return "vector" in known.reads
    return domain.kind in known.reads or (domain.kind not in KINDS and "positive" in known.reads)


def _convert(known: Algorithm | Method, posed: Posed) -> Posed:
    """The problem with groups that are not read as others that are, where there are such."""
    graph = posed.problem.graph
    parts = [part for group in graph.others for part in _forms(known, group, graph)]
    if len(parts) == len(graph.others) and all(map(operator.is_, parts, graph.others)):
        return posed
    return posed._replace(problem=replace(posed.problem, graph=graph.with_parts(graph.variables, parts)))


def _forms(known: Algorithm | Method, group: Group, graph: FactorGraph) -> Iterable[Group | TableBlock]:
    """Residuals without states, and layers of numbers, as Gaussian blocks, functions of states as tables."""
    if group.kind in known.groups and not isinstance(group, Bilinear):  # which was no pair of layers here
        return (group,)
    if isinstance(group, LinearGaussians) and group.offset.ndim == 1:
        return (group.to_gaussians(),)
    if isinstance(group, Bilinear) and "gaussian" in known.groups:
        return group.to_gaussians(graph.variables)
    tables = group.to_tables(graph.variables) if "tables" in known.groups else None
    if tables is not None:
        return tables
    return group.unfolded(graph.variables) if "functions" in known.groups else (group,)


def _join_words(words: Any) -> str:
    *first, last = [str(word) for word in words] or ["nothing"]
    return f"{', '.join(first)} and {last}" if first else last
