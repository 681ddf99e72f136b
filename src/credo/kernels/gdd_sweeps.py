r"""Sweeps of block descent: the shifts of every separator, then the weights of every variable.

The bound rises with a weight at the rate of the conditional entropy H_k of the variable in that region. With
the mean Hbar = sum_k w_k H_k / tau the weights of one variable follow

    w_k <- w_k exp( - pace (H_k - Hbar) ),    raised to the floor, scaled to sum to tau,

the step being shortened until the terms that hold the variable have fallen, and given up if they do not.
"""

from __future__ import annotations

import numpy as np

from .gdd import AXIS, AXIS_END, SIZE, TABLE, region_term
from .gdd_shifts import shift_block
from .jit import jit
from .powered import powered_beliefs, powered_levels

__all__ = ["gdd_sweep", "weight_block"]

_TRIALS = 8  # shortenings of a step on the weights
_FASTEST, _SLOWEST = 50.0, 1e-3  # range of the remembered paces
_STEEP = 30.0  # largest exponent of one step


@jit
def weight_block(
    regions,
    axis_size,
    weight,
    tables,
    paces,
    i,
    first,
    last,
    entry_region,
    entry_axis,
    floor,
    sizes,
    axes,
    room,
):
    """Share the temperature of variable i better among its regions, if the bound falls by it."""
    heat = 0.0
    for k in range(first, last):
        heat += weight[entry_axis[k]]
    if heat <= 0.0 or last - first < 2:
        return
    levels, belief, trial = room[sizes[0] : sizes[1]], room[sizes[1] : sizes[2]], room[sizes[2] : sizes[3]]
    old, gain = room[sizes[7] : sizes[8]], room[sizes[8] : sizes[9]]
    value, mean = 0.0, 0.0
    for k in range(first, last):
        r, q = entry_region[k], entry_axis[k]
        at, size, begin, end = regions[r, TABLE], regions[r, SIZE], regions[r, AXIS], regions[r, AXIS_END]
        for n in range(size):
            levels[n] = tables[at + n]
        top = powered_levels(levels, 0, size, axis_size, weight, begin, end)
        value += levels[top]
        powered_beliefs(levels, 0, size, axis_size, weight, begin, end, belief, axes[1])
        gain[k - first] = axes[1, q]
        old[k - first] = weight[q]
        mean += weight[q] * axes[1, q] / heat
    pace = 2.0 * paces[i]
    for _ in range(_TRIALS):
        total = 0.0
        for k in range(first, last):
            new = old[k - first] * np.exp(min(-pace * (gain[k - first] - mean), _STEEP))
            new = max(new, floor * heat)
            weight[entry_axis[k]] = new
            total += new
        found = 0.0
        for k in range(first, last):
            weight[entry_axis[k]] *= heat / total
        for k in range(first, last):
            found += region_term(regions[entry_region[k]], axis_size, weight, tables, trial)
        if found < value:
            paces[i] = min(pace, _FASTEST)
            return
        pace /= 4
    for k in range(first, last):
        weight[entry_axis[k]] = old[k - first]
    paces[i] = max(pace, _SLOWEST)


@jit
def gdd_sweep(
    regions, separators, edges, axis_size, maps, members, entry_start, entry_region, entry_axis,
    weight, tables, shifts, steps, paces, order, variables, inner, floor, sizes,
):  # fmt: skip
    """One block for every separator in `order`, then one for the weights of each of `variables`."""
    axes, room = np.empty((2, len(axis_size))), np.empty(sizes[-1])
    for s in order:
        shift_block(
            separators[s],
            edges,
            axis_size,
            weight,
            maps,
            members,
            tables,
            shifts,
            steps,
            s,
            inner,
            sizes,
            axes,
            room,
        )
    for i in variables:
        weight_block(
            regions, axis_size, weight, tables, paces, i, entry_start[i], entry_start[i + 1],
            entry_region, entry_axis, floor, sizes, axes, room,
        )  # fmt: skip
