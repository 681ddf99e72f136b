r"""Newton steps on the shifts of generalised dual decomposition, and what is left to the minimum.

    delta <- delta - step (H + ridge)^-1 dL/ddelta,      dL/ddelta_{s,c}(x_s) = mu_s(x_s) - mu_c(x_s)

H is singular along constants of every shift, which change nothing; the small ridge keeps it invertible. The
step is halved until the bound falls by a share of what its slope promises. At the minimum over shifts and
weights w_k >= floor of a variable, whose temperature is shared out among the regions that hold it,

    mu_s = mu_c on every separator,     H_k = Hbar where w_k is above the floor,     H_k >= Hbar at the floor

with H_k the conditional entropy of the variable in region k. How far a point is from this is its residual.
"""

from __future__ import annotations

import numpy as np

from ...core.errors import TooLargeError
from ...kernels.gdd import bound_of, gradient, shift_tables
from ...kernels.gdd_hessian import shift_hessian
from .gdd_plan import GDDPlan

__all__ = ["kkt_residual", "newton_shifts", "refuse_large"]

_MOST = 3000  # shifts: their second derivatives are one full matrix
_RIDGE = 1e-9  # relative to the largest entry of the diagonal, or to one where all are small
_ARMIJO, _HALVINGS = 1e-4, 40


def refuse_large(plan: GDDPlan) -> None:
    """Say so where the matrix would be too large."""
    if plan.n_shifts > _MOST:
        raise TooLargeError(
            f"gdd(updates=newton): expected at most {_MOST} shifts, whose second derivatives are one matrix, "
            f"got {plan.n_shifts}; use updates=passes, blocks or joint"
        )


def newton_shifts(plan: GDDPlan, base: np.ndarray, shifts: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The shifts after one step; the same where none lowers the bound."""
    tables, by_shift, by_weight = np.empty_like(base), np.empty(plan.n_shifts), np.zeros(len(weight))

    def place(point: np.ndarray) -> None:
        shift_tables(plan.separators, plan.edges, plan.maps, base, point, tables)

    place(shifts)
    value = _slopes(plan, weight, tables, by_shift, by_weight)
    curvature = shift_hessian(
        plan.regions, plan.separators, plan.edges, plan.maps, plan.axis_size, weight, tables
    )
    ridge = _RIDGE * max(float(curvature.diagonal().max(initial=0.0)), 1.0)
    move = -np.linalg.solve(curvature + ridge * np.eye(len(shifts)), by_shift)
    slope, step, terms = float(by_shift @ move), 1.0, np.empty(len(plan.regions))
    for _ in range(_HALVINGS if slope < 0 else 0):
        place(shifts + step * move)
        if bound_of(plan.regions, plan.axis_size, weight, tables, terms) <= value + _ARMIJO * step * slope:
            return shifts + step * move
        step /= 2
    return shifts


def kkt_residual(plan: GDDPlan, weight: np.ndarray, tables: np.ndarray, floor: float, *, free: bool) -> float:
    """The largest violation of the conditions of a minimum; `free` says whether weights may move."""
    by_shift, entropy = np.empty(plan.n_shifts), np.zeros(len(weight))
    _slopes(plan, weight, tables, by_shift, entropy)
    worst = float(np.abs(by_shift).max(initial=0.0))
    if not free:
        return worst
    owner, n = plan.axis_variable, len(plan.single)
    heat = np.bincount(owner, weight, minlength=n)[owner]
    spare = np.maximum(weight - floor * heat, 0.0)
    whole = np.maximum(np.bincount(owner, spare, minlength=n), 1e-300)[owner]
    mean = np.bincount(owner, spare / whole * entropy, minlength=n)[owner]
    several = (np.bincount(owner, minlength=n)[owner] > 1) & (heat > 0)
    gap = np.where(several, entropy - mean, 0.0)
    return max(worst, float(np.maximum(spare / whole * np.abs(gap), -gap).max(initial=0.0)))


def _slopes(
    plan: GDDPlan, weight: np.ndarray, tables: np.ndarray, by_shift: np.ndarray, by_weight: np.ndarray
) -> float:
    """The bound; fills its derivatives."""
    found = gradient(
        plan.regions, plan.separators, plan.edges, plan.maps, plan.axis_size, weight, tables, by_shift,
        by_weight,
    )  # fmt: skip
    return float(found)
