"""Sequences in the form that families work on, and datasets that keep their rows as one array."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import credo
from credo.core.domain import Real
from credo.core.errors import DataError
from credo.data import Dataset, read_sequences
from credo.families import Categorical, DiagonalGaussian, Poisson, Product

NUMBERS = DiagonalGaussian([[0.0, 0.0]], [[1.0, 1.0]])
STATES, COUNTS = Categorical([[0.5, 0.3, 0.2]]), Poisson([2.0])
PLAIN = Product([NUMBERS, STATES], [(0, 1), 2])
NAMED = Product([STATES, COUNTS], ["alarm", "drops"])
X = np.array([[0.0, 1.5], [2.0, np.nan], [3.5, 4.0], [5.0, 6.0]])


def same(found, expected):
    """Equal arrays, NaN in equal places of structured ones too."""
    assert found.dtype == expected.dtype
    for name in found.dtype.names or [...]:
        np.testing.assert_array_equal(found[name], expected[name])


@pytest.mark.parametrize(
    ("family", "rows"),
    [
        (NUMBERS, X),
        (STATES, np.array([0, 2, -1, 1])),
        (COUNTS, np.array([0.0, 7.0, np.nan, 1.0])),
        (PLAIN, np.column_stack([X, [0, 1, np.nan, 2]])),
        (NAMED, np.array([(0, 1.0), (2, np.nan), (-1, 3.0), (1, 4.0)], [("alarm", int), ("drops", float)])),
        (NUMBERS, np.asfortranarray(X)),
        (NUMBERS, np.arange(24.0).reshape(4, 6)[:, 1:5:2]),
    ],
)
def test_rows_are_given_back_as_they_came_and_parts_share_their_memory(family, rows):
    data = read_sequences(rows, family, lengths=[3, 0, 1])
    same(data.rows(), rows)
    assert len(data) == 3 and (family is COUNTS or np.shares_memory(data.rows(), rows))
    for which, part in data.blocks(1):
        begin, end = data.begin[which.start], data.begin[which.stop]
        same(part.rows(), rows[begin:end])
        assert begin == end or np.shares_memory(part.rows(), data.rows())
    same(data.take([2, 0]).rows(), rows[[3, 0, 1, 2]])
    again = read_sequences(data, family)
    same(again.rows(), rows)
    np.testing.assert_array_equal(again.begin, [0, 3, 3, 4])


def test_one_reader_takes_frames_arrays_lists_and_datasets():
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(who=["q", "p", "q", "p"], other="z")
    given = {"groups": "who", "columns": ["a", "b"]}
    expected = X[[0, 2, 1, 3]]
    for source, options in (
        (frame, given),
        (dict(frame), given),
        (credo.data.read(frame, **given), {}),
        ([frame[["a", "b"]].iloc[[0, 2]], frame[["a", "b"]].iloc[[1, 3]]], {}),
        ([X[[0, 2]], X[[1, 3]]], {}),
        ([X[[0, 2]].tolist(), X[[1, 3]].tolist()], {}),
        (expected, {"lengths": [2, 2]}),
        (Dataset.from_rows(expected), {"lengths": [2, 2]}),
    ):
        found = read_sequences(source, NUMBERS, **options)
        np.testing.assert_array_equal(found.rows(), expected)
        np.testing.assert_array_equal(found.begin, [0, 2, 4])


@pytest.mark.parametrize("order", ["C", "F"])
def test_blocks_of_a_table_that_was_read_are_views_of_it(order):
    table = np.array(np.arange(24.0).reshape(8, 3) + 0.5, order=order)
    data = credo.data.read(table, lengths=[3, 5])
    assert np.shares_memory(data.rows(), table)
    for which, part in data.blocks(1):
        np.testing.assert_array_equal(part.rows(), table[data.begin[which.start] : data.begin[which.stop]])
        assert np.shares_memory(part.rows(), table)
    np.testing.assert_array_equal(data.select(["x2", "x0"]).rows(), table[:, [2, 0]])
    np.testing.assert_array_equal(data.take([1]).rows(), table[3:])


def test_rows_that_nothing_cuts_are_one_sequence_but_sequences_of_one_step_stay():
    assert len(read_sequences(credo.data.read({"a": [0.5, 1.5]}), DiagonalGaussian([[0.0]], [[1.0]]))) == 1
    steps = read_sequences([0, 1, 2], STATES, lengths=[1, 1, 1])
    assert len(read_sequences(steps, STATES)) == 3 and steps.place(1) == "sequence 1, step 0"


def test_a_mask_hides_steps_and_weights_stay_with_their_sequences():
    seen = np.array([True, False, True, True])
    data = read_sequences([0, 1, 2, 1], STATES, lengths=[3, 1], mask=seen, weights=[2.0, 0.5])
    np.testing.assert_array_equal(data.rows(), [0, -1, 2, 1])
    np.testing.assert_array_equal(data.row_weights, [2, 2, 2, 0.5])
    assert data.total_rows == 6.5
    np.testing.assert_array_equal(read_sequences(data, STATES).weights, [2.0, 0.5])


def test_columns_keep_their_names_and_domains():
    data = read_sequences({"alarm": [0, 1, 2], "drops": [3, 4, 5]}, NAMED)
    assert data.names == ("alarm", "drops") and data.column("drops").domain == Real()
    assert data.select(["drops"]).rows().ravel().tolist() == [3, 4, 5]
    assert read_sequences(np.array([0, 1]), STATES).column("x0").domain.size == 3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: read_sequences([0, 1], STATES, lengths=[1]), "lengths: expected a sum of 2"),
        (lambda: read_sequences([[0, 1], [9, 1, 1]], STATES), "sequence 1: data: row 0 has state 9"),
        (lambda: read_sequences([], STATES), "data: expected"),
        (lambda: read_sequences(np.zeros((0, 2)), NUMBERS), "at least one step, got none"),
        (lambda: read_sequences([0, 1], STATES, mask=[1, 0]), "mask: expected 2 booleans"),
        (lambda: read_sequences([0, 1], STATES, groups="who"), "whose columns have names"),
        (
            lambda: read_sequences(read_sequences([0, 1], STATES), STATES, lengths=[2]),
            "these sequences are complete",
        ),
        (
            lambda: read_sequences(credo.data.read({"a": [0, 1]}, weights=[1.0, 2.0]), STATES),
            "one per row, expected one per sequence",
        ),
        (lambda: read_sequences([0, 1], STATES, weights=[-1.0]), "finite numbers from 0, got -1 in sequence"),
        (
            lambda: Dataset.from_rows(X).__class__(
                Dataset.from_rows(X).columns, np.arange(5), np.ones(4), block=X[:2]
            ),
            "expected a block of 4 rows, got 2",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(DataError, match=message):
        call()


def test_weights_of_sequences_may_be_a_column():
    frame = {"who": ["a", "b", "a"], "n": [2, 5, 2], "x": [0, 1, 1]}
    family = Categorical([[0.5, 0.5]])
    data = read_sequences(frame, family, groups="who", weights="n")
    assert data.weights.tolist() == [2, 5] and data.names == ("x",)
    with pytest.raises(DataError, match="weights: 'n' has one per row, expected one per sequence"):
        read_sequences(frame, family, columns=["x"], weights="n")


def test_text_files_are_read_as_sequences(tmp_path):
    (tmp_path / "t.csv").write_text("who,x\na,1.5\nb,NA\na,2\n")
    data = read_sequences(tmp_path / "t.csv", DiagonalGaussian([[0.0]], [[1.0]]), groups="who")
    assert np.array_equal(data.rows().ravel(), [1.5, 2.0, np.nan], equal_nan=True)
