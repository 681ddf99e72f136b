"""Scaled forward-backward against the log domain, and the sums and exponentials it stands on."""

from __future__ import annotations

import numpy as np
import pytest

from credo.kernels import gaussian_density, scaled_chains, semi_markov, weighted_sums
from credo.kernels.chains import chain_sums


def chain(seed, states, lengths, spread=3.0, zeros=0.0):
    rng = np.random.default_rng(seed)
    start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    step = rng.dirichlet(np.ones(states), size=states)
    step[rng.random(step.shape) < zeros] = 0
    scores = spread * rng.normal(size=(start[-1], states))
    scores[rng.random(scores.shape) < zeros / 2] = -np.inf
    return rng.dirichlet(np.ones(states)), step, scores, start


@pytest.mark.parametrize("zeros", [0.0, 0.3])
@pytest.mark.parametrize("spread", [1.0, 100.0, 2000.0])
@pytest.mark.parametrize("states", [1, 2, 3, 4, 7, 16])
def test_scaled_sums_equal_those_in_logarithms(states, spread, zeros):
    initial, step, scores, start = chain(states, states, [5, 0, 1, 130, 64, 65, 2], spread, zeros)
    weight = np.arange(1.0, 8.0)
    scaled = scaled_chains.smooth_chains(initial, step, scores, start, weight=weight)
    logs = scaled_chains.smooth_chains(initial, step, scores, start, weight=weight, logs=True)
    np.testing.assert_allclose(scaled.log_z, logs.log_z, rtol=1e-11)
    np.testing.assert_allclose(scaled.marginals, logs.marginals, atol=1e-9)
    np.testing.assert_allclose(scaled.pairs, logs.pairs, atol=1e-8)
    np.testing.assert_allclose(
        scaled_chains.likelihoods(initial, step, scores, start), logs.log_z, rtol=1e-11
    )


def test_scores_are_kept_unless_they_can_be_had_again():
    initial, step, scores, start = chain(0, 3, [6, 4])
    before = scores.copy()
    kept = scaled_chains.smooth_chains(initial, step, scores, start)
    np.testing.assert_array_equal(scores, before)
    spent = scaled_chains.smooth_chains(initial, step, scores, start, again=lambda rows: before[rows])
    np.testing.assert_array_equal(kept.marginals, spent.marginals)
    assert not np.array_equal(scores, before)


def test_sequences_that_underflow_ask_for_their_scores_again():
    step = np.array([[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    scores = np.array([[-5000.0, -9e3, 0.0], [-9e3, 0.0, -9e3], [-9e3, 0.0, -9e3]])
    asked = []

    def again(rows):
        asked.append(rows)
        return scores[rows]

    start = np.array([0, 3])
    found = scaled_chains.smooth_chains(np.array([0.5, 0.0, 0.5]), step, scores.copy(), start, again=again)
    assert asked == [slice(0, 3)]
    assert found.log_z[0] == pytest.approx(np.log(0.5) - 5000)
    np.testing.assert_allclose(found.marginals, [[1, 0, 0], [0, 1, 0], [0, 1, 0]])


def test_impossible_sequences_have_no_likelihood_and_add_nothing():
    scores = np.zeros((4, 2))
    scores[2] = -np.inf
    found = scaled_chains.smooth_chains(np.full(2, 0.5), np.full((2, 2), 0.5), scores, np.array([0, 2, 4]))
    np.testing.assert_allclose(found.log_z, [0, -np.inf], atol=1e-12)
    np.testing.assert_allclose(found.pairs, 0.25)
    assert (found.marginals[2:] == 0).all()


def test_exponentials_are_right_to_the_rounding_of_their_argument():
    rng = np.random.default_rng(0)
    values = np.concatenate([-700 * rng.random(5000), -rng.random(5000), [0.0, -1e-300, -699.9]])
    found, shift = values.copy(), np.empty(len(values) // 2 + 1)
    padded = np.append(found, np.zeros(2 * len(shift) - len(found))).reshape(-1, 2)
    expected = padded - padded.max(axis=1, keepdims=True)
    scaled_chains.scaled_rows(padded, shift)
    far = np.abs(expected)
    gap = np.abs(padded / np.exp(expected) - 1)
    assert (gap <= 4e-16 + 2.3e-16 * far).all()
    low = np.array([[0.0, -700.1, -np.inf], [-np.inf] * 3])
    scaled_chains.scaled_rows(low, shift)
    np.testing.assert_array_equal(low, [[1, 0, 0], [0, 0, 0]])
    assert shift[1] == 0


def test_kernels_run_uncompiled_as_their_own_specification():
    scores = chain(1, 3, [3, 2])[2]
    compiled, plain = scores.copy(), scores.copy()
    one, two = np.empty(5), np.empty(5)
    scaled_chains.scaled_rows(compiled, one)
    scaled_chains.scaled_rows.py_func(plain, two)
    np.testing.assert_allclose(compiled, plain, rtol=1e-15)
    found = np.zeros((2, 4))
    table = (np.ones((3, 2)), np.arange(6.0).reshape(3, 2), np.ones(2))
    weighted_sums._moments.py_func(*table, True, found)
    np.testing.assert_allclose(found, weighted_sums.square_sums(*table))
    out = np.empty((3, 1))
    x = np.arange(6.0).reshape(3, 2)
    gaussian_density._dense.py_func(x, np.zeros((1, 2)), np.eye(2)[None], np.zeros(1), out)
    np.testing.assert_allclose(out[:, 0], -0.5 * (x**2).sum(axis=1))


@pytest.mark.parametrize("rows", [1, 3, 4, 9, 200])
def test_weighted_sums_are_matrix_products(rows):
    rng = np.random.default_rng(rows)
    left, right = rng.random((rows, 5)), rng.normal(size=(rows, 3))
    np.testing.assert_allclose(weighted_sums.weighted_sums(left, right), left.T @ right)
    expected = np.concatenate(
        [left.T @ right, np.einsum("nk,ni,nj->kij", left, right, right).reshape(5, 9)], 1
    )
    origin = rng.normal(size=3)
    np.testing.assert_allclose(weighted_sums.moment_sums(left, right + origin, origin), expected)
    squares = np.concatenate([left.T @ right, left.T @ right**2], 1)
    np.testing.assert_allclose(weighted_sums.square_sums(left, right + origin, origin), squares)
    wide = rng.random((rows, 200))
    np.testing.assert_allclose(weighted_sums.weighted_sums(wide, wide), wide.T @ wide)


def test_segments_of_one_step_are_a_chain():
    initial, step, scores, start = chain(3, 4, [30, 1, 12])
    found = semi_markov.smooth_segments(initial, step, np.ones((4, 1)), scores, start)
    log_z, marginals, pairs = chain_sums(np.log(initial), np.log(step)[None], scores, start)
    np.testing.assert_allclose(found.log_z, log_z, rtol=1e-12)
    np.testing.assert_allclose(found.marginals, marginals, atol=1e-12)
    np.testing.assert_allclose(found.pairs, pairs, atol=1e-10)
