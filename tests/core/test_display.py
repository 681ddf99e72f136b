"""Text for terminals and HTML for notebooks."""

from __future__ import annotations

import builtins

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from credo.core.display import (
    LIMIT,
    Axis,
    Listing,
    Share,
    Shown,
    align,
    data_frame,
    finite,
    grid,
    numbers,
    shares,
    told,
)
from credo.core.errors import MissingExtraError
from markup import cells, read

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zs", "Zl", "Zp"]), max_size=8)


class Card(Shown):
    """Something to be shown."""

    def __init__(self, *parts):
        self.parts = parts

    def _shown(self):
        return self.parts


@given(st.lists(st.lists(WORDS, min_size=2, max_size=2), max_size=5))
def test_every_cell_is_found_again_in_text_and_in_html(rows):
    listing = Listing(rows, [False, True], ["<a>", "b&"], title='a "title"', more="... and more")
    card = Card("x < y", listing)
    text = repr(card).splitlines()
    assert text[:2] == ["x < y", 'a "title"'] and text[-1] == "... and more"
    assert len(text) == 4 + len(rows)
    for row, line in zip(rows, text[3:-1], strict=True):
        assert [cell for cell in row if cell] == line.split()
    assert cells(card._repr_html_()) == ["<a>", "b&", *(cell for row in rows for cell in row if cell)]


def test_markup_in_names_is_escaped():
    html = Card(
        "<script>alert(1)</script>", Listing([["<img src=x>", "&amp;"]], [False, False])
    )._repr_html_()
    assert [text for _, _, text in read(html)] == ["<script>alert(1)</script>", "<img src=x>", "&amp;"]


def test_a_share_has_a_bar_as_long_as_its_part():
    (found,) = read(Listing([[Share("yes: 0.25", 0.25)]], [True]).html())
    assert found[0] == "td" and found[2] == "yes: 0.25"
    assert (
        found[1].startswith("text-align:right;background:linear-gradient(") and found[1].count("25.0%") == 2
    )


def test_columns_are_aligned():
    assert align(["n", "long"], [["abc", "1"]], [False, True]) == "n    long\nabc     1"
    assert align([], [["a", "b"], ["aa", "b"]], [False, False], gap=3) == "a    b\naa   b"
    assert align(["only", "titles"], [], [False, False]) == "only  titles"


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.integers(1, 8))
def test_numbers_are_told_to_the_digits_asked_for(values, digits):
    for text, value in zip(numbers(values, digits), values, strict=True):
        assert abs(float(text) - value) <= (0.5 + 1e-6) * 10.0**-digits
        assert (float(text) == 0) == (value == 0)


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([0.5, 0.25], ["0.50", "0.25"]),
        ([1.0, 0.0], ["1.0", "0.0"]),
        ([1 / 3, 0.5], ["0.3333", "0.5000"]),
        ([3e-7, 1 - 3e-7], ["3.0e-07", "1.0"]),
        ([-0.0, np.inf], ["0.0", "inf"]),
        ([], []),
    ],
)
def test_numbers_have_no_more_decimals_than_they_need(values, texts):
    assert numbers(values) == texts


def test_a_value_is_told_as_a_label_a_number_or_a_vector():
    assert [told("yes"), told(np.float64(1 / 3)), told([0.5, 0.25])] == ["yes", "0.33333", "[0.5  0.25]"]


def test_a_grid_puts_a_short_last_axis_across_and_the_others_down():
    table = np.arange(12.0).reshape(2, 3, 2) / 100
    axes = [Axis("a", "pq"), Axis("b", "xyz"), Axis("c", ["no", "yes"])]
    found = grid(axes, table, shares, "probability")
    assert found.header == ["a", "b", "c=no", "c=yes"]
    assert found.rows[4] == ["q", "y", "0.08", "0.09"]
    assert [cell.part for cell in found.rows[4][2:]] == [0.08, 0.09]
    down = grid([Axis("a", "pq"), Axis("k", list("abcdefghi"))], np.ones((2, 9)), shares, "weight")
    assert down.header == ["a", "k", "weight"] and len(down.rows) == 18 and down.rows[9][:2] == ["q", "a"]
    assert grid([], np.array(0.5), shares, "probability").rows == [["0.5"]]


def test_long_grids_are_cut_and_say_so():
    found = grid([Axis("k", [str(k) for k in range(100)])], np.arange(100.0), shares, "weight")
    assert len(found.rows) == LIMIT and found.more == "... and 60 more rows"
    assert found.text().splitlines()[-1] == found.more


def test_a_data_frame_without_pandas_names_the_extra(monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **given):
        if name == "pandas":
            raise ImportError(name)
        return real(name, *rest, **given)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r'to_frame needs pandas: pip install "credo\[data\]"'):
        data_frame({"a": [1]})


def test_infinite_numbers_become_text():
    assert [finite(v) for v in (np.inf, -np.inf, 1.5, "x", None)] == ["inf", "-inf", 1.5, "x", None]
