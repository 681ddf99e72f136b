"""Generalised EM: leaves without closed form inside hidden Markov models, mixtures and products."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import credo
from credo.core.errors import ConvergenceWarning, UnsupportedError
from credo.families import Categorical, Gaussian, Mixture, Product, StudentT
from credo.learning.leaf_steps import RATE, ClimbPace, climb_surely, leaf_objective

TRUTH = credo.HMM(
    [0.5, 0.5], [[0.95, 0.05], [0.1, 0.9]], StudentT([[0.0], [4.0]], [[1.0], [0.5]], [3.0, 5.0])
)
START = credo.HMM(
    [0.5, 0.5], [[0.8, 0.2], [0.2, 0.8]], StudentT([[-1.0], [3.0]], [[1.0], [1.0]], [10.0, 10.0])
)


def rows(count=300, seed=0):
    return credo.sample(TRUTH, lengths=[count], seed=seed)[0]


def quietly(*arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return credo.fit(*arguments, **options)


def test_a_chain_with_outliers_is_found_again_and_the_objective_never_falls():
    found = credo.fit(START, rows(1500), max_iter=200)
    assert found.learner == "em" and any("generalised em: StudentT" in note for note in found.notes)
    assert (np.diff(found.objective) >= -1e-12).all()
    np.testing.assert_allclose(found.model.emission.location, TRUTH.emission.location, atol=0.15)
    np.testing.assert_allclose(found.model.emission.scale, TRUTH.emission.scale, rtol=0.15)
    np.testing.assert_allclose(found.model.transition, TRUTH.transition, atol=0.03)
    assert found.log_likelihood.value == pytest.approx(credo.log_likelihood(found.model, rows(1500)).value)


def test_where_it_has_converged_the_slope_of_the_likelihood_vanishes():
    x = rows()
    found = credo.fit(START, x, max_iter=400, tol=1e-5)
    assert found.converged
    best, leaf = found.log_likelihood.value, found.model.emission
    for name, free in leaf.to_free().items():
        for member in range(2):
            slopes = []
            for step in (1e-4, -1e-4):
                moved = {key: value.copy() for key, value in leaf.to_free().items()}
                moved[name][member] += step
                model = credo.HMM(found.model.start, found.model.transition, leaf.from_free(moved))
                slopes.append((credo.log_likelihood(model, x).value - best) / step)
            assert abs(np.mean(slopes)) < 0.1, (name, free)


def test_a_gaussian_that_is_climbed_is_the_gaussian_of_closed_form():
    x = np.random.default_rng(0).normal(2.0, 3.0, size=(200, 1))
    nearly = StudentT([[0.0]], [[1.0]], [1e7], learn_freedom=False)
    found = quietly(nearly, x, max_iter=60)
    closed = credo.fit(Gaussian([[0.0]], [[[1.0]]]), x)
    assert found.log_likelihood.value == pytest.approx(closed.log_likelihood.value, abs=1e-3)


def test_mixtures_and_products_move_only_what_has_no_closed_form():
    rng = np.random.default_rng(1)
    kind = rng.integers(2, size=200)
    x = np.column_stack([kind ^ (rng.random(200) < 0.1), 5 * kind + rng.standard_t(3, size=200)])
    x[::9, 1] = np.nan
    parts = Product(
        [Categorical([[0.6, 0.4], [0.4, 0.6]]), StudentT([[1.0], [4.0]], [[1.0], [1.0]], [8.0, 8.0])], [0, 1]
    )
    found = quietly(Mixture([[0.5, 0.5]], parts), x, max_iter=40)
    assert (np.diff(found.objective) >= -1e-12).all()
    marks, reals = found.model.components.parts
    assert marks.probabilities[0, 0] > 0.8 and abs(reals.location[0, 0]) < 0.5
    kept = quietly(Mixture([[0.5, 0.5]], parts), x, max_iter=3, fixed=("emission",)).model
    np.testing.assert_array_equal(kept.components.parts[1].location, parts.parts[1].location)


def test_a_checkpoint_keeps_what_the_optimiser_remembers(tmp_path, monkeypatch):
    monkeypatch.setattr("credo.optimise.driver._THIN", 0.0)
    x, path, steps = rows(80), tmp_path / "run.credo", []

    def stop(iteration, view):
        steps.append(iteration)
        if len(steps) in (2, 5):
            view.stop()

    options = {"max_iter": 5, "tol": 0, "restarts": 2, "seed": 0}
    whole = quietly(START, x, **options)
    for _ in range(3):
        found = quietly(START, x, **options, checkpoint=path, every=0, on_step=stop)
    np.testing.assert_array_equal(found.objective, whole.objective)
    np.testing.assert_array_equal(found.model.emission.scale, whole.model.emission.scale)


def test_steps_that_would_lower_the_objective_are_shortened():
    x, q = np.array([[-1.0], [0.0], [1.5]]), np.ones((3, 1))
    leaf = StudentT([[0.1]], [[1.0]], [5.0])
    before = leaf_objective(leaf, x, q)
    found, pace = climb_surely(leaf, x, q, ClimbPace(rate=2.0))
    assert leaf_objective(found, x, q) >= before and pace.rate < 2.0 and not pace.is_stuck
    best = leaf
    for _ in range(40):
        best, pace = climb_surely(best, x, q, pace)
    again, after = climb_surely(best, x, q, pace)
    assert leaf_objective(again, x, q) >= leaf_objective(best, x, q) - 1e-9 and after.rate <= RATE


def test_rows_with_weights_and_a_random_start_are_learned_too():
    x = rows(60)
    one = quietly(START, [x[:30], x[30:]], weights=[2.0, 1.0], max_iter=3)
    two = quietly(START, [x[:30], x[:30], x[30:]], max_iter=3)
    np.testing.assert_allclose(one.objective, two.objective, atol=1e-8)
    found = quietly(START, x, "em(start=random)", max_iter=3, seed=0, validation=[x])
    assert np.isfinite(found.trace["validation"]).all()


def test_stepwise_em_is_refused():
    with pytest.raises(UnsupportedError, match="batch cannot be had where leaves have no closed form"):
        credo.fit(START, rows(20), "em(batch=2)")
