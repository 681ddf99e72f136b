r"""Maxima between two layers of units, for many problems with the same weights: joint ones, and of one layer.

Joint maxima pass messages (`layer_messages.layer_maxima`). Of one layer, with the other summed, all units go
at once to the better state given the others; the gain of unit i is a product over the other layer of

    (1 + e^W o_j) / (1 + o_j)   where it was off,      (1 + o_j) e^W / (e^W + o_j)   where it was on

with o_j the odds of unit j given the states as they were.
"""

from __future__ import annotations

import numpy as np

from .jit import jit, parallel, prange
from .layer_messages import layer_maxima

__all__ = ["layer_climbs", "layer_joint_maxima"]


@jit
def _climb(weights, raw, left, right, states, best, odds, beliefs, flush, limit, one, sweeps):
    """Coordinate ascent of all units at once from zeros; the sweeps until states stood still, or all."""
    m, n = weights.shape
    top = -np.inf
    for turn in range(sweeps + 1):
        value = 0.0
        for i in range(m):
            if states[i] > 0:
                value += left[i]
        for j in range(n):
            inside = right[j]
            for i in range(m):
                if states[i] > 0:
                    inside += raw[i, j]
            value += max(inside, 0.0) + np.log1p(np.exp(-abs(inside)))
            odds[j] = np.exp(min(max(inside, -limit), limit))
        if value > top:
            top = value
            best[:] = states
        if turn == sweeps:
            break
        moved = False
        for i in range(m):
            total = left[i]
            for begin in range(0, n, flush):
                product = one
                if states[i] > 0:
                    for j in range(begin, min(begin + flush, n)):
                        product *= (one + odds[j]) * weights[i, j] / (weights[i, j] + odds[j])
                else:
                    for j in range(begin, min(begin + flush, n)):
                        product *= (one + weights[i, j] * odds[j]) / (one + odds[j])
                total += np.log(product)
            beliefs[i] = total
        for i in range(m):
            new = one if beliefs[i] > 0.0 else one - one
            moved = moved or new != states[i]
            states[i] = new
        if not moved:
            return turn + 1
    return sweeps


@parallel
def layer_climbs(weights, raw, left, right, flush, limit, one, sweeps, blocks, best):
    """Fills `best` (problems, m) with the best states of the left layer that were met; numbers of sweeps."""
    count = len(left)
    m, n = weights.shape
    done = np.empty(count, np.int64)
    for block in prange(blocks):
        states, odds = np.empty(m, weights.dtype), np.empty(n, weights.dtype)
        beliefs = np.empty(m)
        for b in range(block * count // blocks, (block + 1) * count // blocks):
            states[:] = 0.0
            done[b] = _climb(
                weights, raw, left[b], right[b], states, best[b], odds, beliefs, flush, limit, one, sweeps
            )
    return done


@parallel
def layer_joint_maxima(raw, left, right, sweeps, tol, blocks, beliefs):
    """Max-product on every problem; fills `beliefs` (problems, units) and returns the last changes."""
    count = len(left)
    m, n = raw.shape
    last, done = np.empty(count), np.empty(count, np.int64)
    for block in prange(blocks):
        logs = np.empty((m, n), raw.dtype)
        for b in range(block * count // blocks, (block + 1) * count // blocks):
            logs[:] = 0.0
            own = beliefs[b]
            own[:m] = left[b]
            own[m:] = right[b]
            changes = layer_maxima(raw, logs, left[b], right[b], own, sweeps, tol)
            last[b], done[b] = changes[-1], len(changes)
    return last, done
