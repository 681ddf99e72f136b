"""Estimators that learn distributions, beside those of hmmlearn and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo.core.errors import DataError, OptionError
from credo.estimators import BayesianFactorAnalysis, VariationalCategoricalHMM, VariationalGaussianHMM
from credo.families import GaussianWishart, NormalGamma

MEANS = np.array([[0.0, 0.0], [5.0, 1.0], [1.0, 6.0]])


def rows(seed=0):
    states = np.repeat(np.random.default_rng(seed).integers(3, size=40), 5)
    return MEANS[states] + np.random.default_rng(seed + 1).normal(size=(200, 2))


def in_order(means):
    return means[np.argsort(means @ [1.0, 3.0])]


@pytest.mark.parametrize("kind", ["full", "diag"])
def test_expected_parameters_are_those_of_hmmlearn_under_the_same_priors(kind):
    peer = pytest.importorskip("hmmlearn.vhmm").VariationalGaussianHMM
    x, scale = rows(), 0.5 * np.eye(2) if kind == "full" else np.full(2, 0.5)
    own = {"startprob_prior": 0.5, "transmat_prior": 0.5, "beta_prior": 1.0, "means_prior": x.mean(axis=0)}
    ours = VariationalGaussianHMM(3, kind, dof_prior=4.0, scale_prior=scale, random_state=0, tol=1e-8, **own)
    theirs = peer(
        3, kind, startprob_prior=np.full(3, 0.5), transmat_prior=np.full((3, 3), 0.5),
        dof_prior=np.full(3, 4.0), beta_prior=np.ones(3),
        means_prior=np.tile(x.mean(axis=0), (3, 1)), scale_prior=np.array([scale] * 3),
        random_state=0, n_iter=500, tol=1e-10,
    ).fit(x)  # fmt: skip
    ours.fit(x)
    np.testing.assert_allclose(in_order(ours.means_), in_order(theirs.means_posterior_), atol=2e-3)
    moves = np.sort(np.diag(ours.transmat_))
    other = theirs.transmat_posterior_ / theirs.transmat_posterior_.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(moves, np.sort(np.diag(other)), atol=2e-3)
    assert ours.lower_bound_ == ours.fit_.evidence.value and (np.diff(ours.fit_.objective) > -1e-9).all()
    assert isinstance(ours.posterior_.emissions, GaussianWishart if kind == "full" else NormalGamma)
    assert ours.covars_.shape == (3, 2, 2) and ours.covariances_.shape == (
        (3, 2, 2) if kind == "full" else (3, 2)
    )


def test_expected_tables_of_symbols_are_those_of_hmmlearn_under_the_same_priors():
    peer = pytest.importorskip("hmmlearn.vhmm").VariationalCategoricalHMM
    rng = np.random.default_rng(3)
    states = np.repeat(rng.integers(2, size=40), 6)
    x = np.array([rng.choice(4, p=[[0.7, 0.1, 0.1, 0.1], [0.1, 0.1, 0.2, 0.6]][k]) for k in states])[:, None]
    ours = VariationalCategoricalHMM(
        2, startprob_prior=0.5, transmat_prior=0.5, emissionprob_prior=0.5, random_state=0, tol=1e-6, n_init=1
    ).fit(x)
    theirs = peer(
        2, startprob_prior=0.5, transmat_prior=0.5, emissionprob_prior=0.5, random_state=0, n_iter=100,
        tol=1e-7,
    ).fit(x)  # fmt: skip
    tables = theirs.emissionprob_posterior_ / theirs.emissionprob_posterior_.sum(axis=1, keepdims=True)
    mine, other = (t[t[:, 0].argsort()] for t in (ours.emissionprob_, tables))
    np.testing.assert_allclose(mine, other, atol=2e-3)
    assert ours.lower_bound_ < ours.score(x) and ours.posterior_.states == 2
    with pytest.raises(OptionError, match="params: expected 'ste', for every part gets a distribution"):
        VariationalCategoricalHMM(2, params="st").fit(x)


def test_a_variational_model_is_saved_and_refuses_with_a_sentence(tmp_path):
    found = VariationalGaussianHMM(2, random_state=0, n_init=1).fit(rows())
    credo.save(found, tmp_path / "hmm.credo")
    np.testing.assert_array_equal(credo.load(tmp_path / "hmm.credo").predict(rows()), found.predict(rows()))
    with pytest.raises(OptionError, match="covariance_type must be one of"):
        VariationalGaussianHMM(2, "tied").fit(rows())
    with pytest.raises(OptionError, match="params: expected 'stmc'"):
        VariationalGaussianHMM(2, params="mc").fit(rows())


def test_factors_are_found_and_their_covariance_is_that_of_scikit_learn():
    peer = pytest.importorskip("sklearn.decomposition").FactorAnalysis
    rng = np.random.default_rng(0)
    z = rng.normal(size=(500, 2))
    x = z @ rng.normal(size=(2, 7)) + 0.5 * rng.normal(size=(500, 7)) + 3.0
    found = BayesianFactorAnalysis(5, random_state=0).fit(x)
    assert found.n_components_ == 2 == found.transform(x).shape[1] and found.components_.shape == (2, 7)
    theirs = peer(2, tol=1e-3, max_iter=5000).fit(x)
    np.testing.assert_allclose(found.get_covariance(), theirs.get_covariance(), atol=0.1)
    np.testing.assert_allclose(found.noise_variance_, theirs.noise_variance_, atol=0.05)
    np.testing.assert_allclose(found.mean_, x.mean(axis=0), atol=1e-3)
    assert found.score(x) == pytest.approx(theirs.score(x), abs=0.01)
    assert found.lower_bound_ < 500 * found.score(x)
    left = [np.linalg.lstsq(some.transform(x), z, rcond=None)[1] for some in (found, theirs)]
    assert (left[0] < 1.05 * left[1]).all()  # of the factors that made the rows, after a rotation
    x[::5, 2] = np.nan
    assert np.isfinite(BayesianFactorAnalysis(2, random_state=0).fit(x).score_samples(x)).all()
    with pytest.raises(DataError, match=r"with 1 sample\(s\)"):
        BayesianFactorAnalysis().fit(x[:1])
    with pytest.raises(OptionError, match="prune must be one of"):
        BayesianFactorAnalysis(prune="no").fit(x)
