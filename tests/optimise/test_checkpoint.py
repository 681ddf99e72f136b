"""Checkpoints of runs: what is kept, when it is written, where the way leads on, and what is refused."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

import credo
from credo.core.container import read_container, write_container
from credo.core.errors import ConvergenceWarning, FormatError, OptionError, UnsupportedError
from credo.core.records import record
from credo.core.result import Status
from credo.kernels import jit
from credo.optimise import checkpoint as module
from credo.optimise import driver
from credo.optimise.checkpoint import Checkpoint
from credo.optimise.driver import Step, drive
from credo.optimise.run import Budget, Run, call, check


@record("test wander", rebuilt=("plan",))
class Wander(NamedTuple):
    plan: object
    at: np.ndarray
    rng: np.random.Generator


class Wandering:
    """Random steps from a random start, each start with a generator of its own."""

    name = "wandering"

    def __init__(self, during=None):
        self.during, self.calls, self.plans, self.memory = during, 0, [], ()

    def start(self, problem, run):
        self.plans.append(object())
        child = run.rng.spawn(1)[0]
        self.memory = (child,)
        return Step(np.array([run.rng.random(), child.random()]))

    def advance(self, problem, state, run):
        self.calls += 1
        move = self.memory[0].standard_normal(2) + run.rng.random()
        if self.during is not None:
            self.during(self.calls)
        return Step(state + move, [float(abs(move).sum())], {"x": [float(state[0])], "rows": [state]})

    def read(self, problem, outcome):
        return outcome

    def value(self, state):
        return float(state[0])


class Planned(Wandering):
    """The same with a state that holds a plan."""

    def start(self, problem, run):
        state = super().start(problem, run).state
        return Step(Wander(self.plans[-1], state, run.rng))

    def advance(self, problem, state, run):
        step = super().advance(problem, state.at, run)
        return step._replace(state=Wander(state.plan, step.state, run.rng))


FIVE = Budget(max_iter=5, tol=0.0)


def go(algorithm, path, budget=FIVE, *, seed=1, every=0.0, model="m", **options):
    """One call that drives."""
    with call() as run:
        run.checkpoint = Checkpoint(path, every)
        rng = run.checkpoint.generator(seed)
        run.checkpoint.identify({"method": algorithm.name, "model": model})
        return drive(algorithm, None, budget, rng, **options)


def told(outcome):
    state = outcome.state.at if isinstance(outcome.state, Wander) else outcome.state
    return (
        state.tolist(),
        outcome.status,
        outcome.residuals,
        outcome.trace["x"],
        np.array(outcome.trace["rows"]).tolist(),
        outcome.number,
        outcome.values,
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.ckpt"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)


def stop_at(number):
    """Ctrl-C inside of a step, which is cut there after it has changed its generators."""

    def during(calls):
        if calls == number:
            signal.raise_signal(signal.SIGINT)
            check()

    return during


@pytest.mark.parametrize("kind", [Wandering, Planned])
@pytest.mark.parametrize("restarts", [1, 3])
@pytest.mark.parametrize("cuts", [(1,), (3, 2, 1), (5, 5), (7, 1, 1, 2)])
def test_a_run_that_was_cut_inside_of_steps_ends_as_one_that_was_not(kind, restarts, cuts, path):
    if kind is Planned and restarts > 1:
        return
    whole = told(
        drive(kind(), None, Budget(max_iter=5, tol=0.0), np.random.default_rng(1), restarts=restarts)
    )
    for cut in cuts:
        go(kind(stop_at(cut)), path, restarts=restarts)
    algorithm = kind()
    assert told(go(algorithm, path, restarts=restarts)) == whole
    assert algorithm.calls <= max(0, 5 * restarts - cuts[0] + 1)
    assert told(go(algorithm := kind(), path, restarts=restarts)) == whole and algorithm.calls == 0


def test_what_the_clock_ends_goes_on_with_new_time(path):
    whole = told(drive(Wandering(), None, FIVE, np.random.default_rng(1)))
    found, calls = None, 0
    while found is None or found.status is Status.OUT_OF_TIME:
        found = go(Wandering(lambda _: time.sleep(0.01)), path, replace(FIVE, seconds=0.015))
        calls += 1
    assert calls > 1 and told(found) == whole


def test_without_a_seed_a_run_goes_on_with_the_random_numbers_it_had(path):
    def without_end(calls):
        if calls == 4:
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        go(Wandering(without_end), path, seed=None)
    one = read_container(path)
    first = told(go(Wandering(), path, seed=None))
    write_container(path, *one)
    assert told(go(Wandering(), path, seed=None)) == first


def test_plans_are_made_again_and_not_kept(path):
    go(Planned(stop_at(3)), path)
    algorithm = Planned()
    found = go(algorithm, path)
    assert found.state.plan is algorithm.plans[0] and found.state.rng is not None


def test_a_finished_run_goes_on_where_the_budget_allows_more(path):
    whole = told(drive(Wandering(), None, Budget(max_iter=9, tol=0.0), np.random.default_rng(1)))
    assert go(Wandering(), path).status is Status.OUT_OF_ITERATIONS
    assert told(go(Wandering(), path, Budget(max_iter=9, tol=0.0))) == whole
    assert len(go(Wandering(), path, Budget(max_iter=3, tol=0.0)).residuals) == 9
    loose = whole[2][0] * 1.01
    os.remove(path)
    assert go(Wandering(), path, Budget(max_iter=9, tol=loose)).status is Status.CONVERGED
    assert told(go(Wandering(), path, Budget(max_iter=9, tol=0.0))) == whole


def test_starts_that_have_ended_keep_their_budget(path):
    go(Wandering(), path, restarts=2)
    with pytest.raises(
        FormatError, match=r"had max_iter=5 and tol=0, got 7 and 0: .* leave these as they were"
    ):
        go(Wandering(), path, Budget(max_iter=7, tol=0.0), restarts=2)


def test_an_algorithm_that_knows_the_end_is_not_asked_again(path):
    class Proven(Wandering):
        def advance(self, problem, state, run):
            return super().advance(problem, state, run)._replace(status=Status.OPTIMAL)

    go(Proven(), path)
    found = go(algorithm := Proven(), path, Budget(max_iter=50, tol=0.0))
    assert found.status is Status.OPTIMAL and algorithm.calls == 0


def test_it_is_written_as_often_as_was_asked_for_and_at_the_end(path, monkeypatch):
    times = []
    clock = iter(np.arange(0.0, 100.0, 1.0))
    monkeypatch.setattr(module, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(module, "write_container", lambda *_: times.append(1))
    go(Wandering(), path, Budget(max_iter=20, tol=0.0), every=10**6)
    assert len(times) == 2  # before the first step, and at the end
    go(Wandering(), path, Budget(max_iter=20, tol=0.0), every=5.0)
    assert 5 <= len(times) - 2 <= 8


def test_only_the_outermost_driven_run_is_kept(path):
    class Outer(Wandering):
        def start(self, problem, run):
            drive(Wandering(), None, Budget(max_iter=2, tol=0.0), np.random.default_rng(0))
            return super().start(problem, run)

        def advance(self, problem, state, run):
            drive(Wandering(), None, Budget(max_iter=2, tol=0.0), np.random.default_rng(0))
            return super().advance(problem, state, run)

    go(Outer(), path)
    assert len(read_container(path)[0]["run"]["at"]["residuals"]) and len(go(Outer(), path).residuals) == 5


def test_kernels_have_one_tier_while_a_checkpoint_is_open(path, monkeypatch):
    monkeypatch.setattr(jit._Process, "tier", "tiered")
    tiers = []
    go(Wandering(lambda _: tiers.append(jit.current_tier())), path)
    assert set(tiers) == {"compiled"} and jit.current_tier() == "tiered"
    with pytest.raises(OptionError):
        Checkpoint(path.parent / "nowhere" / "x", 1.0)
    assert jit.current_tier() == "tiered"
    monkeypatch.setattr(jit._Process, "tier", "interpreted")
    with pytest.raises(FormatError, match=r"the tier differs .expected interpreted, got compiled."):
        go(Wandering(), path)


def test_a_disk_that_fills_up_later_is_a_warning(path, monkeypatch):
    go(Wandering(stop_at(3)), path)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(RuntimeWarning, match=r"run.ckpt' could not be written: .*No space left"):
        assert len(go(Wandering(), path).residuals) == 5
    with pytest.raises(OptionError, match=r"could not be written: .*; give another file name"):
        go(Wandering(), path.with_name("other.ckpt"))


def test_a_state_that_is_no_data_is_refused_before_the_first_step(path):
    class Opaque(Wandering):
        def start(self, problem, run):
            return Step(object())

    algorithm = Opaque()
    with pytest.raises(
        UnsupportedError, match=r"wandering cannot keep .*: run.at.state: .* got a builtins.object; leave"
    ):
        go(algorithm, path)
    assert algorithm.calls == 0 and not path.exists()
    with pytest.raises(
        UnsupportedError, match="each of its starts makes plans of its own, so restarts must be 1"
    ):
        go(Planned(), path, restarts=2)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"seed": 2}, "the seed differs .expected 2, got 1."),
        ({"seed": None}, "the seed differs .expected None, got 1."),
        ({"seed": np.random.default_rng(1)}, "the seed differs"),
        ({"model": "n"}, "the model differs; give another file name, or delete it"),
    ],
)
def test_what_belongs_to_another_run_is_refused(other, words, path):
    go(Wandering(), path)
    with pytest.raises(FormatError, match=f"run.ckpt' belongs to another run: {words}"):
        go(Wandering(), path, **other)


@pytest.mark.parametrize("seed", [0, np.int64(3), [1, 2], np.array([1, 2]), None])
def test_whatever_a_seed_may_be(seed, path):
    whole = None if seed is None else told(drive(Wandering(), None, FIVE, np.random.default_rng(seed)))
    go(Wandering(stop_at(3)), path, seed=seed)
    found = told(go(Wandering(), path, seed=seed))
    assert whole in (None, found) and told(go(Wandering(), path, seed=seed)) == found


def test_a_state_that_is_no_data_any_more_is_a_warning(path):
    class Lapsing(Wandering):
        def advance(self, problem, state, run):
            step = super().advance(problem, state, run)
            return step._replace(state=step.state.astype(object)) if self.calls == 3 else step

    with pytest.warns(RuntimeWarning, match="cannot keep a checkpoint of this run: .* got one of object"):
        assert len(go(Lapsing(), path).residuals) == 5


def test_a_shared_generator_is_moved_to_where_it_was(path):
    mine = np.random.default_rng(5)
    go(Wandering(), path, seed=mine)
    again = np.random.default_rng(5)
    go(Wandering(), path, seed=again)
    assert again.random() == mine.random()


def damaged(path, change):
    content, arrays = read_container(path)
    change(content)
    write_container(path, content, arrays)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c.update(kind="model"), "expected a run of credo, got another file"),
        (lambda c: c.update(format=99), "expected format 1, got 99, of another version of credo"),
        (lambda c: c.pop("run"), "it is damaged"),
        (lambda c: c["run"].pop("rng"), "it lacks a part of the run"),
        (lambda c: c["run"]["at"].update(state={"array": 10**6}), "there is no array 1000000"),
        (
            lambda c: c["run"]["at"].update(state={"record": "os.system", "fields": {}}),
            "the record 'os.system' is unknown",
        ),
    ],
)
def test_a_damaged_checkpoint_is_refused_with_the_way_out(change, words, path):
    go(Wandering(), path)
    damaged(path, change)
    with pytest.raises(FormatError, match=f"run.ckpt': {words}.*; give another file name, or delete it"):
        go(Wandering(), path)


def test_arguments_are_checked(tmp_path):
    asia = credo.datasets.asia()
    with pytest.raises(OptionError, match="checkpoint: expected the name of a file, got 3"):
        credo.infer(asia, "bp", checkpoint=3)
    with pytest.raises(OptionError, match="every must be at least 0, got -1"):
        credo.infer(asia, "bp", checkpoint=tmp_path / "a", every=-1)
    with pytest.raises(OptionError, match=r"checkpoint: there is no folder .*; make it first"):
        credo.infer(asia, "bp", checkpoint=tmp_path / "none" / "a")
    with pytest.raises(OptionError, match=r"a' could not be read: .*; give another file name"):
        (tmp_path / "a").mkdir()
        credo.infer(asia, "bp", checkpoint=tmp_path / "a")
    warm = credo.infer(asia, "bp")
    with pytest.raises(OptionError, match="leave out warm_start"):
        credo.infer(asia, "bp", checkpoint=tmp_path / "b", warm_start=warm)


def test_no_checkpoint_is_asked_for_where_none_was_given():
    assert Run.checkpoint is None
    assert drive(Wandering(), None, Budget(max_iter=1, tol=0.0), np.random.default_rng(0)).number == 0


def test_questions_about_another_model_evidence_or_method_are_refused(tmp_path):
    path, asia = tmp_path / "a.ckpt", credo.datasets.asia()
    asked = {"checkpoint": path, "evidence": {"smoke": "yes"}, "seed": 0}
    found = credo.infer(asia, "bp", **asked)
    assert np.array_equal(credo.infer(asia, "bp", **asked).marginals.flat, found.marginals.flat)
    with pytest.raises(FormatError, match=r"the method differs .expected bp.damping=0.5., got bp.;"):
        credo.infer(asia, "bp(damping=0.5)", **asked)
    with pytest.raises(FormatError, match="the model differs;"):
        credo.infer(credo.datasets.sprinkler(), "bp", checkpoint=path, seed=0)
    with pytest.raises(FormatError, match="the evidence differs;"):
        credo.infer(asia, "bp", checkpoint=path, evidence={"smoke": "no"}, seed=0)
    with pytest.raises(FormatError, match="the question differs;"):
        credo.infer(asia, "bp", **asked, maximise="all")
    with pytest.raises(FormatError, match=r"the seed differs .expected 1, got 0."):
        credo.infer(asia, "bp", **{**asked, "seed": 1})


def test_fits_to_other_data_or_by_another_learner_are_refused(tmp_path):
    path, model = tmp_path / "f.ckpt", credo.MarkovNet({"a": 2, "b": 2}, {("a", "b"): [[1, 1], [1, 1]]})
    data = {"a": [0, 0, 1, 1], "b": [0, 0, 1, 0]}
    first = credo.fit(model, data, checkpoint=path, seed=0)
    again = credo.fit(model, data, checkpoint=path, seed=0)
    assert np.array_equal(first.objective, again.objective) and first.log_likelihood == again.log_likelihood
    for other, words in (
        ({"data": {"a": [0, 0, 1, 1], "b": [0, 1, 1, 0]}}, "the data differs;"),
        ({"weights": [1, 2, 3, 4]}, "the data differs;"),
        ({"learner": "pseudolikelihood"}, "the learner differs .expected pseudolikelihood, got likelihood.;"),
        ({"inference": "bp"}, "the inference differs .expected bp, got None.;"),
        ({"validation": data}, "the validation differs;"),
        ({"inference_budget": Budget(max_iter=3)}, "the inference_budget differs;"),
        ({"model": credo.MarkovNet({"a": 2, "b": 2}, {("a", "b"): [[1, 1], [1, 2]]})}, "the model differs;"),
    ):
        with pytest.raises(FormatError, match=words):
            credo.fit(**{"model": model, "data": data, "checkpoint": path, "seed": 0, **other})


def test_observers_may_stop_what_a_later_call_finishes(tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "_THIN", 0.0)
    grid = credo.datasets.ising_grid(4, coupling="normal(scale=1)", seed=0)
    asked = {"checkpoint": tmp_path / "a.ckpt", "seed": 0, "tol": 1e-12}
    with pytest.warns(ConvergenceWarning, match="stopped by hand"):
        credo.infer(grid, "mean-field", on_step=lambda _, view: view.stop(), **asked)
    whole = credo.infer(grid, "mean-field", seed=0, tol=1e-12)
    found = credo.infer(grid, "mean-field", **asked)
    assert np.array_equal(found.trace["change"], whole.trace["change"]) and found.log_z == whole.log_z
