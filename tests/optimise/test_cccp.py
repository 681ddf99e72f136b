"""CCCP on functions whose stationary points are known."""

from __future__ import annotations

import numpy as np
import pytest

from credo.core.errors import OptionError
from credo.core.result import Status
from credo.optimise import lbfgs
from credo.optimise.cccp import CCCP, Inner, lower
from credo.optimise.driver import UNKNOWN, Step, drive
from credo.optimise.lbfgs import Descent, Point
from credo.optimise.run import Budget

DEPTH = np.array([1.0, 4.0, 0.25])


class Wells:
    """sum_k x_k^4 / 4 - DEPTH_k x_k^2 / 2: minima at every choice of signs of sqrt(DEPTH)."""

    def __init__(self, first, tilt=1.0):
        self.first, self.tilt = np.array(first), tilt

    def begin(self):
        return self.first

    def value(self, x):
        return float((x**4 / 4 - DEPTH * x**2 / 2).sum())

    def bound(self, x):
        """The concave part by its tangent; with a tilt other than one it is none."""
        slope, level = -self.tilt * DEPTH * x, -float((DEPTH * x**2).sum()) / 2

        def function(y):
            return float((y**4).sum() / 4 + level + slope @ (y - x)), y**3 + slope

        return function, x

    def place(self, state):
        return state.here.w

    def change(self, old, new):
        return float(np.abs(new - old).max())


class Solver:
    """L-BFGS on the convex problem."""

    name = "solver"
    calls = 0

    def start(self, bound, run):
        return Step(Descent(Point.at(*bound)))

    def advance(self, bound, state, run):
        self.calls += 1
        return lbfgs.advance(bound[0], state)


def test_convex_problems_lie_above_the_function_and_touch_it():
    wells, rng = Wells(np.ones(3)), np.random.default_rng(0)
    for _ in range(50):
        x, y = rng.standard_normal((2, 3))
        function, _ = wells.bound(x)
        assert function(y)[0] >= wells.value(y) - 1e-12
        assert function(x)[0] == pytest.approx(wells.value(x))


@pytest.mark.parametrize("steps", [1, 5, 500])
@pytest.mark.parametrize("first", [[0.1, 0.1, 0.1], [-3.0, 0.2, 5.0]])
def test_the_wells_are_reached_and_the_value_never_rises(first, steps):
    wells = Wells(first)
    found = drive(CCCP(solver=Solver(), inner=Inner(steps)), wells, Budget(500, 1e-7))
    assert found.status is Status.CONVERGED
    np.testing.assert_allclose(found.state.x, np.sign(first) * np.sqrt(DEPTH), atol=1e-5)
    values = [wells.value(np.array(first)), *found.trace["value"]]
    assert (np.diff(values) <= 1e-12).all() and found.state.value == values[-1]


def test_few_steps_of_the_solver_are_enough_where_the_function_fell():
    little, whole = Solver(), Solver()
    wells = Wells([0.1, 0.1, 0.1])
    lower(wells, little, wells.first, wells.value(wells.first), Inner(2))
    lower(wells, whole, wells.first, -np.inf, Inner(2, 2000, 1e-9))
    assert little.calls == 2 < whole.calls


def test_a_function_that_does_not_fall_keeps_its_place():
    wells = Wells([1.0, 2.0, 0.5], tilt=3.0)  # at the minimum, with tangents that are none
    found = drive(CCCP(solver=Solver()), wells, Budget(50, 1e-9))
    assert found.status is Status.STALLED and found.residuals == []
    assert found.state.x.tolist() == [1.0, 2.0, 0.5]


def test_work_goes_on_where_the_fall_is_small_and_a_change_that_is_unknown_is_no_convergence():
    class Blind(Wells):
        def change(self, old, new):
            return 0.0 if self.value(new) < self.value(old) else UNKNOWN

    little, more = Solver(), Solver()
    wells = Blind([0.1, 0.1, 0.1])
    lower(wells, little, wells.first, wells.value(wells.first), Inner(1))
    lower(wells, more, wells.first, wells.value(wells.first), Inner(1, fall=0.5))
    assert little.calls < more.calls
    found = drive(CCCP(solver=Solver()), Blind([1.0, 2.0, 0.5]), Budget(50, 1e-6))
    assert found.status is Status.STALLED


def test_at_a_stationary_point_it_has_converged():
    found = drive(CCCP(solver=Solver()), Wells([1.0, 2.0, 0.5]), Budget(50, 1e-6))
    assert found.status is Status.CONVERGED and len(found.residuals) <= 1


def test_a_step_that_is_cut_leaves_the_place_before():
    class Slow(Solver):
        def advance(self, bound, state, run):
            step = super().advance(bound, state, run)
            if self.calls == 7:
                run.root.note(2)
            return step

    wells = Wells([0.1, 0.1, 0.1])
    found = drive(CCCP(solver=Slow(), inner=Inner(3)), wells, Budget(500, 1e-9))
    assert found.status is Status.INTERRUPTED and len(found.residuals) == 2
    assert found.state.value == wells.value(found.state.x) == found.trace["value"][-1]


def test_restarts_keep_the_lowest_value_and_options_are_checked():
    algorithm = CCCP(solver=Solver())
    first = algorithm.start(Wells([1.0, 2.0, 0.5]), None).state
    assert algorithm.value(first) > algorithm.value(first._replace(value=first.value + 1))
    for inner, says in [(Inner(0), "steps must be at least 1"), (Inner(1, 0), "most must be at least 1")]:
        with pytest.raises(OptionError, match=says):
            CCCP(solver=Solver(), inner=inner)
    with pytest.raises(OptionError, match="solved must be at least 0"):
        CCCP(solver=Solver(), inner=Inner(solved=-1.0))
