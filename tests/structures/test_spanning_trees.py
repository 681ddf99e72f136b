"""Spanning forests and appearance probabilities, against enumeration, dense algebra and NetworkX."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest

from credo.core.errors import ModelError
from credo.core.factor import TableFactor
from credo.core.factor_graph import FactorGraph
from credo.core.variable import Variable
from credo.kernels import spanning as kernel
from credo.structures import UndirectedGraph
from credo.structures.spanning_trees import (
    appearance,
    covering_forests,
    edge_appearance,
    given_forests,
    random_forests,
    spanning_forest,
    uniform_appearance,
    uniform_forest,
)
from seeds import each_seed


def _pairs(n, edges, sizes=2) -> FactorGraph:
    """Constant factors over the given scopes."""
    sizes = np.broadcast_to(sizes, n)
    variables = [Variable(f"x{i}", int(s)) for i, s in enumerate(sizes)]
    factors = [TableFactor([variables[i] for i in e], np.ones([sizes[i] for i in e])) for e in edges]
    return FactorGraph(variables, factors)


def _grid(rows: int, columns: int) -> list[tuple[int, int]]:
    at = np.arange(rows * columns).reshape(rows, columns)
    across = zip(at[:, :-1].ravel().tolist(), at[:, 1:].ravel().tolist(), strict=True)
    down = zip(at[:-1].ravel().tolist(), at[1:].ravel().tolist(), strict=True)
    return [*across, *down]


def _is_acyclic(graph: FactorGraph, members: np.ndarray) -> bool:
    """By NetworkX, on the bipartite graph of variables with several states and chosen factors."""
    bipartite = nx.Graph()
    for a in np.flatnonzero(members).tolist():
        several = [i for i in graph.scope_of(a).tolist() if graph.variables.sizes[i] > 1]
        bipartite.add_edges_from((("factor", a), ("variable", i)) for i in several)
    return len(bipartite) == 0 or nx.is_forest(bipartite)


def _all_spanning_trees(n: int, edges: list[tuple[int, int]]) -> np.ndarray:
    """One row of flags per maximal forest of a multigraph."""
    graph = nx.MultiGraph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(edges)
    size = n - nx.number_connected_components(graph)
    rows = []
    for chosen in itertools.combinations(range(len(edges)), size):
        part = nx.MultiGraph()
        part.add_nodes_from(range(n))
        part.add_edges_from(edges[e] for e in chosen)
        if nx.number_connected_components(part) == n - size:
            rows.append(np.isin(np.arange(len(edges)), chosen))
    return np.array(rows)


@pytest.mark.parametrize("n", [2, 3, 5, 8, 12])
def test_edges_of_a_complete_graph_appear_with_probability_two_over_n(n: int):
    rho = uniform_appearance(_pairs(n, list(itertools.combinations(range(n), 2))))
    np.testing.assert_allclose(rho, 2 / n, rtol=0, atol=1e-13)


def test_a_grid_of_three_by_three_has_the_published_appearance_probabilities():
    edges = _grid(3, 3)
    rho = uniform_appearance(_pairs(9, edges))
    inner = np.array([4 in e for e in edges])
    np.testing.assert_allclose(rho[inner], 7 / 12, atol=1e-13)
    np.testing.assert_allclose(rho[~inner], 17 / 24, atol=1e-13)
    assert rho.sum() == pytest.approx(8, abs=1e-12)


@each_seed(range(12))
def test_uniform_appearance_is_the_frequency_over_all_spanning_trees(seed: int):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 7))
    edges = [tuple(rng.choice(n, 2, replace=False).tolist()) for _ in range(int(rng.integers(1, 9)))]
    trees = _all_spanning_trees(n, edges)
    np.testing.assert_allclose(uniform_appearance(_pairs(n, edges)), trees.mean(axis=0), atol=1e-12)


def test_bridges_unary_factors_and_constants_always_appear():
    graph = _pairs(6, [(0, 1), (1, 2), (2, 0), (2, 3), (3,), (), (4, 5)], [2, 3, 2, 2, 2, 1])
    np.testing.assert_allclose(uniform_appearance(graph), [2 / 3, 2 / 3, 2 / 3, 1, 1, 1, 1], atol=1e-13)
    assert (uniform_appearance(_pairs(300, [(i, i + 1) for i in range(299)])) == 1).all()


def test_variables_with_one_state_close_no_cycle():
    graph = _pairs(3, [(0, 1), (1, 2), (2, 0)], [2, 1, 2])
    assert (uniform_appearance(graph) == 1).all()
    assert spanning_forest(graph).all()


def test_large_grids_agree_with_a_dense_pseudo_inverse():
    edges = _grid(12, 17)
    n = 12 * 17
    laplacian = np.zeros((n, n))
    for i, j in edges:
        laplacian[i, i] += 1
        laplacian[j, j] += 1
        laplacian[i, j] -= 1
        laplacian[j, i] -= 1
    inverse = np.linalg.pinv(laplacian)
    expected = [inverse[i, i] + inverse[j, j] - 2 * inverse[i, j] for i, j in edges]
    found = uniform_appearance(_pairs(n, edges))
    np.testing.assert_allclose(found, expected, atol=1e-10)
    assert found.sum() == pytest.approx(n - 1, abs=1e-9)


def test_edge_appearance_speaks_of_the_edges_of_an_undirected_graph():
    graph = UndirectedGraph.from_edges([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])
    found = dict(zip(graph.edges(), edge_appearance(graph), strict=True))
    assert found[("c", "d")] == 1
    assert found[("a", "b")] == pytest.approx(2 / 3)
    assert edge_appearance(UndirectedGraph.from_edges([], ["a"])).shape == (0,)


@pytest.mark.parametrize("largest", [True, False])
@each_seed(range(8))
def test_the_heaviest_and_lightest_forests_are_those_of_networkx(seed: int, largest: bool):
    rng = np.random.default_rng(seed)
    edges = [e for e in itertools.combinations(range(9), 2) if rng.random() < 0.4]
    weights = rng.standard_normal(len(edges))
    reference = nx.Graph()
    reference.add_weighted_edges_from((i, j, w) for (i, j), w in zip(edges, weights, strict=True))
    function = nx.maximum_spanning_tree if largest else nx.minimum_spanning_tree
    total = sum(data["weight"] for *_, data in function(reference).edges(data=True))
    taken = spanning_forest(_pairs(9, edges), weights, largest=largest)
    assert weights[taken].sum() == pytest.approx(total)


def test_random_trees_are_uniform_over_all_spanning_trees():
    edges = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (0, 1)]
    trees = [tuple(row.tolist()) for row in _all_spanning_trees(4, edges)]
    rng, graph, count = np.random.default_rng(0), _pairs(4, edges), 6000
    seen = dict.fromkeys(trees, 0)
    for _ in range(count):
        seen[tuple(uniform_forest(graph, rng).tolist())] += 1
    frequency = np.array(list(seen.values())) / count
    p = 1 / len(trees)
    assert np.abs(frequency - p).max() < 5 * np.sqrt(p * (1 - p) / count)


WIDE = [(0, 1, 2), (2, 3, 4), (4, 5, 0), (1, 3, 5), (0, 3), (1, 4), (2,), ()]


@pytest.mark.parametrize("make", ["covering", "random", "many random"])
@pytest.mark.parametrize("scopes", [_grid(4, 4), list(itertools.combinations(range(7), 2)), WIDE, [(0,)], []])
def test_forests_are_acyclic_and_contain_every_factor(make: str, scopes):
    graph = _pairs(16, scopes)
    rng = np.random.default_rng(3)
    forests = {
        "covering": lambda: covering_forests(graph),
        "random": lambda: random_forests(graph, 1, rng),
        "many random": lambda: random_forests(graph, 20, rng),
    }[make]()
    assert all(_is_acyclic(graph, row) for row in forests.members)
    assert forests.members.any(axis=0).all()
    assert forests.weights.sum() == pytest.approx(1)
    rho = forests.appearance
    assert rho.shape == (graph.n_factors,)
    assert ((rho > 0) & (rho <= 1)).all()


def test_two_forests_cover_a_grid_and_half_of_n_a_complete_graph():
    assert len(covering_forests(_pairs(100, _grid(10, 10)))) == 2
    assert len(covering_forests(_pairs(8, list(itertools.combinations(range(8), 2))))) <= 6
    assert len(covering_forests(_pairs(9, _grid(3, 3)), 7)) == 7


def test_appearance_is_uniform_for_pairs_and_balanced_for_wide_factors():
    pairs = _pairs(9, _grid(3, 3))
    np.testing.assert_array_equal(appearance(pairs), uniform_appearance(pairs))
    wide = _pairs(6, WIDE)
    rho = appearance(wide)
    assert (rho[-2:] == 1).all()
    assert (rho > 0).all()


def test_given_forests_are_checked_and_completed():
    graph = _pairs(3, [(0, 1), (1, 2), (2, 0), (0,)])
    forests = given_forests(graph, [[0, 1], [1, 2]], [0.25, 0.75])
    np.testing.assert_allclose(forests.appearance, [0.25, 1, 0.75, 1])
    assert len(forests) == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda g: given_forests(g, [[0, 1, 2]]),
            r"forest 0: expected factors without a cycle, got \[0, 1, 2\]",
        ),
        (lambda g: given_forests(g, [[0, 9]]), r"forest 0: expected factors in \[0, 4\), got 9"),
        (
            lambda g: given_forests(g, [[0, 1]]),
            r"forests: expected every factor in some forest, got none with \[2\]",
        ),
        (lambda g: given_forests(g, []), r"forests: expected every factor in some forest"),
        (
            lambda g: given_forests(g, [[0, 1], [2]], [1.0, 1.0]),
            r"weights: expected 2 positive numbers that sum to 1, got \[1. 1.\]",
        ),
        (
            lambda g: spanning_forest(g, [1.0]),
            r"weights: expected one number per factor \(4\), got shape \(1,\)",
        ),
        (lambda g: spanning_forest(g, [1.0, np.nan, 0, 0]), r"got shape \(4,\) with NaN"),
        (
            lambda g: uniform_appearance(_pairs(3, [(0, 1, 2)])),
            "uniform_appearance: expected factors over at most two variables, got 3 in factor 0; "
            "use covering_forests",
        ),
    ],
)
def test_refusals_say_what_was_expected(call, message: str):
    with pytest.raises(ModelError, match=message):
        call(_pairs(3, [(0, 1), (1, 2), (2, 0), (0,)]))


def test_kernels_give_the_same_uncompiled(monkeypatch):
    graph = _pairs(6, WIDE)
    free = np.ones(6, dtype=bool)
    order = np.arange(graph.n_factors)
    compiled = kernel.greedy_forest(order, graph.scope_start, graph.scope, free)
    monkeypatch.setattr(kernel, "_find", kernel._find.py_func)
    plain = kernel.greedy_forest.py_func(order, graph.scope_start, graph.scope, free)
    np.testing.assert_array_equal(compiled, plain)
    w = graph.wiring
    args = (compiled, w.scope_start, w.scope, free, w.neighbour_start, w.neighbour_edge, w.edge_factor)
    for one, two in zip(kernel.rooted_order(*args), kernel.rooted_order.py_func(*args), strict=True):
        np.testing.assert_array_equal(one, two)


def test_the_selected_inverse_is_the_inverse_on_the_pattern():
    rng = np.random.default_rng(0)
    n = 7
    lower = np.tril(rng.uniform(-1, 1, (n, n)), -1) + np.eye(n)
    diagonal = rng.uniform(0.5, 2, n)
    inverse = np.linalg.inv(lower @ np.diag(diagonal) @ lower.T)
    rows = [np.arange(j + 1, n) for j in range(n)]
    start = np.concatenate([[0], np.cumsum([len(r) for r in rows])])
    values = np.concatenate([lower[r, j] for j, r in enumerate(rows)])
    row = np.concatenate(rows)
    for function in (kernel.selected_inverse, kernel.selected_inverse.py_func):
        below, on = function(start, row, values, diagonal)
        np.testing.assert_allclose(on, np.diag(inverse), rtol=1e-9)
        expected = np.concatenate([inverse[r, j] for j, r in enumerate(rows)])
        np.testing.assert_allclose(below, expected, rtol=1e-9)
