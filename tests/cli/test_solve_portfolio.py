"""`credo solve` without a method: within the time, in the result format, and clear about what is proven."""

import re

import numpy as np
import pytest

import credo
from credo.inference.portfolio import solve as portfolio


@pytest.fixture
def wide(tmp_path):
    """A grid no exact method answers."""
    path = tmp_path / "wide.uai"
    credo.save(credo.datasets.ising_grid(40, coupling=0.3, field=0.1), path)
    return str(path)


def _solve(run, *arguments):
    answer = run("solve", *arguments, "--seconds", "1")
    assert answer.status == 0
    return answer


def test_pr_of_a_wide_model_is_an_estimate_between_two_bounds(run, wide):
    answer = _solve(run, wide, "PR", "--verbose")
    value = float(answer.out.removeprefix("PR\n")) * np.log(10)
    lower = float(re.search(r"credo: lower bound (\S+) by ", answer.err)[1])
    upper = float(re.search(r"credo: upper bound (\S+) by ", answer.err)[1])
    assert lower <= value <= upper
    assert "credo: gap " in answer.err


def test_mar_of_a_wide_model_lists_every_variable_and_proves_nothing(run, wide):
    answer = _solve(run, wide, "MAR", "-v")
    words = answer.out.split()
    assert words[:2] == ["MAR", "1600"]
    assert len(words) == 2 + 3 * 1600
    assert re.search(r"credo: marginals by \S+; nothing is proven about them", answer.err)


def test_map_of_an_attractive_model_is_proven(run, wide):
    answer = _solve(run, wide, "MAP", "--verbose")
    assert answer.out == "MAP\n1600 " + " ".join(["1"] * 1600) + "\n"
    assert "credo: the assignment is proven optimal" in answer.err


def test_mmap_of_a_wide_model_has_bounds_on_both_sides(run, wide, write):
    answer = _solve(run, wide, "MMAP", "--query", write("q.query", "3 0 7 1599"), "--verbose")
    assert re.fullmatch(r"MMAP\n3 0 [01] 7 [01] 1599 [01]\n", answer.out)
    assert "lower bound" in answer.err and "upper bound" in answer.err


def test_without_verbose_only_what_needs_attention_is_said(run, wide, square):
    assert _solve(run, square, "MAP").err == ""
    assert _solve(run, wide, "MAP").err == ""


def test_an_open_gap_is_said_in_one_line(run, tmp_path):
    path = tmp_path / "frustrated.uai"
    credo.save(credo.datasets.ising_grid(60, seed=1), path)
    answer = run("solve", path, "MAP", "--seconds", "0")
    assert answer.status == 0
    assert re.fullmatch(r"credo: \S+: out of time: .*\n", answer.err)
    assert len(answer.out.split()) == 2 + 3600


def test_a_narrow_model_is_exact_and_says_so(run, square):
    for task, last in (("PR", "the answer is exact"), ("MAP", "the assignment is proven optimal")):
        lines = run("solve", square, task, "--verbose").err.splitlines()
        assert lines[-1] == f"credo: {last}"
        assert len(lines) == 3


def test_no_time_at_all_still_answers(run, wide):
    for task in ("PR", "MAR", "MAP"):
        answer = run("solve", wide, task, "--seconds", "0")
        assert answer.status == 0
        assert answer.out.startswith(task)


def test_contradictory_evidence_ends_with_a_sentence(run, write):
    model = write("xor.uai", "MARKOV\n2\n2 2\n1\n2 0 1\n\n4\n 0 1 1 0\n")
    for task in ("PR", "MAR", "MAP"):
        answer = run("solve", model, write("both.evid", "2 0 1 1 1"), task)
        assert (answer.status, answer.out) == (1, "")
        assert "the evidence has probability zero under this model" in answer.err


def test_a_query_of_nothing_is_refused_with_a_way_out(run, square, write):
    answer = run("solve", square, "MMAP", "--query", write("none.query", "0"))
    assert (answer.status, answer.out) == (1, "")
    assert "names no variable to maximise; name some, or solve PR" in answer.err


def test_a_method_by_name_keeps_away_from_the_portfolio(run, square, monkeypatch):
    monkeypatch.setattr(portfolio, "solve", None)
    answer = run("solve", square, "PR", "--method", "bp", "--verbose")
    assert float(answer.out.split()[1]) == pytest.approx(1.0)
    assert "credo: bp: converged" in answer.err
