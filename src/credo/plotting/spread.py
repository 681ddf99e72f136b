"""Where to put the nodes of an undirected drawing: distances on paper follow distances in the graph.

Each connected part is placed by stress majorisation: the sum over pairs of (|x_i - x_j| / d_ij - 1)^2, d the
length of the shortest path, falls with every step, and a step is a linear system whose matrix never changes.
It begins at the classical scaling of some columns of d, which unfolds grids, rings and trees at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["shelves", "spread"]

PIVOTS = 50  # columns of distances that the first places are made from
MOST_STEPS = 150
WORK = 6e7  # pairs times steps: a few seconds
SETTLED = 1e-4  # relative fall of the stress at which a picture no longer changes visibly
MARGIN = 1.25  # of the room a node takes over its size
CLEAR = 0.95  # share of the nodes that must not overlap
MOST_STRETCH = 3.0  # beyond this factor a few overlaps are better than a larger sheet
PAGE = 1.5  # width over height of a sheet of several parts


def spread(sizes: np.ndarray, edges: Sequence[tuple[int, int]], edge_length: float) -> np.ndarray:
    """Centres (n, 2) of nodes of these widths and heights in inches; connected parts stand side by side."""
    from scipy.sparse.csgraph import connected_components

    n = len(sizes)
    if n == 0:
        return np.zeros((0, 2))
    lengths = _edge_lengths(n, edges)
    count, part = connected_components(lengths, directed=False)
    places, boxes = np.zeros((n, 2)), []
    members = sorted((np.flatnonzero(part == k) for k in range(count)), key=lambda m: (-len(m), m[0]))
    for one in members:
        found = _place(lengths[one][:, one], sizes[one], edge_length)
        low, high = (found - sizes[one] / 2).min(axis=0), (found + sizes[one] / 2).max(axis=0)
        places[one] = found - [low[0], high[1]]
        boxes.append(high - low)
    for one, corner in zip(members, shelves(np.array(boxes)), strict=True):
        places[one] += corner
    return places


def _edge_lengths(n: int, edges: Sequence[tuple[int, int]]) -> Any:
    """Length per edge: the more neighbours its ends have apart, the longer, so that hubs get room."""
    from scipy.sparse import csr_array

    if not edges:
        return csr_array((n, n))
    ends = np.array(edges, dtype=np.int64)
    both = np.concatenate([ends, ends[:, ::-1]])
    joined = csr_array((np.ones(len(both)), (both[:, 0], both[:, 1])), shape=(n, n))
    degree = joined.sum(axis=1)
    shared = np.asarray((joined @ joined)[both[:, 0], both[:, 1]]).ravel()
    apart = degree[both[:, 0]] + degree[both[:, 1]] - 2 * shared
    return csr_array((np.sqrt(np.maximum(apart, 1.0)), (both[:, 0], both[:, 1])), shape=(n, n))


def _place(lengths: Any, sizes: np.ndarray, edge_length: float) -> np.ndarray:
    """One connected part."""
    from scipy.sparse.csgraph import shortest_path

    if len(sizes) == 1:
        return np.zeros((1, 2))
    distances = shortest_path(lengths, directed=False)
    points = _level(_majorise(distances, _first_places(distances)))
    i, j = lengths.nonzero()
    points *= edge_length / float(np.median(np.linalg.norm(points[i] - points[j], axis=1)))
    return points * _stretch(points, sizes)


def _first_places(distances: np.ndarray) -> np.ndarray:
    """Classical scaling from a few pivots, each the farthest from those before."""
    nearest = distances[0].copy()
    pivots = [0]
    while len(pivots) < min(PIVOTS, len(distances)):
        pivots.append(int(nearest.argmax()))
        nearest = np.minimum(nearest, distances[pivots[-1]])
    squares = distances[:, pivots] ** 2
    centred = squares - squares.mean(axis=0) - squares.mean(axis=1, keepdims=True) + squares.mean()
    _, vectors = np.linalg.eigh(centred.T @ centred)
    found = centred @ vectors[:, -2:]
    size = np.sqrt((distances**2).mean() / max(2 * found.var(axis=0).sum(), 1e-300))
    # Nodes that look alike from every pivot would stay on one spot: a pair at no distance exerts no force.
    turn = 2.4 * np.arange(len(found))
    nudge = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    return found * size + 0.05 * nudge


def _majorise(distances: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The places whose distances are relatively closest to the wanted ones, near the given places."""
    from scipy.linalg import cho_factor, cho_solve

    n = len(distances)
    np.fill_diagonal(distances, 1.0)
    weights = distances**-2
    np.fill_diagonal(weights, 0.0)
    laplacian = np.diag(weights.sum(axis=1)) - weights
    factor = cho_factor(laplacian[1:, 1:])  # the first node stays: only differences count
    before = np.inf
    for _ in range(int(min(MOST_STEPS, max(10, WORK / n**2)))):
        apart = np.linalg.norm(points[:, None] - points[None], axis=2)
        stress = float((weights * (apart - distances) ** 2).sum())
        if before - stress <= SETTLED * stress:
            break
        before = stress
        np.fill_diagonal(apart, 1.0)
        pull = weights * distances / np.maximum(apart, 1e-9)
        force = pull.sum(axis=1)[:, None] * points - pull @ points
        points = np.concatenate([np.zeros((1, 2)), cho_solve(factor, force[1:])])
    return points


def _stretch(points: np.ndarray, sizes: np.ndarray) -> float:
    """The factor that frees nearly all nodes from overlaps."""
    apart = np.abs(points[:, None] - points[None])
    wanted = (sizes[:, None] + sizes[None]) / 2 * MARGIN
    factor = (wanted / np.maximum(apart, 1e-9)).min(axis=2)
    np.fill_diagonal(factor, 0.0)
    return float(np.clip(np.quantile(factor.max(axis=1), CLEAR), 1.0, MOST_STRETCH))


def _level(points: np.ndarray) -> np.ndarray:
    """Turned so that the longest direction is horizontal: pages are wider than high."""
    centred = points - points.mean(axis=0)
    _, stretch, turn = np.linalg.svd(centred, full_matrices=False)
    return np.asarray(centred @ turn.T) if len(stretch) == 2 else centred


def shelves(boxes: np.ndarray, width: float | None = None, gap: float = 0.3) -> np.ndarray:
    """Upper left corners of boxes in rows of this width, by default that of a page which holds them all."""
    page = float(np.sqrt(PAGE * np.prod(boxes + gap, axis=1).sum())) if width is None else width
    widest = max(page, float(boxes[:, 0].max()))
    corners, x, y, tallest = np.zeros((len(boxes), 2)), 0.0, 0.0, 0.0
    for k, (wide, high) in enumerate(boxes):
        if x > 0 and x + wide > widest:
            x, y, tallest = 0.0, y - tallest - gap, 0.0
        corners[k] = x, y
        x, tallest = x + wide + gap, max(tallest, float(high))
    return corners
