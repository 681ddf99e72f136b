"""The message-passing engine that BP and its weighted relatives share.

`kernels/messages.py` states the iteration. Here a problem is put into the form that is fastest for it:

    binary   one ratio per message: plain BP, pairwise binary, positive tables of moderate range
    linear   positive numbers: plain BP, any arity and state counts, positive tables of moderate range
    log      everything else: zeros, maxima, weights, powers

A range is moderate if the products of messages at a variable cannot leave the double range. An
algorithm file chooses the weights, the schedule and what its number guarantees; the rest is here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from ...core.factor_graph import FactorGraph
from ...core.result import FactorMarginals, Marginals
from ...kernels import messages as kernel
from ..base import Problem

__all__ = ["SCHEDULES", "MessageState", "Readout", "Schedule", "Weighted", "advance", "read", "start"]

Schedule = Literal["auto", "flooding", "sequential", "random", "residual", "tree"]
SCHEDULES = ("auto", "flooding", "sequential", "random", "residual", "tree")

_SAFE_LOG = 600.0  # log range of a product of messages that stays inside the doubles
_PARALLEL_FROM = 200_000  # pairwise factors from which two threads pay
_CHUNK = 16  # sweeps between two looks at the clock


class Weighted(NamedTuple):
    """The weights of one iteration scheme, per factor."""

    power: np.ndarray  # alpha: tables and own messages are raised to it; 1 for BP, 1/rho for TRW
    step: np.ndarray  # eta: weight of the new message; 1 for no damping
    linear: bool = False  # whether damping mixes probabilities instead of logarithms

    @classmethod
    def plain(cls, graph: FactorGraph, step: float = 1.0, *, linear: bool = False) -> Weighted:
        """The weights of BP, with the weight of the new message."""
        ones = np.ones(graph.n_factors)
        return cls(ones, step * ones, linear)

    @property
    def is_plain(self) -> bool:
        """Whether this is undamped BP."""
        return bool((self.power == 1).all() and (self.step == 1).all())


class MessageState(NamedTuple):
    """Messages in the form the kernels use; `log_messages(state)` gives them as logarithms."""

    form: Any  # _Log, _Linear or _Binary
    values: np.ndarray  # messages in that form
    turn: int  # sweeps done, for schedules with several orders
    rng: np.random.Generator  # for random orders


class Readout(NamedTuple):
    """What a state says."""

    marginals: Marginals
    factor_marginals: FactorMarginals
    log_z: float  # the reweighted Bethe value
    log_beliefs: np.ndarray  # per flat state, not normalised


def start(
    problem: Problem,
    weights: Weighted,
    rng: np.random.Generator,
    *,
    random: bool = False,
    messages: np.ndarray | None = None,
) -> MessageState:
    """The first state: uniform messages, random ones, or given log messages (a warm start)."""
    graph = problem.graph
    form = _choose_form(problem, weights)
    if messages is None:
        sizes = graph.variables.sizes[graph.scope]
        messages = np.repeat(-np.log(sizes), sizes)
        if random:
            edge = np.repeat(np.arange(len(sizes)), sizes)
            draws = rng.gamma(1.0, size=len(messages)) + 1e-3
            messages = np.log(draws / np.bincount(edge, draws, minlength=len(sizes))[edge])
    return MessageState(form, form.from_log(messages), 0, rng)


def advance(
    problem: Problem, state: MessageState, weights: Weighted, schedule: Schedule, count: int, tol: float
) -> tuple[MessageState, np.ndarray]:
    """Up to `count` sweeps (a few at most at a time); the new state and the change of each."""
    count = min(count, _CHUNK)
    values = state.values.copy()
    changes = state.form.sweeps(values, weights, schedule, state.turn, count, tol, state.rng)
    if len(changes) and changes[-1] < 0:
        raise problem.contradiction()
    return state._replace(values=values, turn=state.turn + len(changes)), changes


def log_messages(state: MessageState) -> np.ndarray:
    """The messages as normalised logarithms, flat over edges and states."""
    return np.asarray(state.form.to_log(state.values))


def read(problem: Problem, state: MessageState, weights: Weighted) -> Readout:
    """Marginals, factor marginals and the reweighted Bethe value with rho = 1 / alpha."""
    if isinstance(state.form, _Log):
        return _read_logs(problem, state.values, weights.power)
    return state.form.read(problem, state.values)  # type: ignore[no-any-return]


def _read_logs(problem: Problem, messages: np.ndarray, power: np.ndarray) -> Readout:
    graph, wiring = problem.graph, problem.graph.wiring
    belief = np.zeros(wiring.state_start[-1])
    zeros = np.zeros(wiring.state_start[-1], dtype=np.int64)
    kernel.log_beliefs(wiring.scope, wiring.edge_state_start, wiring.state_start, messages, belief, zeros)
    logs = np.where(zeros == 0, belief, -np.inf)
    marginals = _normalise(logs, wiring.state_start)
    tables = kernel.log_factor_beliefs(
        power,
        wiring.scope_start,
        wiring.scope,
        wiring.sizes,
        wiring.state_start,
        wiring.edge_state_start,
        graph.log_tables,
        wiring.table_start,
        messages,
        belief,
        zeros,
    )
    if np.isnan(marginals).any() or np.isnan(tables).any():
        raise problem.contradiction()
    value = kernel.reweighted_log_z(
        1.0 / power,
        wiring.scope_start,
        wiring.scope,
        graph.log_tables,
        wiring.table_start,
        wiring.state_start,
        tables,
        marginals,
    )
    return Readout(Marginals(graph.variables, marginals), FactorMarginals(graph, tables), float(value), logs)


def _normalise(logs: np.ndarray, state_start: np.ndarray) -> np.ndarray:
    """Probabilities per variable from flat logs."""
    if len(state_start) == 1:
        return np.empty(0)
    sizes = np.diff(state_start)
    with np.errstate(invalid="ignore"):
        p = np.exp(logs - np.repeat(np.maximum.reduceat(logs, state_start[:-1]), sizes))
        return p / np.repeat(np.add.reduceat(p, state_start[:-1]), sizes)


def _choose_form(problem: Problem, weights: Weighted) -> Any:
    graph, w = problem.graph, problem.graph.wiring
    if problem.is_sum and weights.is_plain:
        free, spread = kernel.survey(w.scope_start, w.scope, w.sizes, graph.log_tables, w.table_start)
        if spread < _SAFE_LOG:
            active = np.flatnonzero(free >= 2)
            if w.sizes.max(initial=1) <= 2 and free.max(initial=0) <= 2:
                return _Binary(problem, free, active)
            return _Linear(problem, free, active)
    return _Log(problem)


def _orders(
    graph: FactorGraph, active: np.ndarray, schedule: Schedule, turn: int, count: int, rng: np.random.Generator
) -> tuple[np.ndarray, bool]:
    """Rows of factor positions to sweep over in turn, and whether new messages are used at once."""
    if schedule == "flooding":
        return active[None, :], False
    if schedule == "random":
        return np.stack([rng.permutation(active) for _ in range(count)]), True
    if schedule == "tree" or (schedule == "auto" and _is_forest(graph)):
        rows = graph.memo.recall(("tree rows", active.tobytes()), lambda: _tree_rows(graph, active))
    else:
        rows = np.stack([active, active[::-1]])
    return np.roll(rows, -(turn % len(rows)), axis=0), True


def _tree_rows(graph: FactorGraph, active: np.ndarray) -> np.ndarray:
    """Factors from the leaves of a spanning forest to its roots, and back."""
    w = graph.wiring
    depth = kernel.factor_depths(w.scope_start, w.scope, w.neighbour_start, w.neighbour_edge, w.edge_factor)
    down = active[np.argsort(depth[active], kind="stable")]
    return np.stack([down[::-1], down])


def _is_forest(graph: FactorGraph) -> bool:
    """Whether messages flow on a forest, so that two passes are exact."""
    from ...structures.recognise import is_forest

    return bool(graph.memo.recall("is forest", lambda: is_forest(graph)))


@dataclass(frozen=True, eq=False)
class _Log:
    """Logarithms; any task, weights and zeros."""

    problem: Problem

    def from_log(self, messages: np.ndarray) -> np.ndarray:
        return messages.copy()

    def to_log(self, values: np.ndarray) -> np.ndarray:
        return values

    @cached_property
    def _active(self) -> np.ndarray:
        return np.flatnonzero(np.diff(self.problem.graph.scope_start) > 0)

    def sweeps(
        self,
        values: np.ndarray,
        weights: Weighted,
        schedule: Schedule,
        turn: int,
        count: int,
        tol: float,
        rng: np.random.Generator,
    ) -> np.ndarray:
        graph, w = self.problem.graph, self.problem.graph.wiring
        common = (w.scope_start, w.scope, w.sizes, w.state_start, w.edge_state_start)
        tables = (graph.log_tables, w.table_start, self.problem.temperatures)
        if schedule == "residual":
            around = (w.neighbour_start, w.neighbour_edge, w.edge_factor)
            changes = []
            for _ in range(count):
                _, left = kernel.log_residual(
                    self._active, *weights, *common, *around, *tables, values, len(self._active), tol
                )
                changes.append(left)
                if left < tol:
                    break
            return np.array(changes)
        rows, at_once = _orders(graph, self._active, schedule, turn, count, rng)
        return np.asarray(kernel.log_sweeps(rows, at_once, *weights, *common, *tables, values, count, tol))


@dataclass(frozen=True, eq=False)
class _Positive:
    """What the two fast forms share: factors that send the same message at all times."""

    problem: Problem
    free: np.ndarray  # variables with several states per factor
    active: np.ndarray  # factors with at least two of them; the others' messages never change

    @cached_property
    def _constant(self) -> np.ndarray:
        """Log of the product of the constant messages, per flat state."""
        graph, w = self.problem.graph, self.problem.graph.wiring
        return np.asarray(
            kernel.constant_messages(
                self.free, w.scope_start, w.scope, w.sizes, w.state_start, graph.log_tables, w.table_start
            )
        )

    def _with_constants(self, messages: np.ndarray) -> np.ndarray:
        """The given log messages of the active factors, and the constant ones of the others."""
        graph = self.problem.graph
        w = graph.wiring
        idle = np.flatnonzero((self.free < 2) & (np.diff(w.scope_start) > 0))
        done = messages.copy()
        kernel.log_sweeps(
            idle[None, :], False, *Weighted.plain(graph), w.scope_start, w.scope, w.sizes, w.state_start,
            w.edge_state_start, graph.log_tables, w.table_start, self.problem.temperatures, done, 1, 0.0,
        )  # fmt: skip
        return done


@dataclass(frozen=True, eq=False)
class _Linear(_Positive):
    """Positive numbers; plain BP."""

    @cached_property
    def _arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Tables scaled to a maximum of one, and the constant messages likewise per variable."""
        start = self.problem.graph.wiring.state_start
        top = np.maximum.reduceat(self._constant, start[:-1]) if len(start) > 1 else self._constant
        return _scaled_tables(self.problem.graph), np.exp(self._constant - np.repeat(top, np.diff(start)))

    @cached_property
    def _log_size(self) -> np.ndarray:
        """Log of the state count, per entry: messages here have mean one instead of sum one."""
        w = self.problem.graph.wiring
        return np.repeat(np.log(w.sizes[w.scope]), w.sizes[w.scope])

    def from_log(self, messages: np.ndarray) -> np.ndarray:
        return np.exp(self._with_constants(messages) + self._log_size)

    def to_log(self, values: np.ndarray) -> np.ndarray:
        return np.asarray(np.log(values) - self._log_size)

    def read(self, problem: Problem, values: np.ndarray) -> Readout:
        return _read_logs(problem, self.to_log(values), np.ones(problem.graph.n_factors))

    def sweeps(
        self,
        values: np.ndarray,
        weights: Weighted,
        schedule: Schedule,
        turn: int,
        count: int,
        tol: float,
        rng: np.random.Generator,
    ) -> np.ndarray:
        if schedule == "residual":
            logs = self.to_log(values)
            changes = _Log(self.problem).sweeps(logs, weights, schedule, turn, count, tol, rng)
            values[:] = np.exp(logs + self._log_size)
            return changes
        graph, w = self.problem.graph, self.problem.graph.wiring
        psi, constant = self._arrays
        rows, at_once = _orders(graph, self.active, schedule, turn, count, rng)
        return np.asarray(
            kernel.linear_sweeps(
                rows, at_once, w.scope_start, w.scope, w.sizes, w.state_start, w.edge_state_start, psi,
                w.table_start, constant, values, count, tol,
            )  # fmt: skip
        )


@dataclass(frozen=True, eq=False)
class _Binary(_Positive):
    """One ratio m(1) / m(0) per message; plain BP on pairwise binary models."""

    @cached_property
    def _arrays(self) -> tuple[np.ndarray, ...]:
        """First and second variables, tables, prior ratios, and the two edges of each active factor."""
        graph, w = self.problem.graph, self.problem.graph.wiring
        return kernel.prepare_binary(  # type: ignore[no-any-return]
            self.active, self._constant, w.scope_start, w.scope, w.sizes, w.state_start, graph.log_tables, w.table_start
        )

    @cached_property
    def _around(self) -> tuple[np.ndarray, np.ndarray]:
        first, second, _, prior, _ = self._arrays
        ends = np.stack([first, second], axis=1).ravel()
        around = np.argsort(ends, kind="stable")
        start = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=len(prior)))])
        return start.astype(np.int64), around.astype(np.int64)

    def from_log(self, messages: np.ndarray) -> np.ndarray:
        at = self.problem.graph.wiring.edge_state_start[self._arrays[4]]
        return np.exp(messages[at + 1] - messages[at])

    def to_log(self, values: np.ndarray) -> np.ndarray:
        w = self.problem.graph.wiring
        messages = self._with_constants(np.repeat(-np.log(w.sizes[w.scope]), w.sizes[w.scope]))
        at = w.edge_state_start[self._arrays[4]]
        messages[at] = -np.log1p(values)
        messages[at + 1] = np.log(values) - np.log1p(values)
        return messages

    def read(self, problem: Problem, values: np.ndarray) -> Readout:
        graph, w = problem.graph, problem.graph.wiring
        first, second, rows, prior, _ = self._arrays
        marginals, tables, value = kernel.binary_read(
            self.active, self.free, first, second, rows, prior, values, w.scope_start, w.scope, w.sizes, w.state_start,
            graph.log_tables, w.table_start,
        )  # fmt: skip
        with np.errstate(divide="ignore"):
            return Readout(
                Marginals(graph.variables, marginals), FactorMarginals(graph, tables), float(value), np.log(marginals)
            )

    def sweeps(
        self,
        values: np.ndarray,
        weights: Weighted,
        schedule: Schedule,
        turn: int,
        count: int,
        tol: float,
        rng: np.random.Generator,
    ) -> np.ndarray:
        first, second, rows, prior, _ = self._arrays
        if schedule == "residual":
            changes = []
            for _ in range(count):
                _, left = kernel.binary_residual(
                    first, second, rows, prior, *self._around, values, len(first), tol
                )
                changes.append(left)
                if left < tol:
                    break
            return np.array(changes)
        if schedule == "flooding":
            if len(first) >= _PARALLEL_FROM:
                return np.asarray(
                    kernel.binary_sweeps_parallel(first, second, rows, prior, *self._around, values, count, tol)
                )
            return np.asarray(kernel.binary_sweeps(first, second, rows, prior, values, count, tol))
        place = np.zeros(self.problem.graph.n_factors, dtype=np.int64)
        place[self.active] = np.arange(len(self.active))
        order, _ = _orders(self.problem.graph, self.active, schedule, turn, count, rng)
        return np.asarray(
            kernel.binary_ordered(place[order], first, second, rows, prior, values, count, tol)
        )


def _scaled_tables(graph: FactorGraph) -> np.ndarray:
    """exp of all tables, each divided by its maximum."""
    psi = np.empty(len(graph.log_tables))
    for group in graph.shape_groups:
        size = int(np.prod(group.shape, dtype=np.int64))
        at = group.table_start[:, None] + np.arange(size)
        rows = graph.log_tables[at]
        psi[at] = np.exp(rows - rows.max(axis=1, keepdims=True))
    return psi
