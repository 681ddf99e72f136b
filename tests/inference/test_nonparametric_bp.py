"""Nonparametric belief propagation: against linear algebra, grids and products written out."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

import credo
from credo import potentials
from credo.core.errors import ConvergenceWarning, ModelError, OptionError, UnsupportedError
from credo.inference.particles import edges
from credo.inference.particles.mixtures import Bank, bandwidths, drawn_in, gibbs_products, importance_products
from credo.inference.particles.pairs import ParticlePairs
from credo.learning import kernel_bandwidth
from hybrid_zoo import (
    bimodal_cycle,
    close,
    gaussian_loop,
    gaussian_truth,
    laplace_chain,
    real,
    switching,
    truth,
)

VARIANTS = [f"sampling={s}, product={p}" for s in ("message", "belief") for p in ("gibbs", "importance")]
CHAIN = credo.GaussianNet([[2.0, -0.8, 0.0], [-0.8, 2.0, 0.7], [0.0, 0.7, 1.5]], [1.0, 0.0, -1.0])


def ask(model, options="", **question):
    """A run that is cut is no reason to warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return credo.infer(model, f"nonparametric-bp({options})", **{"seed": 0, **question})


def error(model, options, seeds) -> float:
    """Root mean square error of means and standard deviations."""
    gaps = []
    for seed in range(seeds):
        found = ask(model, options, seed=seed).marginals
        for name, (mean, variance) in gaussian_truth(model).marginals.items():
            gaps += [found[name].mean - mean, found[name].sd - np.sqrt(variance)]
    return float(np.sqrt(np.mean(np.square(gaps))))


@pytest.mark.parametrize("variant", VARIANTS)
def test_on_a_gaussian_chain_errors_fall_with_the_components(variant):
    coarse = error(CHAIN, f"{variant}, components=10", 4)
    fine = error(CHAIN, f"{variant}, components=160", 2)
    assert fine < 0.6 * coarse
    assert fine < 0.06


@pytest.mark.parametrize("variant", VARIANTS)
def test_modes_that_lie_apart_are_found(variant):
    model = laplace_chain(2)
    exact = truth(model, count=401)
    found = ask(model, f"{variant}, components=300")
    close(found, exact, 0.15)
    assert found.log_z.kind == "estimate"
    assert found.log_z.value == pytest.approx(exact.log_z, abs=0.01)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("components", [50, 200])
def test_kernels_wider_than_a_mode_neither_blur_beliefs_nor_spoil_log_z(variant, components):
    """Two modes of width 2 that lie 20 apart: Silverman's kernels are twice as wide as either."""
    variables = [real(f"x{i}") for i in range(3)]
    factors = [potentials.laplace(v, scale=10.0) for v in variables]
    factors += [potentials.bimodal(a, b) for a, b in itertools.pairwise(variables)]
    model = credo.HybridNet(variables, factors)
    exact = truth(model, -30.0, 30.0, 301)
    assert exact.log_z == pytest.approx(2.5800, abs=1e-4)
    found = ask(model, f"{variant}, components={components}")
    assert found.log_z.value == pytest.approx(exact.log_z, abs=0.1)
    assert found.converged and "the bias of their kernels" in found.notes[0]
    for name, (_, variance) in exact.marginals.items():  # no mode is lost
        assert found.marginals[name].sd == pytest.approx(np.sqrt(variance), rel=0.15)
        assert abs(found.marginals[name].mode) == pytest.approx(9.75, abs=0.5)


def test_messages_that_are_no_densities_become_some_by_the_shares_of_the_unary_factors():
    """exp(-0.8 x y) has no integral over y, and neither has a clamped potential."""
    x, y = real("x"), real("y")
    model = credo.HybridNet(
        [x, y],
        [
            potentials.gaussian(x, 0.3, 0.01),
            potentials.gaussian(y, 0.5, 0.01),
            potentials.clamped_laplace(x, y, scale=0.03, limit=0.2),
        ],
    )
    exact = truth(model, -0.5, 1.5, 801)
    found = ask(model, "components=150")
    close(found, exact, 0.02)
    assert found.log_z.value == pytest.approx(exact.log_z, abs=0.1)


def test_on_a_loop_it_runs_and_means_are_near():
    loop = gaussian_loop(4)
    found = ask(loop, "components=100, product=importance")
    means = [found.marginals[name].mean for name in loop.names]
    np.testing.assert_allclose(means, loop.mean, atol=0.3)
    frustrated = ask(bimodal_cycle(), "components=20", max_iter=5)
    assert np.isfinite(frustrated.log_z.value)
    assert all(np.isfinite(frustrated.marginals[name].sd) for name in ("x0", "x1", "x2"))


@pytest.mark.parametrize("sampling", ["message", "belief"])
def test_the_same_seed_gives_the_same_answer(sampling):
    one, two, other = (
        ask(CHAIN, f"sampling={sampling}, components=20", max_iter=3, seed=s) for s in (3, 3, 4)
    )
    assert one.log_z == two.log_z
    assert one.log_z != other.log_z


def test_evidence_isolated_variables_and_separate_parts():
    found = ask(CHAIN, "components=200", evidence={"x1": 0.4})
    expected = credo.infer(CHAIN, "gaussian", evidence={"x1": 0.4})
    for name in ("x0", "x2"):  # the two are apart once x1 is known
        assert found.marginals[name].mean == pytest.approx(expected.marginals[name].mean, abs=1e-3)
        assert found.marginals[name].sd == pytest.approx(expected.marginals[name].sd, abs=1e-3)
    assert found.log_z.value == pytest.approx(expected.log_z.value, abs=1e-3)
    everything = ask(CHAIN, evidence={"x0": 0.0, "x1": 0.0, "x2": 0.0})
    assert everything.log_z.value == pytest.approx(0.0)


def test_a_black_box_will_do():
    x, y = real("x"), real("y")

    def pull(x, y):
        return -np.abs(np.asarray(x) - np.asarray(y))

    model = credo.HybridNet(
        [x, y], [potentials.gaussian(x, 1.0), potentials.gaussian(y), credo.DensityFactor([x, y], pull)]
    )
    exact = truth(model)
    close(ask(model, "components=100"), exact, 0.1)


# ---------------------------------------------------------------------------------------------
# Parts
# ---------------------------------------------------------------------------------------------


def _product(bank, rows):
    """Mean and variance of a product of mixtures, with all its components."""
    total, first, second = 0.0, 0.0, 0.0
    for labels in itertools.product(range(bank.means.shape[1]), repeat=len(rows)):
        means = np.array([bank.means[r, k] for r, k in zip(rows, labels, strict=True)])
        precisions = 1 / bank.sds[rows] ** 2
        precision = precisions.sum()
        mean = precisions @ means / precision
        log_weight = sum(bank.log_weights[r, k] for r, k in zip(rows, labels, strict=True))
        weight = np.exp(log_weight - 0.5 * (precisions @ means**2 - precision * mean**2))
        total, first = total + weight, first + weight * mean
        second += weight * (mean**2 + 1 / precision)
    return first / total, second / total - (first / total) ** 2


@pytest.mark.parametrize(
    "sampler", [lambda *a: gibbs_products(*a[:3], 20, a[3]), importance_products], ids=["gibbs", "importance"]
)
def test_draws_from_products_have_their_moments(sampler):
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(4), size=3)
    bank = Bank(rng.normal(size=(3, 4)), np.log(weights), np.array([0.6, 0.9, 0.7]))
    slots = np.array([[0, 1, 2], [0, -1, 2], [1, -1, -1]])
    drawn = sampler(bank, slots, 4000, rng)
    assert drawn.shape == (3, 4000)
    for row, used in zip(drawn, ([0, 1, 2], [0, 2], [1]), strict=True):
        mean, variance = _product(bank, np.array(used))
        assert row.mean() == pytest.approx(mean, abs=5 * np.sqrt(variance / 1000))
        assert row.var() == pytest.approx(variance, rel=0.15)


def test_bandwidths_follow_silverman():
    rng = np.random.default_rng(1)
    draws = rng.normal(size=(2, 400))
    even = np.full((2, 400), -np.log(400))
    found = bandwidths(draws, even, np.zeros(2))
    for h, row in zip(found, draws, strict=True):
        assert h == pytest.approx(kernel_bandwidth(row), rel=0.01)
    half = np.where(np.arange(400) < 200, -np.log(200), -np.inf)[None]
    assert bandwidths(draws[:1], half, np.zeros(1))[0] == pytest.approx(
        kernel_bandwidth(draws[0, :200]), rel=0.02
    )
    assert bandwidths(np.ones((1, 5)), np.full((1, 5), -np.log(5)), np.array([0.1]))[0] == 0.1


def test_kernels_do_not_widen_what_they_smooth():
    rng = np.random.default_rng(5)
    draws, weights = rng.normal(size=(2, 50)), rng.dirichlet(np.ones(50), size=2)
    sds = np.array([0.4, 0.1])
    means = drawn_in(draws, np.log(weights), sds)
    for row, own, w, h in zip(means, draws, weights, sds, strict=True):
        assert w @ row == pytest.approx(w @ own)
        spread = w @ (row - w @ row) ** 2 + h**2
        assert spread == pytest.approx(w @ (own - w @ own) ** 2)
    np.testing.assert_array_equal(
        drawn_in(np.ones((1, 3)), np.log(np.full((1, 3), 1 / 3)), sds[:1]), np.ones((1, 3))
    )


def test_conditional_draws_follow_the_pair_factor(monkeypatch):
    x, y = real("x"), real("y")
    pairs = ParticlePairs(
        credo.HybridNet([x, y], [credo.GaussianFactor.linear(y, [x], [2.0], 0.25)]).to_factor_graph()
    )
    particles = np.repeat([[0.5], [1.0]], 1000, axis=1)  # of the senders y and x
    points = np.tile(np.linspace(-3, 5, 200), (2, 1))
    for few in (64, 0):
        monkeypatch.setattr(edges, "_FEW", few)
        monkeypatch.setattr(edges, "_LITTLE", 1 << 30 if few else 0)
        found, log_mass = edges.conditional_draws(
            pairs, particles, points, np.zeros((2, 200)), np.random.default_rng(2)
        )
        sent = 0 if pairs.sender[0] == 1 else 1  # the message from y to x
        assert found[1 - sent].mean() == pytest.approx(2.0, abs=0.02)  # y given x = 1
        assert found[1 - sent].std() == pytest.approx(0.5, abs=0.02)
        assert found[sent].mean() == pytest.approx(0.25, abs=0.02)  # x where 2x = 0.5
        np.testing.assert_allclose(log_mass[1 - sent], 0.0, atol=1e-3)
        np.testing.assert_allclose(log_mass[sent], -np.log(2), atol=1e-3)


def test_compiled_mixtures_equal_written_ones(monkeypatch):
    rng = np.random.default_rng(3)
    bank = Bank(rng.normal(size=(5, 3)), np.log(rng.dirichlet(np.ones(3), size=5)), rng.random(5) + 0.1)
    points = rng.normal(size=(5, 4))
    plain = bank.log_values(points)
    by_hand = np.exp(bank.log_weights[0] - 0.5 * ((points[0, 0] - bank.means[0]) / bank.sds[0]) ** 2)
    assert plain[0, 0] == pytest.approx(np.log(by_hand.sum() / (bank.sds[0] * np.sqrt(2 * np.pi))))
    monkeypatch.setattr(edges, "_LITTLE", 0)
    monkeypatch.setattr(edges, "_ENTRIES", 24)
    np.testing.assert_allclose(bank.log_values(points), plain, atol=1e-12)


def test_what_cannot_be_treated_is_refused_in_a_sentence():
    x, y, z = (real(name) for name in "xyz")
    with pytest.raises(UnsupportedError, match="positive and interval variables, and 's' is discrete"):
        ask(switching())
    with pytest.raises(UnsupportedError, match="factors of one or two variables"):
        ask(credo.HybridNet([x, y, z], [credo.GaussianFactor([x, y, z], np.eye(3))]))
    with pytest.raises(UnsupportedError, match="it gives marginals and log Z, and the question asks for MAP"):
        ask(CHAIN, maximise="all")
    with pytest.raises(UnsupportedError, match="the question asks for samples"):
        credo.sample(CHAIN, 2, method="nonparametric-bp")
    with pytest.raises(ModelError, match="no integral"):
        ask(credo.HybridNet([x, y], [potentials.gaussian(x)]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("components=1", "components must be at least 2"),
        ("redraws=-1", "redraws must be at least 0"),
        ("sampling=both", "sampling must be one of"),
        ("product=exact", "product must be one of"),
        ("sweeps=0", "sweeps must be at least 1"),
        ("bandwidth=-1", "bandwidth must be at least 0"),
        ("spread=-1", "spread must be at least 0"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(OptionError, match=message):
        ask(CHAIN, options)
