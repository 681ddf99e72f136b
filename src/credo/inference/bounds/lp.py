r"""The local-polytope relaxation of MAP as a linear program, solved by HiGHS.

    max  sum_i sum_x theta_i(x) b_i(x) + sum_a sum_{x_a} theta_a(x_a) b_a(x_a)
    over b >= 0,   sum_x b_i(x) = 1,   sum_{x_a with x_i = x} b_a(x_a) = b_i(x)  for all i in a and all x.

Its value is the minimum of the bound that `dual-decomposition` lowers, and it is attained exactly on trees
and on attractive binary models. Entries of weight zero have no variable. The prices of the last
constraints are shifts: the bound reported is L at these shifts (improved by a few monotone sweeps), so
it is valid whatever the solver's tolerances, and also if the solver was stopped. An integral solution
is the best joint state; another one is rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from ...core import check
from ...core.errors import ZeroProbabilityError
from ...core.factor_graph import FactorGraph
from ...core.result import Result, Status
from ...optimise.run import Run
from ..problem.base import Algorithm, Budget, Problem, register
from .decomposition import Decomposition, answer

__all__ = ["LP"]

_POLISH = 5  # monotone sweeps after the solver
_INSTEAD = 200  # sweeps where a stopped solver gives no prices
_KEPT = 0.2  # share of the time kept for them
_TOLERANCE = 1e-10  # of the solver, the least it takes
_APART = 1e-6  # relative gap between primal and dual that the solver's tolerances explain
_INTEGRAL = 1e-6  # distance from 0 or 1 that counts as none
_METHOD = {"automatic": "highs", "simplex": "highs-ds", "interior-point": "highs-ipm"}


@register
@dataclass(frozen=True, kw_only=True)
class LP(Algorithm):
    """The local-polytope relaxation through a linear programming solver."""

    name: ClassVar[str] = "lp"
    promises: ClassVar[frozenset[str]] = frozenset({"upper"})
    solver: Literal["automatic", "simplex", "interior-point"] = "automatic"  # of the linear program
    max_entries: int = 300_000  # most unknowns: states of variables and entries of tables

    def __post_init__(self) -> None:
        """Check the options."""
        check.one_of("solver", self.solver, list(_METHOD))
        check.whole("max_entries", self.max_entries, 0)

    def why_not(self, problem: Problem) -> str | None:
        """All variables maximised, and not too many entries."""
        if _most_unknowns(problem.graph) <= self.max_entries:
            return None
        try:
            work = Decomposition.of(problem)
        except ZeroProbabilityError:
            return None  # `run` says so
        entries = len(work.node) + int(work.terms.table_size.sum())
        if entries > self.max_entries:
            return (
                f"the program has {entries} unknowns, more than max_entries={self.max_entries}; "
                "raise the limit, or use dual-decomposition"
            )
        return None

    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """Solve, turn prices into shifts, round."""
        with Run(budget, rng, whole=False) as run:
            run.has_begun = False  # planning may outlast the time: there is nothing yet to answer with
            return self._solve_program(problem, run)

    def _solve_program(self, problem: Problem, run: Run) -> Result:
        work = Decomposition.of(problem)
        shifts, sweeps = work.no_shifts(), _INSTEAD
        found = self._solve(work, run) if len(work.graph.scope) else None
        integral, tried = True, []
        if found is not None:
            if found.eqlin.marginals is not None:
                shifts, sweeps = _prices(work, found.eqlin.marginals), _POLISH
            integral = False
            if found.x is not None:
                belief = np.asarray(found.x)[: len(work.node)]
                tried.append(work.improve(_favourites(belief, work.terms.state_start)))
                integral = bool(np.minimum(np.abs(belief), np.abs(1 - belief)).max() < _INTEGRAL)
        upper, shifts = _polish(work, shifts, sweeps, run)
        status = _status(work, found, upper)
        tried += [work.decode(shifts, backwards=backwards) for backwards in (False, True)]
        states, score = max(tried, key=lambda pair: pair[1])
        if score == -np.inf:
            states = (work.possible(shifts) or (states,))[0]
        notes = (
            (f"the relaxation is {'integral' if integral else 'fractional'}",) if status.is_success else ()
        )
        return answer(self.name, problem, status, upper, work.original(states), notes=notes)

    def _solve(self, work: Decomposition, run: Run) -> Any:
        from scipy.optimize import linprog

        cost, matrix, right = _program(work)
        options: dict[str, Any] = {
            "primal_feasibility_tolerance": _TOLERANCE,
            "dual_feasibility_tolerance": _TOLERANCE,
        }
        if np.isfinite(run.given):
            options["time_limit"] = (1 - _KEPT) * run.given
        return linprog(
            cost, A_eq=matrix, b_eq=right, bounds=(0, None), method=_METHOD[self.solver], options=options
        )


def _program(work: Decomposition) -> tuple[np.ndarray, Any, np.ndarray]:
    """Costs, and the rows: one per edge and state, then one per variable."""
    from scipy.sparse import csr_array

    t, graph = work.terms, work.graph
    size, states, edge_states = t.table_size, len(work.node), int(t.edge_state_start[-1])
    at = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
    factor = np.repeat(np.arange(len(size)), size)
    theta = graph.log_tables[t.table_start[factor] + at]
    finite = theta > -np.inf
    at, factor, theta = at[finite], factor[finite], theta[finite]
    arity = np.diff(t.scope_start)[factor]
    unknown = np.repeat(np.arange(len(at)), arity)  # one row of the matrix per member of the factor
    edge = np.arange(len(unknown)) - np.repeat(np.cumsum(arity) - arity, arity)
    edge += t.scope_start[factor[unknown]]
    digit = (at[unknown] // t.edge_stride[edge]) % t.sizes[t.scope[edge]]
    owner = np.repeat(np.arange(len(t.sizes)), t.sizes)
    edge_size = t.sizes[t.scope]
    flat = np.arange(edge_states) - np.repeat(t.edge_state_start[:-1], edge_size)
    rows = [t.edge_state_start[edge] + digit, np.arange(edge_states), edge_states + owner]
    columns = [states + unknown, np.repeat(t.state_start[t.scope], edge_size) + flat, np.arange(states)]
    values = [np.ones(len(unknown)), -np.ones(edge_states), np.ones(states)]
    shape = (edge_states + len(t.sizes), states + len(at))
    entries = (np.concatenate(rows), np.concatenate(columns))
    matrix = csr_array((np.concatenate(values), entries), shape=shape)
    right = np.concatenate([np.zeros(edge_states), np.ones(len(t.sizes))])
    return -np.concatenate([work.node, theta]), matrix, right


def _status(work: Decomposition, found: Any, upper: float) -> Status:
    """Converged if the value of the relaxation and the bound that its prices prove are one number."""
    if found is None:  # variables alone: the bound is their sum
        return Status.CONVERGED
    if found.status != 0:
        return Status.OUT_OF_TIME if found.status == 1 else Status.OUT_OF_ITERATIONS
    apart = upper - (work.constant - float(found.fun))
    return Status.CONVERGED if apart <= _APART * max(1.0, abs(upper)) else Status.STALLED


def _most_unknowns(graph: FactorGraph) -> int:
    """States and entries, impossible ones and those of factors over the same variables included."""
    return int(graph.variables.state_start[-1]) + int(graph.table_size.sum())


def _prices(work: Decomposition, prices: np.ndarray) -> np.ndarray:
    """The shifts that a solver's prices mean; any finite ones give a bound."""
    return np.nan_to_num(-np.asarray(prices)[: int(work.terms.edge_state_start[-1])])


def _polish(work: Decomposition, shifts: np.ndarray, sweeps: int, run: Run) -> tuple[float, np.ndarray]:
    """The lowest bound of some monotone sweeps, and its shifts."""
    best, moved = work.bound(shifts), shifts.copy()
    for turn in range(sweeps):
        if turn and run.ended() is not None:
            break
        work.sweep(moved, trust=turn > 0)
        bound = work.bound(moved)
        if bound < best:
            best, shifts = bound, moved.copy()
    return best, shifts


def _favourites(belief: np.ndarray, start: np.ndarray) -> np.ndarray:
    """The likeliest state of each variable."""
    owner = np.repeat(np.arange(len(start) - 1), np.diff(start))
    order = np.lexsort((np.arange(len(belief)), -belief, owner))
    return order[start[:-1]] - start[:-1]
