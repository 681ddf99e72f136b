"""Binary join trees: the bookkeeping of every step, and the forecast against what is allocated."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from credo import FactorGraph
from credo.inference.problem.base import Problem
from credo.inference.problem.tree import climb, plan
from credo.structures import elimination_order
from credo.structures.join_tree import join_tree
from seeds import each_seed
from zoo import ZOO


def random_graph(seed):
    """Factors of zero to four variables, repeated scopes, one-state and isolated variables."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 13))
    sizes = rng.integers(1, 4, n)
    scopes = [
        rng.permutation(n)[: int(rng.integers(0, min(4, n) + 1))] for _ in range(int(rng.integers(0, 2 * n)))
    ]
    start = np.concatenate([[0], np.cumsum([len(s) for s in scopes])]).astype(np.int64)
    tables = [rng.standard_normal(int(np.prod(sizes[s]))) for s in scopes]
    variables = FactorGraph({f"x{i}": int(s) for i, s in enumerate(sizes)}).variables
    flat = np.concatenate([*scopes, np.empty(0)]).astype(np.int64)
    return FactorGraph.from_flat(variables, start, flat, np.concatenate([*tables, np.empty(0)]))


def made(graph, levels=None, keep=()):
    n = len(graph.variables)
    levels = np.zeros(n, dtype=np.int64) if levels is None else levels
    return join_tree(graph, elimination_order(graph, levels=levels), levels, keep)


def scope_of(tree, t):
    return tree.axes[tree.start[t] : tree.start[t + 1]].tolist()


def dropped(tree, s):
    return tree.drop[tree.drop_start[s] : tree.drop_start[s + 1]].tolist()


def random_levels(graph, seed):
    return np.random.default_rng(seed).integers(0, 3, len(graph.variables))


def random_keep(graph, seed):
    rng = np.random.default_rng(seed)
    free = np.flatnonzero(graph.variables.sizes > 1)
    return tuple(rng.permutation(free)[: int(rng.integers(0, 4))].tolist())


SEEDS = range(80)


@each_seed(SEEDS)
def test_every_tensor_is_used_at_most_once_and_after_it_is_made(seed):
    tree = made(random_graph(seed), keep=random_keep(random_graph(seed), seed))
    steps, leaves = len(tree.left), tree.n_leaves
    assert len(tree.start) - 1 == leaves + steps
    used = [*tree.left.tolist(), *tree.right[tree.right >= 0].tolist()]
    assert len(used) == len(set(used))
    for s in range(steps):
        assert tree.left[s] < leaves + s and tree.right[s] < leaves + s
    assert sorted([*used, *tree.roots.tolist()]) == list(range(leaves + steps))


@each_seed(SEEDS)
def test_every_factor_is_in_the_value_of_exactly_one_root(seed):
    graph = random_graph(seed)
    tree = made(graph)
    inside = [[a] for a in range(graph.n_factors)]
    for s in range(len(tree.left)):
        inside.append(inside[tree.left[s]] + (inside[tree.right[s]] if tree.right[s] >= 0 else []))
    gathered = [a for t in tree.roots for a in inside[t]]
    assert sorted(gathered) == list(range(graph.n_factors))


@each_seed(SEEDS)
def test_a_step_keeps_the_union_of_both_scopes_less_what_it_eliminates(seed):
    graph = random_graph(seed)
    tree = made(graph, keep=random_keep(graph, seed))
    sizes = graph.variables.sizes
    for a in range(graph.n_factors):
        assert sorted(scope_of(tree, a)) == sorted(i for i in graph.scope_of(a) if sizes[i] > 1)
    for s in range(len(tree.left)):
        union = set(scope_of(tree, tree.left[s]))
        union |= set(scope_of(tree, tree.right[s])) if tree.right[s] >= 0 else set()
        out = scope_of(tree, tree.n_leaves + s)
        assert len(out) == len(set(out))
        assert set(dropped(tree, s)) <= union
        assert set(out) == union - set(dropped(tree, s))


@each_seed(SEEDS)
def test_every_variable_is_eliminated_once_or_kept_or_lonely(seed):
    graph = random_graph(seed)
    keep = random_keep(graph, seed)
    tree = made(graph, keep=keep)
    gone, lonely = tree.drop.tolist(), tree.lonely.tolist()
    assert sorted([*gone, *lonely, *keep]) == list(range(len(graph.variables)))
    assert tree.kept.tolist() == list(keep)
    mentioned = {i for i in graph.scope.tolist() if graph.variables.sizes[i] > 1}
    assert set(lonely) == set(range(len(graph.variables))) - mentioned - set(keep)
    left_over = [i for t in tree.roots for i in scope_of(tree, t)]
    assert sorted(left_over) == sorted(set(keep) & mentioned)


@each_seed(SEEDS)
def test_no_variable_is_eliminated_while_another_tensor_still_mentions_it(seed):
    tree = made(random_graph(seed))
    alive = set(range(tree.n_leaves))
    for s in range(len(tree.left)):
        alive -= {int(tree.left[s]), int(tree.right[s])}
        for t in alive:
            assert not set(dropped(tree, s)) & set(scope_of(tree, t))
        alive.add(tree.n_leaves + s)


@each_seed(SEEDS)
def test_no_higher_level_is_eliminated_below_a_lower_one(seed):
    graph = random_graph(seed)
    levels = random_levels(graph, seed)
    tree = made(graph, levels)
    # A variable may only be eliminated from a tensor all of whose lower levels are gone already:
    # those of the same step have the same level, those left in the product have no lower one.
    highest = [-1] * tree.n_leaves
    for s in range(len(tree.left)):
        gone = dropped(tree, s)
        below = max(highest[tree.left[s]], highest[tree.right[s]] if tree.right[s] >= 0 else -1)
        if gone:
            assert len({int(levels[i]) for i in gone}) == 1
            assert levels[gone[0]] >= below
            assert all(levels[i] >= levels[gone[0]] for i in scope_of(tree, tree.n_leaves + s))
        highest.append(max([below, *(int(levels[i]) for i in gone)]))


@each_seed(SEEDS)
def test_sizes_and_operations_equal_a_plain_count(seed):
    graph = random_graph(seed)
    tree = made(graph, keep=random_keep(graph, seed))
    sizes = graph.variables.sizes
    entries = [int(np.prod(sizes[scope_of(tree, t)])) for t in range(len(tree.start) - 1)]
    np.testing.assert_array_equal(np.diff(tree.offset), entries)
    assert tree.entries == 1 + sum(entries)
    joint = [
        np.prod(sizes[scope_of(tree, tree.n_leaves + s) + dropped(tree, s)]) for s in range(len(tree.left))
    ]
    assert tree.operations == pytest.approx(sum(joint))


@pytest.mark.parametrize("case", ZOO, ids=lambda c: c.id)
def test_the_forecast_covers_what_is_allocated(case):
    n = len(case.names)
    problem = Problem(case.graph, np.ones(n), np.zeros(n, dtype=np.int64))
    forecast, tree = plan(problem, (), 1.0)
    up = climb(problem, tree)
    # All tensors, room for two adjoints, and the operands of one step permuted for a matrix product.
    sizes = np.diff(tree.offset)
    steps = [
        sizes[t] + (sizes[u] if u >= 0 else 0) + sizes[tree.n_leaves + s]
        for s, (t, u) in enumerate(zip(tree.left, tree.right, strict=True))
    ]
    peak = len(up.arena) + 2 * max(sizes, default=0) + max(steps, default=0)
    assert 2**forecast.log2_entries == pytest.approx(peak)
    assert forecast.gigabytes == pytest.approx(8 * peak / 2**30)
    assert 2**forecast.log2_operations == pytest.approx(max(tree.operations, 1))


@each_seed(SEEDS)
def test_the_home_of_a_variable_is_its_smallest_factor(seed):
    graph = random_graph(seed)
    tree = made(graph)
    owner = np.repeat(np.arange(graph.n_factors), np.diff(tree.scope_start))
    sizes = graph.table_size
    for i in range(len(graph.variables)):
        around = [a for a in range(graph.n_factors) if i in graph.scope_of(a)]
        if graph.variables.sizes[i] == 1 or not around:
            assert tree.home[i] == -1
        else:
            assert tree.scope[tree.home[i]] == i
            assert sizes[owner[tree.home[i]]] == min(sizes[a] for a in around)


def test_two_large_tensors_meet_in_one_product_instead_of_a_wide_table():
    # Two halves that share four variables: these are eliminated together where the halves meet.
    shared = [f"s{k}" for k in range(4)]
    states = dict.fromkeys([*shared, "a", "b"], 3)
    graph = FactorGraph(states, {("a", *shared): np.ones([3] * 5), ("b", *shared): np.ones([3] * 5)})
    tree = made(graph)
    together = max((dropped(tree, s) for s in range(len(tree.left))), key=len)
    assert set(together) >= set(range(4))
    assert np.diff(tree.offset).max() == 3**5


def test_a_table_no_machine_can_address_is_not_planned():
    complete = FactorGraph(
        {f"x{i}": 2 for i in range(50)},
        {(f"x{i}", f"x{j}"): np.ones((2, 2)) for i, j in combinations(range(50), 2)},
    )
    levels = np.zeros(50, dtype=np.int64)
    with pytest.raises(OverflowError, match="the tables of this order are too large to be planned"):
        join_tree(complete, elimination_order(complete, "min-fill"), levels)
