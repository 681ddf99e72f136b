"""`credo solve` and `credo score`."""

import re
from pathlib import Path

import pytest

import credo
from credo.core.stopwatch import process_seconds
from credo.inference.portfolio.solve import solve

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "uai14"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["MAP"], "MAP\n2 1 1\n"),
        (["map"], "MAP\n2 1 1\n"),
        (["{none}", "MAP"], "MAP\n2 1 1\n"),
        (["{first}", "MAP"], "MAP\n2 0 1\n"),
        (["MMAP", "--query", "{query}"], "MMAP\n1 1 1\n"),
        (["{first}", "MMAP", "--query", "{query}"], "MMAP\n1 1 1\n"),
        (["{both}", "MAR"], "MAR\n2 2 1.0 0.0 2 1.0 0.0\n"),
        (["{both}", "PR"], "PR\n0.0\n"),
    ],
)
def test_answers_are_exactly_in_the_result_format(run, square, write, arguments, text):
    files = {
        "none": write("none.evid", "0\n"),
        "first": write("first.evid", "1 0 0\n"),
        "both": write("both.evid", "1\n2 0 0 1 0\n"),
        "query": write("square.query", "1 1\n"),
    }
    answer = run("solve", square, *(a.format(**files) for a in arguments), "--method", "enumerate")
    assert (answer.status, answer.out, answer.err) == (0, text, "")


def test_pr_is_log10_and_mar_lists_sizes_and_probabilities(run, square):
    assert re.fullmatch(r"PR\n(\S+)\n", run("solve", square, "PR").out)
    assert float(run("solve", square, "PR").out.split()[1]) == pytest.approx(1.0, abs=1e-12)
    words = run("solve", square, "MAR").out.split()
    assert words[:3] == ["MAR", "2", "2"] and words[5] == "2"
    assert [float(w) for w in words[3:5] + words[6:]] == pytest.approx([0.3, 0.7, 0.4, 0.6])


def test_the_answer_goes_to_a_file(run, square, tmp_path):
    answer = run("solve", square, "MAP", "--out", tmp_path / "out.MAP", "--seconds", "10")
    assert (answer.status, answer.out) == (0, "")
    assert (tmp_path / "out.MAP").read_bytes() == b"MAP\n2 1 1\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["PRX"], "must be a task out of"),
        (["MAR", "model.evid"], "must be a task out of"),
        (["a.evid", "b.evid", "PR"], "expected MODEL"),
        (["MMAP"], "MMAP needs --query FILE"),
        (["MAP", "--query", "q"], "MAP takes no --query FILE"),
        ([], "Missing argument"),
    ],
)
def test_wrong_usage_ends_with_status_2(run, square, arguments, message):
    answer = run("solve", square, *arguments)
    assert (answer.status, answer.out) == (2, "")
    assert message in " ".join(answer.err.replace("│", "").split())


def test_a_solved_file_scores_100_against_itself(run, square, tmp_path):
    for task in ("PR", "MAR", "MAP"):
        run("solve", square, task, "--out", tmp_path / f"r.{task}")
        found = run("score", tmp_path / f"r.{task}", tmp_path / f"r.{task}", "--model", square, "--json").json
        assert (found["task"], found["score"], found["error"]) == (task, 100.0, 0.0)


def test_pr_scores_against_the_mean_of_every_table_or_z_equal_to_one(run, square, write):
    files = [write("a.PR", "PR\n1.5\n"), write("b.PR", "PR\n1.0\n")]
    found = run("score", *files, "--json").json
    assert found["error"] == pytest.approx(0.5)
    assert found["score"] == pytest.approx(50.0)
    assert found["trivial_solver"] == "Z = 1"
    # The mean of the one table times four states is Z itself, so only the exact answer scores.
    found = run("score", *files, "--model", square, "--json").json
    assert (found["score"], found["trivial_solver"]) == (0.0, "mean of every table")


def test_mar_scores_by_the_mean_hellinger_distance(run, square, write):
    files = [write("a.MAR", "MAR\n2 2 0.5 0.5 2 0 1\n"), write("b.MAR", "MAR\n2 2 0 1 2 0 1\n")]
    found = run("score", *files, "--json").json
    assert found["error"] == pytest.approx((1 - 0.5**0.5) ** 0.5 / 2)
    assert found["score"] == pytest.approx(50.0)
    seen = run("score", *files, "--model", square, "--evidence", write("e.evid", "1 1 1"), "--json").json
    assert seen["score"] == pytest.approx(0.0)


def test_map_scores_by_the_value_of_the_assignment(run, square, write):
    files = [write("a.MAP", "MAP\n2 0 1\n"), write("b.MAP", "MAP\n2 1 1\n")]
    found = run("score", *files, "--model", square, "--json").json
    # Values 2 and 4; the trivial solver has no table over one variable and answers (0, 0), value 1.
    assert found["score"] == pytest.approx(50.0)
    assert (found["log_value"], found["differs"]) == (pytest.approx(0.693147, abs=1e-6), 1)
    assert "score                50" in run("score", *files, "--model", square).out


def test_mmap_files_with_and_without_the_variables_score_alike(run, square, write):
    query = write("q.query", "1 1")
    files = [write("a.MMAP", "MMAP\n1 1 0\n"), write("b.MMAP", "MMAP\n1 1\n")]
    found = run("score", *files, "--model", square, "--query", query, "--json").json
    assert found["log_value"] == pytest.approx(1.386294, abs=1e-6)
    assert found["reference_log_value"] == pytest.approx(1.791759, abs=1e-6)
    assert found["score"] == 0.0


def test_an_assignment_against_the_evidence_has_no_weight_and_json_stays_valid(run, square, write):
    files = [write("a.MAP", "MAP\n2 0 1\n"), write("b.MAP", "MAP\n2 1 1\n")]
    found = run("score", *files, "--model", square, "--evidence", write("e", "1 0 1"), "--json").json
    assert (found["score"], found["log_value"], found["error"]) == (0.0, "-inf", "inf")


@pytest.mark.parametrize(
    ("first", "second", "with_model", "sentence"),
    [
        ("MAP\n2 0 1", "PR\n1", False, "expected an answer to PR like"),
        (
            "MAP\n2 0 1",
            "MAP\n2 0 1",
            False,
            "MAP: the value of an assignment depends on the model; give --model",
        ),
        ("MAP\n1 0", "MAP\n2 0 1", True, "expected states of the 2 variables of the reference, got 1"),
        ("MAP\n2 0 7", "MAP\n2 0 1", True, "the model has no variable 1 with a state 7"),
        ("MAR\n1 2 0.5 0.5", "MAR\n2 2 0 1 2 0 1", False, "marginals: expected 2 variables, got 1"),
    ],
)
def test_files_that_do_not_fit_together_are_refused(run, square, write, first, second, with_model, sentence):
    files = [write("a.res", first), write("b.res", second)]
    answer = run("score", *files, *(["--model", square] if with_model else []))
    assert (answer.status, answer.out) == (1, "")
    assert sentence in answer.err


def test_score_needs_the_model_for_evidence(run, write):
    file = write("a.PR", "PR\n1.5\n")
    assert run("score", file, file, "--evidence", file).status == 2


@pytest.mark.skipif(not DATA.exists(), reason="no shared data")
def test_a_published_problem_scores_100(run, tmp_path):
    model, evidence = DATA / "MAR" / "Grids_12.uai.gz", DATA / "MAR" / "Grids_12.uai.evid"
    if "junction-tree" not in credo.algorithms():
        pytest.skip("needs the junction tree")
    assert run("solve", model, evidence, "MAR", "--out", tmp_path / "grid.MAR").status == 0
    found = run("score", tmp_path / "grid.MAR", DATA / "MAR" / "Grids_12.uai.MAR", "--json").json
    assert found["score"] == pytest.approx(100.0, abs=1e-3)


def test_better_assignments_are_kept_as_they_are_found(tmp_path):
    """Whoever ends the process finds the best assignment so far in the file."""
    grid = credo.datasets.ising_grid(12, coupling="normal(scale=2)", field="normal(scale=0.1)", seed=0)
    seen = []
    answer = solve(grid, maximise="all", seconds=1.5, on_better=seen.append)
    scores = [grid.to_factor_graph().log_score(dict(found.assignment)) for found in seen]
    assert scores and scores == sorted(scores)
    assert scores == pytest.approx([found.score.value for found in seen])
    assert scores[-1] <= answer.result.score.value + 1e-9


def test_the_clock_of_a_process_goes_on():
    first = process_seconds()
    assert 0 < first <= process_seconds()
