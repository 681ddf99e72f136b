"""Every learner over small models: it climbs where it promises to, finds the truth, refuses, and resumes.

The learners are those of the registry, the models those of `tests/learner_zoo.py`; a learner that treats
none of these fails.
"""

from __future__ import annotations

import subprocess
import sys
import time
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import credo
from credo.core.errors import ConvergenceWarning, CredoError, DataError
from credo.learning import Fit
from credo.learning.base import learners
from credo.optimise import driver

sys.path.insert(0, str(Path(__file__).parents[1]))
import learner_zoo
from learner_zoo import LIMITS, SUBJECTS, digest, try_fit

from .subjects import is_sentence

NAMES = learners.names()
ABLE = [name for name in NAMES if learners.get(name).checkpoints]
_STEPS = {"infinite-boltzmann": 50}  # each is a unit more
_LOSS = 0.02  # log-likelihood per held-out row that the few rows to learn from may cost


@cache
def found(name, subject):
    return try_fit(name, subject, max_iter=_STEPS.get(name, 200))


def fits(name):
    """(subject, fit) of all that the learner treats."""
    pairs = [(subject, found(name, subject)) for subject in SUBJECTS]
    treated = [(subject, fit) for subject, fit in pairs if isinstance(fit, Fit)]
    assert treated, f"no model of the zoo is for {name}; add one"
    return treated


@pytest.mark.parametrize("name", NAMES)
def test_the_objective_never_falls_where_that_is_promised(name):
    for subject, fit in fits(name):
        assert np.isfinite(fit.objective).all(), subject.id
        if learners.get(name).monotone:
            falls = np.diff(fit.objective) < -1e-9 * np.maximum(np.abs(fit.objective[1:]), 1.0)
            assert not falls.any(), f"{subject.id}: {fit.objective}"


@pytest.mark.parametrize("name", NAMES)
def test_what_was_learned_is_as_good_as_the_truth_on_other_rows(name):
    for subject, fit in fits(name):
        assert subject.held_out(fit.model) > _truth(subject) - _LOSS, subject.id
        assert subject.held_out(subject.start) < _truth(subject) - 5 * _LOSS, subject.id


@cache
def _truth(subject):
    return subject.held_out(subject.truth)


@pytest.mark.parametrize("name", NAMES)
def test_the_log_likelihood_told_is_that_of_the_model(name):
    for subject, fit in fits(name):
        if fit.log_likelihood is not None and fit.log_likelihood.kind == "exact":
            again = credo.log_likelihood(fit.model, subject.data())
            assert fit.log_likelihood.value == pytest.approx(again.value, rel=1e-6), subject.id


@pytest.mark.parametrize("name", NAMES)
def test_a_model_that_is_not_for_a_learner_is_refused_with_a_sentence(name):
    for subject in SUBJECTS:
        refusal = found(name, subject)
        if not isinstance(refusal, Fit):
            assert is_sentence(str(refusal)), f"{subject.id}: {refusal}"


def broken(data):
    """The same rows, none of them, with a value that cannot be, and what is said of these."""
    if isinstance(data, list):
        yield data[:0], "expected"
        yield [*data[:1], [["what", 3]]], "expected"
        return
    if isinstance(data, np.ndarray):
        yield data[:0], "expected at least one"
        yield -data, "expected finite counts from 0"
        return
    if hasattr(data, "targets"):
        yield data.take(np.arange(0)), "expected at least one"
        columns = {c.name: c.labels() for c in data.columns if c.name not in data.targets}
        yield credo.data.read(columns, targets=["never seen"] * data.n_rows), "'never seen'"
        return
    yield {name: column[:0] for name, column in data.items()}, "expected at least one"
    first = next(iter(data))
    yield data | {first: ["never seen", *list(data[first])[1:]]}, "'never seen'|expected"
    yield data | {first: list(data[first])[1:]}, "rows"


@pytest.mark.parametrize("name", NAMES)
def test_rows_that_say_nothing_or_what_cannot_be_are_refused(name):
    for subject, _ in fits(name):
        for data, said in broken(subject.data()):
            with pytest.raises(DataError, match=said) as refusal:
                credo.fit(subject.start, data, name)
            assert is_sentence(str(refusal.value))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bad", [np.nan, -1.0, np.inf])
def test_weights_that_are_no_numbers_are_refused(name, bad):
    for subject, _ in fits(name):
        data = subject.data()
        units = len(data) if isinstance(data, list) else subject.rows
        weights = np.where(np.arange(units) == 2, bad, 1.0)
        with pytest.raises(CredoError, match="weights") as refusal:
            credo.fit(subject.start, data, name, weights=weights)
        assert is_sentence(str(refusal.value))


@pytest.mark.parametrize("name", ABLE)
def test_a_run_that_was_cut_at_a_random_step_ends_as_one_that_was_not(name, tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "_THIN", 0.0)
    monkeypatch.setattr("os.fsync", lambda _: None)
    rng = np.random.default_rng(sum(map(ord, name)))
    for k, (subject, _) in enumerate(fits(name)):
        path, left = tmp_path / f"{k}.ckpt", int(rng.integers(1, 6))

        def stop(iteration, view, at=left):
            if iteration >= at:
                view.stop()

        whole = try_fit(name, subject, **LIMITS)
        try_fit(name, subject, **LIMITS, checkpoint=path, every=0.0, on_step=stop)
        ended = try_fit(name, subject, **LIMITS, checkpoint=path)
        assert digest(ended) == digest(whole), f"{subject.id}, cut at step {left}"
        written = path.stat().st_mtime_ns
        assert digest(try_fit(name, subject, **LIMITS, checkpoint=path)) == digest(whole), subject.id
        assert path.stat().st_mtime_ns == written, "a finished run is read, and kept"


@pytest.mark.parametrize("name", ABLE)
def test_a_fit_goes_on_from_where_another_one_ended(name, tmp_path):
    subject, _ = fits(name)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        few = credo.fit(subject.start, subject.data(), name, seed=0, max_iter=2)
        credo.save(few, tmp_path / "few.credo")
        more = credo.fit(credo.load(tmp_path / "few.credo"), subject.data(), seed=0, max_iter=3)
    assert more.learner == few.learner
    if learners.get(name).monotone:
        assert more.objective[-1] >= few.objective[-1] - 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("name", ABLE)
def test_processes_that_were_killed_end_with_the_same_bits(name, tmp_path):
    rng = np.random.default_rng(0)
    for k, (subject, _) in enumerate(fits(name)):
        path = tmp_path / f"{k}.ckpt"
        command = [sys.executable, learner_zoo.__file__, name, subject.id, str(path)]
        for _ in range(2):
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            while not path.exists() and process.poll() is None:
                time.sleep(0.01)
            time.sleep(rng.uniform(0.0, 0.1))
            process.kill()
            process.wait()
        ended = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1]
        (tmp_path / "whole").mkdir(exist_ok=True)
        command[-1] = str(tmp_path / "whole" / path.name)
        whole = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1]
        assert ended == whole, subject.id
