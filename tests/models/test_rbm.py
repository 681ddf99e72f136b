"""Boltzmann machines against enumeration: energies, conditionals, log Z, graphs, and what is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import integrate

import credo
from credo.core.errors import DataError, ModelError, OptionError, TooLargeError, UnsupportedError
from credo.core.groups import Bilinear
from credo.models import RBM, ConditionalRBM, FractionalRBM


def states(count):
    return np.array(list(itertools.product([0, 1], repeat=count)), dtype=float)


def random_rbm(count, hidden, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    draw = rng.normal
    return RBM(draw(size=(count, hidden)) * scale, draw(size=count) * scale, draw(size=hidden) * scale)


def joint(rbm):
    """Weights exp(-E) of all joint states, (2^V, 2^H), written out."""
    v, h = states(len(rbm.weights)), states(rbm.weights.shape[1])
    return np.exp(v @ rbm.weights @ h.T + (v @ rbm.visible_bias)[:, None] + h @ rbm.hidden_bias)


@pytest.mark.parametrize("shape", [(5, 3), (3, 6), (1, 1), (4, 4)])
def test_energies_conditionals_and_log_z_are_those_of_the_joint_table(shape):
    rbm = random_rbm(*shape)
    v, h, weights = states(shape[0]), states(shape[1]), joint(rbm)
    pairs = [rbm.energy(np.repeat(one[None], len(h), 0), h) for one in v]
    np.testing.assert_allclose(np.exp(-np.array(pairs)), weights, rtol=1e-12)
    np.testing.assert_allclose(np.exp(-rbm.free_energy(v)), weights.sum(axis=1), rtol=1e-12)
    assert rbm.log_z() == pytest.approx(np.log(weights.sum()), abs=1e-12)
    np.testing.assert_allclose(np.exp(rbm.log_density(v)).sum(), 1, rtol=1e-12)
    given = weights / weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(rbm.hidden_given(v), given @ h, atol=1e-12)
    given = weights / weights.sum(axis=0)
    np.testing.assert_allclose(rbm.visible_given(h), given.T @ v, atol=1e-12)


def test_one_row_stays_one_row():
    rbm = random_rbm(4, 2)
    assert rbm.hidden_given([1, 0, 1, 0.5]).shape == (2,)
    assert np.ndim(rbm.free_energy([1, 0, 1, 0])) == 0 and np.ndim(rbm.energy([1, 0, 1, 0], [0, 1])) == 0


def test_a_layer_wider_than_a_block_is_summed_in_blocks():
    rbm = random_rbm(11, 12, scale=0.3)
    v = states(11)
    assert rbm.log_z() == pytest.approx(np.logaddexp.reduce(-rbm.free_energy(v)), abs=1e-10)


def test_the_graph_is_biases_and_one_dense_factor():
    rbm = random_rbm(4, 3)
    graph = rbm.to_factor_graph()
    assert graph is rbm.to_factor_graph() and graph.n_factors == 4 + 3 + 1
    (layers,) = graph.others
    assert isinstance(layers, Bilinear) and layers.weights.shape == (4, 3)
    for v in states(4):
        for h in states(3):
            named = dict(zip(graph.variables.names, np.concatenate([v, h]).astype(int).tolist(), strict=True))
            assert graph.log_score(named) == pytest.approx(-rbm.energy(v, h), abs=1e-12)
    found = credo.infer(rbm, evidence={"v0": 1, "v1": 0, "v2": 1, "v3": 1})
    np.testing.assert_allclose(
        [found.marginals[f"h{j}"][1] for j in range(3)], rbm.hidden_given([1, 0, 1, 1]), atol=1e-12
    )
    assert found.log_z.value == pytest.approx(-rbm.free_energy([1, 0, 1, 1]), abs=1e-12)


def test_a_unit_that_is_always_one_is_a_bias():
    rng = np.random.default_rng(1)
    weights, bias = rng.normal(size=(4, 3)), rng.normal(size=3)
    machine = RBM.of_clamped_unit(weights, bias)
    whole = RBM(weights, [*bias, 0.0])
    seen = credo.infer(whole, "enumerate", evidence={"v3": 1})
    assert machine.log_z() == pytest.approx(seen.log_z.value, abs=1e-12)
    np.testing.assert_array_equal(machine.hidden_bias, weights[3])
    with pytest.raises(ModelError, match="weights: expected two rows or more, the last a bias, got"):
        RBM.of_clamped_unit([[1.0, 2.0]])


def test_real_visible_units_are_integrated_and_their_graph_is_answered_exactly():
    rng = np.random.default_rng(2)
    rbm = RBM(
        rng.normal(size=(2, 3)), rng.normal(size=2), rng.normal(size=3), visible="gaussian", sd=[0.7, 1.5]
    )
    total, _ = integrate.dblquad(lambda a, b: np.exp(-rbm.free_energy([a, b])), -30, 30, -30, 30, epsabs=1e-6)
    assert rbm.log_z() == pytest.approx(np.log(total), abs=1e-6)
    for h in states(3):
        mean = rbm.visible_given(h)
        energies = [float(rbm.energy(mean + gap, h)) for gap in ([0, 0], [0.7, 0], [0, 1.5])]
        np.testing.assert_allclose(np.diff(energies), [0.5, 0], atol=1e-12)
    found = credo.infer(rbm)
    assert found.algorithm == "conditional-gaussian" and found.log_z.kind == "exact"
    assert found.log_z.value == pytest.approx(rbm.log_z(), abs=1e-10)
    seen = credo.infer(rbm, evidence={"v0": 0.3, "v1": -2.0})
    np.testing.assert_allclose(
        [seen.marginals[f"h{j}"][1] for j in range(3)], rbm.hidden_given([0.3, -2.0]), atol=1e-12
    )
    assert seen.log_z.value == pytest.approx(-rbm.free_energy([0.3, -2.0]), abs=1e-10)


def test_the_score_of_a_graph_with_real_units_is_minus_the_energy():
    rng = np.random.default_rng(3)
    rbm = RBM(rng.normal(size=(2, 2)), [0.5, -1.0], [0.2, 0.1], visible="gaussian", sd=2.0)
    values = {"v0": 0.4, "v1": -1.0, "h0": 1, "h1": 0}
    assert rbm.to_factor_graph().log_score(values) == pytest.approx(
        -rbm.energy([0.4, -1.0], [1, 0]), abs=1e-12
    )


def test_a_conditional_machine_is_a_machine_given_its_features():
    rng = np.random.default_rng(4)
    crbm = ConditionalRBM(
        rng.normal(size=(4, 3)),
        rng.normal(size=(4, 2)),
        rng.normal(size=(3, 2)),
        rng.normal(size=4),
        [1, 0, 2],
    )
    x, v = rng.normal(size=(5, 2)), rng.integers(0, 2, (5, 4))
    for k in range(5):
        machine = crbm.given(x[k])
        assert crbm.free_energy(v, x)[k] == pytest.approx(machine.free_energy(v[k]), abs=1e-12)
        np.testing.assert_allclose(crbm.hidden_given(v, x)[k], machine.hidden_given(v[k]), atol=1e-12)
    assert crbm.given([0, 0]) == RBM(crbm.weights, crbm.visible_bias, crbm.hidden_bias)
    large = ConditionalRBM(np.zeros((784, 256)), np.zeros((784, 784)), np.zeros((256, 784)))
    assert large.n_parameters == 1_017_104


def test_a_fractional_machine_counts_its_units():
    rng = np.random.default_rng(5)
    weights, bias, own = rng.normal(size=(4, 2)), rng.normal(size=4), rng.normal(size=2)
    whole = FractionalRBM(weights, [3, 1], bias, own)
    machine = whole.to_rbm()
    assert machine.weights.shape == (4, 4)
    np.testing.assert_allclose(whole.free_energy(states(4)), machine.free_energy(states(4)), atol=1e-12)
    assert whole.log_z() == pytest.approx(machine.log_z(), abs=1e-12)
    assert whole.to_factor_graph() is whole.to_factor_graph()
    np.testing.assert_array_equal(whole.hidden_given([1, 0, 0, 1]), machine.hidden_given([1, 0, 0, 1]))
    part = FractionalRBM(weights, [0.5, 1.7], bias, own)
    inside = np.log1p(np.exp(states(4) @ weights + own)) @ [0.5, 1.7] + states(4) @ bias
    assert part.log_z() == pytest.approx(np.logaddexp.reduce(inside), abs=1e-12)
    assert np.exp(part.log_density(states(4))).sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("what", ["factor graph", "p\\(h \\| v\\)", "machine of whole units"])
def test_a_fractional_machine_says_what_it_has_not(what):
    part = FractionalRBM([[1.0, 2.0]], [0.5, 2])
    asked = {"f": part.to_factor_graph, "p": lambda: part.hidden_given([1]), "m": part.to_rbm}[what[0]]
    with pytest.raises(
        UnsupportedError, match=rf"a fractional machine has no {what}: a unit counts 0.5 times"
    ):
        asked()


def test_the_log_likelihood_is_concave_along_counts_and_biases():
    rng = np.random.default_rng(6)
    weights, data = rng.normal(size=(3, 4)), rng.integers(0, 2, (20, 3))
    one, two = rng.uniform(0.1, 2, size=(2, 4)), rng.normal(size=(2, 3))

    def value(counts, bias):
        return FractionalRBM(weights, counts, bias).log_density(data).mean()

    ends = [value(one[k], two[k]) for k in range(2)]
    assert value(one.mean(axis=0), two.mean(axis=0)) >= np.mean(ends) - 1e-12
    assert value([1.0] * 4, two[0]) == pytest.approx(RBM(weights, two[0]).log_density(data).mean(), abs=1e-12)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: RBM([1.0, 2.0]), r"weights: expected shape \(visible units, hidden units\), got \(2,\)"),
        (lambda: RBM(np.empty((0, 2))), "weights: expected shape"),
        (lambda: RBM([[np.nan]]), "weights: expected finite numbers, got nan"),
        (lambda: RBM([[1.0]], [1, 2]), r"visible_bias: expected 1 numbers, one per unit, got shape \(2,\)"),
        (lambda: RBM([[1.0]], sd=2), 'sd: units of two states have none; leave it out, or give visible="ga'),
        (lambda: RBM([[1.0]], visible="gaussian", sd=0), "sd: expected positive standard deviations, got 0"),
        (lambda: FractionalRBM([[1.0]], [0]), "counts: expected positive numbers, got 0; leave such units"),
        (lambda: ConditionalRBM([[1.0]], [1.0], [[1.0]]), r"visible_weights: expected shape \(1, features\)"),
        (
            lambda: ConditionalRBM([[1.0]], [[1.0]], [[1.0, 2]]),
            "hidden_weights: expected 1 features, as visible_weights has, got 2",
        ),
    ],
)
def test_models_that_are_none_are_refused(make, sentence):
    with pytest.raises(ModelError, match=sentence):
        make()


def test_data_that_do_not_fit_are_refused():
    rbm, crbm = random_rbm(2, 1), ConditionalRBM([[1.0], [1.0]], [[1.0], [0.0]], [[1.0]])
    with pytest.raises(DataError, match=r"v: expected rows of 2 units, got shape \(3,\)"):
        rbm.free_energy([1, 0, 1])
    with pytest.raises(DataError, match="v: expected numbers from 0 to 1, got 255; scale the columns"):
        rbm.free_energy([255, 0])
    with pytest.raises(DataError, match=r"v: expected numbers from 0 to 1, got -0\.5"):
        rbm.hidden_given([-0.5, 0])
    with pytest.raises(DataError, match="v: expected finite numbers, got nan"):
        rbm.free_energy([np.nan, 0])
    with pytest.raises(DataError, match=r"x: expected rows of 1 features, got shape \(2,\)"):
        crbm.given([1.0, 2.0])
    with pytest.raises(DataError, match="x: expected one row of 1 features"):
        crbm.given([[1.0]])
    with pytest.raises(DataError, match="x: expected finite numbers, got inf"):
        crbm.fields([np.inf])
    with pytest.raises(DataError, match="v: expected 2 rows, as many as x has, got 1"):
        crbm.free_energy([[1, 0]], [[1.0], [2.0]])
    with pytest.raises(OptionError, match="visible must be one of"):
        RBM([[1.0]], visible="poisson")


def test_a_sum_that_takes_ages_is_refused_with_the_way_out():
    with pytest.raises(TooLargeError, match=r'2\^30 terms, at most .*credo.infer\(model, "ais"\)'):
        RBM(np.zeros((40, 30))).log_z()
