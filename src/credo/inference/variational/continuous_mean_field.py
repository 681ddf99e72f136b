"""Mean field where some variables are real: what is refused, starts, and reading the answer.

The equations are in `hybrid_mean_field`, which needs JAX and is loaded when a run begins.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...core.errors import QueryError
from ...core.result import Estimate, Marginals, Result, Status
from ...core.wiring import starts_of
from ...families.densities import MixtureDensity
from ...optimise.driver import Outcome, Step
from ...optimise.run import Run
from ..problem.base import Budget, Problem
from ..problem.gaussian_system import claim, closed_only, has_closed_form, rounding
from ..problem.gradients import needs
from ..problem.starting_places import Places, starting_places
from .descent import Descents, starting_beliefs

__all__ = ["run", "why_not"]

_MOST = 2**22  # evaluations of one factor per update
_NO_LIMIT = 1e29  # a variance that grew to this has none


def why_not(problem: Problem, nodes: int) -> str | None:
    """Factors of few real variables, unless their form is closed, and of few joint states."""
    for batch in problem.graph.batches:
        points = 1 if has_closed_form(batch) else nodes
        work = np.prod([float(d.size or points) for d in batch.domains])
        if work > _MOST:
            names = [problem.graph.variables.names[int(i)] for i in batch.scopes[0]]
            return (
                f"the factor over {names} would be evaluated at {work:.1e} points; "
                "lower nodes, or use gibbs or metropolis"
            )
    return None


def run(
    problem: Problem, budget: Budget, rng: np.random.Generator, restarts: int, order: str, nodes: int
) -> Result:
    """Sweep from each start until beliefs stand still; keep the best."""
    needs("mean-field with continuous variables", "jax", "equinox")
    from .hybrid_mean_field import Sweeper

    places, sweeper = starting_places(problem.graph), Sweeper.of(problem.graph, nodes)
    if sweeper.constant == -np.inf:
        raise problem.contradiction()
    return _HybridDescents(sweeper, _away(problem, places), order, restarts, rng).run(problem, budget)


class _HybridDescents(Descents[Any]):
    """Descents over independent variables of which some are real."""

    def __init__(
        self,
        sweeper: Any,
        places: tuple[np.ndarray, np.ndarray],
        order: str,
        restarts: int,
        rng: np.random.Generator,
    ) -> None:
        super().__init__("mean-field", restarts, rng)
        self._sweeper, self._places, self._order = sweeper, places, order

    def begin(self, problem: Problem, number: int, rng: np.random.Generator) -> Any:
        if number == 0 and problem.warm is not None:
            return _warm(problem)
        probabilities, noise = _start(problem, number, rng)
        centre, scale = self._places
        return self._sweeper.start(probabilities, centre + scale * noise, scale**2)

    def sweep(self, problem: Problem, state: Any, rng: np.random.Generator) -> tuple[Any, float]:
        counts = [len(members) for members in self._sweeper.plan["members"]]
        orders = [rng.permutation(c) if self._order == "random" else np.arange(c) for c in counts]
        return self._sweeper.sweep(state, tuple(orders))  # type: ignore[no-any-return]

    def advance(self, problem: Problem, state: Any, run: Run) -> Step:
        step = super().advance(problem, state, run)
        is_stuck = all(np.array_equal(old, new) for old, new in zip(state[:3], step.state[:3], strict=True))
        is_stuck = (
            is_stuck and step.residuals[0] >= run.budget.tol
        )  # no step, however short, raises the bound
        return step._replace(status=Status.STALLED) if is_stuck else step

    def read(self, problem: Problem, outcome: Outcome) -> Result:
        return _read(problem, self._sweeper, self.bound(outcome))


def _warm(problem: Problem) -> Any:
    from .hybrid_mean_field import HybridBeliefs

    warm, rows = problem.warm, len(problem.graph.variables) + 1
    states = max(1, int(problem.graph.variables.sizes.max(initial=0)))
    if not isinstance(warm, HybridBeliefs) or warm.probabilities.shape != (rows, states):
        raise QueryError(
            "warm_start: expected the result of mean-field on this model with the same variables observed"
        )
    return warm


def _away(problem: Problem, found: Places) -> tuple[np.ndarray, np.ndarray]:
    """Where real variables begin: at zero, or where their factors are if these exclude it."""
    n = len(problem.graph.variables)
    centre, scale = np.zeros(n + 1), np.ones(n + 1)
    if (closed_only(problem.graph) | (problem.graph.variables.sizes > 0)).all():
        return centre, scale  # closed forms start anywhere
    away = np.flatnonzero((found.low > 0) | (found.high < 0))
    centre[away], scale[away] = found.centre[away], found.scale[away]
    return centre, scale


def _start(problem: Problem, restart: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Feasible beliefs of discrete variables; noise for the means, small at first, large at later starts."""
    variables = problem.graph.variables
    n, sizes = len(variables), variables.sizes
    probabilities = np.zeros((n + 1, max(1, int(sizes.max(initial=0)))))
    tables = problem.graph.discrete_part()
    count = len(tables.variables)
    posed = Problem(
        tables, np.ones(count), np.zeros(count, dtype=np.int64), has_evidence=problem.has_evidence
    )
    flat = starting_beliefs(posed, restart, rng, "mean-field")
    first = starts_of(sizes)
    for i in np.flatnonzero(sizes):
        probabilities[i, : sizes[i]] = flat[first[i] : first[i + 1]]
    probabilities[n, 0] = 1.0
    return probabilities, (0.1 if restart == 0 else 3.0) * rng.standard_normal(n + 1)


def _read(problem: Problem, sweeper: Any, found: Result) -> Result:
    variables, state, notes = problem.graph.variables, found.state, found.notes
    flat = np.zeros(int(variables.state_start[-1]))
    densities = {}
    for i, name in enumerate(variables.names):
        if variables.sizes[i]:
            part = slice(*variables.state_start[i : i + 2])
            flat[part] = state.probabilities[i, : variables.sizes[i]]
        else:
            mean, sd = state.means[i], np.sqrt(state.variances[i])
            densities[name] = MixtureDensity(np.ones(1), np.array([mean]), np.array([sd]))
    result = replace(found, log_z=None, marginals=Marginals(variables, flat, densities))
    endless = [
        n for i, n in enumerate(variables.names) if not variables.sizes[i] and state.variances[i] > _NO_LIMIT
    ]
    if endless:
        note = (
            f"the variance of {endless[:3]} grows without limit: the product of the factors has no integral, "
            "or tails too heavy for a Gaussian; use gibbs or grid-bp"
        )
        return replace(result, status=Status.DIVERGED, notes=(*notes, note))
    if sweeper.is_exact:
        size = (np.abs(state.means) + np.sqrt(state.variances))[:-1]
        log_z, told = claim(0.0 - state.free_energy, "lower", rounding(problem.graph, size))
        return replace(result, log_z=log_z, notes=(*notes, *told))
    nodes = len(sweeper.plan["nodes"][0])
    finer = 2 * nodes + 1
    note = f"log Z was evaluated with {finer} points per real variable, {nodes} were used on the way"
    return replace(
        result, log_z=Estimate(-sweeper.free_energy(state, finer), "estimate"), notes=(*notes, note)
    )
