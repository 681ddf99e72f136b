"""Starting from the messages of an earlier run."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo import FactorGraph, datasets
from credo.core.errors import QueryError, UnsupportedError
from credo.core.result import Status
from credo.inference.messages.bp import BP


def ring(seed=0, states=2, spread=0.5):
    rng = np.random.default_rng(seed)
    pairs = np.array([[i, (i + 1) % 6] for i in range(6)] + [[0, 3]])
    logs = spread * rng.standard_normal((7, states, states))
    return FactorGraph.from_arrays(np.full(6, states), (pairs, logs), log=True)


@pytest.mark.parametrize("schedule", ["flooding", "sequential", "random", "residual", "tree"])
@pytest.mark.parametrize(("states", "damping"), [(2, 0), (3, 0), (3, 0.3)], ids=["binary", "linear", "log"])
def test_a_converged_run_goes_on_for_at_most_two_sweeps(schedule, states, damping):
    bp = BP(schedule=schedule, damping=damping)
    graph = ring(states=states)
    cold = credo.infer(graph, bp, seed=0)
    warm = credo.infer(graph, bp, seed=0, warm_start=cold)
    assert len(cold.trace["change"]) > 2
    assert len(warm.trace["change"]) <= 2
    assert warm.status is Status.CONVERGED
    np.testing.assert_allclose(warm.marginals.flat, cold.marginals.flat, atol=1e-7)


def test_a_stopped_run_is_continued_where_it_stopped():
    graph = ring(spread=0.8)
    with pytest.warns(UserWarning, match="max_iter was reached"):
        half = credo.infer(graph, "bp(schedule=flooding)", max_iter=5)
    rest = credo.infer(graph, "bp(schedule=flooding)", warm_start=half)
    whole = credo.infer(graph, "bp(schedule=flooding)")
    np.testing.assert_allclose(
        np.concatenate([half.trace["change"], rest.trace["change"]]), whole.trace["change"], atol=1e-12
    )


def test_the_task_may_change_between_runs():
    graph = ring(states=3)
    best = credo.infer(graph, "bp", maximise="all")
    found = credo.infer(graph, "bp", warm_start=best, tol=1e-10)
    np.testing.assert_allclose(
        found.marginals.flat, credo.infer(graph, "bp", tol=1e-10).marginals.flat, atol=1e-8
    )


def test_other_states_of_the_same_variables_may_be_observed():
    model = datasets.ising_grid(4, coupling=0.3, field=0.1)
    names = model.variables.names
    before = credo.infer(model, "bp", evidence={names[0]: 0, names[5]: 1})
    cold = credo.infer(model, "bp", evidence={names[0]: 1, names[5]: 1}, tol=1e-11)
    warm = credo.infer(model, "bp", evidence={names[0]: 1, names[5]: 1}, tol=1e-11, warm_start=before)
    np.testing.assert_allclose(warm.marginals.flat, cold.marginals.flat, atol=1e-9)


@pytest.mark.parametrize("schedule", ["flooding", "sequential", "residual", "tree"])
def test_what_was_impossible_may_become_possible(schedule):
    table = np.ones((2, 2, 2))
    table[0, :, 0] = 0  # x = 0 is impossible where e = 0
    table[0, 0, 1] = 2
    graph = FactorGraph({"x": 2, "y": 2, "e": 2}, {("x", "y", "e"): table})
    bp = BP(schedule=schedule)
    before = credo.infer(graph, bp, evidence={"e": 0})
    assert before.marginals["x"][0] == 0
    after = credo.infer(graph, bp, evidence={"e": 1}, warm_start=before)
    np.testing.assert_allclose(after.marginals["x"], [0.6, 0.4])
    assert after.log_z.value == pytest.approx(np.log(5))


def test_foreign_states_are_refused():
    graph = ring()
    other = credo.infer(ring(states=3), "bp")
    with pytest.raises(QueryError, match=r"expected messages of 28 entries, got 42; .* same structure"):
        credo.infer(graph, "bp", warm_start=other)
    observed = credo.infer(graph, "bp", evidence={"x0": 1})
    with pytest.raises(QueryError, match="with the same variables observed"):
        credo.infer(graph, "bp", warm_start=observed)
    field = credo.infer(graph, "mean-field", seed=0)
    assert field.state is not None
    with pytest.raises(QueryError, match="expected the result of a message-passing method such as bp"):
        credo.infer(graph, "bp", warm_start=field)


def test_methods_without_states_refuse_either_way():
    graph = ring()
    exact, loopy = credo.infer(graph, "junction-tree"), credo.infer(graph, "bp")
    with pytest.raises(QueryError, match=r"warm_start: junction-tree.* keeps no state to start from"):
        credo.infer(graph, "bp", warm_start=exact)
    with pytest.raises(
        UnsupportedError, match="junction-tree cannot start from an earlier result; leave out"
    ):
        credo.infer(graph, "junction-tree", warm_start=loopy)


def test_the_earlier_result_is_left_as_it_was():
    graph = ring()
    first = credo.infer(graph, "bp(schedule=flooding)", tol=1e-2)
    values = first.state.values.copy()
    credo.infer(graph, "bp(schedule=sequential)", warm_start=first)
    np.testing.assert_array_equal(first.state.values, values)
