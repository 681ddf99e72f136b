"""Moves of costs keep every assignment's cost, and the trail takes them all back."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from credo.core.factor import TableFactor
from credo.core.factor_graph import FactorGraph
from credo.core.variable import Variable
from credo.inference.search.soft_network import NetworkPart, reduce_graph
from credo.kernels import soft_consistency as kernel
from credo.kernels.soft_consistency_nodes import OPEN, SEEN, compact, fresh_tree
from credo.kernels.soft_consistency_root import assignment_cost, decode, descend, sweep
from credo.kernels.soft_consistency_search import fresh_stack, search


def connected(seed: int, zeros: float) -> NetworkPart:
    """A small connected network with factors over two to four variables."""
    rng = np.random.default_rng(seed)
    variables = [Variable(f"x{i}", int(s)) for i, s in enumerate(rng.integers(2, 4, 6))]
    scopes = [(i, (i + 1) % 6) for i in range(6)] + [(0, 2, 4), (1, 2, 3, 5), (3,), (0,)]
    factors = []
    for scope in scopes:
        table = 2 * rng.standard_normal([variables[i].size for i in scope])
        table = np.where(rng.random(table.shape) < zeros, -np.inf, table)
        factors.append(TableFactor.from_log([variables[i] for i in scope], table))
    return reduce_graph(FactorGraph(variables, factors), degree=0).parts[0]


def fresh(part: NetworkPart) -> kernel.NetworkWork:
    work = kernel.fresh_work(part.net, trail=1 << 16)
    work.unary[:] = np.where(np.isinf(part.unary), 0.0, part.unary)
    for place in np.flatnonzero(np.isinf(part.unary)):
        i = int(np.searchsorted(part.net.state_start, place, side="right")) - 1
        kernel.remove(part.net, work, i, int(place - part.net.state_start[i]))
    return work


def assignments(part: NetworkPart) -> list[np.ndarray]:
    return [np.array(x) for x in itertools.product(*map(range, np.diff(part.net.state_start)))]


def moved_cost(part: NetworkPart, work: kernel.NetworkWork, x: np.ndarray) -> float:
    """Cost in the working form, by plain loops; infinite where a state is gone."""
    net, total = part.net, float(work.number[kernel.C0])
    for i, k in enumerate(x):
        if work.place[net.state_start[i] + k] >= work.size[i]:
            return np.inf
        total += work.unary[net.state_start[i] + k]
    for a in range(len(net.table_start)):
        at, shifts = net.table_start[a], 0.0
        for e in range(net.scope_start[a], net.scope_start[a + 1]):
            at += x[net.scope[e]] * net.stride[e]
            shifts += work.shift[net.edge_start[e] + x[net.scope[e]]]
        total += net.tables[at] - shifts
    return total


@pytest.mark.parametrize("zeros", [0.0, 0.2])
@pytest.mark.parametrize("seed", range(6))
def test_sweeps_keep_every_cost_and_raise_the_bound(seed: int, zeros: float):
    part = connected(seed, zeros)
    work = fresh(part)
    truth = [assignment_cost(part.net, part.unary, x) for x in assignments(part)]
    before = 0.0
    for forward in (True, False, True, False, True):
        if sweep(part.net, work, forward):
            assert min(truth) == np.inf
            return
        assert work.number[kernel.C0] >= before - 1e-12
        before = work.number[kernel.C0]
        assert before <= min(truth) + 1e-9
        moved = [moved_cost(part, work, x) for x in assignments(part)]
        np.testing.assert_allclose(moved, truth, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("gain", [0.0, 1e-3, 0.3])
@pytest.mark.parametrize("zeros", [0.0, 0.2])
@pytest.mark.parametrize("seed", range(4))
def test_a_cut_search_leaves_an_equivalent_network_and_true_bounds(seed: int, zeros: float, gain: float):
    """After any number of nodes: the root is back, and every cost below the upper bound is as it was."""
    part = connected(seed, zeros)
    work, tree, stack = fresh(part), fresh_tree(1 << 12), fresh_stack(part.net)
    truth = np.array([assignment_cost(part.net, part.unary, x) for x in assignments(part)])
    work.number[kernel.GAIN] = gain
    for _ in range(200):
        done = search(part.net, work, tree, stack, part.unary, 1 << 40, 2, 1e-13)
        assert done or not work.queued.any()
        assert work.tally[kernel.TRAIL] == 0
        upper = work.number[kernel.UPPER]
        if not done:
            assert tree.bound[tree.heap[0]] <= truth.min() + 1e-9 or upper <= truth.min() + 1e-9
            moved = np.array([moved_cost(part, work, x) for x in assignments(part)])
            below = truth < upper - 1e-9
            np.testing.assert_allclose(moved[below], truth[below], rtol=1e-9, atol=1e-9)
            compact(tree)
            continue
        assert upper == pytest.approx(truth.min(), abs=1e-9) or truth.min() == np.inf == upper
        assert tree.tally[OPEN] == 0
        return
    pytest.fail(f"not done after {tree.tally[SEEN]} nodes")


def test_undo_restores_costs_states_and_the_bound():
    part = connected(1, 0.0)
    work = fresh(part)
    sweep(part.net, work, True)
    kept = [np.copy(array) for array in (work.unary, work.shift, work.size, work.number)]
    tree, stack = fresh_tree(1 << 12), fresh_stack(part.net)
    before = [moved_cost(part, work, x) for x in assignments(part)]
    search(part.net, work, tree, stack, part.unary, 1 << 40, 1, 1e-13)
    after = [moved_cost(part, work, x) for x in assignments(part)]
    upper = work.number[kernel.UPPER]
    for old, new in zip(before, after, strict=True):
        assert new == pytest.approx(old, abs=1e-9) or old >= upper - 1e-9
    assert work.number[kernel.C0] >= kept[3][kernel.C0]


def test_decoding_and_descent_give_states_that_no_single_change_improves():
    part = connected(2, 0.0)
    work = fresh(part)
    for forward in (True, False):
        sweep(part.net, work, forward)
        x = np.zeros(len(part.variables), dtype=np.int64)
        decode(part.net, work, forward, x)
        descend(part.net, part.unary, x, 100)
        cost = assignment_cost(part.net, part.unary, x)
        for i in range(len(x)):
            for k in range(int(np.diff(part.net.state_start)[i])):
                y = x.copy()
                y[i] = k
                assert assignment_cost(part.net, part.unary, y) >= cost - 1e-9
