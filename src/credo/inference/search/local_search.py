r"""Local search for the best states of the maximised variables.

Three moves. An iterated local search over single variables disturbs a few neighbouring variables, descends
from there, and keeps what is not worse; after a move only the numbers around the factors it touched change.
Blocks of variables are solved exactly by elimination given the others (see `blocks.py`), narrow ones first
and wider ones when these find nothing more. Now and then the states are heated and annealed.

In marginal MAP the worth of states is the powered sum over the other variables,
Q(x_B) = log sum_{x_A} exp theta, so there blocks do the work: they eliminate the summed variables around
them. The first states come from a search that maximises everything, and from mixed-product messages.

States that zero entries forbid are repaired first. The score of the states found is a lower bound on
the maximum whenever the search is stopped; once a block spans everything, it is the maximum.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, cast

import numpy as np

from ...core import check
from ...core.factor_graph import FactorGraph
from ...core.records import record
from ...core.result import Assignment, Estimate, Result, Status
from ...kernels import local_search as kernel
from ...kernels.tables import best_states
from ...optimise.driver import UNKNOWN, Outcome, Step, drive
from ...optimise.run import Run
from ...optimise.run import check as check_clock
from ..problem import feasible
from ..problem.base import Algorithm, Budget, Problem, register
from ..problem.reading import refusal
from ..problem.value import value_of
from .blocks import MoveBlocks

__all__ = ["LocalSearch", "StateSearch", "first_states", "improve", "why_no_states"]

_ROUNDS = 4096  # disturbances between two looks at the clock, at most
_ROUND = 300.0  # numbers looked at in one, about
_EFFORT = 4e6  # numbers looked at between two looks at the clock, of each kind of move
_SWEEPS = 64  # temperatures of the first annealing; later ones take longer while they find nothing
_COOLING = 1e-3  # last temperature of an annealing as a share of the typical one
_PAUSES = (1, 4)  # iterations for which single moves and annealing rest after finding nothing, at first
_LONGEST_REST = 32  # iterations for which a kind of move that found nothing is left out
_DISTURBED = 12  # variables disturbed at once, at most
_TOL = 1e-10  # gains up to this, relative to the score, are rounding
_DEAD_ENDS = 2000  # of the search for a first feasible state
_NARROW = 8.0  # log2 of the tables of the first blocks
_WIDEST = 22.0  # log2 of the tables of the last blocks, if time is given
_FRUITLESS = 6  # blocks in a row without gain before they become wider
_ALLY_PATIENCE = 12  # fruitless steps of the search that maximises everything
_START_SWEEPS = 100  # of the messages that propose first states
_MESSAGE_EFFORT = 1e7  # table entries these sweeps read, unless that is less than two sweeps
_MESSAGES_PER_SECOND = 5e5  # and per second given: about a tenth of what is possible
_DAMPINGS = (0.0, 0.5)  # quick where it converges, and calmer


def why_no_states(problem: Problem) -> str | None:
    """Why states of the maximised variables cannot be searched; None if they can."""
    if not len(problem.maximised):
        return "it searches for the best states, and nothing is maximised; use maximise"
    return None


@register
@dataclass(frozen=True, kw_only=True)
class LocalSearch(Algorithm):
    """Iterated local search with exact moves of whole blocks; for large models, MAP and marginal MAP."""

    name: ClassVar[str] = "local-search"
    checkpoints: ClassVar[bool] = True
    promises: ClassVar[frozenset[str]] = frozenset({"lower"})
    start: Literal["messages", "entries"] = "messages"  # first states: belief propagation or largest entries
    block: float = 16.0  # log2 of the largest table of a block, more if `seconds` are left; 0: no blocks
    patience: int = 40  # iterations without gain, all widths of blocks tried, after which it ends

    def __post_init__(self) -> None:
        """Check the options."""
        check.one_of("start", self.start, ["messages", "entries"])
        check.in_range("block", self.block, 0, 40)
        check.whole("patience", self.patience, 1)

    def why_not(self, problem: Problem) -> str | None:
        """Something must be maximised, after all else."""
        return why_no_states(problem)

    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """Search until nothing was gained for a while, the budget is used up, or somebody stops it."""
        steps = _FlipSteps(self.block, self.patience, asks_messages=self.start == "messages")
        return steps.drive(problem, budget, rng)


def improve(
    problem: Problem,
    states: np.ndarray,
    budget: Budget,
    rng: np.random.Generator,
    *,
    block: float = 16.0,
    patience: int = 40,
) -> tuple[np.ndarray, Estimate]:
    """States at least as good as the given ones, and their value.

    Parameters
    ----------
    problem
        What is maximised.
    states
        (n,) state indices; entries of variables that are not maximised are ignored.
    budget
        Iterations and time.
    rng
        Random numbers.
    block, patience
        As the options of `local-search`.
    """
    found = _FlipSteps(block, patience, np.where(problem.temperatures == 0, states, 0)).drive(
        problem, budget, rng
    )
    assert found.assignment is not None and found.score is not None
    return np.maximum(found.assignment.indices, 0), found.score


@dataclass(frozen=True, eq=False)
class _FlipSteps:
    """The search as the driver sees it."""

    name: ClassVar[str] = LocalSearch.name
    block: float
    patience: int
    states: np.ndarray | None = None  # the first ones, where they are known
    asks_messages: bool = False  # whether messages propose others before the first step

    def drive(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """The best states found."""
        # What a step has found is kept even where the step is cut.
        return cast(Result, drive(self, problem, budget, rng, whole=False))

    def start(self, problem: Problem, run: Run) -> Step:
        states = first_states(problem, run.rng) if self.states is None else self.states
        search = StateSearch(problem, run.rng, self.block, states, run.budget.seconds)
        return Step(search, status=search.proof())

    def advance(self, problem: Problem, search: StateSearch, run: Run) -> Step:
        if self.asks_messages and not search.has_asked:
            search.ask_messages()
            return Step(search)
        search.step()
        status = search.proof()
        if status is None and search.is_spent(self.patience) and not search.widen():
            status = Status.STALLED  # nothing says how far the best states are
        return Step(search, [UNKNOWN], {"score": [search.score.value]}, status)

    def read(self, problem: Problem, outcome: Outcome) -> Result:
        return outcome.state.result(self.name, outcome)  # type: ignore[no-any-return]


@record(
    "local search",
    kept=(
        "_limit", "_widest", "_fruitless", "_idle", "_sweeps", "_ally", "_rest", "_pause", "_rng", "proven",
        "best", "score", "has_asked",
    ),
)  # fmt: skip
class StateSearch:
    """The best states so far and the moves from there.

    Parameters
    ----------
    problem, rng
        What is maximised, and random numbers.
    block
        As the option of `local-search`.
    states
        (n,) the first states.
    seconds
        Of the whole search, None for no limit; blocks grow wider than asked for where time is given.
    """

    def __init__(
        self,
        problem: Problem,
        rng: np.random.Generator,
        block: float,
        states: np.ndarray,
        seconds: float | None,
    ) -> None:
        self._problem, self._rng, self._seconds = problem, rng, seconds
        self._blocks = MoveBlocks(problem, rng)
        self._limit = min(_NARROW, block)
        self._widest = block
        self._fruitless = self._idle = 0
        self._sweeps = _SWEEPS
        self._ally: StateSearch | None = None
        self._rest, self._pause = [0, 0], list(_PAUSES)  # of single moves and of annealing
        self.proven = len(self._blocks.movable) == 0
        self.best = np.ascontiguousarray(states, dtype=np.int64)
        self.score = value_of(problem, self.best)
        self.has_asked = False  # whether messages were asked for states

    def propose(self, states: np.ndarray) -> bool:
        """Take the states over if they are better; whether they were."""
        if np.array_equal(states[self._blocks.movable], self.best[self._blocks.movable]):
            return False
        score = value_of(self._problem, states)
        tol = _TOL * max(1.0, abs(score.value)) if np.isfinite(score.value) else 0.0
        better = score.value > self.score.value + tol
        if better or (score.value == self.score.value and score.value > -np.inf):
            self.best, self.score = states, score
        return better

    def ask_messages(self) -> None:
        """Take over what belief propagation suggests, if it is better."""
        self.has_asked = True
        for damping in _DAMPINGS:
            check_clock()
            if len(self._blocks.movable):
                self.propose(by_messages(self._problem, self._rng, damping, self._seconds))

    def proof(self) -> Status | None:
        """That the states are the best, if that is known; refuses where the best have no weight."""
        if not self.proven:
            return None
        if self.score.value == -np.inf and self.score.kind == "exact":
            raise self._problem.contradiction()
        return Status.OPTIMAL

    def is_spent(self, patience: int) -> bool:
        """Whether blocks of all widths were tried and nothing was gained for a while."""
        return self.proven or (self._idle >= patience and self._limit >= self._widest)

    def widen(self) -> bool:
        """Allow wider blocks than asked for, where time is given and left; whether that is worth trying."""
        if self._seconds is None or self.proven or not 0 < self._widest < _WIDEST:
            return False
        self._widest, self._idle = self._widest + 1, 0
        return True

    def step(self) -> None:
        """One iteration, unless the run around it is over."""
        check_clock()
        gained = self._ask_ally()
        gained = self._move() or gained
        self._idle = 0 if gained else self._idle + 1

    def _ask_ally(self) -> bool:
        """In marginal MAP, a step of the search that maximises everything: its states are possible."""
        if self._problem.is_max or self._widest == 0:
            return False
        if self._ally is None:
            self.revive("_ally")
            assert self._ally is not None
            self._ally.ask_messages()
        if self._ally.is_spent(_ALLY_PATIENCE):
            return False
        self._ally.step()
        return self.propose(self._ally.best)

    def revive(self, name: str) -> None:
        """Make the ally, which a search has from its first step on."""
        everything = np.zeros_like(self._problem.temperatures)
        asked = replace(self._problem, temperatures=everything, levels=np.zeros_like(self._problem.levels))
        states = first_states(self._problem, self._rng)
        self._ally = StateSearch(asked, self._rng, self._widest, states, self._seconds)

    def _move(self) -> bool:
        """One iteration: a block, and the other moves unless they rest after finding nothing."""
        gained = self._block()
        if not (self._problem.is_max or self._limit == 0) or self.proven:
            return gained
        for k in range(2 if self._problem.is_max else 1):
            if self._rest[k] > 0:
                self._rest[k] -= 1
            elif self._anneal() if k else self._singles():
                self._pause[k], gained = _PAUSES[k], True
            else:
                self._rest[k] = self._pause[k]
                self._pause[k] = min(2 * self._pause[k], _LONGEST_REST)
        return gained

    def _singles(self) -> bool:
        if self._problem.is_max:
            return self.propose(descend(self._problem.graph, self.best, self._rng))
        i = self._rng.choice(self._blocks.movable)
        moved = self.best.copy()
        moved[i] = self._rng.integers(self._problem.graph.variables.sizes[i])
        return self.propose(moved)

    def _anneal(self) -> bool:
        """Anneal from the best states, from a temperature that keeps more or less of them."""
        graph, rng = self._problem.graph, self._rng
        typical, penalty = _scales(graph)
        # Reheating a little keeps most of the states, reheating fully begins anew.
        hottest = 10 ** rng.uniform(-2, 0)
        heats = typical * np.geomspace(hottest, _COOLING * hottest, self._sweeps)
        self._sweeps = min(self._sweeps + _SWEEPS, 32 * _SWEEPS)
        moved, land = self.best.copy(), landscape_of(graph)
        some = max(1, int(_EFFORT / max(len(graph.scope), 1) / 4))
        for first in range(0, len(heats), some):
            check_clock()
            heat = heats[first : first + some]
            kernel.anneal.over(len(heat) * len(graph.scope))(
                land, moved, self._blocks.movable, heat, penalty, _random_state(rng)
            )
        return self.propose(descend(graph, moved, rng))

    def _block(self) -> bool:
        if self._limit == 0:
            return False
        free = self._blocks.draw(self._limit)
        moved = self._blocks.solve(self.best, free, self._limit)
        gained = moved is not None and self.propose(moved)
        self.proven = moved is not None and self._blocks.is_everything(free)
        self._fruitless = 0 if gained else self._fruitless + 1
        if self._fruitless >= _FRUITLESS and self._limit < self._widest:
            self._limit, self._fruitless = min(self._limit + 1, self._widest), 0
        return gained

    def result(self, name: str, outcome: Outcome) -> Result:
        """The best states, and what is known about the maximum."""
        kind = "exact" if self.proven and self.score.kind == "exact" else "lower"
        states = np.where(self._problem.temperatures == 0, self.best, -1)
        return Result(
            name,
            outcome.ended,
            log_z=Estimate(self.score.value, kind),  # type: ignore[arg-type]
            assignment=Assignment(self._problem.graph.variables, states),
            score=self.score,
            trace={"score": np.array(outcome.trace.get("score", ()))},
        )


def _scales(graph: FactorGraph) -> tuple[float, float]:
    """How much a typical factor varies, and more than any factor does."""
    finite = np.where(np.isneginf(graph.log_tables), 0.0, graph.log_tables)
    if not len(finite):
        return 1.0, 1.0
    spread = float(np.ptp(finite))
    return max(spread, 1e-6), 2 * max(spread, 1.0)


def _random_state(rng: np.random.Generator) -> np.ndarray:
    """Where a kernel's random numbers begin."""
    return rng.integers(2**64, size=1, dtype=np.uint64)


def landscape_of(graph: FactorGraph) -> kernel.Landscape:
    """The arrays of a graph that the kernels of single moves read."""
    w = graph.wiring
    return kernel.Landscape(
        graph.log_tables,
        w.table_start,
        w.scope_start,
        w.scope,
        w.edge_stride,
        w.state_start,
        w.neighbour_start,
        w.neighbour_edge,
        w.edge_factor,
    )


def descend(
    graph: FactorGraph, states: np.ndarray, rng: np.random.Generator, rounds: int | None = None
) -> np.ndarray:
    """States of all variables at least as good as the given ones, by moves of single variables."""
    tables = graph.log_tables
    moved = states.copy()
    movable = np.flatnonzero(graph.variables.sizes > 1)
    entry = float(np.abs(tables, where=np.isfinite(tables), out=np.zeros_like(tables)).max(initial=0.0))
    rounds = min(16 + 4 * len(movable), _ROUNDS) if rounds is None else rounds
    kernel.search_rounds.over(_ROUND * rounds)(
        landscape_of(graph),
        moved,
        movable,
        rounds,
        _EFFORT,
        _DISTURBED,
        1e-12 * max(1.0, entry),
        _random_state(rng),
    )
    return moved


def first_states(problem: Problem, rng: np.random.Generator) -> np.ndarray:
    """States that no zero entry forbids, by large entries; any states if none are found in time."""
    graph = problem.graph
    score = np.maximum(feasible.entry_scores(graph), -1e300)
    keep = np.ones(len(score), dtype=bool)
    if np.isneginf(graph.log_tables).any():
        order, noise = rng.permutation(len(graph.variables)), rng.gumbel(size=len(score))
        code, keep = feasible.feasible_box(graph, order, score + 1e-3 * noise, _DEAD_ENDS)
        if code == feasible.IMPOSSIBLE:
            raise problem.contradiction()
    return best_states(graph.variables.state_start, np.where(keep, score, -np.inf))


def by_messages(
    problem: Problem, rng: np.random.Generator, damping: float, seconds: float | None
) -> np.ndarray:
    """States decoded from some sweeps of belief propagation."""
    from ..messages.bp import BP

    method = BP(damping=damping)
    if refusal(method, problem) is not None:
        problem = replace(problem, temperatures=np.where(problem.temperatures > 0, 1.0, 0.0))
    # Counted, because sweeps run in one go: their number must fit the time given before they begin.
    effort = _MESSAGE_EFFORT if seconds is None else min(_MESSAGE_EFFORT, _MESSAGES_PER_SECOND * seconds)
    sweeps = int(np.clip(effort / max(len(problem.graph.log_tables), 1), 2, _START_SWEEPS))
    found = method.run(problem, Budget(sweeps, 1e-4), rng).assignment
    assert found is not None  # something is maximised, last
    return np.maximum(found.indices, 0)
