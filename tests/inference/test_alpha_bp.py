"""Alpha belief propagation against its own equations, written out on dictionaries of messages."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo.core.errors import OptionError, UnsupportedError
from credo.inference.messages import engine
from credo.inference.problem.base import Problem, algorithms
from zoo import ZOO, case

PAIRS = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4)]
SIZES = [2, 3, 4, 2, 3, 2]  # the last variable is isolated


def _pairwise(seed: int, scale: float = 0.6) -> credo.FactorGraph:
    """A loop with a tail, a unary factor on every variable; pairs first."""
    rng = np.random.default_rng(seed)
    variables = [credo.Variable(f"x{i}", s) for i, s in enumerate(SIZES)]
    scopes = [*PAIRS, *((i,) for i in range(len(SIZES)))]
    return credo.FactorGraph(
        variables,
        [
            credo.TableFactor.from_log(
                [variables[i] for i in s], scale * rng.normal(size=[SIZES[i] for i in s])
            )
            for s in scopes
        ],
    )


def _problem(graph: credo.FactorGraph) -> Problem:
    n = len(graph.variables)
    return Problem(graph, np.ones(n), np.zeros(n, dtype=np.int64))


def _iterates(graph: credo.FactorGraph, spec: str, count: int) -> list[np.ndarray]:
    """Log messages after each of some sweeps."""
    algorithm, problem = algorithms.resolve(spec), _problem(graph)
    state = algorithm.start(problem, np.random.default_rng(0))
    found = []
    for _ in range(count):
        state, _ = algorithm.step(problem, state)
        found.append(engine.log_messages(state))
    return found


def _normal(v: np.ndarray) -> np.ndarray:
    return v / v.sum()


def _rule_3_15(graph: credo.FactorGraph, alpha: dict, count: int):
    """Messages m[t, s] and beliefs after each synchronous round, in plain numbers."""
    phi = {i: np.exp(graph.log_table(len(PAIRS) + i)) for i in range(len(SIZES))}
    table = {}
    for a, (i, j) in enumerate(PAIRS):
        table[i, j] = np.exp(graph.log_table(a))  # axes: first t, then s
        table[j, i] = table[i, j].T
    near = {i: [t for t, s in table if s == i] for i in range(len(SIZES))}
    m = {(t, s): np.full(SIZES[s], 1 / SIZES[s]) for t, s in table}
    for _ in range(count):
        new = {}
        for (t, s), pair in table.items():
            a = alpha[frozenset((t, s))]
            inside = phi[t] * m[s, t] ** (1 - a)
            for w in near[t]:
                if w != s:
                    inside = inside * m[w, t]
            new[t, s] = _normal(m[t, s] ** (1 - a) * (inside @ pair**a))
        m = new
        yield m, {s: _normal(phi[s] * np.prod([m[t, s] for t in near[s]], axis=0)) for s in phi}


@pytest.mark.parametrize("seed", range(3))
def test_iterates_are_those_of_rule_3_15_with_an_alpha_per_edge(seed: int):
    graph = _pairwise(seed)
    numbers = np.random.default_rng(seed).uniform(0.3, 1.7, len(PAIRS))
    alpha = {frozenset(pair): a for pair, a in zip(PAIRS, numbers, strict=True)}
    option = {tuple(f"x{i}" for i in pair): float(a) for pair, a in zip(PAIRS, numbers, strict=True)}
    wiring = graph.wiring
    found = _iterates(graph, f"alpha-bp(alpha={option}, schedule=flooding)", 6)
    for logs, (messages, _) in zip(found, _rule_3_15(graph, alpha, 6), strict=True):
        for a, (i, j) in enumerate(PAIRS):
            e = wiring.scope_start[a]
            for edge, (t, s) in ((e, (j, i)), (e + 1, (i, j))):
                mine = np.exp(logs[wiring.edge_state_start[edge] : wiring.edge_state_start[edge + 1]])
                np.testing.assert_allclose(mine, messages[t, s], atol=1e-13)


def test_beliefs_are_products_of_messages():
    graph = _pairwise(0)
    result = credo.infer(graph, "alpha-bp(alpha=0.7, schedule=flooding)", tol=1e-13)
    *_, (_, beliefs) = _rule_3_15(graph, {frozenset(p): 0.7 for p in PAIRS}, 300)
    for i in range(len(SIZES)):
        np.testing.assert_allclose(result.marginals[f"x{i}"], beliefs[i], atol=1e-11)
    # An isolated variable keeps its factor; nothing else reaches it.
    np.testing.assert_allclose(result.marginals["x5"], _normal(np.exp(graph.log_table(10))), atol=1e-14)


def test_the_log_ratio_recursion_uses_the_field_of_the_sender():
    # z_ts = log m_ts(+1)/m_ts(-1): (3.26)-(3.28), with theta_t in Delta.
    model = credo.datasets.erdos_renyi_ising(
        9, 0.4, coupling="normal(scale=0.7)", field="normal(scale=0.5)", seed=3
    )
    graph, a = model.to_factor_graph(), 0.6
    field, edges = np.zeros(9), []
    for f in range(graph.n_factors):
        scope, table = graph.scope_of(f).tolist(), graph.log_table(f)
        if len(scope) == 1:
            field[scope[0]] += (table[1] - table[0]) / 2
        else:
            theta = (table[0, 0] + table[1, 1] - table[0, 1] - table[1, 0]) / 4
            edges.append((f, scope[1], scope[0], theta))
            edges.append((f, scope[0], scope[1], theta))
    z = {(t, s): 0.0 for _, t, s, _ in edges}
    for logs in _iterates(graph, f"alpha-bp(alpha={a}, schedule=flooding)", 5):
        new = {}
        for _, t, s, theta in edges:
            others = sum(z[w, v] for w, v in z if v == t and w != s)
            delta = 2 * field[t] + (1 - a) * z[s, t] + others
            k = 2 * a * theta
            new[t, s] = (1 - a) * z[t, s] + np.log((np.exp(k + delta) + 1) / (np.exp(delta) + np.exp(k)))
        z = new
        for f, t, s, _ in edges:
            e = graph.scope_start[f] + graph.scope_of(f).tolist().index(s)
            at = graph.wiring.edge_state_start[e]
            assert logs[at + 1] - logs[at] == pytest.approx(z[t, s], abs=1e-12)


@pytest.mark.parametrize("schedule", ["auto", "flooding", "sequential", "tree", "residual"])
@pytest.mark.parametrize("name", ["grid 3x3", "three-way factors", "grid with zeros", "one-state variables"])
def test_alpha_one_is_bp_bit_for_bit(name: str, schedule: str):
    graph = case(name).graph
    one = _iterates(graph, f"alpha-bp(alpha=1, schedule={schedule})", 6)
    two = _iterates(graph, f"bp(schedule={schedule})", 6)
    for mine, theirs in zip(one, two, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_general_factors_follow_the_power_form():
    graph, a = case("three-way factors").graph, 0.7
    wiring, sizes = graph.wiring, graph.variables.sizes
    message = {}
    for e, (f, i) in enumerate(zip(wiring.edge_factor, wiring.scope, strict=True)):
        single = len(graph.scope_of(f)) == 1
        message[e] = _normal(np.exp(graph.log_table(f))) if single else np.full(sizes[i], 1 / sizes[i])
    for logs in _iterates(graph, f"alpha-bp(alpha={a}, schedule=flooding)", 4):
        total = [np.ones(s) for s in sizes]
        for e, i in enumerate(wiring.scope):
            total[i] = total[i] * message[e]
        new = dict(message)
        for f in range(graph.n_factors):
            edges = range(wiring.scope_start[f], wiring.scope_start[f + 1])
            if len(edges) == 1:
                continue
            for e in edges:
                weights = np.exp(a * graph.log_table(f))
                for k, other in enumerate(edges):
                    if other != e:
                        cavity = total[wiring.scope[other]] * message[other] ** -a
                        weights = weights * cavity.reshape([-1 if x == k else 1 for x in range(len(edges))])
                rest = tuple(k for k, other in enumerate(edges) if other != e)
                new[e] = _normal(message[e] ** (1 - a) * weights.sum(axis=rest))
        message = new
        flat = np.concatenate([message[e] for e in range(len(wiring.scope))])
        np.testing.assert_allclose(np.exp(logs), flat, atol=1e-13)


def test_the_singleton_rule_approaches_what_the_default_starts_with():
    graph, b = _pairwise(1), 0.3
    start = graph.wiring.edge_state_start
    found = _iterates(graph, f"alpha-bp(singleton_alpha={b}, schedule=flooding)", 5)
    fixed = _iterates(graph, "alpha-bp(schedule=flooding)", 5)
    e = 2 * len(PAIRS)  # the edge of the first unary factor
    phi = np.exp(graph.log_table(len(PAIRS)))
    phit = np.full(2, 0.5)
    for logs, constant in zip(found, fixed, strict=True):
        phit = _normal(phi**b * phit ** (1 - b))
        np.testing.assert_allclose(np.exp(logs[start[e] : start[e + 1]]), phit, atol=1e-14)
        np.testing.assert_allclose(np.exp(constant[start[e] : start[e + 1]]), _normal(phi), atol=1e-14)
    one, two = (credo.infer(graph, f"alpha-bp(singleton_alpha={text})", tol=1e-12) for text in (b, "none"))
    np.testing.assert_allclose(one.marginals.flat, two.marginals.flat, atol=1e-9)
    assert one.log_z.value == pytest.approx(two.log_z.value, abs=1e-8)


def test_a_prior_is_one_more_unary_factor():
    graph = _pairwise(2)
    prior = {"x0": [0.2, 0.8], "x2": np.array([1.0, 2.0, 3.0, 4.0])}
    extra = {(name,): np.asarray(weights) for name, weights in prior.items()}
    more = credo.FactorGraph(
        list(graph.variables), [*graph.factors, *credo.FactorGraph(list(graph.variables), extra).factors]
    )
    one = credo.infer(graph, algorithms.get("alpha-bp")(alpha=0.6, prior=prior), tol=1e-12)
    two = credo.infer(more, "alpha-bp(alpha=0.6)", tol=1e-12)
    np.testing.assert_allclose(one.marginals.flat, two.marginals.flat, atol=1e-10)
    assert one.log_z.value == pytest.approx(two.log_z.value, abs=1e-10)
    assert len(one.factor_marginals) == graph.n_factors
    for a in range(graph.n_factors):
        np.testing.assert_allclose(one.factor_marginals[a], two.factor_marginals[a], atol=1e-10)


def test_a_prior_lives_with_evidence():
    graph = _pairwise(3)
    method = algorithms.get("alpha-bp")(prior={"x0": [0.2, 0.8], "x1": [1, 1, 2]})
    hard = credo.infer(graph, method, evidence={"x0": 1, "x3": [0.5, 1.5]})
    assert hard.marginals["x0"].tolist() == [0, 1]
    assert len(hard.factor_marginals) == graph.n_factors


def test_a_tree_is_exact_for_alpha_one_only():
    chain = case("chain").graph
    truth = credo.infer(chain, "enumerate").marginals.flat
    errors = {
        alpha: np.abs(credo.infer(chain, f"alpha-bp(alpha={alpha})").marginals.flat - truth).max()
        for alpha in (0.5, 1)
    }
    assert errors[1] < 1e-10 < 1e-3 < errors[0.5]


@pytest.mark.parametrize("spec", ["alpha-bp(alpha=0.6)", "alpha-bp(alpha=1.3)"])
def test_the_slope_of_log_z_is_the_factor_marginal(spec: str):
    # At a fixed point the value is stationary in the beliefs, so only the tables' own change counts.
    graph = _pairwise(4, scale=0.3)
    found = credo.infer(graph, spec, tol=1e-13, max_iter=5000)
    for entry, a in ((3, 0), (graph.table_start[3] + 2, 3), (graph.table_start[7] + 1, 7)):
        values = []
        for step in (1e-4, -1e-4):
            tables = graph.log_tables.copy()
            tables[entry] += step
            moved = credo.FactorGraph.from_flat(graph.variables, graph.scope_start, graph.scope, tables)
            values.append(credo.infer(moved, spec, tol=1e-13, max_iter=5000).log_z.value)
        slope = (values[0] - values[1]) / 2e-4
        assert slope == pytest.approx(
            found.factor_marginals[a].ravel()[entry - graph.table_start[a]], abs=1e-6
        )


def test_factor_marginals_agree_with_marginals_at_a_fixed_point():
    graph = _pairwise(5)
    found = credo.infer(graph, "alpha-bp(alpha=0.5)", tol=1e-13, max_iter=5000)
    for a, (i, j) in enumerate(PAIRS):
        np.testing.assert_allclose(found.factor_marginals[a].sum(axis=1), found.marginals[f"x{i}"], atol=1e-9)
        np.testing.assert_allclose(found.factor_marginals[a].sum(axis=0), found.marginals[f"x{j}"], atol=1e-9)


@pytest.mark.filterwarnings("ignore::credo.core.errors.ConvergenceWarning")
@pytest.mark.parametrize("alpha", [0.2, 0.5, 0.9, 1.5, 2.0])
@pytest.mark.parametrize("zoo", ZOO, ids=lambda c: c.id)
def test_no_nan_wherever_it_runs(zoo, alpha: float):
    try:
        found = credo.infer(zoo.graph, f"alpha-bp(alpha={alpha})", max_iter=200)
    except UnsupportedError:
        assert alpha > 1 and np.isneginf(zoo.graph.log_tables).any()
        return
    assert np.isfinite(found.marginals.flat).all()
    assert np.isfinite(found.factor_marginals.flat).all()
    assert np.isfinite(found.log_z.value)


def test_impossible_states_stay_impossible():
    graph = case("tree with zeros").graph
    truth = credo.infer(graph, "enumerate").marginals.flat
    found = credo.infer(graph, "alpha-bp(alpha=0.5)").marginals.flat
    assert (found[truth == 0] == 0).all()


def test_zeros_are_refused_where_messages_would_be_divided_by():
    graph = credo.FactorGraph({"a": 2, "b": 2}, {("a", "b"): [[1, 0], [1, 1]], ("a",): [0, 1]})
    with pytest.raises(UnsupportedError, match=r"the factor over \['a', 'b'\] holds a zero, and an exponent"):
        credo.infer(graph, "alpha-bp(alpha=1.5)")
    positive = credo.FactorGraph({"a": 2, "b": 2}, {("a", "b"): [[1, 2], [1, 1]], ("a",): [0, 1]})
    assert credo.infer(positive, "alpha-bp(alpha=1.5)").marginals["a"].tolist() == [0, 1]


def test_alpha_comes_as_a_number_a_sequence_or_a_mapping():
    graph = _pairwise(6)
    everywhere = credo.infer(graph, "alpha-bp(alpha=0.7)").marginals.flat
    cls = algorithms.get("alpha-bp")
    for alpha in (
        [0.7] * 11,
        np.full(11, 0.7),
        {a: 0.7 for a in range(5)},
        {("x1", "x0"): 0.7, ("x1", "x2"): 0.7, ("x2", "x0"): 0.7, ("x2", "x3"): 0.7, ("x3", "x4"): 0.7},
    ):
        np.testing.assert_array_equal(credo.infer(graph, cls(alpha=alpha)).marginals.flat, everywhere)
    # Soft evidence adds factors at the end; the sequence need not know them.
    credo.infer(graph, cls(alpha=[0.7] * 11), evidence={"x0": [0.5, 1.0]})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0}, "alpha must be a positive number and at most 2, got 0"),
        ({"alpha": -1.0}, "alpha must be a positive number and at most 2, got -1.0"),
        ({"alpha": 2.5}, "alpha must be a positive number and at most 2, got 2.5"),
        ({"alpha": float("nan")}, "alpha must be a positive number and at most 2, got nan"),
        ({"alpha": [0.5, "x"]}, "alpha must be a positive number and at most 2, got 'x'"),
        ({"alpha": {("x0", "x1"): True}}, "alpha must be a positive number and at most 2, got True"),
        ({"singleton_alpha": 3}, "singleton_alpha must be a positive number and at most 2, got 3"),
        ({"schedule": "sideways"}, "schedule must be one of"),
        ({"prior": [1, 2]}, "prior: expected a mapping name -> weights, got"),
    ],
)
def test_bad_options_are_refused(options: dict, message: str):
    with pytest.raises(OptionError, match=message):
        algorithms.get("alpha-bp")(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": [0.5, 0.5]}, "alpha: expected one number for each of the 11 factors, got 2"),
        ({"alpha": {99: 0.5}}, "alpha: expected factor positions below 11, got 99"),
        ({"alpha": {("x0", "x4"): 0.5}}, r"alpha: no factor is over \['x0', 'x4'\]; name the variables"),
        ({"prior": {"x0": [1, 2, 3]}}, "prior: soft evidence on 'x0': expected 2 likelihoods"),
        ({"prior": {"x0": "much"}}, "prior: x0: expected numbers"),
        ({"prior": {"x0": 1.0}}, "prior: soft evidence on 'x0': expected 2 likelihoods"),
        ({"prior": {"who": [1, 2]}}, "prior: .*who"),
    ],
)
def test_options_that_do_not_fit_the_model_are_refused(options: dict, message: str):
    with pytest.raises(OptionError, match=message):
        credo.infer(_pairwise(0), algorithms.get("alpha-bp")(**options))


def test_maxima_and_joints_are_refused():
    graph = _pairwise(0)
    with pytest.raises(UnsupportedError, match="it gives marginals and log Z, and the question asks for MAP"):
        credo.infer(graph, "alpha-bp", maximise="all")
    with pytest.raises(UnsupportedError, match="the question asks for joint tables"):
        credo.query(graph, ["x0", "x1"], method="alpha-bp")
