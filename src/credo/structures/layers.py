r"""Two layers of two-state units, every pair across joined and none within: recognised from the graph.

    log weight(x, y) = constant + x'b + y'c + x'W y,      x in {0, 1}^m, y in {0, 1}^n

A restricted Boltzmann machine is such a graph, whatever it is made of: one dense factor, or a table per pair.
Variables with one state, which were observed, are no part of it. All entries must be finite.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.factor_graph import FactorGraph
from ..core.groups import Bilinear

__all__ = ["Layers", "dense_layers"]


@dataclass(frozen=True, eq=False)
class Layers:
    """The log weight of two layers of units as a bilinear form."""

    left: np.ndarray  # (m,) positions of the variables of one layer
    right: np.ndarray  # (n,) and of the other
    weights: np.ndarray  # W, (m, n)
    left_fields: np.ndarray  # b, (m,)
    right_fields: np.ndarray  # c, (n,)
    constant: float  # log weight where all units are 0


def dense_layers(graph: FactorGraph) -> Layers | None:
    """The layers of a graph; None where it is something else.

    Examples
    --------
    >>> import credo
    >>> from credo.structures import dense_layers
    >>> dense_layers(credo.RBM([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]).to_factor_graph()).weights.shape
    (3, 2)
    """
    sizes = graph.variables.sizes
    if not len(sizes) or sizes.min() < 1 or sizes.max() != 2:
        return None
    free = np.flatnonzero(sizes == 2)
    found = _of_factor(graph, free) if graph.others else _of_tables(graph, free)
    if found is None or not np.isfinite(graph.log_tables).all():
        return None
    left, right, weights = found
    place = np.zeros(len(sizes), dtype=np.int64)
    place[left], place[right] = np.arange(len(left)), np.arange(len(right))
    is_left = np.zeros(len(sizes), dtype=bool)
    is_left[left] = True
    fields, constant = np.zeros(len(sizes)), 0.0
    for group in graph.shape_groups:
        logs = graph.log_tables[group.table_start[:, None] + np.arange(int(np.prod(group.shape)))]
        constant += float(logs[:, 0].sum())
        axes = [k for k, states in enumerate(group.shape) if states == 2]
        if not axes:
            continue
        one = group.scopes[:, axes[0]]
        np.add.at(fields, one, logs[:, -1 if len(axes) == 1 else 2] - logs[:, 0])
        if len(axes) == 2:
            two = group.scopes[:, axes[1]]
            np.add.at(fields, two, logs[:, 1] - logs[:, 0])
            swap = ~is_left[one]
            pair = (place[np.where(swap, two, one)], place[np.where(swap, one, two)])
            np.add.at(weights, pair, logs[:, 3] - logs[:, 1] - logs[:, 2] + logs[:, 0])
    return Layers(left, right, weights, fields[left], fields[right], constant)


def _of_factor(graph: FactorGraph, free: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """The layers of one dense factor, beside tables of single variables."""
    if len(graph.others) != 1 or not isinstance(graph.others[0], Bilinear):
        return None
    factor = graph.others[0]
    scope = factor.scopes[0]
    if len(scope) != len(free) or (graph.variables.sizes[scope] != 2).any() or _widest(graph) > 1:
        return None
    left, right = np.split(scope, [len(factor.weights)])
    return left, right, factor.weights


def _of_tables(graph: FactorGraph, free: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """The layers of tables, if every pair across has exactly one and both have two units or more."""
    if _widest(graph) != 2:
        return None
    n = len(graph.variables)
    is_free = graph.variables.sizes[graph.scope] == 2
    arity = np.bincount(graph.wiring.edge_factor[is_free], minlength=graph.n_tables)
    ends = graph.scope[is_free & (arity == 2)[graph.wiring.edge_factor]].reshape(-1, 2)
    degree = np.bincount(ends.ravel(), minlength=n)
    first = int(free[0])
    others = len(free) - int(degree[first])
    if min(degree[first], others) < 2 or len(ends) != degree[first] * others:
        return None
    beside = ends == first
    right = np.sort(ends[beside[:, ::-1]])
    is_right = np.zeros(n, dtype=bool)
    is_right[right] = True
    left = np.array([i for i in free if not is_right[i]], dtype=np.int64)
    crosses = is_right[ends[:, 0]] != is_right[ends[:, 1]]
    codes = np.where(is_right[ends[:, 0]], ends[:, 1] * n + ends[:, 0], ends[:, 0] * n + ends[:, 1])
    if len(right) != degree[first] or not crosses.all() or len(np.unique(codes)) < len(codes):
        return None
    return left, right, np.zeros((len(left), len(right)))


def _widest(graph: FactorGraph) -> int:
    """Most variables with several states that a table has."""
    is_free = graph.variables.sizes[graph.scope] > 1
    found = np.bincount(graph.wiring.edge_factor[is_free], minlength=graph.n_tables)
    return int(found.max(initial=0))
