"""Pictures of region graphs: one box per region, roots on top, counting numbers beside the names."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.errors import QueryError, UnsupportedError
from ..core.factor_graph import FactorGraph, Model
from ..structures.region_builders import region_graph
from ..structures.regions import RegionGraph
from .layout import place_layers
from .style import COLOURS, FAINT, INK, Size, require, sheet

__all__ = ["plot_regions"]

MOST_REGIONS = 400
CHARACTER = 0.072  # inches per character of the labels
HEIGHT = 0.42  # of a box
FACES = {1: "#DCEBF7", 0: "#F2F2F2", -1: "#FBE9D0"}  # by the sign of the counting number


def plot_regions(regions: RegionGraph | Model, *, ax: Any = None, figsize: Size | None = None) -> Any:
    """Draw a region graph.

    Every box names the variables of a region, with its counting number below; blue boxes count
    positively, orange ones negatively, grey ones not at all.

    Parameters
    ----------
    regions
        The region graph, as made by `credo.structures.region_graph`; or a model, whose default regions are
        drawn.
    ax
        Matplotlib axes to draw into; by default a new figure is made.
    figsize
        Width and height of the new figure in inches; by default what the boxes need.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import credo
    >>> from credo.plotting import plot_regions
    >>> figure = plot_regions(credo.datasets.ising_grid(3))
    >>> len(figure.axes[0].patches)
    9
    """
    if not isinstance(regions, RegionGraph):
        regions = _default(regions)
    if len(regions) > MOST_REGIONS:
        raise UnsupportedError(
            f"plot_regions: expected at most {MOST_REGIONS} regions, got {len(regions)}; draw a smaller model"
        )
    labels = [" ".join(regions.names(r)) for r in range(len(regions))]
    widths = np.array([CHARACTER * max(len(label), 3) + 0.24 for label in labels])
    found = place_layers(widths.tolist(), regions.edges, spacing=1.1)
    half = np.stack([widths, np.full(len(widths), HEIGHT)], axis=1) / 2
    corners = np.concatenate([found.positions - half, found.positions + half])
    corners = corners if len(corners) else np.zeros((1, 2))
    low, high = corners.min(axis=0) - 0.2, corners.max(axis=0) + 0.2
    axes, scale = sheet("plot_regions", low, high, ax=ax, figsize=figsize)
    lines = require("matplotlib.collections").LineCollection(
        found.routes, colors=FAINT, linewidths=scale, zorder=1
    )
    axes.add_collection(lines)
    _boxes(axes, regions, labels, found.positions, widths, scale)
    return axes.figure.figure


def _default(model: Any) -> RegionGraph:
    graph = model.to_factor_graph() if isinstance(model, Model) else None
    tables = graph.as_tables() if isinstance(graph, FactorGraph) else None
    if tables is None:
        raise QueryError(
            "plot_regions: expected a region graph or a model of discrete variables, "
            f"got {type(model).__name__}; make one with credo.structures.region_graph(graph)"
        )
    return region_graph(tables)


def _boxes(
    axes: Any,
    regions: RegionGraph,
    labels: list[str],
    positions: np.ndarray,
    widths: np.ndarray,
    scale: float,
) -> None:
    box = require("matplotlib.patches").FancyBboxPatch
    for (x, y), label, width, count in zip(positions, labels, widths, regions.counting.tolist(), strict=True):
        face = FACES[int(np.sign(count))]
        rim = COLOURS[1] if count < 0 else COLOURS[0]
        axes.add_patch(
            box(
                (x - width / 2 + 0.05, y - HEIGHT / 2 + 0.05),
                width - 0.1,
                HEIGHT - 0.1,
                boxstyle="round,pad=0.05",
                facecolor=face,
                edgecolor=rim,
                linewidth=scale,
                zorder=2,
            )
        )
        axes.text(x, y + 0.02, label, ha="center", va="bottom", fontsize=8 * scale, color=INK, zorder=3)
        axes.text(x, y - 0.02, f"{count:+d}", ha="center", va="top", fontsize=7 * scale, color=INK, zorder=3)
