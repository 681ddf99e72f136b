"""Models of hidden rows through `credo.fit`: data in every form, options, checkpoints, refusals."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import credo
from credo.core.errors import ConvergenceWarning, DataError, OptionError, UnsupportedError
from credo.families import Categorical, DiagonalGaussian, Mixture, Poisson, Product
from credo.families.dirichlet import Dirichlet
from credo.models.hmm import HMM, HMMPrior
from credo.models.semi_markov import SemiMarkov

START, MOVES = [0.6, 0.4], [[0.8, 0.2], [0.3, 0.7]]


def quietly(*arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return credo.fit(*arguments, **options)


def gaussian():
    return HMM(START, MOVES, DiagonalGaussian([[0.0, 0.0], [2.0, 1.0]], np.ones((2, 2))))


def rows(seed=0, lengths=(30, 20)):
    x, _ = credo.sample(gaussian(), lengths=list(lengths), seed=seed)
    return x


@pytest.mark.parametrize(
    "model",
    [
        gaussian(),
        SemiMarkov(START, [[0.0, 1.0], [1.0, 0.0]], np.full((2, 4), 0.25), gaussian().emission),
        HMM(
            START,
            MOVES,
            Mixture(
                np.full((2, 2), 0.5), DiagonalGaussian(np.arange(8.0).reshape(4, 2) / 4, np.ones((4, 2)))
            ),
        ),
    ],
)
def test_em_is_chosen_and_is_also_called_baum_welch(model):
    x = rows()
    found = quietly(model, x, lengths=[30, 20], max_iter=10, tol=0)
    known = quietly(model, x, "baum-welch", lengths=[30, 20], max_iter=10, tol=0)
    assert known.learner == "em"
    assert found.learner == "em" and "hidden" in found.notes[0]
    np.testing.assert_array_equal(found.objective, known.objective)
    assert (np.diff(found.objective) > -1e-12).all()


def test_frames_arrays_lists_files_and_datasets_say_the_same(tmp_path):
    x = rows()
    frame = pd.DataFrame(x, columns=["hr", "temp"]).assign(patient=np.repeat(["b", "a"], [30, 20]), other="z")
    frame.to_csv(tmp_path / "x.csv", index=False)
    given = {"groups": "patient", "columns": ["hr", "temp"]}
    expected = quietly(gaussian(), x, lengths=[30, 20], max_iter=4).objective
    dataset = credo.data.read(frame, **given)
    for data, options in (
        ([x[:30], x[30:]], {}),
        (frame, given),
        (dict(frame), given),
        (tmp_path / "x.csv", given),
        (dataset, {}),
    ):
        found = quietly(gaussian(), data, max_iter=4, **options)
        np.testing.assert_allclose(found.objective, expected, atol=1e-12)


def test_columns_of_different_kinds_are_read_as_the_emission_says():
    parts = Product(
        [
            DiagonalGaussian([[0.0], [2.0]], [[1.0], [1.0]]),
            Categorical([[0.8, 0.2], [0.3, 0.7]]),
            Poisson([1.0, 4.0]),
        ],
        ["hr", "alarm", "drops"],
    )
    model = HMM(START, MOVES, parts)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"drops": rng.poisson(2, 40) + 3, "hr": rng.normal(size=40), "alarm": rng.integers(0, 2, 40)}
    )
    frame.loc[3, "hr"] = np.nan
    found = quietly(model, frame, max_iter=5, tol=0)
    assert (np.diff(found.objective) > -1e-12).all()
    apart = [
        parts.parts[0].log_density(frame[["hr"]].to_numpy()),
        parts.parts[1].log_density(frame["alarm"].to_numpy()),
        parts.parts[2].log_density(frame["drops"].to_numpy(float)),
    ]
    first = credo.core.instance.Instance(
        "chains", sum(apart), np.array([0, 40]), {"start": np.array(START), "transition": np.array(MOVES)}
    )
    from credo.inference.exact.hidden_rows import unit_log_z

    assert found.trace["log_likelihood"][0] * 40 == pytest.approx(float(unit_log_z(first)[0]), abs=1e-9)


def test_priors_fixed_parts_restarts_and_validation_are_arguments():
    x = rows()
    prior = HMMPrior(transition=Dirichlet([[2.0, 2.0]]))
    found = quietly(
        gaussian(),
        x,
        lengths=[30, 20],
        prior=prior,
        fixed=("start",),
        restarts=3,
        validation=0.5,
        max_iter=5,
        seed=0,
    )
    assert len(found.restarts) == 3 and found.objective[-1] == found.restarts.max()
    np.testing.assert_array_equal(found.model.start, START)
    assert np.isfinite(found.trace["validation"]).all()
    random = quietly(gaussian(), x, "em(start=random)", max_iter=1, seed=0)
    assert not np.allclose(random.objective[0], quietly(gaussian(), x, max_iter=1).objective[0])


def test_batches_of_sequences_come_near_all_of_them():
    x, lengths = rows(1, [25] * 8), [25] * 8
    whole = quietly(gaussian(), x, lengths=lengths, max_iter=60)
    parts = quietly(gaussian(), x, "em(batch=2)", lengths=lengths, max_iter=60, seed=0)
    assert parts.objective[-1] == pytest.approx(whole.objective[-1], abs=2e-3)


def test_a_checkpoint_goes_on_to_the_same_bits_and_refuses_other_data(tmp_path):
    x, path = rows(), tmp_path / "run.credo"
    whole = quietly(gaussian(), x, lengths=[30, 20], restarts=2, max_iter=6, tol=0, seed=0)
    steps = []

    def stop(iteration, view):
        steps.append(iteration)
        if len(steps) in (2, 5):
            view.stop()

    import credo.optimise.driver as driver

    thin, driver._THIN = driver._THIN, 0.0
    try:
        for _ in range(3):
            found = quietly(
                gaussian(), x, lengths=[30, 20], restarts=2, max_iter=6, tol=0, seed=0,
                checkpoint=path, every=0, on_step=stop,
            )  # fmt: skip
    finally:
        driver._THIN = thin
    np.testing.assert_array_equal(found.objective, whole.objective)
    np.testing.assert_array_equal(found.model.emission.mean, whole.model.emission.mean)
    with pytest.raises(credo.core.errors.CredoError, match="data"):
        quietly(gaussian(), x[::-1], lengths=[30, 20], restarts=2, max_iter=6, tol=0, seed=0, checkpoint=path)


def test_a_fit_of_a_chain_is_saved_and_goes_on(tmp_path):
    x = rows()
    first = quietly(gaussian(), x, max_iter=3, tol=0)
    credo.save(first, tmp_path / "fit.credo")
    second = quietly(credo.load(tmp_path / "fit.credo"), x, max_iter=3, tol=0)
    whole = quietly(gaussian(), x, max_iter=6, tol=0)
    assert second.learner == "em"
    np.testing.assert_allclose(second.objective[-1], whole.objective[-1], atol=1e-12)


@pytest.mark.parametrize("name", ["chain", "segments", "batches", "validated"])
def test_a_weight_of_two_is_the_sequence_twice(name):
    x, options = rows(2, [9, 7, 8]), {"max_iter": 5, "tol": 0, "seed": 0}
    parts = [x[:9], x[9:16], x[16:]]
    model, method = gaussian(), "em"
    if name == "segments":
        model = SemiMarkov(START, [[0.0, 1.0], [1.0, 0.0]], np.full((2, 4), 0.25), gaussian().emission)
    if name == "batches":
        method = "em(batch=8)"  # all of them
    if name == "validated":
        options["validation"] = credo.data.read_sequences(parts[:2], gaussian().emission, weights=[3.0, 1.0])
    once = quietly(model, [parts[0], parts[0], parts[2]], method, **options)
    weighed = quietly(model, parts, method, weights=[2.0, 0.0, 1.0], **options)
    np.testing.assert_allclose(weighed.objective, once.objective, rtol=1e-12)
    np.testing.assert_allclose(weighed.model.emission.mean, once.model.emission.mean, rtol=1e-11)
    np.testing.assert_allclose(weighed.model.transition, once.model.transition, rtol=1e-11, atol=1e-13)
    total = credo.log_likelihood(model, parts, weights=[2.0, 0.0, 1.0]).value
    assert total == pytest.approx(credo.log_likelihood(model, [parts[0], parts[0], parts[2]]).value)
    data = credo.data.read_sequences(parts, model.emission, weights=[2.0, 0.0, 1.0])
    assert credo.infer(model, data=data).log_z.value == pytest.approx(total)
    if name == "validated":
        options["validation"] = [parts[0]] * 3 + [parts[1]]
        again = quietly(model, [parts[0], parts[0], parts[2]], **options)
        np.testing.assert_allclose(once.trace["validation"], again.trace["validation"])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: credo.fit(gaussian(), rows(), weights=[1.0, 2.0]),
            DataError,
            "weights: expected 1 numbers, one per sequence",
        ),
        (
            lambda: credo.fit(gaussian(), rows(), groups="a"),
            DataError,
            "whose columns have names",
        ),
        (
            lambda: credo.fit(gaussian(), rows(), "em(prior=bdeu(size=1))"),
            UnsupportedError,
            "no prior of a HMM; expected HMMPrior",
        ),
        (lambda: credo.fit(gaussian(), rows(), "em(hard=true)"), UnsupportedError, "hard cannot be had"),
        (lambda: credo.fit(gaussian(), rows(), "em(unseen=uniform)"), UnsupportedError, "keep or refuse"),
        (lambda: credo.fit(gaussian(), np.full((3, 2), np.nan)), DataError, "missing ones only"),
        (lambda: credo.fit(gaussian(), rows(), validation=0.5), DataError, "at least two units"),
        (lambda: credo.fit(gaussian(), rows(), "counts"), UnsupportedError, "tables of a BayesNet"),
        (
            lambda: credo.fit(credo.datasets.sprinkler(), {"rain": ["yes"]}, lengths=[1]),
            OptionError,
            "lengths: a BayesNet has rows, no sequences",
        ),
        (
            lambda: credo.fit(credo.datasets.sprinkler(), {"rain": ["yes"]}, "em(floor=1.0)"),
            UnsupportedError,
            "floor holds variances",
        ),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()
