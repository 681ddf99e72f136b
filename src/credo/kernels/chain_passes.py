r"""Forward and backward passes over one sequence of a chain; `chains.py` says what the arrays mean.

The scaled passes work on probabilities and give up, returning False, where a number that stands for a
positive weight would underflow; the log passes never do.
"""

from __future__ import annotations

import numpy as np

from .jit import jit

__all__ = ["log_backward", "log_forward", "scaled_backward", "scaled_forward", "scaled_step"]

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
def scaled_step(transition, t, step):
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
def scaled_forward(first, last, initial, transition, step, top_step, scores, weights, alpha, scale):
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
            top += top_step if shared else scaled_step(transition, t, local)
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
def scaled_backward(
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
            scaled_step(transition, t, local)
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
def log_forward(first, last, initial, transition, scores, alpha, scale):
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
def log_backward(first, last, transition, scores, alpha, beta, weight, want, pair_sum, pair):
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
