"""Pictures of a run: what changed from step to step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..core.errors import QueryError
from ..core.result import Result
from .style import COLOURS, FAINT, new_figure, require, tidy

__all__ = ["plot_trace"]


def plot_trace(result: Result, names: Iterable[str] | None = None) -> Any:
    """One panel per recorded quantity of an iterative run, over its steps.

    Quantities that are positive and span more than two decades (such as `change`) get a
    logarithmic axis.

    Parameters
    ----------
    result
        The result of an iterative method.
    names
        Which quantities of `result.trace`; by default all.
    """
    if not result.trace:
        raise QueryError(f"plot_trace: {result.algorithm} recorded no trace; only iterative methods have one")
    chosen = list(result.trace) if names is None else list(names)
    unknown = [n for n in chosen if n not in result.trace]
    if unknown:
        raise QueryError(f"plot_trace: no quantity named {unknown[0]!r}; there are {sorted(result.trace)}")
    figure = new_figure(6.0, 1.2 + 1.7 * len(chosen))
    panels = figure.subplots(len(chosen), 1, sharex=True, squeeze=False)[:, 0]
    for k, (panel, name) in enumerate(zip(panels, chosen, strict=True)):
        values = np.asarray(result.trace[name], dtype=np.float64)
        steps = np.arange(1, len(values) + 1)
        panel.plot(steps, values, color=COLOURS[k % len(COLOURS)], marker="o", markersize=3, linewidth=1.4)
        if _wide(values):
            panel.set_yscale("log")
        panel.set_ylabel(name, fontsize=9)
        panel.grid(color=FAINT, linewidth=0.4)
        tidy(panel)
    panels[-1].set_xlabel("iteration", fontsize=9)
    panels[-1].xaxis.set_major_locator(require("matplotlib.ticker").MaxNLocator(integer=True))
    panels[0].set_title(f"{result.algorithm}: {result.status.value}", fontsize=10, loc="left")
    return figure


def _wide(values: np.ndarray) -> bool:
    finite = values[np.isfinite(values)]
    return len(finite) > 0 and finite.min() > 0 and finite.max() > 100 * finite.min()
