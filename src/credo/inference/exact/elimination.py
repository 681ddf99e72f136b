"""Variable elimination: one run per question.

    p(x_Q) proportional to  sum_{x_1} ... sum_{x_k} prod_a exp theta_a(x_a)

Sums (maxima, powered sums) are pushed inwards along a searched order in which the queried
variables come last. Before each run, factors that sum to a constant over an unwanted variable are
dropped (barren nodes of a Bayesian network), which often leaves a small part of the model. All
marginals are one run per variable here, those of factors one per scope, when they are read; the junction tree
gives them in two passes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from ...core import check
from ...core.result import Estimate, FactorMarginals, Marginals, Result, Status
from ...kernels.support import barren_factors
from ...optimise.run import watched
from ..problem.base import Algorithm, Budget, Problem, register
from ..problem.tree import Limits
from .junction_tree import solve

__all__ = ["Elimination"]


@register
@dataclass(frozen=True, kw_only=True)
class Elimination(Algorithm):
    """Eliminate every variable that is not asked for."""

    name: ClassVar[str] = "elimination"
    promises: ClassVar[frozenset[str]] = frozenset({"exact"})
    slopes: ClassVar[bool] = True
    effort: float = 1.0  # search for a good order, as a multiple of the expected run time
    memory_gb: float | None = None  # refuse above this; None is half of the machine's memory
    max_log2_operations: float = 40.0  # refuse above this

    def __post_init__(self) -> None:
        """Check the options."""
        check.at_least("effort", self.effort, 0)
        check.at_least("max_log2_operations", self.max_log2_operations, 0)
        if self.memory_gb is not None:
            check.at_least("memory_gb", self.memory_gb, 0)

    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """One run for the query, or one per variable for all marginals."""
        if problem.query or not problem.is_sum:
            return replace(self._one(problem, rng), algorithm=self.name)
        variables = problem.graph.variables
        flat = np.ones(variables.state_start[-1])
        log_z = None
        for i in np.flatnonzero(variables.sizes > 1):
            found = self._one(replace(problem, query=(int(i),)), rng)
            assert found.joint is not None
            flat[variables.state_start[i] : variables.state_start[i + 1]] = found.joint.table
            log_z = found.log_z
        if log_z is None:
            log_z = self._one(problem, rng).log_z
        return Result(
            self.name, Status.EXACT, log_z=log_z, marginals=Marginals(variables, flat),
            factor_marginals=FactorMarginals(problem.graph, partial(self._factor_tables, problem, rng)),
        )  # fmt: skip

    def _factor_tables(self, problem: Problem, rng: np.random.Generator) -> np.ndarray:
        """The marginals of all scopes, a run for each; found when they are read."""
        graph, parts = problem.graph, [np.empty(0)]
        found: dict[tuple[int, ...], np.ndarray] = {}
        for a in watched(range(graph.n_tables)):
            scope = tuple(int(i) for i in graph.scope_of(a) if graph.variables.sizes[i] > 1)
            if scope not in found:
                joint = self._one(replace(problem, query=scope), rng).joint if scope else None
                found[scope] = np.ones(1) if joint is None else np.ravel(joint.table)
            parts.append(found[scope])
        return np.concatenate(parts)

    def _one(self, problem: Problem, rng: np.random.Generator) -> Result:
        limits = Limits(self.memory_gb, self.max_log2_operations)
        smaller, constant = _without_barren(problem)
        found = solve(smaller, limits, self.effort, rng)
        assert found.log_z is not None
        log_z = Estimate(found.log_z.value + constant, "exact")
        score = None if found.score is None else log_z
        return replace(found, log_z=log_z, score=score, factor_marginals=None)


def _without_barren(problem: Problem) -> tuple[Problem, float]:
    """The problem without barren factors, and the log constant they contribute."""
    graph = problem.graph
    wanted = problem.temperatures != 1
    if problem.levels[~wanted].max(initial=-1) > problem.levels[wanted].min(initial=len(wanted)):
        return problem, 0.0  # a sum after a maximum does not commute with it
    wanted[list(problem.query)] = True
    stays, gone, constant = barren_factors(
        graph.log_tables, graph.table_start, graph.scope_start, graph.scope, graph.variables.sizes, wanted
    )
    if stays.all():
        return problem, 0.0
    # A variable without factors still counts its states; they are in the constant already.
    constant -= float(np.log(graph.variables.sizes[gone]).sum())
    return replace(problem, graph=graph.select(np.flatnonzero(stays))), constant
