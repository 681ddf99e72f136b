"""Join graphs: every factor in a cluster, separators inside clusters, junction trees at full width."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import credo
from credo.core.errors import OptionError
from credo.core.factor_graph import FactorGraph
from credo.structures import elimination_order
from credo.structures.join_graph import join_graph
from seeds import each_seed


def members(start, flat):
    return [set(flat[a:b].tolist()) for a, b in pairwise(start)]


def random_graph(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, 10)
    variables = [credo.Variable(f"x{i}", int(s)) for i, s in enumerate(sizes)]
    factors = []
    for _ in range(14):
        scope = rng.permutation(10)[: int(rng.integers(0, 4))]
        factors.append(credo.TableFactor([variables[i] for i in scope], np.ones([sizes[i] for i in scope])))
    return FactorGraph(variables, factors)


@pytest.mark.parametrize("ibound", [0, 1, 2, 3, 12])
@each_seed(range(8))
def test_clusters_hold_the_factors_and_separators_lie_in_their_clusters(seed, ibound):
    graph = random_graph(seed)
    order = elimination_order(graph)
    found = join_graph(graph, order, ibound)
    clusters = members(found.cluster_start, found.cluster)
    separators = members(found.separator_start, found.separator)
    free = {i for i, size in enumerate(graph.variables.sizes) if size > 1}
    for a in range(graph.n_factors):
        scope = set(graph.scope_of(a).tolist()) & free
        if len(scope) >= 2:
            assert scope <= clusters[found.home[a]]
        else:
            assert found.home[a] == -1
    assert not any(a < b for a in clusters for b in clusters)
    assert all(len(c) >= 2 for c in clusters)
    assert sorted(next(iter(s)) for s in separators if len(s) == 1) == sorted(free)
    assert len({frozenset(s) for s in separators}) == len(separators)
    for s, c in zip(found.edge_separator, found.edge_cluster, strict=True):
        assert separators[s] <= clusters[c]
    assert (np.diff(found.edge_separator) >= 0).all()
    for s, scope in enumerate(separators):
        holders = {c for c in range(len(clusters)) if scope <= clusters[c]}
        assert set(found.edge_cluster[found.edge_separator == s].tolist()) == holders
    for c in range(len(clusters)):
        ranks = order.rank[found.cluster[found.cluster_start[c] : found.cluster_start[c + 1]]]
        assert (np.diff(ranks) > 0).all()
    for i, c in zip(found.host_variable, found.host_cluster, strict=True):
        assert i in clusters[c]


@each_seed(range(8))
def test_clusters_respect_ibound_unless_a_factor_is_larger(seed):
    graph = random_graph(seed)
    for ibound in (1, 2, 3):
        found = join_graph(graph, elimination_order(graph), ibound)
        widest = max(ibound + 1, int(np.diff(graph.scope_start).max()))
        assert np.diff(found.cluster_start).max(initial=0) <= widest


def test_a_wide_enough_ibound_gives_a_junction_tree():
    graph = credo.datasets.ising_grid(4, seed=0).to_factor_graph()
    order = elimination_order(graph)
    full = join_graph(graph, order, order.width)
    assert full.is_tree and not join_graph(graph, order, 2).is_tree
    tree = credo.structures.junction_tree(graph, order)
    cliques = {frozenset(graph.variables.positions(tree.names(k)).tolist()) for k in range(len(tree.cliques))}
    assert {frozenset(c) for c in members(full.cluster_start, full.cluster)} == cliques


def test_a_limit_on_tables_keeps_clusters_small():
    graph = credo.datasets.ising_grid(5, seed=0).to_factor_graph()
    found = join_graph(graph, elimination_order(graph), 8, max_entries=8)
    assert np.diff(found.cluster_start).max() <= 3


def test_a_graph_without_links_has_no_clusters():
    graph = FactorGraph({"a": 2, "b": 1, "c": 3}, {("a",): [1, 2], ("a", "b"): [[1], [2]]})
    for ibound in (0, 2):
        found = join_graph(graph, elimination_order(graph), ibound)
        assert found.n_clusters == 0 and found.n_separators == 2 and len(found.edge_cluster) == 0
        assert found.is_tree


def test_a_negative_ibound_is_refused():
    graph = credo.datasets.asia().to_factor_graph()
    with pytest.raises(OptionError, match="ibound must be"):
        join_graph(graph, elimination_order(graph), -1)
