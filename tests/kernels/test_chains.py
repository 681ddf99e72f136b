"""Chains against enumeration over all paths, the log road against the scaled one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import logsumexp

from credo.kernels import chains

STATES = 3
LENGTHS = (1, 4, 0, 2, 5)
START = np.concatenate([[0], np.cumsum(LENGTHS)])


def problem(kind: str, *, per_step: bool = False, seed: int = 0):
    rng = np.random.default_rng(seed)
    positions = int(START[-1])
    initial = rng.standard_normal(STATES)
    transition = rng.standard_normal((positions if per_step else 1, STATES, STATES))
    scores = rng.standard_normal((positions, STATES))
    if kind == "zeros":
        transition[:, 0, 2] = transition[:, 2, 1] = -np.inf
        scores[3, 1] = -np.inf
        initial[1] = -np.inf
    if kind == "huge":
        transition *= 500
        scores *= 500
        initial *= 500
    return initial, transition, scores


def paths_of(initial, transition, scores, first, last):
    """All paths of one sequence and their log weights, by plain loops."""
    paths = list(itertools.product(range(STATES), repeat=last - first))
    logs = []
    for path in paths:
        total = initial[path[0]] + scores[first, path[0]] if path else 0.0
        for t in range(1, len(path)):
            row = 0 if len(transition) == 1 else first + t
            total += transition[row, path[t - 1], path[t]] + scores[first + t, path[t]]
        logs.append(total)
    return np.array(paths, dtype=int).reshape(len(paths), last - first), np.array(logs)


CASES = [(kind, per_step) for kind in ("plain", "zeros", "huge") for per_step in (False, True)]


@pytest.mark.parametrize(("kind", "per_step"), CASES)
def test_sums_equal_enumeration_of_all_paths(kind, per_step):
    parts = problem(kind, per_step=per_step)
    weight = np.array([1.0, 2.0, 1.0, 0.5, 3.0])
    log_z, marginals, summed = chains.chain_sums(*parts, START, weight=weight)
    _, _, each = chains.chain_sums(*parts, START, pairs="each")
    expected_sum = np.zeros((STATES, STATES))
    for s, (first, last) in enumerate(itertools.pairwise(START)):
        paths, logs = paths_of(*parts, first, last)
        assert log_z[s] == pytest.approx(logsumexp(logs), abs=1e-10)
        p = np.exp(logs - logsumexp(logs))
        for t in range(last - first):
            expected = np.bincount(paths[:, t], p, minlength=STATES)
            assert marginals[first + t] == pytest.approx(expected, abs=1e-12)
            if t:
                pair = np.zeros((STATES, STATES))
                np.add.at(pair, (paths[:, t - 1], paths[:, t]), p)
                assert each[first + t] == pytest.approx(pair, abs=1e-12)
                expected_sum += weight[s] * pair
    assert summed == pytest.approx(expected_sum, abs=1e-11)


@pytest.mark.parametrize(("kind", "per_step"), CASES)
def test_best_paths_equal_enumeration_of_all_paths(kind, per_step):
    parts = problem(kind, per_step=per_step, seed=3)
    path, value = chains.best_paths(*parts, START)
    assert chains.score_chains(*parts, START, path) == pytest.approx(value)
    for s, (first, last) in enumerate(itertools.pairwise(START)):
        paths, logs = paths_of(*parts, first, last)
        assert value[s] == pytest.approx(logs.max())
        assert path[first:last].tolist() == paths[logs.argmax()].tolist()


def test_filtered_probabilities_are_marginals_of_the_sequence_so_far():
    parts = problem("plain", seed=5)
    alpha, scale = chains.filter_chains(*parts, START)
    log_z, _, _ = chains.chain_sums(*parts, START, marginals=False)
    assert np.add.reduceat(scale, START[[0, 1, 3, 4]]) == pytest.approx(log_z[[0, 1, 3, 4]])
    first = int(START[4])
    for t in range(first, int(START[5])):
        so_far = parts[2][first : t + 1]
        _, marginals, _ = chains.chain_sums(*parts[:2], so_far, np.array([0, len(so_far)]))
        assert np.exp(alpha[t]) == pytest.approx(marginals[-1])


def test_a_path_that_looks_lost_for_a_thousand_steps_is_not():
    """Two states that never mix: the evidence favours one and then, as strongly, the other."""
    never = np.array([[[0.0, -np.inf], [-np.inf, 0.0]]])
    scores = np.zeros((2000, 2))
    scores[:1000, 0] = 2.0
    scores[1000:, 1] = 2.0
    log_z, marginals, pairs = chains.chain_sums(np.zeros(2), never, scores, np.array([0, 2000]))
    assert log_z[0] == pytest.approx(2000 + np.log(2))
    assert marginals == pytest.approx(np.full((2000, 2), 0.5))
    assert pairs == pytest.approx(np.eye(2) * 999.5)


def test_an_impossible_sequence_has_log_z_minus_infinity_and_does_not_spoil_the_others():
    initial, transition, scores = problem("plain")
    scores[2] = -np.inf
    log_z, marginals, pairs = chains.chain_sums(initial, transition, scores, START)
    path_value = chains.best_paths(initial, transition, scores, START)[1]
    assert log_z[1] == -np.inf
    assert path_value[1] == -np.inf
    assert not marginals[1:5].any()
    kept = np.isfinite(log_z)
    fine = chains.chain_sums(*problem("plain"), START)[0]
    assert log_z[kept] == pytest.approx(fine[kept])
    assert pairs.sum() == pytest.approx(1 + 4)


@pytest.mark.parametrize("kind", ["plain", "zeros"])
def test_samples_have_the_marginals_of_the_chain(kind):
    parts = problem(kind, seed=2)
    uniforms = np.random.default_rng(0).random((20000, int(START[-1])))
    paths = chains.sample_chains(*parts, START, uniforms)
    _, marginals, each = chains.chain_sums(*parts, START, pairs="each")
    for k in range(STATES):
        assert (paths == k).mean(axis=0) == pytest.approx(marginals[:, k], abs=5 * 0.5 / np.sqrt(20000))
    seen = np.mean((paths[:, 2] == 1) & (paths[:, 3] == 0))
    assert seen == pytest.approx(each[3, 1, 0], abs=5 * 0.5 / np.sqrt(20000))


def test_long_sequences_stay_normalised():
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((20000, 4)) * 3
    transition = rng.standard_normal((1, 4, 4))
    log_z, marginals, pairs = chains.chain_sums(np.zeros(4), transition, scores, np.array([0, 20000]))
    assert np.isfinite(log_z[0])
    assert marginals.sum(axis=1) == pytest.approx(np.ones(20000))
    assert pairs.sum() == pytest.approx(19999)
    assert pairs.sum(axis=1) == pytest.approx(marginals[:-1].sum(axis=0))


def test_the_source_of_the_kernels_runs_uncompiled():
    parts = problem("zeros")
    log_z, found, summed = np.empty(5), np.zeros((12, STATES)), np.zeros((STATES, STATES))
    chains._sums.py_func(*parts, START, np.ones(5), 1, log_z, found, summed, np.zeros((0, STATES, STATES)))
    compiled = chains.chain_sums(*parts, START)
    assert log_z == pytest.approx(compiled[0])
    assert found == pytest.approx(compiled[1])
    assert summed == pytest.approx(compiled[2])
