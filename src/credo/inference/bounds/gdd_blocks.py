"""Sweeps of blocks: one after another, or those that share no term at the same time.

Separators without a common cluster touch different terms of the bound, and so do variables without a common
region. Large models are swept set by set of such blocks, each set split into parts that threads take
one by one: kernels release the interpreter lock. Within a set the order does not matter, so the result
is the same for any number of threads. Small models are swept by one thread in the order of elimination,
which takes about as many sweeps; starting threads would take longer than their work.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ...kernels.gdd import SIZE, add_shifts, bound_of
from ...kernels.gdd_sweeps import gdd_sweep
from .gdd_plan import GDDPlan

__all__ = ["bound_after", "share_out", "sweep_blocks"]

_PARALLEL_FROM = 80_000  # table entries that a sweep visits from which threads pay: some milliseconds
_PARTS, _LEAST = 4, 10_000  # parts per thread, since sums take longer than maxima; entries of a part at least

Changing = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def sweep_blocks(
    plan: GDDPlan,
    changing: Changing,
    inner: int,
    floor: float,
    *,
    backwards: bool = False,
    threads: int | None = None,
) -> None:
    """Lower the shifts of every separator, then the weights of every variable, in place.

    Parameters
    ----------
    plan
        Regions, separators and edges.
    changing
        Weights, tables and shifts; last step per separator and last pace per variable.
    inner
        Steps of a block that has no closed form.
    floor
        Least share of a weight; 0 leaves weights alone.
    backwards
        Whether to go against the order of elimination.
    threads
        How many to use on large models; all cores by default.
    """
    none = np.empty(0, dtype=np.int64)

    def shift(separators: np.ndarray) -> None:
        _run(plan, changing, separators, none, inner, floor)

    def weigh(variables: np.ndarray) -> None:
        _run(plan, changing, none, variables, inner, floor)

    way = -1 if backwards else 1
    if not _is_large(plan):
        shift(np.arange(len(plan.separators))[::way])
        if floor > 0:
            weigh(np.arange(len(plan.single)))
        return
    _in_sets(shift, plan.shift_sets[::way], plan.shift_work, threads)
    if floor > 0:
        _in_sets(weigh, plan.weight_sets, plan.weight_work, threads)


def share_out(plan: GDDPlan, changing: Changing, floor: float, times: int) -> None:
    """Lower the weights of every variable, in place, so many times; shifts stay."""
    none = np.empty(0, dtype=np.int64)
    for _ in range(times):
        _run(plan, changing, none, np.arange(len(plan.single)), 1, floor)


def bound_after(
    plan: GDDPlan,
    base: np.ndarray,
    shifts: np.ndarray,
    weight: np.ndarray,
    tables: np.ndarray,
    threads: int | None = None,
) -> float:
    """Fill `tables` with the original ones after their shifts, and add up the terms of the bound.

    From the original tables: rounding does not add up over the sweeps.
    """
    tables[:] = base
    terms = np.empty(len(plan.regions))

    def move(separators: np.ndarray) -> None:
        add_shifts(separators, plan.separators, plan.edges, plan.maps, shifts, tables)

    def add(regions: np.ndarray) -> None:
        part = slice(int(regions[0]), int(regions[-1]) + 1)
        bound_of(plan.regions[part], plan.axis_size, weight, tables, terms[part])

    everything = np.arange(len(plan.regions))
    if _is_large(plan):
        _in_sets(move, plan.shift_sets, plan.shift_work, threads)
        _in_sets(add, [everything], plan.regions[:, SIZE], threads)
    else:
        move(np.arange(len(plan.separators)))
        if len(everything):
            add(everything)
    return float(terms.sum())


def _is_large(plan: GDDPlan) -> bool:
    return int(plan.shift_work.sum()) >= _PARALLEL_FROM


def _in_sets(
    call: Callable[[np.ndarray], None], sets: list[np.ndarray], work: np.ndarray, threads: int | None
) -> None:
    """Call with every set in turn, split into parts of about as many entries that run at the same time."""
    most = threads or os.cpu_count() or 1
    with ThreadPoolExecutor(most) as pool:
        for members in sets:
            done = np.cumsum(work[members])
            parts = max(1, min(_PARTS * most, int(done[-1]) // _LEAST))
            cuts = np.searchsorted(done, done[-1] * np.arange(1, parts) / parts)
            list(pool.map(call, [part for part in np.split(members, cuts) if len(part)]))


def _run(
    plan: GDDPlan, changing: Changing, separators: np.ndarray, variables: np.ndarray, inner: int, floor: float
) -> None:
    weight, tables, shifts, steps, paces = changing
    gdd_sweep(
        plan.regions, plan.separators, plan.edges, plan.axis_size, plan.maps, plan.members,
        plan.entry_start, plan.entry_region, plan.entry_axis, weight, tables, shifts, steps, paces,
        np.ascontiguousarray(separators), np.ascontiguousarray(variables), inner, floor, plan.room_sizes,
    )  # fmt: skip
