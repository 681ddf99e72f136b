r"""Block-coordinate Frank-Wolfe over labelled chains: the oracle of one chain, its line search, one pass.

    minimise  1/2 |w|^2 + C sum_n [ max_y { loss_n(y) + S_n(y; w) } - c_n - g_n . w ]

    S_n(y) = sum_t eps log sum_s exp(v_t(y_t, s) / eps) + sum_t move(y_{t-1}, y_t)
    v_t(y, s) = sum_b x_bt W_b[:, y, s]

The hidden state s of a position touches its label only, so it is summed first (maximised where eps = 0) and
what remains is a Viterbi recursion. One hidden state is none.

Chain n keeps a plane below its maximum, B_n + M_n . v, where M_n mixes statistics of labellings seen before
(of positions: columns (label, hidden state); of steps: one table) and B_n the offsets that belong to them. So
features are multiplied in where a weight moves and are never expanded, and w = C sum_n (g_n - M_n). With the
oracle's answer (m, b), dM = m - M_n, db = b - B_n:

    gamma = clip( (db + dM . v) / (C |x dM|^2), 0, 1 )
    M_n += gamma dM,    B_n += gamma db,    w -= C gamma x dM

Averages weight place k by 2 / (k + 2). They are kept as w - scale u, so that a step touches no more of u than
of w.

Weights are flat: block b of features lies at first[b] with cols[b] columns, and column j of a position reads
column[b, j] of it; the last entries are the moves. Features are sparse rows, (block, position) after another;
`value` is empty where all are ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .jit import inlined, jit

__all__ = ["ChainFeatures", "Planes", "plane_pass", "plane_values"]


class ChainFeatures(NamedTuple):
    """Sparse features of the positions of all chains, and where their weights stand."""

    start: np.ndarray  # (chains + 1,)
    row: np.ndarray  # (blocks, positions + 1) where the features of a position begin
    feature: np.ndarray  # numbers of features
    value: np.ndarray  # their values; empty where all are one
    first: np.ndarray  # (blocks,) where the weights of a block begin
    cols: np.ndarray  # (blocks,) how many columns they have
    column: np.ndarray  # (blocks, labels * hidden states) which column a label with a hidden state reads
    straight: np.ndarray  # (blocks,) whether that is column by column
    labels: int
    weights: int  # how many there are, moves included


class Planes(NamedTuple):
    """What a pass changes, in place."""

    w: np.ndarray  # weights
    behind: np.ndarray  # u: the average is w - scale u
    rows: np.ndarray  # (positions, labels * hidden states) M_n of positions
    moves: np.ndarray  # (chains, labels, labels) M_n of steps
    offset: np.ndarray  # (chains,) B_n
    tally: np.ndarray  # steps done, scale of the average, sum of B_n, its average


@inlined
def _add_row(value, q, w, at, cols, total, t, plain):
    """Add one feature's weights to the scores of a position, column by column."""
    if plain:
        for k in range(cols):
            total[t, k] += w[at + k]
    else:
        x = value[q]
        for k in range(cols):
            total[t, k] += x * w[at + k]


@jit
def _score(x, begin, end, w, part, total):
    """Scores v of one chain into `total`, (positions, labels * hidden states)."""
    width = total.shape[1]
    plain = len(x.value) == 0
    for t in range(end - begin):
        for j in range(width):
            total[t, j] = 0.0
    for b in range(len(x.first)):
        cols, first, straight = x.cols[b], x.first[b], x.straight[b]
        into = total if straight else part
        for t in range(end - begin):
            if not straight:
                for k in range(cols):
                    part[t, k] = 0.0
            q, last = x.row[b, begin + t], x.row[b, begin + t + 1]
            if plain:
                while q + 4 <= last:  # four at a time: sums are read and written once for them
                    a0, a1 = first + x.feature[q] * cols, first + x.feature[q + 1] * cols
                    a2, a3 = first + x.feature[q + 2] * cols, first + x.feature[q + 3] * cols
                    for k in range(cols):
                        into[t, k] += (w[a0 + k] + w[a1 + k]) + (w[a2 + k] + w[a3 + k])
                    q += 4
            while q < last:
                _add_row(x.value, q, w, first + x.feature[q] * cols, cols, into, t, plain)
                q += 1
            if not straight:
                for j in range(width):
                    total[t, j] += part[t, x.column[b, j]]


@jit
def _without_hidden(total, count, labels, eps, node):
    """Scores of labels: hidden states summed out at temperature eps, maximised at zero."""
    hidden = total.shape[1] // labels
    for t in range(count):
        for y in range(labels):
            top = total[t, y * hidden]
            for s in range(1, hidden):
                top = max(top, total[t, y * hidden + s])
            if eps > 0.0 and hidden > 1:
                rest = 0.0
                for s in range(hidden):
                    rest += np.exp((total[t, y * hidden + s] - top) / eps)
                top += eps * np.log(rest)
            node[t, y] = top


@jit
def _best_labels(node, count, moves, best, path):
    """The best labelling of one chain and its value; ties go to the lowest label."""
    labels = node.shape[1]
    for k in range(labels):
        best[0, k] = node[0, k]
    for t in range(1, count):
        for k in range(labels):
            best[t, k] = best[t - 1, 0] + moves[0, k]
        for j in range(1, labels):
            old = best[t - 1, j]
            for k in range(labels):
                here = old + moves[j, k]
                best[t, k] = here if here > best[t, k] else best[t, k]
        for k in range(labels):
            best[t, k] += node[t, k]
    value, at = -np.inf, 0
    for k in range(labels):
        if best[count - 1, k] > value:
            value, at = best[count - 1, k], k
    path[count - 1] = at
    for t in range(count - 1, 0, -1):
        top, from_ = -np.inf, 0
        for j in range(labels):
            here = best[t - 1, j] + moves[j, at]
            if here > top:
                top, from_ = here, j
        path[t - 1] = at = from_
    return value


@jit
def _toward(total, node, count, path, labels, eps, kept, away):
    """Statistics of a labelling less those kept, per position, into `away`; S less what the scores explain.

    The second is the entropy of the hidden states, times eps.
    """
    hidden = total.shape[1] // labels
    entropy = 0.0
    for t in range(count):
        for j in range(total.shape[1]):
            away[t, j] = -kept[t, j]
        base = path[t] * hidden
        if hidden == 1:
            away[t, base] += 1.0
        elif eps > 0.0:
            for s in range(hidden):
                p = np.exp((total[t, base + s] - node[t, path[t]]) / eps)
                away[t, base + s] += p
                entropy -= p * (total[t, base + s] - node[t, path[t]])
        else:
            best = 0
            for s in range(1, hidden):
                if total[t, base + s] > total[t, base + best]:
                    best = s
            away[t, base + best] += 1.0
    return entropy


@jit
def _pull(x, begin, end, work, stamp):
    """Slope x dM of one chain, in rows that were zero before; returns how many were touched."""
    found, width, plain = 0, work.away.shape[1], len(x.value) == 0
    row = work.part[0]
    for b in range(len(x.first)):
        cols, first, straight = x.cols[b], x.first[b], x.straight[b]
        for t in range(end - begin):
            moved = 0.0
            for k in range(cols):
                row[k] = 0.0
            for j in range(width):
                row[j if straight else x.column[b, j]] += work.away[t, j]
                moved = max(moved, abs(work.away[t, j]))
            if moved == 0.0:
                continue
            for q in range(x.row[b, begin + t], x.row[b, begin + t + 1]):
                at = first + x.feature[q] * cols
                if work.mark[at] != stamp:
                    work.mark[at] = stamp
                    work.touched[found, 0], work.touched[found, 1] = at, at + cols
                    found += 1
                by = 1.0 if plain else x.value[q]
                for k in range(cols):
                    work.slope[at + k] += by * row[k]
    return found


class _Scratch(NamedTuple):
    """Room for the longest chain, and for slopes by weights."""

    part: np.ndarray  # scores of one block
    total: np.ndarray  # scores v
    node: np.ndarray  # scores of labels
    charged: np.ndarray  # the same with the loss
    best: np.ndarray  # the recursion
    path: np.ndarray  # the oracle's labels
    away: np.ndarray  # dM of positions
    step: np.ndarray  # dM of steps
    slope: np.ndarray  # x dM
    mark: np.ndarray  # which rows of it belong to the present chain
    touched: np.ndarray  # begin and end of these rows


@jit
def _scratch(x, weights, width):
    """Room for a pass."""
    longest = 1
    for n in range(len(x.start) - 1):
        longest = max(longest, x.start[n + 1] - x.start[n])
    widest, labels = max(width, x.cols.max()), x.labels
    return _Scratch(
        np.empty((longest, widest)),
        np.empty((longest, width)),
        np.empty((longest, labels)),
        np.empty((longest, labels)),
        np.empty((longest, labels)),
        np.empty(longest, np.int64),
        np.empty((longest, width)),
        np.empty((labels, labels)),
        np.zeros(weights),
        np.full(weights, -1, np.int64),
        np.empty((weights // max(1, x.cols.min()) + 1, 2), np.int64),
    )


@jit
def _answer(x, n, w, moves, charges, eps, work):
    """The oracle: the labelling of the largest loss and score, into `path`; what both are together."""
    begin, count = x.start[n], x.start[n + 1] - x.start[n]
    _score(x, begin, begin + count, w, work.part, work.total)
    _without_hidden(work.total, count, x.labels, eps, work.node)
    for t in range(count):
        for y in range(x.labels):
            work.charged[t, y] = work.node[t, y] + charges[begin + t, y]
    return _best_labels(work.charged, count, moves, work.best, work.path)


@jit
def _gain(planes, n, moves, count, offset, work):
    """Gap of one chain, db + dM . v; dM of steps is made on the way. Also the square of that of steps."""
    labels = moves.shape[0]
    for j in range(labels):
        for k in range(labels):
            work.step[j, k] = -planes.moves[n, j, k]
    for t in range(1, count):
        work.step[work.path[t - 1], work.path[t]] += 1.0
    gain, norm = offset - planes.offset[n], 0.0
    for t in range(count):
        for j in range(work.away.shape[1]):
            gain += work.away[t, j] * work.total[t, j]
    for j in range(labels):
        for k in range(labels):
            gain += work.step[j, k] * moves[j, k]
            norm += work.step[j, k] * work.step[j, k]
    return gain, norm


@jit
def _move(planes, n, begin, count, gamma, scale, offset, found, moves, behind, work):
    """Take the step: plane, weights, averages."""
    k, tally = planes.tally[0], planes.tally
    by, ahead = scale * gamma, scale * gamma / tally[1] if k > 0.0 else 0.0
    for f in range(found):
        for i in range(work.touched[f, 0], work.touched[f, 1]):
            planes.w[i] -= by * work.slope[i]
            planes.behind[i] -= ahead * work.slope[i]
            work.slope[i] = 0.0
    for i in range(moves.shape[0]):
        for j in range(moves.shape[1]):
            moves[i, j] -= by * work.step[i, j]
            behind[i, j] -= ahead * work.step[i, j]
            planes.moves[n, i, j] += gamma * work.step[i, j]
    for t in range(count):
        for j in range(work.away.shape[1]):
            planes.rows[begin + t, j] += gamma * work.away[t, j]
    tally[2] += gamma * (offset - planes.offset[n])
    planes.offset[n] += gamma * (offset - planes.offset[n])
    tally[0] = k + 1.0
    if k > 0.0:
        tally[1] *= k / (k + 2.0)
    tally[3] += (tally[2] - tally[3]) * 2.0 / (k + 2.0)


@jit
def plane_pass(x, planes, charges, eps, scale, order):
    """Steps on the chains of `order`, one after another; the sum of the gaps met on the way.

    `charges` (positions, labels) is the loss of a label at a position; `scale` is C.
    """
    labels = x.labels
    work = _scratch(x, len(planes.w), planes.rows.shape[1])
    last = len(planes.w) - labels * labels
    moves = planes.w[last:].reshape(labels, labels)
    behind = planes.behind[last:].reshape(labels, labels)
    met = 0.0
    for turn in range(len(order)):
        n = order[turn]
        begin, end = x.start[n], x.start[n + 1]
        count = end - begin
        if count == 0:
            continue
        _answer(x, n, planes.w, moves, charges, eps, work)
        kept = planes.rows[begin:end]
        offset = _toward(work.total, work.node, count, work.path, labels, eps, kept, work.away)
        for t in range(count):
            offset += charges[begin + t, work.path[t]]
        gain, norm = _gain(planes, n, moves, count, offset, work)
        found = _pull(x, begin, end, work, turn)
        for f in range(found):
            for i in range(work.touched[f, 0], work.touched[f, 1]):
                norm += work.slope[i] * work.slope[i]
        gamma = 0.0
        if gain > 0.0:
            gamma = 1.0 if gain >= scale * norm else gain / (scale * norm)
        met += max(gain, 0.0)
        _move(planes, n, begin, count, gamma, scale, offset, found, moves, behind, work)
    return met


@jit
def plane_values(x, w, charges, eps, values, labels):
    """max_y { loss + S } of every chain at fixed weights, and the labels of it."""
    width = x.column.shape[1]
    work = _scratch(x, len(w), width)
    moves = w[len(w) - x.labels * x.labels :].reshape(x.labels, x.labels)
    for n in range(len(x.start) - 1):
        begin, count = x.start[n], x.start[n + 1] - x.start[n]
        values[n] = 0.0
        if count:
            values[n] = _answer(x, n, w, moves, charges, eps, work)
            for t in range(count):
                labels[begin + t] = work.path[t]
