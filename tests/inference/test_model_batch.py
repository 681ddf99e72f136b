from __future__ import annotations

import warnings

import numpy as np
import pytest

import credo
from credo.core.errors import ConvergenceWarning, QueryError, UnsupportedError
from credo.core.result import Result, Status
from credo.inference.portfolio.model_batch import ModelBatch


def grids(count=3):
    return [credo.datasets.ising_grid(3, seed=s) for s in range(count)]


def test_models_are_asked_one_by_one_where_nothing_faster_exists():
    batch = credo.infer_models(grids(), "junction-tree")
    for k, grid in enumerate(grids()):
        alone = credo.infer(grid, "junction-tree")
        assert batch.log_z[k] == alone.log_z.value
        np.testing.assert_array_equal(batch[k].marginals.flat, alone.marginals.flat)
    assert batch.compile_seconds == 0
    assert len(batch[:2]) == 2
    assert repr(batch).startswith("ModelBatch(3 models, 3 converged")


@pytest.mark.slow
def test_structures_may_be_mixed_and_keep_their_order():
    models = [credo.datasets.ising_grid(3, seed=0), credo.datasets.complete_ising(4, seed=0), *grids(2)[1:]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        batch = credo.infer_models(models, "renn(width=8)", seed=0, max_iter=5)
    assert [len(r.marginals) for r in batch] == [9, 4, 9]
    with pytest.raises(QueryError, match="marginals: the models differ in size; read them one by one"):
        _ = batch.marginals


def test_evidence_is_one_for_all_or_one_per_model():
    same = credo.infer_models(grids(), "junction-tree", evidence={"x0": 1})
    listed = credo.infer_models(grids(), "junction-tree", evidence=[{"x0": 1}, None, {"x1": 0}])
    assert [r.marginals["x0"][1] for r in same] == [1, 1, 1]
    assert listed[0].log_z == same[0].log_z
    assert listed[1].log_z == credo.infer(grids()[1], "junction-tree").log_z
    with pytest.raises(
        QueryError, match="evidence: expected one for all models or one for each of the 3, got 2"
    ):
        credo.infer_models(grids(), "junction-tree", evidence=[{}, {}])
    with pytest.raises(
        QueryError, match="warm_start: expected one for all models or one for each of the 3, got no list"
    ):
        credo.infer_models(grids(), "junction-tree", warm_start=7)


def test_a_warm_start_is_one_for_all_or_one_per_model():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        early = credo.infer(grids()[0], "renn(width=8, stop=1e-12)", seed=0, max_iter=100)
        cold = credo.infer_models(grids(), "renn(width=8)", seed=0, max_iter=5)
        warm = credo.infer_models(grids(), "renn(width=8)", seed=0, warm_start=early, max_iter=5)
        each = credo.infer_models(grids(), "renn(width=8)", seed=0, warm_start=[early] * 3, max_iter=5)
    assert warm[0].trace["objective"][0] < cold[0].trace["objective"][0] - 0.1
    np.testing.assert_allclose(warm.marginals, each.marginals, rtol=1e-12)


def test_refusals_are_sentences():
    with pytest.raises(QueryError, match="warm_start: expected results that keep a state"):
        credo.infer_models(grids(), "renn", warm_start=credo.infer(grids()[0], "junction-tree"))
    with pytest.raises(QueryError, match="a run computed no factor marginals"):
        _ = ModelBatch((Result("bp", Status.CONVERGED),), 0.0, 0.0).factor_marginals
    early = credo.infer(credo.datasets.ising_grid(3, coupling=0.1, seed=0), "bp")
    with pytest.raises(UnsupportedError, match="cannot start from an earlier result"):
        credo.infer_models(grids(), "junction-tree", warm_start=early)
