"""Where methods start that move through the values of variables: places and scales (`located`), and refusals.

A profile that does not fall, or a product that does not fall when all variables of a connected part move
together, has no finite integral, and neither has a product of Gaussian factors whose precision matrix is not
positive definite (given some joint state, where factors are Gaussian given states), nor one that does not
fall, per unit of the logarithm, towards a face or a corner of a simplex: such models are refused, the
variable named. The free coordinate of a value is looked at as far as values can be told apart, and must fall
before. Other directions are looked at by methods that have gone a long way along them (`refuse_flat_along`).

Positive numbers that move together keep their ratios. Where factors tie them to each other (a ridge x = y of
constant width) the product of their volumes |dx / du| would count a width that grows with the numbers: of
those that fall off a cliff when they move alone, only the largest volume counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ...core.domain import Discrete, FreeCoordinate, Real, Simplex
from ...core.errors import ModelError
from ...core.factor_graph import FactorGraph
from ...core.free import Volume
from ...core.groups import FactorBatch
from ...structures.graph import component_labels
from .gaussian_system import refuse_improper
from .given_states import refuse_improper_states
from .located import Places, places_of, profiles, real_axes, together

__all__ = ["Places", "refuse_flat_along", "starting_places"]

_NEAR, _FAR = 1e3, 1e6  # scales out at which a density must have fallen
_BEFORE, _LEAST = 0.3, 3.0  # before the last place where values are told apart: share of the way, and nats
_DROP = 0.05  # nats that count as falling there
_CLIFF = 30.0  # nats that a product loses where a tied number moves alone by a nat
_MOVED = 0.5  # scales: connected parts that move less are not looked at
_EDGES = np.array([1e-8, 1e-12])  # coordinates of a simplex between which it must fall
_WIDEST = 64  # coordinates of a simplex whose edges are looked at
_FALL = 1e-6  # concentration that counts as falling
_AT_ONCE = 1 << 22  # numbers held together


def starting_places(graph: FactorGraph) -> Places:
    """Look at the profiles of all real variables; refuse a model that has no integral."""
    refuse_improper(graph)
    refuse_improper_states(graph)
    found = places_of(graph)
    real = np.array([isinstance(d, Real) for d in graph.variables.domains], bool)
    if real.any():
        pieces = [(g, j) for g in graph.batches for j in real_axes(g)]
        line = _line(graph, found, found.scale)
        for i in np.flatnonzero(real & _is_flat(profiles(graph, pieces, found, line), _needed(graph, line))):
            what = f"variable '{graph.variables.names[int(i)]}': the product of its factors does not fall"
            raise _no_integral(what, is_free=not isinstance(graph.variables.domains[int(i)], FreeCoordinate))
        refuse_flat_along(graph, found, found.scale)
    widths = {d.width for d in graph.variables.domains if isinstance(d, Simplex)}
    for width in sorted(w for w in widths if 1 < w <= _WIDEST):
        _refuse_edges(graph, found, width)
    return found


def _line(graph: FactorGraph, found: Places, direction: np.ndarray) -> np.ndarray:
    """Four values of every variable, (n, 4): far out, near, near on the other side, far."""
    x = found.centre[:, None] + direction[:, None] * np.array([-_FAR, -_NEAR, _NEAR, _FAR])
    limited = list(_limited(graph))
    ways: dict[
        FreeCoordinate, np.ndarray
    ] = {}  # the same of all with the same ends: values keep their ratios
    for i, domain in limited:
        ends = np.array([domain.low, domain.high])
        own = np.maximum(_BEFORE * np.abs(ends - found.centre[i]), _LEAST)
        ways[domain] = np.minimum(ways.get(domain, own), own)
    for i, domain in limited:
        ends = np.array([domain.low, domain.high])
        near = ends - np.sign(ends) * ways[domain]
        line = np.array([ends[0], near[0], near[1], ends[1]])
        x[i] = line[:: -1 if direction[i] < 0 else 1] if direction[i] else found.centre[i]
    return x


def _limited(graph: FactorGraph) -> Iterator[tuple[int, FreeCoordinate]]:
    if any(isinstance(d, FreeCoordinate) for d in graph.variables.continuous):
        pairs = enumerate(graph.variables.domains)
        yield from ((i, d) for i, d in pairs if isinstance(d, FreeCoordinate))


def _needed(graph: FactorGraph, line: np.ndarray) -> np.ndarray:
    """By how much the log of every profile has to fall on both sides, (n, 2)."""
    needed = np.full((len(line), 2), math.log(_FAR / _NEAR))
    for i, _ in _limited(graph):
        needed[i] = _DROP
    return needed


def refuse_flat_along(graph: FactorGraph, found: Places, direction: np.ndarray) -> None:
    """Refuse a model whose density does not fall when all real variables move along a direction, (n,)."""
    x, label = _line(graph, found, direction), _parts(graph)
    least = np.zeros((label.max(initial=0) + 1, 2))
    np.maximum.at(least, label, _needed(graph, x))
    real = np.array([isinstance(d, Real) for d in graph.variables.domains], bool)
    real &= np.isin(label, label[real & (np.abs(direction) > _MOVED * found.scale)])
    whole = np.zeros((label.max(initial=0) + 1, x.shape[1]))
    for group in graph.batches:
        axes = real_axes(group)
        if axes:
            values = together(graph, group, {j: x[group.scopes[:, j]] for j in axes}, found)
            np.add.at(whole, label[group.scopes[:, axes[0]]], values)
    if (real & _is_flat(whole, least)[label]).any():
        whole[:, [0, 3]] -= _not_free(graph, found, x, label)
    for i in np.flatnonzero(real & _is_flat(whole, least)[label]):
        names = [graph.variables.names[int(j)] for j in np.flatnonzero(real & (label == label[i]))[:3]]
        what = f"variables {names}: the product of all factors does not fall when they move together"
        raise _no_integral(what)


def _not_free(graph: FactorGraph, found: Places, x: np.ndarray, label: np.ndarray) -> np.ndarray:
    """By how much the volumes of tied variables grow on the way out besides the largest, (parts, 2)."""
    grown = np.zeros((len(x), 2))
    for group in graph.batches:
        if isinstance(group.function, Volume) and group.scopes.shape[1] == 1:
            values = group.function.log_volume([x[group.scopes[:, 0]]], group.parameters[-1][:, None])
            grown[group.scopes[:, 0]] += np.maximum(values[:, [0, 3]] - values[:, [1, 2]], 0.0)
    pieces = [(g, j) for g in graph.batches for j in real_axes(g)]
    for side, (near, far) in enumerate(((1, 0), (2, 3))):
        held = replace(found, centre=x[:, far])
        alone = x[:, far] + np.sign(x[:, near] - x[:, far])
        values = profiles(graph, pieces, held, np.stack([alone, x[:, far]], axis=1))
        with np.errstate(invalid="ignore"):
            grown[~(values[:, 1] - values[:, 0] > _CLIFF), side] = 0.0
    total, largest = np.zeros((2, label.max(initial=0) + 1, 2))
    np.add.at(total, label, grown)
    np.maximum.at(largest, label, grown)
    return np.asarray(total - largest)


def _refuse_edges(graph: FactorGraph, found: Places, width: int) -> None:
    """Refuse a product that falls no faster than 1/t where coordinates of a simplex go to zero like t."""
    going = np.concatenate([np.eye(width, dtype=bool), ~np.eye(width, dtype=bool)])  # faces, then corners
    small = np.where(going[:, None], _EDGES[:, None], 0.0)  # (cases, edges, width)
    rest = (1 - small.sum(axis=-1, keepdims=True)) / (~going).sum(axis=-1)[:, None, None]
    x = np.where(going[:, None], small, rest).reshape(-1, width)
    volume = np.log(_EDGES) * going.sum(axis=-1, keepdims=True)  # per unit of the logarithm
    height = np.tile(volume.ravel(), (len(graph.variables), 1))
    for group in graph.batches:
        for j in (j for j, d in enumerate(group.domains) if isinstance(d, Simplex) and d.width == width):
            for some in _parts_of(group, x.size):
                at = np.broadcast_to(x, (len(some.scopes), *x.shape))
                np.add.at(height, some.scopes[:, j], together(graph, some, {j: at}, found))
    with np.errstate(invalid="ignore"):
        drops = height[:, 0::2] - height[:, 1::2]
    mine = np.array([isinstance(d, Simplex) and d.width == width for d in graph.variables.domains], bool)
    for i in np.flatnonzero(mine & (drops < _FALL * np.log(_EDGES[0] / _EDGES[1])).any(axis=1)):
        name = graph.variables.names[int(i)]
        raise ModelError(
            f"variable '{name}': the product of its factors grows towards an edge of the simplex so fast "
            "that it has no finite integral; add a factor that falls there, such as potentials.dirichlet"
        )


def _parts_of(group: FactorBatch, size: int) -> Iterator[FactorBatch]:
    """Factors of a group a few at a time, where each holds `size` numbers per joint state of its others."""
    states = math.prod(d.size for d in group.domains if isinstance(d, Discrete))
    step = max(1, _AT_ONCE // (size * states))
    for first in range(0, len(group.factors), step):
        rows = slice(first, first + step)
        parameters = tuple(p[rows] for p in group.parameters)
        yield replace(group, factors=group.factors[rows], scopes=group.scopes[rows], parameters=parameters)


def _is_flat(height: np.ndarray, needed: np.ndarray) -> np.ndarray:
    """Whether rows of log values at -far, -near, near and far fall by less than is needed on one side."""
    with np.errstate(invalid="ignore"):
        drops = height[:, [1, 2]] - height[:, [0, 3]]
    return np.asarray((drops < needed).any(axis=1))


def _no_integral(what: str, *, is_free: bool = True) -> ModelError:
    where, such = "infinity", ", such as potentials.gaussian"
    if not is_free:
        where, such = "an end of its domain", " there"
    return ModelError(
        f"{what} towards {where}, so that it has no finite integral; add a factor that falls off{such}"
    )


def _parts(graph: FactorGraph) -> np.ndarray:
    """A number per variable, the same within connected parts."""
    pairs = [(scope[0], j) for scope in graph.scopes for j in scope[1:]]
    row, column = np.array(pairs, np.int64).reshape(-1, 2).T
    return component_labels(len(graph.variables), row, column)
