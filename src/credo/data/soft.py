"""Soft evidence: cells that say how likely what was seen is under each state, instead of naming one.

It is certain evidence about something else: an observed child of the variable, whose state is the number of
the cell's weights and whose factor holds them. So what reads missing values reads soft evidence too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..core.factor_graph import FactorGraph
from ..core.variable import Variable, Variables

__all__ = ["SoftCells"]


@dataclass(frozen=True)
class SoftCells:
    """Soft evidence: the distinct weights of each variable that has some, and which of them each row has."""

    of: tuple[int, ...]  # positions of the variables
    weights: tuple[np.ndarray, ...]  # (distinct, states) of each; the first are all 1 and say nothing
    cells: np.ndarray  # (rows, variables with soft evidence) which weights

    @classmethod
    def of_rows(cls, soft: dict[int, np.ndarray], rows: int) -> SoftCells | None:
        """Tell the distinct weights apart; None without any."""
        found, cells = [], np.zeros((rows, len(soft)), dtype=np.int64)
        for k, weights in enumerate(soft.values()):
            told = ~(weights == 1).all(axis=1)
            distinct, which = np.unique(weights[told], axis=0, return_inverse=True)
            cells[told, k] = which.ravel() + 1
            found.append(np.vstack([np.ones((1, weights.shape[1])), distinct]))
        used = [k for k, distinct in enumerate(found) if len(distinct) > 1]
        if not used:
            return None
        return cls(tuple(list(soft)[k] for k in used), tuple(found[k] for k in used), cells[:, used])

    def take(self, rows: np.ndarray) -> SoftCells:
        """Those of some rows."""
        return replace(self, cells=self.cells[rows])

    def beside(self, graph: FactorGraph) -> tuple[FactorGraph, np.ndarray]:
        """The graph with a child for each of these variables, and the log tables added at its end."""
        sizes = [len(w) for w in self.weights]
        names = [f"{graph.variables.names[i]} (soft evidence)" for i in self.of]
        variables = Variables.of([*graph.variables, *map(Variable, names, sizes)])
        children = np.arange(len(graph.variables), len(variables))
        scope = np.concatenate([graph.scope, np.column_stack([self.of, children]).ravel()])
        ends = graph.scope_start[-1] + 2 * np.arange(1, len(sizes) + 1)
        with np.errstate(divide="ignore"):
            added = np.concatenate([np.log(w.T).ravel() for w in self.weights])
        tables = np.concatenate([np.zeros(int(graph.table_size.sum())), added])
        return FactorGraph.from_flat(
            variables, np.concatenate([graph.scope_start, ends]), scope, tables
        ), added
