"""The worth of an assignment out of reach: a lower bound, also where no possible state is found."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from credo import FactorGraph
from credo.inference.exact import possible_states
from credo.inference.problem.base import Budget, Problem
from credo.inference.problem.tree import Limits
from credo.inference.problem.value import value_of
from credo.inference.search import local_search
from credo.inference.search.local_search import LocalSearch


def _parities(n: int, seed: int) -> tuple[FactorGraph, np.ndarray]:
    """Random sums of three bits that agree with one hidden state: hard to find, and too wide to sum."""
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 2, n)
    scopes = np.array([rng.choice(n, 3, replace=False) for _ in range(n)])
    parity = hidden[scopes].sum(axis=1) % 2
    tables = np.indices((2, 2, 2)).sum(axis=0) % 2 == parity[:, None, None, None]
    return FactorGraph.from_arrays(np.full(n, 2), (scopes, tables.astype(float))), hidden


@pytest.fixture
def hard(monkeypatch) -> tuple[Problem, np.ndarray]:
    """A problem, and searches and exact methods that give up as they would on a far larger one."""
    for name, little in (("_SEARCHES", 1), ("_DEAD_ENDS", 1), ("_SMALL", Limits(1.0, 1.0))):
        monkeypatch.setattr(possible_states, name, little)
    graph, hidden = _parities(40, 0)
    heat = np.ones(40)
    heat[0] = 0.0
    assert graph.log_scores(hidden[None])[0] == 0.0
    return Problem(graph, heat, (heat == 0).astype(np.int64)), hidden


def test_where_no_possible_state_is_found_the_bound_is_minus_infinity(hard):
    problem, hidden = hard
    found = value_of(problem, hidden, log2_operations=1.0)
    assert (found.value, found.kind) == (-np.inf, "lower")
    exact = value_of(problem, hidden)
    assert exact.kind == "exact" and exact.value >= 0.0


def test_a_search_that_knows_no_possible_state_claims_no_contradiction(hard, monkeypatch):
    problem, hidden = hard
    monkeypatch.setattr(local_search, "value_of", partial(value_of, log2_operations=1.0))
    graph = problem.graph.condition({problem.graph.variables.names[0]: int(hidden[0])})
    asked = Problem(graph, problem.temperatures, problem.levels)  # nothing is left to move
    found = LocalSearch(start="entries").run(asked, Budget(max_iter=1), np.random.default_rng(0))
    assert (found.log_z.value, found.log_z.kind) == (-np.inf, "lower")
