"""Exponential families against SciPy's densities, their own definitions and quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from credo.core.errors import DataError, ModelError
from credo.families import (
    Categorical,
    DiagonalGaussian,
    Dirichlet,
    Gamma,
    Gaussian,
    GaussianWishart,
    Mixture,
    NormalGamma,
    Poisson,
    SphericalGaussian,
    Statistics,
    TiedGaussian,
)
from credo.families.base import member_weights
from credo.families.gaussian_rows import patterns
from credo.families.mixture import MixturePrior
from credo.families.moments import RowMoments

K, D = 4, 3


def covariances(seed=0, members=K):
    root = np.random.default_rng(seed).normal(size=(members, D, D))
    return root @ root.swapaxes(1, 2) + np.eye(D)


def make(name, seed=0):
    rng = np.random.default_rng(seed)
    mean = rng.normal(size=(K, D))
    return {
        "gaussian": lambda: Gaussian(mean, covariances(seed)),
        "tied": lambda: TiedGaussian(mean, covariances(seed)[0]),
        "diagonal": lambda: DiagonalGaussian(mean, rng.random((K, D)) + 0.5),
        "spherical": lambda: SphericalGaussian(mean, rng.random(K) + 0.5),
        "categorical": lambda: Categorical(rng.dirichlet(np.ones(5), size=K)),
        "poisson": lambda: Poisson(5 * rng.random(K) + 0.2),
    }[name]()


def make_prior(name, seed=0):
    rng = np.random.default_rng(seed)
    mean = rng.normal(size=(K, D))
    return {
        "gaussian": lambda: GaussianWishart(
            mean, rng.random(K) + 0.5, 3.5 + 3 * rng.random(K), covariances(seed)
        ),
        "diagonal": lambda: NormalGamma(mean, *(rng.random((3, K, D)) + 0.7)),
        "categorical": lambda: Dirichlet(rng.random((K, 5)) + 0.5),
        "poisson": lambda: Gamma(rng.random(K) + 1.5, rng.random(K) + 0.5),
    }[name]()


FAMILIES = ["gaussian", "tied", "diagonal", "spherical", "categorical", "poisson"]
CONJUGATE = ["gaussian", "diagonal", "categorical", "poisson"]


@pytest.fixture(params=FAMILIES)
def family(request):
    return make(request.param)


@pytest.fixture(params=CONJUGATE)
def conjugate(request):
    return make_prior(request.param)


def updated(family, expected, prior=None):
    return family.update(expected.counts, expected.sums, prior)


def rows(family, n=40, seed=1):
    rng = np.random.default_rng(seed)
    return family.sample(rng.integers(len(family), size=n), rng)


def test_the_density_is_that_of_the_exponential_form(family):
    x = rows(family)
    form = family.sufficient(x) @ family.natural.T - family.log_normaliser + family.log_base(x)[:, None]
    np.testing.assert_allclose(family.log_density(x), form, rtol=1e-12, atol=1e-12)


def test_natural_and_mean_parameters_lead_back_to_the_family(family):
    kind = type(family)
    np.testing.assert_allclose(kind.from_natural(family.natural).natural, family.natural, rtol=1e-9)
    np.testing.assert_allclose(
        kind.from_mean(family.mean_parameters).mean_parameters, family.mean_parameters, rtol=1e-9
    )


def test_the_gradient_of_the_log_normaliser_is_the_mean(family):
    if isinstance(family, (Categorical, TiedGaussian)):
        pytest.skip("over-complete or tied: single natural parameters are not free")
    eta, step = family.natural, 1e-6
    for i in range(eta.shape[1]):
        move = np.zeros_like(eta)
        move[:, i] = step
        if isinstance(family, Gaussian) and i >= D:
            j = D + (i - D) % D * D + (i - D) // D  # matrices must stay symmetric
            move[:, j] = step
        high = type(family).from_natural(eta + move).log_normaliser
        low = type(family).from_natural(eta - move).log_normaliser
        expected = (family.mean_parameters * (move / step)).sum(axis=1)
        np.testing.assert_allclose((high - low) / (2 * step), expected, rtol=2e-5, atol=1e-6)


def test_mean_parameters_are_averages_of_the_statistics(family):
    rng = np.random.default_rng(3)
    for k in range(2):
        x = family.sample(np.full(40_000, k), rng)
        seen = family.sufficient(x)
        error = seen.std(axis=0) / np.sqrt(len(x))
        assert (np.abs(seen.mean(axis=0) - family.mean_parameters[k]) < 5 * error + 1e-12).all()


def test_kl_equals_the_dual_formula_and_vanishes_on_itself(family):
    other = family.take([1, 2, 3, 0])
    dual = np.einsum("km,km->k", family.natural - other.natural, family.mean_parameters)
    dual += other.log_normaliser - family.log_normaliser
    np.testing.assert_allclose(family.kl(other), dual, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(family.kl(family), 0, atol=1e-12)
    assert (family.kl(other) > 0).all()


def test_entropies_are_averages_of_minus_the_log_density(family):
    rng = np.random.default_rng(4)
    for k in range(2):
        logs = -family.log_density(family.sample(np.full(20_000, k), rng))[:, k]
        assert abs(logs.mean() - family.entropy()[k]) < 5 * logs.std() / np.sqrt(len(logs)) + 1e-12


def test_gaussian_densities_equal_scipy(family):
    if not hasattr(family, "covariances"):
        pytest.skip("not Gaussian")
    x = rows(family)
    for k in range(K):
        expected = stats.multivariate_normal(family.mean[k], family.covariances[k]).logpdf(x)
        np.testing.assert_allclose(family.log_density(x)[:, k], expected, rtol=1e-10)
        assert family.entropy()[k] == pytest.approx(
            stats.multivariate_normal(family.mean[k], family.covariances[k]).entropy()
        )


def test_wide_gaussians_take_the_matrix_product_and_agree():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(2, 30, 30))
    g = Gaussian(rng.normal(size=(2, 30)), root @ root.swapaxes(1, 2) + np.eye(30))
    x = rng.normal(size=(5, 30))
    expected = [stats.multivariate_normal(g.mean[k], g.covariances[k]).logpdf(x) for k in range(2)]
    np.testing.assert_allclose(g.log_density(x), np.array(expected).T, rtol=1e-9)


def test_densities_far_from_the_origin_lose_no_digits():
    g = Gaussian([[1e8, 0.0]], [[[1e-2, 0], [0, 1.0]]])
    expected = stats.multivariate_normal([0, 0], [[1e-2, 0], [0, 1]]).logpdf([0.125, 1])
    assert g.log_density([[1e8 + 0.125, 1.0]])[0, 0] == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("name", ["gaussian", "tied", "diagonal", "spherical"])
def test_missing_coordinates_are_integrated_out(name):
    family = make(name)
    x = rows(family, 30)
    x[0, 1] = x[1, 0] = x[1, 2] = np.nan
    x[2] = np.nan
    found = family.log_density(x)
    c, m = family.covariances, family.mean
    for k in range(K):
        assert found[0, k] == pytest.approx(
            stats.multivariate_normal(m[k, [0, 2]], c[k][np.ix_([0, 2], [0, 2])]).logpdf(x[0, [0, 2]])
        )
        assert found[1, k] == pytest.approx(stats.norm(m[k, 1], np.sqrt(c[k, 1, 1])).logpdf(x[1, 1]))
        assert found[2, k] == 0
    np.testing.assert_allclose(found[3:], family.log_density(x[3:]))


@pytest.mark.parametrize("name", ["gaussian", "tied", "diagonal", "spherical"])
def test_expected_statistics_of_missing_coordinates_are_those_of_samples(name):
    family = make(name)
    x = np.array([[0.3, np.nan, np.nan], [np.nan] * 3])
    found = family.collect(x)
    np.testing.assert_array_equal(found.count, 1)  # the empty row is left out
    rng = np.random.default_rng(0)
    for k in range(2):
        c, m = family.covariances[k], family.mean[k]
        gain = c[1:, 0] / c[0, 0]
        mean = m[1:] + gain * (0.3 - m[0])
        draws = rng.multivariate_normal(mean, c[1:, 1:] - np.outer(gain, c[0, 1:]), size=200_000)
        seen = family.sufficient(np.column_stack([np.full(len(draws), 0.3), draws]))
        error = seen.std(axis=0) / np.sqrt(len(seen))
        assert (np.abs(seen.mean(axis=0) - found.total[k]) < 5 * error + 1e-9).all()


def test_maximum_likelihood_beats_its_neighbourhood(family):
    x = rows(family, 60)
    weights = np.random.default_rng(5).random((60, K))
    best = family.update(None, family.collect(x, weights))
    value = (weights * best.log_density(x)).sum()
    rng = np.random.default_rng(6)
    for _ in range(20):
        other = family.update(None, family.collect(x, weights * (1 + 0.2 * rng.random(weights.shape))))
        assert (weights * other.log_density(x)).sum() <= value + 1e-9


def test_statistics_add_up_over_parts(family):
    x = rows(family, 60)
    weights = np.random.default_rng(5).random((60, K))
    whole = family.collect(x, weights)
    parts = family.collect(x[:25], weights[:25]) + family.collect(x[25:], weights[25:])
    np.testing.assert_allclose(parts.total, whole.total)
    np.testing.assert_allclose(parts.count, whole.count)
    np.testing.assert_allclose(parts.scaled(2).total, 2 * whole.total)


def test_members_without_weight_keep_their_parameters(family):
    x = rows(family, 30)
    weights = np.ones((30, K))
    weights[:, 2] = 0
    new = family.update(None, family.collect(x, weights))
    if not isinstance(family, TiedGaussian):
        np.testing.assert_allclose(new.natural[2], family.natural[2])
    else:
        np.testing.assert_allclose(new.mean[2], family.mean[2])


def test_initial_members_are_reproducible_and_differ(family):
    x = family.rows(rows(family, 30))
    one, two = (family.initialise(x, np.random.default_rng(1)) for _ in range(2))
    np.testing.assert_array_equal(one.natural, two.natural)
    assert not np.allclose(one.mean_parameters[0], one.mean_parameters[1])


def test_evidence_is_the_product_of_predictives(conjugate):
    member = conjugate.mean()
    x = rows(member, 4)
    total, now = 0.0, conjugate
    for row in range(len(x)):
        total = total + now.predictive(x[row : row + 1])[0]
        now = now.posterior(member.collect(x[row : row + 1]))
    np.testing.assert_allclose(conjugate.log_evidence(member.collect(x)), total, rtol=1e-10)


def test_bayes_rule_holds_at_any_parameters(conjugate):
    member = conjugate.mean()
    x = rows(member, 5)
    seen = member.collect(x)
    theta = conjugate.sample(np.random.default_rng(2))
    left = conjugate.log_density(theta) + theta.log_density(x).sum(axis=0)
    right = conjugate.posterior(seen).log_density(theta) + conjugate.log_evidence(seen)
    np.testing.assert_allclose(left, right, rtol=1e-9)


def test_priors_come_back_from_their_natural_parameters(conjugate):
    np.testing.assert_allclose(type(conjugate).from_natural(conjugate.natural).natural, conjugate.natural)


def test_posteriors_add_to_natural_parameters_linearly(conjugate):
    member = conjugate.mean()
    x = rows(member, 6)
    one = conjugate.posterior(member.collect(x[:3])).natural - conjugate.natural
    two = conjugate.posterior(member.collect(x[3:])).natural - conjugate.natural
    both = conjugate.posterior(member.collect(x)).natural - conjugate.natural
    np.testing.assert_allclose(one + two, both, rtol=1e-8, atol=1e-9)


def test_kl_between_priors_equals_the_dual_formula(conjugate):
    other = conjugate.take([1, 2, 3, 0])
    dual = np.einsum("km,km->k", conjugate.natural - other.natural, conjugate.mean_parameters)
    dual += other.log_normaliser - conjugate.log_normaliser
    np.testing.assert_allclose(conjugate.kl(other), dual, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(conjugate.kl(conjugate), 0, atol=1e-11)


def test_expected_log_densities_and_entropies_are_averages_over_samples(conjugate):
    rng = np.random.default_rng(7)
    x = rows(conjugate.mean(), 3)
    draws = [conjugate.sample(rng) for _ in range(600)]
    logs = np.array([draw.log_density(x) for draw in draws])
    error = logs.std(axis=0) / np.sqrt(len(logs))
    assert (np.abs(logs.mean(axis=0) - conjugate.expected_log_density(x)) < 6 * error).all()
    own = np.array([conjugate.log_density(draw) for draw in draws])
    assert (np.abs(own.mean(axis=0) + conjugate.entropy()) < 6 * own.std(axis=0) / np.sqrt(len(own))).all()


def test_expected_log_probabilities_are_not_normalised():
    prior = Dirichlet([[1.0, 2.0, 0.5]])
    assert np.exp(prior.expected_log).sum() < 1


def test_missing_rows_add_nothing_to_expected_densities():
    assert (make_prior("categorical").expected_log_density([-1]) == 0).all()
    assert (make_prior("poisson").expected_log_density([np.nan]) == 0).all()
    assert (make_prior("poisson").predictive([-1]) == 0).all()
    assert (make_prior("gaussian").expected_log_density(np.full((1, D), np.nan)) == 0).all()
    assert (make_prior("gaussian").predictive(np.full((1, D), np.nan)) == 0).all()
    prior = make_prior("diagonal")
    full = prior.expected_log_density([[0.1, 0.2, 0.3]])
    parts = sum(
        prior.expected_log_density([[v if i == j else np.nan for j in range(D)]])
        for i, v in enumerate([0.1, 0.2, 0.3])
    )
    np.testing.assert_allclose(full, parts)


def test_modes_are_maxima_of_the_density(conjugate):
    prior = conjugate.posterior(conjugate.mean().collect(rows(conjugate.mean(), 30)))
    top = prior.log_density(prior.mode())
    rng = np.random.default_rng(8)
    for _ in range(20):
        assert (prior.log_density(prior.sample(rng)) <= top + 1e-9).all()


def test_map_estimates_maximise_likelihood_times_prior(conjugate):
    member = conjugate.mean()
    x = rows(member, 40)
    weights = np.random.default_rng(9).random((40, K))
    best = member.update(None, member.collect(x, weights), conjugate)

    def value(candidate):
        return (weights * candidate.log_density(x)).sum(axis=0) + conjugate.log_density(candidate)

    for seed in range(10):
        noisy = weights * (1 + 0.3 * np.random.default_rng(seed).random(weights.shape))
        assert (value(member.update(None, member.collect(x, noisy), conjugate)) <= value(best) + 1e-9).all()


def test_beta_bernoulli_evidence_by_quadrature():
    prior = Dirichlet([[1.5, 2.5]])
    p = (np.arange(200_000) + 0.5) / 200_000
    seen = Categorical([[0.5, 0.5]]).collect([0, 1, 1])
    value = np.mean(stats.beta(1.5, 2.5).pdf(p) * p * (1 - p) ** 2)
    assert prior.log_evidence(seen)[0] == pytest.approx(np.log(value), abs=1e-8)


def test_gamma_poisson_evidence_by_quadrature():
    prior = Gamma([2.0], [1.5])
    r = (np.arange(400_000) + 0.5) / 400_000 * 40
    x = np.array([0, 3, 2])
    value = (
        np.mean(stats.gamma(2.0, scale=1 / 1.5).pdf(r) * stats.poisson.pmf(x[:, None], r).prod(axis=0)) * 40
    )
    assert prior.log_evidence(Poisson([1.0]).collect(x))[0] == pytest.approx(np.log(value), abs=1e-7)


def test_one_dimensional_wishart_is_a_normal_gamma():
    wide = GaussianWishart([[0.5]], [2.0], [3.0], [[[4.0]]])
    narrow = NormalGamma([[0.5]], [[2.0]], [[1.5]], [[2.0]])
    x = np.array([[0.1], [2.0]])
    seen = Gaussian([[0.0]], [[[1.0]]]).collect(x)
    assert wide.log_evidence(seen)[0] == pytest.approx(
        narrow.log_evidence(DiagonalGaussian([[0.0]], [[1.0]]).collect(x))[0]
    )
    np.testing.assert_allclose(wide.expected_log_density(x), narrow.expected_log_density(x))


def test_a_strength_of_zero_is_improper_but_has_a_posterior():
    prior = GaussianWishart([[0.0, 0.0]], [0.0], [2.0], [np.eye(2)])
    member = Gaussian([[0.0, 0.0]], [np.eye(2)])
    seen = member.collect([[1.0, 2.0], [3.0, 2.0]])
    np.testing.assert_allclose(prior.posterior(seen).centre, [[2.0, 2.0]])
    assert prior.log_evidence(seen)[0] == -np.inf


@pytest.mark.parametrize("name", ["gaussian", "diagonal"])
def test_spherical_and_tied_map_estimates_are_maxima(name):
    x = np.random.default_rng(3).normal(size=(50, D))
    weights = np.random.default_rng(4).random((50, K))
    prior = make_prior(name).take([0])
    member = make("tied") if name == "gaussian" else make("spherical")
    best = member.update(None, member.collect(x, weights), prior)

    def value(m):
        return (weights * m.log_density(x)).sum() + prior.log_density(m).sum()

    if name == "gaussian":  # the Wishart part counts once
        precision = np.linalg.inv(best.covariance)
        by_hand = stats.wishart(prior.freedom[0], np.linalg.inv(prior.scatter[0])).logpdf(precision)
        for k in range(K):
            spread = best.covariance / prior.strength[0]
            by_hand += stats.multivariate_normal(prior.centre[0], spread).logpdf(best.mean[k])
        assert prior.log_density(best).sum() == pytest.approx(by_hand)

    for seed in range(10):
        rng = np.random.default_rng(seed)
        mean = best.mean + 0.05 * rng.normal(size=best.mean.shape)
        scale = 1 + 0.1 * rng.normal()
        other = (
            TiedGaussian(mean, best.covariance * abs(scale))
            if name == "gaussian"
            else SphericalGaussian(mean, best.variance * abs(scale))
        )
        assert value(other) < value(best)


def test_mixtures_add_densities_and_divide_weights():
    rng = np.random.default_rng(0)
    parts = DiagonalGaussian(rng.normal(size=(4, 2)), np.ones((4, 2)))
    mixture = Mixture([[0.3, 0.7], [1.0, 0.0]], parts)
    x = rng.normal(size=(20, 2))
    by_hand = np.exp(parts.log_density(x)).reshape(20, 2, 2) * mixture.weights
    np.testing.assert_allclose(mixture.log_density(x), np.log(by_hand.sum(axis=2)))
    np.testing.assert_allclose(mixture.responsibilities(x).sum(axis=2), 1)
    new = updated(mixture, mixture.expect(x))
    assert (new.log_density(x).sum(axis=0) >= mixture.log_density(x).sum(axis=0)).all()
    assert mixture.n_parameters == 2 + 16
    np.testing.assert_array_equal(mixture.take([1]).weights, [[1.0, 0.0]])
    assert len(mixture.sample(np.array([0, 1, 1]), rng)) == 3
    prior = MixturePrior(Dirichlet([[2.0, 2.0]]), NormalGamma(*np.full((4, 1, 2), 1.0)))
    assert np.isfinite(prior.log_density(Mixture([[0.5, 0.5]], parts.take([0, 1])))).all()
    climbed = updated(mixture, mixture.expect(x), prior)
    assert (climbed.weights[1] > 0).all()


def test_missing_rows_do_not_count():
    categorical = make("categorical")
    np.testing.assert_allclose(categorical.collect([0, -1, 2]).total, categorical.collect([0, 2]).total)
    np.testing.assert_allclose(make("poisson").collect([1, np.nan]).total, 1)
    assert (categorical.log_density([-1]) == 0).all() and (make("poisson").log_density([np.nan]) == 0).all()
    assert categorical.rows([0.0, np.nan]).tolist() == [0, -1]


def test_zero_probabilities_are_legal():
    p = Categorical([[1.0, 0.0]])
    assert p.log_density([1])[0, 0] == -np.inf
    assert p.entropy()[0] == 0
    assert Categorical([[0.5, 0.5]]).kl(p)[0] == np.inf and p.kl(Categorical([[0.5, 0.5]]))[0] > 0
    assert Dirichlet([[1.0, 1.0]]).log_density(p)[0] == 0


def test_a_floor_raises_small_variances():
    x = np.array([[1.0, 2.0], [1.0, 3.0]])
    assert Gaussian([[0.0, 0.0]], [np.eye(2)]).update(
        None, Gaussian([[0.0, 0.0]], [np.eye(2)]).collect(x), floor=0.1
    ).covariances[0, 0, 0] == pytest.approx(0.1)
    diagonal = DiagonalGaussian([[0.0, 0.0]], np.ones((1, 2)))
    assert diagonal.update(None, diagonal.collect(x), floor=0.1).variances[0, 0] == 0.1


G2 = Gaussian([[0.0, 0.0]], [np.eye(2)])


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: Categorical([[0.5, 0.6]]), ModelError, "every row must sum to 1, got sums from 1.1"),
        (lambda: Categorical([[-0.5, 1.5]]), ModelError, "expected no negative number, got -0.5"),
        (lambda: Categorical([0.5, 0.5]), ModelError, "expected a filled array with 2 axes"),
        (lambda: Categorical([["a", "b"]]), ModelError, r"expected numbers, got \[\["),
        (lambda: Categorical([[np.nan, 1.0]]), ModelError, "expected finite numbers"),
        (lambda: Categorical.from_natural([[-np.inf, -np.inf]]), ModelError, "a finite number in every row"),
        (lambda: Categorical([[0.5, 0.5]]).rows([0, 2]), DataError, "row 1 has state 2, expected 0 to 1"),
        (lambda: Categorical([[0.5, 0.5]]).rows([0.5]), DataError, "expected state indices, got 0.5"),
        (lambda: Categorical([[0.5, 0.5]]).rows(["a"]), DataError, "expected state indices of shape"),
        (lambda: Dirichlet([[0.0, 1.0]]), ModelError, "concentration: expected positive numbers, got 0"),
        (lambda: Dirichlet(np.ones((2, 2))).repeat(3), ModelError, "expected 1 or 3 members, got 2"),
        (lambda: Gaussian([[0.0]], [[[-1.0]]]), ModelError, "member 0: expected a positive definite matrix"),
        (lambda: Gaussian([[0.0, 0.0]], [[[1.0, 2.0], [1.0, 1.0]]]), ModelError, "symmetric"),
        (lambda: Gaussian([[0.0, 0.0]], [[[1.0]]]), ModelError, r"expected shape \(1, 2, 2\)"),
        (lambda: TiedGaussian([[0.0, 0.0]], [[1.0]]), ModelError, r"expected shape \(2, 2\)"),
        (
            lambda: TiedGaussian.from_natural(make("gaussian").natural),
            ModelError,
            "expected equal covariances",
        ),
        (lambda: Gaussian.from_natural([[1.0, 2.0, 3.0]]), ModelError, r"expected d \+ d\^2 numbers"),
        (
            lambda: make("tied").update(None, make("tied").collect(np.zeros((2, D))), make_prior("gaussian")),
            ModelError,
            "prior of a tied covariance: expected one member, got 4",
        ),
        (lambda: G2.rows([[np.inf, 0.0]]), DataError, "row 0 has an infinite number"),
        (lambda: G2.rows([[0.0]]), DataError, r"expected shape \(rows, 2\), got \(1, 1\)"),
        (lambda: G2.rows([["a", "b"]]), DataError, "data: expected numbers"),
        (
            lambda: G2.initialise(np.full((2, 2), np.nan), np.random.default_rng()),
            DataError,
            "missing in every row",
        ),
        (
            lambda: G2.update(None, G2.collect(np.zeros((3, 2)))),
            ModelError,
            "give learning a prior or a floor",
        ),
        (lambda: DiagonalGaussian([[0.0]], [[0.0]]), ModelError, "member 0: expected positive numbers"),
        (lambda: DiagonalGaussian([[0.0]], [[1.0, 1.0]]), ModelError, r"variances: expected shape \(1, 1\)"),
        (lambda: SphericalGaussian([[0.0]], [1.0, 1.0]), ModelError, r"variance: expected shape \(1,\)"),
        (
            lambda: GaussianWishart([[0.0]], [1.0, 2.0], [1.0], [[[1.0]]]),
            ModelError,
            "strength: expected shape",
        ),
        (
            lambda: GaussianWishart([[0.0]], [-1.0], [1.0], [[[1.0]]]),
            ModelError,
            "strength: expected numbers from",
        ),
        (
            lambda: GaussianWishart([[0.0]], [1.0], [0.0], [[[1.0]]]),
            ModelError,
            "freedom: expected numbers above",
        ),
        (
            lambda: GaussianWishart([[0.0]], [1.0], [0.5], [[[1.0]]]).mode(),
            ModelError,
            "expected freedom above 1",
        ),
        (
            lambda: make_prior("gaussian").predictive([[0.0, np.nan, 1.0]]),
            DataError,
            "single missing coordinates",
        ),
        (lambda: NormalGamma([[0.0]], [[1.0]], [[0.0]], [[1.0]]), ModelError, "shape: expected positive"),
        (lambda: NormalGamma([[0.0]], [[1.0]], [[1.0]], [[1.0, 1.0]]), ModelError, "rate: expected shape"),
        (
            lambda: NormalGamma([[0.0]], [[1.0]], [[0.5]], [[1.0]]).mode(),
            ModelError,
            "expected shapes above 0.5",
        ),
        (lambda: Poisson([0.0]), ModelError, "rate: expected positive numbers"),
        (lambda: Poisson([1.0]).rows([1.5]), DataError, "row 0 has 1.5, expected a count"),
        (lambda: Poisson([1.0]).rows([[1.0, 2.0]]), DataError, "expected counts of shape"),
        (lambda: Gamma([1.0], [1.0, 2.0]), ModelError, "rate: expected shape"),
        (lambda: Gamma([0.0], [1.0]), ModelError, "expected positive shapes and rates"),
        (lambda: Gamma([1.0], [1.0]).mode(), ModelError, "expected shapes above 1"),
        (
            lambda: Mixture([[0.5, 0.5]], G2),
            ModelError,
            "components: expected 2 members, one per weight, got 1",
        ),
        (lambda: Mixture([[1.0]], "g"), ModelError, "components: expected members of a family, got str"),
        (
            lambda: updated(Mixture([[1.0]], G2), Mixture([[1.0]], G2).expect(np.eye(2)), "flat"),
            ModelError,
            "expected a MixturePrior, got str",
        ),
        (lambda: member_weights([[1.0]], 2, 1), DataError, r"weights: expected shape \(2, 1\)"),
        (lambda: member_weights([-1.0, 1.0], 2, 1), DataError, "got a negative one"),
    ],
)
def test_bad_input_gets_a_sentence(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_objects_describe_themselves():
    for thing in (*map(make, FAMILIES), *map(make_prior, CONJUGATE)):
        assert "4 members" in repr(thing)
        assert len(thing) == K
    assert make("categorical") == make("categorical")
    assert make_prior("categorical") == make_prior("categorical")
    assert isinstance(make("gaussian").collect(np.zeros((2, D))), RowMoments)
    assert isinstance(make("poisson").collect([1, 2]), Statistics)
    assert [make(name).n_parameters for name in FAMILIES] == [36, 18, 24, 16, 16, 4]


FAR = 2.0**27  # added to multiples of 2^-20 without rounding
GAUSSIANS = ["gaussian", "tied", "diagonal", "spherical"]


def exact_rows(n=60, d=D, seed=11):
    x = np.random.default_rng(seed).normal(size=(n, d)) * np.arange(1, d + 1)
    return np.round(x * 2**20) / 2**20


def moved(member, offset):
    scale = {
        Gaussian: lambda: member.covariances,
        TiedGaussian: lambda: member.covariance,
        DiagonalGaussian: lambda: member.variances,
        SphericalGaussian: lambda: member.variance,
    }[type(member)]()
    return type(member)(member.mean + offset, scale)


@pytest.mark.parametrize("name", GAUSSIANS)
@pytest.mark.parametrize("offset", [0.0, FAR])
def test_estimates_far_from_the_origin_are_those_of_two_passes(name, offset):
    x = exact_rows()
    weights = np.random.default_rng(5).random((60, K))
    member = make(name)
    half = member.collect(x[:20] + offset, weights[:20]) + member.collect(x[20:] + offset, weights[20:])
    found = [member.update(None, s) for s in (member.collect(x + offset, weights), half)]
    own = np.array([np.cov(x.T, aweights=weights[:, k], ddof=0) for k in range(K)])
    share = weights.sum(axis=0) / weights.sum()
    wanted = {
        "gaussian": own,
        "tied": np.broadcast_to(np.einsum("k,kij->ij", share, own), own.shape),
        "diagonal": own * np.eye(D),
        "spherical": np.einsum("kii->k", own)[:, None, None] / D * np.eye(D),
    }[name]
    for one in found:
        np.testing.assert_allclose(one.mean - offset, weights.T @ x / weights.sum(axis=0)[:, None], atol=1e-7)
        np.testing.assert_allclose(one.covariances, wanted, rtol=1e-7, atol=1e-9)
    alone = member.update(None, member.collect(x + offset))
    np.testing.assert_allclose(np.trace(alone.covariances[0]), np.trace(np.cov(x.T, ddof=0)), rtol=1e-9)


@pytest.mark.parametrize("name", GAUSSIANS)
def test_completed_rows_far_from_the_origin_give_the_same_estimates(name):
    x = exact_rows()
    x[np.random.default_rng(2).random(x.shape) < 0.2] = np.nan
    weights = np.random.default_rng(5).random((60, K))
    weights[:, 1] = 0
    member = make(name)
    far = moved(member, FAR)
    near, there = (
        member.update(None, member.collect(x, weights)),
        far.update(None, far.collect(x + FAR, weights)),
    )
    np.testing.assert_allclose(there.covariances, near.covariances, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(there.mean - FAR, near.mean, atol=1e-7)


@pytest.mark.parametrize("name", GAUSSIANS)
@pytest.mark.parametrize("first", [-FAR, 0.0])
def test_clusters_far_from_each_other_keep_their_variances(name, first):
    x = exact_rows(40)
    far = np.where(np.arange(40)[:, None] < 20, first, FAR)
    weights = np.repeat(np.eye(2), 20, axis=0)
    member = make(name).take([0, 1])
    found = member.update(None, member.collect(x + far, weights))
    parts = [
        member.take([k]).update(None, member.take([k]).collect(x[20 * k : 20 * k + 20])) for k in range(2)
    ]
    wanted = np.array([part.covariances[0] for part in parts])
    if name == "tied":
        wanted = np.broadcast_to(wanted.mean(axis=0), wanted.shape)
    np.testing.assert_allclose(found.covariances, wanted, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", GAUSSIANS)
def test_equal_rows_have_no_variance_whatever_their_weights(name):
    x = np.concatenate([np.full((7, D), 0.1), np.full((9, D), 1e8 + 0.3)])
    weights = np.random.default_rng(5).random((16, 2))
    weights[:7, 0] = weights[7:, 1] = 0
    member = make(name).take([0, 1])
    sums = member.collect(x, weights)
    np.testing.assert_array_equal(sums.scatter, 0)
    with pytest.raises(ModelError, match="floor for variances"):
        member.update(None, sums)
    raised = member.update(None, sums, floor=0.5)
    np.testing.assert_allclose(np.einsum("kii->ki", raised.covariances), 0.5)


@pytest.mark.parametrize("name", ["gaussian", "diagonal"])
def test_posteriors_and_evidence_do_not_depend_on_the_origin(name):
    x = exact_rows()
    weights = np.random.default_rng(5).random((60, K))
    member, prior = make(name), make_prior(name)
    parts = [prior.strength, prior.freedom, prior.scatter] if name == "gaussian" else None
    parts = parts or [prior.strength, prior.shape, prior.rate]
    # Moving the centre rounds it; a centre of 2^-20 multiples does not.
    centre = np.round(prior.centre * 2**20) / 2**20
    near, far = type(prior)(centre, *parts), type(prior)(centre + FAR, *parts)
    one, two = member.collect(x, weights), member.collect(x + FAR, weights)
    np.testing.assert_allclose(far.log_evidence(two), near.log_evidence(one), rtol=1e-8)
    np.testing.assert_allclose(far.posterior(two).entropy(), near.posterior(one).entropy(), rtol=1e-8)
    np.testing.assert_allclose(far.posterior(two).kl(far), near.posterior(one).kl(near), rtol=1e-6)
    np.testing.assert_allclose(
        member.update(None, two, far).covariances,
        member.update(None, one, near).covariances,
        rtol=1e-7,
        atol=1e-9,
    )
    other = make("tied") if name == "gaussian" else make("spherical")
    one, two = other.collect(x, weights), other.collect(x + FAR, weights)
    np.testing.assert_allclose(
        other.update(None, two, far.take([0])).covariances,
        other.update(None, one, near.take([0])).covariances,
        rtol=1e-7,
        atol=1e-9,
    )


def test_one_dimension_makes_all_forms_the_same():
    x = exact_rows(30, 1)
    x[3] = np.nan
    weights = np.random.default_rng(5).random((30, 2))
    mean, one = np.array([[0.0], [1.0]]), np.ones((2, 1))
    kinds = [
        Gaussian(mean, one[:, :, None]), DiagonalGaussian(mean, one), SphericalGaussian(mean, one[:, 0]),
    ]  # fmt: skip
    full, diagonal, spherical = (kind.update(None, kind.collect(x, weights)) for kind in kinds)
    np.testing.assert_allclose(spherical.covariances, full.covariances)
    np.testing.assert_allclose(spherical.covariances, diagonal.covariances)
    prior = NormalGamma([[0.5]], [[2.0]], [[1.5]], [[2.0]])
    diagonal, spherical = (kind.update(None, kind.collect(x, weights), prior) for kind in kinds[1:])
    np.testing.assert_allclose(spherical.covariances, diagonal.covariances)
    np.testing.assert_allclose(spherical.mean, diagonal.mean)


@pytest.mark.parametrize("width", [1, 5, 62, 63])
def test_patterns_divide_the_rows_by_what_they_observe(width):
    rng = np.random.default_rng(0)
    x = np.where(rng.random((4, width)) < 0.4, np.nan, 1.0)[rng.integers(4, size=30)]
    found = list(patterns(x))
    assert sorted(np.concatenate([where for _, where in found])) == list(range(30))
    for seen, where in found:
        assert (~np.isnan(x[where]) == seen).all()
    assert len({tuple(seen) for seen, _ in found}) == len(found)


def scattered(name, d=3, rows_=200, share=0.4, seed=0):
    """A family of four members and rows that lack coordinates in many patterns, some of them all."""
    rng = np.random.default_rng(seed)
    members = 4
    mean = rng.normal(size=(members, d))
    a = rng.normal(size=(members, d, d))
    full = a @ np.swapaxes(a, 1, 2) + 0.1 * np.eye(d)
    made = {
        "gaussian": lambda: Gaussian(mean, full),
        "tied": lambda: TiedGaussian(mean, full[0]),
        "diagonal": lambda: DiagonalGaussian(mean, np.exp(mean)),
        "spherical": lambda: SphericalGaussian(mean, np.exp(mean[:, 0])),
    }[name]()
    x = rng.normal(size=(rows_, d)) * 2.0
    return made, np.where(rng.random(x.shape) < share, np.nan, x), rng.random((rows_, members))


SHAPES = ["gaussian", "tied", "diagonal", "spherical"]


@pytest.mark.parametrize("d", [1, 3, 9, 26])
@pytest.mark.parametrize("name", SHAPES)
def test_densities_of_rows_with_gaps_are_those_of_what_was_seen(name, d):
    family, x, _ = scattered(name, d)
    expected = np.zeros((len(x), len(family)))
    for n, row in enumerate(x):
        seen = ~np.isnan(row)
        for k in range(len(family)):
            if seen.any():
                c = family.covariances[k][np.ix_(seen, seen)]
                expected[n, k] = stats.multivariate_normal(family.mean[k, seen], c).logpdf(row[seen])
    np.testing.assert_allclose(family.log_density(x), expected, rtol=1e-9, atol=1e-9)


def conditioned_moments(family, k, x, w):
    """Sums of weight times E[x] and E[x x^T] by conditioning every row by itself."""
    d = x.shape[1]
    first, second = np.zeros(d), np.zeros((d, d))
    m, c = family.mean[k], family.covariances[k]
    for row, weight in zip(x, w, strict=True):
        o = ~np.isnan(row)
        if not o.any():
            continue
        mean, rest = row.copy(), np.zeros((d, d))
        gain = c[np.ix_(~o, o)] @ np.linalg.inv(c[np.ix_(o, o)])
        mean[~o] = m[~o] + gain @ (row[o] - m[o])
        rest[np.ix_(~o, ~o)] = c[np.ix_(~o, ~o)] - gain @ c[np.ix_(o, ~o)]
        first += weight * mean
        second += weight * (np.outer(mean, mean) + rest)
    return first, second


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("d", [1, 3, 9, 26])
@pytest.mark.parametrize("name", SHAPES)
def test_expected_statistics_of_rows_with_gaps_are_those_of_conditioning(name, d, weighted):
    family, x, weights = scattered(name, d)
    weights = weights if weighted else np.ones_like(weights)
    found = family.collect(x, weights if weighted else None)
    np.testing.assert_allclose(found.count, weights[~np.isnan(x).all(axis=1)].sum(axis=0))
    for k in range(len(family)):
        first, second = conditioned_moments(family, k, x, weights[:, k])
        kept = {"diagonal": np.diag(second), "spherical": [np.trace(second)]}.get(name, second.ravel())
        np.testing.assert_allclose(found.total[k], np.concatenate([first, kept]), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", SHAPES)
def test_statistics_of_rows_with_gaps_keep_their_digits_far_from_the_origin(name):
    family, x, weights = scattered(name)
    far = type(family)(
        family.mean + 1e7,
        {"gaussian": lambda: family.covariances, "tied": lambda: family.covariance,
         "diagonal": lambda: family.variances, "spherical": lambda: family.variance}[name](),
    )  # fmt: skip
    near, moved = family.collect(x, weights), far.collect(x + 1e7, weights)
    np.testing.assert_allclose(moved.mean - 1e7, near.mean, atol=1e-6)
    np.testing.assert_allclose(moved.scatter, near.scatter, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("name", SHAPES)
def test_a_constant_coordinate_with_gaps_has_its_variance_from_them_alone(name):
    family, x, _ = scattered(name)
    x[:, 0] = np.where(np.isnan(x[:, 0]), np.nan, 1e6)
    found = family.collect(x)
    assert np.isfinite(found.scatter).all() and (found.scatter[:, 0] >= 0).all()


@pytest.mark.parametrize("name", SHAPES)
def test_starts_do_not_need_a_complete_row(name):
    family, x, _ = scattered(name)
    x[np.arange(len(x)), np.arange(len(x)) % 3] = np.nan  # every row lacks something
    made = family.initialise(x, np.random.default_rng(0))
    assert np.isfinite(made.mean).all() and (made.covariances.diagonal(axis1=1, axis2=2) > 0).all()
    assert len(np.unique(made.mean, axis=0)) == len(family)
    x[:, 1] = np.nan
    with pytest.raises(DataError, match="coordinate 1 is missing in every row; leave it out"):
        family.initialise(x, np.random.default_rng(0))


@pytest.mark.parametrize("kind", [DiagonalGaussian, SphericalGaussian, Gaussian])
def test_a_member_without_rows_stays_where_its_prior_has_no_mode(kind):
    spread = {DiagonalGaussian: np.full((2, 2), 3.0), SphericalGaussian: np.full(2, 3.0)}
    members = kind([[0.0, 1.0], [5.0, 6.0]], spread.get(kind, np.array([3 * np.eye(2)] * 2)))
    if kind is Gaussian:
        prior = GaussianWishart([[0.0, 0.0]], [1e-9], [2.0], [0.01 * np.eye(2)])
    else:
        prior = NormalGamma([[0.0] * 2], [[1e-9] * 2], [[0.5] * 2], [[0.01] * 2])
    x = np.random.default_rng(0).normal(size=(20, 2))
    sums = members.collect(x, np.tile([1.0, 0.0], (20, 1)))
    found = members.update(None, sums, prior)
    np.testing.assert_array_equal(found.mean[1], members.mean[1])
    np.testing.assert_array_equal(found.covariances[1], members.covariances[1])
    np.testing.assert_allclose(found.mean[0], x.mean(axis=0), atol=1e-8)
    assert np.isfinite(found.covariances).all() and not np.allclose(found.covariances[0], 3 * np.eye(2))
