"""Where the mass of real variables is: ranges for grids.

A first range comes from the factors of one variable alone, looked at on points whose distances grow with
their size; for variables that these do not confine, from the Gaussians that a few sweeps of `ep` find. Then
beliefs on coarse grids decide: a range is cut to what holds all but a ten-millionth of the mass at either
end, and grows where the belief does not fall off, until it keeps its size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ...core.density import GaussianFactor
from ...core.errors import UnsupportedError
from ...core.factor import Factor
from ..base import Budget
from ..gaussian_system import no_integral
from ..hybrid import HybridProblem
from .ep import EP

__all__ = ["first_ranges", "next_ranges"]

_SCAN = np.sinh(np.linspace(-20.0, 20.0, 1601))  # from -2.4e8 to 2.4e8, a fortieth apart at zero
_GUESS = 10.0  # half the first range of a variable about which nothing is known
_DROP = 30.0  # in logs, from the top to the ends of a first range
_DEVIATIONS = 8.0  # the same for a Gaussian
_NODES, _SWEEPS = 12, 10  # of `ep` where it only sketches
_ZOOMS = 60  # each divides the distance of points by ten
_TAIL = 1e-7  # mass that may lie beyond either end
_MARGIN = 0.1  # of the width, added at either end
_ENDLESS = 1e9  # a range this wide says that there is no integral
_SETTLED = 0.15  # relative change of a range that ends the search


def first_ranges(problem: HybridProblem) -> tuple[np.ndarray, np.ndarray]:
    """Ranges of the real variables, a first guess; zeros for discrete ones."""
    graph = problem.graph
    n = len(graph.variables)
    own: list[list[int]] = [[] for _ in range(n)]
    touched = np.zeros(n, dtype=bool)
    for a, scope in enumerate(graph.scopes):
        touched[scope] = True
        if len(scope) == 1:
            own[int(scope[0])].append(a)
    low, high = np.zeros(n), np.zeros(n)
    unknown = []
    for i, v in enumerate(graph.variables):
        if v.is_discrete:
            continue
        if not touched[i]:
            raise no_integral(f"nothing confines '{v.name}'")
        found = _range([graph.factors[a] for a in own[i]])
        low[i], high[i] = (-_GUESS, _GUESS) if found is None else found
        if found is None:
            unknown.append(i)
    if unknown:
        marginals = _sketch(problem)
        for i in unknown if marginals is not None else ():
            density = marginals[graph.variables.names[i]]
            low[i], high[i] = density.mean - _DEVIATIONS * density.sd, density.mean + _DEVIATIONS * density.sd
    return low, high


def _sketch(problem: HybridProblem) -> Any:
    """Rough Gaussian beliefs, or None if they do not exist."""
    try:
        question = replace(problem, maximise=(), samples=0, warm=None)
        return EP(nodes=_NODES).run(question, Budget(max_iter=_SWEEPS), np.random.default_rng(0)).marginals
    except UnsupportedError:
        return None


def _range(factors: list[Factor]) -> tuple[float, float] | None:
    if not factors:
        return None
    gaussian = [f for f in factors if isinstance(f, GaussianFactor)]
    if len(gaussian) == len(factors):
        precision = float(np.sum([f.precision[0, 0] for f in gaussian]))
        shift = float(np.sum([f.shift[0] for f in gaussian]))
        if precision <= 0:
            return None
        half = _DEVIATIONS / np.sqrt(precision)
        return shift / precision - half, shift / precision + half

    def value(x: np.ndarray) -> np.ndarray:
        return np.asarray(sum(f.log_values(x) for f in factors))

    return _hull(value)


def _hull(value: Callable[[np.ndarray], np.ndarray]) -> tuple[float, float] | None:
    """The smallest range outside of which a function, as far as seen, is `_DROP` below its top, if any."""
    x, logs = _SCAN, value(_SCAN)
    seen = np.stack([x, logs])
    for _ in range(_ZOOMS):
        k = int(np.argmax(logs))
        left, right = max(k - 1, 0), min(k + 1, len(x) - 1)
        if logs[k] == -np.inf or min(logs[left], logs[right]) > logs[k] - 1.0:
            break
        x = np.linspace(x[left], x[right], 21)
        logs = value(x)
        seen = np.concatenate([seen, np.stack([x, logs])], axis=1)
    top = int(np.argmax(seen[1]))
    if seen[1, top] == -np.inf:
        return None
    inside = seen[0, seen[1] > seen[1, top] - _DROP]
    if max(-inside.min(), inside.max()) >= _SCAN[-1]:
        return None
    # The next point outside on either side bounds what was not looked at.
    outside = np.sort(seen[0])
    low = outside[max(int(np.searchsorted(outside, inside.min())) - 1, 0)]
    high = outside[min(int(np.searchsorted(outside, inside.max(), side="right")), len(outside) - 1)]
    return float(low), float(high)


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
