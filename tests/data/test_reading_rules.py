"""The rules of reading, one by one: what whole numbers mean, what is missing, how units are cut."""

from __future__ import annotations

import datetime
import re
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import credo
from credo import Real
from credo.core.errors import DataError, MissingExtraError, OptionError
from credo.data.table import StateTable

READ = credo.data.read
GRADES = {"g": ["1", "2", "3"]}
SPIN = {"s": ["-1", "+1"]}


# What whole numbers mean.


def test_whole_numbers_of_an_array_are_positions_whatever_the_labels():
    for values in (np.array([[1], [2], [-1], [1]]), np.array([[1.0], [2.0], [np.nan], [1.0]])):
        assert READ(values, schema=GRADES).column("g").values.tolist() == [1, 2, -1, 1]
        assert StateTable.of(GRADES, values).evidence(0) in ({"g": 1}, {"g": 2})
    plain = READ(np.array([[0, 2], [3, -1]]))
    assert [c.domain.size for c in plain.columns] == [4, 3]
    assert plain.column("x1").values.tolist() == [2, -1]


def test_whole_numbers_of_a_named_column_are_labels_where_all_of_them_are():
    for values in ([1, 2, None], np.array([1.0, 2.0, np.nan]), pd.array([1, 2, None], dtype="Int64")):
        assert READ({"g": values}, schema=GRADES).column("g").values.tolist() == [0, 1, -1]
    structured = np.array([(1,), (3,)], dtype=[("g", int)])
    assert READ(structured, schema=GRADES).column("g").values.tolist() == [0, 2]
    assert READ({"a": [0, 1, -1]}, schema={"a": ["no", "yes"]}).column("a").values.tolist() == [0, 1, -1]


def test_whole_numbers_with_two_meanings_are_refused():
    with pytest.raises(
        DataError, match=r"row 0: variable 'g' has no state '0'; .*whole numbers of a named column"
    ):
        READ({"g": [0, 1, 2]}, schema=GRADES)
    with pytest.raises(DataError, match="column 's': -1 is a state of it and 0 a position"):
        READ({"s": [-1, 0, 1]}, schema=SPIN)
    with pytest.raises(DataError, match="got -1 among whole numbers from 0; give missing=-1"):
        READ({"v": [-1, 0, 1]})
    with pytest.raises(DataError, match="got -3; whole numbers of an array are positions of states from 0"):
        READ(np.array([[0], [-3]]))


def test_spins_are_states_in_arrays_and_columns():
    spins = np.array([[-1, 1], [1, 1]])
    for data in (
        READ(spins),
        READ({"x0": spins[:, 0], "x1": spins[:, 1]}, schema={"x0": ["-1", "1"], "x1": 2}),
    ):
        assert data.column("x0").values.tolist() == [0, 1]
    assert READ(spins[:, :1], schema=SPIN).column("s").values.tolist() == [0, 1]
    assert READ(spins).notes == ("-1 and 1 are states, not missing cells: x0, x1",)


# What is missing.


@pytest.mark.parametrize(
    "values",
    [
        ["a", None, "b"],
        ["a", np.nan, "b"],
        pd.Series(["a", pd.NA, "b"], dtype="string"),
        pd.Series(["a", None, "b"], dtype=object),
        np.ma.array(["a", "zz", "b"], mask=[False, True, False]),
        pd.Categorical(["a", None, "b"]),
    ],
)
def test_cells_that_hold_nothing_are_missing(values):
    column = READ({"v": pd.Series(values) if isinstance(values, pd.Categorical) else values}).column("v")
    assert column.domain.labels == ("a", "b") and column.values.tolist() == [0, -1, 1]


def test_words_are_missing_in_text_files_only(tmp_path):
    words = ["NA", "?", "null", "x"]
    assert READ({"v": words}).column("v").domain.labels == ("?", "NA", "null", "x")
    (tmp_path / "t.csv").write_text("v,w\n" + "".join(f"{word},1\n" for word in words))
    assert READ(tmp_path / "t.csv").column("v").values.tolist() == [-1, -1, -1, 0]


def test_masks_and_nullable_numbers_are_read():
    masked = np.ma.array([[1.5, 2.5], [3.5, 9.0]], mask=[[0, 0], [0, 1]])
    assert np.array_equal(READ(masked).rows(), [[1.5, 2.5], [3.5, np.nan]], equal_nan=True)
    assert READ(np.ma.array([[0], [1], [9]], mask=[[0], [0], [1]])).column("x0").values.tolist() == [0, 1, -1]
    frame = pd.DataFrame(
        {
            "f": pd.array([1.5, None], dtype="Float64"),
            "i": pd.array([7, None], dtype="Int64"),
            "b": pd.array([True, None], dtype="boolean"),
        }
    )
    data = READ(frame)
    assert data.column("f").domain == Real() and np.isnan(data["f"][1])
    assert data["i"].tolist() == ["7", None] and data["b"].tolist() == ["True", None]
    real = READ(frame, schema={"f": Real(), "i": Real(), "b": 2})
    assert real["i"].tolist()[0] == 7.0 and np.isnan(real["i"][1])


def test_values_can_stand_for_missing_cells(tmp_path):
    frame = {"a": [0, -1, 1], "x": [1.5, 999.0, 2.0], "w": ["u", "none", "v"]}
    data = READ(frame, missing={"a": -1, "x": 999, "w": ["none"]})
    assert data.column("a").values.tolist() == [0, -1, 1] and data.column("a").domain.size == 2
    assert np.isnan(data["x"][1]) and data["w"].tolist() == ["u", None, "v"]
    assert READ(frame, missing=[-1, 999, "none"]).fingerprint() == data.fingerprint()
    (tmp_path / "t.csv").write_text("a,x\n0,1.5\n-9,-9\n")
    found = READ(tmp_path / "t.csv", missing=-9)
    assert found["a"].tolist() == ["0", None] and np.isnan(found["x"][1])
    with pytest.raises(DataError, match="no column named 'y'"):
        READ(frame, missing={"y": 1})


# Domains.


def test_only_whole_floats_with_gaps_are_labels():
    read = READ({"gaps": [5.0, np.nan, 2.0], "none": [5.0, 2.0, 2.0], "text": ["5", "2", "2"]})
    assert [c.is_discrete for c in read.columns] == [True, False, True]
    assert read.column("gaps").domain.labels == ("2", "5") == read.column("text").domain.labels
    assert READ({"v": [1, None, 3]}).column("v").domain.labels == ("1", "3")
    assert READ({"v": [Decimal("1.5"), None]}).column("v").domain == Real()


def test_categories_keep_their_order_and_bools_have_two_states():
    enum = pd.CategoricalDtype(["low", "high", "never"], ordered=True)
    data = READ(pd.DataFrame({"c": pd.Series(["high", "low"], dtype=enum), "b": [True, True]}))
    assert data.column("c").domain.labels == ("low", "high", "never")
    assert data.column("b").domain.labels == ("False", "True") and data.column("b").values.tolist() == [1, 1]
    assert READ({"v": [True, None, 0.5]}, schema={"v": Real()}).rows().ravel()[2] == 0.5


def test_true_is_no_one_where_both_occur():
    with pytest.raises(DataError, match="values of several kinds"):
        READ({"v": [True, 1, 2]})
    assert READ({"v": [True, 2]}, schema={"v": ["no", "yes", "more"]}).column("v").values.tolist() == [1, 2]


def test_frames_of_polars_are_read_as_those_of_pandas():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(
        {"s": pl.Series(["b", None, "a"]), "x": [0.5, 1.5, None], "n": [3, None, 5]},
    ).with_columns(c=pl.Series(["u", "v", None], dtype=pl.Enum(["v", "u"])))
    data = READ(frame)
    assert data["s"].tolist() == ["b", None, "a"] and np.isnan(data["x"][2])
    assert data.column("c").domain.labels == ("v", "u") and data["n"].tolist() == ["3", None, "5"]


def test_arrow_keeps_gaps_of_every_kind():
    pa = pytest.importorskip("pyarrow")
    table = pa.table(
        {
            "s": ["b", None, "a"],
            "n": [3, None, 5],
            "x": [0.5, None, 1.5],
            "c": pa.array(["u", None, "v"]).dictionary_encode(),
            "b": [True, None, False],
        }
    )
    data = READ(table)
    assert data["s"].tolist() == ["b", None, "a"] and data["n"].tolist() == ["3", None, "5"]
    assert np.isnan(data["x"][1]) and data["c"].tolist() == ["u", None, "v"]
    assert data["b"].tolist() == ["True", None, "False"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([datetime.date(2020, 1, 1)] * 2, r"got datetime.date\(2020, 1, 1\)"),
        (pd.to_datetime(["2020-01-01"]), "got datetime64"),
        (pd.Series([pd.Period("2020")]), "got Period"),
        ([1j, 2j], "got 1j"),
        ([{"a": 1}, {"b": 2}], r"row 0: expected one value per cell, got \{'a': 1\}"),
        ([[1, 2], ["x"]], r"got \[1, 2\] in row 0; soft evidence needs the states"),
        (np.zeros((2, 2, 2)), "expected one value per row, got shape"),
        ([0.5, np.inf], "row 1: expected a finite value of Real"),
        ([f"id{k % 49}" for k in range(50)], "got 49 different strings in 50 rows; leave out names of rows"),
        ([None, None], "expected at least one value, got none; give variables as schema"),
    ],
)
def test_what_is_no_value_of_a_column_is_refused(values, message):
    with pytest.raises(DataError, match="column 'v'.*" + message):
        READ({"v": values})


def test_points_outside_of_a_simplex_are_refused():
    schema = {"p": credo.core.domain.Simplex(2)}
    assert READ({"p": np.array([[0.5, 0.5], [np.nan, np.nan]])}, schema=schema).column(
        "p"
    ).missing.tolist() == [
        False,
        True,
    ]
    with pytest.raises(DataError, match="column 'p', row 1: expected a finite value of Simplex"):
        READ({"p": np.array([[0.5, 0.5], [0.5, 0.6]])}, schema=schema)


def test_numbers_beyond_what_arrays_hold_are_told_apart_or_refused():
    assert READ({"v": [10**400, 1]}).column("v").domain.size == 2
    with pytest.raises(DataError, match="row 0: variable 'v' has no state"):
        READ({"v": [10**400]}, schema={"v": 2})
    with pytest.raises(DataError, match="column 'v': expected numbers"):
        READ({"v": [10**400, 0.5]})
    assert READ({"v": np.array([2**64 - 1, 2**64 - 2], dtype=np.uint64)}).column("v").values.tolist() == [
        1,
        0,
    ]
    assert READ({"v": np.array([-128, 127], dtype=np.int8)}).column("v").domain.labels == ("-128", "127")


def test_sources_that_are_no_tables_are_refused():
    scipy = pytest.importorskip("scipy.sparse")
    with pytest.raises(DataError, match="got a sparse matrix; give its `toarray"):
        READ(scipy.eye_array(3))
    with pytest.raises(DataError, match="the column '0' appears twice"):
        READ({0: [1, 2], "0": [1, 2]})


def test_frames_without_narwhals_say_what_to_install(monkeypatch):
    pa = pytest.importorskip("pyarrow")
    monkeypatch.setitem(sys.modules, "narwhals.stable.v1", None)
    with pytest.raises(MissingExtraError, match=r'frames need narwhals: pip install "credo\[data\]"'):
        READ(pa.table({"a": [1, 2]}))


# Units.


def test_windows_cut_sequences_into_pieces():
    data = READ([np.arange(5.0)[:, None], np.arange(2.0)[:, None]], window=2, weights=[1, 3])
    assert data.lengths.tolist() == [2, 2, 1, 2] and data.weights.tolist() == [1, 1, 1, 3]
    assert data.notes == ("sequences were cut into pieces of at most 2 rows",)
    assert READ(np.arange(5.0)[:, None], window=10).lengths.tolist() == [5]
    with pytest.raises(OptionError, match="window must be"):
        READ(np.arange(5.0)[:, None], window=0)


def test_weights_may_be_a_column(tmp_path):
    frame = {"x": [1.5, 2.5, 3.5], "n": [2, 0, 1], "who": ["b", "a", "b"]}
    data = READ(frame, weights="n", columns=["x"])
    assert data.names == ("x",) and data.weights.tolist() == [2, 0, 1]
    (tmp_path / "t.csv").write_text("x,n\n1.5,2\n2.5,3\n")
    assert READ(tmp_path / "t.csv", weights="n").weights.tolist() == [2, 3]
    with pytest.raises(DataError, match="expected one for all rows of a sequence, got several in number 0"):
        READ(frame, weights="n", groups="who")
    assert READ({**frame, "n": [2, 5, 2]}, weights="n", groups="who").weights.tolist() == [2, 5]
    with pytest.raises(
        DataError, match="weights: expected one number per row or the name of a column, got 'm'"
    ):
        READ(frame, weights="m")
    with pytest.raises(DataError, match="expected finite numbers from 0, got -2"):
        READ({**frame, "n": [1, -2, 1]}, weights="n")


def test_targets_are_names_or_values():
    x = np.arange(6.0).reshape(3, 2)
    assert READ({"x": [1.5, 2.5], "y": ["u", "v"]}, targets="y").targets == ("y",)
    data = READ(x, targets=["u", "v", "u"])
    assert data.targets == ("target",) and data["target"].tolist() == ["u", "v", "u"]
    named = READ([x, x[:1]], targets=[pd.Series(["u", "v", "u"]), pd.Series(["v"])])
    assert named["target"].tolist() == ["u", "v", "u", "v"] and named.lengths.tolist() == [3, 1]
    assert READ(x, targets=pd.Series([1, 0, 1], name="label")).targets == ("label",)
    with pytest.raises(DataError, match="no column named 'height'; did you mean 'heigth'"):
        READ({"heigth": [1.5, 2.5]}, targets=["height"])
    with pytest.raises(DataError, match="the data have a column 'y' already"):
        READ({"y": [1.5, 2.5]}, targets=pd.Series([1, 0], name="y"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": "patiant"}, "no column named 'patiant'; did you mean 'patient'"),
        ({"columns": ["hieght"]}, "no column named 'hieght'; did you mean 'height'"),
        ({"groups": "patient", "lengths": [1, 1]}, "groups, lengths: expected one of them, got both"),
        ({"groups": "gaps"}, "groups: column 'gaps', row 1: expected the name of a sequence, got none"),
        ({"schema": {"hieght": Real()}}, "no variable of the model: no variable named 'patient'"),
    ],
)
def test_refusals_of_names(options, message):
    frame = {"patient": ["a", "b"], "height": [1.5, 2.5], "gaps": ["u", None]}
    with pytest.raises(DataError, match=re.escape(message)):
        READ(frame, **options)


def test_a_dataset_is_read_again_for_the_states_of_a_model():
    data = READ({"a": ["x", "y"], "b": [1.5, 2.5]})
    again = READ(data, schema={"a": ["z", "y", "x"]})
    assert again.column("a").values.tolist() == [2, 1] and "left out: b" in again.notes[0]
    with pytest.raises(DataError, match=r"column 'a' has the states \['x', 'y'\], the model's \['u', 'v'\]"):
        READ(data, schema={"a": ["u", "v"]})
    with pytest.raises(DataError, match="these data were read before and have their weights and units"):
        READ(data, groups="a")


def test_lists_of_rows_are_rows_where_their_width_is_that_of_the_model():
    rows = [np.array([0, 1]), np.array([1, 1])]
    assert READ(rows, schema={"a": 2, "b": 2}).n_units == 2
    assert READ(rows, schema={"a": 2}).lengths.tolist() == [2, 2]


def test_refusals_of_numbers_and_tables(tmp_path):
    with pytest.raises(DataError, match=r"column 'x': expected values of shape \(2,\) per row, got \(3,\)"):
        READ({"x": [1.0, 2.0, 3.0]}, schema={"x": Real(2)})
    (tmp_path / "t.csv").write_text("x\n1.5\ntall\n")
    with pytest.raises(DataError, match="column 'x', row 1: expected a number, got 'tall'"):
        READ(tmp_path / "t.csv", schema={"x": Real()})
    with pytest.raises(DataError, match=r"sequence 1: expected the columns \['x'\], got \['y'\]"):
        READ([pd.DataFrame({"x": [1.5]}), pd.DataFrame({"y": [1.5]})])

    class Lazy:
        columns = ("x",)

    pytest.importorskip("narwhals")
    with pytest.raises(DataError, match="expected a data frame in memory, got Lazy"):
        READ(Lazy())


def test_sequences_in_frames_keep_categories_and_gaps():
    kinds = pd.CategoricalDtype(["low", "high"])
    parts = [
        pd.DataFrame({"c": pd.Series(["high", None], dtype=kinds), "n": pd.array([3, None], dtype="Int64")}),
        pd.DataFrame({"c": pd.Series(["low"], dtype=kinds), "n": pd.array([5], dtype="Int64")}),
    ]
    data = READ(parts)
    assert data.column("c").domain.labels == ("low", "high") and data["c"].tolist() == ["high", None, "low"]
    assert data["n"].tolist() == ["3", None, "5"] and data.lengths.tolist() == [2, 1]
