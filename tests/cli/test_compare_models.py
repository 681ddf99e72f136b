"""`credo compare-models`: a table of models by name and from files."""

from __future__ import annotations

import numpy as np
import pytest

import credo


@pytest.fixture(autouse=True)
def sizes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    credo.data.write_table({"size": rng.normal(np.repeat([0.0, 6.0], 40))}, "sizes.csv")


def test_models_by_name_are_weighed_as_in_python(run):
    words = ["mixture(1)", "mixture(2)", "sizes.csv", "--criteria", "bic", "--restarts", 1]
    found = run("compare-models", *words, "--json").json
    blanks = {"mixture(1)": credo.Mixture.blank(1), "mixture(2)": credo.Mixture.blank(2)}
    same = credo.compare_models(blanks, "sizes.csv", criteria=["bic"], restarts=1)
    assert [row["model"] for row in found] == list(blanks)
    assert [row["bic"] for row in found] == pytest.approx([row.bic for row in same])
    shown = run("compare-models", *words).out
    assert shown.splitlines()[0].split() == ["model", "params", "log-lik.", "BIC", "p(model)", "seconds"]
    assert shown.endswith("p(model) is made from the column BIC\n")


def test_a_terminal_gets_the_table_and_the_sentences_below_it(run, monkeypatch):
    monkeypatch.setattr("credo.cli.output.is_terminal", lambda: True)
    monkeypatch.setattr("credo.cli.compare_models.is_terminal", lambda: True)
    words = ["mixture(1)", "mixture(2)", "sizes.csv", "--criteria", "bic,exact", "--restarts", 1]
    shown = run("compare-models", *words).out
    assert "─" in shown and "p(model) is made from the column BIC" in shown
    assert "no exact for mixture(" in shown


def test_networks_from_files_are_tested_against_each_other(run):
    credo.sample(credo.datasets.sprinkler(), 200, seed=0).to_frame().to_csv("wet.csv", index=False)
    credo.save(credo.datasets.sprinkler(), "full.bif")
    words = ["bayes-net(edges=[cloudy, sprinkler, rain, wet])", "full.bif", "wet.csv", "--criteria", "bic"]
    found = run("compare-models", *words, "--nested", "--json").json
    assert found[1]["nested"] < 1e-6 and found[1]["posterior"] > 0.99


def test_labels_beside_features_are_compared_among_each_other(run, tmp_path):
    lines = [f"{s},{w},{t}" for s in "abcdef" for w, t in (("the", "det"), ("cat", "noun"), ("the", "det"))]
    (tmp_path / "tags.csv").write_text("\n".join(["sentence,word,tag", *lines]) + "\n")
    words = ["crf", "tags.csv", "--targets", "tag", "--groups", "sentence", "--criteria", "bic", "--json"]
    (row,) = run("compare-models", *words, "--prior", "gaussian(scale=1)", "--restarts", 1).json
    assert row["bic"] < row["log_likelihood"] < 0
    fit = credo.fit(credo.Mixture(2), "sizes.csv", "vb", columns=["size"], seed=0)
    credo.save(fit.posterior, "posterior.credo")
    refused = run("compare-models", "posterior.credo", "sizes.csv")
    assert refused.status == 1 and "got MixturePosterior" in refused.err


def test_what_is_no_comparison_is_refused(run):
    assert run("compare-models", "sizes.csv").status == 2
    assert run("compare-models", "mixture(2)", "mixture(2)", "sizes.csv").status == 2
    wrong = run("compare-models", "mixture(2)", "sizes.csv", "--criteria", "aic")
    assert wrong.status == 1 and "criteria" in wrong.err
    asked = run("compare-models", "mixture(2)", "no.csv")
    assert asked.status == 1 and "no.csv" in asked.err
