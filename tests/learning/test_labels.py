"""A column that says the hidden state of some rows."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import credo
from credo.core.errors import ConvergenceWarning, DataError, OptionError
from credo.families import DiagonalGaussian


def quietly(*arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return credo.fit(*arguments, **options)


def frame(share, seed=0):
    """Three states that overlap, two patients, and a share of labels."""
    rng = np.random.default_rng(seed)
    truth = credo.HMM(
        np.full(3, 1 / 3), np.full((3, 3), 0.1) + 0.7 * np.eye(3),
        DiagonalGaussian([[2.0], [0.0], [-2.0]], np.ones((3, 1))),
    )  # fmt: skip
    x, states = credo.sample(truth, lengths=[60, 60], seed=seed)
    told = np.where(rng.random(120) < share, states.astype(float), np.nan)
    table = pd.DataFrame({"x": x[:, 0], "state": told, "patient": np.repeat(["b", "a"], 60)})
    return table, states


def test_where_all_states_are_known_parameters_are_counted():
    table, states = frame(1.0)
    found = credo.fit(credo.HMM.gaussian(3), table, groups="patient", labels="state", seed=0)
    pairs = np.zeros((3, 3))
    for part in (states[:60], states[60:]):
        np.add.at(pairs, (part[:-1], part[1:]), 1)
    np.testing.assert_allclose(found.model.transition, pairs / pairs.sum(axis=1, keepdims=True))
    x = table["x"].to_numpy()
    means = [x[states == k].mean() for k in range(3)]
    np.testing.assert_allclose(found.model.emission.parts[0].mean[:, 0], means)
    assert any("the states of 120 of 120 rows are known" in note for note in found.notes)


def test_some_known_states_give_the_states_their_numbers():
    table, states = frame(0.3)
    found = credo.fit(credo.HMM.gaussian(3), table, groups="patient", labels="state", seed=0)
    assert (np.diff(found.objective) > -1e-12).all()
    assert (np.diff(found.model.emission.parts[0].mean[:, 0]) < 0).all()
    path = credo.infer(found.model, data=table, groups="patient", maximise="all").assignment["state"]
    assert (np.concatenate(path) == states).mean() > 0.7


def test_the_objective_is_the_likelihood_of_rows_and_labels():
    table, _ = frame(0.2)
    table = table[:6]
    start = credo.HMM([0.5, 0.5], [[0.8, 0.2], [0.3, 0.7]], DiagonalGaussian([[1.0], [-1.0]], [[1.0], [1.0]]))
    table["state"] = [0, np.nan, 1, np.nan, np.nan, 0]
    found = quietly(start, table[["x", "state"]], labels="state", max_iter=0)
    instance = start.instantiate(table[["x"]])
    total = -np.inf
    for code in range(2**6):
        path = np.array([(code >> t) & 1 for t in range(6)])
        if path[0] == 0 and path[2] == 1 and path[5] == 0:
            score = np.log(start.start[path[0]]) + instance.scores[np.arange(6), path].sum()
            total = np.logaddexp(total, score + np.log(start.transition[path[:-1], path[1:]]).sum())
    assert found.log_likelihood.value == pytest.approx(total)


def test_names_of_states_are_numbered_in_their_order_and_mixtures_take_labels_too():
    table, states = frame(1.0)
    table["state"] = np.array(["asleep", "dozing", "up"])[states]
    chain = credo.fit(credo.HMM.gaussian(3), table, groups="patient", labels="state", seed=0)
    assert (np.diff(chain.model.emission.parts[0].mean[:, 0]) < 0).all()
    rows = credo.fit(credo.Mixture.blank(3), table[["x", "state"]], labels="state", seed=0)
    np.testing.assert_allclose(rows.model.weights[0], np.bincount(states) / 120)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: credo.fit(credo.HMM.gaussian(2), frame(1.0)[0], groups="patient", labels="state"),
            DataError,
            "numbered below 2",
        ),
        (
            lambda: credo.fit(credo.HMM.gaussian(2), np.zeros((3, 1)), labels="state"),
            DataError,
            "with a column 'state'",
        ),
        (
            lambda: credo.fit(credo.datasets.sprinkler(), {"rain": ["yes"]}, labels="rain"),
            OptionError,
            "BayesNet has no hidden rows",
        ),
        (
            lambda: credo.fit(credo.HMM.gaussian(2), frame(1.0)[0], labels="x"),
            DataError,
            "expected states in column",
        ),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()
