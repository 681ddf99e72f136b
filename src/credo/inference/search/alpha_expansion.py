r"""Alpha-expansion: MAP of pairwise models with many states by a sequence of smallest cuts.

A move lets any set of variables change to one state k at once; the best such move is a smallest cut if

    theta(k, k) + theta(x, y)  >=  theta(x, k) + theta(k, y)        for all states k, x, y of every pair

(Potts and other metrics). Moves are made for each state in turn until none raises the score: no single
expansion is better than the result. With two states it is optimal. The start, and an upper bound beside
the score, come from a few sweeps of `dual-decomposition`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ...core import check
from ...core.factor_graph import FactorGraph
from ...core.records import record
from ...core.result import Result, Status
from ...kernels import graph_cut as kernel
from ...kernels.max_flow import arcs_by_tail
from ...optimise.run import is_ending
from ..bounds.decomposition import Decomposition, answer, fold
from ..problem.base import IterativeAlgorithm, Problem, register
from ..problem.value import meets

__all__ = ["AlphaExpansion", "ExpansionState"]

_RISE = 1e-12  # smallest relative gain that counts: equal scores must not be swapped for ever


class _ExpansionTables(NamedTuple):
    """What all moves share."""

    node: np.ndarray  # log weights per flat state
    graph: FactorGraph  # the pairs
    first: np.ndarray  # variable of the first axis of each
    second: np.ndarray  # and of the second
    start: np.ndarray  # arcs by tail
    arcs: np.ndarray
    head: np.ndarray


@record("alpha-expansion", rebuilt=("pairs",))
class ExpansionState(NamedTuple):
    """States, their score, and what bounds it."""

    pairs: _ExpansionTables
    states: np.ndarray  # of the problem's graph
    score: float
    bound: float  # an upper bound on the best score
    turn: int  # moves tried
    idle: int  # how many of the last ones changed nothing
    scores: tuple[float, ...]  # after each move


@register
@dataclass(frozen=True, kw_only=True)
class AlphaExpansion(IterativeAlgorithm[ExpansionState]):
    """Expansion moves by smallest cuts, for pairs that are metrics such as Potts models."""

    name: ClassVar[str] = "alpha-expansion"
    promises: ClassVar[frozenset[str]] = frozenset({"upper"})
    sweeps: int = 20  # of dual decomposition, for the start and the bound

    def __post_init__(self) -> None:
        """Check the options."""
        check.whole("sweeps", self.sweeps, 0)

    def why_not(self, problem: Problem) -> str | None:
        """Pairs with equal state counts whose expansions are cuts; all maximised."""
        graph = fold(problem.graph)[2]
        sizes = graph.variables.sizes
        wide = np.flatnonzero(np.diff(graph.scope_start) > 2)
        if len(wide):
            return f"{_factor(graph, int(wide[0]))} joins more than two variables"
        count = sizes[graph.scope]
        uneven = np.flatnonzero(count[::2] != count[1::2])
        if len(uneven):
            return f"{_factor(graph, int(uneven[0]))} joins variables with different numbers of states"
        fault = int(kernel.expansion_fault(graph.log_tables, graph.table_start, count[::2].copy()))
        if fault >= 0:
            return f"{_factor(graph, fault)} is no metric: an expansion move would not be a smallest cut"
        return None

    def start(self, problem: Problem, rng: np.random.Generator) -> ExpansionState:
        """The states decoded from a few sweeps of dual decomposition."""
        work = Decomposition.of(problem)
        shifts = work.no_shifts()
        for turn in range(self.sweeps):
            if is_ending():
                break
            work.sweep(shifts, trust=turn > 0)
        states, score = work.decode(shifts)
        if score == -np.inf:
            states, score = work.possible(shifts) or (states, score)
        node, _, graph = fold(problem.graph)
        node = np.where(work.restriction.keep, node, -np.inf)
        first, second = graph.scope[::2].copy(), graph.scope[1::2].copy()
        start, arcs = arcs_by_tail(len(graph.variables), first, second)
        head = np.stack([second, first], axis=1).ravel()
        pairs = _ExpansionTables(node, graph, first, second, start, arcs, head)
        return ExpansionState(pairs, work.original(states), score, work.bound(shifts), 0, 0, ())

    def step(self, problem: Problem, state: ExpansionState) -> tuple[ExpansionState, float]:
        """The best move to the next state; no change once every state was tried in vain."""
        p, graph = state.pairs, state.pairs.graph
        labels = int(graph.variables.sizes.max(initial=1))
        score, states = state.score, state.states
        if score > -np.inf:
            states = kernel.expand(
                state.turn % labels,
                states,
                p.node,
                graph.variables.state_start,
                p.first,
                p.second,
                graph.log_tables,
                graph.table_start,
                p.start,
                p.arcs,
                p.head,
                np.empty(len(p.arcs)),
                np.empty(len(states)),
                np.empty((len(p.first), 2)),
            )
            score = float(problem.graph.log_scores(states[None, :])[0])
        rose = score > state.score + _RISE * max(1.0, abs(state.score))
        if not rose:
            score, states = state.score, state.states
        idle = 0 if rose else state.idle + 1
        state = state._replace(
            states=states, score=score, turn=state.turn + 1, idle=idle, scores=(*state.scores, score)
        )
        done = idle >= labels or meets(score, state.bound)
        return state, 0.0 if done else 1.0

    def read(self, problem: Problem, state: ExpansionState, status: Status) -> Result:
        """The states, and the bound of the start."""
        trace = {"bound": np.full(len(state.scores), state.bound), "score": np.array(state.scores)}
        return answer(self.name, problem, status, state.bound, state.states, trace)


def _factor(graph: FactorGraph, a: int) -> str:
    return f"the factor over {[graph.variables.names[int(i)] for i in graph.scope_of(a)]}"
