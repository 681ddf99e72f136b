"""The forms in which messages are kept: ratios, positive numbers, logarithms.

    _Binary   one ratio per message: plain BP, pairwise binary, positive tables of moderate range
    _Linear   positive numbers: plain BP, any arity and state counts, positive tables of moderate range
    _Mixed    positive numbers: max-product and mixed-product BP on pairwise tables of moderate range
    _Log      everything else: zeros, wide maxima, weights, powers

A range is moderate if the products of messages at a variable cannot leave the double range. Each form
turns log messages into its own and back, sweeps, and reads off beliefs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ...core.records import record
from ...kernels import messages as log_kernel
from ...kernels import mixed_messages, positive_messages
from ..problem.base import Problem
from .positive_forms import _Binary, _Linear
from .readout import Readout, read_logs, uniform_logs
from .sweeps import Sweep, Weighted, orders, pace_sweeps

__all__ = ["SAFE_LOG", "Kept", "choose_form", "safe_form"]

SAFE_LOG = 300.0  # log range of a product of messages; times another one it stays inside the doubles


@record("messages alone")
@dataclass(frozen=True)
class Kept:
    """Logarithms without a problem: nothing to sweep over, something to start from."""

    def to_log(self, values: np.ndarray) -> np.ndarray:
        """The messages as they are."""
        return values


def choose_form(problem: Problem, weights: Weighted) -> Any:
    """The fastest form that can hold this problem's messages."""
    graph, w = problem.graph, problem.graph.wiring
    if weights.is_plain and np.isin(problem.temperatures, (0.0, 1.0)).all():
        free, spread, guessed = positive_messages.survey(
            w.scope_start, w.scope, w.sizes, graph.log_tables, w.table_start
        )
        if spread < SAFE_LOG:
            active = np.flatnonzero(free >= 2)
            if not problem.is_sum:
                # Best states alone may exclude each other, and leave a summed neighbour with nothing.
                if free.max(initial=0) <= 2 and (problem.is_max or not guessed):
                    return _Mixed(problem, free, active, guessed)
                return _Log(problem)
            if w.sizes.max(initial=1) <= 2 and free.max(initial=0) <= 2 and not guessed:
                return _Binary(problem, free, active)
            return _Linear(problem, free, active, guessed)
    return _Log(problem)


def safe_form(problem: Problem) -> Any:
    """The form that holds any messages."""
    return _Log(problem)


@record("messages as positive numbers about maxima", rebuilt=("problem", "free", "active", "is_guess"))
@dataclass(frozen=True, eq=False)
class _Mixed(_Linear):
    """Positive numbers; max-product and mixed-product BP on pairwise tables."""

    @cached_property
    def _kinds(self) -> np.ndarray:
        """Which variables of each factor are maximised."""
        w = self.problem.graph.wiring
        return np.asarray(
            mixed_messages.pair_kinds(self.active, w.scope_start, w.scope, w.sizes, self.problem.temperatures)
        )

    def sweeps(self, values: np.ndarray, weights: Weighted, sweep: Sweep) -> np.ndarray:
        """Sweep in place; the change of each. The residual schedule is that of the logarithms."""
        if sweep.schedule == "residual":
            logs = self.to_log(values)
            changes = _Log(self.problem).sweeps(logs, weights, sweep)
            values[:] = self.from_log(logs)
            return changes
        run, sweep = pace_sweeps(mixed_messages.mixed_sweeps, self.problem.graph, sweep)
        rows, at_once = orders(self.problem.graph, self.active, sweep)
        return np.asarray(run(rows, at_once, self._kinds, *self._work, values, sweep.most, sweep.tol))


@record("messages as logarithms", rebuilt=("problem",))
@dataclass(frozen=True, eq=False)
class _Log:
    """Logarithms; any task, weights and zeros."""

    problem: Problem
    is_guess: ClassVar[bool] = False

    def uniform(self) -> np.ndarray:
        """Uniform messages."""
        return uniform_logs(self.problem.graph)

    def from_log(self, messages: np.ndarray) -> np.ndarray:
        """Log messages in this form."""
        return messages.copy()

    def to_log(self, values: np.ndarray) -> np.ndarray:
        """Messages of this form as normalised logarithms."""
        return values

    def least(self, values: np.ndarray) -> float:
        """The smallest positive probability in a message."""
        return float(np.exp(values.min(initial=0.0, where=values > -np.inf)))

    def log_gap(self, before: np.ndarray, after: np.ndarray) -> float:
        """The largest change of a logarithm."""
        known = (before > -np.inf) & (after > -np.inf)
        return float(np.abs(after[known] - before[known]).max(initial=0.0))

    def read(self, problem: Problem, values: np.ndarray, weights: Weighted) -> Readout:
        """Beliefs and the Bethe value."""
        return read_logs(problem, values, weights.power)

    def all_due(self) -> np.ndarray:
        """Nothing: each sweep of the residual schedule computes all residuals anew."""
        return np.empty(0)

    @cached_property
    def _active(self) -> np.ndarray:
        return np.flatnonzero(np.diff(self.problem.graph.scope_start) > 0)

    def sweeps(self, values: np.ndarray, weights: Weighted, sweep: Sweep) -> np.ndarray:
        """Sweep in place; the change of each."""
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
        run, sweep = pace_sweeps(log_kernel.log_sweeps, graph, sweep)
        rows, at_once = orders(graph, self._active, sweep)
        return np.asarray(run(rows, at_once, *weights, *common, *tables, values, sweep.most, sweep.tol))
