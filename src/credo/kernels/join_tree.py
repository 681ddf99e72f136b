"""Passes over a binary join tree: values up, states down; `join_beliefs.py` has the beliefs.

    T_out(x_out) = op_{x_E} T_left(x_left) T_right(x_right)          (steps in order)

Values are scaled to a maximum of one, the logarithm of the scale is kept per tensor. As long as every
positive entry stays above `SAFE`, no product of two of them can underflow; otherwise the pass reports
UNDERFLOW and the caller repeats it with logarithms. Temperatures other than 0 and 1 need them.
"""

from __future__ import annotations

import numpy as np

from .arrays import copy, subtract_largest
from .contraction import MUL_ADD, MUL_MAX, contract, log_contract, make_workspace, rescale
from .jit import jit

__all__ = [
    "FINE",
    "IMPOSSIBLE",
    "SAFE",
    "UNDERFLOW",
    "ascend",
    "load",
    "load_leaf",
    "locate",
    "permute",
    "steps_in",
    "trace_states",
    "upward",
]

FINE, UNDERFLOW, IMPOSSIBLE = 0, 1, 2
SAFE = 1e-150  # the product of two such numbers is still a normal double


@jit
def permute(source, from_axes, target, to_axes, sizes, work):
    """Copy a table into another axis order."""
    same = True
    for k in range(len(from_axes)):
        same = same and from_axes[k] == to_axes[k]
    if same:
        copy(source, target)
        return
    strides, digit = work[0], work[3][0]
    step = 1
    for k in range(len(from_axes) - 1, -1, -1):
        strides[0, from_axes[k]] = step
        step *= sizes[from_axes[k]]
        digit[k] = 0
    at = 0
    for entry in range(len(target)):
        target[entry] = source[at]
        for k in range(len(to_axes) - 1, -1, -1):
            i = to_axes[k]
            digit[k] += 1
            at += strides[0, i]
            if digit[k] < sizes[i]:
                break
            at -= sizes[i] * strides[0, i]
            digit[k] = 0
    for k in range(len(from_axes)):
        strides[0, from_axes[k]] = 0


@jit
def load(log_tables, table_start, scope_start, scope, start, axes, offset, sizes, logs, arena, scale, work):
    """Put every factor's table into its leaf, scaled to a maximum of one."""
    code = FINE
    largest = 1
    for a in range(len(table_start)):
        largest = max(largest, offset[a + 1] - offset[a])
    scratch = np.empty(largest)
    for a in range(len(table_start)):
        size = offset[a + 1] - offset[a]
        found, scale[a] = load_leaf(
            log_tables[table_start[a] : table_start[a] + size],
            scope[scope_start[a] : scope_start[a + 1]],
            arena[offset[a] : offset[a + 1]],
            axes[start[a] : start[a + 1]],
            sizes,
            logs,
            scratch[:size],
            work,
        )
        if found == IMPOSSIBLE:
            return IMPOSSIBLE
        code = max(code, found)
    return code


@jit
def load_leaf(table, scope, leaf, axes, sizes, logs, values, work):
    """Put one log table into its leaf; returns the code and the logarithm of its scale."""
    top = -np.inf
    for i in range(len(table)):
        top = max(top, table[i])
    if top == -np.inf:
        return IMPOSSIBLE, top
    least = 1.0
    for i in range(len(table)):
        values[i] = table[i] - top if logs else np.exp(table[i] - top)
        if not logs and values[i] < least and table[i] > -np.inf:
            least = values[i]
    permute(values, scope, leaf, axes, sizes, work)
    return UNDERFLOW if least < SAFE else FINE, top


@jit
def upward(
    log_tables,
    table_start,
    scope_start,
    scope,
    left,
    right,
    drop_start,
    drop,
    start,
    axes,
    offset,
    sizes,
    heat,
    logs,
    arena,
):
    """Load the factors and run all steps.

    Parameters
    ----------
    log_tables, table_start, scope_start, scope
        The factors; scopes without one-state variables.
    left, right, drop_start, drop, start, axes, offset
        The tree: steps, the variables each eliminates, tensor axes in layout order, and where each
        tensor lies in the arena.
    sizes, heat
        States and temperature of each variable.
    logs
        Whether to work with logarithms (always safe, slower).
    arena
        Room for all tensors; entry 0 is the neutral element for missing operands.

    Returns
    -------
    code, scale
        FINE, UNDERFLOW or IMPOSSIBLE, and the log scale of every tensor.
    """
    tensors, leaves = len(start) - 1, len(table_start)
    depth = 1
    for t in range(tensors):
        depth = max(depth, start[t + 1] - start[t])
    work = make_workspace(len(sizes), 2 * depth + 2)
    scale = np.zeros(tensors)
    code = load(
        log_tables, table_start, scope_start, scope, start, axes, offset, sizes, logs, arena, scale, work
    )
    if code == FINE:
        code = ascend(
            left, right, drop_start, drop, start, axes, offset, leaves, sizes, heat, logs, arena, scale, work
        )
    return code, scale


@jit
def ascend(left, right, drop_start, drop, start, axes, offset, leaves, sizes, heat, logs, arena, scale, work):
    """All steps of `upward`, once the leaves are loaded; returns the code."""
    arena[0] = 0.0 if logs else 1.0
    unit = axes[:0]
    for s in range(len(left)):
        t, u, out = left[s], right[s], leaves + s
        A, axes_a = arena[offset[t] : offset[t + 1]], axes[start[t] : start[t + 1]]
        C, axes_c = arena[offset[out] : offset[out + 1]], axes[start[out] : start[out + 1]]
        B = arena[0:1] if u < 0 else arena[offset[u] : offset[u + 1]]
        axes_b = unit if u < 0 else axes[start[u] : start[u + 1]]
        temperature = 1.0 if drop_start[s] == drop_start[s + 1] else heat[drop[drop_start[s]]]
        scale[out] = scale[t] + (0.0 if u < 0 else scale[u])
        if logs:
            log_contract(temperature, A, axes_a, B, axes_b, C, axes_c, sizes, work)
            top = subtract_largest(C)
            if top == -np.inf:
                return IMPOSSIBLE
            scale[out] += top
        else:
            contract(MUL_ADD if temperature == 1.0 else MUL_MAX, A, axes_a, B, axes_b, C, axes_c, sizes, work)
            top, least = rescale(C)
            if top == -np.inf:
                return IMPOSSIBLE
            if least < SAFE:
                return UNDERFLOW
            scale[out] += top
    return FINE


@jit
def trace_states(
    left, right, drop_start, drop, start, axes, offset, sizes, heat, logs, arena, uniform, states
):
    """Walk the steps in reverse and choose the eliminated states given those chosen before.

    With `uniform` of shape (rows, steps) states are drawn at random from their conditionals; with no
    columns they are maximised, where the temperature is zero, ties to the lowest index.
    `states` (rows, n) is filled in place; variables that no step eliminates keep their entry.
    """
    sampling = uniform.shape[1] > 0
    for s in range(len(left) - 1, -1, -1):
        gone = drop[drop_start[s] : drop_start[s + 1]]
        if len(gone) == 0 or (not sampling and heat[gone[0]] != 0.0):
            continue
        t, u = left[s], right[s]
        count = 1
        for k in range(len(gone)):
            count *= sizes[gone[k]]
        steps_a = steps_in(axes[start[t] : start[t + 1]], sizes, gone)
        steps_b = steps_in(axes[start[u] : start[u + 1]], sizes, gone) if u >= 0 else np.zeros_like(gone)
        weights = np.empty(count)
        for row in range(len(states)):
            for k in range(len(gone)):
                states[row, gone[k]] = 0
            pa = offset[t] + locate(axes[start[t] : start[t + 1]], sizes, states[row])
            pb = 0 if u < 0 else offset[u] + locate(axes[start[u] : start[u + 1]], sizes, states[row])
            for c in range(count):
                rest, qa, qb = c, pa, pb
                for k in range(len(gone) - 1, -1, -1):
                    digit = rest % sizes[gone[k]]
                    rest //= sizes[gone[k]]
                    qa += digit * steps_a[k]
                    qb += digit * steps_b[k]
                weights[c] = arena[qa] + arena[qb] if logs else arena[qa] * arena[qb]
            chosen = _draw(weights, logs, uniform[row, s]) if sampling else np.argmax(weights)
            for k in range(len(gone) - 1, -1, -1):
                states[row, gone[k]] = chosen % sizes[gone[k]]
                chosen //= sizes[gone[k]]


@jit
def steps_in(axes, sizes, wanted):
    """Step in a tensor of each wanted variable's axis, zero where it has none."""
    steps = np.zeros_like(wanted)
    stride = 1
    for k in range(len(axes) - 1, -1, -1):
        for j in range(len(wanted)):
            if axes[k] == wanted[j]:
                steps[j] = stride
        stride *= sizes[axes[k]]
    return steps


@jit
def locate(axes, sizes, state):
    """Offset of a joint state in a tensor."""
    where, stride = 0, 1
    for k in range(len(axes) - 1, -1, -1):
        where += stride * state[axes[k]]
        stride *= sizes[axes[k]]
    return where


@jit
def _draw(weights, logs, u):
    """Index drawn with probability proportional to the weights, from one uniform number."""
    if logs:
        subtract_largest(weights)
    total = 0.0
    for k in range(len(weights)):
        if logs:
            weights[k] = np.exp(weights[k])
        total += weights[k]
    target, last = u * total, 0
    for k in range(len(weights)):
        if weights[k] > 0.0:
            last = k
            target -= weights[k]
            if target < 0.0:
                return k
    return last
