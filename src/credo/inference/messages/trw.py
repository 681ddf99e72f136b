r"""Tree-reweighted belief propagation: a convex relaxation whose optimum bounds log Z from above.

    log Z  <=  max_b  sum_a <theta_a>_{b_a} + sum_i H(b_i) - sum_a rho_a I(b_a),
    I(b_a) = sum_{i in a} H(b_i) - H(b_a),

over locally consistent b, with rho_a the probability that factor a is in a random spanning forest
(`structures/spanning_trees.py`; 1 for factors over one variable). The messages M = m^rho are those
of the shared engine with power 1 / rho:

    M_{a->i}(x_i)^(1/rho_a) = op_{x_a without x_i} psi_a^(1/rho_a) prod_{j != i} B_j M_{a->j}^(-1/rho_a),
    B_i = prod_a M_{a->i}.

All rho = 1 is BP; on forests rho is 1 and the answer exact. The objective is concave, so a fixed
point is the optimum; damping helps to reach it. With zeros the optimum may lie on the boundary, where
messages creep towards it ever more slowly.

What is reported. The objective bounds log Z only at its optimum, and running messages never are
exactly there. Any messages, however, split the model into forests, and that split has an upper
bound of its own (`kernels/trees.py`, `reweighted_bound`), equal to the objective at a fixed point.
A converged run reports that bound, of kind "upper": it holds whatever `tol` was. A run that did not
converge reports the objective as an estimate, and its note gives the bound that holds nevertheless.
With all variables maximised the bound is on the best score.

rho: "uniform" over spanning trees (effective resistances; balanced covering forests if a factor
has more than two variables), "trees" (frequencies in random or given forests), or "optimised":
conditional gradient from there, whose gradient is -I(b_a) and whose direction is the forest of
largest information. A step is kept only if the bound fell, so the result is never looser.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ...core import check
from ...core.factor_graph import FactorGraph
from ...core.records import record
from ...core.result import Assignment, Estimate, Result, Status
from ...kernels.tables import best_states
from ...kernels.trees import reweighted_bound
from ...structures.spanning_trees import appearance, given_forests, random_forests, spanning_forest
from ..problem.base import IterativeAlgorithm, Problem, register
from ..problem.forest import ForestPasses
from ..problem.value import value_of
from . import engine
from .engine import MessageState, Schedule, Weighted

__all__ = ["TRW", "TRWState", "bound_of_messages"]

_DAMPING = 0.1  # for pairs; costs little and stops the rare oscillation
_DAMPING_WIDE = 0.3  # the least that stopped all oscillations of random models with wide factors
_SETTLED = 1e-4  # change of the messages at which rho is improved
_KEPT = 0.02  # share of the first rho that every later one keeps, so that none vanishes
_SMALLEST = 1e-3  # steps on rho below this end the optimisation
_STILL = 1e-9  # relative decrease of the bound, per sweep, that counts as rest
_NEARLY_STILL = 1e-5  # the same while rho is still being improved; the bound holds in any case
_FAINT = 600.0  # log range below the maximum to which an underflowed message is lifted


@record("trw round")
class _AppearanceRound(NamedTuple):
    """The best appearance probabilities so far and what they gave."""

    rho: np.ndarray
    bound: float
    messages: np.ndarray  # log messages, to go back to
    target: np.ndarray  # the forest to move towards


@record("trw", rebuilt=("passes",))
class TRWState(NamedTuple):
    """Messages, appearance probabilities, and where their optimisation stands."""

    passes: ForestPasses  # which factors link variables, which states are possible
    messages: MessageState  # of the engine
    rho: np.ndarray  # appearance probability per factor
    first: np.ndarray  # the rho of the start
    best: _AppearanceRound | None  # None until the first rho has settled
    length: float  # last step on rho
    rounds: int  # steps on rho still to try
    bound: float = np.inf  # certified by the messages when their change was last below tol

    def alone(self) -> MessageState:
        """What a warm start needs, as data."""
        return self.messages.alone()


@register
@dataclass(frozen=True, kw_only=True)
class TRW(IterativeAlgorithm[TRWState]):
    """Reweighted message passing with a choice of appearance probabilities."""

    name: ClassVar[str] = "trw"
    promises: ClassVar[frozenset[str]] = frozenset({"exact on trees"})
    slopes: ClassVar[bool] = True
    warm_starts: ClassVar[bool] = True
    rho: Literal["uniform", "trees", "optimised"] = "uniform"  # appearance probabilities
    schedule: Schedule = "auto"  # order of the updates, as in bp
    damping: float | None = None  # weight of the old message; None: by arity, 0 on forests
    trees: int = 32  # random forests of rho=trees (more if needed to cover every factor)
    forests: tuple[tuple[int, ...], ...] = ()  # forests of rho=trees as factor positions, instead
    rounds: int = 20  # steps of rho=optimised
    fixed_rho: float | None = None  # one value for all linking factors; log Z is then an estimate

    def __post_init__(self) -> None:
        """Check the options."""
        check.one_of("rho", self.rho, ["uniform", "trees", "optimised"])
        check.one_of("schedule", self.schedule, engine.SCHEDULES)
        if self.damping is not None:
            check.in_range("damping", self.damping, 0, 1)
        check.whole("trees", self.trees, 1)
        check.whole("rounds", self.rounds, 0)
        if self.fixed_rho is not None:
            check.at_least("fixed_rho", self.fixed_rho, 1e-3)

    def start(self, problem: Problem, rng: np.random.Generator) -> TRWState:
        """Uniform messages and the first appearance probabilities."""
        passes = ForestPasses(problem.graph)
        if passes.is_impossible:
            raise problem.contradiction()
        if isinstance(problem.warm, TRWState):
            problem = replace(problem, warm=problem.warm.messages)
        rho = self._first_rho(problem.graph, passes, rng)
        state = engine.start(problem, self._weights(passes, rho), rng)
        free = self.rho == "optimised" and self.fixed_rho is None and bool((rho < 1).any())
        rounds = self.rounds if free else 0
        return TRWState(passes, state, rho, rho, None, 1.0, rounds)

    def _first_rho(self, graph: FactorGraph, passes: ForestPasses, rng: np.random.Generator) -> np.ndarray:
        if self.fixed_rho is not None:
            return np.where(passes.spread >= 2, self.fixed_rho, 1.0)
        if self.rho == "trees" and self.forests:
            return given_forests(graph, self.forests).appearance
        if self.rho == "trees":
            return random_forests(graph, self.trees, rng).appearance
        return appearance(graph)

    def _weights(self, passes: ForestPasses, rho: np.ndarray) -> Weighted:
        damping = self.damping
        if damping is None:
            damping = 0.0 if (rho == 1).all() else _DAMPING if passes.spread.max() <= 2 else _DAMPING_WIDE
        return Weighted(1 / rho, np.full(len(rho), 1 - damping))

    def step(self, problem: Problem, state: TRWState) -> tuple[TRWState, float]:
        """One sweep; once the messages have settled, a step on rho if it is being optimised."""
        state, changes = self.advance(problem, state, 1, 0.0)
        return state, float(changes[-1])

    def advance(
        self, problem: Problem, state: TRWState, count: int, tol: float
    ) -> tuple[TRWState, np.ndarray]:
        """Several sweeps inside the kernel, up to the point where something is to be decided."""
        optimising = state.rounds > 0
        rest = _SETTLED if optimising else tol
        messages, changes = engine.advance(
            problem, state.messages, self._weights(state.passes, state.rho), self.schedule, count, rest
        )
        state = state._replace(messages=messages)
        if changes[-1] < rest and self.fixed_rho is None:
            # Probabilities may rest while the logarithms of tiny ones still move, and the bound with them.
            bound = bound_of_messages(problem, state.passes, engine.log_messages(messages), state.rho)
            fall, state = state.bound - bound, state._replace(bound=bound)
            if fall > (_NEARLY_STILL if optimising else _STILL) * max(1.0, abs(bound)):
                changes = np.append(changes[:-1], max(rest, min(fall, 1.0)))
            elif optimising:
                state = self._improve(problem, state)
        # Not before rho is final may the run count as converged.
        return state, np.maximum(changes, 1.0) if optimising else changes

    def _improve(self, problem: Problem, state: TRWState) -> TRWState:
        """Keep rho if its bound fell, else go back and try half the step; then move towards a forest."""
        logs, bound = engine.log_messages(state.messages), state.bound
        best, length, rounds = state.best, state.length, state.rounds - 1
        if best is None or bound < best.bound:
            found = engine.read(problem, state.messages, self._weights(state.passes, state.rho))
            forest = spanning_forest(problem.graph, _information(problem.graph, found))
            target = _KEPT * state.first + (1 - _KEPT) * np.where(state.passes.spread >= 2, forest, 1.0)
            best = _AppearanceRound(state.rho, bound, logs, target)
            length = min(2 * length, 2 / (self.rounds - rounds + 2))
        else:
            length /= 2
        if rounds == 0 or length < _SMALLEST:
            return self._restart(problem, state, best.rho, best)._replace(rounds=0)
        rho = (1 - length) * best.rho + length * best.target
        return self._restart(problem, state, rho, best)._replace(length=length, rounds=rounds)

    def _restart(
        self, problem: Problem, state: TRWState, rho: np.ndarray, best: _AppearanceRound
    ) -> TRWState:
        rng = state.messages.rng
        messages = engine.start(problem, self._weights(state.passes, rho), rng, messages=best.messages)
        return state._replace(messages=messages, rho=rho, best=best, bound=np.inf)

    def messages(self, problem: Problem, state: TRWState) -> dict[tuple[int, str], np.ndarray]:
        """Log messages by edge."""
        return engine.messages_by_edge(problem, state.messages)

    def read(self, problem: Problem, state: TRWState, status: Status) -> Result:
        """Beliefs or decoded states, and the bound the messages certify."""
        if state.rounds and state.best is not None:
            state = self._restart(problem, state, state.best.rho, state.best)
        found = engine.read(problem, state.messages, self._weights(state.passes, state.rho))
        answer: dict[str, Any] = {"marginals": found.marginals, "factor_marginals": found.factor_marginals}
        value = Estimate(found.log_z, "estimate")
        if not problem.is_sum:
            states = best_states(problem.graph.variables.state_start, found.log_beliefs)
            score = value_of(problem, states)
            answer = {"assignment": Assignment(problem.graph.variables, states), "score": score}
            value = Estimate(score.value, "lower")
        if self.fixed_rho is not None and len(state.passes.links):
            return Result(self.name, status, log_z=value, **answer)
        logs = engine.log_messages(state.messages)
        bound = bound_of_messages(problem, state.passes, logs, state.rho)
        if state.best is not None:
            bound = min(bound, state.best.bound)
        if status.is_success:
            return Result(self.name, status, log_z=Estimate(bound, "upper"), **answer)
        shown = bound + 1e-11 * abs(bound)  # printing must not round a bound down
        note = f"the messages reached so far guarantee a value of at most {shown:.12g}"
        return Result(self.name, status, log_z=value, notes=(note,), **answer)


def bound_of_messages(problem: Problem, passes: ForestPasses, messages: np.ndarray, rho: np.ndarray) -> float:
    """Upper bound on log Z, or on the best score, from log messages that need not have converged.

    Messages may be anything: they only choose how the model is split into forests. `rho` must be
    appearance probabilities of some distribution over forests.
    """
    graph, w = problem.graph, problem.graph.wiring
    sizes = w.sizes[w.scope]
    place = np.repeat(w.state_start[w.scope] - w.edge_state_start[:-1], sizes) + np.arange(len(messages))
    link = np.repeat((passes.spread >= 2)[w.edge_factor], sizes)
    possible = passes.node[place] > -np.inf
    # A message may underflow at a possible state; any finite value there is as good a split.
    lifted = np.where(np.isneginf(messages), -_FAINT, messages)
    lifted = np.where(link & possible, lifted, 0.0)
    belief = passes.node + np.bincount(place, lifted, minlength=len(passes.node))
    heat = 1.0 if problem.is_sum else 0.0
    value = reweighted_bound(
        passes.links, graph.log_tables, w.table_start, w.table_size, rho, w.scope_start, w.scope,
        w.edge_stride, w.sizes, w.state_start, w.edge_state_start, lifted, belief, heat,
    )  # fmt: skip
    if value == -np.inf:
        raise problem.contradiction()
    return float(value) + passes.constant


def _information(graph: FactorGraph, found: engine.Readout) -> np.ndarray:
    """I(b_a) = sum_i H(b_i) - H(b_a) of every factor: minus the gradient of the bound."""
    w = graph.wiring
    variables = _entropies(found.marginals.flat, w.state_start)
    tables = _entropies(found.factor_marginals.flat, np.concatenate([[0], np.cumsum(w.table_size)]))
    ends = np.bincount(w.edge_factor, variables[w.scope], minlength=graph.n_factors)
    return np.asarray(ends - tables)


def _entropies(p: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Entropy of each slice."""
    terms = -p * np.log(np.where(p > 0, p, 1.0))
    return np.add.reduceat(terms, start[:-1]) if len(start) > 1 else np.empty(0)
