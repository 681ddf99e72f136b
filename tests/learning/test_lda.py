"""Topic models: recovery beside scikit-learn, where training ends, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_matrix
from scipy.special import digamma

import credo
from credo.core.errors import ConvergenceWarning, CredoError, DataError, OptionError, QueryError
from credo.core.result import Status
from credo.estimators import BetheLDA
from credo.inference.variational import topic_beliefs, topic_objective
from credo.models import TopicModel


@pytest.fixture(scope="module")
def corpus():
    rng = np.random.default_rng(0)
    K, V, D = 3, 30, 64
    topics = rng.dirichlet(np.full(V, 0.1), size=K)
    mixed = rng.dirichlet(np.full(K, 0.3), size=2 * D)
    X = np.array([rng.multinomial(50, t @ topics) for t in mixed])
    return topics, X[:D], X[D:]


@pytest.fixture(scope="module")
def fitted(corpus):
    return BetheLDA(3, n_init=2, random_state=3, tol=1e-3, max_iter=200).fit(corpus[1])


def _distance(topics, found):
    far = np.abs(topics[:, None] - found[None]).sum(axis=2) / 2
    return far[linear_sum_assignment(far)].mean()


def _completion(topics, prior, X):
    """Perplexity of half of the words of each document, given the other half: the same judge for all."""
    rng, total, count = np.random.default_rng(1), 0.0, 0
    for row in X:
        known = rng.binomial(row, 0.5)
        t = np.full(len(topics), 1 / len(topics))
        for _ in range(50):
            share = topics.T * t
            t = known @ (share / share.sum(axis=1, keepdims=True)) + prior
            t /= t.sum()
        total += (row - known) @ np.log(topics.T @ t)
        count += (row - known).sum()
    return np.exp(-total / count)


def test_topics_are_recovered_as_well_as_by_scikit_learn(corpus, fitted):
    from sklearn.decomposition import LatentDirichletAllocation

    topics, X, held = corpus
    theirs = min(
        (LatentDirichletAllocation(3, max_iter=40, random_state=s).fit(X) for s in range(2)),
        key=lambda model: model.perplexity(X),
    )
    other = theirs.components_ / theirs.components_.sum(axis=1, keepdims=True)
    assert _distance(topics, fitted.topics_) < 0.08
    assert _distance(topics, fitted.topics_) < _distance(topics, other) + 0.02
    ours = _completion(fitted.topics_, fitted.doc_topic_prior_, held)
    assert ours < 1.02 * _completion(other, 1 / 3, held)
    assert fitted.perplexity(held) < 1.02 * theirs.perplexity(held)
    shares = fitted.transform(held)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    np.testing.assert_array_equal(shares, fitted.transform(csr_matrix(held)))


def test_the_value_of_one_component_is_that_of_scikit_learn(corpus, fitted):
    from sklearn.decomposition import LatentDirichletAllocation

    X = corpus[1]
    gamma = float(fitted.doc_topic_prior_.mean())
    ours = BetheLDA(3, random_state=0).set_params(mean_change_tol=1e-6, max_doc_update_iter=1000)
    ours.weights_, ours.concentrations_ = fitted.weights_, fitted.concentrations_
    ours.doc_topic_prior_, ours.n_features_in_ = np.full(3, gamma), 30
    theirs = LatentDirichletAllocation(
        3, doc_topic_prior=gamma, max_iter=1, random_state=0, mean_change_tol=1e-6, max_doc_update_iter=1000
    ).fit(X)
    theirs.components_ = fitted.concentrations_[0]
    mean = digamma(theirs.components_) - digamma(theirs.components_.sum(axis=1))[:, None]
    theirs.exp_dirichlet_component_ = np.exp(mean)
    shared = topic_objective.Global(np.zeros(1), fitted.concentrations_, np.full(3, gamma))
    of_topics = topic_objective.topic_value(shared, 1 / 3, None, closed=True, joint=False)
    assert ours.score(X) + float(of_topics) == pytest.approx(theirs.score(X), rel=1e-5)


def test_training_ends_where_mean_field_stands_still(corpus, fitted):
    X = corpus[1]
    assert (np.diff(fitted.objective_) > -1e-3).all()
    theta, _, words = fitted._documents(X)
    counts = np.zeros_like(fitted.components_)
    for row, pi, a in zip(X, words, theta, strict=True):
        used = np.flatnonzero(row)
        weighted = row[used, None] * pi[0]
        counts[:, used] += weighted.T
        np.testing.assert_allclose(a[0], fitted.doc_topic_prior_ + weighted.sum(axis=0), atol=0.1)
    np.testing.assert_allclose(fitted.components_, 1 / 3 + counts, rtol=0.02, atol=0.2)
    assigned = fitted.assign(X)
    assert assigned.shape == X.shape and assigned.nnz == (X > 0).sum()
    first = np.flatnonzero(X[0])
    np.testing.assert_array_equal(assigned[[0], :].toarray()[0][first], words[0][0].argmax(axis=1))


@pytest.mark.slow
def test_batches_mixtures_and_samples_reach_a_similar_value(corpus, fitted):
    _, X, held = corpus
    for options in (
        {"batch_size": 16, "max_iter": 40},
        {"mixtures": 2, "max_iter": 60, "samples": 4},
        {"mixtures": 2, "max_iter": 60, "samples": 4, "entropy": "joint", "learn_weights": False},
        {"expectations": "samples", "max_iter": 60},
    ):
        model = BetheLDA(3, random_state=3, tol=0, max_doc_update_iter=50, **options).fit(X)
        assert model.weights_.sum() == pytest.approx(1)
        assert model.perplexity(held) < 1.15 * fitted.perplexity(held), options
    few = {"mixtures": 2, "max_iter": 3, "samples": 4, "tol": 0, "random_state": 3}
    one, other = (BetheLDA(3, **few).fit(X).components_ for _ in range(2))
    np.testing.assert_array_equal(one, other)


def test_the_noise_of_few_samples_has_bounds():
    """Few points, always the same: without bounds concentrations grow until they are no numbers."""
    rng = np.random.default_rng(10)
    settings = topic_beliefs.TopicSettings(samples=3, closed=True, joint=False, weights=True, prior=True)
    counts = rng.poisson(1.0, (8, 8)).astype(float)
    documents = topic_beliefs.Documents(np.tile(np.arange(8), (8, 1)), counts, np.ones(8))
    topics = rng.gamma(1.0, 3.0, (1, 2, 8)) * rng.gamma(100.0, 0.01, (2, 2, 8))
    shared = topic_beliefs.Global(np.log([0.5, 0.5]), topics, np.array([0.1, 0.6]))
    found = topic_beliefs.fit_documents(shared, documents, (200, 0.0), settings, rng)
    assert np.isfinite(found.values).all()
    assert (found.local.theta.sum(axis=2) <= counts.sum(axis=1)[:, None] + 0.7 + 1e-9).all()
    assert not np.asarray(topic_beliefs.natural(np.ones((2, 1)), np.ones((2, 1)))).any()  # one topic


def test_documents_of_several_components_end_after_few_steps():
    """Their expectations are sampled and never settle: a limit on steps must not be what ends them."""
    rng = np.random.default_rng(0)
    settings = topic_beliefs.TopicSettings(samples=4, closed=True, joint=False, weights=True, prior=True)
    counts = rng.poisson(2.0, (8, 8)).astype(float)
    documents = topic_beliefs.Documents(np.tile(np.arange(8), (8, 1)), counts, np.ones(8))
    topics = rng.gamma(1.0, 3.0, (1, 2, 8)) * rng.gamma(100.0, 0.01, (3, 2, 8))
    shared = topic_beliefs.Global(np.log(np.full(3, 1 / 3)), topics, np.array([0.3, 0.6]))
    few, many = (
        topic_beliefs.fit_documents(shared, documents, (limit, 0.0), settings, np.random.default_rng(1))
        for limit in (300, 600)
    )
    np.testing.assert_allclose(few.local.theta, many.local.theta, atol=1e-6)


def test_a_falling_rate_is_no_convergence_and_no_time_gives_the_start(corpus):
    X = corpus[1]
    with pytest.warns(ConvergenceWarning, match="4 passes were too few"):
        slow = BetheLDA(3, random_state=0, batch_size=16, learning_offset=1e9, max_iter=4, tol=1e-2).fit(X)
    assert slow.status_ is Status.OUT_OF_ITERATIONS
    none = BetheLDA(3, random_state=0, mixtures=2, seconds=0).fit(X)
    assert none.status_ is Status.OUT_OF_TIME
    assert none.n_iter_ <= 1 and np.isfinite(none.topics_).all()


def test_refusals(corpus, fitted):
    X = corpus[1]
    with pytest.raises(DataError, match="Negative values in data passed to BetheLDA"):
        BetheLDA(2).fit([[1, -1]])
    with pytest.raises(DataError, match="at least one word"):
        BetheLDA(2).fit(np.zeros((2, 3)))
    with pytest.raises(DataError, match="Expected 2D array, got 1D"):
        BetheLDA(2).fit([1, 2])
    with pytest.raises(DataError, match="X has 29 features, but BetheLDA is expecting 30"):
        fitted.transform(X[:, :29])
    with pytest.raises(QueryError, match="not fitted yet"):
        BetheLDA(2).transform(X)
    with pytest.raises(QueryError, match="no highest point"):
        fitted.topic_modes()
    assert fitted.topic_modes("softmax").shape == (3, 30)
    for options, says in [
        ({"learning_decay": 0.3}, "learning_decay"),
        ({"doc_topic_prior": [1.0]}, "doc_topic_prior"),
        ({"entropy": "none"}, "entropy must be one of"),
        ({"topic_word_prior": 0.0}, "topic_word_prior"),
        ({"seconds": -1}, "seconds must be at least 0"),
    ]:
        with pytest.raises(OptionError, match=says):
            BetheLDA(2, **options).fit(X)
    with pytest.warns(ConvergenceWarning, match="1 passes were too few"):
        BetheLDA(3, random_state=2, max_iter=1, tol=1e-6).fit(X)


def test_a_topic_model_is_fitted_asked_drawn_from_saved_and_continued(corpus, tmp_path):
    X = corpus[1]
    found = credo.fit(TopicModel(3), X, seed=3)
    assert found.learner == "topics" and found.evidence.kind == "lower"
    mine = BetheLDA(3, random_state=3).fit(X)
    np.testing.assert_allclose(mine.components_, found.model.concentrations[0])
    known = credo.infer(found.model, data=X[:5])
    np.testing.assert_allclose(known.marginals["topic"], mine.transform(X[:5]), atol=1e-6)
    assert credo.log_likelihood(found.model, X[:5]).value == pytest.approx(known.each.sum())
    counts, theta = credo.sample(found.model, lengths=[7, 0], seed=1)
    assert counts.sum(axis=1).tolist() == [7, 0] and theta.shape == (2, 3)
    credo.save(found, tmp_path / "topics.credo")
    again = credo.fit(credo.load(tmp_path / "topics.credo"), X, max_iter=3, tol=0.01)
    assert again.objective[0] == pytest.approx(found.objective[-1], abs=1e-3)


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda m, X: credo.infer(m, data=X), "this TopicModel is a blank, it has no topics; fit it first"),
        (lambda m, X: credo.fit(m, X, "em"), "TopicModel"),
        (lambda m, X: credo.fit(m, X, targets=[1]), "only random fields have labels"),
        (lambda m, X: credo.fit(m, X, lengths=[1]), "lengths: documents are rows of counts"),
        (lambda m, X: credo.fit(m, X, validation=0.5), "leave out validation"),
        (lambda m, X: credo.fit(credo.HMM.gaussian(2), X, "topics"), "it learns topics of documents"),
        (lambda m, X: credo.log_likelihood(m, X, inference="bp"), "inference: documents are rows of counts"),
        (lambda m, X: TopicModel(2, weights=[1.0]), "expected concentrations beside them"),
        (lambda m, X: TopicModel(2, concentrations=np.ones((1, 3, 2))), "expected positive numbers"),
        (lambda m, X: TopicModel(1, concentrations=np.ones((1, 1, 2)), weights=[2]), "that sum to 1"),
        (lambda m, X: m.to_factor_graph(), "a TopicModel is asked about documents"),
        (
            lambda m, X: credo.infer(m.with_beliefs(np.ones((1, 2, 9)), [1.0], 1.0), data=X),
            "X: expected 9 words, as in fit, got 30",
        ),
        (
            lambda m, X: credo.infer(m.with_beliefs(np.ones((1, 2, 30)), [1.0], 1.0), data=X, causal=True),
            "expected a question about frequencies of topics",
        ),
    ],
)
def test_what_topic_models_refuse(corpus, ask, sentence):
    with pytest.raises(CredoError, match=sentence):
        ask(TopicModel(2), corpus[1])
