r"""Transport between two sets of weighted points: what a solver found.

    value = min_P  <P, M> - eps H(P),   H(P) = - sum_ij P_ij log P_ij,   P 1 = a,   P' 1 = b
    P_ij  = exp((alpha_i + beta_j - M_ij) / eps)
    dual  = <alpha, a> + <beta, b> - eps sum_ij P_ij + eps

Without entropy (eps = 0) P lies on few pairs, alpha_i + beta_j <= M_ij, the dual is <alpha, a> + <beta, b>.
With entropy the value may be negative, and that of a set with itself is not zero; `cost` = <P, M> is what
people compare. P is kept by its potentials and made when it is asked for. Centred potentials are the slopes
of the value in the weights, along directions that keep their sum.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from .display import Shown
from .errors import TooLargeError, UnsupportedError
from .ground_cost import GroundCost
from .numbers import float_array
from .records import register
from .result import Status

__all__ = ["Transport"]

_MOST = 10**8  # entries of a plan that is made as a whole


@register("Transport")
@dataclass(frozen=True, eq=False, repr=False)
class Transport(Shown):
    """A transport plan with its costs and potentials."""

    costs: GroundCost  # M
    weights: tuple[np.ndarray, np.ndarray]  # a (n,) and b (m,)
    potentials: tuple[np.ndarray, np.ndarray]  # alpha (n,) and beta (m,)
    epsilon: float  # of the entropy; 0: none
    cost: float  # <P, M>
    entropy: float  # H(P)
    dual: float  # from the potentials; not above the value
    marginal_error: float  # |P 1 - a|_1 + |P' 1 - b|_1
    status: Status  # why the solver stopped
    pairs: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None  # rows, columns and masses where eps = 0
    trace: dict[str, np.ndarray] = field(default_factory=dict)  # marginal error per step
    seconds: float = 0.0  # wall time

    @property
    def value(self) -> float:
        """<P, M> - eps H(P)."""
        return self.cost - self.epsilon * self.entropy

    @property
    def gap(self) -> float:
        """How far the value can be from the lowest one, where the marginals are right."""
        return self.value - self.dual

    @property
    def converged(self) -> bool:
        """Whether the solver ended as it should."""
        return self.status.is_success

    @cached_property
    def gradients(self) -> tuple[np.ndarray, np.ndarray]:
        """Slopes of the value in the weights of either side, along the simplex: centred potentials."""
        return _centred(self.potentials[0]), _centred(self.potentials[1])

    @cached_property
    def plan(self) -> np.ndarray:
        """P, (n, m)."""
        n, m = self.costs.shape
        if n * m > _MOST:
            raise TooLargeError(
                f"plan: {n} x {m} entries are more than {_MOST}; use block(rows), push or gradient_x instead"
            )
        return self.block(slice(0, n))

    def block(self, rows: slice) -> np.ndarray:
        """Some rows of P, (rows, m)."""
        n, m = self.costs.shape
        if self.pairs is None:
            alpha, beta = self.potentials
            return np.exp((alpha[rows, None] + beta - self.costs.block(rows)) / self.epsilon)
        first, last, _ = rows.indices(n)
        i, j, mass = self.pairs
        mine = (i >= first) & (i < last)
        made = np.zeros((last - first, m))
        made[i[mine] - first, j[mine]] = mass[mine]
        return made

    def push(self, values: Any) -> np.ndarray:
        """Where the rows go: the mean of `values` (m, ...) of the columns under each row of P."""
        found = float_array("values", values)
        a, out = self.weights[0], np.full((self.costs.shape[0], *found.shape[1:]), np.nan)
        for rows in self.costs.blocks():
            plan = self.block(rows)
            mass = plan.sum(axis=1)
            moved = np.tensordot(plan, found, 1)
            is_there = (a[rows] > 0) & (mass > 0)
            out[rows][is_there] = moved[is_there] / mass[is_there].reshape(-1, *[1] * (found.ndim - 1))
        return out

    @cached_property
    def gradient_x(self) -> np.ndarray:
        """Slope of the value in the points of the rows, (n, d): the plan counts as a constant (envelope)."""
        slopes = (self.costs.slope(rows, self.block(rows)) for rows in self.costs.blocks())
        parts = [part for part in slopes if part is not None]
        if not parts:
            raise UnsupportedError(
                "gradient_x: expected points with cost 'euclidean' or 'squared', got a matrix or a function "
                "of one's own; differentiate that with the plan as a constant"
            )
        return np.concatenate(parts)

    def _shown(self) -> list[str]:
        n, m = self.costs.shape
        way = "exact" if self.epsilon == 0 else f"epsilon {self.epsilon:g}"
        return [
            f"Transport of {n} to {m} points ({way}): cost {self.cost:.6g}, value {self.value:.6g}",
            f"marginal error {self.marginal_error:.2g}, gap {self.gap:.2g}, "
            f"{self.status.value}: {self.status.advice}",
        ]


def _centred(potential: np.ndarray) -> np.ndarray:
    known = potential[np.isfinite(potential)]
    return potential - known.mean()
