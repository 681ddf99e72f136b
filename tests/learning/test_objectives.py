"""Values against enumeration, gradients against finite differences, for every objective and model kind."""

from __future__ import annotations

import re

import numpy as np
import pytest

import credo
import zoo
from credo import FactorGraph, MarkovNet
from credo.core.errors import DataError, UnsupportedError
from credo.data.table import StateTable
from credo.learning.expectations import Oracle
from credo.learning.log_linear import ByDifferences, Objective
from credo.learning.parameters import Parameters
from credo.learning.table_sources import Contrastive, Likelihood, Pseudolikelihood

RNG = np.random.default_rng(4)


def log_linear():
    ring = np.stack([np.arange(5), (np.arange(5) + 1) % 5], axis=1)
    features = [
        (ring, np.eye(3), 0),
        (ring, RNG.standard_normal((3, 3)), 1),
        ("x0", [0.0, 1.0, -1.0], 2),
        (("x0", "x2"), RNG.standard_normal((3, 3)), None),
    ]
    return MarkovNet.log_linear(np.full(5, 3), features, [0.3, -0.4, 0.7])


def tables():
    rng = np.random.default_rng(1)
    scopes = {
        ("a", "b"): (2, 3),
        ("b", "c"): (3, 2),
        ("a", "c"): (2, 2),
        ("a", "b", "c"): (2, 3, 2),
        ("d",): (2,),
    }
    return MarkovNet(
        {"a": 2, "b": 3, "c": 2, "d": 2}, {s: np.exp(rng.standard_normal(n)) for s, n in scopes.items()}
    )


def with_zeros():
    return MarkovNet({"a": 2, "b": 2, "c": 2}, {("a", "b"): [[1, 2], [0, 1]], ("b", "c"): [[1, 0], [3, 1]]})


def shared():
    rng = np.random.default_rng(3)
    ring = np.stack([np.arange(4), (np.arange(4) + 1) % 4], axis=1)
    return MarkovNet.from_graph(
        FactorGraph.from_arrays(np.full(4, 2), (ring, np.exp(rng.standard_normal((2, 2)))))
    )


MODELS = {"log-linear": log_linear, "tables": tables, "zeros": with_zeros, "shared tables": shared}


def data_of(model, *, missing: float, rows: int = 12) -> StateTable:
    samples = credo.sample(model, rows, seed=2).indices
    rng = np.random.default_rng(5)
    holes = rng.random(samples.shape) < missing
    holes[:, -1] = False
    return StateTable.from_states(
        model.variables, np.where(holes, -1, samples), weights=rng.uniform(0.5, 2, rows)
    )


def log_weights(graph: FactorGraph) -> tuple[np.ndarray, np.ndarray]:
    states = np.array(list(np.ndindex(*graph.variables.sizes)))
    return states, graph.log_scores(states)


def differences(function, weights, step=1e-5):
    found = np.empty(len(weights))
    for k in range(len(weights)):
        up, down = weights.copy(), weights.copy()
        up[k] += step
        down[k] -= step
        found[k] = (function(up) - function(down)) / (2 * step)
    return found


@pytest.mark.parametrize("missing", [0.0, 0.4])
@pytest.mark.parametrize("kind", MODELS)
def test_the_likelihood_equals_enumeration_and_its_gradient_finite_differences(kind, missing):
    model = MODELS[kind]()
    data = data_of(model, missing=missing)
    parameters = Parameters.of(model)
    source = Likelihood(parameters.graph, Oracle("junction-tree"))
    objective = Objective(parameters, source)
    weights = parameters.start + 0.1 * np.random.default_rng(0).standard_normal(len(parameters.start))

    def by_enumeration(w):
        states, logs = log_weights(parameters.graph_at(w))
        total = 0.0
        for row, count in zip(data.states, data.counts, strict=True):
            match = ((states == row) | (row < 0)).all(axis=1)
            total += count * np.logaddexp.reduce(logs[match])
        return total / data.total - np.logaddexp.reduce(logs)

    value, gradient = objective.evaluate(weights, data)
    assert value == pytest.approx(by_enumeration(weights), abs=1e-10)
    assert gradient == pytest.approx(differences(by_enumeration, weights), abs=1e-8)
    by_log_z = ByDifferences(parameters, source)
    assert by_log_z.evaluate(weights, data)[1] == pytest.approx(gradient, abs=1e-8)


@pytest.mark.parametrize("kind", MODELS)
def test_the_pseudolikelihood_equals_enumeration_and_its_gradient_finite_differences(kind):
    model = MODELS[kind]()
    data = data_of(model, missing=0.0)
    parameters = Parameters.of(model)
    objective = Objective(parameters, Pseudolikelihood(parameters.graph))
    weights = parameters.start + 0.1

    def by_enumeration(w):
        graph, total = parameters.graph_at(w), 0.0
        for row, count in zip(data.states, data.counts, strict=True):
            for i in range(len(row)):
                others = np.repeat(row[None], graph.variables.sizes[i], axis=0)
                others[:, i] = np.arange(graph.variables.sizes[i])
                logs = graph.log_scores(others)
                total += count * (logs[row[i]] - np.logaddexp.reduce(logs))
        return total / data.total

    value, gradient = objective.evaluate(weights, data)
    assert value == pytest.approx(by_enumeration(weights), abs=1e-10)
    assert gradient == pytest.approx(differences(by_enumeration, weights), abs=1e-8)


@pytest.mark.parametrize("kind", ["log-linear", "tables"])
@pytest.mark.parametrize("persistent", [False, True])
def test_the_contrastive_gradient_equals_finite_differences_for_given_samples(kind, persistent):
    model = MODELS[kind]()
    data = data_of(model, missing=0.3)
    parameters = Parameters.of(model)
    source = Contrastive(parameters.graph, np.random.default_rng(0), sweeps=2, persistent=persistent)
    positive, negative = source.draw(parameters.tables(parameters.start), data)
    assert positive.is_complete
    assert negative.is_complete
    seen = data.states[data.row_of] >= 0
    assert (positive.states[positive.row_of][seen] == data.states[data.row_of][seen]).all()
    _, slopes = source.compare(parameters.tables(parameters.start), positive, negative)
    found = differences(
        lambda w: source.compare(parameters.tables(w), positive, negative)[0], parameters.start
    )
    assert parameters.pull(slopes) == pytest.approx(found, abs=1e-8)


def test_many_gibbs_sweeps_draw_from_the_model():
    model = tables()
    parameters = Parameters.of(model)
    data = StateTable.from_states(model.variables, np.zeros((20000, 4), dtype=np.int64))
    graph, tables_ = parameters.graph, parameters.tables(parameters.start)
    _, samples = Contrastive(graph, np.random.default_rng(0), sweeps=30).draw(tables_, data)
    found = samples.table_counts(parameters.graph) / samples.total
    truth = credo.infer(model, "enumerate").factor_marginals.flat
    assert found == pytest.approx(truth, abs=5 * 0.5 / np.sqrt(20000))
    one = Contrastive(graph, np.random.default_rng(0), sweeps=1).draw(tables_, data)[1]
    far = np.abs(one.table_counts(parameters.graph) / one.total - truth).max()
    assert far > 5 * 0.5 / np.sqrt(20000), "one sweep from a corner must not look like the model"


@pytest.mark.parametrize("method", ["bp", "trw", "mean-field", "fractional-bp"])
def test_beliefs_at_a_fixed_point_are_the_gradient_of_the_approximate_log_z(method):
    """The envelope theorem: at a stationary point only the explicit dependence counts."""
    model = credo.datasets.ising_grid(3, coupling=0.3, field=0.2, seed=0)
    data = StateTable.of(model.variables, credo.sample(model, 20, seed=0))
    parameters = Parameters.of(model)
    oracle = Oracle(method, credo.inference.problem.base.Budget(5000, 1e-13))
    objective = Objective(parameters, Likelihood(parameters.graph, oracle))
    _, gradient = objective.evaluate(parameters.start, data)
    found = differences(lambda w: objective.value(w, data), parameters.start, 1e-4)
    assert gradient == pytest.approx(found, abs=1e-5)


@pytest.mark.parametrize("case", zoo.ZOO, ids=lambda c: c.id)
def test_the_likelihood_of_the_zoo_is_finite_and_its_parts_agree(case):
    """Zeros, one-state and isolated variables, empty scopes, wide ranges: nothing becomes NaN."""
    graph = case.graph
    if not len(graph.variables) or np.prod(graph.variables.sizes.astype(float)) > 5000:
        return
    states, logs = log_weights(graph)
    possible = states[logs > -np.inf]
    rows = possible[np.random.default_rng(0).integers(len(possible), size=6)]
    parameters = Parameters.of(graph)
    graph = parameters.graph
    data = StateTable.from_states(graph.variables, rows)
    source = Likelihood(graph, Oracle("junction-tree"))
    value, gradient = Objective(parameters, source).evaluate(parameters.start, data)
    expected = graph.log_scores(rows).mean() - np.logaddexp.reduce(logs)
    assert value == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert np.isfinite(gradient).all()
    pseudo, slope = Objective(parameters, Pseudolikelihood(graph)).evaluate(parameters.start, data)
    assert np.isfinite(pseudo)
    assert np.isfinite(slope).all()


@pytest.mark.parametrize("objective", ["likelihood", "pseudolikelihood"])
def test_a_row_the_zeros_exclude_is_named(objective):
    model = with_zeros()
    data = [[0, 0, 0], [1, 0, 0]]
    message = "data: row 1 has probability zero under the model; zero entries are never learned"
    with pytest.raises(DataError, match=re.escape(message)):
        credo.learning.fit(model, data, objective)


def test_an_incomplete_row_the_zeros_exclude_is_named():
    model = MarkovNet({"a": 2, "b": 2}, {("a",): [1, 0], ("a", "b"): np.ones((2, 2))})
    with pytest.raises(DataError, match="row 1 has probability zero under the model"):
        credo.learning.fit(model, [{"a": 0}, {"a": 1}])


def test_an_algorithm_without_factor_marginals_is_refused_with_a_way_out():
    model = tables()
    with pytest.raises(UnsupportedError, match=r"computes no factor marginals; use .*junction-tree"):
        credo.learning.fit(model, data_of(model, missing=0), inference="ais")
