"""Pictures of marginals: bars per variable, and a map for variables that lie on a grid."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..core.errors import QueryError
from ..core.result import Marginals, Result
from .style import COLOURS, INK, new_figure, require, tidy

__all__ = ["marginals_of", "plot_beliefs", "plot_grid"]

MOST_PANELS = 60  # more would be too small to read
PANELS_PER_ROW = 4


def plot_beliefs(
    result: Result | Marginals,
    names: Iterable[str] | None = None,
    compare: Result | Marginals | None = None,
    *,
    labels: tuple[str, str] | None = None,
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

    Returns
    -------
    matplotlib.figure.Figure
    """
    first = marginals_of(result)
    second = None if compare is None else marginals_of(compare)
    chosen = list(first) if names is None else list(names)
    if not 1 <= len(chosen) <= MOST_PANELS:
        raise QueryError(
            f"plot_beliefs: expected 1 to {MOST_PANELS} variables, got {len(chosen)}; "
            "choose some with names=[...]"
        )
    answers = [first] if second is None else [first, second]
    captions = labels or (_caption(result, "first"), _caption(compare, "second"))
    if captions[0] == captions[1]:
        captions = (f"{captions[0]} (1)", f"{captions[1]} (2)")
    columns = min(PANELS_PER_ROW, len(chosen))
    rows = -(-len(chosen) // columns)
    states = [_states(first, name) for name in chosen]
    deepest = max(len(s) for s in states)
    figure = new_figure(2.7 * columns, (0.75 + 0.26 * deepest * max(1, 0.7 * len(answers))) * rows + 0.5)
    panels = figure.subplots(rows, columns, squeeze=False)
    for panel, name, of_name in zip(panels.flat, chosen, states, strict=False):
        _bars(panel, name, of_name, [answer[name] for answer in answers])
    for panel in list(panels.flat)[len(chosen) :]:
        panel.set_axis_off()
    if second is not None:
        handles = panels.flat[0].containers
        figure.legend(handles, captions, loc="outside upper center", ncols=2, frameon=False, fontsize=9)
    return figure


def plot_grid(
    result: Result | Marginals, rows: int, columns: int, *, state: int = 1, names: Iterable[str] | None = None
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
    """
    beliefs = marginals_of(result)
    chosen = list(beliefs) if names is None else list(names)
    if len(chosen) != rows * columns:
        raise QueryError(
            f"plot_grid: expected {rows} x {columns} = {rows * columns} variables, got {len(chosen)}"
        )
    small = next((n for n in chosen if not 0 <= state < len(beliefs[n])), None)
    if small is not None:
        raise QueryError(f"plot_grid: variable '{small}' has no state number {state}")
    values = np.array([beliefs[n][state] for n in chosen]).reshape(rows, columns)
    scale = min(0.5, 8 / max(rows, columns))
    figure = new_figure(max(3.2, scale * columns + 1.4), max(2.4, scale * rows + 0.7))
    axes = figure.subplots()
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


def _caption(result: Any, otherwise: str) -> str:
    return result.algorithm if isinstance(result, Result) else otherwise
