"""Belief propagation between two layers by matrices: as on tables, coordinate ascent, and ugly cases."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import credo
from credo.core.errors import ConvergenceWarning, QueryError, UnsupportedError
from credo.core.groups import Bilinear
from credo.core.result import Status
from credo.inference.messages import layer_bp
from credo.inference.messages.layer_bp import LayerMessages
from credo.kernels.boltzmann import softplus
from credo.kernels.layer_messages import layer_batch, layer_read, layer_sums, layer_sums_parallel


def machine(count, hidden, seed=0, scale=0.5):
    rng = np.random.default_rng(seed)
    return credo.RBM(
        scale * rng.normal(size=(count, hidden)), rng.normal(size=count), rng.normal(size=hidden)
    )


def both(model, **question):
    """By matrices, and by tables one after another."""
    one = credo.infer(model, "bp", tol=1e-13, **question)
    two = credo.infer(model, "bp(schedule=sequential)", tol=1e-13, **question)
    assert isinstance(one.state, LayerMessages) and not isinstance(two.state, LayerMessages)
    return one, two


@pytest.mark.parametrize("shape", [(7, 5), (3, 8), (1, 4), (2, 2)])
@pytest.mark.parametrize("evidence", [{}, {"v0": 1}, {"h0": [0.3, 0.9], "h1": 0}], ids=["none", "v", "h"])
def test_sums_are_those_of_tables_one_by_one(shape, evidence):
    if shape[0] == 1 and "v0" in evidence:
        return  # nothing is joined any more, and tables of single units are left
    one, two = both(machine(*shape), evidence=evidence)
    assert one.status is Status.CONVERGED and one.log_z.kind == "estimate"
    assert one.log_z.value == pytest.approx(two.log_z.value, abs=1e-10)
    np.testing.assert_allclose(one.marginals.flat, two.marginals.flat, atol=1e-10)
    np.testing.assert_allclose(one.factor_marginals.flat, two.factor_marginals.flat, atol=1e-10)


def test_tables_are_worked_on_as_matrices_where_that_pays():
    model = machine(17, 16, scale=0.2)
    tables = model.to_factor_graph().as_tables()
    one, two = both(tables)
    np.testing.assert_allclose(one.marginals.flat, two.marginals.flat, atol=1e-10)
    np.testing.assert_allclose(one.factor_marginals.flat, two.factor_marginals.flat, atol=1e-10)
    assert one.log_z.value == pytest.approx(credo.infer(model, "bp", tol=1e-13).log_z.value, abs=1e-10)
    small = credo.infer(machine(4, 4).to_factor_graph().as_tables(), "bp")
    assert not isinstance(small.state, LayerMessages)


def test_on_trees_it_is_exact():
    for shape in ((1, 6), (5, 1)):
        model = machine(*shape)
        found, exact = credo.infer(model, "bp", tol=1e-13), credo.infer(model, "enumerate")
        assert found.log_z.value == pytest.approx(exact.log_z.value, abs=1e-10)
        np.testing.assert_allclose(found.marginals.flat, exact.marginals.flat, atol=1e-10)


def test_layers_may_change_sides():
    model = machine(6, 4, seed=1)
    other = credo.RBM(model.weights.T, model.hidden_bias, model.visible_bias)
    one, two = credo.infer(model, "bp", tol=1e-13), credo.infer(other, "bp", tol=1e-13)
    assert one.log_z.value == pytest.approx(two.log_z.value, abs=1e-10)
    for i in range(6):
        np.testing.assert_allclose(one.marginals[f"v{i}"], two.marginals[f"h{i}"], atol=1e-10)


def test_pairs_are_consistent_with_units():
    found = credo.infer(machine(6, 5, seed=2), "bp", tol=1e-13)
    graph = found.factor_marginals.graph
    p = found.marginals
    for a in range(graph.n_tables):
        if len(graph.scope_of(a)) == 2:
            i, j = (graph.variables.names[k] for k in graph.scope_of(a))
            pair = found.factor_marginals[a]
            np.testing.assert_allclose(pair.sum(axis=1), p[i], atol=1e-12)
            np.testing.assert_allclose(pair.sum(axis=0), p[j], atol=1e-12)
            assert pair[1, 1] <= min(p[i][1], p[j][1]) + 1e-12


@pytest.mark.parametrize("seed", range(4))
def test_maxima_are_those_of_tables_one_by_one_or_better(seed):
    model = machine(6, 5, seed)
    one, two = both(model, maximise="all")
    best = credo.infer(model, "enumerate", maximise="all").score.value
    assert two.score.value - 1e-10 <= one.score.value <= best + 1e-10 and one.log_z.kind == "lower"
    states = {name: int(state) for name, state in one.assignment.items()}
    assert model.to_factor_graph().log_score(states) == pytest.approx(one.score.value, abs=1e-10)


def ascended(model, steps):
    """All units at once to the better state given the others, from zero; every state on the way."""
    v = np.zeros(len(model.weights))
    yield v
    for _ in range(steps):
        odds = []
        for i in range(len(v)):
            on, off = v.copy(), v.copy()
            on[i], off[i] = 1, 0
            odds.append(model.free_energy(off) - model.free_energy(on))
        v = (np.array(odds) > 0).astype(float)
        yield v


@pytest.mark.parametrize("seed", range(6))
def test_a_maximised_layer_climbs_the_free_energy_unit_by_unit(seed):
    model = machine(7, 5, seed, scale=1.0)
    seen = list(ascended(model, 12))
    best = max(-model.free_energy(v) for v in seen)
    names = [f"v{i}" for i in range(7)]
    try:
        found = credo.infer(model, "bp", maximise=names, max_iter=12, strict=False)
    except ConvergenceWarning:
        assert not (seen[-1] == seen[-2]).all()  # it went back and forth
        return
    assert found.score.value == pytest.approx(best, abs=1e-10)
    v = np.array([int(found.assignment[n]) for n in names])
    assert -model.free_energy(v) == pytest.approx(found.score.value, abs=1e-10)
    assert "h0" not in found.assignment


def test_a_machine_that_goes_back_and_forth_keeps_the_best_it_met():
    model = credo.RBM([[4.0], [4.0]], [-1.9, -1.9], [-3.0])
    with pytest.warns(ConvergenceWarning):
        found = credo.infer(model, "bp", maximise=["v0", "v1"], max_iter=1)
    values = {v: -model.free_energy(np.array(v)) for v in itertools.product([0, 1], repeat=2)}
    assert found.score.value >= values[0, 0] - 1e-12


def test_the_hidden_layer_may_be_maximised_too():
    model = machine(5, 4, seed=3)
    names = [f"h{j}" for j in range(4)]
    found = credo.infer(model, "bp", maximise=names, evidence={"v1": 1})
    exact = credo.infer(model, "enumerate", maximise=names, evidence={"v1": 1})
    assert found.score.value == pytest.approx(exact.score.value, abs=1e-10)
    assert dict(found.assignment) == dict(exact.assignment)


def test_some_of_a_layer_are_maximised_on_tables():
    found = credo.infer(machine(4, 3), "bp", maximise=["v0", "h1"])
    assert not isinstance(found.state, LayerMessages) and set(found.assignment) == {"v0", "h1"}


def test_single_precision_serves_a_rough_tolerance():
    model = machine(30, 20, scale=0.2)
    rough, fine = credo.infer(model, "bp", tol=1e-3), credo.infer(model, "bp", tol=1e-12)
    assert rough.state.q.dtype == np.float32 and fine.state.q.dtype == np.float64
    np.testing.assert_allclose(rough.marginals.flat, fine.marginals.flat, atol=2e-3)
    assert rough.log_z.value == pytest.approx(fine.log_z.value, abs=2e-3)


@pytest.mark.parametrize("scale", [300.0, 25.0])
def test_strong_fields_and_weights_are_no_numbers_out_of_range(scale):
    rng = np.random.default_rng(0)
    model = credo.RBM(0.3 * rng.normal(size=(5, 4)), scale * rng.normal(size=5), scale * rng.normal(size=4))
    for tol in (1e-3, 1e-12):
        found = credo.infer(model, "bp", tol=tol)
        exact = credo.infer(model, "enumerate")
        np.testing.assert_allclose(found.marginals.flat, exact.marginals.flat, atol=1e-3)
        assert found.log_z.value == pytest.approx(exact.log_z.value, rel=1e-5)
    strong = credo.RBM(100.0 * np.eye(3), -50.0 * np.ones(3), np.zeros(3))
    assert not isinstance(credo.infer(strong, "bp").state, LayerMessages)


def test_cores_share_the_work_of_a_wide_machine(monkeypatch):
    model = machine(20, 15, scale=0.3)
    alone = credo.infer(model, "bp", tol=1e-12)
    monkeypatch.setattr(layer_bp, "_MANY", 1)
    monkeypatch.setattr(layer_bp, "threads", lambda: 3)
    shared = credo.infer(model, "bp", tol=1e-12)
    np.testing.assert_allclose(alone.marginals.flat, shared.marginals.flat, atol=1e-10)


def test_a_run_goes_on_from_its_messages_and_from_its_checkpoint(tmp_path):
    model = machine(12, 9, scale=0.6)
    whole = credo.infer(model, "bp", tol=1e-12)
    with pytest.warns(ConvergenceWarning):
        begun = credo.infer(model, "bp", tol=1e-12, max_iter=3, checkpoint=tmp_path / "run.ckpt")
    again = credo.infer(model, "bp", tol=1e-12, checkpoint=tmp_path / "run.ckpt")
    np.testing.assert_array_equal(again.marginals.flat, whole.marginals.flat)
    warm = credo.infer(model, "bp", tol=1e-12, warm_start=begun)
    assert len(warm.trace["change"]) == len(whole.trace["change"]) - 3
    with pytest.raises(QueryError, match="expected the result of bp about the same two layers"):
        credo.infer(machine(5, 9), "bp", warm_start=begun)


def test_a_wide_machine_without_a_method_goes_to_belief_propagation():
    model = machine(22, 21, scale=0.1)
    found = credo.infer(model)
    assert found.algorithm == "bp" and "two layers of 22 and 21 units, every pair joined" in found.notes[0]
    assert credo.infer(machine(22, 4)).algorithm == "junction-tree"
    drawn = credo.sample(model, 50, seed=0)
    assert drawn.indices.shape == (50, 43)


def test_what_fits_no_matrix_and_no_memory_is_refused(monkeypatch):
    monkeypatch.setattr(Bilinear, "to_tables", lambda group, variables: None)
    for spec in ("bp(damping=0.5)", "bp(schedule=flooding)"):
        with pytest.raises(UnsupportedError, match="more tables than fit into memory"):
            credo.infer(machine(3, 3), spec)
    assert credo.infer(machine(3, 3), "bp").factor_marginals is None


def test_many_instances_are_those_one_by_one_with_their_pairs_summed():
    rng = np.random.default_rng(4)
    model, count = machine(6, 5, seed=4), 7
    left, right = rng.normal(size=(count, 6)), rng.normal(size=(count, 5))
    shares = rng.uniform(0.5, 2, size=count)
    beliefs, values, pairs = np.empty((count, 11)), np.empty(count), np.zeros((2, 6, 5))
    one = np.float64(1)
    weights = np.exp(model.weights)
    last, done = layer_batch(
        weights, left, right, shares, 8, 500.0, one, 200, 1e-12, 2, beliefs, values, pairs
    )
    assert (last < 1e-12).all() and (done > 3).all()
    total = np.zeros((6, 5))
    for b in range(count):
        own, q = np.concatenate([left[b], right[b]]), np.ones((6, 5))
        layer_sums(weights, q, left[b], right[b], own, 8, 500.0, one, 200, 1e-12)
        np.testing.assert_allclose(beliefs[b], own, atol=1e-12)
        assert values[b] == pytest.approx(layer_read(weights, q, own, shares[b], total), abs=1e-10)
    np.testing.assert_allclose(pairs.sum(axis=0), total, atol=1e-12)


def test_two_kernels_do_the_same_sweeps():
    model = machine(9, 4, seed=5)
    parts = (np.exp(model.weights), model.visible_bias, model.hidden_bias)
    ends = []
    for sweep, more in ((layer_sums, ()), (layer_sums_parallel, (3,))):
        q, beliefs = np.ones((9, 4)), np.concatenate(parts[1:])
        changes = sweep(parts[0], q, *parts[1:], beliefs, 4, 500.0, np.float64(1), 5, 0.0, *more)
        ends.append((q, beliefs, changes))
    for one, two in zip(*ends, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-14)


def test_the_formula_of_a_message_is_that_of_probabilities():
    """One sweep from the first messages, written with log-odds."""
    model = machine(4, 3, seed=6)
    q, beliefs = np.ones((4, 3)), np.concatenate([model.visible_bias, model.hidden_bias])
    layer_sums(
        np.exp(model.weights),
        q,
        model.visible_bias,
        model.hidden_bias,
        beliefs,
        4,
        500.0,
        np.float64(1),
        1,
        0.0,
    )
    sent = softplus(model.weights + model.hidden_bias) - softplus(model.hidden_bias)
    left = model.visible_bias + sent.sum(axis=1)
    cavity = left[:, None] - sent
    back = softplus(model.weights + cavity) - softplus(cavity)
    np.testing.assert_allclose(
        beliefs, np.concatenate([left, model.hidden_bias + back.sum(axis=0)]), atol=1e-12
    )
    np.testing.assert_allclose(np.log(q), back, atol=1e-12)
