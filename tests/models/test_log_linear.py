"""Log-linear models: the formula, shared weights, feature expectations and every refusal."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import credo
from credo import MarkovNet
from credo.core.errors import ModelError, QueryError
from credo.models.log_linear import Feature, LogLinear

STATES = {"a": 2, "b": 3, "c": 2, "d": 2}
AB = np.arange(6.0).reshape(2, 3)
PAIR = np.array([[1.0, -1.0], [0.5, 2.0]])
BAN = np.array([[0.0, 0.0], [0.0, -np.inf]])
WEIGHTS = np.array([0.3, -0.7, 1.1])
ALL = np.array(list(itertools.product(range(2), range(3), range(2), range(2))))


def small(weights=WEIGHTS) -> LogLinear:
    features = [
        (("a", "b"), AB, 0),
        Feature([("a", "c"), ("c", "d")], PAIR, 1),  # one weight on two scopes
        Feature([[0], [2]], [[0.0, 1.0], [5.0, 0.0]], [2, 0]),  # a table and a weight per scope
        (("a", "b"), np.ones((2, 3)), 2),  # a second feature on a scope that is there
        Feature(("a", "d"), BAN),
    ]
    return MarkovNet.log_linear(STATES, features, weights)


def features_of(x: np.ndarray) -> np.ndarray:
    a, b, c, d = x
    return np.array([AB[a, b] + [5.0, 0.0][c], PAIR[a, c] + PAIR[c, d], [0.0, 1.0][a] + 1.0])


@pytest.mark.parametrize("weights", [WEIGHTS, np.zeros(3), [4.0, 0.0, -2.0]], ids=str)
def test_the_score_is_weights_times_features_on_every_assignment(weights):
    for model in (small(weights), small().with_weights(weights)):
        expected = [features_of(x) @ np.asarray(weights) + BAN[x[0], x[3]] for x in ALL]
        np.testing.assert_allclose(model.to_factor_graph().log_scores(ALL), expected, atol=1e-12)


def test_features_on_one_scope_share_a_factor():
    model = small()
    assert repr(model) == "LogLinear(4 variables, 6 factors, 3 parameters)"
    names = [f.names for f in model.to_factor_graph().factors]
    assert names == [("a",), ("c",), ("a", "b"), ("a", "c"), ("a", "d"), ("c", "d")]
    assert model.variables.names == ("a", "b", "c", "d")


def test_new_weights_leave_the_model_as_it_was_and_share_what_was_compiled():
    model = small()
    graph = model.to_factor_graph()
    other = model.with_weights([1.0, 2.0, 3.0])
    assert model.to_factor_graph() is graph and other.to_factor_graph() is not graph
    assert other.to_factor_graph().memo is graph.memo
    np.testing.assert_array_equal(model.weights, WEIGHTS)
    with pytest.raises(ValueError, match="read-only"):
        other.weights[0] = 1


def test_tables_are_the_design_times_the_weights():
    model = MarkovNet.log_linear({"a": 2, "b": 2}, [(("a", "b"), PAIR, 0)], [2.0])
    np.testing.assert_allclose(model.design @ model.weights, 2 * PAIR.ravel())


def test_expected_features_are_the_gradient_of_log_z():
    result = credo.infer(small(), "enumerate")
    found = small().expected_features(result.factor_marginals)
    step = 1e-5
    for k in range(3):
        ends = [
            credo.infer(small(WEIGHTS + s * np.eye(3)[k]), "enumerate").log_z.value for s in (step, -step)
        ]
        assert found[k] == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-7)


def test_mean_features_of_data_are_the_averages():
    rows = ALL[[0, 3, 5, 5, 14]]
    expected = np.mean([features_of(x) for x in rows], axis=0)
    np.testing.assert_allclose(small().mean_features(rows), expected, atol=1e-12)


def test_a_model_without_features_is_uniform():
    model = LogLinear({"a": 2}, [], [])
    assert model.to_factor_graph().n_factors == 0


@pytest.mark.parametrize(
    ("feature", "message"),
    [
        ("a", "feature 0: expected \\(scope, table, parameter\\), got 'a'"),
        ((("a", "b"), PAIR, 0), r"feature 0: expected a table of shape \(2, 3\) .* got \(2, 2\)"),
        (([("a", "c"), ("a", "b")], PAIR, 0), "feature 0: expected a table of shape"),
        (([("a", "c"), ("a",)], PAIR, 0), "feature 0: expected scopes of one length"),
        (("a", [1, 2], 3), r"feature 0: expected parameters in \[0, 3\), got 3 to 3"),
        (("a", [1, 2], [0, 1]), "feature 0: expected one parameter index or 1, got"),
        (("a", [1, 2], 0.5), "feature 0: expected one parameter index or 1, got 0.5"),
        (("a", [1, np.nan], 0), "feature 0: expected finite values .* got nan"),
        (
            ("a", [1, -np.inf], 0),
            "feature 0: expected finite values \\(-inf only without a parameter\\), got -inf",
        ),
        (("a", [1, np.inf]), "feature 0: expected finite values .* got inf"),
        (("a", ["x", "y"], 0), "feature 0: expected a table of numbers, got"),
        ((np.array([[0, 9]]), PAIR, 0), r"feature 0: expected positions in \[0, 4\), got 0 to 9"),
        ((1.5, PAIR, 0), "feature 0: expected names or positions of one scope or many, got 1.5"),
        (([0, 0], PAIR, 0), "variable 'a' appears twice in the scope"),
    ],
)
def test_bad_features_are_refused_with_a_sentence(feature, message):
    with pytest.raises(ModelError, match=message):
        LogLinear(STATES, [feature], WEIGHTS).to_factor_graph()


def test_bad_weights_names_and_data_are_refused():
    with pytest.raises(ModelError, match="weights: expected a vector of finite numbers"):
        small([1.0, np.nan, 0.0])
    with pytest.raises(ModelError, match="weights: expected numbers, got"):
        small(["x", "y", "z"])
    with pytest.raises(ModelError, match="weights: expected 3 numbers, got 2"):
        small().with_weights([1.0, 2.0])
    with pytest.raises(QueryError, match="no variable named 'z'"):
        LogLinear(STATES, [("z", [1, 2], 0)], WEIGHTS)
    with pytest.raises(ModelError, match="mean_features: expected at least one row, got none"):
        small().mean_features(ALL[:0])
    with pytest.raises(QueryError, match="mean_features: row 1 has state 2 of 'a', expected 0 to 1"):
        small().mean_features([[0, 0, 0, 0], [2, 0, 0, 0]])
