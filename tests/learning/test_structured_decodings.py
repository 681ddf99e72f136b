"""Fields note how they were learned, and predictions follow."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import credo
from credo.core.errors import ModelError, OptionError
from credo.estimators import ChainCRF
from credo.learning import predict_structures
from credo.models.decodings import temperature_of

# p(a, a) = 0.4, p(b, b) = p(b, c) = 0.3: the best pair is (a, a), the best labels one by one are b and a.
PAIRS = np.log(np.array([[0.4, 1e-9, 1e-9], [1e-9, 0.3, 0.3], [1e-9, 1e-9, 1e-9]]))
W, X = np.zeros((1, 3)), np.ones((2, 1))
TOGETHER, EACH = ["a", "a"], ["b", "a"]


def _fit(model, x, y, objective):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return credo.fit(model, x, f"structured(objective={objective})", targets=y, max_iter=2, seed=0).model


def test_predictions_are_told_as_the_field_says(tmp_path):
    field = credo.CRF(["a", "b", "c"], W, PAIRS)
    joint = field.with_decoding("joint-map")
    assert credo.predict(field, X).tolist() == EACH
    assert credo.predict(joint, X).tolist() == TOGETHER
    assert [part.tolist() for part in credo.predict(joint, [X, X])] == [TOGETHER] * 2
    np.testing.assert_allclose(credo.predict(joint, X, proba=True), credo.predict(field, X, proba=True))
    credo.save(joint, tmp_path / "field.credo")
    kept = credo.load(tmp_path / "field.credo")
    assert kept == joint != field
    assert credo.predict(kept, X).tolist() == TOGETHER
    for decode, told in (("auto", TOGETHER), ("marginals", EACH)):
        tagger = ChainCRF.from_model(joint).set_params(decode=decode)
        assert tagger.predict([X])[0].tolist() == told


@pytest.mark.parametrize(
    ("objective", "decoding"),
    [("ssvm", "joint-map"), ("crf", "joint-map"), ("hcrf", "max-marginals"), ("lssvm", "joint-map")],
)
def test_learning_notes_how_labels_are_predicted(objective, decoding):
    learned = _fit(credo.CRF(), [X, X], [["a", "b"], ["c", "b"]], objective)
    assert learned.decoding == decoding
    told = credo.predict(learned.with_weights(W, PAIRS), X).tolist()
    assert told == (TOGETHER if decoding == "joint-map" else EACH)


def test_estimators_and_their_fields_predict_alike():
    y = [["a", "b"], ["c", "b"]]
    tagger = ChainCRF(objective="crf", random_state=0).fit([X, X], y)
    assert tagger.model_.decoding == "joint-map"
    assert tagger.predict([X])[0].tolist() == credo.predict(tagger.model_, X).tolist()


@pytest.mark.parametrize(
    ("objective", "decoding"),
    [
        ("mssvm", "marginal-map"),
        ("lssvm", "joint-map"),
        ("epsilon(eps=0.5)", "annealed(eps_h=0.5)"),
        ("hcrf", "max-marginals"),
    ],
)
def test_fields_with_hidden_kinds_note_the_temperature(objective, decoding, tmp_path):
    x = [{"nodes": {"y": np.eye(2), "h": 2}, "edges": {"part": None}}]
    learned = _fit(credo.LatentCRF({"part": ("y", "h")}, {"h": 2}), x, [["a", "b"]], objective)
    assert learned.decoding == decoding
    credo.save(learned, tmp_path / "field.credo")
    assert credo.load(tmp_path / "field.credo") == learned != learned.with_decoding("annealed(eps_h=2)")


def test_hidden_kinds_are_eliminated_as_the_field_says():
    # The best label with its best state is a, with its states summed b: 1.2 < log 2 + 1.
    field = credo.LatentCRF(
        {"part": ("y", "h")}, {"h": 2}, states={"y": ["a", "b"]},
        node_weights={"y": W[:, :2], "h": W[:, :2]}, edge_weights={"part": [[[1.2, -9.0], [1.0, 1.0]]]},
    )  # fmt: skip
    one = [{"nodes": {"y": 1, "h": 1}, "edges": {"part": None}}]
    for decoding, label in (("joint-map", "a"), ("marginal-map", "b"), ("annealed(eps_h=0.01)", "a")):
        assert predict_structures(field.with_decoding(decoding), one)[0]["y"].tolist() == [label]
        assert predict_structures(field, one, decoding=decoding)[0]["y"].tolist() == [label]
    told = predict_structures(field.with_decoding("joint-map"), one, "mssvm")
    assert told[0]["y"].tolist() == ["b"]


@pytest.mark.parametrize("decoding", ["best", None, "annealed", "annealed(eps=1)", "annealed(eps_h=1, b=2)"])
def test_other_decodings_are_refused(decoding):
    with pytest.raises(ModelError, match="decoding: expected 'max-marginals', 'joint-map'"):
        credo.CRF(decoding=decoding)


def test_temperatures_are_not_negative():
    with pytest.raises(OptionError, match="eps_h must be at least 0"):
        temperature_of("annealed(eps_h=-1)")
