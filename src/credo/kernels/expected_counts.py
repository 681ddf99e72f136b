r"""Expected counts of table entries, for many rows with missing values in one call.

    counts_a(x_a) += weight_r p(x_a | observed values of row r)

A row's hidden variables fall into parts that share no factor (see `learning/hidden_parts.py`); a part
with the factors it touches is one small problem per row. Small parts are summed state by state, larger
ones on a join tree whose steps are the same for all rows. Products run on plain numbers, and a row whose
sum leaves the safe range is done again with logarithms; a weight is never lost.

A factor's table lies in one flat array. For a row, `base` is where the factor's entry lies when every hidden
variable of the part is in state 0, and `step` what one state more of each of them adds to that.
"""

from __future__ import annotations

import numpy as np

from .jit import jit
from .join_beliefs import downward, read_marginals
from .join_tree import FINE, IMPOSSIBLE, UNDERFLOW, trace_states, upward

__all__ = ["count_observed", "count_pairs", "enumerate_parts", "label_parts", "sum_on_tree"]

_LEAST, _MOST = 1e-250, 1e250  # sums of products outside are done again with logarithms


@jit
def count_observed(states, weights, scope_start, scope, stride, first, counts):
    """Add each row's weight to its entry of every table whose scope it observes whole; -1 is missing."""
    for r in range(len(states)):
        for a in range(len(scope_start) - 1):
            entry = first[a]
            for e in range(scope_start[a], scope_start[a + 1]):
                state = states[r, scope[e]]
                if state < 0:
                    entry = -1
                    break
                entry += stride[e] * state
            if entry >= 0:
                counts[entry] += weights[r]


@jit
def label_parts(observed, scope_start, scope):
    """For each pattern (patterns, n) and variable the first variable of its part, -1 where observed."""
    patterns, n = observed.shape
    label = np.empty((patterns, n), np.int64)
    for p in range(patterns):
        root = label[p]
        for i in range(n):
            root[i] = -1 if observed[p, i] else i
        for a in range(len(scope_start) - 1):
            last = -1
            for e in range(scope_start[a], scope_start[a + 1]):
                i = scope[e]
                if root[i] < 0:
                    continue
                while root[i] != i:
                    i = root[i]
                if last >= 0 and last != i:
                    # The smaller one becomes the root, so roots lie before their members.
                    root[max(last, i)] = min(last, i)
                    i = min(last, i)
                last = i
        for i in range(n):
            if root[i] >= 0:
                root[i] = root[root[i]]
    return label


@jit
def _offsets(joint, hidden, sizes, step, offsets):
    """Entry of each factor (row) at each joint state (column) of a part, relative to its base."""
    for f in range(len(step)):
        offsets[f, 0] = 0
        filled = 1
        # The last hidden variable varies fastest.
        for k in range(len(hidden) - 1, -1, -1):
            for s in range(1, sizes[hidden[k]]):
                for j in range(filled):
                    offsets[f, s * filled + j] = offsets[f, j] + s * step[f, k]
            filled *= sizes[hidden[k]]


@jit
def _log_weights(log_tables, base, offsets, joint, weights):
    """exp(score - best) of every joint state into `weights`; returns the log of their true sum."""
    top = -np.inf
    for j in range(joint):
        score = 0.0
        for f in range(len(base)):
            score += log_tables[base[f] + offsets[f, j]]
        weights[j] = score
        top = max(top, score)
    if top == -np.inf:
        return top, 0.0
    total = 0.0
    for j in range(joint):
        weights[j] = np.exp(weights[j] - top)
        total += weights[j]
    return top + np.log(total), total


@jit
def _best(log_tables, base, offsets, joint):
    """The best joint state, ties to the first, and its score."""
    best, top = -1, -np.inf
    for j in range(joint):
        score = 0.0
        for f in range(len(base)):
            score += log_tables[base[f] + offsets[f, j]]
        if score > top:
            best, top = j, score
    return best, top


@jit
def enumerate_parts(
    log_tables,
    tables,
    sizes,
    hidden_start,
    hidden,
    factor_start,
    step_start,
    step,
    row_start,
    weight,
    base_start,
    base,
    joint,
    first,
    last,
    hard,
    counts,
):
    """Rows first:last of the parts with joint[p] > 0, by summing (or, if hard, maximising) over all states.

    Parameters
    ----------
    log_tables, tables
        All tables, as logarithms and as numbers.
    sizes
        States per variable.
    hidden_start, hidden, factor_start
        Slices per part: its hidden variables, and (the starts only) its factors.
    step_start, step
        Per part a matrix (factors, hidden variables), flat.
    row_start, weight
        Slices of rows per part, and the weight of each row.
    base_start, base
        Per part a matrix (rows, factors), flat.
    joint
        Joint states of each part; 0 for parts that are treated elsewhere.
    counts
        What is added to.

    Returns
    -------
    total, impossible
        Sum of weight times log probability, and a row of probability zero or -1.
    """
    most, depth = 1, 1
    for p in range(len(joint)):
        most = max(most, joint[p])
        depth = max(depth, factor_start[p + 1] - factor_start[p])
    offsets = np.zeros((depth, most), np.int64)
    values = np.empty(most)
    total = 0.0
    p = np.searchsorted(row_start, first, side="right") - 1
    while p < len(joint) and row_start[p] < last:
        begin, end = max(first, row_start[p]), min(last, row_start[p + 1])
        if joint[p] == 0 or begin >= end:
            p += 1
            continue
        states, factors = joint[p], factor_start[p + 1] - factor_start[p]
        inside = hidden[hidden_start[p] : hidden_start[p + 1]]
        steps = step[step_start[p] : step_start[p + 1]].reshape((factors, len(inside)))
        off = offsets[:factors]
        _offsets(states, inside, sizes, steps, off)
        for r in range(begin, end):
            if weight[r] == 0.0:
                continue
            at = base_start[p] + (r - row_start[p]) * factors
            where = base[at : at + factors]
            if hard:
                best, top = _best(log_tables, where, off, states)
                if best < 0:
                    return total, r
                total += weight[r] * top
                for f in range(factors):
                    counts[where[f] + off[f, best]] += weight[r]
                continue
            for j in range(states):
                values[j] = 1.0
            for f in range(factors):
                here = where[f]
                for j in range(states):
                    values[j] *= tables[here + off[f, j]]
            mass = 0.0
            for j in range(states):
                mass += values[j]
            log_mass = 0.0
            if _LEAST < mass < _MOST:
                log_mass = np.log(mass)
            else:
                log_mass, mass = _log_weights(log_tables, where, off, states, values)
                if mass == 0.0:
                    return total, r
            total += weight[r] * log_mass
            share = weight[r] / mass
            for f in range(factors):
                here = where[f]
                for j in range(states):
                    counts[here + off[f, j]] += values[j] * share
        p += 1
    return total, -1


@jit
def sum_on_tree(
    log_tables,
    weight,
    base,
    step,
    leaf_start,
    leaf_offset,
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
    state_start,
    home,
    roots,
    hard,
    counts,
):
    """All rows of one part on its join tree; returns as `enumerate_parts` does.

    Parameters
    ----------
    log_tables, weight, counts
        As in `enumerate_parts`.
    base, step
        Matrices (rows, factors) and (factors, hidden variables).
    leaf_start, leaf_offset
        The entries of each leaf, relative to its factor's base.
    scope_start, scope, left, right, drop_start, drop, start, axes, offset, sizes, state_start, home, roots
        The join tree over the part's own variables.
    """
    leaves, n = len(leaf_start) - 1, len(sizes)
    local = np.empty(leaf_start[-1])
    arena = np.empty(offset[-1])
    heat = np.zeros(n) if hard else np.ones(n)
    chosen = np.zeros((1, n), np.int64)
    nothing = np.empty((1, 0))
    total = 0.0
    for r in range(len(weight)):
        if weight[r] == 0.0:
            continue
        for a in range(leaves):
            for e in range(leaf_start[a], leaf_start[a + 1]):
                local[e] = log_tables[base[r, a] + leaf_offset[e]]
        logs = False
        while True:
            code, scale = upward(
                local, leaf_start[:-1], scope_start, scope, left, right, drop_start, drop, start, axes,
                offset, sizes, heat, logs, arena,
            )  # fmt: skip
            if code == FINE and not hard:
                code = downward(
                    left, right, drop_start, drop, start, axes, offset, leaves, sizes, heat, logs, arena
                )
            if code != UNDERFLOW:
                break
            logs = True
        if code == IMPOSSIBLE:
            return total, r
        for k in range(len(roots)):
            total += weight[r] * scale[roots[k]]
        if hard:
            chosen[:] = 0
            trace_states(
                left, right, drop_start, drop, start, axes, offset, sizes, heat, logs, arena, nothing, chosen
            )
            for a in range(leaves):
                entry = base[r, a]
                for k in range(n):
                    entry += step[a, k] * chosen[0, k]
                counts[entry] += weight[r]
            continue
        found, _ = read_marginals(
            scope_start, scope, start, axes, offset, sizes, state_start, home, logs, arena
        )
        for a in range(leaves):
            for e in range(leaf_start[a], leaf_start[a + 1]):
                counts[base[r, a] + leaf_offset[e]] += weight[r] * found[e]
    return total, -1


@jit
def count_pairs(columns, weights, sizes, state_start, first, last, counts):
    """Weighted counts of the joint states of variables i and j > i, for i in first:last.

    `columns` (n, rows) holds one variable per row, -1 where missing; `counts` (flat states, flat
    states) is filled above its diagonal of blocks. Rows that miss either value do not count.
    """
    n, rows = columns.shape
    for i in range(first, last):
        for j in range(i + 1, n):
            width = sizes[j]
            table = np.zeros(sizes[i] * width)
            for r in range(rows):
                a, b = columns[i, r], columns[j, r]
                if a >= 0 and b >= 0:
                    table[a * width + b] += weights[r]
            for a in range(sizes[i]):
                for b in range(width):
                    counts[state_start[i] + a, state_start[j] + b] = table[a * width + b]
