"""Estimators of hidden Markov models: hmmlearn's calls, sequences in lists, frames, refusals."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest

import credo
from credo.core.errors import ConvergenceWarning, DataError, OptionError, QueryError
from credo.estimators import GMMHMM, CategoricalHMM, GaussianHMM, PoissonHMM
from credo.families import Categorical, Mixture, Poisson, Product
from credo.models.hmm import HMM
from sequence_answers import decoded

K, D = 3, 2
LENGTHS = [60, 1, 45, 94]
KINDS = ["full", "tied", "diag", "spherical"]
START, MOVES = np.array([0.5, 0.3, 0.2]), np.full((3, 3), 0.15) + 0.55 * np.eye(3)
MEANS = np.array([[0.0, 0.0], [4.0, 1.0], [1.0, 5.0]])


def rows(seed=0):
    """Sequences of three states."""
    states = np.repeat(np.random.default_rng(seed).integers(3, size=50), 4)
    return MEANS[states] + np.random.default_rng(seed + 1).normal(size=(200, 2))


def counts(seed=0):
    states = np.repeat(np.random.default_rng(seed).integers(3, size=50), 4)
    return np.random.default_rng(seed).poisson(np.array([1.0, 6.0, 15.0])[states])


def quietly(call, *arguments, **options):
    """A call that may stop before it converged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return call(*arguments, **options)


def hmmlearn():
    return pytest.importorskip("hmmlearn.hmm")


def begun(model, parts):
    """A model, ours or hmmlearn's, with these parameters to start from."""
    model.startprob_, model.transmat_ = START, MOVES
    for name, value in parts.items():
        setattr(model, name, value)
    return model


COVARS = {"full": [np.eye(D)] * K, "tied": np.eye(D), "diag": np.ones((K, D)), "spherical": np.ones(K)}
PRIORS = {
    "defaults": {},
    "given": {"means_prior": 0.5, "means_weight": 1.5, "covars_weight": 7.0, "startprob_prior": 2.0},
}


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("kind", KINDS)
def test_from_equal_starts_and_priors_scores_equal_those_of_hmmlearn(kind, prior):
    x, options = rows(), {"covariance_type": kind, "init_params": "", **PRIORS[prior]}
    spread = 0.01 if kind in ("diag", "spherical") else 0.01 * np.eye(D)  # theirs adds 0.01 to every entry
    parts = {"means_": MEANS + 0.3, "covars_": np.array(COVARS[kind])}
    theirs = begun(hmmlearn().GaussianHMM(K, n_iter=4, tol=-np.inf, covars_prior=spread, **options), parts)
    ours = begun(GaussianHMM(K, n_iter=4, tol=0, **options), parts)
    quietly(ours.fit, x, LENGTHS)
    theirs.fit(x, LENGTHS)
    assert ours.score(x, LENGTHS) == pytest.approx(theirs.score(x, LENGTHS), abs=1e-8)
    np.testing.assert_allclose(ours.startprob_, theirs.startprob_, atol=1e-8)
    np.testing.assert_allclose(ours.transmat_, theirs.transmat_, atol=1e-8)
    np.testing.assert_allclose(ours.means_, theirs.means_, atol=1e-8)
    kept = theirs._covars_[:, 0] if kind == "spherical" else theirs._covars_
    np.testing.assert_allclose(ours.covariances_, kept, atol=1e-8)
    assert ours.covars_.shape == (K, D, D)
    np.testing.assert_array_equal(ours.predict(x, LENGTHS), theirs.predict(x, LENGTHS))
    np.testing.assert_allclose(ours.predict_proba(x, LENGTHS), theirs.predict_proba(x, LENGTHS), atol=1e-8)
    for how in ("viterbi", "map"):
        value, path = ours.decode(x, LENGTHS, algorithm=how)
        other, expected = theirs.decode(x, LENGTHS, algorithm=how)
        assert value == pytest.approx(other, abs=1e-8) and (path == expected).all()
    assert ours.bic(x, LENGTHS) == pytest.approx(theirs.bic(x, LENGTHS), abs=1e-8)
    assert ours.aic(x, LENGTHS) == pytest.approx(theirs.aic(x, LENGTHS), abs=1e-8)
    np.testing.assert_allclose(
        ours.get_stationary_distribution(), theirs.get_stationary_distribution(), atol=1e-10
    )
    assert (np.diff(ours.monitor_.history) > -1e-9).all() and ours.monitor_.iter == 4


def named_sets():
    """Name -> rows as one sequence, and how many states."""
    sets = pytest.importorskip("sklearn.datasets")
    wine = sets.load_wine().data[:, :5]
    yield "iris", sets.load_iris().data, 3
    yield "wine", (wine - wine.mean(axis=0)) / wine.std(axis=0), 4
    yield "three states", rows(), 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_from_its_own_start_scores_are_seldom_lower_than_those_of_hmmlearn(kind):
    for name, x, states in named_sets():
        spread = 0.01 if kind in ("diag", "spherical") else 0.01 * np.eye(x.shape[1])
        better = 0
        for seed in range(10):
            theirs = hmmlearn().GaussianHMM(
                states, covariance_type=kind, random_state=seed, n_iter=200, covars_prior=spread
            )
            ours = GaussianHMM(states, kind, random_state=seed).fit(x)
            better += ours.score(x) > theirs.fit(x).score(x) - 1e-3 * len(x)
        assert better >= 9, name


@pytest.mark.slow
def test_from_its_own_start_symbols_seldom_score_lower_than_those_of_hmmlearn():
    for name, x, states in named_sets():
        symbols = np.minimum(np.round(3 * (x[:, :1] - x[:, :1].min()) / x[:, :1].std()).astype(int), 7)
        better = 0
        for seed in range(10):
            theirs = hmmlearn().CategoricalHMM(states, random_state=seed, n_iter=200).fit(symbols)
            ours = CategoricalHMM(states, random_state=seed).fit(symbols)
            better += ours.score(symbols) > theirs.score(symbols) - 1e-3 * len(x)
        assert better >= 9, name


def test_symbols_and_counts_score_as_those_of_hmmlearn():
    x = np.minimum(counts() // 3, 4)[:, None]
    table = np.random.default_rng(0).dirichlet(np.ones(5), size=K)
    options = {"init_params": "", "transmat_prior": 1.5, "emissionprob_prior": 1.2}
    theirs = begun(hmmlearn().CategoricalHMM(K, n_iter=4, tol=-np.inf, n_features=5, **options),
                   {"emissionprob_": table})  # fmt: skip
    ours = begun(CategoricalHMM(K, n_iter=4, tol=0, n_features=5, **options), {"emissionprob_": table})
    assert quietly(ours.fit, x, LENGTHS).score(x, LENGTHS) == pytest.approx(
        theirs.fit(x, LENGTHS).score(x, LENGTHS), abs=1e-8
    )
    np.testing.assert_allclose(ours.emissionprob_, theirs.emissionprob_, atol=1e-8)
    y = np.column_stack([counts(), counts(1)])
    rates = np.array([[1.0, 2.0], [5.0, 9.0], [12.0, 4.0]])
    theirs = begun(hmmlearn().PoissonHMM(K, n_iter=4, tol=-np.inf, init_params=""), {"lambdas_": rates})
    ours = begun(PoissonHMM(K, n_iter=4, tol=0, init_params=""), {"lambdas_": rates})
    assert quietly(ours.fit, y, LENGTHS).score(y, LENGTHS) == pytest.approx(
        theirs.fit(y, LENGTHS).score(y, LENGTHS), abs=1e-8
    )
    np.testing.assert_allclose(ours.lambdas_, theirs.lambdas_, atol=1e-8)
    assert isinstance(ours.model_.emission, Product)


@pytest.mark.parametrize("kind", ["full", "diag", "spherical"])
def test_one_step_of_mixtures_equals_that_of_hmmlearn(kind):
    x, rng = rows(), np.random.default_rng(0)
    means = MEANS[:, None] + rng.normal(size=(K, 2, D))
    shape = {"full": np.eye(D), "diag": np.ones(D), "spherical": np.ones(())}[kind]
    parts = {
        "means_": means, "weights_": np.full((K, 2), 0.5),
        "covars_": np.broadcast_to(shape, (K, 2, *shape.shape)).copy(),
    }  # fmt: skip
    options = {"n_mix": 2, "covariance_type": kind, "init_params": ""}
    theirs = begun(hmmlearn().GMMHMM(K, n_iter=1, **options), parts).fit(x, LENGTHS)
    ours = quietly(begun(GMMHMM(K, n_iter=1, **options), parts).fit, x, LENGTHS)
    np.testing.assert_allclose(ours.weights_, theirs.weights_, atol=1e-8)
    np.testing.assert_allclose(ours.means_, theirs.means_, atol=1e-8)
    np.testing.assert_allclose(ours.transmat_, theirs.transmat_, atol=1e-8)
    assert ours.covars_.shape == theirs.covars_.shape


def test_parameters_set_by_hand_make_a_model_without_learning():
    theirs = hmmlearn().GaussianHMM(K, covariance_type="full")
    parts = {"means_": MEANS, "covars_": np.array(COVARS["full"])}
    ours, x = begun(GaussianHMM(K, covariance_type="full"), parts), rows()
    begun(theirs, parts)
    assert ours.score(x) == pytest.approx(theirs.score(x), abs=1e-8)
    drawn, states = ours.sample(50, random_state=0)
    assert drawn.shape == (50, D) and states.shape == (50,)
    np.testing.assert_array_equal(drawn, ours.sample(50, random_state=0)[0])
    assert all(ours.sample(1, currstate=k, random_state=s)[1] == [k] for k in range(K) for s in range(3))
    assert PoissonHMM(1, random_state=0).fit([1, 2]).sample(3)[0].shape == (3, 1)
    old = np.random.RandomState(0)
    assert GaussianHMM(2, random_state=old).fit(x).sample(2)[0].shape == (2, D)


def test_what_params_leaves_out_is_kept():
    x = rows()
    model = begun(GaussianHMM(K, params="mc", init_params="mc", random_state=0), {}).fit(x)
    np.testing.assert_allclose(model.transmat_, MOVES)
    np.testing.assert_allclose(model.startprob_, START)
    fixed = begun(GaussianHMM(K, params="st", init_params="", random_state=0), {"means_": MEANS})
    fixed.covars_ = COVARS["diag"]
    np.testing.assert_allclose(fixed.fit(x).means_, MEANS)
    assert not np.allclose(fixed.transmat_, MOVES)


def test_lists_of_sequences_come_back_as_lists():
    parts = np.split(rows(), np.cumsum(LENGTHS)[:-1])
    model = GaussianHMM(K, random_state=0).fit(parts)
    whole = GaussianHMM(K, random_state=0).fit(rows(), LENGTHS)
    np.testing.assert_allclose(model.means_, whole.means_)
    for found, expected in (
        (model.predict(parts), whole.predict(rows(), LENGTHS)),
        (model.predict_proba(parts), whole.predict_proba(rows(), LENGTHS)),
        (model.decode(parts)[1], whole.decode(rows(), LENGTHS)[1]),
        (model.score_samples(parts)[1], whole.score_samples(rows(), LENGTHS)[1]),
        (model.fit_predict(parts), whole.predict(rows(), LENGTHS)),
    ):
        assert [len(part) for part in found] == LENGTHS
        np.testing.assert_allclose(np.concatenate(found), expected)
    assert model.score(parts) == pytest.approx(whole.score(rows(), LENGTHS))
    value, path = decoded(model.model_, rows(), LENGTHS)[::-1]
    assert (
        model.decode(parts)[0] == pytest.approx(value)
        and (np.concatenate(model.predict(parts)) == path).all()
    )


def test_the_lengths_of_sequences_may_come_second():
    x, labels = rows(), np.repeat([0, 1], 100)
    by_place, by_name = (GaussianHMM(2, random_state=0) for _ in range(2))
    assert by_place.fit(x, LENGTHS).score(x, LENGTHS) == by_name.fit(x, lengths=LENGTHS).score(
        x, lengths=LENGTHS
    )
    alone = GaussianHMM(2, random_state=0).fit(x)
    assert GaussianHMM(2, random_state=0).fit(x, labels).score(x, labels) == alone.score(x)


def test_scikit_learn_searches_clones_and_pipes_sequences():
    base, selection = pytest.importorskip("sklearn.base"), pytest.importorskip("sklearn.model_selection")
    pipeline, preprocessing = (
        pytest.importorskip("sklearn.pipeline"),
        pytest.importorskip("sklearn.preprocessing"),
    )
    parts = np.split(rows(), 8)
    search = selection.GridSearchCV(GaussianHMM(random_state=0, tol=1e-2), {"n_components": [1, 3]}, cv=2)
    assert search.fit(parts).best_params_ == {"n_components": 3}
    assert len(search.predict(parts)) == 8
    model = GaussianHMM(2, covariance_type="full", random_state=3)
    copy = base.clone(model)
    assert copy.get_params() == model.get_params() and repr(copy) == repr(model)
    pipe = pipeline.make_pipeline(preprocessing.StandardScaler(), GaussianHMM(3, random_state=0))
    assert pipe.fit(rows(), gaussianhmm__lengths=LENGTHS).predict(rows()).shape == (200,)
    again = pickle.loads(pickle.dumps(pipe))
    np.testing.assert_array_equal(again.predict(rows()), pipe.predict(rows()))
    with pytest.raises(pytest.importorskip("sklearn.exceptions").NotFittedError, match="is not fitted yet"):
        model.predict(rows())


def test_a_run_goes_on_from_its_checkpoint(tmp_path):
    x, file = rows(), tmp_path / "hmm.credo"
    whole = GaussianHMM(K, random_state=0, n_init=1, tol=1e-5).fit(x, LENGTHS)
    quietly(GaussianHMM(K, random_state=0, n_init=1, tol=1e-5, max_iter=3).fit, x, LENGTHS, checkpoint=file)
    found = GaussianHMM(K, random_state=0, n_init=1, tol=1e-5).fit(x, LENGTHS, checkpoint=file, every=0)
    np.testing.assert_array_equal(found.means_, whole.means_)
    kept = tmp_path / "kept.credo"
    credo.save(found, kept)
    np.testing.assert_array_equal(credo.load(kept).predict(x, LENGTHS), whole.predict(x, LENGTHS))


def test_frames_keep_the_names_of_their_columns():
    frame = pd.DataFrame(rows(), columns=["hr", "temp"])
    model = GaussianHMM(2, random_state=0).fit(frame)
    assert list(model.feature_names_in_) == ["hr", "temp"] and model.n_features_in_ == 2
    with pytest.raises(DataError, match="Feature names unseen at fit time:\n- heat"):
        model.predict(frame.rename(columns={"temp": "heat"}))
    with pytest.raises(DataError, match="Feature names must be in the same order"):
        model.predict(frame[["temp", "hr"]])
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        model.predict(frame.to_numpy())
    listed = GaussianHMM(2, random_state=0).fit([frame[:80], frame[80:]])
    assert [len(path) for path in listed.predict([frame[:5], frame[5:9]])] == [5, 4]
    with pytest.raises(DataError, match="X has 1 features, but GaussianHMM is expecting 2 features"):
        GaussianHMM(2, random_state=0).fit(rows()).predict(np.zeros((3, 1)))
    with pytest.warns(UserWarning, match="X has feature names, but GaussianHMM was fitted without"):
        GaussianHMM(2, random_state=0).fit(rows()).predict(frame)


def test_verbose_runs_tell_where_they_are(capsys, monkeypatch):
    monkeypatch.setattr("credo.optimise.driver._THIN", 0.0)
    GaussianHMM(2, random_state=0, verbose=True).fit(rows())
    assert "iteration 2, residual 0." in capsys.readouterr().err


def test_missing_numbers_and_symbols_are_summed_out():
    x = rows()
    x[np.random.default_rng(0).random(x.shape) < 0.1] = np.nan
    model = GaussianHMM(K, random_state=0).fit(x)
    assert (np.diff(model.fit_.objective) > -1e-9).all() and len(model.predict(x)) == 200
    two = PoissonHMM(2, random_state=0, lambdas_prior=1.0, lambdas_weight=1.0).fit(np.array([[0, 9], [2, 0]]))
    assert two.lambdas_.shape == (2, 2)
    pairs = CategoricalHMM(2, random_state=0, emissionprob_prior=1.1).fit(np.array([[0, 1], [2, -1], [0, 0]]))
    assert pairs.emissionprob_.shape == (2, 2, 3) and pairs.sample(4)[0].shape == (4, 2)
    symbols = CategoricalHMM(2, random_state=0).fit([[0, -1, 0, 1, 1], [1, 0, 0]])
    assert symbols.emissionprob_.shape == (2, 2)
    assert GaussianHMM(2, covars_prior=0, random_state=1).fit(np.ones((30, 1))).covariances_.min() == 1e-6


def test_other_emissions_are_learned_too():
    mixed = GMMHMM(2, n_mix=2, random_state=1, tol=1e-3).fit(rows(), LENGTHS)
    assert isinstance(mixed.model_.emission, Mixture) and mixed.means_.shape == (2, 2, D)
    symbols = CategoricalHMM(2, random_state=1).fit(np.minimum(counts(), 4), LENGTHS)
    assert isinstance(symbols.model_.emission, Categorical) and symbols.model_.emission.states == 5
    learned = PoissonHMM(3, random_state=1, lambdas_prior=2.0, lambdas_weight=1.0).fit(counts(), LENGTHS)
    assert isinstance(learned.model_.emission, Poisson)
    np.testing.assert_allclose(np.sort(learned.lambdas_.ravel()), [1, 6, 15], atol=1.5)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: GaussianHMM(2).predict(np.zeros((2, 1))), QueryError, "this GaussianHMM is not fitted yet"),
        (lambda: GaussianHMM(2, "round").fit(np.eye(2)), OptionError, "covariance_type must be one of"),
        (lambda: GaussianHMM(0).fit(np.eye(2)), OptionError, "n_components must be at least 1"),
        (lambda: GaussianHMM(2.5).fit(np.eye(2)), OptionError, "n_components must be a whole number"),
        (
            lambda: GaussianHMM(2, random_state="x").fit(np.eye(2)),
            OptionError,
            "random_state must be a whole",
        ),
        (
            lambda: GaussianHMM(2, params="xy").fit(np.eye(2)),
            OptionError,
            "params: expected letters among cmst",
        ),
        (
            lambda: GaussianHMM(2, params="sm").fit(np.eye(2)),
            OptionError,
            "is learned together or not at all",
        ),
        (lambda: GaussianHMM(2, n_iter=-1).fit(np.eye(2)), OptionError, "max_iter must be at least 0"),
        (
            lambda: GaussianHMM(2, startprob_prior=[1, 2, 3]).fit(np.eye(2)),
            OptionError,
            "startprob_prior: exp",
        ),
        (lambda: GaussianHMM(2, transmat_prior=-1).fit(np.eye(2)), OptionError, "expected positive numbers"),
        (
            lambda: GaussianHMM(2, means_prior=[1.0, 2, 3]).fit(np.eye(2)),
            OptionError,
            "means_prior: expected a",
        ),
        (
            lambda: GaussianHMM(2, covars_prior=0, means_weight=1).fit(np.eye(2)),
            OptionError,
            "covars_prior: expected positive numbers beside other priors",
        ),
        (
            lambda: GaussianHMM(2, "full", means_weight=[[1, 2], [1, 2]]).fit(np.eye(2)),
            OptionError,
            "means_weight: expected one number per member",
        ),
        (
            lambda: GaussianHMM(2, "tied", means_weight=1).fit(np.eye(2)),
            OptionError,
            "covars_weight: expected more than 2 for a tied covariance whose 2 means have a prior, got 1",
        ),
        (
            lambda: GaussianHMM(2, "tied", means_weight=1, means_prior=np.eye(2)).fit(np.eye(2)),
            OptionError,
            "means_prior: expected one mean for all members of a tied covariance",
        ),
        (lambda: GMMHMM(2, n_mix=0).fit(np.eye(2)), OptionError, "n_mix must be at least 1"),
        (lambda: GMMHMM(2, covariance_type="tied").fit(np.eye(2)), OptionError, "expected diag, full or"),
        (lambda: GaussianHMM(2).fit(np.zeros(3)), DataError, "Expected 2D array, got 1D array instead"),
        (
            lambda: GaussianHMM(2).fit(np.eye(2), lengths=[1, 2]),
            DataError,
            "lengths: expected whole numbers from",
        ),
        (lambda: GaussianHMM(2).fit([np.eye(2), np.eye(3)]), DataError, "sequence 1: X has 3 features, but"),
        (lambda: GaussianHMM(2).set_params(depth=3), OptionError, "GaussianHMM has no option 'depth'"),
        (lambda: CategoricalHMM(2).fit(np.array([np.nan])), DataError, "at least one observed symbol"),
        (lambda: CategoricalHMM(2).fit([-1, -1]), DataError, "at least one observed symbol"),
        (lambda: CategoricalHMM(2).fit(["a", "b"]), DataError, "X: expected numbers"),
        (lambda: CategoricalHMM(2, n_features=0).fit([0]), OptionError, "n_features must be at least 1"),
        (
            lambda: PoissonHMM(2, lambdas_prior=1).fit([0, 1]),
            OptionError,
            "expected counts from 0 and positive",
        ),
        (
            lambda: PoissonHMM(2, lambdas_prior=[1, 2, 3]).fit([0, 1]),
            OptionError,
            "lambdas_prior: expected a",
        ),
        (
            lambda: GaussianHMM(1).fit(np.eye(2)).decode(np.eye(2), algorithm="best"),
            OptionError,
            "algorithm must be one of",
        ),
        (
            lambda: begun(GaussianHMM(2), {"means_": MEANS, "covars_": COVARS["diag"]}).score(MEANS),
            OptionError,
            "n_components: expected 3",
        ),
    ],
)
def test_estimators_refuse_with_a_sentence(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


FAR = 2.0**27  # added to multiples of 2^-20 without rounding


@pytest.mark.parametrize("offset", [1e6, FAR])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("kind", [*KINDS, "mixture"])
def test_an_offset_of_the_data_changes_only_the_means(kind, missing, offset):
    rng = np.random.default_rng(1)
    states = np.repeat(rng.integers(2, size=30), 4)
    x = np.round((5 * states[:, None] + rng.normal(size=(120, D)) * [1, 2]) * 2**20) / 2**20
    if missing:
        x[np.random.default_rng(3).random(x.shape) < 0.1] = np.nan

    def fit(data):
        if kind == "mixture":
            return quietly(GMMHMM(2, n_mix=2, random_state=0, max_iter=30).fit, data)
        return quietly(GaussianHMM(2, kind, covars_prior=0, random_state=0, max_iter=30).fit, data)

    def apart(model):
        means, covariances = model.means_.reshape(-1, D), model.covars_
        if kind == "mixture":
            covariances = covariances.reshape(-1, D)
        order = np.argsort(means[:, 0])  # which state is the first depends on rounding
        return means[order], covariances[order]

    near, far = fit(x), fit(x + offset)
    assert far.score(x + offset) == pytest.approx(near.score(x), rel=1e-6)
    (means, covariances), (others, expected) = apart(far), apart(near)
    np.testing.assert_allclose(covariances, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(means - offset, others, atol=1e-5)
    assert far.fit_.objective[-1] == pytest.approx(near.fit_.objective[-1], rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_one_dimensional_rows_are_learned_by_every_kind(kind):
    x = rows()[:, :1]
    found, other = (GaussianHMM(2, c, covars_prior=0, random_state=0).fit(x) for c in (kind, "diag"))
    assert found.converged_ and found.n_iter_ == len(found.fit_.objective) - 1
    if kind != "tied":
        np.testing.assert_allclose(found.covars_, other.covars_)


def test_lists_and_frames_are_read_as_arrays_are():
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(12, 2)), rng.normal(size=(9, 2))]
    expected = GaussianHMM(2, random_state=0).fit(parts)
    for other in ([part.tolist() for part in parts], [pd.DataFrame(part) for part in parts]):
        found = GaussianHMM(2, random_state=0).fit(other)
        assert found.score(other) == pytest.approx(expected.score(parts), abs=1e-12)
    with pytest.raises(DataError, match="sequence 0: X: Expected 2D array, got 1D array"):
        GaussianHMM(2).fit([[0.1, 0.3, 0.2, 1.0, 2.0], [1.0, 2.0]])
    with pytest.raises(DataError, match="X: expected numbers"):
        GaussianHMM(2).fit([[10**400, 1.0], [1.0, 2.0], [3.0, 4.0]])
    assert (
        CategoricalHMM(2, random_state=0, tol=0.1).fit([[0, 1, 1, 0], [1, 1, 0]]).model_.emission.states == 2
    )
    with pytest.raises(DataError, match="X: expected numbers"):
        CategoricalHMM(2).fit([[0, 10**400], [1, 1, 0]])


def test_an_estimator_is_no_more_than_the_model_it_made():
    x = rows()
    found = GaussianHMM(K, random_state=0).fit(x)
    assert isinstance(found.model_, HMM) and found.model_.n_parameters == 2 + 6 + 12
    assert found.score(x) == pytest.approx(credo.log_likelihood(found.model_, x).value)
