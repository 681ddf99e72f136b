"""Picture of a comparison: time and errors, one bar per method."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..core.errors import QueryError
from .style import COLOURS, FAINT, INK, Size, panels, require, tidy

__all__ = ["plot_comparison"]

NEGLIGIBLE = 1e-12  # errors below are rounding: drawn as none, so that they do not stretch the axis

Values = list[float | None]  # one per method, None where it has no answer to this


def plot_comparison(
    comparison: Any,
    names: Iterable[str] | None = None,
    *,
    ax: Any = None,
    figsize: Size | None = None,
) -> Any:
    """Bars of time and of error for every method that answered.

    Parameters
    ----------
    comparison
        What `credo.compare` returned. The errors are the largest total variation of a
        marginal and the absolute error of log Z; after a maximisation, the shortfall of the
        assignment's score. Errors below 1e-12 have no bar and are labelled 0.
    names
        Which panels of "seconds", "max TV" (after a maximisation "score below the best") and
        "|log Z error|"; by default all.
    ax
        Matplotlib axes to draw one panel into; by default a new figure is made.
    figsize
        Width and height of the new figure in inches; by default what the methods need.

    Returns
    -------
    matplotlib.figure.Figure
    """
    rows = [row for row in comparison.rows if row.answered]
    if not rows:
        raise QueryError("plot_comparison: no method answered, so there is nothing to draw")
    measured = _measure(rows, comparison.maximised)
    chosen = list(measured) if names is None else list(names)
    unknown = [name for name in chosen if name not in measured]
    if unknown or not chosen:
        got = repr(unknown[0]) if unknown else "no name"
        raise QueryError(f"plot_comparison: expected names of {list(measured)}, got {got}")
    size = 3.2 * len(chosen) + 1.4, 1.1 + 0.34 * len(rows)
    figure, drawn = panels("plot_comparison", (1, len(chosen)), size, ax=ax, figsize=figsize, sharey=True)
    for axes, name in zip(drawn[0], chosen, strict=True):
        _bars(axes, name, measured[name], COLOURS[list(measured).index(name)])
    drawn[0, 0].set_yticks(range(len(rows)), [row.method for row in rows])
    drawn[0, 0].set_ylim(len(rows) - 0.4, -0.6)
    title = f"errors relative to {comparison.reference}"
    if ax is None:
        figure.suptitle(title, fontsize=10, color=INK)
    else:
        ax.set_title(title, fontsize=10, color=INK)
    return figure


def _measure(rows: list[Any], maximised: bool) -> dict[str, Values]:
    """Name of a panel -> what each method has there."""
    found: dict[str, Values] = {"seconds": [row.seconds for row in rows]}
    if maximised:
        best = max((row.score for row in rows if row.score is not None), default=0.0)
        found["score below the best"] = [None if row.score is None else best - row.score for row in rows]
    else:
        found["max TV"] = [row.max_tv for row in rows]
    found["|log Z error|"] = [None if row.log_z_error is None else abs(row.log_z_error) for row in rows]
    return found


def _bars(axes: Any, title: str, values: Values, colour: str) -> None:
    known = {k: 0.0 if v < NEGLIGIBLE else v for k, v in enumerate(values) if v is not None}
    seen = [v for v in known.values() if v > 0]
    # Bars begin at a power of ten, so that there is a number on the axis.
    low, high = (10 ** np.floor(np.log10(min(seen) / 1.5)), max(seen)) if seen else (0.0, 1.0)
    if seen:
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(require("matplotlib.ticker").NullFormatter())
        # The label needs about a fifth of the axis to the right of the longest bar.
        axes.set_xlim(low, high * max(high / low, 100.0) ** 0.25)
    else:
        axes.set_xlim(low, high)
        axes.set_xticks([0.0])
    # A logarithmic axis has no zero: a bar as long as the axis' beginning is none.
    bars = axes.barh(list(known), [max(v, low) for v in known.values()], height=0.6, color=colour)
    axes.bar_label(bars, [f"{v:.2g}" for v in known.values()], padding=3, fontsize=7, color=INK)
    axes.set_xlabel(title, fontsize=9)
    axes.grid(axis="x", color=FAINT, linewidth=0.4)
    axes.set_axisbelow(True)
    tidy(axes)
