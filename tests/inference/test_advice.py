"""Advice is true of the run it is given about: what it says to change can change the outcome."""

from __future__ import annotations

import re
import warnings

import pytest

import credo
from credo.core.errors import ConvergenceWarning
from credo.core.registry import options_of
from credo.core.result import Status
from credo.inference.problem.base import algorithms
from credo.inference.problem.contents import methods
from credo.optimise.driver import UNKNOWN, advice

GRID = credo.datasets.ising_grid(6, coupling="normal(scale=2)", field="normal(scale=0.2)", seed=0)
CUT = Status.OUT_OF_ITERATIONS


def asked(method, task, **limits):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return credo.infer(GRID, method, seed=0, **limits, **({"maximise": "all"} if task == "max" else {}))


def cases():
    for name, known in methods().items():
        if "discrete" in known.reads and not known.compiles and known.family not in ("sampling", "exact"):
            yield from ((name, task) for task in ("sum", "max") if task in known.answers)


@pytest.mark.parametrize(("name", "task"), list(cases()))
def test_more_steps_are_taken_where_more_are_advised(name, task):
    try:
        few = asked(name, task, max_iter=3)
    except credo.CredoError as refusal:
        pytest.skip(str(refusal))
    if few.status is not CUT:
        assert few.status.is_success
        return
    assert "max_iter was reached; raise it" in few.advice
    more = asked(name, task, max_iter=6)
    assert more.converged or all(len(more.trace[k]) == 2 * len(few.trace[k]) == 6 for k in few.trace)


@pytest.mark.parametrize(("name", "task"), list(cases()))
def test_damping_and_tol_are_named_where_they_matter(name, task):
    try:
        found = asked(name, task, max_iter=120, tol=1e-300)
    except credo.CredoError as refusal:
        pytest.skip(str(refusal))
    if "damping" in found.advice:
        assert "damping" in options_of(algorithms.get(name))
    if "loosen tol" in found.advice:
        assert asked(name, task, max_iter=120, tol=1e200).converged


def test_a_run_that_goes_round_is_told_to_be_damped():
    with pytest.warns(ConvergenceWarning, match="bp: max_iter was reached, and the change no longer") as told:
        credo.infer(GRID, "bp", max_iter=300)
    assert "; give damping, loosen tol, or use another method" in str(told[0].message)
    damped = algorithms.resolve("bp(damping=0.2)")
    assert "raise damping (it is 0.2)" in advice(CUT, [0.5] * 100, damped.remedy)


def test_searches_without_a_residual_are_not_told_about_tol():
    found = asked("local-search(block=0)", "max", max_iter=3)
    assert found.status is CUT and found.advice == "max_iter was reached; raise it"


@pytest.mark.parametrize(
    ("status", "residuals", "remedy", "sentence"),
    [
        (CUT, [UNKNOWN] * 9, "", "max_iter was reached; raise it"),
        (CUT, [0.5**k for k in range(100)], "", "max_iter was reached; raise it, or loosen tol"),
        (CUT, [0.5] * 10, "", "max_iter was reached; raise it, or loosen tol"),
        (
            CUT,
            [0.5] * 100,
            "give damping",
            "max_iter was reached, and the change no longer falls; give damping, loosen tol, "
            "or use another method",
        ),
        (Status.OUT_OF_TIME, [], "", "the time given was used up; raise seconds"),
        (Status.DIVERGED, [1.0], "", "a value left the finite range; use another method"),
        (
            Status.DIVERGED,
            [1.0],
            "give damping",
            "a value left the finite range; give damping, or use another method",
        ),
    ],
)
def test_advice_follows_from_the_residuals(status, residuals, remedy, sentence):
    assert advice(status, residuals, remedy) == sentence


@pytest.mark.parametrize("name", [n for n, known in methods().items() if not known.compiles])
def test_methods_without_damping_advise_none(name):
    remedy = algorithms.resolve(name).remedy
    assert not remedy or re.search("damping", " ".join(options_of(algorithms.get(name))))
