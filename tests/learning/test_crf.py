"""Estimators for random fields: gradients, optima against CRFsuite, graphs against chains, refusals."""

from __future__ import annotations

import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import credo
from credo.core.errors import ConvergenceWarning, CredoError, DataError, QueryError
from credo.core.result import Status
from credo.estimators import ChainCRF, GraphCRF
from credo.learning.expectations import Oracle
from credo.learning.label_sources import ChainLikelihood, GraphLikelihood, LabelPseudolikelihood
from credo.learning.log_linear import Objective
from credo.models.crf import CRF
from credo.models.crf_features import Features, Labels
from credo.models.crf_inputs import Graphs, LabelledSequences, chain_parts, graph_parts
from credo.models.crf_weights import CRFWeights, WeightLayout


def sentences(count, seed=0, words=30, labels=4, longest=9):
    """A made-up language: labels follow a Markov chain and emit words."""
    rng = np.random.default_rng(seed)
    fixed = np.random.default_rng(99)
    follow = fixed.dirichlet(np.full(labels, 0.4), size=labels)
    emit = fixed.dirichlet(np.full(words, 0.2), size=labels)
    X, y = [], []
    for _ in range(count):
        state, x, z = int(rng.integers(labels)), [], []
        for _ in range(int(rng.integers(1, longest))):
            word = int(rng.choice(words, p=emit[state]))
            x.append({"word": f"w{word}", "ending": f"e{word % 5}", "size": word % 3 / 2, "bias": 1.0})
            z.append(f"L{state}")
            state = int(rng.choice(labels, p=follow[state]))
        X.append(x)
        y.append(z)
    return X, y


def numbers(count, seed=0, features=3, edge_features=None, missing=0.0):
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(count):
        length = int(rng.integers(1, 6))
        x = rng.standard_normal((length, features))
        labels = [int(v) for v in (x[:, 0] + 0.5 * rng.standard_normal(length) > 0) + (x[:, 1] > 0.5)]
        X.append(x if edge_features is None else (x, rng.standard_normal((length - 1, edge_features))))
        y.append([None if rng.random() < missing else v for v in labels])
    return X, y


def objective_of(layout, source):
    return Objective(CRFWeights(layout, np.zeros(layout.count), None), source)


def differences(function, weights, step=1e-5):
    found = np.empty(len(weights))
    for k in range(len(weights)):
        up, down = weights.copy(), weights.copy()
        up[k] += step
        down[k] -= step
        found[k] = (function(up) - function(down)) / (2 * step)
    return found


@pytest.mark.parametrize("missing", [0.0, 0.4])
@pytest.mark.parametrize("edge_features", [None, 2])
def test_the_gradient_of_the_chain_likelihood_equals_finite_differences(missing, edge_features):
    X, y = numbers(8, edge_features=edge_features, missing=missing)
    known = Labels.of(y)
    data = LabelledSequences.of(X, Features.of(*chain_parts(X)), y, known)
    mask = np.random.default_rng(1).random((edge_features or 1, 3, 3)) < 0.8
    layout = WeightLayout.of(np.ones((3, 3), bool), mask)
    objective = objective_of(layout, ChainLikelihood())
    weights = np.random.default_rng(2).standard_normal(layout.count)
    value, gradient = objective.evaluate(weights, data)
    assert value == pytest.approx(objective.value(weights, data))
    assert gradient == pytest.approx(differences(lambda w: objective.value(w, data), weights), abs=1e-8)


@pytest.mark.parametrize("missing", [0.0, 0.4])
@pytest.mark.parametrize("symmetric", [False, True])
def test_chains_as_graphs_have_the_same_likelihood_and_gradient(missing, symmetric):
    X, y = numbers(6, edge_features=2, missing=missing)
    known = Labels.of(y)
    chains = LabelledSequences.of(X, Features.of(*chain_parts(X)), y, known)
    as_graphs = [(x, [(t, t + 1) for t in range(len(x) - 1)], z) for x, z in X]
    graphs = Graphs.of(as_graphs, Features.of(*graph_parts(as_graphs)[::2]), 3, y, known)
    layout = WeightLayout.of(np.ones((3, 3), bool), np.ones((2, 3, 3), bool), symmetric=symmetric)
    assert layout.count == 9 + 2 * (6 if symmetric else 9)
    weights = np.random.default_rng(2).standard_normal(layout.count)
    of_chains = objective_of(layout, ChainLikelihood()).evaluate(weights, chains)
    source = GraphLikelihood(Oracle("junction-tree", warm=False))
    of_graphs = objective_of(layout, source).evaluate(weights, graphs)
    assert of_chains[0] == pytest.approx(of_graphs[0])
    assert of_chains[1] == pytest.approx(of_graphs[1])


def test_the_gradient_on_graphs_with_loops_equals_finite_differences():
    rng = np.random.default_rng(3)
    square = [(0, 1), (1, 2), (2, 3), (3, 0)]
    X = [(rng.standard_normal((4, 2)), square) for _ in range(4)] + [(rng.standard_normal((1, 2)), [])]
    y = [rng.integers(0, 2, len(x[0])).tolist() for x in X]
    y[1][2] = None
    data = Graphs.of(X, Features.of(*graph_parts(X)[::2]), 2, y, Labels.of(y))
    layout = WeightLayout.of(np.ones((2, 2), bool), np.ones((1, 2, 2), bool), symmetric=True)
    objective = objective_of(layout, GraphLikelihood(Oracle("junction-tree", warm=False)))
    weights = rng.standard_normal(layout.count)
    _, gradient = objective.evaluate(weights, data)
    assert gradient == pytest.approx(differences(lambda w: objective.value(w, data), weights), abs=1e-8)


@pytest.mark.parametrize("support", ["all", "observed"])
def test_the_optimum_is_that_of_crfsuite(support):
    """Objective: sum of log-likelihoods less c2 ||w||^2; CRFsuite's weights are scored by our formula."""
    crfsuite = pytest.importorskip("sklearn_crfsuite")
    X, y = sentences(60)
    both = support == "all"
    peer = crfsuite.CRF(
        algorithm="lbfgs", c1=0.0, c2=0.2, max_iterations=3000, epsilon=1e-12, delta=1e-14,
        all_possible_states=both, all_possible_transitions=both,
    )  # fmt: skip
    peer.fit(X, y)
    mine = ChainCRF(prior="elastic(c2=0.2)", support=support, tol=1e-8, max_iter=3000).fit(X, y)
    row = {name: k for k, name in enumerate(mine.model_.node_features)}
    column = {label: k for k, label in enumerate(mine.classes_)}
    W, V = np.zeros_like(mine.model_.node_weights), np.zeros_like(mine.model_.edge_weights)
    for (name, label), weight in peer.state_features_.items():
        W[row[name], column[label]] = weight
    for (left, right), weight in peer.transition_features_.items():
        V[0, column[left], column[right]] = weight
    theirs = ChainCRF.from_model(mine.model_.with_weights(W, V))

    def objective(estimator):
        weights = np.concatenate(
            [estimator.model_.node_weights.ravel(), estimator.model_.edge_weights.ravel()]
        )
        return estimator.log_likelihood(X, y) - 0.2 * float(weights @ weights)

    assert objective(mine) == pytest.approx(objective(theirs), abs=1e-6)
    assert objective(mine) == pytest.approx(-peer.training_log_.last_iteration["loss"], abs=1e-5)
    assert mine.fit_.objective[-1] * len(X) == pytest.approx(objective(mine), abs=1e-8)
    if support == "all":
        assert mine.model_.node_weights == pytest.approx(W, abs=1e-4)
    unseen, _ = sentences(20, seed=5)
    for guess, other in zip(mine.predict_proba(unseen), peer.predict_marginals(unseen), strict=True):
        for t, row_of in enumerate(other):
            assert guess[t] == pytest.approx([row_of[c] for c in mine.classes_], abs=1e-4)
    assert [list(p) for p in mine.predict(unseen)] == [list(p) for p in peer.predict(unseen)]


def test_crfsuite_agrees_on_a_penalty_of_absolute_values():
    crfsuite = pytest.importorskip("sklearn_crfsuite")
    X, y = sentences(40)
    peer = crfsuite.CRF(
        algorithm="lbfgs", c1=1.0, c2=0.05, max_iterations=3000, epsilon=1e-9, delta=1e-12,
        all_possible_states=True, all_possible_transitions=True,
    )  # fmt: skip
    peer.fit(X, y)
    mine = ChainCRF(prior="elastic(c1=1.0,c2=0.05)", tol=1e-7, max_iter=3000).fit(X, y)
    assert -mine.fit_.objective[-1] * len(X) <= peer.training_log_.last_iteration["loss"] + 1e-4
    assert -mine.fit_.objective[-1] * len(X) == pytest.approx(
        peer.training_log_.last_iteration["loss"], rel=1e-3
    )
    assert (mine.model_.node_weights == 0).mean() > 0.3


def test_dense_and_sparse_features_give_the_same_field():
    X, first = numbers(20)
    dense = ChainCRF().fit(X, first)
    for form in (sparse.csr_matrix, sparse.coo_array):
        other = ChainCRF().fit([form(x) for x in X], first)
        assert other.model_.node_weights == pytest.approx(dense.model_.node_weights, abs=1e-9)
    pairs, y = numbers(20, edge_features=2)
    one = ChainCRF().fit(pairs, y)
    two = ChainCRF().fit([(x, sparse.csr_array(z)) for x, z in pairs], y)
    assert two.model_.edge_weights == pytest.approx(one.model_.edge_weights, abs=1e-8)
    assert len(one.predict(pairs)) == 20
    assert dense.classes_.tolist() == sorted({label for labels in first for label in labels})


def test_predictions_equal_inference_on_the_factor_graph():
    X, y = sentences(40)
    crf = ChainCRF().fit(X, y)
    for x, labels, marginals in zip(X[:6], crf.predict(X[:6]), crf.predict_proba(X[:6]), strict=True):
        net = crf.model_.instantiate(x)
        best = credo.infer(net, "junction-tree", maximise="all").assignment
        assert labels.tolist() == list(best.values())
        assert marginals.ravel() == pytest.approx(credo.infer(net, "junction-tree").marginals.flat)
    assert crf.score(X, y) > 0.7
    held, wanted = sentences(40, seed=3)
    assert crf.score(held, wanted) > 0.5


def test_graphs_of_chains_learn_what_the_chain_estimator_learns():
    X, y = numbers(15)
    chain = ChainCRF(tol=1e-7).fit(X, y)
    graph = GraphCRF(inference="junction-tree", tol=1e-7).fit(X, y)
    assert graph.model_.node_weights == pytest.approx(chain.model_.node_weights, abs=1e-4)
    assert graph.fit_.objective[-1] == pytest.approx(chain.fit_.objective[-1], abs=1e-8)
    assert graph.log_likelihood(X, y) == pytest.approx(chain.log_likelihood(X, y), abs=1e-6)
    assert [a.tolist() for a in graph.predict(X)] == [a.tolist() for a in chain.predict(X)]
    by_nodes = graph.set_params(decode="marginals").predict(X)
    assert by_nodes[0].tolist() == chain.classes_[chain.predict_proba(X)[0].argmax(axis=1)].tolist()


def grids(count, seed=0):
    """Noisy images of two stripes on 4 x 4 grids."""
    rng = np.random.default_rng(seed)
    at = np.arange(16).reshape(4, 4)
    across = np.stack([at[:, :-1].ravel(), at[:, 1:].ravel()], axis=1)
    edges = np.concatenate([across, np.stack([at[:-1].ravel(), at[1:].ravel()], axis=1)])
    X, y = [], []
    for _ in range(count):
        image = np.zeros((4, 4), int)
        image[:, rng.integers(4) :] = 1
        noisy = image + rng.normal(0, 0.7, image.shape)
        X.append((np.stack([noisy.ravel(), np.ones(16)], axis=1), edges))
        y.append(["in" if v else "out" for v in image.ravel()])
    return X, y


@pytest.mark.parametrize(("inference", "decode"), [("junction-tree", "map"), ("bp", "marginals")])
@pytest.mark.filterwarnings("ignore::credo.core.errors.ConvergenceWarning")
def test_grids_are_labelled_better_with_neighbours_than_without(inference, decode):
    X, y = grids(15)
    held, wanted = grids(15, seed=1)
    options = {"symmetric": True, "max_iter": 30, "tol": 1e-3}
    field = GraphCRF(inference=inference, decode=decode, **options).fit(X, y)
    alone = GraphCRF(inference="junction-tree", **options).fit([(x, []) for x, _ in X], y)
    assert field.score(held, wanted) > alone.score([(x, []) for x, _ in held], wanted) + 0.05
    assert field.model_.edge_weights[0] == pytest.approx(field.model_.edge_weights[0].T)


def test_missing_labels_are_summed_out():
    X, y = numbers(60, seed=4)
    rng = np.random.default_rng(0)
    holes = [[None if rng.random() < 0.3 else v for v in labels] for labels in y]
    full, part = ChainCRF().fit(X, y), ChainCRF(random_state=0).fit(X, holes)
    assert (np.diff(part.fit_.objective) > -1e-12).all()
    assert part.score(X, y) > full.score(X, y) - 0.1
    assert part.log_likelihood(X, holes) == pytest.approx(part.fit_.log_likelihood.value)


def test_batches_early_stopping_and_curves():
    X, y = sentences(60)
    exact = ChainCRF().fit(X, y)
    learner = ChainCRF(
        optimiser="adam(rate=0.1,decay=0.1)",
        batch=10,
        max_iter=60,
        tol=1e-3,
        validation=0.2,
        patience=5,
        random_state=0,
    )
    found = learner.fit(X, y)
    assert len(found.fit_.trace["validation"]) == len(found.fit_.objective)
    assert found.score(X, y) > exact.score(X, y) - 0.05


def test_it_works_inside_scikit_learn():
    search = pytest.importorskip("sklearn.model_selection")
    base = pytest.importorskip("sklearn.base")
    X, y = sentences(30)
    copy = base.clone(ChainCRF(prior="gaussian(scale=3)"))
    assert repr(copy) == "ChainCRF(prior='gaussian(scale=3)')" and copy.set_params(max_iter=9).max_iter == 9
    with pytest.raises(pytest.importorskip("sklearn.exceptions").NotFittedError, match="is not fitted yet"):
        copy.predict(X)
    folds = search.KFold(3)
    grid = search.GridSearchCV(ChainCRF(), {"prior": ["gaussian(scale=0.01)", "gaussian(scale=2)"]}, cv=folds)
    grid.fit(X, y)
    assert grid.best_params_ == {"prior": "gaussian(scale=2)"} and grid.best_estimator_.converged_
    again = pickle.loads(pickle.dumps(grid.best_estimator_))
    assert [p.tolist() for p in again.predict(X)] == [p.tolist() for p in grid.predict(X)]
    tags = pytest.importorskip("sklearn.utils").get_tags(copy)
    assert not tags.input_tags.two_d_array and tags.target_tags.required


def test_frames_tell_the_names_of_their_columns():
    X = [pd.DataFrame({"a": [0.0, 1, 0], "b": [1.0, 1, 2]}), pd.DataFrame({"a": [0.0, 1], "b": [1.0, 1]})]
    y = [["u", "v", "u"], ["u", "v"]]
    for kind in (ChainCRF, GraphCRF):
        found = kind().fit(X, y)
        assert list(found.feature_names_in_) == ["a", "b"] and found.n_features_in_ == 2
        assert [part.tolist() for part in found.predict(X)] == y
        with pytest.raises(DataError, match="Feature names unseen at fit time:\n- c"):
            found.predict([X[0].rename(columns={"b": "c"})])


def test_a_run_goes_on_from_its_checkpoint(tmp_path):
    X, y = sentences(12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        ChainCRF(max_iter=3).fit(X, y, checkpoint=tmp_path / "run.credo")
    found = ChainCRF().fit(X, y, checkpoint=tmp_path / "run.credo")
    np.testing.assert_array_equal(found.model_.node_weights, ChainCRF().fit(X, y).model_.node_weights)


def test_a_field_is_saved_loaded_and_predicts_the_same(tmp_path):
    X, y = sentences(20)
    crf = ChainCRF().fit(X, y)
    credo.save(crf.model_, tmp_path / "field.json")
    loaded = ChainCRF.from_model(credo.load(tmp_path / "field.json"))
    assert [p.tolist() for p in loaded.predict(X)] == [p.tolist() for p in crf.predict(X)]
    graph = GraphCRF.from_model(credo.load(tmp_path / "field.json"), "junction-tree")
    assert [p.tolist() for p in graph.predict(X[:5])] == [p.tolist() for p in crf.predict(X[:5])]


def test_empty_items_and_labels_of_any_kind_are_read():
    rows = np.eye(2)
    chain = ChainCRF().fit([[], rows, rows[:1]], [[], [("a", 1), ("b", 2)], [("a", 1)]])
    assert [p.tolist() for p in chain.predict([[], rows])] == [[], [("a", 1), ("b", 2)]]
    graph = GraphCRF().fit([rows, ([], [])], [["a", "b"], []])
    assert [p.tolist() for p in graph.predict([([], []), rows])] == [[], ["a", "b"]]
    missing = type("NAType", (), {})()  # as in pandas
    part = ChainCRF().fit([rows, rows], [["a", missing], ["a", "b"]])
    assert part.classes_.tolist() == ["a", "b"] and part.score([rows], [["a", missing]]) == 1.0
    assert ChainCRF().fit(np.stack([rows, rows]), [[0, 1], [0, 1]]).score([rows], [[0, 1]]) == 1.0


@pytest.mark.parametrize("form", [ChainCRF, GraphCRF])
def test_edge_features_may_be_dictionaries(form):
    pairs, y = numbers(12, edge_features=2, seed=3)
    named = [(x, [{"a": r[0], "b": r[1]} for r in z]) for x, z in pairs]
    if form is GraphCRF:
        pairs, named = ([(x, None, z) for x, z in items] for items in (pairs, named))
    one, other = form().fit(pairs, y), form().fit(named, y)
    assert other.model_.edge_features == ("a", "b")
    assert np.allclose(one.model_.edge_weights, other.model_.edge_weights)
    assert [p.tolist() for p in one.predict(pairs)] == [p.tolist() for p in other.predict(named)]


def test_ctrl_c_keeps_the_field_learned_so_far(monkeypatch):
    real, calls = ChainLikelihood.evaluate, []

    def interrupted(self, weights, data):
        calls.append(1)
        if len(calls) > 6:
            raise KeyboardInterrupt
        return real(self, weights, data)

    monkeypatch.setattr(ChainLikelihood, "evaluate", interrupted)
    X, y = sentences(20)
    with pytest.warns(ConvergenceWarning, match="ChainCRF: the run was stopped by hand"):
        crf = ChainCRF().fit(X, y)
    assert crf.fit_.status is Status.INTERRUPTED
    assert crf.score(X, y) > 0.4


X2, Y2 = numbers(3)
REFUSALS = [
    (lambda: ChainCRF().fit([], []), "X: expected at least one sequence or graph, got none"),
    (lambda: ChainCRF().fit("abc", []), "X: expected a list of sequences or graphs, got str"),
    (lambda: ChainCRF().fit(X2, Y2[:2]), "y: expected 3 lists of labels, one per item of X, got 2"),
    (lambda: ChainCRF().fit(X2, 3), "y: expected 3 lists of labels, one per item of X, got int"),
    (lambda: ChainCRF().fit(X2, [[1]] * 3), "labels of item 0: expected"),
    (lambda: ChainCRF().fit([np.ones((2, 1))], ["ab"]), "labels of item 0: expected a list, got 'ab'"),
    (lambda: ChainCRF().fit([np.ones((1, 1))], [[None]]), "labels: expected at least one, got none"),
    (
        lambda: ChainCRF().fit([np.ones((1, 1)), np.ones((1, 2))], [[0], [1]]),
        "expected an array of shape (rows, 1), got (1, 2)",
    ),
    (
        lambda: ChainCRF().fit([np.full((1, 1), np.nan)], [[0]]),
        "node features of item 0: expected finite numbers",
    ),
    (
        lambda: ChainCRF().fit([(np.ones((2, 1)), np.ones((2, 1)))], [[0, 1]]),
        "edge features of item 0: expected 1 rows",
    ),
    (lambda: ChainCRF().fit([(np.ones((1, 1)), None)], [[0]]), "item 0: expected node features, or a pair"),
    (
        lambda: ChainCRF().fit([(np.ones((1, 1)), np.ones((0, 1))), np.ones((1, 1))], [[0], [1]]),
        "edge features: expected them for all sequences",
    ),
    (lambda: ChainCRF().fit([[{"a": 1}, 3]], [[0, 1]]), "features: expected dictionaries throughout, got 3"),
    (lambda: ChainCRF(support="some").fit(X2, Y2), "support must be one of ['all', 'observed'], got 'some'"),
    (lambda: ChainCRF(validation=2).fit(X2, Y2), "validation must be in [0, 1), got 2"),
    (
        lambda: ChainCRF(validation=0.5).fit([np.ones((1, 1))], [[0]]),
        "validation: expected at least two units",
    ),
    (lambda: ChainCRF(batch=2).fit(X2, Y2), "batch: lbfgs uses all rows at each step"),
    (lambda: ChainCRF().set_params(c3=1), "ChainCRF has no option 'c3'; its options are"),
    (lambda: ChainCRF().predict(X2), "this ChainCRF is not fitted yet; call fit first"),
    (lambda: ChainCRF.from_model(3), "from_model: expected a CRF, got int"),
    (
        lambda: ChainCRF().fit(X2, Y2).log_likelihood(X2, [["z"] * len(v) for v in Y2]),
        "labels of item 0: 'z' at node 0 is none of the field's; the labels are",
    ),
    (lambda: ChainCRF().fit(X2, Y2).score(X2, Y2[:2]), "y: expected 3 lists of labels"),
    (lambda: ChainCRF().fit(X2, Y2).score(X2, [v[1:] for v in Y2]), "labels of item 0: expected"),
    (
        lambda: ChainCRF().fit(X2, Y2).score(X2, [[None] * len(v) for v in Y2]),
        "y: expected at least one known label",
    ),
    (
        lambda: GraphCRF().fit([(np.ones((2, 1)), [(0, 5)])], [[0, 1]]),
        "item 0: edges: expected positions in [0, 2)",
    ),
    (
        lambda: GraphCRF().fit([(np.ones((2, 1)), [(0, 1)], np.ones((2, 1)))], [[0, 1]]),
        "edge features of item 0: expected 1 rows, one per edge, got 2",
    ),
    (
        lambda: (
            GraphCRF().fit([([[1.0], [2.0]], None, [{"far": 1}])], [[0, 1]]).predict([([[1.0], [2.0]], None)])
        ),
        "edge features: expected 1 per step, got none",
    ),
    (
        lambda: ChainCRF().fit([([[1.0], [2.0]], [{"far": 1}])], [[0, 1]]).predict([[[1.0], [2.0]]]),
        "edge features: expected 1 per step, got none",
    ),
    (
        lambda: ChainCRF().fit(X2, Y2).score(X2, [None, *Y2[1:]]),
        "labels of item 0: expected a list, got None",
    ),
    (
        lambda: ChainCRF().fit(X2, Y2).score(X2, 3),
        "y: expected 3 lists of labels, one per item of X, got int",
    ),
    (lambda: GraphCRF(symmetric="yes").fit(X2, Y2), "symmetric must be one of [False, True], got 'yes'"),
    (lambda: ChainCRF().fit(X2, [None, *Y2[1:]]), "labels of item 0: expected a list, got None"),
    (lambda: ChainCRF().fit(X2, [[[]] * len(v) for v in Y2]), "labels: expected texts, numbers or other"),
    (
        lambda: ChainCRF().fit([np.ones((2, 1))], [[1, "1"]]),
        "labels: expected values that differ when written",
    ),
    (
        lambda: ChainCRF().fit([[{"a": 1.0}], [{"a": np.nan}]], [[0], [1]]),
        "node features of item 1: expected finite numbers",
    ),
    (
        lambda: GraphCRF().fit([(np.ones((2, 1)), [(0, 1)], 3, 4)], [[0, 1]]),
        "item 0: expected (node features, edges)",
    ),
    (
        lambda: GraphCRF(inference="mean-field").fit([(np.ones((2, 1)), [(0, 1)])], [[0, 1]]),
        "decode='map' cannot be done by mean-field: it gives marginals and log Z, and",
    ),
    (
        lambda: GraphCRF.from_model(
            CRF(["a", "b"], np.ones((1, 2)), np.ones((1, 2, 2))), "mean-field"
        ).predict([(np.ones((2, 1)), [(0, 1)])]),
        "use decode='marginals', or an inference that maximises",
    ),
    (
        lambda: GraphCRF(decode="best").fit(X2, Y2),
        "decode must be one of ['annealed', 'auto', 'joint-map', 'map', 'marginal-map', ",
    ),
]


@pytest.mark.parametrize(("call", "message"), REFUSALS, ids=[m[:60] for _, m in REFUSALS])
def test_refusals_say_what_was_expected_and_what_came(call, message):
    with pytest.raises(CredoError, match=re.escape(message)):
        call()


def test_edge_features_are_demanded_where_they_were_learned():
    pairs, y = numbers(10, edge_features=2)
    crf = ChainCRF().fit(pairs, y)
    with pytest.raises(CredoError, match="edge features: expected 2 per step, got none"):
        crf.predict([x for x, _ in pairs])
    with pytest.raises(QueryError, match="not fitted"):
        GraphCRF().predict(pairs)


@pytest.mark.parametrize("as_graphs", [False, True])
@pytest.mark.parametrize("edge_features", [None, 2])
def test_the_pseudolikelihood_of_labels_equals_enumeration_and_its_gradient_differences(
    edge_features, as_graphs
):
    X, y = numbers(5, edge_features=edge_features, seed=1)
    items = [x if isinstance(x, tuple) else (x, None) for x in X]
    crf = CRF().filled([(x, None, z) for x, z in items], y)
    batch = crf.read_batch([(x, None, z) for x, z in items], y)
    batch = batch.as_graphs(len(crf.labels)) if as_graphs else batch
    weights = crf.score_weights(batch)
    objective = Objective(weights, LabelPseudolikelihood())
    theta = np.random.default_rng(2).standard_normal(len(weights.start))

    def by_enumeration(theta):
        field, total = weights.model(theta), 0.0
        for (x, z), labels in zip(items, y, strict=True):
            graph = field.instantiate((x, None, z)).to_factor_graph()
            states = np.array([field.labels.index(str(v)) for v in labels])
            for i in range(len(states)):
                others = np.repeat(states[None], len(field.labels), axis=0)
                others[:, i] = np.arange(len(field.labels))
                logs = graph.log_scores(others)
                total += logs[states[i]] - np.logaddexp.reduce(logs)
        return total / len(y)

    value, gradient = objective.evaluate(theta, batch)
    assert value == pytest.approx(by_enumeration(theta), abs=1e-10)
    assert gradient == pytest.approx(differences(by_enumeration, theta), abs=1e-7)


def test_a_blank_field_learns_from_a_dataset_an_array_or_lists_as_the_estimator_does():
    X, y = sentences(12)
    mine = ChainCRF(prior="gaussian(scale=2)").fit(X, y).model_
    how = {"prior": "gaussian(scale=2)", "tol": 1e-5}
    by_lists = credo.fit(CRF(), X, targets=y, **how)
    by_data = credo.fit(CRF(), credo.data.read(X, targets=y), **how)
    for found in (by_lists, by_data):
        assert found.learner.startswith("likelihood")
        assert found.model.labels == mine.labels and found.model.node_features == mine.node_features
        assert np.allclose(found.model.node_weights, mine.node_weights)
    again = credo.fit(by_lists, X, targets=y, tol=1e-5)
    assert len(again.objective) <= 2, "it goes on from what it found"
    assert credo.log_likelihood(by_data.model, credo.data.read(X, targets=y)).value == pytest.approx(
        by_lists.log_likelihood.value, abs=0.01
    )
    pseudo = credo.fit(CRF(), X, "pseudolikelihood", targets=y, prior="gaussian(scale=2)")
    assert abs(pseudo.model.node_weights - mine.node_weights).max() < 2


def test_a_blank_field_shows_what_it_lacks(tmp_path):
    blank = CRF(symmetric=True)
    assert repr(blank) == "CRF(no labels, no features yet: fit it first)"
    credo.save(blank, tmp_path / "blank.credo")
    assert credo.load(tmp_path / "blank.credo") == blank
    X, y = numbers(4)
    for ask in (
        lambda: credo.infer(blank, data=X),
        lambda: credo.predict(blank, X),
        lambda: blank.labels,
        lambda: blank.node_weights,
    ):
        with pytest.raises(CredoError, match="this CRF is a blank, it has no labels and weights; fit it"):
            ask()
    for wrong, sentence in (
        (lambda: credo.fit(blank, X), "targets: expected the labels that were observed, got none"),
        (
            lambda: credo.fit(blank, X, targets=y, labels="a"),
            "labels: a CRF has no hidden rows; give targets",
        ),
        (lambda: credo.fit(blank, X, targets=y, weights=[1, 2, 1, 1]), "every unit of a CRF counts once"),
        (lambda: credo.fit(blank, X, "em", targets=y), "a CRF is no Learnable"),
        (lambda: credo.fit(blank, X, "contrastive-divergence", targets=y), "got CRF"),
        (lambda: credo.fit(blank, X, targets=y, fixed=(1,)), "CRF says itself which of its weights are one"),
        (lambda: credo.fit(credo.HMM.gaussian(2), X, targets=y), "only random fields have labels beside"),
        (lambda: CRF(["a"]), "expected labels, node_weights and edge_weights, or none of them"),
        (lambda: CRF(node_features=["a"]), "a blank CRF gets its features from data"),
        (
            lambda: credo.fit(blank, X, "pseudolikelihood", targets=[[None] * len(x) for x in X[:3]] + y[3:]),
            "the data lack the label of node 0; use likelihood",
        ),
        (
            lambda: credo.fit(blank, X, "likelihood(gradient=log_z)", targets=y),
            "the gradient of a CRF comes from marginals; leave out gradient",
        ),
    ):
        with pytest.raises(CredoError, match=re.escape(sentence)):
            wrong()
