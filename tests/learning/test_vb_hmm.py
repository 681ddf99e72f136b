"""Variational Bayes for hidden Markov models: bounds against enumeration of paths, missing steps, pruning."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from scipy.special import logsumexp

import credo
from credo.core.errors import ConvergenceWarning, DataError, ModelError, OptionError, UnsupportedError
from credo.core.result import Status
from credo.families import (
    Categorical,
    DiagonalGaussian,
    Dirichlet,
    Gamma,
    Gaussian,
    GaussianWishart,
    Mixture,
    MixturePrior,
    NormalGamma,
    Poisson,
    StudentT,
)
from credo.families.dirichlet_rows import DirichletRows
from credo.learning import VariationalBayes
from credo.models.hmm import HMM, HMMPrior
from credo.models.semi_markov import SemiMarkov

STEPS = [[0.7, 0.3], [0.4, 0.6]]
CASES = {
    "categorical": (
        Categorical([[0.8, 0.1, 0.1], [0.2, 0.2, 0.6]]),
        Dirichlet([[1.0, 0.5, 1.5]]),
        np.array([0, 0, 2, 2, 1]),
    ),
    "gaussian": (
        Gaussian([[0.0], [3.0]], [[[1.0]], [[1.0]]]),
        GaussianWishart([[0.0]], [0.5], [2.0], [[[1.0]]]),
        np.array([[0.1], [-0.3], [3.2], [2.9], [0.2]]),
    ),
    "diagonal": (
        DiagonalGaussian([[0.0], [3.0]], [[1.0], [1.0]]),
        NormalGamma([[0.0]], [[0.5]], [[1.0]], [[1.0]]),
        np.array([[0.1], [-0.3], [3.2], [2.9], [0.2]]),
    ),
    "poisson": (Poisson([1.0, 8.0]), Gamma([1.0], [0.3]), np.array([0.0, 1.0, 9.0, 7.0, 0.0])),
}


def vb(model, x, lengths=None, *, adapt=(), prune=None, tol=1e-5, **options):
    return credo.fit(
        model, x, VariationalBayes(adapt=adapt, prune=prune), lengths=lengths, tol=tol, **options
    )


def exact_evidence(model, prior, x, lengths):
    """The sum over all paths, every part integrated out in closed form."""
    k, ends = model.states, np.cumsum(lengths)
    begins = ends - lengths
    start = DirichletRows(prior.start.concentration[0], [k])
    steps = DirichletRows(prior.transition.repeat(k).concentration.ravel(), np.full(k, k))
    seen = ~model.emission.missing(x)
    terms = []
    for states in itertools.product(range(k), repeat=len(x)):
        path = np.array(states)
        first = np.bincount(path[begins], minlength=k).astype(float)
        pairs = np.zeros((k, k))
        for b, e in zip(begins, ends, strict=True):
            np.add.at(pairs, (path[b : e - 1], path[b + 1 : e]), 1.0)
        share = np.eye(k)[path] * seen[:, None]
        parts = prior.emission.repeat(k).log_evidence(model.emission.collect(x[seen], share[seen]))
        terms.append(start.log_evidence(first).sum() + steps.log_evidence(pairs.ravel()).sum() + parts.sum())
    return logsumexp(terms)


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("kind", CASES)
def test_the_free_energy_rises_to_a_value_below_the_exact_evidence(kind, hidden):
    emission, own, x = CASES[kind]
    model = HMM([0.6, 0.4], STEPS, emission)
    prior = HMMPrior(Dirichlet([[1.0, 1.0]]), Dirichlet([[0.8, 0.8]]), own)
    x = emission.hide(x, np.arange(5) == 1) if hidden else x
    found = vb(model, x, [3, 2], prior=prior, restarts=3, seed=0)
    exact = exact_evidence(model, prior, x, np.array([3, 2]))
    assert found.status is Status.CONVERGED and found.evidence.kind == "lower"
    assert (np.diff(found.trace["free_energy"]) > -1e-10).all()
    assert (found.trace["free_energy"] <= exact + 1e-10).all()
    assert found.evidence.value > exact - 3.5


def test_one_state_has_its_evidence_in_closed_form():
    emission, own, x = CASES["gaussian"]
    found = vb(HMM([1.0], [[1.0]], emission.take([0])), x, prior=HMMPrior(emission=own))
    assert found.evidence.value == pytest.approx(own.log_evidence(emission.take([0]).collect(x))[0], abs=1e-9)


def test_mixtures_in_states_are_mixtures_where_there_is_one_state():
    x = np.array([[0.1], [-0.3], [3.2], [2.9], [np.nan], [0.2]])
    mixture = Mixture([[0.5, 0.5]], DiagonalGaussian([[0.0], [4.0]], [[1.0], [1.0]]))
    own = MixturePrior(Dirichlet([[0.5, 0.5]]), CASES["diagonal"][1])
    chain = vb(HMM([1.0], [[1.0]], mixture), x, prior=HMMPrior(emission=own))
    alone = credo.fit(mixture, x, "vb", prior=own, tol=1e-5)
    assert chain.evidence.value == pytest.approx(alone.evidence.value, abs=1e-6)
    assert chain.evidence.kind == "lower"
    np.testing.assert_allclose(chain.model.emission.weights, alone.model.weights, atol=1e-5)


def test_the_free_energy_of_mixtures_in_states_rises_to_a_value_below_the_exact_evidence():
    """States of a chain with states times components members: every path of both is summed."""
    emission = Mixture([[0.5, 0.5]] * 2, Poisson([0.5, 2.0, 6.0, 12.0]))
    own = MixturePrior(Dirichlet([[0.7, 0.7]]), Gamma([1.0], [0.3]))
    prior = HMMPrior(Dirichlet([[1.0, 1.0]]), Dirichlet([[0.8, 0.8]]), own)
    x, tables = np.array([0.0, 1.0, 9.0, 7.0, 0.0]), [DirichletRows(np.ones(2), [2])]
    tables += [DirichletRows(np.full(4, a), [2, 2]) for a in (0.8, 0.7)]
    terms = []
    for path in itertools.product(range(4), repeat=5):
        member = np.array(path)
        state = member // 2
        first, pairs = np.eye(2)[state[0]], np.zeros((2, 2))
        np.add.at(pairs, (state[:-1], state[1:]), 1.0)
        counts = [first, pairs.ravel(), np.bincount(member, minlength=4).astype(float)]
        logs = [t.log_evidence(c).sum() for t, c in zip(tables, counts, strict=True)]
        parts = own.components.repeat(4).log_evidence(emission.components.collect(x, np.eye(4)[member]))
        terms.append(sum(logs) + parts.sum())
    exact = logsumexp(terms)
    found = vb(HMM([0.6, 0.4], STEPS, emission), x, prior=prior, restarts=3, adapt="emission", seed=0)
    plain = vb(HMM([0.6, 0.4], STEPS, emission), x, prior=prior, restarts=3, seed=0)
    assert plain.evidence.kind == "lower" and exact - 4.5 < plain.evidence.value <= exact
    for fit in (found, plain):
        assert fit.converged and (np.diff(fit.trace["free_energy"]) > -1e-10).all()
    assert found.evidence.value > plain.evidence.value


def test_the_expected_model_recovers_the_one_that_made_the_data():
    true = HMM([0.5, 0.5], [[0.95, 0.05], [0.1, 0.9]], DiagonalGaussian([[0.0], [4.0]], [[1.0], [1.0]]))
    x, _ = credo.sample(true, lengths=[300, 200], seed=0)
    found = vb(true.initialise(x, np.random.default_rng(1)), x, [300, 200], restarts=2, seed=0)
    order = np.argsort(found.model.emission.mean[:, 0])
    np.testing.assert_allclose(found.model.emission.mean[order, 0], [0, 4], atol=0.25)
    np.testing.assert_allclose(found.model.transition[np.ix_(order, order)], true.transition, atol=0.05)
    assert found.posterior.sample(np.random.default_rng(0)).states == 2
    assert len(found.restarts) == 2


def test_a_weight_of_two_is_the_sequence_twice():
    true = HMM([0.5, 0.5], [[0.95, 0.05], [0.1, 0.9]], DiagonalGaussian([[0.0], [4.0]], [[1.0], [1.0]]))
    x, _ = credo.sample(true, lengths=[30, 20], seed=0)
    prior = HMMPrior(emission=NormalGamma([[1.0]], [[1.0]], [[1.0]], [[1.0]]))
    weighed = credo.data.read_sequences([x[:30], x[30:]], true.emission, weights=[2.0, 1.0])
    once = credo.fit(true, [x[:30], x[:30], x[30:]], "vb", prior=prior)
    again = credo.fit(true, weighed, "vb", prior=prior)
    assert again.evidence.value == pytest.approx(once.evidence.value, abs=1e-9)
    np.testing.assert_allclose(again.model.transition, once.model.transition, atol=1e-9)


def test_states_that_the_data_do_not_need_are_removed():
    true = HMM([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], DiagonalGaussian([[0.0], [8.0]], [[1.0], [1.0]]))
    x, _ = credo.sample(true, lengths=200, seed=0)
    wide = HMM(np.full(5, 0.2), np.full((5, 5), 0.2), DiagonalGaussian(np.zeros((5, 1)), np.ones((5, 1))))
    prior = HMMPrior(Dirichlet(np.full((1, 5), 0.02)), Dirichlet(np.full((1, 5), 0.02)))
    found = vb(wide, x, prior=prior, prune="search", restarts=2, seed=0)
    assert found.model.states == 2
    assert found.trace["states"][0] == 5 and found.trace["states"][-1] == 2
    assert "2 of 5 states are used" in found.notes[0]


def test_hyper_parameters_raise_the_free_energy():
    emission, own, _ = CASES["categorical"]
    true = HMM([0.5, 0.5], [[0.95, 0.05], [0.05, 0.95]], emission)
    x, _ = credo.sample(true, lengths=120, seed=0)
    prior = HMMPrior(emission=own)
    plain = vb(true, x, prior=prior)
    better = vb(true, x, prior=prior, adapt=("transition", "emission"), max_iter=3000)
    assert (np.diff(better.trace["free_energy"]) > -1e-9).all()
    assert better.evidence.value > plain.evidence.value


def test_forbidden_transitions_stay_forbidden():
    emission, _, _ = CASES["categorical"]
    model = HMM([1.0, 0.0], [[0.5, 0.5], [0.0, 1.0]], emission)
    found = vb(model, [0, 0, 0, 2, 2, 2, 1], tol=1e-7)
    np.testing.assert_array_equal(found.model.start, [1.0, 0.0])
    assert found.model.transition[1, 0] == 0.0


def test_equal_states_are_separated():
    same = HMM([0.5, 0.5], [[0.5, 0.5]] * 2, Categorical([[0.5, 0.5]] * 2))
    found = vb(same, [0] * 20 + [1] * 20 + [0] * 20, seed=0)
    assert abs(np.diff(found.model.emission.probabilities[:, 0])[0]) > 0.3


def test_a_state_that_can_only_go_to_one_that_is_not_left_is_kept():
    """States 0 -> 1 -> 2 with certainty: none of them can be taken away."""
    emission = Categorical([[0.8, 0.2], [0.5, 0.5], [0.2, 0.8]])
    model = HMM([1.0, 0.0, 0.0], [[0, 1.0, 0], [0, 0, 1.0], [0, 0, 1.0]], emission)
    found = vb(model, [0, 1, 1, 0, 1], prune="search", tol=1e-6)
    assert found.model.states >= 1 and (found.model.transition[2] == [0, 0, 1.0]).all()


@pytest.mark.parametrize(
    "call, kind, message",
    [
        (lambda m: vb(m, [-1, -1]), DataError, "expected at least one observed step"),
        (lambda m: vb(m, [0, 7]), DataError, "row 1 has state 7"),
        (lambda m: vb(m, [0, 1], adapt=("start",)), OptionError, "adapt must be one of"),
        (
            lambda m: vb(m, [0, 1], prior=HMMPrior(start=Dirichlet([[1.0] * 3]))),
            ModelError,
            "prior of start: expected 2 states, got 3",
        ),
        (
            lambda m: vb(m, [0, 1], prior=HMMPrior(emission=Gamma([1.0], [1.0]))),
            ModelError,
            "prior of Categorical: expected Dirichlet, got Gamma",
        ),
        (
            lambda m: vb(m, [0, 1], prior=HMMPrior(emission=Dirichlet([[1.0, 1.0]]))),
            ModelError,
            "expected 3 states or dimensions",
        ),
        (
            lambda m: vb(HMM([1.0], [[1.0]], StudentT([[0.0]], [[1.0]], [4.0])), [1.0, 2.0]),
            UnsupportedError,
            "got StudentT; use maximum likelihood",
        ),
        (lambda m: vb(m, [0, 1], prior="bdeu(size=1)"), UnsupportedError, "is no prior of .*; give HMMPrior"),
        (lambda m: vb(m, [0, 1], fixed=("start",)), UnsupportedError, "fixed must be left out"),
    ],
)
def test_refusals(call, kind, message):
    with pytest.raises(kind, match=message):
        call(HMM([0.6, 0.4], STEPS, CASES["categorical"][0]))


@pytest.mark.parametrize("offset", [1e6, 2.0**27])
@pytest.mark.parametrize("kind", ["gaussian", "diagonal"])
def test_an_offset_of_the_data_changes_only_the_means(kind, offset):
    true = HMM([0.5, 0.5], [[0.95, 0.05], [0.1, 0.9]], DiagonalGaussian([[0.0], [4.0]], [[1.0], [1.0]]))
    x, _ = credo.sample(true, lengths=[80, 60], seed=0)
    x = np.round(x * 2**20) / 2**20  # the offsets are added without rounding
    x[5] = np.nan
    start = true.initialise(x, np.random.default_rng(1)).emission.mean

    def fit(rows, means):
        one = np.ones((2, 1))
        members = DiagonalGaussian(means, one) if kind == "diagonal" else Gaussian(means, one[:, :, None])
        return vb(HMM([0.5, 0.5], STEPS, members), rows, [80, 60], adapt=("emission",))

    near, far = fit(x, start), fit(x + offset, start + offset)
    assert far.status is near.status is Status.CONVERGED
    assert far.evidence.value == pytest.approx(near.evidence.value, rel=1e-6)
    one, two = near.model.emission, far.model.emission
    np.testing.assert_allclose(two.covariances, one.covariances, rtol=1e-4)
    np.testing.assert_allclose(two.mean - offset, one.mean, atol=1e-4)


def test_a_checkpoint_goes_on_to_the_same_bits_in_the_middle_of_pruning(tmp_path, monkeypatch):
    monkeypatch.setattr("credo.optimise.driver._THIN", 0.0)
    true = HMM([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], DiagonalGaussian([[0.0], [8.0]], [[1.0], [1.0]]))
    x, _ = credo.sample(true, lengths=100, seed=0)
    wide = HMM(np.full(4, 0.25), np.full((4, 4), 0.25), DiagonalGaussian(np.zeros((4, 1)), np.ones((4, 1))))

    def run(**options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return vb(wide, x, prune="search", seed=0, restarts=2, tol=1e-4, **options)

    whole, looks = run(), []

    def stop(iteration, view):
        looks.append(iteration)
        if len(looks) % 9 == 0:
            view.stop()

    statuses = []
    while not statuses or statuses[-1] is Status.INTERRUPTED:
        found = run(checkpoint=tmp_path / "run.credo", every=0, on_step=stop)
        statuses.append(found.status)
    assert len(statuses) > 5 and found.status is Status.CONVERGED and found.model.states == 2
    np.testing.assert_array_equal(found.objective, whole.objective)
    np.testing.assert_array_equal(found.restarts, whole.restarts)
    np.testing.assert_array_equal(
        found.posterior.transition.concentration, whole.posterior.transition.concentration
    )


def test_a_sequence_that_counts_twice_is_a_sequence_that_comes_twice():
    model = HMM([0.6, 0.4], STEPS, CASES["gaussian"][0])
    x = CASES["gaussian"][2]
    prior = HMMPrior(emission=CASES["gaussian"][1])
    once = vb(model, x, [3, 2], weights=[2.0, 1.0], prior=prior)
    twice = vb(model, np.concatenate([x[:3], x]), [3, 3, 2], prior=prior)
    assert once.evidence.value == pytest.approx(twice.evidence.value, abs=1e-9)
    np.testing.assert_allclose(once.model.emission.mean, twice.model.emission.mean)


def test_segments_are_learned_by_the_same_steps_and_one_state_has_its_evidence_in_closed_form():
    rng = np.random.default_rng(0)
    moves, lasting = [[0.0, 1.0], [1.0, 0.0]], [[0, 0.2, 0.6, 0.2], [0.5, 0.5, 0, 0]]
    true = SemiMarkov([0.5, 0.5], moves, lasting, DiagonalGaussian([[0.0], [5.0]], [[1.0], [1.0]]))
    x, _ = credo.sample(true, lengths=[150, 150], seed=0)
    start = SemiMarkov([0.5, 0.5], moves, np.full((2, 4), 0.25), true.emission.initialise(x, rng))
    found = vb(start, x, [150, 150], restarts=2, adapt=True, seed=0)
    assert (np.diff(found.trace["free_energy"]) > -1e-9).all()
    order = np.argsort(found.model.emission.mean[:, 0])
    np.testing.assert_allclose(found.model.durations[order], lasting, atol=0.12)
    np.testing.assert_array_equal(found.model.transition, moves)
    drawn = found.posterior.sample(rng)
    assert drawn.durations.shape == (2, 4) and drawn.cut
    # Two steps of one state, cut: segments 1+1, 1+(2 or more), 2 or more.
    own = Gamma([1.0], [0.3])
    one = SemiMarkov([1.0], [[1.0]], [[0.5, 0.5]], Poisson([1.0]))
    bound = vb(one, [2.0, 1.0], prior=HMMPrior(emission=own)).evidence.value
    # The first segment lasts 1 and another follows (1 or 2), or it lasts 2.
    paths = [[2.0, 0.0], [1.0, 1.0], [0.0, 1.0]]
    durations = DirichletRows([1.0, 1.0], [2])
    logs = logsumexp([durations.log_evidence(np.array(path))[0] for path in paths])
    exact = logs + own.log_evidence(Poisson([1.0]).collect([2.0, 1.0]))[0]
    assert exact - 0.5 < bound < exact
