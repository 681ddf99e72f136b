"""Where the mass of real variables is: ranges for grids.

A first range is the one that the factors of a variable alone leave (`located`). For variables that these do
not confine it comes from the Gaussians that a few sweeps of `ep` find, unless these miss the place where the
variable lies given its neighbours; then from that place. Then beliefs on coarse grids decide: a range is cut
to what holds all but a ten-millionth of the mass at either end, and grows where the belief does not fall off,
until it keeps its size.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.errors import UnsupportedError
from ..problem.base import Budget, Problem
from ..problem.gaussian_system import no_integral
from ..problem.starting_places import starting_places
from .ep import EP

__all__ = ["first_ranges", "next_ranges"]

_GUESS = 10.0  # half the first range of a variable about which nothing is known
_DEVIATIONS = 8.0  # from the middle of a Gaussian to the ends of its range
_NODES, _SWEEPS = 12, 10  # of `ep` where it only sketches
_TAIL = 1e-7  # mass that may lie beyond either end
_MARGIN = 0.1  # of the width, added at either end
_ENDLESS = 1e16  # a range this wide says that there is no integral
_SETTLED = 0.15  # relative change of a range that ends the search


def first_ranges(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Ranges of the real variables, a first guess; zeros for discrete ones."""
    graph = problem.graph
    real = np.array([not v.is_discrete for v in graph.variables], dtype=bool)
    found = starting_places(graph)
    low, high = found.low.copy(), found.high.copy()
    strange = real & (low >= high)  # where not even a neighbour has a place
    low[strange], high[strange] = -_GUESS, _GUESS
    unknown = np.flatnonzero(real & ~found.own)
    marginals: Any = _sketch(problem) if len(unknown) else None
    for i in unknown if marginals is not None else ():
        density = marginals[graph.variables.names[int(i)]]
        ends = density.mean - _DEVIATIONS * density.sd, density.mean + _DEVIATIONS * density.sd
        if not found.known[i] or ends[0] < found.centre[i] < ends[1]:
            low[i], high[i] = ends
    return low, high


def _sketch(problem: Problem) -> Any:
    """Rough Gaussian beliefs, or None if they do not exist."""
    try:
        question = Problem.about(problem.graph)
        return EP(nodes=_NODES).run(question, Budget(max_iter=_SWEEPS), np.random.default_rng(0)).marginals
    except UnsupportedError:
        return None


def next_ranges(
    name: str, points: np.ndarray, mass: np.ndarray, weights: np.ndarray
) -> tuple[float, float, bool]:
    """A better range for one variable from the belief on its grid, and whether it is still changing."""
    low, high = float(points[0]), float(points[-1])
    width, cell = high - low, float(points[1] - points[0])
    height = mass / weights
    rising = np.cumsum(mass)
    first = int(np.searchsorted(rising, _TAIL))
    last = int(np.searchsorted(-(1 - rising), -_TAIL))
    cut = height[[0, -1]] > 1e-6 * height.max()
    new_low = low - width if cut[0] else float(points[max(first - 1, 0)])
    new_high = high + width if cut[1] else float(points[min(last + 1, len(points) - 1)])
    margin = max(_MARGIN * (new_high - new_low), cell)
    new_low, new_high = new_low - margin, new_high + margin
    if new_high - new_low > _ENDLESS:
        raise no_integral(f"the belief about '{name}' does not fall off")
    moved = max(abs(new_low - low), abs(new_high - high)) > _SETTLED * min(width, new_high - new_low)
    return new_low, new_high, moved
