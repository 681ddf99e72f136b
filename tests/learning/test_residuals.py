"""A learner has converged when its parameters rest, not when its objective hardly gains."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import credo
from credo.core.errors import ConvergenceWarning
from credo.core.result import Status
from credo.families import Categorical, DiagonalGaussian, Gaussian, Mixture, Poisson
from credo.families.independent import IndependentRows
from credo.learning import fit, vmp
from credo.learning.block_training import train_blocks
from credo.learning.hidden_rows import expect_rows
from credo.models import FactorAnalysis
from credo.models.factorial_hmm import FactorialHMM
from credo.models.hmm import HMM
from credo.models.normal_form_build import embedding

TOL = 1e-4


def overlapping(rows=300):
    """Bits of two classes that are hardly different."""
    rng = np.random.default_rng(0)
    hidden = rng.integers(2, size=rows)
    return (rng.random((rows, 4)) < np.where(hidden == 1, 0.6, 0.4)[:, None]).astype(int)


def two_classes(seed=3):
    names = [f"x{k}" for k in range(4)]
    return credo.BayesNet.random(dict.fromkeys(["h", *names], 2), {n: ["h"] for n in names}, seed=seed)


def quietly(function, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return function(*arguments, **options)


def columns(bits):
    return {f"x{k}": bits[:, k] for k in range(bits.shape[1])}


def test_em_on_a_plateau_does_not_say_that_it_has_converged():
    data = columns(overlapping())
    gains = np.diff(quietly(fit, two_classes(), data, "em", max_iter=60, tol=0.0).objective)
    flat = int(np.argmax(gains < 1e-6)) + 1  # a gain that looks like none
    one = quietly(fit, two_classes(), data, "em", max_iter=flat, tol=0.0).model.flat_tables
    two = quietly(fit, two_classes(), data, "em", max_iter=flat + 1, tol=0.0).model.flat_tables
    assert np.abs(two - one).max() > TOL
    with pytest.warns(ConvergenceWarning, match="em: max_iter was reached"):
        found = fit(two_classes(), data, "em", max_iter=flat + 1, tol=TOL)
    assert found.status is Status.OUT_OF_ITERATIONS


@pytest.mark.parametrize("learner", ["em", "em(prior=uniform(count=1))"])
def test_where_em_has_converged_another_step_moves_nothing(learner):
    data = columns(overlapping())
    found = fit(two_classes(), data, learner, max_iter=20_000, tol=1e-6)
    again = quietly(fit, found.model, data, learner, max_iter=1, tol=0.0)
    assert found.status is Status.CONVERGED
    assert np.abs(again.model.flat_tables - found.model.flat_tables).max() < 1e-6


def test_weights_of_markov_networks_rest_where_em_has_converged():
    start = credo.MarkovNet(
        {"a": 2, "b": 2, "h": 2}, {("a", "h"): [[1, 2], [3, 1]], ("b", "h"): [[2, 1], [1, 3]]}
    )
    data = {"a": [0, 0, 1, 1, 1, 0] * 5, "b": [0, 0, 1, 1, 0, 0] * 5}
    found = fit(start, data, "em(prior=gaussian(scale=1))", max_iter=5000)
    again = quietly(fit, found.model, data, "em(prior=gaussian(scale=1))", max_iter=1, tol=0.0)
    one, two = (f.model.to_factor_graph().log_tables for f in (found, again))
    assert found.status is Status.CONVERGED and np.abs(one - two).max() < 1e-3


def test_baum_welch_rests_where_it_has_converged():
    start = HMM([0.5, 0.5], [[0.6, 0.4], [0.3, 0.7]], Categorical([[0.6, 0.4], [0.4, 0.6]]))
    truth = HMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], Categorical([[0.7, 0.3], [0.3, 0.7]]))
    x, _ = credo.sample(truth, lengths=200, seed=0)
    curve = quietly(fit, start, x, max_iter=100, tol=0.0).objective
    flat = int(np.argmax(np.diff(curve) < 1e-6)) + 1
    assert quietly(fit, start, x, max_iter=flat + 1, tol=1e-5).status is Status.OUT_OF_ITERATIONS
    found = fit(start, x, max_iter=20_000, tol=1e-5)
    again = quietly(fit, found.model, x, max_iter=1, tol=0.0)
    assert found.status is Status.CONVERGED and found.model.movement(again.model) < 1e-5


def test_the_unit_of_the_data_changes_no_number_of_iterations():
    truth = HMM([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], Gaussian([[0.0], [2.0]], np.ones((2, 1, 1))))
    x, _ = credo.sample(truth, lengths=300, seed=0)

    def steps(scale, shift):
        first = Gaussian([[-1.0 * scale + shift], [1.0 * scale + shift]], np.full((2, 1, 1), scale**2))
        start = HMM([0.5, 0.5], [[0.6, 0.4], [0.4, 0.6]], first)
        found = fit(start, scale * x + shift, max_iter=500, tol=1e-4)
        return len(found.objective)

    assert steps(1.0, 0.0) == steps(1e-6, 0.0) == steps(1e6, 0.0) == steps(1.0, 1e3)


@pytest.mark.parametrize(
    ("old", "new", "size"),
    [
        (Categorical([[0.5, 0.5]]), Categorical([[0.4, 0.6]]), 0.1),
        (Poisson([4.0]), Poisson([5.0]), 0.5),
        (Gaussian([[1.0]], [[[4.0]]]), Gaussian([[2.0]], [[[4.0]]]), 0.5),
        (Gaussian([[1.0]], [[[4.0]]]), Gaussian([[1.0]], [[[8.0]]]), 1.0),
        (DiagonalGaussian([[1.0, 0.0]], [[4.0, 1.0]]), DiagonalGaussian([[1.0, 0.3]], [[4.0, 1.0]]), 0.3),
        (DiagonalGaussian([[1.0, 0.0]], [[4.0, 1.0]]), DiagonalGaussian([[1.0, 0.0]], [[6.0, 1.0]]), 0.5),
        (Mixture([[0.5, 0.5]], Poisson([4.0, 1.0])), Mixture([[0.7, 0.3]], Poisson([4.0, 1.1])), 0.2),
    ],
)
def test_families_say_how_far_their_members_moved(old, new, size):
    assert old.movement(old) == 0.0
    assert old.movement(new) == pytest.approx(size)


def test_variational_bayes_rests_where_it_has_converged():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(-1, 1, (150, 1)), rng.normal(1, 1, (150, 1))])
    start = Mixture([[0.5, 0.5]], Gaussian(np.zeros((2, 1)), np.ones((2, 1, 1))))
    found = fit(start, x, "vb", seed=0, max_iter=20_000, tol=1e-5)
    again = found.posterior.update(expect_rows(found.posterior, IndependentRows(start).sequences(x)))
    assert found.status is Status.CONVERGED and found.model.movement(again.mean()) < 1e-5
    flat = int(np.argmax(np.diff(found.objective) < 1e-8)) + 1
    cut = quietly(fit, start, x, "vb", seed=0, max_iter=flat, tol=1e-5)
    assert flat < len(found.objective) - 1 and cut.status is Status.OUT_OF_ITERATIONS


@pytest.mark.parametrize("how", ["vb", "vb of a chain", "vmp", "factors", "trees", "blocks"])
def test_every_kind_of_learner_says_converged_of_parameters_that_rest_only(how):
    """A looser tol ends earlier, and what it leaves is as near to the rest as it says, within a rate."""
    rng = np.random.default_rng(1)
    bits = overlapping()
    x = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 5)) + 0.5 * rng.normal(size=(60, 5))
    chain = HMM([0.5, 0.5], [[0.6, 0.4], [0.3, 0.7]], Categorical([[0.7, 0.3], [0.4, 0.6]]))

    def run(tol):
        options = {"tol": tol, "max_iter": 50_000}
        if how == "vb":
            return fit(two_classes(), columns(bits), "vb", **options)
        if how == "vb of a chain":
            return fit(chain, [0, 0, 0, 1, 1, 1] * 10, "vb", **options)
        if how == "vmp":
            mean, precision = vmp.GaussianNode(0.0, 0.01), vmp.GammaNode(1.0, 1.0)
            return vmp.fit([vmp.GaussianNode(mean, precision, observed=np.array([1.0, 2.0, 3.0]))], **options)
        if how == "factors":
            return fit(FactorAnalysis(2), x, "vb(prune=unused)", seed=0, **options)
        if how == "trees":
            return fit(
                credo.BayesNet.from_edges(), columns(bits[:, :3]), "mixture-of-trees", seed=0, **options
            )
        graph = embedding({"X": 2, "Y": 2}, 2)
        runs = train_blocks(
            graph, {"X": bits[:, 0], "Y": bits[:, 1]}, "ml", epochs=50_000, tol=tol, seed=0, record=False
        )
        return runs.best

    rough, fine = run(1e-2), run(1e-4)
    assert rough.status is fine.status is Status.CONVERGED
    curves = [f.log_likelihood if how == "blocks" else f.objective for f in (rough, fine)]
    assert 1 < len(curves[0]) <= len(curves[1])


def test_mean_field_in_factorial_models_rests_where_it_has_converged():
    model = FactorialHMM(
        [[0.5, 0.5]] * 2,
        [[[0.9, 0.1], [0.2, 0.8]]] * 2,
        Gaussian(np.array([[0.0], [1.0], [1.5], [2.5]]), np.ones((4, 1, 1))),
    )
    x = np.random.default_rng(0).normal(1, 1, (50, 1))
    one, two = (credo.infer(model, "mean-field", data=x, seed=0, max_iter=5000, tol=t) for t in (1e-6, 1e-12))
    assert one.status is two.status is Status.CONVERGED
    gap = max(np.abs(one.marginals[name] - two.marginals[name]).max() for name in one.marginals)
    assert gap < 1e-4
