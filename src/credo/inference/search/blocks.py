"""Exact moves of many variables at once.

Holding some of the maximised variables leaves a problem narrow enough for elimination; its solution is
the best that the free variables can do given the held ones, so such a move never loses. Which
variables are held is drawn at random: they cut the model into pieces of a given width.
"""

from __future__ import annotations

import numpy as np

from ...core.errors import ZeroProbabilityError
from ...core.evidence import Restriction
from ...core.factor_graph import FactorGraph
from ...core.variable import Variables
from ...kernels import blocks as kernel
from ...structures.elimination import elimination_order, free_primal_graph
from ...structures.join_tree import join_tree
from ..problem.base import Problem
from ..problem.tree import climb, trace_back

__all__ = ["MoveBlocks"]

_NEAR = 2500  # maximised variables considered at once
_MOST = 8000  # variables of a block; deciding about them is quadratic
_SLACK = 3.0  # by how much (log2) an order may miss the width that was aimed at


class MoveBlocks:
    """Draws and solves blocks of one problem."""

    def __init__(self, problem: Problem, rng: np.random.Generator) -> None:
        self.problem, self._rng = problem, rng
        graph = problem.graph
        primal = free_primal_graph(graph)
        self._start, self._neighbour = primal.start, primal.neighbour
        sizes = graph.variables.sizes
        self._log_size = np.log2(sizes)
        self._maximised = problem.temperatures == 0
        self.movable = np.flatnonzero(self._maximised & (sizes > 1))

    def draw(self, limit: float) -> np.ndarray:
        """Flags of the variables to set free, summed ones included; none if a block would be too large."""
        rng = self._rng
        free = np.zeros(len(self._log_size), dtype=bool)
        centre = int(rng.choice(self.movable))
        members = kernel.nearest(self._start, self._neighbour, centre, self._maximised, _NEAR)
        if len(members) > _MOST:
            return free
        count = len(members)
        far = np.arange(count) / count
        # Compact blocks solve what is local, scattered ones what is spread over the model.
        hold_first = far + rng.random(count) * rng.choice([0.02, 0.3, 3.0])
        noise = np.exp(rng.choice([0.02, 0.2]) * rng.standard_normal(count))
        held = kernel.choose_block(
            self._start,
            self._neighbour,
            self._log_size,
            self.problem.levels,
            self._maximised,
            members,
            noise,
            hold_first,
            limit,
        )
        free[members[~held]] = True
        return kernel.reach(self._start, self._neighbour, free, self._maximised)  # type: ignore[no-any-return]

    def is_everything(self, free: np.ndarray) -> bool:
        """Whether no maximised variable is held."""
        return bool(free[self.movable].all())

    def solve(self, states: np.ndarray, free: np.ndarray, limit: float) -> np.ndarray | None:
        """The best states of the free maximised variables given the others; None if that is too costly.

        Also None where the held states make everything impossible.
        """
        if not free.any():
            return None
        graph = self.problem.graph
        local, part = _part(graph, free)
        held = np.where(free[local], -1, states[local])
        part = Restriction.to_states(part.variables, held).apply(part)
        levels = self.problem.levels[local]
        order = elimination_order(part, "min-fill", levels=levels)
        if order.log2_largest > limit + _SLACK:
            return None
        small = Problem(part, self.problem.temperatures[local], levels)
        tree = join_tree(part, order, levels)
        try:
            up = climb(small, tree)
        except ZeroProbabilityError:
            return None
        found = np.zeros((1, len(local)), dtype=np.int64)
        trace_back(up, small.temperatures, np.empty((1, 0)), found)
        moved = states.copy()
        mine = free[local] & self._maximised[local]
        moved[local[mine]] = found[0][mine]
        return moved


def _part(graph: FactorGraph, free: np.ndarray) -> tuple[np.ndarray, FactorGraph]:
    """The factors around the free variables, over the variables they mention, and who these are."""
    touched = np.zeros(graph.n_factors, dtype=bool)
    touched[graph.wiring.edge_factor[free[graph.scope]]] = True
    part = graph.select(np.flatnonzero(touched))
    mentioned = free.copy()
    mentioned[part.scope] = True
    local = np.flatnonzero(mentioned)
    place = np.cumsum(mentioned) - 1
    variables = Variables.numbered(graph.variables.sizes[local])
    made = FactorGraph.from_flat(
        variables, part.scope_start, place[part.scope], part.log_tables, table_start=part.table_start
    )
    return local, made
