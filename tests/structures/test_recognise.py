"""Recognisers against NetworkX on the bipartite graph, and the documented conventions."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
import numpy as np

import credo
from credo import FactorGraph
from credo.structures import (
    DirectedGraph,
    UndirectedGraph,
    bipartition,
    chain_order,
    immoralities,
    independencies,
    is_binary,
    is_bipartite,
    is_chain,
    is_dag_representable,
    is_directed_tree,
    is_forest,
    is_pairwise,
    is_polytree,
    is_tree,
    is_undirected_representable,
    moralise,
    primal_graph,
    without_constants,
)
from seeds import each_seed


def random_factor_graph(rng):
    n = int(rng.integers(1, 8))
    sizes = rng.choice([1, 2, 2, 3], n)
    scopes = [
        rng.choice(n, min(n, int(rng.integers(0, 4))), replace=False) for _ in range(rng.integers(0, 7))
    ]
    return FactorGraph.from_flat(
        FactorGraph.from_arrays(sizes).variables,
        np.concatenate([[0], np.cumsum([len(s) for s in scopes])]),
        np.concatenate([np.empty(0, int), *scopes]),
        np.zeros(sum(int(np.prod(sizes[s])) for s in scopes)),
    )


def bipartite_oracle(graph):
    """Variables and factors without constants and without empty factors."""
    free = {int(i) for i in np.flatnonzero(graph.variables.sizes > 1)}
    made = nx.Graph()
    made.add_nodes_from(("v", i) for i in free)
    for a in range(graph.n_factors):
        made.add_edges_from((("v", int(i)), ("f", a)) for i in graph.scope_of(a) if int(i) in free)
    return made


@each_seed(range(200))
def test_factor_graph_recognisers_agree_with_networkx(seed):
    graph = random_factor_graph(np.random.default_rng(seed))
    oracle = bipartite_oracle(graph)
    forest = len(oracle) == 0 or nx.is_forest(oracle)
    assert is_forest(graph) == forest
    assert is_tree(graph) == (forest and (len(oracle) == 0 or nx.is_connected(oracle)))
    small = without_constants(graph)
    assert is_forest(small) == forest
    primal = primal_graph(small)
    assert is_bipartite(graph) == nx.is_bipartite(primal.to_networkx())
    assert is_pairwise(graph) == all(len(small.scope_of(a)) <= 2 for a in range(small.n_factors))
    path = len(primal) < 2 or (nx.is_tree(primal.to_networkx()) and primal.degrees.max() <= 2)
    assert is_chain(graph) == (path and is_tree(graph) and is_pairwise(graph))


@each_seed(range(60))
def test_undirected_recognisers_agree_with_networkx(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 8))
    names = [f"v{i}" for i in range(n)]
    edges = [e for e in combinations(names, 2) if rng.random() < 1.2 / n]
    graph = UndirectedGraph.from_edges(edges, names=names)
    other = graph.to_networkx()
    assert is_forest(graph) == nx.is_forest(other)
    assert is_tree(graph) == nx.is_tree(other)
    assert is_bipartite(graph) == nx.is_bipartite(other)
    colours = bipartition(graph)
    if colours is not None:
        assert set(np.unique(colours)) <= {0, 1}
        assert all(colours[i] != colours[j] for i, j in graph.edge_positions)
        assert all(
            colours[min(graph.position(v) for v in part)] == 0 for part in nx.connected_components(other)
        )


def test_a_shuffled_path_is_put_in_order():
    rng = np.random.default_rng(1)
    way = rng.permutation(50)
    graph = FactorGraph.from_arrays(
        np.full(50, 3),
        (np.stack([way[:-1], way[1:]], axis=1), np.ones((3, 3))),
        (np.arange(50)[:, None], np.ones(3)),
    )
    order = chain_order(graph)
    assert order.tolist() in (way.tolist(), way[::-1].tolist())
    assert order[0] < order[-1]
    assert is_chain(graph)


def test_what_is_no_chain():
    star = FactorGraph.from_arrays(np.full(4, 2), ([[0, 1], [0, 2], [0, 3]], np.ones((2, 2))))
    twice = FactorGraph.from_arrays(np.full(2, 2), ([[0, 1], [1, 0]], np.ones((2, 2))))
    wide = FactorGraph.from_arrays(np.full(3, 2), ([[0, 1, 2]], np.ones((2, 2, 2))))
    apart = FactorGraph.from_arrays(np.full(2, 2))
    for graph in (star, twice, wide, apart):
        assert chain_order(graph) is None
    assert is_tree(star) and is_tree(wide)
    # Two factors over one pair are a loop of the factor graph, though not of its primal graph.
    assert not is_forest(twice) and is_tree(primal_graph(twice))
    assert is_forest(apart) and not is_tree(apart)


def test_a_constant_cuts_a_loop():
    ring = [[0, 1], [1, 2], [2, 3], [3, 0]]
    loopy = FactorGraph.from_arrays(np.full(4, 2), (ring, np.ones((2, 2))))
    assert not is_forest(loopy)
    assert is_bipartite(loopy)
    cut = loopy.condition({"x1": 0})
    assert is_tree(cut) and is_chain(cut)
    assert chain_order(cut).tolist() == [0, 3, 2]
    assert chain_order(without_constants(cut)).tolist() == [0, 2, 1]


def test_evidence_can_make_a_graph_pairwise_binary_and_bipartite():
    graph = FactorGraph({"a": 2, "b": 3, "c": 2}, {("a", "b", "c"): np.ones((2, 3, 2))})
    assert not is_pairwise(graph) and not is_binary(graph) and bipartition(graph) is None
    given = graph.condition({"b": 2})
    assert is_pairwise(given) and is_binary(given)
    assert bipartition(given).tolist() == [0, 0, 1]


def test_empty_and_tiny_graphs():
    for graph in (FactorGraph({}), FactorGraph({}, {(): 3.0}), UndirectedGraph.from_edges([])):
        assert is_tree(graph) and is_forest(graph) and is_chain(graph) and is_bipartite(graph)
        assert chain_order(graph).tolist() == []
    one = FactorGraph({"a": 2}, {"a": [1, 2], (): 1.0})
    assert is_tree(one) and is_pairwise(one) and is_binary(one)
    assert chain_order(one).tolist() == [0]
    constant = FactorGraph({"a": 1, "b": 1}, {("a", "b"): [[2.0]]})
    assert is_tree(constant) and chain_order(constant).tolist() == []
    assert is_polytree({}) and is_directed_tree({}) and immoralities({}) == []
    assert is_undirected_representable({})


def test_million_variable_trees_are_recognised():
    n = 1_000_000
    rng = np.random.default_rng(0)
    child = np.arange(1, n)
    tree = FactorGraph.from_arrays(
        np.full(n, 2), (np.stack([rng.integers(0, child), child], axis=1), np.ones((2, 2)))
    )
    assert is_tree(tree) and is_bipartite(tree) and not is_chain(tree)
    line = FactorGraph.from_arrays(np.full(n, 2), (np.stack([child - 1, child], axis=1), np.ones((2, 2))))
    assert np.array_equal(chain_order(line), np.arange(n))


# ---- directed graphs


def random_parents(rng, n, density):
    return {f"v{j}": [f"v{i}" for i in range(j) if rng.random() < density] for j in range(n)}


@each_seed(range(60))
def test_directed_recognisers_agree_with_their_definitions(seed):
    rng = np.random.default_rng(seed)
    parents = random_parents(rng, int(rng.integers(1, 7)), rng.uniform(0.1, 0.7))
    other = DirectedGraph.of(parents).to_networkx()
    assert is_polytree(parents) == nx.is_forest(other.to_undirected())
    assert is_directed_tree(parents) == all(d <= 1 for _, d in other.in_degree)
    expected = {
        (frozenset((a, b)), child)
        for child, group in parents.items()
        for a, b in combinations(group, 2)
        if not other.has_edge(a, b) and not other.has_edge(b, a)
    }
    found = immoralities(parents)
    assert {(frozenset((a, b)), child) for a, child, b in found} == expected
    assert len(found) == len(expected)
    assert is_undirected_representable(parents) == (not expected)


@each_seed(range(30))
def test_representable_means_the_same_statements(seed):
    rng = np.random.default_rng(seed)
    parents = random_parents(rng, 5, 0.5)
    same = set(independencies(parents)) == set(independencies(moralise(parents)))
    assert is_undirected_representable(parents) == same


@each_seed(range(12))
def test_an_undirected_graph_is_dag_representable_iff_some_dag_states_the_same(seed):
    rng = np.random.default_rng(seed)
    names = "abcd"
    edges = [e for e in combinations(names, 2) if rng.random() < 0.6]
    if seed == 0:
        edges = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")]
    graph = UndirectedGraph.from_edges(edges, names=names)
    wanted = set(independencies(graph))
    # A DAG with the same statements has the same skeleton, so all orientations of it are tried.
    found = False
    for flips in range(2 ** len(edges)):
        arrows = [e if flips >> k & 1 else e[::-1] for k, e in enumerate(edges)]
        if nx.is_directed_acyclic_graph(nx.DiGraph(arrows)):
            parents = {v: [a for a, b in arrows if b == v] for v in names}
            found = found or set(independencies(parents)) == wanted
    assert is_dag_representable(graph) == found


def test_shapes_of_graphs_with_factors_that_are_no_tables():
    x, y, s = credo.Variable("x", credo.Real()), credo.Variable("y", credo.Real()), credo.Variable("s", 2)
    factors = [
        credo.potentials.emission(x, s, [0.0, 1.0], 1.0),
        credo.potentials.laplace(x, y),
        credo.TableFactor([s], [0.4, 0.6]),
    ]
    tree = credo.HybridNet([x, y, s], factors).to_factor_graph()
    loop = credo.HybridNet([x, y, s], [*factors, credo.potentials.emission(y, s, 0.0, 1.0)])
    assert is_forest(tree)
    assert not is_forest(loop.to_factor_graph())
