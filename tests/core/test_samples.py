"""Assignments and samples by name."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo.core.display import LIMIT
from credo.core.errors import QueryError
from credo.core.samples import Assignment, Samples
from credo.core.variable import Variables
from markup import cells

V = Variables.of({"a": ["p", "q"], "b": 3})
MIXED = Variables.of({"s": ["off", "on"], "x": credo.Real(), "t": credo.Simplex(2)})


def mixed() -> Samples:
    values = {"x": np.array([1.5, 1 / 3]), "t": np.array([[0.25, 0.75], [1.0, 0.0]])}
    return Samples(MIXED, np.array([[0, -1, -1], [1, -1, -1]]), values)


def test_an_assignment_becomes_a_dictionary_and_a_frame():
    pytest.importorskip("pandas")
    found = mixed()[1]
    assert list(found.to_dict()) == ["s", "x", "t"] and found.to_dict()["s"] == "on"
    frame = found.to_frame()
    assert frame["variable"].tolist() == ["s", "x", "t"]
    assert frame["value"].tolist()[:2] == ["on", 1 / 3]


def test_an_assignment_contains_what_it_assigns():
    some = Assignment(V, np.array([-1, 2]))
    assert "b" in some and "a" not in some and "c" not in some
    assert "x" in mixed()[0] and "x" not in Assignment(MIXED, np.array([0, -1, -1]))


def test_short_assignments_are_a_line_and_long_ones_a_table():
    assert repr(Assignment(V, np.array([1, 2]))) == "Assignment(a=q, b=2)"
    assert repr(mixed()[1]) == "Assignment(s=on, x=0.33333, t=[1. 0.])"
    many = Assignment(Variables.numbered(np.full(100, 2)), np.ones(100))
    lines = repr(many).splitlines()
    assert lines[:2] == ["variable  value", "x0        1"]
    assert lines[-1] == f"... and {100 - LIMIT} more variables"
    assert cells(many._repr_html_())[:4] == ["variable", "value", "x0", "1"]


def test_samples_are_rows_of_states():
    s = Samples(V, np.array([[0, 2], [1, 0]]))
    assert len(s) == 2
    assert dict(s[0]) == {"a": "p", "b": "2"}
    assert s.column("b").tolist() == [2, 0]


def test_a_name_gives_the_column_with_its_labels_or_values():
    drawn = credo.sample(credo.datasets.sprinkler(), 50, seed=0)
    for name in drawn.variables.names:
        assert drawn[name].tolist() == [row[name] for row in (drawn[k] for k in range(50))]
    assert (drawn["rain"] == "yes").mean() == drawn.column("rain").mean()
    gauss = credo.sample(credo.GaussianNet([[2.0, 0.3], [0.3, 1.0]]), 4, seed=0)
    np.testing.assert_array_equal(gauss["x0"], gauss.column("x0"))
    with pytest.raises(QueryError, match=r"no variable named 'rein'; did you mean 'rain'\?"):
        drawn["rein"]
    assert drawn._ipython_key_completions_() == list(drawn.variables.names)


def test_slices_of_samples_are_samples():
    drawn = credo.sample(credo.datasets.sprinkler(), 5, seed=0)
    part = drawn[1:3]
    assert len(part) == 2 and dict(part[0]) == dict(drawn[1])
    both = credo.sample(credo.GaussianNet([[2.0, 0.3], [0.3, 1.0]]), 4, seed=0)
    np.testing.assert_array_equal(both[[0, 2]].column("x1"), both.column("x1")[[0, 2]])


def test_samples_become_a_data_frame():
    pytest.importorskip("pandas")
    frame = Samples(V, np.array([[0, 2], [1, 0]])).to_frame()
    assert frame["a"].tolist() == ["p", "q"]
    assert list(frame["b"].cat.categories) == ["0", "1", "2"]
    frame = mixed().to_frame()
    assert list(frame.columns) == ["s", "x", "t[0]", "t[1]"]
    np.testing.assert_array_equal(frame["t[1]"], mixed().continuous["t"][:, 1])


def test_samples_are_printed_with_labels():
    assert repr(mixed()).splitlines() == [
        "Samples(2 rows, 3 variables)",
        "s          x            t",
        "off      1.5  [0.25 0.75]",
        "on   0.33333      [1. 0.]",
    ]
    assert cells(mixed()._repr_html_())[3:5] == ["off", "1.5"]
    many = repr(Samples(Variables.numbered(np.full(30, 2)), np.zeros((100, 30), np.int64))).splitlines()
    assert many[1].endswith("x11  ...") and many[-1] == "... and 90 more rows" and len(many) == 13
    assert repr(Samples.none(V)).splitlines() == ["Samples(0 rows, 2 variables)", "a  b"]
