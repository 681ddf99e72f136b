"""Every method and learner that keeps checkpoints goes on from them to the same bits; all others refuse.

A run is stopped after its first step, and again after the next, and then finished; and processes are killed
at random moments. What is compiled for every structure is tried with the slow tests, one excepted.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

import credo
from credo.core.errors import ConvergenceWarning, UnsupportedError
from credo.core.registry import options_of
from credo.inference.bounds import dual_decomposition
from credo.inference.messages import engine, gbp
from credo.inference.problem.base import algorithms
from credo.learning.base import learners
from credo.optimise import driver

sys.path.insert(0, str(Path(__file__).parents[1]))
import killed
from learner_zoo import SUBJECTS

METHODS = algorithms.entries()
ABLE = [name for name, known in METHODS.items() if known.checkpoints]
ABLE_LEARNERS = [name for name in learners.names() if learners.get(name).checkpoints]
SMALL = {"warmup": 3, "width": 4, "components": 2, "particles": 10, "ibound": 1, "restarts": 2}
_STOPS = 2
QUICK = "bethe-direct"  # stands for what is compiled for every structure


def able(names):
    """Parameters, those that take seconds to compile marked as slow."""
    return [
        pytest.param(n, marks=pytest.mark.slow if METHODS[n].compiles and n != QUICK else ()) for n in names
    ]


def spec_of(name, cls):
    few = {option: SMALL[option] for option in options_of(cls) if option in SMALL}
    return f"{name}({', '.join(f'{k}={v}' for k, v in few.items())})" if few else name


def models():
    """Loopy tables, attractive ones, and real variables: one of them is for every method."""
    yield credo.datasets.ising_grid(3, coupling="normal(scale=1)", field="normal(scale=0.3)", seed=0)
    yield credo.datasets.ising_grid(3, coupling=0.4, field="normal(scale=0.3)", seed=0)
    yield credo.GaussianNet([[2.0, 0.5, 0.2], [0.5, 1.5, -0.3], [0.2, -0.3, 1.2]], [0.3, 1.0, 0.5])


def tasks():
    """A network with a hidden variable, a Markov network with complete rows, and what is for few learners."""
    asia = credo.datasets.asia()
    yield asia, credo.sample(asia, 60, seed=0).to_frame().drop(columns=["either"])
    scopes = {("a", "b"): np.ones((2, 2)), ("b", "c"): np.ones((2, 2)), ("a", "c"): np.ones((2, 2))}
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, (40, 3))
    rows[:, 2] = np.where(rng.random(40) < 0.7, rows[:, 0], rows[:, 2])
    yield credo.MarkovNet({"a": 2, "b": 2, "c": 2}, scopes), rows
    for subject in SUBJECTS:
        if subject.id in ("units of a Boltzmann machine", "documents", "mixture of flows", "field of labels"):
            yield subject.start, subject.data(rows=40)


@pytest.fixture(autouse=True)
def small_steps(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(driver, "_THIN", 0.0)
    for module, name, value in (
        (engine, "_CHUNK", 1),
        (engine, "_ENTRIES", 0),
        (gbp, "_CHUNK", 1),
        (dual_decomposition, "_OFTEN", 1),
    ):
        monkeypatch.setattr(module, name, value)


def in_parts(ask, path):
    """The same question asked until nobody stops it; how often it was stopped."""
    stopped = 0

    def stop(iteration, view):
        nonlocal stopped
        stopped += 1
        view.stop()

    for _ in range(_STOPS):
        ask(checkpoint=path, every=0.0, on_step=stop)
    return ask(checkpoint=path, every=0.0), stopped


def check(ask, path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = killed.digest(ask())
        found, stopped = in_parts(ask, path)
        assert killed.digest(found) == whole, "stopped and resumed"
        assert killed.digest(ask(checkpoint=path)) == whole, "read when finished"
    assert stopped and path.exists()


@pytest.mark.parametrize("name", able(ABLE))
def test_a_stopped_method_ends_as_one_that_was_not(name, tmp_path):
    spec = spec_of(name, algorithms.get(name))
    question = {} if "sum" in METHODS[name].answers else {"maximise": "all"}
    for model in models():
        try:
            return check(
                lambda model=model, **kept: credo.infer(
                    model, spec, max_iter=6, tol=1e-12, seed=3, **question, **kept
                ),
                tmp_path / "run.ckpt",
            )
        except UnsupportedError as error:
            assert "cannot treat this problem" in str(error), error
    raise AssertionError(f"no model here is for {name}")


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["mean-field(restarts=2)", "gibbs(warmup=3)", "metropolis(warmup=3)", "ep"])
def test_methods_for_tables_keep_runs_on_real_variables_too(spec, tmp_path):
    *_, gaussian = models()
    check(
        lambda **kept: credo.infer(gaussian, spec, max_iter=6, tol=1e-12, seed=3, **kept),
        tmp_path / "run.ckpt",
    )


@pytest.mark.parametrize("name", ABLE_LEARNERS)
def test_a_stopped_learner_ends_as_one_that_was_not(name, tmp_path):
    spec = spec_of(name, learners.get(name))
    for model, data in tasks():
        try:
            return check(
                lambda model=model, data=data, **kept: credo.fit(
                    model, data, spec, max_iter=5, tol=1e-12, seed=3, **kept
                ),
                tmp_path / "run.ckpt",
            )
        except UnsupportedError as error:
            assert "cannot treat this task" in str(error), error
    raise AssertionError(f"no task here is for {name}")


@pytest.mark.parametrize("inference", ["bp", "trw", "gbp", "mean-field"])
def test_learners_keep_the_messages_they_start_from(inference, tmp_path):
    (_, (model, data)) = islice(tasks(), 2)
    check(
        lambda **kept: credo.fit(model, data, inference=inference, max_iter=5, tol=1e-12, seed=3, **kept),
        tmp_path / "run.ckpt",
    )


@pytest.mark.parametrize(
    "spec", ["gdd(updates=blocks)", "gdd(updates=joint)", "trw(rho=optimised)", "bp(schedule=residual)"]
)
def test_variants_of_methods_end_as_if_they_were_not_stopped(spec, tmp_path):
    grid = next(models())
    check(
        lambda **kept: credo.infer(grid, spec, max_iter=12, tol=1e-12, seed=3, **kept), tmp_path / "run.ckpt"
    )


@pytest.mark.parametrize("name", [name for name, known in METHODS.items() if not known.checkpoints])
def test_all_other_methods_refuse_with_a_list_of_those_that_can(name, tmp_path):
    grid, gaussian = next(models()), list(models())[-1]
    model = grid if "discrete" in METHODS[name].reads else gaussian
    question = {} if "sum" in METHODS[name].answers else {"maximise": "all"}
    with pytest.raises(
        UnsupportedError, match=rf"{name} keeps no checkpoints; leave out .*, or use '"
    ) as said:
        credo.infer(model, name, checkpoint=tmp_path / "run.ckpt", **question)
    for other in re.findall(r"'([a-z-]+)'", str(said.value)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            credo.infer(model, other, max_iter=1, seed=0, checkpoint=tmp_path / other, **question)
        os.remove(tmp_path / other)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("name", sorted(set(learners.names()) - set(ABLE_LEARNERS)))
def test_all_other_learners_refuse_with_a_list_of_those_that_can(name, tmp_path):
    model, data = next(tasks())
    with pytest.raises(
        UnsupportedError,
        match=rf"{name} keeps no checkpoints; leave out .* one of \['boltzmann', 'contr.*'em'",
    ):
        credo.fit(model, data, name, checkpoint=tmp_path / "run.ckpt")
    assert not os.listdir(tmp_path)


def ends_after_kills(names, folder, kills, seed):
    """Name -> fingerprints of the answers left alone and after kills, and how many of these cut a run."""
    command = [sys.executable, killed.__file__, str(folder), str(kills), str(seed), *names]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=1500)
    return {line.split()[0]: line.split()[1:] for line in found.stdout.splitlines()}


def test_processes_that_were_killed_at_random_moments_end_with_the_same_bits(tmp_path):
    names = ["bp", "mean-field", "gdd", "local-search", "gibbs", "em"]
    found = ends_after_kills(names, tmp_path, 2, 0)
    assert list(found) == names
    assert [name for name, (whole, after, _) in found.items() if whole != after] == []
    assert sum(int(cut) for *_, cut in found.values()) > len(names) // 3


@pytest.mark.slow
def test_processes_that_were_killed_often_end_with_the_same_bits(tmp_path):
    found = ends_after_kills(killed.NAMES, tmp_path, 10, 1)
    assert [name for name, (whole, after, _) in found.items() if whole != after] == []
