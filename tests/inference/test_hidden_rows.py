"""Templates and their instances: chains, segments and independent rows against general methods."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import credo
from credo.core.errors import ModelError, OptionError, QueryError, UnsupportedError, ZeroProbabilityError
from credo.core.instance import Instance
from credo.families import Categorical, DiagonalGaussian, Mixture, Poisson, Product, StudentT
from credo.inference.exact.hidden_rows import (
    best_states,
    draw_states,
    filter_rows,
    forecast_states,
    smooth_rows,
    unit_log_z,
)
from credo.inference.exact.walks import walk
from credo.learning.hidden_rows import expect_rows
from credo.models.factorial_hmm import FactorialHMM
from credo.models.semi_markov import SemiMarkov

FAMILY = Categorical([[0.1, 0.4, 0.5], [0.6, 0.3, 0.1]])
HMM = credo.HMM([0.6, 0.4], [[0.7, 0.3], [0.4, 0.6]], FAMILY)
SEGMENTS = SemiMarkov([0.3, 0.7], [[0.1, 0.9], [0.8, 0.2]], [[0.2, 0.3, 0.5], [0.6, 0.4, 0.0]], FAMILY)
X, LENGTHS = [0, 1, -1, 2, 2, 0, 1], [4, 1, 2]


def test_forward_backward_agrees_with_the_junction_tree_on_ragged_sequences_with_missing_rows():
    found = credo.infer(HMM, data=X, lengths=LENGTHS)
    other = credo.infer(HMM, "junction-tree", data=X, lengths=LENGTHS)
    assert found.log_z.kind == "exact" and found.log_z.value == pytest.approx(other.log_z.value, abs=1e-12)
    assert [len(part) for part in found.marginals["state"]] == LENGTHS
    for ours, theirs in zip(found.marginals["state"], other.marginals["state"], strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)


def test_pair_counts_are_the_factor_marginals_of_the_chain():
    instance = HMM.instantiate(X, LENGTHS)
    tree = credo.infer(instance, "junction-tree")
    rows = len(X)
    pairs = sum(np.asarray(tree.factor_marginals[a]) for a in range(rows, len(tree.factor_marginals)))
    np.testing.assert_allclose(smooth_rows(instance).counts["transition"], pairs, atol=1e-12)
    start = smooth_rows(instance).marginals[[0, 4, 5]].sum(axis=0)
    np.testing.assert_allclose(smooth_rows(instance).counts["start"], start, atol=1e-12)


def test_the_counts_of_a_result_are_named_by_tables_and_are_slopes_of_log_z():
    found = credo.infer(SEGMENTS, data=X, lengths=LENGTHS)
    assert sorted(found.factor_marginals) == ["durations", "start", "transition"]
    step = 1e-6
    moved = SEGMENTS.transition.copy()
    moved[0, 1] *= np.exp(step)
    tables = {"start": SEGMENTS.start, "transition": moved, "durations": SEGMENTS.durations}
    before = SEGMENTS.instantiate(X, LENGTHS)
    after = replace(before, tables=tables)
    slope = (unit_log_z(after).sum() - unit_log_z(before).sum()) / step
    assert found.factor_marginals["transition"][0, 1] == pytest.approx(slope, rel=1e-4)


def test_log_likelihoods_of_sequences_and_of_rows_of_any_model_are_given_one_by_one():
    each = credo.log_likelihood(HMM, X, lengths=LENGTHS, each=True)
    assert each.shape == (3,) and each.sum() == pytest.approx(
        credo.log_likelihood(HMM, X, lengths=LENGTHS).value
    )
    net = credo.datasets.sprinkler()
    data = {"rain": ["yes", "no", None], "wet": ["yes", None, "no"]}
    rows = credo.log_likelihood(net, data, each=True)
    assert rows.sum() == pytest.approx(credo.log_likelihood(net, data).value)
    assert rows[1] == pytest.approx(np.log(credo.query(net, "rain")["no"]))


def test_the_best_path_agrees_with_the_junction_tree():
    found = credo.infer(HMM, data=X[:4], maximise="all")
    other = credo.infer(HMM, "junction-tree", data=X[:4], maximise="all")
    assert found.assignment["state"].tolist() == other.assignment["state"].tolist()
    assert found.log_z.value == pytest.approx(other.log_z.value, abs=1e-12)


def test_filtering_is_smoothing_of_the_beginning():
    causal = credo.infer(HMM, data=X[:4], causal=True)
    for t in range(4):
        ahead = credo.infer(HMM, data=X[: t + 1])
        np.testing.assert_allclose(causal.marginals["state"][t], ahead.marginals["state"][-1], atol=1e-12)
    assert causal.log_z.value == pytest.approx(credo.infer(HMM, data=X[:4]).log_z.value, abs=1e-12)


def test_one_row_is_the_posterior_of_the_first_state():
    found = credo.infer(HMM, data=[2])
    weights = np.array([0.6, 0.4]) * FAMILY.probabilities[:, 2]
    np.testing.assert_allclose(found.marginals["state"], [weights / weights.sum()], atol=1e-12)
    assert found.log_z.value == pytest.approx(np.log(weights.sum()))


def test_a_general_method_by_name_answers_in_rows_too():
    found, exact = credo.infer(HMM, "bp", data=X[:4]), credo.infer(HMM, data=X[:4])
    np.testing.assert_allclose(found.marginals["state"], exact.marginals["state"], atol=1e-6)
    table = credo.compare(HMM, ["junction-tree", "bp"], data=X, lengths=LENGTHS)
    assert table.rows[1].max_tv < 1e-6


def _weight(path, x, model):
    """The weight of one path of states, over all ways to cut it into segments."""
    emission = np.prod([1.0 if v < 0 else FAMILY.probabilities[k, v] for k, v in zip(path, x, strict=True)])
    beyond = model.durations[:, ::-1].cumsum(axis=1)[:, ::-1]
    total = 0.0
    for ends in itertools.product([False, True], repeat=len(path) - 1):
        cuts = [0, *[t + 1 for t, end in enumerate(ends) if end], len(path)]
        value, before = 1.0, None
        for a, b in itertools.pairwise(cuts):
            k = path[a]
            if len(set(path[a:b])) > 1 or b - a > model.durations.shape[1]:
                value = 0.0
                break
            lasting = (beyond if b == len(path) and model.cut else model.durations)[k, b - a - 1]
            value *= (model.start[k] if before is None else model.transition[before, k]) * lasting
            before = k
        total += value
    return total * emission


@pytest.mark.parametrize("cut", [True, False])
def test_segments_agree_with_enumeration(cut):
    model = SemiMarkov(SEGMENTS.start, SEGMENTS.transition, SEGMENTS.durations, FAMILY, cut=cut)
    x = [0, 1, -1, 2, 2]
    paths = np.array(list(itertools.product([0, 1], repeat=len(x))))
    weights = np.array([_weight(path, x, model) for path in paths])
    found = credo.infer(model, data=x)
    assert found.log_z.value == pytest.approx(np.log(weights.sum()), abs=1e-12)
    share = (weights[:, None] * paths).sum(axis=0) / weights.sum()
    np.testing.assert_allclose(found.marginals["state"][:, 1], share, atol=1e-12)


def test_segments_are_filtered_drawn_and_continued_over_remaining_steps():
    instance, chain = SEGMENTS.instantiate(X[:5]), SEGMENTS.to_hmm().instantiate(X[:5])
    np.testing.assert_allclose(
        filter_rows(instance), filter_rows(chain).reshape(5, 2, 3).sum(axis=2), atol=1e-12
    )
    np.testing.assert_allclose(
        forecast_states(instance, 3)[0], forecast_states(chain, 3)[0].reshape(3, 2, 3).sum(axis=2), atol=1e-12
    )
    draws = draw_states(instance, 3_000, np.random.default_rng(0))
    np.testing.assert_allclose(draws.mean(axis=0), smooth_rows(instance).marginals[:, 1], atol=0.04)


def test_a_forecast_is_what_missing_rows_at_the_end_would_be():
    ahead = credo.forecast(HMM, X[:4], steps=3)
    longer = credo.infer(HMM, data=[*X[:4], -1, -1, -1])
    np.testing.assert_allclose(ahead.states, longer.marginals["state"][4:], atol=1e-12)
    assert ahead.mean is None
    both = [credo.log_likelihood(HMM, [*X[:4], *more]).value for more in ([], [2])]
    assert ahead.log_density([2, -1, -1])[0] == pytest.approx(both[1] - both[0], abs=1e-12)
    assert len(credo.forecast(HMM, X, 2, lengths=LENGTHS)) == 3
    with pytest.raises(QueryError, match="rows: expected 3, one per step, got 1"):
        ahead.log_density([2])


def test_expected_rows_of_a_forecast_are_mixed_means():
    hmm = credo.HMM([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], DiagonalGaussian([[0.0], [4.0]], [[1.0], [1.0]]))
    ahead = credo.forecast(hmm, [[0.1], [3.9]], steps=2)
    np.testing.assert_allclose(ahead.mean, 4 * ahead.states[:, 1:], atol=1e-12)


def test_forecasts_of_products_mixtures_and_heavy_tails_have_means_too():
    half, move = [0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]]
    normals = DiagonalGaussian([[0.0], [4.0], [6.0], [8.0]], np.ones((4, 1)))
    mixed = Mixture([[0.25, 0.75], [0.5, 0.5]], normals)
    parts = [
        mixed,
        Categorical([[0.9, 0.1], [0.2, 0.8]]),
        DiagonalGaussian([[1.0, 2.0], [3.0, 5.0]], np.ones((2, 2))),
        StudentT([[-1.0], [1.0]], np.ones((2, 1)), [3.0, 4.0]),
        Poisson([2.0, 9.0]),
    ]
    names = ["size", "kind", ("left", "right"), "tail", "count"]
    hmm = credo.HMM(half, move, Product(parts, names))
    x, _ = credo.sample(hmm, lengths=6, seed=0)
    ahead = credo.forecast(hmm, x, steps=3)
    each = {"size": [3, 7], "left": [1, 3], "right": [2, 5], "tail": [-1, 1], "count": [2, 9]}
    assert ahead.mean.keys() == {"kind", *each} and ahead.mean["kind"] is None
    for name, means in each.items():
        np.testing.assert_allclose(ahead.mean[name], ahead.states @ np.array(means, dtype=float))
    alone = credo.forecast(credo.HMM(half, move, mixed), [[0.5], [7.0]], steps=2)
    np.testing.assert_allclose(alone.mean, alone.states @ [[3.0], [7.0]])
    wild = credo.HMM(half, move, StudentT([[-1.0], [1.0]], np.ones((2, 1)), [1.0, 4.0]))
    assert credo.forecast(wild, [[0.5]]).mean is None  # the first state has no mean


def test_paths_given_data_have_the_marginals_of_the_smoother():
    drawn = credo.sample(HMM, 3_000, data=X, lengths=LENGTHS, seed=0)["state"]
    exact = credo.infer(HMM, data=X, lengths=LENGTHS).marginals["state"]
    for path, part in zip(drawn, exact, strict=True):
        np.testing.assert_allclose(path.mean(axis=0), part[:, 1], atol=0.04)
    rows, states = credo.sample(HMM, lengths=[3, 2], seed=0)
    assert len(rows) == len(states) == 5


def test_factorial_chains_answer_by_chain():
    half, sticky = [0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]]
    model = FactorialHMM.additive([half, half], [sticky, sticky], [[[0.0], [1.0]], [[0.0], [3.0]]], [[0.1]])
    x = [[0.0], [1.0], [4.0], [3.0]]
    found, joint = credo.infer(model, data=x), credo.infer(model.to_hmm(), data=x).marginals["state"]
    for m in range(2):
        known = joint.reshape(4, 2, 2).sum(axis=2 - m)
        np.testing.assert_allclose(found.marginals[f"state{m}"], known, atol=1e-12)
    best = credo.infer(model, data=x, maximise="all").assignment
    assert best["state0"].tolist() == [0, 1, 1, 0] and best["state1"].tolist() == [0, 0, 1, 1]
    assert credo.sample(model, 3, data=x, seed=0)["state1"].shape == (3, 4)


def test_independent_rows_are_a_mixture():
    rng = np.random.default_rng(0)
    scores, weights = rng.normal(size=(6, 3)), np.array([0.2, 0.3, 0.5])
    instance = Instance("independent", scores, np.array([0, 4, 6]), {"weights": weights})
    joint = np.exp(scores) * weights
    found, tree = smooth_rows(instance), credo.infer(instance, "junction-tree")
    np.testing.assert_allclose(found.marginals, joint / joint.sum(axis=1, keepdims=True), atol=1e-12)
    np.testing.assert_allclose(found.counts["weights"], found.marginals.sum(axis=0), atol=1e-12)
    assert found.log_z.sum() == pytest.approx(tree.log_z.value, abs=1e-12)
    np.testing.assert_allclose(unit_log_z(instance), found.log_z, atol=1e-12)
    path, value = best_states(instance)
    assert path.tolist() == joint.argmax(axis=1).tolist()
    assert value.sum() == pytest.approx(np.log(joint.max(axis=1)).sum())
    draws = draw_states(instance, 3_000, rng)
    np.testing.assert_allclose((draws == 2).mean(axis=0), found.marginals[:, 2], atol=0.04)
    np.testing.assert_allclose(filter_rows(instance), found.marginals, atol=1e-12)
    np.testing.assert_allclose(forecast_states(instance, 1)[0, 0], weights, atol=1e-12)


@pytest.mark.parametrize("structure", ["independent", "chains", "segments", "factorial"])
def test_new_rows_have_the_frequencies_of_the_tables(structure):
    zeros = np.zeros((12_000, 2))
    begin = np.arange(0, 12_001, 3)
    if structure == "independent":
        instance = Instance(structure, zeros, begin, {"weights": np.array([0.3, 0.7])})
    elif structure == "factorial":
        chain = {"start0": HMM.start, "transition0": HMM.transition}
        still = {"start1": np.ones(1), "transition1": np.ones((1, 1))}
        instance = Instance(structure, zeros, begin, {**chain, **still}, shape=(2, 1))
    else:
        instance = (SEGMENTS if structure == "segments" else HMM).hidden(zeros, begin)
    paths = walk(instance, np.random.default_rng(0)).reshape(-1, 3)
    expected = smooth_rows(instance).marginals[:3, 1]  # scores of zero say nothing
    np.testing.assert_allclose(paths.mean(axis=0), expected, atol=0.03)


def test_what_counts_for_nothing_may_be_impossible():
    hard = credo.HMM([1.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], Categorical([[1.0, 0.0], [0.0, 1.0]]))
    found = credo.log_likelihood(hard, [[0, 0], [0, 1, 1]], weights=[1.0, 0.0])
    assert found.value == 0.0
    data = credo.data.read_sequences([[0, 0], [0, 1, 1]], hard.emission, weights=[1.0, 0.0])
    assert hard.instantiate(data).total(np.array([0.0, -np.inf])) == 0.0


def test_expected_counts_add_up_over_sequences():
    whole = expect_rows(HMM, HMM.sequences(X, LENGTHS))
    parts = [expect_rows(HMM, HMM.sequences(part)) for part in (X[:4], X[4:5], X[5:])]
    total = parts[0] + parts[1] + parts[2]
    np.testing.assert_allclose(whole.counts["transition"], total.counts["transition"], atol=1e-12)
    assert whole.log_likelihood == pytest.approx(total.log_likelihood, abs=1e-12)


def test_what_is_impossible_is_named_by_sequence_and_step():
    hard = credo.HMM([1, 0], [[1, 0], [0.5, 0.5]], Categorical([[1.0, 0.0], [0.0, 1.0]]))
    for ask in (
        lambda: credo.infer(hard, data=[0, 0, 0, 1], lengths=[2, 2]),
        lambda: credo.infer(hard, data=[0, 0, 0, 1], lengths=[2, 2], causal=True),
        lambda: credo.infer(hard, data=[0, 0, 0, 1], lengths=[2, 2], maximise="all"),
        lambda: credo.sample(hard, data=[0, 0, 0, 1], lengths=[2, 2]),
        lambda: expect_rows(hard, hard.sequences([0, 0, 0, 1], [2, 2])),
    ):
        with pytest.raises(ZeroProbabilityError, match="sequence 1, step 1: no state"):
            ask()
    assert credo.log_likelihood(hard, [0, 1]).value == -np.inf
    rows = Instance("independent", np.array([[0.0], [-np.inf]]), np.array([0, 2]), {"weights": np.ones(1)})
    with pytest.raises(ZeroProbabilityError, match="row 1: no state"):
        smooth_rows(rows)
    with pytest.raises(ZeroProbabilityError, match="sequence 0: no segments"):
        credo.infer(SemiMarkov([1, 0], [[0, 1], [1, 0]], [[0, 1], [0, 1]], hard.emission), data=[1, 1])


@pytest.mark.parametrize(
    ("ask", "error", "told"),
    [
        (
            lambda: credo.infer(HMM, data=X, evidence={"a": 1}),
            QueryError,
            "evidence: expected none",
        ),
        (lambda: credo.infer(HMM, data=X, maximise=["s0"]), QueryError, "maximise: expected \\(\\) or 'all'"),
        (
            lambda: credo.infer(HMM, data=X, causal=True, maximise="all"),
            QueryError,
            "causal: filtering",
        ),
        (lambda: credo.infer(HMM, "bp", data=X, causal=True), QueryError, "causal: expected no method"),
        (lambda: credo.infer(credo.datasets.sprinkler(), data=X), ModelError, "data: expected a template"),
        (
            lambda: credo.infer(credo.datasets.sprinkler(), causal=True),
            QueryError,
            "causal: expected data= with them",
        ),
        (lambda: credo.infer(SEGMENTS, "bp", data=X), UnsupportedError, "segments: a general method needs"),
        (lambda: credo.sample(credo.datasets.sprinkler()), QueryError, "count: expected how many"),
        (lambda: credo.compare(HMM, "bp", lengths=[1]), QueryError, "lengths: expected data="),
        (lambda: credo.log_likelihood(HMM, X, "bp"), OptionError, "inference: expected none"),
        (
            lambda: credo.log_likelihood(credo.datasets.sprinkler(), [], lengths=[1]),
            OptionError,
            "lengths: expected",
        ),
        (
            lambda: Instance("tree", np.zeros((1, 1)), np.array([0, 1]), {}),
            ModelError,
            "instance: expected",
        ),
        (
            lambda: Instance("independent", np.zeros((1, 1)), np.array([0, 2]), {"weights": np.ones(1)}),
            ModelError,
            "instance: expected scores",
        ),
        (
            lambda: Instance("independent", np.zeros((1, 2)), np.array([0, 1]), {"weights": np.ones(1)}),
            ModelError,
            "weights: expected 2 states",
        ),
        (
            lambda: credo.infer(
                SemiMarkov([1, 0], [[0, 1], [1, 0]], [[1], [1]], FAMILY, cut=False), data=[0], causal=True
            ),
            UnsupportedError,
            "segments: filtering, drawing and forecasting",
        ),
    ],
)
def test_refusals_say_what_to_write(ask, error, told):
    with pytest.raises(error, match=told):
        ask()
