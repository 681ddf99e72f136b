"""The local-polytope program: exact where it is tight, valid where it is not, whenever it stops."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo.core.errors import OptionError, UnsupportedError, ZeroProbabilityError
from credo.core.result import Status
from inference.map_models import attractive, grid, random_model
from random_models import joint
from zoo import TREES, case

pytestmark = pytest.mark.filterwarnings("ignore::credo.core.errors.ConvergenceWarning")


def run(graph, options="", **rest):
    return credo.infer(graph, f"lp{options}", maximise="all", **rest)


@pytest.mark.parametrize("tree", TREES, ids=lambda c: c.id)
def test_it_is_exact_on_trees(tree):
    result = run(tree.graph)
    assert result.status is Status.OPTIMAL
    assert result.log_z.value == pytest.approx(tree.log_weights.max(), rel=1e-9, abs=1e-9)
    assert result.score.value == pytest.approx(tree.log_weights.max(), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("solver", ["automatic", "simplex", "interior-point"])
def test_it_is_integral_on_attractive_models(solver):
    for seed in range(15):
        graph = attractive(seed, zeros=0.2, flipped=True)
        result = run(graph, f"(solver={solver})")
        assert result.status is Status.OPTIMAL
        assert result.score.value == pytest.approx(joint(graph).max(), abs=1e-9)


@pytest.mark.parametrize("arity", [2, 3])
@pytest.mark.parametrize("zeros", [0.0, 0.4])
def test_bound_and_rounding_hold_on_random_models(arity, zeros):
    fractional = 0
    for seed in range(15):
        graph = random_model(seed, arity, zeros)
        best, result = joint(graph).max(), run(graph)
        assert result.log_z.value >= best - 1e-9
        assert -np.inf < result.score.value <= best + 1e-9
        fractional += "the relaxation is fractional" in result.notes
        if result.status is Status.OPTIMAL:
            assert result.score.value == pytest.approx(best, abs=1e-8)
    assert fractional > 0 or arity == 2


def test_a_frustrated_triangle_has_the_known_fractional_value():
    apart = np.log([[1.0, np.e], [np.e, 1.0]])
    pairs = np.array([[0, 1], [1, 2], [2, 0]])
    graph = credo.FactorGraph.from_arrays(np.full(3, 2), (pairs, apart), log=True)
    result = run(graph)
    assert result.log_z.kind == "upper"
    assert result.log_z.value == pytest.approx(3.0)  # all pairs half satisfied both ways
    assert result.score.value == pytest.approx(2.0)
    assert result.notes == ("the relaxation is fractional",)


def test_a_stopped_solver_still_leaves_a_valid_bound():
    graph = grid(12, 4, 0)
    full, stopped = run(graph), run(graph, seconds=0)
    assert stopped.status in (Status.OUT_OF_TIME, Status.OPTIMAL)
    assert stopped.log_z.value >= full.score.value - 1e-9
    assert stopped.score.value <= full.log_z.value + 1e-9


def test_large_programs_contradictions_and_other_tasks_are_refused():
    graph = random_model(0)
    with pytest.raises(UnsupportedError, match=r"more than max_entries=10; raise the limit, or use dual"):
        run(graph, "(max_entries=10)")
    with pytest.raises(UnsupportedError, match="it gives MAP, and the question asks for marginals and log Z"):
        credo.infer(graph, "lp")
    with pytest.raises(ZeroProbabilityError, match="the evidence has probability zero"):
        run(case("xor").graph, evidence={"x0": 0, "x1": 0, "x2": 1})
    with pytest.raises(OptionError, match="solver must be one of"):
        run(graph, "(solver=magic)")
    with pytest.raises(OptionError, match="max_entries must be at least 0"):
        run(graph, "(max_entries=-1)")
