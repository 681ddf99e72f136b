"""Which limits to split buckets by: the ones asked for, or somewhat lower ones that bound better.

Buckets are split greedily, so larger mini-buckets need not contain the smaller ones, and their bound may be
looser, before and after all costs are shifted. A pass that shifts costs on its way mostly tells which will
end tighter, and a few passes to and fro nearly always; these are for tables so small that nobody waits.
Lower limits cost a fraction. Where time runs out, the limits asked for are taken untried.
"""

from __future__ import annotations

import numpy as np

from ...core.result import Status
from ...optimise.run import Stopped, is_ending, planning
from ..problem.base import Problem
from .bucket_passes import Bound, BucketPasses, bucket_passes, first_weights, heat_after
from .bucket_weights import reweigh

__all__ = ["tightest_passes"]

_PLANNING = 0.8  # share of the time left that may go by before a choice is made
_LOWER = 2  # limits below the one asked for that are tried
_ROUNDS, _SMALL = 10, 2**16  # passes to and fro after the first, where tables have fewer entries
_SHARE, _RATE, _FLOOR = 0.5, 2.5, 0.002  # of the way to agreement, of weight updates, of a temperature


def tightest_passes(
    problem: Problem,
    ibound: int | None,
    max_entries: int,
    bound: Bound = "upper",
    *,
    most: float = 2.0**21,
    free: bool = False,
    matching: bool = True,
    once: bool = False,
) -> BucketPasses:
    """The mini-buckets that bound best: by `once` one pass, or by a few; `matching` if they shift costs.

    The other arguments are those of `bucket_passes`.
    """
    with planning(_PLANNING):
        found = bucket_passes(problem, ibound, max_entries, most=most, free=free)
        joined, entries = found.limits
        tried = [found]
        for k in range(1, _LOWER + 1):
            if is_ending():
                break
            lower = (joined, entries >> k) if ibound is None else (joined - k, entries)
            if found.buckets.is_exact or min(lower) < 1:
                break
            tried.append(bucket_passes(problem, *lower, free=free))
        if len(tried) == 1 or is_ending():
            return found
        rounds = 0 if once or len(found.theta) >= _SMALL else _ROUNDS
        sign = 1.0 if bound == "upper" else -1.0
        values: list[float] = []
        try:
            for passes in tried:
                values.append(sign * _early_value(passes, bound, rounds, matching=matching))
        except Stopped as cut:
            if cut.status is not Status.OUT_OF_TIME:
                raise
        return tried[values.index(min(values))] if values else found


def _early_value(passes: BucketPasses, bound: Bound, rounds: int, *, matching: bool) -> float:
    """The best bound of the first pass and of some rounds after it."""
    weight = first_weights(passes, bound, split=matching)
    step = 1.0 if matching else 0.0
    tables, _ = passes.forward(passes.theta, weight, None, None, step, bound, gradient=False)
    values = [tables.value]
    for k in range(rounds):
        if not np.isfinite(tables.value) or is_ending():
            break
        context, entropy, _ = passes.backward(tables, heat_after(k))
        weight = reweigh(passes, tables.weight, entropy, _RATE, _FLOOR, lower=bound == "lower")
        theta, message = tables.theta, tables.message
        tables, _ = passes.forward(theta, weight, message, context, _SHARE, bound, gradient=False)
        values.append(tables.value)
    return min(values) if bound == "upper" else max(values)
