r"""Max-product with decimation: pass messages, fix the variables that are most decided, and go on.

Each round runs belief propagation (max-product, or mixed-product for marginal MAP) from the messages of the
round before, takes the maximised variables with the largest gap between their best and second best
belief, and fixes a share of them. Zeros are propagated after every round. Where a choice leaves no
possible state, a search that keeps arc consistency replaces it by possible states near the beliefs, so
the result has positive weight whenever that search finds some. The score of the assignment is a lower
bound on the maximum.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from ...core import check
from ...core.errors import ZeroProbabilityError
from ...core.factor_graph import FactorGraph
from ...core.records import record
from ...core.result import Assignment, Estimate, Result
from ...kernels import decoding
from ...kernels.support import supported_states
from ...optimise.driver import Outcome, Step, drive
from ...optimise.run import Run
from ..bounds.decomposition import terms_of
from ..messages import engine
from ..problem import feasible
from ..problem.base import Algorithm, Budget, Problem, register
from ..problem.value import value_and_slopes

__all__ = ["Decimation"]

_SETTLED = 1e-3  # change of a message from which beliefs are good enough to choose by
_FAINT = -30.0  # log of what stands for zero in messages handed on
_FAILURES = 20_000  # dead ends after which the search for possible states gives up
_NONE = 1e-12  # below any share of undecided variables
_CLIMBS = 50  # sweeps of single changes at the end


@register
@dataclass(frozen=True, kw_only=True)
class Decimation(Algorithm):
    """Fix the most decided variables, round by round."""

    name: ClassVar[str] = "decimation"
    checkpoints: ClassVar[bool] = True
    promises: ClassVar[frozenset[str]] = frozenset({"lower"})
    share: float = 0.1  # of the undecided variables, fixed per round
    sweeps: int = 10  # of message passing per round at most
    damping: float = 0.0  # weight of the old message

    def __post_init__(self) -> None:
        """Check the options."""
        check.in_range("share", self.share, 0, 1.0 + 1e-9)
        check.whole("sweeps", self.sweeps, 1)
        check.in_range("damping", self.damping, 0, 1)

    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """Rounds until every maximised variable is decided; the budget counts rounds."""
        budget = replace(budget, tol=max(budget.tol, _NONE))
        return drive(_DecimationRounds(self), problem, budget, rng)  # type: ignore[no-any-return]

    def believe(
        self, problem: Problem, messages: np.ndarray | None, size: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Messages after a few sweeps, and the log beliefs of all states."""
        weights = engine.Weighted.plain(problem.graph, 1 - self.damping)
        state = engine.start(problem, weights, rng, messages=messages)
        done = 0
        while done < self.sweeps:
            state, changes = engine.advance(problem, state, weights, "auto", self.sweeps - done, _SETTLED)
            done += len(changes)
            if not len(changes) or changes[-1] < _SETTLED:
                break
        found = engine.read(problem, state, weights)
        return np.maximum(engine.log_messages(state), _FAINT), found.log_beliefs


@record("decimation", rebuilt=("work",))
class _Chosen(NamedTuple):
    """Where the rounds are."""

    work: _AllowedStates
    allowed: np.ndarray  # flags of states
    belief: np.ndarray  # log beliefs of the last round
    messages: np.ndarray | None = None  # to start the next one from


class _DecimationRounds:
    """Decimation as the driver sees it: the residual is the share of variables that are undecided."""

    name = Decimation.name

    def __init__(self, options: Decimation) -> None:
        self._options = options

    def start(self, problem: Problem, run: Run) -> Step:
        work = _AllowedStates(problem)
        return Step(_Chosen(work, work.first, np.zeros(len(work.first))))

    def advance(self, problem: Problem, state: _Chosen, run: Run) -> Step:
        work, allowed, belief, messages = state
        try:
            now = work.problem_with(allowed)
            messages, belief = self._options.believe(now, messages, len(belief), run.rng)
        except ZeroProbabilityError:
            allowed, messages = work.rescue(allowed, belief), None
        allowed = work.fix(allowed, belief, self._options.share)
        undecided = work.undecided(allowed)
        trace = {"decided": [len(undecided) - int(undecided.sum())]}
        share = float(undecided.sum()) / max(1, len(undecided))
        return Step(_Chosen(work, allowed, belief, messages), [share], trace)

    def read(self, problem: Problem, outcome: Outcome) -> Result:
        work, allowed, belief, _ = outcome.state
        states = work.states(work.fix(allowed, belief, 1.0), belief)
        score, slopes = value_and_slopes(problem, states)
        return Result(
            self.name,
            outcome.ended,
            log_z=Estimate(score.value, "lower"),
            assignment=Assignment(problem.graph.variables, np.where(problem.temperatures == 0, states, -1)),
            score=score,
            factor_marginals=slopes,
            trace={"decided": np.array(outcome.trace.get("decided", ()), dtype=np.int64)},
        )


class _AllowedStates:
    """What follows from the states that are allowed: a graph with a unary slot per variable says which."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.graph = problem, _with_slots(problem.graph)
        self.start = problem.graph.variables.state_start
        self.owner = np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))
        self.first = self._support(np.ones(int(self.start[-1]), dtype=np.bool_))
        if not self._is_possible(self.first):
            raise problem.contradiction()

    def _tables(self, allowed: np.ndarray) -> np.ndarray:
        tables = self.graph.log_tables.copy()
        tables[len(tables) - len(allowed) :] = np.where(allowed, 0.0, -np.inf)
        return tables

    def _support(self, allowed: np.ndarray) -> np.ndarray:
        g = self.graph
        return np.asarray(
            supported_states(self._tables(allowed), g.table_start, g.scope_start, g.scope, self.start)
        )

    def _is_possible(self, allowed: np.ndarray) -> bool:
        constants = self.graph.log_tables[self.graph.table_start[np.diff(self.graph.scope_start) == 0]]
        return bool((self._counts(allowed) > 0).all() and (constants > -np.inf).all())

    def _counts(self, allowed: np.ndarray) -> np.ndarray:
        return np.bincount(self.owner[allowed], minlength=len(self.start) - 1)

    def undecided(self, allowed: np.ndarray) -> np.ndarray:
        """Flags of maximised variables with several states left."""
        return np.asarray((self._counts(allowed) > 1) & (self.problem.temperatures == 0))

    def problem_with(self, allowed: np.ndarray) -> Problem:
        """The problem on the allowed states."""
        made = self.graph.with_states(self.graph.variables, self._tables(allowed), self.graph.table_start)
        return replace(self.problem, graph=made, warm=None)

    def _rank(self, allowed: np.ndarray, belief: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The best allowed flat state of each variable, and its margin over the second best."""
        value = np.where(allowed, np.maximum(belief, -1e300), -np.inf)
        order = np.lexsort((np.arange(len(value)), -value, self.owner))
        best = order[self.start[:-1]]
        second = order[np.minimum(self.start[:-1] + 1, self.start[1:] - 1)]
        alone = self._counts(allowed) <= 1
        with np.errstate(invalid="ignore"):
            return best, np.where(alone, np.inf, value[best] - value[second])

    def fix(self, allowed: np.ndarray, belief: np.ndarray, share: float) -> np.ndarray:
        """Fix the most decided variables; where that is impossible, take possible states instead."""
        best, margin = self._rank(allowed, belief)
        open_ = np.flatnonzero(self.undecided(allowed))
        if not len(open_):
            return allowed
        chosen = open_[np.argsort(-margin[open_], kind="stable")][: max(1, int(share * len(open_)))]
        is_chosen = np.zeros(len(best), dtype=np.bool_)
        is_chosen[chosen] = True
        wanted = allowed & ~is_chosen[self.owner]
        wanted[best[chosen]] = True
        wanted = self._support(wanted)
        return wanted if self._is_possible(wanted) else self.rescue(allowed, belief)

    def rescue(self, allowed: np.ndarray, belief: np.ndarray) -> np.ndarray:
        """States near the beliefs all of whose combinations are possible; the likeliest if none is found."""
        best, margin = self._rank(allowed, belief)
        order = np.argsort(-margin, kind="stable").astype(np.int64)
        for among in (allowed, self.first):
            code, keep = feasible.feasible_box(
                self.graph, order, np.maximum(belief, -1e300), _FAILURES, self._tables(among)
            )
            if code == feasible.FOUND:
                return np.asarray(keep & among)
        if code == feasible.IMPOSSIBLE:
            raise self.problem.contradiction()
        # Out of reach: decide by the beliefs alone.
        likeliest = np.zeros_like(allowed)
        likeliest[best] = True
        return likeliest

    def states(self, allowed: np.ndarray, belief: np.ndarray) -> np.ndarray:
        """The best allowed state of each variable, improved one by one in a pure maximisation."""
        states = self._rank(allowed, belief)[0] - self.start[:-1]
        if self.problem.is_max and len(states):
            terms = terms_of(self.problem.graph)
            decoding.climb(terms, np.zeros(len(belief)), states, _CLIMBS)
        return states


def _with_slots(graph: FactorGraph) -> FactorGraph:
    """The graph with one more unary factor per variable, its tables after all others."""
    n, m = len(graph.variables), len(graph.log_tables)
    start = graph.variables.state_start
    return FactorGraph.from_flat(
        graph.variables,
        np.concatenate([graph.scope_start, graph.scope_start[-1] + 1 + np.arange(n)]),
        np.concatenate([graph.scope, np.arange(n)]),
        np.concatenate([graph.log_tables, np.zeros(int(start[-1]))]),
        table_start=np.concatenate([graph.table_start, m + start[:-1]]),
    )
