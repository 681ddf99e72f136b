"""Rows of two layers of units: all at once as one by one; mean field; maxima; refusals."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo.core.errors import ConvergenceError, ConvergenceWarning, DataError, QueryError
from credo.core.result import Status
from credo.inference.messages.layer_batch import layer_states
from credo.inference.portfolio import layer_rows
from credo.inference.variational.layer_mean_field import layer_means
from credo.inference.variational.mean_field import MeanFieldState


def conditional(seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    draw = rng.normal
    crbm = credo.ConditionalRBM(
        scale * draw(size=(5, 4)), draw(size=(5, 3)), draw(size=(4, 3)), draw(size=5), draw(size=4)
    )
    return crbm, draw(size=(6, 3))


@pytest.mark.parametrize("method", ["bp", "mean-field"])
def test_all_rows_at_once_are_those_one_by_one(method):
    crbm, x = conditional()
    found = credo.infer(crbm, method, data=x, tol=1e-12)
    assert found.status is Status.CONVERGED and found.algorithm == method
    assert found.log_z.kind == ("estimate" if method == "bp" else "lower")
    pairs = np.zeros((5, 4))
    for row in range(6):
        alone = credo.infer(crbm.given(x[row]), method, tol=1e-12, seed=0)
        ones = alone.marginals.flat[1::2]
        np.testing.assert_allclose(found.marginals["visible"][row], ones[:5], atol=1e-8)
        np.testing.assert_allclose(found.marginals["hidden"][row], ones[5:], atol=1e-8)
        assert found.each[row] == pytest.approx(alone.log_z.value, abs=1e-8)
        tables = alone.factor_marginals
        pairs += np.reshape([tables[9 + k][1, 1] for k in range(20)], (5, 4))
    np.testing.assert_allclose(found.factor_marginals["weights"], pairs, atol=1e-8)
    assert found.log_z.value == pytest.approx(found.each.sum(), abs=1e-10)


def test_rows_are_worked_on_in_blocks(monkeypatch):
    crbm, x = conditional()
    whole = credo.infer(crbm, data=x, tol=1e-10)
    monkeypatch.setattr(layer_rows, "_ENTRIES", 18)
    parts = credo.infer(crbm, data=x, tol=1e-10)
    np.testing.assert_allclose(whole.marginals["visible"], parts.marginals["visible"], atol=1e-12)
    np.testing.assert_allclose(
        whole.factor_marginals["weights"], parts.factor_marginals["weights"], atol=1e-12
    )


@pytest.mark.parametrize("method", ["enumerate", "gibbs(draws=2000)", "bp(damping=0.5)"])
def test_other_methods_are_asked_row_by_row(method):
    crbm, x = conditional()
    found = credo.infer(crbm, method, data=x[:2], seed=0)
    for row in range(2):
        exact = credo.infer(crbm.given(x[row]), "enumerate").marginals.flat[1::2]
        np.testing.assert_allclose(found.marginals["visible"][row], exact[:5], atol=0.1)
    assert (found.log_z is None) == ("gibbs" in method)


@pytest.mark.parametrize("asked", ["all", ["visible"]])
def test_best_states_of_rows_are_those_one_by_one(asked):
    crbm, x = conditional(1)
    found = credo.infer(crbm, data=x, maximise=asked)
    exact = credo.infer(crbm, "enumerate", data=x, maximise=asked)
    assert (found.each <= exact.each + 1e-9).all()
    assert found.score.value == pytest.approx(found.each.sum(), abs=1e-9)
    assert set(found.assignment) == ({"visible", "hidden"} if asked == "all" else {"visible"})
    best = np.isclose(found.each, exact.each, atol=1e-9)
    assert best.sum() >= 5
    np.testing.assert_array_equal(found.assignment["visible"][best], exact.assignment["visible"][best])
    for row in range(6):
        v = found.assignment["visible"][row]
        machine = crbm.given(x[row])
        h = found.assignment["hidden"][row] if asked == "all" else None
        value = -machine.free_energy(v) if h is None else -machine.energy(v, h)
        assert found.each[row] == pytest.approx(value, abs=1e-9)


def test_states_of_a_layer_are_the_best_that_coordinate_ascent_met():
    rng = np.random.default_rng(2)
    for _ in range(20):
        weights, left, right = 2 * rng.normal(size=(6, 4)), rng.normal(size=(1, 6)), rng.normal(size=(1, 4))
        machine = credo.RBM(weights, left[0], right[0])
        v, best = np.zeros(6), -np.inf
        for _ in range(10):
            best = max(best, -machine.free_energy(v))
            flips = np.where(np.eye(6) > 0, 1 - v, v)
            better = -machine.free_energy(flips) > -machine.free_energy(v)
            v = np.where(better, 1 - v, v)
        found = layer_states(weights, left, right, 9, np.float64)
        assert found.values[0] == pytest.approx(best, abs=1e-9)


def test_a_row_that_needs_more_sweeps_is_told():
    crbm, x = conditional()
    with pytest.warns(ConvergenceWarning, match="6 of 6 rows have not converged; raise max_iter"):
        found = credo.infer(crbm, data=x, max_iter=1)
    assert found.diagnostics["sweeps"].tolist() == [1] * 6
    with pytest.raises(ConvergenceError, match="rows have not converged"):
        credo.infer(crbm, data=x, max_iter=1, strict=True)


def test_what_rows_of_layers_do_not_have_is_refused(tmp_path):
    crbm, x = conditional()
    with pytest.raises(QueryError, match=r"maximise: expected \(\), 'all' or \['visible'\]"):
        credo.infer(crbm, data=x, maximise=["hidden"])
    with pytest.raises(QueryError, match="causal: expected rows with an order"):
        credo.infer(crbm, data=x, causal=True)
    with pytest.raises(QueryError, match="checkpoint: rows of layers are answered in one call and keep none"):
        credo.infer(crbm, data=x, checkpoint=tmp_path / "run.ckpt")
    with pytest.raises(DataError, match="lengths: a conditional machine has independent rows"):
        credo.infer(crbm, data=x, lengths=[6])
    assert repr(crbm.instantiate(x)) == "LayerRows(6 rows, 5 visible units, 4 hidden units)"


# Mean field, a layer at once.


def test_a_layer_at_once_ends_where_single_units_do_and_never_falls():
    rng = np.random.default_rng(3)
    for seed in range(3):
        model = credo.RBM(0.5 * rng.normal(size=(6, 5)), rng.normal(size=6), rng.normal(size=5))
        evidence = {"v1": 1, "h2": [0.3, 0.7]} if seed else {}
        found = credo.infer(model, "mean-field", evidence=evidence, tol=1e-12, seed=0)
        alone = credo.infer(model, "mean-field(order=random)", evidence=evidence, tol=1e-12, seed=0)
        assert found.log_z.kind == "lower" and (np.diff(found.trace["log_z"]) > -1e-12).all()
        np.testing.assert_allclose(found.marginals.flat, alone.marginals.flat, atol=1e-8)
        assert found.log_z.value == pytest.approx(alone.log_z.value, abs=1e-8)
        np.testing.assert_allclose(found.factor_marginals.flat, alone.factor_marginals.flat, atol=1e-8)
        exact = credo.infer(model, "enumerate", evidence=evidence).log_z.value
        assert found.log_z.value <= exact + 1e-12
    again = credo.infer(model, "mean-field", evidence=evidence, tol=1e-12, warm_start=found)
    assert isinstance(found.state, MeanFieldState) and len(again.trace["log_z"]) == 1


def test_the_correction_of_tap_is_nearer_to_the_truth_at_small_weights():
    rng = np.random.default_rng(4)
    weights, left, right = 0.3 * rng.normal(size=(6, 5)), rng.normal(size=(8, 6)), rng.normal(size=(8, 5))
    plain = layer_means(weights, left, right, 500, 1e-12)
    tap = layer_means(weights, left, right, 500, 1e-12, tap=True)
    truth = [
        credo.infer(credo.RBM(weights, b, c), "enumerate").marginals.flat[1::2][:6]
        for b, c in zip(left, right, strict=True)
    ]
    assert np.abs(tap.left - truth).mean() < 0.2 * np.abs(plain.left - truth).mean()
    assert (tap.change < 1e-12).all() and tap.sweeps.max() < 500
