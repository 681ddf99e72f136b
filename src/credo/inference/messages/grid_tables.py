"""Real variables on grids: points and weights, and the tables of factors there.

    int f(x) dx  ~  sum_k w_k f(x_k),       trapezoid: both ends of the range are points, of half the weight,
                                            midpoint: the points are the middles of equal cells

Factors that share their function, their parameters and the grids of their variables share one table.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.domain import Discrete
from ...core.errors import TooLargeError
from ...core.factor_graph import FactorGraph
from ...core.groups import FactorBatch
from ...core.variable import Variable, Variables
from ...core.wiring import starts_of
from .moments import group_log_values

__all__ = ["Grids", "discretise"]

_AT_ONCE = 1 << 22  # entries evaluated together


@dataclass(frozen=True, eq=False)
class Grids:
    """A range per real variable, and how points lie in it."""

    low: np.ndarray  # (n,) zeros for discrete variables
    high: np.ndarray  # (n,)
    count: int  # points
    rule: str  # trapezoid or midpoint

    def points(self, i: int) -> np.ndarray:
        """The points of variable i."""
        if self.rule == "trapezoid":
            return np.linspace(self.low[i], self.high[i], self.count)
        return self.low[i] + (np.arange(self.count) + 0.5) * self._cell(i)

    def weights(self, i: int) -> np.ndarray:
        """What each point counts for in an integral."""
        weights = np.full(self.count, self._cell(i))
        if self.rule == "trapezoid":
            weights[[0, -1]] *= 0.5
        return weights

    def _cell(self, i: int) -> float:
        cells = self.count - 1 if self.rule == "trapezoid" else self.count
        return float(self.high[i] - self.low[i]) / cells


def discretise(graph: FactorGraph, grids: Grids, summed: np.ndarray, max_entries: float) -> FactorGraph:
    """The graph of tables at the points; one more factor per summed real variable holds its weights."""
    variables = Variables.of([v if v.is_discrete else Variable(v.name, grids.count) for v in graph.variables])
    keys = [_keys(group, grids) for group in graph.batches]
    shapes = [_shape(group, grids) for group in graph.batches]
    total = sum(float(np.prod(shape)) * len(first) for shape, (first, _) in zip(shapes, keys, strict=True))
    if total > max_entries:
        raise TooLargeError(
            f"grid-bp: the tables would have {total:.2g} entries, more than max_entries={max_entries:.2g}; "
            "give fewer points, or low and high, so that equal factors share their tables"
        )
    tables: list[np.ndarray] = []
    start = np.zeros(graph.n_factors, dtype=np.int64)
    used = 0
    for group, shape, (first, which) in zip(graph.batches, shapes, keys, strict=True):
        size = int(np.prod(shape))
        tables += [part.ravel() for part in _tables(graph, group, grids, first, size)]
        start[group.factors] = used + size * which
        used += size * len(first)
    real = [i for i in np.flatnonzero(summed) if not graph.variables[int(i)].is_discrete]
    tables += [np.log(grids.weights(int(i))) for i in real]
    start = np.concatenate([start, used + grids.count * np.arange(len(real))]).astype(np.int64)
    scopes = [*graph.scopes, *(np.array([i]) for i in real)]
    return FactorGraph.from_flat(
        variables,
        starts_of([len(s) for s in scopes]),
        np.concatenate(scopes).astype(np.int64) if scopes else np.empty(0, np.int64),
        np.concatenate(tables) if tables else np.empty(0),
        table_start=start,
    )


def _shape(group: FactorBatch, grids: Grids) -> tuple[int, ...]:
    return tuple(d.size if isinstance(d, Discrete) else grids.count for d in group.domains)


def _keys(group: FactorBatch, grids: Grids) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose tables differ, and for every row the place of its table among these."""
    count = len(group.factors)
    parts = [p.reshape(count, -1).astype(np.float64) for p in group.parameters]
    for axis, domain in enumerate(group.domains):
        if not isinstance(domain, Discrete):
            at = group.scopes[:, axis]
            parts.append(np.stack([grids.low[at], grids.high[at]], axis=1))
    whole = np.concatenate([np.zeros((count, 1)), *parts], axis=1)
    _, first, which = np.unique(whole, axis=0, return_index=True, return_inverse=True)
    return first, which.ravel()


def _tables(
    graph: FactorGraph, group: FactorBatch, grids: Grids, rows: np.ndarray, size: int
) -> list[np.ndarray]:
    """Log tables of some rows of a group, in pieces."""
    step = max(1, _AT_ONCE // size)
    found = []
    for k in range(0, len(rows), step):
        some = rows[k : k + step]
        columns = []
        for axis, domain in enumerate(group.domains):
            if isinstance(domain, Discrete):
                points = np.broadcast_to(np.arange(domain.size), (len(some), domain.size))
            else:
                points = np.stack([grids.points(int(i)) for i in group.scopes[some, axis]])
            shape = [len(some)] + [1] * len(group.domains)
            shape[axis + 1] = points.shape[1]
            columns.append(points.reshape(shape))
        values = group_log_values(graph, group, some, columns)
        found.append(np.broadcast_to(values, (len(some), *_shape(group, grids))))
    return found
