"""From a graph and the sizes of its nodes to a drawing; places that are given are kept."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .drawing import Drawing
from .layout import GAP, lattice_columns, place_layers
from .nodes import DotMark, Node
from .spread import shelves, spread

__all__ = ["Scopes", "arrange_arrows", "arrange_factors", "arrange_pairs"]

Scopes = Sequence[Sequence[int]]  # per factor its variables
Pairs = Sequence[tuple[int, int]]

LAYER_GAP = 0.61  # inches between the tallest nodes of two layers
TALL = 0.5  # a node of this height hides the edges behind it
ARROWHEAD = 0.15
SQUARE = 0.1  # side of a factor
MOST_SPREAD = 2000  # variables and factors together; beyond, factors are put between their variables
DENSE_GAP = 0.08  # between dots of a layer


def arrange_arrows(edges: Pairs, nodes: Sequence[Node], given: np.ndarray | None = None) -> Drawing:
    """Parents above children, in layers; variables without edges in rows below."""
    dense = _is_dense(nodes)
    if given is not None:
        return Drawing(given, [given[[i, j]] for i, j in edges], arrows=edges, is_dense=dense)
    sizes = _sizes(nodes)
    joined = np.array(sorted({i for edge in edges for i in edge}), dtype=np.int64)
    number = {int(i): k for k, i in enumerate(joined)}
    spacing = float(sizes[:, 1].max(initial=0.0)) + LAYER_GAP
    found = place_layers(
        sizes[joined, 0].tolist(),
        [(number[i], number[j]) for i, j in edges],
        spacing,
        DENSE_GAP if dense else GAP,
    )
    points = np.zeros((len(nodes), 2))
    points[joined] = found.positions
    alone = np.setdiff1d(np.arange(len(nodes)), joined)
    if len(alone):
        points[alone] = _below(found.positions, sizes[joined], sizes[alone])
    routes = [
        _through_gaps(route, sizes[i], sizes[j], spacing)
        for route, (i, j) in zip(found.routes, edges, strict=True)
    ]
    return Drawing(points, routes, arrows=edges, is_dense=dense)


def _through_gaps(route: np.ndarray, first: np.ndarray, last: np.ndarray, spacing: float) -> np.ndarray:
    """The route of an edge past tall boxes: out below, in above, straight down where it crosses a layer."""
    half = (spacing - LAYER_GAP) / 2
    if 2 * half <= TALL:
        return route
    points = [route[0], _beside_layer(route[0], route[1], first[0], -half - ARROWHEAD)]
    for x, y in route[1:-1]:
        points += [np.array([x, y + half]), np.array([x, y - half])]
    return np.array([*points, _beside_layer(route[-1], route[-2], last[0], half + ARROWHEAD), route[-1]])


def _beside_layer(centre: np.ndarray, other: np.ndarray, width: float, height: float) -> np.ndarray:
    """The point this far above the centre of a box, near the line to another point but over the box."""
    across, down = other - centre
    reach = 0.4 * width
    return centre + np.array([np.clip(across * height / down, -reach, reach), height])


def _below(above: np.ndarray, sizes: np.ndarray, sizes_alone: np.ndarray) -> np.ndarray:
    """Rows under a drawing and as wide; a page of them if there is no drawing."""
    half = sizes_alone * [0.5, -0.5]
    if not len(above):
        return shelves(sizes_alone) + half
    low, high = (above - sizes / 2).min(axis=0), (above + sizes / 2).max(axis=0)
    return shelves(sizes_alone, width=high[0] - low[0]) + half + [low[0], low[1] - 0.4]


def arrange_pairs(scopes: Scopes, nodes: Sequence[Node], given: np.ndarray | None = None) -> Drawing:
    """A line between every two variables that share a factor."""
    pairs = sorted(_pairs(scopes))
    points = _on_grid(pairs, nodes) if given is None else given
    if points is None:
        points = spread(_sizes(nodes), pairs, _room(nodes))
    return Drawing(points, [points[[i, j]] for i, j in pairs], is_dense=_is_dense(nodes))


def arrange_factors(scopes: Scopes, nodes: Sequence[Node], given: np.ndarray | None = None) -> Drawing:
    """A square per factor, and a line from it to each of its variables."""
    n = len(nodes)
    pairs = sorted(_pairs(scopes))
    points = _on_grid(pairs, nodes) if given is None else given
    if points is None and n + len(scopes) > MOST_SPREAD:
        points = spread(_sizes(nodes), pairs, _room(nodes))
    if points is not None:
        squares = _between(scopes, points)
    else:
        wires = [(i, n + a) for a, scope in enumerate(scopes) for i in scope]
        sizes = np.concatenate([_sizes(nodes), np.full((len(scopes), 2), SQUARE)])
        both = spread(sizes, wires, max(0.25 if _is_dense(nodes) else 0.6, 0.62 * _room(nodes)))
        points, squares = both[:n], both[n:]
    routes = [np.stack([points[i], squares[a]]) for a, scope in enumerate(scopes) for i in scope]
    return Drawing(points, routes, squares, is_dense=_is_dense(nodes))


def _is_dense(nodes: Sequence[Node]) -> bool:
    return any(isinstance(node, DotMark) for node in nodes)


def _sizes(nodes: Sequence[Node]) -> np.ndarray:
    return np.array([node.size for node in nodes]).reshape(-1, 2)


def _room(nodes: Sequence[Node]) -> float:
    """From centre to centre of two joined variables."""
    return float(_sizes(nodes)[:, 0].max(initial=0.0)) + (0.2 if _is_dense(nodes) else 0.35)


def _on_grid(pairs: Pairs, nodes: Sequence[Node]) -> np.ndarray | None:
    """Rows and columns if the pairs are those of a grid."""
    columns = lattice_columns(len(nodes), set(pairs))
    if columns is None:
        return None
    room, height = _room(nodes), float(_sizes(nodes)[:, 1].max())
    step = np.array([room, max(0.8 * room, height + 0.11)])
    return np.array([(i % columns, -(i // columns)) for i in range(len(nodes))]) * step


def _between(scopes: Scopes, points: np.ndarray) -> np.ndarray:
    """Factors in the middle of their variables; factors of one variable above and to the right."""
    middle = np.zeros((len(scopes), 2))
    for a, scope in enumerate(scopes):
        middle[a] = points[list(scope)].mean(axis=0) if len(scope) else 0.0
        if len(scope) == 1:
            middle[a] += [0.3, 0.3]
    return middle


def _pairs(scopes: Scopes) -> set[tuple[int, int]]:
    pairs = set()
    for scope in scopes:
        ordered = sorted(scope)
        pairs |= {(i, j) for k, i in enumerate(ordered) for j in ordered[k + 1 :]}
    return pairs
