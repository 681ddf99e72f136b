"""The residual schedule by estimates: its buckets, its stopping rule, its state."""

from __future__ import annotations

import numpy as np
import pytest

from credo import FactorGraph
from credo.inference.messages import engine
from credo.inference.problem.base import Problem
from credo.kernels import residual_messages as kernel


def grid(states, spread, seed=0, n=6):
    """A square grid with normal log tables; a few three-way factors unless binary."""
    rng = np.random.default_rng(seed)
    at = np.arange(n * n).reshape(n, n)
    pairs = np.concatenate(
        [np.stack([at[:, :-1], at[:, 1:]], -1).reshape(-1, 2), np.stack([at[:-1], at[1:]], -1).reshape(-1, 2)]
    )
    parts = [(pairs, rng.normal(0, spread, (len(pairs), states, states)))]
    parts.append((np.arange(n * n)[:, None], rng.normal(0, 0.3, (n * n, states))))
    if states > 2:
        triples = np.array([[0, 1, n], [5, 9, 20], [3, 30, 17]])
        parts.append((triples, rng.normal(0, spread, (3, states, states, states))))
    return FactorGraph.from_arrays(np.full(n * n, states), *parts, log=True)


def begin(graph):
    n = len(graph.variables)
    problem = Problem(graph, np.ones(n), np.zeros(n, dtype=np.int64))
    weights = engine.Weighted.plain(graph)
    return problem, weights, engine.start(problem, weights, np.random.default_rng(0))


def buckets(items):
    after = np.arange(items + 64)
    return after, after.copy(), np.full(items, -1)


def test_items_leave_the_highest_bucket_first_and_each_bucket_in_order_of_arrival():
    after, before, level = buckets(6)
    for x, b in [(3, 10), (0, 40), (5, 10), (1, 40), (2, 7)]:
        kernel._put.py_func(after, before, level, x, b)
    kernel._put.py_func(after, before, level, 2, 40)  # moves up
    order, top = [], 63
    while True:
        x, top = kernel._take.py_func(after, before, level, top)
        if x < 0:
            break
        order.append(x)
    assert order == [0, 1, 2, 3, 5]
    assert (level == -1).all()


@pytest.mark.parametrize(("estimate", "bucket"), [(1.0, 62), (0.75, 61), (1e-30, 0), (3.0, 63), (np.inf, 63)])
def test_the_bucket_is_the_power_of_two_of_the_estimate(estimate, bucket, monkeypatch):
    monkeypatch.setattr(kernel, "_put", kernel._put.py_func)
    after, before, level = buckets(2)
    due = np.zeros(3)
    top = kernel._raise.py_func(after, before, level, due, due.view(np.int64), 1, estimate, 0.0, -1)
    assert level.tolist() == [-1, bucket]
    assert top == bucket


def test_what_stays_below_the_tolerance_does_not_queue():
    after, before, level = buckets(1)
    due = np.zeros(2)
    for _ in range(3):
        assert kernel._raise.py_func(after, before, level, due, due.view(np.int64), 0, 3e-7, 1e-6, -1) == -1
    assert due[0] == pytest.approx(9e-7)
    assert level[0] == -1


def advance(problem, state, weights, schedule, count, tol):
    """All of `count` sweeps, however few the engine does at a time."""
    changes = np.empty(0)
    while len(changes) < count and not (len(changes) and changes[-1] < tol):
        state, new = engine.advance(problem, state, weights, schedule, count - len(changes), tol)
        changes = np.append(changes, new)
    return state, changes


@pytest.mark.parametrize(("states", "spread"), [(2, 0.6), (3, 0.6), (5, 0.4)])
@pytest.mark.parametrize("tol", [1e-4, 1e-9])
def test_a_run_that_says_it_has_converged_is_at_a_fixed_point(states, spread, tol):
    problem, weights, state = begin(grid(states, spread))
    state, changes = advance(problem, state, weights, "residual", 400, tol)
    assert changes[-1] < tol
    assert (changes[:-1] >= tol).all()
    _, left = advance(problem, state, weights, "flooding", 1, 0.0)
    assert left[0] < 10 * tol


@pytest.mark.parametrize("states", [2, 3])
def test_a_run_can_be_cut_into_calls(states):
    problem, weights, state = begin(grid(states, 0.8))
    whole, changes = advance(problem, state, weights, "residual", 9, 1e-12)
    parts = []
    for count in (1, 5, 3):
        state, new = advance(problem, state, weights, "residual", count, 1e-12)
        parts.extend(new)
    np.testing.assert_array_equal(parts, changes)
    np.testing.assert_array_equal(state.values, whole.values)


def test_another_schedule_in_between_makes_everything_due_again():
    problem, weights, state = begin(grid(2, 0.6))
    state, _ = advance(problem, state, weights, "residual", 400, 1e-8)
    state = state._replace(values=state.values * 3.0)
    state, _ = advance(problem, state, weights, "flooding", 1, 1e-8)
    assert state.due is None
    state, changes = advance(problem, state, weights, "residual", 400, 1e-8)
    assert len(changes) > 2
    _, left = advance(problem, state, weights, "flooding", 1, 0.0)
    assert left[0] < 1e-7


@pytest.mark.parametrize("states", [2, 3])
def test_a_model_without_pairs_converges_at_once(states):
    graph = FactorGraph.from_arrays(
        np.full(3, states), (np.array([[0], [2]]), np.ones((2, states))), log=True
    )
    problem, weights, state = begin(graph)
    _, changes = advance(problem, state, weights, "residual", 5, 1e-8)
    assert changes.tolist() == [0.0]
