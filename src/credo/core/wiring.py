"""Index arrays: where things lie in the flat arrays of a graph, and what is compiled for its structure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .flat_tables import FlatTables

__all__ = ["Memo", "ShapeGroup", "Wiring", "is_forest_of", "products_of", "starts_of", "strides_of"]


@dataclass(frozen=True)
class ShapeGroup:
    """All factors whose tables have one shape."""

    shape: tuple[int, ...]
    factors: np.ndarray  # positions of the factors
    scopes: np.ndarray  # (count, arity) variable positions
    table_start: np.ndarray  # (count,) where each log table begins


@dataclass(frozen=True)
class Wiring:
    """Index arrays derived from a graph. An edge e joins factor `edge_factor[e]` and variable `scope[e]`."""

    sizes: np.ndarray  # states per variable
    state_start: np.ndarray  # (n + 1,) first flat state of each variable
    scope_start: np.ndarray  # (m + 1,) first edge of each factor
    scope: np.ndarray  # (edges,) variable of each edge
    edge_factor: np.ndarray  # (edges,) factor of each edge
    edge_stride: np.ndarray  # (edges,) step of that variable's axis in the factor's table
    edge_state_start: np.ndarray  # (edges + 1,) first entry of each edge in flat message arrays
    neighbour_start: np.ndarray  # (n + 1,) slices of `neighbour_edge` per variable
    neighbour_edge: np.ndarray  # (edges,) edges around each variable, by factor
    table_start: np.ndarray  # (m,) first entry of each log table
    table_size: np.ndarray  # (m,) entries of each log table

    @classmethod
    def of(cls, graph: FlatTables) -> Wiring:
        """Compile the index arrays of a graph."""
        sizes, scope = graph.variables.sizes, graph.scope
        arity = np.diff(graph.scope_start)
        edge_size = sizes[scope]
        around = np.argsort(scope, kind="stable")
        counts = np.bincount(scope, minlength=len(sizes))
        return cls(
            sizes=sizes,
            state_start=graph.variables.state_start,
            scope_start=graph.scope_start,
            scope=scope,
            edge_factor=np.repeat(np.arange(len(arity), dtype=np.int64), arity),
            edge_stride=strides_of(graph.scope_start, edge_size),
            edge_state_start=starts_of(edge_size),
            neighbour_start=starts_of(counts),
            neighbour_edge=around.astype(np.int64),
            table_start=graph.table_start,
            table_size=graph.table_size,
        )


class Memo(OrderedDict[Hashable, Any]):
    """What algorithms compiled for a structure; the least recently filed entries are dropped."""

    CAPACITY = 32

    def recall(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The value filed under `key`, made now if there is none."""
        if key not in self:
            self[key] = make()
            while len(self) > self.CAPACITY:
                self.popitem(last=False)
        return self[key]


def starts_of(counts: Sequence[int] | np.ndarray) -> np.ndarray:
    """Cumulative sums with a leading zero."""
    counts = np.asarray(counts, dtype=np.int64)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def products_of(start: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Product of `values` over each slice start[a]:start[a+1] (1 for an empty slice)."""
    products = np.ones(len(start) - 1, dtype=values.dtype)
    filled = np.flatnonzero(np.diff(start))
    if len(filled):
        products[filled] = np.multiply.reduceat(values, start[filled])
    return products


def strides_of(start: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """C-order step of each axis: the product of the sizes after it within its slice."""
    stride = np.ones(len(sizes), dtype=np.int64)
    arity = np.diff(start)
    for k in range(1, int(arity.max(initial=0))):
        # Axis number (arity - 1 - k) of every factor with more than k axes.
        at = start[1:][arity > k] - 1 - k
        stride[at] = stride[at + 1] * sizes[at + 1]
    return stride


def is_forest_of(factors: int, variables: int, factor: np.ndarray, variable: np.ndarray) -> bool:
    """Whether so many factors and variables, joined by these edges, form no cycle."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    n = factors + variables
    edges = coo_matrix((np.ones(len(factor)), (variables + factor, variable)), shape=(n, n))
    parts, _ = connected_components(edges, directed=False)
    return bool(len(factor) == n - parts)
