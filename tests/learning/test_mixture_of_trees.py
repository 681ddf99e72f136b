"""Mixtures of trees as models, and learning them by EM with Chow-Liu trees."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import credo
from credo.core.errors import DataError, ModelError, UnsupportedError
from credo.learning.mixture_of_trees import MixtureOfTreesEM
from credo.learning.structure import best_tree
from credo.models.mixture_of_trees import MixtureOfTrees

NAMES = [f"x{i}" for i in range(5)]
STATES = dict.fromkeys(NAMES, 3)


def _chain(seed):
    return credo.BayesNet.random(STATES, {NAMES[i]: [NAMES[i - 1]] for i in range(1, 5)}, seed, 0.3)


def _star(seed):
    return credo.BayesNet.random(STATES, {NAMES[i]: [NAMES[0]] for i in range(1, 5)}, seed, 0.3)


@pytest.fixture(scope="module")
def mixture():
    return MixtureOfTrees([0.4, 0.6], [_chain(0), _star(1)])


@pytest.fixture(scope="module")
def data(mixture):
    return mixture.sample(2000, seed=1)


def mixture_of_trees(data, components, *, smoothing=1.0, restarts=1, **limits):
    learner = MixtureOfTreesEM(components=components, smoothing=smoothing, restarts=restarts)
    return credo.fit(credo.BayesNet.from_edges(), data, learner, **limits)


def _columns(samples):
    return {name: samples.column(name) for name in NAMES}


def test_the_factor_graph_of_a_mixture_has_its_probabilities(mixture):
    rows = np.array(list(itertools.product(range(3), repeat=5)))
    p = np.exp(mixture.log_probs(rows))
    assert p.sum() == pytest.approx(1)
    exact = credo.infer(mixture, "junction-tree")
    assert exact.log_z.value == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(exact.marginals["component"], mixture.weights)
    for i, name in enumerate(NAMES):
        np.testing.assert_allclose(exact.marginals[name], np.bincount(rows[:, i], p))
    row = [0, 1, 2, 0, 1]
    seen = credo.infer(mixture, "junction-tree", evidence=dict(zip(NAMES, row, strict=True)))
    assert seen.log_z.value == pytest.approx(mixture.log_prob(dict(zip(NAMES, row, strict=True))))
    np.testing.assert_allclose(seen.marginals["component"], mixture.responsibilities(np.array([row]))[0])
    frequencies = np.bincount(mixture.sample(20000, seed=0).column("x3"), minlength=3) / 20000
    np.testing.assert_allclose(frequencies, exact.marginals["x3"], atol=0.02)


def test_em_never_falls_and_finds_both_trees(mixture, data):
    found = mixture_of_trees(data, 2, restarts=3, seed=0, max_iter=1000)
    assert found.converged
    assert (np.diff(found.objective) > -1e-12).all()
    assert len(found.restarts) == 3 and found.objective[-1] == found.restarts.max()
    expected = {frozenset(map(frozenset, mixture.edges(m))) for m in range(2)}
    assert {frozenset(map(frozenset, found.model.edges(m))) for m in range(2)} == expected
    np.testing.assert_allclose(np.sort(found.model.weights), [0.4, 0.6], atol=0.05)
    test = mixture.sample(2000, seed=2)
    best, single = mixture.log_probs(test).mean(), mixture_of_trees(data, 1).model.log_probs(test).mean()
    assert found.model.log_probs(test).mean() > best - 0.03 > single


def test_without_smoothing_the_likelihood_itself_never_falls(data):
    found = mixture_of_trees(data, 3, smoothing=0.0, seed=4, max_iter=60, tol=0.02)
    np.testing.assert_array_equal(found.objective, found.trace["log_likelihood"])
    assert (np.diff(found.objective) > -1e-12).all()
    total = found.model.log_probs(data).sum()
    assert found.log_likelihood.value == pytest.approx(total)


def test_one_component_is_the_chow_liu_tree(data):
    found = mixture_of_trees(data, 1, smoothing=2.0)
    assert found.model.trees[0] == best_tree(data, smoothing=2.0)


def test_a_given_mixture_is_the_start_and_its_name_is_kept(mixture, data):
    named = MixtureOfTrees(mixture.weights, mixture.trees, choice="which")
    found = credo.fit(named, _columns(data), "mixture-of-trees", validation=0.2, seed=0)
    assert found.model.choice == "which" and found.model.n_components == 2
    assert found.objective[-1] - found.objective[0] < 0.02  # the truth is close to a stationary point
    assert len(found.trace["validation"]) == len(found.objective)
    assert abs(found.model.weights[0] - 0.4) < 0.05  # components are not swapped


def test_weights_count_rows(data):
    few = {name: column[:50] for name, column in _columns(data).items()}
    twice = {name: np.tile(column, 2) for name, column in few.items()}
    graph, learner = credo.FactorGraph(STATES), MixtureOfTreesEM(components=1)
    one, other = credo.fit(graph, few, learner, weights=np.full(50, 2)), credo.fit(graph, twice, learner)
    assert one.objective[-1] == pytest.approx(other.objective[-1])


def test_refusals(mixture):
    with pytest.raises(UnsupportedError, match="'x1' is missing in 1 rows"):
        rows = [dict.fromkeys(NAMES, 0), {**dict.fromkeys(NAMES, 1), "x1": None}]
        credo.fit(credo.FactorGraph(STATES), rows, "mixture-of-trees")
    with pytest.raises(ModelError, match="sum to 1"):
        MixtureOfTrees([0.5, 0.6], mixture.trees)
    with pytest.raises(ModelError, match="a tree allows one"):
        MixtureOfTrees([1.0], [credo.BayesNet.random(STATES, {"x2": ["x0", "x1"]}, seed=0)])
    with pytest.raises(ModelError, match="the variables of tree 0"):
        MixtureOfTrees([0.5, 0.5], [_chain(0), credo.BayesNet.random({"x0": 2}, {}, seed=0)])
    with pytest.raises(ModelError, match="is a variable of the trees"):
        MixtureOfTrees([1.0], mixture.trees[:1], choice="x0")
    with pytest.raises(DataError, match="validation: expected complete rows"):
        held = [{**dict.fromkeys(NAMES, 1), "x1": None}]
        credo.fit(mixture, [dict.fromkeys(NAMES, 0)], "mixture-of-trees", validation=held)
