"""States from which methods that need positive weight can begin: a search, or one exact sample."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...core.errors import TooLargeError, UnsupportedError
from ...optimise.run import Stopped, check, current_run, planning
from ..problem import feasible
from ..problem.base import Problem
from ..problem.tree import Limits
from .junction_tree import solve

__all__ = ["feasible_states"]

_SEARCHES = 10  # orders tried before exact inference has to find a possible joint state
_DEAD_ENDS = 1000  # per search
_SMALL = Limits(1.0, 30.0)  # what exact inference may cost when it only looks for a start


def feasible_states(problem: Problem, restart: int, rng: np.random.Generator, name: str) -> np.ndarray:
    """One flag per flat state, such that every combination of flagged states is possible.

    Raises `Stopped` where the time ends before there is such a combination.
    """
    graph = problem.graph
    score = feasible.entry_scores(graph)
    for attempt in range(_SEARCHES):
        check()
        # The first search follows the tables; later ones trust them less, so that they differ.
        trust, noise = (1.0, 1e-3) if restart + attempt == 0 else (rng.random(), 1.0)
        preference = trust * np.maximum(score, -1e300) + noise * rng.gumbel(size=len(score))
        code, keep = feasible.feasible_box(
            graph, rng.permutation(len(graph.variables)), preference, _DEAD_ENDS
        )
        if code == feasible.IMPOSSIBLE:
            raise problem.contradiction()
        if code == feasible.FOUND:
            return keep
        if (run := current_run()) is not None and (status := run.ended()) is not None:
            raise Stopped(status)
    return _sampled_state(problem, rng, name)


def _sampled_state(problem: Problem, rng: np.random.Generator, name: str) -> np.ndarray:
    """Flags of one exact sample, if the graph is narrow."""
    try:
        with planning(1.0):
            samples = solve(replace(problem, samples=1), _SMALL, 1.0, rng).samples
    except TooLargeError:
        raise UnsupportedError(
            f"{name} cannot treat this problem: a factor has a zero entry, so E[log factor] is -inf "
            "unless the start avoids it, and no joint state of positive weight was found; "
            "use bp, or give evidence that makes the search easier"
        ) from None
    assert samples is not None
    keep = np.zeros(int(problem.graph.variables.state_start[-1]), dtype=bool)
    keep[problem.graph.variables.state_start[:-1] + samples.indices[0]] = True
    return keep
