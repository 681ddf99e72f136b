"""Chains of machines whose units count fractionally: the exact transition matrix, and what is accepted."""

from __future__ import annotations

import numpy as np
import pytest

from credo.inference.sampling.fractional_chains import FractionalChains
from credo.kernels.boltzmann import binary_rows, sigmoid, softplus
from credo.models import FractionalRBM


def transitions(chains, count, hidden):
    """The exact transition matrix, written out: all hidden states, all proposals, acceptance."""
    states = binary_rows(count)
    whole = np.floor(chains.counts).astype(int)
    part = chains.counts - whole
    columns = [np.repeat(np.arange(hidden), whole), np.flatnonzero(part)]
    scale = np.concatenate([np.ones(whole.sum()), part[columns[1]]])
    which = np.concatenate(columns)
    weights, right = chains.weights[:, which] * scale, chains.right[which] * scale
    h = binary_rows(len(which))

    def bernoulli(p, rows):
        return np.exp(np.log(p) @ rows.T + np.log(1 - p) @ (1 - rows).T)

    up = bernoulli(sigmoid(states @ weights + right), h)
    down = bernoulli(sigmoid(h @ weights.T + chains.left), states)
    proposal = up @ down
    inputs = states @ chains.weights + chains.right
    target = softplus(inputs) @ chains.counts + states @ chains.left
    easy = softplus(states @ weights + right).sum(axis=1) + states @ chains.left
    gain = (target - easy)[None] - (target - easy)[:, None]
    moved = proposal * np.minimum(1, np.exp(gain))
    np.fill_diagonal(moved, 0)
    np.fill_diagonal(moved, 1 - moved.sum(axis=1))
    return moved, np.exp(target - np.logaddexp.reduce(target)), (proposal * np.minimum(1, np.exp(gain)))


@pytest.mark.parametrize("counts", [[0.4, 1.7, 1.0], [2.0, 1.0, 3.0], [0.2, 0.9, 2.5]])
def test_the_exact_transition_matrix_leaves_the_model_as_it_is(counts):
    rng = np.random.default_rng(0)
    counts = np.array(counts)
    model = FractionalRBM(rng.normal(size=(4, 3)), counts, rng.normal(size=4), rng.normal(size=3))
    chains = FractionalChains(model.weights, counts, model.visible_bias, model.hidden_bias)
    matrix, p, taken = transitions(chains, 4, 3)
    np.testing.assert_allclose(p, np.exp(model.log_density(binary_rows(4))), atol=1e-12)
    np.testing.assert_allclose(p @ matrix, p, atol=1e-14)
    part = counts - np.floor(counts)
    least = np.prod(2 ** (part[part > 0] - 1))
    assert taken.sum(axis=1).min() >= least - 1e-12
    # The sweep is this matrix: frequencies of where it leads from one state.
    start = np.tile([1.0, 0, 1, 0], (40_000, 1))
    ends, accepted = chains.sweep(start, np.random.default_rng(1))
    where = (ends @ [8, 4, 2, 1]).astype(int)
    found = np.bincount(where, minlength=16) / len(start)
    np.testing.assert_allclose(found, matrix[10], atol=0.012)
    assert accepted.mean() == pytest.approx(taken.sum(axis=1)[10], abs=0.01)
    assert accepted.all() == (part == 0).all()


def test_a_power_is_near_the_unit_that_stands_for_it():
    a, c = np.meshgrid(np.linspace(-30, 30, 61), np.linspace(0.02, 1, 50))
    ratio = c * softplus(a) - softplus(c * a)
    assert (ratio <= 1e-12).all() and (ratio >= (c - 1) * np.log(2) - 1e-12).all()


def test_chains_have_fields_of_their_own():
    left = np.array([[50.0, -50.0], [-50.0, 50.0]])
    chains = FractionalChains(np.zeros((2, 1)), np.array([0.5]), left, np.array([[0.0], [1.0]]))
    v, _ = chains.sweep(np.array([[1.0, 0], [0, 1]]), np.random.default_rng(0))
    np.testing.assert_array_equal(v, [[1, 0], [0, 1]])
