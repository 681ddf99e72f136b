"""Pictures of normal-form graphs.

Branches are arrows with names, blocks are boxes (grey where nothing is learned), sources are boxes without a
branch that enters, diverters are diamonds, open ends are dots (dark where there is evidence).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.errors import QueryError, UnsupportedError
from ..models.normal_form import Diverter, NormalForm
from .layout import LayeredLayout, place_layers
from .style import COLOURS, INK, Size, require, sheet

__all__ = ["plot_normal_form"]

MOST_PARTS = 300
CHARACTER = 0.075  # inches per character of the labels
HEIGHT = 0.34  # of a box
DIAMOND = 0.3  # from corner to corner
DOT = 0.1  # diameter of an open end
SPACING = 0.95  # between layers
_SUPERSCRIPTS = str.maketrans("0123456789", "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")


def plot_normal_form(
    graph: NormalForm,
    *,
    evidence: Mapping[str, Any] | None = None,
    ax: Any = None,
    figsize: Size | None = None,
) -> Any:
    """Draw a normal-form graph as a block diagram, sources at the top.

    Parameters
    ----------
    graph
        The graph.
    evidence
        Terminal -> state; these ends are drawn dark, with their state.
    ax
        Matplotlib axes to draw into; by default a new figure is made.
    figsize
        Width and height of the new figure in inches; by default what the parts need.

    Returns
    -------
    matplotlib.figure.Figure
    """
    if len(graph.parts) > MOST_PARTS:
        raise UnsupportedError(
            f"plot_normal_form: expected at most {MOST_PARTS} parts, got {len(graph.parts)}; "
            "draw a part of the graph"
        )
    seen = dict(evidence or {})
    for name in seen:
        if name not in graph.terminals:
            raise QueryError(f"evidence: '{name}' is no terminal; there are {list(graph.terminals)}")
    widths = [
        DIAMOND if isinstance(part, Diverter) else max(0.5, CHARACTER * len(part.name) + 0.2)
        for part in graph.parts
    ]
    edges, ends = [], []
    for i in range(len(graph.branches)):
        pair = []
        for u in (graph.wiring.tail[i], graph.wiring.head[i]):
            pair.append(int(u) if u >= 0 else len(widths))
            if u < 0:
                ends.append((len(widths), i))
                widths.append(max(0.3, 2 * CHARACTER * len(graph.branches.names[i])))
        edges.append((pair[0], pair[1]))
    found = place_layers(widths, edges, SPACING)
    low, high = _corners(graph, found.positions, widths)
    axes, scale = sheet("plot_normal_form", low, high, ax=ax, figsize=figsize)
    _paint(axes, graph, seen, found, widths, ends, scale)
    return axes.figure.figure


def _corners(graph: NormalForm, places: np.ndarray, widths: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """The rectangle around everything, with a margin."""
    half = np.stack([np.array(widths) / 2, np.full(len(widths), HEIGHT / 2)], axis=1)
    low, high = (places - half).min(axis=0) - 0.25, (places + half).max(axis=0) + 0.25
    # Names of branches stand to the right of their arrows.
    high[0] += CHARACTER * max((len(name) for name in graph.branches.names), default=0)
    return low, high


def _paint(
    axes: Any,
    graph: NormalForm,
    seen: Mapping[str, Any],
    found: LayeredLayout,
    widths: list[float],
    ends: list[tuple[int, int]],
    scale: float,
) -> None:
    for i, route in enumerate(found.routes):
        reach = [
            DOT / 2 if u < 0 else _reach(graph.parts[u]) for u in (graph.wiring.tail[i], graph.wiring.head[i])
        ]
        _arrow(axes, route, reach, graph.branches.names[i], seen, scale)
    for part, place, width in zip(graph.parts, found.positions, widths, strict=False):
        _part(axes, part, place, width, scale)
    for u, i in ends:
        face = INK if graph.branches.names[i] in seen else "white"
        circle = require("matplotlib.patches").Circle(
            found.positions[u], DOT / 2, facecolor=face, edgecolor=INK, linewidth=scale, zorder=3
        )
        axes.add_patch(circle)


def _reach(part: Any) -> float:
    return DIAMOND / 2 if isinstance(part, Diverter) else HEIGHT / 2


def _arrow(
    axes: Any, route: np.ndarray, reach: list[float], name: str, seen: Mapping[str, Any], scale: float
) -> None:
    """Leave at the bottom of a part, enter at the top of the next; bends where the layout says."""
    patches, path = require("matplotlib.patches"), require("matplotlib.path").Path
    points = route.copy()
    points[0, 1] -= reach[0]
    points[-1, 1] += reach[1]
    arrow = patches.FancyArrowPatch(
        path=path(points),
        arrowstyle="-|>",
        mutation_scale=8 * scale,
        color="#555555",
        linewidth=scale,
        zorder=1,
        shrinkA=0,
        shrinkB=0,
    )
    axes.add_patch(arrow)
    ends = points[len(points) // 2 - 1 : len(points) // 2 + 1]
    middle, (across, down) = ends.mean(axis=0), ends[1] - ends[0]
    shift = 0.05 + 0.07 * abs(across / down)  # clear of a slanted arrow over the height of the text
    text = _superscript(name)
    text = f"{text} = {seen[name]}" if name in seen and np.ndim(seen[name]) == 0 else text
    axes.text(
        middle[0] + shift,
        middle[1],
        text,
        ha="left",
        va="center",
        fontsize=7.5 * scale,
        color=COLOURS[0],
        zorder=4,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.8},
    )


def _superscript(name: str) -> str:
    """A copy "S^2" of a variable as the papers write it, with its number raised."""
    stem, mark, number = name.rpartition("^")
    if not mark or not number.isdecimal():
        return name
    return f"{stem}\u207d{number.translate(_SUPERSCRIPTS)}\u207e"


def _part(axes: Any, part: Any, place: np.ndarray, width: float, scale: float) -> None:
    patches = require("matplotlib.patches")
    if isinstance(part, Diverter):
        corners = place + np.array([(0, 1), (1, 0), (0, -1), (-1, 0)]) * DIAMOND / 2
        axes.add_patch(patches.Polygon(corners, facecolor="white", edgecolor=INK, linewidth=scale, zorder=3))
        axes.text(*place, "=", ha="center", va="center_baseline", fontsize=8 * scale, color=INK, zorder=4)
        return
    corner = place - np.array([width, HEIGHT]) / 2
    face = "#D0D0D0" if part.fixed else "#DCEBF7"
    rim = INK if part.fixed else COLOURS[0]
    axes.add_patch(
        patches.Rectangle(corner, width, HEIGHT, facecolor=face, edgecolor=rim, linewidth=scale, zorder=3)
    )
    axes.text(*place, part.name, ha="center", va="center_baseline", fontsize=8 * scale, color=INK, zorder=4)
