"""Variational Bayes for factor analysis: the rank, the bound against integration, missing values."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

import credo
from credo.core.errors import ConvergenceWarning, DataError, ModelError, OptionError, UnsupportedError
from credo.core.result import Status
from credo.learning import VariationalBayes
from credo.learning.vb_factor_analysis import Factors
from credo.models import FactorAnalysis


def vb(x, factors=None, *, prune=True, tol=1e-6, max_iter=5000, seed=None, **model):
    learner = VariationalBayes(prune="unused" if prune else None)
    return credo.fit(FactorAnalysis(factors, **model), x, learner, tol=tol, max_iter=max_iter, seed=seed)


def made(rank, seed=0, n=300, d=8):
    rng = np.random.default_rng(seed)
    noise = rng.uniform(0.3, 1.0, d)
    loadings = rng.normal(size=(d, rank))
    x = rng.normal(size=(n, rank)) @ loadings.T + rng.normal(size=(n, d)) * noise + 3.0
    return x, loadings, noise


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_the_rank_is_found_and_the_free_energy_rises(rank, seed):
    x, loadings, noise = made(rank, seed)
    found = vb(x, 6, seed=0, tol=1e-7)
    assert found.status is Status.CONVERGED
    assert found.posterior.factors == rank
    assert (np.diff(found.trace["free_energy"]) > -1e-7).all()
    np.testing.assert_allclose(
        found.model.covariances[0], loadings @ loadings.T + np.diag(noise**2), atol=1.2 * rank
    )
    assert f"{rank} of 6 factors matter" in found.notes[0]


def test_independent_columns_need_no_factor():
    x = np.random.default_rng(0).normal(size=(100, 4)) * [1.0, 2.0, 3.0, 4.0]
    found = vb(x, 3, seed=0, tol=1e-7)
    assert found.posterior.factors == 0
    np.testing.assert_allclose(found.posterior.noise, x.var(axis=0), rtol=1e-6)
    exact = norm(x.mean(axis=0), x.std(axis=0)).logpdf(x).sum()
    assert found.evidence.value == pytest.approx(exact, abs=1e-6)


def test_the_free_energy_is_below_the_evidence_at_the_hyper_parameters_found(monkeypatch):
    """Two dimensions and one factor: the loadings are integrated out on a grid."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 1)) @ np.array([[3.0, -2.0]]) + 0.4 * rng.normal(size=(12, 2))
    monkeypatch.setattr("credo.learning.vb_factor_analysis._LEAST", 0.05)  # no spike that a grid would miss
    found = vb(x, 1, prune=False, seed=0, tol=1e-7)
    q = found.posterior
    grid = np.linspace(-10.0, 10.0, 401)
    a, b = np.meshgrid(grid, grid, indexing="ij")
    first, second, off = a**2 + q.noise[0], b**2 + q.noise[1], a * b
    det = first * second - off**2
    moments = (x - q.centre).T @ (x - q.centre)
    square = (moments[0, 0] * second - 2 * moments[0, 1] * off + moments[1, 1] * first) / det
    logs = -0.5 * (square + 12 * np.log(4 * np.pi**2 * det))
    prior = norm(0, q.alpha[0] ** -0.5).logpdf
    logs = logs + prior(a) + prior(b)
    exact = np.log(np.exp(logs - logs.max()).sum()) + logs.max() + 2 * np.log(grid[1] - grid[0])
    assert (found.trace["free_energy"][-1:] < exact).all() and found.evidence.value > exact - 3.0


def test_the_rotation_changes_the_speed_and_not_the_answer(monkeypatch):
    x, _, _ = made(2, n=200, d=6)
    fast = vb(x, 4, seed=0)
    monkeypatch.setattr(Factors, "_rotated", lambda self, q, latent: q)
    with pytest.warns(ConvergenceWarning, match="vb: max_iter"):
        slow = vb(x, 4, seed=0, prune=False, max_iter=400, tol=1e-9)
    assert (np.diff(slow.trace["free_energy"]) > -1e-9).all()
    assert fast.evidence.value > slow.evidence.value - 1e-3
    assert len(fast.trace["free_energy"]) < 400


def test_missing_values_are_summed_out_and_filled_in():
    x, _, _ = made(1, n=200, d=5)
    holes = x.copy()
    holes[::6, 1] = holes[1::7, 3] = np.nan
    found = vb(holes, 3, seed=0, tol=1e-7)
    assert found.posterior.factors == 1
    assert (np.diff(found.trace["free_energy"]) > -1e-7).all()
    filled = found.posterior.filled(holes)
    hidden = np.isnan(holes)
    assert (filled[~hidden] == holes[~hidden]).all()
    error = np.mean((filled - x)[hidden] ** 2)
    assert error < 0.9 * np.mean((np.nanmean(holes, axis=0) - x)[hidden] ** 2)
    assert found.posterior.latent(holes).shape == (200, 1)


def test_isotropic_noise_gives_probabilistic_principal_components():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 2)) @ rng.normal(size=(2, 6)) * 2.0 + 0.5 * rng.normal(size=(2000, 6))
    found = vb(x, 5, noise="isotropic", seed=0, tol=1e-7)
    assert found.posterior.factors == 2
    values = np.linalg.eigvalsh(np.cov(x.T, bias=True))
    np.testing.assert_allclose(found.posterior.noise, values[:4].mean(), rtol=0.01)
    sample = multivariate_normal(x.mean(axis=0), found.model.covariances[0]).logpdf(x).sum()
    assert sample > found.evidence.value


@pytest.mark.parametrize(
    "call, kind, message",
    [
        (lambda: vb(np.empty((0, 2))), DataError, "expected at least one row"),
        (lambda: vb(np.full((2, 2), np.nan)), DataError, "coordinate 0 is missing in every row"),
        (
            lambda: FactorAnalysis().instantiate([[1.0, 2.0]]),
            ModelError,
            "this FactorAnalysis is a blank, it has no parameters; fit it first",
        ),
        (
            lambda: credo.fit(FactorAnalysis(), [[1.0, 3.0], [2.0, 2.0]], "vb(adapt=true)"),
            UnsupportedError,
            "factor analysis has its own priors",
        ),
        (
            lambda: credo.fit(FactorAnalysis(), [[1.0, 3.0], [2.0, 2.0]], "vb", weights=[1, 2]),
            UnsupportedError,
            "rows of factor analysis count once each; leave weights out, or use em",
        ),
        (
            lambda: vb([[1.0, np.nan], [2.0, np.nan]]),
            DataError,
            "coordinate 1 is missing in every row",
        ),
        (lambda: vb([[1.0, 2.0], [2.0, 2.0]]), DataError, "column 1 is constant"),
        (lambda: vb([[1.0, np.inf], [2.0, 2.0]]), DataError, "row 0: expected a finite value"),
        (lambda: vb([[1.0, 3.0], [2.0, 2.0]], 0), OptionError, "factors must be at least 1"),
        (lambda: credo.predict(FactorAnalysis(2), [[1.0]], "state"), ModelError, "is a blank"),
        (
            lambda: vb([[1.0, 3.0], [2.0, 2.0]], noise="full"),
            OptionError,
            "noise must be one of",
        ),
    ],
)
def test_refusals(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_an_offset_of_the_data_changes_only_the_mean():
    x = np.round(made(2)[0] * 2**20) / 2**20  # the offset is added without rounding
    x[np.random.default_rng(1).random(x.shape) < 0.02] = np.nan
    near, far = (vb(rows, 4, seed=0, tol=1e-7) for rows in (x, x + 2.0**27))
    assert far.status is near.status is Status.CONVERGED
    assert far.evidence.value == pytest.approx(near.evidence.value, rel=1e-6)
    np.testing.assert_allclose(far.model.covariances, near.model.covariances, rtol=1e-3, atol=1e-3)


def test_a_constant_column_is_refused_whatever_rounding_makes_of_its_mean():
    x = made(2)[0]
    x[:, 1] = 1e8 + 0.1
    with pytest.raises(DataError, match="column 1 is constant"):
        vb(x, 2)


def test_rows_that_observe_nothing_tell_nothing():
    x, _, _ = made(1, n=60, d=4)
    whole, holes = vb(x, 2, seed=0), vb(np.insert(x, 7, np.nan, axis=0), 2, seed=0)
    np.testing.assert_array_equal(holes.objective, whole.objective)


def test_a_checkpoint_goes_on_to_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setattr("credo.optimise.driver._THIN", 0.0)
    x, _, _ = made(1, n=60, d=4)
    learner, options = VariationalBayes(prune="unused", restarts=2), {"seed": 0, "max_iter": 2000}
    whole, looks = credo.fit(FactorAnalysis(3), x, learner, **options), []

    def stop(iteration, view):
        looks.append(iteration)
        if len(looks) % 7 == 0:
            view.stop()

    def run():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return credo.fit(
                FactorAnalysis(3),
                x,
                learner,
                checkpoint=tmp_path / "run.credo",
                every=0,
                on_step=stop,
                **options,
            )

    found = run()
    while found.status is Status.INTERRUPTED:
        found = run()
    np.testing.assert_array_equal(found.objective, whole.objective)
    np.testing.assert_array_equal(found.posterior.loadings, whole.posterior.loadings)
