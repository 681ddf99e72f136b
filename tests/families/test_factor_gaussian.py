"""Factor analysis by maximum likelihood: against scikit-learn, principal components and its own slope."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import credo
from credo.core.errors import ModelError
from credo.families import FactorGaussian, Gaussian, Mixture
from credo.families.factor_gaussian import _Profile, fit_factors
from credo.models import FactorAnalysis

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 2)) @ RNG.normal(size=(2, 8)) + 0.5 * RNG.normal(size=(300, 8))
COVARIANCE = np.cov(X.T, bias=True)


def test_the_profile_has_the_slope_of_its_differences():
    noise = RNG.uniform(0.2, 1.5, 8)
    here = _Profile.at(COVARIANCE, noise, 3)
    for d in range(8):
        step = 1e-6 * np.eye(8)[d]
        ahead, behind = (_Profile.at(COVARIANCE, noise + s, 3).value for s in (step, -step))
        assert here.slope[d] == pytest.approx((ahead - behind) / 2e-6, abs=1e-6)


def test_the_profile_is_the_likelihood_with_the_loadings_that_it_tells():
    noise = RNG.uniform(0.2, 1.5, 8)
    here = _Profile.at(COVARIANCE, noise, 2)
    member = FactorGaussian([X.mean(axis=0)], [here.loadings], [noise])
    constant = 4 * np.log(2 * np.pi)
    assert -here.value - constant == pytest.approx(float(member.log_density(X).mean()), abs=1e-10)
    turned = here.loadings + 0.01 * RNG.normal(size=here.loadings.shape)
    assert FactorGaussian([X.mean(axis=0)], [turned], [noise]).log_density(X).mean() < -here.value - constant


@pytest.mark.parametrize("factors", [1, 2, 3])
def test_no_likelihood_is_below_that_of_scikit_learn(factors):
    peers = pytest.importorskip("sklearn.decomposition")
    found = credo.fit(FactorAnalysis(factors), X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where a variance tends to zero it needs more iterations than these
        peer = peers.FactorAnalysis(factors, tol=1e-8, max_iter=300).fit(X)
    assert found.log_likelihood.value > peer.score(X) * 300 - 1e-6
    if factors == 2:  # with others the variance of a column tends to zero, which both approach slowly
        np.testing.assert_allclose(found.model.covariances[0], peer.get_covariance(), rtol=1e-5, atol=1e-5)


def test_one_variance_for_all_columns_makes_principal_components():
    found = credo.fit(FactorAnalysis(2, "isotropic"), X).model
    values, vectors = np.linalg.eigh(COVARIANCE)
    left = values[:-2].mean()
    expected = (vectors[:, -2:] * (values[-2:] - left)) @ vectors[:, -2:].T + left * np.eye(8)
    np.testing.assert_allclose(found.covariances[0], expected, atol=1e-10)
    assert found.n_parameters == 8 + 1 + 16 - 1 and np.ptp(found.noise) == 0


def test_expected_factors_are_those_of_the_joint_gaussian_missing_cells_too():
    model = credo.fit(FactorAnalysis(2), X).model
    rows = X[:5].copy()
    rows[1, 3] = rows[2, :4] = np.nan
    loadings = model.loadings[0]
    for row, found in zip(rows, model.latent(rows)[:, 0], strict=True):
        seen = ~np.isnan(row)
        inner = np.linalg.solve(model.covariances[0][np.ix_(seen, seen)], (row - model.mean[0])[seen])
        np.testing.assert_allclose(found, loadings[seen].T @ inner, atol=1e-10)


def test_a_step_never_lowers_the_likelihood_in_mixtures_and_with_missing_cells():
    rows = np.vstack([X, 0.3 * X[:100] + 4.0])
    rows[RNG.random(rows.shape) < 0.05] = np.nan
    start = Mixture([[0.5, 0.5]], FactorGaussian(np.zeros((2, 8)), np.zeros((2, 8, 1)), np.ones((2, 8))))
    found = credo.fit(start, rows, "em(start=random)", seed=0, max_iter=60, tol=1e-3)
    assert (np.diff(found.objective) > -1e-9).all() and len(found.objective) > 3
    assert isinstance(found.model.components, FactorGaussian)


def test_more_factors_than_columns_explain_no_more_than_a_full_covariance():
    loadings, noise = fit_factors(COVARIANCE, 9)
    assert loadings.shape == (8, 9)
    full = Gaussian([X.mean(axis=0)], [COVARIANCE]).log_density(X).sum()
    found = FactorGaussian([X.mean(axis=0)], [loadings], [noise]).log_density(X).sum()
    assert found == pytest.approx(full, abs=1e-4)


def test_numbers_of_factors_are_compared_by_every_criterion():
    table = credo.compare_models(
        {str(k): FactorAnalysis(k) for k in (1, 2, 3)}, X, criteria=["bic", "vb", "cv"]
    )
    assert [row.parameters for row in table] == [24, 31, 37]
    assert max(table, key=lambda row: row.bic).model == max(table, key=lambda row: row.vb).model == "2"
    assert all(row.cv is not None and row.vb < row.log_likelihood for row in table)


def test_a_table_keeps_the_names_of_its_columns(tmp_path):
    frame = {name: X[:, k] for k, name in enumerate("abcdefgh")}
    for learner in ("em", "vb(prune=unused)"):
        found = credo.fit(FactorAnalysis(2), frame, learner, seed=0)
        assert found.model.names == tuple("abcdefgh")
        credo.save(found, tmp_path / "fit.credo")
        again = credo.load(tmp_path / "fit.credo").model
        assert credo.log_likelihood(again, frame) == credo.log_likelihood(found.model, frame)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: FactorGaussian([[0.0]], [[[1.0]]], [[1.0, 2.0]]),
            "noise: expected a variance for every row",
        ),
        (lambda: FactorGaussian([[0.0]], [[[1.0]]], [[0.0]]), "noise: expected variances above zero, got 0"),
        (
            lambda: FactorGaussian([[0.0, 0.0]], [[[1.0], [1.0]]], [[1.0, 2.0]], isotropic=True),
            "noise: expected one variance for all columns",
        ),
        (
            lambda: FactorGaussian([[0.0]], [[1.0]], [[1.0]]),
            r"loadings: expected shape \(members, columns, factors\)",
        ),
        (
            lambda: credo.fit(FactorAnalysis(1), [[1.0, 2.0], [2.0, 2.0], [3.0, 2.0]]),
            "noise: column 1 does not vary, which leaves no variance; leave it out, or give a floor",
        ),
    ],
)
def test_refusals(make, said):
    with pytest.raises((ModelError, credo.CredoError), match=said):
        make()
