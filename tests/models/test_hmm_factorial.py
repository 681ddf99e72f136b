"""Factorial hidden Markov models: exact on the product space, and two mean fields below it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from credo.core.errors import ModelError, OptionError, UnsupportedError
from credo.core.result import Status
from credo.families import Categorical
from credo.models.factorial_hmm import FactorialHMM
from markup import read


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
    found = model.posterior(x)
    assert found.log_likelihood.kind == "exact"
    assert found.log_likelihood.value == pytest.approx(np.log(total))
    assert model.log_likelihood(x) == pytest.approx(np.log(total))
    np.testing.assert_allclose(found.marginals[1], marginal / total)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("method", ["structured", "factored"])
def test_mean_fields_rise_and_stay_below_the_likelihood(method, seed):
    model = make(seed, (2, 3, 2))
    x, _ = model.sample([9, 1, 6], seed=seed)
    exact = model.log_likelihood(x, [9, 1, 6])
    found = model.posterior(x, [9, 1, 6], method, seed=seed)
    assert found.status is Status.CONVERGED
    assert found.log_likelihood.kind == "lower"
    assert (np.diff(found.trace) > -1e-9).all()
    assert found.log_likelihood.value <= exact + 1e-9
    for q in found.marginals:
        np.testing.assert_allclose(q.sum(axis=1), 1)


def test_the_structured_bound_is_the_tighter_one():
    model = make(7)
    x, _ = model.sample(20, seed=1)
    best = {
        method: max(model.posterior(x, None, method, seed=s).log_likelihood.value for s in range(5))
        for method in ("structured", "factored")
    }
    assert best["factored"] < best["structured"] < model.log_likelihood(x)


def test_structured_mean_field_is_exact_for_one_chain_and_for_chains_that_do_not_meet():
    one = make(1, (3,))
    x, _ = one.sample(12, seed=2)
    assert one.posterior(x, None, "structured").log_likelihood.value == pytest.approx(one.log_likelihood(x))
    rng = np.random.default_rng(0)
    left, right = rng.dirichlet(np.ones(2), size=2), rng.dirichlet(np.ones(3), size=3)
    apart = FactorialHMM([[0.5, 0.5], [0.2, 0.3, 0.5]], [left, right], Categorical(np.kron(left, right)))
    x, _ = apart.sample(10, seed=3)
    exact = apart.posterior(x)
    found = apart.posterior(x, None, "structured", seed=0)
    assert found.log_likelihood.value == pytest.approx(exact.log_likelihood.value, abs=1e-8)
    np.testing.assert_allclose(found.marginals[0], exact.marginals[0], atol=1e-6)


def test_factored_mean_field_is_exact_for_single_steps_of_one_chain():
    one = make(2, (3,))
    found = one.posterior([0, 1, 2], [1, 1, 1], "factored")
    assert found.log_likelihood.value == pytest.approx(one.log_likelihood([0, 1, 2], [1, 1, 1]))


def test_a_stationary_point_satisfies_the_update_equations():
    model = make(3)
    x, _ = model.sample(6, seed=4)
    q = model.posterior(x, None, "factored", seed=1, tol=0, max_iter=500).marginals
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
    x, states = model.sample([100, 50], seed=5)
    assert states.shape == (150, 2)
    for method in ("exact", "structured", "factored"):
        found = model.posterior(x, [100, 50], method, seed=0)
        for m in range(2):
            assert (found.marginals[m].argmax(axis=1) == states[:, m]).mean() > 0.95
    x[10] = np.nan
    assert np.isfinite(model.posterior(x, None, "structured", mask=np.arange(150) > 2).log_likelihood.value)


def test_iterations_can_run_out():
    model = make(3)
    found = model.posterior([0, 1, 2, 3], None, "factored", max_iter=1, seed=0)
    assert found.status is Status.OUT_OF_ITERATIONS


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
        (lambda: make().posterior([0], None, "loopy"), OptionError, "method must be one of"),
        (
            lambda: make().posterior([0], None, "factored", max_iter=2.5),
            OptionError,
            "max_iter must be a whole",
        ),
        (
            lambda: FactorialHMM.additive([[0.5, 0.5]], [[[0.5, 0.5], [0.5, 0.5]]], [[0.0, 1.0]], [[1.0]]),
            ModelError,
            r"effects: expected arrays \(states of the chain, d\) with one d, got shape \(2,\) for chain 0",
        ),
        (lambda: FactorialHMM.additive([], [], [], [[1.0]]), ModelError, "with one d, got none"),
        (
            lambda: FactorialHMM([[1.0]], [[[1.0]]], Categorical([[1.0, 0.0]])).posterior(
                [1], None, "structured"
            ),
            UnsupportedError,
            "structured mean field cannot treat this model: an emission has probability zero",
        ),
        (
            lambda: FactorialHMM(
                [[1.0, 0.0]], [[[0.5, 0.5], [0.5, 0.5]]], Categorical([[1.0], [1.0]])
            ).posterior([0], None, "factored"),
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
