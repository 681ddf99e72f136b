"""The message-passing engine that BP and its weighted relatives share.

`kernels/messages.py` states the iteration, `forms.py` puts a problem into the form that is fastest for
it. An algorithm file chooses the weights, the schedule and what its number guarantees; starting,
advancing and reading are here, for one problem or for many of one structure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...core.errors import QueryError
from ...core.factor_graph import FactorGraph
from ...core.records import record
from ...core.result import FactorMarginals, Status
from ...core.wiring import starts_of
from ...kernels import messages as kernel
from ...kernels.positive_batch import positive_batch
from ..problem.base import Budget, ContradictoryRowError, Problem
from ..problem.instances import Instances, TableBatch
from .forms import SAFE_LOG, Kept, choose_form, safe_form
from .readout import Readout
from .sweeps import SCHEDULES, Schedule, Sweep, Weighted, is_forest, orders

__all__ = [
    "SCHEDULES",
    "MessageState",
    "Readout",
    "Schedule",
    "Sweep",
    "Weighted",
    "advance",
    "is_forest",
    "log_messages",
    "messages_by_edge",
    "read",
    "run_tables",
    "start",
]

_TINY = 1e-280  # below, doubles lose digits
_CHUNK = 16  # sweeps between two looks at the clock, on large models;
_ENTRIES = 1 << 21  # on small ones, table entries passed between two looks
_FAINT = -30.0  # log of what stands for zero in a warm start
_SURE = 1e-2  # probability in a message below which changes of its logarithm do not show
_REST = 20  # sweeps in which no belief may move while such logarithms do


@record("messages")
class MessageState(NamedTuple):
    """Messages in the form the kernels use; `log_messages(state)` gives them as logarithms."""

    form: Any  # one of those in forms.py
    values: np.ndarray  # messages in that form
    turn: int  # sweeps done, for schedules with several orders
    rng: np.random.Generator  # for random orders
    due: np.ndarray | None = None  # what the residual schedule has pending
    still: int = 0  # above 0: beliefs rest, and it is the number of the next sweep that makes sure

    def alone(self) -> MessageState:
        """The same messages without the problem they came from: enough for a warm start, and data only."""
        return MessageState(Kept(), log_messages(self), 0, self.rng)


def start(
    problem: Problem,
    weights: Weighted,
    rng: np.random.Generator,
    *,
    random: bool = False,
    messages: np.ndarray | None = None,
) -> MessageState:
    """The first state: given log messages, those of the problem's warm start, uniform or random ones."""
    graph = problem.graph
    form = choose_form(problem, weights)
    if messages is None and problem.warm is not None:
        messages = _warm_messages(problem)
    if messages is None and random:
        sizes = graph.variables.sizes[graph.scope]
        edge = np.repeat(np.arange(len(sizes)), sizes)
        draws = rng.gamma(1.0, size=len(edge)) + 1e-3
        messages = np.log(draws / np.bincount(edge, draws, minlength=len(sizes))[edge])
    values = form.uniform() if messages is None else form.from_log(messages)
    return MessageState(form, values, 0, rng)


def _warm_messages(problem: Problem) -> np.ndarray:
    state = problem.warm
    if not isinstance(state, MessageState):
        raise QueryError("warm_start: expected the result of a message-passing method such as bp")
    messages = log_messages(state)
    expected = int(problem.graph.wiring.edge_state_start[-1])
    if len(messages) != expected:
        raise QueryError(
            f"warm_start: expected messages of {expected} entries, got {len(messages)}; "
            "the earlier run must be on the same structure with the same variables observed"
        )
    # What was impossible then may be possible now, and zeros would keep each other alive around a loop.
    return np.maximum(messages, _FAINT)


def advance(
    problem: Problem, state: MessageState, weights: Weighted, schedule: Schedule, count: int, tol: float
) -> tuple[MessageState, np.ndarray]:
    """Up to `count` sweeps (a few at most at a time); the new state and the change of each.

    The change is that of a message without damping, of which a damped sweep makes a part only.

    A message that is nearly certain may still be on its way where its probability does not show it, and
    tip a belief once it meets an opposite one. So a change below `tol` is the last only if the logarithms
    rest too, or, since on loops they may grow for ever, no belief moves for some sweeps more.
    """
    part, changes = float(weights.step.min(initial=1.0)), np.empty(0)
    tol *= part
    enough = 10 * tol
    if not state.still:
        state, changes = _swept(problem, state, weights, schedule, count, tol)
        if not len(changes) or not changes[-1] < tol:
            return state, changes / part
        least = state.form.least(state.values)
        if least >= _SURE or changes[-1] <= enough * least:
            return state, changes / part
    state, changes = _made_sure(problem, state, weights, schedule, (changes, count, tol, enough))
    return state, changes / part


def _made_sure(
    problem: Problem,
    state: MessageState,
    weights: Weighted,
    schedule: Schedule,
    so_far: tuple[np.ndarray, int, float, float],
) -> tuple[MessageState, np.ndarray]:
    """Sweeps after the beliefs came to rest, until the logarithms do or enough of them moved nothing."""
    changes, count, tol, enough = so_far
    plain: Schedule = "sequential" if schedule == "residual" else schedule  # which asks what shows
    rest = np.inf if is_forest(problem.graph) else _REST
    first = still = state.still or 1
    left = max(1, count - len(changes))
    while still <= rest and still - first < left:
        before = state
        state, more = _swept(problem, state, weights, plain, 1, 0.0)
        changes = np.append(changes, more)
        if state.form is before.form and state.form.log_gap(before.values, state.values) <= enough:
            return state._replace(still=0), changes
        changes[-1] = max(changes[-1], _belief_gap(problem.graph, log_messages(before), log_messages(state)))
        if not changes[-1] < tol:
            return state._replace(due=None, still=0), changes
        still += 1
    if still <= rest:  # sweeps ran out on the way
        changes[-1] = max(changes[-1], 2 * tol)
        return state._replace(due=None, still=still), changes
    return state._replace(due=None, still=0), changes


def messages_by_edge(problem: Problem, state: MessageState) -> dict[tuple[int, str], np.ndarray]:
    """(factor, variable) -> log message of the factor to the variable, normalised."""
    graph, logs = problem.graph, log_messages(state)
    w, names = graph.wiring, graph.variables.names
    owner = np.repeat(np.arange(graph.n_factors), np.diff(graph.scope_start))
    return {
        (int(a), names[int(i)]): logs[w.edge_state_start[e] : w.edge_state_start[e + 1]]
        for e, (a, i) in enumerate(zip(owner, graph.scope, strict=True))
    }


def _belief_gap(graph: FactorGraph, before: np.ndarray, after: np.ndarray) -> float:
    """Largest change of the probability of a state between two sets of log messages."""
    w = graph.wiring
    edge = np.repeat(np.arange(len(w.scope)), w.sizes[w.scope])
    state = w.state_start[w.scope[edge]] + np.arange(len(edge)) - w.edge_state_start[edge]
    owner = np.repeat(np.arange(len(w.sizes)), w.sizes)
    found = []
    for messages in (before, after):
        log = np.bincount(state, messages, minlength=len(owner))
        top = np.maximum.reduceat(log, w.state_start[:-1])
        weight = np.exp(log - np.where(np.isfinite(top), top, 0.0)[owner])
        found.append(weight / np.maximum(np.bincount(owner, weight), 1e-300)[owner])
    return float(np.abs(found[1] - found[0]).max(initial=0.0))


def _swept(
    problem: Problem, state: MessageState, weights: Weighted, schedule: Schedule, count: int, tol: float
) -> tuple[MessageState, np.ndarray]:
    """Sweeps until the change in probability is below `tol`."""
    count = min(count, max(_CHUNK, _ENTRIES // (1 + len(problem.graph.log_tables))))
    values, due = state.values.copy(), None
    if schedule == "residual":
        due = state.form.all_due() if state.due is None else state.due.copy()
    sweep = Sweep(schedule, state.turn, count, tol, state.rng, due)
    changes = state.form.sweeps(values, weights, sweep)
    if state.form.is_guess and not _is_in_range(values, changes):
        # Messages left the doubles: begin again with logarithms.
        state = state._replace(form=safe_form(problem))
        values, due = state.form.uniform(), None
        changes = state.form.sweeps(values, weights, sweep)
    if len(changes) and changes[-1] < 0:
        if problem.is_sum or problem.is_max:
            raise problem.contradiction()
        changes[-1] = np.inf  # messages about best states excluded each other: a failure of theirs alone
    return state._replace(values=values, turn=state.turn + len(changes), due=due), changes


def _is_in_range(values: np.ndarray, changes: np.ndarray) -> bool:
    """Whether positive messages are still accurate: finite, and not so small that digits are lost."""
    if not np.isfinite(changes).all():
        return False
    return bool(values.min(initial=1.0) > _TINY and values.max(initial=1.0) < np.inf)


def log_messages(state: MessageState) -> np.ndarray:
    """The messages as normalised logarithms, flat over edges and states."""
    return np.asarray(state.form.to_log(state.values))


def read(problem: Problem, state: MessageState, weights: Weighted) -> Readout:
    """Marginals, factor marginals and the reweighted Bethe value with rho = 1 / alpha."""
    return state.form.read(problem, state.values, weights)  # type: ignore[no-any-return]


def run_tables(
    instances: Instances, weights: Callable[[FactorGraph], Weighted], schedule: Schedule, budget: Budget
) -> TableBatch:
    """Answer many problems of one structure inside one kernel."""
    graph, factors = instances.problem.graph, instances.factors
    count = len(instances)
    ordered, places = _varying_last(graph, factors)
    entries, own = len(ordered.log_tables), instances.log_tables.shape[1]
    width = entries if instances.summed else own if instances.each else 0
    beliefs = np.empty((count, width))
    chosen = weights(ordered)
    tol = budget.tol * float(chosen.step.min(initial=1.0))  # of damped messages, as in `advance`
    work = _TableWork(ordered, schedule, entries - own, budget.max_iter, tol)
    values, changes = np.empty(count), np.empty(count)
    left = np.arange(count)
    if chosen.is_plain:
        values, changes, done = work.in_positive_numbers(instances.log_tables, beliefs)
        left = np.flatnonzero(~done)
    if len(left):
        part = np.empty((len(left), width))
        values[left], changes[left] = work.in_logarithms(chosen, instances.log_tables[left], part)
        beliefs[left] = part
    if (changes < 0).any():
        raise ContradictoryRowError(np.flatnonzero(changes < 0))
    stopped = tuple(Status.CONVERGED if c < tol else Status.OUT_OF_ITERATIONS for c in changes)
    each = beliefs[:, width - own :] if instances.each else None
    summed = None
    if instances.summed:
        flat = np.empty(entries)
        flat[places] = instances.weights @ beliefs
        summed = FactorMarginals(graph, flat)
    return TableBatch(graph, factors, values, stopped, each, summed)


class _TableWork(NamedTuple):
    """What the kernels for many problems of one structure share; the varying tables come last."""

    graph: FactorGraph
    schedule: Schedule
    slots: int  # where the varying tables begin
    most: int  # sweeps
    tol: float

    def _orders(self, active: np.ndarray) -> tuple[np.ndarray, bool]:
        return orders(self.graph, active, Sweep(self.schedule, 0, 2, 0.0, np.random.default_rng(0)))

    def in_positive_numbers(self, own: np.ndarray, beliefs: np.ndarray) -> tuple[np.ndarray, ...]:
        """Values, changes, and which rows are done; the others need logarithms."""
        w = self.graph.wiring
        free = np.bincount(w.edge_factor, w.sizes[w.scope] > 1, minlength=self.graph.n_factors)
        rows, at_once = self._orders(np.flatnonzero(free >= 2))
        return positive_batch(  # type: ignore[no-any-return]
            rows, at_once, free.astype(np.int64), w.scope_start, w.scope, w.sizes, w.state_start,
            w.edge_state_start, self.graph.log_tables, w.table_start, self.slots, own, beliefs, self.most,
            self.tol, SAFE_LOG, _SURE,
        )  # fmt: skip

    def in_logarithms(
        self, weights: Weighted, own: np.ndarray, beliefs: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Values and changes of any rows."""
        graph, w = self.graph, self.graph.wiring
        rows, at_once = self._orders(np.flatnonzero(np.diff(graph.scope_start) > 0))
        rest = self.most + 1 if is_forest(graph) else _REST
        return kernel.log_batch(  # type: ignore[no-any-return]
            rows, at_once, *weights, w.scope_start, w.scope, w.sizes, w.state_start, w.edge_state_start,
            graph.log_tables, w.table_start, np.ones(len(w.sizes)), self.slots, own, beliefs, self.most,
            self.tol, rest,
        )  # fmt: skip


def _varying_last(graph: FactorGraph, factors: np.ndarray) -> tuple[FactorGraph, np.ndarray]:
    """The graph with these factors after all others, and where its entries lie in the original order."""
    order = np.concatenate([np.setdiff1d(np.arange(graph.n_factors), factors), factors]).astype(np.int64)
    arity, size, start = np.diff(graph.scope_start), graph.table_size, starts_of(graph.table_size)
    edges, entries = _ranges(graph.scope_start[order], arity[order]), _ranges(start[order], size[order])
    tables = graph.log_tables[_ranges(graph.table_start[order], size[order])]
    made = FactorGraph.from_flat(graph.variables, starts_of(arity[order]), graph.scope[edges], tables)
    return made, entries


def _ranges(first: np.ndarray, count: np.ndarray) -> np.ndarray:
    """The numbers first[k], ..., first[k] + count[k] - 1 for every k, one after another."""
    begin = starts_of(count)
    return np.arange(begin[-1]) + np.repeat(first - begin[:-1], count)
