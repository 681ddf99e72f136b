"""Estimators of random fields with margins and hidden nodes, in scikit-learn's habits."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse

import credo
from credo.core.errors import CredoError
from credo.estimators import ChainCRF, GraphCRF


def sequences(count=6):
    rng = np.random.default_rng(2)
    x, y = [], []
    for n in range(count):
        labels = rng.integers(0, 2, 3 + n % 2)
        x.append(np.stack([labels + 0.3 * rng.normal(size=len(labels)), np.ones(len(labels))], axis=1))
        y.append(["ab"[k] for k in labels])
    return x, y


def quietly(made, x, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return made.fit(x, y)


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (ChainCRF(objective="ssvm"), "annealed"),
        (ChainCRF(objective="ssvm", loss=[[0, 1], [3, 0]]), "annealed"),
        (ChainCRF(objective="hcrf", hidden=2), "max-marginals"),
        (ChainCRF(objective="mssvm", hidden=2, random_state=0), "annealed (eps_h = 1)"),
        (GraphCRF(objective="lssvm", hidden=2, inference="junction-tree", random_state=0), "junction-tree"),
        (GraphCRF(objective="ssvm", inference="bp", decode="marginals"), "max-marginals"),
    ],
)
def test_labels_are_learned_and_the_estimator_says_how_it_predicts(made, told):
    x, y = sequences()
    made.set_params(tol=1e-2, max_iter=60, prior="gaussian(scale=3)")
    items = (
        x
        if isinstance(made, ChainCRF)
        else [(part, [(i, i + 1) for i in range(len(part) - 1)]) for part in x]
    )
    found = quietly(made, items, y)
    assert found.score(items, y) > 0.85
    assert told in found.decoding_
    assert [p.shape for p in found.predict_proba(items)] == [(len(part), 2) for part in y]
    assert found.log_likelihood(items, y) < 0
    assert found.classes_.tolist() == ["a", "b"]


def test_missing_labels_sparse_features_and_saving(tmp_path):
    x, y = sequences()
    y[0] = [None, *y[0][1:]]
    y[1] = [None] * len(y[1])
    thin = [sparse.csr_array(part) for part in x]
    made = quietly(ChainCRF(objective="mssvm", tol=1e-2), thin, y)
    assert any("without any label" in note for note in made.fit_.notes)
    credo.save(made, tmp_path / "made.credo")
    again = credo.load(tmp_path / "made.credo")
    assert [part.tolist() for part in again.predict(thin)] == [part.tolist() for part in made.predict(thin)]


def test_kinds_of_nodes():
    x, y = sequences(4)
    items = [
        {
            "nodes": {"word": part, "topic": 1},
            "edges": {"step": None, "about": [(i, 0) for i in range(len(part))]},
        }
        for part in x
    ]
    wires = {"step": ("word", "word"), "about": ("word", "topic")}
    made = GraphCRF(objective="mssvm", edges=wires, hidden={"topic": 2}, tol=1e-2, random_state=0)
    assert quietly(made, items, y).score(items, y) > 0.85
    both = [{"word": part, "topic": ["long" if len(part) > 3 else "short"]} for part in y]
    told = quietly(GraphCRF(objective="ssvm", edges=wires, tol=1e-2), items, both)
    assert set(told.predict(items)[0]) == {"word", "topic"}
    assert told.score(items, both) > 0.7
    assert set(told.classes_["topic"]) == {"long", "short"}


def test_grid_search_and_clone():
    selection = pytest.importorskip("sklearn.model_selection")
    base = pytest.importorskip("sklearn.base")
    x, y = sequences()
    search = selection.GridSearchCV(
        ChainCRF(tol=1e-2, max_iter=20),
        {"objective": ["crf", "ssvm"], "loss": ["auto", "hamming(normalised=true)"]},
        cv=2,
    )
    quietly(search, x, y)
    assert set(search.best_params_) == {"objective", "loss"}
    twin = base.clone(ChainCRF(objective="mssvm", hidden=2, loss=None))
    assert twin.get_params()["objective"] == "mssvm"


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (ChainCRF(objective="margin"), "no objective named 'margin'"),
        (ChainCRF(hidden=0), "hidden"),
        (ChainCRF(hidden={"h": 2}), "kinds need edges"),
        (GraphCRF(edges={"a": ("x", "y")}, hidden=2), "expected a mapping kind"),
        (ChainCRF(decode="guess"), "decode"),
        (ChainCRF(objective="ssvm", inference="gbp"), "cannot"),
        (ChainCRF(objective="ssvm", loss=[[0, 1, 1]] * 3), "0 for the right label"),
        (
            ChainCRF(objective="ssvm", loss=[[0, 1, 1], [1, 0, 1], [1, 1, 0]]),
            "expected one per label, 2, got 3",
        ),
    ],
)
def test_refused(made, sentence):
    with pytest.raises(CredoError, match=sentence):
        made.fit(*sequences())
