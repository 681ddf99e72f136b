"""Junction trees of many random graphs, with NetworkX as the oracle for cliques and spanning trees."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import networkx as nx
import numpy as np
import pytest

import credo
from credo import FactorGraph
from credo.core.errors import ModelError
from credo.structures import elimination_order, induced_width, junction_tree
from seeds import each_seed
from zoo import ZOO

EMPTY = np.empty(0, dtype=np.int64)


def random_graph(seed):
    """Factors of one to four variables, with one-state variables, isolated ones and several parts."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 16))
    sizes = rng.integers(1, 4, n)
    names = [f"x{i}" for i in range(n)]
    factors = {}
    for _ in range(int(rng.integers(0, 2 * n))):
        scope = rng.permutation(n)[: int(rng.integers(1, min(4, n) + 1))]
        factors[tuple(names[i] for i in scope)] = np.ones(sizes[scope])
    return FactorGraph(dict(zip(names, sizes.tolist(), strict=True)), factors)


def triangulated(graph, order):
    """The filled graph of an order, over variables with more than one state."""
    filled = nx.Graph()
    sizes = graph.variables.sizes
    filled.add_nodes_from(range(len(sizes)))
    for a in range(graph.n_factors):
        filled.add_edges_from(combinations([int(i) for i in graph.scope_of(a) if sizes[i] > 1], 2))
    left = filled.copy()
    for v in map(int, order.order):
        pairs = list(combinations(left[v], 2))
        left.add_edges_from(pairs)
        filled.add_edges_from(pairs)
        left.remove_node(v)
    return filled


def links(tree):
    return [(c, int(p)) for c, p in enumerate(tree.parent) if p >= 0]


def is_connected_everywhere(tree):
    """Running intersection by definition: the cliques around each variable form a connected subtree."""
    forest = nx.Graph(links(tree))
    forest.add_nodes_from(range(len(tree.cliques)))
    for i in range(len(tree.graph.variables)):
        holders = [c for c, members in enumerate(tree.cliques) if i in members]
        if not holders or not nx.is_connected(forest.subgraph(holders)):
            return False
    return len(forest) == 0 or nx.is_forest(forest)


@pytest.mark.parametrize("heuristic", ["search", "min-degree", "maximum-cardinality"])
@each_seed(range(120))
def test_a_random_graph_gives_a_junction_tree_of_maximal_cliques(seed, heuristic):
    graph = random_graph(seed)
    order = elimination_order(graph, heuristic, seed=seed)
    tree = junction_tree(graph, order)
    tree.check_running_intersection()
    assert is_connected_everywhere(tree)

    filled = triangulated(graph, order)
    assert nx.is_chordal(filled)
    expected = {frozenset(c) for c in nx.find_cliques(filled)}
    assert len(tree.cliques) == len(expected)
    assert {frozenset(c.tolist()) for c in tree.cliques} == expected
    assert tree.width == order.width == max(map(len, expected)) - 1

    weighted = nx.Graph()
    weighted.add_nodes_from(range(len(tree.cliques)))
    for c, d in combinations(range(len(tree.cliques)), 2):
        shared = len(np.intersect1d(tree.cliques[c], tree.cliques[d]))
        if shared:
            weighted.add_edge(c, d, weight=shared)
    best = nx.maximum_spanning_tree(weighted).size(weight="weight")
    assert sum(map(len, tree.separators)) == best
    assert len(links(tree)) == len(tree.cliques) - nx.number_connected_components(filled)


@each_seed(range(120))
def test_every_factor_lies_inside_the_clique_it_is_assigned_to(seed):
    graph = random_graph(seed)
    tree = junction_tree(graph)
    assert len(tree.factor_clique) == graph.n_factors
    for a, c in enumerate(tree.factor_clique):
        scope = [i for i in graph.scope_of(a) if graph.variables.sizes[i] > 1]
        assert set(scope) <= set(tree.cliques[c].tolist())


@each_seed(range(40))
def test_any_given_order_gives_a_junction_tree(seed):
    graph = random_graph(seed)
    order = induced_width(graph, np.random.default_rng(seed).permutation(graph.variables.names).tolist())
    tree = junction_tree(graph, order)
    tree.check_running_intersection()
    assert is_connected_everywhere(tree)
    assert {frozenset(c.tolist()) for c in tree.cliques} == {
        frozenset(c) for c in nx.find_cliques(triangulated(graph, order))
    }


@pytest.mark.parametrize("case", ZOO, ids=lambda c: c.id)
def test_the_zoo_has_junction_trees(case):
    tree = junction_tree(case.graph)
    tree.check_running_intersection()
    assert is_connected_everywhere(tree)


def test_separators_are_the_shared_variables_and_roots_have_none():
    tree = junction_tree(credo.datasets.asia().to_factor_graph())
    for c, p in enumerate(tree.parent):
        shared = np.intersect1d(tree.cliques[c], tree.cliques[p]) if p >= 0 else EMPTY
        np.testing.assert_array_equal(tree.separators[c], shared)
        assert (np.diff(tree.cliques[c]) > 0).all()


def test_disconnected_parts_give_a_forest():
    table = np.ones((2, 2))
    graph = FactorGraph(dict.fromkeys("abcde", 2), {("a", "b"): table, ("b", "c"): table, ("d", "e"): table})
    tree = junction_tree(graph)
    assert len(tree.cliques) == 3
    assert (tree.parent < 0).sum() == 2
    assert sorted(tree.names(c) for c in range(3)) == [("a", "b"), ("b", "c"), ("d", "e")]


def test_no_variables_give_no_cliques():
    tree = junction_tree(FactorGraph({}, {(): 2.0}))
    assert tree.cliques == ()
    assert tree.width == 0
    assert tree.factor_clique.tolist() == [-1]
    tree.check_running_intersection()


def chain_of_three():
    table = np.ones((2, 2))
    graph = FactorGraph(dict.fromkeys("abcd", 2), {("a", "b"): table, ("b", "c"): table, ("c", "d"): table})
    return junction_tree(graph)


def test_the_check_finds_a_variable_whose_cliques_are_apart():
    tree = chain_of_three()
    ab, bc, cd = (
        next(c for c in range(3) if tree.names(c) == n) for n in [("a", "b"), ("b", "c"), ("c", "d")]
    )
    # The end cliques are joined to each other; c is then in two places that do not touch.
    parent = np.empty(3, dtype=np.int64)
    parent[[ab, bc, cd]] = cd, ab, -1
    separators = [EMPTY] * 3
    separators[bc] = np.array([1])
    broken = replace(tree, parent=parent, separators=tuple(separators))
    assert not is_connected_everywhere(broken)
    with pytest.raises(ModelError, match="junction tree: the cliques of variable 'c' are not connected"):
        broken.check_running_intersection()


def test_the_check_finds_a_separator_that_is_not_the_intersection():
    tree = chain_of_three()
    separators = tuple(EMPTY for _ in tree.separators)
    with pytest.raises(ModelError, match="a separator differs from the intersection of its cliques"):
        replace(tree, separators=separators).check_running_intersection()


def test_the_check_finds_a_variable_without_a_clique():
    tree = chain_of_three()
    cliques = tuple(c[c != 0] for c in tree.cliques)
    with pytest.raises(ModelError, match="the cliques of variable 'a' are not connected"):
        replace(tree, cliques=cliques).check_running_intersection()
