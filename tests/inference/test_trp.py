"""Tree reparameterisation: the joint never changes, and fixed points are those of BP."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

import credo
from credo.core.errors import ConvergenceWarning, OptionError, UnsupportedError, ZeroProbabilityError
from credo.core.result import Status
from credo.inference.messages.trp import TRP, log_joint
from credo.inference.problem.base import Budget, Problem
from zoo import TREES, ZOO, Case, case


def problem_of(graph) -> Problem:
    n = len(graph.variables)
    return Problem(graph, np.ones(n), np.zeros(n, dtype=np.int64))


@pytest.mark.parametrize(
    "options", [{}, {"damping": 0.4}, {"trees": 3}], ids=["plain", "damped", "random trees"]
)
@pytest.mark.parametrize("problem", ZOO, ids=lambda c: c.id)
def test_the_joint_is_the_same_after_every_step(problem: Case, options: dict):
    truth = problem.log_weights.ravel()
    states = np.array(list(itertools.product(*map(range, problem.sizes)))).reshape(len(truth), -1)
    algorithm = TRP(**options)
    state = algorithm.start(problem_of(problem.graph), np.random.default_rng(0))
    for _ in range(5):
        found = log_joint(state, states)
        # A state may be recognised as impossible, but only if it is.
        np.testing.assert_array_equal(np.isneginf(found), np.isneginf(truth))
        possible = truth > -np.inf
        tol = 1e-9 * max(1.0, np.abs(truth[possible]).max())
        np.testing.assert_allclose(found[possible], truth[possible], rtol=0, atol=tol)
        state, change = algorithm.step(problem_of(problem.graph), state)
        assert np.isfinite(change)


@pytest.mark.parametrize("problem", TREES, ids=lambda c: c.id)
def test_trees_are_exact_after_one_step(problem: Case):
    algorithm, question = TRP(), problem_of(problem.graph)
    result = algorithm.run(question, Budget(max_iter=1), np.random.default_rng(0))
    exact = credo.infer(problem.graph, "enumerate")
    assert result.log_z.value == pytest.approx(exact.log_z.value, rel=1e-12, abs=1e-10)
    np.testing.assert_allclose(result.marginals.flat, exact.marginals.flat, atol=1e-12)
    np.testing.assert_allclose(result.factor_marginals.flat, exact.factor_marginals.flat, atol=1e-12)


@pytest.mark.parametrize("problem", [c for c in ZOO if not c.is_tree], ids=lambda c: c.id)
def test_fixed_points_are_those_of_bp(problem: Case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        trp = credo.infer(problem.graph, "trp", tol=1e-11)
        bp = credo.infer(problem.graph, "bp", tol=1e-11)
    if not (trp.converged and bp.converged):
        pytest.skip("one of them did not converge")
    np.testing.assert_allclose(trp.marginals.flat, bp.marginals.flat, atol=1e-7)
    np.testing.assert_allclose(trp.factor_marginals.flat, bp.factor_marginals.flat, atol=1e-7)
    assert trp.log_z.value == pytest.approx(bp.log_z.value, rel=1e-8, abs=1e-7)
    assert trp.log_z.kind == "estimate"


def test_beliefs_are_the_marginals_of_every_tree_at_convergence():
    problem = problem_of(case("grid 3x3").graph)
    result = TRP().run(problem, Budget(500, 1e-12), np.random.default_rng(0))
    work = result.state.work
    assert result.status is Status.CONVERGED
    assert len(work.orders) > 1
    for order in work.orders:
        found = work.passes.run(order, result.state.node, work.scale, tables=result.state.tables)
        np.testing.assert_allclose(np.exp(found.belief), result.marginals.flat, atol=1e-10)


def test_random_trees_reach_the_same_point():
    graph = case("grid 2x4").graph
    one, two = (credo.infer(graph, spec, seed=4, tol=1e-11) for spec in ("trp", "trp(trees=5)"))
    np.testing.assert_allclose(one.marginals.flat, two.marginals.flat, atol=1e-8)


def test_impossible_models_are_named():
    never = credo.FactorGraph({"a": 2, "b": 2}, {("a",): [1, 0], ("a", "b"): [[0, 0], [1, 1]]})
    with pytest.raises(ZeroProbabilityError, match="the model gives every configuration weight zero"):
        credo.infer(never, "trp")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("trp(trees=-1)", "trees must be at least 0, got -1"),
        ("trp(damping=1)", r"damping must be in \[0, 1\)"),
    ],
)
def test_wrong_options_are_named(spec: str, message: str):
    with pytest.raises(OptionError, match=message):
        credo.infer(case("pair").graph, spec)


def test_maxima_are_refused():
    with pytest.raises(UnsupportedError, match="it gives marginals and log Z, and the question asks for MAP"):
        credo.infer(case("pair").graph, "trp", maximise="all")
