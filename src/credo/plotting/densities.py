"""Pictures of what is believed about real variables: one panel per variable, one curve per answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..core.belief import Density, PointMass, curve_points, values_at
from ..core.errors import QueryError
from ..core.result import Marginals, Result
from .beliefs import marginals_of
from .style import COLOURS, INK, Size, add_legend, panels, tidy

__all__ = ["plot_densities"]

MOST_PANELS = 24
PANELS_PER_ROW = 4
REACH = 5.0  # standard deviations shown around the means
POINTS = 801  # of one density, those beyond REACH included


def plot_densities(
    answers: Mapping[str, Any] | Result,
    names: Iterable[str] | None = None,
    *,
    ax: Any = None,
    figsize: Size | None = None,
) -> Any:
    """Curves of the densities of real variables.

    Parameters
    ----------
    answers
        A result, its marginals, or a mapping label -> result or marginals, drawn over each other.
    names
        Which variables, in this order; by default all real ones, at most 24.
    ax
        Matplotlib axes to draw one variable into; by default a new figure is made.
    figsize
        Width and height of the new figure in inches; by default what the panels need.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import credo
    >>> net = credo.GaussianNet([[2.0, 0.5], [0.5, 1.0]])
    >>> figure = credo.plotting.plot_densities({"exact": credo.infer(net, "gaussian")})
    >>> [panel.get_title(loc="left") for panel in figure.axes]
    ['x0', 'x1']
    """
    if isinstance(answers, Marginals) or not isinstance(answers, Mapping):
        answers = {"": answers}
    found = {label: marginals_of(answer) for label, answer in answers.items()}
    if not found:
        raise QueryError("plot_densities: expected at least one answer, got none")
    chosen = _choose(next(iter(found.values())), names)
    columns = min(PANELS_PER_ROW, len(chosen))
    rows = -(-len(chosen) // columns)
    size = 2.7 * columns, 1.9 * rows + 0.4
    figure, drawn = panels("plot_densities", (rows, columns), size, ax=ax, figsize=figsize)
    for panel, name in zip(drawn.flat, chosen, strict=False):
        _curves(panel, name, {label: answer[name] for label, answer in found.items()})
    for panel in list(drawn.flat)[len(chosen) :]:
        panel.set_axis_off()
    if len(found) > 1:
        add_legend(figure, ax, drawn[0, 0].get_lines()[-len(found) :], list(found))
    return figure


def _choose(beliefs: Marginals, names: Iterable[str] | None) -> list[str]:
    """The variables to draw."""
    chosen = [n for n in beliefs if _is_curve(beliefs[n])] if names is None else list(names)
    if not chosen and names is None:
        raise QueryError("plot_densities: the answer has no densities of real variables; use plot_beliefs")
    if not 1 <= len(chosen) <= MOST_PANELS:
        raise QueryError(
            f"plot_densities: expected 1 to {MOST_PANELS} real variables, got {len(chosen)}; "
            "choose some with names=[...]"
        )
    return chosen


def _is_curve(marginal: Any) -> bool:
    return (
        isinstance(marginal, Density) and not isinstance(marginal, PointMass) and np.ndim(marginal.mean) == 0
    )


def _curves(panel: Any, name: str, densities: Mapping[str, Any]) -> None:
    for label, density in densities.items():
        if not _is_curve(density):
            raise QueryError(f"plot_densities: '{name}' has no density of a real variable in '{label}'")
    # Curves that are already there stay in view and keep their colours.
    before = len(panel.lines)
    ends = list(panel.get_xlim()) if before else []
    ends += [d.mean + side * REACH * d.sd for d in densities.values() for side in (-1, 1)]
    x = curve_points(densities.values(), POINTS)
    for k, (label, density) in enumerate(densities.items(), start=before):
        colour = COLOURS[k % len(COLOURS)]
        panel.plot(x, values_at(density, x), color=colour, linewidth=1.4, label=label or None)
    if min(ends) < max(ends):
        panel.set_xlim(min(ends), max(ends))
    panel.set_ylim(bottom=0)
    panel.set_yticks([])
    panel.set_title(name, fontsize=9, color=INK, loc="left")
    tidy(panel)
