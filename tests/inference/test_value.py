"""The worth of an assignment where it cannot be computed: a lower bound, also where no possible state is found."""

from __future__ import annotations

import numpy as np
import pytest

from credo import FactorGraph
from credo.inference.base import Budget, Problem
from credo.inference.search.local_search import LocalSearch
from credo.inference.value import value_of
from credo.inference.variational import descent


def _parities(n: int, seed: int) -> tuple[FactorGraph, np.ndarray]:
    """Random sums of three bits that agree with one hidden state, which is hard to find and too wide to sum."""
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 2, n)
    scopes = np.array([rng.choice(n, 3, replace=False) for _ in range(n)])
    parity = hidden[scopes].sum(axis=1) % 2
    tables = np.indices((2, 2, 2)).sum(axis=0) % 2 == parity[:, None, None, None]
    return FactorGraph.from_arrays(np.full(n, 2), (scopes, tables.astype(float))), hidden


@pytest.fixture
def hard(monkeypatch) -> tuple[Problem, np.ndarray]:
    monkeypatch.setattr(descent, "_SEARCHES", 1)
    graph, hidden = _parities(200, 0)
    heat = np.ones(200)
    heat[0] = 0.0
    assert graph.log_scores(hidden[None])[0] == 0.0
    return Problem(graph, heat, (heat == 0).astype(np.int64)), hidden


def test_where_no_possible_state_is_found_the_bound_is_minus_infinity(hard):
    problem, hidden = hard
    found = value_of(problem, hidden)
    assert (found.value, found.kind) == (-np.inf, "lower")


def test_a_search_that_knows_no_possible_state_says_so_and_claims_no_contradiction(hard):
    problem, hidden = hard
    graph = problem.graph.condition({problem.graph.variables.names[0]: int(hidden[0])})
    found = LocalSearch(start="entries", block=0.0).run(
        Problem(graph, problem.temperatures, problem.levels), Budget(max_iter=1), np.random.default_rng(0)
    )
    assert (found.log_z.value, found.log_z.kind) == (-np.inf, "lower")
