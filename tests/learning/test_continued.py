"""Fits that are saved, loaded and continued, and checkpoints that a repeated call finds."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import credo
from credo.core.errors import ConvergenceWarning, FormatError
from credo.core.result import Status


@pytest.fixture(scope="module")
def frame():
    """Throws of one of two coins, with an index of names."""
    rng = np.random.default_rng(0)
    coin = rng.random(300) < 0.4
    throws = {name: np.where(rng.random(300) < np.where(coin, 0.8, 0.25), "h", "t") for name in "abc"}
    return pd.DataFrame(throws)


@pytest.fixture
def blank():
    return credo.BayesNet.from_edges([("coin", name) for name in "abc"], states={"coin": 2})


def fit(*args, **how):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return credo.fit(*args, **how)


def test_a_fit_from_a_file_goes_on_as_if_it_had_not_ended(blank, frame, tmp_path):
    whole = fit(blank, frame, seed=0, max_iter=25)
    first = fit(blank, frame, seed=0, max_iter=5)
    assert first.status is Status.OUT_OF_ITERATIONS
    credo.save(first, tmp_path / "run.credo")
    second = fit(credo.load(tmp_path / "run.credo"), frame, max_iter=20)
    np.testing.assert_array_equal(np.append(first.objective, second.objective[1:]), whole.objective)
    assert second.model == whole.model and second.learner == first.learner == "em"


def test_a_fit_goes_on_with_the_options_it_began_with(blank, frame):
    first = fit(blank, frame, prior="bdeu(size=10)", seed=0, max_iter=3)
    assert "bdeu(size=10" in first.learner
    second = fit(first, frame)
    assert second.learner == first.learner and second.objective[0] == pytest.approx(first.objective[-1])
    other = fit(first, frame, "vb", max_iter=2)
    assert other.learner == "vb"


def test_an_existing_checkpoint_resumes_and_a_finished_one_is_kept_and_returned(blank, frame, tmp_path):
    path = tmp_path / "run.credo"
    short = fit(blank, frame, seed=0, max_iter=5, checkpoint=path)
    assert short.status is Status.OUT_OF_ITERATIONS and len(short.objective) == 6
    more = fit(blank, frame, seed=0, checkpoint=path)
    whole = fit(blank, frame, seed=0)
    assert more.converged and more.model == whole.model
    np.testing.assert_array_equal(more.objective, whole.objective)
    kept = path.read_bytes()
    again = fit(blank, frame, seed=0, checkpoint=path)
    assert again.model == whole.model and path.read_bytes() == kept


def test_a_checkpoint_without_a_seed_resumes_with_its_own(blank, frame, tmp_path):
    path = tmp_path / "run.credo"
    short = fit(blank, frame, max_iter=3, checkpoint=path)
    more = fit(blank, frame, checkpoint=path)
    np.testing.assert_array_equal(more.objective[:4], short.objective)


def test_checkpoints_of_something_else_are_refused(blank, frame, tmp_path):
    path = tmp_path / "run.credo"
    fit(blank, frame, seed=0, max_iter=3, checkpoint=path)
    with pytest.raises(FormatError, match="belongs to another run: the data differs"):
        credo.fit(blank, frame.iloc[:200], seed=0, checkpoint=path)
    with pytest.raises(FormatError, match=r"the learner differs \(expected em\(hard=True\), got em\)"):
        credo.fit(blank, frame, "em(hard=true)", seed=0, checkpoint=path)
    other = credo.BayesNet.from_edges([("coin", name) for name in "abc"], states={"coin": 3})
    with pytest.raises(FormatError, match="the model differs"):
        credo.fit(other, frame, seed=0, checkpoint=path)
    with pytest.raises(FormatError, match="expected a model, got the checkpoint of a run; repeat the call"):
        credo.load(path)


def test_what_was_learned_tells_its_tables_by_name(blank, frame):
    model = credo.fit(blank, frame, seed=0).model
    table = model.cpt("a")
    assert table["h", "0"] == pytest.approx(1 - table["t", "0"])
    assert [v.name for v in table.variables] == ["a", "coin"]
    rows = pd.DataFrame({"kind": ["x", "y"] * 20, "age": np.arange(40.0)})
    rows["size"] = np.where(rows.kind == "x", 3.0, 5.0) + 2 * rows.age + np.tile([-1, -1, 1, 1], 10)
    net = credo.fit(credo.BayesNet.from_edges([("kind", "size"), ("age", "size")]), rows).model
    assert net.cpt("size")["y"]["constant"] == pytest.approx(5.0, abs=0.5)
    assert net.cpt("size")["x"]["age"] == pytest.approx(2.0, abs=0.05)
    assert repr(net.cpt("size")).splitlines()[:2] == ["size | kind, age", "kind  constant     age  variance"]
