r"""Two layers of units per row of data: what a conditional Boltzmann machine is, given its features.

    p(x, y | row) ∝ exp( left[row]'x + right[row]'y + x'W y )

The weights are shared by all rows, the fields are a row's own. A factor graph is made of one row only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .factor_graph import FactorGraph
from .groups import Bilinear
from .variable import Variables

__all__ = ["LayerRows"]


@dataclass(frozen=True, eq=False)
class LayerRows:
    """Rows of fields of two layers of units with the same weights."""

    weights: np.ndarray  # W, (m, n)
    left: np.ndarray  # (rows, m) fields of the one layer
    right: np.ndarray  # (rows, n) and of the other
    names: tuple[str, str] = ("visible", "hidden")  # of the layers

    def __len__(self) -> int:
        return len(self.left)

    def to_factor_graph(self, row: int = 0) -> FactorGraph:
        """The units of one row: v0, v1, ..., h0, h1, ..."""
        m, n = self.weights.shape
        names = [f"{side[0]}{k}" for side, size in zip(self.names, (m, n), strict=True) for k in range(size)]
        variables, units = Variables.of(dict.fromkeys(names, 2)), np.arange(m + n)
        field = np.concatenate([self.left[row], self.right[row]])
        tables = (units[:, None], np.stack([np.zeros(m + n), field], axis=1))
        layers = [Bilinear(np.array([m + n]), units[None], self.weights)] if n else []
        return FactorGraph.from_arrays(variables, tables, log=True).with_parts(variables, layers)

    def __repr__(self) -> str:
        m, n = self.weights.shape
        return f"LayerRows({len(self)} rows, {m} {self.names[0]} units, {n} {self.names[1]} units)"
