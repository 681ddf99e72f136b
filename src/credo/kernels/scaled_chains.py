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

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .buffers import empty
from .chains import chain_sums
from .jit import inlined, jit

__all__ = ["Smoothed", "likelihoods", "scaled_rows", "smooth_chains"]

FINE, DOUBTFUL, LOST = 0, 1, 2  # per sequence: exact; exact unless the backward pass objects; do it in logs
_SMALL = 1e-200  # forward numbers below this may stand for lost weights
_LEAST = 1e-100  # a step on which less is left than this has the wrong scale: its losses are not bounded
_MARGIN = 1e-150  # kept paths must carry this much of the largest backward value
_BLOCK = 64  # positions whose marginals wait for their pair sums
_FEW = 1 << 12  # numbers below which whole arrays are as quick as a kernel, and nothing is to be compiled
_LOWEST = -700.0  # exp of less is below what the passes keep
_LOG2E, _LN2 = 1.4426950408889634, 0.6931471805599453


@jit
def _exponentials(values, bits, powers):
    """exp(value) in place, 0 below `_LOWEST`; for values up to 0. `powers` is `bits` seen as floats.

    exp(v) = 2^n exp(r) with |r| <= log(2) / 2: a polynomial for the second, the exponent bits for the first,
    all without calls and branches, so that the loops use the vector units. The relative error is about
    that of rounding v itself.
    """
    for i in range(len(values)):
        v = max(values[i], _LOWEST)
        n = np.floor(v * _LOG2E + 0.5)
        r = v - n * _LN2
        p = 1.6059043836821613e-10
        p = p * r + 2.0876756987868100e-09
        p = p * r + 2.5052108385441720e-08
        p = p * r + 2.7557319223985890e-07
        p = p * r + 2.7557319223985893e-06
        p = p * r + 2.4801587301587302e-05
        p = p * r + 1.9841269841269841e-04
        p = p * r + 1.3888888888888889e-03
        p = p * r + 8.3333333333333333e-03
        p = p * r + 4.1666666666666664e-02
        p = p * r + 1.6666666666666666e-01
        p = p * r + 0.5
        p = p * r + 1.0
        p = p * r + 1.0
        bits[i] = np.int64(np.int32(n) + 1023) << 52
        values[i] = p if values[i] > _LOWEST else 0.0
    for i in range(len(values)):
        values[i] *= powers[i]


@jit
def scaled_rows(scores, shift):
    """Turn log scores into exp(score - top of the row), in place; the tops go into `shift`.

    A row of -inf has weights 0 and shift 0.
    """
    rows, states = scores.shape
    size = max(1, 2048 // states)
    line, bits = np.empty(size * states), np.empty(size * states, np.int64)
    powers = bits.view(np.float64)
    for first in range(0, rows, size):
        count = min(size, rows - first)
        for t in range(first, first + count):
            top = -np.inf
            for k in range(states):
                top = max(top, scores[t, k])
            if top == -np.inf:
                top = 0.0
            shift[t] = top
            at = (t - first) * states
            for k in range(states):
                line[at + k] = scores[t, k] - top
        _exponentials(line[: count * states], bits, powers)
        for t in range(first, first + count):
            at = (t - first) * states
            for k in range(states):
                scores[t, k] = line[at + k]


@inlined
def _advance(before, row, step, after):
    """Put before[row] @ step into `after`, four rows of the matrix at a time."""
    states = step.shape[0]
    whole = states - states % 4
    for k in range(states):
        after[k] = 0.0
    for j in range(0, whole, 4):
        a, b, c, d = before[row, j], before[row, j + 1], before[row, j + 2], before[row, j + 3]
        for k in range(states):
            after[k] += a * step[j, k] + b * step[j + 1, k] + c * step[j + 2, k] + d * step[j + 3, k]
    for j in range(whole, states):
        a = before[row, j]
        for k in range(states):
            after[k] += a * step[j, k]


@jit
def _forward_pass(initial, step, weights, shift, start, alpha, log_z, state):
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
                _advance(alpha, t - 1, step, guess)
            total, low = 0.0, np.inf
            for k in range(states):
                a = guess[k] * weights[t, k]
                alpha[t, k] = a
                total += a
                low = min(low, a)
            if not _LEAST < total < np.inf:
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
            product *= total
            if not _LEAST < product < 1.0 / _LEAST:
                total_log += np.log(product)
                product = 1.0
            total_log += shift[t]
        log_z[s] = total_log + np.log(product) if state[s] != LOST else -np.inf


@inlined
def _add_pairs(alpha, weights, low, high, out):
    """Add sum over t in [low, high) of alpha[t-1]^T weights[t], four positions at a time."""
    states = alpha.shape[1]
    whole = high - (high - low) % 4
    for t in range(low, whole, 4):
        for j in range(states):
            a, b, c, d = alpha[t - 1, j], alpha[t, j], alpha[t + 1, j], alpha[t + 2, j]
            for k in range(states):
                out[j, k] += (
                    a * weights[t, k] + b * weights[t + 1, k] + c * weights[t + 2, k] + d * weights[t + 3, k]
                )
    for t in range(whole, high):
        for j in range(states):
            a = alpha[t - 1, j]
            for k in range(states):
                out[j, k] += a * weights[t, k]


@jit
def _backward_pass(step, weights, start, weight, alpha, state, pairs):
    """Turn filtered probabilities into marginals, in place; adds to `pairs`; overwrites `weights`.

    A sequence whose numbers underflow is left half done, marked LOST, and adds nothing.
    """
    states = weights.shape[1]
    turned = np.empty((states, states))  # so that both passes run along rows
    for j in range(states):
        for k in range(states):
            turned[k, j] = step[j, k]
    back, v = np.empty(states), np.empty((1, states))
    waiting = np.empty((_BLOCK, states))
    own = np.empty((states, states))
    for s in range(len(start) - 1):
        first, last = start[s], start[s + 1]
        if first == last or state[s] == LOST:
            continue
        state[s] = FINE
        own[:] = 0.0
        for k in range(states):
            back[k] = 1.0
        high = last
        while high > first + 1 and state[s] == FINE:
            # Steps into positions low..high-1; the marginals of low-1..high-2 wait for the pair sums.
            low = max(first + 1, high - _BLOCK)
            for t in range(high - 1, low - 1, -1):
                for k in range(states):
                    v[0, k] = weights[t, k] * back[k]
                _advance(v, 0, turned, back)
                norm, peak = 0.0, 0.0
                for j in range(states):
                    m = alpha[t - 1, j] * back[j]
                    waiting[t - low, j] = m
                    norm += m
                    peak = max(peak, back[j])
                if not norm > _MARGIN * peak:
                    state[s] = LOST
                    break
                inverse, shrink = 1.0 / norm, 1.0 / peak
                for k in range(states):
                    weights[t, k] = v[0, k] * inverse
                    waiting[t - low, k] *= inverse
                    back[k] *= shrink
            if state[s] == FINE:
                _add_pairs(alpha, weights, low, high, own)
                for t in range(low, high):
                    for k in range(states):
                        alpha[t - 1, k] = waiting[t - low, k]
                high = low
        if state[s] == FINE:
            for j in range(states):
                for k in range(states):
                    pairs[j, k] += weight[s] * own[j, k]
    for j in range(states):
        for k in range(states):
            pairs[j, k] *= step[j, k]


class Smoothed(NamedTuple):
    """What the two passes find."""

    log_z: np.ndarray  # (sequences,) log-likelihoods; -inf where no path is possible
    marginals: np.ndarray  # (positions, states); zero in impossible sequences
    pairs: np.ndarray  # (states, states) expected numbers of transitions, over all sequences


def _scale_few(scores: np.ndarray, shift: np.ndarray) -> None:
    """`scaled_rows` by whole arrays."""
    top = scores.max(axis=1, initial=-np.inf)
    shift[:] = np.where(top == -np.inf, 0.0, top)
    scores -= shift[:, None]
    lost = scores <= _LOWEST
    scores[lost] = 0.0
    np.exp(scores, out=scores)
    scores[lost] = 0.0


def smooth_chains(
    initial: np.ndarray,
    step: np.ndarray,
    scores: np.ndarray,
    start: np.ndarray,
    *,
    weight: np.ndarray | None = None,
    logs: bool = False,
    again: Callable[[slice], np.ndarray] | None = None,
) -> Smoothed:
    """Forward-backward over many sequences with linear `initial` and `step` and log `scores`.

    Parameters
    ----------
    initial, step
        Non-negative, (states,) and (states, states); they need not sum to one.
    scores
        Log weights of every position, (positions, states).
    start
        Sequence i owns the rows start[i]:start[i+1].
    weight
        How often each sequence counts in the pair sums; 1 by default.
    logs
        Work in logarithms from the beginning.
    again
        Gives the scores of some rows once more; with it, `scores` is overwritten instead of copied.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.kernels.scaled_chains import smooth_chains
    >>> found = smooth_chains(np.full(2, 0.5), np.full((2, 2), 0.5), np.zeros((3, 2)), np.array([0, 3]))
    >>> float(found.log_z[0]), found.pairs
    (0.0, array([[0.5, 0.5],
           [0.5, 0.5]]))
    """
    count = len(start) - 1
    if logs:
        return Smoothed(*chain_sums(_log(initial), _log(step)[None], scores, start, weight=weight))
    weights = np.array(scores, order="C") if again is None else scores
    shift, alpha = empty((len(scores),)), empty(scores.shape)
    log_z, state = np.empty(count), np.empty(count, np.int64)
    pairs = np.zeros(step.shape)
    many = np.ones(count) if weight is None else np.ascontiguousarray(weight, dtype=np.float64)
    (scaled_rows if weights.size >= _FEW else _scale_few)(weights, shift)
    _forward_pass(initial, step, weights, shift, start, alpha, log_z, state)
    _backward_pass(step, weights, start, many, alpha, state, pairs)
    for s in np.flatnonzero(state == LOST):
        rows = slice(int(start[s]), int(start[s + 1]))
        own = np.ascontiguousarray(scores[rows] if again is None else again(rows))
        ends = np.array([0, len(own)])
        part = chain_sums(_log(initial), _log(step)[None], own, ends, weight=many[s : s + 1])
        log_z[s], alpha[rows] = part[0][0], part[1]
        pairs += part[2]
    return Smoothed(log_z, alpha, pairs)


def likelihoods(
    initial: np.ndarray, step: np.ndarray, scores: np.ndarray, start: np.ndarray, *, logs: bool = False
) -> np.ndarray:
    """Log-likelihood of every sequence, by the forward pass alone where that is safe."""
    if logs:
        return chain_sums(_log(initial), _log(step)[None], scores, start, marginals=False)[0]
    weights, shift, alpha = np.array(scores, order="C"), np.empty(len(scores)), np.empty(scores.shape)
    log_z, state = np.empty(len(start) - 1), np.empty(len(start) - 1, np.int64)
    scaled_rows(weights, shift)
    _forward_pass(initial, step, weights, shift, start, alpha, log_z, state)
    if step.min() > _LEAST:
        # From every state the same future is open at nearly the same price: what was lost stays negligible.
        state[state == DOUBTFUL] = FINE
    for s in np.flatnonzero(state != FINE):
        ends = np.array([0, start[s + 1] - start[s]])
        part = np.ascontiguousarray(scores[start[s] : start[s + 1]])
        log_z[s] = chain_sums(_log(initial), _log(step)[None], part, ends, marginals=False)[0][0]
    return log_z


def _log(values: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(values)
