"""Elimination orders against a slow simulation on Python sets, and widths known from theory."""

from __future__ import annotations

from itertools import combinations, permutations
from itertools import pairwise as successive

import networkx as nx
import numpy as np
import pytest

import credo
from credo import FactorGraph
from credo.core.errors import OptionError, QueryError
from credo.structures import elimination_order, induced_width, is_chordal, primal_graph
from seeds import each_seed

GREEDY = ["min-fill", "weighted-min-fill", "min-degree", "min-size"]
ONCE = [*GREEDY, "maximum-cardinality"]
ALL = ["search", *ONCE]


def pairwise(sizes, edges):
    """A graph with one factor of ones per edge."""
    states = {f"x{i}": int(s) for i, s in enumerate(sizes)}
    factors = {(f"x{i}", f"x{j}"): np.ones((sizes[i], sizes[j])) for i, j in edges}
    return FactorGraph(states, factors)


def random_graph(seed, n=12, largest=4):
    rng = np.random.default_rng(seed)
    density = rng.uniform(0.05, 0.6)
    sizes = rng.integers(1, largest + 1, n)
    return pairwise(sizes, [e for e in combinations(range(n), 2) if rng.random() < density])


def grid(rows, columns, states=2):
    at = np.arange(rows * columns).reshape(rows, columns)
    edges = [*zip(at[:, :-1].ravel(), at[:, 1:].ravel(), strict=True)]
    edges += [*zip(at[:-1].ravel(), at[1:].ravel(), strict=True)]
    return pairwise([states] * rows * columns, edges)


def neighbours_of(graph):
    """Neighbour sets of the primal graph without one-state variables."""
    sizes = graph.variables.sizes
    around = {i: set() for i in range(len(sizes))}
    for a in range(graph.n_factors):
        scope = [int(i) for i in graph.scope_of(a) if sizes[i] > 1]
        for i, j in combinations(scope, 2):
            around[i].add(j)
            around[j].add(i)
    return around


def simulate(graph, order):
    """Cliques of an order by joining neighbour sets."""
    around = neighbours_of(graph)
    cliques = []
    for v in map(int, order):
        near = around.pop(v)
        cliques.append({v, *near})
        for u in near:
            around[u] |= near - {u}
            around[u].discard(v)
    return cliques


def exact_treewidth(graph):
    """Smallest width over all orders, by dynamic programming over sets of eliminated variables."""
    around = neighbours_of(graph)
    n = len(around)

    def degree(gone, v):
        # Neighbours of v once `gone` is eliminated: what it reaches through eliminated variables.
        seen, stack, found = {v}, [v], 0
        while stack:
            for u in around[stack.pop()] - seen:
                seen.add(u)
                if gone >> u & 1:
                    stack.append(u)
                else:
                    found += 1
        return found

    best = {0: 0}
    for _ in range(n):
        following = {}
        for gone, width in best.items():
            for v in range(n):
                if not gone >> v & 1:
                    key, value = gone | 1 << v, max(width, degree(gone, v))
                    if value < following.get(key, n):
                        following[key] = value
        best = following
    return best[2**n - 1]


@pytest.mark.parametrize("heuristic", ALL)
@each_seed(range(25))
def test_an_order_is_a_permutation_and_its_cost_equals_the_simulation(heuristic, seed):
    graph = random_graph(seed)
    order = elimination_order(graph, heuristic, seed=seed)
    assert sorted(order.order.tolist()) == list(range(12))
    assert (order.rank[order.order] == np.arange(12)).all()
    cliques = simulate(graph, order.order)
    sizes = graph.variables.sizes
    tables = [float(np.prod(sizes[list(c)])) for c in cliques]
    for k, clique in enumerate(cliques):
        found = order.clique[order.clique_start[k] : order.clique_start[k + 1]].tolist()
        assert found[0] == order.order[k]
        assert len(found) == len(clique) and set(found) == clique
    assert order.width == max(map(len, cliques)) - 1
    assert 2**order.log2_total == pytest.approx(sum(tables))
    assert 2**order.log2_largest == pytest.approx(max(tables))


@each_seed(range(10))
def test_a_given_order_is_costed_the_same_way(seed):
    graph = random_graph(seed)
    names = np.random.default_rng(seed).permutation(graph.variables.names).tolist()
    order = induced_width(graph, names)
    assert list(order) == names
    assert order.width == max(map(len, simulate(graph, order.order))) - 1


@pytest.mark.parametrize("heuristic", ["search", *GREEDY])
@each_seed(range(10))
def test_lower_levels_are_eliminated_first(heuristic, seed):
    graph = random_graph(seed)
    levels = np.random.default_rng(seed).integers(0, 3, 12)
    order = elimination_order(graph, heuristic, levels=levels, seed=seed)
    assert (np.diff(levels[order.order]) >= 0).all()
    assert sorted(order.order.tolist()) == list(range(12))
    cliques = simulate(graph, order.order)
    assert order.width == max(map(len, cliques)) - 1


def test_levels_can_force_a_wide_order():
    star = pairwise([2] * 8, [(0, i) for i in range(1, 8)])
    assert elimination_order(star).width == 1
    centre_first = np.array([0] + [1] * 7)
    forced = elimination_order(star, levels=centre_first)
    assert forced.width == 7
    assert forced.order[0] == 0


@pytest.mark.parametrize("heuristic", ALL)
def test_the_same_seed_gives_the_same_order(heuristic):
    graph = grid(5, 5)
    orders = [elimination_order(graph, heuristic, seed=s).order for s in (3, 3, 4, 5, 6)]
    np.testing.assert_array_equal(orders[0], orders[1])
    assert any((orders[0] != other).any() for other in orders[2:])


@pytest.mark.parametrize("heuristic", ALL)
@pytest.mark.parametrize("seed", range(5))
def test_trees_have_width_one(heuristic, seed):
    rng = np.random.default_rng(seed)
    tree = pairwise(rng.integers(2, 5, 40), [(int(rng.integers(i)), i) for i in range(1, 40)])
    assert elimination_order(tree, heuristic, seed=seed).width == 1


@pytest.mark.parametrize("heuristic", ["min-fill", "min-degree", "search"])
def test_cycles_have_width_two(heuristic):
    cycle = pairwise([3] * 9, [(i, (i + 1) % 9) for i in range(9)])
    assert elimination_order(cycle, heuristic).width == 2


@pytest.mark.parametrize("heuristic", ALL)
def test_a_complete_graph_has_one_clique_whatever_the_order(heuristic):
    complete = pairwise([2] * 7, combinations(range(7), 2))
    order = elimination_order(complete, heuristic)
    assert order.width == 6
    assert order.log2_largest == 7


def test_the_exact_treewidth_of_this_file_agrees_with_theory():
    assert exact_treewidth(grid(3, 3)) == 3
    assert exact_treewidth(pairwise([2] * 6, combinations(range(6), 2))) == 5
    assert exact_treewidth(pairwise([2] * 8, [(i, i + 1) for i in range(7)])) == 1


@pytest.mark.parametrize("n", [3, 4, 5, 6, 8])
@pytest.mark.parametrize("heuristic", ["search", "min-fill", "weighted-min-fill", "min-size"])
def test_a_square_grid_has_at_least_its_side_as_width(heuristic, n):
    width = elimination_order(grid(n, n), heuristic).width
    assert n <= width <= n + 3
    if heuristic == "search" and n <= 6:
        assert width <= n + 1


@each_seed(range(12))
def test_no_order_beats_the_exact_treewidth_and_the_search_is_close(seed):
    graph = random_graph(seed, n=9)
    least = exact_treewidth(graph)
    for heuristic in ALL:
        assert elimination_order(graph, heuristic).width >= least
    assert elimination_order(graph, effort=100).width <= least + 1


@pytest.mark.parametrize("seed", range(6))
def test_the_search_comes_close_to_the_cheapest_order_of_a_small_graph(seed):
    graph = random_graph(seed, n=6)
    sizes = graph.variables.sizes

    def cost(order):
        return sum(np.prod(sizes[list(c)]) for c in simulate(graph, order))

    least = min(map(cost, permutations(range(6))))
    found = 2 ** elimination_order(graph, effort=1000).log2_total
    assert least <= found * (1 + 1e-9) and found <= 1.1 * least


@each_seed(range(20))
def test_maximum_cardinality_adds_no_fill_to_a_chordal_graph(seed):
    rng = np.random.default_rng(seed)
    cliques, edges = [[0]], set()
    for i in range(1, 15):
        base = cliques[rng.integers(len(cliques))]
        chosen = rng.permutation(base)[: rng.integers(0, 4)].tolist()
        edges |= {(int(j), i) for j in chosen}
        cliques.append([*chosen, i])
    graph = pairwise([2] * 15, sorted(edges))
    assert is_chordal(primal_graph(graph))
    for heuristic in ("maximum-cardinality", "min-fill"):
        order = elimination_order(graph, heuristic, seed=seed)
        filled = {tuple(sorted(pair)) for c in simulate(graph, order.order) for pair in combinations(c, 2)}
        assert filled == {tuple(sorted(e)) for e in edges}
        assert order.width == max(map(len, nx.find_cliques(primal_graph(graph).to_networkx()))) - 1


def test_one_state_variables_cost_nothing_and_join_nothing():
    # A hub of one state in the middle of a star, and a chain held together by one.
    hub = pairwise([1, 2, 3, 4], [(0, 1), (0, 2), (0, 3)])
    order = elimination_order(hub)
    assert order.width == 0
    assert 2**order.log2_total == pytest.approx(1 + 2 + 3 + 4)
    three_way = FactorGraph({"a": 2, "b": 1, "c": 2}, {("a", "b", "c"): np.ones((2, 1, 2))})
    assert elimination_order(three_way).width == 1


@each_seed(range(15))
def test_the_search_is_never_worse_than_min_fill(seed):
    graph = random_graph(seed, n=14, largest=3)
    searched = elimination_order(graph, "search", seed=seed)
    assert searched.log2_total <= elimination_order(graph, "min-fill", seed=seed).log2_total + 1e-9


def test_more_effort_is_never_worse():
    graph = grid(9, 9)
    costs = [elimination_order(graph, effort=e).log2_total for e in (0, 0.1, 1, 10)]
    assert all(a >= b for a, b in successive(costs))


@pytest.mark.parametrize("heuristic", ALL)
def test_empty_and_disconnected_graphs_have_orders(heuristic):
    empty = elimination_order(FactorGraph({}), heuristic)
    assert (len(empty.order), empty.width, empty.log2_total, empty.log2_largest) == (0, 0, 0, 0)
    lone = elimination_order(FactorGraph({"a": 3, "b": 1, "c": 2}), heuristic)
    assert sorted(lone) == ["a", "b", "c"]
    assert (lone.width, 2**lone.log2_total, lone.log2_largest) == (
        0,
        pytest.approx(6),
        pytest.approx(np.log2(3)),
    )
    parts = pairwise([2] * 6, [(0, 1), (1, 2), (2, 0), (3, 4)])
    assert elimination_order(parts, heuristic).width == 2


def test_factors_without_scope_change_nothing():
    plain = FactorGraph({"a": 2, "b": 2}, {("a", "b"): np.ones((2, 2))})
    constant = FactorGraph({"a": 2, "b": 2}, {("a", "b"): np.ones((2, 2)), (): 3.0})
    assert elimination_order(plain).order.tolist() == elimination_order(constant).order.tolist()


def test_a_long_chain_is_ordered_without_recursion():
    n = 20_000
    scopes = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
    order = elimination_order(FactorGraph.from_arrays(np.full(n, 2), (scopes, np.ones((2, 2)))))
    assert order.width == 1
    assert 2**order.log2_total == pytest.approx(4 * (n - 1) + 2)


def test_an_order_shows_its_cost():
    order = elimination_order(credo.datasets.asia().to_factor_graph())
    tables = sum(2 ** len(c) for c in simulate(credo.datasets.asia().to_factor_graph(), order.order))
    assert repr(order) == (
        f"EliminationOrder(8 variables, width 2, largest table 2^3.0, all tables 2^{np.log2(tables):.1f})"
    )


def test_wrong_arguments_are_refused_in_a_sentence():
    graph = grid(2, 2)
    with pytest.raises(
        OptionError, match=r"heuristic must be one of \['max.*'weighted-min-fill'\], got 'best'"
    ):
        elimination_order(graph, "best")
    with pytest.raises(OptionError, match="effort must be at least 0, got -1"):
        elimination_order(graph, effort=-1)
    with pytest.raises(
        QueryError, match="maximum-cardinality: expected one level, got several; use min-fill"
    ):
        elimination_order(graph, "maximum-cardinality", levels=np.array([0, 1, 0, 0]))
    with pytest.raises(QueryError, match="order: expected each of the 4 variables once, got 2 names"):
        induced_width(graph, ["x0", "x1"])
    with pytest.raises(QueryError, match="order: expected each of the 4 variables once, got 4 names"):
        induced_width(graph, ["x0", "x1", "x1", "x2"])
