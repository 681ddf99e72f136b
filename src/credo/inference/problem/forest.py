"""Exact inference on factor forests of one graph: what tree-based methods do many times.

A factor with at most one variable of several states belongs to every forest; here it is part of
the node terms (or of the constant), and only the other factors, the links, are passed over:

    log weight of forest T  =  constant + sum_i node_i(x_i) + sum_{links a in T} scale_a theta_a(x_a)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core.factor_graph import FactorGraph
from ...core.wiring import starts_of
from ...kernels import trees as kernel
from ...kernels.spanning import rooted_order
from ...kernels.support import supported_states
from ...structures.conversions import table_entries

__all__ = ["ForestPasses", "Passed"]


class Passed(NamedTuple):
    """What one pass found."""

    value: float  # log of the forest's powered sum, without the constant
    belief: np.ndarray  # log beliefs per flat state
    joint: np.ndarray  # log beliefs per table entry, -inf for factors outside the forest


class ForestPasses:
    """The parts of a graph that do not change between passes."""

    def __init__(self, graph: FactorGraph) -> None:
        self.graph = graph
        w = graph.wiring
        free = w.sizes > 1
        several = np.concatenate([[0], np.cumsum(free[w.scope])])
        self.spread = np.diff(several[w.scope_start])  # variables of several states per factor
        self.links = np.flatnonzero(self.spread >= 2)
        self.start = starts_of(w.table_size)  # where each factor begins in dense flat tables
        alone = self.spread == 1
        on_edge = free[w.scope] & alone[w.edge_factor]
        self._alone, self._owner = np.flatnonzero(alone), w.scope[on_edge]
        self.constant = float(graph.log_tables[w.table_start[self.spread == 0]].sum())
        self.node = self._node_terms()

    def _node_terms(self) -> np.ndarray:
        """Log weight per state: the factors that are not links, and -inf for impossible states."""
        graph, w = self.graph, self.graph.wiring
        node = np.zeros(w.state_start[-1])
        which, entry = table_entries(w.sizes[self._owner])
        np.add.at(
            node,
            w.state_start[self._owner][which] + entry,
            graph.log_tables[w.table_start[self._alone][which] + entry],
        )
        return np.where(self.possible, node, -np.inf)

    @property
    def possible(self) -> np.ndarray:
        """One flag per flat state: whether zeros leave it possible."""
        graph = self.graph
        if not len(graph.log_tables) or graph.log_tables.min() > -np.inf:
            return np.ones(graph.variables.state_start[-1], dtype=bool)
        return np.asarray(
            supported_states(
                graph.log_tables,
                graph.table_start,
                graph.scope_start,
                graph.scope,
                graph.variables.state_start,
            )
        )

    @property
    def is_impossible(self) -> bool:
        """Whether zeros leave some variable without a state, or a constant is zero."""
        first = self.graph.variables.state_start[:-1]
        some = np.maximum.reduceat(self.node, first) if len(first) else np.zeros(0)
        return bool(self.constant == -np.inf or (some == -np.inf).any())

    def order(self, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The links of a forest outwards from its roots, and the edge of each towards its root."""
        w = self.graph.wiring
        found: tuple[np.ndarray, np.ndarray] = rooted_order(
            members, w.scope_start, w.scope, w.sizes > 1, w.neighbour_start, w.neighbour_edge, w.edge_factor
        )
        return found

    def run(
        self,
        order: tuple[np.ndarray, np.ndarray],
        node: np.ndarray,
        scale: np.ndarray,
        *,
        heat: float = 1.0,
        tables: np.ndarray | None = None,
    ) -> Passed:
        """Pass inwards and outwards over one forest; `tables` (dense) replace the graph's."""
        graph, w = self.graph, self.graph.wiring
        belief, joint = np.empty(len(node)), np.full(self.start[-1], -np.inf)
        value = kernel.pass_forest(
            graph.log_tables if tables is None else tables,
            w.table_start if tables is None else self.start[:-1],
            w.table_size,
            scale,
            w.scope_start,
            w.scope,
            w.edge_stride,
            w.sizes,
            w.state_start,
            *order,
            heat,
            node,
            belief,
            joint,
            self.start[:-1],
        )
        return Passed(float(value), belief, joint)

    def products(self, tables: np.ndarray, belief: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Normalised log of every link times its variables' beliefs, and the log normalisers."""
        w = self.graph.wiring
        joint, norms = np.full(self.start[-1], -np.inf), np.zeros(len(w.table_size))
        kernel.product_tables(
            self.links, tables, self.start[:-1], w.table_size, w.scope_start, w.scope, w.edge_stride, w.sizes,
            w.state_start, belief, joint, self.start[:-1], norms,
        )  # fmt: skip
        return joint, norms

    def dense_tables(self) -> np.ndarray:
        """All log tables one after another in factor order, shared ones repeated."""
        which, entry = table_entries(self.graph.table_size)
        return self.graph.log_tables[self.graph.table_start[which] + entry]

    def fill(self, tables: np.ndarray, states: np.ndarray) -> np.ndarray:
        """Dense factor probabilities, completed for the factors that are not links."""
        w = self.graph.wiring
        full = tables.copy()
        full[self.start[:-1][self.spread == 0]] = 1.0
        which, entry = table_entries(w.sizes[self._owner])
        full[self.start[self._alone][which] + entry] = states[w.state_start[self._owner][which] + entry]
        return full
