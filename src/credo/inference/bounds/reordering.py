"""Elimination in a free order: an upper bound on marginal MAP that need not keep sums before maxima.

    max_b sum_a f(a, b)  <=  sum_a max_b f(a, b)

and likewise for any two temperatures, the colder one eliminated first (Minkowski's inequality), so
every order of the variables gives an upper bound, and a free order has a smaller width than one that
eliminates sums first. What is still too wide is split into mini-buckets. With all temperatures equal
this is `mini-bucket`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...core import check
from ...core.result import Result
from ..problem.base import Algorithm, Budget, Problem, register
from .mini_bucket import MiniBucket, eliminate

__all__ = ["Reordering"]


@register
@dataclass(frozen=True, kw_only=True)
class Reordering(Algorithm):
    """Mini-bucket elimination along the best order found, whatever the temperatures."""

    name: ClassVar[str] = "reordering"
    promises: ClassVar[frozenset[str]] = frozenset({"upper"})
    slopes: ClassVar[bool] = True
    ibound: int | None = None  # variables of a cluster besides its own; None: as many as fit
    max_entries: int = 2**20  # most entries of a joined table
    matching: bool = False  # shift costs so that the mini-buckets of a bucket agree

    def __post_init__(self) -> None:
        """Check the options."""
        if self.ibound is not None:
            check.whole("ibound", self.ibound, 0)
        check.whole("max_entries", self.max_entries, 1)

    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """One forward pass in the free order."""
        options = MiniBucket(ibound=self.ibound, max_entries=self.max_entries, matching=self.matching)
        return eliminate(options, problem, free=True)
