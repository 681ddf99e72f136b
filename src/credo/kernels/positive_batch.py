"""Plain BP in positive numbers for many problems of one structure, spread over all cores.

Rows whose messages may leave the doubles, or that are nearly certain when they come to rest, are left to
logarithms (`log_batch`), which is said of each row.
"""

from __future__ import annotations

import numpy as np

from .arrays import copy
from .jit import jit, parallel, prange
from .message_beliefs import log_beliefs
from .positive_messages import constant_messages, linear_sweeps, survey
from .positive_read import constant_log_messages, positive_read, shifted_tables

__all__ = ["positive_batch"]


@jit
def _scaled(constant, state_start):
    """Constant messages with a maximum of one per variable, from their logarithms."""
    out = np.empty(len(constant))
    for i in range(len(state_start) - 1):
        top = -np.inf
        for k in range(state_start[i], state_start[i + 1]):
            top = max(top, constant[k])
        for k in range(state_start[i], state_start[i + 1]):
            out[k] = np.exp(constant[k] - top)
    return out


@jit
def _rests(messages, change, tol, sure):
    """Whether messages have come to rest where their logarithms have, too."""
    least = 1.0
    for k in range(len(messages)):
        least = min(least, messages[k] / 2.0)
    return least >= sure or change <= 10.0 * tol * least


@jit
def _to_logs(messages, edge_state_start):
    """Normalised logarithms of messages of mean one, in place."""
    for e in range(len(edge_state_start) - 1):
        size = edge_state_start[e + 1] - edge_state_start[e]
        for k in range(edge_state_start[e], edge_state_start[e + 1]):
            messages[k] = np.log(messages[k] / size)


@parallel
def positive_batch(
    order, at_once, free, scope_start, scope, sizes, state_start, edge_state_start, tables, table_start,
    slots, own, beliefs, sweeps, tol, safe, sure,
):  # fmt: skip
    """Bethe log Z, the last change and whether it is done, of each row.

    Arguments as those of `log_batch`; `order` has the factors with two free variables or more, `free` counts
    them, and `safe` is the log range that a product of messages may have.
    """
    rows = len(own)
    values, changes, done = np.zeros(rows), np.full(rows, np.inf), np.zeros(rows, np.bool_)
    for row in prange(rows):
        mine = tables.copy()
        copy(own[row], mine[slots:])
        found = survey(scope_start, scope, sizes, mine, table_start)
        if not found[1] < safe or found[2]:
            continue
        psi, shift = shifted_tables(scope_start, scope, sizes, mine, table_start)
        for k in range(len(psi)):
            psi[k] = np.exp(psi[k])
        constant = _scaled(
            constant_messages(free, scope_start, scope, sizes, state_start, mine, table_start), state_start
        )
        messages = np.ones(edge_state_start[-1])
        moved = linear_sweeps(
            order, at_once, scope_start, scope, sizes, state_start, edge_state_start, psi, table_start,
            constant, messages, sweeps, tol,
        )  # fmt: skip
        change = moved[-1] if len(moved) else np.inf
        if change < tol and not _rests(messages, change, tol, sure):
            continue
        _to_logs(messages, edge_state_start)
        constant_log_messages(free, scope_start, scope, sizes, edge_state_start, mine, table_start, messages)
        belief, zeros = np.zeros(state_start[-1]), np.zeros(state_start[-1], np.int64)
        log_beliefs(scope, edge_state_start, state_start, messages, belief, zeros)
        told = positive_read(
            scope_start, scope, sizes, state_start, edge_state_start, psi, shift, table_start, messages,
            belief, zeros,
        )  # fmt: skip
        copy(told[0][len(told[0]) - beliefs.shape[1] :], beliefs[row])
        values[row], changes[row], done[row] = told[2], change, True
    return values, changes, done
