"""Variational message passing: equal to variational Bayes where both apply, exact where nothing is lost."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import credo
from credo.core.errors import DataError, ModelError
from credo.families import Categorical, Dirichlet
from credo.families.mixture import Mixture, MixturePrior
from credo.learning import VariationalBayes, fit, vmp
from credo.learning.evidence import table_evidence
from credo.models import FactorAnalysis


def test_a_mixture_of_categoricals_is_the_same_by_both_roads():
    x = np.array([0, 0, 1, 2, 2, 2, 1, 0, 3, 3, 3, 3])
    first = Mixture([[0.4, 0.6]], Categorical(np.random.default_rng(0).dirichlet(np.ones(4), 2)))
    shares = first.responsibilities(x)[:, 0]
    prior = MixturePrior(Dirichlet(np.full((1, 2), 0.7)), Dirichlet(np.full((1, 4), 0.6)))
    one = fit(first, x, VariationalBayes(prior=prior), tol=1e-13)
    weights, rows = vmp.DirichletNode(np.full(2, 0.7)), vmp.DirichletNode(np.full((2, 4), 0.6))
    choice = vmp.CategoricalNode(weights, shape=len(x))
    data = vmp.CategoricalNode(rows, choose=choice, observed=x)
    two = vmp.fit([data], start={choice: (np.log(shares),)}, tol=1e-13)
    assert two.evidence.value == pytest.approx(one.evidence.value, abs=1e-8)
    np.testing.assert_allclose(
        two.posterior[choice][0], credo.infer(one.posterior, data=x).marginals["component"], atol=1e-5
    )


def test_a_latent_class_network_is_the_same_by_both_roads():
    model = credo.BayesNet.random({"h": 2, "a": 2, "b": 3}, {"a": ["h"], "b": ["h"]}, seed=0)
    states = credo.sample(model, 60, seed=1).indices
    columns = {"a": states[:, 1], "b": states[:, 2]}
    one = fit(model, columns, "vb(start=given)", tol=1e-12, max_iter=5000)
    weights = vmp.DirichletNode(np.ones(2))
    hidden = vmp.CategoricalNode(weights, shape=60)
    nodes = [
        vmp.CategoricalNode(vmp.DirichletNode(np.ones((2, size))), choose=hidden, observed=columns[name])
        for name, size in (("a", 2), ("b", 3))
    ]
    two = vmp.fit(nodes, restarts=8, seed=0, tol=1e-12, max_iter=5000)
    best = fit(model, columns, "vb(restarts=8)", tol=1e-12, max_iter=5000, seed=0)
    assert two.evidence.value == pytest.approx(max(best.evidence.value, one.evidence.value), abs=1e-4)


def test_a_network_without_hidden_variables_has_its_exact_evidence():
    model = credo.BayesNet.random({"a": 2, "b": 3}, seed=0)
    states = credo.sample(model, 30, seed=1).indices
    nodes = [
        vmp.CategoricalNode(vmp.DirichletNode(np.ones(s)), observed=states[:, i])
        for i, s in enumerate((2, 3))
    ]
    found = vmp.fit(nodes)
    exact = table_evidence(model, states, "uniform(count=1)").value
    assert found.evidence.value == pytest.approx(exact, abs=1e-9)


def test_linear_regression_with_known_noise_is_exact():
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(20, 3))
    y = inputs @ [1.0, -2.0, 0.5] + 0.3 * rng.normal(size=20)
    weights = vmp.VectorNode(3, 0.5)
    found = vmp.fit([vmp.GaussianNode(vmp.DotNode(weights, inputs), 1 / 0.09, observed=y)])
    exact = multivariate_normal(np.zeros(20), inputs @ inputs.T / 0.5 + 0.09 * np.eye(20)).logpdf(y)
    assert found.evidence.value == pytest.approx(exact, abs=1e-8)
    precision = inputs.T @ inputs / 0.09 + 0.5 * np.eye(3)
    np.testing.assert_allclose(
        found.posterior[weights][0], np.linalg.solve(precision, inputs.T @ y / 0.09), atol=1e-8
    )


def test_factor_analysis_at_fixed_hyper_parameters_is_the_same_by_both_roads():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 1)) @ rng.normal(size=(1, 4)) * 2 + 0.5 * rng.normal(size=(40, 4))
    x[3, 1] = np.nan
    found = fit(FactorAnalysis(1), x, "vb", seed=0, tol=1e-12, max_iter=5000)
    q = found.posterior
    loadings, latent = vmp.VectorNode(1, q.alpha, shape=4), vmp.VectorNode(1, shape=(40, 1))
    data = vmp.GaussianNode(vmp.DotNode(loadings, latent), 1 / q.noise, observed=x - q.centre)
    other = vmp.fit([data], seed=0, tol=1e-12, max_iter=5000)
    assert other.evidence.value == pytest.approx(found.evidence.value, abs=1e-4)
    np.testing.assert_allclose(np.abs(other.posterior[loadings][0]), np.abs(q.loadings), atol=1e-2)


def mixture(x, count=3):
    mean, precision = vmp.GaussianNode(0.0, 0.01, shape=count), vmp.GammaNode(1.0, 1.0, shape=count)
    choice = vmp.CategoricalNode(vmp.DirichletNode(np.full(count, 0.1)), shape=len(x))
    return mean, choice, vmp.GaussianNode(mean, precision, choose=choice, observed=x)


def two_clusters():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(-4, 1, 40), rng.normal(4, 0.5, 60)])
    x[5] = np.nan
    return x


def test_every_single_update_raises_the_free_energy():
    _, _, data = mixture(two_clusters())
    model = vmp.MessageModel([data])
    q = model.start(np.random.default_rng(1)).parameters
    value = model.free_energy(q)
    for _ in range(10):
        for node in model.hidden:
            q = model.updated(q, node)
            after = model.free_energy(q)
            assert after > value - 1e-10
            value = after


def test_a_gaussian_mixture_finds_its_clusters_and_leaves_missing_values_open():
    mean, choice, data = mixture(two_clusters())
    found = vmp.fit([data], seed=0, restarts=3, tol=1e-8)
    share = found.posterior[choice][0].sum(axis=0)
    used = share > 1
    np.testing.assert_allclose(np.sort(found.posterior[mean][0][used]), [-4, 4], atol=0.5)
    assert found.evidence.kind == "lower" and len(found.posterior) == 4
    assert set(found.posterior) == set(found.posterior.model.hidden)


def test_the_free_energy_of_mean_and_precision_is_below_the_exact_evidence():
    """Mean and precision are independent in the prior here, so the evidence is a double integral."""
    x = np.array([0.3, 1.2, 0.7])
    mean, precision = vmp.GaussianNode(0.0, 0.5), vmp.GammaNode(2.0, 1.0)
    found = vmp.fit([vmp.GaussianNode(mean, precision, observed=x)])
    m, t = np.meshgrid(np.linspace(-12, 12, 801), np.linspace(1e-4, 25, 1200), indexing="ij")
    logs = -0.25 * m**2 + 0.5 * np.log(0.5 / (2 * np.pi)) + np.log(t) - t
    for value in x:
        logs = logs + 0.5 * np.log(t / (2 * np.pi)) - 0.5 * t * (value - m) ** 2
    exact = np.log(np.exp(logs).sum() * (24 / 800) * ((25 - 1e-4) / 1199))
    assert exact - 0.5 < found.evidence.value < exact


def test_a_hidden_gaussian_between_others_is_treated():
    """A chain of means: exact, because with known precisions everything is Gaussian."""
    top = vmp.GaussianNode(1.0, 2.0)
    x = np.array([0.5, 2.0])
    found = vmp.fit([vmp.GaussianNode(top, 4.0, observed=x)])
    exact = multivariate_normal([1.0, 1.0], 0.5 + 0.25 * np.eye(2)).logpdf(x)
    assert found.evidence.value == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize(
    "call, kind, message",
    [
        (lambda: vmp.fit([vmp.GaussianNode(0.0, 1.0)]), DataError, "expected an observed one, got none"),
        (lambda: vmp.fit(["x"]), ModelError, "expected nodes of vmp, got str"),
        (
            lambda: vmp.GaussianNode(vmp.GammaNode(1.0, 1.0), 1.0),
            ModelError,
            "mean: expected GaussianNode or DotNode or numbers, which are conjugate, got GammaNode",
        ),
        (
            lambda: vmp.GaussianNode(0.0, vmp.GaussianNode()),
            ModelError,
            "precision: expected GammaNode or numbers",
        ),
        (lambda: vmp.GaussianNode(0.0, -1.0), ModelError, "precision: expected positive numbers"),
        (lambda: vmp.GaussianNode(observed=[np.inf]), DataError, "observed: expected finite numbers"),
        (
            lambda: vmp.GaussianNode(shape=3, observed=[1.0]),
            DataError,
            r"observed: expected shape \(3,\), got \(1,\)",
        ),
        (lambda: vmp.GaussianNode(np.zeros(3), 1.0, observed=[1.0, 2.0]), ModelError, "does not broadcast"),
        (
            lambda: vmp.GaussianNode(np.zeros(3), 1.0, choose=vmp.GaussianNode(), observed=[1.0]),
            ModelError,
            "choose: expected a CategoricalNode, got GaussianNode",
        ),
        (lambda: vmp.GammaNode(0.0, 1.0), ModelError, "GammaNode: expected positive shapes"),
        (
            lambda: vmp.DirichletNode([1.0, 0.0]),
            ModelError,
            "DirichletNode: expected positive",
        ),
        (lambda: vmp.CategoricalNode([0.5, 0.6]), ModelError, "rows sum to 1"),
        (
            lambda: vmp.CategoricalNode([0.5, 0.5], observed=[2]),
            DataError,
            "expected state indices from 0 to 1",
        ),
        (lambda: vmp.CategoricalNode(vmp.GammaNode()), ModelError, "probabilities: expected DirichletNode"),
        (
            lambda: vmp.DotNode(vmp.VectorNode(2), np.zeros((4, 3))),
            ModelError,
            "vectors of one size, got 2 and 3",
        ),
        (
            lambda: vmp.DotNode(vmp.VectorNode(2), vmp.GaussianNode()),
            ModelError,
            "DotNode: expected vectors or arrays, got GaussianNode",
        ),
        (
            lambda: vmp.DotNode(vmp.VectorNode(2), [np.nan, 0.0]),
            ModelError,
            "DotNode: expected finite numbers",
        ),
        (
            lambda: vmp.fit([vmp.GaussianNode(vmp.GaussianNode(observed=[1.0]), 1.0, observed=[1.0])]),
            ModelError,
            "expected no children, got one",
        ),
        (
            lambda: vmp.fit([vmp.GaussianNode(observed=[1.0])]).posterior[vmp.GaussianNode()],
            ModelError,
            "expected a node of this model",
        ),
    ],
)
def test_refusals(call, kind, message):
    with pytest.raises(kind, match=message):
        call()
