"""Impossible states and barren factors against brute force."""

from __future__ import annotations

import numpy as np
import pytest

from credo import FactorGraph, datasets
from credo.core.factor import TableFactor
from credo.core.variable import Variable
from credo.kernels.support import barren_factors, supported_states
from random_models import joint
from seeds import each_seed
from zoo import ZOO


def random_graph(seed, zeros=0.35, arities=(0, 1, 2, 3)):
    rng = np.random.default_rng(seed)
    variables = [Variable(f"x{i}", int(s)) for i, s in enumerate(rng.integers(1, 5, int(rng.integers(1, 7))))]
    factors = []
    for _ in range(int(rng.integers(1, 8))):
        scope = [variables[i] for i in rng.permutation(len(variables))[: int(rng.choice(arities))]]
        table = rng.random([v.size for v in scope]) + 0.1
        factors.append(TableFactor(scope, np.where(rng.random(table.shape) < zeros, 0.0, table)))
    return FactorGraph(variables, factors)


def flags(graph, run=supported_states):
    return run(
        graph.log_tables, graph.table_start, graph.scope_start, graph.scope, graph.variables.state_start
    )


def by_sweeping(graph):
    """Drop states without a positive entry, over all factors again and again until nothing changes."""
    keep = [np.ones(int(s), dtype=bool) for s in graph.variables.sizes]
    while True:
        before = [k.copy() for k in keep]
        for a in range(graph.n_factors):
            scope = graph.scope_of(a)
            possible = graph.log_table(a) > -np.inf
            for k, i in enumerate(scope):
                shape = [1] * len(scope)
                shape[k] = -1
                possible = possible & keep[i].reshape(shape)
            for k, i in enumerate(scope):
                keep[i] &= possible.any(axis=tuple(j for j in range(len(scope)) if j != k))
        if all((b == k).all() for b, k in zip(before, keep, strict=True)):
            return keep


def by_variable(graph, flat):
    return np.split(flat, graph.variables.state_start[1:-1]) if len(graph.variables) else []


@each_seed(range(150))
def test_supported_states_equal_sweeping_until_nothing_changes(seed):
    graph = random_graph(seed)
    found, expected = by_variable(graph, flags(graph)), by_sweeping(graph)
    if all(k.any() for k in expected):
        assert [k.tolist() for k in found] == [k.tolist() for k in expected]
    else:
        assert not all(k.any() for k in found)


@each_seed(range(60))
def test_no_possible_state_is_dropped(seed):
    graph = random_graph(seed, zeros=0.2)
    possible = joint(graph) > -np.inf
    found = by_variable(graph, flags(graph))
    if possible.any():
        for i, keep in enumerate(found):
            alive = possible.any(axis=tuple(j for j in range(possible.ndim) if j != i))
            assert (keep | ~alive).all()


@each_seed(range(30))
def test_on_a_chain_exactly_the_possible_states_are_kept(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 5, 6)
    tables = {
        (f"x{i}", f"x{i + 1}"): np.where(rng.random((sizes[i], sizes[i + 1])) < 0.4, 0.0, 1.0)
        for i in range(5)
    }
    graph = FactorGraph({f"x{i}": int(s) for i, s in enumerate(sizes)}, tables)
    possible = joint(graph) > -np.inf
    found = by_variable(graph, flags(graph))
    if not possible.any():
        assert not all(k.any() for k in found)
        return
    for i, keep in enumerate(found):
        np.testing.assert_array_equal(keep, possible.any(axis=tuple(j for j in range(6) if j != i)))


def test_a_dropped_state_takes_others_with_it():
    equal = np.eye(3)
    graph = FactorGraph(
        dict.fromkeys("abc", 3), {("a",): [1, 0, 1], ("a", "b"): equal, ("b", "c"): equal, ("c",): [1, 1, 0]}
    )
    assert flags(graph).tolist() == [True, False, False] * 3


@pytest.mark.parametrize("case", [c for c in ZOO if c.names], ids=lambda c: c.id)
def test_the_uncompiled_source_gives_the_same_flags(case):
    graph = case.graph
    np.testing.assert_array_equal(flags(graph), flags(graph, supported_states.py_func))


def barren(graph, wanted, run=barren_factors):
    return run(
        graph.log_tables, graph.table_start, graph.scope_start, graph.scope, graph.variables.sizes, wanted
    )


def ancestors(net, names):
    found, stack = set(), list(names)
    while stack:
        name = stack.pop()
        if name not in found:
            found.add(name)
            stack += net.parents[name]
    return found


@each_seed(range(25))
def test_in_a_bayesian_network_exactly_the_ancestors_stay(seed):
    rng = np.random.default_rng(seed)
    net = datasets.random_bayes_net(15, states=int(rng.integers(2, 4)), seed=seed)
    graph, names = net.to_factor_graph(), net.variables.names
    wanted = np.zeros(15, dtype=bool)
    wanted[rng.permutation(15)[: int(rng.integers(0, 4))]] = True
    stays, gone, constant = barren(graph, wanted)
    needed = ancestors(net, [n for n, w in zip(names, wanted, strict=True) if w])
    # Factor a belongs to the variable that is last in its scope.
    for a in range(graph.n_factors):
        assert stays[a] == (names[int(graph.scope_of(a)[-1])] in needed)
    assert {n for n, g in zip(names, gone, strict=True) if g} == set(names) - needed
    assert constant == pytest.approx(0, abs=1e-12)


@each_seed(range(40))
def test_what_is_left_has_the_same_wanted_marginals_and_the_constant_makes_up_for_log_z(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 4, 6)
    factors = {}
    for i in range(1, 6):
        j = int(rng.integers(i))
        table = rng.random((sizes[j], sizes[i])) + 0.1
        if rng.random() < 0.7:  # sums over the child are one number; sometimes not one
            table = rng.uniform(0.5, 3) * table / table.sum(axis=1, keepdims=True)
        factors[f"x{j}", f"x{i}"] = table
    graph = FactorGraph({f"x{i}": int(s) for i, s in enumerate(sizes)}, factors)
    wanted = rng.random(6) < 0.3
    stays, gone, constant = barren(graph, wanted)
    assert not (gone & wanted).any()
    weights = np.exp(joint(graph))
    rest = np.exp(joint(graph.select(np.flatnonzero(stays))))
    counted = np.prod(sizes[gone].astype(float))  # variables without factors count their states
    unwanted = tuple(np.flatnonzero(~wanted).tolist())
    np.testing.assert_allclose(
        rest.sum(axis=unwanted) / counted * np.exp(constant), weights.sum(axis=unwanted), rtol=1e-12
    )
    again = barren(graph, wanted, barren_factors.py_func)
    np.testing.assert_array_equal(again[0], stays)
    np.testing.assert_array_equal(again[1], gone)
    assert again[2] == pytest.approx(constant)


def test_a_factor_that_sums_to_zero_or_to_different_numbers_stays():
    graph = FactorGraph({"a": 2, "b": 2}, {("a", "b"): [[0.5, 0.5], [0.4, 0.5]]})
    assert barren(graph, np.array([True, False]))[0].tolist() == [True]
    never = FactorGraph({"a": 2}, {("a",): [0, 0]})
    assert barren(never, np.array([False]))[0].tolist() == [True]
    huge = FactorGraph.from_arrays([2], ([[0]], [[800.0, 800.0]]), log=True)
    assert barren(huge, np.array([False]))[0].tolist() == [True]
