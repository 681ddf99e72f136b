"""Pictures of marginals: bars per variable, and a map for variables that lie on a grid."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..core.errors import QueryError
from ..core.result import Marginals, Result
from .style import COLOURS, INK, Size, add_legend, panels, require, tidy

__all__ = ["marginals_of", "plot_beliefs", "plot_grid"]

MOST_PANELS = 60  # more would be too small to read
PANELS_PER_ROW = 4


def plot_beliefs(
    result: Result | Marginals,
    names: Iterable[str] | None = None,
    compare: Result | Marginals | None = None,
    *,
    labels: tuple[str, str] | None = None,
    ax: Any = None,
    figsize: Size | None = None,
) -> Any:
    """Bars of the marginals, one panel per variable.

    Parameters
    ----------
    result
        A result with marginals, or the marginals.
    names
        Which variables, in this order; by default all, at most 60.
    compare
        A second answer about the same variables, drawn beside the first.
    labels
        What to call the two answers; by default their algorithms.
    ax
        Matplotlib axes to draw one variable into; by default a new figure is made.
    figsize
        Width and height of the new figure in inches; by default what the panels need.

    Returns
    -------
    matplotlib.figure.Figure
    """
    first = marginals_of(result)
    answers = [first] if compare is None else [first, marginals_of(compare)]
    chosen = list(first) if names is None else list(names)
    if not 1 <= len(chosen) <= MOST_PANELS:
        raise QueryError(
            f"plot_beliefs: expected 1 to {MOST_PANELS} variables, got {len(chosen)}; "
            "choose some with names=[...]"
        )
    states = [_states(first, name) for name in chosen]
    deepest = max(len(s) for s in states)
    columns = min(PANELS_PER_ROW, len(chosen))
    rows = -(-len(chosen) // columns)
    size = 2.7 * columns, (0.75 + 0.26 * deepest * max(1, 0.7 * len(answers))) * rows + 0.5
    figure, drawn = panels("plot_beliefs", (rows, columns), size, ax=ax, figsize=figsize)
    for panel, name, of_name in zip(drawn.flat, chosen, states, strict=False):
        _bars(panel, name, of_name, [np.asarray(answer[name]) for answer in answers])
    for panel in list(drawn.flat)[len(chosen) :]:
        panel.set_axis_off()
    if compare is not None:
        bars = drawn[0, 0].containers[-2:]
        add_legend(figure, ax, bars, labels or _captions(result, compare))
    return figure


def plot_grid(
    result: Result | Marginals,
    rows: int,
    columns: int,
    *,
    state: int = 1,
    names: Iterable[str] | None = None,
    ax: Any = None,
    figsize: Size | None = None,
) -> Any:
    """Map of the probability of one state for variables that lie on a grid, row by row.

    Parameters
    ----------
    result
        A result with marginals, or the marginals.
    rows, columns
        Shape of the grid; variable number `row * columns + column` belongs to one cell.
    state
        Index of the state whose probability gives the colour.
    names
        The variables of the grid in that order; by default all variables.
    ax
        Matplotlib axes to draw into; by default a new figure is made.
    figsize
        Width and height of the new figure in inches; by default what the grid needs.

    Returns
    -------
    matplotlib.figure.Figure
    """
    values = _on_grid(marginals_of(result), (rows, columns), state, names)
    scale = min(0.5, 8 / max(rows, columns))
    size = max(3.2, scale * columns + 1.4), max(2.4, scale * rows + 0.7)
    figure, ((axes,),) = panels("plot_grid", (1, 1), size, ax=ax, figsize=figsize)
    image = axes.imshow(values, vmin=0, vmax=1, cmap="cividis")
    if max(rows, columns) <= 12:
        for (r, c), p in np.ndenumerate(values):
            ink = "white" if p < 0.5 else INK
            axes.text(c, r, f"{p:.2f}", ha="center", va="center", color=ink, fontsize=6.5)
    axes.set_xlabel("column", fontsize=9)
    axes.set_ylabel("row", fontsize=9)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(require("matplotlib.ticker").MaxNLocator(8, integer=True))
    axes.tick_params(labelsize=8)
    bar = figure.colorbar(image, ax=axes, shrink=0.9)
    bar.set_label(f"probability of state {state}", fontsize=9)
    bar.ax.tick_params(labelsize=8)
    return figure


def _on_grid(
    beliefs: Marginals, shape: tuple[int, int], state: int, names: Iterable[str] | None
) -> np.ndarray:
    """The probability of the state in every cell."""
    chosen = list(beliefs) if names is None else list(names)
    rows, columns = shape
    if len(chosen) != rows * columns:
        raise QueryError(
            f"plot_grid: expected {rows} x {columns} = {rows * columns} variables, got {len(chosen)}"
        )
    small = next((n for n in chosen if not 0 <= state < len(beliefs[n])), None)
    if small is not None:
        raise QueryError(f"plot_grid: variable '{small}' has no state number {state}")
    return np.array([beliefs[n][state] for n in chosen]).reshape(shape)


def _bars(panel: Any, name: str, states: list[str], answers: list[np.ndarray]) -> None:
    """Horizontal bars, first state on top, the number beside each bar."""
    where = np.arange(len(states))
    thick = 0.8 / len(answers)
    for k, values in enumerate(answers):
        at = where + (k - (len(answers) - 1) / 2) * thick
        bars = panel.barh(at, values, height=0.92 * thick, color=COLOURS[k])
        panel.bar_label(bars, [f"{p:.3f}" for p in values], padding=3, fontsize=7, color=INK)
    panel.set_yticks(where, [s if len(s) <= 18 else f"{s[:17]}…" for s in states])
    panel.set_xlim(0, 1.24)  # room for the number beside a bar of length 1
    panel.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    panel.set_ylim(len(states) - 0.4, -0.6)
    panel.set_title(name, fontsize=9, color=INK, loc="left")
    panel.spines["bottom"].set_bounds(0, 1)
    tidy(panel)


def marginals_of(result: Any) -> Marginals:
    """The marginals of an answer, or an error that says why there are none."""
    if isinstance(result, Marginals):
        return result
    if isinstance(result, Result):
        if result.marginals is None:
            raise QueryError(f"plot: {result._lacks('marginals')}")
        return result.marginals
    raise QueryError(f"plot: expected a Result or its marginals, got {type(result).__name__}")


def _states(beliefs: Marginals, name: str) -> list[str]:
    variables = beliefs._variables
    return list(variables[variables.position(name)].states)


def _captions(first: Any, second: Any) -> tuple[str, str]:
    """The algorithms of two answers, numbered if they are one."""
    pair = [
        answer.algorithm if isinstance(answer, Result) else otherwise
        for answer, otherwise in ((first, "first"), (second, "second"))
    ]
    return (f"{pair[0]} (1)", f"{pair[1]} (2)") if pair[0] == pair[1] else (pair[0], pair[1])
