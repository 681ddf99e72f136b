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

from .jit import jit

__all__ = ["best_paths", "chain_sums", "filter_chains", "sample_chains", "score_chains"]

_SMALL = 1e-200  # scaled numbers below this send a sequence to the logarithms


@jit
def _scaled_weights(scores, t, weights):
    """exp(score - top) of one position into weights[t]; returns top, or -inf if all are impossible."""
    top = -np.inf
    for k in range(scores.shape[1]):
        top = max(top, scores[t, k])
    if top > -np.inf:
        for k in range(scores.shape[1]):
            weights[t, k] = np.exp(scores[t, k] - top)
    return top


@jit
def _scaled_step(transition, t, step):
    """exp(transition - top) into position t into `step`; returns top (0 if all are impossible)."""
    states = step.shape[0]
    top = -np.inf
    for j in range(states):
        for k in range(states):
            top = max(top, transition[t, j, k])
    if top == -np.inf:
        top = 0.0
    for j in range(states):
        for k in range(states):
            step[j, k] = np.exp(transition[t, j, k] - top)
    return top


@jit
def _lost(alpha, before, transition, row, scores, t, k):
    """Whether a number at state k that came out tiny stands for a positive weight."""
    if alpha[t, k] >= _SMALL:
        return False
    if alpha[t, k] > 0.0:
        return True
    if scores[t, k] == -np.inf:
        return False
    for j in range(alpha.shape[1]):
        if alpha[before, j] > 0.0 and transition[row, j, k] > -np.inf:
            return True
    return False


@jit
def _scaled_forward(first, last, initial, transition, step, top_step, scores, weights, alpha, scale):
    """Filtered probabilities of one sequence, and log normalisers; False if a number underflows."""
    states = scores.shape[1]
    shared = transition.shape[0] == 1
    local, new = step.copy(), np.empty(states)
    for t in range(first, last):
        top = _scaled_weights(scores, t, weights)
        if top == -np.inf:
            return False
        if t == first:
            peak = -np.inf
            for k in range(states):
                peak = max(peak, initial[k])
            if peak == -np.inf:
                return False
            top += peak
            for k in range(states):
                alpha[t, k] = np.exp(initial[k] - peak) * weights[t, k]
                possible = initial[k] > -np.inf and scores[t, k] > -np.inf
                if alpha[t, k] < _SMALL and possible:
                    return False
        else:
            top += top_step if shared else _scaled_step(transition, t, local)
            new[:] = 0.0
            for j in range(states):
                before = alpha[t - 1, j]
                for k in range(states):
                    new[k] += before * local[j, k]
            row = 0 if shared else t
            for k in range(states):
                alpha[t, k] = new[k] * weights[t, k]
                if alpha[t, k] < _SMALL and _lost(alpha, t - 1, transition, row, scores, t, k):
                    return False
        total = 0.0
        for k in range(states):
            total += alpha[t, k]
        if not total > 0.0:
            return False
        for k in range(states):
            alpha[t, k] /= total
        scale[t] = np.log(total) + top
    return True


@jit
def _scaled_backward(
    first, last, transition, step, scores, weights, alpha, beta, weight, want, pair_sum, pair
):  # fmt: skip
    """Marginals of one sequence into `beta`; adds weighted pair sums; False if a number underflows.

    alpha holds filtered probabilities. With v_t(k) = w_t(k) beta_t(k) the pair marginal is
    alpha_{t-1}(j) step(j, k) v_t(k) / norm, norm = sum of the same; what shared steps multiply is
    gathered in `gathered` without the step, which is applied once at the end.
    """
    states = scores.shape[1]
    shared = transition.shape[0] == 1
    v, back = np.empty(states), np.empty(states)
    local = step.copy()
    gathered = np.zeros((states, states))
    for k in range(states):
        back[k] = 1.0
        beta[last - 1, k] = alpha[last - 1, k]
    for t in range(last - 1, first, -1):
        if not shared:
            _scaled_step(transition, t, local)
        for k in range(states):
            v[k] = weights[t, k] * back[k]
            if v[k] < _SMALL and back[k] > 0.0 and scores[t, k] > -np.inf:
                return False
        row = 0 if shared else t
        norm = 0.0
        for j in range(states):
            total = 0.0
            for k in range(states):
                total += local[j, k] * v[k]
            if total < _SMALL:
                for k in range(states):
                    if v[k] > 0.0 and transition[row, j, k] > -np.inf:
                        return False
            back[j] = total
            norm += alpha[t - 1, j] * total
        if not norm > 0.0:
            return False
        # One plain loop per case: a branch inside would keep the processor's vectors idle.
        if want == 1 and shared:
            for j in range(states):
                left = weight * alpha[t - 1, j] / norm
                for k in range(states):
                    gathered[j, k] += left * v[k]
        elif want == 1:
            for j in range(states):
                left = weight * alpha[t - 1, j] / norm
                for k in range(states):
                    pair_sum[j, k] += left * local[j, k] * v[k]
        elif want == 2:
            for j in range(states):
                left = alpha[t - 1, j] / norm
                for k in range(states):
                    pair[t, j, k] = left * local[j, k] * v[k]
        peak = 0.0
        for j in range(states):
            beta[t - 1, j] = alpha[t - 1, j] * back[j] / norm
            peak = max(peak, back[j])
        for j in range(states):
            back[j] /= peak
    if want == 1 and shared:
        for j in range(states):
            for k in range(states):
                pair_sum[j, k] += gathered[j, k] * step[j, k]
    return True


@jit
def _log_forward(first, last, initial, transition, scores, alpha, scale):
    """Log filtered probabilities of one sequence and log normalisers; False if it is impossible."""
    states = scores.shape[1]
    shared = transition.shape[0] == 1
    for t in range(first, last):
        row = 0 if shared else t
        for k in range(states):
            if t == first:
                alpha[t, k] = initial[k] + scores[t, k]
                continue
            top = -np.inf
            for j in range(states):
                top = max(top, alpha[t - 1, j] + transition[row, j, k])
            if top == -np.inf:
                alpha[t, k] = -np.inf
                continue
            total = 0.0
            for j in range(states):
                total += np.exp(alpha[t - 1, j] + transition[row, j, k] - top)
            alpha[t, k] = top + np.log(total) + scores[t, k]
        peak = -np.inf
        for k in range(states):
            peak = max(peak, alpha[t, k])
        if peak == -np.inf:
            scale[t] = -np.inf
            return False
        total = 0.0
        for k in range(states):
            total += np.exp(alpha[t, k] - peak)
        scale[t] = peak + np.log(total)
        for k in range(states):
            alpha[t, k] -= scale[t]
    return True


@jit
def _log_backward(first, last, transition, scores, alpha, beta, weight, want, pair_sum, pair):
    """Marginals of one sequence into `beta` from log filtered probabilities; adds pair sums."""
    states = scores.shape[1]
    shared = transition.shape[0] == 1
    back, new = np.zeros(states), np.empty(states)
    for k in range(states):
        beta[last - 1, k] = np.exp(alpha[last - 1, k])
    for t in range(last - 1, first, -1):
        row = 0 if shared else t
        peak = -np.inf
        for j in range(states):
            top = -np.inf
            for k in range(states):
                top = max(top, transition[row, j, k] + scores[t, k] + back[k])
            total = 0.0
            if top > -np.inf:
                for k in range(states):
                    total += np.exp(transition[row, j, k] + scores[t, k] + back[k] - top)
                new[j] = top + np.log(total)
            else:
                new[j] = -np.inf
            peak = max(peak, alpha[t - 1, j] + new[j])
        norm = 0.0
        for j in range(states):
            norm += np.exp(alpha[t - 1, j] + new[j] - peak)
        norm = peak + np.log(norm)
        for j in range(states):
            if want > 0:
                for k in range(states):
                    p = np.exp(alpha[t - 1, j] + transition[row, j, k] + scores[t, k] + back[k] - norm)
                    if want == 2:
                        pair[t, j, k] = p
                    else:
                        pair_sum[j, k] += weight * p
            beta[t - 1, j] = np.exp(alpha[t - 1, j] + new[j] - norm)
        for j in range(states):
            # The shift keeps the finite entries of long sequences within range.
            back[j] = new[j] - norm
    return True


@jit
def _sums(initial, transition, scores, start, weight, want, log_z, marginals, pair_sum, pair):
    states = scores.shape[1]
    alpha, weights = np.empty_like(scores), np.empty_like(scores)
    scale = np.empty(len(scores))
    step = np.empty((states, states))
    top_step = _scaled_step(transition, 0, step) if len(transition) == 1 else 0.0
    kept = np.empty((states, states))
    for s in range(len(start) - 1):
        first, last = start[s], start[s + 1]
        log_z[s] = 0.0
        if first == last:
            continue
        kept[:] = pair_sum
        fine = _scaled_forward(
            first, last, initial, transition, step, top_step, scores, weights, alpha, scale
        )
        if fine and want >= 0:
            fine = _scaled_backward(
                first, last, transition, step, scores, weights, alpha, marginals, weight[s], want, pair_sum,
                pair,
            )  # fmt: skip
        if not fine:
            pair_sum[:] = kept
            if not _log_forward(first, last, initial, transition, scores, alpha, scale):
                log_z[s] = -np.inf
                continue
            if want >= 0:
                _log_backward(
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
        if first < last and not _log_forward(first, last, initial, transition, scores, alpha, scale):
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
