"""Tables of observations in every form, and what is refused."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest

import credo
from credo import Variable
from credo.core.errors import ConvergenceWarning, CredoError, DataError, UnsupportedError
from credo.core.variable import Variables
from credo.data.table import StateTable
from credo.learning import log_likelihood

VARIABLES = Variables.of({"a": ["no", "yes"], "b": 3, "s": ["-1", "+1"]})
EXPECTED = np.array([[0, 2, 0], [1, -1, 1], [0, 2, 0], [-1, 0, 1]])


def rows(data: StateTable) -> list[list[int]]:
    return data.states[data.row_of].tolist()


FORMS = {
    "frame of labels": pd.DataFrame(
        {
            "a": ["no", "yes", "no", None],
            "b": pd.array([2, None, 2, 0], dtype="Int64"),
            "s": [-1, 1, -1, 1],
        }
    ),
    "frame of categories": pd.DataFrame(
        {
            "s": pd.Categorical(["-1", "+1", "-1", "+1"]),
            "a": pd.Categorical(["no", "yes", "no", None], categories=["yes", "no"]),
            "b": [2.0, np.nan, 2.0, 0.0],
        }
    ),
    "columns": {"a": ["no", "yes", "no", None], "b": np.array([2, -1, 2, 0]), "s": np.array([-1, 1, -1, 1])},
    "rows": [
        {"a": "no", "b": 2, "s": "-1"},
        {"a": "yes", "s": "+1"},
        {"s": -1, "b": 2, "a": False},
        {"a": None, "b": 0, "s": 1},
    ],
    "array of floats": np.array([[0, 2, -1], [1, np.nan, 1], [0, 2, -1], [np.nan, 0, 1]]),
    "array of objects": np.array(
        [["no", 2, "-1"], ["yes", None, "+1"], ["no", 2, "-1"], [None, 0, "+1"]], dtype=object
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_rows(form):
    data = StateTable.of(VARIABLES, FORMS[form])
    assert rows(data) == EXPECTED.tolist()
    assert len(data) == 4
    assert len(data.states) == 3
    assert sorted(data.counts) == [1, 1, 2]


@pytest.mark.parametrize(("name", "separator"), [("t.csv", ","), ("t.tsv", "\t"), ("t.csv.gz", ",")])
def test_files_are_read(tmp_path, name, separator):
    FORMS["frame of labels"].to_csv(tmp_path / name, sep=separator, index=False)
    assert rows(StateTable.of(VARIABLES, tmp_path / name)) == EXPECTED.tolist()


def test_parquet_files_are_read(tmp_path):
    pytest.importorskip("pyarrow")
    FORMS["frame of labels"].to_parquet(tmp_path / "t.parquet")
    assert rows(StateTable.of(VARIABLES, str(tmp_path / "t.parquet"))) == EXPECTED.tolist()


def test_a_missing_word_that_is_a_state_is_a_state(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\nNA,x\nEU,?\n")
    variables = Variables.of({"a": ["EU", "NA"], "b": ["x", "y"]})
    assert rows(StateTable.of(variables, tmp_path / "t.csv")) == [[1, 0], [0, -1]]


def test_samples_and_indices_are_read():
    model = credo.datasets.ising_grid(2, seed=0)
    samples = credo.sample(model, 50, seed=0)
    data = StateTable.of(model.variables, samples)
    assert np.array_equal(data.states[data.row_of], samples.indices)
    assert data.is_complete
    again = StateTable.from_states(model.variables, [[-1, 1, 0, 1]])
    assert again.states.tolist() == [[-1, 1, 0, 1]], "among indices -1 is missing, whatever the labels"


def test_columns_left_out_are_hidden():
    data = StateTable.of(VARIABLES, {"b": [0, 1, 1]})
    assert data.hidden == ("a", "s")
    assert not data.is_complete


def test_counts_of_table_entries_equal_a_plain_loop():
    graph = credo.FactorGraph(
        VARIABLES,
        {("a", "b"): np.ones((2, 3)), ("b",): np.ones(3), ("s", "a"): np.ones((2, 2)), (): np.array(1.0)},
    )
    data = StateTable.of(VARIABLES, FORMS["columns"], weights=[1.0, 2.0, 0.5, 3.0])
    expected = []
    for a in range(graph.n_factors):
        scope = graph.scope_of(a)
        table = np.zeros(graph.variables.sizes[scope])
        for row, weight in zip(EXPECTED, [1.0, 2.0, 0.5, 3.0], strict=True):
            if (row[scope] >= 0).all():
                table[tuple(row[scope])] += weight
        expected.append(table.ravel())
    assert data.table_counts(graph) == pytest.approx(np.concatenate(expected))


def test_parts_and_batches_keep_every_row_and_its_weight():
    rng = np.random.default_rng(0)
    states = rng.integers(0, 2, (57, 3))
    data = StateTable.from_states(VARIABLES, states, weights=np.arange(57) + 1.0)
    batches = list(data.batches(10, np.random.default_rng(1)))
    assert [len(b) for b in batches] == [10, 10, 10, 10, 10, 7]
    assert sum(b.total for b in batches) == pytest.approx(data.total)
    counted = sum(StateTable.table_counts(b, _one_table()) for b in batches)
    assert counted == pytest.approx(data.table_counts(_one_table()))
    left, right = data.split(0.25, rng)
    assert (len(left), len(right)) == (43, 14)
    assert left.total + right.total == pytest.approx(data.total)


def _one_table():
    return credo.FactorGraph(VARIABLES, {("a", "b", "s"): np.ones((2, 3, 2))})


def test_patterns_group_rows_that_observe_the_same_variables():
    data = StateTable.of(VARIABLES, FORMS["columns"])
    found = {tuple(mask.tolist()): len(rows) for mask, rows in data.patterns()}
    assert found == {(True, True, True): 1, (True, False, True): 1, (False, True, True): 1}
    row = int(data.row_of[1])
    assert data.evidence(row) == {"a": 1, "s": 1}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"a": ["no", "maybe"]}, "row 1: variable 'a' has no state 'maybe'; its states are ['no', 'yes']"),
        ({"b": [0, 7]}, "row 1: variable 'b' has no state '7'"),
        ({"b": [0.0, 0.5]}, "row 1: variable 'b' has no state '0.5'"),
        (pd.DataFrame({"a": pd.Categorical(["no", "x"])}), "row 1: variable 'a' has no state 'x'"),
        ({"c": [0, 1]}, "the column 'c' is no variable of the model: no variable named 'c'"),
        ({"a": []}, "data: expected at least one row, got none"),
        ([], "data: expected at least one row, got none"),
        (np.empty((0, 3)), "data: expected at least one row, got none"),
        (np.zeros((4, 2), dtype=int), "expected an array of shape (rows, 3)"),
        (np.full((2, 3), np.nan), "expected a row that observes a variable of the model, got none"),
        ([{"a": "no"}, 3], "row 1: expected a mapping name -> value, got 3"),
        ({"a": ["no"], "b": [0, 1]}, "column 'b' has 2 rows, the first one 1"),
        ({"a": "no"}, "column 'a': expected a list of values, got 'no'"),
        ({"a": np.array(1)}, "column 'a': expected a list of values, got array(1)"),
        ({"a": [["no"], ["yes"]]}, "row 0: expected a state of 'a', or one weight for each of its 2 states"),
        ({"a": np.ones((2, 3))}, "column 'a': expected one value per row, or the weights of its 2 states"),
        ({"a": np.array([["no"], None], dtype=object)}, "row 0: expected a state of 'a'"),
        (pd.DataFrame([[0, 1]], columns=["a", "a"]), "the column 'a' appears twice"),
        ("table.xls", "table.xls: expected a .csv, .tsv or .parquet file, got '.xls'"),
        ("nowhere.csv", "nowhere.csv: there is no such file"),
        ("nowhere.parquet", "nowhere.parquet: "),
        (7, "expected an array of shape (rows, 3), a data frame"),
    ],
)
def test_refusals_name_the_row_and_the_way_out(data, message):
    with pytest.raises(CredoError, match=re.escape(message)):
        StateTable.of(VARIABLES, data)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, np.nan], "weights: expected finite numbers from 0, got nan in row 1"),
        ([1.0, -1.0], "weights: expected finite numbers from 0, got -1 in row 1"),
        ([1.0], "weights: expected 2 numbers, one per row, got shape (1,)"),
        ("ab", "weights: expected one number per row or the name of a column, got 'ab'"),
        ([0.0, 0.0], "weights: at least one row must have a positive weight"),
        ([1e308, 1e308], "weights: expected numbers with a finite sum, got up to 1e+308; scale them"),
    ],
)
def test_refusals_of_weights(weights, message):
    with pytest.raises(DataError, match=re.escape(message)):
        StateTable.of(VARIABLES, {"a": [0, 1]}, weights=weights)


def test_other_refusals():
    data = StateTable.of(VARIABLES, {"a": [0, 1]})
    with pytest.raises(DataError, match="have their weights already"):
        StateTable.of(VARIABLES, data, weights=[1, 1])
    with pytest.raises(DataError, match="made for other variables"):
        StateTable.of([Variable("a")], data)
    with pytest.raises(DataError, match=r"row 0 has state 5 of 'b', expected 0 to 2, or -1 for missing"):
        StateTable.from_states(VARIABLES, [[0, 5, 0]])
    with pytest.raises(DataError, match=r"expected integers of shape \(rows, 3\), got float64"):
        StateTable.from_states(VARIABLES, [[0.0, 1.0, 0.0]])
    with pytest.raises(DataError, match="split: expected a fraction between 0 and 1"):
        data.split(1.5, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\nno\n", "line 2: expected 2 cells, got 1"),
        ("a,a\nno,no\n", "line 1: expected different column names"),
        ("", "expected at least one row"),
    ],
)
def test_damaged_files_are_refused(tmp_path, text, message):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(CredoError, match=re.escape(message)):
        StateTable.of(VARIABLES, tmp_path / "t.csv")


def test_a_file_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"a,b\n\xff\xfe,1\n")
    with pytest.raises(CredoError, match="expected text in UTF-8"):
        StateTable.of(VARIABLES, tmp_path / "t.csv")


def test_samples_are_matched_by_name_and_label():
    tables = {"a": [0.9, 0.1], "b": [0.2, 0.8]}
    truth, turned = (credo.BayesNet(dict.fromkeys(names, 2), {}, tables) for names in ("ab", "ba"))
    drawn = credo.sample(truth, 500, seed=0)
    columns = {name: drawn.column(name) for name in "ab"}
    assert log_likelihood(turned, drawn).value == pytest.approx(log_likelihood(truth, columns).value)
    other = credo.BayesNet({"a": ["lo", "hi"], "b": 2}, {}, tables)
    named = credo.BayesNet({"a": ["hi", "lo"], "b": 2}, {}, {"a": [0.1, 0.9], "b": [0.2, 0.8]})
    drawn = credo.sample(other, 500, seed=0)
    assert log_likelihood(named, drawn).value == pytest.approx(log_likelihood(other, drawn).value)
    with pytest.raises(DataError, match=r"'a' has the states \['lo', 'hi'\], the model's \['0', '1'\]"):
        log_likelihood(truth, drawn)
    with pytest.raises(DataError, match="no variable named 'a'"):
        log_likelihood(credo.BayesNet({"x": 2}, {}, {"x": [0.5, 0.5]}), drawn)
    wider = credo.BayesNet({"h": 2, "a": ["lo", "hi"], "b": 2}, {}, {"h": [0.5, 0.5], **tables})
    assert log_likelihood(wider, drawn).value == pytest.approx(log_likelihood(other, drawn).value)


def test_rows_without_weight_are_left_out_and_numbers_stay():
    variables = Variables.of({"a": 2, "b": 2})
    data = StateTable.of(variables, {"a": [0, 1, 1], "b": [0, 0, 1]}, weights=[0, 2, 3])
    assert len(data) == 2 and data.total == 5
    assert data.number(int(data.row_of[0])) == 1
    seen = StateTable.of(variables, {"a": [0, 1, None], "b": [0, 0, None]}, weights=[0, 1, 1])
    assert len(seen) == 1 and seen.notes == ("1 rows that observe no variable were left out",)
    net = credo.MarkovNet({"a": 2, "b": 2}, {("a", "b"): [[1, 0], [1, 1]]})
    rows, weights = {"a": [0, 0, 1], "b": [0, 1, 1]}, [1, 0, 1]
    for learner in ("likelihood", "ipf", "em", "pseudolikelihood", "contrastive-divergence"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = credo.fit(net, rows, learner, weights=weights, seed=0, max_iter=5)
        assert np.isfinite(found.objective).all()
        with pytest.raises(DataError, match="row 1 has probability zero"):
            credo.fit(net, rows, learner, seed=0, max_iter=5)
        with pytest.raises(DataError, match="at least two rows"):
            credo.fit(net, rows, learner, weights=[1, 0, 0], validation=0.5, seed=0)


def test_learning_goes_on_when_a_validation_row_is_impossible():
    net = credo.BayesNet.random({"a": 3, "h": 2}, {"a": ["h"]}, seed=0)
    rows = {"a": [0, 0, 1, 1]}
    found = credo.fit(net, rows, "em", validation={"a": [2]}, seed=0)
    assert found.trace["validation"][-1] == -np.inf and np.isfinite(found.trace["validation"][0])
    held = credo.fit(net, rows, "vb", validation={"a": [2]}, seed=0)
    assert len(held.trace["validation"]) == len(held.objective)  # a posterior rules no state out
    assert np.isfinite(held.trace["validation"]).all()


def test_stepwise_em_forgets_no_state_that_the_first_rows_lack():
    truth, start = (
        credo.BayesNet.random({"a": 4, "b": 4, "c": 4}, {"b": ["a"], "c": ["b"]}, seed=s) for s in (3, 5)
    )
    drawn = credo.sample(truth, 200, seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = credo.fit(start, {n: drawn.column(n) for n in "ac"}, "em(batch=5)", seed=0, max_iter=10)
    assert found.objective[-1] > found.objective[0]


def test_methods_without_log_z_say_so_with_missing_values_too():
    net = credo.BayesNet.random({"h": 2, "x": 3}, {"x": ["h"]}, seed=2)
    with pytest.raises(UnsupportedError, match="gibbs computes no log Z"):
        log_likelihood(net, {"x": [0, 1, 2]}, "gibbs")


def test_rows_that_observe_nothing_are_left_out_and_told():
    net = credo.BayesNet.random({"a": 2, "h": 2}, {"a": ["h"]}, seed=0)
    found = credo.fit(net, {"a": [0, None, 1, 1]}, "em", seed=0)
    assert "1 rows that observe no variable were left out" in found.notes
    assert found.log_likelihood.value == pytest.approx(
        credo.fit(net, {"a": [0, 1, 1]}, "em", seed=0).log_likelihood.value
    )
