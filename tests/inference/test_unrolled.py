"""Differentiable belief propagation: values and slopes against `bp`, exact answers and differences."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import credo
from credo.core.errors import ZeroProbabilityError
from credo.core.evidence import Evidence
from credo.inference.messages import unrolled
from credo.inference.messages.unrolled import UnrolledBP


def rows_of(graph, rng, count=3):
    """Rows with about a third of the values given; the first gives none."""
    states = rng.integers(graph.variables.sizes, size=(count, len(graph.variables)))
    states[rng.random(states.shape) < 0.7] = -1
    states[0] = -1
    return states


def some_graph(seed, zeros=0.0):
    """Three-way, pairwise and single factors, states 1 to 3, loops."""
    rng = np.random.default_rng(seed)
    sizes = {"a": 2, "b": 3, "c": 2, "d": 2, "e": 1, "alone": 3}
    scopes = [("a", "b", "c"), ("c", "d"), ("d", "a"), ("b",), ("d", "e"), ()]
    tables = {}
    for scope in scopes:
        table = np.exp(rng.normal(size=[sizes[v] for v in scope]))
        if zeros and len(scope) == 2:
            table[rng.random(table.shape) < zeros] = 0.0
        tables[scope] = table
    return credo.FactorGraph(sizes, tables)


def test_converged_values_and_slopes_are_those_of_bp():
    for seed in range(6):
        graph, rng = some_graph(seed), np.random.default_rng(seed)
        states = rows_of(graph, rng)
        program = UnrolledBP(graph, 300, damping=0.2)
        for k, row in enumerate(states):
            found = credo.infer(graph, "bp(damping=0.2)", evidence=Evidence(row), tol=1e-13)
            values, slopes = program.differentiate(graph.log_tables, states, np.eye(len(states))[k])
            assert values[k] == pytest.approx(found.log_z.value, abs=1e-9)
            np.testing.assert_allclose(slopes, found.factor_marginals.flat, atol=1e-8)


def test_trees_are_exact_with_zeros_and_evidence():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        graph = _tree(rng)
        states = rows_of(graph, rng, 4)
        values, _ = UnrolledBP(graph, 12).differentiate(graph.log_tables, states, np.ones(4))
        for value, row in zip(values, states, strict=True):
            try:
                expected = credo.infer(graph, "elimination", evidence=Evidence(row)).log_z.value
            except ZeroProbabilityError:
                expected = -np.inf
            assert value == pytest.approx(expected, abs=1e-8)


def _tree(rng, n=6):
    tables = {}
    for i in range(1, n):
        table = np.exp(rng.normal(size=(2, 2)))
        table[rng.random((2, 2)) < 0.15] = 0.0
        tables[f"x{rng.integers(i)}", f"x{i}"] = table
    return credo.FactorGraph({f"x{i}": 2 for i in range(n)}, tables)


@pytest.mark.parametrize("sweeps", [1, 2, 5])
@pytest.mark.parametrize("damping", [0.0, 0.4])
def test_slopes_are_those_of_the_value_long_before_it_settles(sweeps, damping):
    graph, rng = some_graph(3), np.random.default_rng(1)
    states, weights = rows_of(graph, rng), np.array([-1.0, 0.5, 2.0])
    program = UnrolledBP(graph, sweeps, damping)

    def value(tables):
        return float(weights @ program.differentiate(tables, states, weights)[0])

    _, slopes = program.differentiate(graph.log_tables, states, weights)
    for _ in range(5):
        way, step = rng.normal(size=len(slopes)), 1e-5
        numeric = (value(graph.log_tables + step * way) - value(graph.log_tables - step * way)) / (2 * step)
        assert slopes @ way == pytest.approx(numeric, abs=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = credo.infer(graph, f"bp(schedule=flooding, damping={damping})", max_iter=sweeps)
    if sweeps == 1 and damping == 0:
        # The beliefs of a run that stopped short are not its slopes.
        free = program.differentiate(graph.log_tables, states, np.array([1.0, 0.0, 0.0]))[1]
        assert np.abs(free - found.factor_marginals.flat).max() > 1e-3


def test_zeros_have_no_slope_and_impossible_rows_are_told():
    graph = credo.FactorGraph({"a": 2, "b": 2}, {("a", "b"): [[1.0, 0.0], [2.0, 3.0]]})
    values, slopes = UnrolledBP(graph, 3).differentiate(
        graph.log_tables, np.array([[-1, -1], [0, 1]]), np.array([1.0, 0.0])
    )
    assert np.exp(values[0]) == pytest.approx(6.0) and values[1] == -np.inf
    np.testing.assert_allclose(slopes, [1 / 6, 0.0, 2 / 6, 3 / 6], atol=1e-12)


def test_many_rows_come_in_parts(monkeypatch):
    monkeypatch.setattr(unrolled, "_ROWS", 4)
    graph = some_graph(0)
    states = np.full((10, 6), -1)
    states[:, 0] = np.arange(10) % 2
    program = UnrolledBP(graph, 4)
    values, slopes = program.differentiate(graph.log_tables, states, np.ones(10))
    two, both = program.differentiate(graph.log_tables, states[:2], np.full(2, 5.0))
    np.testing.assert_allclose(values, np.tile(two, 5), atol=1e-10)
    np.testing.assert_allclose(slopes, both, atol=1e-8)


def test_a_graph_without_factors_counts_its_states():
    graph = credo.FactorGraph({"a": 2, "b": 3}, {})
    values, slopes = UnrolledBP(graph, 3).differentiate(graph.log_tables, np.full((1, 2), -1), np.ones(1))
    assert np.exp(values[0]) == pytest.approx(6.0) and not len(slopes)
