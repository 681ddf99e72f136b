"""Shift kernels: subgradients by finite differences, block minima, and the source run uncompiled."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from credo.inference.bounds.decomposition import Decomposition
from credo.inference.problem.base import Problem
from credo.kernels import decoding
from credo.kernels import dual_decomposition as kernel
from inference.map_models import random_model

KINDS = [(2, 0.0), (3, 0.3)]


def terms(seed: int, arity: int, zeros: float) -> tuple[Decomposition, np.ndarray]:
    graph = random_model(seed, arity, zeros)
    n = len(graph.variables)
    work = Decomposition.of(Problem(graph, np.zeros(n), np.zeros(n, dtype=np.int64)))
    return work, np.random.default_rng(seed).standard_normal(len(work.no_shifts()))


def plain_bound(work: Decomposition, shifts: np.ndarray) -> float:
    """L by NumPy on whole tables."""
    t, total = work.terms, work.node.copy()
    value = 0.0
    for a in range(work.graph.n_factors):
        table = work.graph.log_table(a).copy()
        for k, e in enumerate(range(t.scope_start[a], t.scope_start[a + 1])):
            own = shifts[t.edge_state_start[e] : t.edge_state_start[e + 1]]
            shape = [1] * table.ndim
            shape[k] = -1
            table = table - own.reshape(shape)
            total[t.state_start[t.scope[e]] : t.state_start[t.scope[e] + 1]] += own
        value += table.max()
    for i in range(len(t.sizes)):
        value += total[t.state_start[i] : t.state_start[i + 1]].max()
    return value


@pytest.mark.parametrize(("arity", "zeros"), KINDS)
def test_the_bound_equals_the_plain_formula(arity, zeros):
    for seed in range(10):
        work, shifts = terms(seed, arity, zeros)
        expected = plain_bound(work, shifts)
        assert kernel.bound(work.terms, work.node, shifts) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize(("arity", "zeros"), KINDS)
def test_the_subgradient_is_the_slope_and_has_its_sign(arity, zeros):
    for seed in range(10):
        work, shifts = terms(seed, arity, zeros)
        slope = np.empty_like(shifts)
        value = kernel.subgradient(work.terms, work.node, shifts, slope)
        assert value == pytest.approx(plain_bound(work, shifts), abs=1e-10)
        for s in range(len(shifts)):  # at random shifts L is smooth: maxima are attained once
            step = np.zeros_like(shifts)
            step[s] = 1e-6
            rise = plain_bound(work, shifts + step) - plain_bound(work, shifts - step)
            assert rise / 2e-6 == pytest.approx(slope[s], abs=1e-6)


@pytest.mark.parametrize(("arity", "zeros"), KINDS)
def test_a_star_step_reaches_the_minimum_of_its_block(arity, zeros):
    work, shifts = terms(1, arity, zeros)
    t = work.terms
    for i in range(len(t.sizes)):
        order = np.array([i], dtype=np.int64)
        moved = shifts.copy()
        kernel.star_sweep(t, work.node, moved, order, 0.0)
        lowest = kernel.bound(t, work.node, moved)
        rng = np.random.default_rng(i)
        own = np.concatenate(
            [
                np.arange(t.edge_state_start[e], t.edge_state_start[e + 1])
                for e in t.neighbour_edge[t.neighbour_start[i] : t.neighbour_start[i + 1]]
            ]
            or [np.empty(0, np.int64)]
        )
        for scale in (1e-3, 0.1, 1.0):
            for _ in range(20):
                tried = moved.copy()
                tried[own] += scale * rng.standard_normal(len(own))
                assert kernel.bound(t, work.node, tried) >= lowest - 1e-10


def smoothed(work: Decomposition, shifts: np.ndarray, heat: float) -> float:
    """The smoothed bound by NumPy."""
    t, total, value = work.terms, work.node.copy(), 0.0

    def soft(x):
        return x.max() + heat * np.log(np.exp((x - x.max()) / heat).sum())

    for a in range(work.graph.n_factors):
        table = work.graph.log_table(a).copy()
        for k, e in enumerate(range(t.scope_start[a], t.scope_start[a + 1])):
            own = shifts[t.edge_state_start[e] : t.edge_state_start[e + 1]]
            shape = [1] * table.ndim
            shape[k] = -1
            table = table - own.reshape(shape)
            total[t.state_start[t.scope[e]] : t.state_start[t.scope[e] + 1]] += own
        value += soft(table.ravel())
    return value + sum(soft(total[a:b]) for a, b in itertools.pairwise(t.state_start))


@pytest.mark.parametrize(("arity", "zeros"), KINDS)
def test_smoothed_star_sweeps_lower_the_smoothed_bound_to_its_minimum(arity, zeros):
    work, shifts = terms(2, arity, zeros)
    order, heat = work.plan.order, 0.5
    before = smoothed(work, shifts, heat)
    for _ in range(300):
        kernel.star_sweep(work.terms, work.node, shifts, order, heat)
        now = smoothed(work, shifts, heat)
        assert now <= before + 1e-10
        before = now
    for s in range(len(shifts)):
        step = np.zeros_like(shifts)
        step[s] = 1e-5
        slope = (smoothed(work, shifts + step, heat) - smoothed(work, shifts - step, heat)) / 2e-5
        assert abs(slope) < 1e-3


@pytest.mark.parametrize(("arity", "zeros"), KINDS)
def test_reach_is_the_largest_reduced_entry(arity, zeros):
    work, shifts = terms(4, arity, zeros)
    t = work.terms
    for e in range(len(t.scope)):
        a = int(t.edge_factor[e])
        table, axis = work.graph.log_table(a).copy(), e - int(t.scope_start[a])
        for k, f in enumerate(range(t.scope_start[a], t.scope_start[a + 1])):
            if f != e:
                shape = [1] * table.ndim
                shape[k] = -1
                table = table - shifts[t.edge_state_start[f] : t.edge_state_start[f + 1]].reshape(shape)
        expected = table.max(axis=tuple(k for k in range(table.ndim) if k != axis))
        np.testing.assert_allclose(kernel.reach(t, e, shifts), expected, atol=1e-12)


@pytest.mark.parametrize(("arity", "zeros"), KINDS)
def test_the_source_runs_uncompiled_with_the_same_result(arity, zeros):
    work, shifts = terms(5, arity, zeros)
    t, p = work.terms, work.plan
    calls = [
        (kernel.star_sweep, (p.order, 0.0)),
        (kernel.star_sweep, (p.order, 0.3)),
        (kernel.mplp_sweep, (False,)),
        (kernel.mplp_sweep, (True,)),
        (kernel.sequential_sweep, (p.order, p.is_first, p.is_last, p.forward, p.backward, False)),
    ]
    for function, rest in calls:
        one, two = shifts.copy(), shifts.copy()
        function(t, work.node, one, *rest)
        function.py_func(t, work.node, two, *rest)
        np.testing.assert_allclose(one, two, atol=1e-12)
    states = decoding.decode(t, work.node, shifts, p.order, False)
    np.testing.assert_array_equal(states, decoding.decode.py_func(t, work.node, shifts, p.order, False))


def test_climbing_ends_where_no_single_change_helps():
    for seed in range(10):
        work, _ = terms(seed, 2, 0.0)
        states = np.zeros(len(work.terms.sizes), dtype=np.int64)
        start = work.score(states)
        states, best = work.improve(states)
        assert best >= start
        for i, size in enumerate(work.terms.sizes.tolist()):
            for x in range(size):
                other = states.copy()
                other[i] = x
                assert work.score(other) <= best + 1e-9
