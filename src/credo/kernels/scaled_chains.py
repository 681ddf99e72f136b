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

from typing import NamedTuple

import numpy as np

from .chains import chain_sums
from .jit import jit
from .weighted_sums import weighted_sums

__all__ = ["Smoothed", "likelihoods", "scaled_rows", "smooth_chains"]

FINE, DOUBTFUL, LOST = 0, 1, 2  # per sequence: exact; exact unless the backward pass objects; do it in logs
_SMALL = 1e-200  # forward numbers below this may stand for lost weights
_LEAST = 1e-100  # a step on which less is left than this has the wrong scale: its losses are not bounded
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
    """Put before @ step into `after`, four rows of the matrix at a time."""
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
                _advance(alpha[t - 1], step, guess)
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


@jit
def _backward_pass(step, weights, start, alpha, marginals, state):
    """Marginals of every position; overwrites `weights` by v / norm, zero at first positions."""
    states = weights.shape[1]
    turned = np.ascontiguousarray(step.T)  # so that both passes run along rows
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


class Smoothed(NamedTuple):
    """What the two passes find."""

    log_z: np.ndarray  # (sequences,) log-likelihoods; -inf where no path is possible
    marginals: np.ndarray  # (positions, states); zero in impossible sequences
    pairs: np.ndarray  # (states, states) expected numbers of transitions, over all sequences


def smooth_chains(
    initial: np.ndarray,
    step: np.ndarray,
    scores: np.ndarray,
    start: np.ndarray,
    *,
    weight: np.ndarray | None = None,
    logs: bool = False,
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
        found = chain_sums(_log(initial), _log(step)[None], scores, start, weight=weight)
        return Smoothed(*found)
    weights, shift = np.empty_like(scores), np.empty(len(scores))
    alpha, marginals = np.empty_like(scores), np.empty_like(scores)
    log_z, state = np.empty(count), np.empty(count, np.int64)
    scaled_rows(scores, weights, shift)
    _forward_pass(initial, step, weights, shift, start, alpha, log_z, state)
    _backward_pass(step, weights, start, alpha, marginals, state)
    if weight is not None:
        weights *= np.repeat(weight, np.diff(start))[:, None]
    lost = np.flatnonzero(state == LOST)
    for s in lost:
        alpha[start[s] : start[s + 1]] = 0.0  # what the pass left unfinished must not meet the zeros
    pairs = step * weighted_sums(alpha[:-1], weights[1:])
    for s in lost:
        rows = slice(start[s], start[s + 1])
        ends = np.array([0, start[s + 1] - start[s]])
        own = None if weight is None else weight[s : s + 1]
        part = chain_sums(_log(initial), _log(step)[None], scores[rows], ends, weight=own)
        log_z[s], marginals[rows] = part[0][0], part[1]
        pairs += part[2]
    return Smoothed(log_z, marginals, pairs)


def likelihoods(
    initial: np.ndarray, step: np.ndarray, scores: np.ndarray, start: np.ndarray, *, logs: bool = False
) -> np.ndarray:
    """Log-likelihood of every sequence, by the forward pass alone where that is safe."""
    if logs:
        return chain_sums(_log(initial), _log(step)[None], scores, start, marginals=False)[0]
    weights, shift, alpha = np.empty_like(scores), np.empty(len(scores)), np.empty_like(scores)
    log_z, state = np.empty(len(start) - 1), np.empty(len(start) - 1, np.int64)
    scaled_rows(scores, weights, shift)
    _forward_pass(initial, step, weights, shift, start, alpha, log_z, state)
    if step.min() > _LEAST:
        # From every state the same future is open at nearly the same price: what was lost stays negligible.
        state[state == DOUBTFUL] = FINE
    for s in np.flatnonzero(state != FINE):
        ends = np.array([0, start[s + 1] - start[s]])
        part = scores[start[s] : start[s + 1]]
        log_z[s] = chain_sums(_log(initial), _log(step)[None], part, ends, marginals=False)[0][0]
    return log_z


def _log(values: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(values)
