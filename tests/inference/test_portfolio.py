"""The portfolio behind `credo solve`: exact where it can be, bounded or estimated elsewhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import credo
from credo.core.errors import OptionError, QueryError, UnsupportedError, ZeroProbabilityError
from credo.core.result import Estimate, Status
from credo.inference.messages.bp import BP
from credo.inference.messages.gbp import GBP
from credo.inference.portfolio import solve as portfolio
from credo.inference.portfolio.bracket import Bracket
from credo.inference.portfolio.solve import solve
from credo.inference.problem.base import Budget
from credo.inference.variational.mean_field import MeanField
from inference.map_models import random_model

WIDE = credo.datasets.ising_grid(5, seed=3)
FORCED = {"memory_gb": 0, "seconds": 0.3}  # exact inference is refused


def test_narrow_models_are_answered_exactly():
    asia, evidence = credo.datasets.asia(), {"dysp": "yes"}
    known = credo.infer(asia, "enumerate", evidence=evidence)
    found = solve(asia, evidence)
    assert found.result.status is Status.EXACT
    assert found.result.log_z.value == pytest.approx(known.log_z.value)
    assert found.sentences[-1] == "the answer is exact"
    found = solve(asia, evidence, marginals=True)
    np.testing.assert_allclose(found.result.marginals.flat, known.marginals.flat, atol=1e-12)
    assert found.sentences[-1] == "the answer is exact"
    assert found.bounds.is_exact
    found = solve(asia, evidence, ["lung", "dysp"])
    assert found.result.assignment["dysp"] == "yes"
    assert found.result.gap == 0
    assert found.sentences[-1] == "the assignment is proven optimal"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("maximise", ["all", ["x0", "x2"]])
def test_a_maximum_has_states_a_score_and_a_bound(seed, maximise):
    graph = random_model(seed, zeros=0.2)
    known = credo.infer(graph, "enumerate", maximise=maximise).log_z.value
    found = solve(graph, None, maximise, memory_gb=0, seconds=0.05)
    assert found.result.score.value <= known + 1e-9
    assert found.result.log_z.value >= known - 1e-9
    assert set(found.result.assignment) == set(graph.variables.names if maximise == "all" else maximise)
    assert found.result.gap == pytest.approx(found.bounds.gap)
    assert len(found.sentences) == 3


def test_an_estimate_of_log_z_lies_within_its_bounds():
    known = credo.infer(WIDE, "junction-tree").log_z.value
    found = solve(WIDE, **FORCED)
    assert found.bounds.lower.value - 1e-9 <= known <= found.bounds.upper.value + 1e-9
    assert found.bounds.lower.value <= found.result.log_z.value <= found.bounds.upper.value
    assert found.result.log_z.value == pytest.approx(known, abs=1.0)
    assert "gap" in found.sentences[-1]


def test_an_estimate_outside_the_bounds_is_moved_to_the_nearer_one(monkeypatch):
    narrow = Bracket(Estimate(1.0, "lower"), Estimate(2.0, "upper"), Status.OUT_OF_TIME)
    monkeypatch.setattr(portfolio, "tighten", lambda *_, **__: narrow)
    assert solve(WIDE, **FORCED).result.log_z.value == 2.0
    # Nothing is estimated where the bounds meet.
    closed = replace(narrow, lower=Estimate(2.0, "lower"))
    monkeypatch.setattr(portfolio, "tighten", lambda *_, **__: closed)
    assert solve(WIDE, **FORCED).result.status is Status.EXACT


def test_wide_marginals_are_estimates_and_the_sentence_says_so(monkeypatch):
    monkeypatch.setattr(portfolio, "tighten", None)  # bounds on log Z say nothing about marginals
    found = solve(WIDE, marginals=True, memory_gb=0, seconds=60)  # it ends when an estimator settles
    known = credo.infer(WIDE, "junction-tree").marginals
    assert np.abs(found.result.marginals.flat - known.flat).mean() < 0.1
    assert found.bounds is None
    assert found.sentences == (f"marginals by {found.result.algorithm}; nothing is proven about them",)


def test_the_next_estimator_answers_where_one_refuses_or_does_not_settle(monkeypatch):
    def refuse(*_):
        raise UnsupportedError("not this model")

    monkeypatch.setattr(GBP, "run", refuse)
    assert solve(WIDE, marginals=True, **FORCED).result.algorithm.startswith("bp")
    real = BP.run
    monkeypatch.setattr(
        BP,
        "run",
        lambda bp, asked, _, rng: replace(
            real(bp, asked, Budget(max_iter=2), rng),
            status=Status.OUT_OF_TIME,
            trace={"change": np.array([np.nan])},
        ),
    )
    patient = {**FORCED, "seconds": 60}  # no estimator is left out because of other work on the machine
    assert solve(WIDE, marginals=True, **patient).result.algorithm == "mean-field"
    # None settles: the one that changed least is taken, and its status is kept.
    monkeypatch.setattr(MeanField, "run", refuse)
    found = solve(WIDE, marginals=True, **FORCED).result
    assert found.algorithm.startswith("bp") and found.status is Status.OUT_OF_TIME


@pytest.mark.parametrize("arguments", [{}, {"marginals": True}, {"maximise": "all"}, {"maximise": ["x0"]}])
def test_no_time_is_enough_for_an_answer(arguments):
    found = solve(WIDE, memory_gb=0, seconds=0, **arguments)
    if "maximise" in arguments:
        assert found.result.assignment is not None and np.isfinite(found.result.gap)
    else:
        assert np.isfinite(found.result.log_z.value)
        assert np.isfinite(found.result.marginals.flat).all()


@pytest.mark.parametrize("memory_gb", [None, 0])
@pytest.mark.parametrize("arguments", [{}, {"marginals": True}, {"maximise": "all"}])
def test_contradictory_evidence_is_refused(arguments, memory_gb):
    impossible = {"either": "yes", "lung": "no", "tub": "no"}
    with pytest.raises(ZeroProbabilityError, match="the evidence has probability zero"):
        solve(credo.datasets.asia(), impossible, memory_gb=memory_gb, seconds=0.1, **arguments)


def test_states_that_were_not_found_are_not_invented(monkeypatch):
    nothing = Bracket(Estimate(-np.inf, "lower"), Estimate(2.0, "upper"), Status.OUT_OF_TIME)
    monkeypatch.setattr(portfolio, "tighten", lambda *_, **__: nothing)
    with pytest.raises(UnsupportedError, match="no assignment of positive weight was found"):
        solve(WIDE, None, "all")


def test_ctrl_c_while_bounding_still_answers(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(MeanField, "run", interrupt)
    found = solve(WIDE, memory_gb=0, seconds=60)
    assert found.bounds.status is Status.INTERRUPTED
    assert found.bounds.lower.value <= found.result.log_z.value <= found.bounds.upper.value


@pytest.mark.parametrize("method", [GBP, BP])
def test_ctrl_c_while_estimating_leaves_what_is_known(monkeypatch, method):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(method, "run", interrupt)
    found = solve(WIDE, **FORCED)
    assert found.bounds.lower.value <= found.result.log_z.value <= found.bounds.upper.value
    if method is GBP:  # the first: the bounds alone are known
        assert found.result.status is Status.INTERRUPTED
        assert found.result.log_z.value == pytest.approx(found.bounds.middle)
        with pytest.raises(KeyboardInterrupt):
            solve(WIDE, marginals=True, **FORCED)


def test_wrong_arguments_are_named():
    with pytest.raises(QueryError, match="nobody"):
        solve(WIDE, maximise=["nobody"])
    for option in ("seconds", "memory_gb"):
        with pytest.raises(OptionError, match=option):
            solve(WIDE, **{option: -1})
