r"""Chains: forward-backward, best paths and sampling for many sequences in one flat layout.

    p(y) = (1/Z) exp( initial(y_1) + sum_t score_t(y_t) + sum_{t>1} transition_t(y_{t-1}, y_t) )

Sequence s owns the rows start[s]:start[s+1] of `scores` (positions, states); it may be empty.
`transition` has shape (1, states, states), shared by all steps, or (positions, states, states), where
row t leads into position t and the rows of first positions are not read. `initial` (states,) is added at
first positions. All are natural logarithms; -inf is a zero weight. For a hidden Markov model the
transition rows sum to one, `scores` are the log likelihoods of the emissions, and log Z is the log
likelihood of the sequence.

Sums run on scaled probabilities, one multiplication per transition, and each sequence whose numbers would
underflow is done again in logarithms; a weight is never lost. Time O(positions states^2), memory
O(positions states).
"""

from __future__ import annotations

import numpy as np

from .arrays import copy
from .chain_passes import log_backward, log_forward, scaled_backward, scaled_forward, scaled_step
from .jit import jit

__all__ = ["best_paths", "chain_sums", "filter_chains", "sample_chains", "score_chains"]


@jit
def _sums(initial, transition, scores, start, weight, want, log_z, marginals, pair_sum, pair):
    states = scores.shape[1]
    alpha, weights = np.empty_like(scores), np.empty_like(scores)
    scale = np.empty(len(scores))
    step = np.empty((states, states))
    top_step = scaled_step(transition, 0, step) if len(transition) == 1 else 0.0
    kept = np.empty((states, states))
    for s in range(len(start) - 1):
        first, last = start[s], start[s + 1]
        log_z[s] = 0.0
        if first == last:
            continue
        for k in range(states):
            copy(pair_sum[k], kept[k])
        fine = scaled_forward(first, last, initial, transition, step, top_step, scores, weights, alpha, scale)
        if fine and want >= 0:
            fine = scaled_backward(
                first, last, transition, step, scores, weights, alpha, marginals, weight[s], want, pair_sum,
                pair,
            )  # fmt: skip
        if not fine:
            for k in range(states):
                copy(kept[k], pair_sum[k])
            if not log_forward(first, last, initial, transition, scores, alpha, scale):
                log_z[s] = -np.inf
                continue
            if want >= 0:
                log_backward(
                    first, last, transition, scores, alpha, marginals, weight[s], want, pair_sum, pair
                )
        for t in range(first, last):
            log_z[s] += scale[t]


def chain_sums(
    initial: np.ndarray,
    transition: np.ndarray,
    scores: np.ndarray,
    start: np.ndarray,
    *,
    weight: np.ndarray | None = None,
    pairs: str = "sum",
    marginals: bool = True,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log Z of every sequence, marginals of every position, and marginals of neighbouring pairs.

    Parameters
    ----------
    initial, transition, scores, start
        As the module describes.
    weight
        How often each sequence counts in the pair sum; 1 by default. Marginals are not weighted.
    pairs
        `"sum"` for one table (states, states) summed over all steps, `"each"` for one per position
        (positions, states, states), zero at first positions, `"none"` for none.
    marginals
        Whether the backward pass is wanted at all; without it only log Z is filled.

    Returns
    -------
    log_z, marginals, pairs
        Shapes (sequences,), (positions, states), and as `pairs` says. log Z is -inf where a sequence
        has no possible path; its marginals are zero then.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.kernels.chains import chain_sums
    >>> flat = np.zeros((5, 2))
    >>> log_z, marginals, pairs = chain_sums(np.zeros(2), np.zeros((1, 2, 2)), flat, np.array([0, 2, 5]))
    >>> np.exp(log_z).round(6), pairs
    (array([4., 8.]), array([[0.75, 0.75],
           [0.75, 0.75]]))
    """
    count, states = len(start) - 1, scores.shape[1]
    log_z, found = np.empty(count), np.zeros((len(scores) if marginals else 0, states))
    pair_sum = np.zeros((states, states))
    each = np.zeros((len(scores) if pairs == "each" else 0, states, states))
    want = {"none": 0, "sum": 1, "each": 2}[pairs] if marginals else -1
    weight = np.ones(count) if weight is None else np.ascontiguousarray(weight, dtype=np.float64)
    _sums(initial, transition, scores, start, weight, want, log_z, found, pair_sum, each)
    return log_z, found, each if pairs == "each" else pair_sum


@jit
def _filter(initial, transition, scores, start, alpha, scale):
    for s in range(len(start) - 1):
        first, last = start[s], start[s + 1]
        if first < last and not log_forward(first, last, initial, transition, scores, alpha, scale):
            for t in range(first, last):
                scale[t] = -np.inf
                for k in range(scores.shape[1]):
                    alpha[t, k] = -np.inf


def filter_chains(
    initial: np.ndarray, transition: np.ndarray, scores: np.ndarray, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Log filtered probabilities log p(y_t | scores up to t) and the log normaliser of each position.

    The normalisers of a sequence sum to its log Z; both are -inf throughout an impossible sequence.
    """
    alpha, scale = np.empty_like(scores), np.empty(len(scores))
    _filter(initial, transition, scores, start, alpha, scale)
    return alpha, scale


@jit
def _best(initial, transition, scores, start, path, value):
    states = scores.shape[1]
    shared = transition.shape[0] == 1
    pointer = np.empty(scores.shape, np.int32)
    old, new = np.empty(states), np.empty(states)
    for s in range(len(start) - 1):
        first, last = start[s], start[s + 1]
        value[s] = 0.0
        if first == last:
            continue
        for k in range(states):
            old[k] = initial[k] + scores[first, k]
        for t in range(first + 1, last):
            row = 0 if shared else t
            for k in range(states):
                best, at = -np.inf, 0
                for j in range(states):
                    x = old[j] + transition[row, j, k]
                    if x > best:
                        best, at = x, j
                new[k] = best + scores[t, k]
                pointer[t, k] = at
            for k in range(states):
                old[k] = new[k]
        best, at = -np.inf, 0
        for k in range(states):
            if old[k] > best:
                best, at = old[k], k
        value[s] = best
        for t in range(last - 1, first - 1, -1):
            path[t] = at
            if t > first:
                at = pointer[t, at]


def best_paths(
    initial: np.ndarray, transition: np.ndarray, scores: np.ndarray, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The most probable states (positions,) by the Viterbi recursion, and the score of each sequence.

    The score is -inf, and the states mean nothing, where a sequence has no possible path. Ties go to
    the lowest state.
    """
    path, value = np.zeros(len(scores), np.int64), np.empty(len(start) - 1)
    _best(initial, transition, scores, start, path, value)
    return path, value


@jit
def _draw(logs, uniform):
    """A state with probability proportional to exp(logs), by inversion of one uniform number."""
    top = -np.inf
    for k in range(len(logs)):
        top = max(top, logs[k])
    total = 0.0
    for k in range(len(logs)):
        total += np.exp(logs[k] - top)
    rest = uniform * total
    chosen = 0
    for k in range(len(logs)):
        p = np.exp(logs[k] - top)
        if p > 0.0:
            chosen = k
            if rest < p:
                break
            rest -= p
    return chosen


@jit
def _sample(transition, start, alpha, uniforms, paths):
    states = alpha.shape[1]
    shared = transition.shape[0] == 1
    logs = np.empty(states)
    for d in range(len(uniforms)):
        for s in range(len(start) - 1):
            first, last = start[s], start[s + 1]
            for t in range(last - 1, first - 1, -1):
                for k in range(states):
                    logs[k] = alpha[t, k]
                    if t < last - 1:
                        logs[k] += transition[0 if shared else t + 1, k, paths[d, t + 1]]
                paths[d, t] = _draw(logs, uniforms[d, t])


def sample_chains(
    initial: np.ndarray, transition: np.ndarray, scores: np.ndarray, start: np.ndarray, uniforms: np.ndarray
) -> np.ndarray:
    """Joint samples: filter forwards, draw backwards.

    Parameters
    ----------
    initial, transition, scores, start
        As the module describes; every sequence must have a possible path.
    uniforms
        Numbers in [0, 1), shape (samples, positions).

    Returns
    -------
    numpy.ndarray
        States, shape (samples, positions).
    """
    alpha, _ = filter_chains(initial, transition, scores, start)
    paths = np.zeros(uniforms.shape, np.int64)
    _sample(transition, start, alpha, uniforms, paths)
    return paths


@jit
def _score(initial, transition, scores, start, states, value):
    shared = transition.shape[0] == 1
    for s in range(len(start) - 1):
        value[s] = 0.0
        for t in range(start[s], start[s + 1]):
            value[s] += scores[t, states[t]]
            if t == start[s]:
                value[s] += initial[states[t]]
            else:
                value[s] += transition[0 if shared else t, states[t - 1], states[t]]


def score_chains(
    initial: np.ndarray, transition: np.ndarray, scores: np.ndarray, start: np.ndarray, states: np.ndarray
) -> np.ndarray:
    """Log weight of the given states (positions,), one number per sequence."""
    value = np.empty(len(start) - 1)
    _score(initial, transition, scores, start, states, value)
    return value
