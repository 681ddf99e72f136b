"""A joint state that no zero forbids, near a given one, and its value."""

from __future__ import annotations

import numpy as np

from ...core.result import Estimate
from ...kernels.tables import best_states
from ..problem import feasible
from ..problem.base import Problem
from ..problem.value import value_of

__all__ = ["evaluate_states", "possible_state"]

_DEAD_ENDS = 10_000  # after which the search gives up
_WISH = 1e6  # by which the wanted states are preferred to all others


def possible_state(problem: Problem, states: np.ndarray, order: np.ndarray) -> np.ndarray | None:
    """A state of positive weight, or None if the search gave up; a contradiction is raised.

    Variables are decided along `order`, each in favour of its entry of `states`, then of large entries.
    """
    graph, start = problem.graph, problem.graph.variables.state_start
    wish = np.maximum(feasible.entry_scores(graph), -_WISH / 2)
    wish[start[:-1] + states] += _WISH
    code, keep = feasible.feasible_box(graph, order, wish, _DEAD_ENDS)
    if code == feasible.IMPOSSIBLE:
        raise problem.contradiction()
    if code == feasible.GAVE_UP:
        return None
    # Every combination of the kept states is possible: take the wished one of each.
    wish[~keep] = -np.inf
    return best_states(start, wish)


def evaluate_states(problem: Problem, states: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, Estimate]:
    """States and what they are worth; where that is nothing, possible ones near them if they are found."""
    score = value_of(problem, states)
    if score.value == -np.inf:
        found = possible_state(problem, states, order)
        if found is not None:
            return found, value_of(problem, found)
    return states, score
