"""Hidden semi-Markov models against all segmentations and the expanded hidden Markov model."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo.core.errors import CredoError, DataError, ModelError, UnsupportedError, ZeroProbabilityError
from credo.families import Categorical, DiagonalGaussian, Dirichlet
from credo.kernels.semi_markov import smooth_segments
from credo.learning.hidden_rows import expect_rows
from credo.models.hmm import HMM, HMMPrior
from credo.models.semi_markov import SemiMarkov
from sequence_answers import Smoothed, decoded, smoothed


def make(seed=0, states=3, longest=4, cut=True, emission=None):
    rng = np.random.default_rng(seed)
    step = rng.random((states, states)) + 0.1
    if states > 1:
        np.fill_diagonal(step, 0)
    step /= step.sum(axis=1, keepdims=True)
    emission = emission or Categorical(rng.dirichlet(np.ones(4), size=states))
    lasting = rng.dirichlet(np.ones(longest), size=states)
    return SemiMarkov(rng.dirichlet(np.ones(states)), step, lasting, emission, cut=cut)


def by_enumeration(model, x):
    """Log-likelihood, marginals, moves, durations and best path, from all segmentations."""
    scores = np.exp(model.emission.log_density(x))
    length, states = scores.shape
    longest = model.durations.shape[1]
    marginals, pairs = np.zeros((length, states)), np.zeros((states, states))
    lasting, paths = np.zeros((states, longest)), {}

    def grow(t, k, p, path, moves, lengths):
        if t >= length:
            if t > length and not model.cut:
                return
            p = p * np.prod(scores[np.arange(length), path[:length]])
            segments = tuple(path[:length]), tuple(moves)
            paths[segments] = paths.get(segments, 0.0) + p
            marginals[np.arange(length), path[:length]] += p
            for move in moves:
                pairs[move] += p
            for segment in lengths:
                lasting[segment] += p
            return
        for j in range(states):
            q = model.start[j] if k is None else model.transition[k, j]
            for d in range(longest):
                grow(
                    t + d + 1, j, p * q * model.durations[j, d], path + [j] * (d + 1),
                    moves + ([] if k is None else [(k, j)]), [*lengths, (j, d)],
                )  # fmt: skip

    grow(0, None, 1.0, [], [], [])
    total = sum(paths.values())
    best = max(paths, key=paths.get)
    return np.log(total), marginals / total, pairs / total, lasting / total, best[0], np.log(paths[best])


def in_logs(model, x):
    """Forward-backward in logarithms."""
    parts = model.start, model.transition, model.durations, model.emission.log_density(x)
    found = smooth_segments(*parts, np.array([0, len(x)]), cut=model.cut, logs=True)
    counts = {"start": found.firsts, "transition": found.pairs, "durations": found.lasting}
    return Smoothed(found.log_z, found.marginals, counts)


@pytest.mark.parametrize("ask", [smoothed, in_logs])
@pytest.mark.parametrize("cut", [True, False])
@pytest.mark.parametrize(("states", "longest"), [(3, 3), (2, 1), (1, 3)])
def test_sums_and_best_paths_equal_those_over_all_segmentations(states, longest, cut, ask):
    model = make(1, states, longest, cut)
    x = np.random.default_rng(2).integers(4, size=5)
    log_z, marginals, pairs, lasting, best, value = by_enumeration(model, x)
    found = ask(model, x)
    assert found.log_z[0] == pytest.approx(log_z, abs=1e-12)
    np.testing.assert_allclose(found.marginals, marginals, atol=1e-12)
    np.testing.assert_allclose(found.counts["transition"], pairs, atol=1e-12)
    np.testing.assert_allclose(found.counts["durations"], lasting, atol=1e-12)
    path, score = decoded(model, x)
    if states > 1:  # with one state, segmentations that look alike are summed in the oracle
        assert tuple(path) == best
        assert score == pytest.approx(value, abs=1e-12)


def test_the_expanded_hidden_markov_model_is_the_same_distribution():
    model = make(3)
    x, _ = credo.sample(model, lengths=[60, 1, 40], seed=1)
    big = model.to_hmm()
    np.testing.assert_allclose(
        smoothed(big, x, [60, 1, 40]).log_z, smoothed(model, x, [60, 1, 40]).log_z, rtol=1e-12
    )
    np.testing.assert_allclose(
        smoothed(big, x, [60, 1, 40]).marginals.reshape(101, 3, 4).sum(axis=2),
        smoothed(model, x, [60, 1, 40]).marginals,
        atol=1e-10,
    )


def test_geometric_durations_are_a_hidden_markov_model():
    stay = np.array([0.5, 0.3])
    emission = Categorical([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
    longest = 60  # the mass beyond is 1e-18
    lasting = stay[:, None] ** np.arange(longest) * (1 - stay)[:, None]
    model = SemiMarkov([0.4, 0.6], [[0, 1], [1, 0]], lasting / lasting.sum(axis=1, keepdims=True), emission)
    hmm = HMM([0.4, 0.6], [[0.5, 0.5], [0.7, 0.3]], emission)
    x, _ = credo.sample(hmm, lengths=[50, 30], seed=0)
    np.testing.assert_allclose(
        smoothed(model, x, [50, 30]).log_z, smoothed(hmm, x, [50, 30]).log_z, atol=1e-10
    )
    np.testing.assert_allclose(
        smoothed(model, x, [50, 30]).marginals, smoothed(hmm, x, [50, 30]).marginals, atol=1e-10
    )


def test_long_sequences_and_missing_steps():
    model = make(4, emission=DiagonalGaussian([[0.0], [2.0], [4.0]], np.full((3, 1), 0.5)))
    x, _ = credo.sample(model, lengths=2000, seed=2)
    x[100:120] = np.nan
    scaled, logs = smoothed(model, x), in_logs(model, x)
    assert scaled.log_z[0] == pytest.approx(logs.log_z[0], rel=1e-12)
    np.testing.assert_allclose(scaled.marginals, logs.marginals, atol=1e-9)
    np.testing.assert_allclose(scaled.counts["durations"], logs.counts["durations"], atol=1e-8)
    np.testing.assert_allclose(scaled.marginals.sum(axis=1), 1, atol=1e-10)


def test_numbers_that_underflow_are_done_in_logarithms():
    emission = DiagonalGaussian([[0.0], [100.0], [50.0]], np.full((3, 1), 0.1))
    step = [[0.0, 1.0, 0.0], [0.5, 0.0, 0.5], [0.0, 1.0, 0.0]]
    model = SemiMarkov([1, 0, 0], step, np.full((3, 2), 0.5), emission)
    x = np.array([[50.0], [0.0], [100.0]])
    # The only ways: two steps in state 0, then state 1, or one step each in 0, 1 and 0 or 2.
    logs = model.emission.log_density(x)
    first = np.log(0.5) + logs[0, 0] + logs[1, 0] + logs[2, 1]
    assert credo.log_likelihood(model, x).value == pytest.approx(first, rel=1e-10)
    assert in_logs(model, x).log_z[0] == pytest.approx(first, rel=1e-10)
    np.testing.assert_allclose(smoothed(model, x).marginals[:, :2], [[1, 0], [1, 0], [0, 1]], atol=1e-12)


@pytest.mark.parametrize("cut", [True, False])
def test_learning_never_lowers_the_likelihood_and_finds_the_durations(cut):
    true = SemiMarkov(
        [1, 0], [[0, 1], [1, 0]], [[0, 0, 0.2, 0.8], [0.9, 0.1, 0, 0]],
        DiagonalGaussian([[0.0], [3.0]], np.full((2, 1), 0.3)),
    )  # fmt: skip
    x, states = credo.sample(true, lengths=[40] * 30, seed=3)
    start = SemiMarkov(
        [0.5, 0.5],
        [[0, 1], [1, 0]],
        np.full((2, 5), 0.2),
        DiagonalGaussian([[0.5], [2.0]], [[1.0], [1.0]]),
        cut=cut,
    )
    found = credo.fit(start, x, lengths=[40] * 30, max_iter=60, tol=1e-7)
    assert (np.diff(found.objective) > -1e-12).all()
    if cut:
        np.testing.assert_allclose(found.model.durations[0, :4], true.durations[0], atol=0.06)
        assert (decoded(found.model, x, [40] * 30)[0] == states).mean() > 0.99
    prior = HMMPrior(durations=Dirichlet([[2.0] * 5]), transition=Dirichlet([[1.0, 1.0]]))
    smooth = credo.fit(start, x, lengths=[40] * 30, max_iter=60, tol=1e-4, prior=prior)
    assert (np.diff(smooth.objective) > -1e-12).all()
    assert (smooth.model.durations > 0).all()


def test_parts_can_be_kept_and_starts_are_random_but_reproducible():
    model = make(5)
    x, _ = credo.sample(model, lengths=50, seed=4)
    counts = expect_rows(model, model.sequences(x))
    kept = model.update(counts, fixed=("durations", "emission", "start", "transition"))
    np.testing.assert_array_equal(kept.durations, model.durations)
    assert kept.n_parameters == model.n_parameters == 2 + 3 + 9 + 9
    one, two = (model.initialise(x, np.random.default_rng(1)) for _ in range(2))
    np.testing.assert_array_equal(one.durations, two.durations)
    assert (one.transition[model.transition == 0] == 0).all()
    double = counts + counts
    assert double.log_likelihood == 2 * counts.log_likelihood
    assert repr(model).startswith("SemiMarkov(3 states, durations up to 4")


def test_bad_input_gets_a_sentence():
    coin = Categorical([[0.5, 0.5], [0.5, 0.5]])
    with pytest.raises(ModelError, match="durations: expected 2 rows, one per state, got 1"):
        SemiMarkov([0.5, 0.5], [[0, 1], [1, 0]], [[1.0]], coin)
    with pytest.raises(ModelError, match="durations: every row must sum to 1"):
        SemiMarkov([0.5, 0.5], [[0, 1], [1, 0]], [[0.5], [1.0]], coin)
    model = SemiMarkov([1, 0], [[0, 1], [1, 0]], [[0, 1.0], [0, 1.0]], coin, cut=False)
    for call in (smoothed, decoded):
        with pytest.raises(ZeroProbabilityError, match="sequence 1: no segments with positive probability"):
            call(model, [0, 1, 0, 1, 1], [2, 3])
    assert credo.log_likelihood(model, [0, 1, 0, 1, 1], lengths=[2, 3], each=True)[1] == -np.inf
    with pytest.raises(ModelError, match="to_hmm: expected cut=True"):
        model.to_hmm()
    with pytest.raises(UnsupportedError, match="rows can be drawn where the last segment may be cut"):
        credo.sample(model, lengths=3)
    model = SemiMarkov([1, 0], [[0, 1], [1, 0]], [[0, 1.0], [0, 1.0]], coin)
    for lengths in (-1, [], 2.5):
        with pytest.raises(DataError, match="lengths: expected counts of steps, got"):
            credo.sample(model, lengths=lengths)
    assert [len(part) for part in credo.sample(model, lengths=[2, 0, 3], seed=0)] == [5, 5]


def test_a_blank_with_shortest_durations_never_stays_for_less():
    rng = np.random.default_rng(0)
    x = rng.normal(np.repeat([0.0, 4.0, 0.0, 4.0, 0.0], [9, 12, 8, 15, 11]), 1.0)
    x[[4, 14, 40]] = 4.0 - x[[4, 14, 40]]  # single steps that look like the other state
    found = credo.fit(SemiMarkov(states=2, durations=(4, 20)), x, seed=0)
    assert (found.model.durations[:, :3] == 0).all() and (np.diff(found.objective) > -1e-9).all()
    path = credo.infer(found.model, data=x, maximise="all").assignment["state"]
    assert np.diff(np.flatnonzero(np.diff(path))).tolist() == [12, 8, 15]
    again = credo.fit(found.model, x, restarts=2, seed=1)
    assert (again.model.durations[:, :3] == 0).all()


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (
            lambda: SemiMarkov(states=2, durations=3),
            "durations: expected the shortest and the longest, got 3",
        ),
        (lambda: SemiMarkov(states=2, durations=(5, 3)), "longest duration must be at least 5"),
        (lambda: SemiMarkov(states=2, start=[1]), "expected nothing but emission beside it, got start"),
        (SemiMarkov, "SemiMarkov: expected start, transition, durations and emission, or states"),
        (lambda: HMMPrior.sticky(2, -1), "stay must be at least 0"),
        (lambda: HMMPrior.sticky(2, 1, move=0), "move: expected a positive concentration, got 0"),
    ],
)
def test_what_blanks_with_durations_and_sticky_priors_refuse(wrong, sentence):
    with pytest.raises(CredoError, match=sentence):
        wrong()


def test_a_sticky_prior_counts_more_steps_that_stayed():
    x = np.random.default_rng(1).normal(np.tile([0.0, 0.0, 3.0], 20), 1.0)
    hmm = credo.HMM([0.5, 0.5], [[0.6, 0.4], [0.4, 0.6]], DiagonalGaussian([[0.0], [3.0]], [[1.0], [1.0]]))
    plain, sticky = (
        credo.fit(hmm, x, fixed=("emission", "start"), prior=prior, tol=1e-8).model.transition
        for prior in (None, HMMPrior.sticky(2, 50))
    )
    assert (sticky.diagonal() > plain.diagonal() + 0.2).all()
    expected = credo.infer(credo.HMM(hmm.start, sticky, hmm.emission), data=x).factor_marginals["transition"]
    counts = expected + 50 * np.eye(2)
    assert sticky == pytest.approx(counts / counts.sum(axis=1, keepdims=True), abs=1e-6)
