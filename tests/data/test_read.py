"""Reading: what columns mean with a schema and without one, and what is refused."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

import credo
from credo import Real, Variable
from credo.core.errors import DataError

READ = credo.data.read


@pytest.mark.parametrize(
    ("values", "labels", "codes"),
    [
        (pd.Categorical(["b", "a", None], categories=["c", "b", "a"]), ("c", "b", "a"), [1, 2, -1]),
        (np.array([True, False, True]), ("False", "True"), [1, 0, 1]),
        (["x", None, "a"], ("a", "x"), [1, -1, 0]),
        (np.array([5, 1, 2]), ("1", "2", "5"), [2, 0, 1]),
        (np.array([5.0, np.nan, 2.0]), ("2", "5"), [1, -1, 0]),
        (np.array([0, 1, 1]), ("0", "1"), [0, 1, 1]),
    ],
)
def test_columns_without_a_schema_say_what_their_states_are(values, labels, codes):
    column = READ({"v": pd.Series(values) if isinstance(values, pd.Categorical) else values}).column("v")
    assert column.domain.labels == labels
    assert column.values.tolist() == codes


def test_whole_numbers_are_read_back_as_the_labels_they_became():
    frame = {"v": np.array([1, 2, 5, 2])}
    first = READ(frame)
    again = READ({"v": np.array([2, 5])}, schema=first.variables)
    assert again["v"].tolist() == ["2", "5"]


def test_other_floats_are_real_and_whole_ones_without_gaps_too():
    data = READ({"a": [1.5, np.nan], "b": [1.0, 2.0]})
    assert [column.domain for column in data.columns] == [Real(), Real()]
    assert np.array_equal(data.rows(), [[1.5, 1.0], [np.nan, 2.0]], equal_nan=True)


@pytest.mark.parametrize("units", [[0], [2, 0, 0], [True, False, True]])
def test_taking_units_keeps_their_rows_together(units):
    data = READ([np.arange(4.0).reshape(2, 2), np.ones((1, 2)), np.zeros((3, 2))], weights=[1, 2, 3])
    parts = [data.rows()[a:b] for a, b in zip(data.begin, data.begin[1:], strict=False)]
    found, which = data.take(units), np.arange(3)[units]
    assert np.array_equal(found.rows(), np.concatenate([parts[u] for u in which]))
    assert found.weights.tolist() == (which + 1).tolist()


def test_groups_bring_the_rows_of_a_sequence_together():
    frame = pd.DataFrame({"who": ["b", "a", "b", "a"], "x": [1.0, 2.0, 3.0, 4.5]})
    data = READ(frame, groups="who")
    assert data.rows().ravel().tolist() == [1.0, 3.0, 2.0, 4.5]
    assert data.begin.tolist() == [0, 2, 4]


def test_rows_of_states_and_numbers_are_one_structured_array():
    rows = READ({"s": ["a", "b"], "x": [0.5, 1.5]}).rows()
    assert rows.dtype.names == ("s", "x") and rows[1:]["s"].tolist() == [1]
    assert len(np.concatenate([rows, rows])) == 4


def test_an_array_of_numbers_is_not_copied():
    x = np.random.default_rng(0).normal(size=(10, 3))
    assert np.shares_memory(READ(x).rows(), x)


def test_unknown_columns_are_noted_only_if_every_variable_has_one():
    data = READ({"a": [0, 1], "b": [1, 1]}, schema=[Variable("a", 2)])
    assert data.names == ("a",) and "left out: b" in data.notes[0]


@pytest.mark.parametrize(
    ("source", "schema", "message"),
    [
        (
            {"rian": [0, 1]},
            {"rain": 2},
            "'rian' is no variable of the model: no variable named 'rian'; did you mean",
        ),
        ({"x": [1.0, np.inf]}, None, "column 'x', row 1: expected a finite value of Real(), got inf"),
        ({"x": [1.0, -1.0]}, {"x": credo.Positive()}, "row 1: expected a finite value of Positive(), got -1"),
        (
            {"x": np.arange(40)},
            None,
            "got 40 different numbers; at most 32 whole numbers are states: give schema=",
        ),
        ({"x": np.array([1j])}, None, "column 'x': expected states"),
        ({"x": np.array(["2020-01-01"], dtype="M8[D]")}, None, "column 'x': expected states"),
        ({"x": [f"id{i}" for i in range(50)]}, None, "50 different strings in as many rows"),
        ({"x": []}, {"x": Real()}, "expected at least one row, got none"),
        ({"x": [1.0], "y": [1.0, 2.5]}, None, "column 'y' has 2 rows, the first one 1"),
        ({"x": 3}, None, "column 'x': expected a list of values, got 3"),
        (np.zeros((2, 2)), {"x": Real()}, "expected an array of shape (rows, 1)"),
    ],
)
def test_refusals(source, schema, message):
    with pytest.raises(DataError, match=re.escape(message)):
        READ(source, schema=schema)


def test_arrow_frames_are_read_as_pandas_ones():
    pa = pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"s": pd.Categorical(["b", "a"], categories=["b", "a"]), "x": [0.5, 1.5]})
    first, second = READ(frame), READ(pa.Table.from_pandas(frame))
    assert first.fingerprint() == second.fingerprint()


def test_text_files_are_read(tmp_path):
    (tmp_path / "t.csv").write_text("s,x\na,1.5\n?,NA\nb,2\n")
    data = READ(tmp_path / "t.csv")
    assert data.column("s").values.tolist() == [0, -1, 1]
    assert data.column("x").domain == Real() and np.isnan(data["x"][1])


def test_rows_as_evidence_are_what_their_cells_say():
    schema = {"s": ["a", "b"], "x": Real(), "v": Real(2)}
    rows = {"s": ["b", None, "a"], "x": [0.5, np.nan, 2.0], "v": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]}
    data = READ(rows, schema=schema, soft={"s": [[1, 1], [0.5, 1], [0.5, 1]]})
    first, second, third = data.evidence()
    assert first["s"] == 1 and first["x"] == 0.5 and first["v"].tolist() == [1.0, 2.0]
    assert set(second) == {"s", "v"} and second["s"].tolist() == [0.5, 1] and third["s"].tolist() == [0.5, 0]


def test_log_likelihoods_of_rows_are_those_of_their_evidence():
    net = credo.datasets.sprinkler()
    rows = {"rain": ["yes", None, [0.2, 0.9]], "wet": ["no", "yes", "yes"]}
    each = credo.learning.log_likelihood(net, rows, each=True)
    assert each.sum() == pytest.approx(credo.learning.log_likelihood(net, rows).value)
    one = credo.infer(net, evidence={"rain": "yes", "wet": "no"}).log_z.value
    assert each[0] == pytest.approx(one)


def test_targets_of_sequences_of_one_length_are_lists_too():
    found = credo.data.read([np.zeros((2, 1)), np.ones((2, 1))], targets=[["a", "b"], ["b", "b"]])
    assert found.column("target").labels().tolist() == ["a", "b", "b", "b"]
