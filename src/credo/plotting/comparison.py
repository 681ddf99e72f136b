"""Picture of a comparison: time and errors, one bar per method."""

from __future__ import annotations

from typing import Any

from ..core.errors import QueryError
from .style import COLOURS, FAINT, INK, new_figure, tidy

__all__ = ["plot_comparison"]

FLOOR = 1e-16  # smaller errors are drawn here: a logarithmic axis has no zero


def plot_comparison(comparison: Any) -> Any:
    """Bars of time and of error for every method that answered.

    Parameters
    ----------
    comparison
        What `credo.compare` returned. The errors are the largest total variation of a
        marginal and the absolute error of log Z; after a maximisation, the shortfall of the
        assignment's score. Errors of zero are drawn at 1e-16 and labelled 0.
    """
    rows = [row for row in comparison.rows if row.answered]
    if not rows:
        raise QueryError("plot_comparison: no method answered, so there is nothing to draw")
    panels = [("seconds", [row.seconds for row in rows])]
    if comparison.maximised:
        best = max((row.score for row in rows if row.score is not None), default=0.0)
        panels.append(("score below the best", [None if r.score is None else best - r.score for r in rows]))
    else:
        panels.append(("max TV", [row.max_tv for row in rows]))
    panels.append(("|log Z error|", [None if r.log_z_error is None else abs(r.log_z_error) for r in rows]))
    figure = new_figure(3.2 * len(panels) + 1.4, 1.1 + 0.34 * len(rows))
    for k, (axes, (title, values)) in enumerate(
        zip(figure.subplots(1, len(panels), sharey=True), panels, strict=True)
    ):
        _bars(axes, title, values, COLOURS[k])
        if k == 0:
            axes.set_yticks(range(len(rows)), [row.method for row in rows])
            axes.set_ylim(len(rows) - 0.4, -0.6)
    figure.suptitle(f"errors relative to {comparison.reference}", fontsize=10, color=INK)
    return figure


def _bars(axes: Any, title: str, values: list[float | None], colour: str) -> None:
    known = [(k, v) for k, v in enumerate(values) if v is not None]
    drawn = [max(v, FLOOR) for _, v in known]
    bars = axes.barh([k for k, _ in known], drawn, height=0.6, color=colour)
    axes.bar_label(bars, [f"{v:.2g}" for _, v in known], padding=3, fontsize=7, color=INK)
    axes.set_xscale("log")
    low, high = min(drawn, default=FLOOR), max(drawn, default=1.0)
    # The label needs about a fifth of the axis to the right of the longest bar.
    axes.set_xlim(low / 3, high * max(high / low, 100.0) ** 0.25)
    axes.set_xlabel(title, fontsize=9)
    axes.grid(axis="x", color=FAINT, linewidth=0.4)
    axes.set_axisbelow(True)
    tidy(axes)
