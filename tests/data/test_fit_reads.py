"""`credo.fit` reads tables with the options of `data.read` that make sense for it."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo.core.errors import DataError, OptionError, UnsupportedError

FRAME = {"a": ["x", "y", "y"], "b": ["u", "u", "v"], "n": [1, 2, 3], "id": [7, 8, 9]}


def net() -> credo.BayesNet:
    return credo.BayesNet.random({"a": ["x", "y"], "b": ["u", "v"], "h": 2}, {"b": ["a"], "a": ["h"]}, seed=0)


def test_columns_and_weights_of_a_table_are_named_in_the_call():
    found = credo.fit(net(), FRAME, "em", columns=["a", "b"], weights="n", seed=0)
    plain = {"a": FRAME["a"], "b": FRAME["b"]}
    known = credo.fit(net(), plain, "em", weights=[1, 2, 3], seed=0)
    np.testing.assert_array_equal(found.model.flat_tables, known.model.flat_tables)
    with pytest.raises(DataError, match="the column 'n' is no variable of the model"):
        credo.fit(net(), FRAME, "em")
    with pytest.raises(OptionError, match="groups: a BayesNet has rows, no sequences; leave out"):
        credo.fit(net(), FRAME, "em", groups="id")


def test_blanks_are_filled_with_weighted_rows():
    blank = credo.BayesNet.from_edges([("a", "b")])
    found = credo.fit(blank, FRAME, weights="n")
    assert found.model.tables["a"].tolist() == pytest.approx([1 / 6, 5 / 6])
    assert "columns that are no variables" not in " ".join(found.notes)
    given = credo.fit(blank, FRAME, weights=[1, 2, 3])
    np.testing.assert_array_equal(given.model.flat_tables, found.model.flat_tables)


def test_a_dataset_is_learned_from_as_it_was_read():
    data = credo.data.read(FRAME, schema={"a": ["x", "y"], "b": ["u", "v"]}, weights="n")
    found = credo.fit(net(), data, "em", seed=0)
    known = credo.fit(net(), FRAME, "em", columns=["a", "b"], weights="n", seed=0)
    np.testing.assert_array_equal(found.model.flat_tables, known.model.flat_tables)
    with pytest.raises(DataError, match="weights: these data have their weights already"):
        credo.fit(net(), data, "em", weights=[1, 1, 1])


def test_soft_evidence_of_networks_with_real_nodes_is_refused():
    real = credo.BayesNet.from_edges([("a", "x")])
    frame = {"a": ["u", "v", "u"], "x": [1.5, 2.5, 0.5]}
    model = credo.fit(real, frame, seed=0).model
    data = credo.data.read(frame, schema=model.variables, soft={"a": [[1, 0.5], [1, 1], [1, 1]]})
    with pytest.raises((DataError, UnsupportedError), match="'a' has soft evidence, which only em"):
        credo.fit(model, data)
