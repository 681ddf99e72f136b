"""Chains on two layers of units: each layer is drawn at once given the other, by matrices."""

from __future__ import annotations

import numpy as np

from ...core.factor_graph import FactorGraph
from ...core.records import record
from ...kernels.boltzmann import sigmoid
from ...structures.layers import Layers
from .draws import Draws

__all__ = ["LayerEngine"]

_NUMBERS = 2**22  # states made at once


@record("layer chains", kept=("_left", "_right", "_rng"))
class LayerEngine:
    """Chains on two layers of units.

    Parameters
    ----------
    graph, layers
        The model.
    starts
        One draw per chain.
    rng
        The generator of the run.
    """

    def __init__(self, graph: FactorGraph, layers: Layers, starts: Draws, rng: np.random.Generator) -> None:
        self._graph, self._layers, self._rng = graph, layers, rng
        self.begin(starts, 0)
        self.chunk = int(np.clip(_NUMBERS // max(1, starts.states[:, 0].size), 1, 100))

    def begin(self, starts: Draws, turn: int) -> None:
        """Put the chains at other points; the generator goes on."""
        rows = starts.states[:, 0].astype(np.float64)
        self._left, self._right = rows[:, self._layers.left], rows[:, self._layers.right]

    def advance(self, first: int, count: int) -> Draws:
        """Do sweeps and return the state after each."""
        own, parts = self._layers, []
        for _ in range(count):
            self._right = self._drawn(self._left @ own.weights + own.right_fields)
            self._left = self._drawn(self._right @ own.weights.T + own.left_fields)
            parts.append(self._rows())
        return self._draws(np.stack(parts, axis=1))

    def current(self) -> Draws:
        """The state of every chain, as one draw."""
        return self._draws(self._rows()[:, None])

    def divergences(self) -> int:
        """Zero: states are drawn from tables, along no trajectory."""
        return 0

    def notes(self) -> list[str]:
        """What a sweep is."""
        return ["two layers of units: a sweep draws each of them at once, given the other"]

    def _drawn(self, odds: np.ndarray) -> np.ndarray:
        return (self._rng.random(odds.shape) < sigmoid(odds)).astype(np.float64)

    def _rows(self) -> np.ndarray:
        rows = np.zeros((len(self._left), len(self._graph.variables)), dtype=np.int64)
        rows[:, self._layers.left], rows[:, self._layers.right] = self._left, self._right
        return rows

    def _draws(self, states: np.ndarray) -> Draws:
        own = self._layers
        left, right = states[..., own.left], states[..., own.right]
        logs = own.constant + left @ own.left_fields
        logs += ((left @ own.weights + own.right_fields) * right).sum(axis=-1)
        return Draws(states, {}, logs)
