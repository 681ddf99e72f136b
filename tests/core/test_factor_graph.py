"""Factor graphs: the ways to build one, the flat arrays, scores, wiring."""

from __future__ import annotations

import re

import numpy as np
import pytest

from credo.core.errors import ModelError, QueryError
from credo.core.factor import TableFactor
from credo.core.factor_graph import FactorGraph, Model
from credo.core.variable import Variable, Variables
from credo.core.wiring import Memo
from zoo import ZOO, Case

by_case = pytest.mark.parametrize("case", ZOO, ids=lambda c: c.id)


@by_case
def test_scores_equal_the_sum_of_the_log_tables(case: Case):
    states = np.argwhere(np.ones(case.sizes))[:200]
    np.testing.assert_allclose(
        case.graph.log_scores(states), [case.log_weights[tuple(x)] for x in states], rtol=1e-12, atol=1e-9
    )
    x = dict(zip(case.names, states[0].tolist(), strict=True))
    assert case.graph.log_score(x) == pytest.approx(case.log_weights.flat[0], rel=1e-12)


@by_case
def test_wiring_equals_a_slow_reference(case: Case):
    graph, wiring = case.graph, case.graph.wiring
    edges = [(a, k, n) for a, (scope, _) in enumerate(case.factors) for k, n in enumerate(scope)]
    position = {n: i for i, n in enumerate(case.names)}
    strides = []
    for a, k, _ in edges:
        strides.append(int(np.prod(case.factors[a][1].shape[k + 1 :], dtype=int)))
    assert wiring.edge_factor.tolist() == [a for a, _, _ in edges]
    assert wiring.scope.tolist() == [position[n] for _, _, n in edges]
    assert wiring.edge_stride.tolist() == strides
    assert np.diff(wiring.edge_state_start).tolist() == [case.sizes[position[n]] for _, _, n in edges]
    assert wiring.table_size.tolist() == [table.size for _, table in case.factors]
    for i, name in enumerate(case.names):
        around = wiring.neighbour_edge[wiring.neighbour_start[i] : wiring.neighbour_start[i + 1]]
        assert around.tolist() == [e for e, edge in enumerate(edges) if edge[2] == name]
    assert wiring.sizes.tolist() == case.sizes
    assert wiring.state_start.tolist() == np.concatenate([[0], np.cumsum(case.sizes)]).astype(int).tolist()
    assert graph.wiring is wiring


@by_case
def test_shape_groups_partition_the_factors(case: Case):
    seen = []
    for group in case.graph.shape_groups:
        for a, scope, start in zip(group.factors, group.scopes, group.table_start, strict=True):
            seen.append(int(a))
            assert case.factors[a][1].shape == group.shape
            assert tuple(case.names[i] for i in scope) == case.factors[a][0]
            assert start == case.graph.table_start[a]
    assert sorted(seen) == list(range(len(case.factors)))


@by_case
def test_factor_views_hold_the_tables(case: Case):
    assert len(case.graph.factors) == len(case.factors)
    for view, (scope, table) in zip(case.graph.factors, case.factors, strict=True):
        assert view.names == scope
        np.testing.assert_array_equal(view.log_table, table)
    assert case.graph.factors[:2] == tuple(case.graph.factors[a] for a in range(min(2, len(case.factors))))


def test_graphs_from_mappings_and_from_factors_are_equal():
    a, b = Variable("a", 2), Variable("b", ["lo", "hi"])
    table = [[1, 2], [3, 0]]
    one = FactorGraph({"a": 2, "b": ["lo", "hi"]}, {("a", "b"): table, "a": [1, 2]})
    two = FactorGraph([a, b], [TableFactor([a, b], table), TableFactor([a], [1, 2])])
    assert one == two
    assert repr(one) == "FactorGraph(2 variables, 2 factors, 3 edges)"
    assert one.to_factor_graph() is one
    assert isinstance(one, Model)
    assert one != 3 and one != FactorGraph({"a": 2, "b": ["lo", "hi"]}, {("a", "b"): table})


def test_from_flat_reads_the_arrays_as_documented():
    graph = FactorGraph.from_flat(
        Variables.numbered([2, 3]), np.array([0, 2, 2, 3]), np.array([1, 0, 1]), np.arange(10.0)
    )
    assert graph.log_table(0).tolist() == [[0, 1], [2, 3], [4, 5]]
    assert float(graph.log_table(1)) == 6
    assert graph.log_table(2).tolist() == [7, 8, 9]
    assert graph.log_score({"x0": 1, "x1": 2}) == 5 + 6 + 9


def test_from_arrays_takes_one_table_per_factor_or_one_for_all():
    scopes = [[0, 1], [2, 1]]
    tables = np.arange(1.0, 13.0).reshape(2, 2, 3)
    each = FactorGraph.from_arrays([2, 3, 2], (scopes, tables))
    np.testing.assert_allclose(each.factors[1].table, tables[1])
    shared = FactorGraph.from_arrays([2, 3, 2], (scopes, tables[0]))
    assert shared.table_start.tolist() == [0, 0]
    assert len(shared.log_tables) == 6
    assert shared.factors[0].table.tolist() == shared.factors[1].table.tolist()
    logs = FactorGraph.from_arrays([2, 3, 2], (scopes, np.log(tables)), log=True)
    assert logs == each


def test_from_arrays_joins_groups_of_different_shapes():
    graph = FactorGraph.from_arrays(
        {"a": 2, "b": 3},
        ([[0, 1]], np.ones((2, 3))),
        ([[1]], [[1, 2, 3]]),
        (np.empty((2, 0)), [1, 2]),
    )
    assert [f.names for f in graph.factors] == [("a", "b"), ("b",), (), ()]
    assert graph.log_score({"a": 0, "b": 2}) == pytest.approx(np.log(3) + np.log(2))
    assert FactorGraph.from_arrays([2, 2]).n_factors == 0


def test_a_million_pairwise_factors_build_without_an_object_per_factor():
    n = 10**6
    scopes = np.stack([np.arange(n), np.arange(1, n + 1)], axis=1)
    graph = FactorGraph.from_arrays(np.full(n + 1, 2), (scopes, np.ones((n, 2, 2))))
    assert graph.n_factors == n
    assert graph.scope.shape == (2 * n,) and graph.log_tables.shape == (4 * n,)
    assert graph.table_start[-1] == 4 * (n - 1)
    assert graph.scope_of(n - 1).tolist() == [n - 1, n]
    held = [v for v in vars(graph).values() if isinstance(v, (list, tuple, dict)) and len(v)]
    assert not held, "only arrays grow with the number of factors"
    assert graph.wiring.neighbour_start[-1] == 2 * n
    shared = FactorGraph.from_arrays(np.full(n + 1, 2), (scopes, np.ones((2, 2))))
    assert len(shared.log_tables) == 4


def test_flat_arrays_are_read_only():
    graph = FactorGraph({"a": 2}, {"a": [1, 2]})
    for array in (graph.log_tables, graph.scope, graph.scope_start, graph.table_start):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


X = Variables.numbered([2, 3])
ONES = np.ones((2, 3))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: FactorGraph({"a": 2}, [3]),
            "expected a factor (TableFactor, GaussianFactor, DensityFactor ...), got 3",
        ),
        (
            lambda: FactorGraph({"a": 2}, [TableFactor([Variable("b")], [1, 1])]),
            "factor over ['b']: variable 'b' is not in the graph with these states; declare it",
        ),
        (
            lambda: FactorGraph({"a": 2}, [TableFactor([Variable("a", 3)], [1, 1, 1])]),
            "factor over ['a']: variable 'a' is not in the graph with these states",
        ),
        (
            lambda: FactorGraph({"a": 2}, {("a", "a"): np.ones((2, 2))}),
            "a variable appears twice in the scope",
        ),
        (
            lambda: FactorGraph({"a": 2}, {"a": [1, 2, 3]}),
            "factor over ['a']: expected a table of shape (2,), got (3,)",
        ),
        (
            lambda: FactorGraph.from_flat(X, [0, 1], [2], [0, 0]),
            "factor scopes: expected positions in [0, 2)",
        ),
        (
            lambda: FactorGraph.from_flat(X, [0, 1], [-1], [0, 0]),
            "factor scopes: expected positions in [0, 2)",
        ),
        (lambda: FactorGraph.from_flat(X, [0, 2], [0, 1], [0.0]), "factor tables: expected 6 entries, got 1"),
        (
            lambda: FactorGraph.from_flat(X, [0, 1], [0], np.zeros(9)),
            "factor tables: expected 2 entries, got 9",
        ),
        (
            lambda: FactorGraph.from_flat(X, [0, 2], [1, 1], np.zeros(9)),
            "factor 0: variable 'x1' appears twice in the scope",
        ),
        (
            lambda: FactorGraph.from_flat(Variables.numbered(np.full(70, 2)), [0, 70], np.arange(70), [0.0]),
            "factor 0: its table would have more than 2^62 entries",
        ),
        (
            lambda: FactorGraph.from_arrays(X, ([0, 1], ONES)),
            "scopes: expected an array of shape (count, arity), got (2,)",
        ),
        (lambda: FactorGraph.from_arrays(X, ([[0, 5]], ONES)), "scopes: expected positions in [0, 2), got 5"),
        (
            lambda: FactorGraph.from_arrays(X, ([[-1, 0]], ONES)),
            "scopes: expected positions in [0, 2), got -1",
        ),
        (
            lambda: FactorGraph.from_arrays(X, ([[1, 0]], ONES)),
            "factor 0 over ['x1', 'x0']: expected a table of shape (3, 2), got (2, 3)",
        ),
        (
            lambda: FactorGraph.from_arrays(X, ([[0, 1]], np.ones((4, 2, 3)))),
            "tables: expected shape (d1, ..., d2) or (1, d1, ..., d2), got (4, 2, 3)",
        ),
        (
            lambda: FactorGraph.from_arrays(X, ([[0, 1]], -ONES)),
            "tables: entries must be non-negative numbers, got -1",
        ),
        (
            lambda: FactorGraph.from_arrays(X, ([[0, 1]], ONES * np.nan), log=True),
            "tables: log entries must be numbers below inf, got nan",
        ),
    ],
)
def test_bad_graphs_are_refused(make, message):
    with pytest.raises(ModelError, match=re.escape(message)):
        make()


def test_an_unknown_name_in_a_scope_gets_a_hint():
    with pytest.raises(QueryError, match=r"no variable named 'rian'; did you mean 'rain'\?"):
        FactorGraph({"rain": 2}, {"rian": [1, 2]})


def test_a_score_needs_every_variable():
    graph = FactorGraph({"a": 2, "b": 2}, {})
    message = "log_score: the assignment lacks ['b']; every variable needs a state"
    with pytest.raises(ModelError, match=re.escape(message)):
        graph.log_score({"a": 0})


def test_the_memo_drops_its_oldest_entries():
    memo, made = Memo(), []
    for key in range(Memo.CAPACITY + 3):
        assert memo.recall(key, lambda key=key: made.append(key) or key) == key
    assert memo.recall(Memo.CAPACITY, lambda: made.append("again")) == Memo.CAPACITY
    assert len(memo) == Memo.CAPACITY and 0 not in memo and "again" not in made


def test_scores_of_states_that_are_not_there_are_refused():
    graph = FactorGraph({"a": 2, "b": 2}, {"a": [1, 2], "b": [3, 4]})
    for states, what in (
        ([[0, -1]], "state -1 of 'b'"),
        ([[2, 0]], "state 2 of 'a'"),
        ([[0, 0, 0]], "shape"),
        ([0, 0], "shape"),
        ([[0.5, 0.0]], "integers"),
    ):
        with pytest.raises(QueryError, match=what):
            graph.log_scores(np.array(states))
    assert graph.log_scores(np.empty((0, 2), np.int64)).shape == (0,)


@pytest.mark.parametrize("factors", [None, 5, {0: [1, 2]}])
def test_factors_of_no_known_form_are_refused(factors):
    with pytest.raises(ModelError, match="factors: expected"):
        FactorGraph({"a": 2}, factors)
