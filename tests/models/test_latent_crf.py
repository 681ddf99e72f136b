"""Fields with several kinds of nodes, hidden ones among them: learning, prediction, saving, refusals."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import sparse

import credo
from credo.core.errors import DataError, ModelError, QueryError
from credo.learning.log_linear import Objective
from credo.learning.structured_losses import loss_of
from credo.learning.structured_members import MEMBERS, member_of
from credo.learning.structured_predict import kind_log_likelihood, kind_marginals, predict_structures
from credo.learning.structured_risk import GraphAnswers, StructuredRisk

_ROWS = np.ones((2, 2))
WIRES = {"step": ("y", "y"), "part": ("y", "h"), "link": ("h", "h")}


def data(count=4, features=2):
    rng = np.random.default_rng(5)
    x, y = [], []
    for n in range(count):
        size = 2 + n % 2
        rows = rng.normal(size=(size, features))
        edges = {"step": None, "part": (None, rng.normal(size=(size, 2))), "link": [(0, 1)]}
        x.append({"nodes": {"y": rows, "h": size}, "edges": edges})
        y.append([None if (n, i) == (1, 0) else "abc"[(n + 2 * i) % 3] for i in range(size)])
    return x, y


@pytest.fixture(scope="module")
def task():
    x, y = data()
    field = credo.LatentCRF(WIRES, {"h": 2}).filled(x, y)
    weights = field.score_weights(field.read_batch(x, y))
    theta = np.random.default_rng(1).normal(size=len(weights.start))
    return x, y, weights.model(theta), theta


def joint(graph):
    """Scores of all joint states of a graph, by the labels of its nodes y."""
    names = graph.variables.names
    told = [i for i, name in enumerate(names) if name.startswith("y_")]
    found = {}
    for state in itertools.product(*(range(n) for n in graph.variables.sizes)):
        value = float(graph.log_scores(np.array([state]))[0])
        found.setdefault(tuple(state[i] for i in told), []).append(value)
    return found


def powered(values, heat):
    values = np.array(values)
    return values.max() if heat == 0 else heat * np.logaddexp.reduce(values / heat)


@pytest.mark.parametrize("name", [*MEMBERS, "powered(eps_y=0.3, eps_h=1)"])
def test_risk_is_enumeration_and_slopes_are_differences(name, task):
    x, y, field, theta = task
    member = member_of(name)
    batch = field.read_batch(x, y)
    weights = field.score_weights(batch)
    source = StructuredRisk(GraphAnswers(member, loss_of("hamming") if member.has_loss else None))
    wanted = []
    for graph, labels in zip(field.graphs(x), y, strict=True):
        right = ["abc".index(label) if label else -1 for label in labels]
        known = [i for i, label in enumerate(right) if label >= 0]
        grouped = {}
        for state, values in joint(graph).items():
            grouped.setdefault(tuple(state[i] for i in known), []).extend(values)
        score = {state: powered(values, member.eps_h) for state, values in grouped.items()}
        told = tuple(right[i] for i in known)
        wrong = {state: sum(a != b for a, b in zip(state, told, strict=True)) for state in score}
        plus = [s + member.has_loss * wrong[state] for state, s in score.items()]
        wanted.append(powered(plus, member.eps_y) - score[told])
    np.testing.assert_allclose(source.values(weights.scores(theta, batch), batch), wanted, atol=1e-11)
    objective = Objective(weights, source)
    slope = objective.evaluate(theta, batch)[1]
    steps = 1e-5 * np.eye(len(theta))
    found = [objective.value(theta + d, batch) - objective.value(theta - d, batch) for d in steps]
    np.testing.assert_allclose(slope, np.array(found) / 2e-5, atol=1e-8)


def test_predictions_are_those_of_enumeration(task):
    x, _, field, _ = task
    heats = {"mssvm": 1.0, "lssvm": 0.0, "epsilon(eps=0.5)": 0.5}
    for objective, decoding, heat in [*((o, None, t) for o, t in heats.items()), ("mssvm", "joint-map", 0.0)]:
        found = predict_structures(field, x, objective, decoding=decoding)
        for graph, told in zip(field.graphs(x), found, strict=True):
            score = {state: powered(values, heat) for state, values in joint(graph).items()}
            assert tuple(told["y"]) == tuple("abc"[k] for k in max(score, key=score.get))
    marginals = kind_marginals(field, x)
    each = predict_structures(field, x, "hcrf")
    for graph, told, labels in zip(field.graphs(x), marginals, each, strict=True):
        exact = credo.infer(graph, "enumerate").marginals
        for i, row in enumerate(told["y"]):
            np.testing.assert_allclose(row, exact[f"y_{i}"], atol=1e-12)
            assert labels["y"][i] == "abc"[row.argmax()]


def test_it_answers_the_calls_of_templates(task):
    x, y, field, _ = task
    found, graphs = credo.infer(field, data=x), field.graphs(x)
    exact = [credo.infer(graph, "enumerate") for graph in graphs]
    assert found.log_z.value == pytest.approx(sum(one.log_z.value for one in exact))
    for n, one in enumerate(exact):
        for kind in field.kinds:
            rows = [one.marginals[f"{kind}_{i}"] for i in range(len(found.marginals[kind][n]))]
            np.testing.assert_allclose(found.marginals[kind][n], np.array(rows), atol=1e-12)
    alone = credo.infer(field, "junction-tree", data=x[0]).marginals["h"]
    np.testing.assert_allclose(alone, found.marginals["h"][0], atol=1e-12)
    each = credo.log_likelihood(field, x, targets=y, each=True)
    np.testing.assert_allclose(each, kind_log_likelihood(field, x, y), atol=1e-10)
    drawn = credo.sample(field, 3, data=x, seed=0)
    assert [part.shape[0] for part in drawn["y"]] == [3] * len(x)
    for table, part in zip(credo.predict(field, x, "y", proba=True), found.marginals["y"], strict=True):
        np.testing.assert_allclose(table, part)


@pytest.mark.parametrize("how", ["max-marginals", "joint-map", "marginal-map", "annealed(eps_h=0.5)"])
def test_it_is_predicted_as_it_was_learned(how, task):
    x, field = task[0], task[2].with_decoding(how)
    wanted = [own["y"].tolist() for own in predict_structures(field, x)]
    assert [part.tolist() for part in credo.predict(field, x)] == wanted
    assert credo.predict(field, x[0], "y").tolist() == wanted[0]
    best = [own["y"].tolist() for own in predict_structures(field, x, decoding="joint-map")]
    assert [part.tolist() for part in credo.predict(field, x, maximise="all")] == best


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda field, x: credo.predict(field, x, "h"), "targets: expected one of the kinds"),
        (lambda field, x: credo.predict(field, x, maximise=["y"]), "maximise: expected"),
        (lambda field, x: credo.predict(field, x, proba=True, maximise="all"), "have no probabilities"),
        (lambda field, x: credo.predict(field, x, lengths=[1]), "leave out"),
        (credo.log_likelihood, "targets: expected the labels"),
        (lambda field, x: field.instantiate(x).to_factor_graph(), "expected one input, got"),
    ],
)
def test_questions_it_cannot_answer_are_refused(ask, sentence, task):
    with pytest.raises((QueryError, DataError, ModelError), match=sentence):
        ask(task[2], task[0])


def test_log_likelihood_is_that_of_the_graphs(task):
    x, y, field, _ = task
    each = kind_log_likelihood(field, x, y)
    for graph, labels, value in zip(field.graphs(x), y, each, strict=True):
        known = {f"y_{i}": label for i, label in enumerate(labels) if label}
        whole, given = credo.infer(graph, "enumerate"), credo.infer(graph, "enumerate", evidence=known)
        assert value == pytest.approx(given.log_z.value - whole.log_z.value, abs=1e-10)


def test_one_hidden_state_is_none():
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=(3, 2)) for _ in range(3)]
    y = [["a", "b", "a"], ["b", "b", None], ["a", "a", "b"]]
    plain = credo.fit(credo.CRF(), rows, "structured(objective=hcrf)", targets=y, tol=1e-8)
    x = [{"nodes": {"y": part, "h": 3}, "edges": {"step": None}} for part in rows]
    blank = credo.LatentCRF({"step": ("y", "y"), "part": ("y", "h")}, {"h": 1})
    found = credo.fit(blank, x, "structured(objective=hcrf)", targets=y, tol=1e-8)
    np.testing.assert_allclose(found.model.node_weights["y"], plain.model.node_weights, atol=1e-5)
    np.testing.assert_allclose(found.model.edge_weights["step"], plain.model.edge_weights, atol=1e-5)


def test_symmetric_starts_are_broken_by_the_seed():
    x, y = data()
    blank = credo.LatentCRF(WIRES, {"h": 2})
    options = {"targets": y, "tol": 1e-2}
    found = credo.fit(blank, x, "structured(objective=mssvm)", seed=3, **options)
    again = credo.fit(blank, x, "structured(objective=mssvm)", seed=3, **options)
    assert found.model == again.model
    assert any("were alike at the start" in note for note in found.notes)
    table = found.model.edge_weights["part"]
    assert np.ptp(table, axis=2).max() > 1e-3
    assert np.ptp(credo.LatentCRF(WIRES, {"h": 2}).filled(x, y).edge_weights["part"]) == 0


def test_sparse_features_dictionaries_and_saving(tmp_path):
    x, y = data()
    thin = [{**item, "nodes": item["nodes"] | {"y": sparse.csr_array(item["nodes"]["y"])}} for item in x]
    blank = credo.LatentCRF(WIRES, {"h": 2})
    options = {"targets": y, "seed": 0, "tol": 1e-3}
    found = credo.fit(blank, thin, **options)
    assert found.learner.startswith("structured")
    dense = credo.fit(blank, x, **options).model
    np.testing.assert_allclose(found.model.node_weights["y"], dense.node_weights["y"], atol=1e-6)
    credo.save(found.model, tmp_path / "field.credo")
    assert credo.load(tmp_path / "field.credo") == found.model
    words = [{"nodes": {"y": [{"word": w} for w in text], "h": len(text)}} for text in ("ab", "ba")]
    named = credo.fit(blank, words, targets=[["a", "b"], ["b", "a"]], seed=0, tol=1e-3).model
    assert named.node_features == {"y": ("word:a", "word:b")}
    told = predict_structures(named, words)
    assert [list(item["y"]) for item in told] == [["a", "b"], ["b", "a"]]


@pytest.mark.parametrize(
    ("nodes", "edges", "sentence"),
    [
        ({"z": 2}, {}, "item 0: expected nodes of the kinds"),
        ({"y": _ROWS, "h": 2}, {"far": None}, "item 0: expected edges of the kinds"),
        ({"y": _ROWS, "h": 3}, {"part": None}, "as many nodes of both kinds"),
        ({"y": _ROWS, "h": 2}, {"part": [(0, 5)]}, "expected positions in"),
        ({"y": _ROWS, "h": 2}, {"part": (None, np.ones((1, 2)))}, "rows of features"),
        ({"y": np.ones((2, 3)), "h": 2}, {}, "nodes of kind 'y'"),
        ({"y": _ROWS, "h": -1}, {}, "a number of 0 or more"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(nodes, edges, sentence, task):
    with pytest.raises(DataError, match=sentence):
        task[2].read_batch([{"nodes": nodes, "edges": edges}])


def test_inputs_are_mappings(task):
    with pytest.raises(DataError, match="expected a mapping with 'nodes' and 'edges'"):
        task[2].read_batch([{"edges": {}}])


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: credo.LatentCRF({"step": "yy y"}), "expected two kinds of nodes"),
        (lambda: credo.LatentCRF([("y", "y")]), "expected a mapping kind"),
        (lambda: credo.LatentCRF({}, node_weights={}), "expected states beside weights"),
        (lambda: credo.LatentCRF({}, {"y": 2}, states={"y": ["a"]}), "got both of"),
        (lambda: credo.LatentCRF({"s": ("y", "q")}, states={"y": ["a"]}), "no nodes of kind 'q'"),
        (lambda: credo.LatentCRF({}, states={"y": ["a"]}, node_weights={"y": [1.0]}), "expected shape"),
        (lambda: credo.LatentCRF({}, states={"y": ["a"]}), "expected a mapping with the kinds"),
        (lambda: credo.LatentCRF(WIRES, {"h": 2}).kinds, "is a blank"),
        (lambda: credo.LatentCRF(WIRES).filled([{"nodes": {"y": 2}}], [["a", "b"]]), "no nodes of kind 'h'"),
        (lambda: credo.LatentCRF(WIRES).filled([{"nodes": {"y": 2}}], lengths=[2]), "leave out"),
        (lambda: predict_structures(credo.CRF(), []), "expected a LatentCRF"),
    ],
)
def test_models_that_make_no_sense_are_refused(make, sentence):
    with pytest.raises(ModelError, match=sentence):
        make()


def test_labels_that_do_not_fit_are_refused(task):
    x, y, field, _ = task
    with pytest.raises(DataError, match="none of the field's"):
        field.read_batch(x, [["a", "z"], *y[1:]])
    with pytest.raises(DataError, match="expected labels of 4 inputs, got 1"):
        field.read_batch(x, y[:1])
    with pytest.raises(DataError, match="expected labels of the kinds"):
        field.read_batch(x, [{"q": ["a"]}] * 4)
