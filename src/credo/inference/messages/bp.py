"""Belief propagation: sum-product, max-product and mixed-product on any factor graph.

    m_{a->i}(x_i) = op_{x_a without x_i} psi_a(x_a) prod_{j in a, j != i} prod_{b at j, b != a} m_{b->j}(x_j)
    b_i ~ prod_{a at i} m_{a->i},      b_a ~ psi_a prod_{j in a} prod_{b at j, b != a} m_{b->j}

Exact on trees: the tree schedule needs two passes. On loopy graphs a fixed point is a stationary
point of the Bethe free energy, and its log Z is an estimate: neither a lower nor an upper bound. With
maximised variables the beliefs are decoded along a spanning forest; the score of the decoded states is a
lower bound on the maximum, and `factor_marginals` are the derivative of that score: certain about the decoded
states, and the distribution of the rest given them (see `inference/problem/value.py`). A sweep costs
(entries of all tables) x (arity).

Schedules: `flooding` (all messages from the old ones; several cores on large binary models),
`sequential` (factor by factor, forwards and backwards in turn), `random` (a new order each sweep),
`tree` (leaves to roots of a spanning forest and back), `residual` (first what would change messages
most, by an estimate where messages are positive numbers), `auto` (tree on forests; by matrices, layer after
layer, where every pair across two layers of two-state units is joined, see `layer_bp`; else sequential).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np

from ...core import check
from ...core.factor_graph import FactorGraph
from ...core.result import Assignment, Estimate, Result, Status
from ...kernels.message_beliefs import decode_states, factor_depths
from ...kernels.support import supported_states
from ..problem.base import Budget, IterativeAlgorithm, Problem, register
from ..problem.instances import Instances, TableBatch
from ..problem.value import value_and_slopes
from . import engine
from .engine import MessageState, Readout, Schedule, Weighted
from .layer_bp import LayerMessages, advance_layers, form_of, read_layers, start_layers

__all__ = ["BP"]


@register
@dataclass(frozen=True, kw_only=True)
class BP(IterativeAlgorithm[MessageState | LayerMessages]):
    """Loopy belief propagation with a choice of schedule and damping."""

    name: ClassVar[str] = "bp"
    promises: ClassVar[frozenset[str]] = frozenset({"exact on trees"})
    slopes: ClassVar[bool] = True
    warm_starts: ClassVar[bool] = True
    schedule: Schedule = "auto"  # order of the updates: flooding, sequential, random, residual or tree
    damping: float = 0.0  # weight of the old message
    damping_domain: Literal["log", "linear"] = "log"  # mix logarithms or probabilities
    random_start: bool = False  # random first messages instead of uniform ones

    def __post_init__(self) -> None:
        """Check the options."""
        check.one_of("schedule", self.schedule, engine.SCHEDULES)
        check.in_range("damping", self.damping, 0, 1)
        check.one_of("damping_domain", self.damping_domain, ["log", "linear"])

    def _weights(self, problem: Problem) -> Weighted:
        return Weighted.plain(problem.graph, 1 - self.damping, linear=self.damping_domain == "linear")

    def takes_layers(self, problem: Problem) -> bool:
        """Whether the options, and the question, are those that matrices serve."""
        return self._is_free and form_of(problem) is not None

    def why_not(self, problem: Problem) -> str | None:
        """Tables, or two layers of units whose pairs are worked on as one matrix."""
        if problem.graph.is_tables or self.takes_layers(problem):
            return None
        return "its factors would be more tables than fit into memory"

    @property
    def _is_free(self) -> bool:
        """Whether the options leave the order of the updates open."""
        return self.schedule == "auto" and self.damping == 0 and not self.random_start

    def start(self, problem: Problem, rng: np.random.Generator) -> MessageState | LayerMessages:
        """Uniform (or random) messages in the fastest form."""
        is_open = self._is_free and not isinstance(problem.warm, MessageState)
        form = form_of(problem) if is_open or not problem.graph.is_tables else None
        if form is not None:
            return start_layers(problem, form)
        return engine.start(problem, self._weights(problem), rng, random=self.random_start)

    def step(
        self, problem: Problem, state: MessageState | LayerMessages
    ) -> tuple[MessageState | LayerMessages, float]:
        """One sweep."""
        state, changes = self.advance(problem, state, 1, 0.0)
        return state, float(changes[-1])

    def advance(
        self, problem: Problem, state: MessageState | LayerMessages, count: int, tol: float
    ) -> tuple[MessageState | LayerMessages, np.ndarray]:
        """Several sweeps inside the kernel."""
        if isinstance(state, LayerMessages):
            return advance_layers(state, count, tol)
        return engine.advance(problem, state, self._weights(problem), self.schedule, count, tol)

    def messages(
        self, problem: Problem, state: MessageState | LayerMessages
    ) -> dict[tuple[int, str], np.ndarray] | None:
        """Log messages by edge; None between layers, where they are one matrix."""
        return None if isinstance(state, LayerMessages) else engine.messages_by_edge(problem, state)

    def read(self, problem: Problem, state: MessageState | LayerMessages, status: Status) -> Result:
        """Beliefs and the Bethe log Z, or decoded states."""
        if isinstance(state, LayerMessages):
            return read_layers(problem, state, self.name, status)
        weights = self._weights(problem)
        found = engine.read(problem, state, weights)
        if problem.is_sum:
            return Result(
                self.name,
                status,
                log_z=Estimate(found.log_z, "estimate"),
                marginals=found.marginals,
                factor_marginals=found.factor_marginals,
            )
        states = _decode(problem, found)
        score, slopes = value_and_slopes(problem, states)
        if score.value == -np.inf and not _is_possible(problem.graph):
            raise problem.contradiction()
        return Result(
            self.name,
            status,
            log_z=Estimate(score.value, "lower"),
            factor_marginals=slopes,
            assignment=Assignment(problem.graph.variables, states),
            score=score,
        )

    def takes_tables(self, instances: Instances) -> bool:
        """Whether instances go through one kernel, which sums, with fixed orders and first messages."""
        is_fixed = self.schedule not in ("residual", "random") and not self.random_start
        return is_fixed and instances.problem.is_sum

    def run_tables(self, instances: Instances, budget: Budget) -> TableBatch:
        """Beliefs and the Bethe log Z of problems of one structure at once."""
        schedule = "sequential" if self.schedule == "auto" else self.schedule
        weights = partial(Weighted.plain, step=1 - self.damping, linear=self.damping_domain == "linear")
        return engine.run_tables(instances, weights, schedule, budget)


def _is_possible(graph: FactorGraph) -> bool:
    """Whether every variable has a state that no factor around it excludes."""
    start = graph.variables.state_start
    keep = supported_states(graph.log_tables, graph.table_start, graph.scope_start, graph.scope, start)
    return not len(graph.variables) or bool(np.logical_or.reduceat(keep, start[:-1]).all())


def _decode(problem: Problem, found: Readout) -> np.ndarray:
    """States of the maximised variables, chosen factor by factor given those chosen before.

    From the roots of a spanning forest outwards, so that ties are broken consistently: on a tree the
    result attains the maximum. Ties go to the lowest index.
    """
    w = problem.graph.wiring
    depth = factor_depths(w.scope_start, w.scope, w.neighbour_start, w.neighbour_edge, w.edge_factor)
    return np.asarray(
        decode_states(
            np.argsort(depth, kind="stable"),
            problem.temperatures == 0,
            w.scope_start,
            w.scope,
            w.sizes,
            w.state_start,
            found.factor_marginals.flat,
            found.log_beliefs,
        )
    )
