"""Many problems of one structure on one join tree.

Instance r has the tables of the factors that vary in row r of `rows`, one after another; the other factors
are shared and their leaves are prepared once. Each instance goes up the tree for its value, and down for its
best states and the derivative of its value by all log tables (see `join_tree.py`, `join_beliefs.py`).

    values[r] = Phi_r,    each[r] = d Phi_r / d theta of the factors that vary,
    summed = sum_r weights[r] d Phi_r / d theta    of all factors.

`summed` is kept in the layout of the tree while instances are added up; `unfold` puts it into factor order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .arrays import copy
from .contraction import make_workspace
from .jit import inlined, jit
from .join_beliefs import descend
from .join_tree import FINE, ascend, load_leaf, locate, permute, trace_states

__all__ = ["BatchTree", "solve_batch", "unfold"]


class BatchTree(NamedTuple):
    """A join tree (as in `structures/join_tree.py`) and where the tables of its leaves lie."""

    sizes: np.ndarray  # states per variable
    scope_start: np.ndarray  # (leaves + 1,) slices of `scope`
    scope: np.ndarray  # variables of the factors, without one-state ones
    left: np.ndarray  # (steps,) first operand
    right: np.ndarray  # (steps,) second operand, -1 for none
    drop_start: np.ndarray  # (steps + 1,) slices of `drop`
    drop: np.ndarray  # variables eliminated from each product
    start: np.ndarray  # (tensors + 1,) slices of `axes`
    axes: np.ndarray  # variables of every tensor, in layout order
    offset: np.ndarray  # (tensors + 1,) where each tensor lies in the arena
    roots: np.ndarray  # tensors no step consumes
    table_start: np.ndarray  # (leaves,) of the shared log tables
    row_start: np.ndarray  # (leaves,) in a row, -1 for shared factors


@jit
def solve_batch(tree, log_tables, rows, weights, heat, logs, traces, values, states, each, summed, codes):
    """All instances, one after another.

    Parameters
    ----------
    tree, log_tables, rows
        The tree, the log tables that are shared, and those of each instance.
    weights
        (instances,) of the summed derivatives.
    heat, logs
        Temperature per variable, and whether to work with logarithms.
    traces
        Whether the best states of maximised variables are wanted.
    values, states, each, summed
        Written, `summed` added to. No columns in `each`, no entries in `summed`: not wanted.
    codes
        (instances,) FINE, or UNDERFLOW or IMPOSSIBLE, where nothing else is written.
    """
    tensors, leaves, n = len(tree.start) - 1, len(tree.table_start), len(tree.sizes)
    depth, largest = 1, 1
    for t in range(tensors):
        depth = max(depth, tree.start[t + 1] - tree.start[t])
        largest = max(largest, tree.offset[t + 1] - tree.offset[t])
    work = make_workspace(n, 2 * depth + 2)
    first, second = np.empty(largest), np.empty(largest)
    arena, shared = np.empty(tree.offset[-1]), np.empty(tree.offset[leaves])
    scale, tops = np.zeros(tensors), np.zeros(leaves)
    nothing = np.empty((1, 0))
    slopes = each.shape[1] > 0 or len(summed) > 0
    is_max = True
    for i in range(n):
        is_max = is_max and (heat[i] == 0.0 or tree.sizes[i] == 1)
    code = FINE
    for a in range(leaves):
        if tree.row_start[a] < 0:
            code = max(code, _load(tree, a, log_tables, tree.table_start[a], logs, shared, tops, first, work))
    if code != FINE:
        codes[:] = code
        return
    for r in range(len(rows)):
        for a in range(leaves):
            if tree.row_start[a] < 0:
                copy(shared[tree.offset[a] : tree.offset[a + 1]], arena[tree.offset[a] : tree.offset[a + 1]])
                scale[a] = tops[a]
            else:
                code = max(code, _load(tree, a, rows[r], tree.row_start[a], logs, arena, scale, first, work))
        if code == FINE:
            code = ascend(
                tree.left, tree.right, tree.drop_start, tree.drop, tree.start, tree.axes, tree.offset,
                leaves, tree.sizes, heat, logs, arena, scale, work,
            )  # fmt: skip
        if code == FINE:
            total = 0.0
            for k in range(len(tree.roots)):
                total += scale[tree.roots[k]]
            values[r] = total
            if traces:
                for i in range(n):
                    states[r, i] = 0 if heat[i] == 0.0 else -1
                trace_states(
                    tree.left, tree.right, tree.drop_start, tree.drop, tree.start, tree.axes, tree.offset,
                    tree.sizes, heat, logs, arena, nothing, states[r : r + 1],
                )  # fmt: skip
            if slopes and is_max and traces:
                _add_indicators(tree, states[r], weights[r], each[r], summed)
            elif slopes:
                code = descend(
                    tree.left, tree.right, tree.drop_start, tree.drop, tree.start, tree.axes, tree.offset,
                    leaves, tree.sizes, heat, logs, arena, first, second, work,
                )  # fmt: skip
                if code == FINE:
                    _add_beliefs(tree, arena, logs, weights[r], each[r], summed, work)
        codes[r] = code
        code = FINE


@jit
def _load(tree, a, tables, at, logs, arena, scale, scratch, work):
    """Put the table at `at` into leaf a."""
    begin, end = tree.offset[a], tree.offset[a + 1]
    code, scale[a] = load_leaf(
        tables[at : at + end - begin],
        tree.scope[tree.scope_start[a] : tree.scope_start[a + 1]],
        arena[begin:end],
        tree.axes[tree.start[a] : tree.start[a + 1]],
        tree.sizes,
        logs,
        scratch[: end - begin],
        work,
    )
    return code


@jit
def _add_beliefs(tree, arena, logs, weight, each, summed, work):
    """Normalise the leaves of one instance after the way down, and hand them out."""
    for a in range(len(tree.table_start)):
        begin, end = tree.offset[a], tree.offset[a + 1]
        belief = arena[begin:end]
        if logs:
            for i in range(len(belief)):
                belief[i] = np.exp(belief[i])
        part = 1.0 / _total(belief)
        if len(summed):
            share = weight * part
            into = summed[begin - 1 : end - 1]
            for i in range(len(belief)):
                into[i] += share * belief[i]
        at = tree.row_start[a]
        if at >= 0 and len(each):
            for i in range(len(belief)):
                belief[i] *= part
            permute(
                belief,
                tree.axes[tree.start[a] : tree.start[a + 1]],
                each[at : at + len(belief)],
                tree.scope[tree.scope_start[a] : tree.scope_start[a + 1]],
                tree.sizes,
                work,
            )


@inlined
def _total(values):
    """The sum, by four running ones: a single one waits for itself at every entry."""
    n = len(values)
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for i in range(0, n - 3, 4):
        a += values[i]
        b += values[i + 1]
        c += values[i + 2]
        d += values[i + 3]
    for i in range(n - n % 4, n):
        a += values[i]
    return (a + b) + (c + d)


@jit
def _add_indicators(tree, states, weight, each, summed):
    """The same where all variables are maximised: the entries of the best states."""
    each[:] = 0.0
    for a in range(len(tree.table_start)):
        if len(summed):
            where = locate(tree.axes[tree.start[a] : tree.start[a + 1]], tree.sizes, states)
            summed[tree.offset[a] - 1 + where] += weight
        at = tree.row_start[a]
        if at >= 0 and len(each):
            own = tree.scope[tree.scope_start[a] : tree.scope_start[a + 1]]
            each[at + locate(own, tree.sizes, states)] = 1.0


@jit
def unfold(tree, summed):
    """Tables of all leaves from the layout of the tree to factor order."""
    depth = 1
    for t in range(len(tree.start) - 1):
        depth = max(depth, tree.start[t + 1] - tree.start[t])
    work = make_workspace(len(tree.sizes), 2 * depth + 2)
    found = np.empty_like(summed)
    for a in range(len(tree.table_start)):
        begin, end = tree.offset[a] - 1, tree.offset[a + 1] - 1
        permute(
            summed[begin:end],
            tree.axes[tree.start[a] : tree.start[a + 1]],
            found[begin:end],
            tree.scope[tree.scope_start[a] : tree.scope_start[a + 1]],
            tree.sizes,
            work,
        )
    return found
