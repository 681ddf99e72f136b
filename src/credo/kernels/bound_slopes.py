r"""Derivatives of bounds with respect to the factors' log tables, weights and shifts held fixed.

A bound that is made of powered sums of tables theta_r, each the sum of the factors at home in r and of
shifts, has the derivative

    d bound / d theta_a(x_a)  =  sum over the rest of mu_r(x_r),        a at home in r,

where mu_r is the joint distribution of the conditionals of r's powered sums. For a mini-bucket it continues
its parent's, for a region of a decomposition it stands alone:

    mu_c(x_c) = mu_parent(x_c without its own variable) exp( (psi_c - Z_c) / w_c ).

At weight zero the conditional is even over the maximisers (minimisers, for a weight that is negative and
nearly zero): one derivative of many, where there are several.
"""

from __future__ import annotations

import numpy as np

from .arrays import copy
from .gdd import AXIS, AXIS_END, SIZE, TABLE
from .jit import inner, jit
from .mini_bucket_tables import entries_of, largest_table
from .powered import TIE, powered_beliefs, powered_levels

__all__ = ["bucket_slopes", "region_slopes"]

_COLD = 1e-12  # weights below are zero: 1 / w of them turns rounding into beliefs


@inner
def _share(psi, message, mass, weight, out):
    """The mass of a message's entries handed to the entries of the table that it is a powered sum of."""
    m = len(message)
    d = len(psi) // m
    for y in range(m):
        top, total = message[y], 0.0
        slack = TIE * max(1.0, abs(top))
        for x in range(d):
            value, share = psi[x * m + y], 0.0
            if mass[y] > 0.0 and value > -np.inf and top > -np.inf:
                if abs(weight) >= _COLD:
                    share = np.exp((value - top) / weight)
                elif (weight >= 0.0 and value >= top - slack) or (weight < 0.0 and value <= top + slack):
                    share = 1.0
            out[x * m + y] = share
            total += share
        for x in range(d):
            out[x * m + y] *= mass[y] / total if total > 0.0 else 0.0


@jit
def bucket_slopes(layout, weight, psi, message, home, link_start, link, first, slopes):
    """The derivative of a bound of mini-buckets by all factors' tables.

    Parameters
    ----------
    layout, weight, psi, message
        The mini-buckets after a forward pass.
    home, link_start, link
        The mini-bucket of each factor, -1 for constants, and the factor's steps along its axes.
    first, slopes
        Where each factor's table lies in `slopes`, which is written.
    """
    where, belief = np.empty(largest_table(layout), np.int64), np.empty(largest_table(layout))
    mass = np.zeros(len(message))
    guests, next_guest = np.full(len(layout.parent), -1, np.int64), np.empty(len(home), np.int64)
    slopes[:] = 0.0
    for a in range(len(home)):
        if home[a] < 0:
            slopes[first[a]] = 1.0
        else:
            next_guest[a], guests[home[a]] = guests[home[a]], a
    for c in range(len(layout.parent) - 1, -1, -1):
        p, q = layout.message_start[c], layout.message_start[c + 1]
        if layout.parent[c] < 0:
            mass[p] = 1.0
        table = psi[layout.table_start[c] : layout.table_start[c + 1]]
        mine = belief[: len(table)]
        _share(table, message[p:q], mass[p:q], weight[c], mine)
        axes = layout.axis_size[layout.scope_start[c] : layout.scope_start[c + 1]]
        for e in range(layout.child_start[c], layout.child_start[c + 1]):
            d = layout.child[e]
            entries_of(where, axes, layout.link[layout.link_start[d] : layout.link_start[d + 1]])
            for t in range(len(mine)):
                mass[layout.message_start[d] + where[t]] += mine[t]
        a = guests[c]
        while a >= 0:
            entries_of(where, axes, link[link_start[a] : link_start[a + 1]])
            for t in range(len(mine)):
                slopes[first[a] + where[t]] += mine[t]
            a = next_guest[a]


@jit
def region_slopes(regions, axis_size, weight, tables, region, steps_start, steps, first, slopes):
    """The derivative of a sum of regions' powered sums by all factors' tables.

    `region[a]` is the region of factor a, -1 for constants, `steps` the factor's step along each axis of it.
    """
    most, widest = 1, 1
    for r in range(len(regions)):
        most = max(most, regions[r, SIZE])
        widest = max(widest, regions[r, AXIS_END] - regions[r, AXIS])
    levels, entropy = np.empty(2 * most + widest), np.empty(len(axis_size))
    belief, where = np.empty(most), np.empty(most, np.int64)
    guests, next_guest = np.full(len(regions), -1, np.int64), np.empty(len(region), np.int64)
    slopes[:] = 0.0
    for a in range(len(region)):
        if region[a] < 0:
            slopes[first[a]] = 1.0
        else:
            next_guest[a], guests[region[a]] = guests[region[a]], a
    for r in range(len(regions)):
        if guests[r] < 0:
            continue
        at, size, begin, end = regions[r, TABLE], regions[r, SIZE], regions[r, AXIS], regions[r, AXIS_END]
        copy(tables[at : at + size], levels[:size])
        powered_levels(levels, 0, size, axis_size, weight, begin, end)
        powered_beliefs(levels, 0, size, axis_size, weight, begin, end, belief, entropy)
        a = guests[r]
        while a >= 0:
            entries_of(where, axis_size[begin:end], steps[steps_start[a] : steps_start[a + 1]])
            for t in range(size):
                slopes[first[a] + where[t]] += belief[t]
            a = next_guest[a]
