r"""The weights of Boltzmann machines as one vector, and the rows that they learn from.

    scores   W, b + A x, c + B x                 of a batch of rows; without features the biases alone
    pull     dW = pairs,  db = left, dc = right, dA = left'x, dB = right'x

With centring by the offsets m of the visible and l of the hidden units, the slopes are those of a machine
whose units are v - m and h - l, in terms of the biases of this one:

    dW' = dW - m dc' - db l',    db' = db - dW' l,    dc' = dc - dW'' m                 (dW'' the transpose)

so that data and their negative are learned alike. Source: Melchior, Fischer and Wiskott (2016).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import DataError
from ..data.sources import is_table, number_columns

__all__ = ["UnitRows", "UnitScores", "UnitStatistics", "UnitWeights", "log_odds", "unit_table"]


class UnitScores(NamedTuple):
    """What a batch of rows makes of the weights."""

    weights: np.ndarray  # (visible, hidden)
    left: np.ndarray  # (visible,), or (rows, visible) given features
    right: np.ndarray  # (hidden,), or (rows, hidden) given features


class UnitStatistics(NamedTuple):
    """Slopes by the scores, means over the rows."""

    pairs: np.ndarray  # (visible, hidden)
    left: np.ndarray  # (visible,), or (rows, visible)
    right: np.ndarray  # (hidden,), or (rows, hidden)
    offsets: tuple[np.ndarray, np.ndarray] | None = None  # of units, where they are centred


@dataclass(frozen=True, eq=False)
class UnitRows:
    """Rows of visible units, with features where the machine is conditional."""

    v: np.ndarray  # (rows, visible)
    x: np.ndarray | None = None  # (rows, features)

    def __len__(self) -> int:
        return len(self.v)

    @property
    def total(self) -> float:
        """How many rows there are; each counts once."""
        return float(len(self.v))

    def take(self, rows: np.ndarray | slice) -> UnitRows:
        """Some of the rows."""
        return UnitRows(self.v[rows], None if self.x is None else self.x[rows])

    def as_type(self, kind: Any) -> UnitRows:
        """The same rows in one precision."""
        x = None if self.x is None else np.ascontiguousarray(self.x, dtype=kind)
        return UnitRows(np.ascontiguousarray(self.v, dtype=kind), x)

    def batches(self, size: int | None, rng: np.random.Generator) -> Iterator[UnitRows]:
        """Parts of so many rows, in a random order."""
        size = len(self) if size is None else size
        order = rng.permutation(len(self))
        for first in range(0, len(order), size):
            yield self.take(order[first : first + size])


@dataclass(frozen=True, eq=False)
class UnitWeights:
    """Weights of a machine one after another: W, b, c, and A, B of a conditional one."""

    start: np.ndarray  # those of the model given
    shapes: tuple[tuple[int, ...], ...]  # of the parts
    make: Callable[..., Any]  # parts -> a machine of the same kind
    scale: np.ndarray | None = None  # 1 / s^2 of real visible units

    @classmethod
    def of(cls, parts: tuple[np.ndarray, ...], make: Callable[..., Any], scale: Any = None) -> UnitWeights:
        """Those of the parts of a machine."""
        return cls(
            np.concatenate([part.ravel() for part in parts]), tuple(p.shape for p in parts), make, scale
        )

    def as_type(self, kind: Any) -> UnitWeights:
        """The same in one precision."""
        scale = None if self.scale is None else self.scale.astype(kind)
        return UnitWeights(self.start.astype(kind), self.shapes, self.make, scale)

    def parts(self, theta: np.ndarray) -> list[np.ndarray]:
        """Views of the vector."""
        return [theta[a:b].reshape(shape) for (a, b), shape in zip(self._places, self.shapes, strict=True)]

    @cached_property
    def _places(self) -> list[tuple[int, int]]:
        """Where every part begins and ends."""
        return list(pairwise(accumulate(map(math.prod, self.shapes), initial=0)))

    def scores(self, theta: np.ndarray, batch: UnitRows) -> UnitScores:
        """Weights and fields of a batch."""
        weights, b, c, *more = self.parts(theta)
        if not more or batch.x is None:
            return UnitScores(weights, b, c)
        return UnitScores(weights, batch.x @ more[0].T + b, batch.x @ more[1].T + c)

    def pull(self, statistics: UnitStatistics, batch: UnitRows) -> np.ndarray:
        """Slopes by all weights."""
        found = np.empty(len(self.start), self.start.dtype)
        pairs, b, c, *more = self.parts(found)
        left, right = statistics.left, statistics.right
        if left.ndim == 2:
            more[0][:], more[1][:] = left.T @ batch.x, right.T @ batch.x
            left, right = left.sum(axis=0), right.sum(axis=0)
        pairs[:], b[:], c[:] = statistics.pairs, left, right
        if statistics.offsets is not None:
            m, n = statistics.offsets
            pairs -= np.outer(m, right) + np.outer(left, n)
            b -= pairs @ n
            c -= m @ pairs
        if self.scale is not None:
            b *= self.scale
        return found

    def model(self, theta: np.ndarray) -> Any:
        """The machine with these weights."""
        return self.make(*(part.astype(np.float64) for part in self.parts(theta)))


def unit_table(what: str, data: Any, names: Sequence[str] = ()) -> Any:
    """Columns of a table side by side, arrays as they are: at least one row of units."""
    found = number_columns(what, data, names) if is_table(data) else np.asarray(data)
    if found.ndim == 2 and not len(found):
        raise DataError(f"{what}: expected at least one row, got none")
    if found.ndim != 2:
        raise DataError(f"{what}: expected a table of rows of units, got shape {found.shape}")
    return found


def log_odds(v: np.ndarray) -> np.ndarray:
    """Log-odds of the mean of every unit, half a row added on both sides."""
    on, rows = v.sum(axis=0) + 0.5, len(v) + 1.0
    return np.asarray(np.log(on / (rows - on)))
