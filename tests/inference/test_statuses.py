"""What searches, bounds and messages say about why they stopped."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo.core.errors import ConvergenceWarning
from credo.core.result import Status
from credo.inference.portfolio.bracket import _Race
from credo.inference.portfolio.question import pose
from credo.inference.portfolio.race import Runner, entrants
from credo.optimise.run import Budget, Run

QUIET = pytest.mark.filterwarnings("ignore::credo.core.errors.ConvergenceWarning")


def frustrated(size=6, seed=0):
    return credo.datasets.ising_grid(size, coupling="normal(scale=2)", field="normal(scale=0.1)", seed=seed)


def test_a_local_search_without_gain_is_stalled():
    with pytest.warns(ConvergenceWarning, match="local-search: no step improves"):
        found = credo.infer(frustrated(), "local-search(patience=2,block=0)", maximise="all", seed=0)
    assert found.status is Status.STALLED and not found.converged


@pytest.mark.parametrize("tol", [0.0, 1e-8])
def test_decimation_has_converged_when_every_variable_is_decided(tol):
    found = credo.infer(frustrated(), "decimation", maximise="all", tol=tol, seed=0)
    assert found.status is Status.CONVERGED
    assert found.trace["decided"][-1] == 36 and (np.diff(found.trace["decided"]) > 0).all()


@QUIET
def test_decimation_that_is_cut_has_not_converged():
    found = credo.infer(frustrated(), "decimation", maximise="all", max_iter=1, seed=0)
    assert found.status is Status.OUT_OF_ITERATIONS


def test_the_linear_program_has_converged_where_prices_prove_its_value():
    found = credo.infer(frustrated(), "lp", maximise="all")
    assert found.status is Status.CONVERGED and found.notes == ("the relaxation is fractional",)


def test_a_race_in_which_nobody_can_go_on_is_stalled():
    _, problem = pose(frustrated(3), None, "all")
    with Run(Budget(seconds=5.0), np.random.default_rng(0)) as run:
        race = _Race(problem, 0.0, 1.0, run)
        race.runners = [Runner(entrant, 0.1) for entrant in entrants(problem)]
        for runner in race.runners:
            runner.is_out = True
        assert race.go_on() is Status.STALLED


@QUIET
@pytest.mark.parametrize("method", ["bp", "bp(damping=0.3)"])
def test_messages_that_need_more_sweeps_have_not_diverged(method):
    grid = credo.datasets.ising_grid(4, coupling="normal(scale=8)", field="normal(scale=2)", seed=0)
    found = [credo.infer(grid, method, max_iter=count) for count in range(1, 60)]
    assert {f.status for f in found} == {Status.OUT_OF_ITERATIONS, Status.CONVERGED}
    assert all(np.isfinite(f.trace["change"]).all() for f in found)


@QUIET
@pytest.mark.parametrize("method", ["bp", "fractional-bp", "gbp(solver=messages)"])
def test_damping_does_not_make_a_slow_step_look_like_a_small_change(method):
    """The residual is the change without damping: it says how far a fixed point is, whatever the damping."""
    grid = credo.datasets.ising_grid(5, coupling="normal(scale=0.5)", seed=0)
    joined = method[:-1] + ", " if method.endswith(")") else method + "("
    errors = []
    for damping in (0.5, 0.98):
        found = credo.infer(grid, f"{joined}damping={damping})", tol=1e-4, max_iter=5000)
        settled = credo.infer(grid, f"{joined}damping=0.5)", tol=1e-12, max_iter=5000)
        assert found.status is Status.CONVERGED
        errors.append(np.abs(found.marginals.flat - settled.marginals.flat).max())
    assert max(errors) < 1e-3
