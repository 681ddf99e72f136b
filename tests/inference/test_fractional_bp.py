"""Fractional BP by its identities: BP, expectation propagation, tree-reweighted BP and alpha-BP."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo.core.errors import OptionError, UnsupportedError
from credo.inference.messages import engine
from credo.inference.problem.base import Problem, algorithms
from zoo import ZOO, case


def _problem(graph: credo.FactorGraph) -> Problem:
    n = len(graph.variables)
    return Problem(graph, np.ones(n), np.zeros(n, dtype=np.int64))


def _iterates(graph: credo.FactorGraph, spec: str, count: int) -> list[np.ndarray]:
    algorithm, problem = algorithms.resolve(spec), _problem(graph)
    state = algorithm.start(problem, np.random.default_rng(0))
    found = []
    for _ in range(count):
        state, _ = algorithm.step(problem, state)
        found.append(engine.log_messages(state))
    return found


def _normal(v: np.ndarray) -> np.ndarray:
    return v / v.sum()


@pytest.mark.parametrize("schedule", ["auto", "flooding", "sequential", "residual"])
@pytest.mark.parametrize("damping", [0, 0.3])
@pytest.mark.parametrize("name", ["grid 3x3", "three-way factors", "grid with zeros"])
def test_power_one_is_bp_bit_for_bit(name: str, damping: float, schedule: str):
    graph, options = case(name).graph, f"damping={damping}, schedule={schedule}"
    one = _iterates(graph, f"fractional-bp(power=1, {options})", 5)
    two = _iterates(graph, f"bp({options})", 5)
    for mine, theirs in zip(one, two, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("name", ["grid 3x3", "three-way factors"])
def test_a_step_of_the_power_is_alpha_bp(name: str):
    graph = case(name).graph
    one = credo.infer(graph, "fractional-bp(power=0.6, damping=0.4)", tol=1e-12)
    two = credo.infer(graph, "alpha-bp(alpha=0.6)", tol=1e-12)
    np.testing.assert_allclose(one.marginals.flat, two.marginals.flat, atol=1e-10)
    assert one.log_z.value == pytest.approx(two.log_z.value, abs=1e-9)


def _expectation_propagation(graph: credo.FactorGraph, power: float, sweeps: int, damping: float = 0.0):
    """Power EP with one site per factor and variable; factor by factor, forwards and backwards in turn.

    A site is refined by matching the marginals of the tilted distribution on the factor's scope.
    """
    wiring, sizes = graph.wiring, graph.variables.sizes
    site = {e: np.full(sizes[i], 1 / sizes[i]) for e, i in enumerate(wiring.scope)}

    def approximation(i: int) -> np.ndarray:
        return _normal(np.prod([site[e] for e in np.flatnonzero(wiring.scope == i)], axis=0))

    for sweep in range(sweeps):
        order = range(graph.n_factors)
        for a in order if sweep % 2 == 0 else reversed(order):
            edges = list(range(wiring.scope_start[a], wiring.scope_start[a + 1]))
            q = [approximation(wiring.scope[e]) for e in edges]
            tilted = np.exp(power * graph.log_table(a))
            for k, e in enumerate(edges):
                cavity = q[k] / site[e] ** power
                tilted = tilted * cavity.reshape([-1 if x == k else 1 for x in range(len(edges))])
            for k, e in enumerate(edges):
                marginal = _normal(tilted.sum(axis=tuple(x for x in range(len(edges)) if x != k)))
                fresh = _normal(site[e] * (marginal / q[k]) ** (1 / power))
                site[e] = _normal(site[e] ** damping * fresh ** (1 - damping))
    return np.concatenate([site[e] for e in range(len(wiring.scope))])


@pytest.mark.parametrize("name", ["4-cycle", "three-way factors", "repeated scopes"])
def test_expectation_propagation_with_factorised_sites_is_bp(name: str):
    graph = case(name).graph
    for sweeps in (1, 2, 5):
        found = np.exp(_iterates(graph, "bp(damping=0.2, schedule=sequential)", sweeps)[-1])
        wanted = _expectation_propagation(graph, 1.0, sweeps, damping=0.2)
        np.testing.assert_allclose(found, wanted, atol=1e-12)
    # Undamped, BP keeps unary messages at their limit from the start; the fixed point is the same.
    found = np.exp(_iterates(graph, "bp(schedule=sequential)", 200)[-1])
    np.testing.assert_allclose(found, _expectation_propagation(graph, 1.0, 200), atol=1e-8)


@pytest.mark.parametrize("power", [0.5, 1.4, 3.0])
@pytest.mark.parametrize("name", ["4-cycle", "three-way factors"])
def test_any_power_is_power_expectation_propagation(name: str, power: float):
    graph = case(name).graph
    spec = f"fractional-bp(power={power}, damping=0.5, schedule=sequential)"
    for sweeps in (1, 4):
        found = np.exp(_iterates(graph, spec, sweeps)[-1])
        np.testing.assert_allclose(
            found, _expectation_propagation(graph, power, sweeps, damping=0.5), atol=1e-12
        )


def _tree_reweighted(graph: credo.FactorGraph, pairs: list, rho: dict, rounds: int) -> list[np.ndarray]:
    """Beliefs of the tree-reweighted rule (3.20) with one appearance probability per edge, damped."""
    n = len(graph.variables)
    phi = [np.exp(graph.log_table(len(pairs) + i)) for i in range(n)]
    table = {}
    for a, (i, j) in enumerate(pairs):
        table[i, j] = np.exp(graph.log_table(a))
        table[j, i] = table[i, j].T
    rho = {**rho, **{(j, i): r for (i, j), r in rho.items()}}
    m = {(t, s): np.ones(len(phi[s])) for t, s in table}
    for _ in range(rounds):
        new = {}
        for (t, s), pair in table.items():
            inside = phi[t] / m[s, t] ** (1 - rho[s, t])
            for w, v in table:
                if v == t and w != s:
                    inside = inside * m[w, t] ** rho[w, t]
            fresh = _normal(inside @ pair ** (1 / rho[t, s]))
            new[t, s] = _normal(m[t, s] ** 0.5 * fresh**0.5)
        m = new
    return [_normal(phi[s] * np.prod([m[e] ** rho[e] for e in table if e[1] == s], axis=0)) for s in range(n)]


def test_powers_of_tree_appearance_give_tree_reweighted_bp():
    rng = np.random.default_rng(0)
    pairs = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]
    variables = [credo.Variable(f"x{i}", s) for i, s in enumerate([2, 3, 2, 3])]
    scopes = [*pairs, *((i,) for i in range(4))]
    graph = credo.FactorGraph(
        variables,
        [
            credo.TableFactor.from_log(
                [variables[i] for i in s], rng.normal(size=[variables[i].size for i in s])
            )
            for s in scopes
        ],
    )
    laplacian = np.zeros((4, 4))
    for i, j in pairs:
        laplacian[[i, j], [i, j]] += 1
        laplacian[[i, j], [j, i]] -= 1
    inverse = np.linalg.pinv(laplacian)
    rho = {(i, j): inverse[i, i] + inverse[j, j] - 2 * inverse[i, j] for i, j in pairs}
    assert sum(rho.values()) == pytest.approx(3)
    power = {a: 1 / rho[pair] for a, pair in enumerate(pairs)}
    found = credo.infer(graph, algorithms.get("fractional-bp")(power=power), tol=1e-13)
    wanted = _tree_reweighted(graph, pairs, rho, 2000)
    for i in range(4):
        np.testing.assert_allclose(found.marginals[f"x{i}"], wanted[i], atol=1e-9)
    # At such powers the value is an upper bound.
    assert found.log_z.value >= credo.infer(graph, "enumerate").log_z.value
    trw = credo.infer(graph, "trw", tol=1e-12)
    assert found.log_z.value == pytest.approx(trw.log_z.value, abs=1e-7)
    np.testing.assert_allclose(found.marginals.flat, trw.marginals.flat, atol=1e-7)


def test_the_slope_of_log_z_is_the_factor_marginal():
    graph, spec = case("three-way factors").graph, "fractional-bp(power=1.5)"
    found = credo.infer(graph, spec, tol=1e-13, max_iter=5000)
    for a in (0, 1, 3):
        values = []
        for step in (1e-4, -1e-4):
            tables = graph.log_tables.copy()
            tables[graph.table_start[a] + 1] += step
            moved = credo.FactorGraph.from_flat(graph.variables, graph.scope_start, graph.scope, tables)
            values.append(credo.infer(moved, spec, tol=1e-13, max_iter=5000).log_z.value)
        slope = (values[0] - values[1]) / 2e-4
        assert slope == pytest.approx(found.factor_marginals[a].ravel()[1], abs=1e-6)


@pytest.mark.filterwarnings("ignore::credo.core.errors.ConvergenceWarning")
@pytest.mark.parametrize("power", [0.1, 0.5, 1.5, 5.0])
@pytest.mark.parametrize("zoo", ZOO, ids=lambda c: c.id)
def test_no_nan_wherever_it_runs(zoo, power: float):
    try:
        found = credo.infer(zoo.graph, f"fractional-bp(power={power})", max_iter=200)
    except UnsupportedError:
        assert power > 1 and np.isneginf(zoo.graph.log_tables).any()
        return
    assert np.isfinite(found.marginals.flat).all()
    assert np.isfinite(found.factor_marginals.flat).all()
    assert np.isfinite(found.log_z.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"power": 0}, "power must be a positive number, got 0"),
        ({"power": float("inf")}, "power must be a positive number, got inf"),
        ({"damping": 1}, r"damping must be in \[0, 1\), got 1"),
        ({"schedule": "backwards"}, "schedule must be one of"),
    ],
)
def test_bad_options_are_refused(options: dict, message: str):
    with pytest.raises(OptionError, match=message):
        algorithms.get("fractional-bp")(**options)


def test_what_it_cannot_do_is_refused():
    graph = credo.FactorGraph({"a": 2, "b": 2}, {("a", "b"): [[1, 0], [1, 1]]})
    with pytest.raises(UnsupportedError, match="holds a zero, and an exponent above 1 divides by"):
        credo.infer(graph, "fractional-bp(power=2)")
    with pytest.raises(UnsupportedError, match="it gives marginals and log Z, and the question asks for MAP"):
        credo.infer(graph, "fractional-bp", maximise="all")
    with pytest.raises(UnsupportedError, match="the question asks for joint tables"):
        credo.query(graph, ["a", "b"], method="fractional-bp")
