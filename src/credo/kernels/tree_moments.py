"""Moments of a rooted forest of discrete variables, and slopes of functions of them.

A forest is given by its variables outwards from the roots (`outward`, roots left out), the variable above
each (`up`, -1 for roots) and the table that links the two (`link`). Tables lie flat, from `first[a]`, with
the states of variable `low[a]` on the slow axis. `belief` holds p_i, `joint` holds p_ij of the linking
tables.

For two variables that no table links, the joint is that of the path k = v_0, v_1, ..., v_L = l between them,

    p_kl = sum p_01 p_12 / p_1 p_23 / p_2 ...,

so its slopes by the moments on the path are conditional expectations: for a function g of (x_k, x_l),

    d <p_kl, g> / d p_{t,t+1} = E[g | x_t, x_{t+1}],      d <p_kl, g> / d p_t = -E[g | x_t]   (0 < t < L).
"""

from __future__ import annotations

import numpy as np

from .jit import jit

__all__ = ["best_states", "covariances", "far_joints", "far_slopes"]

_TINY = 1e-280  # smaller probabilities are zero: their quotients have no digits left


@jit
def _entry(a, i, x_i, j, x_j, low, sizes, first):
    """Position of the entry (x_i, x_j) in the table that links i and j."""
    if low[a] == i:
        return first[a] + x_i * sizes[j] + x_j
    return first[a] + x_j * sizes[i] + x_i


@jit
def _find_path(one, other, up, depth, path):
    """Write the variables from one to the other into `path`; returns how many."""
    i, j, count, back = one, other, 0, 0
    while i != j:
        if depth[i] >= depth[j]:
            path[count] = i
            count += 1
            i = up[i]
        else:
            back += 1
            j = up[j]
    path[count] = i
    j = other
    for q in range(count + back, count, -1):
        path[q] = j
        j = up[j]
    return count + back + 1


@jit
def _reach(source, i, j, up, link, low, sizes, state_start, first, belief, joint, out):
    """p(s | x_i) from p(s | x_j) along the link i - j: out[s, x_i] = sum_j source[s, x_j] p(x_j | x_i)."""
    a = link[i] if up[i] == j else link[j]
    out[:] = 0.0
    for x_i in range(sizes[i]):
        mass = belief[state_start[i] + x_i]
        if mass > _TINY:
            for x_j in range(sizes[j]):
                share = joint[_entry(a, i, x_i, j, x_j, low, sizes, first)] / mass
                for s in range(source.shape[0]):
                    out[s, x_i] += share * source[s, x_j]


@jit
def far_joints(far, ends, up, link, depth, low, sizes, state_start, first, belief, joint):
    """Fill the tables of the factors `far`, whose two variables are not linked, with their joints."""
    widest = sizes.max() if len(sizes) else 1
    path = np.empty(len(sizes), np.int64)
    here, there = np.empty((widest, widest)), np.empty((widest, widest))
    for a in far:
        k, m = ends[a, 0], ends[a, 1]
        count = _find_path(k, m, up, depth, path)
        here[:] = np.eye(widest)
        for q in range(count - 2, -1, -1):
            i, j = path[q], path[q + 1]
            _reach(here, i, j, up, link, low, sizes, state_start, first, belief, joint, there)
            here[:] = there
        for x in range(sizes[k]):
            for y in range(sizes[m]):
                joint[first[a] + x * sizes[m] + y] = belief[state_start[k] + x] * here[y, x]


@jit
def far_slopes(
    far, ends, up, link, depth, low, sizes, state_start, first, belief, joint, node_slope, table_slope
):
    """Move the slopes of the tables `far` to the variables and linking tables on their paths.

    The slopes of the tables `far` are read and kept; the others are added to.
    """
    widest = sizes.max() if len(sizes) else 1
    path = np.empty(len(sizes), np.int64)
    pull = np.empty((len(sizes), widest, widest))  # E[g(x_k, .) | x_t] by (x_k, x_t), from the far end
    left, there = np.empty((widest, widest)), np.empty((widest, widest))
    for a in far:
        k, m = ends[a, 0], ends[a, 1]
        count = _find_path(k, m, up, depth, path)
        pull[count - 1] = 0.0
        for x in range(sizes[k]):
            for y in range(sizes[m]):
                pull[count - 1, x, y] = table_slope[first[a] + x * sizes[m] + y]
        for q in range(count - 2, -1, -1):
            i, j = path[q], path[q + 1]
            _reach(pull[q + 1], i, j, up, link, low, sizes, state_start, first, belief, joint, there)
            pull[q] = there
        left[:] = np.eye(widest)  # p(x_k | x_t)
        for q in range(count - 1):
            i, j = path[q], path[q + 1]
            e = link[i] if up[i] == j else link[j]
            for x in range(sizes[i]):
                for y in range(sizes[j]):
                    total = 0.0
                    for s in range(sizes[k]):
                        total += left[s, x] * pull[q + 1, s, y]
                    table_slope[_entry(e, i, x, j, y, low, sizes, first)] += total
                if q > 0:
                    total = 0.0
                    for s in range(sizes[k]):
                        total += left[s, x] * pull[q, s, x]
                    node_slope[state_start[i] + x] -= total
            _reach(left, j, i, up, link, low, sizes, state_start, first, belief, joint, there)
            left[:] = there


@jit
def covariances(
    outward, up, link, low, sizes, state_start, first, belief, joint, node_slope, table_slope, node_out,
    table_out
):  # fmt: skip
    """Derivatives by log weights of a function with these slopes by the moments of the forest.

    With G(x) the sum of the slopes at x, they are p_i (E[G | x_i] - E[G]) and p_ij (E[G | x_i, x_j] - E[G]):
    one pass inwards that gathers what lies below each variable, and one outwards.
    """
    n = len(sizes)
    widest = sizes.max() if len(sizes) else 1
    below = node_slope.copy()  # own slope and the expected slopes of all that hangs below
    above = np.zeros((n, widest))  # expected slopes below i given the state of the variable above i
    for q in range(len(outward) - 1, -1, -1):
        i = outward[q]
        p, a = up[i], link[i]
        for y in range(sizes[p]):
            mass, total = belief[state_start[p] + y], 0.0
            if mass > _TINY:
                for x in range(sizes[i]):
                    at = _entry(a, i, x, p, y, low, sizes, first)
                    if joint[at] > 0.0:
                        total += joint[at] / mass * (table_slope[at] + below[state_start[i] + x])
            above[i, y] = total
            below[state_start[p] + y] += total
    whole = below.copy()  # E[G | x_i]; right at the roots, completed outwards
    mean = np.zeros(n)
    for i in range(n):
        if up[i] < 0:
            for x in range(sizes[i]):
                mean[i] += belief[state_start[i] + x] * whole[state_start[i] + x]
    for q in range(len(outward)):
        i = outward[q]
        p, a = up[i], link[i]
        mean[i] = mean[p]
        for x in range(sizes[i]):
            mass, total = belief[state_start[i] + x], 0.0
            for y in range(sizes[p]):
                at = _entry(a, i, x, p, y, low, sizes, first)
                if joint[at] > 0.0:
                    here = (
                        whole[state_start[p] + y] - above[i, y] + table_slope[at] + below[state_start[i] + x]
                    )
                    table_out[at] = joint[at] * (here - mean[i])
                    total += joint[at] * here
                else:
                    table_out[at] = 0.0
            whole[state_start[i] + x] = total / mass if mass > _TINY else 0.0
    for i in range(n):
        for k in range(state_start[i], state_start[i + 1]):
            node_out[k] = belief[k] * (whole[k] - mean[i])


@jit
def best_states(outward, up, link, low, sizes, state_start, first, belief, joint, states):
    """Decode the best joint state of a forest from its max-marginals; ties go to the first state."""
    for i in range(len(sizes)):
        if up[i] < 0:
            states[i] = np.argmax(belief[state_start[i] : state_start[i + 1]])
    for i in outward:
        p, a = up[i], link[i]
        best, top = 0, -np.inf
        for x in range(sizes[i]):
            value = joint[_entry(a, i, x, p, states[p], low, sizes, first)]
            if value > top:
                best, top = x, value
        states[i] = best
