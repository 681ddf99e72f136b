"""Sweeps of blocks: one after another, or those that share no term at the same time.

Separators without a common cluster touch different terms of the bound, and so do variables without a common
region. Large graphs are swept set by set of such blocks, each set split among threads: kernels release
the interpreter lock. Within a set the order does not matter, so the result is the same for any number of
threads. Small graphs follow the order of elimination instead, which carries news further in a sweep.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ...kernels.gdd_sweeps import gdd_sweep
from .gdd_plan import Plan

__all__ = ["sweep_blocks"]

_PARALLEL_FROM = 5000  # separators from which threads pay
_LEAST = 500  # blocks that a thread takes at least

Changing = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def sweep_blocks(
    plan: Plan,
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
        How many to use on large graphs; all cores by default.
    """
    none = np.empty(0, dtype=np.int64)
    variables = np.arange(len(plan.single)) if floor > 0 else none
    if len(plan.separators) < _PARALLEL_FROM:
        order = np.arange(len(plan.separators))
        _run(plan, changing, order[::-1].copy() if backwards else order, variables, inner, floor)
        return
    sets = [(s, none) for s in (plan.shift_sets[::-1] if backwards else plan.shift_sets)]
    sets += [(none, v) for v in plan.weight_sets] if floor > 0 else []
    threads = threads or os.cpu_count() or 1
    with ThreadPoolExecutor(threads) as pool:
        for separators, members in sets:
            parts = max(1, min(threads, (len(separators) + len(members)) // _LEAST))
            jobs = zip(np.array_split(separators, parts), np.array_split(members, parts), strict=True)
            for done in [pool.submit(_run, plan, changing, s, v, inner, floor) for s, v in jobs]:
                done.result()


def _run(
    plan: Plan, changing: Changing, separators: np.ndarray, variables: np.ndarray, inner: int, floor: float
) -> None:
    weight, tables, shifts, steps, paces = changing
    gdd_sweep(
        plan.regions, plan.separators, plan.edges, plan.axis_size, plan.maps, plan.members,
        plan.entry_start, plan.entry_region, plan.entry_axis, weight, tables, shifts, steps, paces,
        np.ascontiguousarray(separators), np.ascontiguousarray(variables), inner, floor, plan.room_sizes,
    )  # fmt: skip
