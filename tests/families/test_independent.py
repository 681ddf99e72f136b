"""Families as models of rows: the public calls against scikit-learn, enumeration and each other."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import credo
from credo.core.errors import ConvergenceWarning, DataError, ModelError, UnsupportedError
from credo.core.result import Status
from credo.families import (
    Categorical,
    DiagonalGaussian,
    Dirichlet,
    Gaussian,
    IndependentRows,
    Mixture,
    MixturePrior,
    NormalGamma,
    Poisson,
    Product,
)


def quietly(*arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return credo.fit(*arguments, **options)


def mixture():
    rng = np.random.default_rng(0)
    return Mixture([[0.3, 0.5, 0.2]], Gaussian(2 * rng.normal(size=(3, 2)), [np.eye(2)] * 3))


def start_of():
    """A start from which no component collapses."""
    return Mixture([[0.4, 0.3, 0.3]], Gaussian(mixture().components.mean + 0.5, [2 * np.eye(2)] * 3))


def rows(count=150, lacking=0.0, seed=1):
    x, _ = credo.sample(mixture(), count, seed=seed)
    x[np.random.default_rng(seed).random(x.shape) < lacking] = np.nan
    return x


def test_iterates_equal_those_of_scikit_learn():
    theirs = pytest.importorskip("sklearn.mixture")
    x, start = rows(), start_of()
    for iterations in (1, 4):
        peer = theirs.GaussianMixture(
            3, max_iter=iterations, tol=0, reg_covar=0, weights_init=start.weights[0],
            means_init=start.components.mean, precisions_init=start.components.precisions,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            peer.fit(x)
        found = quietly(start, x, max_iter=iterations, tol=0)
        np.testing.assert_allclose(found.model.weights[0], peer.weights_, atol=1e-10)
        np.testing.assert_allclose(found.model.components.mean, peer.means_, atol=1e-9)
        np.testing.assert_allclose(found.model.components.covariances, peer.covariances_, atol=1e-9)
        assert found.objective[-1] == pytest.approx(peer.score(x), abs=1e-10)


def test_answers_are_those_of_the_family():
    model, x = mixture(), rows(lacking=0.2)
    found = credo.infer(model, data=x)
    np.testing.assert_allclose(found.marginals["component"], model.responsibilities(x)[:, 0], atol=1e-12)
    total = model.log_density(x).sum()
    assert found.log_z.value == pytest.approx(total) and found.log_z.kind == "exact"
    assert credo.log_likelihood(model, x).value == pytest.approx(total)
    best = credo.infer(model, data=x, maximise="all").assignment["component"]
    np.testing.assert_array_equal(best, found.marginals["component"].argmax(axis=1))
    general = credo.infer(model, "bp", data=x[:5]).marginals["component"]
    np.testing.assert_allclose(general, found.marginals["component"][:5], atol=1e-9)
    draws = credo.sample(model, 4000, data=x[:3], seed=0)["component"]
    np.testing.assert_allclose((draws == 1).mean(axis=0), found.marginals["component"][:3, 1], atol=0.04)


def test_samples_have_the_moments_of_the_mixture():
    model = mixture()
    x, components = credo.sample(model, 20_000, seed=0)
    np.testing.assert_allclose(np.bincount(components) / len(x), model.weights[0], atol=0.02)
    np.testing.assert_allclose(x.mean(axis=0), model.weights[0] @ model.components.mean, atol=0.05)


@pytest.mark.parametrize(
    ("family", "column"),
    [
        (Gaussian([[0.0]], [[[1.0]]]), [1.0, 2.0, np.nan, 6.0]),
        (Poisson([1.0]), [1.0, 2.0, np.nan, 6.0]),
        (Categorical([[0.2, 0.3, 0.5]]), [0, 2, -1, 2]),
    ],
)
def test_one_member_is_learned_in_one_step(family, column):
    found = credo.fit(family, column)
    assert type(found.model) is type(family) and found.learner == "em"
    best = family.update(None, family.collect(column))
    assert found.log_likelihood.value == pytest.approx(best.log_density(column).sum())
    again = quietly(found, column, max_iter=2)
    assert again.model.movement(found.model) < 1e-12


def test_a_row_of_weight_two_is_a_row_that_comes_twice():
    x, weights = rows(40), np.where(np.arange(40) < 15, 2.0, 1.0)
    one = quietly(start_of(), x, weights=weights, max_iter=5, tol=0)
    two = quietly(start_of(), np.repeat(x, weights.astype(int), axis=0), max_iter=5, tol=0)
    np.testing.assert_allclose(one.objective, two.objective, atol=1e-12)
    np.testing.assert_allclose(one.model.components.mean, two.model.components.mean, atol=1e-10)
    total = credo.log_likelihood(one.model, x, weights=weights).value
    assert total == pytest.approx(weights @ one.model.log_density(x)[:, 0])


def test_frames_are_read_by_the_names_of_a_product_in_any_order():
    parts = Product(
        [DiagonalGaussian([[0.0], [3.0]], [[1.0], [1.0]]), Categorical([[0.9, 0.1], [0.2, 0.8]])],
        ["size", "mark"],
        {"mark": credo.Variable("mark", ["no", "yes"]).domain},
    )
    model = Mixture([[0.5, 0.5]], parts)
    frame = pd.DataFrame({"mark": ["yes", None, "no"], "other": [1, 2, 3], "size": [2.5, 0.1, np.nan]})
    table = np.array([(2.5, 1), (0.1, -1), (np.nan, 0)], dtype=[("size", float), ("mark", int)])
    found = credo.infer(model, data=frame)
    np.testing.assert_allclose(found.marginals["component"], model.responsibilities(table)[:, 0])
    reals = Mixture(
        [[1.0]], Product([Gaussian([[1.0]], [[[1.0]]]), Gaussian([[9.0]], [[[1.0]]])], ["b", "a"])
    )
    swapped = pd.DataFrame({"a": [9.0], "b": [1.0]})
    assert credo.log_likelihood(reals, swapped).value == pytest.approx(-np.log(2 * np.pi))


def test_priors_fixed_parts_and_batches_are_those_of_em():
    x, start = rows(300), start_of()
    prior = MixturePrior(
        Dirichlet([[5.0] * 3]), credo.families.GaussianWishart([[0.0, 0.0]], [1.0], [4.0], [np.eye(2)])
    )
    found = quietly(start, x, prior=prior, max_iter=20)
    assert (np.diff(found.objective) > -1e-12).all()
    last = found.model.log_density(x).sum() + prior.log_density(found.model).sum()
    assert found.objective[-1] * len(x) == pytest.approx(last)
    kept = quietly(start, x, fixed=("weights",), max_iter=3).model
    np.testing.assert_array_equal(kept.weights, start.weights)
    kept = quietly(start, x, fixed=("emission",), max_iter=3, restarts=2, seed=0).model
    np.testing.assert_array_equal(kept.components.mean, start.components.mean)
    whole, parts = (quietly(start, x, f"em({how})", max_iter=60, seed=0) for how in ("", "batch=50"))
    assert parts.objective[-1] == pytest.approx(whole.objective[-1], abs=5e-3)
    held = quietly(start, x, validation=0.2, max_iter=3, seed=0)
    assert np.isfinite(held.trace["validation"]).all()


def test_priors_of_products_are_summed_over_their_parts():
    parts = Product([DiagonalGaussian([[1.0]], [[2.0]]), Categorical([[0.3, 0.7]])], [0, 1])
    first, second = NormalGamma([[0.0]], [[1.0]], [[2.0]], [[1.0]]), Dirichlet([[2.0, 2.0]])
    expected = first.log_density(parts.parts[0]).sum() + second.log_density(parts.parts[1]).sum()
    assert parts.log_prior((first, second)) == pytest.approx(expected)
    assert parts.log_prior((None, None)) == 0


def test_mixtures_are_saved_resumed_and_compared(tmp_path):
    x = rows()
    first = quietly(start_of(), x, max_iter=3, tol=0, checkpoint=tmp_path / "run.credo")
    again = quietly(start_of(), x, max_iter=3, tol=0, checkpoint=tmp_path / "run.credo")
    np.testing.assert_array_equal(first.model.components.mean, again.model.components.mean)
    credo.save(first, tmp_path / "fit.credo")
    more = quietly(credo.load(tmp_path / "fit.credo"), x, max_iter=3, tol=0)
    whole = quietly(start_of(), x, max_iter=6, tol=0)
    np.testing.assert_allclose(more.objective[-1], whole.objective[-1], atol=1e-12)
    table = credo.compare_models(
        {"three": whole.model, "one": Gaussian([[0, 0]], [np.eye(2)])}, x, criteria=["bic"], restarts=1
    )
    assert table["three"].log_likelihood > table["one"].log_likelihood


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: credo.fit(mixture().components, rows()), ModelError, "one member, .* got 3 members"),
        (lambda: IndependentRows("x"), ModelError, "one member, .* got str"),
        (
            lambda: credo.infer(mixture(), data=rows(), lengths=[100, 50]),
            DataError,
            "Mixture has independent rows",
        ),
        (
            lambda: credo.infer(mixture()),
            ModelError,
            "a Mixture is a graph only together with data; give data=rows",
        ),
        (
            lambda: credo.fit(mixture(), rows(), "em(prior=bdeu)"),
            UnsupportedError,
            "no prior of a Mixture; expected MixturePrior",
        ),
        (lambda: credo.fit(mixture(), rows(), fixed=("means",)), credo.CredoError, "fixed must be one of"),
        (
            lambda: credo.fit(mixture(), rows(), prior=Dirichlet([[1.0]])),
            UnsupportedError,
            "no prior of a Mixture; expected MixturePrior",
        ),
        (lambda: credo.sample(mixture(), -1), credo.CredoError, "count must be"),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_weights_may_be_a_column():
    frame = pd.DataFrame(rows(30), columns=["a", "b"]).assign(often=np.arange(30) % 3)
    found = quietly(start_of(), frame, weights="often", max_iter=2, tol=0)
    known = quietly(start_of(), frame[["a", "b"]], weights=frame["often"], max_iter=2, tol=0)
    np.testing.assert_array_equal(found.objective, known.objective)
    blank = credo.Mixture.blank(2)
    found = quietly(blank, frame, weights="often", max_iter=2, seed=0)
    assert found.model.components.names == ("a", "b")


def test_components_are_predicted_in_the_form_of_the_rows():
    frame = pd.DataFrame(rows(12), columns=["a", "b"], index=range(5, 17))
    found = credo.predict(mixture(), frame, "component")
    assert list(found.index) == list(frame.index)
    expected = mixture().responsibilities(frame.to_numpy())[:, 0]
    np.testing.assert_array_equal(found.to_numpy(), expected.argmax(axis=1))
    shares = credo.predict(mixture(), frame, "component", proba=True)
    np.testing.assert_allclose(shares.to_numpy(), expected)
    with pytest.raises(ModelError, match="impute: expected a model of named variables, got Mixture"):
        credo.impute(mixture(), frame)


def test_one_member_with_a_closed_form_is_exact_after_one_step():
    x = np.random.default_rng(0).normal([1.0, -2.0], [2.0, 0.5], (50, 2))
    found = credo.fit(Gaussian([[0.0, 0.0]], [np.eye(2)]), x, "em")
    assert found.status is Status.EXACT and len(found.objective) == 2
    np.testing.assert_allclose(found.model.mean[0], x.mean(axis=0))
    np.testing.assert_allclose(found.model.covariances[0], np.cov(x.T, bias=True))
    frame = {"n": np.arange(6) % 3, "v": np.arange(6.0)}
    product = Product([Poisson([1.0]), DiagonalGaussian([[0.0]], [[1.0]])], ["n", "v"])
    assert credo.fit(product, frame, "em").status is Status.EXACT


def test_what_is_chosen_or_missing_is_never_exact_after_one_step():
    x = np.random.default_rng(0).normal([1.0, -2.0], [2.0, 0.5], (50, 2))
    gone = np.where(np.arange(50)[:, None] % 5 == [0, 1], np.nan, x)
    assert credo.fit(Gaussian([[0.0, 0.0]], [np.eye(2)]), gone, "em").status is Status.CONVERGED
    mixture = Mixture([[0.5, 0.5]], DiagonalGaussian([[0.0, 0.0], [1.0, -1.0]], np.ones((2, 2))))
    assert quietly(mixture, x, "em").status is not Status.EXACT
