"""Two layers of units are recognised, whatever they are made of, and nothing else is."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import credo
from credo import BilinearFactor, FactorGraph, TableFactor, Variable
from credo.structures import dense_layers


def scores(layers, x, y):
    return layers.constant + x @ layers.left_fields + y @ layers.right_fields + x @ layers.weights @ y


def check(graph):
    """The bilinear form is the log weight of every joint state."""
    layers = dense_layers(graph)
    free = np.flatnonzero(graph.variables.sizes == 2)
    assert sorted([*layers.left, *layers.right]) == free.tolist()
    tables = graph.as_tables()
    for row in itertools.product([0, 1], repeat=len(free)):
        states = np.zeros(len(graph.variables), dtype=np.int64)
        states[free] = row
        expected = tables.log_scores(states[None])[0]
        assert scores(layers, states[layers.left], states[layers.right]) == pytest.approx(expected, abs=1e-12)
    return layers


def mixed_tables(seed=0):
    """Tables per pair with axes in any order, unary ones, one without variables, and one-state variables."""
    rng = np.random.default_rng(seed)
    sizes = {"h0": 2, "v0": 2, "one": 1, "v1": 2, "h1": 2, "v2": 2}
    variables = {name: Variable(name, size) for name, size in sizes.items()}
    factors = [TableFactor.from_log([], rng.normal())]
    for v, h in itertools.product(["v0", "v1", "v2"], ["h0", "h1"]):
        scope = [variables[n] for n in ([v, h] if rng.random() < 0.5 else [h, v])]
        factors.append(TableFactor.from_log(scope, rng.normal(size=(2, 2))))
    for name in ("v1", "h0", "h0"):
        factors.append(TableFactor.from_log([variables[name]], rng.normal(size=2)))
    factors.append(TableFactor.from_log([variables["one"], variables["v2"]], rng.normal(size=(1, 2))))
    return FactorGraph(variables.values(), factors)


@pytest.mark.parametrize("seed", range(3))
def test_a_table_per_pair_makes_two_layers(seed):
    layers = check(mixed_tables(seed))
    assert {len(layers.left), len(layers.right)} == {2, 3}


def test_a_dense_factor_makes_two_layers_with_evidence_too():
    rng = np.random.default_rng(1)
    machine = credo.RBM(rng.normal(size=(4, 3)), rng.normal(size=4), rng.normal(size=3)).to_factor_graph()
    assert check(machine).weights.shape == (4, 3)
    seen = machine.condition({"v1": 1, "h0": [0.2, 0.9]})
    assert check(seen).weights.shape == (3, 3)
    assert check(machine.as_tables().condition({"v1": 1, "h2": 0})).weights.shape in ((3, 2), (2, 3))


def test_what_is_no_pair_of_layers_is_none():
    rng = np.random.default_rng(2)
    twos = {name: 2 for name in "abcd"}
    ring = FactorGraph(twos, {tuple(p): np.ones((2, 2)) for p in ("ab", "bc", "cd", "da")})
    assert dense_layers(ring) is not None
    pairs = [("a", "b"), ("b", "c"), ("c", "a"), ("a", "d")]
    v, h = [Variable(f"v{i}", 2) for i in range(2)], [Variable(f"h{i}", 2) for i in range(2)]
    layers = BilinearFactor(v, h, rng.normal(size=(2, 2)))
    three = Variable("three", 3)
    others = {
        "a triangle": FactorGraph(twos, {tuple(p): np.ones((2, 2)) for p in pairs}),
        "a chain": FactorGraph(twos, {tuple(p): np.ones((2, 2)) for p in ("ab", "bc", "cd")}),
        "a star": FactorGraph(twos, {tuple(p): np.ones((2, 2)) for p in ("ab", "ac", "ad")}),
        "a pair twice": FactorGraph(twos, {tuple(p): np.ones((2, 2)) for p in ("ab", "ba", "cd", "da")}),
        "a zero": FactorGraph(twos, {tuple(p): [[1, 0], [1, 1]] for p in ("ab", "bc", "cd", "da")}),
        "three variables": FactorGraph(twos, {tuple(p): np.ones(2 ** len(p)) for p in ("ab", "bc", "dab")}),
        "three states": FactorGraph([*v, *h, three], [layers, TableFactor([three], [1, 1, 1])]),
        "one more": FactorGraph([*v, *h, Variable("x", 2)], [layers]),
        "within a layer": FactorGraph([*v, *h], [layers, TableFactor(v, np.ones((2, 2)))]),
        "none": FactorGraph({}, []),
        "no factors": FactorGraph(twos, {}),
        "a grid": credo.datasets.ising_grid(3, seed=0).to_factor_graph(),
    }
    assert [what for what, graph in others.items() if dense_layers(graph) is not None] == []
