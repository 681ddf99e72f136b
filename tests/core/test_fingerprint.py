"""Equal problems have equal fingerprints, others have others."""

from __future__ import annotations

import functools

import numpy as np

import credo
from credo.core.fingerprint import fingerprint


def scaled(factor):
    def function(x):
        return factor * x

    return function


def recursive():
    def function(x):
        return function(x - 1) if x else 0

    return function


def test_values_are_told_apart():
    values = [
        None,
        0,
        0.0,
        False,
        "",
        (),
        {},
        1,
        "1",
        ("a", "b"),
        ("ab",),
        {"a": 1},
        {"b": 1},
        np.zeros(2),
        np.zeros(3),
        np.zeros(2, dtype=np.int64),
        np.zeros((2, 1)),
        scaled(1.0),
        scaled(2.0),
        functools.partial(scaled(1.0), 3),
        lambda x: x + 1,
        lambda x: x + 2,
        recursive(),
        credo.Real(),
        credo.Variable("a", credo.Real()),
        credo.datasets.asia().to_factor_graph(),
        credo.datasets.sprinkler().to_factor_graph(),
    ]
    found = [fingerprint(value) for value in values]
    assert len(set(found)) == len(values)


def test_equal_values_made_twice_are_the_same():
    for make in (
        lambda: credo.datasets.asia().to_factor_graph(),
        lambda: scaled(1.0),
        recursive,
        lambda: functools.partial(scaled(1.0), 3),
        lambda: {"a": np.arange(3)[::-1]},
    ):
        assert fingerprint(make()) == fingerprint(make())


def test_one_entry_of_a_table_or_one_parameter_of_a_factor_makes_another_model():
    def table(entry):
        return credo.FactorGraph({"a": 2}, {("a",): [1.0, entry]})

    def hybrid(mean):
        x = credo.Variable("x", credo.Real())
        return credo.HybridNet([x], [credo.potentials.gaussian(x, mean, 1.0)]).to_factor_graph()

    assert fingerprint(table(2.0)) == fingerprint(table(2.0)) != fingerprint(table(np.nextafter(2.0, 3)))
    assert fingerprint(hybrid(0.5)) == fingerprint(hybrid(0.5)) != fingerprint(hybrid(0.6))
