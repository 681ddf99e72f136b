"""The binary join tree: what an elimination order becomes before it is executed.

Every factor is a leaf; every inner tensor is the product of two others, possibly with variables
eliminated (see `kernels/join_plan.py`). Its size is known before anything is allocated:
`entries` tensor entries have to be stored, `operations` multiplications done for one upward pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..core.factor_graph import FactorGraph
from .elimination import EliminationOrder, free_scopes

__all__ = ["JoinTree", "join_tree"]

_LARGEST_PLAN = 46.0  # log2 of the largest table for which sizes are still counted as integers


@dataclass(frozen=True)
class JoinTree:
    """Steps and tensors of a binary join tree over a factor graph of given state counts."""

    sizes: np.ndarray  # states per variable
    state_start: np.ndarray  # (n + 1,) first flat state per variable
    scope_start: np.ndarray  # factor scopes without one-state variables
    scope: np.ndarray  # variables of the factors, one factor after another
    left: np.ndarray  # (steps,) first operand
    right: np.ndarray  # (steps,) second operand, -1 for none
    drop_start: np.ndarray  # (steps + 1,) slices of `drop`
    drop: np.ndarray  # variables eliminated from each product
    start: np.ndarray  # (tensors + 1,) slices of `axes`
    axes: np.ndarray  # variables of every tensor, in layout order
    offset: np.ndarray  # (tensors + 1,) where each tensor lies in the arena
    lonely: np.ndarray  # variables to eliminate that no factor mentions
    kept: np.ndarray  # variables that are not eliminated

    @property
    def n_leaves(self) -> int:
        """Number of leaves, one per factor."""
        return len(self.scope_start) - 1

    @property
    def entries(self) -> int:
        """Entries of all tensors together, and the neutral element."""
        return int(self.offset[-1])

    @cached_property
    def peak_entries(self) -> int:
        """Entries at the worst moment: all tensors, two adjoints, and one step's operands permuted."""
        size = np.diff(self.offset)
        other = np.where(self.right >= 0, size[self.right], 0)
        step = size[self.left] + other + size[self.n_leaves :]
        return self.entries + 2 * int(size.max(initial=0)) + int(step.max(initial=0))

    @cached_property
    def roots(self) -> np.ndarray:
        """Tensors no step consumes."""
        used = np.zeros(len(self.start) - 1, dtype=bool)
        used[self.left] = True
        used[self.right[self.right >= 0]] = True
        return np.flatnonzero(~used)

    @cached_property
    def operations(self) -> float:
        """Multiplications of one upward pass: the size of every step's joint scope."""
        size = np.diff(self.offset).astype(np.float64)[self.n_leaves :]
        states = np.log(self.sizes[self.drop].astype(np.float64))
        summed = np.diff(np.concatenate([[0.0], np.cumsum(states)])[self.drop_start])
        return float((size * np.exp(summed)).sum())

    @cached_property
    def home(self) -> np.ndarray:
        """For each variable an edge of the smallest factor that mentions it, -1 for none."""
        arity = np.diff(self.scope_start)
        factor = np.repeat(np.arange(self.n_leaves), arity)
        size = np.diff(self.offset)[: self.n_leaves]
        home = np.full(len(self.sizes), -1, dtype=np.int64)
        by_size = np.argsort(-size[factor], kind="stable")
        home[self.scope[by_size]] = by_size  # the smallest factor is written last
        return home


def join_tree(
    graph: FactorGraph,
    order: EliminationOrder,
    levels: np.ndarray,
    keep: tuple[int, ...] = (),
    *,
    absorb: bool = True,
) -> JoinTree:
    """The binary join tree of an order; the variables in `keep` are not eliminated.

    Within a level variables may be eliminated out of their turn; the order must go by rising level. Factors
    are multiplied into those that contain them first, or, without `absorb`, when their variables' turn comes.
    """
    from ..kernels.join_plan import layouts, steps_of_order

    if order.log2_largest > _LARGEST_PLAN:
        raise OverflowError("the tables of this order are too large to be planned")
    kept = np.array(keep, dtype=np.int64)
    sizes = graph.variables.sizes
    scope_start, scope = free_scopes(graph)
    rank = _rank_with_kept_last(order, kept)
    left, right, drop_start, drop, start, axes, lonely = steps_of_order(
        rank, levels, sizes, scope_start, scope, len(sizes) - len(kept), absorb
    )
    ordered, entries = layouts(left, right, drop_start, drop, start, axes, sizes, graph.n_factors, rank)
    offset = 1 + np.concatenate([[0], np.cumsum(entries)])
    return JoinTree(
        sizes,
        graph.variables.state_start,
        scope_start,
        scope,
        left,
        right,
        drop_start,
        drop,
        start,
        ordered,
        offset.astype(np.int64),
        np.flatnonzero(lonely),
        kept,
    )


def _rank_with_kept_last(order: EliminationOrder, kept: np.ndarray) -> np.ndarray:
    is_kept = np.zeros(len(order.order), dtype=bool)
    is_kept[kept] = True
    sequence = np.concatenate([order.order[~is_kept[order.order]], kept])
    rank = np.empty(len(sequence), dtype=np.int64)
    rank[sequence] = np.arange(len(sequence))
    return rank
