"""Free energies as functions of beliefs: bounds, identities, gradients, zeros and refusals."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest
from scipy.linalg import null_space

import credo
from conformance.oracle import Oracle
from credo.core.errors import QueryError
from credo.inference.problem import free_energy
from zoo import TREES, ZOO, Case, case

POSITIVE = ["chain", "star", "4-cycle", "grid 2x4", "three-way factors", "four-way factors", "shared tables"]
ids = lambda c: c.id


def log_z(c: Case) -> float:
    return Oracle(c).log_z


def beliefs(c: Case) -> tuple[np.ndarray, np.ndarray]:
    """Exact marginals and factor marginals, flat, by brute force."""
    truth = Oracle(c)
    single = [truth.joint([n]) for n in c.names]
    tables = [truth.joint(scope).ravel() for scope, _ in c.factors]
    return np.concatenate([*single, []]), np.concatenate([*tables, []])


def random_beliefs(c: Case, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Positive numbers, each segment summing to one; not consistent."""
    rng = np.random.default_rng(seed)
    draw = lambda sizes: np.concatenate([*(rng.dirichlet(np.ones(k)) for k in sizes), []])
    return draw(c.sizes), draw(c.graph.table_size)


def differences(function, x: np.ndarray, h: float = 1e-6) -> np.ndarray:
    steps = h * np.eye(len(x))
    return np.array([(function(x + e) - function(x - e)) / (2 * h) for e in steps])


def product(c: Case, marginals: np.ndarray) -> np.ndarray:
    joint, at = np.ones([1] * len(c.sizes)), 0
    for i, size in enumerate(c.sizes):
        shape = [1] * len(c.sizes)
        shape[i] = size
        joint = joint * marginals[at : at + size].reshape(shape)
        at += size
    return joint


@pytest.mark.parametrize("c", ZOO, ids=ids)
def test_the_variational_free_energy_is_minus_log_z_at_the_truth_and_larger_elsewhere(c: Case):
    truth = Oracle(c)
    least = free_energy.variational(c.graph, truth.probabilities)
    assert least == pytest.approx(-truth.log_z, rel=1e-10, abs=1e-10)
    rng = np.random.default_rng(1)
    for _ in range(5):
        other = np.where(truth.weights > -np.inf, rng.exponential(size=truth.weights.shape), 0.0)
        other /= other.sum()
        assert free_energy.variational(c.graph, other) >= least - 1e-9 * abs(least) - 1e-10


@pytest.mark.parametrize("c", ZOO, ids=ids)
def test_mean_field_is_the_variational_free_energy_of_a_product(c: Case):
    marginals, _ = random_beliefs(c, 2)
    found = free_energy.mean_field(c.graph, marginals)
    assert found == pytest.approx(free_energy.variational(c.graph, product(c, marginals)), rel=1e-10)
    assert found >= -log_z(c) - 1e-9


@pytest.mark.parametrize("c", TREES, ids=ids)
def test_the_bethe_free_energy_is_minus_log_z_at_the_marginals_of_a_tree(c: Case):
    assert free_energy.bethe(c.graph, *beliefs(c)) == pytest.approx(-log_z(c), rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("name", POSITIVE)
def test_bethe_at_a_product_is_mean_field(name: str):
    c = case(name)
    marginals, _ = random_beliefs(c, 3)
    joint = product(c, marginals)
    axis = {n: k for k, n in enumerate(c.names)}
    tables = []
    for scope, _ in c.factors:
        keep = [axis[n] for n in scope]
        table = joint.sum(axis=tuple(k for k in range(joint.ndim) if k not in keep))
        tables.append(table.transpose(np.argsort(np.argsort(keep))).ravel())
    found = free_energy.bethe(c.graph, marginals, np.concatenate(tables))
    assert found == pytest.approx(free_energy.mean_field(c.graph, marginals), rel=1e-10)


@pytest.mark.parametrize("c", ZOO, ids=ids)
def test_bethe_is_reweighted_by_one_and_the_region_free_energy_of_factors_and_variables(c: Case):
    marginals, tables = beliefs(c)
    bethe = free_energy.bethe(c.graph, marginals, tables)
    assert free_energy.reweighted_energy(c.graph, marginals, tables, 1.0) == bethe
    degree = [sum(n in scope for scope, _ in c.factors) for n in c.names]
    cuts = lambda flat, sizes: np.split(flat, np.cumsum(sizes)[:-1]) if len(sizes) else []
    large, small = cuts(tables, c.graph.table_size), cuts(marginals, c.sizes)
    regions = free_energy.region_based(
        [*large, *small],
        [1.0] * len(large) + [1.0 - d for d in degree],
        [*(t.ravel() for _, t in c.factors), *(np.zeros(s) for s in c.sizes)],
    )
    assert regions == pytest.approx(bethe, rel=1e-10, abs=1e-10)


def test_reweighted_is_the_formula_with_mutual_informations():
    c = case("3-cycle")
    marginals, tables = beliefs(c)
    rho = np.array([0.9, 0.6, 0.5])
    truth = Oracle(c)
    value = sum(free_energy.entropy(truth.joint([n])) for n in c.names)
    for r, (scope, table) in zip(rho, c.factors, strict=True):
        b = truth.joint(scope)
        information = sum(free_energy.entropy(truth.joint([n])) for n in scope) - free_energy.entropy(b)
        value += (b * table).sum() - r * information
    assert free_energy.reweighted_energy(c.graph, marginals, tables, rho) == pytest.approx(-value, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "rho"), [("3-cycle", 2 / 3), ("4-cycle", 3 / 4), ("complete graph", 4 / 10)]
)
def test_with_spanning_tree_weights_even_the_true_marginals_give_an_upper_bound(name: str, rho: float):
    # By symmetry every edge of a cycle or a complete graph is in the same share of spanning trees.
    c = case(name)
    assert -free_energy.reweighted_energy(c.graph, *beliefs(c), rho) > log_z(c)


def _first_then(function, second, first):
    return function(first, second)


@pytest.mark.parametrize("name", POSITIVE)
def test_gradients_equal_finite_differences(name: str):
    c = case(name)
    marginals, tables = random_beliefs(c, 4)
    marginals, tables = marginals + 0.05, tables + 0.05
    close = {"rtol": 1e-5, "atol": 1e-5}
    np.testing.assert_allclose(
        free_energy.mean_field_gradient(c.graph, marginals),
        differences(lambda b: free_energy.mean_field(c.graph, b), marginals),
        **close,
    )
    rho = np.random.default_rng(5).uniform(0.2, 1.5, c.graph.n_factors)
    for weights in (rho, 1.0):
        by_state, by_entry = free_energy.reweighted_gradient(c.graph, marginals, tables, weights)
        value = partial(free_energy.reweighted_energy, c.graph, rho=weights)
        numeric = differences(partial(_first_then, value, tables), marginals)
        np.testing.assert_allclose(by_state, numeric, **close)
        numeric = differences(partial(value, marginals), tables)
        np.testing.assert_allclose(by_entry, numeric, **close)
    ours, theirs = free_energy.bethe_gradient(c.graph, marginals, tables), (by_state, by_entry)
    np.testing.assert_array_equal(np.concatenate(ours), np.concatenate(theirs))


def test_the_region_gradient_equals_finite_differences():
    rng = np.random.default_rng(6)
    tables, logs = [rng.random((2, 3)) + 0.1, rng.random(3) + 0.1], [rng.standard_normal((2, 3)), np.zeros(3)]
    counts = [1.0, -2.0]
    found = free_energy.region_based_gradient(tables, counts, logs)
    for r in range(2):

        def value(flat, r=r):
            moved = [flat.reshape(t.shape) if k == r else t for k, t in enumerate(tables)]
            return free_energy.region_based(moved, counts, logs)

        np.testing.assert_allclose(found[r].ravel(), differences(value, tables[r].ravel()), rtol=1e-6)


def constraints(c: Case) -> np.ndarray:
    """Rows whose product with (marginals, factor marginals) is fixed by local consistency."""
    sizes, table_size = c.graph.variables.sizes, c.graph.table_size
    starts, first = np.cumsum([0, *sizes]), int(sizes.sum())
    table_starts = first + np.cumsum([0, *table_size])
    rows = []
    for i in range(len(sizes)):
        row = np.zeros(table_starts[-1])
        row[starts[i] : starts[i + 1]] = 1
        rows.append(row)
    for a, (scope, table) in enumerate(c.factors):
        index = np.indices(table.shape).reshape(table.ndim, -1)
        for k, name in enumerate(scope):
            i = c.names.index(name)
            for s in range(sizes[i]):
                row = np.zeros(table_starts[-1])
                row[table_starts[a] : table_starts[a + 1]] = index[k] == s
                row[starts[i] + s] = -1
                rows.append(row)
    return np.array(rows)


def slope_along_consistent_beliefs(c: Case, marginals: np.ndarray, tables: np.ndarray) -> np.ndarray:
    gradient = np.concatenate(free_energy.bethe_gradient(c.graph, marginals, tables))
    return null_space(constraints(c)).T @ gradient


@pytest.mark.parametrize("name", ["chain", "star", "random tree, mixed state counts", "three-way tree"])
def test_bethe_is_stationary_at_the_marginals_of_a_tree(name: str):
    c = case(name)
    np.testing.assert_allclose(slope_along_consistent_beliefs(c, *beliefs(c)), 0, atol=1e-9)


@pytest.mark.parametrize("name", ["3-cycle", "4-cycle", "grid 2x4", "three-way factors"])
def test_bethe_is_stationary_at_fixed_points_of_bp_and_not_at_the_truth(name: str):
    if "bp" not in credo.algorithms():
        pytest.skip("bp is not registered")
    c = case(name)
    fixed = credo.infer(c.graph, "bp", tol=1e-12, max_iter=5000, seed=0)
    found = fixed.marginals.flat, fixed.factor_marginals.flat
    np.testing.assert_allclose(slope_along_consistent_beliefs(c, *found), 0, atol=1e-7)
    assert -free_energy.bethe(c.graph, *found) == pytest.approx(fixed.log_z.value, abs=1e-8)
    assert np.abs(slope_along_consistent_beliefs(c, *beliefs(c))).max() > 1e-4


def test_impossible_entries_cost_infinity_if_believed_and_nothing_otherwise():
    never = -np.inf
    graph = credo.FactorGraph({"a": 2, "b": 2}, {("a", "b"): [[1, 0], [2, 3]], ("a",): [1, 2]})
    b, safe = np.array([0.5, 0.5, 0.5, 0.5]), np.array([1.0, 0.0, 1.0, 0.0])
    tables = np.array([0.25, 0.25, 0.25, 0.25, 0.5, 0.5])
    avoids = np.array([0.5, 0.0, 0.2, 0.3, 0.5, 0.5])
    assert free_energy.average_energy(graph, tables) == np.inf
    by_hand = 0.2 * np.log(2) + 0.3 * np.log(3) + 0.5 * np.log(2)
    assert free_energy.average_energy(graph, avoids) == pytest.approx(-by_hand, abs=1e-12)
    assert free_energy.mean_field(graph, b) == np.inf
    assert free_energy.mean_field(graph, safe) == 0.0
    assert free_energy.bethe(graph, b, tables) == np.inf
    assert np.isfinite(free_energy.bethe(graph, b, avoids))
    assert free_energy.variational(graph, np.full((2, 2), 0.25)) == np.inf
    assert free_energy.variational(graph, np.array([[1.0, 0.0], [0.0, 0.0]])) == 0.0
    one = np.array([0.5, 0.5])
    for count in (1.0, -1.0):
        assert free_energy.region_based([one, one], [1, count], [np.array([0, never])] * 2) == np.inf
    assert free_energy.region_based([one], [0], [np.array([0, never])]) == 0.0


def test_gradients_at_zero_beliefs_are_one_sided_and_never_nan():
    graph = credo.FactorGraph({"a": 2, "b": 2}, {("a", "b"): [[1, 0], [2, 3]]})
    tables = np.array([0.5, 0.0, 0.0, 0.5])
    by_state, by_entry = free_energy.bethe_gradient(graph, np.array([1.0, 0.0, 1.0, 0.0]), tables)
    assert by_state.tolist() == [0, 0, 0, 0]  # one factor each: d - 1 = 0
    assert by_entry[1] == np.inf and by_entry[2] == -np.inf
    np.testing.assert_allclose(by_entry[[0, 3]], np.log([0.5, 0.5]) + 1 - np.log([1, 3]))
    slope = free_energy.mean_field_gradient(graph, np.array([1.0, 0.0, 0.5, 0.5]))
    assert slope.tolist()[0] == np.inf and slope[1] == -np.inf and slope[3] == np.inf
    by_state, _ = free_energy.reweighted_gradient(graph, np.array([1.0, 0.0, 1.0, 0.0]), tables, 2.0)
    assert by_state[1] == np.inf


def test_mean_field_is_flat_within_each_variable_where_coordinate_ascent_stops():
    c = case("three-way factors")
    found = credo.infer(c.graph, "mean-field", tol=1e-13, max_iter=10000, seed=0)
    slope = free_energy.mean_field_gradient(c.graph, found.marginals.flat)
    start = c.graph.variables.state_start
    for low, high in itertools.pairwise(start):
        np.testing.assert_allclose(slope[low:high], slope[low], atol=1e-10)


GRAPH = credo.FactorGraph({"a": 2, "b": 2}, {("a", "b"): [[1, 2], [3, 4]]})
FOUR = np.full(4, 0.25)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: free_energy.mean_field(GRAPH, np.ones(3)), r"marginals: expected a flat array of 4 beliefs"),
        (lambda: free_energy.bethe(GRAPH, FOUR, np.ones((2, 2))), r"factor marginals: .* got \(2, 2\)"),
        (lambda: free_energy.entropy([0.5, -0.5]), r"beliefs: beliefs must be non-negative, got -0.5"),
        (lambda: free_energy.entropy([np.nan]), r"beliefs must be non-negative, got nan"),
        (lambda: free_energy.variational(GRAPH, FOUR), r"joint: expected shape \(2, 2\), got \(4,\)"),
        (
            lambda: free_energy.reweighted_energy(GRAPH, FOUR, FOUR, [1, 1]),
            r"rho: expected one number per factor \(1\)",
        ),
        (
            lambda: free_energy.region_based([FOUR], [1, 2], [FOUR]),
            r"regions: expected 1 counting numbers and potentials, one per table, got 2 and 1",
        ),
        (
            lambda: free_energy.region_based([FOUR], [1], [np.ones(3)]),
            r"region 0: expected a log potential of shape \(4,\), got \(3,\)",
        ),
    ],
)
def test_refusals_say_what_was_expected(call, message):
    with pytest.raises(QueryError, match=message):
        call()
