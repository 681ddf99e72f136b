"""The Bethe value of topic models by quadrature: forms, gradients, exact evidence, entropy bound, modes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import digamma, gammaln, roots_jacobi
from scipy.stats import dirichlet

from credo.core.errors import ModelError, QueryError
from credo.estimators import BetheLDA
from credo.families.dirichlet_mixture import mixture_mode
from credo.inference.variational import topic_beliefs, topic_objective
from credo.learning.lda_bound import dirichlet_log_overlap, entropy_bound, entropy_bound_slopes

# Two topics, two words, two components; document 0 has words 0, 0, 1 and document 1 has words 1, 1.
WORDS = np.array([[0, 1], [1, 0]])
COUNTS = np.array([[2.0, 1.0], [2.0, 0.0]])
ETA = 1.3
NODES = 20


def _beliefs(components=2, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "logits": rng.normal(size=components) * 0.5,
        "topics": 3.0 + rng.gamma(2.0, size=(components, 2, 2)),
        "prior": np.array([0.8, 1.4]),
        "theta": 3.0 + rng.gamma(2.0, size=(2, components, 2)),
        "scores": rng.normal(size=(2, components, 2, 2)),  # logits of the topics of words
    }


def _softmax(x):
    weight = np.exp(x - x.max(axis=-1, keepdims=True))
    return weight / weight.sum(axis=-1, keepdims=True)


def _beta_nodes(a):
    """Nodes (NODES, 2) on the simplex and weights for the density Dir(a) of two coordinates."""
    x, w = roots_jacobi(NODES, a[1] - 1, a[0] - 1)
    x = (x + 1) / 2
    return np.stack([x, 1 - x], axis=1), w / w.sum()


def _topic_nodes(alpha):
    """Nodes (NODES^2, 2, 2) of both topics, and weights."""
    (x, v), (y, w) = (_beta_nodes(a) for a in alpha)
    nodes = [np.stack([a, b]) for a, b in itertools.product(x, y)]
    return np.array(nodes), np.outer(v, w).ravel()


def _dir(x, a):
    """Dirichlet density at points (..., 2)."""
    return np.exp(((a - 1) * np.log(x)).sum(-1) - gammaln(a).sum() + gammaln(a.sum()))


class _Dense:
    """The free energy term by term, integrals by Gauss-Jacobi quadrature: nothing of the library."""

    def __init__(self, b):
        self.b = b
        self.weights = _softmax(b["logits"])
        self.pi = _softmax(b["scores"])  # (document, component, word, topic)
        self.M = range(len(self.weights))

    def topic_density(self, k, x):
        return sum(self.weights[m] * _dir(x, self.b["topics"][m, k]) for m in self.M)

    def joint_density(self, x, which=None):
        share = self.weights if which is None else self.weights * which
        return sum(
            share[m] * _dir(x[..., 0, :], self.b["topics"][m, 0]) * _dir(x[..., 1, :], self.b["topics"][m, 1])
            for m in self.M
        )

    def theta_density(self, d, x, which=None):
        share = self.weights if which is None else self.weights * which
        return sum(share[m] * _dir(x, self.b["theta"][d, m]) for m in self.M)

    def over_topic(self, k, f):
        total = 0.0
        for m in self.M:
            x, w = _beta_nodes(self.b["topics"][m, k])
            total += self.weights[m] * (w @ f(x))
        return total

    def over_topics(self, f):
        """E under b_beta, f given the points and the component they come from."""
        total = 0.0
        for m in self.M:
            x, w = _topic_nodes(self.b["topics"][m])
            total += self.weights[m] * (w @ f(x, m))
        return total

    def over_theta(self, d, f):
        total = 0.0
        for m in self.M:
            x, w = _beta_nodes(self.b["theta"][d, m])
            total += self.weights[m] * (w @ f(x, m))
        return total

    def tokens(self):
        return [(d, u, c) for d, row in enumerate(COUNTS) for u, c in enumerate(row) if c]

    def priors(self):
        def log_prior(x, a):
            return ((a - 1) * np.log(x)).sum(-1) - gammaln(a).sum() + gammaln(a.sum())

        eta = np.full(2, ETA)
        topics = sum(self.over_topic(k, lambda x: log_prior(x, eta)) for k in range(2))
        return topics + sum(self.over_theta(d, lambda x, m: log_prior(x, self.b["prior"])) for d in range(2))

    def expectation_form(self, joint=False):
        """(7.6); `joint` replaces the entropies of the single topics by that of all."""
        value = self.priors()
        if joint:
            value -= self.over_topics(lambda x, m: np.log(self.joint_density(x)))
        else:
            value -= sum(
                self.over_topic(k, lambda x, k=k: np.log(self.topic_density(k, x))) for k in range(2)
            )
        for d in range(2):
            n = COUNTS[d].sum()
            value -= (1 - n) * self.over_theta(d, lambda x, m, d=d: np.log(self.theta_density(d, x)))
        for d, u, c in self.tokens():
            pi, v = self.pi[d, :, u], WORDS[d, u]
            b = self.weights @ pi
            value += c * (b @ np.log(b)) + c * self.over_topics(lambda x, m: np.log(self.joint_density(x)))
            for z in range(2):
                value += c * self.over_topics(
                    lambda x, m, z=z, pi=pi, v=v: (
                        pi[m, z] * (np.log(x[:, z, v]) - np.log(self.joint_density(x, pi[:, z])))
                    )
                )
                value += c * self.over_theta(
                    d,
                    lambda x, m, z=z, pi=pi, d=d: (
                        pi[m, z] * (np.log(x[:, z]) - np.log(self.theta_density(d, x, pi[:, z])))
                    ),
                )
        return value

    def energy_form(self):
        """(7.5): node entropies less mutual informations."""
        value = self.priors()
        value -= sum(self.over_topic(k, lambda x, k=k: np.log(self.topic_density(k, x))) for k in range(2))
        value -= sum(self.over_theta(d, lambda x, m, d=d: np.log(self.theta_density(d, x))) for d in range(2))
        for d, u, c in self.tokens():
            pi, v = self.pi[d, :, u], WORDS[d, u]
            b = self.weights @ pi
            value -= c * (b @ np.log(b))
            for z in range(2):
                value += c * self.over_topics(
                    lambda x, m, z=z, pi=pi, v=v, b=b: (
                        pi[m, z]
                        * (
                            np.log(x[:, z, v])
                            - np.log(self.joint_density(x, pi[:, z]) / (b[z] * self.joint_density(x)))
                        )
                    )
                )
                value += c * self.over_theta(
                    d,
                    lambda x, m, z=z, pi=pi, d=d, b=b: (
                        pi[m, z]
                        * (
                            np.log(x[:, z])
                            - np.log(self.theta_density(d, x, pi[:, z]) / (b[z] * self.theta_density(d, x)))
                        )
                    ),
                )
        return value


def _arrays(b):
    """The same beliefs in the library's form, with the quadrature as points."""
    M = len(b["logits"])
    shared = topic_objective.Global(b["logits"], b["topics"], b["prior"])
    local = topic_objective.Local(b["theta"], _softmax(b["scores"]))
    documents = topic_objective.Documents(WORDS, COUNTS, np.ones(2))
    topics = [_topic_nodes(b["topics"][m]) for m in range(M)]
    thetas = [[_beta_nodes(b["theta"][d, m]) for m in range(M)] for d in range(2)]
    points = topic_objective.Points(
        np.log([x for x, _ in topics]),
        np.array([w for _, w in topics]),
        np.log([[x for x, _ in row] for row in thetas]),
        np.array([[w for _, w in row] for row in thetas]),
    )
    return shared, local, documents, points


def test_all_forms_of_the_value_agree():
    b = _beliefs()
    dense = _Dense(b)
    expected = dense.expectation_form()
    assert dense.energy_form() == pytest.approx(expected, abs=1e-8)
    for closed, joint in ((True, False), (False, True)):
        found = topic_beliefs.free_energy(*_arrays(b), ETA, closed=closed, joint=joint)
        assert found == pytest.approx(dense.expectation_form(joint), abs=2e-4)
    assert abs(dense.expectation_form(True) - expected) > 1e-3  # two components: the switch matters
    one = _beliefs(1)
    shared, local, documents, _ = _arrays(one)
    without = topic_beliefs.free_energy(shared, local, documents, None, ETA, closed=True, joint=False)
    assert without == pytest.approx(_Dense(one).expectation_form(), abs=1e-4)
    assert without == pytest.approx(_Dense(one).expectation_form(joint=True), abs=1e-4)


def _slopes(b):
    import jax

    from credo.nn.arrays import precision
    from credo.nn.compiled import Compiled

    def value(shared, local, documents, points):
        of_documents = topic_objective.document_values(shared, local, documents, points, closed=True).sum()
        return of_documents + topic_objective.topic_value(shared, ETA, points, closed=True, joint=False)

    with precision(double=True):
        shared, local = jax.tree.map(np.asarray, Compiled(jax.grad(value, argnums=(0, 1)))(*_arrays(b)))
    return shared, local


def _numeric(b, name, at, step=1e-5):
    values = []
    for s in (step, -step):
        part = b[name].copy()
        part[at] += s
        values.append(_Dense({**b, name: part}).expectation_form())
    return (values[0] - values[1]) / (2 * step)


def _through_softmax(pi, slope):
    return pi * (slope - (pi * slope).sum(axis=-1, keepdims=True))


def test_gradients_equal_finite_differences_and_the_word_count_is_needed():
    b = _beliefs()
    shared, local = _slopes(b)
    found = {
        "logits": shared.logits,  # (A.5) through the soft-max
        "topics": shared.topics,  # (A.3)
        "prior": shared.prior,
        "theta": local.theta,  # (A.4)
        "scores": _through_softmax(local_words(b), local.words),  # (A.2) through the soft-max
    }
    printed = _through_softmax(local_words(b), local.words / np.maximum(COUNTS, 1)[:, None, :, None])
    places = {
        "logits": [(0,), (1,)],
        "topics": [(0, 0, 1), (1, 1, 0)],
        "prior": [(0,), (1,)],
        "theta": [(0, 0, 0), (1, 1, 1)],
        "scores": [(0, 0, 0, 1), (0, 1, 1, 0)],
    }
    for name, positions in places.items():
        for at in positions:
            numeric = _numeric(b, name, at)
            assert found[name][at] == pytest.approx(numeric, abs=3e-4), (name, at)
            if name == "scores" and COUNTS[at[0], at[2]] == 2:
                assert abs(printed[at] - numeric) > 0.02


def local_words(b):
    return _softmax(b["scores"])


def _log_evidence(prior):
    """All topics of all tokens enumerated, theta and beta integrated out."""
    tokens = [
        (d, w) for d, row in enumerate(COUNTS) for u, c in enumerate(row) for w in [WORDS[d, u]] * int(c)
    ]

    def log_b(a):
        return gammaln(a).sum() - gammaln(a.sum())

    terms = []
    for z in itertools.product(range(2), repeat=len(tokens)):
        in_document, in_topic = np.zeros((2, 2)), np.zeros((2, 2))
        for (d, w), k in zip(tokens, z, strict=True):
            in_document[d, k] += 1
            in_topic[k, w] += 1
        terms.append(
            sum(log_b(prior + n) - log_b(prior) for n in in_document)
            + sum(log_b(ETA + n) - log_b(np.full(2, ETA)) for n in in_topic)
        )
    return np.logaddexp.reduce(terms)


def _tiny_counts():
    X = np.zeros((2, 2))
    for d, row in enumerate(COUNTS):
        np.add.at(X[d], WORDS[d], row)
    return X


def test_the_value_of_a_tiny_corpus_is_below_its_exact_evidence():
    prior = np.array([0.8, 1.4])
    exact = _log_evidence(prior)
    model = BetheLDA(
        2,
        doc_topic_prior=prior,
        topic_word_prior=ETA,
        learn_prior=False,
        tol=1e-12,
        mean_change_tol=1e-10,
        random_state=0,
    ).fit(_tiny_counts())
    assert model.objective_[-1] <= exact
    assert model.objective_[-1] > exact - 1.5
    assert (np.diff(model.objective_) > -1e-6).all()
    # Any beliefs of one component are below it too.
    for seed in range(5):
        b = {**_beliefs(1, seed), "prior": prior}
        assert _Dense(b).expectation_form() <= exact


def test_ten_thousand_words_stay_finite():
    rng = np.random.default_rng(0)
    V, K, M = 10_000, 2, 2
    shared = topic_objective.Global(np.zeros(M), rng.gamma(0.1, size=(M, K, V)) + 1e-3, np.full(K, 0.1))
    words = rng.choice(V, size=(2, 8), replace=False)
    documents = topic_objective.Documents(words, rng.integers(1, 5, size=(2, 8)).astype(float), np.ones(2))
    local = topic_objective.Local(
        rng.gamma(1.0, size=(2, M, K)) + 0.01, rng.dirichlet(np.ones(K), size=(2, M, 8))
    )
    settings = topic_beliefs.TopicSettings(4, True, False, True, True)
    points = topic_beliefs.topic_points(shared, settings, rng)
    assert np.isfinite(points.log_topics).all()
    log_theta = np.log(rng.dirichlet(np.full(K, 0.5), size=(2, M, 4)))
    points = points._replace(log_theta=log_theta, theta_weights=np.full((2, M, 4), 0.25))
    for joint in (False, True):
        assert np.isfinite(
            topic_beliefs.free_energy(shared, local, documents, points, 0.1, closed=True, joint=joint)
        )


def test_samples_of_logs_of_dirichlets_have_the_right_moments():
    rng = np.random.default_rng(0)
    a = np.array([0.01, 0.7, 5.0])
    log_g, e = topic_beliefs.log_gammas(a, 40000, rng)
    drawn = log_g - e / a
    log_x = drawn - np.logaddexp.reduce(drawn, axis=1)[:, None]
    expected = digamma(a) - digamma(a.sum())
    np.testing.assert_allclose(log_x.mean(axis=0), expected, rtol=0.02)


@pytest.mark.slow
def test_more_components_come_closer_to_the_evidence_of_a_tiny_corpus():
    prior = np.array([0.8, 1.4])
    values = []
    for mixtures in (1, 2, 3):
        model = BetheLDA(
            2, mixtures=mixtures, doc_topic_prior=prior, topic_word_prior=ETA, learn_prior=False, samples=100,
            entropy="joint", tol=0, random_state=0,
        ).fit(_tiny_counts())  # fmt: skip
        values.append(model.objective_[-20:].mean())
    assert values[0] < values[1] - 0.5 < values[2] < _log_evidence(prior)


def test_modes_equal_a_search_on_a_grid():
    rng = np.random.default_rng(3)
    grid = np.array([(i, j, 200 - i - j) for i in range(201) for j in range(201 - i)]) / 200
    for _ in range(5):
        weights, alpha = rng.dirichlet(np.ones(3)), 1.0 + rng.gamma(2.0, 2.0, size=(3, 3))
        inner = grid[(grid > 0).all(axis=1)]
        values = sum(w * dirichlet.pdf(inner.T, a) for w, a in zip(weights, alpha, strict=True))
        found = mixture_mode(weights, alpha)
        assert found.sum() == pytest.approx(1)
        assert np.abs(found - inner[values.argmax()]).max() < 0.01
        at = sum(w * dirichlet.pdf(found, a) for w, a in zip(weights, alpha, strict=True))
        assert at >= values.max() * (1 - 1e-9)
    np.testing.assert_allclose(mixture_mode([1.0], [[0.5, 1.5]], basis="softmax"), [0.25, 0.75])
    np.testing.assert_allclose(mixture_mode([1.0, 0.0], [[1.0, 1.0], [0.1, 0.1]]), [0.5, 0.5])
    with pytest.raises(QueryError, match="no highest point"):
        mixture_mode([1.0], [[0.5, 1.5]])


def _entropy_arguments(seed=0):
    rng = np.random.default_rng(seed)
    M, N, K, V = 2, 2, 2, 2
    return [
        rng.dirichlet(np.ones(M)),
        rng.dirichlet(np.ones(K), size=(M, N)),
        1.0 + rng.gamma(2.0, size=(M, K)),
        1.0 + rng.gamma(2.0, size=(M, K, V)),
    ]


def test_the_entropy_bound_is_below_the_entropy_of_samples():
    w, pi, a, c = _entropy_arguments()
    rng = np.random.default_rng(0)
    which = rng.choice(2, size=20000, p=w)
    z = (rng.random((20000, 2)) > pi[which, :, 0]).astype(int)
    theta = np.array([rng.dirichlet(a[m]) for m in which])
    beta = np.array([[rng.dirichlet(c[m, k]) for k in range(2)] for m in which])
    terms = [
        np.log(w[m])
        + np.log(pi[m, np.arange(2), z]).sum(axis=1)
        + np.log(_dir(theta, a[m]))
        + sum(np.log(_dir(beta[:, k], c[m, k])) for k in range(2))
        for m in range(2)
    ]
    entropy = -np.logaddexp.reduce(terms, axis=0).mean()
    bound = entropy_bound(w, pi, a, c)
    assert bound < entropy < bound + 3
    assert entropy_bound([1.0], pi[:1], a[:1] * 0 + 0.4, c[:1]) == -np.inf
    x, v = _beta_nodes(a[0])
    assert dirichlet_log_overlap(a[0], a[1]) == pytest.approx(np.log(v @ _dir(x, a[1])), abs=1e-6)


def test_slopes_of_the_entropy_bound_and_why_the_printed_ones_fail():
    args = _entropy_arguments()
    slopes = entropy_bound_slopes(*args)
    found = [slopes.weights, slopes.words, slopes.theta, slopes.topics]

    def numeric(i, at):
        values = []
        for step in (1e-6, -1e-6):
            moved = [x.copy() for x in args]
            moved[i][at] += step
            values.append(entropy_bound(*moved))
        return (values[0] - values[1]) / 2e-6

    for i in range(4):
        for at in np.ndindex(args[i].shape):
            assert found[i][at] == pytest.approx(numeric(i, at), abs=1e-6)
    w, pi, a, c = args
    pair = np.einsum("mnk,lnk->mln", pi, pi)
    overlap = np.exp(
        dirichlet_log_overlap(a[:, None], a[None]) + dirichlet_log_overlap(c[:, None], c[None]).sum(-1)
    )
    box = w @ (pair.prod(axis=2) * overlap)
    m, n, z = 0, 1, 0
    rest = pair[m, :, 1 - n] * overlap[m]  # without the factor pi^l(z), as printed in (D.4)
    printed = -sum(w[k] * w[m] * rest[k] / box[k] for k in range(2) if k != m) - w[m] / box[m] * (w @ rest)
    assert abs(printed - numeric(1, (m, n, z))) > 0.05
    # (D.5) as printed leaves the own overlap out of the first sum.
    x, v = _beta_nodes(a[m])
    own = v @ (_dir(x, a[m]) * (digamma(a[m].sum()) - digamma(a[m, 0]) + np.log(x[:, 0])))
    lacking = w[m] * w[m] / box[m] * pair[m, m].prod() * own * np.exp(dirichlet_log_overlap(c[m], c[m]).sum())
    assert abs(lacking) > 1e-3
    with pytest.raises(ModelError, match="an overlap is infinite"):
        entropy_bound_slopes(w, pi, a * 0 + 0.3, c)
    with pytest.raises(ModelError, match="expected weights"):
        entropy_bound(w, pi, a, c[0])
