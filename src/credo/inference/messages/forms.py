"""The three forms in which messages are kept: ratios, positive numbers, logarithms.

    _Binary   one ratio per message: plain BP, pairwise binary, positive tables of moderate range
    _Linear   positive numbers: plain BP, any arity and state counts, positive tables of moderate range
    _Log      everything else: zeros, maxima, weights, powers

A range is moderate if the products of messages at a variable cannot leave the double range. Each form
turns log messages into its own and back, sweeps, and reads off beliefs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ...core.factor_graph import FactorGraph
from ...core.result import FactorMarginals, Marginals
from ...kernels import binary_messages, message_beliefs, positive_messages
from ...kernels import messages as log_kernel
from ...structures import recognise
from ..base import Problem

__all__ = [
    "SCHEDULES",
    "Readout",
    "Schedule",
    "Sweep",
    "Weighted",
    "choose_form",
    "is_forest",
    "orders",
    "read_logs",
]

Schedule = Literal["auto", "flooding", "sequential", "random", "residual", "tree"]
SCHEDULES = ("auto", "flooding", "sequential", "random", "residual", "tree")

_SAFE_LOG = 300.0  # log range of a product of messages; times another one it stays inside the doubles
_PARALLEL_FROM = 200_000  # pairwise factors from which two threads pay


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


class Sweep(NamedTuple):
    """What one call of a form's `sweeps` is to do."""

    schedule: Schedule
    turn: int  # sweeps done before, for schedules with several orders
    most: int  # sweeps to do
    tol: float  # stop below this change
    rng: np.random.Generator  # for random orders


class Readout(NamedTuple):
    """What a state says."""

    marginals: Marginals
    factor_marginals: FactorMarginals
    log_z: float  # the reweighted Bethe value
    log_beliefs: np.ndarray  # per flat state, not normalised


def read_logs(problem: Problem, messages: np.ndarray, power: np.ndarray) -> Readout:
    """Beliefs and the reweighted Bethe value of log messages."""
    graph, wiring = problem.graph, problem.graph.wiring
    belief = np.zeros(wiring.state_start[-1])
    zeros = np.zeros(wiring.state_start[-1], dtype=np.int64)
    message_beliefs.log_beliefs(
        wiring.scope, wiring.edge_state_start, wiring.state_start, messages, belief, zeros
    )
    logs = np.where(zeros == 0, belief, -np.inf)
    marginals = _normalise(logs, wiring.state_start)
    tables = message_beliefs.log_factor_beliefs(
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
    value = message_beliefs.reweighted_log_z(
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


def choose_form(problem: Problem, weights: Weighted) -> Any:
    """The fastest form that can hold this problem's messages."""
    graph, w = problem.graph, problem.graph.wiring
    if problem.is_sum and weights.is_plain:
        free, spread, guessed = positive_messages.survey(
            w.scope_start, w.scope, w.sizes, graph.log_tables, w.table_start
        )
        if spread < _SAFE_LOG:
            active = np.flatnonzero(free >= 2)
            if w.sizes.max(initial=1) <= 2 and free.max(initial=0) <= 2 and not guessed:
                return _Binary(problem, free, active)
            return _Linear(problem, free, active, guessed)
    return _Log(problem)


def safe_form(problem: Problem) -> Any:
    """The form that holds any messages."""
    return _Log(problem)


def orders(graph: FactorGraph, active: np.ndarray, sweep: Sweep) -> tuple[np.ndarray, bool]:
    """Rows of factor positions to sweep over in turn, and whether new messages are used at once."""
    if sweep.schedule == "flooding":
        return active[None, :], False
    if sweep.schedule == "random":
        return np.stack([sweep.rng.permutation(active) for _ in range(sweep.most)]), True
    if sweep.schedule == "tree" or (sweep.schedule == "auto" and is_forest(graph)):
        # One form moves all factors, the others those of several free variables: the count tells which.
        key = ("tree rows", graph.structure_key, len(active))
        rows = graph.memo.recall(key, lambda: _tree_rows(graph, active))
    else:
        rows = np.stack([active, active[::-1]])
    return np.roll(rows, -(sweep.turn % len(rows)), axis=0), True


def _tree_rows(graph: FactorGraph, active: np.ndarray) -> np.ndarray:
    """Factors from the leaves of a spanning forest to its roots, and back."""
    w = graph.wiring
    depth = message_beliefs.factor_depths(
        w.scope_start, w.scope, w.neighbour_start, w.neighbour_edge, w.edge_factor
    )
    down = active[np.argsort(depth[active], kind="stable")]
    return np.stack([down[::-1], down])


def is_forest(graph: FactorGraph) -> bool:
    """Whether messages flow on a forest, so that two passes are exact."""
    key = ("is forest", graph.structure_key)
    return bool(graph.memo.recall(key, lambda: recognise.is_forest(graph)))


@dataclass(frozen=True, eq=False)
class _Log:
    """Logarithms; any task, weights and zeros."""

    problem: Problem
    is_guess: ClassVar[bool] = False

    def uniform(self) -> np.ndarray:
        return _uniform_logs(self.problem.graph)

    def from_log(self, messages: np.ndarray) -> np.ndarray:
        return messages.copy()

    def to_log(self, values: np.ndarray) -> np.ndarray:
        return values

    def read(self, problem: Problem, values: np.ndarray, weights: Weighted) -> Readout:
        return read_logs(problem, values, weights.power)

    @cached_property
    def _active(self) -> np.ndarray:
        return np.flatnonzero(np.diff(self.problem.graph.scope_start) > 0)

    def sweeps(self, values: np.ndarray, weights: Weighted, sweep: Sweep) -> np.ndarray:
        graph, w = self.problem.graph, self.problem.graph.wiring
        common = (w.scope_start, w.scope, w.sizes, w.state_start, w.edge_state_start)
        tables = (graph.log_tables, w.table_start, self.problem.temperatures)
        if sweep.schedule == "residual":
            around = (w.neighbour_start, w.neighbour_edge, w.edge_factor)
            changes = []
            for _ in range(sweep.most):
                _, left = log_kernel.log_residual(
                    self._active, *weights, *common, *around, *tables, values, len(self._active), sweep.tol
                )
                changes.append(left)
                if left < sweep.tol:
                    break
            return np.array(changes)
        rows, at_once = orders(graph, self._active, sweep)
        return np.asarray(
            log_kernel.log_sweeps(rows, at_once, *weights, *common, *tables, values, sweep.most, sweep.tol)
        )


@dataclass(frozen=True, eq=False)
class _Positive:
    """What the two fast forms share: factors that send the same message at all times."""

    problem: Problem
    free: np.ndarray  # variables with several states per factor
    active: np.ndarray  # factors with at least two of them; the others' messages never change
    is_guess: bool = False  # whether tables have zeros, so that messages may leave the range after all

    @cached_property
    def _constant(self) -> np.ndarray:
        """Log of the product of the constant messages, per flat state."""
        graph, w = self.problem.graph, self.problem.graph.wiring
        return np.asarray(
            positive_messages.constant_messages(
                self.free, w.scope_start, w.scope, w.sizes, w.state_start, graph.log_tables, w.table_start
            )
        )

    def _with_constants(self, messages: np.ndarray) -> np.ndarray:
        """The given log messages of the active factors, and the constant ones of the others."""
        graph = self.problem.graph
        w = graph.wiring
        idle = np.flatnonzero((self.free < 2) & (np.diff(w.scope_start) > 0))
        done = messages.copy()
        log_kernel.log_sweeps(
            idle[None, :],
            False,
            *Weighted.plain(graph),
            w.scope_start,
            w.scope,
            w.sizes,
            w.state_start,
            w.edge_state_start,
            graph.log_tables,
            w.table_start,
            self.problem.temperatures,
            done,
            1,
            0.0,
        )
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

    def uniform(self) -> np.ndarray:
        return self.from_log(_uniform_logs(self.problem.graph))

    def from_log(self, messages: np.ndarray) -> np.ndarray:
        return np.exp(self._with_constants(messages) + self._log_size)

    def to_log(self, values: np.ndarray) -> np.ndarray:
        return np.asarray(np.log(values) - self._log_size)

    def read(self, problem: Problem, values: np.ndarray, weights: Weighted) -> Readout:
        return read_logs(problem, self.to_log(values), weights.power)

    def sweeps(self, values: np.ndarray, weights: Weighted, sweep: Sweep) -> np.ndarray:
        graph, w = self.problem.graph, self.problem.graph.wiring
        psi, constant = self._arrays
        if sweep.schedule == "residual":
            common = (w.scope_start, w.scope, w.sizes, w.state_start, w.edge_state_start)
            around = (w.neighbour_start, w.neighbour_edge, w.edge_factor)
            changes = []
            for _ in range(sweep.most):
                _, left = positive_messages.linear_residual(
                    self.active,
                    *common,
                    *around,
                    psi,
                    w.table_start,
                    constant,
                    values,
                    len(self.active),
                    sweep.tol,
                )
                changes.append(left)
                if left < sweep.tol:
                    break
            return np.array(changes)
        rows, at_once = orders(graph, self.active, sweep)
        return np.asarray(
            positive_messages.linear_sweeps(
                rows,
                at_once,
                w.scope_start,
                w.scope,
                w.sizes,
                w.state_start,
                w.edge_state_start,
                psi,
                w.table_start,
                constant,
                values,
                sweep.most,
                sweep.tol,
            )
        )


@dataclass(frozen=True, eq=False)
class _Binary(_Positive):
    """One ratio m(1) / m(0) per message; plain BP on pairwise binary models."""

    @cached_property
    def _arrays(self) -> tuple[np.ndarray, ...]:
        """First and second variables, tables, prior ratios, and the two edges of each active factor."""
        graph, w = self.problem.graph, self.problem.graph.wiring
        return binary_messages.prepare_binary(  # type: ignore[no-any-return]
            self.active,
            self._constant,
            w.scope_start,
            w.scope,
            w.sizes,
            w.state_start,
            graph.log_tables,
            w.table_start,
        )

    @cached_property
    def _around(self) -> tuple[np.ndarray, np.ndarray]:
        first, second, _, prior, _ = self._arrays
        ends = np.stack([first, second], axis=1).ravel()
        around = np.argsort(ends, kind="stable")
        start = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=len(prior)))])
        return start.astype(np.int64), around.astype(np.int64)

    def uniform(self) -> np.ndarray:
        return np.ones((len(self.active), 2))

    def from_log(self, messages: np.ndarray) -> np.ndarray:
        at = self.problem.graph.wiring.edge_state_start[self._arrays[4]]
        return np.exp(messages[at + 1] - messages[at])

    def to_log(self, values: np.ndarray) -> np.ndarray:
        w = self.problem.graph.wiring
        messages = self._with_constants(_uniform_logs(self.problem.graph))
        at = w.edge_state_start[self._arrays[4]]
        messages[at] = -np.log1p(values)
        messages[at + 1] = np.log(values) - np.log1p(values)
        return messages

    def read(self, problem: Problem, values: np.ndarray, weights: Weighted) -> Readout:
        graph, w = problem.graph, problem.graph.wiring
        first, second, rows, prior, _ = self._arrays
        marginals, tables, value = binary_messages.binary_read(
            self.active,
            self.free,
            first,
            second,
            rows,
            prior,
            values,
            w.scope_start,
            w.scope,
            w.sizes,
            w.state_start,
            graph.log_tables,
            w.table_start,
        )
        with np.errstate(divide="ignore"):
            return Readout(
                Marginals(graph.variables, marginals),
                FactorMarginals(graph, tables),
                float(value),
                np.log(marginals),
            )

    def sweeps(self, values: np.ndarray, weights: Weighted, sweep: Sweep) -> np.ndarray:
        first, second, rows, prior, _ = self._arrays
        if sweep.schedule == "residual":
            changes = []
            for _ in range(sweep.most):
                _, left = binary_messages.binary_residual(
                    first, second, rows, prior, *self._around, values, len(first), sweep.tol
                )
                changes.append(left)
                if left < sweep.tol:
                    break
            return np.array(changes)
        if sweep.schedule == "flooding":
            if len(first) >= _PARALLEL_FROM:
                return np.asarray(
                    binary_messages.binary_sweeps_parallel(
                        first, second, rows, prior, values, sweep.most, sweep.tol, binary_messages.cores()
                    )
                )
            return np.asarray(
                binary_messages.binary_sweeps(first, second, rows, prior, values, sweep.most, sweep.tol)
            )
        place = np.zeros(self.problem.graph.n_factors, dtype=np.int64)
        place[self.active] = np.arange(len(self.active))
        order, _ = orders(self.problem.graph, self.active, sweep)
        return np.asarray(
            binary_messages.binary_ordered(
                place[order], first, second, rows, prior, values, sweep.most, sweep.tol
            )
        )


def _uniform_logs(graph: FactorGraph) -> np.ndarray:
    """Uniform log messages over edges and states."""
    sizes = graph.variables.sizes[graph.scope]
    return np.repeat(-np.log(sizes), sizes)


def _scaled_tables(graph: FactorGraph) -> np.ndarray:
    """Exponentials of all tables, each divided by its maximum."""
    psi = np.empty(len(graph.log_tables))
    for group in graph.shape_groups:
        size = int(np.prod(group.shape, dtype=np.int64))
        at = group.table_start[:, None] + np.arange(size)
        rows = graph.log_tables[at]
        psi[at] = np.exp(rows - rows.max(axis=1, keepdims=True))
    return psi
