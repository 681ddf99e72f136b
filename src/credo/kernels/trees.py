"""Exact passes over a factor forest, and the bound that reweighted messages certify.

Everything is in logarithms; -inf is a zero and never meets another infinity. A pass is given the
factors with two or more free variables (several states) in an order outwards from the roots, with
the edge that leads from each back towards its root; all other factors are part of `node`.
"""

from __future__ import annotations

import numpy as np

from .arrays import copy
from .jit import jit

__all__ = ["mix_logs", "pass_forest", "product_tables", "reweighted_bound"]


@jit
def _log_sum(values, first, last, heat):
    """Powered sum  heat * log sum exp(values / heat);  the maximum for heat 0."""
    top = -np.inf
    for k in range(first, last):
        top = max(top, values[k])
    if top == -np.inf or heat == 0.0:
        return top
    total = 0.0
    for k in range(first, last):
        total += np.exp((values[k] - top) / heat)
    return top + heat * np.log(total)


@jit
def _reduce_to(values, first, size, stride, count, heat, out, begin):
    """Powered sum of a table over all axes but one; into out[begin : begin + count]."""
    for x in range(count):
        top = -np.inf
        for base in range(first + x * stride, first + size, stride * count):
            for k in range(base, base + stride):
                top = max(top, values[k])
        if top == -np.inf or heat == 0.0:
            out[begin + x] = top
            continue
        total = 0.0
        for base in range(first + x * stride, first + size, stride * count):
            for k in range(base, base + stride):
                total += np.exp((values[k] - top) / heat)
        out[begin + x] = top + heat * np.log(total)


@jit
def _spread(values, first, size, stride, count, source, begin):
    """Add a vector over one axis to a table, in place."""
    for x in range(count):
        term = source[begin + x]
        for base in range(first + x * stride, first + size, stride * count):
            for k in range(base, base + stride):
                values[k] += term


@jit
def pass_forest(
    tables, table_start, table_size, scale, scope_start, scope, edge_stride, sizes, state_start,
    order, parent, heat, node, belief, joint, joint_start,
):  # fmt: skip
    """One pass inwards and one outwards; returns the powered sum (log Z for heat 1, the best for heat 0).

    The forest's log weight is sum_i node_i + sum_a scale_a theta_a. Fills `belief` (per state) and
    `joint[joint_start[a]:...]` (per factor of the forest) with log beliefs whose powered sum is
    zero: log marginals for heat 1. Returns -inf, with unfinished beliefs, if all is impossible.
    """
    copy(node, belief)
    upward = np.empty(len(order) * sizes.max() if len(order) else 1)
    widest = sizes.max() if len(sizes) else 1
    value = 0.0
    is_child = np.zeros(len(sizes), np.bool_)
    for q in range(len(order) - 1, -1, -1):
        a, p = order[q], parent[q]
        first, size = joint_start[a], table_size[a]
        for k in range(size):
            joint[first + k] = scale[a] * tables[table_start[a] + k]
        for e in range(scope_start[a], scope_start[a + 1]):
            i = scope[e]
            if e != p and sizes[i] > 1:
                is_child[i] = True
                _spread(joint, first, size, edge_stride[e], sizes[i], belief, state_start[i])
        i = scope[p]
        begin = q * widest
        _reduce_to(joint, first, size, edge_stride[p], sizes[i], heat, upward, begin)
        top = -np.inf
        for x in range(sizes[i]):
            top = max(top, upward[begin + x])
        if top == -np.inf:
            return -np.inf
        value += top
        for x in range(sizes[i]):
            upward[begin + x] -= top
            belief[state_start[i] + x] += upward[begin + x]
    for i in range(len(sizes)):
        if not is_child[i]:
            norm = _log_sum(belief, state_start[i], state_start[i + 1], heat)
            if norm == -np.inf:
                return -np.inf
            value += norm
            for k in range(state_start[i], state_start[i + 1]):
                belief[k] -= norm
    rest = np.empty(widest)
    for q in range(len(order)):
        a, p = order[q], parent[q]
        first, size = joint_start[a], table_size[a]
        i = scope[p]
        for x in range(sizes[i]):
            # What the root's side says about x: its belief without the message from here.
            own = upward[q * widest + x]
            rest[x] = belief[state_start[i] + x] - own if own > -np.inf else -np.inf
        _spread(joint, first, size, edge_stride[p], sizes[i], rest, 0)
        norm = _log_sum(joint, first, first + size, heat)
        if norm == -np.inf:
            return -np.inf
        for k in range(first, first + size):
            joint[k] -= norm
        for e in range(scope_start[a], scope_start[a + 1]):
            i = scope[e]
            if e != p and sizes[i] > 1:
                _reduce_to(joint, first, size, edge_stride[e], sizes[i], heat, belief, state_start[i])
    return value


@jit
def product_tables(
    links, tables, table_start, table_size, scope_start, scope, edge_stride, sizes, state_start, belief,
    joint, joint_start, norms,
):  # fmt: skip
    """Log of theta_a times the beliefs of its variables, normalised, for each factor of `links`.

    `norms` receives the log of each normaliser; -inf says that the beliefs contradict the factor.
    """
    for a in links:
        first, size = joint_start[a], table_size[a]
        for k in range(size):
            joint[first + k] = tables[table_start[a] + k]
        for e in range(scope_start[a], scope_start[a + 1]):
            i = scope[e]
            if sizes[i] > 1:
                _spread(joint, first, size, edge_stride[e], sizes[i], belief, state_start[i])
        norms[a] = _log_sum(joint, first, first + size, 1.0)
        if norms[a] > -np.inf:
            for k in range(first, first + size):
                joint[k] -= norms[a]


@jit
def mix_logs(old, new, weight):
    """(1 - weight) * old + weight * new with zeros following the new one; returns a new array."""
    out = np.empty(len(new))
    for k in range(len(new)):
        if weight == 1.0 or new[k] == -np.inf or old[k] == -np.inf:
            out[k] = new[k]
        else:
            out[k] = (1.0 - weight) * old[k] + weight * new[k]
    return out


@jit
def reweighted_bound(
    links, tables, table_start, table_size, appearance, scope_start, scope, edge_stride, sizes, state_start,
    edge_state_start, messages, belief, heat,
):  # fmt: skip
    """An upper bound on log Z (or on the maximum, heat 0) from any reweighted messages, converged or not.

    With B_i = exp(belief_i) normalised and g_a = ( psi_a / prod_j M_{a->j} )^(1/rho_a), every forest
    T carries the weight  prod_i B_i prod_{a in T} g_a,  and these average (in logarithms) to the
    model. Eliminating T from its leaves costs at each factor at most the largest

        c_{a,i}(x_i) = sum_{x_a without x_i} g_a(x_a) prod_{j != i} B_j(x_j),

    so log Z <= sum_a rho_a max_{i, x_i} log c_{a,i}(x_i) + (normalisers of B). At a fixed point c is
    constant and the bound is the reweighted free energy itself. States with belief -inf are
    impossible and take no part; `messages` must be finite on all others.
    """
    total = 0.0
    for i in range(len(sizes)):
        norm = _log_sum(belief, state_start[i], state_start[i + 1], heat)
        if norm == -np.inf:
            return -np.inf
        total += norm
        for k in range(state_start[i], state_start[i + 1]):
            belief[k] -= norm
    largest, widest = 1, 1
    for a in links:
        largest = max(largest, table_size[a])
    for i in range(len(sizes)):
        widest = max(widest, sizes[i])
    joint = np.empty(largest)
    shift = np.empty(widest)
    reduced = np.empty(widest)
    for a in links:
        size, alpha = table_size[a], 1.0 / appearance[a]
        for k in range(size):
            joint[k] = alpha * tables[table_start[a] + k]
        for e in range(scope_start[a], scope_start[a + 1]):
            i = scope[e]
            if sizes[i] == 1:
                continue
            for x in range(sizes[i]):
                here = belief[state_start[i] + x]
                shift[x] = here - alpha * messages[edge_state_start[e] + x] if here > -np.inf else -np.inf
            _spread(joint, 0, size, edge_stride[e], sizes[i], shift, 0)
        worst = -np.inf
        for e in range(scope_start[a], scope_start[a + 1]):
            i = scope[e]
            if sizes[i] == 1:
                continue
            _reduce_to(joint, 0, size, edge_stride[e], sizes[i], heat, reduced, 0)
            for x in range(sizes[i]):
                here = belief[state_start[i] + x]
                if here > -np.inf:
                    worst = max(worst, reduced[x] - here)
        if worst == -np.inf:
            return -np.inf
        total += appearance[a] * worst
    return total
