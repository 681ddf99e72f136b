r"""The likelihood of models of any domain, whose scores are graphs.

    l(theta) = (1/N) sum_rows log Z(given what the row has seen; theta) - log Z(theta)

A row that has seen every variable needs its score and no inference, and complete rows are scored together.
The slope is taken by central differences: twice as many runs of inference as numbers are declared, and no
method has to say what its answer does to a function of one factor. Steps are wider where log Z is no exact
number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..core.errors import ImpossibleRowError, ZeroProbabilityError
from ..core.evidence import Evidence
from ..core.factor_graph import FactorGraph
from ..core.variable import Variables
from ..data.dataset import Dataset
from .expectations import Oracle
from .log_linear import StatisticsSource

__all__ = ["HybridLikelihood", "HybridRows"]

_EXACT, _ESTIMATED = 1e-5, 1e-3  # steps of differences


@dataclass(frozen=True)
class HybridRows:
    """Rows of variables of any domain; a variable without a column is hidden."""

    variables: Variables
    data: Dataset  # the rows

    def __len__(self) -> int:
        return self.data.n_rows

    @property
    def total(self) -> float:
        """Sum of the weights of all rows."""
        return float(self.data.row_weights.sum())

    @cached_property
    def missing(self) -> np.ndarray:
        """Which rows lack something, (rows,)."""
        found = np.full(len(self), len(self.data.columns) < len(self.variables))
        for column in self.data.columns:
            found |= column.missing
        return found

    @property
    def is_complete(self) -> bool:
        """Whether no row lacks anything."""
        return not self.missing.any()

    @cached_property
    def whole(self) -> Mapping[str, np.ndarray]:
        """Columns of the rows that lack nothing, by name."""
        return {c.name: c.values[~self.missing] for c in self.data.columns}

    @cached_property
    def partial(self) -> list[tuple[int, dict[str, Any]]]:
        """The other rows: their numbers, and what they have seen."""
        seen = self.data.evidence() if self.missing.any() else []
        return [(int(row), seen[int(row)]) for row in np.flatnonzero(self.missing)]

    def take(self, rows: Any) -> HybridRows:
        """Some of the rows."""
        return HybridRows(self.variables, self.data.take(rows))

    def split(self, fraction: float, rng: np.random.Generator) -> tuple[HybridRows, HybridRows]:
        """Two parts at random, the second with about this fraction of the rows."""
        first, second = self.data.split(fraction, rng)
        return HybridRows(self.variables, first), HybridRows(self.variables, second)

    def batches(self, size: int | None, rng: np.random.Generator) -> Iterator[HybridRows]:
        """Parts of so many rows, in a random order."""
        return (HybridRows(self.variables, part) for part in self.data.batches(size, rng))


class HybridLikelihood(StatisticsSource):
    """Log-likelihood of rows by any method that computes log Z."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle, self.memory = oracle, (oracle,)

    @property
    def step(self) -> float:
        """Of differences: what an estimate of log Z is off by changes from place to place."""
        return _EXACT if self.oracle.kinds <= {"exact"} else _ESTIMATED

    def evaluate(self, scores: FactorGraph, batch: HybridRows) -> tuple[float, None]:
        """The value alone, whose slopes are taken by differences."""
        return self.value(scores, batch), None

    def value(self, scores: FactorGraph, batch: HybridRows) -> float:
        """The mean over the rows of a batch."""
        weights, missing = batch.data.row_weights, batch.missing
        found = 0.0
        if not missing.all():
            each = np.broadcast_to(scores.log_scores(batch.whole), int((~missing).sum()))
            if (each == -np.inf).any():
                raise ImpossibleRowError(int(np.flatnonzero(~missing)[(each == -np.inf).argmax()]))
            found = float(weights[~missing] @ each)
        for row, seen in batch.partial:
            found += weights[row] * self._given(scores, batch, row, seen)
        return found / batch.total - self.oracle.log_z(self.oracle.free(scores))

    def _given(self, graph: FactorGraph, batch: HybridRows, row: int, seen: dict[str, Any]) -> float:
        try:
            return self.oracle.log_z(self.oracle.given(graph, Evidence.of(batch.variables, seen)))
        except ZeroProbabilityError:
            raise ImpossibleRowError(row) from None
