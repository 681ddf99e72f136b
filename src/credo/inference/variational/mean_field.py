r"""Naive mean field by coordinate ascent.

The best product q(x) = prod_i b_i(x_i) in the sense of KL(q || p), one variable after another:

    log b_i(x_i) = sum_{a at i} sum_{x_a without x_i} prod_{j in a, j != i} b_j(x_j) theta_a(x_a) + const

Updates are sequential, so the free energy F(b) = -<theta>_q - sum_i H(b_i) never rises, and -F is a
lower bound on log Z at any time. The optimum is local: `restarts` keeps the best of several.

Zeros: F is finite only if q avoids every zero entry. The start does so by construction: variables
that zeros tie together start at one joint state of positive weight, found by search (by exact
inference if the search gives up), and an update gives belief 0 to states that would meet a zero.

Two layers of units, every pair across joined, are updated a layer at once (`layer_mean_field`).

Beliefs of real variables are Gaussian: the closed form where all factors are Gaussian, or are so given states
(`LinearGaussianFactor`), otherwise steps of natural gradient ascent, with expectations by Gauss-Hermite
quadrature (see `hybrid_mean_field`). If every factor with real variables has that form, expectations are
exact and the value is a lower bound that never falls; otherwise it is evaluated again with twice as many
points, and called an estimate.

Cost of a sweep: each table is read once per variable in its scope; a Gaussian factor of k numbers takes k^2
operations, one given states k for each of them; any other factor with k real variables is evaluated at
nodes^k points, some three times per variable.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ...core import check
from ...core.factor_graph import FactorGraph
from ...core.instance import Instance
from ...core.records import record
from ...core.result import FactorMarginals, Marginals, Result
from ...optimise.driver import Outcome
from ...optimise.run import Stopped
from ...structures.layers import dense_layers
from ..problem import free_energy
from ..problem.base import Budget, Problem, register
from ..problem.rows import RowsAlgorithm
from .descent import Descents, starting_beliefs, uniform_beliefs

__all__ = ["MeanField", "MeanFieldState", "product_tables", "state_of", "sweep"]

_PAYS = 256  # pairs of tables from which a layer at once pays


@record("mean-field")
class MeanFieldState(NamedTuple):
    """Where coordinate ascent stands."""

    marginals: np.ndarray  # flat beliefs
    free_energy: float  # of these beliefs


@register
@dataclass(frozen=True, kw_only=True)
class MeanField(RowsAlgorithm):
    """Product of independent marginals, Gaussian ones for real variables; a bound that no sweep lowers."""

    name: ClassVar[str] = "mean-field"
    slopes: ClassVar[bool] = True
    checkpoints: ClassVar[bool] = True
    promises: ClassVar[frozenset[str]] = frozenset({"lower", "monotone", "consistent"})
    warm_starts: ClassVar[bool] = True
    structures: ClassVar[tuple[str, ...]] = ("factorial",)
    restarts: int = 1  # starts; the one with the lowest free energy is kept
    order: Literal["sequential", "random"] = "sequential"  # of the variables within a sweep
    nodes: int = 20  # Gauss-Hermite points per real variable, if there are any

    def __post_init__(self) -> None:
        """Check the options."""
        check.whole("restarts", self.restarts, 1)
        check.one_of("order", self.order, ["random", "sequential"])
        check.whole("nodes", self.nodes, 2)

    def why_not(self, problem: Problem) -> str | None:
        """Factors of few real variables."""
        if problem.graph.is_tables or self.takes_layers(problem):
            return None
        from .continuous_mean_field import why_not

        return why_not(problem, self.nodes)

    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """Sweep from each start until beliefs stand still; keep the best."""
        if self.takes_layers(problem) and (layers := dense_layers(problem.graph)) is not None:
            from .layer_mean_field import LayerProducts

            return LayerProducts(self.name, self.restarts, rng, layers).run(problem, budget)
        if problem.graph.is_tables:
            return _Products(self.name, self.restarts, rng, self.order).run(problem, budget)
        from .continuous_mean_field import run

        return run(problem, budget, rng, self.restarts, self.order, self.nodes)

    def takes_layers(self, problem: Problem) -> bool:
        """Whether two layers of units are updated one after the other: in order, and where that pays."""
        if self.order != "sequential":
            return False
        layers = dense_layers(problem.graph)
        return layers is not None and (bool(problem.graph.others) or layers.weights.size >= _PAYS)

    def why_not_rows(self, instance: Instance) -> str | None:
        """Several chains without zeros."""
        from .factorial import why_not

        return why_not(instance, is_structured=False)

    def run_rows(
        self, instance: Instance, budget: Budget, rng: np.random.Generator, warm: Any = None
    ) -> Result:
        """One belief per chain and step."""
        from .factorial import FactorialDescents

        descents = FactorialDescents(self.name, self.restarts, rng, self.order, None, warm)
        return descents.run(instance, budget)


class _Products(Descents[MeanFieldState]):
    """Descents over independent variables."""

    def __init__(self, name: str, restarts: int, rng: np.random.Generator, order: str) -> None:
        super().__init__(name, restarts, rng)
        self._order = order

    def begin(self, problem: Problem, number: int, rng: np.random.Generator) -> MeanFieldState:
        try:
            beliefs = starting_beliefs(problem, number, rng, self.name)
        except Stopped:
            beliefs = uniform_beliefs(problem)
        return state_of(problem.graph, beliefs)

    def sweep(
        self, problem: Problem, state: MeanFieldState, rng: np.random.Generator
    ) -> tuple[MeanFieldState, float]:
        return sweep(problem.graph, state, self._order, rng)

    def read(self, problem: Problem, outcome: Outcome) -> Result:
        graph, beliefs = problem.graph, outcome.state.marginals
        return replace(
            self.bound(outcome),
            marginals=Marginals(graph.variables, beliefs),
            factor_marginals=FactorMarginals(graph, product_tables(graph, beliefs)),
        )


def state_of(graph: FactorGraph, beliefs: np.ndarray) -> MeanFieldState:
    """Beliefs with their free energy."""
    return MeanFieldState(beliefs, free_energy.mean_field(graph, beliefs))


def sweep(
    graph: FactorGraph, state: MeanFieldState, order: str, rng: np.random.Generator
) -> tuple[MeanFieldState, float]:
    """Update every variable once; the new state, and the largest change of a belief."""
    n = len(graph.variables)
    return _sweep(graph, state, rng.permutation(n) if order == "random" else np.arange(n))


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
    return state_of(graph, beliefs), float(change)


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
