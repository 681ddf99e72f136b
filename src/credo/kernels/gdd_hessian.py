r"""Second derivatives of powered sums by shifts of their tables.

A region has a table over x_1 ... x_c in the order of elimination, weights w_k > 0, partial sums Z_k and the
belief mu of `powered`. With a_j(u | t) the probability of a state u of some of its variables given the
states t of x_{j+1} ... x_c, and delta a shift of the table by a function of u,

    d^2 Z_c / d delta d delta' = 1/w_1 sum_x mu(x) 1_u 1_u'
        + sum_{j=1}^{c-1} (1/w_{j+1} - 1/w_j) sum_t mu(t) a_j(. | t) a_j(. | t)^T  -  1/w_c a_c a_c^T

which for equal weights is the covariance of the indicators over w. It is positive semidefinite, and zero
along constants: a shift by one moves the value alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .gdd import AXIS, AXIS_END, CLUSTER, EDGE, EDGE_END, MAP, SHIFT, SIZE, TABLE, TAIL

__all__ = ["region_hessian", "shift_hessian"]


def region_hessian(
    table: np.ndarray, sizes: Sequence[int], weights: np.ndarray, entries: np.ndarray
) -> np.ndarray:
    """The second derivatives of one region's powered sum, (columns, columns).

    Parameters
    ----------
    table, sizes, weights
        Flat log table, the axis eliminated first in front; states and positive weight of each axis.
    entries
        (len(table), columns): by how much each shift moves each entry, zeros and ones.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.kernels.gdd_hessian import region_hessian
    >>> region_hessian(np.log([0.25, 0.75]), [2], np.ones(1), np.eye(2))
    array([[ 0.1875, -0.1875],
           [-0.1875,  0.1875]])
    """
    levels = [np.asarray(table, dtype=np.float64)]
    for size, weight in zip(sizes, weights, strict=True):
        parts = levels[-1].reshape(size, -1)
        top = parts.max(axis=0)
        safe = np.where(top > -np.inf, top, 0.0)
        with np.errstate(divide="ignore"):
            levels.append(safe + weight * np.log(np.exp((parts - safe) / weight).sum(axis=0)))
    chances = []  # of the first variable given those behind it
    for before, after, size, weight in zip(levels, levels[1:], sizes, weights, strict=False):
        safe = np.where(after > -np.inf, after, 0.0)
        chances.append(np.exp((before.reshape(size, -1) - safe) / weight))
    mu = [np.ones(1)]  # of the variables from some place on
    for chance in chances[::-1]:
        mu.append((chance * mu[-1]).ravel())
    steps = np.diff(1.0 / np.asarray(weights), prepend=0.0, append=0.0)
    given, total = np.asarray(entries, dtype=np.float64), np.zeros((entries.shape[1],) * 2)
    for j, (step, belief) in enumerate(zip(steps, mu[::-1], strict=True)):
        if step != 0.0:
            total += step * (given.T * belief) @ given
        if j < len(chances):
            wide = given.reshape(sizes[j], -1, given.shape[1])
            given = np.einsum("kt,ktu->tu", chances[j], wide)
    return total


def shift_hessian(
    regions: np.ndarray, separators: np.ndarray, edges: np.ndarray, maps: np.ndarray, axis_size: np.ndarray,
    weight: np.ndarray, tables: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """The second derivatives of the bound of `gdd` by all shifts; all weights are positive."""
    degree = separators[:, EDGE_END] - separators[:, EDGE]
    states = np.repeat(separators[:, SIZE], degree)
    total = np.zeros((int(states.sum()),) * 2)

    def add(region: np.ndarray, where: np.ndarray, entries: np.ndarray) -> None:
        axes = slice(int(region[AXIS]), int(region[AXIS_END]))
        table = tables[region[TABLE] : region[TABLE] + region[SIZE]]
        total[np.ix_(where, where)] += region_hessian(table, axis_size[axes].tolist(), weight[axes], entries)

    for row in separators[degree > 0]:
        some = np.arange(row[EDGE], row[EDGE_END])
        where = (edges[some, SHIFT][:, None] + np.arange(row[SIZE])).ravel()
        add(row, where, np.tile(np.eye(row[SIZE]), len(some)))
    for cluster in np.unique(edges[:, CLUSTER]):
        region = regions[cluster]
        some = np.flatnonzero(edges[:, CLUSTER] == cluster)
        where = np.concatenate([edges[e, SHIFT] + np.arange(states[e]) for e in some])
        add(
            region, where, np.concatenate([_indicators(edges[e], maps, int(states[e])) for e in some], axis=1)
        )
    return total


def _indicators(edge: np.ndarray, maps: np.ndarray, states: int) -> np.ndarray:
    """Which state of the separator every entry of the cluster's table belongs to."""
    tail = maps[edge[MAP] : edge[MAP] + edge[TAIL]]
    return np.eye(states)[np.tile(tail, edge[SIZE] // edge[TAIL])]
