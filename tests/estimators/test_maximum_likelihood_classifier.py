"""One density per class, against naive Bayes of scikit-learn and against the likelihoods themselves."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB

import credo
from credo.core.errors import DataError, OptionError, QueryError, ZeroProbabilityError
from credo.estimators import MaximumLikelihoodClassifier
from credo.families import Categorical, DiagonalGaussian

MEMBER = DiagonalGaussian([[0.0, 0.0]], [[1.0, 1.0]])
RNG = np.random.default_rng(0)
Y = np.repeat(["a", "b", "c"], [30, 50, 20])
X = RNG.normal(0, 1, (100, 2)) * np.repeat([[1.0], [2.0], [0.5]], [30, 50, 20], axis=0)
X += np.repeat([[0.0, 0.0], [2.0, 1.0], [-1.0, 2.0]], [30, 50, 20], axis=0)


def walks(count, stay, seed):
    """Sequences that switch between 0 and 4, and how long they stay is what tells classes apart."""
    hmm = credo.HMM(
        [0.5, 0.5], [[stay, 1 - stay], [1 - stay, stay]], DiagonalGaussian([[0.0], [4.0]], [[1.0], [1.0]])
    )
    x, _ = credo.sample(hmm, lengths=[12] * count, seed=seed)
    return list(np.asarray(x).reshape(count, 12, 1))


@pytest.mark.parametrize("priors", [None, "counts"])
def test_gaussians_of_independent_columns_are_naive_bayes(priors):
    found = MaximumLikelihoodClassifier(MEMBER, priors=priors).fit(X, Y)
    peer = GaussianNB(priors=None if priors else [1 / 3] * 3, var_smoothing=0).fit(X, Y)
    np.testing.assert_allclose(found.predict_proba(X), peer.predict_proba(X), atol=1e-9)
    assert (found.predict(X) == peer.predict(X)).all() and found.score(X, Y) == peer.score(X, Y)


def test_a_class_is_added_and_the_others_are_not_touched():
    some = np.isin(Y, ["a", "c"])
    found = MaximumLikelihoodClassifier(MEMBER, random_state=3).fit(X[some], Y[some])
    before = found.models_
    found.add_class("b", X[~some])
    assert found.classes_.tolist() == ["a", "b", "c"] and found.counts_.tolist() == [30, 50, 20]
    assert all(found.models_[label] is model for label, model in before.items())
    whole = MaximumLikelihoodClassifier(MEMBER, random_state=3).fit(X, Y)
    np.testing.assert_array_equal(found.predict_proba(X), whole.predict_proba(X))


def test_sequences_are_told_apart_by_how_they_move():
    slow, fast = walks(25, 0.9, 1), walks(25, 0.3, 2)
    X, y = [*slow, *fast], np.repeat([7, 3], 25)
    start = credo.HMM([0.5, 0.5], [[0.6, 0.4], [0.4, 0.6]], DiagonalGaussian([[-1.0], [3.0]], [[2.0], [2.0]]))
    found = MaximumLikelihoodClassifier(start, options={"max_iter": 200, "tol": 1e-3}).fit(X, y)
    logs = found.log_likelihoods(X)
    assert logs[4, 0] == pytest.approx(credo.log_likelihood(found.models_[3], X[4]).value)
    assert found.predict(X).tolist() == np.array([3, 7])[logs.argmax(axis=1)].tolist()
    assert found.score([*walks(20, 0.9, 3), *walks(20, 0.3, 4)], np.repeat([7, 3], 20)) > 0.85
    table = np.concatenate(X)
    again = MaximumLikelihoodClassifier(start, options={"max_iter": 200, "tol": 1e-3}).fit(
        table, y, [12] * 50
    )
    np.testing.assert_allclose(again.log_likelihoods(table, [12] * 50), logs)


def test_a_state_that_one_class_never_shows_is_known_to_all():
    frame = pd.DataFrame({"colour": ["red", "blue", "red", "green"] * 5})
    y = np.array([0, 1, 0, 1] * 5)
    blank = credo.Mixture.blank(1, {"colour": "categorical"})
    found = MaximumLikelihoodClassifier(blank, random_state=0).fit(frame, y)
    assert found.predict(frame).tolist() == y.tolist()
    assert np.isneginf(found.log_likelihoods(frame)[1, 0])


def test_models_differ_by_class_if_they_are_told_to():
    sizes = {"a": 1, "b": 2, "c": 1}
    found = MaximumLikelihoodClassifier(
        lambda label, data: credo.Mixture.blank(sizes[label], "diagonal"), learner="em(floor=0.01)",
        options={"tol": 1e-2}, random_state=0,
    ).fit(X, Y)  # fmt: skip
    assert [len(m.components) for m in found.models_.values()] == [1, 2, 1]
    named = MaximumLikelihoodClassifier({label: MEMBER for label in "abc"}).fit(X, Y)
    np.testing.assert_array_equal(named.predict(X), MaximumLikelihoodClassifier(MEMBER).fit(X, Y).predict(X))


def test_learning_goes_on_from_what_was_learned():
    blank = credo.Mixture.blank(2, "diagonal")
    few = MaximumLikelihoodClassifier(
        blank, learner="em(floor=0.01)", options={"max_iter": 1, "tol": 10.0}, warm_start=True, random_state=0
    )
    first = few.fit(X, Y).log_likelihoods(X)
    own = [first[Y == c, k].sum() for k, c in enumerate("abc")]
    second = few.fit(X, Y).log_likelihoods(X)
    assert all(second[Y == c, k].sum() > own[k] for k, c in enumerate("abc"))


def test_tuned_models_tell_the_training_rows_apart_more_surely():
    found = MaximumLikelihoodClassifier(MEMBER, priors="counts", random_state=0).fit(X, Y)
    right = np.searchsorted(found.classes_, Y)
    before, models = found.predict_log_proba(X)[np.arange(100), right].mean(), found.models_
    found.tune(X, Y, epochs=5, rate=0.02)
    after = found.predict_log_proba(X)[np.arange(100), right].mean()
    assert after > before + 1e-3
    expected = credo.learning.discriminate(models, X, Y, epochs=5, rate=0.02, batch=32, seed=0)
    assert after == pytest.approx(expected.objective[-1])
    np.testing.assert_array_equal(found.models_["b"].mean, expected.models["b"].mean)
    with pytest.raises(DataError, match="label 'z' has no model"):
        found.tune(X, ["z"] * 100)


def test_weights_of_classes_move_the_border():
    half = MaximumLikelihoodClassifier(MEMBER, priors={"a": 1, "b": 0, "c": 1}).fit(X, Y)
    assert "b" not in half.predict(X) and half.predict_proba(X)[:, 1].max() == 0


@pytest.mark.parametrize(
    ("options", "X_", "y", "error", "said"),
    [
        ({}, X, Y[:5], DataError, r"expected 100 labels, one per row, got shape \(5,\)"),
        ({}, [X, X], Y, DataError, "expected 2 labels, one per sequence"),
        ({}, X[:0], Y[:0], DataError, r"with 0 sample\(s\)"),
        ({"priors": {"a": 1.0}}, X, Y, OptionError, "a weight of every class, got none of 'b'"),
        ({"priors": {"a": -1.0, "b": 1, "c": 1}}, X, Y, OptionError, "non-negative weights"),
        ({"priors": "shares"}, X, Y, OptionError, "priors must be one of"),
        ({"model": {"a": MEMBER}}, X, Y, OptionError, "expected one for class 'b' too"),
        ({"random_state": -1}, X, Y, OptionError, "random_state must be at least 0"),
        ({}, [["x", "y"]] * 100, Y, DataError, "class 'a': "),
    ],
)
def test_refusals(options, X_, y, error, said):
    with pytest.raises(error, match=said):
        MaximumLikelihoodClassifier(**{"model": MEMBER, **options}).fit(X_, y)


def test_more_refusals():
    with pytest.raises(QueryError, match="not fitted yet; call fit first"):
        MaximumLikelihoodClassifier(MEMBER, warm_start=True).predict(X)
    found = MaximumLikelihoodClassifier(MEMBER).fit(X, Y)
    with pytest.raises(DataError, match="there is a class 'a' already"):
        found.add_class("a", X)
    with pytest.raises(DataError, match=r"lengths: expected whole numbers that sum to 100 rows, got 99"):
        found.fit(X, ["a", "b"], [50, 49])
    coins = MaximumLikelihoodClassifier(Categorical([[0.4, 0.3, 0.3]])).fit([0, 1, 0, 1], [0, 0, 1, 1])
    with pytest.raises(ZeroProbabilityError, match="X: number 1 is impossible for every class"):
        coins.predict([0, 2])


def test_without_a_model_columns_are_gaussian_by_themselves():
    found = MaximumLikelihoodClassifier(priors="counts").fit(X, Y)
    np.testing.assert_allclose(
        found.predict_proba(X), GaussianNB(var_smoothing=0).fit(X, Y).predict_proba(X), atol=1e-6
    )
    frame = pd.DataFrame(X, columns=["u", "v"])
    assert list(found.fit(frame, Y).feature_names_in_) == ["u", "v"]
    with pytest.raises(DataError, match="Feature names seen at fit time, yet now missing:\n- v"):
        found.predict(frame.rename(columns={"v": "w"}))


@pytest.mark.parametrize(
    ("y", "said"),
    [
        (None, "requires y to be passed, but the target y is None"),
        (np.linspace(0, 1, 100), "Unknown label type: continuous"),
        (np.full(100, np.nan), "y contains NaN"),
        (np.array([None, *Y[1:]], dtype=object), "y contains NaN or None"),
    ],
)
def test_labels_are_known_and_no_measurements(y, said):
    with pytest.raises(DataError, match=said):
        MaximumLikelihoodClassifier().fit(X, y)
    with pytest.warns(UserWarning, match="A column-vector y was passed"):
        MaximumLikelihoodClassifier().fit(X, Y[:, None])
