"""Belief propagation as a run: stopping, options and refusals."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo import FactorGraph
from credo.core.errors import ConvergenceError, ConvergenceWarning, OptionError, UnsupportedError
from credo.core.result import Status
from credo.inference.messages.bp import BP


def mixed_loops():
    rng = np.random.default_rng(2)
    sizes = {"x0": 2, "x1": 3, "x2": 4, "x3": 2}
    scopes = [("x0", "x1"), ("x1", "x2"), ("x2", "x0"), ("x1", "x2", "x3"), ("x3",)]
    return FactorGraph(sizes, {s: np.exp(0.3 * rng.standard_normal([sizes[n] for n in s])) for s in scopes})


def test_ctrl_c_returns_what_was_found(monkeypatch):
    steps, asked = BP.advance, []

    def interrupted(self, problem, state, count, tol):
        asked.append(1)
        if len(asked) == 3:
            raise KeyboardInterrupt
        return steps(self, problem, state, 2, tol)

    monkeypatch.setattr(BP, "advance", interrupted)
    with pytest.warns(ConvergenceWarning, match="stopped by hand"):
        found = credo.infer(mixed_loops(), "bp(schedule=flooding)", tol=0)
    assert found.status is Status.INTERRUPTED
    assert len(found.trace["change"]) == 4
    assert np.isfinite(found.marginals.flat).all()


def test_running_out_is_not_convergence():
    with pytest.warns(ConvergenceWarning, match="bp: max_iter was reached"):
        found = credo.infer(mixed_loops(), "bp", max_iter=2)
    assert found.status is Status.OUT_OF_ITERATIONS
    assert len(found.trace["change"]) == 2
    with pytest.raises(ConvergenceError, match="max_iter was reached"):
        credo.infer(mixed_loops(), "bp", max_iter=2, strict=True)
    with pytest.warns(ConvergenceWarning, match="time given was used up"):
        assert credo.infer(mixed_loops(), "bp", tol=0, seconds=0).status is Status.OUT_OF_TIME


def test_nothing_done_is_uniform_messages():
    with pytest.warns(ConvergenceWarning, match="max_iter was reached"):
        found = credo.infer(mixed_loops(), "bp(damping=0.5)", max_iter=0)
    np.testing.assert_allclose(found.marginals["x2"], 0.25)
    assert found.trace["change"].shape == (0,)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("bp(damping=1)", r"damping must be in \[0, 1\), got 1"),
        ("bp(schedule=zigzag)", "schedule .*zigzag"),
        ("bp(damping_domain=cubic)", "damping_domain .*cubic"),
    ],
)
def test_wrong_options_are_refused(spec, says):
    with pytest.raises(OptionError, match=says):
        credo.infer(mixed_loops(), spec)


def test_what_it_cannot_do_is_refused():
    graph = mixed_loops()
    with pytest.raises(
        UnsupportedError,
        match="it gives marginals and log Z, MAP and marginal MAP, and the question asks for powered sums",
    ):
        credo.infer(graph, "bp", temperatures={"x0": 0.5})
    with pytest.raises(UnsupportedError, match="the question asks for joint tables"):
        credo.query(graph, ["x0", "x1"], method="bp")
    with pytest.raises(UnsupportedError, match="the question asks for samples"):
        credo.sample(graph, 3, method="bp")
