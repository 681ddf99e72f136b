"""Pictures of a run: what changed from step to step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.errors import QueryError
from ..core.result import Result
from .style import COLOURS, FAINT, Size, panels, require, tidy

if TYPE_CHECKING:
    from ..learning.base import Fit

__all__ = ["plot_trace"]


def plot_trace(
    result: Result | Fit,
    names: Iterable[str] | None = None,
    *,
    ax: Any = None,
    figsize: Size | None = None,
) -> Any:
    """One panel per recorded quantity of an iterative run, over its steps.

    Quantities that are positive and span more than two decades (such as `change`) get a
    logarithmic axis. Runs drawn into the same axes one after the other get their own colours
    and a legend.

    Parameters
    ----------
    result
        The result of an iterative method, or what `fit` found.
    names
        Which quantities of `result.trace`; by default all. A `Fit` has its "objective" too.
    ax
        Matplotlib axes to draw one quantity into; by default a new figure is made.
    figsize
        Width and height of the new figure in inches; by default what the panels need.

    Returns
    -------
    matplotlib.figure.Figure
    """
    title, trace, last = _read_trace(result)
    if not trace:
        raise QueryError(f"plot_trace: {title} recorded no trace; only iterative methods have one")
    chosen = list(trace) if names is None else list(names)
    unknown = [n for n in chosen if n not in trace]
    if unknown:
        raise QueryError(f"plot_trace: no quantity named {unknown[0]!r}; there are {sorted(trace)}")
    figure, drawn = panels(
        "plot_trace",
        (len(chosen), 1),
        (6.0, 1.2 + 1.7 * len(chosen)),
        ax=ax,
        figsize=figsize,
        sharex=True,
    )
    for k, (panel, name) in enumerate(zip(drawn[:, 0], chosen, strict=True)):
        values = np.asarray(trace[name], dtype=np.float64)
        steps = np.arange(len(values)) + (1 if last is None else last - len(values) + 1)
        _line(panel, name, steps, values, k + len(panel.lines), title)
    lowest = drawn[-1, 0]
    lowest.set_xlabel("iteration", fontsize=9)
    lowest.xaxis.set_major_locator(require("matplotlib.ticker").MaxNLocator(integer=True))
    _head(drawn[0, 0], f"{title}: {result.status.value}")
    return figure


def _head(panel: Any, title: str) -> None:
    """How the run ended; where there are several, which is which."""
    several = len(panel.lines) > 1
    panel.set_title("" if several else title, fontsize=10, loc="left")
    if several:
        panel.legend(frameon=False, fontsize=8)


def _line(panel: Any, name: str, steps: np.ndarray, values: np.ndarray, number: int, title: str) -> None:
    colour = COLOURS[number % len(COLOURS)]
    panel.plot(steps, values, color=colour, marker="o", markersize=3, linewidth=1.4, label=title)
    together = np.concatenate([line.get_ydata() for line in panel.lines])
    panel.set_yscale("log" if _wide(together) else "linear")
    panel.set_ylabel(name, fontsize=9)
    panel.grid(color=FAINT, linewidth=0.4)
    tidy(panel)


def _read_trace(result: Any) -> tuple[str, dict[str, np.ndarray], int | None]:
    """What ran, its quantities and, for learning, which records the start too, the last step's number."""
    from ..learning.base import Fit

    if isinstance(result, Result):
        return result.algorithm, result.trace, None
    if isinstance(result, Fit):
        curves = {"objective": result.objective, **result.trace}
        return result.learner, {n: v for n, v in curves.items() if len(v)}, len(result.objective) - 1
    raise QueryError(f"plot_trace: expected a Result or a Fit, got {type(result).__name__}")


def _wide(values: np.ndarray) -> bool:
    finite = values[np.isfinite(values)]
    return len(finite) > 0 and finite.min() > 0 and finite.max() > 100 * finite.min()
