r"""Hidden chains with one transition matrix: forward-backward on scaled probabilities, for long data.

    p(s, x) = start(s_1) w_1(s_1) prod_t step(s_{t-1}, s_t) w_t(s_t)

The layout is that of `chains`: sequence i owns the rows start[i]:start[i+1]. Weights are linear, each row
divided by its maximum, whose logarithm is in `shift`; `start` and `step` need not be normalised. Steps are
matrix-vector products whose inner loops use the vector units, and what the pair sums need is kept per
position, so that they are one matrix product at the end:

    v_t = w_t back_t,   sum_t p(s_{t-1} = j, s_t = k) = step[j, k] sum_t alpha_{t-1}(j) v_t(k) / norm_t

A weight below the smallest number becomes zero. Whether that could have mattered is seen in the backward
pass: a lost weight is below 1e-200 of the largest, so it changes a marginal only where the kept paths
carry less than that of the largest backward value. Such sequences are reported, to be done in logarithms.
"""

from __future__ import annotations

import numpy as np

from .jit import jit

__all__ = ["FINE", "backward_pass", "forward_pass", "pair_sums", "scaled_rows"]

FINE, DOUBTFUL, LOST = 0, 1, 2  # per sequence: exact; exact unless the backward pass objects; do it in logs
_SMALL = 1e-200  # forward numbers below this may stand for lost weights
_MARGIN = 1e-150  # kept paths must carry this much of the largest backward value


@jit
def scaled_rows(scores, weights, shift):
    """exp(score - top of its row) into `weights`, the tops into `shift`; a row of -inf has weights 0."""
    for t in range(len(scores)):
        top = -np.inf
        for k in range(scores.shape[1]):
            top = max(top, scores[t, k])
        shift[t] = top if top > -np.inf else 0.0
        for k in range(scores.shape[1]):
            gap = scores[t, k] - shift[t]
            weights[t, k] = np.exp(gap) if gap > -745.0 else 0.0


@jit
def _advance(before, step, after):
    """after = before @ step, four rows of the matrix at a time."""
    states = len(before)
    whole = states - states % 4
    for k in range(states):
        after[k] = 0.0
    for j in range(0, whole, 4):
        a, b, c, d = before[j], before[j + 1], before[j + 2], before[j + 3]
        for k in range(states):
            after[k] += a * step[j, k] + b * step[j + 1, k] + c * step[j + 2, k] + d * step[j + 3, k]
    for j in range(whole, states):
        a = before[j]
        for k in range(states):
            after[k] += a * step[j, k]


@jit
def forward_pass(initial, step, weights, shift, start, alpha, log_z, state):
    """Filtered probabilities into `alpha`, log-likelihoods into `log_z`, what they are worth in `state`."""
    states = weights.shape[1]
    guess = np.empty(states)
    for s in range(len(start) - 1):
        first, last = start[s], start[s + 1]
        state[s] = FINE
        total_log, product = 0.0, 1.0
        for t in range(first, last):
            if t == first:
                for k in range(states):
                    guess[k] = initial[k]
            else:
                _advance(alpha[t - 1], step, guess)
            total, low = 0.0, np.inf
            for k in range(states):
                a = guess[k] * weights[t, k]
                alpha[t, k] = a
                total += a
                low = min(low, a)
            if not total > 0.0 or total == np.inf:
                state[s] = LOST
                break
            if low < _SMALL * total:
                for k in range(states):
                    if alpha[t, k] < _SMALL * total and guess[k] > 0.0:
                        state[s] = DOUBTFUL
            inverse = 1.0 / total
            for k in range(states):
                alpha[t, k] *= inverse
            # The logarithm of a product of a few totals costs one call instead of many.
            if 1e-100 < total < 1e100:
                product *= total
                if not 1e-100 < product < 1e100:
                    total_log += np.log(product)
                    product = 1.0
            else:
                total_log += np.log(total)
            total_log += shift[t]
        log_z[s] = total_log + np.log(product) if state[s] != LOST else -np.inf


@jit
def backward_pass(step, weights, start, alpha, marginals, state):
    """Marginals of every position; overwrites `weights` by v / norm, zero at first positions.

    `turned` holds the transposed steps, so that both passes run along rows.
    """
    states = weights.shape[1]
    turned = np.ascontiguousarray(step.T)
    back, v = np.empty(states), np.empty(states)
    for s in range(len(start) - 1):
        first, last = start[s], start[s + 1]
        if first == last:
            continue
        if state[s] == LOST:
            for t in range(first, last):
                for k in range(states):
                    weights[t, k] = 0.0
                    marginals[t, k] = 0.0
            continue
        doubtful = False
        for k in range(states):
            back[k] = 1.0
            marginals[last - 1, k] = alpha[last - 1, k]
        for t in range(last - 1, first, -1):
            for k in range(states):
                v[k] = weights[t, k] * back[k]
            _advance(v, turned, back)
            norm, peak = 0.0, 0.0
            for j in range(states):
                m = alpha[t - 1, j] * back[j]
                marginals[t - 1, j] = m
                norm += m
                peak = max(peak, back[j])
            if not norm > _MARGIN * peak:
                doubtful = True
                break
            inverse, shrink = 1.0 / norm, 1.0 / peak
            for k in range(states):
                weights[t, k] = v[k] * inverse
                marginals[t - 1, k] *= inverse
                back[k] *= shrink
        for k in range(states):
            weights[first, k] = 0.0
        if doubtful:
            state[s] = LOST
            for t in range(first, last):
                for k in range(states):
                    weights[t, k] = 0.0
        else:
            state[s] = FINE


@jit
def _gather(left, right, out):
    """out += left^T right, four rows at a time; a library's threads would wait longer than this takes."""
    rows, states = left.shape
    whole = rows - rows % 4
    for t in range(0, whole, 4):
        for j in range(states):
            a, b, c, d = left[t, j], left[t + 1, j], left[t + 2, j], left[t + 3, j]
            for k in range(states):
                out[j, k] += (
                    a * right[t, k] + b * right[t + 1, k] + c * right[t + 2, k] + d * right[t + 3, k]
                )
    for t in range(whole, rows):
        for j in range(states):
            a = left[t, j]
            for k in range(states):
                out[j, k] += a * right[t, k]


def pair_sums(step: np.ndarray, alpha: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Expected numbers of transitions (states, states), from what the two passes left behind."""
    out = np.zeros(step.shape)
    _gather(alpha[:-1], right[1:], out)
    return step * out
