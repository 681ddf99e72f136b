"""Quasi-Newton ascent by L-BFGS, as many steps in one go as somebody who drives it allows.

Its memory lives within a call: several calls in the place of one would take other steps. So a call goes on
until there is nothing to gain or the steps are used up, and looks at the run after every step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .run import Run

__all__ = ["Objective", "Steps", "ascend"]

Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]

_MEMORY = 10  # pairs of steps and changes of the slope that are kept
_FLAT = 1e-4  # of tol: relative gain of a step that ends a call
_SMALL, _ABNORMAL = 0, 2  # codes of SciPy: slope or gain have become small; no way up, or cut from outside


class Steps(NamedTuple):
    """What one call did."""

    values: list[float]  # after each step
    slopes: list[float]  # largest, after each step
    is_flat: bool  # whether slope or gain have become small
    is_stuck: bool  # whether the line search found no way up


def ascend(objective: Objective, x: np.ndarray, run: Run) -> Steps:
    """Climb from `x`, which is moved in place after every step: whatever cuts the call leaves the last one.

    Parameters
    ----------
    objective
        Value and slope at a point; where they are not finite, the line search steps back.
    x
        Where to begin, and where it ended.
    run
        Its budget has the steps and the tolerance; the call ends with it.
    """
    from scipy.optimize import minimize

    values: list[float] = []
    slopes: list[float] = []
    last = [0.0, 0.0]

    def cost(at: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = objective(at)
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            return np.inf, np.zeros(len(at))
        last[:] = [value, float(np.abs(slope).max(initial=0.0))]
        return -value, -slope

    def watch(intermediate_result: Any) -> None:
        x[:] = intermediate_result.x
        values.append(last[0])
        slopes.append(last[1])
        if run.ended() is not None:
            raise StopIteration

    tol = run.budget.tol
    options = {"maxiter": run.count, "gtol": tol, "ftol": tol * _FLAT, "maxcor": _MEMORY}
    found = minimize(cost, x.copy(), jac=True, method="L-BFGS-B", callback=watch, options=options)
    x[:] = found.x
    is_stuck = found.status == _ABNORMAL and run.ended() is None
    return Steps(values, slopes, found.status == _SMALL, is_stuck)
