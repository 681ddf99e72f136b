"""The field's own formula against the factor graph it makes, and what is refused."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from scipy import sparse

import credo
from credo.core.errors import CredoError
from credo.models.crf import CRF
from credo.models.crf_features import expanded_features
from markup import cells

RNG = np.random.default_rng(0)
LABELS = ["a", "b", "c"]
W, V = RNG.standard_normal((4, 3)), RNG.standard_normal((2, 3, 3))


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix, sparse.coo_array])
def test_the_graph_scores_every_labelling_as_the_formula_says(make):
    crf = CRF(LABELS, W, V)
    x, z = RNG.standard_normal((4, 4)), RNG.standard_normal((5, 2))
    edges = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]
    graph = crf.instantiate((make(x), edges, make(z))).to_factor_graph()
    for y in itertools.product(range(3), repeat=4):
        expected = sum(x[i] @ W[:, y[i]] for i in range(4))
        expected += sum(z[e] @ V[:, y[i], y[j]] for e, (i, j) in enumerate(edges))
        assert graph.log_scores(np.array([y]))[0] == pytest.approx(expected)


def test_without_edges_it_is_a_chain_with_one_table():
    crf = CRF(LABELS, W, V[0])
    graph = crf.instantiate(RNG.standard_normal((3, 4))).to_factor_graph()
    assert graph.n_factors == 5
    assert graph.log_table(3) == pytest.approx(V[0])
    assert graph.variables.names[2] == "y2"
    assert graph.variables[0].states == ("a", "b", "c")
    single = crf.instantiate(RNG.standard_normal((1, 4))).to_factor_graph()
    assert single.n_factors == 1


def test_dictionaries_use_the_names_of_the_features():
    crf = CRF(LABELS, W[:3], V[:1], node_features=["bias", "word:cat", "word:dog"])
    rows = [{"bias": 1, "word": "cat"}, {"bias": 2.5, "word": "bird"}]
    assert crf.node_scores(rows) == pytest.approx(np.array([W[0] + W[1], 2.5 * W[0]]))


def test_dictionaries_are_expanded_as_crfsuite_does():
    found = expanded_features({"w": "x", "n": 2, "t": True, "tags": ["p", "q"]})
    assert found == {"w:x": 1.0, "n": 2.0, "t": 1.0, "tags:p": 1.0, "tags:q": 1.0}


@pytest.mark.parametrize("names", [None, ["f0", "f1", "f2", "f3"]])
def test_a_field_is_saved_and_loaded(tmp_path, names):
    crf = CRF(LABELS, W, V, node_features=names)
    credo.save(crf, tmp_path / "field.json")
    assert credo.load(tmp_path / "field.json") == crf
    assert repr(crf) == "CRF(3 labels, 4 node features, 2 edge features)"
    assert crf.with_weights(2 * W, V) != crf


X = np.zeros((2, 4))
REFUSALS = [
    (lambda: CRF(LABELS, W[:, :2], V), "node_weights: expected shape (features, 3), got (4, 2)"),
    (lambda: CRF(LABELS, W, V[:, :2]), "edge_weights: expected shape (features, 3, 3), got (2, 2, 3)"),
    (lambda: CRF(LABELS, [["a"]], V), "node_weights: expected numbers"),
    (lambda: CRF(LABELS, W * np.nan, V), "node_weights: expected finite numbers"),
    (lambda: CRF(LABELS, W, V, node_features=["a"]), "node_features: expected 4 different names, got 1"),
    (lambda: CRF(LABELS, W, V).instantiate(X), "edge features: expected 2 per step, got none"),
    (
        lambda: CRF(LABELS, W, V).instantiate((X, None, np.zeros((3, 2)))),
        "edge features of item 0: expected 1 rows, one between every two positions, got 3",
    ),
    (
        lambda: CRF(LABELS, W, V).instantiate((X, [(0, 1)], np.zeros((3, 2)))),
        "item 0: edge features: expected 1 rows, one per edge, got 3",
    ),
    (
        lambda: CRF(LABELS, W, V[0]).instantiate(np.zeros((2, 5))),
        "of shape (rows, 4), got (2, 5)",
    ),
    (
        lambda: CRF(LABELS, W, V[0]).instantiate(X * np.nan),
        "node features of item 0: expected finite numbers",
    ),
    (
        lambda: CRF(LABELS, W, V[0]).instantiate([["a"]]),
        "node features of item 0: expected an array of numbers",
    ),
    (lambda: CRF(LABELS, W, V[0]).instantiate([{"a": 1}]), "dictionaries need a field with named features"),
    (
        lambda: CRF(LABELS, W, V[0]).instantiate((X, [(0, 2)])),
        "edges: expected positions in [0, 2), got 0 to 2",
    ),
    (lambda: CRF(LABELS, W, V[0]).instantiate((X, [(1, 1)])), "edges: node 1 is joined to itself"),
    (lambda: CRF(LABELS, W, V[0]).instantiate((X, [0, 1])), "edges: expected pairs of node positions"),
    (
        lambda: CRF(LABELS, W, V[0]).instantiate((X, [(0,), (1, 1)])),
        "edges: expected pairs of node positions",
    ),
    (lambda: expanded_features({"a": object()}), "feature 'a': expected a number, a text or a list of texts"),
]


@pytest.mark.parametrize(("call", "message"), REFUSALS, ids=[m for _, m in REFUSALS])
def test_refusals_say_what_was_expected_and_what_came(call, message):
    with pytest.raises(CredoError, match=re.escape(message)):
        call()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": 3}, "expected a list of labels, got 3"),
        ({"node_weights": [1.0]}, "expected weights for 3 labels, got 1 and 18"),
        ({"node_features": "f"}, "node_features: expected a list of names or null, got 'f'"),
    ],
)
def test_damaged_files_of_version_1_are_refused(tmp_path, change, message):
    import json

    weights = {"node_weights": W.ravel().tolist(), "edge_weights": V.ravel().tolist()}
    names = {"labels": LABELS, "node_features": None, "edge_features": None}
    parts = {"format": "credo", "version": 1, "model": "CRF", **names, **weights}
    (tmp_path / "field.json").write_text(json.dumps(parts))
    assert credo.load(tmp_path / "field.json").labels == tuple(LABELS)
    parts |= change
    (tmp_path / "field.json").write_text(json.dumps(parts))
    with pytest.raises(CredoError, match=re.escape(message)):
        credo.load(tmp_path / "field.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"design_rows": [0]}, "expected equally many"),
        ({"design_columns": [7, 7]}, "expected a design matrix of shape (4, 1)"),
        ({"fixed": [0.0, 0.0]}, "expected a design matrix of shape (2, 1)"),
        ({"fixed": [0.0] * 6}, "factor tables: expected 4 entries, got 6"),
    ],
)
def test_damaged_log_linear_files_of_version_1_are_refused(tmp_path, change, message):
    import json

    parts = {
        "format": "credo", "version": 1, "model": "LogLinear", "scope_start": [0, 2], "scope": [0, 1],
        "variables": {"names": ["a", "b"], "states": [2, 2]}, "weights": [0.5], "fixed": [0.0] * 4,
        "design_rows": [0, 3], "design_columns": [0, 0], "design_values": [1.0, 1.0],
    }  # fmt: skip
    (tmp_path / "model.json").write_text(json.dumps(parts))
    assert credo.load(tmp_path / "model.json").weights.tolist() == [0.5]
    parts |= change
    (tmp_path / "model.json").write_text(json.dumps(parts))
    with pytest.raises(CredoError, match=re.escape(message)):
        credo.load(tmp_path / "model.json")


def test_notebooks_show_the_weights_by_feature_and_label():
    crf = CRF(["<n>", "v"], [[1.0, 0.0], [0.0, 2.0]], [[0.0, 1.5], [1.0, 0.0]], node_features=["cap", "end"])
    assert cells(crf._repr_html_()) == [
        *("node feature", "label 1=<n>", "label 1=v", "cap", "1", "0", "end", "0", "2"),
        *("edge feature", "label 1", "label 2=<n>", "label 2=v", "0", "<n>", "0", "1.5", "0", "v", "1", "0"),
    ]
