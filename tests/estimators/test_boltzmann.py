"""Boltzmann machines as estimators: beside scikit-learn's, in pipelines, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo.core.errors import DataError
from credo.estimators import BernoulliRBM, ConditionalRBMClassifier, GaussianRBM, InfiniteRBM


def bars(count=200):
    return np.repeat(np.random.default_rng(0).integers(0, 2, (count, 2)), 2, axis=1).astype(float)


def test_columns_and_densities_are_those_of_the_machine():
    x = bars()
    found = BernoulliRBM(3, n_iter=5, random_state=0).fit(x)
    model = found.model_
    np.testing.assert_array_equal(found.transform(x), model.hidden_given(x))
    np.testing.assert_allclose(found.score_samples(x), model.log_density(x), atol=1e-12)
    assert found.score(x) == pytest.approx(model.log_density(x).mean())
    assert found.components_.shape == (3, 4) and found.n_features_in_ == 4
    np.testing.assert_array_equal(found.intercept_hidden_, model.hidden_bias)
    np.testing.assert_array_equal(found.intercept_visible_, model.visible_bias)
    np.testing.assert_allclose(found.reconstruct(x), model.visible_given(model.hidden_given(x)))
    assert set(np.unique(found.gibbs(x))) <= {0.0, 1.0} and found.sample(5).shape == (5, 4)
    far = found.gibbs(np.tile(x[:1], (20_000, 1)), sweeps=30)
    states = np.array([[a, b, c, d] for a in (0, 1) for b in (0, 1) for c in (0, 1) for d in (0, 1)])
    exact = np.exp(model.log_density(states)) @ states
    np.testing.assert_allclose(far.mean(axis=0), exact, atol=0.02)
    assert list(found.get_feature_names_out()) == ["bernoullirbm0", "bernoullirbm1", "bernoullirbm2"]


def test_it_stands_where_scikit_learns_stands():
    peers = pytest.importorskip("sklearn.neural_network")
    linear = pytest.importorskip("sklearn.linear_model")
    pipeline = pytest.importorskip("sklearn.pipeline")
    x = bars()
    y = (x[:, 0] != x[:, 2]).astype(int)  # which no weights of single columns can tell
    options = {"n_components": 4, "learning_rate": 0.3, "n_iter": 60, "batch_size": 20, "random_state": 0}
    scores = []
    for kind in (BernoulliRBM, peers.BernoulliRBM):
        made = pipeline.make_pipeline(kind(**options), linear.LogisticRegression(C=100))
        scores.append(made.fit(x, y).score(x, y))
    assert scores[0] >= scores[1] - 0.05 and scores[0] > 0.9


def test_log_z_of_wide_machines_is_annealed(monkeypatch):
    x = bars()
    found = BernoulliRBM(3, n_iter=5, random_state=0).fit(x)
    exact = found.log_z()
    monkeypatch.setattr("credo.estimators.boltzmann._SUMMED", 1)
    assert found.log_z() != exact and found.log_z() == pytest.approx(exact, abs=0.1)


@pytest.mark.parametrize("kind", [BernoulliRBM, GaussianRBM, InfiniteRBM])
def test_epochs_come_one_by_one(kind):
    x = bars()
    options = {"n_chains": 50} if kind is InfiniteRBM else {"n_iter": 3}
    made = kind(3, random_state=0, **options)
    for k in range(3):
        made.partial_fit(x)
        assert made.n_iter_ == k + 1
    assert made.transform(x).shape == (200, 3)
    first = made.score(x)
    assert np.isfinite(first) and np.isfinite(made.gibbs(x)).all() and made.sample(2).shape == (2, 4)
    with pytest.raises(ValueError, match="X has 3 features"):
        made.partial_fit(x[:, :3])


def test_outputs_that_depend_on_each_other_are_predicted_by_what_learned_them():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    y = np.column_stack([x[:, 0] > 0, x[:, 0] <= 0, x[:, 1] > 0]).astype(int)
    for negative in ("bp", "margin", "joint-margin", "cd"):
        made = ConditionalRBMClassifier(2, learning_rate=0.5, n_iter=10, negative=negative, random_state=0)
        made.fit(x, y)
        assert made.score(x, y) > 0.9
        p = made.predict_proba(x)
        assert p.shape == (300, 3) and ((p > 0.5) == y).mean() > 0.9
        assert set(np.unique(made.predict(x))) == {0, 1}
    stopped = ConditionalRBMClassifier(0, n_iter=40, learning_rate=1.0, patience=3, random_state=0).fit(x, y)
    assert stopped.fit_.stopped_early and stopped.score(x, y) > 0.95
    assert isinstance(stopped.model_, credo.ConditionalRBM)


def test_what_is_no_probability_is_refused():
    for X, sentence in (
        (2.0 * bars(), "expected numbers from 0 to 1, got 2"),
        (np.full((3, 2), np.nan), "row 0 has NaN"),
    ):
        with pytest.raises(DataError, match=sentence):
            BernoulliRBM(2).fit(X)
    made = ConditionalRBMClassifier(2)
    with pytest.raises(DataError, match="requires y to be passed"):
        made.fit(bars(), None)
    with pytest.raises(DataError, match=r"y: expected a table \(rows, outputs\) of two-state outputs"):
        made.fit(bars(), bars()[:, 0])
    with pytest.raises(ValueError, match="is not fitted yet; call fit first"):
        made.predict(bars())
