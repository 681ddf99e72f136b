"""Blanks of mixtures and of hidden Markov models: columns and parameters from data."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import credo
from credo.core.errors import ConvergenceWarning, DataError, ModelError, OptionError
from credo.families import (
    Categorical,
    DiagonalGaussian,
    Gaussian,
    Mixture,
    Poisson,
    Product,
    SphericalGaussian,
    StudentT,
    TiedGaussian,
    family_of,
)
from credo.models.hmm import HMM


def quietly(*arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return credo.fit(*arguments, **options)


def frame(count=160, seed=0):
    """Two kinds of rows: states, reals, counts, some of them missing; two patients."""
    rng = np.random.default_rng(seed)
    kind = np.repeat([0, 1, 0, 1], count // 4)
    table = pd.DataFrame(
        {
            "hr": rng.normal(60 + 20 * kind, 4),
            "temp": rng.normal(37 + kind, 0.3),
            "alarm": np.where(rng.random(count) < 0.1 + 0.8 * kind, "yes", "no"),
            "drops": rng.poisson(2 + 8 * kind),
            "patient": np.repeat(["b", "a"], count // 2),
        }
    )
    table.loc[::11, "hr"] = np.nan
    table.loc[::13, "alarm"] = None
    return table, kind


def agreement(found, kind):
    """The share of rows whose hidden state is right, whatever the numbers of the states."""
    share = (np.concatenate(found) == kind).mean() if isinstance(found, list) else (found == kind).mean()
    return max(share, 1 - share)


def test_a_mixed_table_is_learned_as_a_mixture():
    table, kind = frame()
    found = credo.fit(credo.Mixture.blank(2), table.drop(columns="patient"), seed=0)
    parts = found.model.components
    assert isinstance(found.model, Mixture)
    assert set(parts.names) == {"hr", "temp", "alarm", "drops"}
    assert (np.diff(found.objective) > -1e-12).all()
    marginals = credo.infer(found.model, data=table).marginals["component"]
    assert marginals.shape == (160, 2) and agreement(marginals.argmax(axis=1), kind) > 0.97


def test_a_mixed_table_is_learned_as_sequences():
    table, kind = frame()
    blank = credo.HMM.blank(2, {"hr": "gaussian", "alarm": "categorical", "drops": "poisson"})
    found = credo.fit(blank, table, groups="patient", columns=["hr", "alarm", "drops"], seed=0)
    assert [type(part) for part in found.model.emission.parts] == [Gaussian, Categorical, Poisson]
    answer = credo.infer(found.model, data=table, groups="patient")
    assert [m.shape for m in answer.marginals["state"]] == [(80, 2), (80, 2)]
    assert answer.log_z.value == pytest.approx(found.log_likelihood.value)
    path = credo.infer(found.model, data=table, groups="patient", maximise="all").assignment["state"]
    assert agreement(path, kind) > 0.97
    causal = credo.infer(found.model, data=table, groups="patient", causal=True).marginals["state"]
    np.testing.assert_allclose(causal[0][-1], answer.marginals["state"][0][-1])
    assert credo.forecast(found.model, table, 5, groups="patient")[0].states.shape == (5, 2)
    rows, states = credo.sample(found.model, lengths=[3, 2], seed=0)
    assert rows.dtype.names == ("hr", "alarm", "drops") and states.shape == (5,)


def test_a_chain_with_gaussian_rows_is_filled_and_learned():
    table, kind = frame()
    found = credo.fit(credo.HMM.gaussian(states=2), table, groups="patient", columns=["hr", "temp"], seed=0)
    marginals = credo.infer(found.model, data=table, groups="patient").marginals["state"]
    assert agreement([m.argmax(axis=1) for m in marginals], kind) > 0.97
    shuffled = table[["temp", "drops", "patient", "hr"]]
    again = credo.infer(found.model, data=shuffled, groups="patient").marginals["state"]
    np.testing.assert_array_equal(again[0], marginals[0])


@pytest.mark.parametrize(
    ("kind", "family"),
    [
        ("full", Gaussian),
        ("tied", TiedGaussian),
        ("diagonal", DiagonalGaussian),
        ("spherical", SphericalGaussian),
    ],
)
def test_arrays_have_no_names_and_any_covariance(kind, family):
    x = np.random.default_rng(0).normal(size=(40, 2)) + np.repeat([[0.0], [5.0]], 20, axis=0)
    found = quietly(credo.HMM.gaussian(2, covariance=kind), x, seed=0, max_iter=5)
    assert type(found.model.emission) is family and found.model.emission.dimension == 2
    parts = quietly(credo.HMM.gaussian(2, covariance=kind), [x[:15], x[15:]], seed=0, max_iter=5)
    assert credo.infer(parts.model, data=[x[:15], x[15:]]).marginals["state"][0].shape == (15, 2)


def test_a_start_of_ones_own_is_not_lower_than_that_of_hmmlearn():
    theirs = pytest.importorskip("hmmlearn.hmm")
    truth = HMM(
        np.full(3, 1 / 3), [[0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]],
        Gaussian([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]], [np.eye(2)] * 3),
    )  # fmt: skip
    x, _ = credo.sample(truth, lengths=[300], seed=0)
    for seed in range(3):
        peer = theirs.GaussianHMM(
            3, covariance_type="full", n_iter=200, tol=1e-4, random_state=seed,
            covars_prior=0, covars_weight=2,
        )  # fmt: skip
        found = credo.fit(credo.HMM.gaussian(3), x, seed=seed)
        assert found.log_likelihood.value >= peer.fit(x).score(x) - 1e-3 * len(x)


def test_columns_say_what_families_they_are_of():
    table, _ = frame()
    found = family_of(None, 3, table, columns=["alarm", "hr", "temp"])
    assert found.columns == (("hr", "temp"), ("alarm",)) and len(found) == 3
    assert found.domains["alarm"].labels == ("no", "yes")
    given = {("hr", "temp"): "tied", "drops": "student"}
    together = family_of(given, 2, table, columns=["hr", "temp", "drops"])
    assert [type(part) for part in together.parts] == [TiedGaussian, StudentT]
    assert isinstance(family_of(None, 2, [0, 1, 4]), Categorical)
    assert family_of("categorical", 2, [[0, 1, 4], [2]]).states == 5
    assert isinstance(family_of("poisson", 2, [[0], [3]]), Poisson)
    both = family_of(None, 2, np.array([[0, 1], [3, 0]]))
    assert isinstance(both, Product) and [part.states for part in both.parts] == [4, 2]


def test_states_may_emit_mixtures():
    x = np.random.default_rng(0).normal(size=(60, 2))
    found = quietly(credo.HMM.gaussian(2, components=3), x, "em(floor=1e-3)", seed=0, max_iter=5)
    assert isinstance(found.model.emission, Mixture) and found.model.emission.weights.shape == (2, 3)


def test_files_and_datasets_fill_a_blank_as_frames_do(tmp_path):
    table, _ = frame()
    columns = ["hr", "temp", "alarm"]
    expected = quietly(credo.Mixture.blank(2), table[columns], seed=0, max_iter=4)
    table[columns].to_csv(tmp_path / "x.csv", index=False)
    for source in (tmp_path / "x.csv", credo.data.read(table[columns])):
        found = quietly(credo.Mixture.blank(2), source, seed=0, max_iter=4)
        np.testing.assert_allclose(found.objective, expected.objective, atol=1e-12)


@pytest.mark.parametrize("blank", [credo.HMM.gaussian(2), credo.Mixture.blank(2)])
@pytest.mark.parametrize(
    "ask",
    [
        credo.infer,
        lambda blank: credo.infer(blank, data=[[0.0]]),
        lambda blank: credo.sample(blank, 3),
        lambda blank: credo.sample(blank, lengths=[3]),
        lambda blank: credo.forecast(blank, [[0.0]]),
        lambda blank: credo.log_likelihood(blank, [[0.0]]),
    ],
)
def test_a_blank_answers_no_question(blank, ask):
    with pytest.raises(ModelError, match="is a blank, it has no parameters; fit it first"):
        ask(blank)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: credo.HMM.gaussian(0), OptionError, "states must be at least 1"),
        (lambda: credo.Mixture.blank(2, "normal"), OptionError, "emission must be one of"),
        (lambda: credo.HMM.gaussian(2, covariance="none"), OptionError, "covariance must be one of"),
        (
            lambda: credo.fit(credo.HMM.blank(2, {"pulse": "gaussian"}), frame()[0]),
            DataError,
            "no column 'pulse' in the data",
        ),
        (
            lambda: credo.fit(credo.HMM.blank(2, {"hr": "categorical"}), frame()[0], columns=["hr"]),
            DataError,
            "'hr' shall be categorical, but it holds numbers",
        ),
        (
            lambda: credo.fit(credo.HMM.blank(2, {"hr": "gaussian"}), np.zeros((3, 1))),
            DataError,
            "expected a table with the columns",
        ),
        (
            lambda: credo.fit(credo.HMM.blank(2, {("hr", "drops"): "poisson"}), frame()[0]),
            ModelError,
            "expected one column for poisson, got 2",
        ),
        (
            lambda: credo.fit(credo.Mixture.blank(2, "gaussian"), credo.data.read({"a": [1, 2, 2]})),
            DataError,
            "was read as states",
        ),
        (
            lambda: credo.infer(
                quietly(credo.Mixture.blank(2), {"a": [0.0, 1.0, 2.5]}, "em(floor=0.1)", max_iter=1).model,
                data={"a": [0.5], "b": [1.0]},
                columns=["b"],
            ),
            DataError,
            "columns: expected those of the model",
        ),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.slow
def test_a_blank_chain_starts_where_it_is_seldom_lower_than_hmmlearn():
    hmm = pytest.importorskip("hmmlearn.hmm")
    x, better = pytest.importorskip("sklearn.datasets").load_iris().data, 0
    for seed in range(10):
        peer = hmm.GaussianHMM(4, covariance_type="diag", n_iter=500, tol=1e-4, random_state=seed).fit(x)
        found = credo.fit(credo.HMM.gaussian(4, covariance="diagonal"), x, seed=seed, tol=1e-5, max_iter=2000)
        better += found.log_likelihood.value > peer.score(x) - 1e-3 * len(x)
    assert better >= 9


def test_the_start_of_a_blank_chain_is_the_best_of_some_and_a_checkpoint_knows_it(tmp_path):
    rng = np.random.default_rng(3)
    x = rng.normal(np.repeat(rng.integers(4, size=20) * 1.5, 5), 1.0)
    plain = credo.fit(credo.HMM(states=4), x, seed=5)
    for tol in (0.2, 1e-3):
        kept = credo.fit(credo.HMM(states=4), x, seed=5, tol=tol, checkpoint=tmp_path / "chain.credo")
    assert np.array_equal(kept.objective, plain.objective) and kept.model.transition.tolist() == (
        plain.model.transition.tolist()
    )
    watched = []
    credo.fit(credo.HMM(states=4), x, seed=5, on_step=lambda k, view: watched.append(view.parameters))
    assert watched and all(model is None or model.states == 4 for model in watched)
