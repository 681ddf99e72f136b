"""What goes into and comes out of messages kept as positive numbers: tables, constant messages, beliefs.

Logarithms and exponentials are taken per message entry, never per table entry:

    cav_{i->a} = B_i / M_{a->i},    z_a = sum_{x_a} psi_a prod_i cav_{i->a},
    b_a = psi_a prod_i cav_{i->a} / z_a,
    <theta_a> + H(b_a) = log z_a - sum_{x_a} b_a sum_i log cav_{i->a}(x_i).
"""

from __future__ import annotations

import numpy as np

from .jit import jit
from .message_beliefs import cavity

__all__ = ["constant_log_messages", "positive_read", "shifted_tables"]


@jit
def shifted_tables(scope_start, scope, sizes, tables, table_start):
    """Log tables less their maxima, one copy per stored table, and the maximum of each factor's."""
    m = len(scope_start) - 1
    out = np.empty(len(tables))
    shift = np.zeros(m)
    seen = np.zeros(len(tables) + 1, np.bool_)
    for a in range(m):
        size = 1
        for e in range(scope_start[a], scope_start[a + 1]):
            size *= sizes[scope[e]]
        first = table_start[a]
        top = -np.inf
        for k in range(first, first + size):
            top = max(top, tables[k])
        shift[a] = top
        if not seen[first]:
            seen[first] = True
            for k in range(first, first + size):
                out[k] = tables[k] - top
    return out, shift


@jit
def constant_log_messages(free, scope_start, scope, sizes, edge_state_start, tables, table_start, messages):
    """Write the log messages of the factors with fewer than two variables of several states."""
    for a in range(len(scope_start) - 1):
        if free[a] >= 2:
            continue
        for e in range(scope_start[a], scope_start[a + 1]):
            size, first, here = sizes[scope[e]], table_start[a], edge_state_start[e]
            top, total = -np.inf, 0.0
            for k in range(size):
                top = max(top, tables[first + k])
            for k in range(size):
                total += np.exp(tables[first + k] - top)
            norm = top + np.log(total)
            for k in range(size):
                messages[here + k] = tables[first + k] - norm


@jit
def _pair(psi, first, rows, cols, cav, logs, out, at):
    """Unnormalised belief of a table of two axes; its sum, and that of belief times log cavities."""
    total, energy = 0.0, 0.0
    for x in range(rows):
        c, s = cav[0, x], logs[0, x]
        here, along = 0.0, 0.0
        for y in range(cols):
            value = psi[first + x * cols + y] * cav[1, y]
            out[at + x * cols + y] = value * c
            here += value
            along += value * logs[1, y]
        total += here * c
        energy += (here * s + along) * c
    return total, energy


@jit
def _any_arity(psi, first, size, arity, dims, cav, logs, digit, out, at):
    """The same for any number of axes."""
    total, energy = 0.0, 0.0
    digit[:arity] = 0
    for k in range(size):
        value, s = psi[first + k], 0.0
        for j in range(arity):
            value *= cav[j, digit[j]]
            s += logs[j, digit[j]]
        out[at + k] = value
        total += value
        energy += value * s
        j = arity - 1
        while j >= 0:
            digit[j] += 1
            if digit[j] < dims[j]:
                break
            digit[j] = 0
            j -= 1
    return total, energy


@jit
def positive_read(
    scope_start, scope, sizes, state_start, edge_state_start, psi, shift, table_start, messages, belief, zeros
):  # fmt: skip
    """Factor beliefs, marginals and the Bethe value of log messages.

    The value is NaN if some factor has no state left. `belief` and `zeros` are the sums of the log messages
    at each variable, as `log_beliefs` gives them.
    """
    m, n = len(scope_start) - 1, len(sizes)
    start = np.zeros(m + 1, np.int64)
    arity = 1
    for a in range(m):
        size = 1
        for e in range(scope_start[a], scope_start[a + 1]):
            size *= sizes[scope[e]]
        start[a + 1] = start[a] + size
        arity = max(arity, scope_start[a + 1] - scope_start[a])
    widest = 1 if n == 0 else max(1, sizes.max())
    logs, cav = np.zeros((arity, widest)), np.ones((arity, widest))
    dims, digit = np.ones(arity, np.int64), np.zeros(arity, np.int64)
    degree = np.zeros(n)
    out = np.empty(start[-1])
    value = 0.0
    for a in range(m):
        first, axes = scope_start[a], scope_start[a + 1] - scope_start[a]
        for k in range(axes):
            e = first + k
            i = scope[e]
            degree[i] += 1
            dims[k] = sizes[i]
            cavity(e, i, 1.0, edge_state_start, state_start, messages, belief, zeros, logs[k])
            for s in range(sizes[i]):
                cav[k, s] = np.exp(logs[k, s])
                if logs[k, s] == -np.inf:
                    logs[k, s] = 0.0  # its belief is zero
        size, at = start[a + 1] - start[a], start[a]
        if axes == 2:
            total, energy = _pair(psi, table_start[a], dims[0], dims[1], cav, logs, out, at)
        else:
            total, energy = _any_arity(psi, table_start[a], size, axes, dims, cav, logs, digit, out, at)
        if not total > 0.0:
            return out, np.empty(0), np.nan
        value += np.log(total) + shift[a] - energy / total
        for k in range(at, at + size):
            out[k] /= total
    marginals = np.empty(state_start[-1])
    for i in range(n):
        top, norm, entropy = -np.inf, 0.0, 0.0
        for s in range(state_start[i], state_start[i + 1]):
            if zeros[s] == 0:
                top = max(top, belief[s])
        for s in range(state_start[i], state_start[i + 1]):
            marginals[s] = np.exp(belief[s] - top) if zeros[s] == 0 else 0.0
            norm += marginals[s]
        for s in range(state_start[i], state_start[i + 1]):
            if marginals[s] > 0.0:
                entropy += marginals[s] * (np.log(norm) - belief[s] + top)
            marginals[s] /= norm
        value += (1.0 - degree[i]) * entropy / norm
    return out, marginals, value
