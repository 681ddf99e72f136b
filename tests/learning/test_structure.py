"""Chow-Liu trees: the best of all trees, whatever the form of the data."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

import credo
from credo import BayesNet
from credo.core.errors import CredoError, DataError
from credo.data.table import StateTable
from credo.learning import fit, log_likelihood, mutual_information
from credo.learning.structure import best_tree as chow_liu
from credo.learning.structure import variables_of

STATES = {"a": 2, "b": 3, "c": 2, "d": 2, "e": 4}


def rows(count=400, seed=0):
    """Of a network that is no tree."""
    parents = {"b": ["a"], "c": ["a", "b"], "d": ["b", "c"], "e": ["d"]}
    return credo.sample(BayesNet.random(STATES, parents, seed=seed), count, seed=seed)


def information_by_hand(data, i, j):
    x, y = data.indices[:, i], data.indices[:, j]
    total = 0.0
    for a, b in itertools.product(set(x), set(y)):
        p = np.mean((x == a) & (y == b))
        if p > 0:
            total += p * np.log(p / (np.mean(x == a) * np.mean(y == b)))
    return total


def spanning_trees(n):
    """All labelled trees, from their Pruefer codes."""
    for code in itertools.product(range(n), repeat=n - 2):
        degree = [1 + code.count(i) for i in range(n)]
        edges = []
        for i in code:
            leaf = degree.index(1)
            edges.append((leaf, i))
            degree[leaf] -= 1
            degree[i] -= 1
        u, v = (i for i in range(n) if degree[i] == 1)
        yield [*edges, (u, v)]


def test_mutual_information_is_that_of_the_definition():
    data = rows()
    found = mutual_information(data)
    assert np.array_equal(found, found.T) and not found.diagonal().any()
    for i, j in itertools.combinations(range(5), 2):
        assert found[i, j] == pytest.approx(information_by_hand(data, i, j), abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_no_tree_is_more_likely(seed):
    data = rows(seed=seed)
    found = chow_liu(data)
    assert len(found.edges) == 4
    best = log_likelihood(found, data).value
    names = list(STATES)
    for edges in spanning_trees(5):
        parent, reached = {}, {0}
        while len(reached) < 5:
            for u, v in [*edges, *[(v, u) for u, v in edges]]:
                if u in reached and v not in reached:
                    parent[names[v]] = [names[u]]
                    reached.add(v)
        tree = BayesNet.random(STATES, parent, seed=0)
        assert fit(tree, data, "counts").log_likelihood.value <= best + 1e-9


def test_the_likelihood_is_information_less_entropy():
    data = rows()
    found = chow_liu(data)
    names = list(STATES)
    information = mutual_information(data)
    gain = sum(information[names.index(u), names.index(v)] for u, v in found.edges)
    entropy = 0.0
    for i in range(5):
        p = np.bincount(data.indices[:, i]) / len(data)
        entropy -= (p[p > 0] * np.log(p[p > 0])).sum()
    assert log_likelihood(found, data).value / len(data) == pytest.approx(gain - entropy)


def test_the_tree_that_made_the_data_is_found_again():
    states = {f"x{k}": 2 + k % 2 for k in range(12)}
    parents = {f"x{k}": [f"x{(k - 1) // 2}"] for k in range(1, 12)}
    truth = BayesNet.random(states, parents, seed=3, concentration=0.4)
    found = chow_liu(credo.sample(truth, 20_000, seed=0), root="x0")
    assert sorted(found.edges) == sorted(truth.edges)
    for name in states:
        assert found.tables[name] == pytest.approx(truth.tables[name], abs=0.1)


@pytest.mark.parametrize("smoothing", [0.0, 5.0])
def test_both_kinds_of_model_and_all_roots_are_one_distribution(smoothing):
    data = rows()
    models = [
        chow_liu(data, smoothing=smoothing, root=root, directed=directed)
        for root in ("a", "e")
        for directed in (True, False)
    ]
    assert isinstance(models[1], credo.MarkovNet) and models[2].parents["e"] == ()
    values = [log_likelihood(m, data).value for m in models]
    assert values == pytest.approx(np.full(4, values[0]))
    assert credo.infer(models[1], "junction-tree").log_z.value == pytest.approx(0, abs=1e-12)


def test_smoothing_leaves_no_zeros_and_keeps_the_marginals_consistent():
    data = credo.sample(credo.datasets.asia(), 30, seed=0)
    found = chow_liu(data, smoothing=1.0)
    assert (found.flat_tables > 0).all()
    marginals = credo.infer(found).marginals
    for i, name in enumerate(found.variables.names):
        counts = np.bincount(data.indices[:, i], minlength=2) + 0.5
        assert marginals[name] == pytest.approx(counts / 31)


def test_a_threshold_makes_a_forest():
    rng = np.random.default_rng(0)
    left, right = rng.integers(2, size=(2, 3000))
    flip = rng.random((2, 3000)) < 0.05
    data = {"a": left, "b": left ^ flip[0], "c": right, "d": right ^ flip[1]}
    assert len(chow_liu(data).edges) == 3
    for threshold in (0.05, "bic"):
        found = chow_liu(data, threshold=threshold)
        assert found.edges == [("a", "b"), ("c", "d")], threshold
    assert chow_liu(data, threshold=10.0).edges == []
    assert chow_liu(data, threshold="bic", root="d").edges == [("a", "b"), ("d", "c")]


def test_weights_count_as_repeats():
    data = rows(60)
    weights = np.arange(60) % 3
    often = credo.sample(BayesNet.random(STATES, seed=0), 1).__class__(
        data.variables, np.repeat(data.indices, weights, axis=0)
    )
    assert chow_liu(data, weights=weights, smoothing=1.0) == chow_liu(often, smoothing=1.0)


def test_pairs_are_counted_from_the_rows_that_have_both():
    states = rows().indices.copy()
    states[np.random.default_rng(0).random(states.shape) < 0.2] = -1
    data = StateTable.from_states(rows().variables, states[(states >= 0).any(axis=1)])
    found = mutual_information(data)
    both = (states[:, 0] >= 0) & (states[:, 2] >= 0)
    kept = credo.core.result.Samples(rows().variables, states[both])
    assert found[0, 2] == pytest.approx(information_by_hand(kept, 0, 2))
    tree = chow_liu(data, smoothing=1.0)
    assert len(tree.edges) == 4


def test_a_parent_state_that_never_occurs_says_nothing():
    data = StateTable.of({"a": 3, "b": 2}, {"a": [0, 0, 1], "b": [0, 1, 1]})
    found = chow_liu(data)
    assert found.tables["b"][2] == pytest.approx([1 / 3, 2 / 3])
    hidden = StateTable.of({"a": 2, "b": 2}, {"a": [0, 1]})
    lonely = chow_liu(hidden)
    assert lonely.edges == [] and lonely.tables["b"].tolist() == [0.5, 0.5]


def test_states_are_read_off_the_data(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {"rain": ["yes", "no", "no", None], "level": [0, 2, 2, 0], "ok": [True, False, True, True]}
    )
    assert [v.states for v in variables_of(frame)] == [("no", "yes"), ("0", "2"), ("False", "True")]
    frame.to_csv(tmp_path / "data.csv", index=False)
    assert variables_of(tmp_path / "data.csv")[1].states == ("0", "2")
    assert variables_of({"s": [-1, 1, 1]})[0].states == ("-1", "1")
    assert variables_of(pd.DataFrame({"c": pd.Categorical(["x"], categories=["y", "x"])}))[0].states == (
        "y",
        "x",
    )
    assert variables_of({"t": ["none", "some"]})[0].states == ("none", "some")
    assert chow_liu(frame).edges == chow_liu(tmp_path / "data.csv").edges
    assert variables_of(rows()) is not None
    samples = rows()
    assert chow_liu(samples.to_frame()).flat_tables == pytest.approx(chow_liu(samples).flat_tables)


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ([[0, 1]], {}, "data: expected a data frame, a mapping of columns, samples or a file"),
        ({"a": [None]}, {}, "data: column 'a': expected at least one value, got none; give variables"),
        ({"a": [0]}, {"root": "b"}, "root: no variable named 'b'"),
        ({"a": [0]}, {"smoothing": -1}, "smoothing must be at least 0, got -1"),
        ({"a": [0]}, {"threshold": "aic"}, "threshold must be at least 0, got 'aic'"),
        ({"a": [0, 5]}, {"variables": {"a": 2}}, "data: row 1: variable 'a' has no state '5'"),
    ],
)
def test_refusals(data, options, message):
    with pytest.raises(CredoError, match=re.escape(message)):
        chow_liu(data, **options)


def test_mutual_information_checks_its_smoothing():
    with pytest.raises(CredoError, match=re.escape("smoothing must be at least 0, got -2")):
        mutual_information({"a": [0, 1]}, smoothing=-2)


AMOUNTS = np.random.default_rng(0).normal(size=300)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (AMOUNTS, "got .*; use `kernel_chow_liu`, or classes"),
        (AMOUNTS.tolist(), "use `kernel_chow_liu`"),
        ([0.0, 0.5] * 150, "got 0.5"),
        ([0.0, np.inf] * 150, "got inf"),
        (np.arange(300), "got 300 different numbers; at most 32"),
        ([-1, 0, 1] * 100, "got -1 among whole numbers from 0; give missing=-1"),
        ([f"row {k}" for k in range(300)], "got 300 different strings in as many rows; leave out"),
        (["a", 1] * 150, "got values of several kinds; give one kind of label"),
        ([1 + 1j, 2] * 150, r"got \(1\+1j\)"),
        ([(0, 1), (1, 0)] * 150, r"got \(0, 1\)"),
        (np.arange(300).astype("datetime64[ns]"), "got .*datetime64"),
        (np.full(300, np.nan), "expected at least one value"),
    ],
)
@pytest.mark.parametrize("learner", [chow_liu, mutual_information])
def test_columns_that_are_no_states_are_refused(learner, column, words):
    with pytest.raises(DataError, match=words):
        learner({"a": [0, 1] * 150, "b": column})


def test_numbers_of_a_file_are_no_states(tmp_path):
    path = tmp_path / "rows.csv"
    for numbers in (AMOUNTS, np.arange(300)):
        path.write_text("a,b\n" + "".join(f"{k % 2},{x}\n" for k, x in enumerate(numbers)))
        with pytest.raises(DataError, match="column 'b': expected states"):
            chow_liu(path)
    path.write_text("a,b\n" + "".join(f"{k % 2},{k % 3}.0\n" for k in range(300)))
    assert chow_liu(path).variables.sizes.tolist() == [2, 3]


def test_the_ways_out_of_a_column_without_states():
    classes = np.digitize(AMOUNTS, [-1.0, 0.0, 1.0])
    assert chow_liu({"a": [0, 1] * 150, "b": classes}).variables.sizes.tolist() == [2, 4]
    assert chow_liu({"a": [0, 1], "b": [1999, 2000]}).variables[1].states == ("1999", "2000")
    assert chow_liu({"a": [0, 1], "b": [1999, 2000]}, {"a": 2, "b": 2001}).variables.sizes[1] == 2001
    assert chow_liu({"a": [0, 1], "b": [np.nan, 2.0]}).variables[1].states == ("2",)
    assert chow_liu({"a": [0, 1], "b": [-1, 1]}).variables[1].states == ("-1", "1")
    assert chow_liu({"a": [0, 1], "b": [True, False]}).variables[1].states == ("False", "True")


def test_categories_that_are_numbers_are_labels():
    pandas = pytest.importorskip("pandas")
    years = pandas.Series([1, 2, 1, 2], dtype=pandas.CategoricalDtype([1, 2, 3]))
    tree = chow_liu({"year": years, "a": [0, 1, 0, 1]}, root="year")
    assert tree.variables[0].states == ("1", "2", "3")
    assert tree.tables["year"].tolist() == [0.5, 0.5, 0.0]
