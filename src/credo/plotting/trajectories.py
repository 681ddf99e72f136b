"""Pictures of learning in normal-form graphs: how their matrices change from epoch to epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.errors import QueryError
from .style import COLOURS, FAINT, Size, panels, tidy

__all__ = ["plot_trajectories"]


def plot_trajectories(
    runs: Mapping[str, Mapping[str, np.ndarray]],
    *,
    parameters: Sequence[str] | None = None,
    truth: Mapping[str, np.ndarray] | None = None,
    ax: Any = None,
    figsize: Size | None = None,
) -> Any:
    """Every coefficient of every matrix against the epoch: a row per matrix, a column per run.

    Parameters
    ----------
    runs
        Title -> trajectories, as `BlockRun.trajectories`: parameter -> (epochs + 1, rows, columns).
    parameters
        Which matrices; all of the first run by default.
    truth
        Parameter -> generating matrix, drawn as level lines in a last column. Hidden states have no order, so
        learned coefficients need not equal these.
    ax
        Matplotlib axes to draw one matrix of one run into; by default a new figure is made.
    figsize
        Width and height of the new figure in inches; by default what the panels need.

    Returns
    -------
    matplotlib.figure.Figure
    """
    if not runs or not any(runs.values()):
        raise QueryError("trajectories: expected at least one run that recorded its matrices, got none")
    names = list(next(iter(runs.values()))) if parameters is None else list(parameters)
    for title, found in runs.items():
        absent = [name for name in names if name not in found]
        if absent:
            raise QueryError(
                f"trajectories of {title}: no parameter named {absent[0]!r}; there are {list(found)}"
            )
    columns = len(runs) + (truth is not None)
    figure, grid = panels(
        "plot_trajectories",
        (len(names), columns),
        (1.9 * columns + 0.6, 1.35 * len(names) + 0.5),
        ax=ax,
        figsize=figsize,
        sharex=True,
        sharey=True,
    )
    for row, name in zip(grid, names, strict=True):
        for axes, found in zip(row, runs.values(), strict=False):
            _curves(axes, found[name])
        if truth is not None and name in truth:
            length = len(next(iter(runs.values()))[name])
            _curves(row[-1], np.repeat(np.atleast_2d(truth[name])[None], length, axis=0))
        row[0].set_ylabel(name, fontsize=8)
    for axes, title in zip(grid[0], [*runs, "generator"], strict=False):
        axes.set_title(title, fontsize=9)
    for axes in grid[-1]:
        axes.set_xlabel("epoch", fontsize=8)
    return figure


def _curves(axes: Any, values: np.ndarray) -> None:
    """One colour per row of the matrix."""
    for row in range(values.shape[1]):
        axes.plot(values[:, row], color=COLOURS[row % (len(COLOURS) - 1)], linewidth=0.8)
    axes.set_ylim(-0.03, 1.03)
    axes.grid(color=FAINT, linewidth=0.3)
    tidy(axes)
