"""Groups of factors that are no tables: each answers as its factors do, one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import credo
from credo import FactorGraph, GaussianFactor, TableFactor, Variable, potentials
from credo.core.density import DensityFactor
from credo.core.errors import EvidenceError
from credo.core.evidence import Evidence
from credo.core.groups import Bilinear, Densities, Gaussians, LinearGaussians
from credo.core.linear_gaussian import BilinearFactor, LinearGaussianFactor
from credo.core.variable import Variables
from hybrid_zoo import real
from seeds import each_seed

STATES = [Variable("r", 2), Variable("s", 3), Variable("t", 2)]
REALS = [real(f"x{i}") for i in range(4)]
VARIABLES = [STATES[0], REALS[0], STATES[1], REALS[1], REALS[2], STATES[2], REALS[3]]
KINDS = ("linear-gaussian", "gaussian", "density", "bilinear", "table")


def _pull(x, y, s, strength):
    return -strength * (x - y - s) ** 2


def random_factor(kind: str, rng: np.random.Generator) -> credo.core.factor.Factor:
    """A factor with a random scope, in any order."""
    x = [REALS[i] for i in rng.permutation(4)]
    s = [STATES[i] for i in rng.permutation(3)]
    if kind == "linear-gaussian":
        k, d = int(rng.integers(1, 4)), int(rng.integers(0, 3))
        sizes = [v.size for v in s[:d]]
        weights, variance = rng.normal(size=(*sizes, k)), rng.uniform(0.5, 2, sizes)
        return LinearGaussianFactor(
            x[:k] + s[:d], weights, rng.normal(size=sizes), variance, rng.normal(size=sizes)
        )
    if kind == "gaussian":
        k = int(rng.integers(1, 4))
        root = rng.normal(size=(k, k))
        return GaussianFactor(x[:k], root + root.T, rng.normal(size=k), rng.normal())
    if kind == "density":
        return DensityFactor([x[0], x[1], s[0]], _pull, rng.random())
    if kind == "bilinear":
        left, right = [s[0], x[0]], [x[1], s[1], s[2]]
        return BilinearFactor(left, right, rng.normal(size=(2, 3)))
    scope = s[: int(rng.integers(1, 3))]
    return TableFactor(scope, rng.random([v.size for v in scope]))


def random_graph(seed: int, kinds=KINDS, count: int = 12) -> FactorGraph:
    rng = np.random.default_rng(seed)
    return FactorGraph(VARIABLES, [random_factor(rng.choice(kinds), rng) for _ in range(count)])


def random_evidence(seed: int, share: float = 0.5) -> dict:
    rng = np.random.default_rng(1000 + seed)
    seen = [v for v in VARIABLES if rng.random() < share]
    return {v.name: int(rng.integers(v.size)) if v.is_discrete else float(rng.normal()) for v in seen}


def random_point(seed: int) -> dict:
    return random_evidence(seed + 77, share=2.0)


def log_value(factor, point) -> float:
    """The log-potential at a point where observed variables may have one state, which is the first."""
    columns = [0 if v.is_discrete and v.size == 1 else point[v.name] for v in factor.scope]
    return float(factor.log_values(*map(np.asarray, columns)))


@pytest.mark.parametrize("kind", ["linear-gaussian", "gaussian", "density"])
@each_seed(range(20))
def test_a_conditioned_group_is_its_factors_sliced_one_by_one(kind, seed):
    graph, evidence = random_graph(seed, (kind,)), random_evidence(seed)
    given = graph.condition(evidence)
    point = random_point(seed) | evidence
    assert given.n_factors == graph.n_factors
    for old, new in zip(graph.factors, given.factors, strict=True):
        sliced = old.condition({n: v for n, v in evidence.items() if n in old.names})
        left = [n for n in new.names if n not in evidence]
        assert left == list(sliced.names)
        assert log_value(new, point) == pytest.approx(log_value(sliced, point), abs=1e-12)
        if all(v.is_discrete for v in sliced.scope):
            assert isinstance(new, TableFactor)


@each_seed(range(20))
def test_a_graph_of_all_kinds_given_evidence_has_the_values_of_the_graph(seed):
    graph, evidence = random_graph(seed), random_evidence(seed)
    given = graph.condition(evidence)
    point = random_point(seed) | evidence
    expected = sum(log_value(f, point) for f in graph.factors)
    assert sum(log_value(f, point) for f in given.factors) == pytest.approx(expected, abs=1e-11)
    sliced = [f.condition({n: v for n, v in evidence.items() if n in f.names}) for f in graph.factors]
    assert sum(log_value(f, point) for f in sliced) == pytest.approx(expected, abs=1e-11)


@each_seed(range(10))
def test_a_factor_keeps_its_number(seed):
    graph, evidence = random_graph(seed), random_evidence(seed)
    point = random_point(seed) | evidence
    given = graph.condition(evidence | {"r": [0.5, 0.25]} if "r" not in evidence else evidence)
    total = np.zeros(graph.n_factors + 1)
    numbers = np.sort(np.concatenate(given.all_numbers))
    for number, factor in zip(numbers, given.factors, strict=True):
        total[number] += log_value(factor, point)
    for number, factor in enumerate(graph.factors):
        assert total[number] == pytest.approx(log_value(factor, point), abs=1e-11)
    likelihood = 0.0 if "r" in evidence else np.log([0.5, 0.25][point["r"]])
    assert total[-1] == pytest.approx(likelihood)


@each_seed(range(10))
def test_evidence_as_arrays_is_evidence_as_a_mapping(seed):
    graph, evidence = random_graph(seed), random_evidence(seed)
    positions = graph.variables.positions(list(evidence)) if evidence else []
    arrays = np.array(positions, dtype=np.int64), np.array(list(evidence.values()), dtype=np.float64)
    one, other = Evidence.of(graph.variables, evidence), Evidence.of(graph.variables, arrays)
    np.testing.assert_array_equal(one.states, other.states)
    np.testing.assert_array_equal(one.numbers, other.numbers)
    assert graph.condition(evidence) == graph.condition(arrays)


def test_what_arrays_of_evidence_may_not_hold():
    graph = random_graph(0)
    missing = Evidence.of(graph.variables, ([0, 1, 2], [np.nan, np.nan, 1.0]))
    assert np.flatnonzero(missing.flags).tolist() == [2]
    for wrong, says in [
        (([0], [2.0]), "variable 'r' has 2 states, got 2"),
        (([0], [0.5]), "variable 'r' has 2 states, got 0.5"),
        (([9], [0.0]), r"expected positions in \[0, 7\)"),
        (([0, 1], [0.0]), "arrays .positions, values. of one length"),
        (([0.0], [0.0]), "positions whole numbers"),
        (([2, 2], [0.0, 1.0]), "variable 's' is observed twice"),
        (([1], [np.inf]), "'x0'"),
    ]:
        with pytest.raises(EvidenceError, match=says):
            Evidence.of(graph.variables, tuple(map(np.asarray, wrong)))


@each_seed(range(10))
def test_scopes_edges_and_batches_say_what_the_factors_say(seed):
    graph, point = random_graph(seed), random_point(seed)
    names = graph.variables.names
    for scope, factor in zip(graph.scopes, graph.factors, strict=True):
        assert tuple(names[i] for i in scope) == factor.names
    pairs = sorted(zip(*(part.tolist() for part in graph.edges), strict=True))
    assert pairs == sorted((a, int(i)) for a, scope in enumerate(graph.scopes) for i in scope)
    total = np.zeros(graph.n_factors)
    for batch in graph.batches:
        for a, scope, *parameters in zip(batch.factors, batch.scopes, *batch.parameters, strict=True):
            values = [np.asarray(point[names[i]]) for i in scope]
            total[a] += float(batch.function(*values, *parameters))
            assert batch.domains == tuple(graph.variables[int(i)].domain for i in scope)
    expected = [log_value(factor, point) for factor in graph.factors]
    np.testing.assert_allclose(total, expected, atol=1e-11)


@each_seed(range(10))
def test_tables_in_place_of_groups_and_the_discrete_part(seed):
    graph = random_graph(seed)
    assert graph.as_tables() is None
    reals = {v.name: float(i) for i, v in enumerate(REALS)}
    given = graph.condition(reals)
    tables = given.as_tables()
    assert tables is not None and tables.is_tables
    for states in itertools.product(*(range(v.size) for v in STATES)):
        point = reals | {v.name: k for v, k in zip(STATES, states, strict=True)}
        expected = sum(log_value(f, point) for f in graph.factors)
        assert sum(log_value(f, point) for f in tables.factors) == pytest.approx(expected, abs=1e-11)
    part = graph.discrete_part()
    assert part.variables.names == ("r", "s", "t") and part.is_tables
    own = [f for f in graph.factors if isinstance(f, TableFactor)]
    assert [f.names for f in part.factors] == [f.names for f in own]
    for one, other in zip(part.factors, own, strict=True):
        np.testing.assert_array_equal(one.log_table, other.log_table)


@each_seed(range(10))
def test_a_compact_graph_is_about_the_variables_that_are_left(seed):
    graph, evidence = random_graph(seed), random_evidence(seed)
    given = graph.condition(evidence)
    keep = np.array([i for i, n in enumerate(graph.variables.names) if n not in evidence], dtype=np.int64)
    small = given.compact(keep)
    assert small.variables.names == tuple(n for n in graph.variables.names if n not in evidence)
    point = random_point(seed) | evidence
    for one, other in zip(given.factors, small.factors, strict=True):
        assert not set(other.names) & set(evidence)
        assert log_value(one, point) == pytest.approx(log_value(other, point), abs=1e-12)


def test_a_state_that_is_forbidden_leaves_a_zero_and_no_infinite_constant():
    x, s = REALS[0], STATES[0]
    factor = LinearGaussianFactor([x, s], [[1.0], [1.0]], [0.0, 1.0], 1.0, [0.0, -np.inf])
    graph = FactorGraph([x, s], [factor])
    given = graph.condition({"r": 1})
    point = {"x0": 0.3, "r": 1}
    assert sum(log_value(f, point) for f in given.factors) == -np.inf
    assert all(np.isfinite(group.constant).all() for group in given.others)
    for method in (None, "gaussian", "conditional-gaussian", "grid-bp", "ep"):
        with pytest.raises(credo.core.errors.ZeroProbabilityError, match="the evidence has probability zero"):
            credo.infer(graph, method, evidence={"r": 1})


def test_bulk_constructors_make_the_graphs_of_single_factors():
    rng = np.random.default_rng(3)
    reals, states = Variables.of(REALS), Variables.of([*REALS, *STATES[:1]])
    pairs = np.array([[0, 1], [1, 2], [2, 3]])
    root = rng.normal(size=(3, 2, 2))
    J, h, g = root + root.transpose(0, 2, 1), rng.normal(size=(3, 2)), rng.normal(size=3)
    bulk = FactorGraph.of_groups(reals, Gaussians(np.arange(3), pairs, J, h, g))
    single = [GaussianFactor([REALS[i], REALS[j]], *p) for (i, j), *p in zip(pairs, J, h, g, strict=True)]
    assert bulk == FactorGraph(REALS, single)
    scopes = np.array([[0, 4], [2, 4]])
    w, b = rng.normal(size=(2, 2, 1)), rng.normal(size=(2, 2))
    v, c = rng.uniform(1, 2, (2, 2)), rng.normal(size=(2, 2))
    bulk = FactorGraph.of_groups(states, LinearGaussians(np.arange(2), scopes, w, b, v, c))
    some = [LinearGaussianFactor([REALS[i], STATES[0]], *p) for i, *p in zip([0, 2], w, b, v, c, strict=True)]
    assert bulk == FactorGraph([*REALS, STATES[0]], some)
    scale, centre = rng.uniform(1, 2, 3), rng.normal(size=3)
    first = potentials.laplace(REALS[0], REALS[1])
    bulk = FactorGraph.of_groups(reals, Densities(np.arange(3), pairs, first.function, (scale, centre)))
    laplace = [
        potentials.laplace(REALS[i], REALS[j], scale=s, centre=m)
        for (i, j), s, m in zip(pairs, scale, centre, strict=True)
    ]
    assert bulk == FactorGraph(REALS, laplace)
    weights = rng.normal(size=(2, 2))
    bulk = FactorGraph.of_groups(reals, Bilinear(np.arange(1), np.arange(4)[None], weights))
    assert bulk == FactorGraph(REALS, [BilinearFactor(REALS[:2], REALS[2:], weights)])


def test_a_sparse_field_is_the_dense_one():
    rng = np.random.default_rng(0)
    dense = np.diag(rng.uniform(2, 3, 6))
    dense[0, 3] = dense[3, 0] = 0.7
    dense[2, 5] = dense[5, 2] = -0.4
    shift = rng.normal(size=6)
    net = credo.GaussianNet(csr_matrix(dense), shift)
    assert net.to_factor_graph() == credo.GaussianNet(dense, shift).to_factor_graph()
    x = rng.normal(size=6)
    score = net.to_factor_graph().log_score(dict(zip(net.names, x, strict=True)))
    assert score == pytest.approx(shift @ x - 0.5 * x @ dense @ x, abs=1e-12)
