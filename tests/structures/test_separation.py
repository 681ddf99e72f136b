"""Separation, d-separation, blankets, independence statements, against NetworkX, paths and numbers."""

from __future__ import annotations

from itertools import chain, combinations

import networkx as nx
import numpy as np
import pytest

import credo
from credo import FactorGraph
from credo.core.errors import ModelError, OptionError, QueryError, TooLargeError
from credo.structures import (
    DirectedGraph,
    Statement,
    UndirectedGraph,
    d_connected,
    d_separated,
    independencies,
    independent,
    is_i_map,
    is_markov_blanket,
    markov_blanket,
    primal_graph,
    reachable,
    separated,
    split_factors,
)
from seeds import each_seed

SPRINKLER = {"rain": [], "sprinkler": [], "wet": ["rain", "sprinkler"], "shoes": ["wet"]}


def random_parents(rng, n, density):
    order = rng.permutation(n)
    parents = {f"v{i}": [] for i in range(n)}
    for a, b in combinations(range(n), 2):
        if rng.random() < density:
            parents[f"v{order[b]}"].append(f"v{order[a]}")
    return parents


def random_sets(rng, names):
    """Disjoint sets; the first two are not empty, the last may be."""
    shuffled = rng.permutation(names).tolist()
    x, y = shuffled[: rng.integers(1, 3)], shuffled[2 : 2 + rng.integers(1, 3)]
    return x, y, shuffled[4 : 4 + rng.integers(0, len(names) - 3)]


def random_factor_graph(rng, n, m, widest=3, states=(1, 2, 3)):
    sizes = rng.choice(states, n)
    factors = {}
    for _ in range(m):
        scope = tuple(f"v{i}" for i in rng.choice(n, rng.integers(0, widest + 1), replace=False))
        factors[scope] = rng.uniform(0.2, 2, [sizes[int(v[1:])] for v in scope])
    return FactorGraph({f"v{i}": int(s) for i, s in enumerate(sizes)}, factors)


def joint_of(graph):
    """The joint table by a plain product of broadcast factors."""
    names = list(graph.variables.names)
    table = np.ones(graph.variables.sizes)
    for factor in graph.factors:
        axes = [names.index(v) for v in factor.names]
        order = np.argsort(axes)
        shape = np.ones(len(names), int)
        shape[axes] = factor.table.shape
        table = table * factor.table.transpose(order).reshape(shape)
    return table / table.sum()


def joint_of_net(rng, parents, zeros=False):
    """The joint table of random conditional tables; with `zeros`, half of the entries vanish."""
    names = list(parents)
    table = np.ones([2] * len(names))
    for child, group in parents.items():
        rows = rng.dirichlet([0.7, 0.7], [2] * len(group))
        if zeros:
            rows = np.where(
                rng.random((*rows.shape[:-1], 1)) < 0.5, np.eye(2)[(rows[..., 0] < 0.5).astype(int)], rows
            )
        axes = [names.index(v) for v in [*group, child]]
        shape = np.ones(len(names), int)
        shape[axes] = 2
        table = table * rows.transpose(np.argsort(axes)).reshape(shape)
    return table


def every_subset(items):
    return chain.from_iterable(combinations(items, k) for k in range(len(items) + 1))


def nx_moral_ancestral(parents, x, y, given):
    """Second oracle: separation in the moral graph of the ancestors of all sets."""
    graph = nx.DiGraph([(p, c) for c, group in parents.items() for p in group])
    graph.add_nodes_from(parents)
    inside = set().union(*({v} | nx.ancestors(graph, v) for v in [*x, *y, *given]))
    moral = nx.moral_graph(graph.subgraph(inside))
    moral.remove_nodes_from(given)
    return not any(nx.has_path(moral, a, b) for a in x for b in y)


def test_explaining_away():
    assert d_separated(SPRINKLER, "rain", "sprinkler")
    assert not d_separated(SPRINKLER, "rain", "sprinkler", given="wet")
    # A descendant of the collider opens it as well.
    assert not d_separated(SPRINKLER, "rain", "sprinkler", given="shoes")
    assert d_separated(SPRINKLER, "rain", "shoes", given="wet")


@each_seed(range(300))
def test_d_separation_agrees_with_networkx_and_the_moral_ancestral_graph(seed):
    rng = np.random.default_rng(seed)
    parents = random_parents(rng, int(rng.integers(5, 11)), rng.uniform(0.1, 0.5))
    directed = DirectedGraph.of(parents)
    for _ in range(5):
        x, y, given = random_sets(rng, list(parents))
        found = d_separated(directed, x, y, given)
        assert found == nx.is_d_separator(directed.to_networkx(), set(x), set(y), set(given))
        assert found == nx_moral_ancestral(parents, x, y, given)


@each_seed(range(20))
def test_d_connected_lists_what_is_not_separated(seed):
    rng = np.random.default_rng(seed)
    parents = random_parents(rng, 8, 0.3)
    x, _, given = random_sets(rng, list(parents))
    others = [v for v in parents if v not in x and v not in given]
    expected = tuple(v for v in others if not d_separated(parents, x, v, given))
    assert d_connected(parents, x, given) == expected
    assert reachable(parents, x, given) == expected


@each_seed(range(40))
def test_d_separation_implies_numerical_independence_and_connection_almost_always_dependence(seed):
    rng = np.random.default_rng(seed)
    parents = random_parents(rng, 6, 0.35)
    names = list(parents)
    joint = joint_of_net(rng, parents)
    zeros = joint_of_net(rng, parents, zeros=True)
    for x, y in combinations(range(6), 2):
        for given in every_subset([k for k in range(6) if k not in (x, y)]):
            stated = d_separated(parents, names[x], names[y], [names[k] for k in given])
            assert independent(joint, x, y, given, tol=1e-12) == stated
            assert not stated or independent(zeros, x, y, given)


@each_seed(range(60))
def test_factor_graph_separation_agrees_with_paths_in_the_primal_graph(seed):
    rng = np.random.default_rng(seed)
    graph = random_factor_graph(rng, 8, int(rng.integers(0, 9)))
    undirected = primal_graph(graph)
    for _ in range(5):
        x, y, given = random_sets(rng, list(graph.variables.names))
        cut = undirected.to_networkx()
        cut.remove_nodes_from(given)
        expected = not any(nx.has_path(cut, a, b) for a in x for b in y)
        assert separated(graph, x, y, given) == expected
        assert separated(undirected, x, y, given) == expected
        assert reachable(graph, x, given) == reachable(undirected, x, given)


@each_seed(range(40))
def test_separation_implies_numerical_independence_and_the_factors_split(seed):
    rng = np.random.default_rng(seed)
    graph = random_factor_graph(rng, 7, 6, states=(2, 3))
    names = list(graph.variables.names)
    joint = joint_of(graph)
    x, y, given = random_sets(rng, names)
    if not separated(graph, x, y, given):
        with pytest.raises(QueryError, match="x and y must be separated by given, got a path through 'v"):
            split_factors(graph, x, y, given)
        return
    assert independent(joint, *([names.index(v) for v in part] for part in (x, y, given)))
    split = split_factors(graph, x, y, given)
    # Each factor once; the product of the groups is the joint; outside V no variable is shared.
    groups = [split.x, split.y, split.rest]
    assert sorted(np.concatenate(groups).tolist()) == list(range(graph.n_factors))
    parts = [FactorGraph(graph.variables, [graph.factors[int(a)] for a in group]) for group in groups]
    product = np.prod([joint_of(part) for part in parts], axis=0)
    np.testing.assert_allclose(product / product.sum(), joint, rtol=1e-12)
    inside = [{v for f in part.factors for v in f.names} - set(given) for part in parts]
    assert all(not a & b for a, b in combinations(inside, 2))
    assert not inside[1] & set(x) and not inside[0] & set(y)


def test_the_joint_table_of_these_tests_agrees_with_enumeration():
    graph = random_factor_graph(np.random.default_rng(3), 5, 5)
    result = credo.infer(graph, "enumerate")
    joint = joint_of(graph)
    for k, name in enumerate(graph.variables.names):
        axes = tuple(j for j in range(5) if j != k)
        np.testing.assert_allclose(joint.sum(axis=axes), result.marginals[name], rtol=1e-12)


@each_seed(range(25))
def test_the_blanket_is_the_smallest_set_that_separates(seed):
    rng = np.random.default_rng(seed)
    factors = random_factor_graph(rng, 6, 5)
    for graph in (factors, primal_graph(factors), random_parents(rng, 6, 0.4)):
        names = [f"v{i}" for i in range(6)]
        for x in names:
            found = markov_blanket(graph, x)
            others = [v for v in names if v != x]
            blankets = [set(v) for v in every_subset(others) if is_markov_blanket(graph, x, v)]
            assert set(found) in blankets
            assert all(len(found) < len(b) or set(found) == b for b in blankets)
            assert all(set(found) <= b for b in blankets)


def test_the_directed_blanket_contains_coparents():
    assert markov_blanket(SPRINKLER, "rain") == ("sprinkler", "wet")
    assert markov_blanket(SPRINKLER, ["rain", "wet"]) == ("sprinkler", "shoes")
    assert not is_markov_blanket(SPRINKLER, "rain", "wet")


def test_isolated_and_one_state_variables_are_ordinary_variables_of_the_graph():
    graph = FactorGraph({"a": 2, "b": 1, "c": 2, "d": 3}, {("a", "b"): [1, 2], ("b", "c"): [3, 4], (): 2.0})
    assert not separated(graph, "a", "c")
    assert separated(graph, "a", "c", given="b")
    assert separated(graph, ["a", "b", "c"], "d")
    assert markov_blanket(graph, "d") == ()
    assert split_factors(graph, "a", "c", "b").rest.tolist() == [2]
    assert separated(graph, [], "a")


def test_large_graphs_are_separated_without_recursion():
    n = 50_000
    names = [f"x{i}" for i in range(n)]
    chain_parents = {name: names[i - 1 : i] for i, name in enumerate(names)}
    directed = DirectedGraph.of(chain_parents)
    assert not d_separated(directed, "x0", f"x{n - 1}")
    assert d_separated(directed, "x0", f"x{n - 1}", given="x777")
    assert len(d_connected(directed, "x5", given="x9")) == 8
    ends = np.arange(n - 1)
    graph = FactorGraph.from_arrays(np.full(n, 2), (np.stack([ends, ends + 1], axis=1), np.ones((2, 2))))
    assert not separated(graph, "x0", f"x{n - 1}")
    assert separated(graph, "x0", f"x{n - 1}", given="x777")


# ---- numbers and lists of statements


def test_product_tables_pass_and_perturbed_ones_fail():
    rng = np.random.default_rng(0)
    table = np.einsum("ac,bc,c->abc", rng.random((2, 4)), rng.random((3, 4)), rng.random(4))
    assert independent(table, 0, 1, given=2)
    assert not independent(table, 0, 1)
    table[0, 0, 0] *= 1.001
    assert not independent(table, 0, 1, given=2)
    assert independent(table, 0, 1, given=2, tol=1e-2)


def test_conditions_of_probability_zero_are_not_looked_at():
    table = np.zeros((2, 2, 2))
    table[..., 0] = np.outer([0.3, 0.7], [0.4, 0.6])
    assert independent(table, 0, 1, given=2)
    # A condition of tiny probability counts like any other.
    table[..., 1] = 1e-300 * np.eye(2)
    assert not independent(table, 0, 1, given=2)


def test_sets_are_stronger_than_their_pairs():
    parity = np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]]])
    assert independent(parity, 2, 0)
    assert independent(parity, 2, 1)
    assert not independent(parity, 2, [0, 1])


def test_independence_is_read_from_a_named_joint():
    graph = FactorGraph({"a": 2, "b": 2, "c": 2}, {("a", "b"): [1, 2, 3, 4], ("b", "c"): [4, 3, 2, 2]})
    joint = credo.query(graph, ["c", "a", "b"], method="enumerate")
    assert independent(joint, "a", "c", given="b")
    assert not independent(joint, "a", "c")
    assert is_i_map(graph, joint)
    assert not is_i_map(UndirectedGraph.from_edges([("a", "b")], names="abc"), joint)


def test_huge_weights_do_not_overflow():
    assert independent(np.full((2, 2), 1e308), 0, 1)


def test_statements_of_a_collider_and_of_a_chain():
    assert list(independencies({"b": [], "a": [], "c": ["a", "b"]})) == [Statement("a", "b", ())]
    walk = UndirectedGraph.from_edges([("c", "b"), ("b", "a")])
    assert list(independencies(walk)) == [Statement("a", "c", ("b",))]
    assert list(independencies(UndirectedGraph.from_edges([]))) == []
    assert list(independencies(UndirectedGraph.from_edges([], names="a"))) == []
    assert list(independencies(UndirectedGraph.from_edges([], names="ba"))) == [Statement("a", "b", ())]


@each_seed(range(15))
def test_statements_agree_with_single_questions_and_adding_an_edge_removes_some(seed):
    rng = np.random.default_rng(seed)
    factors = random_factor_graph(rng, 5, 4)
    for graph in (factors, primal_graph(factors), random_parents(rng, 5, 0.4)):
        found = set(independencies(graph))
        names = [f"v{i}" for i in range(5)]
        for x, y in combinations(names, 2):
            for given in every_subset([v for v in names if v not in (x, y)]):
                assert (Statement(x, y, given) in found) == separated(graph, x, y, given)
    undirected = primal_graph(factors)
    missing = nx.complement(undirected.to_networkx()).edges
    for edge in missing:
        more = UndirectedGraph.from_edges([*undirected.edges(), edge], names=undirected.names)
        assert set(independencies(more)) < set(independencies(undirected))
        assert is_i_map(more, undirected)
        assert not is_i_map(undirected, more)


@each_seed(range(30))
def test_a_graph_is_an_i_map_of_its_distributions_and_not_without_one_of_its_edges(seed):
    rng = np.random.default_rng(seed)
    parents = random_parents(rng, 5, 0.5)
    joint = joint_of_net(rng, parents)
    assert is_i_map(parents, joint, tol=1e-12)
    assert is_i_map(parents, joint_of_net(rng, parents, zeros=True))
    for child, group in parents.items():
        for p in group:
            fewer = {**parents, child: [q for q in group if q != p]}
            assert not is_i_map(fewer, joint, tol=1e-12)
            assert is_i_map(parents, fewer)
    factors = random_factor_graph(rng, 5, 4, states=(2, 3))
    undirected, table = primal_graph(factors), joint_of(factors)
    assert is_i_map(factors, table) and is_i_map(undirected, table)
    for edge in undirected.edges():
        fewer = UndirectedGraph.from_edges(
            [e for e in undirected.edges() if e != edge], names=undirected.names
        )
        assert not is_i_map(fewer, table, tol=1e-12)


def test_the_set_statements_of_an_undirected_graph_are_tested_too():
    # Pairwise the bits of a parity are independent; three isolated variables promise more.
    parity = np.array([[[1.0, 0], [0, 1]], [[0, 1], [1, 0]]])
    assert not is_i_map(UndirectedGraph.from_edges([], names="abc"), parity)
    assert not is_i_map({"a": [], "b": [], "c": []}, parity)
    assert is_i_map({"a": [], "b": [], "c": ["a", "b"]}, parity)


PAIR = UndirectedGraph.from_edges([("a", "b")])


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda: separated(PAIR, "a", "a"), QueryError, "'a' is in both x and y; the sets must be disjoint"),
        (lambda: separated(PAIR, "a", "b", "a"), QueryError, "'a' is in both x and given"),
        (lambda: separated(PAIR, "a", "z"), QueryError, "no variable named 'z'"),
        (lambda: d_separated(SPRINKLER, "rain", "rian"), QueryError, "did you mean 'rain'"),
        (lambda: d_separated({"a": ["b"], "b": ["a"]}, "a", "b"), ModelError, "no directed cycle"),
        (
            lambda: separated(7, "a", "b"),
            ModelError,
            "expected a FactorGraph, an UndirectedGraph or a mapping",
        ),
        (lambda: is_markov_blanket(PAIR, "a", "a"), QueryError, "in both x and blanket"),
        (lambda: split_factors(PAIR, "a", "b"), ModelError, "expected a factor graph, got UndirectedGraph"),
        (
            lambda: independencies(UndirectedGraph.from_edges([], names=map(str, range(13)))),
            TooLargeError,
            "independencies: expected at most 12 variables, got 13",
        ),
        (
            lambda: is_i_map(UndirectedGraph.from_edges([], names=map(str, range(13))), np.ones([1] * 13)),
            TooLargeError,
            "is_i_map: expected at most 12 variables, got 13",
        ),
        (lambda: is_i_map(PAIR, PAIR, max_variables=1), TooLargeError, "at most 1 variables, got 2"),
        (lambda: is_i_map(PAIR, {"a": []}), QueryError, "two graphs over the same variables"),
        (
            lambda: is_i_map(PAIR, np.ones((2, 2, 2))),
            QueryError,
            "one axis for each of the 2 variables, got 3",
        ),
        (lambda: independent(np.ones((2, 2)), 0, 2), QueryError, "expected axis numbers below 2, got 2"),
        (lambda: independent(np.ones((2, 2)), 0, "a"), QueryError, "expected axis numbers below 2, got 'a'"),
        (lambda: independent(np.ones((2, 2)), 0, 0), QueryError, "must be disjoint and without repeats"),
        (lambda: independent(np.ones((2, 2)), 0, 1, tol=-1), OptionError, "tol must be at least 0, got -1"),
        (lambda: independent([[1, -1]], 0, 1), ModelError, "finite non-negative entries, not all zero"),
        (lambda: independent([[0, 0]], 0, 1), ModelError, "finite non-negative entries, not all zero"),
        (lambda: independent([[np.nan, 1]], 0, 1), ModelError, "finite non-negative entries"),
        (lambda: independent([[np.inf, 1]], 0, 1), ModelError, "finite non-negative entries"),
        (
            lambda: independent("table", 0, 1),
            ModelError,
            "joint table: expected an array of numbers, got 'table'",
        ),
    ],
)
def test_wrong_questions_are_refused_with_a_sentence(ask, error, message):
    with pytest.raises(error, match=message):
        ask()


def test_a_conditional_table_and_an_unknown_name_are_refused():
    graph = FactorGraph({"a": 2, "b": 2}, {("a", "b"): [1, 2, 3, 4]})
    with pytest.raises(QueryError, match="expected a joint table p\\(scope\\), got a conditional one"):
        independent(credo.query(graph, "a", given="b", method="enumerate"), "a", "b")
    with pytest.raises(QueryError, match=r"no variable named 'z'; there are \['a', 'b'\]"):
        independent(credo.query(graph, ["a", "b"], method="enumerate"), "a", "z")
