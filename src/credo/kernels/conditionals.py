r"""One variable given all others: pseudolikelihood, Gibbs and Metropolis sweeps on flat factor tables.

    p(x_i = s | x_-i)  proportional to  exp( sum_{a at i} theta_a(s, x_a without x_i) )

All walk the factors around each variable, so a row costs O(sum over edges of the states). Arrays are those
of the graph's wiring; `rows` holds one complete joint state per row.
"""

from __future__ import annotations

import numpy as np

from .jit import jit

__all__ = ["gibbs_sweeps", "metropolis_sweeps", "pseudolikelihood", "row_scores"]


@jit
def _conditional(
    i, x, tables, table_start, scope_start, scope, edge_factor, edge_stride, state_start, neighbour_start,
    neighbour_edge, base, logs,
):  # fmt: skip
    """Log weights of variable i given the others into `logs`; `base` gets the entry of state 0 per edge."""
    size = state_start[i + 1] - state_start[i]
    for s in range(size):
        logs[s] = 0.0
    for q in range(neighbour_start[i], neighbour_start[i + 1]):
        own = neighbour_edge[q]
        a = edge_factor[own]
        entry = table_start[a]
        for e in range(scope_start[a], scope_start[a + 1]):
            if e != own:
                entry += edge_stride[e] * x[scope[e]]
        base[q - neighbour_start[i]] = entry
        for s in range(size):
            logs[s] += tables[entry + s * edge_stride[own]]


@jit
def _normalise(logs, size):
    """Turn log weights into probabilities; returns the log of their sum, -inf if all are zero."""
    top = -np.inf
    for s in range(size):
        top = max(top, logs[s])
    if top == -np.inf:
        return top
    total = 0.0
    for s in range(size):
        logs[s] = np.exp(logs[s] - top)
        total += logs[s]
    for s in range(size):
        logs[s] /= total
    return top + np.log(total)


@jit
def _room(state_start, neighbour_start):
    """Space for the logs of the widest variable and for the table entries of the one with most factors."""
    widest, degree = 1, 1
    for i in range(len(state_start) - 1):
        widest = max(widest, state_start[i + 1] - state_start[i])
        degree = max(degree, neighbour_start[i + 1] - neighbour_start[i])
    return np.empty(widest), np.empty(degree, np.int64)


@jit
def pseudolikelihood(
    tables, table_start, scope_start, scope, edge_factor, edge_stride, state_start, neighbour_start,
    neighbour_edge, rows, counts, gradient,
):  # fmt: skip
    """Weighted sum over rows and variables of log p(x_i | x_-i); adds its gradient by each table entry.

    -inf, with an unfinished gradient, if a row has probability zero.
    """
    n = len(state_start) - 1
    logs, base = _room(state_start, neighbour_start)
    value = 0.0
    for r in range(len(rows)):
        x = rows[r]
        for i in range(n):
            size = state_start[i + 1] - state_start[i]
            if size == 1:
                continue
            _conditional(
                i, x, tables, table_start, scope_start, scope, edge_factor, edge_stride, state_start,
                neighbour_start, neighbour_edge, base, logs,
            )  # fmt: skip
            score = logs[x[i]]
            if score == -np.inf:
                return -np.inf
            value += counts[r] * (score - _normalise(logs, size))
            for q in range(neighbour_start[i], neighbour_start[i + 1]):
                stride = edge_stride[neighbour_edge[q]]
                entry = base[q - neighbour_start[i]]
                gradient[entry + x[i] * stride] += counts[r]
                for s in range(size):
                    gradient[entry + s * stride] -= counts[r] * logs[s]
    return value


@jit
def gibbs_sweeps(
    tables, table_start, scope_start, scope, edge_factor, edge_stride, state_start, neighbour_start,
    neighbour_edge, rows, free, uniforms,
):  # fmt: skip
    """Redraw the free values of every row in turn, once per sweep, in place.

    `free` (rows, n) says which values move; `uniforms` (sweeps, rows, n) are the random numbers.
    """
    n = len(state_start) - 1
    logs, base = _room(state_start, neighbour_start)
    for sweep in range(len(uniforms)):
        for r in range(len(rows)):
            x = rows[r]
            for i in range(n):
                size = state_start[i + 1] - state_start[i]
                if size == 1 or not free[r, i]:
                    continue
                _conditional(
                    i, x, tables, table_start, scope_start, scope, edge_factor, edge_stride, state_start,
                    neighbour_start, neighbour_edge, base, logs,
                )  # fmt: skip
                if _normalise(logs, size) == -np.inf:
                    continue  # no state is possible given the others: the value stays
                rest = uniforms[sweep, r, i]
                chosen = x[i]
                for s in range(size):
                    if logs[s] > 0.0:
                        chosen = s
                        if rest < logs[s]:
                            break
                        rest -= logs[s]
                x[i] = chosen


@jit
def metropolis_sweeps(
    tables, table_start, scope_start, scope, edge_factor, edge_stride, state_start, neighbour_start,
    neighbour_edge, rows, uniforms,
):  # fmt: skip
    """Propose a state for every value in turn, once per sweep, in place; how many were accepted.

    `uniforms` (sweeps, rows, n, 2) are the random numbers: one for the proposal, one to decide.
    """
    n = len(state_start) - 1
    logs, base = _room(state_start, neighbour_start)
    accepted = 0
    for sweep in range(len(uniforms)):
        for r in range(len(rows)):
            x = rows[r]
            for i in range(n):
                size = state_start[i + 1] - state_start[i]
                if size == 1:
                    continue
                _conditional(
                    i, x, tables, table_start, scope_start, scope, edge_factor, edge_stride, state_start,
                    neighbour_start, neighbour_edge, base, logs,
                )  # fmt: skip
                # Any state, its own included: two states that always swap would never mix.
                other = min(int(uniforms[sweep, r, i, 0] * size), size - 1)
                if np.log(uniforms[sweep, r, i, 1]) < logs[other] - logs[x[i]]:
                    x[i] = other
                    accepted += 1
    return accepted


@jit
def row_scores(tables, table_start, scope_start, scope, edge_stride, rows):
    """Sum of all log-potentials at every row."""
    found = np.zeros(len(rows))
    for r in range(len(rows)):
        for a in range(len(scope_start) - 1):
            entry = table_start[a]
            for e in range(scope_start[a], scope_start[a + 1]):
                entry += edge_stride[e] * rows[r, scope[e]]
            found[r] += tables[entry]
    return found
