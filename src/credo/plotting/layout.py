"""Where to put the nodes of a directed drawing, and which graphs are grids. Positions are in inches.

Directed models are drawn in layers (parents above children): long edges get a helper point in
each layer they cross, layers are ordered by the means of their neighbours, and each layer is
then moved as close to its neighbours as the widths allow (a least-squares problem with minimal
gaps, solved exactly by pooling).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

__all__ = ["LayeredLayout", "lattice_columns", "place_layers"]

GAP = 0.28  # between neighbours in a layer
SWEEPS = 24  # passes up and down; orders settle within a few


@dataclass(frozen=True)
class LayeredLayout:
    """Positions of the variables and the points every edge passes."""

    positions: np.ndarray  # (n, 2)
    routes: list[np.ndarray]  # per edge: (points, 2), from the parent's centre to the child's


def place_layers(
    widths: Sequence[float],
    edges: Sequence[tuple[int, int]],
    spacing: float = 0.95,
    gap: float = GAP,
) -> LayeredLayout:
    """Layers from top to bottom for the edges (parent, child) of an acyclic graph."""
    rank = _ranks(len(widths), edges)
    rooms, ranks = [width + gap for width in widths], list(rank)
    chains: list[list[int]] = []
    links: list[tuple[int, int]] = []
    for parent, child in edges:
        chain = [parent]
        for between in range(rank[parent] + 1, rank[child]):
            chain.append(len(rooms))
            rooms.append(min(0.33, 1.2 * gap))
            ranks.append(between)
        chain.append(child)
        chains.append(chain)
        links += pairwise(chain)
    layers = [[i for i in range(len(ranks)) if ranks[i] == r] for r in range(max(ranks, default=-1) + 1)]
    x = _across(layers, links, np.array(rooms))
    points = np.stack([x, -spacing * np.array(ranks, dtype=np.float64)], axis=1)
    return LayeredLayout(points[: len(widths)], [points[chain] for chain in chains])


def _ranks(n: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Longest path from a root; roots then sink to just above their highest child."""
    children: list[list[int]] = [[] for _ in range(n)]
    waiting = [0] * n
    for parent, child in edges:
        children[parent].append(child)
        waiting[child] += 1
    is_root = [count == 0 for count in waiting]
    rank, ready = [0] * n, [i for i in range(n) if is_root[i]]
    while ready:
        i = ready.pop()
        for j in children[i]:
            rank[j] = max(rank[j], rank[i] + 1)
            waiting[j] -= 1
            if waiting[j] == 0:
                ready.append(j)
    for i in range(n):
        if is_root[i] and children[i]:
            rank[i] = min(rank[j] for j in children[i]) - 1
    return rank


def _across(layers: list[list[int]], links: list[tuple[int, int]], rooms: np.ndarray) -> np.ndarray:
    above: list[list[int]] = [[] for _ in rooms]
    below: list[list[int]] = [[] for _ in rooms]
    for i, j in links:
        above[j].append(i)
        below[i].append(j)
    x = np.zeros(len(rooms))
    for layer in layers:
        x[layer] = _separate(np.zeros(len(layer)), rooms[layer])
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        ordering = sweep < SWEEPS // 2  # first find the orders, then only move
        for r in range(len(layers)) if down else reversed(range(len(layers))):
            layer = layers[r]
            near = above if down else below
            if not ordering:
                near = [a + b for a, b in zip(above, below, strict=True)]
            wanted = np.array([x[near[i]].mean() if near[i] else x[i] for i in layer])
            if ordering:
                order = np.argsort(wanted, kind="stable")
                layers[r] = layer = [layer[k] for k in order]
                wanted = wanted[order]
            x[layer] = _separate(wanted, rooms[layer])
    return x


def _separate(wanted: np.ndarray, rooms: np.ndarray) -> np.ndarray:
    """The places closest to the wanted ones, in this order, without overlap."""
    steps = (rooms[1:] + rooms[:-1]) / 2
    offset = np.concatenate([[0.0], np.cumsum(steps)]) if len(rooms) else np.empty(0)
    blocks: list[tuple[float, int]] = []  # (mean, count), means rising
    for value in wanted - offset:
        mean, count = float(value), 1
        while blocks and blocks[-1][0] > mean:
            other, size = blocks.pop()
            mean, count = (mean * count + other * size) / (count + size), count + size
        blocks.append((mean, count))
    return np.asarray(np.repeat([m for m, _ in blocks], [c for _, c in blocks]) + offset)


def lattice_columns(n: int, edges: set[tuple[int, int]]) -> int | None:
    """Number of columns if the pairs (i < j) are exactly those of a grid numbered row by row."""
    for columns in sorted({j - i for i, j in edges} - {1}):
        if columns < 2 or n % columns:
            continue
        beside = {(i, i + 1) for i in range(n - 1) if (i + 1) % columns}
        if edges == beside | {(i, i + columns) for i in range(n - columns)}:
            return columns
    return None
