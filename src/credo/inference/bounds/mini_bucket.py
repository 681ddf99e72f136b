"""Mini-bucket elimination: one pass, bounded tables, a bound at once.

The bucket of a variable is split into mini-buckets of at most `ibound` + 1 variables and `max_entries`
entries. One of them takes the powered sum at the variable's temperature, the others the maximum,

    sum^t_x prod_r f_r(x)  <=  sum^t_x f_1(x)  prod_{r > 1} max_x f_r(x),

or, for a lower bound, the minimum. This is weighted mini-bucket with weights (t, 0, ..., 0). Any
temperatures, in the problem's order. Exact if no bucket is split, which is so once `ibound` reaches the
width; cost: the number of table entries. `factor_marginals` are the derivative of the bound by the log
tables.

With `matching`, costs are shifted within each bucket as it is met, so that its mini-buckets agree on
the variables they share, and the temperature is split evenly (moment matching): usually much tighter at
little more cost. `wmb` goes on from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...core import check
from ...core.result import Estimate, Result, Status
from ..problem.base import Algorithm, Budget, Problem, register
from .bucket_choice import tightest_passes
from .bucket_passes import Bound, finish, first_weights, one_state

__all__ = ["MiniBucket"]

_ENTRIES = 2.0**23  # of all tables where no ibound is given: about a second


@register
@dataclass(frozen=True, kw_only=True)
class MiniBucket(Algorithm):
    """Elimination with split buckets."""

    name: ClassVar[str] = "mini-bucket"
    promises: ClassVar[frozenset[str]] = frozenset({"exact on trees", "upper"})
    slopes: ClassVar[bool] = True
    ibound: int | None = None  # variables of a cluster besides its own; None: as many as fit
    max_entries: int = 2**20  # most entries of a joined table
    matching: bool = False  # shift costs so that the mini-buckets of a bucket agree
    bound: Bound = "upper"  # which side

    def __post_init__(self) -> None:
        """Check the options."""
        if self.ibound is not None:
            check.whole("ibound", self.ibound, 0)
        check.whole("max_entries", self.max_entries, 1)
        check.one_of("bound", self.bound, ["upper", "lower"])

    def why_not(self, problem: Problem) -> str | None:
        """No lower bounds on maxima."""
        return why_not_buckets(problem, self.bound)

    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """One forward pass."""
        return eliminate(self, problem, free=False)


def why_not_buckets(problem: Problem, bound: Bound) -> str | None:
    """Why a bound from below is no question for mini-buckets; None if it is one."""
    if bound == "lower" and (problem.temperatures[problem.graph.variables.sizes > 1] == 0).any():
        return "a maximum is bounded from below by the score of any assignment; ask for bound=upper"
    return None


def eliminate(options: MiniBucket, problem: Problem, *, free: bool) -> Result:
    """Mini-bucket elimination along a constrained or a free order."""
    limits = (options.ibound, options.max_entries)
    passes = tightest_passes(
        problem, *limits, options.bound, most=_ENTRIES, free=free, matching=options.matching, once=True
    )
    weight = first_weights(passes, options.bound, split=options.matching)
    step = 1.0 if options.matching else 0.0
    tables, _ = passes.forward(passes.theta, weight, None, None, step, options.bound, gradient=False)
    value = tables.value
    if not value > -np.inf and options.bound == "upper":
        raise problem.contradiction()
    if options.bound == "lower":
        value = max(value, one_state(problem, passes, tables))
    found = Result(options.name, Status.CONVERGED, log_z=Estimate(value, options.bound))
    return finish(problem, passes, tables, found)
