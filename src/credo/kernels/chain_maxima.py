r"""Maxima over chains that are not plain best paths; `chains.py` says what the arrays mean.

    best_known       max over known positions of eps log sum over the others exp(score / eps)
    best_by_errors   max score for every number of positions that differ from given labels

Positions to be summed lie in runs between known ones. A run is a table between the two known positions
around it, made by one sum-product per state of the first; then the known positions are a chain of their own,
whose best path is exact. Time O(positions states^2), for summed positions states^3.
"""

from __future__ import annotations

import numpy as np

from .jit import jit

__all__ = ["best_by_errors", "best_known"]


@jit
def _onward(reach, rows, transition, row, scores, t, eps, spare):
    """Sum a position out of the tables that reach it: rows of `reach`, one per state before the run."""
    states = scores.shape[1]
    for j in range(rows):
        for k in range(states):
            top = -np.inf
            for i in range(states):
                top = max(top, reach[j, i] + transition[row, i, k])
            total = 0.0
            if top > -np.inf:
                for i in range(states):
                    total += np.exp((reach[j, i] + transition[row, i, k] - top) / eps)
                spare[k] = top + eps * np.log(total)
            else:
                spare[k] = -np.inf
        for k in range(states):
            reach[j, k] = spare[k] + scores[t, k] if scores[t, k] > -np.inf else -np.inf


@jit
def _summed(reach, j, eps):
    """Log of the powered sum of a row."""
    top = -np.inf
    for k in range(reach.shape[1]):
        top = max(top, reach[j, k])
    if top == -np.inf:
        return top
    total = 0.0
    for k in range(reach.shape[1]):
        total += np.exp((reach[j, k] - top) / eps)
    return top + eps * np.log(total)


@jit
def _best_known(initial, transition, scores, start, known, eps, path, value):
    states = scores.shape[1]
    shared = transition.shape[0] == 1
    pointer = np.zeros(scores.shape, np.int32)
    old, new, spare = np.empty(states), np.empty(states), np.empty(states)
    reach = np.empty((states, states))
    for s in range(len(start) - 1):
        first, last = start[s], start[s + 1]
        value[s], before = 0.0, -1
        # One row reaches the present position before any known one was met, and one per state after.
        rows = 1
        for t in range(first, last):
            row = 0 if shared else t
            if t == first:
                for k in range(states):
                    reach[0, k] = initial[k] + scores[t, k]
                if known[t]:
                    for k in range(states):
                        old[k] = reach[0, k]
                    before = t
                continue
            if before == t - 1:
                rows = states
                for j in range(states):
                    for k in range(states):
                        reach[j, k] = transition[row, j, k] + scores[t, k]
            else:
                _onward(reach, rows, transition, row, scores, t, eps, spare)
            if not known[t]:
                continue
            if before < 0:  # the run before the first known position
                for k in range(states):
                    old[k] = reach[0, k]
            else:
                for k in range(states):
                    best, at = -np.inf, 0
                    for j in range(states):
                        if old[j] + reach[j, k] > best:
                            best, at = old[j] + reach[j, k], j
                    new[k], pointer[t, k] = best, at
                for k in range(states):
                    old[k] = new[k]
            before = t
        for t in range(first, last):
            path[t] = -1
        if before < 0:
            if first < last:
                value[s] = _summed(reach, 0, eps)
            continue
        best, at = -np.inf, 0
        for k in range(states):
            end = old[k] if before == last - 1 else old[k] + _summed(reach, k, eps)
            if end > best:
                best, at = end, k
        value[s] = best
        for t in range(before, first - 1, -1):
            if known[t]:
                path[t] = at
                at = pointer[t, at]


def best_known(
    initial: np.ndarray,
    transition: np.ndarray,
    scores: np.ndarray,
    start: np.ndarray,
    known: np.ndarray,
    eps: float,
) -> tuple[np.ndarray, np.ndarray]:
    """States of the known positions that are best when the others are summed at temperature eps > 0.

    Returns the states (positions,), -1 at the others, and the value of each sequence. Ties go to the lowest
    state.
    """
    path, value = np.zeros(len(scores), np.int64), np.empty(len(start) - 1)
    _best_known(initial, transition, scores, start, np.asarray(known, dtype=bool), float(eps), path, value)
    return path, value


@jit
def _by_errors(initial, transition, scores, first, last, labels, best, pointer):
    """best[c, k]: highest score of a path to state k with c positions so far that differ from the labels."""
    states = scores.shape[1]
    shared = transition.shape[0] == 1
    count = last - first
    fresh = np.empty_like(best)
    best[:, :] = -np.inf
    for k in range(states):
        best[0 if k == labels[first] else 1, k] = initial[k] + scores[first, k]
    for t in range(first + 1, last):
        row = 0 if shared else t
        fresh[:, :] = -np.inf
        for c in range(min(t - first, count) + 1):
            for k in range(states):
                to = c if k == labels[t] else c + 1
                top, at = -np.inf, 0
                for j in range(states):
                    if best[c, j] + transition[row, j, k] > top:
                        top, at = best[c, j] + transition[row, j, k], j
                if top + scores[t, k] > fresh[to, k]:
                    fresh[to, k] = top + scores[t, k]
                    pointer[t - first, to, k] = at
        best[:, :] = fresh


@jit
def _best_slack(initial, transition, scores, start, labels, cost, right, path, value):
    states, longest = scores.shape[1], 0
    for s in range(len(start) - 1):
        longest = max(longest, start[s + 1] - start[s])
    pointer = np.zeros((longest, longest + 2, states), np.int32)
    best = np.empty((longest + 2, states))
    for s in range(len(start) - 1):
        first, last = start[s], start[s + 1]
        value[s] = 0.0
        if first == last:
            continue
        _by_errors(initial, transition, scores, first, last, labels, best, pointer)
        top, errors, at = -np.inf, 0, 0
        for c in range(last - first + 1):
            for k in range(states):
                here = c * cost[s] * (1.0 + best[c, k] - right[s]) if best[c, k] > -np.inf else -np.inf
                if c == 0 and best[c, k] > -np.inf:
                    here = 0.0
                if here > top:
                    top, errors, at = here, c, k
        value[s] = top
        for t in range(last - 1, first - 1, -1):
            path[t] = at
            at = pointer[t - first, errors, at]
            errors -= 0 if path[t] == labels[t] else 1


def best_by_errors(
    initial: np.ndarray,
    transition: np.ndarray,
    scores: np.ndarray,
    start: np.ndarray,
    labels: np.ndarray,
    *,
    cost: np.ndarray,
    right: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """What slack rescaling asks for: max over y of loss(y) (1 + score(y) - right), loss = cost * errors.

    The product does not decompose, but the best score for every number of errors does.

    Parameters
    ----------
    initial, transition, scores, start
        As in `chains`.
    labels
        (positions,) the right states.
    cost, right
        (sequences,) cost of an error, and the score of the right states.
    """
    path, value = np.zeros(len(scores), np.int64), np.empty(len(start) - 1)
    cost, right = np.asarray(cost, dtype=np.float64), np.asarray(right, dtype=np.float64)
    _best_slack(initial, transition, scores, start, labels, cost, right, path, value)
    return path, value
