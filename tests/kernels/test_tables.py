"""Kernels on flat tables and rows of states, compiled and as plain Python, against NumPy indexing."""

from __future__ import annotations

import numpy as np
import pytest

from credo.kernels import tables
from credo.kernels.tables import best_states, gather_tables, kept_states, scatter_tables
from zoo import ZOO, Case


@pytest.fixture(params=["compiled", "plain"])
def either_way(request, monkeypatch):
    """Run the kernels compiled, and their source uncompiled."""
    if request.param == "plain":
        for name in ("_move", "_new_starts"):
            monkeypatch.setattr(tables, name, getattr(tables, name).py_func)


def _arrays(case: Case, seed: int):
    graph = case.graph
    state_start = graph.variables.state_start
    keep = np.random.default_rng(seed).random(state_start[-1]) < 0.5
    keep[state_start[:-1]] |= np.add.reduceat(keep, state_start[:-1]) == 0 if len(case.sizes) else False
    return graph, state_start, keep


def _kept(case: Case, keep: np.ndarray, scope: tuple[str, ...]):
    start = np.concatenate([[0], np.cumsum(case.sizes)]).astype(int)
    where = [case.names.index(n) for n in scope]
    return np.ix_(*[np.flatnonzero(keep[start[i] : start[i + 1]]) for i in where]) if scope else ()


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("case", ZOO, ids=lambda c: c.id)
def test_gathering_equals_indexing(case: Case, seed: int):
    graph, state_start, keep = _arrays(case, seed)
    values, starts = gather_tables(
        graph.log_tables,
        graph.table_start,
        graph.scope_start,
        graph.scope,
        state_start,
        *kept_states(state_start, keep),
    )
    expected = [np.atleast_1d(table[_kept(case, keep, scope)]).ravel() for scope, table in case.factors]
    assert len(starts) == len(expected)
    for start, table in zip(starts, expected, strict=True):
        np.testing.assert_array_equal(values[start : start + table.size], table)
    assert values.size == sum(t.size for t in expected)


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("case", ZOO, ids=lambda c: c.id)
def test_scattering_undoes_gathering_and_fills_with_zeros(case: Case):
    graph, state_start, keep = _arrays(case, 2)
    full_start = np.concatenate([[0], np.cumsum(graph.table_size)]).astype(np.int64)
    small = [np.atleast_1d(table[_kept(case, keep, scope)]).ravel() for scope, table in case.factors]
    values = np.concatenate(small) if small else np.empty(0)
    kept = kept_states(state_start, keep)
    full = scatter_tables(values, full_start, graph.scope_start, graph.scope, state_start, *kept)
    for a, (scope, table) in enumerate(case.factors):
        expected = np.zeros(table.shape)
        expected[_kept(case, keep, scope)] = table[_kept(case, keep, scope)]
        np.testing.assert_array_equal(full[full_start[a] : full_start[a + 1]], expected.ravel())


@pytest.mark.parametrize("best", [best_states, best_states.py_func], ids=["compiled", "plain"])
def test_the_best_states_are_the_first_of_the_largest(best):
    rng = np.random.default_rng(0)
    sizes = np.array([1, 3, 2, 4, 1, 5, 3])
    start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    for _ in range(50):
        values = rng.integers(-2, 1, start[-1]).astype(float)  # many ties
        values[values == -2] = -np.inf
        expected = [values[start[i] : start[i + 1]].argmax() for i in range(len(sizes))]
        np.testing.assert_array_equal(best(start, values), expected)
    np.testing.assert_array_equal(best(start, np.full(start[-1], -np.inf)), np.zeros(len(sizes)))
    assert len(best(np.zeros(1, np.int64), np.empty(0))) == 0
