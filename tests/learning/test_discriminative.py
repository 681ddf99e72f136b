"""Conditional learning of class models: slopes by finite differences, what moves and what stays, refusals."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import credo
from credo.core.errors import DataError, ModelError, OptionError, UnsupportedError
from credo.families import Categorical, DiagonalGaussian, Flow, Gaussian, Mixture
from credo.families.base import each_member
from credo.families.trees import map_tree, tree_leaves
from credo.learning import discriminate
from credo.learning.class_model import ClassModel
from credo.nn.adam import Rates
from credo.nn.arrays import precision

MOVES = [[0.7, 0.3], [0.0, 1.0]]


def flows(seed):
    flow = Flow.started("actnorm + coupling(layers=2, width=3)", 2, 4, precision="double")
    rng = np.random.default_rng(seed)
    lively = flow.from_free(map_tree(lambda a: a + 0.2 * rng.normal(size=a.shape), flow.to_free()))
    return credo.HMM([1.0, 0.0], MOVES, Mixture([[0.3, 0.7], [0.5, 0.5]], lively))


def gaussians(seed):
    means = np.random.default_rng(seed).normal(size=(2, 2))
    return credo.HMM([0.6, 0.4], MOVES, Gaussian(means, [np.eye(2)] * 2))


def sequences(count=12, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 2
    x = [rng.normal(0.5 * label, 1.0, size=(rng.integers(1, 6), 2)) for label in labels]
    x[3] = np.concatenate([x[3], [[np.nan, np.nan]]])
    return x, ["b" if label else "a" for label in labels]


def conditional(models, x, y):
    logs = np.stack([credo.log_likelihood(m, x, each=True) for m in models.values()], axis=1)
    logs = logs + np.log([np.mean([label == c for label in y]) for c in models])
    own = [list(models).index(label) for label in y]
    return (logs[np.arange(len(x)), own] - np.logaddexp.reduce(logs, axis=1)).mean()


@pytest.mark.parametrize("make", [gaussians, pytest.param(flows, marks=pytest.mark.slow)])
def test_slopes_are_those_of_finite_differences(make):
    x, y = sequences()
    models = {"a": make(1), "b": make(2)}
    own = ClassModel(models["b"], models["b"].sequences(x), with_choices=True)
    numbers = own.begin(Rates(1e-3), np.inf)
    logs = np.stack([credo.log_likelihood(m, x, each=True) for m in models.values()], axis=1)
    shares = np.exp(logs - np.logaddexp.reduce(logs, axis=1)[:, None])
    signs = np.array([label == "b" for label in y]) - shares[:, 1]
    answer = own.answer(own.at(numbers), np.arange(len(x)))
    counts, q = own.shares(answer, signs)
    free = numbers.leaves["model"].parameters
    with precision(double=True):

        def value(tree):
            leaves = each_member(own._rows)(tree, own._rows.to_arrays(answer.part.rows()))
            pairs = zip(tree_leaves(leaves), tree_leaves(q), strict=True)
            return sum((leaf * share).sum() for leaf, share in pairs) / len(x)

        slope = jax.device_get(jax.grad(value)(free))
    slopes = {
        "leaves": slope,
        "choices": map_tree(lambda a: -a, own.choice_slopes(answer, signs, counts, numbers.choices)),
    }
    start = {"leaves": free, "choices": numbers.choices.parameters}
    rng, step = np.random.default_rng(0), 1e-5
    for part, tree in start.items():
        free = own._rows.is_free if part == "leaves" else map_tree(lambda _: True, tree)
        way = map_tree(lambda a, moves: moves * rng.normal(size=a.shape), tree, free)
        at = []
        for sign in (1, -1):
            there = map_tree(lambda a, w, s=sign: a + s * step * w, tree, way)
            if part == "leaves":
                carry = {**numbers.leaves, "model": numbers.leaves["model"]._replace(parameters=there)}
                moved = numbers._replace(leaves=carry)
            else:
                moved = numbers._replace(choices=numbers.choices._replace(parameters=there))
            at.append(conditional({**models, "b": own.at(moved)}, x, y))
        pairs = zip(tree_leaves(slopes[part]), tree_leaves(way), strict=True)
        assert (at[0] - at[1]) / (2 * step) == pytest.approx(
            sum((a * b).sum() for a, b in pairs), rel=1e-5, abs=1e-9
        )


@pytest.mark.parametrize("tune", ["all", pytest.param("leaves", marks=pytest.mark.slow)])
def test_the_conditional_likelihood_rises_and_zeros_stay(tune):
    x, y = sequences(40)
    start = {"a": flows(1), "b": flows(2)}
    found = discriminate(start, x, y, tune=tune, epochs=2, rate=0.01, batch=8, seed=0)
    assert found.objective[0] == pytest.approx(conditional(start, x, y), rel=1e-9)
    assert found.objective[-1] > found.objective[0] + 0.02 and len(found.objective) == 3
    assert found.objective[-1] == pytest.approx(conditional(found.models, x, y), rel=1e-9)
    for label, model in found.models.items():
        np.testing.assert_array_equal(model.start, [1.0, 0.0])
        assert model.transition[1, 0] == 0.0
        same = np.array_equal(model.emission.weights, start[label].emission.weights)
        assert same == (tune == "leaves")


def test_rows_of_families_are_classified_too_and_priors_are_an_option():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(-1, 1, (30, 1)), rng.normal(1, 1, (60, 1))])
    y = np.repeat([0, 1], [30, 60])
    start = {c: DiagonalGaussian([[0.2 * c]], [[1.0]]) for c in (0, 1)}
    found = {
        name: discriminate(start, x, y, priors=priors, epochs=10, rate=0.05, batch=30, seed=0)
        for name, priors in (("counts", "counts"), ("given", {0: 1.0, 1: 2.0}), ("none", None))
    }
    np.testing.assert_allclose(found["counts"].objective, found["given"].objective)
    ends = [discriminate(start, x, y, batch=30, rate=0.05, seed=s).objective[-1] for s in (0, 0, 1)]
    assert ends[0] == ends[1] != ends[2]  # the seed is that of the order of rows
    assert found["counts"].objective[-1] > found["counts"].objective[0] + 0.1
    assert found["none"].objective[0] != found["counts"].objective[0]


def test_what_cannot_be_is_refused():
    x, y = sequences(6)
    models = {"a": gaussians(1), "b": gaussians(2)}
    for how, said in (
        ({"epochs": 0}, "epochs"), ({"batch": 0}, "batch"), ({"tune": "a"}, "tune"), ({"rate": -1.0}, "rate"),
        ({"priors": {"a": 1.0}}, "priors must be"), ({"priors": {"a": -1.0, "b": 1.0}}, "from 0 upwards"),
    ):  # fmt: skip
        with pytest.raises(OptionError, match=said):
            discriminate(models, x, y, **how)
    with pytest.raises(DataError, match="expected one label per sequence, 6 in all, got 5"):
        discriminate(models, x, y[:5])
    with pytest.raises(DataError, match="label 'c' has no model"):
        discriminate(models, x, [*y[:5], "c"])
    with pytest.raises(DataError, match="row 0 misses some of its numbers"):
        discriminate(models, [np.array([[np.nan, 1.0]]), *x[1:]], y)
    with pytest.raises(UnsupportedError, match="class 'a': expected a model of hidden rows, got BayesNet"):
        discriminate({"a": credo.datasets.asia()}, x, y)
    symbols = credo.HMM([1.0], [[1.0]], Categorical([[0.5, 0.5]]))
    with pytest.raises(ModelError, match="got Categorical"):
        discriminate({"a": symbols, "b": symbols}, [[0, 1], [1]], ["a", "b"])
