"""Faces of planar graphs.

A planar graph is drawn without crossings; its faces are the loops around the empty areas. The bounded
faces of each biconnected part are a tree-robust cycle basis. Which face is the outer (infinite) one
depends on the drawing: here it is the longest face of the part, on a grid the rim.

Grids numbered row by row are recognised and need no search; other graphs are drawn by NetworkX.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.errors import MissingExtraError
from .cycles import Loop, blocks, single_loop
from .graph import UndirectedGraph

__all__ = ["lattice_columns", "planar_faces"]


def planar_faces(graph: UndirectedGraph, *, infinite: bool = False) -> list[Loop] | None:
    """The bounded faces of a planar graph, or None if it is not planar.

    Parameters
    ----------
    graph
        Any undirected graph; bridges and isolated variables lie on no face.
    infinite
        Whether to add the outer face of each biconnected part (if it differs from the others).

    Examples
    --------
    >>> from credo.structures import UndirectedGraph, planar_faces
    >>> edges = map(tuple, ["ab", "bc", "ad", "be", "cf", "de", "ef"])
    >>> planar_faces(UndirectedGraph.from_edges(edges, "abcdef"))
    [(0, 1, 4, 3), (1, 2, 5, 4)]
    """
    columns = lattice_columns(graph)
    if columns is not None:
        return _lattice_faces(len(graph) // columns, columns, infinite)
    found: list[Loop] = []
    for part in blocks(graph):
        faces = _faces(part) if len(part) > 1 else []
        if faces is None:
            return None
        if faces:
            outer = max(range(len(faces)), key=lambda k: (len(faces[k]), k))
            last = faces.pop(outer)
            found += faces
            if infinite and len(faces) > 1:
                found.append(last)
    return found


def lattice_columns(graph: UndirectedGraph) -> int | None:
    """Number of columns if the graph is a grid of at least 2 x 2 numbered row by row, else None."""
    n, edges = len(graph), graph.edge_positions
    for columns in np.unique(edges[:, 1] - edges[:, 0]).tolist():
        if not 2 <= columns <= n // 2 or n % columns:
            continue
        at = np.arange(n).reshape(-1, columns)
        across = np.stack([at[:, :-1].ravel(), at[:, 1:].ravel()], axis=1)
        down = np.stack([at[:-1].ravel(), at[1:].ravel()], axis=1)
        expected = np.concatenate([across, down])
        if len(expected) == len(edges):
            expected = expected[np.lexsort((expected[:, 1], expected[:, 0]))]
            if np.array_equal(expected, edges):
                return int(columns)
    return None


def _lattice_faces(rows: int, columns: int, infinite: bool) -> list[Loop]:
    at = np.arange(rows * columns).reshape(rows, columns)
    squares = np.stack([at[:-1, :-1], at[:-1, 1:], at[1:, 1:], at[1:, :-1]], axis=-1).reshape(-1, 4)
    faces: list[Loop] = [tuple(square) for square in squares.tolist()]
    if infinite and len(faces) > 1:
        rim = [*at[0, :-1], *at[:-1, -1], *at[-1, :0:-1], *at[:0:-1, 0]]
        faces.append(tuple(int(i) for i in rim))
    return faces


def _faces(edges: Sequence[tuple[int, int]]) -> list[Loop] | None:
    """All faces of a biconnected graph, or None if it is not planar."""
    if len(edges) == len({i for edge in edges for i in edge}):
        return [single_loop(edges)] * 2  # a single loop is its inner and its outer face
    package = _networkx()
    planar, drawing = package.check_planarity(package.Graph(list(edges)))
    if not planar:
        return None
    seen: set[tuple[int, int]] = set()
    found: list[Loop] = []
    for i, j in edges:
        for half in ((i, j), (j, i)):
            if half not in seen:
                found.append(tuple(drawing.traverse_face(*half, mark_half_edges=seen)))
    return found


def _networkx() -> Any:
    try:
        import networkx as package
    except ImportError:
        raise MissingExtraError(
            "planar faces: need networkx unless the graph is a grid; install credo[plot], "
            "or use regions='loops'"
        ) from None
    return package
