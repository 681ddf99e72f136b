"""Densities of two numbers in the plane, and the grid of latent numbers that a flow has bent."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import check
from ..core.errors import ModelError, OptionError
from ..core.numbers import float_array
from ..families.base import Family
from ..families.flow import Flow
from .style import COLOURS, INK, Size, panels, tidy

__all__ = ["plot_plane"]

_REACH = 3.0  # of the grid of latent numbers, in standard deviations
_LINES, _POINTS = 13, 81  # of the grid in each direction, and points of a line
_MARGIN = 0.15  # around the data, as a share of their range


def plot_plane(
    model: Any,
    data: Any = None,
    *,
    limits: tuple[float, float, float, float] | None = None,
    grid: int | None = None,
    resolution: int = 121,
    ax: Any = None,
    figsize: Size | None = None,
) -> Any:
    """The density of a family of two numbers, darker where it is higher, with data and a bent grid.

    Parameters
    ----------
    model
        A family with one member (a mixture, a flow, a Gaussian).
    data
        Rows (rows, 2), drawn as points.
    limits
        (left, right, bottom, top); what the data need by default, or else draws from the model.
    grid
        Which member of a flow, or of the flows that a mixture consists of, shows its grid: straight lines of
        latent numbers as they lie among the rows. None shows no grid.
    resolution
        Points of the density on each side.
    ax, figsize
        As for the other pictures.

    Returns
    -------
    matplotlib.figure.Figure
    """
    if not isinstance(model, Family) or len(model) != 1:
        raise ModelError(f"model: expected a family with one member, got {model!r:.80}")
    check.whole("resolution", resolution, 2)
    points = None if data is None else float_array("data", data)
    shown = model.sample(np.zeros(500, int), np.random.default_rng(0)) if points is None else points
    if np.ndim(shown) != 2 or shown.shape[1] != 2:
        raise ModelError(f"plot_plane: expected rows of two numbers, got shape {np.shape(shown)}")
    left, right, bottom, top = _limits(shown) if limits is None else limits
    if not (left < right and bottom < top):
        raise OptionError(f"limits: expected (left, right, bottom, top), got {limits!r}")
    x, y = np.linspace(left, right, resolution), np.linspace(bottom, top, resolution)
    table = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    density = np.exp(model.log_density(table)).reshape(resolution, resolution)
    figure, axes = panels("plot_plane", (1, 1), (4.0, 4.0), ax=ax, figsize=figsize)
    panel = axes[0, 0]
    panel.imshow(density, extent=(left, right, bottom, top), origin="lower", cmap="Blues", aspect="auto")
    if points is not None:
        panel.plot(*points.T, linestyle="", marker=".", markersize=2, color=INK, alpha=0.5)
    if grid is not None:
        for line in _bent_grid(model, grid):
            panel.plot(*line.T, linewidth=0.6, color=COLOURS[1], alpha=0.8)
    panel.set_xlim(left, right)
    panel.set_ylim(bottom, top)
    tidy(panel)
    return figure


def _limits(rows: np.ndarray) -> tuple[float, float, float, float]:
    low, high = np.nanmin(rows, axis=0), np.nanmax(rows, axis=0)
    more = _MARGIN * np.where(high > low, high - low, 1.0)
    return (
        float(low[0] - more[0]),
        float(high[0] + more[0]),
        float(low[1] - more[1]),
        float(high[1] + more[1]),
    )


def _bent_grid(model: Any, member: int) -> list[np.ndarray]:
    """Lines of latent numbers, decoded."""
    flow = model if isinstance(model, Flow) else getattr(model, "components", None)
    if not isinstance(flow, Flow):
        raise ModelError(f"grid: expected a flow or a mixture of flows, got {type(model).__name__}")
    check.whole("grid", member, 0, len(flow))
    ticks, along = np.linspace(-_REACH, _REACH, _LINES), np.linspace(-_REACH, _REACH, _POINTS)
    lines = [np.column_stack([np.full_like(along, tick), along]) for tick in ticks]
    lines += [line[:, ::-1] for line in lines]
    found = flow.decode(np.concatenate(lines), member)
    return np.split(found, len(lines))
