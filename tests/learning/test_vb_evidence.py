"""Evidence: closed forms against integration, Laplace on Gaussians, BIC, nested tests, model posteriors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta, gamma, norm, poisson

from credo import BayesNet
from credo.core.errors import ConvergenceWarning, DataError, OptionError, UnsupportedError
from credo.data.table import StateTable
from credo.families import Dirichlet, Gamma, GaussianWishart, NormalGamma
from credo.learning.evidence import (
    bic,
    conjugate_evidence,
    laplace,
    laplace_tables,
    model_posterior,
    nested_test,
    table_evidence,
)


def test_beta_bernoulli_by_quadrature():
    x = np.array([0, 0, 1, 0, 1])
    exact = quad(lambda p: beta(1.5, 2.0).pdf(p) * p**3 * (1 - p) ** 2, 0, 1)[0]
    assert conjugate_evidence(Dirichlet([[1.5, 2.0]]), x).value == pytest.approx(np.log(exact), abs=1e-8)


def test_gamma_poisson_by_quadrature():
    x = np.array([2.0, 0.0, 3.0])
    exact = quad(lambda r: gamma(1.5, scale=1 / 0.7).pdf(r) * np.prod(poisson(r).pmf(x)), 0, 40)[0]
    assert conjugate_evidence(Gamma([1.5], [0.7]), x).value == pytest.approx(np.log(exact), abs=1e-7)


@pytest.mark.parametrize(
    "prior",
    [
        NormalGamma([[0.2]], [[0.7]], [[1.5]], [[0.8]]),
        GaussianWishart([[0.2]], [0.7], [3.0], [[[1.6]]]),
    ],
)
def test_gaussians_by_quadrature(prior):
    """A Wishart with n degrees in one dimension is a gamma with shape n/2 and rate S/2."""
    x = np.array([0.5, -0.2, 1.1])

    means = np.linspace(-8.0, 8.0, 1601)[:, None]
    t = np.linspace(1e-4, 25.0, 4000)[None, :]
    logs = norm(0.2, (0.7 * t) ** -0.5).logpdf(means) + gamma(1.5, scale=1 / 0.8).logpdf(t)
    for value in x:
        logs = logs + norm(means, t**-0.5).logpdf(value)
    exact = np.exp(logs).sum() * 0.01 * (t[0, 1] - t[0, 0])
    assert conjugate_evidence(prior, x[:, None]).value == pytest.approx(np.log(exact), abs=1e-3)


def test_laplace_is_exact_for_gaussians():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, 3))
    precision, centre = root @ root.T + np.eye(3), rng.normal(size=3)
    found = laplace(lambda t: 1.7 - 0.5 * float((t - centre) @ precision @ (t - centre)), np.zeros(3))
    exact = 1.7 + 1.5 * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(precision)[1]
    assert found.evidence.value == pytest.approx(exact, abs=1e-4)
    np.testing.assert_allclose(found.mode, centre, atol=1e-5)
    np.testing.assert_allclose(found.covariance, np.linalg.inv(precision), rtol=1e-3)


def test_laplace_of_bayesian_regression_is_its_evidence():
    rng = np.random.default_rng(0)
    x, noise = rng.normal(size=(15, 2)), 0.3
    y = x @ [1.0, -1.0] + noise * rng.normal(size=15)

    def joint(w):
        return norm(x @ w, noise).logpdf(y).sum() + norm(0, 1).logpdf(w).sum()

    cov = x @ x.T + noise**2 * np.eye(15)
    exact = -0.5 * (y @ np.linalg.solve(cov, y) + np.linalg.slogdet(2 * np.pi * cov)[1])
    assert laplace(joint, np.zeros(2)).evidence.value == pytest.approx(exact, abs=1e-3)


def test_laplace_of_tables_agrees_with_the_general_one_and_nears_the_exact_evidence():
    model = BayesNet.random({"a": 3}, seed=0)
    rows = np.array([[0]] * 7 + [[1]] * 4 + [[2]] * 2)
    counts = np.array([7.0, 4.0, 2.0])

    def joint(t):
        logs = np.append(t, 0.0) - np.log(np.exp(np.append(t, 0.0)).sum())
        return float((counts + 1.0) @ logs) + np.log(2.0)  # the density of the log-ratios: theta once more

    general = laplace(joint, np.zeros(2)).evidence.value
    closed = laplace_tables(model, rows, "uniform(count=1)").value
    assert closed == pytest.approx(general, abs=1e-3)
    gaps = []
    for times in (1, 10, 100):
        many = np.repeat(rows, times, axis=0)
        exact = table_evidence(model, many, "uniform(count=1)").value
        gaps.append(abs(laplace_tables(model, many, "uniform(count=1)").value - exact))
    assert gaps[0] > gaps[1] > gaps[2] and gaps[2] < 1e-2


def test_laplace_by_differences_equals_the_closed_form():
    """One missing cell of an unrelated variable, whose own integral is one, changes nothing else."""
    model = BayesNet.random({"a": 2, "b": 2}, {"b": ["a"]}, seed=0)
    rows = np.array([[0, 0]] * 5 + [[1, 1]] * 4 + [[0, 1], [1, 0]])
    full = laplace_tables(model, rows, "uniform(count=1)").value
    half = np.vstack([rows, [[0, -1]]])
    found = laplace_tables(model, StateTable.from_states(model.variables, half), "uniform(count=1)").value
    alone = laplace_tables(BayesNet.random({"a": 2}, seed=0), half[:, :1], "uniform(count=1)").value
    alone -= laplace_tables(BayesNet.random({"a": 2}, seed=0), rows[:, :1], "uniform(count=1)").value
    assert found == pytest.approx(full + alone, abs=1e-4)


def test_bic_is_its_formula_and_stays_near_the_evidence():
    assert bic(-12.5, 3, 100) == -12.5 - 1.5 * np.log(100)
    model, gaps = BayesNet.random({"a": 2}, seed=0), []
    for n in (100, 1000, 10000):
        rows = (np.arange(n) % 4 == 0).astype(int)[:, None]
        likelihood = n * (0.75 * np.log(0.75) + 0.25 * np.log(0.25))
        gaps.append(bic(likelihood, 1, n) - table_evidence(model, rows, "uniform(count=1)").value)
    assert np.ptp(gaps) < 0.02 and abs(gaps[-1]) < 1.0  # the error neither grows nor vanishes


def test_nested_tests_reject_at_their_level():
    """Polynomials: the truth is a line, so a line is preferred to a constant and kept against a parabola."""
    rng, kept = np.random.default_rng(0), 0
    for _ in range(200):
        t = np.linspace(-1, 1, 50)
        y = 1 + 2 * t + 0.5 * rng.normal(size=50)
        fits = []
        for degree in (0, 1, 2):
            rest = y - np.polyval(np.polyfit(t, y, degree), t)
            fits.append((float(norm(0, 0.5).logpdf(rest).sum()), degree + 1))
        assert nested_test(fits[0], fits[1]).rejects()
        kept += not nested_test(fits[1], fits[2]).rejects()
    assert 0.9 < kept / 200 < 0.99


def test_the_posterior_of_models_weighs_evidence_and_prior():
    np.testing.assert_allclose(model_posterior([np.log(0.2), np.log(0.6)]), [0.25, 0.75])
    np.testing.assert_allclose(model_posterior([-1e4, -1e4 + np.log(3)], [3, 1]), [0.5, 0.5])
    np.testing.assert_allclose(model_posterior([-np.inf, 0.0]), [0, 1])


def test_impossible_data_have_evidence_zero():
    model = BayesNet({"a": 2}, tables={"a": [1.0, 0.0]})
    assert table_evidence(model, [[0], [1]]).value == -np.inf
    assert laplace_tables(model, [[0], [1]]).value == -np.inf
    assert table_evidence(model, [[0], [0]]).value == 0.0


@pytest.mark.parametrize(
    "call, kind, message",
    [
        (
            lambda: conjugate_evidence(Dirichlet([[1.0, 1.0]]), []),
            DataError,
            "got none|expected state indices",
        ),
        (
            lambda: conjugate_evidence(NormalGamma([[0.0]], [[1.0]], [[1.0]], [[1.0]]), [[np.nan]]),
            DataError,
            "expected complete rows for a closed form",
        ),
        (
            lambda: table_evidence(BayesNet.random({"a": 2, "b": 2}, seed=0), {"a": [0]}),
            DataError,
            "expected complete rows for a closed form",
        ),
        (
            lambda: laplace(lambda t: -np.inf, [0.0]),
            OptionError,
            "start: expected parameters with a finite log_joint",
        ),
        (
            lambda: laplace(lambda t: -float(t[0] ** 2), [0.1, 0.1]),
            UnsupportedError,
            "the data leave some parameters open",
        ),
        (
            lambda: nested_test((-1.0, 3), (-1.0, 3)),
            OptionError,
            "expected more parameters in the second, got 3 and 3",
        ),
        (lambda: model_posterior([-np.inf, -np.inf]), OptionError, "not all of them -inf"),
        (lambda: model_posterior([0.0, 0.0], [0.0, 0.0]), OptionError, "prior: expected 2 numbers"),
        (
            lambda: laplace_tables(BayesNet.random({"a": 30, "b": 30}, {"b": ["a"]}, seed=0), {"a": [0]}),
            UnsupportedError,
            "expected at most 400 free parameters",
        ),
    ],
)
def test_refusals(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_laplace_with_hidden_values_says_when_its_mode_was_not_found():
    model = BayesNet.random({"a": 2, "b": 2}, {"b": ["a"]}, seed=0)
    rows = StateTable.from_states(model.variables, np.array([[0, 0], [1, 1], [0, -1], [-1, 1]]))
    with pytest.warns(ConvergenceWarning, match="laplace_tables: max_iter was reached; raise it"):
        laplace_tables(model, rows, "uniform(count=1)", max_iter=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(laplace_tables(model, rows, "uniform(count=1)").value)
