"""Which limits to split buckets by: the ones asked for, or somewhat lower ones that bound better.

Buckets are split greedily, so larger mini-buckets need not contain the smaller ones, and their bound may be
looser, before and after all costs are shifted. One pass that shifts costs on its way tells nearly always
which will end tighter, and lower limits cost a fraction.
"""

from __future__ import annotations

from ..base import Problem
from .bucket_passes import Bound, BucketPasses, bucket_passes, first_weights

__all__ = ["tightest_passes"]

_LOWER = 2  # limits below the one asked for that are tried


def tightest_passes(
    problem: Problem,
    ibound: int | None,
    max_table: int,
    bound: Bound = "upper",
    *,
    most: float = 2.0**21,
    free: bool = False,
    matching: bool = True,
) -> BucketPasses:
    """The mini-buckets whose first pass bounds best; `matching` if that pass shifts costs.

    The other arguments are those of `bucket_passes`.
    """
    found = bucket_passes(problem, ibound, max_table, most=most, free=free)
    joined, entries = found.limits
    tried = [found]
    for k in range(1, _LOWER + 1):
        lower = (joined, entries >> k) if ibound is None else (joined - k, entries)
        if found.buckets.is_exact or min(lower) < 1:
            break
        tried.append(bucket_passes(problem, *lower, free=free))
    if len(tried) == 1:
        return found
    sign = 1.0 if bound == "upper" else -1.0
    return min(tried, key=lambda passes: sign * _first_value(passes, bound, matching=matching))


def _first_value(passes: BucketPasses, bound: Bound, *, matching: bool) -> float:
    weight = first_weights(passes, bound, split=matching)
    step = 1.0 if matching else 0.0
    return passes.forward(passes.theta, weight, None, None, step, bound, gradient=False)[0].value
