"""Greedy orders against a slow simulation that follows the same rules on Python sets."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from credo.kernels.ordering import (
    HEURISTICS,
    greedy_start,
    greedy_steps,
    hurried_order,
    is_eliminating,
    maximum_cardinality_order,
    order_cost,
    work_of,
)
from seeds import each_seed


def random_adjacency(seed, n=None):
    """Sorted neighbour lists in CSR form; isolated vertices and several parts are common."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 18)) if n is None else n
    density = rng.uniform(0.0, 0.6)
    around = [set() for _ in range(n)]
    for i, j in combinations(range(n), 2):
        if rng.random() < density:
            around[i].add(j)
            around[j].add(i)
    start = np.concatenate([[0], np.cumsum([len(s) for s in around])]).astype(np.int64)
    neighbour = np.array([j for s in around for j in sorted(s)], dtype=np.int64)
    return start, neighbour, around, rng


def cost_of(v, around, weight, heuristic):
    near = sorted(around[v])
    if heuristic == "min-degree":
        return float(len(near))
    if heuristic == "min-size":
        return float(np.log2(weight[v]) + sum(np.log2(weight[u]) for u in near))
    missing = [(i, j) for i, j in combinations(near, 2) if j not in around[i]]
    return float(sum(weight[i] * weight[j] if heuristic == "weighted-min-fill" else 1 for i, j in missing))


def slow_greedy(around, weight, level, heuristic, tie, noise):
    """The rules of the module: strip the lowest level's leaves, then always take the cheapest vertex."""
    around = [set(s) for s in around]
    n = len(around)
    order, total = [], 0.0

    def eliminate(v):
        nonlocal total
        order.append(v)
        total += weight[v] * np.prod([weight[u] for u in around[v]])
        for i, j in combinations(around[v], 2):
            around[i].add(j)
            around[j].add(i)
        for u in around[v]:
            around[u].discard(v)

    lowest = min(level)
    queue = [v for v in range(n) if level[v] == lowest and len(around[v]) <= 1]
    while queue:
        v = queue.pop(0)
        near = sorted(around[v])
        eliminate(v)
        queue += [u for u in near if u not in queue and level[u] == lowest and len(around[u]) <= 1]
    while len(order) < n:
        left = set(range(n)) - set(order)
        current = min(level[v] for v in left)
        ready = [v for v in left if level[v] == current]
        eliminate(min(ready, key=lambda v: (cost_of(v, around, weight, heuristic) * noise[v], tie[v])))
    return order, total


def greedy_order(
    start,
    neighbour,
    weight,
    level,
    heuristic,
    tie,
    noise,
    limit,
    most=10**9,
    kernels=(greedy_start, greedy_steps),
):
    """Portions until all is done, or the limit is met."""
    begin, go_on = kernels
    state, pool = begin(start, neighbour, weight, level)
    while is_eliminating(state, limit):
        pool = go_on(state, pool, weight, level, heuristic, tie, noise, limit, most)
    return state.order if state.total[0] <= limit else [], state.total[0], work_of(state)


@pytest.mark.parametrize("heuristic", HEURISTICS)
@each_seed(range(60))
def test_greedy_orders_equal_the_slow_simulation(heuristic, seed):
    start, neighbour, around, rng = random_adjacency(seed)
    n = len(around)
    weight = rng.choice([1.0, 2.0, 4.0, 8.0], n)  # powers of two: sums of logs are exact
    level = rng.integers(0, 1 + seed % 3, n)
    tie = rng.random(n)
    noise = np.ones(n) if seed % 2 else np.exp(0.5 * rng.standard_normal(n))
    expected, cost = slow_greedy(around, weight, level, heuristic, tie, noise)
    found, total, work = greedy_order(
        start, neighbour, weight, level, HEURISTICS[heuristic], tie, noise, np.inf
    )
    assert found.tolist() == expected
    assert total == pytest.approx(cost)
    assert work >= n


@each_seed(range(10))
def test_the_source_runs_uncompiled_with_the_same_order(seed):
    start, neighbour, around, rng = random_adjacency(seed)
    n = len(around)
    for heuristic in HEURISTICS.values():
        weight, level = np.full(n, 2.0), np.zeros(n, dtype=np.int64)
        arguments = (start, neighbour, weight, level, heuristic, rng.random(n), np.ones(n), np.inf)
        sources = greedy_start.py_func, greedy_steps.py_func
        fast, slow = greedy_order(*arguments), greedy_order(*arguments, kernels=sources)
        assert fast[0].tolist() == slow[0].tolist()
        assert fast[1:] == slow[1:]
    tie = rng.random(n)
    fast = maximum_cardinality_order(start, neighbour, tie)
    assert fast.tolist() == maximum_cardinality_order.py_func(start, neighbour, tie).tolist()


@pytest.mark.parametrize("heuristic", HEURISTICS.values())
@pytest.mark.parametrize("most", [1, 7, 50])
def test_the_size_of_portions_does_not_change_an_order(heuristic, most):
    start, neighbour, around, rng = random_adjacency(5, n=14)
    n = len(around)
    arguments = (
        start,
        neighbour,
        np.full(n, 3.0),
        rng.integers(0, 2, n),
        heuristic,
        rng.random(n),
        np.ones(n),
    )
    whole, cut = greedy_order(*arguments, np.inf), greedy_order(*arguments, np.inf, most)
    assert whole[0].tolist() == cut[0].tolist()
    assert whole[1:] == cut[1:]


def test_an_elimination_that_is_cut_still_orders_everything_by_level():
    start, neighbour, _, rng = random_adjacency(5, n=14)
    n, weight, tie, ones = 14, np.full(14, 2.0), rng.random(14), np.ones(14)
    level = rng.integers(0, 2, n)
    state, pool = greedy_start(start, neighbour, weight, level)
    while is_eliminating(state, np.inf):
        found = hurried_order(state, level)
        assert sorted(found) == list(range(n))
        assert (np.diff(level[found]) >= 0).all()
        pool = greedy_steps(state, pool, weight, level, 1, tie, ones, np.inf, 5)
    assert hurried_order(state, level).tolist() == state.order.tolist()


def test_a_greedy_run_gives_up_at_its_limit():
    start, neighbour, _, rng = random_adjacency(4, n=12)
    assert len(neighbour) > 40  # not a tree: those never meet a limit
    level, ones = np.zeros(12, dtype=np.int64), np.ones(12)
    tie = rng.random(12)
    _, total, _ = greedy_order(start, neighbour, np.full(12, 3.0), level, 1, tie, ones, np.inf)
    for limit, length in ((total, 12), (total - 1, 0)):
        order, _, _ = greedy_order(start, neighbour, np.full(12, 3.0), level, 1, tie, ones, limit)
        assert len(order) == length


def test_long_lists_outgrow_their_room_and_stay_right():
    # The neighbours of a hub that goes early (by its bias) must all be joined.
    n = 60
    rng = np.random.default_rng(0)
    around = [set() for _ in range(n)]
    for i in range(n):
        for j in (i + 1, i + 7, i + 20):
            around[i].add(j % n)
            around[j % n].add(i)
    start = np.concatenate([[0], np.cumsum([len(s) for s in around])]).astype(np.int64)
    neighbour = np.array([j for s in around for j in sorted(s)], dtype=np.int64)
    weight, level, tie = np.full(n, 2.0), np.zeros(n, dtype=np.int64), rng.random(n)
    bias = np.exp(2 * rng.standard_normal(n))
    for name, heuristic in HEURISTICS.items():
        found, total, _ = greedy_order(start, neighbour, weight, level, heuristic, tie, bias, np.inf)
        expected, cost = slow_greedy(around, weight, level, name, tie, bias)
        assert found.tolist() == expected
        assert total == pytest.approx(cost)


@each_seed(range(40))
def test_maximum_cardinality_takes_the_vertex_with_most_visited_neighbours(seed):
    start, neighbour, around, rng = random_adjacency(seed)
    n = len(around)
    tie = rng.random(n)
    visited = []
    while len(visited) < n:
        left = [v for v in range(n) if v not in visited]
        visited.append(min(left, key=lambda v: (-len(around[v] & set(visited)), tie[v])))
    assert maximum_cardinality_order(start, neighbour, tie).tolist() == visited[::-1]


@each_seed(range(40))
def test_the_cost_of_a_random_order_equals_the_simulation(seed):
    start, neighbour, around, rng = random_adjacency(seed)
    n = len(around)
    weight = rng.integers(1, 5, n).astype(float)
    order = rng.permutation(n)
    around = [set(s) for s in around]
    cliques = []
    for v in order:
        cliques.append({int(v), *around[v]})
        for i, j in combinations(around[v], 2):
            around[i].add(j)
            around[j].add(i)
        for u in around[v]:
            around[u].discard(v)
    tables = [np.prod(weight[list(c)]) for c in cliques]
    for run in (order_cost, order_cost.py_func):
        clique_start, clique, total, largest = run(start, neighbour, weight, order)
        found = [set(clique[clique_start[k] : clique_start[k + 1]].tolist()) for k in range(n)]
        assert found == cliques
        assert clique[clique_start[:-1]].tolist() == order.tolist()
        assert total == pytest.approx(sum(tables))
        assert largest == pytest.approx(np.log2(max(tables)))
