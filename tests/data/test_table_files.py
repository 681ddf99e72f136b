"""Tables written to files, and the names of their columns."""

from __future__ import annotations

import builtins

import numpy as np
import pandas as pd
import pytest

from credo import CredoError
from credo.data import read, write_table
from credo.data.column_names import column_names
from credo.data.table_files import plain_columns

COLUMNS = {
    "size": np.array([0.1, np.nan, 3.0]),
    "kind": np.array(["moth", None, "a, b"], dtype=object),
    "count": pd.array([1, None, 3], dtype="Int64"),
    "seen": np.array([True, False, True]),
}


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
def test_what_was_written_is_read_again(tmp_path, ending):
    path = tmp_path / f"few.{ending}"
    write_table(COLUMNS, path)
    assert column_names(path) == list(COLUMNS)
    data = read(path)
    assert data["size"].tolist()[::2] == [0.1, 3.0] and np.isnan(data["size"][1])
    assert data["kind"].tolist() == ["moth", None, "a, b"]
    assert data["count"].tolist() == ["1", None, "3"]
    assert [str(seen) for seen in data["seen"]] == ["True", "False", "True"]


def test_columns_of_vectors_become_a_column_for_each_coordinate():
    assert plain_columns({"x": np.array([[1.0, np.nan]])}) == {"x[0]": [1.0], "x[1]": [None]}
    assert plain_columns({}) == {}


@pytest.mark.parametrize("name", ["few.txt", "few", "few.csv.gz"])
def test_other_endings_are_refused(tmp_path, name):
    with pytest.raises(CredoError, match=rf"{name}: expected a file name ending in \.csv, \.tsv, \.parquet"):
        write_table(COLUMNS, tmp_path / name)
    with pytest.raises(CredoError, match=r"expected a \.csv, \.tsv or \.parquet file"):
        column_names(tmp_path / name)


def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch):
    whole = builtins.__import__

    def without(name, *rest):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return whole(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    for act in (lambda path: write_table({"a": [1.0]}, path), column_names):
        with pytest.raises(CredoError, match=r'Parquet needs pyarrow: pip install "credo\[data\]"'):
            act(tmp_path / "few.parquet")
