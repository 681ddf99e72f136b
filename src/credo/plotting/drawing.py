"""A drawing of nodes and edges, ready to be painted: positions in inches, y upwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .nodes import Node, palette
from .style import FAINT, INK, LONGEST_SIDE, Size, require, sheet

__all__ = ["Drawing"]

SCREEN = 12.0  # inches of the longer side that fit one
HAIR = 0.35  # points of the thinnest line that is seen
KEY = 0.4  # inches below the drawing for the colours of the states


@dataclass(frozen=True)
class Drawing:
    """Where nodes, edges and factor squares are."""

    positions: np.ndarray  # (n, 2) centres of the variables
    routes: list[np.ndarray]  # per edge the points it passes
    squares: np.ndarray = field(default_factory=lambda: np.empty((0, 2)))  # (m, 2) centres of the factors
    arrows: Sequence[tuple[int, int]] | None = None  # (parent, child) per edge, None for lines
    is_dense: bool = False  # hundreds of nodes: thin lines, on a sheet that fits a screen

    def paint(self, nodes: Sequence[Node], key: Sequence[str], ax: Any, figsize: Size | None) -> Any:
        """The figure, or that of `ax`; `key` names the states whose colours the nodes have."""
        sizes = np.array([node.size for node in nodes]).reshape(-1, 2)
        low, high = self._corners(sizes)
        if key:
            low[1] -= max(KEY, 0.04 * (high[1] - low[1]))
        longest = SCREEN if self.is_dense else LONGEST_SIDE
        axes, scale = sheet("plot_model", low, high, longest=longest, ax=ax, figsize=figsize)
        if self.arrows is None:
            self._lines(axes, scale)
        else:
            self._arrows(axes, nodes, self.arrows, scale)
        if len(self.squares):
            size = (3 if self.is_dense else 6) * scale
            axes.plot(*self.squares.T, linestyle="", marker="s", markersize=size, color=INK, zorder=2)
        for (x, y), node in zip(self.positions, nodes, strict=True):
            node.paint(axes, x, y, scale)
        if key:
            _explain(axes, key)
        return axes.figure.figure

    def _corners(self, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rectangle around everything, with a margin."""
        half = sizes / 2
        every = np.concatenate([self.positions - half, self.positions + half, self.squares, *self.routes])
        every = every if len(every) else np.zeros((1, 2))
        return every.min(axis=0) - 0.2, every.max(axis=0) + 0.2

    def _lines(self, axes: Any, scale: float) -> None:
        width = max(HAIR, (0.7 if self.is_dense else 1.2) * scale)
        lines = require("matplotlib.collections").LineCollection
        axes.add_collection(lines(self.routes, colors=FAINT, linewidths=width, zorder=1))

    def _arrows(
        self, axes: Any, nodes: Sequence[Node], ends: Sequence[tuple[int, int]], scale: float
    ) -> None:
        patches, path = require("matplotlib.patches"), require("matplotlib.path").Path
        width, head, colour = (0.5, 5, "#888888") if self.is_dense else (1.0, 9, "#555555")
        for route, (parent, child) in zip(self.routes, ends, strict=True):
            points = route.copy()
            points[0] = _rim(route[0], route[1], nodes[parent])
            points[-1] = _rim(route[-1], route[-2], nodes[child], 0.02)
            arrow = patches.FancyArrowPatch(
                path=path(*_smooth(points, path)),
                arrowstyle="-|>",
                mutation_scale=head * scale,
                color=colour,
                linewidth=max(HAIR, width * scale),
                zorder=1,
            )
            axes.add_patch(arrow)


def _explain(axes: Any, key: Sequence[str]) -> None:
    """Which colour is which state; mixtures lie between."""
    patch = require("matplotlib.patches").Patch
    handles = [patch(color=colour, label=name) for colour, name in zip(palette(len(key)), key, strict=True)]
    axes.legend(handles=handles, loc="lower left", ncols=8, frameon=False, fontsize=8, handlelength=1.0)


def _rim(centre: np.ndarray, towards: np.ndarray, node: Node, gap: float = 0.0) -> np.ndarray:
    """Where the line from the centre of a node towards a point leaves it."""
    step = towards - centre
    reach = float(np.linalg.norm(step / (np.array(node.size) / 2 + gap), ord=node.norm))
    return np.asarray(centre + step / reach) if reach > 0 else centre


def _smooth(points: np.ndarray, path: Any) -> tuple[np.ndarray, list[int]]:
    """A curve through all points, with the tangent at each along its two neighbours."""
    if len(points) == 2:
        return points, [path.MOVETO, path.LINETO]
    tangent = np.gradient(points, axis=0)
    vertices, codes = [points[0]], [path.MOVETO]
    for k in range(len(points) - 1):
        vertices += [points[k] + tangent[k] / 3, points[k + 1] - tangent[k + 1] / 3, points[k + 1]]
        codes += [path.CURVE4] * 3
    return np.array(vertices), codes
