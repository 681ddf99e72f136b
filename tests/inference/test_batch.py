"""Many rows of evidence in one call are the same as one call per row."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import credo
from credo import FactorGraph, datasets
from credo.core.errors import (
    ConvergenceWarning,
    EvidenceError,
    ModelError,
    QueryError,
    ZeroProbabilityError,
)
from credo.core.result import Status
from credo.inference.exact.junction_tree import JunctionTreePropagation
from credo.inference.messages.bp import BP
from credo.inference.portfolio import choose, evidence_rows

ROWS = [
    {"wet": "yes"},
    {},
    {"wet": "no", "rain": 1},
    {"wet": [0.2, 0.8]},
    {"wet": "yes", "sprinkler": None},
    {"rain": float("nan"), "cloudy": True},
    {"rain": [0.0, 3.0], "wet": "yes"},
    {"wet": "yes"},
]


def loops(seed=0):
    """A ring with chords, mixed state counts, a zero, an isolated and a one-state variable."""
    rng = np.random.default_rng(seed)
    sizes = {"a": 2, "b": 3, "c": 2, "d": 4, "one": 1, "alone": 2}
    scopes = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("b", "d", "one"), ("a",)]
    tables = {s: np.exp(0.4 * rng.standard_normal([sizes[n] for n in s])) for s in scopes}
    tables["b", "c"][0, 1] = 0.0
    return FactorGraph(sizes, tables)


def same_as_single(model, rows, method, **how):
    found = credo.infer_many(model, rows, method, **how)
    assert len(found) == len(rows)
    for r, row in enumerate(rows):
        single = credo.infer(model, method, evidence=row, **how)
        np.testing.assert_allclose(found.flat[r], single.marginals.flat, atol=1e-9)
        assert found.log_z[r] == pytest.approx(single.log_z.value, abs=1e-8)
        assert found.status[r] is single.status
        np.testing.assert_array_equal(found[r].flat, found.flat[r])
    return found


@pytest.mark.parametrize("method", ["bp", "bp(schedule=flooding,damping=0.2)", "bp(schedule=tree)"])
def test_rows_of_bp_equal_single_runs(method):
    same_as_single(datasets.sprinkler(), ROWS, method, tol=1e-11)


def test_rows_of_the_junction_tree_equal_single_runs():
    found = same_as_single(datasets.sprinkler(), ROWS, "junction-tree")
    assert set(found.status) == {Status.EXACT}


def test_an_algorithm_object_and_odd_models_are_fine_too():
    rows = [{}, {"a": 1}, {"c": 0, "d": [1, 2, 0, 1]}, {"alone": 1}, {"one": 0}, {"b": 2, "alone": [3, 1]}]
    same_as_single(loops(), rows, BP(damping=0.1), tol=1e-11)
    same_as_single(loops(), rows, "junction-tree")


def test_rows_come_back_in_their_order():
    rng = np.random.default_rng(1)
    rows = [{"b": int(rng.integers(3)), "d": int(rng.integers(4))} for _ in range(40)]
    found = credo.infer_many(loops(), rows)
    np.testing.assert_array_equal(found.marginal("b").argmax(axis=1), [row["b"] for row in rows])
    np.testing.assert_array_equal(found.marginal("d").argmax(axis=1), [row["d"] for row in rows])
    assert found.marginal("d").shape == (40, 4)


def test_a_data_frame_is_rows_with_gaps():
    frame = pd.DataFrame({"wet": ["yes", "no", None], "rain": ["no", np.nan, "yes"]})
    rows = [{"wet": "yes", "rain": "no"}, {"wet": "no"}, {"rain": "yes"}]
    for method in ("bp", "junction-tree"):
        found = credo.infer_many(datasets.sprinkler(), frame, method)
        wanted = credo.infer_many(datasets.sprinkler(), rows, method)
        np.testing.assert_array_equal(found.flat, wanted.flat)
        np.testing.assert_array_equal(found.log_z, wanted.log_z)


@pytest.mark.parametrize("algorithm", [BP, JunctionTreePropagation])
def test_equal_rows_are_answered_once(monkeypatch, algorithm):
    given, run_tables = [], algorithm.run_tables

    def spy(self, instances, budget):
        given.append(len(instances))
        return run_tables(self, instances, budget)

    monkeypatch.setattr(algorithm, "run_tables", spy)
    rows = [{"wet": "yes"}, {"wet": 1}, {}, {"wet": True}, {"rain": None}]
    found = credo.infer_many(datasets.sprinkler(), rows, algorithm())
    assert given == [2]
    np.testing.assert_array_equal(found.flat[0], found.flat[3])
    np.testing.assert_array_equal(found.flat[2], found.flat[4])


def test_equal_rows_of_other_methods_are_asked_once(monkeypatch):
    asked, original = [], evidence_rows.infer
    monkeypatch.setattr(
        evidence_rows, "infer", lambda *a, **k: (asked.append(k["evidence"]), original(*a, **k))[1]
    )
    credo.infer_many(datasets.sprinkler(), [{"wet": "yes"}, {"wet": 1}, {}], "enumerate")
    assert len(asked) == 2


def test_by_default_rows_are_exact_where_that_is_small():
    found = same_as_single(loops(), [{}, {"a": 1}, {"c": 0, "d": [1, 2, 0, 1]}, {"alone": 1}], None)
    assert set(found.status) == {Status.EXACT}


@pytest.mark.filterwarnings("ignore::credo.core.errors.ConvergenceWarning")
def test_by_default_rows_of_a_wide_model_take_belief_propagation_or_what_evidence_allows(monkeypatch):
    grid = datasets.ising_grid(12, coupling=0.1, seed=0)
    monkeypatch.setattr(JunctionTreePropagation, "takes_tables", lambda self, instances: False)
    held = [{v.name: 0 for k, v in enumerate(grid.variables) if k % 2}, {}]
    found = credo.infer_many(grid, held[:1])
    assert found.status == (Status.EXACT,)
    monkeypatch.setattr(choose, "_MINUTE", 3.0)
    assert credo.infer_many(grid, held[1:]).status == (Status.CONVERGED,)


def test_no_rows_are_no_answers():
    for method in ("bp", "junction-tree", None):
        found = credo.infer_many(datasets.sprinkler(), [], method)
        assert len(found) == 0
        assert found.status == ()
        assert found.marginal("rain").shape == (0, 2)
        assert found.log_z.shape == (0,)


def test_a_model_without_variables_has_a_value():
    found = credo.infer_many(FactorGraph({}, {(): 3.0}), [{}, {}])
    np.testing.assert_allclose(found.log_z, np.log(3))


@pytest.mark.parametrize("method", ["bp", "junction-tree"])
def test_a_contradictory_row_is_named(method):
    rows = [{"wet": "yes"}, {"wet": "yes"}, {"sprinkler": "no", "rain": "no", "wet": "yes"}]
    with pytest.raises(
        ZeroProbabilityError, match=r"row 2\b.*has probability zero|has probability zero.*row 2\b"
    ):
        credo.infer_many(datasets.sprinkler(), rows, method)


@pytest.mark.parametrize("table", [{"a": [0, 1]}, {"a": [0, 1], ("a", "b"): [[1, 2], [3, 4]]}])
def test_a_row_that_a_unary_factor_excludes_is_an_error_not_nan(table):
    graph = FactorGraph({"a": 2, "b": 2}, table)
    with pytest.raises(ZeroProbabilityError, match="probability zero under this model"):
        credo.infer_many(graph, [{"a": 0}])


def test_a_wrong_row_is_named():
    with pytest.raises(
        EvidenceError, match=r"row 1: evidence: no variable named 'wett'; did you mean 'wet'\?"
    ):
        credo.infer_many(datasets.sprinkler(), [{"wet": "yes"}, {"wett": "yes"}])
    with pytest.raises(EvidenceError, match="row 0: variable 'wet' has no state 'maybe'"):
        credo.infer_many(datasets.sprinkler(), [{"wet": "maybe"}])


@pytest.mark.parametrize("evidence", [{"wet": "yes"}, 3, None])
def test_one_row_or_nonsense_is_refused(evidence):
    with pytest.raises(QueryError, match="expected a list of evidence mappings or a data frame; for one row"):
        credo.infer_many(datasets.sprinkler(), evidence)


def test_rows_that_did_not_converge_say_so():
    with pytest.warns(ConvergenceWarning, match="bp: 1 of 2 distinct rows: max_iter was reached"):
        found = credo.infer_many(loops(), [{}, {"a": 0, "b": 1, "c": 0, "d": 1}], "bp", max_iter=3)
    assert found.status == (Status.OUT_OF_ITERATIONS, Status.CONVERGED)
    assert repr(found) == "EvidenceBatch(2 rows, 6 variables, 1 rows converged)"
    with pytest.warns(ConvergenceWarning):
        nothing = credo.infer_many(loops(), [{}], "bp", max_iter=0)
    assert nothing.status == (Status.OUT_OF_ITERATIONS,)
    np.testing.assert_allclose(nothing.marginal("d"), 0.25)


def test_a_row_of_any_other_method_warns_when_it_stops_early():
    with pytest.warns(ConvergenceWarning, match="mean-field: max_iter was reached"):
        found = credo.infer_many(loops(), [{"b": 1}], "mean-field", max_iter=1, tol=0)
    assert found.status == (Status.OUT_OF_ITERATIONS,)


def test_rows_that_do_not_converge_give_one_warning():
    model = datasets.ising_grid(4, coupling=3.0, field=0.1, seed=0)
    with pytest.warns(ConvergenceWarning, match=r"bp: 2 of 2 distinct rows: max_iter was reached"):
        batch = credo.infer_many(model, [{}, {"x0": 0}], "bp", max_iter=1)
    assert not any(status.is_success for status in batch.status)


def test_what_is_no_model_is_refused():
    with pytest.raises(ModelError, match=r"expected a model .* got int"):
        credo.infer_many(3, [{}])


def test_a_warm_start_must_be_a_result():
    with pytest.raises(QueryError, match="expected the Result of an earlier run, got 3"):
        credo.infer(datasets.sprinkler(), "bp", warm_start=3)


def test_options_that_the_kernel_lacks_go_row_by_row():
    grid = credo.datasets.ising_grid(4, coupling=1.0, field=0.0)
    for seed in range(3):
        for method in ("bp(random_start=True)", "bp(schedule=random)", "bp(schedule=residual)"):
            one = credo.infer(grid, method, seed=seed).marginals
            many = credo.infer_many(grid, [{}], method, seed=seed)[0]
            np.testing.assert_allclose(many["x0"], one["x0"], atol=1e-9)


def test_without_a_method_the_rule_of_infer_chooses():
    model = credo.datasets.sprinkler()
    found = credo.infer_many(model, [{"wet": "yes"}, {}], None)
    np.testing.assert_allclose(
        found[0]["rain"], credo.infer(model, evidence={"wet": "yes"}).marginals["rain"]
    )


def test_slices_are_batches():
    model = credo.datasets.sprinkler()
    found = credo.infer_many(model, [{}, {"wet": "yes"}, {}], "junction-tree")
    part = found[1:]
    assert len(part) == 2 and len(part.status) == 2
    np.testing.assert_array_equal(part.marginal("rain"), found.marginal("rain")[1:])


def test_rows_of_moderate_and_of_wide_range_are_answered_together():
    rng = np.random.default_rng(3)
    pairs = np.array([[0, 1], [1, 2], [2, 3], [3, 0], [1, 3]])
    nodes = (np.arange(4)[:, None], np.zeros((4, 3)))
    graph = FactorGraph.from_arrays(np.full(4, 3), (pairs, rng.normal(size=(5, 3, 3))), nodes, log=True)
    scale = np.array([0.3, 200.0, 0.0, 1.0])
    tables = graph.log_tables + scale[:, None] * rng.normal(size=(4, len(graph.log_tables)))
    tables[3, 0] = -np.inf  # a zero
    found = credo.infer_batch(graph, tables, "bp", max_iter=2000)
    for row, own in enumerate(tables):
        single = credo.infer(graph.with_states(graph.variables, own, graph.table_start), "bp", max_iter=2000)
        assert found.values[row] == pytest.approx(single.log_z.value, rel=1e-7)
        np.testing.assert_allclose(found.factor_marginals[row], single.factor_marginals.flat, atol=1e-6)
