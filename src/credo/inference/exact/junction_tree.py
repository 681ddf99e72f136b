r"""Exact inference on a junction tree.

Shafer-Shenoy (division-free), on the binary join tree of a searched elimination order:

    M_{i->j}(x_S) = sum_{x_C \ x_S} psi_i(x_C) prod_{k != j} M_{k->i},
    p(x_C)  proportional to  psi_i prod_k M_{k->i}

The upward messages are the tensors of `kernels/join_tree.py`, the downward ones their adjoints, so
one pass up and one down give the value Phi of any powered sum and its derivative by every log table: for sums
log Z and all factor marginals, otherwise the joint distributions of the factors' variables under the
conditionals q(x_i | later) of the recursion (see `kernels/join_beliefs.py`). With maximised
variables the upward pass takes maxima, and the states are read off on the way down;
the same walk with random choices draws exact samples. Time and memory are exponential in the
width; both are forecast first and refused beyond a limit. On a large forest the same messages are
passed without a plan, in two sweeps.

Hugin propagation (`propagation=hugin`) keeps clique and separator beliefs q and r instead and
divides: r_new = sum q_i, q_j <- q_j r_new / r (see `hugin.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from ...core import check
from ...core.result import (
    Assignment,
    Estimate,
    FactorMarginals,
    Joint,
    Marginals,
    Result,
    Samples,
    Status,
    unrestrict,
)
from ...structures.join_tree import JoinTree
from ..problem.base import Algorithm, Budget, Problem, register
from ..problem.tree import (
    Forecast,
    Limits,
    UpwardPass,
    beliefs,
    best_states,
    climb,
    forecast,
    plan,
    prepare,
    trace_back,
)

if TYPE_CHECKING:
    from ..problem.instances import Instances, TableBatch

__all__ = ["Forecast", "JunctionTreePropagation", "forecast", "solve"]

_LARGE_FOREST = 5000  # variables from which two sweeps of messages beat planning a join tree


@register
@dataclass(frozen=True, kw_only=True)
class JunctionTreePropagation(Algorithm):
    """All marginals and factor marginals, MAP, marginal MAP, powered sums and samples at once."""

    name: ClassVar[str] = "junction-tree"
    promises: ClassVar[frozenset[str]] = frozenset({"exact"})
    slopes: ClassVar[bool] = True
    propagation: Literal["shafer-shenoy", "hugin"] = "shafer-shenoy"  # how messages pass
    effort: float = 1.0  # search for a good order, as a multiple of the expected run time
    memory_gb: float | None = None  # refuse above this; None is half of the machine's memory
    max_log2_operations: float = 40.0  # refuse above this

    def __post_init__(self) -> None:
        """Check the options."""
        check.one_of("propagation", self.propagation, ["shafer-shenoy", "hugin"])
        check.at_least("effort", self.effort, 0)
        check.at_least("max_log2_operations", self.max_log2_operations, 0)
        if self.memory_gb is not None:
            check.at_least("memory_gb", self.memory_gb, 0)

    def why_not(self, problem: Problem) -> str | None:
        """Hugin propagation is implemented for sums."""
        if self.propagation == "hugin" and (not problem.is_sum or problem.query or problem.samples):
            return "Hugin propagation gives marginals and log Z; use propagation=shafer-shenoy"
        return None

    def takes_tables(self, instances: Instances) -> bool:
        """Whether instances of one structure go through one kernel: those with a small forecast do."""
        from .tree_batch import suits_batch

        problem = instances.problem
        if self.propagation == "hugin" or not suits_batch(problem, self.effort):
            return False
        return not self._limits.excess(plan(problem, (), self.effort)[0])

    def run_tables(self, instances: Instances, budget: Budget) -> TableBatch:
        """Values, derivatives and best states of problems of one structure."""
        from .tree_batch import solve_tables

        return solve_tables(instances, self.effort)

    @property
    def _limits(self) -> Limits:
        return Limits(self.memory_gb, self.max_log2_operations)

    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """Plan, forecast, and pass messages up and down."""
        limits = self._limits
        if self.propagation == "hugin":
            from . import hugin

            return hugin.run(problem, limits, self.effort).but(algorithm=self.name)
        if _is_large_forest(problem):
            return _forest_marginals(problem, rng).but(algorithm=self.name)
        return solve(problem, limits, self.effort, rng).but(algorithm=self.name)


def _is_large_forest(problem: Problem) -> bool:
    """Whether two sweeps of messages answer everything, and planning a join tree would take longer."""
    few = len(problem.graph.variables) < _LARGE_FOREST
    if few or not problem.is_sum or problem.query or problem.samples:
        return False
    from ..messages.engine import is_forest

    return is_forest(problem.graph)


def _forest_marginals(problem: Problem, rng: np.random.Generator) -> Result:
    """Messages from the leaves to the roots and back: exact on a forest."""
    from ..messages import engine

    weights = engine.Weighted.plain(problem.graph)
    state, left = engine.start(problem, weights, rng), 2
    while left > 0:  # sweeps may come one at a time
        state, changes = engine.advance(problem, state, weights, "tree", left, 0.0)
        left -= len(changes)
    found = engine.read(problem, state, weights)
    return Result(
        "",
        Status.EXACT,
        log_z=Estimate(found.log_z, "exact"),
        marginals=found.marginals,
        factor_marginals=found.factor_marginals,
    )


def solve(problem: Problem, limits: Limits, effort: float, rng: np.random.Generator) -> Result:
    """Answer on the join tree, after dropping impossible states where that pays."""
    ready = prepare(problem, effort)
    limits.refuse(ready.forecast, problem)
    assert ready.tree is not None  # a hopeless plan is refused above
    found = _answer(ready.problem, ready.tree, rng)
    return found if ready.restriction is None else unrestrict(found, ready.restriction, problem.graph)


def _answer(problem: Problem, tree: JoinTree, rng: np.random.Generator) -> Result:
    up = climb(problem, tree)
    found = Result("", Status.EXACT, log_z=Estimate(up.log_z, "exact"))
    if problem.query:
        return _joint(problem, up)
    if problem.samples:
        return found.but(samples=_samples(problem, up, rng))
    chosen = best_states(problem, up)
    if chosen is not None:
        found = found.but(assignment=Assignment(problem.graph.variables, chosen), score=found.log_z)
    if problem.is_max and chosen is not None and not problem.is_sum:
        return found.but(factor_marginals=FactorMarginals.indicator(problem.graph, chosen))
    tables, states = beliefs(problem, up)
    marginals = Marginals(problem.graph.variables, states) if problem.is_sum else None
    return found.but(marginals=marginals, factor_marginals=FactorMarginals(problem.graph, tables))


def _samples(problem: Problem, up: UpwardPass, rng: np.random.Generator) -> Samples:
    n = len(problem.graph.variables)
    states = np.zeros((problem.samples, n), dtype=np.int64)
    lonely = up.tree.lonely
    states[:, lonely] = rng.integers(up.tree.sizes[lonely], size=(problem.samples, len(lonely)))
    if len(up.tree.left):
        trace_back(up, problem.temperatures, rng.random((problem.samples, len(up.tree.left))), states)
    return Samples(problem.graph.variables, states)


def _joint(problem: Problem, up: UpwardPass) -> Result:
    """The normalised table over the queried variables, from the roots that still mention them."""
    tree, variables = up.tree, problem.graph.variables
    asked = np.array(problem.query, dtype=np.int64)
    table = np.ones([1] * len(asked))
    for t in tree.roots:
        axes = tree.axes[tree.start[t] : tree.start[t + 1]]
        values = up.arena[tree.offset[t] : tree.offset[t + 1]].reshape(tree.sizes[axes])
        place = [int(np.flatnonzero(asked == i)[0]) for i in axes]
        by_place = np.argsort(place)
        shape = [int(tree.sizes[i]) if i in axes else 1 for i in asked]
        part = values.transpose(by_place).reshape(shape)
        table = table * (np.exp(part) if up.logs else part)
    table = np.broadcast_to(table, tree.sizes[asked])
    total = float(table.sum())
    log_z = Estimate(up.log_z + float(np.log(total)), "exact")
    scope = tuple(variables[int(i)] for i in asked)
    return Result("", Status.EXACT, log_z=log_z, joint=Joint(scope, table / total))
