"""Undirected and directed graphs as arrays, against NetworkX and plain sets."""

from __future__ import annotations

import sys
from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array, csgraph

from credo import FactorGraph
from credo.core.errors import MissingExtraError, ModelError, QueryError
from credo.structures import (
    DirectedGraph,
    UndirectedGraph,
    connected_components,
    moralise,
    primal_graph,
)
from credo.structures.graph import component_labels
from seeds import each_seed


@st.composite
def scopes(draw):
    n = draw(st.integers(0, 9))
    groups = st.lists(st.integers(0, n - 1), max_size=min(n, 5), unique=True) if n else st.just([])
    return n, draw(st.lists(groups, max_size=8))


@st.composite
def parent_maps(draw):
    n = draw(st.integers(0, 9))
    order = draw(st.permutations(range(n)))
    maps = {}
    for rank in range(n):
        chosen = draw(st.lists(st.integers(0, rank - 1), max_size=3, unique=True)) if rank else []
        maps[f"v{order[rank]}"] = [f"v{order[c]}" for c in chosen]
    names = draw(st.permutations(list(maps)))
    return {name: maps[name] for name in names}


def flat_graph(n, groups):
    start = np.concatenate([[0], np.cumsum([len(g) for g in groups])]).astype(int)
    sizes = np.full(n, 2)
    tables = np.zeros(sum(2 ** len(g) for g in groups))
    variables = FactorGraph.from_arrays(sizes).variables
    return FactorGraph.from_flat(variables, start, np.array([i for g in groups for i in g], int), tables)


def nx_of(graph):
    made = nx.Graph()
    made.add_nodes_from(graph.names)
    made.add_edges_from(graph.edges())
    return made


@given(scopes())
def test_the_primal_graph_joins_exactly_the_variables_that_share_a_factor(case):
    n, groups = case
    found = primal_graph(flat_graph(n, groups))
    expected = {tuple(sorted(pair)) for group in groups for pair in combinations(group, 2)}
    assert [tuple(e) for e in found.edge_positions.tolist()] == sorted(expected)
    assert len(found) == n
    # The checking constructor accepts what the fast one built.
    assert UndirectedGraph(found.names, found.start, found.neighbour) == found


@given(scopes())
def test_components_agree_with_networkx_and_count_up_by_lowest_member(case):
    n, groups = case
    found = primal_graph(flat_graph(n, groups))
    labels = connected_components(found)
    parts = sorted(sorted(int(name[1:]) for name in part) for part in nx.connected_components(nx_of(found)))
    assert [np.flatnonzero(labels == k).tolist() for k in range(len(parts))] == parts


@each_seed(range(20))
def test_components_of_long_paths_and_sparse_edges_agree_with_scipy(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 3000))
    path = rng.permutation(n)
    kept = rng.random(n - 1) < rng.choice([0.5, 0.99, 1.0])
    i, j = path[:-1][kept], path[1:][kept]
    matrix = coo_array((np.ones(len(i)), (i, j)), shape=(n, n))
    count, other = csgraph.connected_components(matrix, directed=False)
    labels = component_labels(n, i, j)
    assert len(set(zip(labels.tolist(), other.tolist(), strict=True))) == count == labels.max() + 1
    _, first = np.unique(labels, return_index=True)
    assert (np.diff(first) > 0).all()  # labels count up by lowest member


@given(parent_maps())
def test_the_moral_graph_agrees_with_networkx(parents):
    directed = DirectedGraph.of(parents)
    expected = nx.moral_graph(directed.to_networkx())
    found = moralise(parents).to_networkx()
    assert set(found.nodes) == set(expected.nodes)
    assert {frozenset(e) for e in found.edges} == {frozenset(e) for e in expected.edges}


@given(parent_maps())
def test_a_directed_graph_keeps_its_mapping_and_orders_parents_first(parents):
    directed = DirectedGraph.of(parents)
    assert directed.parents == parents
    rank = {directed.names[i]: k for k, i in enumerate(directed.order)}
    assert all(rank[p] < rank[child] for child, group in parents.items() for p in group)
    assert DirectedGraph.of(directed) is directed
    assert set(directed.to_networkx().edges) == {(p, c) for c, group in parents.items() for p in group}
    again = DirectedGraph.from_networkx(directed.to_networkx())
    assert {k: set(v) for k, v in again.parents.items()} == {k: set(v) for k, v in parents.items()}


@given(parent_maps())
def test_families_list_the_parents_and_then_the_child(parents):
    directed = DirectedGraph.of(parents)
    start, member = directed.families
    for i, (child, group) in enumerate(parents.items()):
        assert [directed.names[j] for j in member[start[i] : start[i + 1]]] == [*group, child]


def test_graphs_travel_to_networkx_and_back_with_isolated_variables():
    graph = UndirectedGraph.from_edges([("b", "a"), ("c", "a")], names=["a", "b", "c", "alone"])
    assert UndirectedGraph.from_networkx(graph.to_networkx()) == graph
    assert graph.neighbours("a") == ("b", "c")
    assert graph.neighbours("alone") == ()
    assert graph.degrees.tolist() == [2, 1, 1, 0]
    assert repr(graph) == "UndirectedGraph(4 variables, 2 edges)"
    numbered = UndirectedGraph.from_networkx(nx.path_graph(3))
    assert numbered.edges() == [("0", "1"), ("1", "2")]


def test_repeated_edges_are_one_edge():
    graph = UndirectedGraph.from_edges([("a", "b"), ("b", "a"), ("a", "b")])
    assert graph.edges() == [("a", "b")]
    assert graph.n_edges == 1


def test_edges_are_found_by_position():
    graph = UndirectedGraph.from_edges([("a", "b"), ("b", "c")])
    assert graph.contains(np.array([0, 1, 0]), np.array([1, 0, 2])).tolist() == [True, True, False]
    assert UndirectedGraph.from_edges([], names="ab").contains([0], [1]).tolist() == [False]


def test_the_empty_graph_is_a_graph():
    graph = UndirectedGraph.from_edges([])
    assert (len(graph), graph.n_edges, graph.edges()) == (0, 0, [])
    assert connected_components(graph).tolist() == []
    assert len(moralise({})) == 0
    assert len(primal_graph(FactorGraph({}))) == 0


def test_a_million_pairwise_factors_have_a_primal_graph():
    n = 500_000
    ring = np.stack([np.arange(n), (np.arange(n) + 1) % n], axis=1)
    graph = FactorGraph.from_arrays(np.full(n, 2), (np.concatenate([ring, ring[:, ::-1]]), np.ones((2, 2))))
    found = primal_graph(graph)
    assert found.n_edges == n
    assert (found.degrees == 2).all()
    assert connected_components(found).max() == 0
    assert found.position("x499999") == 499_999


def test_equality_looks_at_names_and_edges():
    ab = UndirectedGraph.from_edges([("a", "b")])
    assert ab != UndirectedGraph.from_edges([("a", "c")])
    assert ab != UndirectedGraph.from_edges([], names="ab")
    assert ab != "ab"
    assert DirectedGraph.of({"a": [], "b": ["a"]}) == DirectedGraph.of({"a": [], "b": "a"})
    assert DirectedGraph.of({"a": [], "b": ["a"]}) != DirectedGraph.of({"a": [], "b": []})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: UndirectedGraph.from_edges([("a", "a")]), r"expected two different ends, got 'a' twice"),
        (lambda: UndirectedGraph.from_edges(["ab"]), r"edges: expected pairs of names, got 'ab'"),
        (lambda: UndirectedGraph.from_edges([("a", "b", "c")]), r"edges: expected pairs of names"),
        (lambda: UndirectedGraph.from_edges([], names="aba"), r"variable 'a' is named twice"),
        (lambda: UndirectedGraph.from_positions("ab", [0], [2]), r"positions in \[0, 2\), got 2"),
        (
            lambda: UndirectedGraph.from_positions("ab", [0, 1], [1]),
            r"as many first as second ends, got 2 and 1",
        ),
        (lambda: UndirectedGraph("ab", [0, 1], [1]), r"expected 3 rising starts from 0 to 1, got 2"),
        (
            lambda: UndirectedGraph("ab", [0, 1, 2], [1, 2]),
            r"neighbour lists: expected positions in \[0, 2\)",
        ),
        (lambda: UndirectedGraph("ab", [0, 1, 2], [0, 1]), r"expected no self loops"),
        (lambda: UndirectedGraph("ab", [0, 2, 4], [1, 1, 0, 0]), r"sorted lists without repeats"),
        (lambda: UndirectedGraph("ab", [0, 1, 1], [1]), r"expected every edge from both ends"),
        (lambda: UndirectedGraph.from_networkx(nx.DiGraph()), r"expected an undirected NetworkX graph"),
        (lambda: DirectedGraph.from_networkx(nx.Graph()), r"expected a directed NetworkX graph"),
        (lambda: DirectedGraph.of(["a"]), r"parents: expected a mapping child -> parents, got \['a'\]"),
        (lambda: DirectedGraph.of({"a": None}), r"parents of 'a': expected a list of names, got None"),
        (lambda: DirectedGraph.of({"a": ["b"]}), r"parents of 'a': no variable named 'b'; every variable"),
        (lambda: DirectedGraph.of({"a": [["b"]]}), r"parents of 'a': no variable named \['b'\]"),
        (lambda: DirectedGraph.of({"a": [], "b": ["a", "a"]}), r"expected different names, got \['a', 'a'\]"),
        (lambda: DirectedGraph.of({"a": ["a"]}), r"expected no directed cycle, got a -> a"),
        (
            lambda: DirectedGraph.of({"r": [], "a": ["c", "r"], "b": ["a"], "c": ["b"], "d": ["c"]}),
            r"expected no directed cycle, got a -> b -> c -> a|b -> c -> a -> b|c -> a -> b -> c",
        ),
        (
            lambda: DirectedGraph.of({str(i): [str((i + 1) % 12)] for i in range(12)}),
            r"expected no directed cycle, got (\d+ -> ){8}\.\.\.",
        ),
    ],
)
def test_wrong_graphs_are_refused_with_a_sentence(make, message):
    with pytest.raises(ModelError, match=message):
        make()


def test_unknown_names_are_refused_with_a_hint():
    graph = UndirectedGraph.from_edges([("rain", "wet")])
    with pytest.raises(QueryError, match="no variable named 'rian'; did you mean 'rain'"):
        graph.neighbours("rian")
    with pytest.raises(QueryError, match="no variable named 'snow'"):
        UndirectedGraph.from_edges([("rain", "snow")], names=["rain"])


def test_a_missing_networkx_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(MissingExtraError, match=r"needs networkx; install credo\[plot\]"):
        UndirectedGraph.from_edges([("a", "b")]).to_networkx()
