"""Where to put the variables and factors of a drawing. Positions are in inches.

Directed models are drawn in layers (parents above children): long edges get a helper point in
each layer they cross, layers are ordered by the means of their neighbours, and each layer is
then moved as close to its neighbours as the widths allow (a least-squares problem with minimal
gaps, solved exactly by pooling). Undirected models use the distances in the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from .style import require

__all__ = ["LayeredLayout", "lattice_columns", "layered", "spread"]

GAP = 0.28  # between neighbours in a layer
SWEEPS = 24  # passes up and down; orders settle within a few
DISTANCE_LIMIT = 150  # nodes up to which placing by graph distances takes well under a second


@dataclass(frozen=True)
class LayeredLayout:
    """Positions of the variables and the points every edge passes."""

    positions: np.ndarray  # (n, 2)
    routes: list[np.ndarray]  # per edge: (points, 2), from the parent's centre to the child's


def layered(
    widths: Sequence[float], edges: Sequence[tuple[int, int]], spacing: float = 0.95
) -> LayeredLayout:
    """Layers from top to bottom for the edges (parent, child) of an acyclic graph."""
    rank = _ranks(len(widths), edges)
    all_widths, ranks = list(widths), list(rank)
    chains: list[list[int]] = []
    links: list[tuple[int, int]] = []
    for parent, child in edges:
        chain = [parent]
        for between in range(rank[parent] + 1, rank[child]):
            chain.append(len(all_widths))
            all_widths.append(0.05)
            ranks.append(between)
        chain.append(child)
        chains.append(chain)
        links += pairwise(chain)
    layers = [[i for i in range(len(ranks)) if ranks[i] == r] for r in range(max(ranks, default=-1) + 1)]
    x = _across(layers, links, np.array(all_widths))
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


def _across(layers: list[list[int]], links: list[tuple[int, int]], widths: np.ndarray) -> np.ndarray:
    above: list[list[int]] = [[] for _ in widths]
    below: list[list[int]] = [[] for _ in widths]
    for i, j in links:
        above[j].append(i)
        below[i].append(j)
    x = np.zeros(len(widths))
    for layer in layers:
        x[layer] = _separate(np.zeros(len(layer)), widths[layer])
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
            x[layer] = _separate(wanted, widths[layer])
    return x


def _separate(wanted: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """The places closest to the wanted ones, in this order, without overlap."""
    steps = (widths[1:] + widths[:-1]) / 2 + GAP
    offset = np.concatenate([[0.0], np.cumsum(steps)]) if len(widths) else np.empty(0)
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


def spread(n: int, edges: Sequence[tuple[int, int]], edge_length: float) -> np.ndarray:
    """Positions of an undirected graph: each connected part on its own, side by side."""
    networkx = require("networkx")
    graph = networkx.Graph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(edges)
    positions, left = np.zeros((n, 2)), 0.0
    parts = sorted(networkx.connected_components(graph), key=lambda part: (-len(part), min(part)))
    singles = [next(iter(part)) for part in parts if len(part) == 1]
    bottom = 0.0
    for part in parts:
        if len(part) == 1:
            continue
        order = sorted(part)
        placed = _place(networkx, graph.subgraph(part), order, edge_length)
        placed -= placed.min(axis=0)
        positions[order] = placed + np.array([left, 0.0])
        left += float(placed[:, 0].max()) + 1.1
    for k, i in enumerate(singles):
        row, column = divmod(k, 10)
        positions[i] = (1.0 * column, bottom - 0.9 * (row + 1))
    return positions


def _place(networkx: Any, part: Any, order: list[int], edge_length: float) -> np.ndarray:
    if len(order) <= DISTANCE_LIMIT:
        places = networkx.kamada_kawai_layout(part)
    else:
        places = networkx.spring_layout(part, seed=0, iterations=100)
    points = np.array([places[i] for i in order])
    points = _level(points)
    spot = {i: k for k, i in enumerate(order)}
    lengths = [np.linalg.norm(points[spot[i]] - points[spot[j]]) for i, j in part.edges]
    typical = float(np.median(lengths))
    return np.asarray(points * (edge_length / typical if typical > 0 else 1.0))


def _level(points: np.ndarray) -> np.ndarray:
    """Turned so that the longest direction is horizontal: pages are wider than high."""
    centred = points - points.mean(axis=0)
    _, stretch, turn = np.linalg.svd(centred, full_matrices=False)
    return np.asarray(centred @ turn.T) if len(stretch) == 2 else centred
