"""Kernel belief propagation: against dense regressions, conditional Gaussians and grids."""

from __future__ import annotations

import signal
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import credo
from credo import potentials
from credo.core.errors import (
    ConvergenceWarning,
    DataError,
    EvidenceError,
    ModelError,
    OptionError,
    UnsupportedError,
    ZeroProbabilityError,
)
from credo.core.result import Status
from credo.inference.exact.gaussian import GaussianElimination
from credo.inference.particles.kernel_bp import Tempered
from credo.inference.particles.kernel_messages import KernelColumn, KernelField
from credo.inference.sampling.site_engine import SiteEngine
from credo.learning import KernelBP
from credo.optimise.run import check
from hybrid_zoo import gaussian_tree, gaussian_truth, laplace_chain, real, switching, truth

CHAIN = credo.GaussianNet(
    [[2.0, -1.0, 0, 0], [-1.0, 2.0, -0.8, 0], [0, -0.8, 2.0, 0.9], [0, 0, 0.9, 1.5]], [1.0, 0, 0, 0.5]
)
ROWS = np.random.default_rng(0).multivariate_normal(CHAIN.mean, CHAIN.covariance, 2000)


def switching_rows(count):
    """Draws from the model `switching`, one variable after the other."""
    rng = np.random.default_rng(1)
    s = (rng.random(count) < 0.4).astype(int)
    reached = np.cumsum([[0.5, 0.3, 0.2], [0.1, 0.3, 0.6]], axis=1)[s]
    t = (reached < rng.random(count)[:, None]).sum(axis=1)
    x = np.array([-1.0, 1.5])[s] + np.sqrt([0.5, 1.0])[s] * rng.normal(size=count)
    y = np.array([-2.0, 0.0, 2.0])[t] + np.sqrt([1.0, 0.5, 0.7])[t] * rng.normal(size=count)
    return {"s": s, "x": x, "t": t, "y": y}


@pytest.fixture(scope="module")
def learned():
    return KernelBP(CHAIN, ROWS)


@pytest.mark.parametrize("evidence", [{}, {"x3": 1.5}, {"x0": -0.5, "x3": 0.5}], ids=str)
def test_on_a_gaussian_chain_beliefs_are_conditional_marginals(learned, evidence):
    found = learned.infer(evidence)
    exact = credo.infer(CHAIN, "gaussian", evidence=evidence)
    assert found.converged
    assert found.log_z is None
    for name in CHAIN.names:
        assert found.marginals[name].mean == pytest.approx(exact.marginals[name].mean, abs=0.07)
        assert found.marginals[name].sd == pytest.approx(exact.marginals[name].sd, abs=0.07)


def test_without_evidence_beliefs_are_parzen_densities(learned):
    found = learned.infer().marginals["x0"]
    x = np.linspace(-2, 3, 7)
    width = credo.learning.kernel_bandwidth(ROWS[:, 0])
    parzen = np.exp(-0.5 * ((x[:, None] - ROWS[:, 0]) / width) ** 2).mean(axis=1) / (
        width * np.sqrt(2 * np.pi)
    )
    np.testing.assert_allclose(found.density(x), parzen, rtol=0.01)


def test_an_update_is_a_kernel_ridge_regression():
    rows = ROWS[:60, :2]
    columns = [KernelColumn.of(f"x{i}", rows[:, i], 0, 0.8, 1e-2, None) for i in range(2)]
    field = KernelField(columns, np.array([[0, 1]]))
    target = columns[0].likelihood(0.3)
    messages, fits, _ = field.sweep(field.start()[0], {}, {0: 0.3})
    gaps = rows[:, 1][:, None] - rows[:, 1]
    gram = np.exp(-0.5 * (gaps / columns[1].width) ** 2)
    scaled = target / target.mean()
    weights = np.linalg.solve(gram + 1e-2 * 60 * np.eye(60), scaled - 1.0)
    np.testing.assert_allclose(messages[0], 1.0 + gram @ weights, atol=1e-6)
    x = np.array([-0.3, 0.9])
    kernel = np.exp(-0.5 * ((x[:, None] - rows[:, 1]) / columns[1].width) ** 2)
    mean, own = fits[0]
    np.testing.assert_allclose(mean + columns[1].at(x) @ own, 1.0 + kernel @ weights, atol=1e-6)
    np.testing.assert_allclose(messages[1], 1.0)  # nothing is known about x1


def test_the_median_distance_is_the_width():
    values = np.array([0.0, 1.0, 3.0, 7.0])
    column = KernelColumn.of("x", values, 0, 2.0, 1e-3, None)
    assert column.width == pytest.approx(2 * np.median([1, 3, 7, 2, 6, 4]))


def test_few_features_are_nearly_as_good_as_all():
    whole, cut = KernelBP(CHAIN, ROWS), KernelBP(CHAIN, ROWS, rank=8)
    assert max(len(c.pivots) for c in cut._field.columns) == 8
    assert max(len(c.pivots) for c in whole._field.columns) > 8
    one, other = (k.infer({"x3": 1.5}).marginals["x0"] for k in (whole, cut))
    assert one.mean == pytest.approx(other.mean, abs=0.03)


def test_features_reproduce_the_gram_matrix():
    column = KernelColumn.of("x", ROWS[:80, 0], 0, 0.5, 1e-3, None)
    gram = np.exp(-0.5 * ((ROWS[:80, 0][:, None] - ROWS[:80, 0]) / column.width) ** 2)
    np.testing.assert_allclose(column.features @ column.features.T, gram, atol=1e-6)
    assert len(column.pivots) < 40


@pytest.mark.parametrize("evidence", [{}, {"x": 1.5}, {"t": 2, "x": 0.0}, {"s": [0.2, 0.8]}], ids=str)
def test_discrete_and_real_variables_together(evidence):
    model, rows = switching(), switching_rows(3000)
    found = KernelBP(model, rows).infer(evidence)
    graph = model.to_factor_graph().condition(evidence)
    exact = truth(graph)
    for name, value in exact.marginals.items():
        if name in evidence and name != "s":  # given, not learned
            seen = found.marginals[name]
            assert (int(seen.argmax()) if name == "t" else seen.mean) == evidence[name]
        elif name in ("s", "t"):
            np.testing.assert_allclose(found.marginals[name], value, atol=0.06)
        else:
            assert found.marginals[name].mean == pytest.approx(value[0], abs=0.12)
    frame = pd.DataFrame({**rows, "s": pd.Categorical.from_codes(rows["s"], ["off", "on"])})
    again = KernelBP(model, frame).infer(evidence)
    assert again.marginals["y"].mean == pytest.approx(found.marginals["y"].mean)


def test_observed_variables_are_what_they_were_observed_to_be(learned):
    assert learned.infer({"x1": 0.25}).marginals["x1"].mean == 0.25
    assert repr(learned) == "KernelBP(4 variables, 3 pairs, 2000 rows)"


def test_edges_may_be_given_and_loops_are_passed_around():
    columns = {f"x{i}": ROWS[:, i] for i in range(4)}
    loop = KernelBP([("x0", "x1"), ("x1", "x2"), ("x2", "x3"), ("x3", "x0"), ("x1", "x0")], columns)
    found = loop.infer({"x3": 1.0})
    assert found.marginals["x2"].mean == pytest.approx(
        credo.infer(CHAIN, "gaussian", evidence={"x3": 1.0}).marginals["x2"].mean, abs=0.15
    )
    with pytest.warns(ConvergenceWarning, match="max_iter was reached"):
        loop.infer({"x3": 1.0}, max_iter=1)


def test_what_cannot_be_learned_is_refused_in_a_sentence(learned):
    x, y, z = (real(name) for name in "xyz")
    with pytest.raises(ModelError, match="factors of one or two variables"):
        KernelBP(credo.HybridNet([x, y, z], [credo.GaussianFactor([x, y, z], np.eye(3))]), ROWS[:, :3])
    with pytest.raises(DataError, match=r"variables \['x3'\] have no column"):
        KernelBP(CHAIN, ROWS[:, :3])
    with pytest.raises(DataError, match="needs named columns"):
        KernelBP(switching(), ROWS)
    with pytest.raises(DataError, match="column 'x0': expected values that differ"):
        KernelBP([], {"x0": [1.0, 1.0, 1.0]})
    with pytest.raises(OptionError, match="structure: expected pairs"):
        KernelBP([("a", "b")], {"a": [1.0, 2.0]})
    with pytest.raises(OptionError, match="ridge must be at least 0"):
        KernelBP(CHAIN, ROWS, ridge=-1)
    with pytest.raises(OptionError, match="rank must be at least 1"):
        KernelBP(CHAIN, ROWS, rank=0)
    with pytest.raises(EvidenceError, match="nothing"):
        learned.infer({"nothing": 1})
    with pytest.raises(ZeroProbabilityError, match="no row is near what was observed"):
        learned.infer({"x3": 1e6})


# ---------------------------------------------------------------------------------------------
# Learned from draws of a model
# ---------------------------------------------------------------------------------------------


def test_on_a_given_model_it_learns_from_draws():
    tree = gaussian_tree(5, seed=1)
    found = credo.infer(tree, "kernel-bp(samples=2000)", seed=0)
    assert found.converged
    assert found.notes[0] == "learned from 2000 draws by gaussian: exact"
    for name, (mean, variance) in gaussian_truth(tree).marginals.items():
        assert found.marginals[name].mean == pytest.approx(mean, abs=0.06)
        assert found.marginals[name].sd == pytest.approx(np.sqrt(variance), abs=0.06)
    again = credo.infer(tree, "kernel-bp(samples=2000)", seed=0)
    assert again.marginals["x0"].mean == found.marginals["x0"].mean


def test_messages_do_what_the_draws_leave_out():
    """Tempered draws alone are too wide; with temper=1 they are the answer."""
    tree = gaussian_tree(5, seed=1)
    mean, variance = gaussian_truth(tree).marginals["x2"]
    tempered = tree.precision - 0.5 * np.diag(np.diag(tree.precision))
    assert np.linalg.inv(tempered)[2, 2] > 1.5 * variance
    half = credo.infer(tree, "kernel-bp(samples=2000, temper=0.5)", seed=0).marginals["x2"]
    whole = credo.infer(tree, "kernel-bp(samples=2000, temper=1)", seed=0).marginals["x2"]
    for found in (half, whole):
        assert found.mean == pytest.approx(mean, abs=0.06)
        assert found.variance == pytest.approx(variance, rel=0.12)


def test_states_alone_are_learned_from_draws():
    grid = credo.datasets.ising_grid(3, seed=0)
    found, exact = credo.infer(grid, "kernel-bp(samples=4000)", seed=0), credo.infer(grid)
    for name in grid.variables.names:
        np.testing.assert_allclose(found.marginals[name], exact.marginals[name], atol=0.04)


def test_refusals_of_the_registered_method():
    with pytest.raises(UnsupportedError, match="the question asks for MAP"):
        credo.infer(CHAIN, "kernel-bp", maximise="all")
    with pytest.raises(UnsupportedError, match="particle-bp cannot draw from this model"):
        credo.infer(CHAIN, "kernel-bp(sampler=particle-bp)")
    with pytest.raises(UnsupportedError, match="gaussian cannot draw from this model"):
        credo.infer(laplace_chain(2), "kernel-bp(sampler=gaussian)")
    strong = credo.GaussianNet([[2.0, -1.0], [-1.0, 2.0]])
    with pytest.raises(ModelError, match=r"to the power 0.5: .* has no integral.*or raise temper"):
        credo.infer(strong, "kernel-bp(temper=0.5)")
    with pytest.raises(OptionError, match="samples must be at least 10"):
        credo.infer(CHAIN, "kernel-bp(samples=1)")
    with pytest.raises(OptionError, match="temper must be in"):
        credo.infer(CHAIN, "kernel-bp(temper=2)")
    everything = {name: 0.0 for name in CHAIN.names}
    assert credo.infer(CHAIN, "kernel-bp", evidence=everything).log_z.value == pytest.approx(0.0)


def test_any_sampler_will_do_and_zeros_stay_zeros_when_tempered():
    s, x = credo.Variable("s", 3), real("x")
    model = credo.HybridNet(
        [s, x], [credo.TableFactor([s], [0.6, 0.0, 0.4]), potentials.emission(x, s, [-2.0, 0.0, 2.0], 1.0)]
    )
    found = credo.infer(model, "kernel-bp(sampler=gibbs)", seed=0)
    assert "by gibbs" in found.notes[0]
    assert found.marginals["s"][1] == 0
    np.testing.assert_allclose(found.marginals["s"], [0.6, 0, 0.4], atol=0.1)
    assert found.marginals["x"].mean == pytest.approx(-0.4, abs=0.3)


def test_a_sampler_that_is_cut_leaves_an_answer_that_says_so(monkeypatch):
    run = GaussianElimination.run
    monkeypatch.setattr(
        GaussianElimination, "run", lambda *given: replace(run(*given), status=Status.INTERRUPTED)
    )
    with pytest.warns(ConvergenceWarning, match="kernel-bp"):
        found = credo.infer(CHAIN, "kernel-bp", seed=0, max_iter=10**9, tol=0.0)
    assert found.status is Status.INTERRUPTED and len(found.trace["change"]) <= 10


def test_a_signal_during_the_drawing_is_answered_from_the_draws_so_far(monkeypatch):
    advance, swept = SiteEngine.advance, []

    def pressed(engine, first, count):
        swept.append(count)
        if sum(swept) > 60:
            signal.raise_signal(signal.SIGINT)
        return advance(engine, first, count)

    monkeypatch.setattr(SiteEngine, "advance", pressed)
    with pytest.warns(ConvergenceWarning, match="stopped by hand"):
        found = credo.infer(CHAIN, "kernel-bp(sampler=gibbs(warmup=10))", seed=0)
    assert found.status is Status.INTERRUPTED and 1 < len(found.trace["change"]) <= 10
    assert f"learned from {4 * (sum(swept) - 10)} draws by gibbs: interrupted" in found.notes[0]


def test_a_field_can_be_read_before_the_first_sweep(monkeypatch):
    def pressed(*_):
        signal.raise_signal(signal.SIGINT)
        check()

    monkeypatch.setattr(KernelField, "sweep", pressed)
    with pytest.warns(ConvergenceWarning, match="stopped by hand"):
        found = credo.infer(CHAIN, "kernel-bp", seed=0)
    assert found.status is Status.INTERRUPTED and len(found.trace["change"]) == 0
    assert all(np.isfinite(found.marginals[name].mean) for name in CHAIN.variables.names)


def test_zeros_stay_zeros_whatever_the_power():
    x = real("x")
    half = credo.DensityFactor([x], lambda v: np.where(np.asarray(v) > 0, -np.asarray(v), -np.inf))
    found = credo.infer(credo.HybridNet([x], [half]), "kernel-bp(temper=1)", seed=0)
    assert found.marginals["x"].mean == pytest.approx(1, abs=0.15)
    assert np.isneginf(Tempered(half.function, 0.0)(np.array([-1.0]))).all()
