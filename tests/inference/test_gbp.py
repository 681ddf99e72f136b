"""Generalised belief propagation: identities, accuracy, descent of the free energy, refusals."""

from __future__ import annotations

import re

import numpy as np
import pytest

import credo
from conformance.oracle import Oracle
from credo import FactorGraph
from credo.core.errors import (
    ConvergenceWarning,
    OptionError,
    QueryError,
    TooLargeError,
    UnsupportedError,
    ZeroProbabilityError,
)
from credo.core.result import Result, Status
from credo.inference.problem.free_energy import bethe, region_based
from credo.kernels import regions as kernel
from credo.structures.region_builders import REGIONS
from zoo import TREES, ZOO, Case, case

SOLVERS = ("messages", "single-loop", "double-loop")


def grid(rows: int, columns: int | None = None, w: float = 0.5, seed: int = 0):
    return credo.datasets.ising_grid(
        rows,
        columns,
        coupling=f"uniform(low={-w}, high={w})",
        field="uniform(low=-0.5, high=0.5)",
        seed=seed,
    )


def error(found: Result, exact: Result) -> float:
    return float(np.abs(found.marginals.flat - exact.marginals.flat).max())


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_two_by_three_grid_is_exact(solver):
    model = grid(2, 3, w=1.5)
    exact = credo.infer(model, "enumerate")
    found = credo.infer(model, f"gbp(solver={solver})", tol=1e-12)
    assert error(found, exact) < 1e-10
    np.testing.assert_allclose(found.factor_marginals.flat, exact.factor_marginals.flat, rtol=0, atol=1e-10)
    assert found.log_z.value == pytest.approx(exact.log_z.value, abs=1e-10)


@pytest.mark.parametrize(
    "model", ["grid 3x3", "complete graph", "four-way factors", "bayes net", "parity checks"]
)
def test_junction_tree_regions_give_the_junction_tree(model):
    graph = case(model).graph
    exact = credo.infer(graph, "junction-tree")
    found = credo.infer(graph, "gbp(regions=junction-tree)", tol=1e-12)
    assert found.status is Status.EXACT
    assert found.log_z.kind == "exact"
    assert found.log_z.value == pytest.approx(exact.log_z.value, abs=1e-10)
    assert error(found, exact) < 1e-10
    np.testing.assert_allclose(found.factor_marginals.flat, exact.factor_marginals.flat, rtol=0, atol=1e-10)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("model", ["grid 3x3", "4-cycle", "three-way factors", "repeated scopes"])
def test_bethe_regions_give_the_fixed_point_of_belief_propagation(model, solver):
    graph = case(model).graph
    bp = credo.infer(graph, "bp", tol=1e-12)
    found = credo.infer(graph, f"gbp(regions=bethe, solver={solver})", tol=1e-11, max_iter=3000)
    assert error(found, bp) < 1e-8
    assert found.log_z.value == pytest.approx(bp.log_z.value, abs=1e-8)
    value = bethe(graph, found.marginals.flat, found.factor_marginals.flat)
    assert found.log_z.value == pytest.approx(-value, abs=1e-7)


def test_all_solvers_meet_in_one_fixed_point():
    model = grid(4)
    answers = [credo.infer(model, f"gbp(solver={s})", tol=1e-11) for s in SOLVERS]
    for other in answers[1:]:
        assert error(answers[0], other) < 1e-9
        assert answers[0].log_z.value == pytest.approx(other.log_z.value, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_faces_are_far_better_than_belief_propagation_on_weak_grids(seed):
    model = grid(3, seed=seed)
    exact = credo.infer(model, "junction-tree")
    assert error(credo.infer(model, "gbp"), exact) < error(credo.infer(model, "bp"), exact) / 50


@pytest.mark.parametrize(("w", "limit"), [(0.5, 1e-4), (1.0, 5e-3)])
def test_ten_by_ten_grids_are_as_accurate_as_published(w, limit):
    for seed in range(3):
        model = grid(10, w=w, seed=seed)
        exact, found = credo.infer(model, "junction-tree"), credo.infer(model, "gbp")
        assert found.status is Status.CONVERGED
        assert error(found, exact) < limit


@pytest.mark.parametrize("w", [0.5, 1.5, 4.0])
@pytest.mark.parametrize("seed", range(2))
def test_the_free_energy_never_rises_in_the_double_loop(w, seed):
    with pytest.warns(ConvergenceWarning):
        found = credo.infer(grid(6, w=w, seed=seed), "gbp(solver=double-loop)", tol=0, max_iter=60)
    energies = found.trace["free_energy"]
    assert len(energies) == len(found.trace["change"]) == 60
    assert np.diff(energies).max() <= 1e-10 * abs(energies[0])
    assert energies[0] - energies[-1] > 1e-3
    assert found.log_z.value == pytest.approx(-energies[-1], abs=1e-12)


def test_the_double_loop_converges_where_messages_and_the_single_loop_do_not():
    model = grid(10, w=3.0, seed=1)
    for solver in ("messages", "single-loop"):
        with pytest.warns(ConvergenceWarning, match="gbp: "):
            assert not credo.infer(model, f"gbp(solver={solver})", max_iter=600).converged
    found = credo.infer(model, "gbp", tol=1e-5)
    assert found.status is Status.CONVERGED
    assert any(
        re.search(r"the single loop still changed by .* after 500 passes", note) for note in found.notes
    )
    assert "free_energy" in found.trace


def test_log_z_is_the_region_free_energy():
    model = grid(4)
    found = credo.infer(model, "gbp(solver=single-loop)", tol=1e-11)
    from credo.inference.messages.region_plan import RegionTables, plan_of
    from credo.inference.problem.base import Problem

    graph = model.to_factor_graph()
    plan = plan_of(graph, "auto", 2**12)
    tables = RegionTables(Problem(graph, np.ones(16), np.zeros(16, dtype=np.int64)), plan)
    cut = plan.table_start[1:-1]
    value = region_based(np.split(np.exp(found.state.logs), cut), plan.counting, np.split(tables.theta, cut))
    assert found.log_z.value == pytest.approx(-value, abs=1e-10)


@pytest.mark.parametrize("regions", REGIONS)
@pytest.mark.parametrize("problem", TREES, ids=lambda c: c.id)
def test_trees_are_exact_with_every_choice_of_regions(problem: Case, regions: str):
    for kind in ("none", "several"):
        evidence = problem.evidences.get(kind, {})
        truth = Oracle(problem, evidence)
        try:
            found = credo.infer(problem.graph, f"gbp(regions={regions})", evidence=evidence)
        except UnsupportedError:
            assert regions == "star"
            return
        assert found.log_z.value == pytest.approx(truth.log_z, rel=1e-9, abs=1e-7)
        for name in problem.names:
            np.testing.assert_allclose(found.marginals[name], truth.joint([name]), rtol=0, atol=1e-7)


@pytest.mark.filterwarnings("ignore::credo.core.errors.ConvergenceWarning")
@pytest.mark.parametrize("regions", [r for r in REGIONS if r != "auto"])
@pytest.mark.parametrize("problem", [c for c in ZOO if not c.is_tree], ids=lambda c: c.id)
def test_every_choice_of_regions_gives_finite_answers_on_the_zoo(problem: Case, regions: str):
    try:
        found = credo.infer(problem.graph, f"gbp(regions={regions})", max_iter=100)
    except UnsupportedError:
        assert regions in ("star", "faces", "all-faces")
        return
    assert np.isfinite(found.log_z.value)
    assert np.isfinite(found.marginals.flat).all()
    sums = [table.sum() for table in found.factor_marginals]
    np.testing.assert_allclose(sums, 1, atol=1e-9)


@pytest.mark.parametrize(
    "options", ["damping=0.3", "damping_domain=linear", "schedule=top-down", "schedule=random"]
)
def test_damping_and_schedule_do_not_move_the_fixed_point(options):
    model = grid(3)
    plain = credo.infer(model, "gbp(solver=messages)", tol=1e-11)
    other = credo.infer(model, f"gbp(solver=messages, {options})", tol=1e-11, seed=3)
    assert error(plain, other) < 1e-9


def test_undamped_messages_that_run_away_are_not_called_converged():
    with pytest.warns(ConvergenceWarning, match="gbp: "):
        found = credo.infer(grid(3, w=0.2), "gbp(solver=messages, damping=0, schedule=random)", seed=0)
    assert found.status is Status.DIVERGED
    assert np.isfinite(found.marginals.flat).all()


def test_disconnected_parts_and_isolated_variables():
    table = np.array([[3.0, 1.0], [1.0, 2.0]])
    pairs = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("b", "d"), ("p", "q"), ("q", "r")]
    graph = FactorGraph(dict.fromkeys("abcdpqrz", 2) | {"one": 1}, {p: table for p in pairs})
    exact, found = credo.infer(graph, "enumerate"), credo.infer(graph, "gbp", tol=1e-12)
    assert error(found, exact) < 1e-10
    assert found.log_z.value == pytest.approx(exact.log_z.value, abs=1e-10)


def test_regions_can_be_given_by_name():
    model = grid(2, 3)
    squares = [["x0", "x1", "x3", "x4"], ["x1", "x2", "x4", "x5"]]
    found = credo.infer(model, f"gbp(regions={squares})")
    assert error(found, credo.infer(model, "enumerate")) < 1e-12


def test_evidence_that_contradicts_the_model_is_named():
    graph = FactorGraph(
        {"a": 2, "b": 2, "c": 2}, {p: np.eye(2) for p in (("a", "b"), ("b", "c"), ("c", "a"))}
    )
    with pytest.raises(ZeroProbabilityError, match="the evidence has probability zero"):
        credo.infer(graph, "gbp(regions=bethe)", evidence={"a": 0, "b": 1})
    never = FactorGraph({"a": 2, "b": 2}, {"a": [1, 0], ("a", "b"): [[0, 0], [1, 1]]})
    with pytest.raises(ZeroProbabilityError, match="every configuration weight zero"):
        credo.infer(never, "gbp")


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_contradiction_between_regions_is_found(solver):
    # An odd number of "different" factors around a loop leaves no joint state; no single region knows.
    different = 1 - np.eye(2)
    factors = {("a", "b"): different, ("b", "c"): different, ("c", "d"): different, ("d", "a"): np.eye(2)}
    graph = FactorGraph(dict.fromkeys("abcd", 2), factors | {"a": [1, 0]})
    with pytest.raises(ZeroProbabilityError, match="every configuration weight zero"):
        credo.infer(graph, f"gbp(regions=bethe, solver={solver})")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("gbp(regions=squares)", "regions must be one of"),
        ("gbp(regions=3)", "regions: expected a name or lists of variable names, got 3"),
        ("gbp(solver=newton)", "solver must be one of"),
        ("gbp(damping=1)", r"damping must be in \[0, 1\), got 1"),
        ("gbp(damping_domain=sqrt)", "damping_domain must be one of"),
        ("gbp(schedule=flooding)", "schedule must be one of"),
        ("gbp(max_entries=2)", "max_entries must be at least 8, got 2"),
    ],
)
def test_wrong_options_are_refused(spec, message):
    with pytest.raises(OptionError, match=message):
        credo.infer(grid(2), spec)


def test_maxima_and_queries_are_refused_in_a_sentence():
    with pytest.raises(UnsupportedError, match="it gives marginals and log Z, and the question asks for MAP"):
        credo.infer(grid(2), "gbp", maximise="all")
    with pytest.raises(UnsupportedError, match="the question asks for joint tables"):
        credo.query(grid(2), "x0", method="gbp")


def test_regions_that_do_not_fit_are_refused():
    model = credo.datasets.ising_grid(4, 7)
    with pytest.raises(TooLargeError, match=r"gbp: the region tables need .* entries, more than"):
        credo.infer(model, f"gbp(regions={[list(model.variables.names)]})")


@pytest.mark.parametrize("solver", ["auto", *SOLVERS])
def test_a_warm_start_goes_on_where_the_earlier_run_ended(solver):
    spec, model = f"gbp(solver={solver})", grid(4)
    first = credo.infer(model, spec, tol=1e-9)
    again = credo.infer(model, spec, tol=1e-9, warm_start=first)
    assert len(again.trace["change"]) < len(first.trace["change"]) / 4
    assert error(first, again) < 1e-7
    zeros = case("grid with zeros").graph
    once = credo.infer(zeros, spec)
    assert error(credo.infer(zeros, spec, warm_start=once), once) < 1e-7


def test_a_warm_start_from_elsewhere_is_refused():
    first = credo.infer(grid(4), "gbp")
    with pytest.raises(QueryError, match="expected the result of gbp with the same kind of solver"):
        credo.infer(grid(4), "gbp(solver=messages)", warm_start=first)
    with pytest.raises(QueryError, match=r"expected multipliers of \d+ entries, got \d+; start from a run"):
        credo.infer(grid(5), "gbp", warm_start=first)


def test_kernels_give_the_same_uncompiled():
    model = grid(2, 3)
    state = credo.infer(model, "gbp(solver=single-loop, regions=bethe)").state
    logs = np.log(np.random.default_rng(0).dirichlet(np.ones(4)))
    start, theta = np.array([0, 4]), np.arange(4.0)
    args = (np.array([2]), start, theta, logs)
    assert kernel.free_energy(*args) == pytest.approx(kernel.free_energy.py_func(*args))
    out, same = np.empty(2), np.empty(2)
    for function, into in (
        (kernel._log_marginal_carefully, out),
        (kernel._log_marginal_carefully.py_func, same),
    ):
        function(logs, 4, 0, np.array([0, 1, 0, 1]), 2, into)
    np.testing.assert_allclose(out, same)
    np.testing.assert_allclose(out, np.log(np.exp(logs).reshape(2, 2).sum(axis=0)))
    assert np.isfinite(state.logs).all()
