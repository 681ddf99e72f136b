"""Powered sums in any order: values and derivatives against enumeration and finite differences of it."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo import FactorGraph
from credo.core.errors import UnsupportedError
from credo.core.result import Status
from credo.core.variable import Variables
from credo.inference.problem.contents import methods
from seeds import each_seed

HEATS = (0.0, 0.3, 1.0, 2.5)


def random_model(seed, *, zeros=True):
    """Up to six variables, one of them with one state, in two parts; factors of up to three variables."""
    rng = np.random.default_rng(seed)
    sizes = dict(zip("abcdef", [2, 3, 2, 1, 2, 3], strict=True))
    scopes = [("a", "b"), ("b", "c"), ("a", "c"), ("e", "f"), ("b",), ("f",), ("c", "d"), ()]
    if rng.random() < 0.5:
        scopes.append(("c", "a", "b"))
    if rng.random() < 0.5:
        scopes.append(("e", "c"))
    tables = []
    for scope in scopes:
        log = rng.normal(0, 1.5, [sizes[v] for v in scope])
        if zeros and len(scope) > 1 and rng.random() < 0.5:
            log.flat[rng.integers(log.size)] = -np.inf
        tables.append((scope, log))
    order = [str(v) for v in rng.permutation(list(sizes))]
    heat = {v: float(rng.choice(HEATS)) for v in sizes}
    return sizes, tables, heat, order


def graph_of(sizes, tables):
    return FactorGraph(sizes, {scope: np.exp(log) for scope, log in tables})


def brute_force(sizes, tables, heat, order):
    """log sum^{t_n} ... sum^{t_1} exp theta by the definition, on the whole joint table."""
    names = list(sizes)
    joint = np.zeros([sizes[v] for v in names])
    for scope, log in tables:
        shape = [sizes[v] if v in scope else 1 for v in names]
        joint = joint + log.transpose(np.argsort([names.index(v) for v in scope])).reshape(shape)
    for v in order:
        k, t = names.index(v), heat[v]
        top = joint.max(axis=k, keepdims=True)
        if t > 0:
            shift = np.where(top > -np.inf, top, 0.0)
            with np.errstate(divide="ignore"):
                top = shift + t * np.log(np.exp((joint - shift) / t).sum(axis=k, keepdims=True))
        joint = top
    return float(joint.item())


def slopes(sizes, tables, heat, order, step=1e-5):
    """Central differences by every finite entry of every table; zero at impossible ones."""
    found = []
    for a, (scope, log) in enumerate(tables):
        slope = np.zeros(log.shape)
        for where in np.ndindex(log.shape):
            if log[where] == -np.inf:
                continue
            values = []
            for sign in (1, -1):
                moved = log.copy()
                moved[where] += sign * step
                values.append(
                    brute_force(sizes, [*tables[:a], (scope, moved), *tables[a + 1 :]], heat, order)
                )
            slope[where] = (values[0] - values[1]) / (2 * step)
        found.append(slope)
    return found


@pytest.mark.parametrize("method", ["junction-tree", "enumerate"])
@each_seed(range(12))
def test_values_and_derivatives_of_exact_methods(method, seed):
    sizes, tables, heat, order = random_model(seed)
    found = credo.infer(graph_of(sizes, tables), method, temperatures=heat, order=order)
    assert found.log_z.kind == "exact"
    assert found.log_z.value == pytest.approx(brute_force(sizes, tables, heat, order), abs=1e-10)
    for got, expected in zip(found.factor_marginals, slopes(sizes, tables, heat, order), strict=True):
        np.testing.assert_allclose(got, expected, atol=2e-8)


ORDERED = ["junction-tree", "elimination", "enumerate", "wmb", "gdd", "mini-bucket"]
COARSE = ["wmb(ibound=1)", "gdd(ibound=1)", "mini-bucket(ibound=1)", "mini-bucket(ibound=1,matching=True)"]
BLOCKS = ["gdd(updates=blocks,ibound=1)", "gdd(updates=joint,ibound=1)"]


def test_those_who_declare_orders_are_known():
    told = [name for name, known in methods().items() if "ordered" in known.answers]
    assert sorted(told) == sorted(ORDERED)


@pytest.mark.filterwarnings("ignore::credo.core.errors.ConvergenceWarning")
@pytest.mark.parametrize("method", [*ORDERED, *COARSE, *BLOCKS])
@pytest.mark.parametrize("seed", range(20, 26))
def test_every_method_obeys_the_order_it_is_given(method, seed):
    sizes, tables, heat, order = random_model(seed)
    found = credo.infer(graph_of(sizes, tables), method, temperatures=heat, order=order, max_iter=30)
    truth = brute_force(sizes, tables, heat, order)
    if found.log_z.kind == "exact":
        assert found.log_z.value == pytest.approx(truth, abs=1e-8)
    else:
        assert found.log_z.kind == "upper"
        assert found.log_z.value >= truth - 1e-9


@pytest.mark.parametrize("method", ["bp", "trw", "mean-field", "reordering", "local-search"])
def test_others_refuse_an_order_that_differs_from_theirs(method):
    graph = FactorGraph({"a": 2, "b": 2}, {("a", "b"): [[1, 2], [3, 1]]})
    with pytest.raises(UnsupportedError, match="powered sums in a given order"):
        credo.infer(graph, method, maximise=["a"], order=["a", "b"])


@pytest.mark.parametrize("method", ["wmb(ibound=9)", "gdd(ibound=9)", "mini-bucket(ibound=9)"])
@pytest.mark.parametrize("seed", range(30, 34))
def test_bounds_that_split_nothing_have_the_derivative_of_the_powered_sum(method, seed):
    sizes, tables, heat, order = random_model(seed)
    graph = graph_of(sizes, tables)
    found, exact = (credo.infer(graph, m, temperatures=heat, order=order) for m in (method, "enumerate"))
    assert found.status is Status.EXACT
    np.testing.assert_allclose(found.factor_marginals.flat, exact.factor_marginals.flat, atol=1e-8)


@pytest.mark.filterwarnings("ignore::credo.core.errors.ConvergenceWarning")
@pytest.mark.parametrize(
    "method",
    ["wmb(ibound=1,weights=even)", "mini-bucket(ibound=1)", "gdd(ibound=1)", "gdd(updates=blocks,ibound=1)"],
)
@pytest.mark.parametrize("seed", range(40, 43))
def test_the_factor_marginals_of_a_bound_are_its_derivative(method, seed):
    """Before the first step shifts and weights do not depend on the tables: the bound is a plain function."""
    sizes, tables, heat, order = random_model(seed, zeros=False)
    ask = {"temperatures": heat, "order": order, "max_iter": 0}

    def value(tables):
        return credo.infer(graph_of(sizes, tables), method, **ask)

    found, step = value(tables), 1e-5
    for a, (scope, log) in enumerate(tables):
        for where in np.ndindex(log.shape):
            ends = []
            for sign in (1, -1):
                moved = log.copy()
                moved[where] += sign * step
                ends.append(value([*tables[:a], (scope, moved), *tables[a + 1 :]]).log_z.value)
            slope = (ends[0] - ends[1]) / (2 * step)
            assert found.factor_marginals[a][where] == pytest.approx(slope, abs=1e-7)


@pytest.mark.filterwarnings("ignore::credo.core.errors.ConvergenceWarning")
@pytest.mark.parametrize("method", [*COARSE, *BLOCKS, "wmb(ibound=1,bound=lower)"])
def test_derivatives_of_bounds_are_distributions(method):
    sizes, tables, _, _ = random_model(3)
    found = credo.infer(graph_of(sizes, tables), method, max_iter=20)
    assert (found.factor_marginals.flat >= 0).all()
    for table in found.factor_marginals:
        assert table.sum() == pytest.approx(1, abs=1e-9)


def tree_model(seed):
    rng = np.random.default_rng(seed)
    sizes = {"a": 2, "b": 3, "c": 2, "d": 3, "one": 1}
    scopes = [("a", "b"), ("b", "c"), ("b", "d"), ("d", "one"), ("a",), ("c",)]
    return sizes, [(s, rng.normal(size=[sizes[v] for v in s])) for s in scopes]


@pytest.mark.parametrize("maximise", ["", "abcd", "a", "bd"])
def test_belief_propagation_on_trees_has_the_exact_derivative(maximise):
    sizes, tables = tree_model(5)
    named = [*maximise, "one"] if maximise == "abcd" else list(maximise)
    heat = {v: 0.0 if v in named else 1.0 for v in sizes}
    order = sorted(sizes, key=lambda v: -heat[v])
    found = credo.infer(graph_of(sizes, tables), "bp", maximise=named, tol=1e-12)
    truth = credo.infer(graph_of(sizes, tables), "enumerate", maximise=named)
    if maximise and (found.assignment.indices != truth.assignment.indices).any():
        pytest.skip("marginal MAP on a tree is not what messages find")
    for got, expected in zip(found.factor_marginals, slopes(sizes, tables, heat, order), strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-7)


@pytest.mark.parametrize("method", ["bp", "local-search", "branch-and-bound", "dual-decomposition", "trw"])
def test_the_derivative_of_a_maximum_is_the_indicator_of_its_states(method):
    sizes, tables = tree_model(6)
    found = credo.infer(graph_of(sizes, tables), method, maximise="all", evidence={"c": 1})
    states = dict(zip(sizes, found.assignment.indices, strict=True))
    for (scope, _), table in zip(tables, found.factor_marginals, strict=True):
        assert table.sum() == 1 and table[tuple(states[v] for v in scope)] == 1


def test_decoded_states_are_certain_and_the_rest_given_them():
    sizes, tables = tree_model(7)
    for method in ("junction-tree", "enumerate", "bp", "decimation"):
        found = credo.infer(graph_of(sizes, tables), method, maximise=["a", "d"])
        said = {v: int(found.assignment.indices[list(sizes).index(v)]) for v in ("a", "d")}
        given = credo.infer(graph_of(sizes, tables), "enumerate", evidence=said)
        np.testing.assert_allclose(found.factor_marginals.flat, given.factor_marginals.flat, atol=1e-9)


@pytest.mark.parametrize("method", ["junction-tree", "enumerate"])
def test_cold_sums_approach_the_maximum(method):
    sizes, tables = tree_model(8)
    graph = graph_of(sizes, tables)
    best = credo.infer(graph, method, maximise="all")
    for cold in (1e-3, 1e-9, 1e-15, 1e-300):
        found = credo.infer(graph, method, temperatures=dict.fromkeys(sizes, cold))
        assert found.log_z.value == pytest.approx(best.log_z.value, abs=1e-2)
        np.testing.assert_allclose(found.factor_marginals.flat, best.factor_marginals.flat, atol=1e-6)


def test_a_wide_range_of_weights_takes_logarithms():
    tables = [(("a", "b"), np.array([[0.0, -900.0], [-1800.0, -2.0]])), (("b",), np.array([-950.0, 0.5]))]
    sizes, heat, order = {"a": 2, "b": 2}, {"a": 1.0, "b": 0.0}, ["a", "b"]
    flat = np.concatenate([t.ravel() for _, t in tables])
    graph = FactorGraph.from_flat(Variables.of(sizes), np.array([0, 2, 3]), np.array([0, 1, 1]), flat)
    found = credo.infer(graph, "junction-tree", temperatures=heat, order=order)
    assert found.log_z.value == pytest.approx(brute_force(sizes, tables, heat, order), abs=1e-10)
    np.testing.assert_allclose(found.factor_marginals[0], [[0, np.exp(-898)], [0, 1]], atol=1e-12)
