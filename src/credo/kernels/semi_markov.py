r"""Hidden chains whose states last for an explicit number of steps.

The pair (state k, remaining steps r, the current one included) is a Markov chain, and almost all of its
moves only count down, so one step costs O(states durations + states^2):

    alpha_t(k, r) = w_t(k) [ alpha_{t-1}(k, r+1) + begin_t(k) p_k(r) ]
    begin_t(k) = sum_j alpha_{t-1}(j, 1) step(j, k)

Arrays are laid out as in `chains`: sequence i owns the rows start[i]:start[i+1] of the log `scores`.
`durations` (states, D) holds p_k(1..D). With `cut` the last segment may go on beyond the end of the data;
without, it must end there. Sums run on scaled probabilities; a sequence whose numbers underflow is done
again in logarithms. The backward pass needs every alpha: one in about sqrt(T) is kept, the others are
computed again, block by block.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .jit import jit
from .scaled_chains import scaled_rows

__all__ = ["SegmentSums", "best_segments", "smooth_segments"]

_LEAST = 1e-100  # what may be left of the weight on one step
_MOST = 1e150  # backward values above this may have met forward weights that were lost


@jit
def _advance(alpha, begin, durations, weights, new):
    """One step of the recursion, not normalised; returns the sum."""
    states, longest = durations.shape
    total = 0.0
    for k in range(states):
        w, b = weights[k], begin[k]
        line = 0.0
        for r in range(longest - 1):
            # r more rows are left: one less of a segment under way, or a new one of r + 1 rows.
            a = w * (alpha[k, r + 1] + b * durations[k, r])
            new[k, r] = a
            line += a
        new[k, longest - 1] = w * b * durations[k, longest - 1]
        total += line + new[k, longest - 1]
    return total


@jit
def _forward(initial, step, durations, weights, shift, cut, begin, ends, scale, kept, block):
    """Begin and end weights of every position, scales, and every block-th alpha; the log-likelihood.

    Returns NaN if the numbers underflow.
    """
    steps, states = weights.shape
    alpha, new = np.zeros(durations.shape), np.empty(durations.shape)
    log_z = 0.0
    for t in range(steps):
        # With every sqrt(T)-th alpha kept, the way back computes the others anew, a block at a time.
        if t % block == 0:
            kept[t // block] = alpha
        for k in range(states):
            begin[t, k] = initial[k] if t == 0 else 0.0
        if t > 0:
            for j in range(states):
                a = alpha[j, 0]
                for k in range(states):
                    begin[t, k] += a * step[j, k]
        total = _advance(alpha, begin[t], durations, weights[t], new)
        if not total > _LEAST:
            return np.nan
        for k in range(states):
            for r in range(durations.shape[1]):
                alpha[k, r] = new[k, r] / total
            ends[t, k] = alpha[k, 0]
        scale[t] = total
        log_z += np.log(total) + shift[t]
    if not cut:
        total = 0.0
        for k in range(states):
            total += ends[steps - 1, k]
        if not total > _LEAST:
            return np.nan
        log_z += np.log(total)
    return log_z


@jit
def _again(kept, begin, durations, weights, scale, first, last, buffer):
    """The alphas of positions first:last once more, from the one before them."""
    alpha = kept
    for t in range(first, last):
        new = buffer[t - first]
        _advance(alpha, begin[t], durations, weights[t], new)
        for k in range(durations.shape[0]):
            for r in range(durations.shape[1]):
                new[k, r] /= scale[t]
        alpha = new


@jit
def _backward(
    step, durations, weights, cut, begin, ends, scale, kept, block, marginals, firsts, pairs, lasting
):  # fmt: skip
    """Marginals; adds expected first states, transitions and durations; False if numbers underflow."""
    steps, states = weights.shape
    longest = durations.shape[1]
    beta, spent = np.empty(durations.shape), np.empty(durations.shape)
    value = np.empty(states)
    buffer = np.empty((block, states, longest))
    closing = 1.0  # with `cut` a last segment may go on beyond the data, without it ends there (r = 0)
    if not cut:
        closing = 0.0
        for k in range(states):
            closing += ends[steps - 1, k]
    for k in range(states):
        for r in range(longest):
            beta[k, r] = 1.0 / closing if cut or r == 0 else 0.0
    for t in range(steps - 1, -1, -1):
        if t == steps - 1 or (t + 1) % block == 0:
            low = t - t % block
            _again(kept[t // block], begin, durations, weights, scale, low, t + 1, buffer)
        alpha = buffer[t % block]
        for k in range(states):
            u, line, opened = weights[t, k] / scale[t], 0.0, 0.0
            for r in range(longest):
                line += alpha[k, r] * beta[k, r]
                spent[k, r] = u * beta[k, r]
                opened += durations[k, r] * spent[k, r]
                lasting[k, r] += begin[t, k] * durations[k, r] * spent[k, r]
            marginals[t, k] = line
            value[k] = opened
        if t == 0:
            for k in range(states):
                firsts[k] += begin[0, k] * value[k]
            break
        peak = 0.0
        for j in range(states):
            total = 0.0
            for k in range(states):
                pairs[j, k] += ends[t - 1, j] * step[j, k] * value[k]
                total += step[j, k] * value[k]
            beta[j, 0] = total
            for r in range(1, longest):
                beta[j, r] = spent[j, r - 1]
            for r in range(longest):
                peak = max(peak, beta[j, r])
        if not peak < _MOST:
            return False
    return True


@jit
def _plus(a, b):
    """The logarithm of exp a + exp b."""
    top = max(a, b)
    if top == -np.inf:
        return top
    return top + np.log(np.exp(a - top) + np.exp(b - top))


@jit
def _log_forward(initial, step, durations, scores, cut, begin, alpha):
    """The recursion in logarithms; returns the log-likelihood, -inf if there is no path."""
    steps, states = scores.shape
    longest = durations.shape[1]
    for t in range(steps):
        for k in range(states):
            begin[t, k] = initial[k]
            if t > 0:
                begin[t, k] = -np.inf
                for j in range(states):
                    begin[t, k] = _plus(begin[t, k], alpha[t - 1, j, 0] + step[j, k])
            for r in range(longest):
                a = begin[t, k] + durations[k, r]
                if t > 0 and r + 1 < longest:
                    a = _plus(a, alpha[t - 1, k, r + 1])
                alpha[t, k, r] = a + scores[t, k]
    total = -np.inf
    for k in range(states):
        for r in range(longest if cut else 1):
            total = _plus(total, alpha[steps - 1, k, r])
    return total


@jit
def _log_backward(step, durations, scores, cut, begin, alpha, log_z, marginals, firsts, pairs, lasting):
    """Marginals and expected counts from the alphas in logarithms."""
    steps, states = scores.shape
    longest = durations.shape[1]
    beta, spent = np.empty(durations.shape), np.empty(durations.shape)
    value = np.empty(states)
    for k in range(states):
        for r in range(longest):
            beta[k, r] = 0.0 if cut or r == 0 else -np.inf
    for t in range(steps - 1, -1, -1):
        for k in range(states):
            value[k] = -np.inf
            marginals[t, k] = 0.0
            for r in range(longest):
                marginals[t, k] += np.exp(alpha[t, k, r] + beta[k, r] - log_z)
                spent[k, r] = scores[t, k] + beta[k, r]
                value[k] = _plus(value[k], durations[k, r] + spent[k, r])
                lasting[k, r] += np.exp(begin[t, k] + durations[k, r] + spent[k, r] - log_z)
        if t == 0:
            for k in range(states):
                firsts[k] += np.exp(begin[0, k] + value[k] - log_z)
            break
        for j in range(states):
            total = -np.inf
            for k in range(states):
                pairs[j, k] += np.exp(alpha[t - 1, j, 0] + step[j, k] + value[k] - log_z)
                total = _plus(total, step[j, k] + value[k])
            beta[j, 0] = total
            for r in range(1, longest):
                beta[j, r] = spent[j, r - 1]


class SegmentSums(NamedTuple):
    """What the two passes find."""

    log_z: np.ndarray  # (sequences,) log-likelihoods; -inf where no path is possible
    marginals: np.ndarray  # (positions, states)
    firsts: np.ndarray  # (states,) expected first states
    pairs: np.ndarray  # (states, states) expected moves from one segment to the next
    lasting: np.ndarray  # (states, D) expected numbers of segments by duration


def smooth_segments(
    initial: np.ndarray,
    step: np.ndarray,
    durations: np.ndarray,
    scores: np.ndarray,
    start: np.ndarray,
    *,
    cut: bool = True,
    logs: bool = False,
    weight: np.ndarray | None = None,
) -> SegmentSums:
    """Forward-backward over many sequences; linear probabilities, log `scores`.

    Impossible sequences have log-likelihood -inf and marginals 0. `weight` says how often each sequence
    counts in the sums; 1 by default.
    """
    states, longest = durations.shape
    log_z, marginals = np.zeros(len(start) - 1), np.zeros(scores.shape)
    sums = (np.zeros(states), np.zeros((states, states)), np.zeros((states, longest)))
    for s in range(len(start) - 1):
        own = slice(start[s], start[s + 1])
        if start[s] == start[s + 1]:
            continue
        found = None if logs else _scale(initial, step, durations, scores[own], cut)
        if found is None:
            found = _in_logs(initial, step, durations, scores[own], cut)
        log_z[s], marginals[own] = found[0], found[1]
        for total, part in zip(sums, found[2], strict=True):
            np.add(total, part if weight is None else weight[s] * part, out=total)
    return SegmentSums(log_z, marginals, *sums)


def _scale(initial, step, durations, scores, cut):  # type: ignore[no-untyped-def]
    steps, states = scores.shape
    longest = durations.shape[1]
    block = int(np.ceil(np.sqrt(steps)))
    weights, shift = np.array(scores, order="C"), np.empty(steps)
    scaled_rows(weights, shift)
    begin, ends, scale = np.empty(scores.shape), np.empty(scores.shape), np.empty(steps)
    kept = np.empty((-(-steps // block), states, longest))
    value = _forward(initial, step, durations, weights, shift, cut, begin, ends, scale, kept, block)
    if np.isnan(value):
        return None
    marginals = np.empty(scores.shape)
    sums = (np.zeros(states), np.zeros((states, states)), np.zeros((states, longest)))
    if not _backward(step, durations, weights, cut, begin, ends, scale, kept, block, marginals, *sums):
        return None
    return value, marginals, sums


def _in_logs(initial, step, durations, scores, cut):  # type: ignore[no-untyped-def]
    states, longest = durations.shape
    with np.errstate(divide="ignore"):
        first, moves, lasting = np.log(initial), np.log(step), np.log(durations)
    begin, alpha = np.empty(scores.shape), np.empty((len(scores), states, longest))
    value = _log_forward(first, moves, lasting, scores, cut, begin, alpha)
    marginals = np.zeros(scores.shape)
    sums = (np.zeros(states), np.zeros((states, states)), np.zeros((states, longest)))
    if value > -np.inf:
        _log_backward(moves, lasting, scores, cut, begin, alpha, value, marginals, *sums)
    return value, marginals, sums


@jit
def _best(initial, step, durations, beyond, scores, cut, path):
    """The best path of one sequence, by segments; returns its log weight."""
    steps, states = scores.shape
    longest = durations.shape[1]
    begin, end = np.empty((steps, states)), np.empty((steps, states))
    before, length = np.zeros((steps, states), np.int64), np.zeros((steps, states), np.int64)
    for t in range(steps):
        for k in range(states):
            begin[t, k] = initial[k]
            if t > 0:
                begin[t, k] = -np.inf
                for j in range(states):
                    x = end[t - 1, j] + step[j, k]
                    if x > begin[t, k]:
                        begin[t, k], before[t, k] = x, j
        for k in range(states):
            end[t, k] = -np.inf
            run = 0.0
            for d in range(1, min(longest, t + 1) + 1):
                run += scores[t - d + 1, k]
                x = begin[t - d + 1, k] + durations[k, d - 1] + run
                if x > end[t, k]:
                    end[t, k], length[t, k] = x, d
    best, state, last = -np.inf, 0, 0
    for k in range(states):
        run = 0.0
        for d in range(1, min(longest, steps) + 1):
            run += scores[steps - d, k]
            x = begin[steps - d, k] + (beyond[k, d - 1] if cut else durations[k, d - 1]) + run
            if x > best:
                best, state, last = x, k, d
    t = steps
    while t > 0 and best > -np.inf:
        for u in range(t - last, t):
            path[u] = state
        t -= last
        if t > 0:
            state = before[t, state]
            last = length[t - 1, state]
    return best


def best_segments(
    initial: np.ndarray,
    step: np.ndarray,
    durations: np.ndarray,
    scores: np.ndarray,
    start: np.ndarray,
    *,
    cut: bool = True,
) -> tuple[np.ndarray, np.ndarray]:
    """The most probable states (positions,) and the log weight of the best path of each sequence.

    A segment that the end of the data cuts short counts with the probability that it lasts at least
    as long as was seen.
    """
    with np.errstate(divide="ignore"):
        first, moves, lasting = np.log(initial), np.log(step), np.log(durations)
        beyond = np.log(np.maximum(durations[:, ::-1].cumsum(axis=1)[:, ::-1], 0.0))
    path, value = np.zeros(len(scores), np.int64), np.zeros(len(start) - 1)
    for s in range(len(start) - 1):
        own = slice(start[s], start[s + 1])
        if start[s] < start[s + 1]:
            value[s] = _best(first, moves, lasting, beyond, np.ascontiguousarray(scores[own]), cut, path[own])
    return path, value
