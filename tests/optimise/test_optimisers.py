"""Descent on functions whose minimum is known, and the statuses."""

from __future__ import annotations

import numpy as np
import pytest

from credo.core.result import Status
from credo.optimise.optimisers import LBFGS, SGD, Adam, Loss, Optimiser, Subgradient
from credo.optimise.run import Budget


def rosenbrock(w):
    a, b = w[:-1], w[1:]
    value = float((100 * (b - a**2) ** 2 + (1 - a) ** 2).sum())
    gradient = np.zeros_like(w)
    gradient[:-1] += -400 * a * (b - a**2) - 2 * (1 - a)
    gradient[1:] += 200 * (b - a**2)
    return value, gradient


def quadratic(scales, centre):
    return lambda w: (0.5 * float((scales * (w - centre) ** 2).sum()), scales * (w - centre))


class Seen:
    """An optimiser that keeps the values of its places."""

    def __init__(self, optimiser):
        self.optimiser, self.name, self.values = optimiser, optimiser.name, []

    def limits(self, budget):
        return self.optimiser.limits(budget)

    def begin(self, loss, start):
        return self._kept(self.optimiser.begin(loss, start))

    def advance(self, loss, state, run):
        return self._kept(self.optimiser.advance(loss, state, run))

    def _kept(self, step):
        self.values += [step.state[0].value] * len(step.residuals)
        return step


def run(optimiser, function, start, l1=0.0, **budget):
    """Status, weights, and the values on the way."""
    loss = Loss(function, lambda: iter([function]), l1)
    seen = Seen(optimiser)
    w, status = Optimiser.minimise(seen, loss, np.array(start, float), Budget(**budget))
    return status, w, np.array(seen.values)


@pytest.mark.parametrize("size", [2, 10, 50])
def test_lbfgs_finds_the_end_of_a_curved_valley_and_never_rises(size):
    status, w, values = run(LBFGS(), rosenbrock, np.full(size, -1.2), max_iter=2000, tol=1e-8)
    assert status is Status.CONVERGED
    # From here there are two minima for some sizes; both have no slope.
    assert np.abs(rosenbrock(w)[1]).max() <= 1e-8
    assert (np.diff(values) <= 1e-12 * np.maximum(1, np.abs(values[1:]))).all()
    if size != 10:
        assert w == pytest.approx(np.ones(size), abs=1e-6) or values[-1] < 4


def test_lbfgs_survives_scales_of_six_orders():
    scales = np.logspace(-2, 4, 12)
    status, w, _ = run(LBFGS(), quadratic(scales, 3.0), np.zeros(12), max_iter=5000, tol=1e-6)
    assert status is Status.CONVERGED
    assert w == pytest.approx(np.full(12, 3.0), abs=1e-3)


@pytest.mark.parametrize(
    ("optimiser", "tol"),
    [
        (LBFGS(), 1e-9),
        (Adam(rate=0.05, decay=0.01), 1e-9),
        (SGD(rate=0.3), 1e-13),
        (SGD(rate=0.05, momentum=0.9), 1e-13),
    ],
)
def test_absolute_values_shrink_and_give_exact_zeros(optimiser, tol):
    """The minimum of s/2 (w - c)^2 + l |w| is the soft threshold of c by l / s."""
    scales, centre = np.array([1.0, 2.0, 1.0, 0.5]), np.array([2.0, -1.0, 0.3, -0.1])
    status, w, values = run(
        optimiser, quadratic(scales, centre), np.array([-1.0, 1.0, 1.0, -1.0]), 0.5, max_iter=5000, tol=tol
    )
    expected = np.sign(centre) * np.maximum(np.abs(centre) - 0.5 / scales, 0)
    assert status is Status.CONVERGED
    assert w == pytest.approx(expected, abs=1e-3)
    assert (w[2:] == 0).all()
    if isinstance(optimiser, LBFGS):
        assert (np.diff(values) <= 0).all()


def test_a_gradient_that_is_not_that_of_the_value_is_a_stall():
    def wrong(w):
        value, gradient = quadratic(np.ones(3), 1.0)(w)
        return value, -gradient

    status, _, _ = run(LBFGS(), wrong, np.zeros(3), max_iter=50, tol=1e-8)
    assert status is Status.STALLED
    assert "no step improves any more" in status.advice
    assert not status.is_success


@pytest.mark.parametrize("optimiser", [LBFGS(), SGD(), Adam()])
def test_numbers_that_are_none_end_the_run(optimiser):
    status, _, _ = run(optimiser, lambda w: (np.nan, w), np.ones(2), max_iter=5, tol=0)
    assert status is Status.DIVERGED


@pytest.mark.parametrize("optimiser", [LBFGS(), SGD(), Adam()])
def test_budgets_end_the_run(optimiser):
    start = np.full(4, -1.2)
    assert run(optimiser, rosenbrock, start * 0.1, max_iter=2, tol=0)[0] is Status.OUT_OF_ITERATIONS
    found = run(optimiser, rosenbrock, start * 0.1, max_iter=20, tol=0, seconds=0.0)[0]
    assert found is Status.OUT_OF_TIME


def test_a_start_without_slope_is_the_end():
    status, w, values = run(LBFGS(), quadratic(np.ones(2), 1.0), np.ones(2), max_iter=10, tol=1e-8)
    assert (status, len(values)) == (Status.CONVERGED, 1)
    assert w == pytest.approx(np.ones(2))


def test_subgradients_keep_the_lowest_place_of_a_function_with_kinks():
    def kinked(w):
        return float(3 * np.abs(w - 1.0).sum() + 0.5 * w @ w), 3 * np.sign(w - 1.0) + w

    steps = Subgradient(rate=0.3, decay=0.1)
    values = []

    def watched(w):
        found = kinked(w)
        values.append(found[0])
        return found

    w, _ = steps.minimise(Loss(watched), np.array([3.0, -2.0]), Budget(400, 1e-9))
    assert kinked(w)[0] == min(values)
    assert kinked(w)[0] == pytest.approx(1.0, abs=0.3)  # at w = 1
    assert (np.diff(values) > 0).any()
