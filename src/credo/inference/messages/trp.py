"""Tree reparameterisation: exact inference on one spanning tree after another.

    p(x)  proportional to  prod_i f_i(x_i) prod_a f_a(x_a)

For a forest T of factors, let b be the exact marginals of  prod_i f_i prod_{a in T} f_a  and rewrite

    f_i <- b_i,      f_a <- b_a / prod_{i in a} b_i   for a in T,

leaving the other factors alone. The joint distribution does not change at any step; only its
factors move towards marginals. A step goes once through forests that together hold every factor.
At a fixed point the b are the marginals of every forest at once, and fixed points are those of BP.
Exact on trees after one step. log Z is the Bethe value at fixed points: an estimate, no bound. Any
arity: the forests are sets of factors without a cycle. A step costs a few passes over all tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from ...core import check
from ...core.factor_graph import FactorGraph
from ...core.records import record
from ...core.result import Estimate, FactorMarginals, Marginals, Result, Status
from ...kernels.trees import mix_logs
from ...structures.conversions import table_entries
from ...structures.spanning_trees import covering_forests, random_forests
from ..problem.base import IterativeAlgorithm, Problem, register
from ..problem.forest import ForestPasses

__all__ = ["TRP", "TRPState", "log_joint"]


class _ForestRewriting:
    """What stays the same while factors are rewritten."""

    def __init__(self, graph: FactorGraph, members: np.ndarray) -> None:
        self.passes = ForestPasses(graph)
        self.members = members
        self.orders = [self.passes.order(row) for row in members]
        self.scale = np.ones(graph.n_factors)

    @cached_property
    def entry_states(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each axis number: the entries of links that have it, and the flat state each stands at."""
        p, w = self.passes, self.passes.graph.wiring
        is_link = p.spread >= 2
        arity = np.diff(w.scope_start)
        which, entry = table_entries(w.table_size)
        found = []
        for k in range(int(arity.max(initial=0))):
            at = np.flatnonzero(is_link[which] & (arity[which] > k))
            e = w.scope_start[which[at]] + k
            digit = entry[at] // w.edge_stride[e] % w.sizes[w.scope[e]]
            found.append((at, w.state_start[w.scope[e]] + digit))
        return found


@record("trp", rebuilt=("work",))
class TRPState(NamedTuple):
    """The current factorisation of the joint."""

    work: _ForestRewriting  # forests and index arrays
    node: np.ndarray  # log f_i per flat state
    tables: np.ndarray  # log f_a, dense; factors over one variable are part of `node`
    constant: float  # log of what the rewritten factors lost


@register
@dataclass(frozen=True, kw_only=True)
class TRP(IterativeAlgorithm[TRPState]):
    """Cycle through spanning forests, rewriting the joint by its forests' marginals."""

    name: ClassVar[str] = "trp"
    promises: ClassVar[frozenset[str]] = frozenset({"exact on trees"})
    slopes: ClassVar[bool] = True
    trees: int = 0  # random forests to cycle through; 0: a few deterministic ones that cover the graph
    damping: float = 0.0  # weight of the old factors, in the log domain

    def __post_init__(self) -> None:
        """Check the options."""
        check.whole("trees", self.trees, 0)
        check.in_range("damping", self.damping, 0, 1)

    def start(self, problem: Problem, rng: np.random.Generator) -> TRPState:
        """The model itself, with factors over one variable in the node terms."""
        graph = problem.graph
        forests = random_forests(graph, self.trees, rng) if self.trees else covering_forests(graph)
        work = _ForestRewriting(graph, forests.members)
        if work.passes.is_impossible:
            raise problem.contradiction()
        return TRPState(work, work.passes.node, work.passes.dense_tables(), work.passes.constant)

    def step(self, problem: Problem, state: TRPState) -> tuple[TRPState, float]:
        """Rewrite by every forest once; the change is the largest move of a variable's marginal."""
        change, before = 0.0, np.exp(state.node - _norms(problem.graph, state.node)[1])
        for t in range(len(state.work.orders)):
            state, belief = self._rewrite(problem, state, t)
            change = max(change, float(np.abs(belief - before).max(initial=0.0)))
            before = belief
        return state, change

    def _rewrite(self, problem: Problem, state: TRPState, t: int) -> tuple[TRPState, np.ndarray]:
        work, weight = state.work, 1 - self.damping
        found = work.passes.run(work.orders[t], state.node, work.scale, tables=state.tables)
        if found.value == -np.inf:
            raise problem.contradiction()
        # b_a / prod b_i; where b_a is zero so is the factor, whatever the denominator.
        ratio = found.joint.copy()
        inside = ratio > -np.inf
        for at, place in work.entry_states:
            use = inside[at]
            ratio[at[use]] -= found.belief[place[use]]
        which = np.repeat(work.members[t], np.diff(work.passes.start))
        tables = np.where(which, mix_logs(state.tables, ratio, weight), state.tables)
        node = mix_logs(state.node, found.belief, weight)
        constant = state.constant + weight * found.value
        return state._replace(node=node, tables=tables, constant=constant), np.exp(found.belief)

    def read(self, problem: Problem, state: TRPState, status: Status) -> Result:
        """Marginals and the Bethe value: all normalisers of the current factorisation."""
        graph, passes = problem.graph, state.work.passes
        norm, per_state = _norms(graph, state.node)
        belief = state.node - per_state
        joint, norms = passes.products(state.tables, belief)
        if (norms == -np.inf).any():
            raise problem.contradiction()
        states = np.exp(belief)
        return Result(
            self.name,
            status,
            log_z=Estimate(float(state.constant + norm.sum() + norms.sum()), "estimate"),
            marginals=Marginals(graph.variables, states),
            factor_marginals=FactorMarginals(graph, passes.fill(np.exp(joint), states)),
        )


def _norms(graph: FactorGraph, node: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log of the sum of each variable's node terms, per variable and repeated per state."""
    first, sizes = graph.variables.state_start[:-1], graph.variables.sizes
    if not len(first):
        return np.zeros(0), np.zeros(0)
    top = np.maximum.reduceat(node, first)
    norm = top + np.log(np.add.reduceat(np.exp(node - np.repeat(top, sizes)), first))
    return norm, np.repeat(norm, sizes)


def log_joint(state: TRPState, states: np.ndarray) -> np.ndarray:
    """Log weight of each row of state indices under the current factorisation.

    It is the model's own log weight at every step, which is what reparameterisation means.
    """
    passes = state.work.passes
    w = passes.graph.wiring
    total = np.full(len(states), state.constant)
    for row, x in enumerate(np.asarray(states, dtype=np.int64)):
        total[row] += state.node[w.state_start[:-1] + x].sum()
        for a in passes.links:
            e = slice(w.scope_start[a], w.scope_start[a + 1])
            total[row] += state.tables[passes.start[a] + (w.edge_stride[e] * x[w.scope[e]]).sum()]
    return total
