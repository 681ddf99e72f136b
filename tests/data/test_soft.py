"""Soft evidence per cell: it means an observed child, and is refused where nothing reads it."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

import credo
from credo.core.errors import ConvergenceWarning, CredoError, DataError, UnsupportedError
from credo.data.table import StateTable
from credo.learning import log_likelihood

N = 40
RNG = np.random.default_rng(0)
ROWS = {"a": RNG.integers(0, 2, N), "c": RNG.integers(0, 2, N)}
SOFT = RNG.choice([0.1, 0.4, 1.0], (N, 3))


def net() -> credo.BayesNet:
    return credo.BayesNet.random({"a": 2, "b": 3, "c": 2}, {"b": ["a"], "c": ["b"]}, seed=1)


def with_child() -> tuple[credo.BayesNet, dict[str, np.ndarray], float]:
    """The network with an observed child of b, its rows, and what soft evidence adds to the log-likelihood.

    A table has rows that sum to one: the weights are scaled, and one more state, never seen, takes the rest.
    """
    distinct, which = np.unique(SOFT, axis=0, return_inverse=True)
    scale = distinct.sum(axis=0).max()
    table = np.vstack([distinct / scale, 1 - distinct.sum(axis=0) / scale]).T
    start = net()
    wider = credo.BayesNet(
        {"a": 2, "b": 3, "c": 2, "seen": table.shape[1]},
        {"b": ["a"], "c": ["b"], "seen": ["b"]},
        {**start.tables, "seen": table},
    )
    return wider, {**ROWS, "seen": which.ravel()}, N * np.log(scale)


@pytest.mark.parametrize("options", ["em", "em(hard=true)", "em(batch=7)"])
def test_em_with_soft_cells_is_em_with_an_observed_child_for_each(options):
    data = credo.data.read(ROWS, schema=net().variables, soft={"b": SOFT})
    wider, rows, more = with_child()
    limits = {"max_iter": 5, "tol": 0.0, "seed": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = credo.fit(net(), data, options, **limits)
        known = credo.fit(wider, rows, options, fixed=["seen"], **limits)
    for name in "abc":
        np.testing.assert_allclose(found.model.tables[name], known.model.tables[name], atol=1e-12)
    np.testing.assert_allclose(found.objective, known.objective + more / N, atol=1e-10)


@pytest.mark.parametrize("inference", [None, "enumerate"])
def test_vb_with_soft_cells_is_vb_with_an_observed_child_of_known_table(inference):
    data = credo.data.read(ROWS, schema=net().variables, soft={"b": SOFT})
    wider, rows, more = with_child()
    limits = {"max_iter": 5, "tol": 0.0, "seed": 0, "inference": inference}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = credo.fit(net(), data, "vb(start=given)", **limits)
        known = credo.fit(wider, rows, "vb(start=given)", fixed=["seen"], **limits)
    for name in "abc":
        np.testing.assert_allclose(found.model.tables[name], known.model.tables[name], atol=1e-12)
    assert found.evidence.value == pytest.approx(known.evidence.value + more, abs=1e-9)
    assert found.evidence.kind == "lower"


@pytest.mark.parametrize("inference", [None, "junction-tree", "enumerate"])
def test_the_log_likelihood_sums_the_weighted_states(inference):
    model = net()
    data = credo.data.read(ROWS, schema=model.variables, soft={"b": SOFT})
    a, b, c = (model.tables[name] for name in "abc")
    rows = np.einsum("r,rb,br,rb->r", a[ROWS["a"]], b[ROWS["a"]], c[:, ROWS["c"]], SOFT)
    found = log_likelihood(model, data, inference)
    assert found.kind == "exact" and found.value == pytest.approx(np.log(rows).sum())


def test_vectors_in_cells_are_soft_evidence():
    rows = [{"a": 0, "b": [0.1, 0.4, 1.0]}, {"a": 1, "b": 2}, {"a": (1.0, 0.5)}]
    data = credo.data.read(rows, schema=net().variables)
    assert data.column("b").values.tolist() == [-1, 2, -1]
    assert data.column("b").soft.tolist() == [[0.1, 0.4, 1.0], [1, 1, 1], [1, 1, 1]]
    assert data.column("b").missing.tolist() == [False, False, True]
    assert data.column("a").soft.tolist() == [[1, 1], [1, 1], [1, 0.5]]
    whole = credo.data.read({"b": SOFT}, schema={"b": 3})
    assert (
        whole.fingerprint()
        == credo.data.read({"b": [None] * N}, schema={"b": 3}, soft={"b": SOFT}).fingerprint()
    )


def test_weights_that_say_which_state_it_was_are_evidence():
    model = net()
    hard = credo.data.read({**ROWS, "b": SOFT.argmax(axis=1)}, schema=model.variables)
    sure = credo.data.read(ROWS, schema=model.variables, soft={"b": np.eye(3)[SOFT.argmax(axis=1)]})
    assert log_likelihood(model, sure).value == pytest.approx(log_likelihood(model, hard).value)


def test_soft_cells_travel_with_their_rows():
    data = StateTable.of(
        net().variables, credo.data.read(ROWS, schema=net().variables, soft={"b": SOFT}), soft=True
    )
    part = data.take(np.array([5, 1, 5]))
    weights = part.soft.weights[0][part.soft.cells[part.row_of, 0]]
    assert weights.tolist() == SOFT[[5, 1, 5]].tolist()


@pytest.mark.parametrize(
    ("soft", "message"),
    [
        ({"q": SOFT}, "soft: no variable named 'q'"),
        ({"b": SOFT[:, :2]}, "soft: 'b': expected weights of shape (rows, 3)"),
        ({"b": SOFT[:-1]}, "column 'b' has 39 rows, the first one 40"),
        ({"a": SOFT[:-1, :2]}, "soft: 'a' has 39 rows, the data 40"),
        ({"b": SOFT - 0.5}, "row 0: expected finite weights from 0, not all of them 0"),
        ({"b": np.zeros((N, 3))}, "soft: 'b', row 0: expected finite weights from 0, not all of them 0"),
    ],
)
def test_refusals_of_soft_evidence(soft, message):
    with pytest.raises(DataError, match=re.escape(message)):
        credo.data.read(ROWS, schema=net().variables, soft=soft)


def test_what_reads_no_soft_evidence_says_so():
    data = credo.data.read(ROWS, schema=net().variables, soft={"b": SOFT})
    for learner in ("counts", "likelihood", "ipf"):
        with pytest.raises(
            UnsupportedError, match=f"{learner} cannot treat this task: .*soft evidence; use em"
        ):
            credo.fit(net(), data, learner)
    with pytest.raises(DataError, match="'b' has soft evidence, which only em, vb and log_likelihood"):
        credo.learning.mutual_information(data)
    with pytest.raises(DataError, match="'b' has soft evidence, which only em"):
        data.rows()
    with pytest.raises(DataError, match=r"soft evidence needs the states it weighs: schema=\{'b'"):
        credo.data.read({"b": [0, [0.5, 0.5]]})
    with pytest.raises(CredoError, match="soft: 'x' has no states"):
        credo.data.read({"x": [1.5]}, schema={"x": credo.Real()}, soft={"x": [[1.0]]})


def test_soft_evidence_of_sequences_is_refused_until_families_read_it():
    hmm = credo.HMM(
        [0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], credo.families.Categorical([[0.9, 0.1], [0.2, 0.8]])
    )
    rows = {"x": [0, 1, [0.5, 1.0]]}
    with pytest.raises(DataError, match="'x' has soft evidence, which only em, vb and log_likelihood of"):
        credo.fit(hmm, rows)


def test_soft_evidence_of_sequences_is_cut_and_ordered_with_them():
    frame = {"who": ["b", "a", "b"], "x": [0, None, None]}
    weights = np.array([[1, 1], [0.5, 1], [1, 0.25]])
    data = credo.data.read(frame, schema={"x": 2}, columns=["x"], groups="who", soft={"x": weights})
    assert data.column("x").soft.tolist() == weights[[0, 2, 1]].tolist() and data.lengths.tolist() == [2, 1]
    parts = credo.data.read(
        [[[0], [None]], [[None]]], schema={"x": 2}, soft={"x": [weights[:2], weights[2:]]}
    )
    assert parts.column("x").soft.tolist() == weights.tolist()


def test_rows_that_are_held_back_may_have_soft_cells():
    data = credo.data.read(ROWS, schema=net().variables, soft={"b": SOFT})
    found = credo.fit(net(), ROWS, "em", validation=data, seed=0)
    value = log_likelihood(found.model, data).value / N
    assert found.trace["validation"][-1] == pytest.approx(value)
    shared = credo.fit(net(), data, "em", validation=0.25, seed=0)
    assert np.isfinite(shared.trace["validation"]).all()
    with pytest.raises(UnsupportedError, match="counts cannot treat this task: some cells are soft evidence"):
        credo.fit(net(), {**ROWS, "b": [0] * N}, "counts", validation=data)


def test_soft_evidence_counts_for_models_of_weights_too():
    model = credo.MarkovNet({"a": 2, "b": 2}, {("a", "b"): [[3, 1], [1, 2]]})
    rows = {"a": [0, 0, 1, 1, [0.3, 0.9]], "b": [0, 1, 1, [1.0, 0.5], 0]}
    found = credo.fit(model, rows, "em", seed=0, tol=1e-4)
    assert found.log_likelihood.value == pytest.approx(log_likelihood(found.model, rows).value, abs=1e-6)
    assert found.log_likelihood.value >= log_likelihood(model, rows).value
