r"""Naive mean field by coordinate ascent.

The best product q(x) = prod_i b_i(x_i) in the sense of KL(q || p), one variable after another:

    log b_i(x_i) = sum_{a at i} sum_{x_a without x_i} prod_{j in a, j != i} b_j(x_j) theta_a(x_a) + const

Updates are sequential, so the free energy F(b) = -<theta>_q - sum_i H(b_i) never rises, and -F is a
lower bound on log Z at any time. The optimum is local: `restarts` keeps the best of several.

Zeros: F is finite only if q avoids every zero entry. The start does so by construction: variables
that zeros tie together start at one joint state of positive weight, found by search (by exact
inference if the search gives up), and an update gives belief 0 to states that would meet a zero.

Cost of a sweep: each table is read once per variable in its scope.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from ...core import check
from ...core.factor_graph import FactorGraph
from ...core.result import FactorMarginals, Marginals, Result
from .. import free_energy
from ..base import Algorithm, Budget, Problem, register
from .descent import Run, best_of, check_restarts, descend, only_sums, starting_beliefs

__all__ = ["MeanField", "MeanFieldState", "descend_naive", "product_tables"]


class MeanFieldState(NamedTuple):
    """Where coordinate ascent stands."""

    marginals: np.ndarray  # flat beliefs
    free_energy: float  # of these beliefs


@register
@dataclass(frozen=True, kw_only=True)
class MeanField(Algorithm):
    """Product of independent marginals; a lower bound on log Z that no sweep lowers."""

    name: ClassVar[str] = "mean-field"
    promises: ClassVar[frozenset[str]] = frozenset({"lower", "monotone", "consistent"})
    warm_starts: ClassVar[bool] = True
    restarts: int = 1  # starts; the one with the lowest free energy is kept
    order: Literal["sequential", "random"] = "sequential"  # of the variables within a sweep

    def __post_init__(self) -> None:
        """Check the options."""
        check_restarts(self.restarts)
        check.one_of("order", self.order, ["random", "sequential"])

    def why_not(self, problem: Problem) -> str | None:
        """Sums only."""
        return only_sums(problem)

    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """Sweep from each start until beliefs stand still; keep the best."""
        graph, streams = problem.graph, rng.spawn(self.restarts)

        def one(restart: int, deadline: float) -> Run[MeanFieldState]:
            start = starting_beliefs(problem, restart, streams[restart], self.name)
            return descend_naive(graph, start, self.order, streams[restart], budget, deadline)

        best = best_of(self.restarts, one, budget)
        beliefs = best.state.marginals
        return best.result(
            self.name,
            Marginals(graph.variables, beliefs),
            FactorMarginals(graph, product_tables(graph, beliefs)),
        )


def descend_naive(
    graph: FactorGraph,
    beliefs: np.ndarray,
    order: str,
    rng: np.random.Generator,
    budget: Budget,
    deadline: float,
) -> Run[MeanFieldState]:
    """Sweep over the variables from these beliefs."""

    def sweep(state: MeanFieldState) -> tuple[MeanFieldState, float]:
        n = len(graph.variables)
        return _sweep(graph, state, rng.permutation(n) if order == "random" else np.arange(n))

    start = MeanFieldState(beliefs, free_energy.mean_field(graph, beliefs))
    return descend(start, sweep, budget, deadline, MeanField.name)


def _sweep(graph: FactorGraph, state: MeanFieldState, order: np.ndarray) -> tuple[MeanFieldState, float]:
    from ...kernels import mean_field as kernel

    w, beliefs = graph.wiring, state.marginals.copy()
    change = kernel.sweep(
        order,
        graph.log_tables,
        w.table_start,
        w.scope_start,
        w.scope,
        w.edge_factor,
        w.edge_stride,
        w.neighbour_start,
        w.neighbour_edge,
        w.state_start,
        beliefs,
    )
    return MeanFieldState(beliefs, free_energy.mean_field(graph, beliefs)), float(change)


def product_tables(graph: FactorGraph, beliefs: np.ndarray) -> np.ndarray:
    """Factor beliefs of independent variables: the product of the marginals of each scope."""
    from ...kernels import mean_field as kernel

    w = graph.wiring
    edges = np.arange(len(w.scope))
    # Each edge is a piece of its own, whose table is the variable's belief.
    states = np.arange(w.edge_state_start[-1]) + np.repeat(
        w.state_start[w.scope] - w.edge_state_start[:-1], w.sizes[w.scope]
    )
    return kernel.factor_products(
        w.edge_state_start,
        edges,
        np.ones(len(edges), dtype=np.int64),
        np.ones(len(edges), dtype=bool),
        np.concatenate([[0], np.cumsum(w.table_size)]).astype(np.int64),
        w.scope_start,
        w.scope,
        w.edge_stride,
        w.sizes,
        beliefs[states],
    )
