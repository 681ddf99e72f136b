"""Where the mass of real variables is, over all magnitudes: the first thing that methods on the line ask.

A function of one variable is looked at from -1e6 to 1e6 at points whose distances grow with their size; where
it does not fall towards these ends, up to 2e15. It falls where it is ten nats below its top and, towards
infinity, loses more than 1/|x| does. Then points are put between the neighbours of peaks until these are
within a nat of them, and at last over all that is within thirty and within ten nats of the top. The points
seen are therefore dense where a peak is and sparse elsewhere, whatever the place and the width of the peak.
Many functions are looked at together.

`places_of` does this for the variables of a graph. The profile of a variable is the product of its factors
along the line: those without other continuous variables (discrete ones are summed out); where these say
nothing, those whose other variables have places already, which they are held at; and where no variable of a
connected part has one, all factors, the others at zero. Of what is still left, a variable lies where the
nearest one lies that has a place. Profiles of Gaussian factors need no search: they are read off.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.density import double_precision, quadratic
from ...core.domain import Discrete, FreeCoordinate, Real
from ...core.factor_graph import FactorGraph
from ...core.groups import FactorBatch

__all__ = [
    "Places",
    "Seen",
    "first_points",
    "nearest",
    "places_of",
    "profiles",
    "real_axes",
    "search",
    "together",
]

_RATIO = 10 ** (1 / 3)  # of neighbouring points
_SIDE = 1e-3 * _RATIO ** np.arange(28)
_NEAR = np.concatenate([-_SIDE[::-1], [0.0], _SIDE])  # where a function is looked at first
_FAR = 1e6 * _RATIO ** np.arange(1, 29)
_BEYOND = np.concatenate([-_FAR[::-1], [0.0], _FAR])  # where it is looked at if it does not fall there
_FINE = len(_NEAR)  # points of a closer look; one shape is compiled once
_LOOKS = 40  # most of them; each divides distances by almost thirty
_MODES = 12  # of them that may go to peaks besides the highest
_DROP = 10.0  # nats below the top that still belong to a function
_NEGLIGIBLE = 30.0  # nats below the top that no longer do
_DEVIATIONS = 8.0  # the same for a Gaussian
_TIP = 1.0  # nats below the top that the neighbours of the top may be
_END = 3.0  # nats from the end of a free coordinate within which a top is that of the end
_REACH = 12  # rounds in which places are passed on from neighbour to neighbour
_SETTLE = 3  # rounds in which variables find their places with all others at theirs
_STATES = 512  # joint states of discrete neighbours that are summed out
_FEW = 32  # factors that are called one by one instead of being compiled

Piece = tuple[FactorBatch, int]  # factors, and an axis of theirs
Height = Callable[[np.ndarray], np.ndarray]  # points (rows, p) -> logs of functions there


def first_points(count: int) -> np.ndarray:
    """As many points as wanted, spread like those where functions are looked at first."""
    return np.interp(np.linspace(0, len(_NEAR) - 1, count), np.arange(len(_NEAR)), _NEAR)


@dataclass(frozen=True)
class Seen:
    """Functions at the points where they were looked at, one function per row."""

    points: np.ndarray  # (rows, p) rising
    values: np.ndarray  # (rows, p) logs; -inf where a function is no number
    known: np.ndarray  # (rows,) whether a function falls off on both sides

    def hull(self, drop: float) -> tuple[np.ndarray, np.ndarray]:
        """Ends of what is within `drop` of the top, and of the gaps to the next points outside."""
        top = self.values.max(axis=1, keepdims=True)
        inside = self.values > np.where(np.isfinite(top), top, 0.0) - drop
        row, last = np.arange(len(inside)), inside.shape[1] - 1
        low = np.maximum(inside.argmax(axis=1) - 1, 0)
        high = np.minimum(inside.shape[1] - inside[:, ::-1].argmax(axis=1), last)
        return self.points[row, low], self.points[row, high]

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations of what is within ten nats of the top."""
        top = self.values.max(axis=1, keepdims=True)
        height = self.values - np.where(np.isfinite(top), top, 0.0)
        gaps = np.diff(self.points, axis=1)
        width = 0.5 * (np.pad(gaps, ((0, 0), (1, 0))) + np.pad(gaps, ((0, 0), (0, 1))))
        weight = np.where(height > -_DROP, width * np.exp(np.minimum(height, 0.0)), 0.0)
        total = weight.sum(axis=1, keepdims=True)
        weight = weight / np.where(total > 0, total, 1.0)
        at = self.points[np.arange(len(height)), height.argmax(axis=1)]  # sums around it keep their digits
        apart = self.points - at[:, None]
        shift = (weight * apart).sum(axis=1)
        return at + shift, np.sqrt((weight * (apart - shift[:, None]) ** 2).sum(axis=1))

    def _with(self, points: np.ndarray, values: np.ndarray) -> Seen:
        points = np.concatenate([self.points, points], axis=1)
        order = np.argsort(points, axis=1, kind="stable")
        values = np.concatenate([self.values, values], axis=1)
        return Seen(np.take_along_axis(points, order, 1), np.take_along_axis(values, order, 1), self.known)

    def _falls(self) -> np.ndarray:
        top = self.values.max(axis=1)
        outer, inner = self.values[:, [0, -1]], self.values[:, [1, -2]]
        steps = np.log(np.abs(self.points[:, [0, -1]] / self.points[:, [1, -2]]))
        with np.errstate(invalid="ignore"):
            thin = np.isneginf(outer) | (inner - outer > steps)
        return np.asarray(np.isfinite(top) & (thin & (outer <= top[:, None] - _DROP)).all(axis=1))

    def _blunt(self, every: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Which rows have a peak narrower than the distances of points, and the neighbours of the highest.

        Without `every`, only the peak at the top counts. A wall, where a function falls to zero at once, has
        no neighbour on its side.
        """
        v, x = self.values, self.points
        number = np.arange(v.shape[1])
        fresh = np.diff(x, axis=1) > 0  # a point may have been looked at more than once
        first = np.maximum.accumulate(np.where(np.pad(fresh, ((0, 0), (1, 0))), number, 0), axis=1)
        last = np.where(np.pad(fresh, ((0, 0), (0, 1))), number, number[-1])
        last = np.minimum.accumulate(last[:, ::-1], axis=1)[:, ::-1]
        left, right = np.maximum(first - 1, 0), np.minimum(last + 1, number[-1])
        sides = np.stack([np.take_along_axis(v, left, 1), np.take_along_axis(v, right, 1)])
        low, high = np.take_along_axis(x, left, 1), np.take_along_axis(x, right, 1)
        peak = np.isfinite(v) & (v >= sides).all(axis=0)
        peak &= every | (v == v.max(axis=1, keepdims=True))
        sharp = sides < v - _TIP
        wall = np.isneginf(sides) & ~sharp[::-1]
        apart = high - low > 1e-14 * np.maximum(np.abs(low), np.abs(high))
        height = np.where(peak & (sharp & ~wall).any(axis=0) & apart, v, -np.inf)
        row, k = np.arange(len(v)), height.argmax(axis=1)
        return self.known & (height[row, k] > -np.inf), low[row, k], high[row, k]


def search(height: Height, wanted: np.ndarray) -> Seen:
    """Look at functions until their peaks are seen.

    Parameters
    ----------
    height
        Logs of the functions at points (rows, p) for any p; a value that is no number below +inf counts as
        zero weight.
    wanted
        (rows,) which functions are asked for.
    """
    rows = len(wanted)

    def look(points: np.ndarray) -> np.ndarray:
        values = height(points)
        return np.where(values < np.inf, values, -np.inf)

    points = np.tile(_NEAR, (rows, 1))
    seen = Seen(points, look(points), np.ones(rows, dtype=bool))
    known = wanted & seen._falls()
    if not known[wanted].all():
        points = np.tile(_BEYOND, (rows, 1))
        seen = seen._with(points, look(points))
        known = known | (wanted & seen._falls())
    seen = Seen(seen.points, seen.values, known)
    for turn in range(_LOOKS):
        blunt, low, high = seen._blunt(every=turn < _MODES)
        if not blunt.any():
            break
        whole = seen.hull(_DROP)
        points = np.linspace(np.where(blunt, low, whole[0]), np.where(blunt, high, whole[1]), _FINE, axis=1)
        seen = seen._with(points, look(points))
    for drop in (_NEGLIGIBLE, _DROP):
        points = np.linspace(*seen.hull(drop), _FINE, axis=1)
        seen = seen._with(points, look(points))
    return seen


@dataclass(frozen=True, eq=False)
class Places:
    """Where the variables of a graph lie; zero and one for those that are not real."""

    centre: np.ndarray  # (n,)
    scale: np.ndarray  # (n,) standard deviations of profiles
    low: np.ndarray  # (n,) ends of where profiles are not negligible
    high: np.ndarray  # (n,)
    own: np.ndarray  # (n,) whether its own factors confine a variable
    known: np.ndarray  # (n,) whether a profile does

    @classmethod
    def none(cls, n: int) -> Places:
        """Nothing is known yet."""
        zero, no = np.zeros(n), np.zeros(n, dtype=bool)
        return cls(zero, np.ones(n), zero.copy(), zero.copy(), no, no.copy())

    def put(self, at: np.ndarray, numbers: tuple[np.ndarray, ...]) -> None:
        """Set centre, scale, low and high of the variables flagged."""
        for mine, new in zip((self.centre, self.scale, self.low, self.high), numbers, strict=True):
            mine[at] = new[at]
        self.known[at] = True


def places_of(graph: FactorGraph) -> Places:
    """Places of all real variables; those that nothing confines lie around zero, or near others."""
    n = len(graph.variables)
    found = Places.none(n)
    real = np.array([isinstance(d, Real) for d in graph.variables.domains], dtype=bool)
    if not real.any():
        return found
    pieces = [(g, j) for g in graph.batches for j in real_axes(g)]
    _look(graph, [(g, j) for g, j in pieces if _continuous(g) == 1], found, real, None)
    found.own[:] = found.known
    if (real & ~found.known).any():
        _pass_on(graph, pieces, found, real)
    return found


def _pass_on(graph: FactorGraph, pieces: list[Piece], found: Places, real: np.ndarray) -> None:
    """Places of variables without confining factors of their own."""
    linked = _link(graph, real)
    reached = list(nearest(linked, found.known))
    alone = real & ~np.isin(np.arange(len(real)), reached)
    if alone.any():
        everywhere = np.ones(len(real), dtype=bool)
        for _ in range(_SETTLE):
            _look(graph, pieces, found, alone, everywhere)
    for _ in range(_REACH):
        before = found.known.sum()
        _look(graph, pieces, found, real & ~found.known, found.known.copy())
        if found.known.sum() == before or found.known[real].all():
            break
    for i, source in nearest(linked, found.known).items():
        if real[i] and not found.known[i]:
            found.centre[i], found.scale[i] = found.centre[source], found.scale[source]
            found.low[i], found.high[i] = found.low[source], found.high[source]
    rest, everywhere = real & ~found.own, np.ones(len(real), dtype=bool)
    for _ in range(_SETTLE):
        _look(graph, pieces, found, rest, everywhere)


def _look(
    graph: FactorGraph, pieces: list[Piece], found: Places, wanted: np.ndarray, held: np.ndarray | None
) -> None:
    """Search the profiles of the variables wanted, of factors whose others are held at their places."""
    if not wanted.any():
        return
    n = len(wanted)
    smooth, J, h = wanted.copy(), np.zeros(n), np.zeros(n)
    for group, axis in pieces:
        at, rows = group.scopes[:, axis], _heard(group, axis, held)
        if group.function is not quadratic:
            smooth[at[rows]] = False
            continue
        precision, shift = group.parameters[0][rows], group.parameters[1][rows, axis]
        for k in range(group.scopes.shape[1]):
            if k != axis:
                shift = shift - precision[:, axis, k] * found.centre[group.scopes[rows, k]]
        np.add.at(J, at[rows], precision[:, axis, axis])
        np.add.at(h, at[rows], shift)
    bent = smooth & (J > 0)
    centre, sd = h / np.where(bent, J, 1.0), np.where(bent, J, 1.0) ** -0.5
    rough = wanted & ~smooth
    if rough.any():
        seen = search(lambda x: profiles(graph, pieces, found, x, held), rough)
        found_centre, found_scale = seen.moments()
        low, high = seen.hull(_NEGLIGIBLE)
        known = rough & seen.known & (found_scale > 0) & ~_at_end(graph, seen)
        found.put(known, (found_centre, found_scale, low, high))
    found.put(bent, (centre, sd, centre - _DEVIATIONS * sd, centre + _DEVIATIONS * sd))


def _at_end(graph: FactorGraph, seen: Seen) -> np.ndarray:
    """Whether a profile is highest where free coordinates end: rounding makes it fall there, no factor."""
    top = np.take_along_axis(seen.points, seen.values.argmax(axis=1)[:, None], 1)[:, 0]
    ends = np.array([(d.low, d.high) if isinstance(d, FreeCoordinate) else (-np.inf, np.inf)
                     for d in graph.variables.domains])  # fmt: skip
    return np.asarray((top < ends[:, 0] + _END) | (top > ends[:, 1] - _END))


def _heard(group: FactorBatch, axis: int, held: np.ndarray | None) -> np.ndarray:
    """Rows of a group whose other real variables are held."""
    rows = np.ones(len(group.scopes), dtype=bool)
    if held is not None:
        for k in real_axes(group):
            if k != axis:
                rows &= held[group.scopes[:, k]]
    return np.flatnonzero(rows)


def _continuous(group: FactorBatch) -> int:
    return sum(not isinstance(d, Discrete) for d in group.domains)


def real_axes(group: FactorBatch) -> list[int]:
    """The axes of real variables."""
    return [j for j, d in enumerate(group.domains) if isinstance(d, Real)]


def profiles(
    graph: FactorGraph, pieces: list[Piece], found: Places, x: np.ndarray, held: np.ndarray | None = None
) -> np.ndarray:
    """Sums of log-potentials along x, (variables, points), the others at their places."""
    total = np.zeros_like(x)
    for group, axis in pieces:
        at, rows = group.scopes[:, axis], _heard(group, axis, held)
        if len(rows):
            values = together(graph, group, {axis: x[at]}, found)
            np.add.at(total, at[rows], values[rows])
    return total


def together(
    graph: FactorGraph, group: FactorBatch, moved: dict[int, np.ndarray], found: Places
) -> np.ndarray:
    """Log-potentials (count, points) at given columns; discrete variables summed out, others at places."""
    discrete = [j for j, d in enumerate(group.domains) if isinstance(d, Discrete)]
    ranges = (range(group.domains[j].size) for j in discrete)
    states = np.array(list(itertools.islice(itertools.product(*ranges), _STATES)), np.int64)
    count, points = len(group.scopes), next(iter(moved.values())).shape[1]
    columns = []
    for j, domain in enumerate(group.domains):
        if j in discrete:
            own = np.broadcast_to(states[:, discrete.index(j)], (count, points, len(states)))
        elif isinstance(domain, Real):
            at = moved.get(j, found.centre[group.scopes[:, j]][:, None])
            own = np.broadcast_to(at[:, :, None], (count, points, len(states)))
        else:
            at = moved.get(j, np.full((count, points, domain.width), 1 / domain.width))
            own = np.broadcast_to(at[:, :, None], (count, points, len(states), domain.width))
        columns.append(own)
    values = _values(graph, group, columns)
    # A function may fail a long way out; there it says nothing, as a zero weight does.
    values = np.where(values < np.inf, values, -np.inf)
    return np.asarray(np.logaddexp.reduce(values, axis=-1))


def _values(graph: FactorGraph, group: FactorBatch, columns: list[np.ndarray]) -> np.ndarray:
    compiled = _compile() if len(group.factors) > _FEW else None
    if compiled is not None:
        return np.asarray(compiled(graph, group, columns, strict=False))
    with double_precision(), np.errstate(all="ignore"):
        rows = [_row(graph, group, a, [c[a] for c in columns]) for a in range(len(group.factors))]
    return np.stack([np.broadcast_to(np.asarray(row), columns[0].shape[1:3]) for row in rows]).astype(
        np.float64
    )


def _row(graph: FactorGraph, group: FactorBatch, a: int, columns: list[np.ndarray]) -> Any:
    """What the function of one factor returns; what it raises is told in words, with the factor's name."""
    try:
        return group.function(*columns, *(p[a] for p in group.parameters))
    except Exception:  # a function of the user may raise anything
        graph.factors[int(group.factors[a])].log_values(*columns)
        raise


def _compile() -> Any:
    """The compiled evaluation, or None without JAX."""
    try:
        from .potentials import evaluate
    except ImportError:
        return None
    return evaluate


def _link(graph: FactorGraph, real: np.ndarray) -> dict[int, list[int]]:
    """Real variables and the real variables they share a factor with."""
    links: dict[int, list[int]] = {}
    for scope in graph.scopes:
        own = [int(i) for i in scope if real[i]]
        for i, j in itertools.permutations(own, 2):
            links.setdefault(i, []).append(j)
    return links


def nearest(links: dict[int, list[int]], known: np.ndarray) -> dict[int, int]:
    """Variable -> the nearest known one, for those that have one in their part of the graph."""
    found = {i: i for i in np.flatnonzero(known).tolist()}
    queue = deque(found)
    while queue:
        i = queue.popleft()
        for j in links.get(i, ()):
            if j not in found:
                found[j] = found[i]
                queue.append(j)
    return found
