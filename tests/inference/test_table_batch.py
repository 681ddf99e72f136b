"""Many problems of one structure in one call are the same as one call per problem."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import credo
from credo import FactorGraph
from credo.core.errors import (
    ConvergenceWarning,
    ModelError,
    QueryError,
    UnsupportedError,
    ZeroProbabilityError,
)
from credo.core.result import Status
from credo.inference.exact import tree_batch
from credo.inference.exact.junction_tree import JunctionTreePropagation

SIZES = {"a": 2, "b": 3, "c": 2, "d": 4, "one": 1, "alone": 2}
SCOPES = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("b", "d", "one"), ("a",), (), ("b",)]
QUESTIONS = {
    "sum": {},
    "max": {"maximise": "all"},
    "mixed": {"maximise": ["a", "d"]},
    "tempered": {"temperatures": dict.fromkeys(SIZES, 0.3)},
    "hidden first": {
        "temperatures": {"a": 0.3, "c": 0.3, "one": 1.0, "b": 1.0, "d": 1.0, "alone": 2.5},
        "order": ["a", "c", "one", "b", "d", "alone"],
    },
    "maxima first": {"maximise": ["b", "c"], "order": ["b", "one", "c", "a", "d", "alone"]},
}


def shapes(scope):
    return [SIZES[v] for v in scope]


def make(seed, count, *, zeros=True, spread=1.0):
    """A loopy structure, and log tables of all factors per instance."""
    rng = np.random.default_rng(seed)
    sizes = [int(np.prod(shapes(s))) for s in SCOPES]
    rows = rng.normal(0, spread, (count, sum(sizes)))
    if zeros:
        rows[::2, 1] = rows[:, 8] = -np.inf
    return rows, np.concatenate([[0], np.cumsum(sizes)])


def graph_of(row, start):
    tables = np.split(row, start[1:-1])
    flat = np.concatenate(tables)
    names = list(SIZES)
    scope = np.array([names.index(v) for s in SCOPES for v in s])
    variables = FactorGraph(SIZES).variables
    return FactorGraph.from_flat(variables, np.cumsum([0, *map(len, SCOPES)]), scope, flat)


def same_as_single(rows, start, factors, method, weights=None, **question):
    shared = rows.copy()
    for a in range(len(SCOPES)):
        if a not in factors:
            shared[:, start[a] : start[a + 1]] = rows[0, start[a] : start[a + 1]]
    own = np.concatenate([shared[:, start[a] : start[a + 1]] for a in factors], axis=1)
    found = credo.infer_batch(
        graph_of(shared[0], start), own, method, factors=factors, weights=weights, tol=1e-11, **question
    )
    total = np.zeros(rows.shape[1])
    for k, row in enumerate(shared):
        single = credo.infer(graph_of(row, start), method or "enumerate", tol=1e-11, **question)
        assert found.values[k] == pytest.approx(single.log_z.value, abs=1e-8)
        slopes = single.factor_marginals.flat
        expected = np.concatenate([slopes[start[a] : start[a + 1]] for a in factors])
        np.testing.assert_allclose(found.factor_marginals[k], expected, atol=1e-8)
        total += (1.0 if weights is None else weights[k]) * slopes
        if single.assignment is None:
            assert found.states is None
        else:
            np.testing.assert_array_equal(found.states[k], single.assignment.indices)
    np.testing.assert_allclose(found.summed.flat, total, atol=1e-7)
    return found


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("factors", [range(8), [7, 5, 0], [3]])
def test_exact_batches_equal_enumeration(question, factors):
    rows, start = make(3, 5)
    weights = np.array([1.0, -2.0, 0.5, 0.0, 3.0])
    found = same_as_single(rows, start, list(factors), None, weights, **QUESTIONS[question])
    assert set(found.status) == {Status.EXACT}


@pytest.mark.parametrize("method", ["bp", "bp(schedule=flooding,damping=0.2)", "bp(schedule=residual)"])
def test_batches_of_belief_propagation_equal_single_runs(method):
    rows, start = make(4, 4, spread=0.5)
    same_as_single(rows, start, [7, 1, 4], method)


@pytest.mark.parametrize("question", ["max", "mixed"])
def test_maxima_of_belief_propagation_are_asked_one_by_one(question):
    rows, start = make(5, 3, spread=0.5)
    same_as_single(rows, start, [0, 5], "bp", **QUESTIONS[question])


def test_instances_that_underflow_are_done_again_with_logarithms(monkeypatch):
    rows, start = make(6, 6, zeros=False)
    rows[2] *= 900
    rows[5, :6] -= 3000
    rows[4] *= 500
    same_as_single(rows, start, [0, 1, 2, 3, 4], None)
    same_as_single(rows, start, [0, 1, 2, 3, 4], None, maximise=["a", "c"])


def test_sums_do_not_depend_on_threads(monkeypatch):
    rows, start = make(7, 40)
    graph = graph_of(rows[0], start)
    monkeypatch.setattr(tree_batch, "_WORTH", 1)
    many = credo.infer_batch(graph, rows)
    monkeypatch.setattr(tree_batch.os, "cpu_count", lambda: 1)
    one = credo.infer_batch(graph, rows)
    np.testing.assert_array_equal(many.summed.flat, one.summed.flat)
    np.testing.assert_array_equal(many.factor_marginals, one.factor_marginals)


def test_a_sum_alone_keeps_no_instances():
    rows, start = make(8, 3)
    graph = graph_of(rows[0], start)
    found = credo.infer_batch(graph, rows, each=False)
    assert found.factor_marginals is None
    np.testing.assert_allclose(found.summed.flat, credo.infer_batch(graph, rows).factor_marginals.sum(axis=0))
    assert repr(found) == "TableBatch(3 instances, 6 variables, 3 converged)"


def test_too_wide_for_the_kernel_is_asked_one_by_one():
    rows, start = make(9, 3)
    graph = graph_of(rows[0], start)
    slow = credo.infer_batch(graph, rows, JunctionTreePropagation(propagation="hugin"))
    np.testing.assert_allclose(slow.values, credo.infer_batch(graph, rows).values, atol=1e-10)


def test_no_instances_are_no_answers():
    rows, start = make(10, 1)
    for method in (None, "bp", "enumerate"):
        found = credo.infer_batch(graph_of(rows[0], start), rows[:0], method)
        assert len(found) == 0 and found.values.shape == (0,)
        np.testing.assert_array_equal(found.summed.flat, 0)


def test_chains_equal_forward_and_backward():
    """An independent road: alpha and beta recursions on plain arrays."""
    rng = np.random.default_rng(11)
    length, labels, count = 6, 4, 7
    names = [f"y{t}" for t in range(length)]
    move = rng.normal(size=(labels, labels))
    graph = FactorGraph(
        dict.fromkeys(names, labels),
        {
            **{(a, b): np.exp(move) for a, b in pairwise(names)},
            **{(v,): np.ones(labels) for v in names},
        },
    )
    own = rng.normal(size=(count, length, labels))
    found = credo.infer_batch(graph, own.reshape(count, -1), factors=range(length - 1, 2 * length - 1))
    for k in range(count):
        alpha, beta = [np.exp(own[k, 0])], [np.ones(labels)]
        for t in range(1, length):
            alpha.append(alpha[-1] @ np.exp(move) * np.exp(own[k, t]))
            beta.insert(0, np.exp(move) @ (np.exp(own[k, length - t]) * beta[0]))
        z = alpha[-1].sum()
        assert found.values[k] == pytest.approx(np.log(z), abs=1e-11)
        np.testing.assert_allclose(
            found.factor_marginals[k].reshape(length, labels), np.array(alpha) * beta / z, atol=1e-12
        )


def test_a_batch_without_variables_has_values():
    graph = FactorGraph({}, {(): 3.0})
    for method in (None, "bp"):
        np.testing.assert_allclose(credo.infer_batch(graph, [[1.0], [2.0]], method).values, [1, 2])


@pytest.mark.parametrize("method", ["junction-tree", "bp", "enumerate"])
def test_an_impossible_instance_is_named(method):
    graph = FactorGraph({"a": 2, "b": 2}, {("a", "b"): np.ones((2, 2)), ("a",): [0, 1]})
    tables = np.zeros((3, 4))
    tables[2, 2:] = -np.inf
    with pytest.raises(
        ZeroProbabilityError, match="instance 2: its tables give every configuration weight zero"
    ):
        credo.infer_batch(graph, tables, method, factors=[0])


def test_instances_that_do_not_converge_give_one_warning():
    rows, start = make(12, 3, spread=0.5)
    with pytest.warns(ConvergenceWarning, match="bp: 3 of 3 instances: max_iter was reached"):
        credo.infer_batch(graph_of(rows[0], start), rows, "bp", max_iter=1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"log_tables": np.zeros(4)}, r"expected an array of shape \(instances, 4\).*got shape \(4,\)"),
        ({"log_tables": np.zeros((2, 5))}, r"with the tables of 1 factors, got shape \(2, 5\)"),
        ({"log_tables": "x"}, "log_tables: expected an array of numbers, got 'x'"),
        ({"log_tables": [[0, 0, 0, np.nan]]}, "expected finite numbers or -inf, got others in instance 0"),
        ({"factors": [0, 0]}, r"factors: expected different positions in \[0, 2\), got \[0, 0\]"),
        ({"factors": [2]}, r"factors: expected different positions in \[0, 2\)"),
        ({"weights": [1.0]}, r"weights: expected 2 finite numbers, got shape \(1,\)"),
        ({"method": "mean-field", "maximise": ["a"]}, "mean-field cannot treat this problem"),
    ],
)
def test_nonsense_is_refused_in_sentences(change, message):
    graph = FactorGraph({"a": 2, "b": 2}, {("a", "b"): np.ones((2, 2)), ("a",): [1, 1]})
    asked = {"log_tables": np.zeros((2, 4)), "factors": [0], **change}
    with pytest.raises((QueryError, ModelError, UnsupportedError), match=message):
        credo.infer_batch(graph, asked.pop("log_tables"), asked.pop("method", None), **asked)


def test_models_with_other_factors_are_refused():
    x = credo.Variable("x", credo.Real())
    model = FactorGraph([x], [credo.GaussianFactor([x], np.eye(1), np.zeros(1))])
    with pytest.raises(UnsupportedError, match="expected a model whose factors are tables"):
        credo.infer_batch(model, np.zeros((1, 0)), factors=[])
