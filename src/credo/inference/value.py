r"""What an assignment of the maximised variables is worth.

    Q(x_B) = log  sum^{t}_{x_A} exp theta(x_A, x_B),

the powered sum over the other variables A with x_B held fixed. Every Q(x_B) is a lower bound on the
value of the maximisation, and so is every lower bound on Q(x_B). It is exact where the rest of the
model is narrow enough for elimination; elsewhere mean field bounds a sum from below, and at other
temperatures a single state does, since a powered sum is never below its largest term.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..core.errors import UnsupportedError, ZeroProbabilityError
from ..core.evidence import Restriction
from ..core.result import Estimate
from ..kernels.tables import best_states
from ..optimise.run import recall
from .base import Budget, Problem

__all__ = ["meets", "value_of"]

_MET = 1e-9  # relative gap that the rounding of sums of many logarithms explains
_SWEEPS = 50  # of mean field, where the exact value is out of reach


def meets(lower: float, upper: float) -> bool:
    """Whether two bounds on one value are the same number, up to rounding: then both are exact."""
    return bool(lower > -np.inf and lower >= upper - _MET * max(1.0, abs(upper)))


def value_of(problem: Problem, states: np.ndarray, *, log2_operations: float = 30.0) -> Estimate:
    """Q of the given states of the maximised variables: exact, or a lower bound on it.

    Parameters
    ----------
    problem
        The problem whose zero-temperature variables are assigned; they must be eliminated last.
    states
        (n,) one state index per variable; entries of other variables are ignored.
    log2_operations
        Effort beyond which the exact value gives way to a lower bound.
    """
    from .exact.tree import Limits, climb, may_fit, prepare  # the exact methods use messages, which use this

    if problem.is_max:
        return Estimate(float(problem.graph.log_scores(states[None, :])[0]), "exact")
    held = np.where(problem.temperatures == 0, states, -1)
    restriction = Restriction.to_states(problem.graph.variables, held)
    rest = replace(problem, graph=restriction.apply(problem.graph), query=(), samples=0, warm=None)
    graph = rest.graph
    key = ("may fit", graph.structure_key, rest.levels.tobytes(), log2_operations)
    if not recall(graph.memo, key, lambda: may_fit(rest, log2_operations)):
        return _from_below(rest)
    try:
        ready = prepare(rest, 1.0)
        if Limits(None, log2_operations).excess(ready.forecast):
            return _from_below(rest)
        assert ready.tree is not None  # a hopeless plan exceeds the limits
        return Estimate(climb(ready.problem, ready.tree).log_z, "exact")
    except ZeroProbabilityError:
        return Estimate(-np.inf, "exact")


def _from_below(rest: Problem) -> Estimate:
    from .variational.mean_field import MeanField

    heat = np.where(rest.graph.variables.sizes == 1, 1.0, rest.temperatures)
    sums = replace(rest, temperatures=np.ones_like(heat), levels=np.zeros(len(heat), dtype=np.int64))
    try:
        found = MeanField().run(sums, Budget(max_iter=_SWEEPS), np.random.default_rng(0))
    except ZeroProbabilityError:
        return Estimate(-np.inf, "exact")
    except UnsupportedError:  # zeros everywhere, and no possible state was found: it may have any value
        return Estimate(-np.inf, "lower")
    assert found.log_z is not None and found.marginals is not None  # mean field always gives both
    if (heat == 1).all():
        return Estimate(found.log_z.value, "lower")
    best = best_states(rest.graph.variables.state_start, found.marginals.flat)
    return Estimate(float(rest.graph.log_scores(best[None, :])[0]), "lower")
