"""Naive and structured mean field: fixed points, bounds, monotony, zeros, budgets, clusters, refusals."""

from __future__ import annotations

import itertools
import math
import warnings

import networkx as nx
import numpy as np
import pytest

import credo
from conformance.oracle import Oracle
from credo.core.errors import (
    ConvergenceWarning,
    ModelError,
    OptionError,
    QueryError,
    UnsupportedError,
    ZeroProbabilityError,
)
from credo.core.linear_gaussian import LinearGaussianFactor
from credo.core.result import Status
from credo.inference.exact import possible_states
from credo.inference.problem import feasible, free_energy
from credo.inference.problem.given_states import refuse_improper_states
from credo.inference.problem.tree import Limits
from credo.inference.variational import descent, mean_field, structured_mean_field
from credo.kernels import mean_field as kernel
from seeds import each_seed
from zoo import TREES, ZOO, Case, case

BOTH = ["mean-field", "structured-mean-field"]
ids = lambda c: c.id


def ising(
    rows: int, columns: int, coupling: float, seed: int
) -> tuple[credo.FactorGraph, np.ndarray, np.ndarray]:
    """A grid with random couplings and fields: the graph, the coupling matrix and the fields."""
    rng = np.random.default_rng(seed)
    at = np.arange(rows * columns).reshape(rows, columns)
    across = np.stack([at[:, :-1].ravel(), at[:, 1:].ravel()], axis=1)
    down = np.stack([at[:-1].ravel(), at[1:].ravel()], axis=1)
    edges = np.concatenate([across, down])
    strength = coupling * rng.uniform(-1, 1, len(edges))
    fields = rng.uniform(-0.5, 0.5, at.size)
    spin = np.array([-1.0, 1.0])
    graph = credo.FactorGraph.from_arrays(
        np.full(at.size, 2),
        (edges, strength[:, None, None] * np.outer(spin, spin)),
        (np.arange(at.size)[:, None], fields[:, None] * spin),
        log=True,
    )
    matrix = np.zeros((at.size, at.size))
    matrix[edges[:, 0], edges[:, 1]] = strength
    return graph, matrix + matrix.T, fields


def quiet(*args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return credo.infer(*args, **options)


def test_an_ising_fixed_point_solves_the_tanh_equations():
    graph, matrix, fields = ising(4, 4, 0.6, 1)
    found = credo.infer(graph, "mean-field", tol=1e-13, seed=0)
    mean = found.marginals.flat[1::2] - found.marginals.flat[::2]
    np.testing.assert_allclose(mean, np.tanh(fields + matrix @ mean), atol=1e-12)
    pair = found.factor_marginals[0]
    np.testing.assert_allclose(pair, np.outer(found.marginals["x0"], found.marginals["x1"]), atol=1e-15)


def test_a_symmetric_start_does_not_stay_at_the_saddle_point():
    pairs = list(itertools.combinations(range(6), 2))
    table = 0.8 * np.outer([-1, 1], [-1, 1])
    graph = credo.FactorGraph.from_arrays(np.full(6, 2), (pairs, table), log=True)
    found = credo.infer(graph, "mean-field", seed=0)
    assert found.log_z.value > 0.8 * 15
    assert found.marginals["x0"].max() > 0.99


@pytest.mark.parametrize("c", ZOO, ids=ids)
@pytest.mark.parametrize("order", ["sequential", "random"])
@pytest.mark.parametrize("name", BOTH)
def test_no_sweep_lowers_the_bound_and_every_sweep_stays_below_log_z(name: str, order: str, c: Case):
    spec = f"{name}(order={order}{', start=random' if name == 'structured-mean-field' else ''})"
    found = quiet(c.graph, spec, seed=1)
    bounds, truth = -found.trace["free_energy"], Oracle(c).log_z
    slack = 1e-12 * max(1.0, abs(truth))
    assert len(bounds) == len(found.trace["change"]) > 0
    assert (np.diff(bounds) >= -10 * slack).all()
    assert bounds[-1] == pytest.approx(found.log_z.value, rel=1e-15)
    assert (bounds <= truth + 100 * slack).all()


@pytest.mark.parametrize("name", ["grid 3x3", "three-way factors", "bayes net", "tree with zeros"])
def test_the_bound_is_minus_the_free_energy_of_the_marginals(name: str):
    c = case(name)
    found = credo.infer(c.graph, "mean-field", seed=0)
    assert -free_energy.mean_field(c.graph, found.marginals.flat) == pytest.approx(found.log_z.value)


def test_the_kernels_run_uncompiled():
    c = case("four-way factors")
    graph, w = c.graph, c.graph.wiring
    start = np.repeat(1 / w.sizes, w.sizes)
    args = (w.table_start, w.scope_start, w.scope)
    results = []
    for call in (kernel.sweep, kernel.sweep.py_func):
        beliefs = start.copy()
        change = call(
            np.arange(len(w.sizes)),
            graph.log_tables,
            *args,
            w.edge_factor,
            w.edge_stride,
            w.neighbour_start,
            w.neighbour_edge,
            w.state_start,
            beliefs,
        )
        results.append([*beliefs, change])
    np.testing.assert_allclose(results[0], results[1], rtol=1e-14)


def test_more_restarts_never_give_a_worse_bound():
    graph, _, _ = ising(4, 4, 3.0, 2)
    bounds = [credo.infer(graph, f"mean-field(restarts={k})", seed=0) for k in (1, 3, 10)]
    values = [b.log_z.value for b in bounds]
    assert values == sorted(values) and values[0] < values[-1]
    assert bounds[1].notes[-1].startswith("3 of 3 starts gave bounds from")
    assert bounds[0].notes == ()


@pytest.mark.parametrize("name", BOTH)
def test_without_a_sweep_the_start_is_already_a_bound(name: str):
    c = case("bayes net")
    with pytest.warns(ConvergenceWarning, match="max_iter was reached"):
        found = credo.infer(c.graph, name, max_iter=0, seed=0)
    assert found.status is Status.OUT_OF_ITERATIONS
    assert -np.inf < found.log_z.value <= Oracle(c).log_z
    assert found.trace["free_energy"].shape == (0,)


@pytest.mark.parametrize("name", BOTH)
def test_out_of_time_returns_the_best_so_far(name: str):
    graph, _, _ = ising(4, 4, 3.0, 3)
    with pytest.warns(ConvergenceWarning, match="the time given was used up"):
        found = credo.infer(graph, f"{name}(restarts=50)", seconds=0.0, seed=0)
    assert found.status is Status.OUT_OF_TIME
    assert found.notes[-1].startswith("1 of 50 starts")


@pytest.mark.parametrize("stop_at", [2, 30])
def test_ctrl_c_returns_the_best_so_far(monkeypatch, stop_at: int):
    graph, _, _ = ising(4, 4, 3.0, 3)
    calls, real = itertools.count(), mean_field._sweep

    def interrupted(*args):
        if next(calls) == stop_at:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(mean_field, "_sweep", interrupted)
    with pytest.warns(ConvergenceWarning, match="stopped by hand"):
        found = credo.infer(graph, "mean-field(restarts=50)", seed=0)
    assert found.status is Status.INTERRUPTED
    assert np.isfinite(found.log_z.value)


def test_ctrl_c_before_the_first_state_is_passed_on_and_later_is_not(monkeypatch):
    graph, _, _ = ising(3, 3, 1.0, 3)
    calls, real = itertools.count(), mean_field.starting_beliefs
    first = 0

    def interrupted(*args):
        if next(calls) == first:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(mean_field, "starting_beliefs", interrupted)
    with pytest.raises(KeyboardInterrupt):
        credo.infer(graph, "mean-field(restarts=3)", seed=0)
    calls, first = itertools.count(), 1
    assert quiet(graph, "mean-field(restarts=3)", seed=0).status is Status.INTERRUPTED


def test_ctrl_c_during_the_naive_start_of_clusters_returns_that_start(monkeypatch):
    graph, _, _ = ising(3, 3, 1.0, 3)
    monkeypatch.setattr(mean_field, "_sweep", lambda *args: (_ for _ in ()).throw(KeyboardInterrupt))
    found = quiet(graph, "structured-mean-field", seed=0)
    assert found.status is Status.INTERRUPTED
    assert np.isfinite(found.log_z.value)


# Zeros


def test_beliefs_avoid_zeros():
    c = case("parity checks")
    for seed in range(5):
        found = credo.infer(c.graph, "mean-field(restarts=3)", seed=seed)
        for a, (_, table) in enumerate(c.factors):
            assert (found.factor_marginals[a][table == -np.inf] == 0).all()


def test_a_deterministic_pair_is_pinned_and_the_rest_is_free():
    graph = credo.FactorGraph(
        {"a": 2, "b": 2, "c": 3},
        {("a", "b"): [[0.7, 0], [0, 0.3]], ("c",): [1, 2, 1], ("b", "c"): [[1] * 3] * 2},
    )
    found = credo.infer(graph, "mean-field", seed=0)
    assert found.log_z.value == pytest.approx(math.log(0.7 * 4))  # the heavier diagonal entry, all of c
    np.testing.assert_allclose(found.marginals["c"], [0.25, 0.5, 0.25])
    assert credo.infer(graph, "structured-mean-field", seed=0).log_z.value == pytest.approx(math.log(4))


def test_states_that_zeros_do_not_tie_to_others_keep_their_freedom():
    graph = credo.FactorGraph({"a": 3, "b": 2}, {("a",): [1, 0, 1], ("a", "b"): [[1, 1], [0, 1], [1, 1]]})
    assert credo.infer(graph, "mean-field", seed=0).log_z.value == pytest.approx(math.log(4))


@pytest.mark.parametrize("name", BOTH)
def test_contradictions_are_named(name: str):
    differ = [[0, 1], [1, 0]]
    odd = {("a", "b"): differ, ("b", "c"): differ, ("c", "a"): differ}
    graph = credo.FactorGraph({"a": 2, "b": 2, "c": 2}, odd)
    with pytest.raises(ZeroProbabilityError, match="the model gives every configuration weight zero"):
        credo.infer(graph, name, seed=0)
    never = credo.FactorGraph({"a": 2}, {(): 0.0, ("a",): [1, 1]})
    with pytest.raises(ZeroProbabilityError, match="every configuration weight zero"):
        credo.infer(never, name, seed=0)


@pytest.mark.parametrize("name", BOTH)
def test_if_the_search_gives_up_exact_inference_finds_a_start_or_the_problem_is_refused(
    monkeypatch, name: str
):
    graph = case("parity checks").graph
    monkeypatch.setattr(possible_states, "_SEARCHES", 0)
    assert np.isfinite(credo.infer(graph, name, seed=0).log_z.value)
    monkeypatch.setattr(possible_states, "_SMALL", Limits(0.0, 0.0))
    reason = f"{name} cannot treat this problem: a factor has a zero entry, so E.log factor. is -inf"
    with pytest.raises(UnsupportedError, match=reason):
        credo.infer(graph, name, seed=0)


def _random_constraints(seed: int, tightness: float) -> Case:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, 6).tolist()
    factors = []
    for _ in range(8):
        scope = rng.permutation(6)[: rng.integers(1, 4)].tolist()
        table = np.where(rng.random([sizes[i] for i in scope]) < tightness, -np.inf, rng.standard_normal())
        factors.append((tuple(f"x{i}" for i in scope), table))
    return Case(f"{seed}", {f"x{i}": s for i, s in enumerate(sizes)}, factors)


@pytest.mark.parametrize("tightness", [0.2, 0.5])
@each_seed(range(20))
def test_the_search_finds_a_possible_box_or_proves_there_is_none(seed: int, tightness: float):
    c = _random_constraints(seed, tightness)
    graph, w, rng = c.graph, c.graph.wiring, np.random.default_rng(seed)
    code, keep = feasible.feasible_box(graph, rng.permutation(6), rng.random(int(w.state_start[-1])), 1000)
    possible = c.log_weights > -np.inf
    assert code == (feasible.FOUND if possible.any() else feasible.IMPOSSIBLE)
    if code == feasible.FOUND:
        box = [np.flatnonzero(keep[w.state_start[i] : w.state_start[i + 1]]) for i in range(6)]
        assert all(len(states) for states in box)
        assert possible[np.ix_(*box)].all()


def test_the_search_counts_its_dead_ends():
    # Three pigeons and two holes: every choice is a dead end, but no pair of factors shows it.
    differ = np.where(np.eye(2) == 1, -np.inf, 0.0)
    pairs = np.array(list(itertools.combinations(range(3), 2)))
    graph = credo.FactorGraph.from_arrays(np.full(3, 2), (pairs, differ), log=True)
    codes = [feasible.feasible_box(graph, np.arange(3), np.zeros(6), most)[0] for most in (0, 10)]
    assert codes == [feasible.GAVE_UP, feasible.IMPOSSIBLE]


def test_best_entries_sum_the_largest_entry_of_each_factor():
    c = case("three-way factors")
    w = c.graph.wiring
    found = feasible.entry_scores(c.graph)
    expected = np.zeros(int(w.state_start[-1]))
    for scope, table in c.factors:
        for k, name in enumerate(scope):
            i = c.names.index(name)
            best = table.max(axis=tuple(j for j in range(table.ndim) if j != k))
            expected[w.state_start[i] : w.state_start[i + 1]] += best
    np.testing.assert_allclose(found, expected)


# Warm starts


@pytest.mark.parametrize("name", BOTH)
def test_a_warm_start_at_a_fixed_point_stays_there(name: str):
    graph, _, _ = ising(4, 4, 1.0, 4)
    cold = credo.infer(graph, name, seed=0, tol=1e-12)
    warm = credo.infer(graph, name, seed=5, tol=1e-8, warm_start=cold)
    assert warm.log_z.value == pytest.approx(cold.log_z.value, abs=1e-10)
    assert len(warm.trace["change"]) < len(cold.trace["change"])


def test_a_warm_start_in_front_of_new_zeros_is_moved_to_possible_states():
    table = [[1, 1], [1, 1]]
    before = credo.FactorGraph({"a": 2, "b": 2}, {("a", "b"): table})
    after = credo.FactorGraph({"a": 2, "b": 2}, {("a", "b"): [[0, 1], [0, 0]]})
    found = credo.infer(after, "mean-field", warm_start=credo.infer(before, "mean-field", seed=0))
    assert found.log_z.value == pytest.approx(0.0)


def test_an_unfitting_warm_start_is_refused():
    one, other = case("chain").graph, case("grid 3x3").graph
    earlier = credo.infer(one, "mean-field", seed=0)
    with pytest.raises(
        QueryError, match="warm_start: expected beliefs of 18 states, got 12; the earlier run"
    ):
        credo.infer(other, "mean-field", warm_start=earlier)
    strange = credo.core.result.Result("x", Status.EXACT, state=3)
    with pytest.raises(QueryError, match="warm_start: expected the result of mean-field"):
        credo.infer(one, "mean-field", warm_start=strange)


# Clusters


def _by_brute_force(c: Case, clusters: list[list[str]], sweeps: int) -> tuple[float, list[np.ndarray]]:
    """Structured coordinate ascent on joint tables from independent uniform variables."""
    axes = [[c.names.index(n) for n in cluster] for cluster in clusters]
    everything = set(range(len(c.sizes)))
    q = []
    for mine in axes:
        shape = [s if k in mine else 1 for k, s in enumerate(c.sizes)]
        q.append(np.full(shape, 1 / np.prod(shape)))
    for _ in range(sweeps):
        for number, mine in enumerate(axes):
            others = math.prod((t for k, t in enumerate(q) if k != number), start=np.ones(1))
            logs = (others * c.log_weights).sum(axis=tuple(everything - set(mine)), keepdims=True)
            q[number] = np.exp(logs - logs.max())
            q[number] /= q[number].sum()
    joint = math.prod(q)
    return -free_energy.variational(c.graph, joint), q


@pytest.mark.parametrize(
    ("name", "clusters"),
    [
        ("three-way factors", [["x0", "x2"], ["x1", "x4"], ["x3"]]),
        ("three-way factors", [["x0", "x1"], ["x2", "x3", "x4"]]),
        ("four-way factors", [["x0", "x3"], ["x1", "x2", "x5"], ["x4"]]),
        ("grid 2x4", [["x0", "x1", "x2", "x3"], ["x4", "x5", "x6", "x7"]]),
        ("reversed scopes", [["x0", "x2"], ["x1"]]),
        ("one-state variables", [["x0", "x3"], ["x1", "x2"]]),
    ],
)
def test_clusters_agree_with_coordinate_ascent_on_joint_tables(monkeypatch, name: str, clusters: list):
    c = case(name)
    monkeypatch.setattr(descent, "_NOISE", 0.0)
    found = credo.infer(
        c.graph, f"structured-mean-field(clusters={clusters}, start=random)", seed=0, tol=1e-13
    )
    bound, q = _by_brute_force(c, clusters, 2000)
    assert found.log_z.value == pytest.approx(bound, abs=1e-10)
    joint = math.prod(q)
    for a, (scope, _) in enumerate(c.factors):
        keep = [c.names.index(n) for n in scope]
        table = joint.sum(axis=tuple(k for k in range(joint.ndim) if k not in keep))
        table = table.transpose(np.argsort(np.argsort(keep)))
        np.testing.assert_allclose(found.factor_marginals[a], table, atol=1e-6)


@pytest.mark.parametrize("start", ["random", "mean-field"])
@pytest.mark.parametrize("c", ZOO, ids=ids)
def test_clusters_of_one_variable_are_naive_mean_field(c: Case, start: str):
    spec = f"structured-mean-field(clusters=singletons, start={start})"
    one, two = quiet(c.graph, "mean-field", seed=3), quiet(c.graph, spec, seed=3)
    assert one.log_z.value == pytest.approx(two.log_z.value, abs=1e-10, rel=1e-12)
    if start == "random":
        assert len(one.trace["change"]) == len(two.trace["change"])
        np.testing.assert_allclose(one.marginals.flat, two.marginals.flat, atol=1e-10)
        np.testing.assert_allclose(one.factor_marginals.flat, two.factor_marginals.flat, atol=1e-10)


@pytest.mark.parametrize("c", ZOO, ids=ids)
def test_one_cluster_with_everything_is_exact(c: Case):
    method = structured_mean_field.StructuredMeanField(clusters=[c.names])
    found, truth = credo.infer(c.graph, method, seed=0), Oracle(c)
    assert found.log_z.value == pytest.approx(truth.log_z, rel=1e-10, abs=1e-10)
    assert found.converged
    for name in c.names:
        np.testing.assert_allclose(found.marginals[name], truth.joint([name]), atol=1e-10)


@pytest.mark.parametrize("kind", ["none", "inside", "several"])
@pytest.mark.parametrize("c", TREES, ids=ids)
def test_the_default_clusters_are_exact_on_trees(c: Case, kind: str):
    evidence = c.evidences.get(kind, {})
    found = credo.infer(c.graph, "structured-mean-field", evidence=evidence, seed=0)
    assert found.log_z.value == pytest.approx(Oracle(c, evidence).log_z, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("c", ZOO, ids=ids)
def test_the_default_clusters_form_no_loop(c: Case):
    label = structured_mean_field._labels(c.graph, "trees")
    assert len(label) == len(c.names) and (label >= 0).all()
    for block in range(int(label.max(initial=-1)) + 1):
        bipartite = nx.Graph()
        inside = {n for n, b, s in zip(c.names, label, c.sizes, strict=True) if b == block and s > 1}
        for scope in {tuple(sorted(scope)) for scope, _ in c.factors}:
            bipartite.add_edges_from((n, scope) for n in scope if n in inside)
        assert not bipartite or nx.is_forest(bipartite)


def test_the_default_clusters_of_a_grid_are_few_and_large():
    graph, _, _ = ising(20, 20, 1.0, 0)
    counts = np.bincount(structured_mean_field._labels(graph, "trees"))
    assert len(counts) <= 4 and counts[0] > 200


@pytest.mark.parametrize("coupling", [0.5, 1.0, 3.0])
def test_rows_of_a_grid_never_bound_worse_than_single_variables(coupling: float):
    rows = [[f"x{4 * i + j}" for j in range(4)] for i in range(4)]
    for seed in range(4):
        graph, _, _ = ising(4, 4, coupling, seed)
        truth = credo.infer(graph, "junction-tree").log_z.value
        naive = quiet(graph, "mean-field(restarts=2)", seed=seed).log_z.value
        for clusters in (rows, "trees"):
            method = structured_mean_field.StructuredMeanField(clusters=clusters, restarts=2)
            bound = quiet(graph, method, seed=seed).log_z.value
            assert naive - 1e-9 <= bound <= truth + 1e-9
            assert bound > naive + 1e-3


def test_variables_in_no_cluster_stand_alone():
    graph = case("chain").graph
    some = structured_mean_field._labels(graph, [["x3", "x1"], []])
    assert some.tolist() == [0, 1, 2, 1, 3]


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ({"maximise": "all"}, "it gives marginals and log Z, and the question asks for MAP"),
        ({"maximise": ["x0"]}, "it gives marginals and log Z, and the question asks for marginal MAP"),
        (
            {"temperatures": {"x0": 0.5}},
            "it gives marginals and log Z, and the question asks for powered sums",
        ),
    ],
)
def test_other_tasks_are_refused(name: str, question: dict, reason: str):
    with pytest.raises(UnsupportedError, match=f"{name} cannot treat this problem: .*{reason}"):
        credo.infer(case("chain").graph, name, **question)


@pytest.mark.parametrize("name", BOTH)
def test_queries_and_samples_are_refused(name: str):
    with pytest.raises(UnsupportedError, match="the question asks for joint tables"):
        credo.query(case("chain").graph, ["x0", "x1"], method=name)
    with pytest.raises(UnsupportedError, match="the question asks for samples"):
        credo.sample(case("chain").graph, 2, method=name)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("mean-field(restarts=0)", "restarts must be at least 1, got 0"),
        ("mean-field(restarts=1.5)", "restarts must be a whole number, got 1.5"),
        ("mean-field(order=up)", r"order must be one of \['random', 'sequential'\], got 'up'"),
        ("structured-mean-field(restarts=0)", "restarts must be at least 1"),
        ("structured-mean-field(start=cold)", r"start must be one of \['mean-field', 'random'\], got 'cold'"),
        ("structured-mean-field(order=up)", "order must be one of"),
        ("structured-mean-field(memory_gb=-1)", "memory_gb must be at least 0, got -1"),
        (
            "structured-mean-field(clusters=rows)",
            r"clusters must be one of \['singletons', 'trees'\], got 'rows'",
        ),
        (
            "structured-mean-field(clusters=3)",
            "clusters: expected 'trees', 'singletons' or lists of names, got 3",
        ),
        ("structured-mean-field(clusters=['a'])", "clusters: expected lists of names, got 'a'"),
        ("structured-mean-field(clusters=[['a', 1]])", r"clusters: expected lists of names, got \['a', 1\]"),
        (
            "structured-mean-field(clusters=[['a'], ['a']])",
            "clusters: 'a' is named twice; a variable belongs to one",
        ),
    ],
)
def test_options_are_checked(spec: str, message: str):
    with pytest.raises(OptionError, match=message):
        credo.infer(case("chain").graph, spec)


def test_unknown_names_in_clusters_and_wide_clusters_are_refused():
    with pytest.raises(QueryError, match="no variable named 'y'"):
        credo.infer(case("chain").graph, "structured-mean-field(clusters=[['x0', 'y']])", seed=0)
    graph, _, _ = ising(4, 4, 1.0, 0)
    method = structured_mean_field.StructuredMeanField(clusters=[list(graph.variables.names)], memory_gb=0)
    with pytest.raises(UnsupportedError, match="exact inference needs"):
        credo.infer(graph, method, seed=0)


@pytest.mark.parametrize("method", ["mean-field", "bethe", "grid-bp", "ep"])
def test_what_has_no_integral_given_one_state_is_refused(method):
    """Given the second state both residuals are about x + y, and x - y is free."""
    x, y, s = (credo.Variable(n, d) for n, d in (("x", credo.Real()), ("y", credo.Real()), ("s", 2)))

    def model(second, chances):
        factors = [
            LinearGaussianFactor([x, y, s], [[1.0, 0.5], [1.0, 1.0]], [0.0, 1.0], [1.0, 2.0]),
            LinearGaussianFactor([x, y, s], [[0.3, -1.0], second], [0.0, 0.0], [1.0, 2.0]),
            credo.TableFactor([s], chances),
        ]
        return credo.FactorGraph([x, y, s], factors)

    with pytest.raises(ModelError, match=r"some direction of .'x', 'y'. given .'s': '1'"):
        credo.infer(model([2.0, 2.0], [0.5, 0.5]), method, seed=0)
    refuse_improper_states(model([1.0, -1.0], [0.5, 0.5]))
    refuse_improper_states(model([2.0, 2.0], [1.0, 0.0]))  # the second state has no weight
