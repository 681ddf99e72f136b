"""Belief propagation with real variables on grids.

Every real variable is given a grid of points x_k with weights w_k, every factor becomes the table of its
values there, and the weights become one more factor of the variable: `bp` does the rest, and its beliefs
divided by the weights are densities. With n points the error is that of the trapezoid or midpoint rule; on
smooth beliefs that vanish at both ends it falls faster than any power of 1/n.

    m_{a->i}(x_i) = sum over points of f_a(x_a) prod_j w_j m_{j->a}(x_j),      log Z ~ the Bethe value of bp

Exact on trees up to the grid; on graphs with loops log Z is the Bethe approximation. With maximised
variables the best points are returned, whose value is a lower bound on the maximum.

Ranges that are not given are found from the factors of single variables, a sketch by `ep` where these do not
confine a variable, and beliefs on coarse grids. If they still move after `rounds` of these, or cut a belief
off, the run has stalled. Ends of a grid are put at the walls of factors of one variable, where these fall to
zero at once (`grid_walls`).

Whether a grid resolves the factors is seen by running once more with every other point. Where that moves
log Z per variable, means and widths (in standard deviations) or probabilities by more than a thousandth, a
note says so; by more than a thirtieth, the run has stalled: jumps inside of a grid, and ridges along an
oblique line that are narrower than its cells, are not integrated by it.
A table over k real variables has n^k entries; equal factors on equal grids share theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from ...core import check
from ...core.errors import OptionError, ZeroProbabilityError
from ...core.result import Assignment, Estimate, Marginals, Result, Status
from ...core.variable import Variables
from ...families.densities import GridDensity
from ...optimise.run import Run
from ..problem.base import Algorithm, Budget, Problem, register
from . import engine
from .bp import BP
from .grid_ranges import first_ranges, next_ranges
from .grid_tables import Grids, discretise
from .grid_walls import at_walls, halve, largest_move

__all__ = ["GridBP"]

_COARSE = 80  # points while ranges are looked for
_SWEEPS = 50  # most sweeps of such a run
_MOVED = 1e-3  # by leaving out every other point: worth a note
_LOST = 1 / 30  # the same: the grids do not resolve the factors
_CUT = 1e-4  # a density at the end of a grid above this share of its peak is worth a note


@register
@dataclass(frozen=True, kw_only=True)
class GridBP(Algorithm):
    """Discretise real variables and run belief propagation on the tables.

    Examples
    --------
    >>> import credo
    >>> net = credo.GaussianNet([[2.0, -1.0], [-1.0, 2.0]], [3.0, 0.0])
    >>> found = credo.infer(net, "grid-bp")
    >>> found.marginals["x0"].mean.__round__(6), found.marginals["x0"].variance.__round__(6)
    (2.0, 0.666667)
    """

    name: ClassVar[str] = "grid-bp"
    slopes: ClassVar[bool] = True
    points: int = 200  # per real variable
    low: float | None = None  # the first end of all grids; None to find ranges
    high: float | None = None  # the other end
    rule: Literal["trapezoid", "midpoint"] = "trapezoid"  # how points and weights lie in a range
    rounds: int = 12  # most runs on coarse grids that look for ranges
    schedule: engine.Schedule = "auto"  # of bp
    damping: float = 0.0  # weight of the old message
    damping_domain: Literal["log", "linear"] = "log"  # mix logarithms or probabilities
    max_entries: float = 2.0**27  # of all tables together

    def __post_init__(self) -> None:
        """Check the options."""
        check.whole("points", self.points, 3)
        check.one_of("rule", self.rule, ["trapezoid", "midpoint"])
        check.whole("rounds", self.rounds, 0)
        check.at_least("max_entries", self.max_entries, 1)
        if (self.low is None) != (self.high is None):
            raise OptionError("low and high: expected both or neither, got one of them")
        if self.low is not None and self.high is not None:
            check.at_least("high - low", float(self.high) - float(self.low), 1e-300)
        _ = self._bp  # checks the rest

    @property
    def _bp(self) -> BP:
        return BP(schedule=self.schedule, damping=self.damping, damping_domain=self.damping_domain)

    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """Find the ranges, run `bp` on the tables, and read densities off its beliefs."""
        with Run(budget, rng, whole=False) as run:
            run.has_begun = False  # planning may outlast the time: there is nothing yet to answer with
            grids, moving, cut = self._grids(problem, budget, run)
            walls = np.zeros((len(problem.graph.variables), 2), dtype=bool)
            if self.low is None and cut is None:
                grids, walls = at_walls(problem.graph, grids)
            result = self._last(problem, grids, budget, rng, cut)
            if moving and cut is None:
                note = f"the ranges of {moving[:5]} still moved after {self.rounds} rounds; give low and high"
                result = _mark_stalled(result, note)
            if all(v.is_discrete for v in problem.graph.variables):
                return replace(result, algorithm=self.name)
            if not problem.is_sum:
                return self._maximum(problem, grids, result)
            found = self._beliefs(problem, grids, result, walls)
            if not found.status.is_success or run.ended() is not None:
                return found
            given = self.low is not None  # integrals end where they are told to
            return self._resolve(problem, found, halve(grids, walls | given), budget, rng)

    def _resolve(
        self, problem: Problem, found: Result, grids: Grids, budget: Budget, rng: np.random.Generator
    ) -> Result:
        """The answer, and what coarser grids make of it; nothing if these have none in the time left."""
        try:
            coarse = self._ask(problem, grids, (), budget, rng)
        except ZeroProbabilityError:
            return _mark_stalled(
                found, "with every other point nothing is left of the product; give more points"
            )
        if not coarse.status.is_success:
            return found
        ends = np.ones((len(problem.graph.variables), 2), dtype=bool)  # the finer grids told of cuts
        apart = largest_move(problem.graph.variables, found, self._beliefs(problem, grids, coarse, ends))
        if apart <= _MOVED:
            return found
        note = (
            "with every other point, log Z per variable, means and widths in deviations, or probabilities "
            f"move by {apart:.2g}: the grids resolve the factors no better; give more points, or low and high"
        )
        return _mark_stalled(found, note) if apart > _LOST else replace(found, notes=(*found.notes, note))

    def _last(
        self,
        problem: Problem,
        grids: Grids,
        budget: Budget,
        rng: np.random.Generator,
        cut: Result | None,
    ) -> Result:
        """The answer on the last grids; where the search for them was cut, what it has, or in a moment."""
        if cut is not None and problem.is_sum:
            return cut
        if cut is None:
            return self._ask(problem, grids, problem.maximised, budget, rng)
        few = replace(budget, max_iter=min(budget.max_iter, _SWEEPS), seconds=None)
        return replace(self._ask(problem, grids, problem.maximised, few, rng), status=cut.status)

    def _grids(self, problem: Problem, budget: Budget, run: Run) -> tuple[Grids, list[str], Result | None]:
        """Grids, variables whose ranges were not found, and the coarse answer of a search that was cut."""
        graph = problem.graph
        n = len(graph.variables)
        if self.low is not None and self.high is not None:
            return Grids(np.full(n, self.low), np.full(n, self.high), self.points, self.rule), [], None
        low, high = first_ranges(problem)
        real = [i for i, v in enumerate(graph.variables) if not v.is_discrete]
        coarse = replace(budget, max_iter=min(budget.max_iter, _SWEEPS))
        moving: list[str] = []
        for _ in range(self.rounds if real else 0):
            grids = Grids(low.copy(), high.copy(), min(self.points, _COARSE), "trapezoid")
            result = self._ask(problem, grids, (), coarse, run.rng)
            found = result.marginals
            assert found is not None
            status = result.status if result.status is Status.INTERRUPTED else run.ended()
            if status is not None:
                return grids, [], replace(result, status=status)
            moving = []
            for i in real:
                name = graph.variables.names[i]
                low[i], high[i], moved = next_ranges(name, grids.points(i), found[name], grids.weights(i))
                moving += [name] if moved else []
            if not moving:
                break
        return Grids(low, high, self.points, self.rule), moving, None

    def _ask(
        self,
        problem: Problem,
        grids: Grids,
        maximise: Sequence[int] | np.ndarray,
        budget: Budget,
        rng: np.random.Generator,
    ) -> Result:
        heat = np.ones(len(problem.graph.variables))
        heat[list(maximise)] = 0.0
        tables = discretise(problem.graph, grids, heat == 1, self.max_entries)
        asked = Problem(tables, heat, (heat == 0).astype(np.int64), has_evidence=problem.has_evidence)
        try:
            return self._bp.run(asked, budget, rng)
        except ZeroProbabilityError:
            if problem.graph.variables.is_discrete or not np.isfinite(problem.constant):
                raise problem.contradiction() from None
            subject = "the evidence has" if problem.has_evidence else "every configuration has"
            raise ZeroProbabilityError(
                f"{subject} weight zero at all points of the grids; check values and factors, or give low, "
                "high and more points"
            ) from None

    def _beliefs(self, problem: Problem, grids: Grids, result: Result, walls: np.ndarray) -> Result:
        """Densities and probabilities; a belief may not end but at walls (n, 2)."""
        variables, found = problem.graph.variables, result.marginals
        assert found is not None
        flat = np.zeros(int(variables.state_start[-1]))
        densities, cut = {}, []
        for i, v in enumerate(variables):
            if v.is_discrete:
                flat[variables.state_start[i] : variables.state_start[i + 1]] = found[v.name]
                continue
            with np.errstate(divide="ignore"):
                logs = np.log(found[v.name]) - np.log(grids.weights(i))
            densities[v.name] = _density(grids, i, logs)
            if (logs[[0, -1]][~walls[i]] > logs.max() + np.log(_CUT)).any():
                cut.append(v.name)
        result = replace(
            result,
            algorithm=self.name,
            marginals=Marginals(variables, flat, densities),
            factor_marginals=None,
            notes=(*result.notes, _describe(grids, variables)),
        )
        if not cut:
            return result
        note = f"the beliefs about {cut[:5]} are cut off by their grids; give low and high"
        return (
            _mark_stalled(result, note) if self.low is None else replace(result, notes=(*result.notes, note))
        )

    def _maximum(self, problem: Problem, grids: Grids, result: Result) -> Result:
        variables, found = problem.graph.variables, result.assignment
        assert found is not None and result.log_z is not None
        indices, values = np.full(len(variables), -1, dtype=np.int64), {}
        for i in problem.maximised:
            state = int(found.indices[i])
            if variables.sizes[i]:
                indices[i] = state
            else:
                values[variables.names[i]] = float(grids.points(i)[state])
        value = result.log_z.value
        return replace(
            result,
            algorithm=self.name,
            log_z=Estimate(value, "lower" if problem.is_max else "estimate"),
            assignment=Assignment(variables, indices, values),
            score=Estimate(value, "exact" if problem.is_max else "estimate"),
            notes=(*result.notes, _describe(grids, variables)),
        )


def _density(grids: Grids, i: int, logs: np.ndarray) -> GridDensity:
    """A belief from its logs at the points; the half cells at the ends of midpoints go on as the next do."""
    points = grids.points(i)
    if grids.rule == "midpoint":
        points = np.concatenate([[grids.low[i]], points, [grids.high[i]]])
        ends = [logs[a] + 0.5 * _slope(logs[a], logs[b]) for a, b in ((0, 1), (-1, -2))]
        logs = np.concatenate([ends[:1], logs, ends[1:]])
    return GridDensity.of(points, logs)


def _slope(end: float, before: float) -> float:
    return float(end - before) if np.isfinite(end) and np.isfinite(before) else 0.0


def _mark_stalled(result: Result, note: str) -> Result:
    """A run whose grids are not where the beliefs are has not succeeded."""
    status = Status.STALLED if result.status.is_success else result.status
    return replace(result, status=status, notes=(*result.notes, note))


def _describe(grids: Grids, variables: Variables) -> str:
    real = variables.sizes == 0
    low, high = grids.low[real].min(), grids.high[real].max()
    return f"real variables have {grids.count} points each, between {low:.6g} and {high:.6g}"
