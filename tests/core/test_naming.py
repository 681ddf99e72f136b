"""What models say about their variables by name."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo.core.display import LIMIT
from credo.core.errors import ModelError, QueryError
from credo.core.naming import Lookup
from credo.core.variable import Variables
from credo.models.bayesian_tree import BayesianTree
from credo.models.log_linear import LogLinear
from credo.models.mixture_of_trees import MixtureOfTrees
from markup import cells

STATES = {"a<b": ["no", "yes"], "c": 3}
TABLES = {"a<b": [0.25, 0.75], "c": [[0.2, 0.3, 0.5], [0.5, 0.25, 0.25]]}
NET = credo.BayesNet(STATES, {"c": ["a<b"]}, TABLES)
FACTORS = {("a<b", "c"): np.ones((2, 3)), "c": [1, 2, 3]}
X = credo.Variable("x", credo.Real())

MODELS = [
    NET,
    credo.FactorGraph(STATES, FACTORS),
    credo.MarkovNet(STATES, FACTORS),
    credo.HybridNet(STATES, credo.FactorGraph(STATES, FACTORS).factors),
    credo.FactorGraph(STATES, FACTORS),
    LogLinear(STATES, [(["a<b", "c"], np.ones((2, 3)))], [0.5]),
    MixtureOfTrees([0.5, 0.5], [NET, NET]),
    BayesianTree(STATES, [("a<b", "c")]),
    credo.NormalForm(STATES, [credo.models.normal_form.Block("a<b", "c", TABLES["c"])]),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_a_model_tells_its_variables_by_name(model):
    count = len(model.variables)
    assert len(model) == count and model
    assert "c" in model and "a<b" in model and "zz" not in model
    assert list(model.states) == list(model.variables.names)
    assert model.states["c"] == ("0", "1", "2") and model.states["a<b"] == ("no", "yes")
    with pytest.raises(QueryError, match="no variable named 'd'"):
        model.states["d"]
    shown = cells(model._repr_html_())
    assert shown[:2] == ["variable", "states"]
    assert "a<b" in shown and "no, yes" in shown and "0, 1, 2" in shown


def test_a_net_shows_parents_and_a_gaussian_one_moments():
    assert cells(NET._repr_html_())[2:] == [
        "parents",
        "table entries",
        "a<b",
        "no, yes",
        "2",
        "c",
        "0, 1, 2",
        "a<b",
        "6",
    ]
    gauss = credo.GaussianNet([[2.0, -1.0], [-1.0, 2.0]], [3.0, 0.0])
    assert cells(gauss._repr_html_())[:8] == [
        "variable",
        "states",
        "mean",
        "sd",
        "x0",
        "Real()",
        "2",
        "0.8165",
    ]
    with pytest.raises(ModelError, match="variable 'x0' has no states"):
        gauss.states["x0"]
    mixture = MixtureOfTrees([0.25] * 4, [NET] * 4)
    assert "-, -, -, -" in cells(mixture._repr_html_())


def test_a_conditional_table_has_names():
    wet = credo.datasets.sprinkler().cpt("wet")
    assert wet.names == ("wet", "sprinkler", "rain") and wet.given == 2
    net = credo.datasets.sprinkler()
    for name in net.states:
        np.testing.assert_array_equal(np.moveaxis(net.cpt(name).table, 0, -1), net.tables[name])
        assert net.cpt(name).names == (name, *net.parents[name])
    with pytest.raises(QueryError, match=r"no variable named 'wett'; did you mean 'wet'\?"):
        net.cpt("wett")


def test_the_factors_of_a_markov_net_are_those_of_its_graph():
    net = credo.MarkovNet(STATES, FACTORS)
    assert [f.names for f in net.factors] == [("a<b", "c"), ("c",)]


def test_a_model_without_variables_is_still_true():
    empty = credo.FactorGraph({})
    assert len(empty) == 0 and empty


def test_large_models_and_large_domains_are_cut():
    graph = credo.FactorGraph.from_arrays(np.full(10**5, 2), (np.arange(10**5)[:, None], [1.0, 1.0]))
    html = graph._repr_html_()
    assert f"... and {10**5 - LIMIT} more variables" in html and len(html) < 20_000
    wide = cells(credo.FactorGraph({"k": 1000})._repr_html_())
    assert wide[4].endswith("... (1000 in all)") and len(wide[4]) < 100


def test_a_lookup_prints_as_a_dictionary():
    found = Lookup(Variables.of({"a": 2, "b": 3}), lambda i: i * 10)
    assert repr(found) == "{'a': 0, 'b': 10}" and found.get("zz") is None and found.get("b") == 10
    assert found._ipython_key_completions_() == ["a", "b"]
