r"""Belief propagation between two layers of two-state units, one number per pair and direction.

A message is its ratio q = m(1) / m(0); o are the odds of a unit by all messages to it. From unit j to unit i

    q_new = (e^W o_j / q + 1) / (o_j / q + 1) = (e^W o_j + q) / (o_j + q),      q the message from i to j

so that both directions share one matrix: what is sent to the left replaces what came from there. Maxima have
sums of max(W + c, 0) - max(c, 0) instead, c = log o_j / q. All messages to the left come first, then those to
the right. A logarithm is taken of the product of `flush` ratios. Arrays are of one precision, that of `one`.
"""

from __future__ import annotations

import numpy as np

from .jit import jit, parallel, prange

__all__ = [
    "layer_batch",
    "layer_maxima",
    "layer_read",
    "layer_sums",
    "layer_sums_parallel",
]


@jit
def _to_left(first, last, weights, q, odds, fields, beliefs, flush, one):
    """Messages to the units first..last of the left layer, and their log-odds."""
    n = len(odds)
    for i in range(first, last):
        total = 0.0
        for begin in range(0, n, flush):
            product = one
            for j in range(begin, min(begin + flush, n)):
                new = (weights[i, j] * odds[j] + q[i, j]) / (odds[j] + q[i, j])
                q[i, j] = new
                product *= new
            total += np.log(product)
        beliefs[i] = fields[i] + total


@jit
def _to_right(first, last, weights, q, odds, products, sums, flush, one):
    """Messages from the units first..last of the left layer; their logarithms are added to `sums`."""
    n = len(sums)
    for j in range(n):
        products[j] = one
    for i in range(first, last):
        o = odds[i]
        for j in range(n):
            new = (weights[i, j] * o + q[i, j]) / (o + q[i, j])
            q[i, j] = new
            products[j] *= new
        if (i - first) % flush == flush - 1 or i == last - 1:
            for j in range(n):
                sums[j] += np.log(products[j])
                products[j] = one


@jit
def _odds(beliefs, limit, odds):
    """Odds of log-odds, which are cut at a limit."""
    for k in range(len(beliefs)):
        odds[k] = np.exp(min(max(beliefs[k], -limit), limit))


@jit
def _probability(log_odds):
    if log_odds >= 0.0:
        return 1.0 / (1.0 + np.exp(-log_odds))
    small = np.exp(log_odds)
    return small / (1.0 + small)


@jit
def _moved(old, new):
    """The largest change of a probability; NaN counts as endless."""
    worst = 0.0
    for k in range(len(old)):
        gap = abs(_probability(old[k]) - _probability(new[k]))
        if not gap <= worst:
            worst = gap if gap == gap else np.inf
    return worst


@jit
def _sweep(weights, q, left, right, beliefs, work, flush, limit, one):
    """One sweep of a whole instance; `beliefs` and `work` have the left units, then the right ones."""
    m, n = weights.shape
    _odds(beliefs[m:], limit, work[m:])
    _to_left(0, m, weights, q, work[m:], left, beliefs[:m], flush, one)
    _odds(beliefs[:m], limit, work[:m])
    for j in range(n):
        beliefs[m + j] = right[j]
    _to_right(0, m, weights, q, work[:m], work[m:], beliefs[m:], flush, one)


@jit
def layer_sums(weights, q, left, right, beliefs, flush, limit, one, sweeps, tol):
    """Sweeps of sum-product, in place; the largest change of a belief in each.

    `weights` are e^W, `q` the messages to the right, `beliefs` the log-odds of both layers.
    """
    changes = np.zeros(sweeps)
    work, old = np.empty_like(beliefs), np.empty_like(beliefs)
    for turn in range(sweeps):
        old[:] = beliefs
        _sweep(weights, q, left, right, beliefs, work, flush, limit, one)
        changes[turn] = _moved(old, beliefs)
        if not changes[turn] >= tol:
            return changes[: turn + 1]
    return changes


@parallel
def layer_sums_parallel(weights, q, left, right, beliefs, flush, limit, one, sweeps, tol, blocks):
    """As `layer_sums`, with blocks of left units side by side."""
    m, n = weights.shape
    changes = np.zeros(sweeps)
    work, old = np.empty_like(beliefs), np.empty_like(beliefs)
    products = np.empty((blocks, n), beliefs.dtype)
    sums = np.empty((blocks, n), beliefs.dtype)
    for turn in range(sweeps):
        old[:] = beliefs
        _odds(beliefs[m:], limit, work[m:])
        for block in prange(blocks):
            first, last = block * m // blocks, (block + 1) * m // blocks
            _to_left(first, last, weights, q, work[m:], left, beliefs[:m], flush, one)
        _odds(beliefs[:m], limit, work[:m])
        for block in prange(blocks):
            first, last = block * m // blocks, (block + 1) * m // blocks
            for j in range(n):
                sums[block, j] = 0.0
            _to_right(first, last, weights, q, work[:m], products[block], sums[block], flush, one)
        for j in range(n):
            total = right[j]
            for block in range(blocks):
                total += sums[block, j]
            beliefs[m + j] = total
        changes[turn] = _moved(old, beliefs)
        if not changes[turn] >= tol:
            return changes[: turn + 1]
    return changes


@jit
def layer_maxima(weights, logs, left, right, beliefs, sweeps, tol):
    """Sweeps of max-product, in place; `weights` are W, `logs` the messages to the right as logarithms."""
    m, n = weights.shape
    changes = np.zeros(sweeps)
    old = np.empty_like(beliefs)
    for turn in range(sweeps):
        old[:] = beliefs
        for i in range(m):
            total = left[i]
            for j in range(n):
                c = beliefs[m + j] - logs[i, j]
                new = max(weights[i, j] + c, 0.0) - max(c, 0.0)
                logs[i, j] = new
                total += new
            beliefs[i] = total
        for j in range(n):
            beliefs[m + j] = right[j]
        for i in range(m):
            for j in range(n):
                c = beliefs[i] - logs[i, j]
                new = max(weights[i, j] + c, 0.0) - max(c, 0.0)
                logs[i, j] = new
                beliefs[m + j] += new
        changes[turn] = _moved(old, beliefs)
        if not changes[turn] >= tol:
            return changes[: turn + 1]
    return changes


@jit
def layer_read(weights, q, beliefs, share, pairs):
    """The Bethe log Z; adds `share` times p(v_i = 1, h_j = 1) to `pairs` where that has entries.

    Of every pair sum over both states of e^(W x y) times what either unit believes without the other's
    message, relative to the two beliefs.
    """
    m, n = weights.shape
    value = 0.0
    for k in range(m + n):
        value += max(beliefs[k], 0.0) + np.log1p(np.exp(-abs(beliefs[k])))
    for i in range(m):
        p = _probability(beliefs[i])
        for j in range(n):
            r = _probability(beliefs[m + j])
            b = r / q[i, j]  # both times 1 - r, for odds that are infinite
            sent = (weights[i, j] * b + 1.0 - r) / (b + 1.0 - r)
            a = p / sent
            both = weights[i, j] * a * b
            norm = (1.0 - p) * (1.0 - r) + a * (1.0 - r) + (1.0 - p) * b + both
            value += np.log(norm)
            if len(pairs):
                pairs[i, j] += share * both / norm
    return value


@parallel
def layer_batch(
    weights, left, right, shares, flush, limit, one, sweeps, tol, blocks, beliefs, values, pairs
):  # fmt: skip
    """Sum-product on many pairs of layers with the same weights, each from its first messages.

    Fills `beliefs` (instances, units) and `values` (log Z); adds pair probabilities times shares to
    `pairs` (blocks, m, n). Returns (instances,) the last changes and the numbers of sweeps.
    """
    count = len(left)
    m, n = weights.shape
    last, done = np.empty(count), np.empty(count, np.int64)
    for block in prange(blocks):
        q = np.empty((m, n), weights.dtype)
        work, old = np.empty(m + n, weights.dtype), np.empty(m + n, weights.dtype)
        for b in range(block * count // blocks, (block + 1) * count // blocks):
            q[:] = one
            own = beliefs[b]
            own[:m] = left[b]
            own[m:] = right[b]
            change, turn = np.inf, 0
            while turn < sweeps and change >= tol:
                old[:] = own
                _sweep(weights, q, left[b], right[b], own, work, flush, limit, one)
                change = _moved(old, own)
                turn += 1
            last[b], done[b] = change, turn
            values[b] = layer_read(weights, q, own, shares[b], pairs[block])
    return last, done
