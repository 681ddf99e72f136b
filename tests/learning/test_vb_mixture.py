"""Variational Bayes for mixtures: bounds against enumeration, pruning, missing values, scikit-learn."""

from __future__ import annotations

import itertools
import re
import warnings

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

import credo
from credo.core.errors import (
    ConvergenceError,
    ConvergenceWarning,
    CredoError,
    DataError,
    ModelError,
    OptionError,
    UnsupportedError,
)
from credo.core.result import Status
from credo.estimators import BayesianMixture
from credo.families import (
    Categorical,
    DiagonalGaussian,
    Dirichlet,
    Gamma,
    Gaussian,
    GaussianWishart,
    NormalGamma,
    Poisson,
    TiedGaussian,
)
from credo.families.conjugates import default_prior
from credo.families.mixture import Mixture, MixturePrior
from credo.families.natural import best_symmetric
from credo.families.stick_breaking import StickBreaking
from credo.learning import VariationalBayes

WISHART = GaussianWishart([[0.0, 0.0]], [0.5], [3.0], [np.eye(2)])
CASES = {
    "gaussian": (Gaussian(np.zeros((2, 2)), np.tile(np.eye(2), (2, 1, 1))), WISHART),
    "diagonal": (
        DiagonalGaussian(np.zeros((2, 2)), np.ones((2, 2))),
        NormalGamma([[0.0, 0.0]], [[0.5, 0.5]], [[1.5, 1.5]], [[1.0, 1.0]]),
    ),
    "categorical": (Categorical(np.full((2, 3), 1 / 3)), Dirichlet([[0.7, 1.0, 1.5]])),
    "poisson": (Poisson(np.ones(2)), Gamma([1.5], [0.7])),
}
DATA = {
    "gaussian": np.array([[0.0, 0.3], [0.2, -0.4], [2.9, 3.3], [3.4, 2.8], [0.1, 0.1]]),
    "diagonal": np.array([[0.0, 0.3], [0.2, -0.4], [2.9, 3.3], [3.4, 2.8], [0.1, 0.1]]),
    "categorical": np.array([0, 0, 2, 1, 2]),
    "poisson": np.array([0.0, 1.0, 7.0, 9.0, 2.0]),
}


def vb(members, x, *, prior=None, concentration=None, stick=False, first=None, **options):
    """Through the front door; the options of the learner are those that it has."""
    k = len(members)
    a = (1.0 if stick else 1.0 / k) if concentration is None else concentration
    weights = StickBreaking.prior(k, a) if stick else Dirichlet(np.full((1, k), a))
    own = {name: options.pop(name) for name in ("adapt", "prune", "restarts") if name in options}
    start = Mixture(np.full((1, k), 1.0 / k), members) if first is None else first
    learner = VariationalBayes(prior=MixturePrior(weights, prior), **own)
    return credo.fit(start, x, learner, **{"max_iter": 1000, "tol": 1e-5} | options)


def weight_evidence(counts, concentration, stick):
    if not stick:
        k, n = len(counts), counts.sum()
        out = gammaln(k * concentration) - gammaln(k * concentration + n)
        return out + (gammaln(concentration + counts) - gammaln(concentration)).sum()
    total = 0.0
    for k, here in enumerate(counts):
        after = counts[k + 1 :].sum()
        total += (
            gammaln(1 + here) + gammaln(concentration + after) - gammaln(1 + concentration + here + after)
        )
        total += gammaln(1 + concentration) - gammaln(concentration)
    return total


def exact_evidence(members, prior, x, concentration, stick=False):
    """The sum over all assignments of rows to components, parameters integrated out of each."""
    terms = []
    for z in itertools.product(range(len(members)), repeat=len(x)):
        share = np.eye(len(members))[list(z)]
        parts = prior.repeat(len(members)).log_evidence(members.collect(x, share))
        terms.append(weight_evidence(share.sum(axis=0), concentration, stick) + parts.sum())
    return logsumexp(terms)


@pytest.mark.parametrize("stick", [False, True])
@pytest.mark.parametrize("kind", CASES)
def test_the_free_energy_rises_to_a_value_below_the_exact_evidence(kind, stick):
    members, prior = CASES[kind]
    found = vb(
        members, DATA[kind], prior=prior, concentration=0.8, prune="none", restarts=3, seed=0,
        stick=stick,
    )  # fmt: skip
    exact = exact_evidence(members, prior, DATA[kind], 0.8, stick)
    assert found.status is Status.CONVERGED and found.evidence.kind == "lower"
    assert (np.diff(found.trace["free_energy"]) > -1e-10).all()
    assert (found.trace["free_energy"] <= exact + 1e-10).all()
    assert found.evidence.value > exact - 3.0  # not vacuous: log 2! of it is the other labelling
    assert found.objective[-1] == pytest.approx(found.evidence.value / 5)


@pytest.mark.parametrize("kind", CASES)
def test_one_component_has_its_evidence_in_closed_form(kind):
    members, prior = CASES[kind]
    found = vb(members.take([0]), DATA[kind], prior=prior, prune="none")
    exact = prior.log_evidence(members.take([0]).collect(DATA[kind]))[0]
    assert found.evidence.value == pytest.approx(exact, abs=1e-10)


@pytest.mark.parametrize("kind", ["gaussian", "diagonal"])
def test_a_missing_coordinate_is_integrated_out(kind):
    members, prior = CASES[kind]
    x = DATA[kind][:4].copy()
    x[1, 0] = np.nan
    found = vb(members, x, prior=prior, concentration=0.8, prune="none", restarts=3, seed=0)
    assert (np.diff(found.trace["free_energy"]) > -1e-10).all()
    values, logs = np.linspace(-30.0, 30.0, 81), []
    for value in values:
        filled = x.copy()
        filled[1, 0] = value
        logs.append(exact_evidence(members, prior, filled, 0.8))
    exact = logsumexp(logs) + np.log(values[1] - values[0])
    assert exact - 3.5 < found.evidence.value < exact


def clusters(seed=0, n=80):
    rng = np.random.default_rng(seed)
    centres = np.array([[-5.0, -5.0], [5.0, 5.0], [5.0, -5.0]])
    return np.concatenate([rng.normal(c, 1.0, (n, 2)) for c in centres]), np.repeat(np.arange(3), n)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"weight_concentration_prior_type": "dirichlet_process"},
        {"covariance_type": "diag"},
        {"weight_concentration_prior": 1.0, "prune": "search"},
        {"adapt": ("weights", "components")},
    ],
)
def test_unused_components_are_removed_and_the_right_number_is_left(options):
    x, label = clusters()
    mixture = BayesianMixture(8, random_state=1, tol=1e-6, **options).fit(x)
    assert mixture.n_components_ == 3
    assert (np.diff(mixture.fit_.trace["free_energy"]) > -1e-7).all()
    assert mixture.fit_.trace["components"][0] == 8 and mixture.fit_.trace["components"][-1] == 3
    found = mixture.predict(x)
    assert len({(a, b) for a, b in zip(found, label, strict=True)}) == 3
    assert "3 of 8 components are used" in mixture.fit_.notes[0]


def test_search_removes_a_component_that_shares_a_cluster_with_another():
    x, _ = clusters()
    members = Gaussian([[-5, -5], [5, 5], [5, -5], [-5, -5]], np.tile(np.eye(2), (4, 1, 1)))
    kept = vb(members, x, concentration=1.0, prune="unused", tol=1e-6)
    searched = vb(members, x, concentration=1.0, prune="search", tol=1e-6)
    assert len(searched.posterior) == 3 <= len(kept.posterior)
    assert searched.evidence.value >= kept.evidence.value


def test_the_number_of_components_with_the_highest_free_energy_is_the_true_one():
    x, _ = clusters(n=40)
    values = []
    for k in (1, 2, 3, 4, 5):
        members = Gaussian(np.zeros((k, 2)), np.tile(np.eye(2), (k, 1, 1)))
        found = vb(members, x, concentration=1.0, prune="none", restarts=3, seed=0, tol=1e-7)
        values.append(found.evidence.value)
    assert int(np.argmax(values)) == 2


def test_the_hyper_parameters_found_are_the_best_ones():
    rng = np.random.default_rng(0)
    q = Dirichlet(rng.gamma(2.0, size=(4, 3)))
    best = best_symmetric(q.expected_log)
    value = [-q.kl(Dirichlet(np.full((1, 3), a))).sum() for a in (0.97 * best, best, 1.03 * best)]
    assert value[1] > value[0] and value[1] > value[2]
    wishart = WISHART.repeat(3).posterior(
        Gaussian(np.zeros((3, 2)), np.tile(np.eye(2), (3, 1, 1))).collect(
            rng.normal(size=(9, 2)), np.eye(3)[[0, 1, 2] * 3]
        )
    )
    gamma, normal = Gamma([2.0, 3.0], [1.0, 4.0]), CASES["diagonal"][1].repeat(2)
    for q, prior in ((wishart, WISHART), (gamma, Gamma([1.0], [1.0])), (normal, CASES["diagonal"][1])):
        new = prior.match(q)
        top = q.kl(new).sum()
        assert top <= q.kl(prior).sum() + 1e-12
        for scale in (0.97, 1.03):
            if isinstance(prior, Gamma):
                other = Gamma(new.shape, scale * new.rate)
            elif isinstance(prior, NormalGamma):
                other = NormalGamma(new.centre + scale - 1, new.strength, new.shape, scale * new.rate)
            else:
                other = GaussianWishart(
                    new.centre + scale - 1, new.strength, new.freedom, scale * new.scatter
                )
            assert q.kl(other).sum() > top
    assert best_symmetric(np.array([[0.0, -np.inf]])) == 1.0


def test_the_same_priors_give_what_scikit_learn_gives():
    """Its bound leaves constants out, so differences are compared."""
    mixture = pytest.importorskip("sklearn.mixture")
    prior = GaussianWishart([[0.0, 0.0]], [0.7], [3.0], [np.eye(2)])
    members = Gaussian(np.zeros((3, 2)), np.tile(np.eye(2), (3, 1, 1)))
    ours, theirs = [], []
    for seed in (0, 1):
        x, _ = clusters(seed, n=30)
        peer = mixture.BayesianGaussianMixture(
            n_components=3, weight_concentration_prior_type="dirichlet_distribution",
            weight_concentration_prior=0.5, mean_precision_prior=0.7, mean_prior=np.zeros(2),
            degrees_of_freedom_prior=3.0, covariance_prior=np.eye(2), reg_covar=0.0, tol=1e-10,
            max_iter=5000, random_state=0,
        ).fit(x)  # fmt: skip
        first = Mixture(peer.weights_[None], Gaussian(peer.means_, peer.covariances_))
        found = vb(members, x, prior=prior, concentration=0.5, first=first, tol=1e-13)
        q = found.posterior
        np.testing.assert_allclose(q.weights.mean(), peer.weights_, atol=1e-8)
        np.testing.assert_allclose(q.components.centre, peer.means_, atol=1e-6)
        np.testing.assert_allclose(q.components.freedom, peer.degrees_of_freedom_, atol=1e-6)
        np.testing.assert_allclose(q.mean().components.covariances, peer.covariances_, atol=1e-6)
        np.testing.assert_allclose(
            credo.infer(q, data=x).marginals["component"], peer.predict_proba(x), atol=1e-6
        )
        ours.append(found.evidence.value)
        theirs.append(peer.lower_bound_)
    assert ours[0] - ours[1] == pytest.approx(theirs[0] - theirs[1], abs=1e-6)


def test_scikit_learn_can_clone_it_and_search_its_options():
    base = pytest.importorskip("sklearn.base")
    selection = pytest.importorskip("sklearn.model_selection")
    x, _ = clusters(n=20)
    mixture = BayesianMixture(4, weight_concentration_prior=0.01, random_state=0, tol=1e-5)
    again = base.clone(mixture)
    assert again.get_params() == mixture.get_params() and again is not mixture
    search = selection.GridSearchCV(mixture, {"n_components": [1, 4]}, cv=2).fit(x)
    assert search.best_params_ == {"n_components": 4}


def test_the_estimator_predicts_scores_and_samples():
    x, _ = clusters()
    mixture = BayesianMixture(3, random_state=0, tol=1e-6)
    labels = mixture.fit_predict(x)
    proba = mixture.predict_proba(x)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert (proba.argmax(axis=1) == labels).all()
    rows, members = mixture.sample(3000, random_state=1)
    np.testing.assert_allclose(rows.mean(axis=0), x.mean(axis=0), atol=0.4)
    np.testing.assert_allclose(np.bincount(members) / 3000, mixture.weights_, atol=0.05)
    assert mixture.score(x) > mixture.score(x + 20.0)
    grid = np.stack(np.meshgrid(np.linspace(-25, 25, 120), np.linspace(-25, 25, 120)), -1).reshape(-1, 2)
    step = (50 / 119) ** 2
    assert np.exp(mixture.score_samples(grid)).sum() * step == pytest.approx(1.0, abs=0.01)
    hidden = np.array([[4.9, np.nan], [-5.1, np.nan]])
    assert (mixture.predict_proba(hidden).max(axis=1) > 0.4).all()
    assert np.isfinite(mixture.score_samples(hidden)).all()
    assert mixture.model_.weights.shape == (1, 3) and mixture.means_.shape == (3, 2)
    assert mixture.lower_bound_ == mixture.fit_.evidence.value
    assert repr(mixture) == "BayesianMixture(n_components=3, tol=1e-06, random_state=0)"
    assert len(mixture.posterior_.sample(np.random.default_rng(0)).components) == 3


@pytest.mark.parametrize("family", ["categorical", "poisson"])
def test_other_families_work_too(family):
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.poisson(1.0, 100), rng.poisson(20.0, 100)])
    if family == "categorical":
        x = np.minimum(x, 6)
    mixture = BayesianMixture(
        5, family=family, weight_concentration_prior=0.01, random_state=0, tol=1e-7
    ).fit(x)
    assert (np.diff(mixture.fit_.trace["free_energy"]) > -1e-9).all()
    assert np.isfinite(mixture.score(x))
    assert mixture.n_components_ == (2 if family == "poisson" else mixture.n_components_)


def test_a_data_frame_is_read():
    pandas = pytest.importorskip("pandas")
    x, _ = clusters(n=20)
    frame = pandas.DataFrame(x, columns=["a", "b"])
    found, same = (BayesianMixture(3, random_state=0, tol=1e-5).fit(table) for table in (frame, x))
    np.testing.assert_allclose(found.predict_proba(frame), same.predict_proba(x))
    with pytest.raises(DataError, match="expected numbers, got columns of another kind"):
        BayesianMixture(2).fit(pandas.DataFrame({"a": ["x", "y"]}))


def test_the_same_seed_gives_the_same_answer():
    x, _ = clusters(n=20)
    one, two = (BayesianMixture(4, random_state=3, n_init=2, tol=1e-5).fit(x) for _ in range(2))
    assert one.lower_bound_ == two.lower_bound_
    assert len(one.fit_.restarts) == 2 and "the best of 2 starts" in one.fit_.notes[-1]


@pytest.mark.parametrize(
    "call, kind, message",
    [
        (lambda x: vb(CASES["gaussian"][0], x[:0]), DataError, "expected at least one step, got none"),
        (
            lambda x: vb(CASES["gaussian"][0], [[np.inf, 0.0]]),
            DataError,
            "row 0 has an infinite number",
        ),
        (
            lambda x: vb(CASES["gaussian"][0], x, prior=Dirichlet([[1.0, 1.0]])),
            ModelError,
            "prior of Gaussian: expected GaussianWishart, got Dirichlet",
        ),
        (
            lambda x: vb(CASES["gaussian"][0], x, prior=GaussianWishart([[0.0]], [1.0], [1.0], [[[1.0]]])),
            ModelError,
            "expected 2 states or dimensions",
        ),
        (
            lambda x: vb(TiedGaussian(np.zeros((2, 2)), np.eye(2)), x),
            UnsupportedError,
            "got TiedGaussian; use maximum likelihood",
        ),
        (lambda x: vb(CASES["gaussian"][0], x, adapt=("all",)), OptionError, "adapt must be one of"),
        (lambda x: vb(CASES["gaussian"][0], x, prune="some"), OptionError, "prune must be one of"),
        (
            lambda x: BayesianMixture(2, weight_concentration_prior_type="equal").fit(x),
            OptionError,
            "weight_concentration_prior_type must be one of",
        ),
        (
            lambda x: BayesianMixture(2, weight_concentration_prior=0.0).fit(x),
            OptionError,
            "weight_concentration_prior must be at least",
        ),
        (
            lambda x: vb(CASES["gaussian"][0], x, restarts=0),
            OptionError,
            "restarts must be at least 1",
        ),
        (lambda x: BayesianMixture(0).fit(x), OptionError, "n_components must be at least 1"),
        (lambda x: BayesianMixture(2, family="cauchy").fit(x), OptionError, "family must be one of"),
        (lambda x: BayesianMixture(2).fit(x[:, 0]), DataError, "Expected 2D array, got 1D"),
        (lambda x: BayesianMixture(2).fit(x[:0]), DataError, r"found array with 0 sample\(s\)"),
        (lambda x: BayesianMixture(2).fit([["a", "b"]]), DataError, "expected numbers, got"),
        (lambda x: BayesianMixture(2).predict(x), CredoError, "call fit first"),
        (lambda x: BayesianMixture(2).set_params(colour=1), OptionError, "has no option 'colour'"),
        (
            lambda x: BayesianMixture(2, tol=1e-3).fit(x).sample(0),
            OptionError,
            "n_samples must be at least 1",
        ),
        (
            lambda x: default_prior(CASES["diagonal"][0], np.full((3, 2), np.nan)),
            DataError,
            "column 0 has no observed value",
        ),
    ],
)
def test_refusals(call, kind, message):
    with pytest.raises(kind, match=message):
        call(DATA["gaussian"])


def test_running_out_of_iterations_is_said():
    x, _ = clusters(n=10)
    members = Gaussian(np.zeros((4, 2)), np.tile(np.eye(2), (4, 1, 1)))
    with pytest.warns(ConvergenceWarning, match="vb: max_iter was reached"):
        found = vb(members, x, max_iter=1, prune="none", seed=0)
    assert found.status is Status.OUT_OF_ITERATIONS
    with pytest.raises(ConvergenceError, match="vb: max_iter"):
        vb(members, x, max_iter=1, prune="none", seed=0, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert vb(members, x, seconds=0.0, seed=0).status is Status.OUT_OF_TIME
    text = repr(vb(members, x, seed=0))
    assert re.search(r"log evidence at least -\d+", text)


@pytest.mark.parametrize("offset", [1e6, 2.0**27])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_an_offset_of_the_data_changes_only_the_means(covariance, missing, offset):
    x = np.round(clusters()[0] * 2**20) / 2**20  # the offsets are added without rounding
    if missing:
        holes = np.random.default_rng(3).random(x.shape) < 0.1
        x[holes & ~holes.all(axis=1, keepdims=True)] = np.nan

    def fit(rows):
        return BayesianMixture(
            6,
            weight_concentration_prior=0.01,
            adapt=("components",),
            covariance_type=covariance,
            random_state=0,
        ).fit(rows)

    near, far = fit(x), fit(x + offset)
    assert far.fit_.status is near.fit_.status
    assert far.n_components_ == near.n_components_
    assert far.lower_bound_ == pytest.approx(near.lower_bound_, rel=1e-6)
    assert far.score(x + offset) == pytest.approx(near.score(x), rel=1e-6)
    one, two = near.model_.components, far.model_.components
    np.testing.assert_allclose(two.covariances, one.covariances, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(two.mean - offset, one.mean, atol=1e-4)


def test_a_given_prior_keeps_its_meaning_far_from_the_origin():
    x, offset = np.round(clusters()[0] * 2**20) / 2**20, 2.0**27

    def fit(rows, centre):
        prior = GaussianWishart([[centre, centre]], [0.5], [3.0], [np.eye(2)])
        members = Gaussian(centre + np.array([[1.0, 0], [0, 1], [2, 2]]), np.tile(9 * np.eye(2), (3, 1, 1)))
        return vb(members, rows, prior=prior)

    assert fit(x + offset, offset).evidence.value == pytest.approx(fit(x, 0.0).evidence.value, rel=1e-7)


def test_rows_that_observe_nothing_count_as_missing():
    x, _ = clusters(n=20)
    first = Mixture([[0.5, 0.5]], Gaussian([[-5.0, -5.0], [5.0, 0.0]], np.tile(np.eye(2), (2, 1, 1))))
    whole = vb(first.components, x, first=first)
    holes = vb(first.components, np.insert(x, [0, 7], np.nan, axis=0), first=first)
    assert holes.evidence.value == pytest.approx(whole.evidence.value, abs=1e-9)
    assert holes.objective[-1] == pytest.approx(whole.objective[-1])


def test_rows_count_as_often_as_their_weights_say():
    x, _ = clusters(n=10)
    first = Mixture([[0.5, 0.5]], Gaussian([[-5.0, -5.0], [5.0, 0.0]], np.tile(np.eye(2), (2, 1, 1))))
    often = np.where(np.arange(len(x)) % 3 == 0, 2, 1)
    weighed = vb(first.components, x, prior=WISHART, first=first, weights=often)
    repeated = vb(first.components, np.repeat(x, often, axis=0), prior=WISHART, first=first)
    assert weighed.evidence.value == pytest.approx(repeated.evidence.value, abs=1e-9)


@pytest.mark.parametrize("kind", CASES)
def test_a_single_family_has_the_closed_form_as_its_answer(kind):
    members, prior = CASES[kind]
    found = credo.fit(members.take([0]), DATA[kind], "vb", prior=prior)
    exact = prior.log_evidence(members.take([0]).collect(DATA[kind]))[0]
    assert found.status is Status.EXACT and found.evidence.kind == "exact"
    assert found.evidence.value == pytest.approx(exact, abs=1e-10)
    assert type(found.model) is type(members)


def test_a_mixed_table_is_a_mixture_of_products():
    rng, kind = np.random.default_rng(0), np.repeat([0, 1], 60)
    table = {
        "size": rng.normal([0.0, 6.0], 1.0, (60, 2)).T.ravel(),
        "colour": np.where(rng.random(120) < 0.9, kind, 1 - kind).astype(object),
    }
    table["size"][3] = np.nan
    table["colour"][4] = None
    found = credo.fit(credo.Mixture.blank(5), table, "vb(prune=search)", seed=0)
    assert found.posterior.states == 2 and (np.diff(found.trace["free_energy"]) > -1e-9).all()
    share = credo.infer(found.posterior, data=table).marginals["component"][:, 0]
    assert ((share > 0.5) == (kind == kind[np.argmax(share)])).all()
    with pytest.raises(credo.CredoError, match="which averages over them; draw from the model of the fit"):
        credo.sample(found.posterior, lengths=2)
    drawn = found.posterior.sample(rng)
    assert (
        len(drawn.components) == 2
        and np.isfinite(found.posterior.predictive(drawn.rows(drawn.sample([0] * 9, rng)))).all()
    )


def test_a_checkpoint_of_a_mixture_goes_on_to_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setattr("credo.optimise.driver._THIN", 0.0)
    x, _ = clusters(n=15)
    members = Gaussian(np.zeros((5, 2)), np.tile(np.eye(2), (5, 1, 1)))

    def run(**options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return vb(members, x, prune="search", restarts=2, stick=True, seed=3, **options)

    whole, looks = run(), []

    def stop(iteration, view):
        looks.append(iteration)
        if len(looks) % 11 == 0:
            view.stop()

    found = run(checkpoint=tmp_path / "run.credo", every=0, on_step=stop)
    while found.status is Status.INTERRUPTED:
        found = run(checkpoint=tmp_path / "run.credo", every=0, on_step=stop)
    np.testing.assert_array_equal(found.objective, whole.objective)
    np.testing.assert_array_equal(found.posterior.components.centre, whole.posterior.components.centre)
