"""Exact inference beyond the zoo: wide ranges, long chains, large trees, pruning, and reused plans."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from conformance.oracle import Oracle
from credo import FactorGraph, datasets
from credo.core.result import Status
from credo.inference.exact import junction_tree
from credo.inference.problem import tree as tree_module
from credo.kernels import join_beliefs
from credo.kernels import join_tree as kernel
from random_models import joint
from seeds import each_seed
from zoo import TREES, ZOO, Case, case

METHODS = ["junction-tree", "junction-tree(propagation=hugin)", "elimination"]
GENERAL = ["junction-tree", "elimination"]
ZEROS = [c for c in ZOO if np.isneginf(c.log_weights).any()]


def log_sum(values, axis=None):
    top = np.max(values, axis=axis, keepdims=True)
    top = np.where(np.isneginf(top), 0.0, top)
    with np.errstate(divide="ignore"):
        return np.squeeze(top, axis) + np.log(np.exp(values - top).sum(axis=axis))


# Ranges that underflow


def wild_graph(seed, reach=800.0):
    """A loopy graph whose log tables span far more than a double's exponent."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 4, 7)
    scopes = [(0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (4, 5, 6), (2, 5), (6,)]
    factors = [(tuple(f"x{i}" for i in s), rng.uniform(-reach, reach, sizes[list(s)])) for s in scopes]
    return Case(f"wild {seed}", {f"x{i}": int(s) for i, s in enumerate(sizes)}, factors)


@pytest.mark.parametrize("method", METHODS)
@each_seed(range(8))
def test_log_tables_from_minus_to_plus_800_lose_nothing(method, seed):
    problem = wild_graph(seed)
    for evidence in ({}, {"x3": 1}):
        truth = Oracle(problem, evidence)
        result = credo.infer(problem.graph, method, evidence=evidence)
        assert result.log_z.value == pytest.approx(truth.log_z, rel=1e-13)
        for name in problem.names:
            np.testing.assert_allclose(result.marginals[name], truth.joint([name]), rtol=0, atol=1e-10)
    if method in GENERAL:
        best = credo.infer(problem.graph, method, maximise="all")
        assert best.log_z.value == pytest.approx(Oracle(problem).best(), rel=1e-13)


def test_the_fall_back_to_logarithms_is_taken_on_the_way_up_and_on_the_way_down(monkeypatch):
    codes = {"upward": [], "downward": []}
    for original, seen in zip((kernel.upward, join_beliefs.downward), codes.values(), strict=True):

        def over(work, original=original, seen=seen):
            def spy(*args):
                found = original(*args)
                seen.append(found[0] if isinstance(found, tuple) else found)
                return found

            return spy

        monkeypatch.setattr(original, "over", over)
    credo.infer(wild_graph(0).graph, "junction-tree")
    assert codes == {"upward": [kernel.UNDERFLOW, kernel.FINE], "downward": [kernel.FINE]}
    for seen in codes.values():
        seen.clear()

    # Going up, the small numbers of either end are summed away before they meet; coming down, both
    # reach the factor in the middle.
    small = np.array([1.0, 1e-100])
    tables = {
        ("a", "b"): np.ones((2, 1)) * small,
        ("b", "c"): np.ones((2, 2)),
        ("c", "d"): np.outer(small, [1, 1]),
    }
    graph = FactorGraph(dict.fromkeys("abcd", 2), tables)
    result = credo.infer(graph, "junction-tree")
    assert codes == {"upward": [kernel.FINE, kernel.FINE], "downward": [kernel.UNDERFLOW, kernel.FINE]}
    np.testing.assert_allclose(result.factor_marginals[1], np.outer(small, small), rtol=1e-12)
    assert result.log_z.value == pytest.approx(np.log(4), rel=1e-14)


def long_chain(n, seed=0):
    rng = np.random.default_rng(seed)
    tables = rng.uniform(-2.5, -1.0, (n - 1, 3, 3))
    scopes = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
    return FactorGraph.from_arrays(np.full(n, 3), (scopes, tables), log=True), tables


def transfer(tables, allowed):
    """Forward and backward log vectors of a chain; `allowed` holds a log weight per variable and state."""
    n = len(tables) + 1
    ahead, back = np.zeros((n, 3)), np.zeros((n, 3))
    ahead[0] = allowed[0]
    for k in range(1, n):
        ahead[k] = log_sum(ahead[k - 1][:, None] + tables[k - 1], axis=0) + allowed[k]
    for k in range(n - 2, -1, -1):
        back[k] = log_sum(tables[k] + (back[k + 1] + allowed[k + 1])[None, :], axis=1)
    return ahead, back


@pytest.mark.parametrize(
    "seen", [{}, {5000: 2}, {0: 1, 3333: 0, 3334: 1, 9999: 2}], ids=["none", "middle", "four"]
)
@pytest.mark.parametrize("method", METHODS[:2])
def test_a_long_chain_equals_transfer_matrices_in_logs(method, seen):
    n = 10_000 if method == "junction-tree" else 500
    seen = {k * n // 10_000: s for k, s in seen.items()}
    graph, tables = long_chain(n)
    allowed = np.zeros((n, 3))
    for k, state in seen.items():
        allowed[k] = np.where(np.arange(3) == state, 0.0, -np.inf)
    ahead, back = transfer(tables, allowed)
    result = credo.infer(graph, method, evidence={f"x{k}": s for k, s in seen.items()})
    log_z = float(log_sum(ahead[-1], axis=0))
    assert log_z < -0.5 * n
    assert result.log_z.value == pytest.approx(log_z, rel=1e-12)
    expected = np.exp(ahead + back - log_z)
    np.testing.assert_allclose(result.marginals.flat.reshape(n, 3), expected, rtol=0, atol=1e-10)


def test_the_most_likely_path_of_a_long_chain_equals_viterbi():
    n = 10_000
    graph, tables = long_chain(n)
    score, back = np.zeros(3), np.empty((n, 3), dtype=np.int64)
    for k in range(1, n):
        back[k] = (score[:, None] + tables[k - 1]).argmax(axis=0)
        score = (score[:, None] + tables[k - 1]).max(axis=0)
    path = [int(score.argmax())]
    for k in range(n - 1, 0, -1):
        path.append(int(back[k][path[-1]]))
    result = credo.infer(graph, "junction-tree", maximise="all")
    assert result.log_z.value == pytest.approx(score.max(), rel=1e-12)
    np.testing.assert_array_equal(result.assignment.indices, path[::-1])


def test_a_tree_of_a_hundred_thousand_variables_equals_two_passes_of_messages():
    n = 100_000
    graph = datasets.random_tree(n, states=2, seed=3).to_factor_graph()
    parent = np.full(n, -1)
    parent[graph.scope[1::2]] = graph.scope[::2]
    tables = np.zeros((n, 2, 2))
    tables[graph.scope[1::2]] = graph.log_tables[graph.table_start[:, None] + np.arange(4)].reshape(-1, 2, 2)
    depth = np.zeros(n, dtype=np.int64)
    for i in range(1, n):
        depth[i] = depth[parent[i]] + 1
    layers = [np.flatnonzero(depth == d) for d in range(depth.max() + 1)]

    below = np.zeros((n, 2))  # log of what comes up to each variable
    up = np.zeros((n, 2))  # message of each variable to its parent
    for layer in layers[:0:-1]:
        up[layer] = log_sum(tables[layer] + below[layer][:, None, :], axis=2)
        np.add.at(below, parent[layer], up[layer])
    above = np.zeros((n, 2))  # log of what comes down to each variable
    for layer in layers[1:]:
        p = parent[layer]
        rest = above[p] + below[p] - up[layer]
        above[layer] = log_sum(rest[:, :, None] + tables[layer], axis=1)
    beliefs = above + below
    log_z = log_sum(beliefs, axis=1)

    result = credo.infer(graph, "junction-tree")
    assert np.ptp(log_z) < 1e-6 * abs(log_z[0])
    assert result.log_z.value == pytest.approx(log_z[0], rel=1e-11)
    expected = np.exp(beliefs - log_z[:, None])
    np.testing.assert_allclose(result.marginals.flat.reshape(n, 2), expected, rtol=0, atol=1e-9)


# Plans are made once per structure


@pytest.fixture
def orders(monkeypatch):
    """The graphs for which an elimination order was searched."""
    asked = []
    original = tree_module.elimination_order

    def spy(graph, *args, **options):
        asked.append(graph)
        return original(graph, *args, **options)

    monkeypatch.setattr(tree_module, "elimination_order", spy)
    return asked


def test_other_evidence_values_reuse_the_plan_and_another_pattern_makes_a_new_one(orders):
    model = datasets.asia()
    truth = {}
    for state in (0, 1, 0):
        result = credo.infer(model, "junction-tree", evidence={"lung": state})
        expected = credo.infer(model, "enumerate", evidence={"lung": state})
        truth[state] = result.log_z.value
        np.testing.assert_allclose(result.marginals.flat, expected.marginals.flat, atol=1e-12)
    assert len(orders) == 1
    assert len(model.to_factor_graph().memo) == 1
    for state in (0, 1):
        credo.infer(model, "junction-tree", evidence={"lung": state, "xray": 1 - state})
    assert len(orders) == 2
    credo.infer(model, "junction-tree", evidence={"lung": 1})
    assert len(orders) == 2
    credo.infer(model, "junction-tree")
    assert len(orders) == 3
    assert truth[0] != truth[1]


def test_other_likelihoods_reuse_the_plan(orders):
    model = datasets.asia()
    for vector in ([0.2, 0.8], [0.5, 0.1]):
        found = credo.infer(model, "junction-tree", evidence={"dysp": vector})
        expected = credo.infer(model, "enumerate", evidence={"dysp": vector})
        np.testing.assert_allclose(found.marginals.flat, expected.marginals.flat, atol=1e-12)
    assert len(orders) == 1


def test_the_maximum_and_samples_share_the_plan_of_the_sum(orders):
    model = datasets.asia()
    credo.infer(model, "junction-tree")
    credo.infer(model, "junction-tree", maximise="all")
    credo.sample(model, 3, seed=0)
    assert len(orders) == 1
    credo.infer(model, "junction-tree", maximise=["smoke"])
    assert len(orders) == 2


def test_another_effort_makes_a_plan_of_its_own(orders):
    model = datasets.asia()
    for effort in (1, 2, 1, 2):
        credo.infer(model, f"junction-tree(effort={effort})")
    assert len(orders) == 2


def test_repeated_queries_without_barren_factors_reuse_the_plan(orders):
    model = datasets.ising_grid(4, seed=1)
    name = model.variables.names[5]
    first = credo.query(model, name, evidence={model.variables.names[0]: 0})
    other = credo.query(model, name, evidence={model.variables.names[0]: 1})
    assert len(orders) == 1
    assert (first.table != other.table).any()


# What is dropped before the work changes no answer


@each_seed(range(12))
def test_barren_factors_change_no_answer(seed):
    rng = np.random.default_rng(seed)
    model = datasets.random_bayes_net(9, states=rng.integers(2, 4, 9), seed=seed)
    names = model.variables.names
    evidence = {names[int(rng.integers(9))]: 1} if seed % 2 else {}
    asked = [n for n in rng.permutation(names).tolist() if n not in evidence][:2]
    tables = [credo.query(model, asked, evidence=evidence, method=m).table for m in (*GENERAL, "enumerate")]
    np.testing.assert_allclose(tables[0], tables[2], atol=1e-12)
    np.testing.assert_allclose(tables[1], tables[2], atol=1e-12)
    values = [
        credo.infer(model, m, evidence=evidence, maximise=asked).log_z.value for m in (*GENERAL, "enumerate")
    ]
    assert values == pytest.approx([values[2]] * 3, abs=1e-11)
    found, truth = (credo.infer(model, m, evidence=evidence) for m in ("elimination", "enumerate"))
    assert found.log_z.value == pytest.approx(truth.log_z.value, abs=1e-11)
    np.testing.assert_allclose(found.marginals.flat, truth.marginals.flat, atol=1e-12)


def test_a_query_in_a_wide_network_touches_only_the_ancestors():
    # Children of eight random parents each make the whole far too wide; all of them are barren.
    rng = np.random.default_rng(0)
    parents = {f"b{i}": [] for i in range(40)} | {
        f"c{i}": rng.permutation(40)[:8].tolist() for i in range(120)
    }
    parents = {child: [f"b{j}" for j in who] for child, who in parents.items()}
    model = credo.BayesNet.random(dict.fromkeys(parents, 2), parents, seed=1)
    with pytest.raises(credo.CredoError, match="exact inference needs width"):
        credo.infer(model, "junction-tree(effort=0,memory_gb=0.001)")
    table = credo.query(model, "b3").table
    np.testing.assert_allclose(table, model.tables["b3"], atol=1e-14)


@pytest.fixture
def pruning(monkeypatch):
    """Look for impossible states however small the problem; collects the restrictions found."""
    found = []
    original = tree_module.supported_states

    def spy(*args):
        keep = original(*args)
        found.append(keep)
        return keep

    monkeypatch.setattr(tree_module, "_PRUNE_FROM", 1)
    monkeypatch.setattr(tree_module, "supported_states", spy)
    return found


@pytest.mark.parametrize("problem", ZEROS, ids=lambda c: c.id)
def test_dropping_impossible_states_changes_no_answer(problem, pruning):
    for kind, evidence in problem.evidences.items():
        truth = Oracle(problem, evidence)
        result = credo.infer(problem.graph, "junction-tree", evidence=evidence)
        assert result.log_z.value == pytest.approx(truth.log_z, rel=1e-12, abs=1e-12), kind
        for name in problem.names:
            np.testing.assert_allclose(result.marginals[name], truth.joint([name]), atol=1e-12)
        for a, (scope, _) in enumerate(problem.factors):
            np.testing.assert_allclose(result.factor_marginals[a], truth.joint(scope), atol=1e-12)
        best = credo.infer(problem.graph, "junction-tree", evidence=evidence, maximise="all")
        assert best.log_z.value == pytest.approx(truth.best(), rel=1e-12, abs=1e-12)
        assert truth.score(best.assignment.indices.tolist()) == pytest.approx(truth.best(), abs=1e-12)
        half = problem.names[::2]
        some = credo.infer(problem.graph, "junction-tree", evidence=evidence, maximise=half)
        assert some.log_z.value == pytest.approx(truth.marginal_map(half), rel=1e-12, abs=1e-12)
        assert truth.value_of({n: some.assignment.index(n) for n in half}) == pytest.approx(some.log_z.value)
        pair = problem.names[:2]
        for method in GENERAL:
            table = credo.query(problem.graph, pair, evidence=evidence, method=method).table
            np.testing.assert_allclose(table, truth.joint(pair), atol=1e-12)
        rows = credo.sample(problem.graph, 50, evidence=evidence, seed=1).indices
        assert (truth.weights[tuple(rows.T)] > -np.inf).all()
    assert pruning


def test_the_zoo_has_states_to_drop(pruning):
    for problem in ZEROS:
        credo.infer(problem.graph, "junction-tree", evidence=problem.evidences["several"])
    assert any(not keep.all() for keep in pruning)


def test_contradictions_are_found_while_dropping_states(pruning):
    equal = np.eye(2)
    graph = FactorGraph(dict.fromkeys("abc", 2), {("a", "b"): equal, ("b", "c"): equal})
    says = "the evidence has probability zero under this model"
    with pytest.raises(credo.CredoError, match=says):
        credo.infer(graph, "junction-tree", evidence={"a": 0, "c": 1})


# Maxima


@pytest.mark.parametrize("method", GENERAL)
def test_ties_go_to_a_maximiser(method):
    graph = FactorGraph(
        dict.fromkeys("abc", 2), {("a", "b"): np.eye(2), ("b", "c"): np.eye(2), ("a", "c"): [[5, 9], [9, 5]]}
    )
    result = credo.infer(graph, method, maximise="all")
    assert result.log_z.value == pytest.approx(np.log(5))
    assert graph.log_score(result.assignment) == pytest.approx(np.log(5))
    flat = FactorGraph({"a": 3, "b": 2}, {("a", "b"): np.ones((3, 2))})
    assert graph.log_score(credo.infer(graph, method, maximise="all").assignment) == pytest.approx(np.log(5))
    assert flat.log_score(credo.infer(flat, method, maximise="all").assignment) == 0
    # Ties between two states that do not go together.
    xor = FactorGraph({"a": 2, "b": 2}, {("a", "b"): [[0, 1], [1, 0]]})
    a, b = credo.infer(xor, method, maximise="all").assignment.indices
    assert a != b


@pytest.mark.parametrize("method", GENERAL)
@each_seed(range(10))
def test_marginal_map_equals_brute_force(method, seed):
    rng = np.random.default_rng(seed)
    model = datasets.random_factor_graph(7, 9, states=rng.integers(2, 4, 7), seed=seed, zeros=0.2)
    graph, names = model.to_factor_graph(), list(model.variables.names)
    weights = joint(graph)
    chosen = sorted(rng.permutation(7)[:3].tolist())
    values = log_sum_over(weights, tuple(i for i in range(7) if i not in chosen))
    if np.isneginf(values).all():
        pytest.skip("this seed has no possible state")
    result = credo.infer(model, method, maximise=[names[i] for i in chosen])
    assert result.log_z.value == pytest.approx(values.max(), abs=1e-10)
    at = tuple(result.assignment.index(names[i]) for i in chosen)
    assert values[at] == pytest.approx(values.max(), abs=1e-10)


def log_sum_over(weights, axes):
    top = weights.max()
    with np.errstate(divide="ignore"):
        return top + np.log(np.exp(weights - top).sum(axis=axes))


# Corners


@pytest.mark.parametrize("method", [*GENERAL, "enumerate"])
def test_a_conditional_is_zero_where_its_condition_has_probability_zero(method):
    model = credo.BayesNet(
        {"cause": 2, "state": 3}, {"cause": [], "state": ["cause"]},
        {"cause": [0.4, 0.6], "state": [[0.5, 0.5, 0.0], [0.1, 0.9, 0.0]]},
    )  # fmt: skip
    found = credo.query(model, "cause", given="state", method=method)
    assert found.names == ("cause", "state")
    np.testing.assert_allclose(found.table[:, 0], [0.2 / 0.26, 0.06 / 0.26])
    np.testing.assert_allclose(found.table[:, 1], [0.2 / 0.74, 0.54 / 0.74])
    assert found.table[:, 2].tolist() == [0, 0]


@pytest.mark.parametrize("method", [*METHODS, "enumerate"])
def test_a_model_without_variables_has_an_answer(method):
    for factors, log_z in (({}, 0.0), ({(): 2.5}, np.log(2.5))):
        graph = FactorGraph({}, factors)
        result = credo.infer(graph, method)
        assert result.log_z.value == pytest.approx(log_z)
        assert dict(result.marginals) == {}
        if "hugin" not in method:
            best = credo.infer(graph, method, maximise="all")
            assert best.log_z.value == pytest.approx(log_z)
            assert not best.assignment
    assert credo.sample(FactorGraph({}), 4, seed=0).indices.shape == (4, 0)


@pytest.mark.parametrize("method", [*METHODS, "enumerate"])
def test_everything_observed_leaves_the_score_of_one_state(method):
    problem = case("grid 3x3")
    seen = dict.fromkeys(problem.names, 1)
    result = credo.infer(problem.graph, method, evidence=seen)
    assert result.log_z.value == pytest.approx(problem.graph.log_score(seen), rel=1e-12)
    assert all(p.tolist() == [0, 1] for p in result.marginals.values())


@pytest.mark.parametrize("case", TREES, ids=lambda c: c.id)
def test_messages_on_a_forest_give_the_same_as_the_join_tree(case, monkeypatch):
    planned = credo.infer(case.graph, "junction-tree")
    monkeypatch.setattr(junction_tree, "_LARGE_FOREST", 0)
    passed = credo.infer(case.graph, "junction-tree")
    assert passed.status is Status.EXACT and passed.log_z.kind == "exact"
    assert passed.log_z.value == pytest.approx(planned.log_z.value, abs=1e-10)
    np.testing.assert_allclose(passed.marginals.flat, planned.marginals.flat, atol=1e-10)
    np.testing.assert_allclose(passed.factor_marginals.flat, planned.factor_marginals.flat, atol=1e-10)


@pytest.mark.parametrize(
    "method", ["enumerate", "junction-tree", "junction-tree(propagation=hugin)", "elimination", "bp"]
)
@pytest.mark.parametrize("scope", ["", "a", "ab", "ac"])
def test_a_huge_constant_takes_no_digits_from_marginals(method, scope):
    rng = np.random.default_rng(0)
    variables = {name: credo.Variable(name, 3 if name == "b" else 2) for name in "abcd"}
    pairs = [
        credo.TableFactor.from_log([variables[i], variables[j]], rng.normal(size=(size, 2)))
        for i, j, size in (("b", "a", 3), ("b", "c", 3), ("c", "d", 2))
    ]
    own = [variables[name] for name in scope]
    constant = credo.TableFactor.from_log(own, np.full([v.size for v in own], 1e12))
    plain = credo.infer(credo.FactorGraph(variables.values(), pairs), "enumerate")
    found = credo.infer(credo.FactorGraph(variables.values(), [*pairs, constant]), method)
    atol = 1e-8 if method == "bp" and scope == "ac" else 1e-14  # which closes a loop
    for name in variables:
        np.testing.assert_allclose(found.marginals[name], plain.marginals[name], atol=atol)
    assert found.log_z.value == pytest.approx(1e12 + plain.log_z.value, rel=1e-15)
