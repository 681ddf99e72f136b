"""Rows of Bayesian networks with real nodes, as their learner works on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core import check
from ..core.errors import DataError

__all__ = ["NetworkRows"]


@dataclass(frozen=True)
class NetworkRows:
    """Rows of a network: positions of states (-1 missing), numbers (NaN missing), and weights."""

    states: np.ndarray  # (rows, n)
    values: np.ndarray  # (rows, n)
    weights: np.ndarray  # (rows,)

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def is_complete(self) -> bool:
        """Whether no cell is missing."""
        return bool(((self.states >= 0) | ~np.isnan(self.values)).all())

    def split(self, fraction: float, rng: np.random.Generator) -> tuple[NetworkRows, NetworkRows]:
        """Two parts at random, the second with about this fraction of the rows; both have one at least."""
        check.in_range("validation", fraction, 0, 1)
        count = len(self.weights)
        if count < 2:
            raise DataError("validation: expected two rows at least to hold one back, got 1")
        order = rng.permutation(count)
        size = min(max(round(fraction * count), 1), count - 1)
        return self.take(np.sort(order[size:])), self.take(np.sort(order[:size]))

    def take(self, rows: np.ndarray) -> NetworkRows:
        """Some of the rows."""
        return NetworkRows(self.states[rows], self.values[rows], self.weights[rows])
