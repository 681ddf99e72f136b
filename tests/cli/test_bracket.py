"""`credo bracket`: two bounds, as a table or as JSON."""

from __future__ import annotations

import pytest

import credo


def test_both_sides_are_told_with_who_proved_them(run, asia):
    found = run("bracket", asia, "-e", "dysp=yes", "--json").json
    truth = credo.infer(credo.datasets.asia(), "enumerate", evidence={"dysp": "yes"}).log_z.value
    assert found["exact"] and found["status"] == "exact" and found["assignment"] is None
    assert found["lower"]["value"] == pytest.approx(truth) == found["upper"]["value"]
    lines = run("bracket", asia, "-e", "dysp=yes").out.splitlines()
    assert lines[0] == f"lower   {found['lower']['value']:.10g}  by junction-tree"
    assert lines[2] == "gap     0, exact"


def test_the_best_states_come_with_bounds_on_their_score(run, asia):
    best = credo.infer(credo.datasets.asia(), "enumerate", maximise="all")
    found = run("bracket", asia, "--maximise", "all", "--json").json
    assert found["assignment"] == dict(best.assignment.items())
    assert found["status"] == "proven optimal"
    some = run("bracket", asia, "--maximise", "lung").out.splitlines()
    assert some[-1].split() == ["lung", "no"]


def test_bounds_that_are_apart_when_the_time_is_up_are_an_answer_with_a_note(run):
    answer = run("bracket", "ising-grid(30, coupling=1.0)", "--seconds", 0, "--json")
    assert answer.status == 0 and not answer.json["converged"]
    assert answer.json["lower"]["value"] < answer.json["upper"]["value"]
    assert answer.err.startswith("credo: bracket: out of time: ")
    near = run("bracket", "ising-grid(30, coupling=1.0)", "--gap", 1e6)
    assert near.status == 0 and near.err == "" and "gap " in near.out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--gap", "-1"], "gap must be at least 0"),
        (["-e", "asia=perhaps"], "variable 'asia' has no state 'perhaps'"),
        (["-e", "tub=yes", "-e", "either=no"], "the evidence has probability zero"),
        (["--maximise", "lunge"], "no variable named 'lunge'"),
    ],
)
def test_bad_questions_get_one_sentence(run, asia, words, sentence):
    answer = run("bracket", asia, *words)
    assert (answer.status, answer.out) == (1, "") and sentence in answer.err
