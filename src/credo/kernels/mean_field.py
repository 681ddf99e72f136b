"""Coordinate updates of mean field, one variable at a time or one cluster at a time.

Beliefs lie flat over all states of all variables. For a factor a and one of its variables i,

    expect(x_i) = sum_{x_a without x_i} prod_{j in a, j != i} b_j(x_j) theta_a(x_a),     0 * -inf = 0

so a state that meets a zero entry wherever the others have weight gets -inf, hence belief 0.

A cluster sees of each factor only its piece: the axes that belong to the cluster. The belief of a
factor is then the product of the beliefs of its pieces, one per cluster it touches.
"""

from __future__ import annotations

import numpy as np

from .jit import jit

__all__ = [
    "expect_pieces",
    "expected_logs",
    "expected_score",
    "factor_products",
    "forest_blocks",
    "sweep",
]


@jit
def sweep(
    order,
    log_tables,
    table_start,
    scope_start,
    scope,
    edge_factor,
    edge_stride,
    neighbour_start,
    neighbour_edge,
    state_start,
    beliefs,
):
    """Update the variables in this order, in place; returns the largest change of a belief."""
    digit, prefix = _scratch(scope_start)
    largest = 0
    for i in range(len(state_start) - 1):
        largest = max(largest, state_start[i + 1] - state_start[i])
    total = np.empty(largest)
    change = 0.0
    for i in order:
        first, size = state_start[i], state_start[i + 1] - state_start[i]
        total[:size] = 0.0
        for n in range(neighbour_start[i], neighbour_start[i + 1]):
            e = neighbour_edge[n]
            _expect(
                e,
                log_tables,
                table_start[edge_factor[e]],
                scope_start[edge_factor[e]],
                scope_start[edge_factor[e] + 1],
                scope,
                edge_stride,
                state_start,
                beliefs,
                digit,
                prefix,
                total,
            )
        change = max(change, _normalise(total, first, size, beliefs))
    return change


@jit
def expected_logs(
    log_tables, table_start, scope_start, scope, edge_factor, edge_stride, state_start, beliefs
):
    """Sum of `expect` over the factors around each variable, flat over states."""
    digit, prefix = _scratch(scope_start)
    out = np.zeros(state_start[-1])
    for e in range(len(scope)):
        a, i = edge_factor[e], scope[e]
        _expect(
            e,
            log_tables,
            table_start[a],
            scope_start[a],
            scope_start[a + 1],
            scope,
            edge_stride,
            state_start,
            beliefs,
            digit,
            prefix,
            out[state_start[i] : state_start[i + 1]],
        )
    return out


@jit
def expected_score(log_tables, table_start, scope_start, scope, edge_stride, state_start, beliefs):
    """Expectation of the sum of all log tables under the product of the beliefs."""
    digit, prefix = _scratch(scope_start)
    largest = 1
    for i in range(len(state_start) - 1):
        largest = max(largest, state_start[i + 1] - state_start[i])
    part = np.empty(largest)
    score = 0.0
    for a in range(len(table_start)):
        e = scope_start[a]
        if scope_start[a + 1] == e:
            score += log_tables[table_start[a]]
            continue
        first, last = state_start[scope[e]], state_start[scope[e] + 1]
        part[: last - first] = 0.0
        _expect(
            e,
            log_tables,
            table_start[a],
            e,
            scope_start[a + 1],
            scope,
            edge_stride,
            state_start,
            beliefs,
            digit,
            prefix,
            part,
        )
        for s in range(first, last):
            if beliefs[s] > 0.0:
                score += beliefs[s] * part[s - first]
    return score


@jit
def _scratch(scope_start):
    widest = 1
    for a in range(len(scope_start) - 1):
        widest = max(widest, scope_start[a + 1] - scope_start[a])
    prefix = np.ones(widest + 1)
    return np.zeros(widest, np.int64), prefix


@jit
def _expect(e, log_tables, base, first, last, scope, edge_stride, state_start, beliefs, digit, prefix, out):
    """Add factor a's `expect` for the variable of edge e to `out`; the factor's edges are first:last."""
    arity = last - first
    mine = e - first
    stride = edge_stride[e]
    size = state_start[scope[e] + 1] - state_start[scope[e]]
    if arity == 1:
        for s in range(size):
            out[s] += log_tables[base + s]
    elif arity == 2:
        other = last - 1 if mine == 0 else first
        j = scope[other]
        low, count, step = state_start[j], state_start[j + 1] - state_start[j], edge_stride[other]
        for s in range(size):
            value, at = 0.0, base + s * stride
            for t in range(count):
                weight = beliefs[low + t]
                if weight > 0.0:
                    value += weight * log_tables[at + t * step]
            out[s] += value
    else:
        _expect_wide(e, log_tables, base, first, last, scope, state_start, beliefs, digit, prefix, out)


@jit
def _expect_wide(e, log_tables, base, first, last, scope, state_start, beliefs, digit, prefix, out):
    """`_expect` for three or more variables; apart, so that the short cases are inlined."""
    arity, mine = last - first, e - first
    # prefix[k] is the product of the beliefs of the first k axes at the current digits, so an
    # entry costs amortised constant time whatever the arity.
    digit[:arity] = 0
    k, entry = 0, base
    while k >= 0:
        for h in range(k, arity):
            weight = 1.0 if h == mine else beliefs[state_start[scope[first + h]] + digit[h]]
            prefix[h + 1] = prefix[h] * weight
        if prefix[arity] > 0.0:
            out[digit[mine]] += prefix[arity] * log_tables[entry]
        entry += 1
        k = arity - 1
        while k >= 0:
            j = scope[first + k]
            digit[k] += 1
            if digit[k] < state_start[j + 1] - state_start[j]:
                break
            digit[k] = 0
            k -= 1


@jit
def _normalise(logs, first, size, beliefs):
    """Set beliefs to the normalised exponentials; returns the largest change."""
    top = -np.inf
    for s in range(size):
        top = max(top, logs[s])
    if top == -np.inf:
        return 0.0  # only from an infeasible start; the old belief is no worse
    norm = 0.0
    for s in range(size):
        logs[s] = np.exp(logs[s] - top)
        norm += logs[s]
    change = 0.0
    for s in range(size):
        new = logs[s] / norm
        change = max(change, abs(new - beliefs[first + s]))
        beliefs[first + s] = new
    return change


@jit
def expect_pieces(
    pieces,
    piece_factor,
    piece_start,
    edge_piece,
    piece_stride,
    leads,
    log_tables,
    table_start,
    scope_start,
    scope,
    edge_stride,
    sizes,
    beliefs,
    at,
    out,
):
    """Fill the tables of these pieces: the factor's log table expected under its other pieces.

    Parameters
    ----------
    pieces
        Which pieces to fill.
    piece_factor, piece_start
        Factor of each piece; where its table begins in `beliefs` and `out`.
    edge_piece, piece_stride, leads
        Per edge of the graph: its piece, its step in the piece's table, and whether it is the
        first edge of its piece.
    beliefs
        Tables of all pieces.
    at
        Scratch, one integer per piece.
    """
    for p in pieces:
        out[piece_start[p] : piece_start[p + 1]] = 0.0
        a = piece_factor[p]
        first, last = scope_start[a], scope_start[a + 1]
        size = 1
        for e in range(first, last):
            size *= sizes[scope[e]]
        for entry in range(size):
            _locate(entry, first, last, scope, edge_stride, sizes, edge_piece, piece_stride, leads, at)
            weight = 1.0
            for e in range(first, last):
                q = edge_piece[e]
                if leads[e] and q != p:
                    weight *= beliefs[piece_start[q] + at[q]]
            if weight > 0.0:
                out[piece_start[p] + at[p]] += weight * log_tables[table_start[a] + entry]


@jit
def factor_products(
    piece_start, edge_piece, piece_stride, leads, out_start, scope_start, scope, edge_stride, sizes, beliefs
):
    """Belief of every factor, the product of its pieces; tables begin at `out_start` (m + 1)."""
    at = np.zeros(len(piece_start) - 1, np.int64)
    out = np.empty(out_start[-1])
    for a in range(len(scope_start) - 1):
        first, last = scope_start[a], scope_start[a + 1]
        for entry in range(out_start[a + 1] - out_start[a]):
            _locate(entry, first, last, scope, edge_stride, sizes, edge_piece, piece_stride, leads, at)
            weight = 1.0
            for e in range(first, last):
                if leads[e]:
                    weight *= beliefs[piece_start[edge_piece[e]] + at[edge_piece[e]]]
            out[out_start[a] + entry] = weight
    return out


@jit
def _locate(entry, first, last, scope, edge_stride, sizes, edge_piece, piece_stride, leads, at):
    """Write to `at` which entry of each of the factor's pieces a table entry belongs to."""
    for e in range(first, last):
        if leads[e]:
            at[edge_piece[e]] = 0
    for e in range(first, last):
        at[edge_piece[e]] += (entry // edge_stride[e]) % sizes[scope[e]] * piece_stride[e]


@jit
def forest_blocks(order, scope_start, neighbour_start, neighbour_factor):
    """Label of a block per variable; the factors between the members of a block form no loop.

    Blocks are filled one after another, each taking in the given order every variable that
    closes no loop with those it has already.
    """
    n, factors = len(neighbour_start) - 1, len(scope_start) - 1
    label = np.full(n, -1, np.int64)
    parent = np.empty(factors, np.int64)
    seen = np.zeros(factors, np.int64)
    waiting = order.copy()
    count, block, stamp = len(order), 0, 0
    while count > 0:
        # Two factors are joined when a path of members connects them.
        for a in range(factors):
            parent[a] = a
        left = 0
        for w in range(count):
            i = waiting[w]
            first, last = neighbour_start[i], neighbour_start[i + 1]
            loop = False
            stamp += 1
            for n1 in range(first, last):
                root = _root(parent, neighbour_factor[n1])
                loop = loop or seen[root] == stamp
                seen[root] = stamp
            if loop:
                waiting[left] = i
                left += 1
                continue
            label[i] = block
            for n1 in range(first + 1, last):
                parent[_root(parent, neighbour_factor[n1])] = _root(parent, neighbour_factor[first])
        count = left
        block += 1
    return label


@jit
def _root(parent, a):
    while parent[a] != a:
        parent[a] = parent[parent[a]]
        a = parent[a]
    return a
