"""Where Bethe variational inference starts: the place and the scale of every real variable (`located`).

A profile that does not fall, or a product that does not fall when all variables of a connected part move
together, has no finite integral: such a model is refused, the variable named.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.domain import Real
from ...core.errors import ModelError
from ...core.hybrid_graph import HybridGraph
from ..gaussian_system import refuse_improper
from ..located import Places, places_of, profiles, real_axes, together

__all__ = ["Places", "starting_places"]

_NEAR, _FAR = 1e3, 1e6  # scales out at which a density must have fallen


def starting_places(graph: HybridGraph) -> Places:
    """Look at the profiles of all real variables; refuse a model that has no integral."""
    found = places_of(graph)
    real = np.array([isinstance(d, Real) for d in graph.variables.domains], bool)
    if real.any():
        _refuse_flat(graph, [(g, j) for g in graph.groups for j in real_axes(g)], found, real)
    refuse_improper(graph)
    return found


def _refuse_flat(graph: HybridGraph, pieces: Any, found: Places, real: np.ndarray) -> None:
    x = found.centre[:, None] + found.scale[:, None] * np.array([-_FAR, -_NEAR, _NEAR, _FAR])
    for i in np.flatnonzero(real & _is_flat(profiles(graph, pieces, found, x))):
        name = graph.variables.names[int(i)]
        raise _no_integral(f"variable '{name}': the product of its factors does not fall")
    label = _parts(graph)
    whole = np.zeros((label.max(initial=0) + 1, x.shape[1]))
    for group in graph.groups:
        axes = real_axes(group)
        if axes:
            values = together(graph, group, {j: x[group.scopes[:, j]] for j in axes}, found)
            np.add.at(whole, label[group.scopes[:, axes[0]]], values)
    for i in np.flatnonzero(real & _is_flat(whole)[label]):
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
