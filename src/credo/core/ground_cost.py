r"""What it costs to move mass from one point to another: a matrix, or two clouds of points and a distance.

    euclidean   |x - y|
    squared     |x - y|^2
    a function  (n, d), (m, d) -> (n, m)

Clouds are kept as points, and the matrix is made a block of rows at a time, so that 10^5 points against 10^5
need no 10^10 numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .errors import DataError, OptionError
from .numbers import float_array
from .records import register

__all__ = ["GroundCost"]

_NAMES = ("euclidean", "squared")
_WIDE = 32  # coordinates from which products of matrices are quicker than differences
_BLOCK = 1 << 19  # entries of a block of rows: it fits into a cache


@register("ground cost", fields=["matrix", "x", "y", "kind"])
@dataclass(frozen=True, eq=False)
class GroundCost:
    """The costs between n and m points.

    Examples
    --------
    >>> from credo.core.ground_cost import GroundCost
    >>> GroundCost.of([[0.0], [3.0]], [[4.0]]).block(slice(0, 2)).tolist()
    [[4.0], [1.0]]
    """

    matrix: np.ndarray | None  # (n, m), where it is given
    x: np.ndarray | None = None  # (n, d)
    y: np.ndarray | None = None  # (m, d)
    kind: str | Callable[[np.ndarray, np.ndarray], Any] = "euclidean"  # of points

    @staticmethod
    def of(x: Any, y: Any, cost: Any = "euclidean") -> GroundCost:
        """Checked costs: of clouds `x`, `y` with a name or a function, or a matrix `cost` without clouds."""
        if isinstance(cost, str) and cost not in _NAMES:
            raise OptionError(f"cost: expected one of {list(_NAMES)}, a function or a matrix, got {cost!r}")
        if x is None and y is None:
            if isinstance(cost, str) or callable(cost):
                raise DataError(
                    f"transport: expected points, or a matrix of costs, got cost={cost!r:.60} alone"
                )
            return GroundCost(_finite("cost", cost, 2))
        if x is None or y is None:
            raise DataError("transport: expected two clouds of points, got one")
        if not (isinstance(cost, str) or callable(cost)):
            raise DataError(
                "transport: expected points with the name or the function of a cost, or a matrix alone"
            )
        clouds = _cloud("x", x), _cloud("y", y)
        if clouds[0].shape[1] != clouds[1].shape[1]:
            raise DataError(
                "transport: expected points of one dimension, "
                f"got {clouds[0].shape[1]} and {clouds[1].shape[1]}"
            )
        return GroundCost(None, *clouds, cost)

    @property
    def shape(self) -> tuple[int, int]:
        """How many points there are on either side."""
        if self.matrix is not None:
            return self.matrix.shape[0], self.matrix.shape[1]
        assert self.x is not None and self.y is not None
        return len(self.x), len(self.y)

    @cached_property
    def _centred(self) -> tuple[np.ndarray, np.ndarray]:
        """The clouds around their common mean: products of far points would drown their distances."""
        assert self.x is not None and self.y is not None
        middle = 0.5 * (self.x.mean(axis=0) + self.y.mean(axis=0))
        return self.x - middle, self.y - middle

    @property
    def flipped(self) -> GroundCost:
        """The same with rows and columns exchanged."""
        kind = self.kind
        turned = kind if isinstance(kind, str) else lambda x, y: np.asarray(kind(y, x)).T
        return GroundCost(None if self.matrix is None else self.matrix.T, self.y, self.x, turned)

    def between(self, rows: np.ndarray, columns: np.ndarray) -> GroundCost:
        """Those between some of the points."""
        if self.matrix is not None:
            return GroundCost(self.matrix[np.ix_(rows, columns)])
        assert self.x is not None and self.y is not None
        return GroundCost(None, self.x[rows], self.y[columns], self.kind)

    def block(self, rows: Any) -> np.ndarray:
        """The costs of some rows, a slice or numbers, (rows, m)."""
        if self.matrix is not None:
            return self.matrix[rows]
        if not isinstance(self.kind, str):
            assert self.x is not None and self.y is not None
            made = _finite("cost", self.kind(self.x[rows], self.y), 2)
            if made.shape != (len(self.x[rows]), len(self.y)):
                expected = (len(self.x[rows]), len(self.y))
                raise DataError(
                    f"cost: expected a matrix of shape {expected} from the function, got {made.shape}"
                )
            return made
        x, y = self._centred[0][rows], self._centred[1]
        if x.shape[1] < _WIDE:
            from scipy.spatial.distance import cdist

            return np.asarray(cdist(x, y, "euclidean" if self.kind == "euclidean" else "sqeuclidean"))
        squares = (x**2).sum(axis=1)[:, None] + (y**2).sum(axis=1) - 2.0 * (x @ y.T)
        np.maximum(squares, 0.0, out=squares)
        return np.sqrt(squares, out=squares) if self.kind == "euclidean" else squares

    def slope(self, rows: slice, plan: np.ndarray) -> np.ndarray | None:
        """Sum over j of plan_ij d cost_ij / d x_i, (rows, d); None where the cost is no distance by name."""
        if self.x is None or self.y is None or not isinstance(self.kind, str):
            return None
        x = self.x[rows]
        if self.kind == "squared":
            return 2.0 * (plan.sum(axis=1)[:, None] * x - plan @ self.y)
        away = self.block(rows)
        share = np.divide(
            plan, away, out=np.zeros_like(plan), where=away > 0
        )  # no slope between equal points
        return np.asarray(share.sum(axis=1)[:, None] * x - share @ self.y)

    def blocks(self, entries: int = _BLOCK) -> Iterator[slice]:
        """All rows in portions of about so many entries."""
        n, m = self.shape
        size = max(1, entries // m)
        for first in range(0, n, size):
            yield slice(first, min(n, first + size))

    @cached_property
    def reach(self) -> tuple[float, float]:
        """The smallest and the largest cost."""
        parts = [(part.min(), part.max()) for part in map(self.block, self.blocks())]
        return float(min(low for low, _ in parts)), float(max(high for _, high in parts))


def _finite(what: str, value: Any, axes: int) -> np.ndarray:
    found = float_array(what, value, error=DataError)
    if found.ndim != axes or 0 in found.shape:
        raise DataError(
            f"{what}: expected a matrix with rows and columns, got an array of shape {found.shape}"
        )
    if not np.isfinite(found).all():
        raise DataError(f"{what}: expected finite numbers, got {found[~np.isfinite(found)].flat[0]:g}")
    return found


def _cloud(what: str, value: Any) -> np.ndarray:
    found = float_array(what, value, error=DataError)
    return _finite(what, found[:, None] if found.ndim == 1 else found, 2)
