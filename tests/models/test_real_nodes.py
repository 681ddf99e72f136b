"""Bayesian networks with real nodes, and blanks."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo.core.errors import ModelError, QueryError
from credo.models import Regression

VARIABLES = {"kind": ["a", "b"], "age": credo.Real(), "height": credo.Real()}
PARENTS = {"height": ["age", "kind"]}


def net():
    return credo.BayesNet(
        VARIABLES,
        PARENTS,
        {
            "kind": [0.4, 0.6],
            "age": Regression(30.0, 25.0),
            "height": Regression([0.0, 5.0], [1.0, 0.5], [[1.0], [-2.0]]),
        },
    )


def normal(x, mean, variance):
    return -0.5 * ((x - mean) ** 2 / variance + np.log(2 * np.pi * variance))


def test_the_density_is_the_product_of_the_conditionals():
    got = net().log_prob({"kind": "b", "age": 28.0, "height": -50.0})
    assert got == pytest.approx(np.log(0.6) + normal(28, 30, 25) + normal(-50, 5 - 56, 0.5))


def test_samples_have_the_moments_and_their_densities():
    model = net()
    samples = model.sample(20000, seed=0)
    b = samples.column("kind") == 1
    assert b.mean() == pytest.approx(0.6, abs=0.02)
    gap = samples["height"][b] - 5 + 2 * samples["age"][b]
    assert gap.var() == pytest.approx(0.5, abs=0.03)
    few = samples[:5]
    wanted = [model.log_prob(few[k]) for k in range(5)]
    np.testing.assert_allclose(model.log_probs(few), wanted)


def test_answers_are_exact_and_the_method_chosen_by_itself():
    found = credo.infer(net(), evidence={"age": 30.0, "height": 20.0})
    weights = np.array([np.log(0.4) + normal(20, 30, 1), np.log(0.6) + normal(20, -55, 0.5)])
    assert found.log_z.value == pytest.approx(np.logaddexp(*weights) + normal(30, 30, 25))
    assert found.log_z.kind == "exact"
    age = credo.infer(net(), evidence={"kind": "a", "height": 36.0}).marginals["age"]
    assert float(age.mean) == pytest.approx(30 + 25 / 26 * 6)


def test_tables_and_regressions_are_read_by_name():
    model = net()
    assert list(model.tables) == ["kind"]
    assert list(model.regressions) == ["age", "height"]
    assert model.parents["height"] == ("age", "kind")
    assert model.cpt("height")["b"] == {"constant": 5.0, "age": -2.0, "variance": 0.5}
    assert repr(model.cpt("height")).splitlines() == [
        "height | kind, age",
        "kind  constant  age  variance",
        "a            0    1         1",
        "b            5   -2       0.5",
    ]
    assert list(model.cpt("height").to_frame()["age"]) == [1.0, -2.0]
    assert model == net()
    assert model.discrete_part().variables.names == ("kind",)
    with pytest.raises(QueryError, match="expected one state of each"):
        model.cpt("height")["a", "b"]
    with pytest.raises(QueryError, match="expected Samples, because some nodes are real"):
        model.log_probs(np.zeros((1, 3), dtype=int))
    with pytest.raises(ModelError, match="expected a network of tables, but 'age' is real"):
        model.to_networkx()


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"age": [0.5, 0.5]}, "expected a Regression"),
        ({"age": Regression(0.0, 0.0)}, "variances must be positive, got 0"),
        ({"height": Regression([0.0, 1.0], 1.0)}, "expected weights of its 1 real parents, got none"),
        ({"age": {"mean": 3}}, "expected bias, variance and weights"),
    ],
)
def test_wrong_regressions_are_refused(tables, message):
    given = {"kind": [0.4, 0.6], "age": Regression(0.0, 1.0), "height": Regression(0.0, 1.0, [[1.0], [2.0]])}
    with pytest.raises(ModelError, match=message):
        credo.BayesNet(VARIABLES, PARENTS, given | tables)


def test_a_discrete_child_of_a_real_parent_is_refused_with_the_ways_out():
    with pytest.raises(ModelError, match=r"edge x -> s: .* turn the edge round \(s -> x\), or cut 'x'"):
        credo.BayesNet({"x": credo.Real(), "s": 2}, {"s": ["x"]}, {"x": Regression(0, 1), "s": [0.5, 0.5]})
    blank = credo.BayesNet.from_edges([("x", "s")], states={"x": credo.Real(), "s": 2})
    with pytest.raises(ModelError, match="turn the edge round"):
        blank.initialise({}, [], 0)
    with pytest.raises(ModelError, match="use a HybridNet"):
        credo.BayesNet({"p": credo.Positive()}, {}, {"p": Regression(0, 1)})


def test_a_blank_knows_its_structure_and_answers_nothing_else():
    blank = credo.BayesNet.from_edges([("coin", "a"), ("coin", "b")], states={"coin": 2}, nodes=["c"])
    assert blank.nodes == ("c", "coin", "a", "b")
    assert blank.children["coin"] == ("a", "b")
    assert blank.with_nodes(["d"]).nodes[-1] == "d"
    for ask in (
        lambda: credo.infer(blank),
        lambda: credo.sample(blank, 3),
        lambda: blank.cpt("a"),
        lambda: blank.sample(3),
        lambda: blank.log_prob({}),
        blank.to_factor_graph,
    ):
        with pytest.raises(ModelError, match="it has structure but no tables; fit it first"):
            ask()


def test_a_blank_gets_states_and_first_tables():
    blank = credo.BayesNet.from_edges([("coin", "a"), ("coin", "x"), ("y", "x")], states={"coin": 2})
    made = blank.initialise({"a": ["n", "y"], "x": credo.Real(), "y": credo.Real()}, ["coin"], 0)
    assert made.states["a"] == ("n", "y")
    assert made.regressions["x"].weights.shape == (2, 1)
    assert not np.allclose(made.tables["a"][0], made.tables["a"][1])
    with pytest.raises(ModelError, match="no column of the data and no states for 'a' and 2 more; if it is"):
        blank.initialise({}, ["coin"], 0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"edges": ["ab"]}, r"expected pairs \(parent, child\), got 'ab'"),
        ({"edges": [("a", "b", "c")]}, r"expected pairs \(parent, child\)"),
        ({"edges": [("a", "b"), ("a", "b")]}, r"\(a, b\) is named twice"),
        ({"edges": [("a", "b"), ("b", "a")]}, "expected no cycle"),
        ({"states": {"a": 0}}, "states of 'a': a domain needs at least one state"),
        ({"states": {"a": credo.Positive()}}, r"expected a count, labels or Real\(\)"),
        ({"nodes": "abc"}, "nodes: expected a list of names"),
    ],
)
def test_wrong_blanks_are_refused(given, message):
    with pytest.raises(ModelError, match=message):
        credo.BayesNet.from_edges(**given)
