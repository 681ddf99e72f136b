"""Generalised EM by mini-batches on streams: the same as in memory, cut within a pass, refusals."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pytest

import credo
from credo.core.errors import ConvergenceWarning, DataError, TooLargeError, UnsupportedError
from credo.data import stream
from credo.families import DiagonalGaussian, Flow, Mixture
from credo.families.trees import map_tree
from credo.learning import gradient_passes
from credo.optimise import driver, pace

BIJECTION = "actnorm + coupling(layers=2, width=4)"
LEARNER = "gradient-em(batch=64, refresh=2, rate=0.01)"


def lively(members, base=None):
    flow = Flow.started(BIJECTION, 2, members, base, precision="double")
    rng = np.random.default_rng(0)
    return flow.from_free(map_tree(lambda a: a + 0.2 * rng.normal(size=a.shape), flow.to_free()))


def latent():
    base = Mixture([[0.5, 0.5]], DiagonalGaussian([[1.0, 0.0], [-1.0, 0.0]], np.ones((2, 2))))
    return lively(1, base)


def chain():
    moves = [[0.8, 0.2], [0.0, 1.0]]
    return credo.HMM([1.0, 0.0], moves, Mixture([[0.3, 0.7], [0.5, 0.5]], lively(4)))


def rows(count=160):
    rng = np.random.default_rng(1)
    kind = np.arange(count) // 8 % 2
    x = np.where(kind[:, None] == 1, [2.0, 1.0], [-2.0, 0.0]) + rng.normal(size=(count, 2)) * [1.0, 0.3]
    return {"x": x[:, 0], "y": x[:, 1]}


def tables(columns, cuts):
    edges = [0, *cuts, len(columns["x"])]
    return [{name: values[a:b] for name, values in columns.items()} for a, b in pairwise(edges)]


def quietly(*arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return credo.fit(*arguments, **{"max_iter": 2, "seed": 0, "tol": 0.0, **options})


def test_one_batch_of_a_stream_is_the_data_in_memory_to_the_last_bit():
    whole = quietly(latent(), rows(), LEARNER)
    found = quietly(latent(), stream([rows()], batch_rows=200), LEARNER)
    np.testing.assert_array_equal(found.objective, whole.objective)
    np.testing.assert_array_equal(found.trace["bound"], whole.trace["bound"])
    np.testing.assert_array_equal(found.model.base.weights, whole.model.base.weights)


@pytest.mark.parametrize("groups", [None, "who"])
def test_what_is_counted_and_told_does_not_depend_on_batches(groups):
    columns = rows() | ({"who": np.repeat(np.arange(10), 16)} if groups else {})
    start = chain() if groups else latent()
    still = "gradient-em(batch=64, refresh=1, rate=0)"
    whole = quietly(start, columns, still, groups=groups)
    found = quietly(start, stream(tables(columns, [48, 64]), batch_rows=32, groups=groups), still)
    for name in ("objective", "bound", "log_likelihood", "components"):
        np.testing.assert_allclose(found.trace[name], whole.trace[name], rtol=1e-12)
    assert found.objective[-1] > found.objective[0]
    if groups:
        np.testing.assert_allclose(found.model.transition, whole.model.transition, atol=1e-12)
        assert found.model.transition[1, 0] == 0.0


def test_a_stream_is_learned_from_with_the_posteriors_of_the_old_model():
    found = quietly(latent(), stream(tables(rows(), [100]), batch_rows=64, shuffle=True), LEARNER, max_iter=4)
    assert found.objective[-1] > found.objective[0] + 0.2
    assert (found.trace["bound"] <= 160 * found.trace["log_likelihood"] + 1e-9).all()
    guarded = LEARNER.replace("rate=0.01", "rate=1.0, guard=true")
    sure = quietly(latent(), stream(tables(rows(), [100]), batch_rows=64), guarded, max_iter=4)
    assert (np.diff(sure.objective) >= -1e-12).all()


def test_a_run_that_is_cut_within_a_pass_ends_as_one_that_was_not(tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "_THIN", 0.0)
    monkeypatch.setattr(pace, "_LONG", 0.0)
    places = set()

    def stop(iteration, view):
        state = view.outcome.state
        places.add((state.survey is None, state.place))
        view.stop()

    def ask(**kept):
        data = stream(tables(rows(), [100]), batch_rows=64, shuffle=True, seed=1)
        return quietly(latent(), data, LEARNER, max_iter=2, **kept)

    whole, path = ask(), tmp_path / "run.credo"
    for _ in range(9):
        ask(checkpoint=path, every=0.0, on_step=stop)
    found = ask(checkpoint=path)
    assert {is_moving for is_moving, _ in places} == {True, False}
    assert len({place for _, place in places}) > 3
    np.testing.assert_array_equal(found.objective, whole.objective)
    np.testing.assert_array_equal(found.model.parameters[0]["centre"], whole.model.parameters[0]["centre"])
    with pytest.raises(credo.core.errors.FormatError, match="belongs to another run: the model differs"):
        quietly(lively(1), stream(tables(rows(), [100]), batch_rows=64), LEARNER, checkpoint=path)


def test_a_column_may_be_constant_in_a_batch_but_not_in_all():
    columns = rows(32)
    columns["y"] = np.repeat([0.0, 1.0], 16)
    data = stream(tables(columns, [16]), batch_rows=16)
    assert np.isfinite(quietly(latent(), data, LEARNER, max_iter=1).objective).all()
    columns["y"] = np.zeros(32)
    with pytest.raises(DataError, match="column 1 has the same number in all rows"):
        quietly(latent(), stream(tables(columns, [16]), batch_rows=16), LEARNER)
    gone = {"x": np.full(4, np.nan), "y": np.full(4, np.nan)}
    with pytest.raises(DataError, match="at least one observed row, got missing ones only"):
        quietly(latent(), stream([gone]), LEARNER)


def test_what_cannot_be_is_refused(monkeypatch):
    with pytest.raises(UnsupportedError, match="batch=none sees all rows at once, and a stream has batches"):
        quietly(latent(), stream([rows()]), "gradient-em(batch=none)")
    with pytest.raises(UnsupportedError, match=r"a stream cannot be had where leaves .* use gradient-em"):
        quietly(latent(), stream([rows()]), "em")
    monkeypatch.setattr(gradient_passes, "machine_gigabytes", lambda: 1e-5)
    with pytest.raises(
        TooLargeError, match=r"posteriors of 160 rows .* half of the machine's memory is 5e-06"
    ):
        quietly(latent(), rows(), LEARNER)
    with pytest.raises(TooLargeError, match="posteriors of 160 rows"):
        quietly(latent(), rows(), "em")
    with pytest.raises(TooLargeError, match=r"give the rows as credo\.data\.stream in smaller batches"):
        quietly(latent(), stream([rows()], batch_rows=200), LEARNER)


def test_without_a_name_a_stream_or_rows_in_steps_get_the_learner_that_can():
    found = quietly(latent(), stream([rows()], batch_rows=200), None, max_iter=0)
    assert found.notes[0].startswith("gradient-em was chosen: its leaves have no closed form")
    steps = {name: np.round(values) for name, values in rows().items()}
    blank = credo.Flow.blank(BIJECTION, noise="uniform")
    assert quietly(blank, steps, None, max_iter=0).notes[0].startswith("gradient-em was chosen")
