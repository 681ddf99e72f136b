"""Where Bethe variational inference starts: the place and the scale of every real variable.

The profile of a variable is the product of its factors along the line. First only factors count that have no
other continuous variable (discrete ones are summed out); where these say nothing, all factors do, the other
variables at their places. A search by rising resolution finds where the profile is within ten nats of its
top; its mean and standard deviation there are the place and the scale.

A profile that does not fall, or a product that does not fall when all variables of a connected part move
together, has no finite integral: such a model is refused, the variable named.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from ...core.density import double_precision
from ...core.domain import Discrete, Real
from ...core.errors import ModelError
from ...core.hybrid_graph import FactorGroup, HybridGraph
from ...nn.arrays import precision
from ...nn.compiled import Compiled
from ..potentials import group_function

__all__ = ["Places", "places_of"]

_SIDE = np.geomspace(1e-3, 1e6, 28)
_FIRST = np.concatenate([-_SIDE[::-1], [0.0], _SIDE])  # where profiles are looked at first
_DROP = 10.0  # nats below the top that still belong to a profile
_ZOOMS = 12
_ROUNDS = 3  # searches in which variables without factors of their own find their places
_STATES = 512  # joint states of discrete neighbours that are summed out
_FEW = 32  # factors that are called one by one instead of being compiled
_NEAR, _FAR = 1e3, 1e6  # scales out at which a density must have fallen


class Places:
    """Place and scale of every variable; zero and one for those that are not real."""

    def __init__(self, count: int) -> None:
        self.centre, self.scale = np.zeros(count), np.ones(count)
        self.known = np.zeros(count, bool)  # whether a profile was found


def places_of(graph: HybridGraph) -> Places:
    """Look at the profiles of all real variables; refuse a model that has no integral."""
    variables = graph.variables
    found = Places(len(variables))
    real = np.array([isinstance(d, Real) for d in variables.domains], bool)
    if not real.any():
        return found
    alone = [(g, j) for g in graph.groups for j in _axes(g) if sum(map(_is_continuous, g.domains)) == 1]
    every = [(g, j) for g in graph.groups for j in _axes(g)]
    _search(graph, alone, found, real)
    rest = real & ~found.known
    for _ in range(_ROUNDS if rest.any() else 0):
        _search(graph, every, found, rest)
    _refuse_flat(graph, every, found, real)
    return found


def _is_continuous(domain: Any) -> bool:
    return not isinstance(domain, Discrete)


def _axes(group: FactorGroup) -> list[int]:
    return [j for j, d in enumerate(group.domains) if isinstance(d, Real)]


def _search(graph: HybridGraph, pieces: Any, found: Places, wanted: np.ndarray) -> None:
    x = np.tile(_FIRST, (len(wanted), 1))
    for step in range(_ZOOMS):
        height = _profiles(graph, pieces, found, x)
        top = height.max(axis=1, keepdims=True)
        good = height > np.where(np.isfinite(top), top, np.inf) - _DROP
        low = np.maximum(good.argmax(axis=1) - 1, 0)
        high = np.minimum(x.shape[1] - good[:, ::-1].argmax(axis=1), x.shape[1] - 1)
        if step == 0:
            wanted = wanted & good.any(axis=1) & ~good[:, 0] & ~good[:, -1]
        row = np.arange(len(x))
        if (good.sum(axis=1)[wanted] > x.shape[1] // 3).all() and step > 0:
            break
        ends = np.where(wanted[:, None], np.stack([x[row, low], x[row, high]], axis=1), [[-1.0, 1.0]])
        x = np.linspace(ends[:, 0], ends[:, 1], x.shape[1], axis=1)
    height = _profiles(graph, pieces, found, x)[wanted]
    weight = np.exp(height - height.max(axis=1, keepdims=True))
    weight /= weight.sum(axis=1, keepdims=True)
    centre = (weight * x[wanted]).sum(axis=1)
    spread = np.sqrt((weight * (x[wanted] - centre[:, None]) ** 2).sum(axis=1))
    found.centre[wanted] = centre
    found.scale[wanted] = np.maximum(spread, np.diff(x[wanted], axis=1).max(axis=1, initial=0.0))
    found.known |= wanted


def _profiles(graph: HybridGraph, pieces: Any, found: Places, x: np.ndarray) -> np.ndarray:
    """Sum of the log-potentials along x, (variables, points), the others at their places."""
    total = np.zeros_like(x)
    for group, axis in pieces:
        values = _along(graph, group, {axis: x[group.scopes[:, axis]]}, found)
        np.add.at(total, group.scopes[:, axis], values)
    return total


def _along(graph: HybridGraph, group: FactorGroup, moved: dict[int, np.ndarray], found: Places) -> np.ndarray:
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
            own = np.full((count, points, len(states), domain.width), 1 / domain.width)
        columns.append(own)
    values = _values(graph, group, columns)
    # A function may fail a long way out; there it says nothing, as a zero weight does.
    values = np.where(values < np.inf, values, -np.inf)
    return np.asarray(np.logaddexp.reduce(values, axis=-1))


_PROGRAM = Compiled(lambda columns, parameters, function: function(columns, parameters))


def _values(graph: HybridGraph, group: FactorGroup, columns: list[np.ndarray]) -> np.ndarray:
    if len(group.factors) > _FEW:
        with precision(double=True):
            return np.asarray(_PROGRAM(tuple(columns), group.parameters, function=group_function(group)))
    with double_precision(), np.errstate(all="ignore"):
        rows = [
            np.broadcast_to(
                np.asarray(group.function(*(c[a] for c in columns), *(p[a] for p in group.parameters))),
                columns[0].shape[1:3],
            )
            for a in range(len(group.factors))
        ]
    return np.stack(rows).astype(np.float64)


def _refuse_flat(graph: HybridGraph, pieces: Any, found: Places, real: np.ndarray) -> None:
    x = found.centre[:, None] + found.scale[:, None] * np.array([-_FAR, -_NEAR, _NEAR, _FAR])
    for i in np.flatnonzero(real & _is_flat(_profiles(graph, pieces, found, x))):
        name = graph.variables.names[int(i)]
        raise _no_integral(f"variable '{name}': the product of its factors does not fall")
    label = _parts(graph)
    together = np.zeros((label.max(initial=0) + 1, x.shape[1]))
    for group in graph.groups:
        axes = _axes(group)
        if axes:
            values = _along(graph, group, {j: x[group.scopes[:, j]] for j in axes}, found)
            np.add.at(together, label[group.scopes[:, axes[0]]], values)
    for i in np.flatnonzero(real & _is_flat(together)[label]):
        names = [graph.variables.names[int(j)] for j in np.flatnonzero(real & (label == label[i]))[:3]]
        what = f"variables {names}: the product of all factors does not fall when they move together"
        raise _no_integral(what)


def _is_flat(height: np.ndarray) -> np.ndarray:
    """Whether rows of log values at -far, -near, near and far fall no faster than 1/|x| on one side."""
    with np.errstate(invalid="ignore"):
        drops = height[:, [1, 2]] - height[:, [0, 3]]
    return np.asarray((drops < math.log(_FAR / _NEAR)).any(axis=1))


def _no_integral(what: str) -> ModelError:
    return ModelError(
        f"{what} towards infinity, so that it has no finite integral; "
        "add a factor that falls off, such as potentials.gaussian"
    )


def _parts(graph: HybridGraph) -> np.ndarray:
    """A number per variable, the same within connected parts."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    n = len(graph.variables)
    pairs = [(scope[0], j) for scope in graph.scopes for j in scope[1:]]
    row, column = np.array(pairs, np.int64).reshape(-1, 2).T
    matrix = coo_matrix((np.ones(len(row)), (row, column)), shape=(n, n))
    return np.asarray(connected_components(matrix, directed=False)[1])
