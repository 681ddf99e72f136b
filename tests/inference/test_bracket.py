"""Brackets against enumeration: true at every turn, never looser, and honest about where they stop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import credo
from credo.core.errors import OptionError, QueryError, TooLargeError, ZeroProbabilityError
from credo.core.result import Estimate, Result, Status
from credo.inference.bounds.gdd import GDD
from credo.inference.bounds.wmb import WMB
from credo.inference.portfolio.bracket import Bracket, tighten
from credo.inference.portfolio.question import pose
from credo.inference.portfolio.race import Entrant, Runner, choose, entrants, fitting
from credo.inference.problem.base import Budget
from credo.inference.search.local_search import LocalSearch
from credo.inference.search.soft_consistency import SoftConsistency
from credo.inference.variational.mean_field import MeanField
from credo.structures.elimination import is_narrow
from inference.bucket_models import HEATS, powered, problem, random_graph
from zoo import ZOO

SLACK = 1e-8


def _tightened(asked, **limits) -> Bracket:
    return tighten(asked, **{"gap": 0.0, "seconds": 0.03, "memory_gb": 0, "seed": 0, **limits})


def _assert_true(found: Bracket, truth: float) -> None:
    slack = SLACK * max(1.0, abs(truth))
    for step in found.history:
        assert step.lower <= truth + slack, step
        assert step.upper >= truth - slack, step
    for side, sign in (("lower", 1), ("upper", -1)):
        values = [sign * getattr(step, side) for step in found.history]
        assert values == sorted(values)
    times = [step.seconds for step in found.history]
    assert times == sorted(times)
    assert (found.lower.value, found.upper.value) == (
        found.history[-1].lower,
        max(found.history[-1].upper, found.history[-1].lower),
    )


def _value_of(asked, found: Bracket) -> float:
    """What the assignment is worth, by enumeration."""
    fixed = {asked.graph.variables.names[i]: int(k) for i, k in enumerate(found.assignment.indices) if k >= 0}
    heat = dict(zip(asked.graph.variables.names, asked.temperatures, strict=True))
    assert set(fixed) == {n for n, t in heat.items() if t == 0}
    _, rest = pose(asked.graph, fixed)
    return powered(replace(rest, temperatures=asked.temperatures, levels=asked.levels))


@pytest.mark.parametrize("kind", HEATS)
def test_every_turn_holds_the_truth_without_exact_inference(kind):
    for seed in range(12):
        asked = problem(random_graph(seed), kind, seed)
        found = _tightened(asked)
        _assert_true(found, powered(asked))
        assert np.isfinite(found.gap)
        assert "junction-tree" not in {step.method for step in found.history}
        if found.assignment is not None:
            assert _value_of(asked, found) >= found.lower.value - SLACK


@pytest.mark.parametrize("kind", HEATS)
def test_no_time_at_all_still_bounds_both_sides(kind):
    for seed in range(30):
        asked = problem(random_graph(seed), kind, seed)
        found = _tightened(asked, seconds=0)
        _assert_true(found, powered(asked))
        assert np.isfinite(found.gap)
        assert len(found.history) <= 4
        if asked.maximises_last and len(asked.maximised):
            assert _value_of(asked, found) >= found.lower.value - SLACK


@pytest.mark.parametrize("case", ZOO, ids=lambda case: case.id)
def test_the_zoo_is_answered_exactly(case):
    for maximise in ((), "all", case.names[:2]):
        found = credo.bracket(case.graph, maximise=maximise)
        assert found.is_exact
        assert found.gap == pytest.approx(0, abs=1e-9)
        assert (found.lower.kind, found.upper.kind) == ("exact", "exact")
        _, asked = pose(case.graph, None, maximise)
        assert found.upper.value == pytest.approx(powered(asked), rel=1e-9, abs=1e-9)
        is_maximum = bool(case.names) and maximise != ()
        assert found.status is (Status.OPTIMAL if is_maximum else Status.EXACT)
        assert (found.assignment is not None) == is_maximum


@pytest.mark.parametrize("case", ZOO, ids=lambda case: case.id)
def test_the_zoo_without_memory_is_bounded(case):
    for maximise in ((), "all", case.names[:2]):
        _, asked = pose(case.graph, None, maximise)
        _assert_true(_tightened(asked, seconds=0.01), powered(asked))


@pytest.mark.parametrize("maximise", [(), "all", ["x0", "x7", "x11"]])
def test_a_gap_that_is_wide_enough_stops_early(maximise):
    grid = credo.datasets.ising_grid(4, seed=3)
    _, asked = pose(grid, None, maximise)
    tight = _tightened(asked, seconds=0.5)
    wide = _tightened(asked, seconds=60, gap=1e5)
    assert wide.status is (Status.OPTIMAL if wide.is_exact else Status.CONVERGED)
    assert len(wide.history) < len(tight.history)
    assert wide.gap <= 1e5


def test_evidence_is_taken_into_account_and_the_assignment_speaks_of_all_states():
    asia = credo.datasets.asia()
    found = credo.bracket(asia, {"smoke": "yes", "dysp": [0.9, 0.2]}, maximise=["lung", "bronc", "smoke"])
    known = credo.infer(
        asia,
        "enumerate",
        evidence={"smoke": "yes", "dysp": [0.9, 0.2]},
        maximise=["lung", "bronc", "smoke"],
    )
    assert found.upper.value == pytest.approx(known.log_z.value)
    assert dict(found.assignment) == dict(known.assignment)
    assert found.assignment["smoke"] == "yes"


@pytest.mark.parametrize("memory_gb", [None, 0])
@pytest.mark.parametrize("maximise", [(), "all", ["tub"]])
def test_contradictory_evidence_is_refused(memory_gb, maximise):
    impossible = {"either": "yes", "lung": "no", "tub": "no"}
    if maximise == ["tub"]:
        maximise = ["smoke"]
    with pytest.raises(ZeroProbabilityError, match="the evidence has probability zero"):
        credo.bracket(credo.datasets.asia(), impossible, maximise, memory_gb=memory_gb, seconds=0.1)


def test_nothing_to_maximise_is_log_z():
    asia = credo.datasets.asia()
    assert credo.bracket(asia, maximise=[]).upper.value == pytest.approx(0.0, abs=1e-12)
    assert credo.bracket(asia, maximise=[]).assignment is None


def test_wrong_arguments_are_named():
    asia = credo.datasets.asia()
    with pytest.raises(QueryError, match="nobody"):
        credo.bracket(asia, maximise=["nobody"])
    for option in ("gap", "seconds", "memory_gb"):
        with pytest.raises(OptionError, match=option):
            credo.bracket(asia, **{option: -1})


def _interrupt(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("maximise", "method", "side"),
    [((), WMB, "upper"), ("all", LocalSearch, "lower"), ((), MeanField, "lower")],
)
def test_an_interrupted_bracket_returns_what_was_found(monkeypatch, maximise, method, side):
    monkeypatch.setattr(method, "run", _interrupt)
    _, asked = pose(credo.datasets.ising_grid(5, seed=2), None, maximise)
    found = _tightened(asked, seconds=30)
    assert found.status is Status.INTERRUPTED
    assert np.isfinite(found.gap)
    assert (found.assignment is not None) == (maximise == "all")
    _assert_true(found, powered_by_elimination(asked))


def powered_by_elimination(asked) -> float:
    maximise = "all" if asked.is_max else ()
    return credo.infer(asked.graph, "junction-tree", maximise=maximise).log_z.value


def test_a_method_that_was_interrupted_still_counts(monkeypatch):
    real = WMB.run
    monkeypatch.setattr(
        WMB, "run", lambda *a: replace(real(*a), status=Status.INTERRUPTED)
    )  # as after Ctrl-C inside its loop
    _, asked = pose(credo.datasets.ising_grid(5, seed=2), None)
    found = _tightened(asked, seconds=30)
    assert found.status is Status.INTERRUPTED
    assert found.upper_by.startswith("wmb")
    assert found.history[-1].method.startswith("wmb")


def test_a_method_that_refuses_leaves_a_note_and_the_race(monkeypatch):
    def refuse(*_):
        raise TooLargeError("too large for this machine")

    monkeypatch.setattr(GDD, "run", refuse)
    _, asked = pose(credo.datasets.ising_grid(4, seed=2), None, ["x0", "x1"])
    found = _tightened(asked, seconds=0)  # local search could prove its states, given time
    assert any("gdd" in note and "too large for this machine" in note for note in found.notes)
    assert sum("gdd" in note for note in found.notes) == 1


def test_the_text_says_bounds_who_proved_them_and_why_it_stopped():
    shown = repr(credo.bracket(credo.datasets.asia(), maximise=["lung"]))
    assert "(exact), proven optimal" in shown
    assert "lower by junction-tree, upper by junction-tree" in shown
    assert "lung=no" in shown
    open_ended = Bracket(Estimate(1.0, "lower"), Estimate(3.0, "upper"), Status.OUT_OF_TIME)
    assert "1 <= value <= 3 (gap 2), out of time" in repr(open_ended)
    assert open_ended.middle == 2.0 and not open_ended.is_exact
    assert replace(open_ended, upper=Estimate(np.inf, "upper")).middle == 1.0


def test_the_same_seed_finds_the_same_states():
    _, asked = pose(credo.datasets.ising_grid(5, seed=2), None, "all")
    first, second = (_tightened(asked, seconds=0, seed=4) for _ in range(2))
    assert first.lower == second.lower
    assert first.assignment.indices.tolist() == second.assignment.indices.tolist()


def test_tables_follow_the_memory():
    _, asked = pose(credo.datasets.ising_grid(30, seed=0), None)
    wide = next(e for e in entrants(asked) if e.sizes)
    for memory_gb, most in ((0, 1), (0.01, 2**27 * 0.01 / 2640 + 1), (1000, 2**20)):
        spec = Runner(wide, 1e9).begin(asked, memory_gb)
        assert 1 <= int(spec.split("max_entries=")[1].rstrip(")")) <= most


def test_a_runner_goes_on_climbs_and_leaves():
    runner = Runner(Entrant(("wmb(ibound=1)", "wmb(ibound=3)")), 1.0)
    assert runner.is_untried and runner.expected(1.0) == np.inf
    _, asked = pose(credo.datasets.ising_grid(3), None)
    assert runner.begin(asked, 1.0) == "wmb(ibound=1)"
    runner.state = "something"
    runner.learn(Status.OUT_OF_TIME, gain=1.0, seconds=1.0, gap=2.0)
    assert (runner.begin(asked, 1.0), runner.state, runner.slice) == ("wmb(ibound=1)", "something", 2.0)
    runner.learn(Status.OUT_OF_TIME, gain=0.0, seconds=2.0, gap=2.0)
    assert (runner.begin(asked, 1.0), runner.state) == ("wmb(ibound=3)", None)
    runner.learn(Status.CONVERGED, gain=1.0, seconds=2.0, gap=1.0)
    assert runner.is_out


def test_sizes_that_waste_the_time_of_a_turn_are_passed_over():
    _, asked = pose(credo.datasets.ising_grid(10, seed=0), None)
    wide = next(e for e in entrants(asked) if e.sizes)
    for seconds, level in ((0.0, 0), (0.05, 2), (1e9, len(wide.sizes) - 1)):
        runner = Runner(wide, seconds)
        assert f"ibound={wide.sizes[level]}," in runner.begin(asked, 1000.0)
    runner.learn(Status.CONVERGED, gain=1.0, seconds=1.0, gap=1.0)
    assert runner.is_out


def test_local_search_that_found_nothing_has_a_second_turn():
    runner = Runner(Entrant(("local-search",), is_random=True), 1.0, spec="local-search")
    for turn in range(3):
        assert (runner.expected(1.0) > 0) == (turn < 2)
        runner.learn(Status.OUT_OF_TIME, gain=0.0, seconds=1.0, gap=1.0)


def test_a_search_that_starts_anew_gets_longer_turns_or_none():
    runner = Runner(Entrant(("branch-and-bound",), is_search=True), 1.0, spec="branch-and-bound", rate=0.0)
    runner.learn(Status.OUT_OF_TIME, gain=0.0, seconds=1.0, gap=2.0)
    assert not runner.is_out and runner.slice == 2.0
    assert not runner.has_use_for(0.9) and runner.has_use_for(1.1)
    assert [runner.share(left) for left in (1.5, 5.0, 7.0)] == [1.5, 5.0, 2.0]
    assert runner.expected(2.0) > Runner(Entrant(("decimation",)), 1.0, spec="decimation", rate=0.0).expected(
        2.0
    )


def test_searches_get_half_of_the_time_once_everybody_had_a_turn():
    search = Runner(Entrant(("branch-and-bound",), is_search=True), 2.0, spec="branch-and-bound", rate=0.0)
    other = Runner(Entrant(("dual-decomposition",)), 2.0, spec="dual-decomposition", rate=5.0, spent=1.0)
    untried = Runner(Entrant(("decimation",)), 2.0)
    assert choose([search, other, untried], 1.0) is untried
    assert choose([search, other], 1.0) is search
    search.spent = 1.5
    assert choose([search, other], 1.0) is other
    search.state = "open nodes"
    for _ in range(5):
        search.learn(Status.OUT_OF_TIME, gain=0.0, seconds=1.0, gap=1.0)
    assert not search.is_out and search.state == "open nodes"


@pytest.mark.parametrize("method", [SoftConsistency(), WMB(ibound=1)])
def test_a_method_that_was_cut_goes_on_from_its_state(method):
    graph = credo.datasets.ising_grid(4, seed=1).to_factor_graph()
    _, asked = pose(graph, None, "all")
    first = method.run(asked, Budget(seconds=0), np.random.default_rng(0))
    then = method.resume(asked, first.state, Budget(max_iter=500))
    assert then.log_z.value <= first.log_z.value + SLACK
    assert then.log_z.value >= powered_by_elimination(asked) - SLACK
    if isinstance(method, SoftConsistency):
        assert then.status is Status.OPTIMAL


def test_a_score_of_the_best_joint_state_bounds_any_powered_sum(monkeypatch):
    """Where an assignment has no value of its own, the search for states still bounds from below."""
    answer = Result("", Status.CONVERGED, log_z=Estimate(7.0, "exact"), score=Estimate(7.0, "exact"))
    seen = []
    monkeypatch.setattr(LocalSearch, "run", lambda _, asked, *__: seen.append(asked) or answer)
    asked = problem(random_graph(3), "odd order", 3)
    found = Runner(Entrant(("local-search",), as_maximum=True), 1.0).run(
        LocalSearch(), asked, 1.0, np.random.default_rng(0)
    )
    assert seen[0].is_max
    assert (found.log_z, found.score) == (Estimate(7.0, "lower"), None)


def test_hopeless_widths_are_known_without_planning():
    grid = credo.datasets.ising_grid(40, seed=0).to_factor_graph()
    _, asked = pose(grid, None)
    assert not is_narrow(grid, 30)
    assert is_narrow(grid, 70)
    assert fitting(asked, 1.0, 8.0) is None
    small = pose(credo.datasets.ising_grid(5), None)[1]
    assert fitting(small, 1.0, 8.0).forecast.width == 5
    assert fitting(small, 1.0, 0.0) is None
