"""Tables from complete data: closed forms, priors, tied tables, unseen rows, refusals."""

from __future__ import annotations

import re

import numpy as np
import pytest

import credo
from credo import BayesNet
from credo.core.errors import CredoError
from credo.core.result import Status
from credo.data.table import StateTable
from credo.learning import fit
from credo.learning.hidden_parts import observed_counts
from credo.models.table_priors import BDeu, PerTable, Towards, UniformTablePrior, table_prior_of

STATES = {"a": 2, "b": 3, "c": 2, "d": 2}
PARENTS = {"b": ["a"], "c": ["a", "b"], "d": ["c"]}


def net(seed=0):
    return BayesNet.random(STATES, PARENTS, seed=seed)


def by_hand(model, rows, pseudo=0.0, weights=None):
    """Counts of every table by plain loops."""
    names = list(model.variables.names)
    weights = np.ones(len(rows)) if weights is None else weights
    found = {}
    for name in names:
        axes = [names.index(p) for p in (*model.parents[name], name)]
        counts = np.full(model.tables[name].shape, float(pseudo))
        for row, weight in zip(rows, weights, strict=True):
            counts[tuple(row[i] for i in axes)] += weight
        found[name] = counts
    return found


@pytest.mark.parametrize("pseudo", [0.0, 1.0, 0.25])
def test_the_estimate_is_the_ratio_of_counts(pseudo):
    rows = credo.sample(net(1), 300, seed=0).indices
    found = fit(net(), rows, f"counts(prior=uniform(count={pseudo}))")
    assert found.status is Status.EXACT and found.log_likelihood.kind == "exact"
    for name, counts in by_hand(net(), rows, pseudo).items():
        assert found.model.tables[name] == pytest.approx(counts / counts.sum(-1, keepdims=True), abs=1e-14)
    assert found.log_likelihood.value == pytest.approx(found.model.log_probs(rows).sum())


def test_weights_count_as_repeats():
    rows = credo.sample(net(1), 40, seed=0).indices
    weights = np.arange(40) % 4
    once = fit(net(), np.repeat(rows, weights, axis=0), "counts(prior=bdeu)")
    assert fit(net(), rows, "counts(prior=bdeu)", weights=weights).model == once.model


def test_no_other_tables_are_more_likely():
    rows = credo.sample(net(1), 200, seed=0).indices
    best = fit(net(), rows, "counts").log_likelihood.value
    for seed in range(5):
        other = net(seed).log_probs(rows).sum()
        assert other < best


def test_priors_give_the_pseudo_counts_they_promise():
    model = net()
    graph = model.to_factor_graph()
    assert (UniformTablePrior(count=2).pseudo_counts(model) == 2).all()
    spread = BDeu(size=6).pseudo_counts(model)
    assert np.add.reduceat(spread, graph.table_start) == pytest.approx(np.full(4, 6.0))
    assert spread[graph.table_start[2]] == 6 / 12
    assert Towards(size=3).pseudo_counts(model) == pytest.approx(3 * model.flat_tables)
    assert not table_prior_of(None).pseudo_counts(model).any()
    given = {"a": [1, 3], "d": 0.5}
    by_table = PerTable(given).pseudo_counts(model)
    assert by_table[:2].tolist() == [1, 3] and by_table[2:-4].sum() == 0 and (by_table[-4:] == 0.5).all()
    rows = credo.sample(net(1), 50, seed=0).indices
    counts = by_hand(model, rows)["a"] + [1, 3]
    assert fit(model, rows, credo.learning.CountTables(prior=given)).model.tables["a"] == pytest.approx(
        counts / counts.sum()
    )


def test_towards_shrinks_to_the_start():
    rows = credo.sample(net(1), 50, seed=0).indices
    found = fit(net(), rows, "counts(prior=towards(size=1e9))")
    assert found.model.flat_tables == pytest.approx(net().flat_tables, abs=1e-6)


def test_unseen_rows_are_kept_made_uniform_or_refused():
    rows = credo.sample(net(1), 100, seed=0).indices.copy()
    rows[:, 0] = 0
    kept = fit(net(), rows, "counts").model
    assert kept.tables["b"][1] == pytest.approx(net().tables["b"][1])
    assert kept.tables["a"].tolist() == [1, 0], "a state never seen has probability zero without a prior"
    uniform = fit(net(), rows, "counts(unseen=uniform)").model
    assert uniform.tables["b"][1] == pytest.approx(np.full(3, 1 / 3))
    message = "table of 'b': no row of the data with a=1 tells its probabilities (0/0)"
    with pytest.raises(CredoError, match=re.escape(message)):
        fit(net(), rows, "counts(unseen=refuse)")
    assert fit(net(), rows, "counts(unseen=refuse,prior=bdeu)").model.tables["a"][1] > 0


def test_tied_tables_pool_their_counts_and_are_one():
    states, parents = dict.fromkeys("wxyz", 2), {"x": ["w"], "y": ["x"], "z": ["y"]}
    model = BayesNet.random(states, parents, seed=0)
    rows = credo.sample(BayesNet.random(states, parents, seed=1), 100, seed=0).indices
    found = fit(model, rows, "counts(tie=[['x','y','z']],prior=uniform(count=2))").model
    counts = by_hand(model, rows)
    pooled = counts["x"] + counts["y"] + counts["z"] + 2
    for name in "xyz":
        assert found.tables[name] == pytest.approx(pooled / pooled.sum(-1, keepdims=True))


def test_fixed_tables_stay():
    rows = credo.sample(net(1), 100, seed=0).indices
    found = fit(net(), rows, "counts(fixed=['b','d'])").model
    free = fit(net(), rows, "counts").model
    assert found.tables["b"] == pytest.approx(net().tables["b"]) and found.tables["c"] == pytest.approx(
        free.tables["c"]
    )


def test_compiled_counts_equal_those_of_the_observations():
    rows = credo.sample(net(1), 500, seed=0).indices.copy()
    rows[np.random.default_rng(0).random(rows.shape) < 0.3] = -1
    data = StateTable.from_states(net().variables, rows[(rows >= 0).any(axis=1)])
    graph = net().to_factor_graph()
    assert observed_counts(graph, data.states, data.counts) == pytest.approx(data.table_counts(graph))


def test_validation_is_recorded():
    rows, held = credo.sample(net(1), 100, seed=0), credo.sample(net(1), 50, seed=1)
    found = fit(net(), rows, "counts(prior=bdeu)", validation=held)
    assert found.trace["validation"][-1] == pytest.approx(found.model.log_probs(held).mean())
    held = held.indices.copy()
    held[0, 0] = -1
    with pytest.raises(CredoError, match="validation: expected complete rows, got missing values; use em"):
        fit(net(), rows, "counts", validation=held)


def test_tables_of_data_come_in_every_form(tmp_path):
    pd = pytest.importorskip("pandas")
    truth = credo.datasets.asia()
    samples = credo.sample(truth, 200, seed=0)
    frame = samples.to_frame()
    frame.to_csv(tmp_path / "data.csv", index=False)
    forms = [frame, samples.indices, frame.astype(str), tmp_path / "data.csv", frame.to_dict("list")]
    try:
        frame.astype(str).to_parquet(tmp_path / "data.parquet")
        forms.append(tmp_path / "data.parquet")
    except ImportError:
        pass
    expected = fit(truth, samples, "counts").model
    for form in forms:
        assert fit(truth, form, "counts").model == expected, type(form)
    assert isinstance(frame, pd.DataFrame)


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        ("counts(prior=bdeus)", "no table prior named 'bdeus'; did you mean 'bdeu'?"),
        ("counts(prior=bdeu(size=-1))", "size must be a finite number from 0, got -1"),
        ("counts(prior=uniform(count=none))", "count must be a finite number from 0, got None"),
        ("counts(prior=3)", "prior: expected a name such as 'bdeu(size=10)', a mapping"),
        ("counts(unseen=drop)", "unseen must be one of ['keep', 'refuse', 'uniform'], got 'drop'"),
        ("counts(tie=b)", "tie: expected lists of names, got 'b'"),
        ("counts(tie=['b'])", "tie: expected a list of names, got 'b'"),
        ("counts(tie=[['b','q']])", "tie: no variable named 'q'"),
        ("counts(tie=[['b','d']])", "tie: expected tables of one shape, got [(2, 2), (2, 3)]"),
        ("counts(tie=[['b'],['b']])", "tie: a name appears twice"),
        ("counts(tie=[['b']],fixed=['b'])", "tie, fixed: a table is both tied and fixed"),
        ("counts(fixed=b)", "fixed: expected a list of names, got 'b'"),
        ("counts(fixed=['q'])", "fixed: no variable named 'q'"),
        ("counts(prior={'q': 1})", "prior: no variable named 'q'"),
        ("counts(prior={'a': [1, 2, 3]})", "prior of 'a': expected a number or shape (2,), got (3,)"),
        ("counts(prior={'a': -1})", "prior of 'a': expected finite numbers from 0, got -1"),
        ("counts(prior={'a': 'x'})", "prior of 'a': expected numbers, got 'x'"),
    ],
)
def test_wrong_options_get_a_sentence(learner, message):
    with pytest.raises(CredoError, match=re.escape(message)):
        fit(net(), {"a": [0], "b": [0], "c": [0], "d": [0]}, learner)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"a": [0], "b": [5], "c": [0], "d": [0]}, "data: row 0: variable 'b' has no state"),
        (
            {"a": [0], "b": [None], "c": [0], "d": [0]},
            "counts cannot treat this task: some values are missing",
        ),
        ({"a": [], "b": [], "c": [], "d": []}, "data: expected at least one row, got none"),
        ({"a": [None], "b": [None]}, "data: expected a row that observes a variable"),
        ({"q": [0]}, "data: the column 'q' is no variable of the model"),
        (np.array([[0, np.nan, 0, 0]]), "some values are missing; use em"),
    ],
)
def test_bad_data_get_a_sentence(data, message):
    with pytest.raises(CredoError, match=re.escape(message)):
        fit(net(), data, "counts")


@pytest.mark.parametrize("learner", ["counts(fixed=0)", "counts(tie=[3])", "em(fixed=0)"])
def test_options_that_list_no_names_are_refused(learner):
    with pytest.raises(CredoError, match=r"expected a list of names, got [03]"):
        fit(net(), {"a": [0], "b": [0], "c": [0], "d": [0]}, learner)


def test_only_networks_have_tables_to_fill():
    model = credo.MarkovNet({"a": 2}, {("a",): [1, 1]})
    with pytest.raises(CredoError, match="it fills the tables of a BayesNet, got MarkovNet; use likelihood"):
        fit(model, {"a": [0]}, "counts")
