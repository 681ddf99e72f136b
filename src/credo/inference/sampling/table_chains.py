"""Chains on graphs of tables: compiled sweeps over flat arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.factor_graph import FactorGraph
from ...core.records import record
from .draws import Draws

__all__ = ["TableEngine", "zero_notes"]

_NUMBERS = 2**22  # random numbers made at once


@record("table chains", kept=("_rows", "_has_moved", "_rng"))
class TableEngine:
    """Chains on a graph of tables.

    Parameters
    ----------
    graph
        The graph.
    sweeps
        A kernel that moves every variable of every row, given the arrays of the graph, the rows and as many
        random numbers per variable as `numbers` says.
    numbers
        The shape of the random numbers of one variable.
    starts
        One draw per chain.
    rng
        The generator of the run.
    """

    def __init__(
        self,
        graph: FactorGraph,
        sweeps: Callable[..., Any],
        numbers: tuple[int, ...],
        starts: Draws,
        rng: np.random.Generator,
    ) -> None:
        w = graph.wiring
        self._arrays = (
            graph.log_tables,
            w.table_start,
            w.scope_start,
            w.scope,
            w.edge_factor,
            w.edge_stride,
            w.state_start,
            w.neighbour_start,
            w.neighbour_edge,
        )
        self._graph, self._sweeps, self._numbers, self._rng = graph, sweeps, numbers, rng
        self.begin(starts, 0)
        self.chunk = int(np.clip(_NUMBERS // max(1, self._rows.size), 1, 100))

    def begin(self, starts: Draws, turn: int) -> None:
        """Put the chains at other points; the generator goes on."""
        self._rows = starts.states[:, 0].copy()
        self._has_moved = np.zeros(len(self._graph.variables), dtype=bool)

    def advance(self, first: int, count: int) -> Draws:
        """Do sweeps and return the state after each."""
        shape, before = self._rows.shape, self._rows.copy()
        kept = np.empty((count, *shape), dtype=np.int64)
        uniforms = self._rng.random((count, 1, *shape, *self._numbers))
        for k in range(count):
            self._sweeps(*self._arrays, self._rows, uniforms[k])
            kept[k] = self._rows
        self._has_moved |= (kept != before).any(axis=(0, 1))
        return self._draws(kept.swapaxes(0, 1))

    def current(self) -> Draws:
        """The state of every chain, as one draw."""
        return self._draws(self._rows[:, None].copy())

    def divergences(self) -> int:
        """Zero: states are drawn from tables, along no trajectory."""
        return 0

    def _draws(self, states: np.ndarray) -> Draws:
        from ...kernels.conditionals import row_scores

        chains, count, n = states.shape
        logs = row_scores(*self._arrays[:4], self._arrays[5], states.reshape(chains * count, n))
        return Draws(states, {}, logs.reshape(chains, count))

    def notes(self) -> list[str]:
        """What zeros may have done."""
        stuck = np.flatnonzero(~self._has_moved & (self._graph.variables.sizes > 1))
        return zero_notes(self._graph, [self._graph.variables.names[int(i)] for i in stuck])


def zero_notes(graph: FactorGraph, stuck: list[str]) -> list[str]:
    """A warning if tables have zeros, which moves of one variable may not get around."""
    if not np.isneginf(graph.log_tables).any():
        return []
    never = f"; {stuck[:5]} never moved" if stuck else ""
    return [
        "some weights are zero: moves of one variable may not reach every possible state from a start, and "
        f"chains that are all cut off from a part of the states do not show it{never}"
    ]
