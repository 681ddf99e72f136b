"""Factorial hidden Markov models: exact on the product space, and two mean fields below it."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

import credo
from credo.core.errors import (
    ConvergenceError,
    ConvergenceWarning,
    CredoError,
    ModelError,
    OptionError,
    QueryError,
    UnsupportedError,
)
from credo.core.instance import Instance
from credo.core.result import Status
from credo.families import Categorical
from credo.inference.variational.structured_mean_field import StructuredMeanField
from credo.models.factorial_hmm import FactorialHMM
from markup import read
from sequence_answers import flat

METHODS = ["mean-field", "structured-mean-field", "structured-mean-field(start=random)"]
CHAINS = {"start0": np.ones(2), "transition0": np.ones((2, 2))}


def make(seed=0, shape=(2, 3), symbols=4):
    rng = np.random.default_rng(seed)
    return FactorialHMM(
        [rng.dirichlet(np.ones(k)) for k in shape],
        [rng.dirichlet(np.ones(k), size=k) for k in shape],
        Categorical(rng.dirichlet(np.ones(symbols), size=int(np.prod(shape)))),
    )


def test_the_product_space_equals_the_sum_over_all_joint_paths():
    model = make()
    x = [0, 3, 1]
    table = model.emission.probabilities.reshape(2, 3, 4)
    total, marginal = 0.0, np.zeros((3, 3))
    for a in itertools.product(range(2), repeat=3):
        for b in itertools.product(range(3), repeat=3):
            p = model.starts[0][a[0]] * model.starts[1][b[0]]
            p *= np.prod([table[a[t], b[t], x[t]] for t in range(3)])
            for t in (1, 2):
                p *= model.transitions[0][a[t - 1], a[t]] * model.transitions[1][b[t - 1], b[t]]
            total += p
            marginal[np.arange(3), b] += p
    found = credo.infer(model, data=x)
    assert found.log_z.kind == "exact"
    assert found.log_z.value == pytest.approx(np.log(total))
    assert credo.log_likelihood(model, x).value == pytest.approx(np.log(total))
    np.testing.assert_allclose(found.marginals["state1"], marginal / total)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("method", METHODS)
def test_mean_fields_rise_and_stay_below_the_likelihood(method, seed):
    model = make(seed, (2, 3, 2))
    x, _ = credo.sample(model, lengths=[9, 1, 6], seed=seed)
    exact = credo.log_likelihood(model, x, lengths=[9, 1, 6]).value
    found = credo.infer(model, method, data=x, lengths=[9, 1, 6], seed=seed)
    assert found.status is Status.CONVERGED
    assert found.log_z.kind == "lower"
    assert (np.diff(found.trace["log_z"]) > -1e-9).all()
    assert found.log_z.value <= exact + 1e-9
    for q in found.marginals.values():
        np.testing.assert_allclose(flat(q).sum(axis=1), 1)


def test_the_structured_bound_is_the_tighter_one():
    model = make(7)
    x, _ = credo.sample(model, lengths=20, seed=1)
    best = {
        method: max(credo.infer(model, method, data=x, seed=s).log_z.value for s in range(5))
        for method in METHODS
    }
    exact = credo.log_likelihood(model, x).value
    assert best["mean-field"] < best["structured-mean-field(start=random)"] < exact
    assert best["mean-field"] < best["structured-mean-field"] < exact
    for seed in range(5):
        naive, chains = (credo.infer(model, m, data=x, seed=seed) for m in METHODS[:2])
        assert chains.log_z.value >= naive.log_z.value


def test_structured_mean_field_is_exact_for_one_chain_and_for_chains_that_do_not_meet():
    one = make(1, (3,))
    x, _ = credo.sample(one, lengths=12, seed=2)
    exact = credo.log_likelihood(one, x).value
    assert credo.infer(one, "structured-mean-field", data=x).log_z.value == pytest.approx(exact)
    rng = np.random.default_rng(0)
    left, right = rng.dirichlet(np.ones(2), size=2), rng.dirichlet(np.ones(3), size=3)
    apart = FactorialHMM([[0.5, 0.5], [0.2, 0.3, 0.5]], [left, right], Categorical(np.kron(left, right)))
    x, _ = credo.sample(apart, lengths=10, seed=3)
    exact = credo.infer(apart, data=x)
    found = credo.infer(apart, "structured-mean-field", data=x, seed=0)
    assert found.log_z.value == pytest.approx(exact.log_z.value, abs=1e-8)
    np.testing.assert_allclose(found.marginals["state0"], exact.marginals["state0"], atol=1e-6)


def test_factored_mean_field_is_exact_for_single_steps_of_one_chain():
    one = make(2, (3,))
    given = {"data": [0, 1, 2], "lengths": [1, 1, 1]}
    found = credo.infer(one, "mean-field", **given)
    assert found.log_z.value == pytest.approx(credo.infer(one, **given).log_z.value)


def test_a_stationary_point_satisfies_the_update_equations():
    model = make(3)
    x, _ = credo.sample(model, lengths=6, seed=4)
    with pytest.warns(ConvergenceWarning):
        found = credo.infer(model, "mean-field", data=x, seed=1, tol=0, max_iter=500)
    q = list(found.marginals.values())
    logs = np.log(model.emission.probabilities).reshape(2, 3, 4)[:, :, x]
    for t in range(6):
        field = np.einsum("ij,j->i", logs[:, :, t], q[1][t])
        step = np.log(model.transitions[0])
        field = field + (np.log(model.starts[0]) if t == 0 else q[0][t - 1] @ step)
        field = field + (0 if t == 5 else step @ q[0][t + 1])
        new = np.exp(field - field.max())
        np.testing.assert_allclose(q[0][t], new / new.sum(), atol=1e-6)


def test_additive_effects_are_recovered():
    half, sticky = [0.5, 0.5], [[0.95, 0.05], [0.05, 0.95]]
    effects = [[[0.0, 0.0], [2.0, 0.0]], [[0.0, 0.0], [0.0, 3.0]]]
    model = FactorialHMM.additive([half, half], [sticky, sticky], effects, 0.2 * np.eye(2))
    x, states = credo.sample(model, lengths=[100, 50], seed=5)
    assert states.shape == (150, 2)
    for method in (None, *METHODS):
        found = credo.infer(model, method, data=x, lengths=[100, 50], seed=0)
        for m in range(2):
            assert (flat(found.marginals[f"state{m}"]).argmax(axis=1) == states[:, m]).mean() > 0.95
    x[10] = np.nan
    gone = credo.infer(model, METHODS[1], data=x, mask=np.arange(150) > 2)
    assert np.isfinite(gone.log_z.value)


def test_the_graph_of_several_chains_answers_as_they_do():
    model = make(5, (2, 3))
    x, lengths = [0, 3, -1, 1, 2, 2], [4, 2]
    exact = credo.infer(model, data=x, lengths=lengths)
    tree = credo.infer(model, "junction-tree", data=x, lengths=lengths)
    assert tree.log_z.value == pytest.approx(exact.log_z.value, abs=1e-10)
    for name in ("state0", "state1"):
        np.testing.assert_allclose(flat(tree.marginals[name]), flat(exact.marginals[name]), atol=1e-10)
    best, other = (credo.infer(model, m, data=x[:4], maximise="all") for m in (None, "junction-tree"))
    assert best.score.value == pytest.approx(other.score.value, abs=1e-10)
    for name in ("state0", "state1"):
        np.testing.assert_array_equal(best.assignment[name], other.assignment[name])


def test_counts_of_a_chain_are_those_of_the_product_summed_over_the_others():
    model = make(6, (2, 3))
    x = [0, 3, 1, 1, 2]
    found = credo.infer(model, data=x).factor_marginals
    big = credo.infer(model.to_hmm(), data=x).factor_marginals
    np.testing.assert_allclose(found["start1"], big["start"].reshape(2, 3).sum(axis=0))
    pairs = big["transition"].reshape(2, 3, 2, 3)
    np.testing.assert_allclose(found["transition0"], pairs.sum(axis=(1, 3)))
    np.testing.assert_allclose(found["transition1"], pairs.sum(axis=(0, 2)))


@pytest.mark.parametrize("method", METHODS)
def test_a_weight_counts_a_sequence_so_often(method):
    model = make(2, (2, 2))
    parts = [[0, 1, 3], [2, 2]]
    data = credo.data.read_sequences(parts, model.emission, weights=[2.0, 1.0])
    weighed = credo.infer(model, method, data=data, seed=0)
    each = credo.infer(model, method, data=parts, seed=0)
    first = credo.infer(model, method, data=parts[:1], seed=0)
    exact = credo.log_likelihood(model, data).value
    assert each.log_z.value < weighed.log_z.value + 1e9 and weighed.log_z.value <= exact + 1e-9
    assert weighed.log_z.value == pytest.approx(each.log_z.value + first.log_z.value, abs=0.2)
    np.testing.assert_allclose(flat(weighed.marginals["state0"]), flat(each.marginals["state0"]), atol=1e-6)


def test_a_zero_leaves_chains_but_no_independent_steps():
    half = [[0.5, 0.5], [0.5, 0.5]]
    model = FactorialHMM([[1.0, 0.0], [0.5, 0.5]], [[[0.5, 0.5], [0.0, 1.0]], half], make(0, (2, 2)).emission)
    found = credo.infer(model, "structured-mean-field", data=[0, 1, 3, 2], seed=0)
    assert found.log_z.value <= credo.log_likelihood(model, [0, 1, 3, 2]).value
    assert "began at random" in found.notes[-1]


def test_restarts_keep_the_best_and_a_checkpoint_goes_on_to_the_same_bits(tmp_path):
    model, path = make(3, (2, 3)), tmp_path / "run.credo"
    x = [0, 1, 2, 3, 3, 0, 1]
    several = credo.infer(model, "mean-field(restarts=4)", data=x, seed=0)
    assert "4 of 4 starts gave bounds" in several.notes[0]
    method, limits = "structured-mean-field(start=random)", {"tol": 0.0, "seed": 0}
    with pytest.warns(ConvergenceWarning):
        whole = credo.infer(model, method, data=x, max_iter=6, **limits)
    with pytest.warns(ConvergenceWarning):
        credo.infer(model, method, data=x, max_iter=3, checkpoint=path, every=0, **limits)
    with pytest.warns(ConvergenceWarning):
        again = credo.infer(model, method, data=x, max_iter=6, checkpoint=path, every=0, **limits)
    np.testing.assert_array_equal(again.trace["log_z"], whole.trace["log_z"])
    np.testing.assert_array_equal(again.marginals["state1"], whole.marginals["state1"])
    with pytest.raises(CredoError, match="rows"):
        credo.infer(model, method, data=x[:3], max_iter=6, checkpoint=path, every=0, **limits)


def test_iterations_can_run_out():
    model = make(3)
    with pytest.warns(ConvergenceWarning):
        found = credo.infer(model, "mean-field", data=[0, 1, 2, 3], max_iter=1, seed=0)
    assert found.status is Status.OUT_OF_ITERATIONS
    with pytest.raises(ConvergenceError, match="mean-field: max_iter was reached"):
        credo.infer(model, "mean-field", data=[0, 1, 2, 3], max_iter=1, seed=0, strict=True)


def quietly(*arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return credo.fit(*arguments, **options)


def test_learning_one_chain_is_learning_a_hidden_markov_model():
    one = make(4, (3,))
    x, _ = credo.sample(one, lengths=[30, 20], seed=1)
    start = make(5, (3,))
    many, plain = (quietly(m, x, lengths=[30, 20], max_iter=5, tol=0) for m in (start, start.to_hmm()))
    np.testing.assert_allclose(many.objective, plain.objective, rtol=1e-12)
    np.testing.assert_allclose(many.model.transitions[0], plain.model.transition, rtol=1e-10)


def test_learning_several_chains_never_lowers_the_likelihood_and_keeps_them_apart():
    true = make(6, (2, 3), symbols=8)
    x, _ = credo.sample(true, lengths=[40] * 10, seed=2)
    found = quietly(make(7, (2, 3), symbols=8), x, lengths=[40] * 10, max_iter=40, tol=0, restarts=2, seed=0)
    assert (np.diff(found.objective) > -1e-12).all() and found.learner.startswith("em")
    big = found.model.to_hmm()
    assert credo.log_likelihood(big, x, lengths=[40] * 10).value == pytest.approx(found.log_likelihood.value)
    # The free chain over six joint states has more to say, so the product cannot beat it from there.
    free = quietly(big, x, lengths=[40] * 10, max_iter=5, tol=0)
    assert free.objective[-1] >= found.objective[-1]
    kept = quietly(true, x, max_iter=2, fixed=("emission", "start"))
    np.testing.assert_array_equal(kept.model.emission.probabilities, true.emission.probabilities)
    assert true.n_parameters == (1 + 2) + (2 + 6) + 6 * 7 and true.movement(true) == 0


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: FactorialHMM([], [], Categorical([[1.0]])), ModelError, "as many starts as transitions"),
        (
            lambda: FactorialHMM([[1.0]], [[[0.5, 0.5], [0.5, 0.5]]], Categorical([[1.0]])),
            ModelError,
            r"transition of chain 0: expected shape \(1, 1\)",
        ),
        (
            lambda: FactorialHMM([[1.0]], [[[1.0]]], Categorical([[1.0], [1.0]])),
            ModelError,
            "emission: expected 1 members, one per joint state, got 2",
        ),
        (lambda: FactorialHMM([[1.0]], [[[1.0]]], "x"), ModelError, "one per joint state, got str"),
        (lambda: credo.infer(make(), "loopy", data=[0]), OptionError, "loopy"),
        (lambda: make().update(None, fixed=("means",)), OptionError, "fixed must be one of"),
        (lambda: credo.infer(make(), "mean-field", data=[0], max_iter=2.5), OptionError, "max_iter must be"),
        (
            lambda: credo.infer(make(), StructuredMeanField(clusters=[["s0_0"]]), data=[0]),
            UnsupportedError,
            "one cluster per chain",
        ),
        (lambda: credo.infer(make(), "mean-field", data=[0], causal=True), QueryError, "expected no method"),
        (
            lambda: Instance("factorial", np.zeros((1, 5)), np.array([0, 1]), CHAINS, shape=(2,)),
            ModelError,
            "expected 2 joint states, got 5",
        ),
        (
            lambda: FactorialHMM.additive([[0.5, 0.5]], [[[0.5, 0.5], [0.5, 0.5]]], [[0.0, 1.0]], [[1.0]]),
            ModelError,
            r"effects: expected arrays \(states of the chain, d\) with one d, got shape \(2,\) for chain 0",
        ),
        (lambda: FactorialHMM.additive([], [], [], [[1.0]]), ModelError, "with one d, got none"),
        (
            lambda: credo.infer(
                FactorialHMM([[1.0]], [[[1.0]]], Categorical([[1.0, 0.0]])), "structured-mean-field", data=[1]
            ),
            UnsupportedError,
            "structured-mean-field cannot treat these rows: an emission has probability zero",
        ),
        (
            lambda: credo.infer(
                FactorialHMM([[1.0, 0.0]], [[[0.5, 0.5], [0.5, 0.5]]], Categorical([[1.0], [1.0]])),
                "mean-field",
                data=[0],
            ),
            UnsupportedError,
            "a start or transition has probability zero",
        ),
    ],
)
def test_bad_input_gets_a_sentence(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_notebooks_show_the_moves_of_every_chain():
    half, sticky = [0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]]
    model = FactorialHMM.additive([half, half], [sticky, sticky], [[[0.0], [1.0]], [[0.0], [3.0]]], [[0.1]])
    texts = [text for _, _, text in read(model._repr_html_())]
    assert texts[0] == repr(model) and texts.count("start") == 2
    assert texts[1] == "chain 0" and "chain 1" in texts


def sums(seed=0):
    half, sticky = [0.5, 0.5], [[0.95, 0.05], [0.1, 0.9]]
    third = np.full((3, 3), 0.05) + 0.85 * np.eye(3)
    effects = [[[0.0, 0.0], [1.0, 2.0]], [[0.0, 0.0], [3.0, -1.0], [6.0, 3.0]]]
    truth = FactorialHMM.additive([half, np.full(3, 1 / 3)], [sticky, third], effects, 0.2 * np.eye(2))
    x, _ = credo.sample(truth, lengths=[120, 80], seed=seed)
    return truth, [x[:120], x[120:]]


def test_a_blank_of_sums_is_learned_exactly_and_stays_a_sum():
    truth, data = sums()
    blank = credo.FactorialHMM(states=[2, 3], emission="additive")
    found = credo.fit(blank, data, seed=0)
    assert found.log_likelihood.value > credo.log_likelihood(truth, data).value
    mean = found.model.emission.mean.reshape(2, 3, 2)
    assert mean[1] - mean[0] == pytest.approx(np.repeat((mean[1] - mean[0])[:1], 3, axis=0))
    path = credo.infer(found.model, data=data, maximise="all")
    assert path.algorithm == "viterbi" and set(path.assignment) == {"state0", "state1"}
    columns = {"a": np.concatenate(data)[:, 0], "b": np.concatenate(data)[:, 1]}
    named = credo.fit(blank, columns, lengths=[120, 80], seed=0).model
    assert named.emission.names == ("a", "b")


def test_structured_expectations_give_a_bound_that_learning_raises():
    truth, data = sums(2)
    blank = credo.FactorialHMM(states=[2, 3], emission="additive")
    found = credo.fit(blank, data, inference="structured", seed=0)
    exact = credo.log_likelihood(found.model, data).value
    assert found.log_likelihood.kind == "lower" and found.log_likelihood.value <= exact + 1e-9
    assert (np.diff(found.objective) > -1e-9).all(), "every E-step begins where the last one ended"
    assert exact > credo.log_likelihood(truth, data).value
    assert "structured-mean-field: the value is a lower bound" in " ".join(found.notes)
    counts = credo.infer(found.model, "structured", data=data).factor_marginals
    assert {name: float(table.sum().round(6)) for name, table in counts.items()} == {
        "start0": 2.0, "start1": 2.0, "transition0": 198.0, "transition1": 198.0
    }  # fmt: skip
    with pytest.warns(ConvergenceWarning):
        alone = credo.fit(blank, data, inference="mean-field", seed=0, max_iter=2)
    assert alone.log_likelihood.kind == "lower"
    with pytest.raises(UnsupportedError, match="structured-mean-field reads no chains; leave out inference"):
        credo.fit(credo.HMM.gaussian(2), data, inference="structured")
    with pytest.raises(UnsupportedError, match="bp reads no factorial; leave out inference"):
        credo.fit(truth, data, inference="bp")
