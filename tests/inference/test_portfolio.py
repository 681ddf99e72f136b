"""The portfolio as a method: MAP and marginal MAP of wide models, with a bound, within the time given."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

import credo
from conformance.oracle import Oracle
from credo.core.errors import ConvergenceError, ConvergenceWarning, OptionError, UnsupportedError
from credo.core.result import Status
from credo.estimators import GraphCRF
from credo.inference.portfolio import bracket, maximum
from credo.inference.portfolio import choose as rule
from credo.inference.portfolio.race import Entrant
from zoo import ZOO

GRID = credo.datasets.ising_grid(12, coupling="normal(scale=1)", field="normal(scale=0.1)", seed=0)
ATTRACTIVE = credo.datasets.ising_grid(45, coupling=0.4, field="normal(scale=0.5)", seed=0)


@pytest.fixture
def nothing_fits(monkeypatch):
    """Exact inference is forecast to take too long."""
    monkeypatch.setattr(rule, "_MINUTE", 3.0)
    monkeypatch.setattr(bracket, "fitting", lambda *_: None)


def quietly(*args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return credo.infer(*args, **{"seed": 0, **kwargs})


def test_the_best_states_of_a_wide_model_come_from_the_portfolio_and_beat_max_product(nothing_fits):
    best = credo.infer(GRID, "junction-tree", maximise="all").score.value
    found, messages = quietly(GRID, maximise="all", seconds=0.5), quietly(GRID, "bp", maximise="all")
    assert found.algorithm == "portfolio"
    assert messages.score.value < found.score.value <= best + 1e-9 <= found.log_z.value + 2e-9
    assert found.score.value == pytest.approx(GRID.to_factor_graph().log_score(found.assignment))
    assert re.fullmatch(
        r"chosen: portfolio, searches and bounds in turn \(junction-tree would need width \d+, .*\)",
        found.notes[0],
    )
    assert re.fullmatch(r"states by \S.*, bound by \S.*", found.notes[1])
    assert found.gap == pytest.approx(found.log_z.value - found.score.value)
    for side, sign in (("score", 1), ("bound", -1)):
        values = sign * found.trace[side]
        assert len(values) and (np.diff(values) >= 0).all()


def test_a_proof_ends_the_run_whatever_time_is_left(monkeypatch):
    monkeypatch.setattr(maximum, "_SECONDS", 1e6)
    found = credo.infer(ATTRACTIVE, maximise="all", seed=0)
    assert (found.algorithm, found.status, found.log_z.kind) == ("portfolio", Status.OPTIMAL, "exact")
    assert found.score.value == credo.infer(ATTRACTIVE, "graph-cut", maximise="all").score.value


def test_without_seconds_it_takes_those_of_the_method(nothing_fits, monkeypatch):
    monkeypatch.setattr(maximum, "_SECONDS", 0.1)
    found = quietly(GRID, maximise="all")
    assert found.algorithm == "portfolio"
    assert found.status in (Status.OUT_OF_TIME, Status.OPTIMAL)


def test_a_run_out_of_time_says_how_far_the_bound_is_and_what_to_do(nothing_fits):
    says = r"portfolio: the bound is [\d.]+ above the score; raise seconds"
    with pytest.raises(ConvergenceError, match=says):
        credo.infer(GRID, maximise="all", seconds=0.0, seed=0, strict=True)


def test_where_no_method_gains_more_it_says_so(nothing_fits, monkeypatch):
    monkeypatch.setattr(bracket, "entrants", lambda problem: [Entrant(("gaussian",))])
    says = r"the bound is [\d.]+ above the score; no method of the portfolio closes more of it"
    with pytest.warns(ConvergenceWarning, match=says):
        assert credo.infer(GRID, maximise="all", seed=0).status is Status.STALLED


def test_no_turn_at_all_answers_with_one_state():
    found = quietly(GRID, "portfolio", maximise="all", max_iter=0)
    assert found.status is Status.OUT_OF_ITERATIONS
    assert found.score.value <= found.log_z.value


def test_a_gap_within_tol_is_enough(nothing_fits):
    found = credo.infer(GRID, maximise="all", tol=1e6, seed=0)
    assert found.status is Status.CONVERGED


@pytest.mark.parametrize("case", [c for c in ZOO if len(c.names) > 1], ids=lambda c: c.id)
def test_maxima_and_marginal_maxima_lie_between_score_and_bound(case, nothing_fits):
    truth, chosen = Oracle(case), case.names[::2]
    for asked, best in (("all", truth.best()), (chosen, truth.marginal_map(chosen))):
        found = quietly(case.graph, "portfolio", maximise=asked, seconds=0.05)
        assert found.score.value <= best + 1e-8 <= found.log_z.value + 2e-8
        if found.status is Status.OPTIMAL:
            assert found.score.value == pytest.approx(best, abs=1e-8)


def test_marginal_map_of_a_wide_model_is_raced_too(nothing_fits):
    names = [variable.name for variable in GRID.to_factor_graph().variables][::7]
    found = quietly(GRID, maximise=names, seconds=0.3)
    best = credo.infer(GRID, "junction-tree(max_log2_operations=60)", maximise=names[:1]).score.value
    assert found.algorithm == "portfolio" and set(found.assignment) == set(names)
    assert found.score.value <= found.log_z.value
    assert found.score.value <= best + 1e-9  # fewer maxima, more sums: never less


def test_exact_inference_that_does_not_fit_into_the_seconds_is_not_tried():
    wide = credo.datasets.ising_grid(16, coupling="normal(scale=1)", field="normal(scale=0.1)", seed=0)
    assert "junction-tree" in quietly(wide, maximise=[]).algorithm
    assert quietly(wide, maximise="all", seconds=0.01).algorithm == "portfolio"


def test_observers_see_both_sides_and_can_stop_it(nothing_fits, monkeypatch):
    monkeypatch.setattr(bracket, "entrants", lambda problem: [Entrant(("dual-decomposition",))])
    seen = []

    def look(iteration, view):
        if view.result().assignment is not None:
            seen.append((view.bound, -view.energy, len(view.result().assignment)))
            view.stop()

    found = quietly(GRID, maximise="all", evidence={"x0": 1}, on_step=look)
    assert found.status is Status.INTERRUPTED and found.assignment.index("x0") == 1
    ((bound, score, size),) = seen
    assert score <= bound and size == 144


def test_it_keeps_no_checkpoints_and_says_who_does(nothing_fits, tmp_path):
    with pytest.raises(
        UnsupportedError, match=r"portfolio keeps no checkpoints; leave out checkpoint, or use '"
    ):
        credo.infer(GRID, maximise="all", checkpoint=tmp_path / "run.ckpt")


def test_a_run_without_any_possible_state_says_so(nothing_fits, monkeypatch):
    graph = credo.FactorGraph.from_arrays(np.full(2, 2), (np.array([[0, 1]]), np.array([[0.0, 1], [1, 0]])))
    monkeypatch.setattr(bracket, "entrants", lambda problem: [Entrant(("gaussian",))])
    monkeypatch.setattr(bracket, "first_states", lambda problem, rng: np.zeros(2, dtype=np.int64))
    with pytest.raises(
        UnsupportedError, match="no assignment of positive weight was found in the time given"
    ):
        credo.infer(graph, "portfolio", maximise="all", seed=0)
    with pytest.raises(KeyboardInterrupt, match="stopped before there was anything to answer with"):
        credo.infer(graph, "portfolio", maximise="all", seed=0, on_step=lambda _, view: view.stop())


def test_negative_memory_is_refused():
    with pytest.raises(OptionError, match="memory_gb"):
        credo.infer(GRID, "portfolio(memory_gb=-1)", maximise="all")


def test_questions_that_are_asked_many_times_go_to_bp(monkeypatch):
    monkeypatch.setattr(rule, "_MINUTE", -1.0)
    monkeypatch.setattr(maximum, "_SECONDS", 1e6)
    items = [(np.eye(4)[:, :2], [(0, 1), (1, 2), (2, 3), (3, 0)])] * 2
    labels = [[0, 1, 0, 1]] * 2
    crf = GraphCRF(max_iter=2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert len(crf.fit(items, labels).predict(items)) == 2
