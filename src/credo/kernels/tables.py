"""Flat tables restricted to some states of their variables, and expanded again; the best states of rows.

A graph's tables lie in one array, table a over the variables scope[scope_start[a]:scope_start[a+1]]
in C order. `kept_states` makes index arrays of one flag per flat state. Gathering copies the entries whose
states are all kept; scattering is its inverse with zeros elsewhere.
"""

from __future__ import annotations

import numpy as np

from .arrays import copy
from .jit import jit

__all__ = ["best_states", "gather_tables", "kept_states", "scatter_tables"]


@jit
def best_states(state_start, values):
    """The state of the largest value of every variable, the first of equal ones; values lie by flat state."""
    best = np.zeros(len(state_start) - 1, np.int64)
    for i in range(len(best)):
        first = state_start[i]
        for s in range(1, state_start[i + 1] - first):
            if values[first + s] > values[first + best[i]]:
                best[i] = s
    return best


def gather_tables(
    values: np.ndarray,
    table_start: np.ndarray,
    scope_start: np.ndarray,
    scope: np.ndarray,
    state_start: np.ndarray,
    kept: np.ndarray,
    kept_start: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Copy the kept entries of every table; returns the new flat values and table starts."""
    new_start = _new_starts(scope_start, scope, kept_start)
    out = np.empty(new_start[-1])
    _move(values, table_start, out, new_start, scope_start, scope, state_start, kept, kept_start, True)
    return out, new_start[:-1]


def scatter_tables(
    values: np.ndarray,
    table_start: np.ndarray,
    scope_start: np.ndarray,
    scope: np.ndarray,
    state_start: np.ndarray,
    kept: np.ndarray,
    kept_start: np.ndarray,
) -> np.ndarray:
    """Spread gathered values over full tables that begin at `table_start` (m + 1 entries)."""
    new_start = _new_starts(scope_start, scope, kept_start)
    out = np.zeros(table_start[-1])
    _move(values, table_start, out, new_start, scope_start, scope, state_start, kept, kept_start, False)
    return out


def kept_states(state_start: np.ndarray, keep: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Indices (within their variable) of kept states, one variable after another, and where each begins."""
    rank = np.cumsum(keep)
    flat = np.flatnonzero(keep)
    owner = np.searchsorted(state_start, flat, side="right") - 1
    kept = (flat - state_start[owner]).astype(np.int64)
    kept_start = np.concatenate([np.zeros(1, np.int64), rank])[state_start].astype(np.int64)
    return kept, kept_start


@jit
def _new_starts(scope_start, scope, kept_start):
    start = np.zeros(len(scope_start), np.int64)
    for a in range(len(scope_start) - 1):
        size = 1
        for e in range(scope_start[a], scope_start[a + 1]):
            size *= kept_start[scope[e] + 1] - kept_start[scope[e]]
        start[a + 1] = start[a] + size
    return start


@jit
def _move(values, full_start, out, small_start, scope_start, scope, state_start, kept, kept_start, gather):
    """Walk the kept entries of each table in C order; copy full -> small or small -> full."""
    widest = 1
    for a in range(len(scope_start) - 1):
        widest = max(widest, scope_start[a + 1] - scope_start[a])
    digit = np.zeros(widest, np.int64)
    stride = np.zeros(widest, np.int64)
    for a in range(len(scope_start) - 1):
        first, last = scope_start[a], scope_start[a + 1]
        arity = last - first
        step = 1
        for k in range(arity - 1, -1, -1):
            i = scope[first + k]
            stride[k] = step
            step *= state_start[i + 1] - state_start[i]
            digit[k] = 0
        count = small_start[a + 1] - small_start[a]
        if gather and count == step:
            copy(values[full_start[a] : full_start[a] + step], out[small_start[a] : small_start[a + 1]])
            continue
        where = full_start[a]
        for k in range(arity):
            where += stride[k] * kept[kept_start[scope[first + k]]]
        for entry in range(small_start[a], small_start[a + 1]):
            if gather:
                out[entry] = values[where]
            else:
                out[where] = values[entry]
            for k in range(arity - 1, -1, -1):
                i = scope[first + k]
                here = kept_start[i] + digit[k]
                digit[k] += 1
                if digit[k] < kept_start[i + 1] - kept_start[i]:
                    where += stride[k] * (kept[here + 1] - kept[here])
                    break
                where -= stride[k] * (kept[here] - kept[kept_start[i]])
                digit[k] = 0
