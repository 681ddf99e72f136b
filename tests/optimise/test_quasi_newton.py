"""Quasi-Newton ascent: where it ends, and what is left of it when somebody cuts it."""

from __future__ import annotations

import signal

import numpy as np
import pytest

from credo.core.result import Status
from credo.optimise.driver import Step, drive
from credo.optimise.quasi_newton import ascend
from credo.optimise.run import Budget, Run

SCALES = np.array([1.0, 10.0, 100.0])
TOP = np.array([1.0, -2.0, 3.0])


def hill(x):
    """A concave quartic with its top at `TOP`."""
    away = x - TOP
    return -float((SCALES * away**2 + away**4).sum()), -(2 * SCALES * away + 4 * away**3)


def climbed(x, **budget):
    with Run(Budget(**budget)) as run:
        return ascend(hill, x, run)


def test_it_finds_the_top_and_every_step_is_higher():
    x = np.zeros(3)
    steps = climbed(x, tol=1e-8)
    np.testing.assert_allclose(x, TOP, atol=1e-6)
    assert steps.is_flat and not steps.is_stuck
    assert len(steps.values) == len(steps.slopes) and (np.diff(steps.values) >= 0).all()
    assert steps.values[-1] == hill(x)[0] and steps.slopes[-1] == np.abs(hill(x)[1]).max()


def test_the_steps_are_counted():
    x = np.zeros(3)
    steps = climbed(x, max_iter=2, tol=0.0)
    assert len(steps.values) == 2 and not steps.is_flat and steps.values[-1] == hill(x)[0]


def test_at_the_top_there_is_nothing_to_do():
    steps = climbed(TOP.copy(), tol=1e-8)
    assert steps.values == [] and steps.is_flat


def test_where_there_is_no_number_the_line_search_comes_back():
    x = np.array([1e-3])

    def edge(x):
        with np.errstate(invalid="ignore", divide="ignore"):
            return float(np.log(x[0]) - x[0]), 1 / x - 1

    with Run(Budget(tol=1e-8)) as run:
        ascend(edge, x, run)
    assert x[0] == pytest.approx(1.0, abs=1e-6)


def test_a_slope_that_is_none_of_the_value_leaves_it_stuck():
    with Run(Budget(tol=1e-8)) as run:
        steps = ascend(lambda x: (hill(x)[0], -hill(x)[1]), np.zeros(3), run)
    assert steps.is_stuck and not steps.is_flat


class Climb:
    """Drives the ascent; `during` is called with the number of each evaluation."""

    name = "climb"

    def __init__(self, during):
        self.during, self.calls = during, 0

    def start(self, problem, run):
        return Step(np.zeros(3))

    def advance(self, problem, state, run):
        def watched(x):
            self.calls += 1
            self.during(self.calls)
            return hill(x)

        steps = ascend(watched, state, run)
        return Step(state, steps.slopes, {"value": steps.values})

    def read(self, problem, outcome):
        return outcome


def test_a_signal_ends_it_after_the_step():
    work = Climb(lambda call: signal.raise_signal(signal.SIGINT) if call == 4 else None)
    found = drive(work, None, Budget(tol=0.0), whole=False)
    assert found.status is Status.INTERRUPTED and 1 <= len(found.residuals) < 10
    assert found.trace["value"][-1] == hill(found.state)[0]


def test_two_signals_cut_it_and_the_last_step_is_kept():
    def twice(call):
        if call == 6:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    found = drive(Climb(twice), None, Budget(tol=0.0), whole=False)
    assert found.status is Status.INTERRUPTED and hill(found.state)[0] > hill(np.zeros(3))[0]


def test_no_time_ends_it_after_one_step():
    found = drive(Climb(lambda call: None), None, Budget(tol=0.0, seconds=0.0), whole=False)
    assert found.status is Status.OUT_OF_TIME and len(found.residuals) == 1
