"""Cliques and chordality against NetworkX and brute force."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
import numpy as np

from credo import FactorGraph
from credo.structures import (
    UndirectedGraph,
    is_chordal,
    maximal_cliques,
    maximum_cardinality_search,
    perfect_elimination_order,
)
from seeds import each_seed


def random_graph(rng, n, density):
    names = [f"v{i}" for i in range(n)]
    edges = [pair for pair in combinations(names, 2) if rng.random() < density]
    return UndirectedGraph.from_edges(edges, names=names)


def random_chordal(rng, n, width):
    """Each new variable is joined to a clique of earlier ones: chordal, possibly in several parts."""
    cliques, edges = [[]], []
    for i in range(n):
        base = cliques[rng.integers(len(cliques))]
        chosen = rng.permutation(base)[: rng.integers(0, width + 1)].tolist() if base else []
        edges += [(f"v{j}", f"v{i}") for j in chosen]
        cliques.append([*chosen, i])
    return UndirectedGraph.from_edges(edges, names=[f"v{i}" for i in rng.permutation(n)])


def brute_force_cliques(graph):
    """Bitmasks of all cliques; keep those that are in no larger one."""
    n = len(graph)
    adjacent = [
        sum(1 << int(j) for j in graph.neighbour[graph.start[i] : graph.start[i + 1]]) for i in range(n)
    ]
    cliques = [
        s for s in range(1, 2**n) if all(s & ~(1 << i) & ~adjacent[i] == 0 for i in range(n) if s >> i & 1)
    ]
    return {s for s in cliques if not any(s != t and s & t == s for t in cliques)}


@each_seed(range(200))
def test_chordality_and_cliques_agree_with_networkx(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 13))
    graph = random_chordal(rng, n, 3) if seed % 2 else random_graph(rng, n, rng.uniform(0.1, 0.8))
    other = graph.to_networkx()
    assert is_chordal(graph) == nx.is_chordal(other)
    found = maximal_cliques(graph)
    assert len(found) == len(set(found))
    assert {frozenset(c) for c in found} == {frozenset(c) for c in nx.find_cliques(other)}
    position = {name: i for i, name in enumerate(graph.names)}
    assert all(list(c) == sorted(c, key=position.get) for c in found)


@each_seed(range(30))
def test_cliques_agree_with_brute_force(seed):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, int(rng.integers(1, 9)), 0.6)
    found = {sum(1 << graph.position(v) for v in clique) for clique in maximal_cliques(graph)}
    assert found == brute_force_cliques(graph)


@each_seed(range(40))
def test_a_perfect_order_has_no_fill_in(seed):
    rng = np.random.default_rng(seed)
    graph = random_chordal(rng, 12, 3)
    order = perfect_elimination_order(graph)
    left = graph.to_networkx()
    for i in order:
        around = list(left.neighbors(graph.names[i]))
        assert all(left.has_edge(a, b) for a, b in combinations(around, 2))
        left.remove_node(graph.names[i])
    assert sorted(order.tolist()) == list(range(12))


@each_seed(range(20))
def test_maximum_cardinality_search_visits_a_variable_with_most_visited_neighbours(seed):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 10, 0.3)
    visited = set()
    for i in maximum_cardinality_search(graph).tolist():
        count = [
            len(visited & set(graph.neighbour[graph.start[j] : graph.start[j + 1]].tolist()))
            for j in range(10)
        ]
        assert count[i] == max(count[j] for j in range(10) if j not in visited)
        visited.add(i)
    assert len(visited) == 10


def test_a_square_is_not_chordal_and_a_chord_mends_it():
    square = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")]
    assert not is_chordal(UndirectedGraph.from_edges(square))
    assert perfect_elimination_order(UndirectedGraph.from_edges(square)) is None
    assert is_chordal(UndirectedGraph.from_edges([*square, ("a", "c")]))


def test_empty_and_isolated_graphs():
    assert maximal_cliques(UndirectedGraph.from_edges([])) == []
    assert is_chordal(UndirectedGraph.from_edges([]))
    assert perfect_elimination_order(UndirectedGraph.from_edges([])).tolist() == []
    assert maximal_cliques(UndirectedGraph.from_edges([], names="ab")) == [("a",), ("b",)]
    square = UndirectedGraph.from_edges([("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")], names="zabcd")
    assert maximal_cliques(square) == [("z",), ("a", "b"), ("a", "d"), ("b", "c"), ("c", "d")]


def test_a_factor_graph_is_read_through_its_primal_graph():
    graph = FactorGraph(
        {"a": 2, "b": 2, "c": 2, "d": 2}, {("a", "b", "c"): np.ones(8), ("c", "d"): np.ones(4)}
    )
    assert maximal_cliques(graph) == [("a", "b", "c"), ("c", "d")]
    assert is_chordal(graph)


def test_long_graphs_are_searched_without_recursion():
    n = 20_000
    i = np.arange(n - 2)
    strip = UndirectedGraph.from_positions(
        [f"x{k}" for k in range(n)], np.concatenate([i, i, [n - 2]]), np.concatenate([i + 1, i + 2, [n - 1]])
    )
    assert is_chordal(strip)
    assert len(maximal_cliques(strip)) == n - 2
    ring = UndirectedGraph.from_positions(strip.names, np.arange(n), (np.arange(n) + 1) % n)
    assert not is_chordal(ring)
    assert len(maximal_cliques(ring)) == n


def test_a_complete_graph_and_a_cocktail_party():
    names = [f"v{i}" for i in range(10)]
    assert maximal_cliques(UndirectedGraph.from_edges(combinations(names, 2))) == [tuple(names)]
    # Five couples who do not speak to each other: every choice of one from each is maximal.
    pairs = [
        e for e in combinations(names, 2) if {int(e[0][1]) // 2, int(e[1][1]) // 2} != {int(e[0][1]) // 2}
    ]
    assert len(maximal_cliques(UndirectedGraph.from_edges(pairs))) == 32
