"""Evidence, query and result files of the UAI competitions."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import credo
from credo.core.errors import CredoError, EvidenceError, FormatError
from credo.core.variable import Variable, Variables
from credo.io import uai_results as files

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "uai14"
NEEDS_DATA = pytest.mark.skipif(not DATA.exists(), reason="the shared models are absent")
THREE = Variables.numbered([2, 3, 2])


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (b"", {}),
        (b" \n", {}),
        (b"0", {}),
        (b"0\n", {}),
        (b"1\n0\n", {}),
        (b"1 1 2", {"x1": 2}),
        (b"1\n1 1 2\n", {"x1": 2}),
        (b"2 0 1 1 2", {"x0": 1, "x1": 2}),
        (b"2\n0 1\n1 2", {"x0": 1, "x1": 2}),
        (b"1\n2 0 1 1 2\n", {"x0": 1, "x1": 2}),
        (b"1 0 1 # seen", {"x0": 1}),
        (b"2 0 1 0 1", {"x0": 1}),
    ],
)
def test_all_variants_of_evidence_are_read(text, wanted):
    assert files.read_evidence(text, THREE) == wanted


def test_several_samples_of_evidence_are_read_on_request_and_refused_otherwise():
    text = b"3\n1 0 1\n0\n2 0 0 2 1\n"
    assert files.read_evidence_samples(text, THREE) == [{"x0": 1}, {}, {"x0": 0, "x2": 1}]
    with pytest.raises(FormatError, match="expected one sample of evidence, got 3; read them with"):
        files.read_evidence(text, THREE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"1\n\n7 0", "line 3: observed variable: expected integers from 0 to 2, got 7"),
        (b"1 1 3", "observed state of variable 1: expected integers from 0 to 2, got 3"),
        (b"2 0 1 0 0", "variable 0 is observed in the states 1 and 0"),
        (b"5 0 1", "expected"),
        (b"1\n1 0 1\n9 9", "line 3: expected the end of the file, got 2 more numbers"),
        (b"1 a 1", "expected a number, got 'a'"),
        (b"1e12", "expected 1 number of observed variables, got 0; the file ends too early"),
    ],
)
def test_damaged_evidence_is_refused(text, message):
    with pytest.raises(FormatError, match=message):
        files.read_evidence(text, THREE)


def test_evidence_round_trips_and_takes_labels():
    variables = Variables.of([Variable("a", ["no", "yes"]), Variable("b", 3)])
    text = files.write_evidence({"b": 2, "a": "yes"}, variables)
    assert text == "2 0 1 1 2\n"
    assert files.read_evidence(text.encode(), variables) == {"a": 1, "b": 2}
    with pytest.raises(FormatError, match="hold observed states only, got a likelihood vector for 'a'"):
        files.write_evidence({"a": [0.2, 0.3]}, variables)
    with pytest.raises(EvidenceError, match="no variable named 'z'"):
        files.write_evidence({"z": 1}, variables)


def test_queries_are_read_and_written():
    assert files.read_query(b"2 2 0", THREE) == ["x2", "x0"]
    assert files.read_query(b"0\n", THREE) == files.read_query(b"", THREE) == []
    assert files.write_query(["x2", "x0"], THREE) == "2 2 0\n"
    with pytest.raises(FormatError, match="expected different query variables, got one twice"):
        files.read_query(b"2 1 1", THREE)
    with pytest.raises(FormatError, match="query variables: expected integers from 0 to 2, got 3"):
        files.read_query(b"1 3", THREE)


@pytest.mark.parametrize("text", [b"PR\n-2.5\n", b"PR\n1\n-2.5", b"pr -2.5", b"PR\n9\n-BEGIN-\n-2.5\n"])
def test_partition_functions_are_decimal_logarithms(text):
    answer = files.read_answer(text)
    assert answer.task == "PR"
    assert answer.log10_z == -2.5
    assert answer.log_z == pytest.approx(-2.5 * math.log(10))


@pytest.mark.parametrize(
    "text", [b"MAR\n2 2 .25 .75 1 1", b"MAR\n1\n2 2 .25 .75 1 1", b"2\n2 .25 .75\n1 1\n"]
)
def test_marginals_are_read(text):
    answer = files.read_answer(text, task="MAR")
    assert [p.tolist() for p in answer.marginals] == [[0.25, 0.75], [1.0]]


@pytest.mark.parametrize("text", [b"MAP\n3 0 2 1", b"MPE\n1\n3 0 2 1", b"MAP\n3 1 1 1\n-BEGIN-\n3 0 2 1\n"])
def test_assignments_are_read(text):
    assert files.read_answer(text).states == {0: 0, 1: 2, 2: 1}


def test_marginal_map_answers_are_pairs_or_states_by_rising_position():
    assert files.read_answer(b"MMAP\n2 2 1 0 0").states == {2: 1, 0: 0}
    assert files.read_answer(b"MMAP\n2 1 0", query=[2, 0]).states == {0: 1, 2: 0}
    with pytest.raises(FormatError, match="expected the positions of its 2 query variables, got no query"):
        files.read_answer(b"MMAP\n2 1 0")
    with pytest.raises(FormatError, match="got a query of 1"):
        files.read_answer(b"MMAP\n2 1 0", query=[2])
    with pytest.raises(FormatError, match="expected the states of 2 variables, got one twice"):
        files.read_answer(b"MMAP\n2 1 0 1 0")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "expected a task out of"),
        (b"XYZ 1", "expected a task out of"),
        (b"PR\n", "line 1: expected log10 of the partition function, got ''"),
        (b"PR\nnan", "expected log10 of the partition function, got 'nan'"),
        (b"PR\n1 2 3", "expected log10 of the partition function, got '1 2 3'"),
        (b"MAR\n2 2 .5 .5", "expected 2 marginals, got 1; the file ends too early"),
        (b"MAR\n1 2 .5 7", "expected probabilities, got values from 0.5 to 7"),
        (b"MAR\n1 1 1 1 1", "expected the end of the file, got 2 more numbers"),
        (b"MAP\n3 0 1", "expected 3 states, got 2; the file ends too early"),
        (b"MAP\n1 0.5", "states: expected integers from 0, got 0.5"),
    ],
)
def test_damaged_results_are_refused(text, message):
    with pytest.raises(FormatError, match=message):
        files.read_answer(text)


def test_the_task_may_come_from_the_extension(tmp_path):
    path = tmp_path / "grid.uai.PR"
    path.write_text("-1.5")
    assert files.read_answer(path).log10_z == -1.5


def test_results_are_written_in_the_form_of_the_competition():
    assert files.write_pr(math.log(10) * 3) == "PR\n3.0\n"
    assert files.write_pr(-math.inf) == "PR\n-inf\n"
    assert files.read_answer(b"PR\n-inf").log_z == -math.inf
    assert files.write_mar([np.array([0.5, 0.5]), [1.0]]) == "MAR\n2 2 0.5 0.5 1 1.0\n"
    assert files.write_map(np.array([1, 0])) == "MAP\n2 1 0\n"
    assert files.write_mmap({4: 1, 2: 0}) == "MMAP\n2 4 1 2 0\n"


@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=4), max_size=5))
def test_marginals_round_trip_bit_for_bit(parts):
    answer = files.read_answer(files.write_mar(parts).encode())
    assert [p.tolist() for p in answer.marginals] == parts


@given(st.binary(max_size=60), st.sampled_from([b"", b"PR\n", b"MAR\n", b"MAP\n", b"MMAP\n"]))
def test_garbage_gets_a_sentence(content, head):
    for read in (lambda: files.read_answer(head + content), lambda: files.read_evidence(content, THREE)):
        try:
            read()
        except CredoError:
            pass


@given(st.text("0123 .-\n", max_size=40), st.sampled_from(["PR\n", "MAR\n", "MAP\n", "MMAP\n"]))
def test_nonsense_numbers_get_a_sentence(content, head):
    for read in (
        lambda: files.read_answer((head + content).encode()),
        lambda: files.read_evidence(content.encode(), THREE),
        lambda: files.read_query(content.encode(), THREE),
    ):
        try:
            read()
        except CredoError:
            pass


@NEEDS_DATA
def test_all_shared_answers_fit_their_models():
    seen = dict.fromkeys(("PR", "MAR", "MAP", "MMAP"), 0)
    for path in sorted(DATA.glob("*/*.uai.evid")):
        base = str(path)[: -len(".evid")]
        answers = [base + "." + task for task in seen if Path(base + "." + task).exists()]
        if not answers or Path(base + ".gz").stat().st_size > 60_000:
            continue
        variables = credo.load(base + ".gz").variables
        evidence = files.read_evidence(path, variables)
        query = None
        if Path(base + ".query").exists():
            query = variables.positions(files.read_query(base + ".query", variables)).tolist()
        for name in answers:
            answer = files.read_answer(name, query=query)
            seen[answer.task] += 1
            if answer.marginals is not None:
                assert [len(p) for p in answer.marginals] == variables.sizes.tolist()
                for observed, state in evidence.items():
                    assert answer.marginals[variables.position(observed)][state] == 1
            if answer.states is not None:
                assert all(state < variables.sizes[i] for i, state in answer.states.items())
                wanted = set(range(len(variables))) if answer.task == "MAP" else set(query)
                assert set(answer.states) == wanted
    assert all(seen.values())
