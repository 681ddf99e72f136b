"""`on_step` in the public calls."""

from __future__ import annotations

import pytest

import credo
from credo.core.errors import ConvergenceWarning
from credo.core.result import Status


def test_observers_see_answers_about_the_model_that_was_asked_about():
    seen = []

    def watch(iteration, view):
        found = view.result()
        seen.append((iteration, len(found.marginals.flat), found.marginals["x0"][1]))
        view.stop()

    grid = credo.datasets.ising_grid(6, coupling="normal(scale=2)", seed=0)
    with pytest.warns(ConvergenceWarning, match="stopped by hand"):
        found = credo.infer(
            grid, "bp(damping=0.5)", evidence={"x0": 1}, tol=0.0, max_iter=10**8, on_step=watch
        )
    assert found.status is Status.INTERRUPTED
    assert seen == [(seen[0][0], 72, 1.0)]


def test_observers_of_fit_see_the_learner_not_the_inference_inside():
    seen = []
    asia = credo.datasets.asia()
    data = credo.sample(asia, 50, seed=0).to_frame().drop(columns=["either"])
    credo.fit(asia, data, "em", inference="bp", max_iter=3, on_step=lambda step, view: seen.append(step))
    assert seen and max(seen) <= 4
