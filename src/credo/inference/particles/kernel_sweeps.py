"""Sweeps of kernel belief propagation, and the beliefs that they lead to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...core.belief import PointMass
from ...core.errors import UnsupportedError, ZeroProbabilityError
from ...core.result import Marginals, Result, Status
from ...core.variable import Variables
from ...optimise.driver import Outcome, Step, drive
from ...optimise.run import Budget, Run
from .kernel_messages import KernelField, Likelihood

__all__ = ["infer_field"]

_TELLING = 1e-3  # share of a belief that is worth a note when cut
_LAST = 10  # sweeps where the time was used up before the first


def infer_field(
    name: str,
    variables: Variables,
    field: KernelField,
    observed: dict[int, Any],
    known: dict[int, Likelihood],
    budget: Budget,
    cut: Status | None = None,
) -> Result:
    """Pass messages until they change no more, and read the beliefs.

    Parameters
    ----------
    name
        The method, for messages to the user.
    variables
        One per column of the field.
    field
        What was learned.
    observed
        Position -> value.
    known
        Position -> likelihood as a function of values.
    budget
        When to stop; one sweep is made in any case.
    cut
        What ended the work on the field early, if anything did: what was learned is worth a few sweeps.
    """
    budget = replace(budget, max_iter=max(budget.max_iter, 1))
    sweeps = _KernelSweeps(name, field, observed, known, cut)
    return drive(sweeps, variables, budget)  # type: ignore[no-any-return]


class _KernelState(NamedTuple):
    """After some sweeps."""

    messages: np.ndarray  # (2E, rows)
    fits: list[tuple[float, np.ndarray]]  # the regressions behind them


class _KernelSweeps:
    """The messages of a field as the driver sees them."""

    def __init__(
        self,
        name: str,
        field: KernelField,
        observed: dict[int, Any],
        known: dict[int, Likelihood],
        cut: Status | None,
    ) -> None:
        self.name, self._field, self._observed, self._known, self._cut = name, field, observed, known, cut
        self._rows = {i: f(field.columns[i].values) for i, f in known.items()}

    def start(self, problem: Variables, run: Run) -> Step:
        state = _KernelState(*self._field.start())
        changes: list[float] = []
        while self._cut is not None and len(changes) < min(run.count, _LAST):
            state, change = self._sweep(state)
            changes.append(change)
            if change < run.budget.tol:
                break
        return Step(state, changes, status=self._cut)

    def advance(self, problem: Variables, state: _KernelState, run: Run) -> Step:
        state, change = self._sweep(state)
        return Step(state, [change])

    def _sweep(self, state: _KernelState) -> tuple[_KernelState, float]:
        messages, fits, change = self._field.sweep(state.messages, self._rows, self._observed)
        if not np.isfinite(change):
            raise UnsupportedError(f"{self.name}: messages grow without bound on this graph; raise ridge")
        return _KernelState(messages, fits), change

    def read(self, problem: Variables, outcome: Outcome) -> Result:
        marginals, lost = _marginals(problem, self._field, outcome.state.fits, self._observed, self._known)
        told = f"estimates were negative in places: up to {lost:.1%} of a belief was cut"
        return Result(
            self.name,
            outcome.ended,
            marginals=marginals,
            trace={"change": np.array(outcome.residuals)},
            notes=(told,) if lost > _TELLING else (),
        )


def _marginals(
    variables: Variables,
    field: KernelField,
    fits: list[tuple[float, np.ndarray]],
    observed: dict[int, Any],
    known: dict[int, Likelihood],
) -> tuple[Marginals, float]:
    flat = np.zeros(int(variables.state_start[-1]))
    densities: dict[str, Any] = {}
    worst = 0.0
    for i, label in enumerate(variables.names):
        column = field.columns[i]
        part = slice(*variables.state_start[i : i + 2])
        if i in observed and column.size:
            flat[part][observed[i]] = 1.0
        elif i in observed:
            densities[label] = PointMass(observed[i])
        else:
            points = column.points()
            values, cut = field.belief(i, fits, known[i](points) if i in known else None, points)
            if not values.sum() > 0:
                raise ZeroProbabilityError(
                    f"the belief of '{label}' is nowhere positive: no row is near what was observed; "
                    "learn from more rows, or check the values"
                )
            worst = max(worst, cut)
            found = field.density(i, values, points)
            if column.size:
                flat[part] = found
            else:
                densities[label] = found
    return Marginals(variables, flat, densities), worst
