"""What naive and structured mean field share: feasible starts, and the best of several descents.

A start is feasible if its product avoids every zero entry of every factor; its free energy is then
finite, and coordinate updates keep it so.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

import numpy as np

from ...core.errors import QueryError, TooLargeError, UnsupportedError
from ...core.progress import Progress
from ...core.result import Estimate, FactorMarginals, Marginals, Result, Status
from ..base import Budget, Problem
from ..exact.junction_tree import solve
from ..exact.tree import Limits
from ..free_energy import mean_field

__all__ = [
    "Run",
    "best_of",
    "descend",
    "feasible_states",
    "only_sums",
    "starting_beliefs",
]

_SEARCHES = 10  # orders tried before exact inference has to find a possible joint state
_DEAD_ENDS = 1000  # per search
_SMALL = Limits(1.0, 30.0)  # what exact inference may cost when it only looks for a start
_NOISE = 0.1  # relative; a symmetric model has a saddle point at uniform beliefs


def only_sums(problem: Problem) -> str | None:
    """Why a lower bound on a sum is no answer to another question; None if a sum is asked."""
    if not problem.is_sum:
        return "it bounds sums over all variables, and here some are maximised or have a temperature"
    if problem.query or problem.samples:
        return "it gives marginals and a bound on log Z, not joint queries or samples; use junction-tree"
    return None


def starting_beliefs(problem: Problem, restart: int, rng: np.random.Generator, name: str) -> np.ndarray:
    """Feasible beliefs: those of the warm start or nearly uniform at first, random at later starts."""
    variables = problem.graph.variables
    total = int(variables.state_start[-1])
    if restart == 0 and problem.warm is not None:
        raw = _warm_beliefs(problem)
        if np.isfinite(mean_field(problem.graph, raw)):
            return raw
        raw = raw + np.finfo(float).tiny  # the box below may lie where the old beliefs were zero
    else:
        raw = 1.0 + _NOISE * rng.random(total) if restart == 0 else rng.exponential(size=total)
    if np.isneginf(problem.graph.log_tables).any():
        raw = raw * feasible_states(problem, restart, rng, name)
    owner = np.repeat(np.arange(len(variables)), variables.sizes)
    norm = np.bincount(owner, weights=raw, minlength=len(variables))
    return raw / norm[owner]


def _warm_beliefs(problem: Problem) -> np.ndarray:
    beliefs = getattr(problem.warm, "marginals", None)
    expected = int(problem.graph.variables.state_start[-1])
    if not isinstance(beliefs, np.ndarray):
        raise QueryError("warm_start: expected the result of mean-field or structured-mean-field")
    if beliefs.shape != (expected,):
        raise QueryError(
            f"warm_start: expected beliefs of {expected} states, got {len(beliefs)}; "
            "the earlier run must have the same variables and observe the same ones"
        )
    return beliefs


def feasible_states(problem: Problem, restart: int, rng: np.random.Generator, name: str) -> np.ndarray:
    """One flag per flat state, such that every combination of flagged states is possible."""
    from ...kernels import feasible as kernel

    w, tables = problem.graph.wiring, problem.graph.log_tables
    score = kernel.best_entries(tables, w.table_start, w.scope_start, w.scope, w.edge_stride, w.state_start)
    for attempt in range(_SEARCHES):
        # The first search follows the tables; later ones trust them less, so that they differ.
        trust, noise = (1.0, 1e-3) if restart + attempt == 0 else (rng.random(), 1.0)
        preference = trust * np.maximum(score, -1e300) + noise * rng.gumbel(size=len(score))
        code, keep = kernel.feasible_box(
            tables,
            w.table_start,
            w.scope_start,
            w.scope,
            w.edge_stride,
            w.state_start,
            rng.permutation(len(w.sizes)),
            preference,
            _DEAD_ENDS,
        )
        if code == kernel.IMPOSSIBLE:
            raise problem.contradiction()
        if code == kernel.FOUND:
            return keep
    return _sampled_state(problem, rng, name)


def _sampled_state(problem: Problem, rng: np.random.Generator, name: str) -> np.ndarray:
    """Flags of one exact sample, if the graph is narrow."""
    try:
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


class HasFreeEnergy(Protocol):
    """What the states of all runs share."""

    @property
    def free_energy(self) -> float:
        """Of the beliefs of this state."""
        ...


S = TypeVar("S", bound=HasFreeEnergy)


@dataclass(frozen=True)
class Run(Generic[S]):
    """One descent of the free energy, or the best of several."""

    state: S  # where it ended
    status: Status  # why it ended
    free_energies: list[float]  # after each sweep
    changes: list[float]  # of beliefs in each sweep
    notes: tuple[str, ...] = ()  # about the other starts

    @property
    def was_stopped(self) -> bool:
        """Whether time or the user ended it, so that nothing more should be begun."""
        return self.status in (Status.OUT_OF_TIME, Status.INTERRUPTED)

    def result(self, name: str, marginals: Marginals, factor_marginals: FactorMarginals) -> Result:
        """The bound, the beliefs and the story."""
        return Result(
            name,
            self.status,
            log_z=Estimate(0.0 - self.state.free_energy, "lower"),
            marginals=marginals,
            factor_marginals=factor_marginals,
            trace={"change": np.array(self.changes), "free_energy": np.array(self.free_energies)},
            state=self.state,
            notes=self.notes,
        )


def best_of(restarts: int, one: Callable[[int, float], Run[S]], budget: Budget) -> Run[S]:
    """The best of several descents; `seconds` holds for all together.

    Every state is a valid answer, so running out of time or Ctrl-C returns the best so far.

    Parameters
    ----------
    restarts
        How many.
    one
        Makes the descent of a number, given the clock reading at which it must stop.
    budget
        When to stop.
    """
    deadline = np.inf if budget.seconds is None else time.perf_counter() + budget.seconds
    runs: list[Run[S]] = []
    for restart in range(restarts):
        try:
            runs.append(one(restart, deadline))
        except KeyboardInterrupt:  # before its first sweep
            if not runs:
                raise
            runs.append(replace(runs[-1], status=Status.INTERRUPTED))
        if runs[-1].was_stopped:
            break
    best = min(runs, key=lambda run: run.state.free_energy)
    if restarts == 1:
        return best
    bounds = [-run.state.free_energy for run in runs]
    note = f"{len(runs)} of {restarts} starts gave bounds from {min(bounds):.8g} to {max(bounds):.8g}"
    status = runs[-1].status if runs[-1].was_stopped else best.status
    return replace(best, status=status, notes=(note,))


def descend(
    state: S, sweep: Callable[[S], tuple[S, float]], budget: Budget, deadline: float, label: str
) -> Run[S]:
    """Sweep until the change is below `tol`, or the budget is used up, or Ctrl-C."""
    status = Status.OUT_OF_ITERATIONS
    energies: list[float] = []
    changes: list[float] = []
    with Progress(label, budget.max_iter) as bar:
        try:
            while len(changes) < budget.max_iter:
                state, change = sweep(state)
                energies.append(state.free_energy)
                changes.append(change)
                bar.update(len(changes), f"bound {-state.free_energy:.8g}, change {change:.1e}")
                if change < budget.tol:
                    status = Status.CONVERGED
                    break
                if time.perf_counter() > deadline:
                    status = Status.OUT_OF_TIME
                    break
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
    return Run(state, status, energies, changes)
