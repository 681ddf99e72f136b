r"""The way down a binary join tree: the derivative of the value by every log table.

    adj_left(x_left) = sum over the rest of adj_out T_right      (steps in reverse)
    d Phi / d theta_a(x_a)  =  T_a adj_a   for every leaf (factor) a, normalised

The adjoint of a tensor is its belief g = d Phi / d log T, divided by T; for sums g_a = p(x_a). At another
temperature t than 1 the eliminated variables have the conditional
q(x_E | x_out) = (T_left T_right / T_out)^{1/t}, and with logarithms

    H = t log adj_out + (t - 1) log T_out,
    R(x_left) = t log sum over the rest of exp( (H + log T_right) / t ),
    log adj_left = ( log T_left + R ) / t - log T_left.

At temperature 0 the conditional is the indicator of the first best x_E: the adjoint of x_out goes to that
entry alone, the one that `trace_states` chooses.

An adjoint replaces the value it belongs to as soon as that value is no longer needed, in the form H of the
step that made the value, so one arena holds both passes. All are known up to a factor; a constant added to a
logarithm changes no belief.
"""

from __future__ import annotations

import numpy as np

from .arrays import subtract_largest
from .contraction import MUL_ADD, contract, log_contract, make_workspace, rescale
from .jit import jit
from .join_tree import FINE, SAFE, UNDERFLOW, permute, steps_in

__all__ = ["descend", "downward", "read_marginals"]

_COLD = 1e-12  # temperatures below are zero on the way down: 1 / t of them turns rounding into beliefs


@jit
def downward(left, right, drop_start, drop, start, axes, offset, leaves, sizes, heat, logs, arena):
    """Turn every leaf's value into its (unnormalised) belief; returns FINE or UNDERFLOW."""
    tensors = len(start) - 1
    depth = 1
    for t in range(tensors):
        depth = max(depth, start[t + 1] - start[t])
    work = make_workspace(len(sizes), 2 * depth + 2)
    largest = 1
    for s in range(len(left)):
        t, u = left[s], right[s]
        largest = max(largest, offset[t + 1] - offset[t])
        if u >= 0:
            largest = max(largest, offset[u + 1] - offset[u])
    first, second = np.empty(largest), np.empty(largest)
    return descend(
        left,
        right,
        drop_start,
        drop,
        start,
        axes,
        offset,
        leaves,
        sizes,
        heat,
        logs,
        arena,
        first,
        second,
        work,
    )


@jit
def descend(
    left, right, drop_start, drop, start, axes, offset, leaves, sizes, heat, logs, arena, first, second, work
):
    """`downward` with room for two adjoints and a workspace."""
    tensors = len(start) - 1
    consumed = np.zeros(tensors, np.int8)
    for s in range(len(left)):
        consumed[left[s]] = 1
        if right[s] >= 0:
            consumed[right[s]] = 1
    for t in range(leaves, tensors):
        if not consumed[t]:
            arena[offset[t] : offset[t + 1]] = 0.0 if logs else 1.0
    unit = axes[:0]
    for s in range(len(left) - 1, -1, -1):
        t, u, out = left[s], right[s], leaves + s
        A, axes_a = arena[offset[t] : offset[t + 1]], axes[start[t] : start[t + 1]]
        C, axes_c = arena[offset[out] : offset[out + 1]], axes[start[out] : start[out + 1]]
        B = arena[0:1] if u < 0 else arena[offset[u] : offset[u + 1]]
        axes_b = unit if u < 0 else axes[start[u] : start[u + 1]]
        adj_a, adj_b = first[: len(A)], second[: len(B)]
        gone = drop[drop_start[s] : drop_start[s + 1]]
        temperature = 1.0 if len(gone) == 0 else heat[gone[0]]
        if temperature < _COLD:
            _route(A, axes_a, B, axes_b, C, axes_c, gone, sizes, logs, adj_a, adj_b)
        elif logs:
            log_contract(temperature, C, axes_c, B, axes_b, adj_a, axes_a, sizes, work)
            _cool(A, temperature, adj_a)
            if u >= 0:
                log_contract(temperature, C, axes_c, A, axes_a, adj_b, axes_b, sizes, work)
                _cool(B, temperature, adj_b)
        else:
            contract(MUL_ADD, C, axes_c, B, axes_b, adj_a, axes_a, sizes, work)
            if u >= 0:
                contract(MUL_ADD, C, axes_c, A, axes_a, adj_b, axes_b, sizes, work)
        # Where a leaf is the largest of the three, the other two bound its adjoint sooner than looking at it.
        safe_a = t < leaves and not logs and len(A) > len(B) + len(C) and _least(B) * _least(C) >= SAFE
        safe_b = 0 <= u < leaves and not logs and len(B) > len(A) + len(C) and _least(A) * _least(C) >= SAFE
        if not _replace(A, adj_a, t < leaves, logs, _made_at(t - leaves, drop_start, drop, heat), safe_a):
            return UNDERFLOW
        if u < 0:
            continue
        if not _replace(B, adj_b, u < leaves, logs, _made_at(u - leaves, drop_start, drop, heat), safe_b):
            return UNDERFLOW
    return FINE


@jit
def _made_at(s, drop_start, drop, heat):
    """The temperature of step s; 1 for leaves, products and what is as good as a maximum: adjoints stay."""
    if s < 0 or drop_start[s] == drop_start[s + 1]:
        return 1.0
    temperature = heat[drop[drop_start[s]]]
    return temperature if temperature >= _COLD else 1.0


@jit
def _cool(value, temperature, adjoint):
    """From R to the log adjoint, where the temperature is not 1; what is impossible gets no belief."""
    if temperature == 1.0:
        return
    for i in range(len(value)):
        if value[i] == -np.inf or adjoint[i] == -np.inf:
            adjoint[i] = -np.inf
        else:
            adjoint[i] = (value[i] + adjoint[i]) / temperature - value[i]


@jit
def _route(A, axes_a, B, axes_b, C, axes_c, gone, sizes, logs, adj_a, adj_b):
    """Hand the adjoints of a maximum to the first best states of what was maximised."""
    zero = -np.inf if logs else 0.0
    adj_a[:] = zero
    adj_b[:] = zero
    kept_a, kept_b = steps_in(axes_a, sizes, axes_c), steps_in(axes_b, sizes, axes_c)
    gone_a, gone_b = steps_in(axes_a, sizes, gone), steps_in(axes_b, sizes, gone)
    count = 1
    for k in range(len(gone)):
        count *= sizes[gone[k]]
    for entry in range(len(C)):
        if C[entry] == zero:
            continue
        rest, pa, pb = entry, 0, 0
        for k in range(len(axes_c) - 1, -1, -1):
            digit = rest % sizes[axes_c[k]]
            rest //= sizes[axes_c[k]]
            pa += digit * kept_a[k]
            pb += digit * kept_b[k]
        best, at_a, at_b = -np.inf, pa, pb
        for c in range(count):
            rest, qa, qb = c, pa, pb
            for k in range(len(gone) - 1, -1, -1):
                digit = rest % sizes[gone[k]]
                rest //= sizes[gone[k]]
                qa += digit * gone_a[k]
                qb += digit * gone_b[k]
            value = A[qa] + B[qb] if logs else A[qa] * B[qb]
            if value > best:
                best, at_a, at_b = value, qa, qb
        if logs:
            adj_a[at_a] = _log_add(adj_a[at_a], C[entry] + B[at_b])
            adj_b[at_b] = _log_add(adj_b[at_b], C[entry] + A[at_a])
        else:
            adj_a[at_a] += C[entry] * B[at_b]
            adj_b[at_b] += C[entry] * A[at_a]


@jit
def _log_add(a, b):
    """log( exp a + exp b )."""
    if a < b:
        a, b = b, a
    return a if b == -np.inf else a + np.log1p(np.exp(b - a))


@jit
def _least(values):
    """The smallest positive one of numbers up to one."""
    least = 1.0
    for i in range(len(values)):
        least = min(least, values[i] if values[i] > 0.0 else 1.0)
    return least


@jit
def _replace(value, adjoint, is_leaf, logs, temperature, is_safe):
    """Put the adjoint in the value's place: as H of the step that made it, for a leaf times the value.

    Returns whether no number underflowed; adjoints are scaled and looked at, unless they are safe anyway.
    """
    least = 1.0
    if not logs and not is_safe:
        _, least = rescale(adjoint)
    for i in range(len(value)):
        if is_leaf:
            value[i] = value[i] + adjoint[i] if logs else value[i] * adjoint[i]
        elif temperature == 1.0:
            value[i] = adjoint[i]
        elif value[i] == -np.inf or adjoint[i] == -np.inf:
            value[i] = -np.inf
        else:
            value[i] = temperature * adjoint[i] + (temperature - 1.0) * value[i]
    if logs:
        subtract_largest(value)
    return least >= SAFE


@jit
def read_marginals(scope_start, scope, start, axes, offset, sizes, state_start, home, logs, arena):
    """Factor marginals in the factors' own axis order, and variable marginals.

    `home[i]` is an edge (position in `scope`) of a small factor that mentions variable i, or -1.
    """
    leaves = len(scope_start) - 1
    depth = 1
    for a in range(leaves):
        depth = max(depth, scope_start[a + 1] - scope_start[a])
    work = make_workspace(len(sizes), 2 * depth + 2)
    tables = np.empty(offset[leaves] - offset[0])
    for a in range(leaves):
        p = tables[offset[a] - offset[0] : offset[a + 1] - offset[0]]
        permute(
            arena[offset[a] : offset[a + 1]],
            axes[start[a] : start[a + 1]],
            p,
            scope[scope_start[a] : scope_start[a + 1]],
            sizes,
            work,
        )
        total = 0.0
        for i in range(len(p)):
            if logs:
                p[i] = np.exp(p[i])
            total += p[i]
        for i in range(len(p)):
            p[i] /= total
    owner = np.empty(len(scope), np.int64)
    for a in range(leaves):
        owner[scope_start[a] : scope_start[a + 1]] = a
    states = np.empty(state_start[-1])
    for i in range(len(sizes)):
        m = states[state_start[i] : state_start[i + 1]]
        if home[i] < 0:
            m[:] = 1.0 / len(m)
            continue
        a = owner[home[i]]
        p = tables[offset[a] - offset[0] : offset[a + 1] - offset[0]]
        stride = 1
        for e in range(home[i] + 1, scope_start[a + 1]):
            stride *= sizes[scope[e]]
        m[:] = 0.0
        for base in range(0, len(p), stride * len(m)):
            for k in range(len(m)):
                for j in range(base + k * stride, base + (k + 1) * stride):
                    m[k] += p[j]
        total = 0.0
        for k in range(len(m)):
            total += m[k]
        for k in range(len(m)):
            m[k] /= total
    return tables, states
