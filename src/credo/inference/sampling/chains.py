"""What all samplers share: options, short runs that look for modes, the loop over sweeps, and the verdict.

A sampler advances several chains at once. The warm-up, which is thrown away, begins with short runs from
random starts; the chains begin at those of their ends that lie farthest apart, without ends of negligible
weight (see `starts`), and the rest of the warm-up, four fifths or more, tunes the sampler there. Marginals
are frequencies of states, of one variable or of the scope of a table, and weighted points of continuous
variables, all draws with equal weight.

A run that has made all its draws has converged when

    max_i R-hat_i - 1 < r_hat - 1,    min_i ESS_i >= effective,    no trajectory diverged

over the variables i (see `diagnostics`); otherwise its advice says which of these failed. R-hat compares the
chains with each other: a mode that none of them has seen does not show, which the notes of every run say.
`diagnostics` of the result holds R-hat, the effective sample size and the standard error of each unobserved
variable, in the order of the model: for a discrete variable those of the worst of its states, for a simplex
variable of the worst coordinate. The trace holds, per sweep of all phases, the energy (minus the mean log
density of the chains) and the largest R-hat as it was known then, infinite before there is one; it is
computed after 32, 256, 2048, ... draws.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from ...core import check
from ...core.errors import TooLargeError
from ...core.records import record
from ...core.result import Result, Status
from ...core.variable import Variables
from ...optimise.driver import UNKNOWN, Outcome, Step, drive
from ...optimise.pace import Pace
from ...optimise.run import Run
from ..problem.base import Algorithm, Budget, Problem
from ..problem.located import Places
from ..problem.starting_places import starting_places
from .diagnostics import Diagnosis
from .draws import (
    Draws,
    diagnose_draws,
    draw_factor_marginals,
    draw_marginals,
    draw_samples,
    join,
    worst_r_hat,
)
from .starts import farthest, starting_points

__all__ = ["Engine", "Sampler", "Still"]

_MEMORY = 2**32  # bytes of draws that are kept
_TURNS = 4  # short runs of all chains that look for modes
_SHORT = 25  # sweeps of one of them at most; all together have a fifth of the warm-up at most
_FIRST_LOOK = 32  # draws per chain after which R-hat is computed first
_MORE = 8  # times as many when it is computed next
_LOOKED_AT = 2**22  # numbers beyond which it is computed only at the end


class Engine(Protocol):
    """Chains that can be moved on."""

    @property
    def chunk(self) -> int:
        """Most sweeps in one go."""
        ...

    def begin(self, starts: Draws, turn: int) -> None:
        """Put the chains at other points, untuned; turns differ in their random numbers."""
        ...

    def advance(self, first: int, count: int) -> Draws:
        """Do sweeps number first, first + 1, ... and return the state after each."""
        ...

    def current(self) -> Draws:
        """The state of every chain, as one draw."""
        ...

    def divergences(self) -> int:
        """Moves after the warm-up that went wrong."""
        ...

    def notes(self) -> Sequence[str]:
        """Sentences about the run."""
        ...


@record("still chains", rebuilt=("points", "chunk"))
@dataclass(frozen=True)
class Still:
    """Chains that have nothing to move."""

    points: Draws  # one per chain
    chunk: int = 1000  # most sweeps in one go

    def begin(self, starts: Draws, turn: int) -> None:
        """There is one point only."""

    def advance(self, first: int, count: int) -> Draws:
        """The same points again and again."""
        now = self.current()
        values = {name: np.repeat(v, count, axis=1) for name, v in now.values.items()}
        states = np.repeat(now.states, count, axis=1)
        return Draws(states, values, np.zeros(states.shape[:2]))

    def current(self) -> Draws:
        """The points where the chains stand, as one draw each."""
        return self.points._replace(logs=np.zeros(self.points.states.shape[:2]))

    def divergences(self) -> int:
        """Zero: these chains follow no trajectory that could diverge."""
        return 0

    def notes(self) -> Sequence[str]:
        """No sentences: there is nothing to tell about chains that do not move."""
        return ()


@dataclass(frozen=True, kw_only=True)
class Sampler(Algorithm):
    """Markov chains on variables of any domain."""

    checkpoints: ClassVar[bool] = True
    chains: int = 4  # run side by side, from different starts
    warmup: int = 500  # sweeps that look for modes, tune the sampler, and are thrown away
    draws: int | None = None  # kept per chain; None: max_iter, or more if more samples are asked for
    spread: float = 2.0  # of the random starts of continuous variables, in the widths of their profiles
    r_hat: float = 1.05  # below which chains agree; tol may raise it
    effective: float = 100.0  # independent draws that those of a variable must be worth

    def __post_init__(self) -> None:
        """Check the options."""
        check.whole("chains", self.chains, 1)
        check.whole("warmup", self.warmup, 0)
        if self.draws is not None:
            check.whole("draws", self.draws, 1)
        check.at_least("spread", self.spread, 0)
        check.at_least("r_hat", self.r_hat, 1)
        check.at_least("effective", self.effective, 0)

    @property
    def _short(self) -> int:
        """Sweeps of one short run."""
        return min(_SHORT, self.warmup // (5 * _TURNS))

    @property
    def _tuning(self) -> int:
        """Sweeps of the warm-up after the short runs."""
        return self.warmup - _TURNS * self._short

    @abc.abstractmethod
    def _engine(self, problem: Problem, places: Places, starts: Draws, rng: np.random.Generator) -> Engine:
        """Chains at their starts; sizes of moves are those of the places."""

    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """Look for modes, warm up, draw, and judge the draws."""
        each = max(self.draws or budget.max_iter, -(-problem.samples // self.chains), 1)
        self._refuse_large(problem, each)
        budget = replace(budget, max_iter=self.warmup + each, tol=max(self.r_hat - 1, budget.tol))
        return drive(_ChainSweeps(self, budget.tol), problem, budget, rng, whole=False)  # type: ignore[no-any-return]

    def _refuse_large(self, problem: Problem, each: int) -> None:
        needed = 8.0 * self.chains * each * _numbers(problem.graph.variables)
        if needed > _MEMORY:
            raise TooLargeError(
                f"{self.name}: {self.chains} chains of {each} draws of {len(problem.graph.variables)} "
                f"variables need {needed / 1e9:.1f} GB, more than the {_MEMORY / 1e9:.1f} GB kept at most; "
                "lower draws"
            )


def _numbers(variables: Variables) -> int:
    """Numbers of one draw."""
    return sum(d.numbers if s == 0 else 1 for d, s in zip(variables.domains, variables.sizes, strict=True))


@record("chains")
class _Drawn(NamedTuple):
    """Chains under way."""

    engine: Engine
    turn: int = 0  # short runs that have ended
    done: int = 0  # sweeps of this short run, or of the warm-up and after it
    ends: tuple[Draws, ...] = ()  # of short runs
    parts: tuple[Draws, ...] = ()  # after the warm-up
    worst: float = np.inf  # R-hat when it was looked at last
    found: Diagnosis | None = None  # of all draws, once they are there


class _ChainSweeps:
    """Chains as the driver sees them; what is asked for is a number of draws, judged when they are there."""

    def __init__(self, sampler: Sampler, tol: float) -> None:
        self.name, self._sampler, self._tol = sampler.name, sampler, tol
        self._short = sampler._short
        self._turns = _TURNS if self._short else 0

    def start(self, problem: Problem, run: Run) -> Step:
        options, places = self._sampler, starting_places(problem.graph)
        count = options.chains * max(self._turns, 1)
        self._starts = starting_points(problem, count, options.spread, run.rng, self.name, places)
        engine = options._engine(problem, places, self._starts_of(0), run.rng)
        self._pace = Pace(engine.chunk)
        return Step(_Drawn(engine))

    def _starts_of(self, turn: int) -> Draws:
        first = turn * self._sampler.chains
        own = slice(first, first + self._sampler.chains)
        return Draws(self._starts.states[own], {name: v[own] for name, v in self._starts.values.items()})

    def advance(self, problem: Problem, state: _Drawn, run: Run) -> Step:
        if state.turn < self._turns:
            return self._scout(problem, state, run)
        left = self._sampler._tuning - state.done
        most = left if left > 0 else min(run.count, _next_look(-left) + left)
        part = self._move(state, most, run)
        count = part.states.shape[1]
        new = state._replace(done=state.done + count)
        if left > 0:
            return _step(state, new, part)
        new = new._replace(parts=(*state.parts, part))
        if count < run.count:
            return _step(state, _look(problem, new), part)
        return self._last(problem, state, new, part)

    def _scout(self, problem: Problem, state: _Drawn, run: Run) -> Step:
        """A piece of a short run; the last one puts the chains where they shall begin."""
        engine, turn = state.engine, state.turn
        part = self._move(state, self._short - state.done, run)
        done = state.done + part.states.shape[1]
        if done < self._short:
            return _step(state, state._replace(done=done), part)
        ends, turn = (*state.ends, engine.current()), turn + 1
        is_last = turn == self._turns
        starts = farthest(join(ends, axis=0), self._sampler.chains) if is_last else self._starts_of(turn)
        engine.begin(starts, turn)
        return _step(state, _Drawn(engine, turn, ends=() if is_last else ends), part)

    def _move(self, state: _Drawn, most: int, run: Run) -> Draws:
        count, began = min(self._pace.count, most, run.count), run.elapsed
        part = state.engine.advance(state.done, count)
        self._pace.took(run.elapsed - began)
        return part

    def _last(self, problem: Problem, old: _Drawn, state: _Drawn, part: Draws) -> Step:
        """All draws are there: the sampler says what is wrong with them, the driver that nothing is."""
        found = diagnose_draws(problem.graph.variables, join(state.parts))
        state = state._replace(found=found, worst=_worst(found))
        status = None
        if self._faults(problem, state.engine, found):
            status = Status.STALLED if state.engine.divergences() else Status.OUT_OF_ITERATIONS
        return _step(old, state, part, state.worst - 1, status)

    def read(self, problem: Problem, outcome: Outcome) -> Result:
        engine, parts, found = outcome.state.engine, outcome.state.parts, outcome.state.found
        variables, status = problem.graph.variables, outcome.ended
        draws = join(parts or (engine.current(),))
        found = diagnose_draws(variables, draws) if found is None else found
        faults = self._faults(problem, engine, found)
        told = f"{draws.states.shape[0]} chains of {draws.states.shape[1]} draws{_describe(variables, found)}"
        return Result(
            self.name,
            status,
            marginals=draw_marginals(variables, draws),
            factor_marginals=draw_factor_marginals(problem.graph, draws) if problem.graph.is_tables else None,
            samples=draw_samples(variables, draws, problem.samples),
            trace={name: np.array(outcome.trace.get(name, ())) for name in ("energy", "r_hat")},
            diagnostics=found._asdict(),
            hint=self._reason(status, faults),
            notes=(told, *faults, *engine.notes(), *(_UNSEEN if len(variables) else ())),
        )

    def _reason(self, status: Status, faults: list[str]) -> str:
        if status is Status.CONVERGED:
            return f"R-hat - 1 fell below {self._tol:.3g}"
        return faults[0] if faults and status in (Status.OUT_OF_ITERATIONS, Status.STALLED) else ""

    def _faults(self, problem: Problem, engine: Engine, found: Diagnosis) -> list[str]:
        """What forbids to call the draws converged, the worst first."""
        names, floor, faults = problem.graph.variables.names, self._sampler.effective, []
        longer = "max_iter" if self._sampler.draws is None else "draws"
        if count := engine.divergences():
            several = "1 trajectory" if count == 1 else f"{count} trajectories"
            faults.append(
                f"{several} diverged after the warm-up: the density is steep somewhere, and draws may "
                "be missing there; raise target or warmup"
            )
        if _worst(found) - 1 >= self._tol:
            faults.append(
                f"the chains do not agree yet (R-hat of '{names[int(np.argmax(found.r_hat))]}' is "
                f"{_worst(found):.3f}, below {1 + self._tol:.4g} is wanted): raise {longer} or "
                "warmup, or use another method"
            )
        effective = np.where(found.mcse > 0, found.ess, np.inf)  # what never moves has no error
        if effective.min(initial=np.inf) < floor:
            faults.append(
                f"the draws of '{names[int(np.argmin(effective))]}' are worth {effective.min():.0f} "
                f"independent ones, {floor:.4g} are wanted (effective): raise {longer}"
            )
        return faults


_UNSEEN = (
    "R-hat compares the chains with each other: a mode that none of them has visited does not show, neither "
    "there nor in the marginals",
)


def _step(
    old: _Drawn, new: _Drawn, part: Draws, residual: float = UNKNOWN, status: Status | None = None
) -> Step:
    """Sweeps as steps; nothing is known of the residual before the last draw."""
    assert part.logs is not None
    with np.errstate(over="ignore"):  # chains on their way to infinity
        energy = -part.logs.mean(axis=0)
    more = len(energy) - 1
    trace = {"energy": energy, "r_hat": [*[old.worst] * more, new.worst]}
    return Step(new, [UNKNOWN] * more + [residual], trace, status)


def _next_look(draws: int) -> int:
    """After how many draws R-hat is looked at next."""
    look = _FIRST_LOOK
    while look <= draws:
        look *= _MORE
    return look


def _look(problem: Problem, state: _Drawn) -> _Drawn:
    """R-hat of the draws so far, if it is time."""
    draws = sum(p.states.shape[1] for p in state.parts)
    variables = problem.graph.variables
    size = draws * len(state.parts[0].states) * _numbers(variables)
    if draws != _next_look(draws - 1) or size > _LOOKED_AT:
        return state
    return state._replace(worst=worst_r_hat(variables, join(state.parts)))


def _worst(found: Diagnosis) -> float:
    return float(found.r_hat.max(initial=1.0))


def _describe(variables: Variables, found: Diagnosis) -> str:
    if not len(variables):
        return ""
    high, low = int(np.argmax(found.r_hat)), int(np.argmin(found.ess))
    return (
        f": largest R-hat {found.r_hat[high]:.3f} ('{variables.names[high]}'), "
        f"smallest effective sample size {found.ess[low]:.0f} ('{variables.names[low]}')"
    )
