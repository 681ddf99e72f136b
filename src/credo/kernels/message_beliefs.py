"""What log messages say: beliefs of variables and factors, and the reweighted Bethe value.

    b_i ~ prod_a M_{a->i},      b_a ~ psi_a^alpha prod_{j in a} B_j M_{a->j}^-alpha

A product of messages is kept as a finite sum of logarithms and a count of zeros, so that a message
can be divided out again even when it is zero.
"""

from __future__ import annotations

import numpy as np

from .jit import jit

__all__ = [
    "cavity",
    "decode_states",
    "factor_depths",
    "log_beliefs",
    "log_factor_beliefs",
    "reweighted_log_z",
]


@jit
def log_beliefs(wiring_scope, edge_state_start, state_start, messages, belief, zeros):
    """Sum of the log messages at each variable: the finite part, and how many are -inf."""
    belief[:] = 0.0
    zeros[:] = 0
    for e in range(len(wiring_scope)):
        first = state_start[wiring_scope[e]]
        begin = edge_state_start[e]
        for k in range(edge_state_start[e + 1] - begin):
            value = messages[begin + k]
            if value == -np.inf:
                zeros[first + k] += 1
            else:
                belief[first + k] += value


@jit
def cavity(e, i, alpha, edge_state_start, state_start, messages, belief, zeros, out):
    """Log of B_i M_e^-alpha, normalised to a maximum of zero, with zeros divided out exactly."""
    begin, first = edge_state_start[e], state_start[i]
    size = edge_state_start[e + 1] - begin
    top = -np.inf
    for k in range(size):
        own = messages[begin + k]
        if own == -np.inf:
            value = belief[first + k] if (alpha == 1.0 and zeros[first + k] == 1) else -np.inf
        else:
            value = belief[first + k] - alpha * own if zeros[first + k] == 0 else -np.inf
        out[k] = value
        top = max(top, value)
    if top > -np.inf:
        for k in range(size):
            out[k] -= top


@jit
def _scratch(scope_start, scope, sizes):
    """Room for one message per axis of the widest factor."""
    arity, widest = 1, 1
    for a in range(len(scope_start) - 1):
        arity = max(arity, scope_start[a + 1] - scope_start[a])
        for e in range(scope_start[a], scope_start[a + 1]):
            widest = max(widest, sizes[scope[e]])
    return np.empty((arity, widest))


@jit
def log_factor_beliefs(
    power,
    scope_start,
    scope,
    sizes,
    state_start,
    edge_state_start,
    tables,
    table_start,
    messages,
    belief,
    zeros,
):
    """Normalised factor beliefs b_a ~ psi_a^alpha prod_j B_j M_{a->j}^-alpha, one after another."""
    factors = len(scope_start) - 1
    start = np.zeros(factors + 1, np.int64)
    for a in range(factors):
        size = 1
        for e in range(scope_start[a], scope_start[a + 1]):
            size *= sizes[scope[e]]
        start[a + 1] = start[a] + size
    out = np.empty(start[-1])
    rest = _scratch(scope_start, scope, sizes)
    digit = np.zeros(len(rest), np.int64)
    for a in range(factors):
        first, arity = scope_start[a], scope_start[a + 1] - scope_start[a]
        for k in range(arity):
            e = first + k
            cavity(e, scope[e], power[a], edge_state_start, state_start, messages, belief, zeros, rest[k])
            digit[k] = 0
        top = -np.inf
        for entry in range(start[a], start[a + 1]):
            theta = tables[table_start[a] + entry - start[a]]
            value = -np.inf
            if theta > -np.inf:
                value = power[a] * theta
                for k in range(arity):
                    value += rest[k, digit[k]]
            out[entry] = value
            top = max(top, value)
            k = arity - 1
            while k >= 0:
                digit[k] += 1
                if digit[k] < sizes[scope[first + k]]:
                    break
                digit[k] = 0
                k -= 1
        total = 0.0
        for entry in range(start[a], start[a + 1]):
            out[entry] = np.exp(out[entry] - top) if top > -np.inf else np.nan
            total += out[entry]
        for entry in range(start[a], start[a + 1]):
            out[entry] /= total
    return out


@jit
def reweighted_log_z(rho, scope_start, scope, tables, table_start, state_start, factor_beliefs, marginals):
    """sum_a <theta_a> + sum_a rho_a H(b_a) + sum_i (1 - sum_{a at i} rho_a) H(b_i)."""
    total = 0.0
    share = np.ones(len(state_start) - 1)
    begin = 0
    for a in range(len(scope_start) - 1):
        size = 1
        for e in range(scope_start[a], scope_start[a + 1]):
            i = scope[e]
            size *= state_start[i + 1] - state_start[i]
            share[i] -= rho[a]
        for k in range(size):
            b = factor_beliefs[begin + k]
            if b > 0.0:
                total += b * (tables[table_start[a] + k] - rho[a] * np.log(b))
        begin += size
    for i in range(len(share)):
        for s in range(state_start[i], state_start[i + 1]):
            if marginals[s] > 0.0:
                total -= share[i] * marginals[s] * np.log(marginals[s])
    return total


@jit
def factor_depths(scope_start, scope, neighbour_start, neighbour_edge, edge_factor):
    """Breadth-first depth of each factor from the first variable of its part of the graph."""
    n, m = len(neighbour_start) - 1, len(scope_start) - 1
    depth = np.full(m, -1, np.int64)
    reached = np.zeros(n, np.int8)
    queue = np.empty(n, np.int64)
    level = np.zeros(n, np.int64)
    for root in range(n):
        if reached[root]:
            continue
        reached[root] = 1
        queue[0] = root
        head, tail = 0, 1
        while head < tail:
            i = queue[head]
            head += 1
            for g in range(neighbour_start[i], neighbour_start[i + 1]):
                a = edge_factor[neighbour_edge[g]]
                if depth[a] >= 0:
                    continue
                depth[a] = level[i]
                for e in range(scope_start[a], scope_start[a + 1]):
                    j = scope[e]
                    if not reached[j]:
                        reached[j] = 1
                        level[j] = level[i] + 1
                        queue[tail] = j
                        tail += 1
    return depth


@jit
def decode_states(order, asked, scope_start, scope, sizes, state_start, tables, log_beliefs):
    """States of the asked variables, chosen factor by factor given those chosen before; -1 for the others.

    Each factor in `order` chooses the states of its asked variables that are still open: those of the
    largest belief, summed over the variables that are not asked for. What no factor decides is decided by
    the beliefs of the variables. Ties go to the lowest index.
    """
    factors, n = len(scope_start) - 1, len(sizes)
    start = np.zeros(factors + 1, np.int64)
    for a in range(factors):
        size = 1
        for e in range(scope_start[a], scope_start[a + 1]):
            size *= sizes[scope[e]]
        start[a + 1] = start[a] + size
    states = np.full(n, -1, np.int64)
    step = np.zeros(1 + np.max(np.diff(scope_start)) if factors else 1, np.int64)
    for a in order:
        first, last = scope_start[a], scope_start[a + 1]
        count = 1
        for e in range(last - 1, first - 1, -1):
            is_open = asked[scope[e]] and states[scope[e]] < 0
            step[e - first] = count if is_open else 0
            count *= sizes[scope[e]] if is_open else 1
        if count == 1:
            for e in range(first, last):
                if step[e - first] > 0:
                    states[scope[e]] = 0  # one state left
            continue
        total = np.zeros(count)
        for entry in range(start[a + 1] - start[a]):
            rest, place, fits = entry, 0, True
            for e in range(last - 1, first - 1, -1):
                i = scope[e]
                digit = rest % sizes[i]
                rest //= sizes[i]
                place += step[e - first] * digit
                fits = fits and (not asked[i] or states[i] < 0 or states[i] == digit)
            if fits:
                total[place] += tables[start[a] + entry]
        best = total.argmax()
        if total[best] > 0.0:
            for e in range(first, last):
                if step[e - first] > 0:
                    states[scope[e]] = (best // step[e - first]) % sizes[scope[e]]
    for i in range(n):
        if asked[i] and states[i] < 0:
            states[i] = log_beliefs[state_start[i] : state_start[i + 1]].argmax()
    return states
