"""The records a run returns."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

import credo
from credo.core.errors import QueryError
from credo.core.factor_graph import FactorGraph
from credo.core.result import (
    Assignment,
    Estimate,
    FactorMarginals,
    Joint,
    Marginals,
    Result,
    Samples,
    Status,
)
from credo.core.variable import Variable, Variables

V = Variables.of({"a": ["p", "q"], "b": 3})
FLAT = np.array([0.25, 0.75, 0.2, 0.3, 0.5])


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("exact", "= -1.5 (exact)"),
        ("lower", ">= -1.5 (lower)"),
        ("upper", "<= -1.5 (upper)"),
        ("estimate", "~ -1.5 (estimate)"),
    ],
)
def test_an_estimate_says_what_it_guarantees(kind, text):
    assert str(Estimate(-1.5, kind)) == text
    assert float(Estimate(-1.5, kind)) == -1.5


def test_every_status_has_advice_and_only_two_are_successes():
    assert all(len(s.advice.split()) > 3 for s in Status)
    assert {s for s in Status if s.is_success} == {Status.EXACT, Status.OPTIMAL, Status.CONVERGED}


def test_the_gap_is_between_an_upper_bound_and_a_score():
    states = Assignment(V, np.array([0, 0]))
    found = Result(
        "m", Status.CONVERGED, Estimate(3.0, "upper"), assignment=states, score=Estimate(1.0, "exact")
    )
    assert found.gap == 2.0
    assert found.summary().splitlines()[-1] == "score of the assignment = 1 (exact)"
    assert dataclasses.replace(found, log_z=Estimate(1.0, "lower")).gap is None
    assert dataclasses.replace(found, score=None).gap is None
    proven = dataclasses.replace(found, log_z=Estimate(1.0, "exact"))
    assert proven.gap == 0.0
    assert "score" not in proven.summary()


def test_marginals_are_a_mapping_on_one_array():
    m = Marginals(V, FLAT.copy())
    assert list(m) == ["a", "b"] and len(m) == 2
    assert m["b"].tolist() == [0.2, 0.3, 0.5]
    assert m["b"].base is m.flat
    assert repr(m) == "Marginals(a: [0.25 0.75], b: [0.2 0.3 0.5])"
    with pytest.raises(QueryError, match="no variable named 'c'"):
        m["c"]
    with pytest.raises(ValueError, match="read-only"):
        m["a"][0] = 1


def test_factor_marginals_are_shaped_like_the_tables():
    graph = FactorGraph(V, {("b", "a"): np.ones((3, 2)), "a": [1, 1]})
    f = FactorMarginals(graph, np.arange(8.0))
    assert len(f) == 2
    assert f[0].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert f[-1].tolist() == [6, 7]
    assert [t.shape for t in f[:]] == [(3, 2), (2,)]
    with pytest.raises(IndexError):
        f[2]


def test_an_assignment_holds_labels_and_indices():
    x = Assignment(V, np.array([1, -1]))
    assert dict(x) == {"a": "q"} and len(x) == 1
    assert x.index("a") == 1
    assert repr(x) == "Assignment(a=q)"
    with pytest.raises(KeyError):
        x["b"]


def test_long_assignments_and_marginals_are_cut_when_printed():
    many = Variables.numbered(np.full(20, 2))
    assert repr(Assignment(many, np.zeros(20))).endswith("x11=0, ...)")
    assert repr(Marginals(many, np.full(40, 0.5))).endswith("x7: [0.5 0.5], ...)")


def test_samples_are_rows_of_states():
    s = Samples(V, np.array([[0, 2], [1, 0]]))
    assert len(s) == 2
    assert dict(s[0]) == {"a": "p", "b": "2"}
    assert s.column("b").tolist() == [2, 0]
    assert repr(s) == "Samples(2 rows, 2 variables)"


def test_samples_become_a_data_frame():
    pytest.importorskip("pandas")
    frame = Samples(V, np.array([[0, 2], [1, 0]])).to_pandas()
    assert frame["a"].tolist() == ["p", "q"]
    assert list(frame["b"].cat.categories) == ["0", "1", "2"]


def test_a_joint_is_read_by_labels_indices_or_a_mapping():
    joint = Joint((V[0], V[1]), np.arange(6.0).reshape(2, 3) / 15)
    assert joint["q", 2] == joint[{"a": "q", "b": "2"}] == pytest.approx(5 / 15)
    assert joint.names == ("a", "b")
    assert repr(joint).startswith("p(a, b) =\n[[0.")
    conditional = Joint((V[0], V[1]), joint.table, given=1)
    assert repr(conditional).startswith("p(a | b) =\n")
    message = "joint over ['a', 'b']: expected 2 states, got ('q',)"
    with pytest.raises(QueryError, match=re.escape(message)):
        joint["q"]


def test_a_joint_becomes_a_series():
    pytest.importorskip("pandas")
    series = Joint((Variable("a", ["p", "q"]),), np.array([0.25, 0.75])).to_pandas()
    assert series["q"] == 0.75 and series.index.names == ["a"]


def test_a_result_gives_one_marginal_by_label():
    result = Result("m", Status.EXACT, marginals=Marginals(V, FLAT.copy()))
    assert result.marginal("a") == {"p": 0.25, "q": 0.75}
    assert result.converged


def test_a_result_says_what_it_lacks():
    with pytest.raises(QueryError, match="m computed no marginals; ask another method"):
        Result("m", Status.EXACT).marginal("a")
    best = Result("m", Status.EXACT, assignment=Assignment(V, np.array([0, 0])))
    with pytest.raises(
        QueryError, match="this run maximised its variables: it holds an assignment, not marginals"
    ):
        best.marginal("a")


def test_a_printed_result_is_a_few_readable_lines():
    graph = credo.FactorGraph({"a": 2}, {"a": [1, 3]})
    lines = str(credo.infer(graph, "enumerate")).splitlines()
    assert re.fullmatch(r"enumerate: exact \(the answer is exact\), [\d.e-]+ s", lines[0])
    assert lines[1:] == ["log Z = 1.386294361 (exact)", "Marginals(a: [0.25 0.75])"]
    lines = str(credo.infer(graph, "enumerate", maximise="all")).splitlines()
    assert lines[1:] == ["value = 1.098612289 (exact)", "Assignment(a=1)"]
    full = Result(
        "m",
        Status.DIVERGED,
        joint=Joint((V[0],), np.array([0.5, 0.5])),
        samples=Samples(V, np.zeros((1, 2), dtype=int)),
        notes=("a note",),
    )
    assert full.summary().splitlines()[-3:] == ["[0.5 0.5]", "Samples(1 rows, 2 variables)", "a note"]
    assert not full.converged


def test_results_are_mappings_that_know_their_names():
    model = credo.datasets.sprinkler()
    marginals, best = credo.infer(model).marginals, credo.infer(model, maximise="all").assignment
    for mapping in (marginals, best):
        assert "rain" in mapping and "zz" not in mapping and 3 not in mapping
        assert mapping.get("zz") is None and mapping.get("zz", 0) == 0
        with pytest.raises(QueryError, match="no variable named 'zz'"):
            mapping["zz"]


def test_slices_of_samples_are_samples():
    drawn = credo.sample(credo.datasets.sprinkler(), 5, seed=0)
    part = drawn[1:3]
    assert len(part) == 2 and dict(part[0]) == dict(drawn[1])
    both = credo.sample(credo.GaussianNet([[2.0, 0.3], [0.3, 1.0]]), 4, seed=0)
    np.testing.assert_array_equal(both[[0, 2]].column("x1"), both.column("x1")[[0, 2]])
