"""L-BFGS as a state: where it ends, that it can be cut anywhere and goes on with the same bits."""

from __future__ import annotations

import signal

import numpy as np
import pytest

from credo.core.result import Status
from credo.optimise.driver import Step, drive
from credo.optimise.lbfgs import Descent, Point, advance, descend
from credo.optimise.run import Budget

SCALES = np.array([1.0, 10.0, 100.0])
BOTTOM = np.array([1.0, -2.0, 3.0])


def bowl(x):
    """A convex quartic with its bottom at `BOTTOM`."""
    away = x - BOTTOM
    return float((SCALES * away**2 + away**4).sum()), 2 * SCALES * away + 4 * away**3


class Down:
    """Drives the descent; `during` is called with the number of each evaluation."""

    name = "down"

    def __init__(self, function=bowl, during=lambda call: None, first=(0.0, 0.0, 0.0)):
        self.function, self.during, self.first, self.calls = function, during, np.array(first), 0

    def watched(self, x):
        self.calls += 1
        self.during(self.calls)
        return self.function(x)

    def start(self, problem, run):
        return Step(Descent(Point.at(self.function, self.first)))

    def advance(self, problem, state, run):
        step = advance(self.watched, state)
        return step._replace(trace={"value": [step.state.here.value]} if step.residuals else None)

    def read(self, problem, outcome):
        return outcome


def test_it_finds_the_bottom_and_every_step_is_lower():
    found = drive(Down(), None, Budget(tol=1e-8))
    here = found.state.here
    assert found.status is Status.CONVERGED and here.steepness < 1e-8
    np.testing.assert_allclose(here.w, BOTTOM, atol=1e-8)
    assert (np.diff(found.trace["value"]) <= 0).all()
    assert (here.value, here.steepness) == (bowl(here.w)[0], np.abs(bowl(here.w)[1]).max())


@pytest.mark.parametrize("search", ["wolfe", "halving"])
@pytest.mark.parametrize("l1", [0.0, 0.5])
def test_a_descent_goes_on_from_its_state_with_the_same_bits(search, l1):
    def after(state, steps):
        for _ in range(steps):
            state = descend(bowl, state, l1, search=search) or state
        return state

    first = Descent(Point.at(bowl, np.zeros(3), l1))
    whole, half = after(first, 9), after(first, 4)
    copy = Descent(Point(*(np.array(x) if isinstance(x, np.ndarray) else x for x in half.here)), half.pairs)
    np.testing.assert_array_equal(after(copy, 5).here.w, whole.here.w)
    assert len(half.pairs.moves) == 4


def test_what_else_a_function_says_is_kept_with_the_point():
    state = descend(lambda x: (*bowl(x), x.sum()), Descent(Point.at(bowl, np.zeros(3))))
    assert state.here.more == (state.here.w.sum(),)


def test_the_memory_is_bounded():
    state = Descent(Point.at(bowl, np.zeros(3)))
    for _ in range(8):
        state = descend(bowl, state, memory=3) or state
    assert len(state.pairs.moves) == len(state.pairs.turns) == 3


@pytest.mark.parametrize("first", [BOTTOM, np.zeros(0)])
def test_at_the_bottom_there_is_nothing_to_do(first):
    def function(x):
        return bowl(x) if len(x) else (0.0, x)

    found = drive(Down(function, first=first), None, Budget(tol=1e-8))
    assert found.status is Status.CONVERGED and not any(found.residuals)


def test_where_there_is_no_number_the_line_search_comes_back():
    def edge(x):
        with np.errstate(invalid="ignore", divide="ignore"):
            return float(x[0] - np.log(x[0])), 1 - 1 / x

    found = drive(Down(edge, first=[1e-3]), None, Budget(tol=1e-8))
    assert found.state.here.w[0] == pytest.approx(1.0, abs=1e-8)


def test_a_slope_that_is_none_of_the_value_is_a_stall_after_one_search():
    work = Down(lambda x: (bowl(x)[0], -bowl(x)[1]))
    found = drive(work, None, Budget(tol=1e-8))
    assert found.status is Status.STALLED and found.residuals == []


def test_a_slope_with_a_constant_error_ends_the_descent_instead_of_creeping():
    error = np.array([1e-3, 1e-3, 0.0])
    work = Down(lambda x: (bowl(x)[0], bowl(x)[1] + error))
    found = drive(work, None, Budget(max_iter=1000, tol=1e-8))
    assert found.status in (Status.STALLED, Status.CONVERGED) and work.calls < 300
    assert (np.diff(found.trace["value"]) <= 1e-13).all()


@pytest.mark.parametrize("times", [1, 2])
def test_signals_leave_the_last_whole_step(times):
    def press(call):
        for _ in range(times if call == 4 else 0):
            signal.raise_signal(signal.SIGINT)

    found = drive(Down(during=press), None, Budget(tol=0.0))
    assert found.status is Status.INTERRUPTED and len(found.residuals) < 10
    assert found.state.here.value == bowl(found.state.here.w)[0] < bowl(np.zeros(3))[0]
