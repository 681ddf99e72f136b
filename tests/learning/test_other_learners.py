"""Pseudolikelihood, contrastive divergence and iterative proportional fitting."""

from __future__ import annotations

import re

import numpy as np
import pytest

import credo
from credo import FactorGraph, MarkovNet
from credo.core.errors import ConvergenceWarning, CredoError, UnsupportedError
from credo.core.result import Status
from credo.data.table import StateTable
from credo.learning import fit, log_likelihood
from credo.learning.expectations import Oracle

QUIET = pytest.mark.filterwarnings("ignore::credo.core.errors.ConvergenceWarning")


def grid(n=3, seed=0):
    truth = credo.datasets.ising_grid(n, coupling="normal(scale=0.6)", field="normal(scale=0.4)", seed=seed)
    graph = truth.to_factor_graph()
    spin = np.array([-1.0, 1.0])
    features = [
        (graph.scope_of(a)[None, :], np.outer(spin, spin) if len(graph.scope_of(a)) == 2 else spin, a)
        for a in range(graph.n_factors)
    ]
    weights = [float(graph.log_table(a).flat[-1]) for a in range(graph.n_factors)]
    return MarkovNet.log_linear(truth.variables, features, weights)


def test_the_pseudolikelihood_is_consistent():
    """Its error shrinks like one over the root of the rows, here by the factor 4 from 500 to 8000 rows."""
    truth = grid()
    start = truth.with_weights(np.zeros_like(truth.weights))
    errors = []
    for rows in (500, 8000):
        distances = []
        for seed in range(3):
            found = fit(start, credo.sample(truth, rows, seed=seed), "pseudolikelihood", tol=1e-8)
            assert found.status is Status.CONVERGED
            distances.append(np.abs(found.model.weights - truth.weights).mean())
        errors.append(np.mean(distances))
    assert errors[1] < 0.06
    assert 2.5 < errors[0] / errors[1] < 6.5


def test_the_pseudolikelihood_never_falls_and_is_recorded():
    truth = grid()
    start = truth.with_weights(np.zeros_like(truth.weights))
    data, held = credo.sample(truth, 300, seed=0), credo.sample(truth, 300, seed=1)
    found = fit(start, data, "pseudolikelihood(prior=gaussian(scale=1))", validation=held)
    assert (np.diff(found.objective) > -1e-12).all()
    assert set(found.trace) == {"objective", "pseudolikelihood", "gradient", "seconds", "validation"}
    assert found.log_likelihood is None
    exact = fit(start, data, "likelihood(prior=gaussian(scale=1))")
    assert log_likelihood(found.model, data).value > exact.log_likelihood.value - 20


def test_pseudolikelihood_of_independent_variables_is_the_likelihood():
    model = MarkovNet({"a": 2, "b": 3}, {("a",): [1, 1], ("b",): [1, 1, 1]})
    data = {"a": [0, 1, 1, 1], "b": [0, 1, 2, 2]}
    pseudo, exact = fit(model, data, "pseudolikelihood"), fit(model, data)
    assert pseudo.objective[-1] == pytest.approx(exact.objective[-1], abs=1e-9)


@QUIET
@pytest.mark.parametrize(
    "options", ["sweeps=3", "persistent=true,particles=300,sweeps=2", "optimiser=sgd(rate=0.2,decay=0.02)"]
)
def test_contrastive_divergence_comes_near_the_likelihood(options):
    truth = grid()
    start = truth.with_weights(np.zeros_like(truth.weights))
    data = credo.sample(truth, 2000, seed=0)
    best = fit(start, data).log_likelihood.value
    first = log_likelihood(start, data).value
    learner = f"contrastive-divergence({options})"
    found = fit(start, data, learner, max_iter=30, seed=1)
    again = fit(start, data, learner, max_iter=30, seed=1)
    assert np.array_equal(found.model.weights, again.model.weights)
    assert log_likelihood(found.model, data).value > best - 0.05 * (best - first)
    assert len(found.trace["pseudolikelihood"]) == len(found.objective)


@QUIET
def test_contrastive_divergence_fills_in_missing_values():
    truth = grid(2)
    start = truth.with_weights(np.zeros_like(truth.weights))
    rows = credo.sample(truth, 1000, seed=0).indices.copy()
    rows[np.random.default_rng(0).random(rows.shape) < 0.2] = -1
    rows = rows[(rows >= 0).any(axis=1)]
    data = StateTable.from_states(truth.variables, rows)
    learner = "contrastive-divergence(sweeps=5,optimiser=adam(rate=0.1,decay=0.1))"
    found = fit(start, data, learner, max_iter=30, seed=0, validation=0.1)
    assert len(found.trace["score_difference"]) == len(found.trace["validation"])
    best = fit(start, data, tol=1e-4).log_likelihood.value
    assert log_likelihood(found.model, data).value > best - 30


def tables(seed=0):
    rng = np.random.default_rng(seed)
    scopes = {("a", "b"): (2, 3), ("b", "c"): (3, 2), ("c", "d"): (2, 2), ("d", "a"): (2, 2), ("b",): (3,)}
    return MarkovNet(
        {"a": 2, "b": 3, "c": 2, "d": 2}, {s: np.exp(rng.standard_normal(n)) for s, n in scopes.items()}
    )


def test_ipf_matches_all_marginals_and_reaches_the_maximum_of_the_likelihood():
    model = tables()
    data = StateTable.of(model.variables, credo.sample(tables(1), 400, seed=0))
    found = fit(model, data, "ipf", tol=1e-10, validation=credo.sample(tables(1), 100, seed=9))
    graph = found.model.to_factor_graph()
    frequencies = data.table_counts(graph) / data.total
    assert credo.infer(found.model, "enumerate").factor_marginals.flat == pytest.approx(frequencies, abs=1e-9)
    assert (np.diff(found.objective) > -1e-12).all()
    by_gradient = fit(model, data, tol=1e-8)
    assert found.log_likelihood.value == pytest.approx(by_gradient.log_likelihood.value, abs=1e-6)
    assert len(found.trace["validation"]) == len(found.objective)


def test_ipf_on_a_chain_is_done_after_two_sweeps():
    chain = MarkovNet({"a": 2, "b": 3, "c": 2}, {("a", "b"): np.ones((2, 3)), ("b", "c"): np.ones((3, 2))})
    data = {"a": [0, 0, 1, 1, 1], "b": [0, 1, 2, 2, 0], "c": [0, 1, 1, 0, 0]}
    assert len(fit(chain, data, "ipf").objective) <= 3


def test_ipf_gives_unseen_entries_weight_zero_unless_smoothed():
    model = MarkovNet({"a": 2, "b": 2}, {("a", "b"): np.ones((2, 2))})
    data = {"a": [0, 0, 1], "b": [0, 1, 1]}
    plain = credo.infer(fit(model, data, "ipf").model, "enumerate").factor_marginals[0]
    assert plain == pytest.approx(np.array([[1 / 3, 1 / 3], [0, 1 / 3]]))
    smooth = fit(model, data, "ipf(smoothing=1)")
    expected = np.array([[1.25, 1.25], [0.25, 1.25]]) / 4
    assert credo.infer(smooth.model, "enumerate").factor_marginals[0] == pytest.approx(expected)
    assert isinstance(fit(model.to_factor_graph(), data, "ipf").model, FactorGraph)


class _Fuse(Oracle):
    def _ask(self, *arguments):
        if self.runs >= 8:
            raise KeyboardInterrupt
        return super()._ask(*arguments)


def test_ctrl_c_keeps_what_ipf_found(monkeypatch):
    monkeypatch.setattr("credo.learning.ipf.Oracle", _Fuse)
    data = credo.sample(tables(1), 50, seed=0)
    with pytest.warns(ConvergenceWarning, match="stopped by hand"):
        found = fit(tables(), data, "ipf")
    assert found.status is Status.INTERRUPTED
    assert found.objective[-1] > found.objective[0]


def test_ipf_stops_by_budget():
    data = credo.sample(tables(1), 50, seed=0)
    with pytest.warns(ConvergenceWarning, match="max_iter was reached"):
        assert len(fit(tables(), data, "ipf", max_iter=1).objective) == 2
    with pytest.warns(ConvergenceWarning, match="the time given was used up"):
        assert fit(tables(), data, "ipf", seconds=0).status is Status.OUT_OF_TIME


SHARED = MarkovNet.from_graph(
    FactorGraph.from_arrays(np.full(3, 2), (np.array([[0, 1], [1, 2]]), np.ones((2, 2))))
)
HOLED = [{"a": 0, "b": 1, "c": 0, "d": 1}, {"a": 1}]
ROW = [[0, 0, 1, 1]]
REFUSALS = [
    (tables(), HOLED, "pseudolikelihood", "the data lack a value of 'b' in row 1; use likelihood"),
    (tables(), [{"a": 0, "b": 1, "c": 0}], "ipf", "the data lack a value of 'd' in row 0; use likelihood"),
    (grid(2), [[0, 0, 0, 1]], "ipf", "a log-linear model has shared weights; use likelihood"),
    (SHARED, [[0, 0, 1]], "ipf", "here factors share one; use likelihood"),
    (credo.datasets.sprinkler(), ROW, "contrastive-divergence", "tables of a BayesNet are conditional"),
    (tables(), ROW, "contrastive-divergence(sweeps=0)", "sweeps must be at least 1, got 0"),
    (tables(), ROW, "contrastive-divergence(particles=0)", "particles must be at least 1, got 0"),
    (tables(), ROW, "contrastive-divergence(optimiser=lbfgs)", "gradients are noisy; use adam"),
    (tables(), ROW, "ipf(smoothing=-1)", "smoothing must be at least 0, got -1"),
    (MarkovNet({"a": 2}, {("a",): [0, 1]}), [[1]], "ipf(smoothing=1)", "zero entries of the model stay zero"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("model", "data", "learner", "message"), REFUSALS, ids=[m[:40] for *_, m in REFUSALS]
)
def test_refusals_say_why(model, data, learner, message):
    with pytest.raises(CredoError, match=re.escape(message)):
        fit(model, data, learner)


def test_validation_data_must_be_complete_too():
    with pytest.raises(UnsupportedError, match="the validation data lack a value of 'b' in row 0"):
        fit(tables(), [[0, 0, 1, 1]], "pseudolikelihood", validation=[{"a": 0}])
