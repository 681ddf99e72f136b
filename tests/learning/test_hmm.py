"""EM for chains against hmmlearn iterate by iterate, and the properties of EM."""

from __future__ import annotations

import itertools
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import credo
from credo.core.errors import ConvergenceError, ConvergenceWarning, DataError, OptionError
from credo.core.result import Status
from credo.families import (
    Categorical,
    DiagonalGaussian,
    Dirichlet,
    Gamma,
    Gaussian,
    GaussianWishart,
    Mixture,
    NormalGamma,
    Poisson,
    SphericalGaussian,
    TiedGaussian,
)
from credo.families.mixture import MixturePrior
from credo.learning import EM, fit
from credo.learning.hidden_rows import expect_rows
from credo.models.hmm import HMM, HMMPrior
from sequence_answers import decoded

K, D = 3, 2
LENGTHS = [60, 1, 45, 94]
KINDS = ["full", "tied", "diagonal", "spherical"]


def emission(kind, seed=0):
    rng = np.random.default_rng(seed)
    mean = 2 * rng.normal(size=(K, D))
    return {
        "full": lambda: Gaussian(mean, np.array([np.eye(D)] * K)),
        "tied": lambda: TiedGaussian(mean, np.eye(D)),
        "diagonal": lambda: DiagonalGaussian(mean, np.ones((K, D))),
        "spherical": lambda: SphericalGaussian(mean, np.ones(K)),
        "mixture": lambda: Mixture(
            np.full((K, 2), 0.5), DiagonalGaussian(2 * rng.normal(size=(2 * K, D)), np.ones((2 * K, D)))
        ),
        "categorical": lambda: Categorical(rng.dirichlet(np.ones(5), size=K)),
        "poisson": lambda: Poisson(8 * rng.random(K) + 0.5),
    }[kind]()


def make(kind, seed=0):
    rng = np.random.default_rng(seed + 100)
    return HMM(rng.dirichlet(np.ones(K)), rng.dirichlet(np.ones(K), size=K), emission(kind, seed))


def data(kind, seed=1):
    return credo.sample(make(kind, seed), lengths=LENGTHS, seed=seed)[0]


def learned(model, x, lengths=None, *, mask=None, max_iter=1000, tol=1e-4, **options):
    """The fit of a chain."""
    how = EM(**{name: options.pop(name) for name in ("floor", "unseen", "restarts") if name in options})
    rows = model.sequences(x, lengths, mask)
    return fit(model, rows, how, max_iter=max_iter, tol=tol, **options)


def quietly(*arguments, **options):
    """A run that may stop before it converged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return learned(*arguments, **options)


def peer(kind, start, iterations, **options):
    theirs = pytest.importorskip("hmmlearn.hmm")
    common = {"n_iter": iterations, "tol": -np.inf, "init_params": ""}
    if kind == "categorical":
        model = theirs.CategoricalHMM(K, **common, **options)
        model.emissionprob_, model.n_features = start.emission.probabilities, 5
    elif kind == "poisson":
        model = theirs.PoissonHMM(K, **common, **options)
        model.lambdas_ = start.emission.rate[:, None]
    else:
        name = {"diagonal": "diag"}.get(kind, kind)
        model = theirs.GaussianHMM(K, covariance_type=name, **common, **options)
        model.means_, covariances = start.emission.mean, start.emission.covariances
        model.covars_ = {
            "full": covariances,
            "tied": covariances[0],
            "diagonal": np.einsum("kii->ki", covariances),
            "spherical": covariances[:, 0, 0],
        }[kind]
    model.startprob_, model.transmat_ = start.start, start.transition
    return model


@pytest.mark.parametrize("kind", [*KINDS, "categorical", "poisson"])
def test_iterates_equal_those_of_hmmlearn(kind):
    start, x = make(kind), data(kind)
    neutral = {}
    if kind in KINDS:
        neutral = {"covars_prior": 0, "covars_weight": 1 if kind in ("diagonal", "spherical") else D}
    for iterations in (1, 2, 7):
        theirs = peer(kind, start, iterations, **neutral)
        theirs.fit(x if kind in KINDS else x[:, None].astype(int), LENGTHS)
        ours = quietly(start, x, LENGTHS, max_iter=iterations, tol=0)
        np.testing.assert_allclose(ours.model.start, theirs.startprob_, atol=1e-8)
        np.testing.assert_allclose(ours.model.transition, theirs.transmat_, atol=1e-8)
        curve = ours.trace["log_likelihood"][:-1] * len(x)
        np.testing.assert_allclose(curve, list(theirs.monitor_.history), atol=1e-8)
        if kind == "categorical":
            np.testing.assert_allclose(ours.model.emission.probabilities, theirs.emissionprob_, atol=1e-8)
        elif kind == "poisson":
            np.testing.assert_allclose(ours.model.emission.rate, theirs.lambdas_[:, 0], atol=1e-8)
        else:
            np.testing.assert_allclose(ours.model.emission.mean, theirs.means_, atol=1e-8)
            found = ours.model.emission.covariances
            shapes = {"tied": found[0], "full": found}
            expected = shapes.get(kind, np.einsum("kii->ki", found))
            np.testing.assert_allclose(np.squeeze(theirs._covars_), expected, atol=1e-8)


@pytest.mark.parametrize("kind", ["full", "diagonal", "spherical"])
def test_map_iterates_equal_those_of_hmmlearn(kind):
    start, x = make(kind), data(kind)
    weight = D + 3.0 if kind == "full" else 4.0
    theirs = peer(
        kind, start, 5, startprob_prior=2.0, transmat_prior=3.0, means_prior=0.5, means_weight=1.5,
        covars_prior=0.7 * np.eye(D)[None] if kind == "full" else 0.7, covars_weight=weight,
    )  # fmt: skip
    if kind == "full":
        theirs.covars_prior = 0.7 * np.eye(D)
    theirs.fit(x, LENGTHS)
    centre = np.full((1, D), 0.5)
    if kind == "full":
        own = GaussianWishart(centre, [1.5], [weight], [0.7 * np.eye(D)])
    else:
        own = NormalGamma(centre, np.full((1, D), 1.5), np.full((1, D), weight / 2), np.full((1, D), 0.35))
    prior = HMMPrior(Dirichlet([[2.0] * K]), Dirichlet([[3.0] * K]), own)
    ours = quietly(start, x, LENGTHS, prior=prior, max_iter=5, tol=0)
    np.testing.assert_allclose(ours.model.start, theirs.startprob_, atol=1e-8)
    np.testing.assert_allclose(ours.model.transition, theirs.transmat_, atol=1e-8)
    np.testing.assert_allclose(ours.model.emission.mean, theirs.means_, atol=1e-8)
    found = ours.model.emission.covariances
    expected = found if kind == "full" else np.einsum("kii->ki", found)
    np.testing.assert_allclose(np.squeeze(theirs._covars_), expected, atol=1e-8)


def holes(x, kind, seed=3):
    """Single values and whole steps taken away."""
    rng = np.random.default_rng(seed)
    if kind in ("categorical", "poisson"):
        return np.where(rng.random(len(x)) < 0.2, -1, x)
    out = np.where(rng.random(x.shape) < 0.2, np.nan, x)
    out[rng.random(len(x)) < 0.1] = np.nan
    return out


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("kind", [*KINDS, "mixture", "categorical", "poisson"])
def test_the_likelihood_never_falls(kind, missing):
    x = data(kind)
    x = holes(x, kind) if missing else x
    found = quietly(make(kind), x, LENGTHS, max_iter=25, tol=0, floor=0)
    assert (np.diff(found.objective) > -1e-10).all()
    assert found.objective[-1] > found.objective[0]
    total = credo.log_likelihood(found.model, x, lengths=LENGTHS).value
    assert found.log_likelihood.value == pytest.approx(total, abs=1e-8)


@pytest.mark.parametrize(
    "kind", ["full", "tied", "diagonal", "spherical", "mixture", "categorical", "poisson"]
)
def test_the_posterior_density_never_falls(kind):
    own = {
        "full": GaussianWishart(np.zeros((1, D)), [0.5], [D + 2.0], [np.eye(D)]),
        "tied": GaussianWishart(np.zeros((1, D)), [0.5], [D + 2.0], [np.eye(D)]),
        "diagonal": NormalGamma(*np.full((4, 1, D), 1.5)),
        "spherical": NormalGamma(*np.full((4, 1, D), 1.5)),
        "mixture": MixturePrior(Dirichlet([[2.0, 2.0]]), NormalGamma(*np.full((4, 1, D), 1.5))),
        "categorical": Dirichlet([[1.5] * 5]),
        "poisson": Gamma([2.0], [0.5]),
    }
    prior = HMMPrior(Dirichlet([[1.5] * K]), Dirichlet([[1.5] * K]), own[kind])
    found = quietly(make(kind), data(kind), LENGTHS, prior=prior, max_iter=25, tol=0)
    assert (np.diff(found.objective) > -1e-10).all()


def test_a_model_is_recovered_from_its_own_samples():
    true = HMM(
        [1.0, 0, 0], [[0.9, 0.1, 0], [0, 0.8, 0.2], [0.3, 0, 0.7]],
        Gaussian([[0.0, 0], [4, 0], [0, 4]], [np.eye(2), 0.5 * np.eye(2), [[1, 0.5], [0.5, 1]]]),
    )  # fmt: skip
    x, states = credo.sample(true, lengths=[500] * 8, seed=0)
    start = HMM(np.full(3, 1 / 3), np.full((3, 3), 1 / 3), true.emission)
    found = learned(
        start.initialise(x, np.random.default_rng(1)), x, [500] * 8, restarts=4, seed=2, max_iter=200
    )
    order = [int(np.argmin(((found.model.emission.mean - m) ** 2).sum(axis=1))) for m in true.emission.mean]
    np.testing.assert_allclose(found.model.transition[np.ix_(order, order)], true.transition, atol=0.04)
    np.testing.assert_allclose(found.model.emission.mean[order], true.emission.mean, atol=0.15)
    np.testing.assert_allclose(found.model.emission.covariances[order], true.emission.covariances, atol=0.2)
    assert (np.argsort(order)[decoded(found.model, x, [500] * 8)[0]] == states).mean() > 0.97
    assert len(found.restarts) == 4
    assert found.objective[-1] == found.restarts.max()
    assert any("the best of 4 starts" in note for note in found.notes)


def test_zeros_stay_zeros_and_fixed_parts_stay():
    start = HMM([1, 0, 0], [[0.5, 0.5, 0], [0, 0.5, 0.5], [0, 0, 1]], emission("diagonal"))
    x = data("diagonal")
    found = quietly(start, x, LENGTHS, max_iter=10).model
    assert (found.transition[start.transition == 0] == 0).all() and found.start[0] == 1
    kept = quietly(start, x, LENGTHS, max_iter=3, fixed=("emission", "start")).model
    np.testing.assert_array_equal(kept.emission.mean, start.emission.mean)
    assert not np.allclose(kept.transition, start.transition)


def test_a_state_that_is_never_visited_is_kept_or_refused():
    start = HMM(
        [1.0, 0.0, 0.0], [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.2, 0.3, 0.5]],
        Categorical([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]]),
    )  # fmt: skip
    x = [0, 1, 1, 0, 1, 0, 0]
    found = quietly(start, x, max_iter=5).model
    np.testing.assert_allclose(found.transition[2], [0.2, 0.3, 0.5])
    np.testing.assert_allclose(found.emission.probabilities[2], [0.4, 0.6])
    with pytest.raises(DataError, match="state 2: the data never visit it"):
        learned(start, x, unseen="refuse")


def test_one_state_one_step_and_steps_that_are_masked():
    one = HMM([1.0], [[1.0]], DiagonalGaussian([[0.0]], [[1.0]]))
    x = np.array([[1.0], [2.0], [6.0]])
    found = learned(one, x).model.emission
    assert found.mean[0, 0] == pytest.approx(3) and found.variances[0, 0] == pytest.approx(14 / 3)
    found = learned(one, x, mask=np.array([True, True, False])).model.emission
    assert found.mean[0, 0] == pytest.approx(1.5)
    coin = HMM([0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]], Categorical([[0.6, 0.4], [0.3, 0.7]]))
    assert learned(coin, [1]).log_likelihood.value == pytest.approx(0, abs=1e-6)


def test_the_run_says_why_it_stopped(monkeypatch):
    start, x = make("diagonal"), data("diagonal")
    with pytest.warns(ConvergenceWarning, match="max_iter was reached"):
        found = learned(start, x, LENGTHS, max_iter=2)
    assert found.status is Status.OUT_OF_ITERATIONS and len(found.objective) == 3
    with pytest.raises(ConvergenceError, match="max_iter was reached"):
        learned(start, x, LENGTHS, max_iter=2, strict=True)
    assert learned(start, x, LENGTHS, max_iter=500, tol=1e-5).status is Status.CONVERGED
    assert quietly(start, x, LENGTHS, seconds=0.0, tol=0, restarts=3).status is Status.OUT_OF_TIME
    calls = []

    def interrupted(model, rows):
        calls.append(1)
        if len(calls) > 3:
            raise KeyboardInterrupt
        return expect_rows(model, rows)

    monkeypatch.setattr("credo.learning.hmm.expect_rows", interrupted)
    found = quietly(start, x, LENGTHS, restarts=2, seed=0)
    assert found.status is Status.INTERRUPTED
    total = credo.log_likelihood(found.model, x, lengths=LENGTHS).value
    assert total == pytest.approx(found.log_likelihood.value)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"restarts": 0}, OptionError, "restarts must be at least 1"),
        ({"floor": -1}, OptionError, "floor must be at least 0"),
        ({"unseen": "drop"}, OptionError, "unseen must be one of"),
        ({"fixed": ("means",)}, OptionError, "fixed must be one of"),
        ({"max_iter": -1}, OptionError, "max_iter"),
    ],
)
def test_bad_options_get_a_sentence(options, kind, message):
    with pytest.raises(kind, match=message):
        learned(make("diagonal"), data("diagonal"), LENGTHS, **options)


def test_data_that_observe_nothing_are_refused():
    with pytest.raises(DataError, match="expected at least one observed row"):
        learned(make("categorical"), [-1, -1])


def exact_data(d=D, seed=1):
    rng = np.random.default_rng(seed)
    states = np.repeat(rng.integers(2, size=30), 4)
    x = 5 * states[:, None] + rng.normal(size=(120, d)) * (1 + np.arange(d))
    return np.round(x * 2**20) / 2**20


class _Falling(credo.Learnable):
    """A model whose likelihood is given, step by step."""

    n_parameters = 1

    def __init__(self, values):
        self.values, self.emission = values, emission("diagonal")

    def hidden(self, scores, begin, first=0):
        return make("diagonal").hidden(scores, begin, first)

    def initialise(self, data, rng, *, fixed=()):
        return self

    def update(self, expected, prior=None, *, fixed=(), floor=0.0):
        return _Falling(self.values[1:])

    def movement(self, new):
        return abs(new.values[0] - self.values[0]) / 10


@pytest.mark.parametrize(
    ("values", "floor", "status"),
    [
        ([-30.0, -20.0, -25.0], 1e-6, Status.DIVERGED),
        ([-30.0, -20.0, -25.0], 0.0, Status.DIVERGED),
        ([-30.0, -40.0], 0.0, Status.DIVERGED),
        ([-30.0, -40.0, -35.0, -35.0], 1e-6, Status.CONVERGED),  # the start was below the floor
        ([-30.0, -20.0, -20.0 - 1e-7], 1e-6, Status.CONVERGED),
    ],
)
def test_a_fall_is_not_convergence(values, floor, status, monkeypatch):
    def expected(model, data):
        return SimpleNamespace(log_likelihood=model.values[0])

    monkeypatch.setattr("credo.learning.hmm.expect_rows", expected)
    found = quietly(_Falling([*values, -1.0]), np.zeros((10, D)), floor=floor)
    assert found.status is status
    assert len(found.objective) == len(values)


def test_a_start_below_the_floor_is_climbed_from():
    x = exact_data()
    rng = np.random.default_rng(0)
    start = HMM(
        [0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], DiagonalGaussian(rng.normal(size=(2, D)), np.ones((2, D)))
    )
    low = HMM(start.start, start.transition, DiagonalGaussian(start.emission.mean, np.full((2, D), 0.5)))
    found = quietly(low, x, floor=30.0, max_iter=1000)
    assert found.converged and (np.diff(found.objective)[1:] >= -1e-9).all()


def joint_posteriors(start, sequences):
    """Of all paths over (state, component), one by one: (windows, states * components)."""
    weights, members = start.emission.weights.ravel(), start.emission.components
    count = len(weights)
    state = np.arange(count) // start.emission.weights.shape[1]
    found = []
    for x in sequences:
        density = np.exp(members.log_density(x)) * weights
        paths = np.array(list(itertools.product(range(count), repeat=len(x))))
        shares = start.start[state[paths[:, 0]]] * density[0, paths[:, 0]]
        for t in range(1, len(x)):
            shares = shares * start.transition[state[paths[:, t - 1]], state[paths[:, t]]]
            shares = shares * density[t, paths[:, t]]
        shares /= shares.sum()
        found.append([[shares[paths[:, t] == k].sum() for k in range(count)] for t in range(len(x))])
    return np.concatenate([np.array(f) for f in found])


def test_a_chain_of_mixtures_takes_the_step_of_exact_em_and_that_of_hmmlearn_but_for_its_variances():
    start = make("mixture")
    keep = HMM(start.start[:2] / start.start[:2].sum(), [[0.7, 0.3], [0.4, 0.6]], start.emission.take([0, 1]))
    x = credo.sample(keep, lengths=[5, 4, 1], seed=3)[0]
    ours = quietly(keep, x, [5, 4, 1], max_iter=1, tol=0).model
    q = joint_posteriors(keep, [x[:5], x[5:9], x[9:]])
    total = q.sum(axis=0)
    mean = q.T @ x / total[:, None]
    spread = np.einsum("tk,tkd->kd", q, (x[:, None] - mean) ** 2) / total[:, None]
    mixed = total.reshape(2, 2) / total.reshape(2, 2).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(ours.emission.weights, mixed, atol=1e-12)
    np.testing.assert_allclose(ours.emission.components.mean, mean, atol=1e-11)
    np.testing.assert_allclose(ours.emission.components.variances, spread, atol=1e-11)
    first = q[[0, 5, 9]].reshape(3, 2, 2).sum(axis=2).mean(axis=0)
    np.testing.assert_allclose(ours.start, first, atol=1e-12)
    theirs = pytest.importorskip("hmmlearn.hmm").GMMHMM(
        2, n_mix=2, covariance_type="diag", n_iter=1, tol=-np.inf, init_params=""
    )
    parts = keep.emission.components
    theirs.startprob_, theirs.transmat_ = keep.start, keep.transition
    theirs.weights_, theirs.n_features = keep.emission.weights, D
    theirs.means_, theirs.covars_ = parts.mean.reshape(2, 2, D), parts.variances.reshape(2, 2, D)
    theirs.fit(x, [5, 4, 1])
    np.testing.assert_allclose(ours.start, theirs.startprob_, atol=1e-10)
    np.testing.assert_allclose(ours.transition, theirs.transmat_, atol=1e-10)
    np.testing.assert_allclose(ours.emission.weights, theirs.weights_, atol=1e-10)
    np.testing.assert_allclose(ours.emission.components.mean, theirs.means_.reshape(4, D), atol=1e-10)
    moved = (mean - parts.mean) ** 2  # it sums scatter around the means of before
    np.testing.assert_allclose(theirs.covars_.reshape(4, D), spread + moved, atol=1e-8)
