"""Public calls about random fields with their inputs, against enumeration of all labellings."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from scipy import sparse

import credo
from credo.core.errors import ConvergenceWarning, CredoError, ModelError, UnsupportedError
from credo.core.instance import Instance
from credo.core.result import Status
from credo.models.crf import CRF

RNG = np.random.default_rng(0)
LABELS = ("a", "b", "c")
W, V = RNG.standard_normal((2, 3)), RNG.standard_normal((2, 3, 3))
PLAIN, EDGED = CRF(LABELS, W, V[0]), CRF(LABELS, W, V)
X, Z = RNG.standard_normal((4, 2)), RNG.standard_normal((3, 2))
SQUARE = [(0, 1), (3, 1), (2, 3), (2, 0)]
ZS = RNG.standard_normal((4, 2))
CHAIN = [(0, 1), (1, 2), (2, 3)]
CASES = {
    "chain": (PLAIN, X, X, CHAIN, np.ones((3, 1))),
    "sparse chain": (PLAIN, sparse.csr_array(X), X, CHAIN, np.ones((3, 1))),
    "edge features": (EDGED, (X, None, Z), X, CHAIN, Z),
    "grid": (PLAIN, (X, SQUARE), X, SQUARE, np.ones((4, 1))),
    "grid with edge features": (EDGED, (X, SQUARE, ZS), X, SQUARE, ZS),
    "one node": (PLAIN, X[:1], X[:1], [], np.ones((0, 1))),
    "no edges": (PLAIN, (X[:2], []), X[:2], [], np.ones((0, 1))),
}


class Enumerated:
    """All labellings of one input with their scores by the formula."""

    def __init__(self, crf, x, edges, z):
        self.paths = np.array(list(itertools.product(range(3), repeat=len(x))))
        nodes, pairs = x @ crf.node_weights, np.tensordot(z, crf.edge_weights, 1)
        self.scores = nodes[np.arange(len(x)), self.paths].sum(axis=1)
        for k, (i, j) in enumerate(edges):
            self.scores += pairs[k, self.paths[:, i], self.paths[:, j]]
        self.log_z = np.logaddexp.reduce(self.scores)
        weights = np.exp(self.scores - self.log_z)
        self.marginals = np.stack([(weights[:, None] * (self.paths == k)).sum(axis=0) for k in range(3)], 1)

    def seen(self, labels):
        """Log p of the labels that are known."""
        fits = np.ones(len(self.paths), bool)
        for t, label in enumerate(labels):
            if label is not None:
                fits &= self.paths[:, t] == LABELS.index(label)
        return np.logaddexp.reduce(self.scores[fits]) - self.log_z


@pytest.fixture(params=CASES.values(), ids=list(CASES))
def case(request):
    crf, item, *rest = request.param
    return crf, item, Enumerated(crf, *rest)


def test_marginals_and_log_z_are_those_of_all_labellings(case):
    crf, item, truth = case
    found = credo.infer(crf, data=item)
    assert found.marginals["label"] == pytest.approx(truth.marginals)
    assert found.log_z.value == pytest.approx(truth.log_z)
    assert found.log_z.kind == "exact"
    assert found.each == pytest.approx([truth.log_z])


def test_a_named_method_is_asked_about_every_input(case):
    crf, item, truth = case
    found = credo.infer(crf, "junction-tree", data=[item, item])
    assert found.each == pytest.approx([truth.log_z, truth.log_z])
    assert found.marginals["label"][1] == pytest.approx(truth.marginals)
    assert credo.compare(crf, ["enumerate"], data=item)["enumerate"].log_z == pytest.approx(truth.log_z)


def test_the_best_labels_are_those_of_the_highest_score(case):
    crf, item, truth = case
    found = credo.infer(crf, data=item, maximise="all")
    best = truth.paths[truth.scores.argmax()]
    assert found.assignment["label"].tolist() == best.tolist()
    assert found.log_z.value == pytest.approx(truth.scores.max())
    assert found.score.value == pytest.approx(truth.scores.max())
    assert credo.predict(crf, item, maximise="all").tolist() == [LABELS[k] for k in best]


def test_several_inputs_are_answered_one_by_one():
    for crf, item, smaller in (
        (PLAIN, X, X[:2]),
        (EDGED, (X, None, Z), (X[:2], None, Z[:1])),
        (PLAIN, (X, SQUARE), (X[:2], [])),
    ):
        items = [item, smaller, item]
        many = credo.infer(crf, data=items)
        alone = [credo.infer(crf, data=part) for part in items]
        assert many.each == pytest.approx([one.log_z.value for one in alone])
        for rows, one in zip(many.marginals["label"], alone, strict=True):
            assert rows == pytest.approx(one.marginals["label"])
        best = credo.infer(crf, data=items, maximise="all")
        for path, part in zip(best.assignment["label"], items, strict=True):
            assert path.tolist() == credo.infer(crf, data=part, maximise="all").assignment["label"].tolist()
        assert [len(part) for part in credo.predict(crf, items)] == [4, 2, 4]


def test_chains_and_graphs_of_one_call_are_all_graphs():
    mixed = credo.infer(PLAIN, data=[X, (X, SQUARE)])
    one, two = credo.infer(PLAIN, data=X), credo.infer(PLAIN, data=(X, SQUARE))
    assert mixed.each == pytest.approx([one.log_z.value, two.log_z.value])


@pytest.mark.parametrize(
    "labels", [["a", "c", "b", "b"], ["a", None, None, "b"], [None] * 4], ids=["complete", "missing", "none"]
)
@pytest.mark.parametrize("which", ["chain", "edge features", "grid", "grid with edge features"])
def test_the_likelihood_of_labels_sums_out_those_that_are_missing(which, labels):
    crf, item, *rest = CASES[which]
    truth = Enumerated(crf, *rest).seen(labels)
    assert credo.log_likelihood(crf, item, targets=labels).value == pytest.approx(truth, abs=1e-12)
    both = credo.log_likelihood(crf, [item, item], targets=[labels, labels], weights=[1, 2])
    assert both.value == pytest.approx(3 * truth, abs=1e-12)
    named = credo.log_likelihood(crf, [item, item], "junction-tree", targets=[labels, labels], each=True)
    assert named == pytest.approx([truth, truth], abs=1e-12)


@pytest.mark.parametrize("which", ["chain", "edge features", "grid"])
def test_draws_of_labels_have_the_probabilities_of_the_labellings(which):
    crf, item, *rest = CASES[which]
    drawn = credo.sample(crf, 4000, data=item, seed=0)["label"]
    shares = np.stack([(drawn == k).mean(axis=0) for k in range(3)], axis=1)
    assert shares == pytest.approx(Enumerated(crf, *rest).marginals, abs=0.04)
    several = credo.sample(crf, 3, data=[item, item], seed=0)["label"]
    assert [part.shape for part in several] == [(3, 4), (3, 4)]


def test_the_graph_of_an_instance_has_the_labels():
    graph = PLAIN.instantiate(X).to_factor_graph()
    assert graph.variables[0].states == LABELS
    best = credo.infer(graph, maximise="all").assignment
    assert list(best.values()) == credo.predict(PLAIN, X, maximise="all").tolist()


def test_transitions_too_large_for_exponentials_are_answered_in_logarithms():
    field = CRF(["a", "b"], [[1.0, 0.0]], [[900.0, 0.0], [-900.0, 900.0]])
    found = credo.infer(field, data=[[1.0], [1.0], [0.0]])
    assert found.log_z.value == pytest.approx(1800 + np.log(np.exp(2) + 1))
    assert found.marginals["label"][0] == pytest.approx([np.exp(2) / (1 + np.exp(2)), 1 / (1 + np.exp(2))])


def test_inputs_without_nodes_are_answered_beside_others():
    empty = ([], [])
    for items in ([empty, (X, SQUARE), empty], [[], X, []]):
        found = credo.infer(PLAIN, data=items)
        assert found.each == pytest.approx([0.0, found.log_z.value, 0.0])
        assert [rows.shape for rows in found.marginals["label"]] == [(0, 3), (4, 3), (0, 3)]
        best = credo.infer(PLAIN, data=items, maximise="all").assignment["label"]
        assert [len(path) for path in best] == [0, 4, 0]


def test_bounds_of_graphs_sum_to_a_bound_and_estimates_to_an_estimate():
    items = [(X, SQUARE), (-X, SQUARE), (X, CHAIN)]
    exact = credo.infer(PLAIN, data=items)
    lower = credo.infer(PLAIN, "mean-field", data=items, seed=0)
    assert lower.log_z.kind == "lower" and lower.status is Status.CONVERGED
    assert (lower.each <= exact.each + 1e-9).all()
    close = credo.infer(PLAIN, "bp", data=items)
    assert close.log_z.kind == "estimate"
    assert close.each == pytest.approx(exact.each, abs=0.1)
    named = credo.log_likelihood(PLAIN, items, "bp", targets=[list("abca")] * 3)
    assert named.kind == "estimate"
    with pytest.warns(ConvergenceWarning, match="max_iter was reached"):
        cut = credo.infer(PLAIN, "bp", data=items, max_iter=1)
    assert cut.status is Status.OUT_OF_ITERATIONS


def test_methods_without_log_z_give_marginals_and_no_likelihood():
    items = [(X, SQUARE), (-X, SQUARE)]
    exact = credo.infer(PLAIN, data=items).marginals["label"]
    found = credo.infer(PLAIN, "gibbs", data=items, seed=0)
    assert found.log_z is None and found.each is None
    assert found.marginals["label"][0] == pytest.approx(exact[0], abs=0.1)
    with pytest.raises(UnsupportedError, match=r"log_likelihood: gibbs.* computes no log Z"):
        credo.log_likelihood(PLAIN, items, "gibbs", targets=[list("abca")] * 2, seed=0)


def test_filtering_gives_each_label_the_field_of_the_nodes_before_it():
    found = credo.infer(PLAIN, data=X, causal=True).marginals["label"]
    for t in range(4):
        assert found[t] == pytest.approx(credo.infer(PLAIN, data=X[: t + 1]).marginals["label"][t])


NAMED = CRF(["n", "v"], RNG.standard_normal((3, 2)), V[0, :2, :2], node_features=["w:cat", "w:runs", "size"])
ROWS = [{"w": "cat", "size": 2.0}, {"w": "runs"}, {"w": "cat", "size": 1.0}]
FRAME = {"s": ["p", "q", "p"], "w": ["cat", "cat", "runs"], "size": [2.0, 1.0, None], "tag": ["n", None, "v"]}


def test_dictionaries_and_tables_with_names_are_the_same_inputs(tmp_path):
    lists = [ROWS[:2], ROWS[2:]]
    one = credo.infer(NAMED, data=lists)
    other = credo.infer(NAMED, data=FRAME, groups="s", columns=["w", "size"])
    assert other.each == pytest.approx(one.each)
    value = credo.log_likelihood(NAMED, lists, targets=[["n", "v"], [None]]).value
    assert credo.log_likelihood(NAMED, FRAME, groups="s", targets="tag").value == pytest.approx(value)
    read = credo.data.read(FRAME, groups="s", targets="tag")
    assert credo.log_likelihood(NAMED, read).value == pytest.approx(value)
    lines = ["s,w,size,tag", "p,cat,2.0,n", "q,cat,1.0,", "p,runs,,v"]
    (tmp_path / "table.csv").write_text("\n".join(lines))
    kept = credo.log_likelihood(NAMED, tmp_path / "table.csv", groups="s", targets="tag").value
    assert kept == pytest.approx(value)
    in_one = credo.infer(NAMED, data=ROWS, lengths=[2, 1])
    assert in_one.each == pytest.approx(one.each)


def test_arrays_read_with_targets_are_the_same_inputs():
    y = [["a", "b", "b", "c"], ["c", "b"]]
    wanted = credo.log_likelihood(PLAIN, [X, X[:2]], targets=y).value
    assert credo.log_likelihood(PLAIN, credo.data.read([X, X[:2]], targets=y)).value == pytest.approx(wanted)
    rows, flat = np.concatenate([X, X[:2]]), [*y[0], *y[1]]
    assert credo.log_likelihood(PLAIN, rows, targets=flat, lengths=[4, 2]).value == pytest.approx(wanted)


def test_predictions_have_the_form_of_the_data():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(FRAME, index=[5, 6, 7])
    found = credo.predict(NAMED, frame, "tag", groups="s")
    parts = credo.predict(NAMED, [ROWS[:2], ROWS[2:]])
    assert found.name == "tag"
    assert found.to_dict() == {5: parts[0][0], 7: parts[0][1], 6: parts[1][0]}
    table = credo.predict(NAMED, frame, "tag", groups="s", proba=True)
    assert list(table.columns) == ["n", "v"]
    assert table.loc[6].to_numpy() == pytest.approx(credo.predict(NAMED, ROWS[2:], proba=True)[0])


def test_an_instance_of_pairs_needs_their_scores():
    for structure, shape in (("steps", "(4, 3, 3)"), ("graph", "(1, 3, 3)"), ("chains", "None")):
        tables = {"start": np.ones(3), "transition": np.ones((3, 3))} if structure == "chains" else {}
        edges = np.array([[0, 1]]) if structure == "graph" else None
        scores = {"pairs": np.zeros((2, 3, 3)), "edges": edges}
        with pytest.raises(
            ModelError, match=re.escape(f"log scores of pairs of shape {shape}, got (2, 3, 3)")
        ):
            Instance(structure, np.zeros((4, 3)), np.array([0, 4]), tables, **scores)


REFUSALS = [
    (lambda: credo.infer(PLAIN, data=[]), "data: expected at least one input, got none"),
    (lambda: credo.infer(PLAIN, data=X[:0]), "data: expected at least one node, got none"),
    (lambda: credo.infer(PLAIN, data=([], [])), "data: expected at least one node, got none"),
    (lambda: credo.infer(PLAIN, data=X[:, :1]), "expected an array of shape (rows, 2), got (4, 1)"),
    (lambda: credo.infer(EDGED, data=X), "edge features: expected 2 per step, got none"),
    (lambda: credo.infer(EDGED, data=(X, SQUARE)), "item 0: edge features: expected 2 per edge, got none"),
    (lambda: credo.infer(EDGED, data=[(X, None, Z), X]), "edge features: expected them for all inputs or"),
    (lambda: credo.infer(PLAIN, data=[(X, [(0, 9)])]), "item 0: edges: expected positions in [0, 4)"),
    (lambda: credo.infer(EDGED, data=(X, Z)), "edge features come third, after the edges, or None"),
    (lambda: credo.infer(PLAIN), "expected data=, got none: a CRF is a graph only together with data"),
    (lambda: credo.infer(PLAIN, data=(X, SQUARE), causal=True), "causal: expected chains, whose rows have"),
    (lambda: credo.infer(PLAIN, data=X, mask=[True] * 4), "mask: a field has no distribution over features"),
    (lambda: credo.infer(PLAIN, data=X, groups="s"), "groups, columns: expected a table whose columns"),
    (lambda: credo.infer(NAMED, data=FRAME, groups="z"), "groups: expected the name of one of ['s', 'w',"),
    (lambda: credo.infer(PLAIN, data=X, maximise=["y0"]), "maximise: expected () or 'all'"),
    (
        lambda: credo.infer(PLAIN, "bp", data=[(X, SQUARE)] * 2, checkpoint="never.credo"),
        "checkpoint: expected one graph, whose run it keeps, got 2",
    ),
    (lambda: credo.log_likelihood(PLAIN, X), "targets: expected the labels that were observed, got none"),
    (lambda: credo.log_likelihood(PLAIN, X, targets=["a"]), "labels of item 0: expected 4, one per node"),
    (lambda: credo.log_likelihood(PLAIN, [X], targets=[]), "targets: expected labels of 1 inputs, got"),
    (
        lambda: credo.log_likelihood(PLAIN, X, targets=["a", "z", "a", "a"]),
        "labels of item 0: 'z' at node 1 is none of the field's; the labels are ['a', 'b', 'c']",
    ),
    (lambda: credo.infer(NAMED, data=FRAME, columns=["z"]), "columns: expected the name of one of"),
    (lambda: credo.log_likelihood(NAMED, FRAME, targets=["n"]), "targets: expected 3 labels, one per row"),
    (lambda: credo.log_likelihood(NAMED, FRAME, targets="pos"), "targets: expected the name of one of"),
    (
        lambda: credo.log_likelihood(credo.datasets.sprinkler(), {"wet": ["yes"]}, targets="wet"),
        "targets: expected none, got some; only random fields have labels beside features",
    ),
    (lambda: credo.predict(PLAIN, X, "tag"), "targets: expected 'label', the hidden variable of a field"),
    (lambda: credo.predict(PLAIN, X, proba=True, maximise="all"), "proba: the best labels have no"),
    (lambda: credo.sample(PLAIN, lengths=3), "expected a model that makes up rows, got CRF"),
    (lambda: credo.forecast(PLAIN, X), "expected a model that makes up rows, got CRF"),
    (lambda: credo.fit(PLAIN, X), "targets: expected the labels that were observed, got none"),
]


@pytest.mark.parametrize(("call", "message"), REFUSALS, ids=[m[:60] for _, m in REFUSALS])
def test_refusals_say_what_was_expected_and_what_came(call, message):
    with pytest.raises(CredoError, match=re.escape(message)):
        call()
