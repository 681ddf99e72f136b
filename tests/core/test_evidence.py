"""Evidence: what is accepted, what is refused, and the way from a restricted graph back."""

from __future__ import annotations

import re

import numpy as np
import pytest

import credo
from credo.core.errors import CredoError, EvidenceError
from credo.core.evidence import Evidence, Restriction, condition
from credo.core.factor_graph import FactorGraph
from credo.core.variable import Variables
from zoo import ZOO, Case

by_case = pytest.mark.parametrize("case", ZOO, ids=lambda c: c.id)
WEATHER = Variables.of({"rain": ["no", "yes"], "level": 3, "mood": ["low", "high"]})


@pytest.mark.parametrize(
    ("given", "states"),
    [
        (None, [-1, -1, -1]),
        ({}, [-1, -1, -1]),
        ({"rain": "yes"}, [1, -1, -1]),
        ({"rain": 0, "level": 2}, [0, 2, -1]),
        ({"rain": True, "mood": True}, [1, -1, 1]),
        ({"level": np.int32(1)}, [-1, 1, -1]),
        ({"level": 2.0}, [-1, 2, -1]),
        ({"level": np.array(2)}, [-1, 2, -1]),
        ({"level": "2"}, [-1, 2, -1]),
        ({"rain": None, "level": float("nan"), "mood": np.float64("nan")}, [-1, -1, -1]),
    ],
)
def test_hard_evidence_is_read_by_label_index_or_truth_value(given, states):
    evidence = Evidence.of(WEATHER, given)
    assert evidence.states.tolist() == states
    assert evidence.likelihoods == ()
    assert evidence.is_empty == (max(states) < 0)
    assert Evidence.of(WEATHER, evidence) is evidence


@pytest.mark.parametrize("vector", [[0.2, 0.5, 0.0], (0.2, 0.5, 0.0), np.array([0.2, 0.5, 0.0])])
def test_a_vector_is_soft_evidence(vector):
    evidence = Evidence.of(WEATHER, {"level": vector})
    ((i, found),) = evidence.likelihoods
    assert i == 1 and found.tolist() == [0.2, 0.5, 0.0]
    assert not evidence.is_empty


def test_a_row_of_a_data_frame_is_evidence():
    pandas = pytest.importorskip("pandas")
    row = pandas.DataFrame({"rain": ["yes"], "level": [2.0], "mood": [np.nan]}).iloc[0]
    assert Evidence.of(WEATHER, row).states.tolist() == [1, 2, -1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["rain"], "evidence: expected a mapping name -> state, got ['rain']"),
        ({"rian": 1}, "evidence: no variable named 'rian'; did you mean 'rain'?"),
        ({"rain": "maybe"}, "variable 'rain' has no state 'maybe'; its states are ['no', 'yes']"),
        ({"level": 3}, "variable 'level' has no state '3'; its states are ['0', '1', '2']"),
        ({"level": -1}, "variable 'level' has no state '-1'"),
        ({"level": 1.5}, "variable 'level' has no state '1.5'"),
        ({"level": [1, 2]}, "soft evidence on 'level': expected 3 likelihoods, got shape (2,)"),
        ({"rain": [[1, 2]]}, "soft evidence on 'rain': expected 2 likelihoods, got shape (1, 2)"),
        ({"rain": ["a", "b"]}, "soft evidence on 'rain': expected 2 numbers, got ['a', 'b']"),
        ({"rain": [1, -1]}, "soft evidence on 'rain': likelihoods must be finite and non-negative"),
        ({"rain": [1, np.nan]}, "soft evidence on 'rain': likelihoods must be finite and non-negative"),
        ({"rain": [1, np.inf]}, "soft evidence on 'rain': likelihoods must be finite and non-negative"),
        ({"rain": [0, 0]}, "soft evidence on 'rain': at least one likelihood must be positive, got all zero"),
    ],
)
def test_bad_evidence_is_refused(given, message):
    with pytest.raises(EvidenceError, match=re.escape(message)):
        Evidence.of(WEATHER, given)


@by_case
def test_conditioned_graphs_score_like_the_original(case: Case):
    for evidence in case.evidences.values():
        small, back = condition(case.graph, Evidence.of(case.graph.variables, evidence))
        assert small.n_factors == case.graph.n_factors + sum(isinstance(v, list) for v in evidence.values())
        states = np.argwhere(np.ones(small.variables.sizes))[:50]
        full = back.expand_indices(states)
        expected = case.graph.log_scores(full)
        for name, value in evidence.items():
            column = full[:, case.names.index(name)]
            if isinstance(value, list):
                with np.errstate(divide="ignore"):
                    expected = expected + np.log(np.array(value))[column]
            else:
                assert (column == value).all()
        np.testing.assert_allclose(small.log_scores(states), expected, rtol=1e-12, atol=1e-9)


@by_case
def test_values_survive_restriction_and_expansion(case: Case):
    rng = np.random.default_rng(0)
    graph, variables = case.graph, case.graph.variables
    keep = rng.random(variables.state_start[-1]) < 0.6
    keep[variables.state_start[:-1]] = True
    back = Restriction(variables, keep)
    small = back.apply(graph)
    values = rng.random(int(small.variables.sizes.sum()))
    assert np.array_equal(back.expand_states(values)[keep], values)
    assert not back.expand_states(values)[~keep].any()
    tables = np.concatenate([small.log_table(a).ravel() for a in range(small.n_factors)] or [[]])
    spread, start = back.expand_tables(tables, graph), 0
    for scope, table in case.factors:
        kept = np.ix_(*[_flags(variables, keep, case.names.index(n)) for n in scope]) if scope else ()
        mask = np.zeros(table.shape, dtype=bool)
        mask[kept] = True
        found = spread[start : start + table.size].reshape(table.shape)
        np.testing.assert_allclose(found, np.where(mask, table, 0))
        start += table.size


def _flags(variables: Variables, keep: np.ndarray, i: int) -> np.ndarray:
    return np.flatnonzero(keep[variables.state_start[i] : variables.state_start[i + 1]])


def test_unassigned_states_stay_unassigned():
    back = Restriction.to_states(WEATHER, np.array([1, -1, 0]))
    assert back.expand_indices(np.array([0, -1, -1])).tolist() == [1, -1, -1]
    assert back.expand_indices(np.array([[0, 2, 0]])).tolist() == [[1, 2, 0]]


def test_expanded_axes_have_zeros_at_removed_states():
    back = Restriction.to_states(WEATHER, np.array([1, -1, -1]))
    table = back.expand_axes(np.array([[0.2], [0.3], [0.5]]), np.array([1, 0]))
    assert table.tolist() == [[0, 0.2], [0, 0.3], [0, 0.5]]


def test_without_evidence_the_graph_itself_is_used():
    graph = FactorGraph({"a": 2}, {"a": [1, 2]})
    small, back = condition(graph, Evidence.of(graph.variables, {}))
    assert small is graph and back.is_trivial
    values = np.array([0.1, 0.9])
    assert back.expand_states(values) is values


def test_observed_variables_keep_one_labelled_state():
    graph = FactorGraph({"a": ["p", "q"], "b": 2}, {("a", "b"): [[1, 2], [3, 4]]})
    small = graph.condition({"a": "q"})
    assert small.variables[0].states == ("q",)
    np.testing.assert_allclose(small.factors[0].table, [[3, 4]])


def test_every_error_of_the_library_is_a_credo_error():
    assert issubclass(EvidenceError, CredoError) and issubclass(EvidenceError, ValueError)
    with pytest.raises(credo.CredoError):
        credo.infer(FactorGraph({"a": 2}), "enumerate", evidence={"a": "zzz"})


@pytest.mark.parametrize("dtype", ["string", "Int64", "boolean"])
def test_gaps_of_a_data_frame_are_missing_whatever_its_type(dtype):
    import pandas as pd

    value = {"string": "yes", "Int64": 1, "boolean": True}[dtype]
    model = credo.datasets.sprinkler()
    row = pd.DataFrame({"wet": pd.array([value, None], dtype=dtype)}).iloc[1]
    assert credo.infer(model, evidence=row).log_z.value == pytest.approx(0.0, abs=1e-12)
    assert credo.infer(model, evidence={"wet": pd.NaT, "rain": pd.NA}).log_z.value == pytest.approx(
        0.0, abs=1e-12
    )
