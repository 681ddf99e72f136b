"""Models of rows and sequences in the shell: what they are, new rows, and what is refused."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

import credo
from credo.families import Categorical, DiagonalGaussian, Product
from credo.models import FactorialHMM


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parts = [DiagonalGaussian([[0.0], [9.0]], [[1.0], [1.0]]), Categorical([[1.0, 0.0], [0.0, 1.0]])]
    labels = credo.BayesNet({"kind": ["moth", "bat"]}, {}, {"kind": [0.5, 0.5]}).variables[0].domain
    emission = Product(parts, ["size", "kind"], {"kind": labels})
    credo.save(credo.HMM([1.0, 0.0], [[0.5, 0.5], [0.5, 0.5]], emission), "hmm.credo")
    credo.save(credo.Mixture([[0.5, 0.5]], emission), "mixture.credo")
    credo.save(credo.CRF(["dark", "light"], [[-1.0, 1.0]], [[0.5, -0.5], [-0.5, 0.5]]), "crf.credo")
    return tmp_path


def test_new_sequences_are_rows_with_labels_and_states(run):
    answer = run("sample", "hmm.credo", "--lengths", "3,2", "--seed", 0)
    rows = list(csv.DictReader(io.StringIO(answer.out)))
    assert [row["sequence"] for row in rows] == list("00011")
    assert [row["state"] for row in rows][::3] == ["0", "0"]  # both sequences begin in the first state
    for row in rows:
        assert row["kind"] == ["moth", "bat"][int(row["state"])]
        assert (float(row["size"]) > 4.5) == (row["state"] == "1")
    drawn, states = credo.sample(credo.load("hmm.credo"), lengths=[3, 2], seed=0)
    assert [int(row["state"]) for row in rows] == states.tolist()
    assert [float(row["size"]) for row in rows] == drawn["size"].tolist()


def test_new_rows_of_a_mixture_come_with_their_components(run):
    found = run("sample", "mixture.credo", "-n", 4, "--seed", 0, "--json").json
    assert list(found) == ["size", "kind", "component"]
    assert found["kind"] == [["moth", "bat"][k] for k in found["component"]] and len(found["size"]) == 4


def test_several_chains_have_a_column_each(run):
    half, sticky = [0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]]
    two = FactorialHMM.additive([half, half], [sticky, sticky], [[[0.0], [1.0]], [[0.0], [3.0]]], [[0.01]])
    credo.save(two, "two.credo")
    found = run("sample", "two.credo", "-n", 6, "--json").json
    assert list(found) == ["x0", "state0", "state1"]
    expected = np.array(found["state0"]) + 3 * np.array(found["state1"])
    assert np.abs(np.array(found["x0"]) - expected).max() < 1


def test_info_tells_what_it_is(run):
    facts = run("info", "hmm.credo", "--json").json
    assert (facts["model"], facts["parameters"]) == ("HMM", credo.load("hmm.credo").n_parameters)
    assert facts["description"] == repr(credo.load("hmm.credo"))
    assert run("info", "crf.credo").out.startswith("model        CRF\n")
    assert run("info", "hmm.credo", "-e", "size=1").status == 2


@pytest.mark.parametrize("command", ["infer", "compare", "bracket", "draw", "solve", "certify"])
def test_commands_about_graphs_point_to_those_about_rows(run, command):
    words = ["PR"] if command == "solve" else []
    for model in ("hmm.credo", "mixture.credo", "crf.credo"):
        answer = run(command, model, *words)
        assert (answer.status, answer.out) == (1, "")
        assert "is a graph only together with data; `credo predict` answers about the rows" in answer.err


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (["info", "mixture(2)"], 1, "this BlankMixture is a blank, it has no parameters"),
        (["infer", "hmm(2)"], 1, "this BlankHMM is a blank, it has no parameters"),
        (["infer", "bayes-net(edges=[a->b])"], 1, "this network is a blank"),
        (
            ["sample", "factor-analysis"],
            1,
            "this FactorAnalysis is a blank, it has no parameters",
        ),
        (["sample", "crf.credo"], 1, "labels depend on features, which must be given"),
        (["sample", "hmm.credo", "--method", "gibbs"], 2, "new rows are drawn without"),
        (["sample", "asia", "--lengths", "3"], 2, "--lengths is for models of sequences"),
        (["sample", "mixture.credo", "--lengths", "3"], 2, "--lengths is for models of sequences"),
    ],
)
def test_what_makes_no_sense_gets_a_sentence(run, words, status, sentence):
    answer = run(*words)
    assert (answer.status, answer.out) == (status, "")
    assert sentence in " ".join(answer.err.replace("│", " ").split())
