"""Exact samples: frequencies of single variables, of pairs and of whole states, with and without evidence."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import credo
from credo import FactorGraph, datasets
from credo.core.errors import OptionError
from random_models import joint

COUNT = 20_000
DEVIATIONS = 5.0  # a few hundred frequencies are compared; beyond five is one in a million each


def deviations(indices, table):
    """How far frequencies of joint states lie from their probabilities, in standard deviations."""
    cell = np.ravel_multi_index(tuple(indices.T), table.shape)
    found = np.bincount(cell, minlength=table.size) / len(indices)
    p = table.ravel().clip(0, 1)  # sums of many terms may exceed one by rounding
    assert not found[p == 0].any()
    spread = np.sqrt(p * (1 - p) / len(indices)) + 1 / len(indices)
    return np.abs(found - p) / spread


def posterior(model, evidence):
    """All joint states by brute force."""
    weights = joint(model.to_factor_graph())
    for name, state in evidence.items():
        i = model.variables.position(name)
        keep = np.arange(weights.shape[i]) == state
        weights = np.where(keep.reshape([-1 if k == i else 1 for k in range(weights.ndim)]), weights, -np.inf)
    p = np.exp(weights - weights.max())
    return p / p.sum()


MODELS = {
    "asia": datasets.asia(),
    "grid": datasets.ising_grid(3, seed=2),
    "mixed": datasets.random_factor_graph(6, 7, states=[2, 3, 2, 4, 1, 2], seed=4, zeros=0.15),
    "parts": FactorGraph(
        {"a": 2, "b": 3, "c": 2, "lone": 4}, {("a", "b"): [[1, 2, 3], [3, 0, 1]], ("c",): [1, 4]}
    ),
}


@pytest.mark.parametrize("observed", [0, 1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_frequencies_of_variables_and_pairs_equal_their_probabilities(name, observed):
    model = MODELS[name]
    names = list(model.variables.names)
    p = posterior(model, {})
    state = np.argwhere(p == p.max())[0]
    evidence = {names[i]: int(state[i]) for i in range(1, 1 + 2 * observed, 2) if i < len(names)}
    p = posterior(model, evidence)
    rows = credo.sample(model, COUNT, evidence=evidence, seed=observed).indices
    assert rows.shape == (COUNT, len(names))
    for keep in (*combinations(range(len(names)), 1), *combinations(range(len(names)), 2)):
        table = p.sum(axis=tuple(i for i in range(len(names)) if i not in keep))
        assert deviations(rows[:, list(keep)], table).max() < DEVIATIONS, keep
    for i, value in evidence.items():
        assert (rows[:, names.index(i)] == value).all()


def test_frequencies_of_whole_states_equal_their_probabilities():
    model = MODELS["mixed"]
    rows = credo.sample(model, COUNT, seed=9).indices
    assert deviations(rows, posterior(model, {})).max() < DEVIATIONS


def test_soft_evidence_weighs_the_samples():
    graph = FactorGraph({"a": 2, "b": 2}, {("a", "b"): [[1, 2], [3, 4]]})
    rows = credo.sample(graph, COUNT, evidence={"a": [3.0, 1.0]}, seed=0).indices
    assert deviations(rows, np.array([[3, 6], [3, 4]]) / 16).max() < DEVIATIONS


def test_samples_of_a_range_that_underflows_are_right():
    table = np.array([[-2000.0, -2001.0], [-2000.5, -3000.0]])
    graph = FactorGraph.from_arrays([2, 2, 2], ([[0, 1], [1, 2]], table), log=True)
    rows = credo.sample(graph, COUNT, seed=3).indices
    logs = table[:, :, None] + table[None, :, :]
    p = np.exp(logs - logs.max())
    assert deviations(rows, p / p.sum()).max() < DEVIATIONS


def test_the_samples_of_a_long_chain_have_its_transitions():
    n = 2000
    scopes = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
    graph = FactorGraph.from_arrays(np.full(n, 2), (scopes, [[3.0, 1.0], [1.0, 3.0]]))
    rows = credo.sample(graph, 50, seed=1).indices
    stays = (rows[:, 1:] == rows[:, :-1]).ravel()
    assert abs(stays.mean() - 0.75) < 5 * np.sqrt(0.75 * 0.25 / stays.size)


def test_rows_are_independent():
    rows = credo.sample(MODELS["grid"], COUNT, seed=6).indices.astype(float)
    for i in range(rows.shape[1]):
        r = np.corrcoef(rows[1:, i], rows[:-1, i])[0, 1]
        assert abs(r) < 5 / np.sqrt(COUNT)


def test_a_seed_repeats_the_samples_and_no_seed_does_not():
    model = MODELS["grid"]
    same = [credo.sample(model, 40, seed=5).indices for _ in range(2)]
    np.testing.assert_array_equal(*same)
    fresh = [credo.sample(model, 40).indices for _ in range(2)]
    assert (fresh[0] != fresh[1]).any()


def test_a_negative_count_is_refused():
    with pytest.raises(OptionError, match="count must be at least 0, got -1"):
        credo.sample(MODELS["asia"], -1)
