r"""L-BFGS on all shifts and weights of the dual decomposition bound at once.

The point is (delta, v) with w_k = tau_i softmax(v)_k over the regions of variable i, floored. Maxima are not
smooth: temperatures zero stand for a small one, shared evenly, that is halved whenever progress is slow. The
bound that counts is evaluated with zeros in place, at the same shifts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...core.records import record
from ...kernels.gdd import bound_of, gradient, shift_tables
from ...optimise.lbfgs import Descent, Function, Point, descend
from ..problem.base import Problem

if TYPE_CHECKING:
    from .gdd import GDDState

__all__ = ["JointDescent", "joint_start", "joint_step"]

_COLDEST = 1e-3  # temperature at which smoothed maxima stop being sharpened
_PER_HEAT = 40  # steps at one temperature at most
_SLOW = 1e-5  # relative decrease that counts as slow while maxima are smoothed
_STILL = 1e-12  # and as rest where nothing is


@record("gdd joint")
class JointDescent(NamedTuple):
    """Where the minimisation stands."""

    descent: Descent  # of the smoothed bound, by shifts, then one logit per axis
    heat: float  # stands for temperature zero
    age: int  # steps taken at this temperature
    free: bool  # whether weights move


def joint_start(problem: Problem, state: GDDState, floor: float, *, free: bool) -> JointDescent:
    """The state's own point; smoothing starts at the scale of the tables."""
    logits = np.log(np.maximum(state.weight, 1e-3 * problem.temperatures[state.plan.axis_variable]) + 1e-300)
    point = np.concatenate([state.shifts, np.where(np.isfinite(logits), logits, 0.0)])
    finite = state.base[np.isfinite(state.base)]
    cold = bool((problem.temperatures == 0).any())
    heat = max(0.1, float(finite.std()) / 2) if cold and len(finite) else 1.0
    return _begin(problem, state, heat, free, point, floor)


def joint_step(problem: Problem, state: GDDState, floor: float) -> tuple[GDDState, float, bool]:
    """One step; the true bound there, and whether nothing is left to gain."""
    now = state.descent
    assert now is not None
    cold = bool((problem.temperatures == 0).any())
    before = now.descent.here.value
    moved = (
        descend(_function(problem, state, now.heat, now.free, floor), now.descent, search="halving")
        or now.descent
    )
    gained = (before - moved.here.value) / max(1.0, abs(before))
    now = now._replace(descent=moved, age=now.age + 1)
    is_done = False
    if cold and (gained < _SLOW or now.age >= _PER_HEAT):
        is_done = now.heat <= _COLDEST
        now = _begin(problem, state, now.heat / 2, now.free, moved.here.w, floor)
    elif not cold:
        is_done = gained < _STILL
    plan = state.plan
    shifts, weight = _parts(problem, state, now.heat, now.free, now.descent.here.w, floor)
    weight = np.where(problem.temperatures[plan.axis_variable] == 0, 0.0, weight)
    tables = np.empty_like(state.base)
    shift_tables(plan.separators, plan.edges, plan.maps, state.base, shifts, tables)
    terms = np.empty(len(plan.regions))
    bound = state.constant + float(bound_of(plan.regions, plan.axis_size, weight, tables, terms))
    moved_state = state._replace(shifts=shifts, weight=weight, tables=tables, descent=now)
    return moved_state, bound, is_done


def _begin(
    problem: Problem, state: GDDState, heat: float, free: bool, point: np.ndarray, floor: float
) -> JointDescent:
    """A descent from a point at a new temperature."""
    function = _function(problem, state, heat, free, floor)
    return JointDescent(Descent(Point.at(function, point)), heat, 0, free)


def _function(problem: Problem, state: GDDState, heat: float, free: bool, floor: float) -> Function:
    """What L-BFGS descends."""
    return lambda point: _evaluate(problem, state, heat, free, point, floor)


def _parts(
    problem: Problem, state: GDDState, heat: float, free: bool, point: np.ndarray, floor: float
) -> tuple[np.ndarray, np.ndarray]:
    """Shifts and smoothed weights of a point."""
    plan = state.plan
    shifts, logits = point[: plan.n_shifts], point[plan.n_shifts :]
    owner = plan.axis_variable
    heats = np.where(problem.temperatures == 0, heat, problem.temperatures)
    if not free:
        even = 1.0 / np.bincount(owner, minlength=len(heats))[owner]
        return shifts, np.where(problem.temperatures[owner] == 0, heat * even, state.weight)
    top = np.full(len(heats), -np.inf)
    np.maximum.at(top, owner, logits)
    part = np.exp(logits - top[owner])
    part /= np.bincount(owner, part, minlength=len(heats))[owner]
    count = np.bincount(owner, minlength=len(heats))[owner]
    share = floor / (1.0 + floor * count)
    return shifts, heats[owner] * (share + (1.0 - share * count) * part)


def _evaluate(
    problem: Problem, state: GDDState, heat: float, free: bool, point: np.ndarray, floor: float
) -> tuple[float, np.ndarray]:
    """The smoothed bound and its gradient."""
    plan, owner = state.plan, state.plan.axis_variable
    shifts, weight = _parts(problem, state, heat, free, point, floor)
    tables = np.empty_like(state.base)
    shift_tables(plan.separators, plan.edges, plan.maps, state.base, shifts, tables)
    by_shift, by_weight = np.empty(plan.n_shifts), np.zeros(len(owner))
    value = gradient(
        plan.regions,
        plan.separators,
        plan.edges,
        plan.maps,
        plan.axis_size,
        weight,
        tables,
        by_shift,
        by_weight,
    )
    if not free:
        return float(value), np.concatenate([by_shift, np.zeros(len(owner))])
    n = len(problem.temperatures)
    count = np.bincount(owner, minlength=n)[owner]
    share = floor / (1.0 + floor * count)
    heats = np.where(problem.temperatures == 0, heat, problem.temperatures)[owner]
    moving = weight - heats * share  # (1 - share count) heat part
    part = moving / np.maximum(np.bincount(owner, moving, minlength=n)[owner], 1e-300)
    mean = np.bincount(owner, part * by_weight, minlength=n)[owner]
    return float(value), np.concatenate([by_shift, moving * (by_weight - mean)])
