"""Random-walk Metropolis on hybrid and simplex models; discrete ones and refusals are with those of Gibbs."""

from __future__ import annotations

import numpy as np
import pytest

import credo
import hybrid_zoo
from credo.kernels import conditionals
from zoo import case


def test_a_hybrid_model_agrees_with_enumeration_and_quadrature():
    model = hybrid_zoo.switching_loop()
    result = credo.infer(model, "metropolis(warmup=1000)", seed=0, max_iter=10_000)
    hybrid_zoo.within_errors(result, hybrid_zoo.truth(model))
    again = credo.infer(model, "metropolis(warmup=1000)", seed=0, max_iter=10_000)
    np.testing.assert_array_equal(result.samples.column("y"), again.samples.column("y"))


def test_shares_of_topics_are_dirichlet_and_steps_are_tuned():
    result = credo.infer(
        hybrid_zoo.topics(), "metropolis", evidence=hybrid_zoo.TOPIC_EVIDENCE, seed=0, max_iter=4000
    )
    hybrid_zoo.has_topic_shares(result)
    theta = result.samples.column("theta")
    moved = (np.diff(theta[:4000], axis=0) != 0).any(axis=1).mean()
    assert moved == pytest.approx(0.3, abs=0.07)


def test_independent_fair_coins_are_not_swapped_in_step():
    graph = credo.FactorGraph({"a": 2, "b": 2}, {})
    rows = credo.infer(graph, "metropolis", seed=0).samples.indices
    joint = np.bincount(2 * rows[:, 0] + rows[:, 1], minlength=4) / len(rows)
    np.testing.assert_allclose(joint, 0.25, atol=0.05)


def test_the_kernel_is_its_own_specification():
    """Compiled and interpreted, and both accept by the ratio of weights."""
    graph = case("three-way factors").graph
    w = graph.wiring
    arrays = (graph.log_tables, w.table_start, w.scope_start, w.scope, w.edge_factor, w.edge_stride,
              w.state_start, w.neighbour_start, w.neighbour_edge)  # fmt: skip
    uniforms = np.random.default_rng(0).random((20, 3, len(graph.variables), 2))
    one, other, expected = (np.zeros((3, len(graph.variables)), dtype=np.int64) for _ in range(3))
    count = conditionals.metropolis_sweeps(*arrays, one, uniforms)
    assert conditionals.metropolis_sweeps.py_func(*arrays, other, uniforms) == count
    for sweep in uniforms:
        for x, numbers in zip(expected, sweep, strict=True):
            for i, (pick, decide) in enumerate(numbers):
                y = x.copy()
                y[i] = int(pick * graph.variables.sizes[i])
                gain = graph.log_scores(y[None])[0] - graph.log_scores(x[None])[0]
                x[i] = y[i] if np.log(decide) < gain else x[i]
    np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(one, expected)
