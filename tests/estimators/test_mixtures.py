"""Mixtures of Gaussians by EM, beside scikit-learn's."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest

import credo
from credo.core.errors import DataError, OptionError, QueryError
from credo.estimators import GaussianMixture

KINDS = ["full", "tied", "diag", "spherical"]


def rows(seed=0):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(m, s, (60, 2)) for m, s in ((-4, 1), (0, 0.5), (5, 1.5))])


@pytest.mark.parametrize("kind", KINDS)
def test_the_maximum_is_that_of_scikit_learn(kind):
    peer = pytest.importorskip("sklearn.mixture").GaussianMixture
    x, means = rows(), np.array([[-3.0, -3.0], [0.0, 1.0], [4.0, 4.0]])
    precisions = {
        "full": [np.eye(2)] * 3,
        "tied": np.eye(2),
        "diag": np.ones((3, 2)),
        "spherical": np.ones(3),
    }
    options = {
        "covariance_type": kind, "weights_init": np.full(3, 1 / 3), "means_init": means,
        "precisions_init": np.array(precisions[kind]), "max_iter": 2000,
    }  # fmt: skip
    theirs = peer(3, reg_covar=0.0, tol=1e-12, random_state=0, **options).fit(x)
    ours = GaussianMixture(3, reg_covar=0.0, tol=1e-8, **options).fit(x)
    np.testing.assert_allclose(ours.weights_, theirs.weights_, atol=1e-5)
    np.testing.assert_allclose(ours.means_, theirs.means_, atol=1e-4)
    np.testing.assert_allclose(ours.covariances_, theirs.covariances_, atol=1e-4)
    np.testing.assert_allclose(ours.precisions_, theirs.precisions_, atol=1e-3)
    np.testing.assert_allclose(ours.predict_proba(x), theirs.predict_proba(x), atol=1e-4)
    np.testing.assert_allclose(ours.score_samples(x), theirs.score_samples(x), atol=1e-4)
    assert ours.bic(x) == pytest.approx(theirs.bic(x)) and ours.aic(x) == pytest.approx(theirs.aic(x))
    assert ours.lower_bound_ == pytest.approx(theirs.lower_bound_) == pytest.approx(ours.score(x))


def test_it_learns_from_its_own_start_and_from_missing_numbers(tmp_path):
    x = rows()
    found = GaussianMixture(3, random_state=0, n_init=3).fit(x)
    np.testing.assert_allclose(np.sort(found.means_[:, 0]), [-4, 0, 5], atol=0.5)
    assert found.converged_ and found.n_iter_ >= 1 and len(found.fit_.restarts) == 3
    assert (found.fit_predict(x) == found.predict(x)).all()
    drawn, labels = found.sample(500, random_state=0)
    assert drawn.shape == (500, 2) and set(labels) == {0, 1, 2}
    x[::7, 0] = np.nan
    assert np.isfinite(GaussianMixture(3, random_state=0).fit(x).score_samples(x)).all()
    credo.save(found, tmp_path / "mixture.credo")
    again = credo.load(tmp_path / "mixture.credo")
    np.testing.assert_array_equal(again.predict(x), pickle.loads(pickle.dumps(found)).predict(x))
    frame = pd.DataFrame(rows(), columns=["a", "b"])
    assert list(GaussianMixture(2, random_state=0).fit(frame).feature_names_in_) == ["a", "b"]


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda x: GaussianMixture(0).fit(x), OptionError, "n_components must be at least 1"),
        (
            lambda x: GaussianMixture(covariance_type="flat").fit(x),
            OptionError,
            "covariance_type must be one",
        ),
        (
            lambda x: GaussianMixture(2, means_init=[[0.0]]).fit(x),
            OptionError,
            "covariances_: expected shape",
        ),
        (lambda x: GaussianMixture(2, reg_covar=-1).fit(x), OptionError, "reg_covar must be at least 0"),
        (lambda x: GaussianMixture(2).predict(x), QueryError, "this GaussianMixture is not fitted yet"),
        (lambda x: GaussianMixture(2).model_, QueryError, "this GaussianMixture is not fitted yet"),
        (lambda x: GaussianMixture(2).fit(np.full((3, 2), np.inf)), DataError, "row 0 has inf"),
        (lambda x: GaussianMixture(2).fit(x.astype(complex)), DataError, "Complex data not supported"),
        (lambda x: GaussianMixture(2).fit(np.empty((3, 0))), DataError, r"with 0 feature\(s\)"),
        (
            lambda x: GaussianMixture(2).fit([[{"a": 1}, 2], [3, 4]]),
            DataError,
            "must be a string or a number",
        ),
    ],
)
def test_refusals(call, kind, message):
    with pytest.raises(kind, match=message):
        call(rows())
