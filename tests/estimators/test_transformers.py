"""Estimators that give new columns: names, frames, pipelines, checkpoints."""

from __future__ import annotations

import pickle
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from credo.core.errors import ConvergenceWarning, DataError, MissingExtraError, OptionError, QueryError
from credo.estimators import BetheLDA

RNG = np.random.default_rng(0)
COUNTS = np.r_[RNG.poisson([5, 5, 0.1, 0.1], (20, 4)), RNG.poisson([0.1, 0.1, 5, 5], (20, 4))]


def learned(X=COUNTS, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return BetheLDA(2, random_state=0, max_iter=5).fit(X, **options)


def test_new_columns_come_in_the_form_that_was_asked_for():
    frame = pd.DataFrame(COUNTS, columns=list("abcd"), index=range(5, 45))
    found = learned(frame)
    plain = found.transform(frame)
    assert isinstance(plain, np.ndarray) and found.get_feature_names_out().tolist() == [
        "bethelda0",
        "bethelda1",
    ]
    table = found.set_output(transform="pandas").transform(frame)
    assert list(table.columns) == ["bethelda0", "bethelda1"] and table.index[0] == 5
    np.testing.assert_array_equal(table.to_numpy(), plain)
    again = pickle.loads(pickle.dumps(found))
    assert isinstance(again.transform(frame), pd.DataFrame)
    assert isinstance(found.set_output(transform="default").transform(frame), np.ndarray)


def test_scikit_learn_says_what_all_transformers_give():
    config = pytest.importorskip("sklearn").config_context
    pipeline = pytest.importorskip("sklearn.pipeline")
    found = learned()
    with config(transform_output="pandas"):
        assert isinstance(found.transform(COUNTS), pd.DataFrame)
    pipe = pipeline.make_pipeline(BetheLDA(2, random_state=0, max_iter=5, tol=0)).set_output(
        transform="pandas"
    )
    assert list(pipe.fit_transform(COUNTS).columns) == ["bethelda0", "bethelda1"]
    copy = pytest.importorskip("sklearn.base").clone(found)
    assert copy.get_params() == found.get_params()


def test_a_frame_of_a_package_that_is_absent_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    found = learned().set_output(transform="polars")
    with pytest.raises(MissingExtraError, match="expected polars to be installed"):
        found.transform(COUNTS)
    with pytest.raises(OptionError, match="transform must be one of"):
        found.set_output(transform="list")
    with pytest.raises(QueryError, match="this BetheLDA is not fitted yet"):
        BetheLDA().get_feature_names_out()


def test_sparse_counts_are_read_and_a_run_goes_on(tmp_path):
    whole = learned()
    np.testing.assert_allclose(learned(csr_array(COUNTS)).components_, whole.components_)
    file = tmp_path / "topics.credo"
    learned(checkpoint=file)
    np.testing.assert_array_equal(learned(checkpoint=file).components_, whole.components_)
    with pytest.raises(DataError, match="Negative values in data"):
        learned(csr_array(-COUNTS))
