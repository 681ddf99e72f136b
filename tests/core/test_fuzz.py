"""Random models and random evidence: an answer without NaN, or an error of the library's own."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import credo
from credo.core.errors import CredoError
from credo.core.factor import TableFactor
from credo.core.variable import Variable

NAMES = ("a", "b", "c", "d")
numbers = st.one_of(
    st.sampled_from([0.0, 1.0, 1e-300, 1e300, -1.0]),
    st.floats(0, 10),
    st.floats(),
)
logs = st.one_of(st.floats(-800, 800), st.sampled_from([-np.inf, 0.0, np.inf, np.nan]))
good_domains = st.integers(1, 3) | st.lists(st.text(max_size=3), min_size=1, max_size=3, unique=True)
domains = good_domains | st.integers(-1, 1) | st.lists(st.text(max_size=1), max_size=3)
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 4),
    st.floats(),
    st.text(max_size=3),
    st.lists(st.floats(), max_size=3),
    st.lists(st.floats(0, 1), min_size=2, max_size=3),
)


@st.composite
def graphs(draw, good: bool):
    """A graph of up to four variables; `good` draws only weights that are accepted."""
    states = good_domains if good else domains
    variables = [Variable(n, draw(states)) for n in NAMES[: draw(st.integers(0, 4))]]
    factors = []
    for _ in range(draw(st.integers(0, 4))):
        scope = draw(st.lists(st.sampled_from(variables), unique=True, max_size=3)) if variables else []
        size = int(np.prod([v.size for v in scope], dtype=int))
        if draw(st.booleans()):
            entry = st.floats(-800, 800) | st.just(-np.inf) if good else logs
            make = TableFactor.from_log
        else:
            entry = st.floats(0, 1e300) if good else numbers
            make = TableFactor
        factors.append(make(scope, draw(st.lists(entry, min_size=size, max_size=size))))
    return credo.FactorGraph(variables, factors)


@st.composite
def questions(draw):
    names = st.sampled_from([*NAMES, "zz"])
    maximise = st.sampled_from(["all", "most", ()]) | st.lists(names, max_size=2)
    return {
        "evidence": draw(st.dictionaries(names, values, max_size=3)),
        "maximise": draw(maximise),
        "temperatures": draw(st.one_of(st.none(), st.dictionaries(names, st.floats() | st.floats(0, 3)))),
    }


def _check(result) -> None:
    assert not np.isnan(result.log_z.value)
    if result.marginals is not None:
        for p in result.marginals.values():
            assert np.isfinite(p).all() and abs(p.sum() - 1) < 1e-9
        assert np.isfinite(result.factor_marginals.flat).all()


@given(st.data())
def test_any_model_is_built_or_refused(data):
    try:
        graph = data.draw(graphs(good=False))
    except CredoError as error:
        assert str(error)
        return
    assert not np.isnan(graph.log_tables).any()


@given(graphs(good=True), questions())
def test_any_question_is_answered_or_refused(graph, question):
    try:
        result = credo.infer(graph, "enumerate", **question)
    except CredoError as error:
        assert str(error)
        return
    _check(result)


@given(graphs(good=True), st.lists(st.integers(0, 2), min_size=4, max_size=4))
def test_well_formed_evidence_is_answered_unless_it_is_impossible(graph, states):
    evidence = {v.name: k % v.size for v, k in zip(graph.variables, states, strict=False)}
    try:
        result = credo.infer(graph, "enumerate", evidence=evidence)
    except CredoError as error:
        assert "zero" in str(error)
        assert graph.log_score(evidence) == -np.inf
        return
    _check(result)
    np.testing.assert_allclose(result.log_z.value, graph.log_score(evidence), rtol=1e-12, atol=1e-9)


@given(st.text(max_size=40))
def test_any_text_as_a_method_is_resolved_or_refused(text):
    graph = credo.FactorGraph({"a": 2}, {"a": [1, 2]})
    for spec in (text, f"enumerate({text})", f"enumerate(max_entries={text})"):
        try:
            result = credo.infer(graph, spec)
        except CredoError as error:
            assert str(error)
        else:
            _check(result)
