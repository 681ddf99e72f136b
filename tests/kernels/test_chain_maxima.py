"""Maxima over chains with summed positions, and by number of errors, against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from credo.kernels.chain_maxima import best_by_errors, best_known
from credo.kernels.chains import best_paths, score_chains

START = np.array([0, 5, 5, 6, 10])
STATES = 3


def chains(seed, *, shared=True):
    rng = np.random.default_rng(seed)
    count = START[-1]
    return (
        rng.normal(size=STATES),
        rng.normal(size=(1 if shared else count, 3, 3)),
        rng.normal(size=(count, 3)),
    )


def all_scores(initial, transition, scores, first, last):
    """Every labelling of one chain, with its score."""
    own = transition if len(transition) == 1 else transition[first:last]
    for states in itertools.product(range(STATES), repeat=last - first):
        y = np.array(states, dtype=np.int64)
        value = score_chains(initial, own, scores[first:last], np.array([0, last - first]), y)
        yield y, float(value[0])


@pytest.mark.parametrize("shared", [True, False])
def test_marginal_map_of_chains_with_summed_positions(shared):
    for seed in range(20):
        model, eps = chains(seed, shared=shared), [1.0, 0.3, 2.0][seed % 3]
        known = np.random.default_rng(seed).random(START[-1]) < 0.6
        path, value = best_known(*model, START, known, eps)
        for s, (first, last) in enumerate(itertools.pairwise(START)):
            own, totals = known[first:last], {}
            for y, score in all_scores(*model, first, last):
                totals.setdefault(tuple(y[own]), []).append(score / eps)
            sums = {y: eps * np.logaddexp.reduce(v) for y, v in totals.items()}
            best = max(sums, key=sums.get)
            assert value[s] == pytest.approx(sums[best] if last > first else 0.0)
            assert tuple(path[first:last][own]) == best
            assert (path[first:last][~own] == -1).all()


def test_all_known_is_the_best_path():
    model = chains(3)
    path, value = best_known(*model, START, np.ones(START[-1], bool), 1.0)
    expected = best_paths(*model, START)
    np.testing.assert_array_equal(path, expected[0])
    np.testing.assert_allclose(value, expected[1])


def test_impossible_states_between_known_ones():
    initial, transition, scores = chains(4)
    scores[1], scores[2, 1:] = [-np.inf, 0.3, -np.inf], -np.inf
    known = np.array([1, 0, 0, 1, 1, 1, 1, 0, 1, 1], bool)
    path, value = best_known(initial, transition, scores, START, known, 1.0)
    assert np.isfinite(value).all() and not np.isnan(path).any()
    clamped = scores.copy()
    for t in np.flatnonzero(known):
        clamped[t] = np.where(np.arange(STATES) == path[t], scores[t], -np.inf)
    totals = [
        np.logaddexp.reduce([v for _, v in all_scores(initial, transition, clamped, a, b)])
        for a, b in itertools.pairwise(START)
    ]
    np.testing.assert_allclose(value, totals, atol=1e-12)


@pytest.mark.parametrize("shared", [True, False])
def test_slack_rescaling_counts_errors(shared):
    for seed in range(20):
        model, rng = chains(seed, shared=shared), np.random.default_rng(seed)
        labels = rng.integers(0, STATES, START[-1])
        right = score_chains(*model, START, labels)
        cost = np.array([1.0, 1.0, 2.0, 0.25])
        path, value = best_by_errors(*model, START, labels, cost=cost, right=right)
        for s, (first, last) in enumerate(itertools.pairwise(START)):
            found = {
                tuple(y): cost[s] * (y != labels[first:last]).sum() * (1 + score - right[s])
                for y, score in all_scores(*model, first, last)
            }
            best = max(found.values())
            assert value[s] == pytest.approx(best)
            assert found[tuple(path[first:last])] == pytest.approx(best)
