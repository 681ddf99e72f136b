"""`credo fit`: models by name and from files, what it keeps, and how it is stopped."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import credo

NET = ["bayes-net", "--edges", "rain->wet, sprinkler->wet"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def wet(folder):
    """Rows of the sprinkler network, some cells missing."""
    frame = credo.sample(credo.datasets.sprinkler(), 300, seed=0).to_frame().astype(object)
    frame = frame[["rain", "sprinkler", "wet"]]
    frame.loc[::7, "rain"] = None
    frame.to_csv("wet.csv", index=False)
    return frame


@pytest.fixture
def beats(folder):
    """Two sequences of numbers from two states, one below the other."""
    rng = np.random.default_rng(0)
    ill = np.repeat([0, 1, 0, 1], 20)
    columns = {"patient": ["ann"] * 40 + ["bob"] * 40, "hr": rng.normal(60 + 25 * ill, 5).round(2)}
    columns["state"] = ["" if t % 5 else str(s) for t, s in enumerate(ill)]
    credo.data.write_table(columns, "beats.csv")
    return ill


def test_a_network_from_edges_is_the_one_of_python(run, wet):
    answer = run("fit", *NET, "wet.csv", "--prior", "bdeu(size=10)", "--out", "learned.bif")
    blank = credo.BayesNet.from_edges([("rain", "wet"), ("sprinkler", "wet")])
    same = credo.fit(blank, wet, prior="bdeu(size=10)")
    assert answer.status == 0 and answer.err == "credo: wrote the model to learned.bif\n"
    assert credo.load("learned.bif").tables["wet"] == pytest.approx(same.model.tables["wet"], abs=1e-12)
    lines = {line.split("  ")[0]: line.split("  ", 1)[1].strip() for line in answer.out.splitlines()}
    assert lines["learner"] == "em(prior=bdeu(size=10))"
    assert lines["log-likelihood"] == str(same.log_likelihood)
    assert lines["status"].startswith("converged")


def test_learning_goes_on_from_a_file(run, wet):
    run("fit", *NET, "wet.csv", "--out", "net.bif")
    found = run("fit", "net.bif", "wet.csv", "--learner", "em", "--json", "--out", "again.credo").json
    assert (found["model"], found["learner"], found["converged"]) == ("BayesNet", "em", True)
    assert len(found["objective"]) <= 3 and found["out"] == "again.credo"
    assert run("infer", "again.credo", "--query", "wet").status == 0


def test_a_hidden_variable_is_given_its_states(run, folder):
    rng = np.random.default_rng(0)
    p = np.where(rng.random(200) < 0.4, 0.9, 0.2)
    credo.data.write_table({k: np.where(rng.random(200) < p, "head", "tail") for k in "abc"}, "throws.csv")
    edges = ["--edges", "coin->a,coin->b,coin->c", "--states", "coin=2"]
    answer = run("fit", "bayes-net", "throws.csv", *edges, "--restarts", 3, "--seed", 0, "--out", "c.credo")
    coins = credo.BayesNet.from_edges([("coin", k) for k in "abc"], states={"coin": 2})
    assert answer.status == 0
    assert credo.load("c.credo") == credo.fit(coins, "throws.csv", restarts=3, seed=0).model
    named = run("fit", "bayes-net", "throws.csv", *edges[:2], "--states", "coin=fair,loaded", "--json")
    assert named.status == 0 and len(named.json["restarts"]) == 1


def test_sequences_are_cut_by_groups_and_the_checkpoint_is_a_finished_run(run, beats):
    words = ["fit", "hmm(states=2)", "beats.csv", "--groups", "patient", "--columns", "hr", "--seed", "0"]
    first = run(*words, "--out", "hmm.credo", "--checkpoint", "run.credo", "--json")
    again = run(*words, "--out", "again.credo", "--checkpoint", "run.credo", "--json")
    assert first.status == again.status == 0
    assert first.json["objective"] == again.json["objective"]
    same = credo.fit(
        credo.HMM.blank(2), "beats.csv", groups="patient", columns=["hr"], seed=0, checkpoint="own.credo"
    )
    for name in ("hmm.credo", "again.credo"):
        assert (credo.load(name).transition == same.model.transition).all()
        assert (credo.load(name).emission.parts[0].mean == same.model.emission.parts[0].mean).all()


def test_labels_weights_and_lengths_are_those_of_fit(run, beats):
    words = [
        "fit",
        "hmm(2, emission='diagonal')",
        "beats.csv",
        "--columns",
        "hr",
        "--json",
        "--keep",
        "fit.credo",
    ]
    found = run(*words, "--lengths", "40,40", "--labels", "state").json
    assert "the states of 16 of 80 rows are known; likelihoods are of these too" in found["notes"]
    kept = credo.load("fit.credo")
    assert kept.model.emission.parts[0].mean.ravel().argsort().tolist() == [0, 1]
    assert kept.log_likelihood.value == pytest.approx(found["log_likelihood"]["value"])
    told = run("fit", "hmm(2)", "beats.csv", "--groups", "patient", "--labels", "state", "--json").json
    assert told["notes"][-1] == found["notes"][-1]  # the column of labels is none of those emitted
    assert "--lengths: expected numbers such as 100,50, got 'all'" in run(*words, "--lengths", "all").err


def test_a_whole_fit_is_kept_and_gone_on_from(run, wet):
    first = run(
        "fit", *NET, "wet.csv", "--learner", "em(unseen=uniform)", "--max-iter", 1, "--keep", "fit.credo"
    )
    assert first.status == 0 and "out of iterations: max_iter was reached" in first.err
    more = run("fit", "fit.credo", "wet.csv", "--json").json
    assert (more["learner"], more["converged"]) == ("em(unseen=uniform)", True)
    assert more["objective"][0] == pytest.approx(credo.load("fit.credo").objective[-1])
    assert run("infer", "fit.credo", "--query", "wet").status == 0


def test_a_bound_is_told_and_rows_are_held_back(run, wet):
    found = run("fit", *NET, "wet.csv", "--learner", "vb", "--json").json
    assert found["evidence"]["kind"] == "lower"
    told = run("fit", *NET, "wet.csv", "--learner", "vb").out
    assert "log evidence" in told and "at least" in told
    half = run("fit", *NET, "wet.csv", "--learner", "em", "--validation", 0.5, "--json").json
    assert len(half["validation"]) == len(half["objective"])
    apart = run("fit", *NET, "wet.csv", "--learner", "em", "--validation", "wet.csv").out
    assert "validation" in apart


def test_the_columns_that_are_read_are_the_variables_of_a_network_without_edges(run, wet):
    words = ["fit", "bayes-net", "wet.csv", "--columns", "sprinkler,wet", "--learner", "chow-liu"]
    assert "(2 variables, " in run(*words).out


def test_batches_learn_what_all_rows_do(run, wet):
    words = ["fit", *NET, "wet.csv", "--learner", "em", "--json"]
    whole, parts = run(*words).json, run(*words, "--batch-rows", 64, "--shuffle").json
    assert parts["objective"] == pytest.approx(whole["objective"], rel=1e-9)


def test_the_method_supplies_expectations(run, wet):
    found = run("fit", *NET, "wet.csv", "--learner", "em", "--method", "enumerate", "--json").json
    exact = run("fit", *NET, "wet.csv", "--learner", "em", "--json").json
    assert found["objective"] == pytest.approx(exact["objective"])
    refused = run("fit", *NET, "wet.csv", "--method", "enumerat")
    assert refused.status == 1 and "no algorithm named 'enumerat'; did you mean 'enumerate'" in refused.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([*NET, "no.csv"], "no.csv: there is no such file"),
        (["baynet", "wet.csv"], "did you mean 'bayes-net'"),
        (["hmm", "wet.csv"], "hmm: missing a required argument: 'states'"),
        (["hmm(states=0)", "wet.csv"], "states must be at least 1, got 0"),
        (["hmm(2)", "wet.csv", "--edges", "a->b"], "hmm: got an unexpected keyword argument 'edges'"),
        (
            ["bayes-net(edges=a)", "wet.csv", "--edges", "a->b"],
            "bayes-net: edges is given twice, in brackets",
        ),
        (
            ["bayes-net", "wet.csv", "--edges", "rain->"],
            "edges: expected a text such as 'rain->wet, sprinkler",
        ),
        (["net.bif", "wet.csv", "--edges", "a->b"], "net.bif: edges: of models by name, and this is a file"),
        ([*NET, "wet.csv", "--learner", "me"], "no learner named 'me'; there are "),
        ([*NET, "wet.csv", "--learner", "counts"], "counts cannot treat this task: "),
        ([*NET, "wet.csv", "--out", "net.wcsp"], "net.wcsp: wcsp files can be read but not written"),
        (
            [*NET, "wet.csv", "--keep", "fit.bif"],
            "fit.bif: expected a .credo or .json file, which keeps a whole",
        ),
        (
            ["hmm(2)", "wet.csv", "--out", "hmm.bif"],
            "hmm.bif: expected a .credo or .json file, which keep models",
        ),
        ([*NET, "wet.csv", "--weights", "heavy"], "heavy"),
    ],
)
def test_what_cannot_be_learned_gets_one_sentence(run, wet, words, sentence):
    credo.save(credo.datasets.sprinkler(), "net.bif")
    answer = run("fit", *words)
    assert (answer.status, answer.out) == (1, "")
    assert sentence in answer.err and answer.err.startswith("credo: ") and answer.err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [["--states", "coin"], ["--states", "coin="], ["--shuffle"], ["--restarts", "0"], ["--every", "a"]],
)
def test_wrong_options_are_wrong_usage(run, wet, words):
    answer = run("fit", *NET, "wet.csv", *words)
    assert (answer.status, answer.out) == (2, "")


def test_a_model_that_is_not_kept_is_said_to_be_lost(run, wet):
    assert run("fit", *NET, "wet.csv").err == "credo: the model was not kept; --out FILE writes it\n"


def test_ctrl_c_keeps_what_was_found(wet, folder):
    code = "from credo.cli.main import main; main()"
    words = ["fit", *NET, "wet.csv", "--learner", "em", "--tol", "0", "--max-iter", "100000000"]
    words += ["--checkpoint", "run.credo", "--every", "0.05", "--out", "net.credo"]
    with subprocess.Popen(
        [sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        for _ in range(600):
            if (folder / "run.credo").exists():
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert re.search(r"^status +interrupted", out, re.MULTILINE)
    assert "the run was stopped by hand; this is what was found so far" in err
    assert credo.load("net.credo").tables["wet"].shape == (2, 2, 2)


def test_labels_beside_features_are_learned_and_predicted(run, folder):
    (folder / "tags.csv").write_text(
        "sentence,word,tag\na,the,det\na,cat,noun\nb,the,det\nb,dog,noun\nb,runs,verb\n"
    )
    words = ["--targets", "tag", "--groups", "sentence"]
    answer = run("fit", "crf", "tags.csv", *words, "--prior", "gaussian(scale=2)", "--out", "tagger.credo")
    assert answer.status == 0 and "CRF(3 labels" in answer.out
    (folder / "new.csv").write_text("sentence,word\nc,the\nc,bird\nc,runs\n")
    found = run("predict", "tagger.credo", "new.csv", "label", "--groups", "sentence", "--json").json
    assert found == {"label": ["det", "noun", "verb"]}
    assert "targets: expected" in run("fit", "crf", "tags.csv").err
