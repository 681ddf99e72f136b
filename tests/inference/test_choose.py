"""The rule behind `credo.infer(model)` without a method."""

from __future__ import annotations

import re

import numpy as np
import pytest

import credo
from credo import FactorGraph, datasets
from credo.core.errors import TooLargeError
from credo.inference.portfolio import choose as rule
from credo.inference.problem import tree as tree_module


def grid(n, states=2):
    at = np.arange(n * n).reshape(n, n)
    across = np.stack([at[:, :-1].ravel(), at[:, 1:].ravel()], axis=1)
    down = np.stack([at[:-1].ravel(), at[1:].ravel()], axis=1)
    pairs = np.concatenate([across, down])
    return FactorGraph.from_arrays(np.full(n * n, states), (pairs, np.eye(states) + 1))


@pytest.mark.parametrize("maximise", [(), "all", ["smoke", "xray"]], ids=["sum", "max", "some"])
def test_a_narrow_model_goes_to_the_junction_tree_and_the_result_says_so(maximise):
    model = datasets.asia()
    result = credo.infer(model, evidence={"dysp": "yes"}, maximise=maximise)
    named = credo.infer(model, "junction-tree", evidence={"dysp": "yes"}, maximise=maximise)
    assert result.algorithm.startswith("junction-tree")
    assert len(result.notes) == 1
    assert result.notes[0].startswith("chosen: junction-tree (width ")
    assert "operations" in result.notes[0]
    assert result.log_z == named.log_z
    assert named.notes == ()
    if result.marginals is not None:
        np.testing.assert_array_equal(result.marginals.flat, named.marginals.flat)


def test_the_choice_and_the_run_plan_once(monkeypatch):
    asked = []
    original = tree_module.elimination_order
    monkeypatch.setattr(
        tree_module,
        "elimination_order",
        lambda graph, **options: (asked.append(1), original(graph, **options))[1],
    )
    credo.infer(datasets.asia())
    assert asked == [1]


def test_a_model_that_is_too_wide_goes_to_bp_and_the_result_says_so():
    result = credo.infer(grid(60))
    assert result.algorithm == "bp"
    assert re.fullmatch(
        r"chosen: bp, an approximation "
        r"\(junction-tree would need width \d+, 2\^\d+ GB, 2\^[\d.]+ operations\)",
        result.notes[0],
    )
    assert result.log_z.kind == "estimate"


def test_a_question_bp_cannot_answer_is_refused_with_the_forecast():
    says = (
        r"exact inference needs width \d+, 2\^\d+ GB, 2\^[\d.]+ operations: "
        r"more than the limit of [\d.]+ GB \(option memory_gb\); use an approximate method such as 'wmb'"
    )
    with pytest.raises(TooLargeError, match=says):
        credo.infer(grid(60), temperatures={"x0": 0.5})


def test_a_model_that_would_take_more_than_a_minute_goes_to_bp(monkeypatch):
    monkeypatch.setattr(rule, "_MINUTE", 10.0)
    assert credo.infer(grid(6)).algorithm == "bp"
    assert credo.infer(grid(6), "junction-tree").converged


def test_evidence_can_bring_a_wide_model_within_reach():
    n = 40
    model = grid(n)
    with pytest.raises(TooLargeError):
        credo.infer(model, "junction-tree(effort=0)")
    # Every other row observed leaves separate chains.
    seen = {f"x{i * n + j}": (i + j) % 2 for i in range(0, n, 2) for j in range(n)}
    result = credo.infer(model, evidence=seen)
    assert result.converged
    assert "width 1" in result.notes[0]


def test_zeros_can_bring_a_wide_model_within_reach():
    # The forecast alone would refuse, but the zeros leave one state per variable.
    n = 40
    model = grid(n, states=3)
    pinned = FactorGraph.from_arrays(
        np.full(n * n, 3),
        (model.scope.reshape(-1, 2), np.eye(3) + 1),
        (np.arange(n * n)[:, None], [1.0, 0.0, 0.0]),
    )
    result = credo.infer(pinned)
    assert result.log_z.value == pytest.approx(2 * n * (n - 1) * np.log(2))
    assert all(p.tolist() == [1, 0, 0] for p in result.marginals.values())
