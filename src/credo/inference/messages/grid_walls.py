"""Where grids and beliefs do not fit: walls, and what more points would change.

A factor of one variable that falls to zero at once (a wall) is put at the end of a grid, which may be any
point: within a cell it would cost an error of the order of the cell, at its end one of its square.

What else a grid misses (jumps inside, ridges narrower than a cell) shows when every other point is left out:
a jump then moves integrals by half a cell of the finer grid, wherever it lies in its cell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ...core.factor_graph import FactorGraph
from ...core.result import Result
from ...core.variable import Variables
from .grid_tables import Grids

__all__ = ["at_walls", "halve", "largest_move"]

_TRIFLE = 1e-12  # of a cell: how precisely walls are found
_STEEP = 3.0  # nats within a cell from which a density is taken to be infinite at a wall


def at_walls(graph: FactorGraph, grids: Grids) -> tuple[Grids, np.ndarray]:
    """The grids with ends at the walls in them, and which ends (n, 2) these are."""
    low, high = grids.low.copy(), grids.high.copy()
    walls = np.zeros((len(low), 2), dtype=bool)
    own: dict[int, list[int]] = {}
    for a, scope in enumerate(graph.scopes):
        if len(scope) == 1 and not graph.variables[int(scope[0])].is_discrete:
            own.setdefault(int(scope[0]), []).append(a)
    for i, factors in own.items():

        def height(x: np.ndarray, factors: list[int] = factors) -> np.ndarray:
            return np.asarray(sum(graph.factors[a].log_values(x) for a in factors))

        points = grids.points(i)
        inside = np.flatnonzero(np.isfinite(height(points)))
        if not len(inside):
            continue
        for side, k, step in ((0, int(inside[0]), -1), (1, int(inside[-1]), 1)):
            if not 0 <= k + step < len(points):
                continue
            end = _wall(height, float(points[k]), float(points[k + step]))
            at = height(np.array([end, end - step * (points[1] - points[0])]))
            if at[0] < at[1] + _STEEP:
                (high if side else low)[i], walls[i, side] = end, True
    return replace(grids, low=low, high=high), walls


def _wall(height: Callable[[np.ndarray], np.ndarray], inside: float, outside: float) -> float:
    """The last point before a function becomes zero, up to a trifle of the cell."""
    trifle = _TRIFLE * abs(outside - inside)
    while abs(outside - inside) > trifle:
        middle = 0.5 * (inside + outside)
        if middle in (inside, outside):
            break
        if np.isfinite(height(np.array([middle]))[0]):
            inside = middle
        else:
            outside = middle
    return inside


def halve(grids: Grids, walls: np.ndarray) -> Grids:
    """Every other point of the grids; where an even number has walls at both ends, half as many between."""
    count = (grids.count + 1) // 2
    if grids.rule == "midpoint" or grids.count % 2:
        return replace(grids, count=count)
    cell = (grids.high - grids.low) / (grids.count - 1)
    high = np.where(walls[:, 1], grids.high, grids.high - cell)
    low = np.where(walls[:, 1] & ~walls[:, 0], grids.low + cell, grids.low)
    return replace(grids, low=low, high=high, count=count)


def largest_move(variables: Variables, fine: Result, coarse: Result) -> float:
    """How far answers are apart: log Z per variable, means and widths in deviations, probabilities."""
    assert fine.marginals is not None and coarse.marginals is not None
    assert fine.log_z is not None and coarse.log_z is not None
    real = [v.name for v in variables if not v.is_discrete]
    gaps = [abs(fine.log_z.value - coarse.log_z.value) / max(len(real), 1)]
    gaps += list(np.abs(fine.marginals.flat - coarse.marginals.flat))
    for name in real:
        one, other = fine.marginals[name], coarse.marginals[name]
        gaps += [abs(one.mean - other.mean) / one.sd, abs(other.sd / one.sd - 1)]
    return float(max(gaps))
