"""Second derivatives of the dual decomposition bound, Newton steps, and the conditions of a minimum."""

import numpy as np
import pytest

import credo
from credo.core.errors import ConvergenceWarning, TooLargeError, UnsupportedError
from credo.inference.bounds import gdd_newton
from credo.inference.bounds.gdd_newton import kkt_residual
from credo.inference.bounds.gdd_plan import make_plan
from credo.inference.problem.base import Problem
from credo.kernels.gdd import gradient, shift_tables
from credo.kernels.gdd_hessian import region_hessian, shift_hessian
from inference.gdd_models import random_graph, truth_of

pytestmark = pytest.mark.filterwarnings("ignore::credo.core.errors.ConvergenceWarning")


def point(rng, plan, problem):
    """Random shifts, and random weights that sum to the temperatures."""
    weight = rng.random(len(plan.axis_size)) + 0.1
    total = np.bincount(plan.axis_variable, weight, minlength=len(problem.temperatures))
    weight *= problem.temperatures[plan.axis_variable] / total[plan.axis_variable]
    return rng.normal(size=plan.n_shifts), weight


def slopes(plan, base, shifts, weight):
    tables, found = np.empty_like(base), np.empty(plan.n_shifts)
    shift_tables(plan.separators, plan.edges, plan.maps, base, shifts, tables)
    gradient(
        plan.regions, plan.separators, plan.edges, plan.maps, plan.axis_size, weight, tables, found,
        np.zeros(len(weight)),
    )  # fmt: skip
    return found, tables


@pytest.mark.parametrize("ibound", [0, 2])
def test_second_derivatives_are_differences_of_first_ones_and_vanish_along_constants(ibound):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        graph = random_graph(rng, n=4)
        heats = rng.uniform(0.3, 1.5, 4)
        problem = Problem(graph, heats, np.zeros(4, dtype=np.int64))
        plan = make_plan(problem, ibound)
        base = plan.tables(problem)[0]
        shifts, weight = point(rng, plan, problem)
        tables = slopes(plan, base, shifts, weight)[1]
        found = shift_hessian(
            plan.regions, plan.separators, plan.edges, plan.maps, plan.axis_size, weight, tables
        )
        h, steps = 1e-5, np.eye(plan.n_shifts)
        expected = [
            (slopes(plan, base, shifts + h * e, weight)[0] - slopes(plan, base, shifts - h * e, weight)[0])
            / (2 * h)
            for e in steps
        ]
        np.testing.assert_allclose(found, np.array(expected).reshape(found.shape), atol=2e-8)
        assert np.linalg.eigvalsh(found).min(initial=0.0) > -1e-12
        owner = np.concatenate(
            [
                np.repeat(np.arange(row[4], row[5]), row[1])
                for row in plan.separators
            ]
            or [np.empty(0)]
        )  # fmt: skip
        for edge in np.unique(owner):
            np.testing.assert_allclose(found @ (owner == edge), 0.0, atol=1e-12)


def test_equal_weights_give_the_covariance_of_indicators():
    rng = np.random.default_rng(0)
    table = rng.normal(size=6)
    p = np.exp(table / 0.7) / np.exp(table / 0.7).sum()
    found = region_hessian(table, [2, 3], np.full(2, 0.7), np.eye(6))
    np.testing.assert_allclose(found, (np.diag(p) - np.outer(p, p)) / 0.7, atol=1e-14)


def test_zeros_of_tables_have_no_curvature():
    table = np.array([0.0, -np.inf, 1.0, -np.inf])
    found = region_hessian(table, [2, 2], np.array([0.5, 1.0]), np.eye(4))
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found[[1, 3]], 0.0)


def grid(seed, n=3):
    rng = np.random.default_rng(seed)
    names = [[f"v{i}{j}" for j in range(n)] for i in range(n)]
    pairs = [(names[i][j], names[i][j + 1]) for i in range(n) for j in range(n - 1)]
    pairs += [(names[i][j], names[i + 1][j]) for i in range(n - 1) for j in range(n)]
    tables = {pair: np.exp(1.5 * rng.normal(size=(2, 2))) for pair in pairs}
    return credo.MarkovNet({name: 2 for row in names for name in row}, tables)


def test_newton_steps_reach_the_minimum_of_the_joint_descent_in_few_steps():
    model = grid(0)
    options = "ibound=0, weights=uniform, fixed_weights=true"
    newton = credo.infer(model, f"gdd(updates=newton, {options})", tol=1e-9)
    joint = credo.infer(model, f"gdd(updates=joint, {options})", tol=1e-9, max_iter=500)
    assert newton.converged and len(newton.trace["bound"]) < 20
    assert newton.trace["change"][-1] < 1e-9
    assert newton.log_z.value == pytest.approx(joint.log_z.value, abs=1e-7)


def test_weights_move_too_and_every_sweep_bounds_the_truth_and_never_rises():
    for task in ({}, {"maximise": "all"}, {"maximise": ["v00", "v11"]}):
        model = grid(1)
        truth = credo.infer(model, "junction-tree", **task).log_z.value
        found = credo.infer(model, "gdd(updates=newton, ibound=0)", max_iter=30, **task)
        bounds = found.trace["bound"]
        assert (np.diff(bounds) <= 0).all() and found.trace["raw"].min() >= truth - 1e-9
        if not task:
            fixed = credo.infer(model, "gdd(updates=newton, ibound=0, fixed_weights=true)", max_iter=30)
            assert found.log_z.value < fixed.log_z.value - 1e-3


def test_the_residual_is_what_the_conditions_of_a_minimum_lack():
    rng = np.random.default_rng(3)
    graph = grid(3, n=2).to_factor_graph()
    problem = Problem(graph, np.ones(4), np.zeros(4, dtype=np.int64))
    plan = make_plan(problem, 0)
    base, constant = plan.tables(problem)
    shifts, weight = point(rng, plan, problem)
    first, tables = slopes(plan, base, shifts, weight)
    assert kkt_residual(plan, weight, tables, 0.0, free=False) == pytest.approx(np.abs(first).max())
    assert kkt_residual(plan, weight, tables, 0.0, free=True) >= np.abs(first).max()
    assert constant + gdd_newton._slopes(plan, weight, tables, first, np.zeros(len(weight))) >= truth_of(
        problem
    )


def test_on_a_tree_only_the_floor_of_the_weights_is_left():
    model = credo.MarkovNet({"a": 2, "b": 2}, {("a", "b"): [[1, 2], [3, 1]]})
    gaps = [
        credo.infer(model, f"gdd(updates=newton, ibound=0, floor={floor})", max_iter=300).log_z.value
        - np.log(7)
        for floor in (0.02, 0.002)
    ]
    assert 0 < 5 * gaps[1] < gaps[0] < 0.01


def test_sharp_maxima_and_large_models_are_refused(monkeypatch):
    model = grid(0)
    with pytest.raises(UnsupportedError, match="updates=newton needs smooth maxima; leave out smooth=false"):
        credo.infer(model, "gdd(updates=newton, smooth=false)", maximise="all")
    monkeypatch.setattr(gdd_newton, "_MOST", 10)
    with pytest.raises(TooLargeError, match=r"expected at most 10 shifts, .* got 48; use updates=passes"):
        credo.infer(model, "gdd(updates=newton, ibound=0)")


def test_the_joint_descent_stops_where_the_conditions_hold():
    found = credo.infer(grid(2), "gdd(updates=joint, ibound=0, fixed_weights=true)", tol=1e-3)
    assert found.converged and 0 < found.trace["change"][-1] < 1e-3
    with pytest.warns(ConvergenceWarning):
        assert not credo.infer(grid(2), "gdd(updates=joint, ibound=0)", max_iter=2).converged
