r"""Frank-Wolfe steps (conditional gradient): a smooth convex f over sets known by vertices.

    s = argmin_v <slope, v>,   gap = <slope, x - s>  >=  f(x) - f*          (the oracle)
    towards  x <- x + g (s - x),  0 <= g <= 1
    away     x <- x + g (x - a),  0 <= g <= w_a / (1 - w_a),  a the vertex of weight w_a in x that the slope
             likes least; taken where it promises more than s. The last g drops a

With `steps="equal"` towards has the length 1 / (n + 1), n vertices, and away drops its vertex: all weights
are alike.

With away steps and a line search the gap vanishes linearly over polytopes where f is strongly convex; without
them as 1 / t. The gap is the residual: it bounds how far the value is from the lowest one.

Blocks. Where the set is a product, an oracle may answer for one factor of it. A step of the driver is then
one pass over all blocks in a random order. The gaps met on the way belong to different places; when their sum
is below `tol`, all blocks are asked once more at one place, and that gap counts.

Sources: Frank and Wolfe 1956; Guelat and Marcotte 1986 (away steps); Lacoste-Julien et al. 2013 (blocks).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from ..core import check
from ..core.records import record
from .driver import Outcome, Step
from .line_search import backtrack, falls, golden_section
from .run import Run
from .run import check as look

__all__ = ["Active", "FrankWolfe", "FrankWolfeState", "Place", "Polytope", "VertexProblem"]

_NONE = 1e-15  # a weight that is none
_FULL = 1 - 1e-12  # of the longest away step: the vertex is dropped


class VertexProblem(Protocol):
    """What is minimised; places and vertices are whatever it likes.

    `begin` is asked by a start alone, `length` by a search, `excess`, `mixed` and `key` by away steps.
    """

    @property
    def blocks(self) -> int:
        """How many factors the set has."""

    def begin(self) -> tuple[Any, list[Any]]:
        """The first place, and the vertex of every block that it is; only away steps need the latter.

        A block that is a mixture already, or of nothing, says so as `Active`.
        """

    def value(self, x: Any) -> float:
        """The function there."""

    def best(self, x: Any, block: int) -> tuple[Any, float]:
        """The vertex of a block that the slope at `x` likes best, and the gap <slope, x - vertex>."""

    def excess(self, x: Any, block: int, vertex: Any) -> float:
        """How much the slope dislikes a vertex, <slope, vertex - x>; only away steps ask."""

    def length(self, x: Any, block: int, vertex: Any, gap: float, most: float, *, away: bool) -> float:
        """How far to go towards a vertex or away from it, at most `most`, where the slope promises `gap`."""

    def moved(self, x: Any, block: int, vertex: Any, length: float) -> Any:
        """The place x + length (vertex - x), in this block."""

    def mixed(self, x: Any, block: int, active: Active) -> Any:
        """`x` with this block made up of vertices; asked after steps away, whose rounding would grow."""

    def key(self, vertex: Any) -> Hashable:
        """What tells vertices apart; only away steps ask."""


@record("active vertices")
class Active(NamedTuple):
    """The vertices a block is a mixture of."""

    vertices: tuple[Any, ...]
    weights: tuple[float, ...]

    def after(self, at: int, vertex: Any, length: float, *, dropped: bool) -> Active:
        """With a step towards `vertex`, which has the number `at` or is new; away for lengths below zero."""
        weights = {k: (1 - length) * w for k, w in enumerate(self.weights)}
        weights[at] = weights.get(at, 0.0) + length
        kept = [k for k, w in weights.items() if w > _NONE and not (dropped and k == at)]
        vertices, total = (*self.vertices, vertex), sum(weights[k] for k in kept)
        return Active(tuple(vertices[k] for k in kept), tuple(weights[k] / total for k in kept))


@record("frank-wolfe")
class FrankWolfeState(NamedTuple):
    """Where the steps have come to."""

    x: Any
    value: float
    active: tuple[Active, ...] = ()  # per block, where there are away steps
    done: int = 0  # steps, those of every block counted
    bound: float = -np.inf  # the largest value - gap: no place is lower if the function is convex


class _Move(NamedTuple):
    """One step that was looked at."""

    vertex: Any
    gap: float  # of the best vertex
    slope: float  # what the step promises, not below the gap
    most: float  # its longest length
    away: int = -1  # the number of the vertex it leads away from


@dataclass(frozen=True, kw_only=True)
class FrankWolfe:
    """Steps to vertices, as the driver sees them.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.optimise.driver import drive
    >>> from credo.optimise.frank_wolfe import FrankWolfe, Polytope
    >>> from credo.optimise.run import Budget
    >>> goal = np.array([0.2, 0.7, 0.4])
    >>> nearest = Polytope(
    ...     lambda x: (0.5 * float(((x - goal) ** 2).sum()), x - goal),
    ...     lambda slope, block: np.eye(3)[slope.argmin()],
    ...     np.eye(3)[0],
    ...     curvature=lambda x, d: float(d @ d),
    ... )
    >>> found = drive(FrankWolfe(away=True), nearest, Budget(tol=1e-12))
    >>> found.state.x.w.round(6).tolist()
    [0.1, 0.6, 0.3]
    """

    away: bool = False  # whether there are steps away from vertices
    steps: Literal["search", "open", "equal"] = "search"  # lengths: search, 2 / (t + 2), alike weights
    delay: int = 0  # steps that count as done already without a search, so that a good start is not lost
    name: str = "frank-wolfe"  # in progress bars

    def __post_init__(self) -> None:
        """Check the options."""
        check.one_of("steps", self.steps, ["search", "open", "equal"])
        check.whole("delay", self.delay, 0)

    def start(self, problem: Any, run: Run) -> Step:
        """The first place of the problem, evaluated; with away steps also the vertices it is made of."""
        x, vertices = problem.begin()
        known = [v if isinstance(v, Active) else Active((v,), (1.0,)) for v in vertices]
        active = tuple(known) if self.away else ()
        return Step(FrankWolfeState(x, problem.value(x), active))

    def advance(self, problem: Any, state: FrankWolfeState, run: Run) -> Step:
        """One step, or one pass over all blocks."""
        if problem.blocks == 1:
            return self._one(problem, state, run)
        order = np.arange(problem.blocks) if run.rng is None else run.rng.permutation(problem.blocks)
        new, gap = state, 0.0
        for block in map(int, order):
            look()
            move = self._move(problem, new, block)
            new, gap = self._take(problem, new, block, move), gap + move.gap
        new = new._replace(value=problem.value(new.x))
        if gap < run.budget.tol:
            gap = sum(problem.best(new.x, block)[1] for block in range(problem.blocks))
            new = new._replace(bound=max(new.bound, new.value - gap))
        return Step(new, [gap], {"value": [new.value], "gap": [gap]})

    def _one(self, problem: Any, state: FrankWolfeState, run: Run) -> Step:
        """The gap is that of the place before; where it is small enough, that place is the answer."""
        move = self._move(problem, state, 0)
        new = state._replace(bound=max(state.bound, state.value - move.gap))
        if move.gap >= run.budget.tol:
            new = self._take(problem, new, 0, move)
            new = new._replace(value=problem.value(new.x))
        return Step(new, [move.gap], {"value": [new.value], "gap": [move.gap]})

    def _move(self, problem: Any, state: FrankWolfeState, block: int) -> _Move:
        """Towards the best vertex, or away from the worst one."""
        vertex, gap = problem.best(state.x, block)
        move = _Move(vertex, gap, gap, 1.0)
        if not self.away or len(state.active[block].vertices) <= 1:
            return move
        active = state.active[block]
        excess = [problem.excess(state.x, block, v) for v in active.vertices]
        worst = int(np.argmax(excess))
        if excess[worst] <= gap:
            return move
        weight = active.weights[worst]
        return _Move(active.vertices[worst], gap, excess[worst], weight / (1 - weight), worst)

    def _take(self, problem: Any, state: FrankWolfeState, block: int, move: _Move) -> FrankWolfeState:
        is_away = move.away >= 0
        if self.steps == "open":
            n = problem.blocks
            length = min(2 * n / (state.done + self.delay + 2 * n), move.most)
        elif self.steps == "equal":
            n = len(state.active[block].vertices) if self.away else state.done + self.delay
            length = move.most if is_away else 1 / (n + 1)
        else:
            length = problem.length(state.x, block, move.vertex, move.slope, move.most, away=is_away)
        if not self.away:
            x = problem.moved(state.x, block, move.vertex, length)
            return state._replace(x=x, done=state.done + 1)
        mine = state.active[block]
        at = move.away if is_away else _number(problem, mine, move.vertex)
        dropped = is_away and length >= _FULL * move.most
        mine = mine.after(at, move.vertex, -length if is_away else length, dropped=dropped)
        if is_away:
            x = problem.mixed(state.x, block, mine)
        else:
            x = problem.moved(state.x, block, move.vertex, length)
        active = (*state.active[:block], mine, *state.active[block + 1 :])
        return state._replace(x=x, active=active, done=state.done + 1)

    def value(self, state: FrankWolfeState) -> float:
        """Minus the function, because drivers take larger values to be better."""
        return -state.value

    def read(self, problem: Any, outcome: Outcome) -> Outcome:
        """What the driver knows."""
        return outcome


def _number(problem: Any, active: Active, vertex: Any) -> int:
    """Of a vertex among the active ones; the next number if it is new."""
    mine = problem.key(vertex)
    keys = [problem.key(v) for v in active.vertices]
    return keys.index(mine) if mine in keys else len(keys)


@record("place in a polytope")
class Place(NamedTuple):
    """An array, and the function there."""

    w: np.ndarray
    value: float
    slope: np.ndarray


@dataclass(frozen=True)
class Polytope:
    """A function of an array whose vertices an oracle names."""

    function: Callable[[np.ndarray], tuple[float, np.ndarray]]  # value and slope
    oracle: Callable[[np.ndarray, int], np.ndarray]  # slope of a block, its number -> the lowest vertex
    first: np.ndarray  # a vertex; with several blocks one per row
    blocks: int = 1  # factors of a product of polytopes, each with vertices of its own
    curvature: Callable[[np.ndarray, np.ndarray], float] | None = None  # x, d -> d' H d: exact on quadratics
    search: Literal["golden", "halving"] = "golden"  # of functions without that

    def begin(self) -> tuple[Place, list[np.ndarray]]:
        """The first vertices."""
        return self._at(self.first), [self.first] if self.blocks == 1 else list(self.first)

    def _at(self, w: np.ndarray) -> Place:
        return Place(w, *self.function(w))

    def _own(self, array: np.ndarray, block: int) -> np.ndarray:
        return array if self.blocks == 1 else np.asarray(array[block])

    def value(self, x: Place) -> float:
        """The function there."""
        return x.value

    def best(self, x: Place, block: int) -> tuple[np.ndarray, float]:
        """What the oracle names."""
        slope = self._own(x.slope, block)
        vertex = self.oracle(slope, block)
        return vertex, float((slope * (self._own(x.w, block) - vertex)).sum())

    def excess(self, x: Place, block: int, vertex: np.ndarray) -> float:
        """How much the slope dislikes a vertex."""
        return float((self._own(x.slope, block) * (vertex - self._own(x.w, block))).sum())

    def length(
        self, x: Place, block: int, vertex: np.ndarray, gap: float, most: float, *, away: bool
    ) -> float:
        """The lowest place on the line."""
        d = self._along(x.w, block, vertex, -1.0 if away else 1.0)
        if self.curvature is not None:
            bend = self.curvature(x.w, d)
            return min(most, gap / bend) if bend > 0 else most
        if self.search == "golden":
            return float(golden_section(lambda g: self.function(x.w + g * d)[0], 0.0, most))
        found = backtrack(
            lambda g: self.function(x.w + g * d)[0], lambda value, g: falls(value, x.value, -g * gap), most
        )
        return 0.0 if found is None else found[1]

    def moved(self, x: Place, block: int, vertex: np.ndarray, length: float) -> Place:
        """A step along the line."""
        return self._at(x.w + self._along(x.w, block, vertex, length))

    def mixed(self, x: Place, block: int, active: Active) -> Place:
        """A mixture of vertices."""
        mine = np.tensordot(active.weights, np.stack(active.vertices), 1)
        if self.blocks == 1:
            return self._at(mine)
        w = x.w.copy()
        w[block] = mine
        return self._at(w)

    def _along(self, w: np.ndarray, block: int, vertex: np.ndarray, length: float) -> np.ndarray:
        if self.blocks == 1:
            return length * (vertex - w)
        way = np.zeros_like(w)
        way[block] = length * (vertex - w[block])
        return way

    def key(self, vertex: np.ndarray) -> bytes:
        """The bytes of the vertex, by which equal vertices are told."""
        return np.ascontiguousarray(vertex).tobytes()
