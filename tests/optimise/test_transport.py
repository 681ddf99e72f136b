"""Transport: exact plans, entropic plans, their duals, slopes and refusals."""

import warnings

import numpy as np
import pytest
from scipy.optimize import linprog

import credo
from credo.core.errors import ConvergenceError, ConvergenceWarning, DataError, OptionError, UnsupportedError
from credo.core.result import Status

RNG = np.random.default_rng(3)
X, Y = RNG.normal(size=(5, 2)), RNG.normal(size=(4, 2)) + 0.5
A, B = RNG.dirichlet(np.ones(5)), RNG.dirichlet(np.ones(4))
M = np.abs(X[:, None] - Y[None]).sum(axis=2)
WAYS = [{"memory": "stored"}, {"memory": "chunks"}]


def entropic(epsilon, **options):
    return credo.transport(cost=M, weights=(A, B), epsilon=epsilon, tol=1e-13, **options)


def test_an_exact_plan_solves_the_linear_program():
    found = credo.transport(cost=M, weights=(A, B))
    rows = [np.repeat(np.eye(5), 4, axis=1), np.tile(np.eye(4), 5)]
    best = linprog(M.ravel(), A_eq=np.concatenate(rows), b_eq=np.concatenate([A, B]))
    assert found.cost == pytest.approx(best.fun, abs=1e-9)
    assert found.status is Status.EXACT and abs(found.gap) < 1e-9
    assert np.allclose(found.plan.sum(axis=1), A) and np.allclose(found.plan.sum(axis=0), B)


def test_an_assignment_has_potentials_that_prove_it():
    found = credo.transport(RNG.normal(size=(30, 3)), RNG.normal(size=(30, 3)))
    alpha, beta = found.potentials
    slack = found.costs.block(slice(0, 30)) - alpha[:, None] - beta
    assert slack.min() > -1e-9 and abs(found.gap) < 1e-9


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("epsilon", [5.0, 0.3, 0.02])
def test_marginals_are_met_and_the_corrected_dual_meets_the_value(epsilon, way):
    found = entropic(epsilon, **way)
    assert found.marginal_error < 1e-8
    assert np.abs(found.plan.sum(axis=1) - A).sum() + np.abs(found.plan.sum(axis=0) - B).sum() < 1e-8
    assert abs(found.gap) < 1e-8


def test_the_dual_without_its_correction_misses_the_value_by_epsilon():
    found = entropic(0.3)
    alpha, beta = found.potentials
    printed = A @ alpha + B @ beta - 0.3 * found.plan.sum()
    assert found.value - printed == pytest.approx(0.3, abs=1e-9)


def test_little_entropy_gives_the_exact_plan_and_much_of_it_independence():
    assert entropic(1e-3).cost == pytest.approx(credo.transport(cost=M, weights=(A, B)).cost, abs=1e-3)
    assert np.allclose(entropic(1e4).plan, np.outer(A, B), atol=1e-4)


def test_the_value_may_be_negative_and_that_of_a_set_with_itself_is_not_zero():
    assert entropic(5.0).value < 0
    assert credo.transport(X, X, epsilon=0.5).cost > 0.05
    assert entropic(5.0).value >= M.min() - 5.0 * (-(A @ np.log(A)) - B @ np.log(B))


def test_centred_potentials_are_slopes_in_the_weights():
    found, step = entropic(0.3), 1e-6
    for side in (0, 1):
        for j in range(len(found.weights[side])):
            values = []
            for sign in (1, -1):
                pushed = [A.copy(), B.copy()]
                way = -np.ones(len(pushed[side])) / len(pushed[side])
                way[j] += 1.0
                pushed[side] += sign * step * way
                values.append(credo.transport(cost=M, weights=tuple(pushed), epsilon=0.3, tol=1e-13).value)
            slope = (values[0] - values[1]) / (2 * step)
            assert found.gradients[side][j] == pytest.approx(slope, abs=1e-6)


def test_the_slope_in_the_columns_as_it_is_printed_has_another_size_and_sign():
    found = entropic(0.3)
    log_u = found.potentials[0] / 0.3
    printed = log_u.mean() / 0.3 - log_u / 0.3
    assert np.abs(printed[:4] - found.gradients[1]).max() > 0.1


@pytest.mark.parametrize("cost", ["euclidean", "squared"])
def test_the_slope_in_the_points_takes_the_plan_as_a_constant(cost):
    def value(x):
        return credo.transport(x, Y, cost=cost, epsilon=0.3, tol=1e-13)

    found, step = value(X), 1e-5
    moved = np.zeros_like(X)
    for i, k in np.ndindex(X.shape):
        d = np.zeros_like(X)
        d[i, k] = step
        moved[i, k] = (value(X + d).value - value(X - d).value) / (2 * step)
        through = (value(X + d).cost - value(X - d).cost) / (2 * step)  # the plan moves with the points
        if (i, k) == (0, 0):
            assert abs(through - found.gradient_x[i, k]) > 1e-3
    assert np.allclose(found.gradient_x, moved, atol=1e-7)


def test_tiny_entropy_is_stable_in_both_precisions_and_newton_steps_end_it():
    x, y = RNG.normal(size=(120, 2)), RNG.normal(size=(100, 2)) + 1.0
    found = credo.transport(x, y, epsilon=1e-3, max_iter=30_000)
    assert found.converged and found.marginal_error < 1e-8 and abs(found.gap) < 1e-8
    single = credo.transport(x, y, epsilon=1e-3, precision="single", tol=1e-4, max_iter=30_000)
    assert single.converged and single.marginal_error < 2e-4
    assert single.cost == pytest.approx(found.cost, abs=1e-3)
    chunks = credo.transport(x, y, epsilon=1e-2, memory="chunks", tol=1e-6)
    assert chunks.cost == pytest.approx(credo.transport(x, y, epsilon=1e-2, tol=1e-6).cost, abs=1e-6)


@pytest.mark.parametrize("way", [*WAYS, {"precision": "single", "tol": 1e-5}])
def test_far_points_and_costs_of_any_size_do_not_overflow(way):
    x = np.concatenate([RNG.normal(size=(10, 1)), RNG.normal(size=(10, 1)) + 1e4])
    found = credo.transport(x, x[::-1] + 3.0, epsilon=0.5, max_iter=20_000, **{"tol": 1e-6, **way})
    assert np.isfinite(found.cost) and found.converged


def test_points_without_mass_take_no_part():
    weights = np.array([0.5, 0.0, 0.5, 0.0, 0.0]), np.array([0.0, 0.25, 0.75, 0.0])
    for epsilon in (0.0, 0.1):
        found = credo.transport(cost=M, weights=weights, epsilon=epsilon)
        assert np.allclose(found.plan[1], 0) and np.allclose(found.plan.sum(axis=0), weights[1], atol=1e-8)
        assert abs(found.gap) < 1e-8
    assert np.isneginf(found.potentials[0][1])


def test_one_point_on_either_side_is_a_product():
    found = credo.transport([[0.0]], [[3.0], [4.0]], epsilon=0.1)
    assert found.plan[0] == pytest.approx([0.5, 0.5]) and found.cost == pytest.approx(3.5)


def test_a_shift_of_a_cloud_costs_its_length_and_noise_no_more_than_its_deviation():
    x = RNG.normal(size=(200, 3))
    assert credo.transport(x, x + np.array([3.0, 0.0, 4.0])).cost == pytest.approx(5.0)
    noise = 0.1 * RNG.normal(size=x.shape)
    assert credo.transport(x, x + noise, cost="squared").cost <= (noise**2).sum(axis=1).mean() + 1e-12


def test_rows_are_pushed_to_the_mean_of_what_they_are_moved_to():
    found = credo.transport(X, X[::-1] + 7.0)
    assert np.allclose(found.push(found.costs.y), X + 7.0)


def test_schedules_lead_to_the_same_plan():
    plain = entropic(0.05, schedule="none", max_iter=50_000)
    assert np.allclose(plain.plan, entropic(0.05, schedule=[1.0, 0.2]).plan, atol=1e-9)


def test_a_run_that_is_cut_warns_and_answers_with_its_error():
    with pytest.warns(ConvergenceWarning, match="max_iter was reached"):
        found = credo.transport(X, Y, epsilon=0.01, max_iter=3)
    assert found.status is Status.OUT_OF_ITERATIONS and found.marginal_error > 1e-3
    with pytest.raises(ConvergenceError, match="max_iter"):
        credo.transport(X, Y, epsilon=0.01, max_iter=3, strict=True)


def test_a_function_of_ones_own_is_a_cost():
    found = credo.transport(X, Y, cost=lambda x, y: np.abs(x[:, None] - y[None]).sum(axis=2), epsilon=0.3)
    assert found.cost == pytest.approx(credo.transport(cost=M, epsilon=0.3).cost)
    with pytest.raises(UnsupportedError, match="gradient_x: expected points with cost"):
        _ = found.gradient_x


def test_it_prints_what_was_found():
    assert "Transport of 5 to 4 points (epsilon 0.3)" in str(entropic(0.3))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"x": X}, "expected two clouds of points, got one"),
        ({"x": X, "y": Y[:, :1]}, "points of one dimension, got 2 and 1"),
        ({"x": X, "y": Y, "cost": M}, "or a matrix alone"),
        ({"cost": "euclidean"}, "expected points, or a matrix of costs"),
        ({"x": X, "y": Y * np.nan}, "y: expected finite numbers, got nan"),
        (
            {"x": X, "y": Y, "cost": lambda x, y: np.full((5, 4), np.inf)},
            "cost: expected finite numbers, got inf",
        ),
        (
            {"x": X, "y": Y, "cost": lambda x, y: M.T},
            r"expected a matrix of shape \(5, 4\) from the function",
        ),
        ({"cost": M, "weights": (A[:3], None)}, "weights a: expected 5 numbers"),
        ({"cost": M, "weights": (None, 2 * B)}, "weights b: expected a sum of 1, got 2; divide by it"),
        ({"cost": M, "weights": (None, np.array([1.5, -0.5, 0, 0]))}, "of at least 0, got -0.5"),
    ],
)
def test_impossible_data_are_refused(arguments, sentence):
    with pytest.raises(DataError, match=sentence):
        credo.transport(**arguments)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"cost": "manhattan"}, r"cost: expected one of \['euclidean', 'squared'\]"),
        ({"epsilon": -0.1}, "epsilon must be at least 0, got -0.1"),
        ({"epsilon": 0.1, "memory": "disk"}, "memory must be one of"),
        ({"epsilon": 0.1, "precision": "half"}, "precision must be one of"),
        ({"epsilon": 0.1, "schedule": [0.2, 0.3]}, "schedule: expected decreasing values above epsilon=0.1"),
    ],
)
def test_impossible_options_are_refused(options, sentence):
    with pytest.raises(OptionError, match=sentence):
        credo.transport(X, Y, **options)


def test_an_exact_program_that_is_too_large_names_the_way_out():
    with pytest.raises(credo.core.errors.TooLargeError, match="give epsilon above 0"):
        credo.transport(np.zeros(3000), np.zeros(2999))


def test_a_clock_ends_a_run_with_what_it_has():
    x = RNG.normal(size=(300, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = credo.transport(x, x + 1.0, epsilon=1e-5, seconds=0.2, max_iter=10**7, memory="chunks")
    assert found.status in (Status.OUT_OF_TIME, Status.CONVERGED) and np.isfinite(found.cost)
