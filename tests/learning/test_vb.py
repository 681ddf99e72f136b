"""The loop of variational Bayes: monotone or stopped, interrupted, restarted."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from credo.core.result import Status
from credo.inference.problem.base import Budget
from credo.learning.em_data import Expected
from credo.learning.em_steps import EMStart, EMSteps, run_em
from credo.learning.vb_steps import Prunable, PruningSteps


class Curve(Prunable):
    """Free energies given in advance; an exception among them is raised."""

    rows = 1.0

    def __init__(self, values, monotone=True):
        self.values, self.monotone = values, monotone

    def start(self, rng, number):
        return EMStart(number)

    def expect(self, q):
        value = self.values[q] if q < len(self.values) else self.values[-1]
        if isinstance(value, type):
            raise value
        return Expected(value + 1.0, q)

    def log_prior(self, q):
        return -1.0

    def maximise(self, statistics, q):
        assert statistics == q
        return q + 1

    def is_monotone(self):
        return self.monotone

    def movement(self, q, new):
        return float(new < len(self.values))

    def sizes(self, q, statistics):
        return np.empty(0)

    def fewer(self, q, kept):
        return None


def climb(values, monotone=True, restarts=1, seconds=None):
    budget = Budget(max_iter=10, tol=1e-6, seconds=seconds)
    return run_em(Curve(values, monotone), budget, np.random.default_rng(0), name="vb", restarts=restarts)


def test_it_converges_when_the_parameters_rest():
    best = climb([-5.0, -3.0, -2.0])
    assert best.status is Status.CONVERGED
    assert best.objective == [-5.0, -3.0, -2.0, -2.0] and best.values.tolist() == [-2.0]


@pytest.mark.parametrize("values", [[-5.0, -3.0, -4.0], [-5.0, -3.0, np.nan], [-5.0, np.inf]])
def test_a_fall_or_a_number_that_is_none_ends_the_run_as_diverged(values):
    assert climb(values).status is Status.DIVERGED


def test_an_approximate_e_step_may_let_it_fall():
    best = climb([-5.0, -3.0, -3.5, -3.2], monotone=False)
    assert best.status is Status.CONVERGED


def test_ctrl_c_returns_what_was_found():
    best = climb([-5.0, -3.0, KeyboardInterrupt], restarts=3)
    assert best.status is Status.INTERRUPTED and best.value == -3.0 and best.parameters == 1


def test_the_best_of_several_starts_is_kept_and_time_ends_them():
    best = climb([-5.0, -4.0, -3.0, -3.0], restarts=3)
    assert best.value == -3.0 and len(best.values) == 3
    best = climb([-5.0, -4.0, -3.0, -2.0, -1.0], restarts=3, seconds=0.0)
    assert best.status is Status.OUT_OF_TIME and len(best.values) == 1


def test_pruning_keeps_what_ends_higher_only():
    """Components 0, 1, 2 with 5, 0, 3 rows; F is given by the set that is left."""
    values = {(0, 1, 2): -10.0, (0, 2): -9.0, (0,): -12.0, (2,): -13.0}

    class Sets(Prunable):
        rows = 1.0

        def start(self, rng, number):
            return EMStart((0, 1, 2))

        def expect(self, q):
            return Expected(values[q], None)

        def log_prior(self, q):
            return 0.0

        def maximise(self, statistics, q):
            return q

        def movement(self, q, new):
            return 0.0

        def sizes(self, q, statistics):
            return np.array([rows[k] for k in q])

        def fewer(self, q, kept):
            return tuple(q[i] for i in kept)

    rows = {0: 5.0, 1: 0.0, 2: 3.0}
    for how, left in (("unused", (0, 2)), ("search", (0, 2)), (None, (0, 1, 2))):
        kind = EMSteps if how is None else partial(PruningSteps, prune=how)
        best = run_em(Sets(), Budget(9, 1e-6, None), np.random.default_rng(0), name="vb", kind=kind)
        assert best.parameters == left and best.status is Status.CONVERGED
        assert best.objective == ([-10.0] * 2 if how is None else [-10.0] * 2 + [-9.0] * 2)
