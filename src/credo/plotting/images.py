"""Pictures of many small images side by side, and curves of learning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core import check
from ..core.errors import DataError, OptionError
from ..core.numbers import float_array
from .style import COLOURS, INK, Size, panels, tidy

__all__ = ["plot_curves", "plot_images"]

_GAP = 1  # pixels between images
_SIDE = 0.5  # inches of an image


def plot_images(
    images: Any,
    *,
    shape: tuple[int, int] | None = None,
    columns: int | None = None,
    limits: tuple[float, float] | None = None,
    titles: Any = None,
    ax: Any = None,
    figsize: Size | None = None,
) -> Any:
    """Grey images in a grid: drawn samples, or rows that lead from one image to another.

    Parameters
    ----------
    images
        (images, height, width), or (images, pixels); with one more axis in front, (rows, columns, ...), they
        come as they lie, such as the steps of interpolations.
    shape
        (height, width) of images that come as rows of pixels; square if left out.
    columns
        How many side by side; about as many as there are rows by default.
    limits
        The values of black and white; the least and the largest by default. White is high.
    titles
        One per column.
    ax, figsize
        As for the other pictures.

    Returns
    -------
    matplotlib.figure.Figure
    """
    grid = _grid(images, shape, columns)
    rows, across, height, width = grid.shape
    if limits is None:
        limits = float(np.nanmin(grid)), float(np.nanmax(grid))
    elif not limits[0] < limits[1]:
        raise OptionError(f"limits: expected (black, white) with black below white, got {limits!r}")
    canvas = np.full((rows * (height + _GAP) - _GAP, across * (width + _GAP) - _GAP), np.nan)
    for i in range(rows):
        for j in range(across):
            top, left = i * (height + _GAP), j * (width + _GAP)
            canvas[top : top + height, left : left + width] = grid[i, j]
    inches = (max(1.0, _SIDE * across), max(1.0, _SIDE * rows * height / width))
    figure, axes = panels("plot_images", (1, 1), inches, ax=ax, figsize=figsize)
    panel = axes[0, 0]
    panel.imshow(canvas, cmap="gray", vmin=limits[0], vmax=limits[1], interpolation="nearest")
    panel.set_axis_off()
    if titles is not None:
        named = list(titles)
        if len(named) != across:
            raise OptionError(f"titles: expected {across}, one per column, got {len(named)}")
        for j, name in enumerate(named):
            middle = j * (width + _GAP) + (width - 1) / 2
            panel.text(middle, -1, str(name), ha="center", va="bottom", fontsize=7, color=INK)
    return figure


def plot_curves(
    curves: Mapping[str, Any],
    *,
    x: Any = None,
    xlabel: str = "epoch",
    ylabel: str = "",
    log: bool = False,
    ax: Any = None,
    figsize: Size | None = None,
) -> Any:
    """Curves over epochs or settings; of several runs the mean, with a band from the least to the largest.

    Parameters
    ----------
    curves
        Name -> numbers (steps,), or (runs, steps).
    x
        Where the steps are; 1, 2, ... by default.
    xlabel, ylabel, log
        Of the axes; whether the upright one is logarithmic.
    ax, figsize
        As for the other pictures.

    Returns
    -------
    matplotlib.figure.Figure
    """
    if not curves:
        raise OptionError("curves: expected at least one, got none")
    figure, axes = panels("plot_curves", (1, 1), (5.0, 3.2), ax=ax, figsize=figsize)
    panel = axes[0, 0]
    for k, (name, values) in enumerate(curves.items()):
        found = np.atleast_2d(float_array(f"curve '{name}'", values, error=DataError))
        at = np.arange(1, found.shape[1] + 1) if x is None else float_array("x", x, error=DataError)
        if found.ndim != 2 or at.shape != found.shape[1:]:
            raise DataError(f"curve '{name}': expected {len(at)} numbers per run, got {found.shape[-1]}")
        colour = COLOURS[k % len(COLOURS)]
        panel.plot(at, found.mean(axis=0), color=colour, lw=1.2, marker="o" if len(at) < 12 else None, ms=3,
                   label=name)  # fmt: skip
        if len(found) > 1:
            panel.fill_between(at, found.min(axis=0), found.max(axis=0), color=colour, alpha=0.2, lw=0)
    panel.set_xlabel(xlabel, fontsize=8)
    panel.set_ylabel(ylabel, fontsize=8)
    if log:
        panel.set_yscale("log")
    panel.legend(fontsize=7, frameon=False)
    tidy(panel)
    return figure


def _grid(images: Any, shape: tuple[int, int] | None, columns: int | None) -> np.ndarray:
    """(rows, columns, height, width), blank where the last row is short."""
    found = float_array("images", images, error=DataError)
    if found.ndim not in (2, 3, 4) or not found.size:
        raise DataError(f"images: expected (images, height, width) or rows of pixels, got {found.shape}")
    if shape is not None or found.ndim == 2:
        side = round(found.shape[-1] ** 0.5)
        height, width = shape if shape is not None else (side, side)
        if height * width != found.shape[-1]:
            raise OptionError(f"shape: expected (height, width) of {found.shape[-1]} pixels, got {shape}")
        found = found.reshape(*found.shape[:-1], height, width)
    if found.ndim == 4:
        return found
    count = len(found)
    across = int(np.ceil(np.sqrt(count))) if columns is None else columns
    check.whole("columns", across, 1)
    rows = -(-count // across)
    blank = np.full((rows * across - count, *found.shape[1:]), np.nan)
    return np.concatenate([found, blank]).reshape(rows, across, *found.shape[1:])
