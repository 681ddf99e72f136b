r"""The convergent minimiser of the region free energy, on beliefs of regions.

Tables, maps and logarithms are those of `regions.py`. Roots alpha have counting number one, all other
regions beta are inner:

    F(Q) = sum_alpha <log Q_alpha - theta_alpha> + sum_beta c_beta <log Q_beta>

The concave part (c_beta < 0) is replaced by its tangent at the last Q_beta, which leaves a convex
problem above F that touches it there; that is solved by exact coordinate ascent on its dual, one
inner region after another:

    M_alpha = sum_{x_alpha \ x_beta} Q_alpha - lambda_{beta,alpha}              (logs)
    log Q_beta = ( sum_alpha M_alpha + tangent_beta ) / ( n_beta + max(c_beta, 0) )
    lambda_{beta,alpha} = log Q_beta - M_alpha

so F never rises from one tangent to the next.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .jit import jit
from .regions import IMPOSSIBLE, largest_table, log_marginal, normalise, top_of

__all__ = ["RegionPairs", "descend"]


class RegionPairs(NamedTuple):
    """All regions, and the roots above each inner one."""

    table_start: np.ndarray  # (regions + 1,)
    is_root: np.ndarray  # (regions,)
    inner: np.ndarray  # regions that are no roots
    start: np.ndarray  # (inner + 1,) slices of the pairs (inner region, root above it)
    root: np.ndarray  # (pairs,)
    to_map: np.ndarray  # (pairs,) where the map from the root's table to the inner one begins
    message_start: np.ndarray  # (pairs + 1,)
    maps: np.ndarray  # all index maps


@jit
def _ascend(eager, counting, p, tangent_at, messages, logs, work):
    """One pass of dual coordinate ascent over the inner regions; the largest disagreement.

    With `eager` the tangents touch at the present beliefs instead of `tangent_at`, and changes of
    beliefs count as well.
    """
    weights, mean, sent = work
    worst = 0.0
    for b in range(len(p.inner)):
        r = p.inner[b]
        c = counting[r]
        at_r = p.table_start[r]
        small = p.table_start[r + 1] - at_r
        for y in range(small):
            mean[y] = 0.0
            if c < 0:
                mean[y] = -c * (logs[at_r + y] if eager else tangent_at[at_r + y])
        for k in range(p.start[b], p.start[b + 1]):
            a, at = p.root[k], p.message_start[k]
            first = p.table_start[a]
            size = p.table_start[a + 1] - first
            table = logs[first : first + size]
            top = top_of(table, size)
            if top == -np.inf:
                return IMPOSSIBLE
            total = 0.0
            for x in range(size):
                weights[x] = np.exp(table[x] - top)
                total += weights[x]
            up = sent[k - p.start[b]]
            log_marginal(table, weights, top, size, p.to_map[k], p.maps, small, up)
            shift = top + np.log(total)
            for y in range(small):
                up[y] -= shift
                worst = max(worst, abs(np.exp(up[y]) - np.exp(logs[at_r + y])))
                up[y] = up[y] - messages[at + y] if messages[at + y] > -np.inf else -np.inf
                mean[y] += up[y]
        power = p.start[b + 1] - p.start[b] + max(c, 0)
        for y in range(small):
            mean[y] = mean[y] / power
        if normalise(mean, small) == -np.inf:
            return IMPOSSIBLE
        for k in range(p.start[b], p.start[b + 1]):
            at, to = p.message_start[k], p.to_map[k]
            first = p.table_start[p.root[k]]
            size = p.table_start[p.root[k] + 1] - first
            up = sent[k - p.start[b]]
            level = -np.inf
            for y in range(small):
                up[y] = mean[y] - up[y] if mean[y] > -np.inf else -np.inf
                level = max(level, up[y])
            for y in range(small):
                fresh = up[y] - level
                # What is added to the root's table; excluded entries are excluded there too.
                up[y] = fresh - messages[at + y] if fresh > -np.inf else -np.inf
                messages[at + y] = fresh
            for x in range(size):
                logs[first + x] += up[p.maps[to + x]]
        for y in range(small):
            if eager:
                worst = max(worst, abs(np.exp(mean[y]) - np.exp(logs[at_r + y])))
            logs[at_r + y] = mean[y]
    return worst


@jit
def descend(eager, counting, theta, p, messages, tangent_at, logs, count, tol):
    """Up to `count` passes over the inner regions; the disagreement met in each.

    `theta` holds the tables of the roots with every factor shared out, `messages` the multipliers,
    `tangent_at` log beliefs of all regions: where tangents touch and where the beliefs of the inner
    regions start. `logs` receives the new log beliefs. Without `eager` this is one outer step of the
    double loop; with it, tangents move in every pass: a single loop without a guarantee, which often
    settles ten times sooner. Stops below `tol` or when nothing is possible (IMPOSSIBLE).
    """
    largest, most = largest_table(p.table_start), 1
    for b in range(len(p.inner)):
        most = max(most, p.start[b + 1] - p.start[b])
    work = (np.empty(largest), np.empty(largest), np.empty((most, largest)))
    for r in range(len(p.is_root)):
        for x in range(p.table_start[r], p.table_start[r + 1]):
            logs[x] = theta[x] if p.is_root[r] else tangent_at[x]
    for b in range(len(p.inner)):
        for k in range(p.start[b], p.start[b + 1]):
            first = p.table_start[p.root[k]]
            for x in range(p.table_start[p.root[k] + 1] - first):
                logs[first + x] += messages[p.message_start[k] + p.maps[p.to_map[k] + x]]
    changes = np.zeros(count)
    done = 0
    while done < count:
        changes[done] = _ascend(eager, counting, p, tangent_at, messages, logs, work)
        done += 1
        if not changes[done - 1] >= tol:
            break
    for r in range(len(p.is_root)):
        if p.is_root[r]:
            normalise(logs[p.table_start[r] : p.table_start[r + 1]], p.table_start[r + 1] - p.table_start[r])
    return changes[:done]
