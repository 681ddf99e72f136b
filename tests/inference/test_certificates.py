"""Certificates of convergence: the matrix against its definition, the promises against runs."""

from __future__ import annotations

import itertools
import signal

import numpy as np
import pytest
from scipy.sparse import csr_array

import credo
from credo.core.errors import UnsupportedError
from credo.inference.messages import certificates, engine, influence, walk_sums
from credo.inference.messages.certificates import Certificate, certify, loops, simon
from credo.inference.messages.engine import Weighted
from credo.inference.messages.exponents import single_messages
from credo.inference.problem.base import Problem
from credo.optimise.run import call


def _random_ising(seed: int, n: int = 16, p: float = 0.3, scale: float = 0.1) -> credo.FactorGraph:
    return credo.datasets.erdos_renyi_ising(
        n, p, coupling=credo.datasets.Normal(scale), field=credo.datasets.Normal(scale), seed=seed
    ).to_factor_graph()


def _skewed(seed: int, scale: float = 0.4) -> credo.FactorGraph:
    """Binary pairwise tables with odd parts, repeated pairs and unary factors."""
    rng = np.random.default_rng(seed)
    scopes = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (1, 0), (3,), (1,)]
    factors = [
        credo.TableFactor.from_log(
            [credo.Variable(f"x{i}", 2) for i in s], scale * rng.normal(size=(2,) * len(s))
        )
        for s in scopes
    ]
    return credo.FactorGraph({f"x{i}": 2 for i in range(4)}, factors)


def _mixed(seed: int, scale: float = 0.3) -> credo.FactorGraph:
    """Factors of arity one to three over two to four states, and a one-state variable."""
    rng = np.random.default_rng(seed)
    sizes = [2, 3, 4, 2, 1, 3]
    variables = [credo.Variable(f"x{i}", s) for i, s in enumerate(sizes)]
    scopes = [(0, 1, 2), (2, 3), (3, 0), (1, 5), (5, 4, 3), (4, 2), (1,), (2, 5, 0)]
    return credo.FactorGraph(
        variables,
        [
            credo.TableFactor.from_log(
                [variables[i] for i in s], scale * rng.normal(size=[sizes[i] for i in s])
            )
            for s in scopes
        ],
    )


def _problem(graph: credo.FactorGraph) -> Problem:
    n = len(graph.variables)
    return Problem(graph, np.ones(n), np.zeros(n, dtype=np.int64))


def _directed_edges(graph: credo.FactorGraph) -> list[tuple[int, int, int, float]]:
    """(factor, t, s, theta) of every message t -> s, theta the coupling of the symmetric form."""
    found = []
    for a in range(graph.n_factors):
        scope = graph.scope_of(a).tolist()
        if len(scope) == 2:
            table = graph.log_table(a)
            theta = (table[0, 0] + table[1, 1] - table[0, 1] - table[1, 0]) / 4
            found += [(a, scope[1], scope[0], theta), (a, scope[0], scope[1], theta)]
    return found


def _matrix_by_definition(graph: credo.FactorGraph, alpha: np.ndarray) -> np.ndarray:
    """(3.24), entry by entry."""
    edges = _directed_edges(graph)
    made = np.zeros((len(edges), len(edges)))
    for row, (a, t, s, theta) in enumerate(edges):
        tilt = np.tanh(abs(alpha[a] * theta))
        for column, (b, u, v, _) in enumerate(edges):
            if (b, u, v) == (a, t, s):
                made[row, column] = abs(1 - alpha[a])
            elif (b, u, v) == (a, s, t):
                made[row, column] = abs(1 - alpha[a]) * tilt
            elif v == t and b != a:
                made[row, column] = tilt
    return made


@pytest.mark.parametrize("make", [_random_ising, _skewed])
@pytest.mark.parametrize("seed", range(4))
def test_the_matrix_and_its_norms_are_those_of_the_definition(make, seed: int):
    graph = make(seed)
    alpha = np.random.default_rng(seed).uniform(0.2, 1.8, graph.n_factors)
    found, wanted = influence.influence(graph, alpha, alpha), _matrix_by_definition(graph, alpha)
    np.testing.assert_allclose(found.matrix.toarray(), wanted, atol=1e-15)
    assert found.row_sum() == pytest.approx(np.linalg.norm(wanted, np.inf), rel=1e-13)
    assert found.column_sum() == pytest.approx(np.linalg.norm(wanted, 1), rel=1e-13)
    assert found.singular_value() == pytest.approx(np.linalg.norm(wanted, 2), rel=1e-12)
    assert found.spectral_radius() == pytest.approx(np.abs(np.linalg.eigvals(wanted)).max(), rel=1e-9)


def test_the_corollary_in_its_own_words():
    graph, alpha = _random_ising(5), 0.6
    edges = _directed_edges(graph)
    degree = np.bincount([t for _, t, _, _ in edges], minlength=16)
    row = max(
        (1 - alpha) * (1 + np.tanh(abs(alpha * theta))) + (degree[t] - 1) * np.tanh(abs(alpha * theta))
        for _, t, _, theta in edges
    )
    weights = np.full(graph.n_factors, alpha)
    assert influence.influence(graph, weights, weights).row_sum() == pytest.approx(row, rel=1e-13)


def test_with_alpha_one_it_is_the_classical_row_test():
    graph = credo.datasets.ising_grid(5, coupling=0.3, seed=0).to_factor_graph()
    ones = np.ones(graph.n_factors)
    assert influence.influence(graph, ones, ones).row_sum() == pytest.approx(3 * np.tanh(0.3), rel=1e-13)


def test_large_matrices_get_the_same_numbers_without_dense_algebra(monkeypatch):
    graph = _random_ising(1, n=18, p=0.3, scale=0.5)
    alpha = np.full(graph.n_factors, 0.7)
    found = influence.influence(graph, alpha, alpha)
    singular, radius = found.singular_value(), found.spectral_radius()
    monkeypatch.setattr(influence, "_DENSE", 2)
    assert found.singular_value() == pytest.approx(singular, rel=1e-9)
    assert found.spectral_radius() == pytest.approx(radius, rel=1e-8)
    monkeypatch.setattr(influence, "_EXPLICIT", 0)
    assert radius <= found.spectral_radius() <= radius * (1 + 1e-6)


def test_the_operator_is_the_matrix():
    found = influence.influence(_mixed(0), np.full(8, 0.6), np.full(8, 0.8))
    x = np.random.default_rng(0).normal(size=found.size)
    dense = found.matrix.toarray()
    np.testing.assert_allclose(found.operator @ x, dense @ x, atol=1e-13)
    np.testing.assert_allclose(found.operator.rmatvec(x), dense.T @ x, atol=1e-13)


def _bend_by_definition(table: np.ndarray, i: int, j: int) -> float:
    table = np.moveaxis(table, (i, j), (0, 1)).reshape(table.shape[i], table.shape[j], -1)
    best = 0.0
    for x, x2 in itertools.permutations(range(table.shape[0]), 2):
        for y, y2 in itertools.permutations(range(table.shape[1]), 2):
            left, right = table[x, y] - table[x2, y], table[x2, y2] - table[x, y2]
            best = max(best, left.max() + right.max())
    return best


def test_interaction_strengths_are_those_of_the_definition():
    graph, power = _mixed(3), np.linspace(0.5, 1.5, 8)
    row, column, strength = influence.interaction_strengths(graph, power)
    factor = graph.wiring.edge_factor
    for e, f, found in zip(row, column, strength, strict=True):
        a = factor[e]
        i, j = e - graph.scope_start[a], f - graph.scope_start[a]
        wanted = np.tanh(power[a] * _bend_by_definition(graph.log_table(a), i, j) / 4)
        assert found == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("make", [_skewed, _mixed])
@pytest.mark.parametrize(("power", "step"), [(1.0, 1.0), (0.5, 0.5), (0.4, 1.0), (2.5, 0.7), (1.6, 1.6)])
def test_a_sweep_stretches_no_distance_by_more_than_the_matrix(make, power: float, step: float):
    for seed in range(10):
        graph = make(seed, scale=1.5)
        problem, rng = _problem(graph), np.random.default_rng(seed)
        found = influence.influence(graph, np.full(8, power), np.full(8, step))
        weights = Weighted(np.full(8, power), np.full(8, step))
        ends = []
        for _ in range(2):
            draws = single_messages(problem, 2 * rng.normal(size=graph.wiring.edge_state_start[-1]))
            state = engine.start(problem, weights, rng, messages=draws)
            after, _ = engine.advance(problem, state, weights, "flooding", 1, 0.0)
            ends.append((draws, engine.log_messages(after)))
        before, after = (_distances(graph, ends[0][k] - ends[1][k])[found.edges] for k in (0, 1))
        assert (after <= found.times(before) + 1e-12).all()


def _distances(graph: credo.FactorGraph, gap: np.ndarray) -> np.ndarray:
    start = graph.wiring.edge_state_start[:-1]
    return (np.maximum.reduceat(gap, start) - np.minimum.reduceat(gap, start)) / 2


def _meets_from_everywhere(graph: credo.FactorGraph, spec: str, starts: int = 20) -> None:
    found = [
        credo.infer(graph, f"{spec}, random_start=True)", seed=seed, tol=1e-12, max_iter=5000)
        for seed in range(starts)
    ]
    for other in found:
        assert other.converged
        np.testing.assert_allclose(other.marginals.flat, found[0].marginals.flat, atol=1e-8)


@pytest.mark.parametrize("alpha", [pytest.param(0.4, marks=pytest.mark.slow), 0.7, 1.0, 1.2])
def test_where_the_theorem_holds_alpha_bp_finds_one_point_from_twenty_starts(alpha: float):
    tested = 0
    for seed in range(12):
        graph = _random_ising(seed, p=0.25, scale=0.15) if seed % 2 else _skewed(seed)
        found = {c.name: c for c in certify(graph, f"alpha-bp(alpha={alpha})").certificates}
        if found["largest singular value"].holds:
            tested += 1
            _meets_from_everywhere(graph, f"alpha-bp(alpha={alpha}, schedule=flooding")
    assert tested >= 3


@pytest.mark.parametrize("schedule", ["flooding", "sequential", "random", "residual"])
@pytest.mark.parametrize("spec", ["bp(", "alpha-bp(alpha=0.6, ", "fractional-bp(power=1.5, "])
def test_where_the_spectral_radius_is_below_one_every_schedule_finds_one_point(spec: str, schedule: str):
    graph = _mixed(1, scale=0.25)
    assert {c.name: c.holds for c in certify(graph, spec.rstrip(", (") + ")" * ("=" in spec)).certificates}[
        "spectral radius"
    ]
    _meets_from_everywhere(graph, f"{spec}schedule={schedule}", starts=5)


def test_the_spectral_radius_asks_least():
    for seed in range(30):
        graph = (_mixed, _skewed)[seed % 2](seed, scale=0.1 + 0.02 * seed)
        values = {c.name: c for c in certify(graph, "bp").certificates}
        radius = values["spectral radius"].value
        for name in ("largest singular value", "largest column sum", "largest row sum"):
            assert radius <= values[name].value + 1e-12
        assert radius < 1 or not values["Simon's condition"].holds


def test_simon_counts_ranges_times_the_other_variables():
    graph = credo.FactorGraph(
        {"a": 2, "b": 2, "c": 2, "d": 1},
        {
            ("a", "b", "c"): np.exp(np.linspace(0, 0.5, 8)),
            ("a", "b"): np.exp([[0, 0.3], [0.1, 0.2]]),
            ("c",): [1, 100],
            ("c", "d"): [[1], [9]],
        },
    )
    assert simon(graph).value == pytest.approx(2 * 0.5 + 0.3, rel=1e-13)
    assert simon(graph).holds


def test_trees_are_certified_whatever_their_strength():
    pairs = np.stack([np.arange(49) // 2, np.arange(1, 50)], axis=1)
    tree = credo.FactorGraph.from_arrays(np.full(50, 2), (pairs, [[1e6, 1.0], [1.0, 1e6]]))
    found = {c.name: c for c in certify(tree, "bp").certificates}
    assert found["spectral radius"].value == 0
    assert found["loops"].holds and not found["largest row sum"].holds
    assert certify(tree, "bp").sentence == "bp is exact here after finitely many sweeps: there are no loops."


def test_evidence_cuts_loops():
    model = credo.datasets.asia()
    assert loops(model.to_factor_graph()).value == 1
    assert not certify(model, "bp").guaranteed
    assert certify(model, "bp", evidence={"bronc": "yes"}).guaranteed


def test_graphs_without_messages_are_certified():
    for graph in (
        credo.FactorGraph({}, {}),
        credo.FactorGraph({"a": 2}, {("a",): [1, 2]}),
        credo.FactorGraph({"a": 1, "b": 3}, {("a", "b"): [[1, 2, 3]], (): 2.0}),
    ):
        found = certify(graph, "alpha-bp(alpha=0.5)")
        assert found.guaranteed
        assert {c.value for c in found.certificates} == {0}


def test_a_slow_singleton_rule_shows():
    graph = _skewed(0, scale=0.01)
    fast = certify(graph, "alpha-bp(alpha=1)").certificates
    slow = certify(graph, "alpha-bp(alpha=1, singleton_alpha=0.1)").certificates
    assert max(c.value for c in fast if c.name != "loops") < 0.1
    assert {c.value for c in slow} == {0.9}


def test_zeros_leave_the_matrix_unknown():
    graph = credo.FactorGraph({"a": 2, "b": 2}, {("a", "b"): [[1, 0], [1, 1]]})
    found = certify(graph, "alpha-bp(alpha=0.5)")
    assert not found.guaranteed
    assert found.certificates[0].holds is None and found.certificates[0].value is None
    assert found.sentence == (
        "Nothing is known about alpha-bp here: factor 0 over ['a', 'b']: expected positive weights, got a "
        "zero; the certificates of message passing are for positive tables."
    )
    assert simon(graph).meaning == "a table holds a zero: its range is infinite"


def test_sentences_say_what_follows():
    strong, weak = _skewed(0, scale=5.0), _skewed(0, scale=0.1)
    assert "no condition holds" in certify(strong, "bp").sentence
    assert "is guaranteed to converge, to the same point from every start" in certify(weak, "bp").sentence


def test_a_value_at_its_limit_does_not_hold():
    assert not Certificate.of("x", 1.0, 1.0, "").holds
    assert not Certificate.of("x", 1.0 - 1e-12, 1.0, "").holds
    assert Certificate.of("x", 0.999, 1.0, "").holds


def test_a_spectral_radius_that_is_cut_short_is_an_upper_limit():
    matrix = np.random.default_rng(0).random((30, 30)) ** 4
    exact = np.abs(np.linalg.eigvals(matrix)).max()
    with call(seconds=0):
        rough = influence._perron(lambda x: matrix @ x, 30)
        lower, upper = walk_sums._radius(csr_array(np.kron(np.eye(20), matrix + matrix.T)))
    assert influence._perron(lambda x: matrix @ x, 30) == pytest.approx(exact) and rough > 1.001 * exact
    assert lower <= np.linalg.eigvalsh(matrix + matrix.T)[-1] <= upper


def test_a_signal_ends_the_certificates(monkeypatch):
    monkeypatch.setattr(influence, "_DENSE", 0)
    monkeypatch.setattr(certificates, "loops", lambda graph: None)
    times = influence.Influence.times

    def pressed(matrix, x):
        signal.raise_signal(signal.SIGINT)
        monkeypatch.setattr(influence.Influence, "times", times)
        return times(matrix, x)

    monkeypatch.setattr(influence.Influence, "times", pressed)
    with pytest.raises(KeyboardInterrupt, match="stopped before there was anything to answer with"):
        certify(credo.datasets.ising_grid(4, coupling=0.3, seed=0), "bp")


def test_other_methods_are_refused():
    with pytest.raises(UnsupportedError, match="expected a method of the message-passing family"):
        certify(_skewed(0), "junction-tree")
    with pytest.raises(UnsupportedError, match="certificates are for damping of logarithms"):
        certify(_skewed(0), "bp(damping=0.3, damping_domain=linear)")


def test_damping_keeps_what_the_undamped_radius_says():
    graph = _mixed(2)
    plain, damped = (
        {c.name: c.value for c in certify(graph, spec).certificates}["spectral radius"]
        for spec in ("bp", "bp(damping=0.4)")
    )
    assert damped == pytest.approx(0.4 + 0.6 * plain, rel=1e-9)


def test_trees_of_the_reweighted_method_must_stand_still():
    graph = _skewed(0, scale=0.2)
    found = {c.name: c for c in certify(graph, "trw").certificates}
    assert found["spectral radius"].holds
    with pytest.raises(
        UnsupportedError, match="certificates are for fixed appearance probabilities, got rho=opt"
    ):
        certify(graph, "trw(rho=optimised)")


def test_tree_reweighting_has_the_matrix_of_its_powers():
    # On the complete graph of five variables an edge is in a uniform spanning tree with probability 2/5.
    model = credo.datasets.complete_ising(5, coupling="normal(scale=0.3)", seed=1)
    one = certify(model, "trw(damping=0)").certificates
    two = certify(model, "fractional-bp(power=2.5, damping=0)").certificates
    assert [c.value for c in one] == pytest.approx([c.value for c in two], rel=1e-9)
