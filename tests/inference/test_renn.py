from __future__ import annotations

import builtins
import dataclasses
import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo.core.errors import (
    ConvergenceWarning,
    MissingExtraError,
    OptionError,
    QueryError,
    UnsupportedError,
    ZeroProbabilityError,
)
from credo.core.result import Status
from credo.inference.messages.region_plan import RegionTables
from credo.inference.neural.network import BeliefNetwork, Logits, Shared, objective
from credo.inference.neural.network import free_energy as jax_free_energy
from credo.inference.neural.readout import logs_of, project
from credo.inference.neural.region_system import RegionSystem, system_of
from credo.inference.neural.renn import RENN
from credo.inference.problem import free_energy
from credo.inference.problem.base import Problem
from credo.nn.arrays import precision
from credo.structures import region_graph

SMALL = "renn(width=8)"


def quietly(model, method, **question):
    """Ask without a word about convergence: these runs are cut short on purpose."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return credo.infer(model, method, **question)


def problem_of(graph) -> Problem:
    n = len(graph.variables)
    return Problem(graph, np.ones(n), np.zeros(n, dtype=np.int64))


def joint_of(graph) -> np.ndarray:
    sizes = graph.variables.sizes
    states = np.stack(np.unravel_index(np.arange(np.prod(sizes)), sizes), axis=1)
    scores = graph.log_scores(states.astype(np.int64))
    return np.exp(scores - np.logaddexp.reduce(scores)).reshape(sizes)


def log_z_of(graph) -> float:
    sizes = graph.variables.sizes
    states = np.stack(np.unravel_index(np.arange(np.prod(sizes)), sizes), axis=1)
    return float(np.logaddexp.reduce(graph.log_scores(states.astype(np.int64))))


def exact_tables(system: RegionSystem, graph) -> list[np.ndarray]:
    joint = joint_of(graph)
    found = []
    for region in system.plan.regions.regions:
        others = tuple(i for i in range(joint.ndim) if i not in region.variables)
        found.append(joint.sum(axis=others))
    return found


def posed(graph, regions="auto"):
    system = system_of(graph, regions, 2**12)
    tables = RegionTables(problem_of(graph), system.plan)
    return system, tables, *system.problem(tables)


def jax_energy(system, roots, energy, possible) -> float:
    with precision(double=True) as kind, np.errstate(divide="ignore"):
        shared = Shared.of(system, 1.0, kind)
        logs = np.where(possible, np.log(roots), -1e9)
        return float(jax_free_energy(jnp.asarray(logs), jnp.asarray(energy), jnp.asarray(possible), shared))


def random_tree(seed=0, zeros=False):
    rng = np.random.default_rng(seed)
    sizes = {"a": 2, "b": 3, "c": 2, "d": 4, "e": 2}
    pairs = [("a", "b"), ("b", "c"), ("b", "d"), ("d", "e")]
    factors = {p: rng.gamma(1.0, size=(sizes[p[0]], sizes[p[1]])) + 0.1 for p in pairs}
    factors["c",] = rng.gamma(1.0, size=2)
    if zeros:
        factors["a", "b"][0, 1] = factors["b", "d"][2, :2] = 0
    return credo.FactorGraph(sizes, factors)


def three_way(zeros=False):
    rng = np.random.default_rng(3)
    sizes = {"a": 2, "b": 3, "c": 2, "d": 2, "e": 2}
    scopes = [("a", "b", "c"), ("c", "d"), ("d", "e", "a"), ("e", "b")]
    factors = {s: rng.gamma(1.0, size=tuple(sizes[v] for v in s)) + 0.05 for s in scopes}
    if zeros:
        factors["a", "b", "c"][0, 1, :] = factors["e", "b"][1, 0] = 0
    return credo.FactorGraph(sizes, factors)


GRAPHS = {
    "grid": (credo.datasets.ising_grid(3, seed=1), ["auto", "all-faces", "loops", "loop-edge-node", "bethe"]),
    "complete": (credo.datasets.complete_ising(5, seed=1), ["auto", "star", "bethe", "cvm", "junction-tree"]),
    "tree": (random_tree(), ["auto", "junction-tree"]),
    "zeros": (random_tree(zeros=True), ["auto", "junction-tree"]),
    "three-way": (
        three_way(),
        ["auto", "cvm", "bethe", "junction-tree", [["a", "b", "c", "e"], ["a", "c", "d", "e"]]],
    ),
    "three-way zeros": (three_way(zeros=True), ["auto", "cvm", "bethe"]),
}
CASES = [
    pytest.param(model.to_factor_graph(), regions, id=f"{name}-{regions}")
    for name, (model, kinds) in GRAPHS.items()
    for regions in kinds
]


@pytest.mark.parametrize(("graph", "regions"), CASES)
def test_the_free_energy_is_that_of_the_region_graph_at_the_exact_marginals(graph, regions):
    system, tables, energy, possible = posed(graph, regions)
    assert system.plan.regions.is_valid
    exact = exact_tables(system, graph)
    flat = np.concatenate([t.ravel() for t in exact])
    roots = flat[system.root_entry]
    np.testing.assert_allclose(system.beliefs @ roots, flat, atol=1e-12)
    np.testing.assert_allclose(system.disagreement @ roots, 0, atol=1e-12)
    start = system.plan.table_start
    logs = [tables.theta[start[r] : start[r + 1]].reshape(t.shape) for r, t in enumerate(exact)]
    expected = free_energy.region_based(exact, system.plan.counting, logs)
    found = jax_energy(system, roots, energy, possible)
    assert found == pytest.approx(expected, abs=1e-9)
    if system.plan.regions.is_forest:
        assert -found == pytest.approx(log_z_of(graph), abs=1e-9)


@pytest.mark.parametrize("regions", ["auto", "bethe", "loop-edge-node"])
def test_the_free_energy_of_beliefs_that_disagree_counts_the_means_of_parents(regions):
    graph = GRAPHS["grid"][0].to_factor_graph()
    system, tables, energy, possible = posed(graph, regions)
    b = np.random.default_rng(0).gamma(1.0, size=system.n_entries)
    b /= np.bincount(system.root_of, b)[system.root_of]
    found = jax_energy(system, b, energy, possible)
    plan, region = system.plan, system.plan.regions
    shapes = [tuple(graph.variables.sizes[list(r.variables)]) for r in region.regions]
    flat = np.zeros(system.size)
    flat[system.root_entry] = b
    beliefs = [flat[plan.table_start[r] : plan.table_start[r + 1]].reshape(s) for r, s in enumerate(shapes)]
    for r in range(len(region)):  # levels rise: parents come first
        if region.parents[r]:
            said = []
            for p in region.parents[r]:
                axes = [
                    k
                    for k, i in enumerate(region.regions[p].variables)
                    if i not in region.regions[r].variables
                ]
                said.append(beliefs[p].sum(axis=tuple(axes)))
            beliefs[r] = np.mean(said, axis=0)
    logs = [
        tables.theta[plan.table_start[r] : plan.table_start[r + 1]].reshape(s) for r, s in enumerate(shapes)
    ]
    assert found == pytest.approx(free_energy.region_based(beliefs, plan.counting, logs), abs=1e-9)


@pytest.mark.parametrize("zeros", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize("layers", [pytest.param((0, 0), marks=pytest.mark.slow), (1, 1)])
def test_gradients_are_those_of_finite_differences(layers, zeros):
    graph = three_way(zeros)
    system, _, energy, possible = posed(graph)
    rng = np.random.default_rng(0)
    with precision(double=True) as kind:
        shared = Shared.of(system, 2.0, kind)
        model = {
            "energy": jnp.asarray(energy),
            "possible": jnp.asarray(possible),
            "multiplier": jnp.asarray(rng.normal(size=system.disagreement.shape[0])),
        }
        if layers == (0, 0):
            network = Logits(system.buckets, rng, kind)
        else:
            network = BeliefNetwork(system.buckets, 5, 4, layers, rng, kind)
        network = jax.tree.map(jnp.asarray, network)

        def value(n):
            return objective(n, model, shared)[0]

        slope, value = jax.jit(jax.grad(value))(network), jax.jit(value)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slope))
        for _ in range(3):
            way = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape)), network)
            ahead, back = (jax.tree.map(lambda x, w, s=s: x + s * w, network, way) for s in (1e-6, -1e-6))
            expected = (float(value(ahead)) - float(value(back))) / 2e-6
            found = sum(
                float((g * w).sum()) for g, w in zip(*map(jax.tree.leaves, (slope, way)), strict=True)
            )
            assert found == pytest.approx(expected, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize(("graph", "regions"), CASES)
def test_projected_beliefs_agree_and_exact_ones_stay_as_they_are(graph, regions):
    system, tables, _, possible = posed(graph, regions)
    b = np.where(possible, np.random.default_rng(1).gamma(1.0, size=system.n_entries), 0)
    b /= np.bincount(system.root_of, b)[system.root_of]
    found = project(tables, logs_of(system, b, possible))
    assert np.abs(system.disagreement @ np.exp(found.logs)[system.root_entry]).max(initial=0) < 1e-7
    assert np.isfinite(found.log_z)
    exact = np.concatenate([t.ravel() for t in exact_tables(system, graph)])
    again = project(tables, logs_of(system, exact[system.root_entry], possible))
    np.testing.assert_allclose(np.exp(again.logs), exact, atol=1e-9)


def test_the_projection_is_the_nearest_consistent_point():
    graph = GRAPHS["grid"][0].to_factor_graph()
    system, tables, _, possible = posed(graph)
    rng = np.random.default_rng(1)
    b = rng.gamma(2.0, size=system.n_entries)
    b /= np.bincount(system.root_of, b)[system.root_of]
    q = np.exp(project(tables, logs_of(system, b, possible)).logs)[system.root_entry]
    exact = np.concatenate([t.ravel() for t in exact_tables(system, graph)])[system.root_entry]

    def distance(p):
        return (p * np.log(p / b)).sum()

    # Pythagoras: for any consistent p, KL(p|b) = KL(p|q) + KL(q|b).
    assert distance(exact) == pytest.approx((exact * np.log(exact / q)).sum() + distance(q), rel=1e-6)


def test_a_small_step_is_not_convergence():
    model, seen = credo.datasets.asia(), {"xray": "yes"}
    exact = credo.infer(model, "junction-tree", evidence=seen).log_z.value
    with pytest.warns(ConvergenceWarning, match="renn: no step improves any more"):
        early = credo.infer(model, "renn(width=16, stop=1e-5)", evidence=seen, seed=0)
    assert early.status is Status.STALLED and abs(early.log_z.value - exact) > 0.03
    assert early.trace["change"][-1] < 1e-5 and early.trace["residual"][-1] > 1e-3
    assert any("lower stop, or leave it out" in note for note in early.notes)
    found = credo.infer(model, "renn(width=16)", evidence=seen, seed=0)
    assert found.status is Status.CONVERGED and found.log_z.value == pytest.approx(exact, abs=1e-3)
    rounding = 8 * np.finfo(np.float32).eps  # what single precision can tell
    assert (found.trace["residual"][:-1] >= rounding).all() and found.trace["residual"][-1] < rounding
    assert len(found.trace["log_z"]) == len(found.trace["residual"])
    np.testing.assert_allclose(found.trace["log_z"][-1], found.log_z.value, atol=1e-2)


def test_the_default_finds_the_fixed_point_of_gbp_or_says_that_it_did_not():
    for seed in range(2):
        grid = credo.datasets.ising_grid(3, seed=seed)
        found = quietly(grid, "renn(width=16, rate=0.003)", seed=0)
        if found.converged:
            assert found.log_z.value == pytest.approx(credo.infer(grid, "gbp").log_z.value, abs=1e-4)
        else:
            assert found.trace["residual"][-1] >= 8 * np.finfo(np.float32).eps


def test_models_that_are_done_are_computed_no_more(monkeypatch):
    from credo.nn import optimise
    from credo.nn.optimise import CompiledAdam

    grids = [credo.datasets.ising_grid(3, coupling=c, seed=0) for c in (0.05, 1.0)]
    method, sizes, real = "renn(width=8, stop=1e-6, precision=double)", [], CompiledAdam._call

    def called(adam, carry, *given):
        sizes.append(len(carry.active))
        return real(adam, carry, *given)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        whole = credo.infer_models(grids, method, seed=0, max_iter=400)
        monkeypatch.setattr(optimise, "_WORTH", 0)
        monkeypatch.setattr(CompiledAdam, "_call", called)
        parts = credo.infer_models(grids, method, seed=0, max_iter=400)
    assert sizes[0] == 2 and sizes == sorted(sizes, reverse=True) and set(sizes) <= {2, 1}
    assert sizes[-1] < 2
    assert parts.status == whole.status
    np.testing.assert_allclose(parts.marginals, whole.marginals, atol=1e-9)
    for one, other in zip(parts, whole, strict=True):
        for name in one.trace:
            np.testing.assert_allclose(one.trace[name], other.trace[name], atol=1e-8)


def test_it_comes_near_the_marginals_of_a_weak_grid():
    grid = credo.datasets.ising_grid(3, coupling="uniform(low=-0.5, high=0.5)", seed=3)
    exact = credo.infer(grid, "junction-tree")
    found = credo.infer(grid, "renn(width=8, rate=0.005)", seed=0)
    assert np.abs(found.marginals.flat - exact.marginals.flat).max() < 0.02
    assert found.log_z.value == pytest.approx(exact.log_z.value, abs=0.05)
    assert found.status is Status.CONVERGED
    assert set(found.trace) == {"objective", "free_energy", "penalty", "residual", "change", "log_z"}
    assert found.trace["objective"][-1] < found.trace["objective"][0]


@pytest.mark.parametrize("method", [SMALL, "inference-net(width=8)"])
def test_zeros_give_no_nan_and_impossible_states_get_no_belief(method):
    graph = three_way(zeros=True)
    found = quietly(graph, method, seed=0)
    for a in range(graph.n_factors):
        table = found.factor_marginals[a]
        assert np.isfinite(table).all()
        assert (table[np.isneginf(graph.log_table(a))] == 0).all()
        assert table.sum() == pytest.approx(1)
    assert np.isfinite(found.log_z.value)


def test_a_contradiction_is_named():
    graph = credo.FactorGraph({"a": 2, "b": 2}, {("a", "b"): [[1, 0], [0, 0]], ("a",): [0, 1]})
    with pytest.raises(ZeroProbabilityError, match="its factors contradict each other"):
        credo.infer(graph, SMALL)


def test_a_contradiction_between_regions_is_named():
    pairs = {(x, y): [[0, 1], [1, 0]] for x, y in ("ab", "bc", "ca")}  # three that all differ, of two states
    pairs |= {("c", "d"): [[1, 2], [2, 1]], ("d", "e"): [[1, 2], [2, 1]], ("e", "a"): [[1, 2], [2, 1]]}
    graph = credo.FactorGraph({v: 2 for v in "abcde"}, pairs)
    with pytest.raises(ZeroProbabilityError, match="its factors contradict each other"):
        credo.infer(graph, SMALL)


def test_seeds_reproduce():
    grid = credo.datasets.ising_grid(3, seed=0)
    first, again, other = (quietly(grid, SMALL, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.marginals.flat, again.marginals.flat)
    assert first.log_z == again.log_z
    assert (first.marginals.flat != other.marginals.flat).any()


@pytest.mark.parametrize("option", ["", ", restarts=2", ", polish=gbp", ", project=false"])
def test_a_batch_gives_what_single_runs_give(option):
    grids = [credo.datasets.ising_grid(3, seed=s) for s in range(3)]
    method = f"renn(width=8, stop=1e-4, precision=double{option})"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        batch = credo.infer_models(grids, method, seed=5)
    assert len(batch) == 3
    for k, grid in enumerate(grids):
        alone = quietly(grid, method, seed=5)
        np.testing.assert_allclose(batch[k].marginals.flat, alone.marginals.flat, atol=1e-8)
        np.testing.assert_allclose(batch.marginals[k], alone.marginals.flat, atol=1e-8)
        np.testing.assert_allclose(batch.factor_marginals[k], alone.factor_marginals.flat, atol=1e-8)
        assert batch.log_z[k] == pytest.approx(alone.log_z.value, abs=1e-8)
        assert batch.status[k] is alone.status
        assert len(batch[k].trace["change"]) == len(alone.trace["change"])


def test_a_batch_that_is_too_large_runs_in_groups(monkeypatch):
    from credo.inference.neural import solve

    grids = [credo.datasets.ising_grid(3, seed=s) for s in range(3)]
    method = "renn(width=8, precision=double)"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        whole = credo.infer_models(grids, method, seed=5)
        size = sum(leaf.nbytes for leaf in whole[0].state.leaves)
        monkeypatch.setattr(solve, "_MEMORY", 5 * size)
        limits, real = [], solve._fit
        monkeypatch.setattr(solve, "_fit", lambda *given: limits.append(given[3].seconds) or real(*given))
        parts = credo.infer_models(grids, method, seed=5, seconds=6000)
    np.testing.assert_allclose(parts.marginals, whole.marginals, atol=1e-9)
    assert len(limits) == 3 and limits[0] == 2000 < limits[1] < limits[2] < 6000  # what is left is shared


def test_one_structure_is_compiled_once():
    grids = [credo.datasets.ising_grid(3, 4, seed=s) for s in range(2)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        first, second = (credo.infer_models([g], "renn(width=4)", seed=0, max_iter=10) for g in grids)
    assert first.compile_seconds > 0
    assert second.compile_seconds == 0


def test_a_warm_start_goes_on_where_the_earlier_run_ended():
    first, second = (credo.datasets.ising_grid(3, coupling=c, seed=0) for c in (0.5, 0.55))
    early = quietly(first, "renn(width=8, stop=1e-12)", seed=0, max_iter=300)
    cold = quietly(second, "renn(width=8, stop=1e-12)", seed=0, max_iter=10)
    warm = quietly(second, "renn(width=8, stop=1e-12)", seed=0, warm_start=early, max_iter=10)
    assert warm.trace["objective"][-1] < cold.trace["objective"][-1] - 0.1
    again = quietly(first, "renn(width=8, stop=1e-12)", seed=3, warm_start=early, max_iter=1)
    assert again.trace["objective"][0] == pytest.approx(early.trace["objective"][-1], abs=0.05)


def test_a_warm_start_of_the_wrong_kind_is_refused():
    grid, other = credo.datasets.ising_grid(3, seed=0), credo.datasets.ising_grid(4, seed=0)
    early = quietly(grid, "renn(width=8)", seed=0, max_iter=5)
    with pytest.raises(QueryError, match="the parameters have other shapes"):
        credo.infer(other, "renn(width=8)", warm_start=early, max_iter=5)
    with pytest.raises(QueryError, match="expected the result of a method that minimises a free energy"):
        credo.infer(grid, "renn(width=8)", warm_start=credo.infer(grid, "gbp"), max_iter=5)


def test_restarts_return_the_lowest_free_energy():
    grid = credo.datasets.ising_grid(3, seed=4)
    alone = quietly(grid, "renn(width=8, stop=0, precision=double)", seed=0, max_iter=40)
    several = quietly(grid, "renn(width=8, stop=0, precision=double, restarts=2)", seed=0, max_iter=40)
    assert several.log_z.value >= alone.log_z.value - 1e-6


def test_the_polish_never_raises_the_free_energy():
    grid = credo.datasets.ising_grid(3, seed=2)
    plain = quietly(grid, SMALL, seed=0)
    better = quietly(grid, "renn(width=8, polish=gbp)", seed=0)
    gbp = credo.infer(grid, "gbp")
    assert better.log_z.value >= plain.log_z.value
    assert better.log_z.value == pytest.approx(gbp.log_z.value, abs=1e-6)
    assert any(note.startswith("polish by gbp") for note in better.notes)


def test_the_polish_by_bp_is_bp_from_other_messages():
    grid = credo.datasets.ising_grid(3, coupling=0.2, seed=2)
    found = quietly(grid, "renn(width=8, polish=bp)", seed=0)
    np.testing.assert_allclose(found.marginals.flat, credo.infer(grid, "bp").marginals.flat, atol=1e-6)


def test_the_polish_is_exact_on_a_tree():
    graph = random_tree()
    found = credo.infer(graph, "renn(width=8, polish=gbp)", seed=0)
    assert found.log_z.value == pytest.approx(log_z_of(graph), abs=1e-9)


def test_the_regions_of_a_junction_tree_lead_to_log_z():
    graph = three_way()
    method = "renn(width=8, regions=junction-tree, rate=0.01, stop=1e-12)"
    found = quietly(graph, method, seed=0, tol=0)
    assert found.log_z.value == pytest.approx(log_z_of(graph), abs=2e-3)


def test_beliefs_as_found_are_reported_on_request():
    grid = credo.datasets.ising_grid(3, seed=4)
    raw = quietly(grid, "renn(width=8, project=false)", seed=0, max_iter=40)
    shown = quietly(grid, "renn(width=8)", seed=0, max_iter=40)
    pattern = r"-F of the beliefs as found: (\S+); projected to agree: (\S+)"
    numbers = re.fullmatch(pattern, shown.notes[0]).groups()
    assert float(numbers[0]) == pytest.approx(raw.log_z.value, abs=1e-6)
    assert float(numbers[1]) == pytest.approx(shown.log_z.value, abs=1e-6)
    assert -raw.trace["free_energy"][-1] == pytest.approx(raw.log_z.value, abs=1e-3)


def test_the_penalty_makes_regions_agree():
    grid = credo.datasets.ising_grid(3, seed=4)
    method = "renn(width=8, stop=1e-12, rate=0.005, penalty={})"
    found = [quietly(grid, method.format(p), seed=0, max_iter=300) for p in (0, 1, 20)]
    left = [f.trace["penalty"][-1] for f in found]
    assert left[0] > left[1] > left[2]


@pytest.mark.parametrize(
    "layers",
    [
        "attention=0, residual=0",
        pytest.param("attention=0, residual=2", marks=pytest.mark.slow),
        pytest.param("attention=2, residual=0", marks=pytest.mark.slow),
    ],
)
def test_every_ablation_of_layers_runs(layers):
    found = quietly(credo.datasets.ising_grid(3, seed=4), f"renn(width=4, {layers})", seed=0, max_iter=10)
    assert np.isfinite(found.marginals.flat).all()


@pytest.mark.slow
def test_large_regions_get_a_narrow_head():
    grid = credo.datasets.ising_grid(4, seed=4)
    found = quietly(grid, "renn(width=64, regions=all-faces)", seed=0, max_iter=5)
    shapes = [np.shape(leaf) for leaf in found.state.leaves]
    assert (12 * 64, 4 * 64) in shapes and (4 * 64, 2**4) in shapes  # only that of 12 variables is narrowed
    assert (4 * 64, 2**12) in shapes


def test_the_infinite_face_counts_as_a_region():
    regions = region_graph(
        credo.datasets.ising_grid(5, seed=0).to_factor_graph(), "all-faces", max_entries=2**16
    )
    assert np.bincount(regions.levels).tolist() == [17, 36, 21]
    assert regions.is_valid


def test_evidence_and_constants_are_treated():
    graph = three_way()
    exact = credo.infer(graph, "junction-tree", evidence={"a": 1, "d": 0})
    found = quietly(graph, "renn(width=8, polish=gbp)", evidence={"a": 1, "d": 0}, seed=0)
    np.testing.assert_allclose(found.marginals["a"], [0, 1])
    assert found.log_z.value == pytest.approx(exact.log_z.value, abs=0.5)
    known = credo.infer(graph, SMALL, evidence={v: 0 for v in "abcde"})
    assert known.status is Status.EXACT
    assert known.log_z.value == pytest.approx(graph.log_score({v: 0 for v in "abcde"}))


def test_many_rows_of_evidence_share_one_program():
    graph = three_way(zeros=True)
    rows = [{}, {"a": 1}, {"c": 0, "e": [0.2, 0.8]}]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = credo.infer_many(graph, rows, "renn(width=8, polish=gbp)")
    for k, row in enumerate(rows):
        expected = quietly(graph, "gbp", evidence=row)
        assert found.log_z[k] == pytest.approx(expected.log_z.value, abs=0.05)
        np.testing.assert_allclose(found.flat[k], expected.marginals.flat, atol=0.05)
    with pytest.raises(ZeroProbabilityError, match="row 1: the evidence has probability zero"):
        credo.infer_many(graph, [{"a": 1}, {"a": 0, "b": 1}, {}], "renn(width=8)", max_iter=30)


def test_running_out_of_steps_is_said():
    with pytest.warns(ConvergenceWarning, match="renn: max_iter was reached"):
        credo.infer(credo.datasets.ising_grid(3, seed=0), "renn(width=8)", max_iter=3, seed=0)
    with pytest.warns(ConvergenceWarning, match="renn: 1 of 1 models: max_iter was reached"):
        credo.infer_models([credo.datasets.ising_grid(3, seed=0)], "renn(width=8)", max_iter=3)


def test_ctrl_c_and_the_clock_end_a_run(monkeypatch):
    from credo.core.progress import Progress

    grid = credo.datasets.ising_grid(3, seed=0)
    late = quietly(grid, "renn(width=8, stop=0)", seconds=0.0, seed=0)
    assert late.status is Status.OUT_OF_TIME

    def stop(self, done, note=""):
        raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "update", stop)
    found = quietly(grid, "renn(width=8, stop=0)", seed=0)
    assert found.status is Status.INTERRUPTED
    assert np.isfinite(found.marginals.flat).all()


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"penalty": -1.0}, "penalty must be at least 0"),
        ({"width": 0}, "width must be at least 1"),
        ({"attention": -1}, "attention must be at least 0"),
        ({"residual": -1}, "residual must be at least 0"),
        ({"rate": -0.1}, "rate must be at least 0"),
        ({"stop": -0.1}, "stop must be at least 0"),
        ({"restarts": 0}, "restarts must be at least 1"),
        ({"max_entries": 1}, "max_entries must be at least 8"),
        ({"polish": "wax"}, "polish must be one of"),
        ({"precision": "half"}, "precision must be one of"),
        ({"regions": "provinces"}, "regions must be one of"),
        ({"regions": 3}, "regions: expected a name or lists of variable names"),
    ],
)
def test_bad_options_are_refused(option, message):
    with pytest.raises(OptionError, match=message):
        RENN(**option)


def test_maxima_and_queries_are_refused():
    grid = credo.datasets.ising_grid(3, seed=0)
    with pytest.raises(UnsupportedError, match="it gives marginals and log Z, and the question asks for MAP"):
        credo.infer(grid, "renn", maximise="all")
    with pytest.raises(UnsupportedError, match="the question asks for joint tables"):
        credo.query(grid, ["x0", "x1"], method="renn")


def test_a_missing_package_names_the_extra(monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **named):
        if name == "optax":
            raise ModuleNotFoundError("No module named 'optax'", name="optax")
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=re.escape('pip install "credo[neural]"')):
        credo.infer(credo.datasets.ising_grid(3, seed=0), "renn")


def test_options_have_text_forms():
    assert "renn" in credo.algorithms()
    assert {f.name for f in dataclasses.fields(RENN)} >= {"penalty", "width", "rate", "polish"}
