"""Mini-bucket tables as a heuristic for search: bounds on every partial assignment.

Search assigns variables in the reverse of the elimination order. Once all variables of rank >= k
have states x, the best (or summed) completion is at most

    constant  +  sum of theta_c(x_c) over the mini-buckets c of rank >= k
              +  sum of message_c(x) over those of rank < k whose parent has rank >= k

(a message without a parent is a constant, and counts whenever its mini-bucket's rank is < k). When the
variable i of rank k is about to be assigned, the part that depends on its state is the sum over the
mini-buckets c of its bucket of psi_c(x_i, other variables): psi holds theta and the children's messages.

Tables are those of `MiniBuckets`: axis 0 of table c is its own variable, with step message_size[c]; the other
axes follow by rank, with steps `buckets.stride`; message c has the same axes without the first.

Forward matching (iterations = 0: MBE-MM) already makes a strong heuristic; each iteration of `wmb` shifts
costs further. Shifts move costs among the tables of `theta`, which still add up to the model: g(x) must
therefore be taken from `theta`, not from the factors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...kernels.mini_buckets import partial_value
from ...structures.mini_buckets import MiniBuckets
from ..base import Budget, Problem
from .bucket_passes import BucketPasses, Tables
from .wmb import WMB

__all__ = ["BucketHeuristic", "bucket_heuristic"]


@dataclass(frozen=True)
class BucketHeuristic:
    """Tables of the tightest bound found."""

    passes: BucketPasses  # mini-buckets, kernels' layout
    tables: Tables  # theta, weight, psi, message and the bound on the whole problem

    @property
    def buckets(self) -> MiniBuckets:
        """Who meets whom."""
        return self.passes.buckets

    @property
    def constant(self) -> float:
        """Of factors with empty scopes; part of every bound."""
        return self.passes.constant

    def bound(self, states: np.ndarray, rank: int) -> float:
        """Upper bound given the states of all variables of rank >= `rank`: 0 scores, n bounds everything."""
        buckets, tables = self.buckets, self.tables
        value = partial_value(
            self.passes.layout,
            buckets.scope,
            tables.theta,
            tables.message,
            np.ascontiguousarray(states, dtype=np.int64),
            rank,
        )
        return self.constant + float(value)


def bucket_heuristic(
    problem: Problem,
    *,
    ibound: int = 10,
    max_table: int = 2**16,
    iterations: int = 10,
    seconds: float | None = None,
) -> BucketHeuristic:
    """Mini-bucket tables with moment matching, improved by iterations of weighted mini-bucket.

    Stops early when the bound no longer moves, or after `seconds`. Raises `problem.contradiction()` when
    the bound proves that there is no possible state.
    """
    budget = Budget(max_iter=iterations + 1, tol=_STILL, seconds=seconds)
    method = WMB(ibound=ibound, max_table=max_table)
    state = method.run(problem, budget, np.random.default_rng(0)).state
    return BucketHeuristic(state.passes, state.best)


_STILL = 1e-6  # relative change of the bound that is not worth another iteration
