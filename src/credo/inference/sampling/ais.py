r"""Annealed importance sampling: log Z by chains that lead from an easy distribution to the model.

    x_0 ~ p_0,   log w += theta_t(x) - theta_s(x),   x ~ T_t(. | x),      0 = t_0 < t_1 < ... < t_K = 1
    E w = Z / Z_0,      log Z ~ log Z_0 + log mean_r w_r

T_t leaves p_t, with log weight theta_t = (1 - t) base + t theta, as it is: a sweep of Gibbs sampling. Weights
are right whatever K is; with few temperatures they spread, and the mean of their logarithms is far below
log Z. A run that is cut goes to t = 1 in one step. The way back, `direction=reverse`, begins at states of the
model, which are those of a forward run taken in proportion to their weights: as E 1/w' = Z_0 / Z, log Z comes
out too high where the chains do not follow, and both directions agree where they do.

Temperatures are evenly spaced, or most of them late (`schedule=late`): of 29 parts 1 below 0.5, 8 from there
to 0.9 and 20 above; with `temperatures=14500` these are the 500, 4000 and 10,000 used for Boltzmann machines.
Two layers of units are drawn one after the other as a whole, by matrices, with one of them summed by hand.

log Z is an estimate with the standard error of the mean weight. A run has converged when that is below
`error`; a mode that no chain has met does not show. Marginals are weighted frequencies at the end.
Source: Neal (2001); Salakhutdinov and Murray (2008); Burda, Grosse and Salakhutdinov (2015).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from ...core import check
from ...core.errors import UnsupportedError
from ...core.records import record
from ...core.result import Estimate, Result
from ...optimise.driver import UNKNOWN, Outcome, Step, drive
from ...optimise.pace import Pace
from ...optimise.run import Run
from ...structures.layers import dense_layers
from ..problem.base import Algorithm, Budget, Problem, register
from .annealing import LayerPath, Path, TablePath

__all__ = ["AIS"]

_LATE = ((0.5, 1 / 29), (0.9, 9 / 29), (1.0, 1.0))  # temperature up to which a share of the steps leads


@register
@dataclass(frozen=True, kw_only=True)
class AIS(Algorithm):
    """Annealed importance sampling: weighted chains from an easy distribution to the model, for log Z."""

    name: ClassVar[str] = "ais"
    checkpoints: ClassVar[bool] = True
    chains: int = 100  # run side by side
    temperatures: int | None = 100  # from the easy distribution to the model; None: max_iter
    schedule: Literal["even", "late"] = "even"  # how they are spaced
    base: Literal["fields", "uniform"] = "fields"  # what is easy: factors of single variables, or nothing
    direction: Literal["forward", "reverse"] = "forward"  # reverse: there, and back again with new weights
    error: float = 0.1  # standard error of log Z that is small enough; tol may raise it

    def __post_init__(self) -> None:
        """Check the options."""
        check.whole("chains", self.chains, 2)
        if self.temperatures is not None:
            check.whole("temperatures", self.temperatures, 1)
        check.one_of("schedule", self.schedule, ["even", "late"])
        check.one_of("base", self.base, ["fields", "uniform"])
        check.one_of("direction", self.direction, ["forward", "reverse"])
        check.at_least("error", self.error, 0)

    def why_not(self, problem: Problem) -> str | None:
        """Tables that fit; without zeros where it comes back from the model."""
        graph = problem.graph
        if not graph.is_tables and dense_layers(graph) is None:
            return "its factors would be more tables than fit into memory"
        if self.direction == "reverse" and np.isneginf(graph.log_tables).any():
            return "some weights are zero, and chains that come back from the model would pass them over"
        return None

    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """Anneal all chains, then judge their weights."""
        turns = max(self.temperatures or budget.max_iter, 1)
        steps = turns if self.direction == "forward" else 2 * turns
        budget = replace(budget, max_iter=steps, tol=max(self.error, budget.tol))
        return drive(_Annealing(self, turns), problem, budget, rng)  # type: ignore[no-any-return]


@record("annealed chains")
class _Annealed(NamedTuple):
    """Chains on their way."""

    step: int  # taken so far
    rows: np.ndarray  # one state per chain
    logs: np.ndarray  # log weights
    forward: Estimate | None = None  # what the way there said, on the way back


class _Annealing:
    """Chains as the driver sees them: a step is a temperature."""

    def __init__(self, options: AIS, turns: int) -> None:
        self.name, self._options, self._turns = options.name, options, turns
        self._heat = _even(turns) if options.schedule == "even" else _late(turns)

    def start(self, problem: Problem, run: Run) -> Step:
        is_uniform = self._options.base == "uniform"
        layers = dense_layers(problem.graph)
        self._path: Path = (
            TablePath(problem, is_uniform=is_uniform)
            if layers is None
            else LayerPath(problem.graph, layers, is_uniform=is_uniform)
        )
        self._pace = Pace(self._turns)
        count = self._options.chains
        return Step(_Annealed(0, self._path.begin(count, run.rng), np.zeros(count)))

    def advance(self, problem: Problem, state: _Annealed, run: Run) -> Step:
        count, began = min(self._pace.count, run.count), run.elapsed
        heat = []
        for _ in range(count):
            state = self._next(state, run.rng)
            heat.append(self._at(state.step))
        self._pace.took(run.elapsed - began)
        residual = UNKNOWN
        if state.step == self._last and (found := self._estimate(state)) is not None:
            residual = float(found.error or 0.0)
        return Step(state, [UNKNOWN] * (count - 1) + [residual], {"temperature": heat})

    @property
    def _last(self) -> int:
        return self._turns if self._options.direction == "forward" else 2 * self._turns

    def _at(self, step: int) -> float:
        """The temperature after so many steps: up, and down again."""
        return float(self._heat[step if step <= self._turns else 2 * self._turns - step])

    def _next(self, state: _Annealed, rng: np.random.Generator) -> _Annealed:
        rows, logs, forward, path = state.rows, state.logs, state.forward, self._path
        if state.step == self._turns:
            forward, weights = self._estimate(state), _shares(logs)
            rows, logs = rows[rng.choice(len(rows), len(rows), p=weights)], np.zeros(len(rows))
            rows = path.move(rows, 1.0, rng)
        old, new = self._at(state.step), self._at(state.step + 1)
        logs = logs + path.gain(rows, old, new)
        return _Annealed(state.step + 1, path.move(rows, new, rng), logs, forward)

    def _estimate(self, state: _Annealed) -> Estimate | None:
        """Log Z after a jump to the end of the way, with its standard error."""
        is_back, now = state.forward is not None, self._at(state.step)
        end = 0.0 if is_back else 1.0
        logs = state.logs if now == end else state.logs + self._path.gain(state.rows, now, end)
        top = float(logs.max())
        if top == -np.inf:
            return None
        weights = np.exp(logs - top)
        mean = float(weights.mean())
        error = float(weights.std(ddof=1)) / mean / np.sqrt(len(weights))
        found = top + np.log(mean)
        return Estimate(self._path.log_z + (-found if is_back else found), "estimate", error)

    def read(self, problem: Problem, outcome: Outcome) -> Result:
        state: _Annealed = outcome.state
        found = self._estimate(state)
        if found is None:
            raise UnsupportedError(
                f"{self.name} cannot treat this problem: none of {len(state.rows)} chains ended at a joint "
                "state of positive weight; raise chains or temperatures, or use an exact method"
            )
        is_there = self._at(state.step) == 1.0
        return Result(
            self.name,
            outcome.ended,
            log_z=found,
            marginals=self._path.marginals(state.rows, _shares(state.logs)) if is_there else None,
            trace={name: np.array(numbers) for name, numbers in outcome.trace.items()},
            diagnostics={"log_weights": state.logs},
            hint=self._hint(found, outcome),
            notes=self._notes(state),
        )

    def _notes(self, state: _Annealed) -> tuple[str, ...]:
        shares = _shares(state.logs)
        told = f"{len(shares)} chains are worth {1 / (shares**2).sum():.0f} with equal weights"
        if state.forward is None:
            return (told,)
        return (told, f"on the way there log Z was {state.forward}")

    def _hint(self, found: Estimate, outcome: Outcome) -> str:
        told = f"the standard error of log Z is {found.error:.2g}"
        if outcome.ended.is_success or outcome.was_stopped:
            return told if outcome.ended.is_success else ""
        return (
            f"{told}, {self._options.error:.2g} is wanted (error): raise temperatures or chains, or use "
            "another method"
        )


def _shares(logs: np.ndarray) -> np.ndarray:
    """Weights that sum to one."""
    top = logs.max()
    weights = np.exp(logs - top) if np.isfinite(top) else np.ones(len(logs))
    return np.asarray(weights / weights.sum())


def _even(turns: int) -> np.ndarray:
    """Temperatures from 0 to 1."""
    return np.arange(turns + 1) / turns


def _late(turns: int) -> np.ndarray:
    """Temperatures from 0 to 1, most of them near the end."""
    heat, share = zip((0.0, 0.0), *_LATE, strict=True)
    return np.asarray(np.interp(np.arange(turns + 1) / turns, share, heat))
