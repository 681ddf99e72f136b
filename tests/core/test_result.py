"""The records a run returns."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

import credo
from credo.core.belief import PointMass
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
from credo.core.variable import Variables
from markup import read

V = Variables.of({"a": ["p", "q"], "b": 3})
FLAT = np.array([0.25, 0.75, 0.2, 0.3, 0.5])


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("exact", "-1.5 (exact)"),
        ("lower", "at least -1.5 (lower bound)"),
        ("upper", "at most -1.5 (upper bound)"),
        ("estimate", "-1.5 (estimate)"),
    ],
)
def test_an_estimate_says_what_it_guarantees(kind, text):
    assert str(Estimate(-1.5, kind)) == text
    assert float(Estimate(-1.5, kind)) == -1.5


def test_an_estimate_holds_a_number_of_python():
    assert repr(Estimate(np.float64(0.5))) == "Estimate(value=0.5, kind='estimate')"


def test_every_status_has_advice_and_only_two_are_successes():
    assert all(len(s.advice.split()) > 3 for s in Status)
    assert {s for s in Status if s.is_success} == {Status.EXACT, Status.OPTIMAL, Status.CONVERGED}


def test_the_gap_is_between_an_upper_bound_and_a_score():
    states = Assignment(V, np.array([0, 0]))
    found = Result(
        "m", Status.CONVERGED, Estimate(3.0, "upper"), assignment=states, score=Estimate(1.0, "exact")
    )
    assert found.gap == 2.0
    assert found.summary().splitlines()[-1] == "score of the assignment 1 (exact)"
    assert dataclasses.replace(found, log_z=Estimate(1.0, "lower")).gap is None
    assert dataclasses.replace(found, score=None).gap is None
    proven = dataclasses.replace(found, log_z=Estimate(1.0, "exact"))
    assert proven.gap == 0.0
    assert "score" not in proven.summary()


def test_marginals_are_a_mapping_on_one_array():
    m = Marginals(V, FLAT.copy())
    assert list(m) == ["a", "b"] and len(m) == 2
    assert m["b"].tolist() == [0.2, 0.3, 0.5]
    assert np.shares_memory(m["b"], m.flat)
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


def test_a_result_gives_one_marginal_by_label():
    result = Result("m", Status.EXACT, marginals=Marginals(V, FLAT.copy()))
    assert result.marginal("a") == {"p": 0.25, "q": 0.75}
    assert result.converged
    mixed = Marginals(Variables.of({"x": credo.Real()}), np.empty(0), {"x": PointMass(2.0)})
    message = "variable 'x' is continuous and has no states; read marginals['x']"
    with pytest.raises(QueryError, match=re.escape(message)):
        dataclasses.replace(result, marginals=mixed).marginal("x")


def test_a_result_says_what_it_lacks():
    with pytest.raises(QueryError, match="m computed no marginals; ask another method"):
        Result("m", Status.EXACT).marginal("a")
    best = Result("m", Status.EXACT, assignment=Assignment(V, np.array([0, 0])))
    with pytest.raises(
        QueryError, match="this run maximised its variables: it holds an assignment, not marginals"
    ):
        best.marginal("a")


def test_a_printed_result_is_readable_lines():
    graph = credo.FactorGraph({"a": 2}, {"a": [1, 3]})
    lines = str(credo.infer(graph, "enumerate")).splitlines()
    assert re.fullmatch(r"enumerate: exact \(the answer is exact\), [\d.e-]+ s", lines[0])
    assert lines[1:] == ["log Z 1.386294361 (exact)", "a   0: 0.25   1: 0.75"]
    lines = str(credo.infer(graph, "enumerate", maximise="all")).splitlines()
    assert lines[1:] == ["value 1.098612289 (exact)", "Assignment(a=1)"]
    full = Result(
        "m",
        Status.DIVERGED,
        joint=Joint((V[0],), np.array([0.5, 0.5])),
        samples=Samples(V, np.zeros((1, 2), dtype=int)),
        notes=("a note",),
    )
    assert full.summary().splitlines()[1:] == [
        "p(a)",
        "a  probability",
        "p          0.5",
        "q          0.5",
        "Samples(1 rows, 2 variables)",
        "a  b",
        "p  0",
        "a note",
    ]
    assert not full.converged


def test_results_are_mappings_that_know_their_names():
    model = credo.datasets.sprinkler()
    marginals, best = credo.infer(model).marginals, credo.infer(model, maximise="all").assignment
    for mapping in (marginals, best):
        assert "rain" in mapping and "zz" not in mapping and 3 not in mapping
        assert mapping.get("zz") is None and mapping.get("zz", 0) == 0
        with pytest.raises(QueryError, match="no variable named 'zz'"):
            mapping["zz"]


def test_notebooks_show_a_result_as_it_prints_with_bars():
    variables = Variables.of({"<a>": ["p&", "q"], "b": 3})
    result = Result(
        "m(x<1)",
        Status.EXACT,
        Estimate(-0.5, "lower"),
        Marginals(variables, FLAT.copy()),
        joint=Joint((variables[0],), np.array([0.25, 0.75])),
        notes=("a <note>",),
    )
    found = read(result._repr_html_())
    sentences = [text for tag, _, text in found if tag == "div"]
    assert sentences[1:] == ["log Z at least -0.5 (lower bound)", "p(<a>)", "a <note>"]
    assert sentences[0].startswith("m(x<1): exact (the answer is exact)")
    bars = {text: style for tag, style, text in found if tag == "td"}
    assert "25.0%" in bars["p&: 0.25"] and "<a>" in bars
    best = Result("m", Status.EXACT, assignment=Assignment(variables, np.array([0, 1])))
    assert [text for _, _, text in read(best._repr_html_())][1:] == ["Assignment(<a>=p&, b=1)"]
