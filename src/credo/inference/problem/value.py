r"""What an assignment of the maximised variables is worth.

    Q(x_B) = log  sum^{t}_{x_A} exp theta(x_A, x_B),

the powered sum over the other variables A with x_B held fixed. Every Q(x_B) is a lower bound on the
value of the maximisation, and so is every lower bound on Q(x_B). It is exact where the rest of the
model is narrow enough for elimination; elsewhere mean field bounds a sum from below, and at other
temperatures a single state does, since a powered sum is never below its largest term.

The derivative of Q by the log tables is certain about x_B and has the conditionals of the powered sum for the
rest; that of mean field's bound are its own beliefs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...core.errors import UnsupportedError, ZeroProbabilityError
from ...core.evidence import Restriction
from ...core.factor_graph import FactorGraph
from ...core.result import Estimate, FactorMarginals
from ...kernels.tables import best_states
from ...optimise.run import recall
from .base import Budget, Problem, algorithms
from .tree import Limits, beliefs, climb, may_fit, prepare

__all__ = ["meets", "value_and_slopes", "value_of"]

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
    return _value(problem, states, log2_operations, slopes=False)[0]


def value_and_slopes(
    problem: Problem, states: np.ndarray, *, log2_operations: float = 30.0
) -> tuple[Estimate, FactorMarginals | None]:
    """Q as `value_of` gives it, and its derivative by the log tables; None where Q is -inf."""
    return _value(problem, states, log2_operations, slopes=True)


_Valued = tuple[Estimate, FactorMarginals | None]


def _value(problem: Problem, states: np.ndarray, log2_operations: float, *, slopes: bool) -> _Valued:
    if problem.is_max:
        score = float(problem.graph.log_scores(states[None, :])[0])
        is_told = slopes and score > -np.inf
        return Estimate(score, "exact"), FactorMarginals.indicator(problem.graph, states) if is_told else None
    held = np.where(problem.temperatures == 0, states, -1)
    restriction = Restriction.to_states(problem.graph.variables, held)
    rest = replace(problem, graph=restriction.apply(problem.graph), query=(), samples=0, warm=None)
    graph = rest.graph
    key = ("may fit", graph.structure_key, rest.levels.tobytes(), log2_operations)
    if not recall(graph.memo, key, lambda: may_fit(rest, log2_operations)):
        return _expand(_from_below(rest), restriction, problem.graph)
    try:
        ready = prepare(rest, 1.0)
        if Limits(None, log2_operations).excess(ready.forecast):
            return _expand(_from_below(rest), restriction, problem.graph)
        assert ready.tree is not None  # a hopeless plan exceeds the limits
        up = climb(ready.problem, ready.tree)
        found = Estimate(up.log_z, "exact")
        if not slopes:
            return found, None
        tables = beliefs(ready.problem, up)[0]
        if ready.restriction is not None:
            tables = ready.restriction.expand_tables(tables, graph)
        return _expand((found, FactorMarginals(graph, tables)), restriction, problem.graph)
    except ZeroProbabilityError:
        return Estimate(-np.inf, "exact"), None


def _expand(found: _Valued, restriction: Restriction, graph: FactorGraph) -> _Valued:
    """The same, in terms of all states."""
    value, slopes = found
    if slopes is None:
        return found
    return value, FactorMarginals(graph, restriction.expand_tables(slopes.flat, graph))


def _from_below(rest: Problem) -> _Valued:
    heat = np.where(rest.graph.variables.sizes == 1, 1.0, rest.temperatures)
    sums = replace(rest, temperatures=np.ones_like(heat), levels=np.zeros(len(heat), dtype=np.int64))
    try:
        found = algorithms.resolve("mean-field").run(sums, Budget(max_iter=_SWEEPS), np.random.default_rng(0))
    except ZeroProbabilityError:
        return Estimate(-np.inf, "exact"), None
    except UnsupportedError:  # zeros everywhere, and no possible state was found: it may have any value
        return Estimate(-np.inf, "lower"), None
    assert found.log_z is not None and found.marginals is not None  # mean field always gives both
    if (heat == 1).all():
        return Estimate(found.log_z.value, "lower"), found.factor_marginals
    best = best_states(rest.graph.variables.state_start, found.marginals.flat)
    score = float(rest.graph.log_scores(best[None, :])[0])
    return Estimate(score, "lower"), FactorMarginals.indicator(rest.graph, best)
