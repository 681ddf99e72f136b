"""What all pictures share: how figures and axes are made, and their colours.

The categorical colours are the eight of Okabe and Ito, which stay apart under the common
forms of colour blindness; the first ones used are also apart in grey.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from ..core.errors import MissingExtraError, OptionError

__all__ = [
    "COLOURS",
    "FAINT",
    "INK",
    "Size",
    "add_legend",
    "new_figure",
    "panels",
    "require",
    "sheet",
    "tidy",
]

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442", "#000000")
INK = "#222222"  # text and outlines
FAINT = "#B8B8B8"  # grid lines and edges that should not shout
LONGEST_SIDE = 40.0  # inches; a larger drawing is scaled down

Size = tuple[float, float]


def require(module: str) -> Any:
    """Import an optional package, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise MissingExtraError(
            f"pictures need the package '{package}', which is not installed; run: pip install 'credo[plot]'"
        ) from None


def new_figure(width: float, height: float, *, arranged: bool = True) -> Any:
    """An empty figure of this size in inches; `arranged` keeps panels and labels apart."""
    require("matplotlib.figure")
    from .picture import Picture

    engine = require("matplotlib.layout_engine")
    layout: Any = engine.ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08) if arranged else "none"
    return Picture(figsize=(width, height), dpi=150, layout=layout)


def panels(
    subject: str,
    shape: tuple[int, int],
    size: Size,
    *,
    ax: Any = None,
    figsize: Size | None = None,
    sharex: bool = False,
    sharey: bool = False,
) -> tuple[Any, np.ndarray]:
    """The figure and its (rows, columns) axes: those of a new figure, or `ax` where one panel is drawn.

    Parameters
    ----------
    subject
        The function that draws, for its errors.
    shape, size
        Rows and columns; width and height in inches where the caller of `subject` wants no other.
    ax, figsize
        What that caller gave.
    sharex, sharey
        Whether the panels have one scale.
    """
    width, height = _size(subject, size, ax, figsize)
    if ax is None:
        figure = new_figure(width, height)
        return figure, figure.subplots(*shape, sharex=sharex, sharey=sharey, squeeze=False)
    if shape != (1, 1):
        raise OptionError(
            f"{subject}: ax= has room for one panel, got {shape[0] * shape[1]}; "
            "choose what to draw, or leave ax out and take the axes of the figure that is returned"
        )
    return ax.figure.figure, np.array([[ax]])


def sheet(
    subject: str,
    low: np.ndarray,
    high: np.ndarray,
    *,
    longest: float = LONGEST_SIDE,
    ax: Any = None,
    figsize: Size | None = None,
) -> tuple[Any, float]:
    """Frameless axes over the rectangle from `low` to `high`, and how many inches one unit has on paper.

    A new figure has one inch per unit, fewer if a side would be longer than `longest`.
    """
    wanted = high - low
    natural = wanted * min(1.0, longest / float(wanted.max()))
    width, height = _size(subject, (float(natural[0]), float(natural[1])), ax, figsize)
    if ax is None:
        ax = new_figure(width, height, arranged=False).add_axes((0, 0, 1, 1))
    else:
        box = ax.get_position()
        width, height = ax.figure.bbox.size / ax.figure.dpi * (box.width, box.height)
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    ax.set_axis_off()
    return ax, float(min(width / wanted[0], height / wanted[1]))


def _size(subject: str, size: Size, ax: Any, figsize: Size | None) -> Size:
    """The size of the figure, once `ax` and `figsize` are found to be what they should be."""
    if ax is not None and not isinstance(ax, require("matplotlib.axes").Axes):
        raise OptionError(
            f"{subject}: ax must be one pair of Matplotlib axes, got {type(ax).__name__}; "
            "take one of figure.axes"
        )
    if figsize is None:
        return size
    if ax is not None:
        raise OptionError(
            f"{subject}: expected ax or figsize, got both; the size belongs to the figure that holds ax"
        )
    try:
        width, height = (float(inches) for inches in figsize)
    except (TypeError, ValueError):
        width = height = 0.0
    if not (0 < width < np.inf and 0 < height < np.inf):
        raise OptionError(f"{subject}: figsize must be (width, height) in inches, got {figsize!r}")
    return width, height


def add_legend(figure: Any, ax: Any, handles: Any, labels: Any) -> None:
    """A legend above all panels of our figure, or inside the axes that were given."""
    if ax is None:
        figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    else:
        ax.legend(handles, labels, frameon=False, fontsize=8)


def tidy(axes: Any) -> None:
    """Remove what is not information: the top and right frame lines."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(colors=INK, labelsize=8)
