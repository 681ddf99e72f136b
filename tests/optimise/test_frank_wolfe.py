"""Frank-Wolfe against closed forms, linear programs and its own certificate."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment, linprog

from credo.core.errors import OptionError
from credo.core.result import Status
from credo.optimise.driver import drive
from credo.optimise.frank_wolfe import FrankWolfe, Polytope
from credo.optimise.run import Budget


def corner(slope, block):
    return np.eye(len(slope))[slope.argmin()]


def onto_simplex(goal):
    """The nearest point of the simplex, by sorting."""
    ordered = np.sort(goal)[::-1]
    level = (np.cumsum(ordered) - 1) / np.arange(1, len(goal) + 1)
    return np.maximum(goal - level[np.flatnonzero(ordered > level)[-1]], 0)


def quadratic(seed, n=8):
    """A strongly convex quadratic on the simplex whose minimum lies inside a face."""
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((n, n))
    H, c = root @ root.T + 0.1 * np.eye(n), rng.standard_normal(n)
    return Polytope(
        lambda x: (float(0.5 * x @ H @ x + c @ x), H @ x + c),
        corner,
        np.eye(n)[0],
        curvature=lambda x, d: float(d @ H @ d),
    )


def nearest(goal, oracle=corner, first=None, **options):
    first = np.eye(len(goal))[0] if first is None else first
    options.setdefault("curvature", lambda x, d: float((d * d).sum()))
    return Polytope(lambda x: (0.5 * float(((x - goal) ** 2).sum()), x - goal), oracle, first, **options)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("options", [{}, {"curvature": None}, {"curvature": None, "search": "halving"}])
def test_the_nearest_point_of_a_simplex_is_found(seed, options):
    goal = np.random.default_rng(seed).normal(0, 0.3, 6)
    found = drive(FrankWolfe(away=True), nearest(goal, **options), Budget(2000, 1e-7))
    assert found.status is Status.CONVERGED
    np.testing.assert_allclose(found.state.x.w, onto_simplex(goal), atol=1e-3)
    assert (np.diff(found.trace["value"]) <= 1e-12).all()


@pytest.mark.parametrize("away", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_gap_bounds_the_distance_to_the_lowest_value_at_every_step(seed, away):
    problem = quadratic(seed)
    lowest = drive(FrankWolfe(away=True), problem, Budget(5000, 1e-13)).state.value
    found = drive(FrankWolfe(away=away), problem, Budget(200, 1e-9))
    values, gaps = np.array(found.trace["value"]), np.array(found.trace["gap"])
    assert (values - lowest <= gaps + 1e-12).all() and found.state.bound <= lowest + 1e-12
    assert gaps.tolist() == found.residuals


def test_away_steps_converge_linearly_and_plain_ones_do_not():
    problem = quadratic(1)
    needed = {}
    for away in (False, True):
        for tol in (1e-3, 1e-6, 1e-9):
            found = drive(FrankWolfe(away=away), problem, Budget(20000, tol))
            needed[away, tol] = len(found.residuals)
    first, second = (needed[True, b] - needed[True, a] for a, b in ((1e-3, 1e-6), (1e-6, 1e-9)))
    assert second <= 2 * first + 5 and needed[True, 1e-9] < 1000
    assert needed[False, 1e-9] > 10 * needed[True, 1e-9]


def test_active_vertices_make_up_the_place():
    found = drive(FrankWolfe(away=True), quadratic(0), Budget(300, 1e-10))
    (active,) = found.state.active
    assert sum(active.weights) == pytest.approx(1) and min(active.weights) > 0
    mixed = sum(w * v for w, v in zip(active.weights, active.vertices, strict=True))
    np.testing.assert_allclose(mixed, found.state.x.w, atol=1e-12)
    assert len({v.tobytes() for v in active.vertices}) == len(active.vertices)


def matching(slope, block):
    rows, columns = linear_sum_assignment(slope)
    vertex = np.zeros_like(slope)
    vertex[rows, columns] = 1.0
    return vertex


def test_a_linear_function_on_the_transport_polytope_is_a_linear_program():
    cost = np.random.default_rng(0).random((4, 4))
    linear = Polytope(lambda x: (float((cost * x).sum()), cost), matching, np.eye(4))
    found = drive(FrankWolfe(), linear, Budget(10, 1e-12))
    sums = np.array([np.kron(np.eye(4), np.ones(4)), np.kron(np.ones(4), np.eye(4))]).reshape(8, 16)
    truth = linprog(cost.ravel(), A_eq=sums, b_eq=np.ones(8))
    assert found.status is Status.CONVERGED and found.state.value == pytest.approx(truth.fun, abs=1e-9)


def test_the_nearest_doubly_stochastic_matrix_is_optimal_among_all_matchings():
    goal = np.random.default_rng(1).random((4, 4))
    found = drive(FrankWolfe(away=True), nearest(goal, matching, np.eye(4)), Budget(2000, 1e-9))
    x = found.state.x.w
    np.testing.assert_allclose([x.sum(axis=0), x.sum(axis=1)], 1.0, atol=1e-12)
    # The multipliers of the row and column sums make the slope zero where x is positive.
    alternating = goal - np.add.outer(goal.mean(axis=1), goal.mean(axis=0)) + goal.mean() + 0.25
    if (alternating >= 0).all():
        np.testing.assert_allclose(x, alternating, atol=1e-4)
    assert found.residuals[-1] < 1e-9


def spanning_tree(slope, block):
    """Kruskal on the complete graph over four nodes, cheapest edges first."""
    edges, group = list(combinations(range(4), 2)), list(range(4))
    vertex = np.zeros(6)
    for e in np.argsort(slope, kind="stable"):
        a, b = (group[i] for i in edges[e])
        if a != b:
            vertex[e], group = 1.0, [b if g == a else g for g in group]
    return vertex


def test_even_appearance_in_spanning_trees_is_found():
    first = spanning_tree(np.arange(6.0), 0)
    found = drive(FrankWolfe(away=True), nearest(np.zeros(6), spanning_tree, first), Budget(2000, 1e-10))
    np.testing.assert_allclose(found.state.x.w, 0.5, atol=1e-4)


def several(seed, blocks=5, n=4):
    """A quadratic that couples the simplices of its rows."""
    rng = np.random.default_rng(seed)
    A, b = rng.standard_normal((6, blocks * n)), rng.standard_normal(6)

    def function(x):
        left = A @ x.ravel() - b
        return float(left @ left / 2), (A.T @ left).reshape(x.shape)

    return {
        "function": function,
        "oracle": corner,
        "first": np.tile(np.eye(n)[0], (blocks, 1)),
        "blocks": blocks,
        "curvature": lambda x, d: float(((A @ d.ravel()) ** 2).sum()),
    }


@pytest.mark.parametrize("away", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_blocks_reach_the_optimum_and_its_gap_is_that_of_one_place(seed, away):
    problem, tol = Polytope(**several(seed)), 1e-8 if away else 1e-2
    found = drive(FrankWolfe(away=away), problem, Budget(2000, tol), np.random.default_rng(0))
    assert found.status is Status.CONVERGED
    exact = sum(problem.best(found.state.x, k)[1] for k in range(5))
    assert found.residuals[-1] == pytest.approx(exact) and exact < tol
    assert found.state.bound == pytest.approx(found.state.value - exact)
    assert (np.diff(found.trace["value"]) <= 1e-12).all()
    np.testing.assert_allclose(found.state.x.w.sum(axis=1), 1.0, atol=1e-12)
    assert found.state.done == 5 * len(found.residuals)


def test_open_steps_are_the_averages_that_are_known():
    """With 2 / (t + 2) from the first step the start is forgotten; with a delay it is not."""
    goal = np.array([0.5, 0.3, 0.2])
    once = drive(FrankWolfe(steps="open"), nearest(goal), Budget(1, 0.0)).state.x.w
    assert once.tolist() == corner(np.eye(3)[0] - goal, 0).tolist()
    later = drive(FrankWolfe(steps="open", delay=1), nearest(goal), Budget(1, 0.0)).state.x.w
    assert later.tolist() == pytest.approx([1 / 3, 2 / 3, 0.0])
    found = drive(FrankWolfe(steps="open"), nearest(goal), Budget(3000, 0.0))
    np.testing.assert_allclose(found.state.x.w, goal, atol=2e-3)


def test_a_run_goes_on_from_its_state_with_the_same_bits():
    whole = drive(FrankWolfe(away=True), quadratic(2), Budget(20, 0.0)).state
    half = drive(FrankWolfe(away=True), quadratic(2), Budget(9, 0.0)).state
    rest = drive(FrankWolfe(away=True), quadratic(2), Budget(11, 0.0), state=half).state
    np.testing.assert_array_equal(rest.x.w, whole.x.w)
    assert rest.done == whole.done


def test_restarts_keep_the_lowest_value():
    algorithm = FrankWolfe()
    low, high = (drive(algorithm, quadratic(0), Budget(k, 0.0)).state for k in (30, 2))
    assert algorithm.value(low) > algorithm.value(high)


def test_options_are_checked():
    with pytest.raises(OptionError, match="steps must be one of"):
        FrankWolfe(steps="other")
    with pytest.raises(OptionError, match="delay must be at least 0"):
        FrankWolfe(delay=-1)
