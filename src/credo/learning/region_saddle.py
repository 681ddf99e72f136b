r"""Learning on a region free energy: beliefs and weights move by turns towards a saddle point.

    max over theta  min over b    mean over rows of theta(x)  +  F_R(b; theta)  +  what regions disagree by

The beliefs b are those of a network, or free logits, that goes on from where it was for some steps each time
the weights are to move. Then, with the beliefs held, the slope by theta is

    mean over rows of the indicators of x  -  sum over regions R that hold the factor of  c_R b_R

with the counting numbers c_R of F_R. Where regions agree this is what `gradient=marginals` takes after a
whole run of inference; here no run is finished, and nothing is projected. The value is that of the beliefs at
hand: it neither rises for sure nor bounds the likelihood, which `credo.log_likelihood` tells by exact
inference.

Source: Liu, Thobaben and Rasmussen (2019).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.factor_graph import FactorGraph
from ..core.records import record
from ..data.table import StateTable
from ..inference.problem.base import Budget, Problem
from .log_linear import StatisticsSource
from .table_sources import impossible_row

__all__ = ["RegionSaddle"]


@record("region saddle", kept=("rng", "_state"))
@dataclass
class RegionSaddle(StatisticsSource):
    """Scores of complete rows, less what beliefs under way say of log Z."""

    graph: FactorGraph  # the structure
    method: Any  # a minimiser of a region free energy
    steps: int  # of the beliefs per evaluation
    rng: np.random.Generator  # of the first network
    _state: Any = None  # of the beliefs

    @property
    def memory(self) -> tuple[RegionSaddle]:  # type: ignore[override]
        """What evaluations change."""
        return (self,)

    def evaluate(self, scores: np.ndarray, batch: StateTable) -> tuple[float, np.ndarray]:
        """Move the beliefs, then hold them."""
        graph = self.graph.with_states(self.graph.variables, scores, self.graph.table_start)
        counts = batch.table_counts(graph)
        seen = counts > 0
        total = float(counts[seen] @ scores[seen])
        if total == -np.inf:
            raise impossible_row(graph, batch, scores)
        problem = Problem.about(graph, warm=self._state)
        found = self.method.lower(problem, Budget(max_iter=self.steps, tol=0.0), self.rng)
        self._state = found.state
        return total / batch.total - found.log_z, counts / batch.total - found.slopes
