"""EM by any inference that declares factor marginals."""

import numpy as np
import pytest

import credo
from credo.core.errors import UnsupportedError
from credo.data.table import StateTable
from credo.inference.problem.base import algorithms
from credo.learning.e_step import EStep
from credo.learning.expectations import Oracle
from credo.optimise.run import Budget

STATES = {"h": 2, "a": 2, "b": 3, "c": 2}
PARENTS = {"a": ["h"], "b": ["h"], "c": ["a", "h"]}


@pytest.fixture(scope="module")
def task():
    model = credo.BayesNet.random(STATES, PARENTS, seed=1)
    data = model.sample(12, seed=0).to_frame()
    data["h"] = np.nan
    data.loc[::4, "b"] = np.nan
    return model, data


def expected(task, method, **budget):
    """What an E-step finds at the model's own tables."""
    model, data = task
    graph = model.to_factor_graph()
    oracle = Oracle(method, Budget(**budget), seed=0)
    tables = np.concatenate([graph.log_table(a).ravel() for a in range(graph.n_factors)])
    return EStep(graph, StateTable.of(graph.variables, data), oracle)(tables), oracle


@pytest.mark.parametrize("method", ["elimination", "gdd", "wmb", "wmb(bound=lower)", "bp", "trp"])
def test_expected_counts_are_those_of_enumeration_where_rows_leave_trees(task, method):
    truth, _ = expected(task, "enumerate")
    found, _ = expected(task, method, tol=1e-10)
    np.testing.assert_allclose(found.counts, truth.counts, atol=1e-6)
    assert found.log_weight == pytest.approx(truth.log_weight, abs=1e-6)


@pytest.mark.parametrize("method", ["gibbs(warmup=50)", "metropolis(warmup=50)"])
def test_draws_give_expected_counts_and_a_lower_bound(task, method):
    truth, _ = expected(task, "enumerate")
    found, oracle = expected(task, method, max_iter=500)
    np.testing.assert_allclose(found.counts, truth.counts, atol=0.4)  # of 12 rows
    assert truth.log_weight - 0.5 < found.log_weight <= truth.log_weight + 1e-9
    assert oracle.kinds == {"lower"} and oracle.kind(complete=False) == "estimate"
    assert oracle.report()[0].endswith("estimates no log Z: the objective is a lower bound from its draws")


@pytest.mark.filterwarnings("ignore::credo.core.errors.ConvergenceWarning")
def test_em_by_gibbs_learns_what_exact_em_learns(task):
    model, data = task
    exact = credo.fit(model, data, "em(start=given)", max_iter=2, tol=0)
    budget = Budget(max_iter=500)
    drawn = credo.fit(
        model, data, "em(start=given)", inference="gibbs(warmup=50)", inference_budget=budget, max_iter=2,
        tol=0, seed=0,
    )  # fmt: skip
    np.testing.assert_allclose(drawn.model.tables["b"], exact.model.tables["b"], atol=0.08)
    assert drawn.log_likelihood.kind == "estimate"
    assert drawn.log_likelihood.value <= exact.log_likelihood.value + 0.2


def test_zeros_of_tables_stay_out_of_the_bound_of_draws():
    net = credo.BayesNet({"a": 2, "b": 2}, {"b": ["a"]}, {"a": [0.5, 0.5], "b": [[1.0, 0.0], [0.5, 0.5]]})
    data = {"a": [None, None], "b": [0, 1]}
    found, _ = expected((net, data), "gibbs(warmup=20)", max_iter=200)
    assert np.isfinite(found.log_weight) and found.counts[3] == 0


def test_who_gives_no_factor_marginals_is_refused_with_those_that_do(task):
    model, data = task
    with pytest.raises(UnsupportedError, match="ep computes no factor marginals; use '") as refused:
        credo.fit(model, data, inference="ep")
    named = str(refused.value).split("use ")[1].split(", or gradient")[0]
    offered = [part.strip("' ") for part in named.replace(" or ", ", ").split(",")]
    assert len(offered) > 2 and all(algorithms.get(name).slopes for name in offered)
