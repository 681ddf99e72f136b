"""Conversions keep the distribution: joint tables by plain products, log Z and marginals by enumeration."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo import FactorGraph
from credo.core.errors import ModelError, OptionError, QueryError, TooLargeError
from credo.core.result import FactorMarginals, Marginals, Result, Status
from credo.structures import (
    DirectedGraph,
    directed_tree_to_undirected,
    is_forest,
    maximal_cliques,
    one_factor_per_edge,
    polytree_to_factor_graph,
    primal_graph,
    to_clique_factors,
    to_pairwise,
    tree_from_marginals,
    undirected_tree_to_directed,
    without_constants,
)
from seeds import each_seed


def weights_of(graph):
    """The unnormalised joint table by a plain product of broadcast factors."""
    scopes = [[graph.variables.position(v) for v in f.names] for f in graph.factors]
    return product(graph.variables.sizes, scopes, [f.table for f in graph.factors])


def product(sizes, scopes, tables):
    joint = np.ones(sizes)
    for scope, table in zip(scopes, tables, strict=True):
        shape = np.ones(len(sizes), int)
        shape[scope] = [sizes[i] for i in scope]
        joint = joint * np.asarray(table).transpose(np.argsort(scope)).reshape(shape)
    return joint


def joint_of_net(variables, parents, tables):
    names = list(variables)
    scopes = [[names.index(v) for v in [*parents[c], c]] for c in names]
    return product([variables[v] for v in names], scopes, [tables[c] for c in names])


def random_directed(rng, n, most_parents):
    """A polytree or directed forest with random tables, in shuffled order of names."""
    names = [f"v{i}" for i in rng.permutation(n)]
    sizes = {v: int(rng.choice([1, 2, 3])) for v in names}
    part, parents = list(range(n)), {v: [] for v in names}
    for j in range(n):
        for i in rng.permutation(j)[: rng.integers(0, most_parents + 1)]:
            if part[i] != part[j]:  # joining two parts never closes a loop
                parents[names[j]].append(names[i])
                part = [part[j] if p == part[i] else p for p in part]
    tables = {v: rng.dirichlet(np.ones(sizes[v]), [sizes[p] for p in parents[v]]) for v in names}
    order = rng.permutation(names)
    return {str(v): sizes[v] for v in order}, {str(v): parents[v] for v in rng.permutation(names)}, tables


def random_tree_model(rng, n, zeros=False):
    """Factors over the edges of a random forest in random axis order, with unaries, repeats and constants."""
    sizes = rng.choice([1, 2, 3], n)
    scopes = []
    for j in range(1, n):
        if rng.random() < 0.85:
            pair = [int(rng.integers(j)), j]
            scopes += [pair if rng.random() < 0.5 else pair[::-1]] * int(rng.integers(1, 3))
    scopes += [[int(i)] for i in rng.integers(n, size=4)] + [[], []]
    tables = [rng.uniform(0.3, 2, sizes[scope]) for scope in scopes]
    if zeros:
        # Forbid one state of the first variable that has several.
        i = int(np.flatnonzero(sizes > 1)[0]) if (sizes > 1).any() else 0
        veto = np.ones(sizes[i])
        veto[-1] = float(sizes[i] == 1)
        scopes.append([i])
        tables.append(veto)
    rows = rng.permutation(len(scopes))
    logs = [np.log(np.maximum(tables[r], 1e-300)) + np.where(tables[r] > 0, 0, -np.inf) for r in rows]
    return FactorGraph.from_flat(
        FactorGraph.from_arrays(sizes).variables,
        np.concatenate([[0], np.cumsum([len(scopes[r]) for r in rows])]),
        np.concatenate([np.array(scopes[r], int) for r in rows]),
        np.concatenate([t.ravel() for t in logs]),
    )


def random_factor_graph(rng, n=5, m=5, widest=4):
    sizes = rng.choice([1, 2, 3], n)
    scopes = [rng.choice(n, rng.integers(0, widest + 1), replace=False) for _ in range(m)]
    return FactorGraph.from_flat(
        FactorGraph.from_arrays(sizes).variables,
        np.concatenate([[0], np.cumsum([len(s) for s in scopes])]),
        np.concatenate(scopes),
        np.concatenate([rng.standard_normal(int(np.prod(sizes[s]))) for s in scopes]),
    )


def log_z(graph):
    return credo.infer(graph, "enumerate").log_z.value


@each_seed(range(40))
def test_a_polytree_becomes_a_tree_factor_graph_with_the_same_joint_and_z_one(seed):
    rng = np.random.default_rng(seed)
    variables, parents, tables = random_directed(rng, int(rng.integers(1, 7)), 3)
    graph = polytree_to_factor_graph(variables, parents, tables)
    np.testing.assert_allclose(weights_of(graph), joint_of_net(variables, parents, tables), atol=1e-15)
    assert abs(log_z(graph)) < 1e-12
    assert is_forest(graph)
    assert [f.names for f in graph.factors] == [(*group, child) for child, group in parents.items()]


@each_seed(range(40))
def test_a_directed_tree_becomes_an_undirected_one_with_every_root_absorbed_once(seed):
    rng = np.random.default_rng(seed)
    variables, parents, tables = random_directed(rng, int(rng.integers(1, 7)), 1)
    graph = directed_tree_to_undirected(variables, parents, tables)
    np.testing.assert_allclose(weights_of(graph), joint_of_net(variables, parents, tables), atol=1e-15)
    assert abs(log_z(graph)) < 1e-12
    edges = sum(map(len, parents.values()))
    inner = {p for group in parents.values() for p in group}
    alone = sum(not group and child not in inner for child, group in parents.items())
    assert graph.n_factors == edges + alone
    assert sorted(len(f.names) for f in graph.factors) == [1] * alone + [2] * edges


@pytest.mark.parametrize("zeros", [False, True])
@each_seed(range(25))
def test_an_undirected_tree_becomes_a_directed_one_from_every_root(seed, zeros):
    rng = np.random.default_rng(seed)
    graph = random_tree_model(rng, int(rng.integers(1, 6)), zeros)
    result = credo.infer(graph, "enumerate")
    joint = weights_of(graph) / weights_of(graph).sum()
    sizes = {v.name: v.size for v in graph.variables}
    for root in graph.variables.names:
        for impossible in ("uniform", "zero"):
            parents, tables = undirected_tree_to_directed(graph, result, root, impossible=impossible)
            assert parents[root] == []
            assert list(parents) == list(sizes)
            np.testing.assert_allclose(joint_of_net(sizes, parents, tables), joint, atol=1e-13)
            skeleton = DirectedGraph.of(parents).skeleton()
            assert {frozenset(e) for e in skeleton.edges()} == {
                frozenset(e) for e in primal_graph(graph).edges()
            }
            sums = np.concatenate([t.sum(axis=-1).ravel() for t in tables.values()])
            allowed = np.isclose(sums, 1) | ((impossible == "zero") & (sums == 0))
            assert allowed.all()
    rebuilt = tree_from_marginals(graph, result)
    np.testing.assert_allclose(weights_of(rebuilt), joint, atol=1e-13)
    assert abs(log_z(rebuilt)) < 1e-12


def test_the_directed_form_makes_a_bayes_net_even_where_a_state_is_impossible():
    graph = FactorGraph({"a": 2, "b": 3}, {("a", "b"): np.arange(1.0, 7).reshape(2, 3), "a": [1, 0]})
    result = credo.infer(graph, "enumerate")
    parents, tables = undirected_tree_to_directed(graph, result, "a")
    np.testing.assert_allclose(tables["b"], [[1 / 6, 2 / 6, 3 / 6], [1 / 3, 1 / 3, 1 / 3]])
    zero = undirected_tree_to_directed(graph, result, "a", impossible="zero").tables["b"]
    np.testing.assert_array_equal(zero[1], 0)
    net = credo.BayesNet(graph.variables, parents, tables)
    np.testing.assert_allclose(credo.infer(net, "enumerate").marginals["b"], result.marginals["b"])


def test_directed_and_undirected_forms_are_inverse_to_each_other():
    rng = np.random.default_rng(11)
    variables, parents, tables = random_directed(rng, 6, 1)
    graph = directed_tree_to_undirected(variables, parents, tables)
    roots = [v for v, group in parents.items() if not group]
    back = undirected_tree_to_directed(graph, credo.infer(graph, "enumerate"), roots)
    assert back.parents == parents
    for name, table in tables.items():
        np.testing.assert_allclose(back.tables[name], table, atol=1e-12)


@each_seed(range(30))
def test_one_factor_per_edge_keeps_every_weight(seed):
    rng = np.random.default_rng(seed)
    graph = random_tree_model(rng, int(rng.integers(1, 7)), zeros=seed % 2 == 0)
    if seed % 3 == 0 and len(graph.variables) > 2:  # loops are allowed too
        tables = rng.uniform(0.5, 2, graph.variables.sizes[[2, 0]])
        extra = credo.TableFactor([graph.variables[2], graph.variables[0]], tables)
        graph = FactorGraph(graph.variables, [*graph.factors, extra])
    found = one_factor_per_edge(graph)
    np.testing.assert_allclose(weights_of(found), weights_of(graph), rtol=1e-12)
    skeleton = primal_graph(graph)
    assert [f.names for f in found.factors[: skeleton.n_edges]] == skeleton.edges()
    rest = [f.names for f in found.factors[skeleton.n_edges :]]
    assert len(set(rest)) == len(rest)
    assert all(len(names) == 0 or skeleton.neighbours(names[0]) == () for names in rest)


@each_seed(range(30))
def test_pairwise_form_keeps_log_z_and_marginals(seed):
    graph = random_factor_graph(np.random.default_rng(seed), n=4, m=4, widest=3)
    found = to_pairwise(graph)
    assert np.diff(found.scope_start).max(initial=0) <= 2
    if found is graph:
        assert np.diff(graph.scope_start).max(initial=0) <= 2
        return
    if np.log2(found.variables.sizes).sum() > 20:
        found = to_pairwise(FactorGraph(graph.variables, graph.factors[:2]))
        graph = FactorGraph(graph.variables, graph.factors[:2])
    before, after = (credo.infer(g, "enumerate") for g in (graph, found))
    assert after.log_z.value == pytest.approx(before.log_z.value, abs=1e-10)
    for name in graph.variables.names:
        np.testing.assert_allclose(after.marginals[name], before.marginals[name], atol=1e-12)


def test_the_new_variables_are_the_factors_joint_states():
    table = np.arange(12.0).reshape(2, 3, 2)
    graph = FactorGraph({"a": 2, "b": 3, "factor 0": 2}, {("a", "b", "factor 0"): table})
    found = to_pairwise(graph)
    assert list(found.variables.names) == ["a", "b", "factor 0", "factor 0'"]
    np.testing.assert_allclose(
        credo.infer(found, "enumerate").marginals["factor 0'"], table.ravel() / table.sum(), atol=1e-15
    )


def test_equal_shapes_share_their_indicator_tables():
    triples = np.arange(300).reshape(100, 3)
    graph = FactorGraph.from_arrays(np.full(300, 2), (triples, np.ones((100, 2, 2, 2))))
    found = to_pairwise(graph)
    assert found.n_factors == 400
    assert len(found.log_tables) == 100 * 8 + 3 * 16


@each_seed(range(30))
def test_clique_factors_keep_every_weight_and_have_the_maximal_cliques_as_scopes(seed):
    graph = random_factor_graph(np.random.default_rng(seed))
    found = to_clique_factors(graph)
    np.testing.assert_allclose(weights_of(found), weights_of(graph), rtol=1e-10)
    assert [f.names for f in found.factors] == maximal_cliques(graph)
    assert primal_graph(found) == primal_graph(graph)


@each_seed(range(20))
def test_constants_are_removed_without_changing_the_weights(seed):
    graph = random_factor_graph(np.random.default_rng(seed))
    small = without_constants(graph)
    assert (small.variables.sizes > 1).all()
    assert small.n_factors == graph.n_factors
    np.testing.assert_allclose(weights_of(small), np.squeeze(weights_of(graph)), rtol=1e-12)
    assert without_constants(small) is small


def test_labels_survive_the_removal_of_constants():
    graph = FactorGraph({"a": ["no", "yes"], "b": ["only"]}, {("a", "b"): [1, 2]})
    assert without_constants(graph).variables[0].states == ("no", "yes")


def test_empty_models():
    nothing = FactorGraph({})
    assert without_constants(nothing) is nothing
    assert to_pairwise(nothing) is nothing
    assert to_clique_factors(nothing) is nothing
    assert one_factor_per_edge(nothing).n_factors == 0
    assert polytree_to_factor_graph({}, {}, {}).n_factors == 0
    assert directed_tree_to_undirected({}, {}, {}).n_factors == 0
    result = credo.infer(nothing, "enumerate")
    assert undirected_tree_to_directed(nothing, result) == ({}, {})
    assert tree_from_marginals(nothing, result).n_factors == 0
    constant = FactorGraph({}, {(): 3.0})
    assert log_z(one_factor_per_edge(constant)) == pytest.approx(np.log(3))


def test_large_trees_are_converted_without_recursion():
    n = 100_000
    child = np.arange(1, n)
    pairs = np.stack([child - 1, child], axis=1)
    graph = FactorGraph.from_arrays(
        np.full(n, 2), (pairs, np.full((2, 2), 0.25)), (np.arange(n)[:, None], np.ones(2))
    )
    assert one_factor_per_edge(graph).n_factors == n - 1

    uniform = Result(
        "by hand",
        Status.EXACT,
        marginals=Marginals(graph.variables, np.full(2 * n, 0.5)),
        factor_marginals=FactorMarginals(graph, np.repeat([0.25, 0.5], [4 * (n - 1), 2 * n])),
    )
    parents, tables = undirected_tree_to_directed(graph, uniform, "x50000")
    assert parents["x0"] == ["x1"] and parents["x50000"] == [] and parents["x99999"] == ["x99998"]
    np.testing.assert_array_equal(tables["x0"], np.full((2, 2), 0.5))
    again = directed_tree_to_undirected(graph.variables, parents, tables)
    assert again.n_factors == n - 1


LOOP = {"a": [], "b": ["a"], "c": ["a", "b"]}
PAIR = FactorGraph({"a": 2, "b": 2}, {("a", "b"): [1, 2, 3, 4]})
TRIANGLE = FactorGraph.from_arrays(np.full(3, 2), ([[0, 1], [1, 2], [2, 0]], np.ones((2, 2))))


@pytest.mark.parametrize(
    ("convert", "error", "message"),
    [
        (
            lambda: polytree_to_factor_graph({}, LOOP, {}),
            ModelError,
            "expected a polytree, got a loop of arrows",
        ),
        (
            lambda: directed_tree_to_undirected({}, LOOP, {}),
            ModelError,
            "expected at most one parent each, got 2 for 'c'",
        ),
        (
            lambda: polytree_to_factor_graph({"a": 2}, {"b": []}, {"a": [0.5, 0.5]}),
            ModelError,
            r"parents: expected one entry for each variable; check \['a', 'b'\]",
        ),
        (
            lambda: polytree_to_factor_graph({"a": 2}, {"a": []}, {}),
            ModelError,
            r"tables: expected one entry for each variable; check \['a'\]",
        ),
        (
            lambda: polytree_to_factor_graph({"a": 2}, {"a": []}, {"a": [1, 0, 0]}),
            ModelError,
            r"table of 'a': expected shape \(2,\), got \(3,\)",
        ),
        (
            lambda: polytree_to_factor_graph({"a": 2}, {"a": []}, {"a": [0.5, 0.4]}),
            ModelError,
            "table of 'a': every row must sum to 1, got sums from 0.9 to 0.9",
        ),
        (
            lambda: polytree_to_factor_graph({"a": 2}, {"a": []}, {"a": [-0.5, 1.5]}),
            ModelError,
            "table of 'a': entries must be non-negative",
        ),
        (
            lambda: polytree_to_factor_graph(
                {"a": 2, "b": 2}, {"a": [], "b": []}, {"a": np.array([0.5, 0.5]), "b": np.array([np.nan, 1])}
            ),
            ModelError,
            "table of 'b': entries must be non-negative",
        ),
        (
            lambda: polytree_to_factor_graph({"a": 2}, {"a": []}, {"a": np.array([np.inf, 1])}),
            ModelError,
            "table of 'a': every row must sum to 1, got sums from inf to inf",
        ),
        (
            lambda: polytree_to_factor_graph({"a": 2}, {"a": []}, {"a": "half"}),
            ModelError,
            "table of 'a': expected a table of numbers, got 'half'",
        ),
        (
            lambda: undirected_tree_to_directed(TRIANGLE, credo.infer(TRIANGLE, "enumerate")),
            ModelError,
            "undirected_tree_to_directed: expected an undirected tree or forest, got a loop",
        ),
        (
            lambda: tree_from_marginals(TRIANGLE, credo.infer(TRIANGLE, "enumerate")),
            ModelError,
            "tree_from_marginals: expected an undirected tree or forest, got a loop",
        ),
        (
            lambda: undirected_tree_to_directed(PAIR, credo.infer(PAIR, "enumerate", maximise="all")),
            QueryError,
            "needs marginals and factor marginals; run an exact sum method first",
        ),
        (
            lambda: tree_from_marginals(PAIR, credo.infer(TRIANGLE, "enumerate")),
            QueryError,
            r"expected the marginals of this graph \(2 variables, 1 factors\), got 3 and 3",
        ),
        (
            lambda: undirected_tree_to_directed(PAIR, credo.infer(PAIR, "enumerate"), ["a", "b"]),
            QueryError,
            r"root: expected at most one root in each connected part, got \['a', 'b'\]",
        ),
        (
            lambda: undirected_tree_to_directed(PAIR, credo.infer(PAIR, "enumerate"), "z"),
            QueryError,
            "no variable named 'z'",
        ),
        (
            lambda: undirected_tree_to_directed(PAIR, credo.infer(PAIR, "enumerate"), impossible="half"),
            OptionError,
            "impossible must be one of",
        ),
        (
            lambda: one_factor_per_edge(FactorGraph({"a": 2, "b": 2, "c": 2}, {("a", "b", "c"): [1] * 8})),
            ModelError,
            "expected factors over at most two variables, got 3 in factor 0; use to_pairwise",
        ),
        (
            lambda: to_clique_factors(TRIANGLE, max_entries=7),
            TooLargeError,
            r"the clique tables would have 2\^3.0 entries, more than max_entries=7",
        ),
        (lambda: to_clique_factors(PAIR, max_entries=0), OptionError, "max_entries must be at least 1"),
    ],
)
def test_what_cannot_be_converted_is_refused_with_a_sentence(convert, error, message):
    with pytest.raises(error, match=message):
        convert()
