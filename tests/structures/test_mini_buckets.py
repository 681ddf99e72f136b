"""Mini-buckets: who meets whom, on every graph of the zoo and on random orders."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import credo
from credo.core.errors import OptionError, QueryError
from credo.structures.elimination import elimination_order
from credo.structures.mini_buckets import MiniBuckets, mini_bucket_order, mini_buckets
from zoo import ZOO, Case


def _free_scope(graph: credo.FactorGraph, a: int) -> set[int]:
    return {int(i) for i in graph.scope_of(a) if graph.variables.sizes[i] > 1}


def _check_buckets(graph: credo.FactorGraph, made: MiniBuckets) -> None:
    for place, i in enumerate(made.order):
        members = range(made.bucket_start[place], made.bucket_start[place + 1])
        assert (len(members) > 0) == (made.sizes[i] > 1)
        scopes = [set(made.scope_of(c).tolist()) for c in members]
        for one in range(len(scopes)):
            assert not any(scopes[one] <= scopes[two] for two in range(len(scopes)) if two != one)
        assert all(made.variable[c] == i for c in members)


def _check_messages(made: MiniBuckets) -> None:
    for c in range(len(made)):
        scope = made.scope_of(c)
        assert (np.diff(made.rank[scope]) > 0).all()
        assert made.table_size[c] == np.prod(made.sizes[scope])
        assert made.message_size[c] == np.prod(made.sizes[scope[1:]])
        if len(scope) == 1:
            assert made.parent[c] == -1
        else:
            assert made.parent[c] > c
            assert made.variable[made.parent[c]] == scope[1]
            assert set(scope[1:]) <= set(made.scope_of(made.parent[c]))
    start, child = made.children
    assert sorted(child.tolist()) == np.flatnonzero(made.parent >= 0).tolist()
    for c in range(len(made)):
        assert (made.parent[child[start[c] : start[c + 1]]] == c).all()


def _check_factors(graph: credo.FactorGraph, made: MiniBuckets) -> None:
    start, factor = made.factors
    assert sorted([*factor.tolist(), *made.loose_factors.tolist()]) == list(range(graph.n_factors))
    for a in range(graph.n_factors):
        scope, home = _free_scope(graph, a), int(made.factor_home[a])
        if not scope:
            assert home == -1
            continue
        assert a in factor[start[home] : start[home + 1]]
        assert scope <= set(made.scope_of(home).tolist())
        assert made.variable[home] == min(scope, key=lambda i: made.rank[i])


@pytest.mark.parametrize("ibound", [0, 1, 2, 100])
@pytest.mark.parametrize("case", ZOO, ids=lambda c: c.id)
def test_every_factor_and_message_has_its_place(case: Case, ibound: int):
    graph = case.graph
    rng = np.random.default_rng(ibound)
    for order in (elimination_order(graph).order, rng.permutation(len(graph.variables))):
        made = mini_buckets(graph, order, ibound=ibound, max_entries=12)
        _check_buckets(graph, made)
        _check_messages(made)
        _check_factors(graph, made)
        widest = max((len(_free_scope(graph, a)) for a in range(graph.n_factors)), default=0)
        largest = int(graph.table_size.max(initial=1))
        assert np.diff(made.scope_start).max(initial=0) <= max(ibound + 1, widest)
        assert made.table_size.max(initial=0) <= max(12, largest, int(made.sizes.max(initial=0)))


@pytest.mark.parametrize("case", ZOO, ids=lambda c: c.id)
def test_nothing_is_split_from_the_width_on(case: Case):
    order = elimination_order(case.graph)
    made = mini_buckets(case.graph, order.order, ibound=order.width)
    assert made.is_exact
    assert made.width == order.width
    if case.id == "grid 3x3":
        assert not mini_buckets(case.graph, order.order, ibound=order.width - 1).is_exact


def test_the_layout_is_described_by_strides():
    graph = credo.FactorGraph(
        {"a": 2, "b": 3, "c": 4}, {("c", "a"): np.ones((4, 2)), ("b", "a"): np.ones((3, 2))}
    )
    made = mini_buckets(graph, np.array([0, 2, 1]), ibound=2)
    assert made.scope_of(0).tolist() == [0, 2, 1]
    assert made.stride[:3].tolist() == [12, 3, 1]
    assert made.message_size.tolist() == [12, 3, 1]
    assert "3 for 3 variables, width 2" in repr(made)


def test_orders_keep_the_levels_whether_greedy_or_swept(monkeypatch):
    grid = credo.datasets.ising_grid(6, seed=0).to_factor_graph()
    levels = np.random.default_rng(0).integers(0, 3, 36)
    greedy = mini_bucket_order(grid, levels)
    monkeypatch.setattr(sys.modules[mini_bucket_order.__module__], "_GREEDY_LIMIT", 10)
    grid.memo.clear()
    swept = mini_bucket_order(grid, levels)
    for order in (greedy, swept):
        assert sorted(order.tolist()) == list(range(36))
        assert (np.diff(levels[order]) >= 0).all()
    assert greedy.tolist() != swept.tolist()


def test_a_hub_with_thousands_of_factors_is_partitioned():
    n = 5000
    scopes = np.stack([np.zeros(n, dtype=np.int64), np.arange(1, n + 1)], axis=1)
    star = credo.FactorGraph.from_arrays(np.full(n + 1, 2), (scopes, np.ones((2, 2))))
    made = mini_buckets(star, np.arange(n + 1), ibound=1)
    assert made.bucket_start[1] == n
    assert made.width == 1


def test_wrong_arguments_are_named():
    graph = ZOO[5].graph
    order = np.arange(len(graph.variables))
    with pytest.raises(OptionError, match="ibound must be at least 0, got -1"):
        mini_buckets(graph, order, ibound=-1)
    with pytest.raises(OptionError, match="max_entries must be at least 1, got 0"):
        mini_buckets(graph, order, ibound=1, max_entries=0)
    with pytest.raises(QueryError, match="order: expected each of the 5 variables once, got 4 positions"):
        mini_buckets(graph, order[:4], ibound=1)
    wide = credo.FactorGraph.from_arrays(
        np.full(70, 2), (np.stack([np.zeros(69, dtype=np.int64), np.arange(1, 70)], axis=1), np.ones((2, 2)))
    )
    with pytest.raises(OverflowError, match="more than 2\\^62 entries; lower max_entries"):
        mini_buckets(wide, np.arange(70), ibound=69, max_entries=2.0**80)
