"""Hidden Markov models against all paths, the junction tree and hmmlearn."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

import credo
from credo.core.errors import DataError, ModelError, OptionError, UnsupportedError, ZeroProbabilityError
from credo.families import Categorical, DiagonalGaussian, Gaussian, Mixture, Poisson
from credo.kernels.scaled_chains import likelihoods, smooth_chains
from credo.learning.hidden_rows import expect_rows
from credo.models.hmm import HMM, HMMPrior
from markup import cells
from sequence_answers import decoded, smoothed

CASES = ["categorical", "gaussian", "diagonal", "mixture", "poisson", "zeros", "one state"]


def make(name, seed=0):
    rng = np.random.default_rng(seed)
    states = 1 if name == "one state" else 3
    start, step = rng.dirichlet(np.ones(states)), rng.dirichlet(np.ones(states), size=states)
    mean = rng.normal(size=(states, 2))
    emission = {
        "gaussian": lambda: Gaussian(mean, np.array([np.eye(2) + 0.3] * states)),
        "diagonal": lambda: DiagonalGaussian(mean, rng.random((states, 2)) + 0.5),
        "mixture": lambda: Mixture(
            rng.dirichlet(np.ones(2), size=states), DiagonalGaussian(rng.normal(size=(6, 2)), np.ones((6, 2)))
        ),
        "poisson": lambda: Poisson(5 * rng.random(states) + 0.1),
    }.get(name, lambda: Categorical(rng.dirichlet(np.ones(4), size=states)))()
    if name == "zeros":
        start, step = [1, 0, 0], [[0.5, 0.5, 0], [0, 0.5, 0.5], [0, 0, 1]]
        emission = Categorical([[0.5, 0.5, 0, 0], [0, 0.5, 0.5, 0], [0, 0, 0.5, 0.5]])
    return HMM(start, step, emission)


def by_enumeration(hmm, x):
    """Log-likelihood, marginals, expected transitions, best path, from all paths of one sequence."""
    scores = np.exp(hmm.emission.log_density(x))
    length, states = scores.shape
    marginals, pairs = np.zeros((length, states)), np.zeros((states, states))
    best, best_path, total = -1.0, (), 0.0
    for path in itertools.product(range(states), repeat=length):
        p = hmm.start[path[0]] * np.prod(scores[np.arange(length), path])
        for j, k in itertools.pairwise(path):
            p *= hmm.transition[j, k]
        total += p
        marginals[np.arange(length), path] += p
        for j, k in itertools.pairwise(path):
            pairs[j, k] += p
        if p > best:
            best, best_path = p, path
    return np.log(total), marginals / total, pairs / total, best_path, np.log(best)


@pytest.mark.parametrize("name", CASES)
def test_forward_backward_and_viterbi_equal_the_sum_over_all_paths(name):
    hmm = make(name)
    x, _ = credo.sample(hmm, lengths=[6, 1, 4], seed=1)
    found = smoothed(hmm, x, [6, 1, 4])
    path, value = decoded(hmm, x, [6, 1, 4])
    pairs, scores = 0, 0.0
    for s, (first, last) in enumerate([(0, 6), (6, 7), (7, 11)]):
        log_z, marginals, own, best, score = by_enumeration(hmm, x[first:last])
        assert found.log_z[s] == pytest.approx(log_z, abs=1e-10)
        np.testing.assert_allclose(found.marginals[first:last], marginals, atol=1e-12)
        scores += score
        assert tuple(path[first:last]) == best
        pairs = pairs + own
    assert value == pytest.approx(scores, abs=1e-10)
    np.testing.assert_allclose(found.counts["transition"], pairs, atol=1e-12)


@pytest.mark.parametrize("name", ["categorical", "zeros", "one state"])
def test_the_junction_tree_of_the_factor_graph_agrees(name):
    hmm = make(name)
    x, _ = credo.sample(hmm, lengths=6, seed=2)
    graph = hmm.to_factor_graph(6)
    seen = {f"x{t}": int(v) for t, v in enumerate(x) if t != 3}  # one step is not observed
    answer = credo.infer(graph, "junction-tree", evidence=seen)
    hidden = x.copy()
    hidden[3] = -1
    found = smoothed(hmm, hidden)
    assert answer.log_z.value == pytest.approx(found.log_z[0], abs=1e-10)
    for t in range(6):
        np.testing.assert_allclose(answer.marginals[f"s{t}"], found.marginals[t], atol=1e-10)
    best = credo.infer(hmm.instantiate(x), "junction-tree", maximise="all")
    assert best.assignment.indices.tolist() == decoded(hmm, x)[0].tolist()


def test_the_factor_graph_given_gaussian_data_agrees():
    hmm = make("gaussian")
    x, _ = credo.sample(hmm, lengths=5, seed=2)
    answer = credo.infer(hmm.instantiate(x).to_factor_graph(), "junction-tree")
    found = smoothed(hmm, x)
    assert answer.log_z.value == pytest.approx(found.log_z[0], abs=1e-10)
    np.testing.assert_allclose(np.reshape(answer.marginals.flat, (5, 3)), found.marginals, atol=1e-10)


@pytest.mark.parametrize("name", ["gaussian", "diagonal"])
def test_missing_steps_and_coordinates_are_summed_out(name):
    hmm = make(name)
    x, _ = credo.sample(hmm, lengths=7, seed=3)
    x[2] = np.nan
    x[4, 0] = np.nan
    log_z, marginals, *_ = by_enumeration(hmm, x)
    found = smoothed(hmm, x)
    assert found.log_z[0] == pytest.approx(log_z, abs=1e-10)
    np.testing.assert_allclose(found.marginals, marginals, atol=1e-12)


@pytest.mark.parametrize("name", ["categorical", "gaussian", "poisson", "mixture"])
def test_a_mask_hides_whole_steps(name):
    hmm = make(name)
    x, _ = credo.sample(hmm, lengths=[4, 3], seed=4)
    mask = np.array([True, False, True, True, True, True, False])
    hidden = hmm.emission.hide(hmm.emission.rows(x), ~mask)
    np.testing.assert_allclose(
        smoothed(hmm, x, [4, 3], mask=mask).marginals, smoothed(hmm, hidden, [4, 3]).marginals
    )
    # A last step that is not observed changes no likelihood.
    each = credo.log_likelihood(hmm, x, lengths=[4, 3], mask=mask, each=True)
    assert each[1] == pytest.approx(credo.log_likelihood(hmm, x[4:6]).value)


def test_sequences_may_come_as_a_list_and_be_empty():
    hmm = make("gaussian")
    x, _ = credo.sample(hmm, lengths=[4, 3], seed=4)
    one = credo.log_likelihood(hmm, x, lengths=[4, 0, 3], each=True)
    np.testing.assert_allclose(one[[0, 2]], credo.log_likelihood(hmm, [x[:4], x[4:]], each=True))
    assert one[1] == 0
    data = hmm.sequences([x[:4], x[4:]])
    assert data.place(5) == "sequence 1, step 1" and "2 sequences, 7 rows" in repr(data)
    np.testing.assert_allclose(credo.log_likelihood(hmm, data, each=True), one[[0, 2]])
    assert [len(part) for part in credo.infer(hmm, data=x, lengths=[4, 0, 3]).marginals["state"]] == [4, 0, 3]


def test_filtering_uses_the_past_only():
    hmm = make("categorical")
    x, _ = credo.sample(hmm, lengths=6, seed=5)
    known = credo.infer(hmm, data=x, causal=True).marginals["state"]
    for t in range(6):
        np.testing.assert_allclose(known[t], smoothed(hmm, x[: t + 1]).marginals[-1], atol=1e-12)


def test_samples_have_the_frequencies_of_the_model():
    hmm = make("zeros")
    x, states = credo.sample(hmm, lengths=[20] * 500, seed=7)
    assert (states.reshape(500, 20)[:, 0] == 0).all()
    moves = np.zeros((3, 3))
    for row in states.reshape(500, 20):
        np.add.at(moves, (row[:-1], row[1:]), 1)
    assert (moves[hmm.transition == 0] == 0).all()
    assert moves[0, 1] / moves[0].sum() == pytest.approx(0.5, abs=0.06)
    assert (x[states == 0] < 2).all()
    again, _ = credo.sample(hmm, lengths=[20] * 500, seed=7)
    np.testing.assert_array_equal(x, again)


def test_samples_of_hidden_states_have_the_posterior_frequencies():
    hmm = make("categorical")
    x, _ = credo.sample(hmm, lengths=5, seed=8)
    draws = credo.sample(hmm, 20_000, data=x, seed=0)["state"]
    marginals = smoothed(hmm, x).marginals
    for k in range(3):
        assert np.abs((draws == k).mean(axis=0) - marginals[:, k]).max() < 5 * 0.5 / np.sqrt(20_000)


def test_long_sequences_do_not_underflow():
    hmm = make("gaussian")
    x, _ = credo.sample(hmm, lengths=30_000, seed=9)
    scores, begin = hmm.emission.log_density(x), np.array([0, len(x)])
    scaled, logs = smoothed(hmm, x), smooth_chains(hmm.start, hmm.transition, scores, begin, logs=True)
    assert scaled.log_z[0] == pytest.approx(logs.log_z[0], rel=1e-12)
    np.testing.assert_allclose(scaled.marginals, logs.marginals, atol=1e-9)


def test_weights_that_underflow_are_found_again_in_logarithms():
    # The first observation all but excludes the one state from which the others can be reached.
    step = [[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    hmm = HMM([0.5, 0.0, 0.5], step, DiagonalGaussian([[0.0], [100.0], [50.0]], np.full((3, 1), 0.1)))
    x = np.array([[50.0], [100.0], [100.0]])
    parts = hmm.start, hmm.transition, hmm.emission.log_density(x), np.array([0, 3])
    for found in (smoothed(hmm, x), smooth_chains(*parts, logs=True)):
        log_z = np.logaddexp(
            np.log(0.5) + hmm.emission.log_density(x)[[0, 1, 2], [0, 1, 1]].sum(),
            np.log(0.5) + hmm.emission.log_density(x)[:, 2].sum(),
        )
        assert found.log_z[0] == pytest.approx(log_z, rel=1e-12)
        assert likelihoods(*parts, logs=True)[0] == pytest.approx(log_z, rel=1e-12)
        # e^-12500 at the first step against e^-25000 at the two others: the lost path is the true one.
        np.testing.assert_allclose(found.marginals, [[1, 0, 0], [0, 1, 0], [0, 1, 0]], atol=1e-12)


def test_unnormalised_parameters_are_summed_as_they_are():
    rng = np.random.default_rng(0)
    first, step, scores = rng.random(3), 0.3 * rng.random((3, 3)), rng.normal(size=(4, 3))
    total = sum(
        first[p[0]]
        * np.exp(scores[np.arange(4), p].sum())
        * np.prod([step[a, b] for a, b in itertools.pairwise(p)])
        for p in itertools.product(range(3), repeat=4)
    )
    found = smooth_chains(first, step, scores, np.array([0, 4]))
    assert found.log_z[0] == pytest.approx(np.log(total))
    double = smooth_chains(first, step, scores, np.array([0, 4]), weight=np.array([2.0]))
    np.testing.assert_allclose(double.pairs, 2 * found.pairs)


def test_blocks_of_sequences_give_what_one_block_gives(monkeypatch):
    hmm = make("gaussian")
    x, _ = credo.sample(hmm, lengths=[5, 9, 2, 7], seed=10)
    whole = smoothed(hmm, x, [5, 9, 2, 7])
    data = hmm.sequences(x, [5, 9, 2, 7])
    total = expect_rows(hmm, data)
    monkeypatch.setattr("credo.inference.portfolio.templates.ENTRIES", 30)
    monkeypatch.setattr("credo.learning.hidden_rows.ENTRIES", 30)
    parts = smoothed(hmm, x, [5, 9, 2, 7])
    np.testing.assert_allclose(parts.marginals, whole.marginals)
    np.testing.assert_allclose(parts.log_z, whole.log_z)
    for name in ("start", "transition"):
        np.testing.assert_allclose(parts.counts[name], whole.counts[name])
    np.testing.assert_allclose(expect_rows(hmm, data).emission.sums.total, total.emission.sums.total)


def test_hmmlearn_agrees_on_likelihood_and_path():
    theirs = pytest.importorskip("hmmlearn.hmm")
    hmm = make("gaussian")
    x, _ = credo.sample(hmm, lengths=[80, 40], seed=11)
    peer = theirs.GaussianHMM(3, covariance_type="full")
    peer.startprob_, peer.transmat_ = hmm.start, hmm.transition
    peer.means_, peer.covars_ = hmm.emission.mean, hmm.emission.covariances
    total = credo.log_likelihood(hmm, x, lengths=[80, 40])
    assert total.value == pytest.approx(peer.score(x, [80, 40]), abs=1e-8)
    value, path = peer.decode(x, [80, 40])
    ours, score = decoded(hmm, x, [80, 40])
    assert score == pytest.approx(value, abs=1e-8)
    np.testing.assert_array_equal(ours, path)
    np.testing.assert_allclose(
        smoothed(hmm, x, [80, 40]).marginals, peer.predict_proba(x, [80, 40]), atol=1e-8
    )


def test_an_impossible_observation_is_named():
    hmm = make("zeros")
    assert credo.log_likelihood(hmm, [0, 3, 3]).value == -np.inf
    message = "sequence 1, step 1: no state that can be reached here can emit this row"
    seen = {"data": [0, 1, 0, 3], "lengths": [2, 2]}
    for call in (
        lambda: credo.infer(hmm, **seen),
        lambda: credo.infer(hmm, **seen, maximise="all"),
        lambda: credo.infer(hmm, **seen, causal=True),
        lambda: credo.sample(hmm, 1, **seen),
    ):
        with pytest.raises(ZeroProbabilityError, match=message):
            call()


HALF = [[0.5, 0.5], [0.5, 0.5]]
COIN = Categorical(HALF)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: HMM([0.5, 0.6], HALF, COIN), ModelError, "start: every row must sum to 1"),
        (lambda: HMM([0.5, 0.5], [[0.5, 0.4], [0.5, 0.5]], COIN), ModelError, "transition: every row"),
        (lambda: HMM([[1.0]], [[1.0]], COIN), ModelError, "start: expected an array with 1 axes"),
        (lambda: HMM([1.0], HALF, COIN), ModelError, r"transition: expected shape \(1, 1\), got \(2, 2\)"),
        (lambda: HMM([1.0], [[1.0]], COIN), ModelError, "emission: expected 1 members, one per state, got 2"),
        (lambda: HMM([1.0], [[1.0]], "coin"), ModelError, "emission: expected members of a family, got str"),
        (lambda: smoothed(make("categorical"), []), DataError, "data: expected"),
        (lambda: smoothed(make("gaussian"), np.zeros((0, 2))), DataError, "expected at least one step"),
        (lambda: smoothed(make("categorical"), [0, 9]), DataError, "row 1 has state 9"),
        (lambda: smoothed(make("categorical"), [0, 1], [1]), DataError, "lengths: expected a sum of 2"),
        (lambda: smoothed(make("categorical"), [0, 1], [0.5]), DataError, "lengths: expected counts"),
        (lambda: smoothed(make("categorical"), [0, 1], mask=[1, 0]), DataError, "mask: expected 2 booleans"),
        (
            lambda: smoothed(make("gaussian"), [np.zeros((2, 2)), np.zeros((2, 3))]),
            DataError,
            "sequence 1: data",
        ),
        (
            lambda: smoothed(make("categorical"), make("categorical").sequences([0, 1]), [2]),
            DataError,
            "these sequences are complete",
        ),
        (lambda: credo.sample(make("poisson"), lengths=-1), DataError, "expected counts of steps, got -1"),
        (lambda: credo.sample(make("poisson"), lengths=[]), DataError, r"expected counts of steps, got \[\]"),
        (lambda: credo.sample(make("poisson"), -1, data=[0]), OptionError, "count must be at least 0"),
        (
            lambda: HMM([0.5, 0.5], [[0.5, 0.5], [0.5]], Categorical([[1.0], [1.0]])),
            ModelError,
            "transition: expected numbers in rows of one length, got",
        ),
        (
            lambda: make("gaussian").to_factor_graph(2),
            UnsupportedError,
            "expected categorical emissions, got Gau",
        ),
        (lambda: make("categorical").to_factor_graph(0), OptionError, "length must be at least 1"),
        (
            lambda: make("categorical").update(None, fixed=("means",)),
            OptionError,
            "fixed must be one of",
        ),
    ],
)
def test_bad_input_gets_a_sentence(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_parameters_are_counted_without_structural_zeros():
    assert make("zeros").n_parameters == 0 + 2 + 9
    assert make("gaussian").n_parameters == 2 + 6 + 15
    assert repr(make("categorical")) == "HMM(3 states, Categorical(3 members, 4 states))"


def test_a_model_without_a_length_is_no_factor_graph(tmp_path):
    hmm = make("categorical")
    for call in (lambda: credo.infer(hmm), lambda: credo.save(hmm, tmp_path / "h.uai"), hmm.to_factor_graph):
        with pytest.raises(UnsupportedError, match=r"no length of its own: .*infer\(model, data=x\)"):
            call()


def test_notebooks_show_the_moves_between_states():
    hmm = HMM([0.6, 0.4], [[0.7, 0.3], [0.4, 0.6]], Categorical([[0.1, 0.9], [0.6, 0.4]]))
    assert cells(hmm._repr_html_()) == [
        *("from", "to=0", "to=1"),
        *("start", "0.6", "0.4"),
        *("0", "0.7", "0.3"),
        *("1", "0.4", "0.6"),
    ]


def test_lists_and_frames_are_sequences_as_arrays_are():
    hmm = HMM([0.6, 0.4], [[0.7, 0.3], [0.4, 0.6]], Categorical([[0.1, 0.9], [0.6, 0.4]]))
    for sequences in ([[0, 1], [1, 1, 0]], [[0, 1], [1, 1]]):
        expected = credo.log_likelihood(hmm, [np.array(part) for part in sequences])
        assert credo.log_likelihood(hmm, sequences) == expected
        assert credo.log_likelihood(hmm, [pd.DataFrame(part) for part in sequences]) == expected
        assert credo.log_likelihood(hmm, tuple(map(tuple, sequences))) == expected
    with pytest.raises(DataError, match="sequence 1: data: row 1 has state 7, expected 0 to 1"):
        credo.log_likelihood(hmm, [[0, 1], [1, 7, 0]])
    with pytest.raises(DataError, match="expected state indices"):
        credo.log_likelihood(hmm, [0, 10**400])
    with pytest.raises(DataError, match="expected state indices"):
        credo.log_likelihood(hmm, [[0, [1, 2]], [1, 0]])
    counts = HMM([0.6, 0.4], [[0.7, 0.3], [0.4, 0.6]], Poisson([1.0, 3.0]))
    with pytest.raises(DataError, match="expected counts, got"):
        credo.log_likelihood(counts, [1, 10**400])


@pytest.mark.parametrize("part", ["start", "transition", "durations"])
def test_priors_that_are_no_priors_are_refused(part):
    with pytest.raises(ModelError, match=f"{part}: expected a Dirichlet prior or None, got ndarray"):
        HMMPrior(**{part: np.ones(5)})
    with pytest.raises(ModelError, match="emission: expected the conjugate prior"):
        HMMPrior(emission=np.ones(5))
