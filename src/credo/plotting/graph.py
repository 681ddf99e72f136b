"""Pictures of models: Bayesian networks as arrows, other models as factor or pairwise graphs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from ..core import check
from ..core.errors import UnsupportedError
from ..core.evidence import Evidence
from ..core.factor_graph import FactorGraph, Model
from .layout import lattice_columns, layered, spread
from .style import COLOURS, FAINT, INK, new_figure, require

__all__ = ["plot_model"]

Style = Literal["auto", "directed", "factors", "pairwise"]

MOST_VARIABLES = 2000
MOST_LABELS = 150  # with more variables than this they are dots without names
CHARACTER = 0.078  # inches per character of the labels
HEIGHT = 0.34  # of a variable with a label
LONGEST_SIDE = 40.0  # inches; larger drawings are scaled down


def plot_model(
    model: Model,
    *,
    style: Style = "auto",
    evidence: Mapping[str, Any] | None = None,
    positions: Mapping[str, tuple[float, float]] | None = None,
) -> Any:
    """Draw the structure of a model.

    Parameters
    ----------
    model
        Anything with `to_factor_graph()`.
    style
        "directed": arrows from parents to children (the model must have `parents`);
        "factors": round variables and square factors; "pairwise": variables joined when they
        share a factor. "auto" takes arrows if the model has parents, lines if no factor has
        more than two variables and there are more than twelve variables, squares otherwise.
    evidence
        Observed variables are drawn dark, with their state.
    positions
        Name -> (x, y) in inches for the styles "pairwise" and "factors"; by default the
        layout is found from the graph, and grids numbered row by row are drawn as grids.

    Returns
    -------
    matplotlib.figure.Figure
    """
    check.one_of("style", style, ("auto", "directed", "factors", "pairwise"))
    graph = model.to_factor_graph()
    if len(graph.variables) > MOST_VARIABLES:
        raise UnsupportedError(
            f"plot_model: expected at most {MOST_VARIABLES} variables, got {len(graph.variables)}; "
            "draw a part of the model"
        )
    if style == "auto":
        style = _choose(model, graph)
    elif style == "directed" and not hasattr(model, "parents"):
        raise UnsupportedError(
            f"plot_model: style 'directed' needs a model with parents, got {type(model).__name__}; "
            "use style='factors'"
        )
    labels, observed = _labels(graph, evidence)
    if style == "directed":
        drawing = _directed(model, graph, labels)
    else:
        drawing = _undirected(graph, style, labels, positions)
    return drawing.figure(labels, observed)


def _choose(model: Model, graph: FactorGraph) -> Style:
    if hasattr(model, "parents"):
        return "directed"
    widest = int(np.diff(graph.scope_start).max(initial=0))
    return "pairwise" if widest <= 2 and len(graph.variables) > 12 else "factors"


def _labels(graph: FactorGraph, evidence: Mapping[str, Any] | None) -> tuple[list[str], np.ndarray]:
    """The text of each variable (empty if there are too many), and which are observed."""
    variables = graph.variables
    checked = Evidence.of(variables, evidence)
    observed = checked.states >= 0
    for i, _ in checked.likelihoods:
        observed[i] = True
    if len(variables) > MOST_LABELS:
        return [""] * len(variables), observed
    labels = [
        f"{name} = {variables[i].label(int(state))}" if state >= 0 else name
        for i, (name, state) in enumerate(zip(variables.names, checked.states, strict=True))
    ]
    return labels, observed


def _width(label: str) -> float:
    return max(HEIGHT, CHARACTER * len(label) + 0.26) if label else 0.16


class _Drawing:
    """Positions, edges and factor squares, ready to be painted."""

    def __init__(
        self,
        positions: np.ndarray,
        routes: list[np.ndarray],
        squares: np.ndarray | None = None,
        arrows: list[tuple[int, int]] | None = None,
    ) -> None:
        self.positions = positions  # (n, 2) centres of the variables
        self.routes = routes  # per edge the points it passes
        self.squares = np.empty((0, 2)) if squares is None else squares  # (m, 2) centres of the factors
        self.arrows = arrows  # (parent, child) per edge, None for lines

    def figure(self, labels: list[str], observed: np.ndarray) -> Any:
        widths = np.array([_width(label) for label in labels])
        heights = np.array([HEIGHT if label else 0.16 for label in labels])
        low, high = self._corners(widths, heights)
        size = high - low
        scale = min(1.0, LONGEST_SIDE / float(size.max()))
        figure = new_figure(float(size[0]) * scale, float(size[1]) * scale, arranged=False)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
        axes.set_axis_off()
        self._edges(axes, widths, heights)
        self._factors(axes)
        self._variables(axes, labels, observed, (widths, heights), scale)
        return figure

    def _corners(self, widths: np.ndarray, heights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rectangle around everything, with a margin."""
        half = np.stack([widths, heights], axis=1) / 2
        every = np.concatenate([self.positions - half, self.positions + half, self.squares, *self.routes])
        every = every if len(every) else np.zeros((1, 2))
        return every.min(axis=0) - 0.2, every.max(axis=0) + 0.2

    def _edges(self, axes: Any, widths: np.ndarray, heights: np.ndarray) -> None:
        patches, paths = require("matplotlib.patches"), require("matplotlib.path")
        if self.arrows is None:
            lines = require("matplotlib.collections").LineCollection(
                self.routes, colors=FAINT, linewidths=1.2, zorder=1
            )
            axes.add_collection(lines)
            return
        for route, ends in zip(self.routes, self.arrows, strict=True):
            half = [np.array([widths[i], heights[i]]) / 2 for i in ends]
            points = route.copy()
            points[0] = _rim(route[0], route[1], half[0])
            points[-1] = _rim(route[-1], route[-2], half[1] + 0.02)
            path = paths.Path(*_smooth(points, paths.Path))
            arrow = patches.FancyArrowPatch(
                path=path, arrowstyle="-|>", mutation_scale=9, color="#555555", linewidth=1.0, zorder=1
            )
            axes.add_patch(arrow)

    def _factors(self, axes: Any) -> None:
        if len(self.squares):
            axes.plot(*self.squares.T, linestyle="", marker="s", markersize=6, color=INK, zorder=2)

    def _variables(
        self, axes: Any, labels: list[str], observed: np.ndarray, sizes: tuple[Any, Any], scale: float
    ) -> None:
        ellipse = require("matplotlib.patches").Ellipse
        for (x, y), label, seen, w, h in zip(self.positions, labels, observed, *sizes, strict=True):
            face = "#5A5A5A" if seen else "#DCEBF7"
            rim = INK if seen else COLOURS[0]
            axes.add_patch(ellipse((x, y), w, h, facecolor=face, edgecolor=rim, linewidth=1.0, zorder=3))
            if label:
                ink = "white" if seen else INK
                axes.text(
                    x, y, label, ha="center", va="center_baseline", fontsize=8.5 * scale, color=ink, zorder=4
                )


def _directed(model: Any, graph: FactorGraph, labels: list[str]) -> _Drawing:
    position = graph.variables.position
    edges = [(position(p), position(child)) for child, names in model.parents.items() for p in names]
    found = layered([_width(label) for label in labels], edges)
    return _Drawing(found.positions, found.routes, arrows=edges)


def _undirected(
    graph: FactorGraph, style: Style, labels: list[str], given: Mapping[str, tuple[float, float]] | None
) -> _Drawing:
    n = len(graph.variables)
    joined = _pairs(graph)
    # Room for the widest label between two joined variables.
    room = max([_width(label) for label in labels], default=0.3) + 0.35
    squares = np.empty((0, 2))
    if given is not None:
        points = np.array([given[name] for name in graph.variables.names], dtype=np.float64).reshape(-1, 2)
    else:
        columns = lattice_columns(n, joined)
        if columns is not None:
            step = max(room, 0.45)
            points = np.array([(i % columns, -(i // columns)) for i in range(n)]) * [
                step,
                max(0.8 * step, 0.45),
            ]
        elif style == "pairwise":
            points = spread(n, sorted(joined), room)
        else:
            wires = [(int(i), n + a) for a in range(graph.n_factors) for i in graph.scope_of(a)]
            both = spread(n + graph.n_factors, wires, max(0.6, 0.62 * room))
            points, squares = both[:n], both[n:]
    if style == "pairwise":
        return _Drawing(points, [points[[i, j]] for i, j in sorted(joined)])
    if not len(squares):
        squares = _between(graph, points)
    routes = [
        np.stack([points[int(i)], squares[a]]) for a in range(graph.n_factors) for i in graph.scope_of(a)
    ]
    return _Drawing(points, routes, squares)


def _between(graph: FactorGraph, points: np.ndarray) -> np.ndarray:
    """Factors in the middle of their variables; factors of one variable above and to the right."""
    middle = np.zeros((graph.n_factors, 2))
    for a in range(graph.n_factors):
        scope = graph.scope_of(a)
        middle[a] = points[scope].mean(axis=0) if len(scope) else 0.0
        if len(scope) == 1:
            middle[a] += [0.3, 0.3]
    return middle


def _pairs(graph: FactorGraph) -> set[tuple[int, int]]:
    pairs = set()
    for a in range(graph.n_factors):
        scope = sorted(int(i) for i in graph.scope_of(a))
        pairs |= {(i, j) for k, i in enumerate(scope) for j in scope[k + 1 :]}
    return pairs


def _rim(centre: np.ndarray, towards: np.ndarray, half: np.ndarray) -> np.ndarray:
    """Where the line from the centre of an ellipse towards a point leaves it."""
    step = towards - centre
    reach = float(np.sqrt(((step / half) ** 2).sum()))
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
