"""Trees whose pair probabilities are integrated out: the graph, the closed form, and inference by `bethe`."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from scipy.stats import dirichlet

import credo
from credo.core.errors import ConvergenceWarning, ModelError, OptionError, QueryError
from credo.models.bayesian_tree import BayesianTree

STATES = {"a": 2, "b": 2, "c": 3}
EDGES = [("a", "b"), ("b", "c")]
PRIOR = {("a", "b"): [[1.0, 2.0], [0.5, 1.5]], ("b", "c"): [[2.0, 1.0, 1.0], [0.7, 1.2, 3.0]]}
DATA = np.array([[0, 1, 2], [1, 1, 0], [0, 1, 1], [1, 0, 2]])


def _model(rows=4, shared=True):
    return BayesianTree(STATES, EDGES, rows, concentration=PRIOR, shared=shared)


def _run(model, method, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return credo.infer(model, method, seed=0, **options)


@pytest.mark.parametrize("shared", [True, False])
def test_the_graph_scores_data_and_chances_by_the_formula(shared):
    model, rng = _model(2, shared), np.random.default_rng(0)
    graph = model.to_factor_graph()
    chances = {}
    expected = 0.0
    for e, edge in enumerate(EDGES):
        alpha = np.ravel(PRIOR[edge])
        for d in range(1 if shared else 2):
            theta = rng.dirichlet(alpha)
            chances[model.theta(e, d)] = theta
            expected += dirichlet.logpdf(theta, alpha)
        for d in range(2):
            i, j = (list(STATES).index(name) for name in edge)
            theta = chances[model.theta(e, d)]
            expected += np.log(theta[DATA[d, i] * STATES[edge[1]] + DATA[d, j]])
    assignment = {**model.evidence(DATA[:2]), **chances}
    assert graph.log_score(assignment) == pytest.approx(expected)
    assert sum(len(f.scope) == 3 for f in graph.factors) == 4


def test_the_closed_form_is_the_integral():
    rng = np.random.default_rng(1)
    for shared in (True, False):
        total = 0.0
        for edge in EDGES:
            alpha = np.ravel(PRIOR[edge])
            i, j = (list(STATES).index(name) for name in edge)
            joint = DATA[:, i] * STATES[edge[1]] + DATA[:, j]
            theta = rng.dirichlet(alpha, size=400_000)
            if shared:
                total += np.log(theta[:, joint].prod(axis=1).mean())
            else:
                total += sum(np.log(theta[:, x].mean()) for x in joint)
        assert _model(4, shared).log_evidence(DATA) == pytest.approx(total, abs=0.02)
    # One datum: both are the same.
    one = [_model(1, shared).log_evidence(DATA[:1]) for shared in (True, False)]
    assert one[0] == pytest.approx(one[1])


def test_chow_liu_gives_the_edges():
    rng = np.random.default_rng(0)
    a = rng.integers(2, size=200)
    data = {"a": a, "b": np.where(rng.random(200) < 0.9, a, 1 - a), "c": (a + rng.integers(2, size=200)) % 3}
    edges = credo.fit(credo.BayesNet.from_edges(), data, "chow-liu").model.edges
    model = BayesianTree(STATES, edges, 200, shared=True)
    rows = np.stack([data[n] for n in STATES], axis=1)
    other = BayesianTree(STATES, [("b", "c"), ("c", "a")], 200, shared=True)
    assert model.log_evidence(rows) > other.log_evidence(rows)


def test_bethe_finds_the_evidence_and_the_posterior_of_complete_data():
    model = _model()
    found = _run(model, "bethe(components=1, samples=20)", evidence=model.evidence(DATA), max_iter=400)
    assert found.log_z.value == pytest.approx(model.log_evidence(DATA), abs=0.01)
    for e, (first, second) in enumerate(EDGES):
        i, j = list(STATES).index(first), list(STATES).index(second)
        counts = np.bincount(
            DATA[:, i] * STATES[second] + DATA[:, j], minlength=STATES[first] * STATES[second]
        )
        posterior = np.ravel(PRIOR[EDGES[e]]) + counts
        np.testing.assert_allclose(
            found.marginals[model.theta(e)].mean, posterior / posterior.sum(), atol=0.01
        )


@pytest.mark.slow
def test_bethe_with_several_components_sums_over_what_is_missing():
    model = _model()
    data = DATA.copy()
    data[1, 1] = -1
    terms = []
    for b in range(2):
        data[1, 1] = b
        terms.append(model.log_evidence(data))
    data[1, 1] = -1
    exact = np.logaddexp.reduce(terms)
    one, more = (
        _run(model, f"bethe(components={m}, samples=20)", evidence=model.evidence(data)).log_z.value
        for m in (1, 3)
    )
    assert one < exact + 0.01
    assert more == pytest.approx(exact, abs=0.03)
    # Each datum with a theta of its own, nothing observed: the sum over x of products of prior means.
    own = _model(1, shared=False)
    whole = np.logaddexp.reduce(
        [own.log_evidence([x]) for x in itertools.product(range(2), range(2), range(3))]
    )
    assert _run(own, "bethe(components=1)").log_z.value < whole + 0.01


def test_refusals():
    with pytest.raises(QueryError, match="expected complete data"):
        _model(1).log_evidence([[0, -1, 0]])
    with pytest.raises(QueryError, match="row 0 has state 3 of 'c'"):
        _model(1).evidence([[0, 0, 3]])
    with pytest.raises(QueryError, match="shape"):
        _model(2).evidence([[0, 0, 0]])
    with pytest.raises(ModelError, match="two different variables"):
        BayesianTree(STATES, [("a", "a")])
    with pytest.raises(ModelError, match="different pairs"):
        BayesianTree(STATES, [("a", "b"), ("b", "a")])
    with pytest.raises(ModelError, match="edges that close a cycle"):
        BayesianTree(STATES, [("a", "b"), ("b", "c"), ("c", "a")])
    with pytest.raises(ModelError, match="expected a table for the edge"):
        BayesianTree(STATES, EDGES, concentration={("a", "b"): 1.0})
    with pytest.raises(ModelError, match="positive numbers of shape"):
        BayesianTree(STATES, EDGES, concentration=-1.0)
    with pytest.raises(ModelError, match="expected a discrete one"):
        BayesianTree({"a": 2, "x": credo.Real()}, [])


def test_there_is_no_half_row():
    with pytest.raises(OptionError, match=r"rows must be a whole number, got 1\.5"):
        BayesianTree({"a": 2, "b": 2}, [("a", "b")], rows=1.5)
