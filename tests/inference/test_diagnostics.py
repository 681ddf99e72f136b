"""Effective sample sizes, R-hat and standard errors, against formulas, experiments and blackjax."""

from __future__ import annotations

import numpy as np
import pytest

from credo.core.errors import QueryError
from credo.inference.sampling.diagnostics import diagnose, ess, ess_bulk, mcse, r_hat


def autoregressive(rho: float, chains: int, draws: int, seed: int = 0) -> np.ndarray:
    """Chains x_t = rho x_{t-1} + noise of variance one."""
    rng = np.random.default_rng(seed)
    x = np.empty((chains, draws))
    x[:, 0] = rng.standard_normal(chains)
    for t in range(1, draws):
        x[:, t] = rho * x[:, t - 1] + np.sqrt(1 - rho**2) * rng.standard_normal(chains)
    return x


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9, -0.5])
def test_the_effective_size_of_an_autoregression_is_known(rho: float):
    x = autoregressive(rho, 4, 5000)
    truth = x.size * (1 - rho) / (1 + rho)
    assert ess(x) == pytest.approx(truth, rel=0.1)
    assert ess_bulk(x) == pytest.approx(truth, rel=0.1)
    assert r_hat(x) < 1.01


def test_the_numbers_are_those_of_blackjax():
    jax = pytest.importorskip("jax")
    theirs = pytest.importorskip("blackjax.diagnostics")
    rng = np.random.default_rng(1)
    columns = [
        autoregressive(0.7, 4, 300),
        rng.standard_cauchy((4, 300)),
        rng.standard_normal((4, 300)) * np.array([1, 1, 1, 3.0])[:, None],
        rng.integers(0, 3, (4, 300)),
    ]
    x = np.stack(columns, axis=2)
    with jax.enable_x64(True):
        size, ratio = jax.jit(lambda x: (theirs.ess_bulk(x), theirs.rhat(x)))(x)
    np.testing.assert_allclose(ess_bulk(x), size, rtol=1e-9)
    np.testing.assert_allclose(r_hat(x), ratio, rtol=1e-9)


def test_chains_that_stand_in_different_places_are_found_out():
    x = autoregressive(0.5, 4, 1000)
    for wrong in (
        x + np.arange(4)[:, None],  # means differ
        x * np.array([1, 1, 1, 4])[:, None],  # spreads differ
        x + np.linspace(0, 3, 1000),  # all drift, and agree with each other
    ):
        assert r_hat(wrong) > 1.1


def test_what_never_changes_is_known_and_chains_stuck_apart_are_not():
    same = diagnose(np.full((4, 100), 2.0))
    assert (same.r_hat, same.ess, same.mcse) == (1.0, 400.0, 0.0)
    apart = diagnose(np.repeat([[0.0], [1.0], [0.0], [1.0]], 100, axis=1))
    assert apart.r_hat == np.inf and apart.ess < 10 and apart.mcse > 0.1


def test_ranks_change_nothing_for_flags():
    flags = (autoregressive(0.6, 4, 400) > 0.3).astype(float)
    one, other = diagnose(flags), diagnose(flags, is_flag=True)
    np.testing.assert_allclose(one, other, rtol=1e-9)


def test_the_standard_error_is_the_spread_of_means():
    runs = np.stack([autoregressive(0.8, 4, 250, seed) for seed in range(300)], axis=2)
    assert runs.mean(axis=(0, 1)).std() == pytest.approx(np.mean(mcse(runs)), rel=0.15)


def test_a_few_draws_say_nothing():
    found = diagnose(np.random.default_rng(0).normal(size=(4, 3, 2)))
    assert (found.r_hat == np.inf).all() and (found.ess == 1).all()


def test_draws_need_two_axes():
    with pytest.raises(QueryError, match=r"draws: expected shape \(chains, draws, ...\), got \(5,\)"):
        diagnose(np.zeros(5))
