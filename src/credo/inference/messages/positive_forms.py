"""The two fast forms of messages, for plain BP on positive tables of moderate range.

    _Binary   one ratio m(1) / m(0) per message: pairwise binary models
    _Linear   positive numbers: any arity and state counts

Factors with a single free variable send the same message at all times; both forms take those out.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...core.records import record
from ...core.result import FactorMarginals, Marginals
from ...kernels import binary_messages, positive_messages, positive_read, residual_messages
from ...kernels.jit import threads
from ...kernels.message_beliefs import log_beliefs
from ..problem.base import Problem
from .readout import Readout, uniform_logs
from .sweeps import Sweep, Weighted, orders, pace_sweeps

__all__: list[str] = []

_PARALLEL_FROM = 200_000  # pairwise factors from which two threads pay


@dataclass(frozen=True, eq=False)
class _Positive(abc.ABC):
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
        graph, w = self.problem.graph, self.problem.graph.wiring
        done = messages.copy()
        positive_read.constant_log_messages(
            self.free,
            w.scope_start,
            w.scope,
            w.sizes,
            w.edge_state_start,
            graph.log_tables,
            w.table_start,
            done,
        )
        return done

    @abc.abstractmethod
    def all_due(self) -> np.ndarray:
        """What the residual schedule has pending at first: everything."""

    def log_gap(self, before: np.ndarray, after: np.ndarray) -> float:
        """The largest change of a logarithm."""
        with np.errstate(divide="ignore", invalid="ignore"):
            gap = np.abs(np.log(after / before))
        return float(gap[np.isfinite(gap)].max(initial=0.0))


@record("messages as positive numbers", rebuilt=("problem", "free", "active", "is_guess"))
@dataclass(frozen=True, eq=False)
class _Linear(_Positive):
    """Positive numbers; plain BP."""

    @cached_property
    def _tables(self) -> tuple[np.ndarray, np.ndarray]:
        """Tables scaled to a maximum of one, and the log of the scale of each factor."""
        graph, w = self.problem.graph, self.problem.graph.wiring
        psi, shift = positive_read.shifted_tables(
            w.scope_start, w.scope, w.sizes, graph.log_tables, w.table_start
        )
        return np.exp(psi, out=psi), shift

    @cached_property
    def _scaled_constant(self) -> np.ndarray:
        """The constant messages, scaled to a maximum of one per variable."""
        start = self.problem.graph.wiring.state_start
        top = np.maximum.reduceat(self._constant, start[:-1]) if len(start) > 1 else self._constant
        return np.exp(self._constant - np.repeat(top, np.diff(start)))

    def all_due(self) -> np.ndarray:
        """One estimate per factor."""
        return _all_due(self.problem.graph.n_factors)

    @cached_property
    def _around(self) -> tuple[np.ndarray, np.ndarray]:
        """The active factors around each variable."""
        w = self.problem.graph.wiring
        edges = np.flatnonzero(self.free[w.edge_factor] >= 2)
        start, around = _group(w.scope[edges], len(w.sizes))
        return start, w.edge_factor[edges[around]]

    @cached_property
    def _log_size(self) -> np.ndarray:
        """Log of the state count, per entry: messages here have mean one instead of sum one."""
        w = self.problem.graph.wiring
        return np.repeat(np.log(w.sizes[w.scope]), w.sizes[w.scope])

    def uniform(self) -> np.ndarray:
        """Uniform messages."""
        return self.from_log(uniform_logs(self.problem.graph))

    def from_log(self, messages: np.ndarray) -> np.ndarray:
        """Log messages in this form."""
        return np.exp(self._with_constants(messages) + self._log_size)

    def least(self, values: np.ndarray) -> float:
        """About the smallest probability in a message."""
        return float(values.min(initial=1.0, where=values > 0)) / 2

    def to_log(self, values: np.ndarray) -> np.ndarray:
        """Messages of this form as normalised logarithms."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(values) - self._log_size)

    def read(self, problem: Problem, values: np.ndarray, weights: Weighted) -> Readout:
        """Beliefs and the Bethe value."""
        graph, w = problem.graph, problem.graph.wiring
        messages = self.to_log(values)
        belief, zeros = np.zeros(w.state_start[-1]), np.zeros(w.state_start[-1], dtype=np.int64)
        log_beliefs(w.scope, w.edge_state_start, w.state_start, messages, belief, zeros)
        tables, marginals, value = positive_read.positive_read(
            w.scope_start,
            w.scope,
            w.sizes,
            w.state_start,
            w.edge_state_start,
            *self._tables,
            w.table_start,
            messages,
            belief,
            zeros,
        )
        if np.isnan(value):
            raise problem.contradiction()
        logs = np.where(zeros == 0, belief, -np.inf)
        return Readout(Marginals(graph.variables, marginals), FactorMarginals(graph, tables), value, logs)

    def sweeps(self, values: np.ndarray, weights: Weighted, sweep: Sweep) -> np.ndarray:
        """Sweep in place; the change of each."""
        graph, w = self.problem.graph, self.problem.graph.wiring
        if sweep.schedule == "residual":
            due = self.all_due() if sweep.due is None else sweep.due
            psi, constant = self._tables[0], self._scaled_constant
            common = (w.scope_start, w.scope, w.sizes, w.state_start, w.edge_state_start)
            run, sweep = pace_sweeps(residual_messages.linear_residual, graph, sweep)
            return np.asarray(
                run(
                    self.active,
                    *common,
                    *self._around,
                    psi,
                    w.table_start,
                    constant,
                    due,
                    values,
                    sweep.most,
                    sweep.tol,
                )
            )
        run, sweep = pace_sweeps(positive_messages.linear_sweeps, graph, sweep)
        rows, at_once = orders(graph, self.active, sweep)
        return np.asarray(run(rows, at_once, *self._work, values, sweep.most, sweep.tol))

    @property
    def _work(self) -> tuple[np.ndarray, ...]:
        """What the sweeps of positive numbers read: wiring, tables and constant messages."""
        w = self.problem.graph.wiring
        wiring = (w.scope_start, w.scope, w.sizes, w.state_start, w.edge_state_start)
        return (*wiring, self._tables[0], w.table_start, self._scaled_constant)


@record("messages as ratios", rebuilt=("problem", "free", "active", "is_guess"))
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

    def all_due(self) -> np.ndarray:
        """One estimate per variable."""
        return _all_due(len(self.problem.graph.variables))

    @cached_property
    def _around(self) -> tuple[np.ndarray, np.ndarray]:
        """Twice the place of a factor in `active`, plus one for its second variable, by variable."""
        first, second, _, prior, _ = self._arrays
        ends = np.stack([first, second], axis=1).ravel()
        return _group(ends, len(prior))

    def uniform(self) -> np.ndarray:
        """Uniform messages."""
        return np.ones((len(self.active), 2))

    def from_log(self, messages: np.ndarray) -> np.ndarray:
        """Log messages in this form."""
        at = self.problem.graph.wiring.edge_state_start[self._arrays[4]]
        return np.exp(messages[at + 1] - messages[at])

    def least(self, values: np.ndarray) -> float:
        """About the smallest probability in a message."""
        return float(min(values.min(initial=1.0), 1.0 / values.max(initial=1.0))) / 2

    def to_log(self, values: np.ndarray) -> np.ndarray:
        """Messages of this form as normalised logarithms."""
        w = self.problem.graph.wiring
        messages = self._with_constants(uniform_logs(self.problem.graph))
        at = w.edge_state_start[self._arrays[4]]
        messages[at] = -np.log1p(values)
        messages[at + 1] = np.log(values) - np.log1p(values)
        return messages

    def read(self, problem: Problem, values: np.ndarray, weights: Weighted) -> Readout:
        """Beliefs and the Bethe value."""
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
        """Sweep in place; the change of each."""
        first, second, rows, prior, _ = self._arrays
        graph = self.problem.graph
        if sweep.schedule == "residual":
            due = self.all_due() if sweep.due is None else sweep.due
            run, sweep = pace_sweeps(residual_messages.binary_residual, graph, sweep)
            return np.asarray(
                run(first, second, rows, prior, *self._around, due, values, sweep.most, sweep.tol)
            )
        if sweep.schedule == "flooding":
            cores = threads() if len(first) >= _PARALLEL_FROM else 1
            if cores > 1:
                run, sweep = pace_sweeps(binary_messages.binary_sweeps_parallel, graph, sweep)
                return np.asarray(run(first, second, rows, prior, values, sweep.most, sweep.tol, cores))
            run, sweep = pace_sweeps(binary_messages.binary_sweeps, graph, sweep)
            return np.asarray(run(first, second, rows, prior, values, sweep.most, sweep.tol))
        place = np.zeros(graph.n_factors, dtype=np.int64)
        place[self.active] = np.arange(len(self.active))
        run, sweep = pace_sweeps(binary_messages.binary_ordered, graph, sweep)
        order, _ = orders(graph, self.active, sweep)
        return np.asarray(run(place[order], first, second, rows, prior, values, sweep.most, sweep.tol))


def _all_due(senders: int) -> np.ndarray:
    """Infinite estimates, and no change so far in this round."""
    return np.append(np.full(senders, np.inf), 0.0)


def _group(ends: np.ndarray, variables: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions of `ends` by variable, and where each variable's begin."""
    start = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=variables))])
    return start, np.argsort(ends, kind="stable")
