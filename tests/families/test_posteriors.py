"""Posteriors over parameters as models of hidden rows: products, sticks, missing coordinates."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

import credo
from credo.core.errors import ModelError
from credo.families import (
    Categorical,
    ConjugateMixture,
    ConjugateProduct,
    DiagonalGaussian,
    Dirichlet,
    Gamma,
    Gaussian,
    GaussianWishart,
    Mixture,
    MixturePrior,
    NormalGamma,
    Poisson,
    Product,
    StickBreaking,
    StudentT,
)
from credo.families.averaged import AveragedFamily
from credo.families.conjugates import check_prior, default_prior
from credo.families.independent import IndependentRows

FAMILY = Product([Categorical([[0.5, 0.5]] * 2), Poisson([1.0, 2.0])], [0, 1])
PRIOR = ConjugateProduct(FAMILY, [Dirichlet([[1.0, 2.0]]), Gamma([1.0], [0.5])])
X = np.array([[0, 3.0], [1, np.nan], [-1, 5.0], [1, 0.0]])
GAMMA, COUNTS = Gamma([1.0], [0.5]), Mixture([[0.5, 0.5]], Poisson([1.0, 2.0]))
STUDENTS = StudentT([[0.0], [1.0]], [[1.0], [1.0]], [4.0, 4.0])


def test_a_product_of_priors_is_each_prior_on_its_own_columns():
    shares = np.random.default_rng(0).dirichlet([1.0, 1.0], size=4)
    after = PRIOR.repeat(2).posterior(PRIOR.repeat(2).expect(X, shares).sums)
    apart = [
        part.repeat(2).posterior(member.collect(column, shares))
        for part, member, column in zip(PRIOR.parts, FAMILY.parts, X.T, strict=True)
    ]
    np.testing.assert_allclose(after.parts[0].concentration, apart[0].concentration)
    np.testing.assert_allclose(after.parts[1].rate, apart[1].rate)
    np.testing.assert_allclose(
        after.expected_log_density(X),
        sum(part.expected_log_density(column) for part, column in zip(apart, X.T, strict=True)),
    )
    np.testing.assert_allclose(
        after.kl(PRIOR.repeat(2)), sum(a.kl(p) for a, p in zip(apart, PRIOR.parts, strict=True))
    )
    assert len(after.take([1])) == 1 and after.match(after).parts[1].shape == after.parts[1].shape[0]
    assert after.mean().log_density(X).shape == after.predictive(X).shape == (4, 2)


def test_a_mixture_of_priors_with_one_component_is_that_component():
    shares, rows = np.random.default_rng(0).dirichlet([1.0, 1.0], size=4), X[:, 1]
    one, alone = ConjugateMixture(Dirichlet([[3.0], [3.0]]), GAMMA), GAMMA.repeat(2)
    after = one.posterior(one.expect(rows, shares).sums)
    apart = alone.posterior(alone.expect(rows, shares).sums)
    np.testing.assert_allclose(after.components.natural, apart.natural)
    np.testing.assert_allclose(after.expected_log_density(rows), apart.expected_log_density(rows))
    np.testing.assert_allclose(after.predictive(rows), apart.predictive(rows))
    np.testing.assert_allclose(after.kl(one), apart.kl(alone))


def test_rows_are_divided_among_the_components_of_a_posterior_and_add_up():
    prior = ConjugateMixture(Dirichlet([[1.0, 2.0]]), Gamma([1.0, 8.0], [1.0, 1.0])).repeat(2)
    rows, shares = np.array([0.0, 9.0, np.nan, 2.0]), np.full((4, 2), 0.5)
    whole, under = prior.expect(rows, shares), prior.expect_under(prior.mean(), rows, shares)
    parts = prior.expect(rows[:2], shares[:2]) + prior.expect(rows[2:], shares[2:])
    np.testing.assert_allclose(whole.count, [1.5, 1.5])
    after, again = prior.posterior(whole.sums), prior.posterior(parts.sums)
    np.testing.assert_allclose(after.weights.concentration, again.weights.concentration)
    np.testing.assert_allclose(after.weights.concentration.sum(axis=1), 3 + 1.5)
    np.testing.assert_allclose(after.components.natural, again.components.natural)
    np.testing.assert_allclose(under.sums["choice"].total.sum(axis=1), whole.count)
    logs = np.log(prior.weights.mean().probabilities).ravel() + prior.components.predictive(rows)
    np.testing.assert_allclose(prior.predictive(rows)[:, 0], logsumexp(logs[:, :2], axis=1), atol=1e-12)
    assert len(prior.take([1])) == 1 and (after.expected_log_density(rows)[2] == 0).all()
    matched = prior.match(after)
    assert len(matched) == 1 and len(matched.components) == 2
    assert len(after.sample(np.random.default_rng(0))) == 2 and repr(after).startswith("ConjugateMixture(2")


@pytest.mark.parametrize("full", [True, False])
def test_rows_that_lack_coordinates_say_what_the_others_say(full):
    """Moments add up over parts of the data, with and without gaps."""
    prior = (
        GaussianWishart(np.zeros((2, 2)), [1.0, 2.0], [3.0, 4.0], [np.eye(2)] * 2)
        if full
        else NormalGamma(*np.ones((4, 2, 2)))
    )
    rng = np.random.default_rng(0)
    x, shares = rng.normal(1e6, 1.0, size=(8, 2)), rng.dirichlet([1.0, 1.0], size=8)
    x[1, 0] = x[6, 1] = np.nan
    x[3] = np.nan
    whole = prior.expect(x, shares)
    parts = prior.expect(x[:2], shares[:2]) + (
        prior.expect(x[2:5], shares[2:5]) + prior.expect(x[5:], shares[5:])
    )
    one, two = prior.posterior(whole.sums), prior.posterior(parts.sums)
    np.testing.assert_allclose(one.centre, two.centre)
    np.testing.assert_allclose(one.natural, two.natural)
    np.testing.assert_allclose(whole.count, shares[[0, 1, 2, 4, 5, 6, 7]].sum(axis=0))
    if not full:
        seen = ~np.isnan(x[:, 0])
        alone = NormalGamma(*np.ones((4, 2, 1)))
        column = alone.posterior(alone.mean().collect(x[seen][:, :1], shares[seen]))
        np.testing.assert_allclose(one.centre[:, :1], column.centre)
        np.testing.assert_allclose(one.rate[:, :1], column.rate)


def test_a_coordinate_that_is_missing_is_integrated_out_of_the_averaged_density():
    q = GaussianWishart([[0.5, -1.0]], [2.0], [4.0], [[[2.0, 0.7], [0.7, 1.0]]])
    values = np.linspace(-40.0, 40.0, 8001)
    rows = np.column_stack([np.full(len(values), 1.3), values])
    numeric = logsumexp(q.expected_log_density(rows)) + np.log(values[1] - values[0])
    assert q.expected_log_density([[1.3, np.nan]])[0, 0] == pytest.approx(numeric, abs=1e-9)


def test_a_broken_stick_is_its_pieces():
    rng = np.random.default_rng(0)
    stick = StickBreaking.prior(4, 0.7).posterior([5.0, 2.0, 0.0, 1.0])
    np.testing.assert_allclose(stick.pieces.concentration, [[6, 3.7], [3, 1.7], [1, 1.7], [2, 0.7]])
    v = rng.beta(*stick.pieces.concentration.T, size=(200_000, 4))
    pi = v * np.cumprod(np.column_stack([np.ones(len(v)), 1 - v[:, :-1]]), axis=1)
    np.testing.assert_allclose(stick.expected_log, np.log(pi).mean(axis=0), 0.02)
    np.testing.assert_allclose(stick.mean(), pi.mean(axis=0) / pi.mean(axis=0).sum(), 0.002)
    assert stick.sample(rng).sum() == pytest.approx(1.0) and len(stick.take([0, 2])) == 2
    best = StickBreaking.prior(4).match(stick)
    for a in (0.97, 1.03):
        other = StickBreaking.prior(4, a * best.pieces.concentration[0, 1])
        assert stick.kl(other).sum() > stick.kl(best).sum()


def test_a_posterior_of_no_data_is_the_prior_and_a_model_of_rows():
    model = IndependentRows(Mixture([[0.5, 0.5]], Gaussian([[0.0], [4.0]], np.ones((2, 1, 1)))))
    blank = model.posterior(MixturePrior(components=GaussianWishart([[0.0]], [1.0], [2.0], [[[1.0]]])))
    assert blank.divergence() == pytest.approx(0.0, abs=1e-12) and len(blank) == 2
    np.testing.assert_allclose(credo.infer(blank, data=[[1.0]]).marginals["component"], [[0.5, 0.5]])
    assert repr(blank).startswith("MixturePosterior(2 states, GaussianWishart(2 members")
    assert len(AveragedFamily(blank.components)) == 2
    assert repr(AveragedFamily(blank.components)).startswith("AveragedFamily(GaussianWishart")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ConjugateProduct(FAMILY, [Dirichlet([[1.0, 1.0]])]), "expected 2 conjugate distributions"),
        (lambda: check_prior([Dirichlet([[1.0, 1.0]])], FAMILY), "expected 2 priors, one per part"),
        (lambda: check_prior([Gamma([1.0], [1.0])] * 2, FAMILY), "prior of Categorical: expected Dirichlet"),
        (
            lambda: default_prior(Mixture([[0.5, 0.5]], STUDENTS), np.ones((3, 1))),
            "which have conjugate priors, got StudentT",
        ),
        (lambda: ConjugateMixture(Gamma([1.0], [1.0]), GAMMA), "weights: expected a Dirichlet, got Gamma"),
        (lambda: check_prior(GAMMA, COUNTS), "prior of Mixture: expected a MixturePrior, got Gamma"),
        (lambda: check_prior(MixturePrior(), COUNTS), "expected priors of its components, got none"),
        (
            lambda: check_prior(MixturePrior(Dirichlet([[1.0] * 3]), GAMMA), COUNTS),
            "prior of weights: expected 2 components, got 3",
        ),
        (
            lambda: ConjugateMixture(Dirichlet([[1.0, 1.0]] * 2), GAMMA).repeat(3),
            "expected 1 or 3 mixtures, got 2",
        ),
        (lambda: StickBreaking(Dirichlet([[1.0, 1.0, 1.0]])), "pieces: expected a Dirichlet with two states"),
        (
            lambda: IndependentRows(Poisson([1.0])).posterior(),
            "expected a conjugate prior of Poisson, got none; give one, or data",
        ),
        (
            lambda: IndependentRows(Mixture([[1.0]], Poisson([1.0]))).posterior(Gamma([1.0], [1.0])),
            "prior of a mixture: expected a MixturePrior, got Gamma",
        ),
        (
            lambda: IndependentRows(Mixture([[1.0]], Poisson([1.0]))).posterior(
                MixturePrior(StickBreaking.prior(2), Gamma([1.0], [1.0]))
            ),
            "prior of weights: expected 1 components, got 2",
        ),
        (
            lambda: credo.fit(
                Mixture([[0.5, 0.5]], DiagonalGaussian([[0.0], [1.0]], np.ones((2, 1)))),
                [[0.0], [1.0]],
                "em",
                prior=MixturePrior(StickBreaking.prior(2)),
            ),
            "expected a Dirichlet prior for a most probable mixture, got StickBreaking",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ModelError, match=message):
        call()
