"""The driver: budgets, clocks, signals, restarts and observers of a small iteration."""

from __future__ import annotations

import signal
import threading
import time

import numpy as np
import pytest

from credo.core.result import Status
from credo.optimise.driver import UNKNOWN, Outcome, Step, drive
from credo.optimise.run import Budget, Run, Stopped, check, current_run


class Halving:
    """x <- x / 2, from 1 for the first start, 2 for the second, ...; the answer is 0."""

    name = "halving"

    def __init__(self, at_once=1, during=None, start=None):
        self.at_once, self.during, self.first = at_once, during, start
        self.calls = 0

    def start(self, problem, run):
        if self.first is not None:
            self.first()
        return Step(float(1 + run.number), trace={"x": [float(1 + run.number)]})

    def advance(self, problem, state, run):
        self.calls += 1
        if self.during is not None:
            self.during(self.calls)
        found = []
        for _ in range(min(self.at_once, run.count)):
            state /= 2
            found.append(state)
        return Step(state, found, {"x": found})

    def read(self, problem, outcome):
        return outcome

    def value(self, state):
        return -state


def test_it_converges_where_the_residual_vanishes():
    found = drive(Halving(), None, Budget(tol=1e-3))
    assert found.status is Status.CONVERGED and found.last < 1e-3 <= found.residuals[-2]
    assert found.trace["x"] == [1.0, *found.residuals]


@pytest.mark.parametrize("at_once", [1, 3, 1000])
def test_how_many_steps_come_at_once_does_not_matter(at_once):
    found = drive(Halving(at_once), None, Budget(max_iter=7, tol=0.0))
    assert found.status is Status.OUT_OF_ITERATIONS and len(found.residuals) == 7


def test_no_steps_are_an_answer_too():
    found = drive(Halving(), None, Budget(max_iter=0))
    assert found.status is Status.OUT_OF_ITERATIONS and found.state == 1.0 and found.last == UNKNOWN


@pytest.mark.parametrize("residual", [np.inf, np.nan])
def test_what_is_not_finite_has_diverged(residual):
    class Bad(Halving):
        def advance(self, problem, state, run):
            return Step(state, [residual])

    assert drive(Bad(), None, Budget()).status is Status.DIVERGED


def test_an_algorithm_may_say_that_it_is_done():
    class Proven(Halving):
        def advance(self, problem, state, run):
            return Step(state, [1.0], status=Status.OPTIMAL)

    assert drive(Proven(), None, Budget()).status is Status.OPTIMAL


def test_the_clock_ends_a_run_and_no_time_is_an_answer():
    slow = Halving(during=lambda _: time.sleep(0.002))
    assert drive(slow, None, Budget(tol=0.0, seconds=0.02)).status is Status.OUT_OF_TIME
    assert 1 <= slow.calls < 100
    assert drive(Halving(), None, Budget(tol=0.0, seconds=0.0)).status is Status.OUT_OF_TIME


def test_the_best_of_several_starts_is_read():
    found = drive(Halving(), None, Budget(max_iter=2, tol=0.0), restarts=3)
    assert found.number == 0 and found.values == [-0.25, -0.5, -0.75]


def test_a_start_that_is_cut_leaves_the_best_before_it():
    def late(call):
        if call == 3:
            signal.raise_signal(signal.SIGINT)

    found = drive(Halving(during=late), None, Budget(max_iter=2, tol=0.0), restarts=3)
    assert found.number == 0 and found.status is Status.INTERRUPTED and len(found.values) == 2


def test_a_later_start_that_never_begins_leaves_the_best_before_it():
    calls = []

    def second():
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt

    found = drive(Halving(start=second), None, Budget(max_iter=2, tol=0.0), restarts=3)
    assert found.number == 0 and found.status is Status.INTERRUPTED and found.values == [-0.25]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_noted_and_the_step_finished(number, monkeypatch):
    monkeypatch.setattr(Run, "is_leaving", False)
    before = signal.getsignal(number)
    work = Halving(during=lambda call: signal.raise_signal(number) if call == 3 else None)
    found = drive(work, None, Budget(tol=0.0))
    assert found.status is Status.INTERRUPTED and len(found.residuals) == 3
    assert signal.getsignal(number) == before
    assert Run.is_leaving == (number == signal.SIGTERM)


def test_after_sigterm_the_next_call_ends_the_process(monkeypatch):
    monkeypatch.setattr(Run, "is_leaving", True)
    with pytest.raises(SystemExit) as left:
        drive(Halving(), None, Budget())
    assert left.value.code == 143


def test_the_second_signal_cuts_the_step_and_the_state_before_it_answers():
    def twice(call):
        if call == 2:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    found = drive(Halving(during=twice), None, Budget(tol=0.0))
    assert found.status is Status.INTERRUPTED and found.state == 0.5


def test_check_stops_long_work_inside_a_step():
    def work(call):
        if call == 2:
            signal.raise_signal(signal.SIGINT)
            check()

    found = drive(Halving(during=work), None, Budget(tol=0.0))
    assert found.status is Status.INTERRUPTED and found.state == 0.5


def test_a_signal_before_there_is_anything_is_a_keyboard_interrupt_with_a_sentence():
    def start():
        signal.raise_signal(signal.SIGINT)
        check()

    with pytest.raises(KeyboardInterrupt, match="stopped before there was anything to answer with"):
        drive(Halving(start=start), None, Budget())


def test_the_clock_does_not_stop_a_start():
    def start():
        time.sleep(0.01)
        check()

    assert drive(Halving(start=start), None, Budget(seconds=0.0)).status is Status.OUT_OF_TIME


class Outer(Halving):
    """Each step drives one inside."""

    def __init__(self, inner, **options):
        super().__init__(**options)
        self.inner, self.inside = inner, []

    def advance(self, problem, state, run):
        self.inside.append(drive(self.inner, None, Budget(tol=0.0, max_iter=10**6)))
        return super().advance(problem, state, run)


def test_a_run_inside_ends_with_the_one_around_it_and_the_last_whole_state_answers():
    inner = Halving(during=lambda _: time.sleep(0.001))
    began = time.perf_counter()
    found = drive(Outer(inner), None, Budget(tol=0.0, seconds=0.05))
    assert time.perf_counter() - began < 5
    assert found.status is Status.OUT_OF_TIME and found.state == 1.0


def test_where_parts_count_the_run_inside_returns_what_it_has():
    inner = Halving(during=lambda _: time.sleep(0.001))
    outer = Outer(inner)
    found = drive(outer, None, Budget(tol=0.0, seconds=0.05), whole=False)
    assert found.status is Status.OUT_OF_TIME and found.state == 0.5
    assert outer.inside[0].status is Status.OUT_OF_TIME


def test_one_signal_ends_all_runs_around_it():
    inner = Halving(during=lambda call: signal.raise_signal(signal.SIGINT) if call == 5 else None)
    found = drive(Outer(inner), None, Budget(tol=0.0))
    assert found.status is Status.INTERRUPTED and found.state == 1.0 and inner.calls == 5


def test_handlers_of_others_are_left_alone():
    heard = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    try:
        found = drive(
            Halving(during=lambda call: signal.raise_signal(signal.SIGINT) if call == 2 else None),
            None,
            Budget(max_iter=5, tol=0.0),
        )
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [1] and found.status is Status.OUT_OF_ITERATIONS


def test_other_threads_run_without_handlers():
    found = []
    thread = threading.Thread(target=lambda: found.append(drive(Halving(), None, Budget(tol=1e-3))))
    thread.start()
    thread.join()
    assert found[0].status is Status.CONVERGED


def test_observers_see_steps_and_may_stop():
    seen = []

    def watch(iteration, view):
        seen.append((iteration, view.outcome.state, view.result().last))
        if len(seen) == 2:
            view.stop()

    slow = Halving(during=lambda _: time.sleep(0.06))
    found = drive(slow, None, Budget(tol=0.0), on_step=watch)
    assert found.status is Status.INTERRUPTED and len(seen) == 2
    assert seen[0] == (1, 0.5, 0.5) and seen[1][0] > 1


def test_outside_of_runs_check_does_nothing():
    assert current_run() is None
    check()
    with Run(Budget(seconds=0.0)) as run:
        time.sleep(0.001)
        assert run.left == 0.0 and run.elapsed > 0 and isinstance(run.ended(), Status)
        with pytest.raises(Stopped):
            check()
    assert current_run() is None


def test_outcomes_take_steps():
    outcome = Outcome(None)
    outcome.take(Step(1, [0.5], {"a": [3]}))
    outcome.take(Step(2, [0.25], {"a": [4]}, Status.STALLED))
    assert (outcome.state, outcome.residuals, outcome.trace) == (2, [0.5, 0.25], {"a": [3, 4]})
    assert outcome.ended is Status.STALLED


def test_an_observer_given_to_a_call_sees_the_first_run_inside():
    seen = []
    with Run(Budget(), whole=False, on_step=lambda i, view: seen.append(i)), Run(Budget(), whole=False):
        drive(Halving(), None, Budget(max_iter=3, tol=0.0))
        drive(Halving(), None, Budget(max_iter=3, tol=0.0))
    assert seen == [1]


def test_a_run_is_given_no_more_time_than_the_run_around_it():
    with Run(Budget(seconds=5.0)) as outer:
        assert outer.given == pytest.approx(5.0)
        assert Run(Budget()).given <= 5.0 and Run(Budget(seconds=2.0)).given == pytest.approx(2.0)
    with Run(Budget(seconds=0.0), whole=False):
        assert Run(Budget(seconds=2.0)).given == 0.0
    assert Run(Budget()).given == np.inf
