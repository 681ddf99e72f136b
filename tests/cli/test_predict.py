"""`credo predict` and `credo impute`: answers about rows, as tables."""

from __future__ import annotations

import csv
import io

import numpy as np
import pandas as pd
import pytest

import credo

SEEN = ["--columns", "sprinkler,rain,wet"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def rows(folder):
    text = "sprinkler,rain,wet,who\nyes,no,,ann\nno,,no,bob\n,yes,yes,\n"
    (folder / "rows.csv").write_text(text)
    return pd.read_csv("rows.csv")


def table(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_predictions_are_those_of_python_as_csv(run, rows):
    answer = run("predict", "sprinkler", "rows.csv", "wet", "cloudy", *SEEN)
    net = credo.datasets.sprinkler()
    same = credo.predict(net, rows.drop(columns="who"), ["wet", "cloudy"])
    assert answer.status == 0
    assert table(answer.out) == same.to_dict("records")


def test_probabilities_have_a_column_for_each_state(run, rows):
    net = credo.datasets.sprinkler()
    same = credo.predict(net, rows.drop(columns="who"), "wet", proba=True)
    found = run("predict", "sprinkler", "rows.csv", "wet", "--proba", "--json", *SEEN).json
    assert list(found) == ["no", "yes"]
    assert found["yes"] == pytest.approx(same["yes"].tolist())
    both = run(
        "predict", "sprinkler", "rows.csv", "wet", "rain", "--proba", "--method", "enumerate", *SEEN
    ).out
    assert both.splitlines()[0] == "wet=no,wet=yes,rain=no,rain=yes"
    apart = credo.predict(net, rows.drop(columns="who"), ["wet", "rain"], proba=True)
    assert [float(row["wet=yes"]) for row in table(both)] == pytest.approx(apart["wet"]["yes"].tolist())


def test_joint_states_and_numbers_with_their_spread(run, rows, folder):
    best = credo.predict(credo.datasets.sprinkler(), rows.drop(columns="who"), "wet", maximise="all")
    assert [
        r["wet"]
        for r in table(run("predict", "sprinkler", "rows.csv", "wet", "--maximise", "all", *SEEN).out)
    ] == [*best]
    x = np.random.default_rng(0).normal(size=50)
    credo.data.write_table({"x": x, "y": 2 * x}, "xy.csv")
    run("fit", "bayes-net", "xy.csv", "--edges", "x->y", "--learner", "em(floor=1e-3)", "--out", "xy.credo")
    (folder / "new.csv").write_text("x\n1.5\n-0.5\n")
    found = run("predict", "xy.credo", "new.csv", "y", "--std", "--json").json
    assert found["y"] == pytest.approx([3.0, -1.0], abs=1e-6)
    assert list(found) == ["y", "y_std"] and min(found["y_std"]) > 0


def test_hidden_states_of_sequences(run, folder):
    rng = np.random.default_rng(0)
    ill = np.repeat([0, 1, 0, 1], 20)
    credo.data.write_table({"who": np.repeat(["b", "a"], 40), "hr": rng.normal(60 + 25 * ill, 3)}, "hr.csv")
    words = ["hr.csv", "--groups", "who"]
    assert run("fit", "hmm(states=2)", *words, "--out", "hmm.credo", "--seed", 0).status == 0
    found = np.array(
        run("predict", "hmm.credo", "hr.csv", "state", "--groups", "who", "--json").json["state"]
    )
    assert max((found == ill).mean(), (found != ill).mean()) > 0.95
    path = run("predict", "hmm.credo", "hr.csv", "state", "--groups", "who", "--maximise", "all").out
    assert [int(row["state"]) for row in table(path)] == found.tolist()
    shares = run("predict", "hmm.credo", *words[:1], "state", *words[1:], "--proba", "--json").json
    assert np.add(shares["0"], shares["1"]) == pytest.approx(np.ones(80))


def test_missing_cells_are_filled_and_others_stay(run, rows):
    answer = run("impute", "sprinkler", "rows.csv", *SEEN)
    assert answer.status == 0
    found = table(answer.out)
    assert [row["who"] for row in found] == ["ann", "bob", ""]
    same = credo.impute(credo.datasets.sprinkler(), rows.drop(columns="who"))
    assert [{n: row[n] for n in same} for row in found] == same.to_dict("records")
    draws = [
        run("impute", "sprinkler", "rows.csv", "--how", "sample", "--seed", 3, *SEEN).out for _ in range(2)
    ]
    assert draws[0] == draws[1]


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
def test_tables_go_to_files_that_are_read_again(run, rows, ending):
    answer = run("impute", "sprinkler", "rows.csv", "--out", f"full.{ending}", *SEEN)
    assert (answer.status, answer.out) == (0, "")
    assert answer.err == f"credo: wrote the filled table to full.{ending}\n"
    read = credo.data.read(f"full.{ending}", columns=["sprinkler", "rain", "wet"])
    assert not any(column.missing.any() for column in read.columns)


def test_rows_that_the_model_excludes_are_refused_or_left_empty(run, folder):
    (folder / "odd.csv").write_text("tub,either\nyes,no\nyes,\n")
    refused = run("predict", "asia", "odd.csv", "lung")
    assert (refused.status, refused.out) == (1, "") and "row 0" in refused.err
    found = run("predict", "asia", "odd.csv", "lung", "--impossible", "missing", "--json").json
    assert found["lung"] == [None, "no"]
    filled = run("impute", "asia", "odd.csv", "--impossible", "missing").out
    assert table(filled)[1] == {"tub": "yes", "either": "yes"}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["predict", "sprinkler", "rows.csv", "wett"], "did you mean 'wet'"),
        (["predict", "sprinkler", "rows.csv", "wet"], "who"),
        (
            ["predict", "sprinkler", "rows.csv", "wet", "--columns", "sprinklers"],
            "columns: no column 'sprinklers'",
        ),
        (["predict", "sprinkler", "rows.txt", "wet"], "rows.txt: expected a .csv, .tsv or .parquet file"),
        (
            ["predict", "sprinkler", "rows.csv", "wet", "--out", "x.doc"],
            "x.doc: expected a file name ending in",
        ),
        (["predict", "sprinkler", "rows.csv", "wet", "--groups", "who"], "groups: a BayesNet has rows"),
        (["impute", "sprinkler", "rows.csv", "--out", "x.doc"], "x.doc: expected a file name ending in .csv"),
        (["impute", "hmm(2)", "rows.csv"], "impute: expected a model of named variables, got BlankHMM"),
        (["predict", "mixture(2)", "rows.csv", "component"], "is a blank"),
        (
            ["sample", "sprinkler", "--out", "x.doc"],
            "x.doc: expected a file name ending in .csv, .tsv, .parquet",
        ),
    ],
)
def test_what_cannot_be_answered_gets_one_sentence(run, rows, words, sentence):
    answer = run(*words)
    assert (answer.status, answer.out) == (1, "")
    assert sentence in answer.err and answer.err.count("\n") == 1
