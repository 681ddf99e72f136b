"""Describing data: what would be read, in a row per column."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo.core.errors import DataError

FRAME = {
    "who": ["x", "x", "y"],
    "rain": ["yes", None, "no"],
    "height": [1.5, np.nan, 2.5],
    "where": np.array([[0.0, 1.0], [2.0, 3.0], [np.nan, 5.0]]),
    "when": np.array(["2020-01-01"] * 3, dtype="M8[D]"),
}


def test_a_description_has_what_was_read_and_why_not():
    found = credo.data.describe(FRAME, groups="who")
    rain, height, where = found.columns
    assert (rain.domain.labels, rain.missing, rain.distinct, rain.mean) == (("no", "yes"), 1, 2, None)
    assert (height.missing, height.distinct, height.min, height.mean, height.max) == (1, 2, 1.5, 2.0, 2.5)
    assert where.mean.tolist() == [1.0, 3.0] and where.max.tolist() == [2.0, 5.0]
    assert found.rows == 3 and found.lengths.tolist() == [2, 1]
    text = repr(found)
    assert "3 rows in 2 sequences of 1 to 2, 3 columns" in text
    assert "2 states: no, yes" in text and "cannot be read: column 'when'" in text


def test_a_description_is_a_frame_and_html():
    found = credo.data.describe(FRAME)
    frame = found.to_frame()
    assert frame["name"].tolist() == ["who", "rain", "height", "where"]
    assert frame["missing"].tolist() == [0, 1, 1, 0]
    assert "<table>" in found._repr_html_() and "Real(2)" in found._repr_html_()


def test_a_description_of_what_was_read_has_its_notes():
    data = credo.data.read({"a": [0, 1], "b": ["x", "y"]}, schema={"a": 2})
    assert "columns that are no variables were left out: b" in repr(credo.data.describe(data))
    assert "-1 and 1 are states" in repr(credo.data.describe(np.array([[1], [-1]])))
    soft = credo.data.read({"a": [[0.5, 1.0], [1.0, 1.0]]}, schema={"a": 2})
    assert credo.data.describe(soft).columns[0].soft == 1 and "soft" in repr(credo.data.describe(soft))


def test_what_has_no_readable_column_is_refused():
    with pytest.raises(DataError, match="column 'when': expected states"):
        credo.data.describe({"when": FRAME["when"]})
